//! Addresses with the number of their bits that count.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use serde::de::{self, Deserialize, Deserializer};
use serde::{Serialize, Serializer};

/// An address and how many of its leading bits count; all of them if nothing else is said.
/// Host bits are kept: `10.9.0.1/30` is both an interface's address and its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The address.
    pub address: IpAddr,
    /// Leading bits that count.
    pub length: u8,
}

impl Prefix {
    /// A prefix; `None` if `length` is longer than the address.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        (length <= bits(address)).then_some(Self { address, length })
    }

    /// The network that it names: without the bits of a host.
    #[must_use]
    pub fn network(self) -> Self {
        let length = u32::from(self.length);
        let address = match self.address {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(length).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & !host).into()
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(length).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & !host).into()
            }
        };
        Self { address, ..self }
    }

    /// Whether `address` begins with this prefix; never in the other family.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(net), IpAddr::V4(host)) => {
                let mask = u32::MAX
                    .checked_shl(32 - u32::from(self.length))
                    .unwrap_or(0);
                (net.to_bits() ^ host.to_bits()) & mask == 0
            }
            (IpAddr::V6(net), IpAddr::V6(host)) => {
                let mask = u128::MAX
                    .checked_shl(128 - u32::from(self.length))
                    .unwrap_or(0);
                (net.to_bits() ^ host.to_bits()) & mask == 0
            }
            _ => false,
        }
    }
}

const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (address, length) = match text.split_once('/') {
                Some((address, length)) => (address.parse().ok()?, Some(length.parse().ok()?)),
                None => (text.parse().ok()?, None),
            };
            Self::new(address, length.unwrap_or_else(|| bits(address)))
        };
        read().ok_or_else(|| format!("`{text}` is no prefix: write it like \"10.1.0.0/24\""))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_no_prefix_are_refused() {
        for text in ["10.0.0.1/", "10.0.0.1/33", "::/129", "x/8", "10.0.0.0/-1"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
    #[test]
    fn a_network_has_no_bits_of_its_hosts() {
        for (own, expected) in [
            ("10.1.2.3/24", "10.1.2.0/24"),
            ("10.1.2.3/32", "10.1.2.3/32"),
            ("10.1.2.3/0", "0.0.0.0/0"),
            ("2001:db8:1::2/48", "2001:db8:1::/48"),
            ("2001:db8:1::2/128", "2001:db8:1::2/128"),
            ("2001:db8:1::2/0", "::/0"),
        ] {
            let own: Prefix = own.parse().unwrap();
            assert_eq!(own.network().to_string(), expected);
        }
    }

    #[test]
    fn a_bare_address_is_all_of_it() {
        let lone: Prefix = "fd00::1".parse().unwrap();
        assert_eq!(lone.length, 128);
        assert!(lone.contains("fd00::1".parse().unwrap()));
        assert!(!lone.contains("fd00::2".parse().unwrap()));
        let all: Prefix = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("255.0.0.1".parse().unwrap()));
        assert!(!all.contains("::1".parse().unwrap()));
    }
}
