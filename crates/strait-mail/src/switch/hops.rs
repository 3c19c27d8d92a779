//! Next hops: which of a route's has its messages. A route's first has them as long as it is there;
//! one that is down or silent for too long is out until it is heard again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;

use strait_core::{Duration, Instant};

use super::polls::Polls;
use super::{HopSettings, RouteSettings};

/// How long a next hop that greets and answers for no message is out, at first and at most.
const DOUBT: Duration = Duration::from_secs(60);
const DOUBT_MAX: Duration = Duration::from_secs(3600);

/// A next hop.
#[derive(Debug)]
struct Hop {
    settings: HopSettings,
    route: usize,
    /// It has been down or silent for too long, and wasn't heard since.
    out: bool,
    /// Since when it is down, or is waited for and says nothing; and when that is too long.
    quiet: Option<Instant>,
    due: Option<Instant>,
    /// How often it greeted and then answered for no message, since it last did; and how long a
    /// greeting doesn't count for that.
    doubts: u32,
    again: Option<Instant>,
    polls: Polls,
}

/// A route's next hops, and the one that has its messages.
#[derive(Debug)]
struct Route {
    hops: Range<usize>,
    patience: Duration,
    used: usize,
}

/// All next hops, in the order of the routes.
#[derive(Debug)]
pub(super) struct Hops {
    all: Vec<Hop>,
    routes: Vec<Route>,
    /// By next hop: the one that an operator has in its place.
    instead: BTreeMap<IpAddr, IpAddr>,
}

