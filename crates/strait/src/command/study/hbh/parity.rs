//! The part `hbh-parity` of the study `hbh`: a call over a link whose round trip is longer than its
//! packets are worth anything.

use std::path::Path;

use strait_report::estimate::mean;
use strait_report::table::{Check, Column, Table};
use strait_scenario::{Loaded, Scenario};
use strait_sim::{Run, run_plain};
use toml::Value;

use super::pressure::{NoFiles, Part};
use super::progress;

const NAME: &str = "hbh-parity";
/// The link's, in each direction.
const LOSSES: [f64; 4] = [0.01, 0.02, 0.05, 0.1];
/// Variants of the scenario, and how many packets a parity frame follows in them.
const VARIANTS: [(&str, Option<i32>); 4] = [
    ("without", None),
    ("five", Some(5)),
    (Scenario::BASE, Some(3)),
    ("two", Some(2)),
];
const SEEDS: u64 = 8;
/// Of 18 000 packets at 5 %, 128 are lost together with another of four: 11 more or less are
/// chance, and three times as many aren't.
const CHANCE_MAX: f64 = 1.3;
const JUDGED: f64 = 0.05;

/// Runs of a variant at a loss.
struct Cell {
    loss: f64,
    packets: Option<i32>,
    runs: Vec<Run>,
}

impl Cell {
    fn mean(&self, name: &str) -> Option<f64> {
        let values = self.runs.iter().map(|run| run.metrics.get(name).copied());
        values
            .collect::<Option<Vec<f64>>>()
            .and_then(|it| mean(&it))
    }

    /// What is lost if frames are by chance: a packet, and another of its group or its parity.
    fn by_chance(&self) -> f64 {
        let others = self
            .packets
            .map_or(1.0, |packets| 1.0 - (1.0 - self.loss).powi(packets));
        self.loss * others
    }
}

pub(super) fn run() -> anyhow::Result<Part> {
    let text = include_str!("../../../../../../scenarios/lab/hbh-parity.toml");
    let base = Scenario::load_text(&NoFiles, Path::new("hbh-parity.toml"), text)?;
    let bar = progress(NAME, LOSSES.len() * VARIANTS.len());
    let mut cells = Vec::new();
    for loss in LOSSES {
        let loaded: Loaded = base.at(&vec![("link.*.loss".into(), Value::Float(loss))])?;
        for (variant, packets) in VARIANTS {
            let runs = (1..=SEEDS).map(|seed| run_plain(&loaded, variant, seed));
            cells.push(Cell {
                loss,
                packets,
                runs: runs.collect::<Result<_, _>>()?,
            });
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let runs = || cells.iter().flat_map(|cell| &cell.runs);
    Ok(Part {
        table: table(&cells),
        checks: checks(&cells),
        hashes: runs().map(|run| run.hash).collect(),
    })
}

fn table(cells: &[Cell]) -> Table {
    let columns = [
        ("loss", ""),
        ("packets a parity frame", ""),
        ("call lost", ""),
        ("by chance", ""),
        ("call p50", "s"),
        ("call p99", "s"),
        ("file", "s"),
        ("use of the link", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new(NAME, columns.into());
    for cell in cells {
        table.push(vec![
            cell.loss.into(),
            cell.packets.map(f64::from).into(),
            cell.mean("call.loss").into(),
            cell.by_chance().into(),
            cell.mean("call.delay_p50_s").into(),
            cell.mean("call.delay_p99_s").into(),
            cell.mean("file.time_s").into(),
            cell.mean("sat.use").into(),
        ]);
    }
    table
}

/// The worst that is lost with parity, as a multiple of what chance makes of it.
fn checks(cells: &[Cell]) -> Vec<Check> {
    let judged = cells
        .iter()
        .filter(|cell| cell.loss == JUDGED && cell.packets.is_some());
    let multiples = judged.map(|cell| Some(cell.mean("call.loss")? / cell.by_chance()));
    let worst = multiples.collect::<Option<Vec<f64>>>();
    let worst = worst.and_then(|all| all.into_iter().reduce(f64::max));
    let unexplained = cells.iter().flat_map(|cell| &cell.runs);
    let unexplained: u64 = unexplained.map(|run| run.unexplained).sum();
    let conserved = Some(unexplained as f64);
    vec![
        Check::range(NAME, worst, "", None, Some(CHANCE_MAX)).failed(),
        Check::range("hbh-parity-conserved", conserved, "", None, Some(0.0)).failed(),
    ]
}
