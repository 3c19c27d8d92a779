//! How fast the engine is on this machine.

use std::hint::black_box;
use std::io::Read;
use std::process::ExitCode;

use anyhow::{bail, ensure};
use strait_capture::{Analysis, Capture, Settings, Source, Synthetic, bare_walk};
use strait_core::Duration;
use strait_core::units::{BitRate, Octets};
use strait_lab::bench_tun::{Between, Passed, TunPath};
use strait_lab::kernel::QueueSpeed;
use strait_lab::kernel::bench::INTERFACE;
use strait_link::load::{BATCH, Calls};
use strait_live::Clock;
use strait_qos::config::ShapeConfig;
use strait_qos::export::{Queues, export};
use strait_qos::load::{self, BareQueue, Load};
use strait_qos::plan::{Rate, ShapeKind};
use strait_sim::bench::{BareAir, BareCopy, Chain, Middle, Saturated, Scale, Torus};
use strait_sim::study::{cases_of, transfer};

use crate::exit;
use crate::output::{print, progress};

/// Measure how fast the simulator, the live path and the analyser of captures are on this machine.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  strait bench\n  strait bench sim-hops --json\n\n\
                        Absolute rates depend on the machine's load. Each comes with its ratio to a\n\
                        simple reference that is measured in the same run."
)]
pub(crate) struct Args {
    /// Benchmarks to run [default: all].
    #[arg(value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    names: Vec<String>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    json: bool,
    /// Octets of the file that the simulated transfers carry.
    #[arg(long, value_name = "OCTETS", default_value_t = 50_000_000, hide = true)]
    octets: u64,
}

const NAMES: [&str; 9] = [
    "sim-hops",
    "sim-hops-gateway",
    "sim-scale",
    "sim-cell",
    "sim-sweep",
    "qos-enqueue",
    "rohc-pps",
    "live-tun",
    "pcap",
];

/// One figure; no value where it could not be measured.
struct Figure {
    id: String,
    value: Option<f64>,
    unit: &'static str,
    /// What was compared, where the name doesn't say it.
    about: &'static str,
}

fn figure(id: impl Into<String>, value: f64, unit: &'static str) -> Figure {
    Figure {
        id: id.into(),
        value: Some(value),
        unit,
        about: "",
    }
}

