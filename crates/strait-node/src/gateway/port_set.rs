//! Some of a node's ports.

use strait_core::PortId;

/// A set of ports, cheap to copy and to walk in the order of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortSet([u64; 4]);

impl PortSet {
    /// The first `count` ports of a node.
    pub(super) fn first(count: usize) -> Self {
        (0..count.min(256)).map(|port| PortId(port as u8)).collect()
    }

    pub(super) const fn insert(&mut self, port: PortId) {
        self.0[port.index() / 64] |= 1 << (port.index() % 64);
    }

    pub(super) const fn remove(&mut self, port: PortId) {
        self.0[port.index() / 64] &= !(1 << (port.index() % 64));
    }

    pub(super) const fn contains(self, port: PortId) -> bool {
        self.0[port.index() / 64] >> (port.index() % 64) & 1 == 1
    }

    /// Those of either.
    pub(super) fn union(self, other: Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] | other.0[word]))
    }
}

impl FromIterator<PortId> for PortSet {
    fn from_iter<T: IntoIterator<Item = PortId>>(ports: T) -> Self {
        let mut set = Self::default();
        ports.into_iter().for_each(|port| set.insert(port));
        set
    }
}

impl IntoIterator for PortSet {
    type Item = PortId;
    type IntoIter = Members;

    fn into_iter(self) -> Members {
        Members(self)
    }
}

/// The members of a [`PortSet`] that haven't been told yet.
#[derive(Debug)]
pub(super) struct Members(PortSet);

impl Iterator for Members {
    type Item = PortId;

    fn next(&mut self) -> Option<PortId> {
        let place = self.0.0.iter().position(|word| *word != 0)?;
        let word = &mut self.0.0[place];
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        Some(PortId((place * 64) as u8 + bit as u8))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn it_holds_what_was_put_in_from_the_first_port_to_the_last() {
        let ports = [255, 0, 64, 63, 3].map(PortId);
        let mut set = PortSet::from_iter(ports);
        let members = |set: PortSet| set.into_iter().map(|port| port.0).collect::<Vec<_>>();
        assert_eq!(members(set), [0, 3, 63, 64, 255]);
        set.remove(PortId(64));
        set.remove(PortId(1));
        assert!(!set.contains(PortId(64)) && set.contains(PortId(255)));
        assert_eq!(members(set), [0, 3, 63, 255]);
        assert_eq!(members(PortSet::first(3)), [0, 1, 2]);
        assert_eq!(PortSet::first(256).into_iter().count(), 256);
    }
}
