//! Inputs and outputs of a station.

use alloc::vec::Vec;
use core::ops::Add;

use strait_core::Instant;

use crate::address::Address;

/// Data that a caller hands over for sending.
#[derive(Debug)]
pub struct Offer<T> {
    /// The number of the peer.
    pub to: usize,
    /// The C_PDU, its first octet included.
    pub c_pdu: Vec<u8>,
    /// With repeats until it has come.
    pub arq: bool,
    /// Ahead of all that isn't.
    pub expedited: bool,
    /// It goes before repeats of others.
    pub urgent: bool,
    /// It is to be delivered in order.
    pub in_order: bool,
    /// Without ARQ: times that it is sent, at least one.
    pub copies: u32,
    /// Given back with the outcome.
    pub ticket: T,
}

/// The outcome of an offer.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// The number of the peer.
    pub to: usize,
    /// The offer's.
    pub ticket: T,
    /// It was acknowledged, or has left without ARQ.
    pub delivered: bool,
    /// When its first octet left.
    pub began: Instant,
    /// When all of it had left once.
    pub sent: Instant,
    /// When the last of it left, repeats included.
    pub left: Instant,
}

/// A C_PDU with client data that arrived whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of the peer, or of the place of a stranger; none of one that has no place, whose
    /// data arrives without ARQ.
    pub from: Option<usize>,
    /// Its address.
    pub source: Address,
    /// This station, or a group of it.
    pub to: Address,
    /// With ARQ.
    pub arq: bool,
    /// Expedited.
    pub expedited: bool,
    /// The C_PDU, its first octet included.
    pub c_pdu: Vec<u8>,
    /// Without ARQ: offset and length of damaged parts.
    pub damaged: Vec<(u16, u16)>,
    /// The same of missing parts.
    pub missing: Vec<(u16, u16)>,
}

/// Data waiting for a peer, beside the offered data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Octets of it.
    pub octets: usize,
    /// C_PDUs.
    pub count: usize,
}

impl Add for Waiting {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            octets: self.octets + other.octets,
            count: self.count + other.count,
        }
    }
}
