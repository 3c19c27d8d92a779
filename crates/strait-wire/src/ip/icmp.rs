//! ICMP errors of both families: RFC 792, RFC 1191, RFC 1812 and RFC 4443.

use super::build::{Envelope, ICMP_HEADER_OCTETS, icmp_protocol};
use super::checksum::verify;
use super::parse::{self, Layout};
use super::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, digest, protocol};
use crate::bytes::{put_at, u16_at, u32_at};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::ops::Range;

/// Longest IPv4 error (RFC 1812 section 4.3.2.3).
const IPV4_ERROR_OCTETS: usize = 576;
/// Longest IPv6 error: the smallest MTU that every way has (RFC 4443 section 2.4 c).
const IPV6_ERROR_OCTETS: usize = 1280;
/// Internetwork control: precedence 6, as RFC 1812 section 4.3.2.5 asks of errors.
const ERROR_DSCP: u8 = 48;
const ERROR_HOP_LIMIT: u8 = 64;

/// Why a packet wasn't forwarded, as its sender is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Longer than the next link takes. In IPv4, «fragmentation needed and don't fragment set».
    PacketTooBig {
        /// Octets that the link takes; IPv4 can say at most 65,535.
        mtu: u32,
    },
    /// It can't get there.
    Unreachable(Unreachable),
    /// Its hop limit ran out on the way.
    TimeExceeded,
}

/// Why a destination can't be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Forbidden by policy.
    AdminProhibited,
    /// No route leads there.
    NoRoute,
    /// The last router can't reach the host.
    Host,
    /// Nobody there listens on the port.
    Port,
}

const REASONS: [Unreachable; 4] = [
    Unreachable::AdminProhibited,
    Unreachable::NoRoute,
    Unreachable::Host,
    Unreachable::Port,
];

impl Unreachable {
    const fn code(self, ipv4: bool) -> u8 {
        match (self, ipv4) {
            (Self::AdminProhibited, true) => 13,
            (Self::NoRoute, true) => 0,
            (Self::Host, true) => 1,
            (Self::Port, true) => 3,
            (Self::AdminProhibited, false) => 1,
            (Self::NoRoute, false) => 0,
            (Self::Host, false) => 3,
            (Self::Port, false) => 4,
        }
    }

    fn from_code(code: u8, ipv4: bool) -> Option<Self> {
        REASONS.into_iter().find(|reason| reason.code(ipv4) == code)
    }
}

impl IcmpError {
    /// Type, code, and the second word of the header.
    fn fields(self, ipv4: bool) -> (u8, u8, u32) {
        match (self, ipv4) {
            (Self::PacketTooBig { mtu }, true) => (3, 4, mtu.min(0xffff)),
            (Self::PacketTooBig { mtu }, false) => (2, 0, mtu),
            (Self::Unreachable(reason), true) => (3, reason.code(true), 0),
            (Self::Unreachable(reason), false) => (1, reason.code(false), 0),
            (Self::TimeExceeded, true) => (11, 0, 0),
            (Self::TimeExceeded, false) => (3, 0, 0),
        }
    }

    fn from_fields(segment: &[u8], ipv4: bool) -> Option<Self> {
        let (kind, code) = (*segment.first()?, *segment.get(1)?);
        match (ipv4, kind, code) {
            (true, 3, 4) => Some(Self::PacketTooBig {
                mtu: u16_at(segment, 6)?.into(),
            }),
            (false, 2, _) => Some(Self::PacketTooBig {
                mtu: u32_at(segment, 4)?,
            }),
            (true, 3, _) | (false, 1, _) => {
                Unreachable::from_code(code, ipv4).map(Self::Unreachable)
            }
            (true, 11, 0) | (false, 3, 0) => Some(Self::TimeExceeded),
            _ => None,
        }
    }
}

