//! What a gateway changes in packets that it forwards. Checksums are changed in place, not made
//! anew, so a packet that was damaged before stays recognisably damaged.

use alloc::vec;
use alloc::vec::Vec;

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
pub(super) fn put_ipv4_word(bytes: &mut [u8], at: usize, new: u16) {
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
    let Some((family, word)) = family(bytes).zip(u16_at(bytes, 0)) else {
        return;
    };
    match family {
        Family::V4 => put_ipv4_word(bytes, 0, word & 0xff00 | u16::from(class)),
        Family::V6 => put_at(
            bytes,
            0,
            (word & 0xf00f | u16::from(class) << 4).to_be_bytes(),
        ),
    }
}

/// Sets the differentiated services code point (RFC 2474), of which six bits count; ECN stays.
/// Octets that are no packet stay as they are.
pub fn set_dscp(bytes: &mut [u8], dscp: u8) {
    if let Some(class) = traffic_class(bytes) {
        set_traffic_class(bytes, dscp << 2 | class & 3);
    }
}

/// Marks «congestion experienced» (RFC 3168 section 5) and says whether the packet now carries the
/// mark. One whose transport doesn't know ECN stays as it is, and `false` tells the caller to drop
/// instead.
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
/// `false` where none would be left: the packet is unchanged, and its sender is due a time-exceeded
/// error.
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
/// section 3.7.1), and says whether it did. Never raises it, adds none, and leaves fragments,
/// packets under an authentication header and malformed options alone.
pub fn clamp_mss(bytes: &mut [u8], mss_max: u16) -> bool {
    let Some((start, options)) = syn_options(bytes) else {
        return false;
    };
    let mut clamped = false;
    let mut at = options.start;
    while let Some(value) = next_mss(bytes, &mut at, options.end) {
        clamped |= lower(bytes, start, value, mss_max);
    }
    clamped
}

/// Where the two-octet fields of a TCP SYN are that [`clamp_mss`] changes: the checksum, then each
/// maximum segment size. `None` for any other packet.
pub(super) fn mss_fields(bytes: &[u8]) -> Option<Vec<usize>> {
    let (start, options) = syn_options(bytes)?;
    let mut fields = vec![start + 16];
    let mut at = options.start;
    while let Some(value) = next_mss(bytes, &mut at, options.end) {
        fields.push(value);
    }
    Some(fields)
}

/// Where the next maximum segment size stands, looking from `at` on, which moves behind it; `end`
/// is inside.
pub(super) fn next_mss(bytes: &[u8], at: &mut usize, end: usize) -> Option<usize> {
    while *at < end {
        let octets = match (bytes[*at], bytes.get(*at + 1)) {
            (0, _) => return None,
            (1, _) => 1,
            (_, Some(length)) if *length >= 2 => usize::from(*length),
            _ => return None,
        };
        if *at + octets > end {
            return None;
        }
        let option = *at;
        *at += octets;
        if bytes[option] == 2 && octets == 4 {
            return Some(option + 2);
        }
    }
    None
}

/// Where the TCP header of a SYN begins, and where its options are.
fn syn_options(bytes: &[u8]) -> Option<(usize, core::ops::Range<usize>)> {
    // Most packets that are none say so in their first header.
    let named = match bytes.first()? >> 4 {
        4 => bytes.get(9)?,
        _ => bytes.get(6)?,
    };
    if matches!(*named, protocol::UDP | protocol::ESP) {
        return None;
    }
    let layout = parse::layout(bytes).ok()?;
    if layout.info.protocol != protocol::TCP || layout.authenticated || layout.fragment {
        return None;
    }
    let start = layout.transport;
    let view = super::view::tcp_at(bytes, start)?;
    view.flags
        .contains(TcpFlags::SYN)
        .then_some((start, start + 20..view.header.end))
}

