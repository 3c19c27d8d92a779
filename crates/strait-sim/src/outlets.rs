//! What forwarding nodes of a study have at their ports: a drop-tail queue each, and the way of a
//! packet from one port to another.

use std::collections::VecDeque;

use strait_core::delay::DelayPart;
use strait_core::fate::{Ledger, Origin};
use strait_core::node::PortEvent;
use strait_core::rate::{Burst, LineRate};
use strait_core::stats::{ClassStats, PortStats, Stats};
use strait_core::{ClassId, DropCause, Fate, Instant, NeighbourId, Packet, PortId, Room, TxMeta};

/// The ports of a node. With each packet waits what its node has to know of it when it leaves.
#[derive(Debug)]
pub(crate) struct Outlets<T> {
    pub(crate) ledger: Ledger,
    ports: Vec<Outlet<T>>,
    queue_packets: usize,
}

#[derive(Debug)]
struct Outlet<T> {
    queue: VecDeque<(T, Packet)>,
    burst: Burst,
    up: bool,
}

impl<T> Outlets<T> {
    /// A port for each name. `queue_packets` may wait at each.
    pub(crate) fn new(names: impl IntoIterator<Item = String>, queue_packets: usize) -> Self {
        let named = |name| PortStats {
            name,
            ..PortStats::default()
        };
        let stats: Vec<PortStats> = names.into_iter().map(named).collect();
        let port = |_: &PortStats| Outlet {
            queue: VecDeque::new(),
            burst: Burst::new(LineRate::new(1, 8), Instant::ZERO),
            up: false,
        };
        Self {
            ports: stats.iter().map(port).collect(),
            ledger: Ledger::new(Stats {
                ports: stats,
                classes: vec![ClassStats {
                    name: "all".to_owned(),
                    ..ClassStats::default()
                }],
                ..Stats::default()
            }),
            queue_packets,
        }
    }

    /// Counts a frame that came.
    pub(crate) fn came(&mut self, port: PortId, octets: usize) {
        if let Some(stats) = self.ledger.stats_mut().ports.get_mut(port.index()) {
            stats.frames_in += 1;
            stats.octets_in += octets as u64;
        }
    }

    /// Makes a packet of octets that came; `None` if they are none.
    pub(crate) fn admit(&mut self, now: Instant, port: PortId, bytes: &[u8]) -> Option<Packet> {
        let mut buffer = self.ledger.spare();
        buffer.extend_from_slice(bytes);
        self.ledger.admit(now, buffer, Origin::Port(port)).ok()
    }

    /// Lets a packet wait, or drops it.
    pub(crate) fn enqueue(&mut self, now: Instant, port: PortId, (what, packet): (T, Packet)) {
        let queue = &mut self.ports[port.index()].queue;
        if queue.len() >= self.queue_packets {
            return self.ledger.drop(now, packet, DropCause::QueuePackets);
        }
        queue.push_back((what, packet));
    }

    /// Lets packets wait that had their places already.
    pub(crate) fn enqueue_held(&mut self, port: PortId, held: impl Iterator<Item = (T, Packet)>) {
        self.ports[port.index()].queue.extend(held);
    }

    pub(crate) fn port_event(&mut self, id: PortId, event: PortEvent) {
        let port = &mut self.ports[id.index()];
        match event {
            PortEvent::Up(state) | PortEvent::Changed(state) => {
                port.up = true;
                port.burst.set_rate(state.tx_rate);
            }
            PortEvent::Down(_) => port.up = false,
            PortEvent::Carrier(_)
            | PortEvent::Drained
            | PortEvent::Neighbour(..)
            | PortEvent::NeighbourRate(..) => {}
        }
        self.ledger.stats_mut().ports[id.index()].up = port.up;
    }

    /// Destroys what waits.
    pub(crate) fn stop(&mut self, now: Instant) {
        let queues = self.ports.iter_mut().map(|port| &mut port.queue);
        for (_, packet) in queues.flat_map(|queue| queue.drain(..)) {
            self.ledger.drop(now, packet, DropCause::Stopped);
        }
    }

    pub(crate) fn is_up(&self, port: PortId) -> bool {
        self.ports.get(port.index()).is_some_and(|port| port.up)
    }

    /// Octets of the packet that goes next.
    pub(crate) fn next_octets(&self, port: PortId) -> Option<usize> {
        let (_, packet) = self.ports.get(port.index())?.queue.front()?;
        Some(packet.octets())
    }

    /// Counts a frame that leaves, and tells when its last octet has.
    pub(crate) fn leaves(&mut self, port: PortId, starts: Instant, octets: usize) -> Instant {
        let stats = &mut self.ledger.stats_mut().ports[port.index()];
        stats.frames_out += 1;
        stats.octets_out += octets as u64;
        self.ports[port.index()].burst.push(starts, octets as u64)
    }

    /// Sends the packet that goes next, if there is room for it and the `header_octets` that
    /// `header` writes before it.
    pub(crate) fn send(
        &mut self,
        port: PortId,
        room: Room,
        out: &mut Vec<u8>,
        header_octets: usize,
        header: impl FnOnce(&T, &Packet, &mut Vec<u8>),
    ) -> Option<TxMeta> {
        let octets = self.next_octets(port)? + header_octets;
        if octets > room.octets {
            return None;
        }
        let (what, mut packet) = self.ports[port.index()].queue.pop_front()?;
        header(&what, &packet, out);
        packet.enter(room.starts, DelayPart::Line);
        let ended = self.leaves(port, room.starts, octets);
        let to = NeighbourId::PEER;
        let fate = Fate::Forwarded { port, to };
        self.ledger.close_into(ended, packet, fate, out);
        Some(TxMeta::to_peer(ClassId(0)))
    }

    /// Packets that wait, `held` elsewhere in the node among them, have to be all that it has.
    pub(crate) fn check(&self, held: usize) {
        let queued: usize = self.ports.iter().map(|port| port.queue.len()).sum();
        assert_eq!(
            (queued + held) as u64,
            self.ledger.held(),
            "a packet has no fate, or two"
        );
    }
}
