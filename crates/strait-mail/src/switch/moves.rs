//! Messages that go over to another next hop of their route: because one is out, is there again, or
//! because an operator says so. One that a next hop may have already stays with it, as only that
//! one can tell: none comes twice. So before a message is begun, storage knows where.

use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::node::StoreOp;
use strait_core::{Duration, Instant};

use super::asks::{Asks, Change, Pending};
use super::queue::{Job, Queue, Target, Way};
use crate::message::Message;

/// What storage has of an operator's orders.
const DIVERTS: &[u8] = b"mail/divert/";
/// How long a message waits for a storage that couldn't take where it goes.
const AGAIN: Duration = Duration::from_secs(1);

/// The key of an operator's order that one next hop has what another would have.
fn divert_key(from: IpAddr, to: IpAddr) -> Vec<u8> {
    [DIVERTS, format!("{from} {to}").as_bytes()].concat()
}

pub(super) fn divert_of(key: &[u8]) -> Option<(IpAddr, IpAddr)> {
    let text = core::str::from_utf8(key.strip_prefix(DIVERTS)?).ok()?;
    let (from, to) = text.split_once(' ')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

impl Queue {
    /// The next hop of a route by which a message goes.
    pub(super) fn hop_for(&self, message: &Message, route: usize) -> usize {
        let mut there = self.hops.of_route(route);
        let there = there.find(|hop| self.may_be_at(message, *hop));
        self.hops.of(route, message.via, there)
    }

    /// Whether a next hop of several may have a message for some of its recipients.
    pub(super) fn may_be_at(&self, message: &Message, hop: usize) -> bool {
        let address = self.hops.get(hop).map(|it| it.to);
        let target = self.hops.route_of(hop).map(Target::Route);
        let mut recipients = message.recipients.iter();
        recipients
            .any(|it| it.at.is_some() && it.at == address && self.target_of(&it.address) == target)
    }

    /// Takes note of which next hop of several may have a message.
    pub(super) fn set_at(&mut self, way: Way, id: u64, at: Option<IpAddr>) {
        let target = self.target(way);
        let Some(mut message) = self.messages.remove(&id) else {
            return;
        };
        for recipient in &mut message.recipients {
            if self.target_of(&recipient.address) == target {
                recipient.at = at;
            }
        }
        self.messages.insert(id, message);
    }

    /// Whether storage knows that a message's next hop may have it from now on, where there are
    /// several; it is told if it doesn't.
    pub(super) fn is_noted(&mut self, way: Way, id: u64, asks: &mut Asks) -> bool {
        let Way::Hop(hop) = way else { return true };
        if !self.hops.has_others(hop) {
            return true;
        }
        let address = self.hops.get(hop).map(|it| it.to);
        let recipients = self.recipients(way, id);
        let Some(job) = self.jobs.get_mut(&(way, id)).filter(|it| !it.noting) else {
            return false;
        };
        if recipients.iter().all(|it| it.at == address) {
            return true;
        }
        job.noting = true;
        self.set_at(way, id, address);
        if let Some(envelope) = self.envelope(id) {
            asks.store(alloc::vec![envelope], Pending::Noted(way, id));
        }
        false
    }

    /// It is stored, or isn't.
    pub(super) fn hear_noted(&mut self, now: Instant, way: Way, id: u64, stored: bool) {
        let Some(job) = self.jobs.get_mut(&(way, id)) else {
            return;
        };
        (job.noting, job.noted) = (false, stored);
        if !stored {
            job.later = Some(now + AGAIN);
            self.later.insert((now + AGAIN, way, id));
            self.stats.unstored += 1;
            self.set_at(way, id, None);
            self.set_ready(way, id, false);
        }
        self.move_on(way, id);
    }

    /// Has a message that waits go by the next hop that it has now.
    pub(super) fn move_on(&mut self, way: Way, id: u64) {
        let Way::Hop(hop) = way else { return };
        let Some(route) = self.hops.route_of(hop) else {
            return;
        };
        let waits = |job: &&mut Job| !job.busy && !job.noting;
        let Some(job) = self.jobs.get_mut(&(way, id)).filter(waits) else {
            return;
        };
        let noted = job.noted;
        let Some(message) = self.messages.get(&id) else {
            return;
        };
        let to = match noted {
            // Nothing of it has gone there.
            true => self.hops.of(route, message.via, None),
            false => self.hop_for(message, route),
        };
        if to == hop {
            return;
        }
        if noted {
            self.set_at(way, id, None);
        }
        let to = Way::Hop(to);
        self.set_ready(way, id, false);
        if let Some(job) = self.jobs.remove(&(way, id)) {
            job.later
                .into_iter()
                .for_each(|at| _ = self.later.remove(&(at, way, id)));
            let moved = Job {
                tries: job.tries,
                said: job.said,
                ..Job::default()
            };
            self.jobs.insert((to, id), moved);
            self.set_ready(to, id, true);
            self.stats.moved += 1;
        }
    }

    /// Sees which next hops have messages now, and has those that wait go over to them.
    pub(super) fn choose_hops(&mut self) {
        for route in 0..self.hops.routes() {
            if self.hops.choose(route) {
                self.move_all(route);
            }
        }
        let hops = 0..self.hops.len();
        let out = hops.filter(|hop| self.hops.is_out(*hop)).count();
        self.stats.hops_out = out as u64;
    }

    fn move_all(&mut self, route: usize) {
        for hop in self.hops.of_route(route) {
            let way = Way::Hop(hop);
            let all = self.jobs.range((way, 0)..=(way, u64::MAX));
            let all: Vec<u64> = all.map(|((_, id), _)| *id).collect();
            all.into_iter().for_each(|id| self.move_on(way, id));
        }
    }

    /// An operator has a message go by a next hop, or again by the one that its route has.
    pub(super) fn reroute(&mut self, id: u64, to: Option<IpAddr>, asks: &mut Asks) {
        let Some(message) = self.messages.get_mut(&id) else {
            return;
        };
        message.via = to;
        for way in self.ways(id) {
            self.move_on(way, id);
        }
        let change = Change {
            ids: alloc::vec![id],
            ..Change::default()
        };
        self.store(change, asks);
    }

    /// An operator has one next hop have what another of its route would have, or not any more.
    pub(super) fn divert(&mut self, from: IpAddr, to: Option<IpAddr>, asks: &mut Asks) {
        if to.is_some_and(|to| !self.hops.go_together(from, to)) {
            return;
        }
        let was = self.hops.divert(from, to);
        let old = was.map(|was| StoreOp::Delete(divert_key(from, was)));
        let new = to.filter(|to| *to != from);
        let new = new.map(|to| StoreOp::Put(divert_key(from, to), b"1".to_vec()));
        let change = Change {
            texts: old.into_iter().chain(new).collect(),
            ..Change::default()
        };
        self.store(change, asks);
        self.choose_hops();
    }
}
