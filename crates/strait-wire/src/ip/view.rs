//! Looking into TCP and UDP.

use super::checksum::{udp_datagram, verify};
use super::{parse, protocol};
use core::ops::{BitOr, Range};
use etherparse::TcpHeaderSlice;

/// The control bits of a TCP header (RFC 9293 section 3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Whether all bits of `other` are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a TCP header says, and where in the packet it and the data are. Ports are in
/// [`PacketInfo`](super::PacketInfo).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpView {
    /// Sequence number of the first data octet, or of the SYN.
    pub seq: u32,
    /// The next octet that the sender of this segment expects, if ACK is set.
    pub ack: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Receive window as sent, not scaled.
    pub window: u16,
    /// The TCP header in the packet, options included.
    pub header: Range<usize>,
    /// The data in the packet.
    pub payload: Range<usize>,
}

/// The TCP header of an unfragmented packet or a first fragment that holds all of it. The checksum
/// isn't judged; [`verify_transport_checksum`](super::verify_transport_checksum) does that.
#[must_use]
pub fn tcp_header(bytes: &[u8]) -> Option<TcpView> {
    let layout = parse::layout(bytes).ok()?;
    if layout.info.protocol != protocol::TCP || layout.info.later_fragment {
        return None;
    }
    tcp_at(bytes, layout.transport)
}

/// The TCP header that begins at `start`.
pub(super) fn tcp_at(bytes: &[u8], start: usize) -> Option<TcpView> {
    let segment = bytes.get(start..)?;
    let header = TcpHeaderSlice::from_slice(segment).ok()?;
    let end = start + header.slice().len();
    Some(TcpView {
        seq: header.sequence_number(),
        ack: header.acknowledgment_number(),
        flags: TcpFlags(*segment.get(13)?),
        window: header.window_size(),
        header: start..end,
        payload: end..bytes.len(),
    })
}

/// Source and destination port and the payload of a whole UDP packet whose checksum is right (or,
/// in IPv4, absent).
#[must_use]
pub fn udp_payload(bytes: &[u8]) -> Option<((u16, u16), &[u8])> {
    let layout = parse::layout(bytes).ok()?;
    let doubtful = layout.rerouted || verify(bytes, &layout) == Some(false);
    if layout.info.protocol != protocol::UDP || doubtful {
        return None;
    }
    let datagram = udp_datagram(layout.whole_segment(bytes)?)?;
    Some((layout.info.ports?, datagram.get(8..)?))
}
