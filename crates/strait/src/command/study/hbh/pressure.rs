//! The part `hbh-pressure` of the study `hbh`: a slow link in the middle of the path.

use std::path::Path;

use strait_channel::{LinkConfig, Side};
use strait_report::table::{Check, Column, Table};
use strait_scenario::{Files, Loaded, Scenario};
use strait_sim::study::pressure::{self, Pressed};
use toml::Value;

use super::progress;

const NAME: &str = "hbh-pressure";
/// Each link's, in each direction.
const LOSSES: [f64; 2] = [0.0, 0.05];
/// The most that a relay may hold.
const HELD_OCTETS_MAX: f64 = 64_000.0;
/// The largest frame: a packet of 1500 octets and what stands around it.
const FRAME_OCTETS: f64 = 1_534.0;

/// Everything is in the scenario's own text.
pub(super) struct NoFiles;

impl Files for NoFiles {
    fn read(&self, path: &Path) -> Result<String, String> {
        Err(format!("{}: isn't part of the study", path.display()))
    }
}

/// What the part gives to the study's results.
pub(super) struct Part {
    pub(super) table: Table,
    pub(super) checks: Vec<Check>,
    /// The runs' hashes.
    pub(super) hashes: Vec<u64>,
}

pub(super) fn run() -> anyhow::Result<Part> {
    let text = include_str!("../../../../../../scenarios/studies/hbh-pressure.toml");
    let base = Scenario::load_text(&NoFiles, Path::new("hbh-pressure.toml"), text)?;
    let variants: Vec<&str> = base.scenario.variant_names().collect();
    let bar = progress(NAME, variants.len() * LOSSES.len());
    let mut runs = Vec::new();
    for loss in LOSSES {
        let loaded = base.at(&vec![("link.*.loss".into(), Value::Float(loss))])?;
        for variant in &variants {
            runs.push((loss, pressure::run(&loaded, variant)?));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(Part {
        table: table(&runs),
        checks: checks(&base, &runs),
        hashes: runs.iter().map(|(_, pressed)| pressed.run.hash).collect(),
    })
}

fn metric(pressed: &Pressed, name: &str) -> Option<f64> {
    pressed.run.metrics.get(name).copied()
}

fn table(runs: &[(f64, Pressed)]) -> Table {
    let columns = [
        ("loss", ""),
        ("variant", ""),
        ("dropped before", ""),
        ("dropped inside", ""),
        ("too old inside", ""),
        ("held by a relay", "octets"),
        ("file", "s"),
        ("datagrams", "bit/s"),
        ("call p50", "s"),
        ("call p99", "s"),
        ("call lost", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new(NAME, columns.into());
    for (loss, pressed) in runs {
        table.push(vec![
            (*loss).into(),
            pressed.run.variant.as_str().into(),
            (pressed.dropped_before as f64).into(),
            (pressed.dropped_inside as f64).into(),
            (pressed.aged_inside as f64).into(),
            (pressed.held_octets_max as f64).into(),
            metric(pressed, "file.time_s").into(),
            metric(pressed, "datagrams.rate_bit_s").into(),
            metric(pressed, "call.delay_p50_s").into(),
            metric(pressed, "call.delay_p99_s").into(),
            metric(pressed, "call.loss").into(),
        ]);
    }
    table
}

/// The way's delay, and two of the largest frames ahead of a call's packet on each link.
fn call_max_s(base: &Loaded) -> f64 {
    let hop_s = |link: &LinkConfig| {
        let rate = link.line_rate(Side::A).bit_s() as f64;
        let delay_s = link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
        delay_s + 2.0 * FRAME_OCTETS * 8.0 / rate
    };
    base.links.iter().map(|link| hop_s(&link.channel)).sum()
}

/// Of the scenario as it stands, at each loss; the call's delay where nothing has to be repeated.
fn checks(base: &Loaded, runs: &[(f64, Pressed)]) -> Vec<Check> {
    let ours = runs
        .iter()
        .filter(|(_, pressed)| pressed.run.variant == Scenario::BASE);
    let most = |value: fn(&Pressed) -> u64| {
        let values = ours.clone().map(|(_, pressed)| value(pressed));
        values.max().map(|value| value as f64)
    };
    let lossless = ours.clone().find(|(loss, _)| *loss == 0.0);
    let call_s = lossless.and_then(|(_, pressed)| metric(pressed, "call.delay_p99_s"));
    let unexplained: u64 = runs.iter().map(|(_, it)| it.run.unexplained).sum();
    let zero = Some(0.0);
    let check = |id: &str, value, unit, max| Check::range(id, value, unit, None, max).failed();
    let inside = most(|pressed| pressed.dropped_inside);
    let held = most(|pressed| pressed.held_octets_max);
    vec![
        check("hbh-drop-inside", inside, "", zero),
        check("hbh-held", held, "octets", Some(HELD_OCTETS_MAX)),
        check("hbh-pressure-call", call_s, "s", Some(call_max_s(base))),
        check("hbh-pressure-conserved", Some(unexplained as f64), "", zero),
    ]
}
