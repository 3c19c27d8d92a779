//! The scheduler: leaves that hold packets, under a tree of nodes that share their parents' rates.
//!
//! A node offers its next packet; its parent takes one of its children's offers; the port takes the
//! root's. An offer changes nothing. Sent octets are charged on the whole way up: to the shares and
//! limits of every node that they pass.

pub(crate) mod bands;
mod bucket;
mod htb;
mod ring;
mod shaper;
mod tags;

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_core::rate::LineRate;
use strait_core::{ClassId, DropCause, Fate, Instant, NeighbourId, Packet, PortId};
use strait_wire::hash::hash64;

use self::bands::Bands;
use self::htb::Htb;
use self::shaper::Shaper;
use crate::leaf::{Costs, Leaf, Site};
use crate::plan::{NodeIndex, Plan, PlanNode};
use crate::policy::{CLASSES_MAX, Policy};
use crate::scheduler::{Eligibility, Head, Queued, Refusal, Scheduler};

/// Place of a child among those that a node schedules.
type Slot = usize;

/// Schedules a port by its policy's [`Plan`]. In a class, neighbours take turns, a packet each, or
/// in the order of the class's queue; in a flow, first come, first served.
///
/// Fields that each packet needs come first, as long as a line of the processor's cache.
#[derive(Debug)]
#[repr(C)]
pub struct Tree {
    now: Instant,
    /// No leaf has anything to give up before.
    quiet_until: Instant,
    /// The leaves that have something to send, as their nodes' ancestors know it.
    backlogged: LeafSet,
    /// The leaves that have packets to give up.
    giving_up: LeafSet,
    /// By [`ClassId`].
    leaves: Box<[LeafState]>,
    /// As in the plan.
    nodes: Box<[Node]>,
    /// Those of them that time alone changes.
    timed: Box<[NodeIndex]>,
    plan: Box<Plan>,
    line: Option<LineRate>,
}

/// It begins where a line of the processor's cache does: a packet meets all of it.
#[derive(Debug)]
#[repr(C, align(64))]
struct LeafState {
    node: NodeIndex,
    /// It has nothing to give up before; zero if that isn't known since it changed.
    quiet_until: Instant,
    leaf: Leaf,
}

/// Some of the leaves, a bit each: few have anything, and nothing looks at the others.
#[derive(Clone, Copy, Debug, Default)]
struct LeafSet(u64);

const _: () = assert!(CLASSES_MAX <= 64, "a bit each");

impl LeafSet {
    const fn contains(self, leaf: usize) -> bool {
        self.0 >> leaf & 1 == 1
    }

    const fn set(&mut self, leaf: usize, is_member: bool) {
        self.0 = self.0 & !(1 << leaf) | (is_member as u64) << leaf;
    }

    /// In the order of their classes.
    fn iter(self) -> impl Iterator<Item = usize> {
        let left = core::iter::successors(Some(self.0), |left| Some(left & left.wrapping_sub(1)));
        let left = left.take_while(|left| *left != 0);
        left.map(|left| left.trailing_zeros() as usize)
    }
}

/// Of a line of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
struct Node {
    kind: Kind,
    /// Its scheduling node, and its place there.
    parent: Option<(u16, u16)>,
    /// Children that have something to send; for a leaf, whether it has.
    backlogged: u32,
    shaper: Option<Box<Shaper>>,
}

impl Node {
    fn above(&self) -> Option<(NodeIndex, Slot)> {
        let (parent, slot) = self.parent?;
        Some((usize::from(parent), usize::from(slot)))
    }
}

#[derive(Debug)]
enum Kind {
    Leaf(ClassId),
    Bands(Bands),
    Htb(Box<Htb>),
    /// An inner class of the token buckets above.
    WithinHtb,
}

impl Tree {
    /// The scheduler of a link port. Until its line's rate is known, that is 9600 bit/s.
    #[must_use]
    pub fn new(policy: &Policy, site: Site) -> Self {
        Self::with_plan(policy, policy.plan().clone(), site)
    }

    /// The scheduler of a port that no policy limits: ranks and shares as in the policy, but no
    /// ceilings, token buckets or shapers.
    #[must_use]
    pub fn unlimited(policy: &Policy, site: Site) -> Self {
        Self::with_plan(policy, policy.plan().unlimited(), site)
    }

