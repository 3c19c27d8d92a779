//! The [DNS proxy](strait_dns): its sockets, and its frames as packets of the gateway's own.
//!
//! Clients ask by UDP and TCP at addresses of this host; resolvers are asked by a socket for each
//! question. Nobody but partners is heard between gateways, each by the way that leads to it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use strait_core::fate::{Fate, Origin};
use strait_core::names::NameEntry;
use strait_core::node::{
    Bind, DatagramMeta, Held, Listen, Owner, Side, SocketEvent, SocketId, SocketOp, StreamEvent,
    StreamId, StreamOp, WallTime,
};
use strait_core::{DropCause, Duration, Effect, Input, Instant, NeighbourId, Packet, PortId};
use strait_dns::cache::Limits;
use strait_dns::{Client, Far, FarSettings, LinkState, Meant, Near, NearSettings, Wish};
use strait_wire::ip::{self, Ends, IcmpError, Unreachable, protocol, udp_payload};

mod ahead;
mod store;
mod streams;

use self::ahead::{Held as HeldPacket, Translation};
use self::store::Store;
use self::streams::Streams;
use super::proxied::{Carriage, packet};
use super::services::{Around, PROXY};
use super::{Stored, own_address_at};
use crate::config::{DnsConfig, DnsRuleConfig, NodeConfig};
use crate::route::{Hop, Prefix};

/// Numbers of sockets: for datagrams of clients, from here on for their streams, and from there on
/// for resolvers.
const STREAMS: u32 = 1 << 16;
const RESOLVERS: u32 = 1 << 17;
/// From here on clients have no socket: they ask others, by a host side of this number.
const CAPTURED: u32 = u32::MAX - 255;
/// Streams that were brought to the TCP proxy have this bit.
const ADOPTED: u64 = 1 << 63;
/// Where resolvers are asked.
const PORT: u16 = 53;
/// Clients that have streams at a time, at each address.
const STREAMS_MAX: u32 = 64;
/// How long an answer takes at least beside its line time; the same where the link repeats by
/// itself what it loses.
const LEAST: Duration = Duration::from_secs(1);
const LEAST_REPAIRED: Duration = Duration::from_secs(60);
/// Octets of a question, its answer and what is around them, as they may be.
const EXCHANGE_OCTETS: u64 = 400;
/// The way to this gateway's own resolvers.
const OWN: LinkState = LinkState {
    turnaround: Duration::from_secs(2),
    bit_s: 1_000_000_000,
};
/// The code point of what nobody waits for (LE of RFC 8622).
const QUIET: u8 = 1;
/// Octets that names with addresses ahead take in the storage, as names mostly are.
const AHEAD_OCTETS: u64 = 64 * strait_dns::ahead::NAMES_MAX as u64;
/// Octets of a resolver's answer by a stream that may wait.
const OUTBOUND_OCTETS: u32 = 65_537;
#[derive(Debug)]
struct Partner {
    address: IpAddr,
    turnaround: Duration,
}

/// The DNS proxy, and what its packets need.
#[derive(Debug)]
pub(super) struct Dns {
    owner: Owner,
    port: u16,
    dscp: u8,
    /// What clients ask of others is answered here.
    capture: bool,
    /// Addresses that stand for names, here or at partners.
    ahead_range: Prefix,
    translation: Translation,
    /// Packets that were translated.
    translated: u64,
    partners: Vec<Partner>,
    near: Near,
    far: Far,
    /// By link port.
    carriages: Vec<Carriage>,
    streams: Streams,
    /// By socket, streams to resolvers, with the question that hasn't left.
    asking: BTreeMap<u64, Vec<u8>>,
    effects: VecDeque<Effect>,
    /// Where what is known is kept, if it is.
    store: Option<Store>,
    /// Packets so far.
    ident: u16,
}

