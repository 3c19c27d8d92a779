//! How values are spread, in memory that doesn't grow with their number.

/// A histogram of signed values with buckets that grow with the value: each is at most
/// 2^−`BITS` of its values wide, and values below 2^(`BITS` + 1) have buckets of their own.
/// Least, greatest value and sum are exact.
#[derive(Clone, Debug, Default)]
pub struct Spread<const BITS: u32> {
    positive: Octaves,
    /// Of the negative values their magnitudes.
    negative: Octaves,
    count: u64,
    sum: i128,
    ends: Option<(i64, i64)>,
}

/// Counts for each bucket, in pieces of one power of two; empty pieces take no room.
#[derive(Clone, Debug, Default)]
struct Octaves(Vec<Box<[u32]>>);

/// For times in nanoseconds: buckets of 0.4 %, so that percentiles are right to 0.2 %.
pub type Times = Spread<8>;
/// For sizes in octets: exact below 2048.
pub type Sizes = Spread<10>;

impl<const BITS: u32> Spread<BITS> {
    const PIECE: usize = 1 << BITS;

    /// The piece and the place in it of a magnitude.
    const fn bucket(magnitude: u64) -> (usize, usize) {
        if magnitude < Self::PIECE as u64 {
            return (0, magnitude as usize);
        }
        let shift = 63 - BITS - magnitude.leading_zeros();
        (
            shift as usize + 1,
            (magnitude >> shift) as usize - Self::PIECE,
        )
    }

    /// The middle of a bucket.
    const fn middle(piece: usize, place: usize) -> u64 {
        if piece == 0 {
            return place as u64;
        }
        let shift = piece - 1;
        (((Self::PIECE + place) as u64) << shift) + ((1_u64 << shift) >> 1)
    }

    /// Takes in a value.
    #[inline]
    pub fn record(&mut self, value: i64) {
        let (piece, place) = Self::bucket(value.unsigned_abs());
        let octaves = if value < 0 {
            &mut self.negative
        } else {
            &mut self.positive
        };
        octaves.add(Self::PIECE, piece, place, 1);
        self.count += 1;
        self.sum += i128::from(value);
        self.widen(value, value);
    }

    fn widen(&mut self, low: i64, high: i64) {
        self.ends = Some(match self.ends {
            Some((least, greatest)) => (least.min(low), greatest.max(high)),
            None => (low, high),
        });
    }

    /// Takes in all values of another.
    pub fn merge(&mut self, other: &Self) {
        for (own, octaves) in [
            (&mut self.positive, &other.positive),
            (&mut self.negative, &other.negative),
        ] {
            for (piece, counts) in octaves.0.iter().enumerate() {
                for (place, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                    own.add(Self::PIECE, piece, place, *count);
                }
            }
        }
        self.count += other.count;
        self.sum += other.sum;
        if let Some((low, high)) = other.ends {
            self.widen(low, high);
        }
    }

    /// How many values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The least value.
    pub fn least(&self) -> Option<f64> {
        self.ends.map(|(low, _)| low as f64)
    }

    /// The greatest value.
    pub fn greatest(&self) -> Option<f64> {
        self.ends.map(|(_, high)| high as f64)
    }

    /// Arithmetic mean.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// How many values are below zero.
    pub fn below_zero(&self) -> u64 {
        let counts = self.negative.0.iter().flatten();
        counts.map(|count| u64::from(*count)).sum()
    }

    /// Values and their counts in ascending order; a value is the middle of its bucket, but never
    /// beyond the least and the greatest.
    fn steps(&self) -> impl Iterator<Item = (f64, u64)> {
        let (low, high) = self.ends.unwrap_or_default();
        let (low, high) = (low as f64, high as f64);
        let value = |(piece, place): (usize, usize)| Self::middle(piece, place) as f64;
        let negative = self.negative.counted();
        let negative = negative
            .into_iter()
            .rev()
            .map(move |(at, count)| (-value(at), count));
        let positive = self.positive.counted().into_iter();
        let positive = positive.map(move |(at, count)| (value(at), count));
        let all = negative.chain(positive);
        all.map(move |(value, count)| (value.clamp(low, high), count))
    }

