//! Rows of the study `proxy`.

use strait_traffic::FlowReport;

use super::super::na::{WAIT_S, added};
use super::super::shown::Row;
use super::world::{
    DATAGRAM_OCTETS, DOWNLOADS, Load, PAGE_OCTETS, PathRow, SHORT_S, START_S, System,
};
use super::{Came, Job};

/// Octets of a segment of a host's.
const SEGMENT_OCTETS: f64 = 1448.0;
/// What may wait whatever the rate.
const HELD_OCTETS_MIN: f64 = 8192.0;
/// What a connection that is told may be later than the far side knows, beside a crossing.
const TOLD_S: f64 = 0.05;
/// An answer that doesn't wait for the link.
const EARLY_S: f64 = 0.1;
/// How long a stream may wait for its next octets, if its turn doesn't come later.
const STARVES_S: f64 = 60.0;
/// Datagrams are counted from here on.
const WARM_S: f64 = 10.0;
/// A call's packets are settled after this time.
const SETTLED_S: f64 = 21.0;

/// All runs.
pub(super) struct Rows<'a> {
    pub(super) paths: &'a [PathRow],
    pub(super) runs: Vec<(&'a Job, &'a Came)>,
}

/// When so many octets of a transfer had arrived.
type Progress<'a> = &'a [(f64, f64)];

impl<'a> Rows<'a> {
    pub(super) fn all(&self, path: usize, system: System, load: Load) -> Vec<&'a Came> {
        let of = |job: &Job| (job.path, job.system, job.load) == (path, system, load);
        let runs = self.runs.iter().filter(|(job, _)| of(job));
        runs.map(|(_, came)| *came).collect()
    }

    fn one(&self, path: usize, system: System, load: Load) -> Option<&'a Came> {
        self.all(path, system, load).first().copied()
    }

    /// Every path with each of its systems.
    fn places(&self) -> impl Iterator<Item = (usize, &'a PathRow, System, Row)> {
        self.paths.iter().enumerate().flat_map(|(path, row)| {
            let systems = row.systems.iter();
            systems.map(move |system| {
                let kind = if system.is_plain() {
                    "plain"
                } else {
                    "proxies"
                };
                let named = Row::default()
                    .with("path", row.name.as_str())
                    .with("by", system.word())
                    .with("kind", kind);
                (path, row, *system, named)
            })
        })
    }

    /// What backlogged datagrams get of a path, in bit/s.
    fn datagrams_bit_s(&self, path: usize) -> Option<f64> {
        let came = self.one(path, System::PlainCubic, Load::Datagrams)?;
        let points = points(came, "udp", "delay").iter();
        let mut arrivals: Vec<f64> = points.map(|(sent_s, delay_s)| sent_s + delay_s).collect();
        arrivals.retain(|at_s| *at_s > START_S + WARM_S);
        arrivals.sort_by(f64::total_cmp);
        let span_s = arrivals.last()? - arrivals.first()?;
        let octets = (arrivals.len() - 1) as f64 * DATAGRAM_OCTETS as f64;
        (span_s > 0.0).then(|| octets * 8.0 / span_s)
    }

    /// How long a short datagram takes over an idle path, in s.
    pub(super) fn crossing_s(&self, path: usize) -> Option<f64> {
        let came = self.one(path, System::PlainCubic, Load::Crossing)?;
        came.run.metrics.get("udp.delay_p50_s").copied()
    }

    /// One transfer at a time.
    pub(super) fn transfers(&self) -> Vec<Row> {
        let rows = self.places().map(|(path, row, system, named)| {
            let runs = self.all(path, system, Load::File);
            let metric = |name: &str, missing: f64| {
                let values = runs.iter().map(|it| it.run.metrics.get(name).copied());
                values.map(|it| it.unwrap_or(missing)).collect::<Vec<_>>()
            };
            let best = match row.of_rate {
                true => Some(row.rate.0 as f64),
                false => self.datagrams_bit_s(path),
            };
            let goodput = metric("file.goodput_bit_s", 0.0);
            let share = best.map(|best| goodput.iter().map(|it| it / best).collect::<Vec<_>>());
            let crossing_s = self.crossing_s(path);
            let connect_max = match system {
                System::Early => Some(EARLY_S),
                System::Honest => crossing_s.map(|it| it * 2.0 + TOLD_S),
                _ => None,
            };
            // What is under way isn't held.
            let held = (!system.is_plain()).then(|| {
                let under_way = row.rate.0 as f64 / 8.0 * row.delay_s()
                    + row.relays as f64 * DATAGRAM_OCTETS as f64;
                let held = runs.iter().map(|it| (it.held_octets - under_way).max(0.0));
                held.collect::<Vec<_>>()
            });
            let held_max = row.rate.0 as f64 / 8.0 * row.hold.0.as_secs_f64()
                + HELD_OCTETS_MIN.max(4.0 * SEGMENT_OCTETS);
            named
                .with("check", row.id.as_deref().unwrap_or_default())
                .with("octets", row.octets.0)
                .with("complete", metric("file.complete", 0.0))
                .with("time_s", metric("file.time_s", f64::INFINITY))
                .with("time_max_s", row.time_max_s)
                .with("share", share)
                .with("share_min", row.share_min)
                .with("crossing_s", crossing_s)
                .with("connect_s", metric("file.connect_s", f64::INFINITY))
                .with("connect_max_s", connect_max)
                .with("held_octets", held)
                .with("held_max", held_max)
        });
        rows.collect()
    }

    /// Transfers through an outage, which begins at another moment of each.
    pub(super) fn outages(&self) -> Vec<Row> {
        let rows = self.places().filter_map(|(path, row, system, named)| {
            let outage_max = row.outage_max?;
            let numbers = (0..row.outages).map(|number| {
                let came = self.one(path, system, Load::Outage(number))?;
                Some((row.outage_s(number).iter().sum::<f64>(), came))
            });
            let numbers: Option<Vec<_>> = numbers.collect();
            let numbers = numbers?;
            let first_s = numbers.iter().map(|(ends_s, came)| {
                let progress = points(came, "file", "progress")
                    .iter()
                    .map(|(at_s, _)| at_s);
                let mut after = progress.filter(|at_s| **at_s > ends_s + row.delay_s());
                after.next().map_or(f64::INFINITY, |at_s| at_s - ends_s)
            });
            let metric = |name: &str, missing: f64| {
                let values = numbers
                    .iter()
                    .map(|(_, it)| it.run.metrics.get(name).copied());
                values.map(|it| it.unwrap_or(missing)).collect::<Vec<_>>()
            };
            Some(
                named
                    .with("moments", row.outages)
                    .with("first_s", first_s.collect::<Vec<_>>())
                    .with("first_max_s", outage_max.0.as_secs_f64())
                    .with("time_s", metric("file.time_s", f64::INFINITY))
                    .with("complete", metric("file.complete", 0.0)),
            )
        });
        rows.collect()
    }

    /// A page beside downloads that fill the link.
    pub(super) fn short(&self) -> Vec<Row> {
        let rows = self.places().filter_map(|(path, row, system, named)| {
            let [alone, without] =
                [Load::Page, Load::Downloads].map(|load| self.one(path, system, load));
            let (alone, without) = (alone?, without?);
            let both = (0..row.short).map(|it| self.one(path, system, Load::Both(it)));
            let both: Vec<&Came> = both.collect::<Option<_>>()?;
            let page_s = |came: &Came| {
                let time_s = came.run.metrics.get("page.time_s").copied();
                time_s.unwrap_or(f64::INFINITY)
            };
            let numbered = (0..).zip(&both);
            let lost = numbered.map(|(number, both)| {
                let ends_s = row.page_s(number) + page_s(both);
                let all = |came| downloads(came).map(|it| arrived(it, ends_s)).sum::<f64>();
                (all(without) - all(both)) / PAGE_OCTETS as f64
            });
            let waits = both.iter().flat_map(|it| downloads(it)).map(longest_s);
            let segment_s = SEGMENT_OCTETS * 8.0 / row.rate.0 as f64;
            let streams = (DOWNLOADS + 6) as f64;
            Some(
                named
                    .with("alone_s", page_s(alone))
                    .with(
                        "page_s",
                        both.iter().map(|it| page_s(it)).collect::<Vec<_>>(),
                    )
                    .with("lost", lost.collect::<Vec<_>>())
                    .with("wait_s", waits.collect::<Vec<_>>())
                    .with("wait_max_s", STARVES_S.max(2.0 * streams * segment_s)),
            )
        });
        rows.collect()
    }

    /// A call beside the same.
    pub(super) fn calls(&self) -> Vec<Row> {
        let rows = self.places().filter_map(|(path, _, system, named)| {
            let [alone, beside] =
                [Load::Call, Load::CallBeside].map(|load| self.one(path, system, load));
            let (alone, beside) = (alone?, beside?);
            let later = added(flow(beside, "call")?, flow(alone, "call")?, SETTLED_S);
            Some(
                named
                    .with("lost", beside.run.metrics.get("call.loss").copied())
                    .with("later_s", later)
                    .with("later_max_s", WAIT_S),
            )
        });
        rows.collect()
    }
}

