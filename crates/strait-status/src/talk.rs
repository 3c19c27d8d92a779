//! Flows that count most, in the figures of a page.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::Serialize;

use crate::figures::rounded;
use crate::flow_name;
use crate::quality::{Judged, Quality};
use crate::span::{Flow, Span};

/// What passed of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Talk {
    /// Its class.
    pub class: String,
    /// The port that it leaves by.
    pub port: String,
    /// What came of it.
    pub asks_bit_s: f64,
    /// What left of it.
    pub out_bit_s: f64,
    /// Mean wait of a packet, without the time on the line.
    pub wait_s: f64,
    /// The share of its packets that was dropped.
    pub lost: f64,
    /// Packets that are here.
    pub held: u64,
    /// Packets dropped, by cause.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub dropped: BTreeMap<String, f64>,
    /// How it may sound, where it looks like a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<Judged>,
}

/// By name, those of which something came or that have packets behind their numbers.
pub fn talks(span: &Span<'_>) -> BTreeMap<String, Talk> {
    let lives = |it: &&Flow<'_>| it.packets_in > 0.0 || !it.row.packets.is_empty();
    let live = span.flows.iter().filter(lives);
    live.map(|it| (flow_name(it.row), talk(it, span))).collect()
}

fn talk(flow: &Flow<'_>, span: &Span<'_>) -> Talk {
    let row = flow.row;
    let rate = |octets: f64| rounded(octets * 8.0 / span.s);
    let quality = || Quality::new((&row.class, &row.port), row.idle_s, span);
    let is_call = flow.is_call(span.s);
    let causes = flow.dropped.iter();
    Talk {
        class: row.class.clone(),
        port: row.port.clone(),
        asks_bit_s: rate(flow.octets_in),
        out_bit_s: rate(flow.octets_out),
        wait_s: rounded(flow.wait_s),
        lost: rounded(flow.lost()),
        held: row.held_packets,
        dropped: causes.map(|(cause, n)| ((*cause).into(), *n)).collect(),
        call: is_call.then(quality).flatten().map(Judged::from),
    }
}
