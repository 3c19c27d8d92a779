//! What a node counts.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Serialize;
use strait_wire::ip::PacketInfo;

use crate::delay::DelayParts;
use crate::fate::{DropCause, Fate, FateRecord, Origin};
use crate::id::{NeighbourId, PortId};
use crate::local::LocalStats;
use crate::node::{StoreError, WallTime};
use crate::rate::LineRate;
use crate::stream_ledger::StreamLedger;
use crate::time::{Duration, Instant, nanos};
use crate::tls::TlsFault;

mod dns;
mod far;
mod hf;
mod mail;
mod olsr;
mod proxy;
mod talkers;

pub use self::dns::{DnsStats, FreshStats, OwnAnswerStats, ResolverStats};
pub use self::far::{Brief, BriefClass, BriefEnds, BriefFlow, FarStats};
pub use self::hf::{
    AccessStats, ClientStats, HfClientStats, HfCounts, HfLink, HfPeer, HfRate, HfStats, PRIORITIES,
};
pub use self::mail::{MailSlowStats, MailStats};
pub use self::olsr::OlsrStats;
pub use self::proxy::{ProxyRefusal, ProxyStats, SessionStats};
pub use self::talkers::{FlowTalk, HostTalk, Talk, Talker, Talkers, Telling};

/// Packets destroyed, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; DropCause::ALL.len()]);

impl Drops {
    /// Counts one.
    pub const fn count(&mut self, cause: DropCause) {
        self.0[cause as usize] += 1;
    }

    /// Packets destroyed for `cause`.
    pub const fn by(&self, cause: DropCause) -> u64 {
        self.0[cause as usize]
    }

    /// Packets destroyed for any cause.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Each cause that occurred, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropCause, u64)> + '_ {
        DropCause::ALL
            .into_iter()
            .map(|cause| (cause, self.by(cause)))
            .filter(|(_, count)| *count > 0)
    }
}

/// Counts of durations in buckets whose width grows with the value: 16 buckets an octave, so a
/// quantile is at most 6.25 % above the true one. From 1 µs to 2^40 µs.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<u32>,
    count: u64,
}

impl Histogram {
    const STEPS: u64 = 16;
    const BUCKETS: usize = 16 * 38;

    fn bucket(ns: u64) -> usize {
        let us = ns / 1000;
        if us < Self::STEPS {
            return us as usize;
        }
        let octave = us.ilog2() - 3;
        let step = (us >> (octave - 1)) - Self::STEPS;
        ((u64::from(octave) * Self::STEPS + step) as usize).min(Self::BUCKETS - 1)
    }

    /// The upper end of a bucket in nanoseconds.
    fn bound_ns(bucket: usize) -> u64 {
        let bucket = bucket as u64;
        if bucket < Self::STEPS {
            return (bucket + 1) * 1000;
        }
        let (octave, step) = (bucket / Self::STEPS, bucket % Self::STEPS);
        ((Self::STEPS + step + 1) << (octave - 1)) * 1000
    }

    /// Counts one duration.
    pub fn record(&mut self, ns: u64) {
        let bucket = Self::bucket(ns);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] = self.buckets[bucket].saturating_add(1);
        self.count += 1;
    }

    /// Durations counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The duration in nanoseconds that a share `q` of all don't exceed; `None` without any.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let rank = libm::ceil(q.clamp(0.0, 1.0) * self.count as f64).max(1.0) as u64;
        let mut seen = 0;
        self.buckets.iter().enumerate().find_map(|(bucket, count)| {
            seen += u64::from(*count);
            (seen >= rank && self.count > 0).then(|| Self::bound_ns(bucket))
        })
    }
}

/// The words for what a policer finds, in the order of [`ClassStats::colours`].
pub const COLOURS: [&str; 3] = ["green", "yellow", "red"];

