//! Next hops that fetch their messages when they like, by ETRN (RFC 1985), and those from which
//! this switch fetches its own.

use core::net::IpAddr;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use super::queue::{Queue, Way, is_below};
use crate::precedence::Precedence;

/// What a next hop's polls have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Polls {
    /// It has asked for messages with numbers below.
    pub(super) called: u64,
    /// When this switch asks next; at once at first.
    asks_at: Instant,
}

impl Polls {
    /// When this switch asks it, by its key.
    pub(super) fn due(&self, every: Option<Duration>) -> Option<Instant> {
        every.map(|_| self.asks_at)
    }

    /// It has answered: it is asked again after a while.
    pub(super) fn asked(&mut self, now: Instant, every: Option<Duration>) {
        every.into_iter().for_each(|it| self.asks_at = now + it);
    }
}

/// Whether a precedence waits at a next hop until that asks for it.
pub(super) fn is_polled(queue: &Queue, hop: usize, precedence: Precedence) -> bool {
    let most = queue.hops.get(hop).and_then(|it| it.polled);
    most.is_some_and(|most| precedence <= most)
}

/// Messages with numbers below may go by a way.
pub(super) fn limit(queue: &Queue, way: Way, precedence: Precedence) -> u64 {
    match way {
        Way::Hop(hop) if is_polled(queue, hop, precedence) => queue.hops.polls(hop).called,
        _ => u64::MAX,
    }
}

/// The next hops at an address that may ask for the mail of `name`, a domain or `@` with one.
fn callers(queue: &Queue, address: IpAddr, name: &str) -> Vec<usize> {
    let domain = name.strip_prefix('@').unwrap_or(name);
    let hops = (0..queue.hops.len()).filter(|hop| {
        let there = queue
            .hops
            .get(*hop)
            .filter(|it| it.to == address && it.polled.is_some());
        let route = queue.hops.route_of(*hop);
        let route = route.and_then(|it| queue.settings.routes.get(it));
        there.is_some() && route.is_some_and(|it| is_below(&it.domains, domain))
    });
    hops.collect()
}

/// Whether somebody may ask for mail at all.
pub(super) fn may_poll(queue: &Queue, address: IpAddr) -> bool {
    let mut hops = (0..queue.hops.len()).filter_map(|hop| queue.hops.get(hop));
    hops.any(|it| it.to == address && it.polled.is_some())
}

/// How many messages wait until they are asked for by this name, if that is for who asks.
pub(super) fn awaits(queue: &Queue, address: IpAddr, name: &str) -> Option<usize> {
    let hops = callers(queue, address, name);
    let each = hops.iter().map(|hop| {
        let polled = Precedence::ALL
            .into_iter()
            .filter(|it| is_polled(queue, *hop, *it));
        polled
            .map(|it| {
                queue
                    .ready
                    .get(&(Way::Hop(*hop), it))
                    .map_or(0, BTreeSet::len)
            })
            .sum::<usize>()
    });
    (!hops.is_empty()).then(|| each.sum())
}

/// A next hop asks for what waits for it by now.
pub(super) fn call(queue: &mut Queue, now: Instant, address: IpAddr, name: &str) {
    let below = queue.next;
    for hop in callers(queue, address, name) {
        queue.stats.slow.polls += 1;
        queue.hops.heard(now, hop);
        queue.hops.set_called(hop, below);
    }
}

/// A connection to a next hop came to nothing, or its link went: it asks again when it likes.
pub(super) fn end_call(queue: &mut Queue, hop: usize, of: Option<Precedence>) {
    if of.is_none_or(|it| is_polled(queue, hop, it)) {
        queue.hops.set_called(hop, 0);
    }
}

/// Whether a next hop is to be asked for messages when it was looked last.
pub(super) fn asks(queue: &Queue, hop: usize) -> bool {
    queue.hops.is_to_be_asked(queue.looked, hop)
}
