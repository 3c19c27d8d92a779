//! A port with a radio: a STANAG 5066 station takes packets from the queue during its turn, and
//! holds them until their station has them.

use alloc::vec::Vec;
use core::net::SocketAddr;

use strait_core::delay::DelayPart;
use strait_core::fate::Ledger;
use strait_core::node::{
    Effect, PortEvent, PortState, StreamEvent, StreamId, TxMeta, WallTime, Want,
};
use strait_core::stats::HfStats;
use strait_core::{ClassId, DropCause, Fate, Instant, NeighbourId, Packet, Room, Wake, WakeReason};
use strait_qos::{Head, Policy, Scheduler};
use strait_s5066::c_pdu::CPdu;
use strait_s5066::s_pdu::{self, DataSPdu};
use strait_s5066::sis::Sis;
use strait_s5066::{Offer, Outcome, Peer, Station, Waiting};
use strait_wire::hash::hash64;

use self::clients::{Client, Ticket};
use self::probe::Probe;
use self::search::Search;
use super::NOTE_CLASS;
use super::ip_client::IpClient;
use super::link::{Arrival, Frame, Link, Settles};
use super::queue::{Queue, Treatment, want};
use crate::config::{HfConfig, PortConfig};
use crate::route::Hop;

mod clients;
mod probe;
mod search;

/// About the octets of a D_PDU, for services that ask.
const D_PDU_OCTETS: u32 = 64;

/// A station, and its knowledge of the port's packets.
#[derive(Debug)]
pub(super) struct Hf {
    station: Station<Ticket>,
    /// The interface for programs beside the gateway.
    sis: Sis<Client>,
    /// Their place, until the driver has been informed.
    listens: Option<SocketAddr>,
    /// Clients of its own.
    probes: Vec<Probe>,
    /// The gateway has the access points of packets.
    own_packets: bool,
    /// Packets that the station has.
    packets: usize,
    /// Client data went last, not a packet.
    client_last: bool,
    /// How packets become its clients' data.
    ip: IpClient,
    /// How it finds the next of them, if that takes time.
    search: Option<Search>,
    /// Links lost, as far as this was heeded.
    links_lost: u64,
    /// A turn waits until then for the data that services have for it.
    waits: Option<Instant>,
}

impl Hf {
    /// The station of a port.
    pub(super) fn new(config: &PortConfig, hf: &HfConfig, policy: &Policy, seed: u64) -> Self {
        let (mut settings, peers) = config.station(hf);
        settings.wait_max = policy.wait_max();
        let sis = Sis::new(hf.interface(settings.own, &peers), hash64(seed, b"sis"));
        Self {
            sis,
            listens: hf.sis.as_ref().map(|sis| sis.listen),
            probes: Probe::all(&hf.probe, |name| config.station_of(name)),
            packets: 0,
            client_last: false,
            links_lost: 0,
            waits: None,
            search: hf.search().map(Search::new),
            ip: IpClient::new(
                hf.rules(),
                policy,
                peers
                    .iter()
                    .map(|it| hf.broadcast_only || it.is_group())
                    .collect(),
            ),
            own_packets: hf.ip_client,
            station: Station::new(settings, &peers, hash64(seed, b"hf")),
        }
    }

    /// The neighbour of a transmission: one for a station that isn't a neighbour is for all that
    /// hear it.
    fn neighbour(&self, to: usize) -> NeighbourId {
        match to < self.station.peers() {
            true => NeighbourId(to as u16),
            false => NeighbourId::ALL,
        }
    }

    /// Whether a hard link lets packets go to a neighbour: each names its client.
    fn lets_packets(&self, to: usize) -> bool {
        let saps = [s_pdu::SAP_IP, s_pdu::SAP_ETHER];
        saps.iter().any(|sap| self.sis.lets(to, *sap, *sap))
    }

    /// Looks for packets that the station may have, of those that wait.
    fn look(&mut self, now: Instant) {
        if let Some(search) = &mut self.search {
            search.advance(now, self.ip.all_waiting());
        }
    }

    /// Octets and packets for a neighbour that the station may have.
    fn ready(&self, to: usize) -> Waiting {
        let waiting = self.ip.waiting(to);
        let found = self.search.as_ref().map_or(waiting.count, Search::found);
        let count = found.min(waiting.count);
        let octets = waiting.octets * count / waiting.count.max(1);
        Waiting { octets, count }
    }

