//! The study `tcp`: the measuring instrument measured.

use std::thread;

use anyhow::Context;
use strait_channel::{LinkConfig, Side};
use strait_live::transfer::{self as live, KernelCounters, TransferConfig, Transferred};
use strait_report::estimate::{mean_interval, percentile};
use strait_report::table::{Cell, Check, Column, ResultSet, Table, significant};
use strait_sim::study::tcp::{CellCase, TcpStudy};
use strait_sim::study::transfer::{self as simulated, Case, Ended};
use strait_tcp::TcpEventKind as Kind;
use strait_tcp::profile::Profile;

use super::{Options, conserved, left_out, progress, write_captures};

const NAME: &str = "tcp";

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let (file, text) = options.set_up(
        "scenarios/studies/tcp.toml",
        include_str!("../../../../../scenarios/studies/tcp.toml"),
    );
    let study = TcpStudy::parse(file, text)?;
    let cells = study.cell_cases(options.full);
    let chain = study.chain_cases();
    let cases = chain.iter().chain(cells.iter().map(|cell| &cell.case));
    let cases: Vec<Case> = cases.cloned().collect();
    let transfers = if options.live {
        transfers(&cells)
    } else {
        Vec::new()
    };
    let bar = progress(NAME, transfers.len() + runs(&cases));
    let (live, results) = thread::scope(|scope| {
        let live = scope.spawn(|| live::run_all(&transfers, || bar.inc(1)));
        let results = simulated::run(&cases, options.pcap.is_some(), || bar.inc(1));
        (live.join(), results)
    });
    bar.finish_and_clear();
    let mut results = results?;
    let live = live.map_err(|_| anyhow::Error::msg("the live half has failed"))?;
    let live = live.unwrap_or_else(|error| {
        left_out(NAME, &error);
        Vec::new()
    });
    if let Some(folder) = options.pcap {
        for (case, runs) in cases.iter().zip(&results) {
            write_captures(folder, &stem(case), runs).context("--pcap")?;
        }
    }
    let hash = simulated::hash(&results);
    let conserved = conserved(NAME, results.iter().flatten());
    let of_cells = results.split_off(chain.len());
    let cells = join(cells, of_cells, live);
    let (chain_table, mut checks) = chain_part(&study, &chain, &results);
    checks.push(kernel_check(&study, &cells));
    checks.push(conserved);
    let seeds = cases.iter().flat_map(|case| case.seeds.clone());
    let seeds: std::collections::BTreeSet<u64> = seeds.collect();
    Ok(ResultSet {
        run_hash: Some(hash.into()),
        seeds: seeds.into_iter().collect(),
        tables: vec![chain_table, kernel_table(&cells), timeouts_table(&cells)],
        checks,
    })
}

fn runs(cases: &[Case]) -> usize {
    cases.iter().map(|case| case.seeds.clone().count()).sum()
}

/// What captures of a case are called.
fn stem(case: &Case) -> String {
    let rate = case.link.line_rate(Side::A).bit_s();
    let loss = case.link.loss.map_or(0.0, |loss| loss.0) * 100.0;
    let delay = case.link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
    let (links, endpoint) = (case.links, &case.endpoint);
    format!("{NAME}-{links}x{rate}-{delay}s-{loss}%-{endpoint}")
}

/// The live transfers: every seed of every cell.
fn transfers(cells: &[CellCase]) -> Vec<TransferConfig> {
    let of = |cell: &CellCase| {
        let case = cell.case.clone();
        let congestion = cell.congestion.clone();
        case.seeds.clone().map(move |seed| TransferConfig {
            link: case.link.clone(),
            // As the simulated link is called: both lose the same frames.
            name: String::from("link0"),
            seed,
            octets: case.octets,
            congestion: congestion.clone(),
            start: case.start,
            limit: case.limit,
        })
    };
    cells.iter().filter(|cell| cell.live).flat_map(of).collect()
}

/// A cell with both its halves.
struct Joined {
    cell: CellCase,
    simulated: Vec<Ended>,
    live: Vec<Transferred>,
}

/// Live results come in the order of [`transfers`]; there may be none.
fn join(cells: Vec<CellCase>, simulated: Vec<Vec<Ended>>, live: Vec<Transferred>) -> Vec<Joined> {
    let mut live = live.into_iter();
    let halves = cells.into_iter().zip(simulated);
    let joined = halves.map(|(cell, simulated)| Joined {
        live: if cell.live {
            live.by_ref().take(simulated.len()).collect()
        } else {
            Vec::new()
        },
        cell,
        simulated,
    });
    joined.collect()
}

impl Joined {
    fn simulated_s(&self) -> Vec<f64> {
        let times = self.simulated.iter().map(|run| run.time_s);
        times
            .map(|time_s| time_s.unwrap_or(f64::INFINITY))
            .collect()
    }

