//! The flows of a gateway in its status. Addresses are for its operator's eyes: they are in no log.

use std::fmt::Write;
use std::net::IpAddr;

use serde::Serialize;
use strait_core::flow::{Flow, FlowMark, Standing};
use strait_core::stats::{FlowStats, Histogram, Stats};
use strait_core::time::Instant;
use strait_world::table::Table;

use crate::gateway_status::{GatewayStatus, Port, columns, number, seconds};

/// A flow.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in Flow")]
pub struct FlowRow {
    pub port: String,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: u8,
    /// Of the source and of the destination.
    pub ports: Option<(u16, u16)>,
    /// Of ESP.
    pub spi: Option<u32>,
    /// Where neither is known.
    pub flow_label: Option<u32>,
    /// `real-time`, by the policy; `real-time, as observed`; or `conventional`.
    pub nature: &'static str,
    /// Its class.
    pub class: String,
    pub dscp: u8,
    pub ipsec: bool,
    /// Of a call: `measured`, `admitted` or `refused`.
    pub standing: Option<&'static str>,
    pub packets: u64,
    /// Mean octets of its packets, of calls on the line.
    pub octets: u32,
    pub period_s: Option<f64>,
    /// What it needs by size and period.
    pub rate_bit_s: Option<u64>,
    /// Since its last packet.
    pub idle_s: f64,
}

/// How a port's flows were foreseen.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields mean what they mean in FlowStats")]
pub struct PortFlows {
    pub known: u64,
    pub displaced: u64,
    pub calls_admitted: u64,
    pub calls_refused: u64,
    /// Gaps between a call's packets that were predicted.
    pub gaps: u64,
    pub gaps_unforeseen: u64,
    pub gap_predicted_p50_s: Option<f64>,
    pub gap_actual_p50_s: Option<f64>,
    /// How far off predictions were, that of 95 of 100.
    pub gap_error_p95_s: Option<f64>,
    pub segments_fitted: u64,
    pub segments_least: u64,
    pub rests: u64,
}

impl PortFlows {
    pub(crate) fn new(stats: &FlowStats) -> Self {
        let gaps = &stats.gaps;
        let quantile_s = |times: &Histogram, q| times.quantile_ns(q).map(seconds);
        Self {
            known: stats.known,
            displaced: stats.displaced,
            calls_admitted: stats.admitted,
            calls_refused: stats.refused,
            gaps: gaps.error.count(),
            gaps_unforeseen: gaps.unforeseen,
            gap_predicted_p50_s: quantile_s(&gaps.predicted, 0.5),
            gap_actual_p50_s: quantile_s(&gaps.actual, 0.5),
            gap_error_p95_s: quantile_s(&gaps.error, 0.95),
            segments_fitted: gaps.fitted,
            segments_least: gaps.least,
            rests: gaps.rests,
        }
    }
}

impl FlowRow {
    pub(crate) fn new(flow: &Flow, stats: &Stats, now: Instant) -> Self {
        let port = stats.ports.get(flow.port.index());
        let class = stats.classes.get(flow.class.index());
        let (ports, spi, flow_label) = match flow.key.mark {
            FlowMark::Ports(from, to) => (Some((from, to)), None, None),
            FlowMark::Spi(spi) => (None, Some(spi), None),
            FlowMark::Label(label) => (None, None, Some(label)),
        };
        Self {
            port: port.map_or_else(String::new, |port| port.name.clone()),
            source: flow.key.src,
            destination: flow.key.dst,
            protocol: flow.key.protocol,
            ports,
            spi,
            flow_label,
            nature: flow.nature.name(),
            class: class.map_or_else(String::new, |class| class.name.clone()),
            dscp: flow.dscp,
            ipsec: flow.key.uses_ipsec(),
            standing: flow.standing.map(Standing::name),
            packets: flow.packets,
            octets: flow.octets,
            period_s: flow.period.map(|period| period.as_secs_f64()),
            rate_bit_s: flow.rate_bit_s(),
            idle_s: now.since(flow.seen).as_secs_f64(),
        }
    }

    /// What tells it from others between the same addresses.
    fn mark(&self) -> String {
        match (self.ports, self.spi, self.flow_label) {
            (Some((from, to)), ..) => format!("{from} > {to}"),
            (_, Some(spi), _) => format!("spi {spi:#x}"),
            (.., Some(label)) if label > 0 => format!("label {label:#x}"),
            _ => "-".into(),
        }
    }
}

/// Both tables, where there is something to show.
pub(crate) fn flows_text(status: &GatewayStatus) -> String {
    let mut text = String::new();
    let gaps = gaps_table(&status.ports);
    if !gaps.rows.is_empty() {
        text += "\ncalls: the time from one packet to the next\n";
        text += &gaps.to_text();
    }
    let flows = flows_table(&status.flows);
    if !flows.rows.is_empty() {
        text += "\n";
        text += &flows.to_text();
    }
    let more = status.flows.len().saturating_sub(FLOWS_SHOWN);
    if more > 0 {
        let _ = writeln!(text, "and {more} more: see --json");
    }
    text
}

fn gaps_table(ports: &[Port]) -> Table {
    let heads = columns(&[
        ("port", ""),
        ("gaps", ""),
        ("predicted p50", "s"),
        ("true p50", "s"),
        ("error p95", "s"),
        ("unforeseen", ""),
        ("pieces cut to fit", ""),
        ("of least size", ""),
        ("admitted", ""),
        ("refused", ""),
        ("flows", ""),
        ("displaced", ""),
    ]);
    let mut table = Table::new("gaps", heads);
    let known = ports.iter().filter(|port| port.flows.known > 0);
    for Port { name, flows, .. } in known {
        table.push(vec![
            name.clone().into(),
            number(flows.gaps),
            flows.gap_predicted_p50_s.into(),
            flows.gap_actual_p50_s.into(),
            flows.gap_error_p95_s.into(),
            number(flows.gaps_unforeseen),
            number(flows.segments_fitted),
            number(flows.segments_least),
            number(flows.calls_admitted),
            number(flows.calls_refused),
            number(flows.known),
            number(flows.displaced),
        ]);
    }
    table
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
            flow.mark().into(),
            flow.nature.into(),
            flow.standing.unwrap_or("-").into(),
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
