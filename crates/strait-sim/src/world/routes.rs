//! What hosts reach by the nodes that lead them.

use strait_core::Input;
use strait_core::host_routes::HostRoute;
use strait_core::node::RouteOp;
use strait_core::prefix::Prefix;

use super::{NodeIndex, World};
use crate::event::What;
use crate::host_table::TableChange;

impl World {
    /// What a node leads its host by.
    pub fn led(&self, node: NodeIndex) -> impl Iterator<Item = HostRoute> + '_ {
        self.slots[node.0].table.ours().iter().copied()
    }

    /// Takes a wish of a node.
    pub(super) fn lead(&mut self, node: usize, prefix: Prefix, op: RouteOp) {
        let now = self.fabric.now;
        if let Some(event) = self.slots[node].table.ask(now, prefix, op) {
            let prefix = prefix.network();
            self.give(node, Input::Routed { prefix, event });
        }
        self.tend_table(node);
    }

    /// Does what is due for the table of a node's host.
    pub(super) fn tend_table(&mut self, node: usize) {
        let now = self.fabric.now;
        for (prefix, event) in self.slots[node].table.act(now) {
            self.give(node, Input::Routed { prefix, event });
        }
        if let Some(at) = self.slots[node].table.plan() {
            self.fabric.events.push(at, node, What::Routes);
        }
    }

    /// Somebody else changes that table.
    pub(super) fn change_table(&mut self, node: usize, change: TableChange) {
        self.slots[node].table.change(self.fabric.now, change);
        self.tend_table(node);
        self.settle(node);
    }
}
