//! Where frames in IP packets come from and go to.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strait_wire::ip::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS};

use crate::config::{InvalidConfig, LinkProfile, PortConfig, PortKind, invalid};

/// An address of this host or of a neighbour: with a UDP port for kind `udp`, without for `ip`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(try_from = "String", into = "String")]
pub enum PortAddress {
    /// `10.0.0.1:7001`, `[fd00::1]:7001`.
    Socket(SocketAddr),
    /// `10.0.0.1`, `fd00::1`.
    Ip(IpAddr),
}

impl PortAddress {
    /// The address alone.
    pub const fn ip(self) -> IpAddr {
        match self {
            Self::Socket(socket) => socket.ip(),
            Self::Ip(address) => address,
        }
    }

    /// The address with its UDP port, if it has one.
    pub const fn socket(self) -> Option<SocketAddr> {
        match self {
            Self::Socket(socket) => Some(socket),
            Self::Ip(_) => None,
        }
    }
}

impl FromStr for PortAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let socket = text.parse().map(Self::Socket);
        let either = socket.or_else(|_| text.parse().map(Self::Ip));
        either.map_err(|_| {
            format!("`{text}` is no address: write 10.0.0.1:7001, or for kind = \"ip\" 10.0.0.1")
        })
    }
}

impl TryFrom<String> for PortAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PortAddress> for String {
    fn from(address: PortAddress) -> Self {
        address.to_string()
    }
}

impl From<SocketAddr> for PortAddress {
    fn from(socket: SocketAddr) -> Self {
        Self::Socket(socket)
    }
}

impl From<IpAddr> for PortAddress {
    fn from(address: IpAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(socket) => socket.fmt(f),
            Self::Ip(address) => address.fmt(f),
        }
    }
}

impl PortConfig {
    /// The IP protocol number without the key `protocol`: the first of the two that RFC 3692 and
    /// RFC 4727 section 3.3 leave to experiments.
    pub const PROTOCOL: u8 = 253;

    /// The IP protocol number of a port of kind `ip`.
    pub fn ip_protocol(&self) -> Option<u8> {
        let PortKind::Ip(ip) = &self.kind else {
            return None;
        };
        Some(ip.protocol.unwrap_or(Self::PROTOCOL))
    }

    /// Octets that the medium adds to each frame and that its rate counts. An IPv4 header where no
    /// address says which it is.
    pub fn header_octets(&self) -> usize {
        let others = self.neighbours.iter().filter_map(|it| it.address);
        let address = self.local().into_iter().chain(others).next();
        match self.kind {
            PortKind::Ip(_) if address.is_some_and(|it| it.ip().is_ipv6()) => IPV6_HEADER_OCTETS,
            PortKind::Ip(_) => IPV4_HEADER_OCTETS,
            _ => 0,
        }
    }

    /// What kinds `udp` and `ip` are to have, and not to have.
    pub(super) fn validate_packets(&self) -> Result<(), InvalidConfig> {
        let raw = matches!(self.kind, PortKind::Ip(_));
        if self
            .frame
            .is_some_and(|frame| !(16..=65_507).contains(&frame.0))
        {
            return Err(invalid(self.place("frame"), "must be 16 to 65507 octets"));
        }
        let theirs = self.neighbours.iter().filter_map(|it| it.address);
        let theirs = theirs.map(|address| ("neighbours", address));
        let own = self.local().map(|address| ("local", address));
        for (key, address) in own.into_iter().chain(theirs) {
            let message = match address {
                PortAddress::Ip(_) if !raw => "needs a UDP port",
                PortAddress::Socket(_) if raw => "kind = \"ip\" has addresses without ports",
                _ => continue,
            };
            return Err(invalid(self.place(key), format!("{address}: {message}")));
        }
        // Numbers that the host's own traffic has, or that stand for parts of an IPv6 header.
        let taken = [0, 1, 2, 6, 17, 43, 44, 50, 51, 58, 59, 60, 89, 135, 255];
        if self
            .ip_protocol()
            .is_some_and(|number| taken.contains(&number))
        {
            let message = "this number belongs to another protocol: use 253 or 254, for \
                           experiments";
            return Err(invalid(self.place("protocol"), message));
        }
        self.validate_neighbours()
    }

