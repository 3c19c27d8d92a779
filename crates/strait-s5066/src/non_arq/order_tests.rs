use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use super::{EDGES_MAX, HELD_MAX, HELD_OCTETS_MAX, HOLD_MAX, UNHEARD_MAX};
use crate::address::Address;
use crate::d_pdu::{NonArq, Segment};
use crate::non_arq::Assembler;

const FROM: Address = Address::new(1);

/// The longest window that the field can tell, some nine hours.
const LONGEST: u16 = u16::MAX;

/// A piece of two octets of a C_PDU of four, in order, that goes on for ten seconds.
fn half(c_pdu: u16, offset: u16) -> NonArq<'static> {
    NonArq {
        expedited: false,
        c_pdu,
        in_order: true,
        group: false,
        size: 4,
        offset,
        window: 20,
        segment: Segment::whole(b"ab"),
    }
}

/// All of one.
fn whole(c_pdu: u16) -> NonArq<'static> {
    NonArq {
        offset: 0,
        segment: Segment::whole(b"abcd"),
        ..half(c_pdu, 0)
    }
}

/// A receiver, of which it counts how many are handed on.
struct Ends(Assembler);

impl Ends {
    fn new() -> Self {
        Self(Assembler::default())
    }

    /// How many are handed on when this has come.
    fn take(&mut self, now: Instant, piece: &NonArq<'_>) -> usize {
        self.take_from(now, FROM, piece)
    }

    fn take_from(&mut self, now: Instant, from: Address, piece: &NonArq<'_>) -> usize {
        self.0.take(now, from, FROM, piece);
        self.count()
    }

    fn at(&mut self, now: Instant) -> usize {
        self.0.forget(now);
        self.count()
    }

    /// Nothing is handed on before the moment that is told, and so many then.
    fn count_at(&mut self, end: Instant) -> usize {
        assert_eq!(self.at(Instant::from_nanos(end.as_nanos() - 1)), 0);
        assert_eq!(self.0.wake(), Some(end));
        self.at(end)
    }

    fn count(&mut self) -> usize {
        core::iter::from_fn(|| self.0.poll()).count()
    }
}

fn s(seconds: u64) -> Instant {
    Instant::from_secs(seconds)
}

/// C.3.10 (11), C.4.2 (15): what came before is handed on first, octet by octet the same.
#[test]
fn in_order_c_pdus_follow_those_with_lower_numbers() {
    let mut assembler = Assembler::default();
    let mut take = |c_pdu, offset, octets| {
        let piece = NonArq {
            segment: Segment::whole(octets),
            ..half(c_pdu, offset)
        };
        assembler.take(Instant::ZERO, FROM, FROM, &piece);
        core::iter::from_fn(|| assembler.poll())
            .map(|came| came.octets)
            .collect::<Vec<_>>()
    };
    let none: [&[u8]; 0] = [];
    // The number before 0 is 4095.
    assert_eq!(take(4094, 0, b"4094"), [b"4094"]);
    assert_eq!(take(4095, 0, b"40"), none);
    assert_eq!(take(1, 0, b"   1"), none);
    assert_eq!(take(0, 0, b"   0"), none);
    assert_eq!(take(1, 0, b"   1"), none);
    assert_eq!(take(4095, 2, b"95"), [b"4095", b"   0", b"   1"]);
    assert_eq!(take(0, 0, b"   0"), none);
    assert_eq!(take(2, 0, b"   2"), [b"   2"]);
}

/// C.3.10 (11), C.4.2 (15): what doesn't become whole holds others until its window ends. It is
/// then told with its errors, ahead of them.
#[test]
fn in_order_c_pdus_wait_for_a_part_until_its_window_ends() {
    let mut ends = Ends::new();
    let mut long = half(5, 0);
    long.window = 60;
    assert_eq!(ends.take(s(1), &long), 0);
    assert_eq!(ends.take(s(2), &whole(6)), 0);
    assert_eq!(ends.take(s(3), &whole(7)), 0);
    // A repeat of one that waits is one, also behind its window.
    assert_eq!(ends.take(s(20), &whole(7)), 0);
    // Nobody knows whom the part is for: only those behind it come.
    assert_eq!(ends.count_at(s(31)), 2);
    assert_eq!(ends.take(s(31), &whole(8)), 1);

    let mut ends = Ends::new();
    long.size = 8;
    long.segment = Segment::whole(b"abcd");
    ends.take(s(1), &long);
    ends.take(s(2), &whole(6));
    assert!(ends.0.poll().is_none());
    ends.0.forget(s(31));
    let missing = core::iter::from_fn(|| ends.0.poll()).map(|came| came.missing);
    assert_eq!(
        missing.collect::<Vec<_>>(),
        [Vec::from([(4, 4)]), Vec::new()]
    );
}

/// C.4.2 (15): of what nothing was heard, copies may come as long as the window of the first that
/// waits lasts.
#[test]
fn in_order_c_pdus_wait_for_unheard_numbers_until_their_own_window_ends() {
    let mut ends = Ends::new();
    assert_eq!(ends.take(s(1), &whole(5)), 1);
    assert_eq!(ends.take(s(2), &whole(7)), 0);
    assert_eq!(ends.count_at(s(12)), 1);
    // What comes later has nobody before it, and those behind go on from there.
    assert_eq!(ends.take(s(13), &whole(6)), 1);
    assert_eq!(ends.take(s(14), &whole(9)), 0);
    assert_eq!(ends.take(s(15), &whole(8)), 0);
    assert_eq!(ends.take(s(16), &whole(7)), 3);
}