    fn with_plan(policy: &Policy, plan: Plan, site: Site) -> Self {
        let leaf = |(number, class)| {
            let seed = hash64(site.seed, &[number]);
            LeafState {
                leaf: Leaf::new(class, Site { seed, ..site }),
                node: Plan::ROOT,
                quiet_until: Instant::ZERO,
            }
        };
        let mut leaves: Box<[_]> = (0..).zip(policy.classes()).map(leaf).collect();
        let mut timed = Vec::new();
        let mut node = |(index, node): (NodeIndex, &PlanNode)| {
            let kind = match node.class {
                Some(class) => Kind::Leaf(class),
                None if node.within_htb => Kind::WithinHtb,
                None if node.discipline.is_htb() => {
                    timed.push(index);
                    Kind::Htb(Box::new(Htb::new(&plan, index)))
                }
                None => Kind::Bands(Bands::new(&plan, index)),
            };
            if let Some(leaf) = node.class.and_then(|it| leaves.get_mut(it.index())) {
                leaf.node = index;
            }
            Node {
                kind,
                parent: None,
                backlogged: 0,
                shaper: node.shape.map(|shape| Box::new(Shaper::new(shape, 1))),
            }
        };
        let nodes = plan.nodes.iter().enumerate().map(&mut node).collect();
        let mut tree = Self {
            now: Instant::ZERO,
            quiet_until: Instant::ZERO,
            backlogged: LeafSet::default(),
            giving_up: LeafSet::default(),
            leaves,
            nodes,
            timed: timed.into(),
            plan: Box::new(plan),
            line: None,
        };
        tree.connect();
        tree.set_line_rate(LineRate::new(9600, 8));
        tree
    }

    fn connect(&mut self) {
        for index in 0..self.nodes.len() {
            let children: Vec<(Slot, NodeIndex)> = match self.nodes.get(index).map(|it| &it.kind) {
                Some(Kind::Bands(bands)) => bands.slots().collect(),
                Some(Kind::Htb(htb)) => htb.slots().collect(),
                _ => Vec::new(),
            };
            for (slot, child) in children {
                if let Some(child) = self.nodes.get_mut(child) {
                    child.parent = Some((index as u16, slot as u16));
                }
            }
        }
    }

    /// The tree as compiled.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether the tree has nothing to send and nothing to give up, whatever the time.
    pub const fn is_at_rest(&self) -> bool {
        self.backlogged.0 | self.giving_up.0 == 0
    }

    fn leaf(&self, class: ClassId) -> Option<&Leaf> {
        self.leaves.get(class.index()).map(|state| &state.leaf)
    }

    /// The packet of a class that goes first to a neighbour: the one that [`Scheduler::take`] takes
    /// out, unless it is given up before.
    pub fn front(&self, class: ClassId, to: NeighbourId) -> Option<&Packet> {
        self.leaf(class)?.front(to)
    }

    /// The class's queue changed: informs the nodes above whether it has a packet to send.
    fn touch(&mut self, class: ClassId) {
        let at = class.index();
        let Some(state) = self.leaves.get_mut(at) else {
            return;
        };
        state.quiet_until = Instant::ZERO;
        self.quiet_until = Instant::ZERO;
        self.giving_up.set(at, state.leaf.gives_up());
        let backlogged = state.leaf.backlogged();
        if backlogged != self.backlogged.contains(at) {
            self.backlogged.set(at, backlogged);
            let node = state.node;
            self.set_backlogged(node, backlogged);
        }
    }

    fn set_backlogged(&mut self, node: NodeIndex, backlogged: bool) {
        let mut next = Some(node);
        while let Some(node) = next.and_then(|index| self.nodes.get_mut(index)) {
            let before = node.backlogged;
            node.backlogged = if backlogged {
                before + 1
            } else {
                before.saturating_sub(1)
            };
            if before > 0 && node.backlogged > 0 {
                return;
            }
            let Some((parent, slot)) = node.above() else {
                return;
            };
            match self.nodes.get_mut(parent).map(|parent| &mut parent.kind) {
                Some(Kind::Bands(bands)) if backlogged => bands.activate(slot),
                Some(Kind::Bands(bands)) => bands.deactivate(slot),
                Some(Kind::Htb(htb)) if backlogged => htb.activate(slot),
                Some(Kind::Htb(htb)) => htb.deactivate(slot),
                _ => {}
            }
            next = Some(parent);
        }
    }

    /// The next packet of a node.
    fn offer(&self, node: NodeIndex, eligible: &dyn Eligibility) -> Option<Head> {
        let node = self.nodes.get(node).filter(|node| node.backlogged > 0)?;
        let head = self.unshaped(node, eligible)?;
        (self.shaped(node, head) <= self.now).then_some(head)
    }

    /// The same without its own limit.
    fn unshaped(&self, node: &Node, eligible: &dyn Eligibility) -> Option<Head> {
        match &node.kind {
            Kind::Leaf(class) => self.leaf(*class)?.head(*class, eligible),
            Kind::Bands(bands) => bands.first(|child| self.offer(child, eligible)),
            Kind::Htb(htb) => htb.first(|child| self.offer(child, eligible)),
            Kind::WithinHtb => None,
        }
    }

