//! What a gateway keeps off its links: background chatter, and questions that it answers itself.

use strait_core::fate::Origin;
use strait_core::local::Question;
use strait_core::node::RouteChange;
use strait_core::{DropCause, Fate, Instant, NeighbourId, Packet, PortId};
use strait_wire::ip::Chatter;

use super::{Gateway, host_side};
use crate::answers::Learned;
use crate::route::Hop;

impl Gateway {
    /// Drops a packet if it is chatter that isn't to cross the link at `side`, in or out; chatter
    /// without a way is counted as such, too. Gives back what is to go on.
    pub(super) fn keep_off(
        &mut self,
        now: Instant,
        packet: Packet,
        kind: Option<Chatter>,
        side: Option<Hop>,
    ) -> Option<Packet> {
        let is_host = || side.is_some_and(|side| self.is_host(side));
        let Some(kind) = kind.filter(|_| !is_host()) else {
            return Some(packet);
        };
        if side.is_some_and(|side| self.ports[side.port.index()].queue.passes(kind)) {
            return Some(packet);
        }
        let octets = packet.info().octets;
        self.ledger.stats_mut().local.count_chatter(kind, octets);
        self.ledger.drop(now, packet, DropCause::Chatter);
        None
    }

    /// Answers a packet that is about to leave by `hop`, if it is a question with a stored reply.
    /// Gives back what is to go on.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        packet: Packet,
        hop: Hop,
        from: Hop,
    ) -> Option<Packet> {
        if self.is_host(hop) {
            if !self.is_host(from) {
                let learned = self.answers.hear_hello(now, &packet, from, hop.port);
                self.count(learned);
            }
            return Some(packet);
        }
        if self.answers.is_repeated(now, &packet, hop) {
            let octets = packet.info().octets;
            let stats = &mut self.ledger.stats_mut().local;
            stats.count_answer(Question::Hello, octets);
            self.ledger.close(now, packet, Fate::Absorbed);
            return None;
        }
        let (reply, learned) = self.answers.ask(now, &packet, hop);
        self.count(learned);
        let Some((kind, bytes)) = reply else {
            return Some(packet);
        };
        let Ok(mut reply) = self.ledger.admit(now, bytes, Origin::Own) else {
            return Some(packet);
        };
        let octets = packet.info().octets;
        self.ledger.stats_mut().local.count_answer(kind, octets);
        self.ledger.close(now, packet, Fate::Answered);
        reply.class = self.policy.classify(reply.info()).class;
        reply.to = from.to;
        self.enqueue(now, reply, from.port);
        None
    }

    /// Gives the host sides the hellos of routers beyond the links that are due.
    pub(super) fn repeat_hellos(&mut self, now: Instant) {
        for (bytes, side) in self.answers.due(now) {
            let octets = bytes.len() as u32;
            self.ledger.stats_mut().local.repeated.count(octets);
            self.send_own(now, bytes, host_side(side));
        }
    }

    /// Learns from a packet that came by a link.
    pub(super) fn learn(&mut self, now: Instant, packet: &Packet, from: Hop) {
        if !self.is_host(from) {
            let src = packet.info().src;
            // A look-up in many routes, of use only for who remembers hosts.
            let remembers = self.answers.knows_hosts() || self.has_ethernet();
            let led = remembers && self.routes.lookup(src) == Some(from);
            let learned = self.answers.hear(now, packet, from, led);
            self.count(learned);
            if led {
                self.vouch(now, src);
            }
        }
    }

    /// A neighbour, or all of a port, are known down.
    pub(super) fn forget_beyond(&mut self, port: PortId, to: NeighbourId) {
        let forgotten = self.answers.forget_beyond(port, to);
        self.ledger.stats_mut().local.forgotten += forgotten;
    }

    /// Takes a change of the host's routes: stored replies came by the ways before.
    pub(super) fn change_routes(&mut self, change: RouteChange) {
        let forgotten = self.answers.forget_all();
        self.ledger.stats_mut().local.forgotten += forgotten;
        self.take_route(change);
    }

    fn count(&mut self, learned: Learned) {
        if learned == Learned::default() {
            return;
        }
        let stats = &mut self.ledger.stats_mut().local;
        stats.stored += learned.stored;
        stats.forgotten += learned.forgotten;
        stats.displaced += learned.displaced;
    }
}
