//! What hosts reach by the nodes that lead them.

use strait_core::host_routes::HostRoute;
use strait_core::node::RouteOp;
use strait_core::prefix::Prefix;
use strait_core::{Input, PortId};

use super::{Body, NodeIndex, World};
use crate::event::What;
use crate::host_table::{HostTable, TableChange};

impl World {
    /// What a node leads its host by.
    pub fn led(&self, node: NodeIndex) -> impl Iterator<Item = HostRoute> + '_ {
        self.slots[node.0].table.ours().iter().copied()
    }

    /// Says that a router is the machine that a node runs on, and has the node at its first port:
    /// it goes by what the node leads it to.
    pub fn set_machine(&mut self, node: NodeIndex, router: NodeIndex) {
        self.slots[node.0].machine = Some(router.0);
        // Like a host it has no classes.
        if let Some(paths) = &mut self.fabric.paths {
            paths.set_host(router.0);
        }
    }

    /// Says which ports of a node are its host sides; without it, the first.
    pub fn set_host_sides(&mut self, node: NodeIndex, sides: impl IntoIterator<Item = PortId>) {
        *self.slots[node.0].table = HostTable::of(sides.into_iter().collect());
    }

    /// Has the node's machine go by what the node leads it to now.
    pub(super) fn turn_machine(&mut self, node: usize) {
        if let Some(index) = self.kernel_of(node) {
            let led = self.slots[node].table.ours().clone();
            if let Body::Kernel(kernel) = &mut self.slots[index].body {
                kernel.lead(led);
            }
        }
        let Some(machine) = self.slots[node].machine else {
            return;
        };
        let led = self.slots[node].table.ours().clone();
        if let Body::Router(router) = &mut self.slots[machine].body {
            router.lead(led);
        }
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
        self.turn_machine(node);
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
