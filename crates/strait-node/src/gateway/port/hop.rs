//! A port whose links are made reliable: packets stay in the node's hands until the neighbour has
//! them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use strait_core::fate::{Ledger, Origin};
use strait_core::node::{PortState, TxMeta, Want};
use strait_core::rate::LineRate;
use strait_core::stats::HopStats;
use strait_core::{ClassId, DropCause, Duration, Fate, Instant, NeighbourId, Packet, Room, Wake};
use strait_link::hbh::{AnyHop, Heard, Manner, Outcome, Reliability, Said};
use strait_qos::{Policy, Scheduler, same_flow};
use strait_wire::hash::hash64;
use strait_wire::hbh::{Ingress, OVERHEAD_OCTETS_MAX, TAGS};
use strait_wire::ip::{PacketInfo, TcpFlags, tcp_header};

use super::NOTE_CLASS;
use super::link::{Arrival, Frame, Link, Outlet, Settles};
use super::queue::{Queue, Treatment, want};
use crate::config::{HopConfig, PortConfig};
use crate::hop_config::Depths;
use crate::route::Hop as Way;

/// One neighbour.
#[derive(Debug)]
struct Other {
    hop: AnyHop,
    /// By mark. A stop applies to a mark, and the fullest of them counts.
    outlets: [[Option<Outlet>; Self::OUTLETS]; TAGS],
    stop: u8,
}

impl Other {
    /// Ways that are remembered for a mark: of more branches, the ones used last count.
    const OUTLETS: usize = 4;

    /// Takes note of where a packet goes.
    fn note(&mut self, mark: u8, outlet: Outlet) {
        let known = &mut self.outlets[usize::from(mark) % TAGS];
        let same = |entry: &Option<Outlet>| {
            entry.is_some_and(|it| (it.way, it.class) == (outlet.way, outlet.class))
        };
        let place = known.iter().position(same).unwrap_or(Self::OUTLETS - 1);
        known[..=place].rotate_right(1);
        known[0] = Some(outlet);
    }
}

/// The numbers of flows that come into the network here.
#[derive(Debug)]
struct Numbers {
    flows: BTreeMap<u32, (u16, Instant)>,
    /// After a pause as long a flow may begin anew: nothing waits for earlier packets.
    forgets_after: Duration,
}

impl Numbers {
    /// Flows at once. Further ones are kept in order by each link separately.
    const FLOWS_MAX: usize = 1024;

    /// Longer than any wait for the order of a flow.
    fn new(order_hold: Duration) -> Self {
        Self {
            flows: BTreeMap::new(),
            forgets_after: order_hold * 2,
        }
    }

    /// The number of a flow's next packet.
    fn next(&mut self, now: Instant, flow: u32) -> Option<u16> {
        if self.flows.len() >= Self::FLOWS_MAX && !self.flows.contains_key(&flow) {
            let after = self.forgets_after;
            self.flows.retain(|_, (_, last)| now.since(*last) <= after);
            if self.flows.len() >= Self::FLOWS_MAX {
                return None;
            }
        }
        let (next, last) = self.flows.entry(flow).or_insert((0, now));
        *last = now;
        *next = next.wrapping_add(1);
        Some(*next)
    }
}

/// The neighbours of a port whose links are made reliable.
#[derive(Debug)]
pub(super) struct Hops {
    others: Vec<Other>,
    config: HopConfig,
    /// By class: the reliability of its packets, and how many a parity frame covers.
    reliability: Vec<(Reliability, u16)>,
    /// How this port names itself to packets that come into the network here.
    node: u16,
    serial: u16,
    numbers: Numbers,
    frame_octets_max: usize,
    now: Instant,
    refused: u64,
    duplicates: u64,
    foreign: u64,
}

impl Hops {
    pub(super) fn new(config: &PortConfig, policy: &Policy, seed: u64) -> Self {
        let hop_config = config.hbh.clone().unwrap_or_default();
        let settings = hop_config.settings(config.hop_check());
        let other = |number: usize| Other {
            hop: AnyHop::new(
                settings,
                hash64(seed, &(number as u32).to_le_bytes()) as u32,
            ),
            outlets: [[None; Other::OUTLETS]; TAGS],
            stop: 0,
        };
        let classes = policy.classes().iter();
        let numbers = Numbers::new(hop_config.order_hold.0);
        Self {
            others: (0..config.neighbours.len().max(1)).map(other).collect(),
            reliability: classes
                .map(|class| hop_config.reliability(&class.name))
                .collect(),
            config: hop_config,
            node: (seed >> 32) as u16,
            serial: 0,
            numbers,
            frame_octets_max: config.frame_octets_max(),
            now: Instant::ZERO,
            refused: 0,
            duplicates: 0,
            foreign: 0,
        }
    }

