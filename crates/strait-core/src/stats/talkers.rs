//! Who sends: the flows and hosts with the most octets of late, in tables that stay small.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_wire::ip::PacketInfo;

use super::Drops;
use crate::delay::DelayParts;
use crate::fate::{Fate, FateRecord};
use crate::flow::{FlowKey, FlowMark};
use crate::id::{ClassId, PortId};
use crate::time::{Duration, Instant};

/// What a node knows of who sends, whatever kinds of ports it has.
#[derive(Clone, Debug)]
pub struct Talkers {
    flows: Box<Table<FlowKey, FlowTalk>>,
    hosts: Box<Table<IpAddr, HostTalk>>,
}

/// Packets of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Talk {
    /// Packets taken in or made.
    pub packets_in: u64,
    /// Their octets.
    pub octets_in: u64,
    /// Packets sent by a link or given to a host side.
    pub packets_out: u64,
    /// Their octets.
    pub octets_out: u64,
    /// Packets destroyed.
    pub dropped: Drops,
}

/// What a flow's packets were like, and where they are. What each packet counts comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FlowTalk {
    /// Packets that are here.
    pub held_packets: u64,
    /// The class of the last one that ended.
    pub class: ClassId,
    /// The port by which the last one left; none before.
    pub port: Option<PortId>,
    /// The code point of the last one that came.
    pub dscp: u8,
    /// Octets of the shortest packet.
    pub octets_least: u32,
    /// Octets of the longest.
    pub octets_most: u32,
    /// Where the time of the packets counted in `talk.packets_out` went, summed.
    pub parts: DelayParts,
    /// How many there were, and what became of them.
    pub talk: Talk,
    /// Some that ended of late.
    pub telling: Telling,
}

/// The packets behind a flow's numbers: of late, those that stayed longest, and the last that was
/// destroyed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Telling {
    /// What stayed no longer than this tells nothing new ...
    least: Duration,
    /// ... before this.
    until: Instant,
    longest: [Option<FateRecord>; 3],
    dropped: Option<FateRecord>,
}

impl Telling {
    /// After this time another packet takes a place, however short it stayed.
    const LATE: Duration = Duration::from_secs(10);

    fn note(&mut self, record: &FateRecord) {
        if let Fate::Dropped(_) = record.fate {
            self.dropped = Some(*record);
            return;
        }
        if stay(record) <= self.least && record.ended < self.until {
            return;
        }
        let rank = |it: &Option<FateRecord>| match it {
            Some(it) if record.ended.since(it.ended) < Self::LATE => stay(it),
            _ => Duration::ZERO,
        };
        if let Some(place) = self.longest.iter_mut().min_by_key(|it| rank(it)) {
            *place = Some(*record);
        }
        self.least = self.longest.iter().map(rank).min().unwrap_or_default();
        let ends = self.longest.iter().flatten().map(|it| it.ended);
        self.until = ends.min().unwrap_or_default() + Self::LATE;
    }

    /// These packets, the one that stayed longest first, and then the one that was destroyed.
    pub fn packets(&self) -> Vec<&FateRecord> {
        let mut all: Vec<&FateRecord> = self.longest.iter().flatten().collect();
        all.sort_by_key(|it| core::cmp::Reverse(stay(it)));
        all.extend(&self.dropped);
        all
    }
}

fn stay(record: &FateRecord) -> Duration {
    record.ended.since(record.began)
}

/// What a host sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTalk {
    /// Packets taken in or made.
    pub packets_in: u64,
    /// Their octets.
    pub octets_in: u64,
    /// Flows that it began.
    pub flows: u64,
}

/// One of a table.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Talker<K, V> {
    /// Who it is.
    pub key: K,
    /// When its last packet came.
    pub seen: Instant,
    /// Octets of late, by which it keeps its place.
    weight: u64,
    /// When these were halved last.
    halved: Instant,
    /// What was counted since it is in the table.
    pub value: V,
}

