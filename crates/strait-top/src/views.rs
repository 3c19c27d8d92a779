//! The views: where each has something to show, its columns, and its rows.

use std::collections::BTreeMap;
use std::net::IpAddr;

use strait_core::delay::DelayPart;
use strait_status::number::{percent, short, time};
use strait_status::quality::{Quality, opinion};
use strait_status::{Behind, ClassSpan, FlowRow, FlowSpan, Port, Span, Streams, behind, what};

use crate::table::{Cell, Column, Row, figures, words};
use crate::{choices, counters};

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum View {
    #[default]
    Links,
    Classes,
    Flows,
    Packets,
    Calls,
    Streams,
    Stations,
    Neighbours,
    Names,
    Mail,
    Routes,
    Choices,
    Counters,
}

impl View {
    pub(crate) const ALL: [Self; 13] = [
        Self::Links,
        Self::Classes,
        Self::Flows,
        Self::Packets,
        Self::Calls,
        Self::Streams,
        Self::Stations,
        Self::Neighbours,
        Self::Names,
        Self::Mail,
        Self::Routes,
        Self::Choices,
        Self::Counters,
    ];

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Links => "Links",
            Self::Classes => "Classes",
            Self::Flows => "Flows",
            Self::Packets => "Packets",
            Self::Calls => "Calls",
            Self::Streams => "Streams",
            Self::Stations => "HF",
            Self::Neighbours => "Neighbours",
            Self::Names => "Names",
            Self::Mail => "Mail",
            Self::Routes => "Routes",
            Self::Choices => "Choices",
            Self::Counters => "All",
        }
    }

    /// Whether a node has something to show there.
    pub(crate) fn is_of(self, span: &Span<'_>) -> bool {
        let now = span.last;
        let port = |of: fn(&Port) -> bool| now.ports.iter().any(of);
        match self {
            Self::Links | Self::Classes | Self::Counters => true,
            Self::Flows => !now.flows.is_empty() || !now.talkers.is_empty(),
            Self::Packets => now.talkers.iter().any(|it| !it.packets.is_empty()),
            Self::Calls => now.flows.iter().any(is_call) || !now.talkers.is_empty(),
            Self::Streams => now.proxy.is_some() || now.echo.is_some(),
            Self::Stations => port(|it| it.hf.is_some()),
            Self::Neighbours => port(|it| it.hop.is_some() || !it.neighbours.is_empty()),
            Self::Names => now.dns.is_some(),
            Self::Mail => now.mail.is_some(),
            Self::Routes => now.olsr.is_some(),
            Self::Choices => !choices::rows(span).is_empty(),
        }
    }

    pub(crate) const fn columns(self) -> &'static [Column] {
        match self {
            Self::Links => &LINKS,
            Self::Classes => &CLASSES,
            Self::Flows => &FLOWS,
            Self::Packets => &PACKETS,
            Self::Calls => &CALLS,
            Self::Streams => &STREAMS,
            Self::Stations => &STATIONS,
            Self::Neighbours => &NEIGHBOURS,
            Self::Choices => &choices::COLUMNS,
            Self::Names | Self::Mail | Self::Routes | Self::Counters => &counters::COLUMNS,
        }
    }

    /// Words that find the packets behind a row.
    pub(crate) fn find(self, row: &Row) -> Option<String> {
        let columns: &[usize] = match self {
            Self::Flows | Self::Calls => &[0, 1, 2],
            Self::Links | Self::Classes => &[0],
            _ => return None,
        };
        let words: Vec<&str> = columns.iter().map(|n| &*row.cells[*n].text).collect();
        Some(words.join(" "))
    }

    pub(crate) fn rows(self, span: &Span<'_>) -> Vec<Row> {
        match self {
            Self::Links => links(span),
            Self::Classes => span.classes().iter().map(|it| class(it, span)).collect(),
            Self::Flows => flows(span),
            Self::Packets => behind(span.last).iter().map(packet).collect(),
            Self::Calls => calls(span),
            Self::Streams => streams(span),
            Self::Stations => stations(span),
            Self::Neighbours => neighbours(span),
            Self::Names => counters::names(span),
            Self::Mail => counters::mail(span),
            Self::Routes => counters::routes(span),
            Self::Choices => choices::rows(span),
            Self::Counters => counters::all(span),
        }
    }
}

