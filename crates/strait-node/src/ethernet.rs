//! A station on an Ethernet: who has which address, told and asked for by ARP (RFC 826) and
//! neighbour discovery (RFC 4861).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use strait_core::local::Question;
use strait_core::{Duration, Instant, Packet};
use strait_wire::ethernet::{self, Arp, Frame, Mac};
use strait_wire::ip::{self, ALL_NODES, Discovery, Neighbour, PacketInfo};

/// What a station knows and has still to say. It answers for addresses that its user names, and
/// learns those of others from what they say of themselves.
#[derive(Debug)]
pub struct Station {
    mac: Mac,
    router: bool,
    known: BTreeMap<IpAddr, Known>,
    asked: BTreeMap<IpAddr, Asked>,
    /// Who waits to hear of an address that isn't known to be there yet.
    wanted: BTreeMap<IpAddr, Asker>,
    /// Frames to send ahead of packets.
    out: VecDeque<Vec<u8>>,
    crowded: u64,
    /// Times that an address was another station's than shortly before.
    moved: u64,
}

/// What its user says of an address that somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Not ours.
    None,
    /// The station's own: it is defended.
    Own,
    /// Of somebody behind the station, for whom it answers.
    Behind,
    /// The same, but whether it is there has to be found out first: [`Station::vouch`] answers.
    Later,
}

