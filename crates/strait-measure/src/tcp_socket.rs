//! TCP sockets of this host that never block: what every transfer over them needs.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::PollFlags;
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::chance::Stream;
use strait_core::time::{Duration, nanos};
use strait_live::sockets::options::mark;
use strait_live::sockets::tcp_info::TcpInfo;
use strait_traffic::measure::{Facts, Failure};

/// Octets read at once, and reads before the other direction has its turn.
const READ_OCTETS: usize = 65_536;
const READS: usize = 16;

/// A connection's socket and where its octets are read to.
#[derive(Debug)]
pub struct Tcp {
    socket: Socket,
    peer: SocketAddr,
    buffer: Vec<u8>,
}

/// What reading came to.
#[derive(Debug)]
pub enum Intake {
    /// So many octets.
    Octets(usize),
    /// Nothing now.
    Nothing,
    /// The other end has ended its direction.
    End,
    /// The connection is gone.
    Failed(Failure),
}

/// The number of this process's monotonic clock, the same for all processes that share it: those
/// of one boot of one kernel, in one time namespace.
pub fn clock() -> u64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let offsets = std::fs::read_link("/proc/self/ns/time");
    let (Ok(boot), Ok(offsets)) = (boot, offsets) else {
        return 0;
    };
    Stream::new(0, &format!("clock.{boot}.{}", offsets.display())).at(0)
}

/// An error of the system in the words of a result.
pub fn failure(error: &io::Error) -> Failure {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ECONNREFUSED) => Failure::Refused,
        Some(Errno::ECONNRESET | Errno::EPIPE) => Failure::Reset,
        Some(Errno::ETIMEDOUT) => Failure::TimedOut,
        Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH) => Failure::Unreachable,
        _ => Failure::Host(error.to_string()),
    }
}

/// A socket that listens, for so many connections that wait to be accepted.
pub fn listen(local: SocketAddr, backlog: i32) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(local),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    socket.bind(&local.into())?;
    socket.listen(backlog)?;
    Ok(socket)
}

impl Tcp {
    /// A socket that is to connect to `peer`.
    pub fn new(peer: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
        Self::of(socket, peer)
    }

    /// A socket that has been accepted.
    pub fn of(socket: Socket, peer: SocketAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            peer,
            buffer: vec![0; READ_OCTETS],
        })
    }

    /// Begins to connect.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        match self.socket.connect(&peer.into()) {
            Err(error) if error.raw_os_error() == Some(Errno::EINPROGRESS as i32) => Ok(()),
            ended => ended,
        }
    }

    /// Why it couldn't connect, if it couldn't.
    pub fn connect_error(&self) -> Option<Failure> {
        match self.socket.take_error() {
            Ok(error) => error.as_ref().map(failure),
            Err(error) => Some(failure(&error)),
        }
    }

    /// Sets the code point of what is sent, and the congestion control unless it's empty.
    pub fn mark(&self, dscp: u8, congestion: &str) -> io::Result<()> {
        mark(&self.socket, self.peer, dscp)?;
        if congestion.is_empty() {
            return Ok(());
        }
        self.socket.set_tcp_congestion(congestion.as_bytes())
    }

    /// The connection ends with a reset when it is closed, and what waits is not sent any more.
    pub fn abort_on_close(&self) {
        // Without it the kernel goes on sending, which harms nobody else's results but the next.
        let _ = self.socket.set_linger(Some(Duration::ZERO));
    }

    /// Calls `each` with what there is to read; gives what ended it.
    pub fn read_all(&mut self, mut each: impl FnMut(&[u8])) -> Intake {
        let mut octets = 0;
        for _ in 0..READS {
            match self.read() {
                Intake::Octets(count) => {
                    each(&self.buffer[..count]);
                    octets += count;
                }
                ended @ (Intake::End | Intake::Failed(_)) => return ended,
                Intake::Nothing => break,
            }
        }
        match octets {
            0 => Intake::Nothing,
            octets => Intake::Octets(octets),
        }
    }

    fn read(&mut self) -> Intake {
        loop {
            return match (&self.socket).read(&mut self.buffer) {
                Ok(0) => Intake::End,
                Ok(count) => Intake::Octets(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Intake::Nothing,
                Err(error) => Intake::Failed(failure(&error)),
            };
        }
    }

    /// Hands octets to the kernel; gives how many it took.
    pub fn write(&self, octets: &[u8]) -> Result<usize, Failure> {
        loop {
            return match (&self.socket).write(octets) {
                Ok(count) => Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
                Err(error) => Err(failure(&error)),
            };
        }
    }

    /// The kernel's own account of the connection.
    pub fn info(&self) -> Result<TcpInfo, Errno> {
        TcpInfo::read(&self.socket)
    }

    /// Nothing more comes from this end.
    pub fn finish(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    /// What the kernel knows of the connection; what it doesn't tell is empty or zero.
    pub fn facts(&self) -> Facts {
        let name = self.socket.tcp_congestion().unwrap_or_default();
        let name = name.split(|octet| *octet == 0).next().unwrap_or_default();
        let congestion = String::from_utf8_lossy(name).into_owned();
        let Ok(info) = self.info() else {
            return Facts {
                congestion,
                ..Facts::default()
            };
        };
        let rtt = info.rtt().filter(|rtt| !rtt.is_zero());
        Facts {
            congestion,
            segments_out: info.segs_out().map_or(0, u64::from),
            retransmissions: info.total_retrans().map_or(0, u64::from),
            rtt_ns: rtt.map(nanos),
        }
    }
}

impl AsFd for Tcp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// What to wait for: always for octets, and for room if there is something to send.
pub fn interest(writes: bool) -> PollFlags {
    if writes {
        PollFlags::POLLIN | PollFlags::POLLOUT
    } else {
        PollFlags::POLLIN
    }
}
