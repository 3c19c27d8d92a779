//! Two stations, or one and literal octets.

use alloc::string::{String, ToString};
use alloc::vec;
use core::net::SocketAddr;

use strait_core::Ledger;
use strait_core::fate::Origin;
use strait_core::stats::Stats;

use super::*;

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// Just after the start.
const T: Instant = Instant::from_secs(1);

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// What `station` has to say.
fn said(station: &mut Station) -> Vec<Vec<u8>> {
    core::iter::from_fn(|| station.next_frame(usize::MAX)).collect()
}

/// Claims one address.
fn only(wanted: &str, claim: Claim) -> impl Fn(IpAddr) -> Claim {
    let wanted = address(wanted);
    move |asked| if asked == wanted { claim } else { Claim::None }
}

/// The question of B for `target` by `src`.
fn question(src: &str, target: &str) -> Vec<u8> {
    let mut asker = Station::new(B);
    asker.ask(address(target), Some(address(src)));
    said(&mut asker).remove(0)
}

fn packet(ledger: &mut Ledger, dst: &str) -> Packet {
    let mut bytes = Vec::new();
    let from = SocketAddr::new(
        address(if dst.contains(':') {
            "fd00::9"
        } else {
            "10.9.0.1"
        }),
        9,
    );
    let to = SocketAddr::new(address(dst), 9);
    assert!(ip::build_udp(from, to, 0, 64, 0, 0, b"hello", &mut bytes));
    ledger.admit(T, bytes, Origin::Own).unwrap()
}

#[test]
fn a_question_for_a_host_behind_is_answered_in_its_name() {
    let mut a = Station::new(A);
    // Who has 10.2.0.2? Tell 10.1.0.2.
    let asks = question("10.1.0.2", "10.2.0.2");
    let heard = a.hear(T, &asks, only("10.2.0.2", Claim::Behind));
    assert_eq!(heard, Heard::Answered(Question::Arp));
    assert_eq!(
        said(&mut a),
        [
            b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\x06\0\x01\x08\0\x06\x04\0\x02\
           \x02\0\0\0\0\x01\x0a\x02\0\x02\x02\0\0\0\0\x02\x0a\x01\0\x02"
        ]
    );
    assert_eq!(a.hear(T, &asks, |_| Claim::None), Heard::Noted);
    assert_eq!(said(&mut a).len(), 0);
}

