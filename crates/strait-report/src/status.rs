//! A node's state as tables for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use strait_core::stats::ClassStats;
use strait_core::time::Duration;
use strait_status::why::Why;
use strait_status::{
    Class, FlowRow, JournalStatus, Late, Local, MailQueue, Names, Packets, Port, Snapshot,
};

use super::counters::counter_table;
use super::delay_table;
use super::stations::station_tables;
use crate::table::{Cell, Column, Table};

/// Characters in a line of the terminals that gateways are looked at from.
const SCREEN: usize = 80;

/// What is wrong with a node: the worst first, with what to look at, and what else.
pub fn why_text(why: &Why) -> String {
    let mut text = wrapped(&format!("{}: {}", why.node, why.sentence));
    for (place, finding) in why.findings.iter().enumerate() {
        if place > 0 {
            text += &wrapped(&format!(
                "  also [{}]: {}",
                finding.cause.name(),
                finding.sentence
            ));
        }
        text += &wrapped(&format!(
            "  next [{}]: {}",
            finding.cause.name(),
            finding.look
        ));
    }
    text
}

fn wrapped(text: &str) -> String {
    wrapped_within(text, SCREEN)
}

/// Lines of at most so many letters; all but the first are set in.
pub fn wrapped_within(text: &str, width: usize) -> String {
    let start = text.len() - text.trim_start().len();
    let (mut lines, mut line) = (String::new(), String::from(&text[..start]));
    for word in text.split_whitespace() {
        let has = line.chars().count();
        if !line.trim().is_empty() && has + 1 + word.chars().count() > width {
            let _ = writeln!(lines, "{line}");
            line = " ".repeat(start + 4);
        }
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines + &line + "\n"
}

/// All that `status` says, for a screen: first why it is slow, if it is. What is nothing everywhere
/// is left out, `--json` has it.
pub fn status_text(status: &Snapshot, why: &Why) -> String {
    let up = clock_time(Duration::from_secs_f64(status.uptime_s.clamp(0.0, 1e12)));
    let first = why.findings.first();
    let look = first.map_or_else(String::new, |it| format!(" Next: {}.", it.look));
    let mut text = wrapped(&format!("{}{look}", why.sentence));
    let _ = write!(text, "{}: up {up}\n\n", status.node);
    text += &ports_table(&status.ports).to_text_within(SCREEN);
    for port in &status.ports {
        if let Some(problem) = &port.problem {
            let _ = writeln!(text, "{}: {problem}", port.name);
        }
        if let Some(found) = &port.found {
            let _ = writeln!(text, "{}: {found}", port.name);
        }
    }
    if let Some(journal) = &status.journal
        && let Some(why) = &journal.ended
    {
        let JournalStatus { file, octets, .. } = journal;
        let _ = writeln!(text, "journal: {file} ENDED at {octets} octets: {why}");
    }
    for tap in status.taps.iter().filter(|tap| tap.dropped > 0) {
        let _ = writeln!(text, "tap {}: {} records lost", tap.name, tap.dropped);
    }
    let named = status.ports.iter().map(|port| (port.name.as_str(), port));
    let neighbours = named.clone().flat_map(|(port, it)| {
        let each = it.neighbours.iter();
        each.map(move |it| (vec![it.name.as_str().into(), port.into()], it))
    });
    let table = counter_table("neighbours", &["neighbour", "on port"], neighbours);
    append(&mut text, "", &table);
    let urgent = named
        .clone()
        .filter_map(|(name, port)| Some((vec![name.into()], port.urgent.as_ref()?)));
    append(
        &mut text,
        "",
        &counter_table("urgent", &["urgent frames"], urgent),
    );
    let stations = named
        .clone()
        .filter_map(|(name, port)| Some((name, port.hf.as_ref()?)));
    for table in station_tables(stations) {
        append(&mut text, "", &table);
    }
    append(&mut text, "", &classes_table(&status.classes));
    let classes: Vec<ClassStats> = status.classes.iter().map(Class::delays).collect();
    let title = "parts of the delay (on the line: predicted by its rate)\n";
    append(&mut text, title, &delay_table(&classes));
    let calls = named.filter(|(_, port)| port.flows.known > 0);
    let calls = calls.map(|(name, port)| (vec![name.into()], &port.flows));
    let title = "calls: the time from one packet to the next\n";
    append(&mut text, title, &counter_table("gaps", &["port"], calls));
    append(&mut text, "", &flows_table(&status.flows));
    let more = status.flows.len().saturating_sub(FLOWS_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "and {more} more: see --json");
    }
    let echo = status.echo.iter();
    let echo = echo.map(|echo| (vec!["echo".into()], &echo.streams));
    let proxied = status.proxy.iter();
    let proxied = proxied.map(|proxy| (vec!["proxy".into()], &proxy.streams));
    let services = echo.chain(proxied);
    append(
        &mut text,
        "",
        &counter_table("streams", &["streams of"], services),
    );
    let sessions = status.proxy.iter();
    let sessions = sessions.map(|proxy| (vec!["partners".into()], proxy));
    append(
        &mut text,
        "",
        &counter_table("proxy", &["sessions with"], sessions),
    );
    let dns = status.dns.iter().map(|dns| (vec!["partners".into()], dns));
    append(&mut text, "", &counter_table("dns", &["names by"], dns));
    let mail = status.mail.iter().map(|mail| (vec!["switch".into()], mail));
    append(&mut text, "", &counter_table("mail", &["mail by"], mail));
    let olsr = status.olsr.iter().map(|olsr| (vec!["OLSR".into()], olsr));
    append(&mut text, "", &counter_table("olsr", &["routes by"], olsr));
    append_far(&mut text, status);
    let led = status.led.iter().map(|led| (vec!["routes".into()], led));
    append(&mut text, "", &counter_table("led", &["host"], led));
    append(&mut text, "", &local_table(&status.local));
    text + "\n" + &late(&status.timers) + &ends(&status.packets)
}

