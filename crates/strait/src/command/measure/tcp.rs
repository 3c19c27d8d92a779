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

/// Transfers over TCP: connect time, total time, latency of the last octet, utilisation, progress.
///
/// Each size is transferred over a connection of its own, one after another, to or from `strait
/// measure tcp serve` at the other host. Whatever fails is a row of the result. `tcp` traffic with
/// `sizes` in a scenario gives the same tables in virtual time.
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
    /// Where the server is, with its port if it isn't 5210.
    #[arg(value_name = "HOST[:PORT]", required = true)]
    host: Option<String>,
    /// Octets of content to transfer, one size after another.
    #[arg(
        long = "size",
        value_name = "OCTETS",
        value_delimiter = ',',
        default_value = "1kB,10kB,100kB"
    )]
    sizes: Vec<Octets>,
    /// How often each size, in each direction.
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: u32,
    /// Rate of the link between, for the utilisation.
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// From here to the server; so it is if nothing is said.
    #[arg(long, conflicts_with_all = ["down", "both"])]
    up: bool,
    /// From the server.
    #[arg(long, conflicts_with = "both")]
    down: bool,
    /// Each size first up and then down.
    #[arg(long)]
    both: bool,
    /// Congestion control of the sending end, such as cubic, reno or bbr; the system's if absent.
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Code point of what both ends send, a name or a number.
    #[arg(long, default_value_t)]
    dscp: Dscp,
    /// Length of the intervals in which progress is told.
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    interval: Time,
    /// How long a transfer may take.
    #[arg(long, value_name = "TIME", default_value = "2 h")]
    timeout: Time,
    /// One JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit status 1 if a transfer failed or brought wrong octets.
    #[arg(long)]
    strict: bool,
    /// Write everything that was measured into this file, as JSON.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Name of the traffic in the log.
    #[arg(long, default_value = "tcp")]
    name: String,
    /// Seed of the content.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// When to begin, in nanoseconds of the kernel's monotonic clock; at once if absent.
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
    /// Where to listen. Anybody who can reach this address can fill the link.
    #[arg(long, value_name = "ADDR", default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT_DEFAULT)))]
    local: SocketAddr,
    /// Transfers at once.
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients as u16,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    clients: u16,
    /// Octets of content of a transfer, at most.
    #[arg(long, value_name = "OCTETS", default_value = "1000 MB")]
    size_max: Octets,
    /// How long a connection may take.
    #[arg(long, value_name = "TIME", default_value_t = Time(Limits::default().time))]
    time_max: Time,
    /// How long a connection may be silent.
    #[arg(long, value_name = "TIME", default_value_t = Time(Limits::default().silence))]
    silence_max: Time,
    /// End after so long.
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
