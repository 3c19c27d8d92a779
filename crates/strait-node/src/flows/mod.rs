//! The flows that leave by a link: what they are, what they need, and when their next packets come.
//!
//! Calls, which the policy puts into the first rank, have places of their own, so that no number of
//! other flows makes the node forget one. Of all flows the pace is learned; that of calls says how
//! long the gaps between their packets will be.

mod admission;
mod observed;
mod pace;
mod recent;
mod talk;

use strait_core::flow::{Flow, FlowKey, Nature, Standing};
use strait_core::stats::FlowStats;
use strait_core::{ClassId, Duration, Instant, Packet, PortId};
use strait_wire::ip::{PacketInfo, protocol};

pub(crate) use self::admission::{Pass, Terms};
use self::observed::Observed;
pub(crate) use self::observed::may_be_call;
use self::pace::Pace;
use self::recent::Recent;
use self::talk::Talk;

/// Calls that a port knows at a time: more than the narrow lines that need predictions can carry,
/// at 1.6 kbit/s each 400 kbit/s.
pub(crate) const CALLS_MAX: usize = 256;

/// Other flows that a port knows at a time: five for each of 200 busy hosts. A flow beyond them
/// loses no packet, only its line in the status.
pub(crate) const OTHERS_MAX: usize = 1024;

/// The longest packet of a flow that behaves like a call: 20 ms of speech at 64 kbit/s in an IPsec
/// tunnel have 300 octets.
const CALL_OCTETS_MAX: u32 = 400;

/// A call without a packet for so long makes way where places are scarce: it may pause for as long
/// as the other side talks.
const OVER: Duration = Duration::from_secs(30);

/// Packets in a row of nearly one size that make a flow a regular one.
const STEADY: u32 = 8;

/// What is known of one flow. What packets of no call meet comes first.
#[derive(Debug)]
#[repr(C)]
struct Entry {
    class: ClassId,
    dscp: u8,
    size: Size,
    packets: u64,
    seen: Instant,
    pace: Pace,
    /// Of a flow that nobody marked, whether it is treated as a call.
    observed: Observed,
    began: Instant,
    /// Of a call, what the headers of its last packet make of it on the line.
    estimate: u32,
    standing: Standing,
    /// Since when an admitted call needs more than it may have.
    over_since: Option<Instant>,
    talk: Talk,
}

/// Sizes of a flow's packets.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Mean of the IP packets' octets, times eight.
    plain_8: u32,
    /// Packets in a row that were near it.
    steady: u32,
    /// Mean of the octets that packets took on the line, times eight.
    line_8: Option<u32>,
    /// How many that is the mean of.
    carried: u32,
    /// One took no more than learned headers leave of it; the mean is of that one and later ones.
    learned: bool,
}

impl Size {
    const fn begin(octets: u32) -> Self {
        Self {
            plain_8: octets * 8,
            steady: 0,
            line_8: None,
            carried: 0,
            learned: false,
        }
    }

    fn see(&mut self, octets: u32) {
        let mean = self.plain_8 / 8;
        let near = octets.abs_diff(mean) <= mean / 8;
        self.steady = if near {
            self.steady.saturating_add(1)
        } else {
            0
        };
        self.plain_8 = self.plain_8 - mean + octets;
    }

    /// A packet took so many octets on the line; `short` are the most with learned headers.
    fn carried(&mut self, octets: u32, short: u32) {
        if !self.learned && octets <= short {
            (self.learned, self.line_8, self.carried) = (true, None, 0);
        }
        let mean_8 = self.line_8.unwrap_or(octets * 8);
        self.line_8 = Some(mean_8 - mean_8 / 8 + octets);
        self.carried = self.carried.saturating_add(1);
    }

    /// Octets on the line, as far as known.
    fn octets(self) -> u32 {
        self.line_8.unwrap_or(self.plain_8) / 8
    }
}

impl Entry {
    fn begin(now: Instant, packet: &Packet) -> Self {
        let info = packet.info();
        Self {
            class: packet.class,
            dscp: info.dscp,
            packets: 1,
            began: now,
            seen: now,
            pace: Pace::begin(now),
            size: Size::begin(info.octets),
            estimate: info.octets,
            standing: Standing::Measured,
            over_since: None,
            talk: Talk::default(),
            observed: Observed::No,
        }
    }

    fn see(&mut self, now: Instant, packet: &Packet) {
        let info = packet.info();
        (self.class, self.dscp) = (packet.class, info.dscp);
        self.packets += 1;
        if !self.is_silent(now) {
            self.talk.see(now.since(self.seen));
        }
        self.seen = now;
        self.size.see(info.octets);
    }

