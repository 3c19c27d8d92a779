//! Routing protocols' hellos: kept off the links while they say nothing new, and repeated on the
//! other side.
//!
//! Both ends of a link need it. The one at which a router speaks lets its hellos across when they
//! change, and once in each `refresh`; the other one gives the last of them to its own side, at the
//! protocol's pace, until `valid` after it came.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::{Duration, Instant, NeighbourId, Packet, PortId};
use strait_wire::ip::{Periodic, RoutingProtocol};

use super::config::HellosConfig;
use super::{Learned, Validity};
use crate::route::Hop;

/// Who says what, by which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    port: PortId,
    to: NeighbourId,
    protocol: RoutingProtocol,
    src: IpAddr,
}

impl Key {
    const fn way(self) -> Hop {
        Hop {
            port: self.port,
            to: self.to,
        }
    }
}

/// The hellos that crossed the links of a node, in either direction.
#[derive(Debug)]
pub(super) struct Hellos {
    protocols: Vec<RoutingProtocol>,
    refresh: Duration,
    valid: Duration,
    left: BTreeMap<Key, Left>,
    came: BTreeMap<Key, Came>,
}

/// What left last.
#[derive(Debug)]
struct Left {
    bytes: Vec<u8>,
    /// How often in a row.
    copies: u32,
    refresh_at: Instant,
}

/// What came last.
#[derive(Debug)]
struct Came {
    bytes: Vec<u8>,
    /// The host side that it went to.
    side: PortId,
    valid: Validity,
    each: Duration,
    next: Instant,
}

impl Hellos {
    /// Routers on each side that fit. With the limit below this is less than 100,000 octets.
    pub(super) const ROUTERS_MAX: usize = 64;
    /// The longest packet that is remembered: a RIP response is at most 532 octets, a hello of that
    /// size has 116 neighbours.
    pub(super) const OCTETS_MAX: usize = 532;
    /// Copies of something new that cross: one of them may be lost.
    pub(super) const COPIES: u32 = 3;

    pub(super) fn new(config: &HellosConfig) -> Self {
        let protocols = config.protocols.iter();
        Self {
            protocols: protocols.map(|protocol| protocol.0).collect(),
            refresh: config.refresh.0,
            valid: config.valid(),
            left: BTreeMap::new(),
            came: BTreeMap::new(),
        }
    }

    fn read(&self, packet: &Packet, way: Hop) -> Option<(Key, Periodic)> {
        let info = packet.info();
        let periodic = Periodic::of(packet.bytes(), info)?;
        let fits = packet.octets() <= Self::OCTETS_MAX;
        let wanted = self.protocols.contains(&periodic.protocol) && fits;
        let key = Key {
            port: way.port,
            to: way.to,
            protocol: periodic.protocol,
            src: info.src,
        };
        wanted.then_some((key, periodic))
    }

    /// Whether a packet that is about to leave by `by` says nothing that hasn't crossed a short
    /// time ago.
    pub(super) fn is_repeated(&mut self, now: Instant, packet: &Packet, by: Hop) -> bool {
        let Some((key, _)) = self.read(packet, by) else {
            return false;
        };
        let refresh_at = now + self.refresh;
        let known = self.left.get_mut(&key);
        if let Some(left) = known.filter(|left| Periodic::same(&left.bytes, packet.bytes())) {
            if left.copies >= Self::COPIES && now < left.refresh_at {
                return true;
            }
            left.copies = (left.copies + 1).min(Self::COPIES);
            left.refresh_at = refresh_at;
            return false;
        }
        if self.left.len() < Self::ROUTERS_MAX || self.left.contains_key(&key) {
            let left = Left {
                bytes: packet.bytes().into(),
                copies: 1,
                refresh_at,
            };
            self.left.insert(key, left);
        }
        false
    }

    /// Takes note of a packet that came by `from` for a host side.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        packet: &Packet,
        (from, side): (Hop, PortId),
        learned: &mut Learned,
    ) {
        let Some((key, periodic)) = self.read(packet, from) else {
            return;
        };
        if self.came.len() >= Self::ROUTERS_MAX && !self.came.contains_key(&key) {
            let first = self.came.iter().min_by_key(|(_, came)| came.valid.until);
            if let Some(first) = first.map(|(key, _)| *key) {
                self.came.remove(&first);
                learned.displaced += 1;
            }
        }
        let each = Duration::from_secs(periodic.interval_s.into());
        let came = Came {
            bytes: packet.bytes().into(),
            side,
            // The next one that crosses comes later than what is said once is believed.
            valid: Validity::begin(now, self.valid, true),
            each,
            next: now + each,
        };
        self.came.insert(key, came);
        learned.stored += 1;
    }

    /// The packets to repeat now, each at its host side.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(Vec<u8>, PortId)> {
        self.came.retain(|_, came| came.valid.holds(now));
        let mut due = Vec::new();
        for came in self.came.values_mut().filter(|came| came.next <= now) {
            due.push((came.bytes.clone(), came.side));
            // One that is late makes the next ones late: two at once would say nothing more.
            came.next = now + came.each;
        }
        due
    }

    /// When there is one.
    pub(super) fn wake(&self) -> Option<Instant> {
        let next = |came: &Came| came.next.min(came.valid.until);
        self.came.values().map(next).min()
    }

    /// Forgets what crossed by some ways; says how many packets that were repeated.
    pub(super) fn forget(&mut self, which: impl Fn(Hop) -> bool) -> u64 {
        let before = self.came.len();
        self.left.retain(|key, _| !which(key.way()));
        self.came.retain(|key, _| !which(key.way()));
        (before - self.came.len()) as u64
    }
}
