//! Sets of numbers that lie mostly side by side.

use alloc::collections::BTreeMap;

/// Disjoint ranges, none of them empty and no two touching.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The ranges, the lowest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(from, to)| (*from, *to))
    }

    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        self.iter().next()
    }

    pub(crate) fn last(&self) -> Option<(u64, u64)> {
        self.iter().next_back()
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let below = self.0.range(..=number).next_back();
        below.is_some_and(|(_, to)| number < *to)
    }

    /// How many numbers of `from` … `to` − 1 it has.
    pub(crate) fn count(&self, from: u64, to: u64) -> u64 {
        let below = self.0.range(..to).rev();
        let meets = below.take_while(|(_, end)| **end > from);
        meets.map(|(a, b)| (*b).min(to) - (*a).max(from)).sum()
    }

    /// Adds `from` … `to` − 1.
    pub(crate) fn insert(&mut self, mut from: u64, mut to: u64) {
        if from >= to {
            return;
        }
        while let Some((start, end)) = self.0.range(..=to).next_back().map(|(a, b)| (*a, *b)) {
            if end < from {
                break;
            }
            self.0.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.0.insert(from, to);
    }

    /// Takes `from` … `to` − 1 out.
    pub(crate) fn remove(&mut self, from: u64, to: u64) {
        if from >= to {
            return;
        }
        while let Some((start, end)) = self.0.range(..to).next_back().map(|(a, b)| (*a, *b)) {
            if end <= from {
                break;
            }
            self.0.remove(&start);
            if to < end {
                self.0.insert(to, end);
            }
            if start < from {
                self.0.insert(start, from);
            }
        }
    }

    /// How many numbers it has.
    pub(crate) fn sum(&self) -> u64 {
        self.iter().map(|(from, to)| to - from).sum()
    }

    /// Forgets the lowest range.
    pub(crate) fn pop_first(&mut self) {
        self.0.pop_first();
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_numbers(
            steps in proptest::collection::vec((any::<bool>(), 0..40_u64, 0..12_u64), 0..40)
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (adds, from, length) in steps {
                let to = from + length;
                if adds {
                    ranges.insert(from, to);
                    set.extend(from..to);
                } else {
                    ranges.remove(from, to);
                    set.retain(|number| !(from..to).contains(number));
                }
                let all: Vec<u64> = ranges.iter().flat_map(|(from, to)| from..to).collect();
                prop_assert_eq!(&all, &set.iter().copied().collect::<Vec<_>>());
                let ends: Vec<_> = ranges.iter().collect();
                prop_assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0));
                let part = set.range(10..30).count() as u64;
                prop_assert_eq!(ranges.count(10, 30), part);
                let same = |it: u64| ranges.contains(it) == set.contains(&it);
                prop_assert!((0..60).all(same));
            }
        }
    }
}
