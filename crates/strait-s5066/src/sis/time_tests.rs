//! Times to live and times to die, by the octets.

use super::tests::{Clients, FAR, arq, arrived, interface};
use super::*;
use crate::sis::Service;

const SECOND_NS: u64 = 1_000_000_000;

const DAY_NS: u64 = 86_400 * SECOND_NS;

/// Midnight at the end of 12 January 1970, the 12th day of the year.
const MIDNIGHT_NS: u64 = 12 * DAY_NS;

/// An interface with a client, at `before` its midnight.
fn before_midnight(before: Duration, time_to_die: bool) -> (Sis, Clients) {
    let (mut sis, mut clients) = (interface(4), Clients::default());
    sis.settings.time_to_die = time_to_die;
    let wall = WallTime(MIDNIGHT_NS - before.as_nanos() as u64);
    sis.set_calendar(Instant::ZERO, wall);
    clients.bind(&mut sis, 1, 4, 0, arq(0));
    clients.told(1);
    (sis, clients)
}

fn ask(sis: &mut Sis, clients: &mut Clients, service: Service, ttl: u32) -> Option<u64> {
    ask_by(sis, clients, false, service, ttl)
}

fn ask_by(
    sis: &mut Sis,
    clients: &mut Clients,
    expedited: bool,
    service: Service,
    ttl: u32,
) -> Option<u64> {
    let request = Request {
        priority: 3,
        sap: 4,
        to: FAR.into(),
        service,
        ttl,
        u_pdu: b"hi",
    };
    clients.send(sis, 1, &Primitive::UnidataRequest(expedited, request));
    sis.next(|_| true).map(|next| next.number)
}

/// The C_PDU of a request with this time to live, in units of 2 s.
fn sent(sis: &mut Sis, clients: &mut Clients, ttl: u32) -> Vec<u8> {
    let number = ask(sis, clients, arq(0), ttl).expect("it waits");
    sis.take_next(number).expect("it is there").c_pdu
}

#[test]
fn a_time_to_live_becomes_a_time_to_die_and_no_time_to_live_none() {
    let (mut sis, mut clients) = before_midnight(Duration::from_secs(100), true);
    // 100 s before midnight and 60 s to live: 40 s before midnight, unit 43,180 of day 12.
    assert_eq!(
        sent(&mut sis, &mut clients, 30),
        b"\0\x03\x44\x4c\xa8\xachi"
    );
    // To midnight: the first unit of the day after it.
    assert_eq!(sent(&mut sis, &mut clients, 50), b"\0\x03\x44\x4d\0\0hi");
    assert_eq!(sent(&mut sis, &mut clients, 0), b"\0\x03\x44\0hi");
    // 15 days are the most: the 20 bits could say more.
    let day = (12 + 15) % 16;
    let longest = [b"\0\x03\x44", &[0x40 | day, 0xa8, 0x8e][..], b"hi"].concat();
    assert_eq!(sent(&mut sis, &mut clients, 648_000), longest);
    assert_eq!(sent(&mut sis, &mut clients, 0xf_ffff), longest);
}

#[test]
fn without_a_clock_or_with_one_not_trusted_nothing_is_said_of_times() {
    let (mut sis, mut clients) = before_midnight(Duration::from_secs(100), false);
    assert_eq!(sent(&mut sis, &mut clients, 30), b"\0\x03\x44\0hi");
    let (mut sis, mut clients) = (interface(4), Clients::default());
    clients.bind(&mut sis, 1, 4, 0, arq(0));
    assert_eq!(sent(&mut sis, &mut clients, 30), b"\0\x03\x44\0hi");
}

/// Annex A.3.1.1 (18): the peer `rds-5066` counts days of the year; 2026-11-22 is the 326th.
#[test]
fn data_of_an_independent_node_that_dies_in_two_minutes_is_delivered() {
    let (mut sis, mut clients) = before_midnight(Duration::ZERO, true);
    // 20:00:00 UTC.
    sis.set_calendar(Instant::ZERO, WallTime(1_795_377_600 * SECOND_NS));
    sis.arrive(Instant::ZERO, &arrived(b"\x03\x54\x46\x8c\xdchi", false));
    clients.collect(&mut sis);
    assert_eq!(
        (clients.kinds(1), sis.stats().expired),
        (Vec::from([21]), 0)
    );
}

