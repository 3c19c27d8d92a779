//! Round-trip times and the retransmission timeout (RFC 6298).

use strait_core::time::{Duration, Instant, nanos};

use super::profile::{Profile, RtoRule};

/// The estimator. Times are nanoseconds.
#[derive(Debug)]
pub(super) struct Rtt {
    rule: RtoRule,
    floor_ns: u64,
    rto_max_ns: u64,
    rto_initial_ns: u64,
    /// Mean, 0 before the first measurement.
    smoothed_ns: u64,
    deviation_ns: u64,
    /// Largest deviation in this round trip, and what is added to the mean
    /// ([`RtoRule::VariationFloor`]).
    deviation_peak_ns: u64,
    variation_ns: u64,
    /// When this sequence number is acknowledged, a round trip is over.
    round_end: u64,
    /// What a timeout met lies before this.
    timed_out: u64,
    /// The timeout in force, with its doublings.
    rto_ns: u64,
    least: Option<(u64, Instant)>,
}

impl Rtt {
    /// RFC 6298 section 2: G, the granularity of the clock; timestamps count milliseconds.
    const GRANULARITY_NS: u64 = 1_000_000;
    /// The least round trip is one of the last five minutes (`tcp_min_rtt_wlen`).
    const LEAST_LASTS: Duration = Duration::from_secs(300);

    pub(super) const fn new(profile: &Profile) -> Self {
        Self {
            rule: profile.rto.rule,
            floor_ns: nanos(profile.rto.min.0),
            rto_max_ns: nanos(profile.rto.max.0),
            rto_initial_ns: nanos(profile.rto.initial.0),
            smoothed_ns: 0,
            deviation_ns: 0,
            deviation_peak_ns: 0,
            variation_ns: 0,
            round_end: 0,
            timed_out: 0,
            rto_ns: nanos(profile.rto.initial.0),
            least: None,
        }
    }

    /// A measurement; `una` and `next` are the bounds of what is under way.
    pub(super) fn measure(&mut self, now: Instant, rtt: Duration, una: u64, next: u64) {
        let rtt_ns = nanos(rtt).max(1);
        if self
            .least
            .is_none_or(|(least_ns, at)| rtt_ns <= least_ns || now.since(at) > Self::LEAST_LASTS)
        {
            self.least = Some((rtt_ns, now));
        }
        match self.rule {
            RtoRule::Standard => self.measure_standard(rtt_ns),
            RtoRule::VariationFloor => self.measure_linux(rtt_ns, una, next),
        }
        self.reset_backoff();
    }

    /// RFC 6298 section 2.2 and 2.3.
    const fn measure_standard(&mut self, rtt_ns: u64) {
        if self.smoothed_ns == 0 {
            self.smoothed_ns = rtt_ns;
            self.deviation_ns = rtt_ns / 2;
            return;
        }
        let error_ns = self.smoothed_ns.abs_diff(rtt_ns);
        self.deviation_ns = self.deviation_ns - self.deviation_ns / 4 + error_ns / 4;
        self.smoothed_ns = self.smoothed_ns - self.smoothed_ns / 8 + rtt_ns / 8;
    }

    /// The kernel's way: a deviation below the mean counts an eighth, the peak of a round trip
    /// counts at once, and what is added falls by a quarter of the difference each round trip.
    fn measure_linux(&mut self, rtt_ns: u64, una: u64, next: u64) {
        // The deviation is kept fourfold, as it is added.
        if self.smoothed_ns == 0 {
            self.smoothed_ns = rtt_ns;
            self.deviation_ns = rtt_ns * 2;
            self.variation_ns = self.deviation_ns.max(self.floor_ns);
            self.deviation_peak_ns = self.variation_ns;
            self.round_end = next;
            return;
        }
        let error_ns = self.smoothed_ns.abs_diff(rtt_ns);
        let quarter_ns = self.deviation_ns / 4;
        if rtt_ns < self.smoothed_ns {
            self.smoothed_ns -= error_ns / 8;
            if error_ns > quarter_ns {
                self.deviation_ns += (error_ns - quarter_ns) / 8;
            } else {
                self.deviation_ns -= quarter_ns - error_ns;
            }
        } else {
            self.smoothed_ns += error_ns / 8;
            self.deviation_ns = self.deviation_ns + error_ns - quarter_ns;
        }
        if self.deviation_ns > self.deviation_peak_ns {
            self.deviation_peak_ns = self.deviation_ns;
            self.variation_ns = self.variation_ns.max(self.deviation_peak_ns);
        }
        if una > self.round_end {
            if self.deviation_peak_ns < self.variation_ns {
                self.variation_ns -= (self.variation_ns - self.deviation_peak_ns) / 4;
            }
            self.round_end = next;
            self.deviation_peak_ns = self.floor_ns;
        }
    }

