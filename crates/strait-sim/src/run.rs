//! A scenario run in virtual time: every variant, every seed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use strait_core::Instant;
use strait_core::hash::RunHash;
use strait_core::stats::{ClassStats, Stats};
use strait_core::time::Duration;
use strait_hosts::Host;
use strait_report::Series;
use strait_report::table::Check;
use strait_scenario::topology::Role;
use strait_scenario::{Loaded, Scenario, World as Place, local_metrics};
use strait_status::why::{History, SPAN_S, STEP_S, Why, together, why};
use strait_status::{Port, Snapshot};
use strait_traffic::{FlowLog, FlowReport, Ports, Side, Traffic, TrafficConfig};

use crate::build::{BuildError, Built, build};
use crate::parallel::parallel;
use crate::world::{World, delivered};

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Seed of the first run; the scenario's if absent.
    pub seed: Option<u64>,
    /// Runs with consecutive seeds; the scenario's if absent.
    pub runs: Option<u64>,
    /// Record what every port sends, and MGEN's logs, in the first run of each variant.
    pub capture: bool,
    /// Keep what every node says of itself on the way, in the first run of each variant.
    pub record: bool,
    /// Threads; as many as the machine has if absent.
    pub threads: Option<usize>,
}

/// One run of one variant.
#[derive(Clone, Debug)]
pub struct Run {
    /// The variant's name.
    pub variant: String,
    /// The seed.
    pub seed: u64,
    /// Hash over everything that happened.
    pub hash: u64,
    /// What each traffic experienced, in the scenario's order.
    pub flows: Vec<FlowReport>,
    /// Metrics by name, `TRAFFIC.METRIC` or `LINK.use`.
    pub metrics: BTreeMap<String, f64>,
    /// Where the time of each class's packets went, from host to host.
    pub delays: Vec<ClassStats>,
    /// Plots: queues and line use over time.
    pub series: Vec<Series>,
    /// What every node says of itself at the end.
    pub nodes: Vec<Snapshot>,
    /// The same on the way, the earliest first, with why it was slow, where that is recorded.
    pub moments: Vec<Vec<(Snapshot, Why)>>,
    /// Packets that a node took in and nobody had sent: a bug unless 0.
    pub unexplained: u64,
    /// Packets over links.
    pub hops: u64,
    /// Events.
    pub events: u64,
    /// Captures by file name.
    pub captures: BTreeMap<String, Vec<u8>>,
    /// MGEN's logs by file name.
    pub mgen_logs: BTreeMap<String, String>,
}

/// Time between two samples of queues and line use.
const SAMPLE: Duration = Duration::from_millis(500);

/// Moments of a run that are recorded: as many as a slider can tell apart.
const MOMENTS: u32 = 120;

/// Runs one variant with one seed.
///
/// # Errors
/// Why the scenario can't be built.
pub fn run_once(
    loaded: &Loaded,
    variant: &str,
    seed: u64,
    capture: bool,
) -> Result<Run, BuildError> {
    run_recorded(loaded, variant, seed, [capture, false])
}

/// The same; `record` keeps what nodes say of themselves on the way.
fn run_recorded(
    loaded: &Loaded,
    variant: &str,
    seed: u64,
    [capture, record]: [bool; 2],
) -> Result<Run, BuildError> {
    let mut built = build(loaded, variant, seed)?;
    if capture {
        built.world.capture();
    }
    let mut moments = Vec::new();
    let mut past = Past::default();
    let series = sample(
        loaded,
        variant,
        &mut built,
        |world, [is_moment, is_step]| {
            if record && is_moment {
                let judged = world.snapshots().map(|it| {
                    let why = why(&past.until(&it));
                    (it, why)
                });
                moments.push(judged.collect());
            }
            if record && is_step {
                world.snapshots().for_each(|it| past.note(it));
            }
        },
    );
    built.world.check();
    let mut run = collect(loaded, variant, seed, &mut built, series);
    run.moments = moments;
    if capture {
        run.mgen_logs = mgen_logs(seed, &built);
    }
    Ok(run)
}

/// The same for its metrics alone: without plots and captures.
///
/// # Errors
/// Why the scenario can't be built.
pub fn run_plain(loaded: &Loaded, variant: &str, seed: u64) -> Result<Run, BuildError> {
    let mut built = build(loaded, variant, seed)?;
    let end = Instant::ZERO + loaded.scenario.duration.0;
    built.world.run_until(end);
    built.world.check();
    Ok(collect(loaded, variant, seed, &mut built, Vec::new()))
}

