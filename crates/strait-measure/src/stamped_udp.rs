//! A UDP socket that knows when its datagrams came.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::time::{Duration, Instant};
use strait_live::sockets::options::mark;

/// Octets kept for what has come and isn't read: a train of the longest packets of a measurement.
const BUFFER_OCTETS: usize = 1 << 20;
/// The longest datagram of a measurement.
const DATAGRAM_OCTETS_MAX: usize = 9216;

/// The socket.
#[derive(Debug)]
pub(crate) struct Udp {
    socket: UdpSocket,
    buffer: Vec<u8>,
}

/// A datagram that came.
#[derive(Debug)]
pub(crate) struct Came<'a> {
    /// When, by the kernel's calendar clock.
    pub(crate) at: Instant,
    /// How long ago that is: the reader's own lateness.
    pub(crate) age: Duration,
    /// Who sent it.
    pub(crate) peer: Option<SocketAddr>,
    /// Its payload.
    pub(crate) octets: &'a [u8],
}

impl Udp {
    /// A socket bound to `local`, sending with a code point.
    pub(crate) fn bind(local: SocketAddr, dscp: u8) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if local.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        mark(&socket, local, dscp)?;
        socket.set_recv_buffer_size(BUFFER_OCTETS)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        socket.bind(&local.into())?;
        Ok(Self {
            socket: socket.into(),
            buffer: vec![0; DATAGRAM_OCTETS_MAX],
        })
    }

    pub(crate) fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        self.socket.connect(peer)
    }

    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    pub(crate) fn send(&self, octets: &[u8]) -> io::Result<()> {
        self.socket.send(octets).map(drop)
    }

    pub(crate) fn send_to(&self, octets: &[u8], peer: SocketAddr) -> io::Result<()> {
        self.socket.send_to(octets, peer).map(drop)
    }

    /// The next datagram; `None` if there is none.
    ///
    /// # Errors
    /// The system's, such as that nobody listens at the other end.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Came<'_>>> {
        let mut space = nix::cmsg_space!(TimeSpec);
        let mut slices = [IoSliceMut::new(&mut self.buffer)];
        let received = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut space),
            MsgFlags::empty(),
        );
        let (octets, peer, at) = match received {
            Ok(message) => {
                let at = message.cmsgs()?.find_map(|note| match note {
                    ControlMessageOwned::ScmTimestampns(time) => Some(instant(time)),
                    _ => None,
                });
                let peer = message.address.and_then(|address| of(&address));
                (message.bytes, peer, at)
            }
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let now = calendar();
        let at = at.unwrap_or(now);
        Ok(Some(Came {
            at,
            age: now.since(at),
            peer,
            octets: &self.buffer[..octets],
        }))
    }
}

impl AsFd for Udp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn of(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|it| SocketAddr::V4((*it).into()));
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|it| SocketAddr::V6((*it).into()))
    })
}

fn instant(time: TimeSpec) -> Instant {
    Instant::ZERO + Duration::from(time)
}

fn calendar() -> Instant {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(Instant::ZERO, instant)
}
