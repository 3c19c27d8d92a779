//! A routing protocol that knows the shortest ways, and learns late what has gone or come back.
//!
//! It stands for the one that fills the routing tables of hosts whose gateways follow them
//! (`routing = "kernel"`), and takes nothing of any link.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use strait_channel::Side;
use strait_core::id::{NeighbourId, PortId};
use strait_core::node::RouteChange;
use strait_core::time::Duration;
use strait_node::config::Routing;
use strait_scenario::Loaded;
use strait_scenario::topology::{MemberId, Role, Topology};

/// Where each prefix lies.
type Table = BTreeMap<(IpAddr, u8), (PortId, NeighbourId)>;

/// What changes in whose table, and when.
pub(crate) fn changes(
    loaded: &Loaded,
    topology: &Topology,
) -> Vec<(Duration, MemberId, RouteChange)> {
    let repair = loaded.scenario.routing.as_ref();
    let repair = repair.map_or(Duration::ZERO, |routing| routing.repair.0);
    let cuts: Vec<Vec<(Duration, Duration)>> = loaded
        .links
        .iter()
        .map(|link| known_cuts(link, repair))
        .collect();
    let ends = cuts.iter().flatten().flat_map(|(from, to)| [*from, *to]);
    let times: BTreeSet<Duration> = ends.chain([Duration::ZERO]).collect();
    let mut changes = Vec::new();
    for (id, member) in topology.members.iter().enumerate() {
        let Role::Gateway(gateway) = member.role else {
            continue;
        };
        if loaded.nodes[gateway].config.routing != Routing::Kernel {
            continue;
        }
        let known = |at: Duration| {
            let is_up = |link: usize| {
                let cut = cuts.get(link).into_iter().flatten();
                !cut.clone().any(|(from, to)| (*from..*to).contains(&at))
            };
            table(topology, id, is_up)
        };
        let mut before = Table::new();
        for at in &times {
            let now = known(*at);
            changes.extend(differences(&before, &now).map(|change| (*at, id, change)));
            before = now;
        }
        // The host's table outlives the gateway, whose next life reads it.
        for at in restarts(loaded, &member.name) {
            let now = known(at);
            changes.extend(differences(&Table::new(), &now).map(|change| (at, id, change)));
        }
    }
    changes
}

/// When a gateway starts again.
fn restarts<'a>(loaded: &'a Loaded, name: &'a str) -> impl Iterator<Item = Duration> + use<'a> {
    let faults = loaded.scenario.faults.iter();
    let own = faults.filter(move |fault| fault.node == name);
    own.filter_map(|fault| Some(fault.at.0 + fault.restart_after?.0))
}

/// When everybody knows that a link is away: outages that last longer than it takes to learn of
/// them, and as long after their end.
fn known_cuts(link: &strait_scenario::Link, repair: Duration) -> Vec<(Duration, Duration)> {
    let outages = link.channel.direction(Side::A).outage;
    let long = outages.into_iter().flatten();
    let long = long.filter(|outage| outage.lasts.0 > repair);
    long.map(|outage| {
        let from = outage.at.0 + repair;
        (from, from + outage.lasts.0)
    })
    .collect()
}

/// The shortest ways from a gateway over links that are up to what lies behind others.
fn table(topology: &Topology, from: MemberId, is_up: impl Fn(usize) -> bool) -> Table {
    let mut first: BTreeMap<MemberId, (PortId, NeighbourId)> = BTreeMap::new();
    let mut next = VecDeque::from([from]);
    while let Some(at) = next.pop_front() {
        for (index, link) in topology.links.iter().enumerate() {
            let sides = [(0, 1), (1, 0)].into_iter();
            for (near, far) in sides.filter(|(near, _)| link.ends[*near].member == at) {
                let (end, other) = (link.ends[near], link.ends[far].member);
                if !is_up(index) || other == from || first.contains_key(&other) {
                    continue;
                }
                let own = end.port.map(|port| {
                    let to = end.neighbour.unwrap_or(0);
                    (port, NeighbourId(to as u16))
                });
                let Some(way) = first.get(&at).copied().or(own) else {
                    continue;
                };
                first.insert(other, way);
                next.push_back(other);
            }
        }
    }
    let mut table = Table::new();
    for lan in &topology.lans {
        let Some(way) = first.get(&lan.gateway) else {
            continue;
        };
        let hosts = lan.hosts.iter().map(|host| &topology.members[*host]);
        for prefix in hosts.flat_map(|host| &host.addresses) {
            table.insert((prefix.address, prefix.length), *way);
        }
    }
    table
}

fn differences<'a>(
    before: &'a Table,
    now: &'a Table,
) -> impl Iterator<Item = RouteChange> + use<'a> {
    let gone = before.iter().filter(|(key, _)| !now.contains_key(key));
    let gone = gone.map(|((prefix, length), _)| RouteChange::Remove {
        prefix: *prefix,
        length: *length,
    });
    let new = now.iter().filter(|(key, way)| before.get(key) != Some(way));
    let new = new.map(|((prefix, length), (port, via))| RouteChange::Add {
        prefix: *prefix,
        length: *length,
        port: *port,
        via: *via,
    });
    gone.chain(new)
}
