//! The flows of one leaf, and their turns.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::{Instant, NeighbourId, Packet};
use strait_wire::hash::hash64;
use strait_wire::ip::PacketInfo;

use super::codel::Codel;
use super::costs::Costs;
use crate::dscp::Dscp;
use crate::repeat::same_flow;

/// The identity of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowKey {
    pub(super) to: NeighbourId,
    /// The number of the flow to that neighbour; 0 if flows aren't separated.
    bucket: u32,
}

/// How flows are separated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashing {
    /// Flows to one neighbour that can be separated; others share a queue by chance.
    pub(super) buckets: u32,
    /// Changes which of them do.
    pub(super) salt: u64,
}

impl Hashing {
    pub(super) fn key(self, packet: &Packet) -> FlowKey {
        let bucket = if self.buckets > 1 {
            (flow_hash(self.salt, packet.info()) % u64::from(self.buckets)) as u32
        } else {
            0
        };
        FlowKey {
            to: packet.to,
            bucket,
        }
    }
}

/// A number that is equal for the packets of one conversation in one direction.
fn flow_hash(salt: u64, info: &PacketInfo) -> u64 {
    let mut words = [0u8; 42];
    let put = |words: &mut [u8], address: IpAddr| match address {
        IpAddr::V4(address) => words[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => words.copy_from_slice(&address.octets()),
    };
    put(&mut words[..16], info.src);
    put(&mut words[16..32], info.dst);
    let (source, destination) = info.ports.unwrap_or_default();
    words[32..34].copy_from_slice(&source.to_le_bytes());
    words[34..36].copy_from_slice(&destination.to_le_bytes());
    words[36..40].copy_from_slice(&info.spi.unwrap_or_default().to_le_bytes());
    words[40] = info.protocol;
    hash64(salt, &words)
}

/// The packets of one key. A flow without packets is none, unless its past service still counts:
/// there it keeps its place. All are examined again and again, so that the list itself is small.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) key: FlowKey,
    /// Octets that it may still send in its turn; below zero a debt.
    credit: i64,
    /// Of shares: on their clock, when its first packet begins to leave.
    begins: i64,
    /// Octets of its first packet; 0 without.
    first: u32,
    /// The part of its share that its first packet uses, in parts.
    toll: i64,
    /// `None` if that would say nothing.
    pub(super) waiting: Option<Box<Waiting>>,
}

/// The waiting packets of one flow.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) packets: VecDeque<Packet>,
    pub(super) octets: u64,
    /// No packet grows too old before one in front of it, as is usual.
    ordered: bool,
    pub(super) codel: Codel,
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            packets: VecDeque::new(),
            octets: 0,
            ordered: true,
            codel: Codel::default(),
        }
    }
}

/// The waiting packets of an empty flow.
static NOTHING: VecDeque<Packet> = VecDeque::new();

impl Flow {
    pub(super) fn packets(&self) -> &VecDeque<Packet> {
        let waiting = self.waiting.as_ref();
        waiting.map_or(&NOTHING, |waiting| &waiting.packets)
    }

    pub(super) fn octets(&self) -> u64 {
        self.waiting.as_ref().map_or(0, |waiting| waiting.octets)
    }

    /// The place of the packet that grows too old first.
    pub(super) fn soonest(&self) -> Option<(usize, Instant)> {
        let waiting = self.waiting.as_ref()?;
        let packets = waiting.packets.iter();
        let mut expiries = packets.map(|packet| packet.expires).enumerate();
        if waiting.ordered {
            expiries.next()
        } else {
            expiries.min_by_key(|(_, expires)| *expires)
        }
    }

    /// A repetition arrived of a waiting packet, or of one that has left and may be lost: its
    /// sender still wants its data, as long as the repetition would be wanted.
    pub(super) fn renew(&mut self, repetition: &Packet) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        for packet in &mut waiting.packets {
            if same_flow(packet, repetition) {
                packet.expires = packet.expires.max(repetition.expires);
            }
        }
        waiting.ordered = false;
    }
}

impl Waiting {
    fn push(&mut self, packet: Packet) {
        let last = self.packets.back();
        self.ordered &= last.is_none_or(|last| last.expires <= packet.expires);
        self.octets += packet.octets() as u64;
        self.packets.push_back(packet);
    }
}