    fn other(&self, to: NeighbourId) -> Option<&Other> {
        self.others.get(to.index())
    }

    fn other_mut(&mut self, to: NeighbourId) -> Option<&mut Other> {
        self.others.get_mut(to.index())
    }

    /// The longest packet that fits a frame of the medium.
    const fn packet_octets_max(&self, frame_octets_max: usize) -> usize {
        let frame = if frame_octets_max < self.frame_octets_max {
            frame_octets_max
        } else {
            self.frame_octets_max
        };
        frame.saturating_sub(OVERHEAD_OCTETS_MAX)
    }

    /// Each neighbour's repairs go by the rate towards it.
    fn settle_rates(&mut self, queue: &Queue) {
        for (to, other) in (0..).map(NeighbourId).zip(&mut self.others) {
            let rate_bit_s = queue.rate_to(to).payload_bit_s();
            let known = Some(rate_bit_s).filter(|rate_bit_s| *rate_bit_s < Self::UNLIMITED_BIT_S);
            other.hop.set_rate(known);
        }
    }

    /// A port reports this rate, or a higher one, without a configured rate of its line.
    const UNLIMITED_BIT_S: u64 = 1_000_000_000;
    /// Each acknowledgement changes a round trip, and only so many octets change limits.
    const TRIP_STEP: u64 = 4096;

    /// The neighbour that is to get a frame without packet before anything goes to `next`.
    fn control_to(&self, now: Instant, next: Option<NeighbourId>) -> Option<NeighbourId> {
        let numbers = (0..).map(NeighbourId).zip(&self.others);
        let due = numbers.filter(|(to, other)| {
            other.hop.has_own_control(now) || (next != Some(*to) && other.hop.has_control(now))
        });
        due.map(|(to, _)| to).next()
    }

    /// The packets of a class to be repeated before any new one of it: their neighbour, and their
    /// octets.
    fn again(&self, class: ClassId) -> Option<(NeighbourId, u32)> {
        let numbers = (0..).map(NeighbourId).zip(&self.others);
        let mut again = numbers.filter_map(|(to, it)| Some((to, it.hop.again(class)?.1)));
        again.next()
    }

    /// A packet of which a copy may go if nothing else has to: its receiver, its number and octets.
    fn copy(&self) -> Option<(NeighbourId, u32, u32)> {
        let numbers = (0..).map(NeighbourId).zip(&self.others);
        let mut copies = numbers.filter_map(|(to, it)| {
            let (seq, octets) = it.hop.copy()?;
            Some((to, seq, octets))
        });
        copies.next()
    }

    /// How a packet of a class is sent.
    fn manner(&self, packet: &Packet, tag: usize) -> Manner {
        let info = packet.info();
        let flow = self.config.tells_apart(info).then(|| flow(info));
        let class = packet.class.index();
        let (reliability, parity) = self.reliability.get(class).copied().unwrap_or_default();
        Manner {
            tag: tag as u8,
            flow,
            reliability,
            says: said(packet),
            parity,
        }
    }

    fn stats(&self) -> HopStats {
        let mut stats = HopStats {
            duplicates: self.duplicates,
            refused: self.refused,
            foreign: self.foreign,
            ..HopStats::default()
        };
        for other in &self.others {
            let counts = other.hop.counts();
            let [window, order] = other.hop.octets();
            stats.repeated += counts.repeated;
            stats.needless += counts.needless;
            stats.copied += counts.copied;
            stats.parities += counts.parities;
            stats.restored += counts.restored;
            stats.control += counts.control;
            stats.forged += counts.forged;
            stats.impatient += counts.impatient;
            stats.renewals += counts.renewals;
            stats.other_format += counts.other_format;
            stats.other_check += counts.other_check;
            stats.window_packets_most += counts.window_packets_most;
            stats.window_octets += window as u64;
            stats.order_octets += order as u64;
        }
        stats
    }
}

/// The content of a bare acknowledgement of TCP, if it contains nothing else.
fn said(packet: &Packet) -> Option<Said> {
    let info = packet.info();
    let header = (info.tcp_bare == Some(TcpFlags::ACK)).then(|| tcp_header(packet.bytes()));
    Some(Said {
        flow: flow(info),
        number: header??.ack,
    })
}