/// Counters of one class of service. Those that each packet counts come first, in two lines of the
/// processor's cache.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct ClassStats {
    /// Packets that ended here other than by being destroyed.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Packets waiting now.
    pub queued_packets: u64,
    /// Octets waiting now.
    pub queued_octets: u64,
    /// Where the time of the packets counted in `packets` went, summed.
    pub parts: DelayParts,
    /// Of `packets`, those that a link sent.
    pub sent: Passed,
    /// Of `packets`, those marked «congestion experienced» here instead of being dropped.
    pub marked: u64,
    /// Packets that the class's policer found green, yellow and red.
    pub colours: [u64; 3],
    /// Packets destroyed.
    pub dropped: Drops,
    /// Of `packets`, those that the host side was given.
    pub delivered: Passed,
    /// The policy's name for it.
    pub name: String,
}

/// Packets of a class that left a node in one direction.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// How many.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Their whole time in the node.
    pub delay: Histogram,
}

impl Passed {
    fn count(&mut self, record: &FateRecord) {
        self.packets += 1;
        self.octets += u64::from(record.octets);
        self.delay.record(record.parts.total_ns());
    }
}

/// Urgent frames of a port: real-time packets that go inside what is leaving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrgentStats {
    /// How many.
    pub frames: u64,
    /// Their octets on the line, mark and escapes included.
    pub octets: u64,
    /// Those of the longest.
    pub octets_max: u32,
    /// How many suspended another frame.
    pub suspended: u64,
    /// How many came in whole.
    pub frames_in: u64,
    /// Of those that came in, the ones that failed their check.
    pub damaged: u64,
    /// Other frames that came in whole although they had been suspended.
    pub resumed: u64,
}

impl UrgentStats {
    /// Counts one.
    pub fn count(&mut self, octets: u32, suspends: bool) {
        self.frames += 1;
        self.octets += u64::from(octets);
        self.octets_max = self.octets_max.max(octets);
        self.suspended += u64::from(suspends);
    }
}

/// How well the gaps between packets of calls were predicted: the time from one packet of a call to
/// the next.
#[derive(Clone, Debug, Default)]
pub struct GapStats {
    /// Gaps as predicted.
    pub predicted: Histogram,
    /// The same gaps as they were.
    pub actual: Histogram,
    /// How far off each prediction was.
    pub error: Histogram,
    /// Packets that nothing was predicted of: the first of a call, and those behind a silence.
    pub unforeseen: u64,
    /// Segments of other packets made shorter to fit a gap.
    pub fitted: u64,
    /// Segments of the least size, sent while a call's packet was due.
    pub least: u64,
    /// Times that the line rested because a call's packet was due at once.
    pub rests: u64,
}

impl GapStats {
    /// Counts a gap that a prediction was known for.
    pub fn count(&mut self, predicted: Duration, actual: Duration, error: Duration) {
        self.predicted.record(nanos(predicted));
        self.actual.record(nanos(actual));
        self.error.record(nanos(error));
    }
}

/// The flows that leave by a port.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// Flows in the table.
    pub known: u64,
    /// Flows that made way for new ones in a full table.
    pub displaced: u64,
    /// Times that a call was admitted.
    pub admitted: u64,
    /// Times that one was refused.
    pub refused: u64,
    /// Predictions of calls' packets.
    pub gaps: GapStats,
}

/// Payload compression at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PayloadStats {
    /// Octets of what goes in the place of packets, headers compressed or not, before it.
    pub plain_octets: u64,
    /// The same after it.
    pub compressed_octets: u64,
    /// Packets that got shorter.
    pub packets: u64,
    /// Packets that didn't, or whose flows weren't tried.
    pub raw: u64,
}

