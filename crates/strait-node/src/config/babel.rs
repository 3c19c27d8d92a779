//! `[babel]` of a node file.

use alloc::format;
use alloc::string::String;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use strait_core::units::BitRate;

use super::names::{SOCKET_OCTETS_MAX, check_path};
use super::{HostKind, InvalidConfig, NodeConfig, PortConfig, invalid};

/// The cost of the gateway's link, told to a `babeld` on the same host that uses its interface.
/// Live only.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct BabelConfig {
    /// Whether babeld is told.
    #[serde(default = "super::yes")]
    pub enabled: bool,
    /// The Unix socket by which babeld takes its configuration (`babeld -G`).
    #[serde(default = "BabelConfig::default_socket")]
    pub socket: String,
    /// Whether the link costs by its measured rate, or by that of its port in this file.
    #[serde(default = "super::yes")]
    pub measure: bool,
    /// The rate of a link that costs as much as a wired one of babeld's, which is 96. A link of
    /// half the rate costs twice as much.
    #[serde(default = "BabelConfig::default_rate")]
    pub rate: BitRate,
    /// How dear the link is to the operator: it costs as one that is so many times as fast.
    #[serde(default = "BabelConfig::default_preference")]
    pub preference: f64,
}

impl BabelConfig {
    /// What babeld has a wired link cost.
    const WIRED: f64 = 96.0;
    /// The most that a link costs: two such are no way that leads nowhere (65535) yet.
    const COST_MAX: f64 = 32_000.0;

    fn default_socket() -> String {
        "/run/babeld.sock".into()
    }

    const fn default_rate() -> BitRate {
        BitRate(1_000_000)
    }

    const fn default_preference() -> f64 {
        1.0
    }

    /// What this end of a link says of a link of this rate. From 256 on babeld multiplies what
    /// both ends say, and divides it by 256: the root of the cost is for the other end to say.
    pub fn cost(&self, bit_s: u64) -> u32 {
        let worth = bit_s.max(1) as f64 * self.preference;
        let cost = Self::WIRED * self.rate.0 as f64 / worth;
        let cost = cost.clamp(1.0, Self::COST_MAX) as u32;
        cost.min((256 * cost).isqrt())
    }

    pub(super) fn validate(&self, config: &NodeConfig) -> Result<(), InvalidConfig> {
        if !self.enabled {
            return Ok(());
        }
        check_path("[babel] socket", &self.socket)?;
        if self.socket.len() > SOCKET_OCTETS_MAX {
            let message = format!("is longer than {SOCKET_OCTETS_MAX} octets");
            return Err(invalid("[babel] socket", message));
        }
        if self.rate.0 < 1 {
            return Err(invalid("[babel] rate", "must be above 0"));
        }
        if !(0.001..=1000.0).contains(&self.preference) {
            return Err(invalid("[babel] preference", "is 0.001 to 1000"));
        }
        let [port] = config.ports.as_slice() else {
            let message = "babeld's interface stands for one link: the gateway needs exactly one \
                           [[port]]";
            return Err(invalid("[babel]", message));
        };
        if !port.carries_packets() || port.neighbours.len() > 1 {
            let message = "babeld's interface stands for one link: the port needs one neighbour, \
                           and must carry packets";
            return Err(invalid("[babel]", message));
        }
        self.validate_ways(config, port)
    }

    /// What babeld needs of an interface.
    fn validate_ways(&self, config: &NodeConfig, port: &PortConfig) -> Result<(), InvalidConfig> {
        let tun = config.host.kind == HostKind::Tun && config.host.further.is_empty();
        let mut own = config.host.addresses.iter().map(|own| own.address);
        let of_link = |it: IpAddr| matches!(it, IpAddr::V6(it) if it.is_unicast_link_local());
        if !tun || !own.any(of_link) {
            let message = "babeld needs a TUN interface with an address of the link: a [host] \
                           with addresses = [\"fe80::1/64\", …], a separate number at each end";
            return Err(invalid("[babel]", message));
        }
        if config.routes.iter().any(|route| route.port == port.name) {
            let message = "babeld has the routes: remove each [[route]] by the link";
            return Err(invalid("[babel]", message));
        }
        if !port.any_source {
            let message = "babeld has the routes: the [[port]] needs any_source = true";
            return Err(invalid("[babel]", message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_text::parse;

    const NODE: &str = r#"
        name = "a"
        host = { addresses = ["10.9.0.1/24", "fe80::1/64"] }
        babel = { socket = "/run/babeld.sock" }
        [[port]]
        name = "radio"
        kind = "udp"
        rate = "1 Mbit/s"
        any_source = true
    "#;

    fn complaint(text: &str) -> Option<String> {
        let config: NodeConfig = parse("a.toml", text).unwrap();
        config.validate().err().map(|error| format!("{error}"))
    }

    #[test]
    fn an_interface_is_one_link_that_babeld_can_use() {
        assert_eq!(complaint(NODE), None);
        let off = NODE.replace("any_source = true", "");
        assert_eq!(
            complaint(&off.replace("sock\"", "sock\", enabled = false")),
            None
        );
        let changes = [
            (", \"fe80::1/64\"", "", "fe80"),
            ("any_source = true", "", "any_source"),
            ("/run/babeld.sock", "", "socket"),
            (".sock\" }", ".sock\", preference = 0.0 }", "preference"),
            (
                "any_source = true",
                "any_source = true\n[[route]]\nprefix = \"10.2.0.0/24\"\nport = \"radio\"",
                "[[route]]",
            ),
            (
                "any_source = true",
                "any_source = true\n[[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = 9600",
                "one [[port]]",
            ),
            (
                "any_source = true",
                "any_source = true\nneighbours = [{ name = \"b\" }, { name = \"c\" }]",
                "one neighbour",
            ),
        ];
        for (old, new, word) in changes {
            let complaint = complaint(&NODE.replace(old, new)).unwrap();
            assert!(complaint.contains(word), "{complaint}");
        }
    }

    #[test]
    fn a_link_costs_by_its_rate_and_by_the_operators_preference() {
        let costs = |keys: &str| {
            let text = NODE.replace(".sock\" }", &format!(".sock\"{keys} }}"));
            let config: NodeConfig = parse("a.toml", &text).unwrap();
            let babel = config.babel.unwrap();
            [11_000_000, 1_000_000, 20_000, 300, 0].map(|rate| babel.cost(rate))
        };
        assert_eq!(costs(""), [8, 96, 1108, 2862, 2862]);
        assert_eq!(costs(", preference = 2"), [4, 48, 783, 2862, 2862]);
        assert_eq!(costs(", rate = \"20 kbit/s\""), [1, 1, 96, 1280, 2862]);
    }
}
