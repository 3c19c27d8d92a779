//! Which application or connection of a host wants to be called when.

use std::collections::{BTreeMap, BTreeSet};

use strait_core::Instant;

use super::{AppId, ConnectionId};

/// Whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Connection(ConnectionId),
    App(AppId),
}

/// One deadline for each owner; the earliest is found without looking at the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    at: BTreeMap<Owner, Instant>,
    order: BTreeSet<(Instant, Owner)>,
}

impl Schedule {
    /// Sets the deadline of `owner`, whatever it was; `None` removes it.
    pub(super) fn set(&mut self, owner: Owner, at: Option<Instant>) {
        let old = match at {
            Some(at) => self.at.insert(owner, at),
            None => self.at.remove(&owner),
        };
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.order.remove(&(old, owner));
        }
        if let Some(at) = at {
            self.order.insert((at, owner));
        }
    }

    /// Takes the first owner whose deadline has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Owner> {
        let (at, owner) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.order.pop_first();
        self.at.remove(&owner);
        Some(owner)
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_at_their_deadline_in_order_and_once() {
        let mut schedule = Schedule::default();
        let (app, connection) = (Owner::App(AppId(0)), Owner::Connection(ConnectionId(7)));
        schedule.set(app, Some(Instant::from_nanos(20)));
        schedule.set(app, Some(Instant::from_nanos(10)));
        schedule.set(connection, Some(Instant::from_nanos(10)));
        assert_eq!(schedule.next(), Some(Instant::from_nanos(10)));
        assert_eq!(schedule.pop_due(Instant::from_nanos(9)), None);
        assert_eq!(schedule.pop_due(Instant::from_nanos(10)), Some(connection));
        assert_eq!(schedule.pop_due(Instant::from_nanos(10)), Some(app));
        assert_eq!(schedule.pop_due(Instant::from_nanos(20)), None);
        schedule.set(app, Some(Instant::from_nanos(5)));
        schedule.set(app, None);
        assert_eq!(schedule.next(), None);
    }
}
