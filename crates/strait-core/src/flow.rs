//! What a node knows of the flows that leave by its links.

use core::net::IpAddr;

use strait_wire::ip::{PacketInfo, protocol};

use crate::id::{ClassId, PortId};
use crate::time::{Duration, Instant};

/// What tells the packets of one flow from others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Transport protocol.
    pub protocol: u8,
    /// What stands for ports.
    pub mark: FlowMark,
}

/// What tells flows between the same two addresses from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowMark {
    /// Source and destination port.
    Ports(u16, u16),
    /// The security parameters index of ESP.
    Spi(u32),
    /// Where neither can be read, the IPv6 flow label; 0 for IPv4.
    Label(u32),
}

impl FlowKey {
    /// The flow of a packet.
    pub const fn of(info: &PacketInfo) -> Self {
        let mark = match (info.ports, info.spi) {
            (Some((from, to)), _) => FlowMark::Ports(from, to),
            (None, Some(spi)) => FlowMark::Spi(spi),
            (None, None) => FlowMark::Label(info.flow_label),
        };
        Self {
            src: info.src,
            dst: info.dst,
            protocol: info.protocol,
            mark,
        }
    }

    /// Whether IPsec protects the flow: ESP by itself, or in UDP on its port (RFC 3948).
    pub const fn uses_ipsec(&self) -> bool {
        const ESP_PORT: u16 = 4500;
        match self.mark {
            FlowMark::Spi(_) => true,
            FlowMark::Ports(from, to) => {
                self.protocol == protocol::UDP && (from == ESP_PORT || to == ESP_PORT)
            }
            FlowMark::Label(_) => false,
        }
    }
}

/// Whether a flow is real-time, and how the node knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nature {
    /// It isn't.
    #[default]
    Conventional,
    /// The policy puts it into the first rank.
    Ruled,
    /// It behaves so: small packets of nearly one size, one each period.
    Observed,
}

impl Nature {
    /// The word in tables and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conventional => "conventional",
            Self::Ruled => "real-time",
            Self::Observed => "real-time, as observed",
        }
    }
}

/// How a call stands with the line that it is to leave by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// It isn't known yet what it needs.
    #[default]
    Measured,
    /// The line keeps so many octets each second for it.
    Admitted {
        /// With headers compressed, and what the link puts around them.
        octets_s: u64,
    },
    /// The line can't carry it beside those that were there before.
    Refused,
}

impl Standing {
    /// The word in tables and status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Admitted { .. } => "admitted",
            Self::Refused => "refused",
        }
    }

    /// Whether the line keeps something for the call.
    pub const fn is_admitted(self) -> bool {
        matches!(self, Self::Admitted { .. })
    }
}

/// One flow, as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The port that it leaves by.
    pub port: PortId,
    /// Which it is.
    pub key: FlowKey,
    /// The class of its last packet: its priority.
    pub class: ClassId,
    /// The code point of its last packet.
    pub dscp: u8,
    /// Whether it is real-time.
    pub nature: Nature,
    /// How it stands, if it is a call by the policy.
    pub standing: Option<Standing>,
    /// Packets so far.
    pub packets: u64,
    /// Octets of its packets on the line, on average.
    pub octets: u32,
    /// Time between its packets, once that is known.
    pub period: Option<Duration>,
    /// When the last one came.
    pub seen: Instant,
}

impl Flow {
    /// The rate that it needs, in bit/s, once its period is known.
    pub fn rate_bit_s(&self) -> Option<u64> {
        let period = self.period.filter(|period| !period.is_zero())?;
        let ns = u64::try_from(period.as_nanos()).ok()?;
        Some(u64::from(self.octets) * 8_000_000_000 / ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(protocol: u8, mark: FlowMark) -> FlowKey {
        FlowKey {
            src: IpAddr::from([10, 0, 0, 1]),
            dst: IpAddr::from([10, 0, 0, 2]),
            protocol,
            mark,
        }
    }

    #[test]
    fn esp_and_its_udp_port_are_ipsec() {
        assert!(key(protocol::ESP, FlowMark::Spi(7)).uses_ipsec());
        assert!(key(protocol::UDP, FlowMark::Ports(40_000, 4500)).uses_ipsec());
        assert!(!key(protocol::TCP, FlowMark::Ports(40_000, 4500)).uses_ipsec());
        assert!(!key(protocol::UDP, FlowMark::Ports(4501, 5004)).uses_ipsec());
    }

    #[test]
    fn a_rate_follows_from_size_and_period() {
        let mut flow = Flow {
            port: PortId(1),
            key: key(protocol::UDP, FlowMark::Ports(1, 2)),
            class: ClassId(0),
            dscp: 46,
            nature: Nature::Ruled,
            standing: None,
            packets: 3,
            octets: 38,
            period: None,
            seen: Instant::ZERO,
        };
        assert_eq!(flow.rate_bit_s(), None);
        flow.period = Some(Duration::from_millis(200));
        assert_eq!(flow.rate_bit_s(), Some(1520));
        flow.period = Some(Duration::ZERO);
        assert_eq!(flow.rate_bit_s(), None);
    }
}
