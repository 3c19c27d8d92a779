//! A host with one pair of ports.

use std::collections::VecDeque;

use strait_core::chance::Stream;
use strait_core::time::{Duration, Instant};

use crate::profile::Profile;
use crate::{Endpoint, TcpConfig, TcpCounters, TcpEndpoint, TcpError, TcpState, reset_for};

/// Connections that a client makes.
const CONNECTIONS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Client,
    Server,
}

/// One connection as its application sees it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) began: Instant,
    pub(super) to_send: Vec<u8>,
    taken: usize,
    pub(super) received: Vec<u8>,
    pub(super) drained: bool,
    closed: bool,
    /// How it ended.
    pub(super) ended: Option<Option<TcpError>>,
    /// Its machine forgot it.
    pub(super) killed: bool,
}

impl Session {
    const fn new(began: Instant, to_send: Vec<u8>) -> Self {
        Self {
            began,
            to_send,
            taken: 0,
            received: Vec::new(),
            drained: false,
            closed: false,
            ended: None,
            killed: false,
        }
    }

    const fn is_live(&self) -> bool {
        self.ended.is_none() && !self.killed
    }
}

/// A host with one pair of ports: the connection that there is, and those that were.
pub(super) struct Machine {
    role: Role,
    pub(super) profile: Profile,
    pub(super) config: TcpConfig,
    draw: Stream,
    pub(super) on: bool,
    pub(super) tcp: Endpoint,
    pub(super) sessions: Vec<Session>,
    /// Connections that the client has yet to make.
    left: u64,
    /// When the client connects next, or the server's application listens.
    begin_at: Option<Instant>,
    /// Reads at most so much at a time, every so often.
    reads: Option<(usize, Duration)>,
    read_at: Instant,
    /// Closes only after the other end has.
    pub(super) waits: bool,
    /// A connection uses the numbers of the last one again: only timestamps tell them apart
    /// (RFC 7323 section 5).
    pub(super) overlaps: bool,
    /// When the server's application last came up.
    pub(super) up_at: Instant,
    /// Octets that a connection carries at most.
    most: u64,
    resets: VecDeque<Vec<u8>>,
    /// When this end last heard something or the application last did something.
    touched: Instant,
}

impl Machine {
    pub(super) fn new(role: Role, profile: Profile, config: TcpConfig, mut draw: Stream) -> Self {
        let reads = draw
            .happens(0.2)
            .then(|| (1 + draw.below(3000) as usize, Duration::from_millis(100)));
        Self {
            tcp: Endpoint::new(&config, profile.clone()),
            role,
            profile,
            config,
            on: true,
            sessions: Vec::new(),
            left: CONNECTIONS,
            begin_at: None,
            reads,
            read_at: Instant::ZERO,
            waits: false,
            overlaps: false,
            up_at: Instant::ZERO,
            most: [1, 3000, 40_000][draw.below(3) as usize],
            resets: VecDeque::new(),
            touched: Instant::ZERO,
            draw,
        }
    }

    /// How long its application takes to read so many octets.
    pub(super) fn reading(&self, octets: usize) -> Duration {
        let (most, every) = self.reads.unwrap_or((1, Duration::ZERO));
        Duration::from_nanos(every.as_nanos() as u64 * octets.div_ceil(most) as u64)
    }

    /// A connection, or a listener for one, with this initial sequence number.
    fn begin(&mut self, now: Instant, initial: u32) {
        let clock = self.config.seed & u64::from(u32::MAX);
        self.config.seed = u64::from(initial) << 32 | clock;
        self.tcp = Endpoint::new(&self.config, self.profile.clone());
        let octets = self.draw.below(self.most + 1) as usize;
        let tag = self.draw.draw() | 1;
        let mut to_send = Vec::new();
        if octets > 0 || self.draw.happens(0.5) {
            to_send.extend_from_slice(&tag.to_be_bytes());
            to_send.extend((1..=octets as u64).map(|at| (at.wrapping_mul(tag) >> 24) as u8));
        }
        self.sessions.push(Session::new(now, to_send));
        self.touched = now;
        match self.role {
            Role::Client => self.tcp.connect(now).unwrap(),
            Role::Server => self.tcp.accept(now).unwrap(),
        }
    }

    /// Numbers beyond all that the last connection used: the generator of RFC 9293 section 3.4.1
    /// goes on while a machine is down. (One that began anew at random would rarely repeat
    /// numbers that are under way still, but nothing in TCP would notice if it did.)
    fn beyond(&mut self, most: u64) -> u32 {
        let step = 65_537 + self.draw.below(most);
        (self.tcp.sent_to() as u32).wrapping_add(step as u32)
    }

    /// Where the next connection begins on a machine that wasn't down.
    fn following(&mut self) -> u32 {
        if !self.overlaps {
            return self.beyond(60_000);
        }
        let step = 1 + self.draw.below(20_000);
        ((self.config.seed >> 32) as u32).wrapping_add(step as u32)
    }

    /// Power fails.
    pub(super) fn kill(&mut self) {
        self.on = false;
        self.begin_at = None;
        self.resets.clear();
        if let Some(session) = self.sessions.last_mut() {
            session.killed |= session.ended.is_none();
        }
    }

    /// Power is back: after a while a server listens, a client connects.
    pub(super) fn revive(&mut self, now: Instant) {
        if self.on {
            return;
        }
        self.on = true;
        // Its timestamps begin anew (RFC 7323 section 5.4), near their end at times.
        let near_end = self.draw.happens(0.5);
        let clock = if near_end { 20_000 } else { 1 << 32 };
        let clock = u64::from(u32::MAX) - self.draw.below(clock);
        let initial = self.beyond(1 << 30);
        self.config.seed = u64::from(initial) << 32 | clock;
        // Nothing of before is known: until its application is up, segments are answered with
        // resets.
        self.tcp = Endpoint::new(&self.config, self.profile.clone());
        self.left = self.left.max(1);
        self.pause(now);
    }

