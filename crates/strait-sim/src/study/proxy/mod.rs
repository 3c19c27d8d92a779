//! The study `proxy`: transfers, pages and calls through the TCP proxies of two gateways, beside
//! TCP from host to host as a Linux system of today has it.

mod live;
mod rows;
mod world;

use std::mem::take;

use serde::Deserialize;
use strait_core::{Duration, Instant};
use strait_node::config_text::ConfigError;
use strait_report::table::Check;
use strait_scenario::{Loaded, Scenario};

use self::live::ProxyLive;
use self::rows::Rows;
pub(super) use self::world::PathRow;
use self::world::{Load, System};
use super::hf::Came as Of;
use super::scenario::load;
use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError, run_all};
use crate::build::{Built, build};
use crate::run::{Options, Run, collect, run_scenario};
use crate::world::World;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProxyStudy {
    /// Which study the file is of: `proxy`.
    study: String,
    /// Ways between the gateways.
    path: Vec<PathRow>,
    /// Scenarios that come along, by their paths in `scenarios/`, whose checks are the study's.
    #[serde(default)]
    names: Vec<String>,
    /// What also runs live.
    live: ProxyLive,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// A run: over which way, who, with what, and the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    path: usize,
    system: System,
    load: Load,
    seed: u64,
}

/// What a run came to.
struct Came {
    run: Run,
    /// The most octets that were acknowledged to their sender and hadn't come to the far gateway,
    /// after the first had.
    held_octets: f64,
}

/// How often it is looked at what waits.
const LOOK: Duration = Duration::from_millis(100);

impl SetUp for ProxyStudy {
    const PARTS: &'static [&'static str] =
        &["transfers", "outages", "short", "calls", "live", "runs"];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        check(&self.path, file)
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let jobs = jobs(&self.path, true);
        let came = run_jobs(&self.path, &jobs, asked, "proxy")?;
        let rows = Rows {
            paths: &self.path,
            runs: jobs.iter().zip(&came).collect(),
        };
        let odd = came.iter().map(|it| it.run.unexplained as f64);
        let runs = Row::default().with("unexplained", odd.collect::<Vec<_>>());
        let seeds = self.path.iter().map(|it| it.seeds).max().unwrap_or(1);
        let mut measured = Measured::of("runs", vec![runs], 1..=seeds);
        measured.fold(came.iter().map(|it| it.run.hash));
        let parts = [
            ("transfers", rows.transfers()),
            ("outages", rows.outages()),
            ("short", rows.short()),
            ("calls", rows.calls()),
            ("live", live::rows(&self.live, &rows, asked)?),
        ];
        measured.parts.extend(parts);
        self.look_up(asked, &mut measured)?;
        Ok(measured)
    }
}

impl ProxyStudy {
    /// Runs the scenarios of names, and takes their checks over.
    fn look_up(&self, asked: &Asked<'_>, measured: &mut Measured) -> Result<(), StudyError> {
        let all: Result<Vec<Loaded>, _> = self.names.iter().map(|it| load(it)).collect();
        let runs = |it: &Loaded| it.scenario.variant_names().count();
        let all = all?;
        asked.outside.begins("names", all.iter().map(runs).sum());
        for loaded in &all {
            let done = |_, _| asked.outside.done();
            let options = Options {
                seed: Some(asked.seed(loaded.scenario.seed)),
                ..Options::default()
            };
            let outcome = run_scenario(loaded, &options, done)?;
            let checks = outcome.checks(loaded).into_iter();
            let own = |it: &Check| it.id != "unexplained-packets" || it.ok != Some(true);
            measured.checks.extend(checks.filter(own));
            measured.fold([outcome.hash()]);
        }
        Ok(())
    }
}

/// Whether all ways can be built.
pub(super) fn check(paths: &[PathRow], file: &str) -> Result<(), ConfigError> {
    for path in paths {
        path.world(System::Honest, Load::File)
            .map_err(|error| ConfigError::of_file(file, error.to_string()))?;
    }
    Ok(())
}

/// Rows of transfers over ways of another study.
pub(super) fn transfers(
    paths: &[PathRow],
    asked: &Asked<'_>,
    study: &str,
) -> Result<Of, StudyError> {
    let jobs = jobs(paths, false);
    let runs = run_jobs(paths, &jobs, asked, study)?;
    let mut came = Of::default();
    for it in &runs {
        came.note(it.run.hash, it.run.unexplained);
    }
    let runs = jobs.iter().zip(&runs).collect();
    came.rows = Rows { paths, runs }.transfers();
    Ok(came)
}

/// All runs, with those that are only compared with live ones if they are.
fn jobs(paths: &[PathRow], compared: bool) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (path, row) in paths.iter().enumerate() {
        let mut add = |system, load, seeds: u64| {
            jobs.extend((1..=seeds).map(|seed| Job {
                path,
                system,
                load,
                seed,
            }));
        };
        if !row.of_rate {
            add(System::PlainCubic, Load::Datagrams, 1);
        }
        add(System::PlainCubic, Load::Crossing, 1);
        for system in row.systems.iter().copied() {
            add(system, Load::File, row.seeds);
            if compared && !system.is_plain() {
                add(system, Load::Fetch, row.seeds);
                add(system, Load::Few, row.seeds);
            }
            let mut others = Vec::new();
            if row.outage_max.is_some() {
                others.extend((0..row.outages).map(Load::Outage));
            }
            if row.short > 0 {
                others.extend([Load::Page, Load::Downloads]);
                others.extend((0..row.short).map(Load::Both));
            }
            if row.call {
                others.extend([Load::Call, Load::CallBeside]);
            }
            others.into_iter().for_each(|load| add(system, load, 1));
        }
    }
    jobs
}

fn run_jobs(
    paths: &[PathRow],
    jobs: &[Job],
    asked: &Asked<'_>,
    study: &str,
) -> Result<Vec<Came>, StudyError> {
    let runs = run_all(asked, study, jobs, |job| {
        let loaded = paths[job.path].world(job.system, job.load)?;
        let looks = job.load == Load::File && !job.system.is_plain();
        let mut built = build(&loaded, Scenario::BASE, asked.seed(job.seed))?;
        if job.seed == 1 {
            asked.watch(built.world_mut());
        }
        let mut came = came(&loaded, &mut built, asked.seed(job.seed), looks);
        let (path, system) = (&paths[job.path].name, job.system.word());
        let case = format!("{study}-{path}-{system}-{:?}", job.load);
        asked.captured(&case, take(&mut came.run.captures));
        Ok(came)
    })?;
    Ok(runs)
}

fn came(loaded: &Loaded, built: &mut Built, seed: u64, looks: bool) -> Came {
    let end = Instant::ZERO + loaded.scenario.duration.0;
    let sender = built.node("hb");
    let acked = |world: &World| {
        let host = sender.and_then(|sender| world.host(sender));
        host.map_or(0, |host| host.tcp_totals().octets_acked)
    };
    let mut held_octets = 0.0;
    while looks && built.world().now() < end {
        let world = built.world_mut();
        world.run_until((world.now() + LOOK).min(end));
        let mut nodes = world.stats();
        let far = nodes.find_map(|(name, stats)| stats.proxy.filter(|_| name == "a"));
        let arrived = far.map_or(0, |it| it.sessions.streams.taken);
        if arrived > 0 {
            held_octets = f64::max(held_octets, acked(world).saturating_sub(arrived) as f64);
        }
    }
    let world = built.world_mut();
    world.run_until(end);
    world.check();
    Came {
        run: collect(loaded, Scenario::BASE, seed, built, Vec::new()),
        held_octets,
    }
}
