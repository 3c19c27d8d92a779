//! The main job with no set-up.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use strait_report::estimate::mean;
use strait_report::table::Check;
use strait_scenario::{Files, Loaded, Scenario};
use strait_sim::Outcome;
use strait_top::{Film, SPEED_MAX};

use super::simulated::{self, Outputs};
use crate::exit::BadInput;

/// Voice, a web page, a file and pings over one narrow line, without and with strait.
///
/// It runs in virtual time, needs no rights and no set-up, and takes seconds.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait demo\n  strait demo --runs 1 --watch --speed 30\n  strait demo --full\n  \
                  strait demo --json | jq .checks"
)]
pub(crate) struct Args {
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Print every metric with its interval, the drops of each class, the parts of the delay and
    /// each check.
    #[arg(long)]
    full: bool,
    /// Play the first run in the terminal, plain link and strait side by side. Space pauses, + and
    /// - change the speed, q quits. All runs are computed first.
    #[arg(long, conflicts_with_all = ["json", "full"])]
    watch: bool,
    /// With --watch: speed, in seconds of the run per second.
    #[arg(long, value_name = "TIMES", default_value_t = 20.0, requires = "watch", value_parser = speed)]
    speed: f64,
    /// Exit with status 1 if a check failed.
    #[arg(long)]
    strict: bool,
    /// File for the HTML report.
    #[arg(long, value_name = "FILE", default_value = "strait-report.html")]
    report: PathBuf,
    /// Write the frames that each port sent into this folder, as pcapng.
    #[arg(long, value_name = "DIR")]
    pcap: Option<PathBuf>,
    /// Seed of the first run.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of runs, with consecutive seeds. Fewer take less time.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=Scenario::RUNS_MAX))]
    runs: Option<u64>,
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

/// How the variants are called here, in the order of the columns.
const NAMED: [(&str, &str); 2] = [("fifo", "plain link"), (Scenario::BASE, "strait")];

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(why) = strait_top::unable().filter(|_| args.watch) {
        let why = format!("{why}: `strait demo` alone ends with the whole picture");
        return Err(BadInput(why).into());
    }
    let loaded = scenario()?;
    let options = strait_sim::Options {
        seed: args.seed,
        runs: args.runs,
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
    let picture = simulated::picture(&loaded, &outcome, &NAMED);
    if args.watch {
        let letters = super::picture::letters();
        let text = |at_s| format!("{HEAD}\n\n{}", picture.text(at_s, letters));
        strait_top::play(&mut Film::new(text, picture.end_s, args.speed))?;
    }
    let picture = super::picture::whole(&picture);
    let told = told(&result.checks);
    crate::output::print(&(summary(&outcome) + &picture + &told + &report(args)));
    Ok(crate::output::code(&result, args.strict))
}

/// What is played.
const HEAD: &str = "One 9600 baud line, used both ways by a call, a web page, a file and pings";

/// Seconds of a run in one of ours.
pub(super) fn speed(text: &str) -> Result<f64, String> {
    let speed: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if speed > 0.0 && speed <= SPEED_MAX {
        return Ok(speed);
    }
    Err(format!("choose more than 0 and {SPEED_MAX} at most"))
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
    let runs = match outcome.metric(Scenario::BASE, "voice.loss").len() {
        1 => "one run".into(),
        several => format!("mean of {several} runs"),
    };
    let head = format!(
        "One 9600 baud line, both ways at once, {runs}:\n\n{:<43}{:>12}{:>12}\n",
        "", "plain link", "strait",
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
