//! The main job with no set-up.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use strait_world::estimate::mean;
use strait_world::scenario::{Files, Loaded, Scenario};
use strait_world::table::Check;

use super::simulated::{self, Outputs};

/// Voice, a web page, a file and pings over one narrow line, without and with strait.
///
/// It runs in virtual time, needs no rights and no set-up, and takes seconds.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  strait demo\n  strait demo --json | jq .checks")]
pub(crate) struct Args {
    /// One JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit status 1 if a check failed.
    #[arg(long)]
    strict: bool,
    /// Where the HTML report goes.
    #[arg(long, value_name = "FILE", default_value = "strait-report.html")]
    report: PathBuf,
    /// Write what every port sent, as pcapng, into this folder.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Seed of the first run.
    #[arg(long)]
    seed: Option<u64>,
}

/// The scenario files that the program brings along: the demo runs where nothing is installed.
struct Own;

impl Files for Own {
    fn read(&self, path: &Path) -> Result<String, String> {
        let text = match path.to_str() {
            Some("nodes/serial-9600-a.toml") => {
                include_str!("../../../../scenarios/nodes/serial-9600-a.toml")
            }
            Some("nodes/serial-9600-b.toml") => {
                include_str!("../../../../scenarios/nodes/serial-9600-b.toml")
            }
            Some("links/serial-9600.toml") => {
                include_str!("../../../../scenarios/links/serial-9600.toml")
            }
            _ => return Err("is not part of the program".to_owned()),
        };
        Ok(text.to_owned())
    }
}

fn scenario() -> anyhow::Result<Loaded> {
    let text = include_str!("../../../../scenarios/demo.toml");
    Ok(Scenario::load_text(&Own, Path::new("demo.toml"), text)?)
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = scenario()?;
    let options = strait_sim::Options {
        seed: args.seed,
        runs: None,
        capture: args.pcap.is_some(),
        threads: None,
    };
    let outcome = simulated::run(&loaded, &options)?;
    let mut result = simulated::result(&loaded, &outcome);
    for (id, metric) in [
        ("demo-page-ratio", "page.time_s"),
        ("demo-file-ratio", "file.time_s"),
    ] {
        let time = |variant| mean(&outcome.metric(variant, metric));
        let ratio = time(Scenario::BASE)
            .zip(time("fifo"))
            .map(|(strait, fifo)| strait / fifo);
        result
            .checks
            .push(Check::range(id, ratio, "", None, Some(1.2)).failed());
    }
    let outputs = Outputs {
        pcap: args.pcap.as_deref(),
        report: Some(&args.report),
        ..Outputs::default()
    };
    simulated::write(&loaded, &outcome, &result, &outputs)?;
    let code = crate::output::result(&result, args.json, args.strict);
    if !args.json {
        crate::output::print(&format!("\nReport with plots: {}\n", args.report.display()));
    }
    Ok(code)
}
