//! What captures tell.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use strait_capture::{Analysis, By, Capture, CaptureError, Settings, Source};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use strait_core::prefix::Prefix;
use strait_core::units::Time;
use strait_live::signals::Stop;

use super::open::{Opened, open};
use crate::exit::BadInput;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The capture, or the one at the first place: pcap or pcapng, also compressed by gzip, zstd or
    /// xz; `-` for stdin.
    a: PathBuf,
    /// A capture at a second place, to compare with the first.
    b: Option<PathBuf>,
    /// Subject of a row.
    #[arg(long, value_enum, default_value_t = RowsBy::Dscp)]
    by: RowsBy,
    /// Interval of peak rates, and the shortest step of plots.
    #[arg(long, value_name = "TIME", default_value = "1 s")]
    interval: Time,
    /// Most rows to show. The rest is summed in one row.
    #[arg(long, value_name = "N", default_value_t = 40)]
    rows: usize,
    /// Clock rate of an RTP payload type. May be given several times.
    #[arg(long, value_name = "TYPE=HZ", value_parser = clock)]
    clock: Vec<(u8, u32)>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Exit with status 1 if the figures are incomplete: a truncated file, a limit that was
    /// reached, clocks that differ.
    #[arg(long)]
    strict: bool,
    /// Write a self-contained HTML report.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    compare: Compare,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Comparing two places")]
struct Compare {
    /// Clock of B minus clock of A, such as "12 ms" or "-1.5 s".
    #[arg(long, value_name = "TIME", default_value = "0 s", allow_hyphen_values = true, value_parser = offset)]
    offset: i64,
    /// Longest delay of a packet, and largest difference of the clocks.
    #[arg(long, value_name = "TIME", default_value = "300 s")]
    window: Time,
    /// Most packets of each capture that wait for their counterpart. Each takes about 250 octets of
    /// memory.
    #[arg(long, value_name = "N", default_value_t = 250_000)]
    pending: usize,
    /// Octets that identify a packet. Use fewer if captures are truncated.
    #[arg(long, value_name = "OCTETS", default_value_t = 256,
          value_parser = clap::value_parser!(u16).range(20..=Settings::MARK_OCTETS_MAX as i64))]
    match_octets: u16,
    /// Addresses and ports are translated between A and B.
    #[arg(long)]
    nat: bool,
    /// Addresses on A's side, to tell directions apart [default: judged by hop limits and times].
    #[arg(long, value_name = "PREFIX")]
    a_side: Vec<Prefix>,
    /// Read only frames of this interface of A, by name or number.
    #[arg(long, value_name = "NAME")]
    a_interface: Option<String>,
    /// Read only frames of this interface of B, by name or number.
    #[arg(long, value_name = "NAME")]
    b_interface: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RowsBy {
    Dscp,
    Flow,
    Pair,
    Protocol,
}

pub(super) const EXAMPLES: &str = "Examples:\n  \
    strait measure pcap link.pcapng\n  \
    strait measure pcap --by flow --rows 10 --report link.html link.pcap.gz\n  \
    tcpdump -i eth0 -w - | strait measure pcap -\n  \
    strait measure pcap lan-a.pcap lan-b.pcap --offset \"-3.2 ms\"\n\n\
    Delays between two places are only as accurate as the clocks of both captures.";

/// A payload type and its clock rate.
fn clock(text: &str) -> Result<(u8, u32), String> {
    let read = || {
        let (payload_type, hz) = text.split_once('=')?;
        let payload_type: u8 = payload_type.parse().ok()?;
        let hz: u32 = hz.parse().ok()?;
        (payload_type < 128 && hz > 0).then_some((payload_type, hz))
    };
    read().ok_or_else(|| String::from("write it like 96=8000"))
}