/// A number for the flow that a packet belongs to.
fn flow(info: &PacketInfo) -> u32 {
    let mut key = Vec::with_capacity(40);
    for address in [info.src, info.dst] {
        match address {
            core::net::IpAddr::V4(address) => key.extend_from_slice(&address.octets()),
            core::net::IpAddr::V6(address) => key.extend_from_slice(&address.octets()),
        }
    }
    let (source, destination) = info.ports.unwrap_or_default();
    key.extend_from_slice(&source.to_le_bytes());
    key.extend_from_slice(&destination.to_le_bytes());
    hash64(u64::from(info.protocol), &key) as u32
}

impl Hops {
    /// Repetitions keep their class, before anything new of it.
    fn sync_again(&self, queue: &mut Queue, class: ClassId) {
        let (to, octets) = self.again(class).unwrap_or((NeighbourId::PEER, 0));
        queue.paths.first.queue.set_under_way(class, to, octets);
    }

    fn sync_all(&self, queue: &mut Queue) {
        for class in 0..queue.classes.len() {
            self.sync_again(queue, ClassId(class as u8));
        }
    }

    /// Sent packets may have ended groups of other classes.
    fn sync_due(&self, queue: &mut Queue, to: NeighbourId) {
        let other = self.other(to);
        let due = other.into_iter().flat_map(|it| it.hop.classes_due());
        due.for_each(|class| self.sync_again(queue, class));
    }

    /// A frame without packet, where one is due before anything goes to `next`.
    fn pull_control(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        room: Room,
        to: NeighbourId,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let before = out.len();
        let octets_max = room.octets.min(self.frame_octets_max);
        let other = self.other_mut(to)?;
        if octets_max < other.hop.control_octets_max() {
            return None;
        }
        other.hop.control(now, out)?;
        queue.leaves(room.starts, to, out.len() - before);
        queue.stats(ledger).frames_out += 1;
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(NOTE_CLASS)
        })
    }

    /// A copy of a repeated packet, if nothing else waits.
    fn pull_copy(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let (to, seq, octets) = self.copy()?;
        let octets_max = room.octets.min(self.frame_octets_max);
        if octets as usize + OVERHEAD_OCTETS_MAX > octets_max {
            return None;
        }
        let before = out.len();
        let other = self.other_mut(to)?;
        other
            .hop
            .transmit(now, room.starts, (seq, false), octets_max, out)?;
        let ended = queue.leaves(room.starts, to, out.len() - before);
        other.hop.left(ended);
        queue.stats(ledger).frames_out += 1;
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(NOTE_CLASS)
        })
    }

    /// Puts a packet from the queue into a neighbour's window.
    fn begin(
        &mut self,
        queue: &Queue,
        now: Instant,
        to: NeighbourId,
        mut packet: Packet,
    ) -> Option<u32> {
        let manner = self.manner(&packet, usize::from(tag(queue, packet.class)));
        if packet.ingress.is_none() {
            let number = manner.flow.and_then(|flow| self.numbers.next(now, flow));
            self.serial = self.serial.wrapping_add(1);
            packet.ingress = Some(Ingress {
                node: self.node,
                serial: number.unwrap_or(self.serial),
                ordered: number.is_some(),
            });
        }
        Some(self.other_mut(to)?.hop.begin(packet, manner))
    }
}

/// The tag that a port gives packets of a class.
fn tag(queue: &Queue, class: ClassId) -> u8 {
    let treatment = queue.classes.get(class.index());
    treatment.map_or(0, |treatment| treatment.stream as u8)
}

impl Link for Hops {
    fn neighbours(&self) -> usize {
        self.others.len()
    }

    fn held(&self) -> usize {
        self.others.iter().map(|other| other.hop.held()).sum()
    }

    fn abandon(&mut self, _: Instant) -> Vec<Packet> {
        let others = self.others.iter_mut();
        others.flat_map(|other| other.hop.take_all()).collect()
    }

    fn settles(&self) -> Settles {
        Settles::First
    }

    fn is_reliable(&self) -> bool {
        true
    }

    fn advance(&mut self, now: Instant) {
        self.now = now;
        self.others.iter_mut().for_each(|it| it.hop.advance(now));
    }

    fn wake(&self) -> Option<Wake> {
        let wakes = self.others.iter().filter_map(|it| it.hop.wake());
        wakes.min_by_key(|wake| wake.at)
    }

    /// The medium is there, and so are the neighbours that aren't away.
    fn set_up(&mut self, queue: &mut Queue, now: Instant, state: PortState) {
        let most = self.packet_octets_max(state.frame_octets_max as usize);
        queue.mtu = queue.mtu_max.min(most);
        self.now = now;
        for (number, other) in (0..).zip(&mut self.others) {
            if !queue.away.contains(&NeighbourId(number)) {
                other.hop.set_up(now);
            }
        }
        self.settle_rates(queue);
    }

