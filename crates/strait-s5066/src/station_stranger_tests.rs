//! What stations that aren't peers get, and what is taken of theirs.

use super::exchanges::{OWN, PEER, word};
use super::*;
use crate::d_pdu::{Data, NonArq, Segment};
use strait_core::Neighbours;

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
    speak(station, now + Duration::from_millis(100))
}

/// The same of what it says by itself.
fn speak(station: &mut Station<u32>, now: Instant) -> Vec<(Address, u8, Vec<u8>)> {
    station.advance(now);
    let room = Room {
        octets: 1 << 12,
        starts: now,
        until: None,
        to: Neighbours::ALL,
    };
    let mut all = Vec::new();
    let to = station.to_whom(&[]);
    if to.is_some_and(|to| station.begin(now, to, room, Waiting::default())) {
        let mut one = Vec::new();
        while station.write(room, &mut one).is_some() && !one.is_empty() {
            let (d_pdu, _) = parse(&one, true).expect("a D_PDU");
            let octets = d_pdu.body.segment().map(|it| Vec::from(it.octets));
            all.push((
                d_pdu.to,
                d_pdu.body.kind().number(),
                octets.unwrap_or_default(),
            ));
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
    station.set_exclusive(Some(Exclusive {
        peer: 0,
        keeps: true,
    }));
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
        let now = station.access.now() + Duration::from_secs(5);
        assert_eq!(answers(&mut station, now, &heard), [], "{heard:?}");
    }
    let settings = Settings {
        strangers: false,
        ..station.settings.clone()
    };
    let state = station.ladder.medium().expect("up");
    let mut station = Station::new(settings, &[PEER], 1);
    station.set_up(Instant::ZERO, state);
    assert_eq!(answers(&mut station, second(1), &call(STRANGER)), []);
}

/// C.3.10, C.4.2: data without ARQ needs no link, and is for whom its address says, whoever sends
/// it; who does isn't answered.
#[test]
fn data_without_arq_of_a_station_that_is_not_listed_comes() {
    let group: Address = "16.0.0.1".parse().expect("a group");
    let settings = Settings {
        groups: Vec::from([group]),
        ..exchanges::listener().settings
    };
    for strangers in [true, false] {
        let settings = Settings {
            strangers,
            ..settings.clone()
        };
        let state = exchanges::listener().ladder.medium().expect("up");
        let mut station: Station<u32> = Station::new(settings, &[PEER], 1);
        station.set_up(Instant::ZERO, state);
        let foreign: Address = "16.0.0.2".parse().expect("a group");
        for to in [OWN, group, Address::BROADCAST, foreign, Address::new(77)] {
            let now = station.access.now() + Duration::from_secs(5);
            // In two pieces, the second first.
            let octets = b"\0\x03\x44\0hello";
            let piece = |offset: usize, until: usize| NonArq {
                expedited: false,
                c_pdu: 9 + u16::from(to == group) + 2 * u16::from(to == OWN),
                in_order: false,
                group: to.is_group(),
                size: 9,
                offset: offset as u16,
                window: 20,
                segment: Segment::whole(&octets[offset..until]),
            };
            let mut heard = of(STRANGER, to, Body::NonArq(piece(4, 9)));
            heard.extend(of(STRANGER, to, Body::NonArq(piece(0, 4))));
            assert_eq!(answers(&mut station, now, &heard), []);
            let got = station.poll_received();
            let taken = strangers && ![foreign, Address::new(77)].contains(&to);
            let got = got.map(|it| (it.from, it.source, it.to, it.arq, it.c_pdu));
            let expected = (None, STRANGER, to, false, Vec::from(*octets));
            assert_eq!(got, taken.then_some(expected), "{to}");
        }
    }
}

/// A flood of strangers takes room of strangers alone.
#[test]
fn pieces_of_strangers_leave_those_of_peers_alone() {
    let mut station = exchanges::listener();
    let part = |number: u16, offset: u16, octets| {
        Body::NonArq(NonArq {
            expedited: false,
            c_pdu: number,
            in_order: false,
            group: false,
            size: 8,
            offset,
            window: u16::MAX,
            segment: Segment::whole(octets),
        })
    };
    let mut heard = of(PEER, OWN, part(1, 0, b"\0\x03\x44\0"));
    for nth in 0..40 {
        heard.extend(of(
            Address::new(1000 + nth),
            OWN,
            part(1, 0, b"\0\x03\x44\0"),
        ));
    }
    heard.extend(of(PEER, OWN, part(1, 4, b"rest")));
    assert_eq!(answers(&mut station, second(1), &heard), []);
    let got = station.poll_received().expect("the peer's");
    assert_eq!((got.from, got.source), (Some(0), PEER));
    assert_eq!(station.inbox.broken_of_strangers(), 32);
    // Those that are left are over in ten minutes, and told as they are.
    station.advance(second(602));
    let left = core::iter::from_fn(|| station.poll_received());
    assert!(left.count() == 8 && station.wake().is_none());
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
    assert_eq!(station.peers.iter().count(), 2);
    let says = answers(&mut station, second(121), &call(PEER));
    assert_eq!(says[0], (PEER, 8, Vec::from([0x20])));
}

/// B.3.1.4 (4), A.1.1.3 (3), (4): a node without links rejects calls with reason 1, of peers and of
/// others, calls nobody, and sends what goes without ARQ.
#[test]
fn a_station_without_links_rejects_calls_and_sends_without_arq() {
    let listener = exchanges::listener();
    let settings = Settings {
        broadcast_only: true,
        ..listener.settings
    };
    let mut station: Station<u32> = Station::new(settings, &[PEER], 1);
    station.set_up(Instant::ZERO, listener.ladder.medium().expect("up"));
    for (at, from) in [(1, PEER), (10, STRANGER)] {
        for request in [0x10, 0x11] {
            let heard = of(from, OWN, word(&[request]));
            let says = answers(&mut station, second(at), &heard);
            assert_eq!(says[0], (from, 8, Vec::from([0x31])));
        }
    }
    station.advance(second(30));
    assert!(!station.link(0) && !station.takes(0, true) && !station.takes_expedited(0));
    assert!(station.takes(0, false));
    let offer = Offer {
        to: 0,
        c_pdu: Vec::from(*b"\0\x03\x44\0hello"),
        arq: false,
        expedited: false,
        urgent: false,
        in_order: false,
        copies: 1,
        ticket: 1,
    };
    station.offer(offer);
    let says = speak(&mut station, second(31));
    let kinds: Vec<u8> = says.iter().map(|it| it.1).collect();
    assert_eq!(kinds, [7]);
    assert_eq!(station.stats().links_made, 0);
}

/// Guests' places are few, and whoever calls under ever more names takes none of a stranger that is
/// there, of one for which there is something, or of a peer.
#[test]
fn strangers_that_call_and_say_nothing_take_no_place_of_those_that_do() {
    let listener = exchanges::listener();
    let settings = Settings {
        guests: 3,
        ..listener.settings
    };
    let mut station: Station<u32> = Station::new(settings, &[PEER], 1);
    station.set_up(Instant::ZERO, listener.ladder.medium().expect("up"));
    assert_eq!((station.peers(), station.places()), (1, 4));
    let wanted = Address::new(4000);
    let place = station.place(wanted).expect("a place");
    let says = answers(&mut station, second(1), &call(PEER));
    assert_eq!(says[0], (PEER, 8, Vec::from([0x20])));
    let says = answers(&mut station, second(20), &call(STRANGER));
    assert_eq!(says[0], (STRANGER, 8, Vec::from([0x20])));
    let data = Data {
        start: true,
        end: true,
        in_order: false,
        dropped: false,
        upper: true,
        lower: true,
        number: 0,
        segment: Segment::whole(b"\0\x03\x44\0hello"),
    };
    let heard = of(STRANGER, OWN, Body::Data(data, None));
    let says = answers(&mut station, second(22), &heard);
    assert_eq!((says[0].0, says[0].1), (STRANGER, 1));
    let got = station.poll_received().expect("the stranger's");
    let at = got.from.expect("a place");
    assert_eq!((got.source, got.arq), (STRANGER, true));
    let mut answered = 0;
    for nth in 0..200_u32 {
        let now = second(30) + Duration::from_millis(500) * nth;
        let says = answers(&mut station, now, &call(Address::new(1000 + nth)));
        let says = says
            .iter()
            .filter(|it| it.0.bits() >= 1000 && it.0.bits() < 1200);
        answered += says.take(1).count();
    }
    // Four in a row, and one each 15 s.
    assert!((4..=12).contains(&answered), "{answered}");
    assert!(
        station.peer(0).is_some_and(Peer::is_linked)
            && station.peer(at).is_some_and(Peer::is_linked)
    );
    assert_eq!(station.place(wanted), Some(place));
    assert_eq!(station.place(STRANGER), Some(at));
    // Those of which nothing came are forgotten without a word.
    station.advance(second(220));
    let linked = (0..station.places()).filter(|it| station.peer(*it).is_some_and(Peer::is_linked));
    assert_eq!(linked.collect::<Vec<_>>(), [0, at]);
    // All places are for those that there is something for: others are turned down.
    let third = Address::new(4001);
    assert!(station.place(third).is_some());
    let says = answers(&mut station, second(230), &call(Address::new(4002)));
    assert_eq!(says[0], (Address::new(4002), 8, Vec::from([0x30])));
    // Nobody keeps the others out whom nobody knows.
    station.keep_guests(|_| false);
    let heard = of(Address::new(4003), OWN, word(&[0x11]));
    let says = answers(&mut station, second(260), &heard);
    assert_eq!(says[0], (Address::new(4003), 8, Vec::from([0x30])));
    let heard = of(STRANGER, OWN, word(&[0x11]));
    let says = answers(&mut station, second(280), &heard);
    assert_eq!(says[0], (STRANGER, 8, Vec::from([0x30])));
}
