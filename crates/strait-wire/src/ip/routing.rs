//! What routing protocols say to their neighbours again and again, each time the same.

use super::build::Envelope;
use super::{IPV4_HEADER_OCTETS, PacketInfo, parse, protocol};
use crate::bytes::{array_at, put_at, u16_at};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A routing protocol whose periodic packets are the same as long as nothing changes.
///
/// Others count their packets, or are spoken from link-local addresses, which lead nowhere beyond
/// one network: RIPng, OSPFv3, Babel, OLSR, anything with cryptographic authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RoutingProtocol {
    /// OSPF version 2 (RFC 2328): hellos.
    Ospf,
    /// RIP version 2 (RFC 2453): responses, which tell all routes.
    Rip,
}

/// A periodic packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periodic {
    /// Of which protocol.
    pub protocol: RoutingProtocol,
    /// Seconds between two of them: OSPF says so in each, RIP in its standard (section 3.8).
    pub interval_s: u16,
}

const ALL_OSPF_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 5);
const ALL_OSPF3_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5);
const ALL_RIP_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 9);
const RIP_PORT: u16 = 520;
const RIP_INTERVAL_S: u16 = 30;
/// Octets of an OSPF header; those of a hello before its list of neighbours.
const OSPF_HEADER_OCTETS: usize = 24;
const OSPF_HELLO_OCTETS: usize = OSPF_HEADER_OCTETS + 20;
const OSPF3_HELLO_OCTETS: usize = 36;

impl Periodic {
    /// Reads a packet; `None` if it isn't one that only repeats what was said. `info` is what was
    /// read from `bytes`.
    pub fn of(bytes: &[u8], info: &PacketInfo) -> Option<Self> {
        match (info.protocol, info.dst) {
            (protocol::OSPF, IpAddr::V4(ALL_OSPF_ROUTERS)) => {
                let interval_s = ospf_interval(whole(bytes)?)?;
                Some(Self {
                    protocol: RoutingProtocol::Ospf,
                    interval_s,
                })
            }
            (protocol::UDP, IpAddr::V4(ALL_RIP_ROUTERS)) => {
                let rip = info.ports.is_some_and(|(_, to)| to == RIP_PORT);
                let response = whole(bytes)?.get(8..).filter(|_| rip)?;
                is_rip_response(response).then_some(Self {
                    protocol: RoutingProtocol::Rip,
                    interval_s: RIP_INTERVAL_S,
                })
            }
            _ => None,
        }
    }

    /// Whether two packets say the same: all of them but the number for fragments and the checksum
    /// over it.
    pub fn same(one: &[u8], other: &[u8]) -> bool {
        let but_number = |bytes: &[u8]| {
            let head: Option<[u8; IPV4_HEADER_OCTETS]> = array_at(bytes, 0);
            head.map(|mut head| {
                put_at(&mut head, 4, [0; 2]);
                put_at(&mut head, 10, [0; 2]);
                head
            })
        };
        let rest = |bytes: &[u8]| bytes.get(IPV4_HEADER_OCTETS..).map(<[u8]>::to_vec);
        but_number(one) == but_number(other) && rest(one) == rest(other)
    }
}

/// What follows the headers, of a packet that isn't in pieces.
fn whole(bytes: &[u8]) -> Option<&[u8]> {
    parse::layout(bytes).ok()?.whole_segment(bytes)
}

/// The interval that an OSPF hello tells (RFC 2328 appendix A.3.2), unless it counts its packets.
fn ospf_interval(message: &[u8]) -> Option<u16> {
    const HELLO: [u8; 2] = [2, 1];
    const CRYPTOGRAPHIC: u16 = 2;
    let hello = message.starts_with(&HELLO) && u16_at(message, 14)? < CRYPTOGRAPHIC;
    let fits = usize::from(u16_at(message, 2)?) >= OSPF_HELLO_OCTETS;
    let interval_s = u16_at(message, OSPF_HEADER_OCTETS + 4)?;
    (hello && fits && interval_s > 0).then_some(interval_s)
}

/// Whether a RIP message tells routes (RFC 2453 section 4), and doesn't count its packets (RFC 4822
/// section 2).
fn is_rip_response(message: &[u8]) -> bool {
    const RESPONSE: [u8; 2] = [2, 2];
    const CRYPTOGRAPHIC: [u8; 4] = [0xff, 0xff, 0, 3];
    let first = array_at::<4>(message, 4);
    message.starts_with(&RESPONSE) && first.is_some_and(|first| first != CRYPTOGRAPHIC)
}

/// Appends an OSPF hello (RFC 2328 appendix A.3.2) of `router` without authentication, in area 0,
/// which has heard `neighbours`. Its dead interval is four times `interval_s`.
pub fn build_ospf_hello(
    router: Ipv4Addr,
    interval_s: u16,
    neighbours: &[Ipv4Addr],
    out: &mut Vec<u8>,
) -> bool {
    let mut hello = [0; OSPF_HELLO_OCTETS];
    let octets = OSPF_HELLO_OCTETS + 4 * neighbours.len();
    let Ok(length) = u16::try_from(octets) else {
        return false;
    };
    put_at(&mut hello, 0, [2, 1]);
    put_at(&mut hello, 2, length.to_be_bytes());
    put_at(&mut hello, 4, router.octets());
    put_at(&mut hello, 24, [255, 255, 255, 0]);
    put_at(&mut hello, 28, interval_s.to_be_bytes());
    // External routes are welcome; priority 1.
    put_at(&mut hello, 30, [2, 1]);
    put_at(&mut hello, 32, (4 * u32::from(interval_s)).to_be_bytes());
    put_at(&mut hello, 36, router.octets());
    let neighbours = neighbours.iter().flat_map(|neighbour| neighbour.octets());
    let neighbours: Vec<u8> = neighbours.collect();
    Envelope {
        src: router.into(),
        dst: ALL_OSPF_ROUTERS.into(),
        protocol: protocol::OSPF,
        // CS6, as routing protocols have (RFC 4594 section 3.2).
        dscp: 48,
        hop_limit: 1,
        ident: 0,
        flow_label: 0,
    }
    .build(&hello, 12, &neighbours, out)
}