fn bits(octets: f64, span: &Span<'_>) -> Cell {
    Cell::number(octets * 8.0 / span.s, short)
}

/// The share of octets that compression saves, since the start.
fn saved(plain: u64, compressed: u64) -> Cell {
    let share = (plain > 0).then(|| 1.0 - compressed as f64 / plain as f64);
    Cell::number(share, percent)
}

const LINKS: [Column; 13] = [
    words("link", 8, "the node file's name of the port"),
    words(
        "state",
        6,
        "up, its modem's reports, or the reason why it is down",
    ),
    figures("rate", 6, "bit/s towards the neighbour"),
    figures("used", 5, "share of the time in which it sent"),
    figures("out", 6, "bit/s sent"),
    figures("in", 6, "bit/s received"),
    figures("again", 5, "share of the sent data that was repeated"),
    figures(
        "damaged",
        7,
        "share of the frames received that failed their check",
    ),
    figures("heard", 6, "since anything came"),
    figures("failed", 6, "transmissions that failed, since the start"),
    figures("downs", 5, "times that it went down, since the start"),
    figures("headers", 7, "saved by header compression, since the start"),
    figures(
        "payload",
        7,
        "saved by payload compression, since the start",
    ),
];

fn links(span: &Span<'_>) -> Vec<Row> {
    let rows = span.links.iter().map(|link| {
        let port = link.port;
        let state = match (port.up, &port.problem, &port.found) {
            (true, _, Some(found)) => found.clone(),
            (true, ..) => "up".into(),
            (false, Some(problem), _) => format!("DOWN: {problem}"),
            (false, ..) => "DOWN".into(),
        };
        let failed = (port.tx_failed + port.refused) as f64;
        let damaged = link.damaged();
        Row {
            cells: vec![
                Cell::words(port.name.as_str()),
                Cell::words(state).bad_if(!port.up),
                Cell::number(port.rate_bit_s.map(|it| it as f64), short),
                Cell::number(link.busy, percent),
                bits(link.octets_out, span),
                bits(link.grown(|it| it.octets_in), span),
                Cell::number(link.repeats, percent).bad_if(link.repeats > 0.12),
                Cell::number(damaged, percent).bad_if(damaged > 0.05),
                Cell::number(port.heard_s, time),
                Cell::number(failed, short),
                Cell::number(port.downs as f64, short),
                saved(port.plain_octets, port.compressed_octets),
                saved(port.payload_plain_octets, port.payload_compressed_octets),
            ],
            worst: if port.up {
                link.busy + damaged + link.repeats
            } else {
                10.0
            },
        }
    });
    rows.collect()
}

const CLASSES: [Column; 14] = [
    words("class", 10, "the policy's name for it"),
    figures("out", 6, "bit/s sent by links"),
    figures("in", 6, "bit/s given to the host side"),
    figures("waits", 6, "octets that wait"),
    figures("stay", 6, "mean time of a packet here"),
    figures("dropped", 7, "share of its packets that was dropped"),
    figures(
        "p50",
        6,
        "half of the packets on links waited no longer, since the start",
    ),
    figures("p99", 6, "99 of 100, since the start"),
    figures("class", 6, "of its stay: in its class"),
    figures("turn", 6, "of its stay: for the right to send"),
    figures("line", 6, "of its stay: on the line"),
    figures("repeat", 6, "of its stay: until it was sent again"),
    figures("order", 6, "of its stay: for one before it"),
    figures("proxy", 6, "of its stay: in a proxy"),
];

