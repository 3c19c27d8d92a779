//! Hierarchical token buckets.
//!
//! Every class has a bucket for its rate and one for its ceiling. A class with tokens for its rate
//! may send; one with tokens for its ceiling only may borrow from its parent; one without waits.
//! The next packet is chosen by the level of the paying class (a class's own tokens before borrowed
//! ones), then by priority, then in turns.
//!
//! The exact form follows Linux's `sch_htb`, also in its surprises: children within their rates
//! send whatever their parents' ceilings are; a turn may begin without credit, so that quanta below
//! a packet's size make turns of one packet each; the automatic quantum is clamped to 1000 …
//! 200,000 octets. The strict form holds every ceiling, and its quanta follow the rates, the
//! smallest a whole packet.

use alloc::vec::Vec;

use strait_core::time::nanos;
use strait_core::{Duration, Instant};

use super::Slot;
use super::bucket::{Bucket, SPAN_MAX_NS};
use crate::classes::HTB_LEVELS;
use crate::plan::{Discipline, NodeIndex, NodeRates, PACKET_OCTETS, Plan};
use crate::scheduler::Head;

/// A set of classes: bit n is class n.
type Set = u128;

/// Priorities, as in Linux.
const PRIOS: usize = 8;
/// Linux's limits on an automatic quantum.
const QUANTUM_MIN: u64 = 1000;
const QUANTUM_MAX: u64 = 200_000;
/// The key of a class without a lender.
const NOBODY: u8 = u8::MAX;

/// The state of a class at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Over its ceiling.
    Wait,
    /// Over its rate, below its ceiling.
    Borrow,
    /// Within its rate.
    Send,
}

#[derive(Debug)]
struct Class {
    node: NodeIndex,
    parent: Option<Slot>,
    /// 0 for a leaf, 7 for an inner class at the top, one less each step down.
    level: usize,
    prio: usize,
    direct: bool,
    r2q: u64,
    quantum_given: Option<u32>,
    quantum: i64,
    rate: Bucket,
    ceil: Bucket,
    /// When the buckets were last charged.
    checkpoint: Instant,
    mode: Mode,
    /// No class above it, nor itself, is over its ceiling.
    open: bool,
    /// The class that pays for its packets: the first on its way up that may send.
    lender: Option<Slot>,
    /// Level of the lender and priority as one number, or [`NOBODY`].
    key: u8,
    deficit: [i64; HTB_LEVELS],
    /// Inner class: the turn of those that borrow from it, by priority.
    turn: [Slot; PRIOS],
    children: Set,
    /// The leaves below it, or itself.
    leaves: Set,
}

/// Token buckets in a tree; its leaves are other nodes.
#[derive(Debug)]
pub(super) struct Htb {
    strict: bool,
    /// In the order of the configuration.
    classes: Vec<Class>,
    /// Each after its parent.
    order: Vec<Slot>,
    /// The turn of those that pay alone, by level and priority.
    turn: [[Slot; PRIOS]; HTB_LEVELS],
    active: Set,
    /// When some class's mode changes next.
    changes_at: Instant,
}

const fn bit(slot: Slot) -> Set {
    1 << slot
}

/// The members of a set from `first` on, in order.
fn members(set: Set, first: Slot) -> impl Iterator<Item = Slot> {
    let mut left = if first >= 128 {
        0
    } else {
        set >> first << first
    };
    core::iter::from_fn(move || {
        let slot = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left - 1;
        Some(slot)
    })
}