    fn set_rate(&mut self, queue: &mut Queue, to: NeighbourId, rate: LineRate) {
        queue.set_rate(to, rate);
        self.settle_rates(queue);
    }

    /// Unacknowledged packets keep waiting.
    fn set_down(&mut self, _: &mut Queue, _: Instant, _: &mut Ledger) {
        self.others.iter_mut().for_each(|it| it.hop.set_down());
    }

    fn set_neighbour(
        &mut self,
        _: &mut Queue,
        now: Instant,
        to: NeighbourId,
        there: bool,
        _: &mut Ledger,
    ) {
        match self.other_mut(to) {
            Some(other) if there => other.hop.set_up(now),
            Some(other) => other.hop.set_down(),
            None => {}
        }
    }

    fn eligible(
        &self,
        queue: &Queue,
        to: NeighbourId,
        class: ClassId,
        treatment: &Treatment,
    ) -> bool {
        let front = || {
            let front = queue.paths.first.queue.front(class, to);
            front.map(|packet| flow(packet.info()))
        };
        self.other(to).is_some_and(|other| {
            let again = other.hop.again(class).is_some();
            again || other.hop.takes(treatment.stream as u8, front)
        })
    }

    /// Whether any packet that a neighbour hasn't acknowledged is such.
    fn any_leaving(&self, to: NeighbourId, _: usize, such: &dyn Fn(&Packet) -> bool) -> bool {
        self.other(to).is_some_and(|it| it.hop.any_sent(such))
    }

    fn renew(&mut self, repetition: &Packet) {
        if let Some(other) = self.other_mut(repetition.to) {
            let of_flow = |packet: &Packet| same_flow(packet, repetition);
            other.hop.renew(repetition.expires, of_flow);
        }
    }

