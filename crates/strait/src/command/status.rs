//! How a running gateway is.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use strait_live::gateway::{STATUS_FOLDER, status_sockets};
use strait_live::status::{self, Format};
use strait_report::{far_text, status_text};
use strait_status::Snapshot;
use strait_status::why::{History, why};

use crate::exit::BadInput;

/// Ask a running gateway how it is: why it is slow, if it is, its ports, its classes, and where the
/// time went.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait status\n  strait status /run/strait/a.sock --watch 2\n  strait status --far\n  \
                  strait status --json | jq '.classes[] | {name, delay_p99_s}'"
)]
pub(crate) struct Args {
    /// Status socket, or a file written by `--json` [default: the only gateway that runs here].
    socket: Option<PathBuf>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Show only the reports of gateways at far ends (`[far]` in the node file).
    #[arg(long, conflicts_with = "json")]
    far: bool,
    /// Repeat at this interval, in seconds; with --json, print one line each time.
    #[arg(long, value_name = "SECONDS", value_parser = status::period)]
    watch: Option<Duration>,
}

/// A gateway answers at once, or is stopped by a debugger.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Moves a terminal's cursor to the top, with nothing below.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => only_socket("status")?,
    };
    if socket.is_file() {
        return show(&socket, args);
    }
    if let Some(period) = args.watch {
        return watch(&socket, period, args);
    }
    let format = if args.json || args.far {
        Format::Json
    } else {
        Format::Text
    };
    let said = status::request(&socket, format, PATIENCE)?;
    let said = if args.far {
        far_text(&serde_json::from_str(&said)?)
    } else {
        said
    };
    crate::output::print(&said);
    Ok(ExitCode::SUCCESS)
}

/// What a gateway said of itself at another time, on another host, or simulated.
fn show(path: &Path, args: &Args) -> anyhow::Result<ExitCode> {
    if args.watch.is_some() {
        return Err(BadInput("--watch: a file doesn't change; name a socket".into()).into());
    }
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let snapshot: Snapshot = serde_json::from_str(&text)
        .map_err(|error| BadInput(format!("{}: no status: {error}", path.display())))?;
    crate::output::print(&if args.json {
        text
    } else if args.far {
        far_text(&snapshot)
    } else {
        status_text(&snapshot, &why(std::slice::from_ref(&snapshot)))
    });
    Ok(ExitCode::SUCCESS)
}

/// Until the gateway ends. One that cut us, because this terminal was stopped, is asked anew.
fn watch(socket: &Path, period: Duration, args: &Args) -> anyhow::Result<ExitCode> {
    let clears = !args.json && std::io::stdout().is_terminal();
    loop {
        let mut stream = status::stream(socket, period, PATIENCE)?;
        let (mut came, mut past) = (false, History::default());
        while let Some((snapshot, line)) = stream.next_snapshot()? {
            came = true;
            if clears {
                crate::output::print(CLEAR);
            }
            let why = why(&past.until(&snapshot));
            crate::output::print(&if args.json {
                line
            } else if args.far {
                far_text(&snapshot)
            } else {
                status_text(&snapshot, &why)
            });
            past.note(snapshot);
        }
        anyhow::ensure!(came, "the gateway ended");
    }
}

/// The socket of the gateway that runs, if it is one; `command` is told who else is to be named.
pub(super) fn only_socket(command: &str) -> Result<PathBuf, BadInput> {
    let sockets = status_sockets();
    match &sockets[..] {
        [socket] => Ok(socket.clone()),
        [] => Err(BadInput(format!(
            "no status socket in {STATUS_FOLDER}: is a gateway running? If its socket is \
             elsewhere, name it: strait {command} PATH"
        ))),
        several => {
            let list = several
                .iter()
                .map(|path| format!("\n  strait {command} {}", path.display()));
            let list: String = list.collect();
            Err(BadInput(format!(
                "several gateways run here; choose one:{list}"
            )))
        }
    }
}
