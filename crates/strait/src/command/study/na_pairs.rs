//! The part `na-pairs` of the study `na`: packet pairs beside calls.

use std::fs;
use std::path::Path;

use anyhow::Context;
use strait_report::table::{Check, ResultSet};
use strait_scenario::{Files, Scenario};
use strait_sim::study::na_pairs;
use strait_sim::{Options as RunOptions, run_scenario};

use super::{Options, progress};

const NAME: &str = "na-pairs";

/// The files that the program brings along.
struct Own;

impl Files for Own {
    fn read(&self, path: &Path) -> Result<String, String> {
        if path.ends_with("links/serial-9600.toml") {
            let text = include_str!("../../../../../scenarios/links/serial-9600.toml");
            return Ok(text.to_owned());
        }
        Err("is not part of the program".to_owned())
    }
}

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let text = include_str!("../../../../../scenarios/studies/na-pairs.toml");
    let loaded = Scenario::load_text(&Own, Path::new("studies/na-pairs.toml"), text)?;
    let bar = progress(NAME, 1);
    let asked = RunOptions {
        capture: options.pcap.is_some(),
        ..RunOptions::default()
    };
    let outcome = run_scenario(&loaded, &asked, |done, _| bar.set_position(done as u64))?;
    bar.finish_and_clear();
    let (table, check) = na_pairs::table(&outcome);
    if let Some(folder) = options.figures {
        let path = folder.join("na-pairs.svg");
        fs::write(&path, na_pairs::picture(&outcome).to_svg())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(folder) = options.pcap {
        for (name, octets) in outcome.runs.iter().flat_map(|run| &run.captures) {
            let path = folder.join(format!("na-pairs-{name}"));
            fs::write(&path, octets).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let unexplained: u64 = outcome.runs.iter().map(|run| run.unexplained).sum();
    let conserved = Check::range(
        "na-pairs-conserved",
        Some(unexplained as f64),
        "",
        None,
        Some(0.0),
    );
    Ok(ResultSet {
        run_hash: Some(outcome.hash().into()),
        seeds: outcome.seeds,
        tables: vec![table],
        checks: vec![check, conserved],
    })
}
