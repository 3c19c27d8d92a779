//! What a flow's sender reckons with: its timeout, its window and its rate.

use strait_core::time::nanos;
use strait_core::{Duration, Instant};

use super::{Pacing, Settings};

/// The timeout by the paper's rule: `RTO = m (srtt + n rttvar)` with m = 2, n = 10, and both means
/// moved by a third of each measure (g = h = 1/3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timeout {
    fixed: Option<Duration>,
    /// Smoothed round trip and its variation, in nanoseconds.
    smoothed: Option<(u64, u64)>,
}

impl Timeout {
    /// Before anything is measured, as RFC 6298 section 2.1 has it.
    const UNKNOWN: Duration = Duration::from_secs(1);
    /// The shortest by measures: a clock or a driver adds that.
    const MIN: Duration = Duration::from_millis(10);
    /// The longest: RFC 6298 section 2.5 allows 60 s.
    const MAX: Duration = Duration::from_secs(60);
    const M: u64 = 2;
    const N: u64 = 10;

    pub(super) const fn new(fixed: Option<Duration>) -> Self {
        Self {
            fixed,
            smoothed: None,
        }
    }

    /// Takes a measured round trip in. The first one stands for itself, with half of it as its
    /// variation (RFC 6298 section 2.2). The paper moves the mean first.
    pub(super) fn measure(&mut self, took: Duration) {
        let took_ns = nanos(took);
        self.smoothed = Some(match self.smoothed {
            None => (took_ns, took_ns / 2),
            Some((mean_ns, variation_ns)) => {
                let mean_ns = mean_ns - mean_ns / 3 + took_ns / 3;
                let away_ns = mean_ns.abs_diff(took_ns);
                (mean_ns, variation_ns - variation_ns / 3 + away_ns / 3)
            }
        });
    }

    /// The smoothed round trip.
    pub(super) fn mean(&self) -> Duration {
        self.smoothed
            .map_or(Self::UNKNOWN, |(mean_ns, _)| Duration::from_nanos(mean_ns))
    }

    /// How long after a transmission the next one goes.
    pub(super) fn after(&self) -> Duration {
        let adaptive = || {
            let measured = |(mean_ns, variation_ns): (u64, u64)| {
                let sum_ns = mean_ns.saturating_add(variation_ns.saturating_mul(Self::N));
                Duration::from_nanos(sum_ns.saturating_mul(Self::M))
            };
            self.smoothed.map_or(Self::UNKNOWN, measured).max(Self::MIN)
        };
        self.fixed.unwrap_or_else(adaptive).min(Self::MAX)
    }
}

/// How many packets may be unacknowledged: fixed, or one more after each round trip in which
/// nothing had to be repeated, and half after one in which something had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    least: u16,
    most: u16,
    now: u16,
    /// When it changed last.
    changed: Instant,
    /// Something was repeated since.
    repeated: bool,
}

impl Window {
    pub(super) fn new(settings: &Settings) -> Self {
        let least = settings.window.clamp(1, Settings::WINDOW_MAX);
        Self {
            least,
            most: settings.window_max.clamp(least, Settings::WINDOW_MAX),
            now: least,
            changed: Instant::ZERO,
            repeated: false,
        }
    }

    pub(super) const fn packets(&self) -> u16 {
        self.now
    }

    pub(super) const fn note_repeat(&mut self) {
        self.repeated = true;
    }

    /// An acknowledgement came.
    pub(super) fn note_ack(&mut self, now: Instant, trip: Duration) {
        if now.since(self.changed) < trip {
            return;
        }
        self.now = if core::mem::take(&mut self.repeated) {
            (self.now / 2).max(self.least)
        } else {
            (self.now + 1).min(self.most)
        };
        self.changed = now;
    }
}

/// The rate λ of a flow: none until the first sign of congestion, then what the flow had at that
/// moment, and moved by p and q.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    rate_bit_s: Option<u64>,
    raised: Instant,
    /// Nothing goes before.
    next: Instant,
    /// The flow's own rate: a moving average, and what it is made of.
    average_bit_s: Option<u64>,
    counted_from: Instant,
    counted_octets: u64,
}

impl Pace {
    /// What the average is made of: as long as several frames take on a narrow link.
    const COUNT: Duration = Duration::from_millis(500);

    /// Whether a packet may go.
    pub(super) fn allows(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// When one may go.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// A packet goes.
    pub(super) fn note(&mut self, starts: Instant, octets: usize) {
        let gone = starts.since(self.counted_from);
        if gone >= Self::COUNT {
            let now_bit_s = Self::rate(self.counted_octets, gone);
            self.average_bit_s = Some(match self.average_bit_s {
                Some(before) => before.midpoint(now_bit_s),
                None => now_bit_s,
            });
            (self.counted_from, self.counted_octets) = (starts, 0);
        }
        self.counted_octets += octets as u64;
        if let Some(rate_bit_s) = self.rate_bit_s {
            let bits = octets as u64 * 8;
            let ns = bits.saturating_mul(1_000_000_000) / rate_bit_s.max(1);
            self.next = self.next.max(starts) + Duration::from_nanos(ns);
        }
    }

    fn rate(octets: u64, over: Duration) -> u64 {
        let ns = nanos(over).max(1_000_000);
        octets.saturating_mul(8_000_000_000) / ns
    }

    /// A round trip has passed since it grew last: it grows.
    pub(super) fn grow(&mut self, now: Instant, trip: Duration, pacing: Pacing) {
        if let Some(rate_bit_s) = &mut self.rate_bit_s
            && now.since(self.raised) >= trip
        {
            *rate_bit_s = rate_bit_s.saturating_add(pacing.increase_bit_s);
            self.raised = now;
        }
    }

    /// Packets come in faster than they go out at the other end. No rate is less than one step.
    pub(super) fn slow(&mut self, now: Instant, pacing: Pacing) {
        let before = self.rate_bit_s.unwrap_or_else(|| {
            self.raised = now;
            let counted = Self::rate(self.counted_octets, now.since(self.counted_from));
            self.average_bit_s.unwrap_or(counted)
        });
        let less = before / 1000 * u64::from(pacing.decrease_permille);
        self.rate_bit_s = Some(less.max(pacing.increase_bit_s).max(1));
    }

    #[cfg(test)]
    pub(super) const fn rate_bit_s(&self) -> Option<u64> {
        self.rate_bit_s
    }
}
