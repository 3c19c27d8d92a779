//! Sockets for datagrams: each with where it came from, where it went to, and how it was marked.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::libc;
use nix::net::if_::if_nametoindex;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage,
    recvmsg, sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::node::{Bind, DatagramMeta, SocketId};

use super::tried::At;
use super::watch::{Place, Watch};
use super::{Which, options};

/// What has been counted of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Not sent: too long, to where there is no way, or from an address that isn't to be had.
    pub refused: u64,
    /// Not sent, because the host's queues were full.
    pub crowded: u64,
    /// Errors that came in place of datagrams, such as that nobody listens at the other end.
    pub errors: u64,
}

/// A socket that takes and sends datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: Socket,
    pub(super) place: Place,
    /// What it was told of addresses is what datagrams come to.
    wanted: Bind,
    port: u16,
}

/// What came of a look into a socket.
pub(crate) enum Came {
    /// A datagram of so many octets.
    Datagram(DatagramMeta, usize),
    /// Nothing that is for the node.
    Skipped,
    Nothing,
}

impl Datagrams {
    pub(super) fn open(wanted: &Bind, id: SocketId, watch: &mut Watch<Which>) -> io::Result<Self> {
        let address = wanted.address;
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        tell_all(&socket, address)?;
        if wanted.transparent {
            options::be_transparent(&socket, address)?;
            tell_wanted(&socket, address)?;
        }
        let mut local = address;
        if let Some(group) = wanted.group {
            join(&socket, address.ip(), group)?;
            // A socket at one address hears nothing that goes to another, so to none of a group.
            local.set_ip(any(address.ip()));
        }
        socket.bind(&local.into())?;
        let port = bound_at(&socket)?.port();
        let mut place = watch.place(Which::Datagrams(id));
        let set = watch.set(&mut place, socket.as_fd(), Some(EpollFlags::EPOLLIN));
        if let Err(error) = set {
            watch.forget(&place);
            return Err(error);
        }
        Ok(Self {
            socket,
            place,
            wanted: *wanted,
            port,
        })
    }

    /// Takes the next datagram into `buffer`.
    ///
    /// # Errors
    /// Those that came in place of a datagram.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Came> {
        let mut space = nix::cmsg_space!([u8; 256]);
        let mut slices = [IoSliceMut::new(buffer)];
        let received = recvmsg::<SockaddrStorage>(
            self.socket.as_raw_fd(),
            &mut slices,
            Some(&mut space),
            MsgFlags::empty(),
        );
        let message = match received {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(Came::Nothing),
            Err(Errno::EINTR) => return Ok(Came::Skipped),
            Err(error) => return Err(error.into()),
        };
        let Some(src) = message.address.as_ref().and_then(of) else {
            return Ok(Came::Skipped);
        };
        let mut meta = DatagramMeta {
            src,
            dst: SocketAddr::new(self.wanted.address.ip(), self.port),
            dscp: 0,
            hop_limit: 0,
        };
        let mut original = None;
        for note in message.cmsgs()? {
            match note {
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    let to = u32::from_be(info.ipi_addr.s_addr);
                    meta.dst.set_ip(Ipv4Addr::from(to).into());
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    meta.dst.set_ip(IpAddr::from(info.ipi6_addr.s6_addr));
                }
                ControlMessageOwned::Ipv4OrigDstAddr(to) => {
                    original = Some(SocketAddr::V4(SockaddrIn::from(to).into()));
                }
                ControlMessageOwned::Ipv6OrigDstAddr(to) => {
                    original = Some(SocketAddr::V6(SockaddrIn6::from(to).into()));
                }
                ControlMessageOwned::Ipv4Tos(octet) => meta.dscp = octet >> 2,
                ControlMessageOwned::Ipv6TClass(octet) => meta.dscp = octet as u8 >> 2,
                ControlMessageOwned::Ipv4Ttl(hops) | ControlMessageOwned::Ipv6HopLimit(hops) => {
                    meta.hop_limit = hops as u8;
                }
                _ => {}
            }
        }
        meta.dst = original.unwrap_or(meta.dst);
        let octets = message.bytes;
        Ok(if self.is_for_node(&meta) {
            Came::Datagram(meta, octets)
        } else {
            Came::Skipped
        })
    }

    /// With a group it hears more than it should: what goes to the host's other addresses, and
    /// what it sent to the group itself.
    fn is_for_node(&self, meta: &DatagramMeta) -> bool {
        let Some(group) = self.wanted.group else {
            return true;
        };
        let (own, to) = (self.wanted.address.ip(), meta.dst.ip());
        let echo = meta.src == SocketAddr::new(own, self.port);
        let wanted = to == group || to == own || own.is_unspecified() || self.wanted.transparent;
        wanted && !echo
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Why it wasn't sent.
    pub(super) fn send(&self, meta: &DatagramMeta, octets: &[u8]) -> io::Result<()> {
        if !self.wanted.transparent {
            let own = self.wanted.address.ip();
            // At all addresses, an answer comes from the one that was asked.
            let src = [own, meta.src.ip()][usize::from(own.is_unspecified())];
            return send(&self.socket, src, meta, octets);
        }
        if meta.src.port() == self.port {
            return send(&self.socket, meta.src.ip(), meta, octets);
        }
        // Only a socket of its own can send from another port. Nothing comes by it, as long as the
        // host's rules look for transparent sockets on behalf of TCP alone.
        let socket = Socket::new(
            Domain::for_address(meta.src),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        options::be_transparent(&socket, meta.src)?;
        socket.bind(&meta.src.into())?;
        send(&socket, meta.src.ip(), meta, octets)
    }
}

impl At for Datagrams {
    fn at(&self) -> io::Result<SocketAddr> {
        Ok(SocketAddr::new(self.wanted.address.ip(), self.port))
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send(socket: &Socket, src: IpAddr, meta: &DatagramMeta, octets: &[u8]) -> io::Result<()> {
    let (class, hops) = (meta.dscp << 2, i32::from(meta.hop_limit));
    let slices = [IoSlice::new(octets)];
    let fd = socket.as_raw_fd();
    let sent = match (src, meta.dst) {
        (IpAddr::V4(src), SocketAddr::V4(dst)) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from(src).to_be(),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            let notes = [
                ControlMessage::Ipv4PacketInfo(&info),
                ControlMessage::Ipv4Tos(&class),
                ControlMessage::Ipv4Ttl(&hops),
            ];
            let to = SockaddrIn::from(dst);
            sendmsg(fd, &slices, &notes, MsgFlags::empty(), Some(&to))
        }
        (IpAddr::V6(src), SocketAddr::V6(dst)) => {
            let info = libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: src.octets(),
                },
                ipi6_ifindex: dst.scope_id(),
            };
            let class = i32::from(class);
            let notes = [
                ControlMessage::Ipv6PacketInfo(&info),
                ControlMessage::Ipv6TClass(&class),
                ControlMessage::Ipv6HopLimit(&hops),
            ];
            let to = SockaddrIn6::from(dst);
            sendmsg(fd, &slices, &notes, MsgFlags::empty(), Some(&to))
        }
        _ => Err(Errno::EAFNOSUPPORT),
    };
    sent?;
    Ok(())
}