fn class(one: &ClassSpan<'_>, span: &Span<'_>) -> Row {
    let lost = one.lost().unwrap_or(0.0);
    let part = |part: DelayPart| {
        let at = DelayPart::ALL.iter().position(|it| *it == part);
        let s = at.map(|it| one.parts_s[it]);
        Cell::number(s.filter(|_| one.packets > 0.0), time)
    };
    Row {
        cells: vec![
            Cell::words(one.class.name.as_str()),
            bits(one.sent_octets, span),
            bits(one.delivered_octets, span),
            Cell::number(one.class.queued_octets as f64, short),
            Cell::number(one.stay_s(), time),
            Cell::number(one.lost(), percent).bad_if(lost > 0.01),
            Cell::number(one.class.delay_p50_s, time),
            Cell::number(one.class.delay_p99_s, time),
            part(DelayPart::Class),
            part(DelayPart::Turn),
            part(DelayPart::Line),
            part(DelayPart::Repeat),
            part(DelayPart::Order),
            part(DelayPart::Proxy),
        ],
        worst: one.stay_s().unwrap_or(-1.0) + lost * WAIT_OF_A_LOSS_S,
    }
}

/// What is worse: so many seconds of wait are as bad as the loss of everything.
const WAIT_OF_A_LOSS_S: f64 = 20.0;

const FLOWS: [Column; 14] = [
    words("from", 12, "its source"),
    words("to", 12, "its destination"),
    words("what", 15, "protocol, and ports of source and destination"),
    words("class", 7, "its class"),
    figures(
        "asks",
        5,
        "bit/s received; - if it isn't one of the 64 largest",
    ),
    figures("out", 5, "bit/s that left"),
    figures("wait", 5, "mean wait, without the time on the line"),
    figures("lost", 5, "share of its packets that was dropped"),
    figures("here", 4, "waiting packets"),
    words("is", 12, "real-time, by the policy or by its pace"),
    words("link", 8, "its outgoing port"),
    figures("needs", 6, "bit/s by size and period of its packets"),
    figures("silent", 6, "since its last packet"),
    words("dropped for", 20, "causes, and recent packets"),
];

type Key = (IpAddr, IpAddr, u8, Option<(u16, u16)>, Option<u32>);

fn key(flow: &FlowRow) -> Key {
    let mark = flow.spi.or(flow.flow_label);
    let (from, to) = (flow.source, flow.destination);
    (from, to, flow.protocol, flow.ports, mark)
}

fn talk_key(flow: &FlowSpan<'_>) -> Option<Key> {
    let row = flow.row;
    let ends = (row.source.parse().ok()?, row.destination.parse().ok()?);
    Some((ends.0, ends.1, row.protocol, row.ports, row.mark))
}

/// Those that count most, and all others that are known.
fn flows(span: &Span<'_>) -> Vec<Row> {
    let talk = span.flows.iter();
    let talk: BTreeMap<Key, usize> = talk
        .enumerate()
        .filter_map(|(n, flow)| Some((talk_key(flow)?, n)))
        .collect();
    let mut told = vec![false; span.flows.len()];
    let mut rows = Vec::new();
    for known in &span.last.flows {
        let talks = talk.get(&key(known)).copied();
        if let Some(n) = talks {
            told[n] = true;
        }
        rows.push(flow(talks.map(|n| &span.flows[n]), Some(known), span));
    }
    let others = span.flows.iter().zip(told).filter(|(_, told)| !told);
    rows.extend(others.map(|(it, _)| flow(Some(it), None, span)));
    rows
}

