//! Building packets. Every length and checksum comes out right, or nothing is built.

use super::checksum::{Pseudo, verify};
use super::{IPV4_HEADER_OCTETS, parse, protocol};
use crate::bytes::{put_at, u16_at};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use etherparse::{IpDscp, IpFragOffset, IpNumber, Ipv4Header, Ipv6FlowLabel, Ipv6Header};

/// The IP header of a packet to build. Values wider than their field are cut to it.
#[derive(Clone, Copy)]
pub(super) struct Envelope {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) protocol: u8,
    pub(super) dscp: u8,
    pub(super) hop_limit: u8,
    /// IPv4 only.
    pub(super) ident: u16,
    /// IPv6 only.
    pub(super) flow_label: u32,
}

impl Envelope {
    /// Appends the packet: IP header, `head` (the transport header, its checksum at `checksum_at`
    /// still zero), `payload`. Builds nothing and answers `false` if the addresses aren't of one
    /// family or the packet would be longer than its length field can say.
    pub(super) fn build(
        &self,
        head: &[u8],
        checksum_at: usize,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        let length = head.len() + payload.len();
        if self.put_header(length, out).is_none() {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(head);
        out.extend_from_slice(payload);
        let Some(segment) = out.get_mut(start..) else {
            return false;
        };
        let pseudo = Pseudo {
            src: self.src,
            dst: self.dst,
            protocol: self.protocol,
        };
        let checksum = match pseudo.over(segment) {
            // In UDP zero means none; the other zero is sent instead (RFC 768).
            [0, 0] if self.protocol == protocol::UDP => [0xff, 0xff],
            other => other,
        };
        put_at(segment, checksum_at, checksum);
        true
    }

    /// Appends the header of a packet with so many octets behind it.
    fn put_header(&self, length: usize, out: &mut Vec<u8>) -> Option<()> {
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                self.put_ipv4(src.octets(), dst.octets(), length, out)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                self.put_ipv6(src.octets(), dst.octets(), length, out)
            }
            _ => None,
        }
    }

    fn put_ipv4(
        &self,
        source: [u8; 4],
        destination: [u8; 4],
        length: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let mut header = Ipv4Header {
            dscp: IpDscp::try_new(self.dscp & 0x3f).ok()?,
            total_len: u16::try_from(IPV4_HEADER_OCTETS + length).ok()?,
            identification: self.ident,
            // The way may be narrower than any MTU we know; routers may cut the packet.
            dont_fragment: false,
            fragment_offset: IpFragOffset::ZERO,
            time_to_live: self.hop_limit,
            protocol: IpNumber(self.protocol),
            source,
            destination,
            ..Default::default()
        };
        header.header_checksum = header.calc_header_checksum();
        out.extend_from_slice(&header.to_bytes());
        Some(())
    }

    fn put_ipv6(
        &self,
        source: [u8; 16],
        destination: [u8; 16],
        length: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let header = Ipv6Header {
            traffic_class: self.dscp << 2,
            flow_label: Ipv6FlowLabel::try_new(self.flow_label & 0x000f_ffff).ok()?,
            payload_length: u16::try_from(length).ok()?,
            next_header: IpNumber(self.protocol),
            hop_limit: self.hop_limit,
            source,
            destination,
        };
        out.extend_from_slice(&header.to_bytes());
        Some(())
    }
}

/// Appends a UDP packet (RFC 768) to `out`, IPv4 or IPv6 as its addresses are. `ident` is for IPv4,
/// whose packet may be fragmented; `flow_label` is for IPv6. Fields wider than in the header are
/// cut to it.
///
/// `false`, and nothing appended, if the addresses aren't of one family or the packet would be
/// longer than 65,535 octets (IPv6: of payload).
#[expect(clippy::too_many_arguments, reason = "each is one field of the packet")]
pub fn build_udp(
    src: SocketAddr,
    dst: SocketAddr,
    dscp: u8,
    hop_limit: u8,
    ident: u16,
    flow_label: u32,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let Ok(length) = u16::try_from(payload.len() + 8) else {
        return false;
    };
    let mut head = [0; 8];
    put_at(&mut head, 0, src.port().to_be_bytes());
    put_at(&mut head, 2, dst.port().to_be_bytes());
    put_at(&mut head, 4, length.to_be_bytes());
    let (src, dst) = (src.ip(), dst.ip());
    Envelope {
        src,
        dst,
        protocol: protocol::UDP,
        dscp,
        hop_limit,
        ident,
        flow_label,
    }
    .build(&head, 6, payload, out)
}

