//! Several gateways on each of two Ethernets: what one gives to an Ethernet, another hears there.

use super::*;

const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// Gateways 0 and 1 on the west Ethernet, 2 and 3 on the east one; lines join 0 with 2, 1 with 3.
struct Ring {
    gateways: [Gateway; 4],
    /// Frames that crossed each line, from the west and from the east.
    crossed: [[usize; 2]; 2],
    /// Packets that each Ethernet heard.
    heard: [usize; 2],
}

impl Ring {
    /// Gateways that pass everything on.
    fn new(more: &str) -> Self {
        let node = |number: usize| {
            let name = ["a", "b", "c", "d"][number];
            let here = if number < 2 { WEST } else { EAST };
            let addresses: Vec<_> = here
                .split(' ')
                .map(|it| alloc::format!("\"{it}\""))
                .collect();
            let addresses = addresses.join(", ");
            gateway(&alloc::format!(
                "name = \"{name}\"\n[host]\nkind = \"tap\"\naddresses = [{addresses}]\n\
                 [[port]]\nname = \"line\"\nkind = \"udp\"\nprofile = \"plain\"\n{more}"
            ))
        };
        let mut ring = Self {
            gateways: core::array::from_fn(node),
            crossed: [[0; 2]; 2],
            heard: [0; 2],
        };
        ring.run(Instant::ZERO);
        (ring.crossed, ring.heard) = ([[0; 2]; 2], [0; 2]);
        ring
    }

    /// A host of the west sends a packet to everybody on its Ethernet.
    fn send(&mut self, now: Instant, packet: &[u8], to: [u8; 6]) {
        let kind = if packet[0] >> 4 == 6 {
            [0x86, 0xdd]
        } else {
            [8, 0]
        };
        let bytes = [&to[..], &HOST_MAC, &kind, packet].concat();
        for gateway in &mut self.gateways[..2] {
            gateway.handle(now, frame(PortId::HOST, &bytes));
        }
        self.run(now);
    }

    /// Everything moves until nothing does, or it is clear that it always will.
    fn run(&mut self, now: Instant) {
        let mut quiet = false;
        for _ in 0..400 {
            quiet = true;
            for from in 0..4 {
                let (side, line) = (from / 2, from % 2);
                for bytes in pull_all(&mut self.gateways[from], LINE, now) {
                    quiet = false;
                    self.crossed[line][side] += 1;
                    self.gateways[(from + 2) % 4].handle(now, frame(LINE, &bytes));
                }
                for bytes in pull_all(&mut self.gateways[from], PortId::HOST, now) {
                    quiet = false;
                    self.heard[side] += usize::from(bytes[12..14] != [8, 6]);
                    let other = side * 2 + (1 - line);
                    self.gateways[other].handle(now, frame(PortId::HOST, &bytes));
                }
            }
            if quiet {
                break;
            }
        }
        assert!(quiet, "something circles: {:?}", self.crossed);
        self.gateways.iter().for_each(Node::check);
    }

    fn dropped(&self, cause: DropCause) -> u64 {
        self.gateways
            .iter()
            .map(|it| it.stats().dropped.by(cause))
            .sum()
    }
}

const WEST: &str = "10.1.0.1/24 fd00:1::1/64";
const EAST: &str = "10.2.0.1/24 fd00:2::1/64";