/// Annex A.3.1.1, footnote 3: a node that counts days otherwise is noticed.
#[test]
fn times_to_die_by_another_calendar_are_counted() {
    let (mut sis, mut clients) = before_midnight(Duration::from_secs(10), true);
    // Midnight by a peer whose days begin with 0: it seems to have been a day ago.
    sis.arrive(Instant::ZERO, &arrived(b"\x03\x54\x4c\0\0hi", false));
    assert_eq!((sis.stats().expired, sis.stats().misdated), (0, 1));
    clients.collect(&mut sis);
    assert_eq!(clients.kinds(1), [21]);
    // An hour late is late, a second more is odd.
    for (late_s, misdated) in [(3600, 1), (3601, 2)] {
        sis.set_calendar(Instant::ZERO, WallTime(MIDNIGHT_NS + late_s * SECOND_NS));
        sis.arrive(Instant::ZERO, &arrived(b"\x03\x54\x4d\0\0hi", false));
        assert_eq!(sis.stats().misdated, misdated);
    }
    clients.collect(&mut sis);
    assert_eq!(
        (clients.kinds(1), sis.stats().expired),
        (Vec::from([21]), 1)
    );
    // 19 December, noon: 1 January, 06:00 looks like this morning.
    sis.set_calendar(Instant::ZERO, WallTime(352 * DAY_NS + DAY_NS / 2));
    sis.arrive(Instant::ZERO, &arrived(b"\x03\x54\x41\x2a\x30hi", false));
    clients.collect(&mut sis);
    assert_eq!(
        (clients.kinds(1), sis.stats().misdated),
        (Vec::from([21]), 3)
    );
    // 21 December: no day of number 14 is near, and nothing says that it is over.
    sis.set_calendar(Instant::ZERO, WallTime(354 * DAY_NS));
    sis.arrive(Instant::ZERO, &arrived(b"\x03\x54\x4e\0\0hi", false));
    clients.collect(&mut sis);
    assert_eq!(
        (clients.kinds(1), sis.stats().misdated),
        (Vec::from([21]), 4)
    );
}

/// Annex A.2.1.6 (11), (12); A.3.1.1 (15): what would be read as another day isn't sent.
#[test]
fn a_time_to_die_that_another_day_looks_like_is_not_sent() {
    let (mut sis, mut clients) = before_midnight(Duration::ZERO, true);
    // 19 December, noon: in 12.5 days is 1 January.
    sis.set_calendar(Instant::ZERO, WallTime(352 * DAY_NS + DAY_NS / 2));
    let units = 12 * 43_200 + 21_600;
    assert_eq!(sent(&mut sis, &mut clients, units), b"\0\x03\x44\0hi");
    assert_eq!(
        sent(&mut sis, &mut clients, units - 1),
        b"\0\x03\x44\x4d\xa8\xbfhi"
    );
}

/// Whether data that dies at midnight is delivered at a moment, counted from 10 s before.
fn is_delivered(at: Instant, time_to_die: bool) -> bool {
    let (mut sis, mut clients) = before_midnight(Duration::from_secs(10), time_to_die);
    sis.arrive(at, &arrived(b"\x03\x54\x4d\0\0hi", false));
    clients.collect(&mut sis);
    let told = clients.kinds(1);
    assert_eq!(sis.stats().expired, u64::from(told.is_empty()));
    told == [21]
}

#[test]
fn data_is_delivered_until_its_time_to_die_and_not_from_then_on() {
    let midnight = Instant::from_secs(10);
    assert!(is_delivered(
        Instant::from_nanos(midnight.as_nanos() - 1),
        true
    ));
    assert!(!is_delivered(midnight, true));
    assert!(is_delivered(midnight, false));
}

#[test]
fn a_clock_that_is_set_is_heeded_at_once() {
    let (mut sis, mut clients) = before_midnight(Duration::from_secs(10), true);
    let s_pdu = b"\x03\x54\x4d\0\0hi";
    sis.set_calendar(Instant::from_secs(1), WallTime(MIDNIGHT_NS));
    sis.arrive(Instant::from_secs(1), &arrived(s_pdu, false));
    sis.set_calendar(Instant::from_secs(1), WallTime(MIDNIGHT_NS - SECOND_NS));
    sis.arrive(Instant::from_secs(1), &arrived(s_pdu, false));
    clients.collect(&mut sis);
    assert_eq!(
        (clients.kinds(1), sis.stats().expired),
        (Vec::from([21]), 1)
    );
}

