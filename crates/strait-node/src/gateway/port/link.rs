//! How packets cross the medium at a port.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::{NeighbourId, Packet};
use strait_link::{FrameSender, OctetSender, Receiver};

use super::hf::Hf;
use super::hf_client::HfClient;
use super::hop::Hops;
use super::ip_client::IpClient;
use crate::gateway::lan::Lan;

/// How packets cross the medium at a port.
#[derive(Debug)]
pub(super) enum Link {
    /// IP packets as they are: the host side, perhaps on an Ethernet, or a link of profile `ip`.
    Host(Option<Box<Lan>>),
    /// An octet stream to one neighbour.
    Octets(Box<(OctetSender, Receiver)>),
    /// Frames to each neighbour.
    Frames {
        neighbours: Vec<(FrameSender, Receiver)>,
        frame_octets_max: usize,
    },
    /// Frames to each neighbour that are repeated until they have come.
    Hops(Box<Hops>),
    /// A radio's turns, with stations that repeat what got lost.
    Hf(Box<Hf>),
    /// A station of somebody else's, by its socket.
    Client(Box<HfClient>),
}

impl Link {
    /// How many others there are at the other end.
    pub(super) fn neighbours(&self) -> usize {
        match self {
            Self::Host(_) | Self::Octets(_) => 1,
            Self::Frames { neighbours, .. } => neighbours.len(),
            Self::Hops(hops) => hops.neighbours(),
            Self::Hf(hf) => hf.neighbours(),
            Self::Client(client) => client.neighbours(),
        }
    }

    /// Counts a packet that comes into the queue (1) or leaves it (-1), where that matters.
    pub(super) fn count_waiting(&mut self, packet: &Packet, packets: isize) {
        match self {
            Self::Hf(hf) => hf.ip.count(packet, packets),
            Self::Client(client) => client.ip.count(packet, packets),
            _ => {}
        }
    }

    /// What decides on packets as client data of STANAG 5066.
    pub(super) fn ip_client(&self) -> Option<&IpClient> {
        match self {
            Self::Hf(hf) => Some(&hf.ip),
            Self::Client(client) => Some(&client.ip),
            _ => None,
        }
    }

    /// Whether packets of the first rank go as urgent frames, on no stream.
    pub(super) fn has_urgent(&self) -> bool {
        matches!(self, Self::Octets(ends) if ends.0.has_urgent())
    }

    /// The packet that has begun to leave to a neighbour on a stream.
    pub(super) fn under_way(&self, to: NeighbourId, stream: usize) -> Option<&Packet> {
        match self {
            Self::Host(_) | Self::Hops(_) | Self::Hf(_) | Self::Client(_) => None,
            Self::Octets(ends) => ends.0.under_way(stream),
            Self::Frames { neighbours, .. } => {
                let (sender, _) = neighbours.get(to.index())?;
                sender.under_way(stream)
            }
        }
    }
}