/// What links made reliable hop by hop cost a port, and hold.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub struct HopStats {
    /// Packets sent again.
    pub repeated: u64,
    /// Of these, those that had come before.
    pub needless: u64,
    /// Copies that went behind packets sent again.
    pub copied: u64,
    /// Parity frames sent.
    pub parities: u64,
    /// Packets that were lost, and made again by parity frames of what came.
    pub restored: u64,
    /// Frames sent without a packet.
    pub control: u64,
    /// Packets received again.
    pub duplicates: u64,
    /// Packets not taken for want of room; their sender repeats them.
    pub refused: u64,
    /// Frames that were damaged, or belonged to another life of either end.
    pub foreign: u64,
    /// Acknowledgements of what was never sent.
    pub forged: u64,
    /// Packets handed on out of order, after waiting for an earlier one.
    pub impatient: u64,
    /// Times that a neighbour began anew, its first beginning included.
    pub renewals: u64,
    /// Hellos of neighbours that speak another format: nothing is sent to them.
    pub other_format: u64,
    /// Hellos of neighbours whose `check` is another: nothing is sent to them.
    pub other_check: u64,
    /// Packets that were sent and not acknowledged at the most.
    pub window_packets_most: u64,
    /// Octets of the packets that are sent and not acknowledged now.
    pub window_octets: u64,
    /// Octets of the packets that wait for an earlier one now.
    pub order_octets: u64,
}

/// Counters of one port. Those that each packet counts come first: a line of the processor's cache
/// for what comes in, and one for what goes out.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct PortStats {
    /// Frames received.
    pub frames_in: u64,
    /// Octets received.
    pub octets_in: u64,
    /// Frames or segments that failed their check.
    pub damaged: u64,
    /// Frames with an impossible form: too short, too long, unknown.
    pub invalid: u64,
    /// Packets given up because a piece of them was missing.
    pub incomplete: u64,
    /// Packets that couldn't be told: the context of their headers was lost or wrong, or they came
    /// in a form that isn't agreed.
    pub undecompressed: u64,
    /// Frames from an address that is no neighbour.
    pub strangers: u64,
    /// Who is there.
    pub presence: Presence,
    /// Whether it can send now.
    pub up: bool,
    /// What the ends of the link have agreed on, where one of them asked.
    pub agreement: Agreement,
    /// Frames (or segments on an octet stream) sent.
    pub frames_out: u64,
    /// Octets sent.
    pub octets_out: u64,
    /// Time spent sending, in nanoseconds, by the line's rate.
    pub busy_ns: u64,
    /// What concerns each of several neighbours that get frames.
    pub neighbours: Vec<NeighbourStats>,
    /// What flows leave by it, where the profile tells flows apart.
    pub flows: FlowStats,
    /// The configuration's name for it.
    pub name: String,
    /// Rate towards the neighbour; of several with different ones, towards the first.
    pub tx_rate: Option<LineRate>,
    /// Of these frames, the urgent ones.
    pub urgent: UrgentStats,
    /// What of its octet stream is sent again, where that is agreed.
    pub repairs: RepairStats,
    /// The repairs of its links, where they are made reliable.
    pub hop: HopStats,
    /// Its station, where it has a radio.
    pub hf: HfStats,
    /// Its access points at somebody else's station, where it has such.
    pub client: HfClientStats,
    /// Octets of packets whose headers were compressed, before that.
    pub plain_octets: u64,
    /// The same packets' octets after it.
    pub compressed_octets: u64,
    /// Payload compression, of packets whose headers are done.
    pub payload: PayloadStats,
    /// Transmissions that the medium reported as failed.
    pub tx_failed: u64,
}

/// Whether anybody is at a port, and what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Packets that came whole.
    pub packets_in: u64,
    /// Times that octets of a line came, whatever frames are in them.
    pub chunks_in: u64,
    /// When anything came last.
    pub heard: Option<Instant>,
    /// How fast frames went of late, in bit/s, where there is one neighbour and the medium tells
    /// when it is done with a frame.
    pub measured_bit_s: Option<u64>,
    /// Times the port went down.
    pub downs: u64,
    /// Whether it is a host side.
    pub is_host: bool,
}

