//! A port whose links are made reliable: packets stay in the node's hands until the neighbour has
//! them.

use alloc::vec::Vec;

use strait_core::fate::{Ledger, Origin};
use strait_core::node::{TxMeta, Want};
use strait_core::stats::HopStats;
use strait_core::{ClassId, DropCause, Fate, Instant, NeighbourId, Packet, Room, Wake};
use strait_link::hbh::{AnyHop, Heard, Manner, Outcome, Reliability};
use strait_qos::{Policy, Scheduler};
use strait_wire::hash::hash64;
use strait_wire::hbh::{Ingress, OVERHEAD_OCTETS_MAX, TAGS};
use strait_wire::ip::PacketInfo;

use super::{Link, NOTE_CLASS, Port, count_queued};
use crate::config::{HopConfig, PortConfig};
use crate::hop_config::Depth;
use crate::route::Hop as Way;

/// Where packets of one tag from one neighbour went last.
#[derive(Clone, Copy, Debug)]
struct Outlet {
    way: Way,
    class: ClassId,
}

/// One neighbour.
#[derive(Debug)]
struct Other {
    hop: AnyHop,
    /// By mark. What is stopped is a mark, so the fullest of them counts.
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

/// The neighbours of a port whose links are made reliable.
#[derive(Debug)]
pub(super) struct Hops {
    others: Vec<Other>,
    config: HopConfig,
    /// By class: what is done for its packets, and how many a parity frame tells of.
    reliability: Vec<(Reliability, u16)>,
    /// How this port names itself to packets that come into the network here.
    node: u16,
    serial: u16,
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
        Self {
            others: (0..config.neighbours.len().max(1)).map(other).collect(),
            reliability: classes
                .map(|class| hop_config.reliability(&class.name))
                .collect(),
            config: hop_config,
            node: (seed >> 32) as u16,
            serial: 0,
            frame_octets_max: config.frame_octets_max(),
            now: Instant::ZERO,
            refused: 0,
            duplicates: 0,
            foreign: 0,
        }
    }

    pub(super) const fn neighbours(&self) -> usize {
        self.others.len()
    }

    fn other(&self, to: NeighbourId) -> Option<&Other> {
        self.others.get(to.index())
    }

    fn other_mut(&mut self, to: NeighbourId) -> Option<&mut Other> {
        self.others.get_mut(to.index())
    }

    /// Packets that the port holds beside its queue.
    pub(super) fn held(&self) -> usize {
        self.others.iter().map(|other| other.hop.held()).sum()
    }

    /// The longest packet that fits a frame of the medium.
    pub(super) const fn packet_octets_max(&self, frame_octets_max: usize) -> usize {
        let frame = if frame_octets_max < self.frame_octets_max {
            frame_octets_max
        } else {
            self.frame_octets_max
        };
        frame.saturating_sub(OVERHEAD_OCTETS_MAX)
    }

    /// The medium is there, and so are these neighbours.
    pub(super) fn set_up(&mut self, now: Instant, there: impl Fn(NeighbourId) -> bool) {
        self.now = now;
        for (number, other) in (0..).zip(&mut self.others) {
            if there(NeighbourId(number)) {
                other.hop.set_up(now);
            }
        }
    }

    /// A neighbour came, or went.
    pub(super) fn set_neighbour(&mut self, now: Instant, to: NeighbourId, there: bool) {
        match self.others.get_mut(to.index()) {
            Some(other) if there => other.hop.set_up(now),
            Some(other) => other.hop.set_down(),
            None => {}
        }
    }

    pub(super) fn set_down(&mut self) {
        self.others.iter_mut().for_each(|it| it.hop.set_down());
    }

    /// Gives every packet back.
    pub(super) fn take_all(&mut self) -> Vec<Packet> {
        let mut all = Vec::new();
        for other in &mut self.others {
            all.extend(other.hop.take_all());
        }
        all
    }

    pub(super) fn advance(&mut self, now: Instant) {
        self.now = now;
        self.others.iter_mut().for_each(|it| it.hop.advance(now));
    }

    pub(super) fn wake(&self) -> Option<Wake> {
        let wakes = self.others.iter().filter_map(|it| it.hop.wake());
        wakes.min_by_key(|wake| wake.at)
    }

