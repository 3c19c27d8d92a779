//! What runs on a host.

use std::net::{IpAddr, SocketAddr};

use strait_core::Instant;
use strait_tcp::TcpError;
use strait_traffic::FlowLog;

use super::Stack;

/// An application, numbered in the order of installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AppId(pub u32);

/// A TCP connection of a host; numbers aren't used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// What happens to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The moment of [`Application::wake`] has come.
    Timeout,
    /// A datagram arrived at one of its ports, or a packet of ESP with one of its indices: that has
    /// no ports, and both are 0.
    Datagram {
        /// Who sent it.
        from: SocketAddr,
        /// The port that it came to.
        port: u16,
        /// The code point of its packet.
        dscp: u8,
        /// The hop limit of its packet.
        hop_limit: u8,
        /// Its payload.
        payload: &'a [u8],
    },
    /// An echo reply with one of its identifiers arrived.
    EchoReply {
        /// Who answered.
        from: IpAddr,
        /// Sequence number of the request.
        sequence: u16,
        /// What was sent along.
        payload: &'a [u8],
    },
    /// Another host opened a connection to one of its ports. It is ready when [`Event::Ready`]
    /// says so.
    Accepted(ConnectionId),
    /// A connection changed: it may have opened, have something to read or room to write.
    Ready(ConnectionId),
    /// A connection is gone; what had arrived in order was announced before.
    Closed {
        /// Which.
        connection: ConnectionId,
        /// Why, if not in order.
        error: Option<TcpError>,
    },
}

/// A program on a host. It reads no clock and does a bounded amount of work per event.
pub trait Application {
    /// Takes an event; `stack` is the host's operating system, so to speak.
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack);

    /// When it wants [`Event::Timeout`].
    fn wake(&self) -> Option<Instant>;

    /// What it has measured so far.
    fn log(&self) -> &FlowLog;

    /// The messages in its mailboxes, and when they came there.
    fn mail(&self) -> &[(Instant, Vec<u8>)] {
        &[]
    }
}
