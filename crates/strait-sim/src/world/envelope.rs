//! Frames of a port inside packets, which other nodes may carry.

use std::net::{IpAddr, SocketAddr};

use strait_core::{ClassId, NeighbourId, PortId};
use strait_wire::ip::{self, IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, PacketInfo};

use super::{NodeIndex, Port, World};

/// Where the packets around a port's frames come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) kind: EnvelopeKind,
    /// By class of what a packet carries, its differentiated services code point.
    pub(crate) code_points: Vec<u8>,
}

/// What stands between an IP header and a frame: the port's own end first, then its neighbour's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EnvelopeKind {
    /// A UDP header.
    Udp([SocketAddr; 2]),
    /// Nothing: the frame is the payload of this protocol.
    Raw([IpAddr; 2], u8),
}

/// Octets of a UDP header.
const UDP_OCTETS: usize = 8;
/// Initial hop limit, as Linux has it.
const HOP_LIMIT: u8 = 64;

impl Envelope {
    /// Octets that it adds to a frame.
    pub(super) fn octets(&self) -> usize {
        let (own, more) = match self.kind {
            EnvelopeKind::Udp([own, _]) => (own.ip(), UDP_OCTETS),
            EnvelopeKind::Raw([own, _], _) => (own, 0),
        };
        let header = if own.is_ipv4() {
            IPV4_HEADER_OCTETS
        } else {
            IPV6_HEADER_OCTETS
        };
        header + more
    }

    /// The packet around a frame; nothing if none can hold it.
    pub(super) fn wrap(&self, class: ClassId, frame: &[u8]) -> Vec<u8> {
        let dscp = self.code_points.get(class.index()).copied();
        let dscp = dscp.unwrap_or_default();
        let mut packet = Vec::with_capacity(frame.len() + self.octets());
        match self.kind {
            EnvelopeKind::Udp([own, peer]) => {
                ip::build_udp(own, peer, dscp, HOP_LIMIT, 0, 0, frame, &mut packet)
            }
            EnvelopeKind::Raw([own, peer], protocol) => {
                ip::build_packet((own, peer), protocol, dscp, HOP_LIMIT, frame, &mut packet)
            }
        };
        packet
    }

    /// The frame in a packet from the neighbour; nothing else is for this port.
    pub(super) fn content<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let info = PacketInfo::parse(packet).ok()?;
        let ours = match self.kind {
            EnvelopeKind::Udp([own, peer]) => {
                let ends = (info.src, info.dst) == (peer.ip(), own.ip());
                ends && info.ports == Some((peer.port(), own.port()))
            }
            EnvelopeKind::Raw([own, peer], protocol) => {
                (info.src, info.dst, info.protocol) == (peer, own, protocol)
            }
        };
        packet.get(self.octets()..).filter(|_| ours)
    }
}

impl World {
    /// From now on frames of a port to a neighbour go as packets; by whatever node its link leads
    /// to, if the neighbour is at `far`.
    pub(crate) fn set_envelope(
        &mut self,
        (node, id, neighbour): (NodeIndex, PortId, NeighbourId),
        far: Option<NodeIndex>,
        envelope: Envelope,
    ) {
        let port = &mut self.slots[node.0].ports[id.index()];
        let envelopes = port.envelopes.get_or_insert_default();
        envelopes.insert(neighbour, envelope);
        self.has_envelopes = true;
        if let (Some(paths), Some(far)) = (&mut self.fabric.paths, far) {
            paths.carry((node.0, id, neighbour), far.0);
        }
    }
}

impl Port {
    /// The packets that its frames for a neighbour go in.
    pub(super) fn envelope(&self, to: NeighbourId) -> Option<&Envelope> {
        self.envelopes.as_ref()?.get(&to)
    }

    fn envelopes(&self) -> impl Iterator<Item = &Envelope> {
        self.envelopes.iter().flat_map(|all| all.values())
    }

    /// Whether its frames are the payload of packets of a protocol of their own.
    pub(super) fn sends_raw(&self) -> bool {
        let mut envelopes = self.envelopes();
        envelopes.any(|it| matches!(it.kind, EnvelopeKind::Raw(..)))
    }

    /// Octets that packets add to the longest frames.
    pub(super) fn envelope_octets(&self) -> usize {
        let octets = self.envelopes().map(Envelope::octets);
        octets.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(own: &str, peer: &str) -> EnvelopeKind {
        EnvelopeKind::Udp([own, peer].map(|text| text.parse().unwrap()))
    }

    fn raw(own: &str, peer: &str) -> EnvelopeKind {
        EnvelopeKind::Raw([own, peer].map(|text| text.parse().unwrap()), 253)
    }

    #[test]
    fn what_is_wrapped_is_found_again_and_nothing_else() {
        let (v4, v6) = (["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]);
        for (near, far, octets) in [
            (
                udp("[fd00::1]:7001", "[fd00::2]:7001"),
                udp("[fd00::2]:7001", "[fd00::1]:7001"),
                48,
            ),
            (
                udp("10.0.0.1:1", "10.0.0.2:2"),
                udp("10.0.0.2:2", "10.0.0.1:1"),
                28,
            ),
            (raw(v4[0], v4[1]), raw(v4[1], v4[0]), 20),
            (raw(v6[0], v6[1]), raw(v6[1], v6[0]), 40),
        ] {
            let [near, far] = [near, far].map(|kind| Envelope {
                kind,
                code_points: vec![46, 0],
            });
            for (class, dscp) in [(0, 46), (1, 0), (2, 0)] {
                let mut packet = near.wrap(ClassId(class), &[1, 2, 3]);
                assert_eq!(packet.len(), octets + 3);
                let info = PacketInfo::parse(&packet).unwrap();
                assert_eq!(info.dscp, dscp);
                assert_eq!(far.content(&packet), Some(&[1, 2, 3][..]));
                assert_eq!(near.content(&packet), None);
                packet.pop();
                assert_eq!(far.content(&packet), None);
            }
        }
    }

    #[test]
    fn packets_of_another_protocol_are_for_somebody_else() {
        let envelope = |own, peer, protocol| Envelope {
            kind: match raw(own, peer) {
                EnvelopeKind::Raw(ends, _) => EnvelopeKind::Raw(ends, protocol),
                kind @ EnvelopeKind::Udp(_) => kind,
            },
            code_points: Vec::new(),
        };
        let packet = envelope("10.0.0.1", "10.0.0.2", 253).wrap(ClassId(0), b"x");
        let far = |protocol| envelope("10.0.0.2", "10.0.0.1", protocol);
        assert_eq!(far(253).content(&packet), Some(&b"x"[..]));
        assert_eq!(far(254).content(&packet), None);
    }
}