    /// Whether something of a class may be sent to a neighbour; `front` is the packet that waits
    /// for it.
    pub(super) fn eligible<'a>(
        &self,
        to: NeighbourId,
        class: ClassId,
        tag: usize,
        front: impl FnOnce() -> Option<&'a Packet>,
    ) -> bool {
        let front = || front().map(|packet| flow(packet.info()));
        self.other(to).is_some_and(|other| {
            other.hop.again(class).is_some() || other.hop.takes(tag as u8, front)
        })
    }

    /// Whether any packet that a neighbour hasn't acknowledged is such.
    pub(super) fn any_sent(&self, to: NeighbourId, such: impl FnMut(&Packet) -> bool) -> bool {
        self.other(to).is_some_and(|it| it.hop.any_sent(such))
    }

    /// The neighbour that is to get a frame without packet before anything goes to `next`.
    fn control_to(&self, now: Instant, next: Option<NeighbourId>) -> Option<NeighbourId> {
        let numbers = (0..).map(NeighbourId).zip(&self.others);
        let due = numbers.filter(|(to, other)| {
            other.hop.has_own_control(now) || (next != Some(*to) && other.hop.has_control(now))
        });
        due.map(|(to, _)| to).next()
    }

    /// What of a class is to be sent before anything new of it: to whom, and its octets.
    fn again(&self, class: ClassId) -> Option<(NeighbourId, u32)> {
        let numbers = (0..).map(NeighbourId).zip(&self.others);
        let mut again = numbers.filter_map(|(to, it)| Some((to, it.hop.again(class)?.1)));
        again.next()
    }

    /// A packet of which a copy may go if nothing else has to: to whom, its number and octets.
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
        let flow = self.config.tells_apart(info.protocol).then(|| flow(info));
        let class = packet.class.index();
        let (reliability, parity) = self.reliability.get(class).copied().unwrap_or_default();
        Manner {
            tag: tag as u8,
            flow,
            reliability,
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
            stats.window_octets += window as u64;
            stats.order_octets += order as u64;
        }
        stats
    }
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

impl Port {
    const fn hops(&self) -> Option<&Hops> {
        match &self.link {
            Link::Hops(hops) => Some(hops),
            _ => None,
        }
    }

    const fn hops_mut(&mut self) -> Option<&mut Hops> {
        match &mut self.link {
            Link::Hops(hops) => Some(hops),
            _ => None,
        }
    }

    /// Whether its links are made reliable.
    pub(crate) const fn is_hops(&self) -> bool {
        matches!(self.link, Link::Hops(_))
    }

    /// Octets and packets of a class for a neighbour behind which no more are wanted, as shares of
    /// its limits; or packets as they are told.
    fn fills(&self, to: NeighbourId, class: ClassId, depth: Depth, share: u64) -> bool {
        // What waits for a host side that is down holds nobody up: nothing joins it.
        if self.is_host() && !self.is_up() {
            return false;
        }
        let queued = self.paths.to(to).queue.queued(class);
        let Some(treatment) = self.classes.get(class.index()) else {
            return true;
        };
        let octets = match depth {
            Depth::Octets(octets) => octets,
            Depth::Packets(packets) => {
                return queued.packets >= packets.min(treatment.packets_max).max(1);
            }
        };
        let octets = octets.min(treatment.octets_max / 4 * share);
        let packets = u64::from(treatment.packets_max) * share / 4;
        // Nothing is never too much.
        queued.octets >= octets.max(1) || u64::from(queued.packets) >= packets.max(1)
    }

    /// Whether so much of a class waits for a neighbour that its senders are to stop; less is
    /// enough to let a stopped one go on.
    ///
    /// A sender whose flows have less waiting than others' goes on until twice as much waits:
    /// flows have equal shares only as long as something of each waits.
    pub(crate) fn stops(
        &self,
        (to, class): (NeighbourId, ClassId),
        depth: Depth,
        from: Way,
        stopped: bool,
    ) -> bool {
        let Depth::Octets(octets) = depth else {
            return self.fills(to, class, depth, 1);
        };
        let least = if stopped { octets / 2 } else { octets };
        self.fills(to, class, Depth::Octets(least), 1)
            && (self
                .paths
                .to(to)
                .queue
                .has_share(class, (from.port, from.to))
                || self.fills(to, class, Depth::Octets(octets.saturating_mul(2)), 2))
    }

    /// Whether nothing more of a class for a neighbour is taken from another, told to stop or not.
    pub(crate) fn refuses(&self, to: NeighbourId, class: ClassId, depth: Depth) -> bool {
        self.fills(to, class, depth, 3)
    }

    /// Where a neighbour's packets with a mark went last.
    pub(crate) fn outlets(
        &self,
        from: NeighbourId,
        mark: u8,
    ) -> impl Iterator<Item = (Way, ClassId)> {
        let other = self.hops().and_then(|hops| hops.other(from));
        let known = other.map(|other| &other.outlets[usize::from(mark) % TAGS]);
        let known = known.into_iter().flatten().flatten();
        known.map(|outlet| (outlet.way, outlet.class))
    }

