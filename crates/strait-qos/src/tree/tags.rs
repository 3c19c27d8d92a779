//! Virtual finish tags of the nodes of one band.

use alloc::vec::Vec;
use core::cell::Cell;

use super::Slot;
use crate::scheduler::Head;

/// Units of virtual time for one octet of weight 1. Large enough that rounding doesn't show in
/// shares; tags last for 2^43 octets since the band was last idle.
const UNIT: u64 = 1 << 20;

/// Fair queueing by virtual time: each node's next packet has a start tag and, by its length and
/// the node's share, a finish tag; the least finish tag goes next. Virtual time is the start tag of
/// the last packet, so that a node that was idle starts level with the others.
///
/// A node that is held (by its shaper, or by a neighbour that takes nothing) isn't idle, and its
/// tags fall behind. Once it may send again it goes next with one packet, and is level then: it
/// doesn't make up for the time that it was held.
#[derive(Debug)]
pub(super) struct Tags {
    entries: Vec<Entry>,
    virtual_time: u64,
}

#[derive(Debug)]
struct Entry {
    slot: Slot,
    /// Virtual time that one octet takes.
    per_octet: u64,
    start: u64,
    /// The most octets that it offered or sent at once. An offer counts although it wasn't taken:
    /// otherwise short packets of the same node, each of which makes it level, would keep a long
    /// one behind them from ever being next.
    longest: Cell<u32>,
}

impl Tags {
    /// A band without traffic.
    pub(super) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            virtual_time: 0,
        }
    }

    /// Gives a node its share, from its next packet on.
    pub(super) fn set_share(&mut self, slot: Slot, share: u64, shares: u64) {
        // In proportion to the sum, so that small and large shares are equally exact.
        let per_octet = u128::from(UNIT) * u128::from(shares.max(1)) / u128::from(share.max(1));
        let per_octet = u64::try_from(per_octet).unwrap_or(u64::MAX).max(1);
        match self.entries.iter_mut().find(|entry| entry.slot == slot) {
            Some(entry) => entry.per_octet = per_octet,
            None => self.entries.push(Entry {
                slot,
                per_octet,
                start: 0,
                longest: Cell::new(0),
            }),
        }
    }

    /// The band was idle: all begin anew.
    pub(super) fn clear(&mut self) {
        self.virtual_time = 0;
        self.entries.iter_mut().for_each(|entry| entry.start = 0);
    }

    /// A node that was idle has something to send.
    pub(super) fn join(&mut self, slot: Slot) {
        let now = self.virtual_time;
        if let Some(entry) = self.entry(slot) {
            entry.start = entry.start.max(now);
        }
    }

    fn entry(&mut self, slot: Slot) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.slot == slot)
    }

    /// The offer with the least finish tag; the first among equals.
    pub(super) fn first(&self, mut offer: impl FnMut(Slot) -> Option<Head>) -> Option<Head> {
        let offers = self.entries.iter().filter_map(|entry| {
            let head = offer(entry.slot)?;
            entry.saw(head.octets);
            Some((entry.finish(head.octets), head))
        });
        offers
            .min_by_key(|(finish, _)| *finish)
            .map(|(_, head)| head)
    }

    /// `octets` of the node leave.
    pub(super) fn charge(&mut self, slot: Slot, octets: u32) {
        let now = self.virtual_time;
        let Some(entry) = self.entry(slot) else {
            return;
        };
        let start = entry.start;
        entry.saw(octets);
        entry.start = start.max(now.saturating_sub(entry.time_of(entry.longest.get())));
        entry.start = entry.finish(octets);
        self.virtual_time = self.virtual_time.max(start);
    }
}

impl Entry {
    fn saw(&self, octets: u32) {
        self.longest.set(self.longest.get().max(octets));
    }

    const fn time_of(&self, octets: u32) -> u64 {
        self.per_octet.saturating_mul(octets as u64)
    }

    const fn finish(&self, octets: u32) -> u64 {
        self.start.saturating_add(self.time_of(octets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::{ClassId, NeighbourId};

    fn head(slot: Slot, octets: u32) -> Option<Head> {
        Some(Head {
            class: ClassId(slot as u8),
            to: NeighbourId::PEER,
            octets,
        })
    }

    #[test]
    fn a_short_packet_goes_before_a_long_one_of_equal_share() {
        let mut tags = Tags::new();
        tags.set_share(0, 1, 2);
        tags.set_share(1, 1, 2);
        let octets = [1500, 100];
        let mut order = Vec::new();
        for _ in 0..17 {
            let first = tags.first(|slot| head(slot, octets[slot])).unwrap();
            order.push(first.class.index());
            tags.charge(first.class.index(), first.octets);
        }
        // Fifteen short ones last as long as one long one; in a tie the first node goes.
        assert_eq!(order[..14], [1; 14]);
        assert_eq!(order[14..], [0, 1, 1]);
    }

    #[test]
    fn who_was_idle_starts_level_and_gets_nothing_back() {
        let mut tags = Tags::new();
        tags.set_share(0, 1, 2);
        tags.set_share(1, 1, 2);
        for _ in 0..100 {
            tags.charge(0, 1000);
        }
        tags.join(1);
        let mut sent = [0; 2];
        for _ in 0..100 {
            let slot = tags.first(|slot| head(slot, 1000)).unwrap().class.index();
            sent[slot] += 1;
            tags.charge(slot, 1000);
        }
        assert!(sent[0] >= 49, "{sent:?}");
    }

    #[test]
    fn who_was_held_goes_next_but_gets_nothing_back() {
        let mut tags = Tags::new();
        tags.set_share(0, 1, 2);
        tags.set_share(1, 1, 2);
        for _ in 0..100 {
            tags.charge(0, 1000);
        }
        let mut order = Vec::new();
        for _ in 0..100 {
            let slot = tags.first(|slot| head(slot, 1000)).unwrap().class.index();
            order.push(slot);
            tags.charge(slot, 1000);
        }
        assert_eq!(order[0], 1);
        let held = order.iter().filter(|slot| **slot == 1).count();
        assert!((50..=51).contains(&held), "{held}");
    }

    /// A node has a long packet all the time, and now and then a short one that goes before it.
    #[test]
    fn short_packets_of_a_node_do_not_keep_its_long_one_waiting() {
        let mut tags = Tags::new();
        tags.set_share(0, 1, 2);
        tags.set_share(1, 1, 2);
        let mut round = 0;
        let long_went = loop {
            round += 1;
            let own = if round % 20 == 0 { 40 } else { 1500 };
            let first = tags.first(|slot| head(slot, if slot == 0 { 40 } else { own }));
            let first = first.unwrap();
            tags.charge(first.class.index(), first.octets);
            if first.octets == 1500 || round == 1000 {
                break round;
            }
        };
        // As many octets of the other as this one has to send, its short ones counted.
        assert!(long_went <= 2 + (1500 + 2 * 40) / 40 + 2, "{long_went}");
    }

    #[test]
    fn tags_never_overflow() {
        let mut tags = Tags::new();
        tags.set_share(0, 1, u64::MAX);
        tags.charge(0, u32::MAX);
        tags.charge(0, u32::MAX);
        tags.charge(7, 1);
        assert!(tags.first(|slot| head(slot, u32::MAX)).is_some());
    }
}
