//! The protocol as a part of a node (RFC 3626 sections 3.4, 6 to 13).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strait_core::chance::Stream;
use strait_core::prefix::Prefix;
use strait_core::stats::OlsrStats;
use strait_core::time::nanos;
use strait_core::{Duration, Instant, NeighbourId, PortId};

use crate::message::{
    HELLO, HNA, Header, Hello, MID, Message, PACKET_HEADER, QUALITY, Quality, TC, packet, parse,
    put_hello, put_hna, put_qualities, put_tc,
};
use crate::neighbours::{Changes, Neighbours};
use crate::topology::{Change, Topology};

/// The UDP port that it has.
pub const PORT: u16 = 698;
/// Where packets go in IPv4: to all that hear them.
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::BROADCAST;
/// Where they go in IPv6: to all mobile routers on the link (RFC 5498).
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x6d);

/// Messages that are remembered, so that none is taken or passed on twice.
const DUPLICATES_MAX: usize = 4096;
/// How long each is.
const DUPLICATE_HOLD: Duration = Duration::from_secs(30);
/// Octets of messages that wait to be sent.
const OUTBOX_OCTETS_MAX: usize = 32 * 1024;
/// Addresses that a message has at most: each may be of another kind, and has 4 octets more.
const ADDRESSES_MAX: usize = 48;
/// How often a copy goes again that a medium couldn't deliver.
const REPEATS_MAX: u8 = 3;
/// Neighbours that each get a copy, if there are no more.
const COPIES_MAX: usize = 4;
/// Hops that a message may take.
const TTL: u8 = 255;

/// A way to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Via {
    /// By which port.
    pub port: PortId,
    /// To whom on it.
    pub to: NeighbourId,
}

/// What a router is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its main address, and that at each port.
    pub main: IpAddr,
    /// The ports by which it finds neighbours.
    pub ports: Vec<PortId>,
    /// The longest payload of a packet, in octets.
    pub octets_max: usize,
    /// Networks behind it, of the same family.
    pub networks: Vec<Prefix>,
    /// How much it wants to be a relay: 0 never, 7 always.
    pub willingness: u8,
    /// Time between hellos; what they say holds three times as long.
    pub hello: Duration,
    /// Time between messages to all; what they say holds three times as long.
    pub tc: Duration,
    /// A link has to prove itself before it is used (section 14).
    pub hysteresis: bool,
    /// Relays get a copy of what is for all, or all neighbours where there are few.
    pub copies: bool,
    /// A neighbour that the medium can't deliver to is lost at once (section 13).
    pub notice: bool,
    /// Routes have the least sum of transmissions that links take, as the losses of packets tell;
    /// else the fewest hops.
    pub etx: bool,
}

impl Settings {
    /// Whether a prefix is this node's, or part of what lies behind it.
    pub(crate) fn is_own(&self, prefix: Prefix) -> bool {
        let mut networks = self.networks.iter();
        let behind = |own: &Prefix| own.length <= prefix.length && own.contains(prefix.address);
        let host = prefix.address == self.main && prefix.network().address == self.main;
        networks.any(behind) || host
    }
}

/// A router of one family.
#[derive(Debug)]
pub struct Router {
    settings: Settings,
    neighbours: Neighbours,
    topology: Topology,
    /// By who made it and its number: until when it is remembered.
    duplicates: BTreeMap<(IpAddr, u16), Instant>,
    /// Messages for all ports, with when they are to leave at the latest.
    outbox: Vec<(Instant, Vec<u8>)>,
    /// Packets ready to leave.
    packets: Vec<(Via, Vec<u8>)>,
    /// The last copy for each neighbour that may not have it yet, and how often it may go again.
    copies: BTreeMap<Via, (Vec<u8>, u8)>,
    changes: Vec<Change>,
    next_hello: Instant,
    last_hello: Instant,
    /// Since when nothing has changed among neighbours, and each could be told.
    calm_since: Instant,
    next_tc: Instant,
    last_tc: Instant,
    /// Until when it goes on telling of nobody, once nobody has it for a relay.
    empty_until: Instant,
    /// Number of the set of those who have it for a relay.
    set_number: u16,
    /// Whom the last set had, where that is all neighbours.
    told: Vec<IpAddr>,
    message_number: u16,
    /// By port, that of the last packet there.
    packet_numbers: BTreeMap<PortId, u16>,
    /// When it has something to do.
    due: Instant,
    chance: Stream,
    stats: OlsrStats,
}

