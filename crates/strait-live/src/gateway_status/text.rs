//! A gateway's state as tables for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use strait_core::local::LocalStats;
use strait_core::time::{Duration, Instant};
use strait_world::report::{delay_table, station_tables};
use strait_world::table::{Cell, Column, Table};

use super::{Class, GatewayStatus, Late, Packets, Port};
use crate::gateway_flows::flows_text;
use crate::service::{JournalStatus, View};

pub(super) fn text(name: &str, view: &View<'_>) -> String {
    let status = GatewayStatus::new(name, view);
    let mut text = format!(
        "{name}: up {}\n\n",
        clock_time(view.now.since(Instant::ZERO))
    );
    text += &ports_table(&status.ports).to_text();
    for port in &status.ports {
        if let Some(problem) = &port.problem {
            let _ = writeln!(text, "{}: {problem}", port.name);
        }
    }
    if let Some(journal) = &status.journal
        && let Some(why) = &journal.ended
    {
        let JournalStatus { file, octets, .. } = journal;
        let _ = writeln!(text, "journal: {file} ENDED at {octets} octets: {why}");
    }
    let urgent = urgent_table(&status.ports);
    if !urgent.rows.is_empty() {
        let _ = write!(text, "\n{}", urgent.to_text());
    }
    let stations = status.ports.iter();
    let stations = stations.filter_map(|port| Some((port.name.as_str(), port.hf.as_ref()?)));
    for table in station_tables(stations) {
        let _ = write!(text, "\n{}", table.to_text());
    }
    let _ = write!(text, "\n{}", classes_table(&status.classes).to_text());
    let delays = delay_table(&view.stats.classes);
    if !delays.rows.is_empty() {
        text += "\nwhere the time went (on the line: predicted by its rate)\n";
        text += &delays.to_text();
    }
    text += &flows_text(&status);
    let kept = local_table(&view.stats.local);
    if !kept.rows.is_empty() {
        text += "\n";
        text += &kept.to_text();
    }
    text + "\n" + &status.timers.text() + &ends(&status.packets)
}

/// `1 h 02 min 03 s`
fn clock_time(span: Duration) -> String {
    let (h, min, s) = (
        span.as_secs() / 3600,
        span.as_secs() / 60 % 60,
        span.as_secs() % 60,
    );
    match (h, min) {
        (0, 0) => format!("{s} s"),
        (0, _) => format!("{min} min {s:02} s"),
        _ => format!("{h} h {min:02} min {s:02} s"),
    }
}

impl Late {
    /// One line; nothing before the first wake-up.
    fn text(&self) -> String {
        let Some((p50_s, p99_s)) = self.late_p50_s.zip(self.late_p99_s) else {
            return String::new();
        };
        let [p50, p99, max] = [p50_s, p99_s, self.late_max_s].map(|late_s| late_s * 1e3);
        let first = ["", "; it goes before ordinary programs"][usize::from(self.goes_first)];
        format!("woken late by {p50:.2} ms (p50), {p99:.2} ms (p99), {max:.2} ms at most{first}\n")
    }
}

pub(crate) fn columns(of: &[(&str, &str)]) -> Vec<Column> {
    let column = |(name, unit): &(&str, &str)| Column::new(*name, *unit);
    of.iter().map(column).collect()
}

pub(crate) fn number(count: u64) -> Cell {
    (count as f64).into()
}

