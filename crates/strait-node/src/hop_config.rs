//! `[port.hbh]` of a node file: how links are made reliable.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::units::{BitRate, Octets, Share, Time};
use strait_link::SegmentCheck;
use strait_link::hbh::{AnySettings, Reliability, Settings, paper};
use strait_qos::Policy;
use strait_wire::hbh::OVERHEAD_OCTETS_MAX;
use strait_wire::ip::{PacketInfo, TcpFlags, protocol};

use crate::config::{
    Compression, InvalidConfig, LinkProfile, NodeConfig, PayloadCompression, Plug, PortConfig,
};

/// How the links of a port are made reliable.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HopConfig {
    /// How frames look and what is done by them. Both ends need the same.
    pub format: HopFormat,
    /// The published format's own keys. Of the others, `reliability` is for it as well.
    pub paper: Option<PaperConfig>,
    /// Packets that may be unacknowledged, 1 to 2048; without it, by rate and round trip.
    pub window: Option<u16>,
    /// Packets after which an acknowledgement doesn't wait any longer for one that takes it along.
    pub ack_every: u16,
    /// How long one waits at most. Both ends need the same.
    pub ack_delay: Time,
    /// How long a packet is held at most for an earlier one of its flow.
    pub order_hold: Time,
    /// Protocols whose flows are kept in order, by number: TCP, also without the key.
    pub in_order: Vec<u8>,
    /// What may wait of a class for its next link before neighbours are told to stop. Three
    /// quarters of the class's limits, or four times this, are never exceeded.
    pub stop: Octets,
    /// How long a stop holds: then one packet goes all the same, and it holds again.
    pub stop_hold: Time,
    /// By class: how much is done for its packets. Everything until they are too old, for classes
    /// that aren't named.
    pub reliability: Vec<ReliabilityConfig>,
}

/// A format of frames that make links reliable.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum HopFormat {
    /// Ours.
    #[default]
    Strait,
    /// The published one.
    Paper,
}

/// `hbh.paper` of a port: the published format, with the paper's letters.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct PaperConfig {
    /// W: packets of a flow that may be unacknowledged, 1 to 64.
    pub window: u16,
    /// What W grows to and shrinks from by AIMD; without it, W is fixed.
    pub window_max: Option<u16>,
    /// R: how often a packet is sent again at most, where its class has no `reliability`.
    pub retries: u8,
    /// R is for the whole path and carried along, not for each link.
    pub along_path: bool,
    /// A repetition and a packet behind which none waits ask for an acknowledgement; without it,
    /// one in W transmissions does.
    pub asks_early: bool,
    /// A fixed RTO; without it, by the round trips measured.
    pub timeout: Option<Time>,
    /// s: packets of a class that wait for their next link before neighbours are told so.
    pub notify: u32,
    /// L: packets that wait before no more are taken.
    pub limit: u32,
    /// p: what a rate grows by in each round trip.
    pub increase: BitRate,
    /// q: the share of it that a sign of congestion leaves.
    pub decrease: Share,
}

impl Default for PaperConfig {
    fn default() -> Self {
        let settings = paper::Settings::default();
        Self {
            window: settings.window,
            window_max: None,
            retries: settings.retries,
            along_path: settings.along_path,
            asks_early: settings.asks_early,
            timeout: settings.timeout.map(Time),
            notify: 20,
            limit: 50,
            increase: BitRate(settings.pacing.increase_bit_s),
            decrease: Share(f64::from(settings.pacing.decrease_permille) / 1000.0),
        }
    }
}

impl PaperConfig {
    fn settings(&self) -> paper::Settings {
        paper::Settings {
            window: self.window,
            window_max: self.window_max.unwrap_or(self.window),
            retries: self.retries,
            along_path: self.along_path,
            asks_early: self.asks_early,
            timeout: self.timeout.map(|timeout| timeout.0),
            pacing: paper::Pacing {
                increase_bit_s: self.increase.0,
                decrease_permille: (self.decrease.0 * 1000.0) as u16,
            },
        }
    }

    fn fault(&self) -> Option<(&'static str, &'static str)> {
        let windows = 1..=paper::Settings::WINDOW_MAX;
        if !windows.contains(&self.window) {
            return Some(("paper.window", "must be 1 to 64 packets"));
        }
        if let Some(most) = self.window_max
            && !(self.window..=paper::Settings::WINDOW_MAX).contains(&most)
        {
            return Some(("paper.window_max", "must be `window` to 64 packets"));
        }
        if self.timeout.is_some_and(|timeout| timeout.0.is_zero()) {
            return Some(("paper.timeout", "must be above 0 s"));
        }
        if !(1..=self.limit).contains(&self.notify) {
            return Some(("paper.notify", "must be 1 to `limit` packets"));
        }
        if self.increase.0 == 0 {
            return Some(("paper.increase", "must be above 0 bit/s"));
        }
        None
    }
}

