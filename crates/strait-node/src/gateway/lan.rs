//! An Ethernet at a host side, on which the gateway is a station: it answers for addresses beyond
//! its links, asks for those of hosts, and tells that it is a router.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use strait_core::fate::Origin;
use strait_core::local::Question;
use strait_core::{DropCause, Duration, Fate, Instant, Packet, PortId};
use strait_wire::ip::{self, EchoKind, IcmpError, Unreachable, build_echo, parse_echo};

use super::port_set::PortSet;
use super::{Gateway, host_side, own_address_at};
use crate::NodeConfig;
use crate::answers::Answers;
use crate::config::{HostConfig, HostKind, own_address};
use crate::ethernet::{Claim, Heard, Station};
use crate::route::{Hop, Prefix, Routes, is_of_the_link};

/// The host side's Ethernet.
#[derive(Debug)]
pub(super) struct Lan {
    pub(super) station: Station,
    /// The gateway's own addresses on it, with the prefixes of its networks.
    own: Vec<Prefix>,
    /// Routers on it, and what they lead to, longest prefixes first.
    routers: Vec<(Prefix, IpAddr)>,
    advertisements: Option<Advertisements>,
    packet_octets_max: u32,
}

/// What the gateway tells as an IPv6 router.
#[derive(Debug)]
struct Advertisements {
    prefixes: Vec<(Ipv6Addr, u8)>,
    /// When all were told last, and are told next.
    last: Option<Instant>,
    next: Option<Instant>,
    /// What they were told: that it leads out.
    led: bool,
}

/// Time between two advertisements that nobody asked for (RFC 4861 section 6.2.1:
/// MaxRtrAdvInterval).
const ADVERTISED_EACH: Duration = Duration::from_secs(600);
/// How long hosts believe one (the same: AdvDefaultLifetime), in seconds.
const LIFETIME_S: u16 = 1800;
/// Least time between two to everybody (section 10: MIN_DELAY_BETWEEN_RAS).
const ADVERTISED_APART: Duration = Duration::from_secs(3);

impl Lan {
    /// The Ethernet of a host side that is on one.
    pub(super) fn new(config: &NodeConfig, port: PortId, host: &HostConfig) -> Option<Box<Self>> {
        if host.kind != HostKind::Tap {
            return None;
        }
        let router = |route: &crate::config::RouteConfig| {
            let is_here = route.port == host.name();
            let via = route.via.as_ref().filter(|_| is_here)?;
            Some((route.prefix, via.parse().ok()?))
        };
        let mut routers: Vec<(Prefix, IpAddr)> = config.routes.iter().filter_map(router).collect();
        routers.sort_by_key(|(prefix, _)| core::cmp::Reverse(prefix.length));
        let prefixes = host.advertised();
        Some(Box::new(Self {
            station: Station::of_router(config.station_at(port)?),
            own: host.addresses.clone(),
            routers,
            advertisements: (!prefixes.is_empty()).then_some(Advertisements {
                prefixes,
                last: None,
                next: None,
                led: false,
            }),
            packet_octets_max: host.mtu.0 as u32,
        }))
    }

    /// Whom a packet to `dst` is given to: a router that leads there, else the host itself.
    pub(super) fn hop(&self, dst: IpAddr) -> IpAddr {
        let mut routers = self.routers.iter();
        let leads = routers.find(|(prefix, _)| prefix.contains(dst));
        leads.map_or(dst, |(_, router)| *router)
    }

    /// The address by which the gateway asks for another.
    pub(super) fn source(&self, hop: IpAddr) -> Option<IpAddr> {
        own_address(&self.own, hop)
    }

    /// Appends the header of a frame with a packet to `dst`.
    pub(super) fn put_header(&self, dst: IpAddr, out: &mut Vec<u8>) {
        self.station.put_header(self.hop(dst), out);
    }

    pub(super) fn held(&self) -> usize {
        self.station.held()
    }

    /// The Ethernet is gone.
    pub(super) fn clear(&mut self) -> Vec<Packet> {
        if let Some(advertisements) = &mut self.advertisements {
            (advertisements.last, advertisements.next) = (None, None);
        }
        self.station.clear()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let next = self.advertisements.as_ref().and_then(|it| it.next);
        next.into_iter().chain(self.station.wake()).min()
    }

    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        let mut own = self.own.iter();
        own.any(|own| own.address == address) || address == self.station.link_local()
    }

    /// Tells that the gateway is a router, as long as it `leads` out.
    fn advertise(&mut self, leads: bool, to: Option<Ipv6Addr>) -> bool {
        let Some(advertisements) = &self.advertisements else {
            return false;
        };
        let router = ip::Router {
            lifetime_s: if leads { LIFETIME_S } else { 0 },
            mac: self.station.mac(),
            mtu: self.packet_octets_max,
            prefixes: &advertisements.prefixes,
        };
        self.station.advertise(&router, to);
        true
    }

    /// Answers a question for routers, if the gateway leads anywhere.
    fn answer_router(&mut self, now: Instant, leads: bool, to: Ipv6Addr) -> bool {
        if !leads {
            return false;
        }
        if !to.is_unspecified() {
            return self.advertise(leads, Some(to));
        }
        // All hear the answer: those who ask within a short time share one.
        let last = self.advertisements.as_ref().and_then(|it| it.last);
        if last.is_none_or(|last| now >= last + ADVERTISED_APART) {
            self.tell_all(now, leads);
        }
        self.advertisements.is_some()
    }

    fn tell_all(&mut self, now: Instant, leads: bool) {
        self.advertise(leads, None);
        if let Some(advertisements) = &mut self.advertisements {
            advertisements.led = leads;
            advertisements.last = Some(now);
            advertisements.next = leads.then_some(now + ADVERTISED_EACH);
        }
    }
}

