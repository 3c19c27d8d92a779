//! What can be read off a world: the present and counters.

use strait_channel::{ChannelStats, LinkConfig, Side};
use strait_core::Instant;
use strait_core::stats::Stats;
use strait_hosts::Host;
use strait_status::Snapshot;

use super::{Attach, Body, LinkIndex, NodeIndex, World};
use crate::check::FateEntry;
use crate::path::PathBook;

impl World {
    /// The present.
    pub const fn now(&self) -> Instant {
        self.fabric.now
    }

    /// The hash over everything that happened so far.
    pub const fn hash(&self) -> u64 {
        self.fabric.hash.value()
    }

    /// Packets that went over a link so far, once for each link.
    pub const fn hops(&self) -> u64 {
        self.fabric.hops
    }

    /// Events so far.
    pub const fn events(&self) -> u64 {
        self.fabric.events.popped()
    }

    /// A host, to install applications or read what they measured.
    pub fn host(&self, index: NodeIndex) -> Option<&Host> {
        match &self.slots[index.0].body {
            Body::Host(host) => Some(host),
            _ => None,
        }
    }

    /// A host, to install an application.
    pub fn host_mut(&mut self, index: NodeIndex) -> Option<&mut Host> {
        match &mut self.slots[index.0].body {
            Body::Host(host) => Some(host),
            _ => None,
        }
    }

    /// Two different hosts, to install an application that spans both.
    pub fn hosts_mut(&mut self, a: NodeIndex, b: NodeIndex) -> Option<(&mut Host, &mut Host)> {
        let [a, b] = self.slots.get_disjoint_mut([a.0, b.0]).ok()?;
        match (&mut a.body, &mut b.body) {
            (Body::Host(a), Body::Host(b)) => Some((a, b)),
            _ => None,
        }
    }

    /// Every node's name and counters of its present incarnation.
    pub fn stats(&self) -> impl Iterator<Item = (&str, &Stats)> {
        self.slots
            .iter()
            .filter_map(|slot| Some((slot.name.as_str(), slot.body.node()?.stats())))
    }

    /// What every node says of itself, as a live one does.
    pub fn snapshots(&self) -> impl Iterator<Item = Snapshot> {
        self.slots.iter().filter_map(|slot| {
            let node = slot.body.node()?;
            Some(Snapshot::new(
                &slot.name,
                self.now(),
                node.stats(),
                &node.flows(),
            ))
        })
    }

    /// A node's counters, its dead incarnations first, and the packets they held when killed.
    pub fn lives(&self, index: NodeIndex) -> (Vec<&Stats>, u64) {
        let slot = &self.slots[index.0];
        let present = slot.body.node().map(|node| node.stats());
        (slot.past.iter().chain(present).collect(), slot.crashed)
    }

    /// Every link's name and what became of what its two sides sent.
    pub fn links(&self) -> impl Iterator<Item = (&str, [&ChannelStats; 2])> {
        self.fabric.links.iter().map(|link| {
            let medium = &self.fabric.media[link.medium].medium;
            let stats = |side| medium.stats(link.path, side);
            (link.name.as_str(), Side::BOTH.map(stats))
        })
    }

    /// Ends and configuration of a link.
    pub fn link(&self, index: LinkIndex) -> ([Attach; 2], &LinkConfig) {
        let link = &self.fabric.links[index.0];
        (link.ends, &link.config)
    }

    /// From now on no medium damages, loses, doubles or delays anything by chance.
    pub fn heal(&mut self) {
        for shared in &mut self.fabric.media {
            shared.medium.heal();
        }
    }

    /// Every fate since [`World::keep_fates`], in the order in which the nodes told them.
    pub fn fates(&self) -> &[FateEntry] {
        self.fabric.fates.as_deref().unwrap_or_default()
    }

    /// Whether a node runs now.
    pub fn is_alive(&self, index: NodeIndex) -> bool {
        self.slots[index.0].body.node().is_some()
    }

    /// Names of all nodes, in the order of their numbers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| slot.name.as_str())
    }

    /// Frames, or chunks of octets, that have left a node and not arrived yet.
    pub fn in_flight(&self) -> usize {
        let media = self.fabric.media.iter();
        let under_way = media.map(|shared| shared.medium.under_way());
        self.fabric.flight.frames() + under_way.sum::<usize>()
    }

    /// Frames that came to a node while it was dead.
    pub const fn missed(&self) -> u64 {
        self.fabric.missed
    }

    /// What [`World::trace_paths`] found.
    pub const fn paths(&self) -> Option<&PathBook> {
        self.fabric.paths.as_ref()
    }

    /// Asserts every node's invariants.
    pub fn check(&self) {
        self.slots
            .iter()
            .filter_map(|slot| slot.body.node())
            .for_each(|node| node.check());
    }
}

/// What was put into a node's mailboxes, and when.
pub fn delivered(world: &World, node: NodeIndex) -> &[(Instant, Vec<u8>)] {
    world.slots[node.0].workshop.delivered()
}
