//! How much of a connection lies below the switch: no more than its round trip needs, so that what
//! is under way holds up a more urgent message for as short as can be.

use alloc::collections::VecDeque;

use strait_core::node::Held;
use strait_core::{Duration, Instant};

use super::Link;

/// Line time beyond the round trip: what the switch and its kernel may be late by.
const SLACK: Duration = Duration::from_millis(300);
/// Samples of the round trip that are waited for at a time.
const SAMPLES_MAX: usize = 64;

/// What a connection has been given and has taken.
#[derive(Debug, Default)]
pub(super) struct Below {
    /// Octets that it can take.
    writable: u64,
    /// All octets that it was given, and those that have left its buffer.
    written: u64,
    freed: u64,
    /// When the octets up to a place were given, and how long the line needs for what lay there.
    sent: VecDeque<(u64, Instant, Duration)>,
    /// The shortest way there and back.
    trip: Option<Duration>,
}

impl Below {
    /// It can take so many more.
    pub(super) fn free(&mut self, now: Instant, octets: u32) {
        self.writable += u64::from(octets);
        // What it can take at first is the buffer itself.
        self.freed = (self.freed + u64::from(octets)).min(self.written);
        while let Some((_, at, line)) = self.sent.pop_front_if(|it| it.0 <= self.freed) {
            let trip = now.since(at).saturating_sub(line);
            self.trip = Some(self.trip.map_or(trip, |it| it.min(trip)));
        }
    }

    /// Octets that it may be given now.
    pub(super) fn room(&self, link: Link, least: u32) -> usize {
        let most = self.trip.map_or(u64::MAX, |trip| {
            let time = trip + SLACK + link.turn.saturating_mul(2);
            u64::from(Held::by_time(link.bit_s, time, least).outbound)
        });
        let room = self
            .writable
            .min(most.saturating_sub(self.written - self.freed));
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// It was given so many.
    pub(super) fn give(&mut self, now: Instant, link: Link, octets: usize) {
        self.writable -= octets as u64;
        self.written += octets as u64;
        let below = self.written - self.freed;
        let line_ns = below.saturating_mul(8_000_000_000) / link.bit_s.max(1);
        if self.sent.len() < SAMPLES_MAX {
            let line = Duration::from_nanos(line_ns);
            self.sent.push_back((self.written, now, line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link {
        bit_s: 512_000,
        turn: Duration::ZERO,
    };

    #[test]
    fn what_lies_below_is_what_the_round_trip_needs() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut below = Below::default();
        below.free(at(0), 128_000);
        assert_eq!(below.room(LINK, 4096), 128_000);
        // 6400 octets are 100 ms of the line, and come back 600 ms later.
        below.give(at(0), LINK, 6400);
        below.free(at(700), 6400);
        assert_eq!(below.room(LINK, 4096), 57_600);
        below.give(at(700), LINK, 57_600);
        assert_eq!(below.room(LINK, 4096), 0);
        // What is acknowledged makes room; a longer trip counts for nothing.
        below.free(at(9000), 57_600);
        assert_eq!(below.room(LINK, 4096), 57_600);
        below.give(at(9000), LINK, 640);
        below.free(at(9020), 640);
        assert_eq!(below.room(LINK, 4096), 19_840);
        assert_eq!(below.room(LINK, 30_000), 30_000);
    }
}
