//! Chance as a pure function of (seed, stream name, counter).
//!
//! A new stream never moves an old one, and two systems that meet the same channel draw the same
//! numbers at the same places.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::time::Duration;

/// A named stream of random numbers with random access by counter.
#[derive(Clone, Debug)]
pub struct Stream {
    rng: ChaCha8Rng,
    /// Counter of the number that `rng` gives next.
    next: u64,
}

impl Stream {
    /// The stream `name` of the run `seed`. Names of a restarted node include its incarnation.
    pub fn new(seed: u64, name: &str) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        // The name is part of the key, not of the 64-bit stream number alone, so that two names
        // collide only where two 128-bit digests do.
        for (lane, chunk) in key[8..24].chunks_exact_mut(8).enumerate() {
            let digest = strait_wire::hash::hash64(0x5354_5241_4954 + lane as u64, name.as_bytes());
            chunk.copy_from_slice(&digest.to_le_bytes());
        }
        key[24..].copy_from_slice(&(name.len() as u64).to_le_bytes());
        Self {
            rng: ChaCha8Rng::from_seed(key),
            next: 0,
        }
    }

    /// The number at `counter`, whatever was drawn before.
    pub fn at(&mut self, counter: u64) -> u64 {
        if counter != self.next {
            self.rng.set_word_pos(u128::from(counter) * 2);
        }
        self.next = counter.wrapping_add(1);
        self.rng.next_u64()
    }

    /// The next number in order.
    pub fn draw(&mut self) -> u64 {
        self.at(self.next)
    }

    /// Uniform in [0, 1) with 53 bits, at `counter`.
    pub fn unit_at(&mut self, counter: u64) -> f64 {
        unit(self.at(counter))
    }

    /// Uniform in [0, 1) with 53 bits.
    pub fn unit(&mut self) -> f64 {
        unit(self.draw())
    }

    /// Uniform in 0 … `bound` − 1; 0 for a bound of 0. (The bias is below `bound` / 2^64.)
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// True with the given probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Exponentially distributed with the given mean: the gaps of a Poisson process.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let ns = -libm::log(1.0 - self.unit()) * mean.as_nanos() as f64;
        Duration::from_nanos(ns as u64)
    }
}

fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_by_counter_agrees_with_access_in_order() {
        let mut in_order = Stream::new(7, "link.loss");
        let drawn: [u64; 100] = core::array::from_fn(|_| in_order.draw());
        let mut anywhere = Stream::new(7, "link.loss");
        for counter in [99usize, 0, 50, 51, 3] {
            assert_eq!(anywhere.at(counter as u64), drawn[counter]);
        }
    }

    #[test]
    fn seed_and_name_select_different_streams() {
        let first = |seed, name| Stream::new(seed, name).draw();
        assert_ne!(first(1, "a"), first(2, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, ""), first(1, "\0"));
    }

    #[test]
    fn bounds_and_moments_hold() {
        let mut stream = Stream::new(1, "moments");
        assert_eq!(stream.below(0), 0);
        let mut sum = Duration::ZERO;
        for _ in 0..10_000 {
            assert!(stream.below(10) < 10);
            sum += stream.exponential(Duration::from_millis(1));
        }
        let mean_s = sum.as_secs_f64() / 10_000.0;
        assert!((0.00095..0.00105).contains(&mean_s), "mean {mean_s}");
        assert!(!stream.happens(0.0));
        assert!(stream.happens(1.0));
    }
}