/// The measure of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// One packet.
    Packet,
    /// So many octets on average: the turn continues while there is credit, and octets beyond it
    /// are a debt that the next turns pay first (deficit round robin in its surplus form).
    Octets(i64),
    /// The same, and a flow that was idle goes before those that were not (RFC 8290 section 4.2).
    NewFirst(i64),
    /// No turns: each flow has its share of a clock, and whose packet would end first if all sent
    /// at once goes next. Small packets go before those while their flow has had no more beyond its
    /// share than one long packet is.
    Shares(Shares),
}

/// The sizes of small and long packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) small_octets: u32,
    pub(super) long_octets: u32,
}

/// How many times its octets a packet counts: of one class of assured forwarding, a higher drop
/// precedence gives way to a lower one (RFC 2597 section 2), and still progresses.
pub(super) fn burden(packet: &Packet) -> u64 {
    let mark = Dscp::new(packet.info().dscp);
    let assured = mark.and_then(Dscp::assured);
    assured.map_or(1, |(_, precedence)| 1 << (precedence - 1))
}

fn toll(costs: &Costs, packet: &Packet) -> i64 {
    let octets = costs.times(packet.to, u64::from(packet.info().octets) * PARTS as u64);
    octets as i64 * burden(packet) as i64
}

/// Parts of an octet on the clock of shares: with some hundred flows each has few of an octet.
const PARTS: i64 = 256;

impl Shares {
    fn long(self) -> i64 {
        i64::from(self.long_octets) * PARTS
    }

    /// In which order flows go: by whether their packet has to wait, and by the clock.
    fn order(self, clock: i64, flow: &Flow) -> (bool, i64) {
        let ends = flow.begins + flow.toll;
        let is_sparse = flow.first <= self.small_octets && ends <= clock + self.long();
        (!is_sparse, if is_sparse { flow.begins } else { ends })
    }
}

impl Turn {
    const fn quantum(self) -> i64 {
        match self {
            Self::Packet | Self::Shares(_) => 1,
            Self::Octets(quantum) | Self::NewFirst(quantum) => quantum,
        }
    }

    /// Whether a flow's past service counts while it has no packets.
    const fn keeps_idle(self) -> bool {
        matches!(self, Self::NewFirst(_) | Self::Shares(_))
    }
}

/// The flows in the order of their turns.
#[derive(Debug)]
pub(super) struct Flows {
    list: VecDeque<Flow>,
    /// So many at the front are new.
    new: usize,
    /// How many have packets.
    busy: usize,
    /// Of shares: octets that each flow with packets has had since all were without, in parts.
    clock: i64,
    turn: Turn,
    flows_max: usize,
    /// Of shares: the weight of octets for each neighbour.
    costs: Costs,
    /// The buffer of an emptied flow, kept so that an intermittent one doesn't allocate.
    spare: Option<Box<Waiting>>,
}

impl Flows {
    pub(super) fn new(turn: Turn, flows_max: usize) -> Self {
        Self {
            list: VecDeque::new(),
            new: 0,
            busy: 0,
            clock: 0,
            turn,
            flows_max,
            costs: Costs::default(),
            spare: None,
        }
    }

    /// Flows pay these costs from their next packets on.
    pub(super) fn set_costs(&mut self, costs: &Costs) {
        self.costs.clone_from(costs);
    }

    pub(super) fn find(&self, key: FlowKey) -> Option<usize> {
        self.list.iter().position(|flow| flow.key == key)
    }

    pub(super) fn flow(&self, place: usize) -> Option<&Flow> {
        self.list.get(place)
    }

    pub(super) fn flow_mut(&mut self, place: usize) -> Option<&mut Flow> {
        self.list.get_mut(place)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.list.iter()
    }

    /// Whether a flow that isn't there yet could come.
    pub(super) fn has_room(&self) -> bool {
        self.list.len() < self.flows_max || self.idle().is_some()
    }

    fn idle(&self) -> Option<usize> {
        let mut flows = self.list.iter();
        flows.position(|flow| flow.packets().is_empty())
    }

