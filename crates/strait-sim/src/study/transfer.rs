//! One transfer by TCP over links in a row.

use std::collections::BTreeMap;
use std::ops::Range;

use strait_channel::{ChannelStats, LinkConfig, Side};
use strait_core::hash::RunHash;
use strait_core::stats::HopStats;
use strait_core::units::Octets;
use strait_core::{Duration, Instant, NeighbourId, PortId};
use strait_hosts::{Host, HostConfig};
use strait_node::config::{LinkProfile, PortConfig, RouteConfig};
use strait_node::config_text::ConfigError;
use strait_node::{GatewayFactory, NodeConfig, Prefix};
use strait_qos::PolicyConfig;
use strait_tcp::TcpCounters;
use strait_tcp::profile::Profile;
use strait_traffic::{FlowLog, Ports, Side as End, TrafficConfig, Transfer};

use super::Asked;
use crate::build::{BuildError, lan};
use crate::parallel::parallel;
use crate::router::Router;
use crate::world::{Attach, NodeIndex, World};

/// Octets before a segment's payload: IPv4, TCP, timestamps.
pub(super) const HEADERS: u64 = 20 + 20 + 12;

/// Octets of payload that an endpoint puts into a segment for a link.
pub(super) fn segment_octets(endpoint: &str, link: &LinkConfig) -> u64 {
    let own = Profile::named(endpoint).and_then(|profile| profile.segment_octets);
    let frame = link.frame_octets_max;
    let frame = u64::from(frame.unwrap_or(LinkConfig::FRAME_OCTETS_MAX));
    own.map_or_else(|| frame.saturating_sub(HEADERS).max(1), u64::from)
}

/// A transfer from the first to the last node of a row, once for each seed.
///
/// Between any two links stands a plain router. Hosts and routers hold as many packets before a
/// link as it says with `queue`. Or a gateway stands at each end of each link, and the hosts are
/// on a LAN behind the first and the last of them. The links are called `link0`, `link1` and so on.
#[derive(Clone, Debug)]
pub struct Case {
    /// How each link is.
    pub link: LinkConfig,
    /// How many there are.
    pub links: usize,
    /// Profile of both endpoints.
    pub endpoint: String,
    /// Octets of the file.
    pub octets: u64,
    /// Octets of the endpoints' buffers; the profile's if absent.
    pub buffer: Option<Octets>,
    /// When it begins.
    pub start: Duration,
    /// What hasn't come so long after that doesn't count as having come.
    pub limit: Duration,
    /// How closely the end is waited for: packets that leave meanwhile count as well.
    pub step: Duration,
    /// Seeds of the runs.
    pub seeds: Range<u64>,
    /// Gateways in place of routers.
    pub gateways: Option<Gateways>,
}

/// What gateways there are.
#[derive(Clone, Debug)]
pub struct Gateways {
    /// How they attach to a link; the name is replaced.
    pub port: PortConfig,
    /// What their ports go by.
    pub policy: PolicyConfig,
}

/// How a transfer went.
#[derive(Clone, Debug)]
pub struct Ended {
    /// From the request for a connection to the last octet, in s; `None` if it didn't come in
    /// time.
    pub time_s: Option<f64>,
    /// Packets, or frames of gateways, on all links until then.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// What gateways' repairs cost, all together.
    pub hop: HopStats,
    /// Packets that gateways dropped.
    pub dropped: u64,
    /// What the sending host counted until then.
    pub tcp: TcpCounters,
    /// Octets that came and were wrong.
    pub wrong_octets: u64,
    /// Packets without a fate: a bug unless 0.
    pub unexplained: u64,
    /// The run hash.
    pub hash: u64,
    /// What every port sent, by file name, if asked for.
    pub captures: BTreeMap<String, Vec<u8>>,
}

const LEFT: [u8; 4] = [10, 0, 0, 1];
const RIGHT: [u8; 4] = [10, 0, 9, 1];
/// A usual [`Case::step`].
pub const STEP: Duration = Duration::from_millis(20);

