//! How long a packet of a class waits at worst on a given line.
//!
//! Network calculus in its plainest form: on its way down the tree a class keeps a service curve, a
//! rate that it gets at least and a latency after which it gets it. Classes before it take from
//! both; a class whose rate is limited takes no more than its limit.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use strait_core::rate::LineRate;
use strait_core::{ClassId, Duration};

use crate::leaf::{QueueConfig, Site, age_on};
use crate::plan::{Discipline, NodeIndex, NodeRates, Plan, PlanNode, Shape, ShapeKind};
use crate::policy::Policy;
use crate::tree::bands::turn_octets;

/// Octets of the longest packet that is reckoned with.
pub const PACKET_OCTETS_MAX: u64 = 1500;

/// Octets of the shortest: an IPv4 header.
const PACKET_OCTETS_MIN: f64 = 20.0;

/// A line, as far as waiting depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Octets that it carries, in bit/s.
    pub bit_s: u64,
    /// Octets that can't be interrupted once they are leaving: a segment, or a whole packet where
    /// the link has no segments.
    pub unit_octets: u64,
    /// The link has segments: limits of age don't allow for a packet being sent.
    pub cuts_packets: bool,
}

/// The service that a class can count on.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstWait {
    /// Bits a second that it gets at least, whatever the others do; none if others can starve it.
    pub rate_bit_s: Option<u64>,
    /// How long a packet that finds its class empty waits at most until it begins to leave.
    pub alone: Option<Duration>,
    /// The same behind a class that is as full as it can be, its limit of age counted.
    pub full: Option<Duration>,
    /// The things that it waits for, in words.
    pub because: Vec<String>,
}

/// A rate of at least `bit_s` after `latency_s`.
#[derive(Clone, Copy, Debug)]
struct Curve {
    bit_s: f64,
    latency_s: f64,
}

/// The greatest traffic of a part of the tree: `bit_s` on average, and `octets` at once.
#[derive(Clone, Copy, Debug)]
struct Load {
    bit_s: f64,
    octets: f64,
}