    /// Takes note of where a packet goes that came from a neighbour.
    pub(crate) fn note_outlet(&mut self, from: NeighbourId, packet: &Packet, way: Way) {
        let tag = self.tag(packet.class);
        if let Some(other) = self.hops_mut().and_then(|hops| hops.other_mut(from)) {
            let mark = other.hop.mark(tag, flow(packet.info()));
            let class = packet.class;
            other.note(mark, Outlet { way, class });
        }
    }

    /// The tag that this port gives packets of a class.
    fn tag(&self, class: ClassId) -> u8 {
        let treatment = self.classes.get(class.index());
        treatment.map_or(0, |treatment| treatment.stream as u8)
    }

    /// How much of a class may wait before senders are told to stop, and before nothing is taken.
    pub(crate) fn stop_depths(&self) -> (Depth, Depth) {
        let never = Depth::Octets(u64::MAX);
        self.hops()
            .map_or((never, never), |hops| hops.config.stop_depths())
    }

    /// Marks of which a neighbour is told to send nothing new.
    pub(crate) fn stop(&self, from: NeighbourId) -> u8 {
        let other = self.hops().and_then(|hops| hops.other(from));
        other.map_or(0, |other| other.stop)
    }

    /// Tells a neighbour so.
    pub(crate) fn set_stop(&mut self, from: NeighbourId, stop: u8) {
        if let Some(other) = self.hops_mut().and_then(|hops| hops.other_mut(from)) {
            other.stop = stop;
            other.hop.set_stop(stop);
        }
    }

    /// Takes a frame in. `room` says whether there is room for a packet with this mark.
    pub(crate) fn hear_hop(
        &mut self,
        now: Instant,
        from: NeighbourId,
        bytes: &[u8],
        ledger: &mut Ledger,
        room: impl FnOnce(u8) -> bool,
    ) {
        let id = self.id;
        let stats = &mut ledger.stats_mut().ports[id.index()];
        stats.frames_in += 1;
        stats.octets_in += bytes.len() as u64;
        let Some(hops) = self.hops_mut() else { return };
        let Some(other) = hops.others.get_mut(from.index()) else {
            stats.strangers += 1;
            return;
        };
        match other.hop.hear(now, bytes, |mark, _| room(mark)) {
            Heard::Nothing => {}
            Heard::Foreign => hops.foreign += 1,
            Heard::Invalid => stats.invalid += 1,
            Heard::Duplicate => hops.duplicates += 1,
            Heard::Refused => hops.refused += 1,
            Heard::Packet(header, octets) => {
                let mut copy = ledger.spare();
                copy.extend_from_slice(&octets);
                let packet = ledger.admit(now, copy, Origin::Port(id)).ok();
                let packet = packet.map(|mut packet| {
                    header.mark(now, &mut packet);
                    packet
                });
                other.hop.accept(now, &header, packet);
            }
        }
    }

    /// Ends the stay of packets that neighbours have by now, or never get, and gives those that
    /// came and don't wait any more, with who sent them.
    pub(crate) fn settle_hops(
        &mut self,
        now: Instant,
        ledger: &mut Ledger,
        came: &mut Vec<(Packet, Way)>,
    ) {
        let port = self.id;
        let Some(hops) = self.hops_mut() else { return };
        for (number, other) in (0..).zip(&mut hops.others) {
            let to = NeighbourId(number);
            for (packet, ended, outcome) in other.hop.done() {
                match outcome {
                    Outcome::Acknowledged => {
                        let bytes = ledger.close(ended, packet, Fate::Forwarded { port, to });
                        ledger.keep_spare(bytes);
                    }
                    Outcome::Undelivered => ledger.drop(now, packet, DropCause::Undelivered),
                    Outcome::Aged => ledger.drop(now, packet, DropCause::Aged),
                }
            }
            let from = Way { port, to };
            came.extend(other.hop.released().map(|mut packet| {
                packet.from = to;
                (packet, from)
            }));
        }
        ledger.stats_mut().ports[port.index()].hop = hops.stats();
        for class in 0..self.classes.len() {
            self.sync_again(ClassId(class as u8));
        }
    }

    /// What is to be sent again goes with its class, before anything new of it.
    fn sync_again(&mut self, class: ClassId) {
        let Link::Hops(hops) = &self.link else { return };
        let (to, octets) = hops.again(class).unwrap_or((NeighbourId::PEER, 0));
        self.paths.first.queue.set_under_way(class, to, octets);
    }

    /// What was sent may have ended groups of other classes.
    fn sync_due(&mut self, to: NeighbourId) {
        let other = self.hops().and_then(|hops| hops.other(to));
        let due: Vec<ClassId> = other.map_or_else(Vec::new, |it| it.hop.classes_due().collect());
        due.into_iter().for_each(|class| self.sync_again(class));
    }

