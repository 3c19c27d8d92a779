//! `[port.hbh]` of a node file: how links are made reliable.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::units::{Octets, Share, Time};
use strait_link::SegmentCheck;
use strait_link::hbh::{Reliability, Settings};
use strait_qos::Policy;
use strait_wire::hbh::OVERHEAD_OCTETS_MAX;
use strait_wire::ip::protocol;

use crate::config::{
    Compression, InvalidConfig, LinkProfile, NodeConfig, PayloadCompression, PortConfig, PortKind,
};

/// How the links of a port are made reliable.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HopConfig {
    /// Packets that may be unacknowledged, 1 to 96.
    pub window: u16,
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
    /// By class: how much is done for its packets. Everything until they are too old, for classes
    /// that aren't named.
    pub reliability: Vec<ReliabilityConfig>,
}

impl Default for HopConfig {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            window: settings.window,
            ack_every: settings.ack_every,
            ack_delay: Time(settings.ack_delay_max),
            order_hold: Time(settings.order_hold),
            in_order: alloc::vec![protocol::TCP],
            stop: Octets(12_000),
            reliability: Vec::new(),
        }
    }
}

/// How much is done for the packets of a class: either key, not both.
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
}

impl HopConfig {
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            window: self.window,
            ack_every: self.ack_every,
            ack_delay_max: self.ack_delay.0,
            order_hold: self.order_hold.0,
            ..Settings::default()
        }
    }

    pub(crate) fn keeps_order(&self, protocol: u8) -> bool {
        self.in_order.contains(&protocol)
    }

    /// Octets behind which neighbours are told to stop, and behind which nothing is taken.
    pub(crate) const fn stop_octets(&self) -> (u64, u64) {
        (self.stop.0, self.stop.0 * 4)
    }

    pub(crate) fn reliability(&self, class: &str) -> Reliability {
        let named = self.reliability.iter().find(|entry| entry.class == class);
        named.map_or(Reliability::Full, |entry| {
            match (entry.retries, entry.delivery) {
                (Some(retries), _) => Reliability::Retries(retries),
                (None, Some(share)) => Reliability::Left {
                    ppm: ((1.0 - share.0) * 1e6) as u32,
                },
                (None, None) => Reliability::Full,
            }
        })
    }

    fn fault(&self) -> Option<(&'static str, &'static str)> {
        if !(1..=Settings::WINDOW_MAX).contains(&self.window) {
            return Some(("window", "must be 1 to 96 packets"));
        }
        if self.ack_every == 0 {
            return Some(("ack_every", "must be at least 1"));
        }
        if self.stop.0 < 1000 {
            return Some(("stop", "must be at least 1000 octets"));
        }
        let both = |entry: &ReliabilityConfig| entry.retries.is_some() == entry.delivery.is_some();
        if self.reliability.iter().any(both) {
            return Some((
                "reliability",
                "needs either `retries` or `delivery` for each class",
            ));
        }
        None
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
    /// Whether every class that a port names is one of the policy's.
    pub(crate) fn check_classes(&self, policy: &Policy) -> Result<(), InvalidConfig> {
        let known = |class: &str| policy.classes().iter().any(|it| it.name == class);
        for port in &self.ports {
            let reliability = port.hbh.iter().flat_map(|config| &config.reliability);
            let reliability = reliability.map(|entry| ("hbh.reliability", &entry.class));
            let without_arq = port.hf.iter().flat_map(|config| &config.without_arq);
            let mut named = reliability.chain(without_arq.map(|class| ("hf.without_arq", class)));
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

    /// The check of each frame. The media that have frames check them as well.
    pub(crate) const fn hop_check(&self) -> SegmentCheck {
        match self.check {
            Some(32) => SegmentCheck::Long,
            _ => SegmentCheck::Short,
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
        if self.kind == PortKind::Serial {
            return invalid(
                "profile",
                "hbh needs frames: kind = \"udp\", \"ip\" or \"kiss\"",
            );
        }
        if self.compression != Compression::None {
            return invalid(
                "compression",
                "isn't there yet with profile = \"hbh\": remove it",
            );
        }
        if self.payload != PayloadCompression::None {
            return invalid(
                "payload",
                "isn't there yet with profile = \"hbh\": remove it",
            );
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
