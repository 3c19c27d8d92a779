//! What a gateway changes in packets that it forwards. Checksums are changed in place, not made anew,
//! so a packet that was damaged before stays recognisably damaged.

use super::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, TcpFlags, checksum, parse, protocol};
use crate::bytes::{put_at, u16_at};

/// Where the IPv4 header keeps its checksum.
const IPV4_CHECKSUM: usize = 10;

/// Which family the first octet tells, if the fixed header is there.
enum Family {
    V4,
    V6,
}

fn family(bytes: &[u8]) -> Option<Family> {
    match bytes.first()? >> 4 {
        4 if bytes.len() >= IPV4_HEADER_OCTETS => Some(Family::V4),
        6 if bytes.len() >= IPV6_HEADER_OCTETS => Some(Family::V6),
        _ => None,
    }
}

/// Overwrites the 16-bit word at `at` of an IPv4 header.
fn put_ipv4_word(bytes: &mut [u8], at: usize, new: u16) {
    if let Some(old) = u16_at(bytes, at) {
        put_at(bytes, at, new.to_be_bytes());
        checksum::adjust(bytes, IPV4_CHECKSUM, old, new);
    }
}

/// Type of service or traffic class.
fn traffic_class(bytes: &[u8]) -> Option<u8> {
    let word = u16_at(bytes, 0)?;
    Some(match family(bytes)? {
        Family::V4 => word as u8,
        Family::V6 => (word >> 4) as u8,
    })
}

fn set_traffic_class(bytes: &mut [u8], class: u8) {
    let Some((family, word)) = family(bytes).zip(u16_at(bytes, 0)) else { return };
    match family {
        Family::V4 => put_ipv4_word(bytes, 0, word & 0xff00 | u16::from(class)),
        Family::V6 => put_at(bytes, 0, (word & 0xf00f | u16::from(class) << 4).to_be_bytes()),
    }
}

/// Sets the differentiated services code point (RFC 2474), of which six bits count; ECN stays.
/// Octets that are no packet stay as they are.
pub fn set_dscp(bytes: &mut [u8], dscp: u8) {
    if let Some(class) = traffic_class(bytes) {
        set_traffic_class(bytes, dscp << 2 | class & 3);
    }
}

/// Marks «congestion experienced» (RFC 3168 section 5) and says whether the packet now carries the mark.
/// One whose transport doesn't know ECN stays as it is, and `false` tells the caller to drop instead.
pub fn set_ecn_ce(bytes: &mut [u8]) -> bool {
    match traffic_class(bytes) {
        Some(class) if class & 3 != 0 => {
            set_traffic_class(bytes, class | 3);
            true
        }
        _ => false,
    }
}

/// Takes one from time to live or hop limit, as each forwarding does (RFC 791, RFC 8200 section 3).
/// `false` where none would be left: the packet is unchanged, and its sender is due a time-exceeded error.
pub fn decrement_hop_limit(bytes: &mut [u8]) -> bool {
    match family(bytes) {
        Some(Family::V4) => match u16_at(bytes, 8) {
            Some(word) if word >= 0x0200 => {
                put_ipv4_word(bytes, 8, word - 0x0100);
                true
            }
            _ => false,
        },
        Some(Family::V6) if bytes[7] >= 2 => {
            bytes[7] -= 1;
            true
        }
        _ => false,
    }
}

/// Lowers the maximum segment size that a TCP SYN of either family announces to `mss_max` (RFC 9293
/// section 3.7.1), and says whether it did. Never raises it, adds none, and leaves fragments, packets
/// under an authentication header and malformed options alone.
pub fn clamp_mss(bytes: &mut [u8], mss_max: u16) -> bool {
    let Some((start, options)) = syn_options(bytes) else { return false };
    let mut at = options.start;
    let mut clamped = false;
    while at < options.end {
        let octets = match (bytes[at], bytes.get(at + 1)) {
            (0, _) => break,
            (1, _) => 1,
            (_, Some(length)) if *length >= 2 => usize::from(*length),
            _ => break,
        };
        if at + octets > options.end {
            break;
        }
        if bytes[at] == 2 && octets == 4 {
            clamped |= lower(bytes, start, at + 2, mss_max);
        }
        at += octets;
    }
    clamped
}

/// Where the TCP header of a SYN begins, and where its options are.
fn syn_options(bytes: &[u8]) -> Option<(usize, core::ops::Range<usize>)> {
    let layout = parse::layout(bytes).ok()?;
    if layout.info.protocol != protocol::TCP || layout.authenticated || layout.fragment {
        return None;
    }
    let start = layout.transport;
    let view = super::view::tcp_at(bytes, start)?;
    view.flags.contains(TcpFlags::SYN).then_some((start, start + 20..view.header.end))
}

/// Lowers the 16-bit value at `at` in the TCP segment at `start`.
fn lower(bytes: &mut [u8], start: usize, at: usize, most: u16) -> bool {
    let Some(old) = u16_at(bytes, at).filter(|old| *old > most) else { return false };
    put_at(bytes, at, most.to_be_bytes());
    // At an odd distance the value's octets stand in the other half of the words that are summed.
    let (old, new) = match (at - start) % 2 {
        0 => (old, most),
        _ => (old.swap_bytes(), most.swap_bytes()),
    };
    checksum::adjust(bytes, start + 16, old, new);
    true
}
