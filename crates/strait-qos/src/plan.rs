//! The tree of classes as compiled: parents and children, disciplines, and rates.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::ClassId;

pub use crate::rate::Rate;

/// Place of a node in a [`Plan`].
pub type NodeIndex = usize;

/// How a node shares its rate among its children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// Strict bands; in a band, weighted deficit round robin, accurate to the octet.
    #[default]
    Wdrr,
    /// Strict bands; in a band, the least virtual finish tag (class-based weighted fair queueing).
    Cbwfq,
    /// Hierarchical token buckets just as Linux's `sch_htb` has them, its surprises included.
    Htb,
    /// The same idea, strictly: no ceiling is exceeded, guarantees fit into their parent's, and
    /// borrowed rates are shared by rate.
    HtbStrict,
}

impl Discipline {
    /// Whether classes below it borrow from one another by token buckets.
    #[must_use]
    pub const fn is_htb(self) -> bool {
        matches!(self, Self::Htb | Self::HtbStrict)
    }

    /// The word in configuration files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wdrr => "wdrr",
            Self::Cbwfq => "cbwfq",
            Self::Htb => "htb",
            Self::HtbStrict => "htb-strict",
        }
    }
}

/// How a node is held to a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShapeKind {
    /// Tokens for `burst` octets may gather in a pause; a packet goes when there are enough for it.
    #[default]
    TokenBucket,
    /// No burst at all: each packet begins when the one before would have ended at this rate.
    VirtualClock,
    /// Class-based shaping: each `burst / rate`, credit for `burst` octets; up to `burst` and
    /// `excess` gather; a packet goes while there is any credit.
    Average,
    /// The same with credit for `burst` and `excess` each interval, so above `rate`.
    Peak,
}

/// A limit on the rate of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its kind.
    pub kind: ShapeKind,
    /// The rate.
    pub rate: Rate,
    /// Octets of one burst (Bc of class-based shaping).
    pub burst: Option<u64>,
    /// Octets that may gather on top (Be).
    pub excess: Option<u64>,
}

/// A packet of 1500 octets and its overhead on a link.
pub const PACKET_OCTETS: u64 = 1600;

impl Shape {
    /// Octets of one burst at a rate: for a token bucket 10 ms of it or one packet, whichever is
    /// more, so that later packets meet no burst; for class-based shaping 8000 bits below 320
    /// kbit/s and 25 ms of the rate above, as in IOS.
    #[must_use]
    pub fn burst_octets(&self, bit_s: u64) -> u64 {
        match (self.kind, self.burst) {
            (ShapeKind::VirtualClock, _) => 0,
            (_, Some(burst)) => burst,
            (ShapeKind::TokenBucket, None) => (bit_s / 800).max(PACKET_OCTETS),
            (ShapeKind::Average | ShapeKind::Peak, None) if bit_s < 320_000 => 1000,
            (ShapeKind::Average | ShapeKind::Peak, None) => bit_s / 320,
        }
    }
}

/// A class or, first, the port itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanNode {
    /// The class's name; `root` for the port.
    pub name: String,
    /// The node above; none for the root.
    pub parent: Option<NodeIndex>,
    /// The nodes below, in the order of the configuration.
    pub children: Vec<NodeIndex>,
    /// The number of a class that holds packets.
    pub class: Option<ClassId>,
    /// How its children share; for a leaf without meaning.
    pub discipline: Discipline,
    /// An inner class of the token buckets of a node above, not a scheduler of its own.
    pub within_htb: bool,
    /// Strict rank among its siblings, lower first (wdrr and cbwfq).
    pub band: u8,
    /// Share of its band, if it is given as a number (wdrr and cbwfq).
    pub weight: Option<u16>,
    /// Its guaranteed rate; its share of its band (wdrr and cbwfq), its own bucket (htb).
    pub rate: Option<Rate>,
    /// Its greatest rate (htb).
    pub ceil: Option<Rate>,
    /// Octets that its own bucket holds (htb).
    pub burst: u64,
    /// Octets that its ceiling's bucket holds (htb).
    pub cburst: u64,
    /// Strict rank when it borrows, lower first (htb).
    pub prio: u8,
    /// Octets of its turn when it borrows (htb).
    pub quantum: Option<u32>,
    /// Rate over quantum for classes that don't give theirs (htb).
    pub r2q: u32,
    /// Goes before all else and is never charged (htb).
    pub direct: bool,
    /// The limit on all that it sends.
    pub shape: Option<Shape>,
}

impl PlanNode {
    pub(crate) fn root() -> Self {
        Self {
            name: "root".into(),
            parent: None,
            children: Vec::new(),
            class: None,
            discipline: Discipline::Wdrr,
            within_htb: false,
            band: 0,
            weight: None,
            rate: None,
            ceil: None,
            burst: PACKET_OCTETS,
            cburst: PACKET_OCTETS,
            prio: 0,
            quantum: None,
            r2q: R2Q_DEFAULT,
            direct: false,
            shape: None,
        }
    }
}

