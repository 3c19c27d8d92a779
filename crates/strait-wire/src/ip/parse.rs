//! Finding the way through the headers.

use super::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, PacketInfo, TcpFlags, checksum, protocol};
use crate::bytes::{array_at, u16_at, u32_at};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use etherparse::{IpAuthHeaderSlice, Ipv6FragmentHeaderSlice, Ipv6RawExtHeaderSlice};
use thiserror::Error;

/// The most IPv6 extension headers followed in one packet. Real packets carry one or two; a bound
/// keeps the time per packet bounded.
pub const EXTENSIONS_MAX: usize = 8;

/// The first fragment of an IPv6 packet has all its headers (RFC 8200 section 4.5): so much of the
/// transport's, that what it is can't hide in the second. Types and ports stand in it.
const TRANSPORT_OCTETS_MIN: usize = 4;

/// Why octets are no packet that a gateway forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// Shorter than its headers.
    #[error("packet shorter than its headers")]
    Truncated,
    /// Neither version 4 nor version 6.
    #[error("IP version is neither 4 nor 6")]
    BadVersion,
    /// The IPv4 header length is below five words.
    #[error("IPv4 header length below 20 octets")]
    BadHeaderLength,
    /// The total length isn't that of the octets given.
    #[error("IP length differs from the octets given")]
    LengthMismatch,
    /// The IPv4 header checksum is wrong.
    #[error("IPv4 header checksum wrong")]
    BadChecksum,
    /// More than [`EXTENSIONS_MAX`] IPv6 extension headers.
    #[error("too many IPv6 extension headers")]
    TooManyExtensions,
    /// Hop-by-hop options that don't come first (RFC 8200 section 4.1).
    #[error("IPv6 hop-by-hop options not in first place")]
    MisplacedHopByHop,
}

/// What [`PacketInfo`] says, and where the transport header is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) info: PacketInfo,
    /// Octets before the transport header, or before the data of a later fragment.
    pub(super) transport: usize,
    /// A part of a larger packet, first or later.
    pub(super) fragment: bool,
    /// An authentication header covers what follows.
    pub(super) authenticated: bool,
    /// A routing header still has hops to go: the last destination isn't the one in the header.
    pub(super) rerouted: bool,
}

impl Layout {
    /// The transport header and its payload.
    pub(super) fn segment<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.transport..).unwrap_or_default()
    }

    /// The transport segment, if the packet holds all of it.
    pub(super) fn whole_segment<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        (!self.fragment).then(|| self.segment(bytes))
    }
}

/// Reads all headers up to the transport header.
/// Whether `bytes` could be exactly one IP packet, by version and length: so much can be told of
/// any packet that [`super::PacketInfo::parse`] takes.
#[must_use]
pub fn is_packet(bytes: &[u8]) -> bool {
    match bytes {
        [first, _, a, b, ..] if first >> 4 == 4 && bytes.len() >= IPV4_HEADER_OCTETS => {
            usize::from(u16::from_be_bytes([*a, *b])) == bytes.len()
        }
        [first, _, _, _, a, b, ..] if first >> 4 == 6 && bytes.len() >= IPV6_HEADER_OCTETS => {
            usize::from(u16::from_be_bytes([*a, *b])) + IPV6_HEADER_OCTETS == bytes.len()
        }
        _ => false,
    }
}

pub(super) fn layout(bytes: &[u8]) -> Result<Layout, ParseError> {
    match bytes.first().ok_or(ParseError::Truncated)? >> 4 {
        4 => ipv4(bytes),
        6 => ipv6(bytes),
        _ => Err(ParseError::BadVersion),
    }
}

/// Octets of the IPv4 header that `bytes` begins with: fixed part and options, all present.
pub(super) fn ipv4_header(bytes: &[u8]) -> Result<&[u8], ParseError> {
    let fixed = bytes
        .first_chunk::<IPV4_HEADER_OCTETS>()
        .ok_or(ParseError::Truncated)?;
    let octets = usize::from(fixed[0] & 0x0f) * 4;
    if octets < IPV4_HEADER_OCTETS {
        return Err(ParseError::BadHeaderLength);
    }
    bytes.get(..octets).ok_or(ParseError::Truncated)
}