    /// Puts a packet at the end of its flow, which [`find`](Self::find) found at `place` or which
    /// begins.
    pub(super) fn push(&mut self, key: FlowKey, place: Option<usize>, packet: Packet) {
        let octets = packet.info().octets;
        if let Some(flow) = place.and_then(|place| self.list.get_mut(place)) {
            if flow.first == 0 {
                self.busy += 1;
                flow.first = octets;
                flow.toll = toll(&self.costs, &packet);
                flow.begins = flow.begins.max(self.clock);
            }
            let waiting = flow.waiting.take();
            let waiting = waiting.or_else(|| self.spare.take()).unwrap_or_default();
            return flow.waiting.insert(waiting).push(packet);
        }
        if self.list.len() >= self.flows_max
            && let Some(idle) = self.idle()
        {
            self.forget(idle);
        }
        self.busy += 1;
        let mut waiting = self.spare.take().unwrap_or_default();
        let toll = toll(&self.costs, &packet);
        waiting.push(packet);
        let flow = Flow {
            key,
            credit: self.turn.quantum(),
            begins: self.clock,
            first: octets,
            toll,
            waiting: Some(waiting),
        };
        if matches!(self.turn, Turn::NewFirst(_)) {
            self.list.insert(self.new, flow);
            self.new += 1;
        } else {
            self.list.push_back(flow);
        }
    }

    /// The flow whose turn comes first among those with packets for which `to` holds.
    pub(super) fn first(&self, to: impl Fn(NeighbourId) -> bool) -> Option<usize> {
        if let Turn::Shares(shares) = self.turn {
            let flows = self.list.iter().enumerate();
            let flows = flows.filter(|(_, flow)| flow.first > 0 && to(flow.key.to));
            let first = flows.min_by_key(|(_, flow)| shares.order(self.clock, flow));
            return first.map(|(place, _)| place);
        }
        let mut best: Option<(i64, usize, usize)> = None;
        for (place, flow) in self.list.iter().enumerate() {
            if flow.packets().is_empty() || !to(flow.key.to) {
                continue;
            }
            let (rounds, order) = self.due(place, flow);
            if rounds <= 0 && order == place {
                return Some(place);
            }
            if best.is_none_or(|(least, earliest, _)| (rounds, order) < (least, earliest)) {
                best = Some((rounds, order, place));
            }
        }
        best.map(|(.., place)| place)
    }

    /// In which round of turns from now the flow at `place` has credit, and where it stands then.
    fn due(&self, place: usize, flow: &Flow) -> (i64, usize) {
        let quantum = self.turn.quantum();
        let rounds = |credit: i64| if credit > 0 { 0 } else { -credit / quantum + 1 };
        if place < self.new && flow.credit <= 0 {
            // Its turn as a new flow is over; it goes behind the others with the next gain.
            return (rounds(flow.credit + quantum), self.list.len() + place);
        }
        (rounds(flow.credit), place)
    }

    /// Takes the first packet of the flow at `place`, which [`first`](Self::first) named, and
    /// charges it to the flow's turn.
    pub(super) fn serve(&mut self, place: usize) -> Option<Packet> {
        if let Turn::Shares(shares) = self.turn {
            let flow = self.list.get_mut(place)?;
            let toll = flow.toll;
            // Some neighbours are unavailable at times: no flow is ahead or behind for that by more
            // than one long packet.
            flow.begins = flow.begins.max(self.clock - shares.long()) + toll;
            self.clock += toll / self.busy.max(1) as i64;
            self.clock = self.clock.max(flow.begins - shares.long());
            return self.remove(place, 0);
        }
        let key = self.list.get(place)?.key;
        if self.turn == Turn::Packet {
            let packet = self.remove(place, 0)?;
            // Emptied, the flow is gone; else it is where it was.
            if self.list.get(place).is_some_and(|flow| flow.key == key)
                && self.list.len() > 1
                && let Some(flow) = self.list.remove(place)
            {
                self.list.push_back(flow);
            }
            return Some(packet);
        }
        while !self
            .list
            .front()
            .is_some_and(|flow| flow.key == key && flow.credit > 0)
        {
            self.pass();
        }
        let octets = self.list.front()?.packets().front()?.octets() as i64;
        if let Some(flow) = self.list.front_mut() {
            flow.credit -= octets;
        }
        self.remove(0, 0)
    }

    /// Ends the turn of the flow in front.
    fn pass(&mut self) {
        let Some(mut flow) = self.list.pop_front() else {
            return;
        };
        let was_new = self.new > 0;
        self.new = self.new.saturating_sub(1);
        if flow.credit <= 0 {
            flow.credit += self.turn.quantum();
        } else if flow.packets().is_empty() && !was_new {
            self.keep(flow.waiting);
            return;
        }
        self.list.push_back(flow);
    }

