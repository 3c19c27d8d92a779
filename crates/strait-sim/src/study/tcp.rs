//! The study `tcp`: the simulated TCP endpoint against independent references.

use std::collections::BTreeSet;
use std::mem::take;
use std::thread;

use serde::Deserialize;
use strait_channel::{LinkConfig, Side};
use strait_core::Duration;
use strait_core::units::{Octets, Share, Time};
use strait_node::config_text::ConfigError;
use strait_report::estimate::{mean_interval, percentile};
use strait_report::table::significant;
use strait_tcp::TcpEventKind as Kind;

use super::shown::{Row, Shapes};
use super::transfer::{self, Case, Ended};
use super::{Asked, Measured, Sent, SetUp, StudyError, begins};

/// The reference counts packets up to the last octet.
const CHAIN_STEP: Duration = Duration::from_millis(1);

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TcpStudy {
    /// Which study the file is of: `tcp`.
    study: String,
    /// A chain of links, with references of a network simulator.
    chain: Chain,
    /// One link, with a Linux kernel as the reference.
    kernel: Kernel,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// A chain of links.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chain {
    /// How many.
    links: usize,
    /// Octets of the file.
    octets: Octets,
    /// Octets of the endpoints' buffers.
    buffer: Octets,
    /// How long a run may take.
    limit: Time,
    /// Each link.
    link: LinkConfig,
    /// What is run over them.
    #[serde(rename = "case")]
    cases: Vec<ChainCase>,
}

/// One endpoint at one rate of loss, and what the reference needed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainCase {
    /// Which check it belongs to; shown only if absent.
    check: Option<String>,
    /// Profile of both endpoints.
    endpoint: String,
    /// Loss of each link, in each direction.
    loss: Share,
    /// How many seeds.
    seeds: u64,
    /// Time to the last octet.
    time: Reference<Time>,
    /// Packets on all links.
    packets: Reference<f64>,
    /// How far from the mean a value may be where the reference has no interval.
    tolerance: Option<Share>,
    /// How many runs the reference is the mean of.
    reference_runs: u64,
    /// Both means are of enough runs for their 95 % intervals to have to overlap; else ours has to
    /// lie in the reference's.
    #[serde(default)]
    overlap: bool,
}

/// A mean that others measured, and half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference<T> {
    /// The mean.
    mean: T,
    /// Half the interval; none where chance had no part.
    half_interval: Option<T>,
}

impl Reference<Time> {
    /// The same in seconds.
    fn seconds(&self) -> Reference<f64> {
        Reference {
            mean: self.mean.0.as_secs_f64(),
            half_interval: self.half_interval.map(|half| half.0.as_secs_f64()),
        }
    }
}

impl Reference<f64> {
    /// How far a value is from the mean: in halves of the interval, or as a share of the mean
    /// where there is no interval. A value that has an interval of its own to overlap with may be
    /// farther by `own_half`.
    fn distance(&self, value: f64, own_half: f64) -> f64 {
        let half = self.half_interval.map(|half| half + own_half);
        (value - self.mean).abs() / half.unwrap_or(self.mean)
    }
}

/// What a kernel is compared on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kernel {
    /// Loss of frames, in each direction.
    losses: Vec<Share>,
    /// By how much medians may differ.
    tolerance: Share,
    /// When transfers begin, by the link's time.
    start: Time,
    /// How long a transfer of a short study may take.
    limit: Time,
    /// How long one of a full study may take.
    limit_full: Time,
    /// Ways to control congestion.
    #[serde(rename = "control")]
    controls: Vec<CongestionControl>,
    /// Links.
    #[serde(rename = "cell")]
    cells: Vec<Cell>,
}

/// A profile and the kernel's algorithm that it stands for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CongestionControl {
    /// The simulated one.
    profile: String,
    /// The kernel's.
    congestion: String,
    /// Judged, and part of a short study too.
    #[serde(default)]
    judged: bool,
}

