//! `[olsr]` of a node file.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use strait_core::PortId;
use strait_core::units::Time;
use strait_olsr::Settings;

use super::{InvalidConfig, NodeConfig, PortConfig, invalid};
use crate::Prefix;
use crate::route::is_of_the_link;

/// What makes a route the better one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OlsrMetric {
    /// The fewest hops.
    #[default]
    Hops,
    /// The fewest transmissions that its links take to be expected.
    Etx,
}

/// A router of a mobile network: gateways find neighbours and routes by themselves (RFC 3626).
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct OlsrConfig {
    /// The ports by which it finds neighbours; all link ports that carry packets if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
    /// Networks behind this gateway that it tells others of, beside its own addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Prefix>,
    /// How much it wants to pass on for others: 0 never, 7 always.
    #[serde(default = "OlsrConfig::default_willingness")]
    pub willingness: u8,
    /// Time between hellos. A neighbour is lost after three times as long without one.
    #[serde(default = "OlsrConfig::default_hello")]
    pub hello: Time,
    /// Time between messages to the whole network.
    #[serde(default = "OlsrConfig::default_tc")]
    pub tc: Time,
    /// A link has to prove itself before it is used: after some hellos in a row, until some in a
    /// row are lost.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub hysteresis: bool,
    /// On a radio that several share, relays get a copy of what is for all, or all neighbours where
    /// there are few: media repeat frames for one station until it has them.
    #[serde(default = "super::yes")]
    pub copies: bool,
    /// A neighbour that the medium can't deliver to is lost at once.
    #[serde(default = "super::yes")]
    pub notice: bool,
    /// What makes a route the better one.
    #[serde(default)]
    pub metric: OlsrMetric,
}

impl OlsrConfig {
    /// Octets of a packet's payload, and around it: headers of IPv6, UDP and a segment.
    const OCTETS_MAX: usize = 1200;
    const AROUND: usize = 56;
    const NETWORKS_MAX: usize = 64;
    const HELLO_MIN: Duration = Duration::from_millis(100);
    /// What a message can still say.
    const TC_MAX: Duration = Duration::from_secs(600);

    const fn default_willingness() -> u8 {
        3
    }

    const fn default_hello() -> Time {
        Time(Duration::from_secs(2))
    }

    const fn default_tc() -> Time {
        Time(Duration::from_secs(5))
    }

    pub(super) fn validate(&self, config: &NodeConfig) -> Result<(), InvalidConfig> {
        let place = |key: &str| format!("[olsr] {key}");
        for name in &self.ports {
            let port = config.ports.iter().find(|port| port.name == *name);
            if !port.is_some_and(PortConfig::carries_packets) {
                let message = format!("`{name}` is no link port here that carries packets");
                return Err(invalid(place("ports"), message));
            }
        }
        if self.port_ids(config).is_empty() {
            let message = "needs a [[port]] that carries packets, to find neighbours by";
            return Err(invalid("[olsr]", message));
        }
        if Self::mains(config).is_empty() {
            let message = "needs an address in [host] `addresses`, to identify this gateway";
            return Err(invalid("[olsr]", message));
        }
        if self.willingness > 7 {
            return Err(invalid(place("willingness"), "is 0 (never) to 7 (always)"));
        }
        if self.hello.0 < Self::HELLO_MIN || self.hello.0 > self.tc.0 {
            let message = "is at least 100 ms, and no longer than `tc`";
            return Err(invalid(place("hello"), message));
        }
        if self.tc.0 > Self::TC_MAX {
            return Err(invalid(place("tc"), "is 10 min at most"));
        }
        if self.networks.len() > Self::NETWORKS_MAX {
            let message = format!("takes up to {} prefixes", Self::NETWORKS_MAX);
            return Err(invalid(place("networks"), message));
        }
        Ok(())
    }

    fn port_ids(&self, config: &NodeConfig) -> Vec<PortId> {
        let named = |port: &PortConfig| self.ports.is_empty() || self.ports.contains(&port.name);
        let ports = (1..).map(PortId).zip(&config.ports);
        let ports = ports.filter(|(_, port)| named(port) && port.carries_packets());
        ports.map(|(id, _)| id).collect()
    }

    /// The addresses by which others know the gateway: the first of each family.
    fn mains(config: &NodeConfig) -> Vec<core::net::IpAddr> {
        let own = config.host.addresses.iter().map(|own| own.address);
        let own = own.filter(|own| !is_of_the_link(*own));
        let first = |v4: bool| own.clone().find(|own| own.is_ipv4() == v4);
        [first(true), first(false)].into_iter().flatten().collect()
    }

    /// A router for each family.
    pub(crate) fn routers(&self, config: &NodeConfig) -> Vec<Settings> {
        let mains = Self::mains(config).into_iter();
        let of_family = |v4: bool| {
            let all = self.networks.iter().map(|it| it.network());
            all.filter(|it| it.address.is_ipv4() == v4).collect()
        };
        let ports = self.port_ids(config).into_iter();
        let frame = |port: PortId| {
            let port = &config.ports[port.index() - 1];
            let longest = port.mtu_octets().min(port.frame_octets_max());
            longest.saturating_sub(Self::AROUND)
        };
        let octets_max = ports.map(frame).min();
        let settings = mains.map(|main| Settings {
            main,
            ports: self.port_ids(config),
            octets_max: octets_max.unwrap_or(Self::OCTETS_MAX).min(Self::OCTETS_MAX),
            networks: of_family(main.is_ipv4()),
            willingness: self.willingness,
            hello: self.hello.0,
            tc: self.tc.0,
            hysteresis: self.hysteresis,
            // A copy that a medium repeats tells nothing of what it loses.
            copies: self.copies && self.metric == OlsrMetric::Hops,
            notice: self.notice,
            etx: self.metric == OlsrMetric::Etx,
        });
        settings.collect()
    }
}