    fn pause(&mut self, now: Instant) {
        let most = 1 << self.draw.below(14);
        self.begin_at = Some(now + Duration::from_millis(1 + self.draw.below(most)));
    }

    /// What the application does.
    fn work(&mut self, now: Instant) {
        if self.begin_at.is_some_and(|at| at <= now) {
            self.begin_at = None;
            self.left -= u64::from(self.role == Role::Client);
            self.up_at = now;
            let initial = self.following();
            self.begin(now, initial);
        }
        let Some(session) = self.sessions.last_mut().filter(|it| it.is_live()) else {
            return;
        };
        let (most, every) = self.reads.unwrap_or((4096, Duration::ZERO));
        let mut buffer = [0; 4096];
        while every.is_zero() || now >= self.read_at {
            let count = self.tcp.recv(&mut buffer[..most]);
            if count == 0 {
                break;
            }
            session.received.extend_from_slice(&buffer[..count]);
            self.read_at = now + every;
            self.touched = now;
        }
        session.drained |= self.tcp.is_drained();
        if self.tcp.state() != TcpState::Established || session.closed {
            return;
        }
        let count = self.tcp.send(&session.to_send[session.taken..]);
        session.taken += count;
        if count > 0 {
            self.touched = now;
        }
        if session.taken == session.to_send.len() && (session.drained || !self.waits) {
            self.tcp.close();
            session.closed = true;
            self.touched = now;
        }
    }

    /// The connection is over, or gives its ports to another. What it says must be true: without
    /// an error, everything went both ways.
    fn conclude(&mut self, now: Instant) {
        let Some(session) = self.sessions.last_mut().filter(|it| it.is_live()) else {
            return;
        };
        let mut buffer = [0; 4096];
        loop {
            let count = self.tcp.recv(&mut buffer);
            if count == 0 {
                break;
            }
            session.received.extend_from_slice(&buffer[..count]);
        }
        session.drained |= self.tcp.is_drained();
        let error = self.tcp.error();
        session.ended = Some(error);
        if error.is_none() {
            assert!(self.tcp.is_all_acked(), "data is lost and nobody says so");
            assert!(session.drained && session.taken == session.to_send.len());
        }
        match self.role {
            Role::Server => {}
            Role::Client if self.left > 0 => self.pause(now),
            Role::Client => {}
        }
    }

    /// Ends what is over and listens again. True if something new began.
    fn renew(&mut self, now: Instant) -> bool {
        if self.tcp.state() != TcpState::Closed {
            return false;
        }
        let over = self.sessions.last().is_some_and(Session::is_live);
        if over {
            self.conclude(now);
        }
        if over && self.role == Role::Server {
            let initial = self.following();
            self.begin(now, initial);
        }
        over
    }

    /// What must hold after each step.
    pub(super) fn check(&self, now: Instant) {
        if !self.on {
            return;
        }
        self.tcp.check();
        if matches!(self.tcp.state(), TcpState::Closed | TcpState::Listening) {
            return;
        }
        let waits_for_reader = self.tcp.unread() > 0;
        let planned = self.tcp.wake().is_some() || waits_for_reader;
        assert!(planned || self.tcp.only_listens(), "stuck");
        if let Some(patience) = self.tcp.patience() {
            let silent = now.since(self.touched);
            assert!(
                silent <= patience,
                "{silent:?} of silence, not {patience:?}"
            );
        }
    }
}

/// The machine seen as the one endpoint that the path carries packets for.
impl TcpEndpoint for Machine {
    fn connect(&mut self, now: Instant) -> Result<(), TcpError> {
        self.begin_at = Some(now);
        Ok(())
    }

    fn accept(&mut self, now: Instant) -> Result<(), TcpError> {
        self.begin(now, (self.config.seed >> 32) as u32);
        Ok(())
    }

    fn send(&mut self, _: &[u8]) -> usize {
        0
    }

    fn recv(&mut self, _: &mut [u8]) -> usize {
        0
    }

    fn is_drained(&self) -> bool {
        false
    }

    fn close(&mut self) {}

    fn abort(&mut self) {}

    fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        if !self.on {
            return;
        }
        self.touched = now;
        if self.role == Role::Server
            && let Some(initial) = self.tcp.makes_way(packet)
        {
            self.conclude(now);
            self.begin(now, initial);
        }
        if self.tcp.state() == TcpState::Closed {
            let mut reset = Vec::new();
            if reset_for(packet, &mut reset) {
                self.resets.push_back(reset);
            }
        } else {
            self.tcp.handle_packet(now, packet);
        }
    }

    fn handle_path_mtu(&mut self, _: Instant, _: u32) {}

    fn poll_packet(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.clear();
        if !self.on {
            return false;
        }
        if let Some(reset) = self.resets.pop_front() {
            *out = reset;
            return true;
        }
        loop {
            self.work(now);
            if self.tcp.poll_packet(now, out) {
                return true;
            }
            if !self.renew(now) {
                return false;
            }
        }
    }

    fn wake(&self) -> Option<Instant> {
        let read_at = (self.reads.is_some() && self.tcp.unread() > 0).then_some(self.read_at);
        let times = [self.tcp.wake(), self.begin_at, read_at];
        times.into_iter().flatten().min().filter(|_| self.on)
    }

    fn state(&self) -> TcpState {
        self.tcp.state()
    }

    fn error(&self) -> Option<TcpError> {
        self.tcp.error()
    }

    fn counters(&self) -> TcpCounters {
        self.tcp.counters()
    }
}