impl<K, V> Talker<K, V> {
    /// Its octets of late, of which half are forgotten in [`HALVED`].
    fn weight(&self, now: Instant) -> u64 {
        let halvings = now.since(self.halved).as_nanos() / HALVED.as_nanos();
        u32::try_from(halvings).map_or(0, |it| self.weight.checked_shr(it).unwrap_or(0))
    }

    fn add(&mut self, now: Instant, octets: u64) {
        if now.since(self.halved) >= HALVED {
            (self.weight, self.halved) = (self.weight(now), now);
        }
        self.weight = self.weight.saturating_add(octets);
        self.seen = now;
    }
}

impl Default for Talkers {
    fn default() -> Self {
        Self {
            flows: Box::new(Table::new()),
            hosts: Box::new(Table::new()),
        }
    }
}

impl Talkers {
    /// Flows in the table at most: a link on which more matter has no worst one.
    pub const FLOWS_MAX: usize = SETS * WAYS;
    /// Hosts likewise.
    pub const HOSTS_MAX: usize = SETS * WAYS;

    /// A packet is taken in, or made.
    pub fn come(&mut self, now: Instant, info: &PacketInfo) {
        let octets = u64::from(info.octets);
        let key = FlowKey::of(info);
        let (flow, is_new) = self.flows.count(now, hash_flow(&key), key, octets);
        if let Some(flow) = flow {
            flow.talk.come(octets);
            flow.held_packets += 1;
            flow.dscp = info.dscp;
            flow.octets_most = flow.octets_most.max(info.octets);
            let least = flow.octets_least;
            flow.octets_least = if least == 0 {
                info.octets
            } else {
                least.min(info.octets)
            };
        }
        let (host, _) = self
            .hosts
            .count(now, hash_address(0, info.src), info.src, octets);
        if let Some(host) = host {
            host.packets_in += 1;
            host.octets_in += octets;
            host.flows += u64::from(is_new);
        }
    }

    /// A packet has ended.
    pub fn end(&mut self, info: &PacketInfo, record: &FateRecord) {
        let key = FlowKey::of(info);
        if let Some(flow) = self.flows.find(hash_flow(&key), &key) {
            flow.talk.end(record);
            flow.telling.note(record);
            flow.held_packets = flow.held_packets.saturating_sub(1);
            flow.class = record.class;
            if let Fate::Forwarded { port, .. } | Fate::Delivered(port) = record.fate {
                flow.port = Some(port);
                flow.parts.merge(&record.parts);
            }
        }
    }

    /// The flows heard lately, those with the most octets of late first.
    pub fn flows(&self, now: Instant) -> Vec<&Talker<FlowKey, FlowTalk>> {
        self.flows.heaviest(now)
    }

    /// The hosts heard lately, likewise.
    pub fn hosts(&self, now: Instant) -> Vec<&Talker<IpAddr, HostTalk>> {
        self.hosts.heaviest(now)
    }
}

impl Talk {
    const fn come(&mut self, octets: u64) {
        self.packets_in += 1;
        self.octets_in += octets;
    }

    fn end(&mut self, record: &FateRecord) {
        match record.fate {
            Fate::Dropped(cause) => self.dropped.count(cause),
            Fate::Forwarded { .. } | Fate::Delivered(_) => {
                self.packets_out += 1;
                self.octets_out += u64::from(record.octets);
            }
            Fate::Answered | Fate::Absorbed | Fate::Fragmented => {}
        }
    }
}

/// Sets of a table: a key has its place in one of them.
const SETS: usize = 16;
/// Places of a set.
const WAYS: usize = 4;
/// The time in which half of what was counted for a place is forgotten.
const HALVED: Duration = Duration::from_secs(8);
/// Who was silent for so long gives way to anybody.
const SILENT: Duration = Duration::from_secs(60);

/// Those with the most octets of late. In a full set a new one wears the lightest out, and takes
/// its place when nothing is left of it: many small ones don't displace a large one.
///
/// The tags of a set, a part of its keys' hashes each, lie together: a node among hundreds has to
/// fetch each line of the processor's cache anew for each packet, and a row takes several.
#[derive(Clone, Debug)]
struct Table<K, V> {
    tags: [[u16; WAYS]; SETS],
    rows: [[Option<Talker<K, V>>; WAYS]; SETS],
}