/// What a frame held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// A packet, for this station or beyond it.
    Packet(&'a [u8]),
    /// A packet for one host that came to all stations: it goes no further.
    Astray(&'a [u8]),
    /// A question, which has its answer.
    Answered(Question),
    /// A question about an address that was claimed for [`Claim::Later`].
    Wanted(IpAddr),
    /// A question for routers, by this address.
    Routers(Ipv6Addr),
    /// A router's word: it leads out of the network.
    Router,
    /// Something that the station only took note of.
    Noted,
    /// Nothing for it.
    Foreign,
}

/// What becomes of a packet that is to go to an address.
#[derive(Debug)]
pub enum Resolved {
    /// It can go now.
    Goes(Packet),
    /// It waits until the address is known.
    Waits,
    /// It finds no place to wait.
    Refused(Packet),
}

#[derive(Clone, Copy, Debug)]
struct Known {
    mac: Mac,
    /// It is asked for again from here on.
    until: Instant,
    /// Questions since then.
    unanswered: u32,
}

#[derive(Debug)]
struct Asked {
    times: u32,
    again: Instant,
    source: Option<IpAddr>,
    waiting: VecDeque<Packet>,
}

#[derive(Clone, Copy, Debug)]
struct Asker {
    mac: Mac,
    address: IpAddr,
    until: Instant,
}

impl Station {
    /// How long an address is believed without another word.
    pub const KNOWN_FOR: Duration = Duration::from_secs(60);
    /// Time between two questions for an address (RFC 4861 section 10: RETRANS_TIMER).
    pub const AGAIN: Duration = Duration::from_secs(1);
    /// Questions for an address before it is given up (the same: MAX_MULTICAST_SOLICIT).
    pub const TIMES: u32 = 3;
    /// Addresses known or asked for: a LAN's hosts, each some 50 octets.
    pub const ADDRESSES_MAX: usize = 1024;
    /// Packets that wait for one address: a first burst, not a stream.
    pub const WAITING_MAX: usize = 16;
    /// Packets that wait at all: a sweep over absent addresses must not fill the memory.
    pub const HELD_MAX: usize = 256;
    /// Those who wait to hear of an address, the last one of each.
    pub const WANTED_MAX: usize = 64;
    /// Frames not sent yet. A LAN takes them at once, so this is for one that is down.
    pub const FRAMES_MAX: usize = 256;

    /// A station with this address.
    pub const fn new(mac: Mac) -> Self {
        Self {
            mac,
            router: false,
            known: BTreeMap::new(),
            asked: BTreeMap::new(),
            wanted: BTreeMap::new(),
            out: VecDeque::new(),
            crowded: 0,
            moved: 0,
        }
    }

    /// The station of a router.
    pub const fn of_router(mac: Mac) -> Self {
        let mut station = Self::new(mac);
        station.router = true;
        station
    }

    /// Its address.
    pub const fn mac(&self) -> Mac {
        self.mac
    }

    /// The address that IPv6 makes of it (RFC 4291 section 2.5.6).
    pub fn link_local(&self) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets[0] = 0xfe;
        octets[1] = 0x80;
        octets[8..].copy_from_slice(&self.mac.interface_id());
        Ipv6Addr::from(octets)
    }

    /// Whether somebody on this network has said, not too long ago, that an address is its own, or
    /// asked whether it may be (RFC 4862 section 5.4, RFC 5227).
    fn is_local(&self, now: Instant, address: IpAddr) -> bool {
        let known = self.known.get(&address);
        known.is_some_and(|known| now < known.until)
    }

    /// Takes a frame. `claim` says what the station has to do with an address.
    pub fn hear<'a>(
        &mut self,
        now: Instant,
        bytes: &'a [u8],
        claim: impl Fn(IpAddr) -> Claim,
    ) -> Heard<'a> {
        let Some(frame) = Frame::parse(bytes) else {
            return Heard::Foreign;
        };
        let to_us = frame.dst == self.mac || frame.dst.is_group();
        if !to_us || frame.src.is_group() || frame.src == self.mac {
            return Heard::Foreign;
        }
        let own = IpAddr::from(self.link_local());
        let claim = |address| {
            if address == own {
                Claim::Own
            } else {
                claim(address)
            }
        };
        if frame.ether_type == ethernet::ARP {
            let arp = Arp::parse(frame.payload).filter(|arp| !arp.sender.0.is_group());
            return arp.map_or(Heard::Foreign, |arp| self.hear_arp(now, &arp, claim));
        }
        let Some(packet) = frame.packet() else {
            return Heard::Foreign;
        };
        match Discovery::parse(packet) {
            Some(message) => self.hear_discovery(now, packet, message, frame.src, claim),
            None if self.is_astray(&frame, packet, claim) => Heard::Astray(packet),
            None => Heard::Packet(packet),
        }
    }

    /// Whether a packet for one host has come to all stations: no router passes that on (RFC 1812
    /// section 5.3.4), or each would.
    fn is_astray(&self, frame: &Frame<'_>, packet: &[u8], claim: impl Fn(IpAddr) -> Claim) -> bool {
        if !self.router || !frame.dst.is_group() {
            return false;
        }
        let to_one = |info: PacketInfo| Mac::of_many(info.dst).is_none().then_some(info.dst);
        let dst = PacketInfo::parse(packet).ok().and_then(to_one);
        dst.is_some_and(|dst| claim(dst) != Claim::Own)
    }

    fn hear_arp(
        &mut self,
        now: Instant,
        arp: &Arp,
        claim: impl Fn(IpAddr) -> Claim,
    ) -> Heard<'static> {
        let (mac, sender) = arp.sender;
        let target = IpAddr::from(arp.target.1);
        let sender = IpAddr::from(sender);
        // A probe or an announcement (RFC 5227 sections 2.1.1 and 2.3).
        if sender.is_unspecified() || sender == target {
            if claim(target) == Claim::Own {
                self.answer(target, mac, None);
                return Heard::Answered(Question::Arp);
            }
            self.learn(now, target, mac);
            return Heard::Noted;
        }
        self.hear_question(now, arp.asks.then_some(target), (sender, mac), claim)
    }

    fn hear_discovery(
        &mut self,
        now: Instant,
        packet: &[u8],
        message: Discovery,
        from: Mac,
        claim: impl Fn(IpAddr) -> Claim,
    ) -> Heard<'static> {
        let Ok(info) = PacketInfo::parse(packet) else {
            return Heard::Foreign;
        };
        let (IpAddr::V6(src), one) = (info.src, info.src) else {
            return Heard::Foreign;
        };
        match message {
            Discovery::Routers(mac) => {
                if !src.is_unspecified() && claim(one) != Claim::Own {
                    self.learn(now, one, mac.unwrap_or(from));
                }
                Heard::Routers(src)
            }
            Discovery::Router(_) => Heard::Router,
            Discovery::Neighbour(message) if !message.asks => {
                let target = IpAddr::from(message.target);
                if let Some(mac) = message.mac.filter(|_| claim(target) != Claim::Own) {
                    self.learn(now, target, mac);
                }
                Heard::Noted
            }
            // Without a source it asks whether its address is free.
            Discovery::Neighbour(message) if src.is_unspecified() => {
                let target = IpAddr::from(message.target);
                if claim(target) == Claim::Own {
                    self.answer(target, Mac::BROADCAST, None);
                    return Heard::Answered(Question::Neighbour);
                }
                self.learn(now, target, from);
                Heard::Noted
            }
            Discovery::Neighbour(message) => {
                let mac = message.mac.unwrap_or(from);
                self.hear_question(now, Some(message.target.into()), (one, mac), claim)
            }
        }
    }

    /// Somebody with an address says where it is, and may ask for `target`.
    fn hear_question(
        &mut self,
        now: Instant,
        target: Option<IpAddr>,
        (sender, mac): (IpAddr, Mac),
        claim: impl Fn(IpAddr) -> Claim,
    ) -> Heard<'static> {
        // Whoever speaks in our name is no one to talk with.
        if claim(sender) == Claim::Own || mac.is_group() {
            return Heard::Noted;
        }
        self.learn(now, sender, mac);
        let Some(target) = target else {
            return Heard::Noted;
        };
        match claim(target) {
            Claim::Own => {}
            // The host itself answers.
            _ if self.is_local(now, target) => return Heard::Noted,
            Claim::None => return Heard::Noted,
            Claim::Behind => {}
            Claim::Later => {
                let until = now + Self::AGAIN * Self::TIMES;
                self.want(
                    target,
                    Asker {
                        mac,
                        address: sender,
                        until,
                    },
                );
                return Heard::Wanted(target);
            }
        }
        let own = claim(target) == Claim::Own;
        self.answer(target, mac, Some((sender, own)));
        Heard::Answered(question(target))
    }

    fn want(&mut self, target: IpAddr, asker: Asker) {
        if self.wanted.len() >= Self::WANTED_MAX && !self.wanted.contains_key(&target) {
            let oldest = self.wanted.iter().min_by_key(|(_, asker)| asker.until);
            if let Some(oldest) = oldest.map(|(target, _)| *target) {
                self.wanted.remove(&oldest);
                self.crowded += 1;
            }
        }
        self.wanted.insert(target, asker);
    }

    /// Somebody behind the station is there: who waits to hear of it gets an answer.
    pub fn vouch(&mut self, now: Instant, target: IpAddr) -> Option<Question> {
        let asker = self.wanted.remove(&target)?;
        if now >= asker.until || self.is_local(now, target) {
            return None;
        }
        self.answer(target, asker.mac, Some((asker.address, false)));
        Some(question(target))
    }

    /// Says where `target` is: to one who asked, or as a defence to everybody.
    fn answer(&mut self, target: IpAddr, mac: Mac, to: Option<(IpAddr, bool)>) {
        match (target, to) {
            (IpAddr::V4(target), to) => {
                let to = match to {
                    Some((IpAddr::V4(to), _)) => to,
                    _ => Ipv4Addr::UNSPECIFIED,
                };
                let answer = Arp {
                    asks: false,
                    sender: (self.mac, target),
                    target: (mac, to),
                };
                self.put(answer.frame(mac));
            }
            (IpAddr::V6(target), to) => {
                let (dst, solicited, overrides) = match to {
                    // For another a proxy speaks, whom the host's own word overrides (section
                    // 7.2.8).
                    Some((IpAddr::V6(to), own)) => (to, true, own),
                    _ => (ALL_NODES, false, true),
                };
                let answer = Neighbour {
                    asks: false,
                    target,
                    mac: Some(self.mac),
                    // Who is behind it may be no router.
                    router: self.router && overrides,
                    solicited,
                    overrides,
                };
                let mac = Mac::of_many(dst.into()).unwrap_or(mac);
                self.put_packet(mac, |src, out| answer.build(src, dst, out));
            }
        }
    }

    fn learn(&mut self, now: Instant, address: IpAddr, mac: Mac) {
        if address.is_unspecified() || address.is_multicast() {
            return;
        }
        if self.known.len() >= Self::ADDRESSES_MAX && !self.known.contains_key(&address) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.until);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                self.known.remove(&oldest);
                self.crowded += 1;
            }
        }
        let before = self.known.get(&address);
        self.moved += u64::from(before.is_some_and(|it| it.mac != mac && now < it.until));
        let known = Known {
            mac,
            until: now + Self::KNOWN_FOR,
            unanswered: 0,
        };
        self.known.insert(address, known);
    }

    /// The packets that waited for an address which is known by now.
    pub fn released(&mut self) -> Vec<Packet> {
        if self.asked.is_empty() {
            return Vec::new();
        }
        let known = &self.known;
        let ready = |address: &&IpAddr| known.contains_key(address);
        let ready: Vec<IpAddr> = self.asked.keys().filter(ready).copied().collect();
        let asked = ready
            .iter()
            .filter_map(|address| self.asked.remove(address));
        asked.flat_map(|asked| asked.waiting).collect()
    }

    /// Whether `packet` can go to `hop` now. Else the address is asked for in the name of `source`.
    pub fn resolve(
        &mut self,
        now: Instant,
        hop: IpAddr,
        source: Option<IpAddr>,
        packet: Packet,
    ) -> Resolved {
        if Mac::of_many(hop).is_some() || self.recall(now, hop, source) {
            return Resolved::Goes(packet);
        }
        let held = self.held();
        if !self.asked.contains_key(&hop) {
            if self.asked.len() >= Self::ADDRESSES_MAX {
                return Resolved::Refused(packet);
            }
            let asked = Asked {
                times: 1,
                again: now + Self::AGAIN,
                source,
                waiting: VecDeque::new(),
            };
            self.asked.insert(hop, asked);
            self.ask(hop, source);
        }
        match self.asked.get_mut(&hop) {
            Some(asked) if asked.waiting.len() < Self::WAITING_MAX && held < Self::HELD_MAX => {
                asked.waiting.push_back(packet);
                Resolved::Waits
            }
            _ => Resolved::Refused(packet),
        }
    }

    /// Whether an address is known. One that hasn't been heard of for long is asked for again, and
    /// forgotten when it doesn't answer.
    fn recall(&mut self, now: Instant, hop: IpAddr, source: Option<IpAddr>) -> bool {
        let Some(known) = self.known.get_mut(&hop) else {
            return false;
        };
        if now < known.until {
            return true;
        }
        if known.unanswered >= Self::TIMES {
            self.known.remove(&hop);
            return false;
        }
        known.unanswered += 1;
        known.until = now + Self::AGAIN;
        self.ask(hop, source);
        true
    }

    /// Asks again where it is time; gives the packets whose address nobody has.
    pub fn advance(&mut self, now: Instant) -> Vec<Packet> {
        let due = |(_, asked): &(&IpAddr, &Asked)| asked.again <= now;
        let due: Vec<IpAddr> = self.asked.iter().filter(due).map(|(hop, _)| *hop).collect();
        let mut given_up = Vec::new();
        for hop in due {
            match self.asked.get_mut(&hop) {
                Some(asked) if asked.times < Self::TIMES => {
                    asked.times += 1;
                    asked.again = now + Self::AGAIN;
                    let source = asked.source;
                    self.ask(hop, source);
                }
                _ => {
                    let asked = self.asked.remove(&hop);
                    given_up.extend(asked.into_iter().flat_map(|asked| asked.waiting));
                }
            }
        }
        given_up
    }

    /// When an address is asked for again.
    pub fn wake(&self) -> Option<Instant> {
        self.asked.values().map(|asked| asked.again).min()
    }

    /// Asks who has `hop`, in the name of `source`.
    pub fn ask(&mut self, hop: IpAddr, source: Option<IpAddr>) {
        match hop {
            IpAddr::V4(target) => {
                // Without an address of its own it asks as one who hasn't got it yet.
                let sender = match source {
                    Some(IpAddr::V4(address)) => address,
                    _ => Ipv4Addr::UNSPECIFIED,
                };
                let question = Arp {
                    asks: true,
                    sender: (self.mac, sender),
                    target: (Mac([0; 6]), target),
                };
                self.put(question.frame(Mac::BROADCAST));
            }
            IpAddr::V6(target) => {
                let question = Neighbour {
                    asks: true,
                    target,
                    mac: Some(self.mac),
                    router: false,
                    solicited: false,
                    overrides: false,
                };
                let group = Neighbour::group(target);
                let to = Mac::of_many(group.into()).unwrap_or(Mac::BROADCAST);
                let named = match source {
                    Some(IpAddr::V6(address)) => Some(address),
                    _ => None,
                };
                self.put_packet(to, |own, out| {
                    question.build(named.unwrap_or(own), group, out)
                });
            }
        }
    }

    /// Asks for routers.
    pub fn ask_routers(&mut self) {
        let mac = self.mac;
        let to = Mac::of_many(ip::ALL_ROUTERS.into()).unwrap_or(Mac::BROADCAST);
        self.put_packet(to, |src, out| ip::build_router_solicitation(src, mac, out));
    }

    /// Tells what a router says, to one who asked or to everybody.
    pub fn advertise(&mut self, router: &ip::Router<'_>, to: Option<Ipv6Addr>) {
        let dst = to.filter(|to| !to.is_unspecified()).unwrap_or(ALL_NODES);
        let known = self.known.get(&dst.into()).map(|known| known.mac);
        let everybody = Mac::of_many(ALL_NODES.into()).unwrap_or(Mac::BROADCAST);
        let mac = Mac::of_many(dst.into()).or(known).unwrap_or(everybody);
        self.put_packet(mac, |src, out| router.build(src, dst, out));
    }

    /// Queues a frame with an IPv6 packet of the station's own.
    fn put_packet(&mut self, to: Mac, build: impl FnOnce(Ipv6Addr, &mut Vec<u8>) -> bool) {
        let mut frame = Vec::new();
        ethernet::put_header(to, self.mac, ethernet::IPV6, &mut frame);
        if build(self.link_local(), &mut frame) {
            self.put(frame);
        }
    }

    fn put(&mut self, frame: Vec<u8>) {
        if self.out.len() < Self::FRAMES_MAX {
            self.out.push_back(frame);
        } else {
            self.crowded += 1;
        }
    }

    /// The next frame to send ahead of packets, if it fits.
    pub fn next_frame(&mut self, octets_max: usize) -> Option<Vec<u8>> {
        self.out.front().filter(|frame| frame.len() <= octets_max)?;
        self.out.pop_front()
    }

    /// Octets of that frame.
    pub fn wants(&self) -> Option<usize> {
        self.out.front().map(Vec::len)
    }

    /// Appends the header of a frame with a packet to `hop`.
    pub fn put_header(&self, hop: IpAddr, out: &mut Vec<u8>) {
        let known = self.known.get(&hop).map(|known| known.mac);
        // An address that lost its place since the packet was queued is found by everybody's
        // hearing it, once.
        let to = Mac::of_many(hop).or(known).unwrap_or(Mac::BROADCAST);
        let ether_type = if hop.is_ipv4() {
            ethernet::IPV4
        } else {
            ethernet::IPV6
        };
        ethernet::put_header(to, self.mac, ether_type, out);
    }

    /// Times that an address was another station's than shortly before.
    pub const fn moved(&self) -> u64 {
        self.moved
    }

    /// Addresses, askers and frames given up for want of place.
    pub const fn crowded(&self) -> u64 {
        self.crowded
    }

    /// Packets that wait for an address.
    pub fn held(&self) -> usize {
        self.asked.values().map(|asked| asked.waiting.len()).sum()
    }

    /// The network is gone: nothing is known, and what waited is given back.
    pub fn clear(&mut self) -> Vec<Packet> {
        self.out.clear();
        self.known.clear();
        self.wanted.clear();
        let asked = core::mem::take(&mut self.asked);
        asked
            .into_values()
            .flat_map(|asked| asked.waiting)
            .collect()
    }
}

const fn question(target: IpAddr) -> Question {
    if target.is_ipv4() {
        Question::Arp
    } else {
        Question::Neighbour
    }
}

#[cfg(test)]
#[path = "ethernet_tests.rs"]
mod tests;
