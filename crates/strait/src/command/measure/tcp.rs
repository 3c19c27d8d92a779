//! Transfers over TCP, measured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use strait_core::time::{Duration, Instant};
use strait_core::units::{BitRate, Octets, Time};
use strait_live::clock::monotonic;
use strait_live::signals::Stop;
use strait_live::signals::StopRequests;
use strait_measure::tcp::{Limits, Listening, PORT_DEFAULT, transfer};
use strait_qos::Dscp;
use strait_report::table::{Check, ResultSet};
use strait_traffic::measure::{Campaign, Request, TransferRecord, tables};
use strait_traffic::{FlowLog, Side, Ways};

use super::peer::{resolved, wait_until};
use crate::exit::BadInput;

/// Measure TCP transfers: connect time, total time, latency of the last octet, utilisation,
/// progress.
///
/// Each size has its own connection, one after another, to or from `strait measure tcp serve` on
/// the other host. A failed transfer is a row of the result. `tcp` traffic with `sizes` in a
/// scenario gives the same tables in virtual time.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  strait measure tcp serve --local 10.2.0.2:5210\n  \
                  strait measure tcp 10.2.0.2 --size 1kB,10kB,100kB --rate 9600bit/s\n  \
                  strait measure tcp 10.2.0.2 --size 1MB --both --congestion bbr --interval 10s\n  \
                  strait measure tcp 10.2.0.2 --size 10kB --runs 5 --json | jq '.tables[0]'"
)]
pub(super) struct Args {
    #[command(subcommand)]
    serve: Option<Command>,
    /// Address of the server [default port: 5210].
    #[arg(value_name = "HOST[:PORT]", required = true)]
    host: Option<String>,
    /// Octets to transfer, one size after another.
    #[arg(
        long = "size",
        value_name = "OCTETS",
        value_delimiter = ',',
        default_value = "1kB,10kB,100kB"
    )]
    sizes: Vec<Octets>,
    /// Number of transfers of each size, in each direction.
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u32,
    /// Rate of the link, to compute its utilisation.
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// Transfer from here to the server. This is the default.
    #[arg(long, conflicts_with_all = ["down", "both"])]
    up: bool,
    /// Transfer from the server to here.
    #[arg(long, conflicts_with = "both")]
    down: bool,
    /// Transfer each size first up and then down.
    #[arg(long)]
    both: bool,
    /// Congestion control of the sender, such as cubic, reno or bbr [default: the system's].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Code point of both ends, a name or a number.
    #[arg(long, default_value_t)]
    dscp: Dscp,
    /// Interval of progress reports.
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    interval: Time,
    /// Longest time of a transfer.
    #[arg(long, value_name = "TIME", default_value = "2 h")]
    timeout: Time,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if a transfer failed or delivered wrong octets.
    #[arg(long)]
    strict: bool,
    /// Write all measured values into this file, as JSON.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Name of the traffic in the log.
    #[arg(long, default_value = "tcp")]
    name: String,
    /// Seed of the content.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Start time, in nanoseconds of the kernel's monotonic clock [default: at once].
    #[arg(long, value_name = "NS")]
    start_ns: Option<u64>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Serve transfers until SIGINT or SIGTERM.
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// Address to listen on. Anyone who can reach it can fill the link.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT_DEFAULT)))]
    local: SocketAddr,
    /// Most simultaneous transfers.
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients as u16,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    clients: u16,
    /// Most octets of a transfer.
    #[arg(long, value_name = "OCTETS", default_value = "1000 MB")]
    size_max: Octets,
    /// Longest time of a connection.
    #[arg(long, value_name = "TIME", default_value_t = Time(Limits::default().time))]
    time_max: Time,
    /// Longest silence of a connection.
    #[arg(long, value_name = "TIME", default_value_t = Time(Limits::default().silence))]
    silence_max: Time,
    /// Exit after this time.
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Time>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(Command::Serve(serve)) = &args.serve {
        return serve.run();
    }
    let campaign = args.campaign()?;
    let peer = resolved(args.host.as_deref().unwrap_or_default(), PORT_DEFAULT)?;
    let stop = Stop::on_signals()?;
    wait_until(args.start_ns.map(Instant::from_nanos), &stop);
    let records = measured(peer, &campaign, &stop);
    if let Some(path) = &args.log {
        let log = FlowLog {
            measured: records.clone(),
            ..FlowLog::new(&args.name, Side::From)
        };
        let text = serde_json::to_string(&log)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let rate_bit_s = args.rate.map(|rate| rate.0);
    let result = ResultSet {
        tables: tables("", &records, rate_bit_s).into(),
        checks: checks(&records, campaign.plans().len()),
        ..ResultSet::default()
    };
    Ok(crate::output::result(&result, args.json, args.strict))
}

