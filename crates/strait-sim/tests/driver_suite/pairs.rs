//! Streams of two nodes whose machines a cable joins: both ends are sockets of nodes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use strait_channel::LinkConfig;
use strait_core::node::{Held, Listen, Refusal, SocketEvent, SocketOp, StreamId, StreamOp};
use strait_core::prefix::Prefix;
use strait_core::{Duration, Instant};
use strait_sim::{Around, Cable, Fault, LinkIndex, NodeIndex, check};
use strait_wire::ip::{Unreachable, tcp_header};

use crate::suite::{Heard, OWNER, Puppet, held, pattern, socket, stream};

const RESET: i32 = 104;
const TIMED_OUT: i32 = 110;
const REFUSED: i32 = 111;
const UNREACHABLE: i32 = 113;

const fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 18, 0, last))
}

/// Where the station listens.
const STATION: SocketAddr = SocketAddr::new(address(2), 5066);

/// A client, a station, and the cable.
struct Pair {
    world: strait_sim::World,
    client: Puppet,
    station: Puppet,
    station_node: NodeIndex,
    cable: LinkIndex,
}

impl Pair {
    fn new() -> Self {
        let mut world = strait_sim::World::new(1);
        world.trace_paths();
        world.keep_fates();
        let [client, station] = [Puppet::default(), Puppet::default()];
        let nodes = [("client", &client), ("station", &station)];
        let nodes = nodes.map(|(name, it)| world.add_node(name, Box::new(it.clone())));
        let kernels = [0, 1].map(|side| {
            let cable = Cable {
                own: Prefix::new(address(side + 1), 30).unwrap(),
                peer: address(2 - side),
            };
            let around = Around {
                cables: vec![cable],
                ..Around::default()
            };
            world.add_kernel(nodes[usize::from(side)], around)
        });
        let cable = LinkConfig::frames(100_000_000, Duration::from_micros(50));
        let [near, far] = kernels;
        let cable = world.join("cable", &cable, near, far).unwrap();
        world.capture();
        Self {
            world,
            client,
            station,
            station_node: nodes[1],
            cable,
        }
    }

    fn run(&mut self, time: Duration) {
        let until = self.world.now() + time;
        self.world.run_until(until);
    }

    fn settle(&mut self) {
        self.run(Duration::from_millis(50));
    }

    fn strike(&mut self, fault: Fault) {
        let now = self.world.now();
        self.world.plan(now, fault);
        self.world.run_until(now);
    }

    fn listen(&mut self, change: impl Fn(&mut Listen)) {
        let mut listen = Listen::at(STATION);
        change(&mut listen);
        self.station.socket(socket(1), SocketOp::Listen(listen));
        self.settle();
        let bound = Heard::Socket(socket(1), SocketEvent::Bound(STATION));
        assert!(self.station.heard().contains(&bound));
    }

    /// The client's stream `n` is there: the station's end of it.
    fn connect(&mut self, n: u64) -> StreamId {
        let before = self.station.clients().len();
        self.client.connect(n, None, STATION, 0);
        self.settle();
        assert_eq!(self.opened(n), 1);
        self.station.clients()[before]
    }

    /// How often the client heard that a stream is there.
    fn opened(&self, n: u64) -> usize {
        let heard = self.client.heard().into_iter();
        let opened = |it: &Heard| matches!(it, Heard::Opened { id, .. } if *id == stream(n));
        heard.filter(opened).count()
    }

    /// What the client heard that ends a stream.
    fn reset(&self, n: u64) -> Option<i32> {
        self.client.heard().into_iter().find_map(|it| match it {
            Heard::Reset(id, error) if id == stream(n) => Some(error),
            _ => None,
        })
    }

    /// The windows that a machine's packets told of, in their order.
    fn windows(&mut self, machine: &str) -> Vec<u16> {
        let files = self.world.take_captures();
        let file = &files[&format!("{machine} kernel.pcapng")];
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (mut at, mut windows) = (0, Vec::new());
        while at < file.len() {
            if word(at) == 6 {
                let length = word(at + 20) as usize;
                let packet = tcp_header(&file[at + 28..at + 28 + length]);
                windows.extend(packet.map(|it| it.window));
            }
            at += word(at + 4) as usize;
        }
        windows
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.world.check();
            assert_eq!(check::violations(&self.world), [""; 0]);
        }
    }
}