/// A link that a kernel is compared on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cell {
    /// Its name in the table.
    name: String,
    /// The file of a short study.
    octets: Octets,
    /// That of a full study.
    octets_full: Octets,
    /// Transfers of a short study.
    runs: u64,
    /// Those of a full study.
    runs_full: u64,
    /// The link; loss is added.
    link: LinkConfig,
    /// Whether the check looks at it.
    #[serde(default = "yes")]
    judged: bool,
    /// Run by this host's kernel too; else what was recorded stands for that.
    #[serde(default = "yes")]
    live: bool,
    /// The kernel's congestion controls that it is for; none named: those of the study.
    #[serde(default)]
    congestion: Vec<String>,
    /// Show what becomes of timeouts here.
    #[serde(default)]
    timeouts: bool,
    /// What others measured with files of the full size.
    #[serde(default)]
    reference: Vec<CellReference>,
}

const fn yes() -> bool {
    true
}

/// Times that a kernel took elsewhere.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellReference {
    /// Its congestion control.
    congestion: String,
    /// Loss in each direction.
    loss: Share,
    /// Each transfer's time.
    times: Vec<Time>,
}

/// One cell at one rate of loss under one congestion control: run simulated, and live.
#[derive(Clone, Debug)]
struct CellCase {
    /// The cell's name.
    cell: String,
    /// Loss in each direction.
    loss: f64,
    /// Whether it counts for the check.
    judged: bool,
    /// Whether it is shown what becomes of timeouts.
    timeouts: bool,
    /// The kernel's congestion control.
    congestion: String,
    /// Whether this host's kernel runs it.
    live: bool,
    /// Times that a kernel took elsewhere, in s, if for the same file.
    reference_s: Vec<f64>,
    /// What is run.
    case: Case,
}

impl TcpStudy {
    /// Every case of the chain, in the file's order.
    fn chain_cases(&self) -> Vec<Case> {
        let chain = &self.chain;
        let case = |case: &ChainCase| Case {
            link: lossy(&chain.link, case.loss),
            links: chain.links,
            endpoint: case.endpoint.clone(),
            octets: chain.octets.0,
            buffer: Some(chain.buffer),
            start: Duration::ZERO,
            limit: chain.limit.0,
            step: CHAIN_STEP,
            seeds: 1..1 + case.seeds,
            gateways: None,
        };
        chain.cases.iter().map(case).collect()
    }

    /// Every cell at every loss under every congestion control of a short or a full study.
    fn cell_cases(&self, full: bool) -> Vec<CellCase> {
        let kernel = &self.kernel;
        let mut cases = Vec::new();
        for control in &kernel.controls {
            let of_study = full || control.judged;
            let takes = |cell: &&Cell| match &cell.congestion[..] {
                [] => of_study,
                named => named.contains(&control.congestion),
            };
            for cell in kernel.cells.iter().filter(takes) {
                let losses = kernel.losses.iter();
                let cells = losses.map(|loss| self.cell_case(control, cell, *loss, full));
                cases.extend(cells.filter(|it| it.live || !it.reference_s.is_empty()));
            }
        }
        cases
    }

    fn cell_case(
        &self,
        control: &CongestionControl,
        cell: &Cell,
        loss: Share,
        full: bool,
    ) -> CellCase {
        let (octets, runs, limit) = if full {
            (cell.octets_full, cell.runs_full, self.kernel.limit_full)
        } else if cell.live {
            (cell.octets, cell.runs, self.kernel.limit)
        } else {
            (cell.octets, cell.runs, self.kernel.limit_full)
        };
        let same = |it: &&CellReference| {
            octets == cell.octets_full && it.congestion == control.congestion && it.loss == loss
        };
        let known = cell.reference.iter().filter(same);
        CellCase {
            cell: cell.name.clone(),
            loss: loss.0,
            judged: (control.judged || !cell.congestion.is_empty()) && cell.judged,
            live: cell.live,
            timeouts: control.judged && cell.timeouts,
            congestion: control.congestion.clone(),
            reference_s: known
                .flat_map(|it| it.times.iter().map(|time| time.0.as_secs_f64()))
                .collect(),
            case: Case {
                link: lossy(&cell.link, loss),
                links: 1,
                endpoint: control.profile.clone(),
                octets: octets.0,
                buffer: None,
                start: self.kernel.start.0,
                limit: limit.0,
                step: transfer::STEP,
                seeds: 1..1 + runs,
                gateways: None,
            },
        }
    }
}

fn lossy(link: &LinkConfig, loss: Share) -> LinkConfig {
    link.clone()
        .with(|it| it.loss = (loss.0 > 0.0).then_some(loss))
}