fn ipv4(bytes: &[u8]) -> Result<Layout, ParseError> {
    let header = ipv4_header(bytes)?;
    let fixed = header
        .first_chunk::<IPV4_HEADER_OCTETS>()
        .ok_or(ParseError::Truncated)?;
    if usize::from(u16::from_be_bytes([fixed[2], fixed[3]])) != bytes.len() {
        return Err(ParseError::LengthMismatch);
    }
    if !checksum::is_right(header) {
        return Err(ParseError::BadChecksum);
    }
    let flags = u16::from_be_bytes([fixed[6], fixed[7]]);
    let later_fragment = flags & 0x1fff != 0;
    let mut info = PacketInfo {
        src: IpAddr::V4(Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15])),
        dst: IpAddr::V4(Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19])),
        protocol: fixed[9],
        dscp: fixed[1] >> 2,
        ecn: fixed[1] & 3,
        hop_limit: fixed[8],
        flow_label: 0,
        ports: None,
        spi: None,
        tcp_bare: None,
        octets: bytes.len() as u32,
        dont_fragment: flags & 0x4000 != 0,
        later_fragment,
    };
    let fragment = later_fragment || flags & 0x2000 != 0;
    look_into_transport(&mut info, bytes, header.len(), fragment);
    Ok(Layout {
        info,
        transport: header.len(),
        fragment,
        authenticated: false,
        rerouted: false,
    })
}

fn ipv6(bytes: &[u8]) -> Result<Layout, ParseError> {
    let fixed = bytes
        .first_chunk::<IPV6_HEADER_OCTETS>()
        .ok_or(ParseError::Truncated)?;
    let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    if IPV6_HEADER_OCTETS + payload != bytes.len() {
        return Err(ParseError::LengthMismatch);
    }
    let class_and_label = u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
    let class = (class_and_label >> 20) as u8;
    let chain = Chain::follow(bytes, fixed[6])?;
    let begins = chain.fragment && !chain.later_fragment;
    if begins && bytes.len() < chain.at + TRANSPORT_OCTETS_MIN {
        return Err(ParseError::Truncated);
    }
    let mut info = PacketInfo {
        src: IpAddr::V6(ipv6_address(bytes, 8)),
        dst: IpAddr::V6(ipv6_address(bytes, 24)),
        protocol: chain.protocol,
        dscp: class >> 2,
        ecn: class & 3,
        hop_limit: fixed[7],
        flow_label: class_and_label & 0x000f_ffff,
        ports: None,
        spi: None,
        tcp_bare: None,
        octets: bytes.len() as u32,
        dont_fragment: true,
        later_fragment: chain.later_fragment,
    };
    look_into_transport(&mut info, bytes, chain.at, chain.fragment);
    Ok(Layout {
        info,
        transport: chain.at,
        fragment: chain.fragment,
        authenticated: chain.authenticated,
        rerouted: chain.rerouted,
    })
}

fn ipv6_address(bytes: &[u8], at: usize) -> Ipv6Addr {
    Ipv6Addr::from(array_at::<16>(bytes, at).unwrap_or_default())
}

fn look_into_transport(info: &mut PacketInfo, bytes: &[u8], at: usize, fragment: bool) {
    if info.later_fragment {
        return;
    }
    match info.protocol {
        protocol::UDP | protocol::TCP => {
            info.ports = u16_at(bytes, at).zip(u16_at(bytes, at + 2));
            if info.protocol == protocol::TCP && !fragment {
                info.tcp_bare = tcp_without_data(bytes, at);
            }
        }
        protocol::ESP => info.spi = u32_at(bytes, at),
        _ => {}
    }
}

/// The control bits, if the packet ends with its TCP header (RFC 9293 section 3.1).
fn tcp_without_data(bytes: &[u8], at: usize) -> Option<TcpFlags> {
    let [offset, flags] = array_at::<2>(bytes, at + 12)?;
    let octets = usize::from(offset >> 4) * 4;
    (octets >= 20 && at + octets == bytes.len()).then_some(TcpFlags(flags))
}