/// The latest snapshots of nodes, as running ones keep them.
#[derive(Debug, Default)]
struct Past(BTreeMap<String, History>);

impl Past {
    fn note(&mut self, snapshot: Snapshot) {
        let node = self.0.entry(snapshot.node.clone()).or_default();
        node.note(snapshot);
    }

    fn until(&mut self, now: &Snapshot) -> Vec<Snapshot> {
        self.0.entry(now.node.clone()).or_default().until(now)
    }
}

/// Runs one variant until `until`, and gives what each gateway said of itself on the way: the
/// latest snapshots, as a running one keeps them. One that is dead by then says nothing.
///
/// # Errors
/// Why the scenario can't be built.
pub fn run_watched(
    loaded: &Loaded,
    variant: &str,
    seed: u64,
    until: Instant,
) -> Result<Vec<Vec<Snapshot>>, BuildError> {
    let mut built = build(loaded, variant, seed)?;
    let mut past = Past::default();
    let step = Duration::from_secs_f64(STEP_S);
    let mut at = until
        .since(Instant::ZERO)
        .saturating_sub(Duration::from_secs_f64(SPAN_S));
    while Instant::ZERO + at < until {
        built.world.run_until(Instant::ZERO + at);
        built.world.snapshots().for_each(|it| past.note(it));
        at += step;
    }
    built.world.run_until(until);
    built.world.check();
    let last = gateways(loaded, &built.world);
    Ok(last.map(|it| past.until(&it)).collect())
}

/// Runs one variant whole, and gives what is said of its gateways at the first moment at which
/// anything is, or at the end, and how often anything is.
///
/// # Errors
/// Why the scenario can't be built.
pub(crate) fn run_judged(
    loaded: &Loaded,
    variant: &str,
    seed: u64,
) -> Result<(Vec<Why>, u32), BuildError> {
    let mut past = Past::default();
    let (mut first, mut last, mut alarms) = (None, Vec::new(), 0);
    let step = Duration::from_secs_f64(STEP_S);
    run_told(loaded, (variant, seed), step, |snapshots| {
        let pasts: Vec<_> = snapshots.iter().map(|it| past.until(it)).collect();
        snapshots.into_iter().for_each(|it| past.note(it));
        last = together(&pasts);
        if last.iter().any(|it| !it.is_well()) {
            alarms += 1;
            first.get_or_insert_with(|| last.clone());
        }
        true
    })?;
    Ok((first.unwrap_or(last), alarms))
}

/// Runs one variant, and tells after each `step` what every gateway says of itself, until nobody
/// wants to hear more.
///
/// # Errors
/// Why the scenario can't be built.
pub fn run_told(
    loaded: &Loaded,
    (variant, seed): (&str, u64),
    step: Duration,
    mut told: impl FnMut(Vec<Snapshot>) -> bool,
) -> Result<(), BuildError> {
    let mut built = build(loaded, variant, seed)?;
    let end = loaded.scenario.duration.0;
    let mut at = Duration::ZERO;
    while at < end {
        at = (at + step).min(end);
        built.world.run_until(Instant::ZERO + at);
        if !told(gateways(loaded, &built.world).collect()) {
            return Ok(());
        }
    }
    built.world.check();
    Ok(())
}

/// What gateways that live say of themselves.
fn gateways(loaded: &Loaded, world: &World) -> impl Iterator<Item = Snapshot> {
    let own = |it: &Snapshot| loaded.nodes.iter().any(|node| node.name == it.node);
    world.snapshots().filter(own)
}

/// The same for each of some seeds, several at a time.
///
/// # Errors
/// Why the scenario can't be built.
pub fn run_each(loaded: &Loaded, variant: &str, seeds: &[u64]) -> Result<Vec<Run>, BuildError> {
    let runs = parallel(seeds, None, |seed| run_plain(loaded, variant, *seed));
    runs.into_iter().collect()
}

