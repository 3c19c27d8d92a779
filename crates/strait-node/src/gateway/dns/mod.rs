//! The [DNS proxy](strait_dns): its sockets, and its frames as packets of the gateway's own.
//!
//! Clients ask by UDP and TCP at addresses of this host; resolvers are asked by a socket for each
//! question. Nobody but partners is heard between gateways, each by the way that leads to it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::fate::Fate;
use strait_core::names::NameEntry;
use strait_core::node::{
    Bind, DatagramMeta, Held, Listen, Owner, Side, SocketEvent, SocketId, SocketOp, StreamEvent,
    StreamId, StreamOp, WallTime,
};
use strait_core::{DropCause, Duration, Effect, Input, Instant, NeighbourId, Packet, PortId};
use strait_dns::cache::Limits;
use strait_dns::{Client, Far, FarSettings, LinkState, Near, NearSettings, Wish};
use strait_wire::ip::{protocol, udp_payload};

mod store;

use self::store::Store;
use super::proxied::{Carriage, packet};
use super::services::Around;
use super::{Stored, own_address_at};
use crate::config::{DnsConfig, DnsRuleConfig, NodeConfig};
use crate::route::Hop;

/// Numbers of sockets: for datagrams of clients, from here on for their streams, and from there on
/// for resolvers.
const STREAMS: u32 = 1 << 16;
const RESOLVERS: u32 = 1 << 17;
/// From here on clients have no socket: they ask others, by a host side of this number.
const CAPTURED: u32 = u32::MAX - 255;
/// Where resolvers are asked.
const PORT: u16 = 53;
/// Clients that have streams at a time, at each address.
const STREAMS_MAX: u32 = 64;
/// How long a stream may be silent (RFC 7766 section 6.2.3).
const SILENT: Duration = Duration::from_secs(20);
/// Octets of a stream that may wait to be a message: the longest question, and as much again.
const INBOUND_OCTETS: u32 = 2048;
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
/// Octets of a resolver's answer by a stream that may wait.
const OUTBOUND_OCTETS: u32 = 65_537;
/// What a client hears that says what is no message (EPROTO of Linux).
const PROTOCOL_ERROR: i32 = 71;

/// A client's stream.
#[derive(Debug)]
struct Inbound {
    listener: u32,
    address: SocketAddr,
    local: SocketAddr,
    /// What has come and is no whole message yet.
    octets: Vec<u8>,
    /// Octets that it takes.
    writable: u64,
    /// Questions that have no answer yet.
    asked: u32,
    ended: bool,
    until: Instant,
}

