//! What a station of Edition 3 answers to what it hears, D_PDU by D_PDU.

use super::*;
use crate::d_pdu::{Ack, Body, DPdu, Data, NonArq, Reset, Segment, Warning};
use strait_core::Neighbours;

pub(super) const OWN: Address = Address::new(0x0123_4568);
pub(super) const PEER: Address = Address::new(0x0123_4567);

pub(super) fn listener() -> Station<u32> {
    let settings = Settings {
        long_numbers: false,
        ..Settings::new(OWN)
    };
    let mut station = Station::new(settings, &[PEER], 1);
    let rate = LineRate::new(9600, 8);
    let block = Duration::from_millis(480);
    let state = PortState {
        tx_rate: rate,
        rx_rate: rate,
        frame_octets_max: 1 << 20,
        block,
        latency: block,
        notice: strait_core::node::Notice::NONE,
    };
    station.set_up(Instant::ZERO, state);
    station
}

/// A D_PDU from the peer.
pub(super) fn said(body: Body<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let d_pdu = DPdu {
        eow: 0,
        eot: 2,
        to: OWN,
        from: PEER,
        body,
    };
    d_pdu.put(&mut out);
    out
}

/// A word of the link: a call, a break, or an answer to one.
pub(super) fn word(octet: &[u8]) -> Body<'_> {
    Body::NonArq(NonArq {
        expedited: true,
        c_pdu: 0,
        in_order: false,
        group: false,
        size: 1,
        offset: 0,
        window: 20,
        segment: Segment::whole(octet),
    })
}

pub(super) fn control(octet: &[u8]) -> Vec<u8> {
    said(word(octet))
}

pub(super) fn data(number: u16) -> Vec<u8> {
    said(Body::Data(
        Data {
            start: true,
            end: true,
            in_order: false,
            dropped: false,
            upper: false,
            lower: false,
            number,
            segment: Segment::whole(b"\x00\x00\x99\x00HELLO"),
        },
        None,
    ))
}

/// The types that a station says after it has heard a transmission, and its first D_PDU.
fn answer(station: &mut Station<u32>, heard: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let now = station.access.now() + Duration::from_secs(1);
    station.hear_carrier(now, true);
    station.hear(now, heard);
    station.hear_carrier(now, false);
    let now = now + Duration::from_millis(100);
    station.advance(now);
    let room = |octets| Room {
        octets,
        starts: now,
        until: None,
        to: Neighbours::ALL,
    };
    let mut first = Vec::new();
    if station.to_whom(&[]).is_some() && station.begin(now, 0, room(1 << 16), Waiting::default()) {
        station.write(room(1 << 16), &mut first);
        station.drained(now + Duration::from_secs(1));
    }
    let kind = parse(&first, true).map(|(d_pdu, _)| d_pdu.body.kind().number());
    (kind.into_iter().collect(), first)
}

#[test]
fn the_exchanges_that_the_standard_expects_are_these() {
    let mut station = listener();
    // A link is asked for and made.
    let (_, octets) = answer(&mut station, &control(&[0x10]));
    let (d_pdu, _) = parse(&octets, true).expect("an answer");
    let Body::NonArq(piece) = d_pdu.body else {
        unreachable!("{d_pdu:?}")
    };
    assert_eq!(
        (d_pdu.body.kind().number(), piece.segment.octets),
        (8, &[0x20][..])
    );
    // Data, one frame with a wrong check, one behind it.
    let ack = |station: &mut Station<u32>, heard: &[u8]| {
        let (_, octets) = answer(station, heard);
        match parse(&octets, true).map(|(d_pdu, _)| d_pdu.body) {
            Ok(Body::Ack(Ack { lower, selective })) => (lower, Vec::from(selective)),
            other => unreachable!("{other:?}"),
        }
    };
    assert_eq!(ack(&mut station, &data(0)), (1, Vec::new()));
    let mut damaged = data(1);
    let end = damaged.len();
    damaged[end - 1] ^= 1;
    damaged.extend_from_slice(&data(2));
    assert_eq!(ack(&mut station, &damaged), (1, Vec::from([1])));
    // Both begin anew.
    let full = Reset {
        full: true,
        frame: 7,
        ..Reset::default()
    };
    let (_, octets) = answer(&mut station, &said(Body::Reset(full)));
    let (d_pdu, _) = parse(&octets, true).expect("an answer");
    // With number 0, whatever the other's was (C.6.5 (12)).
    let expected = Reset {
        ack: true,
        ..Reset::default()
    };
    assert_eq!(d_pdu.body, Body::Reset(expected));
    // The link is broken.
    let (_, octets) = answer(&mut station, &control(&[0x44]));
    let (d_pdu, _) = parse(&octets, true).expect("an answer");
    assert_eq!(d_pdu.body.segment().map(|it| it.octets), Some(&[0x50][..]));
    assert!(!station.peer(0).is_some_and(Peer::is_linked));
}

