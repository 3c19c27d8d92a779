//! Clauses of Annex B: how links are asked for, used and broken, word by word.

use super::clauses::{linked, offer, speak, turn};
use super::exchanges::{OWN, PEER, control, listener};
use super::*;
use crate::sis::{MODE_ARQ, Op, Primitive, Service, Settings as SisSettings, Sis};

/// All that was said is one word of the link, each in a D_PDU of its own.
fn expect(says: &[Vec<u8>], octet: u8) {
    assert!(!says.is_empty());
    for d_pdu in says {
        let (d_pdu, _) = parse(d_pdu, true).expect("a D_PDU");
        let Body::NonArq(word) = d_pdu.body else {
            unreachable!("{d_pdu:?}")
        };
        assert_eq!(
            (d_pdu.to, word.expedited, word.size, word.offset),
            (PEER, true, 1, 0)
        );
        assert_eq!(word.segment.octets, [octet]);
    }
}

/// B.3.1.2 (8), B.3.1.3 (4), B.3.2 (2): a word of the link is one D_PDU of type 8 with one octet.
#[test]
fn a_link_word_is_one_expedited_d_pdu_without_arq() {
    let mut station = listener();
    expect(&turn(&mut station, &control(&[0x10])), 0x20);
    // B.3.2.1 (15): asked again, it says so again.
    expect(&turn(&mut station, &control(&[0x10])), 0x20);
    assert!(station.peer(0).is_some_and(Peer::is_linked));
    expect(&turn(&mut station, &control(&[0x41])), 0x50);
    assert!(!station.peer(0).is_some_and(Peer::is_linked));
    // A break of no link is confirmed, too: the other end waits for that.
    expect(&turn(&mut station, &control(&[0x44])), 0x50);
    station.link(0);
    let now = station.access.now() + Duration::from_secs(20);
    expect(&speak(&mut station, now), 0x10);
    turn(&mut station, &control(&[0x20]));
    assert!(station.peer(0).is_some_and(Peer::is_linked));
    let now = station.access.now() + station.settings.idle;
    expect(&speak(&mut station, now), 0x44);
}

/// B.3.2.1 (16), (17): a link by which its caller sends nothing is given up by the called.
#[test]
fn a_link_that_its_caller_never_uses_is_broken_by_the_called() {
    let mut station = listener();
    turn(&mut station, &control(&[0x10]));
    let ends = station.access.now() + station.settings.idle * 2;
    let before = Instant::from_nanos(ends.as_nanos() - 2_000_000_000);
    assert!(speak(&mut station, before).is_empty() && station.peer(0).is_some_and(Peer::is_linked));
    assert!(!speak(&mut station, ends).is_empty());
    turn(&mut station, &control(&[0x50]));
    assert!(!station.peer(0).is_some_and(Peer::is_linked));
}

/// B.3.2.1 (16), (17): an exclusive one as soon as data could have come, for nobody else is served.
#[test]
fn an_exclusive_link_that_its_caller_never_uses_ends_soon() {
    for margin in [1, 9].map(Duration::from_secs) {
        let mut station = listener();
        configure(&mut station, |it| it.answer_margin = margin);
        let called = station.access.now() + Duration::from_secs(1);
        turn(&mut station, &control(&[0x11]));
        // As long as two answers take, or until a turn has come behind what was said meanwhile.
        let ends = station.peers[0].calls.link().calls_at().expect("it waits");
        let waits = ends.since(called);
        assert!(waits >= station.access.answer_time() * 2 && waits < station.settings.idle / 2);
        station.advance(Instant::from_nanos(ends.as_nanos() - 1));
        assert!(station.peer(0).is_some_and(Peer::is_linked));
        station.advance(ends);
        assert!(!station.peer(0).is_some_and(Peer::is_linked));
    }
}

/// When a station that nobody answers calls, by 100 ms, until it says that the link has failed.
fn calls(calls_max: u32, answer_margin: Duration) -> Vec<Instant> {
    let mut station = listener();
    configure(&mut station, |it| {
        (it.calls_max, it.answer_margin) = (calls_max, answer_margin);
    });
    offer(&mut station, 100, false, 1);
    let mut calls = Vec::new();
    while !station.peer(0).is_some_and(Peer::is_silent) {
        let now = station.access.now() + Duration::from_millis(100);
        let says = speak(&mut station, now);
        if !says.is_empty() {
            expect(&says, 0x10);
            calls.push(now);
        }
    }
    let failed = station.access.now();
    assert!(failed.since(*calls.last().expect("one")) >= station.access.answer_time());
    while station.access.now() < failed + Duration::from_secs(10) {
        let now = station.access.now() + Duration::from_millis(100);
        assert_eq!(speak(&mut station, now), [] as [Vec<u8>; 0]);
    }
    calls
}

/// B.3.2.1 (3), (4), (22)–(24): a call is repeated once the time for its answer is over, as often
/// as is configured, and has failed then.
#[test]
fn a_call_goes_as_often_as_is_configured_and_waits_for_its_answer() {
    let gaps = |margin: u64| {
        let calls = calls(4, Duration::from_secs(margin));
        let gaps = calls.windows(2).map(|pair| pair[1].since(pair[0]));
        gaps.collect::<Vec<_>>()
    };
    for calls_max in [1, 2, 4] {
        assert_eq!(
            calls(calls_max, Duration::from_secs(1)).len(),
            calls_max as usize
        );
    }
    for (long, short) in gaps(7).iter().zip(gaps(1)) {
        assert!(
            *long >= short + Duration::from_secs(6),
            "{long:?} {short:?}"
        );
    }
}

