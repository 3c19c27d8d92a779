//! How fast the path delivers, sampled with each acknowledgement
//! (draft-cheng-iccrg-delivery-rate-estimation).

use strait_core::Instant;

/// What is noted with each segment when it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct RateMark {
    /// Segments delivered by then.
    pub(super) delivered: u64,
    /// When the last of them was; [`Instant::NEVER`] once the mark is used up.
    pub(super) delivered_at: Instant,
    /// When the first segment of that flight was sent.
    pub(super) first_sent_at: Instant,
    /// The sender had nothing more to send.
    pub(super) app_limited: bool,
}

/// What one acknowledgement shows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateSample {
    /// Segments that the other end had when the newest of those delivered was sent.
    pub(super) prior_delivered: u64,
    /// Segments delivered since; with the time, a rate. None: no rate can be told.
    pub(super) rate: Option<(u64, u64)>,
    pub(super) app_limited: bool,
    /// Round trip, in nanoseconds.
    pub(super) rtt_ns: Option<u64>,
    /// Segments newly delivered.
    pub(super) acked: u64,
    /// Segments newly believed to be lost.
    pub(super) lost: u64,
    pub(super) prior_in_flight: u32,
}

/// The sampler.
#[derive(Debug)]
pub(super) struct Rate {
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    first_sent_at: Instant,
    /// Until so many segments are delivered, samples are limited by the application; 0: they
    /// aren't.
    app_limited: u64,
    best: Option<(RateMark, Instant)>,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            delivered: 0,
            delivered_at: Instant::ZERO,
            first_sent_at: Instant::ZERO,
            app_limited: 0,
            best: None,
        }
    }
}

impl Rate {
    /// The mark of a segment sent now; `idle` if nothing else is under way.
    pub(super) fn sent(&mut self, now: Instant, idle: bool) -> RateMark {
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        RateMark {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited != 0,
        }
    }

    /// A segment, last sent at `sent_at`, was delivered.
    pub(super) fn segment(&mut self, mark: &RateMark, sent_at: Instant) {
        if mark.delivered_at == Instant::NEVER {
            return;
        }
        let newer =
            |(best, at): (RateMark, Instant)| (mark.delivered, sent_at) >= (best.delivered, at);
        if self.best.is_none_or(newer) {
            self.best = Some((*mark, sent_at));
        }
    }

    /// There is nothing to send, though the window would allow it, with so many under way.
    pub(super) fn limit(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    /// The sample of an acknowledgement; `min_rtt_ns` is the least that an interval can be.
    pub(super) fn sample(&mut self, now: Instant, acked: u64, min_rtt_ns: u64) -> RateSample {
        if self.app_limited != 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if acked > 0 {
            self.delivered_at = now;
        }
        let mut sample = RateSample {
            acked,
            ..RateSample::default()
        };
        if let Some((mark, sent_at)) = self.best.take() {
            self.first_sent_at = sent_at;
            let sending_ns = sent_at.since(mark.first_sent_at).as_nanos() as u64;
            let acking_ns = now.since(mark.delivered_at).as_nanos() as u64;
            let interval_ns = sending_ns.max(acking_ns);
            sample.prior_delivered = mark.delivered;
            sample.app_limited = mark.app_limited;
            if interval_ns >= min_rtt_ns && interval_ns > 0 {
                sample.rate = Some((self.delivered - mark.delivered, interval_ns));
            }
        }
        sample
    }
}