#[test]
fn a_client_that_comes_before_the_station_listens_is_refused_and_may_come_again() {
    let mut pair = Pair::new();
    pair.client.connect(0, None, STATION, 0);
    pair.settle();
    assert_eq!((pair.reset(0), pair.opened(0)), (Some(REFUSED), 0));
    pair.listen(|_| ());
    let far = pair.connect(1);
    pair.client.stream(stream(1), StreamOp::Send(pattern(1000)));
    pair.station.stream(far, StreamOp::Credit(1000));
    pair.settle();
    assert_eq!(pair.station.data(far), pattern(1000));
    assert_eq!(pair.reset(1), None);
}

#[test]
fn a_connection_takes_a_round_trip_of_the_cable() {
    let mut pair = Pair::new();
    pair.listen(|_| ());
    pair.run(Duration::from_micros(500));
    let began = pair.world.now();
    pair.client.connect(0, None, STATION, 0);
    while pair.opened(0) == 0 {
        pair.run(Duration::from_micros(10));
    }
    // The client looks once in a millisecond; each way, 50 µs and 60 octets or less.
    let took = pair.world.now().since(began);
    let least = Duration::from_micros(100 + 2 * 3);
    assert!(took >= least, "{took:?}");
    assert!(took < least + Duration::from_micros(1030), "{took:?}");
}

#[test]
fn a_station_killed_in_mid_transfer_resets_its_client_and_refuses_it_until_it_is_back() {
    let mut pair = Pair::new();
    pair.listen(|_| ());
    let far = pair.connect(0);
    pair.client
        .stream(stream(0), StreamOp::Send(pattern(60_000)));
    pair.station.stream(far, StreamOp::Credit(20_000));
    pair.run(Duration::from_millis(3));
    let came = pair.station.data(far).len();
    assert!((1..=20_000).contains(&came), "{came}");
    let node = pair.station_node;
    pair.strike(Fault::Kill(node));
    pair.settle();
    assert_eq!(pair.reset(0), Some(RESET));
    pair.client.connect(1, None, STATION, 0);
    pair.settle();
    assert_eq!(pair.reset(1), Some(REFUSED));
    pair.strike(Fault::Restart(node));
    pair.settle();
    pair.connect(2);
}

#[test]
fn a_cut_cable_is_silence_until_tcp_gives_up() {
    let mut pair = Pair::new();
    pair.listen(|_| ());
    pair.connect(0);
    let cable = pair.cable;
    pair.strike(Fault::Unplug(cable));
    pair.client.stream(stream(0), StreamOp::Send(pattern(100)));
    pair.client.connect(1, None, STATION, 0);
    pair.run(Duration::from_secs(100));
    assert_eq!((pair.reset(0), pair.reset(1)), (None, None));
    // A SYN is repeated ten times, octets fifteen.
    pair.run(Duration::from_secs(50));
    assert_eq!((pair.reset(0), pair.reset(1)), (None, Some(TIMED_OUT)));
    pair.run(Duration::from_secs(900));
    assert_eq!(pair.reset(0), Some(TIMED_OUT));
    // The station has said nothing, and knows nothing.
    let heard = pair.station.heard();
    assert!(!heard.iter().any(|it| matches!(it, Heard::Reset(..))));
    pair.strike(Fault::Plug(cable));
    pair.settle();
    pair.connect(2);
}

#[test]
fn a_slow_stations_credit_reaches_its_client_as_a_closed_window() {
    let mut pair = Pair::new();
    pair.listen(|listen| listen.held = held(4000));
    let op = StreamOp::Connect {
        src: None,
        dst: STATION,
        dscp: 0,
        held: held(4000),
    };
    pair.client.stream(stream(0), op);
    pair.settle();
    let octets = pattern(20_000);
    let mut sent = 0;
    let mut send_what_may = |pair: &Pair| {
        let may = (pair.client.writable(stream(0)) as usize).min(octets.len());
        let part = octets[sent..may.max(sent)].to_vec();
        sent = may.max(sent);
        pair.client.stream(stream(0), StreamOp::Send(part));
        sent
    };
    let mut last = 0;
    for _ in 0..20 {
        last = send_what_may(&pair);
        pair.settle();
    }
    // What waits at both ends, and nothing is on its way. A window of less than a segment isn't
    // told.
    assert!((6000..=8000).contains(&last), "{last}");
    let far = pair.station.clients()[0];
    assert!(pair.station.data(far).is_empty());
    for taken in 1..=10 {
        pair.station.stream(far, StreamOp::Credit(2000));
        // A probe of the window, or word of it, comes within so long.
        for _ in 0..20 {
            pair.settle();
            send_what_may(&pair);
        }
        assert_eq!(pair.station.data(far).len(), 2000 * taken);
    }
    assert_eq!(pair.station.data(far), octets);
    let windows = pair.windows("station");
    let shut = windows.iter().position(|window| *window == 0).unwrap();
    assert!(windows[shut..].iter().any(|window| *window > 0));
}

