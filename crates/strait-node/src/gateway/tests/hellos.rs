//! Routing protocols' hellos.

use core::net::Ipv4Addr;

use strait_core::local::Question;
use strait_wire::ip::build_ospf_hello;

use super::*;

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 9);
const HELD: &str = "name = \"a\"\n[answers.hellos]\nprotocols = [\"ospf\"]\nrefresh = \"15 s\"\n\
    valid = \"20 s\"\n[host]\naddresses = [\"10.9.0.1/30\"]\n[[port]]\nname = \"line\"\n\
    kind = \"serial\"\nbaud = 9600\n";

/// A hello each 10 s of a router that has heard so many others; `number` is for fragments.
fn hello(heard: u8, number: u8) -> Vec<u8> {
    let others: Vec<_> = (0..heard)
        .map(|last| Ipv4Addr::new(10, 1, 1, last))
        .collect();
    let mut bytes = Vec::new();
    assert!(build_ospf_hello(ROUTER, 10, &others, &mut bytes));
    bytes[5] = number;
    let checksum = u16::from_be_bytes([bytes[10], bytes[11]]) - u16::from(number);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

const fn s(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

fn before(at: Instant) -> Instant {
    Instant::from_nanos(at.as_nanos() - 1)
}

/// Whether a packet of the host side crosses.
fn crosses(gateway: &mut Gateway, now: Instant, bytes: &[u8]) -> bool {
    gateway.handle(now, frame(PortId::HOST, bytes));
    let octets = pull_all(gateway, LINE, now).concat();
    gateway.check();
    !octets.is_empty()
}

/// Octets that bring a packet over the line.
fn brought(bytes: &[u8]) -> Vec<u8> {
    let mut far = gateway(SERIAL);
    far.handle(s(0), frame(PortId::HOST, bytes));
    pull_all(&mut far, LINE, s(0)).concat()
}

#[test]
fn what_says_nothing_new_crosses_three_times_and_then_once_in_a_while() {
    let mut a = gateway(HELD);
    for (number, second) in [(0, 0), (1, 1), (2, 2)] {
        assert!(crosses(&mut a, s(second), &hello(1, number)));
    }
    assert!(!crosses(&mut a, s(3), &hello(1, 3)));
    assert!(!crosses(&mut a, before(s(17)), &hello(1, 4)));
    assert!(crosses(&mut a, s(17), &hello(1, 5)));
    assert!(!crosses(&mut a, s(18), &hello(1, 6)));
    // Something new does at once, also what was said before it.
    assert!(crosses(&mut a, s(19), &hello(2, 7)));
    assert!(crosses(&mut a, s(20), &hello(1, 8)));
    let stats = a.stats();
    assert_eq!(
        (
            stats.local.answered(Question::Hello).packets,
            stats.absorbed
        ),
        (3, 3)
    );
}

#[test]
fn nothing_is_held_back_unless_it_is_asked_for() {
    let mut plain = gateway(SERIAL);
    let mut rip = gateway(&HELD.replace("ospf", "rip"));
    for second in 0..6 {
        assert!(crosses(&mut plain, s(second), &hello(1, 0)));
        assert!(crosses(&mut rip, s(second), &hello(1, 0)));
    }
    assert_eq!((plain.wake(), rip.wake()), (None, None));
}

#[test]
fn the_other_side_hears_it_at_its_pace_until_it_is_no_longer_valid() {
    let bytes = hello(1, 0);
    for (at, repeated) in [(before(s(20)), 1), (s(20), 0)] {
        let mut b = gateway(HELD);
        b.handle(s(0), frame(LINE, &brought(&bytes)));
        assert_eq!(pull_all(&mut b, PortId::HOST, s(0)), [&bytes[..]]);
        let wake = Wake {
            at: s(10),
            why: WakeReason::Local,
        };
        assert_eq!(b.wake(), Some(wake));
        b.handle(before(s(10)), Input::Timeout);
        assert_eq!(pull_all(&mut b, PortId::HOST, before(s(10))).len(), 0);
        b.handle(at, Input::Timeout);
        assert_eq!(pull_all(&mut b, PortId::HOST, at).len(), repeated);
        assert_eq!(b.stats().local.repeated.packets, repeated as u64);
        b.handle(s(20), Input::Timeout);
        assert_eq!(b.wake(), None);
        b.check();
    }
}

#[test]
fn the_far_side_known_down_ends_it() {
    let mut b = gateway(HELD);
    b.handle(s(0), frame(LINE, &brought(&hello(1, 0))));
    pull_all(&mut b, PortId::HOST, s(0));
    let event = PortEvent::Down(DownCause::Carrier);
    b.handle(s(1), Input::Port { port: LINE, event });
    assert_eq!((b.wake(), b.stats().local.forgotten), (None, 1));
    b.handle(s(10), Input::Timeout);
    assert_eq!(pull_all(&mut b, PortId::HOST, s(10)).len(), 0);
    // On the other side of the line it crosses again once that is up.
    let mut a = gateway(HELD);
    for second in 0..3 {
        assert!(crosses(&mut a, s(second), &hello(1, 0)));
    }
    assert!(!crosses(&mut a, s(3), &hello(1, 0)));
    a.handle(s(4), Input::Port { port: LINE, event });
    let event = PortEvent::Up(state(LineRate::new(9600, 10)));
    a.handle(s(5), Input::Port { port: LINE, event });
    assert!(crosses(&mut a, s(6), &hello(1, 0)));
}

#[test]
fn routers_beyond_the_limit_cross_unhindered() {
    let mut a = gateway(HELD);
    let mut packets = Vec::new();
    for last in 0..80 {
        let mut bytes = Vec::new();
        assert!(build_ospf_hello(
            Ipv4Addr::new(10, 1, 0, last),
            10,
            &[],
            &mut bytes
        ));
        packets.push(bytes);
    }
    let crossed = (0..4).map(|second| {
        let each = packets.iter();
        each.filter(|bytes| crosses(&mut a, s(second), bytes))
            .count()
    });
    assert_eq!(crossed.collect::<Vec<_>>(), [80, 80, 80, 16]);
}

#[test]
fn keys_that_cannot_work_are_refused() {
    let complaint = |text: &str| {
        let config: NodeConfig = config_text::parse("test.toml", text).unwrap();
        Gateway::new(&config).err().map(|error| error.place)
    };
    let place = |key: &str| Some(alloc::format!("[answers.hellos] {key}"));
    assert_eq!(
        complaint(&HELD.replace("[\"ospf\"]", "[]")),
        place("protocols")
    );
    assert_eq!(complaint(&HELD.replace("15 s", "0 s")), place("refresh"));
    assert_eq!(complaint(&HELD.replace("20 s", "15 s")), place("valid"));
    let unset = HELD.replace("valid = \"20 s\"\n", "");
    assert_eq!(complaint(&unset), None);
    let unknown = HELD.replace("ospf", "olsr");
    assert!(config_text::parse::<NodeConfig>("test.toml", &unknown).is_err());
}
