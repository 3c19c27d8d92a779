//! How a node is, short enough for a slow line: made from its snapshots, and read at the far end.

mod codec;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::stats::{Brief, BriefClass, BriefEnds, BriefFlow};

use crate::span::{Flow, Span, UDP, grown, share};
use crate::why::{Why, why};
use crate::{Class, Snapshot, TalkRow};

pub use codec::{Hearer, OCTETS_MAX, Teller};

/// Classes that are told of, the first of the policy.
const CLASSES_MAX: usize = 12;
/// Flows that are told of.
const FLOWS_MAX: usize = 3;

/// How a node is by its snapshots, the oldest first, to whoever is behind its port `port`. Reports
/// themselves, which go between UDP ports of the number `own`, are no flows.
pub fn brief(history: &[Snapshot], port: &str, own: u16) -> Brief {
    let Some(span) = Span::new(history) else {
        return Brief::default();
    };
    let Why { findings, node, .. } = why(history);
    let worst = findings.first();
    let calls: Vec<&Flow<'_>> = span.flows.iter().filter(|it| it.is_call(span.s)).collect();
    let most = |of: fn(&Flow<'_>) -> f64| calls.iter().map(|it| of(it)).fold(0.0, f64::max);
    let mut brief = Brief {
        name: node,
        // Quarters of a second; only the low bits are told.
        at: (span.last.uptime_s * 4.0) as u64 as u8,
        cause: worst.map_or("", |it| it.cause.name()).into(),
        concerns: worst.map_or_else(Default::default, |it| it.concerns.clone()),
        calls: calls.len() as u64,
        calls_wait_s: most(|it| it.wait_s),
        calls_lost: most(|it| it.lost()),
        classes: classes(&span),
        flows: flows(&span, own),
        ..Brief::default()
    };
    if let Some(link) = span.links.iter().find(|it| it.port.name == port) {
        let bit_s = |octets: f64| (octets * 8.0 / span.s) as u64;
        brief.rate_bit_s = link.port.rate_bit_s.unwrap_or(0);
        brief.out_bit_s = bit_s(link.octets_out);
        brief.in_bit_s = bit_s(link.grown(|it| it.octets_in));
        brief.lost_in = share(link.bad_in, link.bad_in + link.packets_in);
    }
    brief
}

/// All classes of the policy up to the last that is told of, so that a place is a class.
fn classes(span: &Span<'_>) -> Vec<BriefClass> {
    let all = span.last.classes.iter().take(CLASSES_MAX);
    all.map(|class| {
        let was = span.first.classes.iter().find(|it| it.name == class.name);
        let of = |field: fn(&Class) -> u64| grown(field(class), was.map_or(0, field));
        let waits = DelayPart::ALL
            .into_iter()
            .filter(|it| *it != DelayPart::Line);
        let waited = waits.map(|part| {
            let was = was.map_or(0, |it| it.delay_parts_s.part_ns(part));
            grown(class.delay_parts_s.part_ns(part), was) / 1e9
        });
        let packets = of(|it| it.packets);
        let dropped = of(|it| it.dropped.values().sum());
        BriefClass {
            name: class.name.clone(),
            queued_octets: class.queued_octets,
            out_bit_s: (of(|it| it.sent_octets) * 8.0 / span.s) as u64,
            wait_s: if packets == 0.0 && class.queued_packets > 0 {
                span.s
            } else {
                waited.sum::<f64>() / packets.max(1.0)
            },
            lost: share(dropped, dropped + packets),
        }
    })
    .collect()
}

/// The flows that wait longest.
fn flows(span: &Span<'_>, own: u16) -> Vec<BriefFlow> {
    let is_own = |row: &TalkRow| row.protocol == UDP && row.ports == Some((own, own));
    let lives =
        |it: &&Flow<'_>| !is_own(it.row) && (it.packets_in > 0.0 || it.row.held_packets > 0);
    let mut worst: Vec<&Flow<'_>> = span.flows.iter().filter(lives).collect();
    worst.sort_by(|one, other| other.wait_s.total_cmp(&one.wait_s));
    let worst = worst.into_iter().take(FLOWS_MAX);
    worst
        .map(|flow| BriefFlow {
            ends: ends(flow.row),
            in_bit_s: (flow.octets_in * 8.0 / span.s) as u64,
            wait_s: flow.wait_s,
            lost: flow.lost(),
        })
        .collect()
}

fn ends(row: &TalkRow) -> Option<BriefEnds> {
    Some(BriefEnds {
        protocol: row.protocol,
        ports: row.ports.unwrap_or_default(),
        src: row.source.parse().ok()?,
        dst: row.destination.parse().ok()?,
    })
}