#[test]
fn each_direction_ends_by_itself() {
    let mut pair = Pair::new();
    pair.listen(|_| ());
    let (near, far) = (stream(0), pair.connect(0));
    pair.client.stream(near, StreamOp::Send(pattern(10)));
    pair.client.stream(near, StreamOp::Fin);
    pair.station.stream(far, StreamOp::Credit(10));
    pair.settle();
    assert_eq!(pair.station.data(far), pattern(10));
    assert!(pair.station.heard().contains(&Heard::Fin(far)));
    pair.station.stream(far, StreamOp::Send(pattern(30_000)));
    pair.station.stream(far, StreamOp::Fin);
    pair.client.stream(near, StreamOp::Credit(30_000));
    pair.settle();
    assert_eq!(pair.client.data(near), pattern(30_000));
    assert!(pair.client.heard().contains(&Heard::Fin(near)));
    assert_eq!(pair.reset(0), None);
}

#[test]
fn a_client_that_is_asked_about_is_refused_in_three_ways() {
    let mut pair = Pair::new();
    pair.listen(|listen| listen.asks = Some(Duration::from_secs(60)));
    let ways = [
        (Refusal::Reset, Some(REFUSED)),
        (
            Refusal::Unreachable(Unreachable::AdminProhibited),
            Some(UNREACHABLE),
        ),
        (Refusal::Silence, None),
    ];
    for (n, (how, told)) in (0..).zip(ways) {
        pair.client.connect(n, None, STATION, 0);
        pair.settle();
        let asked = pair
            .station
            .heard()
            .into_iter()
            .rev()
            .find_map(|it| match it {
                Heard::Asked { id, .. } => Some(id),
                _ => None,
            });
        pair.station.stream(asked.unwrap(), StreamOp::Refuse(how));
        pair.settle();
        assert_eq!((pair.reset(n), pair.opened(n)), (told, 0), "{how:?}");
    }
}

#[test]
fn resets_and_code_points_cross() {
    let mut pair = Pair::new();
    pair.listen(|listen| listen.dscp = 10);
    pair.client.connect(0, None, STATION, 46);
    pair.settle();
    let marked = pair.station.heard().into_iter().find_map(|it| match it {
        Heard::Opened { id, dscp, src, .. } => Some((id, dscp, src.ip())),
        _ => None,
    });
    let (far, dscp, src) = marked.unwrap();
    assert_eq!((far.owner, dscp, src), (OWNER, 46, address(1)));
    pair.client.stream(stream(0), StreamOp::Reset(103));
    pair.settle();
    assert!(pair.station.heard().contains(&Heard::Reset(far, RESET)));
    let far = pair.connect(1);
    pair.station.stream(far, StreamOp::Reset(103));
    pair.settle();
    assert_eq!(pair.reset(1), Some(RESET));
}

#[test]
fn who_is_not_on_the_cable_is_not_there() {
    let mut pair = Pair::new();
    pair.client
        .connect(0, None, SocketAddr::new(address(3), 5066), 0);
    pair.settle();
    assert_eq!(pair.reset(0), Some(UNREACHABLE));
}

#[test]
fn a_node_whose_machine_has_no_kernel_has_no_sockets() {
    let mut world = strait_sim::World::new(1);
    let puppet = Puppet::default();
    world.add_node("alone", Box::new(puppet.clone()));
    puppet.listen(socket(1), STATION, 1000);
    puppet.connect(0, None, STATION, 0);
    world.run_until(Instant::from_millis(10));
    let told = [
        Heard::Socket(socket(1), SocketEvent::Failed(95)),
        Heard::Reset(stream(0), 101),
    ];
    assert_eq!(puppet.heard(), told);
}

#[test]
fn the_same_is_the_same_again() {
    let run = |octets| {
        let mut pair = Pair::new();
        pair.listen(|listen| listen.held = Held::ORDINARY);
        let far = pair.connect(0);
        pair.client
            .stream(stream(0), StreamOp::Send(pattern(octets)));
        pair.station.stream(far, StreamOp::Credit(60_000));
        pair.settle();
        pair.world.hash()
    };
    assert_eq!(run(50_000), run(50_000));
    assert_ne!(run(50_000), run(40_000));
}
