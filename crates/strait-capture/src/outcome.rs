//! Tables, checks and plots of an analysis.

use strait_report::table::{Cell, Check, Column, ResultSet, Table};
use strait_report::{Curve, Report, Series};

use super::across::{Across, Crossing, Direction, Side};
use super::rows::code_point;
use super::rtp::Streams;
use super::source::{Source, captures_table};
use super::spread::Times;
use super::volume::Volumes;
use super::{LINES_MAX, Settings};

/// Points of a distribution's line; more than a screen has columns for.
const CURVE_POINTS_MAX: usize = 400;
/// Columns of the matrix of code points; rarer ones at the receiver become one.
const MATRIX_COLUMNS_MAX: usize = 16;

/// What an analysis comes to.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// Tables, and checks of whether the figures are complete.
    pub result: ResultSet,
    /// Rates or delays over time.
    pub series: Vec<Series>,
    /// Distributions of delay.
    pub curves: Vec<Curve>,
    /// Remarks on what the figures mean.
    pub notes: Vec<String>,
}

impl Analysis {
    /// The page.
    pub fn into_report(self, title: impl Into<String>, about: impl Into<String>) -> Report {
        Report {
            title: title.into(),
            about: about.into(),
            result: self.result,
            series: self.series,
            curves: self.curves,
            notes: self.notes,
            ..Report::default()
        }
    }
}

fn none_of(id: &str, count: u64) -> Check {
    Check::range(id, Some(count as f64), "", None, Some(0.0))
}

/// Whether all of the captures was read.
fn whole(stopped: bool, broken: bool) -> Check {
    let value = f64::from(u8::from(!stopped && !broken));
    Check::range("whole", Some(value), "", Some(1.0), None)
}

fn partial_note(stopped: bool, notes: &mut Vec<String>) {
    if stopped {
        notes.push("Stopped early: the figures cover the part read until then.".into());
    }
}

pub(super) fn of_one<R: std::io::Read>(
    source: &Source<R>,
    volumes: Volumes,
    streams: &Streams,
    settings: &Settings,
    stopped: bool,
) -> Analysis {
    let mut notes = Vec::new();
    partial_note(stopped, &mut notes);
    let folded = volumes.folded();
    let (rows, series) = volumes.finish(source.span_s(), settings.shown);
    let mut tables = vec![captures_table([source.row()]), rows];
    let rtp = streams.table(settings.shown);
    if !rtp.rows.is_empty() {
        tables.push(rtp);
    }
    let checks = vec![
        whole(stopped, source.broken.is_some()),
        none_of("rows-folded", folded),
        none_of("rtp-streams-without-room", streams.without_room),
    ];
    Analysis {
        result: ResultSet {
            tables,
            checks,
            ..ResultSet::default()
        },
        series,
        curves: Vec::new(),
        notes,
    }
}

pub(super) fn of_two<R>(
    sources: &[Source<R>; 2],
    across: Across,
    settings: &Settings,
    stopped: bool,
) -> Analysis
where
    R: std::io::Read,
{
    let mut analysis = Analysis::default();
    partial_note(stopped, &mut analysis.notes);
    let broken = sources.iter().any(|source| source.broken.is_some());
    let oversize: u64 = sources.iter().map(|source| source.counts.oversize).sum();
    let tables = &mut analysis.result.tables;
    tables.push(captures_table(sources.iter().map(Source::row)));
    tables.push(clocks_table(&across, settings));
    let faults = across.faults;
    let forgotten = across.forgotten();
    tables.push(matching_table(&faults));
    let mut folded = 0;
    let mut early = 0;
    for (direction, name) in across.directions.into_iter().zip(["A to B", "B to A"]) {
        folded += direction.rows.folded();
        let delays = direction.delays;
        direction_tables(direction, name, settings, &mut analysis, &mut early);
        if let Some((least_ns, _)) = delays.filter(|(least_ns, _)| *least_ns < 0) {
            analysis.notes.push(format!(
                "From {name} packets seem to arrive up to {:.6} s before they leave: the clocks of \
                 the captures differ by at least that much. Give --offset.",
                least_ns.unsigned_abs() as f64 / 1e9
            ));
        }
    }
    judge_overlap(sources, settings, &mut analysis.notes);
    if oversize > 0 {
        analysis.notes.push(
            "Some packets are longer than any link allows: a network card splits them after the \
             capture, or has merged them before it. They can't be found at the other place; switch \
             segmentation and receive offload off, or capture elsewhere."
                .into(),
        );
    }
    let short: u64 = faults.too_short.iter().sum();
    if short > 0 {
        analysis.notes.push(format!(
            "{short} packets have fewer captured octets than --match-octets {}; give a smaller \
             number.",
            settings.mark_octets
        ));
    }
    analysis.result.checks = vec![
        whole(stopped, broken),
        none_of("delays-below-zero", early),
        none_of("packets-too-short-to-match", short),
        none_of("packets-without-room", faults.without_room),
        none_of("flows-forgotten", forgotten),
        none_of("rows-folded", folded),
    ];
    analysis
}

