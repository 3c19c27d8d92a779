//! Options of sockets: what their packets are marked with, what waits in the kernel, and which
//! addresses they may have.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use socket2::Socket;
use strait_core::node::Held;

/// What may be on its way to the other side at least. With less, each packet waits for the delayed
/// acknowledgement of the last one.
const FLIGHT_MIN: u32 = 16 * 1024;

/// Marks all that a socket sends from or to such an address. An IPv6 socket may carry IPv4, which
/// has its own octet.
///
/// # Errors
/// The system's.
pub fn mark(socket: &Socket, address: SocketAddr, dscp: u8) -> io::Result<()> {
    let class = u32::from(dscp) << 2;
    if address.is_ipv6() {
        socket.set_tclass_v6(class)?;
    }
    let marked = socket.set_tos_v4(class);
    if address.is_ipv4() { marked } else { Ok(()) }
}

/// From now on the flow label of the address goes into packets (`IPV6_FLOWINFO_SEND`).
///
/// # Errors
/// The system's.
pub fn send_flow_label(socket: &Socket) -> io::Result<()> {
    /// `linux/in6.h`; the C library doesn't have it.
    const IPV6_FLOWINFO_SEND: libc::c_int = 33;
    set(socket, libc::IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1)
}

/// Octets that the kernel is given at a time, when it has sent nearly all that it was given before:
/// a quarter of what may wait, but a packet at least, and not more than keeps it busy.
pub(super) fn portion(held: Held) -> u32 {
    (held.outbound / 4).clamp(1024, 16 * 1024)
}

/// Lets the kernel hold no more of a stream than this, or as little as it can.
///
/// Linux doubles a receive buffer for what it keeps about packets, and where they are large nearly
/// all of that is taken up by their octets: so it is told half. It never holds less than 1152
/// octets. Of what is to be sent, less than two portions wait there beside what is on its way.
pub(super) fn hold(socket: &Socket, held: Held) -> io::Result<()> {
    // Above the host's limit the kernel takes the limit.
    socket.set_recv_buffer_size((held.inbound / 2) as usize)?;
    socket.set_send_buffer_size(held.outbound.max(FLIGHT_MIN) as usize)?;
    socket.set_tcp_notsent_lowat(portion(held))
}

/// Lets a socket have addresses that aren't the host's, or take what is for any.
pub(super) fn be_transparent(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        socket.set_ip_transparent_v6(true)?;
    }
    socket.set_ip_transparent_v4(true)
}

/// Lets a stream come from an address, which needn't be the host's own. Without a port, one is
/// chosen when it is known where it goes: as many streams can share it as there are places to go.
pub(super) fn come_from(socket: &Socket, src: SocketAddr) -> io::Result<()> {
    if src.port() == 0 {
        setsockopt(socket, sockopt::IpBindAddressNoPort, &true)?;
    } else {
        // Streams to elsewhere, of now or before, don't keep it away.
        socket.set_reuse_address(true)?;
    }
    match socket.bind(&src.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EADDRNOTAVAIL) => {
            be_transparent(socket, src)?;
            socket.bind(&src.into())
        }
        other => other,
    }
}

/// The first packet of each client is kept, for [`saved_dscp`].
pub(super) fn save_first(listener: &Socket) -> io::Result<()> {
    set(listener, libc::IPPROTO_TCP, libc::TCP_SAVE_SYN, 1)
}

/// The code point of a client's first packet; 0 if the kernel hasn't kept it, as when it was
/// flooded by others.
pub(super) fn saved_dscp(client: &Socket) -> u8 {
    let mut header = [0; 256];
    let octets = get(client, libc::IPPROTO_TCP, libc::TCP_SAVED_SYN, &mut header);
    dscp_of(&header[..octets.unwrap_or(0)])
}

fn dscp_of(header: &[u8]) -> u8 {
    match *header {
        [first, second, ..] if first >> 4 == 6 => (first << 4 | second >> 4) >> 2,
        [first, second, ..] if first >> 4 == 4 => second >> 2,
        _ => 0,
    }
}

/// Sets an option that has no safe wrapper.
#[allow(unsafe_code, reason = "these options have no safe wrapper")]
pub(super) fn set(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the descriptor is open as long as `socket` is lent, and the kernel reads `value`,
    // which is as long as it is told and lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    nix::errno::Errno::result(result)?;
    Ok(())
}

#[allow(unsafe_code, reason = "these options have no safe wrapper")]
fn get(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    into: &mut [u8],
) -> io::Result<usize> {
    let mut length = into.len() as libc::socklen_t;
    // SAFETY: the pointers are to a buffer of `length` octets and to `length`, which outlive the
    // call; the kernel writes at most so many octets of plain data.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            into.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    nix::errno::Errno::result(result)?;
    Ok(length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_point_stands_in_the_second_octet_or_around_it() {
        assert_eq!(dscp_of(&[0x45, 0xb8, 0]), 46);
        assert_eq!(dscp_of(&[0x6b, 0x8f, 0]), 46);
        assert_eq!(dscp_of(&[0x6f, 0xff, 0]), 63);
        assert_eq!(dscp_of(&[0x45]), 0);
        assert_eq!(dscp_of(&[0x55, 0xb8, 0]), 0);
    }
}