fn flow(talk: Option<&FlowSpan<'_>>, known: Option<&FlowRow>, span: &Span<'_>) -> Row {
    let row = talk.map(|it| it.row);
    let text = |own: fn(&FlowRow) -> String, heard: fn(&strait_status::TalkRow) -> String| {
        let of = known.map(own).or_else(|| row.map(heard));
        Cell::words(of.unwrap_or_default())
    };
    let number = |of: &dyn Fn(&FlowSpan<'_>) -> f64, shown| Cell::number(talk.map(of), shown);
    let idle_s = known
        .map(|it| it.idle_s)
        .or_else(|| row.map(|it| it.idle_s));
    let lost = |it: &FlowSpan<'_>| it.lost();
    let causes = talk.iter().flat_map(|it| &it.dropped);
    let causes: Vec<String> = causes.map(|(cause, n)| format!("{cause} {n:.0}")).collect();
    let is = known.map(|it| match &it.standing {
        Some(standing) => format!("call, {standing}"),
        None => it.nature.clone(),
    });
    let rate = talk.map_or(0.0, |it| it.octets_in / span.s);
    // A network's own talk is kept off links: nobody misses it.
    let to_many = |it: &FlowSpan<'_>| {
        let to = it.row.destination.parse::<IpAddr>();
        to.is_ok_and(|it| it.is_multicast())
    };
    let weight = |it: &FlowSpan<'_>| match to_many(it) {
        true => 0.0,
        false => it.wait_s + lost(it) * WAIT_OF_A_LOSS_S,
    };
    Row {
        cells: vec![
            text(|it| it.source.to_string(), |it| it.source.clone()),
            text(|it| it.destination.to_string(), |it| it.destination.clone()),
            text(
                |it| what(it.protocol, it.ports, it.spi.or(it.flow_label)),
                |it| what(it.protocol, it.ports, it.mark),
            ),
            text(|it| it.class.clone(), |it| it.class.clone()),
            number(&|it| it.octets_in * 8.0 / span.s, short),
            number(&|it| it.octets_out * 8.0 / span.s, short),
            number(&|it| it.wait_s, time),
            number(&lost, percent).bad_if(talk.is_some_and(|it| lost(it) > 0.03 && !to_many(it))),
            number(&|it| it.row.held_packets as f64, short),
            Cell::words(is.unwrap_or_default()),
            text(|it| it.port.clone(), |it| it.port.clone()),
            Cell::number(
                known.and_then(|it| it.rate_bit_s).map(|it| it as f64),
                short,
            ),
            Cell::number(idle_s, time),
            Cell::words(causes.join(", ")),
        ],
        worst: talk.map_or(-1.0, weight) + rate / 1e12,
    }
}

const PACKETS: [Column; 14] = [
    words("flow", 33, "source, destination, protocol and ports"),
    words("class", 7, "its class"),
    words("became", 9, "its outcome; of a dropped one, the cause"),
    figures("stay", 6, "its time here"),
    figures("class", 6, "of its stay: in its class"),
    figures("turn", 6, "of its stay: for the right to send"),
    figures("line", 6, "of its stay: on the line"),
    figures("repeat", 6, "of its stay: until it was sent again"),
    figures("order", 6, "of its stay: for one before it"),
    figures("proxy", 6, "of its stay: in a proxy"),
    figures("size", 6, "octets of the IP packet"),
    figures("ended", 6, "when, since the gateway's start"),
    words("link", 8, "the outgoing port of its flow"),
    words("packet", 16, "the same at each gateway on its path"),
];

/// A packet behind a number.
fn packet(one: &Behind) -> Row {
    let (flow, packet) = (one.flow.as_str(), &one.packet);
    let part = |part: DelayPart| Cell::number(packet.parts_s.get(part.name()).copied(), time);
    let mut cells = vec![
        Cell::words(flow),
        Cell::words(packet.class.as_str()),
        Cell::words(packet.fate.as_str()),
        Cell::number(packet.stay_s, time),
    ];
    cells.extend(DelayPart::ALL.map(part));
    cells.extend([
        Cell::number(f64::from(packet.octets), short),
        Cell::number(packet.at_s, time),
        Cell::words(one.port.as_str()),
        Cell::words(packet.packet.as_str()),
    ]);
    Row {
        cells,
        worst: packet.stay_s,
    }
}

