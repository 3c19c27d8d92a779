//! The worlds of the study `proxy` by real programs and gateways, beside the same in virtual time.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::shown::Row;
use super::super::{Asked, Sent, StudyError};
use super::rows::Rows;
use super::world::{Load, PathRow, System};

/// How much runs live.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProxyLive {
    /// Labs at a time: they mostly wait.
    together: usize,
}

/// What is compared: the words in the table, who carries what, and the metric.
const CLAIMS: [(&str, System, Load, &str); 8] = [
    ("transfer", System::Honest, Load::File, "file.time_s"),
    ("transfer", System::Early, Load::File, "file.time_s"),
    ("connect", System::Honest, Load::File, "file.connect_s"),
    ("connect", System::Early, Load::File, "file.connect_s"),
    (
        "60 s without the link",
        System::Honest,
        Load::Outage(0),
        "file.time_s",
    ),
    ("page alone", System::Honest, Load::Page, "page.time_s"),
    (
        "page beside downloads",
        System::Honest,
        Load::Both(0),
        "page.time_s",
    ),
    (
        "call beside both, p99",
        System::Honest,
        Load::CallBeside,
        "call.delay_p99_s",
    ),
];
/// The share by which live and simulated times may differ, beside a turnaround.
const APART: f64 = 0.05;

/// A row for each claim on each path. They have nothing live unless all was asked for.
pub(super) fn rows(
    live: &ProxyLive,
    rows: &Rows<'_>,
    asked: &Asked<'_>,
) -> Result<Vec<Row>, StudyError> {
    let worlds = worlds(rows);
    let sent = match asked.live && asked.full {
        true => labs(live, &worlds, rows, asked)?,
        false => Vec::new(),
    };
    let all = rows.paths.iter().enumerate().flat_map(|(path, row)| {
        let claims = CLAIMS.iter();
        claims.map(move |claim| (path, row, claim))
    });
    let compared = all.filter_map(|(path, row, (what, system, load, metric))| {
        let of = |counts: &BTreeMap<String, f64>| counts.get(*metric).copied();
        let simulated = load.moments(row).flat_map(|it| rows.all(path, *system, it));
        let simulated = simulated.map(|it| of(&it.run.metrics));
        let own = worlds.iter().zip(&sent);
        let own =
            own.filter(|(it, _)| (it.path, it.system, it.load.first()) == (path, *system, *load));
        let own = own.map(|(_, sent)| of(&sent.counts));
        let [sim_s, live_s] = [simulated.collect(), own.collect()].map(|all: Vec<Option<f64>>| {
            let all = all.into_iter().map(|it| it.unwrap_or(f64::INFINITY));
            all.collect::<Vec<_>>()
        });
        let compared = Row::default()
            .with("path", row.name.as_str())
            .with("by", system.word())
            .with("what", *what)
            .with("sim_s", sim_s)
            .with("live_s", (!live_s.is_empty()).then_some(live_s));
        let sim_s = compared.median("sim_s")?;
        // There and back.
        let turnaround_s = 2.0 * rows.crossing_s(path)?;
        let may_s = APART * sim_s + turnaround_s;
        let apart_s = compared.median("live_s").map(|it| it - sim_s);
        let apart = apart_s.map(|it| it.abs() / may_s);
        Some(compared.with("may_s", may_s).with("apart", apart))
    });
    Ok(compared.collect())
}

/// A run of both worlds.
struct Twice {
    path: usize,
    system: System,
    load: Load,
    seed: u64,
}

impl Load {
    /// What claims call it, whatever the moment.
    const fn first(self) -> Self {
        match self {
            Self::Both(_) => Self::Both(0),
            other => other,
        }
    }

    /// The same at each moment that the path is looked at.
    fn moments(self, path: &PathRow) -> impl Iterator<Item = Self> + use<> {
        let count = match self {
            Self::Both(_) => path.short,
            _ => 1,
        };
        (0..count).map(move |number| match self {
            Self::Both(_) => Self::Both(number),
            other => other,
        })
    }
}

/// Each run that a claim is about, once.
fn worlds(rows: &Rows<'_>) -> Vec<Twice> {
    let of_a_claim = |system, load| CLAIMS.iter().any(|it| (it.1, it.2) == (system, load));
    let jobs = rows.runs.iter().map(|(job, _)| *job);
    let jobs = jobs.filter(|job| of_a_claim(job.system, job.load.first()));
    jobs.map(|job| Twice {
        path: job.path,
        system: job.system,
        load: job.load,
        seed: job.seed,
    })
    .collect()
}

fn labs(
    live: &ProxyLive,
    worlds: &[Twice],
    rows: &Rows<'_>,
    asked: &Asked<'_>,
) -> Result<Vec<Sent>, StudyError> {
    let lab = |it: &Twice| {
        let mut lab = rows.paths[it.path].world(it.system, it.load)?;
        lab.scenario.seed = asked.seed(it.seed);
        Ok(lab)
    };
    let all: Result<Vec<_>, StudyError> = worlds.iter().map(lab).collect();
    let sent = asked.outside.labs("proxy", all?, live.together);
    sent.map_err(StudyError::Live)
}
