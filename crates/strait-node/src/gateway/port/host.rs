//! The host side's port on an Ethernet: packets in frames to stations whose addresses are known.

use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::node::TxMeta;
use strait_core::{DropCause, Instant, Packet, Room};
use strait_wire::ethernet::HEADER_OCTETS;

use super::{Link, NOTE_CLASS, Port};
use crate::ethernet::Resolved;
use crate::gateway::lan::Lan;

impl Port {
    pub(in crate::gateway) fn lan(&self) -> Option<&Lan> {
        match &self.link {
            Link::Host(lan) => lan.as_deref(),
            _ => None,
        }
    }

    pub(in crate::gateway) fn lan_mut(&mut self) -> Option<&mut Lan> {
        match &mut self.link {
            Link::Host(lan) => lan.as_deref_mut(),
            _ => None,
        }
    }

    /// Whether the medium is there.
    pub(in crate::gateway) const fn is_up(&self) -> bool {
        self.state.is_some()
    }

    /// What a frame has ahead of its packet.
    pub(super) fn header_octets(&self) -> usize {
        self.lan().map_or(0, |_| HEADER_OCTETS)
    }

    /// Gives a packet back if it may go now: to many, or to one whose station is known. What has to
    /// wait for its station is kept, what finds no place to wait is destroyed.
    pub(super) fn resolve(
        &mut self,
        now: Instant,
        packet: Packet,
        ledger: &mut Ledger,
    ) -> Option<Packet> {
        let Some(lan) = self.lan_mut() else {
            return Some(packet);
        };
        let hop = lan.hop(packet.info().dst);
        match lan.station.resolve(now, hop, lan.source(hop), packet) {
            Resolved::Goes(packet) => Some(packet),
            Resolved::Waits => None,
            Resolved::Refused(packet) => {
                ledger.drop(now, packet, DropCause::Unresolved);
                None
            }
        }
    }

    /// Queues what waited for stations that are known by now.
    pub(in crate::gateway) fn release(&mut self, now: Instant, ledger: &mut Ledger) {
        let released = self.lan_mut().map(|lan| lan.station.released());
        for packet in released.into_iter().flatten() {
            self.enqueue_resolved(now, packet, ledger);
        }
    }

    /// Sends what the station itself has to say.
    pub(super) fn pull_word(
        &mut self,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let frame = self.lan_mut()?.station.next_frame(room.octets)?;
        self.paths.first.burst.push(room.starts, frame.len() as u64);
        ledger.stats_mut().ports[self.id.index()].frames_out += 1;
        out.extend_from_slice(&frame);
        Some(TxMeta::to_peer(NOTE_CLASS))
    }
}