/// Figures that could not be measured.
fn none(names: &[(&str, &'static str)]) -> Vec<Figure> {
    let none = |(id, unit): &(&str, &'static str)| Figure {
        id: (*id).to_owned(),
        value: None,
        unit,
        about: "",
    };
    names.iter().map(none).collect()
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = |name: &&str| args.names.is_empty() || args.names.iter().any(|it| it == name);
    let names: Vec<_> = NAMES.into_iter().filter(chosen).collect();
    let bar = progress(names.len(), "measuring");
    let mut figures = Vec::new();
    for name in names {
        match name {
            "sim-hops" => figures.extend(sim(name, Middle::Routers, args.octets)?),
            "sim-hops-gateway" => figures.extend(sim(name, Middle::Gateways, args.octets)?),
            "sim-scale" => figures.extend(sim_scale()?),
            "sim-cell" => figures.extend(sim_cell()?),
            "sim-sweep" => figures.extend(sim_sweep()?),
            "qos-enqueue" => figures.extend(qos_enqueue()?),
            "rohc-pps" => figures.extend(rohc_pps()?),
            "live-tun" => figures.extend(live_tun()?),
            "pcap" => figures.extend(pcap()?),
            other => bail!("there is no benchmark `{other}`"),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    print(&if args.json {
        json(&figures)
    } else {
        text(&figures)
    });
    let missing = figures.iter().any(|figure| figure.value.is_none());
    let all = figures.iter().all(|figure| figure.value.is_none());
    Ok(if missing && all {
        ExitCode::from(exit::CANNOT_RUN)
    } else {
        ExitCode::SUCCESS
    })
}

/// Packet-hops a second of the simulated chain, and what a bare copy of them makes.
fn sim(name: &str, middle: Middle, octets: u64) -> anyhow::Result<Vec<Figure>> {
    let mut chain = Chain::new(middle, octets)?;
    let clock = Clock::start();
    let outcome = chain.run();
    let seconds = clock.now().as_secs_f64();
    ensure!(
        outcome.complete,
        "the simulated transfer didn't get through"
    );
    let hops = outcome.hops as f64;
    let packets = outcome.octets.div_ceil(BareCopy::HOP_OCTETS);
    let clock = Clock::start();
    black_box(BareCopy::default().run(packets));
    let copy_seconds = clock.now().as_secs_f64();
    Ok(vec![
        figure(name, hops / seconds, "hops/s"),
        figure(format!("{name}-ratio"), copy_seconds / seconds, "1"),
        figure(
            format!("{name}-events"),
            outcome.events as f64 / hops,
            "events/hop",
        ),
    ])
}

/// Octets of the chain's file in one round, and virtual time of the large world in one.
const SCALE_ROUND: (u64, Duration) = (3_000_000, Duration::from_secs(4));

/// What a packet-hop costs among 200 gateways ÷ what it costs in the chain of three, in turns.
fn sim_scale() -> anyhow::Result<Vec<Figure>> {
    let (octets, time) = SCALE_ROUND;
    let mut scale = Scale::new(&Torus::TARGET)?;
    let (mut rates, mut costs, mut events) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..ROUNDS {
        let mut chain = Scale::chain(octets)?;
        let clock = Clock::start();
        let outcome = chain.run();
        let chain_s = clock.now().as_secs_f64() / outcome.hops as f64;
        let clock = Clock::start();
        let (hops, happened) = scale.run(time);
        let rate = hops as f64 / clock.now().as_secs_f64();
        rates.push(rate);
        costs.push(1.0 / rate / chain_s);
        events = happened as f64 / hops as f64;
    }
    Ok(vec![
        figure("sim-scale", middle(rates), "hops/s"),
        Figure {
            about: "a hop's time ÷ that in sim-hops-gateway",
            ..figure("sim-scale-cost", middle(costs), "1")
        },
        figure("sim-scale-events", events, "events/hop"),
    ])
}

/// Stations of the saturated cell, virtual time of a round, and clusters of the large one.
const CELL: (usize, Duration, usize) = (50, Duration::from_secs(60), 8);

/// Receptions a second of a saturated cell, what a bare loop makes of them, and what one costs
/// among stations of which most are too far away, in turns.
fn sim_cell() -> anyhow::Result<Vec<Figure>> {
    let (stations, time, clusters) = CELL;
    let mut cell = Saturated::new(1, stations)?;
    let mut large = Saturated::new(clusters, stations)?;
    let mut bare = BareAir::new(stations);
    let (mut rates, mut ratios, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let clock = Clock::start();
        let receptions = cell.run(time);
        let seconds = clock.now().as_secs_f64();
        let clock = Clock::start();
        black_box(bare.run(receptions));
        ratios.push(clock.now().as_secs_f64() / seconds);
        let clock = Clock::start();
        let among = large.run(time / clusters as u32) as f64;
        costs.push(clock.now().as_secs_f64() / among / (seconds / receptions as f64));
        rates.push(receptions as f64 / seconds);
    }
    Ok(vec![
        figure("sim-cell", middle(rates), "receptions/s"),
        figure("sim-cell-ratio", middle(ratios), "1"),
        Figure {
            about: "a reception's time among 400 stations of which each hears 49 ÷ that in sim-cell",
            ..figure("sim-cell-cost", middle(costs), "1")
        },
    ])
}

/// Columns of the study `hbh` that are swept.
const SWEPT: [&str; 2] = ["end to end", "strait"];

/// Seconds for all losses of the study `hbh`, each with all of its seeds, without repairs and with
/// reliable hops, on all cores; and what a bare copy of as many octets makes of them on one.
fn sim_sweep() -> anyhow::Result<Vec<Figure>> {
    let cases = cases_of(&SWEPT)?;
    let clock = Clock::start();
    let runs = transfer::run(&cases, false, || {})?;
    let seconds = clock.now().as_secs_f64();
    let runs = || runs.iter().flatten();
    let octets: u64 = runs().map(|run| run.octets).sum();
    let clock = Clock::start();
    black_box(BareCopy::default().run(octets.div_ceil(BareCopy::HOP_OCTETS)));
    let copy_seconds = clock.now().as_secs_f64();
    Ok(vec![
        figure("sim-sweep", seconds, "s"),
        figure("sim-sweep-runs", runs().count() as f64, "runs"),
        figure("sim-sweep-ratio", copy_seconds / seconds, "1"),
    ])
}

/// Rounds of a live measurement; the middle one counts.
const ROUNDS: usize = 5;
/// Packets of a round through a port's queue.
const QUEUED: u64 = 400_000;
/// Length of one round of one of the two things compared.
const ROUND: Duration = Duration::from_millis(600);

/// Packets a second that a port classifies, queues and schedules, and what a bare queue makes.
fn qos_enqueue() -> anyhow::Result<Vec<Figure>> {
    let (mut load, mut bare) = (Load::new()?, BareQueue::default());
    let (mut rates, mut ratios) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let clock = Clock::start();
        ensure!(load.pass(QUEUED) == QUEUED, "the port stopped sending");
        let seconds = clock.now().as_secs_f64();
        let clock = Clock::start();
        black_box(bare.pass(QUEUED));
        ratios.push(clock.now().as_secs_f64() / seconds);
        rates.push(QUEUED as f64 / seconds);
    }
    let rate = middle(rates);
    let mut figures = vec![
        figure("qos-enqueue", rate, "packets/s"),
        figure("qos-enqueue-ratio", middle(ratios), "1"),
    ];
    figures.extend(qos_kernel(&load, rate).unwrap_or_else(|error| {
        eprintln!("strait: qos-kernel is left out: {error}");
        none(&QOS_KERNEL.map(|(id, unit, _)| (id, unit)))
    }));
    Ok(figures)
}

const QOS_KERNEL: [(&str, &str, &str); 4] = [
    (
        "qos-kernel",
        "packets/s",
        "this kernel: the policy's nftables and HTB, without sockets and interface",
    ),
    ("qos-kernel-ratio", "1", "qos-enqueue ÷ qos-kernel"),
    ("qos-kernel-path", "packets/s", "with sockets and interface"),
    (
        "qos-kernel-bare",
        "packets/s",
        "sockets and interface alone",
    ),
];
/// Rounds of 1000 packets through the kernel.
const KERNEL_ROUNDS: usize = 200;
/// Nothing that a kernel's tree is to wait for.
const KERNEL_LINE: BitRate = BitRate(100_000_000_000);

/// What the kernel makes of the same policy and packets.
fn qos_kernel(load: &Load, own_rate: f64) -> anyhow::Result<Vec<Figure>> {
    let mut config = load::policy().expand()?;
    // At this speed a policer would let nothing through.
    config.classes.iter_mut().for_each(|it| it.police = None);
    // What can be shut while packets come in.
    config.shape = Some(ShapeConfig {
        kind: ShapeKind::TokenBucket,
        rate: Rate::Fixed(KERNEL_LINE.0),
        burst: Some(Octets(10_000_000)),
        excess: None,
    });
    let exported = export(&config, INTERFACE, Some(KERNEL_LINE), Queues::Plain)?;
    let mut speed = QueueSpeed::open(&exported, &load.packets())?;
    // The first packets warm caches.
    speed.round()?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..KERNEL_ROUNDS {
        let round = speed.round()?;
        with.push(round.with.as_secs_f64());
        without.push(round.without.as_secs_f64());
    }
    let packets = speed.packets() as f64;
    let (with, without) = (middle(with), middle(without));
    let rate = packets / (with - without);
    let values = [rate, own_rate / rate, packets / with, packets / without];
    let figures = QOS_KERNEL.iter().zip(values);
    let figures = figures.map(|((id, unit, about), value)| Figure {
        about,
        ..figure(*id, value, unit)
    });
    Ok(figures.collect())
}

/// Batches of calls' packets in a round of header compression.
const BATCHES: usize = 60;

/// Packets of calls a second whose headers are compressed, and restored, and what a copy of them
/// with its checksum verified makes.
fn rohc_pps() -> anyhow::Result<Vec<Figure>> {
    let mut calls = Calls::default();
    let mut values: [Vec<f64>; 4] = Default::default();
    let packets = (BATCHES * BATCH) as f64;
    for _ in 0..ROUNDS {
        let mut spent = [0.0; 3];
        for _ in 0..BATCHES {
            calls.prepare();
            let clock = Clock::start();
            black_box(calls.compress());
            let compressed = clock.now().as_secs_f64();
            ensure!(calls.decompress() == BATCH, "a packet got lost");
            let restored = clock.now().as_secs_f64();
            ensure!(calls.copy() == BATCH, "a checksum is wrong");
            let copied = clock.now().as_secs_f64();
            calls.hear();
            for (spent, more) in
                spent
                    .iter_mut()
                    .zip([compressed, restored - compressed, copied - restored])
            {
                *spent += more;
            }
        }
        let [compress_s, decompress_s, copy_s] = spent;
        let round = [
            packets / compress_s,
            copy_s / compress_s,
            packets / decompress_s,
            copy_s / decompress_s,
        ];
        for (values, value) in values.iter_mut().zip(round) {
            values.push(value);
        }
    }
    let names = [
        ("rohc-pps-compress", "packets/s"),
        ("rohc-pps-compress-ratio", "1"),
        ("rohc-pps-decompress", "packets/s"),
        ("rohc-pps-decompress-ratio", "1"),
    ];
    let figures = names.into_iter().zip(values);
    let figures = figures.map(|((id, unit), values)| figure(id, middle(values), unit));
    Ok(figures.collect())
}

/// UDP through two live gateways against a bare copy of it, in turns, so that what else the
/// machine does meets both.
fn live_tun() -> anyhow::Result<Vec<Figure>> {
    let paths = [Between::Copy, Between::Gateway].map(TunPath::open);
    let [bare, gateways] = match paths {
        [Ok(bare), Ok(gateways)] => [bare, gateways],
        [Err(error), _] | [_, Err(error)] => {
            eprintln!("strait: live-tun is left out: {error}");
            return Ok(none(&LIVE_TUN));
        }
    };
    let clock = Clock::start();
    let (mut ratios, mut rates, mut bare_rates) = (Vec::new(), Vec::new(), Vec::new());
    let mut passed = Passed::default();
    // The first packets find neighbours and warm caches.
    for path in [&bare, &gateways] {
        path.pass(&clock, ROUND / 4)?;
    }
    for _ in 0..ROUNDS {
        let plain = bare.pass(&clock, ROUND)?;
        let round = gateways.pass(&clock, ROUND)?;
        passed.merge(&round);
        ratios.push(round.rate() / plain.rate());
        rates.push(round.rate());
        bare_rates.push(plain.rate());
    }
    let loss = 1.0 - passed.received as f64 / passed.sent.max(1) as f64;
    let values = [middle(ratios), middle(rates), middle(bare_rates), loss];
    let figures = LIVE_TUN.iter().zip(values);
    Ok(figures
        .map(|((id, unit), value)| figure(*id, value, unit))
        .collect())
}

const LIVE_TUN: [(&str, &str); 4] = [
    ("live-tun", "1"),
    ("live-tun-pps", "packets/s"),
    ("live-tun-bare-pps", "packets/s"),
    ("live-tun-loss", "1"),
];

/// Packets of each capture that is analysed.
const CAPTURE_PACKETS: u64 = 200_000;
/// Octets of its longest packets; the mean is 150.
const CAPTURE_OCTETS_MAX: usize = 200;

/// Analyses of one and of two captures in memory against the least that any reader does, in turns.
fn pcap() -> anyhow::Result<Vec<Figure>> {
    let made = |delay_ns| {
        let mut octets = Vec::new();
        Synthetic::new(1, CAPTURE_PACKETS, CAPTURE_OCTETS_MAX, delay_ns)
            .read_to_end(&mut octets)?;
        anyhow::Ok(octets)
    };
    let (a, b) = (made(0)?, made(50_000_000)?);
    let settings = Settings::default();
    let source = |octets| anyhow::Ok(Source::new("made", Capture::open(octets)?, None));
    let seconds = |work: &mut dyn FnMut() -> anyhow::Result<Analysis>| {
        let clock = Clock::start();
        let analysis = work()?;
        let seconds = clock.now().as_secs_f64();
        ensure!(!analysis.result.has_failed(), "the analysis isn't complete");
        anyhow::Ok(seconds)
    };
    let mut values: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let clock = Clock::start();
        black_box(bare_walk(&a));
        let bare_s = clock.now().as_secs_f64();
        let one_s = seconds(&mut || {
            Ok(strait_capture::one(source(&a[..])?, &settings, &mut || {
                true
            }))
        })?;
        let two_s = seconds(&mut || {
            let (a, b) = (source(&a[..])?, source(&b[..])?);
            Ok(strait_capture::two(a, b, &settings, &mut || true))
        })?;
        let packets = CAPTURE_PACKETS as f64;
        let round = [
            packets / one_s,
            bare_s / one_s,
            2.0 * packets / two_s,
            2.0 * bare_s / two_s,
        ];
        for (values, value) in values.iter_mut().zip(round) {
            values.push(value);
        }
    }
    let names = [
        ("pcap-one", "packets/s"),
        ("pcap-one-ratio", "1"),
        ("pcap-two", "packets/s"),
        ("pcap-two-ratio", "1"),
    ];
    let figures = names.into_iter().zip(values);
    let figures = figures.map(|((id, unit), values)| figure(id, middle(values), unit));
    Ok(figures.collect())
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn json(figures: &[Figure]) -> String {
    let entry = |figure: &Figure| {
        let value = figure
            .value
            .map_or_else(|| "null".to_owned(), |value| value.to_string());
        let about = match figure.about {
            "" => String::new(),
            about => format!(",\"about\":\"{about}\""),
        };
        format!(
            "{{\"id\":\"{}\",\"value\":{value},\"unit\":\"{}\"{about}}}",
            figure.id, figure.unit
        )
    };
    let entries: Vec<_> = figures.iter().map(entry).collect();
    format!("{{\"benches\":[{}]}}\n", entries.join(","))
}

fn text(figures: &[Figure]) -> String {
    let line = |figure: &Figure| match figure.value {
        Some(value) => {
            let line = format!(
                "{:28} {value:>14.3} {:10} {}",
                figure.id, figure.unit, figure.about
            );
            format!("{}\n", line.trim_end())
        }
        None => format!("{:28} {:>14}\n", figure.id, "not measured"),
    };
    figures.iter().map(line).collect()
}