    /// When a node can have an offer, if nothing else changes: now, if it has one. Not later than
    /// that, but perhaps earlier.
    fn start(&self, index: NodeIndex, eligible: &dyn Eligibility) -> Option<Instant> {
        let node = self.nodes.get(index).filter(|node| node.backlogged > 0)?;
        if let Some(head) = self.unshaped(node, eligible) {
            let at = self.shaped(node, head).max(self.now);
            // Until then time may change the turn, and a shorter packet go sooner.
            let change = (at > self.now).then(|| self.change_below(node, eligible));
            return change
                .flatten()
                .map_or(Some(at), |change| Some(at.min(change)));
        }
        let begins = match &node.kind {
            Kind::Leaf(_) | Kind::WithinHtb => None,
            Kind::Bands(bands) => {
                let children = bands.slots();
                children
                    .filter_map(|(_, child)| self.start(child, eligible))
                    .min()
            }
            Kind::Htb(htb) => htb.starts(self.now, |child| self.start(child, eligible)),
        }?;
        // The packet at that time isn't known yet: its length counts when it is.
        let shaped = node.shaper.as_ref().map(|shaper| shaper.when(0));
        Some(shaped.map_or(begins, |shaped| begins.max(shaped)))
    }

    /// When the node's own limit lets a head go.
    fn shaped(&self, node: &Node, head: Head) -> Instant {
        let shaper = node.shaper.as_ref();
        shaper.map_or(self.now, |shaper| shaper.when(head.octets))
    }

    /// When time alone may next change the offer to a node.
    fn change_below(&self, node: &Node, eligible: &dyn Eligibility) -> Option<Instant> {
        let change = |child: NodeIndex| {
            let child = self.nodes.get(child).filter(|child| child.backlogged > 0)?;
            let head = self.unshaped(child, eligible);
            let own = head.map(|head| self.shaped(child, head));
            let own = own.filter(|at| *at > self.now);
            own.into_iter()
                .chain(self.change_below(child, eligible))
                .min()
        };
        match &node.kind {
            Kind::Leaf(_) | Kind::WithinHtb => None,
            Kind::Bands(bands) => bands.slots().filter_map(|(_, child)| change(child)).min(),
            Kind::Htb(htb) => {
                let children = htb.slots().filter_map(|(_, child)| change(child));
                children.chain(htb.changes()).min()
            }
        }
    }
}

impl Scheduler for Tree {
    fn advance(&mut self, now: Instant) {
        if now <= self.now {
            return;
        }
        self.now = now;
        for index in &*self.timed {
            if let Some(Kind::Htb(htb)) = self.nodes.get_mut(*index).map(|it| &mut it.kind) {
                htb.advance(now);
            }
        }
    }

    fn set_line_rate(&mut self, rate: LineRate) {
        if self.line.replace(rate) == Some(rate) {
            return;
        }
        for state in &mut self.leaves {
            state.leaf.set_line_rate(rate);
            state.quiet_until = Instant::ZERO;
        }
        self.quiet_until = Instant::ZERO;
        let rates = self.plan.rates(rate.payload_bit_s());
        for (node, own) in self.nodes.iter_mut().zip(&rates) {
            if let (Some(shaper), Some(bit_s)) = (&mut node.shaper, own.shape_bit_s) {
                shaper.set_rate(bit_s);
            }
            match &mut node.kind {
                Kind::Bands(bands) => bands.set_rates(&rates),
                Kind::Htb(htb) => htb.set_rates(self.now, &rates),
                Kind::Leaf(_) | Kind::WithinHtb => {}
            }
        }
    }

    fn set_costs(&mut self, costs: &Costs) {
        for state in &mut self.leaves {
            state.leaf.set_costs(costs);
        }
    }

    fn set_trip_octets(&mut self, octets: u64) {
        for state in &mut self.leaves {
            state.leaf.set_trip_octets(octets);
        }
    }

    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Refusal> {
        self.advance(now);
        let class = packet.class;
        let Some(state) = self.leaves.get_mut(class.index()) else {
            return Err((packet, Fate::Dropped(DropCause::QueuePackets)));
        };
        let outcome = state.leaf.enqueue(now, packet);
        self.touch(class);
        outcome
    }

    fn renew(&mut self, repetition: &mut Packet) {
        if let Some(state) = self.leaves.get_mut(repetition.class.index()) {
            state.leaf.renew(repetition);
            self.touch(repetition.class);
        }
    }

    fn head(&self, eligible: &dyn Eligibility) -> Option<Head> {
        self.offer(Plan::ROOT, eligible)
    }

