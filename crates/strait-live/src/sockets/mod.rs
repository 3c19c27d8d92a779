//! The node's own sockets: TCP connections that end at the node, and datagrams.
//!
//! Both directions of a stream go by credit, and each has its own end. The node says how many
//! octets it takes, and no more are read. It is told how many it may send, and what the other side
//! doesn't read stays at most that much here.
//!
//! One descriptor stands for all: a stream on which nothing happens costs the loop nothing.

mod asking;
mod connection;
mod datagrams;
mod listener;
pub mod options;
mod secure;
pub mod tcp_info;
pub mod tls;
mod tried;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd};

use nix::libc;
use nix::sys::epoll::EpollFlags;
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::asked::Questions;
use strait_core::node::{
    Bind, DatagramMeta, Listen, Side, SocketEvent, SocketId, SocketOp, StreamId, StreamOp,
};
use strait_core::time::{Duration, Instant};
use strait_core::tls::TlsVersion;

use strait_wire::ip::Syn;

use connection::Connection;
pub(crate) use datagrams::Came;
pub use datagrams::DatagramCounts;
use datagrams::Datagrams;
use listener::Listener;
use secure::Secure;
use tried::{At, Tried};
use watch::Watch;

use self::tls::TlsProfiles;
use crate::kernel::entropy::entropy;

/// Pause after an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long an accepted client may take to answer: longer than the kernel asks it to.
const HANDSHAKE: Duration = Duration::from_secs(90);

/// How long one keeps its place from others that want it.
const COMING: Duration = Duration::from_secs(10);

/// How long a client may still come that is wanted no more: one that has answered is told.
const REFUSED: Duration = Duration::from_millis(100);

/// Clients that the node is asked about before other sockets have their turn.
const CALLERS: u32 = 64;

/// What happened on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// A client wants to come in.
    Asked(SocketId, Syn),
    /// A client came in, or without a listener, what the node asked for is there.
    Opened {
        listener: Option<SocketId>,
        src: SocketAddr,
        dst: SocketAddr,
        dscp: u8,
    },
    /// It is secured.
    Secured {
        peer: Option<String>,
        version: TlsVersion,
    },
    /// It sent octets.
    Data(Vec<u8>),
    /// It takes so many more.
    Writable(u32),
    /// It sends no more.
    Fin,
    /// It is gone, with this error number.
    Gone(i32),
}

/// What a node is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Socket(SocketId, SocketEvent),
    Stream(StreamId, Happened),
}

/// Which of the descriptors is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Listener(SocketId),
    /// Where its clients are heard before they come.
    Tap(SocketId),
    Connection(StreamId),
    Datagrams(SocketId),
}

/// All sockets of a node's own.
pub(crate) struct Sockets {
    watch: Watch<Which>,
    listeners: BTreeMap<SocketId, Tried<Listen, Listener>>,
    connections: BTreeMap<StreamId, Connection>,
    datagrams: BTreeMap<SocketId, Tried<Bind, Datagrams>>,
    counts: DatagramCounts,
    /// Streams that have something for the node although nothing comes for them.
    ripe: BTreeSet<StreamId>,
    tls: TlsProfiles,
    /// When streams end that nobody waits for.
    ends: BTreeSet<(Instant, StreamId)>,
    next: u64,
    paused_until: Option<Instant>,
    /// Clients that the node is asked about.
    questions: Questions,
    /// What marks the first packets of those who are accepted; see [`asking`].
    stamp: NonZeroU16,
    /// Accepted clients that aren't there yet, by their ends.
    handshakes: BTreeMap<(SocketAddr, SocketAddr), Handshake>,
}

/// An accepted client that isn't there yet.
#[derive(Clone, Debug)]
struct Handshake {
    id: StreamId,
    listener: SocketId,
    until: Instant,
    /// The node wants it no more.
    refused: bool,
    /// Its first packet, and the mark of that.
    syn: Vec<u8>,
    mark: u32,
}

