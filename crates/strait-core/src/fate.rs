//! Every packet has exactly one fate per node.

use alloc::boxed::Box;
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
    /// The port that it had to leave by, or came by, carries no packets of its version of IP.
    NotCarried,
}

impl DropCause {
    /// All causes, in the order of the arrays indexed by them.
    pub const ALL: [Self; 21] = [
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
        Self::NotCarried,
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
            Self::NotCarried => "not-carried",
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

/// What a ledger writes to again and again, with nothing kept in it while its node rests. A driver
/// of many nodes lends them all the same ([`crate::Node::exchange`]): it stays in the processor's
/// cache. It begins with the first use.
#[derive(Debug, Default)]
pub struct Memory(Option<Box<Kept>>);

/// What a [`Memory`] has.
#[derive(Debug, Default)]
struct Kept {
    /// Fates that nobody has seen.
    records: VecDeque<FateRecord>,
    /// Buffers of packets that ended, for packets to come.
    spare: Vec<Vec<u8>>,
    /// Whole packets that are about to be admitted.
    arrived: Vec<Vec<u8>>,
}

impl Memory {
    /// Whether something is in it that mustn't get lost.
    fn keeps(&self) -> bool {
        let kept = self.0.as_ref();
        kept.is_some_and(|kept| !kept.records.is_empty() || !kept.arrived.is_empty())
    }

    fn get(&mut self) -> &mut Kept {
        self.0.get_or_insert_default()
    }
}

/// A datagram that comes back to who sent it.
#[derive(Debug, PartialEq, Eq)]
pub struct Returned {
    /// The packet.
    pub bytes: Vec<u8>,
    /// It may have left, and arrived.
    pub left: bool,
}

/// Opens and closes the account of each packet: nothing else makes or destroys one.
#[derive(Debug, Default)]
#[repr(C)] // What each packet meets of the counters lies right behind the memory.
pub struct Ledger {
    memory: Memory,
    stats: Stats,
    /// Datagrams of the node's own to this port are returned if their link gave them up, or they
    /// waited too long for it.
    watched: Option<u16>,
    returned: Vec<Returned>,
}

impl Ledger {
    /// Packets that wait for who sent them. Beyond, they are lost like others.
    const RETURNED_MAX: usize = 256;

    /// Fates that may wait for [`Ledger::poll`]. A driver that settles its node never gets near;
    /// past it the oldest record goes, counters stay right.
    const RECORDS_MAX: usize = 65_536;

    /// A ledger that counts into `stats`.
    pub const fn new(stats: Stats) -> Self {
        Self {
            memory: Memory(None),
            stats,
            watched: None,
            returned: Vec::new(),
        }
    }

    /// Works with another memory from now on, unless something is kept in one of them.
    pub fn exchange(&mut self, memory: &mut Memory) {
        if !self.memory.keeps() && !memory.keeps() {
            core::mem::swap(&mut self.memory, memory);
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
                self.stats.count_come(now, &info, origin);
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
        let left = cause == DropCause::Undelivered;
        let returns = (left || cause == DropCause::Aged) && self.is_watched(&packet);
        let bytes = self.close(now, packet, Fate::Dropped(cause));
        if returns && self.returned.len() < Self::RETURNED_MAX {
            self.returned.push(Returned { bytes, left });
        } else {
            self.keep_spare(bytes);
        }
    }

    /// Has datagrams that the node sends to this port returned if they are undelivered, or waited
    /// too long to leave: whoever repeats them needn't wait for an answer.
    pub const fn watch(&mut self, port: u16) {
        self.watched = Some(port);
    }

    fn is_watched(&self, packet: &Packet) -> bool {
        let to = packet.info().ports.map(|(_, to)| to);
        self.watched.is_some() && packet.origin() == Origin::Own && to == self.watched
    }

    /// What was returned, each once.
    pub fn take_returned(&mut self) -> Vec<Returned> {
        core::mem::take(&mut self.returned)
    }

    /// Ends a packet's stay and gives its octets back, to be sent or used again.
    pub fn close(&mut self, ended: Instant, packet: Packet, fate: Fate) -> Vec<u8> {
        let (record, info, bytes) = packet.into_record(ended, fate);
        self.stats.count_fate(&record);
        if let Some(talkers) = &mut self.stats.talkers {
            talkers.end(&info, &record);
        }
        let records = &mut self.memory.get().records;
        if records.len() == Self::RECORDS_MAX {
            records.pop_front();
        }
        records.push_back(record);
        bytes
    }

    /// Buffers kept by [`Ledger::keep_spare`].
    const SPARE_MAX: usize = 64;

    /// An empty buffer for octets about to be admitted, used before if possible.
    pub fn spare(&mut self) -> Vec<u8> {
        self.memory.get().spare.pop().unwrap_or_default()
    }

    /// Puts a copy of a whole packet by, which is about to be admitted.
    pub fn put_by(&mut self, packet: &[u8]) {
        let mut copy = self.spare();
        copy.extend_from_slice(packet);
        self.memory.get().arrived.push(copy);
    }

    /// What was put by, each once; the list comes back by [`Ledger::keep_list`].
    pub fn take_put_by(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.memory.get().arrived)
    }

    /// Keeps a list that [`Ledger::take_put_by`] gave.
    pub fn keep_list(&mut self, mut list: Vec<Vec<u8>>) {
        list.clear();
        self.memory.get().arrived = list;
    }

    /// Keeps the buffer of a packet that ended.
    pub fn keep_spare(&mut self, mut bytes: Vec<u8>) {
        let spare = &mut self.memory.get().spare;
        if spare.len() < Self::SPARE_MAX {
            bytes.clear();
            spare.push(bytes);
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
        let records = &mut self.memory.0.as_mut()?.records;
        let record = records.pop_front();
        if records.is_empty() {
            // An empty ring begins anew where it did before, in memory that is at hand.
            records.clear();
        }
        record
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_that_keeps_something_stays_where_it_is() {
        let (mut ledger, mut other) = (Ledger::default(), Memory::default());
        ledger.keep_spare(Vec::with_capacity(100));
        ledger.exchange(&mut other);
        let spare = |memory: &Memory| memory.0.as_ref().map_or(0, |kept| kept.spare.len());
        assert_eq!((ledger.spare().capacity(), spare(&other)), (0, 1));
        ledger.put_by(&[1, 2, 3]);
        ledger.exchange(&mut other);
        let arrived = ledger.take_put_by();
        assert_eq!(arrived, [[1, 2, 3]]);
        ledger.keep_list(arrived);
        ledger.exchange(&mut other);
        assert!(ledger.spare().capacity() >= 100);
    }

    #[test]
    fn a_watched_datagram_returns_if_its_link_gave_it_up() {
        let (now, mut ledger) = (Instant::ZERO, Ledger::default());
        let ends = |port: u16| ([10, 0, 0, 1], port).into();
        let packet = |port, ledger: &mut Ledger, origin| {
            let mut bytes = Vec::new();
            assert!(strait_wire::ip::build_udp(
                ends(port),
                ends(port),
                0,
                64,
                1,
                0,
                b"x",
                &mut bytes
            ));
            ledger.admit(now, bytes, origin).unwrap()
        };
        let (own, other) = (Origin::Own, Origin::Port(PortId(0)));
        ledger.watch(7480);
        let mut end = |port, origin, cause| {
            let packet = packet(port, &mut ledger, origin);
            ledger.drop(now, packet, cause);
            let returned = ledger.take_returned().into_iter();
            returned.map(|it| it.left).collect::<Vec<_>>()
        };
        assert_eq!(end(7480, own, DropCause::Undelivered), [true]);
        assert_eq!(end(7480, own, DropCause::Aged), [false]);
        assert_eq!(end(7480, own, DropCause::PortDown), []);
        for cause in [DropCause::Undelivered, DropCause::Aged] {
            assert_eq!(end(7480, other, cause), []);
            assert_eq!(end(7481, own, cause), []);
        }
    }
}
