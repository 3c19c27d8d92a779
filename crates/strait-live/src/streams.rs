//! Byte streams that end at the node: TCP connections of local programs.
//!
//! Both directions go by credit. The node says how many octets it takes, and no more are read. It
//! is told how many it may send, and what a client doesn't read stays at most that much here.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use nix::libc;
use nix::poll::PollFlags;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use strait_core::node::{Side, SocketEvent, SocketId, SocketOp, StreamId, StreamOp};
use strait_core::time::{Duration, Instant};

/// Connections at a time; further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 128;

/// Octets that wait for a client here.
const UNSENT_MAX: u32 = 64 * 1024;

/// Octets read at a time.
const CHUNK_OCTETS: usize = 16 * 1024;

/// How long a client may take to read the last of what it was told.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause before an address that can't be had is tried again.
const LISTEN_PAUSE: Duration = Duration::from_secs(1);

/// Pause after an accept that failed for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

struct Connection {
    stream: TcpStream,
    /// It was asked for by the node and isn't there yet.
    opening: bool,
    unsent: Vec<u8>,
    /// Octets that the node takes.
    takes: usize,
    /// Nothing more is to be sent; it is closed when all has gone, or at this moment.
    ends_at: Option<Instant>,
}

/// What happened on a stream.
pub(crate) enum Happened {
    /// A client came in, or without a listener, what the node asked for is there.
    Opened {
        listener: Option<SocketId>,
        src: SocketAddr,
        dst: SocketAddr,
    },
    /// It sent octets.
    Data(Vec<u8>),
    /// It took so many.
    Sent(u32),
    /// It sends no more.
    Fin,
    /// It is gone, with this error number.
    Gone(i32),
}

/// Which of the streams' descriptors is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Listener(SocketId),
    Connection(StreamId),
}

/// A place where clients come, or would.
struct Listener {
    address: SocketAddr,
    /// The socket, or what keeps it away.
    socket: io::Result<TcpListener>,
    retry_at: Instant,
}

/// All streams of a node.
#[derive(Default)]
pub(crate) struct Streams {
    listeners: BTreeMap<SocketId, Listener>,
    connections: BTreeMap<StreamId, Connection>,
    next: u64,
    paused_until: Option<Instant>,
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Streams {
    /// Does what the node wants of a socket; what comes of it at once.
    pub(crate) fn open(&mut self, now: Instant, id: SocketId, op: SocketOp) -> Option<SocketEvent> {
        let address = match op {
            SocketOp::Listen(listen) => listen.address,
            SocketOp::Bind(_) => return Some(SocketEvent::Failed(libc::EOPNOTSUPP)),
            SocketOp::Close => {
                self.listeners.remove(&id);
                return None;
            }
        };
        let socket = listen(address);
        let event = bound(address, &socket);
        let retry_at = now + LISTEN_PAUSE;
        let listener = Listener {
            address,
            socket,
            retry_at,
        };
        self.listeners.insert(id, listener);
        Some(event)
    }

    /// Tries again where clients can't come yet; what has changed.
    fn listen_again(&mut self, now: Instant) -> Vec<(SocketId, SocketEvent)> {
        let waiting = self.listeners.iter_mut();
        let due = waiting.filter(|(_, it)| it.socket.is_err() && it.retry_at <= now);
        let tried = due.filter_map(|(id, listener)| {
            listener.retry_at = now + LISTEN_PAUSE;
            let socket = listen(listener.address);
            let event = bound(listener.address, &socket);
            let changed = event != bound(listener.address, &listener.socket);
            listener.socket = socket;
            changed.then_some((*id, event))
        });
        tried.collect()
    }

    /// Addresses at which clients can't come, and why.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (SocketAddr, &io::Error)> {
        let listeners = self.listeners.values();
        listeners.filter_map(|it| Some((it.address, it.socket.as_ref().err()?)))
    }

