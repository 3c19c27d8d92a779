//! What stations that aren't peers get, and what is taken of theirs.

use super::exchanges::{OWN, PEER, word};
use super::*;

const STRANGER: Address = Address::new(0x0765_4321);

/// A D_PDU for somebody, from somebody.
fn of(from: Address, to: Address, body: Body<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let d_pdu = DPdu {
        eow: 0,
        eot: 2,
        to,
        from,
        body,
    };
    d_pdu.put(&mut out);
    out
}

fn call(from: Address) -> Vec<u8> {
    of(from, OWN, word(&[0x10]))
}

/// What a station says after a transmission that ends at a moment: to whom, its type, its octets.
fn answers(station: &mut Station<u32>, now: Instant, heard: &[u8]) -> Vec<(Address, u8, Vec<u8>)> {
    station.hear_carrier(now, true);
    station.hear(now, heard);
    station.hear_carrier(now, false);
    let now = now + Duration::from_millis(100);
    station.advance(now);
    let room = Room {
        octets: 1 << 12,
        starts: now,
        until: None,
    };
    let mut all = Vec::new();
    let to = station.to_whom(&[]);
    if to.is_some_and(|to| station.begin(now, to, room, (0, 0))) {
        let mut one = Vec::new();
        while station.write(room, &mut one).is_some() && !one.is_empty() {
            let (d_pdu, _) = parse(&one, true).expect("a D_PDU");
            let octets = d_pdu.body.segment().map(|it| Vec::from(it.octets));
            all.push((d_pdu.to, d_pdu.body.kind(), octets.unwrap_or_default()));
            one.clear();
        }
        station.drained(now + Duration::from_secs(1));
    }
    all
}

fn second(at: u64) -> Instant {
    Instant::from_secs(at)
}

/// B.3.1.2 (9), B.3.1.4 (1)–(5): a request is answered by type 2 or 3, whoever asks; who can't be
/// served is told so, in one expedited D_PDU without ARQ.
#[test]
fn a_call_of_a_station_that_is_not_listed_is_rejected() {
    let mut station = exchanges::listener();
    let says = answers(&mut station, second(1), &call(STRANGER));
    assert_eq!(says[0], (STRANGER, 8, Vec::from([0x30])));
    assert!(says.iter().all(|it| *it == says[0]), "{says:?}");
    assert_eq!((station.peers(), station.stats().links_made), (1, 0));
    // A peer is served as before.
    let says = answers(&mut station, second(10), &call(PEER));
    assert_eq!(says[0], (PEER, 8, Vec::from([0x20])));
    // A link that is kept for one alone is the reason, where there is one.
    station.set_exclusive(Some(0), true);
    let says = answers(&mut station, second(20), &call(STRANGER));
    assert_eq!(says[0], (STRANGER, 8, Vec::from([0x33])));
}

/// B.3.1.4: what isn't a call to us, or has no sender that could be answered, is not answered.
#[test]
fn of_what_strangers_say_only_calls_are_answered() {
    let mut station = exchanges::listener();
    let other = of(STRANGER, Address::new(77), word(&[0x10]));
    for heard in [
        call(OWN),
        other,
        of(STRANGER, Address::BROADCAST, word(&[0x10])),
        of(STRANGER, OWN, word(&[0x30])),
        of(STRANGER, OWN, word(&[0x44])),
    ] {
        let now = station.now + Duration::from_secs(5);
        assert_eq!(answers(&mut station, now, &heard), [], "{heard:?}");
    }
    let settings = Settings {
        strangers: false,
        ..station.settings.clone()
    };
    let state = station.state.expect("up");
    let mut station = Station::new(settings, &[PEER], 1);
    station.set_up(Instant::ZERO, state);
    assert_eq!(answers(&mut station, second(1), &call(STRANGER)), []);
}

/// Whoever calls under ever more names doesn't keep the station on the air, and peers are answered
/// all the same.
#[test]
fn calls_under_ever_more_names_are_answered_a_few_times_a_minute() {
    let mut station = exchanges::listener();
    let mut told = 0;
    for nth in 0..120 {
        let says = answers(
            &mut station,
            second(nth),
            &call(Address::new(1000 + nth as u32)),
        );
        told += usize::from(!says.is_empty());
    }
    // Four in a row, and one each quarter of a minute in two minutes.
    assert!((8..=12).contains(&told), "{told}");
    assert_eq!(station.peers.len(), 2);
    let says = answers(&mut station, second(121), &call(PEER));
    assert_eq!(says[0], (PEER, 8, Vec::from([0x20])));
}