    /// The timeout without doublings, or the initial one.
    pub(super) fn reset_backoff(&mut self) {
        let rto_ns = match self.rule {
            _ if self.smoothed_ns == 0 => self.rto_initial_ns,
            RtoRule::Standard => {
                let variation_ns = (4 * self.deviation_ns).max(Self::GRANULARITY_NS);
                (self.smoothed_ns + variation_ns).max(self.floor_ns)
            }
            RtoRule::VariationFloor => self.smoothed_ns + self.variation_ns,
        };
        self.rto_ns = rto_ns.min(self.rto_max_ns);
    }

    /// Doubles the timeout: RFC 6298 section 5.5.
    pub(super) fn back_off(&mut self) {
        self.rto_ns = self.rto_ns.saturating_mul(2).min(self.rto_max_ns);
    }

    /// A timeout met everything before `next`.
    pub(super) const fn forget_before(&mut self, next: u64) {
        self.timed_out = next;
    }

    /// Whether a segment that ends here was sent after the last timeout.
    pub(super) const fn remembers(&self, end: u64) -> bool {
        end > self.timed_out
    }

    pub(super) const fn rto(&self) -> Duration {
        Duration::from_nanos(self.rto_ns)
    }

    /// Mean round trip, 0 before the first measurement.
    pub(super) const fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }

    /// The least round trip.
    pub(super) const fn least_ns(&self) -> Option<u64> {
        match self.least {
            Some((least_ns, _)) => Some(least_ns),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::CongestionKind;

    fn measured(profile: &Profile, samples_ms: &[u64]) -> u64 {
        let mut rtt = Rtt::new(profile);
        for (index, sample) in samples_ms.iter().enumerate() {
            let at = index as u64;
            rtt.measure(
                Instant::from_secs(at),
                Duration::from_millis(*sample),
                at * 10,
                at * 10,
            );
        }
        rtt.rto().as_millis() as u64
    }

    #[test]
    fn the_standard_bounds_the_sum_and_linux_the_variation() {
        let standard = Profile::ns3_2012();
        let linux = Profile::linux(CongestionKind::NewReno);
        assert_eq!(measured(&standard, &[]), 3000);
        assert_eq!(measured(&linux, &[]), 1000);
        // RFC 6298: R + max(G, 4 R/2).
        assert_eq!(measured(&standard, &[100]), 300);
        assert_eq!(measured(&linux, &[100]), 300);
        // After many equal ones the variation is gone, or its floor.
        assert_eq!(measured(&standard, &[50; 200]), 200);
        assert_eq!(measured(&linux, &[50; 200]), 250);
        assert_eq!(measured(&standard, &[400; 200]), 401);
        assert_eq!(measured(&linux, &[100_000]), 120_000);
    }

    #[test]
    fn doublings_end_at_the_most_and_go_with_a_measurement() {
        let mut rtt = Rtt::new(&Profile::linux(CongestionKind::NewReno));
        for expected_s in [2, 4, 8, 16, 32, 64, 120, 120] {
            rtt.back_off();
            assert_eq!(rtt.rto(), Duration::from_secs(expected_s));
        }
        rtt.measure(Instant::ZERO, Duration::from_millis(10), 0, 0);
        assert_eq!(rtt.rto(), Duration::from_millis(210));
    }
}