/// B.2 (2): the clients' side knows at once of links that are made and broken.
#[test]
fn changes_of_a_link_are_told_to_the_clients_side() {
    let mut station = listener();
    let mut sis = Sis::new(SisSettings::new(OWN, alloc::vec![PEER]), 1);
    sis.set_up(Instant::ZERO, true);
    sis.open(Instant::ZERO, 1, None);
    sis.give_credit(1, 1 << 16);
    let service = Service {
        mode: MODE_ARQ,
        ..Service::default()
    };
    let (sap, rank) = (0, 15);
    let mut octets = Vec::new();
    Primitive::BindRequest { sap, rank, service }.put(&mut octets);
    sis.hear(Instant::ZERO, 1, &octets);
    let (kind, body) = (1, &[][..]);
    octets.clear();
    Primitive::ManagementRequest { kind, body }.put(&mut octets);
    let mut is_linked = |station: &mut Station<u32>| {
        sis.tend(station.access.now(), station, |_, _| false);
        while sis.poll().is_some() {}
        sis.hear(station.access.now(), 1, &octets);
        match sis.poll() {
            Some((_, Op::Send(told))) => told.last() == Some(&1),
            other => unreachable!("{other:?}"),
        }
    };
    for _ in 0..2 {
        assert!(!is_linked(&mut station));
        turn(&mut station, &control(&[0x10]));
        assert!(is_linked(&mut station));
        turn(&mut station, &control(&[0x44]));
    }
    assert!(!is_linked(&mut station));
}

/// B.3.2.2 (1)–(3), (5)–(7): a break is said until it is confirmed, three times at most.
#[test]
fn a_break_is_said_until_it_is_confirmed_three_times_at_most() {
    for confirmed in 1..=4 {
        let mut station = linked();
        let mut said = 0;
        while station.peers[0].calls.link().is_there() {
            // Its owner could have sent something by it before.
            station.advance(station.access.now() + Duration::from_secs(299));
            let now = station.access.now() + Duration::from_secs(1);
            said += u32::from(!speak(&mut station, now).is_empty());
            assert!(!station.peer(0).is_some_and(Peer::is_linked));
            if said == confirmed {
                turn(&mut station, &control(&[0x50]));
            } else {
                station.advance(now + Duration::from_secs(60));
            }
        }
        assert_eq!(said, confirmed.min(3));
    }
}

/// Two stations with links that something else makes; `given` to which of them.
fn linked_by_another(given: [bool; 2]) -> World {
    let all = [0, 1].map(|number| without_calls(number, given[number]));
    World::new(Air::at(9600, 0.0), all.into())
}

fn without_calls(number: usize, given: bool) -> Settings {
    let peer = given.then(|| address(1 - number));
    Settings {
        without_calls: peer.into_iter().collect(),
        ..settings(number)
    }
}

/// B.3 (3): no call is made, and none is missed. Who begins anew loses nothing of what the other
/// end would take for frames of before; what comes to it by numbers of before is refused, at most.
#[test]
fn by_a_link_that_something_else_made_data_goes_without_a_call() {
    for restarted in [0, 1] {
        let mut world = linked_by_another([true, true]);
        for round in 0..4 {
            for station in [0, 1] {
                for _ in 0..3 {
                    world.offer(station, 1 - station, 300, true);
                }
                world.run(world.now + Duration::from_secs(300));
            }
            if round == 1 {
                world.restart(restarted, without_calls(restarted, true));
            }
        }
        for station in [0, 1] {
            let marks = world.marks(1 - station);
            assert_once(&marks);
            let outcomes = &world.outcomes[station];
            let refused = outcomes.iter().filter(|(_, taken)| !taken).count();
            assert!(
                outcomes
                    .iter()
                    .all(|(mark, taken)| marks.contains(mark) == *taken)
            );
            let other = station == 0 && restarted == 1;
            assert_eq!((outcomes.len(), refused), (12, usize::from(other)));
        }
    }
}

/// B.3 (3.1): the answer to data is that there is no link: the other end is called, and the data
/// sent again.
#[test]
fn data_that_a_warning_answers_is_sent_again_behind_a_call() {
    let mut world = linked_by_another([true, true]);
    world.offer(0, 1, 300, true);
    world.run(Instant::from_secs(60));
    world.restart(1, without_calls(1, false));
    world.offer(0, 1, 300, true);
    world.run(Instant::from_secs(120));
    assert_eq!(world.marks(1), [0, 1]);
    assert_eq!(world.outcomes[0], [(0, true), (1, true)]);
    // From then on it is called for each link at once.
    world.run(Instant::from_secs(600));
    assert!(!world.stations[0].peer(1).is_some_and(Peer::is_linked));
    world.offer(0, 1, 300, true);
    world.run(Instant::from_secs(660));
    assert_eq!(world.marks(1), [0, 1, 2]);
    assert_eq!(world.stations[1].stats().warnings_out, 1);
}