fn clocks_table(across: &Across, settings: &Settings) -> Table {
    let columns = [("what", ""), ("B ahead of A", "s")];
    let columns = columns.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("clocks", columns.into());
    let given_s = settings.offset_ns as f64 / 1e9;
    table.push(vec!["taken into account".into(), given_s.into()]);
    let left_s = across.clock_offset_ns().map(|offset_ns| offset_ns / 1e9);
    table.push(vec![
        "estimate, if the fastest packets took equally long both ways".into(),
        left_s.map(|left_s| given_s + left_s).into(),
    ]);
    table
}

fn matching_table(faults: &super::across::Faults) -> Table {
    let columns = ["packets", "at A", "at B"].map(|name| Column::new(name, ""));
    let mut table = Table::new("not compared", columns.into());
    let rows = [
        ("of addresses never seen at the other", faults.never_seen),
        ("too little kept", faults.too_short),
    ];
    for (what, [a, b]) in rows {
        table.push(vec![what.into(), (a as f64).into(), (b as f64).into()]);
    }
    table
}

/// Says so where the captures have no time in common.
fn judge_overlap<R: std::io::Read>(
    sources: &[Source<R>; 2],
    settings: &Settings,
    notes: &mut Vec<String>,
) {
    let [Some(a), Some(b)] = sources.each_ref().map(|source| source.counts.span_ns) else {
        return;
    };
    let shift = |time_ns: i64| time_ns.saturating_sub(settings.offset_ns);
    let (first, last) = (shift(b.0), shift(b.1));
    let apart_ns = (first.saturating_sub(a.1)).max(a.0.saturating_sub(last));
    if apart_ns > 0 {
        notes.push(format!(
            "The captures are {:.3} s apart: B begins {:.3} s after A. If the clocks differ, give \
             --offset.",
            apart_ns as f64 / 1e9,
            first.saturating_sub(a.0) as f64 / 1e9
        ));
    }
}

fn direction_tables(
    direction: Direction,
    name: &str,
    settings: &Settings,
    analysis: &mut Analysis,
    early: &mut u64,
) {
    let marks = direction.marks;
    let rows = direction
        .rows
        .finish(settings.shown, |row| row.arrived + row.lost);
    if rows.is_empty() {
        return;
    }
    let by = settings.by.name();
    let mut losses = Table::new(format!("{name} by {by}: loss and order"), loss_columns(by));
    let mut delays = Table::new(format!("{name} by {by}: delay"), delay_columns(by));
    for (label, row) in &rows {
        losses.push(loss_cells(label, row));
        delays.push(delay_cells(label, row));
        *early += row.delays.below_zero();
    }
    let tables = &mut analysis.result.tables;
    tables.extend([losses, delays, matrix(name, &marks)]);
    let mut heavy: Vec<_> = rows.iter().filter(|(_, row)| row.arrived > 0).collect();
    heavy.sort_by_key(|(_, row)| std::cmp::Reverse(row.arrived));
    for (label, row) in heavy.into_iter().take(LINES_MAX) {
        draw(label, row, name, settings.interval_ns, analysis);
    }
}

/// Lines of a row: rate and delay over time, and the distribution of delay.
fn draw(label: &str, row: &Crossing, name: &str, interval_ns: u64, analysis: &mut Analysis) {
    let bins = row.over_time.bins(interval_ns);
    let longest = bins.filter(|(_, bin)| bin.count > 0);
    let longest = longest.map(|(at, bin)| (at, bin.greatest as f64 / 1e9));
    analysis.series.push(Series {
        chart: format!("longest delay from {name}, by time of sending"),
        name: label.into(),
        unit: "s".into(),
        held: false,
        points: longest.collect(),
    });
    analysis.series.push(Series {
        chart: format!("rate from {name}, as it arrived"),
        name: label.into(),
        unit: "bit/s".into(),
        held: true,
        points: row.arrivals.rate(interval_ns),
    });
    analysis.curves.push(Curve {
        chart: format!("share of packets from {name} by delay"),
        name: label.into(),
        across: "delay in s".into(),
        unit: String::new(),
        points: curve(&row.delays),
    });
}