    pub(super) fn wants_hop(&self) -> Option<Want> {
        let hops = self.hops()?;
        let (to, octets) = match hops.control_to(hops.now, None) {
            Some(to) => (to, hops.other(to)?.hop.control_octets_max()),
            None => hops
                .copy()
                .map(|(to, _, octets)| (to, octets as usize + OVERHEAD_OCTETS_MAX))?,
        };
        Some(Want {
            class: NOTE_CLASS,
            octets: octets as u32,
            to,
        })
    }

    pub(super) fn pull_hop(
        &mut self,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let head = self.head();
        let hops = self.hops()?;
        let octets_max = room.octets.min(hops.frame_octets_max);
        let before = out.len();
        let next = head.map(|head| head.to);
        if let Some(to) = hops.control_to(now, next) {
            let other = self.hops_mut()?.other_mut(to)?;
            if octets_max < other.hop.control_octets_max() {
                return None;
            }
            other.hop.control(now, out)?;
            self.leaves(room.starts, to, out.len() - before);
            ledger.stats_mut().ports[self.id.index()].frames_out += 1;
            return Some(TxMeta {
                to,
                ..TxMeta::to_peer(NOTE_CLASS)
            });
        }
        let Some(head) = head else {
            return self.pull_copy(now, room, out, ledger);
        };
        let again = hops.other(head.to)?.hop.again(head.class);
        let fits = |octets: u32| octets as usize + OVERHEAD_OCTETS_MAX <= octets_max;
        let seq = match again {
            Some((seq, octets)) => {
                if !fits(octets) {
                    return None;
                }
                seq
            }
            None => {
                let packet_max = octets_max.checked_sub(OVERHEAD_OCTETS_MAX)?;
                let packet = self.take(now, head, packet_max, ledger)?;
                self.begin_hop(head.to, packet)?
            }
        };
        let last = self.paths.first.queue.queued(head.class).packets == 0;
        let other = self.hops_mut()?.other_mut(head.to)?;
        other.hop.transmit(now, room.starts, seq, last, out)?;
        let octets = out.len() - before;
        let ended = self.leaves(room.starts, head.to, octets);
        self.hops_mut()?.other_mut(head.to)?.hop.left(ended);
        self.paths.first.queue.set_under_way(head.class, head.to, 0);
        self.charge(head.class, head.to, octets as u32);
        self.sync_again(head.class);
        self.sync_due(head.to);
        ledger.stats_mut().ports[self.id.index()].frames_out += 1;
        Some(TxMeta {
            to: head.to,
            ..TxMeta::to_peer(head.class)
        })
    }

    /// A copy of what was sent again, where nothing else waits.
    fn pull_copy(
        &mut self,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta> {
        let hops = self.hops()?;
        let (to, seq, octets) = hops.copy()?;
        let octets_max = room.octets.min(hops.frame_octets_max);
        if octets as usize + OVERHEAD_OCTETS_MAX > octets_max {
            return None;
        }
        let before = out.len();
        let other = self.hops_mut()?.other_mut(to)?;
        other.hop.transmit(now, room.starts, seq, false, out)?;
        let ended = self.leaves(room.starts, to, out.len() - before);
        self.hops_mut()?.other_mut(to)?.hop.left(ended);
        ledger.stats_mut().ports[self.id.index()].frames_out += 1;
        Some(TxMeta {
            to,
            ..TxMeta::to_peer(NOTE_CLASS)
        })
    }

    /// Puts a packet from the queue into a neighbour's window.
    fn begin_hop(&mut self, to: NeighbourId, mut packet: Packet) -> Option<u32> {
        let tag = usize::from(self.tag(packet.class));
        let hops = self.hops_mut()?;
        if packet.ingress.is_none() {
            hops.serial = hops.serial.wrapping_add(1);
            packet.ingress = Some(Ingress {
                node: hops.node,
                serial: hops.serial,
            });
        }
        let manner = hops.manner(&packet, tag);
        Some(hops.other_mut(to)?.hop.begin(packet, manner))
    }

    /// Takes out all that waits, and of what is sent and not acknowledged, what is to go another
    /// way.
    pub(crate) fn take_for_routing(
        &mut self,
        ledger: &mut Ledger,
        mut leaves: impl FnMut(&Packet) -> bool,
    ) -> Vec<Packet> {
        let mut taken = Vec::new();
        let Some(hops) = self.hops_mut() else {
            return taken;
        };
        for other in &mut hops.others {
            taken.extend(other.hop.take_window(&mut leaves));
        }
        for class in 0..self.classes.len() {
            self.sync_again(ClassId(class as u8));
        }
        while let Some(packet) = self.paths.first.queue.drain() {
            count_queued(ledger, &packet, -1);
            taken.push(packet);
        }
        taken
    }
}
