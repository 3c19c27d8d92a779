//! The study `messaging`: messages of six precedences between two sites, over routers as a paper
//! had them and over our gateways, alone, beside each other, and beside a load.

mod link_up;
mod world;

use serde::Deserialize;
use strait_node::config_text::ConfigError;

use self::link_up::LinkUp;
use self::world::{Case, Regime, System, Way, message_name, world};
use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError, run_all};
use crate::build::BuildError;
use crate::run::Run;
use strait_scenario::Scenario;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagingStudy {
    /// Which study the file is of: `messaging`.
    study: String,
    /// Seed of all runs.
    seed: u64,
    /// Ways between the sites.
    way: Vec<Way>,
    /// How the sender's router is configured.
    regime: Vec<Regime>,
    /// What is sent.
    case: Vec<Case>,
    /// Messages that wait for a link.
    link_up: LinkUp,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// One run: of which case, by whom.
type Job<'a> = (&'a Case, System);

impl MessagingStudy {
    fn jobs(&self) -> Vec<Job<'_>> {
        let each = |case: &'_ Case| -> Vec<System> {
            let own = case.by.iter().copied();
            // Without a load there is none to mark.
            own.filter(|it| case.load.is_some() || *it != System::StraitMarks)
                .collect()
        };
        let cases = self.case.iter();
        cases
            .flat_map(|case| each(case).into_iter().map(move |system| (case, system)))
            .collect()
    }

    fn way(&self, name: &str) -> Result<&Way, ConfigError> {
        find(&self.way, name, "way", |it| &it.name)
    }

    fn loaded(&self, (case, system): Job<'_>) -> Result<strait_scenario::Loaded, ConfigError> {
        let regime = find(&self.regime, &case.regime, "regime", |it| &it.name)?;
        world(self.way(&case.way)?, regime, case, system, "")
    }
}

fn find<'a, T>(
    all: &'a [T],
    name: &str,
    what: &str,
    of: impl Fn(&T) -> &str,
) -> Result<&'a T, ConfigError> {
    all.iter().find(|it| of(it) == name).ok_or_else(|| {
        let message = format!("is needed: add [[{what}]] with name = \"{name}\"");
        ConfigError::of_file(&format!("{what} `{name}`"), message)
    })
}

/// How long a message took, in s.
fn time_s(run: &Run, at: usize) -> f64 {
    let metric = |what: &str| run.metrics.get(&format!("{}.{what}", message_name(at)));
    let whole = metric("complete").is_some_and(|it| *it == 1.0);
    let time_s = metric("time_s").copied().filter(|_| whole);
    time_s.unwrap_or(f64::INFINITY)
}

/// The rows of all runs.
struct Rows<'a> {
    study: &'a MessagingStudy,
    runs: Vec<(Job<'a>, &'a Run)>,
}

impl Rows<'_> {
    /// How long a message takes that is alone: of the same octets, by the same, over the same way
    /// and router.
    fn base_s(&self, (case, system): Job<'_>, octets: u64, dscp_too: Option<u8>) -> Option<f64> {
        let same = |(of, by): &Job<'_>| {
            let by_same = *by == system || by.is_ours() && system.is_ours();
            let router = of.regime == case.regime || system.is_ours();
            let alone = of.load.is_none() && of.messages.len() == 1;
            let sent = of.messages.first();
            by_same
                && router
                && alone
                && of.way == case.way
                && sent.is_some_and(|it| {
                    it.octets.0 == octets && dscp_too.is_none_or(|dscp| it.dscp.number() == dscp)
                })
        };
        let (_, run) = self.runs.iter().find(|(job, _)| same(job))?;
        Some(time_s(run, 0))
    }

    /// The same of the paper's.
    fn paper_base_s(&self, case: &Case, octets: u64) -> Option<f64> {
        let mut alone =
            self.study.case.iter().filter(|it| {
                it.load.is_none() && it.messages.len() == 1 && it.regime == case.regime
            });
        let sent = alone.find_map(|it| it.messages.first().filter(|it| it.octets.0 == octets));
        sent?.paper_s
    }

    fn of(&self, (job, run): &(Job<'_>, &Run)) -> Vec<Row> {
        let (case, system) = *job;
        let rate = self.study.way(&case.way).map_or(0, |it| it.rate.0) as f64;
        let rows = case.messages.iter().enumerate().map(|(at, sent)| {
            let octets = sent.octets.0;
            let bits = octets as f64 * 8.0;
            let time_s = time_s(run, at);
            // Of the same precedence, if there is one: lanes that stay open need no connection.
            let base_s = self
                .base_s(*job, octets, Some(sent.dscp.number()))
                .or_else(|| self.base_s(*job, octets, None));
            let paper_base_s = self.paper_base_s(case, octets);
            Row::default()
                .with("case", case.name.as_str())
                .with("way", case.way.as_str())
                .with(
                    "router",
                    if system.is_ours() {
                        "ours"
                    } else {
                        &case.regime
                    },
                )
                .with("by", system.word())
                .with("dscp", sent.dscp.to_string())
                .with("octets", octets)
                .with("time_s", time_s)
                .with("kbit_s", bits / time_s / 1000.0)
                .with("share", base_s.map(|base_s| base_s / time_s))
                .with("of_alone", base_s.map(|base_s| time_s / base_s))
                .with("later_s", base_s.map(|base_s| time_s - base_s))
                .with("of_line", bits / time_s / rate)
                .with("paper_s", sent.paper_s)
                .with("paper_kbit_s", sent.paper_s.map(|it| bits / it / 1000.0))
                .with(
                    "paper_share",
                    paper_base_s.zip(sent.paper_s).map(|(base_s, s)| base_s / s),
                )
        });
        rows.collect()
    }
}

impl SetUp for MessagingStudy {
    const PARTS: &'static [&'static str] = &[
        "size", "preempt", "load", "parallel", "flash", "line", "link-up", "runs",
    ];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        for job in self.jobs() {
            if !Self::PARTS.contains(&job.0.part.as_str()) {
                let message = format!("`{}` has no part `{}`", job.0.name, job.0.part);
                return Err(ConfigError::of_file(file, message));
            }
            self.loaded(job)?;
        }
        self.way(&self.link_up.way).map(drop)
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let seed = asked.seed.unwrap_or(self.seed);
        let jobs = self.jobs();
        let runs = run_all(asked, "messaging", &jobs, |job| {
            let loaded = self.loaded(*job).map_err(BuildError::from)?;
            let (case, system) = job;
            let name = format!("messaging-{}-{}-{}", case.part, case.name, system.word());
            asked.run((&name, true), (&loaded, Scenario::BASE), seed)
        })?;
        let rows = Rows {
            study: self,
            runs: jobs.iter().copied().zip(&runs).collect(),
        };
        let mut measured = Measured::of("link-up", self.link_up.rows(self, asked, seed)?, [seed]);
        measured.fold(runs.iter().map(|run| run.hash));
        let odd = runs.iter().map(|run| run.unexplained as f64);
        let odd = Row::default().with("unexplained", odd.collect::<Vec<_>>());
        measured.parts.insert("runs", vec![odd]);
        for part in Self::PARTS {
            let of = rows.runs.iter().filter(|(job, _)| job.0.part == *part);
            let of: Vec<Row> = of.flat_map(|it| rows.of(it)).collect();
            measured.parts.entry(part).or_default().extend(of);
        }
        Ok(measured)
    }
}
