//! Frames of a port inside datagrams that other nodes carry.

use std::net::SocketAddr;

use strait_core::{ClassId, NeighbourId, PortId};
use strait_wire::ip::{self, PacketInfo};

use super::{NodeIndex, World};

/// Where the datagrams of a port come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The port's own socket.
    pub(crate) own: SocketAddr,
    /// That of its neighbour.
    pub(crate) peer: SocketAddr,
    /// By class of what a datagram carries, its differentiated services code point.
    pub(crate) code_points: Vec<u8>,
}

/// Octets of a UDP header.
const UDP_OCTETS: usize = 8;
/// Initial hop limit, as Linux has it.
const HOP_LIMIT: u8 = 64;

impl Envelope {
    /// Puts a frame into a datagram, in its place. What no datagram can hold becomes nothing.
    pub(super) fn wrap(&self, class: ClassId, frame: &mut Vec<u8>) {
        let dscp = self.code_points.get(class.index()).copied();
        let dscp = dscp.unwrap_or_default();
        let mut packet = Vec::with_capacity(frame.len() + 48);
        ip::build_udp(
            self.own,
            self.peer,
            dscp,
            HOP_LIMIT,
            0,
            0,
            frame,
            &mut packet,
        );
        *frame = packet;
    }

    /// The frame in a datagram from the neighbour; nothing else is for this port.
    pub(super) fn content<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let info = PacketInfo::parse(packet).ok()?;
        let ends = (info.src, info.dst) == (self.peer.ip(), self.own.ip());
        let ports = info.ports == Some((self.peer.port(), self.own.port()));
        let headers = if info.src.is_ipv4() { 20 } else { 40 } + UDP_OCTETS;
        packet.get(headers..).filter(|_| ends && ports)
    }
}

impl World {
    /// From now on frames of a port go to `far` as datagrams, by whatever node its link leads to.
    pub(crate) fn set_envelope(
        &mut self,
        port: (NodeIndex, PortId, NeighbourId),
        far: NodeIndex,
        envelope: Envelope,
    ) {
        let (node, id, neighbour) = port;
        self.slots[node.0].ports[id.index()].envelope = Some(envelope);
        if let Some(paths) = &mut self.fabric.paths {
            paths.carry((node.0, id, neighbour), far.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrapped_is_found_again_and_nothing_else() {
        for [own, peer] in [
            ["[fd00::1]:7001", "[fd00::2]:7001"],
            ["10.0.0.1:1", "10.0.0.2:2"],
        ] {
            let [own, peer] = [own, peer].map(|text| text.parse().unwrap());
            let near = Envelope {
                own,
                peer,
                code_points: vec![46, 0],
            };
            let far = Envelope {
                own: peer,
                peer: own,
                ..near.clone()
            };
            for (class, dscp) in [(0, 46), (1, 0), (2, 0)] {
                let mut frame = vec![1, 2, 3];
                near.wrap(ClassId(class), &mut frame);
                let info = PacketInfo::parse(&frame).unwrap();
                assert_eq!(info.dscp, dscp);
                assert_eq!(far.content(&frame), Some(&[1, 2, 3][..]));
                assert_eq!(near.content(&frame), None);
                frame.pop();
                assert_eq!(far.content(&frame), None);
            }
        }
    }
}
