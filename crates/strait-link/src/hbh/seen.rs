//! A set of sequence numbers near one another.

use alloc::boxed::Box;

/// Numbers of which no two are further apart than [`Seen::SPAN`].
#[derive(Debug)]
pub(crate) struct Seen {
    bits: Box<[u64; Self::WORDS]>,
    count: u16,
}

impl Seen {
    const WORDS: usize = 64;
    /// So many numbers in a row are told apart.
    pub(crate) const SPAN: u16 = 64 * Self::WORDS as u16;

    pub(crate) fn new() -> Self {
        Self {
            bits: Box::new([0; Self::WORDS]),
            count: 0,
        }
    }

    const fn place(number: u16) -> (usize, u64) {
        let bit = number % Self::SPAN;
        (bit as usize / 64, 1 << (bit % 64))
    }

    pub(crate) fn has(&self, number: u16) -> bool {
        let (word, bit) = Self::place(number);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }

    pub(crate) fn insert(&mut self, number: u16) {
        let (word, bit) = Self::place(number);
        if let Some(word) = self.bits.get_mut(word) {
            self.count += u16::from(*word & bit == 0);
            *word |= bit;
        }
    }

    pub(crate) fn remove(&mut self, number: u16) {
        let (word, bit) = Self::place(number);
        if let Some(word) = self.bits.get_mut(word) {
            self.count -= u16::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn clear(&mut self) {
        self.bits.fill(0);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn numbers_are_told_apart_over_the_whole_span_and_where_they_wrap() {
        let mut seen = Seen::new();
        let first = u16::MAX - 9;
        let numbers = || (0..Seen::SPAN).map(|it| first.wrapping_add(it));
        numbers().step_by(3).for_each(|it| seen.insert(it));
        seen.insert(first);
        let has: Vec<bool> = numbers().map(|it| seen.has(it)).collect();
        assert!(
            has.iter()
                .enumerate()
                .all(|(at, has)| *has == (at % 3 == 0))
        );
        numbers().for_each(|it| seen.remove(it));
        assert!(seen.is_empty());
        seen.insert(0);
        assert!(!seen.is_empty());
        seen.clear();
        assert!(seen.is_empty() && !seen.has(0));
    }
}
