//! A gateway with two host sides: port 0 is the crew's, port 2 that of operations, and the line
//! between them is port 1.

use strait_core::node::{Lead, RouteOp};
use strait_wire::ethernet::{Frame, Mac};

use super::*;
use crate::ethernet::{Claim, Heard, Station};

const CREW: PortId = PortId::HOST;
const OPS: PortId = PortId(2);

const TUNS: &str = r#"
name = "ship"
[[host]]
name = "crew"
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
routes = ["10.3.0.0/24"]
withdraw_after = "1 s"
[[host]]
name = "ops"
interface = "strait1"
addresses = ["10.9.1.1/30", "fd00:9:1::1/64"]
routes = ["10.2.0.0/16"]
metric = 7
withdraw_after = "3 s"
mtu = 1280
[[port]]
name = "line"
kind = "serial"
baud = 9600
[[route]]
prefix = "10.1.0.0/24"
port = "crew"
[[route]]
prefix = "10.3.0.0/24"
port = "ops"
[[route]]
prefix = "fd00:3::/64"
port = "ops"
[[route]]
prefix = "10.2.0.0/16"
port = "line"
"#;

/// The same with the crew on an Ethernet, whose network is known by its address.
const MIXED: &str = r#"
name = "ship"
[[host]]
name = "crew"
kind = "tap"
addresses = ["10.1.0.1/24", "fe80::7/64"]
[[host]]
name = "ops"
interface = "strait1"
addresses = ["10.9.1.1/30"]
networks = ["10.5.0.0/16"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
[[route]]
prefix = "10.3.0.0/24"
port = "ops"
[[route]]
prefix = "10.2.0.0/16"
port = "line"
"#;

const T: Instant = Instant::ZERO;

/// The same on two Ethernets.
fn taps() -> String {
    let tap = "kind = \"tap\"\ninterface = \"strait1\"";
    let text = MIXED.replace("networks = [\"10.5.0.0/16\"]\n", "");
    let text = text.replace("interface = \"strait1\"", tap);
    let route = "[[route]]\nprefix = \"10.3.0.0/24\"\nport = \"ops\"\n";
    assert!(text.contains(route));
    (text.replace(route, "")).replace("10.9.1.1/30", "10.3.0.1/24")
}

fn ship(text: &str) -> Gateway {
    let mut gateway = gateway(text);
    // What it says when its ports come up.
    for port in [CREW, OPS] {
        pull_all(&mut gateway, port, T);
    }
    gateway
}

fn by(port: PortId) -> Hop {
    host_side(port)
}

/// The port by which a packet leaves that came by another one, if any.
fn way(text: &str, from: PortId, src: &str, dst: &str) -> Option<PortId> {
    let mut gateway = ship(text);
    gateway.take_packet(T, udp(src, dst, 100, 0), by(from));
    gateway.check();
    let sent = [CREW, LINE, OPS].into_iter().find(|port| {
        let held = gateway.ports[port.index()].held() > 0;
        held && gateway.stats().originated == 0
    });
    if let Some(port) = sent.filter(|port| *port != LINE) {
        pull_all(&mut gateway, port, T);
        let delivered: Vec<Fate> = fates(&mut gateway).iter().map(|it| it.fate).collect();
        assert!(gateway.lans.contains(&port) || delivered == [Fate::Delivered(port)]);
    }
    sent
}

/// What comes out of a port for the sender of a packet: the error and its source.
fn error(gateway: &mut Gateway, port: PortId) -> (IcmpError, IpAddr) {
    let answer = pull(gateway, port, T, 2000);
    let (error, _) = ip::parse_icmp_error(&answer).unwrap();
    (error, PacketInfo::parse(&answer).unwrap().src)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn spent(src: &str, dst: &str) -> Vec<u8> {
    let mut packet = udp(src, dst, 100, 0);
    for _ in 0..63 {
        assert!(ip::decrement_hop_limit(&mut packet));
    }
    packet
}

#[test]
fn ports_of_links_keep_their_numbers() {
    let ports = |text: &str| -> Vec<String> {
        let gateway = gateway(text);
        let ports = gateway.stats().ports.iter();
        ports.map(|port| port.name.clone()).collect()
    };
    assert_eq!(ports(TUNS), ["crew", "line", "ops"]);
    assert_eq!(ports(SERIAL), ["host", "line"]);
}

#[test]
fn what_comes_by_a_link_goes_to_the_host_side_that_has_it() {
    for (dst, port) in [
        ("10.1.0.2", CREW),
        ("10.3.0.2", OPS),
        // The gateway's own, which each kernel's interface has.
        ("10.9.0.1", CREW),
        ("10.9.1.1", OPS),
        // Nobody says where it is.
        ("10.77.0.1", CREW),
    ] {
        assert_eq!(way(TUNS, LINE, "10.2.0.2", dst), Some(port), "{dst}");
    }
    let v6 = way(TUNS, LINE, "fd00:2::2", "fd00:3::2");
    assert_eq!(v6, Some(OPS));
    for (dst, port) in [("10.1.0.2", CREW), ("10.3.0.2", OPS)] {
        for text in [MIXED, &taps()] {
            assert_eq!(way(text, LINE, "10.2.0.2", dst), Some(port), "{dst}");
        }
    }
}

#[test]
fn host_sides_reach_the_link_and_each_other() {
    for text in [TUNS, MIXED, &taps()] {
        for (from, src, dst, port) in [
            (CREW, "10.1.0.2", "10.2.0.2", LINE),
            (OPS, "10.3.0.2", "10.2.0.2", LINE),
            (CREW, "10.1.0.2", "10.3.0.2", OPS),
            (OPS, "10.3.0.2", "10.1.0.2", CREW),
        ] {
            assert_eq!(way(text, from, src, dst), Some(port), "{src} to {dst}");
        }
        // Not back.
        assert_eq!(way(text, OPS, "10.3.0.2", "10.3.0.9"), None);
    }
}

#[test]
fn a_hop_is_counted_between_host_sides_and_not_on_the_way_to_the_link() {
    let mut ship = ship(TUNS);
    ship.take_packet(T, udp("10.1.0.2", "10.3.0.2", 100, 0), by(CREW));
    ship.take_packet(T, udp("10.2.0.2", "10.3.0.2", 100, 0), by(LINE));
    let came = pull_all(&mut ship, OPS, T);
    let hops = came
        .iter()
        .map(|it| PacketInfo::parse(it).unwrap().hop_limit);
    assert_eq!(hops.collect::<Vec<_>>(), [63, 64]);
    ship.take_packet(T, spent("10.3.0.2", "10.2.0.2"), by(OPS));
    assert_eq!(ship.ports[LINE.index()].held(), 1);
}

#[test]
fn errors_go_out_of_the_side_that_a_packet_came_by_from_an_address_there() {
    let mut ship = ship(TUNS);
    let own = ["10.9.0.1", "10.9.1.1"].map(address);
    ship.take_packet(T, spent("10.1.0.2", "10.3.0.2"), by(CREW));
    assert_eq!(error(&mut ship, CREW), (IcmpError::TimeExceeded, own[0]));
    ship.take_packet(T, spent("10.3.0.2", "10.1.0.2"), by(OPS));
    assert_eq!(error(&mut ship, OPS), (IcmpError::TimeExceeded, own[1]));
    let none = IcmpError::Unreachable(Unreachable::NoRoute);
    ship.take_packet(T, udp("10.3.0.2", "10.77.0.1", 100, 0), by(OPS));
    assert_eq!(error(&mut ship, OPS), (none, own[1]));
    // The interface of operations takes less than the crew's.
    let big = udp("fd00:1::2", "fd00:3::2", 1281, 0);
    ship.take_packet(T, big, by(CREW));
    let too_big = IcmpError::PacketTooBig { mtu: 1280 };
    assert_eq!(error(&mut ship, CREW), (too_big, address("fd00:9::1")));
    // To a sender beyond the link the gateway is one.
    ship.take_packet(T, udp("fd00:2::2", "fd00:3::2", 1281, 0), by(LINE));
    assert_eq!(ship.ports[LINE.index()].held(), 1);
    ship.check();
}

#[test]
fn nobody_speaks_in_the_name_of_another_host_side() {
    let refused = |text: &str, from: PortId, src: &str| {
        let mut gateway = ship(text);
        gateway.take_packet(T, udp(src, "10.2.0.2", 100, 0), by(from));
        gateway.stats().dropped.by(DropCause::WrongSource) == 1
    };
    for text in [MIXED, &taps()] {
        assert!(refused(text, CREW, "10.3.0.2"));
        assert!(refused(text, OPS, "10.1.0.2"));
        assert!(!refused(text, CREW, "10.1.0.2"));
        assert!(!refused(text, OPS, "10.3.0.2"));
        // Behind routers there, perhaps.
        assert!(!refused(text, CREW, "192.0.2.1"));
        assert!(!refused(text, OPS, "192.0.2.1"));
    }
    // The gateway's own address at the other host side, also in the midst of a network here.
    assert!(refused(MIXED, CREW, "10.9.1.1"));
    let inside = MIXED.replace("10.9.1.1/30", "10.1.0.250/32");
    assert!(!refused(&inside, OPS, "10.1.0.250"));
    assert!(refused(&inside, CREW, "10.1.0.250"));
    assert!(refused(MIXED, CREW, "10.5.0.1"));
    assert!(!refused(MIXED, OPS, "10.5.0.1"));
    // By which of its interfaces a packet comes is the kernel's choice.
    assert!(!refused(TUNS, CREW, "10.3.0.2"));
    assert!(!refused(TUNS, OPS, "10.1.0.2"));
    // Beyond the link nobody has either's.
    for src in ["10.1.0.2", "10.3.0.2", "10.9.0.1", "10.9.1.1"] {
        let mut gateway = ship(TUNS);
        gateway.take_packet(T, udp(src, "10.1.0.9", 100, 0), by(LINE));
        assert_eq!(
            gateway.stats().dropped.by(DropCause::WrongSource),
            1,
            "{src}"
        );
    }
}

#[test]
fn a_host_side_that_is_not_there_is_no_way_and_the_other_one_serves_on() {
    let mut ship = ship(TUNS);
    let event = PortEvent::Down(DownCause::Device);
    ship.handle(T, Input::Port { port: OPS, event });
    ship.take_packet(T, udp("10.2.0.2", "10.3.0.2", 100, 0), by(LINE));
    ship.take_packet(T, udp("10.1.0.2", "10.3.0.2", 100, 0), by(CREW));
    ship.take_packet(T, udp("10.2.0.2", "10.1.0.2", 100, 0), by(LINE));
    assert_eq!(ship.stats().dropped.by(DropCause::NoRoute), 2);
    assert_eq!(pull_all(&mut ship, CREW, T).len(), 2);
    ship.check();
}

#[test]
fn chatter_stays_on_its_network() {
    // An announcement of names for all, at an address of the other network.
    let says = |dst: &str| {
        let routes = "[[route]]\nprefix = \"224.0.0.0/4\"\nport = \"ops\"\n";
        let mut gateway = ship(&(TUNS.to_string() + routes));
        let socket = |ip: &str| SocketAddr::new(address(ip), 5353);
        let mut packet = Vec::new();
        let query = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 1];
        ip::build_udp(
            socket("10.1.0.2"),
            socket(dst),
            0,
            255,
            7,
            0,
            &query,
            &mut packet,
        );
        gateway.take_packet(T, packet, by(CREW));
        gateway.stats().dropped.by(DropCause::Chatter)
    };
    assert_eq!(says("224.0.0.251"), 1);
}

#[test]
fn each_host_side_leads_its_host_by_itself() {
    let mut ship = gateway(TUNS);
    let prefix = |text: &str| -> Prefix { text.parse().unwrap() };
    let asked = |ship: &mut Gateway| -> Vec<(Prefix, RouteOp)> {
        let effects = core::iter::from_fn(|| ship.poll_effect());
        let asks = effects.filter_map(|effect| match effect {
            Effect::Route { prefix, op } => Some((prefix, op)),
            _ => None,
        });
        asks.collect()
    };
    let lead = |to, port, metric| (prefix(to), RouteOp::Lead(Lead { port, metric }));
    let both = [lead("10.3.0.0/24", CREW, 0), lead("10.2.0.0/16", OPS, 7)];
    assert_eq!(asked(&mut ship), both);
    let down = |ship: &mut Gateway, port| {
        let event = PortEvent::Down(DownCause::Device);
        ship.handle(T, Input::Port { port, event });
    };
    down(&mut ship, LINE);
    let seconds = Instant::from_secs;
    ship.handle(seconds(2), Input::Timeout);
    // The crew is led to operations, which are there.
    assert_eq!(asked(&mut ship), []);
    ship.handle(seconds(3), Input::Timeout);
    let withdraw = |to| (prefix(to), RouteOp::Withdraw);
    assert_eq!(asked(&mut ship), [withdraw("10.2.0.0/16")]);
    let event = PortEvent::Down(DownCause::Device);
    ship.handle(seconds(4), Input::Port { port: OPS, event });
    ship.handle(seconds(5), Input::Timeout);
    assert_eq!(asked(&mut ship), [withdraw("10.3.0.0/24")]);
}

#[test]
fn a_part_at_another_host_side_is_no_way_to_the_rest() {
    let led = "networks = [\"10.5.0.0/16\"]\nroutes = [\"10.0.0.0/8\"]\nwithdraw_after = \"1 s\"";
    let routed = MIXED.replace("networks = [\"10.5.0.0/16\"]", led);
    let by_default = routed.replace("[[route]]\nprefix = \"10.2.0.0/16\"\nport = \"line\"\n", "");
    assert_ne!(routed, by_default);
    for text in [routed, by_default] {
        let mut ship = ship(&text);
        let withdrawn = |ship: &mut Gateway, now| {
            ship.handle(now, Input::Timeout);
            let mut effects = core::iter::from_fn(|| ship.poll_effect());
            effects.any(|it| {
                matches!(
                    it,
                    Effect::Route {
                        op: RouteOp::Withdraw,
                        ..
                    }
                )
            })
        };
        let down = |port| {
            let event = PortEvent::Down(DownCause::Device);
            Input::Port { port, event }
        };
        ship.handle(T, down(CREW));
        assert!(
            !withdrawn(&mut ship, Instant::from_secs(5)),
            "the line is there"
        );
        ship.handle(Instant::from_secs(5), down(LINE));
        assert!(withdrawn(&mut ship, Instant::from_secs(6)), "it has gone");
    }
    let mut ship = ship(&MIXED.replace("networks = [\"10.5.0.0/16\"]", led));
    let event = PortEvent::Down(DownCause::Device);
    ship.handle(T, Input::Port { port: LINE, event });
    ship.handle(Instant::from_secs(1), Input::Timeout);
    let mut effects = core::iter::from_fn(|| ship.poll_effect());
    let withdraws = |it: Effect| {
        matches!(
            it,
            Effect::Route {
                op: RouteOp::Withdraw,
                ..
            }
        )
    };
    assert!(effects.any(withdraws), "the crew's Ethernet is no way");
}

#[test]
fn what_is_said_to_a_group_of_the_link_stays_at_its_host_side() {
    let routed = MIXED.replace("10.3.0.0/24", "224.0.0.0/4");
    assert_eq!(way(&routed, CREW, "10.1.0.2", "224.0.0.18"), None);
    assert_eq!(way(&routed, CREW, "10.1.0.2", "239.1.1.1"), Some(OPS));
}

/// Takes a packet from a station on one Ethernet to one on the other, and has an address asked for
/// there.
#[test]
fn two_ethernets_have_a_station_each_and_one_router() {
    let text = taps();
    let mut ship = ship(&text);
    let config: NodeConfig = config_text::parse("ship.toml", &text).unwrap();
    let macs = [CREW, OPS].map(|port| config.station_at(port).unwrap());
    assert_ne!(macs[0], macs[1]);
    let host = Mac([2, 0, 0, 0, 0, 2]);
    let mut crew = Station::new(host);
    let mut ops = Station::new(host);
    let only = |own: &'static str| {
        move |asked: IpAddr| {
            if asked == address(own) {
                Claim::Own
            } else {
                Claim::None
            }
        }
    };
    // Who of the other network is asked for is behind the gateway, who of this one isn't.
    for (target, heard) in [("10.3.0.2", 1), ("10.1.0.9", 0), ("10.3.0.1", 1)] {
        crew.ask(address(target), Some(address("10.1.0.2")));
        let question = crew.next_frame(usize::MAX).unwrap();
        ship.handle(T, frame(CREW, &question));
        let answers = pull_all(&mut ship, CREW, T);
        assert_eq!(answers.len(), heard, "{target}");
        if let Some(answer) = answers.first() {
            assert_eq!(Frame::parse(answer).unwrap().src, macs[0]);
        }
    }
    let mut bytes = [macs[0].0, host.0].concat();
    bytes.extend_from_slice(&[8, 0]);
    bytes.extend_from_slice(&udp("10.1.0.2", "10.3.0.2", 100, 0));
    ship.handle(T, frame(CREW, &bytes));
    let question = pull(&mut ship, OPS, T, 2000);
    assert_eq!(Frame::parse(&question).unwrap().src, macs[1]);
    ops.hear(T, &question, only("10.3.0.2"));
    let answer = ops.next_frame(usize::MAX).unwrap();
    ship.handle(T, frame(OPS, &answer));
    let came = pull(&mut ship, OPS, T, 2000);
    assert!(matches!(
        ops.hear(T, &came, only("10.3.0.2")),
        Heard::Packet(_)
    ));
    let came = Frame::parse(&came).unwrap();
    assert_eq!((came.dst, came.src), (host, macs[1]));
    assert_eq!(
        PacketInfo::parse(came.packet().unwrap()).unwrap().hop_limit,
        63
    );
    // Nobody answers for the next: its sender hears of it on his own Ethernet.
    let mut bytes = bytes[..14].to_vec();
    bytes.extend_from_slice(&udp("10.1.0.2", "10.3.0.7", 100, 0));
    ship.handle(T, frame(CREW, &bytes));
    for second in 1..5 {
        pull_all(&mut ship, OPS, Instant::from_secs(second));
        ship.handle(Instant::from_secs(second), Input::Timeout);
    }
    assert_eq!(ship.stats().dropped.by(DropCause::Unresolved), 1);
    let told = pull_all(&mut ship, CREW, Instant::from_secs(5));
    let told = told.iter().filter_map(|it| Frame::parse(it)?.packet());
    let told: Vec<_> = told.filter_map(ip::parse_icmp_error).collect();
    assert_eq!(told[0].0, IcmpError::Unreachable(Unreachable::Host));
    // A question to the gateway's address at the other side is answered where it came from.
    let mut ping = Vec::new();
    let [from, to] = ["10.1.0.2", "10.3.0.1"].map(address);
    ip::build_echo(EchoKind::Request, from, to, 0, 64, 0, 0, 0, &[], &mut ping);
    let mut bytes = bytes[..14].to_vec();
    bytes.extend_from_slice(&ping);
    ship.handle(Instant::from_secs(5), frame(CREW, &bytes));
    let reply = pull(&mut ship, CREW, Instant::from_secs(5), 2000);
    let reply = PacketInfo::parse(Frame::parse(&reply).unwrap().packet().unwrap()).unwrap();
    assert_eq!((reply.src, reply.dst), (to, from));
    ship.check();
}

