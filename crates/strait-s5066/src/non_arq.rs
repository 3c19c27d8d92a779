//! Data transfer without ARQ: C_PDUs by number and offset, sent once or several times (Annex C).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;

use strait_core::{Duration, Instant};

use crate::address::Address;
use crate::c_pdu::CPdu;
use crate::d_pdu::NonArq;

pub(crate) mod numbers;
mod order;

use order::Order;

impl<'a> NonArq<'a> {
    /// A C_PDU of channel access: whole in one expedited piece.
    pub(crate) fn control(&self) -> Option<CPdu<'a>> {
        let whole = self.segment.intact && self.expedited;
        let alone = self.offset == 0 && self.segment.octets.len() == usize::from(self.size);
        let c_pdu = CPdu::parse(self.segment.octets);
        c_pdu.filter(|c_pdu| whole && alone && !matches!(c_pdu, CPdu::Data(_)))
    }
}

/// C_PDUs that are put together at a time, from all peers, and how long: longer than any window.
const PARTIAL_MAX: usize = 16;
const PARTIAL_TIME: Duration = Duration::from_secs(1 << 15);

/// The same of strangers.
const STRANGERS_MAX: usize = 8;
const STRANGERS_TIME: Duration = Duration::from_secs(600);

/// C_PDUs that a repeat is known of.
const RECENT_MAX: usize = 64;

/// How long a C_PDU that is to be delivered in order waits at most, or is waited for, whatever
/// windows are stated: a field of 16 bits could say nine hours.
const HOLD_MAX: Duration = Duration::from_secs(900);

/// How long the number of a C_PDU that arrived in one piece isn't another's, whatever its window:
/// the longest transmission within EOT's range. Otherwise a forger could occupy it for nine hours.
const ONE_PIECE_MAX: Duration = Duration::from_millis(127_500);

/// A C_PDU being received.
#[derive(Debug)]
struct Partial {
    key: Key,
    octets: Vec<u8>,
    /// The received pieces, from and up to, none touching another.
    have: Vec<(usize, usize)>,
    /// The same of the damaged ones.
    damaged: Vec<(usize, usize)>,
    to: Address,
    until: Instant,
    in_order: bool,
    /// Those behind it that are to be delivered in order wait for it until then.
    holds: Instant,
}

/// A delivered C_PDU: complete, or the parts received in its time, damaged or not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) expedited: bool,
    pub(crate) octets: Vec<u8>,
    /// Offset and length of each part.
    pub(crate) damaged: Vec<(u16, u16)>,
    pub(crate) missing: Vec<(u16, u16)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    from: Address,
    expedited: bool,
    c_pdu: u16,
}

impl Key {
    fn of(from: Address, piece: &NonArq<'_>) -> Self {
        Self {
            from,
            expedited: piece.expedited,
            c_pdu: piece.c_pdu,
        }
    }
}

/// Puts C_PDUs together, and knows which it has handed on.
#[derive(Debug)]
pub(crate) struct Assembler {
    /// C_PDUs that are put together at a time, from all senders.
    partial_max: usize,
    /// How long it remembers one, whatever its window.
    longest: Duration,
    partial: VecDeque<Partial>,
    recent: VecDeque<(Key, Instant)>,
    order: Order,
    ready: VecDeque<Came>,
    /// C_PDUs that didn't become whole in their time.
    pub(crate) broken: u64,
}

impl Default for Assembler {
    fn default() -> Self {
        Self::new(PARTIAL_MAX, PARTIAL_TIME)
    }
}

impl Assembler {
    /// For C_PDUs of stations that aren't peers: the oldest makes room for another.
    pub(crate) fn of_strangers() -> Self {
        Self::new(STRANGERS_MAX, STRANGERS_TIME)
    }

    fn new(partial_max: usize, longest: Duration) -> Self {
        Self {
            partial_max,
            longest,
            partial: VecDeque::new(),
            recent: VecDeque::new(),
            order: Order::default(),
            ready: VecDeque::new(),
            broken: 0,
        }
    }

    /// Takes a segment. The C_PDU is handed on once it is whole and right and its turn has come,
    /// and only once.
    pub(crate) fn take(&mut self, now: Instant, from: Address, to: Address, piece: &NonArq<'_>) {
        self.forget(now);
        if let Some(whole) = self.put_together(now, from, to, piece) {
            // A C_PDU in one piece has its copies in the same transmission.
            let most = match piece.segment.octets.len() == whole.octets.len() {
                true => ONE_PIECE_MAX,
                false => HOLD_MAX,
            };
            self.remember(whole.key, whole.until.min(now + most));
            self.hand_on(now, whole);
        }
        self.release(now);
    }

    /// A number was used by a C_PDU that isn't reassembled here: nothing in order waits for it.
    pub(crate) fn pass(&mut self, now: Instant, from: Address, piece: &NonArq<'_>) {
        let key = Key::of(from, piece);
        if self.order.counts(key) && !self.is_repeat(key) {
            self.remember(key, now + window(piece).min(HOLD_MAX));
            self.settle(key);
            self.release(now);
        }
    }