/// Appends an error about `original`, from the gateway's address `from` to the original's source.
/// It quotes as much of the original as an error may hold: 576 octets in all in IPv4, 1280 in IPv6.
///
/// `false` and nothing appended where the standards want silence (RFC 1122 section 3.2.2, RFC 4443
/// section 2.4 e): about ICMP errors and redirects; about packets to a multicast or broadcast
/// address (IPv6 Packet Too Big excepted); about a later fragment (IPv4; in IPv6, where it might be
/// one of an ICMP message); if the source names no single host. Also if `from` is of the other
/// family or `original` no packet. Broadcast of the link or of a subnet only the caller can see.
pub fn build_icmp_error(kind: IcmpError, from: IpAddr, original: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(layout) = parse::layout(original) else {
        return false;
    };
    let info = &layout.info;
    let ipv4 = info.src.is_ipv4();
    if from.is_ipv4() != ipv4 || wants_silence(kind, &layout, original) {
        return false;
    }
    let (icmp_type, code, word) = kind.fields(ipv4);
    let mut head = [0; ICMP_HEADER_OCTETS];
    put_at(&mut head, 0, [icmp_type, code]);
    put_at(&mut head, 4, word.to_be_bytes());
    let room = if ipv4 {
        IPV4_ERROR_OCTETS - IPV4_HEADER_OCTETS - ICMP_HEADER_OCTETS
    } else {
        IPV6_ERROR_OCTETS - IPV6_HEADER_OCTETS - ICMP_HEADER_OCTETS
    };
    Envelope {
        src: from,
        dst: info.src,
        protocol: icmp_protocol(from),
        dscp: ERROR_DSCP,
        hop_limit: ERROR_HOP_LIMIT,
        // Fragments of two errors must not be taken for one whole, and this needs no state.
        ident: digest(original) as u16,
        flow_label: 0,
    }
    .build(&head, 2, &original[..original.len().min(room)], out)
}

fn wants_silence(kind: IcmpError, layout: &Layout, original: &[u8]) -> bool {
    let info = &layout.info;
    let icmp = info.protocol == icmp_protocol(info.src);
    if info.later_fragment && (icmp || info.src.is_ipv4()) {
        return true;
    }
    if icmp
        && layout
            .segment(original)
            .first()
            .is_none_or(|kind| is_error(*kind, info.protocol))
    {
        return true;
    }
    let too_big = matches!(kind, IcmpError::PacketTooBig { .. });
    !names_one_host(info.src) || goes_to_many(info.dst) && !(too_big && info.dst.is_ipv6())
}

/// ICMP types that report about another packet: errors and redirects.
const fn is_error(icmp_type: u8, protocol: u8) -> bool {
    match protocol {
        protocol::ICMP => matches!(icmp_type, 3 | 4 | 5 | 11 | 12),
        _ => icmp_type < 128 || icmp_type == 137,
    }
}

/// Whether an address can be told something: not zero, loopback, multicast, broadcast or reserved.
const fn names_one_host(source: IpAddr) -> bool {
    match source {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            first != 0 && first != 127 && first < 224
        }
        IpAddr::V6(address) => {
            !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
        }
    }
}

