//! Small numbers that name things inside one node.

/// A node's attachment to a medium, numbered in the order of its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u8);

impl PortId {
    /// By convention the first port is the host side: where applications are.
    pub const HOST: Self = Self(0);

    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who is at the other end of a shared port; 0 on a port with one neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeighbourId(pub u16);

impl NeighbourId {
    /// The only neighbour of a point-to-point port.
    pub const PEER: Self = Self(0);
    /// Everyone on a shared port.
    pub const ALL: Self = Self(u16::MAX);

    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Some of a port's neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbours(u64);

impl Neighbours {
    /// All of them.
    pub const ALL: Self = Self(u64::MAX);
    /// Nobody.
    pub const NONE: Self = Self(0);
    /// Neighbours with numbers below this can be told from others.
    pub const TOLD_MAX: u16 = 64;

    /// The set whose bits, that of the neighbour 0 last, are these.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// A bit for each neighbour, that of the neighbour 0 last.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether the neighbour is one of them. One that can't be told from others is, if all are;
    /// so is [`NeighbourId::ALL`].
    pub const fn contains(self, neighbour: NeighbourId) -> bool {
        if neighbour.0 < Self::TOLD_MAX {
            self.0 >> neighbour.0 & 1 == 1
        } else {
            self.0 == u64::MAX
        }
    }

    /// The same without one; nothing changes if that can't be told from others.
    #[must_use]
    pub const fn without(self, neighbour: NeighbourId) -> Self {
        if neighbour.0 < Self::TOLD_MAX {
            Self(self.0 & !(1 << neighbour.0))
        } else {
            self
        }
    }
}

/// A class of service, numbered in the order of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u8);

impl ClassId {
    /// The number as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One transmission, so that its [`crate::node::Input::TxDone`] can be told from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_told_apart_up_to_64() {
        let some = Neighbours::ALL
            .without(NeighbourId(0))
            .without(NeighbourId(63));
        let has = |number| some.contains(NeighbourId(number));
        assert_eq!([0, 1, 62, 63].map(has), [false, true, true, false]);
        assert!(!has(64) && !some.contains(NeighbourId::ALL));
        assert!(Neighbours::ALL.contains(NeighbourId(64)));
        assert!(Neighbours::ALL.contains(NeighbourId::ALL));
        assert!(!Neighbours::NONE.contains(NeighbourId(64)));
        assert_eq!(some.without(NeighbourId(64)), some);
        assert_eq!(Neighbours::from_bits(some.bits()), some);
    }
}