    /// The neighbours whose links were lost since this was asked, if their queues go with them.
    fn take_lost(&mut self) -> Vec<NeighbourId> {
        let lost = self.station.stats().links_lost;
        let before = core::mem::replace(&mut self.links_lost, lost);
        if lost == before || !self.ip.gives_up_lost_links() {
            return Vec::new();
        }
        let all = 0..self.station.peers();
        let unlinked = all.filter(|peer| !self.station.peer(*peer).is_some_and(Peer::is_linked));
        unlinked.map(|peer| NeighbourId(peer as u16)).collect()
    }

    /// Ends calls that nothing waits for any more.
    fn end_calls(&mut self) {
        for to in 0..self.station.places() {
            if (self.ip.waiting(to) + self.sis.waiting(to)).count == 0 {
                self.station.end_calls(to);
            }
        }
    }

    /// Whether a neighbour has a link, and answered when it last was to.
    fn is_answered(&self, to: usize) -> bool {
        self.station.peer(to).is_some_and(Peer::is_answered)
    }

    /// When the station's data for a neighbour that doesn't answer is as old as a queue may be, and
    /// its neighbour.
    fn handed_expires(&self) -> Option<(Instant, NeighbourId)> {
        self.ip.handed_expires(|to| !self.is_answered(to))
    }

    /// Takes data that is that old from the station. `true` if there was any.
    fn give_up_unanswered(&mut self, now: Instant) -> bool {
        let due = self.handed_expires().filter(|(at, _)| *at <= now);
        if due.is_none() {
            return false;
        }
        let old = |ticket: &Ticket| match ticket {
            Ticket::Packet(packet) => {
                self.ip.repeats(packet.to, packet.class) && self.ip.is_too_old(now, packet)
            }
            Ticket::Client(_) => false,
        };
        for to in 0..self.ip.neighbours() {
            if !self.is_answered(to) {
                self.station.give_up(to, old);
            }
        }
        true
    }

    /// Brings the reported counters of the station up to this moment.
    fn tell(&self, stats: &mut HfStats) {
        stats.counts = self.station.stats();
        stats.queued = self.ip.queued;
        stats.clients = self.sis.stats();
        for (number, peer) in stats.peers.iter_mut().enumerate() {
            peer.link = self.station.link_view(number).unwrap_or_default();
        }
        self.sis.count_queued(&mut stats.queued);
    }
}

impl Hf {
    /// Ends the stay of packets that neighbours have by now, or never get.
    fn end_stays(&mut self, queue: &Queue, now: Instant, ledger: &mut Ledger) {
        while let Some(outcome) = self.station.poll_outcome() {
            let Outcome {
                to,
                ticket,
                delivered,
                began,
                sent,
                left,
            } = outcome;
            let mut packet = match ticket {
                Ticket::Packet(packet) => packet,
                Ticket::Client(number) => {
                    self.sis.decide(now, number, delivered);
                    continue;
                }
            };
            self.packets -= 1;
            self.ip.count_handed(&packet, -1);
            let old = self.ip.is_too_old(now, &packet);
            packet.enter(began, DelayPart::Line);
            packet.enter(sent, DelayPart::Repeat);
            if delivered {
                let (port, to) = (queue.id, NeighbourId(to as u16));
                let bytes = ledger.close(left, packet, Fate::Forwarded { port, to });
                ledger.keep_spare(bytes);
            } else if old {
                ledger.drop(now, packet, DropCause::Aged);
            } else {
                ledger.drop(now, packet, DropCause::Undelivered);
            }
        }
    }

    /// Plans a turn: the neighbour of the head packet, or of the station's messages.
    fn begin_turn(&mut self, queue: &Queue, now: Instant, room: Room) -> Option<()> {
        let head = queue.head(self);
        if let Some(head) = head.filter(|head| self.ip.repeats(head.to, head.class)) {
            self.station.link(head.to.index());
        }
        let next = self.sis.next_for(&self.station);
        if let Some(next) = next.filter(|next| next.arq) {
            self.station.link(next.to);
        }
        let others = head.map(|head| head.to.index()).into_iter();
        let others: Vec<_> = others.chain(next.map(|next| next.to)).collect();
        let to = self.station.to_whom(&others)?;
        // Its length is fixed as it begins: answers that are about to arrive would have to wait for
        // the next one. A station that expects an answer waits longer than that.
        let urgent = head.is_some_and(|head| queue.goes_whole(head));
        let may = !urgent && self.station.peers() == 1 && self.is_answered(to);
        let settles = queue.promised(NeighbourId(to as u16)).settles;
        self.waits = settles.filter(|at| *at > now && may);
        if self.waits.is_some() {
            return None;
        }
        // It isn't known yet whether a link that is to be made, or be found again, succeeds.
        let promised = if self.is_answered(to) {
            promised(queue, to)
        } else {
            Waiting::default()
        };
        let waiting = self.ready(to) + promised + self.sis.waiting(to);
        let began = self.station.begin(now, to, room, waiting);
        began.then_some(())
    }