/// A distribution as a line, thinned where it has more points than a plot shows.
fn curve(delays: &Times) -> Vec<(f64, f64)> {
    let all = delays.distribution();
    let step = all.len().div_ceil(CURVE_POINTS_MAX).max(1);
    let last = all.len().saturating_sub(1);
    let kept = all.into_iter().enumerate();
    let kept = kept.filter(|(index, _)| index.is_multiple_of(step) || *index == last);
    kept.map(|(_, (ns, share))| (ns / 1e9, share)).collect()
}

fn named(columns: &[(&str, &str)]) -> Vec<Column> {
    let columns = columns.iter();
    columns
        .map(|(name, unit)| Column::new(*name, *unit))
        .collect()
}

fn loss_columns(by: &str) -> Vec<Column> {
    named(&[
        (by, ""),
        ("sent", ""),
        ("arrived", ""),
        ("lost", ""),
        ("loss", ""),
        ("not judged", ""),
        ("unsent", ""),
        ("duplicates", ""),
        ("reordered", ""),
        ("remarked", ""),
    ])
}

fn loss_cells(label: &str, row: &Crossing) -> Vec<Cell> {
    let sent = row.arrived + row.lost;
    let loss = (sent > 0).then(|| row.lost as f64 / sent as f64);
    let before = [sent, row.arrived, row.lost];
    let after = [
        row.not_judged,
        row.unsent,
        row.duplicates,
        row.reordered,
        row.remarked,
    ];
    let mut cells: Vec<Cell> = vec![label.into()];
    cells.extend(before.map(|count| Cell::from(count as f64)));
    cells.push(loss.into());
    cells.extend(after.map(|count| Cell::from(count as f64)));
    cells
}

fn delay_columns(by: &str) -> Vec<Column> {
    named(&[
        (by, ""),
        ("packets", ""),
        ("min", "s"),
        ("mean", "s"),
        ("p50", "s"),
        ("p95", "s"),
        ("p99", "s"),
        ("max", "s"),
        ("jitter mean", "s"),
        ("jitter p99", "s"),
    ])
}

fn delay_cells(label: &str, row: &Crossing) -> Vec<Cell> {
    let (delays, distances) = (&row.delays, &row.distances);
    let times = [
        delays.least(),
        delays.mean(),
        delays.percentile(0.5),
        delays.percentile(0.95),
        delays.percentile(0.99),
        delays.greatest(),
        distances.mean(),
        distances.percentile(0.99),
    ];
    let mut cells: Vec<Cell> = vec![label.into(), (row.arrived as f64).into()];
    cells.extend(times.map(|ns| Cell::from(ns.map(|ns| ns / 1e9))));
    cells
}

/// A row for each code point at the sender, a column for each at the receiver.
fn matrix(name: &str, marks: &std::collections::BTreeMap<(u8, u8), u64>) -> Table {
    let mut received = std::collections::BTreeMap::<u8, u64>::new();
    for ((_, to), count) in marks {
        *received.entry(*to).or_default() += count;
    }
    let mut shown: Vec<(u8, u64)> = received.into_iter().collect();
    shown.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rare = shown.len() > MATRIX_COLUMNS_MAX;
    shown.truncate(MATRIX_COLUMNS_MAX);
    let mut shown: Vec<u8> = shown.into_iter().map(|(to, _)| to).collect();
    shown.sort_unstable();
    let [sender, receiver] = if name.starts_with('A') {
        [Side::A, Side::B]
    } else {
        [Side::B, Side::A]
    };
    let mut columns = vec![Column::new(format!("at {sender:?}"), "")];
    for to in &shown {
        columns.push(Column::new(
            format!("{} at {receiver:?}", code_point(*to)),
            "",
        ));
    }
    if rare {
        columns.push(Column::new("others", ""));
    }
    let mut table = Table::new(format!("{name}: code points"), columns);
    let mut senders: Vec<u8> = marks.keys().map(|(from, _)| *from).collect();
    senders.dedup();
    for from in senders {
        let count = |to: &u8| marks.get(&(from, *to)).copied().unwrap_or_default();
        let mut row: Vec<Cell> = vec![code_point(from).to_string().into()];
        row.extend(shown.iter().map(|to| Cell::from(count(to) as f64)));
        let all: u64 = marks
            .iter()
            .filter(|((sent, _), _)| *sent == from)
            .map(|(_, count)| count)
            .sum();
        let named: u64 = shown.iter().map(count).sum();
        row.push(((all - named) as f64).into());
        table.push(row);
    }
    table
}
