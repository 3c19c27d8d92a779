//! Places for clients that aren't known to be there: whose SYN is held, and who haven't come for
//! the connection that they may have. Whoever forges a client's first packet pays one for each
//! place.

use strait_core::node::{Refusal, StreamId, StreamOp};
use strait_core::stats::ProxyRefusal;
use strait_core::{Duration, Instant};

use super::locals::Phase;
use super::{Proxy, TIMED_OUT};

/// How many of a partner's clients may have their SYN held: fewer than the far side takes (256), as
/// the ends of some and the beginnings of others cross.
pub(super) const HELD_MAX: usize = 192;
/// How many may have a connection at the server and not come for theirs.
pub(super) const COMING_MAX: usize = 192;
/// How long these are waited for where another would have the place. A host answers at once, and
/// what it is told is repeated after a second.
pub(super) const COMES: Duration = Duration::from_millis(500);

impl Proxy {
    /// Whether another of a partner's clients can have its SYN held. The first of too many makes
    /// place once its answer is overdue, and a client asks again.
    pub(super) fn make_place(&mut self, now: Instant, partner: usize) -> bool {
        let held = &self.locals.held;
        if held.all(partner).is_none_or(|it| it.len() < HELD_MAX) {
            return true;
        }
        let first = self.locals.oldest(partner, held);
        let patience = self.partners[partner].patience();
        self.end_overdue(first.filter(|(_, since)| *since + patience <= now))
    }

    /// Whether another of a partner's clients can be let in.
    pub(super) fn makes_way(&mut self, now: Instant, partner: usize) -> bool {
        let coming = &self.locals.coming;
        if coming.all(partner).is_none_or(|it| it.len() < COMING_MAX) {
            return true;
        }
        let first = self.locals.oldest(partner, coming);
        self.end_overdue(first.filter(|(_, since)| *since + COMES <= now))
    }

    fn end_overdue(&mut self, first: Option<(StreamId, Instant)>) -> bool {
        let Some((id, _)) = first else {
            return false;
        };
        self.turn_away(id);
        true
    }

    /// Ends a client that has no place.
    pub(super) fn turn_away(&mut self, id: StreamId) {
        let Some(local) = self.locals.one(id) else {
            return;
        };
        let (partner, key, phase) = (local.partner, local.key, local.phase);
        self.partners[partner].session.reset(key, TIMED_OUT);
        if phase == Phase::Asked {
            self.refuse(id, ProxyRefusal::Full, Refusal::Silence);
        } else {
            self.stats.refuse(ProxyRefusal::Gone);
            self.operate(id, StreamOp::Reset(i32::from(TIMED_OUT)));
        }
        self.forget(id);
    }
}