/// Linux's: a class of 80 kbit/s has a quantum of 1000 octets.
pub const R2Q_DEFAULT: u32 = 10;

/// A node's rates on a line, in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeRates {
    /// Its guarantee; its parent's, if it has none.
    pub rate_bit_s: u64,
    /// Its ceiling; its guarantee, if it gives none.
    pub ceil_bit_s: u64,
    /// The rate of its shaper, if it has one.
    pub shape_bit_s: Option<u64>,
    /// Its share of its band, at least 1: its weight, or its rate. If others of its band have rates
    /// and it has none, their remainder of the parent's.
    pub share: u64,
}

/// A compiled tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The root first, then the classes in the order of the configuration.
    pub nodes: Vec<PlanNode>,
    /// The rate in bit/s that fixed rates are written for, if they follow the line's.
    pub scale_from: Option<u64>,
}

impl Plan {
    /// The root.
    pub const ROOT: NodeIndex = 0;

    /// The same ranks and shares without any limit: token buckets become shares by rate.
    #[must_use]
    pub fn unlimited(&self) -> Self {
        let mut plan = self.clone();
        let htb = |node: &PlanNode| {
            let parent = node.parent.and_then(|parent| self.nodes.get(parent));
            parent.is_some_and(|parent| parent.discipline.is_htb())
        };
        for (node, own) in plan.nodes.iter_mut().zip(&self.nodes) {
            node.shape = None;
            if own.discipline.is_htb() {
                node.discipline = Discipline::Wdrr;
            }
            node.within_htb = false;
            if htb(own) {
                node.band = u8::from(!own.direct);
            }
        }
        plan
    }

    /// The node of a class that holds packets; the root for a class that isn't there.
    #[must_use]
    pub fn leaf(&self, class: ClassId) -> NodeIndex {
        let leaf = self.nodes.iter().position(|node| node.class == Some(class));
        leaf.unwrap_or(Self::ROOT)
    }

    /// The node's way up, itself first, the root last.
    pub fn up(&self, node: NodeIndex) -> impl Iterator<Item = (NodeIndex, &PlanNode)> {
        let at = |index: NodeIndex| self.nodes.get(index).map(|node| (index, node));
        core::iter::successors(at(node), move |(_, node)| at(node.parent?))
    }

    /// Nodes with each one after its parent.
    #[must_use]
    pub fn from_the_top(&self) -> Vec<NodeIndex> {
        let mut order = Vec::with_capacity(self.nodes.len());
        order.push(Self::ROOT);
        let mut next = 0;
        while let Some(node) = order.get(next).and_then(|node| self.nodes.get(*node)) {
            order.extend_from_slice(&node.children);
            next += 1;
        }
        order
    }

    /// The rates of each node when the line has `line_bit_s`.
    ///
    /// A percentage is of the parent's: its guarantee, for `rate`; its ceiling, for `ceil` and
    /// `shape`; at the top the line's rate, or the shape of the root. Fixed rates are as written,
    /// or scaled with the line. Under [`Discipline::HtbStrict`], ceilings and guarantees above the
    /// parent's are lowered to it, and guarantees that don't fit together shrink in proportion.
    #[must_use]
    pub fn rates(&self, line_bit_s: u64) -> Vec<NodeRates> {
        let mut all = alloc::vec![NodeRates::default(); self.nodes.len()];
        for index in self.from_the_top() {
            let Some(node) = self.nodes.get(index) else {
                continue;
            };
            let above = match node.parent.and_then(|parent| all.get(parent)) {
                Some(parent) => *parent,
                None => NodeRates {
                    rate_bit_s: line_bit_s,
                    ceil_bit_s: line_bit_s,
                    shape_bit_s: None,
                    share: 1,
                },
            };
            let bit_s = |rate: Rate, base| rate.bit_s(base, self.scale_from, line_bit_s);
            let shape = node.shape.map(|shape| bit_s(shape.rate, above.ceil_bit_s));
            let limit = |rate: u64| shape.map_or(rate, |shape| rate.min(shape));
            let rate = node.rate.map(|rate| bit_s(rate, above.rate_bit_s));
            let ceil = node.ceil.map(|ceil| bit_s(ceil, above.ceil_bit_s));
            let entry = NodeRates {
                rate_bit_s: rate.unwrap_or_else(|| limit(above.rate_bit_s)),
                ceil_bit_s: ceil.or(rate).unwrap_or_else(|| limit(above.ceil_bit_s)),
                shape_bit_s: shape,
                share: 1,
            };
            if let Some(place) = all.get_mut(index) {
                *place = entry;
            }
        }
        self.fit_strict(&mut all);
        for node in &self.nodes {
            for child in &node.children {
                let share = self.share(*child, node, &all);
                if let Some(rates) = all.get_mut(*child) {
                    rates.share = share.max(1);
                }
            }
        }
        all
    }

