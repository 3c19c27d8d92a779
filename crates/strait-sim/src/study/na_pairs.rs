//! Packet pairs beside calls on a 9600 baud line, and what a backlog gets in the same run: the
//! part `na-pairs` of the study `na`, from `scenarios/studies/na-pairs.toml`.

use strait_report::scatter::{Figure, Marks};
use strait_report::table::{Check, Column, Table};
use strait_scenario::Scenario;
use strait_traffic::pair::figure;

use crate::run::{Outcome, Run};

/// Gradients of the white paper in bit/s with no, one and two calls, how far off they may be, and
/// the rate that it expected.
const PAPER: [(f64, f64, f64); 3] = [
    (7287.0, 2.0, 7680.0),
    (5990.0, 12.0, 6040.0),
    (4634.0, 8.0, 4400.0),
];
/// Octets of the IP packets of the backlog, and of their UDP payload.
const BACKLOG_OCTETS: (f64, f64) = (1400.0, 1352.0);
/// How far pairs and backlog may be apart.
const ERROR_MAX: f64 = 0.01;

/// A row for each number of calls, and the check that pairs tell what the backlog gets.
pub fn table(outcome: &Outcome) -> (Table, Check) {
    let columns = [
        ("calls", ""),
        ("pairs", "bit/s"),
        ("±", "bit/s"),
        ("trains", "bit/s"),
        ("gradient", "bit/s"),
        ("±", "bit/s"),
        ("paper, gradient", "bit/s"),
        ("± ", "bit/s"),
        ("paper, expected", "bit/s"),
        ("backlog", "bit/s"),
        ("error", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("na-pairs", columns.into());
    let mut worst: Option<f64> = Some(0.0);
    let run = outcome.of(Scenario::BASE).next();
    for (calls, paper) in PAPER.into_iter().enumerate() {
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
        worst = worst
            .zip(error)
            .map(|(worst, error)| worst.max(error.abs()));
        table.push(vec![
            (calls as f64).into(),
            pairs.into(),
            metric("pairs", "rate_half_width_bit_s").into(),
            metric("pairs", "train_bit_s").into(),
            metric("pairs", "gradient_bit_s").into(),
            metric("pairs", "gradient_half_width_bit_s").into(),
            paper.0.into(),
            paper.1.into(),
            paper.2.into(),
            backlog.into(),
            error.into(),
        ]);
    }
    let check = Check::range("na-pairs-error", worst, "", None, Some(ERROR_MAX));
    (table, check.failed())
}

/// Separation against size beside no, one and two calls.
pub fn picture(outcome: &Outcome) -> Figure {
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
