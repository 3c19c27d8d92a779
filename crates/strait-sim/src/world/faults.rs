//! What goes wrong on purpose, as it is done.

use strait_core::Input;
use strait_core::chance::Stream;
use strait_core::node::WallTime;

use super::{Body, Fault, Link, LinkIndex, NodeIndex, World};
use crate::kernel::Kernel;

impl World {
    pub(super) fn strike(&mut self, fault: &Fault) {
        match *fault {
            Fault::Kill(NodeIndex(node)) => self.kill(node),
            Fault::Restart(NodeIndex(node)) => self.restart(node),
            Fault::Unplug(LinkIndex(link)) => self.plug(link, false),
            Fault::Plug(LinkIndex(link)) => self.plug(link, true),
            Fault::Storage(NodeIndex(node), fault) => self.slots[node].store.set_fault(fault),
            Fault::Clock(NodeIndex(node), by) => {
                self.slots[node].ahead += by;
                self.give(node, Input::Wall(self.calendar(node)));
                self.settle(node);
            }
            Fault::HostTable(NodeIndex(node), change) => self.change_table(node, change),
            Fault::Reroute(NodeIndex(node), change) => {
                if matches!(self.slots[node].body, Body::Gateway { .. }) {
                    self.slots[node].rerouted.insert(self.fabric.now);
                    self.give(node, Input::Route(change));
                    self.settle(node);
                }
            }
        }
    }

    /// Simulated worlds begin with the year 1970, as the times in their captures do.
    pub(super) fn calendar(&self, node: usize) -> WallTime {
        let ahead = strait_core::time::nanos(self.slots[node].ahead);
        WallTime(self.fabric.now.as_nanos() + ahead)
    }

    /// The medium of a link is there, or gone, for all that its ends can know.
    fn plug(&mut self, link: usize, there: bool) {
        let now = self.fabric.now;
        let Link { medium, path, .. } = self.fabric.links[link];
        self.fabric.media[medium].medium.plug(now, path, there);
        self.attend(medium);
    }

    fn kill(&mut self, node: usize) {
        let mut chance = Stream::new(
            self.fabric.seed,
            &format!(
                "crash {} {}",
                self.slots[node].name, self.slots[node].incarnation
            ),
        );
        let slot = &mut self.slots[node];
        let Body::Gateway { .. } = slot.body else {
            return;
        };
        let body = std::mem::replace(&mut slot.body, Body::Dead { factory: None });
        if let Body::Gateway {
            node: dead,
            factory,
        } = body
        {
            slot.crashed += dead.stats().held();
            slot.past.push(dead.stats().clone());
            slot.body = Body::Dead {
                factory: Some(factory),
            };
        }
        slot.store.crash(&mut chance);
        slot.workshop.begin_anew();
        slot.table.bereave();
        self.turn_machine(node);
        let slot = &mut self.slots[node];
        slot.wake_at = None;
        self.silence(node);
        self.fabric.forget_reports(node);
        self.ask_kernel(node, Kernel::bereave);
        if let Some(paths) = &mut self.fabric.paths {
            paths.killed(node);
        }
    }

    fn restart(&mut self, node: usize) {
        let incarnation = self.slots[node].incarnation + 1;
        let stored = self.slots[node].store.contents();
        let boot = self.boot(&self.slots[node].name, incarnation, stored);
        let slot = &mut self.slots[node];
        let Body::Dead { factory } = &mut slot.body else {
            return;
        };
        let Some(factory) = factory.take() else {
            return;
        };
        slot.incarnation = incarnation;
        slot.body = Body::Gateway {
            node: factory.boot(boot),
            factory,
        };
        self.bring_up(node);
    }
}
