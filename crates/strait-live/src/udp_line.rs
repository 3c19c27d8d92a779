//! Packets in datagrams to one other, such as a modem at this end of the medium.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use strait_core::id::NeighbourId;
use strait_core::node::{PortState, Room, TxMeta};
use strait_core::time::Instant;
use strait_wire::modem_port::datagrams;

use crate::error::{Doing, Error};
use crate::port_io::{IoCounts, PortIo, Received, Sent, is_not_now, unpaced};

/// A socket as a port without a rate of its own. It is open once the other has answered.
#[derive(Debug)]
pub(crate) struct UdpLine {
    peer: SocketAddr,
    /// What is said to the other until it answers.
    hello: Vec<u8>,
    /// A socket from which nobody has been heard.
    opening: Option<UdpSocket>,
    socket: Option<UdpSocket>,
    refused: u64,
}

/// How long a call to open may hold the event loop up: enough on a LAN. A longer way is looked at
/// again with the next call.
const PATIENCE_MS: u8 = 20;

impl UdpLine {
    /// A socket that isn't open yet.
    pub(crate) const fn new(peer: SocketAddr, hello: Vec<u8>) -> Self {
        Self {
            peer,
            hello,
            opening: None,
            socket: None,
            refused: 0,
        }
    }

    fn greet(&mut self) -> io::Result<()> {
        let socket = match self.opening.take() {
            Some(socket) => socket,
            None => {
                let any: SocketAddr = match self.peer {
                    SocketAddr::V4(_) => ([0; 4], 0).into(),
                    SocketAddr::V6(_) => ([0u16; 8], 0).into(),
                };
                let socket = UdpSocket::bind(any)?;
                socket.set_nonblocking(true)?;
                socket.connect(self.peer)?;
                socket
            }
        };
        socket.send(&self.hello)?;
        let mut ready = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        let heard = poll(&mut ready, PollTimeout::from(PATIENCE_MS))? > 0;
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        if !heard {
            self.opening = Some(socket);
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer so far"));
        }
        self.socket = Some(socket);
        Ok(())
    }
}

impl PortIo for UdpLine {
    fn open(&mut self, _now: Instant) -> Result<PortState, Error> {
        if self.socket.is_none() {
            let peer = self.peer;
            self.greet().doing(|| format!("reach UDP {peer}"))?;
        }
        Ok(unpaced())
    }

    fn close(&mut self) {
        self.socket = None;
        self.opening = None;
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        if self.socket.is_none() {
            return Err(None);
        }
        Ok(Room {
            octets: usize::MAX,
            starts: now,
            until: None,
        })
    }

    fn transmit(&mut self, _now: Instant, _meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        let Some(socket) = &self.socket else {
            self.refused += 1;
            return Ok(Sent::Refused);
        };
        for datagram in datagrams(octets) {
            match socket.send(datagram) {
                Ok(_) => {}
                // A datagram that finds no room is lost, as it may be on its way.
                Err(error) if is_not_now(&error) => self.refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(Sent::Taken)
    }

    fn holds(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        Ok(())
    }

    fn drained(&mut self, _now: Instant) -> bool {
        true
    }

    fn receive(&mut self, _now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        let Some(socket) = &self.socket else {
            return Ok(Received::Nothing);
        };
        match socket.recv(buffer) {
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
