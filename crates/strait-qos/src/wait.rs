//! How long a packet of a class waits at worst on a given line.
//!
//! Network calculus in its plainest form: on its way down the tree a class keeps a service curve,
//! a rate that it gets at least and a latency after which it gets it. What goes before it takes
//! from both; a class whose rate is limited takes no more than its limit.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use strait_core::{ClassId, Duration};

use crate::plan::{Discipline, NodeIndex, NodeRates, Plan, PlanNode, ShapeKind};
use crate::policy::Policy;
use crate::tree::bands::QUANTUM_OCTETS;

/// Octets of the longest packet that is reckoned with.
pub const PACKET_OCTETS_MAX: u64 = 1500;

/// A line, as far as waiting depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Octets that it carries, in bit/s.
    pub bit_s: u64,
    /// Octets that can't be interrupted once they are leaving: a segment, or a whole packet where
    /// the link has no segments.
    pub unit_octets: u64,
}

/// What a class can count on.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstWait {
    /// Bits a second that it gets at least, whatever the others do; none if others can starve it.
    pub rate_bit_s: Option<u64>,
    /// How long a packet that finds its class empty waits at most until it begins to leave.
    pub alone: Option<Duration>,
    /// The same behind a class that is as full as it can be, its limit of age counted.
    pub full: Option<Duration>,
    /// What it waits for, in words.
    pub because: Vec<String>,
}

/// A rate of at least `bit_s` after `latency_s`.
#[derive(Clone, Copy, Debug)]
struct Curve {
    bit_s: f64,
    latency_s: f64,
}

/// What a part of the tree sends at most: `bit_s` on average, and `octets` at once.
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
    let age = of_class.and_then(|class| class.age);
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
        because.push(format!(
            "what is leaving can't be interrupted for {} octets",
            self.line.unit_octets
        ));
        for index in way {
            curve = self.below(index, curve, because)?;
        }
        Some(curve)
    }

    /// What is left of its parent's service for one node, limits of its own counted.
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
                self.share(index, node, parent, left, because)
            }
        };
        Some(self.shaped(index, node, curve, because))
    }

    /// Strict priority: the higher bands take what they can get at most.
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

    /// Weighted shares: each other class of the band has its turn first, and one packet too much.
    fn share(
        &self,
        index: NodeIndex,
        node: &PlanNode,
        parent: &PlanNode,
        curve: Curve,
        because: &mut Vec<String>,
    ) -> Curve {
        let weight = |index: NodeIndex| {
            let node = self.node(index);
            let weight = node.and_then(|node| node.weight).map(f64::from);
            let rate = node.and_then(|node| node.rate);
            weight
                .or_else(|| rate.map(|_| self.rates(index).rate_bit_s as f64))
                .unwrap_or(1.0)
        };
        let band = parent.children.iter().copied();
        let others: Vec<NodeIndex> = band
            .filter(|other| *other != index)
            .filter(|other| self.node(*other).is_some_and(|it| it.band == node.band))
            .collect();
        if others.is_empty() {
            return curve;
        }
        let sum: f64 = others.iter().map(|other| weight(*other)).sum();
        let own = weight(index);
        let least = others
            .iter()
            .map(|other| weight(*other))
            .fold(own, f64::min);
        // The scheduler's turns are of so many octets for the least share.
        let quantum = QUANTUM_OCTETS as f64;
        let turns: f64 = others
            .iter()
            .map(|other| quantum * weight(*other) / least + PACKET_OCTETS_MAX as f64)
            .sum();
        because.push(format!(
            "{} more of its band have their turns, {} octets",
            others.len(),
            turns as u64
        ));
        Curve {
            bit_s: curve.bit_s * own / (own + sum),
            latency_s: curve.latency_s + turns * 8.0 / curve.bit_s,
        }
    }

    /// Token buckets: a class has its guarantee, if all guarantees fit together.
    fn guaranteed(
        &self,
        index: NodeIndex,
        node: &PlanNode,
        curve: Curve,
        because: &mut Vec<String>,
    ) -> Option<Curve> {
        if node.direct {
            return Some(curve);
        }
        let leaves = self.plan.nodes.iter().enumerate().filter(|(other, it)| {
            *other != index && it.class.is_some() && !it.direct && it.parent.is_some()
        });
        let (mut sum, mut burst) = (0.0, 0.0);
        for (other, it) in leaves {
            sum += self.rates(other).rate_bit_s as f64;
            burst += it.burst.max(PACKET_OCTETS_MAX) as f64;
        }
        let own = self.rates(index).rate_bit_s as f64;
        if node.class.is_none() {
            return Some(curve);
        }
        let direct = self.plan.nodes.iter().find(|it| it.direct);
        if let Some(direct) = direct {
            because.push(format!(
                "`{}` goes before it and nothing limits it",
                direct.name
            ));
            return None;
        }
        let whole = curve.bit_s;
        let rate = if own + sum > whole {
            because.push(format!(
                "the guarantees of all, {} bit/s, are more than there is: each may miss its own",
                (own + sum) as u64
            ));
            whole * own / (own + sum)
        } else {
            own
        };
        because.push(format!(
            "the others within their guarantees may have {} octets in their buckets",
            burst as u64
        ));
        let own_packet = PACKET_OCTETS_MAX as f64 * 8.0 / rate;
        Some(Curve {
            bit_s: rate,
            latency_s: curve.latency_s + burst * 8.0 / whole + own_packet,
        })
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
        let rate = (bit_s as f64).min(curve.bit_s);
        let pause = match shape.kind {
            ShapeKind::TokenBucket | ShapeKind::VirtualClock => PACKET_OCTETS_MAX as f64 * 8.0,
            // Credit comes an interval late, and a packet may have overdrawn it.
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
            let burst = shape.burst_octets(bit_s) + shape.excess.unwrap_or(0);
            limit(Load {
                bit_s: bit_s as f64,
                octets: burst as f64 + packet,
            });
        }
        let parent = node.parent.and_then(|parent| self.node(parent));
        if parent.is_some_and(|parent| parent.discipline == Discipline::HtbStrict) {
            limit(Load {
                bit_s: rates.ceil_bit_s as f64,
                octets: node.cburst as f64 + packet,
            });
        }
        let class = node
            .class
            .and_then(|id| self.policy.classes().get(id.index()));
        if let Some((bit_s, octets)) = class.and_then(|it| it.police.as_ref()?.most()) {
            limit(Load {
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

#[cfg(test)]
#[path = "wait_tests.rs"]
mod tests;
