//! How a port's packets leave: by one way, or by one to each neighbour.
//!
//! Neighbours who share a way share its time: while one is served, the others wait, and shares and
//! limits go by time. Neighbours with a way each have nothing in common: each has its own queue,
//! shares, limits and calls, by its own rate.

use alloc::boxed::Box;
use core::iter;

use strait_core::rate::{Burst, LineRate};
use strait_core::stats::NeighbourStats;
use strait_core::{ClassId, Duration, Fate, Instant, NeighbourId, Neighbours, Packet};
use strait_qos::{Head, Policers, Policy, Scheduler, Tree};

use super::link::Link;
use super::queue::{Open, Queue};
use crate::flows::Flows;

/// A way by which a port sends. A packet meets it in this order, the queue in a line of the
/// processor's cache of its own.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Path {
    pub(super) burst: Burst,
    /// A call's packet is due: until then nothing else begins to leave.
    pub(super) rests_until: Option<Instant>,
    pub(super) queue: Tree,
    /// The flows that leave by it, if they are separated.
    pub(super) flows: Option<Box<Flows>>,
    pub(super) policers: Policers,
    /// Time that its classes haven't been charged for: it is less than an octet takes.
    owed: Duration,
}

impl Path {
    pub(super) fn new(queue: Tree, burst: Burst, tells_flows: bool, policy: &Policy) -> Self {
        Self {
            burst,
            rests_until: None,
            queue,
            flows: tells_flows.then(Box::default),
            policers: Policers::new(policy.classes()),
            owed: Duration::ZERO,
        }
    }

    fn set_rate(&mut self, rate: LineRate) {
        self.burst.set_rate(rate);
        self.queue.set_line_rate(rate);
    }

    fn is_at_rest(&self) -> bool {
        self.rests_until.is_none() && self.queue.is_at_rest()
    }

    fn advance(&mut self, now: Instant) {
        self.queue.advance(now);
        self.rests_until = self.rests_until.filter(|until| now < *until);
    }

    pub(super) fn check(&self) {
        self.queue.check();
        if let Some(flows) = &self.flows {
            flows.check();
        }
    }
}

/// All ways by which a port sends.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Paths {
    /// The way that all share; if each neighbour has a separate way, that to the first of them.
    pub(super) first: Path,
    /// The ways to the neighbours behind the first, where each has its own.
    others: Box<[Path]>,
    /// The number of the way that is asked first, where several are.
    next: usize,
}

impl Paths {
    /// One for all neighbours, or one for each.
    pub(super) fn new(mut paths: impl Iterator<Item = Path>) -> Self {
        let Some(first) = paths.next() else {
            unreachable!("a port has one way at least")
        };
        Self {
            first,
            others: paths.collect(),
            next: 0,
        }
    }

    /// Whether neighbours have nothing in common.
    pub(super) const fn are_apart(&self) -> bool {
        !self.others.is_empty()
    }

    /// A neighbour's way was used: others are asked before it the next time.
    pub(super) fn had_turn(&mut self, to: NeighbourId) {
        if self.are_apart() {
            self.next = (to.index() + 1) % (self.others.len() + 1);
        }
    }

    /// When packets pulled for a neighbour begin to leave: room that several ways have names the
    /// first moment at which one of them is free.
    pub(super) fn starts(&self, at: Instant, to: NeighbourId) -> Instant {
        if self.are_apart() {
            at.max(self.to(to).burst.end())
        } else {
            at
        }
    }

    /// The one to a neighbour.
    pub(super) fn to(&self, to: NeighbourId) -> &Path {
        let other = self.others.get(to.index().wrapping_sub(1));
        other.unwrap_or(&self.first)
    }

