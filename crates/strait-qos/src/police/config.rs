//! `police = { … }` of a class: the packets that may enter.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::units::{BitRate, Octets};

use crate::dscp::Dscp;
use crate::matching::List;
use crate::text::{TextError, text_value};

/// A policer. Octets are those of the IP packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum PoliceConfig {
    /// A token bucket, as the Linux kernel's `act_police`: green or red.
    #[serde(rename = "bucket")]
    Bucket(BucketConfig),
    /// The single rate three colour marker of RFC 2697.
    #[serde(rename = "srtcm")]
    SrTcm(SrTcmConfig),
    /// The two rate three colour marker of RFC 2698.
    #[serde(rename = "trtcm")]
    TrTcm(TrTcmConfig),
}

/// The treatment of packets of a colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// They pass as they are.
    Pass,
    /// They are dropped.
    Drop,
    /// They pass with this code point.
    Mark(Dscp),
    /// They go in this class instead, with its `mark` if it has one.
    Class(String),
}

const ACTION: &str = "\"pass\", \"drop\", a code point like \"AF12\" or \"class NAME\"";

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Drop => f.write_str("drop"),
            Self::Mark(dscp) => dscp.fmt(f),
            Self::Class(name) => write!(f, "class {name}"),
        }
    }
}

impl FromStr for Action {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        if let Some(name) = text.strip_prefix("class ") {
            return Ok(Self::Class(name.trim().into()));
        }
        match text {
            "pass" => Ok(Self::Pass),
            "drop" => Ok(Self::Drop),
            _ => {
                let mark = text.parse().map(Self::Mark);
                mark.map_err(|_| TextError::new(text, "action", ACTION))
            }
        }
    }
}

text_value!(
    Action,
    "\"pass\", \"drop\", a code point like \"AF12\" or \"class NAME\""
);

/// When a policer acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// On each packet.
    #[default]
    Always,
    /// Only on those that would have to wait at their port, as a low-latency queue of IOS polices
    /// its strict class: on an idle line it may have all.
    Congested,
}

const fn pass() -> Action {
    Action::Pass
}

const fn drop() -> Action {
    Action::Drop
}

/// Keys of `kind = "bucket"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketConfig {
    /// The rate in the long run.
    pub rate: BitRate,
    /// The octets at once. If left out, 200 ms of the rate, like the burst of an IOS priority
    /// class, but at least 1600 B, like that of a Linux class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Octets>,
    /// A second rate that must hold as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_rate: Option<BitRate>,
    /// The octets at once at the second rate; 1600 B if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_burst: Option<Octets>,
    /// The treatment of packets within the rate.
    #[serde(default = "pass")]
    pub green: Action,
    /// The treatment of the others.
    #[serde(default = "drop")]
    pub red: Action,
    /// Whether it always acts.
    #[serde(default)]
    pub when: When,
}

/// The default burst of a class of Linux 6.1 (`sch_htb`).
const BURST_OCTETS_MIN: u64 = 1600;
/// The default burst of a priority class of IOS, as time.
const BURST_TIME: Duration = Duration::from_millis(200);

impl BucketConfig {
    /// The octets at once.
    #[must_use]
    pub fn burst_or_default(&self) -> Octets {
        self.burst.unwrap_or_else(|| {
            Octets(super::octets_in(self.rate, BURST_TIME).max(BURST_OCTETS_MIN))
        })
    }

    /// The octets at once at the second rate.
    #[must_use]
    pub fn peak_burst_or_default(&self) -> Octets {
        self.peak_burst.unwrap_or(Octets(BURST_OCTETS_MIN))
    }
}

/// Keys of `kind = "srtcm"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SrTcmConfig {
    /// Committed information rate.
    pub rate: BitRate,
    /// Committed burst size: green.
    pub burst: Octets,
    /// Excess burst size: yellow. Filled only while the committed burst is full.
    pub excess_burst: Octets,
    /// Whether a packet keeps at least its colour on arrival.
    #[serde(default)]
    pub aware: bool,
    /// Code points that arrive yellow; AFx2 if left out.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub yellow_before: List<Dscp>,
    /// Code points that arrive red; AFx3 if left out.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub red_before: List<Dscp>,
    /// The treatment of green packets.
    #[serde(default = "pass")]
    pub green: Action,
    /// The treatment of yellow packets.
    #[serde(default = "pass")]
    pub yellow: Action,
    /// The treatment of red packets.
    #[serde(default = "drop")]
    pub red: Action,
    /// Whether it always acts.
    #[serde(default)]
    pub when: When,
}

