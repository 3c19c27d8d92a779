//! Limits on the rate of one node of the tree.

use strait_core::{Duration, Instant};

use crate::plan::{Shape, ShapeKind};

/// Nanoseconds of a second.
const SECOND_NS: u128 = 1_000_000_000;

/// How long `octets` take at `bit_s`, rounded up: a deadline is never early.
pub(super) fn time_for(octets: u64, bit_s: u64) -> Duration {
    // One division of 64 bits for all but absurd lengths: this is asked for every packet.
    if let Some(bits_ns) = octets.checked_mul(8 * SECOND_NS as u64) {
        return Duration::from_nanos(bits_ns.div_ceil(bit_s.max(1)));
    }
    let ns = (u128::from(octets) * 8 * SECOND_NS).div_ceil(u128::from(bit_s.max(1)));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// The same rounded down: how much earlier than a deadline is early enough.
fn time_within(octets: u64, bit_s: u64) -> Duration {
    let ns = u128::from(octets) * 8 * SECOND_NS / u128::from(bit_s.max(1));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Holds the packets of a node to a rate. A permitted packet must never be cut short: a packet or
/// segment that may begin is charged whole, whatever credit is left.
#[derive(Debug)]
pub(super) struct Shaper {
    shape: Shape,
    bit_s: u64,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Token bucket and virtual clock: when the bucket would be full again (the virtual clock's
    /// time, if the bucket holds nothing).
    Clock { full_at: Instant },
    /// Credit that arrives once an interval, all at a time.
    Interval {
        /// The beginning of the first interval counted in.
        epoch: Option<Instant>,
        /// Intervals that have given their credit.
        given: u64,
        credit_bits: i64,
    },
}

impl Shaper {
    pub(super) fn new(shape: Shape, bit_s: u64) -> Self {
        let mut shaper = Self {
            shape,
            bit_s: bit_s.max(1),
            state: State::Clock {
                full_at: Instant::ZERO,
            },
        };
        if matches!(shape.kind, ShapeKind::Average | ShapeKind::Peak) {
            shaper.state = State::Interval {
                epoch: None,
                given: 0,
                credit_bits: shaper.credit_bits_max(),
            };
        }
        shaper
    }

    /// Changes the rate. Tokens in hand stay, as time; a new interval begins with the next charge.
    pub(super) fn set_rate(&mut self, bit_s: u64) {
        let bit_s = bit_s.max(1);
        if bit_s == self.bit_s {
            return;
        }
        self.bit_s = bit_s;
        let credit_bits_max = self.credit_bits_max();
        if let State::Interval {
            epoch,
            given,
            credit_bits,
        } = &mut self.state
        {
            *epoch = None;
            *given = 0;
            *credit_bits = (*credit_bits).min(credit_bits_max);
        }
    }

    /// Octets that may leave at once after a pause.
    fn burst_octets(&self) -> u64 {
        self.shape.burst_octets(self.bit_s)
    }

    /// Bits that one interval adds.
    fn increment_bits(&self) -> u64 {
        let excess = match self.shape.kind {
            ShapeKind::Peak => self.excess_octets(),
            _ => 0,
        };
        8 * (self.burst_octets() + excess)
    }

    fn excess_octets(&self) -> u64 {
        self.shape.excess.unwrap_or_else(|| self.burst_octets())
    }

    fn credit_bits_max(&self) -> i64 {
        let bits = 8 * (self.burst_octets() + self.excess_octets());
        i64::try_from(bits).unwrap_or(i64::MAX)
    }

    /// The start of interval `number`, counted from `epoch`.
    fn boundary(&self, epoch: Instant, number: u64) -> Instant {
        // Tc = Bc / CIR, whatever one interval adds.
        epoch + time_for(number.saturating_mul(self.burst_octets()), self.bit_s)
    }

    /// When `octets` may begin to leave, if nothing else does before: in the past if they may now.
    pub(super) fn when(&self, octets: u32) -> Instant {
        match self.state {
            State::Clock { full_at } => {
                let burst = self.burst_octets();
                // Packets longer than the bucket go when it is full.
                let spare = burst - burst.min(u64::from(octets));
                full_at - time_within(spare, self.bit_s)
            }
            State::Interval {
                epoch,
                given,
                credit_bits,
            } => {
                let Some(epoch) = epoch.filter(|_| credit_bits <= 0) else {
                    return Instant::ZERO;
                };
                let lacking = credit_bits.unsigned_abs() / self.increment_bits().max(1) + 1;
                self.boundary(epoch, given + lacking)
            }
        }
    }

    /// `octets` leave from `now` on.
    pub(super) fn charge(&mut self, now: Instant, octets: u32) {
        let (bit_s, increment) = (self.bit_s, self.increment_bits().max(1));
        let credit_bits_max = self.credit_bits_max();
        let passed = self.intervals_passed(now);
        match &mut self.state {
            State::Clock { full_at } => {
                *full_at = (*full_at).max(now) + time_for(u64::from(octets), bit_s);
            }
            State::Interval {
                epoch,
                given,
                credit_bits,
            } => {
                epoch.get_or_insert(now);
                let gained = increment.saturating_mul(passed - *given);
                *given = passed;
                *credit_bits = credit_bits
                    .saturating_add_unsigned(gained)
                    .min(credit_bits_max)
                    .saturating_sub(8 * i64::from(octets));
            }
        }
    }

    /// Whole intervals since the epoch.
    fn intervals_passed(&self, now: Instant) -> u64 {
        let State::Interval {
            epoch: Some(epoch), ..
        } = self.state
        else {
            return 0;
        };
        let bits = now.since(epoch).as_nanos() * u128::from(self.bit_s) / SECOND_NS;
        let interval = u128::from(8 * self.burst_octets().max(1));
        u64::try_from(bits / interval).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
#[path = "shaper_tests.rs"]
mod tests;
