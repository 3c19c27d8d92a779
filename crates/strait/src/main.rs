//! The command line of strait.

mod command;
mod events;
mod exit;
mod output;

use std::process::ExitCode;

use clap::Parser;

use crate::command::Command;

/// IP applications over narrow, slow, lossy links: serial lines, HF radio, SATCOM, mobile ad hoc
/// radio.
///
/// One gateway runs live on Linux and, with the same protocol code, in a deterministic simulator.
#[derive(Debug, Parser)]
#[command(
    name = "strait",
    bin_name = "strait",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  strait demo                          the main use case, on one narrow line\n  \
                  strait sim scenarios/demo.toml       the same from its file\n  \
                  strait run node.toml                 a gateway on this host\n\n\
                  Exit status: 0 success; 1 a check failed under --strict; 2 wrong usage or a wrong\n\
                  file; 3 the command could not run."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log more on stderr: -v events, -vv each packet.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let _logs = output::log(cli.verbose, cli.command.log());
    match cli.command.run() {
        Ok(code) => code,
        Err(error) => exit::report(&error),
    }
}
