//! The flows of a node. Addresses are for its operator's eyes: they are in no log.

use alloc::string::String;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use strait_core::flow::{Flow, FlowMark, Standing};
use strait_core::stats::Stats;
use strait_core::time::Instant;

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub nature: String,
    /// Its class.
    pub class: String,
    pub dscp: u8,
    pub ipsec: bool,
    /// Of a call: `measured`, `admitted` or `refused`.
    pub standing: Option<String>,
    pub packets: u64,
    /// Mean octets of its packets, of calls on the line.
    pub octets: u32,
    pub period_s: Option<f64>,
    /// What it needs by size and period.
    pub rate_bit_s: Option<u64>,
    /// Since its last packet.
    pub idle_s: f64,
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
            nature: flow.nature.name().into(),
            class: class.map_or_else(String::new, |class| class.name.clone()),
            dscp: flow.dscp,
            ipsec: flow.key.uses_ipsec(),
            standing: flow
                .standing
                .map(|standing| Standing::name(standing).into()),
            packets: flow.packets,
            octets: flow.octets,
            period_s: flow.period.map(|period| period.as_secs_f64()),
            rate_bit_s: flow.rate_bit_s(),
            idle_s: now.since(flow.seen).as_secs_f64(),
        }
    }
}
