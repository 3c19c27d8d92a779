//! What changed between the snapshots of a node.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use strait_core::delay::DelayPart;

use crate::{Class, Port, Snapshot, TalkRow};

/// Snapshots of one incarnation, and what passed between the first and the last.
#[derive(Debug)]
pub struct Span<'a> {
    pub(crate) first: Snapshot,
    /// The present.
    pub last: &'a Snapshot,
    /// All of them, the last included.
    pub(crate) steps: &'a [Snapshot],
    /// How long it is.
    pub s: f64,
    /// Flows of late, those with the most octets first.
    pub flows: Vec<Flow<'a>>,
    /// Link ports.
    pub links: Vec<Link<'a>>,
}

/// A counter's growth. One that is smaller than before began anew.
pub(crate) const fn grown(now: u64, was: u64) -> f64 {
    if now >= was {
        (now - was) as f64
    } else {
        now as f64
    }
}

/// What of `part` is in `whole`.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        (part / whole).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// The snapshots of the last one's incarnation. Simulated, clocks go on where a node begins anew,
/// and counters don't.
pub(crate) fn last_life(history: &[Snapshot]) -> &[Snapshot] {
    let packets = |it: &Snapshot| it.packets.admitted + it.packets.originated;
    let anew =
        |was: &Snapshot, is: &Snapshot| was.uptime_s >= is.uptime_s || packets(was) > packets(is);
    let mut pairs = history.windows(2);
    let begin = pairs.rposition(|pair| anew(&pair[0], &pair[1]));
    &history[begin.map_or(0, |it| it + 1)..]
}

type Counts = BTreeMap<String, u64>;

/// The growth of each kind.
pub(crate) fn grown_by<'a>(now: &'a Counts, was: Option<&Counts>) -> BTreeMap<&'a str, f64> {
    let before = |kind: &String| was.and_then(|it| it.get(kind)).copied().unwrap_or(0);
    let all = now
        .iter()
        .map(|(kind, count)| (kind.as_str(), grown(*count, before(kind))));
    all.filter(|(_, count)| *count > 0.0).collect()
}

impl<'a> Span<'a> {
    /// Of the last snapshot's incarnation, the oldest snapshot first.
    pub fn new(history: &'a [Snapshot]) -> Option<Self> {
        let last = history.last()?;
        let steps = last_life(history);
        // One that has just started has been nothing before.
        let first = if steps.len() > 1 {
            steps[0].clone()
        } else {
            Snapshot::default()
        };
        let s = (last.uptime_s - first.uptime_s).max(1e-3);
        let mut span = Self {
            last,
            steps,
            s,
            flows: Vec::new(),
            links: Vec::new(),
            first,
        };
        span.flows = last
            .talkers
            .iter()
            .map(|row| Flow::new(row, &span))
            .collect();
        let links = last.ports.iter().filter(|port| !port.host_side);
        span.links = links.map(|port| Link::new(port, &span)).collect();
        Some(span)
    }

    /// What passed in each class.
    pub fn classes(&self) -> Vec<ClassSpan<'a>> {
        let all = self.last.classes.iter();
        all.map(|class| ClassSpan::new(class, self)).collect()
    }

    /// How often a second something that is counted happened.
    pub fn rate(&self, field: impl Fn(&Snapshot) -> u64) -> f64 {
        grown(field(self.last), field(&self.first)) / self.s
    }

    /// The same snapshot's part then, for those who compare parts.
    pub const fn first(&self) -> &Snapshot {
        &self.first
    }

    /// Flows that leave by a link, or are to where there is one only.
    pub(crate) fn flows_of<'s>(&'s self, link: &'s Link<'a>) -> impl Iterator<Item = &'s Flow<'a>> {
        let lone = self.links.len() == 1;
        let is_its = move |flow: &&Flow<'_>| {
            let port = &flow.row.port;
            *port == link.port.name || lone && port.is_empty() && flow.row.held_packets > 0
        };
        self.flows.iter().filter(is_its)
    }

    /// The flow of the way back.
    pub(crate) fn back(&self, flow: &Flow<'_>) -> Option<&Flow<'a>> {
        let turned = flow.row.ports.map(|(from, to)| (to, from));
        self.flows.iter().find(|it| {
            it.row.source == flow.row.destination
                && it.row.destination == flow.row.source
                && it.row.protocol == flow.row.protocol
                && it.row.ports == turned
        })
    }
}

