//! Classes as a tree of HTB.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::{Export, minor};
use crate::leaf::QueueConfig;
use crate::plan::{Discipline, NodeIndex, NodeRates, Plan, PlanNode, Shape, ShapeKind};
use crate::policy::{Class, Policy};

/// The rate of a class that is to have no guarantee, in bit/s. HTB serves what is within its rate
/// before what borrows, whatever the priorities, so this is what a lower band takes from a higher
/// one. Less would overflow the 274 s that a bucket of one packet can hold in the kernel's ticks.
const UNGUARANTEED_BIT_S: u64 = 400;
/// HTB warns above it.
const QUANTUM_OCTETS_MAX: u64 = 200_000;
/// A quantum below a packet makes HTB share by packets, not by octets.
const QUANTUM_OCTETS_MIN: u64 = 1514;
/// HTB's last priority.
const PRIO_MAX: u8 = 7;
/// Quantum of a class that gets all and borrows from nobody: none is needed, the kernel's own would
/// only make it complain.
const MTU_OCTETS: u64 = 1500;

/// The kernel's tree.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    policy: &'a Policy,
    plan: &'a Plan,
    rates: Vec<NodeRates>,
    line_bit_s: u64,
    /// A class for all is above the others.
    has_top: bool,
    /// A token bucket is above the tree.
    shape: Option<(Shape, u64)>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(policy: &'a Policy, line_bit_s: u64) -> Self {
        let plan = policy.plan();
        let rates = plan.rates(line_bit_s);
        let root = plan.nodes.first();
        let is_htb = root.is_some_and(|root| root.discipline.is_htb());
        let shape = root.and_then(|root| root.shape).filter(|_| is_htb);
        let shape_bit_s = rates.first().and_then(|rates| rates.shape_bit_s);
        Self {
            policy,
            plan,
            rates,
            line_bit_s,
            has_top: !is_htb,
            shape: shape.zip(shape_bit_s),
        }
    }

    /// The handle of the HTB.
    pub(super) const fn handle(&self) -> u16 {
        if self.shape.is_some() {
            Export::BELOW
        } else {
            Export::HANDLE
        }
    }

    /// The priority that puts a packet into a class: `57a1:3`; the discipline itself for one that
    /// goes before all.
    pub(super) fn priority(&self, node: NodeIndex) -> String {
        let direct = self.plan.nodes.get(node).is_some_and(|node| node.direct);
        let minor = if direct { 0 } else { minor(node) };
        format!("{:x}:{minor:x}", self.handle())
    }

    /// The lines for `tc -batch`.
    pub(super) fn commands(&self, interface: &str, notes: &mut Vec<String>) -> String {
        let mut text = String::new();
        self.add_root(interface, &mut text, notes);
        for index in self.plan.from_the_top() {
            if let Some(node) = self.plan.nodes.get(index) {
                self.add(interface, index, node, &mut text, notes);
            }
        }
        text
    }

    fn add_root(&self, interface: &str, text: &mut String, notes: &mut Vec<String>) {
        let handle = self.handle();
        let place = match self.shape {
            None => String::from("root"),
            Some((shape, bit_s)) => {
                let burst = shape.burst_octets(bit_s).max(MTU_OCTETS + 100);
                note_shape("the port", &shape, notes);
                let _ = writeln!(
                    text,
                    "qdisc add dev {interface} root handle {:x}: tbf rate {bit_s}bit \
                     burst {burst}b limit 10mb",
                    Export::HANDLE
                );
                format!("parent {:x}:1", Export::HANDLE)
            }
        };
        let default = self.policy.otherwise().class;
        let default = self
            .plan
            .nodes
            .iter()
            .position(|it| it.class == Some(default));
        let direct = default.and_then(|index| self.plan.nodes.get(index));
        let default = match (default, direct) {
            (Some(index), Some(node)) if !node.direct => minor(index),
            _ => 0,
        };
        let r2q = self.plan.nodes.first().map_or(10, |root| root.r2q);
        let _ = writeln!(
            text,
            "qdisc add dev {interface} {place} handle {handle:x}: htb default 0x{default:x} \
             r2q {r2q}"
        );
    }

    fn add(
        &self,
        interface: &str,
        index: NodeIndex,
        node: &PlanNode,
        text: &mut String,
        notes: &mut Vec<String>,
    ) {
        if index == Plan::ROOT && !self.has_top {
            return;
        }
        if node.direct {
            notes.push(format!(
                "class `{}` goes before all by the kernel's direct queue, whose length is the \
                 interface's txqueuelen",
                node.name
            ));
            return;
        }
        let handle = self.handle();
        let parent = match node.parent {
            None => String::from("root"),
            Some(Plan::ROOT) if !self.has_top => format!("parent {handle:x}:"),
            Some(parent) => format!("parent {handle:x}:{:x}", minor(parent)),
        };
        let parent = if parent == "root" {
            format!("parent {handle:x}:")
        } else {
            parent
        };
        let keys = self.class_keys(index, node, notes);
        let _ = writeln!(
            text,
            "class add dev {interface} {parent} classid {handle:x}:{:x} htb {keys}",
            minor(index)
        );
        if let Some(class) = node
            .class
            .and_then(|id| self.policy.classes().get(id.index()))
        {
            let mut place = format!("{handle:x}:{:x}", minor(index));
            if let Some((shape, bit_s)) = self.bucket_below(index, node) {
                note_shape(&format!("class `{}`", node.name), &shape, notes);
                let burst = shape.burst_octets(bit_s).max(packet_burst());
                let own = Export::BELOW.saturating_add(minor(index));
                let _ = writeln!(
                    text,
                    "qdisc add dev {interface} parent {place} handle {own:x}: tbf rate {bit_s}bit \
                     burst {burst}b limit 10mb",
                );
                place = format!("{own:x}:1");
            }
            let queue = queue(class, self.line_bit_s, notes);
            let _ = writeln!(text, "qdisc add dev {interface} parent {place} {queue}");
        } else if self.bucket_below(index, node).is_some() {
            notes.push(format!(
                "class `{}` isn't shaped: the kernel shapes below HTB where packets wait, and here \
                 classes are",
                node.name
            ));
        }
    }

    /// The shaper of a class of token buckets, which has one besides its ceiling.
    fn bucket_below(&self, index: NodeIndex, node: &PlanNode) -> Option<(Shape, u64)> {
        let above = self.plan.nodes.get(node.parent?)?;
        let bit_s = self.rates.get(index)?.shape_bit_s?;
        node.shape
            .filter(|_| above.discipline.is_htb())
            .map(|shape| (shape, bit_s))
    }

    fn class_keys(&self, index: NodeIndex, node: &PlanNode, notes: &mut Vec<String>) -> String {
        let rates = self.rates.get(index).copied().unwrap_or_default();
        let above = node.parent.and_then(|parent| self.plan.nodes.get(parent));
        match above.map(|parent| parent.discipline) {
            None => {
                let bit_s = rates.shape_bit_s.unwrap_or(self.line_bit_s);
                let burst = node.shape.map_or(0, |shape| shape.burst_octets(bit_s));
                if let Some(shape) = &node.shape {
                    note_shape("the port", shape, notes);
                }
                let burst = burst.max(packet_burst());
                format!(
                    "rate {bit_s}bit ceil {bit_s}bit burst {burst}b cburst {burst}b quantum {}",
                    QUANTUM_OCTETS_MIN
                )
            }
            Some(Discipline::Htb) => {
                let quantum = node
                    .quantum
                    .map_or_else(String::new, |quantum| format!(" quantum {quantum}"));
                self.bucket_keys(node, rates, &quantum)
            }
            Some(Discipline::HtbStrict) => {
                let quantum = format!(" quantum {}", self.quantum_by_share(index, node, notes));
                self.bucket_keys(node, rates, &quantum)
            }
            Some(Discipline::Wdrr | Discipline::Cbwfq) => self.share_keys(index, node, notes),
        }
    }

    /// What HTB has itself.
    fn bucket_keys(&self, node: &PlanNode, rates: NodeRates, quantum: &str) -> String {
        let prio = if node.class.is_some() {
            format!(" prio {}", node.prio)
        } else {
            String::new()
        };
        format!(
            "rate {}bit ceil {}bit burst {}b cburst {}b{prio}{quantum}",
            rates.rate_bit_s, rates.ceil_bit_s, node.burst, node.cburst
        )
    }

    /// Bands and shares in HTB's words: everything is borrowed from the class above, bands are
    /// priorities of borrowing, shares are quanta.
    fn share_keys(&self, index: NodeIndex, node: &PlanNode, notes: &mut Vec<String>) -> String {
        let rates = self.rates.get(index).copied().unwrap_or_default();
        let ceil = self.ceil_bit_s(index);
        let mut burst = packet_burst();
        if let (Some(shape), Some(bit_s)) = (&node.shape, rates.shape_bit_s) {
            note_shape(&format!("class `{}`", node.name), shape, notes);
            burst = burst.max(shape.burst_octets(bit_s));
        }
        let rate = match node.rate {
            Some(_) => rates.rate_bit_s.min(ceil),
            None => UNGUARANTEED_BIT_S.min(ceil),
        };
        let prio = if node.class.is_some() {
            let rank = node
                .class
                .and_then(|id| self.policy.classes().get(id.index()))
                .map_or(0, |class| class.rank);
            if rank > PRIO_MAX {
                notes.push(format!(
                    "class `{}` is of rank {rank}, but the kernel knows 8: it shares the last",
                    node.name
                ));
            }
            format!(" prio {}", rank.min(PRIO_MAX))
        } else {
            String::new()
        };
        let quantum = self.quantum_by_share(index, node, notes);
        format!(
            "rate {rate}bit ceil {ceil}bit burst {}b cburst {burst}b{prio} quantum {quantum}",
            packet_burst()
        )
    }

    /// The narrowest limit on the way up.
    fn ceil_bit_s(&self, index: NodeIndex) -> u64 {
        let way = self
            .plan
            .up(index)
            .filter_map(|(index, _)| self.rates.get(index));
        let shapes = way.filter_map(|rates| rates.shape_bit_s);
        shapes.min().unwrap_or(u64::MAX).min(self.line_bit_s)
    }

    /// Quanta in proportion to shares, the least of them a packet.
    fn quantum_by_share(&self, index: NodeIndex, node: &PlanNode, notes: &mut Vec<String>) -> u64 {
        let share = |index: NodeIndex| -> u64 {
            let node = self.plan.nodes.get(index);
            let weight = node.and_then(|node| node.weight).map(u64::from);
            let has_rate = node.is_some_and(|node| node.rate.is_some());
            let rate = self.rates.get(index).map(|rates| rates.rate_bit_s);
            weight
                .or_else(|| rate.filter(|_| has_rate))
                .unwrap_or(1)
                .max(1)
        };
        let above = node.parent.and_then(|parent| self.plan.nodes.get(parent));
        let siblings = above.map_or(&[][..], |parent| &parent.children);
        let of_band = |sibling: &&NodeIndex| {
            let sibling = self.plan.nodes.get(**sibling);
            sibling.is_some_and(|it| it.band == node.band && it.prio == node.prio)
        };
        let least = siblings.iter().filter(of_band).map(|it| share(*it)).min();
        let least = least.unwrap_or(1);
        let quantum = u128::from(QUANTUM_OCTETS_MIN) * u128::from(share(index)) / u128::from(least);
        let quantum = u64::try_from(quantum).unwrap_or(u64::MAX);
        if quantum > QUANTUM_OCTETS_MAX {
            notes.push(format!(
                "class `{}` has more than {} times the share of another: the kernel's longest turn \
                 is {QUANTUM_OCTETS_MAX} octets",
                node.name,
                QUANTUM_OCTETS_MAX / QUANTUM_OCTETS_MIN
            ));
        }
        quantum.min(QUANTUM_OCTETS_MAX)
    }
}

