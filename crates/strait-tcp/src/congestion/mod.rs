//! Congestion control: how many segments may be under way, and how fast they go.

mod bbr;
mod cubic;
mod newreno;

use strait_core::Instant;

use self::bbr::Bbr;
use self::cubic::Cubic;
use super::profile::{CongestionKind, Profile, Reduction};
use super::rate::RateSample;
use super::recovery::Phase;

/// The congestion window, in segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) segments: u32,
    /// Slow start below, congestion avoidance from here on.
    pub(super) threshold: u32,
    /// Segments acknowledged towards the next one of growth.
    pub(super) count: u32,
    /// What window and threshold have beyond whole segments, where they count octets.
    pub(super) part: f64,
    pub(super) threshold_part: f64,
}

impl Window {
    /// No threshold yet.
    pub(super) const UNLIMITED: u32 = u32::MAX;
    /// RFC 5681 section 3.1, equation 4.
    pub(super) const LEAST_THRESHOLD: u32 = 2;

    pub(super) const fn new(segments: u32) -> Self {
        Self {
            segments,
            threshold: Self::UNLIMITED,
            count: 0,
            part: 0.0,
            threshold_part: 0.0,
        }
    }

    /// The window becomes this.
    pub(super) const fn set(&mut self, segments: u32, part: f64) {
        (self.segments, self.part, self.count) = (segments, part, 0);
    }

    pub(super) const fn in_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// What the threshold would be if the window were given up now without a loss.
    pub(super) fn remembered(&self) -> u32 {
        self.threshold.max(self.segments / 2 + self.segments / 4)
    }

    /// RFC 5681 section 3.1: a segment more for each acknowledged, up to the threshold. What is
    /// left of `acked`.
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.segments.saturating_add(acked).min(self.threshold);
        let left = acked - (grown - self.segments);
        self.segments = grown;
        left
    }

    /// One segment more for each `every` acknowledged.
    pub(super) fn avoid(&mut self, every: u32, acked: u32) {
        let every = every.max(1);
        if self.count >= every {
            self.count = 0;
            self.segments += 1;
        }
        self.count += acked;
        self.segments += self.count / every;
        self.count %= every;
        self.segments = self.segments.min(Self::MOST);
    }

    /// No window needs more.
    const MOST: u32 = 1 << 20;
}

/// What an acknowledgement says to congestion control.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    pub(super) now: Instant,
    pub(super) una: u64,
    pub(super) next: u64,
    /// Octets of a full segment.
    pub(super) segment: u32,
    pub(super) sample: RateSample,
    pub(super) phase: Phase,
    pub(super) in_flight: u32,
    /// Segments delivered in all.
    pub(super) delivered: u64,
    pub(super) smoothed_rtt_ns: u64,
}

/// One of the kinds.
#[derive(Debug)]
pub(super) enum Control {
    NewReno(Reduction),
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

impl Control {
    pub(super) fn new(profile: &Profile, seed: u64) -> Self {
        match profile.congestion {
            CongestionKind::NewReno => Self::NewReno(profile.reduction),
            CongestionKind::Cubic => Self::Cubic(Cubic::new(profile.hystart)),
            CongestionKind::Bbr => Self::Bbr(Box::new(Bbr::new(profile.initial_window, seed))),
        }
    }

    /// Whether it sets the window itself in every phase.
    pub(super) const fn rules(&self) -> bool {
        matches!(self, Self::Bbr(_))
    }

    /// The threshold after a loss or a congestion mark.
    pub(super) fn threshold(&mut self, window: &Window) -> u32 {
        match self {
            Self::NewReno(_) => newreno::threshold(window),
            Self::Cubic(cubic) => cubic.threshold(window),
            Self::Bbr(bbr) => bbr.save(window),
        }
    }

    /// An acknowledgement was taken in: measures.
    pub(super) fn measure(&mut self, ack: &Ack, window: &mut Window) {
        if let Self::Cubic(cubic) = self {
            cubic.measure(ack, window);
        }
    }

    /// `acked` segments were acknowledged while the window was in use: grows it.
    pub(super) fn grow(&mut self, ack: &Ack, acked: u32, window: &mut Window) {
        match self {
            Self::NewReno(Reduction::Segments) => newreno::grow(acked, window),
            Self::NewReno(Reduction::Octets) => newreno::grow_octets(acked, ack.segment, window),
            Self::Cubic(cubic) => cubic.grow(ack, acked, window),
            Self::Bbr(_) => {}
        }
    }

    /// Sets the window, if it [`rules`](Self::rules).
    pub(super) fn rule(&mut self, ack: &Ack, window: &mut Window) {
        if let Self::Bbr(bbr) = self {
            bbr.acked(ack, window);
        }
    }

    /// A retransmission timeout.
    pub(super) fn timed_out(&mut self) {
        match self {
            Self::NewReno(_) => {}
            Self::Cubic(cubic) => cubic.reset(),
            Self::Bbr(bbr) => bbr.timed_out(),
        }
    }

    /// The window after a reduction turned out to be wrong; `prior` is the one before it.
    pub(super) fn undo(&mut self, window: &Window, prior: u32) -> u32 {
        match self {
            Self::Bbr(bbr) => bbr.undo(window),
            _ => window.segments.max(prior),
        }
    }

    /// Sending begins again after nothing was under way; the last segment went at `last`.
    pub(super) fn resumed(&mut self, now: Instant, last: Instant, app_limited: bool) {
        match self {
            Self::NewReno(_) => {}
            Self::Cubic(cubic) => cubic.resumed(now, last),
            Self::Bbr(bbr) => bbr.resumed(app_limited),
        }
    }

    /// Octets of packets in a second, if sending is to be spread.
    pub(super) fn pacing(&self, smoothed_rtt_ns: u64, packet_octets: u32) -> Option<f64> {
        match self {
            Self::Bbr(bbr) => Some(bbr.pacing(smoothed_rtt_ns) * f64::from(packet_octets)),
            _ => None,
        }
    }
}
