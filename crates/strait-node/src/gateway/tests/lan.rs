//! A gateway on an Ethernet.

use strait_core::local::Question;
use strait_wire::ethernet::{Frame, Mac};
use strait_wire::ip::build_echo;

use super::*;
use crate::ethernet::{Claim, Heard, Station};

const HOST_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const GATEWAY_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

const TAP: &str = r#"
name = "a"
[host]
kind = "tap"
mac = "02:00:00:00:00:01"
addresses = ["10.1.0.1/24", "fd00:1::1/64"]
advertise = ["fd00:1::/64"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
[[route]]
prefix = "10.2.0.0/16"
port = "line"
[[route]]
prefix = "fd00:2::/32"
port = "line"
[[route]]
prefix = "10.1.0.0/24"
port = "host"
"#;

/// The same, asking whether hosts are there.
fn asking() -> String {
    TAP.replace("[host]", "[answers]\nneighbours = \"10 s\"\n[host]")
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// A host at the gateway's Ethernet.
struct Lan {
    gateway: Gateway,
    host: Station,
    /// Packets that came to the host.
    packets: Vec<Vec<u8>>,
}

impl Lan {
    fn new(text: &str) -> Self {
        let mut lan = Self {
            gateway: gateway(text),
            host: Station::new(HOST_MAC),
            packets: Vec::new(),
        };
        // What it says when its ports come up.
        lan.exchange(Instant::ZERO);
        lan
    }

    /// Everything said on the Ethernet, until nobody says more; gives the host's frames heard.
    fn exchange(&mut self, now: Instant) -> usize {
        let mut frames = 0;
        loop {
            let own = |asked: IpAddr| {
                let own = ["10.1.0.2", "fd00:1::2"].map(address);
                if own.contains(&asked) {
                    Claim::Own
                } else {
                    Claim::None
                }
            };
            let mut quiet = true;
            for bytes in pull_all(&mut self.gateway, PortId::HOST, now) {
                quiet = false;
                frames += 1;
                if let Heard::Packet(packet) = self.host.hear(now, &bytes, own) {
                    self.packets.push(packet.to_vec());
                }
            }
            while let Some(bytes) = self.host.next_frame(usize::MAX) {
                quiet = false;
                self.gateway.handle(now, frame(PortId::HOST, &bytes));
            }
            if quiet {
                return frames;
            }
        }
    }

    /// The host asks who has an address; whether it hears of it.
    fn asks(&mut self, now: Instant, target: &str) -> bool {
        let target = address(target);
        let own = if target.is_ipv4() {
            "10.1.0.2"
        } else {
            "fd00:1::2"
        };
        self.host.ask(target, Some(address(own)));
        self.exchange(now) > 0
    }

    /// The host sends a packet.
    fn sends(&mut self, now: Instant, packet: &[u8]) {
        let mut bytes = [GATEWAY_MAC.0, HOST_MAC.0].concat();
        let v6 = packet[0] >> 4 == 6;
        bytes.extend_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
        bytes.extend_from_slice(packet);
        // Ethernet fills short frames up.
        bytes.resize(bytes.len().max(60), 0);
        self.gateway.handle(now, frame(PortId::HOST, &bytes));
    }

    fn answered(&self, question: Question) -> u64 {
        self.gateway.stats().local.answered(question).packets
    }

    /// What is put on the line.
    fn line(&mut self, now: Instant) -> usize {
        pull_all(&mut self.gateway, LINE, now).concat().len()
    }

    fn line_down(&mut self, now: Instant) {
        let event = PortEvent::Down(DownCause::Carrier);
        self.gateway.handle(now, Input::Port { port: LINE, event });
    }
}

#[test]
fn packets_cross_from_one_ethernet_to_another() {
    let mut a = Lan::new(TAP);
    let other = TAP.replace("10.1.0", "10.3.0").replace("10.2.0", "10.1.0");
    let other = other
        .replace("fd00:1::", "fd00:3::")
        .replace("fd00:2::/32", "fd00:1::/32");
    let other = other
        .replace("10.3.0", "10.2.0")
        .replace("fd00:3::", "fd00:2::");
    let mut b = gateway(&other);
    pull_all(&mut b, PortId::HOST, Instant::ZERO);
    for (bytes, asks) in [
        (udp("10.1.0.2", "10.2.0.2", 500, 0), [8, 6]),
        (udp("fd00:1::2", "fd00:2::2", 90, 46), [0x86, 0xdd]),
    ] {
        a.sends(ms(1), &bytes);
        for octets in pull_all(&mut a.gateway, LINE, ms(1)) {
            b.handle(ms(1), frame(LINE, &octets));
        }
        // The far gateway asks for the station first.
        let question = pull_all(&mut b, PortId::HOST, ms(1));
        assert_eq!((question.len(), &question[0][12..14]), (1, &asks[..]));
        let mut host = Station::new(HOST_MAC);
        let dst = PacketInfo::parse(&bytes).unwrap().dst;
        host.hear(ms(2), &question[0], |asked| {
            if asked == dst {
                Claim::Own
            } else {
                Claim::None
            }
        });
        let answer = host.next_frame(usize::MAX).unwrap();
        b.handle(ms(2), frame(PortId::HOST, &answer));
        let arrived = pull_all(&mut b, PortId::HOST, ms(2));
        let arrived = Frame::parse(&arrived[0]).unwrap();
        assert_eq!((arrived.dst, arrived.src), (HOST_MAC, GATEWAY_MAC));
        assert_eq!(arrived.packet(), Some(&bytes[..]));
        b.check();
    }
    assert_eq!((a.gateway.stats().forwarded, b.stats().delivered), (2, 2));
}

#[test]
fn it_stands_for_what_its_links_lead_to_and_nothing_else() {
    let mut lan = Lan::new(TAP);
    for (target, stands) in [
        ("10.1.0.1", true),
        ("10.2.0.2", true),
        ("fd00:1::1", true),
        ("fd00:2::77", true),
        // Of its own network, of nobody, of each network.
        ("10.1.0.9", false),
        ("10.3.0.1", false),
        ("fd00:1::9", false),
        ("fe80::9", false),
    ] {
        assert_eq!(lan.asks(ms(1), target), stands, "{target}");
    }
    assert_eq!(lan.line(ms(1)), 0);
    assert_eq!(
        (
            lan.answered(Question::Arp),
            lan.answered(Question::Neighbour)
        ),
        (2, 2)
    );
    // Beyond a line that is down nobody can be reached.
    lan.line_down(ms(2));
    lan.exchange(ms(2));
    for (target, stands) in [
        ("10.2.0.2", false),
        ("fd00:2::77", false),
        ("10.1.0.1", true),
    ] {
        assert_eq!(lan.asks(ms(3), target), stands, "{target}");
    }
}

#[test]
fn an_unknown_way_is_not_stood_for() {
    // Without routes everything goes to the only link, and that is no claim.
    let end = TAP.find("[[route]]").unwrap();
    let mut lan = Lan::new(&TAP[..end]);
    assert!(!lan.asks(ms(1), "10.2.0.2"));
    assert!(lan.asks(ms(1), "10.1.0.1"));
    lan.sends(ms(1), &udp("10.1.0.2", "10.2.0.2", 100, 0));
    assert!(lan.line(ms(1)) > 100);
}

#[test]
fn a_host_is_stood_for_as_long_as_it_was_heard() {
    let mut lan = Lan::new(&asking());
    assert!(!lan.asks(ms(0), "10.2.0.2"));
    // It is asked for a sign, once a second.
    let request = lan.line(ms(0));
    assert!((28..60).contains(&request), "{request}");
    assert!(!lan.asks(ms(999), "10.2.0.2"));
    assert_eq!(lan.line(ms(999)), 0);
    assert!(!lan.asks(ms(1000), "10.2.0.2"));
    assert!(lan.line(ms(1000)) >= 28);
    // The sign comes: who waits is told.
    let mut reply = Vec::new();
    let (dst, src) = (address("10.1.0.1"), address("10.2.0.2"));
    assert!(build_echo(
        EchoKind::Reply,
        src,
        dst,
        0,
        64,
        0,
        0,
        0,
        &[],
        &mut reply
    ));
    let mut far = gateway(SERIAL);
    far.handle(ms(1100), frame(PortId::HOST, &reply));
    for octets in pull_all(&mut far, LINE, ms(1100)) {
        lan.gateway.handle(ms(1100), frame(LINE, &octets));
    }
    assert_eq!((lan.exchange(ms(1100)), lan.packets.len()), (1, 0));
    let ends = ms(11_100);
    let before = Instant::from_nanos(ends.as_nanos() - 1);
    for at in [ms(1101), before] {
        assert!(lan.asks(at, "10.2.0.2"));
        assert_eq!(lan.line(at), 0);
    }
    assert!(!lan.asks(ends, "10.2.0.2"));
    assert!(lan.line(ends) >= 28);
    assert_eq!(lan.answered(Question::Arp), 3);
    lan.gateway.check();
}

/// A packet in the name of a host that isn't there has it stood for ten seconds.
#[test]
fn a_host_that_was_heard_once_is_stood_for_ten_seconds() {
    let mut lan = Lan::new(&asking().replace("10 s", "60 s"));
    let mut far = gateway(SERIAL);
    for (heard, until) in [(0, 10_000), (11_000, 71_000)] {
        let word = udp("10.2.0.2", "10.1.0.9", 100, 0);
        far.handle(ms(heard), frame(PortId::HOST, &word));
        for octets in pull_all(&mut far, LINE, ms(heard)) {
            lan.gateway.handle(ms(heard), frame(LINE, &octets));
        }
        let ends = ms(until);
        let before = Instant::from_nanos(ends.as_nanos() - 1);
        assert!(lan.asks(before, "10.2.0.2"));
        assert!(!lan.asks(ends, "10.2.0.2"));
    }
}

#[test]
fn a_sweep_over_absent_hosts_does_not_fill_the_line() {
    let mut lan = Lan::new(&asking());
    for number in 0..200 {
        assert!(!lan.asks(ms(0), &alloc::format!("10.2.0.{number}")));
    }
    let stats = lan.gateway.stats();
    assert_eq!(stats.originated, 8);
    // After them one a second.
    assert!(!lan.asks(ms(999), "10.2.1.1"));
    assert_eq!(lan.gateway.stats().originated, 8);
    assert!(!lan.asks(ms(1000), "10.2.1.1"));
    assert_eq!(lan.gateway.stats().originated, 9);
}

#[test]
fn it_answers_a_ping_to_its_own_address() {
    let mut lan = Lan::new(TAP);
    lan.asks(ms(1), "10.1.0.1");
    let mut request = Vec::new();
    let (src, dst) = (address("10.1.0.2"), address("10.1.0.1"));
    assert!(build_echo(
        EchoKind::Request,
        src,
        dst,
        0,
        64,
        0,
        7,
        1,
        b"hi",
        &mut request
    ));
    lan.sends(ms(1), &request);
    lan.exchange(ms(1));
    let reply = ip::parse_echo(&lan.packets[0]).unwrap();
    assert_eq!(
        (reply.kind, reply.ident, reply.sequence),
        (EchoKind::Reply, 7, 1)
    );
    assert_eq!((lan.line(ms(1)), lan.gateway.stats().answered), (0, 1));
    // Something else to it goes nowhere.
    lan.sends(ms(1), &udp("10.1.0.2", "10.1.0.1", 100, 0));
    lan.exchange(ms(1));
    assert_eq!((lan.line(ms(1)), lan.gateway.stats().absorbed), (0, 1));
    lan.gateway.check();
}

#[test]
fn the_sender_hears_that_nobody_has_the_address() {
    let mut lan = Lan::new(TAP);
    let mut far = gateway(SERIAL);
    far.handle(
        ms(0),
        frame(PortId::HOST, &udp("10.2.0.2", "10.1.0.9", 100, 0)),
    );
    for octets in pull_all(&mut far, LINE, ms(0)) {
        lan.gateway.handle(ms(0), frame(LINE, &octets));
    }
    let wake = |gateway: &Gateway| gateway.wake().unwrap();
    for second in 1..=3 {
        lan.exchange(ms(second * 1000 - 1));
        let expected = Wake {
            at: ms(second * 1000),
            why: WakeReason::Local,
        };
        assert_eq!(
            (wake(&lan.gateway), lan.gateway.stats().held()),
            (expected, 1)
        );
        lan.gateway.check();
        lan.gateway.handle(ms(second * 1000), Input::Timeout);
    }
    let stats = lan.gateway.stats();
    assert_eq!(stats.dropped.by(DropCause::Unresolved), 1);
    // 28 octets of the packet quoted behind two headers and an ICMP header.
    assert!(lan.line(ms(3000)) > 56);
}

#[test]
fn what_belongs_to_one_network_stays_there() {
    let mut lan = Lan::new(TAP);
    for (src, dst) in [
        ("fe80::2", "fd00:2::2"),
        ("fd00:1::2", "fe80::9"),
        ("169.254.1.1", "10.2.0.2"),
    ] {
        lan.sends(ms(1), &udp(src, dst, 100, 0));
    }
    assert_eq!(lan.line(ms(1)), 0);
    let stats = lan.gateway.stats();
    assert_eq!(stats.dropped.by(DropCause::NoRoute), 3);
}

/// Frames to all stations by what they say: for how many seconds the gateway leads out.
fn advertised(gateway: &mut Gateway, now: Instant) -> Vec<u16> {
    let frames = pull_all(gateway, PortId::HOST, now);
    let all = frames.iter().filter(|bytes| bytes.get(54) == Some(&134));
    all.map(|bytes| u16::from_be_bytes([bytes[60], bytes[61]]))
        .collect()
}

#[test]
fn it_is_a_router_while_a_link_is_up() {
    let mut a = gateway(TAP);
    assert_eq!(advertised(&mut a, ms(0)), [1800]);
    let mut host = Station::new(HOST_MAC);
    host.ask_routers();
    let question = host.next_frame(usize::MAX).unwrap();
    a.handle(ms(1), frame(PortId::HOST, &question));
    assert_eq!(advertised(&mut a, ms(1)), [1800]);
    let answered = |a: &Gateway| a.stats().local.answered(Question::Router).packets;
    assert_eq!(answered(&a), 1);
    // Each ten minutes without a question.
    let next = Instant::from_secs(600);
    assert_eq!(a.wake().map(|wake| wake.at), Some(next));
    a.handle(next, Input::Timeout);
    assert_eq!(advertised(&mut a, next), [1800]);
    // Without a link it leads nowhere, and says so.
    let event = PortEvent::Down(DownCause::Carrier);
    a.handle(next, Input::Port { port: LINE, event });
    assert_eq!(advertised(&mut a, next), [0]);
    a.handle(next, frame(PortId::HOST, &question));
    assert_eq!((advertised(&mut a, next), a.wake()), (vec![], None));
    assert_eq!(answered(&a), 1);
    let event = PortEvent::Up(state(LineRate::new(9600, 10)));
    a.handle(next, Input::Port { port: LINE, event });
    assert_eq!(advertised(&mut a, next), [1800]);
}

#[test]
fn packets_to_a_network_behind_a_router_go_to_it() {
    let routed = TAP.replace(
        "[[route]]\nprefix = \"10.1.0.0/24\"",
        "[[route]]\nprefix = \"10.7.0.0/16\"\nvia = \"10.1.0.2\"",
    );
    let mut lan = Lan::new(&routed);
    let mut far = gateway(SERIAL);
    let packet = udp("10.2.0.2", "10.7.0.9", 100, 0);
    far.handle(ms(0), frame(PortId::HOST, &packet));
    for octets in pull_all(&mut far, LINE, ms(0)) {
        lan.gateway.handle(ms(0), frame(LINE, &octets));
    }
    lan.exchange(ms(1));
    assert_eq!(lan.packets, [packet]);
}

#[test]
fn the_ethernet_going_down_gives_what_waits_a_fate() {
    let mut lan = Lan::new(TAP);
    let mut far = gateway(SERIAL);
    far.handle(
        ms(0),
        frame(PortId::HOST, &udp("10.2.0.2", "10.1.0.9", 100, 0)),
    );
    for octets in pull_all(&mut far, LINE, ms(0)) {
        lan.gateway.handle(ms(0), frame(LINE, &octets));
    }
    let event = PortEvent::Down(DownCause::Device);
    let port = PortId::HOST;
    lan.gateway.handle(ms(1), Input::Port { port, event });
    lan.gateway.check();
    let stats = lan.gateway.stats();
    assert_eq!((stats.held(), lan.gateway.wake()), (0, None));
    assert_eq!(stats.dropped.by(DropCause::PortDown), 1);
}

#[test]
fn a_call_goes_first_whatever_storm_of_questions_there_is() {
    let profile = "profile = \"adapter\"\nbaud = 9600";
    for (text, asked_max) in [(TAP.into(), 0), (asking(), 8 + 10)] {
        let mut lan = Lan::new(&text.replace("baud = 9600", profile));
        let call = udp("fd00:1::2", "fd00:2::2", 91, 46);
        for number in 0..50_u16 {
            let now = ms(1000 + 200 * u64::from(number));
            // A thousand questions a second, half of them of each family.
            for host in (0..100).map(|host| 100 * number + host) {
                lan.asks(now, &alloc::format!("10.2.{}.{}", host >> 8, host & 255));
                lan.asks(now, &alloc::format!("fd00:2::{host:x}"));
            }
            lan.sends(now, &call);
            // Room for it and a hello, and nothing besides.
            let octets = pull(&mut lan.gateway, LINE, now, 123).len();
            let fates = core::iter::from_fn(|| lan.gateway.poll_effect());
            let left = |effect: &Effect| matches!(effect, Effect::Fate(it) if it.octets == 91);
            assert_eq!(fates.filter(left).count(), 1, "{number}: {octets}");
            lan.line(now);
        }
        // Those that nobody has heard of are asked for a sign: eight, and then one a second.
        let asked = lan.gateway.stats().originated;
        assert!(
            asked <= asked_max && (asked > 8 || asked_max == 0),
            "{asked}"
        );
        lan.gateway.check();
    }
}