fn goes_to_many(destination: IpAddr) -> bool {
    destination.is_multicast() || destination == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Reads an ICMP error of either family whose checksum is right, and where in the packet it quotes
/// the original. Types and codes that [`IcmpError`] doesn't know are `None`.
///
/// What follows the quoted part as an extension (RFC 4884) is left out. The original is cut short
/// as a rule, so [`PacketInfo::parse`](super::PacketInfo::parse) refuses it.
#[must_use]
pub fn parse_icmp_error(bytes: &[u8]) -> Option<(IcmpError, Range<usize>)> {
    let layout = parse::layout(bytes).ok()?;
    let ipv4 = layout.info.src.is_ipv4();
    if layout.info.protocol != icmp_protocol(layout.info.src)
        || verify(bytes, &layout) != Some(true)
    {
        return None;
    }
    let segment = layout.segment(bytes);
    let error = IcmpError::from_fields(segment, ipv4)?;
    let start = layout.transport + ICMP_HEADER_OCTETS;
    let quoted = bytes.get(start..)?.len();
    // RFC 4884 section 4: the quoted part's length, in words of 4 (IPv4) or 8 octets (IPv6); zero:
    // all.
    let told = match (error, ipv4) {
        (IcmpError::PacketTooBig { .. }, false) => 0,
        (_, true) => usize::from(*segment.get(5)?) * 4,
        (_, false) => usize::from(*segment.get(4)?) * 8,
    };
    let length = if told == 0 { quoted } else { told.min(quoted) };
    Some((error, start..start + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{PING4, UDP6, ipv4, ipv6};
    use crate::ip::{PacketInfo, verify_transport_checksum};
    use alloc::vec;
    use proptest::prelude::*;

    const TOO_BIG: IcmpError = IcmpError::PacketTooBig { mtu: 1280 };
    const KINDS: [IcmpError; 6] = [
        TOO_BIG,
        IcmpError::Unreachable(Unreachable::AdminProhibited),
        IcmpError::Unreachable(Unreachable::NoRoute),
        IcmpError::Unreachable(Unreachable::Host),
        IcmpError::Unreachable(Unreachable::Port),
        IcmpError::TimeExceeded,
    ];

    fn gateway(ipv4: bool) -> IpAddr {
        if ipv4 { "192.0.2.254" } else { "2001:db8::ff" }
            .parse()
            .unwrap()
    }

    fn built(kind: IcmpError, original: &[u8]) -> Option<Vec<u8>> {
        let ipv4 = original.first().is_some_and(|octet| octet >> 4 == 4);
        let mut out = vec![];
        let done = build_icmp_error(kind, gateway(ipv4), original, &mut out);
        assert_eq!(done, !out.is_empty());
        done.then_some(out)
    }

    #[test]
    fn every_kind_reads_back_in_both_families() {
        for original in [ipv4(&[], 0, 17, &[0; 30]), ipv6(17, &[0; 30])] {
            for kind in KINDS {
                let error = built(kind, &original).unwrap();
                let info = PacketInfo::parse(&error).unwrap();
                let about = PacketInfo::parse(&original).unwrap();
                assert_eq!(
                    (info.dst, info.dscp, info.dont_fragment),
                    (about.src, 48, !about.src.is_ipv4())
                );
                assert_eq!(verify_transport_checksum(&error), Some(true));
                let (read, quoted) = parse_icmp_error(&error).unwrap();
                assert_eq!((read, &error[quoted]), (kind, &original[..]));
            }
        }
    }

    #[test]
    fn types_and_codes_of_the_registries() {
        let code = |kind, original: &[u8]| {
            let error = built(kind, original).unwrap();
            let at = if error[0] >> 4 == 4 { 20 } else { 40 };
            (error[at], error[at + 1])
        };
        let four = KINDS.map(|kind| code(kind, &ipv4(&[], 0, 17, &[0; 8])));
        assert_eq!(four, [(3, 4), (3, 13), (3, 0), (3, 1), (3, 3), (11, 0)]);
        let six = KINDS.map(|kind| code(kind, &ipv6(17, &[0; 8])));
        assert_eq!(six, [(2, 0), (1, 1), (1, 0), (1, 3), (1, 4), (3, 0)]);
    }

    #[test]
    fn as_much_is_quoted_as_may_be() {
        for (octets, length) in [(548, 576), (549, 576), (1500, 576), (547, 575)] {
            let original = ipv4(&[], 0, 17, &vec![0; octets - 20]);
            assert_eq!(
                built(TOO_BIG, &original).map(|error| error.len()),
                Some(length)
            );
        }
        for (octets, length) in [(1232, 1280), (1233, 1280), (1500, 1280), (1231, 1279)] {
            let original = ipv6(17, &vec![0; octets - 40]);
            assert_eq!(
                built(TOO_BIG, &original).map(|error| error.len()),
                Some(length)
            );
        }
    }

    #[test]
    fn an_mtu_beyond_the_field_is_told_as_the_largest() {
        let big = IcmpError::PacketTooBig { mtu: 70_000 };
        let error = built(big, &ipv4(&[], 0, 17, &[0; 8])).unwrap();
        let told = parse_icmp_error(&error).map(|read| read.0);
        assert_eq!(told, Some(IcmpError::PacketTooBig { mtu: 65_535 }));
        let error = built(big, &ipv6(17, &[0; 8])).unwrap();
        assert_eq!(parse_icmp_error(&error).map(|read| read.0), Some(big));
    }

    #[test]
    fn silence_about_errors_but_not_about_echoes() {
        for kind in [3, 4, 5, 11, 12] {
            assert_eq!(built(TOO_BIG, &ipv4(&[], 0, 1, &[kind, 0, 0, 0])), None);
        }
        assert!(built(TOO_BIG, &ipv4(&[], 0, 1, &[8, 0, 0, 0])).is_some());
        assert_eq!(built(TOO_BIG, &ipv4(&[], 0, 1, &[])), None);
        for (kind, answered) in [
            (1, false),
            (127, false),
            (128, true),
            (136, true),
            (137, false),
        ] {
            assert_eq!(
                built(TOO_BIG, &ipv6(58, &[kind, 0, 0, 0])).is_some(),
                answered,
                "{kind}"
            );
        }
    }

    #[test]
    fn silence_about_later_fragments() {
        assert!(built(TOO_BIG, &ipv4(&[], 0x2000, 17, &[0; 8])).is_some());
        assert_eq!(built(TOO_BIG, &ipv4(&[], 0x2001, 17, &[0; 8])), None);
        // RFC 4443 has no such rule, but what the fragment is of must be known to be no error.
        assert!(built(TOO_BIG, &ipv6(44, &[17, 0, 0, 8, 0, 0, 0, 1])).is_some());
        assert_eq!(built(TOO_BIG, &ipv6(44, &[58, 0, 0, 8, 0, 0, 0, 1])), None);
    }

    /// `original` with another source (at 12 or 8) or destination (at 16 or 24), its checksum
    /// right.
    fn with_address(original: &[u8], at: usize, address: &[u8]) -> Vec<u8> {
        let mut packet = Vec::from(original);
        packet[at..at + address.len()].copy_from_slice(address);
        if packet[0] >> 4 == 4 {
            put_at(&mut packet, 10, [0, 0]);
            let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&packet[..20]);
            put_at(&mut packet, 10, sum.ones_complement().to_ne_bytes());
        }
        assert!(PacketInfo::parse(&packet).is_ok());
        packet
    }

    #[test]
    fn silence_towards_and_about_no_single_host() {
        let four = ipv4(&[], 0, 17, &[0; 8]);
        for source in [
            [0, 0, 0, 0],
            [127, 0, 0, 1],
            [224, 0, 0, 1],
            [255; 4],
            [240, 0, 0, 1],
        ] {
            assert_eq!(
                built(TOO_BIG, &with_address(&four, 12, &source)),
                None,
                "{source:?}"
            );
        }
        for destination in [[224, 0, 0, 1], [239, 255, 255, 255], [255; 4]] {
            for kind in KINDS {
                assert_eq!(built(kind, &with_address(&four, 16, &destination)), None);
            }
        }
        let mut multicast = [0; 16];
        multicast[0] = 0xff;
        let mut loopback = [0; 16];
        loopback[15] = 1;
        for source in [[0; 16], multicast, loopback] {
            assert_eq!(
                built(TOO_BIG, &with_address(UDP6, 8, &source)),
                None,
                "{source:?}"
            );
        }
        let group = with_address(UDP6, 24, &multicast);
        for kind in KINDS {
            assert_eq!(built(kind, &group).is_some(), kind == TOO_BIG);
        }
    }

    #[test]
    fn nothing_about_what_is_no_packet_or_of_the_other_family() {
        assert_eq!(built(TOO_BIG, b""), None);
        assert_eq!(built(TOO_BIG, &UDP6[..52]), None);
        let mut out = vec![];
        assert!(!build_icmp_error(TOO_BIG, gateway(true), UDP6, &mut out));
        assert!(!build_icmp_error(TOO_BIG, gateway(false), PING4, &mut out));
        assert!(out.is_empty());
    }

    #[test]
    fn an_extension_is_not_of_the_quoted_part() {
        let mut message = vec![11, 0, 0, 0, 0, 2, 0, 0];
        message.extend_from_slice(&[7; 12]); // two words quoted, one of an extension
        let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&message);
        put_at(&mut message, 2, sum.ones_complement().to_ne_bytes());
        let packet = ipv4(&[], 0, 1, &message);
        assert_eq!(
            parse_icmp_error(&packet),
            Some((IcmpError::TimeExceeded, 28..36))
        );
    }

    proptest! {
        #[test]
        fn any_original_is_judged(
            data: Vec<u8>, protocol: u8, flags: u16, which in 0..3, kind in 0..KINDS.len(),
        ) {
            let original = match which {
                0 => ipv4(&[], flags, protocol, &data),
                1 => ipv6(protocol, &data),
                _ => data,
            };
            if let Some(error) = built(KINDS[kind], &original) {
                let (read, quoted) = parse_icmp_error(&error).unwrap();
                prop_assert_eq!(read, KINDS[kind]);
                prop_assert!(original.starts_with(&error[quoted]));
                // No error about an error, ever.
                prop_assert_eq!(built(IcmpError::TimeExceeded, &error), None);
            }
        }
    }
}
