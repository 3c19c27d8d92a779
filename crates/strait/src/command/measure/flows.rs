//! The flows of an MGEN script, live.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use strait_core::time::Instant;
use strait_core::units::Time;
use strait_live::clock::monotonic;
use strait_live::clock::utc_offset_s;
use strait_live::signals::Stop;
use strait_measure::flows::{Flows, Outcome};
use strait_node::config_text::ConfigError;
use strait_qos::Dscp;
use strait_report::table::{Cell, Column, ResultSet, Table};
use strait_scenario::{DiskFiles, Files};
use strait_traffic::mgen::{Cloned, Script, What, read_capture};

use crate::exit::BadInput;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The script.
    script: PathBuf,
    /// File for MGEN's text log, `-` for stdout [default: the script's, if it names one].
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Address of this host to send from and listen on [default: any].
    #[arg(long, value_name = "ADDR")]
    local: Option<IpAddr>,
    /// Longest run, from the script's time 0. A listening script ends only if it ignores
    /// its ports again.
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Time>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// End each message with a checksum, like MGEN's `txcheck`.
    #[arg(long)]
    checksum: bool,
    /// Code point of flows without TOS, a name or a number.
    #[arg(long, default_value = "CS0")]
    dscp: Dscp,
    /// Seed of random gaps.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Name of the random streams: `traffic.NAME.0` gives the gaps of a scenario's traffic.
    #[arg(long, default_value = "mgen")]
    name: String,
    /// The script's time 0, in nanoseconds of the kernel's monotonic clock [default: at once].
    #[arg(long, value_name = "NS")]
    start_ns: Option<u64>,
    /// End time, by the same clock.
    #[arg(long, value_name = "NS")]
    until_ns: Option<u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let to_stdout = args.log.as_deref() == Some(Path::new("-"));
    if args.json && to_stdout {
        let message = "--log -: with --json, stdout has the result: name a file";
        return Err(BadInput(message.into()).into());
    }
    let (script, captures) = load(&args.script)?;
    warn(&args.script, &script);
    let zero = match (args.start_ns, script.globals.start) {
        (Some(ns), _) => Instant::from_nanos(ns),
        (None, Some(start)) => strait_measure::flows::time_of_day(start).ok_or_else(|| {
            let message = "the script's START has passed for today: remove START, or start earlier";
            BadInput(message.into())
        })?,
        (None, None) => monotonic(),
    };
    let end = args.length.map(|length| zero + length.0);
    let until = args.until_ns.map(Instant::from_nanos).or(end);
    let listens = script
        .events
        .iter()
        .any(|event| matches!(event.what, What::Listen(..)));
    if listens && until.is_none() && !args.json {
        eprintln!("strait: listening; press Ctrl-C to stop");
    }
    let flows = Flows {
        log: open_log(args, &script)?,
        utc_offset_s: if script.globals.local_time {
            utc_offset_s()
        } else {
            0
        },
        script,
        captures,
        seed: args.seed,
        name: args.name.clone(),
        local: args.local,
        zero,
        until: until.unwrap_or(Instant::NEVER),
        checksum: args.checksum,
        dscp: args.dscp.number(),
    };
    let outcome = flows.run(&Stop::on_signals()?)?;
    for note in &outcome.notes {
        eprintln!("strait: {note}");
    }
    if to_stdout {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(crate::output::result(&tables(&outcome), args.json, false))
}

/// Whether a script is right; what is probably not meant goes to stderr.
pub(in crate::command) fn check(path: &Path) -> anyhow::Result<()> {
    let (script, _) = load(path)?;
    warn(path, &script);
    Ok(())
}

fn warn(path: &Path, script: &Script) {
    for warning in &script.warnings {
        eprintln!(
            "strait: {}:{}: {}",
            path.display(),
            warning.line,
            warning.message
        );
    }
}

type Captures = BTreeMap<String, Arc<[Cloned]>>;

fn load(path: &Path) -> anyhow::Result<(Script, Captures)> {
    let file = path.display().to_string();
    let wrong = |message: String| ConfigError::of_file(&file, message);
    let text = DiskFiles.read(path).map_err(wrong)?;
    let script = Script::parse(&text).map_err(|error| ConfigError {
        line: Some(error.line),
        column: Some(error.column),
        ..wrong(format!("column {}: {}", error.column, error.message))
    })?;
    let mut captures = BTreeMap::new();
    for name in script.captures() {
        let beside = path
            .parent()
            .map_or_else(|| PathBuf::from(name), |folder| folder.join(name));
        let octets = DiskFiles
            .read_octets(&beside)
            .map_err(|why| wrong(format!("{} {why}", beside.display())))?;
        let frames = read_capture(&octets)
            .map_err(|why| wrong(format!("{} doesn't serve: {why}", beside.display())))?;
        captures.insert(name.to_owned(), frames.into());
    }
    let globals = &script.globals;
    for (unused, what) in [(&globals.input, "INPUT"), (&globals.save, "SAVE")] {
        if unused.is_some() {
            eprintln!("strait: {file}: {what} does nothing here");
        }
    }
    Ok((script, captures))
}

