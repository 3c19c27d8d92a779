//! A table with a limit, in the order of last use.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use strait_core::flow::FlowKey;

const NONE: usize = usize::MAX;

#[derive(Debug)]
struct Slot<V> {
    key: FlowKey,
    value: V,
    older: usize,
    newer: usize,
}

/// Entries by key; each use makes an entry the newest.
#[derive(Debug)]
pub(super) struct Recent<V> {
    places: BTreeMap<FlowKey, usize>,
    slots: Vec<Slot<V>>,
    limit: usize,
    oldest: usize,
    newest: usize,
}

impl<V> Recent<V> {
    /// An empty table for at most `limit` entries, at least one.
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            places: BTreeMap::new(),
            slots: Vec::new(),
            limit,
            oldest: NONE,
            newest: NONE,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// The entry of `key`, which is now the newest.
    pub(super) fn touch(&mut self, key: &FlowKey) -> Option<&mut V> {
        if self.newest(key).is_none() {
            let place = *self.places.get(key)?;
            self.unlink(place);
            self.link(place);
        }
        self.newest(key)
    }

    /// The entry of `key` if it is the newest: that needs no search.
    pub(super) fn newest(&mut self, key: &FlowKey) -> Option<&mut V> {
        let newest = self.slots.get_mut(self.newest)?;
        (newest.key == *key).then_some(&mut newest.value)
    }

    /// The entry of `key`, whose place in the order stays.
    pub(super) fn at_key(&mut self, key: &FlowKey) -> Option<&mut V> {
        let place = *self.places.get(key)?;
        Some(&mut self.slots[place].value)
    }

    /// The entry of `key`.
    pub(super) fn get(&self, key: &FlowKey) -> Option<&V> {
        let place = *self.places.get(key)?;
        Some(&self.slots[place].value)
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
        let slot = Slot {
            key,
            value,
            older: NONE,
            newer: NONE,
        };
        if self.slots.len() < self.limit {
            self.places.insert(key, self.slots.len());
            self.slots.push(slot);
            self.link(self.slots.len() - 1);
            return Ok(0);
        }
        let mut place = self.oldest;
        while place != NONE && !may_go(&self.slots[place].value) {
            place = self.slots[place].newer;
        }
        if place == NONE {
            return Err(slot.value);
        }
        self.unlink(place);
        self.places.remove(&self.slots[place].key);
        self.places.insert(key, place);
        self.slots[place] = slot;
        self.link(place);
        Ok(1)
    }

    /// Asserts the order and the limit.
    pub(super) fn check(&self) {
        assert!(self.slots.len() <= self.limit, "more entries than places");
        assert_eq!(self.places.len(), self.slots.len());
        let (mut place, mut seen) = (self.oldest, 0);
        while place != NONE {
            seen += 1;
            assert_eq!(self.places.get(&self.slots[place].key), Some(&place));
            place = self.slots[place].newer;
            assert!(seen <= self.slots.len(), "the order has a loop");
        }
        assert_eq!(seen, self.slots.len(), "an entry has no place in the order");
    }

    fn unlink(&mut self, place: usize) {
        let (older, newer) = (self.slots[place].older, self.slots[place].newer);
        match self.slots.get_mut(older) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, place: usize) {
        self.slots[place].older = self.newest;
        self.slots[place].newer = NONE;
        match self.slots.get_mut(self.newest) {
            Some(slot) => slot.newer = place,
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
            uses in prop::collection::vec(0..12u8, 0..200),
            limit in 1..8usize,
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
