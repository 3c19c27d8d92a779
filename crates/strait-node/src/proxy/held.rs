//! Places for clients whose SYN is held.

use strait_core::Instant;
use strait_core::node::Refusal;
use strait_core::stats::ProxyRefusal;

use super::{Proxy, TIMED_OUT};

/// How many of a partner's clients may have their SYN held: fewer than the far side takes (256), as
/// the ends of some and the beginnings of others cross.
pub(super) const HELD_MAX: usize = 192;

impl Proxy {
    /// Whether another of a partner's clients can have its SYN held. Whoever forges these pays a
    /// packet for each: the first of too many makes place once its answer is overdue, and a client
    /// asks again.
    pub(super) fn make_place(&mut self, now: Instant, partner: usize) -> bool {
        let Some((id, since)) = self.locals.first_of_too_many(partner, HELD_MAX) else {
            return true;
        };
        let overdue = since + self.partners[partner].patience() <= now;
        let Some(local) = self.locals.one(id).filter(|_| overdue) else {
            return false;
        };
        self.partners[partner].session.reset(local.key, TIMED_OUT);
        self.refuse(id, ProxyRefusal::Full, Refusal::Silence);
        self.forget(id);
        true
    }
}
