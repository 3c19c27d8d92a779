//! The part `hbh-pressure` of the study `hbh`: where packets wait, and where they are dropped, when
//! a link in the middle of a path is slow.

use std::collections::BTreeMap;

use strait_core::stats::{Drops, Stats};
use strait_core::{DropCause, Duration, Instant};
use strait_scenario::Loaded;

use crate::build::{BuildError, build};
use crate::run::{Run, collect};

/// A run, and what was seen on the way.
#[derive(Clone, Debug)]
pub(super) struct Pressed {
    /// The run.
    pub(super) run: Run,
    /// Packets dropped by gateways with hosts that send, before they entered the path.
    pub(super) dropped_before: u64,
    /// Packets dropped by all others, but for those of the next number.
    pub(super) dropped_inside: u64,
    /// Packets that others gave up as too old.
    pub(super) aged_inside: u64,
    /// The most octets that a gateway without hosts held at once.
    pub(super) held_octets_max: u64,
}

/// How often it is looked at who holds what.
const LOOK: Duration = Duration::from_millis(20);

/// Runs one variant of a scenario.
///
/// # Errors
/// Why the scenario can't be built.
pub(super) fn run(loaded: &Loaded, variant: &str, seed: u64) -> Result<Pressed, BuildError> {
    let mut built = build(loaded, variant, seed)?;
    let end = Instant::ZERO + loaded.scenario.duration.0;
    let hosts = &loaded.scenario.hosts;
    let is_relay = |name: &str| {
        hosts
            .iter()
            .all(|host| host.behind.as_deref() != Some(name))
    };
    let mut held_octets_max = 0;
    while built.world().now() < end {
        let next = (built.world().now() + LOOK).min(end);
        built.world_mut().run_until(next);
        let relays = built.world().stats().filter(|(name, _)| is_relay(name));
        held_octets_max = relays
            .map(|(_, stats)| held_octets(stats))
            .fold(held_octets_max, u64::max);
    }
    built.world().check();
    let dropped = |(name, stats): (&str, &Stats)| (name.to_owned(), stats.dropped);
    let dropped: BTreeMap<String, Drops> = built.world().stats().map(dropped).collect();
    let sends = |name: &String| {
        let mut traffic = loaded.scenario.traffic.iter();
        let behind = |host: &String| {
            let entry = hosts.iter().find(|entry| entry.name == *host);
            entry.is_some_and(|entry| entry.behind.as_ref() == Some(name))
        };
        traffic.any(|traffic| behind(&traffic.from))
    };
    let sum = |ingress: bool, of: fn(&Drops) -> u64| {
        let those = dropped.iter().filter(|(name, _)| sends(name) == ingress);
        those.map(|(_, dropped)| of(dropped)).sum::<u64>()
    };
    let aged_inside = sum(false, |dropped| dropped.by(DropCause::Aged));
    Ok(Pressed {
        dropped_before: sum(true, Drops::total),
        dropped_inside: sum(false, Drops::total) - aged_inside,
        aged_inside,
        held_octets_max,
        run: collect(loaded, variant, seed, &mut built, Vec::new()),
    })
}

/// Octets that wait, aren't acknowledged or aren't in order.
fn held_octets(stats: &Stats) -> u64 {
    let queued = stats.classes.iter().map(|class| class.queued_octets);
    let hops = stats.ports.iter().map(|port| &port.hop);
    let hops = hops.map(|hop| hop.window_octets + hop.order_octets);
    queued.sum::<u64>() + hops.sum::<u64>()
}