impl Dns {
    pub(super) fn new(
        owner: Owner,
        dns: &DnsConfig,
        config: &NodeConfig,
        seed: u64,
        stored: Stored<'_>,
    ) -> Self {
        let found = stored.iter().find(|(key, _)| key == store::KEY);
        let found = found.map_or(0, |(_, length)| *length);
        // Names that go by an address take some more.
        let store = || Store::new(owner, dns.octets.0 + AHEAD_OCTETS, found);
        let partners = dns.partners.iter().map(|it| Partner {
            address: it.address,
            turnaround: it.turnaround.map_or(Duration::ZERO, |it| it.0),
        });
        let by_name = config.proxy().is_some_and(|it| !it.explicit.is_empty());
        let near = NearSettings {
            limits: Limits {
                entries: dns.entries,
                octets: usize::try_from(dns.octets.0).unwrap_or(usize::MAX),
                stale: dns.stale.0,
            },
            patience: dns.patience.0,
            clients: dns.clients.clone(),
            saves: config.state.is_some(),
            zones: dns.partners.iter().map(|it| it.names()).collect(),
            rules: dns.rules.iter().filter_map(DnsRuleConfig::rule).collect(),
            watches: dns.keep_fresh,
            ahead: (dns.ahead || by_name).then(|| dns.ahead_range.network()),
            tells_ahead: dns.ahead,
        };
        let zones = dns.rules.iter().filter_map(DnsRuleConfig::forwards);
        let far = FarSettings {
            resolvers: dns.resolvers.clone(),
            zones: zones.collect(),
            partners: dns.partners.len(),
        };
        let mut own = Self {
            owner,
            port: dns.port,
            dscp: dns.dscp.number(),
            capture: dns.capture,
            ahead_range: dns.ahead_range,
            translation: Translation::default(),
            translated: 0,
            partners: partners.collect(),
            near: Near::new(near, seed),
            far: Far::new(far, seed),
            carriages: config.ports.iter().map(Carriage::of).collect(),
            streams: Streams::default(),
            asking: BTreeMap::new(),
            effects: VecDeque::new(),
            store: config.state.as_ref().map(|_| store()),
            ident: 0,
        };
        for (n, address) in (0..).zip(dns.listen.iter().copied()) {
            own.bind(n, address);
            let listen = Listen {
                streams_max: STREAMS_MAX,
                ..Listen::at(address)
            };
            own.operate(STREAMS + n, SocketOp::Listen(listen));
        }
        own
    }

    fn operate(&mut self, n: u32, op: SocketOp) {
        let owner = self.owner;
        let id = SocketId { owner, n };
        self.effects.push_back(Effect::Socket { id, op });
    }

    fn bind(&mut self, n: u32, address: SocketAddr) {
        let bind = Bind {
            address,
            group: None,
            transparent: false,
        };
        self.operate(n, SocketOp::Bind(bind));
    }

    /// Takes a packet of a partner's, or gives it back.
    pub(super) fn take(
        &mut self,
        now: Instant,
        packet: Packet,
        from: Hop,
        around: &mut Around<'_>,
    ) -> Option<Packet> {
        if self.captures(&packet, from, around) {
            self.take_captured(now, packet, from, around);
            return None;
        }
        self.hurry(now, packet.info().dst);
        if let Some(address) = self.stands_for(packet.info().dst, from, around) {
            return self.translate(now, packet, address, from, around);
        }
        if around.hosts.contains(from.port) && self.translation.comes_back(packet.bytes()) {
            let change = |own: &mut Self, bytes: &mut Vec<u8>| own.translation.inward(bytes);
            return self.change(now, packet, around, change);
        }
        let find = |src| self.partners.iter().position(|it| it.address == src);
        let (partner, bytes) = match around.heard(now, (packet, from), self.port, find) {
            Ok(heard) => heard?,
            Err(packet) => return Some(packet),
        };
        let frame = udp_payload(&bytes).map_or(&[][..], |(_, payload)| payload);
        if strait_dns::frame::is_answer(frame) {
            self.near.hear_partner(now, partner, frame);
        } else {
            self.far.hear_partner(now, partner, frame);
        }
        around.ledger.keep_spare(bytes);
        None
    }

    /// The address, if it stands for a name at a partner, and comes by a link.
    fn stands_for(&self, address: IpAddr, from: Hop, around: &Around<'_>) -> Option<Ipv4Addr> {
        let IpAddr::V4(v4) = address else { return None };
        let by_link = self.ahead_range.contains(address) && !around.hosts.contains(from.port);
        let is_free = by_link && around.routes.lookup(address).is_none();
        is_free.then_some(v4)
    }

