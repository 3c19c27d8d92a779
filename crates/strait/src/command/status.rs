//! How a running gateway is.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use strait_live::gateway::{STATUS_FOLDER, status_sockets};
use strait_live::status::{Format, request};

use crate::exit::BadInput;

/// Ask a running gateway how it is: its ports, its classes, and where the time went.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait status\n  strait status /run/strait/a.sock --watch 2\n  \
                  strait status --json | jq '.classes[] | {name, delay_p99_s}'"
)]
pub(crate) struct Args {
    /// Its status socket; not needed where one gateway runs.
    socket: Option<PathBuf>,
    /// One JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Ask again and again, with so many seconds between.
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    watch: Option<Duration>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "is no number of seconds")?;
    if !(0.1..=86_400.0).contains(&seconds) {
        return Err("choose 0.1 to 86400 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A gateway answers at once, or is stopped by a debugger.
const PATIENCE: Duration = Duration::from_secs(5);

/// Moves a terminal's cursor to the top, with nothing below.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => only_socket()?,
    };
    let format = if args.json {
        Format::Json
    } else {
        Format::Text
    };
    let clears = args.watch.is_some() && !args.json && std::io::stdout().is_terminal();
    loop {
        let answer = request(&socket, format, PATIENCE)?;
        if clears {
            crate::output::print(CLEAR);
        }
        crate::output::print(&answer);
        let Some(pause) = args.watch else {
            return Ok(ExitCode::SUCCESS);
        };
        thread::sleep(pause);
    }
}

fn only_socket() -> Result<PathBuf, BadInput> {
    let sockets = status_sockets();
    match &sockets[..] {
        [socket] => Ok(socket.clone()),
        [] => Err(BadInput(format!(
            "no status socket in {STATUS_FOLDER}: is a gateway running? If its socket is \
             elsewhere, name it: strait status PATH"
        ))),
        several => {
            let list = several
                .iter()
                .map(|path| format!("\n  strait status {}", path.display()));
            let list: String = list.collect();
            Err(BadInput(format!("several gateways; say which:{list}")))
        }
    }
}