/// Numbers of the IPv6 extension headers.
pub(super) mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(in crate::ip) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HOST_IDENTITY: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// Progress along the chain of IPv6 extension headers.
pub(super) struct Chain {
    pub(super) protocol: u8,
    pub(super) at: usize,
    fragment: bool,
    pub(super) later_fragment: bool,
    authenticated: bool,
    rerouted: bool,
}

impl Chain {
    const fn new(first: u8) -> Self {
        Self {
            protocol: first,
            at: IPV6_HEADER_OCTETS,
            fragment: false,
            later_fragment: false,
            authenticated: false,
            rerouted: false,
        }
    }

    /// The chain up to the transport header, or to the first extension header that wasn't kept, is
    /// wrong or is one too many.
    pub(super) fn as_far_as_kept(bytes: &[u8], first: u8) -> Self {
        let mut chain = Self::new(first);
        for _ in 0..EXTENSIONS_MAX {
            if chain.later_fragment || !chain.at_extension() || chain.step(bytes).is_err() {
                break;
            }
        }
        chain
    }

    fn follow(bytes: &[u8], first: u8) -> Result<Self, ParseError> {
        let mut chain = Self::new(first);
        let mut steps = 0;
        while !chain.later_fragment && chain.at_extension() {
            if steps == EXTENSIONS_MAX {
                return Err(ParseError::TooManyExtensions);
            }
            chain.step(bytes)?;
            steps += 1;
        }
        Ok(chain)
    }

    const fn at_extension(&self) -> bool {
        use extension::*;
        matches!(
            self.protocol,
            HOP_BY_HOP
                | ROUTING
                | FRAGMENT
                | AUTHENTICATION
                | DESTINATION
                | MOBILITY
                | HOST_IDENTITY
                | SHIM6
        )
    }