/// Appends a hello of OSPF for IPv6 (RFC 5340 appendix A.3.2) of a router at a link-local address,
/// in area 0, which has heard no other. Its dead interval is four times `interval_s`.
pub fn build_ospf3_hello(src: Ipv6Addr, interval_s: u16, out: &mut Vec<u8>) -> bool {
    let mut hello = [0; OSPF3_HELLO_OCTETS];
    let [.., w, x, y, z] = src.octets();
    put_at(
        &mut hello,
        0,
        [3, 1, 0, OSPF3_HELLO_OCTETS as u8, w, x, y, z],
    );
    // Interface 1, priority 1; IPv6, external routes, a router.
    put_at(&mut hello, 16, [0, 0, 0, 1, 1, 0, 0, 0x13]);
    put_at(&mut hello, 24, interval_s.to_be_bytes());
    let dead_s = interval_s.saturating_mul(4);
    put_at(&mut hello, 26, dead_s.to_be_bytes());
    put_at(&mut hello, 28, [w, x, y, z]);
    Envelope {
        src: src.into(),
        dst: ALL_OSPF3_ROUTERS.into(),
        protocol: protocol::OSPF,
        dscp: 48,
        hop_limit: 1,
        ident: 0,
        flow_label: 0,
    }
    .build(&hello, 12, &[], out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::build_udp;
    use core::net::SocketAddr;

    /// A hello of 10.9.0.1 each 10 s that has heard 10.9.0.2.
    const HELLO: &[u8] = b"\x45\xc0\x00\x44\x00\x00\x00\x00\x01\x59\xce\x92\x0a\x09\x00\x01\
        \xe0\x00\x00\x05\x02\x01\x00\x30\x0a\x09\x00\x01\x00\x00\x00\x00\xde\x7b\x00\x00\
        \x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\x00\x00\x0a\x02\x01\x00\x00\x00\x28\
        \x0a\x09\x00\x01\x00\x00\x00\x00\x0a\x09\x00\x02";

    fn periodic(bytes: &[u8]) -> Option<Periodic> {
        Periodic::of(bytes, &PacketInfo::parse(bytes).unwrap())
    }

    #[test]
    fn a_hello_is_built_and_read() {
        let mut bytes = Vec::new();
        let (one, other) = (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2));
        assert!(build_ospf_hello(one, 10, &[other], &mut bytes));
        assert_eq!(bytes, HELLO);
        let expected = Periodic {
            protocol: RoutingProtocol::Ospf,
            interval_s: 10,
        };
        assert_eq!(periodic(HELLO), Some(expected));
        // Of another type, of version 3, with cryptographic authentication, without an interval.
        for (at, value) in [(21, 2), (20, 3), (35, 2), (49, 0)] {
            let mut other = Vec::from(HELLO);
            other[at] = value;
            assert_eq!(periodic(&other), None, "octet {at}");
        }
    }

    #[test]
    fn a_response_of_rip_is_one_that_counts_no_packets() {
        let rip = |to: &str, message: &[u8]| {
            let mut bytes = Vec::new();
            let from: SocketAddr = "10.9.0.1:520".parse().unwrap();
            assert!(build_udp(
                from,
                to.parse().unwrap(),
                48,
                1,
                0,
                0,
                message,
                &mut bytes
            ));
            periodic(&bytes).map(|periodic| periodic.interval_s)
        };
        let entry = [
            0, 2, 0, 0, 10, 1, 0, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        ];
        let message = |head: [u8; 4]| [&head[..], &entry].concat();
        let routers = "224.0.0.9:520";
        assert_eq!(rip(routers, &message([2, 2, 0, 0])), Some(30));
        // A question, the first version, somebody's own, cryptographic authentication, nothing.
        assert_eq!(rip(routers, &message([1, 2, 0, 0])), None);
        assert_eq!(rip(routers, &message([2, 1, 0, 0])), None);
        assert_eq!(rip("10.9.0.2:520", &message([2, 2, 0, 0])), None);
        let mut counted = message([2, 2, 0, 0]);
        counted[4..8].copy_from_slice(&[0xff, 0xff, 0, 3]);
        assert_eq!(rip(routers, &counted), None);
        assert_eq!(rip(routers, &[2, 2, 0, 0]), None);
    }

    #[test]
    fn the_number_for_fragments_says_nothing() {
        let mut other = Vec::from(HELLO);
        other[4..6].copy_from_slice(&[7, 7]);
        other[10..12].copy_from_slice(&[1, 1]);
        assert!(Periodic::same(HELLO, &other));
        for at in [1, 8, 15, 47, 67] {
            let mut changed = other.clone();
            changed[at] ^= 1;
            assert!(!Periodic::same(HELLO, &changed), "octet {at}");
        }
        assert!(!Periodic::same(HELLO, &HELLO[..64]));
    }

    #[test]
    fn a_hello_cut_short_is_none() {
        for octets in 0..48 {
            assert_eq!(ospf_interval(&HELLO[20..20 + octets.min(29)]), None);
        }
    }
}
