//! How much of what passed one place: packets, octets, rates and sizes by row.

use strait_report::Series;
use strait_report::table::{Cell, Column, Table};

use super::rows::{By, Fold, Key, Rows};
use super::source::Packet;
use super::spread::Sizes;
use super::timeline::{Peak, Timeline};
use super::{LINES_MAX, ROWS_MAX, Settings};

/// What belongs to one row.
#[derive(Debug, Default)]
struct Volume {
    packets: u64,
    octets: u64,
    sizes: Sizes,
    peak: Peak,
    rate: Timeline,
}

impl Fold for Volume {
    fn fold(&mut self, other: Self) {
        self.packets += other.packets;
        self.octets += other.octets;
        self.sizes.merge(&other.sizes);
        self.peak.merge(other.peak);
        self.rate.merge(other.rate);
    }
}

/// Everything that passed.
#[derive(Debug)]
pub(super) struct Volumes {
    by: By,
    interval_ns: u64,
    began_ns: Option<i64>,
    rows: Rows<Key, Volume>,
}

impl Volumes {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            by: settings.by,
            interval_ns: settings.interval_ns.max(1),
            began_ns: None,
            rows: Rows::new(ROWS_MAX),
        }
    }

    #[inline]
    pub(super) fn record(&mut self, packet: &Packet<'_>) {
        let began_ns = *self.began_ns.get_or_insert(packet.time_ns);
        let since_ns = packet.time_ns.saturating_sub(began_ns);
        let octets = packet.ip.octets;
        let row = self.rows.at(self.by.key(&packet.ip));
        row.packets += 1;
        row.octets += u64::from(octets);
        row.sizes.record(octets.into());
        row.peak.record(since_ns, self.interval_ns, octets.into());
        row.rate.record(since_ns, self.interval_ns, octets.into());
    }

    pub(super) const fn folded(&self) -> u64 {
        self.rows.folded()
    }

    /// The table of rows, and rates over time of the heaviest.
    pub(super) fn finish(self, span_s: Option<f64>, shown: usize) -> (Table, Vec<Series>) {
        let interval_ns = self.interval_ns;
        let mut table = Table::new(format!("by {}", self.by.name()), columns(self.by));
        let rows = self.rows.finish(shown, |row| row.octets);
        let all: u64 = rows.iter().map(|(_, row)| row.octets).sum();
        for (label, row) in &rows {
            table.push(row_cells(label, row, all, span_s, interval_ns));
        }
        let mut heavy: Vec<_> = rows.iter().collect();
        heavy.sort_by_key(|(_, row)| std::cmp::Reverse(row.octets));
        let series = heavy
            .into_iter()
            .take(LINES_MAX)
            .map(|(label, row)| Series {
                chart: "rate".into(),
                name: label.clone(),
                unit: "bit/s".into(),
                held: true,
                points: row.rate.rate(interval_ns),
            });
        let series = series.collect();
        (table, series)
    }
}

fn columns(by: By) -> Vec<Column> {
    let columns = [
        (by.name(), ""),
        ("packets", ""),
        ("octets", ""),
        ("share", ""),
        ("rate", "bit/s"),
        ("rate peak", "bit/s"),
        ("size min", "octets"),
        ("size mean", "octets"),
        ("size p50", "octets"),
        ("size p95", "octets"),
        ("size max", "octets"),
    ];
    columns.map(|(name, unit)| Column::new(name, unit)).into()
}

fn row_cells(
    label: &str,
    row: &Volume,
    all: u64,
    span_s: Option<f64>,
    interval_ns: u64,
) -> Vec<Cell> {
    let octets = row.octets as f64;
    let rate = span_s.filter(|span_s| *span_s > 0.0);
    vec![
        label.into(),
        (row.packets as f64).into(),
        octets.into(),
        (octets / all.max(1) as f64).into(),
        rate.map(|span_s| octets * 8.0 / span_s).into(),
        (row.peak.greatest() as f64 * 8e9 / interval_ns as f64).into(),
        row.sizes.least().into(),
        row.sizes.mean().into(),
        row.sizes.percentile(0.5).into(),
        row.sizes.percentile(0.95).into(),
        row.sizes.greatest().into(),
    ]
}