/// Runs every seed of every case, in parallel; `done` hears of each run that ended. With `capture`,
/// the first run of each case records what every port sends.
///
/// # Errors
/// A link or an endpoint can't be built.
pub fn run(
    cases: &[Case],
    capture: bool,
    done: impl Fn() + Sync,
) -> Result<Vec<Vec<Ended>>, BuildError> {
    let all = cases.iter().enumerate();
    let jobs = all.flat_map(|(index, case)| case.seeds.clone().map(move |seed| (index, seed)));
    let jobs: Vec<(usize, u64)> = jobs.collect();
    let runs = parallel(&jobs, None, |(index, seed)| {
        let case = &cases[*index];
        let ended = run_once(case, *seed, capture && *seed == case.seeds.start);
        done();
        ended
    });
    let mut results = vec![Vec::new(); cases.len()];
    for ((index, _), ended) in jobs.iter().zip(runs) {
        results[*index].push(ended?);
    }
    Ok(results)
}

/// The same cases, with the seeds that are asked for.
pub(super) fn of_seeds(asked: &Asked<'_>, cases: Vec<Case>) -> Vec<Case> {
    let seeds = |case: &Case| asked.seed(case.seeds.start)..asked.seed(case.seeds.end);
    let own = cases.into_iter();
    own.map(|case| Case {
        seeds: seeds(&case),
        ..case
    })
    .collect()
}

/// How many runs they have.
pub(super) fn count<'a>(cases: impl IntoIterator<Item = &'a Case>) -> u64 {
    let runs = cases.into_iter();
    let runs = runs.map(|case| case.seeds.end.saturating_sub(case.seeds.start));
    runs.fold(0, u64::saturating_add)
}

/// Hash over the hashes of all runs.
pub fn hash(results: &[Vec<Ended>]) -> u64 {
    let mut hash = RunHash::default();
    let runs = results.iter().flatten();
    runs.for_each(|run| hash.fold(run.hash));
    hash.value()
}

fn run_once(case: &Case, seed: u64, capture: bool) -> Result<Ended, BuildError> {
    let mut world = World::new(seed);
    world.trace_paths();
    let [left, right] = build(case, seed, &mut world)?;
    if capture {
        world.capture();
    }
    world.start();
    let end = Instant::ZERO + case.start + case.limit;
    while world.now() < end {
        world.run_until((world.now() + case.step).min(end));
        if transfer(&world, right, End::To).is_some_and(|far| far.finished_ns.is_some())
            || transfer(&world, left, End::From).is_some_and(|near| near.error.is_some())
        {
            break;
        }
    }
    world.check();
    let near = transfer(&world, left, End::From);
    let far = transfer(&world, right, End::To);
    let started_ns = near.and_then(|near| near.started_ns);
    let finished_ns = far.and_then(|far| far.finished_ns);
    Ok(Ended {
        time_s: started_ns
            .zip(finished_ns)
            .map(|(started_ns, finished_ns)| (finished_ns - started_ns) as f64 / 1e9),
        packets: sent(&world, |way| way.frames),
        octets: sent(&world, |way| way.octets),
        hop: repairs(&world),
        dropped: world.stats().map(|(_, stats)| stats.dropped.total()).sum(),
        tcp: world.host(left).map(Host::tcp_totals).unwrap_or_default(),
        wrong_octets: far.map_or(0, |far| far.wrong_octets),
        unexplained: world.unexplained(),
        hash: world.hash(),
        captures: world.take_captures(),
    })
}

/// What was sent on all links, those to hosts on a LAN not counted.
fn sent(world: &World, part: impl Fn(&ChannelStats) -> u64) -> u64 {
    let links = world.links().filter(|(name, _)| name.starts_with("link"));
    links.flat_map(|(_, sides)| sides).map(part).sum()
}

fn repairs(world: &World) -> HopStats {
    let mut sum = HopStats::default();
    let ports = world.stats().flat_map(|(_, stats)| &stats.ports);
    for hop in ports.map(|port| port.hop) {
        sum.repeated += hop.repeated;
        sum.needless += hop.needless;
        sum.copied += hop.copied;
        sum.parities += hop.parities;
        sum.restored += hop.restored;
        sum.control += hop.control;
        sum.duplicates += hop.duplicates;
        sum.refused += hop.refused;
        sum.impatient += hop.impatient;
    }
    sum
}

