//! A table with a limit, in the order of last use.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::flow::{FlowKey, FlowMark};

/// No place: a table has fewer.
const NONE: u16 = u16::MAX;

/// Places that are remembered by the numbers of keys: many more than a port has busy flows.
const HINTS: usize = 256;

/// An entry, from the beginning of a line of the processor's cache on.
#[derive(Debug)]
#[repr(C, align(64))]
struct Slot<V> {
    key: FlowKey,
    value: V,
}

/// Which entries were used right before and after one.
#[derive(Clone, Copy, Debug)]
struct Turn {
    older: u16,
    newer: u16,
}

/// Entries by key; each use makes an entry the newest.
///
/// A packet's use meets as few lines of a processor's cache as it can: the order lies apart from
/// the entries, the place of a busy flow is found without walking the tree of all, and the first of
/// these fields are in one line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Recent<V> {
    /// By number of a key, where one with that number was found last; none without entries.
    hints: Option<Box<[u16; HINTS]>>,
    slots: Vec<Slot<V>>,
    /// By place, as `slots`.
    turns: Vec<Turn>,
    oldest: u16,
    newest: u16,
    limit: u16,
    places: BTreeMap<FlowKey, u16>,
}

/// A number of the key, equal to others' by chance only.
fn number(key: &FlowKey) -> usize {
    /// 2^64 divided by the golden ratio: neighbouring numbers end up far apart.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let word = |address: IpAddr| match address {
        IpAddr::V4(v4) => u64::from(v4.to_bits()),
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64 ^ v6.to_bits() as u64,
    };
    let mark = match key.mark {
        FlowMark::Ports(from, to) => u32::from(from) << 16 | u32::from(to),
        FlowMark::Spi(number) | FlowMark::Label(number) => number,
    };
    let words = [word(key.src), word(key.dst), u64::from(mark)];
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(SPREAD).rotate_left(32);
    words.into_iter().fold(0, mix) as usize % HINTS
}

