//! Every packet has exactly one fate per node.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_wire::ip::{PacketInfo, ParseError};

use crate::delay::DelayParts;
use crate::id::{ClassId, NeighbourId, PortId};
use crate::packet::Packet;
use crate::stats::Stats;
use crate::time::Instant;

/// Why a packet was destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum DropCause {
    /// It stayed in its class longer than the class's age limit.
    Aged,
    /// The node holding it stopped without warning.
    Crashed,
    /// Policy says that such packets don't pass.
    Filtered,
    /// Its hop limit ran out.
    HopLimit,
    /// No route leads to its destination.
    NoRoute,
    /// The port it had to leave by is down.
    PortDown,
    /// Its class's queue was full by octets.
    QueueOctets,
    /// Its class's queue was full by packets.
    QueuePackets,
    /// The node was stopped in order, with the packet still held.
    Stopped,
    /// Larger than the way allows, and not to be fragmented; its sender was told.
    TooBig,
    /// Every try to send it failed.
    Undelivered,
    /// Its flow's queue stayed too long (CoDel, RFC 8289), and its sender was to know.
    Codel,
    /// It was more than its class's policer allows.
    Policed,
    /// It waited, and its flow's queue was the longest when another packet needed the place.
    PushedOut,
    /// Dropped before the queue was full, by chance or by its code point's threshold (WRED).
    Wred,
    /// Background chatter that the port doesn't let out to the link.
    Chatter,
    /// Nobody on the local network has the address that it had to go to, or has said so yet.
    Unresolved,
    /// Of a call that the line can't carry beside those that were there before.
    NotAdmitted,
    /// It came a second time, by another way or from a neighbour that had begun anew.
    Duplicate,
    /// Its source doesn't lie where it came from, or nobody has such an address.
    WrongSource,
}

impl DropCause {
    /// All causes, in the order of the arrays indexed by them.
    pub const ALL: [Self; 20] = [
        Self::Aged,
        Self::Crashed,
        Self::Filtered,
        Self::HopLimit,
        Self::NoRoute,
        Self::PortDown,
        Self::QueueOctets,
        Self::QueuePackets,
        Self::Stopped,
        Self::TooBig,
        Self::Undelivered,
        Self::Codel,
        Self::Policed,
        Self::PushedOut,
        Self::Wred,
        Self::Chatter,
        Self::Unresolved,
        Self::NotAdmitted,
        Self::Duplicate,
        Self::WrongSource,
    ];

    /// The word in tables, status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aged => "aged",
            Self::Crashed => "crashed",
            Self::Filtered => "filtered",
            Self::HopLimit => "hop-limit",
            Self::NoRoute => "no-route",
            Self::PortDown => "port-down",
            Self::QueueOctets => "queue-octets",
            Self::QueuePackets => "queue-packets",
            Self::Stopped => "stopped",
            Self::TooBig => "too-big",
            Self::Undelivered => "undelivered",
            Self::Codel => "codel",
            Self::Policed => "policed",
            Self::PushedOut => "pushed-out",
            Self::Wred => "wred",
            Self::Chatter => "chatter",
            Self::Unresolved => "unresolved",
            Self::NotAdmitted => "not-admitted",
            Self::Duplicate => "duplicate",
            Self::WrongSource => "wrong-source",
        }
    }
}

/// What became of a packet in one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Given to a host side: by which port.
    Delivered(PortId),
    /// Left by a link port; its last octet is out.
    Forwarded {
        /// The port it left by.
        port: PortId,
        /// Whom it was sent to.
        to: NeighbourId,
    },
    /// The node replied for the destination.
    Answered,
    /// A proxy took its content over, or its information stands in another packet.
    Absorbed,
    /// Cut into IP fragments, each a packet of its own.
    Fragmented,
    /// Destroyed.
    Dropped(DropCause),
}

impl Fate {
    /// A number for hashes and journals.
    pub const fn code(self) -> u64 {
        match self {
            Self::Delivered(port) => 1 | (port.0 as u64) << 8,
            Self::Forwarded { port, to } => 2 | (port.0 as u64) << 8 | (to.0 as u64) << 16,
            Self::Answered => 3,
            Self::Absorbed => 4,
            Self::Fragmented => 5,
            Self::Dropped(cause) => 6 | (cause as u64) << 8,
        }
    }
}

