//! The parts of the study `hbh` that vary one parameter of the published format.

use strait_report::estimate::{mean, median_interval, percentile};
use strait_report::table::{Cell, Column, Table};
use strait_sim::study::hbh::{HbhStudy, Quantity, Varied};
use strait_sim::study::transfer::{self as simulated, Case, Ended};

use super::{finite, progress, quantity};

/// The parts' tables, in the order of [`strait_sim::study::hbh::HbhSweep::varied`], with the names
/// of their first columns.
const TABLES: [(&str, [(&str, &str); 2]); 3] = [
    ("hbh-retries", [("R", ""), ("counted", "")]),
    ("hbh-window", [("W", ""), ("it is", "")]),
    ("hbh-rto", [("RTO", "s"), ("it is", "")]),
];

/// A value at a loss, and its runs.
pub(super) struct Cases {
    pub(super) loss: f64,
    pub(super) value: Varied,
    pub(super) runs: Vec<Ended>,
}

impl Cases {
    pub(super) fn values(&self, of: Quantity) -> Vec<f64> {
        self.runs.iter().map(|run| quantity(run, of)).collect()
    }

    pub(super) fn median(&self, of: Quantity) -> Option<f64> {
        percentile(&self.values(of), 0.5).and_then(finite)
    }
}

/// Runs all of them: for each parameter, every value at each loss.
pub(super) fn run(study: &HbhStudy, full: bool) -> anyhow::Result<[Vec<Cases>; 3]> {
    let varied = study.sweep.varied();
    let cases: Vec<Case> = varied
        .iter()
        .flat_map(|it| study.sweep_cases(it, full))
        .collect();
    let runs = cases.iter().map(|case| case.seeds.clone().count()).sum();
    let bar = progress("hbh-sweep", runs);
    let mut results = simulated::run(&cases, false, || bar.inc(1))?.into_iter();
    bar.finish_and_clear();
    Ok(varied.map(|values| {
        let losses = study.sweep.losses.iter();
        let keys = losses.flat_map(|loss| values.iter().map(|value| (loss.0, *value)));
        let cases = keys
            .zip(results.by_ref())
            .map(|((loss, value), runs)| Cases { loss, value, runs });
        cases.collect()
    }))
}

/// What is told of a value.
fn cells(value: Varied) -> [Cell; 2] {
    match value {
        Varied::Retries(retries, path) => {
            let counted = if path { "on the path" } else { "on each link" };
            [f64::from(retries).into(), counted.into()]
        }
        Varied::Window(window, aimd) => {
            let kind = if aimd { "the most of AIMD" } else { "fixed" };
            [f64::from(window).into(), kind.into()]
        }
        Varied::Timeout(timeout) => {
            let fixed_s = timeout.map(|it| it.0.as_secs_f64());
            let kind = if timeout.is_some() {
                "fixed"
            } else {
                "adaptive"
            };
            [fixed_s.into(), kind.into()]
        }
    }
}

/// The tables of all parameters.
pub(super) fn tables(parts: &[Vec<Cases>; 3]) -> Vec<Table> {
    let tables = TABLES.into_iter().zip(parts);
    tables
        .map(|((name, first), cases)| table(name, first, cases))
        .collect()
}

fn table(name: &str, [value, kind]: [(&str, &str); 2], cases: &[Cases]) -> Table {
    let columns = [
        ("loss", ""),
        value,
        kind,
        ("late", ""),
        ("median", "s"),
        ("from", "s"),
        ("to", "s"),
        ("frames", ""),
        ("octets", ""),
        ("frames again", ""),
        ("came before", ""),
        ("without packet", ""),
        ("dropped", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new(name, columns.into());
    for case in cases {
        let times = case.values(Quantity::Time);
        let late = times.iter().filter(|time| time.is_infinite()).count();
        let [from, to] = median_interval(&times).map_or([None; 2], |ends| ends.map(finite));
        let of = |count: fn(&Ended) -> u64| {
            let counts: Vec<f64> = case.runs.iter().map(|run| count(run) as f64).collect();
            mean(&counts)
        };
        let [value, kind] = cells(case.value);
        table.push(vec![
            case.loss.into(),
            value,
            kind,
            (late as f64).into(),
            case.median(Quantity::Time).into(),
            from.into(),
            to.into(),
            case.median(Quantity::Frames).into(),
            case.median(Quantity::Octets).into(),
            of(|run| run.hop.repeated).into(),
            of(|run| run.hop.duplicates).into(),
            of(|run| run.hop.control).into(),
            of(|run| run.dropped).into(),
        ]);
    }
    table
}