impl<V> Recent<V> {
    /// An empty table for at most `limit` entries, at least one.
    pub(super) const fn new(limit: usize) -> Self {
        assert!(limit < NONE as usize, "places have 16 bits");
        Self {
            hints: None,
            slots: Vec::new(),
            turns: Vec::new(),
            oldest: NONE,
            newest: NONE,
            limit: limit as u16,
            places: BTreeMap::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// The place of a key.
    fn place(&self, key: &FlowKey) -> Option<u16> {
        let hint = self.hints.as_ref()?[number(key)];
        let slot = self.slots.get(usize::from(hint));
        if slot.is_some_and(|slot| slot.key == *key) {
            return Some(hint);
        }
        self.places.get(key).copied()
    }

    /// The entry of `key`, which is now the newest.
    pub(super) fn touch(&mut self, key: &FlowKey) -> Option<&mut V> {
        let hints = self.hints.as_mut()?;
        let number = number(key);
        let mut place = hints[number];
        let slot = self.slots.get(usize::from(place));
        if slot.is_none_or(|slot| slot.key != *key) {
            place = *self.places.get(key)?;
            hints[number] = place;
        }
        if place != self.newest {
            self.unlink(place);
            self.link(place);
        }
        Some(&mut self.slots[usize::from(place)].value)
    }

    /// The entry that was used last: that needs no search.
    pub(super) fn newest(&mut self) -> Option<&mut V> {
        let newest = self.slots.get_mut(usize::from(self.newest));
        newest.map(|slot| &mut slot.value)
    }

    /// The entry of `key`, whose place in the order stays.
    pub(super) fn at_key(&mut self, key: &FlowKey) -> Option<&mut V> {
        let place = self.place(key)?;
        Some(&mut self.slots[usize::from(place)].value)
    }

    /// The entry of `key`.
    pub(super) fn get(&self, key: &FlowKey) -> Option<&V> {
        let place = self.place(key)?;
        Some(&self.slots[usize::from(place)].value)
    }

    /// All entries, the order being no particular one.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&FlowKey, &V)> {
        self.slots.iter().map(|slot| (&slot.key, &slot.value))
    }

    /// Adds an entry for a key that has none. In a full table the oldest entry makes way of those
    /// that `may_go`; says how many did, or gives the value back if none may.
    pub(super) fn insert(
        &mut self,
        key: FlowKey,
        value: V,
        may_go: impl Fn(&V) -> bool,
    ) -> Result<u64, V> {
        debug_assert!(!self.places.contains_key(&key), "an entry for each key");
        let slot = Slot { key, value };
        let mut place = self.slots.len() as u16;
        let displaces = self.slots.len() == usize::from(self.limit);
        if displaces {
            place = self.oldest;
            while place != NONE && !may_go(&self.slots[usize::from(place)].value) {
                place = self.turns[usize::from(place)].newer;
            }
            let Some(old) = self.slots.get_mut(usize::from(place)) else {
                return Err(slot.value);
            };
            self.places.remove(&old.key);
            *old = slot;
            self.unlink(place);
        } else {
            self.slots.push(slot);
            self.turns.push(Turn {
                older: NONE,
                newer: NONE,
            });
        }
        self.places.insert(key, place);
        let hints = self.hints.get_or_insert_with(|| Box::new([NONE; HINTS]));
        hints[number(&key)] = place;
        self.link(place);
        Ok(u64::from(displaces))
    }

    /// Asserts the order and the limit.
    pub(super) fn check(&self) {
        assert!(
            self.slots.len() <= usize::from(self.limit),
            "more entries than places"
        );
        assert_eq!(self.places.len(), self.slots.len());
        assert_eq!(self.turns.len(), self.slots.len());
        let (mut place, mut seen) = (self.oldest, 0);
        while let Some(slot) = self.slots.get(usize::from(place)) {
            seen += 1;
            assert_eq!(self.places.get(&slot.key), Some(&place));
            assert_eq!(self.place(&slot.key), Some(place), "a hint misleads");
            place = self.turns[usize::from(place)].newer;
            assert!(seen <= self.slots.len(), "the order has a loop");
        }
        assert_eq!(seen, self.slots.len(), "an entry has no place in the order");
    }

    fn unlink(&mut self, place: u16) {
        let Turn { older, newer } = self.turns[usize::from(place)];
        match self.turns.get_mut(usize::from(older)) {
            Some(turn) => turn.newer = newer,
            None => self.oldest = newer,
        }
        match self.turns.get_mut(usize::from(newer)) {
            Some(turn) => turn.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, place: u16) {
        self.turns[usize::from(place)] = Turn {
            older: self.newest,
            newer: NONE,
        };
        match self.turns.get_mut(usize::from(self.newest)) {
            Some(turn) => turn.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use core::net::IpAddr;

    use proptest::prelude::*;
    use strait_core::flow::FlowMark;

    use super::*;

    fn key(number: u8) -> FlowKey {
        FlowKey {
            src: IpAddr::from([10, 0, 0, number]),
            dst: IpAddr::from([10, 1, 0, 1]),
            protocol: 17,
            mark: FlowMark::Ports(1, 2),
        }
    }

    #[test]
    fn the_one_used_longest_ago_makes_way() {
        let mut table = Recent::new(3);
        for number in 0..3 {
            assert_eq!(table.insert(key(number), number, |_| true), Ok(0));
        }
        assert_eq!(table.touch(&key(0)), Some(&mut 0));
        assert_eq!(table.insert(key(3), 3, |_| true), Ok(1));
        assert_eq!(table.touch(&key(1)), None);
        assert_eq!(table.insert(key(4), 4, |number| *number != 2), Ok(1));
        assert_eq!(table.touch(&key(0)), None);
        assert_eq!(table.insert(key(5), 5, |_| false), Err(5));
        assert_eq!(table.len(), 3);
        table.check();
    }

    proptest! {
        #[test]
        fn it_keeps_what_a_list_in_order_keeps(
            uses in prop::collection::vec(0..60u8, 0..400),
            limit in 1..50usize,
        ) {
            let mut table = Recent::new(limit);
            let mut list = VecDeque::new();
            for number in uses {
                let known = list.iter().position(|it| *it == number);
                prop_assert_eq!(table.touch(&key(number)).is_some(), known.is_some());
                match known {
                    Some(place) => { list.remove(place); }
                    None => {
                        let displaced = list.len() == limit;
                        let made_way = table.insert(key(number), (), |()| true);
                        prop_assert_eq!(made_way, Ok(u64::from(displaced)));
                        if displaced {
                            list.pop_front();
                        }
                    }
                }
                list.push_back(number);
                table.check();
            }
        }
    }
}