/// Repairs of an octet stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairStats {
    /// What it sends can be sent again.
    pub sends: bool,
    /// It wants the other end to do so.
    pub wishes: bool,
    /// Segments sent again.
    pub repeated: u64,
    /// Their octets, before octet stuffing.
    pub repeated_octets: u64,
    /// Segments received that can be asked for again.
    pub segments_in: u64,
    /// Of these, those that had come before.
    pub duplicates: u64,
    /// Of these, those for which there was no room.
    pub refused: u64,
    /// Missing ones that weren't waited for any longer.
    pub skipped: u64,
    /// Notes sent.
    pub notes: u64,
    /// Their octets, before framing.
    pub notes_octets: u64,
    /// Notes of what was never sent.
    pub forged: u64,
    /// Octets of the segments that are sent and not acknowledged now.
    pub window_octets: u64,
    /// Octets of the segments that wait for an earlier one now.
    pub held_octets: u64,
}

/// Counters of one of several neighbours on a port.
#[derive(Clone, Debug, Default)]
pub struct NeighbourStats {
    /// The configuration's name for it.
    pub name: String,
    /// Rate towards it; `None` before the port came up.
    pub tx_rate: Option<LineRate>,
    /// Octets sent to it.
    pub octets_out: u64,
    /// When it was heard last.
    pub heard: Option<Instant>,
}

/// What the ends of a link have agreed on. With several neighbours, the one that was heard last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreement {
    /// Nobody has asked.
    #[default]
    None,
    /// This end has asked, and nobody has answered.
    Unanswered,
    /// There is no format that both speak: everything goes as it is.
    OtherFormat,
    /// Both have heard each other.
    Settled {
        /// Whether headers are compressed.
        headers: Settled,
        /// Whether payloads are compressed.
        payloads: Settled,
        /// Whether this end's real-time packets have checks of 16 bits.
        short_checks: Settled,
        /// Whether UDP checksums are left out and rebuilt.
        checksums: Settled,
        /// Whether both know the same flows beforehand.
        known_flows: Settled,
        /// Flows that this end sends and both have remembered.
        remembered: u8,
    },
}

/// What has become of something that both ends have to want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Neither end wants it.
    Unwanted,
    /// Both do.
    Agreed,
    /// The other end doesn't.
    OtherWithout,
    /// This end doesn't, and the other one asks for it.
    OwnWithout,
}

impl Settled {
    /// What follows from what each end wants.
    #[must_use]
    pub const fn of(own: bool, other: bool) -> Self {
        match (own, other) {
            (false, false) => Self::Unwanted,
            (true, true) => Self::Agreed,
            (true, false) => Self::OtherWithout,
            (false, true) => Self::OwnWithout,
        }
    }
}

impl Agreement {
    /// The agreement in a few words; empty if nobody has asked for one.
    #[must_use]
    pub fn text(self) -> String {
        let (headers, payloads, others, remembered) = match self {
            Self::None => return String::new(),
            Self::Unanswered => return "no answer yet".into(),
            Self::OtherFormat => return "plain: the other end has another format".into(),
            Self::Settled {
                headers,
                payloads,
                short_checks,
                checksums,
                known_flows,
                remembered,
            } => {
                let others = [short_checks, checksums, known_flows];
                (headers, payloads, others, remembered)
            }
        };
        let [short_checks, checksums, known_flows] = others;
        let what = [
            ("headers compressed", headers),
            ("payloads compressed", payloads),
            ("short checks", short_checks),
            ("checksums rebuilt", checksums),
            ("the same flows known", known_flows),
        ];
        let agreed = what.iter().filter(|(_, it)| *it == Settled::Agreed);
        let mut text: Vec<String> = agreed.map(|(name, _)| (*name).into()).collect();
        if remembered > 0 {
            let plural = if remembered == 1 { "" } else { "s" };
            text.push(format!("{remembered} flow{plural} remembered"));
        }
        if headers != Settled::Agreed && payloads != Settled::Agreed {
            text.insert(0, "plain".into());
        }
        for (name, it) in what {
            match it {
                Settled::OtherWithout => text.push(format!("not {name}: the other end doesn't")),
                Settled::OwnWithout => text.push(format!("not {name}: the other end would")),
                Settled::Unwanted | Settled::Agreed => {}
            }
        }
        text.join(", ")
    }