/// A flow, and what of it passed.
#[derive(Debug)]
pub struct Flow<'a> {
    /// What it has counted.
    pub row: &'a TalkRow,
    /// Packets that came.
    pub packets_in: f64,
    /// Their octets.
    pub octets_in: f64,
    /// Packets that left.
    pub packets_out: f64,
    /// Their octets.
    pub octets_out: f64,
    /// Packets destroyed, by cause.
    pub dropped: BTreeMap<&'a str, f64>,
    /// Mean time that packets which left had waited, without the time on the line.
    pub wait_s: f64,
    /// Of this, what they waited for the right to send.
    pub(crate) turn_s: f64,
}

impl<'a> Flow<'a> {
    fn new(row: &'a TalkRow, span: &Span<'_>) -> Self {
        let same = |it: &&TalkRow| {
            (&it.source, &it.destination, it.protocol, it.ports, it.mark)
                == (
                    &row.source,
                    &row.destination,
                    row.protocol,
                    row.ports,
                    row.mark,
                )
        };
        let was = span.first.talkers.iter().find(same);
        // One that lost its place in between began anew.
        let was = was.filter(|it| it.packets_in <= row.packets_in);
        let of = |field: fn(&TalkRow) -> u64| grown(field(row), was.map_or(0, field));
        let packets_out = of(|it| it.packets_out);
        let part = |part| {
            let was = was.map_or(0, |it| it.delay_parts_s.part_ns(part));
            grown(row.delay_parts_s.part_ns(part), was) / 1e9 / packets_out.max(1.0)
        };
        let waits = DelayPart::ALL
            .into_iter()
            .filter(|it| *it != DelayPart::Line);
        let ended_s = waits.map(part).sum::<f64>();
        // Of those that wait still nothing is known but that nobody got through.
        let stuck = packets_out == 0.0 && row.held_packets > 0;
        Self {
            row,
            packets_in: of(|it| it.packets_in),
            octets_in: of(|it| it.octets_in),
            packets_out,
            octets_out: of(|it| it.octets_out),
            dropped: grown_by(&row.dropped, was.map(|it| &it.dropped)),
            wait_s: if stuck {
                span.s.max(row.idle_s)
            } else {
                ended_s
            },
            turn_s: part(DelayPart::Turn),
        }
    }

    /// The share of its packets that was dropped.
    pub fn lost(&self) -> f64 {
        let dropped = self.dropped.values().sum::<f64>();
        share(dropped, dropped + self.packets_out)
    }

    pub(crate) fn dropped_by(&self, cause: &str) -> f64 {
        self.dropped.get(cause).copied().unwrap_or(0.0)
    }

    /// Packets that there was no room for, or no time.
    pub(crate) fn crowded_out(&self) -> f64 {
        let causes = [
            "aged",
            "queue-octets",
            "queue-packets",
            "codel",
            "pushed-out",
            "wred",
        ];
        causes.iter().map(|cause| self.dropped_by(cause)).sum()
    }

    pub(crate) const fn is_tcp(&self) -> bool {
        self.row.protocol == TCP
    }

    /// Whether whoever sends it hopes for an answer.
    pub(crate) const fn asks(&self) -> bool {
        matches!(self.row.protocol, TCP | ICMP | ICMPV6)
    }

    /// Small packets of nearly one size at a steady pace, as calls have them.
    pub fn is_call(&self, s: f64) -> bool {
        let row = self.row;
        let is_its = matches!(row.protocol, UDP | ESP);
        let steady = row.octets_most - row.octets_least <= (row.octets_most / 4).max(16);
        let pace = self.packets_in / s;
        is_its && steady && row.octets_most <= 400 && (2.5..=120.0).contains(&pace)
    }

    /// Whether it is for one host that may be elsewhere: no network's own talk.
    pub(crate) fn is_for_one(&self) -> bool {
        use core::net::IpAddr;
        match self.row.destination.parse() {
            Ok(IpAddr::V4(to)) => !to.is_multicast() && !to.is_broadcast() && !to.is_link_local(),
            Ok(IpAddr::V6(to)) => !to.is_multicast() && to.segments()[0] & 0xffc0 != 0xfe80,
            Err(_) => false,
        }
    }
}

pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ESP: u8 = 50;
pub(crate) const ICMPV6: u8 = 58;

/// A link port, and what passed by it.
#[derive(Debug)]
pub struct Link<'a> {
    /// The port.
    pub port: &'a Port,
    pub(crate) was: Option<Port>,
    pub(crate) frames_out: f64,
    /// Octets sent.
    pub octets_out: f64,
    pub(crate) packets_in: f64,
    /// Share of the time in which it sent.
    pub busy: f64,
    /// Frames that came and couldn't be used.
    pub(crate) bad_in: f64,
    /// Of what it sent, the share that was sent again.
    pub repeats: f64,
    pub(crate) repeated: f64,
}