const CALLS: [Column; 12] = [
    words("from", 12, "who speaks"),
    words("to", 12, "to whom"),
    words("what", 15, "protocol, and ports of source and destination"),
    words("class", 6, "its class"),
    words(
        "standing",
        8,
        "measured, admitted, refused; - on links that admit none",
    ),
    figures("stay", 5, "mean stay of its class here"),
    figures("lost", 4, "share lost here, and of frames on the link"),
    figures(
        "R",
        3,
        "E-model (G.107) as if by G.729A: 93 very good, below 60 bad",
    ),
    figures("MOS", 3, "the mean opinion that R stands for, 1 to 4.4"),
    figures("each", 5, "time from packet to packet"),
    figures("needs", 6, "bit/s by size and period of its packets"),
    figures("silent", 6, "since its last packet"),
];

fn is_call(flow: &FlowRow) -> bool {
    flow.standing.is_some() || flow.nature != "conventional"
}

/// Calls that links know, and what looks like one on links that don't.
fn calls(span: &Span<'_>) -> Vec<Row> {
    let known = span.last.flows.iter().filter(|it| is_call(it));
    let mut rows: Vec<Row> = known.clone().map(|it| call(it, span)).collect();
    let keys: Vec<Key> = known.map(key).collect();
    let others = span.flows.iter().filter(|it| it.is_call(span.s));
    let others = others.filter(|it| talk_key(it).is_none_or(|key| !keys.contains(&key)));
    rows.extend(others.map(|it| {
        let (row, pace_s) = (it.row, span.s / it.packets_in.max(1.0));
        let ends = [&row.source, &row.destination].map(String::as_str);
        let what = what(row.protocol, row.ports, row.mark);
        let rate = it.octets_in * 8.0 / span.s;
        let judged = Quality::new((&row.class, &row.port), row.idle_s, span);
        let ends = [ends[0], ends[1], &what, &row.class, "-"];
        call_row(ends, judged, [Some(pace_s), Some(rate), Some(row.idle_s)])
    }));
    rows
}

fn call(flow: &FlowRow, span: &Span<'_>) -> Row {
    let judged = Quality::new((&flow.class, &flow.port), flow.idle_s, span);
    let what = what(flow.protocol, flow.ports, flow.spi.or(flow.flow_label));
    let ends = [flow.source, flow.destination].map(|it| it.to_string());
    let standing = flow.standing.as_deref().unwrap_or("measured");
    let words = [&ends[0], &ends[1], what.as_str(), &flow.class, standing];
    let rate = flow.rate_bit_s.map(|it| it as f64);
    call_row(words, judged, [flow.period_s, rate, Some(flow.idle_s)])
}

fn call_row(texts: [&str; 5], judged: Option<Quality>, rest: [Option<f64>; 3]) -> Row {
    let refused = texts[4] == "refused";
    let bad = judged.is_some_and(|it| it.r < 60.0);
    let round = |it: f64| format!("{it:.0}");
    let mut cells: Vec<Cell> = texts.into_iter().map(Cell::words).collect();
    cells[4].bad = refused;
    cells.extend([
        Cell::number(judged.map(|it| it.stay_s), time),
        Cell::number(judged.map(|it| it.lost), percent),
        Cell::number(judged.map(|it| it.r), round).bad_if(bad),
        Cell::number(judged.map(|it| opinion(it.r)), |it| format!("{it:.1}")),
        Cell::number(rest[0], time),
        Cell::number(rest[1], short),
        Cell::number(rest[2], time),
    ]);
    let worst = judged.map_or(-1.0, |it| 100.0 - it.r) + if refused { 200.0 } else { 0.0 };
    Row { cells, worst }
}