    fn put_together(
        &mut self,
        now: Instant,
        from: Address,
        to: Address,
        piece: &NonArq<'_>,
    ) -> Option<Partial> {
        let key = Key::of(from, piece);
        let (begin, size) = (usize::from(piece.offset), usize::from(piece.size));
        let end = begin + piece.segment.octets.len();
        if end > size || self.is_repeat(key) {
            return None;
        }
        let same = |partial: &Partial| partial.key == key && partial.octets.len() == size;
        let place = match self.partial.iter().position(same) {
            Some(place) => place,
            None => {
                if self.partial.len() == self.partial_max {
                    self.partial.pop_front();
                    self.broken += 1;
                }
                self.partial.push_back(Partial {
                    key,
                    octets: alloc::vec![0; size],
                    have: Vec::new(),
                    damaged: Vec::new(),
                    to,
                    until: now + window(piece).min(self.longest),
                    in_order: piece.in_order,
                    holds: now + window(piece).min(HOLD_MAX),
                });
                self.partial.len() - 1
            }
        };
        let partial = &mut self.partial[place];
        if piece.segment.intact {
            partial.octets[begin..end].copy_from_slice(piece.segment.octets);
            note(&mut partial.have, begin, end);
        } else {
            partial.take_damaged(begin, piece.segment.octets);
        }
        if partial.have != [(0, size)] {
            return None;
        }
        self.partial.remove(place)
    }

    fn is_repeat(&self, key: Key) -> bool {
        self.recent.iter().any(|(recent, _)| *recent == key) || self.order.holds(key)
    }

    fn remember(&mut self, key: Key, until: Instant) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((key, until));
    }

    /// The next C_PDU that is complete, or whose time is over and whose head names its destination.
    pub(crate) fn poll(&mut self) -> Option<Came> {
        self.ready.pop_front()
    }

    /// When the next of them is given up, or its turn comes.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let partial = self.partial.iter().map(|partial| partial.until).min();
        partial.into_iter().chain(self.turn_at()).min()
    }

    /// Gives up C_PDUs that didn't become complete in their time, and delivers those whose turn has
    /// come.
    pub(crate) fn forget(&mut self, now: Instant) {
        for partial in mem::take(&mut self.partial) {
            if partial.until > now {
                self.partial.push_back(partial);
                continue;
            }
            self.broken += 1;
            // Data that can't be reported to the client isn't reported.
            let mut have = partial.have.iter();
            if have.any(|(from, to)| *from == 0 && *to >= HEAD) {
                self.hand_on(now, partial);
            } else {
                self.settle(partial.key);
            }
        }
        self.recent.retain(|(_, until)| *until > now);
        self.order.forget(now);
        self.release(now);
    }
}

/// How long pieces of a C_PDU may come (C.3.10 (24)).
fn window(piece: &NonArq<'_>) -> Duration {
    Duration::from_millis(500) * u32::from(piece.window.max(1))
}

/// Octets of a C_PDU that name its destination.
const HEAD: usize = 4;

impl Partial {
    /// Takes octets that are wrong in places, where no right ones are.
    fn take_damaged(&mut self, begin: usize, octets: &[u8]) {
        for (place, octet) in (begin..).zip(octets) {
            let right = |(from, to): &(usize, usize)| (*from..*to).contains(&place);
            if !self.have.iter().any(right) {
                self.octets[place] = *octet;
            }
        }
        note(&mut self.damaged, begin, begin + octets.len());
    }

    /// Its outcome.
    fn came(mut self) -> Came {
        let octets = mem::take(&mut self.octets);
        // Undamaged octets replace damaged ones.
        let mut damaged = Vec::new();
        for (begin, end) in outside(&self.have, octets.len()) {
            for (from, to) in &self.damaged {
                let (begin, end) = (begin.max(*from), end.min(*to));
                if begin < end {
                    note(&mut damaged, begin, end);
                }
            }
        }
        damaged.sort_unstable();
        let mut known = self.have;
        damaged
            .iter()
            .for_each(|(from, to)| note(&mut known, *from, *to));
        let blocks = |parts: &[(usize, usize)]| {
            let parts = parts.iter();
            parts
                .map(|(from, to)| (*from as u16, (to - from) as u16))
                .collect()
        };
        Came {
            from: self.key.from,
            expedited: self.key.expedited,
            to: self.to,
            missing: blocks(&outside(&known, octets.len())),
            damaged: blocks(&damaged),
            octets,
        }
    }
}

/// Adds a piece to others, none of which is to touch another.
fn note(pieces: &mut Vec<(usize, usize)>, begin: usize, end: usize) {
    let (mut begin, mut end) = (begin, end);
    pieces.retain(|(from, to)| {
        let apart = *to < begin || end < *from;
        if !apart {
            (begin, end) = (begin.min(*from), end.max(*to));
        }
        apart
    });
    pieces.push((begin, end));
}

