//! Numbered segments that come in: what is missing, and what waits for it.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use strait_wire::repair::{Came, MAP_BITS};
use strait_wire::segment::{STREAMS, Segment};

/// A number from the first missing one on.
#[derive(Debug)]
enum Slot {
    Missing,
    /// It came, and an earlier one of its stream may be missing.
    Held {
        segment: Held,
    },
    /// It came and was handed on.
    Passed,
}

/// A segment that waits.
#[derive(Debug)]
struct Held {
    header: strait_wire::segment::SegmentHeader,
    payload: Vec<u8>,
    packet_check: Option<u32>,
}

impl Held {
    fn of(segment: &Segment<'_>) -> Self {
        Self {
            header: segment.header,
            payload: segment.payload.to_vec(),
            packet_check: segment.packet_check,
        }
    }

    fn segment(&self) -> Segment<'_> {
        Segment {
            header: self.header,
            payload: &self.payload,
            packet_check: self.packet_check,
        }
    }
}

/// What a row counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Numbered segments that came.
    pub segments: u64,
    /// Of these, those that had come before.
    pub duplicates: u64,
    /// Those for which there was no room, or whose numbers nobody can have sent yet.
    pub refused: u64,
    /// Missing ones that weren't waited for any longer.
    pub skipped: u64,
}

/// What a segment's coming means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// The next one came.
    Next,
    /// One before it is missing that wasn't known to be.
    Gap,
    /// One came that was missing.
    Filled,
    /// It came before, or there is no room for it.
    Needless,
}

/// Numbers of one neighbour, in order.
///
/// A segment is handed on when no earlier one of its stream can be missing: its sequence follows
/// the last one of its stream, and fewer than eight others are missing or held before it, so it
/// can't be a later round of the same sequence.
#[derive(Debug)]
pub(crate) struct Row {
    /// All before this one came, or won't.
    base: u8,
    slots: VecDeque<Slot>,
    /// By stream, the sequence that follows.
    next: [u8; STREAMS],
    /// The number that came last; at first the one before the first.
    last: u8,
    held_octets: usize,
    pub(crate) counts: RowCounts,
}

impl Row {
    /// Octets of segments that wait: as many as a sender has on their way, and one packet.
    const HELD_OCTETS_MAX: usize = 2 * super::Window::OCTETS_MAX;
    /// Sequences of a stream.
    const ROUND: usize = 8;

    pub(crate) fn new() -> Self {
        Self {
            base: 0,
            slots: VecDeque::new(),
            next: [0; STREAMS],
            last: u8::MAX,
            held_octets: 0,
            counts: RowCounts::default(),
        }
    }

    /// The other end begins a new row, from `base` on.
    pub(crate) fn restart(&mut self, base: u8) {
        let counts = self.counts;
        *self = Self::new();
        (self.base, self.last, self.counts) = (base, base.wrapping_sub(1), counts);
    }

    /// The first number that is missing, if later ones came.
    pub(crate) fn first_missing(&self) -> Option<u8> {
        (!self.slots.is_empty()).then_some(self.base)
    }

    /// Octets that wait.
    pub(crate) const fn held_octets(&self) -> usize {
        self.held_octets
    }