/// The warning that follows what was heard: the type that it is about, and why.
fn warning(heard: &[u8]) -> Option<(u8, u8)> {
    let (_, octets) = answer(&mut listener(), heard);
    match parse(&octets, true).ok()?.0.body {
        Body::Warning(it) => Some((it.received.number(), it.fault.number())),
        _ => None,
    }
}

/// The D_PDU with another type and an own part of other octets, its check right.
pub(super) fn twisted(kind: u8, own: &[u8]) -> Vec<u8> {
    let plain = said(Body::Warning(Warning::of(0, 0)));
    let mut out = plain[..2 + 4 + 7].to_vec();
    out[2] = kind << 4;
    out[5] = 7 << 5 | (6 + own.len()) as u8;
    out.extend_from_slice(own);
    let check = crate::check::crc16(&out[2..]).to_le_bytes();
    out.extend_from_slice(&check);
    out
}

#[test]
fn what_is_unknown_not_connected_or_makes_no_sense_is_warned_of_and_warnings_never() {
    let ack = Ack {
        lower: 0,
        selective: &[],
    };
    for (heard, kind) in [
        (data(0), 0),
        (said(Body::Ack(ack)), 1),
        (said(Body::Reset(Reset::default())), 3),
        (said(Body::ExpeditedAck(ack)), 5),
    ] {
        assert_eq!(warning(&heard), Some((kind, 1)));
    }
    // Types that Edition 3 doesn't have, whatever stands in them.
    for kind in 9..=14 {
        for own in [&[][..], &[0; 4], &[0; 6], &[0; 20]] {
            assert_eq!(warning(&twisted(kind, own)), Some((kind, 0)), "{own:?}");
        }
    }
    // Parts of a wrong length.
    for (kind, own) in [
        (0, 2),
        (1, 0),
        (2, 3),
        (3, 4),
        (4, 9),
        (5, 18),
        (6, 1),
        (7, 8),
        (8, 3),
    ] {
        assert_eq!(warning(&twisted(kind, &[0; 20][..own])), Some((kind, 2)));
    }
    assert_eq!(warning(&twisted(15, &[0x91])), None);
    assert_eq!(warning(&twisted(15, &[0x91, 0, 0])), None);
    // Nobody that we know, and not for us.
    let mut stranger = twisted(9, &[]);
    stranger[12] ^= 1;
    let end = stranger.len() - 2;
    let check = crate::check::crc16(&stranger[2..end]).to_le_bytes();
    stranger[end..].copy_from_slice(&check);
    assert_eq!(warning(&stranger), None);
}

/// Lets station 0 of a world hear that 1 doesn't know what 1 was sent by long numbers.
fn deny(world: &mut World) {
    let unknown = Body::Warning(Warning::of(9, 0));
    let bytes = of([1, 0], unknown);
    world.stations[0].hear(world.now, &bytes);
    world.kinds.clear();
}

#[test]
fn who_has_sent_long_numbers_knows_them_whatever_anybody_says() {
    let mut world = World::pair(Air::at(9600, 0.0));
    world.offer(0, 1, 100, true);
    world.run(Instant::from_secs(30));
    deny(&mut world);
    assert!(!world.stations[0].peer(1).is_some_and(Peer::is_linked));
    world.offer(0, 1, 100, true);
    world.run(Instant::from_secs(100));
    assert_eq!(world.marks(1), [0, 1]);
    assert!(world.kinds.contains_key(&9) && !world.kinds.contains_key(&0));
}

#[test]
fn who_says_that_it_knows_no_long_numbers_gets_none_for_an_hour() {
    let mut world = World::pair(Air::at(9600, 0.0));
    world.offer(0, 1, 100, true);
    while !world.stations[0].peer(1).is_some_and(Peer::is_linked) {
        world.run(world.now + Duration::from_millis(10));
    }
    // It has sent none yet.
    deny(&mut world);
    let denied = world.now;
    for (after_s, kind) in [(0, 0), (3300, 0), (3700, 9)] {
        world.run(denied + Duration::from_secs(after_s));
        world.kinds.clear();
        world.offer(0, 1, 100, true);
        world.run(world.now + Duration::from_secs(100));
        assert!(
            world.kinds.contains_key(&kind),
            "{after_s}: {:?}",
            world.kinds
        );
        assert!(!world.kinds.contains_key(&(9 - kind)), "{after_s}");
    }
    assert_eq!(world.marks(1).len(), 4);
}