    pub(super) fn to_mut(&mut self, to: NeighbourId) -> &mut Path {
        let other = self.others.get_mut(to.index().wrapping_sub(1));
        other.unwrap_or(&mut self.first)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        iter::once(&self.first).chain(&self.others)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Takes out any packet that isn't to go any more.
    pub(super) fn discard(&mut self, now: Instant) -> Option<(Packet, Fate)> {
        let first = self.first.queue.discard(now);
        let mut others = self.others.iter_mut();
        first.or_else(|| others.find_map(|path| path.queue.discard(now)))
    }

    pub(super) fn are_at_rest(&self) -> bool {
        self.first.is_at_rest() && self.others.iter().all(Path::is_at_rest)
    }

    pub(super) fn advance(&mut self, now: Instant) {
        self.first.advance(now);
        self.others.iter_mut().for_each(|path| path.advance(now));
    }

    /// When all that was pulled has left.
    pub(super) fn end(&self) -> Instant {
        let others = self.others.iter().map(|path| path.burst.end());
        others.fold(self.first.burst.end(), Instant::max)
    }
}

impl Queue {
    /// The next packet for any of some neighbours. Separate ways have turns: if another resource
    /// than their rates is narrow, none takes all of it.
    pub(super) fn head_to<L: Link + ?Sized>(&self, link: &L, some: Neighbours) -> Option<Head> {
        let open = Open(self, link);
        if !self.paths.are_apart() {
            return self.paths.first.queue.head(&open);
        }
        let next = self.paths.next as u16;
        let count = self.paths.others.len() as u16 + 1;
        let ways = (next..count).chain(0..next).map(NeighbourId);
        let mut ways = ways.filter(|to| some.contains(*to));
        ways.find_map(|to| self.paths.to(to).queue.head(&open))
    }

    /// The rate towards a neighbour.
    pub(in crate::gateway) fn rate_to(&self, to: NeighbourId) -> LineRate {
        let told = self.rates.get(to.index()).copied().flatten();
        let common = || self.state.map(|state| state.tx_rate);
        told.or_else(common)
            .unwrap_or_else(|| self.paths.to(to).burst.rate())
    }

    /// The rate of the way to a neighbour: the port's where several share it.
    pub(super) fn way_rate(&self, to: NeighbourId) -> LineRate {
        match self.state {
            Some(state) if !self.paths.are_apart() => state.tx_rate,
            _ => self.rate_to(to),
        }
    }

    /// The medium reports the rate towards a neighbour.
    pub(super) fn set_rate(&mut self, to: NeighbourId, rate: LineRate) {
        if to.index() >= self.neighbours() {
            return;
        }
        self.rates.resize(self.neighbours(), None);
        self.rates[to.index()] = Some(rate);
        self.settle_rates();
    }

    /// The rates towards all neighbours, as they are shown.
    pub(in crate::gateway) fn show_rates(&self, neighbours: &mut [NeighbourStats]) {
        for (to, neighbour) in (0..).map(NeighbourId).zip(neighbours) {
            neighbour.tx_rate = Some(self.rate_to(to));
        }
    }

    /// Each way has the rate of its neighbour. A shared one has the port's, and each neighbour's
    /// use of it is counted by its time ([`Queue::leaves`]).
    pub(super) fn settle_rates(&mut self) {
        let Some(common) = self.state.map(|state| state.tx_rate) else {
            return;
        };
        if !self.paths.are_apart() {
            // A packet being sent has the rate of its neighbour, and continues as it began.
            if self.rates.is_empty() {
                self.paths.first.burst.set_rate(common);
            }
            return self.paths.first.queue.set_line_rate(common);
        }
        let ways = (0..).map(NeighbourId).take(self.neighbours());
        for to in ways {
            let rate = self.rate_to(to);
            self.paths.to_mut(to).set_rate(rate);
        }
    }

    /// Octets leave for a neighbour; returns when the last has left.
    pub(super) fn leaves(&mut self, at: Instant, to: NeighbourId, octets: usize) -> Instant {
        if !self.rates.is_empty() && !self.paths.are_apart() {
            let rate = self.rate_to(to);
            self.paths.first.burst.set_rate(rate);
        }
        self.paths.to_mut(to).burst.push(at, octets as u64)
    }

    /// Takes octets that leave for a neighbour from the share of their class. Where a slower one
    /// has the same way, they are as many as would take the same time at the port's rate.
    pub(super) fn charge(&mut self, class: ClassId, to: NeighbourId, octets: u32) {
        let octets = match self.state {
            Some(state) if !self.rates.is_empty() && !self.paths.are_apart() => {
                let time = self.rate_to(to).time_for(u64::from(octets)) + self.paths.first.owed;
                let octets = state.tx_rate.octets_in(time);
                let charged = state.tx_rate.time_for(octets);
                self.paths.first.owed = time.saturating_sub(charged);
                u32::try_from(octets).unwrap_or(u32::MAX)
            }
            _ => octets,
        };
        self.paths.to_mut(to).queue.charge(class, octets);
    }
}