    /// Gives a packet of a partner's hosts the address that is meant, as soon as that is known.
    fn translate(
        &mut self,
        now: Instant,
        packet: Packet,
        address: Ipv4Addr,
        from: Hop,
        around: &mut Around<'_>,
    ) -> Option<Packet> {
        let partners = self.partners.iter().enumerate();
        let behind = partners.filter(|(_, it)| around.link_to(it.address) == Some(from));
        let behind: Vec<usize> = behind.map(|(at, _)| at).collect();
        // Of several behind one link, the one that has told of it.
        let told = behind.iter().find(|at| self.far.is_told(**at, address));
        let Some(partner) = told.or_else(|| behind.first()).copied() else {
            around.ledger.drop(now, packet, DropCause::NoRoute);
            return None;
        };
        match self.packet_is_for(now, partner, address) {
            Meant::Address(real) => {
                let change = |own: &mut Self, bytes: &mut Vec<u8>| {
                    own.translation.outward(bytes, real);
                };
                self.change(now, packet, around, change)
            }
            Meant::Nobody => {
                self.refuse(now, packet.bytes(), from, around);
                around.ledger.drop(now, packet, DropCause::NoRoute);
                None
            }
            Meant::Unknown => {
                let bytes = around.ledger.close(now, packet, Fate::Absorbed);
                let place = (partner, address);
                let pushed_out = self.translation.hold(now, place, bytes, from);
                pushed_out
                    .into_iter()
                    .for_each(|it| drop_held(now, it, around));
                None
            }
        }
    }

    /// Whom a packet is for. Over IPv4 nobody is reached who has IPv6 addresses alone.
    fn packet_is_for(&mut self, now: Instant, partner: usize, address: Ipv4Addr) -> Meant {
        match self.far.meant(now, partner, address) {
            Meant::Address(IpAddr::V6(_)) => Meant::Nobody,
            meant => meant,
        }
    }

    /// Tells the sender of a packet that nobody is there.
    fn refuse(&self, now: Instant, bytes: &[u8], from: Hop, around: &mut Around<'_>) {
        let src = Ends::of(bytes).map(|it| IpAddr::V4(it.src));
        let own = src.and_then(|src| own_address_at(around.own, from.port, src));
        let error = IcmpError::Unreachable(Unreachable::Host);
        let mut answer = Vec::new();
        if own.is_some_and(|own| ip::build_icmp_error(error, own, bytes, &mut answer)) {
            around.send(now, answer, from);
        }
    }

    /// Another packet takes the place of one, with other addresses.
    fn change(
        &mut self,
        now: Instant,
        packet: Packet,
        around: &mut Around<'_>,
        change: impl FnOnce(&mut Self, &mut Vec<u8>),
    ) -> Option<Packet> {
        self.translated += 1;
        let class = packet.class;
        let mut bytes = around.ledger.close(now, packet, Fate::Absorbed);
        change(self, &mut bytes);
        let mut changed = around.ledger.admit(now, bytes, Origin::Own).ok()?;
        changed.class = class;
        Some(changed)
    }

    /// Looks at packets that wait until it is known who is meant.
    fn tend_held(&mut self, now: Instant, around: &mut Around<'_>) {
        for held in self.translation.take_held() {
            match self.packet_is_for(now, held.partner, held.address) {
                Meant::Address(real) => {
                    self.translated += 1;
                    self.translation.let_go(held, real);
                }
                Meant::Unknown if held.until > now => self.translation.hold_on(held),
                Meant::Nobody => {
                    self.refuse(now, &held.bytes, held.from, around);
                    drop_held(now, held, around);
                }
                Meant::Unknown => drop_held(now, held, around),
            }
        }
    }

    /// A packet whose address has been translated after it had waited.
    pub(super) fn poll_translated(&mut self) -> Option<(Vec<u8>, Hop)> {
        self.translation.poll_ready()
    }

    /// The gateway behind which the name is that an address stands for here: `Some(None)` if it is
    /// one of the range, and none's.
    pub(super) fn gateway_of(&self, address: IpAddr) -> Option<Option<IpAddr>> {
        let IpAddr::V4(v4) = address else { return None };
        let here = self.near.goes_ahead() && self.ahead_range.contains(address);
        let partner = here.then(|| self.near.partner_ahead(v4))?;
        Some(partner.map(|at| self.partners[at].address))
    }

    /// Somebody here sends to an address, which may stand for a name.
    pub(super) fn hurry(&mut self, now: Instant, address: IpAddr) {
        if let IpAddr::V4(v4) = address
            && self.near.goes_ahead()
            && self.ahead_range.contains(address)
        {
            self.near.hurry(now, v4);
        }
    }

