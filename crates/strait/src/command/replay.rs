//! Repeating a gateway's run from its journal.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use strait_core::Input;
use strait_node::journal::{
    Difference, Entry, JournalEnd, JournalReader, Pull, Record, ReplayReport, replay,
};

use crate::exit::{self, BadInput};

/// Repeat a gateway's run from its journal, octet by octet.
///
/// The gateway gets the same inputs at the same moments, and what it gives must be the same. No
/// device, no network and no clock is used. The program that wrote a journal can repeat it, and
/// each newer one can list it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait replay a.journal --strict\n  strait replay a.journal --list | less"
)]
pub(crate) struct Args {
    /// The journal.
    journal: PathBuf,
    /// List inputs and outputs, one line a record, without a replay. Also reads masked journals.
    #[arg(long, conflicts_with = "strict")]
    list: bool,
    /// Print one JSON object on stdout; with --list, one a line.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if anything differs.
    #[arg(long)]
    strict: bool,
}

/// Octets of a journal that is read: it is held in memory as a whole.
const OCTETS_MAX: u64 = 4_000_000_000;

/// Octets of a pull that are shown.
const SHOWN_OCTETS: usize = 64;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let journal = read(&args.journal)?;
    let path = args.journal.display();
    if args.list {
        let mut reader =
            JournalReader::new(&journal).map_err(|it| BadInput(format!("{path}: {it}")))?;
        list(&mut reader, args.json);
        return Ok(ExitCode::SUCCESS);
    }
    let report = replay(&journal).map_err(|error| BadInput(format!("{path}: {error}")))?;
    if args.json {
        crate::output::print(&(to_json(&report).to_string() + "\n"));
    } else {
        crate::output::print(&to_text(&report));
    }
    if args.strict && report.difference.is_some() {
        return Ok(ExitCode::from(exit::CHECK_FAILED));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let unreadable = || format!("cannot read {}", path.display());
    let octets = std::fs::metadata(path).with_context(unreadable)?.len();
    if octets > OCTETS_MAX {
        let message = format!("{}: longer than {OCTETS_MAX} octets", path.display());
        return Err(BadInput(message).into());
    }
    std::fs::read(path).with_context(unreadable)
}

fn list(reader: &mut JournalReader<'_>, json: bool) {
    for entry in reader.by_ref() {
        let (what, text) = describe(&entry);
        let at = entry.now.as_secs_f64();
        let line = if json {
            json!({"record": entry.number, "at_s": at, "what": what, "text": text}).to_string()
        } else {
            format!("{:>8}  {at:>14.6} s  {what:<8}  {text}", entry.number)
        };
        crate::output::print(&(line + "\n"));
    }
    let (word, text) = end(reader.end());
    crate::output::print(&if json {
        json!({"end": word}).to_string() + "\n"
    } else {
        format!("journal ends: {text}\n")
    });
}

/// A record's kind, and its content in words.
fn describe(entry: &Entry<'_>) -> (&'static str, String) {
    let octets = entry.payload_octets;
    match &entry.record {
        Record::Pulled { port, meta, .. } => {
            let (port, class, to) = (port.0, meta.class.0, meta.to.0);
            (
                "out",
                format!("port {port}, to {to}, class {class}: {octets} octets"),
            )
        }
        Record::Unknown { kind } => ("unknown", format!("kind {kind}, of another version")),
        Record::Input(input) => match input {
            Input::Timeout => ("timer", String::new()),
            Input::Frame { port, from, .. } => (
                "in",
                format!("port {}, from {}: {octets} octets", port.0, from.0),
            ),
            Input::Port { port, event } => ("port", format!("port {}: {event:?}", port.0)),
            Input::TxDone { port, to, ok, .. } => {
                let how = match ok {
                    Some(true) => "delivered",
                    Some(false) => "failed",
                    None => "left",
                };
                ("sent", format!("port {}, to {}: {how}", port.0, to.0))
            }
            Input::Route(change) => ("route", format!("{change:?}")),
            Input::Routed { prefix, event } => ("routed", format!("{prefix}: {event:?}")),
            Input::Stream { id, .. } => {
                let (owner, number) = (id.owner.0, id.n);
                (
                    "stream",
                    format!("{number} of port {owner}: {octets} octets"),
                )
            }
            Input::Socket { id, event } => ("socket", format!("of port {}: {event:?}", id.owner.0)),
            Input::Datagram { meta, .. } => {
                let (src, dst) = (meta.src, meta.dst);
                ("datagram", format!("from {src} to {dst}: {octets} octets"))
            }
            Input::Stored { result, .. } => ("stored", format!("{result:?}")),
            Input::Loaded { result: Ok(_), .. } => ("loaded", format!("{octets} octets")),
            Input::Worked { result: Ok(_), .. } => ("worked", format!("{octets} octets")),
            Input::Worked { result, .. } => ("worked", format!("{result:?}")),
            Input::Loaded { result, .. } => ("loaded", format!("{result:?}")),
            Input::Wall(wall) => ("calendar", format!("{} ns since 1970", wall.0)),
            Input::Command(command) => ("command", format!("{command:?}")),
        },
    }
}