    /// The descriptors to wait on, and what for.
    pub(crate) fn interests(&self) -> Vec<(BorrowedFd<'_>, PollFlags, Which)> {
        let mut fds = Vec::new();
        if self.connections.len() < CONNECTIONS_MAX && self.paused_until.is_none() {
            for (id, listener) in &self.listeners {
                if let Ok(socket) = &listener.socket {
                    fds.push((socket.as_fd(), PollFlags::POLLIN, Which::Listener(*id)));
                }
            }
        }
        for (id, connection) in &self.connections {
            let mut flags = PollFlags::empty();
            let reads = connection.takes > 0 && connection.ends_at.is_none();
            flags.set(PollFlags::POLLIN, reads && !connection.opening);
            let writes = connection.opening || !connection.unsent.is_empty();
            flags.set(PollFlags::POLLOUT, writes);
            if !flags.is_empty() {
                fds.push((connection.stream.as_fd(), flags, Which::Connection(*id)));
            }
        }
        fds
    }

    /// When [`Self::tick`] is to be called.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let ends = self.connections.values().filter_map(|it| it.ends_at);
        let waiting = self.listeners.values().filter(|it| it.socket.is_err());
        let retries = waiting.map(|it| it.retry_at);
        ends.chain(retries).chain(self.paused_until).min()
    }

    /// Closes those that take too long to end, and tries again to have sockets; what has changed.
    pub(crate) fn tick(&mut self, now: Instant) -> Vec<(SocketId, SocketEvent)> {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        self.connections
            .retain(|_, it| it.ends_at.is_none_or(|at| at > now));
        self.listen_again(now)
    }

    /// A descriptor is ready: what happened, in order.
    pub(crate) fn serve(&mut self, now: Instant, which: Which) -> Vec<(StreamId, Happened)> {
        match which {
            Which::Listener(id) => self.accept(now, id).into_iter().collect(),
            Which::Connection(id) if self.is_opening(id) => {
                let happened = self.finish_opening(id);
                happened.map(|it| (id, it)).into_iter().collect()
            }
            Which::Connection(id) => {
                let happened = [self.write(id), self.read(now, id)];
                happened.into_iter().flatten().map(|it| (id, it)).collect()
            }
        }
    }

    fn accept(&mut self, now: Instant, listener: SocketId) -> Option<(StreamId, Happened)> {
        let socket = self.listeners.get(&listener)?.socket.as_ref().ok()?;
        let accepted = socket.accept().and_then(|(stream, src)| {
            stream.set_nonblocking(true)?;
            let dst = stream.local_addr()?;
            Ok((stream, src, dst))
        });
        let (stream, src, dst) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    self.paused_until = Some(now + ACCEPT_PAUSE);
                }
                return None;
            }
        };
        // Primitives are short and wait for nothing.
        let _ = stream.set_nodelay(true);
        let id = StreamId {
            owner: listener.owner,
            side: Side::Client,
            n: self.next,
        };
        self.next += 1;
        self.connections.insert(
            id,
            Connection {
                stream,
                opening: false,
                unsent: Vec::new(),
                takes: 0,
                ends_at: None,
            },
        );
        let listener = Some(listener);
        Some((id, Happened::Opened { listener, src, dst }))
    }

    /// Begins to connect as the node asks.
    fn connect(&mut self, id: StreamId, op: &StreamOp) -> io::Result<()> {
        let StreamOp::Connect { src, dst, .. } = *op else {
            return Ok(());
        };
        let socket = Socket::new(Domain::for_address(dst), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(src) = src {
            socket.bind(&src.into())?;
        }
        match socket.connect(&dst.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let connection = Connection {
            stream: socket.into(),
            opening: true,
            unsent: Vec::new(),
            takes: 0,
            ends_at: None,
        };
        self.connections.insert(id, connection);
        Ok(())
    }

    fn is_opening(&self, id: StreamId) -> bool {
        self.connections.get(&id).is_some_and(|it| it.opening)
    }

    /// A connection that the node asked for is there, or never will be.
    fn finish_opening(&mut self, id: StreamId) -> Option<Happened> {
        let connection = self.connections.get_mut(&id)?;
        let stream = &connection.stream;
        let outcome = stream.take_error().and_then(|error| match error {
            Some(error) => Err(error),
            None => Ok((stream.local_addr()?, stream.peer_addr()?)),
        });
        match outcome {
            Ok((src, dst)) => {
                connection.opening = false;
                let listener = None;
                Some(Happened::Opened { listener, src, dst })
            }
            Err(error) => self.lose(id, &error),
        }
    }

    /// What a new connection may be sent.
    pub(crate) const fn credit(&self) -> u32 {
        UNSENT_MAX
    }

    fn read(&mut self, now: Instant, id: StreamId) -> Option<Happened> {
        let connection = self.connections.get_mut(&id)?;
        if connection.takes == 0 || connection.ends_at.is_some() {
            return None;
        }
        let mut buffer = vec![0; connection.takes.min(CHUNK_OCTETS)];
        match connection.stream.read(&mut buffer) {
            Ok(0) => {
                connection.ends_at = Some(now + PATIENCE);
                self.end_if_done(id);
                Some(Happened::Fin)
            }
            Ok(octets) => {
                connection.takes -= octets;
                buffer.truncate(octets);
                Some(Happened::Data(buffer))
            }
            Err(error) => self.lose(id, &error),
        }
    }

    fn write(&mut self, id: StreamId) -> Option<Happened> {
        let connection = self.connections.get_mut(&id)?;
        if connection.unsent.is_empty() {
            return None;
        }
        match connection.stream.write(&connection.unsent) {
            Ok(octets) => {
                connection.unsent.drain(..octets);
                self.end_if_done(id);
                Some(Happened::Sent(octets as u32))
            }
            Err(error) => self.lose(id, &error),
        }
    }

    /// A connection failed, unless it only isn't ready.
    fn lose(&mut self, id: StreamId, error: &io::Error) -> Option<Happened> {
        let kind = error.kind();
        if matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
            return None;
        }
        self.connections.remove(&id);
        let number = error.raw_os_error().unwrap_or(libc::ECONNRESET);
        Some(Happened::Gone(number))
    }

    fn end_if_done(&mut self, id: StreamId) {
        let done = |it: &Connection| it.ends_at.is_some() && it.unsent.is_empty();
        if self.connections.get(&id).is_some_and(done)
            && let Some(connection) = self.connections.remove(&id)
        {
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
    }

    /// Does what the node wants.
    ///
    /// # Errors
    /// The error number of a connection that can't be asked for, or isn't there.
    pub(crate) fn operate(&mut self, now: Instant, id: StreamId, op: StreamOp) -> Result<(), i32> {
        if let StreamOp::Connect { .. } = op {
            let wrong = |error: io::Error| error.raw_os_error().unwrap_or(libc::EINVAL);
            return self.connect(id, &op).map_err(wrong);
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return Err(libc::ENOTCONN);
        };
        match op {
            StreamOp::Connect { .. } | StreamOp::Hold(_) => {}
            StreamOp::Send(octets) => connection.unsent.extend_from_slice(&octets),
            StreamOp::Credit(octets) => {
                connection.takes = connection.takes.saturating_add(octets as usize);
            }
            StreamOp::Fin => {
                connection.ends_at = Some(now + PATIENCE);
                self.end_if_done(id);
            }
            StreamOp::Reset(_) => {
                let socket = SockRef::from(&connection.stream);
                let _ = socket.set_linger(Some(Duration::ZERO));
                self.connections.remove(&id);
            }
        }
        Ok(())
    }

    /// The addresses that clients can connect to.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let sockets = self
            .listeners
            .values()
            .filter_map(|it| it.socket.as_ref().ok());
        sockets.filter_map(|socket| socket.local_addr().ok())
    }
}

/// What a node is told of an attempt to listen.
fn bound(asked: SocketAddr, socket: &io::Result<TcpListener>) -> SocketEvent {
    match socket {
        Ok(socket) => SocketEvent::Bound(socket.local_addr().unwrap_or(asked)),
        Err(error) => SocketEvent::Failed(error.raw_os_error().unwrap_or(libc::EADDRNOTAVAIL)),
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