    /// Whom a partner means by an address; `None` if that is an address as any other.
    pub(super) fn meant(
        &mut self,
        now: Instant,
        partner: IpAddr,
        address: IpAddr,
    ) -> Option<Meant> {
        let IpAddr::V4(v4) = address else { return None };
        let at = self.partners.iter().position(|it| it.address == partner);
        let at = at.filter(|_| self.ahead_range.contains(address))?;
        Some(self.far.meant(now, at, v4))
    }

    /// The address by which a connection to a name is asked for, and the gateway that knows it.
    pub(super) fn place_of(
        &mut self,
        now: Instant,
        by: IpAddr,
        name: &str,
    ) -> Option<(IpAddr, Option<IpAddr>)> {
        let address = SocketAddr::new(by, 0);
        let client = Client {
            socket: 0,
            address,
            local: address,
            stream: None,
        };
        let (address, partner) = self.near.address_of(now, client, name)?;
        let gateway = partner.and_then(|at| self.partners.get(at));
        Some((address, gateway.map(|it| it.address)))
    }

    /// Whether a packet is a question that a client here asks of somebody else.
    fn captures(&self, packet: &Packet, from: Hop, around: &Around<'_>) -> bool {
        let info = packet.info();
        let to = info.ports.map(|(_, to)| to);
        self.capture
            && (info.protocol, to) == (protocol::UDP, Some(PORT))
            && around.hosts.contains(from.port)
            // The gateway's own questions go to its resolvers.
            && !around.is_own(info.src)
            && !around.is_own(info.dst)
            && self.near.serves(info.src)
    }

    /// Takes such a question as if it had been asked here.
    fn take_captured(&mut self, now: Instant, packet: Packet, from: Hop, around: &mut Around<'_>) {
        let (src, dst) = (packet.info().src, packet.info().dst);
        let ports = packet.info().ports.unwrap_or_default();
        let bytes = around.ledger.close(now, packet, Fate::Absorbed);
        if let Some((_, message)) = udp_payload(&bytes) {
            let client = Client {
                socket: CAPTURED + u32::from(from.port.0),
                address: SocketAddr::new(src, ports.0),
                local: SocketAddr::new(dst, ports.1),
                stream: None,
            };
            self.near.hear_client(now, client, message);
        }
        around.ledger.keep_spare(bytes);
    }

    /// Gives a client an answer in the name of whom it asked.
    fn reply_captured(
        &mut self,
        now: Instant,
        port: u32,
        client: Client,
        reply: &[u8],
        around: &mut Around<'_>,
    ) {
        self.ident = self.ident.wrapping_add(1);
        let ends = (client.local, client.address);
        let hop = Hop {
            port: PortId(port as u8),
            to: NeighbourId::PEER,
        };
        if let Some(packet) = packet(ends, 0, self.ident, reply) {
            around.send(now, packet, hop);
        }
    }

    /// Something happened to something of its own.
    pub(super) fn hear(&mut self, now: Instant, input: &Input<'_>) {
        match *input {
            Input::Datagram {
                socket,
                meta,
                bytes,
            } => match socket.n.checked_sub(RESOLVERS) {
                Some(n) => self.far.hear_resolver(now, n, meta.src, bytes),
                None => {
                    let client = Client {
                        socket: socket.n,
                        address: meta.src,
                        local: meta.dst,
                        stream: None,
                    };
                    self.near.hear_client(now, client, bytes);
                }
            },
            Input::Socket {
                id,
                event: SocketEvent::Failed(_),
            } => {
                if let Some(n) = id.n.checked_sub(RESOLVERS) {
                    self.far.miss(now, n);
                }
            }
            Input::Stream { id, event } => self.hear_stream(now, id, event),
            Input::Stored { result, .. } => {
                self.store.iter_mut().for_each(|it| it.hear_stored(result));
            }
            Input::Loaded { result, .. } => {
                if let Some(store) = &mut self.store {
                    store.hear_loaded(now, result, &mut self.near);
                }
            }
            _ => {}
        }
    }

    /// What time it is.
    pub(super) fn set_calendar(&mut self, now: Instant, wall: WallTime) {
        let memory = self.near.memory_mut();
        memory.set_calendar(now, wall.0 / 1_000_000_000);
    }

    fn hear_stream(&mut self, now: Instant, id: StreamId, event: StreamEvent<'_>) {
        if id.side == Side::Node {
            return self.hear_resolver(now, id.n, event);
        }
        for (client, message) in self.streams.hear(now, key_of(id), event) {
            self.near.hear_client(now, client, &message);
        }
    }

