//! Classes as a tree of HTB.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::queue::{MTU_OCTETS, queue};
use super::{Export, Queues, minor};
use crate::plan::{Discipline, NodeIndex, NodeRates, Plan, PlanNode, Shape, ShapeKind};
use crate::policy::Policy;

/// The rate of a class without a guarantee, in bit/s. HTB serves traffic within its rate before
/// borrowing traffic, whatever the priorities, so that a lower band takes this much from a higher
/// one. Less would overflow the 274 s that a bucket of one packet can hold in the kernel's ticks.
const UNGUARANTEED_BIT_S: u64 = 400;
/// HTB warns above it.
const QUANTUM_OCTETS_MAX: u64 = 200_000;
/// A quantum below a packet makes HTB share by packets, not by octets.
const QUANTUM_OCTETS_MIN: u64 = 1514;
/// HTB's last priority.
const PRIO_MAX: u8 = 7;
/// Bands of PRIO at most, and the priorities that its map knows.
const PRIO_BANDS: usize = 16;
/// The share that is everything: fine enough for six levels of weights.
const WHOLE: u128 = 1 << 64;
/// More than any weight, and than any rate in bit/s that a line has: products of it with [`WHOLE`]
/// stay numbers.
const SHARE_MAX: u128 = 1 << 44;

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
    /// Strict bands are a PRIO's, and its tree of token buckets is this class.
    buckets: Option<NodeIndex>,
    queues: Queues,
}

/// The class of token buckets beside which all others of the root hold packets and have a band
/// each: the structure that PRIO with HTB below it supports. Packets that match no rule have to be
/// in it.
fn buckets(policy: &Policy) -> Option<NodeIndex> {
    let nodes = &policy.plan().nodes;
    let root = nodes.first().filter(|root| !root.discipline.is_htb())?;
    let all = root
        .children
        .iter()
        .filter_map(|it| Some((*it, nodes.get(*it)?)));
    let mut bands: Vec<u8> = all.clone().map(|(_, it)| it.band).collect();
    bands.sort_unstable();
    let apart = bands.windows(2).all(|two| two[0] != two[1]) && bands.len() <= PRIO_BANDS;
    let mut inner = all.filter(|(_, it)| it.class.is_none());
    let (index, own) = inner.next()?;
    let default = policy.plan().leaf(policy.otherwise().class);
    let is_in = policy.plan().up(default).any(|(above, _)| above == index);
    let fits = apart && is_in && inner.next().is_none() && own.discipline.is_htb();
    (fits && own.shape.is_none()).then_some(index)
}

