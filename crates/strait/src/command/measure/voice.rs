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

/// Measure a call: RTP packets at a fixed period, with a log of each packet at both ends.
///
/// Delays are computed from the logs of both ends. They need a common clock: both ends on one host,
/// in network namespaces or over a loop back to it.
#[derive(Debug, clap::Subcommand)]
#[command(
    after_help = "Examples:\n  strait measure voice receive --local [::]:5004 --log r.json &\n  \
                  strait measure voice send --local [::]:5006 --peer [::1]:5004 --log s.json\n  \
                  strait measure voice report s.json r.json"
)]
pub(super) enum Command {
    /// Act as the caller: send packets, and log those that come back.
    Send(End),
    /// Act as the called end: log incoming packets, and with --answer send as well.
    Receive(End),
    /// Combine the logs of both ends.
    Report(Logs),
}

#[derive(Debug, clap::Args)]
pub(super) struct End {
    /// Local address of the call.
    #[arg(long, value_name = "ADDR")]
    local: SocketAddr,
    /// Address of the other end. `receive` takes it from the first packet if absent.
    #[arg(long, value_name = "ADDR")]
    peer: Option<SocketAddr>,
    /// File for the log, as JSON [default: stdout].
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Duration of the call.
    #[arg(long = "for", value_name = "TIME", default_value = "10 s")]
    length: Time,
    /// Time between packets.
    #[arg(long, value_name = "TIME", default_value = "200 ms")]
    period: Time,
    /// Payload of each packet, after the RTP header.
    #[arg(long, value_name = "OCTETS", default_value = "31 B")]
    payload: Octets,
    /// Code point of sent packets, a name or a number.
    #[arg(long, default_value = "EF")]
    dscp: Dscp,
    /// With `receive`: send as well.
    #[arg(long)]
    answer: bool,
    /// Name of the traffic in the log.
    #[arg(long, default_value = "voice")]
    name: String,
    /// Seed of the packets' content.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Start time, in nanoseconds of the kernel's monotonic clock [default: at once].
    #[arg(long, value_name = "NS")]
    start_ns: Option<u64>,
    /// Time to stop sending, by the same clock [default: after --for].
    #[arg(long, value_name = "NS")]
    stop_ns: Option<u64>,
    /// End time, by the same clock [default: 2 s after the last packet].
    #[arg(long, value_name = "NS")]
    until_ns: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(super) struct Logs {
    /// Log of the caller.
    sent: PathBuf,
    /// Log of the called end.
    received: PathBuf,
    /// Print one JSON object on stdout.
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
        return Err(BadInput(String::from(
            "--peer ADDR is needed: the address to send to",
        ))
        .into());
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
    Ok(log.map_err(|error| BadInput(format!("{}: is not a log: {error}", path.display())))?)
}
