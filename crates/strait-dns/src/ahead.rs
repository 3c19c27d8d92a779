//! Addresses ahead of answers: a name that isn't known yet has one of a reserved range at once.
//!
//! The question that crosses says which address the name has here, and the gateway near the
//! resolvers puts the real one in its place in whatever is sent there. An address stands for its
//! name for as long as there is room, over restarts too: what a program keeps stays right. A name
//! that needs room takes that of the one that was asked for longest ago, but another address, which
//! comes again as late as it can.

use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv4Addr};

use hickory_proto::rr::Name;
use strait_core::prefix::Prefix;

/// Names with addresses, at most. The smallest range has as many and half of them in reserve.
pub const NAMES_MAX: usize = 4096;
/// The longest prefix that a range may have.
pub const LENGTH_MAX: u8 = 19;
/// The range where nothing else is said: for measurements in laboratories (RFC 2544).
pub const RANGE: Prefix = Prefix {
    address: IpAddr::V4(Ipv4Addr::new(198, 19, 0, 0)),
    length: 16,
};

/// Names and their addresses.
#[derive(Debug)]
pub(crate) struct Ahead {
    range: Prefix,
    by_name: BTreeMap<Name, (Ipv4Addr, u64)>,
    by_address: BTreeMap<Ipv4Addr, Name>,
    /// By use, the longest ago first.
    order: BTreeMap<u64, Name>,
    uses: u64,
    /// Where to look for the next address.
    next: u32,
}

impl Ahead {
    /// None yet, of this range of IPv4.
    pub(crate) const fn new(range: Prefix) -> Self {
        Self {
            range,
            by_name: BTreeMap::new(),
            by_address: BTreeMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            next: 1,
        }
    }

    /// The address that a name has, if it has one.
    pub(crate) fn find(&self, name: &Name) -> Option<Ipv4Addr> {
        self.by_name.get(name).map(|(address, _)| *address)
    }

    /// Whose an address is.
    pub(crate) fn name_of(&self, address: Ipv4Addr) -> Option<&Name> {
        self.by_address.get(&address)
    }

    /// The address of a name, in small letters; and whether it has it from now on.
    pub(crate) fn give(&mut self, name: &Name) -> (Ipv4Addr, bool) {
        self.uses += 1;
        if let Some((address, used)) = self.by_name.get_mut(name) {
            self.order.remove(used);
            *used = self.uses;
            self.order.insert(self.uses, name.clone());
            return (*address, false);
        }
        if self.by_name.len() >= NAMES_MAX
            && let Some((_, oldest)) = self.order.pop_first()
            && let Some((address, _)) = self.by_name.remove(&oldest)
        {
            self.by_address.remove(&address);
        }
        let address = self.free();
        self.put(name.clone(), address);
        (address, true)
    }

    /// A name had an address before a restart.
    pub(crate) fn restore(&mut self, name: Name, address: Ipv4Addr) {
        let known = self.by_name.contains_key(&name) || self.by_address.contains_key(&address);
        if known || !self.range.contains(address.into()) || self.by_name.len() >= NAMES_MAX {
            return;
        }
        self.uses += 1;
        self.next = self.next.max(self.number(address) + 1);
        self.put(name, address);
    }

    /// All of them, the longest ago first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, Ipv4Addr)> {
        let names = self.order.values();
        names.filter_map(|name| Some((name, self.find(name)?)))
    }

    fn put(&mut self, name: Name, address: Ipv4Addr) {
        self.by_address.insert(address, name.clone());
        self.order.insert(self.uses, name.clone());
        self.by_name.insert(name, (address, self.uses));
    }

    /// An address that nobody has. There are more than names.
    fn free(&mut self) -> Ipv4Addr {
        let host_bits = 32 - u32::from(self.range.length);
        let base = self.base();
        loop {
            // Neither the network's own address nor its broadcast.
            let number = self.next.max(1);
            self.next = (number + 1) % ((1 << host_bits) - 1);
            let address = Ipv4Addr::from(base + number);
            if !self.by_address.contains_key(&address) {
                return address;
            }
        }
    }

    fn base(&self) -> u32 {
        match self.range.network().address {
            IpAddr::V4(base) => base.into(),
            IpAddr::V6(_) => 0,
        }
    }

    fn number(&self, address: Ipv4Addr) -> u32 {
        u32::from(address) - self.base()
    }

    /// Asserts that the books are right.
    pub(crate) fn check(&self) {
        assert!(self.by_name.len() <= NAMES_MAX, "too many names ahead");
        assert_eq!(self.by_name.len(), self.by_address.len(), "two of a name");
        assert_eq!(self.by_name.len(), self.order.len(), "order of names");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::format;

    use crate::name;

    fn named(n: u32) -> Name {
        name::parse(&format!("n{n}.example")).unwrap()
    }

    #[test]
    fn a_name_keeps_its_address_until_others_need_its_room() {
        let mut ahead = Ahead::new(RANGE);
        let first = Ipv4Addr::new(198, 19, 0, 1);
        assert_eq!(ahead.give(&named(0)), (first, true));
        assert_eq!(ahead.give(&named(0)), (first, false));
        for n in 1..=NAMES_MAX as u32 {
            if n == 100 {
                ahead.give(&named(0));
            }
            let (address, new) = ahead.give(&named(n));
            assert!(new && RANGE.contains(address.into()));
        }
        ahead.check();
        // The one that was asked for longest ago has gone, and nobody has its address yet.
        assert_eq!(ahead.find(&named(0)), Some(first));
        assert_eq!(ahead.find(&named(1)), None);
        assert_eq!(ahead.name_of(Ipv4Addr::new(198, 19, 0, 2)), None);
    }

    #[test]
    fn addresses_come_again_as_late_as_they_can() {
        let range = Prefix::new([10, 64, 0, 0].into(), LENGTH_MAX).unwrap();
        let mut ahead = Ahead::new(range);
        let all = (1 << 13) - 2;
        for n in 0..all {
            let expected = Ipv4Addr::from(0x0a40_0001 + n);
            assert_eq!(ahead.give(&named(n)), (expected, true));
        }
        let again = ahead.give(&named(all));
        assert_eq!(again, (Ipv4Addr::new(10, 64, 0, 1), true));
        ahead.check();
    }

    #[test]
    fn what_was_before_a_restart_is_as_it_was() {
        let mut before = Ahead::new(RANGE);
        (0..9).for_each(|n| {
            before.give(&named(n));
        });
        let mut after = Ahead::new(RANGE);
        for (name, address) in before.iter() {
            after.restore(name.clone(), address);
        }
        // What is none of the range, or there already, isn't taken in.
        after.restore(named(50), Ipv4Addr::new(10, 0, 0, 1));
        after.restore(named(0), Ipv4Addr::new(198, 19, 0, 99));
        after.restore(named(51), Ipv4Addr::new(198, 19, 0, 1));
        after.check();
        assert_eq!(after.by_name.len(), 9);
        assert_eq!(after.find(&named(4)), before.find(&named(4)));
        assert_eq!(after.give(&named(9)).0, before.give(&named(9)).0);
    }
}