    /// Whether this end doesn't get what its configuration asks for.
    #[must_use]
    pub const fn lacks(self) -> bool {
        matches!(
            self,
            Self::OtherFormat
                | Self::Settled {
                    headers: Settled::OtherWithout,
                    ..
                }
                | Self::Settled {
                    payloads: Settled::OtherWithout,
                    ..
                }
        )
    }
}

/// All counters of a node. They start at zero with each incarnation. Those that each packet counts
/// come first.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub struct Stats {
    /// Packets taken in from ports.
    pub admitted: u64,
    /// Packets made by the node.
    pub originated: u64,
    /// Packets given to the host side.
    pub delivered: u64,
    /// Packets sent by a link port.
    pub forwarded: u64,
    /// By class, in the order of the policy.
    pub classes: Vec<ClassStats>,
    /// By port, in the order of the configuration.
    pub ports: Vec<PortStats>,
    /// Packets replied to locally.
    pub answered: u64,
    /// Packets taken over by a proxy or thinned.
    pub absorbed: u64,
    /// Packets cut into IP fragments.
    pub fragmented: u64,
    /// Packets destroyed.
    pub dropped: Drops,
    /// Octets offered as a packet that were none.
    pub malformed: u64,
    /// ICMP errors not sent because of their rate limit.
    pub icmp_limited: u64,
    /// What was kept off the links.
    pub local: LocalStats,
    /// Its echo service, if it has one.
    pub echo: Option<EchoStats>,
    /// Its TCP proxy, if it has one.
    pub proxy: Option<ProxyStats>,
    /// Its DNS proxy, if it has one.
    pub dns: Option<DnsStats>,
    /// A message switch, where there is one.
    pub mail: Option<MailStats>,
    /// Its routers of a mobile network, both families together.
    pub olsr: Option<OlsrStats>,
    /// Gateways at far ends, and what they say of themselves.
    pub far: Vec<FarStats>,
    /// What its host reaches by it, if its node file says anything of that.
    pub led: Option<LedStats>,
    /// Who sends, where the node is a gateway.
    pub talkers: Option<Talkers>,
    /// What became of what it wanted stored.
    pub storage: StorageStats,
    /// How its calendar went.
    pub calendar: CalendarStats,
}

/// What became of batches for stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageStats {
    /// Batches that are stable.
    pub stored: u64,
    /// Those refused as no space was left.
    pub full: u64,
    /// Those that failed otherwise.
    pub failed: u64,
}

impl StorageStats {
    /// Counts a batch.
    pub const fn count(&mut self, result: Result<(), StoreError>) {
        match result {
            Ok(()) => self.stored += 1,
            Err(StoreError::Full) => self.full += 1,
            Err(StoreError::Absent | StoreError::Failed | StoreError::Busy) => self.failed += 1,
        }
    }
}

/// The calendar that a node is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CalendarStats {
    /// The calendar's time at the node's beginning, as it was told last.
    origin_ns: Option<i128>,
    /// How often it was set anew.
    pub steps: u64,
    /// By how much at last, in nanoseconds: forward, or below zero back.
    pub step_ns: i64,
}

impl CalendarStats {
    /// The calendar says `wall` now.
    pub fn tell(&mut self, now: Instant, wall: WallTime) {
        let origin_ns = i128::from(wall.0) - i128::from(now.as_nanos());
        let step_ns = self.origin_ns.map_or(0, |was| origin_ns - was);
        if step_ns != 0 {
            self.steps += 1;
            let most = if step_ns > 0 { i64::MAX } else { i64::MIN };
            self.step_ns = i64::try_from(step_ns).unwrap_or(most);
        }
        self.origin_ns = Some(origin_ns);
    }
}

/// Prefixes that a host is to reach by a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedStats {
    /// Those that the node wants its host to have now.
    pub wanted: u64,
    /// Of these, what the host has.
    pub there: u64,
    /// How often one was withdrawn, as no way led there.
    pub withdrawals: u64,
    /// How often the host refused one.
    pub refusals: u64,
}

/// What became of streams that were to have TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsStats {
    /// Streams secured.
    pub secured: u64,
    faults: [u64; TlsFault::ALL.len()],
}