/// Of a station's frames, the share whose loss repeats are for.
const LOST: f64 = 0.05;

impl<'a> Link<'a> {
    pub(crate) fn new(port: &'a Port, span: &Span<'_>) -> Self {
        let was = span.first.ports.iter().find(|it| it.name == port.name);
        let of = |field: fn(&Port) -> u64| grown(field(port), was.map_or(0, field));
        let busy_s = port.busy_s - was.map_or(0.0, |it| it.busy_s);
        let frames_out = of(|it| it.frames_out);
        let octets_out = of(|it| it.octets_out);
        let hops = of(|it| {
            it.hop
                .as_ref()
                .map_or(0, |hop| hop.repeated.saturating_sub(hop.needless))
        });
        let repaired = of(|it| it.repairs.as_ref().map_or(0, |it| it.repeated));
        let repaired_octets = of(|it| it.repairs.as_ref().map_or(0, |it| it.repeated_octets));
        // Spare room of a station's turn is filled with what is in it: nothing was lost by that.
        let peers = port.hf.iter().flat_map(|it| &it.neighbours);
        let fills = peers.map(|it| it.lost).fold(0.0, f64::max) < LOST;
        let station = of(|it| it.hf.as_ref().map_or(0, |it| it.repeated));
        let station = if fills { 0.0 } else { station };
        let d_pdus = of(|it| it.hf.as_ref().map_or(0, |it| it.d_pdus_out));
        Self {
            port,
            was: was.cloned(),
            frames_out,
            octets_out,
            packets_in: of(|it| it.packets_in),
            busy: (busy_s / span.s).clamp(0.0, 1.0),
            bad_in: of(Port::bad_in),
            repeats: share(hops, frames_out)
                .max(share(repaired_octets, octets_out))
                .max(share(station, d_pdus)),
            repeated: hops + repaired + station,
        }
    }

    /// A counter's growth.
    pub fn grown(&self, field: fn(&Port) -> u64) -> f64 {
        grown(field(self.port), self.was.as_ref().map_or(0, field))
    }

    /// Of the frames that came, the share that was damaged.
    pub fn damaged(&self) -> f64 {
        let bad = self.grown(|it| it.damaged + it.invalid);
        share(bad, bad + self.grown(|it| it.frames_in))
    }

    /// How long a packet of 1500 octets holds the line.
    pub(crate) fn packet_s(&self) -> f64 {
        self.port
            .rate_bit_s
            .map_or(0.0, |rate| 12_000.0 / rate.max(1) as f64)
    }
}

/// A class, and what passed in it.
#[derive(Debug)]
pub struct ClassSpan<'a> {
    /// What it has counted.
    pub class: &'a Class,
    /// Packets that ended well.
    pub packets: f64,
    /// Octets of packets sent by links.
    pub sent_octets: f64,
    /// Octets of packets given to the host side.
    pub delivered_octets: f64,
    /// Packets destroyed.
    pub dropped: f64,
    /// Where the time of the packets that ended well went, by [`DelayPart::ALL`]: means.
    pub parts_s: [f64; DelayPart::ALL.len()],
}

impl<'a> ClassSpan<'a> {
    fn new(class: &'a Class, span: &Span<'_>) -> Self {
        let was = span.first.classes.iter().find(|it| it.name == class.name);
        let of = |field: fn(&Class) -> u64| grown(field(class), was.map_or(0, field));
        let packets = of(|it| it.packets);
        let part_s = |part| {
            let was_ns = was.map_or(0, |it| it.delay_parts_s.part_ns(part));
            grown(class.delay_parts_s.part_ns(part), was_ns) / 1e9 / packets.max(1.0)
        };
        Self {
            class,
            packets,
            sent_octets: of(|it| it.sent_octets),
            delivered_octets: of(|it| it.delivered_octets),
            dropped: of(|it| it.dropped.values().sum()),
            parts_s: DelayPart::ALL.map(part_s),
        }
    }

    /// Mean time that its packets were here; nothing where none ended well.
    pub fn stay_s(&self) -> Option<f64> {
        (self.packets > 0.0).then(|| self.parts_s.iter().sum())
    }

    /// The share of its packets that was dropped; nothing where none ended.
    pub fn lost(&self) -> Option<f64> {
        let ended = self.packets + self.dropped;
        (ended > 0.0).then(|| share(self.dropped, ended))
    }
}

impl Port {
    /// Frames and packets that came and couldn't be used.
    pub(crate) fn bad_in(&self) -> u64 {
        let urgent = self.urgent.as_ref().map_or(0, |it| it.damaged);
        self.damaged + self.invalid + self.incomplete + self.undecompressed + urgent
    }
}
