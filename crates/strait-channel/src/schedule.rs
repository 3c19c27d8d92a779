//! What is known of a direction beforehand: its rate over time and its outages.

use alloc::vec::Vec;

use strait_core::rate::LineRate;
use strait_core::time::Instant;

use crate::config::{Direction, LinkConfig};

/// A stretch of constant rate.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    at: Instant,
    rate: LineRate,
    /// Bit times of the line before `at`.
    slots: u64,
    /// Ports don't hear of its begin.
    unheard: bool,
}

/// The rate over time, and outages as half-open spans.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Begins at zero.
    first: Stretch,
    later: Vec<Stretch>,
    outages: Vec<(Instant, Instant)>,
}

impl Schedule {
    pub(crate) fn new(config: &LinkConfig, way: &Direction) -> Self {
        let mut schedule = Self {
            first: Stretch {
                at: Instant::ZERO,
                rate: config.rate_of(way.baud, way.rate),
                slots: 0,
                unheard: false,
            },
            later: Vec::new(),
            outages: Vec::new(),
        };
        for change in way.change.iter().flatten() {
            let at = Instant::ZERO + change.at.0;
            let rate = config.rate_of(change.baud, change.rate);
            // The bit time that the change cuts short counts as a whole one.
            let slots = schedule.slot(at).saturating_add(1);
            let unheard = change.unheard;
            schedule.later.push(Stretch {
                at,
                rate,
                slots,
                unheard,
            });
        }
        for outage in way.outage.iter().flatten() {
            let at = Instant::ZERO + outage.at.0;
            schedule.outages.push((at, at + outage.lasts.0));
        }
        schedule
    }

    fn stretch(&self, now: Instant) -> &Stretch {
        let begun = self.later.partition_point(|stretch| stretch.at <= now);
        begun
            .checked_sub(1)
            .map_or(&self.first, |last| &self.later[last])
    }

    /// The rate at which a transmission that begins at `now` leaves.
    pub(crate) fn rate(&self, now: Instant) -> LineRate {
        self.stretch(now).rate
    }

    /// The bit time of the line that `now` lies in, counted from the link's beginning.
    pub(crate) fn slot(&self, now: Instant) -> u64 {
        let stretch = self.stretch(now);
        let bits = now.since(stretch.at).as_nanos() * u128::from(stretch.rate.bit_s());
        let bits = u64::try_from(bits / 1_000_000_000).unwrap_or(u64::MAX);
        stretch.slots.saturating_add(bits)
    }

    /// Whether any part of a transmission lies in an outage.
    pub(crate) fn out(&self, starts: Instant, ends: Instant) -> bool {
        let next = self.outages.partition_point(|(_, over)| *over <= starts);
        let end = ends.max(starts);
        self.outages
            .get(next)
            .is_some_and(|(begin, _)| *begin < end || *begin <= starts)
    }

    /// The next begin or end of anything that ports hear of, strictly after `now`.
    pub(crate) fn next_change(&self, now: Instant) -> Option<Instant> {
        let rates = self.later.iter().filter(|stretch| !stretch.unheard);
        let rates = rates.map(|stretch| stretch.at);
        let outages = self
            .outages
            .iter()
            .flat_map(|(begin, over)| [*begin, *over]);
        rates.chain(outages).filter(|at| *at > now).min()
    }
}