    /// Takes in a segment; hands on what has its turn.
    pub(crate) fn take(
        &mut self,
        number: u8,
        segment: &Segment<'_>,
        pass: &mut dyn FnMut(&Segment<'_>),
    ) -> Arrived {
        self.counts.segments += 1;
        let place = usize::from(number.wrapping_sub(self.base));
        if place >= 128
            || matches!(
                self.slots.get(place),
                Some(Slot::Held { .. } | Slot::Passed)
            )
        {
            self.counts.duplicates += 1;
            self.last = number;
            return Arrived::Needless;
        }
        let octets = segment.payload.len();
        if place > MAP_BITS - 1 || self.held_octets + octets > Self::HELD_OCTETS_MAX {
            self.counts.refused += 1;
            return Arrived::Needless;
        }
        let before = self.slots.len();
        let arrived = match place {
            _ if place < before => Arrived::Filled,
            _ if place == before => Arrived::Next,
            _ => Arrived::Gap,
        };
        while self.slots.len() <= place {
            self.slots.push_back(Slot::Missing);
        }
        self.last = number;
        let stream = usize::from(segment.header.stream);
        if self.is_next(place, segment) {
            self.next[stream] = (segment.header.sequence + 1) % 8;
            self.slots[place] = Slot::Passed;
            pass(segment);
        } else {
            self.held_octets += octets;
            let segment = Held::of(segment);
            self.slots[place] = Slot::Held { segment };
        }
        self.pass_on(pass);
        arrived
    }

    /// Whether a segment at a place has its turn.
    fn is_next(&self, place: usize, segment: &Segment<'_>) -> bool {
        let header = segment.header;
        let before = self.slots.iter().take(place);
        let ahead = before.filter(|slot| match slot {
            Slot::Missing => true,
            Slot::Held { segment } => segment.header.stream == header.stream,
            Slot::Passed => false,
        });
        let ahead = ahead.count();
        let follows = self.next[usize::from(header.stream)] == header.sequence;
        ahead == 0 || follows && ahead < Self::ROUND
    }

    /// Hands on what has its turn by now, and forgets what is done at the beginning.
    fn pass_on(&mut self, pass: &mut dyn FnMut(&Segment<'_>)) {
        for place in 0..self.slots.len() {
            let turn = |slot: &Slot| match slot {
                Slot::Held { segment } => self.is_next(place, &segment.segment()),
                _ => false,
            };
            if !turn(&self.slots[place]) {
                continue;
            }
            if let Slot::Held { segment } = core::mem::replace(&mut self.slots[place], Slot::Passed)
            {
                self.held_octets -= segment.payload.len();
                let header = segment.header;
                self.next[usize::from(header.stream)] = (header.sequence + 1) % 8;
                pass(&segment.segment());
            }
        }
        while matches!(self.slots.front(), Some(Slot::Passed)) {
            self.slots.pop_front();
            self.base = self.base.wrapping_add(1);
        }
    }

    /// The sender says which is the oldest number that may still come, and which is next. A row
    /// that doesn't fit began otherwise than this end knows, and begins anew.
    pub(crate) fn told(&mut self, (from, next): (u8, u8), pass: &mut dyn FnMut(&Segment<'_>)) {
        let open = usize::from(next.wrapping_sub(from));
        let base = usize::from(self.base.wrapping_sub(from));
        let known = usize::from(next.wrapping_sub(self.base));
        if open > MAP_BITS || base > open && known > MAP_BITS || self.slots.len() > known {
            return self.restart(from);
        }
        // What was sent and isn't here is missing.
        if base <= open {
            while self.slots.len() < known {
                self.slots.push_back(Slot::Missing);
            }
            return;
        }
        let skipped = usize::from(from.wrapping_sub(self.base));
        self.skip(skipped, pass);
        while self.slots.len() < open {
            self.slots.push_back(Slot::Missing);
        }
    }

    /// The first missing one isn't waited for any longer.
    pub(crate) fn skip_first(&mut self, pass: &mut dyn FnMut(&Segment<'_>)) {
        let missing = |slot: &Slot| matches!(slot, Slot::Missing);
        let first = self.slots.iter().take_while(|slot| missing(slot)).count();
        self.skip(first, pass);
    }

    /// What is missing of so many numbers from the first on isn't waited for.
    fn skip(&mut self, numbers: usize, pass: &mut dyn FnMut(&Segment<'_>)) {
        while self.slots.len() < numbers {
            self.slots.push_back(Slot::Missing);
        }
        for slot in self.slots.iter_mut().take(numbers) {
            if matches!(slot, Slot::Missing) {
                *slot = Slot::Passed;
                self.counts.skipped += 1;
            }
        }
        self.pass_on(pass);
    }

    /// What has come.
    pub(crate) fn came(&self) -> Came {
        let mut map = vec![0; MAP_BITS / 8];
        for (bit, slot) in self.slots.iter().skip(1).take(MAP_BITS).enumerate() {
            if !matches!(slot, Slot::Missing) {
                map[bit / 8] |= 1 << (bit % 8);
            }
        }
        Came {
            base: self.base,
            last: self.last,
            map,
        }
    }
}