/// The least time that the links allow if nothing is lost: handshake, way, and each octet once, in
/// packets as the endpoint makes them. `None` for a rate that changes.
fn limit_s(case: &Case) -> Option<f64> {
    const HEADERS: u64 = transfer::HEADERS;
    let link = &case.link;
    if link.change.is_some() {
        return None;
    }
    let links = case.links as f64;
    let rate = link.line_rate(Side::A).bit_s() as f64;
    let payload = transfer::segment_octets(&case.endpoint, link);
    let octets = case.octets + case.octets.div_ceil(payload) * HEADERS;
    let delay_s = link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
    let packet_s = ((payload + HEADERS) * 8) as f64 / rate;
    Some(3.0 * links * delay_s + (octets * 8) as f64 / rate + (links - 1.0) * packet_s)
}

impl ChainCase {
    /// Time and packets of a case's runs, each beside its reference.
    fn rows(&self, case: &Case, runs: &[Ended]) -> [Row; 2] {
        let complete = runs.iter().all(|run| run.time_s.is_some());
        let times: Vec<f64> = runs.iter().filter_map(|run| run.time_s).collect();
        let packets: Vec<f64> = runs.iter().map(|run| run.packets as f64).collect();
        [
            ("time, s", limit_s(case), self.time.seconds(), times),
            ("packets", None, self.packets, packets),
        ]
        .map(|(quantity, limit, reference, values)| {
            let interval = mean_interval(&values).filter(|_| complete);
            let distance = interval.map(|interval| {
                let own_half = interval.half_width.filter(|_| self.overlap);
                reference.distance(interval.mean, own_half.unwrap_or(0.0))
            });
            Row::default()
                .with("check", self.check.as_deref().unwrap_or_default())
                .with("loss", self.loss.0)
                .with("endpoint", self.endpoint.as_str())
                .with("runs", runs.len())
                .with("quantity", quantity)
                .with("limit", limit)
                .with("reference_runs", self.reference_runs)
                .with("reference", reference.mean)
                .with("reference_half", reference.half_interval)
                .with("simulated", complete.then_some(values))
                .with("distance", distance)
                .with("tolerance", self.tolerance.map_or(1.0, |share| share.0))
        })
    }
}

/// Each time; what wasn't reached is infinite.
fn times_s(runs: &[Ended]) -> Vec<f64> {
    let times = runs.iter().map(|run| run.time_s.unwrap_or(f64::INFINITY));
    times.collect()
}

impl CellCase {
    /// Times over a single link.
    fn row(&self, simulated: &[Ended], live: &[Sent]) -> Row {
        let simulated_s = times_s(simulated);
        let live_s: Vec<f64> = live.iter().map(|run| run.time_s).collect();
        let late = simulated_s
            .iter()
            .chain(&live_s)
            .filter(|it| it.is_infinite());
        let late = late.count();
        // Of a kernel, live or recorded.
        let real_s = if self.live {
            &live_s
        } else {
            &self.reference_s
        };
        let median = |times: &[f64]| percentile(times, 0.5).filter(|it| it.is_finite());
        let ratio = median(&simulated_s).zip(median(real_s));
        let ratio = ratio.map(|(simulated, real)| simulated / real);
        let known: Vec<String> = self.reference_s.iter().map(|it| significant(*it)).collect();
        let really: BTreeSet<&str> = live.iter().map(|run| &*run.congestion).collect();
        let listed = |words: Vec<String>| (!words.is_empty()).then(|| words.join(", "));
        Row::default()
            .with("link", self.cell.as_str())
            .with("loss", self.loss)
            .with("octets", self.case.octets)
            .with("runs", simulated.len())
            .with("profile", self.case.endpoint.as_str())
            .with(
                "live",
                listed(really.into_iter().map(String::from).collect()),
            )
            .with("limit_s", limit_s(&self.case))
            .with("reference_s", listed(known))
            .with("simulated_s", simulated_s)
            .with("live_s", (!live_s.is_empty()).then_some(live_s))
            .with("late", late)
            .with("ratio", ratio)
            .with("apart", ratio.map(|ratio| (ratio - 1.0).abs()))
            .with("judged", if self.judged { "yes" } else { "no" })
    }

