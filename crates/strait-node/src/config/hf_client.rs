//! What the IP client of STANAG 5066 is told (Annex F.12, F.11), whoever the node belongs to, and
//! what a port needs that is a client of somebody else's.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::stats::{AccessStats, HfClientStats};
use strait_core::units::{Octets, Time};
use strait_s5066::Address;
use strait_s5066::s_pdu::{SAP_ETHER, SAP_IP};
use strait_s5066::sis::{AccessSettings, MODE_ARQ, Service};

use super::hf::{MTU_MAX, first_fault};
use super::{Compression, GiveUpConfig, HfOrder, InvalidConfig, LinkProfile, PortConfig, invalid};

/// A client of a STANAG 5066 node of anybody's, by its subnetwork interface.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct HfClientConfig {
    /// Where the node takes clients.
    pub server: SocketAddr,
    /// The client's rank, 0 to 15.
    pub rank: u8,
    /// Packets are delivered as they arrive, or in the order in which they were sent.
    pub order: HfOrder,
    /// Classes whose packets aren't repeated if they get lost.
    pub without_arq: Vec<String>,
    /// Times that each of these packets is sent; once if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<u32>,
    /// When all that waits for a neighbour is dropped at once; absent, never: each class has its
    /// own limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub give_up: Option<GiveUpConfig>,
    /// How long the node may try to send a packet, 2 s to a day; 5 min if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Time>,
    /// Octets that the node may have without having confirmed them. What it has, nothing goes
    /// before. Absent, it is the node's matter when it tells its client to stop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<Octets>,
}

impl Default for HfClientConfig {
    fn default() -> Self {
        Self {
            server: SocketAddr::from(([127, 0, 0, 1], 5066)),
            rank: 0,
            order: HfOrder::Arrival,
            without_arq: Vec::new(),
            copies: None,
            give_up: None,
            ttl: None,
            ahead: None,
        }
    }
}

/// How packets become client data: the same by the port's own station and by another's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IpRules<'a> {
    pub(crate) order: HfOrder,
    pub(crate) without_arq: &'a [String],
    pub(crate) copies: u32,
    pub(crate) give_up: Option<&'a GiveUpConfig>,
}

impl HfClientConfig {
    pub(crate) fn rules(&self) -> IpRules<'_> {
        IpRules {
            order: self.order,
            without_arq: &self.without_arq,
            copies: self.copies.unwrap_or(1),
            give_up: self.give_up.as_ref(),
        }
    }

    /// What each of its access points asks for: IPv4's client and the Ether client's.
    pub(crate) fn accesses(&self) -> [AccessSettings; 2] {
        let ttl = self.ttl.map_or(Duration::from_secs(300), |ttl| ttl.0);
        [SAP_IP, SAP_ETHER].map(|sap| AccessSettings {
            sap,
            rank: self.rank,
            service: Service {
                mode: MODE_ARQ,
                confirmation: 1,
                any_order: self.order == HfOrder::Arrival,
                ..Service::default()
            },
            ttl,
            octets_max: self.ahead.map_or(usize::MAX, |ahead| ahead.0 as usize),
        })
    }

    fn fault(&self) -> Option<(&'static str, &'static str)> {
        let day = Duration::from_secs(86_400);
        let ttl = self.ttl.map_or(day, |ttl| ttl.0);
        let copies = self.copies.unwrap_or(1);
        let wrong = [
            (self.rank > 15, "client.rank", "must be 0 to 15"),
            (
                !(1..=8).contains(&copies),
                "client.copies",
                "must be 1 to 8",
            ),
            (
                ttl < Duration::from_secs(2) || ttl > day,
                "client.ttl",
                "must be 2 s to a day",
            ),
            (
                self.give_up.as_ref().is_some_and(GiveUpConfig::is_wrong),
                "client.give_up",
                "age must be 1 s to a day",
            ),
        ];
        first_fault(wrong)
    }
}

impl PortConfig {
    /// Whether packets can leave by it: not by a station whose access points are for others.
    pub(crate) fn carries_packets(&self) -> bool {
        self.hf().is_none_or(|hf| hf.ip_client)
    }

    /// The addresses of its neighbours' stations, in their order.
    pub(crate) fn stations(&self) -> Vec<Address> {
        let address = |text: &String| text.parse().unwrap_or_default();
        let peers = self.neighbours.iter();
        let peers = peers.map(|it| it.hf.as_ref().map(address).unwrap_or_default());
        peers.collect()
    }

    /// What is counted of its access points: nothing yet, and of no other kind of port.
    pub(crate) fn client_stats(&self) -> HfClientStats {
        let saps = [SAP_IP, SAP_ETHER].map(|sap| AccessStats {
            sap,
            ..AccessStats::default()
        });
        let has = self.client().is_some();
        HfClientStats {
            accesses: saps.into_iter().filter(|_| has).collect(),
        }
    }

    /// Checks a port that is a client.
    pub(super) fn validate_hf_client(&self, client: &HfClientConfig) -> Result<(), InvalidConfig> {
        if let Some((key, message)) = client.fault() {
            return Err(invalid(self.place(key), message));
        }
        self.validate_carriage()?;
        self.validate_neighbours()?;
        self.validate_stations(Vec::new())
    }

    /// Packets go as U_PDUs, and no others.
    pub(super) fn validate_carriage(&self) -> Result<(), InvalidConfig> {
        if self.profile != LinkProfile::Segments || self.compression != Compression::None {
            let message = "of a port with a radio are those of STANAG 5066: remove the keys";
            return Err(invalid(self.place("profile, compression"), message));
        }
        if self.mtu.0 > MTU_MAX {
            let message = alloc::format!("must be {MTU_MAX} at most on a port with a radio");
            return Err(invalid(self.place("mtu"), message));
        }
        Ok(())
    }
}
