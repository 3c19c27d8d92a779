//! The study `na`: calls beside data on one narrow line, as a network adapter carries them.

use std::path::Path;

use strait_core::hash::RunHash;
use strait_report::estimate::{mean, percentile};
use strait_report::table::{Check, Column, ResultSet, Table};
use strait_scenario::{Files, Loaded, Scenario};
use strait_sim::study::na::{self, Data, NaCase, NaRun, NaStudy};
use strait_traffic::FlowReport;

use super::{Options, joined, na_pairs, progress};

mod figures;
mod gap;

const NAME: &str = "na";
/// One octet on the line, in s: ten bits at 9600 baud.
const OCTET_S: f64 = 10.0 / 9600.0;
/// What data may do to a call's packet: the octet that is leaving, and a mark.
const WAIT_S: f64 = 2.0 * OCTET_S;
/// Times are whole nanoseconds, rounded up at each of a path's places.
const ROUNDING_S: f64 = 1e-7;

/// The base scenario's files, which the program brings along.
struct Own;

impl Files for Own {
    fn read(&self, path: &Path) -> Result<String, String> {
        let text = match path.file_name().and_then(|name| name.to_str()) {
            Some("adapter-9600-a.toml") => {
                include_str!("../../../../../scenarios/nodes/adapter-9600-a.toml")
            }
            Some("adapter-9600-b.toml") => {
                include_str!("../../../../../scenarios/nodes/adapter-9600-b.toml")
            }
            Some("serial-9600.toml") => {
                include_str!("../../../../../scenarios/links/serial-9600.toml")
            }
            Some("adapter-frames-a.toml") => {
                include_str!("../../../../../scenarios/nodes/adapter-frames-a.toml")
            }
            Some("adapter-frames-b.toml") => {
                include_str!("../../../../../scenarios/nodes/adapter-frames-b.toml")
            }
            Some("frames-7680.toml") => {
                include_str!("../../../../../scenarios/links/frames-7680.toml")
            }
            _ => return Err("is not part of the program".to_owned()),
        };
        Ok(text.to_owned())
    }
}

fn base() -> anyhow::Result<Loaded> {
    let text = include_str!("../../../../../scenarios/lab/adapter.toml");
    Ok(Scenario::load_text(&Own, Path::new("adapter.toml"), text)?)
}

pub(super) fn run(options: &Options<'_>) -> anyhow::Result<ResultSet> {
    let (file, text) = options.set_up(
        "scenarios/studies/na.toml",
        include_str!("../../../../../scenarios/studies/na.toml"),
    );
    let study = NaStudy::parse(file, text)?;
    let mut cases = study.cases();
    if !options.full {
        cases.retain(|case| case.calls < 2 || case.data != Data::Slope);
    }
    let bar = progress(NAME, cases.len());
    let runs = na::run(&study, &base()?, &cases, || bar.inc(1))?;
    bar.finish_and_clear();
    let rows = Rows {
        study: &study,
        runs: cases.iter().zip(&runs).collect(),
    };
    if let Some(folder) = options.figures {
        figures::write(&rows, folder)?;
    }
    let mut hash = RunHash::default();
    runs.iter().for_each(|run| hash.fold(run.hash));
    let unexplained: u64 = runs.iter().map(|run| run.unexplained).sum();
    let jitter = rows.jitter();
    let ping = rows.ping_slopes();
    let mut checks = rows.call_checks(&jitter);
    checks.extend(rows.line_checks());
    let straight = ping.iter().map(|row| row.r2).reduce(f64::min);
    checks.push(Check::range("na-ping-slope", straight, "", Some(0.999), None).failed());
    let off = ping
        .iter()
        .map(|row| (row.slope / row.expected - 1.0).abs());
    let off = off.reduce(f64::max);
    checks.push(Check::range("na-ping-slope-error", off, "", None, Some(0.02)).failed());
    let odd = Some(unexplained as f64);
    checks.push(Check::range("na-conserved", odd, "", None, Some(0.0)));
    let calls = ResultSet {
        run_hash: Some(hash.value().into()),
        seeds: vec![1],
        tables: vec![
            jitter_table(&jitter),
            rows.line_table(),
            rows.bulk_table(),
            rows.ping_table(),
            slope_table(&ping),
        ],
        checks,
    };
    let gaps = gap::run(&study)?;
    Ok(joined(vec![calls, gaps, na_pairs::run(options)?]))
}

/// What data did to the calls of one case.
struct JitterRow<'a> {
    case: &'a NaCase,
    /// Delay of each packet less that of the same packet alone, in s.
    added_s: Vec<f64>,
    smoothed_alone_s: Option<f64>,
    smoothed_s: Option<f64>,
}

