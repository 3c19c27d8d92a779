//! Which packets behind a missing one came.

use alloc::vec::Vec;

/// A bit for each packet behind the missing one, as many words as it takes to tell of the last one
/// that came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Map(u128);

impl Map {
    /// The most words of 32 bits.
    pub const WORDS_MAX: usize = 3;
    /// The most packets that it tells of.
    pub const BITS_MAX: u32 = 32 * Self::WORDS_MAX as u32;

    /// A map of these bits, the lowest for the packet right behind the missing one. What is beyond
    /// [`Self::BITS_MAX`] is left out.
    #[must_use]
    pub const fn new(bits: u128) -> Self {
        Self(bits & ((1 << Self::BITS_MAX) - 1))
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Whether the packet `distance` numbers behind the missing one came; 1 is the one right
    /// behind it.
    #[must_use]
    pub const fn has(self, distance: u16) -> bool {
        distance > 0 && distance as u32 <= Self::BITS_MAX && self.0 >> (distance - 1) & 1 == 1
    }

    /// Words that it takes.
    pub(super) const fn words(self) -> usize {
        (u128::BITS - self.0.leading_zeros()).div_ceil(32) as usize
    }

    pub(super) fn emit(self, out: &mut Vec<u8>) {
        for word in 0..self.words() {
            out.extend_from_slice(&((self.0 >> (32 * word)) as u32).to_be_bytes());
        }
    }

    pub(super) fn parse(bytes: &[u8], words: usize) -> Option<(Self, &[u8])> {
        let (own, rest) = bytes.split_at_checked(4 * words)?;
        let mut bits = 0;
        for (place, word) in own.as_chunks::<4>().0.iter().enumerate() {
            bits |= u128::from(u32::from_be_bytes(*word)) << (32 * place);
        }
        Some((Self(bits), rest))
    }
}