/// What decides about an address that somebody asks for on an Ethernet.
struct Ways<'a> {
    now: Instant,
    own: &'a [(Prefix, PortId)],
    routes: &'a Routes,
    /// The Ethernet's port.
    side: PortId,
    /// Other ports that are up.
    up: PortSet,
    hosts: PortSet,
    answers: &'a Answers,
}

impl Ways<'_> {
    /// Whether the gateway stands for `address`: its own, or one to which a route leads by another
    /// port that is up. The network that the gateway itself is on is only left by routes to parts
    /// of it.
    fn claim(&self, address: IpAddr) -> Claim {
        if self.own.iter().any(|(own, _)| own.address == address) {
            return Claim::Own;
        }
        let Some((prefix, hop)) = self.routes.matching(address) else {
            return Claim::None;
        };
        let longer = |(own, side): &(Prefix, PortId)| {
            *side == self.side && own.contains(address) && own.length >= prefix.length
        };
        let near = self.own.iter().any(longer) || is_of_the_link(address);
        if near || !self.up.contains(hop.port) {
            return Claim::None;
        }
        if self.hosts.contains(hop.port) {
            return Claim::Behind;
        }
        match self.answers.is_there(self.now, address, hop) {
            Some(false) if own_address_at(self.own, self.side, address).is_some() => Claim::Later,
            Some(false) => Claim::None,
            Some(true) | None => Claim::Behind,
        }
    }
}

impl Gateway {
    /// Takes a frame of a host side's Ethernet, if that is what is there.
    pub(super) fn hear_station(&mut self, now: Instant, side: PortId, bytes: &[u8]) -> bool {
        if !self.lans.contains(&side) {
            return false;
        }
        let leads = self.leads_out();
        let others = self
            .ports
            .iter()
            .filter(|it| it.queue.is_up() && it.id != side);
        let up = others.map(|port| port.id).collect();
        let Some(host) = self.ports.get_mut(side.index()) else {
            return false;
        };
        let Some(lan) = host.link.lan_mut() else {
            return false;
        };
        let ways = Ways {
            now,
            own: &self.own,
            routes: &self.routes,
            side,
            up,
            hosts: self.hosts,
            answers: &self.answers,
        };
        let heard = lan.station.hear(now, bytes, |address| ways.claim(address));
        let answered = match heard {
            Heard::Answered(question) => Some(question),
            Heard::Routers(to) => lan
                .answer_router(now, leads, to)
                .then_some(Question::Router),
            _ => None,
        };
        let stats = self.ledger.stats_mut();
        stats.ports[side.index()].frames_in += 1;
        stats.ports[side.index()].octets_in += bytes.len() as u64;
        if let Some(question) = answered {
            stats.local.count_answer(question, bytes.len() as u32);
        }
        host.release(now, &mut self.ledger);
        self.count_crowded();
        match heard {
            Heard::Packet(packet) => {
                let mut copy = self.ledger.spare();
                copy.extend_from_slice(packet);
                self.take_packet(now, copy, host_side(side));
            }
            Heard::Astray(packet) => {
                let admitted = (self.ledger).admit(now, packet.into(), Origin::Port(side));
                if let Ok(packet) = admitted {
                    self.ledger.drop(now, packet, DropCause::NoRoute);
                }
            }
            Heard::Wanted(address) => self.ask_across(now, side, address),
            _ => {}
        }
        true
    }

    /// Whether a packet is for the gateway itself, which on an Ethernet has no kernel's addresses.
    pub(super) fn is_for_station(&self, packet: &Packet) -> bool {
        self.is_of_station(packet.info().dst)
    }

    /// Whether an address is the gateway's own on an Ethernet.
    pub(super) fn is_of_station(&self, address: IpAddr) -> bool {
        let lans = self.lans.iter();
        let mut lans = lans.filter_map(|side| self.ports[side.index()].link.lan());
        lans.any(|lan| lan.is_own(address))
    }

