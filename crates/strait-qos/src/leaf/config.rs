//! `queue = { … }` of a class: in which order its packets go, and which of them don't.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strait_core::units::{Octets, Time};

use crate::dscp::Dscp;

/// The queue inside a class without classes below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum QueueConfig {
    /// First come, first served; packets that arrive at a full queue are dropped.
    Fifo(FifoConfig),
    /// Equal shares of octets for all flows; small packets of those below their share go first.
    Fair(FairConfig),
    /// Flows in turn, equal shares of octets, as the Linux kernel's `sfq`.
    Sfq(SfqConfig),
    /// Flows in turn, new ones first, each kept short by `CoDel` (RFC 8290).
    FqCodel(FqCodelConfig),
    /// First come, first served; early drops by chance, by code point.
    Wred(WredConfig),
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self::Fifo(FifoConfig::default())
    }
}

impl QueueConfig {
    /// Packets that may wait if the class doesn't say.
    #[must_use]
    pub const fn packets_default(&self) -> u32 {
        match self {
            Self::Fifo(_) | Self::Fair(_) => 100,
            // SFQ_DEFAULT_FLOWS - 1 of Linux.
            Self::Sfq(_) => 127,
            // RFC 8290 section 5.2.3.
            Self::FqCodel(_) => 10_240,
            // The queue limit of a class of IOS 12.4; room above the highest default threshold.
            Self::Wred(_) => 64,
        }
    }

    /// Whether it is written as if it were left out.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a TCP segment is left out whose first copy still waits.
    #[must_use]
    pub const fn absorbs_repeats(&self) -> bool {
        self.savings().0
    }

    /// Whether superseded TCP acknowledgements are left out.
    #[must_use]
    pub const fn thins_acks(&self) -> bool {
        self.savings().1
    }

    /// Leaves them out.
    pub(crate) const fn thin_acks(&mut self) {
        let thins = match self {
            Self::Fifo(config) => &mut config.thin_acks,
            Self::Fair(config) => &mut config.thin_acks,
            Self::Sfq(config) => &mut config.thin_acks,
            Self::FqCodel(config) => &mut config.thin_acks,
            Self::Wred(config) => &mut config.thin_acks,
        };
        *thins = true;
    }

    const fn savings(&self) -> (bool, bool) {
        match self {
            Self::Fifo(config) => (config.absorb_repeats, config.thin_acks),
            Self::Fair(config) => (config.absorb_repeats, config.thin_acks),
            Self::Sfq(config) => (config.absorb_repeats, config.thin_acks),
            Self::FqCodel(config) => (config.absorb_repeats, config.thin_acks),
            Self::Wred(config) => (config.absorb_repeats, config.thin_acks),
        }
    }

    /// The first key with an impossible value, and a valid one.
    pub(crate) fn fault(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Fifo(_) | Self::Fair(_) => None,
            Self::Sfq(config) => config.fault(),
            Self::FqCodel(config) => config.fault(),
            Self::Wred(config) => config.fault(),
        }
    }
}

/// Keys of `kind = "fifo"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FifoConfig {
    /// A repeated TCP segment whose first copy still waits is left out: the first copy contains all
    /// of it.
    pub absorb_repeats: bool,
    /// A TCP acknowledgement that an earlier and a later one of its connection make superfluous is
    /// left out.
    pub thin_acks: bool,
}

/// Keys of `kind = "fair"`.
///
/// A full queue drops the oldest packet of the flow with the most octets, so that an unyielding
/// sender excludes no other, and a yielding one notices first. It is full by the class's limits, or
/// with 30 s of the line at its present rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FairConfig {
    /// As for `fifo`.
    pub absorb_repeats: bool,
    /// As for `fifo`.
    pub thin_acks: bool,
}

/// Keys of `kind = "sfq"`; the defaults are those of Linux 6.1 (`sch_sfq.c`).
///
/// A full queue drops the last packet of the flow with the most packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SfqConfig {
    /// Flows that may have packets at a time.
    pub flows: u32,
    /// Hash buckets that separate flows.
    pub buckets: u32,
    /// Packets of one flow.
    pub depth: u32,
    /// Octets a turn; the port's MTU if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Octets>,
    /// How often flows are hashed anew, so that two in one bucket don't stay there; never if left
    /// out (users of `tc` write 10 s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perturb: Option<Time>,
    /// Drop the oldest packet of the longest flow, not the newest: the sender learns sooner.
    pub head_drop: bool,
    /// As for `fifo`.
    pub absorb_repeats: bool,
    /// As for `fifo`.
    pub thin_acks: bool,
}

const SFQ_FLOWS: u32 = 128;
const SFQ_DEPTH: u32 = 127;
const BUCKETS: u32 = 1024;

impl Default for SfqConfig {
    fn default() -> Self {
        Self {
            flows: SFQ_FLOWS,
            buckets: BUCKETS,
            depth: SFQ_DEPTH,
            quantum: None,
            perturb: None,
            head_drop: false,
            absorb_repeats: false,
            thin_acks: false,
        }
    }
}

/// A smaller quantum would make the search for the next packet long.
const QUANTUM_OCTETS_MIN: u64 = 64;

const QUANTUM_FAULT: (&str, &str) = ("quantum", "64 B to 64 kB");

fn quantum_is_wrong(quantum: Option<Octets>) -> bool {
    quantum.is_some_and(|quantum| !(QUANTUM_OCTETS_MIN..=64_000).contains(&quantum.0))
}

