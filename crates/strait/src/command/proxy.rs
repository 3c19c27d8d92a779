//! What a TCP proxy needs of its host.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use strait_live::kernel::{proxy_check, proxy_rules};
use strait_scenario::{DiskFiles, load_node};

use crate::exit::CHECK_FAILED;

/// What a TCP proxy (`[proxy]` in a node file) needs of its host.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  strait proxy rules ship.toml\n  \
                  strait proxy rules ship.toml | sudo sh\n  \
                  strait proxy rules ship.toml --undo | sudo sh\n  \
                  sudo strait proxy check ship.toml")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print a shell script that redirects connections to the proxy, by an `nft` table of its own
    /// and a routing rule. While the gateway isn't running, connections bypass it, or fail if the
    /// file says `closed`.
    Rules {
        /// The node file.
        file: PathBuf,
        /// Print the script that removes the rules.
        #[arg(long)]
        undo: bool,
    },
    /// Check this host for the proxy's needs: permissions, rules, routes, kernel settings and a
    /// reachable partner. Each gap is reported with its remedy, and the exit status is then 1.
    Check {
        /// The node file.
        file: PathBuf,
        /// Print one JSON array on stdout, with an object for each gap.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        Command::Rules { file, undo } => rules(file, *undo),
        Command::Check { file, json } => check(file, *json),
    }
}

fn rules(file: &Path, undo: bool) -> anyhow::Result<ExitCode> {
    let config = load_node(&DiskFiles, file)?;
    let rules = proxy_rules::set(&config).with_context(|| none(file))?;
    let script = if undo {
        proxy_rules::undo(&config)
    } else {
        rules
    };
    crate::output::print(&script);
    Ok(ExitCode::SUCCESS)
}

fn check(file: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let config = load_node(&DiskFiles, file)?;
    let lacks = proxy_check::lacks(&config).with_context(|| none(file))?;
    if json {
        crate::output::print(&format!("{:#}\n", serde_json::json!(lacks)));
    } else if lacks.is_empty() {
        crate::output::print("nothing is missing\n");
    }
    for lack in lacks.iter().filter(|_| !json) {
        let remedy = lack.remedy.replace("FILE", &file.display().to_string());
        crate::output::print(&format!("{}: {}: {remedy}\n", lack.what, lack.message));
    }
    Ok(match lacks.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(CHECK_FAILED),
    })
}

fn none(file: &Path) -> String {
    format!("{} has no [proxy]", file.display())
}
