//! The TCP connections of a gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use strait_core::chance::Stream as Chance;
use strait_core::node::{Held, Listen, Owner, Side, SocketId, StreamId, StreamOp};
use strait_core::tls::TlsFault;
use strait_core::{Duration, Instant};
use strait_hosts::tls::{Profile, Session};
use strait_tcp::{PROFILE_DEFAULT, TcpConfig, TcpEndpoint, TcpError, TcpState, endpoint};
use strait_wire::ip::{PacketInfo, TcpFlags, tcp_header};

use super::secure::Secure;
use super::{
    ADDRESS_NOT_AVAILABLE, ALREADY, BROKEN_PIPE, CONNECTION_REFUSED, CONNECTION_RESET,
    HOST_UNREACHABLE, Happening, MTU, NO_BUFFERS, NOT_CONNECTED, Report, TIMED_OUT,
};

/// Clients that wait for a place at a listener; a further one isn't heard, and asks again.
const BACKLOG: usize = 128;

/// Octets told of at a time.
const CHUNK_OCTETS: usize = 16 * 1024;

/// The next moment: behind all that is done in this one.
const BEHIND: Duration = Duration::from_nanos(1);

/// Streams that clients begin have numbers from here on.
const FIRST_CLIENT: u64 = 1 << 32;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl Ends {
    /// Those of the connection that a received packet belongs to.
    pub(super) fn received(info: &PacketInfo) -> Option<Self> {
        let (from, to) = info.ports?;
        Some(Self {
            local: SocketAddr::new(info.dst, to),
            remote: SocketAddr::new(info.src, from),
        })
    }
}

type ConnectionId = u64;

struct Connection {
    endpoint: Box<dyn TcpEndpoint>,
    ends: Ends,
    /// What the gateway knows it by, while it has anything to do with it.
    stream: Option<StreamId>,
    listener: Option<SocketId>,
    /// The gateway has been told that it is there.
    told: bool,
    /// It hasn't done yet what it does when it hears that.
    fresh: bool,
    /// The code point of what it sends, and what the gateway is told of as the client's.
    dscp: u8,
    tells_dscp: u8,
    held: Held,
    /// Octets that the gateway takes.
    takes: u64,
    /// Octets that came and are more than the endpoint's buffer was made for.
    ahead: Vec<u8>,
    /// Octets that it has given and the endpoint hasn't taken.
    unsent: Vec<u8>,
    /// Octets that it has given, and may have given, so far.
    given: u64,
    may_give: u64,
    receive_octets: usize,
    /// Ends of both directions: ours wished and done, the other's told.
    ending: bool,
    ended: bool,
    fin_told: bool,
    tls: Option<Box<Secure>>,
    wake_at: Option<Instant>,
}

impl Connection {
    /// Hands over to the endpoint what the gateway sends.
    fn push(&mut self) {
        if let Some(tls) = &mut self.tls {
            let endpoint = self.endpoint.as_mut();
            let said = tls.push(endpoint, &mut self.unsent, self.held, self.ending);
            if said && self.ending && !self.ended {
                self.ended = true;
                self.endpoint.close();
            }
            return;
        }
        let taken = self.endpoint.send(&self.unsent);
        self.unsent.drain(..taken);
        if self.ending && !self.ended && self.unsent.is_empty() {
            self.ended = true;
            self.endpoint.close();
        }
    }

    /// What its gateway is to be told, in order, and what is wrong with its TLS.
    fn tell(&mut self, now: Instant) -> (Vec<Happening>, Result<(), TlsFault>) {
        let mut news = Vec::new();
        let fault = self.read(now, &mut news);
        let ended = self.tls.as_ref().map(|it| it.session.has_ended());
        let ended = ended.unwrap_or_else(|| self.endpoint.is_drained());
        let drained = self.ahead.is_empty() && ended;
        if drained && !self.fin_told {
            self.fin_told = true;
            news.push(Happening::Fin);
        }
        let acked = self.endpoint.counters().octets_acked;
        let clear = |tls: &mut Box<Secure>| tls.clear_of(acked);
        let acked = self.tls.as_mut().map_or(acked, clear).min(self.given);
        let may = acked + u64::from(self.held.outbound);
        if may > self.may_give && !self.ending {
            let more = u32::try_from(may - self.may_give).unwrap_or(u32::MAX);
            self.may_give += u64::from(more);
            news.push(Happening::Writable(more));
        }
        (news, fault)
    }

