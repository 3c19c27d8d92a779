//! A TCP proxy: a client's connection ends at its own gateway, and another begins at the gateway
//! near the server. Between the two, octets go by the session of these gateways.
//!
//! **Honest**: a client hears nothing before its server's gateway has said what became of the
//! connection there, and then that. **Early**: it is connected at once, and reset if that was
//! wrong. An honest connection may become early if it takes too long.
//!
//! **By name**: programs may ask by SOCKS5 or HTTP CONNECT, too. To servers these are programs of
//! the far gateway's.
//!
//! **Silent** partners swallow nobody: clients whose partner hasn't spoken yet, or is lost, pass as
//! without the proxy.
//!
//! **Credit** couples the ways: a client isn't read from while much of what it sent waits for the
//! link, and the link doesn't carry what a server hasn't taken.
//!
//! **Compression**: on slow lines what gets shorter by that is compressed, each direction of each
//! stream with all that it had before.
//!
//! **Who may**: partners are those that the node file names. A partner speaks for the clients that
//! are behind it, and connects them to where the file allows.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use strait_core::chance::Stream as Chance;
use strait_core::node::{
    Held, Listen, Owner, Refusal, Side, SocketId, SocketOp, StreamEvent, StreamId, StreamOp,
};
use strait_core::stats::{ProxyRefusal, ProxyStats, SessionStats};
use strait_core::{Duration, Effect, Instant};
use strait_dns::Meant;
use strait_proxy::handshake::{Target, granted};
use strait_proxy::{Ends, Event, Key, Open};
use strait_wire::ip::Unreachable;

use crate::config::{Connects, ProxyConfig, ProxySource};
use crate::route::Prefix;

mod ends;
mod explicit;
mod held;
mod inner;
mod locals;
mod packing;
mod partner;
mod passed;

use self::ends::*;
use self::explicit::{Asking, Explicit};
use self::inner::Inner;
use self::locals::{Locals, Phase};
use self::packing::{Packing, READ_OCTETS};
pub(crate) use self::partner::{ClassView, HOP_LIMIT, LinkView, Promise};
use self::partner::{Limits, Partner};
use self::passed::Passed;

/// How long a client's question waits for the far side: as long as clients are patient.
const ANSWER: Duration = Duration::from_secs(120);

/// What may wait towards the node, outside of it, on each stream: a few segments of a host here.
/// The hold is the session's.
const INBOUND_OCTETS: u32 = 6144;

/// What is sent on a stream at a time.
const SEND_OCTETS: u64 = 16 * 1024;
/// Credit that is worth giving. Little by little would be an answer to each packet.
const CREDIT_OCTETS_MIN: u64 = 512;
/// The same where octets are compressed, and what part of them is left then.
const CREDIT_PACKED_MIN: u64 = 4096;
const PACKED_TO: u64 = 3;
/// Credit that a connection has at a time: one that is idle keeps so little from others.
const CREDIT_OCTETS_MAX: u64 = 16 * 1024;

/// Numbers of listeners where programs ask, from here on; those before are for whom rules bring.
const EXPLICIT: u32 = 16;
/// A connection that a partner's client wants.
#[derive(Debug)]
struct AskedFor {
    partner: usize,
    key: Key,
    open: Open,
    /// Until when it may be unknown whom it is for.
    until: Instant,
}

impl AskedFor {
    fn is(&self, partner: usize, key: Key) -> bool {
        (self.partner, self.key) == (partner, key)
    }
}

/// The proxy.
#[derive(Debug)]
pub(crate) struct Proxy {
    owner: Owner,
    port: u16,
    source: ProxySource,
    /// Streams of clients at a time, of each family.
    streams_max: u32,
    refuse_quic: bool,
    octets_max: u64,
    allow: Vec<Prefix>,
    announce: Vec<Prefix>,
    own: Vec<IpAddr>,
    partners: Vec<Partner>,
    explicit: Explicit,
    packing: Packing,
    passed: Passed,
    locals: Locals,
    inner: Inner,
    /// Partners' clients that aren't connected yet.
    asked: VecDeque<AskedFor>,
    /// The number of the next connection to a server.
    next: u64,
    effects: VecDeque<Effect>,
    stats: ProxyStats,
}