impl Inbound {
    /// When it is ended, if nothing happens. Whoever waits for an answer is silent for as long.
    fn ends(&self) -> Option<Instant> {
        (self.asked == 0).then_some(self.until)
    }
}

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
    partners: Vec<Partner>,
    near: Near,
    far: Far,
    /// By link port.
    carriages: Vec<Carriage>,
    streams: BTreeMap<u64, Inbound>,
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
        let store = || Store::new(owner, dns.octets.0, found);
        let partners = dns.partners.iter().map(|it| Partner {
            address: it.address,
            turnaround: it.turnaround.map_or(Duration::ZERO, |it| it.0),
        });
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
            partners: partners.collect(),
            near: Near::new(near, seed),
            far: Far::new(far, seed),
            carriages: config.ports.iter().map(Carriage::of).collect(),
            streams: BTreeMap::new(),
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
        let info = packet.info();
        let port = info.ports.map(|(_, to)| to);
        let is_meant = info.protocol == protocol::UDP && port == Some(self.port);
        if !is_meant || !around.is_own(info.dst) {
            return Some(packet);
        }
        let src = info.src;
        let partner = self.partners.iter().position(|it| it.address == src);
        let Some(partner) = partner.filter(|_| around.link_to(src) == Some(from)) else {
            around.ledger.drop(now, packet, DropCause::WrongSource);
            return None;
        };
        let bytes = around.ledger.close(now, packet, Fate::Absorbed);
        let frame = udp_payload(&bytes).map_or(&[][..], |(_, payload)| payload);
        if strait_dns::frame::is_answer(frame) {
            self.near.hear_partner(now, partner, frame);
        } else {
            self.far.hear_partner(now, partner, frame);
        }
        around.ledger.keep_spare(bytes);
        None
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
        self.near.set_calendar(now, wall.0 / 1_000_000_000);
    }

    fn hear_stream(&mut self, now: Instant, id: StreamId, event: StreamEvent<'_>) {
        if id.side == Side::Node {
            return self.hear_resolver(now, id.n, event);
        }
        if let StreamEvent::Opened {
            listener, src, dst, ..
        } = event
        {
            let stream = Inbound {
                listener: listener.map_or(0, |it| it.n),
                address: src,
                local: dst,
                octets: Vec::new(),
                writable: 0,
                asked: 0,
                ended: false,
                until: now + SILENT,
            };
            self.streams.insert(id.n, stream);
            return self.act(Side::Client, id.n, StreamOp::Credit(INBOUND_OCTETS));
        }
        let Some(stream) = self.streams.get_mut(&id.n) else {
            return;
        };
        match event {
            StreamEvent::Data(octets) => {
                stream.octets.extend_from_slice(octets);
                stream.until = now + SILENT;
                self.act(Side::Client, id.n, StreamOp::Credit(octets.len() as u32));
                self.read_stream(now, id.n);
            }
            StreamEvent::Writable(octets) => stream.writable += u64::from(octets),
            StreamEvent::Fin => {
                stream.ended = true;
                self.end_if_done(id.n);
            }
            StreamEvent::Reset(_) => {
                self.streams.remove(&id.n);
            }
            StreamEvent::Opened { .. }
            | StreamEvent::Asked { .. }
            | StreamEvent::Secured { .. } => {}
        }
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
                self.act(Side::Node, n, StreamOp::Send(question));
                self.act(Side::Node, n, StreamOp::Credit(OUTBOUND_OCTETS));
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

    /// Takes whole messages off a stream (RFC 1035 section 4.2.2).
    fn read_stream(&mut self, now: Instant, n: u64) {
        while let Some(stream) = self.streams.get_mut(&n) {
            let Some(length) = stream.octets.first_chunk::<2>() else {
                return;
            };
            let length = usize::from(u16::from_be_bytes(*length));
            if length + 2 > INBOUND_OCTETS as usize {
                self.streams.remove(&n);
                return self.act(Side::Client, n, StreamOp::Reset(PROTOCOL_ERROR));
            }
            if stream.octets.len() < length + 2 {
                return;
            }
            let message: Vec<u8> = stream.octets.drain(..length + 2).skip(2).collect();
            stream.asked += 1;
            let client = Client {
                socket: stream.listener,
                address: stream.address,
                local: stream.local,
                stream: Some(n),
            };
            self.near.hear_client(now, client, &message);
        }
    }

    /// Says that no more comes, where the client has said so and has its answers.
    fn end_if_done(&mut self, n: u64) {
        if self
            .streams
            .get(&n)
            .is_some_and(|it| it.ended && it.asked == 0)
        {
            self.streams.remove(&n);
            self.act(Side::Client, n, StreamOp::Fin);
        }
    }

    fn act(&mut self, side: Side, n: u64, op: StreamOp) {
        let owner = self.owner;
        let id = StreamId { owner, side, n };
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
        self.end_silent(now);
        self.exchange(now, &hops, around);
        while let Some((client, reply)) = self.near.poll_reply() {
            match client.socket.checked_sub(CAPTURED) {
                Some(port) => self.reply_captured(now, port, client, &reply, around),
                None => self.reply(now, client, reply),
            }
        }
        while let Some((n, wish)) = self.far.poll_wish() {
            self.grant(n, wish);
        }
        if let Some(store) = &mut self.store {
            self.effects.extend(store.tend(now, &mut self.near));
        }
        let mut stats = self.near.stats();
        stats.add(&self.far.stats());
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

    /// Ends streams on which nothing happens.
    fn end_silent(&mut self, now: Instant) {
        let silent = self.streams.iter();
        let silent = silent.filter(|(_, it)| it.ends().is_some_and(|at| at <= now));
        let silent: Vec<u64> = silent.map(|(n, _)| *n).collect();
        for n in silent {
            self.streams.remove(&n);
            self.act(Side::Client, n, StreamOp::Fin);
        }
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
        let Some(stream) = self.streams.get_mut(&n) else {
            return;
        };
        stream.asked = stream.asked.saturating_sub(1);
        stream.until = now + SILENT;
        let length = reply.len() as u16;
        let octets = [&length.to_be_bytes()[..], &reply].concat();
        if stream.writable < octets.len() as u64 {
            // It doesn't read what it asked for.
            self.streams.remove(&n);
            return self.act(Side::Client, n, StreamOp::Reset(PROTOCOL_ERROR));
        }
        stream.writable -= octets.len() as u64;
        self.act(Side::Client, n, StreamOp::Send(octets));
        self.end_if_done(n);
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
                self.act(Side::Node, n.into(), StreamOp::Reset(0));
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
                self.act(Side::Node, n.into(), op);
            }
        }
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let silent = self.streams.values().filter_map(Inbound::ends);
        let own = self.near.wake().into_iter().chain(self.far.wake());
        let store = self.store.as_ref().and_then(|it| it.wake(&self.near));
        silent.chain(own).chain(store).min()
    }

    pub(super) fn names(&self, now: Instant) -> Vec<NameEntry> {
        self.near.names(now)
    }

    pub(super) fn check(&self) {
        self.near.check();
        self.far.check();
    }
}

/// Any address of somebody's family.
const fn any_of(to: SocketAddr) -> SocketAddr {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(any, 0)
}