impl Htb {
    pub(super) fn new(plan: &Plan, node: NodeIndex) -> Self {
        let at = |index: NodeIndex| plan.nodes.get(index);
        let own = |index: NodeIndex| {
            let parent = at(index).and_then(|node| node.parent);
            parent.is_some_and(|parent| {
                parent == node
                    || plan
                        .up(parent)
                        .take_while(|(_, it)| it.within_htb)
                        .last()
                        .is_some_and(|(_, top)| top.parent == Some(node))
            })
        };
        let members: Vec<NodeIndex> = (0..plan.nodes.len()).filter(|index| own(*index)).collect();
        let slot_of = |index: NodeIndex| members.iter().position(|member| *member == index);
        let mut htb = Self {
            strict: at(node).is_some_and(|node| node.discipline == Discipline::HtbStrict),
            classes: Vec::with_capacity(members.len()),
            order: Vec::new(),
            turn: [[0; PRIOS]; HTB_LEVELS],
            active: 0,
            changes_at: Instant::ZERO,
        };
        for index in &members {
            let Some(entry) = at(*index) else {
                continue;
            };
            let depth = plan.up(*index).take_while(|(_, it)| it.within_htb).count();
            htb.classes.push(Class {
                node: *index,
                parent: entry.parent.and_then(slot_of),
                level: if entry.within_htb {
                    HTB_LEVELS - depth.min(HTB_LEVELS - 1)
                } else {
                    0
                },
                prio: usize::from(entry.prio).min(PRIOS - 1),
                direct: entry.direct,
                r2q: u64::from(at(node).map_or(1, |node| node.r2q).max(1)),
                quantum_given: entry.quantum,
                quantum: 1,
                rate: Bucket::new(entry.burst),
                ceil: Bucket::new(entry.cburst),
                checkpoint: Instant::ZERO,
                mode: Mode::Send,
                open: true,
                lender: None,
                key: NOBODY,
                deficit: [0; HTB_LEVELS],
                turn: [0; PRIOS],
                children: 0,
                leaves: 0,
            });
        }
        let from_the_top = plan.from_the_top();
        htb.order = from_the_top.into_iter().filter_map(slot_of).collect();
        htb.relate();
        htb
    }

    /// Gives each class the classes and leaves below it.
    fn relate(&mut self) {
        for slot in self.order.clone().into_iter().rev() {
            let Some(class) = self.classes.get_mut(slot) else {
                continue;
            };
            if class.level == 0 {
                class.leaves = bit(slot);
            }
            let (leaves, parent) = (class.leaves, class.parent);
            if let Some(parent) = parent.and_then(|parent| self.classes.get_mut(parent)) {
                parent.leaves |= leaves;
                parent.children |= bit(slot);
            }
        }
    }