impl Proxy {
    /// A proxy at a gateway with these addresses.
    pub(crate) fn new(owner: Owner, config: &ProxyConfig, own: Vec<IpAddr>, seed: u64) -> Self {
        let mut tokens = Chance::new(seed, "proxy.tokens");
        let limits = Limits::of(config);
        let explicit = config.explicit.iter().map(SocketAddr::ip);
        let partners = config.partners.iter();
        let partners = partners.map(|it| {
            let mut partner = Partner::new(it, limits, &own, tokens.draw() as u32);
            partner.session.announce(&config.announce);
            partner
        });
        let partners = partners.collect();
        let own = own.into_iter().chain(explicit).collect();
        Self {
            owner,
            port: config.port,
            source: config.source,
            refuse_quic: config.refuse_quic,
            streams_max: config.streams,
            octets_max: config.memory.0 / 2,
            allow: config.allow.clone(),
            announce: config.announce.clone(),
            partners,
            own,
            explicit: Explicit::default(),
            packing: Packing::new(config.compress, config.partners.len()),
            passed: Passed::default(),
            locals: Locals::new(config.idle.map(|time| time.0)),
            inner: Inner::default(),
            asked: VecDeque::new(),
            next: 0,
            effects: VecDeque::new(),
            stats: ProxyStats::default(),
        }
    }

    /// Declares a listener for each family of what the host's rules bring, and those where programs
    /// ask.
    pub(crate) fn listen(&mut self, brought: &[Prefix], explicit: &[SocketAddr]) {
        for (n, address) in (EXPLICIT..).zip(explicit) {
            let listen = Listen {
                streams_max: self.streams_max,
                held: held(),
                ..Listen::at(*address)
            };
            self.declare(n, listen);
        }
        let families: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        for (n, any) in (0..).zip(families) {
            let of_family = |it: &Prefix| it.address.is_ipv4() == any.is_ipv4();
            if !brought.iter().any(of_family) {
                continue;
            }
            let listen = Listen {
                transparent: true,
                streams_max: self.streams_max,
                held: held(),
                asks: Some(ANSWER),
                ..Listen::at(SocketAddr::new(any, self.port))
            };
            self.declare(n, listen);
        }
    }

    fn declare(&mut self, n: u32, listen: Listen) {
        let owner = self.owner;
        let id = SocketId { owner, n };
        let op = SocketOp::Listen(listen);
        self.effects.push_back(Effect::Socket { id, op });
    }

