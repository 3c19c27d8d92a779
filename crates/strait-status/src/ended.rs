//! Packets that ended in a node: behind each number stand some of them.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::delay::DelayPart;
use strait_core::fate::{Fate, FateRecord};
use strait_core::stats::Stats;

use crate::{Snapshot, TalkRow, seconds};

/// What became of a packet in one node, and where its time went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    /// The same at each gateway on its path, and another for another packet; in hexadecimal.
    pub packet: String,
    /// Its class.
    pub class: String,
    /// When it ended, by the node's clock.
    pub at_s: f64,
    /// Of the IP packet.
    pub octets: u32,
    /// As [`fate_name`] says it.
    pub fate: String,
    /// How long it was here.
    pub stay_s: f64,
    /// Of this, the parts that aren't zero.
    pub parts_s: BTreeMap<String, f64>,
}

/// What became of a packet, in a word; of a dropped one the cause.
pub const fn fate_name(fate: Fate) -> &'static str {
    match fate {
        Fate::Delivered(_) => "delivered",
        Fate::Forwarded { .. } => "forwarded",
        Fate::Answered => "answered",
        Fate::Absorbed => "absorbed",
        Fate::Fragmented => "fragmented",
        Fate::Dropped(cause) => cause.name(),
    }
}

impl Ended {
    pub(crate) fn new(record: &FateRecord, stats: &Stats) -> Self {
        let class = stats.classes.get(record.class.index());
        // To a tenth of a millisecond.
        let rounded = |ns: u64| seconds((ns + 50_000) / 100_000 * 100_000);
        let parts = DelayPart::ALL.map(|part| (part.name(), rounded(record.parts.part_ns(part))));
        let parts = parts.into_iter().filter(|it| it.1 > 0.0);
        Self {
            packet: format!("{:016x}", record.digest),
            class: class.map_or_else(String::new, |it| it.name.clone()),
            at_s: rounded(record.ended.as_nanos()),
            octets: record.octets,
            fate: fate_name(record.fate).to_owned(),
            stay_s: rounded(record.ended.since(record.began).as_nanos() as u64),
            parts_s: parts.map(|(name, s)| (name.to_owned(), s)).collect(),
        }
    }
}

/// A packet behind a number, with whose it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Behind {
    /// Its flow, as [`flow_name`] says it.
    pub flow: String,
    /// The port that its flow leaves by.
    pub port: String,
    /// What became of it.
    #[serde(flatten)]
    pub packet: Ended,
}

/// A flow's ends, and what it is: `10.1.0.2 > 10.2.0.2 UDP 5000>5004`.
pub fn flow_name(row: &TalkRow) -> String {
    let what = what(row.protocol, row.ports, row.mark);
    format!("{} > {} {what}", row.source, row.destination)
}

/// What a flow is, in letters that fit.
pub fn what(protocol: u8, ports: Option<(u16, u16)>, mark: Option<u32>) -> String {
    let name = match protocol {
        1 => "ICMP",
        6 => "TCP",
        17 => "UDP",
        50 => "ESP",
        58 => "ICMPv6",
        132 => "SCTP",
        _ => "",
    };
    let name = match name {
        "" => format!("proto {protocol}"),
        name => name.to_owned(),
    };
    match (ports, mark) {
        (Some((from, to)), _) if matches!(protocol, 6 | 17 | 132) => format!("{name} {from}>{to}"),
        (None, Some(mark)) if protocol == 50 => format!("{name} {mark:x}"),
        _ => name,
    }
}

/// The packets behind a snapshot's numbers, the one that stayed longest first: of each flow that
/// counts, some that ended of late.
pub fn behind(snapshot: &Snapshot) -> Vec<Behind> {
    let all = snapshot.talkers.iter().flat_map(|row| {
        row.packets.iter().map(|packet| Behind {
            flow: flow_name(row),
            port: row.port.clone(),
            packet: packet.clone(),
        })
    });
    let mut all: Vec<Behind> = all.collect();
    all.sort_by(|one, other| other.packet.stay_s.total_cmp(&one.packet.stay_s));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_all_flows_the_longest_first() {
        let packet = |stay_s: f64| Ended {
            stay_s,
            ..Ended::default()
        };
        let row = |protocol, ports, mark, packets: &[f64]| TalkRow {
            source: "10.1.0.2".into(),
            destination: "10.2.0.2".into(),
            protocol,
            ports,
            mark,
            packets: packets.iter().copied().map(packet).collect(),
            ..TalkRow::default()
        };
        let snapshot = Snapshot {
            talkers: alloc::vec![
                row(17, Some((5000, 5004)), None, &[0.2, 0.1]),
                row(50, None, Some(0xabc), &[0.3]),
                row(1, Some((7, 0)), None, &[]),
            ],
            ..Snapshot::default()
        };
        let all = behind(&snapshot);
        let told: Vec<_> = all
            .iter()
            .map(|it| (it.flow.as_str(), it.packet.stay_s))
            .collect();
        let expected = [
            ("10.1.0.2 > 10.2.0.2 ESP abc", 0.3),
            ("10.1.0.2 > 10.2.0.2 UDP 5000>5004", 0.2),
            ("10.1.0.2 > 10.2.0.2 UDP 5000>5004", 0.1),
        ];
        assert_eq!(told, expected);
        let names = [(1, Some((7, 0)), None), (47, None, None)].map(|it| what(it.0, it.1, it.2));
        assert_eq!(names, ["ICMP", "proto 47"]);
        // In JSON a packet stands beside its flow, and reads back.
        let text = serde_json::to_string(&all).unwrap();
        assert!(text.contains("\"port\":\"\",\"packet\":\"\""), "{text}");
        assert_eq!(serde_json::from_str::<Vec<Behind>>(&text).unwrap(), all);
    }
}