    /// What senders go through where round trips are longer than timeouts: sums over all transfers
    /// of what both count, and the medians of their times.
    fn timeouts(&self, simulated: &[Ended], live: &[Sent]) -> [Row; 5] {
        let sum = |of: &dyn Fn(&Ended) -> u64| simulated.iter().map(of).sum::<u64>() as f64;
        let events = |kind| sum(&|run| run.tcp.events.of(kind));
        let syns = simulated.len() as f64 + events(Kind::RepeatedHandshake);
        // Nothing without live transfers, and of what the kernel doesn't tell.
        let counted = |name: &str| {
            let counts = live.iter().map(|run| run.counts.get(name).copied());
            let counts = counts.collect::<Option<Vec<f64>>>();
            counts?.into_iter().reduce(|sum, it| sum + it)
        };
        let live_s: Vec<f64> = live.iter().map(|run| run.time_s).collect();
        let median = |times: &[f64]| percentile(times, 0.5).filter(|it| it.is_finite());
        let again = sum(&|run| run.tcp.retransmissions);
        [
            ("SYNs", Some(syns), counted("syns")),
            (
                "timeouts",
                Some(events(Kind::TimedOut)),
                counted("timeouts"),
            ),
            (
                "recoveries taken back",
                Some(events(Kind::Undone)),
                counted("undone"),
            ),
            (
                "segments sent again",
                Some(again),
                counted("retransmissions"),
            ),
            (
                "median time, s",
                median(&times_s(simulated)),
                median(&live_s),
            ),
        ]
        .map(|(quantity, simulated, live)| {
            Row::default()
                .with("link", self.cell.as_str())
                .with("loss", self.loss)
                .with("profile", self.case.endpoint.as_str())
                .with("quantity", quantity)
                .with("simulated", simulated)
                .with("live", live)
        })
    }
}

/// What captures of a case are called.
fn stem(case: &Case) -> String {
    let rate = case.link.line_rate(Side::A).bit_s();
    let loss = case.link.loss.map_or(0.0, |loss| loss.0) * 100.0;
    let delay = case.link.delay.map_or(0.0, |delay| delay.0.as_secs_f64());
    let (links, endpoint) = (case.links, &case.endpoint);
    format!("tcp-{links}x{rate}-{delay}s-{loss}%-{endpoint}")
}