const STREAMS: [Column; 10] = [
    words("of", 8, "whose they are"),
    figures("open", 6, "streams that are open"),
    figures("opened", 7, "since the start"),
    figures("ended", 7, "in order, since the start"),
    figures("reset", 6, "since the start"),
    figures("taken", 6, "bit/s taken from streams"),
    figures("given", 6, "bit/s given to streams"),
    figures("waits", 6, "octets that wait"),
    figures("lost", 6, "octets lost by resets"),
    words("reset for", 14, "causes, since the start"),
];

fn streams(span: &Span<'_>) -> Vec<Row> {
    let of = |name: &str, now: &Streams, was: Option<&Streams>| {
        let rate =
            |field: fn(&Streams) -> u64| field(now).saturating_sub(was.map_or(0, field)) as f64;
        let reset: u64 = now.reset.values().sum();
        let causes: Vec<String> = now
            .reset
            .iter()
            .map(|(why, n)| format!("{why} {n}"))
            .collect();
        Row {
            cells: vec![
                Cell::words(name),
                Cell::number(now.open as f64, short),
                Cell::number(now.opened as f64, short),
                Cell::number(now.ended as f64, short),
                Cell::number(reset as f64, short),
                bits(rate(|it| it.taken_octets), span),
                bits(rate(|it| it.delivered_octets), span),
                Cell::number(now.held_octets as f64, short),
                Cell::number(now.lost_octets as f64, short),
                Cell::words(causes.join(", ")),
            ],
            worst: now.held_octets as f64,
        }
    };
    let (now, was) = (span.last, span.first());
    let proxy = now.proxy.as_ref().map(|it| {
        let was = was.proxy.as_ref().map(|it| &it.streams);
        of("proxy", &it.streams, was)
    });
    let echo = now.echo.as_ref().map(|it| {
        let was = was.echo.as_ref().map(|it| &it.streams);
        of("echo", &it.streams, was)
    });
    proxy.into_iter().chain(echo).collect()
}

const STATIONS: [Column; 13] = [
    words("port", 8, "the station's port"),
    words("with", 8, "the other station"),
    words("state", 7, "whether there is a link"),
    figures("rate", 6, "bit/s towards it"),
    figures("SNR", 5, "dB of its signal, if the modem reports it"),
    figures("window", 7, "frames under way, of the most"),
    figures("lost", 5, "share of the latest frames that was lost"),
    figures("own", 5, "share of the time used for sending to it"),
    figures("its", 5, "share of the time in which it sent"),
    words("rate, why", 12, "the reason of the last change of rate"),
    figures("segment", 7, "octets of a new segment"),
    figures("advised", 7, "bit/s that the other station advises"),
    figures("queued", 6, "U_PDUs that wait in the station"),
];

fn stations(span: &Span<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for port in &span.last.ports {
        let Some(station) = &port.hf else {
            continue;
        };
        let was = span.first().ports.iter().find(|it| it.name == port.name);
        let was = was.and_then(|it| it.hf.as_ref());
        let queued: u64 = station.queued.values().sum();
        for link in &station.neighbours {
            let old = was.and_then(|it| it.neighbours.iter().find(|it| it.name == link.name));
            let rate = link.rate.as_ref();
            let air = |of: fn(&strait_status::Link) -> f64| {
                let share = (of(link) - old.map_or(0.0, of)) / span.s;
                Cell::number(share.clamp(0.0, 1.0), percent)
            };
            rows.push(Row {
                cells: vec![
                    Cell::words(port.name.as_str()),
                    Cell::words(link.name.as_str()),
                    Cell::words(if link.linked { "linked" } else { "no link" })
                        .bad_if(!link.linked),
                    Cell::number(rate.map(|it| it.bit_s as f64), short),
                    Cell::number(rate.and_then(|it| it.snr_db), short),
                    Cell::number(link.under_way as f64, short)
                        .reads(format!("{}/{}", link.under_way, link.window)),
                    Cell::number(link.lost, percent).bad_if(link.lost > 0.4),
                    air(|it| it.sent_s),
                    air(|it| it.heard_s),
                    Cell::words(rate.map_or("", |it| &it.reason)),
                    Cell::number(link.segment_octets as f64, short),
                    Cell::number(
                        rate.and_then(|it| it.advised_bit_s).map(|it| it as f64),
                        short,
                    ),
                    Cell::number(queued as f64, short),
                ],
                worst: link.lost + if link.linked { 0.0 } else { 1.0 },
            });
        }
        for access in &station.accesses {
            let mut cells = vec![
                Cell::words(port.name.as_str()),
                Cell::words(format!("access {}", access.sap)),
                Cell::words(if access.bound { "bound" } else { "unbound" }).bad_if(!access.bound),
            ];
            cells.extend((3..STATIONS.len()).map(|n| match STATIONS[n].words {
                true => Cell::words(""),
                false => Cell::number(None, short),
            }));
            cells[5] = Cell::number(access.under_way as f64, short);
            rows.push(Row {
                cells,
                worst: if access.bound { 0.0 } else { 2.0 },
            });
        }
    }
    rows
}

