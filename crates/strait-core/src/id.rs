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
