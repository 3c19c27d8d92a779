//! An octet stream over TCP to something at this end of the medium, such as a modem.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::id::NeighbourId;
use strait_core::id::Neighbours;
use strait_core::node::{PortState, Room, TxMeta};
use strait_core::time::Instant;

use super::{IoCounts, PortIo, Received, Sent, is_not_now, unpaced};
use crate::error::{Doing, Error};

/// A connection as a port without a rate of its own.
#[derive(Debug)]
pub struct TcpLine {
    peer: SocketAddr,
    /// A connection that isn't open yet.
    opening: Option<Socket>,
    stream: Option<TcpStream>,
    /// Octets that the socket had no space for.
    pending: Vec<u8>,
    /// The kernel is to hold few octets.
    shallow: bool,
    refused: u64,
}

/// Octets that a shallow line's kernel is to hold; it takes twice as many.
const SHALLOW_OCTETS: usize = 4096;

/// How long a call to open may hold the event loop up: enough on a LAN. What takes longer goes on,
/// and is looked at again with the next call.
const PATIENCE_MS: u8 = 20;

impl TcpLine {
    /// A connection to `peer` that isn't open yet.
    pub const fn new(peer: SocketAddr) -> Self {
        Self {
            peer,
            opening: None,
            stream: None,
            pending: Vec::new(),
            shallow: false,
            refused: 0,
        }
    }

    /// One whose kernel holds few octets, so that a program that hangs has little to read later.
    pub(crate) const fn shallow(mut self) -> Self {
        self.shallow = true;
        self
    }

    /// This end's address.
    ///
    /// # Errors
    /// It isn't open.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        let closed = || io::Error::from(io::ErrorKind::NotConnected);
        self.stream.as_ref().ok_or_else(closed)?.local_addr()
    }

    /// The connection is being made.
    pub(crate) const fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    fn connect(&mut self) -> io::Result<()> {
        let socket = match self.opening.take() {
            Some(socket) => socket,
            None => {
                let domain = Domain::for_address(self.peer);
                let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
                socket.set_nonblocking(true)?;
                socket.set_tcp_nodelay(true)?;
                if self.shallow {
                    socket.set_send_buffer_size(SHALLOW_OCTETS)?;
                }
                match socket.connect(&self.peer.into()) {
                    Err(error) if error.raw_os_error() != Some(Errno::EINPROGRESS as i32) => {
                        return Err(error);
                    }
                    _ => socket,
                }
            }
        };
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        let open = poll(&mut ready, PollTimeout::from(PATIENCE_MS))? > 0;
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        if !open {
            self.opening = Some(socket);
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer so far"));
        }
        self.stream = Some(socket.into());
        Ok(())
    }

    /// Writes what the socket takes.
    fn write(stream: &mut TcpStream, octets: &[u8]) -> io::Result<usize> {
        match stream.write(octets) {
            Ok(count) => Ok(count),
            Err(error) if is_not_now(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

impl PortIo for TcpLine {
    fn open(&mut self, _now: Instant) -> Result<PortState, Error> {
        if self.stream.is_none() {
            let peer = self.peer;
            self.connect().doing(|| format!("connect to TCP {peer}"))?;
            self.pending.clear();
        }
        Ok(unpaced())
    }

    fn close(&mut self) {
        self.stream = None;
        self.opening = None;
        self.pending.clear();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(AsFd::as_fd)
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        if self.stream.is_none() || self.holds() {
            return Err(None);
        }
        Ok(Room {
            octets: usize::MAX,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, _now: Instant, _meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        let Some(stream) = &mut self.stream else {
            self.refused += 1;
            return Ok(Sent::Refused);
        };
        let written = match self.pending.is_empty() {
            true => Self::write(stream, octets)?,
            false => 0,
        };
        self.pending.extend_from_slice(&octets[written..]);
        Ok(Sent::Taken)
    }

    fn holds(&self) -> bool {
        !self.pending.is_empty()
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        if let Some(stream) = &mut self.stream {
            let written = Self::write(stream, &self.pending)?;
            self.pending.drain(..written);
        }
        Ok(())
    }

    fn drained(&mut self, _now: Instant) -> bool {
        self.pending.is_empty()
    }

    fn receive(&mut self, _now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        let Some(stream) = &mut self.stream else {
            return Ok(Received::Nothing);
        };
        match stream.read(buffer) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up")),
            Ok(octets) => Ok(Received::Frame {
                from: NeighbourId::PEER,
                octets,
            }),
            Err(error) if is_not_now(&error) => Ok(Received::Nothing),
            Err(error) => Err(error),
        }
    }

    fn counts(&self) -> IoCounts {
        IoCounts {
            refused: self.refused,
            ..IoCounts::default()
        }
    }
}
