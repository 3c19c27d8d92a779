//! Packet pairs and trains.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use strait_core::time::Instant;
use strait_core::units::{Octets, Time};
use strait_live::clock::monotonic;
use strait_live::signals::Stop;
use strait_live::signals::StopRequests;
use strait_measure::pair::{Listening, Outcome, PORT_DEFAULT, probe};
use strait_qos::Dscp;
use strait_report::Report;
use strait_report::table::{Check, ResultSet};
use strait_traffic::pair::{PairCampaign, PairSummary, figure};
use strait_traffic::{FlowLog, Side};

use super::peer::{resolved, wait_until};
use crate::exit::BadInput;

/// Measure the available rate of a path by packet pairs and trains, without a gateway's help.
///
/// Pairs of datagrams leave back to back for `strait measure pair --serve` on the other host. Their
/// spacing at arrival grows with their size. A robust regression over many sizes gives the rate
/// with its 95 % interval, also beside calls and bursts. `pair` traffic in a scenario gives the
/// same tables in virtual time.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait measure pair --serve --local 10.2.0.2:5211\n  \
                  strait measure pair 10.2.0.2\n  \
                  strait measure pair 10.2.0.2 --size 100,700,1400 --count 30 --trains 10\n  \
                  strait measure pair 10.2.0.2 --report pairs.html --plot pairs.svg\n  \
                  strait measure pair 10.2.0.2 --json | jq '.tables[0]'"
)]
pub(super) struct Args {
    /// Address of the receiver [default port: 5211].
    #[arg(value_name = "HOST[:PORT]", required_unless_present = "serve")]
    host: Option<String>,
    /// Act as the receiver, until SIGINT or SIGTERM.
    #[arg(long, conflicts_with = "host")]
    serve: bool,
    /// With --serve: address to listen on. Anyone who can reach it is answered, with no more octets
    /// than were received.
    #[arg(long, value_name = "ADDR", requires = "serve",
          default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT_DEFAULT)))]
    local: SocketAddr,
    /// With --serve: exit after this time.
    #[arg(long = "for", value_name = "TIME", requires = "serve")]
    length: Option<Time>,
    /// Packet sizes in octets, with IP and UDP headers.
    #[arg(
        long = "size",
        value_name = "OCTETS",
        value_delimiter = ',',
        default_values_t = PairCampaign::SIZES.map(|octets| Octets(u64::from(octets)))
    )]
    sizes: Vec<Octets>,
    /// Number of pairs of each size.
    #[arg(long, value_name = "N", default_value_t = PairCampaign::default().count)]
    count: u32,
    /// Packets in a train, all of the largest size.
    #[arg(long, value_name = "N", default_value_t = PairCampaign::default().train)]
    train: u8,
    /// Number of trains.
    #[arg(long, value_name = "N", default_value_t = PairCampaign::default().trains)]
    trains: u32,
    /// Mean pause between groups. Pauses are random, so that they meet every phase of periodic
    /// traffic. The mean should exceed that traffic's period.
    #[arg(long, value_name = "TIME", default_value_t = Time(PairCampaign::default().pause))]
    pause: Time,
    /// Longest time to wait for an answer, until the path's delay is known.
    #[arg(long, value_name = "TIME", default_value_t = Time(PairCampaign::default().timeout))]
    timeout: Time,
    /// Code point of sent packets, a name or a number.
    #[arg(long, default_value_t)]
    dscp: Dscp,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if there is no result or a group was lost.
    #[arg(long)]
    strict: bool,
    /// Write a report with the plot into this file, as HTML.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the plot alone into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write all measured values into this file, as JSON.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Name of the traffic in the log.
    #[arg(long, default_value = "pair")]
    name: String,
    /// Seed of order, pauses and content.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Start time, in nanoseconds of the kernel's monotonic clock [default: at once].
    #[arg(long, value_name = "NS")]
    start_ns: Option<u64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.serve {
        return serve(args);
    }
    let campaign = args.campaign()?;
    let peer = resolved(args.host.as_deref().unwrap_or_default(), PORT_DEFAULT)?;
    let stop = Stop::on_signals()?;
    wait_until(args.start_ns.map(Instant::from_nanos), &stop);
    let groups = campaign.groups().len();
    let bar = crate::output::progress(groups, &peer.to_string());
    let outcome = probe(peer, args.dscp.number(), &campaign, &stop, |done| {
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let outcome = outcome?;
    if let Some(path) = &args.log {
        let log = FlowLog {
            pairs: outcome.records.clone(),
            ..FlowLog::new(&args.name, Side::From)
        };
        put(path, &serde_json::to_string(&log)?)?;
    }
    if outcome.is_unanswered {
        let refused = if outcome.refused > 0 {
            "nobody listens there"
        } else {
            "no answer came"
        };
        anyhow::bail!(
            "{peer}: {refused}; run `strait measure pair --serve --local ADDR` at that host, \
             or raise --timeout for a slower path"
        );
    }
    let summary = PairSummary::new(&outcome.records);
    let result = ResultSet {
        tables: summary.tables("").into(),
        checks: checks(&summary, &outcome, groups),
        ..ResultSet::default()
    };
    let picture = figure(
        "pair separation against size",
        vec![summary.marks(&peer.to_string())],
    );
    if let Some(path) = &args.plot {
        put(path, &picture.to_svg())?;
    }
    if let Some(path) = &args.report {
        let report = Report {
            title: format!("available rate to {peer}"),
            result: result.clone(),
            figures: vec![picture],
            ..Report::default()
        };
        put(path, &strait_web::page::results(&report))?;
    }
    Ok(crate::output::result(&result, args.json, args.strict))
}

fn put(path: &PathBuf, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn checks(summary: &PairSummary, outcome: &Outcome, groups: usize) -> Vec<Check> {
    let told = summary.rate_bit_s().or_else(|| summary.train_bit_s());
    let lost = groups - outcome.records.len() + summary.lost;
    let none = |id, count: usize| Check::range(id, Some(count as f64), "", None, Some(0.0));
    vec![
        Check::range(
            "available-rate",
            told.map(|it| it.value),
            "bit/s",
            None,
            None,
        )
        .failed(),
        none("lost-groups", lost),
        none("sender-bound-groups", summary.sender_bound),
    ]
}

impl Args {
    fn campaign(&self) -> Result<PairCampaign, BadInput> {
        let narrow = |octets: &Octets| u32::try_from(octets.0).unwrap_or(u32::MAX);
        let campaign = PairCampaign {
            sizes: self.sizes.iter().map(narrow).collect(),
            count: self.count,
            train: self.train,
            trains: self.trains,
            pause: self.pause.0,
            timeout: self.timeout.0,
            seed: self.seed,
        };
        match campaign.fault() {
            None => Ok(campaign),
            Some(("sizes", bounds)) => Err(BadInput(format!("--size: {bounds}"))),
            Some((key, bounds)) => Err(BadInput(format!("--{key}: {bounds}"))),
        }
    }
}

fn serve(args: &Args) -> anyhow::Result<ExitCode> {
    let stop = StopRequests::new()?;
    let _signals = stop.on_signals()?;
    let listening = Listening::bind(args.local, args.dscp.number())?;
    eprintln!("strait: packet pairs at {}", listening.address());
    let until = args.length.map(|length| monotonic() + length.0);
    let tally = listening.run(stop, until)?;
    eprintln!(
        "strait: {} datagrams, {} answers, {} errors",
        tally.datagrams, tally.answers, tally.errors
    );
    Ok(ExitCode::SUCCESS)
}
