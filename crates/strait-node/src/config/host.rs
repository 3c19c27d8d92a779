//! `[host]` of a node file, or one of several.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};
use strait_core::host_routes::HOST_ROUTES_MAX;
use strait_core::prefix::Prefix;
use strait_core::units::{Octets, Time};
use strait_wire::ethernet::{self, Mac};
use strait_wire::hash::hash64;

use super::host_sides::check_name;
use super::names::check_interface;
use super::{InvalidConfig, RouteConfig, check_mtu, default_mtu, invalid};

/// The host side: where applications are.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// What routes and scenarios call it; the first is `host` if absent, further ones need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What hosts reach it by.
    #[serde(default)]
    pub kind: HostKind,
    /// Name of the interface to make. Live only.
    #[serde(default = "HostConfig::default_interface")]
    pub interface: String,
    /// Addresses with prefix lengths; the first of each family is the source of the node's own ICMP
    /// errors. TUN: set on the interface. TAP: the gateway's own on the Ethernet, and which of its
    /// addresses are on it.
    #[serde(default)]
    pub addresses: Vec<Prefix>,
    /// TUN: prefixes that the host reaches by this gateway, in its routing table.
    #[serde(default)]
    pub routes: Vec<Prefix>,
    /// Of several ways to one prefix the host takes that with the least; without the key, this is
    /// the kernel's own choice: 0 of IPv4, 1024 of IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<u32>,
    /// A prefix to which no way has led for so long is withdrawn from the host, which then has
    /// another way or none. Without the key, packets wait here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdraw_after: Option<Time>,
    /// How long a way has to be there again before the host is led to such a prefix; as long as
    /// `withdraw_after` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_after: Option<Time>,
    /// Networks at the host's other interfaces: nobody beyond a link speaks in their names. They
    /// say nothing of where packets go. A live gateway adds those of the kernel's table to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<Prefix>,
    /// The largest packet on the interface, in octets (1280 … 65535).
    #[serde(default = "default_mtu")]
    pub mtu: Octets,
    /// TAP: the bridge that the interface becomes a port of. Live only.
    #[serde(default)]
    pub bridge: Option<String>,
    /// TAP: the gateway's station; made from the node's name if absent.
    #[serde(default)]
    pub mac: Option<MacAddress>,
    /// TAP: IPv6 prefixes that router advertisements tell; without one there are none.
    #[serde(default)]
    pub advertise: Vec<Prefix>,
}

/// What hosts reach a gateway by.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// The kernel's routing: IP packets as they are.
    #[default]
    Tun,
    /// An Ethernet on which the gateway is a station of its own.
    Tap,
}

/// The address of a station, as `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(try_from = "String", into = "String")]
pub struct MacAddress(pub Mac);

impl TryFrom<String> for MacAddress {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        word.parse().map(Self)
    }
}

impl From<MacAddress> for String {
    fn from(address: MacAddress) -> Self {
        address.0.to_string()
    }
}

impl HostConfig {
    /// Prefixes that one router advertisement tells: they fit a packet of 1280 octets.
    pub const ADVERTISED_MAX: usize = 16;
    /// Networks that a host may have: they are gone through for each packet that comes by a link.
    pub const NETWORKS_MAX: usize = 256;

    fn default_interface() -> String {
        "strait0".to_string()
    }

    /// The station of a TAP: configured, or made from the node's name, so that it is the same after
    /// a restart and hosts needn't learn another.
    pub fn station(&self, name: &str) -> Mac {
        let made = || {
            let [.., a, b, c, d, e] = hash64(0, name.as_bytes()).to_be_bytes();
            // Given by nobody, to one station (IEEE 802-2014 section 8.2).
            Mac([0x02, a, b, c, d, e])
        };
        self.mac.map_or_else(made, |mac| mac.0)
    }

    /// The longest frame of a TAP in octets.
    pub const fn frame_octets_max(&self) -> usize {
        self.mtu.0 as usize + ethernet::HEADER_OCTETS
    }

    /// The prefixes to advertise.
    pub fn advertised(&self) -> Vec<(Ipv6Addr, u8)> {
        let v6 = |prefix: &Prefix| match prefix.address {
            IpAddr::V6(address) => Some((address, prefix.length)),
            IpAddr::V4(_) => None,
        };
        self.advertise.iter().filter_map(v6).collect()
    }

    /// Checks `via` of a route to the host side.
    pub(super) fn validate_router(
        &self,
        route: &RouteConfig,
        place: &str,
    ) -> Result<(), InvalidConfig> {
        let Some(via) = &route.via else {
            return Ok(());
        };
        let router: Option<IpAddr> = via.parse().ok();
        let fits = |router: IpAddr| router.is_ipv4() == route.prefix.address.is_ipv4();
        if self.kind == HostKind::Tap && router.is_some_and(fits) {
            return Ok(());
        }
        let message = "`via` of the host side takes the address of a router on a TAP's Ethernet";
        Err(invalid(place, message))
    }

