//! Where the time of a call's packets goes, from one host's socket to the other's.
//!
//! The ends of the call say when a packet left and when it came, the gateways when they had it and
//! when it had left. All clocks are one, so the stretches between these moments add up to the
//! delay.

use std::collections::{BTreeMap, BTreeSet};

use strait_live::files::packets::PacketLine;
use strait_report::estimate::percentile_of_sorted;
use strait_report::table::{Cell, Column, Table};
use strait_traffic::FlowLog;

/// What the packets' ways are made of, in their order.
const STRETCHES: [&str; 5] = [
    "host to gateway: kernel",
    "waiting in gateways",
    "on the lines, by their rates",
    "between gateways, beyond that: kernel, emulator",
    "gateway to host: kernel",
];

/// Nanoseconds of a packet on each of [`STRETCHES`]. A line may be quicker than its gateway
/// believed when it was idle for less than an octet, so these can be negative.
type Way = [i64; STRETCHES.len()];

/// The gateways' packets, by what they are called, in the order of time.
pub(crate) struct Seen<'a> {
    by_packet: BTreeMap<&'a str, Vec<(&'a str, &'a PacketLine)>>,
}

impl<'a> Seen<'a> {
    /// What each gateway wrote.
    pub(crate) fn new(gateways: &'a [(String, Vec<PacketLine>)]) -> Self {
        let mut by_packet: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (gateway, lines) in gateways {
            for line in lines {
                let seen = by_packet.entry(line.packet.as_str()).or_default();
                seen.push((gateway.as_str(), line));
            }
        }
        for seen in by_packet.values_mut() {
            seen.sort_by_key(|(_, line)| line.began_ns);
        }
        Self { by_packet }
    }

    /// The ways of what `from` sent and `to` received, which entered at `gateway`. A packet is the
    /// first of its length that the gateway had after it was sent, and that wasn't delivered after
    /// it came.
    pub(crate) fn ways(
        &self,
        gateway: &str,
        from: &FlowLog,
        to: &FlowLog,
        headers: u32,
    ) -> Vec<Way> {
        let came: BTreeMap<u64, u64> = to
            .received
            .iter()
            .map(|mark| (mark.sequence, mark.at_ns))
            .collect();
        let mut entered: Vec<&[(&str, &PacketLine)]> = self
            .by_packet
            .values()
            .map(Vec::as_slice)
            .filter(|seen| seen[0].0 == gateway)
            .filter(|seen| {
                seen.last()
                    .is_some_and(|(_, line)| line.fate == "delivered")
            })
            .collect();
        entered.sort_by_key(|seen| seen[0].1.began_ns);
        let mut taken = BTreeSet::new();
        let mut ways = Vec::new();
        for sent in &from.sent {
            let Some(&came_ns) = came.get(&sent.sequence) else {
                continue;
            };
            let first = entered.partition_point(|seen| seen[0].1.began_ns < sent.at_ns);
            let fits = |at: &usize| {
                let seen = entered[*at];
                let last = seen[seen.len() - 1].1;
                seen[0].1.octets == sent.octets + headers
                    && last.ended_ns <= came_ns
                    && !taken.contains(at)
            };
            if let Some(at) = (first..entered.len()).find(fits) {
                taken.insert(at);
                ways.push(way(sent.at_ns, entered[at], came_ns));
            }
        }
        ways
    }
}

fn way(sent_ns: u64, seen: &[(&str, &PacketLine)], came_ns: u64) -> Way {
    let span = |from_ns: u64, to_ns: u64| to_ns as i64 - from_ns as i64;
    let (first, last) = (seen[0].1, seen[seen.len() - 1].1);
    let lines = seen.iter().map(|(_, line)| line);
    let line_ns = lines.clone().map(|line| line.line_ns as i64).sum();
    let held_ns: i64 = lines.map(|line| span(line.began_ns, line.ended_ns)).sum();
    let hops = seen.windows(2);
    [
        span(sent_ns, first.began_ns),
        held_ns - line_ns,
        line_ns,
        hops.map(|pair| span(pair[0].1.ended_ns, pair[1].1.began_ns))
            .sum(),
        span(last.ended_ns, came_ns),
    ]
}

/// Of [`STRETCHES`], what stands in for a line of copper: no part of any gateway.
const STAND_IN: usize = 3;

