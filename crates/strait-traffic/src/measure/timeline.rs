//! Progress of a transfer in intervals.

use serde::{Deserialize, Serialize};

/// What happened in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Octets.
    pub octets: u32,
    /// When the last of them came, in microseconds from the interval's beginning, rounded down.
    pub last_us: u32,
}

/// Octets by interval, from the first one on. If there are too many intervals, two at a time
/// become one, so that a transfer of any length fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeline {
    /// When the first interval begins: with the first octets.
    pub origin_ns: u64,
    /// Length of an interval, not 0.
    pub interval_ns: u64,
    /// The intervals in order, up to the last one with octets.
    pub bins: Vec<Bin>,
}

/// A step in a transfer's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// When, in nanoseconds of the timeline's clock.
    pub(super) at_ns: u64,
    /// Octets until then.
    pub(super) octets: u64,
}

impl Timeline {
    /// Intervals of a timeline: more than an hour of seconds, and a report of 32 kB.
    pub const BINS_MAX: usize = 4096;

    /// An empty one.
    pub const fn new(interval_ms: u32) -> Self {
        Self {
            origin_ns: 0,
            interval_ns: if interval_ms == 0 {
                1
            } else {
                interval_ms as u64
            } * 1_000_000,
            bins: Vec::new(),
        }
    }

    /// Notes octets at a time that isn't before the last one.
    pub(super) fn add(&mut self, now_ns: u64, octets: u32) {
        if self.bins.is_empty() {
            self.origin_ns = now_ns;
        }
        let since_ns = now_ns.saturating_sub(self.origin_ns);
        while since_ns / self.interval_ns >= Self::BINS_MAX as u64 {
            self.halve();
        }
        let index = (since_ns / self.interval_ns) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::default());
        }
        let bin = &mut self.bins[index];
        bin.octets = bin.octets.saturating_add(octets);
        let last_us = since_ns % self.interval_ns / 1000;
        bin.last_us = u32::try_from(last_us).unwrap_or(u32::MAX);
    }

    fn halve(&mut self) {
        let interval_us = self.interval_ns / 1000;
        let both = self.bins.chunks(2).map(|pair| {
            let late = pair.get(1).filter(|late| late.octets > 0);
            let last_us = late.map_or_else(
                || u64::from(pair[0].last_us),
                |late| interval_us + u64::from(late.last_us),
            );
            Bin {
                octets: pair
                    .iter()
                    .fold(0, |sum, bin| sum.saturating_add(bin.octets)),
                last_us: u32::try_from(last_us).unwrap_or(u32::MAX),
            }
        });
        self.bins = both.collect();
        self.interval_ns = self.interval_ns.saturating_mul(2);
    }

    /// Each interval, also those without octets: its last octet's time, or its end without one.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step> {
        let mut octets = 0;
        (0u64..).zip(&self.bins).map(move |(index, bin)| {
            octets += u64::from(bin.octets);
            let begin_ns = index.saturating_mul(self.interval_ns);
            let within_ns = match bin.octets {
                0 => self.interval_ns,
                _ => u64::from(bin.last_us) * 1000,
            };
            let at_ns = self.origin_ns.saturating_add(begin_ns);
            Step {
                at_ns: at_ns.saturating_add(within_ns),
                octets,
            }
        })
    }

    /// By when so many octets had passed, as far as the intervals can tell.
    pub(super) fn reached_ns(&self, octets: u64) -> Option<u64> {
        let mut steps = self.steps();
        steps.find(|step| step.octets >= octets).map(|it| it.at_ns)
    }

    /// The same on another clock, or from another moment on.
    pub(super) fn shifted(mut self, shift: impl Fn(u64) -> u64) -> Self {
        self.origin_ns = shift(self.origin_ns);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn bin(octets: u32, last_us: u32) -> Bin {
        Bin { octets, last_us }
    }

    #[test]
    fn octets_fall_into_the_interval_of_their_time() {
        let mut line = Timeline::new(10);
        line.add(5 * MS, 1);
        line.add(15 * MS - 1, 2);
        line.add(15 * MS, 4);
        line.add(36 * MS, 8);
        assert_eq!(line.origin_ns, 5 * MS);
        let bins = [bin(3, 9_999), bin(4, 0), bin(0, 0), bin(8, 1_000)];
        assert_eq!(line.bins, bins);
        let steps: Vec<_> = line.steps().map(|it| (it.at_ns, it.octets)).collect();
        let ends = [
            (15 * MS - 1_000, 3),
            (15 * MS, 7),
            (35 * MS, 7),
            (36 * MS, 15),
        ];
        assert_eq!(steps, ends);
        assert_eq!(line.reached_ns(7), Some(15 * MS));
        assert_eq!(line.reached_ns(8), Some(36 * MS));
        assert_eq!(line.reached_ns(16), None);
    }

    #[test]
    fn a_long_transfer_has_longer_intervals() {
        let mut line = Timeline::new(1);
        line.add(0, 1);
        line.add(MS, 2);
        line.add(4096 * MS - 1, 4);
        assert_eq!((line.bins.len(), line.interval_ns), (4096, MS));
        line.add(4096 * MS, 8);
        assert_eq!((line.bins.len(), line.interval_ns), (2049, 2 * MS));
        assert_eq!(line.bins[0], bin(3, 1_000));
        assert_eq!(line.bins[2047], bin(4, 1_999));
        assert_eq!(line.bins[2048], bin(8, 0));
        line.add(u64::MAX, 16);
        assert!(line.bins.len() <= Timeline::BINS_MAX);
        assert_eq!(line.steps().last().map(|it| it.octets), Some(31));
    }

    proptest::proptest! {
        #[test]
        fn no_octet_is_lost_and_time_goes_on(
            steps in proptest::collection::vec((0u64..1 << 36, 0u32..1 << 16), 1..200),
        ) {
            let mut line = Timeline::new(1);
            let (mut now_ns, mut sum) = (0, 0);
            for (gap_ns, octets) in steps {
                now_ns += gap_ns;
                sum += u64::from(octets);
                line.add(now_ns, octets);
            }
            let steps: Vec<_> = line.steps().collect();
            assert!(steps.len() <= Timeline::BINS_MAX);
            assert!(steps.windows(2).all(|it| it[0].at_ns <= it[1].at_ns));
            assert_eq!(steps.last().map(|it| it.octets), Some(sum));
        }
    }
}