    fn read(&mut self, now: Instant, news: &mut Vec<Happening>) -> Result<(), TlsFault> {
        let mut fault = Ok(());
        loop {
            let more = (self.held.inbound as usize).saturating_sub(self.receive_octets);
            let room = more + self.takes as usize;
            let known = self.ahead.len();
            if let Some(tls) = self
                .tls
                .as_mut()
                .filter(|_| fault.is_ok() && !self.fin_told)
            {
                fault = tls.read(self.endpoint.as_mut(), &mut self.ahead, room);
                let until = *tls.until.get_or_insert(now + tls.patience);
                if fault.is_ok() && !tls.session.is_secured() && until <= now {
                    fault = Err(TlsFault::Slow);
                }
                news.extend(tls.session.take_secured().map(Happening::Secured));
            } else if known < room && self.tls.is_none() {
                self.ahead.resize(room.min(known + CHUNK_OCTETS), 0);
                let read = self.endpoint.recv(&mut self.ahead[known..]);
                self.ahead.truncate(known + read);
            }
            let count = self.ahead.len().min(self.takes as usize).min(CHUNK_OCTETS);
            if count == 0 {
                return fault;
            }
            self.takes -= count as u64;
            let rest = self.ahead.split_off(count);
            news.push(Happening::Data(std::mem::replace(&mut self.ahead, rest)));
        }
    }

    /// Has TLS from now on.
    fn secure(&mut self, begun: Result<(Session, Duration), TlsFault>) -> Result<(), i32> {
        let (session, patience) = begun.map_err(TlsFault::number)?;
        if self.tls.is_some() {
            return Err(ALREADY);
        }
        if self.ending || self.fin_told {
            return Err(BROKEN_PIPE);
        }
        let mut tls = Secure::new(session, self.given, self.unsent.len(), patience);
        // What the gateway hasn't heard belongs to it.
        let came = std::mem::take(&mut self.ahead);
        tls.take(&came, &mut self.ahead).map_err(TlsFault::number)?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// Ends it for what is wrong with its TLS; the other side is told what it can be told.
    fn fail(&mut self, fault: TlsFault) {
        if let Some(tls) = self.tls.take() {
            self.endpoint.send(&tls.last_words());
        }
        self.unsent.clear();
        (self.ending, self.ended) = (true, true);
        if matches!(fault, TlsFault::Truncated | TlsFault::Slow | TlsFault::Long) {
            self.endpoint.abort();
        } else {
            self.endpoint.close();
        }
    }

    /// When something is to be done with it.
    fn wake(&self) -> Option<Instant> {
        let tls = self.tls.as_ref().filter(|it| !it.session.is_secured());
        let begun = tls.and_then(|it| it.until);
        self.endpoint.wake().into_iter().chain(begun).min()
    }

    /// Nothing more of it concerns the gateway.
    const fn is_done(&self) -> bool {
        self.fin_told && self.ended
    }
}

/// All connections of a gateway.
pub(super) struct Streams {
    all: BTreeMap<ConnectionId, Connection>,
    by_ends: BTreeMap<Ends, ConnectionId>,
    by_stream: BTreeMap<StreamId, ConnectionId>,
    /// By listener, how many it may have at a time.
    limits: BTreeMap<SocketId, u32>,
    wakes: BTreeSet<(Instant, ConnectionId)>,
    /// Those that something has happened to.
    dirty: BTreeSet<ConnectionId>,
    /// Those that are fresh, and when they aren't any more.
    fresh: Vec<ConnectionId>,
    settled_at: Instant,
    reports: Vec<Report>,
    next: ConnectionId,
    next_client: u64,
    seeds: Chance,
}

impl Streams {
    pub(super) fn new(seed: u64, name: &str) -> Self {
        Self {
            all: BTreeMap::new(),
            by_ends: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            limits: BTreeMap::new(),
            wakes: BTreeSet::new(),
            dirty: BTreeSet::new(),
            fresh: Vec::new(),
            settled_at: Instant::ZERO,
            reports: Vec::new(),
            next: 0,
            next_client: FIRST_CLIENT,
            seeds: Chance::new(seed, &format!("kernel.{name}.isn")),
        }
    }

