//! A port with another maker's station: an IP client by the node's subnetwork interface.
//!
//! A packet is handed over as late as the node allows: none can overtake those that the node has.
//! With ARQ it stays here until the node confirms it.

use alloc::vec::Vec;
use core::net::SocketAddr;

use strait_core::delay::DelayPart;
use strait_core::fate::Ledger;
use strait_core::node::{
    Effect, Held, Notice, Owner, PortState, Side, StreamEvent, StreamId, StreamOp, TxMeta, Want,
};
use strait_core::rate::LineRate;
use strait_core::{
    ClassId, DropCause, Duration, Fate, Instant, NeighbourId, Packet, PortId, Room, Wake,
    WakeReason,
};
use strait_qos::{Head, Policy, Scheduler};
use strait_s5066::Address;
use strait_s5066::s_pdu::{self, SAP_ETHER};
use strait_s5066::sis::{
    Access, AccessData, AccessOp, MODE_ARQ, MODE_NON_ARQ, NOT_RESPONDING, Service, TTL_EXPIRED,
    Word,
};

use super::ip_client::IpClient;
use super::link::{Arrival, Frame, Link, Settles};
use super::queue::{Queue, RATE_UNKNOWN, Treatment};
use crate::config::{HfClientConfig, PortConfig};
use crate::route::Hop;

/// The error of a connection that is ended at once: ECONNABORTED.
const ABORTED: i32 = 103;

/// A client, and its knowledge of the port's packets.
#[derive(Debug)]
pub(super) struct HfClient {
    port: PortId,
    server: SocketAddr,
    /// By neighbour.
    addresses: Vec<Address>,
    ip: IpClient,
    /// IPv4's and the Ether client's, in this order.
    accesses: [Access<Packet>; 2],
    /// The channel's, as it is configured: shares of it are reckoned by it.
    rate: LineRate,
    /// The configured limit of a packet.
    mtu: usize,
}

impl HfClient {
    pub(super) fn new(
        port: PortId,
        config: &PortConfig,
        client: &HfClientConfig,
        policy: &Policy,
    ) -> Self {
        let addresses = config.stations();
        let groups = addresses.iter().map(|it| it.is_group()).collect();
        Self {
            port,
            server: client.server,
            ip: IpClient::new(client.rules(), policy, groups),
            addresses,
            accesses: client.accesses().map(Access::new),
            rate: config.line_rate().unwrap_or(RATE_UNKNOWN),
            mtu: config.mtu.0 as usize,
        }
    }

    /// The longest packet that all bound access points take; `None` without any.
    fn bound_mtu(&self) -> Option<usize> {
        let [ip, ether] = &self.accesses;
        let around = s_pdu::around_octets(&[0x60]) - s_pdu::around_octets(&[0x45]);
        let ether = ether
            .mtu()
            .map(|mtu| usize::from(mtu).saturating_sub(around));
        let bound = ip.mtu().map(usize::from).into_iter().chain(ether).min();
        bound.map(|mtu| mtu.min(self.mtu))
    }

    /// The connection of an access point: another one with each attempt.
    const fn stream(&self, which: usize) -> StreamId {
        let attempt = self.accesses[which].attempt() as u64;
        StreamId {
            owner: Owner::port(self.port),
            side: Side::Node,
            n: attempt * self.accesses.len() as u64 + which as u64,
        }
    }

    fn which(&self, id: StreamId) -> Option<usize> {
        (0..self.accesses.len()).find(|which| self.stream(*which) == id)
    }

    fn neighbour(&self, address: Address) -> Option<NeighbourId> {
        let mut all = self.addresses.iter();
        let place = all.position(|it| *it == address && !it.is_group())?;
        Some(NeighbourId(place as u16))
    }

    /// How packets of a class are carried to a neighbour.
    fn service(&self, to: NeighbourId, class: ClassId) -> Service {
        let repeats = self.ip.repeats(to, class);
        Service {
            mode: if repeats { MODE_ARQ } else { MODE_NON_ARQ },
            confirmation: u8::from(repeats),
            any_order: !self.ip.in_order,
            extended: false,
            repeats: (self.ip.copies(to, class) - 1) as u8,
        }
    }

