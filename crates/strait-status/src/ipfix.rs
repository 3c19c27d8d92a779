//! Flows for collectors: IPFIX (RFC 7011) with the elements of RFC 7012. Each way is a record of
//! its own: not every collector reads those that have both (RFC 5103).
//!
//! A record tells what of a flow passed between two snapshots. There are records of the flows that
//! the snapshot has: those with the most octets of late.

use alloc::vec::Vec;
use core::net::IpAddr;

use crate::Snapshot;
use crate::span::{Flow, Span};

/// What collectors listen on, by UDP.
pub const PORT: u16 = 4739;

/// Octets of a message at most: what passes the narrowest path of IPv6 whole.
const MESSAGE_MAX: usize = 1232;
const VERSION: u16 = 10;
/// The set that tells of templates.
const TEMPLATES: u16 = 2;

/// An element: its number, and the octets of its values.
type Element = (u16, u16);

/// Behind the two addresses, in both templates.
const ELEMENTS: [Element; 13] = [
    (152, 8), // flowStartMilliseconds
    (153, 8), // flowEndMilliseconds
    (7, 2),   // sourceTransportPort
    (11, 2),  // destinationTransportPort
    (4, 1),   // protocolIdentifier
    (5, 1),   // ipClassOfService
    (14, 4),  // egressInterface
    (1, 8),   // octetDeltaCount
    (2, 8),   // packetDeltaCount
    (23, 8),  // postOctetDeltaCount: what left
    (24, 8),  // postPacketDeltaCount
    (133, 8), // droppedPacketDeltaCount
    (132, 8), // droppedOctetDeltaCount: by the mean size of the flow's packets
];

/// One family's template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const fn template(self) -> u16 {
        match self {
            Self::V4 => 256,
            Self::V6 => 257,
        }
    }

    const fn addresses(self) -> [Element; 2] {
        match self {
            Self::V4 => [(8, 4), (12, 4)],
            Self::V6 => [(27, 16), (28, 16)],
        }
    }
}

/// Makes messages of a gateway's snapshots.
#[derive(Debug)]
pub struct Exporter {
    domain: u32,
    /// Records sent before.
    sequence: u32,
    /// The snapshot before, and when it was.
    before: Option<(Snapshot, u64)>,
}

impl Exporter {
    /// `domain` tells gateways apart whose messages come from one process.
    pub const fn new(domain: u32) -> Self {
        Self {
            domain,
            sequence: 0,
            before: None,
        }
    }

    /// Messages of what passed since the snapshot before, at `now_ms` since 1970. The first has
    /// nothing before it, and gives none.
    pub fn messages(&mut self, now: Snapshot, now_ms: u64) -> Vec<Vec<u8>> {
        let Some((before, before_ms)) = self.before.take() else {
            self.before = Some((now, now_ms));
            return Vec::new();
        };
        let steps = [before, now];
        let times = (before_ms, now_ms);
        let mut messages = Vec::new();
        if let Some(span) = Span::new(&steps) {
            let records = records(&span, times);
            for family in [Family::V4, Family::V6] {
                let own = records.iter().filter(|it| it.0 == family);
                let own: Vec<&[u8]> = own.map(|it| it.1.as_slice()).collect();
                let Some(first) = own.first() else {
                    continue;
                };
                let room = MESSAGE_MAX - HEADER - template(family).len() - SET_HEADER;
                for some in own.chunks(room / first.len()) {
                    messages.push(self.message(family, some, now_ms));
                }
            }
        }
        let [_, now] = steps;
        self.before = Some((now, now_ms));
        messages
    }

    fn message(&mut self, family: Family, records: &[&[u8]], now_ms: u64) -> Vec<u8> {
        let records_octets: usize = records.iter().map(|it| it.len()).sum();
        let template = template(family);
        let octets = HEADER + template.len() + SET_HEADER + records_octets;
        let mut out = Vec::with_capacity(octets);
        out.extend(VERSION.to_be_bytes());
        out.extend((octets as u16).to_be_bytes());
        out.extend(((now_ms / 1000) as u32).to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.domain.to_be_bytes());
        out.extend(template);
        out.extend(family.template().to_be_bytes());
        out.extend(((SET_HEADER + records_octets) as u16).to_be_bytes());
        records.iter().for_each(|it| out.extend(*it));
        self.sequence = self.sequence.wrapping_add(records.len() as u32);
        out
    }
}

