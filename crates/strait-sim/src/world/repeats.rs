//! Ports whose packets stay with their node until the next one has them.

use strait_core::PortId;
use strait_core::stats::Stats;

use super::{Attach, NodeIndex, World};

impl World {
    /// Joins two ports whose packets go by stations of others.
    pub fn join_by_stations(&mut self, ends: [Attach; 2]) {
        for end in ends {
            self.reserve_ports(end.node, end.port.0 + 1);
        }
        if let Some(paths) = &mut self.fabric.paths {
            paths.join_by_stations(ends);
        }
        self.by_stations.push(ends);
    }

    /// Ports whose packets go by stations of others, in pairs.
    pub(crate) fn joined_by_stations(&self) -> &[[Attach; 2]] {
        &self.by_stations
    }

    /// Says that a node keeps what it sends by a port until it has come, and repeats it. To be
    /// called after [`World::trace_paths`] and when the port is joined.
    pub fn set_repeats(&mut self, node: NodeIndex, port: PortId) {
        self.repeating.insert((node, port));
        if let Some(paths) = &mut self.fabric.paths {
            paths.set_repeats(node.0, port);
        }
    }

    /// Whether a node keeps what it sends by a port.
    pub(crate) fn repeats(&self, node: NodeIndex, port: PortId) -> bool {
        self.repeating.contains(&(node, port))
    }

    /// How often a node's routes changed, at different times: then packets go another way that the
    /// one before may have had.
    pub(crate) fn reroutes(&self, NodeIndex(node): NodeIndex) -> u64 {
        self.slots[node].rerouted.len() as u64
    }

    /// Packets whose senders may not know that they have come: all that nodes hold, gave up or lost
    /// holding them.
    pub(crate) fn untold(&self) -> u64 {
        let ended = |stats: &&Stats| stats.held() + stats.dropped.total();
        let nodes = (0..self.slots.len()).map(NodeIndex);
        nodes
            .map(|node| self.lives(node).0.iter().map(ended).sum::<u64>())
            .sum()
    }

    /// Packets that a node took in and nobody sent, as far as can be told: must be none.
    pub fn unexplained(&self) -> u64 {
        let Some(paths) = self.paths() else { return 0 };
        paths.unexplained() + paths.early().saturating_sub(self.untold())
    }
}
