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
    /// Each flow has a socket of its own, so that its TOS and LABEL are its own too. Messages that
    /// are late, because this host was busy, leave at once: the rate is right in the long run, and
    /// the table says how late. Delays come from the times that messages carry: both hosts
    /// need the same clock.
    #[command(
        after_help = "Examples:\n  strait measure flows scenarios/mgen/listen.mgn --log r.drc &\n  \
                      strait measure flows scenarios/mgen/table3.mgn --log s.drc\n  \
                      mgen input scenarios/mgen/table3.mgn txlog"
    )]
    Flows(flows::Args),
    /// Anyone's traffic by class or flow: one capture for rates, sizes and calls; two of the same
    /// traffic for delay, jitter, loss, order and remarked code points.
    ///
    /// It needs no gateway. Everything is read once, in bounded memory.
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
