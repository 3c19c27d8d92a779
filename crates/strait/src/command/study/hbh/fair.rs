//! The parts `hbh-fair` and `hbh-voice` of the study `hbh`: flows that are alike, and a call beside
//! bulk.

use std::path::Path;

use strait_channel::{LinkConfig, Side};
use strait_core::Duration;
use strait_core::units::Time;
use strait_report::table::{Check, Column, Table};
use strait_scenario::{Loaded, Scenario};
use strait_sim::study::fair::{self, FairCase, Shares};
use strait_sim::{Run, run_plain};
use toml::Value;

use super::pressure::NoFiles;
use super::progress;

const NAME: &str = "hbh-fair";
/// Each link's, in each direction.
const LOSSES: [f64; 2] = [0.0, 0.05];
const FLOWS: [usize; 3] = [2, 5, 10];
/// A name, the ways of the flows, and which of them meet on a link in one direction.
type Layout = (
    &'static str,
    &'static [[&'static str; 2]],
    &'static [&'static [usize]],
);
const LAYOUTS: [Layout; 3] = [
    ("one chain", &[["ha", "hb"]], &[&[0]]),
    (
        "one chain, both ways",
        &[["ha", "hb"], ["hb", "ha"]],
        &[&[0], &[1]],
    ),
    (
        "two chains that cross",
        &[["ha", "hb"], ["hc", "hd"]],
        &[&[0, 1]],
    ),
];
/// The call's variants of the scenario: as it stands, and with each of its packets followed by one
/// that makes it good.
const CALLS: [&str; 2] = [Scenario::BASE, "parity"];
/// When TCP's windows have grown.
const WARM_UP: Time = Time(Duration::from_secs(20));
/// The least index of flows that are alike.
const JAIN_MIN: f64 = 0.95;
/// The largest frame: a packet of 1500 octets and what stands around it.
const FRAME_OCTETS: f64 = 1_534.0;

/// What the parts give to the study's results.
pub(super) struct Parts {
    pub(super) tables: [Table; 2],
    pub(super) checks: Vec<Check>,
    /// The runs' hashes.
    pub(super) hashes: Vec<u64>,
}

/// Flows in a layout at a loss.
struct Cell {
    loss: f64,
    layout: &'static str,
    flows: usize,
    /// Of the flows that meet, where they are least alike.
    jain: f64,
    shares: Shares,
}

pub(super) fn run() -> anyhow::Result<Parts> {
    let text = include_str!("../../../../../../scenarios/studies/hbh-fair.toml");
    let base = Scenario::load_text(&NoFiles, Path::new("hbh-fair.toml"), text)?;
    let bar = progress(
        NAME,
        LOSSES.len() * (LAYOUTS.len() * FLOWS.len() + CALLS.len()),
    );
    let mut cells = Vec::new();
    let mut calls = Vec::new();
    for loss in LOSSES {
        let loaded = base.at(&vec![("link.*.loss".into(), Value::Float(loss))])?;
        for (layout, ways, together) in LAYOUTS {
            for flows in FLOWS {
                let case = FairCase {
                    flows,
                    ways: ways.iter().map(|way| way.map(String::from)).collect(),
                    warm_up: WARM_UP,
                };
                let shares = fair::run(&loaded, &case)?;
                let indices = together.iter().map(|ways| shares.jain(ways));
                cells.push(Cell {
                    loss,
                    layout,
                    flows,
                    jain: indices.fold(1.0, f64::min),
                    shares,
                });
                bar.inc(1);
            }
        }
        for variant in CALLS {
            calls.push((loss, run_plain(&loaded, variant, loaded.scenario.seed)?));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let runs = cells.iter().map(|cell| &cell.shares.run);
    let runs: Vec<&Run> = runs.chain(calls.iter().map(|(_, run)| run)).collect();
    let unexplained: u64 = runs.iter().map(|run| run.unexplained).sum();
    let hashes = runs.iter().map(|run| run.hash).collect();
    let conserved = Some(unexplained as f64);
    let mut checks = checks(&base, &cells, &calls);
    checks.push(Check::range("hbh-fair-conserved", conserved, "", None, Some(0.0)).failed());
    Ok(Parts {
        tables: [shares(&cells), voice(&base, &calls)],
        checks,
        hashes,
    })
}

fn shares(cells: &[Cell]) -> Table {
    let columns = [
        ("loss", ""),
        ("over", ""),
        ("flows", ""),
        ("least", "bit/s"),
        ("most", "bit/s"),
        ("together", "bit/s"),
        ("Jain's index", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new(NAME, columns.into());
    for cell in cells {
        let rates = || cell.shares.rates_bit_s.iter().copied();
        table.push(vec![
            cell.loss.into(),
            cell.layout.into(),
            (cell.flows as f64).into(),
            rates().reduce(f64::min).into(),
            rates().reduce(f64::max).into(),
            rates().sum::<f64>().into(),
            cell.jain.into(),
        ]);
    }
    table
}

fn metric(run: &Run, name: &str) -> Option<f64> {
    run.metrics.get(name).copied()
}

fn voice(base: &Loaded, calls: &[(f64, Run)]) -> Table {
    let columns = [
        ("loss", ""),
        ("variant", ""),
        ("call p50", "s"),
        ("call p99", "s"),
        ("call lost", ""),
        ("way and two frames a hop", "s"),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("hbh-voice", columns.into());
    for (loss, run) in calls {
        table.push(vec![
            (*loss).into(),
            run.variant.as_str().into(),
            metric(run, "call.delay_p50_s").into(),
            metric(run, "call.delay_p99_s").into(),
            metric(run, "call.loss").into(),
            call_max_s(base).into(),
        ]);
    }
    table
}

/// The way's delay, and two of the largest frames ahead of a call's packet on each of its links.
fn call_max_s(base: &Loaded) -> f64 {
    let hop_s = |link: &LinkConfig| {
        let rate = link.line_rate(Side::A).bit_s() as f64;
        let delay_s = link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
        delay_s + 2.0 * FRAME_OCTETS * 8.0 / rate
    };
    let own = base.links.iter().filter(|link| !link.name.contains('-'));
    own.map(|link| hop_s(&link.channel)).sum()
}

/// The call where nothing has to be repeated, as a repetition takes another round trip; and where
/// nothing needs to be, as parity makes good what was lost.
fn checks(base: &Loaded, cells: &[Cell], calls: &[(f64, Run)]) -> Vec<Check> {
    let fair = FLOWS.iter().map(|flows| {
        let those = cells.iter().filter(|cell| cell.flows == *flows);
        let least = those.map(|cell| cell.jain).reduce(f64::min);
        let id = format!("hbh-fair-{flows}");
        Check::range(&id, least, "", Some(JAIN_MIN), None).failed()
    });
    let judged = [
        ("hbh-voice", 0.0, CALLS[0]),
        ("hbh-voice-5", 0.05, CALLS[1]),
    ];
    let voice = judged.map(|(id, loss, variant)| {
        let mut those = calls.iter();
        let run = those.find(|(at, run)| *at == loss && run.variant == variant);
        let p99_s = run.and_then(|(_, run)| metric(run, "call.delay_p99_s"));
        Check::range(id, p99_s, "s", None, Some(call_max_s(base))).failed()
    });
    fair.chain(voice).collect()
}