/// A time that may be negative, in nanoseconds.
fn offset(text: &str) -> Result<i64, String> {
    let (sign, size) = match text.trim().strip_prefix('-') {
        Some(size) => (-1, size),
        None => (1, text),
    };
    let time: Time = size
        .parse()
        .map_err(|error: strait_core::units::UnitError| error.to_string())?;
    let ns = i64::try_from(time.0.as_nanos()).map_err(|_| String::from("it is too long"))?;
    Ok(sign * ns)
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.b.as_deref() == Some(Path::new("-")) && args.a.as_os_str() == "-" {
        return Err(BadInput(String::from("only one of the captures can be stdin")).into());
    }
    if args.interval.0.as_nanos() == 0 {
        return Err(BadInput(String::from("--interval: at least 1 ns")).into());
    }
    let settings = settings(args);
    let stop = Stop::on_signals()?;
    let octets = Arc::new(AtomicU64::new(0));
    let (a, a_octets) = source(&args.a, args.compare.a_interface.clone(), &octets)?;
    let b = args
        .b
        .as_ref()
        .map(|path| source(path, args.compare.b_interface.clone(), &octets))
        .transpose()?;
    let mut whole = a_octets;
    if let Some((_, b_octets)) = &b {
        whole = whole.zip(*b_octets).map(|(a, b)| a + b);
    }
    let bar = progress(whole);
    let mut go_on = || {
        bar.set_position(octets.load(Ordering::Relaxed));
        !stop.is_asked()
    };
    let analysis = match b {
        None => strait_capture::one(a, &settings, &mut go_on),
        Some((b, _)) => strait_capture::two(a, b, &settings, &mut go_on),
    };
    bar.finish_and_clear();
    finish(args, analysis)
}

fn settings(args: &Args) -> Settings {
    let compare = &args.compare;
    let ns = |time: Time| i64::try_from(time.0.as_nanos()).unwrap_or(i64::MAX);
    Settings {
        by: match args.by {
            RowsBy::Dscp => By::Dscp,
            RowsBy::Flow => By::Flow,
            RowsBy::Pair => By::Pair,
            RowsBy::Protocol => By::Protocol,
        },
        interval_ns: u64::try_from(args.interval.0.as_nanos()).unwrap_or(u64::MAX),
        shown: args.rows,
        clocks: args.clock.iter().copied().collect(),
        offset_ns: compare.offset,
        window_ns: ns(compare.window),
        pending_max: compare.pending,
        mark_octets: compare.match_octets.into(),
        translated: compare.nat,
        a_side: compare.a_side.clone(),
    }
}

/// The capture, ready to be read, and its length in octets if that is known.
fn source(
    path: &Path,
    interface: Option<String>,
    octets: &Arc<AtomicU64>,
) -> anyhow::Result<(Source<Opened>, Option<u64>)> {
    let (input, length) = open(path, octets)?;
    let name = path.display().to_string();
    let capture = Capture::open(input).map_err(|error| match error {
        CaptureError::Read(error) => {
            anyhow::Error::from(error).context(format!("cannot read {name}"))
        }
        error => BadInput(format!("{name}: {error}")).into(),
    })?;
    Ok((Source::new(name, capture, interface), length))
}

/// Progress by octets, on a terminal only.
fn progress(octets: Option<u64>) -> ProgressBar {
    let bar = crate::output::progress(0, "reading");
    let template = match octets {
        Some(octets) => {
            bar.set_length(octets);
            "{msg} {wide_bar} {bytes}/{total_bytes} {eta}"
        }
        None => "{msg} {bytes} {bytes_per_sec}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn finish(args: &Args, analysis: Analysis) -> anyhow::Result<ExitCode> {
    for note in &analysis.notes {
        eprintln!("strait: {note}");
    }
    let result = analysis.result.clone();
    if let Some(path) = &args.report {
        let mut title = args.a.display().to_string();
        if let Some(b) = &args.b {
            title = format!("{title} and {}", b.display());
        }
        let about = match args.b {
            Some(_) => "The same packets at two places, A and B.",
            None => "Packets at one place.",
        };
        let page = strait_web::page::results(&analysis.into_report(title, about));
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(crate::output::result(&result, args.json, args.strict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_a_sign_and_a_unit() {
        assert_eq!(offset("12 ms"), Ok(12_000_000));
        assert_eq!(offset("-1.5 s"), Ok(-1_500_000_000));
        assert!(offset("--1 s").is_err());
        assert!(offset("1").is_err());
    }

    #[test]
    fn clocks_are_of_payload_types() {
        assert_eq!(clock("96=8000"), Ok((96, 8000)));
        for wrong in ["128=8000", "96", "96=0", "=1"] {
            assert!(clock(wrong).is_err(), "{wrong}");
        }
    }
}