impl<'a> Tree<'a> {
    pub(super) fn new(policy: &'a Policy, line_bit_s: u64, queues: Queues) -> Self {
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
            buckets: buckets(policy).filter(|_| queues != Queues::Plain),
            queues,
        }
    }

    /// The handle of the HTB.
    pub(super) const fn handle(&self) -> u16 {
        match (self.buckets, &self.shape) {
            (Some(_), _) => Export::LOWEST,
            (None, Some(_)) => Export::BELOW,
            (None, None) => Export::HANDLE,
        }
    }

    /// The band of PRIO that is a class's, counted from 1.
    fn band(&self, node: NodeIndex) -> Option<usize> {
        self.buckets?;
        let root = self.plan.nodes.first()?;
        let own = root.children.contains(&node).then_some(node)?;
        let band = |it: NodeIndex| self.plan.nodes.get(it).map(|it| it.band);
        let before = root.children.iter().filter(|it| band(**it) < band(own));
        Some(before.count() + 1)
    }

    /// The priority that puts a packet into a class: `57a1:3`; the discipline itself for one that
    /// goes before all.
    pub(super) fn priority(&self, node: NodeIndex) -> String {
        if let Some(band) = self.band(node) {
            return format!("{:x}:{band:x}", Export::BELOW);
        }
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
        let top = self.buckets.unwrap_or(Plan::ROOT);
        let r2q = self.plan.nodes.get(top).map_or(10, |top| top.r2q);
        let place = self.add_bands(interface, text, notes).unwrap_or(place);
        let _ = writeln!(
            text,
            "qdisc add dev {interface} {place} handle {handle:x}: htb default 0x{default:x} \
             r2q {r2q}"
        );
    }

    /// Strict bands below a class for all. Classes without a band go to the token buckets.
    fn add_bands(
        &self,
        interface: &str,
        text: &mut String,
        notes: &mut Vec<String>,
    ) -> Option<String> {
        let own = self.band(self.buckets?)?;
        let root = self.plan.nodes.first()?;
        let [first, below] = [Export::HANDLE, Export::BELOW].map(|it| format!("{it:x}:"));
        let keys = self.class_keys(Plan::ROOT, root, notes);
        let map = [own - 1; PRIO_BANDS]
            .map(|band| format!(" {band}"))
            .concat();
        let _ = writeln!(
            text,
            "qdisc add dev {interface} root handle {first} htb default 0x1\n\
             class add dev {interface} parent {first} classid {first}1 htb {keys}\n\
             qdisc add dev {interface} parent {first}1 handle {below} prio bands {} priomap{map}",
            root.children.len().max(2)
        );
        Some(format!("parent {below}{own:x}"))
    }

    fn add(
        &self,
        interface: &str,
        index: NodeIndex,
        node: &PlanNode,
        text: &mut String,
        notes: &mut Vec<String>,
    ) {
        let is_top = index == Plan::ROOT && (!self.has_top || self.buckets.is_some());
        if is_top || self.buckets == Some(index) {
            return;
        }
        if let (Some(band), Some(class)) = (self.band(index), node.class) {
            let class = self.policy.classes().get(class.index());
            let queue = class.map(|class| queue(class, self.line_bit_s, self.queues, notes));
            let queue = queue.unwrap_or_default();
            let below = Export::BELOW;
            let _ = writeln!(
                text,
                "qdisc add dev {interface} parent {below:x}:{band:x} {queue}"
            );
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
            above if above == self.buckets => format!("parent {handle:x}:"),
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
            let queue = queue(class, self.line_bit_s, self.queues, notes);
            let _ = writeln!(text, "qdisc add dev {interface} parent {place} {queue}");
        } else if self.bucket_below(index, node).is_some() {
            notes.push(format!(
                "class `{}` isn't shaped: below HTB the kernel shapes only leaves, and this class \
                 has others below",
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

    /// The keys of HTB itself.
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
        // Not its rate, even if it has one, which is a share of its band: the kernel would serve it
        // before the bands above. But token buckets in a band below borrow from each other before
        // any class borrows from the class above them all: classes that precede them are within its
        // rate.
        let rate = if self.is_before_buckets(node) {
            ceil
        } else {
            UNGUARANTEED_BIT_S.min(ceil)
        };
        let prio = if node.class.is_some() {
            let rank = node
                .class
                .and_then(|id| self.policy.classes().get(id.index()))
                .map_or(0, |class| class.rank);
            if rank > PRIO_MAX {
                notes.push(format!(
                    "class `{}` is of rank {rank}, but the kernel has 8: it shares the last",
                    node.name
                ));
            }
            format!(" prio {}", rank.min(PRIO_MAX))
        } else {
            notes.push(format!(
                "class `{}`: the rate that one of its classes leaves goes to all of that rank, not \
                 first to its siblings",
                node.name
            ));
            String::new()
        };
        let quantum = self.quantum_by_share(index, node, notes);
        format!(
            "rate {rate}bit ceil {ceil}bit burst {}b cburst {burst}b{prio} quantum {quantum}",
            packet_burst()
        )
    }

    /// Whether it holds packets and goes before a class of token buckets beside it.
    fn is_before_buckets(&self, node: &PlanNode) -> bool {
        let buckets = buckets(self.policy).and_then(|it| self.plan.nodes.get(it));
        let is_beside = node.parent == Some(Plan::ROOT) && node.class.is_some();
        is_beside && buckets.is_some_and(|it| node.band < it.band)
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

    /// Quanta in proportion to shares of the whole, the least of those that take turns a packet.
    ///
    /// A round of the kernel's passes all classes that borrow at a priority, whatever their group,
    /// so groups share as the sums of their quanta do. Of inner classes it reads no quantum.
    fn quantum_by_share(&self, index: NodeIndex, node: &PlanNode, notes: &mut Vec<String>) -> u64 {
        if node.class.is_none() {
            return QUANTUM_OCTETS_MIN;
        }
        let others = self.plan.nodes.iter().enumerate();
        let others = others.filter(|(_, it)| self.prio(it) == self.prio(node));
        let least = others.map(|(other, _)| self.whole_share(other)).min();
        let (least, own) = (least.unwrap_or(1).max(1), self.whole_share(index));
        let quantum = (u128::from(QUANTUM_OCTETS_MIN) * own + least / 2) / least;
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

    /// The share of the whole that a class gets when all of the same ranks send, in parts of
    /// [`WHOLE`].
    fn whole_share(&self, index: NodeIndex) -> u128 {
        let way = self.plan.up(index);
        way.fold(WHOLE, |share, (index, node)| {
            let above = node.parent.and_then(|parent| self.plan.nodes.get(parent));
            let siblings = above.map_or(&[][..], |parent| &parent.children).iter();
            let alike = siblings.filter(|sibling| {
                let sibling = self.plan.nodes.get(**sibling);
                sibling.is_some_and(|it| it.band == node.band && it.prio == node.prio)
            });
            let all: u128 = alike.map(|it| self.share(*it)).sum();
            share * self.share(index) / all.max(self.share(index))
        })
    }

    /// Its share among its siblings.
    fn share(&self, index: NodeIndex) -> u128 {
        let share = self.rates.get(index).map_or(1, |rates| rates.share);
        u128::from(share).clamp(1, SHARE_MAX)
    }

    /// The priority of a class that holds packets: its own under token buckets, else its rank.
    fn prio(&self, node: &PlanNode) -> Option<u8> {
        let class = self.policy.classes().get(node.class?.index())?;
        let above = self.plan.nodes.get(node.parent?)?;
        Some(if above.discipline.is_htb() {
            node.prio
        } else {
            class.rank.min(PRIO_MAX)
        })
    }
}

/// Octets that a bucket needs to let a packet through.
const fn packet_burst() -> u64 {
    crate::plan::PACKET_OCTETS
}

fn note_shape(of: &str, shape: &Shape, notes: &mut Vec<String>) {
    let how = match shape.kind {
        ShapeKind::TokenBucket => return,
        ShapeKind::VirtualClock => "without any burst; the kernel allows a burst of one packet",
        ShapeKind::Average => {
            "by credit once an interval; the kernel's bucket has the same burst and fills evenly"
        }
        ShapeKind::Peak => {
            "by credit of burst and excess an interval; the kernel holds it to the rate itself"
        }
    };
    notes.push(format!("{of} is shaped {how}"));
}