impl Hops {
    pub(super) fn new(settings: &[RouteSettings], instead: BTreeMap<IpAddr, IpAddr>) -> Self {
        let (mut all, mut routes) = (Vec::new(), Vec::new());
        for (n, route) in settings.iter().enumerate() {
            let first = all.len();
            all.extend(route.hops.iter().map(|hop| Hop {
                settings: hop.clone(),
                route: n,
                out: false,
                quiet: None,
                due: None,
                doubts: 0,
                again: None,
                polls: Polls::default(),
            }));
            routes.push(Route {
                hops: first..all.len(),
                patience: route.patience,
                used: first,
            });
        }
        let mut hops = Self {
            all,
            routes,
            instead,
        };
        (0..hops.routes.len()).for_each(|route| _ = hops.choose(route));
        hops
    }

    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.all.iter().map(|hop| hop.settings.to)
    }

    /// How many connections each may have for a precedence.
    pub(super) fn connections(&self) -> impl Iterator<Item = usize> + '_ {
        self.all.iter().map(|hop| hop.settings.connections)
    }

    /// Whether it is a server of mailboxes.
    pub(super) fn is_lmtp(&self, hop: usize) -> bool {
        self.get(hop).is_some_and(|it| it.lmtp)
    }

    pub(super) fn get(&self, hop: usize) -> Option<&HopSettings> {
        self.all.get(hop).map(|hop| &hop.settings)
    }

    pub(super) fn route_of(&self, hop: usize) -> Option<usize> {
        self.all.get(hop).map(|hop| hop.route)
    }

    /// A route's next hops.
    pub(super) fn of_route(&self, route: usize) -> Range<usize> {
        self.routes.get(route).map_or(0..0, |it| it.hops.clone())
    }

    /// Whether a next hop's route has others.
    pub(super) fn has_others(&self, hop: usize) -> bool {
        let route = self.route_of(hop);
        route.is_some_and(|route| self.of_route(route).len() > 1)
    }

    /// A route's next hop at this address.
    pub(super) fn at(&self, route: usize, address: IpAddr) -> Option<usize> {
        let mut hops = self.of_route(route);
        hops.find(|hop| self.all[*hop].settings.to == address)
    }

    /// The next hop that has a route's messages.
    pub(super) fn used(&self, route: usize) -> usize {
        self.routes.get(route).map_or(0, |it| it.used)
    }

    /// The next hop of a route for a message: the one that is wanted, or that may have it.
    pub(super) fn of(&self, route: usize, wanted: Option<IpAddr>, there: Option<usize>) -> usize {
        let wanted = wanted.and_then(|to| self.at(route, to));
        wanted.or(there).unwrap_or_else(|| self.used(route))
    }

    pub(super) fn is_out(&self, hop: usize) -> bool {
        self.all.get(hop).is_some_and(|hop| hop.out)
    }

    /// A next hop says something.
    pub(super) fn heard(&mut self, now: Instant, hop: usize) {
        if let Some(hop) = self.all.get_mut(hop) {
            (hop.quiet, hop.due) = (None, None);
            hop.out &= hop.again.is_some_and(|at| now < at);
        }
    }

    /// It says what became of a message.
    pub(super) fn answered(&mut self, hop: usize) {
        if let Some(hop) = self.all.get_mut(hop) {
            (hop.doubts, hop.again, hop.out) = (0, None, false);
        }
    }

    /// It greeted, and then answered for no message in time: it is out, and longer each time.
    pub(super) fn doubt(&mut self, now: Instant, hop: usize) {
        if !self.has_others(hop) {
            return;
        }
        if let Some(hop) = self.all.get_mut(hop) {
            let pause = DOUBT.saturating_mul(1 << hop.doubts.min(8)).min(DOUBT_MAX);
            hop.doubts += 1;
            (hop.out, hop.again) = (true, Some(now + pause));
        }
    }

    /// Whether it is to show with one message that it answers for such.
    pub(super) fn is_doubted(&self, hop: usize) -> bool {
        self.all.get(hop).is_some_and(|hop| hop.doubts > 0)
    }

    /// The way to a next hop is there again: what it was silent for counts for nothing.
    pub(super) fn is_back(&mut self, hop: usize) {
        if let Some(hop) = self.all.get_mut(hop) {
            (hop.quiet, hop.due) = (None, None);
        }
    }

    /// Looks at a next hop of several: `missed` if its way isn't there, or it is waited for. True
    /// if it is out from now on. What is no time for it is that for an answer at least.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        hop: usize,
        missed: bool,
        answer: Duration,
    ) -> bool {
        let Some(hop) = self.all.get_mut(hop) else {
            return false;
        };
        let patience = self.routes[hop.route].patience.max(answer);
        if !missed {
            (hop.quiet, hop.due) = (None, None);
            return false;
        }
        let due = *hop.quiet.get_or_insert(now) + patience;
        hop.due = Some(due).filter(|_| !hop.out);
        let out = !hop.out && due <= now;
        hop.out |= out;
        out
    }

    /// What its polls have come to.
    pub(super) fn polls(&self, hop: usize) -> Polls {
        self.all.get(hop).map(|hop| hop.polls).unwrap_or_default()
    }

    /// It has asked for messages with numbers below.
    pub(super) fn set_called(&mut self, hop: usize, below: u64) {
        self.all
            .get_mut(hop)
            .into_iter()
            .for_each(|hop| hop.polls.called = below);
    }

    /// Whether this switch is to ask it for messages by now.
    pub(super) fn is_to_be_asked(&self, now: Instant, hop: usize) -> bool {
        let due = self
            .all
            .get(hop)
            .and_then(|hop| hop.polls.due(hop.settings.poll));
        due.is_some_and(|at| at <= now)
    }

    /// It has been asked.
    pub(super) fn asked(&mut self, now: Instant, hop: usize) {
        self.all
            .get_mut(hop)
            .into_iter()
            .for_each(|hop| hop.polls.asked(now, hop.settings.poll));
    }

    /// When one of them is out, if nothing is heard of it.
    pub(super) fn wake(&self) -> Option<Instant> {
        let dues = self.all.iter().filter_map(|hop| hop.due);
        let out = self.all.iter().filter(|hop| hop.out);
        let polls = self
            .all
            .iter()
            .filter_map(|hop| hop.polls.due(hop.settings.poll));
        let dues = dues.chain(out.filter_map(|hop| hop.again));
        dues.chain(polls).min()
    }

    /// Sees which next hop is to have a route's messages; whether that is another than before.
    /// Where none is there, it stays.
    pub(super) fn choose(&mut self, route: usize) -> bool {
        let in_place = |hop: usize| {
            let instead = self.instead.get(&self.all[hop].settings.to);
            let instead = instead.and_then(|to| self.at(route, *to));
            instead.unwrap_or(hop)
        };
        let mut hops = self.of_route(route).map(in_place);
        let found = hops.find(|hop| !self.all[*hop].out);
        let Some((route, found)) = self.routes.get_mut(route).zip(found) else {
            return false;
        };
        core::mem::replace(&mut route.used, found) != found
    }

    /// Has another next hop have what one would have, or not any more; the one that it was.
    pub(super) fn divert(&mut self, from: IpAddr, to: Option<IpAddr>) -> Option<IpAddr> {
        match to.filter(|to| *to != from) {
            Some(to) => self.instead.insert(from, to),
            None => self.instead.remove(&from),
        }
    }

    /// The next hop that an operator has in this one's place.
    pub(super) fn instead_of(&self, hop: usize) -> Option<IpAddr> {
        self.instead.get(&self.get(hop)?.to).copied()
    }

    /// Whether some route has both.
    pub(super) fn go_together(&self, one: IpAddr, other: IpAddr) -> bool {
        let mut routes = 0..self.routes.len();
        routes.any(|it| self.at(it, one).is_some() && self.at(it, other).is_some())
    }

    pub(super) const fn routes(&self) -> usize {
        self.routes.len()
    }
}