    /// Gives the node a packet. It is returned if it won't be confirmed, or isn't accepted.
    fn submit(&mut self, now: Instant, packet: Packet) -> Result<Option<Packet>, Packet> {
        let (to, class) = (packet.to, packet.class);
        let service = self.service(to, class);
        let access = &mut self.accesses[place(packet.bytes())];
        let address = self.addresses.get(to.index());
        let Some((address, _)) = address.zip(access.mtu()) else {
            return Err(packet);
        };
        let mut u_pdu = Vec::with_capacity(packet.octets() + s_pdu::AROUND_OCTETS_MAX);
        s_pdu::put_u_pdu(packet.bytes(), &mut u_pdu);
        let data = AccessData {
            priority: s_pdu::priority(packet.info().dscp),
            to: *address,
            service,
            u_pdu: &u_pdu,
        };
        Ok(access.submit(now, &data, packet))
    }

    fn tell(&self, stats: &mut strait_core::stats::HfClientStats) {
        for (access, stats) in self.accesses.iter().zip(&mut stats.accesses) {
            *stats = access.stats();
        }
    }
}

/// Which access point a packet goes by.
fn place(packet: &[u8]) -> usize {
    usize::from(s_pdu::sap(packet) == SAP_ETHER)
}

impl HfClient {
    fn hear_words(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        ledger: &mut Ledger,
        came: &mut Vec<(Arrival, Hop)>,
    ) {
        let port = queue.id;
        for which in 0..self.accesses.len() {
            let sap = self.accesses[which].sap();
            while let Some(word) = self.accesses[which].poll_word() {
                match word {
                    Word::Decided(packet, outcome) => {
                        self.decide(queue, now, packet, outcome, ledger);
                    }
                    Word::Came(from, u_pdu) => {
                        let from = self.neighbour(from);
                        let packet = s_pdu::packet_of(sap, &u_pdu);
                        let stats = queue.stats(ledger);
                        stats.octets_in += u_pdu.len() as u64;
                        stats.strangers += u64::from(from.is_none());
                        stats.invalid += u64::from(packet.is_none());
                        if let (Some(to), Some(packet)) = (from, packet) {
                            came.push((Arrival::Octets(packet.to_vec()), Hop { port, to }));
                        }
                    }
                }
            }
        }
    }

    /// The node reported the outcome of a packet, or will never.
    fn decide(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        packet: Packet,
        outcome: Result<(), Option<u8>>,
        ledger: &mut Ledger,
    ) {
        let (port, to) = (queue.id, packet.to);
        match outcome {
            Ok(()) => {
                let bytes = ledger.close(now, packet, Fate::Forwarded { port, to });
                ledger.keep_spare(bytes);
            }
            Err(Some(TTL_EXPIRED)) => ledger.drop(now, packet, DropCause::Aged),
            Err(reason) => {
                ledger.drop(now, packet, DropCause::Undelivered);
                let lost = reason == Some(NOT_RESPONDING);
                if lost && self.ip.gives_up_lost_links() {
                    queue.give_up(self, now, to, DropCause::Undelivered, ledger);
                }
            }
        }
    }

    /// The port is up while the node has an access point for it.
    fn follow_binding(&self, queue: &mut Queue, ledger: &mut Ledger) -> bool {
        let (mtu, rate) = (self.bound_mtu(), self.rate);
        let up = mtu.is_some();
        let turned = up != queue.state.is_some();
        queue.mtu = mtu.unwrap_or(queue.mtu);
        if turned {
            let stats = queue.stats(ledger);
            stats.up = up;
            stats.presence.downs += u64::from(!up);
            stats.tx_rate = up.then_some(rate);
            queue.state = up.then_some(PortState {
                tx_rate: rate,
                rx_rate: rate,
                frame_octets_max: u32::MAX,
                block: Duration::ZERO,
                latency: Duration::ZERO,
                notice: Notice::NONE,
            });
            queue.paths.first.queue.set_line_rate(rate);
        }
        turned
    }

    /// Hands the head packet to the node; whether there was one.
    fn hand_over(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        head: Head,
        ledger: &mut Ledger,
    ) -> bool {
        let Some(mut packet) = queue.take(self, now, head, usize::MAX, ledger) else {
            return false;
        };
        let tree = &mut queue.paths.first.queue;
        tree.charge(head.class, packet.info().octets);
        let (port, to) = (queue.id, packet.to);
        let octets = packet.octets() as u64;
        packet.enter(now, DelayPart::Line);
        let left = match self.submit(now, packet) {
            Err(packet) => {
                ledger.drop(now, packet, DropCause::PortDown);
                return true;
            }
            Ok(left) => left,
        };
        if let Some(packet) = left {
            let bytes = ledger.close(now, packet, Fate::Forwarded { port, to });
            ledger.keep_spare(bytes);
        }
        queue.stats(ledger).octets_out += octets;
        true
    }
}

