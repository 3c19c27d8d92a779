//! Shell completions.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

/// Print shell completions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  strait completions bash > /etc/bash_completion.d/strait")]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "strait", &mut text);
    crate::output::print(&String::from_utf8_lossy(&text));
    ExitCode::SUCCESS
}