/// The ways of each direction as a table; `None` without any. A jitter is by how much the time of a
/// packet differs from that of the one before.
pub(crate) fn table(directions: &[Vec<Way>]) -> Option<Table> {
    let heads = [
        ("stretch", ""),
        ("min", "s"),
        ("p50", "s"),
        ("p99", "s"),
        ("max", "s"),
        ("jitter p99", "s"),
    ];
    let heads = heads.map(|(name, unit)| Column::new(name, unit));
    let mut table = Table::new("stretches", heads.to_vec());
    let mut push = |name: &str, span: &dyn Fn(&Way) -> i64| {
        let mut row: Vec<Cell> = vec![name.into()];
        row.extend(spread(directions, span)?.map(Cell::from));
        table.push(row);
        Some(())
    };
    for (at, name) in STRETCHES.iter().enumerate() {
        push(name, &|way| way[at])?;
    }
    let whole = |way: &Way| way.iter().sum();
    push("whole", &whole)?;
    push("whole, without that between gateways", &|way| {
        whole(way) - way[STAND_IN]
    })?;
    Some(table)
}

/// Least, middle, 99 of 100, most, and jitter that 99 of 100 don't exceed, in seconds.
fn spread(directions: &[Vec<Way>], span: &dyn Fn(&Way) -> i64) -> Option<[f64; 5]> {
    let mut spans_s = Vec::new();
    let mut jitters_s = Vec::new();
    for ways in directions {
        let these: Vec<f64> = ways.iter().map(|way| span(way) as f64 / 1e9).collect();
        jitters_s.extend(these.windows(2).map(|pair| (pair[1] - pair[0]).abs()));
        spans_s.extend(these);
    }
    spans_s.sort_by(f64::total_cmp);
    jitters_s.sort_by(f64::total_cmp);
    let [min, max] = [*spans_s.first()?, *spans_s.last()?];
    let p50 = percentile_of_sorted(&spans_s, 0.5)?;
    let p99 = percentile_of_sorted(&spans_s, 0.99)?;
    let jitter = percentile_of_sorted(&jitters_s, 0.99)?;
    Some([min, p50, p99, max, jitter])
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_traffic::Side;

    fn line(packet: &str, began_ns: u64, ended_ns: u64, line_ns: u64, fate: &str) -> PacketLine {
        PacketLine {
            packet: packet.into(),
            began_ns,
            ended_ns,
            octets: 91,
            class: 0,
            fate: fate.into(),
            line_ns,
        }
    }

    #[test]
    fn stretches_of_each_packet_add_up_to_its_delay() {
        let gateways = [
            (
                "a".to_owned(),
                vec![
                    line("early", 90, 95, 5, "forwarded"),
                    line("one", 110, 150, 38, "forwarded"),
                    line("two", 205, 243, 38, "forwarded"),
                    line("lost", 305, 343, 38, "forwarded"),
                ],
            ),
            (
                "b".to_owned(),
                vec![
                    line("back", 101, 139, 38, "forwarded"),
                    line("early", 96, 96, 0, "delivered"),
                    line("one", 152, 152, 0, "delivered"),
                    line("two", 242, 242, 0, "delivered"),
                ],
            ),
        ];
        let mut from = FlowLog::new("call", Side::From);
        let mut to = FlowLog::new("call", Side::To);
        let now = strait_core::time::Instant::from_nanos;
        for (sequence, sent_ns, came_ns) in [(0, 100, 155), (1, 200, 260), (2, 300, 390)] {
            from.sent(now(sent_ns), sequence, 43);
            to.received(now(came_ns), sequence, 43);
        }
        let seen = Seen::new(&gateways);
        let ways = seen.ways("a", &from, &to, 48);
        assert_eq!(ways, [[10, 2, 38, 2, 3], [5, 0, 38, -1, 18]]);
        let sums: Vec<i64> = ways.iter().map(|way| way.iter().sum()).collect();
        assert_eq!(sums, [55, 60]);
        assert!(seen.ways("b", &from, &to, 48).is_empty());
        assert!(seen.ways("a", &from, &to, 28).is_empty());
        let table = table(&[ways, Vec::new()]).unwrap();
        let numbers = |row: usize| {
            let cells = table.rows[row][1..].iter();
            let ns = |cell: &Cell| match cell {
                Cell::Number(value) => (value * 1e9).round() as i64,
                _ => -1,
            };
            cells.map(ns).collect::<Vec<_>>()
        };
        assert_eq!(numbers(0), [5, 5, 10, 10, 5]);
        assert_eq!(numbers(5), [55, 55, 60, 60, 5]);
        assert_eq!(numbers(6), [53, 53, 61, 61, 8]);
        assert!(super::table(&[Vec::new(), Vec::new()]).is_none());
    }
}