    /// The leaves: which node each of them is.
    pub(super) fn slots(&self) -> impl Iterator<Item = (Slot, NodeIndex)> + '_ {
        let leaves = self.classes.iter().enumerate();
        leaves
            .filter(|(_, class)| class.level == 0)
            .map(|(slot, class)| (slot, class.node))
    }

    pub(super) fn set_rates(&mut self, now: Instant, rates: &[NodeRates]) {
        for class in &mut self.classes {
            if let Some(rates) = rates.get(class.node) {
                class.rate.set_rate(rates.rate_bit_s);
                class.ceil.set_rate(rates.ceil_bit_s);
            }
        }
        let leaves = || self.classes.iter().filter(|class| class.level == 0);
        let least = leaves().map(|class| class.rate.bit_s()).min().unwrap_or(1);
        let strict = self.strict;
        for class in &mut self.classes {
            let automatic = if strict {
                let quantum = u128::from(PACKET_OCTETS) * u128::from(class.rate.bit_s())
                    / u128::from(least.max(1));
                u64::try_from(quantum).unwrap_or(u64::MAX).min(QUANTUM_MAX)
            } else {
                (class.rate.bit_s() / 8 / class.r2q).clamp(QUANTUM_MIN, QUANTUM_MAX)
            };
            let quantum = class.quantum_given.map_or(automatic, u64::from);
            class.quantum = quantum.max(1) as i64;
        }
        self.refresh(now);
    }

    pub(super) fn advance(&mut self, now: Instant) {
        if self.changes_at <= now {
            self.refresh(now);
        }
    }

    /// Finds every class's mode anew.
    fn refresh(&mut self, now: Instant) {
        self.changes_at = Instant::NEVER;
        for slot in 0..self.classes.len() {
            self.set_mode(now, slot);
        }
        self.find_lenders();
    }

    /// The mode of one class at `now`; whether it is another than before.
    fn set_mode(&mut self, now: Instant, slot: Slot) -> bool {
        let Some(class) = self.classes.get_mut(slot) else {
            return false;
        };
        let (mode, until) = class.mode_at(now);
        self.changes_at = self.changes_at.min(until);
        core::mem::replace(&mut class.mode, mode) != mode
    }

    fn find_lenders(&mut self) {
        for slot in &self.order {
            let Some(class) = self.classes.get(*slot) else {
                continue;
            };
            let above = class.parent.and_then(|parent| self.classes.get(parent));
            let open = class.mode != Mode::Wait && above.is_none_or(|above| above.open);
            let lender = match class.mode {
                Mode::Wait => None,
                _ if self.strict && !open => None,
                Mode::Send => Some(*slot),
                Mode::Borrow => above.and_then(|above| above.lender),
            };
            let level = lender.and_then(|lender| self.classes.get(lender));
            let key = level.map_or(NOBODY, |lender| (lender.level * PRIOS + class.prio) as u8);
            if let Some(class) = self.classes.get_mut(*slot) {
                (class.open, class.lender, class.key) = (open, lender, key);
            }
        }
    }

    pub(super) const fn activate(&mut self, slot: Slot) {
        self.active |= bit(slot);
    }

    pub(super) const fn deactivate(&mut self, slot: Slot) {
        self.active &= !bit(slot);
    }

    /// The next of the leaves' offers.
    pub(super) fn first(&self, mut offer: impl FnMut(NodeIndex) -> Option<Head>) -> Option<Head> {
        let mut offer = |slot: Slot| offer(self.classes.get(slot)?.node);
        let direct = |slot: &Slot| self.classes.get(*slot).is_some_and(|class| class.direct);
        let mut directs = members(self.active, 0).filter(direct);
        if let Some(head) = directs.find_map(&mut offer) {
            return Some(head);
        }
        let mut left = self.active;
        loop {
            let (key, set) = self.best(left)?;
            if let Some(head) = self.in_turn(key, set, &mut 0, &mut offer) {
                return Some(head);
            }
            left &= !set;
        }
    }

    /// The best key of a set of leaves, and the leaves that have it.
    fn best(&self, leaves: Set) -> Option<(u8, Set)> {
        let (mut key, mut set) = (NOBODY, 0);
        for slot in members(leaves, 0) {
            let Some(class) = self.classes.get(slot).filter(|class| !class.direct) else {
                continue;
            };
            if class.key < key {
                (key, set) = (class.key, bit(slot));
            } else if class.key == key {
                set |= bit(slot);
            }
        }
        (key != NOBODY).then_some((key, set))
    }

    /// Asks leaves of one level and priority in turn, beginning where the last turn ended. Inner
    /// classes take turns too; one whose leaves have all had theirs is passed over, and
    /// `ended` gets it.
    fn in_turn<T>(
        &self,
        key: u8,
        leaves: Set,
        ended: &mut Set,
        offer: &mut impl FnMut(Slot) -> Option<T>,
    ) -> Option<T> {
        let (level, prio) = (usize::from(key) / PRIOS, usize::from(key) % PRIOS);
        let lenders = members(leaves, 0)
            .filter_map(|leaf| self.classes.get(leaf)?.lender)
            .fold(0, |set, lender| set | bit(lender));
        let mut first = self.turn.get(level)?.get(prio).copied()?;
        loop {
            let before = *ended;
            let found = members(lenders, first)
                .find_map(|lender| self.descend(lender, prio, leaves, ended, offer));
            // Each round may end that of inner classes one level further down.
            if found.is_some() || (first == 0 && *ended == before) {
                return found;
            }
            first = 0;
        }
    }

    fn descend<T>(
        &self,
        slot: Slot,
        prio: usize,
        leaves: Set,
        ended: &mut Set,
        offer: &mut impl FnMut(Slot) -> Option<T>,
    ) -> Option<T> {
        let class = self.classes.get(slot)?;
        if class.level == 0 {
            return offer(slot);
        }
        let begun = *ended & bit(slot) == 0;
        let first = class.turn.get(prio).copied().filter(|_| begun);
        for child in members(class.children, first.unwrap_or(0)) {
            let below = self.classes.get(child).map_or(0, |child| child.leaves);
            if below & leaves != 0
                && let Some(found) = self.descend(child, prio, leaves, ended, offer)
            {
                return Some(found);
            }
        }
        *ended |= bit(slot);
        None
    }

    /// `octets` of a leaf leave; `whole` if they end its packet.
    pub(super) fn charge(&mut self, now: Instant, slot: Slot, octets: u32, whole: bool) {
        let Some(leaf) = self.classes.get(slot) else {
            return;
        };
        if leaf.direct || leaf.level != 0 {
            return;
        }
        // A leaf that was not to send is charged as if it paid alone.
        let key = leaf.lender.map_or(leaf.prio as u8, |_| leaf.key);
        if leaf.lender.is_some() {
            self.take_turn(key, slot);
        }
        self.end_turn(key, slot, octets, whole);
        self.pay(now, slot, usize::from(key) / PRIOS, octets);
    }

    /// Brings all pointers to where the leaf's turn is.
    fn take_turn(&mut self, key: u8, leaf: Slot) {
        let (level, prio) = (usize::from(key) / PRIOS, usize::from(key) % PRIOS);
        if level > 0 {
            self.take_inner_turns(key, leaf);
        } else if let Some(turn) = self.turn.get_mut(level).and_then(|it| it.get_mut(prio)) {
            *turn = leaf;
        }
    }

    fn take_inner_turns(&mut self, key: u8, leaf: Slot) {
        let leaves = members(self.active | bit(leaf), 0)
            .filter(|slot| self.classes.get(*slot).is_some_and(|it| it.key == key))
            .fold(0, |set, slot| set | bit(slot));
        let mut ended = 0;
        let mut found = |slot: Slot| (slot == leaf).then_some(());
        self.in_turn(key, leaves, &mut ended, &mut found);
        let (level, prio) = (usize::from(key) / PRIOS, usize::from(key) % PRIOS);
        for slot in members(ended, 0) {
            if let Some(turn) = self.turn_of(slot, prio) {
                *turn = 0;
            }
        }
        let lender = self.classes.get(leaf).and_then(|leaf| leaf.lender);
        let mut below = leaf;
        while Some(below) != lender
            && let Some(parent) = self.classes.get(below).and_then(|class| class.parent)
        {
            if let Some(turn) = self.turn_of(parent, prio) {
                *turn = below;
            }
            below = parent;
        }
        if let Some(turn) = self.turn.get_mut(level).and_then(|it| it.get_mut(prio)) {
            *turn = below;
        }
    }

    fn turn_of(&mut self, slot: Slot, prio: usize) -> Option<&mut Slot> {
        self.classes.get_mut(slot)?.turn.get_mut(prio)
    }

    /// Takes the octets from the leaf's turn, and gives the next its turn if it is used up.
    fn end_turn(&mut self, key: u8, slot: Slot, octets: u32, whole: bool) {
        let (level, prio) = (usize::from(key) / PRIOS, usize::from(key) % PRIOS);
        let Some(class) = self.classes.get_mut(slot) else {
            return;
        };
        let (quantum, parent) = (class.quantum, class.parent);
        let Some(deficit) = class.deficit.get_mut(level) else {
            return;
        };
        *deficit = deficit.saturating_sub(i64::from(octets));
        if *deficit >= 0 || !whole {
            return;
        }
        *deficit += quantum;
        let turn = match parent.filter(|_| level > 0) {
            Some(parent) => self.turn_of(parent, prio),
            None => self.turn.get_mut(level).and_then(|it| it.get_mut(prio)),
        };
        if let Some(turn) = turn {
            *turn = slot + 1;
        }
    }

    /// Charges the leaf and all above it. The ceiling always; the rate from the level of the lender
    /// on, below it tokens only gather.
    fn pay(&mut self, now: Instant, leaf: Slot, level: usize, octets: u32) {
        let mut changed = false;
        let mut next = Some(leaf);
        while let Some(slot) = next {
            let Some(class) = self.classes.get_mut(slot) else {
                break;
            };
            let passed_ns = class.passed_ns(now);
            if class.level >= level {
                class.rate.charge(passed_ns, octets);
            } else {
                class.rate.gather(passed_ns);
            }
            class.ceil.charge(passed_ns, octets);
            class.checkpoint = now;
            next = class.parent;
            changed |= self.set_mode(now, slot);
        }
        if changed {
            self.find_lenders();
        }
    }

    /// When the earliest of the leaves that wait, each ready to send at its `start`, may; at the
    /// earliest now.
    pub(super) fn starts(
        &self,
        now: Instant,
        mut start: impl FnMut(NodeIndex) -> Option<Instant>,
    ) -> Option<Instant> {
        let moments = members(self.active, 0).filter_map(|slot| {
            let class = self.classes.get(slot)?;
            let ready = if class.direct { now } else { self.ready(slot) };
            Some(start(class.node)?.max(ready))
        });
        moments.min()
    }

    /// When a class's mode changes next.
    pub(super) fn changes(&self) -> Option<Instant> {
        Some(self.changes_at).filter(|at| *at < Instant::NEVER)
    }

    /// When a lender will pay for the class.
    fn ready(&self, slot: Slot) -> Instant {
        let Some(class) = self.classes.get(slot) else {
            return Instant::NEVER;
        };
        let (ceil, rate) = class.ready();
        let mut moment = match class.parent {
            _ if rate <= ceil => ceil,
            Some(parent) => ceil.max(rate.min(self.ready(parent))),
            None => rate,
        };
        if self.strict {
            let mut above = class.parent;
            while let Some(class) = above.and_then(|above| self.classes.get(above)) {
                moment = moment.max(class.ready().0);
                above = class.parent;
            }
        }
        moment
    }

    pub(super) fn check(&self) {
        for (slot, class) in self.classes.iter().enumerate() {
            let active = self.active & bit(slot) != 0;
            assert!(!active || class.level == 0, "only leaves have packets");
            assert!(class.quantum > 0, "a turn is not empty");
        }
    }
}

impl Class {
    fn passed_ns(&self, now: Instant) -> i64 {
        let passed = i64::try_from(nanos(now.since(self.checkpoint)));
        passed.unwrap_or(i64::MAX).min(SPAN_MAX_NS)
    }

    /// When it has tokens for its ceiling, and when for its rate.
    fn ready(&self) -> (Instant, Instant) {
        let after = |ns: i64| self.checkpoint + Duration::from_nanos(ns.unsigned_abs());
        (after(self.ceil.lacking_ns()), after(self.rate.lacking_ns()))
    }

    /// Its state at `now`, and until when at the longest.
    fn mode_at(&self, now: Instant) -> (Mode, Instant) {
        let (ceil, rate) = self.ready();
        if now < ceil {
            (Mode::Wait, ceil)
        } else if now < rate {
            (Mode::Borrow, rate)
        } else {
            (Mode::Send, Instant::NEVER)
        }
    }
}

#[cfg(test)]
#[path = "htb_tests.rs"]
mod tests;