/// The end of a packet's stay in a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FateRecord {
    /// The packet's identity along its path ([`strait_wire::ip::digest`]).
    pub digest: u64,
    /// When the node had it whole.
    pub began: Instant,
    /// When its fate was complete: for a forwarded packet, when its last octet has left.
    pub ended: Instant,
    /// Octets of the IP packet.
    pub octets: u32,
    /// The class it was in.
    pub class: ClassId,
    /// What became of it.
    pub fate: Fate,
    /// The node made it itself.
    pub own: bool,
    /// The node marked it «congestion experienced» instead of dropping it.
    pub marked: bool,
    /// Where the time from `began` to `ended` went.
    pub parts: DelayParts,
}

/// Where a packet came into a node's hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From outside, by a port.
    Port(PortId),
    /// The node made it: an ICMP error, a fragment, an answer.
    Own,
}

/// Opens and closes the account of each packet: nothing else makes or destroys one.
#[derive(Debug, Default)]
pub struct Ledger {
    stats: Stats,
    records: VecDeque<FateRecord>,
    /// Buffers of packets that ended, for packets to come.
    spare: Vec<Vec<u8>>,
}

impl Ledger {
    /// Fates that may wait for [`Ledger::poll`]. A driver that settles its node never gets near;
    /// past it the oldest record goes, counters stay right.
    const RECORDS_MAX: usize = 65_536;

    /// A ledger that counts into `stats`.
    pub const fn new(stats: Stats) -> Self {
        Self {
            stats,
            records: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// Takes octets in as a packet. Octets that are no IP packet are counted and refused.
    pub fn admit(
        &mut self,
        now: Instant,
        bytes: Vec<u8>,
        origin: Origin,
    ) -> Result<Packet, ParseError> {
        match PacketInfo::parse(&bytes) {
            Ok(info) => {
                match origin {
                    Origin::Port(_) => self.stats.admitted += 1,
                    Origin::Own => self.stats.originated += 1,
                }
                Ok(Packet::new(now, bytes, info, origin))
            }
            Err(error) => {
                self.stats.malformed += 1;
                Err(error)
            }
        }
    }

    /// Destroys a packet, for a reason.
    pub fn drop(&mut self, now: Instant, packet: Packet, cause: DropCause) {
        let bytes = self.close(now, packet, Fate::Dropped(cause));
        self.keep_spare(bytes);
    }

    /// Ends a packet's stay and gives its octets back, to be sent or used again.
    pub fn close(&mut self, ended: Instant, packet: Packet, fate: Fate) -> Vec<u8> {
        let (record, bytes) = packet.into_record(ended, fate);
        self.stats.count_fate(&record);
        if self.records.len() == Self::RECORDS_MAX {
            self.records.pop_front();
        }
        self.records.push_back(record);
        bytes
    }

    /// Buffers kept by [`Ledger::keep_spare`].
    const SPARE_MAX: usize = 64;

    /// An empty buffer for octets about to be admitted, used before if possible.
    pub fn spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps the buffer of a packet that ended.
    pub fn keep_spare(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < Self::SPARE_MAX {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    /// Ends a packet's stay and appends its octets to `out`. An empty `out` gets the packet's own
    /// buffer, so that nothing is copied.
    pub fn close_into(&mut self, ended: Instant, packet: Packet, fate: Fate, out: &mut Vec<u8>) {
        let mut bytes = self.close(ended, packet, fate);
        if out.is_empty() {
            core::mem::swap(out, &mut bytes);
        } else {
            out.extend_from_slice(&bytes);
        }
        self.keep_spare(bytes);
    }

    /// The next fate that the driver hasn't seen.
    pub fn poll(&mut self) -> Option<FateRecord> {
        let record = self.records.pop_front();
        if self.records.is_empty() {
            // An empty ring begins anew where it did before, in memory that is at hand.
            self.records.clear();
        }
        record
    }

    /// Whether a fate waits to be seen.
    pub fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Packets whose account is open.
    pub const fn held(&self) -> u64 {
        self.stats.held()
    }

    /// The counters.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The counters, to count what isn't a packet's fate.
    pub const fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }
}
