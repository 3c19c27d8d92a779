//! Weighted random early detection: drops begin before the queue is full, by code point.
//!
//! The average and its decay are Floyd and Jacobson's («Random Early Detection Gateways for
//! Congestion Avoidance», 1993); thresholds by code point are IOS's (`random-detect dscp-based`).

use alloc::vec::Vec;

use strait_core::chance::Stream;
use strait_core::rate::LineRate;
use strait_core::time::nanos;
use strait_core::{Instant, Packet};

use super::config::{ProfileConfig, WredConfig};
use crate::dscp::Dscp;

/// Decides at arrival.
#[derive(Debug)]
pub(super) struct Wred {
    weight: f64,
    spread: bool,
    ecn: bool,
    typical_octets: u64,
    /// By code point.
    profiles: Vec<Profile>,
    average: f64,
    /// Since when nothing waits.
    idle_since: Option<Instant>,
    rate: Option<LineRate>,
    chance: Stream,
}

#[derive(Clone, Copy, Debug)]
struct Profile {
    limits: ProfileConfig,
    /// Packets accepted since the last early drop while drops were possible.
    count: u32,
}

impl Wred {
    pub(super) fn new(config: &WredConfig, seed: u64) -> Self {
        let profile = |dscp| Profile {
            limits: config.profile_of(dscp),
            count: 0,
        };
        Self {
            weight: libm::exp2(-f64::from(config.exponent)),
            spread: config.spread,
            ecn: config.ecn,
            typical_octets: config.typical_packet.0,
            profiles: (0..64).filter_map(Dscp::new).map(profile).collect(),
            average: 0.0,
            idle_since: Some(Instant::ZERO),
            rate: None,
            chance: Stream::new(seed, "wred"),
        }
    }

    pub(super) const fn set_line_rate(&mut self, rate: LineRate) {
        self.rate = Some(rate);
    }

    /// Nothing waits any more.
    pub(super) const fn rest(&mut self, now: Instant) {
        self.idle_since = Some(now);
    }

    /// Whether a packet that finds so many waiting may join them; it may have been marked instead
    /// of refused.
    pub(super) fn admits(&mut self, now: Instant, waiting: u32, packet: &mut Packet) -> bool {
        self.average_in(now, waiting);
        match self.judge(packet.info().dscp) {
            Judgement::Accept => true,
            Judgement::Early => self.ecn && packet.mark_congestion(),
            Judgement::Full => false,
        }
    }

    fn average_in(&mut self, now: Instant, waiting: u32) {
        if waiting > 0 {
            self.idle_since = None;
            self.average += self.weight * (f64::from(waiting) - self.average);
        } else if let (Some(since), Some(rate)) = (self.idle_since.replace(now), self.rate) {
            let packet_ns = nanos(rate.time_for(self.typical_octets)).max(1);
            let packets = nanos(now.since(since)) as f64 / packet_ns as f64;
            self.average *= libm::pow(1.0 - self.weight, packets);
        }
    }

    fn judge(&mut self, dscp: u8) -> Judgement {
        let (average, spread) = (self.average, self.spread);
        let Some(profile) = self.profiles.get_mut(usize::from(dscp)) else {
            return Judgement::Accept;
        };
        let (min, max) = (f64::from(profile.limits.min), f64::from(profile.limits.max));
        if average < min {
            profile.count = 0;
            return Judgement::Accept;
        }
        if average >= max {
            profile.count = 0;
            return Judgement::Full;
        }
        let base = (average - min) / (max - min) / f64::from(profile.limits.denominator);
        let share = if spread {
            // At the end of the gap the next is certain.
            base / (1.0 - f64::from(profile.count) * base).max(base)
        } else {
            base
        };
        if self.chance.unit() < share {
            profile.count = 0;
            Judgement::Early
        } else {
            profile.count = profile.count.saturating_add(1);
            Judgement::Accept
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Accept,
    /// By chance, between the thresholds.
    Early,
    /// The average is above the upper threshold.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::Duration;

    fn wred(text: &str) -> Wred {
        Wred::new(&toml::from_str(text).unwrap(), 1)
    }

    const T: Instant = Instant::from_secs(100);

    #[test]
    fn the_average_moves_by_its_weight_and_decays_while_idle() {
        let mut wred = wred("exponent = 2\ntypical_packet = \"120 B\"");
        wred.set_line_rate(LineRate::new(9600, 8));
        wred.average_in(T, 8);
        assert_eq!(wred.average, 2.0);
        wred.average_in(T, 8);
        assert_eq!(wred.average, 3.5);
        // Idle for two packets of 120 octets, 100 ms each: (3/4)² of it is left.
        wred.rest(T);
        wred.average_in(T + Duration::from_millis(200), 0);
        assert_eq!(wred.average, 3.5 * 0.5625);
        // Asked again at the same moment it decays no further.
        wred.average_in(T + Duration::from_millis(200), 0);
        assert_eq!(wred.average, 3.5 * 0.5625);
    }

    #[test]
    fn thresholds_are_exact() {
        let mut wred = wred("profile = { CS1 = { min = 30, max = 40, denominator = 1 } }");
        let mut judge = |average, dscp| {
            wred.average = average;
            wred.judge(dscp)
        };
        assert_eq!(judge(29.999, 8), Judgement::Accept);
        assert_eq!(
            judge(30.0, 8),
            Judgement::Accept,
            "drops begin with share 0"
        );
        assert_eq!(judge(40.0, 8), Judgement::Full);
        assert_eq!(judge(35.999, 46), Judgement::Accept, "EF begins at 36");
        assert_eq!(judge(40.0, 46), Judgement::Full);
        assert_eq!(judge(19.999, 5), Judgement::Accept, "others as best effort");
    }

    /// Gaps between early drops, in packets, at an average that drops one in ten.
    fn gaps(spread: bool) -> Vec<u32> {
        let mut wred = wred(&alloc::format!(
            "spread = {spread}\nprofile = {{ CS1 = {{ min = 10, max = 20, denominator = 5 }} }}"
        ));
        wred.average = 15.0;
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..100_000 {
            gap += 1;
            if wred.judge(8) == Judgement::Early {
                gaps.push(gap);
                gap = 0;
            }
        }
        gaps
    }

    #[test]
    fn spread_gaps_are_uniform_up_to_twice_the_mean_and_others_geometric() {
        let mean = |gaps: &[u32]| 100_000.0 / gaps.len() as f64;
        let even = gaps(true);
        // Uniform on 1 … 10 has mean 5.5: spreading makes drops almost twice as frequent.
        assert!((mean(&even) - 5.5).abs() < 0.1, "{}", mean(&even));
        assert!(even.iter().all(|gap| (1..=10).contains(gap)));
        let free = gaps(false);
        assert!((mean(&free) - 10.0).abs() < 0.3, "{}", mean(&free));
        assert!(free.iter().any(|gap| *gap > 30));
    }
}
