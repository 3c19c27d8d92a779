//! IPv4 and IPv6 packets: what a gateway needs to know of one, what it may change, and what it
//! builds.

mod build;
mod captured;
mod chatter;
mod checksum;
mod digest;
mod edit;
mod fragment;
mod icmp;
mod neighbour;
mod parse;
mod readdress;
mod routing;
mod syn;
mod view;

#[cfg(test)]
mod samples;

pub use build::{Echo, EchoKind, build_echo, build_packet, build_udp, parse_echo};
pub use captured::{Captured, MARK_OCTETS_MAX};
pub use chatter::Chatter;
pub use checksum::{
    complete_tcp_checksum, header_checksum, put_udp_checksum, verify_transport_checksum,
};
pub use digest::digest;
pub use edit::{clamp_mss, decrement_hop_limit, set_dscp, set_ecn_ce};
pub use fragment::{Fragment, FragmentError, FragmentOf, fragment_ipv4, fragment_own, join};
pub use icmp::{IcmpError, Unreachable, build_icmp_error, parse_icmp_error};
pub use neighbour::{
    ALL_NODES, ALL_ROUTERS, Discovery, Neighbour, Router, build_router_solicitation,
};
pub use parse::{EXTENSIONS_MAX, ParseError, is_packet};
pub use readdress::{End, Ends, quoted, set_address, set_quoted_destination};
pub use routing::{Periodic, RoutingProtocol, build_ospf_hello, build_ospf3_hello};
pub use syn::{Syn, SynOptions, set_urgent_pointer, take_back};
pub use view::{TcpFlags, TcpView, tcp_header, udp_payload};

use core::net::IpAddr;

/// IP protocol numbers that the gateway looks into.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// Encapsulating Security Payload.
    pub const ESP: u8 = 50;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// OSPF.
    pub const OSPF: u8 = 89;
}

/// Octets of an IPv4 header without options.
pub const IPV4_HEADER_OCTETS: usize = 20;
/// Octets of the fixed IPv6 header.
pub const IPV6_HEADER_OCTETS: usize = 40;

/// Everything that classification, routing and statistics ask of a packet, read in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Source address; its family is the packet's.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Transport protocol after all extension headers.
    pub protocol: u8,
    /// Differentiated services code point, 0 … 63.
    pub dscp: u8,
    /// Explicit congestion notification bits, 0 … 3.
    pub ecn: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// IPv6 flow label; 0 for IPv4.
    pub flow_label: u32,
    /// Source and destination port of an unfragmented (or first-fragment) UDP or TCP packet.
    pub ports: Option<(u16, u16)>,
    /// Security parameters index of an ESP packet.
    pub spi: Option<u32>,
    /// Control bits of an unfragmented TCP packet that carries no data.
    pub tcp_bare: Option<TcpFlags>,
    /// Octets of the whole packet.
    pub octets: u32,
    /// IPv4 «don't fragment»; true for IPv6, which routers never fragment.
    pub dont_fragment: bool,
    /// The packet is a fragment that isn't the first.
    pub later_fragment: bool,
}

impl PacketInfo {
    /// Reads a packet: `bytes` must be exactly one, IPv4 (RFC 791) or IPv6 (RFC 8200).
    ///
    /// Of IPv6, the chain of extension headers is followed, at most [`EXTENSIONS_MAX`] of them; an
    /// authentication header counts as one. The chain of a later fragment ends at its fragment
    /// header. The transport header itself isn't judged: ports and index are `None` where it is cut
    /// short.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        parse::layout(bytes).map(|layout| layout.info)
    }
}