impl Router {
    /// A router that hears nobody yet; its first hello is due within an interval.
    pub fn new(settings: Settings, seed: u64) -> Self {
        let mut chance = Stream::new(seed, "olsr");
        let first = |within: Duration, chance: &mut Stream| {
            Instant::from_nanos(chance.below(nanos(within).max(1)))
        };
        let next_hello = first(settings.hello / 4, &mut chance);
        let next_tc = first(settings.tc, &mut chance);
        Self {
            neighbours: Neighbours::default(),
            topology: Topology::default(),
            duplicates: BTreeMap::new(),
            outbox: Vec::new(),
            packets: Vec::new(),
            copies: BTreeMap::new(),
            changes: Vec::new(),
            next_hello,
            last_hello: Instant::ZERO,
            calm_since: Instant::ZERO,
            next_tc,
            last_tc: Instant::ZERO,
            empty_until: Instant::ZERO,
            set_number: 0,
            told: Vec::new(),
            // A number that those who remember an earlier start have no message of.
            message_number: chance.draw() as u16,
            packet_numbers: BTreeMap::new(),
            due: next_hello.min(next_tc),
            chance,
            stats: OlsrStats::default(),
            settings,
        }
    }

    /// Its main address.
    pub const fn main(&self) -> IpAddr {
        self.settings.main
    }

    /// Whether it finds neighbours by a port.
    pub fn has_port(&self, port: PortId) -> bool {
        self.settings.ports.contains(&port)
    }

    /// Takes the payload of a packet from an address, which came by a way.
    pub fn hear(&mut self, now: Instant, via: Via, from: IpAddr, payload: &[u8]) {
        if !self.has_port(via.port) || from == self.settings.main {
            return;
        }
        let Ok((number, messages)) = parse(payload, self.settings.main.is_ipv6()) else {
            self.stats.malformed += 1;
            return;
        };
        let is_new = (self.neighbours).hear(now, (via, from), number, &self.settings);
        self.stats.packets_in += u64::from(is_new);
        for message in messages {
            self.take(now, via, from, &message);
        }
        self.due = now;
    }

    fn take(&mut self, now: Instant, via: Via, from: IpAddr, message: &Message<'_>) {
        let header = message.header;
        if header.ttl == 0 || header.originator == self.settings.main {
            return;
        }
        if header.kind == HELLO {
            match message.hello() {
                Ok(hello) => {
                    let (own, on) = ((header.originator, header.valid), &self.settings);
                    let changes = self.neighbours.take(now, (via, from), own, &hello, on);
                    self.note(now, changes);
                }
                Err(_) => self.stats.malformed += 1,
            }
            return;
        }
        let Some(sender) = self.neighbours.at(now, via, from) else {
            return;
        };
        let key = (header.originator, header.sequence);
        if self.duplicates.contains_key(&key) {
            return;
        }
        if self.duplicates.len() >= DUPLICATES_MAX {
            self.duplicates.retain(|_, until| now < *until);
            if self.duplicates.len() >= DUPLICATES_MAX {
                self.stats.crowded += 1;
                return;
            }
        }
        if !self.read(now, message) {
            self.stats.malformed += 1;
            return;
        }
        let passes = header.ttl > 1 && self.neighbours.has_selector(sender);
        self.duplicates.insert(key, now + DUPLICATE_HOLD);
        if passes {
            self.pass_on(now, message);
        }
    }

    /// Learns from a message to all. False if it can't be read.
    fn read(&mut self, now: Instant, message: &Message<'_>) -> bool {
        let header = message.header;
        let (by, until) = (header.originator, now + header.valid);
        let topology = &mut self.topology;
        let read = match header.kind {
            TC => message.tc().map(|set| topology.take_tc(by, set, until)),
            MID => message
                .mid()
                .map(|others| topology.take_mid(by, others, until)),
            QUALITY if self.settings.etx => message.qualities().map(|all| {
                let own = all.iter().find(|it| it.of == self.settings.main);
                if let Some(own) = own {
                    self.neighbours.arrives(by, own.comes);
                }
                topology.take_qualities(by, &all, until);
            }),
            HNA => message.hna().map(|all| topology.take_hna(by, all, until)),
            // Others may know what it is.
            _ => Ok(()),
        };
        read.is_ok()
    }

