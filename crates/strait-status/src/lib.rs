//! A node's state as one snapshot that everybody reads: `strait status`, the metrics, the lab, the
//! simulator's report.
//!
//! Each counter is described once, beside its field: name, unit, meaning, and how to read it.
//! Whoever shows counters goes through [`Described::COUNTERS`], so a new one needs no second place.
//! The snapshot is the same simulated and live, and is read back as it was written. That of another
//! version can be read too: what is missing is zero, what is unknown is skipped.
#![no_std]

extern crate alloc;

pub mod brief;
mod choices;
mod describe;
mod ended;
mod far;
mod figures;
mod flow;
mod hf;
pub mod ipfix;
mod mail;
mod names;
mod node;
pub mod number;
mod port;
mod prometheus;
pub mod quality;
mod recent;
mod service;
mod span;
mod talk;
mod talker;
#[cfg(test)]
mod tests;
pub mod why;

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::flow::Flow;
use strait_core::stats::Stats;
use strait_core::time::Instant;

pub use choices::{Choice, choices};
pub use describe::{Counter, Described, Kind, Measure, Number, Shape, Value};
pub use ended::{Behind, Ended, behind, fate_name, flow_name, what};
pub use far::{Far, FarClass, FarFlow};
pub use figures::figures;
pub use flow::FlowRow;
pub use hf::{Access, Clients, Link, Rate, Station};
pub use mail::{MailHopRow, MailLaneRow, MailQueue, MailRow};
pub use names::{NameRow, Names};
pub use node::{Class, Host, JournalStatus, Late, Local, Packets, Tap, Volume};
pub use port::{Hop, Neighbour, Port, PortFlows, PortSource, Repairs, Urgent};
pub use prometheus::metrics;
pub use recent::Recent;
pub use service::{Dns, Echo, Led, Mail, Olsr, Proxy, Streams};
pub use span::{ClassSpan, Flow as FlowSpan, Link as LinkSpan, Span};
pub use talk::{Talk, talks};
pub use talker::{HostRow, TalkRow, TalkSource};

/// How long line parts of delays are known: a node can't see when octets arrive.
const LINE: &str = "predicted";

/// The state of a node. Times in seconds, shares 0 … 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Its name.
    pub node: String,
    /// Since its start.
    pub uptime_s: f64,
    /// How the line part of delays is known: `predicted`, from the rates of the lines.
    pub line: String,
    /// Packets by their end.
    pub packets: Packets,
    /// What it kept off its links.
    pub local: Local,
    /// Its ports, the host side first.
    pub ports: Vec<Port>,
    /// Its classes, in the order of the policy.
    pub classes: Vec<Class>,
    /// The flows that leave by ports with the profile `adapter`: calls first.
    pub flows: Vec<FlowRow>,
    /// Flows of late, whatever ports they leave by: those with the most octets first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub talkers: Vec<TalkRow>,
    /// Hosts of late, likewise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostRow>,
    /// What its host gives it: storage and a calendar.
    pub host: Host,
    /// How soon the system woke it when a moment had come; never late where time is virtual.
    pub timers: Late,
    /// Its echo service; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub echo: Option<Echo>,
    /// Its TCP proxy; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Proxy>,
    /// Its DNS proxy; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<Dns>,
    /// Its message switch; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mail: Option<Mail>,
    /// Its router of a mobile network; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub olsr: Option<Olsr>,
    /// Gateways at far ends, as they say; absent where none is to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub far: Vec<Far>,
    /// What its host reaches by it; absent where its node file says nothing of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub led: Option<Led>,
    /// Who looks on as packets end; absent where nobody does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taps: Vec<Tap>,
    /// Its journal; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalStatus>,
}

impl Snapshot {
    /// What the node `name`, whose clock has run since zero, says of itself `now`. What only a
    /// driver knows, it adds: problems of ports, what they found, strangers, timers, taps, journal.
    pub fn new(name: &str, now: Instant, stats: &Stats, flows: &[Flow]) -> Self {
        let uptime_s = now.as_secs_f64();
        let ports = (0..).zip(&stats.ports).map(|(index, stats)| {
            Port::new(&PortSource {
                stats,
                uptime_s,
                is_host: index == 0,
            })
        });
        let talkers = stats.talkers.iter().flat_map(|it| it.flows(now));
        let talkers = talkers.map(|talker| TalkRow::new(&TalkSource { talker, stats, now }));
        let hosts = stats.talkers.iter().flat_map(|it| it.hosts(now));
        let flows = flows.iter().map(|flow| FlowRow::new(flow, stats, now));
        Self {
            node: name.into(),
            uptime_s,
            line: LINE.into(),
            packets: Packets::new(stats),
            local: Local::new(&stats.local),
            ports: ports.collect(),
            classes: stats.classes.iter().map(Class::new).collect(),
            flows: flows.collect(),
            talkers: talkers.collect(),
            hosts: hosts.map(HostRow::new).collect(),
            host: Host::new(stats),
            timers: Late::default(),
            echo: stats.echo.as_ref().map(Echo::new),
            proxy: stats.proxy.as_ref().map(Proxy::new),
            dns: stats.dns.as_ref().map(Dns::new),
            mail: stats.mail.as_ref().map(Mail::new),
            olsr: stats.olsr.as_ref().map(Olsr::new),
            far: stats.far.iter().map(|it| Far::new((it, now))).collect(),
            led: stats.led.as_ref().map(Led::new),
            taps: Vec::new(),
            journal: None,
        }
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
