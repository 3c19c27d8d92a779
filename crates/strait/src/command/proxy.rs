//! What a TCP proxy needs of its host.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use strait_live::kernel::proxy_rules;
use strait_scenario::{DiskFiles, load_node};

/// What a TCP proxy (`[proxy]` in a node file) needs of its host.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  strait proxy rules ship.toml\n  \
                  strait proxy rules ship.toml | sudo sh\n  \
                  strait proxy rules ship.toml --undo | sudo sh")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print a shell script that brings clients to the proxy, by a table of `nft` of its own and a
    /// routing rule. While the gateway doesn't run, connections pass as without it.
    Rules {
        /// The node file.
        file: PathBuf,
        /// Print the script that takes the rules away.
        #[arg(long)]
        undo: bool,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Command::Rules { file, undo } = &args.what;
    let config = load_node(&DiskFiles, file)?;
    let rules = proxy_rules::set(&config);
    let rules = rules.with_context(|| format!("{} has no [proxy]", file.display()))?;
    let script = if *undo { proxy_rules::undo() } else { rules };
    crate::output::print(&script);
    Ok(ExitCode::SUCCESS)
}
