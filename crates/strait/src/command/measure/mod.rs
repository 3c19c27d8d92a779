//! Measuring tools of our own, where no usual program does it.

mod flows;
mod open;
mod pair;
mod pcap;
mod peer;
mod tcp;
mod voice;

use std::process::ExitCode;

pub(super) use self::flows::check as check_script;

/// Measure: a call over RTP, transfers over TCP, the rate that a path has left, the flows of an
/// MGEN script, or anyone's traffic from captures.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    #[command(subcommand)]
    Voice(voice::Command),
    Tcp(tcp::Args),
    Pair(pair::Args),
    /// Send and receive the flows of an MGEN 5 script, with `mgen` or `strait` at the other end.
    ///
    /// Each flow has its own socket, TOS and LABEL. If this host is busy, late messages leave at
    /// once: the mean rate stays right, and the table shows the lateness. Delays are computed from
    /// the timestamps in messages, so both hosts need the same clock.
    #[command(
        after_help = "Examples:\n  strait measure flows scenarios/mgen/listen.mgn --log r.drc &\n  \
                      strait measure flows scenarios/mgen/table3.mgn --log s.drc\n  \
                      mgen input scenarios/mgen/table3.mgn txlog"
    )]
    Flows(flows::Args),
    /// Measure the traffic in captures, by class or flow.
    ///
    /// One capture gives rates, sizes and calls. Two captures of the same traffic give delay,
    /// jitter, loss, order and remarked code points. No gateway is needed. Captures are read once,
    /// in bounded memory.
    #[command(after_help = pcap::EXAMPLES)]
    Pcap(pcap::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Voice(command) => voice::run(command),
        What::Tcp(args) => tcp::run(args),
        What::Pair(args) => pair::run(args),
        What::Flows(args) => flows::run(args),
        What::Pcap(args) => pcap::run(args),
    }
}