fn measured(peer: SocketAddr, campaign: &Campaign, stop: &Stop) -> Vec<TransferRecord> {
    let plans = campaign.plans();
    let bar = crate::output::progress(plans.len(), &peer.to_string());
    let mut records = Vec::new();
    for plan in &plans {
        records.push(transfer(peer, plan, stop));
        bar.inc(1);
        if stop.is_asked() {
            break;
        }
    }
    bar.finish_and_clear();
    records
}

fn checks(records: &[TransferRecord], planned: usize) -> Vec<Check> {
    let complete = records.iter().filter(|it| it.failure.is_none()).count();
    let wrong: u64 = records.iter().map(|it| it.wrong).sum();
    let none = |id, count: f64| Check::range(id, Some(count), "", None, Some(0.0));
    vec![
        none("failed-transfers", (planned - complete) as f64),
        none("wrong-octets", wrong as f64),
    ]
}

impl Args {
    fn campaign(&self) -> Result<Campaign, BadInput> {
        let wrong = |text: String| Err(BadInput(text));
        let sizes = self.sizes.iter();
        let sizes = sizes.map(|size| u32::try_from(size.0).ok().filter(|octets| *octets > 0));
        let Some(sizes) = sizes.collect::<Option<Vec<u32>>>() else {
            return wrong(format!("--size: between 1 B and {} B", u32::MAX));
        };
        let congestion = self.congestion.clone().unwrap_or_default();
        if !Request::is_name(&congestion) {
            let what = "--congestion: a name as in net.ipv4.tcp_available_congestion_control";
            return wrong(String::from(what));
        }
        let interval = self.interval.0;
        if interval < Duration::from_millis(1) || interval > Campaign::INTERVAL_MAX {
            return wrong(String::from("--interval: between 1 ms and 1 h"));
        }
        let ways = match (self.down, self.both) {
            (true, _) => Ways::Down,
            (_, true) => Ways::Both,
            _ => Ways::Up,
        };
        let directions = ways.directions();
        let transfers = sizes.len() as u64 * directions.len() as u64 * u64::from(self.runs);
        if self.runs == 0 || transfers > Campaign::TRANSFERS_MAX as u64 {
            let max = Campaign::TRANSFERS_MAX;
            return wrong(format!(
                "--runs: at least 1, and {max} transfers in all at most"
            ));
        }
        Ok(Campaign {
            sizes,
            directions,
            runs: self.runs,
            interval,
            timeout: self.timeout.0,
            dscp: self.dscp.number(),
            congestion,
            seed: self.seed,
        })
    }
}

impl Serve {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let Ok(octets) = u32::try_from(self.size_max.0) else {
            return Err(BadInput(format!("--size-max: at most {} B", u32::MAX)).into());
        };
        let limits = Limits {
            clients: usize::from(self.clients),
            octets,
            time: self.time_max.0,
            silence: self.silence_max.0,
        };
        let stop = StopRequests::new()?;
        let _signals = stop.on_signals()?;
        let listening = Listening::bind(self.local, limits)?;
        eprintln!("strait: measured transfers at {}", listening.address());
        let until = self.length.map(|length| monotonic() + length.0);
        let tally = listening.run(stop, until)?;
        eprintln!(
            "strait: {} connections, {} transfers complete, {} declined, {} expired",
            tally.connections, tally.complete, tally.declined, tally.expired
        );
        Ok(ExitCode::SUCCESS)
    }
}