    /// Takes out one packet of one flow.
    pub(super) fn remove(&mut self, place: usize, index: usize) -> Option<Packet> {
        let flow = self.list.get_mut(place)?;
        let waiting = flow.waiting.as_mut()?;
        let packet = waiting.packets.remove(index)?;
        waiting.octets -= packet.octets() as u64;
        flow.first = waiting.packets.front().map_or(0, |it| it.info().octets);
        let next = waiting.packets.front();
        flow.toll = next.map_or(0, |it| toll(&self.costs, it));
        if flow.first == 0 {
            waiting.ordered = true;
            self.busy -= 1;
            if !self.turn.keeps_idle() {
                self.forget(place);
            } else if waiting.codel == Codel::default() {
                let waiting = flow.waiting.take();
                self.keep(waiting);
            }
            self.settle();
        }
        Some(packet)
    }

    /// Forgets flows that have nothing and have had no more than their share.
    fn settle(&mut self) {
        if !matches!(self.turn, Turn::Shares(_)) {
            return;
        }
        let (busy, clock) = (self.busy, self.clock);
        let counts = |flow: &Flow| flow.first > 0 || busy > 0 && flow.begins > clock;
        self.list.retain(counts);
        if busy == 0 {
            self.clock = 0;
        }
    }

    fn forget(&mut self, place: usize) {
        if let Some(flow) = self.list.remove(place) {
            self.new -= usize::from(place < self.new);
            self.keep(flow.waiting);
            if self.list.is_empty() {
                // Empty rings begin anew where they did before, in memory that is at hand.
                self.list.clear();
            }
        }
    }

    /// Keeps the past service of a flow that is empty now.
    fn keep(&mut self, waiting: Option<Box<Waiting>>) {
        if let Some(mut waiting) = waiting {
            waiting.packets.clear();
            waiting.codel = Codel::default();
            self.spare = Some(waiting);
        }
    }

    /// Sorts all packets into flows anew; inside each they keep their order of arrival. Those of
    /// flows that are too many now are returned.
    pub(super) fn rehash(&mut self, hashing: Hashing) -> Vec<Packet> {
        let old = core::mem::take(&mut self.list);
        (self.new, self.busy) = (0, 0);
        let waiting = old.into_iter().filter_map(|flow| flow.waiting);
        let mut packets: Vec<Packet> = waiting.flat_map(|waiting| waiting.packets).collect();
        packets.sort_by_key(Packet::began);
        let mut left = Vec::new();
        for packet in packets {
            let key = hashing.key(&packet);
            let place = self.find(key);
            if place.is_some() || self.has_room() {
                self.push(key, place, packet);
            } else {
                left.push(packet);
            }
        }
        left
    }

    /// Asserts the conditions that hold between calls.
    pub(super) fn check(&self, hashing: Hashing) {
        let keeps_idle = self.turn.keeps_idle();
        let busy = self.list.iter().filter(|flow| !flow.packets().is_empty());
        assert_eq!(busy.count(), self.busy, "so many have packets");
        for (place, flow) in self.list.iter().enumerate() {
            assert!(
                keeps_idle || !flow.packets().is_empty(),
                "a flow without packets is none"
            );
            let mut earlier = self.list.iter().take(place);
            assert!(
                !earlier.any(|other| other.key == flow.key),
                "one queue a flow"
            );
            let mut last = Instant::ZERO;
            let mut octets = 0;
            let ordered = flow.waiting.as_ref().is_none_or(|waiting| waiting.ordered);
            for packet in flow.packets() {
                assert_eq!(hashing.key(packet), flow.key, "in its place");
                assert!(!ordered || last <= packet.expires, "in order of age");
                last = packet.expires;
                octets += packet.octets() as u64;
            }
            assert_eq!(octets, flow.octets(), "the counter is the sum");
            let first = flow.packets().front().map_or(0, |it| it.info().octets);
            assert_eq!(flow.first, first, "of its first packet");
        }
        assert!(self.list.len() <= self.flows_max, "within limits");
        assert!(self.new <= self.list.len(), "new flows are flows");
    }
}