    pub(super) fn knows(&self, ends: Ends) -> bool {
        self.by_ends.contains_key(&ends)
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let timer = self.wakes.first().map(|(at, _)| *at);
        let fresh = (!self.fresh.is_empty()).then_some(self.settled_at);
        timer.into_iter().chain(fresh).min()
    }

    pub(super) fn wake_up(&mut self, now: Instant) {
        let due = self.wakes.iter().take_while(|(at, _)| *at <= now);
        self.dirty.extend(due.map(|(_, id)| *id));
        if self.settled_at > now {
            return;
        }
        for id in std::mem::take(&mut self.fresh) {
            if let Some(connection) = self.all.get_mut(&id) {
                connection.fresh = false;
                self.dirty.insert(id);
            }
        }
    }

    pub(super) fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    fn add(&mut self, ends: Ends, held: Held, initial: Option<u32>) -> Option<ConnectionId> {
        let seed = self.seeds.draw();
        let seed = initial.map_or(seed, |initial| {
            u64::from(initial) << 32 | seed & u64::from(u32::MAX)
        });
        let receive_octets = held.inbound.max(1) as usize;
        let config = TcpConfig {
            mtu: MTU as u32,
            send_octets: held.outbound.max(1) as usize,
            receive_octets,
            nagle: false,
            seed,
            ..TcpConfig::new(ends.local, ends.remote)
        };
        let endpoint = endpoint(PROFILE_DEFAULT, &config).ok()?;
        let id = self.next;
        self.next += 1;
        let connection = Connection {
            endpoint,
            ends,
            stream: None,
            listener: None,
            told: false,
            fresh: false,
            dscp: 0,
            tells_dscp: 0,
            held,
            takes: 0,
            ahead: Vec::new(),
            unsent: Vec::new(),
            given: 0,
            may_give: 0,
            receive_octets,
            ending: false,
            ended: false,
            fin_told: false,
            tls: None,
            wake_at: None,
        };
        self.all.insert(id, connection);
        self.by_ends.insert(ends, id);
        self.dirty.insert(id);
        Some(id)
    }

    /// Opens a connection for the gateway.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        stream: StreamId,
        ends: Ends,
        dscp: u8,
        held: Held,
    ) -> Result<(), i32> {
        if self.knows(ends) {
            return Err(ADDRESS_NOT_AVAILABLE);
        }
        let id = self.add(ends, held, None).ok_or(ADDRESS_NOT_AVAILABLE)?;
        let Some(connection) = self.all.get_mut(&id) else {
            return Err(ADDRESS_NOT_AVAILABLE);
        };
        connection.stream = Some(stream);
        (connection.dscp, connection.tells_dscp) = (dscp, dscp);
        if connection.endpoint.connect(now).is_err() {
            self.remove(id);
            return Err(ADDRESS_NOT_AVAILABLE);
        }
        self.by_stream.insert(stream, id);
        Ok(())
    }

