//! Packet pairs beside calls on a 9600 baud line, and what a backlog gets in the same run: the
//! part `na-pairs` of the study `na`, from `scenarios/studies/na-pairs.toml`.

use std::mem::take;

use strait_report::scatter::{Figure, Marks};
use strait_scenario::Scenario;
use strait_traffic::pair::figure;

use super::scenario::load;
use super::shown::Row;
use super::{Asked, Measured, StudyError};
use crate::run::{Outcome, Run};
use crate::{Options, run_scenario};

/// Gradients of the white paper in bit/s with no, one and two calls, how far off they may be, and
/// the rate that it expected.
const PAPER: [(f64, f64, f64); 3] = [
    (7287.0, 2.0, 7680.0),
    (5990.0, 12.0, 6040.0),
    (4634.0, 8.0, 4400.0),
];
/// Octets of the IP packets of the backlog, and of their UDP payload.
const BACKLOG_OCTETS: (f64, f64) = (1400.0, 1352.0);

/// A row for each number of calls.
pub(super) fn run(asked: &Asked<'_>, measured: &mut Measured) -> Result<(), StudyError> {
    let loaded = load("studies/na-pairs.toml")?;
    let options = Options {
        seed: Some(asked.seed(loaded.scenario.seed)),
        capture: asked.captures,
        record: false,
        ..Options::default()
    };
    asked.outside.begins("na-pairs", 1);
    let mut outcome = run_scenario(&loaded, &options, |_, _| {
        asked.outside.done();
    })?;
    let run = outcome.of(Scenario::BASE).next();
    let rows = PAPER.into_iter().enumerate().map(|(calls, paper)| {
        let metric = |traffic: &str, name: &str| {
            let name = format!("{traffic}-{calls}.{name}");
            run.and_then(|run| run.metrics.get(&name)).copied()
        };
        let pairs = metric("pairs", "rate_bit_s");
        let (packet, payload) = BACKLOG_OCTETS;
        let backlog = metric("backlog", "rate_bit_s").map(|rate| rate * packet / payload);
        let error = pairs
            .zip(backlog)
            .map(|(pairs, backlog)| pairs / backlog - 1.0);
        Row::default()
            .with("calls", calls)
            .with("pairs_bit_s", pairs)
            .with("pairs_half_bit_s", metric("pairs", "rate_half_width_bit_s"))
            .with("trains_bit_s", metric("pairs", "train_bit_s"))
            .with("gradient_bit_s", metric("pairs", "gradient_bit_s"))
            .with(
                "gradient_half_bit_s",
                metric("pairs", "gradient_half_width_bit_s"),
            )
            .with("paper_bit_s", paper.0)
            .with("paper_half_bit_s", paper.1)
            .with("paper_expected_bit_s", paper.2)
            .with("backlog_bit_s", backlog)
            .with("error", error)
            .with("off", error.map(f64::abs))
            .with("unexplained", run.map(|run| run.unexplained as f64))
    });
    measured.parts.insert("pairs", rows.collect());
    if asked.figures {
        let svg = picture(&outcome).to_svg();
        measured.figures.push(("na-pairs.svg".into(), svg));
    }
    measured.fold_text(outcome.hash());
    measured.seeds.extend(&outcome.seeds);
    for run in &mut outcome.runs {
        asked.captured("na-pairs", take(&mut run.captures));
    }
    Ok(())
}

/// Separation against size beside no, one and two calls.
fn picture(outcome: &Outcome) -> Figure {
    let run = outcome.of(Scenario::BASE).next();
    let names = ["no call", "one call", "two calls"];
    let marks = names.into_iter().enumerate().filter_map(|(calls, name)| {
        let mut marks = marks(run?, &format!("pairs-{calls}"))?;
        name.clone_into(&mut marks.name);
        Some(marks)
    });
    figure(
        "pair separation against size, 9600 baud 8N1",
        marks.collect(),
    )
}

fn marks(run: &Run, traffic: &str) -> Option<Marks> {
    let flow = run.flows.iter().find(|flow| flow.name == traffic)?;
    flow.figures.first()?.marks.first().cloned()
}
