//! The host sides of the gateway at which its kernel is: each has a wire and a TUN interface.

use std::net::IpAddr;

use strait_core::PortId;

use super::{Around, Kernel, TUN, WIRE};

/// A host side behind the first.
#[derive(Clone, Debug)]
pub struct FurtherSide {
    /// The gateway's port.
    pub at: PortId,
    /// Who is on the wire.
    pub hosts: Vec<IpAddr>,
}

/// The kernel's ports at the host side with this number: the interface and the wire.
pub(crate) const fn ports_at(side: usize) -> [PortId; 2] {
    let first = 2 * side as u8;
    [PortId(TUN.0 + first), PortId(WIRE.0 + first)]
}

impl Around {
    /// The first cable's port, behind those at host sides.
    pub(crate) fn cables_at(&self) -> PortId {
        let [_, next] = ports_at(1 + self.further.len());
        next
    }

    /// Whether a port is the network at a host side.
    pub(super) fn is_wire(&self, port: PortId) -> bool {
        port < self.cables_at() && port.0 & 1 == WIRE.0
    }

    /// Where a packet goes on that came by a port and isn't for the kernel.
    pub(super) fn across(&self, from: PortId) -> PortId {
        if from < self.cables_at() {
            return PortId(from.0 ^ 1);
        }
        TUN
    }

    /// The wire on which somebody is.
    pub(super) fn wire_of(&self, address: IpAddr) -> Option<PortId> {
        let further = self.further.iter().map(|side| &side.hosts);
        let mut wires = std::iter::once(&self.hosts).chain(further);
        let side = wires.position(|hosts| hosts.contains(&address));
        side.map(|side| ports_at(side)[1])
    }
}

impl Kernel {
    /// The port by which the kernel's own packets go to `dst`: that at which it is; an interface by
    /// which the gateway leads there; the first one.
    pub(super) fn outlet(&self, dst: IpAddr) -> PortId {
        if dst.is_multicast() {
            return WIRE;
        }
        if let Some(port) = self.around.port_of(dst) {
            return port;
        }
        let led = self.led.iter().filter(|it| it.prefix.contains(dst));
        let best = led.max_by_key(|it| it.prefix.length);
        let further = &self.around.further;
        let side = best.and_then(|led| further.iter().position(|side| side.at == led.lead.port));
        side.map_or(TUN, |side| ports_at(1 + side)[0])
    }
}
