//! Where clients come.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use nix::sys::epoll::EpollFlags;
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::node::{Listen, SocketId};

use super::Which;
use super::connection::address;
use super::tried::At;
use super::watch::{Place, Watch};

/// Connections that the kernel finishes before they are taken.
const BACKLOG: i32 = 128;

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) socket: Socket,
    pub(super) place: Place,
    /// Streams that came by it and are there.
    pub(super) streams: u32,
}

impl Listener {
    pub(super) fn open(
        wanted: &Listen,
        id: SocketId,
        watch: &mut Watch<Which>,
    ) -> io::Result<Self> {
        let domain = Domain::for_address(wanted.address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.bind(&wanted.address.into())?;
        socket.listen(BACKLOG)?;
        Ok(Self {
            socket,
            place: watch.place(Which::Listener(id)),
            streams: 0,
        })
    }

    /// A client, from where, and the address that it wanted.
    pub(super) fn accept(&self) -> io::Result<(Socket, SocketAddr, SocketAddr)> {
        let (socket, src) = self.socket.accept()?;
        socket.set_nonblocking(true)?;
        // What local programs exchange is short and waits for nothing.
        socket.set_tcp_nodelay(true)?;
        let dst = address(&socket.local_addr()?);
        Ok((socket, address(&src), dst))
    }

    /// Waits for clients, or doesn't.
    pub(super) fn watch(&mut self, watch: &Watch<Which>, waits: bool) -> io::Result<()> {
        let flags = waits.then_some(EpollFlags::EPOLLIN);
        watch.set(&mut self.place, self.socket.as_fd(), flags)
    }
}

impl At for Listener {
    fn at(&self) -> io::Result<SocketAddr> {
        let own = self.socket.local_addr()?;
        own.as_socket()
            .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))
    }
}
