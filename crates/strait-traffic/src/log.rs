//! What one host saw of a traffic.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strait_core::Instant;
use strait_tcp::{TcpCounters, TcpError, TcpEvent};

use crate::measure::TransferRecord;
use crate::pair::PairRecord;

/// Which end of a traffic a log is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The host that begins.
    From,
    /// The other.
    To,
}

/// A packet that left or arrived, or octets of a transfer that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Number of the packet, or octets that arrived before these.
    pub sequence: u64,
    /// When, in nanoseconds of a clock that both logs share.
    pub at_ns: u64,
    /// Octets of payload.
    pub octets: u32,
}

/// How a transfer over connections went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// When the first connection was asked for.
    pub started_ns: Option<u64>,
    /// When it was open.
    pub connected_ns: Option<u64>,
    /// When it was secured by TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secured_ns: Option<u64>,
    /// When the last octet had arrived at the application.
    pub finished_ns: Option<u64>,
    /// Octets of content that arrived.
    pub octets: u64,
    /// Those of them that were wrong.
    pub wrong_octets: u64,
    /// Objects of a page in the order of arrival.
    pub objects: Vec<ObjectMark>,
    /// Connections that failed.
    pub failed_connections: u64,
    /// Why the last of them failed.
    pub error: Option<TcpError>,
    /// What this end's connections counted.
    pub tcp: TcpCounters,
    /// When this end sent a segment again, in nanoseconds, and octets of its stream before it;
    /// for a transfer over one connection.
    pub repeats: Vec<(u64, u64)>,
}

impl Transfer {
    /// Keeps an event that results show one by one; counters have the sums of all.
    pub fn note(&mut self, event: &TcpEvent) {
        if event.kind.is_repeat() && self.repeats.len() < FlowLog::MARKS_MAX {
            self.repeats.push((event.at.as_nanos(), event.position));
        }
    }
}

/// An object of a page that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectMark {
    /// Its number.
    pub index: u32,
    /// When its last octet arrived.
    pub at_ns: u64,
    /// Octets without header.
    pub octets: u64,
}

/// What one host saw of a traffic. The form is the same for simulated and real applications; both
/// logs of a traffic need one clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowLog {
    /// Name of the traffic.
    pub traffic: String,
    /// Which end.
    pub side: Side,
    /// Packets sent, in order.
    pub sent: Vec<Mark>,
    /// Packets (for ping: replies) received, in the order of arrival.
    pub received: Vec<Mark>,
    /// For traffic over connections.
    pub transfer: Option<Transfer>,
    /// Measured transfers, of the host that begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measured: Vec<TransferRecord>,
    /// Packet pairs and trains, of the host that begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<PairRecord>,
    /// Anything else, by name.
    pub counters: BTreeMap<String, u64>,
}

impl FlowLog {
    /// Marks that a log keeps of each sort. What comes later is counted as `unlogged` and missing
    /// in results: 10 million packets are a day at 115 packets a second.
    pub const MARKS_MAX: usize = 10_000_000;

    /// An empty log.
    pub fn new(traffic: impl Into<String>, side: Side) -> Self {
        Self {
            traffic: traffic.into(),
            side,
            sent: Vec::new(),
            received: Vec::new(),
            transfer: None,
            measured: Vec::new(),
            pairs: Vec::new(),
            counters: BTreeMap::new(),
        }
    }

    /// Notes a packet sent.
    pub fn sent(&mut self, now: Instant, sequence: u64, octets: u32) {
        let mark = Mark {
            sequence,
            at_ns: now.as_nanos(),
            octets,
        };
        if self.sent.len() < Self::MARKS_MAX {
            self.sent.push(mark);
        } else {
            self.count("unlogged");
        }
    }

    /// Notes a packet received.
    pub fn received(&mut self, now: Instant, sequence: u64, octets: u32) {
        let mark = Mark {
            sequence,
            at_ns: now.as_nanos(),
            octets,
        };
        if self.received.len() < Self::MARKS_MAX {
            self.received.push(mark);
        } else {
            self.count("unlogged");
        }
    }

    /// Counts something by name.
    pub fn count(&mut self, what: &str) {
        self.add(what, 1);
    }

    /// Counts so many of something.
    pub fn add(&mut self, what: &str, more: u64) {
        match self.counters.get_mut(what) {
            Some(count) => *count += more,
            None if more > 0 => {
                self.counters.insert(what.into(), more);
            }
            None => {}
        }
    }

    /// The transfer's part, made if there is none yet.
    pub fn transfer(&mut self) -> &mut Transfer {
        self.transfer.get_or_insert_default()
    }
}