    /// Passes a message on, a little later than others do (section 3.4.1).
    fn pass_on(&mut self, now: Instant, message: &Message<'_>) {
        let waiting: usize = self.outbox.iter().map(|(_, message)| message.len()).sum();
        if waiting + message.whole.len() > OUTBOX_OCTETS_MAX {
            self.stats.crowded += 1;
            return;
        }
        self.stats.forwarded += 1;
        let at = now + self.jitter();
        self.outbox.push((at, message.onward()));
    }

    /// The medium could, or couldn't, deliver a frame to whom a way leads.
    pub fn tell(&mut self, now: Instant, via: Via, ok: bool) {
        self.repeat(now, via, ok);
        if self.settings.notice && self.neighbours.tell(now, via, ok, self.settings.hello * 3) {
            self.stats.noticed += 1;
            let lost = Changes {
                lost: true,
                selectors: false,
            };
            self.note(now, lost);
            self.due = now;
        }
    }

    /// A packet of whatever kind came by a way.
    pub fn comes(&mut self, via: Via) {
        if self.settings.notice {
            self.neighbours.comes(via);
        }
    }

    /// Sends the last copy for a neighbour again that it may not have. Where a frame was another's,
    /// it has one copy more than it needs, or one less.
    fn repeat(&mut self, now: Instant, via: Via, ok: bool) {
        if ok {
            self.copies.remove(&via);
        } else if let Some((copy, left)) = self.copies.get_mut(&via) {
            match left.checked_sub(1) {
                Some(less) => {
                    *left = less;
                    self.packets.push((via, copy.clone()));
                }
                None => self.calm_since = now,
            }
            self.due = now;
        }
    }

    /// Something changed among neighbours: who should know of it is told before the time, but not
    /// more often than four times an interval (sections 8.3 and 9.3).
    fn note(&mut self, now: Instant, changes: Changes) {
        if changes.lost {
            self.hurry_hello(now);
            self.hurry_tc(now);
        }
        if changes.selectors {
            self.set_number = self.set_number.wrapping_add(1);
            self.empty_until = now + self.settings.tc * 3;
            self.hurry_tc(now);
        }
    }

    /// Whether hellos tell nothing new to few neighbours that hear and are heard, on a medium that
    /// says whether they have them. Then half as many do: each of these frames may meet one of a
    /// station that doesn't hear this one.
    fn is_calm(&self, now: Instant) -> bool {
        self.settings.notice
            && self.settings.copies
            && self.calm_since + self.settings.hello * 3 <= now
            && self.neighbours.are_mutual(now, COPIES_MAX)
    }

    fn hurry_hello(&mut self, now: Instant) {
        let soonest = self.last_hello + self.settings.hello / 4;
        self.next_hello = self.next_hello.min(now.max(soonest));
    }

    fn hurry_tc(&mut self, now: Instant) {
        let soonest = self.last_tc + self.settings.hello / 4;
        self.next_tc = self.next_tc.min(now.max(soonest));
    }

    /// A time up to a quarter of the interval of hellos (section 3.4.1).
    fn jitter(&mut self) -> Duration {
        let most = nanos(self.settings.hello / 4).max(1);
        Duration::from_nanos(self.chance.below(most))
    }

    /// Does what is due.
    pub fn settle(&mut self, now: Instant) {
        if now < self.due {
            return;
        }
        let changes = self.neighbours.advance(now, &self.settings);
        self.note(now, changes);
        self.topology.advance(now);
        let near = self.neighbours.stirred(now);
        if near {
            self.calm_since = now;
        }
        if near | self.topology.stirred() {
            self.find_routes(now);
        }
        if !self.is_calm(now) {
            self.next_hello = self.next_hello.min(self.last_hello + self.settings.hello);
        }
        self.neighbours.count(now, &mut self.stats);
        if self.next_hello <= now {
            self.say_hello(now);
        }
        if self.next_tc <= now {
            if self.goes_along(now) {
                self.next_tc = self.next_hello;
            } else {
                self.tell_all(now);
            }
        }
        if self.outbox.iter().any(|(at, _)| *at <= now) {
            self.flush(now, &[]);
        }
        self.plan(now);
    }

