//! What a node counts as a whole and by class, and what its driver says of itself.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};
use strait_core::delay::DelayParts;
use strait_core::local::{self, LocalStats};
use strait_core::stats::{COLOURS, ClassStats, Drops, Histogram, Stats};

use crate::describe::{column, counter, described, gauge};
use crate::seconds;

pub(crate) type Counts = BTreeMap<String, u64>;

pub(crate) fn causes(drops: &Drops) -> Counts {
    let named = drops
        .iter()
        .map(|(cause, count)| (cause.name().into(), count));
    named.collect()
}

fn policed(class: &ClassStats) -> Counts {
    let named = COLOURS.into_iter().map(String::from).zip(class.colours);
    if class.colours == [0; 3] {
        return Counts::new();
    }
    named.collect()
}

pub(crate) fn quantile_s(times: &Histogram, q: f64) -> Option<f64> {
    times.quantile_ns(q).map(seconds)
}

described! {
    /// Packets by what became of them.
    pub struct Packets from stats: &Stats {
        /// Packets taken in from ports
        admitted: u64 = stats.admitted => counter("admitted_packets");
        /// Packets made by the node
        originated: u64 = stats.originated => counter("originated_packets");
        /// Packets given to the host side
        delivered: u64 = stats.delivered => counter("delivered_packets");
        /// Packets sent by a link port
        forwarded: u64 = stats.forwarded => counter("forwarded_packets");
        /// Packets replied to locally
        answered: u64 = stats.answered => counter("answered_packets");
        /// Packets taken over by a proxy
        absorbed: u64 = stats.absorbed => counter("absorbed_packets");
        /// Packets cut into IP fragments
        fragmented: u64 = stats.fragmented => counter("fragmented_packets");
        /// Packets whose fate is open
        held: u64 = stats.held() => gauge("held_packets");
        /// Octets that aren't an IP packet
        malformed: u64 = stats.malformed => counter("malformed_packets");
        /// ICMP errors withheld by their rate limit
        icmp_limited: u64 = stats.icmp_limited => counter("icmp_limited");
        /// Packets dropped, by cause
        dropped: Counts = causes(&stats.dropped) => counter("dropped_packets").by("cause", &[]);
    }
}

described! {
    /// Packets and their octets.
    pub struct Volume from volume: local::Volume {
        /// Packets kept off the links: chatter, and questions answered here
        packets: u64 = volume.packets => counter("kept_off_packets").head("packets");
        /// Octets of the packets kept off the links
        octets: u64 = volume.octets => counter("kept_off_octets").head("octets");
    }
}

type Volumes = BTreeMap<String, Volume>;

fn volumes(stats: &LocalStats, wanted: &str) -> Volumes {
    let those = stats.iter().filter(|(what, ..)| *what == wanted);
    those
        .map(|(_, kind, volume)| (kind.into(), Volume::new(volume)))
        .collect()
}

described! {
    /// What was kept off the links.
    pub struct Local from stats: &LocalStats {
        /// Chatter kept off the links, by kind
        chatter: Volumes = volumes(stats, "chatter");
        /// Questions answered here, by kind
        answered: Volumes = volumes(stats, "answered");
        /// Hellos repeated to the host side, by kind
        repeated: Volumes = volumes(stats, "repeated");
        /// Replies stored, and given up early
        stored: u64 = stats.stored => counter("stored_replies").of("event", "stored");
        /// Stored replies discarded before their time
        forgotten: u64 = stats.forgotten => counter("stored_replies").of("event", "forgotten");
        /// Stored replies discarded for lack of room
        displaced: u64 = stats.displaced => counter("stored_replies").of("event", "displaced");
        /// Addresses, askers and hellos of the local network discarded for lack of room
        crowded: u64 = stats.crowded => counter("local_crowded");
        /// Times that an address of the local network changed its station
        moved: u64 = stats.moved => counter("local_moved");
    }
}

impl Local {
    /// What was kept off: `chatter`, `answered` or `repeated`, the kind, and how much.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str, &Volume)> {
        let all = [
            ("chatter", &self.chatter),
            ("answered", &self.answered),
            ("repeated", &self.repeated),
        ];
        all.into_iter().flat_map(|(what, kinds)| {
            let kinds = kinds.iter();
            kinds.map(move |(kind, volume)| (what, kind.as_str(), volume))
        })
    }
}