impl SfqConfig {
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        if !(1..=1024).contains(&self.flows) {
            return Some(("flows", "1 to 1024"));
        }
        if !(1..=65_536).contains(&self.buckets) {
            return Some(("buckets", "1 to 65536"));
        }
        if self.depth == 0 {
            return Some(("depth", "at least 1"));
        }
        if self.perturb.is_some_and(|time| time.0.is_zero()) {
            return Some(("perturb", "\"10 s\", or leave it out"));
        }
        quantum_is_wrong(self.quantum).then_some(QUANTUM_FAULT)
    }
}

/// Keys of `kind = "fq-codel"`; the defaults are those of RFC 8290 section 5.2, but for target and
/// interval, which follow the line.
///
/// A full queue drops from the head of the flow with the most octets: half of them, at most 64
/// packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FqCodelConfig {
    /// Hash buckets that separate flows.
    pub flows: u32,
    /// Octets a turn; the port's MTU if left out. 300 B favours small packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Octets>,
    /// Acceptable waiting time. If left out, 5 ms (RFC 8289 section 4.4) but at least the time of
    /// one and a half packets of the port's MTU at the line's present rate, as in CAKE: on a narrow
    /// line a packet being sent is no bad queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Time>,
    /// How long it may take longer before a packet is dropped. If left out, 100 ms (RFC 8289
    /// section 4.3), prolonged by the target's excess over 5 ms, and at least twice the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Time>,
    /// Packets of transports that understand it are marked instead of dropped (RFC 3168).
    pub ecn: bool,
    /// As for `fifo`.
    pub absorb_repeats: bool,
    /// As for `fifo`.
    pub thin_acks: bool,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        Self {
            flows: BUCKETS,
            quantum: None,
            target: None,
            interval: None,
            ecn: true,
            absorb_repeats: false,
            thin_acks: false,
        }
    }
}

impl FqCodelConfig {
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        if !(1..=65_536).contains(&self.flows) {
            return Some(("flows", "1 to 65536"));
        }
        if self.interval.is_some_and(|time| time.0.is_zero()) {
            return Some(("interval", "\"100 ms\", or leave it out"));
        }
        quantum_is_wrong(self.quantum).then_some(QUANTUM_FAULT)
    }
}

/// Keys of `kind = "wred"`: weighted random early detection by code point, as IOS routers have it
/// (`random-detect dscp-based`), after Floyd and Jacobson.
///
/// The class's limit of packets is the queue limit; behind it everything is dropped. It should be
/// well above the highest `max`, or the thresholds never act.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WredConfig {
    /// The weight of a new queue length in the average is 2 to the power of minus this. IOS has 9;
    /// its guide chooses it so that the weight is about one by the line's packets each second.
    pub exponent: u32,
    /// Early drops keep their distance: the more packets passed since the last, the likelier the
    /// next (Floyd and Jacobson's count). Without it each packet is drawn for itself; IOS doesn't
    /// say which it does.
    pub spread: bool,
    /// Packets of transports that understand it are marked instead of dropped early (RFC 3168).
    pub ecn: bool,
    /// An idle line lets the average decay as if such packets were leaving (Linux: `avpkt`).
    pub typical_packet: Octets,
    /// Thresholds by code point; those of IOS for code points that aren't written.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub profile: BTreeMap<Dscp, ProfileConfig>,
    /// As for `fifo`.
    pub absorb_repeats: bool,
    /// As for `fifo`.
    pub thin_acks: bool,
}

const EXPONENT: u32 = 9;
const TYPICAL_PACKET: Octets = Octets(1000);

impl Default for WredConfig {
    fn default() -> Self {
        Self {
            exponent: EXPONENT,
            spread: true,
            ecn: false,
            typical_packet: TYPICAL_PACKET,
            profile: BTreeMap::new(),
            absorb_repeats: false,
            thin_acks: false,
        }
    }
}

impl WredConfig {
    fn fault(&self) -> Option<(&'static str, &'static str)> {
        if !(1..=16).contains(&self.exponent) {
            return Some(("exponent", "1 to 16"));
        }
        if self.typical_packet.0 == 0 {
            return Some(("typical_packet", "\"1000 B\""));
        }
        let profiles = || self.profile.values();
        if profiles().any(|profile| profile.min >= profile.max) {
            return Some(("profile", "`min` below `max`"));
        }
        let zero = profiles().any(|profile| profile.denominator == 0);
        zero.then_some(("profile", "a `denominator` of at least 1"))
    }

    /// The thresholds of a code point.
    #[must_use]
    pub fn profile_of(&self, dscp: Dscp) -> ProfileConfig {
        let written = self.profile.get(&dscp).copied();
        written.unwrap_or_else(|| ProfileConfig::of_ios(dscp))
    }
}

/// Thresholds of one code point, in packets of average queue length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileConfig {
    /// Below it nothing is dropped early.
    pub min: u32,
    /// From it on everything is dropped.
    pub max: u32,
    /// One packet out of so many is dropped just below `max`.
    #[serde(default = "denominator_default")]
    pub denominator: u32,
}

const fn denominator_default() -> u32 {
    10
}

impl ProfileConfig {
    /// The values of IOS for a code point that isn't configured; those of CS0 if it has none.
    #[must_use]
    pub fn of_ios(dscp: Dscp) -> Self {
        let min = match dscp.number() {
            8 => 22,
            16 => 24,
            24 => 26,
            32 => 28,
            40 => 30,
            48 => 32,
            56 => 34,
            46 => 36,
            // AF11, AF21, AF31, AF41; then the second and the third drop precedence.
            10 | 18 | 26 | 34 => 32,
            12 | 20 | 28 | 36 => 28,
            14 | 22 | 30 | 38 => 24,
            _ => 20,
        };
        Self {
            min,
            max: 40,
            denominator: denominator_default(),
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
