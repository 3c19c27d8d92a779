//! Why a packet took as long as it did: named parts that add up to the whole.

use crate::time::{Duration, Instant};

/// A reason for waiting. A packet is in exactly one of these states at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DelayPart {
    /// In its class's queue, others of its own or another class going first; also while a packet
    /// already under way is set aside for a more urgent one.
    Class,
    /// For the right to send: half-duplex turn, channel access, a closed window or a port that
    /// is down.
    Turn,
    /// Its octets leaving, and the way to the other end.
    Line,
    /// Being sent again.
    Repeat,
    /// Complete, but held until an earlier packet arrives.
    Order,
    /// In a proxy.
    Proxy,
}

impl DelayPart {
    /// All parts, in the order of [`DelayParts`].
    pub const ALL: [Self; 6] = [
        Self::Class,
        Self::Turn,
        Self::Line,
        Self::Repeat,
        Self::Order,
        Self::Proxy,
    ];

    /// The word in tables, status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Turn => "turn",
            Self::Line => "line",
            Self::Repeat => "repeat",
            Self::Order => "order",
            Self::Proxy => "proxy",
        }
    }
}

/// Nanoseconds in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayParts([u64; DelayPart::ALL.len()]);

impl DelayParts {
    /// Time spent in `part`, in nanoseconds.
    pub const fn part_ns(&self, part: DelayPart) -> u64 {
        self.0[part as usize]
    }

    /// Adds time to `part`.
    pub const fn add(&mut self, part: DelayPart, ns: u64) {
        self.0[part as usize] = self.0[part as usize].saturating_add(ns);
    }

    /// Adds all parts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// The whole, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// The clock that each packet carries through a node: always in one state, charging every
/// nanosecond to it.
#[derive(Clone, Copy, Debug)]
pub struct DelayClock {
    began: Instant,
    since: Instant,
    state: DelayPart,
    parts: DelayParts,
}

impl DelayClock {
    /// Starts at `now` in the state [`DelayPart::Class`].
    pub const fn start(now: Instant) -> Self {
        Self {
            began: now,
            since: now,
            state: DelayPart::Class,
            parts: DelayParts([0; 6]),
        }
    }

    /// When the clock started.
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// The state that time is charged to now.
    pub const fn state(&self) -> DelayPart {
        self.state
    }

    /// Charges the time up to `now` to the state so far and changes to `state`.
    ///
    /// A moment before the last change charges nothing: octets pulled ahead of time are charged
    /// when they leave.
    pub fn enter(&mut self, now: Instant, state: DelayPart) {
        self.parts
            .add(self.state, now.since(self.since).as_nanos() as u64);
        self.since = self.since.max(now);
        self.state = state;
    }

    /// Closes the clock at `end` and gives the parts; they add up to `end` − `began` exactly.
    pub fn stop(mut self, end: Instant) -> DelayParts {
        let end = end.max(self.since);
        self.enter(end, self.state);
        debug_assert_eq!(
            Duration::from_nanos(self.parts.total_ns()),
            end.since(self.began)
        );
        self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        let mut clock = DelayClock::start(Instant::from_millis(5));
        clock.enter(Instant::from_millis(7), DelayPart::Line);
        clock.enter(Instant::from_millis(8), DelayPart::Class);
        clock.enter(Instant::from_millis(18), DelayPart::Line);
        let parts = clock.stop(Instant::from_millis(20));
        assert_eq!(parts.part_ns(DelayPart::Class), 12_000_000);
        assert_eq!(parts.part_ns(DelayPart::Line), 3_000_000);
        assert_eq!(parts.total_ns(), 15_000_000);
    }

    #[test]
    fn a_step_back_charges_nothing_and_loses_nothing() {
        let mut clock = DelayClock::start(Instant::from_millis(5));
        clock.enter(Instant::from_millis(9), DelayPart::Line);
        clock.enter(Instant::from_millis(7), DelayPart::Class);
        assert_eq!(clock.stop(Instant::from_millis(8)).total_ns(), 4_000_000);
    }
}