#[test]
fn breaks_of_a_link_that_is_being_called_for_leave_the_rest_between_calls() {
    let mut world = World::pair(Air::at(9600, 0.0));
    world.deaf[1][0] = true;
    world.offer(0, 1, 100, true);
    let forged = of([1, 0], word(&[0x44]));
    let (mut breaks, mut calls) = (0, 0);
    // Whoever it is says so when a call awaits its answer, and now and then.
    while world.now < Instant::from_secs(600) {
        world.run(world.now + Duration::from_millis(700));
        let now = world.now;
        let station = &mut world.stations[0];
        let awaits = matches!(station.access.phase(), Phase::Awaiting(_));
        if awaits || station.access.phase() == Phase::Free {
            station.hear_carrier(now, true);
            station.hear(now, &forged);
            station.hear_carrier(now, false);
            world.settle(0);
            breaks += 1;
            calls += u32::from(awaits);
        }
    }
    // Four in a row, and half a minute.
    assert!(
        breaks > 100 && (1..=4 * 600 / 30).contains(&calls),
        "{breaks}, {calls}"
    );
}

#[test]
fn who_was_sent_no_long_numbers_has_nothing_to_say_of_them() {
    let mut station = Station::<u32>::new(Settings::new(OWN), &[PEER], 1);
    station.set_up(Instant::ZERO, listener().ladder.medium().expect("it is up"));
    answer(&mut station, &said(Body::Warning(Warning::of(9, 0))));
    assert!(station.peers[0].calls.knows_ours());
    assert_eq!(station.stats().links_lost, 0);
}

#[test]
fn nothing_is_taken_or_confirmed_while_a_reset_is_not_answered() {
    // Found by the swarm: the answer to a reset was lost, and what went by new numbers was taken
    // for what had come by old ones, and acknowledged.
    let mut station = listener();
    answer(&mut station, &control(&[0x10]));
    answer(&mut station, &data(0));
    assert!(station.poll_received().is_some());
    begin_reset(&mut station, 0);
    let now = station.access.now() + Duration::from_secs(1);
    station.hear_carrier(now, true);
    station.hear(now, &[data(0), data(1)].concat());
    station.hear_carrier(now, false);
    let now = now + Duration::from_millis(100);
    station.advance(now);
    let room = Room {
        octets: 1 << 16,
        starts: now,
        until: None,
        to: Neighbours::ALL,
    };
    assert!(station.begin(now, 0, room, Waiting::default()));
    let mut all = Vec::new();
    while station.write(room, &mut all).is_some() {}
    let mut kinds = Vec::new();
    let mut rest = &all[..];
    while let Ok((d_pdu, octets)) = parse(rest, false) {
        kinds.push(d_pdu.body.kind().number());
        rest = &rest[octets..];
    }
    assert!(kinds.contains(&3) && !kinds.contains(&1), "{kinds:?}");
    assert!(station.poll_received().is_none());
}

/// Gives up what a station has for another, by its ticket.
fn give_up(world: &mut World, from: usize, to: usize, ticket: u32) {
    world.stations[from].give_up(to, |its| *its == ticket);
    world.settle(from);
}

#[test]
fn what_is_given_up_is_over_whatever_it_waits_for() {
    for (expedited, kept) in [(true, false), (true, true), (false, true)] {
        let mut world = World::new(Air::at(9600, 0.0), (0..3).map(settings).collect());
        // Nobody answers there, or a link is kept for another.
        world.deaf[1][0] = !kept;
        world.stations[0].set_exclusive(kept.then_some(Exclusive {
            peer: 2,
            keeps: false,
        }));
        world.stations[0].offer(Offer {
            to: 1,
            c_pdu: alloc::vec![0; 300],
            arq: expedited,
            expedited,
            urgent: false,
            in_order: false,
            copies: 1,
            ticket: 7,
        });
        world.settle(0);
        world.run(Instant::from_secs(100));
        assert_eq!(world.outcomes[0], [], "{expedited}, {kept}");
        give_up(&mut world, 0, 1, 7);
        assert_eq!(world.outcomes[0], [(7, false)], "{expedited}, {kept}");
        assert_eq!(world.stations[0].held(), 0);
        // Nor is anybody called for it.
        world.run(Instant::from_secs(200));
        let turns = world.turns.len();
        world.run(Instant::from_secs(1000));
        assert_eq!(world.turns.len(), turns, "{expedited}, {kept}");
    }
}

