//! Numbered segments that come in frames: what is missing, and what waits for it.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use strait_wire::repair::{Came, Linked, WIDE_MAP_OCTETS};
use strait_wire::segment::SegmentHeader;

use super::window::Window;
use crate::Refused;
use crate::repair::{Arrivals, Arrived, Incoming, RowCounts};

/// A number from the first missing one on.
#[derive(Debug)]
enum Slot {
    Missing,
    /// It came, and waits for the one that it is to be handed on after.
    Held(Held),
    /// It was handed on, or isn't waited for.
    Passed,
}

#[derive(Debug)]
struct Held {
    header: SegmentHeader,
    after: u64,
    payload: Vec<u8>,
}

/// The pieces of a packet that were handed on so far, and the number of the last.
#[derive(Debug)]
struct Part {
    last: u64,
    bytes: Vec<u8>,
}

/// Hears of each whole packet and each refusal.
type Tell<'a> = dyn FnMut(Result<&[u8], Refused>) + 'a;

/// Numbers of one neighbour. A segment is handed on when the one that it names was, or won't be.
#[derive(Debug)]
pub(super) struct Row {
    packet_octets_max: usize,
    map_octets_max: usize,
    /// All before this one came, or won't. Of these, the low sixteen bits are sent.
    base: u64,
    slots: VecDeque<Slot>,
    /// Those that wait, behind the number that each waits for.
    waiting: BTreeSet<(u64, u64)>,
    /// The number that came last; at first the one before the first.
    last: u16,
    held_octets: usize,
    parts: Vec<Part>,
    arrivals: Arrivals,
    pub(super) counts: RowCounts,
}

impl Row {
    /// Octets of segments that wait: as many as a sender has on their way.
    const HELD_OCTETS_MAX: usize = 4 * 1024 * 1024;
    /// Unfinished packets: of each class one, and some that were given up.
    const PARTS_MAX: usize = 64;
    /// So many segments may have overtaken a note.
    const OVERTAKEN_MAX: i16 = 64;
    /// Numbers begin here, so that there are some before the first.
    const FIRST: u64 = 1 << 16;

    pub(super) const fn new(packet_octets_max: usize) -> Self {
        Self {
            packet_octets_max,
            map_octets_max: WIDE_MAP_OCTETS,
            base: Self::FIRST,
            slots: VecDeque::new(),
            waiting: BTreeSet::new(),
            last: u16::MAX,
            held_octets: 0,
            parts: Vec::new(),
            arrivals: Arrivals {
                segments: 0,
                urgent: false,
            },
            counts: RowCounts {
                segments: 0,
                duplicates: 0,
                refused: 0,
                skipped: 0,
            },
        }
    }

    fn begin(&mut self, base: u16) {
        let (counts, map_octets_max) = (self.counts, self.map_octets_max);
        *self = Self::new(self.packet_octets_max);
        self.map_octets_max = map_octets_max;
        (self.base, self.counts) = (Self::FIRST + u64::from(base), counts);
        self.last = base.wrapping_sub(1);
    }

    /// A note has room for a map of so many octets.
    pub(super) const fn set_map(&mut self, octets_max: usize) {
        self.map_octets_max = octets_max;
    }

    pub(super) const fn held_octets(&self) -> usize {
        self.held_octets
    }

    /// Octets of the map that a note would have.
    pub(super) fn map_octets(&self) -> usize {
        self.slots.len().div_ceil(8).min(self.map_octets_max)
    }

    /// Takes in a segment; tells what has its turn.
    pub(super) fn take(
        &mut self,
        linked: &Linked<'_>,
        mut tell: impl FnMut(Result<&[u8], Refused>),
    ) -> Arrived {
        self.counts.segments += 1;
        let arrived = self.place(linked, &mut tell);
        self.arrivals.segments += 1;
        self.arrivals.urgent |= arrived == Arrived::Gap;
        arrived
    }

    fn place(&mut self, linked: &Linked<'_>, tell: &mut Tell<'_>) -> Arrived {
        let place = usize::from(linked.number.wrapping_sub(self.base as u16));
        let known = self.slots.get(place);
        if place >= 1 << 15 || known.is_some_and(|slot| !matches!(slot, Slot::Missing)) {
            self.counts.duplicates += 1;
            self.last = linked.number;
            return Arrived::Needless;
        }
        let octets = linked.payload.len();
        if place >= Window::SEGMENTS_MAX || self.held_octets + octets > Self::HELD_OCTETS_MAX {
            self.counts.refused += 1;
            return Arrived::Needless;
        }
        let arrived = match place {
            _ if place < self.slots.len() => Arrived::Filled,
            _ if place == self.slots.len() => Arrived::Next,
            _ => Arrived::Gap,
        };
        self.grow(place + 1);
        self.last = linked.number;
        let number = self.base + place as u64;
        let after = number - u64::from(linked.after);
        self.held_octets += octets;
        let held = Held {
            header: linked.header,
            after,
            payload: linked.payload.to_vec(),
        };
        self.slots[place] = Slot::Held(held);
        if after == number || self.has_passed(after) {
            self.pass_on(number, tell);
        } else {
            self.waiting.insert((after, number));
        }
        self.forget();
        arrived
    }