/// MGEN's logs of a run that has ended: `TRAFFIC.from.drc` and `TRAFFIC.to.drc` of each script.
fn mgen_logs(seed: u64, built: &Built) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for (index, config) in built.traffic.iter().enumerate() {
        let Traffic::Mgen(mgen) = &config.what else {
            continue;
        };
        let member = built.topology.find(&config.from);
        let prefixes = member.map(|member| &built.topology.members[member].addresses);
        let addresses: Vec<_> = prefixes.into_iter().flatten().map(|p| p.address).collect();
        let begins_ns = config.begins(seed).as_nanos() as u64;
        let first_port = Ports::nth(index as u16).from;
        let [from, to] = logs(config, built);
        let written =
            strait_traffic::text_logs(mgen, (begins_ns, first_port), &addresses, &from, &to);
        for (end, text) in ["from", "to"].into_iter().zip(written) {
            texts.insert(format!("{}.{end}.drc", config.name), text);
        }
    }
    texts
}

/// Runs to the end, looking at queues and lines on the way, and now and then at all of it. Looking
/// changes nothing.
fn sample(
    loaded: &Loaded,
    variant: &str,
    built: &mut Built,
    mut look: impl FnMut(&World, [bool; 2]),
) -> Vec<Series> {
    let end = Instant::ZERO + loaded.scenario.duration.0;
    let line = |chart: String, unit: &str| Series {
        chart,
        name: variant.to_owned(),
        unit: unit.to_owned(),
        held: true,
        points: Vec::new(),
    };
    // What has no medium of its own uses none.
    let own = || loaded.links.iter().filter(|link| !link.is_carried());
    let links = own().count();
    let mut busy = vec![[0u64; 2]; links];
    let mut uses: Vec<Series> = Vec::new();
    for link in own() {
        let ends = link.ends.each_ref().map(|end| end.node.as_str());
        uses.push(line(
            format!("use of {}, {} to {}", link.name, ends[0], ends[1]),
            "",
        ));
        uses.push(line(
            format!("use of {}, {} to {}", link.name, ends[1], ends[0]),
            "",
        ));
    }
    let mut queues: Vec<Series> = loaded
        .nodes
        .iter()
        .map(|node| line(format!("queue of {}", node.name), "octets"))
        .collect();
    let pause = (loaded.scenario.duration.0 / MOMENTS).max(SAMPLE);
    let [step, span] = [STEP_S, SPAN_S].map(Duration::from_secs_f64);
    let (mut look_at, mut note_at) = (Instant::ZERO, Instant::ZERO);
    let mut at = Instant::ZERO;
    while at < end {
        let next = (at + SAMPLE).min(end);
        built.world.run_until(next);
        let is_moment = next >= look_at || next >= end;
        // What a moment is judged by is what running nodes are: steps of theirs before it.
        let is_step = next >= note_at && next + span >= look_at;
        if is_moment || is_step {
            look(&built.world, [is_moment, is_step]);
        }
        if is_moment {
            look_at = next + pause;
        }
        if is_step {
            note_at = next + step;
        }
        let span_ns = next.since(at).as_nanos() as f64;
        for (index, (_, stats)) in built.world.links().take(links).enumerate() {
            for side in 0..2 {
                let share = (stats[side].busy_ns - busy[index][side]) as f64 / span_ns;
                busy[index][side] = stats[side].busy_ns;
                uses[index * 2 + side]
                    .points
                    .push((at.as_secs_f64(), share.min(1.0)));
            }
        }
        let stats: BTreeMap<&str, &Stats> = built.world.stats().collect();
        for (series, node) in queues.iter_mut().zip(&loaded.nodes) {
            let octets = stats.get(node.name.as_str()).map_or(0, |stats| {
                stats.classes.iter().map(|class| class.queued_octets).sum()
            });
            series.points.push((next.as_secs_f64(), octets as f64));
        }
        at = next;
    }
    queues.into_iter().chain(uses).collect()
}

