//! What a node wants its host to reach by it, and what came of that: the part of
//! [`Effect::Route`](crate::node::Effect::Route) that drivers share.
//!
//! A driver has the node's wishes here ([`HostRoutes::ask`]), does what is due in batches
//! ([`HostRoutes::steps`], [`HostRoutes::done`]), and says what it finds when it has looked at the
//! host's table ([`HostRoutes::found`]). What can't be had is tried again, first after a second and
//! at last each sixteen, and what somebody took is put again, once a second at most: who fights
//! with another program over a route does so in peace.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::node::{Lead, RouteEvent, RouteOp};
use crate::prefix::Prefix;
use crate::time::{Duration, Instant};

/// Prefixes that a host may reach by one node: as many as the node's own table has. More are
/// refused, and not tried again.
pub const HOST_ROUTES_MAX: usize = 4096;

/// What is done at a time, so that packets go between.
pub const BATCH: usize = 64;

/// Pause before the same prefix is tried again; twice as long after each refusal.
const PAUSE: Duration = Duration::from_secs(1);
const DOUBLINGS_MAX: u32 = 4;

/// Errors of Linux: there is no such route, and no room for one more.
const NO_SUCH_ROUTE: i32 = 3;
const NO_BUFFERS: i32 = 105;

/// An entry of the host's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRoute {
    /// The network.
    pub prefix: Prefix,
    /// How it is reached.
    pub lead: Lead,
}

/// Something to do to the host's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Put this there, next to nothing of the same prefix and metric.
    Put(HostRoute),
    /// Take it away.
    Remove(HostRoute),
}

/// A prefix that the node has named.
#[derive(Debug, Default)]
struct Entry {
    wanted: Option<Lead>,
    there: Option<Lead>,
    told: Option<RouteEvent>,
    /// When something is to be done for it, if it is.
    due: Option<Instant>,
    tried: Option<Instant>,
    /// Refusals in a row.
    refusals: u32,
}

/// What a look at the host's table has shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What nobody wants, as it was left by a node that was killed. It is to be removed and needn't
    /// be [`HostRoutes::done`].
    pub left: Vec<HostRoute>,
    /// What the node is to be told.
    pub told: Vec<(Prefix, RouteEvent)>,
}

/// All prefixes that a node wants its host to reach by it.
#[derive(Debug, Default)]
pub struct HostRoutes {
    entries: BTreeMap<Prefix, Entry>,
    due: BTreeSet<(Instant, Prefix)>,
    /// Entries that the node wants; others wait for their end.
    wanted: usize,
}

impl HostRoutes {
    /// Takes a wish; what the node is told of it at once.
    pub fn ask(&mut self, now: Instant, prefix: Prefix, op: RouteOp) -> Option<RouteEvent> {
        let prefix = prefix.network();
        match op {
            RouteOp::Lead(lead) => self.lead(now, prefix, lead),
            RouteOp::Withdraw => {
                if let Some(entry) = self.entries.get_mut(&prefix) {
                    self.wanted -= usize::from(entry.wanted.take().is_some());
                    self.settle(now, prefix);
                }
                None
            }
        }
    }

    fn lead(&mut self, now: Instant, prefix: Prefix, lead: Lead) -> Option<RouteEvent> {
        let before = self.entries.get(&prefix).and_then(|entry| entry.wanted);
        if before == Some(lead) {
            return None;
        }
        if before.is_none() && self.wanted >= HOST_ROUTES_MAX {
            return Some(RouteEvent::Failed(NO_BUFFERS));
        }
        self.wanted += usize::from(before.is_none());
        let entry = self.entries.entry(prefix).or_default();
        entry.wanted = Some(lead);
        entry.told = (entry.there == Some(lead)).then_some(RouteEvent::There);
        let told = entry.told;
        self.settle(now, prefix);
        told
    }