fn flow<'a>(came: &'a Came, name: &str) -> Option<&'a FlowReport> {
    came.run.flows.iter().find(|it| it.name == name)
}

fn points<'a>(came: &'a Came, name: &str, label: &str) -> Progress<'a> {
    let series = flow(came, name).into_iter().flat_map(|it| &it.series);
    let mut series = series.filter(|it| it.label == label);
    series.next().map_or(&[], |it| &it.points)
}

fn downloads(came: &Came) -> impl Iterator<Item = Progress<'_>> {
    (0..DOWNLOADS).map(move |n| points(came, &format!("download{n}"), "progress"))
}

/// Octets that had arrived by then.
fn arrived(progress: Progress<'_>, by_s: f64) -> f64 {
    let by = progress.partition_point(|(at_s, _)| *at_s <= by_s);
    by.checked_sub(1).map_or(0.0, |last| progress[last].1)
}

/// The longest time without an octet, from the beginning to the end of the run.
fn longest_s(progress: Progress<'_>) -> f64 {
    let arrivals = progress.iter().map(|(at_s, _)| *at_s);
    let times: Vec<f64> = [START_S]
        .into_iter()
        .chain(arrivals)
        .chain([START_S + SHORT_S])
        .collect();
    let waits = times.windows(2).map(|pair| pair[1] - pair[0]);
    waits.fold(0.0, f64::max)
}