pub(crate) fn collect(
    loaded: &Loaded,
    variant: &str,
    seed: u64,
    built: &mut Built,
    series: Vec<Series>,
) -> Run {
    let flows: Vec<FlowReport> = built
        .traffic
        .iter()
        .flat_map(|config| {
            let [from, to] = logs(config, built);
            strait_traffic::flow_reports(config, &from, &to)
        })
        .collect();
    let mut metrics = BTreeMap::new();
    for flow in &flows {
        for (metric, value) in &flow.metrics {
            metrics.insert(format!("{}.{metric}", flow.name), *value);
        }
    }
    let duration_ns = loaded.scenario.duration.0.as_nanos() as f64;
    let own = loaded.links.iter().filter(|link| !link.is_carried());
    for (name, stats) in built.world.links().take(own.count()) {
        let busiest = stats[0].busy_ns.max(stats[1].busy_ns);
        metrics.insert(
            format!("{name}.use"),
            (busiest as f64 / duration_ns).min(1.0),
        );
        let arrived = stats[0].arrived_ns + stats[1].arrived_ns;
        if arrived > 0 {
            metrics.insert(format!("{name}.arrived"), arrived as f64 / duration_ns);
        }
    }
    let nodes: Vec<Snapshot> = built.world.snapshots().collect();
    for (node, port, stats) in built.world.radios() {
        let of = nodes.iter().find(|it| it.node == node);
        let port = of.and_then(|of| Some(of.ports.get(port.index())?.name.as_str()));
        if let Some(port) = port {
            metrics.insert(format!("{node}.{port}.collisions"), stats.collisions as f64);
        }
    }
    for node in &nodes {
        metrics.extend(
            node.ports
                .iter()
                .flat_map(|port| compression(&node.node, port)),
        );
        metrics.extend(local_metrics(&loaded.scenario, node));
    }
    Run {
        variant: variant.to_owned(),
        seed,
        hash: built.world.hash(),
        delays: delays(built),
        flows,
        metrics,
        series,
        nodes,
        moments: Vec::new(),
        unexplained: built.world.unexplained(),
        hops: built.world.hops(),
        events: built.world.events(),
        mgen_logs: BTreeMap::new(),
        captures: built.world.take_captures(),
    }
}

/// What compression gained at a port, where there is any.
fn compression<'a>(node: &'a str, port: &'a Port) -> impl Iterator<Item = (String, f64)> + 'a {
    let share = |plain: u64, compressed: u64| compressed as f64 / plain as f64;
    let headers = (port.plain_octets > 0).then(|| {
        let shared = share(port.plain_octets, port.compressed_octets);
        [
            ("compressed_share", shared),
            ("undecompressed", port.undecompressed as f64),
        ]
    });
    let (plain, compressed) = (port.payload_plain_octets, port.payload_compressed_octets);
    let payloads = (plain > 0).then(|| ("payload_share", share(plain, compressed)));
    let all = headers.into_iter().flatten().chain(payloads);
    all.map(move |(word, value)| (format!("{node}.{}.{word}", port.name), value))
}

/// What both hosts saw of a traffic.
pub(crate) fn logs(config: &TrafficConfig, built: &Built) -> [FlowLog; 2] {
    let log = |name: &str, side: Side| -> FlowLog {
        let member = built.topology.find(name);
        let host = member.and_then(|member| built.world.host(built.nodes[member]));
        let of = |log: &&FlowLog| log.traffic == config.name && log.side == side;
        let found = host.and_then(|host| host.logs().find(of).cloned());
        found.unwrap_or_else(|| FlowLog::new(&config.name, side))
    };
    let far = match config.what {
        Traffic::Mail { octets, .. } => mailbox(config, octets, built),
        _ => log(&config.to, Side::To),
    };
    [log(&config.from, Side::From), far]
}

/// A traffic's message as it lies in its mailbox.
fn mailbox(config: &TrafficConfig, octets: u64, built: &Built) -> FlowLog {
    let mut log = FlowLog::new(&config.name, Side::To);
    let text = strait_traffic::mail_text(config, built.seed, octets);
    let member = built.topology.find(&config.to);
    let node = member.map(|it| built.nodes[it]);
    let host = node.and_then(|it| built.world.host(it));
    let switched = node.map_or(&[][..], |it| delivered(&built.world, it));
    let mut all = switched.iter().chain(host.into_iter().flat_map(Host::mail));
    let found = all.find_map(|(at, lies)| {
        let wrong = strait_traffic::mail_wrong(config, &text, lies)?;
        Some((at.as_nanos(), wrong))
    });
    if let Some((at_ns, wrong)) = found {
        let transfer = log.transfer();
        (transfer.finished_ns, transfer.wrong_octets) = (Some(at_ns), wrong);
    }
    log
}