#[test]
fn a_neighbour_is_told_that_a_proxy_speaks() {
    let (host, router) = (Station::new(A), Station::of_router(A));
    let behind = Station::of_router(A);
    for (mut a, claim, flags) in [
        (behind, Claim::Behind, 0x40),
        (host, Claim::Own, 0x60),
        (router, Claim::Own, 0xe0),
    ] {
        let asks = question("fd00:1::2", "fd00:2::2");
        let heard = a.hear(T, &asks, only("fd00:2::2", claim));
        assert_eq!(heard, Heard::Answered(Question::Neighbour));
        let answer = said(&mut a).remove(0);
        assert_eq!(answer[..14], *b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x86\xdd");
        assert_eq!((answer[54], answer[58]), (136, flags));
        assert_eq!(answer[78..], *b"\x02\x01\x02\0\0\0\0\x01");
        // The one who asked learns it.
        let mut b = Station::new(B);
        b.hear(T, &answer, |_| Claim::None);
        assert!(b.is_local(T, address("fd00:2::2")));
    }
}

#[test]
fn an_address_that_others_may_take_is_never_claimed() {
    let claim = only("10.2.0.2", Claim::Behind);
    let mut a = Station::new(A);
    // A probe for it (RFC 5227), and a question a little later.
    let mut other = Station::new(Mac([2, 0, 0, 0, 0, 3]));
    other.ask(address("10.2.0.2"), None);
    let probe = said(&mut other).remove(0);
    assert_eq!(a.hear(T, &probe, &claim), Heard::Noted);
    let asks = question("10.1.0.2", "10.2.0.2");
    let until = T + Station::KNOWN_FOR;
    let before = Instant::from_nanos(until.as_nanos() - 1);
    assert_eq!(a.hear(before, &asks, &claim), Heard::Noted);
    assert_eq!(said(&mut a).len(), 0);
    // Nobody has spoken for it since.
    assert_eq!(a.hear(until, &asks, &claim), Heard::Answered(Question::Arp));
}

#[test]
fn duplicate_address_detection_is_answered_for_our_own_address_alone() {
    let probe = |target: &str| {
        let target: Ipv6Addr = target.parse().unwrap();
        let message = Neighbour {
            asks: true,
            target,
            mac: None,
            router: false,
            solicited: false,
            overrides: false,
        };
        let mut frame = Vec::new();
        let group = Mac::of_many(Neighbour::group(target).into()).unwrap();
        ethernet::put_header(group, B, ethernet::IPV6, &mut frame);
        let group = Neighbour::group(target);
        assert!(message.build(Ipv6Addr::UNSPECIFIED, group, &mut frame));
        frame
    };
    let mut a = Station::new(A);
    let [other, own, auto] = ["fd00:2::2", "fd00:1::1", "fe80::ff:fe00:1"].map(probe);
    let behind = a.hear(T, &other, |_| Claim::Behind);
    assert_eq!((behind, said(&mut a).len()), (Heard::Noted, 0));
    let own = a.hear(T, &own, only("fd00:1::1", Claim::Own));
    assert_eq!(own, Heard::Answered(Question::Neighbour));
    let defence = said(&mut a).remove(0);
    assert_eq!(defence[..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!((defence[54], defence[58]), (136, 0x20));
    let heard = a.hear(T, &auto, |_| Claim::None);
    assert_eq!(heard, Heard::Answered(Question::Neighbour));
}

#[test]
fn a_packet_waits_for_its_station_and_no_longer_than_three_questions() {
    let mut ledger = Ledger::new(Stats::default());
    let (hop, own) = (address("10.1.0.2"), Some(address("10.1.0.1")));
    let mut a = Station::new(A);
    let first = packet(&mut ledger, "10.1.0.2");
    assert!(matches!(a.resolve(T, hop, own, first), Resolved::Waits));
    // Who has 10.1.0.2? Tell 10.1.0.1.
    assert_eq!(
        said(&mut a),
        [
            b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\0\x01\x08\x06\0\x01\x08\0\x06\x04\0\x01\
           \x02\0\0\0\0\x01\x0a\x01\0\x01\0\0\0\0\0\0\x0a\x01\0\x02"
        ]
    );
    for second in 1..=2 {
        let at = T + Duration::from_secs(second);
        assert_eq!(a.wake(), Some(at));
        let early = a.advance(Instant::from_nanos(at.as_nanos() - 1));
        assert_eq!((early.len(), said(&mut a).len()), (0, 0));
        assert_eq!((a.advance(at).len(), said(&mut a).len()), (0, 1));
    }
    let end = T + Duration::from_secs(3);
    let given_up = a.advance(end);
    assert_eq!((given_up.len(), said(&mut a).len(), a.wake()), (1, 0, None));
    // Another one, which is answered.
    let second = packet(&mut ledger, "10.1.0.2");
    assert!(matches!(a.resolve(end, hop, own, second), Resolved::Waits));
    let asks = said(&mut a).remove(0);
    let mut b = Station::new(B);
    b.hear(end, &asks, only("10.1.0.2", Claim::Own));
    let answer = said(&mut b).remove(0);
    a.hear(end, &answer, |_| Claim::None);
    let released = a.released();
    assert_eq!((released.len(), a.held()), (1, 0));
    let mut header = Vec::new();
    a.put_header(hop, &mut header);
    assert_eq!(header, *b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01\x08\0");
    for packet in given_up.into_iter().chain(released) {
        ledger.drop(end, packet, strait_core::DropCause::Unresolved);
    }
}

#[test]
fn a_station_that_falls_silent_is_asked_for_again_and_then_forgotten() {
    let mut ledger = Ledger::new(Stats::default());
    let hop = address("fd00:1::2");
    let mut a = Station::new(A);
    let announcement = question("fd00:1::2", "fd00:1::1");
    a.hear(T, &announcement, |_| Claim::None);
    let mut at = T + Station::KNOWN_FOR;
    let before = Instant::from_nanos(at.as_nanos() - 1);
    let mut send = |a: &mut Station, at| {
        let packet = packet(&mut ledger, "fd00:1::2");
        let goes = match a.resolve(at, hop, None, packet) {
            Resolved::Goes(packet) => {
                ledger.drop(at, packet, strait_core::DropCause::Aged);
                true
            }
            _ => false,
        };
        (goes, said(a).len())
    };
    assert_eq!(send(&mut a, before), (true, 0));
    for _ in 0..Station::TIMES {
        assert_eq!(send(&mut a, at), (true, 1));
        at += Station::AGAIN;
    }
    assert_eq!(send(&mut a, at), (false, 1));
    for packet in a.clear() {
        ledger.drop(at, packet, strait_core::DropCause::PortDown);
    }
}

#[test]
fn one_who_waits_is_told_when_the_host_is_heard() {
    let target = address("10.2.0.2");
    let claim = only("10.2.0.2", Claim::Later);
    let mut a = Station::new(A);
    let asks = question("10.1.0.2", "10.2.0.2");
    let until = T + Station::AGAIN * Station::TIMES;
    for (at, answered) in [
        (
            Instant::from_nanos(until.as_nanos() - 1),
            Some(Question::Arp),
        ),
        (until, None),
    ] {
        assert_eq!(a.hear(T, &asks, &claim), Heard::Wanted(target));
        assert_eq!(said(&mut a).len(), 0);
        assert_eq!(a.vouch(at, target), answered);
        assert_eq!(said(&mut a).len(), usize::from(answered.is_some()));
        assert_eq!(a.vouch(at, target), None);
    }
}

#[test]
fn a_sweep_meets_limits_that_are_counted() {
    let mut ledger = Ledger::new(Stats::default());
    let mut a = Station::new(A);
    let mut refused = vec![];
    for number in 0..2000u32 {
        let target = format_address(number);
        let packet = packet(&mut ledger, &target);
        let hop = address(&target);
        if let Resolved::Refused(packet) = a.resolve(T, hop, None, packet) {
            refused.push(packet);
        }
        let asks = question(&target, "10.1.0.1");
        a.hear(T, &asks, |_| Claim::Later);
    }
    assert_eq!(a.held() + refused.len(), 2000);
    assert_eq!(a.held(), Station::HELD_MAX);
    assert_eq!(said(&mut a).len(), Station::FRAMES_MAX);
    assert_eq!(a.known.len(), Station::ADDRESSES_MAX);
    assert!(a.crowded() > 0);
    for packet in refused.into_iter().chain(a.clear()) {
        ledger.drop(T, packet, strait_core::DropCause::Unresolved);
    }
}

fn format_address(number: u32) -> String {
    Ipv4Addr::from(0x0a01_0000 + number).to_string()
}

#[test]
fn frames_for_others_and_of_our_own_are_left_alone() {
    let mut a = Station::new(A);
    let mut frame = question("10.1.0.2", "10.2.0.2");
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    assert_eq!(a.hear(T, &frame, |_| Claim::Behind), Heard::Foreign);
    let mut own = Station::new(A);
    own.ask(address("10.2.0.2"), None);
    let echo = said(&mut own).remove(0);
    assert_eq!(a.hear(T, &echo, |_| Claim::Behind), Heard::Foreign);
    for length in 0..frame.len() {
        a.hear(T, &frame[..length], |_| Claim::Behind);
    }
    assert_eq!(said(&mut a).len(), 0);
}
