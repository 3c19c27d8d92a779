//! The study `seeing`: faults, and what a diagnosis says of them; healthy worlds, and whether it
//! keeps quiet.

use serde::Deserialize;
use strait_core::Instant;
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};
use strait_status::Snapshot;
use strait_status::why::{Finding, Why, together};

use super::scenario;
use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError, run_all};
use crate::run::run_watched;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeeingStudy {
    /// Which study the file is of: `seeing`.
    study: String,
    /// Labs that run at the same time.
    together: usize,
    /// What is wrong, and worlds in which nothing is.
    case: Vec<Case>,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// A world with a fault, or a healthy one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What is wrong, in words.
    name: String,
    /// The scenario, which comes along, by its path in `scenarios/`.
    scenario: String,
    /// Which variant.
    #[serde(default = "base")]
    variant: String,
    /// The true cause; none where nothing is wrong.
    #[serde(default)]
    cause: Option<String>,
    /// It can be had live, in a lab of a few seconds.
    #[serde(default)]
    live: bool,
}

fn base() -> String {
    Scenario::BASE.into()
}

impl SeeingStudy {
    fn loaded(&self) -> Result<Vec<(&Case, Loaded)>, ConfigError> {
        let each = self.case.iter().map(|case| {
            let loaded = scenario::load(&case.scenario)?;
            let known: Vec<&str> = loaded.scenario.variant_names().collect();
            if known.contains(&case.variant.as_str()) {
                return Ok((case, loaded));
            }
            let message = format!(
                "no variant `{}` (variants: {})",
                case.variant,
                known.join(", ")
            );
            Err(ConfigError::of_file(
                &format!("case `{}`", case.name),
                message,
            ))
        });
        each.collect()
    }
}

/// What is told of a case.
fn row(case: &Case, world: &str, past: Option<&[Vec<Snapshot>]>) -> Row {
    let all: Vec<Why> = past.map(together).unwrap_or_default();
    let findings = all
        .iter()
        .flat_map(|why| why.findings.iter().map(move |it| (why, it)));
    let mut findings: Vec<(&Why, &Finding)> = findings.collect();
    findings.sort_by(|(_, one), (_, other)| other.weight.total_cmp(&one.weight));
    let first = findings.first();
    let named = |it: &(&Why, &Finding)| Some(it.1.cause.name()) == case.cause.as_deref();
    let place = findings
        .iter()
        .position(named)
        .map(|place| place as f64 + 1.0);
    let is_true = past.map(|_| f64::from(u8::from(first.is_some_and(named))));
    let at = first.map_or("", |(why, _)| why.node.as_str());
    let sentence = match (first, all.first()) {
        (Some((_, finding)), _) => finding.sentence.as_str(),
        (None, why) => why.map_or("", |it| it.sentence.as_str()),
    };
    Row::default()
        .with("fault", case.name.as_str())
        .with("cause", case.cause.as_deref().unwrap_or("none"))
        .with("world", world)
        .with("first", first.map_or("none", |it| it.1.cause.name()))
        .with("at", at)
        .with("sentence", sentence)
        .with("place", place)
        .with("true", is_true)
        .with("alarms", past.map(|_| findings.len() as f64))
}

impl SetUp for SeeingStudy {
    const PARTS: &'static [&'static str] = &["faults", "healthy", "counts"];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        let causes = strait_status::why::Cause::ALL.iter().map(|it| it.name());
        let causes: Vec<&str> = causes.collect();
        for case in &self.case {
            if let Some(odd) = case.cause.as_deref().filter(|it| !causes.contains(it)) {
                let known = causes.join(", ");
                let message = format!("case `{}`: no cause `{odd}` ({known})", case.name);
                return Err(ConfigError::of_file(file, message));
            }
        }
        self.loaded().map(drop)
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let cases = self.loaded()?;
        let simulated = run_all(asked, "seeing", &cases, |(case, loaded)| {
            let end = Instant::ZERO + loaded.scenario.duration.0;
            run_watched(loaded, &case.variant, loaded.scenario.seed, end)
        })?;
        // Live for as long as labs take: minutes.
        let live = cases.iter().filter(|(case, _)| case.live);
        let labs: Vec<(Loaded, String)> = live
            .clone()
            .map(|(case, loaded)| (loaded.clone(), case.variant.clone()))
            .collect();
        let lived = if asked.live && asked.full {
            let labs = asked.outside.pasts("seeing", labs, self.together);
            labs.map_err(StudyError::Live)?
        } else {
            Vec::new()
        };
        let simulated = cases.iter().zip(&simulated);
        let simulated = simulated.map(|((case, _), past)| (*case, "sim", Some(&past[..])));
        // Without labs there is nothing to tell of them.
        let live = live.zip(&lived);
        let live = live.map(|((case, _), past)| (*case, "live", Some(&past[..])));
        let mut measured = Measured::default();
        let mut counts: [[f64; 3]; 2] = Default::default();
        for (case, world, past) in simulated.chain(live) {
            let of = &mut counts[usize::from(world == "live")];
            let row = row(case, world, past);
            let is = |name: &str| row.median(name).unwrap_or(0.0);
            let part = if case.cause.is_some() {
                of[0] += f64::from(u8::from(past.is_some()));
                of[1] += is("true");
                "faults"
            } else {
                of[2] += is("alarms");
                "healthy"
            };
            measured.parts.entry(part).or_default().push(row);
        }
        let counted = ["sim", "live"].into_iter().zip(counts);
        let counted = counted.map(|(world, [faults, right, alarms])| {
            let ran = faults > 0.0;
            Row::default()
                .with("world", world)
                .with("faults", ran.then_some(faults))
                .with("right", ran.then_some(right))
                .with("share", ran.then(|| right / faults))
                .with("alarms", ran.then_some(alarms))
        });
        measured.parts.insert("counts", counted.collect());
        Ok(measured)
    }
}
