//! Golden packets and segments: octets from elsewhere, and what they mean.

use std::net::IpAddr;
use strait_wire::check::Crc32Sum;
use strait_wire::ip::{
    EchoKind, IcmpError, PacketInfo, TcpFlags, build_echo, build_icmp_error, build_udp, clamp_mss,
    parse_echo, parse_icmp_error, protocol, tcp_header, udp_payload, verify_transport_checksum,
};
use strait_wire::rtp::RtpHeader;
use strait_wire::segment::{SegmentCheck, SegmentHeader, emit_segment, parse_segment};

const PACKETS: &str = include_str!("../../../vectors/ip/packets.txt");
const SEGMENTS: &str = include_str!("../../../vectors/link/segments.txt");

/// The octets of one named vector.
fn vector(file: &str, name: &str) -> Vec<u8> {
    let line = file
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let hex = line.unwrap_or_else(|| panic!("no vector {name}"));
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

fn packet(name: &str) -> Vec<u8> {
    vector(PACKETS, name)
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn info(name: &str) -> PacketInfo {
    PacketInfo::parse(&packet(name)).expect("a packet")
}

#[test]
fn every_packet_parses_and_no_checksum_is_wrong() {
    for line in PACKETS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let (name, _) = line.split_once(": ").unwrap();
        let bytes = packet(name);
        assert!(PacketInfo::parse(&bytes).is_ok(), "{name}");
        let judged = match name {
            "esp4" | "udp6_first_fragment" | "udp6_later_fragment" => None,
            _ => Some(true),
        };
        assert_eq!(verify_transport_checksum(&bytes), judged, "{name}");
    }
}

#[test]
fn a_voice_packet_is_read_and_built() {
    let bytes = packet("udp6_rtp");
    let expected = PacketInfo {
        src: address("2001:db8::1"),
        dst: address("2001:db8:1::2"),
        protocol: protocol::UDP,
        dscp: 46,
        ecn: 2,
        hop_limit: 64,
        flow_label: 0xabcde,
        ports: Some((5004, 5006)),
        spi: None,
        tcp_bare: None,
        octets: 91,
        dont_fragment: true,
        later_fragment: false,
    };
    assert_eq!(PacketInfo::parse(&bytes), Ok(expected));
    let (ports, payload) = udp_payload(&bytes).unwrap();
    assert_eq!(ports, (5004, 5006));
    let (rtp, frames) = RtpHeader::parse(payload).unwrap();
    assert_eq!(
        (rtp.sequence, rtp.timestamp, rtp.ssrc),
        (0x1234, 1600, 0x00c0_ffee)
    );
    assert_eq!(frames.len(), 31);
    let mut built = vec![];
    let (src, dst) = ((expected.src, 5004).into(), (expected.dst, 5006).into());
    assert!(build_udp(src, dst, 46, 64, 0, 0xabcde, payload, &mut built));
    built[1] |= 0x20; // the vector says ECT(0)
    assert_eq!(built, bytes);
}

#[test]
fn options_and_ecn_of_ipv4() {
    let info = info("udp4_options");
    assert_eq!((info.dscp, info.ecn, info.hop_limit), (8, 3, 17));
    assert_eq!(
        (info.ports, info.dont_fragment, info.flow_label),
        (Some((1000, 2000)), false, 0)
    );
    assert_eq!(
        udp_payload(&packet("udp4_options")),
        Some(((1000, 2000), &b"odd"[..]))
    );
}

#[test]
fn pings_of_a_linux_kernel_are_read_and_built() {
    let cases = [
        ("ping4_request", EchoKind::Request, 0x21fd, "127.0.0.1"),
        ("ping4_reply", EchoKind::Reply, 0x21fd, "127.0.0.1"),
        ("ping6_request", EchoKind::Request, 0x21fe, "::1"),
        ("ping6_reply", EchoKind::Reply, 0x21fe, "::1"),
    ];
    for (name, kind, ident, host) in cases {
        let bytes = packet(name);
        let echo = parse_echo(&bytes).unwrap();
        assert_eq!(
            (echo.kind, echo.ident, echo.sequence),
            (kind, ident, 1),
            "{name}"
        );
        assert_eq!(echo.payload.len(), 24, "{name}");
        let dscp = PacketInfo::parse(&bytes).unwrap().dscp;
        let mut built = vec![];
        let host = address(host);
        let payload = &bytes[echo.payload];
        assert!(build_echo(
            kind, host, host, dscp, 64, 0, ident, 1, payload, &mut built
        ));
        // The ICMP message is the kernel's, octet by octet; only header fields we don't fill
        // differ.
        let message = if host.is_ipv4() { 20 } else { 40 };
        assert_eq!(built[message..], bytes[message..], "{name}");
    }
}

#[test]
fn fragments_behind_hop_by_hop_options() {
    let first = info("udp6_first_fragment");
    assert_eq!((first.protocol, first.ports), (protocol::UDP, Some((7, 8))));
    assert!(!first.later_fragment);
    let later = info("udp6_later_fragment");
    assert_eq!((later.protocol, later.ports), (protocol::UDP, None));
    assert!(later.later_fragment);
}

#[test]
fn the_index_of_esp() {
    assert_eq!(
        (info("esp4").protocol, info("esp4").spi),
        (protocol::ESP, Some(0xcafe_0001))
    );
}

#[test]
fn tcp_headers() {
    let bytes = packet("tcp6_data");
    let view = tcp_header(&bytes).unwrap();
    assert_eq!(
        (view.seq, view.ack, view.window),
        (0xffff_fffe, 0x8000_0001, 512)
    );
    assert_eq!(view.flags, TcpFlags::PSH | TcpFlags::ACK);
    assert_eq!((view.header, &bytes[view.payload]), (40..60, &b"hello"[..]));
    assert_eq!(info("tcp6_data").tcp_bare, None);
    assert_eq!(info("tcp4_syn").tcp_bare, Some(TcpFlags::SYN));
    let view = tcp_header(&packet("tcp4_syn")).unwrap();
    assert_eq!(
        (view.flags, view.header, view.payload),
        (TcpFlags::SYN, 20..52, 52..52)
    );
}

#[test]
fn a_clamped_syn_is_the_one_that_a_host_would_have_sent() {
    for name in ["tcp4_syn", "tcp6_syn_odd"] {
        let mut bytes = packet(name);
        assert!(clamp_mss(&mut bytes, 536), "{name}");
        assert_eq!(bytes, packet(&format!("{name}_mss_536")), "{name}");
        assert!(!clamp_mss(&mut bytes, 536), "{name}");
        assert!(!clamp_mss(&mut bytes, 1460), "{name}");
    }
}

#[test]
fn too_big_in_both_families_is_read_and_built() {
    let cases = [
        ("icmp6_too_big", 1280, "2001:db8::ff", 48),
        ("icmp4_too_big", 296, "192.0.2.254", 28),
    ];
    for (name, mtu, from, quoted_at) in cases {
        let bytes = packet(name);
        let kind = IcmpError::PacketTooBig { mtu };
        assert_eq!(
            parse_icmp_error(&bytes),
            Some((kind, quoted_at..bytes.len())),
            "{name}"
        );
        let mut built = vec![];
        assert!(
            build_icmp_error(kind, address(from), &bytes[quoted_at..], &mut built),
            "{name}"
        );
        if from.contains('.') {
            // The identification is free to choose, and the header checksum goes with it.
            built[4..6].copy_from_slice(&bytes[4..6]);
            built[10..12].copy_from_slice(&bytes[10..12]);
        }
        assert_eq!(built, bytes, "{name}");
    }
}

#[test]
fn segments_are_read_and_built() {
    let (short, long) = (SegmentCheck::Short, SegmentCheck::Long);
    let header = |first, last, stream, sequence| SegmentHeader {
        first,
        last,
        stream,
        sequence,
    };
    let cases = [
        (
            "whole_short",
            header(true, true, 2, 1),
            &b"voice"[..],
            short,
        ),
        ("whole_long", header(true, true, 2, 1), b"voice", long),
        ("piece_first", header(true, false, 6, 7), b"a lon", long),
        ("piece_middle", header(false, false, 6, 0), b"ger p", long),
        ("piece_last", header(false, true, 6, 1), b"acket", long),
        ("empty_first", header(true, false, 0, 0), b"", long),
    ];
    let (mut sent, mut received) = (Crc32Sum::new(), Crc32Sum::new());
    for (name, header, payload, alone) in cases {
        let bytes = vector(SEGMENTS, name);
        let mut built = vec![];
        emit_segment(header, payload, alone, &mut sent, &mut built);
        assert_eq!(built, bytes, "{name}");
        let segment = parse_segment(&bytes, alone).unwrap();
        assert_eq!(
            (segment.header, segment.payload),
            (header, payload),
            "{name}"
        );
        assert!(segment.accept(&mut received), "{name}");
    }
}
