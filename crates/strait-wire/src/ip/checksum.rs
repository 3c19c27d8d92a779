//! The Internet checksum: over a whole, with the pseudo-header, and changed in place.

use super::parse::{self, Layout};
use super::protocol;
use crate::bytes::{put_at, u16_at};
use alloc::vec;
use core::net::IpAddr;
use etherparse::checksum::Sum16BitWords;

/// Whether octets that contain their own checksum add up (RFC 1071 section 1).
pub(super) fn is_right(bytes: &[u8]) -> bool {
    header_checksum(bytes) == 0
}

/// The checksum of an IPv4 header whose own field is zero; zero if that holds the right one
/// (RFC 791 section 3.1).
#[must_use]
pub fn header_checksum(header: &[u8]) -> u16 {
    let sum = Sum16BitWords::new().add_slice(header).ones_complement();
    u16::from_be_bytes(sum.to_ne_bytes())
}

/// Addresses and protocol that a transport checksum covers besides the segment: RFC 768, RFC 9293
/// section 3.1, RFC 8200 section 8.1. ICMP and OSPF for IPv4 cover none.
#[derive(Clone, Copy)]
pub(super) struct Pseudo {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) protocol: u8,
}

impl Pseudo {
    /// The checksum over pseudo-header and `segment`, as its two octets are to be written; all zero
    /// if the segment contains its checksum and that is right.
    pub(super) fn over(self, segment: &[u8]) -> [u8; 2] {
        let sum = Sum16BitWords::new().add_slice(segment);
        let sum = match (self.protocol, self.src, self.dst) {
            (protocol::ICMP, ..) | (protocol::OSPF, IpAddr::V4(_), IpAddr::V4(_)) => sum,
            (_, IpAddr::V4(src), IpAddr::V4(dst)) => self.add_tail(
                sum.add_4bytes_of(src.octets()).add_4bytes_of(dst.octets()),
                segment,
            ),
            (_, IpAddr::V6(src), IpAddr::V6(dst)) => self.add_tail(
                sum.add_16bytes_of(src.octets())
                    .add_16bytes_of(dst.octets()),
                segment,
            ),
            // No packet has addresses of both families.
            _ => sum,
        };
        sum.ones_complement().to_ne_bytes()
    }

    fn add_tail(self, sum: Sum16BitWords, segment: &[u8]) -> Sum16BitWords {
        // Both families' layouts differ only in zeros here.
        let length = (segment.len() as u32).to_be_bytes();
        sum.add_4bytes_of(length).add_2bytes([0, self.protocol])
    }
}

/// The library's sums by value throughout.
trait Chained {
    fn add_4bytes_of(self, value: [u8; 4]) -> Self;
    fn add_16bytes_of(self, value: [u8; 16]) -> Self;
}

impl Chained for Sum16BitWords {
    fn add_4bytes_of(mut self, value: [u8; 4]) -> Self {
        self.add_4bytes(value)
    }

    fn add_16bytes_of(mut self, value: [u8; 16]) -> Self {
        self.add_16bytes(value)
    }
}

/// Changes the checksum at `at` after a covered 16-bit value went from `old` to `new`: RFC 1624
/// section 3, equation 3, which never turns a right checksum into the other zero.
pub(super) fn adjust(bytes: &mut [u8], at: usize, old: u16, new: u16) {
    let Some(sum) = u16_at(bytes, at) else { return };
    let mut total = u32::from(!sum) + u32::from(!old) + u32::from(new);
    total = (total & 0xffff) + (total >> 16);
    total = (total & 0xffff) + (total >> 16);
    put_at(bytes, at, (!(total as u16)).to_be_bytes());
}

/// Where the checksum of a transport stands in its header, and the octets that header has at least.
const fn place(protocol: u8) -> Option<(usize, usize)> {
    match protocol {
        protocol::UDP => Some((6, 8)),
        protocol::TCP => Some((16, 20)),
        protocol::ICMP | protocol::ICMPV6 => Some((2, 4)),
        _ => None,
    }
}

