//! `[far]` of a node file.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use strait_core::units::Share;

use super::{InvalidConfig, NodeConfig, invalid};

/// Reports between gateways: each end of a link knows how the other one is.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct FarConfig {
    /// Whether it reports.
    #[serde(default = "super::yes")]
    pub enabled: bool,
    /// The gateways at far ends, by addresses of theirs that routes lead to. They report too.
    pub partners: Vec<IpAddr>,
    /// The share of a link's rate that reports take at most.
    #[serde(default = "FarConfig::default_share")]
    pub share: Share,
    /// The UDP port of reports.
    #[serde(default = "FarConfig::default_port")]
    pub port: u16,
}

impl FarConfig {
    const PARTNERS_MAX: usize = 16;
    const SHARE_MAX: f64 = 0.1;

    const fn default_share() -> Share {
        Share(0.01)
    }

    const fn default_port() -> u16 {
        7482
    }

    pub(super) fn validate(&self, config: &NodeConfig) -> Result<(), InvalidConfig> {
        let others = [
            config.proxy().map(|it| it.port),
            config.dns().map(|it| it.port),
        ];
        if self.port == 0 || others.contains(&Some(self.port)) {
            let message = "must be 1 to 65535, and neither [proxy]'s nor [dns]'s";
            return Err(invalid("[far] port", message));
        }
        if !(self.share.0 > 0.0 && self.share.0 <= Self::SHARE_MAX) {
            return Err(invalid(
                "[far] share",
                "must be above 0 %, and 10 % at most",
            ));
        }
        if !(1..=Self::PARTNERS_MAX).contains(&self.partners.len()) {
            return Err(invalid("[far] partners", "takes 1 to 16 addresses"));
        }
        let mut seen = BTreeSet::new();
        for partner in &self.partners {
            let refused = |message| Err(invalid(format!("[far] partners {partner}"), message));
            if partner.is_unspecified() || partner.is_loopback() || partner.is_multicast() {
                return refused("is no gateway's address");
            }
            if config.host.own().any(|own| own == *partner) || !seen.insert(*partner) {
                return refused("is the gateway's own, or is repeated");
            }
            let like = |own: IpAddr| own.is_ipv4() == partner.is_ipv4();
            if !config.host.own().any(like) {
                return refused("needs an address of its family among [host] addresses");
            }
        }
        Ok(())
    }
}