/// What gateways at far ends said of themselves, for a screen.
pub fn far_text(status: &Snapshot) -> String {
    if status.far.is_empty() {
        return "No far end reports: the node file has no [far].\n".into();
    }
    let mut text = String::new();
    append_far(&mut text, status);
    text.trim_start().into()
}

/// What gateways at far ends say of themselves.
fn append_far(text: &mut String, status: &Snapshot) {
    let far = || status.far.iter();
    let named = far().map(|it| (vec![it.name.as_str().into()], it));
    append(text, "", &counter_table("far", &["far end"], named));
    let classes = far().flat_map(|far| {
        let each = far.classes.iter();
        each.map(|it| (vec![far.name.as_str().into()], it))
    });
    append(text, "", &counter_table("far-classes", &["at"], classes));
    let flows = far().flat_map(|far| {
        let each = far.flows.iter();
        each.map(|it| (vec![far.name.as_str().into()], it))
    });
    append(text, "", &counter_table("far-flows", &["at"], flows));
}

/// What a message switch has, for a screen.
pub fn mail_text(queue: &MailQueue) -> String {
    let up = clock_time(Duration::from_secs_f64(queue.uptime_s.clamp(0.0, 1e12)));
    let mut text = format!("{}: up {up}\n", queue.node);
    let Some(mail) = &queue.mail else {
        return text + "There is no message switch: its node file has no [mail].\n";
    };
    let counted = [(vec!["switch".into()], mail)].into_iter();
    append(&mut text, "", &counter_table("mail", &["mail by"], counted));
    let columns = columns(&[
        ("id", ""),
        ("precedence", ""),
        ("octets", ""),
        ("age", "s"),
        ("hop", ""),
        ("state", ""),
        ("there in", "s"),
        ("tries", ""),
        ("to", ""),
        ("last reply", ""),
    ]);
    let mut table = Table::new("queue", columns);
    for row in &queue.messages {
        table.push(vec![
            (row.id as f64).into(),
            row.precedence.as_str().into(),
            (row.octets as f64).into(),
            row.age_s.round().into(),
            row.hop.as_str().into(),
            row.state.as_str().into(),
            row.estimate_s
                .map_or_else(|| "-".into(), |it| it.round().into()),
            f64::from(row.tries).into(),
            row.recipients.as_str().into(),
            row.said.as_str().into(),
        ]);
    }
    append(&mut text, "", &table);
    if queue.more > 0 {
        let _ = writeln!(text, "and {} more", queue.more);
    }
    // Where each route has one, the messages' table says all.
    let routes = queue.hops.last().map_or(0, |it| it.route);
    if queue.hops.len() as u64 > routes {
        append(&mut text, "", &hop_table(queue));
    }
    if queue.lanes.iter().any(|it| it.by == "proxy") {
        append(&mut text, "", &lane_table(queue));
    }
    text
}

