//! What is told of transfers, live and simulated.

use std::collections::BTreeMap;

use strait_report::estimate::mean;
use strait_report::table::{Cell, Column, Table};

use super::record::{TransferRecord, seconds};
use super::wire::Direction;

/// How transfers of a size and a direction are called in metrics: `10kB`, `10kB-down`.
pub fn label(octets: u32, direction: Direction) -> String {
    let size = match octets {
        whole if whole % 1_000_000 == 0 => format!("{}MB", whole / 1_000_000),
        whole if whole % 1_000 == 0 => format!("{}kB", whole / 1_000),
        octets => format!("{octets}B"),
    };
    match direction {
        Direction::Up => size,
        Direction::Down => size + "-down",
    }
}

/// The metrics of a label, without it; the last one needs a link rate.
const METRICS: [&str; 5] = [
    "connect_s",
    "time_s",
    "last_octet_s",
    "goodput_bit_s",
    "use",
];

/// The names of the metrics of transfers with this label.
pub fn metric_labels(label: &str, with_rate: bool) -> Vec<String> {
    let count = METRICS.len() - usize::from(!with_rate);
    let names = METRICS[..count].iter();
    names.map(|metric| format!("{label}.{metric}")).collect()
}

fn values(record: &TransferRecord, rate_bit_s: Option<u64>) -> [Option<f64>; METRICS.len()] {
    [
        record.connect_s(),
        record.total_s(),
        record.last_octet_s(),
        record.goodput_bit_s(),
        record.utilisation(rate_bit_s),
    ]
}

/// Metrics by name: means over the runs of each label that have a value.
pub fn measurements(
    records: &[TransferRecord],
    rate_bit_s: Option<u64>,
) -> impl Iterator<Item = (String, f64)> {
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for record in records {
        let names = metric_labels(&label(record.octets, record.direction), true);
        for (name, value) in names.into_iter().zip(values(record, rate_bit_s)) {
            found.entry(name).or_default().extend(value);
        }
    }
    let means = found.into_iter();
    means.filter_map(|(name, values)| Some((name, mean(&values)?)))
}

fn head(rest: &[(&str, &str)]) -> Vec<Column> {
    let columns = [("size", "B"), ("direction", ""), ("run", "")];
    let columns = columns.iter().chain(rest);
    columns
        .map(|(name, unit)| Column::new(*name, *unit))
        .collect()
}

fn first_cells(record: &TransferRecord) -> Vec<Cell> {
    vec![
        f64::from(record.octets).into(),
        record.direction.name().into(),
        f64::from(record.run).into(),
    ]
}

/// Two tables: a row for each transfer, and a row for each interval of each. `name` is part of
/// their names if it isn't empty.
///
/// The columns of the second: the end of the interval, which for the last one is when the last
/// octet came; octets so far; the rate in this interval, which gets whole segments and so may be
/// above the link's; the use of the link so far; and how long the last octet of the interval was
/// under way, which is told to within an interval.
pub fn tables(name: &str, records: &[TransferRecord], rate_bit_s: Option<u64>) -> [Table; 2] {
    let title = |what: &str| match name {
        "" => String::from(what),
        name => format!("{what} of {name}"),
    };
    [
        transfers(title("transfers"), records, rate_bit_s),
        progress(title("progress"), records, rate_bit_s),
    ]
}

fn transfers(id: String, records: &[TransferRecord], rate_bit_s: Option<u64>) -> Table {
    let columns = head(&[
        ("connect", "s"),
        ("total", "s"),
        ("last octet", "s"),
        ("goodput", "bit/s"),
        ("use", ""),
        ("segments", ""),
        ("retransmissions", ""),
        ("rtt", "s"),
        ("clock error", "s"),
        ("wrong", "B"),
        ("tcp", ""),
        ("result", ""),
        ("ended", "s"),
    ]);
    let mut table = Table::new(id, columns);
    for record in records {
        let mut row = first_cells(record);
        row.extend(values(record, rate_bit_s).map(Cell::from));
        let sender = &record.sender;
        row.extend([
            (sender.segments_out as f64).into(),
            (sender.retransmissions as f64).into(),
            sender.rtt_ns.map(seconds).into(),
            seconds(record.clock_error_ns).into(),
            (record.wrong as f64).into(),
            sender.congestion.as_str().into(),
            result(record).into(),
            record.ended_ns.map(seconds).into(),
        ]);
        table.push(row);
    }
    table
}

fn result(record: &TransferRecord) -> String {
    let failure = record.failure.as_ref().map(ToString::to_string);
    failure.unwrap_or_else(|| String::from("complete"))
}

fn progress(id: String, records: &[TransferRecord], rate_bit_s: Option<u64>) -> Table {
    let columns = head(&[
        ("time", "s"),
        ("octets", "B"),
        ("rate", "bit/s"),
        ("use", ""),
        ("latency", "s"),
    ]);
    let mut table = Table::new(id, columns);
    for record in records {
        let line = &record.arrived;
        let (mut before, mut begin_ns) = (0, line.origin_ns);
        let last = line.bins.len().saturating_sub(1);
        for (index, step) in line.steps().enumerate() {
            let end_ns = match index == last {
                true => step.at_ns,
                false => begin_ns.saturating_add(line.interval_ns),
            };
            let bits = (step.octets - before) as f64 * 8.0;
            let span_s = seconds(end_ns.saturating_sub(begin_ns));
            let rate = (span_s > 0.0).then(|| bits / span_s);
            let sent_ns = match step.octets == u64::from(record.octets) {
                true => record.taken_ns,
                false => record.sent.reached_ns(step.octets),
            };
            let arrives = step.octets > before;
            let latency_s = sent_ns
                .filter(|_| arrives)
                .map(|sent_ns| seconds(step.at_ns.saturating_sub(sent_ns)));
            let carried = |rate: u64| rate as f64 * seconds(end_ns);
            let use_so_far = rate_bit_s
                .filter(|_| end_ns > 0)
                .map(|rate| step.octets as f64 * 8.0 / carried(rate));
            let mut row = first_cells(record);
            row.extend([
                seconds(end_ns).into(),
                (step.octets as f64).into(),
                rate.into(),
                use_so_far.into(),
                latency_s.into(),
            ]);
            table.push(row);
            (before, begin_ns) = (step.octets, end_ns);
        }
    }
    table
}