/// The log: what the user says, or else the script.
fn open_log(args: &Args, script: &Script) -> anyhow::Result<Option<Box<dyn Write>>> {
    let globals = &script.globals;
    let (path, appends) = match (&args.log, &globals.output, &globals.log) {
        (Some(path), ..) if path == Path::new("-") => {
            return Ok(Some(Box::new(std::io::stdout())));
        }
        (Some(path), ..) => (path.clone(), false),
        (None, Some(output), _) => (output.into(), false),
        (None, None, Some(log)) => (log.into(), true),
        (None, None, None) => return Ok(None),
    };
    let opened = if appends {
        OpenOptions::new().create(true).append(true).open(&path)
    } else {
        File::create(&path)
    };
    let file = opened.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Some(Box::new(file)))
}

fn tables(outcome: &Outcome) -> ResultSet {
    ResultSet {
        tables: vec![sent(outcome), received(outcome), counted(outcome)],
        ..ResultSet::default()
    }
}

fn sent(outcome: &Outcome) -> Table {
    let columns = [
        Column::new("flow", ""),
        Column::new("messages", ""),
        Column::new("octets", ""),
        Column::new("rate", "bit/s"),
        Column::new("not sent", ""),
    ];
    let mut table = Table::new("sent", columns.into());
    for (flow, sent) in &outcome.sent {
        // The last message begins the gap that nothing ends: without it, the rate is that of the
        // gaps.
        let rate = sent
            .span_ns
            .filter(|(first, last)| last > first)
            .map(|(first, last)| {
                let mean = sent.octets as f64 / sent.messages as f64;
                (sent.octets as f64 - mean) * 8e9 / (last - first) as f64
            });
        table.push(vec![
            f64::from(*flow).into(),
            (sent.messages as f64).into(),
            (sent.octets as f64).into(),
            rate.into(),
            (sent.not_sent as f64).into(),
        ]);
    }
    table
}

fn received(outcome: &Outcome) -> Table {
    let metrics = [
        ("loss", ""),
        ("rate_bit_s", "bit/s"),
        ("delay_min_s", "s"),
        ("delay_p50_s", "s"),
        ("delay_p99_s", "s"),
        ("delay_max_s", "s"),
        ("jitter_p99_s", "s"),
    ];
    let counters = ["received", "duplicates", "reordered"];
    let mut columns = vec![Column::new("flow", "")];
    columns.extend(counters.map(|name| Column::new(name, "")));
    columns.extend(metrics.map(|(name, unit)| Column::new(name, unit)));
    let mut table = Table::new("received", columns);
    for flow in &outcome.received {
        let mut row: Vec<Cell> = vec![flow.name.as_str().into()];
        let count = |name: &str| flow.counters.get(name).copied().unwrap_or(0) as f64;
        row.extend(counters.map(|name| Cell::from(count(name))));
        row.extend(metrics.map(|(name, _)| Cell::from(flow.metrics.get(name).copied())));
        table.push(row);
    }
    table
}

fn counted(outcome: &Outcome) -> Table {
    let columns = [
        Column::new("what", ""),
        Column::new("unit", ""),
        Column::new("value", ""),
    ];
    let mut table = Table::new("counted", columns.into());
    let errors: u64 = outcome.errors.values().sum();
    table.push(vec![
        "no messages".into(),
        "".into(),
        (errors as f64).into(),
    ]);
    for (kind, count) in &outcome.errors {
        let name = format!("no messages: {kind}");
        table.push(vec![
            name.as_str().into(),
            "".into(),
            (*count as f64).into(),
        ]);
    }
    for (name, count) in &outcome.counters {
        table.push(vec![(*name).into(), "".into(), (*count as f64).into()]);
    }
    for (name, late_s) in ["p50", "p99", "max"]
        .into_iter()
        .zip(outcome.late_s.unwrap_or([0.0; 3]))
    {
        if outcome.late_s.is_some() {
            let name = format!("sent late, {name}");
            table.push(vec![name.as_str().into(), "s".into(), late_s.into()]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_sent_is_that_of_the_gaps() {
        let mut outcome = Outcome::default();
        let sent_flow = strait_measure::flows::Sent {
            messages: 11,
            octets: 1100,
            not_sent: 2,
            span_ns: Some((5_000_000_000, 6_000_000_000)),
        };
        outcome.sent.insert(7, sent_flow);
        let table = sent(&outcome);
        assert_eq!(
            table.rows[0],
            [7.0, 11.0, 1100.0, 8000.0, 2.0].map(Cell::from)
        );
    }
}