const HEADER: usize = 16;
const SET_HEADER: usize = 4;

/// A set with one template. It is in each message: collectors may begin to listen at any time.
fn template(family: Family) -> Vec<u8> {
    let own = family.addresses();
    let plain = own.iter().chain(&ELEMENTS);
    let mut fields = Vec::new();
    for (number, octets) in plain {
        fields.extend(number.to_be_bytes());
        fields.extend(octets.to_be_bytes());
    }
    let count = own.len() + ELEMENTS.len();
    let mut set = Vec::new();
    set.extend(TEMPLATES.to_be_bytes());
    set.extend(((SET_HEADER + 4 + fields.len()) as u16).to_be_bytes());
    set.extend(family.template().to_be_bytes());
    set.extend((count as u16).to_be_bytes());
    set.extend(fields);
    set
}

/// A record for each flow of which something passed.
fn records(span: &Span<'_>, times: (u64, u64)) -> Vec<(Family, Vec<u8>)> {
    let those = span.flows.iter().filter(|it| passed(it));
    those.filter_map(|it| record(span, it, times)).collect()
}

fn passed(flow: &Flow<'_>) -> bool {
    flow.packets_in + flow.packets_out + dropped(flow) > 0.0
}

fn dropped(flow: &Flow<'_>) -> f64 {
    flow.dropped.values().sum()
}