    fn grow(&mut self, numbers: usize) {
        while self.slots.len() < numbers {
            self.slots.push_back(Slot::Missing);
        }
    }

    fn has_passed(&self, number: u64) -> bool {
        let place = number.checked_sub(self.base);
        place.is_none_or(|place| matches!(self.slots.get(place as usize), Some(Slot::Passed)))
    }

    /// Hands on a segment, and those that wait for it.
    fn pass_on(&mut self, number: u64, tell: &mut Tell<'_>) {
        let mut ready = vec![number];
        while let Some(number) = ready.pop() {
            let slot = &mut self.slots[(number - self.base) as usize];
            if let Slot::Held(held) = core::mem::replace(slot, Slot::Passed) {
                self.held_octets -= held.payload.len();
                self.join(number, held, tell);
            }
            ready.extend(self.followers(number));
        }
    }

    /// Takes out those that wait for a number.
    fn followers(&mut self, number: u64) -> Vec<u64> {
        let range = (number, 0)..=(number, u64::MAX);
        let found: Vec<(u64, u64)> = self.waiting.range(range).copied().collect();
        let taken = found.into_iter().inspect(|it| {
            self.waiting.remove(it);
        });
        taken.map(|(_, follower)| follower).collect()
    }

    /// Joins a piece to those of its packet before it.
    fn join(&mut self, number: u64, held: Held, tell: &mut Tell<'_>) {
        let Held {
            header,
            after,
            payload,
        } = held;
        let mut part = Part {
            last: number,
            bytes: payload,
        };
        if !header.first {
            let Some(place) = self.parts.iter().position(|part| part.last == after) else {
                return tell(Err(Refused::Incomplete));
            };
            let mut before = self.parts.swap_remove(place);
            before.bytes.append(&mut part.bytes);
            part.bytes = before.bytes;
        }
        if part.bytes.len() > self.packet_octets_max {
            return tell(Err(Refused::Invalid));
        }
        if header.last {
            return tell(Ok(&part.bytes));
        }
        if self.parts.len() >= Self::PARTS_MAX {
            self.parts.remove(0);
            tell(Err(Refused::Incomplete));
        }
        self.parts.push(part);
    }

    fn forget(&mut self) {
        while matches!(self.slots.front(), Some(Slot::Passed)) {
            self.slots.pop_front();
            self.base += 1;
        }
    }

    /// What is missing of so many numbers from the first on isn't waited for.
    fn skip(&mut self, numbers: usize, tell: &mut Tell<'_>) {
        self.grow(numbers);
        for place in 0..numbers {
            if matches!(self.slots[place], Slot::Missing) {
                self.counts.skipped += 1;
                self.pass_on(self.base + place as u64, tell);
            }
        }
        self.forget();
    }
}

impl Incoming for Row {
    fn restart(&mut self) {
        self.begin(0);
    }

    fn take_arrivals(&mut self) -> Arrivals {
        core::mem::take(&mut self.arrivals)
    }

    fn first_missing(&self) -> Option<u16> {
        (!self.slots.is_empty()).then_some(self.base as u16)
    }

    fn came(&self) -> Came {
        let mut map = vec![0; self.map_octets()];
        let slots = self.slots.iter().skip(1).take(map.len() * 8);
        for (bit, slot) in slots.enumerate() {
            if !matches!(slot, Slot::Missing) {
                map[bit / 8] |= 1 << (bit % 8);
            }
        }
        Came {
            base: self.base as u16,
            last: self.last,
            map,
        }
    }

    fn told(&mut self, (from, next): (u16, u16), mut tell: impl FnMut(Result<&[u8], Refused>)) {
        let most = Window::SEGMENTS_MAX as i16;
        let ahead = |number: u16, base: u64| number.wrapping_sub(base as u16) as i16;
        let (first, end) = (ahead(from, self.base), ahead(next, self.base));
        // A row that doesn't fit began otherwise than this end knows, and begins anew. What was
        // overtaken on its way tells nothing new.
        if first > most || end < -Self::OVERTAKEN_MAX {
            return self.begin(from);
        }
        if first > 0 {
            self.skip(first as usize, &mut tell);
        }
        // What was sent and isn't here is missing.
        self.grow(ahead(next, self.base).clamp(0, most) as usize);
    }

    fn skip_first(&mut self, mut tell: impl FnMut(Result<&[u8], Refused>)) {
        let missing = |slot: &Slot| matches!(slot, Slot::Missing);
        let first = self.slots.iter().take_while(|slot| missing(slot)).count();
        self.skip(first, &mut tell);
    }
}