    fn live_s(&self) -> Vec<f64> {
        let times = self.live.iter().map(|run| run.time_s);
        times
            .map(|time_s| time_s.unwrap_or(f64::INFINITY))
            .collect()
    }

    fn simulated_sum(&self, of: impl Fn(&Ended) -> u64) -> f64 {
        self.simulated.iter().map(of).sum::<u64>() as f64
    }

    /// Empty without live transfers, and for what the kernel doesn't tell.
    fn live_sum(&self, of: impl Fn(&KernelCounters) -> Option<u64>) -> Cell {
        let counts: Option<Vec<u64>> = self.live.iter().map(|run| of(&run.counters)).collect();
        let counts = counts.filter(|counts| !counts.is_empty());
        counts
            .map(|counts| counts.iter().sum::<u64>() as f64)
            .into()
    }

    /// Simulated median over that of a kernel, live or recorded. `None` if either isn't there.
    fn ratio(&self) -> Option<f64> {
        let real_s = if self.cell.live {
            self.live_s()
        } else {
            self.cell.reference_s.clone()
        };
        let medians = quantile(&self.simulated_s(), 0.5).zip(quantile(&real_s, 0.5));
        medians.map(|(simulated, real)| simulated / real)
    }
}

/// A quantile of times, of which those that weren't reached are infinite.
fn quantile(times_s: &[f64], q: f64) -> Option<f64> {
    percentile(times_s, q).filter(|time_s| time_s.is_finite())
}

/// The least time that the links allow if nothing is lost: handshake, way, and each octet once, in
/// packets as the endpoint makes them. `None` for a rate that changes.
fn limit_s(case: &Case) -> Option<f64> {
    // IPv4, TCP, timestamps.
    const HEADERS: u64 = 20 + 20 + 12;
    let link = &case.link;
    if link.change.is_some() {
        return None;
    }
    let links = case.links as f64;
    let rate = link.line_rate(Side::A).bit_s() as f64;
    let frame = link.frame_octets_max;
    let frame = u64::from(frame.unwrap_or(LinkConfig::FRAME_OCTETS_MAX));
    let own = Profile::named(&case.endpoint).and_then(|profile| profile.segment_octets);
    let payload = own.map_or_else(|| frame.saturating_sub(HEADERS).max(1), u64::from);
    let octets = case.octets + case.octets.div_ceil(payload) * HEADERS;
    let delay_s = link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
    let packet_s = ((payload + HEADERS) * 8) as f64 / rate;
    Some(3.0 * links * delay_s + (octets * 8) as f64 / rate + (links - 1.0) * packet_s)
}

