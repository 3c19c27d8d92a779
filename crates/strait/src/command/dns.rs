//! What a gateway's DNS proxy knows and asks for.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use strait_live::status::{self, Format};
use strait_report::names_text;
use strait_status::Names;

use super::status::{PATIENCE, only_socket};
use crate::exit::BadInput;

/// Show the names that a running gateway's DNS proxy knows or asks for.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait dns\n  strait dns /run/strait/a.sock\n  \
                  strait dns --json > names.json; strait dns names.json\n  \
                  strait dns --json | jq '.names[] | select(.state == \"asked\")'"
)]
pub(crate) struct Args {
    /// Status socket, or a file written by `--json` [default: the only gateway that runs here].
    socket: Option<PathBuf>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = match &args.socket {
        Some(path) => path.clone(),
        None => only_socket("dns")?,
    };
    let text = if path.is_file() {
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())?
    } else {
        status::request(&path, Format::Names, PATIENCE)?
    };
    let names: Names = serde_json::from_str(&text).map_err(|error| {
        BadInput(format!(
            "{}: no names: {error}; write it by `strait dns --json`",
            path.display()
        ))
    })?;
    crate::output::print(&if args.json { text } else { names_text(&names) });
    Ok(ExitCode::SUCCESS)
}
