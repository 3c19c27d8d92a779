//! One transfer by TCP over links in a row.

use std::collections::BTreeMap;
use std::ops::Range;

use strait_channel::{LinkConfig, Side};
use strait_core::hash::RunHash;
use strait_core::units::Octets;
use strait_core::{Duration, Instant, PortId};
use strait_node::{Prefix, config_text};
use strait_world::host::{Host, HostConfig};
use strait_world::tcp::TcpCounters;
use strait_world::traffic::{self, FlowLog, Ports, Side as End, TrafficConfig, Transfer};

use crate::build::BuildError;
use crate::parallel::parallel;
use crate::router::Router;
use crate::world::{NodeIndex, World};

/// A transfer from the first to the last node of a row, once for each seed.
///
/// Between any two links stands a plain router. Hosts and routers hold as many packets before a
/// link as it says with `queue`. The links are called `link0`, `link1` and so on.
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
    /// Seeds of the runs.
    pub seeds: Range<u64>,
}

/// How a transfer went.
#[derive(Clone, Debug)]
pub struct Ended {
    /// From the request for a connection to the last octet, in s; `None` if it didn't come in
    /// time.
    pub time_s: Option<f64>,
    /// Packets on all links until then.
    pub packets: u64,
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
/// How closely the end is waited for: packets that leave meanwhile count as well.
const STEP: Duration = Duration::from_millis(20);

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
        world.run_until((world.now() + STEP).min(end));
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
        packets: world.hops(),
        tcp: world.host(left).map(Host::tcp_totals).unwrap_or_default(),
        wrong_octets: far.map_or(0, |far| far.wrong_octets),
        unexplained: world.paths().map_or(0, |paths| paths.unexplained()),
        hash: world.hash(),
        captures: world.take_captures(),
    })
}

fn build(case: &Case, seed: u64, world: &mut World) -> Result<[NodeIndex; 2], BuildError> {
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
    let config = traffic_config(case)?;
    if let Some((near, far)) = world.hosts_mut(left, right) {
        let (from, to) = (LEFT.into(), RIGHT.into());
        traffic::install(&config, near, far, from, to, Ports::nth(0), seed)?;
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
    Ok(config_text::parse("traffic", &text)?)
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
            seeds: 1..4,
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
