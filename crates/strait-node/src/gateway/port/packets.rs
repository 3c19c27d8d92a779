//! Packets as they are: at a host side, perhaps on an Ethernet, in frames to stations whose
//! addresses are known; or on a link of profile `ip`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::fate::Ledger;
use strait_core::node::{PortState, TxMeta, Want};
use strait_core::rate::LineRate;
use strait_core::{DropCause, Fate, Instant, NeighbourId, Packet, Room, Wake, WakeReason};
use strait_qos::Scheduler;
use strait_wire::ethernet::HEADER_OCTETS;

use super::NOTE_CLASS;
use super::link::{Frame, Link};
use super::queue::Queue;
use crate::ethernet::Resolved;
use crate::gateway::lan::Lan;

/// Packets as they are, or in frames on an Ethernet.
#[derive(Debug)]
pub(super) struct Packets(pub(super) Option<Box<Lan>>);

impl Packets {
    /// The octets of a frame ahead of its packet.
    fn header_octets(&self) -> usize {
        self.0.as_ref().map_or(0, |_| HEADER_OCTETS)
    }

    /// Gives a packet back if it may go now: to many, or to one whose station is known. A packet
    /// that has to wait for its station is kept; without a place to wait it is destroyed.
    fn resolve(&mut self, now: Instant, packet: Packet, ledger: &mut Ledger) -> Option<Packet> {
        let Some(lan) = &mut self.0 else {
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

    /// Sends the station's own messages.
    fn pull_word(
        &mut self,
        queue: &mut Queue,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let frame = self.0.as_mut()?.station.next_frame(room.octets)?;
        queue
            .paths
            .first
            .burst
            .push(room.starts, frame.len() as u64);
        queue.stats(ledger).frames_out += 1;
        out.extend_from_slice(&frame);
        Some(TxMeta::to_peer(NOTE_CLASS))
    }
}

impl Link for Packets {
    fn neighbours(&self) -> usize {
        1
    }

    fn held(&self) -> usize {
        self.0.as_ref().map_or(0, |lan| lan.held())
    }

    fn abandon(&mut self, _: Instant) -> Vec<Packet> {
        self.0.as_mut().map(|lan| lan.clear()).unwrap_or_default()
    }

    fn is_at_rest(&self) -> bool {
        self.0.is_none()
    }

    fn wake(&self) -> Option<Wake> {
        let at = self.0.as_ref()?.wake()?;
        let why = WakeReason::Local;
        Some(Wake { at, why })
    }

    /// A link may carry less than the configured size.
    fn set_up(&mut self, queue: &mut Queue, _: Instant, state: PortState) {
        if !queue.is_host {
            queue.mtu = queue.mtu_max.min(state.frame_octets_max as usize);
        }
    }

    /// All stations have one rate.
    fn set_rate(&mut self, _: &mut Queue, _: NeighbourId, _: LineRate) {}

    fn enqueue(&mut self, queue: &mut Queue, now: Instant, packet: Packet, ledger: &mut Ledger) {
        if let Some(packet) = self.resolve(now, packet, ledger) {
            queue.enqueue(self, now, packet, ledger);
        }
    }

    fn release(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) {
        let released = self.0.as_mut().map(|lan| lan.station.released());
        for packet in released.into_iter().flatten() {
            queue.enqueue(self, now, packet, ledger);
        }
    }

    fn wants(&self, queue: &Queue) -> Option<Want> {
        let word = self.0.as_ref().and_then(|lan| lan.station.wants());
        if let Some(octets) = word {
            return Some(Want {
                class: NOTE_CLASS,
                octets: octets as u32,
                to: NeighbourId::PEER,
            });
        }
        queue.head(self).map(|head| Want {
            class: head.class,
            octets: head.octets + self.header_octets() as u32,
            to: head.to,
        })
    }

    fn pull(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        if let Some(meta) = self.pull_word(queue, room, out, ledger) {
            return Some(meta);
        }
        let header = self.header_octets();
        let octets_max = room.octets.checked_sub(header)?;
        let head = queue.head(self)?;
        let mut packet = queue.take(self, now, head, octets_max, ledger)?;
        let octets = packet.info().octets;
        packet.enter(room.starts, DelayPart::Line);
        queue.paths.first.queue.charge(head.class, octets);
        queue.stats(ledger).frames_out += 1;
        if let Some(lan) = &self.0 {
            lan.put_header(packet.info().dst, out);
        }
        let octets = u64::from(octets) + header as u64;
        let ended = queue.paths.first.burst.push(room.starts, octets);
        let fate = match queue.is_host {
            true => Fate::Delivered(queue.id),
            false => Fate::Forwarded {
                port: queue.id,
                to: NeighbourId::PEER,
            },
        };
        ledger.close_into(ended, packet, fate, out);
        Some(TxMeta::to_peer(head.class))
    }

    fn hear(&mut self, queue: &mut Queue, _: Instant, frame: Frame<'_>, ledger: &mut Ledger) {
        ledger.put_by(frame.bytes);
        let stats = queue.stats(ledger);
        stats.frames_in += 1;
        stats.octets_in += frame.bytes.len() as u64;
    }

    fn lan(&self) -> Option<&Lan> {
        self.0.as_deref()
    }

    fn lan_mut(&mut self) -> Option<&mut Lan> {
        self.0.as_deref_mut()
    }
}