/// Appends a packet of any protocol to `out`, IPv4 or IPv6 as its addresses are. `false`, and
/// nothing appended, as in [`build_udp`].
pub fn build_packet(
    (src, dst): (IpAddr, IpAddr),
    protocol: u8,
    dscp: u8,
    hop_limit: u8,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let envelope = Envelope {
        src,
        dst,
        protocol,
        dscp,
        hop_limit,
        ident: 0,
        flow_label: 0,
    };
    let built = envelope.put_header(payload.len(), out);
    if built.is_some() {
        out.extend_from_slice(payload);
    }
    built.is_some()
}

/// The two echo messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoKind {
    /// «Are you there?»
    Request,
    /// The answer, with everything of the request sent back.
    Reply,
}

impl EchoKind {
    /// ICMP type: RFC 792 (IPv4), RFC 4443 section 4 (IPv6).
    const fn icmp_type(self, ipv4: bool) -> u8 {
        match (self, ipv4) {
            (Self::Request, true) => 8,
            (Self::Reply, true) => 0,
            (Self::Request, false) => 128,
            (Self::Reply, false) => 129,
        }
    }

    fn from_icmp_type(value: u8, ipv4: bool) -> Option<Self> {
        [Self::Request, Self::Reply]
            .into_iter()
            .find(|kind| kind.icmp_type(ipv4) == value)
    }
}

/// An echo message of either family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Request or reply.
    pub kind: EchoKind,
    /// Tells the pings of one host apart.
    pub ident: u16,
    /// Counts the requests of one ping.
    pub sequence: u16,
    /// The data in the packet.
    pub payload: Range<usize>,
}

/// Octets of an ICMP header with its second word.
pub(super) const ICMP_HEADER_OCTETS: usize = 8;

/// Appends an echo message (RFC 792, RFC 4443 section 4) to `out`, of the family of its addresses.
/// `ip_ident` is for IPv4, whose packet may be fragmented. `false` and nothing appended as in
/// [`build_udp`].
#[expect(clippy::too_many_arguments, reason = "each is one field of the packet")]
pub fn build_echo(
    kind: EchoKind,
    src: IpAddr,
    dst: IpAddr,
    dscp: u8,
    hop_limit: u8,
    ip_ident: u16,
    ident: u16,
    sequence: u16,
    payload: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let mut head = [0; ICMP_HEADER_OCTETS];
    head[0] = kind.icmp_type(src.is_ipv4());
    put_at(&mut head, 4, ident.to_be_bytes());
    put_at(&mut head, 6, sequence.to_be_bytes());
    let protocol = icmp_protocol(src);
    Envelope {
        src,
        dst,
        protocol,
        dscp,
        hop_limit,
        ident: ip_ident,
        flow_label: 0,
    }
    .build(&head, 2, payload, out)
}

/// The ICMP of an address's family.
pub(super) const fn icmp_protocol(address: IpAddr) -> u8 {
    if address.is_ipv4() {
        protocol::ICMP
    } else {
        protocol::ICMPV6
    }
}