/// Octets that a bucket needs to let a packet through.
const fn packet_burst() -> u64 {
    crate::plan::PACKET_OCTETS
}

fn note_shape(of: &str, shape: &Shape, notes: &mut Vec<String>) {
    let how = match shape.kind {
        ShapeKind::TokenBucket => return,
        ShapeKind::VirtualClock => "without any burst; the kernel lets one packet gather",
        ShapeKind::Average => {
            "by credit once an interval; the kernel's bucket has the same burst and fills evenly"
        }
        ShapeKind::Peak => {
            "by credit of burst and excess an interval; the kernel holds it to the rate itself"
        }
    };
    notes.push(format!("{of} is shaped {how}"));
}

/// The queue of a class, in the kernel's words.
fn queue(class: &Class, line_bit_s: u64, notes: &mut Vec<String>) -> String {
    let name = &class.name;
    let mut note = |text: &str| notes.push(format!("class `{name}`: {text}"));
    if let Some(age) = class.age {
        let ms = age.as_millis();
        note(&format!(
            "the kernel has no limit on age ({ms} ms): packets wait as long as they have to"
        ));
    }
    if class.queue.absorbs_repeats() {
        note("the kernel sends repeats of TCP segments that still wait");
    }
    if class.queue.thins_acks() {
        note("the kernel sends superseded TCP acknowledgements (CAKE's `ack-filter` is the like)");
    }
    let packets = class.packets;
    match &class.queue {
        QueueConfig::Fifo(_) => match class.octets {
            Some(octets) if octets < u64::from(packets) * MTU_OCTETS => {
                note("only its limit of octets is kept, not that of packets");
                format!("bfifo limit {octets}b")
            }
            Some(_) | None => format!("pfifo limit {packets}"),
        },
        QueueConfig::Fair(_) => {
            note("flows in turn by packets become SFQ, in turn by octets");
            octets_note(class, &mut note);
            format!("sfq limit {packets} perturb 10")
        }
        QueueConfig::Sfq(sfq) => {
            octets_note(class, &mut note);
            let mut text = format!(
                "sfq limit {packets} flows {} depth {} divisor {}",
                sfq.flows, sfq.depth, sfq.buckets
            );
            if let Some(quantum) = sfq.quantum {
                let _ = write!(text, " quantum {}", quantum.0);
            }
            if let Some(perturb) = sfq.perturb {
                let _ = write!(text, " perturb {}", perturb.0.as_secs().max(1));
            }
            if sfq.head_drop {
                text.push_str(" headdrop");
            }
            text
        }
        QueueConfig::FqCodel(codel) => {
            octets_note(class, &mut note);
            let mut text = format!("fq_codel limit {packets} flows {}", codel.flows);
            if let Some(quantum) = codel.quantum {
                let _ = write!(text, " quantum {}", quantum.0);
            }
            if codel.target.is_none() || codel.interval.is_none() {
                note("CoDel's target and interval stay those of the line's present rate");
            }
            let (target, interval) = codel.times(line_bit_s, MTU_OCTETS as u32);
            let _ = write!(text, " target {}us", target.as_micros());
            let _ = write!(text, " interval {}us", interval.as_micros());
            text.push_str(if codel.ecn { " ecn" } else { " noecn" });
            text
        }
        QueueConfig::Wred(_) => {
            note("the kernel has no early drop by code point: its full queue drops whatever comes");
            format!("pfifo limit {packets}")
        }
    }
}

fn octets_note(class: &Class, note: &mut impl FnMut(&str)) {
    if class.octets.is_some() {
        note("its limit of octets isn't kept, only that of packets");
    }
}