    /// Whether a link is there that carries IPv6: else the gateway is no router to advertise.
    fn leads_out(&self) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| {
            port.queue.is_up() && port.queue.carries_v6 && !self.hosts.contains(port.id)
        })
    }

    fn count_crowded(&mut self) {
        let lans = self.lans.iter();
        let lans = lans.filter_map(|side| self.ports[side.index()].link.lan());
        let counts = lans.map(|lan| [lan.station.crowded(), lan.station.moved()]);
        let sum = |[crowded, moved]: [u64; 2], more: [u64; 2]| [crowded + more[0], moved + more[1]];
        let [crowded, moved] = counts.fold([0; 2], sum);
        let local = &mut self.ledger.stats_mut().local;
        (local.crowded, local.moved) = (crowded, moved);
    }

    /// Takes a packet for the gateway itself: an echo request is answered, anything else has only
    /// told that its sender is there.
    pub(super) fn take_own(&mut self, now: Instant, packet: Packet, from: Hop) {
        self.learn(now, &packet, from);
        let Some(reply) = echo_reply(&packet) else {
            self.ledger.close(now, packet, Fate::Absorbed);
            return;
        };
        self.ledger.close(now, packet, Fate::Answered);
        self.send_own(now, reply, from);
    }

    /// Sends a packet that the gateway itself made.
    pub(super) fn send_own(&mut self, now: Instant, bytes: Vec<u8>, hop: Hop) {
        let Ok(mut packet) = self.ledger.admit(now, bytes, Origin::Own) else {
            return;
        };
        packet.class = self.policy.classify(packet.info()).class;
        packet.to = hop.to;
        self.enqueue(now, packet, hop.port);
    }

    /// Asks an address beyond a link for a sign that somebody is there, for who asked for it at a
    /// host side.
    fn ask_across(&mut self, now: Instant, side: PortId, address: IpAddr) {
        let own = own_address_at(&self.own, side, address);
        let (Some(hop), Some(own)) = (self.routes.lookup(address), own) else {
            return;
        };
        if !self.answers.asks_across(now, address, hop) {
            return;
        }
        let mut request = Vec::new();
        if build_echo(
            EchoKind::Request,
            own,
            address,
            0,
            64,
            0,
            0,
            0,
            &[],
            &mut request,
        ) {
            self.send_own(now, request, hop);
        }
    }

    /// Somebody beyond a link was heard: who asked for it on the Ethernet gets an answer.
    pub(super) fn vouch(&mut self, now: Instant, address: IpAddr) {
        // Octets of an ARP message in a frame, and of a solicitation with its option.
        let octets = if address.is_ipv4() { 42 } else { 86 };
        for lan in self.ports.iter_mut().filter_map(|port| port.link.lan_mut()) {
            if let Some(question) = lan.station.vouch(now, address) {
                self.ledger.stats_mut().local.count_answer(question, octets);
            }
        }
    }

    /// Does what is due on Ethernets: asks again, gives up, advertises.
    pub(super) fn tend_lans(&mut self, now: Instant) {
        if self.lans.is_empty() {
            return;
        }
        let leads = self.leads_out();
        let mut given_up = Vec::new();
        for lan in self.ports.iter_mut().filter_map(|port| port.link.lan_mut()) {
            let next = lan.advertisements.as_ref().and_then(|it| it.next);
            if next.is_some_and(|next| now >= next) {
                lan.tell_all(now, leads);
            }
            given_up.extend(lan.station.advance(now));
        }
        for packet in given_up {
            self.give_up(now, packet);
        }
    }

    /// A port went up or down: if that changes whether the gateway leads anywhere, or an Ethernet
    /// itself is new, all stations there are told.
    pub(super) fn tell_stations(&mut self, now: Instant, port: PortId) {
        if self.lans.is_empty() {
            return;
        }
        let leads = self.leads_out();
        for host in self.ports.iter_mut().filter(|host| host.queue.is_up()) {
            let id = host.id;
            let Some(lan) = host.link.lan_mut() else {
                continue;
            };
            let led = lan.advertisements.as_ref().is_some_and(|it| it.led);
            if leads != led || (leads && port == id) {
                lan.tell_all(now, leads);
            }
        }
    }

    /// Nobody has the address that a packet was to go to: its sender is told (RFC 4861 section
    /// 7.2.2).
    fn give_up(&mut self, now: Instant, packet: Packet) {
        let by_route = || self.routes.lookup(packet.info().src).or(self.default);
        let back = self.side_of(&packet).or_else(by_route);
        match back.filter(|_| packet.origin() != Origin::Own) {
            Some(back) => {
                let error = IcmpError::Unreachable(Unreachable::Host);
                self.refuse(now, packet, DropCause::Unresolved, error, back);
            }
            None => self.ledger.drop(now, packet, DropCause::Unresolved),
        }
    }
}

/// The reply to an echo request for one of our addresses.
fn echo_reply(packet: &Packet) -> Option<Vec<u8>> {
    let echo = parse_echo(packet.bytes()).filter(|echo| echo.kind == EchoKind::Request)?;
    let info = packet.info();
    let payload = packet.bytes().get(echo.payload)?;
    let mut out = Vec::with_capacity(packet.octets());
    let built = build_echo(
        EchoKind::Reply,
        info.dst,
        info.src,
        info.dscp,
        64,
        ip::digest(packet.bytes()) as u16,
        echo.ident,
        echo.sequence,
        payload,
        &mut out,
    );
    built.then_some(out)
}