    fn nature(&self, key: &FlowKey) -> Nature {
        if self.observed.is_call() {
            return Nature::Observed;
        }
        let small = self.size.plain_8 / 8 <= CALL_OCTETS_MAX;
        let paced = matches!(key.protocol, protocol::UDP | protocol::ESP);
        if paced && small && self.size.steady >= STEADY && self.pace.is_regular() {
            Nature::Observed
        } else {
            Nature::Conventional
        }
    }

    fn row(&self, port: PortId, key: FlowKey, nature: Nature) -> Flow {
        Flow {
            port,
            key,
            class: self.class,
            dscp: self.dscp,
            nature,
            standing: (nature == Nature::Ruled).then_some(self.standing),
            packets: self.packets,
            octets: self.size.octets(),
            period: self.pace.period(),
            seen: self.seen,
        }
    }
}

/// The flows that leave by one port.
#[derive(Debug)]
pub(crate) struct Flows {
    others: Recent<Entry>,
    calls: Recent<Entry>,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            calls: Recent::new(CALLS_MAX),
            others: Recent::new(OTHERS_MAX),
        }
    }
}

/// Whether a packet of the first rank belongs to what keeps its own pace: TCP doesn't, and an echo
/// is nobody's call.
pub(crate) const fn keeps_pace(info: &PacketInfo) -> bool {
    !matches!(
        info.protocol,
        protocol::TCP | protocol::ICMP | protocol::ICMPV6
    )
}

impl Flows {
    /// A packet that is of no call is about to be queued. Whether there is a place for its flow.
    pub(crate) fn see(&mut self, now: Instant, packet: &Packet, stats: &mut FlowStats) -> bool {
        let key = FlowKey::of(packet.info());
        if let Some(entry) = self.others.touch(&key) {
            entry.see(now, packet);
            entry.pace.arrive(now);
            return true;
        }
        // Others can't push out a call that goes on; one that is over makes way.
        let is_over = |entry: &Entry| now.since(entry.seen) >= OVER;
        let may_go = |entry: &Entry| !entry.observed.is_call() || is_over(entry);
        let displaced = self.others.insert(key, Entry::begin(now, packet), may_go);
        stats.displaced += displaced.as_ref().copied().unwrap_or_default();
        stats.known = self.known();
        displaced.is_ok()
    }

    const fn known(&self) -> u64 {
        (self.calls.len() + self.others.len()) as u64
    }

    /// The class that a packet's call is in, if it is of one. A tunnel's other packets have its
    /// addresses and ports too, but another code point; and what came before the flow was taken for
    /// a call is none of it.
    pub(crate) fn call_class(&self, packet: &Packet) -> Option<ClassId> {
        let info = packet.info();
        let entry = self.calls.get(&FlowKey::of(info))?;
        (entry.dscp == info.dscp && packet.began() >= entry.began).then_some(entry.class)
    }

    /// A call's packet takes so many octets on the line.
    pub(crate) fn carried(&mut self, info: &PacketInfo, octets: usize) {
        let entry = self.calls.at_key(&FlowKey::of(info));
        if let Some(entry) = entry.filter(|entry| entry.dscp == info.dscp) {
            let short = entry.short();
            entry.size.carried(octets as u32, short);
        }
    }

    /// Whether there are calls whose packets may be expected.
    pub(crate) const fn has_calls(&self) -> bool {
        self.calls.len() > 0
    }

    /// From when to when the next packet of any call is expected: what begins at `now` should have
    /// left before. `None` if none is.
    pub(crate) fn expected(&self, now: Instant) -> Option<(Instant, Instant)> {
        let calls = self.calls.iter();
        let calls = calls.filter(|(_, call)| call.standing != Standing::Refused);
        calls.filter_map(|(_, call)| call.pace.expected(now)).min()
    }

    /// All flows, calls first.
    pub(crate) fn rows(&self, port: PortId) -> impl Iterator<Item = Flow> {
        let calls = self.calls.iter();
        let calls = calls.map(move |(key, entry)| {
            let other = self.others.get(key);
            let is_observed = other.is_some_and(|other| other.observed.is_call());
            let nature = [Nature::Ruled, Nature::Observed][usize::from(is_observed)];
            entry.row(port, *key, nature)
        });
        let others = self.others.iter();
        let others = others.filter(|(key, _)| self.calls.get(key).is_none());
        calls.chain(others.map(move |(key, entry)| entry.row(port, *key, entry.nature(key))))
    }

    /// Asserts the limits.
    pub(crate) fn check(&self) {
        self.calls.check();
        self.others.check();
    }
}

#[cfg(test)]
mod tests;