/// Reads a whole echo message of either family whose checksum is right.
#[must_use]
pub fn parse_echo(bytes: &[u8]) -> Option<Echo> {
    let layout = parse::layout(bytes).ok()?;
    let info = &layout.info;
    if info.protocol != icmp_protocol(info.src) || verify(bytes, &layout) != Some(true) {
        return None;
    }
    let segment = layout.segment(bytes);
    let (kind, code) = (*segment.first()?, *segment.get(1)?);
    if code != 0 || segment.len() < ICMP_HEADER_OCTETS {
        return None;
    }
    Some(Echo {
        kind: EchoKind::from_icmp_type(kind, info.src.is_ipv4())?,
        ident: u16_at(segment, 4)?,
        sequence: u16_at(segment, 6)?,
        payload: layout.transport + ICMP_HEADER_OCTETS..bytes.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::UDP6;
    use crate::ip::{PacketInfo, udp_payload, verify_transport_checksum};
    use alloc::vec;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    fn address() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        prop_oneof![
            any::<[[u8; 4]; 2]>()
                .prop_map(|[a, b]| (Ipv4Addr::from(a).into(), Ipv4Addr::from(b).into())),
            any::<[[u8; 16]; 2]>()
                .prop_map(|[a, b]| (Ipv6Addr::from(a).into(), Ipv6Addr::from(b).into())),
        ]
    }

    #[test]
    fn built_behind_what_is_there() {
        let mut out = vec![9];
        let (src, dst) = ("[2001:db8::1]:5004", "[2001:db8:1::2]:5006");
        let (src, dst) = (src.parse().unwrap(), dst.parse().unwrap());
        assert!(build_udp(src, dst, 46, 64, 0, 0xabcde, b"hello", &mut out));
        let mut sample = Vec::from(UDP6);
        sample[1] = 0x8a; // without ECT(0)
        assert_eq!((out[0], &out[1..]), (9, &sample[..]));
    }

    #[test]
    fn a_packet_of_any_protocol_has_its_payload_behind_the_header() {
        for (src, dst, header_octets) in [("10.0.0.1", "10.0.0.2", 20), ("fd00::1", "fd00::2", 40)]
        {
            let ends = (src.parse().unwrap(), dst.parse().unwrap());
            let mut out = vec![9];
            assert!(build_packet(ends, 253, 46, 64, b"hop", &mut out));
            let info = PacketInfo::parse(&out[1..]).unwrap();
            assert_eq!((info.src, info.dst), ends);
            assert_eq!((info.protocol, info.dscp, info.hop_limit), (253, 46, 64));
            assert_eq!(&out[1 + header_octets..], b"hop");
            let mixed = (ends.0, IpAddr::from([127, 0, 0, 1]));
            let long = vec![0; 65_536];
            for (ends, payload) in [(mixed, &b"x"[..]), (ends, &long)] {
                let mut out = vec![9];
                let built = build_packet(ends, 253, 0, 64, payload, &mut out);
                assert_eq!(
                    built,
                    ends.0.is_ipv4() == ends.1.is_ipv4() && payload.len() == 1
                );
                assert_eq!(out.len() == 1, !built);
            }
        }
    }

    #[test]
    fn a_mixed_pair_or_a_length_beyond_the_field_builds_nothing() {
        let four: IpAddr = Ipv4Addr::LOCALHOST.into();
        let six: IpAddr = Ipv6Addr::LOCALHOST.into();
        let zeros = vec![0; 65_536];
        let built = |src: IpAddr, dst: IpAddr, payload: usize| {
            let mut out = vec![];
            let done = build_udp(
                (src, 1).into(),
                (dst, 2).into(),
                0,
                64,
                0,
                0,
                &zeros[..payload],
                &mut out,
            );
            assert_eq!(done, !out.is_empty());
            done
        };
        assert!(!built(four, six, 0));
        assert!(!built(six, four, 0));
        assert!(built(four, four, 65_507));
        assert!(!built(four, four, 65_508));
        assert!(built(six, six, 65_527));
        assert!(!built(six, six, 65_528));
        assert!(!built(six, six, 65_536));
    }

    #[test]
    fn a_udp_checksum_of_zero_is_sent_as_the_other_zero() {
        // The payload is chosen so that everything covered sums to all ones.
        let (src, dst) = (
            "192.0.2.1:0".parse().unwrap(),
            "192.0.2.2:0".parse().unwrap(),
        );
        let zero = (0..=u16::MAX).find(|word| {
            let mut out = vec![];
            build_udp(src, dst, 0, 64, 0, 0, &word.to_be_bytes(), &mut out);
            out[26..28] == [0xff, 0xff]
        });
        let mut out = vec![];
        build_udp(
            src,
            dst,
            0,
            64,
            0,
            0,
            &zero.unwrap().to_be_bytes(),
            &mut out,
        );
        assert_eq!(verify_transport_checksum(&out), Some(true));
        out[26..28].copy_from_slice(&[0, 0]);
        assert_eq!(verify_transport_checksum(&out), None);
        assert!(udp_payload(&out).is_some());
    }

    #[test]
    fn ipv6_knows_no_udp_without_checksum() {
        let mut out = Vec::from(UDP6);
        out[46..48].copy_from_slice(&[0, 0]);
        assert_eq!(verify_transport_checksum(&out), Some(false));
        assert_eq!(udp_payload(&out), None);
    }

    #[test]
    fn udp_counts_its_own_octets() {
        // One octet behind the datagram, as UDP options would stand there, is not of the payload.
        let mut out = Vec::from(UDP6);
        out.push(0xaa);
        out[5] += 1;
        assert_eq!(udp_payload(&out), Some(((5004, 5006), &b"hello"[..])));
        out[45] += 2;
        assert_eq!(verify_transport_checksum(&out), Some(false));
        assert_eq!(udp_payload(&out), None);
        out[45] = 7;
        assert_eq!(udp_payload(&out), None);
    }

    proptest! {
        #[test]
        fn udp_reads_back(
            pair in address(), ports: (u16, u16), dscp in 0..64_u8, hop_limit: u8, ident: u16,
            flow_label in 0..0x10_0000_u32, payload: Vec<u8>, bit: usize,
        ) {
            let (src, dst) = ((pair.0, ports.0).into(), (pair.1, ports.1).into());
            let mut out = vec![];
            prop_assert!(build_udp(
                src, dst, dscp, hop_limit, ident, flow_label, &payload, &mut out,
            ));
            let info = PacketInfo::parse(&out).unwrap();
            prop_assert_eq!((info.src, info.dst, info.ports), (pair.0, pair.1, Some(ports)));
            prop_assert_eq!((info.dscp, info.ecn, info.hop_limit), (dscp, 0, hop_limit));
            prop_assert_eq!(info.flow_label, if pair.0.is_ipv6() { flow_label } else { 0 });
            prop_assert_eq!(udp_payload(&out), Some((ports, &payload[..])));
            // A wrong bit in the datagram shows.
            let start = out.len() - payload.len() - 8;
            let bit = bit % ((payload.len() + 8) * 8);
            out[start + bit / 8] ^= 1 << (bit % 8);
            let without = out[start + 6..start + 8] == [0, 0];
            prop_assert!(without || udp_payload(&out).is_none());
        }

        #[test]
        fn echoes_read_back(
            pair in address(), reply: bool, ident: u16, sequence: u16, payload: Vec<u8>, bit: usize,
        ) {
            let kind = if reply { EchoKind::Reply } else { EchoKind::Request };
            let mut out = vec![];
            prop_assert!(build_echo(
                kind, pair.0, pair.1, 10, 20, 30, ident, sequence, &payload, &mut out
            ));
            prop_assert_eq!(verify_transport_checksum(&out), Some(true));
            let echo = parse_echo(&out).unwrap();
            prop_assert_eq!((echo.kind, echo.ident, echo.sequence), (kind, ident, sequence));
            prop_assert_eq!(&out[echo.payload], &payload[..]);
            let start = out.len() - payload.len() - 8;
            let bit = bit % ((payload.len() + 8) * 8);
            out[start + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(parse_echo(&out), None);
        }

        #[test]
        fn any_contents_are_judged(
            protocol in proptest::sample::select(&[1_u8, 6, 17, 58][..]), data: Vec<u8>,
        ) {
            use crate::ip::samples::{ipv4, ipv6};
            for bytes in [ipv4(&[], 0, protocol, &data), ipv6(protocol, &data), data] {
                let _ = parse_echo(&bytes);
                let _ = udp_payload(&bytes);
                let _ = verify_transport_checksum(&bytes);
                let _ = crate::ip::tcp_header(&bytes);
                let _ = crate::ip::parse_icmp_error(&bytes);
            }
        }
    }
}