/// C.3.10 (6), (12), C.4.2 (16): other types, other sources and what isn't in order go their way.
#[test]
fn nothing_else_waits_for_what_is_in_order() {
    let mut ends = Ends::new();
    ends.take(s(1), &half(5, 0));
    assert_eq!(ends.take(s(1), &whole(6)), 0);
    let mut other = whole(6);
    other.expedited = true;
    assert_eq!(ends.take(s(1), &other), 1);
    assert_eq!(ends.take_from(s(1), Address::new(2), &whole(6)), 1);
    other = whole(7);
    other.in_order = false;
    assert_eq!(ends.take(s(1), &other), 1);
    // And isn't waited for: what has come, has come in part, or was for others.
    assert_eq!(ends.take(s(2), &half(5, 2)), 2);
    assert_eq!(ends.take(s(2), &whole(8)), 1);
    other = half(9, 0);
    other.in_order = false;
    ends.take(s(2), &other);
    assert_eq!(ends.take(s(2), &whole(10)), 1);
    assert_eq!(ends.take(s(2), &whole(12)), 0);
    ends.0.pass(s(3), FROM, &whole(11));
    assert_eq!(ends.count(), 1);
    // Nor is what was given up before.
    other.c_pdu = 13;
    ends.take(s(3), &other);
    assert_eq!(ends.take(s(13), &whole(14)), 1);
}

/// Whatever windows are stated, nothing is held longer than it may be, and a number that isn't true
/// holds and hides nothing else.
#[test]
fn no_number_and_no_window_holds_others_for_long() {
    // A part that never goes on.
    let mut ends = Ends::new();
    let mut forged = half(4, 0);
    forged.window = LONGEST;
    ends.take(s(1), &forged);
    assert_eq!(ends.take(s(100), &whole(5)), 0);
    assert_eq!(ends.count_at(s(1) + HOLD_MAX), 1);
    assert_eq!(ends.take(s(1) + HOLD_MAX, &whole(6)), 1);

    // Others of them again and again: each has its own time, and so has what waits.
    let mut ends = Ends::new();
    assert_eq!(ends.take(s(1), &half(4, 0)), 0);
    assert_eq!(ends.take(s(1), &whole(1000)), 0);
    for number in 0..180 {
        forged.c_pdu = 500 + number;
        assert_eq!(ends.take(s(1 + 5 * u64::from(number)), &forged), 0);
    }
    assert_eq!(ends.count_at(s(1) + HOLD_MAX), 1);

    // A number far ahead waits by itself, and those that are true go on.
    let mut ends = Ends::new();
    assert_eq!(ends.take(s(1), &whole(5)), 1);
    forged = whole(1900);
    forged.window = LONGEST;
    assert_eq!(ends.take(s(1), &forged), 0);
    assert_eq!(ends.take(s(2), &whole(6)), 1);
    assert_eq!(ends.count_at(s(1) + UNHEARD_MAX), 1);
    let later = s(2) + UNHEARD_MAX;
    assert_eq!(ends.take(later, &whole(7)), 1);
    assert_eq!(ends.take(later, &half(8, 0)), 0);
    assert_eq!(ends.take(later, &whole(9)), 0);
    assert_eq!(ends.take(later, &half(8, 2)), 2);
}

/// Where too much waits, the first of the source that brings more goes before its turn.
#[test]
fn what_waits_in_order_is_bounded_in_count_and_octets() {
    let mut ends = Ends::new();
    ends.take(s(1), &half(0, 0));
    for number in 1..=HELD_MAX as u16 {
        assert_eq!(ends.take(s(1), &whole(number)), 0);
    }
    assert_eq!(ends.take(s(1), &whole(100)), 1);
    // Another source finds no room, and what came waits no longer.
    let other = Address::new(2);
    ends.take_from(s(1), other, &half(0, 0));
    assert_eq!(ends.take_from(s(1), other, &whole(1)), 1);

    let mut ends = Ends::new();
    let large = alloc::vec![0; HELD_OCTETS_MAX / 8];
    let mut piece = whole(1);
    (piece.size, piece.segment) = (large.len() as u16, Segment::whole(&large));
    ends.take(s(1), &half(0, 0));
    for number in 1..=8 {
        piece.c_pdu = number;
        assert_eq!(ends.take(s(1), &piece), 0);
    }
    assert_eq!(ends.take(s(1), &whole(9)), 1);

    for source in 0..100 {
        ends.take_from(s(1), Address::new(source), &whole(1));
    }
    assert_eq!(ends.0.order.edges.len(), EDGES_MAX);
}

/// A source that was silent for long begins anew.
#[test]
fn numbers_in_order_are_forgotten_with_time() {
    for (later, came) in [(HOLD_MAX - Duration::from_nanos(1), 0), (HOLD_MAX, 1)] {
        let mut ends = Ends::new();
        assert_eq!(ends.take(s(1), &whole(5)), 1);
        assert_eq!(ends.take(s(1) + later, &whole(9)), came);
    }
}