    /// Whether what all are told now may wait for a hello that is near: it is no news, and each
    /// packet less is a frame less that meets others' in the air.
    fn goes_along(&self, now: Instant) -> bool {
        let quarter = self.settings.hello / 4;
        let in_time = self.last_tc + self.settings.tc.saturating_sub(quarter);
        in_time <= now && self.next_hello <= now + 2 * quarter
    }

    fn find_routes(&mut self, now: Instant) {
        let own = self.settings.main;
        let (topology, etx) = (&self.topology, self.settings.etx);
        let cost = |by, far| topology.cost(by, far).filter(|_| etx);
        if self.neighbours.choose_relays(now, own, cost) {
            self.hurry_hello(now);
        }
        let changes = self
            .topology
            .find_routes(now, &self.settings, &self.neighbours);
        self.stats.changes += changes.len() as u64;
        self.changes.extend(changes);
        self.stats.routes = self.topology.routes() as u64;
    }

    fn plan(&mut self, now: Instant) {
        let outbox = self.outbox.iter().map(|(at, _)| *at).min();
        let all = [
            self.next_hello,
            self.next_tc,
            outbox.unwrap_or(Instant::NEVER),
            self.neighbours.due(now, &self.settings),
            self.topology.due(),
        ];
        self.due = all.into_iter().min().unwrap_or(Instant::NEVER);
    }

    fn header(&mut self, kind: u8, valid: Duration, ttl: u8) -> Header {
        self.message_number = self.message_number.wrapping_add(1);
        Header {
            kind,
            valid,
            originator: self.settings.main,
            ttl,
            hops: 0,
            sequence: self.message_number,
        }
    }

    const fn address_octets(&self) -> usize {
        if self.settings.main.is_ipv6() { 16 } else { 4 }
    }

    /// Says at each port who is heard there, and along with it what else waits or is due soon.
    fn say_hello(&mut self, now: Instant) {
        let willingness = self.settings.willingness;
        // Of a medium that says nothing of what it delivers, copies stay.
        let calm = self.copies.is_empty() && self.is_calm(now);
        let interval = self.settings.hello * if calm { 2 } else { 1 };
        self.last_hello = now;
        self.next_hello = now + interval.saturating_sub(self.jitter());
        let mut hellos = Vec::new();
        for port in self.settings.ports.clone() {
            let all = self.neighbours.links_at(now, port);
            // Who has many neighbours tells of them in several messages.
            let room = self.settings.octets_max.saturating_sub(40);
            let most = ADDRESSES_MAX.min(room / (self.address_octets() + 4));
            let none = all.is_empty().then_some(&[][..]);
            for links in none.into_iter().chain(all.chunks(most.max(1))) {
                let hello = Hello {
                    interval,
                    willingness,
                    links: links.to_vec(),
                };
                let header = self.header(HELLO, interval * 3, 1);
                let mut message = Vec::new();
                put_hello(&header, &hello, &mut message);
                hellos.push((port, message));
            }
            for message in self.qualities(now, interval * 3, 1) {
                hellos.push((port, message));
            }
        }
        if self.next_tc <= now + interval / 2 {
            self.tell_all(now);
        }
        self.flush(now, &hellos);
    }

    /// Messages that say how good the links to neighbours are; none where nobody asks.
    fn qualities(&mut self, now: Instant, valid: Duration, ttl: u8) -> Vec<Vec<u8>> {
        if !self.settings.etx {
            return Vec::new();
        }
        let room = self.settings.octets_max.saturating_sub(40);
        let most = (room / (self.address_octets() + 2)).max(1);
        let all: Vec<Quality> = self.neighbours.qualities(now);
        let some = all.chunks(most).map(|some| {
            let mut message = Vec::new();
            let header = self.header(QUALITY, valid, ttl);
            put_qualities(&header, some, &mut message);
            message
        });
        some.collect()
    }

