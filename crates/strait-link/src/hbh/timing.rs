//! How long a round trip takes, how much is lost, and how long an acknowledgement may wait.

use strait_core::time::nanos;
use strait_core::{Duration, Instant};

/// A smoothed round trip and its variation, as RFC 6298 section 2 has them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    smoothed: Option<Smoothed>,
}

#[derive(Clone, Copy, Debug)]
struct Smoothed {
    mean_ns: u64,
    variation_ns: u64,
}

impl RoundTrip {
    /// Until something is measured. With what the other end usually holds an acknowledgement back,
    /// a second, as in RFC 6298 section 2.
    const UNKNOWN: Duration = Duration::from_millis(650);
    /// What clocks and drivers add.
    const MARGIN: Duration = Duration::from_millis(10);

    /// Takes a measurement in.
    pub(crate) fn measure(&mut self, took: Duration) {
        let took_ns = nanos(took);
        self.smoothed = Some(match self.smoothed {
            None => Smoothed {
                mean_ns: took_ns,
                variation_ns: took_ns / 2,
            },
            Some(before) => Smoothed {
                mean_ns: before.mean_ns - before.mean_ns / 8 + took_ns / 8,
                variation_ns: before.variation_ns - before.variation_ns / 4
                    + before.mean_ns.abs_diff(took_ns) / 4,
            },
        });
    }

    /// Takes in an acknowledgement that was held back, for `held` as far as this end knows. What it
    /// took beside is a round trip at least if it is longer than others: the other end's line was
    /// busy, or what took the acknowledgement along was long.
    pub(crate) fn measure_held(&mut self, took: Duration, held: Duration) {
        let rest = took.saturating_sub(held);
        if rest > self.mean().unwrap_or(Self::UNKNOWN) {
            self.measure(rest);
        }
    }

    /// The smoothed round trip, if one was measured.
    pub(crate) fn mean(&self) -> Option<Duration> {
        self.smoothed
            .map(|smoothed| Duration::from_nanos(smoothed.mean_ns))
    }

    /// How long after a transmission its acknowledgement is overdue, if the other end may hold it
    /// back for `held`.
    pub(crate) fn overdue(&self, held: Duration) -> Duration {
        let most = self.smoothed.map_or(Self::UNKNOWN, |smoothed| {
            let ns = smoothed.variation_ns.saturating_mul(4);
            Duration::from_nanos(ns.saturating_add(smoothed.mean_ns)) + Self::MARGIN
        });
        most + held
    }
}

/// How far apart the packets of a burst are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spacing {
    last: Option<Instant>,
    mean_ns: u64,
}

impl Spacing {
    /// A longer pause ends a burst.
    const PAUSE: Duration = Duration::from_millis(300);

    /// Takes in a packet.
    pub(crate) fn note(&mut self, at: Instant) {
        let last = self.last.replace(at);
        let gap = last.map(|last| at.since(last));
        if let Some(gap) = gap.filter(|gap| *gap <= Self::PAUSE) {
            self.mean_ns = self.mean_ns - self.mean_ns / 8 + nanos(gap) / 8;
        }
    }

    /// Their mean distance.
    pub(crate) const fn mean(self) -> Duration {
        Duration::from_nanos(self.mean_ns)
    }
}

/// The share of frames lost lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossShare {
    ppm: u32,
}

impl Default for LossShare {
    /// Before anything is known: a link that needs repair now and then.
    fn default() -> Self {
        Self { ppm: 15_000 }
    }
}

impl LossShare {
    const ALL_PPM: u32 = 1_000_000;
    /// Frames over which the mean runs, about.
    const FRAMES: u32 = 64;
    const COPIES_MAX: u8 = 2;

    /// Takes in a frame that came, or didn't.
    pub(crate) const fn count(&mut self, lost: bool) {
        self.ppm -= self.ppm / Self::FRAMES;
        if lost {
            self.ppm += Self::ALL_PPM / Self::FRAMES;
        }
    }

    /// The share in millionths.
    pub(crate) const fn ppm(self) -> u32 {
        self.ppm
    }