    /// The `q`-quantile by nearest rank, as good as a bucket is wide.
    pub fn percentile(&self, q: f64) -> Option<f64> {
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        if rank >= self.count {
            return self.greatest();
        }
        let mut below = 0;
        for (value, count) in self.steps() {
            below += count;
            if below >= rank {
                return Some(value);
            }
        }
        self.greatest()
    }

    /// The share of values that are not above each value, in ascending order.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let mut below = 0;
        let all = self.count.max(1) as f64;
        let share = |(value, count)| {
            below += count;
            (value, below as f64 / all)
        };
        self.steps().map(share).collect()
    }
}

impl Octaves {
    #[inline]
    fn add(&mut self, octave_len: usize, piece: usize, place: usize, count: u32) {
        if self.0.len() <= piece {
            self.0.resize_with(piece + 1, Box::default);
        }
        let counts = &mut self.0[piece];
        if counts.is_empty() {
            *counts = vec![0; octave_len].into();
        }
        counts[place] = counts[place].saturating_add(count);
    }

    /// Buckets that aren't empty, in ascending order.
    fn counted(&self) -> Vec<((usize, usize), u64)> {
        let pieces = self.0.iter().enumerate();
        let places = pieces.flat_map(|(piece, counts)| {
            let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            counts.map(move |(place, count)| ((piece, place), u64::from(*count)))
        });
        places.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use strait_report::estimate::percentile_of_sorted;

    #[test]
    fn small_values_are_exact() {
        let mut sizes = Sizes::default();
        for size in (40..=1500).rev() {
            sizes.record(size);
        }
        assert_eq!(sizes.least(), Some(40.0));
        assert_eq!(sizes.percentile(0.5), Some(770.0));
        assert_eq!(sizes.percentile(0.95), Some(1427.0));
        assert_eq!(sizes.greatest(), Some(1500.0));
        assert_eq!(sizes.mean(), Some(770.0));
        assert_eq!(sizes.percentile(0.0), Some(40.0));
    }

    #[test]
    fn buckets_join_without_gaps() {
        let ends = [
            0,
            1,
            255,
            256,
            511,
            512,
            513,
            514,
            1023,
            1024,
            1028,
            u64::MAX,
        ];
        let places: Vec<_> = ends.map(Times::bucket).into();
        let expected = [
            (0, 0),
            (0, 1),
            (0, 255),
            (1, 0),
            (1, 255),
            (2, 0),
            (2, 0),
            (2, 1),
            (2, 255),
            (3, 0),
            (3, 1),
            (56, 255),
        ];
        assert_eq!(places, expected);
        assert_eq!(Times::middle(1, 0), 256);
        assert_eq!(Times::middle(2, 0), 513);
        assert_eq!(Times::middle(3, 1), 1030);
    }

    #[test]
    fn nothing_has_no_percentile() {
        let none = Times::default();
        assert_eq!((none.percentile(0.5), none.mean()), (None, None));
        assert!(none.distribution().is_empty());
    }

    #[test]
    fn the_distribution_ends_at_all() {
        let mut times = Times::default();
        for value in [-5, 10, 10, 20] {
            times.record(value);
        }
        let expected = [(-5.0, 0.25), (10.0, 0.75), (20.0, 1.0)];
        assert_eq!(times.distribution(), expected);
        assert_eq!(times.below_zero(), 1);
    }

    proptest! {
        #[test]
        fn percentiles_are_near_the_true_ones(
            values in proptest::collection::vec(any::<i64>().prop_map(|v| v >> (v & 63)), 1..200),
            cut in 0..200_usize, q in 0.0..1.0_f64,
        ) {
            let (left, right) = values.split_at(cut.min(values.len()));
            let (mut one, mut other) = (Times::default(), Times::default());
            left.iter().for_each(|value| one.record(*value));
            right.iter().for_each(|value| other.record(*value));
            one.merge(&other);
            let mut sorted: Vec<f64> = values.iter().map(|value| *value as f64).collect();
            sorted.sort_by(f64::total_cmp);
            let (exact, found) = (percentile_of_sorted(&sorted, q), one.percentile(q));
            let (exact, found) = (exact.unwrap(), found.unwrap());
            prop_assert!((found - exact).abs() <= exact.abs() / 500.0, "{found} for {exact}");
            prop_assert_eq!(one.count(), values.len() as u64);
        }
    }
}