impl TlsStats {
    /// Counts a stream that isn't secured, or not any longer.
    pub const fn fail(&mut self, fault: TlsFault) {
        self.faults[fault as usize] += 1;
    }

    /// Streams that failed by this.
    pub const fn failed_by(&self, fault: TlsFault) -> u64 {
        self.faults[fault as usize]
    }
}

/// A service that sends back what it gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EchoStats {
    /// Its connections.
    pub streams: StreamLedger,
    /// Octets put on stable storage for them, compressed and with their digests.
    pub stored: u64,
    /// Clients that weren't allowed to connect.
    pub refused: u64,
    /// What became of its connections with TLS.
    pub tls: TlsStats,
    /// Datagrams sent back.
    pub datagrams: u64,
    /// Datagrams not sent back: other echoes', and those for which there was no room.
    pub datagrams_dropped: u64,
}

impl Stats {
    /// Packets whose fate is open: taken in or made, and not ended.
    pub const fn held(&self) -> u64 {
        let mut ended =
            self.delivered + self.forwarded + self.answered + self.absorbed + self.fragmented;
        let mut cause = 0;
        while cause < DropCause::ALL.len() {
            ended += self.dropped.0[cause];
            cause += 1;
        }
        self.admitted + self.originated - ended
    }

    /// A frame comes by a port from a neighbour.
    pub fn hear(&mut self, now: Instant, port: PortId, from: NeighbourId) {
        let Some(port) = self.ports.get_mut(port.index()) else {
            return;
        };
        port.presence.heard = Some(now);
        if let Some(neighbour) = port.neighbours.get_mut(from.index()) {
            neighbour.heard = Some(now);
        }
    }

    pub(crate) fn count_come(&mut self, now: Instant, info: &PacketInfo, origin: Origin) {
        match origin {
            Origin::Port(port) => {
                self.admitted += 1;
                if let Some(port) = self.ports.get_mut(port.index()) {
                    port.presence.packets_in += 1;
                }
            }
            Origin::Own => self.originated += 1,
        }
        if let Some(talkers) = &mut self.talkers {
            talkers.come(now, info);
        }
    }

    pub(crate) fn count_fate(&mut self, record: &FateRecord) {
        match record.fate {
            Fate::Delivered(_) => self.delivered += 1,
            Fate::Forwarded { .. } => self.forwarded += 1,
            Fate::Answered => self.answered += 1,
            Fate::Absorbed => self.absorbed += 1,
            Fate::Fragmented => self.fragmented += 1,
            Fate::Dropped(cause) => self.dropped.count(cause),
        }
        let Some(class) = self.classes.get_mut(record.class.index()) else {
            return;
        };
        if let Fate::Dropped(cause) = record.fate {
            class.dropped.count(cause);
        } else {
            class.packets += 1;
            if record.marked {
                class.marked += 1;
            }
            class.octets += u64::from(record.octets);
            class.parts.merge(&record.parts);
        }
        match record.fate {
            Fate::Forwarded { .. } => class.sent.count(record),
            Fate::Delivered(_) => class.delivered.count(record),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_one_bucket_above() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ns(0.5), None);
        for ms in 1..=1000u64 {
            histogram.record(ms * 1_000_000);
        }
        for (q, exact_ns) in [(0.5, 500e6), (0.99, 990e6), (1.0, 1000e6)] {
            let ns = histogram.quantile_ns(q).unwrap_or(0) as f64;
            assert!((exact_ns..=exact_ns * 1.0625).contains(&ns), "{q}: {ns}");
        }
    }

    #[test]
    fn buckets_are_ordered_and_bound_their_values() {
        let mut last = 0;
        for us in (0..100_000u64).chain([1 << 30, 1 << 39]) {
            let bucket = Histogram::bucket(us * 1000);
            assert!(bucket >= last);
            assert!(Histogram::bound_ns(bucket) > us * 1000, "{us}");
            last = bucket;
        }
        assert_eq!(Histogram::bucket(u64::MAX), Histogram::BUCKETS - 1);
    }
}