    /// Hands the head packet to the station; whether there was one.
    fn offer(&mut self, queue: &mut Queue, now: Instant, head: Head, ledger: &mut Ledger) -> bool {
        let Some(packet) = queue.take(self, now, head, usize::MAX, ledger) else {
            return false;
        };
        let urgent = queue.goes_whole(head);
        let tree = &mut queue.paths.first.queue;
        tree.charge(head.class, packet.info().octets);
        let mut c_pdu = Vec::with_capacity(packet.octets() + s_pdu::AROUND_OCTETS_MAX);
        s_pdu::put_packet(packet.bytes(), packet.info().dscp, &mut c_pdu);
        self.packets += 1;
        self.ip.count_handed(&packet, 1);
        self.client_last = false;
        if let Some(search) = &mut self.search {
            search.take();
        }
        self.station.offer(Offer {
            to: head.to.index(),
            c_pdu,
            arq: self.ip.repeats(head.to, head.class),
            expedited: false,
            urgent,
            in_order: self.ip.in_order,
            copies: self.ip.copies(head.to, head.class),
            ticket: Ticket::Packet(packet),
        });
        true
    }
}

/// The data that services have ready for a neighbour.
fn promised(queue: &Queue, to: usize) -> Waiting {
    let promised = queue.promised(NeighbourId(to as u16));
    let [octets, count] =
        [promised.octets, promised.packets].map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    Waiting { octets, count }
}

impl Link for Hf {
    fn neighbours(&self) -> usize {
        self.ip.neighbours()
    }

    fn has_neighbour(&self, to: NeighbourId) -> bool {
        self.own_packets && to.index() < self.neighbours()
    }

    fn held(&self) -> usize {
        self.packets
    }

    /// The packets under way at the station, when the medium is gone.
    fn abandon(&mut self, now: Instant) -> Vec<Packet> {
        self.station.set_down();
        self.sis.set_up(now, false);
        let mut packets = Vec::new();
        while let Some(outcome) = self.station.poll_outcome() {
            match outcome.ticket {
                Ticket::Packet(packet) => packets.push(packet),
                Ticket::Client(number) => self.sis.decide(now, number, false),
            }
        }
        self.packets = 0;
        self.ip.forget_handed();
        packets
    }

    fn settles(&self) -> Settles {
        Settles::Once
    }

    fn advance(&mut self, now: Instant) {
        self.look(now);
        self.waits.take_if(|at| *at <= now);
        self.station.advance(now);
        self.tend_clients(now);
        self.end_calls();
    }

    fn wake(&self) -> Option<Wake> {
        let why = WakeReason::Turn;
        let found = self.search.as_ref().and_then(Search::wake);
        let all = [self.station.wake(), self.sis.wake(), found, self.waits];
        let probes = self.probes.iter().filter_map(Probe::wake);
        let at = all.into_iter().flatten().chain(probes).min();
        at.map(|at| Wake { at, why })
    }

    fn expires(&self) -> Option<Instant> {
        let both = [self.ip.expires(), self.handed_expires()];
        both.into_iter().flatten().map(|(at, _)| at).min()
    }

    fn check(&self) {
        self.check_clients();
    }

    fn set_up(&mut self, _: &mut Queue, now: Instant, state: PortState) {
        self.station.set_up(now, state);
        self.sis.set_up(now, true);
    }

    fn hear_medium(&mut self, now: Instant, event: PortEvent) {
        match event {
            PortEvent::Carrier(on) => self.station.hear_carrier(now, on),
            PortEvent::Drained => self.station.drained(now),
            PortEvent::Up(_)
            | PortEvent::Changed(_)
            | PortEvent::Neighbour(..)
            | PortEvent::NeighbourRate(..)
            | PortEvent::Down(_) => {}
        }
    }

    fn eligible(&self, _: &Queue, to: NeighbourId, class: ClassId, _: &Treatment) -> bool {
        let found = self.search.as_ref().is_none_or(|it| it.found() > 0);
        let repeats = || self.ip.repeats(to, class);
        found && self.lets_packets(to.index()) && self.station.takes(to.index(), repeats())
    }

    fn count(&mut self, packet: &Packet, packets: isize) {
        self.ip.count(packet, packets);
    }

    fn overflows(&self, packet: &Packet) -> bool {
        self.ip.overflows(packet)
    }

    fn queued(&mut self, _: &mut Queue, now: Instant, _: NeighbourId, _: &mut Ledger) {
        self.look(now);
    }

