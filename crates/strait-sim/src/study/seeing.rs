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
use crate::run::{run_judged, run_watched};

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
    /// What gateways tell each other of themselves, and what that costs.
    report: Vec<Report>,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// A world in which gateways report to each other.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    /// What it is, in words.
    name: String,
    /// The scenario, by its path in `scenarios/`.
    scenario: String,
    /// Which variant.
    #[serde(default = "base")]
    variant: String,
    /// The same without reports: the difference in octets is what they cost.
    #[serde(default)]
    without: Option<String>,
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
            let loaded = loaded(&case.scenario, &case.name, [&case.variant])?;
            Ok((case, loaded))
        });
        each.collect()
    }

    /// Worlds with reports, each with its variant and that without.
    fn reports(&self) -> Result<Vec<(&str, Loaded, &str)>, ConfigError> {
        let each = self.report.iter().map(|report| {
            let variants = [Some(&report.variant), report.without.as_ref()];
            let variants = || variants.into_iter().flatten();
            let loaded = loaded(&report.scenario, &report.name, variants())?;
            Ok(variants().map(move |it| (report.name.as_str(), loaded.clone(), it.as_str())))
        });
        let each: Result<Vec<_>, ConfigError> = each.collect();
        Ok(each?.into_iter().flatten().collect())
    }
}

/// A scenario that comes along and has these variants.
fn loaded<'a>(
    name: &str,
    of: &str,
    variants: impl IntoIterator<Item = &'a String>,
) -> Result<Loaded, ConfigError> {
    let loaded = scenario::load(name)?;
    let known: Vec<&str> = loaded.scenario.variant_names().collect();
    let odd = |it: &&String| !known.contains(&it.as_str());
    if let Some(odd) = variants.into_iter().find(odd) {
        let message = format!("no variant `{odd}` (variants: {})", known.join(", "));
        return Err(ConfigError::of_file(&format!("case `{of}`"), message));
    }
    Ok(loaded)
}

/// What reports do in a world, and cost beside the same without them.
fn report_row(name: &str, run_s: f64, with: &[Snapshot], without: Option<&[Snapshot]>) -> Row {
    let far = || with.iter().flat_map(|node| &node.far);
    let age_s = far().map(|far| far.age_max_s.max(far.age_s.unwrap_or(run_s)));
    let octets = |node: &Snapshot| {
        let links = node.ports.iter().filter(|port| !port.host_side);
        links.map(|port| port.octets_out).sum::<u64>() as f64
    };
    let bit_s = without.map(|without| {
        let more = with.iter().zip(without);
        let more = more.map(|(with, without)| octets(with) - octets(without));
        more.fold(0.0, f64::max) * 8.0 / run_s
    });
    let flows = far().flat_map(|far| &far.flows);
    let named = flows.clone().filter(|flow| !flow.flow.is_empty()).count();
    Row::default()
        .with("world", name)
        .with(
            "reports",
            far().map(|far| far.reports_in as f64).sum::<f64>(),
        )
        .with("age_s", age_s.fold(0.0, f64::max))
        .with("bit_s", bit_s)
        .with("flows", flows.count() as f64)
        .with("named", named as f64)
}

/// What is told of a case, and how often anything is, where that is known.
fn row(case: &Case, world: &str, (all, alarms): &(Vec<Why>, Option<u32>)) -> Row {
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
    let is_true = f64::from(u8::from(first.is_some_and(named)));
    let alarms = alarms.map_or(findings.len() as f64, f64::from);
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
        .with("alarms", alarms)
}

impl SeeingStudy {
    fn reported(&self, asked: &Asked<'_>) -> Result<Vec<Row>, StudyError> {
        let reports = self.reports()?;
        let ended = run_all(asked, "seeing", &reports, |(_, loaded, variant)| {
            let end = Instant::ZERO + loaded.scenario.duration.0;
            run_watched(loaded, variant, asked.seed(loaded.scenario.seed), end)
        })?;
        let last = |past: &Vec<Vec<Snapshot>>| -> Vec<Snapshot> {
            past.iter()
                .filter_map(|node| node.last().cloned())
                .collect()
        };
        let ended: Vec<Vec<Snapshot>> = ended.iter().map(last).collect();
        let mut rows = Vec::new();
        let mut runs = reports.iter().zip(&ended).peekable();
        while let Some(((name, loaded, _), with)) = runs.next() {
            let without = runs.next_if(|((next, ..), _)| next == name);
            let without = without.map(|(_, ended)| &ended[..]);
            let run_s = loaded.scenario.duration.0.as_secs_f64();
            rows.push(report_row(name, run_s, with, without));
        }
        Ok(rows)
    }
}

impl SetUp for SeeingStudy {
    const PARTS: &'static [&'static str] = &["faults", "healthy", "counts", "reports"];

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
        self.reports()?;
        self.loaded().map(drop)
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let cases = self.loaded()?;
        let simulated = run_all(asked, "seeing", &cases, |(case, loaded)| {
            let seed = asked.seed(loaded.scenario.seed);
            if case.cause.is_none() {
                let (all, alarms) = run_judged(loaded, &case.variant, seed)?;
                return Ok((all, Some(alarms)));
            }
            let end = Instant::ZERO + loaded.scenario.duration.0;
            let past = run_watched(loaded, &case.variant, seed, end)?;
            Ok((together(&past), None))
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
        let simulated = simulated.map(|((case, _), told)| (*case, "sim", told.clone()));
        // Without labs there is nothing to tell of them.
        let live = live.zip(&lived);
        let live = live.map(|((case, _), past)| (*case, "live", (together(past), None)));
        let mut measured = Measured::default();
        let mut counts: [[f64; 3]; 2] = Default::default();
        for (case, world, told) in simulated.chain(live) {
            let of = &mut counts[usize::from(world == "live")];
            let row = row(case, world, &told);
            let is = |name: &str| row.median(name).unwrap_or(0.0);
            let part = if case.cause.is_some() {
                of[0] += 1.0;
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
        measured.parts.insert("reports", self.reported(asked)?);
        Ok(measured)
    }
}