    /// Ways of their own lead to all neighbours or to none, and what they share has no rate then.
    pub(super) fn validate_own_rates(&self) -> Result<(), InvalidConfig> {
        let ways = self.ways();
        if ways == 0 {
            return Ok(());
        }
        let message = if !self.kind.is_packets() {
            "is for kind = \"udp\" or \"ip\": remove it"
        } else if self.profile == LinkProfile::Hbh {
            "is not for profile = \"hbh\", whose neighbours share one way: set the port's `rate`"
        } else if self.rate.is_some() {
            "is in place of the port's `rate`: remove one of them"
        } else if ways < self.neighbours.len() {
            "needed for each neighbour of the port, or for none"
        } else {
            return Ok(());
        };
        Err(invalid(self.place("neighbours rate"), message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeConfig;
    use crate::config_text::parse;

    fn config(port: &str) -> NodeConfig {
        let text = format!("name = \"a\"\nhost = {{}}\n[[port]]\nname = \"p\"\n{port}");
        parse("a.toml", &text).unwrap()
    }

    fn complaint(port: &str) -> Option<String> {
        let error = config(port).validate().err()?;
        Some(error.to_string())
    }

    #[test]
    fn each_kind_has_its_addresses() {
        let udp = "kind = \"udp\"\nlocal = ";
        let ip = "kind = \"ip\"\nlocal = ";
        assert_eq!(complaint(&format!("{udp}\"10.0.0.1:7001\"")), None);
        assert_eq!(complaint(&format!("{ip}\"10.0.0.1\"")), None);
        assert_eq!(complaint(&format!("{ip}\"fd00::1\"")), None);
        let wrong = complaint(&format!("{udp}\"fd00::1\""));
        assert_eq!(
            wrong.unwrap(),
            "[[port]] p local: fd00::1: needs a UDP port"
        );
        let wrong = complaint(&format!("{ip}\"[fd00::1]:7001\"")).unwrap();
        assert!(wrong.contains("addresses without ports"), "{wrong}");
        let wrong = complaint(
            "kind = \"ip\"\nneighbours = [{ name = \"b\", address = \"10.0.0.2:7001\" }]",
        );
        assert!(
            wrong
                .unwrap()
                .starts_with("[[port]] p neighbours: 10.0.0.2:7001")
        );
    }

    #[test]
    fn a_protocol_number_is_one_that_nobody_has() {
        let number = |number: u8| complaint(&format!("kind = \"ip\"\nprotocol = {number}"));
        for taken in [0, 6, 17, 50, 58, 255] {
            assert!(number(taken).unwrap().contains("use 253 or 254"), "{taken}");
        }
        assert_eq!(number(254), None);
        assert_eq!(config("kind = \"ip\"").ports[0].ip_protocol(), Some(253));
    }

    #[test]
    fn a_header_is_what_the_addresses_need() {
        let octets = |port: &str| config(port).ports[0].header_octets();
        assert_eq!(octets("kind = \"ip\""), 20);
        assert_eq!(octets("kind = \"ip\"\nlocal = \"10.0.0.1\""), 20);
        let neighbour = "neighbours = [{ name = \"b\", address = \"fd00::2\" }]";
        assert_eq!(octets(&format!("kind = \"ip\"\n{neighbour}")), 40);
        assert_eq!(octets("kind = \"udp\"\nlocal = \"[fd00::1]:7001\""), 0);
    }

    #[test]
    fn addresses_are_written_as_they_are_read() {
        for text in ["10.0.0.1", "10.0.0.1:0", "fd00::1", "[fe80::1%3]:7001"] {
            let address: PortAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        let error = "10.0.0.1:x".parse::<PortAddress>().unwrap_err();
        assert!(error.contains("10.0.0.1:7001"), "{error}");
    }
}
