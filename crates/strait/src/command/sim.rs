//! A scenario in virtual time.

use std::path::PathBuf;
use std::process::ExitCode;

use strait_scenario::Scenario;

use super::simulated::{self, Outputs};

/// Run a scenario in virtual time: every variant, every seed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait sim scenarios/demo.toml --report demo.html\n  \
                        strait sim scenarios/demo.toml --seed 7 --runs 20 --json\n  \
                        strait sim scenarios/lab/mgen.toml --mgen-log logs"
)]
pub(crate) struct Args {
    /// The scenario file.
    scenario: PathBuf,
    /// Seed of the first run [default: the scenario's].
    #[arg(long)]
    seed: Option<u64>,
    /// Number of runs, with consecutive seeds [default: the scenario's].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=Scenario::RUNS_MAX))]
    runs: Option<u64>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if a check failed.
    #[arg(long)]
    strict: bool,
    /// Write the frames that each port sent into this folder, as pcapng: the first run of each
    /// variant.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Write logs in MGEN's format for traffic of kind `mgen` into this folder, one file for each
    /// end: the first run of each variant.
    #[arg(long, value_name = "DIR")]
    mgen_log: Option<PathBuf>,
    /// Write the final status of each node into this folder, in the format of `strait status
    /// --json`: the first run of each variant.
    #[arg(long, value_name = "DIR")]
    status: Option<PathBuf>,
    /// Write a self-contained HTML report, with the resolved configuration.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Finish with a picture of delays and the use of the line: the first run of up to three
    /// variants.
    #[arg(long, conflicts_with = "json")]
    picture: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = Scenario::load(&args.scenario)?;
    let options = strait_sim::Options {
        seed: args.seed,
        runs: args.runs,
        capture: args.pcap.is_some() || args.mgen_log.is_some(),
        record: args.report.is_some() || args.picture,
        threads: None,
    };
    let outcome = simulated::run(&loaded, &options)?;
    let mut result = simulated::result(&loaded, &outcome);
    result.tables.extend(simulated::tcp(&loaded, &outcome));
    let outputs = Outputs {
        pcap: args.pcap.as_deref(),
        mgen_log: args.mgen_log.as_deref(),
        status: args.status.as_deref(),
        report: args.report.as_deref(),
    };
    simulated::write(&loaded, &outcome, &result, &outputs)?;
    let code = crate::output::result(&result, args.json, args.strict);
    if args.picture {
        let named: Vec<_> = loaded.scenario.variant_names().map(|it| (it, it)).collect();
        let picture = simulated::picture(&loaded, &outcome, &named);
        crate::output::print(&super::picture::whole(&picture));
    }
    Ok(code)
}