    /// Takes a client of the TCP proxy's that asks somebody else for names, if it does.
    pub(super) fn adopts(&mut self, id: StreamId, src: SocketAddr, dst: SocketAddr) -> bool {
        let asks = self.capture && dst.port() == PORT && self.near.serves(src.ip());
        if asks {
            self.streams.adopt(key_of(id));
        }
        asks
    }

    /// Whether it has taken one.
    pub(super) fn has_adopted(&self, id: StreamId) -> bool {
        id.owner == PROXY && self.streams.has(key_of(id))
    }

    /// Something happened to a stream to a resolver.
    fn hear_resolver(&mut self, now: Instant, n: u64, event: StreamEvent<'_>) {
        let Some(question) = self.asking.get_mut(&n) else {
            return;
        };
        let socket = n as u32;
        match event {
            // What may be sent before is as much as a question has, and more.
            StreamEvent::Writable(_) if !question.is_empty() => {
                let question = core::mem::take(question);
                self.act(n, StreamOp::Send(question));
                self.act(n, StreamOp::Credit(OUTBOUND_OCTETS));
            }
            StreamEvent::Data(octets) => self.far.hear_stream(now, socket, octets),
            StreamEvent::Fin => self.far.miss(now, socket),
            StreamEvent::Reset(_) => {
                self.asking.remove(&n);
                self.far.miss(now, socket);
            }
            _ => {}
        }
    }

    fn act(&mut self, n: u64, op: StreamOp) {
        let id = StreamId {
            owner: self.owner,
            side: Side::Node,
            n,
        };
        self.effects.push_back(Effect::Stream { id, op });
    }

    /// Has everything done that is due, and tells of it.
    pub(super) fn settle(&mut self, now: Instant, around: &mut Around<'_>) {
        let mut hops = Vec::new();
        for (at, partner) in self.partners.iter().enumerate() {
            let hop = around.link_to(partner.address);
            let there = |hop: &Hop| around.ports[hop.port.index()].queue.reaches(hop.to);
            let hop = hop.filter(there);
            let link = hop.and_then(|hop| self.link_state(partner, hop, around));
            self.near.set_link(at, link);
            hops.push(hop.filter(|_| link.is_some()));
        }
        self.near.set_link(self.partners.len(), Some(OWN));
        self.near.tend(now);
        self.far.tend(now);
        self.streams.end_silent(now);
        self.tend_held(now, around);
        self.exchange(now, &hops, around);
        while let Some((client, reply)) = self.near.poll_reply() {
            match client.socket.checked_sub(CAPTURED) {
                Some(port) => self.reply_captured(now, port, client, &reply, around),
                None => self.reply(now, client, reply),
            }
        }
        while let Some((n, op)) = self.streams.poll() {
            let id = StreamId {
                owner: if n & ADOPTED == 0 { self.owner } else { PROXY },
                side: Side::Client,
                n: n & !ADOPTED,
            };
            self.effects.push_back(Effect::Stream { id, op });
        }
        while let Some((n, wish)) = self.far.poll_wish() {
            self.grant(n, wish);
        }
        if let Some(store) = &mut self.store {
            self.effects.extend(store.tend(now, &mut self.near));
        }
        let mut stats = self.near.stats();
        stats.add(&self.far.stats());
        stats.own.translated = self.translated;
        around.ledger.stats_mut().dns = Some(stats);
    }

    /// Brings frames to partners, and to this gateway itself.
    fn exchange(&mut self, now: Instant, hops: &[Option<Hop>], around: &mut Around<'_>) {
        let own = self.partners.len();
        while let Some(frame) = self.near.poll_frame(now, own) {
            self.far.hear_partner(now, own, &frame);
        }
        while let Some((partner, frame)) = self.far.poll_frame() {
            if partner == own {
                self.near.hear_partner(now, own, &frame);
            } else {
                self.send(now, (partner, self.dscp), hops, &frame, around);
            }
        }
        while let Some((partner, frame)) = self.far.poll_quiet() {
            self.send(now, (partner, QUIET), hops, &frame, around);
        }
        for partner in 0..own {
            while let Some(frame) = self.near.poll_frame(now, partner) {
                self.send(now, (partner, self.dscp), hops, &frame, around);
            }
            while let Some(frame) = self.near.poll_quiet(now, partner) {
                self.send(now, (partner, QUIET), hops, &frame, around);
            }
        }
    }