impl Link for HfClient {
    fn neighbours(&self) -> usize {
        self.addresses.len()
    }

    /// Packets that the node hasn't confirmed.
    fn held(&self) -> usize {
        self.accesses.iter().map(Access::under_way).sum()
    }

    fn abandon(&mut self, _: Instant) -> Vec<Packet> {
        let accesses = self.accesses.iter_mut();
        accesses.flat_map(Access::abandon).collect()
    }

    fn settles(&self) -> Settles {
        Settles::UntilQuiet
    }

    /// It has no medium of its own: its node reports whether it is up.
    fn follows_medium(&self) -> bool {
        false
    }

    fn advance(&mut self, now: Instant) {
        for access in &mut self.accesses {
            access.advance(now);
        }
    }

    fn wake(&self) -> Option<Wake> {
        let why = WakeReason::Retransmit;
        let at = self.accesses.iter().filter_map(Access::wake).min();
        at.map(|at| Wake { at, why })
    }

    fn expires(&self) -> Option<Instant> {
        self.ip.expires().map(|(at, _)| at)
    }

    /// Whether the next packet may be taken from the queue: the node accepts it, or has refused its
    /// kind of packets.
    fn eligible(&self, queue: &Queue, to: NeighbourId, class: ClassId, _: &Treatment) -> bool {
        let front = queue.paths.first.queue.front(class, to);
        let access = front.map(|packet| &self.accesses[place(packet.bytes())]);
        let repeats = self.ip.repeats(to, class);
        access.is_some_and(|it| it.is_refused() || it.takes(repeats))
    }

    fn count(&mut self, packet: &Packet, packets: isize) {
        self.ip.count(packet, packets);
    }

    fn overflows(&self, packet: &Packet) -> bool {
        self.ip.overflows(packet)
    }

    fn discard(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) -> bool {
        let mut any = false;
        while let Some(to) = self.ip.too_old(now) {
            queue.give_up(self, now, to, DropCause::Aged, ledger);
            any = true;
        }
        queue.discard(self, now, ledger) || any
    }

    /// Its medium is a stream.
    fn wants(&self, _: &Queue) -> Option<Want> {
        None
    }

    fn pull(
        &mut self,
        _: &mut Queue,
        _: Instant,
        _: Room,
        _: &mut Vec<u8>,
        _: &mut Ledger,
    ) -> Option<TxMeta> {
        None
    }

    /// Octets come by streams alone.
    fn hear(&mut self, queue: &mut Queue, _: Instant, frame: Frame<'_>, ledger: &mut Ledger) {
        let stats = queue.stats(ledger);
        stats.frames_in += 1;
        stats.octets_in += frame.bytes.len() as u64;
    }

    /// Hands over the packets that the node accepts, beside each link's own work.
    fn settle(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        ledger: &mut Ledger,
        came: &mut Vec<(Arrival, Hop)>,
    ) -> bool {
        self.hear_words(queue, now, ledger, came);
        let turned = self.follow_binding(queue, ledger);
        while let Some(head) = queue.state.and_then(|_| queue.head(self)) {
            if !self.hand_over(queue, now, head, ledger) {
                break;
            }
        }
        self.tell(&mut queue.stats(ledger).client);
        turned
    }

    fn hear_stream(&mut self, now: Instant, id: StreamId, event: &StreamEvent<'_>) {
        let Some(which) = self.which(id) else { return };
        let access = &mut self.accesses[which];
        match *event {
            // It listens nowhere.
            StreamEvent::Asked { .. } | StreamEvent::Secured { .. } => {}
            StreamEvent::Opened { .. } => access.opened(now),
            StreamEvent::Data(bytes) => access.hear(now, bytes),
            StreamEvent::Writable(octets) => access.give_credit(octets as usize),
            StreamEvent::Fin => access.ended(now),
            StreamEvent::Reset(_) => access.closed(now),
        }
    }

    fn poll_effect(&mut self, _: &Queue) -> Option<Effect> {
        let (which, op) = (0..self.accesses.len())
            .find_map(|which| Some((which, self.accesses[which].poll()?)))?;
        let op = match op {
            AccessOp::Connect => StreamOp::Connect {
                src: None,
                dst: self.server,
                dscp: 0,
                held: Held::ORDINARY,
            },
            AccessOp::Send(octets) => StreamOp::Send(octets),
            AccessOp::Credit(octets) => StreamOp::Credit(octets),
            AccessOp::Cut => StreamOp::Reset(ABORTED),
        };
        let id = self.stream(which);
        Some(Effect::Stream { id, op })
    }
}
