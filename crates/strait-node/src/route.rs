//! Which way a packet goes.

use alloc::vec::Vec;
use core::net::IpAddr;

pub use strait_core::prefix::Prefix;
use strait_core::{NeighbourId, PortId};

/// Where a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// By which port.
    pub port: PortId,
    /// To whom on it.
    pub to: NeighbourId,
}

/// A routing table: the longest matching prefix wins.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Longest prefixes first, so that the first match is the longest.
    entries: Vec<(Prefix, Hop)>,
}

impl Routes {
    /// Entries that fit. Look-up is linear: a gateway on a narrow link has few routes.
    pub const ENTRIES_MAX: usize = 4096;

    /// Adds or replaces the entry for `prefix`; false if the table is full.
    pub fn add(&mut self, prefix: Prefix, hop: Hop) -> bool {
        self.remove(prefix);
        if self.entries.len() >= Self::ENTRIES_MAX {
            return false;
        }
        let at = self
            .entries
            .partition_point(|(other, _)| other.length >= prefix.length);
        self.entries.insert(at, (prefix, hop));
        true
    }

    /// Removes the entry for `prefix`.
    pub fn remove(&mut self, prefix: Prefix) {
        self.entries
            .retain(|(other, _)| other.length != prefix.length || !other.contains(prefix.address));
    }

    /// Whether any way leaves by `port`.
    pub fn names(&self, port: PortId) -> bool {
        self.entries.iter().any(|(_, hop)| hop.port == port)
    }

    /// The way to `address`.
    pub fn lookup(&self, address: IpAddr) -> Option<Hop> {
        self.matching(address).map(|(_, hop)| hop)
    }

    /// The same, with the prefix that says so.
    pub fn matching(&self, address: IpAddr) -> Option<(Prefix, Hop)> {
        let mut entries = self.entries.iter();
        entries
            .find(|(prefix, _)| prefix.contains(address))
            .copied()
    }
}

/// Addresses that mean something else on each network: link-local ones and loopback (RFC 3927,
/// RFC 4291 sections 2.5.3 and 2.5.6).
pub fn is_of_the_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(port: u8) -> Hop {
        Hop {
            port: PortId(port),
            to: NeighbourId::PEER,
        }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_prefix_wins_in_each_family() {
        let mut routes = Routes::default();
        for (text, port) in [
            ("0.0.0.0/0", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.0/24", 3),
            ("::/0", 4),
            ("fd00::1/128", 5),
        ] {
            assert!(routes.add(prefix(text), hop(port)));
        }
        let port = |text: &str| routes.lookup(text.parse().unwrap()).map(|hop| hop.port.0);
        assert_eq!(port("10.1.2.3"), Some(3));
        assert_eq!(port("10.1.3.3"), Some(2));
        assert_eq!(port("11.1.3.3"), Some(1));
        assert_eq!(port("fd00::1"), Some(5));
        assert_eq!(port("fd00::2"), Some(4));
    }

    #[test]
    fn entries_are_replaced_and_removed_by_network() {
        let mut routes = Routes::default();
        routes.add(prefix("10.1.0.1/16"), hop(1));
        routes.add(prefix("10.1.9.9/16"), hop(2));
        assert_eq!(routes.lookup("10.1.0.1".parse().unwrap()), Some(hop(2)));
        routes.remove(prefix("10.1.0.0/16"));
        assert_eq!(routes.lookup("10.1.0.1".parse().unwrap()), None);
    }
}
