//! BBR version 1: a model of the path's rate and round trip instead of losses.
//!
//! What differs from Linux's: it doesn't look for policers (long-term sampling), keeps no
//! allowance for aggregated acknowledgements, spaces every packet instead of bursts of a
//! millisecond, and counts windows without room for offloaded bursts. Its phase in a cycle comes
//! from the endpoint's seed.

use strait_core::Instant;
use strait_core::time::Duration;

use super::{Ack, Window};
use crate::recovery::Phase;

/// 2 / ln 2: doubles the rate each round trip.
const GAIN_HIGH: f64 = 2885.0 / 1000.0;
const GAIN_DRAIN: f64 = 1000.0 / 2885.0;
const GAIN_WINDOW: f64 = 2.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The best rate of so many round trips counts.
const RATE_ROUNDS: u64 = 10;
const MIN_RTT_LASTS: Duration = Duration::from_secs(10);
const PROBE_RTT_LASTS: Duration = Duration::from_millis(200);
const WINDOW_MIN: u32 = 4;
/// The pipe is full when three rounds brought no quarter more.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Pace a little below, so that the queue drains.
const MARGIN: f64 = 0.99;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

#[derive(Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    initial_window: u32,
    /// Best rates in segments a second with their rounds, best first.
    rates: Vec<(u64, f64)>,
    round: u64,
    round_ends: u64,
    round_began: bool,
    least_rtt: Option<Duration>,
    least_rtt_at: Instant,
    full_rate: f64,
    full_rounds: u32,
    full: bool,
    cycle: usize,
    cycle_at: Instant,
    probe_rtt_ends: Option<Instant>,
    probe_rtt_round_over: bool,
    prior_window: u32,
    prior_phase: Phase,
    conserve: bool,
    idle: bool,
    /// Segments a second; `None` before the first round trip.
    pace: Option<f64>,
    random: u64,
}

impl Bbr {
    pub(super) const fn new(initial_window: u32, seed: u64) -> Self {
        Self {
            mode: Mode::Startup,
            initial_window,
            rates: Vec::new(),
            round: 0,
            round_ends: 0,
            round_began: false,
            least_rtt: None,
            least_rtt_at: Instant::ZERO,
            full_rate: 0.0,
            full_rounds: 0,
            full: false,
            cycle: 0,
            cycle_at: Instant::ZERO,
            probe_rtt_ends: None,
            probe_rtt_round_over: false,
            prior_window: 0,
            prior_phase: Phase::Open,
            conserve: false,
            idle: false,
            pace: None,
            random: seed,
        }
    }

