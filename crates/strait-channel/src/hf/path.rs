//! A path between two stations: what it does to blocks, each way.

use strait_core::time::{Duration, Instant, nanos};

use crate::config::LinkConfig;
use crate::impair::{BitErrors, Source};
use crate::schedule::Schedule;
use crate::stats::ChannelStats;
use crate::{LossCause, Side};

/// A path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) ends: [usize; 2],
    ways: [Way; 2],
}

/// One direction of it.
#[derive(Clone, Debug)]
pub(super) struct Way {
    delay: Duration,
    schedule: Schedule,
    bits: Option<BitErrors>,
    pub(super) stats: ChannelStats,
}

impl Path {
    pub(super) fn new(ends: [usize; 2], config: &LinkConfig, name: &str, seed: u64) -> Self {
        let way = |from: Side| {
            let keys = config.direction(from);
            let source = Source {
                seed,
                link: name,
                way: match from {
                    Side::A => "ab",
                    Side::B => "ba",
                },
            };
            Way {
                delay: keys.delay.map_or(Duration::ZERO, |time| time.0),
                schedule: Schedule::new(config, &keys),
                bits: BitErrors::new(keys.bit_errors, &source),
                stats: ChannelStats::default(),
            }
        };
        Self {
            ends,
            ways: Side::BOTH.map(way),
        }
    }

    pub(super) const fn way(&self, from: Side) -> &Way {
        &self.ways[from.index()]
    }

    /// How long power takes from one end to the other.
    pub(super) const fn delay(&self, from: Side) -> Duration {
        self.way(from).delay
    }

    /// Whether the path carries nothing some time between the two moments.
    pub(super) fn out(&self, from: Side, starts: Instant, ends: Instant) -> bool {
        self.way(from).schedule.out(starts, ends)
    }

    /// Ends everything that is left to chance.
    pub(super) fn heal(&mut self) {
        for way in &mut self.ways {
            way.bits = None;
        }
    }

    /// Carries a block that is on the air between two moments, as its sender sees them, and whose
    /// first bit is the line's bit `first_bit`. Inverts the bits that are wrong.
    pub(super) fn carry(
        &mut self,
        from: Side,
        (starts, ends): (Instant, Instant),
        first_bit: u64,
        octets: &mut [u8],
    ) -> Option<LossCause> {
        let way = &mut self.ways[from.index()];
        way.stats.frames += 1;
        way.stats.octets += octets.len() as u64;
        if way.schedule.out(starts, ends) {
            return Some(LossCause::Outage);
        }
        let errors = way.bits.as_mut()?;
        let wrong = invert(errors, first_bit, octets);
        way.stats.corrupted_bits += wrong;
        way.stats.corrupted_frames += u64::from(wrong > 0);
        None
    }

    /// Counts a block that wasn't understood.
    pub(super) fn count_loss(&mut self, from: Side, cause: LossCause, octets: usize) {
        let stats = &mut self.ways[from.index()].stats;
        stats.count_loss(cause, octets as u64);
    }

    /// Counts the time for which an end had its power on.
    pub(super) fn count_power(&mut self, from: Side, power: Duration) {
        self.ways[from.index()].stats.busy_ns += nanos(power);
    }
}

/// Inverts the bits in error, and counts them.
fn invert(errors: &mut BitErrors, first_bit: u64, octets: &mut [u8]) -> u64 {
    let end = first_bit.saturating_add(octets.len() as u64 * 8);
    let (mut from, mut count) = (first_bit, 0);
    while let Some(bit) = errors.first(from, end) {
        let place = bit - first_bit;
        // On the air an octet's lowest bit is first.
        if let Some(octet) = octets.get_mut((place / 8) as usize) {
            *octet ^= 1 << (place % 8);
        }
        (from, count) = (bit + 1, count + 1);
    }
    count
}