/// The tag of a key; the one of an empty place is 0.
const fn tag(hash: u64) -> u16 {
    (hash >> 48) as u16 | 1
}

impl<K: Copy + PartialEq, V: Copy + Default> Table<K, V> {
    const fn new() -> Self {
        Self {
            tags: [[0; WAYS]; SETS],
            rows: [const { [None; WAYS] }; SETS],
        }
    }

    /// The way of its set in which `key` stands.
    fn way(&self, hash: u64, key: &K) -> Option<usize> {
        let set = hash as usize % SETS;
        (0..WAYS).find(|way| {
            self.tags[set][*way] == tag(hash)
                && (self.rows[set][*way].as_ref()).is_some_and(|it| it.key == *key)
        })
    }

    fn find(&mut self, hash: u64, key: &K) -> Option<&mut V> {
        let way = self.way(hash, key)?;
        let row = self.rows[hash as usize % SETS][way].as_mut();
        row.map(|it| &mut it.value)
    }

    /// Counts octets of `key`, if it has a place; true if that is a new one.
    fn count(&mut self, now: Instant, hash: u64, key: K, octets: u64) -> (Option<&mut V>, bool) {
        let (found, set) = (self.way(hash, &key), hash as usize % SETS);
        if let Some(way) = found {
            let talker = self.rows[set][way].as_mut().expect("it is there");
            talker.add(now, octets);
            return (Some(&mut talker.value), false);
        }
        let weight = |it: &Option<Talker<K, V>>| match it {
            Some(it) if now.since(it.seen) < SILENT => it.weight(now),
            _ => 0,
        };
        let ways = self.rows[set].iter_mut().zip(&mut self.tags[set]);
        let (lightest, own) = ways
            .min_by_key(|(it, _)| weight(it))
            .expect("a set has places");
        let left = weight(lightest).saturating_sub(octets);
        match lightest {
            Some(old) if left > 0 => {
                (old.weight, old.halved) = (left, now);
                (None, false)
            }
            place => {
                *own = tag(hash);
                let talker = place.insert(Talker {
                    key,
                    seen: now,
                    weight: octets,
                    halved: now,
                    value: V::default(),
                });
                (Some(&mut talker.value), true)
            }
        }
    }

    fn heaviest(&self, now: Instant) -> Vec<&Talker<K, V>> {
        let all = self.rows.iter().flatten().flatten();
        let mut all: Vec<_> = all.filter(|it| now.since(it.seen) < SILENT).collect();
        all.sort_by_key(|it| core::cmp::Reverse(it.weight(now)));
        all
    }
}

/// Folds a word into a place of a table. Whoever makes keys meet there hides nobody but himself
/// and those with them.
const fn mix(hash: u64, word: u64) -> u64 {
    let product = ((hash ^ word) as u128).wrapping_mul(0xd6e8_feb8_6659_fd93_a5a3_564b_d1b5_4e27);
    (product as u64) ^ ((product >> 64) as u64)
}

fn hash_address(hash: u64, address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => mix(hash, u64::from(address.to_bits()) + 1),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            mix(mix(hash, bits as u64), (bits >> 64) as u64)
        }
    }
}