    /// Takes a packet; false if nobody wants it and its sender is to be told so.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        ends: Ends,
        bytes: &[u8],
        listener: Option<(SocketId, Listen)>,
        dscp: u8,
    ) -> bool {
        let initial = self.make_way(ends, bytes, listener.is_some());
        if let Some(id) = self.by_ends.get(&ends) {
            if let Some(connection) = self.all.get_mut(id) {
                connection.endpoint.handle_packet(now, bytes);
            }
            self.dirty.insert(*id);
            return true;
        }
        let opens = tcp_header(bytes).is_some_and(|header| {
            let others = TcpFlags::ACK.0 | TcpFlags::RST.0 | TcpFlags::FIN.0;
            header.flags.contains(TcpFlags::SYN) && header.flags.0 & others == 0
        });
        let Some((socket, listen)) = listener.filter(|_| opens) else {
            return false;
        };
        let waiting = self.all.values();
        let waiting = waiting.filter(|it| it.listener == Some(socket) && it.stream.is_none());
        if waiting.filter(|it| !it.told).count() >= BACKLOG {
            return true;
        }
        self.limits.insert(socket, listen.streams_max);
        let Some(id) = self.add(ends, listen.held, initial) else {
            return false;
        };
        if let Some(connection) = self.all.get_mut(&id) {
            connection.listener = Some(socket);
            (connection.dscp, connection.tells_dscp) = (listen.dscp, dscp);
            if connection.endpoint.accept(now).is_ok() {
                connection.endpoint.handle_packet(now, bytes);
            }
            if connection.endpoint.state() != TcpState::Connecting {
                self.remove(id);
            }
        }
        true
    }

    /// Whether a packet from a client may begin a connection between these ends.
    pub(super) fn is_free(&self, ends: Ends, bytes: &[u8]) -> bool {
        let there = self.by_ends.get(&ends).and_then(|id| self.all.get(id));
        there.is_none_or(|it| it.stream.is_none() && it.endpoint.makes_way(bytes).is_some())
    }

    /// Whether a listener may have another stream.
    pub(super) fn has_place(&self, listener: SocketId, most: u32) -> bool {
        let has = self.by_stream.values().filter_map(|id| self.all.get(id));
        let has = has.filter(|it| it.listener == Some(listener)).count();
        has < most as usize
    }

    /// The number of a client's stream.
    pub(super) const fn next_client(&mut self, owner: Owner) -> StreamId {
        let n = self.next_client;
        self.next_client += 1;
        StreamId {
            owner,
            side: Side::Client,
            n,
        }
    }

    pub(super) fn is_there(&self, stream: StreamId) -> bool {
        self.by_stream.contains_key(&stream)
    }

    /// Whether a stream is that of a client who was accepted and isn't there yet.
    pub(super) fn is_coming(&self, stream: StreamId) -> bool {
        let id = self.by_stream.get(&stream);
        let there = id.and_then(|id| self.all.get(id));
        there.is_some_and(|it| it.listener.is_some() && !it.told)
    }

    /// The connection between these ends is this stream, which the gateway knows already; false if
    /// there is none.
    pub(super) fn name(&mut self, ends: Ends, stream: StreamId) -> bool {
        let Some(id) = self.by_ends.get(&ends).copied() else {
            return false;
        };
        let free = self.all.get_mut(&id).filter(|it| it.stream.is_none());
        let Some(connection) = free else { return false };
        connection.stream = Some(stream);
        self.by_stream.insert(stream, id);
        true
    }

    /// Ends a connection that only waits out of caution if another is to be between its ends: the
    /// other's initial sequence number.
    fn make_way(&mut self, ends: Ends, bytes: &[u8], listened: bool) -> Option<u32> {
        let id = *self.by_ends.get(&ends).filter(|_| listened)?;
        let connection = self.all.get(&id).filter(|it| it.stream.is_none())?;
        let initial = connection.endpoint.makes_way(bytes)?;
        self.remove(id);
        Some(initial)
    }

    pub(super) fn limit_mtu(&mut self, now: Instant, ends: Ends, mtu: u32) {
        if let Some(id) = self.by_ends.get(&ends)
            && let Some(connection) = self.all.get_mut(id)
        {
            connection.endpoint.handle_path_mtu(now, mtu);
            self.dirty.insert(*id);
        }
    }

    /// A connection that can't come about, for this reason. One that is there goes on trying.
    pub(super) fn give_up(&mut self, ends: Ends, error: i32) {
        let Some(id) = self.by_ends.get(&ends).copied() else {
            return;
        };
        let opening = |it: &Connection| it.endpoint.state() == TcpState::Connecting;
        if self.all.get(&id).is_some_and(opening) {
            self.end(id, Some(error));
        }
    }

    /// Does what the gateway wants of one of its streams.
    pub(super) fn operate(
        &mut self,
        stream: StreamId,
        op: StreamOp,
        profiles: &BTreeMap<String, Profile>,
    ) {
        let id = self.by_stream.get(&stream).copied();
        let Some((id, connection)) = id.and_then(|id| Some((id, self.all.get_mut(&id)?))) else {
            if let StreamOp::Send(_) | StreamOp::StartTls { .. } = op {
                let reset = Report::Stream(stream, Happening::Reset(NOT_CONNECTED));
                self.reports.push(reset);
            }
            return;
        };
        self.dirty.insert(id);
        match op {
            StreamOp::Connect { .. } | StreamOp::Accept | StreamOp::Refuse(_) => {}
            StreamOp::Hold(held) => connection.held = held,
            StreamOp::Mark(dscp) => connection.dscp = dscp,
            StreamOp::StartTls { profile, role } => {
                let profile = profiles.get(&profile).ok_or(TlsFault::Profile);
                let begun = profile.and_then(|profile| {
                    let session = Session::new(profile, &role)?;
                    Ok((session, profile.patience))
                });
                if let Err(error) = connection.secure(begun) {
                    connection.endpoint.abort();
                    self.reports
                        .push(Report::Stream(stream, Happening::Reset(error)));
                    self.release(id);
                }
            }
            StreamOp::Send(octets) => {
                connection.given += octets.len() as u64;
                let misused = if connection.ending {
                    Some(BROKEN_PIPE)
                } else {
                    (connection.given > connection.may_give).then_some(NO_BUFFERS)
                };
                if let Some(error) = misused {
                    connection.endpoint.abort();
                    self.reports
                        .push(Report::Stream(stream, Happening::Reset(error)));
                    return self.release(id);
                }
                connection.unsent.extend(octets);
            }
            StreamOp::Credit(octets) => connection.takes += u64::from(octets),
            StreamOp::Fin => connection.ending = true,
            StreamOp::Reset(_) => {
                connection.endpoint.abort();
                self.release(id);
            }
        }
    }

    /// Ends all of them at once.
    pub(super) fn abort_all(&mut self) {
        for id in self.all.keys().copied().collect::<Vec<_>>() {
            self.abort(id);
        }
        self.limits.clear();
    }

    fn abort(&mut self, id: ConnectionId) {
        if let Some(connection) = self.all.get_mut(&id) {
            connection.endpoint.abort();
            self.dirty.insert(id);
            self.release(id);
        }
    }

    /// A listener is closed: who waits there is sent away.
    pub(super) fn close_backlog(&mut self, socket: SocketId) {
        let waiting = self.all.iter();
        let waiting = waiting.filter(|(_, it)| it.listener == Some(socket) && !it.told);
        for id in waiting.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.abort(id);
        }
    }

    /// The next packet that a connection sends, with its code point. Moves on all that something
    /// has happened to.
    pub(super) fn poll_packet(&mut self, now: Instant) -> Option<(Vec<u8>, u8)> {
        while let Some(id) = self.dirty.first().copied() {
            if let Some(packet) = self.poll_one(now, id) {
                return Some(packet);
            }
            self.admit(now, id);
            if self.advance(now, id) {
                continue;
            }
            self.dirty.remove(&id);
            self.conclude(id);
        }
        None
    }

    fn poll_one(&mut self, now: Instant, id: ConnectionId) -> Option<(Vec<u8>, u8)> {
        let connection = self.all.get_mut(&id)?;
        connection.push();
        let mut packet = Vec::new();
        let sends = connection.endpoint.poll_packet(now, &mut packet);
        sends.then_some((packet, connection.dscp))
    }

    /// Tells the gateway of a connection that has come about, if it may have another. What it does
    /// when it hears that, such as to say what may wait, comes before all that happens then.
    fn admit(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.all.get(&id) else {
            return;
        };
        let there = matches!(
            connection.endpoint.state(),
            TcpState::Established | TcpState::Closing
        );
        if connection.told || !there {
            return;
        }
        let (named, listener) = (connection.stream, connection.listener);
        if let (None, Some(listener)) = (named, listener)
            && !self.has_place(listener, self.limits.get(&listener).copied().unwrap_or(0))
        {
            return;
        }
        let owner = listener.map_or(Owner(0), |it| it.owner);
        let stream = named.unwrap_or_else(|| self.next_client(owner));
        let Some(connection) = self.all.get_mut(&id) else {
            return;
        };
        (connection.told, connection.fresh) = (true, true);
        connection.stream = Some(stream);
        self.fresh.push(id);
        self.settled_at = now + BEHIND;
        self.by_stream.insert(stream, id);
        // The client's side is first, whoever began.
        let Ends { local, remote } = connection.ends;
        let ends = match stream.side {
            Side::Client => Ends { local, remote },
            Side::Node => Ends {
                local: remote,
                remote: local,
            },
        };
        let opened = Happening::Opened {
            listener: connection.listener,
            ends,
            dscp: connection.tells_dscp,
        };
        self.reports.push(Report::Stream(stream, opened));
    }

    /// Tells what happened to a connection; whether anything did, so that it may have to send.
    fn advance(&mut self, now: Instant, id: ConnectionId) -> bool {
        let ready = |it: &&mut Connection| it.told && !it.fresh;
        let Some(connection) = self.all.get_mut(&id).filter(ready) else {
            return false;
        };
        let Some(stream) = connection.stream else {
            return false;
        };
        let (mut news, fault) = connection.tell(now);
        if let Err(fault) = fault {
            connection.fail(fault);
            news.push(Happening::Reset(fault.number()));
        }
        let sends = connection
            .tls
            .as_ref()
            .is_some_and(|tls| tls.session.has_out());
        let happened = !news.is_empty() || sends;
        let news = news.into_iter();
        self.reports
            .extend(news.map(|happening| Report::Stream(stream, happening)));
        if fault.is_err() {
            self.release(id);
        }
        happened
    }

    /// Sees where a connection stands when it has nothing to send.
    fn conclude(&mut self, id: ConnectionId) {
        let Some(connection) = self.all.get_mut(&id) else {
            return;
        };
        if connection.endpoint.state() == TcpState::Closed {
            let error = connection.endpoint.error().map(|error| match error {
                TcpError::Refused => CONNECTION_REFUSED,
                TcpError::Reset => CONNECTION_RESET,
                TcpError::TimedOut => TIMED_OUT,
                TcpError::Misused => ADDRESS_NOT_AVAILABLE,
                TcpError::Unreachable => HOST_UNREACHABLE,
            });
            return self.end(id, error);
        }
        let wake_at = connection.wake();
        let before = std::mem::replace(&mut connection.wake_at, wake_at);
        let done = connection.is_done();
        if before != wake_at {
            self.wakes.extend(wake_at.map(|at| (at, id)));
            if let Some(before) = before {
                self.wakes.remove(&(before, id));
            }
        }
        if done {
            self.release(id);
        }
    }

    /// A connection is no more; the gateway hears of it unless it knows.
    fn end(&mut self, id: ConnectionId, error: Option<i32>) {
        let stream = self.all.get(&id).and_then(|it| it.stream);
        if let (Some(stream), Some(error)) = (stream, error) {
            let reset = Report::Stream(stream, Happening::Reset(error));
            self.reports.push(reset);
        }
        self.release(id);
        self.remove(id);
    }

    /// The gateway has nothing to do with a connection any more: another may have its place.
    fn release(&mut self, id: ConnectionId) {
        let Some(connection) = self.all.get_mut(&id) else {
            return;
        };
        let Some(stream) = connection.stream.take() else {
            return;
        };
        let listener = connection.listener;
        self.by_stream.remove(&stream);
        let waits = |it: &&Connection| it.listener == listener && !it.told;
        let next = self
            .all
            .iter()
            .find(|(_, it)| listener.is_some() && waits(it));
        self.dirty.extend(next.map(|(id, _)| *id));
    }

    fn remove(&mut self, id: ConnectionId) {
        let Some(connection) = self.all.remove(&id) else {
            return;
        };
        if self.by_ends.get(&connection.ends) == Some(&id) {
            self.by_ends.remove(&connection.ends);
        }
        if let Some(at) = connection.wake_at {
            self.wakes.remove(&(at, id));
        }
        self.dirty.remove(&id);
    }
}
