//! Figures and names as an operator says them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::span::{ESP, Flow, ICMP, ICMPV6, Link, Span, TCP, UDP, share};

/// A time.
pub(super) fn time(s: f64) -> String {
    match s {
        s if s < 0.0995 => format!("{} ms", (s * 1000.0 + 0.5) as u64),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 119.5 => format!("{} s", (s + 0.5) as u64),
        s => format!("{} min", (s / 60.0 + 0.5) as u64),
    }
}

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent > 0.0 && percent < 0.95 => format!("{percent:.1} %"),
        percent => format!("{} %", (percent + 0.5) as u64),
    }
}

/// A rate.
pub(super) fn rate(bit_s: f64) -> String {
    match bit_s {
        it if it < 9_950.0 => format!("{} bit/s", (it + 0.5) as u64),
        it if it < 9_950_000.0 => format!("{:.0} kbit/s", it / 1e3),
        it => format!("{:.1} Mbit/s", it / 1e6),
    }
}

/// A number of things.
pub(super) fn count(number: f64, one: &str) -> String {
    let number = (number + 0.5) as u64;
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

/// Services by their ports.
const SERVICES: [(u16, &str); 14] = [
    (80, "web"),
    (443, "web"),
    (8080, "web"),
    (25, "mail"),
    (587, "mail"),
    (143, "mail"),
    (53, "DNS"),
    (22, "SSH"),
    (20, "FTP"),
    (21, "FTP"),
    (123, "time"),
    (5060, "call set-up"),
    (3389, "remote desktop"),
    (5201, "iperf"),
];

/// What kind of flow it is.
pub(super) fn kind(flow: &Flow<'_>, s: f64) -> String {
    let row = flow.row;
    let (from, to) = row.ports.unwrap_or_default();
    let service = |port| SERVICES.iter().find(|it| it.0 == port).map(|it| it.1);
    if let Some(name) = service(to).or_else(|| service(from)) {
        return name.into();
    }
    match row.protocol {
        _ if flow.is_call(s) => format!("a call (UDP {to})"),
        TCP => format!("a transfer (TCP {from} > {to})"),
        UDP => format!("a stream of datagrams (UDP {to})"),
        ICMP | ICMPV6 => "ping".into(),
        ESP => "IPsec".into(),
        other => format!("protocol {other}"),
    }
}

/// A flow, in a sentence.
pub(super) fn flow(flow: &Flow<'_>, s: f64) -> String {
    format!("{} from {}", kind(flow, s), flow.row.source)
}

/// At the beginning of a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// How a line is used.
pub(super) fn used(link: &Link<'_>) -> String {
    let repeats = if link.repeats >= 0.005 {
        format!(", {} of it repeats", percent(link.repeats))
    } else {
        String::new()
    };
    format!(
        "port {} is {} used{repeats}",
        link.port.name,
        percent(link.busy)
    )
}

/// That all is well, with the figures that show it.
pub(super) fn healthy(span: &Span<'_>) -> String {
    let lines = span.links.iter().map(|link| {
        let lost = share(link.bad_in, link.bad_in + link.packets_in);
        let lost = if link.bad_in > 0.0 {
            format!(", {} of received frames are damaged", percent(lost))
        } else {
            String::new()
        };
        used(link) + &lost
    });
    let lines: Vec<String> = lines.collect();
    let first = span.last.classes.first();
    let is_first = |it: &&Flow<'_>| first.is_some_and(|first| first.name == it.row.class);
    let calls = span.flows.iter().filter(is_first);
    let calls = calls.filter(|it| it.is_call(span.s) && it.packets_out > 0.0);
    let calls: Vec<&Flow<'_>> = calls.collect();
    let worst_s = calls.iter().map(|it| it.wait_s).fold(0.0, f64::max);
    let calls = match calls.len() {
        0 => String::new(),
        number => {
            let call = count(number as f64, "call");
            format!(
                "; {call} wait{} {} at most",
                if number == 1 { "s" } else { "" },
                time(worst_s)
            )
        }
    };
    let waits = |it: &&Flow<'_>| it.packets_out > 0.0 && it.wait_s >= 1.0 && !it.is_call(span.s);
    let longest = span.flows.iter().filter(waits);
    let longest = longest.max_by(|one, other| one.wait_s.total_cmp(&other.wait_s));
    let longest = longest.map_or_else(String::new, |it| {
        format!(
            "; longest wait: {}, {} behind its own packets",
            flow(it, span.s),
            time(it.wait_s)
        )
    });
    let dropped = span.flows.iter().flat_map(|it| it.dropped.values());
    let dropped = dropped.fold(0.0, |sum, it| sum + it);
    let lost = format!("{dropped} of {} packets dropped", grown_packets(span));
    let lines = if lines.is_empty() {
        "no link".into()
    } else {
        lines.join(", ")
    };
    format!(
        "All is well: {lines}{calls}{longest}; {lost} in {}.",
        time(span.s)
    )
}

fn grown_packets(span: &Span<'_>) -> u64 {
    let of = |it: &crate::Snapshot| it.packets.admitted + it.packets.originated;
    crate::span::grown(of(span.last), of(&span.first)) as u64
}
