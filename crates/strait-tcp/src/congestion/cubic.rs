//! CUBIC (RFC 9438) as Linux does it, with HyStart.
//!
//! In whole segments and with the same roundings as the kernel's where they show: the window is
//! updated at most once in 31 ms unless it changed, growth is at most one segment for two
//! acknowledged, the factor after a loss is 717/1024.

use strait_core::Instant;
use strait_core::time::Duration;

use super::{Ack, Window};

/// RFC 9438 section 5: C, in segments a second cubed.
const C: f64 = 0.4;
/// RFC 9438 section 4.6 says 0.7.
const BETA: (u64, u64) = (717, 1024);
const UPDATE_EVERY: Duration = Duration::from_millis(31);

#[derive(Debug)]
pub(crate) struct Cubic {
    /// The window before the last reduction, 0 after a timeout.
    last_max: u32,
    last_window: u32,
    last_update: Option<Instant>,
    epoch: Option<Instant>,
    /// Where the plateau of the curve is and how long after the epoch, in seconds.
    origin: u32,
    k_s: f64,
    least_rtt: Option<Duration>,
    /// Acknowledged segments for each segment of growth.
    every: u32,
    /// The window that NewReno would have, and what was acknowledged towards its growth.
    reno: u32,
    reno_acked: u32,
    hystart: Option<HyStart>,
}

impl Cubic {
    pub(super) fn new(hystart: bool) -> Self {
        Self {
            last_max: 0,
            last_window: 0,
            last_update: None,
            epoch: None,
            origin: 0,
            k_s: 0.0,
            least_rtt: None,
            every: 1,
            reno: 0,
            reno_acked: 0,
            hystart: hystart.then(HyStart::default),
        }
    }

    pub(super) fn reset(&mut self) {
        let hystart = self.hystart.is_some();
        // What was learned of the round trip goes too.
        *self = Self::new(hystart);
    }

    /// RFC 9438 sections 4.6 and 4.7 (fast convergence).
    pub(super) fn threshold(&mut self, window: &Window) -> u32 {
        let cwnd = u64::from(window.segments);
        self.epoch = None;
        self.last_max = if window.segments < self.last_max {
            (cwnd * (BETA.1 + BETA.0) / (2 * BETA.1)) as u32
        } else {
            window.segments
        };
        ((cwnd * BETA.0 / BETA.1) as u32).max(2)
    }

    pub(super) fn measure(&mut self, ack: &Ack, window: &mut Window) {
        let Some(rtt_ns) = ack.sample.rtt_ns else {
            return;
        };
        // Round trips right after a recovery say little.
        if self
            .epoch
            .is_some_and(|epoch| ack.now.since(epoch) < Duration::from_secs(1))
        {
            return;
        }
        let rtt = Duration::from_nanos(rtt_ns.max(1));
        let least = self.least_rtt.map_or(rtt, |least| least.min(rtt));
        self.least_rtt = Some(least);
        if let Some(hystart) = &mut self.hystart
            && window.in_slow_start()
            && hystart.ends(ack, rtt, least, window.segments)
        {
            window.threshold = window.segments;
        }
    }

    pub(super) fn grow(&mut self, ack: &Ack, acked: u32, window: &mut Window) {
        let left = if window.in_slow_start() {
            window.slow_start(acked)
        } else {
            acked
        };
        if left > 0 {
            self.update(ack.now, window.segments, left);
            window.avoid(self.every, left);
        }
    }

    fn update(&mut self, now: Instant, cwnd: u32, acked: u32) {
        self.reno_acked += acked;
        let recent = self
            .last_update
            .is_some_and(|at| now.since(at) <= UPDATE_EVERY);
        if self.last_window == cwnd && recent {
            return;
        }
        if self.epoch.is_none() || self.last_update != Some(now) {
            self.last_window = cwnd;
            self.last_update = Some(now);
            self.every = self.cubic_every(now, cwnd, acked);
        }
        self.be_friendly(cwnd);
        self.every = self.every.max(2);
    }

