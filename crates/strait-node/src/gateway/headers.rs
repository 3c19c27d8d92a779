//! Header compression at a port: compressor and decompressor of each neighbour.

use alloc::vec::Vec;

use strait_core::stats::PortStats;
use strait_core::{NeighbourId, Packet};
use strait_link::rohc::{Cids, Peer, Received, Settings};

use crate::config::{Compression, PortConfig};

/// Both ends of header compression with each neighbour of a port; none where it is off.
#[derive(Debug, Default)]
pub(super) struct Headers {
    peers: Vec<Peer>,
    /// The packet restored last; its buffer is kept for the next.
    restored: Vec<u8>,
}

impl Headers {
    /// As the port is configured.
    pub(super) fn new(config: &PortConfig, neighbours: usize) -> Self {
        let peer = |_| Peer::new(Settings::new(Cids::Small(15)));
        Self {
            peers: match config.compression {
                Compression::None => Vec::new(),
                Compression::Rohc => (0..neighbours).map(peer).collect(),
            },
            restored: Vec::new(),
        }
    }

    /// Forgets every context: the medium was away, and the other end may be a new one.
    pub(super) fn reset(&mut self) {
        self.peers.iter_mut().for_each(Peer::reset);
    }

    /// What goes in the place of `packet`, which is about to begin on `stream`, to `to`.
    pub(super) fn carry(
        &mut self,
        to: NeighbourId,
        stream: usize,
        packet: &Packet,
        stats: &mut PortStats,
    ) -> Option<Vec<u8>> {
        let peer = self.peers.get_mut(to.index())?;
        let mut carried = Vec::with_capacity(packet.octets() + Settings::GROWTH_OCTETS_MAX);
        peer.compress(stream as u8, packet.bytes(), &mut carried);
        stats.plain_octets += packet.octets() as u64;
        stats.compressed_octets += carried.len() as u64;
        Some(carried)
    }

    /// The same without feedback, which would make a packet longer that has to be on time.
    pub(super) fn carry_alone(
        &mut self,
        to: NeighbourId,
        stream: usize,
        packet: &Packet,
        stats: &mut PortStats,
    ) -> Option<Vec<u8>> {
        let peer = self.peers.get_mut(to.index())?;
        let mut carried = Vec::with_capacity(packet.octets() + Settings::GROWTH_OCTETS_MAX);
        peer.compress_alone(stream as u8, packet.bytes(), &mut carried);
        stats.plain_octets += packet.octets() as u64;
        stats.compressed_octets += carried.len() as u64;
        Some(carried)
    }

    /// Tells the packet that `carried`, which came from `from`, stands for. Says whether all went
    /// well; feedback alone stands for none.
    pub(super) fn restore(
        &mut self,
        from: NeighbourId,
        carried: &[u8],
        tell: impl FnOnce(&[u8]),
    ) -> bool {
        let Some(peer) = self.peers.get_mut(from.index()) else {
            tell(carried);
            return true;
        };
        self.restored.clear();
        match peer.decompress(carried, &mut self.restored) {
            Ok(Received::Packet) => tell(&self.restored),
            Ok(Received::Nothing) => {}
            Err(_) => return false,
        }
        true
    }

    /// A neighbour that waits for feedback.
    pub(super) fn owed(&self) -> Option<NeighbourId> {
        let number = self.peers.iter().position(Peer::owes_feedback)?;
        Some(NeighbourId(number as u16))
    }

    /// Feedback for `to`, as a packet of its own.
    pub(super) fn feedback(&mut self, to: NeighbourId) -> Option<Vec<u8>> {
        let mut note = Vec::new();
        let peer = self.peers.get_mut(to.index())?;
        peer.put_feedback(&mut note).then_some(note)
    }
}
