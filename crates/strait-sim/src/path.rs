//! Packets followed from host to host: where the time of the whole path went.

use std::collections::BTreeMap;

use strait_channel::{LinkConfig, Side};
use strait_core::delay::{DelayPart, DelayParts};
use strait_core::{Fate, FateRecord, Instant};

/// A packet between two nodes: it has left one and not ended its stay in the next.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// The node that it left.
    node: usize,
    /// When its last octet left that node.
    left: Instant,
    /// When its first node had it.
    born: Instant,
    /// Where the time from `born` to `left` went.
    parts: DelayParts,
    /// The class in the first node that has classes.
    class: Option<u8>,
}

/// How long the way between two nodes may take, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Way {
    ns_min: u64,
    ns_max: u64,
}

/// What packets of one class met on their whole path.
#[derive(Clone, Debug, Default)]
pub struct PathTotals {
    /// Packets that reached a host.
    pub packets: u64,
    /// Where their time went.
    pub parts: DelayParts,
    /// Their whole time from host to host, measured apart from the parts.
    pub whole_ns: u64,
}

/// Joins the records of different nodes by the packets' identity.
///
/// A packet that a node took in must have left a neighbour a plausible time before: the link's
/// delay, with jitter and reordering as configured. Anything else was made up or changed on the
/// way, and is counted as unexplained.
#[derive(Debug, Default)]
pub struct PathBook {
    legs: BTreeMap<u64, Vec<Leg>>,
    ways: BTreeMap<(usize, usize), Way>,
    hosts: Vec<usize>,
    duplicates: bool,
    totals: BTreeMap<Option<u8>, PathTotals>,
    unexplained: u64,
}

impl PathBook {
    pub(crate) fn set_host(&mut self, node: usize) {
        self.hosts.push(node);
    }

    pub(crate) fn join(&mut self, nodes: [usize; 2], config: &LinkConfig) {
        for (side, from, to) in [(Side::A, nodes[0], nodes[1]), (Side::B, nodes[1], nodes[0])] {
            let keys = config.direction(side);
            let ns = |time: Option<strait_core::units::Time>| {
                time.map_or(0, |time| time.0.as_nanos() as u64)
            };
            let ns_min = ns(keys.delay);
            // Order is kept behind a jittered frame, so that the wait can add up to the jitter of
            // one frame; a frame held back for reordering adds that.
            let ns_max = ns_min + ns(keys.jitter) + ns(keys.reorder_delay);
            self.ways.insert((from, to), Way { ns_min, ns_max });
            self.duplicates |= keys.duplicate.is_some_and(|share| share.0 > 0.0);
        }
    }

    /// Takes one packet's end in one node.
    pub(crate) fn take(&mut self, node: usize, record: &FateRecord) {
        let host = self.hosts.contains(&node);
        let came = if record.own {
            let parts = DelayParts::default();
            Some(Leg {
                node,
                left: record.began,
                born: record.began,
                parts,
                class: None,
            })
        } else {
            self.arrive(node, record.digest, record.began)
        };
        let Some(mut leg) = came else {
            self.unexplained += 1;
            return;
        };
        leg.parts.merge(&record.parts);
        leg.node = node;
        leg.left = record.ended;
        match record.fate {
            Fate::Delivered if host => self.finish(&leg),
            Fate::Forwarded { .. } | Fate::Delivered => {
                leg.class = leg.class.or_else(|| (!host).then_some(record.class.0));
                self.legs.entry(record.digest).or_default().push(leg);
            }
            Fate::Answered | Fate::Absorbed | Fate::Fragmented | Fate::Dropped(_) => {}
        }
    }

    /// The leg by which a packet came to `node` at `began`, with the way between charged.
    fn arrive(&mut self, node: usize, digest: u64, began: Instant) -> Option<Leg> {
        let legs = self.legs.get_mut(&digest)?;
        let ways = &self.ways;
        let fits = |leg: &Leg| {
            let Some(way) = ways.get(&(leg.node, node)) else {
                return false;
            };
            began >= leg.left
                && (way.ns_min..=way.ns_max).contains(&(began.since(leg.left).as_nanos() as u64))
        };
        let at = legs.iter().position(fits)?;
        // A copy may follow on a link that duplicates; elsewhere each leg is walked once.
        let mut leg = if self.duplicates {
            legs[at]
        } else {
            legs.remove(at)
        };
        if legs.is_empty() {
            self.legs.remove(&digest);
        }
        leg.parts
            .add(DelayPart::Line, began.since(leg.left).as_nanos() as u64);
        Some(leg)
    }

    fn finish(&mut self, leg: &Leg) {
        let whole_ns = leg.left.since(leg.born).as_nanos() as u64;
        assert_eq!(
            leg.parts.total_ns(),
            whole_ns,
            "a packet's delay parts don't add up"
        );
        let totals = self.totals.entry(leg.class).or_default();
        totals.packets += 1;
        totals.parts.merge(&leg.parts);
        totals.whole_ns += whole_ns;
    }

    /// Packets that a node took in and nobody sent: must be none.
    pub const fn unexplained(&self) -> u64 {
        self.unexplained
    }

    /// Packets that left one node and never came to the next: lost on the way, or on it still.
    pub fn between(&self) -> u64 {
        self.legs.values().map(|legs| legs.len() as u64).sum()
    }

    /// By class of the first gateway, or `None` for packets that met none.
    pub const fn totals(&self) -> &BTreeMap<Option<u8>, PathTotals> {
        &self.totals
    }
}