impl Default for HopConfig {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            format: HopFormat::Strait,
            paper: None,
            window: settings.window,
            ack_every: settings.ack_every,
            ack_delay: Time(settings.ack_delay_max),
            order_hold: Time(settings.order_hold),
            stop_hold: Time(settings.stop_hold),
            in_order: alloc::vec![protocol::TCP],
            stop: Octets(12_000),
            reliability: Vec::new(),
        }
    }
}

/// How much is done for the packets of a class: `retries` or `delivery`, `parity`, or both.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ReliabilityConfig {
    /// The class.
    pub class: String,
    /// Sent again so many times at most.
    #[serde(default)]
    pub retries: Option<u16>,
    /// Sent again as often as it takes, at the losses measured, for this share to arrive.
    #[serde(default)]
    pub delivery: Option<Share>,
    /// So many packets, 1 to 16, are followed by one frame by which any of them can be made again.
    #[serde(default)]
    pub parity: Option<u16>,
}

/// How much of a class may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Octets, or a share of the class's limits if that is less.
    Octets(u64),
    /// Packets.
    Packets(u32),
}

/// How much of a class may wait before something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Depths {
    /// Its neighbours are told to stop.
    pub(crate) stop: Depth,
    /// Where there is no more room for all, nothing more of it is taken.
    pub(crate) least: Depth,
    /// Nothing more of it is taken in any case.
    pub(crate) most: Depth,
}

impl Depths {
    pub(crate) const UNLIMITED: Self = Self {
        stop: Depth::Octets(u64::MAX),
        least: Depth::Octets(u64::MAX),
        most: Depth::Octets(u64::MAX),
    };
}

impl HopConfig {
    /// How its links are made reliable, with this check of frames if that is to be chosen.
    pub(crate) fn settings(&self, check: SegmentCheck) -> AnySettings {
        if self.format == HopFormat::Paper {
            return AnySettings::Paper(self.paper.clone().unwrap_or_default().settings());
        }
        AnySettings::Strait(Settings {
            check,
            window: self.window,
            ack_every: self.ack_every,
            ack_delay_max: self.ack_delay.0,
            order_hold: self.order_hold.0,
            stop_hold: self.stop_hold.0,
        })
    }

    /// Whether a packet's flow matters: always, or if it is kept in order. Bare acknowledgements of
    /// TCP aren't: each says all that those before it say, and one that is lost would hold up
    /// every later one for a round trip.
    pub(crate) fn tells_apart(&self, info: &PacketInfo) -> bool {
        let bare = info.tcp_bare == Some(TcpFlags::ACK);
        self.format == HopFormat::Paper || (self.in_order.contains(&info.protocol) && !bare)
    }

    /// What may wait before neighbours are told to stop, and before nothing is taken; `needed` for
    /// the former on a line where less leaves it idle.
    pub(crate) fn stop_depths(&self, needed: u64) -> Depths {
        if self.format == HopFormat::Paper {
            let paper = self.paper.clone().unwrap_or_default();
            let notify = Depth::Packets(paper.notify);
            return Depths {
                stop: notify,
                least: notify,
                most: Depth::Packets(paper.limit),
            };
        }
        let stop = self.stop.0.max(needed);
        Depths {
            stop: Depth::Octets(stop),
            least: Depth::Octets(self.stop.0),
            most: Depth::Octets(stop.saturating_mul(4)),
        }
    }

    /// Which key is given that the format has no use for.
    fn idle_key(&self) -> Option<&'static str> {
        if self.format == HopFormat::Strait {
            return self.paper.is_some().then_some("paper");
        }
        let usual = Self::default();
        let keys = [
            ("window", self.window != usual.window),
            ("ack_every", self.ack_every != usual.ack_every),
            ("ack_delay", self.ack_delay != usual.ack_delay),
            ("order_hold", self.order_hold != usual.order_hold),
            ("stop_hold", self.stop_hold != usual.stop_hold),
            ("in_order", self.in_order != usual.in_order),
            ("stop", self.stop != usual.stop),
        ];
        keys.into_iter()
            .find(|(_, given)| *given)
            .map(|(key, _)| key)
    }

    /// What is done for a class, and how many of its packets a parity frame tells of, if any do.
    pub(crate) fn reliability(&self, class: &str) -> (Reliability, u16) {
        let named = self.reliability.iter().find(|entry| entry.class == class);
        named.map_or_else(Default::default, |entry| {
            let reliability = match (entry.retries, entry.delivery) {
                (Some(retries), _) => Reliability::Retries(retries),
                (None, Some(share)) => Reliability::Left {
                    ppm: ((1.0 - share.0) * 1e6) as u32,
                },
                (None, None) => Reliability::Full,
            };
            (reliability, entry.parity.unwrap_or(0))
        })
    }

    fn fault(&self) -> Option<(&'static str, &'static str)> {
        if let Some(key) = self.idle_key() {
            let why = if self.format == HopFormat::Paper {
                "is for format = \"strait\": remove it, or see `paper`"
            } else {
                "is for format = \"paper\": remove it, or set that"
            };
            return Some((key, why));
        }
        if let Some(fault) = self.paper.as_ref().and_then(PaperConfig::fault) {
            return Some(fault);
        }
        let window = self.window.unwrap_or(Settings::WINDOW_MIN);
        if !(1..=Settings::WINDOW_MAX).contains(&window) {
            return Some(("window", "must be 1 to 2048 packets"));
        }
        if self.ack_every == 0 {
            return Some(("ack_every", "must be at least 1"));
        }
        if self.stop.0 < 1000 {
            return Some(("stop", "must be at least 1000 octets"));
        }
        self.reliability.iter().find_map(|entry| {
            let parity = entry.parity;
            let fault = if entry.retries.is_some() && entry.delivery.is_some() {
                "has either `retries` or `delivery` for a class, not both"
            } else if entry.retries.or(parity).is_none() && entry.delivery.is_none() {
                "needs `retries`, `delivery` or `parity` for each class"
            } else if parity.is_some_and(|most| !(1..=16).contains(&most)) {
                "parity must be 1 to 16 packets"
            } else if parity.is_some() && self.format == HopFormat::Paper {
                "parity is for format = \"strait\": remove it"
            } else {
                return None;
            };
            Some(("reliability", fault))
        })
    }
}