proptest! {
    /// Octets of anybody at any port, as ports come and go: every packet has a fate.
    #[test]
    fn no_input_harms(steps in steps()) {
        let taps = gateway(&taps());
        let mut gateways = [gateway(TUNS), gateway(MIXED), taps];
        let good = [("10.1.0.2", "10.3.0.2"), ("10.3.0.2", "10.1.0.2"), ("10.2.0.2", "10.3.0.2")];
        let good = good.map(|(src, dst)| udp(src, dst, 300, 0));
        let mut now = T;
        for (what, number, bytes) in steps {
            now += Duration::from_micros(u64::from(number) * 100);
            let port = PortId((number % 4) as u8);
            let by = Hop { port: PortId((number % 3) as u8), to: NeighbourId::PEER };
            let down = PortEvent::Down(DownCause::Carrier);
            let up = PortEvent::Up(state(LineRate::new(u64::from(number), 8)));
            for gateway in &mut gateways {
                match what {
                    0 => gateway.handle(now, frame(port, &bytes)),
                    1 | 2 => gateway.take_packet(now, good[usize::from(number % 3)].clone(), by),
                    3 => gateway.handle(now, Input::Timeout),
                    4 => gateway.handle(now, Input::Port { port, event: down }),
                    5 => gateway.handle(now, Input::Port { port, event: up }),
                    _ => { pull(gateway, port, now, usize::from(number % 600)); }
                }
                // As an input of any kind settles it.
                gateway.handle(now, Input::Timeout);
                gateway.check();
            }
        }
    }
}