fn ports_table(ports: &[Port]) -> Table {
    let heads = columns(&[
        ("port", ""),
        ("state", ""),
        ("rate", "bit/s"),
        ("use, share", ""),
        ("frames in", ""),
        ("octets in", ""),
        ("frames out", ""),
        ("octets out", ""),
        ("damaged", ""),
        ("incomplete", ""),
        ("headers saved", "octets"),
        ("payloads saved", "octets"),
        ("payloads raw", "packets"),
        ("undecompressed", ""),
        ("agreed", ""),
        ("downs", ""),
    ]);
    let mut table = Table::new("ports", heads);
    for port in ports {
        table.push(vec![
            port.name.clone().into(),
            if port.up { "up" } else { "DOWN" }.into(),
            port.rate_bit_s.map(|rate| rate as f64).into(),
            port.rate_bit_s.map(|_| port.busy_share).into(),
            number(port.frames_in),
            number(port.octets_in),
            number(port.frames_out),
            number(port.octets_out),
            number(port.damaged + port.invalid),
            number(port.incomplete),
            number(port.plain_octets.saturating_sub(port.compressed_octets)),
            number(
                port.payload_plain_octets
                    .saturating_sub(port.payload_compressed_octets),
            ),
            number(port.payload_raw),
            number(port.undecompressed),
            port.agreement.clone().into(),
            number(port.downs),
        ]);
    }
    table
}

/// Urgent frames of the ports that had any.
fn urgent_table(ports: &[Port]) -> Table {
    let heads = columns(&[
        ("urgent frames", ""),
        ("sent", ""),
        ("their octets", ""),
        ("of the longest", ""),
        ("inside others", ""),
        ("received", ""),
        ("damaged", ""),
        ("others resumed", ""),
    ]);
    let mut table = Table::new("urgent", heads);
    for port in ports {
        let Some(urgent) = &port.urgent else { continue };
        table.push(vec![
            port.name.clone().into(),
            number(urgent.frames_out),
            number(urgent.octets_out),
            number(urgent.octets_max.into()),
            number(urgent.suspended),
            number(urgent.frames_in),
            number(urgent.damaged),
            number(urgent.resumed),
        ]);
    }
    table
}

fn classes_table(classes: &[Class]) -> Table {
    let heads = columns(&[
        ("class", ""),
        ("packets", ""),
        ("octets", ""),
        ("queued packets", ""),
        ("queued octets", ""),
        ("delay p50", "s"),
        ("delay p99", "s"),
        ("dropped", ""),
        ("why", ""),
    ]);
    let mut table = Table::new("classes", heads);
    for class in classes {
        table.push(vec![
            class.name.clone().into(),
            number(class.packets),
            number(class.octets),
            number(class.queued_packets),
            number(class.queued_octets),
            class.delay_p50_s.into(),
            class.delay_p99_s.into(),
            number(class.dropped.values().sum()),
            listed(&class.dropped).into(),
        ]);
    }
    table
}

fn local_table(local: &LocalStats) -> Table {
    let heads = columns(&[("kept off the links", ""), ("packets", ""), ("octets", "")]);
    let mut table = Table::new("local", heads);
    for (what, kind, volume) in local.iter() {
        let (packets, octets) = (number(volume.packets), number(volume.octets));
        table.push(vec![format!("{what} {kind}").into(), packets, octets]);
    }
    table
}

fn listed(counts: &BTreeMap<&'static str, u64>) -> String {
    let items = counts.iter().map(|(name, count)| format!("{name} {count}"));
    items.collect::<Vec<_>>().join(", ")
}

/// One line that accounts for every packet.
fn ends(packets: &Packets) -> String {
    let mut counts = vec![
        ("delivered", packets.delivered),
        ("forwarded", packets.forwarded),
        ("answered", packets.answered),
        ("absorbed", packets.absorbed),
        ("fragmented", packets.fragmented),
        ("held", packets.held),
    ];
    counts.retain(|(_, count)| *count > 0);
    let mut items: Vec<String> = counts
        .into_iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    if !packets.dropped.is_empty() {
        items.push(format!("dropped: {}", listed(&packets.dropped)));
    }
    let (admitted, own) = (packets.admitted, packets.originated);
    let mut line = format!("packets: {admitted} taken in, {own} own");
    if !items.is_empty() {
        let _ = write!(line, "; {}", items.join(", "));
    }
    if packets.malformed > 0 {
        let _ = write!(line, "; {} malformed", packets.malformed);
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_at_a_glance() {
        let text = |s| clock_time(Duration::from_secs(s));
        assert_eq!(text(59), "59 s");
        assert_eq!(text(60), "1 min 00 s");
        assert_eq!(text(3723), "1 h 02 min 03 s");
    }
}