/// Connections to next hops, and what carries them.
fn lane_table(queue: &MailQueue) -> Table {
    let heads = ["next hop", "lane", "by", "state"];
    let mut table = Table::new("lanes", columns(&heads.map(|head| (head, ""))));
    for row in &queue.lanes {
        let state = if row.ready { "ready" } else { "begins" };
        table.push(vec![
            row.hop.as_str().into(),
            row.precedence.as_str().into(),
            row.by.as_str().into(),
            state.into(),
        ]);
    }
    table
}

/// The next hops of routes.
fn hop_table(queue: &MailQueue) -> Table {
    let heads = [
        "next hop", "route", "domains", "state", "instead", "waiting",
    ];
    let mut table = Table::new("hops", columns(&heads.map(|head| (head, ""))));
    for row in &queue.hops {
        table.push(vec![
            row.hop.as_str().into(),
            (row.route as f64).into(),
            row.domains.as_str().into(),
            row.state.as_str().into(),
            row.instead.as_deref().unwrap_or("-").into(),
            (row.waiting as f64).into(),
        ]);
    }
    table
}

/// What DNS proxies of some nodes answered without a crossing, and what crossed, if there are any.
pub fn names_of(nodes: &[Snapshot]) -> Option<Table> {
    let heads = [
        "gateway",
        "questions",
        "known",
        "stale",
        "joined",
        "ahead",
        "crossed",
        "again",
        "clients' octets",
        "octets out",
        "octets in",
    ];
    let mut table = Table::new("names", columns(&heads.map(|head| (head, ""))));
    for node in nodes {
        let Some(dns) = &node.dns else {
            continue;
        };
        let counts = [
            dns.questions,
            dns.hits,
            dns.stale,
            dns.joined + dns.repeats,
            dns.ahead,
            dns.asked,
            dns.asked_again,
            dns.client_octets,
            dns.octets_out,
            dns.octets_in,
        ];
        let mut row: Vec<Cell> = vec![node.node.as_str().into()];
        row.extend(counts.map(|count| Cell::from(count as f64)));
        table.push(row);
    }
    Some(table).filter(|it| !it.rows.is_empty())
}

/// What a DNS proxy knows and asks for, for a screen.
pub fn names_text(names: &Names) -> String {
    let up = clock_time(Duration::from_secs_f64(names.uptime_s.clamp(0.0, 1e12)));
    let mut text = format!("{}: up {up}\n", names.node);
    let Some(dns) = &names.dns else {
        return text + "There is no DNS proxy: its node file has no [dns].\n";
    };
    let counted = [(vec!["partners".into()], dns)].into_iter();
    append(&mut text, "", &counter_table("dns", &["names by"], counted));
    let without = dns.hits + dns.stale + dns.joined + dns.repeats + dns.ruled;
    let crossed = dns.octets_out + dns.octets_in;
    let _ = writeln!(
        text,
        "\n{} of {} questions crossed, and {without} needed no crossing. Clients sent and received \
         {} octets; {crossed} crossed.",
        dns.asked, dns.questions, dns.client_octets
    );
    let columns = columns(&[
        ("name", ""),
        ("type", ""),
        ("state", ""),
        ("for", "s"),
        ("waiting", ""),
        ("crossed", ""),
        ("what", ""),
    ]);
    let mut table = Table::new("names", columns);
    for row in &names.names {
        table.push(vec![
            row.name.as_str().into(),
            row.kind.as_str().into(),
            row.state.as_str().into(),
            row.time_s.round().into(),
            (row.waiting as f64).into(),
            f64::from(row.tries).into(),
            row.said.as_str().into(),
        ]);
    }
    append(&mut text, "", &table);
    if names.more > 0 {
        let _ = writeln!(text, "and {} more", names.more);
    }
    text
}