    /// Checks it by itself; errors name it as `table`.
    pub(super) fn validate(&self, table: &str) -> Result<(), InvalidConfig> {
        let place = |key: &str| format!("{table} {key}");
        if let Some(name) = &self.name {
            check_name(place("name"), name)?;
        }
        check_mtu(table, self.mtu)?;
        if self.kind == HostKind::Tap && self.frame_octets_max() > 65_535 {
            return Err(invalid(
                place("mtu"),
                "must be 1280 to 65521 octets on a TAP",
            ));
        }
        check_interface(place("interface"), &self.interface)?;
        if let Some(bridge) = &self.bridge {
            check_interface(place("bridge"), bridge)?;
        }
        let tap = self.kind == HostKind::Tap;
        for (key, present, of_tap) in [
            ("routes", !self.routes.is_empty(), false),
            ("metric", self.metric.is_some(), false),
            ("withdraw_after", self.withdraw_after.is_some(), false),
            ("restore_after", self.restore_after.is_some(), false),
            ("bridge", self.bridge.is_some(), true),
            ("mac", self.mac.is_some(), true),
            ("advertise", !self.advertise.is_empty(), true),
        ] {
            if present && of_tap != tap {
                let kind = if of_tap { "tap" } else { "tun" };
                let message = format!("is for kind = \"{kind}\": remove it, or set the kind");
                return Err(invalid(place(key), message));
            }
        }
        self.validate_led(place)?;
        let unfit = |mac: &MacAddress| mac.0.is_group() || mac.0.0 == [0; 6];
        if self.mac.as_ref().is_some_and(unfit) {
            let message = "is no single station's: the first octet must be even, such as 02";
            return Err(invalid(place("mac"), message));
        }
        let whole = |prefix: &Prefix| {
            let address = prefix.address;
            address.is_ipv6() && !address.is_multicast() && !address.is_unspecified()
        };
        if self.advertise.len() > Self::ADVERTISED_MAX || !self.advertise.iter().all(whole) {
            let message = format!("takes up to {} IPv6 prefixes", Self::ADVERTISED_MAX);
            return Err(invalid(place("advertise"), message));
        }
        let all = self.networks.iter().any(|prefix| prefix.length == 0);
        if self.networks.len() > Self::NETWORKS_MAX || all {
            let message = format!(
                "takes up to {} prefixes, without a default route",
                Self::NETWORKS_MAX
            );
            return Err(invalid(place("networks"), message));
        }
        Ok(())
    }
}

impl HostConfig {
    /// Checks what is said of the host's routes.
    fn validate_led(&self, place: impl Fn(&str) -> String) -> Result<(), InvalidConfig> {
        if self.routes.len() > HOST_ROUTES_MAX {
            let message = format!("takes up to {HOST_ROUTES_MAX} prefixes");
            return Err(invalid(place("routes"), message));
        }
        if self.withdraw_after.is_some() && self.routes.is_empty() {
            let message = "withdraws `routes`: name these prefixes";
            return Err(invalid(place("withdraw_after"), message));
        }
        if self.restore_after.is_some() && self.withdraw_after.is_none() {
            let message = "nothing is withdrawn without `withdraw_after`";
            return Err(invalid(place("restore_after"), message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeConfig;
    use crate::config_text::parse;

    fn complaint(host: &str) -> Option<String> {
        let text = format!("name = \"a\"\n[host]\n{host}\n");
        let config: NodeConfig = parse("a.toml", &text).unwrap();
        config.validate().err().map(|error| error.place)
    }

    #[test]
    fn each_kind_has_keys_of_its_own() {
        let place = |key: &str| Some(format!("[host] {key}"));
        let tap = "kind = \"tap\"\n";
        assert_eq!(complaint(""), None);
        assert_eq!(complaint("bridge = \"br0\""), place("bridge"));
        assert_eq!(complaint("mac = \"02:00:00:00:00:01\""), place("mac"));
        assert_eq!(complaint("advertise = [\"fd00::/64\"]"), place("advertise"));
        let routes = format!("{tap}routes = [\"10.2.0.0/24\"]");
        assert_eq!(complaint(&routes), place("routes"));
        let whole = format!(
            "{tap}bridge = \"br0\"\nmac = \"02:00:00:00:00:01\"\nadvertise = [\"fd00::/64\"]"
        );
        assert_eq!(complaint(&whole), None);
        let group = format!("{tap}mac = \"03:00:00:00:00:01\"");
        assert_eq!(complaint(&group), place("mac"));
        let v4 = format!("{tap}advertise = [\"10.0.0.0/8\"]");
        assert_eq!(complaint(&v4), place("advertise"));
    }

    #[test]
    fn keys_of_the_hosts_routes_go_together() {
        let place = |key: &str| Some(format!("[host] {key}"));
        let routes = "routes = [\"10.2.0.0/24\"]";
        let keys = [
            "withdraw_after = \"2 s\"",
            "restore_after = \"9 s\"",
            "metric = 5",
        ];
        let [withdraw, restore, metric] = keys;
        assert_eq!(
            complaint(&format!("{routes}\n{withdraw}\n{restore}\n{metric}")),
            None
        );
        assert_eq!(complaint(withdraw), place("withdraw_after"));
        let lone = format!("{routes}\n{restore}");
        assert_eq!(complaint(&lone), place("restore_after"));
        for key in keys {
            let name = key.split(' ').next().unwrap();
            assert_eq!(complaint(&format!("kind = \"tap\"\n{key}")), place(name));
        }
    }

    #[test]
    fn a_route_to_the_host_side_may_name_a_router_on_an_ethernet() {
        let route = |host: &str, via: &str| {
            let route = format!("prefix = \"10.7.0.0/16\"\nport = \"host\"\nvia = \"{via}\"");
            complaint(&format!("{host}\n[[route]]\n{route}"))
        };
        let place = Some("[[route]] 10.7.0.0/16".to_string());
        assert_eq!(route("kind = \"tap\"", "10.1.0.9"), None);
        assert_eq!(route("kind = \"tap\"", "fd00::9"), place);
        assert_eq!(route("kind = \"tap\"", "b"), place);
        assert_eq!(route("", "10.1.0.9"), place);
    }

    #[test]
    fn a_station_follows_from_the_name() {
        let config: NodeConfig = parse("a.toml", "name = \"a\"\nhost = {}").unwrap();
        let [a, again, b] = ["a", "a", "b"].map(|name| config.host.station(name));
        assert_eq!(a, again);
        assert_ne!(a, b);
        assert!(!a.is_group() && a.0[0] == 2);
    }
}