/// Ping time against size beside so many calls.
struct SlopeRow {
    calls: usize,
    /// In s each octet.
    slope: f64,
    /// What the rate left makes of it.
    expected: f64,
    r2: f64,
}

struct Rows<'a> {
    study: &'a NaStudy,
    runs: Vec<(&'a NaCase, &'a NaRun)>,
}

/// Delays of a call's packets in both directions: sending time and delay in s.
fn delays(call: &FlowReport) -> impl Iterator<Item = (&'static str, f64, f64)> + '_ {
    let series = call.series.iter();
    series.flat_map(|line| line.points.iter().map(|it| (line.label, it.0, it.1)))
}

/// What each settled packet of a call is later than the same packet alone: that of the same
/// direction and sending time. One that was lost on either way has none.
fn added(beside: &FlowReport, alone: &FlowReport, settled_s: f64) -> Vec<f64> {
    let settled = delays(beside).filter(|it| it.1 >= settled_s);
    let mut alone = delays(alone).peekable();
    let mut later = Vec::new();
    for (way, sent_s, delay_s) in settled {
        while alone.next_if(|it| (it.0, it.1) < (way, sent_s)).is_some() {}
        if let Some(same) = alone.next_if(|it| (it.0, it.1) == (way, sent_s)) {
            later.push(delay_s - same.2);
        }
    }
    later
}

/// Octets of settled packets of calls on the line.
fn octets(run: &NaRun) -> Vec<f64> {
    let settled = run.line.iter().filter(|it| it.ended_s >= run.settled_s);
    settled.map(|it| it.octets).collect()
}

/// The share of one direction of the line that calls take.
fn call_share(run: &NaRun) -> f64 {
    let settled = run.line.iter().filter(|it| it.ended_s >= run.settled_s);
    let (mut last_s, mut octets) = (run.settled_s, 0.0);
    for packet in settled.filter(|it| it.end == 0) {
        last_s = last_s.max(packet.ended_s);
        octets += packet.octets;
    }
    if octets > 0.0 {
        octets * OCTET_S / (last_s - run.settled_s)
    } else {
        0.0
    }
}

impl<'a> Rows<'a> {
    fn find(&self, vocoder: &str, calls: usize, data: Data) -> Option<&'a NaRun> {
        let mut runs = self.runs.iter();
        let found = runs.find(|(case, _)| {
            (case.vocoder.name.as_str(), case.calls, case.data) == (vocoder, calls, data)
        });
        found.map(|(_, run)| *run)
    }

    fn jitter(&self) -> Vec<JitterRow<'a>> {
        let mut rows = Vec::new();
        for (case, run) in &self.runs {
            if case.data.is_nothing() || case.data == Data::Slope {
                continue;
            }
            let alone = self.find(&case.vocoder.name, case.calls, Data::Nothing);
            let Some(alone) = alone else { continue };
            let smoothed = |run: &NaRun| {
                let of = |call: &FlowReport| call.metrics.get("jitter_smoothed_s").copied();
                run.calls.iter().filter_map(of).reduce(f64::max)
            };
            let calls = run.calls.iter().zip(&alone.calls);
            rows.push(JitterRow {
                case,
                added_s: calls
                    .flat_map(|(beside, alone)| added(beside, alone, run.settled_s))
                    .collect(),
                smoothed_alone_s: smoothed(alone),
                smoothed_s: smoothed(run),
            });
        }
        rows
    }

    fn call_checks(&self, rows: &[JitterRow<'_>]) -> Vec<Check> {
        let all: Vec<f64> = rows.iter().flat_map(|row| &row.added_s).copied().collect();
        let ftp = rows.iter().filter(|row| row.case.data == Data::Ftp);
        let ftp: Vec<f64> = ftp.flat_map(|row| &row.added_s).copied().collect();
        let storm = rows.iter().filter(|row| row.case.data == Data::Storm);
        let storm: Vec<f64> = storm.flat_map(|row| &row.added_s).copied().collect();
        let worst = rows.iter().filter_map(|row| percentile(&row.added_s, 0.99));
        let bar = Some(WAIT_S + ROUNDING_S);
        let check = |id: &str, value| Check::range(id, value, "s", None, bar).failed();
        vec![
            check("na-jitter-p99", worst.reduce(f64::max)),
            check("na-jitter-max", all.iter().copied().reduce(f64::max)),
            check("na-storm", percentile(&storm, 0.99)),
            check("na-ftp-voice", percentile(&ftp, 0.99)),
            check("na-voice-alone", self.alone_excess()),
        ]
    }

    /// What the worst packet of a call alone takes beyond its octets on the line.
    fn alone_excess(&self) -> Option<f64> {
        let alone = self.runs.iter();
        let alone = alone.filter(|(case, _)| case.calls == 1 && case.data == Data::Nothing);
        let mut worst: Option<f64> = None;
        for (_, run) in alone {
            for (end, label) in ["delay", "delay back"].into_iter().enumerate() {
                let line = run.line.iter().filter(|it| it.end == end);
                let sent = run.calls.iter().flat_map(delays).filter(|it| it.0 == label);
                let settled = line.zip(sent).filter(|(_, it)| it.1 >= run.settled_s);
                for (packet, (_, _, delay_s)) in settled {
                    let excess = delay_s - packet.octets * OCTET_S;
                    worst = Some(worst.map_or(excess, |worst| worst.max(excess)));
                }
            }
        }
        worst
    }

    fn line_checks(&self) -> Vec<Check> {
        let vocoder = self.study.vocoders.first();
        let turns = vocoder.and_then(|it| self.find(&it.name, 1, Data::TalkSpurts));
        let share = self.bulk_shares().into_iter().map(|it| it.2);
        let check = |id: &str, value, unit, max| Check::range(id, value, unit, None, max).failed();
        let [one, two] = [1, 2].map(|calls| self.call_octets(calls));
        let most = |octets: &[f64]| octets.iter().copied().reduce(f64::max);
        vec![
            check("na-voice-octets", mean(&one), "octets", Some(38.5)),
            check("na-voice-octets-max", most(&one), "octets", Some(41.0)),
            // The second call's packets have a context number of one octet more.
            check("na-voices-octets", mean(&two), "octets", Some(39.0)),
            check("na-voices-octets-max", most(&two), "octets", Some(42.0)),
            check(
                "na-rtp-header",
                turns.and_then(|run| run.header_octets),
                "octets",
                Some(3.1),
            ),
            Check::range(
                "na-bulk-share",
                share.reduce(f64::min),
                "",
                Some(0.97),
                None,
            )
            .failed(),
        ]
    }

    /// Octets on the line of every settled packet of the slow vocoder's calls, so many at a time:
    /// beside all data, in long calls, and behind silences.
    fn call_octets(&self, calls: usize) -> Vec<f64> {
        let vocoder = self.study.vocoders.first();
        let mut runs: Vec<&NaRun> = Vec::new();
        for (case, run) in &self.runs {
            // The figures are of packets that say all they have to.
            let whole = case.data != Data::Rebuilt;
            if Some(&case.vocoder) == vocoder && case.calls == calls && whole {
                runs.push(run);
            }
        }
        runs.into_iter().flat_map(octets).collect()
    }

    fn line_table(&self) -> Table {
        let columns = [
            ("vocoder", ""),
            ("calls", ""),
            ("beside", ""),
            ("packets", ""),
            ("octets, mean", "octets"),
            ("octets, max", "octets"),
            ("headers, mean", "octets"),
        ];
        let mut table = named("na-line", &columns);
        for (case, run) in self.runs.iter().filter(|(case, _)| case.calls > 0) {
            let octets = octets(run);
            table.push(vec![
                case.vocoder.name.as_str().into(),
                (case.calls as f64).into(),
                case.data.name().into(),
                (octets.len() as f64).into(),
                mean(&octets).into(),
                octets.iter().copied().reduce(f64::max).into(),
                run.header_octets.into(),
            ]);
        }
        table
    }

    /// By case beside datagrams: octets of the calls, and the datagrams' share of what is left.
    fn bulk_shares(&self) -> Vec<(&'a NaCase, f64, f64)> {
        let bulk = self.runs.iter().filter(|(case, _)| case.data == Data::Bulk);
        let shares = bulk.filter_map(|(case, run)| {
            let (first, last) = (*run.bulk_s.first()?, *run.bulk_s.last()?);
            let within = |it: &&na::OnLine| it.end == 0 && (first..last).contains(&it.ended_s);
            let calls: f64 = run.line.iter().filter(within).map(|it| it.octets).sum();
            let payload = self.study.bulk_payload.0 as f64 * (run.bulk_s.len() - 1) as f64;
            let line = (last - first) / OCTET_S;
            Some((*case, calls, payload / (line - calls)))
        });
        shares.collect()
    }

    fn bulk_table(&self) -> Table {
        let columns = [
            ("vocoder", ""),
            ("calls", ""),
            ("octets of the calls", "octets"),
            ("payload share of the rest", ""),
        ];
        let mut table = named("na-bulk", &columns);
        for (case, calls, share) in self.bulk_shares() {
            table.push(vec![
                case.vocoder.name.as_str().into(),
                (case.calls as f64).into(),
                calls.into(),
                share.into(),
            ]);
        }
        table
    }

    fn slopes(&self) -> impl Iterator<Item = (usize, &'a NaRun)> + '_ {
        let runs = self
            .runs
            .iter()
            .filter(|(case, _)| case.data == Data::Slope);
        runs.map(|(case, run)| (case.calls, *run))
    }

    /// Size and mean time of the echo requests of a run.
    fn ping_points(&self, run: &NaRun) -> Vec<(f64, f64)> {
        let sizes = self.study.slope_payloads.iter();
        let points = sizes.filter_map(|size| {
            let name = format!("ping{}", size.0);
            let pings = run.data.iter().find(|it| it.name == name)?;
            let times = pings.series.iter().flat_map(|line| &line.points);
            let times: Vec<f64> = times.map(|it| it.1).collect();
            Some((size.0 as f64, mean(&times)?))
        });
        points.collect()
    }

    fn ping_table(&self) -> Table {
        let mut columns = vec![Column::new("payload", "octets")];
        let runs: Vec<(usize, &NaRun)> = self.slopes().collect();
        let column = |(calls, _): &(usize, &NaRun)| Column::new(format!("{calls} calls"), "s");
        columns.extend(runs.iter().map(column));
        let mut table = Table::new("na-ping", columns);
        for size in &self.study.slope_payloads {
            let time = |(_, run): &(usize, &NaRun)| {
                let points = self.ping_points(run);
                let point = points.into_iter().find(|it| it.0 == size.0 as f64);
                point.map(|it| it.1).into()
            };
            let mut row = vec![(size.0 as f64).into()];
            row.extend(runs.iter().map(time));
            table.push(row);
        }
        table
    }

    fn ping_slopes(&self) -> Vec<SlopeRow> {
        let rows = self.slopes().filter_map(|(calls, run)| {
            let (slope, r2) = line_through(&self.ping_points(run))?;
            let share = call_share(run);
            // Three of 256 octets are escaped, and both ways count.
            let octet_s = OCTET_S * (1.0 + 3.0 / 256.0);
            Some(SlopeRow {
                calls,
                slope,
                expected: 2.0 * octet_s / (1.0 - share),
                r2,
            })
        });
        rows.collect()
    }
}

/// Slope of the straight line with the least squares, and how much of the spread it explains.
fn line_through(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let [x, y] = points
        .iter()
        .fold([0.0, 0.0], |sum, it| [sum[0] + it.0, sum[1] + it.1])
        .map(|sum| sum / count);
    let [xx, xy, yy] = points.iter().fold([0.0; 3], |sum, it| {
        let (dx, dy) = (it.0 - x, it.1 - y);
        [sum[0] + dx * dx, sum[1] + dx * dy, sum[2] + dy * dy]
    });
    (points.len() > 2 && xx > 0.0 && yy > 0.0).then(|| (xy / xx, xy * xy / (xx * yy)))
}

fn named(id: &str, columns: &[(&str, &str)]) -> Table {
    let columns = columns.iter().map(|(name, unit)| Column::new(*name, *unit));
    Table::new(id, columns.collect())
}

fn jitter_table(rows: &[JitterRow<'_>]) -> Table {
    let columns = [
        ("vocoder", ""),
        ("calls", ""),
        ("beside", ""),
        ("packets", ""),
        ("later, median", "s"),
        ("later, p99", "s"),
        ("later, max", "s"),
        ("jitter alone", "s"),
        ("jitter", "s"),
    ];
    let mut table = named("na-jitter", &columns);
    for row in rows {
        table.push(vec![
            row.case.vocoder.name.as_str().into(),
            (row.case.calls as f64).into(),
            row.case.data.name().into(),
            (row.added_s.len() as f64).into(),
            percentile(&row.added_s, 0.5).into(),
            percentile(&row.added_s, 0.99).into(),
            row.added_s.iter().copied().reduce(f64::max).into(),
            row.smoothed_alone_s.into(),
            row.smoothed_s.into(),
        ]);
    }
    table
}

fn slope_table(rows: &[SlopeRow]) -> Table {
    let columns = [
        ("calls", ""),
        ("slope", "s each octet"),
        ("by the rate left", "s each octet"),
        ("R²", ""),
    ];
    let mut table = named("na-ping-slope", &columns);
    for row in rows {
        table.push(vec![
            (row.calls as f64).into(),
            row.slope.into(),
            row.expected.into(),
            row.r2.into(),
        ]);
    }
    table
}
