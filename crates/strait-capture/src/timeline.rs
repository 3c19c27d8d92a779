//! Values over time, in memory that doesn't grow with time.

/// The most intervals of a timeline; where there would be more, each becomes twice as long. Plots
/// have about as many points as that.
pub(super) const BINS_MAX: usize = 512;

/// What fell into an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) count: u64,
    pub(super) sum: i64,
    pub(super) greatest: i64,
}

impl Bin {
    fn merge(&mut self, other: Self) {
        if other.count == 0 {
            return;
        }
        self.greatest = match self.count {
            0 => other.greatest,
            _ => self.greatest.max(other.greatest),
        };
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }
}

/// Sums and greatest values for intervals of equal length.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    /// Length of an interval is the first one's doubled so many times.
    doublings: u32,
    bins: Vec<Bin>,
}

impl Timeline {
    /// Takes in a value at a time since the beginning. `interval_ns` is the same in all calls.
    #[inline]
    pub(super) fn record(&mut self, since_ns: i64, interval_ns: u64, value: i64) {
        let index = since_ns.max(0) as u64 / interval_ns.max(1);
        while index >> self.doublings >= BINS_MAX as u64 {
            self.double();
        }
        let index = (index >> self.doublings) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::default());
        }
        self.bins[index].merge(Bin {
            count: 1,
            sum: value,
            greatest: value,
        });
    }

    fn double(&mut self) {
        self.doublings += 1;
        let merged = self.bins.chunks(2).map(|pair| {
            let mut bin = pair[0];
            pair.iter().skip(1).for_each(|other| bin.merge(*other));
            bin
        });
        self.bins = merged.collect();
    }

    /// Takes in all that another has.
    pub(super) fn merge(&mut self, mut other: Self) {
        while self.doublings < other.doublings {
            self.double();
        }
        while other.doublings < self.doublings {
            other.double();
        }
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), Bin::default());
        }
        for (bin, other) in self.bins.iter_mut().zip(other.bins) {
            bin.merge(other);
        }
    }

    /// Length of an interval in s.
    pub(super) fn width_s(&self, interval_ns: u64) -> f64 {
        interval_ns as f64 * 2_f64.powi(self.doublings as i32) / 1e9
    }

    /// Octets as a rate in bit/s over time.
    pub(super) fn rate(&self, interval_ns: u64) -> Vec<(f64, f64)> {
        let bit_s = 8.0 / self.width_s(interval_ns);
        let bins = self.bins(interval_ns);
        bins.map(|(at, bin)| (at, bin.sum as f64 * bit_s)).collect()
    }

    /// The intervals in order of time, each with its beginning in s.
    pub(super) fn bins(&self, interval_ns: u64) -> impl Iterator<Item = (f64, Bin)> {
        let width_s = self.width_s(interval_ns);
        let bins = self.bins.iter().enumerate();
        bins.map(move |(index, bin)| (index as f64 * width_s, *bin))
    }
}

/// The greatest sum of an interval, exact however long the whole is. Values come in order of time;
/// a late one counts for the present interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    index: u64,
    sum: u64,
    greatest: u64,
}

impl Peak {
    /// Takes in a value at a time since the beginning.
    #[inline]
    pub(super) fn record(&mut self, since_ns: i64, interval_ns: u64, value: u64) {
        let index = since_ns.max(0) as u64 / interval_ns.max(1);
        if index > self.index {
            self.index = index;
            self.sum = 0;
        }
        self.sum += value;
        self.greatest = self.greatest.max(self.sum);
    }

    pub(super) const fn greatest(&self) -> u64 {
        self.greatest
    }

    /// Of two that shared their time, the greater one: at least so much was there.
    pub(super) fn merge(&mut self, other: Self) {
        self.greatest = self.greatest.max(other.greatest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_when_there_are_too_many() {
        let mut line = Timeline::default();
        line.record(0, 10, 3);
        line.record(10, 10, 5);
        line.record(5119, 10, 7);
        assert_eq!(line.bins(10).count(), 512);
        line.record(5120, 10, 9);
        assert_eq!(line.width_s(10), 20e-9);
        let bins: Vec<_> = line.bins(10).filter(|(_, bin)| bin.count > 0).collect();
        let bin = |count, sum, greatest| Bin {
            count,
            sum,
            greatest,
        };
        let expected = [
            (0.0, bin(2, 8, 5)),
            (5100e-9, bin(1, 7, 7)),
            (5120e-9, bin(1, 9, 9)),
        ];
        for ((at, found), (expected_at, expected)) in bins.iter().zip(expected) {
            assert!((at - expected_at).abs() < 1e-12);
            assert_eq!(*found, expected);
        }
        let mut other = Timeline::default();
        other.record(30, 10, -4);
        other.merge(line);
        let second = other.bins(10).nth(1);
        assert_eq!(second.map(|(_, bin)| bin), Some(bin(1, -4, -4)));
        other.record(i64::MAX, 10, 1);
        assert!(other.bins(10).count() <= BINS_MAX);
    }

    #[test]
    fn a_peak_is_of_one_interval() {
        let mut peak = Peak::default();
        for (at, value) in [(0, 5), (9, 5), (10, 9), (20, 4), (19, 7), (30, 1)] {
            peak.record(at, 10, value);
        }
        // 19 came late and counts for the interval from 20 on.
        assert_eq!(peak.greatest(), 11);
    }
}
