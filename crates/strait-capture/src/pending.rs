//! Packets that were seen at one place and not yet at the other.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::Key;

/// A packet as one place saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// On the common clock.
    pub(super) time_ns: i64,
    /// Stands for the packet; see [`strait_wire::ip::Captured::mark`].
    pub(super) mark: u64,
    /// Its row.
    pub(super) key: Key,
    /// Its flow, by hash.
    pub(super) flow: u64,
    /// Its source and destination address.
    pub(super) pair: Key,
    pub(super) dscp: u8,
    pub(super) hop_limit: u8,
    pub(super) octets: u32,
}

/// Packets that wait for their counterpart, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Pending {
    by_number: BTreeMap<u64, Seen>,
    by_mark: BTreeSet<(u64, u64)>,
    /// The number of the next packet.
    next: u64,
}

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// The number that the next packet of this place has.
    pub(super) const fn number(&self) -> u64 {
        self.next
    }

    /// Leaves a number out, for a packet that needn't wait.
    pub(super) const fn skip(&mut self) {
        self.next += 1;
    }

    pub(super) fn push(&mut self, seen: Seen) {
        self.by_mark.insert((seen.mark, self.next));
        self.by_number.insert(self.next, seen);
        self.next += 1;
    }

    /// Takes out the first packet that has this mark, with its number.
    pub(super) fn take(&mut self, mark: u64) -> Option<(u64, Seen)> {
        let entry = *self.by_mark.range((mark, 0)..=(mark, u64::MAX)).next()?;
        self.by_mark.remove(&entry);
        let seen = self.by_number.remove(&entry.1)?;
        Some((entry.1, seen))
    }

    /// Takes out the first packet, if it is older than that.
    pub(super) fn pop_before(&mut self, time_ns: i64) -> Option<Seen> {
        let first = self.by_number.first_entry()?;
        (first.get().time_ns < time_ns)
            .then(|| first.remove_entry())
            .map(|(number, seen)| self.forget(number, seen))
    }

    /// Takes out the first packet.
    pub(super) fn pop(&mut self) -> Option<Seen> {
        let (number, seen) = self.by_number.pop_first()?;
        Some(self.forget(number, seen))
    }

    fn forget(&mut self, number: u64, seen: Seen) -> Seen {
        self.by_mark.remove(&(seen.mark, number));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(time_ns: i64, mark: u64) -> Seen {
        Seen {
            time_ns,
            mark,
            key: Key::Dscp(0),
            flow: 0,
            pair: Key::Dscp(0),
            dscp: 0,
            hop_limit: 64,
            octets: 20,
        }
    }

    #[test]
    fn equal_packets_are_taken_in_order() {
        let mut pending = Pending::default();
        for (time_ns, mark) in [(1, 7), (2, 9), (3, 7)] {
            pending.push(seen(time_ns, mark));
        }
        assert_eq!(pending.take(7), Some((0, seen(1, 7))));
        pending.skip();
        assert_eq!(pending.number(), 4);
        assert_eq!(pending.take(7), Some((2, seen(3, 7))));
        assert_eq!((pending.take(7), pending.take(8)), (None, None));
        assert_eq!(pending.pop_before(2), None);
        assert_eq!(pending.pop_before(3), Some(seen(2, 9)));
        assert_eq!((pending.len(), pending.pop()), (0, None));
        assert_eq!(pending.take(9), None);
    }
}
