//! What goes to stdout and stderr.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Debug;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use indicatif::{ProgressBar, ProgressStyle};
use strait_live::logs::{Logs, LogsEnd};
use strait_report::table::ResultSet;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::events::{Events, Form};
use crate::exit;

/// The one who writes to stderr, once there is one.
static LOGS: OnceLock<Logs> = OnceLock::new();

/// Sends logs to stderr: operators' matters always, more on request. They are written when the end
/// goes. What a panic says goes the same way.
pub(crate) fn log(verbose: u8, form: Option<Form>) -> LogsEnd {
    let most = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let wanted = form.unwrap_or_else(Form::of_stderr);
    let (form, sink, problem) = match wanted.sink() {
        Ok(sink) => (wanted, sink, None),
        Err(error) => (Form::Text, Box::new(std::io::stderr()) as _, Some(error)),
    };
    let (logs, end) = Logs::begin(sink);
    if let Some(error) = problem {
        logs.say(&format!("strait: no journal, so stderr: {error}"));
    }
    let writer = LOGS.get_or_init(|| logs.clone()).clone();
    let limited = Limited {
        most,
        logs: logs.clone(),
    };
    let registry = tracing_subscriber::registry();
    if form == Form::Text {
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(std::io::stderr().is_terminal());
        registry.with(layer.with_filter(limited)).init();
    } else {
        let layer = Events { form, logs };
        registry.with(layer.with_filter(limited)).init();
    }
    std::panic::set_hook(Box::new(|panic| {
        let calls = Backtrace::capture();
        say(&match calls.status() {
            BacktraceStatus::Captured => format!("{panic}\n{calls}"),
            _ => panic.to_string(),
        });
    }));
    end
}

/// Writes a line to stderr without waiting for somebody to read it.
pub(crate) fn say(line: &str) {
    match LOGS.get() {
        Some(logs) => logs.say(line),
        None => eprintln!("{line}"),
    }
}

/// What is written: up to a level, and of each kind no more than anybody reads. Who asks for each
/// packet gets each.
struct Limited {
    most: LevelFilter,
    logs: Logs,
}

impl<S> Filter<S> for Limited {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        *metadata.level() <= self.most
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let metadata = event.metadata();
        let name = || {
            let mut message = Message(String::new());
            event.record(&mut message);
            message.0
        };
        *metadata.level() > Level::INFO || self.logs.allows(metadata.name(), name)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }
}

/// The message of an event, without its values.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
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
    code(result, strict)
}

/// The exit status for a result that was printed.
pub(crate) fn code(result: &ResultSet, strict: bool) -> ExitCode {
    if strict && result.has_failed() {
        return ExitCode::from(exit::CHECK_FAILED);
    }
    ExitCode::SUCCESS
}
