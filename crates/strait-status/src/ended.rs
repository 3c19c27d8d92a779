//! Packets that ended in a node: behind each number stand some of them.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::delay::DelayPart;
use strait_core::fate::{Fate, FateRecord};

use crate::{Class, seconds};

/// What became of a packet in one node, and where its time went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
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
    /// Those of each class that tell most: the `most` that stayed longest, and as many that were
    /// dropped.
    pub fn telling<'a>(
        records: impl Iterator<Item = &'a FateRecord>,
        classes: &[Class],
        most: usize,
    ) -> Vec<Self> {
        let is_lost = |it: &FateRecord| matches!(it.fate, Fate::Dropped(_));
        let mut groups: BTreeMap<_, Vec<&FateRecord>> = BTreeMap::new();
        for record in records {
            let group = groups.entry((record.class, is_lost(record))).or_default();
            let stay = |it: &FateRecord| it.ended.since(it.began);
            let place = group.partition_point(|it| stay(it) >= stay(record));
            if place < most {
                group.insert(place, record);
                group.truncate(most);
            }
        }
        let all = groups.into_values().flatten();
        all.map(|record| Self::new(record, classes)).collect()
    }

    fn new(record: &FateRecord, classes: &[Class]) -> Self {
        let class = classes.get(usize::from(record.class.0));
        // To a tenth of a millisecond.
        let rounded = |ns: u64| seconds((ns + 50_000) / 100_000 * 100_000);
        let parts = DelayPart::ALL.map(|part| (part.name(), record.parts.part_ns(part)));
        let parts = parts.into_iter().filter(|it| it.1 > 0);
        Self {
            class: class.map_or_else(String::new, |it| it.name.clone()),
            at_s: rounded(record.ended.as_nanos()),
            octets: record.octets,
            fate: fate_name(record.fate).to_owned(),
            stay_s: rounded(record.ended.since(record.began).as_nanos() as u64),
            parts_s: parts
                .map(|(name, ns)| (name.to_owned(), rounded(ns)))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use strait_core::delay::DelayParts;
    use strait_core::fate::DropCause;
    use strait_core::id::{ClassId, PortId};
    use strait_core::time::Instant;

    use super::*;

    #[test]
    fn the_longest_and_the_dropped_of_each_class_are_told() {
        let record = |class: u8, stay_ms: u64, fate: Fate| {
            let mut parts = DelayParts::default();
            parts.add(DelayPart::Line, stay_ms * 1_000_000);
            FateRecord {
                digest: 0,
                began: Instant::from_millis(1000),
                ended: Instant::from_millis(1000 + stay_ms),
                octets: 91,
                class: ClassId(class),
                fate,
                own: false,
                marked: false,
                parts,
            }
        };
        let out = Fate::Delivered(PortId(0));
        let lost = Fate::Dropped(DropCause::Aged);
        let mut records = vec![record(1, 7, out), record(0, 5, lost), record(9, 1, out)];
        records.extend((0..1000).map(|ms| record(0, ms * 7 % 1000, out)));
        let class = |name: &str| Class {
            name: name.into(),
            ..Class::default()
        };
        let classes = [class("voice"), class("data")];
        let told = Ended::telling(records.iter(), &classes, 2);
        let told: Vec<_> = told
            .iter()
            .map(|it| {
                (
                    it.class.as_str(),
                    it.fate.as_str(),
                    it.stay_s,
                    it.parts_s["line"],
                )
            })
            .collect();
        let expected = [
            ("voice", "delivered", 0.999, 0.999),
            ("voice", "delivered", 0.998, 0.998),
            ("voice", "aged", 0.005, 0.005),
            ("data", "delivered", 0.007, 0.007),
            ("", "delivered", 0.001, 0.001),
        ];
        assert_eq!(told, expected);
    }
}