    fn take(&mut self, now: Instant, head: Head) -> Option<Packet> {
        let leaf = &mut self.leaves.get_mut(head.class.index())?.leaf;
        let packet = leaf.take(now, head);
        self.touch(head.class);
        packet
    }

    fn charge(&mut self, class: ClassId, octets: u32) {
        let now = self.now;
        let Some(state) = self.leaves.get(class.index()) else {
            return;
        };
        let whole = !state.leaf.is_under_way();
        let mut next = self.nodes.get_mut(state.node);
        while let Some(node) = next {
            if let Some(shaper) = &mut node.shaper {
                shaper.charge(now, octets);
            }
            let Some((parent, slot)) = node.above() else {
                return;
            };
            next = self.nodes.get_mut(parent);
            match next.as_mut().map(|parent| &mut parent.kind) {
                Some(Kind::Bands(bands)) => bands.charge(slot, octets),
                Some(Kind::Htb(htb)) => htb.charge(now, slot, octets, whole),
                _ => {}
            }
        }
    }

    fn set_under_way(&mut self, class: ClassId, to: NeighbourId, octets_left: u32) {
        if let Some(state) = self.leaves.get_mut(class.index()) {
            state.leaf.set_under_way(to, octets_left);
        }
        self.touch(class);
    }

    fn discard(&mut self, now: Instant) -> Option<Refusal> {
        self.advance(now);
        if now < self.quiet_until || self.is_at_rest() {
            return None;
        }
        let mut quiet_until = Instant::NEVER;
        for number in LeafSet(self.backlogged.0 | self.giving_up.0).iter() {
            let state = self.leaves.get_mut(number)?;
            if state.quiet_until <= now {
                if let Some(refusal) = state.leaf.discard(now) {
                    self.touch(ClassId(number as u8));
                    return Some(refusal);
                }
                state.quiet_until = state.leaf.wake().unwrap_or(Instant::NEVER);
            }
            quiet_until = quiet_until.min(state.quiet_until);
        }
        self.quiet_until = quiet_until;
        None
    }

    fn starts(&self, eligible: &dyn Eligibility) -> Option<Instant> {
        let start = self.start(Plan::ROOT, eligible)?;
        (start > self.now).then_some(start)
    }

    fn wake(&self) -> Option<Instant> {
        let moment = |state: &LeafState| match state.quiet_until {
            // It changed since it was last asked.
            Instant::ZERO => state.leaf.wake(),
            known => Some(known).filter(|known| *known < Instant::NEVER),
        };
        let leaves = self.backlogged.iter();
        let leaves = leaves.filter_map(|number| self.leaves.get(number));
        leaves.filter_map(moment).min()
    }

    fn drain(&mut self) -> Option<Packet> {
        for number in 0..self.leaves.len() {
            if let Some(packet) = self.leaves.get_mut(number)?.leaf.drain() {
                self.touch(ClassId(number as u8));
                return Some(packet);
            }
        }
        None
    }

    fn drain_to(&mut self, now: Instant, to: NeighbourId) -> Option<Packet> {
        for number in 0..self.leaves.len() {
            if let Some(packet) = self.leaves.get_mut(number)?.leaf.drain_to(now, to) {
                self.touch(ClassId(number as u8));
                return Some(packet);
            }
        }
        None
    }

    fn has_share(&self, class: ClassId, from: (PortId, NeighbourId)) -> bool {
        self.leaf(class).is_none_or(|leaf| leaf.has_share(from))
    }

    fn queued(&self, class: ClassId) -> Queued {
        self.leaf(class).map_or_else(Queued::default, Leaf::queued)
    }

    fn under_way(&self, class: ClassId) -> u64 {
        self.leaf(class).map_or(0, Leaf::under_way_octets)
    }

    fn total(&self) -> Queued {
        let leaves = self.leaves.iter().map(|state| state.leaf.queued());
        leaves.fold(Queued::default(), |sum, queued| Queued {
            packets: sum.packets + queued.packets,
            octets: sum.octets + queued.octets,
        })
    }

    fn check(&self) {
        for (number, state) in self.leaves.iter().enumerate() {
            state.leaf.check(ClassId(number as u8));
            let known = self.backlogged.contains(number);
            assert_eq!(state.leaf.backlogged(), known, "known above");
            let known = self.giving_up.contains(number);
            assert_eq!(state.leaf.gives_up(), known, "known here");
        }
        for node in &self.nodes {
            match &node.kind {
                Kind::Bands(bands) => bands.check(),
                Kind::Htb(htb) => htb.check(),
                Kind::Leaf(_) | Kind::WithinHtb => {}
            }
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod saturated_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod wait_properties;
