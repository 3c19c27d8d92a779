//! Gateways on a terminal.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use strait_core::units::Time;
use strait_live::gateway::status_sockets;
use strait_live::status;
use strait_scenario::{Loaded, Scenario};
use strait_sim::run_told;
use strait_top::{App, Heard, Moment, Options, picture};

use super::recorded::each_of;
use super::status::{PATIENCE, only_socket};
use crate::exit::BadInput;

/// Watch gateways on a terminal: why it is slow, and links, classes, flows, calls, what waits
/// where: the worst first.
///
/// Gateways are asked by their status sockets, so a terminal that is stuck costs them nothing.
/// Recordings and scenarios are played. F1 has the keys.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait top\n  strait top /run/strait/a.sock --view flows --filter tcp\n  \
                  strait top --interval 5              over a serial console\n  \
                  strait status --watch 1 --json > a.jsonl; strait top a.jsonl --speed 10\n  \
                  strait top scenarios/seeing/load.toml --variant flood --speed 5\n  \
                  strait top scenarios/seeing/load.toml --at 15s --once"
)]
pub(crate) struct Args {
    /// Status sockets, files written by `strait status --json`, journals, or one scenario (`.toml`)
    /// [default: all gateways that run here].
    of: Vec<PathBuf>,
    /// Interval between updates, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = status::period)]
    interval: Duration,
    /// First view: links, classes, flows, packets, calls, streams, hf, neighbours, names, mail,
    /// routes, choices or all.
    #[arg(long, value_name = "VIEW", default_value = "links")]
    view: String,
    /// Show only rows with these words.
    #[arg(long, value_name = "WORDS", default_value = "")]
    filter: String,
    /// Print one picture as text and exit. Of a recording or a scenario, this is its end or the
    /// time --at.
    #[arg(long)]
    once: bool,
    /// With --once: line width, in characters.
    #[arg(long, value_name = "LETTERS", default_value_t = 80, requires = "once",
          value_parser = clap::value_parser!(u16).range(20..=500))]
    width: u16,
    /// For a recording or a scenario: speed, in its seconds per second.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = super::demo::speed)]
    speed: f64,
    /// For a recording or a scenario: time to start at.
    #[arg(long, value_name = "TIME")]
    at: Option<Time>,
    /// For a scenario: variant.
    #[arg(long, value_name = "NAME", default_value = Scenario::BASE)]
    variant: String,
    /// For a scenario: seed [default: its own].
    #[arg(long)]
    seed: Option<u64>,
}

