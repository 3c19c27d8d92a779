//! Ends of connections: why there is none, and whose an address is.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use strait_core::node::Refusal;
use strait_wire::ip::Unreachable;

/// Errors of Linux.
pub(super) const TRY_AGAIN: u16 = 11;
pub(super) const PERMISSION_DENIED: u16 = 13;
pub(super) const PROTOCOL: u16 = 71;
pub(super) const CONNECTION_ABORTED: u16 = 103;
pub(super) const NO_BUFFERS: u16 = 105;
pub(super) const TIMED_OUT: u16 = 110;
pub(super) const HOST_UNREACHABLE: u16 = 113;
pub(super) const NETWORK_UNREACHABLE: u16 = 101;

/// What a client hears of a connection that failed like this.
pub(super) const fn as_refusal(error: u16) -> Refusal {
    match error {
        HOST_UNREACHABLE => Refusal::Unreachable(Unreachable::Host),
        NETWORK_UNREACHABLE => Refusal::Unreachable(Unreachable::NoRoute),
        PERMISSION_DENIED => Refusal::Unreachable(Unreachable::AdminProhibited),
        // A far side without place for another says nothing of the server: the client asks again.
        TIMED_OUT | NO_BUFFERS | TRY_AGAIN => Refusal::Silence,
        _ => Refusal::Reset,
    }
}

/// No address of somebody's family: the sender's own.
pub(super) const fn nobody_like(server: SocketAddr) -> SocketAddr {
    let nobody = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(nobody, 0)
}

/// Whether an address is no single host's beyond this machine.
pub(super) const fn is_nobodys(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified() || address.is_multicast()
}