    fn wants(&self, queue: &Queue) -> Option<Want> {
        if let Some(head) = queue.head(self) {
            return Some(want(head));
        }
        let (to, octets) = match self.control_to(self.now, None) {
            Some(to) => (to, self.other(to)?.hop.control_octets_max()),
            None => {
                let (to, _, octets) = self.copy()?;
                (to, octets as usize + OVERHEAD_OCTETS_MAX)
            }
        };
        Some(Want {
            class: NOTE_CLASS,
            octets: octets as u32,
            to,
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
        let head = queue.head(self);
        if let Some(to) = self.control_to(now, head.map(|head| head.to)) {
            return self.pull_control(queue, now, room, to, out, ledger);
        }
        let Some(head) = head else {
            return self.pull_copy(queue, now, room, out, ledger);
        };
        let octets_max = room.octets.min(self.frame_octets_max);
        let before = out.len();
        let seq = match self.other(head.to)?.hop.again(head.class) {
            Some((seq, octets)) => {
                if octets as usize + OVERHEAD_OCTETS_MAX > octets_max {
                    return None;
                }
                seq
            }
            None => {
                let packet_max = octets_max.checked_sub(OVERHEAD_OCTETS_MAX)?;
                let packet = queue.take(self, now, head, packet_max, ledger)?;
                self.begin(queue, now, head.to, packet)?
            }
        };
        let last = queue.paths.first.queue.queued(head.class).packets == 0;
        let other = self.other_mut(head.to)?;
        other
            .hop
            .transmit(now, room.starts, (seq, last), octets_max, out)?;
        let octets = out.len() - before;
        let ended = queue.leaves(room.starts, head.to, octets);
        other.hop.left(ended);
        let tree = &mut queue.paths.first.queue;
        tree.set_under_way(head.class, head.to, 0);
        queue.charge(head.class, head.to, octets as u32);
        self.sync_again(queue, head.class);
        self.sync_due(queue, head.to);
        queue.stats(ledger).frames_out += 1;
        Some(TxMeta {
            to: head.to,
            ..TxMeta::to_peer(head.class)
        })
    }

    fn hear(&mut self, queue: &mut Queue, now: Instant, frame: Frame<'_>, ledger: &mut Ledger) {
        let stats = queue.stats(ledger);
        stats.frames_in += 1;
        stats.octets_in += frame.bytes.len() as u64;
        let Some(other) = self.others.get_mut(frame.from.index()) else {
            stats.strangers += 1;
            return;
        };
        let room = |mark: u8, _: _| frame.refused >> (mark & 7) & 1 == 0;
        match other.hop.hear(now, frame.bytes, room) {
            Heard::Nothing => {}
            Heard::Foreign => self.foreign += 1,
            Heard::Invalid => stats.invalid += 1,
            Heard::Duplicate => self.duplicates += 1,
            Heard::Refused => self.refused += 1,
            Heard::Packet(header, octets) => {
                let mut copy = ledger.spare();
                copy.extend_from_slice(&octets);
                let packet = ledger.admit(now, copy, Origin::Port(queue.id)).ok();
                let packet = packet.map(|mut packet| {
                    header.mark(now, &mut packet);
                    packet
                });
                // Packets forwarded by such links wait for their order where they leave them.
                let leaves = |packet: &&Packet| !frame.onward.has(packet.info().dst);
                let flow = packet.as_ref().filter(leaves).map(|it| flow(it.info()));
                other.hop.accept(now, &header, packet, flow);
            }
        }
    }

    fn settle(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        ledger: &mut Ledger,
        came: &mut Vec<(Arrival, Way)>,
    ) -> bool {
        let port = queue.id;
        for (number, other) in (0..).zip(&mut self.others) {
            let to = NeighbourId(number);
            for (packet, ended, outcome) in other.hop.done() {
                match outcome {
                    Outcome::Acknowledged => {
                        let bytes = ledger.close(ended, packet, Fate::Forwarded { port, to });
                        ledger.keep_spare(bytes);
                    }
                    Outcome::Undelivered => ledger.drop(now, packet, DropCause::Undelivered),
                    Outcome::Aged => ledger.drop(now, packet, DropCause::Aged),
                    Outcome::Superseded => {
                        ledger.close(now, packet, Fate::Absorbed);
                    }
                }
            }
            let from = Way { port, to };
            came.extend(other.hop.released().map(|mut packet| {
                packet.from = to;
                (Arrival::Admitted(packet), from)
            }));
        }
        queue.stats(ledger).hop = self.stats();
        self.sync_all(queue);
        false
    }

    fn outlets(&self, from: NeighbourId, mark: u8) -> &[Option<Outlet>] {
        let other = self.other(from);
        other.map_or(&[], |other| &other.outlets[usize::from(mark) % TAGS])
    }

    fn note_outlet(&mut self, queue: &Queue, from: NeighbourId, packet: &Packet, way: Way) {
        let tag = tag(queue, packet.class);
        if let Some(other) = self.other_mut(from) {
            let mark = other.hop.mark(tag, flow(packet.info()));
            let class = packet.class;
            other.note(mark, Outlet { way, class });
        }
    }

    /// Packets that wait while the senders don't know yet that they may continue last half a round
    /// trip: a link without waiting packets is idle.
    fn stop_depths(&self, from: NeighbourId, out: LineRate) -> Depths {
        let rate_bit_s = out.payload_bit_s();
        let trip = match self.other(from) {
            Some(other) if rate_bit_s < Self::UNLIMITED_BIT_S => other.hop.trip_octets(rate_bit_s),
            _ => 0,
        };
        self.config.stop_depths(trip as u64 / 2)
    }

    fn longest_trip(&self) -> Duration {
        let trips = self.others.iter().filter_map(|it| it.hop.round_trip());
        trips.max().unwrap_or_default()
    }

    fn set_trip(&self, queue: &mut Queue, trip: Duration) {
        let rate = queue.state.map(|state| state.tx_rate);
        let known = rate.filter(|rate| rate.payload_bit_s() < Self::UNLIMITED_BIT_S);
        let octets = known.map_or(0, |rate| rate.octets_in(trip));
        queue.set_trip_octets(octets.next_multiple_of(Self::TRIP_STEP));
    }

    fn is_wide(&self) -> bool {
        self.others.iter().all(|other| other.hop.is_wide())
    }

    fn is_full(&self, queue: &Queue, to: NeighbourId) -> bool {
        let waiting = queue.paths.to(to).queue.total().octets;
        self.other(to).is_some_and(|it| {
            let [window, _] = it.hop.octets();
            let most = it.hop.held_octets_max();
            most.is_some_and(|most| window as u64 + waiting >= most as u64)
        })
    }

    fn stop(&self, from: NeighbourId) -> u8 {
        self.other(from).map_or(0, |other| other.stop)
    }

    fn set_stop(&mut self, from: NeighbourId, stop: u8) {
        if let Some(other) = self.other_mut(from) {
            other.stop = stop;
            other.hop.set_stop(stop);
        }
    }

    fn take_back(
        &mut self,
        queue: &mut Queue,
        ledger: &mut Ledger,
        leaves: &mut dyn FnMut(&Packet) -> bool,
    ) -> Vec<Packet> {
        let mut taken = Vec::new();
        for other in &mut self.others {
            taken.extend(other.hop.take_window(&mut *leaves));
        }
        self.sync_all(queue);
        taken.extend(core::iter::from_fn(|| queue.drain(self, ledger)));
        taken
    }
}