    /// Whom it tells all of: those who have it for a relay, or by costs all neighbours (the
    /// TC_REDUNDANCY of section 15.1 is 0 or 2). A way of least cost goes by others than relays.
    fn reached(&mut self, now: Instant) -> Vec<IpAddr> {
        if !self.settings.etx {
            return self.neighbours.selectors().collect();
        }
        let near = self.neighbours.qualities(now);
        let near: Vec<IpAddr> = near.iter().map(|quality| quality.of).collect();
        if near != self.told {
            self.set_number = self.set_number.wrapping_add(1);
            self.empty_until = now + self.settings.tc * 3;
            self.told.clone_from(&near);
        }
        near
    }

    /// Tells all whom this node reaches, and what lies behind it.
    fn tell_all(&mut self, now: Instant) {
        let interval = self.settings.tc;
        self.last_tc = now;
        self.next_tc = now + interval.saturating_sub(self.jitter());
        self.duplicates.retain(|_, until| now < *until);
        let near = &self.neighbours;
        self.copies
            .retain(|via, _| near.symmetric(now).any(|(it, _)| it == *via));
        let reached = self.reached(now);
        // Those who knew of some learn that there are none.
        if !reached.is_empty() || now < self.empty_until {
            // As many messages as it takes tell of one set (section 9.1).
            let room = self.settings.octets_max.saturating_sub(40);
            let most = (room / self.address_octets()).max(1);
            let none = reached.is_empty().then_some(&[][..]);
            for some in none.into_iter().chain(reached.chunks(most)) {
                let header = self.header(TC, interval * 3, TTL);
                let mut message = Vec::new();
                put_tc(&header, self.set_number, some.iter().copied(), &mut message);
                self.outbox.push((now, message));
            }
        }
        for message in self.qualities(now, interval * 3, TTL) {
            self.outbox.push((now, message));
        }
        let room = self.settings.octets_max.saturating_sub(40);
        let networks_max = (room / (2 * self.address_octets())).clamp(1, 30);
        for networks in self.settings.networks.clone().chunks(networks_max) {
            let header = self.header(HNA, interval * 3, TTL);
            let mut message = Vec::new();
            put_hna(&header, networks, &mut message);
            self.outbox.push((now, message));
        }
    }

    /// Makes packets of all that waits, at each port with the hellos for it.
    fn flush(&mut self, now: Instant, hellos: &[(PortId, Vec<u8>)]) {
        let shared = core::mem::take(&mut self.outbox);
        for port in self.settings.ports.clone() {
            let own = hellos.iter().filter(|(at, _)| *at == port);
            let own = own.map(|(_, message)| &message[..]);
            let mut open: Vec<&[u8]> = Vec::new();
            let mut octets = PACKET_HEADER;
            for message in own.chain(shared.iter().map(|(_, message)| &message[..])) {
                if octets + message.len() > self.settings.octets_max && !open.is_empty() {
                    self.pack(now, port, &open);
                    open.clear();
                    octets = PACKET_HEADER;
                }
                octets += message.len();
                open.push(message);
            }
            if !open.is_empty() {
                self.pack(now, port, &open);
            }
        }
    }

    /// Makes a packet for all, and copies for those who pass on what this node says, or for all
    /// neighbours where there are few: of frames for one station, media mostly know whether it has
    /// them, and repeat them. Those for all are lost among stations that don't hear each other.
    fn pack(&mut self, now: Instant, port: PortId, messages: &[&[u8]]) {
        let number = self.packet_numbers.entry(port).or_default();
        *number = number.wrapping_add(1);
        let whole = packet(*number, messages.iter().copied());
        self.stats.packets_out += 1;
        self.stats.octets_out += whole.len() as u64;
        if self.settings.copies {
            for to in self.neighbours.keen(now, port, COPIES_MAX) {
                let via = Via { port, to };
                self.copies.insert(via, (whole.clone(), REPEATS_MAX));
                self.packets.push((via, whole.clone()));
            }
        }
        let to = NeighbourId::ALL;
        self.packets.push((Via { port, to }, whole));
    }

    /// The next packet's payload, and to whom it goes: to all at a port, or to one.
    pub fn poll_packet(&mut self) -> Option<(Via, Vec<u8>)> {
        self.packets.pop()
    }

    /// The routes that changed since this was asked before.
    pub fn take_changes(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.changes)
    }

    /// When it has something to do.
    pub const fn wake(&self) -> Instant {
        self.due
    }

    /// What it has counted.
    pub const fn stats(&self) -> &OlsrStats {
        &self.stats
    }
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
