//! What the flows of an MGEN script experienced: a report for each, and MGEN's own logs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use strait_wire::mgen::Position;

use super::config::{Kind, MgenTraffic, Traffic, TrafficConfig};
use super::log::{FlowLog, Mark, Side};
use super::report::{FlowReport, report};
use crate::mgen::{Entry, Line, Protocol, Recv, Send, What, micros_of_day};
use crate::mgen_flows::{flow_of, source_ports};

impl FlowReport {
    /// All flows together. Times between packets of different flows mean nothing, so there is no
    /// jitter.
    pub(super) fn all_flows(&mut self, from: &FlowLog, to: &FlowLog) {
        let mut sorted = from.clone();
        sorted.sent.sort_by_key(|mark| mark.sequence);
        self.datagrams(&sorted, to);
        self.metrics.retain(|name, _| !name.starts_with("jitter"));
    }
}

/// The part of a log that is about one flow.
fn of_flow(log: &FlowLog, flow: u32) -> FlowLog {
    let part = |marks: &[Mark]| -> Vec<Mark> {
        let own = marks.iter().filter(|mark| flow_of(mark.sequence) == flow);
        own.copied().collect()
    };
    FlowLog {
        sent: part(&log.sent),
        received: part(&log.received),
        ..FlowLog::new(log.traffic.clone(), log.side)
    }
}

/// Joins the logs of a traffic's two hosts: one report, but of an MGEN script one for the whole and
/// one, named `TRAFFIC.FLOW`, for each of its flows.
pub fn flow_reports(config: &TrafficConfig, from: &FlowLog, to: &FlowLog) -> Vec<FlowReport> {
    let mut reports = vec![report(config, from, to)];
    if matches!(config.what, Traffic::Mgen(_)) {
        let marks = from.sent.iter().chain(&to.received);
        let flows: BTreeSet<u32> = marks.map(|mark| flow_of(mark.sequence)).collect();
        for flow in flows {
            let mut own = FlowReport::empty(format!("{}.{flow}", config.name), Kind::Mgen);
            let mut from = of_flow(from, flow);
            from.sent.sort_by_key(|mark| mark.sequence);
            own.datagrams(&from, &of_flow(to, flow));
            reports.push(own);
        }
    }
    reports
}

/// A message that arrived, with what it says itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the flow.
    pub sequence: u64,
    /// When it was sent, in ns of its sender's clock.
    pub sent_ns: u64,
    /// When it arrived, in ns of this host's clock.
    pub at_ns: u64,
    /// Its octets.
    pub octets: u32,
}

/// What a flow experienced, told by its arrivals alone, in their order. What is missing between the
/// lowest and the highest number was lost; what was lost before or after doesn't show. Delays are
/// right as far as both clocks are.
pub fn arrivals_report(name: String, arrivals: &[Arrival]) -> FlowReport {
    let mut from = FlowLog::new(&name, Side::From);
    let mut to = FlowLog::new(&name, Side::To);
    let mut sent: Vec<Mark> = Vec::new();
    for arrival in arrivals {
        let mark = |at_ns| Mark {
            sequence: arrival.sequence,
            at_ns,
            octets: arrival.octets,
        };
        sent.push(mark(arrival.sent_ns));
        to.received.push(mark(arrival.at_ns));
    }
    sent.sort_by_key(|mark| mark.sequence);
    sent.dedup_by_key(|mark| mark.sequence);
    for mark in sent {
        let next = from
            .sent
            .last()
            .map_or(mark.sequence, |last| last.sequence + 1);
        // The lost ones stand for their number only.
        let room = FlowLog::MARKS_MAX.saturating_sub(from.sent.len()) as u64;
        let lost = next..mark.sequence.min(next.saturating_add(room));
        from.sent
            .extend(lost.map(|sequence| Mark { sequence, ..mark }));
        from.sent.push(mark);
    }
    let mut report = FlowReport::empty(name, Kind::Mgen);
    report.datagrams(&from, &to);
    report
}

