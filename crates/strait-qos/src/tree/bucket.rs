//! Tokens in time, as Linux keeps them.

use strait_core::time::nanos;

use super::shaper::time_for;

/// A minute: the greatest debt of a bucket, and the longest pause that counts (Linux's `mbuffer`).
pub(super) const SPAN_MAX_NS: i64 = 60_000_000_000;

/// A token bucket counted in nanoseconds of its rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    bit_s: u64,
    burst_octets: u64,
    depth_ns: i64,
    tokens_ns: i64,
}

fn span_ns(octets: u64, bit_s: u64) -> i64 {
    i64::try_from(nanos(time_for(octets, bit_s))).unwrap_or(i64::MAX)
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(burst_octets: u64) -> Self {
        let mut bucket = Self {
            bit_s: 0,
            burst_octets,
            depth_ns: 0,
            tokens_ns: i64::MAX,
        };
        bucket.set_rate(1);
        bucket
    }

    /// Changes the rate; tokens in hand stay, as time, as far as there is room for them.
    pub(super) fn set_rate(&mut self, bit_s: u64) {
        if bit_s == self.bit_s {
            return;
        }
        let full = self.tokens_ns >= self.depth_ns;
        self.bit_s = bit_s;
        self.depth_ns = span_ns(self.burst_octets, bit_s);
        if full {
            self.tokens_ns = self.depth_ns;
        }
        self.tokens_ns = self.tokens_ns.min(self.depth_ns);
    }

    pub(super) const fn bit_s(&self) -> u64 {
        self.bit_s
    }

    /// How long after the last charge there are tokens; 0 if there are already.
    pub(super) const fn lacking_ns(&self) -> i64 {
        if self.tokens_ns < 0 {
            -self.tokens_ns
        } else {
            0
        }
    }

    /// `passed_ns` after the last charge, `octets` are paid for.
    pub(super) fn charge(&mut self, passed_ns: i64, octets: u32) {
        let cost_ns = span_ns(u64::from(octets), self.bit_s);
        let full = self.tokens_ns.saturating_add(passed_ns).min(self.depth_ns);
        self.tokens_ns = full.saturating_sub(cost_ns).max(1 - SPAN_MAX_NS);
    }

    /// `passed_ns` after the last charge, another bucket pays: the tokens gathered stay, even above
    /// the depth, until the bucket's next own charge.
    pub(super) fn gather(&mut self, passed_ns: i64) {
        self.tokens_ns = self.tokens_ns.saturating_add(passed_ns);
    }
}