    fn share(&self, index: NodeIndex, parent: &PlanNode, all: &[NodeRates]) -> u64 {
        let own = self.nodes.get(index);
        if let Some(weight) = own.and_then(|own| own.weight) {
            return u64::from(weight);
        }
        let rate = |index: NodeIndex| all.get(index).map_or(0, |rates| rates.rate_bit_s);
        if own.is_some_and(|own| own.rate.is_some()) {
            return rate(index);
        }
        let band = parent.children.iter().filter(|child| {
            let child = self.nodes.get(**child);
            child.map(|it| it.band) == own.map(|it| it.band)
        });
        let has_rate = |child: &&&NodeIndex| {
            let child = self.nodes.get(***child);
            child.is_some_and(|it| it.rate.is_some())
        };
        let (rated, others): (Vec<&NodeIndex>, Vec<_>) = band.partition(|child| has_rate(&child));
        if rated.is_empty() {
            return 1;
        }
        let taken = rated
            .into_iter()
            .fold(0u64, |sum, it| sum.saturating_add(rate(*it)));
        // Its own rate is its parent's. A hundredth of that is left at least.
        let whole = rate(index);
        whole.saturating_sub(taken).max(whole / 100) / others.len().max(1) as u64
    }

    /// Lowers rates that don't fit under their parent where that is promised.
    fn fit_strict(&self, all: &mut [NodeRates]) {
        for index in self.from_the_top() {
            let Some(node) = self.nodes.get(index) else {
                continue;
            };
            if node.discipline != Discipline::HtbStrict {
                continue;
            }
            let Some(parent) = all.get(index).copied() else {
                continue;
            };
            let of = |all: &[NodeRates], child: NodeIndex| {
                all.get(child).map_or(0, |rates| rates.rate_bit_s)
            };
            let sum: u64 = node
                .children
                .iter()
                .fold(0, |sum, child| of(all, *child).saturating_add(sum));
            for child in &node.children {
                let Some(rates) = all.get_mut(*child) else {
                    continue;
                };
                rates.ceil_bit_s = rates.ceil_bit_s.min(parent.ceil_bit_s).max(1);
                if sum > parent.rate_bit_s {
                    let scaled = u128::from(rates.rate_bit_s) * u128::from(parent.rate_bit_s)
                        / u128::from(sum);
                    rates.rate_bit_s = u64::try_from(scaled).unwrap_or(u64::MAX);
                }
                rates.rate_bit_s = rates.rate_bit_s.min(rates.ceil_bit_s).max(1);
            }
        }
    }

    /// The strict ranks on the way from the top to a node: the first in order goes first. Inner
    /// classes of token buckets have none: their leaves borrow by priority across the whole tree.
    #[must_use]
    pub fn rank(&self, node: NodeIndex) -> Vec<u8> {
        let ranked = self
            .up(node)
            .filter(|(_, node)| node.parent.is_some() && !node.within_htb);
        let mut rank: Vec<u8> = ranked.map(|(_, node)| self.rank_in_parent(node)).collect();
        rank.reverse();
        rank
    }

    fn rank_in_parent(&self, node: &PlanNode) -> u8 {
        match node.parent.and_then(|parent| self.nodes.get(parent)) {
            Some(parent) if !parent.discipline.is_htb() => node.band,
            _ if node.direct => 0,
            _ => node.prio + 1,
        }
    }

    /// Whether a class is treated better than another: a better rank, or at the first fork of
    /// their ways a greater share.
    #[must_use]
    pub fn favours(&self, class: ClassId, other: ClassId) -> bool {
        let way = |class: ClassId| -> Vec<&PlanNode> {
            let leaf = self.nodes.iter().position(|node| node.class == Some(class));
            let mut way: Vec<_> = leaf.into_iter().flat_map(|leaf| self.up(leaf)).collect();
            way.reverse();
            way.into_iter().map(|(_, node)| node).collect()
        };
        let (way, other) = (way(class), way(other));
        let fork = way.iter().zip(&other).find(|(a, b)| a.name != b.name);
        fork.is_some_and(|(a, b)| self.rank_and_share(a) < self.rank_and_share(b))
    }

    fn rank_and_share(&self, node: &PlanNode) -> (u8, core::cmp::Reverse<u64>) {
        let fixed = |rate: Rate| match rate {
            Rate::Fixed(bit_s) => bit_s,
            Rate::Share(millionths) => u64::from(millionths),
        };
        let share = node
            .rate
            .map_or_else(|| node.weight.map_or(1, u64::from), fixed);
        (self.rank_in_parent(node), core::cmp::Reverse(share))
    }
}