/// A table with a line between it and what is before; nothing for one without rows.
fn append(text: &mut String, title: &str, table: &Table) {
    if !table.rows.is_empty() {
        let _ = write!(text, "\n{title}{}", table.to_text_within(SCREEN));
    }
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

/// One line; nothing before the first wake-up.
fn late(timers: &Late) -> String {
    let Some((p50_s, p99_s)) = timers.late_p50_s.zip(timers.late_p99_s) else {
        return String::new();
    };
    let [p50, p99, max] = [p50_s, p99_s, timers.late_max_s].map(|late_s| late_s * 1e3);
    let first = ["", "; real-time priority"][usize::from(timers.goes_first)];
    format!("woken late by {p50:.2} ms (p50), {p99:.2} ms (p99), {max:.2} ms at most{first}\n")
}

fn columns(of: &[(&str, &str)]) -> Vec<Column> {
    let column = |(name, unit): &(&str, &str)| Column::new(*name, *unit);
    of.iter().map(column).collect()
}

fn number(count: u64) -> Cell {
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
        ("in", "bit/s"),
        ("frames out", ""),
        ("octets out", ""),
        ("out", "bit/s"),
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
            port.in_bit_s.map(|rate| rate as f64).into(),
            number(port.frames_out),
            number(port.octets_out),
            port.out_bit_s.map(|rate| rate as f64).into(),
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

fn classes_table(classes: &[Class]) -> Table {
    let rows = classes
        .iter()
        .map(|class| (vec![class.name.as_str().into()], class));
    let mut table = counter_table("classes", &["class"], rows);
    table
        .columns
        .extend(columns(&[("dropped", ""), ("why", "")]));
    for (row, class) in table.rows.iter_mut().zip(classes) {
        row.push(number(class.dropped.values().sum()));
        row.push(listed(&class.dropped).into());
    }
    table
}

fn local_table(local: &Local) -> Table {
    let rows = local
        .iter()
        .map(|(what, kind, volume)| (vec![format!("{what} {kind}").into()], volume));
    counter_table("local", &["kept off the links"], rows)
}

/// Flows in the text: as many as a screen has lines.
const FLOWS_SHOWN: usize = 20;

fn flows_table(flows: &[FlowRow]) -> Table {
    let heads = columns(&[
        ("flow from", ""),
        ("to", ""),
        ("protocol", ""),
        ("ports", ""),
        ("nature", ""),
        ("call", ""),
        ("class", ""),
        ("ipsec", ""),
        ("packets", ""),
        ("octets", ""),
        ("period", "s"),
        ("needs", "bit/s"),
        ("idle", "s"),
    ]);
    let mut table = Table::new("flows", heads);
    for flow in flows.iter().take(FLOWS_SHOWN) {
        table.push(vec![
            flow.source.to_string().into(),
            flow.destination.to_string().into(),
            number(flow.protocol.into()),
            mark(flow).into(),
            flow.nature.as_str().into(),
            flow.standing.as_deref().unwrap_or("-").into(),
            flow.class.clone().into(),
            if flow.ipsec { "yes" } else { "no" }.into(),
            number(flow.packets),
            number(flow.octets.into()),
            flow.period_s.into(),
            flow.rate_bit_s.map(|rate| rate as f64).into(),
            flow.idle_s.into(),
        ]);
    }
    table
}

/// What tells a flow from others between the same addresses.
fn mark(flow: &FlowRow) -> String {
    match (flow.ports, flow.spi, flow.flow_label) {
        (Some((from, to)), ..) => format!("{from} > {to}"),
        (_, Some(spi), _) => format!("spi {spi:#x}"),
        (.., Some(label)) if label > 0 => format!("label {label:#x}"),
        _ => "-".into(),
    }
}

fn listed(counts: &BTreeMap<String, u64>) -> String {
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
