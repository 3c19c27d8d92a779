//! What frames, streams and time have brought about at links.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::{Instant, NeighbourId};

use super::Gateway;
use super::port::{Arrival, Port, Settles};
use super::port_set::PortSet;

/// Ports that are asked what came of an input, by when; see [`Settles`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Settling {
    first: PortSet,
    once: PortSet,
    until_quiet: PortSet,
}

impl Settling {
    /// `None` if there are none.
    pub(super) fn of(ports: &[Port]) -> Option<Box<Self>> {
        let such = |when| {
            let such = ports.iter().filter(|port| port.link.settles() == when);
            such.map(|port| port.id).collect()
        };
        let settling = Self {
            first: such(Settles::First),
            once: such(Settles::Once),
            until_quiet: such(Settles::UntilQuiet),
        };
        let settles = |port: &Port| port.link.settles() != Settles::Never;
        ports.iter().any(settles).then(|| Box::new(settling))
    }

    /// Ports whose links may have something to say to the driver.
    pub(super) fn said(&self) -> PortSet {
        self.once.union(self.until_quiet)
    }
}

impl Gateway {
    /// Ends and begins what frames, streams and time have brought about at links.
    pub(super) fn settle_links(&mut self, now: Instant) {
        let Some(settling) = self.settling.as_deref().copied() else {
            return self.set_stops();
        };
        self.settle_ports(now, settling.first);
        self.set_stops();
        self.settle_ports(now, settling.once);
        while self.settle_ports(now, settling.until_quiet) {}
    }

    /// The same at some ports; whether anything came by them.
    fn settle_ports(&mut self, now: Instant, ports: PortSet) -> bool {
        let mut came = Vec::new();
        for id in ports {
            if self.ports[id.index()].settle(now, &mut self.ledger, &mut came) {
                self.forget_beyond(id, NeighbourId::ALL);
                self.tell_stations(now, id);
                self.look_for_ways(now);
            }
        }
        let any = !came.is_empty();
        for (arrival, from) in came {
            match arrival {
                Arrival::Admitted(packet) => self.take_admitted(now, packet, from),
                Arrival::Octets(bytes) => self.take_packet(now, bytes, from),
            }
        }
        any
    }
}
