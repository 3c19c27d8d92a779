//! Which packets behind a missing one came.

use alloc::vec::Vec;

/// A bit for each packet behind the missing one, as many words as it takes to tell of the last one
/// that came, or as many as there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    words: [u32; Self::WORDS_MAX],
    length: u8,
    /// Of what is beyond the words nothing is told. Otherwise nothing of that came.
    cut: bool,
}

impl Default for Map {
    fn default() -> Self {
        Self {
            words: [0; Self::WORDS_MAX],
            length: 0,
            cut: false,
        }
    }
}

impl Map {
    /// The most words of 32 bits.
    pub const WORDS_MAX: usize = 64;
    /// The most packets that it tells of.
    pub const BITS_MAX: u16 = 32 * Self::WORDS_MAX as u16;
    /// The most words that any end reads, also one that hasn't said that it reads more.
    pub const NARROW_WORDS: usize = 3;

    /// A map of the lowest 96 of these bits, the lowest for the packet right behind the missing
    /// one.
    #[must_use]
    pub fn new(bits: u128) -> Self {
        let came = |distance: u16| bits >> (distance - 1) & 1 == 1;
        let narrow = 32 * Self::NARROW_WORDS as u16;
        let last = (1..=narrow).rev().find(|distance| came(*distance));
        Self::of(last.unwrap_or(0), Self::NARROW_WORDS, came)
    }

    /// A map of which packets came up to the last one, `last` numbers behind the missing one, in
    /// at most so many words.
    #[must_use]
    pub fn of(last: u16, words_max: usize, came: impl Fn(u16) -> bool) -> Self {
        let whole = usize::from(last).div_ceil(32);
        let length = whole.min(words_max).min(Self::WORDS_MAX);
        let mut map = Self {
            length: length as u8,
            cut: whole > length,
            ..Self::default()
        };
        for (word, first) in map.words.iter_mut().take(length).zip((1..).step_by(32)) {
            let bits = (0..32).filter(|bit| came(first + bit));
            *word = bits.fold(0, |word, bit| word | 1 << bit);
        }
        map
    }

    /// Whether the packet `distance` numbers behind the missing one came; 1 is the one right
    /// behind it. `None` if that isn't told.
    #[must_use]
    pub fn tells(&self, distance: u16) -> Option<bool> {
        let bit = usize::from(distance).checked_sub(1)?;
        match self.told().get(bit / 32) {
            Some(word) => Some(word >> (bit % 32) & 1 == 1),
            None => (!self.cut).then_some(false),
        }
    }

    /// Whether there is more than it tells of.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether any end reads it.
    pub(super) const fn is_narrow(&self) -> bool {
        self.words() <= Self::NARROW_WORDS && !self.cut
    }

    fn told(&self) -> &[u32] {
        self.words.get(..self.words()).unwrap_or_default()
    }

    /// Words that it takes.
    pub(super) const fn words(&self) -> usize {
        self.length as usize
    }

    /// How a map begins that not every end reads: its words, and whether it is cut.
    pub(super) const fn head(&self) -> u8 {
        self.length | if self.cut { Self::CUT } else { 0 }
    }

    const CUT: u8 = 0x80;

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend(self.told().iter().flat_map(|word| word.to_be_bytes()));
    }

    pub(super) fn parse(bytes: &[u8], words: usize) -> Option<(Self, &[u8])> {
        let (own, rest) = bytes.split_at_checked(4 * words)?;
        let words = own.as_chunks::<4>().0.iter();
        let mut map = Self::default();
        for (place, word) in words.enumerate() {
            let word = u32::from_be_bytes(*word);
            *map.words.get_mut(place)? = word;
            // As many as it takes, if there are more.
            if word != 0 {
                map.length = place as u8 + 1;
            }
        }
        Some((map, rest))
    }

    /// Reads one with its [head](Self::head).
    pub(super) fn parse_wide(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (&head, rest) = bytes.split_first()?;
        let words = head & !Self::CUT;
        let (mut map, rest) = Self::parse(rest, usize::from(words))?;
        if head & Self::CUT != 0 {
            (map.length, map.cut) = (words, true);
        }
        Some((map, rest))
    }
}