    /// RFC 9438 section 4.2: acknowledged segments for one of growth, so that a round trip later
    /// the window is on the curve.
    fn cubic_every(&mut self, now: Instant, cwnd: u32, acked: u32) -> u32 {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.reno_acked = acked;
                self.reno = cwnd;
                (self.k_s, self.origin) = if self.last_max <= cwnd {
                    (0.0, cwnd)
                } else {
                    (
                        libm::cbrt(f64::from(self.last_max - cwnd) / C),
                        self.last_max,
                    )
                };
                *self.epoch.insert(now)
            }
        };
        let at = now + self.least_rtt.unwrap_or_default();
        let t_s = at.since(epoch).as_secs_f64() - self.k_s;
        let target = f64::from(self.origin) + C * t_s * t_s * t_s;
        let ahead = target - f64::from(cwnd);
        let every = if ahead >= 1.0 {
            (f64::from(cwnd) / libm::floor(ahead)) as u32
        } else {
            cwnd.saturating_mul(100)
        };
        // Before the first loss: at least 5 % a round trip.
        if self.last_max == 0 {
            every.min(20)
        } else {
            every
        }
    }

    /// RFC 9438 section 4.3: no slower than NewReno.
    fn be_friendly(&mut self, cwnd: u32) {
        let scale = 8 * (BETA.1 + BETA.0) / 3 / (BETA.1 - BETA.0);
        let each = ((u64::from(cwnd) * scale) >> 3).max(1) as u32;
        self.reno += self.reno_acked / each;
        self.reno_acked %= each;
        if self.reno > cwnd {
            self.every = self.every.min(cwnd / (self.reno - cwnd));
        }
    }

    /// Idle time isn't time on the curve.
    pub(super) fn resumed(&mut self, now: Instant, last: Instant) {
        if let Some(epoch) = self.epoch {
            self.epoch = Some((epoch + now.since(last)).min(now));
        }
    }
}

/// HyStart: leaves slow start when a round's acknowledgements come in one train as long as half
/// the path, or when the least round trip of a round is an eighth longer than the least of all.
#[derive(Debug, Default)]
struct HyStart {
    found: bool,
    round_start: Option<Instant>,
    round_end: u64,
    last_ack: Instant,
    least_of_round: Option<Duration>,
    samples: u32,
}

impl HyStart {
    const WINDOW_MIN: u32 = 16;
    const SAMPLES: u32 = 8;
    const TRAIN_GAP: Duration = Duration::from_millis(2);
    const ACK_DELAY: Duration = Duration::from_millis(1);
    const RISE: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));

    fn ends(&mut self, ack: &Ack, rtt: Duration, least: Duration, window: u32) -> bool {
        if self.found {
            return false;
        }
        let begins = self.round_start.is_none() || ack.una > self.round_end;
        if begins {
            self.round_start = Some(ack.now);
            self.round_end = ack.next;
            self.last_ack = ack.now;
            self.least_of_round = None;
            self.samples = 0;
        }
        if window < Self::WINDOW_MIN {
            return false;
        }
        if ack.now.since(self.last_ack) <= Self::TRAIN_GAP {
            self.last_ack = ack.now;
            let length = ack.now.since(self.round_start.unwrap_or(ack.now));
            self.found |= length > (least + Self::ACK_DELAY) / 2;
        }
        let of_round = self.least_of_round.map_or(rtt, |round| round.min(rtt));
        self.least_of_round = Some(of_round);
        if self.samples < Self::SAMPLES {
            self.samples += 1;
        } else {
            self.found |= of_round > least + (least / 8).clamp(Self::RISE.0, Self::RISE.1);
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_loss_it_returns_to_the_old_window_at_k() {
        let mut cubic = Cubic::new(false);
        let mut window = Window::new(100);
        window.threshold = cubic.threshold(&window);
        assert_eq!(window.threshold, 70);
        window.segments = 70;
        // K = cbrt(30 / 0.4) = 4.22 s at a round trip of 100 ms: 42 rounds.
        cubic.least_rtt = Some(Duration::from_millis(100));
        let mut at_k = 0;
        for round in 0..60 {
            let now = Instant::from_millis(round * 100);
            for _ in 0..window.segments {
                cubic.update(now, window.segments, 1);
                window.avoid(cubic.every, 1);
            }
            if round == 42 {
                at_k = window.segments;
            }
        }
        assert!((97..=103).contains(&at_k), "{at_k}");
        assert!(
            (101..=108).contains(&window.segments),
            "{}",
            window.segments
        );
        let high = window.segments;
        cubic.threshold(&window);
        assert_eq!(cubic.last_max, high);
        window.segments = 80;
        assert_eq!(cubic.threshold(&window), 56);
        assert_eq!(cubic.last_max, 68, "fast convergence");
    }
}