impl SetUp for TcpStudy {
    const PARTS: &'static [&'static str] = &["chain", "cells", "timeouts", "runs"];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        let cells = self.kernel.cells.iter();
        let cells = cells.map(|cell| (cell.name.as_str(), &cell.link));
        for (name, link) in cells.chain([("chain", &self.chain.link)]) {
            let wrong = |error| ConfigError::of_file(file, format!("link of `{name}`: {error}"));
            link.validate().map_err(wrong)?;
        }
        Ok(())
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let cells = self.cell_cases(asked.full);
        let mut cases = self.chain_cases();
        cases.extend(cells.iter().map(|cell| cell.case.clone()));
        let cases = transfer::of_seeds(asked, cases);
        let live = cells.iter().filter(|cell| cell.live && asked.live);
        let live: Vec<(Case, String)> = live
            .map(|cell| (cell.case.clone(), cell.congestion.clone()))
            .collect();
        let transfers = transfer::count(live.iter().map(|it| &it.0));
        begins(asked, "tcp", transfers + transfer::count(&cases))?;
        let (sent, results) = thread::scope(|scope| {
            let sent = scope.spawn(|| asked.outside.transfers("tcp", &live));
            let results = transfer::run(&cases, asked.captures, || asked.outside.done());
            (sent.join(), results)
        });
        let sent = sent.map_err(|_| StudyError::Live("the live half has failed".into()))?;
        let mut results = results?;
        let odd = |run: &Ended| (run.unexplained + run.wrong_octets) as f64;
        let odd: Vec<f64> = results.iter().flatten().map(odd).collect();
        let seeds = cases.iter().flat_map(|case| case.seeds.clone());
        let mut measured = Measured::of("runs", vec![Row::default().with("odd", odd)], seeds);
        measured.fold(results.iter().flatten().map(|run| run.hash));
        for (case, runs) in cases.iter().zip(&mut results) {
            for run in runs {
                asked.captured(&stem(case), take(&mut run.captures));
            }
        }
        let (chain, singles) = results.split_at(self.chain.cases.len());
        let known = self.chain.cases.iter().zip(&cases).zip(chain);
        let rows = known.flat_map(|((known, case), runs)| known.rows(case, runs));
        measured.parts.insert("chain", rows.collect());
        let (mut rows, mut timeouts, mut sent) = (Vec::new(), Vec::new(), sent.into_iter());
        for (cell, simulated) in cells.iter().zip(singles) {
            let live = if cell.live { simulated.len() } else { 0 };
            let live: Vec<Sent> = sent.by_ref().take(live).collect();
            let row = cell.row(simulated, &live);
            rows.push(row.with("tolerance", self.kernel.tolerance.0));
            if cell.timeouts {
                timeouts.extend(cell.timeouts(simulated, &live));
            }
        }
        measured.parts.insert("cells", rows);
        measured.parts.insert("timeouts", timeouts);
        Ok(measured)
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn study() -> TcpStudy {
        let text = include_str!("../../../../scenarios/studies/tcp.toml");
        read::<TcpStudy>("tcp.toml", text).unwrap().0
    }

    #[test]
    fn distance_is_told_in_intervals_or_shares() {
        let interval = Reference {
            mean: 10.0,
            half_interval: Some(2.0),
        };
        assert_eq!(interval.distance(8.0, 0.0), 1.0);
        assert_eq!(interval.distance(13.0, 0.0), 1.5);
        assert_eq!(interval.distance(13.0, 1.0), 1.0);
        let exact = Reference {
            mean: 10.0,
            half_interval: None,
        };
        assert_eq!(exact.distance(9.0, 1.0), 0.1);
    }

    #[test]
    fn a_short_study_runs_the_judged_control_and_a_full_one_all() {
        let study = study();
        let short = study.cell_cases(false);
        let full = study.cell_cases(true);
        let live = |cases: &[CellCase]| cases.iter().filter(|it| it.live).count();
        assert_eq!((live(&short), live(&full)), (15, 39));
        assert_eq!(short.iter().filter(|it| it.live && it.judged).count(), 12);
        // References are for the full sizes; what isn't run live has one.
        let known = |it: &CellCase| !it.reference_s.is_empty();
        assert!(short.iter().all(|it| it.live != known(it)));
        let known = full
            .iter()
            .find(|case| case.cell.contains("2 s") && case.loss == 0.05);
        assert_eq!(known.unwrap().reference_s, [101.0, 109.0]);
        assert!(
            short
                .iter()
                .all(|it| it.case.link.loss.is_none() == (it.loss == 0.0))
        );
    }

    #[test]
    fn a_link_that_is_no_medium_is_named() {
        let text = include_str!("../../../../scenarios/studies/tcp.toml");
        let wrong = text.replace("loss = \"5 %\", t", "lost = \"5 %\", t");
        assert!(read::<TcpStudy>("tcp.toml", &wrong).is_err());
        let wrong = text.replace("delay = \"8 s\", ", "delay = \"8 s\", baud = 9600, ");
        let error = read::<TcpStudy>("tcp.toml", &wrong);
        let error = error.map(drop).unwrap_err().to_string();
        let place = "`baud` in [kernel.cell.link]: is for kind";
        assert!(
            error.starts_with("tcp.toml:") && error.contains(place),
            "{error}"
        );
    }

    #[test]
    fn every_check_has_cases_with_both_references() {
        let study = study();
        let exact = study.chain.cases.iter();
        let exact = exact.filter(|case| case.check.as_deref() == Some("tcp-chain-0"));
        let exact: Vec<_> = exact.collect();
        let endpoints: Vec<&str> = exact.iter().map(|case| &*case.endpoint).collect();
        assert_eq!(endpoints, ["ns3-2012", "ns3-sack"]);
        for case in exact {
            assert!(case.tolerance.is_some() && !case.overlap);
            assert!(case.time.half_interval.is_none() && case.packets.half_interval.is_none());
        }
        let many = study.chain.cases.iter().filter(|case| case.overlap);
        let many: Vec<_> = many.collect();
        assert_eq!(many.len(), 6);
        for case in many {
            assert_eq!(case.check.as_deref(), Some("tcp-chain-many"));
            assert_eq!((case.seeds, case.reference_runs), (400, 400));
            assert!(case.time.half_interval.is_some() && case.packets.half_interval.is_some());
        }
    }
}