#[test]
fn errors_in_a_time_to_die_do_not_count() {
    let (mut sis, mut clients) = before_midnight(Duration::ZERO, true);
    clients.send(&mut sis, 1, &Primitive::UnbindRequest);
    let service = Service {
        mode: MODE_WITH_ERRORS,
        ..Service::default()
    };
    let (sap, rank) = (4, 0);
    clients.send(&mut sis, 1, &Primitive::BindRequest { sap, rank, service });
    clients.told(1);
    let mut damaged = arrived(b"\x03\x54\x4d\0\0hi", false);
    (damaged.arq, damaged.damaged) = (false, &[(4, 2)]);
    sis.arrive(Instant::ZERO, &damaged);
    clients.collect(&mut sis);
    assert_eq!(clients.kinds(1), [21]);
    damaged.damaged = &[(5, 2)];
    sis.arrive(Instant::ZERO, &damaged);
    clients.collect(&mut sis);
    assert_eq!(clients.kinds(1), []);
}

#[test]
fn data_on_its_way_is_given_up_when_it_dies_and_its_client_is_told_why() {
    let (mut sis, mut clients) = before_midnight(Duration::from_secs(100), true);
    let number = ask(&mut sis, &mut clients, arq(1), 3).expect("it waits");
    sis.take_next(number);
    let end = Instant::from_secs(6);
    assert_eq!(sis.wake(), Some(end));
    clients.advance(&mut sis, Instant::from_nanos(end.as_nanos() - 1), true);
    assert_eq!(sis.poll_overdue(), None);
    clients.advance(&mut sis, end, true);
    assert_eq!(sis.poll_overdue(), Some((0, number)));
    assert_eq!(sis.poll_overdue(), None);
    assert_eq!(sis.wake(), Some(Instant::ZERO + KEEP_ALIVE));
    sis.decide(end, number, false);
    clients.collect(&mut sis);
    assert_eq!(clients.told(1)[0][..2], [23, 0x14]);
}

/// Annex A.2.1.10 (5)-(9): expedited data has a time to live, too. What waits and what is under way
/// is given up then, and the time to die goes with it and is heeded by the other end.
#[test]
fn expedited_data_lives_no_longer_than_its_client_wants() {
    let begin = || before_midnight(Duration::from_secs(100), true);
    for (ttl, s_pdu, lives_s) in [
        (30, &b"\0\0\x44\x4c\xa8\xachi"[..], 60),
        // For ever is as long as the node tries at most.
        (0, b"\0\0\x44\0hi", 600),
    ] {
        let end = Instant::from_secs(lives_s);
        let before = Instant::from_nanos(end.as_nanos() - 1);
        for taken in [false, true] {
            let (mut sis, mut clients) = begin();
            let number = ask_by(&mut sis, &mut clients, true, arq(1), ttl).expect("it waits");
            if taken {
                let taken = sis.take_next(number).expect("it is there");
                assert_eq!(taken.c_pdu, s_pdu);
            }
            // A client that says nothing is cut off.
            for s in (100..lives_s).step_by(100) {
                clients.advance(&mut sis, Instant::from_secs(s), true);
                clients.send(&mut sis, 1, &Primitive::KeepAlive);
            }
            clients.told(1);
            clients.advance(&mut sis, before, true);
            assert_eq!((clients.told(1), sis.poll_overdue()), (Vec::new(), None));
            clients.advance(&mut sis, end, true);
            if taken {
                assert_eq!(sis.poll_overdue(), Some((0, number)));
                sis.decide(end, number, false);
                clients.collect(&mut sis);
            }
            assert_eq!(clients.told(1)[0][..2], [27, 0x14]);
            assert_eq!(sis.next(|_| true), None);
        }
    }
    let (mut sis, mut clients) = begin();
    for (at, kinds) in [(99, &[25][..]), (100, &[])] {
        sis.arrive(Instant::from_secs(at), &arrived(b"\0\x54\x4d\0\0hi", true));
        clients.collect(&mut sis);
        assert_eq!(clients.kinds(1), kinds);
    }
}