    fn step(&mut self, bytes: &[u8]) -> Result<(), ParseError> {
        let rest = bytes.get(self.at..).ok_or(ParseError::Truncated)?;
        let (next, octets) = match self.protocol {
            extension::FRAGMENT => {
                let header =
                    Ipv6FragmentHeaderSlice::from_slice(rest).map_err(|_| ParseError::Truncated)?;
                self.fragment |= header.is_fragmenting_payload();
                self.later_fragment = header.fragment_offset().value() != 0;
                (header.next_header(), header.slice().len())
            }
            extension::AUTHENTICATION => {
                let header =
                    IpAuthHeaderSlice::from_slice(rest).map_err(|_| ParseError::Truncated)?;
                self.authenticated = true;
                (header.next_header(), header.slice().len())
            }
            extension::HOP_BY_HOP if self.at != IPV6_HEADER_OCTETS => {
                return Err(ParseError::MisplacedHopByHop);
            }
            kind => {
                let header =
                    Ipv6RawExtHeaderSlice::from_slice(rest).map_err(|_| ParseError::Truncated)?;
                // Octet 3 of a routing header counts the hops left (RFC 8200 section 4.4).
                self.rerouted |= kind == extension::ROUTING && rest.get(3) != Some(&0);
                (header.next_header(), header.slice().len())
            }
        };
        self.protocol = next.0;
        self.at += octets;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{PING4, UDP6, ipv4, ipv6};
    use alloc::vec;
    use alloc::vec::Vec;
    use etherparse::{IpNumber, IpSlice};
    use proptest::prelude::*;

    fn parsed(bytes: &[u8]) -> Result<PacketInfo, ParseError> {
        PacketInfo::parse(bytes)
    }

    /// Extension headers of eight octets each, then `last`.
    fn chain(kinds: &[u8], last: u8) -> Vec<u8> {
        let mut data = vec![];
        for next in kinds.iter().skip(1).chain([&last]) {
            data.extend_from_slice(&[*next, 0, 1, 4, 0, 0, 0, 0]);
        }
        data.extend_from_slice(&[0x13, 0x88, 0x13, 0x8a, 0, 8, 0, 0]);
        ipv6(kinds.first().copied().unwrap_or(last), &data)
    }

    #[test]
    fn a_plain_packet_of_each_family() {
        let ping = parsed(PING4).unwrap();
        assert_eq!(
            (ping.dscp, ping.ecn, ping.hop_limit, ping.octets),
            (46, 0, 64, 52)
        );
        assert_eq!(
            (ping.protocol, ping.ports, ping.dont_fragment),
            (protocol::ICMP, None, true)
        );
        assert_eq!(ping.src, IpAddr::V4(Ipv4Addr::LOCALHOST));
        let udp = parsed(UDP6).unwrap();
        assert_eq!((udp.dscp, udp.ecn, udp.flow_label), (46, 2, 0xabcde));
        assert_eq!(
            (udp.ports, udp.octets, udp.dont_fragment),
            (Some((5004, 5006)), 53, true)
        );
    }

    #[test]
    fn only_the_exact_length_will_do() {
        for sample in [PING4, UDP6] {
            let mut bytes = Vec::from(sample);
            bytes.push(0);
            assert_eq!(parsed(&bytes), Err(ParseError::LengthMismatch));
            let header = if sample == PING4 { 20 } else { 40 };
            for length in 0..sample.len() {
                let error = if length < header {
                    ParseError::Truncated
                } else {
                    ParseError::LengthMismatch
                };
                assert_eq!(parsed(&sample[..length]), Err(error), "{length}");
            }
        }
    }

    #[test]
    fn broken_headers_say_why() {
        assert_eq!(parsed(&[0x50; 60]), Err(ParseError::BadVersion));
        assert_eq!(parsed(&[0x44; 60]), Err(ParseError::BadHeaderLength));
        let mut bytes = Vec::from(PING4);
        bytes[8] -= 1;
        assert_eq!(parsed(&bytes), Err(ParseError::BadChecksum));
        bytes[0] = 0x4f;
        assert_eq!(parsed(&bytes), Err(ParseError::Truncated));
    }

    #[test]
    fn transport_cut_short_leaves_ports_and_index_out() {
        for length in 0..4 {
            assert_eq!(
                parsed(&ipv4(&[], 0, 6, &[1; 4][..length])).unwrap().ports,
                None
            );
            assert_eq!(parsed(&ipv6(50, &[1; 4][..length])).unwrap().spi, None);
        }
        assert_eq!(
            parsed(&ipv4(&[], 0, 6, &[1; 4])).unwrap().ports,
            Some((257, 257))
        );
        assert_eq!(parsed(&ipv6(50, &[1; 4])).unwrap().spi, Some(0x0101_0101));
    }

    #[test]
    fn fragments_of_ipv4() {
        let first = parsed(&ipv4(&[], 0x2000, 17, &[1; 8])).unwrap();
        assert_eq!(
            (first.later_fragment, first.ports),
            (false, Some((257, 257)))
        );
        let later = parsed(&ipv4(&[], 0x0001, 17, &[1; 8])).unwrap();
        assert_eq!((later.later_fragment, later.ports), (true, None));
        assert!(layout(&ipv4(&[], 0x2000, 17, &[1; 8])).unwrap().fragment);
        assert!(!layout(&ipv4(&[], 0x4000, 17, &[1; 8])).unwrap().fragment);
    }

    #[test]
    fn eight_extension_headers_are_followed_and_a_ninth_is_not() {
        let kinds = [0, 60, 43, 60, 135, 139, 140, 60, 60];
        let eight = parsed(&chain(&kinds[..8], 17)).unwrap();
        assert_eq!((eight.protocol, eight.ports), (17, Some((5000, 5002))));
        assert_eq!(
            parsed(&chain(&kinds, 17)),
            Err(ParseError::TooManyExtensions)
        );
        assert_eq!(
            parsed(&chain(&[60, 0], 17)),
            Err(ParseError::MisplacedHopByHop)
        );
        assert_eq!(
            parsed(&chain(&[0, 0], 17)),
            Err(ParseError::MisplacedHopByHop)
        );
    }

    #[test]
    fn a_chain_beyond_the_packet_is_cut_short() {
        assert_eq!(
            parsed(&ipv6(60, &[17, 1, 0, 0, 0, 0, 0, 0])),
            Err(ParseError::Truncated)
        );
        for kind in [0, 43, 44, 51, 60] {
            assert_eq!(
                parsed(&ipv6(kind, &[17, 0, 0, 0, 0, 0, 0])),
                Err(ParseError::Truncated)
            );
            assert_eq!(parsed(&ipv6(kind, &[])), Err(ParseError::Truncated));
        }
        let none = parsed(&ipv6(59, &[])).unwrap();
        assert_eq!((none.protocol, none.octets), (59, 40));
    }

    #[test]
    fn a_first_fragment_says_what_its_packet_is() {
        // Behind a fragment header with more to come: the beginning of the transport header, or
        // destination options alone.
        let first =
            |next: u8, data: &[u8]| ipv6(44, &[&[next, 0, 0, 1, 0, 0, 0, 7], data].concat());
        let kind = |bytes: &[u8]| parsed(bytes).map(|info| info.protocol);
        assert_eq!(kind(&first(58, &[134, 0, 0, 0])), Ok(58));
        let options = [58, 0, 1, 4, 0, 0, 0, 0];
        for cut in [first(58, &[134, 0, 0]), first(60, &options)] {
            assert_eq!(kind(&cut), Err(ParseError::Truncated));
        }
    }

    #[test]
    fn fragment_header_with_nothing_to_join_makes_no_fragment() {
        let atomic = layout(&ipv6(44, &[17, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 2])).unwrap();
        assert_eq!((atomic.fragment, atomic.info.ports), (false, Some((1, 2))));
        let first = layout(&ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 9, 0, 1, 0, 2])).unwrap();
        assert_eq!((first.fragment, first.info.ports), (true, Some((1, 2))));
        // The chain of a later fragment belongs to the first.
        let later = layout(&ipv6(44, &[60, 0, 0, 8, 0, 0, 0, 9, 0, 1, 0, 2])).unwrap();
        assert_eq!((later.info.later_fragment, later.info.protocol), (true, 60));
    }

    #[test]
    fn authentication_and_routing_headers_are_noticed() {
        let data = [17, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 1, 0, 2];
        let authenticated = layout(&ipv6(51, &data)).unwrap();
        assert_eq!(
            (authenticated.authenticated, authenticated.info.ports),
            (true, Some((1, 2)))
        );
        let mut routed = ipv6(43, &[17, 0, 4, 0, 0, 0, 0, 0]);
        assert!(!layout(&routed).unwrap().rerouted);
        routed[43] = 1;
        assert!(layout(&routed).unwrap().rerouted);
    }

    /// What the library says, where it has an opinion; it judges no header checksum.
    fn second_opinion(bytes: &[u8]) -> Option<(IpAddr, IpAddr, IpNumber)> {
        let slice = IpSlice::from_slice(bytes).ok()?;
        Some((
            slice.source_addr(),
            slice.destination_addr(),
            slice.payload_ip_number(),
        ))
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(bytes: Vec<u8>, first in 0x40..0x70_u8) {
            let _ = parsed(&bytes);
            let mut bytes = bytes;
            if let Some(octet) = bytes.first_mut() {
                *octet = first;
            }
            let _ = parsed(&bytes);
        }

        #[test]
        fn any_contents_agree_with_the_library(
            kind in 0..=255_u8,
            kinds in proptest::collection::vec(
                proptest::sample::select(&[0_u8, 43, 44, 60, 17, 6, 58][..]), 0..4),
            data: Vec<u8>,
        ) {
            let mut bytes = chain(&kinds, kind);
            bytes.extend_from_slice(&data);
            let length = (bytes.len() - 40) as u16;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
            if let (Ok(info), Some((src, dst, last))) = (parsed(&bytes), second_opinion(&bytes)) {
                prop_assert_eq!((info.src, info.dst), (src, dst));
                // The library stops at a repeated header and goes on in later fragments; where both
                // went to the end of the chain, they agree.
                if !info.later_fragment && !last.is_ipv6_ext_header_value() {
                    prop_assert_eq!(info.protocol, last.0);
                }
            }
            let bytes = ipv4(&[], 0, kind, &data);
            let info = parsed(&bytes).unwrap();
            if let Some((src, dst, _)) = second_opinion(&bytes) {
                prop_assert_eq!((info.src, info.dst), (src, dst));
            }
        }
    }
}