impl NodeConfig {
    /// Whether any port's links are made reliable.
    pub fn has_hops(&self) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| port.profile == LinkProfile::Hbh)
    }
}

impl NodeConfig {
    /// Whether every class that a port, or the proxy, names is one of the policy's.
    pub(crate) fn check_classes(&self, policy: &Policy) -> Result<(), InvalidConfig> {
        let known = |class: &str| policy.classes().iter().any(|it| it.name == class);
        let mut clients = self.proxy().into_iter().flat_map(|it| &it.classes);
        if let Some(own) = clients.find(|it| !known(&it.class)) {
            let known: Vec<&str> = policy.classes().iter().map(|it| &it.name[..]).collect();
            return Err(InvalidConfig {
                place: format!("[[proxy.class]] {}", own.class),
                message: format!("the policy has no such class: it has {}", known.join(", ")),
            });
        }
        for port in &self.ports {
            let reliability = port.hbh.iter().flat_map(|config| &config.reliability);
            let reliability = reliability.map(|entry| ("hbh.reliability", &entry.class));
            let without_arq = port.hf().into_iter().flat_map(|config| &config.without_arq);
            let clients = port
                .client()
                .into_iter()
                .flat_map(|config| &config.without_arq);
            let clients = clients.map(|class| ("client.without_arq", class));
            let stations = without_arq.map(|class| ("hf.without_arq", class));
            let mut named = reliability.chain(stations).chain(clients);
            if let Some((key, class)) = named.find(|(_, class)| !known(class)) {
                return Err(InvalidConfig {
                    place: format!("[[port]] {} {key}", port.name),
                    message: format!("the policy has no class `{class}`"),
                });
            }
        }
        Ok(())
    }
}

impl PortConfig {
    /// A frame that takes the largest packet.
    pub(crate) fn hop_frame(&self) -> usize {
        self.mtu.0 as usize + OVERHEAD_OCTETS_MAX
    }

    /// The check of each frame. The media that have frames check them as well; but of 16 bits, one
    /// of 65,536 frames is right that somebody only guesses.
    pub(crate) fn hop_check(&self) -> SegmentCheck {
        match self.check {
            Some(16) => SegmentCheck::Short,
            _ => SegmentCheck::Long,
        }
    }

    pub(crate) fn validate_hops(&self) -> Result<(), InvalidConfig> {
        let invalid = |key: &str, message: &str| {
            Err(InvalidConfig {
                place: format!("[[port]] {} {key}", self.name),
                message: message.into(),
            })
        };
        if self.profile != LinkProfile::Hbh {
            return match self.hbh {
                Some(_) => invalid("hbh", "is for profile = \"hbh\": remove it"),
                None => Ok(()),
            };
        }
        if self.kind.plug() != Plug::Frames {
            return invalid(
                "profile",
                "hbh needs frames: kind = \"udp\", \"ip\" or \"kiss\"",
            );
        }
        if self.compression != Compression::None {
            return invalid(
                "compression",
                "isn't supported with profile = \"hbh\": remove it",
            );
        }
        if self.payload != PayloadCompression::None {
            return invalid(
                "payload",
                "isn't supported with profile = \"hbh\": remove it",
            );
        }
        let paper = |hbh: &HopConfig| hbh.format == HopFormat::Paper;
        if self.check == Some(32) && self.hbh.as_ref().is_some_and(paper) {
            return invalid("check", "is 16 in the published format: remove it");
        }
        let frame = self.frame_octets_max();
        if frame < 1280 + OVERHEAD_OCTETS_MAX {
            return invalid(
                "frame",
                "must be at least 1314 octets: hbh doesn't cut packets",
            );
        }
        match self.hbh.as_ref().and_then(HopConfig::fault) {
            Some((key, message)) => invalid(&format!("hbh.{key}"), message),
            None => Ok(()),
        }
    }
}
