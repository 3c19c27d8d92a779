//! What the nodes of all media have in common: messages, class queues, the host side.

use std::collections::VecDeque;
use std::net::SocketAddr;

use strait_core::fate::Origin;
use strait_core::node::Input;
use strait_core::stats::{PortStats, Stats};
use strait_core::{
    ClassId, DropCause, Effect, Fate, Instant, Ledger, Packet, PortId, Room, TxMeta,
};
use strait_wire::ip::{build_udp, udp_payload};

/// The port of the medium under test; the other one is [`PortId::HOST`].
pub(crate) const LINK: PortId = PortId(1);
/// Classes: the urgent one goes first.
pub(crate) const URGENT: ClassId = ClassId(0);
pub(crate) const BULK: ClassId = ClassId(1);
/// The UDP port of a message.
pub(crate) const MESSAGE: u16 = 1;

const EXPEDITED: u8 = 46;

/// An IPv4 packet of `octets` (at least 32) that carries message `number` between two nodes.
pub(crate) fn message(src: u8, dst: u8, class: ClassId, number: u32, octets: usize) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    // Every octet occurs, so that those with a meaning to a framing do too.
    payload.extend((0..octets.saturating_sub(32)).map(|at| (at as u32 ^ number) as u8));
    let dscp = if class == URGENT { EXPEDITED } else { 0 };
    let from = SocketAddr::from(([10, 0, 0, src], 9));
    let to = SocketAddr::from(([10, 0, 0, dst], MESSAGE));
    let mut bytes = Vec::new();
    assert!(build_udp(from, to, dscp, 64, 0, 0, &payload, &mut bytes));
    bytes
}

/// UDP port and number of a message whose checksum is right.
pub(crate) fn read(bytes: &[u8]) -> Option<(u16, u32)> {
    let ((_, port), payload) = udp_payload(bytes)?;
    let number = payload.first_chunk::<4>()?;
    Some((port, u32::from_be_bytes(*number)))
}

/// The class of a packet, as the policy of these tests has it.
pub(crate) fn class_of(packet: &Packet) -> ClassId {
    if packet.info().dscp == EXPEDITED {
        URGENT
    } else {
        BULK
    }
}

/// The last octet of a packet's destination.
pub(crate) fn destination(packet: &Packet) -> u8 {
    match packet.info().dst {
        std::net::IpAddr::V4(address) => address.octets()[3],
        std::net::IpAddr::V6(_) => 0,
    }
}

/// What a full queue does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The node stops reading.
    Refuse,
    /// The newest packet is destroyed.
    Drop,
}

/// A queue for each class, each with a limit.
#[derive(Debug)]
pub(crate) struct Lanes {
    queues: [VecDeque<Packet>; 2],
    limit: usize,
}

impl Lanes {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            queues: [VecDeque::new(), VecDeque::new()],
            limit,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queues.iter().any(|queue| queue.len() >= self.limit)
    }

    /// Gives the packet back if its class's queue is full.
    pub(crate) fn enqueue(&mut self, packet: Packet) -> Option<Packet> {
        let queue = &mut self.queues[packet.class.index()];
        if queue.len() >= self.limit {
            return Some(packet);
        }
        queue.push_back(packet);
        None
    }

    /// The first packet of the most urgent class that has one.
    pub(crate) fn first(&self) -> Option<&Packet> {
        self.queues.iter().find_map(VecDeque::front)
    }

    pub(crate) fn pop(&mut self) -> Option<Packet> {
        self.queues.iter_mut().find_map(VecDeque::pop_front)
    }
}

/// A node's account of packets and its host side.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) ledger: Ledger,
    up: VecDeque<Packet>,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let ports = vec![PortStats::default(); 2];
        let stats = Stats {
            ports,
            ..Stats::default()
        };
        Self {
            ledger: Ledger::new(stats),
            up: VecDeque::new(),
        }
    }

    /// Takes octets in as a packet and classifies it.
    pub(crate) fn admit(&mut self, now: Instant, bytes: &[u8], origin: Origin) -> Option<Packet> {
        let mut packet = self.ledger.admit(now, bytes.to_vec(), origin).ok()?;
        packet.class = class_of(&packet);
        Some(packet)
    }

    /// Takes octets in as a packet for the host side.
    pub(crate) fn admit_up(&mut self, now: Instant, bytes: &[u8], origin: Origin) {
        let packet = self.admit(now, bytes, origin);
        self.up.extend(packet);
    }

    /// Enqueues a packet, or destroys it because the queue is full.
    pub(crate) fn enqueue(&mut self, now: Instant, lanes: &mut Lanes, packet: Packet) {
        if let Some(packet) = lanes.enqueue(packet) {
            self.ledger.drop(now, packet, DropCause::QueuePackets);
        }
    }

    /// Packets that wait for the host side.
    pub(crate) fn up_len(&self) -> usize {
        self.up.len()
    }

    pub(crate) fn want_up(&self) -> Option<strait_core::Want> {
        self.up.front().map(|packet| strait_core::Want {
            class: packet.class,
            octets: packet.octets() as u32,
            to: strait_core::NeighbourId::PEER,
        })
    }

    pub(crate) fn transmit_up(
        &mut self,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        self.up
            .front()
            .filter(|packet| packet.octets() <= room.octets)?;
        let packet = self.up.pop_front()?;
        let meta = TxMeta::to_peer(packet.class);
        out.extend(
            self.ledger
                .close(now, packet, Fate::Delivered(PortId::HOST)),
        );
        Some(meta)
    }

    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.ledger.poll().map(Effect::Fate)
    }

    /// The counters of the link port.
    pub(crate) fn link(&mut self) -> &mut PortStats {
        &mut self.ledger.stats_mut().ports[LINK.index()]
    }
}

/// An input that a frame from the host side is.
pub(crate) const fn from_host<'a>(input: &Input<'a>) -> Option<&'a [u8]> {
    match input {
        Input::Frame {
            port: PortId::HOST,
            bytes,
            ..
        } => Some(*bytes),
        _ => None,
    }
}
