//! The routing table of a simulated node's host, as far as the node leads its host by it
//! ([`strait_core::host_routes`]).

use std::collections::BTreeSet;

use strait_core::host_routes::{HostRoute, HostRoutes, Step};
use strait_core::node::{RouteEvent, RouteOp};
use strait_core::prefix::Prefix;
use strait_core::{Instant, PortId};

/// Errors of Linux.
const EXISTS: i32 = 17;
const NO_DEVICE: i32 = 19;

/// What somebody else does to a host's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// Takes a route of the node's away.
    Take(HostRoute),
    /// Leads a prefix elsewhere, with this metric.
    Occupy(Prefix, u32),
    /// Doesn't any more.
    Vacate(Prefix, u32),
}

/// A host's table.
#[derive(Debug)]
pub(crate) struct HostTable {
    /// The node's host sides.
    sides: BTreeSet<PortId>,
    routes: HostRoutes,
    ours: BTreeSet<HostRoute>,
    others: BTreeSet<(Prefix, u32)>,
    /// The moment for which an event is planned.
    planned: Option<Instant>,
}

impl Default for HostTable {
    fn default() -> Self {
        Self::of(BTreeSet::from([PortId::HOST]))
    }
}

impl HostTable {
    /// That of a node with these host sides.
    pub(crate) fn of(sides: BTreeSet<PortId>) -> Self {
        Self {
            sides,
            routes: HostRoutes::default(),
            ours: BTreeSet::new(),
            others: BTreeSet::new(),
            planned: None,
        }
    }

    /// Takes a wish of the node; what it is told at once.
    pub(crate) fn ask(&mut self, now: Instant, prefix: Prefix, op: RouteOp) -> Option<RouteEvent> {
        self.routes.ask(now, prefix, op)
    }

    /// Does what is due; what the node is told.
    pub(crate) fn act(&mut self, now: Instant) -> Vec<(Prefix, RouteEvent)> {
        let mut news = Vec::new();
        while self.routes.wake().is_some_and(|at| at <= now) {
            for step in self.routes.steps(now) {
                let result = self.perform(step);
                news.extend(self.routes.done(now, step, result));
            }
        }
        news
    }

    fn perform(&mut self, step: Step) -> Result<(), i32> {
        match step {
            Step::Remove(route) => {
                self.ours.remove(&route);
                Ok(())
            }
            Step::Put(HostRoute { lead, .. }) if !self.sides.contains(&lead.port) => Err(NO_DEVICE),
            Step::Put(HostRoute { prefix, lead })
                if self.others.contains(&(prefix, lead.metric)) =>
            {
                Err(EXISTS)
            }
            Step::Put(route) => {
                self.ours.insert(route);
                Ok(())
            }
        }
    }

    /// Somebody else changes it.
    pub(crate) fn change(&mut self, now: Instant, change: TableChange) {
        match change {
            TableChange::Take(route) => self.ours.remove(&route),
            TableChange::Occupy(prefix, metric) => self.others.insert((prefix.network(), metric)),
            TableChange::Vacate(prefix, metric) => self.others.remove(&(prefix.network(), metric)),
        };
        let _ = self.routes.found(now, &self.ours);
    }

    /// The node is no more: its routes go with its interface.
    pub(crate) fn bereave(&mut self) {
        let sides = std::mem::take(&mut self.sides);
        let others = std::mem::take(&mut self.others);
        *self = Self {
            others,
            ..Self::of(sides)
        };
    }

    /// A moment at which [`Self::act`] has something to do, if nothing is planned for it.
    pub(crate) fn plan(&mut self) -> Option<Instant> {
        let at = self.routes.wake();
        let before = std::mem::replace(&mut self.planned, at);
        at.filter(|_| before != at)
    }

    /// What the node leads its host by.
    pub(crate) const fn ours(&self) -> &BTreeSet<HostRoute> {
        &self.ours
    }
}