/// Keys of `kind = "trtcm"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrTcmConfig {
    /// Committed information rate.
    pub rate: BitRate,
    /// Committed burst size: green.
    pub burst: Octets,
    /// Peak information rate, at least the committed one.
    pub peak_rate: BitRate,
    /// Peak burst size: packets beyond it are red.
    pub peak_burst: Octets,
    /// As for `srtcm`.
    #[serde(default)]
    pub aware: bool,
    /// As for `srtcm`.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub yellow_before: List<Dscp>,
    /// As for `srtcm`.
    #[serde(default, skip_serializing_if = "List::is_empty")]
    pub red_before: List<Dscp>,
    /// The treatment of green packets.
    #[serde(default = "pass")]
    pub green: Action,
    /// The treatment of yellow packets.
    #[serde(default = "pass")]
    pub yellow: Action,
    /// The treatment of red packets.
    #[serde(default = "drop")]
    pub red: Action,
    /// Whether it always acts.
    #[serde(default)]
    pub when: When,
}

impl PoliceConfig {
    /// By colour.
    pub(crate) const fn actions(&self) -> [&Action; 3] {
        match self {
            Self::Bucket(config) => [&config.green, &Action::Pass, &config.red],
            Self::SrTcm(config) => [&config.green, &config.yellow, &config.red],
            Self::TrTcm(config) => [&config.green, &config.yellow, &config.red],
        }
    }

    /// The classes that packets of some colour go in instead.
    pub(crate) fn others(&self) -> impl Iterator<Item = &str> {
        self.actions()
            .into_iter()
            .filter_map(|action| match action {
                Action::Class(name) => Some(name.as_str()),
                _ => None,
            })
    }

    pub(crate) const fn when(&self) -> When {
        match self {
            Self::Bucket(config) => config.when,
            Self::SrTcm(config) => config.when,
            Self::TrTcm(config) => config.when,
        }
    }

    /// The most that passes in its class: bit/s in the long run, and octets at once. None if
    /// everything does.
    pub(crate) fn most(&self) -> Option<(u64, u64)> {
        let [_, yellow, red] = self.actions();
        let leaves = |action: &Action| matches!(action, Action::Drop | Action::Class(_));
        if !leaves(red) {
            return None;
        }
        Some(match self {
            Self::Bucket(config) => (config.rate.0, config.burst_or_default().0),
            Self::SrTcm(config) if leaves(yellow) => (config.rate.0, config.burst.0),
            Self::SrTcm(config) => (
                config.rate.0,
                config.burst.0.saturating_add(config.excess_burst.0),
            ),
            Self::TrTcm(config) if leaves(yellow) => (config.rate.0, config.burst.0),
            Self::TrTcm(config) => (config.peak_rate.0, config.peak_burst.0),
        })
    }

    /// Code points that arrive yellow and red, if that counts.
    pub(crate) fn colours_before(&self) -> Option<[Vec<Dscp>; 2]> {
        let (aware, yellow, red) = match self {
            Self::Bucket(_) => return None,
            Self::SrTcm(config) => (config.aware, &config.yellow_before, &config.red_before),
            Self::TrTcm(config) => (config.aware, &config.yellow_before, &config.red_before),
        };
        let or_assured = |list: &List<Dscp>, precedence| {
            if list.is_empty() {
                (1..=4).map(|class| Dscp::af(class, precedence)).collect()
            } else {
                list.0.clone()
            }
        };
        aware.then(|| [or_assured(yellow, 2), or_assured(red, 3)])
    }

    /// The first key with an impossible value, and a valid one.
    pub(crate) fn fault(&self) -> Option<(&'static str, &'static str)> {
        const ZERO: Octets = Octets(0);
        match self {
            Self::Bucket(config) if config.burst == Some(ZERO) => {
                Some(("burst", "above zero: at least the longest packet"))
            }
            Self::Bucket(config) if config.peak_burst == Some(ZERO) => {
                Some(("peak_burst", "above zero: at least the longest packet"))
            }
            Self::Bucket(config) if config.peak_burst.is_some() && config.peak_rate.is_none() => {
                Some(("peak_burst", "left out, or `peak_rate` given"))
            }
            // RFC 2697 section 2.
            Self::SrTcm(config) if config.burst == ZERO && config.excess_burst == ZERO => {
                Some(("burst", "above zero, or `excess_burst`"))
            }
            // RFC 2698 section 2.
            Self::TrTcm(config) if config.peak_rate < config.rate => {
                Some(("peak_rate", "at least `rate`"))
            }
            Self::TrTcm(config) if config.burst == ZERO || config.peak_burst == ZERO => {
                Some(("burst", "above zero, and `peak_burst`"))
            }
            _ => None,
        }
    }
}