/// Lets the kernel tell where each datagram went to, and how it was marked.
fn tell_all(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        setsockopt(socket, sockopt::Ipv6RecvHopLimit, &true)?;
        socket.set_recv_tclass_v6(true)
    } else {
        setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?;
        setsockopt(socket, sockopt::Ipv4RecvTtl, &true)?;
        socket.set_recv_tos_v4(true)
    }
}

/// Lets the kernel tell the port, too, that a datagram was for before a rule brought it here.
fn tell_wanted(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        setsockopt(socket, sockopt::Ipv6OrigDstAddr, &true)?;
    } else {
        setsockopt(socket, sockopt::Ipv4OrigDstAddr, &true)?;
    }
    Ok(())
}

/// Makes a socket a member of a group, at the interface that has an address, and of no other.
fn join(socket: &Socket, at: IpAddr, group: IpAddr) -> io::Result<()> {
    /// `linux/in6.h`; the C library doesn't have it.
    const IPV6_MULTICAST_ALL: libc::c_int = 29;
    // Several programs of a host may be members, and hear the same.
    socket.set_reuse_address(true)?;
    match (at, group) {
        (IpAddr::V4(at), IpAddr::V4(group)) => {
            options::set(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)?;
            if !at.is_unspecified() {
                socket.set_multicast_if_v4(&at)?;
            }
            socket.join_multicast_v4(&group, &at)
        }
        (IpAddr::V6(_), IpAddr::V6(group)) => {
            options::set(socket, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0)?;
            let index = interface_of(at)?;
            if index != 0 {
                socket.set_multicast_if_v6(index)?;
            }
            socket.join_multicast_v6(&group, index)
        }
        _ => Err(Errno::EAFNOSUPPORT.into()),
    }
}

/// The number of the interface that has an address; 0, which is any, for no address.
fn interface_of(address: IpAddr) -> io::Result<u32> {
    if address.is_unspecified() {
        return Ok(0);
    }
    let mut all = getifaddrs()?;
    let has = |storage: &SockaddrStorage| of(storage).is_some_and(|it| it.ip() == address);
    let found = all.find(|it| it.address.as_ref().is_some_and(has));
    let found = found.ok_or(Errno::EADDRNOTAVAIL)?;
    Ok(if_nametoindex(found.interface_name.as_str())?)
}

fn bound_at(socket: &Socket) -> io::Result<SocketAddr> {
    let own = socket.local_addr()?.as_socket();
    own.ok_or_else(|| Errno::EADDRNOTAVAIL.into())
}

const fn any(of: IpAddr) -> IpAddr {
    match of {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

fn of(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|it| SocketAddr::V4(SocketAddrV4::from(*it)));
    v4.or_else(|| {
        let v6 = address.as_sockaddr_in6()?;
        Some(SocketAddr::V6(SocketAddrV6::from(*v6)))
    })
}
