//! Which way a packet goes.

use alloc::collections::BTreeMap;
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
    tables: Vec<Table>,
    /// Where IPv4 addresses lead that were asked for lately, by a number of the address; an address
    /// of zero stands for none. Packets of a few flows come again and again, and a search reads
    /// much.
    lately: Vec<(u32, Hop)>,
    /// How many links there are behind the first one, where it is known and there are any.
    beyond: BTreeMap<Prefix, u8>,
}

/// Addresses that are remembered with where they lead.
const LATELY: usize = 256;

/// The entries of one family whose prefixes are equally long.
#[derive(Clone, Debug)]
struct Table {
    v6: bool,
    length: u8,
    /// In ascending order; apart from where they lead, as a search reads many.
    networks: Vec<u128>,
    /// By place of the network.
    entries: Vec<(Prefix, Hop)>,
}

impl Table {
    fn is_for(&self, prefix: Prefix) -> bool {
        (self.v6, self.length) == (prefix.address.is_ipv6(), prefix.length)
    }

    /// The place of the network of `address`, or the one where it belongs.
    fn find(&self, address: IpAddr) -> Result<usize, usize> {
        let network = network(address, self.length);
        self.networks.binary_search(&network)
    }
}

/// The first `length` bits of an address, the others 0.
fn network(address: IpAddr, length: u8) -> u128 {
    let (bits, octets) = match address {
        IpAddr::V4(v4) => (u128::from(v4.to_bits()), 4),
        IpAddr::V6(v6) => (v6.to_bits(), 16),
    };
    let mask = u128::MAX.checked_shl(8 * octets - u32::from(length));
    bits & mask.unwrap_or(0)
}

impl Routes {
    /// Entries that fit.
    pub const ENTRIES_MAX: usize = 4096;

    /// Adds or replaces the entry for `prefix`; false if the table is full.
    pub fn add(&mut self, prefix: Prefix, hop: Hop) -> bool {
        self.remove(prefix);
        let entries: usize = self.tables.iter().map(|table| table.entries.len()).sum();
        if entries >= Self::ENTRIES_MAX {
            return false;
        }
        let known = self.tables.iter().position(|table| table.is_for(prefix));
        let at = known.unwrap_or_else(|| self.begin(prefix));
        let table = &mut self.tables[at];
        if let Err(place) = table.find(prefix.address) {
            let network = network(prefix.address, prefix.length);
            table.networks.insert(place, network);
            table.entries.insert(place, (prefix, hop));
        }
        true
    }

    /// Makes the table for prefixes like this one.
    fn begin(&mut self, prefix: Prefix) -> usize {
        let longer = |table: &Table| table.length >= prefix.length;
        let at = self.tables.partition_point(longer);
        let table = Table {
            v6: prefix.address.is_ipv6(),
            length: prefix.length,
            networks: Vec::new(),
            entries: Vec::new(),
        };
        self.tables.insert(at, table);
        at
    }

    /// Removes the entry for `prefix`.
    pub fn remove(&mut self, prefix: Prefix) {
        self.lately.clear();
        self.beyond.remove(&prefix.network());
        for table in self.tables.iter_mut().filter(|table| table.is_for(prefix)) {
            if let Ok(at) = table.find(prefix.address) {
                table.networks.remove(at);
                table.entries.remove(at);
            }
        }
        self.tables.retain(|table| !table.entries.is_empty());
    }

    /// There are so many links on the way to a prefix behind the first one.
    pub fn set_beyond(&mut self, prefix: Prefix, links: u8) {
        match links {
            0 => self.beyond.remove(&prefix.network()),
            _ => self.beyond.insert(prefix.network(), links),
        };
    }

    /// How many links there are behind the first one on the way to `address`, as far as is known.
    pub fn beyond(&self, address: IpAddr) -> u8 {
        if self.beyond.is_empty() {
            return 0;
        }
        let prefix = self.matching(address).map(|(prefix, _)| prefix.network());
        prefix
            .and_then(|it| self.beyond.get(&it).copied())
            .unwrap_or(0)
    }

    /// Whether any way leaves by `port`.
    pub fn names(&self, port: PortId) -> bool {
        let mut entries = self.tables.iter().flat_map(|table| &table.entries);
        entries.any(|(_, hop)| hop.port == port)
    }

