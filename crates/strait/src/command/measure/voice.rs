//! A call, measured.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use strait_core::time::{Duration, Instant};
use strait_core::units::{Octets, Time};
use strait_live::clock::monotonic;
use strait_live::signals::Stop;
use strait_measure::voice::Voice;
use strait_qos::Dscp;
use strait_report::table::{Column, ResultSet, Table};
use strait_scenario::unit_of;
use strait_traffic::{FlowLog, Side, TrafficConfig, report};

use crate::exit::BadInput;

/// A call: RTP packets at a fixed period, with a log of each packet at both ends.
///
/// Delays come from the logs of both ends, which share a clock on one host only: in network
/// namespaces, or over a loop back to the same host.
#[derive(Debug, clap::Subcommand)]
#[command(
    after_help = "Examples:\n  strait measure voice receive --local [::]:5004 --log r.json &\n  \
                  strait measure voice send --local [::]:5006 --peer [::1]:5004 --log s.json\n  \
                  strait measure voice report s.json r.json"
)]
pub(super) enum Command {
    /// Be the end that calls: send, and log what comes back.
    Send(End),
    /// Be the end that is called: log what comes, and send as well with --answer.
    Receive(End),
    /// Join the logs of both ends.
    Report(Logs),
}

#[derive(Debug, clap::Args)]
pub(super) struct End {
    /// Where packets leave and arrive.
    #[arg(long, value_name = "ADDR")]
    local: SocketAddr,
    /// The other end. Receiving, it may be left out: the first packet tells.
    #[arg(long, value_name = "ADDR")]
    peer: Option<SocketAddr>,
    /// Where the log goes, as JSON; stdout if absent.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// How long to send.
    #[arg(long = "for", value_name = "TIME", default_value = "10 s")]
    length: Time,
    /// Time from one packet to the next.
    #[arg(long, value_name = "TIME", default_value = "200 ms")]
    period: Time,
    /// Octets in each packet after the RTP header.
    #[arg(long, value_name = "OCTETS", default_value = "31 B")]
    payload: Octets,
    /// Code point of what is sent, a name or a number.
    #[arg(long, default_value = "EF")]
    dscp: Dscp,
    /// Receiving: send as well.
    #[arg(long)]
    answer: bool,
    /// Name of the traffic in the log.
    #[arg(long, default_value = "voice")]
    name: String,
    /// Seed of what the packets contain.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// When to begin to send, in nanoseconds of the kernel's monotonic clock; at once if absent.
    #[arg(long, value_name = "NS")]
    start_ns: Option<u64>,
    /// When to send nothing new any more, by the same clock; after --for if absent.
    #[arg(long, value_name = "NS")]
    stop_ns: Option<u64>,
    /// When to end, by the same clock; 2 s after the last packet if absent.
    #[arg(long, value_name = "NS")]
    until_ns: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Logs {
    /// The log of the end that called.
    sent: PathBuf,
    /// The log of the other.
    received: PathBuf,
    /// One JSON object on stdout.
    #[arg(long)]
    json: bool,
}

/// Packets may still be under way when the last one has left.
const LINGER: Duration = Duration::from_secs(2);
/// Longest payload that fits a datagram with the RTP header.
const PAYLOAD_MAX: u64 = 1400;

pub(super) fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Send(end) => talk(end, Side::From, true),
        Command::Receive(end) => talk(end, Side::To, end.answer),
        Command::Report(logs) => joined(logs),
    }
}

fn talk(end: &End, side: Side, sends: bool) -> anyhow::Result<ExitCode> {
    if side == Side::From && end.peer.is_none() {
        return Err(BadInput(String::from("--peer: whom to send to is needed")).into());
    }
    if end.payload.0 > PAYLOAD_MAX {
        return Err(BadInput(format!("--payload: at most {PAYLOAD_MAX} B")).into());
    }
    if end.period.0 < Duration::from_micros(100) {
        return Err(BadInput(String::from("--period: at least 100 us")).into());
    }
    let start = end.start_ns.map_or_else(monotonic, Instant::from_nanos);
    let stop = end
        .stop_ns
        .map_or(start + end.length.0, Instant::from_nanos);
    let until = end.until_ns.map_or(stop + LINGER, Instant::from_nanos);
    let voice = Voice {
        name: end.name.clone(),
        side,
        local: end.local,
        peer: end.peer,
        dscp: end.dscp.number(),
        payload_octets: end.payload.0 as u32,
        period: end.period.0,
        sends: sends.then_some((start, stop)),
        until,
        seed: end.seed,
    };
    let log = voice.run(&Stop::on_signals()?)?;
    let text = serde_json::to_string(&log)?;
    match &end.log {
        Some(path) => std::fs::write(path, text)
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => crate::output::print(&(text + "\n")),
    }
    Ok(ExitCode::SUCCESS)
}

fn joined(logs: &Logs) -> anyhow::Result<ExitCode> {
    let (from, to) = (read(&logs.sent)?, read(&logs.received)?);
    let config = format!(
        "name = \"{}\"\nkind = \"voice\"\nfrom = \"from\"\nto = \"to\"",
        from.traffic.escape_default()
    );
    let config: TrafficConfig = toml::from_str(&config)?;
    let flow = report(&config, &from, &to);
    let columns = ["metric", "unit", "value"].map(|name| Column::new(name, ""));
    let mut table = Table::new(flow.name.as_str(), columns.into());
    for (metric, value) in &flow.metrics {
        table.push(vec![
            metric.as_str().into(),
            unit_of(metric).into(),
            (*value).into(),
        ]);
    }
    for (counter, count) in &flow.counters {
        table.push(vec![
            counter.as_str().into(),
            "".into(),
            (*count as f64).into(),
        ]);
    }
    let result = ResultSet {
        tables: vec![table],
        ..ResultSet::default()
    };
    Ok(crate::output::result(&result, logs.json, false))
}

fn read(path: &Path) -> anyhow::Result<FlowLog> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let log = serde_json::from_str(&text);
    Ok(log.map_err(|error| BadInput(format!("{}: is no log: {error}", path.display())))?)
}