/// Whether the transport checksum of a UDP, TCP, ICMP or ICMPv6 packet is right.
///
/// `None` where there is none to judge: octets that are no packet, other protocols, fragments, IPv4
/// UDP sent without (zero, RFC 768), packets with hops left in a routing header (the last
/// destination counts), ICMP in the wrong family. A transport header cut short is `Some(false)`.
#[must_use]
pub fn verify_transport_checksum(bytes: &[u8]) -> Option<bool> {
    verify(bytes, &parse::layout(bytes).ok()?)
}

/// The same with the headers read before.
pub(super) fn verify(bytes: &[u8], layout: &Layout) -> Option<bool> {
    let info = &layout.info;
    let segment = layout.whole_segment(bytes).filter(|_| !layout.rerouted)?;
    let (at, header_octets) = place(info.protocol)?;
    let wrong_family = if info.src.is_ipv4() {
        protocol::ICMPV6
    } else {
        protocol::ICMP
    };
    if info.protocol == wrong_family {
        return None;
    }
    if segment.len() < header_octets {
        return Some(false);
    }
    if info.protocol == protocol::UDP && u16_at(segment, at) == Some(0) {
        return if info.src.is_ipv4() {
            None
        } else {
            Some(false)
        };
    }
    let pseudo = Pseudo {
        src: info.src,
        dst: info.dst,
        protocol: info.protocol,
    };
    let covered = match info.protocol {
        protocol::UDP => udp_datagram(segment),
        _ => Some(segment),
    };
    Some(covered.is_some_and(|covered| pseudo.over(covered) == [0, 0]))
}

/// Writes the checksum of a UDP packet, whatever stands in its place. What is no whole UDP packet
/// stays as it is.
pub fn put_udp_checksum(bytes: &mut [u8]) {
    let Ok(layout) = parse::layout(bytes) else {
        return;
    };
    let info = &layout.info;
    let pseudo = Pseudo {
        src: info.src,
        dst: info.dst,
        protocol: info.protocol,
    };
    let at = layout.transport + 6;
    let whole = layout.whole_segment(bytes).and_then(udp_datagram).is_some();
    if !whole || info.protocol != protocol::UDP {
        return;
    }
    put_at(bytes, at, [0; 2]);
    let datagram = udp_datagram(layout.segment(bytes));
    // Zero would say that there is none (RFC 768).
    let checksum = match datagram.map(|datagram| pseudo.over(datagram)) {
        None | Some([0, 0]) => [0xff; 2],
        Some(checksum) => checksum,
    };
    put_at(bytes, at, checksum);
}

/// Writes the checksum of a TCP packet if what stands in its place is what a sender leaves there
/// whose hardware is to complete it: the sum over the pseudo-header alone. False if it is wrong
/// then, or this is no whole TCP packet.
pub fn complete_tcp_checksum(bytes: &mut [u8]) -> bool {
    let Ok(layout) = parse::layout(bytes) else {
        return false;
    };
    let info = &layout.info;
    if info.protocol != protocol::TCP || verify(bytes, &layout) != Some(false) {
        return info.protocol == protocol::TCP && verify(bytes, &layout) == Some(true);
    }
    let pseudo = Pseudo {
        src: info.src,
        dst: info.dst,
        protocol: info.protocol,
    };
    let at = layout.transport + 16;
    let nothing = vec![0; layout.segment(bytes).len()];
    let left = pseudo.over(&nothing).map(|octet| !octet);
    if bytes.get(at..at + 2) != Some(&left[..]) {
        return false;
    }
    put_at(bytes, at, [0; 2]);
    let checksum = pseudo.over(layout.segment(bytes));
    put_at(bytes, at, checksum);
    true
}

/// The octets that UDP's own length counts; those behind it aren't UDP's.
pub(super) fn udp_datagram(segment: &[u8]) -> Option<&[u8]> {
    let length = usize::from(u16_at(segment, 4)?);
    segment.get(..length).filter(|datagram| datagram.len() >= 8)
}