    /// How long after the last packet an acknowledgement goes alone, `longest` at most.
    ///
    /// While it waits, the sender can't learn of a loss behind which nothing else comes. So what
    /// waiting saves and what it costs stand in the proportion of losses: up to 1.5 % it waits as
    /// long as it may, at twice that a quarter as long; but long enough for the next packet of a
    /// flow under way to come.
    pub(crate) fn silence(
        self,
        longest: Duration,
        trip: Option<Duration>,
        spacing: Spacing,
    ) -> Duration {
        const FREE_PPM: u64 = 15_000;
        let ppm = u64::from(self.ppm).max(FREE_PPM);
        let scaled = nanos(longest).saturating_mul(FREE_PPM) / ppm * FREE_PPM / ppm;
        let least = trip.map_or(Duration::ZERO, |trip| trip / 4);
        let next = spacing.mean() * 3 / 2;
        Duration::from_nanos(scaled)
            .max(least)
            .max(next)
            .min(longest)
    }

    /// Copies that may follow what is sent again, so that hardly any of it is lost again: each time
    /// costs a round trip, and what waits for its order waits as well.
    pub(crate) const fn copies(self) -> u8 {
        const LEFT_PPM: u64 = 62_500;
        let loss = self.ppm as u64;
        let mut left = loss;
        let mut copies = 0;
        while left > LEFT_PPM && copies < Self::COPIES_MAX {
            left = left * loss / Self::ALL_PPM as u64;
            copies += 1;
        }
        copies
    }

    /// How often a packet has to be sent again at most, so that no more than `left_ppm` of all
    /// never come.
    pub(crate) fn retries(self, left_ppm: u32) -> u16 {
        let loss = u64::from(self.ppm.clamp(1, 900_000));
        let mut left = loss;
        let mut retries = 0;
        while left > u64::from(left_ppm.max(1)) && retries < u16::MAX {
            left = left * loss / u64::from(Self::ALL_PPM);
            retries += 1;
        }
        retries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn round_trips_are_smoothed() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.overdue(350 * MS), 1000 * MS);
        trip.measure(100 * MS);
        assert_eq!(trip.mean(), Some(100 * MS));
        assert_eq!(trip.overdue(Duration::ZERO), (100 + 200 + 10) * MS);
        trip.measure(180 * MS);
        assert_eq!(trip.mean(), Some(110 * MS));
        // 50 ms less a quarter, and a quarter of 80 ms.
        let variation = Duration::from_micros(57_500);
        assert_eq!(trip.overdue(40 * MS), 110 * MS + 4 * variation + 50 * MS);
    }

    #[test]
    fn what_was_held_back_measures_only_what_is_longer() {
        let mut trip = RoundTrip::default();
        trip.measure_held(1000 * MS, 350 * MS);
        assert_eq!(trip.mean(), None);
        trip.measure(200 * MS);
        trip.measure_held(550 * MS, 350 * MS);
        assert_eq!(trip.overdue(Duration::ZERO), (200 + 400 + 10) * MS);
        // An eighth of 400 ms; 100 ms less a quarter, and a quarter of 400 ms.
        trip.measure_held(950 * MS, 350 * MS);
        assert_eq!(trip.mean(), Some(250 * MS));
        assert_eq!(trip.overdue(Duration::ZERO), (250 + 4 * 175 + 10) * MS);
    }

    #[test]
    fn the_share_follows_what_is_lost() {
        let mut share = LossShare::default();
        (0..2000).for_each(|_| share.count(false));
        assert!(share.ppm() < 100);
        (0..2000).for_each(|frame| share.count(frame % 10 == 0));
        assert!((60_000..150_000).contains(&share.ppm()), "{}", share.ppm());
    }

    #[test]
    fn copies_leave_a_sixteenth_to_be_lost_again() {
        let copies = |ppm| LossShare { ppm }.copies();
        assert_eq!([copies(0), copies(62_500), copies(62_501)], [0, 0, 1]);
        assert_eq!([copies(250_000), copies(251_000)], [1, 2]);
        assert_eq!(copies(1_000_000), 2);
    }

    #[test]
    fn a_target_becomes_a_number_of_retries() {
        let share = LossShare { ppm: 100_000 };
        for (left_ppm, retries) in [(100_000, 0), (99_999, 1), (10_000, 1), (1_000, 2), (1, 5)] {
            assert_eq!(share.retries(left_ppm), retries, "{left_ppm}");
        }
    }
}