described! {
    /// A class of service.
    pub struct Class from class: &ClassStats {
        /// The policy's name for it
        name: String = class.name.clone();
        /// Packets that ended well, by class
        packets: u64 = class.packets => counter("class_packets");
        /// Their octets, by class
        octets: u64 = class.octets => counter("class_octets");
        /// Packets sent by links, by class
        sent_packets: u64 = class.sent.packets => counter("class_sent_packets").head("out");
        /// Octets of packets sent by links, by class
        sent_octets: u64 = class.sent.octets => counter("class_sent_octets").head("octets out");
        /// Their recent rate; null if it isn't measured
        sent_bit_s: Option<u64> = None => column("out").unit("bit/s");
        /// The delay in this node that half of the packets sent by links don't exceed
        delay_p50_s: Option<f64> = quantile_s(&class.sent.delay, 0.5)
            => column("delay p50").unit("s");
        /// The delay in this node that 99 of 100 packets sent by links don't exceed
        delay_p99_s: Option<f64> = quantile_s(&class.sent.delay, 0.99)
            => column("delay p99").unit("s");
        /// Packets given to the host side, by class
        delivered_packets: u64 = class.delivered.packets
            => counter("class_delivered_packets").head("in");
        /// Octets of packets given to the host side, by class
        delivered_octets: u64 = class.delivered.octets
            => counter("class_delivered_octets").head("octets in");
        /// Their recent rate; null if it isn't measured
        delivered_bit_s: Option<u64> = None => column("in").unit("bit/s");
        /// The delay in this node that half of the packets given to the host side don't exceed
        delivered_p50_s: Option<f64> = quantile_s(&class.delivered.delay, 0.5)
            => column("delay in p50").unit("s");
        /// The delay in this node that 99 of 100 packets given to the host side don't exceed
        delivered_p99_s: Option<f64> = quantile_s(&class.delivered.delay, 0.99)
            => column("delay in p99").unit("s");
        /// Packets waiting, by class
        queued_packets: u64 = class.queued_packets
            => gauge("class_queued_packets").head("queued packets");
        /// Octets waiting, by class
        queued_octets: u64 = class.queued_octets
            => gauge("class_queued_octets").head("queued octets");
        /// Packets dropped, by class and cause
        dropped: Counts = causes(&class.dropped) => counter("class_dropped_packets").by("cause", &[]);
        /// Packets marked «congestion experienced», by class
        marked: u64 = class.marked => counter("class_marked_packets");
        /// Packets by the colour of their class's policer; none without one
        policed: Counts = policed(class) => counter("class_policed_packets").by("colour", &COLOURS);
        /// Sum of all delays
        delay_s: f64 = seconds(class.parts.total_ns());
        /// Parts of the delay of the packets in class_packets, summed
        #[serde(with = "parts_s")]
        delay_parts_s: DelayParts = class.parts => counter("class_delay").unit("s").by("part", &[]);
    }
}

impl Class {
    /// Where the time of its packets went, for tables of that.
    pub fn delays(&self) -> ClassStats {
        ClassStats {
            name: self.name.clone(),
            packets: self.packets,
            parts: self.delay_parts_s,
            ..ClassStats::default()
        }
    }
}

/// Delay parts as seconds by name.
pub(crate) mod parts_s {
    use alloc::collections::BTreeMap;
    use alloc::string::String;

    use serde::{Deserialize, Deserializer, Serializer};
    use strait_core::delay::{DelayPart, DelayParts};

    pub(crate) fn serialize<S: Serializer>(parts: &DelayParts, to: S) -> Result<S::Ok, S::Error> {
        let named = DelayPart::ALL.map(|part| (part.name(), crate::seconds(parts.part_ns(part))));
        to.collect_map(BTreeMap::from(named))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DelayParts, D::Error> {
        let named: BTreeMap<String, f64> = BTreeMap::deserialize(from)?;
        let mut parts = DelayParts::default();
        for part in DelayPart::ALL {
            let part_s = named.get(part.name()).copied().unwrap_or_default();
            // Rounded: the nearest to a nanosecond that was written.
            parts.add(part, (part_s * 1e9 + 0.5) as u64);
        }
        Ok(parts)
    }
}

described! {
    /// What a node wants stored, and the calendar that it is told.
    pub struct Host from stats: &Stats {
        /// Batches for stable storage that are stable
        stored: u64 = stats.storage.stored => counter("storage_batches").of("result", "stored");
        /// Batches for stable storage refused for lack of space
        full: u64 = stats.storage.full => counter("storage_batches").of("result", "full");
        /// Batches for stable storage that failed otherwise
        failed: u64 = stats.storage.failed => counter("storage_batches").of("result", "failed");
        /// Steps of the host's calendar
        clock_steps: u64 = stats.calendar.steps => counter("clock_steps");
        /// The last step; below zero: back
        clock_step_s: f64 = stats.calendar.step_ns as f64 / 1e9 => gauge("clock_step").unit("s");
    }
}

/// How late a driver is woken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Late {
    /// Whether it runs ahead of ordinary programs.
    pub goes_first: bool,
    /// Times that it was woken when a moment had come.
    pub woken: u64,
    /// By how much it was late that half of the times don't exceed.
    pub late_p50_s: Option<f64>,
    /// By how much it was late that 99 of 100 times don't exceed.
    pub late_p99_s: Option<f64>,
    /// The most of it.
    pub late_max_s: f64,
}

impl Late {
    /// What a driver measured of itself.
    pub fn new(goes_first: bool, late: &Histogram, late_ns_max: u64) -> Self {
        Self {
            goes_first,
            woken: late.count(),
            late_p50_s: quantile_s(late, 0.5),
            late_p99_s: quantile_s(late, 0.99),
            late_max_s: seconds(late_ns_max),
        }
    }
}

described! {
    /// Somebody who looks on as packets end.
    pub struct Tap from tap: (&str, u64, u64) {
        /// Its name
        name: String = tap.0.into();
        /// Records of packets sent
        records: u64 = tap.1 => counter("tap_records");
        /// Records lost for lack of room
        dropped: u64 = tap.2 => counter("tap_dropped");
    }
}

/// How a journal is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JournalStatus {
    /// Its file.
    pub file: String,
    /// What was written so far.
    pub octets: u64,
    /// Why nothing more is written; null while it goes on.
    pub ended: Option<String>,
}
