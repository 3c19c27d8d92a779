//! Settings that a policy may have but probably doesn't mean.

use alloc::string::String;
use alloc::vec::Vec;

use strait_core::ClassId;

use crate::error::PolicyWarning;
use crate::leaf::QueueConfig;
use crate::plan::{Discipline, NodeIndex, NodeRates, Plan, PlanNode, ShapeKind};
use crate::policy::Policy;
use crate::wait::{Line, PACKET_OCTETS_MAX, worst_wait};

/// A burst longer than so much line time delays all packets behind it, in milliseconds.
const BURST_MS_MAX: u64 = 10;

/// Something to think about, with its reason.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Lint {
    /// A warning of the compilation.
    #[error(transparent)]
    Rule(#[from] PolicyWarning),
    /// Guarantees below a class are more than its own.
    #[error(
        "the rates below `{class}` add up to {sum_bit_s} bit/s, more than its {own_bit_s}: they \
         can't all be kept, and in plain `htb` they go beyond its ceiling; lower them, or use \
         \"htb-strict\", which shrinks them in proportion"
    )]
    ChildrenAboveParent {
        /// The class above.
        class: String,
        /// The sum of the guarantees.
        sum_bit_s: u64,
        /// Its own.
        own_bit_s: u64,
    },
    /// A class may get nothing for as long as another has something to send.
    #[error("`{class}` can starve: {reason}; give the classes before it a `shape` or a `police`")]
    CanStarve {
        /// The class that starves.
        class: String,
        /// Why.
        reason: String,
    },
    /// Packets that gather in a pause leave at once and delay all others.
    #[error(
        "the {key} of `{class}` is {octets} octets, {burst_ms} ms of the line: all others wait \
         that long behind it; {limit_octets} octets are {limit_ms} ms",
        limit_ms = BURST_MS_MAX
    )]
    LongBurst {
        /// The class.
        class: String,
        /// The key.
        key: &'static str,
        /// Its octets.
        octets: u64,
        /// Their time on the line.
        burst_ms: u64,
        /// A limit that is short enough.
        limit_octets: u64,
    },
    /// A bucket too small for a packet.
    #[error(
        "the {key} of `{class}` is {octets} octets, less than a packet of {limit}: {effect}",
        limit = PACKET_OCTETS_MAX
    )]
    BelowPacket {
        /// The class.
        class: String,
        /// The key.
        key: &'static str,
        /// Its octets.
        octets: u64,
        /// The effect of that.
        effect: &'static str,
    },
    /// The queue is full before early drop begins.
    #[error(
        "`{class}` holds {packets} packets, but its early drop for {dscp} acts up to {max}: the \
         full queue drops first, and any packet; hold {better} or more"
    )]
    FullBeforeEarlyDrop {
        /// The class.
        class: String,
        /// Its limit of packets.
        packets: u32,
        /// The code point.
        dscp: String,
        /// Its upper threshold.
        max: u32,
        /// A sufficient value.
        better: u32,
    },
}

/// Examines a policy. Without a line, properties that depend on its rate aren't examined.
#[must_use]
pub fn lint(policy: &Policy, line: Option<Line>) -> Vec<Lint> {
    let mut lints: Vec<Lint> = policy.warnings().iter().cloned().map(Lint::from).collect();
    let plan = policy.plan();
    // If the line isn't known, sums of fixed rates can still be judged.
    let rates = plan.rates(line.map_or(u64::MAX >> 16, |line| line.bit_s.max(1)));
    for (index, node) in plan.nodes.iter().enumerate() {
        lints.extend(children(plan, &rates, index, node, line));
        lints.extend(small_buckets(plan, &rates, index, node));
        if let Some(line) = line {
            lints.extend(bursts(plan, &rates, index, node, line));
        }
        let class = node.class.and_then(|id| policy.classes().get(id.index()));
        if let Some(class) = class {
            lints.extend(early_drop(&class.name, class.packets, &class.queue));
        }
    }
    if let Some(line) = line {
        lints.extend(starving(policy, line));
    }
    lints
}