fn record(
    span: &Span<'_>,
    flow: &Flow<'_>,
    (before_ms, now_ms): (u64, u64),
) -> Option<(Family, Vec<u8>)> {
    let row = flow.row;
    let ends = (row.source.parse().ok()?, row.destination.parse().ok()?);
    let mut out = Vec::new();
    let family = match ends {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend([from, to].iter().flat_map(|it| it.octets()));
            Family::V4
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.extend([from, to].iter().flat_map(|it| it.octets()));
            Family::V6
        }
        _ => return None,
    };
    let ended_ms = now_ms.saturating_sub((row.idle_s * 1e3) as u64);
    // A gateway that began since then has counted from its beginning.
    let began_ms = before_ms.max(now_ms.saturating_sub((span.s * 1e3) as u64));
    let ports = row.ports.filter(|_| matches!(row.protocol, 6 | 17 | 132));
    let (from, to) = ports.unwrap_or_default();
    let egress = span.last.ports.iter().position(|it| it.name == row.port);
    let size = flow.octets_in / flow.packets_in.max(1.0);
    out.extend(began_ms.to_be_bytes());
    out.extend(ended_ms.max(began_ms).to_be_bytes());
    out.extend(from.to_be_bytes());
    out.extend(to.to_be_bytes());
    out.extend([row.protocol, row.dscp << 2]);
    out.extend(egress.map_or(0, |it| it as u32 + 1).to_be_bytes());
    let counts = [
        flow.octets_in,
        flow.packets_in,
        flow.octets_out,
        flow.packets_out,
        dropped(flow),
        dropped(flow) * size,
    ];
    out.extend(counts.iter().flat_map(|it| (*it as u64).to_be_bytes()));
    Some((family, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Port, TalkRow};
    use alloc::string::String;
    use alloc::vec;

    fn talker(from: &str, to: &str, ports: (u16, u16), packets: u64) -> TalkRow {
        TalkRow {
            source: from.into(),
            destination: to.into(),
            protocol: 6,
            ports: Some(ports),
            dscp: 46,
            port: "line".into(),
            packets_in: packets,
            octets_in: packets * 100,
            packets_out: packets - 1,
            octets_out: (packets - 1) * 100,
            dropped: [(String::from("codel"), 1)].into(),
            idle_s: 0.5,
            ..TalkRow::default()
        }
    }

    fn snapshot(uptime_s: f64, talkers: Vec<TalkRow>) -> Snapshot {
        let named = |name: &str| Port {
            name: name.into(),
            ..Port::default()
        };
        Snapshot {
            node: "a".into(),
            uptime_s,
            ports: vec![named("host"), named("line")],
            talkers,
            ..Snapshot::default()
        }
    }

    #[test]
    fn each_way_is_a_record_and_octets_are_these() {
        let (a, b) = ("10.0.0.1", "10.0.0.2");
        let mut exporter = Exporter::new(7);
        let first = snapshot(10.0, vec![talker(b, a, (80, 4000), 1)]);
        assert!(exporter.messages(first, 1_000_000).is_empty());
        let both = vec![talker(b, a, (80, 4000), 11), talker(a, b, (4000, 80), 5)];
        let messages = exporter.messages(snapshot(20.0, both.clone()), 1_010_000);
        let [message] = &messages[..] else {
            panic!("{messages:?}");
        };
        let head = [
            0,
            10,
            0,
            message.len() as u8,
            0,
            0,
            3,
            0xf2,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            7,
        ];
        assert_eq!(message[..16], head);
        // The template: 15 fields. Then a set of two records of 82 octets.
        assert_eq!(message[16..24], [0, 2, 0, 68, 1, 0, 0, 15]);
        assert_eq!(message[24..32], [0, 8, 0, 4, 0, 12, 0, 4]);
        assert_eq!(message[84..88], [1, 0, 0, 2 * 82 + 4]);
        assert_eq!(message[88..96], [10, 0, 0, 2, 10, 0, 0, 1]);
        let record = &message[88 + 82..];
        assert_eq!(record[..8], [10, 0, 0, 1, 10, 0, 0, 2]);
        assert_eq!(record[8..16], 1_000_000u64.to_be_bytes());
        assert_eq!(record[16..24], 1_009_500u64.to_be_bytes());
        assert_eq!(record[24..30], [0x0f, 0xa0, 0, 80, 6, 46 << 2]);
        assert_eq!(record[30..34], [0, 0, 0, 2]);
        let counts: Vec<u64> = record[34..]
            .chunks(8)
            .map(|it| u64::from_be_bytes(it.try_into().unwrap()))
            .collect();
        assert_eq!(counts, [500, 5, 400, 4, 1, 100]);
        // Nothing passed: nothing to tell, and the next one counts records.
        assert!(
            exporter
                .messages(snapshot(30.0, both), 1_020_000)
                .is_empty()
        );
        let more = vec![talker(a, b, (4000, 80), 6)];
        let messages = exporter.messages(snapshot(40.0, more), 1_030_000);
        assert_eq!(messages[0][8..12], [0, 0, 0, 2]);
    }

    #[test]
    fn messages_fit_a_path_and_what_is_no_address_is_left_out() {
        let mut exporter = Exporter::new(0);
        exporter.messages(snapshot(1.0, Vec::new()), 1000);
        let mut talkers: Vec<TalkRow> = (1..65)
            .map(|n| talker("2001:db8::1", "2001:db8::2", (4000 + n, 80), 9))
            .collect();
        talkers.push(talker("10.0.0.1", "10.0.0.2", (1, 2), 3));
        talkers.push(talker("10.0.0.1", "2001:db8::2", (1, 2), 3));
        talkers.push(talker("\u{202e}", "10.0.0.2", (1, 2), 3));
        let messages = exporter.messages(snapshot(2.0, talkers), 2000);
        assert!(messages.iter().all(|it| it.len() <= MESSAGE_MAX));
        assert_eq!(exporter.sequence, 65);
        for message in &messages {
            assert_eq!(message[2..4], (message.len() as u16).to_be_bytes());
        }
    }

    #[test]
    fn a_gateway_that_began_anew_has_counted_from_its_beginning() {
        let (a, b) = ("10.0.0.1", "10.0.0.2");
        let mut exporter = Exporter::new(0);
        exporter.messages(snapshot(100.0, vec![talker(a, b, (4000, 80), 50)]), 100_000);
        let now = snapshot(2.0, vec![talker(a, b, (4000, 80), 3)]);
        let messages = exporter.messages(now, 110_000);
        let record = &messages[0][88..];
        assert_eq!(record[8..16], 108_000u64.to_be_bytes());
        assert_eq!(record[34..42], 300u64.to_be_bytes());
    }
}