/// Lines of a picture with --once.
const HEIGHT: u16 = 24;
/// Moments of a scenario or a recording that are held in memory.
const MOMENTS_MAX: usize = 3600;
/// What wait to be shown at most; a terminal that is stuck misses the rest.
const WAITING_MAX: usize = 64;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(why) = strait_top::unable().filter(|_| !args.once) {
        let why = format!(
            "{why}: `strait top --once` prints one picture, `strait status --watch` goes on"
        );
        return Err(BadInput(why).into());
    }
    let (mut app, heard) = begin(args)?;
    if args.once {
        crate::output::print(&picture(&mut app, args.width, HEIGHT));
    } else {
        strait_top::show(&mut app, &heard, args.interval)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn begin(args: &Args) -> anyhow::Result<(App, Receiver<Heard>)> {
    let options = Options {
        view: args.view.clone(),
        filter: args.filter.clone(),
        plain: strait_top::is_plain(),
    };
    let (tell, heard) = sync_channel(WAITING_MAX);
    let is_scenario = |path: &PathBuf| path.extension().is_some_and(|it| it == "toml");
    let app = match &args.of[..] {
        [scenario] if is_scenario(scenario) => played(simulated(scenario, args)?, args, &options),
        files if files.iter().any(|it| it.is_file()) => played(recorded(files)?, args, &options),
        _ if args.at.is_some() || args.seed.is_some() => {
            Err(BadInput("--at and --seed are for a recording or a scenario".into()).into())
        }
        sockets => live(sockets, args, (&options, tell)),
    };
    Ok((app?, heard))
}

fn played(moments: Vec<Moment>, args: &Args, options: &Options) -> anyhow::Result<App> {
    let end_s = moments.last().map_or(0.0, |it| it.0);
    let at_s = args.at.map(|at| at.0.as_secs_f64());
    let at_s = at_s.or_else(|| args.once.then_some(end_s));
    let mut app = App::played(moments, args.speed, options).map_err(BadInput)?;
    if let Some(at_s) = at_s {
        app.seek(at_s);
    }
    Ok(app)
}

/// Asks gateways: with --once what they counted of late, else again and again.
fn live(
    sockets: &[PathBuf],
    args: &Args,
    (options, tell): (&Options, SyncSender<Heard>),
) -> anyhow::Result<App> {
    let sockets = match (sockets, &status_sockets()[..]) {
        ([], []) => vec![only_socket("top")?],
        ([], all) => all.to_vec(),
        (named, _) => named.to_vec(),
    };
    let names = sockets.iter().map(|it| it.display().to_string()).collect();
    let mut app = App::live(names, options).map_err(BadInput)?;
    for (n, socket) in sockets.into_iter().enumerate() {
        if args.once {
            for snapshot in status::past(&socket, PATIENCE)? {
                app.hear((n, Ok(snapshot)));
            }
            continue;
        }
        let tell = tell.clone();
        status::follow(socket, args.interval, move |heard| {
            use std::sync::mpsc::TrySendError;
            !matches!(
                tell.try_send((n, heard)),
                Err(TrySendError::Disconnected(_))
            )
        })?;
    }
    Ok(app)
}

fn simulated(path: &Path, args: &Args) -> anyhow::Result<Vec<Moment>> {
    let loaded = Scenario::load(path)?;
    check_variant(&loaded, &args.variant)?;
    let seed = args.seed.unwrap_or(loaded.scenario.seed);
    let duration = loaded.scenario.duration.0;
    let step = (duration / MOMENTS_MAX as u32).max(Duration::from_secs(1));
    let bar = crate::output::progress(duration.as_secs() as usize, &loaded.scenario.name);
    let mut moments = Vec::new();
    run_told(&loaded, (&args.variant, seed), step, |snapshots| {
        let at_s = snapshots.first().map_or(0.0, |it| it.uptime_s);
        bar.set_position(at_s as u64);
        if !snapshots.is_empty() {
            moments.push((at_s, snapshots));
        }
        // What comes later than the wanted picture isn't needed.
        !args.once || args.at.is_none_or(|at| at_s < at.0.as_secs_f64())
    })?;
    bar.finish_and_clear();
    Ok(moments)
}

/// The scenario has this variant.
pub(super) fn check_variant(loaded: &Loaded, variant: &str) -> Result<(), BadInput> {
    let known: Vec<&str> = loaded.scenario.variant_names().collect();
    if known.contains(&variant) {
        return Ok(());
    }
    let known = known.join("`, `");
    Err(BadInput(format!(
        "--variant: no `{variant}` (there are `{known}`)"
    )))
}

/// What files have, by the gateways' own clocks: the latest, if it is more than is held.
fn recorded(files: &[PathBuf]) -> anyhow::Result<Vec<Moment>> {
    let mut moments = Vec::new();
    for path in files {
        let mut own: Vec<Moment> = Vec::new();
        each_of(path, |snapshot| {
            if own.len() >= MOMENTS_MAX {
                own.drain(..MOMENTS_MAX / 10);
            }
            own.push((snapshot.uptime_s, vec![snapshot]));
        })?;
        moments.extend(own);
    }
    moments.sort_by(|one, other| one.0.total_cmp(&other.0));
    Ok(moments)
}
