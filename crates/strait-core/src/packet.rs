//! An IP packet in a node's hands.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use strait_wire::hbh::Ingress;
use strait_wire::ip::{self, PacketInfo};

use crate::delay::{DelayClock, DelayPart};
use crate::fate::{Fate, FateRecord, Origin};
use crate::id::{ClassId, NeighbourId};
use crate::time::{Duration, Instant};

/// A packet with an open account: made by [`crate::Ledger::admit`], ended by
/// [`crate::Ledger::close`] or [`crate::Ledger::drop`], so that it has exactly one fate.
///
/// It is a pointer: from its way in to its way out it changes hands some twenty times, and what is
/// known of it stays where it is.
#[derive(Debug)]
#[must_use = "a packet must be given a fate by the ledger"]
pub struct Packet(Box<Known>);

/// What is known of a [`Packet`].
#[derive(Debug)]
pub struct Known {
    bytes: Vec<u8>,
    info: PacketInfo,
    digest: u64,
    clock: DelayClock,
    origin: Origin,
    marked: bool,
    /// The class that the policy chose.
    pub class: ClassId,
    /// The neighbour that routing chose.
    pub to: NeighbourId,
    /// The neighbour that sent it, of those of the port in [`Packet::origin`].
    pub from: NeighbourId,
    /// How many links its way has behind that neighbour, as far as is known.
    pub onward: u8,
    /// When the packet is too old to be worth sending; [`Instant::NEVER`] if it never is.
    pub expires: Instant,
    /// Where it came into a network of reliable hops, if it is in one.
    pub ingress: Option<Ingress>,
    /// How often it may still be sent again on the rest of its path, if that is counted.
    pub retries: Option<u8>,
}

impl Deref for Packet {
    type Target = Known;

    fn deref(&self) -> &Known {
        &self.0
    }
}

impl DerefMut for Packet {
    fn deref_mut(&mut self) -> &mut Known {
        &mut self.0
    }
}

impl Packet {
    pub(crate) fn new(now: Instant, bytes: Vec<u8>, info: PacketInfo, origin: Origin) -> Self {
        Self(Box::new(Known {
            digest: ip::digest(&bytes),
            bytes,
            info,
            clock: DelayClock::start(now),
            origin,
            marked: false,
            class: ClassId::default(),
            to: NeighbourId::PEER,
            from: NeighbourId::PEER,
            onward: 0,
            expires: Instant::NEVER,
            ingress: None,
            retries: None,
        }))
    }

    /// The octets.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What the headers say.
    pub const fn info(&self) -> &PacketInfo {
        &self.0.info
    }

    /// Octets of the packet.
    pub const fn octets(&self) -> usize {
        self.0.info.octets as usize
    }

    /// The packet's identity along its path.
    pub const fn digest(&self) -> u64 {
        self.0.digest
    }

    /// Where the node got it.
    pub const fn origin(&self) -> Origin {
        self.0.origin
    }

    /// When the node had it whole.
    pub const fn began(&self) -> Instant {
        self.0.clock.began()
    }

    /// Charges the time so far to the present delay part and changes to `part`.
    pub fn enter(&mut self, now: Instant, part: DelayPart) {
        self.clock.enter(now, part);
    }

    /// Rewrites the code point.
    pub fn set_dscp(&mut self, dscp: u8) {
        if dscp != self.info.dscp {
            ip::set_dscp(&mut self.bytes, dscp);
            self.info.dscp = dscp & 0x3f;
        }
    }

    /// Marks «congestion experienced» (RFC 3168 section 5), which a sender answers as it would a
    /// loss. `false` if its transport doesn't know the mark; it is unchanged then.
    pub fn mark_congestion(&mut self) -> bool {
        let marked = ip::set_ecn_ce(&mut self.bytes);
        if marked {
            self.info.ecn = 3;
            self.marked = true;
        }
        marked
    }

    /// Counts a hop; false if the packet has none left (it is unchanged then).
    pub fn decrement_hop_limit(&mut self) -> bool {
        let left = ip::decrement_hop_limit(&mut self.bytes);
        if left {
            self.info.hop_limit -= 1;
        }
        left
    }

    /// Lowers the maximum segment size that a TCP SYN announces.
    pub fn clamp_mss(&mut self, mss_max: u16) -> bool {
        ip::clamp_mss(&mut self.bytes, mss_max)
    }

    pub(crate) fn into_record(
        self,
        ended: Instant,
        fate: Fate,
    ) -> (FateRecord, PacketInfo, Vec<u8>) {
        let began = self.clock.began();
        let parts = self.clock.stop(ended);
        let record = FateRecord {
            digest: self.digest,
            began,
            // Later than `ended` if octets were pulled ahead of time and lost before they left.
            ended: began + Duration::from_nanos(parts.total_ns()),
            octets: self.info.octets,
            class: self.class,
            fate,
            own: self.origin == Origin::Own,
            marked: self.marked,
            parts,
        };
        let Known { info, bytes, .. } = *self.0;
        (record, info, bytes)
    }
}