    fn discard(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) -> bool {
        let mut any = false;
        while let Some(to) = self.ip.too_old(now) {
            queue.give_up(self, now, to, DropCause::Aged, ledger);
            any = true;
        }
        if self.give_up_unanswered(now) {
            self.end_stays(queue, now, ledger);
            any = true;
        }
        queue.discard(self, now, ledger) || any
    }

    fn wants(&self, queue: &Queue) -> Option<Want> {
        if !self.station.may_transmit() {
            return None;
        }
        if let Some(head) = queue.head(self) {
            return Some(want(head));
        }
        let next = self.sis.next_for(&self.station).map(|next| next.to);
        let own = || {
            self.station
                .on_air_to()
                .or_else(|| self.station.to_whom(&[]))
        };
        Some(Want {
            class: NOTE_CLASS,
            octets: D_PDU_OCTETS,
            to: self.neighbour(next.or_else(own)?),
        })
    }

    /// Sends the next D_PDU, beginning a turn first if none is under way.
    fn pull(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        if self.station.on_air_to().is_none() {
            self.begin_turn(queue, now, room)?;
        }
        let to = self.station.on_air_to()?;
        let mut class = None;
        loop {
            let head = queue.head(self);
            if self.offer_of_clients(head.is_some()) {
                class = class.or(Some(NOTE_CLASS));
                continue;
            }
            let Some(head) = head else { break };
            class = class.or(Some(head.class));
            if !self.offer(queue, now, head, ledger) {
                break;
            }
        }
        let before = out.len();
        let written = self.station.write(room, out);
        // A packet taken from the queue can't be put back: an empty transmission shows that.
        let idle = || class.and_then(|_| self.station.idle_turn());
        let turn = written.or_else(idle)?;
        let octets = (out.len() - before) as u64;
        queue.paths.first.burst.push(room.starts, octets);
        queue.stats(ledger).frames_out += 1;
        self.end_stays(queue, now, ledger);
        Some(TxMeta {
            to: self.neighbour(to),
            turn: Some(turn),
            ..TxMeta::to_peer(class.unwrap_or(NOTE_CLASS))
        })
    }

    fn hear(&mut self, queue: &mut Queue, now: Instant, frame: Frame<'_>, ledger: &mut Ledger) {
        let stats = queue.stats(ledger);
        stats.frames_in += 1;
        stats.octets_in += frame.bytes.len() as u64;
        self.station.measure(frame.meta);
        self.station.hear(now, frame.bytes);
    }

    fn settle(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        ledger: &mut Ledger,
        came: &mut Vec<(Arrival, Hop)>,
    ) -> bool {
        self.end_stays(queue, now, ledger);
        for to in self.take_lost() {
            queue.give_up(self, now, to, DropCause::Undelivered, ledger);
        }
        let port = queue.id;
        while let Some(received) = self.station.poll_received() {
            let Some(CPdu::Data(s_pdu)) = CPdu::parse(&received.c_pdu) else {
                continue;
            };
            let data = DataSPdu::parse(s_pdu);
            let Some(data) = data.filter(|data| self.own_packets && s_pdu::is_packet(data)) else {
                self.arrive(now, &received, s_pdu);
                continue;
            };
            // A packet arrives by a route's neighbour.
            let from = received.from.filter(|from| *from < self.station.peers());
            let Some(from) = from else { continue };
            if self.sis.is_late(now, &data) {
                continue;
            }
            let whole = received.damaged.is_empty() && received.missing.is_empty();
            let Some(packet) = s_pdu::packet(&data).filter(|_| whole) else {
                queue.stats(ledger).invalid += 1;
                continue;
            };
            let mut copy = ledger.spare();
            copy.extend_from_slice(packet);
            let to = NeighbourId(from as u16);
            came.push((Arrival::Octets(copy), Hop { port, to }));
        }
        self.tend_clients(now);
        for to in 0..self.station.peers() {
            queue.set_silent(NeighbourId(to as u16), !self.is_answered(to));
        }
        let stats = queue.stats(ledger);
        self.tell(&mut stats.hf);
        stats.damaged = stats.hf.counts.damaged;
        stats.strangers = stats.hf.counts.strangers;
        false
    }

    fn hear_stream(&mut self, now: Instant, id: StreamId, event: &StreamEvent<'_>) {
        self.hear_client(now, id, event);
    }

    fn poll_effect(&mut self, queue: &Queue) -> Option<Effect> {
        self.poll_client(queue.id)
    }

    fn set_calendar(&mut self, now: Instant, wall: WallTime) {
        self.sis.set_calendar(now, wall);
    }
}