fn hash_flow(key: &FlowKey) -> u64 {
    let mark = match key.mark {
        FlowMark::Ports(from, to) => u64::from(from) << 16 | u64::from(to),
        FlowMark::Spi(number) | FlowMark::Label(number) => u64::from(number),
    };
    let hash = hash_address(hash_address(0, key.src), key.dst);
    mix(hash, mark << 8 | u64::from(key.protocol))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::DropCause;

    fn info(host: u8, from: u16, octets: u32) -> PacketInfo {
        let at = |host, port| (IpAddr::from([10, 0, 0, host]), port).into();
        let (payload, mut bytes) = (alloc::vec![0; octets as usize - 28], Vec::new());
        let (src, dst) = (at(host, from), at(99, 9));
        assert!(strait_wire::ip::build_udp(
            src, dst, 0, 64, 0, 0, &payload, &mut bytes
        ));
        PacketInfo::parse(&bytes).unwrap()
    }

    #[test]
    fn many_small_ones_dont_displace_a_large_one() {
        let mut talkers = Talkers::default();
        let at = |n: u64| Instant::from_millis(n * 10);
        for n in 0..10_000 {
            talkers.come(at(n), &info(1, 7000, 1000));
            talkers.come(at(n), &info(2, n as u16, 60));
        }
        let flows = talkers.flows(at(10_000));
        assert!(flows.len() <= Talkers::FLOWS_MAX);
        assert_eq!(flows[0].key.mark, FlowMark::Ports(7000, 9));
        assert_eq!(flows[0].value.talk.octets_in, 10_000_000);
        let hosts = talkers.hosts(at(10_000));
        assert_eq!(hosts[0].value.flows, 1);
        assert!(hosts[1].value.flows > 9_000, "each was a flow of its own");
        let later = at(10_000) + SILENT;
        assert!(talkers.flows(later).is_empty(), "silent for a minute");
    }

    #[test]
    fn what_is_here_and_what_became_of_it() {
        let mut talkers = Talkers::default();
        let (one, now) = (info(1, 7000, 100), Instant::from_secs(1));
        (0..3).for_each(|_| talkers.come(now, &one));
        let mut record = FateRecord {
            digest: 0,
            began: now,
            ended: now,
            octets: 100,
            class: ClassId(2),
            fate: Fate::Dropped(DropCause::Aged),
            own: false,
            marked: false,
            parts: DelayParts::default(),
        };
        talkers.end(&one, &record);
        record.fate = Fate::Delivered(PortId(1));
        talkers.end(&one, &record);
        let flow = talkers.flows(now)[0].value;
        assert_eq!((flow.held_packets, flow.talk.packets_out), (1, 1));
        assert_eq!(flow.talk.dropped.by(DropCause::Aged), 1);
        assert_eq!((flow.class, flow.port), (ClassId(2), Some(PortId(1))));
        assert_eq!((flow.octets_least, flow.octets_most), (100, 100));
    }

    #[test]
    fn packets_that_stayed_longest_of_late_are_kept_and_the_last_that_was_dropped() {
        let mut telling = Telling::default();
        let record = |ended_ms: u64, stay_ms: u64, fate: Fate| FateRecord {
            digest: ended_ms,
            began: Instant::from_millis(ended_ms - stay_ms),
            ended: Instant::from_millis(ended_ms),
            octets: 100,
            class: ClassId(0),
            fate,
            own: false,
            marked: false,
            parts: DelayParts::default(),
        };
        let out = Fate::Delivered(PortId(1));
        let kept = |telling: &Telling| -> Vec<u64> {
            telling.packets().iter().map(|it| it.digest).collect()
        };
        // One each 100 ms for 9 s; the longest are among them.
        for n in 0..90_u64 {
            telling.note(&record(10_000 + n * 100, n * 37 % 90, out));
        }
        let lost = Fate::Dropped(DropCause::Aged);
        telling.note(&record(18_990, 5, lost));
        telling.note(&record(18_995, 1, lost));
        assert_eq!(kept(&telling), [11_700, 13_400, 15_100, 18_995]);
        // One nanosecond before its ten seconds are over, the longest stands; then any takes it.
        let late = |ns: u64| FateRecord {
            ended: Instant::from_nanos(ns),
            began: Instant::from_nanos(ns),
            ..record(21_700, 0, out)
        };
        telling.note(&late(21_700_000_000 - 1));
        assert_eq!(kept(&telling), [11_700, 13_400, 15_100, 18_995]);
        telling.note(&late(21_700_000_000));
        assert_eq!(kept(&telling), [13_400, 15_100, 21_700, 18_995]);
    }
}