    /// The ways to a prefix, to all of it and to parts of it, each with what it leads to.
    pub fn ways(&self, prefix: Prefix) -> impl Iterator<Item = (Prefix, Hop)> + '_ {
        let v6 = prefix.address.is_ipv6();
        let tables = self.tables.iter().filter(move |table| table.v6 == v6);
        let longer = tables.clone().filter(move |it| it.length > prefix.length);
        let parts = longer.flat_map(|table| table.entries.iter().copied());
        let parts = parts.filter(move |(part, _)| prefix.contains(part.address));
        let mut others = tables.filter(|table| table.length <= prefix.length);
        let whole = others.find_map(|it| Some(it.entries[it.find(prefix.address).ok()?]));
        parts.chain(whole)
    }

    /// The way to `address`.
    pub fn lookup(&self, address: IpAddr) -> Option<Hop> {
        self.matching(address).map(|(_, hop)| hop)
    }

    /// The same for one packet of many.
    pub fn lookup_often(&mut self, address: IpAddr) -> Option<Hop> {
        let bits = match address {
            IpAddr::V4(v4) => v4.to_bits(),
            IpAddr::V6(_) => 0,
        };
        // 2^32 divided by the golden ratio: neighbouring addresses end up far apart.
        let place = bits.wrapping_mul(0x9e37_79b9) as usize >> (32 - LATELY.ilog2());
        match self.lately.get(place) {
            Some((known, hop)) if *known == bits && bits != 0 => return Some(*hop),
            _ => {}
        }
        let hop = self.lookup(address)?;
        self.lately.resize(LATELY, (0, hop));
        self.lately[place] = (bits, hop);
        Some(hop)
    }

    /// The same, with the prefix that says so.
    pub fn matching(&self, address: IpAddr) -> Option<(Prefix, Hop)> {
        let v6 = address.is_ipv6();
        let mut tables = self.tables.iter().filter(|table| table.v6 == v6);
        tables.find_map(|table| Some(table.entries[table.find(address).ok()?]))
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
    use core::net::{Ipv4Addr, Ipv6Addr};

    use strait_wire::hash::hash64;

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
    fn links_behind_a_route_are_those_told_last() {
        let mut routes = Routes::default();
        let far = prefix("10.3.0.0/24");
        assert!(routes.add(far, hop(1)));
        for links in [2, 1, 0, 1] {
            routes.set_beyond(far, links);
            assert_eq!(routes.beyond("10.3.0.7".parse().unwrap()), links);
        }
        routes.remove(far);
        assert!(routes.add(far, hop(2)));
        assert_eq!(routes.beyond("10.3.0.7".parse().unwrap()), 0);
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
    fn the_way_is_that_of_the_longest_prefix_whatever_the_order() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = hash64(state, &[1]);
            state % below
        };
        let mut address = |v6: bool| -> IpAddr {
            let bits = draw(16) << 28 | draw(4) << 14 | draw(4);
            match v6 {
                true => Ipv6Addr::from_bits(u128::from(bits) << 90 | u128::from(bits)).into(),
                false => Ipv4Addr::from_bits(bits as u32).into(),
            }
        };
        let mut routes = Routes::default();
        let mut known: Vec<(Prefix, Hop)> = Vec::new();
        for step in 0..600_u64 {
            let v6 = step % 2 == 0;
            let length = hash64(step, &[2]) % if v6 { 129 } else { 33 };
            let prefix = Prefix::new(address(v6), length as u8).unwrap();
            let is_same =
                |it: &(Prefix, Hop)| it.0.length == prefix.length && it.0.contains(prefix.address);
            known.retain(|it| !is_same(it));
            if step % 5 == 4 {
                routes.remove(prefix);
            } else {
                known.push((prefix, hop(step as u8)));
                assert!(routes.add(prefix, hop(step as u8)));
            }
            let asked = address(v6);
            let fits = known.iter().filter(|(prefix, _)| prefix.contains(asked));
            let longest = fits.max_by_key(|(prefix, _)| prefix.length);
            assert_eq!(routes.matching(asked), longest.copied(), "{asked}");
            for _ in 0..2 {
                let hop = longest.map(|(_, hop)| *hop);
                assert_eq!(routes.lookup_often(asked), hop, "{asked}");
            }
        }
    }

    #[test]
    fn ways_lead_to_a_prefix_and_to_its_parts() {
        let mut routes = Routes::default();
        for (text, port) in [
            ("0.0.0.0/0", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.0/24", 3),
            ("10.1.3.0/24", 4),
            ("10.2.0.0/16", 5),
        ] {
            assert!(routes.add(prefix(text), hop(port)));
        }
        let ways = |text: &str| {
            let ways = routes.ways(prefix(text));
            ways.map(|(_, hop)| hop.port.0).collect::<Vec<_>>()
        };
        assert_eq!(ways("10.1.0.0/16"), [3, 4, 2]);
        assert_eq!(ways("10.1.2.0/23"), [3, 4, 2]);
        assert_eq!(ways("10.1.2.128/25"), [3]);
        assert_eq!(ways("10.3.0.0/16"), [1]);
        assert_eq!(ways("fd00::/8"), [0; 0]);
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
