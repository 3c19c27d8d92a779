//! What goes to stdout and stderr.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use strait_world::table::ResultSet;
use tracing_subscriber::filter::LevelFilter;

use crate::exit;

/// Sends logs to stderr: operators' matters always, more on request.
pub(crate) fn log(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Writes to stdout; a reader that has gone away is no error.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Progress on stderr, on a terminal only.
pub(crate) fn progress(total: usize, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total as u64);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what.to_owned());
    bar
}

/// Prints a result as one JSON object or as text, and gives the exit status.
pub(crate) fn result(result: &ResultSet, json: bool, strict: bool) -> ExitCode {
    if json {
        print(&(result.to_json() + "\n"));
    } else {
        print(&result.to_text());
    }
    if strict && result.has_failed() {
        return ExitCode::from(exit::CHECK_FAILED);
    }
    ExitCode::SUCCESS
}