/// The chain's table, and its checks: of each the worst of its values.
fn chain_part(study: &TcpStudy, cases: &[Case], results: &[Vec<Ended>]) -> (Table, Vec<Check>) {
    let columns = [
        ("check", ""),
        ("loss", ""),
        ("endpoint", ""),
        ("runs", ""),
        ("quantity", ""),
        ("limit", ""),
        ("of runs", ""),
        ("reference", ""),
        ("±", ""),
        ("simulated", ""),
        ("±", ""),
        ("distance", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("tcp-chain", columns.into());
    let mut checks: Vec<Check> = Vec::new();
    let all = study.chain.cases.iter().zip(cases).zip(results);
    for ((known, case), runs) in all {
        let complete = runs.iter().all(|run| run.time_s.is_some());
        let times: Vec<f64> = runs.iter().filter_map(|run| run.time_s).collect();
        let packets: Vec<f64> = runs.iter().map(|run| run.packets as f64).collect();
        let limit = limit_s(case);
        for (quantity, limit, reference, values) in [
            ("time, s", limit, known.time.seconds(), &times),
            ("packets", None, known.packets, &packets),
        ] {
            let interval = mean_interval(values).filter(|_| complete);
            let distance = interval.map(|interval| {
                let own_half = interval.half_width.filter(|_| known.overlap);
                reference.distance(interval.mean, own_half.unwrap_or(0.0))
            });
            table.push(vec![
                known.check.as_deref().unwrap_or_default().into(),
                known.loss.0.into(),
                known.endpoint.as_str().into(),
                (runs.len() as f64).into(),
                quantity.into(),
                limit.into(),
                (known.reference_runs as f64).into(),
                reference.mean.into(),
                reference.half_interval.into(),
                interval.map(|interval| interval.mean).into(),
                interval.and_then(|interval| interval.half_width).into(),
                distance.into(),
            ]);
            if let Some(id) = &known.check {
                let bar = known.tolerance.map_or(1.0, |share| share.0);
                worsen(&mut checks, id, distance, bar);
            }
        }
    }
    (table, checks)
}

/// Takes the greater distance into the check `id`; a value that isn't there is a failure.
fn worsen(checks: &mut Vec<Check>, id: &str, distance: Option<f64>, bar: f64) {
    let made = |value| Check::range(id, value, "", None, Some(bar)).failed();
    match checks.iter_mut().find(|check| check.id == id) {
        Some(check) => {
            let worst = check.value.zip(distance);
            *check = made(worst.map(|(one, other)| one.max(other)));
        }
        None => checks.push(made(distance)),
    }
}

/// How far apart the medians are in the worst of the judged cells.
fn kernel_check(study: &TcpStudy, cells: &[Joined]) -> Check {
    let judged = cells.iter().filter(|joined| joined.cell.judged);
    let apart = judged.map(|joined| joined.ratio().map(|ratio| (ratio - 1.0).abs()));
    let worst: Option<Vec<f64>> = apart.collect();
    let worst = worst.and_then(|all| all.into_iter().reduce(f64::max));
    let bar = study.kernel.tolerance.0;
    let check = Check::range("tcp-linux-error", worst, "", None, Some(bar));
    // Without a live half there is nothing to judge; with one, every cell has a median.
    if cells.iter().all(|joined| joined.live.is_empty()) {
        check
    } else {
        check.failed()
    }
}

/// Times over single links: a row for each cell, loss and congestion control.
fn kernel_table(cells: &[Joined]) -> Table {
    let columns = [
        ("link", ""),
        ("loss", ""),
        ("octets", ""),
        ("runs", ""),
        ("profile", ""),
        ("live", ""),
        ("limit", "s"),
        ("reference", "s"),
        ("simulated", "s"),
        ("live", "s"),
        ("live q25", "s"),
        ("live q75", "s"),
        ("late", ""),
        ("ratio", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("tcp-kernel", columns.into());
    for joined in cells {
        let (cell, case) = (&joined.cell, &joined.cell.case);
        let (simulated_s, live_s) = (joined.simulated_s(), joined.live_s());
        let late = simulated_s.iter().chain(&live_s);
        let late = late.filter(|time_s| time_s.is_infinite()).count();
        table.push(vec![
            cell.cell.as_str().into(),
            cell.loss.into(),
            (case.octets as f64).into(),
            (simulated_s.len() as f64).into(),
            case.endpoint.as_str().into(),
            really_ran(&joined.live),
            limit_s(case).into(),
            list(&cell.reference_s),
            quantile(&simulated_s, 0.5).into(),
            quantile(&live_s, 0.5).into(),
            quantile(&live_s, 0.25).into(),
            quantile(&live_s, 0.75).into(),
            (late as f64).into(),
            joined.ratio().into(),
        ]);
    }
    table
}

/// The congestion controls that the sending sockets had.
fn really_ran(live: &[Transferred]) -> Cell {
    let names: std::collections::BTreeSet<&str> =
        live.iter().map(|run| run.congestion.as_str()).collect();
    if names.is_empty() {
        return Cell::Empty;
    }
    names.into_iter().collect::<Vec<_>>().join(", ").into()
}

fn list(values: &[f64]) -> Cell {
    if values.is_empty() {
        return Cell::Empty;
    }
    let texts: Vec<String> = values.iter().map(|value| significant(*value)).collect();
    texts.join(", ").into()
}

/// What senders go through where round trips are longer than timeouts: sums over all transfers of
/// what both count, and the medians of their times.
fn timeouts_table(cells: &[Joined]) -> Table {
    let columns = [
        ("link", ""),
        ("loss", ""),
        ("profile", ""),
        ("quantity", ""),
        ("simulated", ""),
        ("live", ""),
    ];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("tcp-timeouts", columns.into());
    for joined in cells.iter().filter(|joined| joined.cell.timeouts) {
        let events = |kind| joined.simulated_sum(|run| run.tcp.events.of(kind));
        let (opened, repeats) = (joined.simulated.len() as f64, Kind::RepeatedHandshake);
        let medians = [joined.simulated_s(), joined.live_s()].map(|times| quantile(&times, 0.5));
        let quantities: [(&str, Cell, Cell); 5] = [
            (
                "SYNs",
                (opened + events(repeats)).into(),
                joined.live_sum(|counters| Some(counters.syns)),
            ),
            (
                "timeouts",
                events(Kind::TimedOut).into(),
                joined.live_sum(|counters| counters.timeouts),
            ),
            (
                "recoveries taken back",
                events(Kind::Undone).into(),
                joined.live_sum(|counters| Some(counters.undone)),
            ),
            (
                "segments sent again",
                joined.simulated_sum(|run| run.tcp.retransmissions).into(),
                joined.live_sum(|counters| Some(counters.retransmissions)),
            ),
            ("median time, s", medians[0].into(), medians[1].into()),
        ];
        for (quantity, simulated, live) in quantities {
            table.push(vec![
                joined.cell.cell.as_str().into(),
                joined.cell.loss.into(),
                joined.cell.case.endpoint.as_str().into(),
                quantity.into(),
                simulated,
                live,
            ]);
        }
    }
    table
}