/// The gaps between pieces, from 0 to `size`.
fn outside(pieces: &[(usize, usize)], size: usize) -> Vec<(usize, usize)> {
    let mut sorted = pieces.to_vec();
    sorted.sort_unstable();
    let mut gaps = Vec::new();
    let mut at = 0;
    for (from, to) in sorted {
        if from > at {
            gaps.push((at, from));
        }
        at = at.max(to);
    }
    if at < size {
        gaps.push((at, size));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::d_pdu::Segment;

    fn piece(c_pdu: u16, offset: u16, octets: &[u8], size: u16) -> NonArq<'_> {
        NonArq {
            expedited: false,
            c_pdu,
            in_order: false,
            group: false,
            size,
            offset,
            window: 20,
            segment: Segment::whole(octets),
        }
    }

    #[test]
    fn pieces_in_any_order_and_twice_give_the_whole_once() {
        let mut assembler = Assembler::default();
        let (from, now) = (Address::new(1), Instant::ZERO);
        let to = Address::new(2);
        let mut take = |at, offset, octets| {
            assembler.take(at, from, to, &piece(5, offset, octets, 6));
            assembler.poll().map(|came| came.octets)
        };
        assert_eq!(take(now, 4, b"ef"), None);
        assert_eq!(take(now, 0, b"ab"), None);
        assert_eq!(take(now, 0, b"ab"), None);
        assert_eq!(take(now, 2, b"cd"), Some(Vec::from(b"abcdef")));
        assert_eq!(take(now, 0, b"abcdef"), None);
        // The number is free again when its window is over.
        let later = now + Duration::from_secs(10);
        assert_eq!(take(later, 0, b"ghijkl"), Some(Vec::from(b"ghijkl")));
        assert_eq!(take(later, 5, b"too long"), None);
    }

    #[test]
    fn a_number_is_taken_no_longer_than_a_transmission_may_last() {
        let mut assembler = Assembler::default();
        let (from, to) = (Address::new(1), Address::new(2));
        let mut take = |at, octets| {
            let piece = NonArq {
                window: u16::MAX,
                ..piece(5, 0, octets, 6)
            };
            assembler.take(at, from, to, &piece);
            assembler.poll().map(|came| came.octets)
        };
        let end = Instant::ZERO + ONE_PIECE_MAX;
        let before = Instant::from_nanos(end.as_nanos() - 1);
        assert!(take(Instant::ZERO, b"forged").is_some());
        assert_eq!(take(before, b"abcdef"), None);
        assert_eq!(take(end, b"abcdef"), Some(Vec::from(b"abcdef")));
    }

    #[test]
    fn what_does_not_become_whole_is_told_with_its_errors() {
        let mut assembler = Assembler::default();
        let (from, to, now) = (Address::new(1), Address::new(2), Instant::ZERO);
        let mut damaged = piece(7, 8, b"ijkl", 20);
        damaged.segment.intact = false;
        // 0 to 6 right, 8 to 12 damaged, of which 8 to 10 came right by a copy; then nothing.
        for piece in [piece(7, 0, b"abcdef", 20), damaged, piece(7, 8, b"IJ", 20)] {
            assembler.take(now, from, to, &piece);
        }
        // Of this one nobody knows whom it is for.
        assembler.take(now, from, to, &piece(8, 4, b"ef", 6));
        assert_eq!(assembler.poll(), None);
        let end = now + Duration::from_secs(10);
        assert_eq!(assembler.wake(), Some(end));
        assembler.forget(end);
        let broken = assembler.poll().expect("one");
        assert_eq!(&broken.octets[..12], b"abcdef\0\0IJkl");
        assert_eq!(broken.damaged, [(10, 2)]);
        assert_eq!(broken.missing, [(6, 2), (12, 8)]);
        assert_eq!((broken.from, broken.to), (from, to));
        assert_eq!(assembler.poll(), None);
        assert_eq!(assembler.broken, 2);
    }

    #[test]
    fn what_does_not_become_whole_is_forgotten_after_its_window() {
        let mut assembler = Assembler::default();
        let from = Address::new(1);
        let end = Instant::from_secs(10);
        let before = Instant::from_nanos(end.as_nanos() - 1);
        assembler.take(Instant::ZERO, from, from, &piece(1, 0, b"a", 3));
        assembler.take(before, from, from, &piece(1, 1, b"b", 3));
        assembler.take(end, from, from, &piece(1, 2, b"c", 3));
        assert_eq!(assembler.poll(), None);
        assert_eq!(assembler.broken, 1);
        for number in 0..40 {
            assembler.take(end, from, from, &piece(number, 0, b"a", 3));
        }
        assert_eq!(assembler.partial.len(), PARTIAL_MAX);
    }

    #[test]
    fn no_window_is_longer_than_the_longest_and_no_table_than_its_places() {
        let mut assembler = Assembler::new(2, Duration::from_secs(600));
        let from = Address::new(1);
        for number in 0..3 {
            let mut piece = piece(number, 0, b"a", 3);
            piece.window = u16::MAX;
            assembler.take(Instant::ZERO, from, from, &piece);
        }
        assert_eq!((assembler.partial.len(), assembler.broken), (2, 1));
        assert_eq!(assembler.wake(), Some(Instant::from_secs(600)));
        assembler.forget(Instant::from_secs(600));
        assert_eq!((assembler.partial.len(), assembler.broken), (0, 3));
    }
}