fn build(case: &Case, seed: u64, world: &mut World) -> Result<[NodeIndex; 2], BuildError> {
    let ends = match &case.gateways {
        None => build_routers(case, seed, world)?,
        Some(gateways) => build_gateways(case, gateways, seed, world)?,
    };
    let config = traffic_config(case)?;
    if let Some((near, far)) = world.hosts_mut(ends[0], ends[1]) {
        let (from, to) = (LEFT.into(), RIGHT.into());
        strait_hosts::install(&config, near, far, from, to, Ports::nth(0), seed)?;
    }
    Ok(ends)
}

/// Gateways in a row, a host behind either end.
fn build_gateways(
    case: &Case,
    gateways: &Gateways,
    seed: u64,
    world: &mut World,
) -> Result<[NodeIndex; 2], BuildError> {
    let host =
        |name, address: [u8; 4]| Host::new(&HostConfig::new(name, vec![address.into()], seed));
    let left = world.add_host(host("left", LEFT));
    let mut row = Vec::new();
    for number in 0..=case.links {
        let name = format!("g{number}");
        let config = gateways.node(&name, number, case.links)?;
        let factory = GatewayFactory::new(config)
            .map_err(|error| ConfigError::of_file("port, policy", error.to_string()))?;
        let node = world.add_node(&name, Box::new(factory));
        world.reserve_ports(node, 1);
        row.push(node);
    }
    let right = world.add_host(host("right", RIGHT));
    for (name, gateway, host) in [("lan0", row[0], left), ("lan1", row[case.links], right)] {
        let ends = [(gateway, PortId::HOST), (host, PortId(0))];
        join(world, name, &lan(), ends)?;
    }
    for (number, pair) in row.windows(2).enumerate() {
        let ports = pair.iter().map(|node| (*node, world.next_port(*node)));
        let ends: Vec<(NodeIndex, PortId)> = ports.collect();
        join(
            world,
            &format!("link{number}"),
            &case.link,
            [ends[0], ends[1]],
        )?;
        for (node, port) in ends {
            if gateways.port.profile == LinkProfile::Hbh {
                world.set_repeats(node, port);
            }
        }
    }
    Ok([left, right])
}

fn join(
    world: &mut World,
    name: &str,
    link: &LinkConfig,
    ends: [(NodeIndex, PortId); 2],
) -> Result<(), BuildError> {
    let ends = ends.map(|(node, port)| Attach {
        node,
        port,
        neighbour: NeighbourId::PEER,
    });
    let joined = world.join_at(name, link, ends);
    joined.map(drop).map_err(|error| BuildError::Link {
        name: name.into(),
        error,
    })
}

impl Gateways {
    /// The gateway with this number of those in a row of so many links.
    fn node(&self, name: &str, number: usize, links: usize) -> Result<NodeConfig, ConfigError> {
        let port = |name: &str| {
            let mut port = self.port.clone();
            port.name = name.into();
            port
        };
        let route = |address: [u8; 4], port: &str| RouteConfig {
            prefix: Prefix {
                address: address.into(),
                length: 24,
            },
            port: port.into(),
            via: None,
            hops: None,
        };
        let (first, last) = (number == 0, number == links);
        let ports = [(!first, "left"), (!last, "right")];
        let ports = ports.into_iter().filter(|(there, _)| *there);
        let plain = NodeConfig::from_text(name, &format!("name = {name:?}\n[host]"))?;
        Ok(NodeConfig {
            ports: ports.map(|(_, name)| port(name)).collect(),
            routes: vec![
                route(LEFT, if first { "host" } else { "left" }),
                route(RIGHT, if last { "host" } else { "right" }),
            ],
            policy: self.policy.clone(),
            ..plain
        })
    }
}