const NEIGHBOURS: [Column; 11] = [
    words("link", 8, "the port"),
    words("neighbour", 10, "the neighbour; - if there is only one"),
    figures("rate", 6, "bit/s towards it"),
    figures("out", 6, "bit/s sent to it"),
    figures("heard", 6, "since it was heard"),
    figures("again", 6, "packets sent again a second, of the whole link"),
    figures(
        "window",
        7,
        "octets sent and not acknowledged, of the whole link",
    ),
    figures(
        "order",
        6,
        "octets that wait for an earlier one, of the whole link",
    ),
    figures(
        "control",
        7,
        "frames without a packet a second, of the whole link",
    ),
    figures(
        "refused",
        7,
        "packets refused for lack of room, since the start",
    ),
    figures("renewed", 7, "restarts of a neighbour"),
];

fn neighbours(span: &Span<'_>) -> Vec<Row> {
    let links = span.links.iter();
    let links = links.filter(|it| it.port.hop.is_some() || !it.port.neighbours.is_empty());
    links.flat_map(|it| neighbours_of(it, span)).collect()
}

fn neighbours_of(link: &strait_status::LinkSpan<'_>, span: &Span<'_>) -> Vec<Row> {
    let port = link.port;
    let hop = port.hop.as_ref();
    let was = span.first().ports.iter().find(|it| it.name == port.name);
    let rate = |field: fn(&Port) -> u64| hop.map(|_| link.grown(field) / span.s);
    let again = rate(|it| it.hop.as_ref().map_or(0, |it| it.repeated));
    let control = rate(|it| it.hop.as_ref().map_or(0, |it| it.control));
    let row = |name: &str, bit_s: Option<u64>, octets: f64, heard_s: Option<f64>| Row {
        cells: vec![
            Cell::words(port.name.as_str()),
            Cell::words(name),
            Cell::number(bit_s.map(|it| it as f64), short),
            bits(octets, span),
            Cell::number(heard_s, time),
            Cell::number(again, short),
            Cell::number(hop.map(|it| it.window_octets as f64), short),
            Cell::number(hop.map(|it| it.order_octets as f64), short),
            Cell::number(control, short),
            Cell::number(hop.map(|it| it.refused as f64), short),
            Cell::number(hop.map(|it| it.renewals as f64), short),
        ],
        worst: heard_s.unwrap_or(1e9),
    };
    if port.neighbours.is_empty() {
        return vec![row("-", port.rate_bit_s, link.octets_out, port.heard_s)];
    }
    let each = port.neighbours.iter().map(|it| {
        let old = was.and_then(|was| was.neighbours.iter().find(|old| old.name == it.name));
        let octets = it
            .octets_out
            .saturating_sub(old.map_or(0, |old| old.octets_out));
        row(&it.name, it.rate_bit_s, octets as f64, it.heard_s)
    });
    each.collect()
}