    /// The UDP port of sessions.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn stats(&self) -> ProxyStats {
        let mut sessions = SessionStats::default();
        let mut stats = self.stats;
        stats.octets_max = self.octets_max;
        (stats.octets, stats.octets_line) = (self.packing.octets, self.packing.octets_line);
        stats.count_failed_handshakes(self.explicit.failed);
        for partner in &self.partners {
            sessions.add(&partner.session.stats());
            stats.partners_known += u64::from(partner.session.is_there());
            stats.lanes += partner.lanes();
            stats.announced += partner.session.announced().len() as u64;
        }
        stats.sessions = sessions;
        stats
    }

    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(crate) fn check(&self) {
        self.explicit.check();
        self.packing.check();
        self.partners.iter().for_each(|it| it.session.check());
        self.locals.check();
    }

    /// Something happened to a program's stream that hasn't asked yet; false if it isn't one.
    fn hear_explicit(&mut self, now: Instant, id: StreamId, event: StreamEvent<'_>) -> bool {
        match event {
            StreamEvent::Opened {
                listener: Some(listener),
                src,
                dscp,
                ..
            } if listener.n >= EXPLICIT => self.explicit.begin(now, id, src.ip(), dscp),
            _ if self.explicit.has(id) => self.explicit.hear(id, event),
            _ => return false,
        }
        self.operate_explicit();
        true
    }

    fn operate_explicit(&mut self) {
        while let Some((id, op)) = self.explicit.poll_op() {
            self.operate(id, op);
        }
    }

    /// Whether programs have asked for connections.
    pub(crate) fn has_wishes(&self) -> bool {
        self.explicit.is_asked()
    }

    /// Asks partners for what programs want. `is_near` says what lies at the gateway's hosts,
    /// `connects` when who wants that is connected, and `place_of` where a name is.
    pub(crate) fn grant_wishes(
        &mut self,
        now: Instant,
        is_near: impl Fn(IpAddr) -> bool,
        connects: impl Fn(&Open) -> Connects,
        mut place_of: impl FnMut(IpAddr, &str) -> Option<(IpAddr, Option<IpAddr>)>,
    ) {
        while let Some((id, asking)) = self.explicit.next() {
            self.stats.explicit += 1;
            let from = asking.from;
            let may = from.is_loopback() || self.own.contains(&from) || is_near(from);
            let server = match &asking.target {
                _ if !may => Err((ProxyRefusal::NotAllowed, PERMISSION_DENIED)),
                Target::Address(server) => Ok((*server, None)),
                Target::Name(name, port) => place_of(from, name)
                    .map(|(address, gateway)| (SocketAddr::new(address, *port), gateway))
                    .ok_or((ProxyRefusal::Server, HOST_UNREACHABLE)),
            };
            let speech = asking.speech;
            let begun = server.and_then(|(server, gateway)| {
                self.begin_explicit(now, id, (server, gateway), &asking, &connects)
            });
            if let Err((why, error)) = begun {
                self.stats.refuse(why);
                self.explicit.refuse(now, id, speech, error);
            }
        }
        self.operate_explicit();
    }

    fn begin_explicit(
        &mut self,
        now: Instant,
        id: StreamId,
        (server, gateway): (SocketAddr, Option<IpAddr>),
        asking: &Asking,
        connects: impl Fn(&Open) -> Connects,
    ) -> Result<(), (ProxyRefusal, u16)> {
        let partner = self.partner_at(server.ip(), gateway);
        let partner = partner.ok_or((ProxyRefusal::NoPartner, PERMISSION_DENIED))?;
        let session = &mut self.partners[partner].session;
        if !session.is_there() {
            return Err((ProxyRefusal::Silent, HOST_UNREACHABLE));
        }
        // It comes from the far gateway's own address.
        let client = nobody_like(server);
        let ends = Ends { client, server };
        let dscp = asking.dscp;
        let open = Open { ends, dscp };
        let key = session.open(now, open);
        let key = key.map_err(|_| (ProxyRefusal::Full, TRY_AGAIN))?;
        self.locals.add(now, id, partner, key, Phase::Asked);
        if let Some(local) = self.locals.one_mut(id) {
            local.explicit = Some(asking.speech);
            (local.writable, local.credited) = (asking.writable, asking.credited);
        }
        self.carry(now, id, &asking.rest);
        if asking.ended {
            self.hear_stream(now, id, StreamEvent::Fin, (None, Connects::WhenAnswered));
        }
        match connects(&open) {
            Connects::AtOnce => self.let_in(now, id),
            Connects::After(time) => self.locals.let_in_at(now + time, id),
            Connects::WhenAnswered => {}
        }
        Ok(())
    }

    /// Something happened to a connection of a host here. Of a client that asks for one, `gateway`
    /// is that of the name which its address stands for, and `connects` when it has its connection.
    pub(crate) fn hear_stream(
        &mut self,
        now: Instant,
        id: StreamId,
        event: StreamEvent<'_>,
        (gateway, connects): (Option<IpAddr>, Connects),
    ) {
        if let StreamEvent::Asked { src, dst, dscp, .. } = event {
            let ends = Ends {
                client: src,
                server: dst,
            };
            return self.ask(now, id, Open { ends, dscp }, gateway, connects);
        }
        if self.hear_explicit(now, id, event) {
            return;
        }
        let Some(local) = self.locals.one_mut(id) else {
            if let StreamEvent::Opened { .. } = event {
                self.operate(id, StreamOp::Reset(i32::from(CONNECTION_ABORTED)));
            }
            return;
        };
        let (partner, key) = (local.partner, local.key);
        let session = &mut self.partners[partner].session;
        match event {
            StreamEvent::Opened { .. } => {
                if local.phase == Phase::Connecting {
                    session.accept(key);
                }
                local.phase = Phase::Open;
                local.moved = now;
                self.locals.coming.remove(partner, key);
            }
            StreamEvent::Data(octets) => {
                local.moved = now;
                local.credited = local.credited.saturating_sub(octets.len() as u64);
                self.carry(now, id, octets);
            }
            StreamEvent::Writable(octets) => local.writable += u64::from(octets),
            StreamEvent::Fin => {
                local.heard_end = true;
                self.packing.end(&mut local.directions);
                session.finish(key);
            }
            StreamEvent::Reset(error) => {
                let why = match local.phase {
                    Phase::Asked | Phase::Accepted => Some(ProxyRefusal::Gone),
                    Phase::Connecting => Some(ProxyRefusal::Server),
                    Phase::Open => None,
                };
                why.into_iter().for_each(|why| self.stats.refuse(why));
                session.reset(key, u16::try_from(error).unwrap_or(CONNECTION_ABORTED));
                return self.forget(id);
            }
            StreamEvent::Asked { .. } | StreamEvent::Secured { .. } => {}
        }
        self.advance(now, id);
    }

    /// Gives octets of a host here to the session.
    fn carry(&mut self, now: Instant, id: StreamId, octets: &[u8]) {
        if let Some(local) = self.locals.one_mut(id) {
            let partner = &mut self.partners[local.partner];
            let pays = partner.is_slow();
            let directions = &mut local.directions;
            let packed = match local.lane {
                Some(_) => self.packing.pack_mail(directions, pays, octets),
                None => self.packing.pack(directions, pays, octets),
            };
            partner.session.write(now, local.key, &packed);
        }
    }

    /// A client wants a connection. If its address stands for a name, it has that at once: who took
    /// a name for known before it was wants no answer.
    fn ask(
        &mut self,
        now: Instant,
        id: StreamId,
        open: Open,
        gateway: Option<IpAddr>,
        connects: Connects,
    ) {
        let Some(partner) = self.partner_at(open.ends.server.ip(), gateway) else {
            if self.partners.iter().any(Partner::is_announced) {
                // Somebody may be responsible who hasn't said so.
                return self.pass(now, id, Some(open.ends));
            }
            let how = Refusal::Unreachable(Unreachable::AdminProhibited);
            return self.refuse(id, ProxyRefusal::NoPartner, how);
        };
        let repeated = self.passed.holds(now, open.ends);
        if repeated || !self.partners[partner].session.is_there() {
            return self.pass(now, id, Some(open.ends));
        }
        let early = connects == Connects::AtOnce || gateway.is_some();
        let place = match early {
            true => self.makes_way(now, partner),
            false => self.make_place(now, partner),
        };
        let session = &mut self.partners[partner].session;
        let Some(key) = place.then(|| session.open(now, open).ok()).flatten() else {
            // It asks again.
            return self.refuse(id, ProxyRefusal::Full, Refusal::Silence);
        };
        let phase = if early { Phase::Accepted } else { Phase::Asked };
        self.locals.add(now, id, partner, key, phase);
        if let Some(local) = self.locals.one_mut(id) {
            local.ends = Some(open.ends);
        }
        if early {
            self.locals.coming.add(partner, key);
            self.partners[partner].session.expect(now, key);
            self.operate(id, StreamOp::Accept);
            return;
        }
        self.locals.held.add(partner, key);
        if let Connects::After(time) = connects {
            self.locals.let_in_at(now + time, id);
        }
    }

    fn refuse(&mut self, id: StreamId, why: ProxyRefusal, how: Refusal) {
        self.stats.refuse(why);
        self.operate(id, StreamOp::Refuse(how));
    }

    /// Whether QUIC to a server is to be refused, which is counted: it would cross the link by a
    /// rate that it guesses. While the partner is silent it passes, as all does.
    pub(crate) fn refuses_quic(&mut self, server: IpAddr, gateway: Option<IpAddr>) -> bool {
        let partner = self.partner_at(server, gateway);
        let partner = partner.filter(|_| self.refuse_quic);
        let refused = partner.is_some_and(|it| self.partners[it].session.is_there());
        if refused {
            self.stats.refuse(ProxyRefusal::Quic);
        }
        refused
    }

    /// The partner near an address, or `gateway` if that is known to be.
    fn partner_at(&self, address: IpAddr, gateway: Option<IpAddr>) -> Option<usize> {
        let partner = match gateway {
            Some(gateway) => self.find(gateway),
            None => self.partner_of(address),
        };
        partner.filter(|_| !self.own.contains(&address))
    }

    /// The partner near an address.
    fn partner_of(&self, address: IpAddr) -> Option<usize> {
        let partners = self.partners.iter().enumerate();
        let near = partners.filter_map(|(at, it)| Some((it.nearness(address)?, at)));
        near.max_by_key(|(length, at)| (*length, usize::MAX - at))
            .map(|(_, at)| at)
    }

    /// Whether an address is of this side by what the file says: no partner's word makes it its
    /// own.
    fn is_here(&self, address: IpAddr) -> bool {
        let mut here = self.allow.iter().chain(&self.announce);
        here.any(|it| it.contains(address)) || self.own.contains(&address)
    }

    /// The partner with this address of its own.
    pub(crate) fn find(&self, address: IpAddr) -> Option<usize> {
        self.partners.iter().position(|it| it.address == address)
    }

    /// Their addresses, in order.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        self.partners.iter().map(|it| it.address).collect()
    }

    /// Datagrams of partners that came, whatever they say.
    pub(crate) fn heard(&self) -> u64 {
        self.partners.iter().map(|it| it.heard).sum()
    }

    /// A datagram of a partner's session came, with this code point and so many hops left.
    pub(crate) fn hear_partner(
        &mut self,
        now: Instant,
        partner: usize,
        (dscp, hops_left): (u8, u8),
        datagram: &[u8],
    ) {
        self.partners[partner].hear(now, dscp, hops_left, datagram);
        self.follow(now, partner);
    }

    /// The link gave up a datagram of a session.
    pub(crate) fn hear_returned(
        &mut self,
        now: Instant,
        partner: usize,
        datagram: &[u8],
        left: bool,
    ) {
        let session = &mut self.partners[partner].session;
        session.hear_returned(now, datagram, left);
    }

    /// Does what follows from what happened in a session.
    fn follow(&mut self, now: Instant, partner: usize) {
        while let Some(event) = self.partners[partner].session.poll_event() {
            match event {
                Event::Opened(key, open) => {
                    let until = now + ANSWER;
                    self.asked.push_back(AskedFor {
                        partner,
                        key,
                        open,
                        until,
                    });
                }
                // The far side has the connection that a client here wants.
                Event::Accepted(key) => {
                    let Some(id) = self.locals.find(partner, key) else {
                        continue;
                    };
                    if let Some(asked) = self.locals.held_since(id) {
                        self.partners[partner].note_answer(now.since(asked));
                    }
                    self.let_in(now, id);
                }
                Event::Ready(key) => {
                    let id = self.locals.find(partner, key);
                    id.into_iter().for_each(|id| self.advance(now, id));
                }
                Event::Reset(key, error) => {
                    self.asked.retain(|it| !it.is(partner, key));
                    self.end(now, partner, key, error);
                }
                Event::Lost(key) => {
                    self.asked.retain(|it| !it.is(partner, key));
                    self.lose(now, partner, key);
                }
            }
        }
    }

    /// Whether partners' clients wait to be connected.
    pub(crate) fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Connects partners' clients. `is_near` says what lies at the gateway's hosts, and `meant`
    /// whom a partner means by an address that stands for a name: that may be known later.
    pub(crate) fn connect_asked(
        &mut self,
        now: Instant,
        is_near: impl Fn(IpAddr) -> bool,
        mut meant: impl FnMut(IpAddr, IpAddr) -> Option<Meant>,
    ) {
        for mut asked in core::mem::take(&mut self.asked) {
            let AskedFor { partner, key, .. } = asked;
            let server = &mut asked.open.ends.server;
            match meant(self.partners[partner].address, server.ip()) {
                Some(Meant::Address(real)) => server.set_ip(real),
                Some(Meant::Unknown) if asked.until > now => {
                    self.asked.push_back(asked);
                    continue;
                }
                Some(_) => {
                    self.stats.refuse(ProxyRefusal::Server);
                    self.partners[partner].session.reset(key, HOST_UNREACHABLE);
                    continue;
                }
                None => {}
            }
            self.connect(now, (partner, key), asked.open, &is_near);
        }
    }

    /// A partner's client wants a connection.
    fn connect(
        &mut self,
        now: Instant,
        (partner, key): (usize, Key),
        open: Open,
        is_near: impl Fn(IpAddr) -> bool,
    ) {
        let Open { ends, dscp } = open;
        let (client, server) = (ends.client.ip(), ends.server.ip());
        let allowed = self.allow.iter().any(|it| it.contains(server)) && is_near(server);
        // The partner's own programs come from an address of ours.
        let own = client.is_unspecified() && ends.client.port() == 0;
        if own && self.accept_inner(now, (partner, key), open) {
            return;
        }
        let why = if self.own.contains(&server) || is_nobodys(server) || !allowed {
            Some(ProxyRefusal::NotAllowed)
        } else if own {
            None
        } else if self.partner_of(client) != Some(partner)
            || is_nobodys(client)
            || self.partners[partner].is_announced() && self.is_here(client)
        {
            Some(ProxyRefusal::WrongSource)
        } else {
            None
        };
        if let Some(why) = why {
            self.stats.refuse(why);
            return self.partners[partner].session.reset(key, PERMISSION_DENIED);
        }
        let id = StreamId {
            owner: self.owner,
            side: Side::Node,
            n: self.next,
        };
        self.next += 1;
        self.locals.add(now, id, partner, key, Phase::Connecting);
        let op = StreamOp::Connect {
            src: (self.source == ProxySource::Client && !own).then_some(ends.client),
            dst: ends.server,
            dscp,
            held: held(),
        };
        self.operate(id, op);
    }

    /// Connects a client that waits for it.
    fn let_in(&mut self, now: Instant, id: StreamId) {
        self.locals.end_wait(id);
        let waiting = self.locals.one_mut(id);
        let Some(local) = waiting.filter(|it| it.phase == Phase::Asked) else {
            return;
        };
        let (partner, lane) = (local.partner, local.lane.is_some());
        let Some(answer) = local.explicit.map(granted) else {
            if lane {
                self.operate(id, StreamOp::Accept);
                return self.open_inner(now, id);
            }
            if !self.makes_way(now, partner) {
                return self.turn_away(id);
            }
            self.locals.let_in(now, id);
            return self.operate(id, StreamOp::Accept);
        };
        let Some(local) = self.locals.one_mut(id) else {
            return;
        };
        local.phase = Phase::Open;
        local.writable = local.writable.saturating_sub(answer.len() as u64);
        self.operate(id, StreamOp::Send(answer));
        self.advance(now, id);
    }

    /// Connects clients that have waited long enough for an answer.
    fn let_in_early(&mut self, now: Instant) {
        while let Some(id) = self.locals.next_early(now) {
            self.stats.early += 1;
            self.let_in(now, id);
        }
    }

    /// Ends connections on which nothing has moved for longer than may be, and nothing waits for
    /// the link.
    fn end_idle(&mut self, now: Instant) {
        while let Some(id) = self.locals.next_idle(now) {
            let Some(local) = self.locals.one_mut(id) else {
                continue;
            };
            let (partner, key) = (local.partner, local.key);
            let session = &mut self.partners[partner].session;
            if session.is_leaving(key) {
                local.moved = now;
                continue;
            }
            session.expire(key);
            self.follow(now, partner);
        }
    }

    /// The far side ended a stream.
    fn end(&mut self, now: Instant, partner: usize, key: Key, error: u16) {
        let Some(id) = self.locals.find(partner, key) else {
            return;
        };
        let phase = self.locals.one(id).map(|it| it.phase);
        self.note_refusal(id, partner, error);
        match phase {
            Some(Phase::Asked) if self.refuse_explicit(now, id, error) => {}
            Some(Phase::Asked) => self.refuse(id, ProxyRefusal::Server, as_refusal(error)),
            _ => self.operate(id, StreamOp::Reset(i32::from(error))),
        }
        self.forget(id);
    }

    /// Tells a program that asked by a listener of ours that its connection came to nothing.
    fn refuse_explicit(&mut self, now: Instant, id: StreamId, error: u16) -> bool {
        let Some(speech) = self.locals.one(id).and_then(|it| it.explicit) else {
            return false;
        };
        self.stats.refuse(ProxyRefusal::Server);
        self.explicit.refuse(now, id, speech, error);
        self.operate_explicit();
        true
    }

    /// The far side is silent, and hadn't accepted a stream.
    fn lose(&mut self, now: Instant, partner: usize, key: Key) {
        let Some(id) = self.locals.find(partner, key) else {
            return;
        };
        let ends = self.locals.one(id).and_then(|it| it.ends);
        match self.locals.one(id).map(|it| it.phase) {
            Some(Phase::Asked) if self.refuse_explicit(now, id, TIMED_OUT) => {}
            Some(Phase::Asked) => self.pass(now, id, ends),
            _ => self.operate(id, StreamOp::Reset(i32::from(TIMED_OUT))),
        }
        self.forget(id);
    }

    /// Moves octets of a connection on, both ways.
    fn advance(&mut self, now: Instant, id: StreamId) {
        let Some(local) = self.locals.one_mut(id) else {
            return;
        };
        if local.phase != Phase::Open {
            return;
        }
        let session = &mut self.partners[local.partner].session;
        let stream = |op| Effect::Stream { id, op };
        let mut whole = true;
        while local.writable > 0 {
            let most = local.writable.min(SEND_OCTETS) as usize;
            let octets = self
                .packing
                .unpack(&mut local.directions, local.partner, most);
            let Ok(octets) = octets else {
                whole = false;
                break;
            };
            if !octets.is_empty() {
                local.writable -= octets.len() as u64;
                local.moved = now;
                self.effects.push_back(stream(StreamOp::Send(octets)));
                continue;
            }
            let octets = session.read(local.key, READ_OCTETS);
            if octets.is_empty() {
                break;
            }
            local.directions.feed(&octets);
        }
        if !local.said_end && local.directions.is_read() && session.at_end(local.key) {
            local.said_end = true;
            whole &= local.directions.is_whole();
            if whole {
                self.effects.push_back(stream(StreamOp::Fin));
            }
        }
        if !whole {
            // The partner isn't what it agreed to be.
            session.reset(local.key, PROTOCOL);
            self.effects
                .push_back(stream(StreamOp::Reset(i32::from(PROTOCOL))));
            return self.forget(id);
        }
        let room = session.room(local.key);
        if let Some((window, _)) = local.lane {
            let waiting = session.waiting(local.key);
            let more = inner::credit(window, local.credited, waiting, room);
            if more > 0 && !local.heard_end {
                local.credited += more;
                let more = u32::try_from(more).unwrap_or(u32::MAX);
                self.effects.push_back(stream(StreamOp::Credit(more)));
            }
            if local.said_end && local.heard_end {
                self.forget(id);
            }
            return;
        }
        let (room, least) = match local.directions.is_packed() {
            // It gets about so much shorter, and the more comes at a time the shorter.
            true => (room.saturating_mul(PACKED_TO), CREDIT_PACKED_MIN),
            false => (room, CREDIT_OCTETS_MIN),
        };
        let more = room.min(CREDIT_OCTETS_MAX).saturating_sub(local.credited);
        if !local.heard_end && (local.credited == 0 || more >= least) {
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            if more > 0 {
                local.credited += u64::from(more);
                self.effects.push_back(stream(StreamOp::Credit(more)));
            }
        }
        if local.said_end && local.heard_end {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: StreamId) {
        if let Some(local) = self.locals.remove(id) {
            if let Some((_, dscp)) = local.lane {
                self.partners[local.partner].remove_lane(dscp);
            }
            self.packing.forget(local.directions, local.partner);
        }
    }

    fn operate(&mut self, id: StreamId, op: StreamOp) {
        self.effects.push_back(Effect::Stream { id, op });
    }

    /// What became of a session's link, or of its rate.
    pub(crate) fn set_link(&mut self, now: Instant, partner: usize, link: Option<LinkView>) {
        self.partners[partner].set_link(now, link);
    }

    /// Has a session take note of the time.
    pub(crate) fn tend(&mut self, now: Instant, partner: usize) {
        self.let_in_early(now);
        self.end_idle(now);
        self.explicit.tend(now);
        self.operate_explicit();
        self.partners[partner].tend(now);
        self.follow(now, partner);
    }

    /// The code points of which a session has something to send.
    pub(crate) fn wants(&self, now: Instant, partner: usize) -> Vec<u8> {
        let partner = &self.partners[partner];
        match partner.link {
            Some(_) => partner.session.wants(now).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// A session's next datagram, if no more of its class waits at the link than is good.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        partner: usize,
        dscp: u8,
        class: ClassView,
    ) -> Option<Vec<u8>> {
        let datagram = self.partners[partner].poll(now, dscp, class)?;
        // What has left makes room for more.
        self.follow(now, partner);
        Some(datagram)
    }

    /// Octets that a session has ready for the next turn of its link, beside what waits there.
    pub(crate) fn promise(&self, now: Instant, partner: usize) -> Promise {
        self.partners[partner].promise(now)
    }

    /// When a session has something to do, as of the moment at which it was looked at last.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let partners = self.partners.iter().filter_map(Partner::wake);
        let locals = self.locals.wake();
        let asked = self.asked.iter().map(|it| it.until);
        let explicit = self.explicit.wake();
        partners.chain(locals).chain(asked).chain(explicit).min()
    }
}

const fn held() -> Held {
    Held {
        inbound: INBOUND_OCTETS,
        outbound: Held::ORDINARY.outbound,
    }
}

#[cfg(test)]
mod tests;
