//! Rows of the study `na`: what data does to calls, and what calls leave for data.

use strait_report::estimate::mean;
use strait_traffic::FlowReport;

use super::super::shown::Row;
use super::{Data, NaCase, NaRun, NaStudy, OnLine};

/// One octet on the line, in s: ten bits at 9600 baud.
const OCTET_S: f64 = 10.0 / 9600.0;
/// What data may do to a call's packet: the octet that is leaving, and a mark.
pub(in crate::study) const WAIT_S: f64 = 2.0 * OCTET_S;
/// The same on a link for frames, where nothing can be suspended: 32 octets of a packet with a
/// header of one octet and a check of two.
const FRAGMENT_S: f64 = (32.0 + 3.0) * OCTET_S;
/// What the paper says of the jitter of calls beside data, and the octets of its calls' packets of
/// 1200 bit/s.
const PAPER_JITTER_S: f64 = 0.002;
const PAPER_OCTETS: f64 = 41.0;
/// Times are whole nanoseconds, rounded up at each of a path's places.
const ROUNDING_S: f64 = 1e-7;

/// All runs of one line.
pub(super) struct Rows<'a> {
    pub(super) study: &'a NaStudy,
    pub(super) runs: Vec<(&'a NaCase, &'a NaRun)>,
}

/// Delays of a call's packets in both directions: sending time and delay in s.
pub(super) fn delays(call: &FlowReport) -> impl Iterator<Item = (&'static str, f64, f64)> + '_ {
    let series = call.series.iter();
    series.flat_map(|line| line.points.iter().map(|it| (line.label, it.0, it.1)))
}

/// What each settled packet of a call is later than the same packet alone: that of the same
/// direction and sending time. One that was lost on either way has none.
pub(in crate::study) fn added(beside: &FlowReport, alone: &FlowReport, settled_s: f64) -> Vec<f64> {
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
    /// The run of a case.
    pub(super) fn find(&self, case: &NaCase) -> Option<&'a NaRun> {
        let mut runs = self.runs.iter();
        runs.find(|(it, _)| *it == case).map(|(_, run)| *run)
    }

    /// Those of an adapter.
    fn adapters(&self) -> impl Iterator<Item = (&'a NaCase, &'a NaRun)> + '_ {
        self.runs.iter().copied().filter(|(case, _)| !case.fifo)
    }

    /// The same case without an adapter.
    fn fifo(&self, case: &NaCase) -> Option<&'a NaRun> {
        self.find(&NaCase {
            fifo: true,
            ..case.clone()
        })
    }

    /// How much later each packet of the calls of a case is than alone, in s, if they are beside
    /// data; and the jitter of the calls alone.
    fn added(&self, case: &NaCase, run: &NaRun) -> Option<(Vec<f64>, Option<f64>)> {
        if case.data.is_nothing() || case.data == Data::Slope {
            return None;
        }
        let alone = self.find(&NaCase {
            data: Data::Nothing,
            ..case.clone()
        })?;
        let calls = run.calls.iter().zip(&alone.calls);
        let added = calls.flat_map(|(beside, alone)| added(beside, alone, run.settled_s));
        Some((added.collect(), smoothed_s(alone)))
    }

    /// A row for each case: the calls' packets.
    pub(super) fn calls(&self) -> Vec<Row> {
        let first = self.study.vocoders.first();
        let rows = self.adapters().map(|(case, run)| {
            let beside = self.added(case, run);
            let fifo = self.fifo(case);
            let without = fifo.and_then(|run| {
                let same = NaCase {
                    fifo: true,
                    ..case.clone()
                };
                self.added(&same, run)
            });
            let judged = if beside.is_some() { "yes" } else { "no" };
            let alone_s = beside.as_ref().and_then(|it| it.1);
            let share = self.bulk_share(case, run);
            let is_first = Some(&case.vocoder) == first;
            Row::default()
                .with("vocoder", case.vocoder.name.as_str())
                .with("slow", if is_first { "yes" } else { "no" })
                .with("calls", case.calls)
                .with("beside", case.data.name())
                // Packets that say all they have to.
                .with(
                    "whole",
                    if case.data == Data::Rebuilt {
                        "no"
                    } else {
                        "yes"
                    },
                )
                .with("judged", judged)
                .with("added_s", beside.map(|it| it.0))
                .with("wait_s", WAIT_S + ROUNDING_S)
                .with("fragment_s", FRAGMENT_S + ROUNDING_S)
                .with("jitter_alone_s", alone_s)
                .with("jitter_s", smoothed_s(run))
                .with("fifo_added_s", without.map(|it| it.0))
                .with("fifo_jitter_s", fifo.and_then(smoothed_s))
                .with("ping_s", ping_s(run))
                .with("fifo_ping_s", fifo.and_then(ping_s))
                // Its one class has the data as well.
                .with(
                    "fifo_octets",
                    fifo.filter(|_| case.data == Data::Nothing).map(octets),
                )
                .with(
                    "fifo_bulk_share",
                    fifo.and_then(|run| self.fifo_bulk_share(case, run)),
                )
                .with("excess_s", excess_s(run))
                .with(
                    "paper_jitter_s",
                    (judged == "yes").then_some(PAPER_JITTER_S),
                )
                .with("paper_octets", is_first.then_some(PAPER_OCTETS))
                .with("octets", octets(run))
                .with("header_octets", run.header_octets)
                .with("call_octets", share.map(|it| it.0))
                .with("bulk_share", share.map(|it| it.1))
                .with("gaps", run.gaps.predicted)
                .with("unforeseen", run.gaps.unforeseen)
                .with("gap_error_s", run.gaps.error_p95_s)
                .with("fitted", run.gaps.fitted)
                .with("least", run.gaps.least)
                .with("unexplained", run.unexplained)
        });
        rows.collect()
    }

    /// Beside datagrams: octets of the calls, and the datagrams' share of what is left.
    fn bulk_share(&self, case: &NaCase, run: &NaRun) -> Option<(f64, f64)> {
        if case.data != Data::Bulk {
            return None;
        }
        let (first, last) = (*run.bulk_s.first()?, *run.bulk_s.last()?);
        let within = |it: &&OnLine| it.end == 0 && (first..last).contains(&it.ended_s);
        let calls: f64 = run.line.iter().filter(within).map(|it| it.octets).sum();
        let payload = self.study.bulk_payload.0 as f64 * (run.bulk_s.len() - 1) as f64;
        let line = (last - first) / OCTET_S;
        Some((calls, payload / (line - calls)))
    }

    /// The same without an adapter, whose calls can't be told from data on the line: each of their
    /// packets that arrived has the octets that it has alone.
    fn fifo_bulk_share(&self, case: &NaCase, run: &NaRun) -> Option<f64> {
        if case.data != Data::Bulk {
            return None;
        }
        let data = Data::Nothing;
        let alone = self.fifo(&NaCase {
            data,
            ..case.clone()
        })?;
        let (first, last) = (*run.bulk_s.first()?, *run.bulk_s.last()?);
        let calls = run.calls.iter().flat_map(delays);
        let within = calls.filter(|it| it.0 == "delay" && (first..last).contains(&(it.1 + it.2)));
        let call = within.count() as f64 * mean(&octets(alone))?;
        let payload = self.study.bulk_payload.0 as f64 * (run.bulk_s.len() - 1) as f64;
        Some(payload / ((last - first) / OCTET_S - call))
    }

    /// Runs of pings of all sizes by an adapter, with what is beside them.
    pub(super) fn slopes(&self) -> impl Iterator<Item = (String, &'a NaRun)> + '_ {
        let runs = self.adapters().filter(|(case, _)| case.data == Data::Slope);
        runs.map(|(case, run)| (beside_pings(case), run))
    }

    /// Size and mean time of the echo requests of a run.
    pub(super) fn ping_points(&self, run: &NaRun) -> Vec<(f64, f64)> {
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

    /// Ping time beside each number of calls, a row for each size.
    pub(super) fn sizes(&self) -> Vec<Row> {
        let sizes = self.study.slope_payloads.iter();
        let row = |octets: f64| {
            let row = Row::default().with("payload", octets);
            let runs = self.runs.iter();
            let slopes = runs.filter(|(case, _)| case.data == Data::Slope);
            slopes.fold(row, |row, (case, run)| {
                let mut points = self.ping_points(run).into_iter();
                let point = points.find(|it| it.0 == octets);
                let link = if case.fifo { "fifo, " } else { "" };
                row.with(
                    format!("at {link}{}", beside_pings(case)),
                    point.map(|it| it.1),
                )
            })
        };
        sizes.map(|size| row(size.0 as f64)).collect()
    }

    /// Ping time against size beside each number of calls.
    pub(super) fn straights(&self) -> Vec<Row> {
        let rows = self.slopes().filter_map(|(beside, run)| {
            let (slope, r2) = line_through(&self.ping_points(run))?;
            // Three of 256 octets are escaped, and both ways count.
            let octet_s = OCTET_S * (1.0 + 3.0 / 256.0);
            let expected = 2.0 * octet_s / (1.0 - call_share(run));
            let row = Row::default().with("beside", beside).with("slope", slope);
            let row = row.with("expected", expected).with("r2", r2);
            Some(row.with("off", (slope / expected - 1.0).abs()))
        });
        rows.collect()
    }
}

/// The calls beside pings, in words.
fn beside_pings(case: &NaCase) -> String {
    match case.calls {
        0 => "no call".into(),
        calls => format!("{calls} × {}", case.vocoder.name),
    }
}

/// The largest smoothed jitter of a run's calls.
fn smoothed_s(run: &NaRun) -> Option<f64> {
    let of = |call: &FlowReport| call.metrics.get("jitter_smoothed_s").copied();
    run.calls.iter().filter_map(of).reduce(f64::max)
}

/// The median of a run's first pings.
fn ping_s(run: &NaRun) -> Option<f64> {
    let mut data = run.data.iter();
    data.find_map(|flow| flow.metrics.get("rtt_p50_s").copied())
}

/// What each packet of calls takes beyond its octets on the line.
fn excess_s(run: &NaRun) -> Vec<f64> {
    let ways = ["delay", "delay back"].into_iter().enumerate();
    let of = ways.flat_map(|(end, label)| {
        let line = run.line.iter().filter(move |it| it.end == end);
        let sent = run.calls.iter().flat_map(delays);
        let sent = sent.filter(move |it| it.0 == label);
        let settled = line.zip(sent).filter(|(_, it)| it.1 >= run.settled_s);
        settled.map(|(packet, (_, _, delay_s))| delay_s - packet.octets * OCTET_S)
    });
    of.collect()
}

/// Slope of the straight line with the least squares, and how much of the spread it explains.
pub(super) fn line_through(points: &[(f64, f64)]) -> Option<(f64, f64)> {
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