fn build_routers(case: &Case, seed: u64, world: &mut World) -> Result<[NodeIndex; 2], BuildError> {
    let host = |name: &str, address: [u8; 4], sends: Side| {
        Host::new(&HostConfig {
            queue_packets: case.link.queue_frames(sends),
            ..HostConfig::new(name, vec![address.into()], seed)
        })
    };
    let left = world.add_host(host("left", LEFT, Side::A));
    let mut row = vec![left];
    for number in 1..case.links {
        row.push(world.add_router(&format!("r{number}"), router(&case.link)));
    }
    let right = world.add_host(host("right", RIGHT, Side::B));
    row.push(right);
    for (number, pair) in row.windows(2).enumerate() {
        let name = format!("link{number}");
        let joined = world.join(&name, &case.link, pair[0], pair[1]);
        joined.map_err(|error| BuildError::Link { name, error })?;
    }
    Ok([left, right])
}

fn router(link: &LinkConfig) -> Router {
    let mut router = Router::new(["left", "right"], link.queue_frames(Side::A));
    for (port, address) in [LEFT, RIGHT].into_iter().enumerate() {
        if let Some(prefix) = Prefix::new(address.into(), 24) {
            router.add_route(prefix, PortId(port as u8));
        }
    }
    router
}

fn traffic_config(case: &Case) -> Result<TrafficConfig, BuildError> {
    let mut text = format!(
        "name = \"file\"\nkind = \"tcp\"\nfrom = \"left\"\nto = \"right\"\nfamily = 4\n\
         octets = {}\nendpoint = {:?}\nstart = \"{} ns\"\n",
        case.octets,
        case.endpoint,
        case.start.as_nanos()
    );
    if let Some(buffer) = case.buffer {
        text += &format!("buffer = {}\n", buffer.0);
    }
    Ok(strait_scenario::traffic_of(&text)?)
}

fn transfer(world: &World, node: NodeIndex, side: End) -> Option<&Transfer> {
    let mut logs = world.host(node).into_iter().flat_map(Host::logs);
    let log: Option<&FlowLog> = logs.find(|log| log.side == side);
    log?.transfer.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case {
            link: LinkConfig::frames(300_000, Duration::from_millis(50)),
            links: 2,
            endpoint: "linux-cubic".into(),
            octets: 20_000,
            buffer: None,
            start: Duration::ZERO,
            limit: Duration::from_secs(60),
            step: STEP,
            seeds: 1..4,
            gateways: None,
        }
    }

    #[test]
    fn every_seed_of_every_case_has_a_result_that_repeats() {
        let mut lossy = case();
        lossy.link.loss = Some(strait_core::units::Share(0.05));
        let cases = [case(), lossy];
        let results = run(&cases, false, || {}).unwrap();
        assert_eq!(results.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3]);
        let [clean, lossy] = &results[..] else {
            panic!("two cases");
        };
        // Two links each way for the handshake, two for the last octet, and the octets' own time.
        let least_s = 0.3 + 20_000.0 * 8.0 / 300_000.0;
        for ended in clean.iter().chain(lossy) {
            assert!(ended.time_s.unwrap() > least_s);
            assert_eq!((ended.wrong_octets, ended.unexplained), (0, 0));
            assert_eq!(ended.tcp.octets_acked.min(20_000), ended.tcp.octets_acked);
            assert!(ended.captures.is_empty());
        }
        assert!(clean.iter().all(|ended| ended.tcp.retransmissions == 0));
        assert!(lossy.iter().any(|ended| ended.tcp.retransmissions > 0));
        let again = run(&cases, false, || {}).unwrap();
        assert_eq!(hash(&again), hash(&results));
    }

    #[test]
    fn what_takes_too_long_has_no_time() {
        let mut short = case();
        short.limit = Duration::from_millis(300);
        let results = run(&[short], true, || {}).unwrap();
        assert!(results[0].iter().all(|ended| ended.time_s.is_none()));
        assert!(!results[0][0].captures.is_empty() && results[0][1].captures.is_empty());
    }

    #[test]
    fn an_endpoint_that_nobody_knows_is_an_error() {
        let mut wrong = case();
        wrong.endpoint = "tahoe".into();
        let error = run(&[wrong], false, || {}).unwrap_err();
        assert!(error.to_string().contains("endpoint"), "{error}");
    }
}
