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
use strait_core::node::{SocketId, StreamId, StreamOp};
use strait_core::time::{Duration, Instant};

use crate::error::{Doing, Error};

/// Connections at a time; further ones wait in the listener's backlog.
const CONNECTIONS_MAX: usize = 128;

/// Octets that wait for a client here.
const UNSENT_MAX: u32 = 64 * 1024;

/// Octets read at a time.
const CHUNK_OCTETS: usize = 16 * 1024;

/// How long a client may take to read the last of what it was told.
const PATIENCE: Duration = Duration::from_secs(5);

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
    Listener(usize),
    Connection(u64),
}

/// All streams of a node.
#[derive(Default)]
pub(crate) struct Streams {
    listeners: Vec<(SocketId, TcpListener)>,
    connections: BTreeMap<u64, Connection>,
    next: u64,
    paused_until: Option<Instant>,
}

impl Streams {
    /// Listens at `address` for clients, whom the node knows by `socket`.
    ///
    /// # Errors
    /// The address can't be had.
    pub(crate) fn listen(&mut self, socket: SocketId, address: SocketAddr) -> Result<(), Error> {
        let doing = || format!("listen for clients at {address}");
        let listener = TcpListener::bind(address).doing(doing)?;
        listener.set_nonblocking(true).doing(doing)?;
        self.listeners.push((socket, listener));
        Ok(())
    }

    /// The descriptors to wait on, and what for.
    pub(crate) fn interests(&self) -> Vec<(BorrowedFd<'_>, PollFlags, Which)> {
        let mut fds = Vec::new();
        if self.connections.len() < CONNECTIONS_MAX && self.paused_until.is_none() {
            for (index, (_, listener)) in self.listeners.iter().enumerate() {
                fds.push((listener.as_fd(), PollFlags::POLLIN, Which::Listener(index)));
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
        ends.chain(self.paused_until).min()
    }

    /// Closes those that take too long to end.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        self.connections
            .retain(|_, it| it.ends_at.is_none_or(|at| at > now));
    }

    /// A descriptor is ready: what happened, in order.
    pub(crate) fn serve(&mut self, now: Instant, which: Which) -> Vec<(StreamId, Happened)> {
        match which {
            Which::Listener(index) => self.accept(now, index).into_iter().collect(),
            Which::Connection(id) if self.is_opening(id) => {
                let happened = self.finish_opening(id);
                happened.map(|it| (StreamId(id), it)).into_iter().collect()
            }
            Which::Connection(id) => {
                let happened = [self.write(id), self.read(now, id)];
                happened
                    .into_iter()
                    .flatten()
                    .map(|it| (StreamId(id), it))
                    .collect()
            }
        }
    }

    fn accept(&mut self, now: Instant, index: usize) -> Option<(StreamId, Happened)> {
        let (listener, socket) = self.listeners.get(index).map(|it| (it.0, &it.1))?;
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
        let id = self.next;
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
        Some((StreamId(id), Happened::Opened { listener, src, dst }))
    }

    /// Begins to connect as the node asks.
    fn connect(&mut self, id: u64, op: &StreamOp) -> io::Result<()> {
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

    fn is_opening(&self, id: u64) -> bool {
        self.connections.get(&id).is_some_and(|it| it.opening)
    }

    /// A connection that the node asked for is there, or never will be.
    fn finish_opening(&mut self, id: u64) -> Option<Happened> {
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

    fn read(&mut self, now: Instant, id: u64) -> Option<Happened> {
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

    fn write(&mut self, id: u64) -> Option<Happened> {
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
    fn lose(&mut self, id: u64, error: &io::Error) -> Option<Happened> {
        let kind = error.kind();
        if matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
            return None;
        }
        self.connections.remove(&id);
        let number = error.raw_os_error().unwrap_or(libc::ECONNRESET);
        Some(Happened::Gone(number))
    }

    fn end_if_done(&mut self, id: u64) {
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
            return self.connect(id.0, &op).map_err(wrong);
        }
        let Some(connection) = self.connections.get_mut(&id.0) else {
            return Err(libc::ENOTCONN);
        };
        match op {
            StreamOp::Connect { .. } => {}
            StreamOp::Send(octets) => connection.unsent.extend_from_slice(&octets),
            StreamOp::Credit(octets) => {
                connection.takes = connection.takes.saturating_add(octets as usize);
            }
            StreamOp::Fin => {
                connection.ends_at = Some(now + PATIENCE);
                self.end_if_done(id.0);
            }
            StreamOp::Reset(_) => {
                let socket = SockRef::from(&connection.stream);
                let _ = socket.set_linger(Some(Duration::ZERO));
                self.connections.remove(&id.0);
            }
        }
        Ok(())
    }

    /// The addresses that clients can connect to.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let listeners = self.listeners.iter();
        listeners.filter_map(|(_, listener)| listener.local_addr().ok())
    }
}

#[cfg(test)]
#[path = "streams_tests.rs"]
mod tests;