/// How the journal ends, as a word and in words.
fn end(end: Option<JournalEnd>) -> (&'static str, String) {
    match end {
        None => ("difference", "not read to its end: the runs differ".into()),
        Some(JournalEnd::Closed) => ("closed", "the gateway was stopped in order".into()),
        Some(JournalEnd::Limit) => (
            "limit",
            "full: it reached its configured size, and the gateway continued".into(),
        ),
        Some(JournalEnd::Open) => (
            "open",
            "without an ending: the gateway was killed, or still runs".into(),
        ),
        Some(JournalEnd::Torn { offset }) => (
            "torn",
            format!(
                "torn at octet {offset}: the gateway was killed while it wrote, or the file is \
                 damaged; the part before it was repeated"
            ),
        ),
        Some(JournalEnd::Foreign { offset }) => (
            "foreign",
            format!("at octet {offset}, with a malformed record"),
        ),
    }
}

fn to_text(report: &ReplayReport) -> String {
    let (_, end) = end(report.end);
    let head = format!(
        "{} inputs, {} pulls, {} octets in {:.3} s of the gateway's time\n\
         run hash of the octets: {:016x}\njournal ends: {end}\n",
        report.inputs,
        report.pulls,
        report.octets,
        report.ended.as_secs_f64(),
        report.run_hash,
    );
    match &report.difference {
        None => head + "same: the gateway gave the same octets again\n",
        Some(difference) => format!(
            "{head}DIFFERENT: {difference}\n  the journal: {}\n  now:         {}\n",
            pull_text(Some(&difference.expected)),
            pull_text(difference.got.as_ref()),
        ),
    }
}

fn pull_text(pull: Option<&Pull>) -> String {
    let Some(pull) = pull else {
        return "nothing".into();
    };
    let more = if pull.octets.len() > SHOWN_OCTETS {
        " …"
    } else {
        ""
    };
    format!("class {}: {}{more}", pull.meta.class.0, hex(pull))
}

fn hex(pull: &Pull) -> String {
    let shown = pull.octets.iter().take(SHOWN_OCTETS);
    shown.map(|octet| format!("{octet:02x}")).collect()
}

fn to_json(report: &ReplayReport) -> serde_json::Value {
    json!({
        "same": report.difference.is_none(),
        "run_hash": format!("{:016x}", report.run_hash),
        "inputs": report.inputs,
        "pulls": report.pulls,
        "octets": report.octets,
        "ended_s": report.ended.as_secs_f64(),
        "end": end(report.end).0,
        "difference": report.difference.as_ref().map(difference_json),
    })
}

fn difference_json(difference: &Difference) -> serde_json::Value {
    let pull = |pull: &Pull| json!({"octets": pull.octets.len(), "begin": hex(pull)});
    json!({
        "record": difference.record,
        "at_s": difference.at.as_secs_f64(),
        "port": difference.port.0,
        "octet": difference.octet(),
        "expected": pull(&difference.expected),
        "got": difference.got.as_ref().map(pull),
    })
}