/// The paths' totals with the names of the classes in the first gateway.
fn delays(built: &Built) -> Vec<ClassStats> {
    let first = built
        .topology
        .members
        .iter()
        .position(|member| matches!(member.role, Role::Gateway(_)));
    let names: Vec<String> = match first {
        Some(member) => {
            let name = built.topology.members[member].name.as_str();
            let stats = built.world.stats().find(|(other, _)| *other == name);
            stats.map_or_else(Vec::new, |(_, stats)| {
                stats
                    .classes
                    .iter()
                    .map(|class| class.name.clone())
                    .collect()
            })
        }
        None => Vec::new(),
    };
    let Some(paths) = built.world.paths() else {
        return Vec::new();
    };
    let totals = paths.totals().iter().map(|(class, totals)| {
        assert_eq!(
            totals.parts.total_ns(),
            totals.whole_ns,
            "delay parts don't add up"
        );
        let name = class.and_then(|class| names.get(usize::from(class)).cloned());
        ClassStats {
            name: name.unwrap_or_else(|| "all".to_owned()),
            packets: totals.packets,
            parts: totals.parts,
            ..ClassStats::default()
        }
    });
    totals.collect()
}

/// Everything that a scenario gave.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Every run: variant by variant, seeds in order.
    pub runs: Vec<Run>,
    /// The seeds.
    pub seeds: Vec<u64>,
}

impl Outcome {
    /// Hash over the hashes of all runs.
    pub fn hash(&self) -> u64 {
        let mut hash = RunHash::default();
        self.runs.iter().for_each(|run| hash.fold(run.hash));
        hash.value()
    }

    /// The runs of one variant.
    pub fn of<'a>(&'a self, variant: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.variant == variant)
    }

    /// A metric in every run of a variant that has it.
    pub fn metric(&self, variant: &str, name: &str) -> Vec<f64> {
        self.of(variant)
            .filter_map(|run| run.metrics.get(name).copied())
            .collect()
    }

    /// What the scenario expects, and that every packet is explained.
    pub fn checks(&self, loaded: &Loaded) -> Vec<Check> {
        let expectations = loaded.scenario.expectations.iter();
        let expected = expectations
            .filter(|entry| entry.applies_in(Place::Sim))
            .map(|entry| {
                // Every run has to be inside the bar, so the worst one is shown.
                let runs = self.of(&entry.variant);
                let values: Vec<f64> = runs.filter_map(|it| entry.value(&it.metrics)).collect();
                let complete = values.len() == self.of(&entry.variant).count();
                let worst = match entry.max {
                    Some(_) => values.iter().copied().reduce(f64::max),
                    None => values.iter().copied().reduce(f64::min),
                };
                let value = worst.filter(|_| complete);
                Check::range(entry.id.as_str(), value, entry.unit(), entry.min, entry.max).failed()
            });
        let unexplained: u64 = self.runs.iter().map(|run| run.unexplained).sum();
        let unexplained = Some(unexplained as f64);
        let conserved = Check::range("unexplained-packets", unexplained, "", None, Some(0.0));
        expected.chain([conserved]).collect()
    }
}

/// Runs every variant of a scenario with every seed, in parallel; `done` hears of each run that
/// ended.
///
/// # Errors
/// Why the scenario can't be built.
pub fn run_scenario(
    loaded: &Loaded,
    options: &Options,
    done: impl Fn(usize, usize) + Sync,
) -> Result<Outcome, BuildError> {
    let scenario = &loaded.scenario;
    let first = options.seed.unwrap_or(scenario.seed);
    let count = options
        .runs
        .unwrap_or(scenario.runs)
        .clamp(1, Scenario::RUNS_MAX);
    let seeds: Vec<u64> = (0..count).map(|run| first.wrapping_add(run)).collect();
    let jobs: Vec<(&str, u64)> = scenario
        .variant_names()
        .flat_map(|variant| seeds.iter().map(move |seed| (variant, *seed)))
        .collect();
    let finished = AtomicUsize::new(0);
    let runs = parallel(&jobs, options.threads, |(variant, seed)| {
        let extras = [options.capture, options.record].map(|wanted| wanted && *seed == first);
        let run = run_recorded(loaded, variant, *seed, extras);
        done(finished.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        run
    });
    Ok(Outcome {
        runs: runs.into_iter().collect::<Result<_, _>>()?,
        seeds,
    })
}