/// What MGEN would have logged on both hosts of a traffic between `addresses`: events and messages
/// sent at the first, messages received at the second. The run's time 0 is midnight.
pub fn text_logs(
    traffic: &MgenTraffic,
    (begins_ns, first_port): (u64, u16),
    addresses: &[IpAddr],
    from: &FlowLog,
    to: &FlowLog,
) -> [String; 2] {
    let flows: BTreeMap<u32, (Protocol, SocketAddr, Vec<u8>)> = traffic
        .script
        .flows()
        .filter_map(|(_, flow, options)| {
            let data = options.data.unwrap_or_default();
            Some((flow, (options.protocol?, options.dst?, data)))
        })
        .collect();
    let ports = source_ports(&traffic.script, first_port);
    let port = |flow: u32| ports.get(&flow).copied().unwrap_or(0);
    let start = (0, Entry::Start(VERSION.into()));
    let mut sender = vec![start.clone()];
    for event in &traffic.script.events {
        let at_ns = begins_ns + event.at.as_nanos() as u64;
        let (What::On(flow, _) | What::Off(flow)) = event.what else {
            continue;
        };
        if let Some((_, dst, _)) = flows.get(&flow) {
            let entry = match event.what {
                What::On(..) => Entry::On(flow, port(flow), *dst),
                _ => Entry::Off(flow, port(flow), *dst),
            };
            sender.push((at_ns, entry));
        }
    }
    let mut sent_at: BTreeMap<u64, u64> = BTreeMap::new();
    for mark in &from.sent {
        let flow = flow_of(mark.sequence);
        sent_at.insert(mark.sequence, mark.at_ns);
        if let Some((protocol, dst, _)) = flows.get(&flow) {
            let entry = Entry::Send(Send {
                protocol: *protocol,
                flow,
                sequence: mark.sequence as u32,
                src_port: port(flow),
                dst: *dst,
                octets: mark.octets.into(),
            });
            sender.push((mark.at_ns, entry));
        }
    }
    let listens = traffic.script.destinations().into_iter();
    let listens = listens.map(|(protocol, dst)| (0, Entry::Listen(protocol, dst.port())));
    let mut receiver: Vec<(u64, Entry)> = [start].into_iter().chain(listens).collect();
    for mark in &to.received {
        let flow = flow_of(mark.sequence);
        let Some(((protocol, dst, data), sent_ns)) =
            flows.get(&flow).zip(sent_at.get(&mark.sequence))
        else {
            continue;
        };
        let same = |address: &&IpAddr| address.is_ipv4() == dst.is_ipv4();
        let Some(src) = addresses.iter().find(same) else {
            continue;
        };
        let room = mark.octets as usize >= if dst.is_ipv4() { 48 } else { 60 };
        let entry = Entry::Recv(Recv {
            protocol: *protocol,
            flow,
            sequence: mark.sequence as u32,
            src: SocketAddr::new(*src, port(flow)),
            dst: *dst,
            sent_us: micros_of_day(*sent_ns),
            octets: mark.octets.into(),
            host: None,
            position: room.then_some(Position::UNKNOWN),
            data: data.clone(),
            flags: 0,
        });
        receiver.push((mark.at_ns, entry));
    }
    [sender, receiver].map(written)
}

/// The version whose logs and messages ours are like.
const VERSION: &str = "5.02b";

fn written(mut entries: Vec<(u64, Entry)>) -> String {
    entries.sort_by_key(|(at_ns, _)| *at_ns);
    let last_ns = entries.last().map_or(0, |(at_ns, _)| *at_ns);
    entries.push((last_ns, Entry::Stop));
    let mut text = String::new();
    for (at_ns, entry) in entries {
        let at_us = micros_of_day(at_ns);
        let _ = writeln!(text, "{}", Line { at_us, entry });
    }
    text
}