fn group(src: &str, dst: &str) -> (Vec<u8>, [u8; 6]) {
    let to = match dst.parse().unwrap() {
        IpAddr::V4(v4) if v4.is_broadcast() => [0xff; 6],
        IpAddr::V4(v4) => {
            let [_, b, c, d] = v4.octets();
            [1, 0, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(v6) => {
            let [.., a, b, c, d] = v6.octets();
            [0x33, 0x33, a, b, c, d]
        }
    };
    let mut bytes = Vec::new();
    let socket = |text: &str, port| SocketAddr::new(text.parse().unwrap(), port);
    let ends = (socket(src, 4000), socket(dst, 4000));
    assert!(ip::build_udp(
        ends.0, ends.1, 0, 255, 7, 0, &[5; 60], &mut bytes
    ));
    (bytes, to)
}

/// A host of the west sends to a group: to the east by each line once, and back at most once.
fn crosses(ring: &mut Ring, now: Instant, src: &str, dst: &str) {
    (ring.crossed, ring.heard) = ([[0; 2]; 2], [0; 2]);
    let (bytes, to) = group(src, dst);
    ring.send(now, &bytes, to);
    let [first, second] = ring.crossed;
    assert!(first[0] == 1 && second[0] == 1, "{dst} {:?}", ring.crossed);
    assert!(first[1] <= 1 && second[1] <= 1, "{dst} {:?}", ring.crossed);
    assert!(ring.heard[0] == 0 && ring.heard[1] >= 1, "{:?}", ring.heard);
}

#[test]
fn what_is_for_many_crosses_each_line_once_each_way_at_most() {
    let mut ring = Ring::new("pass_chatter = [\"broadcast\"]\n");
    for (src, dst) in [
        ("10.1.0.9", "239.1.2.3"),
        ("fd00:1::9", "ff15::7"),
        ("192.0.2.9", "239.1.2.3"),
        ("fe80::9", "ff02::5"),
        ("169.254.3.9", "224.0.0.5"),
        ("10.1.0.9", "255.255.255.255"),
        ("192.0.2.9", "255.255.255.255"),
    ] {
        // The same octets again and again, as a router's hello.
        for time in 0..5 {
            crosses(&mut ring, Instant::from_secs(10 * time + 1), src, dst);
        }
    }
    assert!(ring.dropped(DropCause::Duplicate) > 0);
}

#[test]
fn a_packet_to_one_host_does_not_circle_where_ways_lead_in_a_ring() {
    // 0 and 3 send everything by their lines, 1 and 2 give what they don't know to the Ethernet,
    // where 0 and 3 stand for it.
    let node = |leads: bool, addresses: &str| {
        let all = "[[route]]\nprefix = \"0.0.0.0/0\"\nport = \"line\"\n";
        let some = "[[route]]\nprefix = \"10.8.0.0/16\"\nport = \"line\"\n";
        let routes = if leads { all } else { some };
        gateway(&alloc::format!(
            "name = \"{addresses}{leads}\"\n[host]\nkind = \"tap\"\naddresses = [\"{addresses}\"]\n\
             [[port]]\nname = \"line\"\nkind = \"udp\"\nprofile = \"plain\"\n{routes}"
        ))
    };
    let mut ring = Ring::new("");
    ring.gateways = [
        node(true, "10.1.0.1/24"),
        node(false, "10.1.0.3/24"),
        node(false, "10.2.0.1/24"),
        node(true, "10.2.0.3/24"),
    ];
    let bytes = udp("10.1.0.9", "192.0.2.1", 100, 0);
    // To the station of the first.
    let config = "name = \"x\"\nhost = {}";
    let config: NodeConfig = config_text::parse("x.toml", config).unwrap();
    let mac = config.host.station("10.1.0.1/24true").0;
    ring.send(Instant::from_secs(1), &bytes, mac);
    // It comes back to where it can't come from.
    assert_eq!(ring.crossed, [[1, 0], [0, 1]]);
    assert_eq!(ring.dropped(DropCause::WrongSource), 1);
    // From nobody knows where: the hop limit ends it, which two gateways count.
    let bytes = udp("198.51.100.9", "192.0.2.1", 100, 0);
    ring.crossed = [[0; 2]; 2];
    ring.send(Instant::from_secs(1), &bytes, mac);
    assert_eq!(ring.crossed, [[32, 0], [0, 31]]);
    assert_eq!(ring.dropped(DropCause::HopLimit), 1);
}

#[test]
fn what_came_to_everybody_on_the_ethernet_for_one_host_goes_no_further() {
    let mut ring = Ring::new("");
    ring.send(
        Instant::from_secs(1),
        &udp("10.1.0.9", "10.2.0.9", 100, 0),
        [0xff; 6],
    );
    assert_eq!(ring.crossed, [[0; 2]; 2]);
    assert_eq!(ring.dropped(DropCause::NoRoute), 2);
}

#[test]
fn the_same_octets_for_one_host_may_come_by_another_link() {
    let text = "name = \"a\"\n[host]\nkind = \"tap\"\n[[port]]\nname = \"line\"\nkind = \"udp\"\n\
                [[port]]\nname = \"other\"\nkind = \"udp\"\n\
                [[route]]\nprefix = \"10.2.0.0/16\"\nport = \"line\"\n";
    let by = |number| Hop {
        port: PortId(number),
        to: NeighbourId::PEER,
    };
    let mut gateway = gateway(text);
    for (number, second) in [(1, 0), (2, 1)] {
        let now = Instant::from_secs(second);
        gateway.take_packet(now, udp("10.2.0.9", "10.1.0.9", 100, 0), by(number));
    }
    assert_eq!(gateway.stats().dropped.total(), 0);
}

#[test]
fn the_same_octets_may_come_again_from_where_they_came_first() {
    let mut ring = Ring::new("");
    let bytes = udp("10.1.0.9", "10.2.0.9", 100, 0);
    let to = {
        let config: NodeConfig = config_text::parse("x.toml", "name = \"a\"\nhost = {}").unwrap();
        config.host.station("a").0
    };
    for _ in 0..3 {
        ring.send(Instant::from_secs(1), &bytes, to);
    }
    assert_eq!(ring.crossed, [[3, 0], [0, 0]]);
}

#[test]
fn from_another_side_they_may_come_after_a_while() {
    let text = "name = \"a\"\n[host]\nkind = \"tap\"\n[[port]]\nname = \"line\"\nkind = \"udp\"\n";
    let by_line = Hop {
        port: LINE,
        to: NeighbourId::PEER,
    };
    let (bytes, to) = group("fe80::9", "ff02::5");
    let framed = [&to[..], &HOST_MAC, &[0x86, 0xdd], &bytes].concat();
    for (from_host, valid) in [(true, 30), (false, 10)] {
        for (late, comes) in [(0, 0), (1, 1)] {
            let mut gateway = gateway(text);
            let then = Instant::from_secs(1);
            let now = Instant::from_nanos((1 + valid) * 1_000_000_000 - 1 + late);
            for (at, host) in [(then, from_host), (now, !from_host)] {
                if host {
                    gateway.handle(at, frame(PortId::HOST, &framed));
                } else {
                    gateway.take_packet(at, bytes.clone(), by_line);
                }
            }
            let seconds = if from_host { PortId::HOST } else { LINE };
            assert_eq!(gateway.ports[seconds.index()].held(), comes);
        }
    }
}
