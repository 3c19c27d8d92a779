//! The remote control of a modem, which MIL-STD-188-110D Appendix A leaves open (A.5.2.1): a TCP
//! connection that the terminal holds while it uses the modem. A modem of ours greets on it by one
//! line and takes `send RATE BLOCK`, by which it changes the waveform that it sends by: bits each
//! second and in a block. Another maker's is only held.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use strait_core::id::ClassId;
use strait_core::node::TxMeta;
use strait_core::time::Instant;
use strait_core::waveform::Mode;

use crate::error::{Doing, Error};
use crate::ports::tcp_line::TcpLine;
use crate::ports::{PortIo, Received, is_not_now};

/// What a modem of ours greets by.
const GREETING: &[u8] = b"strait-modem 1\n";
/// Octets of the longest line.
const LINE_OCTETS_MAX: usize = 64;

/// The terminal's end.
#[derive(Debug)]
pub(crate) struct Control {
    line: TcpLine,
    /// The beginning of what the modem said.
    greeting: Vec<u8>,
}

impl Control {
    /// The control of the modem at `address`, which isn't open yet.
    pub(crate) const fn new(address: SocketAddr) -> Self {
        Self {
            line: TcpLine::new(address),
            greeting: Vec::new(),
        }
    }

    pub(crate) fn open(&mut self, now: Instant) -> Result<(), Error> {
        self.greeting.clear();
        self.line.open(now).map(|_| ())
    }

    /// The connection is being made.
    pub(crate) const fn is_opening(&self) -> bool {
        self.line.is_opening()
    }

    pub(crate) fn close(&mut self) {
        self.line.close();
        self.greeting.clear();
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.line.local_address()
    }

    /// Takes what came; an error if the modem hung up: somebody else has it, or it is gone.
    pub(crate) fn listen(&mut self, now: Instant) -> io::Result<()> {
        let mut buffer = [0; 256];
        while let Received::Frame { octets, .. } = self.line.receive(now, &mut buffer)? {
            let room = LINE_OCTETS_MAX - self.greeting.len().min(LINE_OCTETS_MAX);
            self.greeting.extend_from_slice(&buffer[..octets.min(room)]);
        }
        if self.line.holds() {
            self.line.flush(now)?;
        }
        Ok(())
    }

    /// The modem can be told by what it is to send.
    pub(crate) fn is_ours(&self) -> bool {
        self.greeting.starts_with(GREETING)
    }

    /// Tells it.
    pub(crate) fn set(&mut self, now: Instant, mode: Mode) -> io::Result<()> {
        let line = format!("send {} {}\n", mode.rate_bit_s, mode.block_bits);
        let meta = TxMeta::to_peer(ClassId(0));
        self.line.transmit(now, &meta, line.as_bytes()).map(|_| ())
    }
}

/// The modem's end: one connection at a time has control.
#[derive(Debug)]
pub struct ControlPort {
    listener: TcpListener,
    stream: Option<TcpStream>,
    held: Vec<u8>,
}

/// What happened to a modem's control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controlled {
    /// A terminal at this address has it.
    Taken(SocketAddr),
    /// It let go.
    Left,
    /// It wants to send by this.
    Set(Mode),
}

impl ControlPort {
    /// Listens for terminals.
    ///
    /// # Errors
    /// The address can't be had.
    pub fn open(address: SocketAddr) -> Result<Self, Error> {
        let listen = || -> io::Result<TcpListener> {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        Ok(Self {
            listener: listen().doing(|| format!("listen at TCP {address}"))?,
            stream: None,
            held: Vec::new(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What to wait on for [`ControlPort::serve`].
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let stream = self.stream.as_ref().map(AsFd::as_fd);
        [self.listener.as_fd()].into_iter().chain(stream)
    }

    /// What happened since it was asked last.
    pub fn serve(&mut self) -> Vec<Controlled> {
        let mut told = Vec::new();
        self.read(&mut told);
        // A second terminal is turned away.
        while let Ok((stream, peer)) = self.listener.accept() {
            if self.stream.is_none() && greet(&stream).is_ok() {
                self.stream = Some(stream);
                told.push(Controlled::Taken(peer));
            }
        }
        told
    }

    /// Ends the connection.
    pub fn hang_up(&mut self) {
        self.stream = None;
        self.held.clear();
    }

    fn read(&mut self, told: &mut Vec<Controlled>) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let mut buffer = [0; LINE_OCTETS_MAX];
        loop {
            match stream.read(&mut buffer) {
                Ok(octets) if octets > 0 => self.held.extend_from_slice(&buffer[..octets]),
                Err(error) if is_not_now(&error) => break,
                _ => {
                    self.hang_up();
                    return told.push(Controlled::Left);
                }
            }
            while let Some(end) = self.held.iter().position(|octet| *octet == b'\n') {
                let line: Vec<u8> = self.held.drain(..=end).collect();
                told.extend(mode(&line).map(Controlled::Set));
            }
            if self.held.len() > LINE_OCTETS_MAX {
                self.hang_up();
                return told.push(Controlled::Left);
            }
        }
    }
}

fn greet(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    stream.write_all(GREETING)
}

/// The mode that a line names.
fn mode(line: &[u8]) -> Option<Mode> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.strip_prefix("send ")?.split_whitespace();
    let mut number = || words.next()?.parse().ok().filter(|number| *number > 0);
    Some(Mode {
        rate_bit_s: number()?,
        block_bits: number()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_rate_and_a_block() {
        let set = Mode {
            rate_bit_s: 2400,
            block_bits: 1152,
        };
        assert_eq!(mode(b"send 2400 1152\n"), Some(set));
        for wrong in [
            &b"send 2400\n"[..],
            b"send 0 5\n",
            b"2400 5\n",
            b"send x 5\n",
            b"\xff\n",
        ] {
            assert_eq!(mode(wrong), None);
        }
    }
}