fn children(
    plan: &Plan,
    rates: &[NodeRates],
    index: NodeIndex,
    node: &PlanNode,
    line: Option<Line>,
) -> Option<Lint> {
    let asks = |child: &NodeIndex| plan.nodes.get(*child).is_some_and(|it| it.rate.is_some());
    if node.children.is_empty() || (index == Plan::ROOT && line.is_none() && node.shape.is_none()) {
        return None;
    }
    let rate = |child: NodeIndex| rates.get(child).map_or(0, |rates| rates.rate_bit_s);
    // Where shares are rates, their sum is no promise.
    if !node.discipline.is_htb() || node.discipline == Discipline::HtbStrict {
        return None;
    }
    let asking = node.children.iter().filter(|child| asks(child));
    let sum_bit_s = asking.fold(0u64, |sum, child| sum.saturating_add(rate(*child)));
    let own_bit_s = match rates.get(index) {
        Some(own) if index == Plan::ROOT => own.shape_bit_s.unwrap_or(own.rate_bit_s),
        Some(own) => own.rate_bit_s,
        None => return None,
    };
    (sum_bit_s > own_bit_s).then(|| Lint::ChildrenAboveParent {
        class: node.name.clone(),
        sum_bit_s,
        own_bit_s,
    })
}

fn small_buckets(plan: &Plan, rates: &[NodeRates], index: NodeIndex, node: &PlanNode) -> Vec<Lint> {
    let mut lints = Vec::new();
    let mut below = |key, octets, effect| {
        lints.push(Lint::BelowPacket {
            class: node.name.clone(),
            key,
            octets,
            effect,
        });
    };
    let parent = node.parent.and_then(|parent| plan.nodes.get(parent));
    let discipline = parent.map(|parent| parent.discipline);
    if discipline == Some(Discipline::Htb) && node.class.is_some() && !node.direct {
        let rate = rates.get(index).map_or(0, |rates| rates.rate_bit_s);
        let automatic = (rate / 8 / u64::from(node.r2q.max(1))).clamp(1000, 200_000);
        let quantum = node.quantum.map_or(automatic, u64::from);
        if quantum < PACKET_OCTETS_MAX {
            let effect = "borrowed rate is shared by packets, not by octets or rate; \
                          write a `quantum` in proportion to the rate, at least a packet";
            below("quantum", quantum, effect);
        }
    }
    if let Some(shape) = &node.shape
        && let Some(burst) = shape.burst
        && shape.kind == ShapeKind::TokenBucket
        && burst < PACKET_OCTETS_MAX
    {
        below("burst", burst, "a long packet goes only after a pause");
    }
    lints
}

fn bursts(
    plan: &Plan,
    rates: &[NodeRates],
    index: NodeIndex,
    node: &PlanNode,
    line: Line,
) -> Vec<Lint> {
    let limit_octets = (line.bit_s * BURST_MS_MAX / 8000).max(PACKET_OCTETS_MAX);
    let long = |key, octets: u64| {
        (octets > limit_octets + 100).then(|| Lint::LongBurst {
            class: node.name.clone(),
            key,
            octets,
            burst_ms: octets.saturating_mul(8000) / line.bit_s.max(1),
            limit_octets,
        })
    };
    let parent = node.parent.and_then(|parent| plan.nodes.get(parent));
    let htb = parent.is_some_and(|parent| parent.discipline.is_htb());
    let shape_bit_s = rates.get(index).and_then(|rates| rates.shape_bit_s);
    let shape = node.shape.zip(shape_bit_s);
    let burst = shape.map(|(shape, bit_s)| shape.burst_octets(bit_s));
    [
        long("burst", node.burst).filter(|_| htb && !node.direct),
        long("cburst", node.cburst).filter(|_| htb && !node.direct),
        burst.and_then(|octets| long("burst", octets)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn starving(policy: &Policy, line: Line) -> Vec<Lint> {
    let classes = (0u8..).zip(policy.classes());
    let lints = classes.filter_map(|(number, class)| {
        let wait = worst_wait(policy, ClassId(number), line);
        let starves = wait.rate_bit_s.is_none();
        let reason = wait
            .because
            .iter()
            .rev()
            .find(|reason| !reason.contains("age"));
        starves.then(|| Lint::CanStarve {
            class: class.name.clone(),
            reason: reason.cloned().unwrap_or_default(),
        })
    });
    lints.collect()
}

fn early_drop(class: &str, packets: u32, queue: &QueueConfig) -> Option<Lint> {
    let QueueConfig::Wred(wred) = queue else {
        return None;
    };
    let mut profiles = wred.profile.iter();
    let (dscp, profile) = profiles.find(|(_, profile)| profile.max >= packets)?;
    Some(Lint::FullBeforeEarlyDrop {
        class: class.into(),
        packets,
        dscp: alloc::format!("{dscp}"),
        max: profile.max,
        better: profile.max.saturating_mul(3).div_ceil(2),
    })
}

#[cfg(test)]
#[path = "lint_tests.rs"]
mod tests;