#[test]
fn an_acknowledgement_of_expedited_data_that_was_given_up_is_none_of_the_next() {
    let mut world = World::pair(Air::at(9600, 0.0));
    world.offer(0, 1, 100, true);
    world.run(Instant::from_secs(20));
    world.deaf = alloc::vec![alloc::vec![true; 2]; 2];
    expedite(&mut world, 0, 1, 7, 100);
    world.run(world.now + Duration::from_secs(5));
    give_up(&mut world, 0, 1, 7);
    assert!(world.stations[0].peers[1].transfer.expedited.takes());
    expedite(&mut world, 0, 1, 8, 100);
    let turns = world.turns.len();
    while world.turns.len() == turns || world.keyed[0].is_some() {
        world.run(world.now + Duration::from_millis(100));
    }
    world.run(world.now + Duration::from_secs(1));
    // The other end takes its time.
    let late = of(
        [1, 0],
        Body::ExpeditedAck(Ack {
            lower: 1,
            selective: &[],
        }),
    );
    let now = world.now;
    world.stations[0].hear_carrier(now, true);
    world.stations[0].hear(now, &late);
    world.stations[0].hear_carrier(now, false);
    world.settle(0);
    assert_eq!(world.outcomes[0], [(0, true), (7, false)]);
    world.deaf = alloc::vec![alloc::vec![false; 2]; 2];
    world.run(world.now + Duration::from_secs(60));
    assert_eq!(world.marks(1), [0, 8]);
    assert_eq!(world.outcomes[0], [(0, true), (7, false), (8, true)]);
}

/// B.3 (1): a word of the link is one node's. To a group or to all it is nobody's.
#[test]
fn a_word_of_the_link_to_more_than_one_is_not_heeded() {
    let group = Address::new(0x1000_0007);
    for to in [Address::BROADCAST, group] {
        let mut station = listener();
        configure(&mut station, |it| it.groups = alloc::vec![group]);
        let (kinds, _) = answer(&mut station, &control(&[0x10]));
        assert_eq!(kinds, [8]);
        for octet in [[0x10], [0x11], [0x20], [0x30], [0x44], [0x50]] {
            let mut heard = Vec::new();
            let d_pdu = DPdu {
                eow: 0,
                eot: 2,
                to,
                from: PEER,
                body: word(&octet),
            };
            d_pdu.put(&mut heard);
            let (kinds, _) = answer(&mut station, &heard);
            assert_eq!(
                (kinds, station.peer(0).is_some_and(Peer::is_linked)),
                (Vec::new(), true),
                "{octet:x?}"
            );
        }
    }
}

/// B.3.2.1 (18): an acceptance that nobody asked for ends no link: by an acknowledgement its other
/// end is asked, and says if there is none.
#[test]
fn an_acceptance_that_nobody_asked_for_is_asked_about() {
    let mut station = listener();
    answer(&mut station, &control(&[0x10]));
    answer(&mut station, &data(0));
    let (kinds, _) = answer(&mut station, &control(&[0x20]));
    assert_eq!(
        (kinds, station.peer(0).is_some_and(Peer::is_linked)),
        (Vec::from([1]), true)
    );
    let warning = Body::Warning(Warning::of(1, 1));
    answer(&mut station, &said(warning));
    assert!(!station.peer(0).is_some_and(Peer::is_linked));
}

/// B.3.2.1 (16), (17): an exclusive link waits for its caller's data while others are on the air.
#[test]
fn an_exclusive_link_waits_while_others_talk() {
    let mut station = listener();
    answer(&mut station, &control(&[0x11]));
    for _ in 0..6 {
        let now = station.access.now() + Duration::from_secs(1);
        station.hear_carrier(now, true);
        station.advance(now + Duration::from_secs(3));
        station.hear_carrier(now + Duration::from_secs(3), false);
        assert!(station.peer(0).is_some_and(Peer::is_linked), "{now:?}");
    }
    station.advance(station.access.now() + Duration::from_secs(400));
    assert!(!station.peer(0).is_some_and(Peer::is_linked));
}