    /// What the link that leads to a partner is to a question.
    fn link_state(&self, partner: &Partner, hop: Hop, around: &Around<'_>) -> Option<LinkState> {
        let view = Carriage::view(&self.carriages, hop, around)?;
        let latency = around.ports.get(hop.port.index())?.queue.latency();
        let least = if view.repairs { LEAST_REPAIRED } else { LEAST };
        let octets = u128::from(EXCHANGE_OCTETS + view.queued);
        let line_ns = octets * 8_000_000_000 / u128::from(view.bit_s.max(1));
        let line = Duration::from_nanos(u64::try_from(line_ns).unwrap_or(u64::MAX));
        let turnaround = least + line + latency * 2 + view.turn * 4;
        Some(LinkState {
            turnaround: turnaround.max(partner.turnaround),
            bit_s: view.bit_s,
        })
    }

    /// Sends a frame to a partner; one that no link leads to asks again.
    fn send(
        &mut self,
        now: Instant,
        (partner, dscp): (usize, u8),
        hops: &[Option<Hop>],
        frame: &[u8],
        around: &mut Around<'_>,
    ) {
        let (Some(hop), to) = (hops[partner], self.partners[partner].address) else {
            return;
        };
        let Some(own) = own_address_at(around.own, PortId::HOST, to) else {
            return;
        };
        self.ident = self.ident.wrapping_add(1);
        let ends = (
            SocketAddr::new(own, self.port),
            SocketAddr::new(to, self.port),
        );
        if let Some(packet) = packet(ends, dscp, self.ident, frame) {
            around.send(now, packet, hop);
        }
    }

    /// Gives a client its answer.
    fn reply(&mut self, now: Instant, client: Client, reply: Vec<u8>) {
        let Some(n) = client.stream else {
            let meta = DatagramMeta {
                src: client.local,
                dst: client.address,
                dscp: 0,
                hop_limit: 64,
            };
            return self.send_datagram(client.socket, meta, reply);
        };
        self.streams.reply(now, n, &reply);
    }

    fn send_datagram(&mut self, n: u32, meta: DatagramMeta, bytes: Vec<u8>) {
        let owner = self.owner;
        self.effects.push_back(Effect::Datagram {
            socket: SocketId { owner, n },
            meta,
            bytes,
        });
    }

    /// Does what the far side wants of a socket.
    fn grant(&mut self, n: u32, wish: Wish) {
        let socket = RESOLVERS + n;
        match wish {
            Wish::Open(address) => self.bind(socket, address),
            Wish::Close if self.asking.remove(&n.into()).is_some() => {
                self.act(n.into(), StreamOp::Reset(0));
            }
            Wish::Close => self.operate(socket, SocketOp::Close),
            Wish::Send(to, bytes) => {
                let meta = DatagramMeta {
                    src: any_of(to),
                    dst: to,
                    dscp: 0,
                    hop_limit: 64,
                };
                self.send_datagram(socket, meta, bytes);
            }
            Wish::Connect(to, bytes) => {
                let length = bytes.len() as u16;
                let question = [&length.to_be_bytes()[..], &bytes].concat();
                self.asking.insert(n.into(), question);
                let op = StreamOp::Connect {
                    src: None,
                    dst: to,
                    dscp: 0,
                    held: Held::ORDINARY,
                };
                self.act(n.into(), op);
            }
        }
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let silent = self.streams.wake().into_iter();
        let own = self.near.wake().into_iter().chain(self.far.wake());
        let store = self.store.as_ref().and_then(|it| it.wake(&self.near));
        let held = self.translation.wake();
        silent.chain(own).chain(store).chain(held).min()
    }

    pub(super) fn names(&self, now: Instant) -> Vec<NameEntry> {
        self.near.names(now)
    }

    pub(super) fn check(&self) {
        self.near.check();
        self.far.check();
        self.translation.check();
    }
}

/// What a client's stream is known by here.
fn key_of(id: StreamId) -> u64 {
    id.n | if id.owner == PROXY { ADOPTED } else { 0 }
}

/// Nobody has said in time who is meant, or too many wait for that.
fn drop_held(now: Instant, held: HeldPacket, around: &mut Around<'_>) {
    if let Ok(packet) = around.ledger.admit(now, held.bytes, Origin::Own) {
        around.ledger.drop(now, packet, DropCause::Unresolved);
    }
}

/// Any address of somebody's family.
const fn any_of(to: SocketAddr) -> SocketAddr {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(any, 0)
}