/// The worst wait of a class, for packets up to [`PACKET_OCTETS_MAX`].
///
/// It holds for a line that keeps its rate, without the repeats of a lossy one.
#[must_use]
pub fn worst_wait(policy: &Policy, class: ClassId, line: Line) -> WorstWait {
    let plan = policy.plan();
    let book = Book {
        policy,
        plan,
        rates: plan.rates(line.bit_s.max(1)),
        line,
    };
    let mut because = Vec::new();
    let curve = book.curve(class, &mut because);
    let of_class = policy.classes().get(class.index());
    let age = of_class.and_then(|class| {
        let is_fair = matches!(class.queue, QueueConfig::Fair(_));
        let fair = is_fair.then(|| class.octets.unwrap_or(u64::MAX));
        // If packets aren't cut, one is being sent and one is with the layer below.
        let uncut = match line.cuts_packets {
            true => 0,
            false => 2 * line.unit_octets.min(PACKET_OCTETS_MAX),
        };
        let site = Site {
            unit_octets: uncut as u32,
            ..Site::default()
        };
        let rate = LineRate::new(line.bit_s, 8);
        class.age.map(|age| age_on(age, fair, rate, site))
    });
    let alone = curve.map(|curve| seconds(curve.latency_s));
    let queue_octets = of_class.map_or(0, |class| {
        let packets = u64::from(class.packets) * PACKET_OCTETS_MAX;
        class.octets.map_or(packets, |octets| octets.min(packets))
    });
    let full =
        curve.map(|curve| seconds(curve.latency_s + queue_octets as f64 * 8.0 / curve.bit_s));
    if let Some(age) = age {
        because.push(format!(
            "no packet waits longer than its class's limit of age, {} s",
            age.as_secs_f64()
        ));
    }
    let bounded = |wait: Option<Duration>| match (wait, age) {
        (Some(wait), Some(age)) => Some(wait.min(age)),
        (wait, age) => wait.or(age),
    };
    WorstWait {
        rate_bit_s: curve.map(|curve| curve.bit_s as u64),
        alone: bounded(alone),
        full: bounded(full),
        because,
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

struct Book<'a> {
    policy: &'a Policy,
    plan: &'a Plan,
    rates: Vec<NodeRates>,
    line: Line,
}

impl Book<'_> {
    fn node(&self, index: NodeIndex) -> Option<&PlanNode> {
        self.plan.nodes.get(index)
    }

    fn rates(&self, index: NodeIndex) -> NodeRates {
        self.rates.get(index).copied().unwrap_or_default()
    }

    fn curve(&self, class: ClassId, because: &mut Vec<String>) -> Option<Curve> {
        let mut way: Vec<NodeIndex> = self
            .plan
            .up(self.plan.leaf(class))
            .map(|(index, _)| index)
            .collect();
        way.reverse();
        let bit_s = self.line.bit_s.max(1) as f64;
        let mut curve = Curve {
            bit_s,
            latency_s: self.line.unit_octets as f64 * 8.0 / bit_s,
        };
        because.push(match self.line.unit_octets {
            1 => "the packet being sent is interrupted after its next octet".into(),
            octets => format!("the packet being sent can't be interrupted for {octets} octets"),
        });
        for index in way {
            curve = self.below(index, curve, because)?;
        }
        Some(curve)
    }

    /// The rest of its parent's service for one node, including its own limits.
    fn below(&self, index: NodeIndex, curve: Curve, because: &mut Vec<String>) -> Option<Curve> {
        let node = self.node(index)?;
        let parent = node.parent.and_then(|parent| self.node(parent));
        let curve = match parent {
            None => curve,
            Some(parent) if parent.discipline.is_htb() => {
                self.guaranteed(index, node, curve, because)?
            }
            Some(parent) => {
                let left = self.after_higher_bands(index, node, parent, curve, because)?;
                self.share(index, node, parent, left, because)?
            }
        };
        Some(self.shaped(index, node, curve, because))
    }

    /// Strict priority: the higher bands take the most that they can get.
    fn after_higher_bands(
        &self,
        index: NodeIndex,
        node: &PlanNode,
        parent: &PlanNode,
        curve: Curve,
        because: &mut Vec<String>,
    ) -> Option<Curve> {
        let mut higher = Load {
            bit_s: 0.0,
            octets: 0.0,
        };
        for sibling in &parent.children {
            let Some(other) = self.node(*sibling).filter(|it| it.band < node.band) else {
                continue;
            };
            let Some(load) = self.most(*sibling) else {
                because.push(format!(
                    "`{}` goes before it and nothing limits it: it can take the whole line",
                    other.name
                ));
                return None;
            };
            because.push(format!(
                "`{}` goes before it with up to {} bit/s and {} octets at once",
                other.name, load.bit_s as u64, load.octets as u64
            ));
            higher.bit_s += load.bit_s;
            higher.octets += load.octets;
        }
        let left = curve.bit_s - higher.bit_s;
        if left <= 0.0 {
            let name = self.node(index).map_or("", |node| &node.name);
            because.push(format!("nothing is left for `{name}`"));
            return None;
        }
        Some(Curve {
            bit_s: left,
            latency_s: (curve.latency_s * curve.bit_s + higher.octets * 8.0) / left,
        })
    }

    /// Weighted shares. The class may owe a packet that took more than its share: it is paid while
    /// the others have theirs; then each of them has its turn first, and a packet too much.
    fn share(
        &self,
        index: NodeIndex,
        node: &PlanNode,
        parent: &PlanNode,
        curve: Curve,
        because: &mut Vec<String>,
    ) -> Option<Curve> {
        let band = parent.children.iter().copied();
        let others: Vec<NodeIndex> = band
            .filter(|other| *other != index)
            .filter(|other| self.node(*other).is_some_and(|it| it.band == node.band))
            .collect();
        if others.is_empty() {
            return Some(curve);
        }
        let by_turns = parent.discipline == Discipline::Wdrr;
        let held_back = others
            .iter()
            .find(|other| !by_turns && self.is_limited(**other));
        if let Some(other) = held_back.and_then(|other| self.node(*other)) {
            because.push(format!(
                "`{}` may be held back by its limit, and then catches up first",
                other.name
            ));
            return None;
        }
        let weights = others.iter().map(|other| self.rates(*other).share);
        let own = self.rates(index).share;
        let least = weights.clone().fold(own, u64::min);
        // Turns are of so many octets, at least for the least share; tags have none.
        let share = |weight: u64| {
            if by_turns {
                turn_octets(weight, least)
            } else {
                weight as f64
            }
        };
        let (own, sum) = (share(own), weights.map(share).sum::<f64>());
        let packet = PACKET_OCTETS_MAX as f64;
        // By tags the packet's own length counts, and that of the one before it.
        let before = if by_turns { sum } else { packet * sum / own };
        let turns = before + packet * sum / own + packet * others.len() as f64;
        because.push(format!(
            "{} others of its band take turns, {} octets",
            others.len(),
            turns as u64
        ));
        Some(Curve {
            bit_s: curve.bit_s * own / (own + sum),
            latency_s: curve.latency_s + turns * 8.0 / curve.bit_s,
        })
    }

    /// Whether a node's packets are held back.
    fn is_limited(&self, index: NodeIndex) -> bool {
        let below = self.plan.nodes.iter().enumerate();
        let mut below = below.filter(|(it, _)| self.plan.up(*it).any(|(node, _)| node == index));
        below.any(|(_, node)| node.shape.is_some() || node.discipline.is_htb())
    }

    /// Token buckets: a class within its guarantee precedes all that borrow, by priority. A class
    /// therefore has its own after those of its priority and before.
    fn guaranteed(
        &self,
        index: NodeIndex,
        node: &PlanNode,
        curve: Curve,
        because: &mut Vec<String>,
    ) -> Option<Curve> {
        if node.direct || node.within_htb {
            return Some(curve);
        }
        let tree = self.tree_of(index);
        let own = self.rates(index).rate_bit_s as f64;
        let packet = PACKET_OCTETS_MAX as f64;
        // It may itself have sent a packet beyond its guarantee.
        let mut sure = Curve {
            bit_s: own,
            latency_s: packet * 8.0 / own.max(1.0),
        };
        // Ceilings that hold are limits of their own, where a packet may have gone beyond too.
        let strict = self.node(tree)?.discipline == Discipline::HtbStrict;
        let ceilings = self
            .plan
            .up(index)
            .take_while(|(it, _)| strict && *it != tree);
        let ceilings = ceilings.map(|(it, _)| (it, self.ceiling(it)));
        for (above, limit) in ceilings.chain([(tree, curve)]) {
            let first = self.first(tree, above, index, node.prio, because)?;
            let left = limit.bit_s - first.bit_s;
            if left <= 0.0 {
                because.push(format!(
                    "the guarantees of its priority and before, {} bit/s without its own, exceed \
                     the line's rate: they may leave nothing",
                    first.bit_s as u64
                ));
                return None;
            }
            sure.bit_s = sure.bit_s.min(left);
            sure.latency_s += (limit.latency_s * limit.bit_s + first.octets * 8.0) / left;
            if above == tree && (first.octets, first.bit_s) > (0.0, 0.0) {
                because.push(format!(
                    "others within their guarantees may send {} octets first, and {} bit/s",
                    first.octets as u64, first.bit_s as u64
                ));
            }
        }
        Some(sure)
    }

    /// A ceiling as a limit that holds.
    fn ceiling(&self, index: NodeIndex) -> Curve {
        let bit_s = self.rates(index).ceil_bit_s.max(1) as f64;
        Curve {
            bit_s,
            latency_s: PACKET_OCTETS_MAX as f64 * 8.0 / bit_s,
        }
    }

    /// The packets of a tree of token buckets within their guarantees: of those below `above`, of
    /// that priority or before; none if nothing limits it.
    fn first(
        &self,
        tree: NodeIndex,
        above: NodeIndex,
        but: NodeIndex,
        prio: u8,
        because: &mut Vec<String>,
    ) -> Option<Load> {
        let mut first = Load {
            bit_s: 0.0,
            octets: 0.0,
        };
        for (other, it) in self.plan.nodes.iter().enumerate() {
            let is_leaf = other != but && other != tree && !it.within_htb;
            let is_below = self.plan.up(other).any(|(node, _)| node == above);
            if !is_leaf || !is_below || self.tree_of(other) != tree {
                continue;
            }
            if it.direct {
                because.push(format!(
                    "`{}` goes before it and nothing limits it",
                    it.name
                ));
                return None;
            }
            if it.prio <= prio {
                first.bit_s += self.rates(other).rate_bit_s as f64;
                // Its last packet may take more than is left.
                first.octets += (it.burst + PACKET_OCTETS_MAX) as f64;
            }
        }
        Some(first)
    }

    /// The node whose token buckets a node is part of, or its parent.
    fn tree_of(&self, index: NodeIndex) -> NodeIndex {
        let above = self.plan.up(index).skip(1);
        let mut above = above.filter(|(_, node)| !node.within_htb);
        above.next().map_or(Plan::ROOT, |(index, _)| index)
    }

    /// The node's own shaper.
    fn shaped(
        &self,
        index: NodeIndex,
        node: &PlanNode,
        curve: Curve,
        because: &mut Vec<String>,
    ) -> Curve {
        let (Some(shape), Some(bit_s)) = (node.shape, self.rates(index).shape_bit_s) else {
            return curve;
        };
        // All that the line carries passes the root's shaper: nothing else holds it up.
        let kept = if index == Plan::ROOT {
            bit_s as f64
        } else {
            kept_bit_s(&shape, bit_s, curve.latency_s)
        };
        let rate = kept.min(curve.bit_s);
        let pause = match shape.kind {
            ShapeKind::TokenBucket | ShapeKind::VirtualClock => PACKET_OCTETS_MAX as f64 * 8.0,
            // Credit arrives an interval late, and a packet may have overdrawn it.
            ShapeKind::Average | ShapeKind::Peak => {
                (shape.burst_octets(bit_s) + PACKET_OCTETS_MAX) as f64 * 8.0
            }
        };
        let pause_s = pause / bit_s as f64;
        because.push(format!(
            "`{}` is shaped to {bit_s} bit/s, which can pause for {pause_s:.3} s",
            node.name
        ));
        Curve {
            bit_s: rate,
            latency_s: curve.latency_s + pause_s,
        }
    }

    /// The most that a node sends, if anything limits it.
    fn most(&self, index: NodeIndex) -> Option<Load> {
        let node = self.node(index)?;
        let packet = PACKET_OCTETS_MAX as f64;
        let mut least: Option<Load> = None;
        let mut limit = |load: Load| {
            if least.is_none_or(|least| load.bit_s < least.bit_s) {
                least = Some(load);
            }
        };
        let rates = self.rates(index);
        if let (Some(shape), Some(bit_s)) = (node.shape, rates.shape_bit_s) {
            let burst = shape.burst_octets(bit_s) as f64;
            let excess = shape.excess.map_or(burst, |excess| excess as f64);
            let (rate, octets) = match shape.kind {
                ShapeKind::TokenBucket | ShapeKind::VirtualClock => (1.0, burst),
                // All that may gather, and the next interval's credit at once after it.
                ShapeKind::Average => (1.0, 2.0 * burst + excess),
                ShapeKind::Peak => (1.0 + excess / burst.max(1.0), 2.0 * (burst + excess)),
            };
            limit(Load {
                bit_s: bit_s as f64 * rate,
                octets: octets + packet,
            });
        }
        let parent = node.parent.and_then(|parent| self.node(parent));
        if parent.is_some_and(|parent| parent.discipline == Discipline::HtbStrict) {
            limit(Load {
                bit_s: rates.ceil_bit_s as f64,
                octets: node.cburst as f64 + packet,
            });
        }
        // Packets that a policer admitted may gather behind another limit and come at once after
        // it: it counts only if nothing else holds packets back.
        let held_back = least.is_some() || parent.is_some_and(|it| it.discipline.is_htb());
        let class = node
            .class
            .and_then(|id| self.policy.classes().get(id.index()));
        let policed = class.and_then(|it| it.police.as_ref()?.most());
        if let Some((bit_s, octets)) = policed.filter(|_| !held_back) {
            least = Some(Load {
                bit_s: bit_s as f64,
                octets: octets as f64,
            });
        }
        if least.is_none() && !node.children.is_empty() {
            let mut sum = Load {
                bit_s: 0.0,
                octets: 0.0,
            };
            for child in &node.children {
                let load = self.most(*child)?;
                sum.bit_s += load.bit_s;
                sum.octets += load.octets;
            }
            least = Some(sum);
        }
        least
    }
}

/// The certain part of a shaper's rate if each packet may be delayed by `held_up_s` when the shaper
/// would let it go: credit that doesn't fit by then is lost.
fn kept_bit_s(shape: &Shape, bit_s: u64, held_up_s: f64) -> f64 {
    let rate = bit_s as f64;
    let burst = shape.burst_octets(bit_s) as f64;
    let room = |octets: f64| match shape.kind {
        ShapeKind::TokenBucket => (burst - octets).max(0.0),
        ShapeKind::VirtualClock => 0.0,
        ShapeKind::Average | ShapeKind::Peak => shape.excess.map_or(burst, |it| it as f64),
    };
    let kept = |octets: f64| {
        let lost_s = (held_up_s - room(octets) * 8.0 / rate).max(0.0);
        octets * 8.0 / (octets * 8.0 / rate + lost_s)
    };
    // In between it is more: least for the shortest, the longest, or one that just fills the
    // bucket.
    let most = PACKET_OCTETS_MAX as f64;
    let lengths = [
        PACKET_OCTETS_MIN,
        burst.clamp(PACKET_OCTETS_MIN, most),
        most,
    ];
    lengths.map(kept).into_iter().fold(rate, f64::min)
}

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
