//! Where clients come.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::os::fd::AsFd;

use nix::sys::epoll::EpollFlags;
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::node::{Listen, SocketId};

use super::Which;
use super::asking::{self, Tap};
use super::connection::address;
use super::options;
use super::tried::At;
use super::watch::{Place, Watch};

/// Connections that the kernel begins or finishes before they are taken: at least so many. Above
/// the number it answers by SYN cookies, and the rules don't know the clients' next packets for
/// those of a connection here.
const BACKLOG: i32 = 128;

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: Socket,
    pub(super) place: Place,
    /// Streams that came by it and are there.
    pub(super) streams: u32,
    /// Where clients are heard that the node is asked about.
    pub(super) tap: Option<Tap>,
}

/// Who came, to which address, and how its first packet was marked.
pub(super) struct Client {
    pub(super) src: SocketAddr,
    pub(super) dst: SocketAddr,
    pub(super) dscp: u8,
}

impl Listener {
    pub(super) fn open(
        wanted: &Listen,
        id: SocketId,
        stamp: NonZeroU16,
        watch: &mut Watch<Which>,
    ) -> io::Result<Self> {
        let domain = Domain::for_address(wanted.address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        // Clients' sockets begin with all that this one has, and its answers to them have it too.
        options::hold(&socket, wanted.held)?;
        options::mark(&socket, wanted.address, wanted.dscp)?;
        options::save_first(&socket)?;
        if wanted.transparent {
            options::be_transparent(&socket, wanted.address)?;
        }
        if wanted.asks.is_some() {
            asking::guard(&socket, stamp)?;
            if wanted.address.is_ipv6() {
                socket.set_only_v6(true)?;
            }
        }
        socket.bind(&wanted.address.into())?;
        let mut tap = None;
        if wanted.asks.is_some() {
            tap = Some(Tap::open(wanted, own_address(&socket)?, id, stamp, watch)?);
        }
        let backlog = i32::try_from(wanted.streams_max).unwrap_or(i32::MAX);
        if let Err(error) = socket.listen(backlog.max(BACKLOG)) {
            tap.inspect(|tap| watch.forget(&tap.place));
            return Err(error);
        }
        Ok(Self {
            socket,
            place: watch.place(Which::Listener(id)),
            streams: 0,
            tap,
        })
    }

    /// A client's socket, and what is known of the client.
    pub(super) fn accept(&self) -> io::Result<(Socket, Client)> {
        let (socket, src) = self.socket.accept()?;
        socket.set_nonblocking(true)?;
        if self.tap.is_some() {
            socket.detach_filter()?;
        }
        // What local programs exchange is short and waits for nothing.
        socket.set_tcp_nodelay(true)?;
        let client = Client {
            src: address(&src),
            dst: address(&socket.local_addr()?),
            dscp: options::saved_dscp(&socket),
        };
        Ok((socket, client))
    }

    /// Waits for clients, or doesn't.
    pub(super) fn watch(&mut self, watch: &Watch<Which>, waits: bool) -> io::Result<()> {
        let flags = waits.then_some(EpollFlags::EPOLLIN);
        watch.set(&mut self.place, self.socket.as_fd(), flags)
    }
}

impl At for Listener {
    fn at(&self) -> io::Result<SocketAddr> {
        own_address(&self.socket)
    }
}

fn own_address(socket: &Socket) -> io::Result<SocketAddr> {
    let own = socket.local_addr()?;
    own.as_socket()
        .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
}
