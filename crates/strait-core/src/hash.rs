//! The run hash: everything that happened, folded into 64 bits.

/// Folds events into one number that is equal for equal histories on any machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunHash(u64);

impl Default for RunHash {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl RunHash {
    /// Folds one word in; order matters.
    pub fn fold(&mut self, word: u64) {
        // A 64 × 64 → 128 bit product, folded: every input bit reaches every output bit.
        let product =
            u128::from(self.0 ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93_a5a3_564b_d1b5_4e27);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ word.rotate_left(32);
    }

    /// Folds octets in, length first.
    pub fn fold_bytes(&mut self, bytes: &[u8]) {
        self.fold(strait_wire::hash::hash64(bytes.len() as u64, bytes));
    }

    /// The hash so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_zeros_count() {
        let hash = |words: &[u64]| {
            let mut hash = RunHash::default();
            words.iter().for_each(|word| hash.fold(*word));
            hash.value()
        };
        assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
        assert_ne!(hash(&[0]), hash(&[0, 0]));
        assert_ne!(hash(&[]), hash(&[0]));
    }
}
