//! The main job with no set-up.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use strait_report::estimate::mean;
use strait_report::table::Check;
use strait_scenario::{Files, Loaded, Scenario};
use strait_sim::Outcome;

use super::simulated::{self, Outputs};

/// Voice, a web page, a file and pings over one narrow line, without and with strait.
///
/// It runs in virtual time, needs no rights and no set-up, and takes seconds.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait demo\n  strait demo --full\n  strait demo --json | jq .checks"
)]
pub(crate) struct Args {
    /// One JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Every metric with its interval, each class's drops, where the time went, and each check.
    #[arg(long)]
    full: bool,
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
        record: true,
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
    if args.json || args.full {
        let code = crate::output::result(&result, args.json, args.strict);
        if !args.json {
            crate::output::print(&report(args));
        }
        return Ok(code);
    }
    crate::output::print(&(summary(&outcome) + &told(&result.checks) + &report(args)));
    Ok(crate::output::code(&result, args.strict))
}

fn report(args: &Args) -> String {
    format!("\nReport with plots: {}\n", args.report.display())
}

/// What a person notices, without and with strait.
fn summary(outcome: &Outcome) -> String {
    let row = |what: &str, metric: &str, show: fn(f64) -> String| {
        let shown =
            |variant| mean(&outcome.metric(variant, metric)).map_or_else(|| "-".into(), show);
        let (plain, strait) = (shown("fifo"), shown(Scenario::BASE));
        format!("{what:<43}{plain:>12}{strait:>12}\n")
    };
    let head = format!(
        "One 9600 baud line, both ways at once, mean of {} runs:\n\n{:<43}{:>12}{:>12}\n",
        outcome.metric(Scenario::BASE, "voice.loss").len(),
        "",
        "plain link",
        "strait",
    );
    [
        head,
        row(
            "a call: delay, 99 of 100 packets",
            "voice.delay_p99_s",
            seconds,
        ),
        row("a call: lost", "voice.loss", |share| {
            format!("{:.1} %", share * 100.0)
        }),
        row("a web page, 60 kB in 20 objects", "page.time_s", seconds),
        row("a file the other way, 100 kB", "file.time_s", seconds),
        row("a ping each second, 99 of 100", "ping.rtt_p99_s", seconds),
    ]
    .concat()
}

fn seconds(value: f64) -> String {
    let digits = if value < 10.0 { 2 } else { 0 };
    format!("{value:.digits$} s")
}

/// The checks in a line, and those that failed in one each.
fn told(checks: &[Check]) -> String {
    let failed: Vec<&Check> = checks
        .iter()
        .filter(|check| check.ok == Some(false))
        .collect();
    let mut text = match failed.len() {
        0 => format!("\nAll {} checks hold.", checks.len()),
        some => format!("\n{some} of {} checks FAILED:", checks.len()),
    };
    for check in failed {
        text += &format!(" {}", check.id);
    }
    text + " All figures: strait demo --full\n"
}