    /// Plans what is left to do for a prefix at this moment; forgets it if that is nothing at all.
    fn settle(&mut self, at: Instant, prefix: Prefix) {
        let Some(entry) = self.entries.get_mut(&prefix) else {
            return;
        };
        if let Some(before) = entry.due.take() {
            self.due.remove(&(before, prefix));
        }
        if entry.wanted != entry.there {
            entry.due = Some(at);
            self.due.insert((at, prefix));
        } else if entry.wanted.is_none() {
            self.entries.remove(&prefix);
        }
    }

    /// When [`Self::steps`] has something.
    pub fn wake(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// What is to be done now, for [`BATCH`] prefixes at most. Each is to be [`Self::done`].
    pub fn steps(&mut self, now: Instant) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..BATCH {
            let Some(due @ (_, prefix)) = self.due.first().copied().filter(|(at, _)| *at <= now)
            else {
                break;
            };
            self.due.remove(&due);
            let Some(entry) = self.entries.get_mut(&prefix) else {
                continue;
            };
            (entry.due, entry.tried) = (None, Some(now));
            let route = |lead| HostRoute { prefix, lead };
            steps.extend(entry.there.map(route).map(Step::Remove));
            steps.extend(entry.wanted.map(route).map(Step::Put));
        }
        steps
    }

    /// A step came to this; the error number is the operating system's. What the node is told.
    pub fn done(
        &mut self,
        now: Instant,
        step: Step,
        result: Result<(), i32>,
    ) -> Option<(Prefix, RouteEvent)> {
        let (Step::Put(HostRoute { prefix, lead }) | Step::Remove(HostRoute { prefix, lead })) =
            step;
        let entry = self.entries.get_mut(&prefix)?;
        let event = match (step, result) {
            (Step::Put(_), Ok(())) => {
                entry.there = Some(lead);
                Some(RouteEvent::There)
            }
            (Step::Put(_), Err(error)) => Some(RouteEvent::Failed(error)),
            (Step::Remove(_), Ok(()) | Err(NO_SUCH_ROUTE)) => {
                // Another may have been put meanwhile.
                entry.there = entry.there.filter(|there| *there != lead);
                None
            }
            (Step::Remove(_), Err(_)) => None,
        };
        entry.refusals = if result.is_ok() {
            0
        } else {
            entry.refusals + 1
        };
        let doublings = entry.refusals.saturating_sub(1).min(DOUBLINGS_MAX);
        let news = event.filter(|event| entry.told != Some(*event));
        entry.told = event.or(entry.told);
        self.settle(now + PAUSE * (1 << doublings), prefix);
        news.map(|event| (prefix, event))
    }

    /// Whether the node wants just this.
    pub fn wants(&self, route: &HostRoute) -> bool {
        let entry = self.entries.get(&route.prefix);
        entry.is_some_and(|entry| entry.wanted == Some(route.lead))
    }

    /// Whether the node has named this network.
    pub fn names(&self, prefix: Prefix) -> bool {
        self.entries.contains_key(&prefix)
    }

    /// The host's table has these of this node. What is missing becomes due; what is wanted, by
    /// whomever it was put, needn't be.
    pub fn found(&mut self, now: Instant, found: &BTreeSet<HostRoute>) -> Found {
        let gone = |(prefix, entry): (&Prefix, &Entry)| {
            let lead = entry.there?;
            let prefix = *prefix;
            (!found.contains(&HostRoute { prefix, lead })).then_some(prefix)
        };
        let gone: Vec<Prefix> = self.entries.iter().filter_map(gone).collect();
        for prefix in gone {
            let Some(entry) = self.entries.get_mut(&prefix) else {
                continue;
            };
            entry.there = None;
            let at = entry.tried.map_or(now, |tried| now.max(tried + PAUSE));
            self.settle(at, prefix);
        }
        let mut told = Vec::new();
        for HostRoute { prefix, lead } in found
            .iter()
            .filter(|it| self.wants(it))
            .copied()
            .collect::<Vec<_>>()
        {
            let Some(entry) = self.entries.get_mut(&prefix) else {
                continue;
            };
            (entry.there, entry.refusals) = (Some(lead), 0);
            if entry.told.replace(RouteEvent::There) != Some(RouteEvent::There) {
                told.push((prefix, RouteEvent::There));
            }
            self.settle(now, prefix);
        }
        let known = |route: &&HostRoute| {
            let entry = self.entries.get(&route.prefix);
            entry.is_some_and(|entry| entry.there == Some(route.lead))
        };
        Found {
            left: found.iter().filter(|it| !known(it)).copied().collect(),
            told,
        }
    }

