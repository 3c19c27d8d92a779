//! Why it is slow.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use strait_core::Instant;
use strait_core::units::Time;
use strait_live::status;
use strait_report::why_text;
use strait_scenario::Scenario;
use strait_sim::run_watched;
use strait_status::Snapshot;
use strait_status::why::{History, STEP_S, Why, together};

use super::recorded::{each_of, is_journal};
use super::status::{PATIENCE, only_socket};
use super::top::check_variant;
use crate::exit::BadInput;

/// Say why it is slow, or that it isn't: the worst first, each with what to look at next.
///
/// A running gateway is asked what it counted in the last half minute. A scenario is run in virtual
/// time, and each of its gateways asked at a moment. With both ends of a link, what one sent is
/// compared to what the other got.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait why                                   the gateway on this \
                  host\n  strait why /run/strait/a.sock --json | jq -r .[0].findings[0].cause\n  \
                  strait why scenarios/seeing/load.toml --variant flood\n  strait why \
                  scenarios/seeing/far-down.toml --at 20s\n  strait why status.json                \
                  output of `strait status --json`\n\nMeanings and remedies of all causes: \
                  docs/book/why.md"
)]
pub(crate) struct Args {
    /// Status sockets, files written by `strait status --json` or --snapshots, journals, or one
    /// scenario (`.toml`) [default: the only gateway that runs here].
    of: Vec<PathBuf>,
    /// Print one JSON list on stdout, with an object for each gateway.
    #[arg(long)]
    json: bool,
    /// For a scenario: time [default: its end].
    #[arg(long, value_name = "TIME")]
    at: Option<Time>,
    /// For a scenario: variant.
    #[arg(long, value_name = "NAME", default_value = Scenario::BASE)]
    variant: String,
    /// For a scenario: seed [default: its own].
    #[arg(long)]
    seed: Option<u64>,
    /// Exit with status 1 if something is wrong.
    #[arg(long)]
    strict: bool,
    /// Write the snapshots that were used into this folder, one file for each gateway.
    #[arg(long, value_name = "DIR")]
    snapshots: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let past = past(args)?;
    if let Some(folder) = &args.snapshots {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for history in &past {
            let name = history.last().map_or("nobody", |it| it.node.as_str());
            let path = folder.join(format!("{name}.json"));
            let text = serde_json::to_string(history)? + "\n";
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let all = together(&past);
    crate::output::print(&if args.json {
        serde_json::to_string_pretty(&all)? + "\n"
    } else {
        all.iter().map(why_text).collect()
    });
    let wrong = args.strict && !all.iter().all(Why::is_well);
    Ok(if wrong {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The snapshots of each gateway that is asked about.
fn past(args: &Args) -> anyhow::Result<Vec<Vec<Snapshot>>> {
    let is_scenario = |path: &PathBuf| path.extension().is_some_and(|it| it == "toml");
    match &args.of[..] {
        [scenario] if is_scenario(scenario) => simulated(scenario, args),
        _ if args.at.is_some() || args.seed.is_some() => {
            Err(BadInput("--at and --seed are for a scenario: name its file (.toml)".into()).into())
        }
        [] => Ok(vec![status::past(&only_socket("why")?, PATIENCE)?]),
        several => several.iter().map(|it| asked(it)).collect(),
    }
}

fn simulated(path: &Path, args: &Args) -> anyhow::Result<Vec<Vec<Snapshot>>> {
    let loaded = Scenario::load(path)?;
    check_variant(&loaded, &args.variant)?;
    let end = loaded.scenario.duration.0;
    let at = args.at.map_or(end, |at| at.0);
    if at > end || at.is_zero() {
        let message = format!(
            "--at: choose a time up to the scenario's end, {} s",
            end.as_secs_f64()
        );
        return Err(BadInput(message).into());
    }
    let seed = args.seed.unwrap_or(loaded.scenario.seed);
    Ok(run_watched(
        &loaded,
        &args.variant,
        seed,
        Instant::ZERO + at,
    )?)
}

/// What a socket's gateway says, or what a file has: one snapshot, or a list of them.
fn asked(path: &Path) -> anyhow::Result<Vec<Snapshot>> {
    if !path.is_file() {
        return Ok(status::past(path, PATIENCE)?);
    }
    if is_journal(path)? {
        let (mut past, mut noted_s, mut last) = (History::default(), f64::MIN, None);
        each_of(path, |it| {
            let before: Option<Snapshot> = last.replace(it);
            if let Some(before) = before.filter(|it| it.uptime_s - noted_s >= STEP_S) {
                noted_s = before.uptime_s;
                past.note(before);
            }
        })?;
        return Ok(past.until(&last.unwrap_or_default()));
    }
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let list = serde_json::from_str::<Vec<Snapshot>>(&text);
    let one = || serde_json::from_str::<Snapshot>(&text).map(|it| vec![it]);
    let read = list.or_else(|_| one());
    let read = read.map_err(|error| BadInput(format!("{}: no status: {error}", path.display())))?;
    if read.is_empty() {
        return Err(BadInput(format!("{}: an empty list", path.display())).into());
    }
    Ok(read)
}