impl Sockets {
    /// None as yet.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            watch: Watch::new()?,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            datagrams: BTreeMap::new(),
            counts: DatagramCounts::default(),
            ripe: BTreeSet::new(),
            tls: TlsProfiles::default(),
            ends: BTreeSet::new(),
            next: 0,
            paused_until: None,
            questions: Questions::default(),
            stamp: NonZeroU16::new(entropy()? as u16).unwrap_or(NonZeroU16::MAX),
            handshakes: BTreeMap::new(),
        })
    }

    /// From now on streams are secured by these profiles.
    pub(crate) fn set_tls(&mut self, profiles: TlsProfiles) {
        self.tls = profiles;
    }

    /// Does what the node wants of a socket; what comes of it at once.
    pub(crate) fn open(&mut self, now: Instant, id: SocketId, op: SocketOp) -> Option<SocketEvent> {
        self.close(id);
        match op {
            SocketOp::Listen(wanted) => {
                let socket = Listener::open(&wanted, id, self.stamp, &mut self.watch);
                let tried = Tried::new(now, wanted, socket);
                let event = tried.event();
                self.listeners.insert(id, tried);
                self.recount(id);
                Some(event)
            }
            SocketOp::Bind(wanted) => {
                let socket = Datagrams::open(&wanted, id, &mut self.watch);
                let tried = Tried::new(now, wanted, socket);
                let event = tried.event();
                self.datagrams.insert(id, tried);
                Some(event)
            }
            SocketOp::Close => None,
        }
    }

    fn close(&mut self, id: SocketId) {
        // Who was accepted there doesn't come any more, and the node is told.
        let coming = self.handshakes.values_mut().filter(|it| it.listener == id);
        coming.for_each(|it| it.until = Instant::ZERO);
        let listener = self.listeners.remove(&id);
        if let Some(Ok(listener)) = listener.map(|it| it.socket) {
            self.watch.forget(&listener.place);
            listener.tap.inspect(|tap| self.watch.forget(&tap.place));
        }
        let datagrams = self.datagrams.remove(&id);
        if let Some(Ok(datagrams)) = datagrams.map(|it| it.socket) {
            self.watch.forget(&datagrams.place);
        }
    }

    /// A listener is new. Streams of an earlier one by its name count as its own.
    fn recount(&mut self, id: SocketId) {
        let its = |it: &&Connection| it.listener == Some(id);
        let count = self.connections.values().filter(its).count();
        if let Some(Ok(listener)) = self.listeners.get_mut(&id).map(|it| &mut it.socket) {
            listener.streams = count as u32;
        }
        self.heed(id);
    }

    /// Waits for a listener's clients if more may come.
    fn heed(&mut self, id: SocketId) {
        let paused = self.paused_until.is_some();
        if let Some(tried) = self.listeners.get_mut(&id)
            && let Ok(listener) = &mut tried.socket
        {
            let waits = listener.streams < tried.wanted.streams_max && !paused;
            if let Err(error) = listener.watch(&self.watch, waits) {
                self.watch.forget(&listener.place);
                if let Some(tap) = &listener.tap {
                    self.watch.forget(&tap.place);
                }
                tried.socket = Err(error);
            }
        }
    }

    /// Addresses that the node can't have, and why.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (SocketAddr, &io::Error)> {
        let listeners = self.listeners.values();
        let listeners =
            listeners.filter_map(|it| Some((it.wanted.address, it.socket.as_ref().err()?)));
        let datagrams = self.datagrams.values();
        let datagrams =
            datagrams.filter_map(|it| Some((it.wanted.address, it.socket.as_ref().err()?)));
        listeners.chain(datagrams)
    }

    /// Takes a socket's next datagram into `buffer`. An error that came in its place is counted.
    pub(crate) fn receive(&mut self, id: SocketId, buffer: &mut [u8]) -> Came {
        let socket = self.datagrams.get(&id);
        let Some(Ok(socket)) = socket.map(|it| &it.socket) else {
            return Came::Nothing;
        };
        socket.receive(buffer).unwrap_or_else(|error| {
            tracing::debug!(%error, "in place of a datagram");
            self.counts.errors += 1;
            Came::Skipped
        })
    }

    /// Sends a datagram if that can be done at once. What can't is counted.
    pub(crate) fn send(&mut self, id: SocketId, meta: &DatagramMeta, octets: &[u8]) {
        let socket = self.datagrams.get(&id);
        let sent = match socket.map(|it| &it.socket) {
            Some(Ok(socket)) => socket.send(meta, octets),
            _ => Err(io::Error::from_raw_os_error(libc::ENOTCONN)),
        };
        let Err(error) = sent else { return };
        tracing::debug!(%error, dst = %meta.dst, "a datagram isn't sent");
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS) => self.counts.crowded += 1,
            _ => self.counts.refused += 1,
        }
    }

    /// What has been counted of datagrams.
    pub(crate) const fn datagram_counts(&self) -> DatagramCounts {
        self.counts
    }

    /// The addresses that clients can connect to.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let sockets = self.listeners.values();
        sockets.filter_map(|it| it.socket.as_ref().ok()?.at().ok())
    }

    /// When [`Self::tick`] is to be called.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let end = self.ends.first().map(|(at, _)| *at);
        let retries = self.listeners.values().filter_map(Tried::wake);
        let retries = retries.chain(self.datagrams.values().filter_map(Tried::wake));
        let handshakes = self.handshakes.values().map(|it| it.until);
        let asked = self.questions.wake().into_iter().chain(handshakes);
        let ripe = (!self.ripe.is_empty()).then_some(Instant::ZERO);
        retries
            .chain(end)
            .chain(self.paused_until)
            .chain(asked)
            .chain(ripe)
            .min()
    }

    /// Ends what takes too long to end, and tries again to have sockets; what has changed.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<News> {
        let mut news = Vec::new();
        while let Some((at, id)) = self.ends.first().copied()
            && at <= now
        {
            if let Some(connection) = self.connections.get(&id) {
                let number = connection.late();
                connection.abort();
                self.forget(id);
                news.push(News::Stream(id, Happened::Gone(number)));
            }
            self.ends.remove(&(at, id));
        }
        for id in std::mem::take(&mut self.ripe) {
            let happened = self.serve_connection(now, id, EpollFlags::EPOLLIN);
            self.attend(id);
            news.extend(happened.into_iter().map(|it| News::Stream(id, it)));
        }
        let forgotten = self.forget_callers(now).into_iter();
        news.extend(forgotten.map(|id| News::Stream(id, Happened::Gone(libc::ETIMEDOUT))));
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.heed_all();
        }
        let due = self.listeners.iter();
        let due = due.filter(|(_, it)| it.wake().is_some_and(|at| at <= now));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            let (watch, stamp) = (&mut self.watch, self.stamp);
            let tried = self.listeners.get_mut(&id);
            let event =
                tried.and_then(|it| it.again(now, |it| Listener::open(it, id, stamp, watch)));
            self.recount(id);
            news.extend(event.map(|event| News::Socket(id, event)));
        }
        for (id, tried) in &mut self.datagrams {
            let event = tried.again(now, |it| Datagrams::open(it, *id, &mut self.watch));
            news.extend(event.map(|event| News::Socket(*id, event)));
        }
        news
    }

    fn heed_all(&mut self) {
        for id in self.listeners.keys().copied().collect::<Vec<_>>() {
            self.heed(id);
        }
    }

    /// What is ready to be served.
    pub(crate) fn ready(&self) -> Vec<(Which, EpollFlags)> {
        self.watch.ready()
    }

    /// A descriptor is ready: what happened, in order.
    pub(crate) fn serve(
        &mut self,
        now: Instant,
        which: Which,
        flags: EpollFlags,
    ) -> Vec<(StreamId, Happened)> {
        match which {
            Which::Datagrams(_) => Vec::new(),
            Which::Listener(id) => self.accept(now, id).into_iter().collect(),
            Which::Tap(id) => self.ask(now, id),
            Which::Connection(id) => {
                let happened = self.serve_connection(now, id, flags);
                self.attend(id);
                happened.into_iter().map(|it| (id, it)).collect()
            }
        }
    }

    fn accept(&mut self, now: Instant, id: SocketId) -> Option<(StreamId, Happened)> {
        let tried = self.listeners.get_mut(&id)?;
        let listener = tried.socket.as_mut().ok()?;
        let (socket, client) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    self.paused_until = Some(now + ACCEPT_PAUSE);
                    self.heed_all();
                }
                return None;
            }
        };
        let ends = (client.src, client.dst);
        let asked_by = listener.tap.is_some().then_some(ends);
        let stream = if asked_by.is_some() {
            let handshake = self.handshakes.remove(&ends);
            let Some(handshake) = handshake.filter(|it| !it.refused) else {
                // Nobody asked about it, or it took too long.
                let _ = socket.set_linger(Some(Duration::ZERO));
                return None;
            };
            handshake.id
        } else {
            next_client(&mut self.next, id)
        };
        listener.streams += 1;
        let place = self.watch.place(Which::Connection(stream));
        let mut connection = Connection::new(socket, place, tried.wanted.held);
        (connection.listener, connection.asked_by) = (Some(id), asked_by);
        self.connections.insert(stream, connection);
        self.heed(id);
        self.attend(stream);
        let opened = Happened::Opened {
            listener: Some(id),
            src: client.src,
            dst: client.dst,
            dscp: client.dscp,
        };
        Some((stream, opened))
    }

    /// Begins to connect as the node asks.
    fn connect(&mut self, id: StreamId, op: &StreamOp) -> io::Result<()> {
        let StreamOp::Connect {
            src,
            dst,
            dscp,
            held,
        } = *op
        else {
            return Ok(());
        };
        let begin = |src: Option<SocketAddr>| {
            let socket = Socket::new(Domain::for_address(dst), Type::STREAM, Some(Protocol::TCP))?;
            socket.set_nonblocking(true)?;
            socket.set_tcp_nodelay(true)?;
            options::hold(&socket, held)?;
            options::mark(&socket, dst, dscp)?;
            if let Some(src) = src {
                options::come_from(&socket, src)?;
            }
            match socket.connect(&dst.into()) {
                Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
                _ => Ok(socket),
            }
        };
        let socket = match begin(src) {
            // A stream goes from that port to the same place: its client took two names for two
            // places. This one has another port.
            Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
                begin(src.map(|src| SocketAddr::new(src.ip(), 0)))?
            }
            other => other?,
        };
        let place = self.watch.place(Which::Connection(id));
        let mut connection = Connection::new(socket, place, held);
        (connection.opening, connection.dscp) = (true, dscp);
        self.connections.insert(id, connection);
        self.attend(id);
        Ok(())
    }

    fn serve_connection(&mut self, now: Instant, id: StreamId, flags: EpollFlags) -> Vec<Happened> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Vec::new();
        };
        let ends_at = connection.ends_at;
        let failed = flags.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
        let reads = failed || flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP);
        let outcome = if connection.opening {
            let opened = connection.finish_opening(now);
            opened.map(|(src, dst)| {
                vec![Happened::Opened {
                    listener: None,
                    src,
                    dst,
                    dscp: connection.dscp,
                }]
            })
        } else {
            // What came before it failed comes first.
            connection.step(now, !failed, reads)
        };
        if connection.ends_at.is_none()
            && let Some(at) = ends_at
        {
            self.ends.remove(&(at, id));
        }
        outcome.unwrap_or_else(|error| {
            self.forget(id);
            vec![Happened::Gone(number(&error))]
        })
    }

    /// Waits for what a connection waits for now; one that is over is gone.
    fn attend(&mut self, id: StreamId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        self.ends.extend(connection.ends_at.map(|at| (at, id)));
        if connection.is_ripe() {
            self.ripe.insert(id);
        }
        let interest = connection.interest();
        let (place, socket) = (&mut connection.place, connection.socket.as_fd());
        // Without a place it would hang for ever; the system has no memory left then.
        let lost = self.watch.set(place, socket, interest).is_err();
        if lost || connection.is_over() {
            self.forget(id);
        }
    }

    /// A connection is no more.
    fn forget(&mut self, id: StreamId) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        self.watch.forget(&connection.place);
        self.ripe.remove(&id);
        if let Some(at) = connection.ends_at {
            self.ends.remove(&(at, id));
        }
        let Some(listener) = connection.listener else {
            return;
        };
        let tried = self.listeners.get_mut(&listener);
        if let Some(Ok(listener)) = tried.map(|it| &mut it.socket) {
            listener.streams = listener.streams.saturating_sub(1);
        }
        self.heed(listener);
    }

    /// Does what the node wants.
    ///
    /// # Errors
    /// The error number of a connection that can't be asked for, isn't there, or is gone for what
    /// the node must not do.
    pub(crate) fn operate(&mut self, now: Instant, id: StreamId, op: StreamOp) -> Result<(), i32> {
        if let StreamOp::Connect { .. } = op {
            return self.connect(id, &op).map_err(|error| number(&error));
        }
        if let Some(answered) = self.answer(now, id, &op) {
            return answered;
        }
        let connection = self.connections.get_mut(&id).ok_or(libc::ENOTCONN)?;
        let taken = match op {
            StreamOp::Connect { .. } | StreamOp::Accept | StreamOp::Refuse(_) => Ok(()),
            StreamOp::Hold(held) => {
                connection.hold(held);
                Ok(())
            }
            StreamOp::Mark(dscp) => {
                connection.mark(dscp);
                Ok(())
            }
            StreamOp::StartTls { profile, role } => {
                let begun = self.tls.begin(&profile, &role);
                let begun = begun.map_err(|fault| {
                    tracing::warn!(profile, fault = fault.name(), "TLS can't begin");
                    fault.number()
                });
                begun.and_then(|(session, patience)| {
                    let make = |clear| Secure::new(session, role, clear, patience);
                    connection.secure(now, make)
                })
            }
            StreamOp::Send(octets) => connection.take(&octets),
            StreamOp::Credit(octets) => {
                connection.credit(octets);
                Ok(())
            }
            StreamOp::Fin => {
                connection.finish(now);
                Ok(())
            }
            StreamOp::Reset(_) => {
                connection.abort();
                self.forget(id);
                return Ok(());
            }
        };
        if taken.is_err() {
            connection.abort();
            self.forget(id);
        }
        self.attend(id);
        taken
    }
}

impl AsFd for Sockets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

/// A number for a client of a listener.
const fn next_client(next: &mut u64, listener: SocketId) -> StreamId {
    let n = *next;
    *next += 1;
    StreamId {
        owner: listener.owner,
        side: Side::Client,
        n,
    }
}

/// The system's number of an error.
fn number(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::ECONNRESET)
}

#[cfg(test)]
mod network_tests;
#[cfg(test)]
mod tests;