    /// Whether the node wants nothing, and there is nothing of it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the host has of them.
    pub fn there(&self) -> impl Iterator<Item = HostRoute> + '_ {
        self.entries.iter().filter_map(|(prefix, entry)| {
            let (prefix, lead) = (*prefix, entry.there?);
            Some(HostRoute { prefix, lead })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::PortId;

    const EXISTS: i32 = 17;

    fn prefix(n: usize) -> Prefix {
        let address = [10, (n >> 8) as u8, n as u8, 7].into();
        Prefix {
            address,
            length: 24,
        }
    }

    const fn lead(metric: u32) -> Lead {
        let port = PortId::HOST;
        Lead { port, metric }
    }

    fn route(n: usize, metric: u32) -> HostRoute {
        HostRoute {
            prefix: prefix(n).network(),
            lead: lead(metric),
        }
    }

    fn ask(routes: &mut HostRoutes, n: usize, metric: u32) -> Option<RouteEvent> {
        routes.ask(Instant::ZERO, prefix(n), RouteOp::Lead(lead(metric)))
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Does what is due, each with this result; what was done and what is told.
    fn act(
        routes: &mut HostRoutes,
        now: Instant,
        result: Result<(), i32>,
    ) -> (Vec<Step>, Vec<RouteEvent>) {
        let steps = routes.steps(now);
        let told = steps
            .iter()
            .filter_map(|step| routes.done(now, *step, result));
        let told = told.map(|(_, event)| event).collect();
        (steps, told)
    }

    #[test]
    fn a_refusal_is_told_once_and_tried_again_ever_more_rarely() {
        let mut routes = HostRoutes::default();
        assert_eq!(ask(&mut routes, 1, 0), None);
        assert_eq!(ask(&mut routes, 1, 0), None);
        let put = alloc::vec![Step::Put(route(1, 0))];
        let refused = act(&mut routes, at_ms(0), Err(EXISTS));
        assert_eq!(
            refused,
            (put.clone(), alloc::vec![RouteEvent::Failed(EXISTS)])
        );
        assert_eq!(routes.wake(), Some(at_ms(1000)));
        assert!(routes.steps(Instant::from_nanos(999_999_999)).is_empty());
        let again = act(&mut routes, at_ms(1000), Err(EXISTS));
        assert_eq!(again, (put.clone(), Vec::new()));
        for (at, next) in [
            (3000, 7000),
            (7000, 15_000),
            (15_000, 31_000),
            (31_000, 47_000),
        ] {
            assert_eq!(routes.wake(), Some(at_ms(at)));
            assert_eq!(act(&mut routes, at_ms(at), Err(EXISTS)).1, []);
            assert_eq!(routes.wake(), Some(at_ms(next)));
        }
        let had = act(&mut routes, at_ms(47_000), Ok(()));
        assert_eq!(had, (put, alloc::vec![RouteEvent::There]));
        assert_eq!((routes.wake(), routes.there().count()), (None, 1));
    }

    #[test]
    fn another_metric_takes_the_place_of_the_first() {
        let mut routes = HostRoutes::default();
        ask(&mut routes, 1, 5);
        act(&mut routes, at_ms(0), Ok(()));
        ask(&mut routes, 1, 6);
        let (steps, told) = act(&mut routes, at_ms(0), Ok(()));
        let [old, new] = [Step::Remove(route(1, 5)), Step::Put(route(1, 6))];
        assert_eq!(steps, [old, new]);
        assert_eq!(told, [RouteEvent::There]);
        // Withdrawn and led to again before anything was done: nothing is to do.
        routes.ask(at_ms(0), prefix(1), RouteOp::Withdraw);
        assert_eq!(ask(&mut routes, 1, 6), Some(RouteEvent::There));
        assert_eq!(routes.wake(), None);
        routes.ask(at_ms(0), prefix(1), RouteOp::Withdraw);
        let (steps, told) = act(&mut routes, at_ms(0), Err(NO_SUCH_ROUTE));
        assert_eq!(
            (steps, told),
            (alloc::vec![Step::Remove(route(1, 6))], Vec::new())
        );
        assert!(routes.entries.is_empty() && routes.due.is_empty());
    }

    #[test]
    fn what_somebody_took_is_put_again_once_a_second() {
        let mut routes = HostRoutes::default();
        ask(&mut routes, 1, 0);
        ask(&mut routes, 2, 0);
        act(&mut routes, at_ms(0), Ok(()));
        // A route of the second's metric, and one of nobody's, were left by another life.
        let strangers = [route(2, 9), route(3, 0)];
        let table = BTreeSet::from([route(2, 0), strangers[0], strangers[1]]);
        assert_eq!(routes.found(at_ms(10), &table).left, strangers);
        assert_eq!(routes.wake(), Some(at_ms(1000)));
        let put = alloc::vec![Step::Put(route(1, 0))];
        assert_eq!(act(&mut routes, at_ms(1000), Ok(())), (put, Vec::new()));
        assert_eq!(
            routes.found(at_ms(5000), &BTreeSet::new()),
            Found::default()
        );
        assert_eq!(routes.wake(), Some(at_ms(5000)));
    }

    #[test]
    fn what_is_there_as_wanted_is_taken_as_it_is() {
        let mut routes = HostRoutes::default();
        ask(&mut routes, 1, 0);
        let table = BTreeSet::from([route(1, 0)]);
        let there = (route(1, 0).prefix, RouteEvent::There);
        let found = routes.found(at_ms(0), &table);
        assert_eq!((found.left, found.told), (Vec::new(), alloc::vec![there]));
        assert_eq!((routes.wake(), routes.there().count()), (None, 1));
        assert_eq!(routes.found(at_ms(0), &table), Found::default());
        // Beside the one that it had, which nobody wants any more.
        ask(&mut routes, 1, 5);
        let table = BTreeSet::from([route(1, 0), route(1, 5)]);
        let found = routes.found(at_ms(0), &table);
        assert_eq!(
            (found.left, found.told),
            (alloc::vec![route(1, 0)], alloc::vec![there])
        );
        assert_eq!(routes.wake(), None);
    }

    #[test]
    fn the_end_of_an_old_one_is_not_that_of_its_successor() {
        let mut routes = HostRoutes::default();
        ask(&mut routes, 1, 5);
        act(&mut routes, at_ms(0), Ok(()));
        ask(&mut routes, 1, 6);
        let steps = routes.steps(at_ms(0));
        for step in steps.into_iter().rev() {
            routes.done(at_ms(0), step, Ok(()));
        }
        assert!(routes.there().eq([route(1, 6)]));
        assert_eq!(routes.wake(), None);
    }

    #[test]
    fn there_is_room_for_so_many_and_time_for_so_many_at_once() {
        let mut routes = HostRoutes::default();
        for n in 0..HOST_ROUTES_MAX {
            assert_eq!(ask(&mut routes, n, 0), None);
        }
        let full = Some(RouteEvent::Failed(NO_BUFFERS));
        assert_eq!(ask(&mut routes, HOST_ROUTES_MAX, 0), full);
        assert_eq!(ask(&mut routes, 0, 1), None);
        let mut rounds = 0;
        while !act(&mut routes, at_ms(0), Ok(())).0.is_empty() {
            rounds += 1;
        }
        assert_eq!(rounds, HOST_ROUTES_MAX / BATCH);
        routes.ask(at_ms(0), prefix(7), RouteOp::Withdraw);
        routes.ask(at_ms(0), prefix(7), RouteOp::Withdraw);
        assert_eq!(ask(&mut routes, HOST_ROUTES_MAX, 0), None);
        assert_eq!(ask(&mut routes, HOST_ROUTES_MAX + 1, 0), full);
    }
}