    fn rate(&self) -> f64 {
        self.rates.first().map_or(0.0, |(_, rate)| *rate)
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (GAIN_HIGH, GAIN_HIGH),
            Mode::Drain => (GAIN_DRAIN, GAIN_HIGH),
            Mode::ProbeBandwidth => (CYCLE[self.cycle], GAIN_WINDOW),
            Mode::ProbeRtt => (1.0, 1.0),
        }
    }

    /// Segments that fill the path, times `gain`.
    fn in_path(&self, gain: f64) -> u32 {
        match self.least_rtt {
            None => self.initial_window,
            Some(rtt) => libm::ceil(self.rate() * rtt.as_secs_f64() * gain) as u32,
        }
    }

    /// The same with room for what the ends hold back.
    fn target(&self, gain: f64) -> u32 {
        let mut segments = self.in_path(gain) + 3;
        segments += segments & 1;
        if self.mode == Mode::ProbeBandwidth && self.cycle == 0 {
            segments += 2;
        }
        segments
    }

    pub(super) fn acked(&mut self, ack: &Ack, window: &mut Window) {
        self.learn_rate(ack);
        self.turn_cycle(ack);
        self.see_full(ack);
        self.drain(ack, window);
        self.learn_rtt(ack, window);
        let (pacing_gain, window_gain) = self.gains();
        self.set_pace(pacing_gain, ack.smoothed_rtt_ns);
        self.set_window(ack, window_gain, window);
    }

    fn learn_rate(&mut self, ack: &Ack) {
        self.round_began = false;
        let Some((delivered, interval_ns)) = ack.sample.rate else {
            return;
        };
        if ack.sample.prior_delivered >= self.round_ends {
            self.round_ends = ack.delivered;
            self.round += 1;
            self.round_began = true;
            self.conserve = false;
        }
        let rate = delivered as f64 * 1e9 / interval_ns as f64;
        if !ack.sample.app_limited || rate >= self.rate() {
            let (round, oldest) = (self.round, self.round.saturating_sub(RATE_ROUNDS));
            // Only what is newer than everything better can ever become the best.
            self.rates
                .retain(|(at, other)| *at >= oldest && *other > rate);
            self.rates.push((round, rate));
        }
    }

    fn turn_cycle(&mut self, ack: &Ack) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let whole = self
            .least_rtt
            .is_some_and(|rtt| ack.now.since(self.cycle_at) > rtt);
        let gain = CYCLE[self.cycle];
        let in_flight = ack.sample.prior_in_flight;
        let over = if gain > 1.0 {
            whole && (ack.sample.lost > 0 || in_flight >= self.target(gain))
        } else if gain < 1.0 {
            whole || in_flight <= self.target(1.0)
        } else {
            whole
        };
        if over {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_at = ack.now;
        }
    }

    fn see_full(&mut self, ack: &Ack) {
        if self.full || !self.round_began || ack.sample.app_limited {
            return;
        }
        if self.rate() >= self.full_rate * FULL_GROWTH {
            self.full_rate = self.rate();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    fn drain(&mut self, ack: &Ack, window: &mut Window) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            window.threshold = self.target(1.0);
        }
        if self.mode == Mode::Drain && ack.in_flight <= self.target(1.0) {
            self.probe_bandwidth(ack.now);
        }
    }

    fn probe_bandwidth(&mut self, now: Instant) {
        self.mode = Mode::ProbeBandwidth;
        // Any phase but the one that drains what the first would have queued.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.cycle = match (self.random >> 33) as usize % (CYCLE.len() - 1) {
            0 => 0,
            other => other + 1,
        };
        self.cycle_at = now;
    }

    fn learn_rtt(&mut self, ack: &Ack, window: &mut Window) {
        let expired = self.least_rtt.is_some() && ack.now > self.least_rtt_at + MIN_RTT_LASTS;
        if let Some(rtt_ns) = ack.sample.rtt_ns {
            let rtt = Duration::from_nanos(rtt_ns);
            if expired || self.least_rtt.is_none_or(|least| rtt <= least) {
                self.least_rtt = Some(rtt);
                self.least_rtt_at = ack.now;
            }
        }
        if expired && !self.idle && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save(window);
            self.probe_rtt_ends = None;
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack, window);
        }
        if ack.sample.rate.is_some_and(|(delivered, _)| delivered > 0) {
            self.idle = false;
        }
    }

    fn probe_rtt(&mut self, ack: &Ack, window: &mut Window) {
        match self.probe_rtt_ends {
            None if ack.in_flight <= WINDOW_MIN => {
                self.probe_rtt_ends = Some(ack.now + PROBE_RTT_LASTS);
                self.probe_rtt_round_over = false;
                self.round_ends = ack.delivered;
            }
            None => {}
            Some(ends) => {
                self.probe_rtt_round_over |= self.round_began;
                if self.probe_rtt_round_over && ack.now > ends {
                    self.least_rtt_at = ack.now;
                    window.segments = window.segments.max(self.prior_window);
                    if self.full {
                        self.probe_bandwidth(ack.now);
                    } else {
                        self.mode = Mode::Startup;
                    }
                }
            }
        }
    }

    fn set_pace(&mut self, gain: f64, smoothed_rtt_ns: u64) {
        if self.pace.is_none() && smoothed_rtt_ns > 0 {
            self.pace = Some(self.pacing(smoothed_rtt_ns));
        }
        let pace = self.rate() * gain * MARGIN;
        if pace > 0.0 && (self.full || self.pace.is_none_or(|old| pace > old)) {
            self.pace = Some(pace);
        }
    }

    fn set_window(&mut self, ack: &Ack, gain: f64, window: &mut Window) {
        let acked = ack.sample.acked as u32;
        if acked > 0 && !self.recover(ack, acked, window) {
            let target = self.target(gain);
            if self.full {
                window.segments = (window.segments + acked).min(target);
            } else if window.segments < target || ack.delivered < u64::from(self.initial_window) {
                window.segments += acked;
            }
            window.segments = window.segments.max(WINDOW_MIN);
        }
        if self.mode == Mode::ProbeRtt {
            window.segments = window.segments.min(WINDOW_MIN);
        }
    }

    /// In the first round of a recovery, what leaves the network goes in again; at its end, the
    /// window is what it was. True if the window is set.
    fn recover(&mut self, ack: &Ack, acked: u32, window: &mut Window) -> bool {
        let mut segments = window.segments;
        if ack.sample.lost > 0 {
            segments = segments.saturating_sub(ack.sample.lost as u32).max(1);
        }
        let before = std::mem::replace(&mut self.prior_phase, ack.phase);
        if ack.phase == Phase::Recovery && before != Phase::Recovery {
            self.conserve = true;
            self.round_ends = ack.delivered;
            segments = ack.in_flight + acked;
        } else if before >= Phase::Recovery && ack.phase < Phase::Recovery {
            segments = segments.max(self.prior_window);
            self.conserve = false;
        }
        window.segments = segments;
        if self.conserve {
            window.segments = segments.max(ack.in_flight + acked);
        }
        self.conserve
    }

    /// Remembers the window; there is no threshold.
    pub(super) fn save(&mut self, window: &Window) -> u32 {
        self.prior_window = if self.prior_phase < Phase::Recovery && self.mode != Mode::ProbeRtt {
            window.segments
        } else {
            self.prior_window.max(window.segments)
        };
        window.threshold
    }

    pub(super) const fn timed_out(&mut self) {
        self.prior_phase = Phase::Loss;
        self.full_rate = 0.0;
        self.round_began = true;
    }

    pub(super) const fn undo(&mut self, window: &Window) -> u32 {
        self.full_rate = 0.0;
        self.full_rounds = 0;
        window.segments
    }

    pub(super) fn resumed(&mut self, app_limited: bool) {
        if app_limited {
            self.idle = true;
            if self.mode == Mode::ProbeBandwidth {
                self.set_pace(1.0, 0);
            }
        }
    }

    /// Segments a second; at first a window in a round trip, or in a millisecond, times the gain.
    pub(super) fn pacing(&self, smoothed_rtt_ns: u64) -> f64 {
        let rtt_ns = if smoothed_rtt_ns == 0 {
            1_000_000
        } else {
            smoothed_rtt_ns
        };
        self.pace
            .unwrap_or_else(|| GAIN_HIGH * f64::from(self.initial_window) * 1e9 / rtt_ns as f64)
    }
}
