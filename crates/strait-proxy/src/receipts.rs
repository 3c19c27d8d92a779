//! What came: the numbers of datagrams, and those of streams that the other side opened.

use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use crate::codec::{self, Item};
use crate::ranges::Ranges;

/// Ranges of numbers that are remembered as received. One below them is taken for lost.
const RANGES_MAX: usize = codec::ACK_RANGES_MAX;

/// Datagrams that came, and when that is to be acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    received: Ranges,
    due: Option<Instant>,
    /// The code point of the last, which an acknowledgement by itself has.
    dscp: u8,
}

impl Receipts {
    pub(crate) fn clear(&mut self) {
        self.received.clear();
        self.due = None;
    }

    pub(crate) const fn dscp(&self) -> u8 {
        self.dscp
    }

    /// When they are to be acknowledged.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|at| at <= now)
    }

    /// Whether a number is below all that are remembered.
    pub(crate) fn is_forgotten(&self, number: u64) -> bool {
        let below = self.received.first().is_some_and(|(from, _)| number < from);
        below && self.received.len() >= RANGES_MAX
    }

    /// Takes note of a datagram, whose acknowledgement may wait for `delay` for something to go
    /// with; false if it came before.
    pub(crate) fn take(&mut self, now: Instant, delay: Duration, dscp: u8, number: u64) -> bool {
        self.dscp = dscp;
        let gap = self.received.last().is_some_and(|(_, to)| to != number);
        let at = if gap { now } else { now + delay };
        self.due = Some(self.due.map_or(at, |before| before.min(at)));
        if self.received.contains(number) {
            return false;
        }
        self.received.insert(number, number + 1);
        if self.received.len() > RANGES_MAX {
            self.received.pop_first();
        }
        true
    }

    /// What acknowledges the newest of them, if any is to be.
    pub(crate) fn item(&self, ranges_max: usize) -> Option<Item<'static>> {
        self.due?;
        let ranges = self.received.iter().rev().map(|(from, to)| (from, to - 1));
        Some(Item::Ack(ranges.take(ranges_max).collect::<Vec<_>>()))
    }

    /// What acknowledged them is lost.
    pub(crate) fn say_again(&mut self, now: Instant) {
        if !self.received.is_empty() {
            self.due.get_or_insert(now);
        }
    }

    /// They have been acknowledged.
    pub(crate) const fn said(&mut self) {
        self.due = None;
    }
}

/// The other side's streams that were opened.
#[derive(Debug, Default)]
pub(crate) struct Openings {
    /// The number after the highest, and those below it that weren't.
    expected: u32,
    missing: Ranges,
}

impl Openings {
    /// The next is this one.
    pub(crate) fn begin(&mut self, first: u32) {
        self.expected = first;
        self.missing.clear();
    }

    pub(crate) fn is_unknown(&self, n: u32) -> bool {
        n >= self.expected || self.missing.contains(u64::from(n))
    }

    #[cfg(test)]
    pub(crate) fn has_gaps(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Whether one gap more can be kept in mind. A gap may be long: streams that ended as this side
    /// began anew are never told of.
    pub(crate) fn has_room(&self, gaps_max: usize) -> bool {
        self.missing.len() < gaps_max
    }

    /// A stream has been opened; false if that was known.
    pub(crate) fn take(&mut self, n: u32) -> bool {
        let number = u64::from(n);
        if n < self.expected {
            let known = !self.missing.contains(number);
            self.missing.remove(number, number + 1);
            return !known;
        }
        self.missing.insert(u64::from(self.expected), number);
        self.expected = n.saturating_add(1);
        true
    }
}