/// Lowers the 16-bit value at `at` in the TCP segment at `start`.
fn lower(bytes: &mut [u8], start: usize, at: usize, most: u16) -> bool {
    let Some(old) = u16_at(bytes, at).filter(|old| *old > most) else {
        return false;
    };
    put_at(bytes, at, most.to_be_bytes());
    // At an odd distance the value's octets stand in the other half of the words that are summed.
    let (old, new) = match (at - start) % 2 {
        0 => (old, most),
        _ => (old.swap_bytes(), most.swap_bytes()),
    };
    checksum::adjust(bytes, start + 16, old, new);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{PING4, UDP6, ipv4};
    use crate::ip::{PacketInfo, digest, verify_transport_checksum};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn dscp_changes_and_ecn_stays() {
        for sample in [PING4, UDP6] {
            let before = PacketInfo::parse(sample).unwrap();
            for dscp in 0..64 {
                let mut bytes = Vec::from(sample);
                set_dscp(&mut bytes, dscp | 0x40);
                assert_eq!(PacketInfo::parse(&bytes), Ok(PacketInfo { dscp, ..before }));
            }
        }
    }

    #[test]
    fn congestion_is_marked_only_where_it_is_understood() {
        let mut ping = Vec::from(PING4);
        assert!(!set_ecn_ce(&mut ping));
        assert_eq!(ping, PING4);
        let mut udp = Vec::from(UDP6);
        assert!(set_ecn_ce(&mut udp));
        let info = PacketInfo::parse(&udp).unwrap();
        assert_eq!((info.dscp, info.ecn, info.flow_label), (46, 3, 0xabcde));
        assert!(set_ecn_ce(&mut udp));
        ping[1] = 0xb9;
        checksum::adjust(&mut ping, 10, 0x45b8, 0x45b9);
        assert!(set_ecn_ce(&mut ping));
        assert_eq!(PacketInfo::parse(&ping).map(|info| info.ecn), Ok(3));
    }

    #[test]
    fn the_last_hop_is_not_taken() {
        for (sample, at) in [(PING4, 8), (UDP6, 7)] {
            let mut bytes = Vec::from(sample);
            for left in (1..64).rev() {
                assert!(decrement_hop_limit(&mut bytes));
                assert_eq!(
                    PacketInfo::parse(&bytes).map(|info| info.hop_limit),
                    Ok(left)
                );
            }
            let before = bytes.clone();
            assert!(!decrement_hop_limit(&mut bytes));
            assert_eq!(bytes, before);
            bytes[at] = 0;
            assert!(!decrement_hop_limit(&mut bytes));
        }
    }

    /// A SYN with `options` (a multiple of four octets) in IPv4, its checksum right.
    fn syn(flags: u8, fragment: u16, options: &[u8]) -> Vec<u8> {
        let mut segment = Vec::from([0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0]);
        let words = 5 + options.len() / 4;
        segment.extend_from_slice(&[(words << 4) as u8, flags, 0xfa, 0xf0, 0, 0, 0, 0]);
        segment.extend_from_slice(options);
        let bytes = ipv4(&[], fragment, 6, &segment);
        let info = PacketInfo::parse(&bytes).unwrap();
        let pseudo = checksum::Pseudo {
            src: info.src,
            dst: info.dst,
            protocol: 6,
        };
        let sum = pseudo.over(&segment);
        let mut bytes = bytes;
        put_at(&mut bytes, 36, sum);
        bytes
    }

    #[test]
    fn only_a_syn_with_a_larger_mss_is_clamped() {
        let mss = [2, 4, 0x05, 0xb4];
        let clamped = |flags, fragment, options: &[u8], most| {
            clamp_mss(&mut syn(flags, fragment, options), most)
        };
        assert!(clamped(0x02, 0, &mss, 1459));
        assert!(clamped(0x12, 0, &mss, 0));
        assert!(!clamped(0x02, 0, &mss, 1460));
        assert!(!clamped(0x10, 0, &mss, 536));
        assert!(!clamped(0x02, 0x2000, &mss, 536));
        assert!(!clamped(0x02, 0, &[], 536));
        assert!(!clamped(0x02, 0, &[0, 2, 4, 5, 0xb4, 0, 0, 0], 536)); // behind the end
        assert!(!clamped(0x02, 0, &[3, 0, 2, 4, 5, 0xb4, 0, 0], 536)); // an option without length
        assert!(!clamped(0x02, 0, &[3, 3, 7, 2], 536)); // no room for its length
        assert!(!clamped(0x02, 0, &[1, 2, 4, 5], 536)); // cut short
        assert!(!clamped(0x02, 0, &[2, 3, 5, 1], 536)); // of another length
    }

    proptest! {
        #[test]
        fn clamping_keeps_the_checksum_right(
            mss: u16, most: u16, odd: bool, tail in any::<[u8; 3]>(),
        ) {
            let [high, low] = mss.to_be_bytes();
            let options = if odd {
                [1, 2, 4, high, low, 0, tail[0], tail[1]]
            } else {
                [2, 4, high, low, 0, tail[0], tail[1], tail[2]]
            };
            let mut bytes = syn(0x02, 0, &options);
            let identity = digest(&bytes);
            prop_assert_eq!(clamp_mss(&mut bytes, most), mss > most);
            // Lowered or not, it is the same packet; with another sequence number it isn't.
            prop_assert_eq!(digest(&bytes), identity);
            let mut other = bytes.clone();
            other[24] ^= 1;
            prop_assert_ne!(digest(&other), identity);
            prop_assert_eq!(verify_transport_checksum(&bytes), Some(true));
            let at = if odd { 43 } else { 42 };
            prop_assert_eq!(u16_at(&bytes, at), Some(mss.min(most)));
        }

        #[test]
        fn any_octets_stay_sound_or_untouched(
            bytes: Vec<u8>, first in proptest::sample::select(&[0x45_u8, 0x46, 0x60, 0x00][..]),
            dscp: u8, most: u16, packet: bool,
        ) {
            let mut bytes = if packet { ipv4(&[], 0, 6, &bytes) } else { bytes };
            if let Some(octet) = bytes.first_mut().filter(|_| !packet) {
                *octet = first;
            }
            let before = PacketInfo::parse(&bytes).is_ok();
            let length = bytes.len();
            set_dscp(&mut bytes, dscp);
            set_ecn_ce(&mut bytes);
            decrement_hop_limit(&mut bytes);
            clamp_mss(&mut bytes, most);
            prop_assert_eq!(PacketInfo::parse(&bytes).is_ok(), before);
            prop_assert_eq!(bytes.len(), length);
        }
    }
}
