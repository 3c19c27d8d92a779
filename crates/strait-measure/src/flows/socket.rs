//! Sockets with the marks that a script asks for.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use socket2::{Domain, Protocol as IpProtocol, Socket, Type};
use strait_live::sockets::options::send_flow_label;
use strait_traffic::mgen::{FlowOptions, Protocol};

/// Any address of a family.
pub(super) const fn any(ipv4: bool) -> IpAddr {
    if ipv4 {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    }
}

/// A socket for a protocol and family that doesn't block.
pub(super) fn open(protocol: Protocol, ipv4: bool) -> io::Result<Socket> {
    let domain = if ipv4 { Domain::IPV4 } else { Domain::IPV6 };
    let (kind, protocol) = match protocol {
        Protocol::Tcp => (Type::STREAM, IpProtocol::TCP),
        Protocol::Udp | Protocol::Sink => (Type::DGRAM, IpProtocol::UDP),
    };
    let socket = Socket::new(domain, kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Gives a flow's socket its marks and buffers.
pub(super) fn mark(socket: &Socket, options: &FlowOptions, dscp: u8) -> io::Result<()> {
    let Some(dst) = options.dst else {
        return Ok(());
    };
    let tos = u32::from(options.tos.unwrap_or(dscp << 2));
    if dst.is_ipv4() {
        socket.set_tos_v4(tos)?;
    } else {
        socket.set_tclass_v6(tos)?;
        if options.label.is_some() {
            send_flow_label(socket)?;
        }
    }
    if let Some(octets) = options.tx_buffer {
        socket.set_send_buffer_size(octets as usize)?;
    }
    if let Some(octets) = options.rx_buffer {
        socket.set_recv_buffer_size(octets as usize)?;
    }
    if let Some(on) = options.broadcast
        && dst.is_ipv4()
        && options.protocol != Some(Protocol::Tcp)
    {
        socket.set_broadcast(on)?;
    }
    if dst.ip().is_multicast() {
        multicast(socket, options, dst)?;
    }
    Ok(())
}

/// Hops that multicast goes if the script says nothing, as MGEN has it.
const TTL_DEFAULT: u8 = 3;

fn multicast(socket: &Socket, options: &FlowOptions, dst: SocketAddr) -> io::Result<()> {
    let hops = u32::from(options.ttl.unwrap_or(TTL_DEFAULT));
    let index = match &options.interface {
        Some(name) => interface_index(name)?,
        None => 0,
    };
    if dst.is_ipv4() {
        socket.set_multicast_ttl_v4(hops)?;
        if index != 0 {
            socket.bind_device(options.interface.as_deref().map(str::as_bytes))?;
        }
    } else {
        socket.set_multicast_hops_v6(hops)?;
        if index != 0 {
            socket.set_multicast_if_v6(index)?;
        }
    }
    Ok(())
}

/// The kernel's number of an interface.
pub(super) fn interface_index(name: &str) -> io::Result<u32> {
    nix::net::if_::if_nametoindex(name).map_err(io::Error::from)
}

/// A destination with a flow label, which the kernel takes from the address.
pub(super) fn labelled(dst: SocketAddr, options: &FlowOptions) -> SocketAddr {
    match (dst, options.label) {
        (SocketAddr::V6(v6), Some(label)) => {
            SocketAddrV6::new(*v6.ip(), v6.port(), label.to_be(), v6.scope_id()).into()
        }
        _ => dst,
    }
}

/// An address without the form that IPv4 has in an IPv6 socket.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
