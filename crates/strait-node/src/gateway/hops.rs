//! What a gateway does for ports whose links are made reliable: hold senders back before anything
//! has to be dropped, and let nothing out twice.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::{DropCause, Instant, NeighbourId, Packet, PortId};
use strait_wire::hash::hash64;
use strait_wire::hbh::TAGS;

use super::port::{Outlet, Port};
use super::{Gateway, HOST};
use crate::route::Hop;

/// What left the network of reliable hops here lately.
///
/// A packet can come twice: its acknowledgement is lost, and it takes another way, or the neighbour
/// begins anew. Known are the last few thousand, each with all that tells it from others, in a row
/// that the same packet would have again; the newest of a row come first.
#[derive(Debug)]
pub(super) struct Egress {
    seen: Box<[[u64; Self::ROW]]>,
}

impl Default for Egress {
    fn default() -> Self {
        Self {
            seen: alloc::vec![[0; Self::ROW]; Self::ROWS].into_boxed_slice(),
        }
    }
}

impl Egress {
    /// With the length of a row, at 10 Mbit/s and 500 octets a packet, more than a second; on
    /// narrow links, minutes. 32 kB.
    const ROWS: usize = 256;
    /// With one place a row, a duplicate a hundred packets later would slip through once in forty
    /// times; with sixteen, one in ten million does eight hundred later.
    const ROW: usize = 16;

    /// Takes note of a packet, and says whether it left before.
    fn is_second(&mut self, packet: &Packet) -> bool {
        let Some(ingress) = packet.ingress else {
            return false;
        };
        let mut key = [0; 12];
        key[..8].copy_from_slice(&packet.digest().to_le_bytes());
        key[8..10].copy_from_slice(&ingress.node.to_le_bytes());
        key[10..].copy_from_slice(&ingress.serial.to_le_bytes());
        let key = hash64(0, &key).max(1);
        let Some(row) = self.seen.get_mut(key as usize % Self::ROWS) else {
            return false;
        };
        let known = row.contains(&key);
        if !known {
            row.rotate_right(1);
            row[0] = key;
        }
        known
    }
}

impl Gateway {
    /// Whether a packet that is about to leave the network of reliable hops left it before.
    pub(super) fn is_second(&mut self, packet: &Packet, hop: Hop) -> bool {
        let egress = self.egress.as_mut();
        let egress = egress.filter(|_| !self.reliable.contains(hop.port));
        egress.is_some_and(|egress| egress.is_second(packet))
    }

    /// Marks, a bit each, of which nothing more is taken from a neighbour: there is no room where
    /// its packets went last.
    pub(super) fn refused(&self, port: PortId, from: NeighbourId) -> u8 {
        if self.egress.is_none() || !self.reliable.contains(port) {
            return 0;
        }
        let entry = &self.ports[port.index()];
        let full = |out: Outlet| {
            let port = &self.ports[out.way.port.index()];
            let rate = port.queue.rate_to(out.way.to);
            let depths = entry.link.stop_depths(from, rate);
            let is_full = port.link.is_full(&port.queue, out.way.to);
            port.queue.refuses(out, depths, is_full)
        };
        let marks = (0..TAGS as u8).filter(|mark| entry.outlets(from, *mark).any(full));
        marks.fold(0, |refused, mark| refused | 1 << mark)
    }

    /// Takes note of where a packet goes that came from a neighbour on such a port.
    pub(super) fn note_outlet(&mut self, packet: &Packet, hop: Hop, from: Hop) {
        if self.egress.is_none() || self.is_host(from) {
            return;
        }
        if let Some(port) = self.ports.get_mut(from.port.index()) {
            port.note_outlet(from.to, packet, hop);
        }
    }

    /// Tells neighbours with which marks to send nothing new of, as far as that has changed.
    pub(super) fn set_stops(&mut self) {
        if self.egress.is_none() {
            return;
        }
        // What waits before a link has come over others, and waits for what they lose as well.
        let ports = self.reliable.into_iter();
        let trips = ports.map(|id| self.ports[id.index()].link.longest_trip());
        let trip = trips.max().unwrap_or_default();
        for id in self.reliable {
            self.ports[id.index()].set_trip(trip);
            let port = &self.ports[id.index()];
            let neighbours = (0..)
                .map(NeighbourId)
                .take_while(|to| port.link.has_neighbour(*to));
            let stops: Vec<(NeighbourId, u8)> = neighbours
                .map(|to| (to, Hop { port: id, to }))
                .map(|(to, from)| (to, self.stops_of(port, from)))
                .collect();
            for (from, stop) in stops {
                self.ports[id.index()].link.set_stop(from, stop);
            }
        }
    }

    fn stops_of(&self, port: &Port, from: Hop) -> u8 {
        let before = port.link.stop(from.to);
        let mut stop = 0;
        for mark in 0..TAGS as u8 {
            let stopped = before >> mark & 1 == 1;
            let full = |out: Outlet| {
                let queue = &self.ports[out.way.port.index()].queue;
                let depths = port.link.stop_depths(from.to, queue.rate_to(out.way.to));
                queue.stops(out, depths.stop, from, stopped)
            };
            stop |= u8::from(port.outlets(from.to, mark).any(full)) << mark;
        }
        stop
    }

    /// Routes have changed: what waits, and what a neighbour doesn't have yet for all that is
    /// known, goes the new way. What has none at the moment stays: a routing protocol finds out
    /// that a way is lost before it finds another.
    pub(super) fn route_anew(&mut self, now: Instant) {
        for port in self.reliable {
            let (routes, default) = (&self.routes, self.default);
            let leaves = |packet: &Packet| {
                let hop = routes.lookup(packet.info().dst).or(default);
                hop.is_some_and(|hop| (hop.port, hop.to) != (port, packet.to))
            };
            let taken = self.ports[port.index()].take_back(&mut self.ledger, leaves);
            for mut packet in taken {
                let Some(hop) = self.way(&packet, HOST) else {
                    self.ledger.drop(now, packet, DropCause::NoRoute);
                    continue;
                };
                (packet.to, packet.onward) = (hop.to, self.routes.beyond(packet.info().dst));
                let from = self.side_of(&packet).unwrap_or(HOST);
                self.send(now, packet, hop, from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::fate::{Ledger, Origin};
    use strait_wire::hbh::Ingress;

    #[test]
    fn a_second_one_is_known_hundreds_of_packets_later() {
        const APART: u16 = 800;
        let mut ledger = Ledger::default();
        let mut octets = Vec::from([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0]);
        octets.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = octets
            .chunks(2)
            .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let sum: u32 = sum.sum();
        octets[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        let Ok(mut packet) = ledger.admit(Instant::ZERO, octets, Origin::Own) else {
            panic!("a packet");
        };
        let mut egress = Egress::default();
        let mut leaves = |serial| {
            packet.ingress = Some(Ingress {
                node: 7,
                serial,
                ordered: false,
            });
            !egress.is_second(&packet)
        };
        for serial in 0..10_000 {
            assert!(leaves(serial), "{serial}");
            assert!(serial < APART || !leaves(serial - APART), "{serial}");
        }
        let _ = packet;
    }
}
