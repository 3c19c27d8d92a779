//! Finding the way through the headers.

use super::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, PacketInfo, checksum, protocol};
use crate::bytes::{array_at, u16_at, u32_at};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use etherparse::{IpAuthHeaderSlice, Ipv6FragmentHeaderSlice, Ipv6RawExtHeaderSlice};
use thiserror::Error;

/// The most IPv6 extension headers followed in one packet. Real packets carry one or two; a bound
/// keeps the time per packet bounded.
pub const EXTENSIONS_MAX: usize = 8;

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
pub(super) fn layout(bytes: &[u8]) -> Result<Layout, ParseError> {
    match bytes.first().ok_or(ParseError::Truncated)? >> 4 {
        4 => ipv4(bytes),
        6 => ipv6(bytes),
        _ => Err(ParseError::BadVersion),
    }
}

/// Octets of the IPv4 header that `bytes` begins with: fixed part and options, all present.
pub(super) fn ipv4_header(bytes: &[u8]) -> Result<&[u8], ParseError> {
    let fixed = bytes.first_chunk::<IPV4_HEADER_OCTETS>().ok_or(ParseError::Truncated)?;
    let octets = usize::from(fixed[0] & 0x0f) * 4;
    if octets < IPV4_HEADER_OCTETS {
        return Err(ParseError::BadHeaderLength);
    }
    bytes.get(..octets).ok_or(ParseError::Truncated)
}

fn ipv4(bytes: &[u8]) -> Result<Layout, ParseError> {
    let header = ipv4_header(bytes)?;
    let fixed = header.first_chunk::<IPV4_HEADER_OCTETS>().ok_or(ParseError::Truncated)?;
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
        octets: bytes.len() as u32,
        dont_fragment: flags & 0x4000 != 0,
        later_fragment,
    };
    look_into_transport(&mut info, bytes, header.len());
    Ok(Layout {
        info,
        transport: header.len(),
        fragment: later_fragment || flags & 0x2000 != 0,
        authenticated: false,
        rerouted: false,
    })
}

fn ipv6(bytes: &[u8]) -> Result<Layout, ParseError> {
    let fixed = bytes.first_chunk::<IPV6_HEADER_OCTETS>().ok_or(ParseError::Truncated)?;
    let payload = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    if IPV6_HEADER_OCTETS + payload != bytes.len() {
        return Err(ParseError::LengthMismatch);
    }
    let class_and_label = u32::from_be_bytes([fixed[0], fixed[1], fixed[2], fixed[3]]);
    let class = (class_and_label >> 20) as u8;
    let chain = Chain::follow(bytes, fixed[6])?;
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
        octets: bytes.len() as u32,
        dont_fragment: true,
        later_fragment: chain.later_fragment,
    };
    look_into_transport(&mut info, bytes, chain.at);
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

fn look_into_transport(info: &mut PacketInfo, bytes: &[u8], at: usize) {
    if info.later_fragment {
        return;
    }
    match info.protocol {
        protocol::UDP | protocol::TCP => {
            info.ports = u16_at(bytes, at).zip(u16_at(bytes, at + 2));
        }
        protocol::ESP => info.spi = u32_at(bytes, at),
        _ => {}
    }
}

/// Numbers of the IPv6 extension headers.
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HOST_IDENTITY: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// Progress along the chain of IPv6 extension headers.
struct Chain {
    protocol: u8,
    at: usize,
    fragment: bool,
    later_fragment: bool,
    authenticated: bool,
    rerouted: bool,
}

impl Chain {
    fn follow(bytes: &[u8], first: u8) -> Result<Self, ParseError> {
        let mut chain = Self {
            protocol: first,
            at: IPV6_HEADER_OCTETS,
            fragment: false,
            later_fragment: false,
            authenticated: false,
            rerouted: false,
        };
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
