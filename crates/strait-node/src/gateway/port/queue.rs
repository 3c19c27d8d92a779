//! Neighbours of a shared port that come and go, while the port stays up.

use strait_core::fate::Ledger;
use strait_core::{DropCause, Instant, NeighbourId, Packet};
use strait_qos::Scheduler;

use super::{Link, Port};

impl Port {
    /// Whether the medium says that a neighbour isn't there.
    pub(in crate::gateway) fn is_away(&self, to: NeighbourId) -> bool {
        !self.away.is_empty() && self.away.contains(&to)
    }

    /// The port comes up: who isn't there will be told, and who has another rate.
    pub(crate) fn all_there(&mut self) {
        self.away.clear();
        self.rates.clear();
    }

    /// A neighbour is there again: what waits for it may go.
    pub(crate) fn neighbour_came(&mut self, now: Instant, to: NeighbourId) {
        if !self.away.remove(&to) {
            return;
        }
        if let Link::Hops(hops) = &mut self.link {
            hops.set_neighbour(now, to, true);
        }
    }

    /// A neighbour is gone. Packets that had begun to leave for it are lost; those that wait go on
    /// waiting, and those of others go by.
    pub(crate) fn neighbour_went(&mut self, now: Instant, to: NeighbourId, ledger: &mut Ledger) {
        if !self.has_neighbour(to) || !self.away.insert(to) {
            return;
        }
        if let Link::Hops(hops) = &mut self.link {
            return hops.set_neighbour(now, to, false);
        }
        self.headers.reset_one(to);
        if let Link::Frames { neighbours, .. } = &mut self.link
            && let Some((sender, receiver)) = neighbours.get_mut(to.index())
        {
            let queue = &mut self.paths.to_mut(to).queue;
            sender.abandon().for_each(|packet: Packet| {
                queue.set_under_way(packet.class, to, 0);
                ledger.drop(now, packet, DropCause::PortDown);
            });
            receiver.reset();
        }
        self.settle_link();
    }
}
