use alloc::vec;
use core::net::SocketAddr;

use proptest::prelude::*;

use super::*;
use crate::ip;

/// A segment of a connection without options.
fn segment(id: u16, sequence: u32, acknowledged: u32, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![V4, 0, 0, 0];
    packet.extend_from_slice(&id.to_be_bytes());
    packet.extend_from_slice(&[0x40, 0, 63, protocol::TCP, 0, 0]);
    packet.extend_from_slice(&[10, 0, 0, 1, 10, 0, 9, 1, 0x13, 0x88, 0xc0, 0x01]);
    packet.extend_from_slice(&sequence.to_be_bytes());
    packet.extend_from_slice(&acknowledged.to_be_bytes());
    packet.extend_from_slice(&[0x50, 0x10, 0x20, 0, 0xab, 0xcd, 0, 0]);
    packet.extend_from_slice(payload);
    finish(packet)
}

/// With its length and checksum right.
fn finish(mut packet: Vec<u8>) -> Vec<u8> {
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let sum = header_checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn said(packet: &[u8], known: &[u8], distance: u16) -> Vec<u8> {
    let (headers, octets) = Headers::of(packet).unwrap();
    let (known, _) = Headers::of(known).unwrap();
    assert!(headers.is_like(&known));
    let mut line = Vec::new();
    headers.emit(&known, distance, &mut line);
    line.extend_from_slice(&packet[octets..]);
    line
}

fn restored(line: &[u8], known: &[u8]) -> Option<Vec<u8>> {
    Headers::of(known)?.0.restore(line)
}

#[test]
fn the_next_segment_literally() {
    let first = segment(7, 0x0100_0000, 0x55, b"abc");
    let second = segment(8, 0x0100_0218, 0x55, b"def");
    let line = said(&second, &first, 2);
    // Two as there and one other: the identification. Five and two: the sequence number. The rest
    // is as there.
    assert_eq!(
        line,
        [0x82, 0x21, 8, 0x52, 0x02, 0x18, 0x00, b'd', b'e', b'f']
    );
    assert_eq!(Headers::distance(&line), Some(2));
    assert_eq!(Headers::distance(&second), None);
    assert_eq!(restored(&line, &first), Some(second));
}

#[test]
fn a_checksum_comes_last_and_ends_the_headers() {
    let first = segment(7, 1, 1, b"");
    let mut second = first.clone();
    second[36..38].copy_from_slice(&[1, 2]);
    let line = said(&second, &first, 127);
    assert_eq!(line, [0xff, 0xf0, 0x52, 1, 2]);
    assert_eq!(restored(&line, &first), Some(second));
}

#[test]
fn only_packets_of_one_flow_and_shape_are_alike() {
    let of = |packet: &[u8]| Headers::of(packet).unwrap().0;
    let one = segment(7, 1, 1, b"");
    let mut port = one.clone();
    port[20] ^= 1;
    assert!(of(&one).is_like(&of(&segment(9, 700, 1, b"longer"))));
    assert!(!of(&one).is_like(&of(&port)));
    let mut options = segment(7, 1, 1, &[0; 4]);
    options[32] = 0x60;
    assert!(!of(&one).is_like(&of(&options)));
}

#[test]
fn what_would_not_come_out_the_same_goes_whole() {
    let sound = segment(7, 1, 1, b"x");
    let spoilt = |at: usize, octet: u8| {
        let mut packet = sound.clone();
        packet[at] = octet;
        packet
    };
    assert!(Headers::of(&sound).is_some());
    // Options, a length and a checksum that are wrong, a segment header beyond the packet.
    for packet in [
        spoilt(0, 0x46),
        spoilt(3, 0xff),
        spoilt(10, sound[10] ^ 1),
        spoilt(32, 0xf0),
        spoilt(32, 0x40),
    ] {
        assert_eq!(Headers::of(&packet), None);
    }
    let mut fragment = sound.clone();
    fragment[6] = 0x20;
    assert_eq!(Headers::of(&finish(fragment)), None);
    for length in 0..sound.len() {
        assert_eq!(Headers::of(&sound[..length]), None);
    }
}

/// Any packet of one of two flows.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let tail = proptest::collection::vec(any::<u8>(), 0..40);
    (any::<bool>(), 0..6u8, any::<u8>(), any::<u32>(), tail).prop_map(
        |(v6, kind, flow, varies, tail)| {
            let varied = varies.to_be_bytes();
            let mut transport: Vec<u8> = vec![0, flow & 1, 0, 9];
            let number = match kind {
                0 => {
                    transport.extend_from_slice(&varied);
                    transport.extend_from_slice(&[varied[3]; 4]);
                    transport.extend_from_slice(&[0x60, 0x10, 1, 2, varied[0], varied[1], 0, 0]);
                    transport.extend_from_slice(&varied);
                    protocol::TCP
                }
                1 => {
                    let length = 8 + tail.len() as u16;
                    transport.extend_from_slice(&length.to_be_bytes());
                    transport.extend_from_slice(&varied[..2]);
                    protocol::UDP
                }
                2 => {
                    transport.extend_from_slice(&varied);
                    protocol::ESP
                }
                3 => {
                    transport.extend_from_slice(&varied);
                    protocol::ICMP
                }
                4 => protocol::OSPF,
                _ => 200,
            };
            transport.extend_from_slice(&tail);
            if v6 {
                let mut packet = vec![0x60 | varied[0] & 15, varied[1], 0, 0];
                packet.extend_from_slice(&(transport.len() as u16).to_be_bytes());
                packet.extend_from_slice(&[number, varied[2]]);
                packet.extend_from_slice(&[0x20; 32]);
                packet.extend_from_slice(&transport);
                return packet;
            }
            let mut packet = vec![V4, varied[2], 0, 0, varied[0], varied[1], 0, 0, varied[3]];
            packet.extend_from_slice(&[number, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            packet.extend_from_slice(&transport);
            finish(packet)
        },
    )
}

proptest! {
    #[test]
    fn what_is_said_relative_comes_out_the_same(known in packet(), packet in packet()) {
        let (headers, octets) = Headers::of(&packet).unwrap();
        let (other, _) = Headers::of(&known).unwrap();
        if headers.is_like(&other) {
            let line = said(&packet, &known, 1);
            prop_assert!(line.len() < packet.len(), "{octets}");
            prop_assert_eq!(restored(&line, &known), Some(packet));
        }
    }

    #[test]
    fn any_octets_are_read_to_an_end(
        known in packet(), line in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        if let Some(packet) = restored(&line, &known) {
            // What came out is a packet of that flow.
            let headers = Headers::of(&packet).map(|(headers, _)| headers);
            let of_flow = |headers: Headers| headers.flow == Headers::of(&known).unwrap().0.flow;
            prop_assert!(headers.is_none_or(of_flow));
            prop_assert!(ip::is_packet(&packet));
        }
        let _ = Headers::of(&line);
    }
}

#[test]
fn a_builder_of_datagrams_makes_what_can_be_said() {
    let socket = |last: u8| SocketAddr::from(([10, 0, 0, last], 7));
    let built = |id: u16, payload: &[u8]| {
        let mut packet = Vec::new();
        ip::build_udp(socket(1), socket(2), 0, 64, id, 0, payload, &mut packet);
        packet
    };
    let line = said(&built(2, b"two"), &built(1, b"one"), 1);
    assert_eq!(restored(&line, &built(1, b"one")), Some(built(2, b"two")));
    assert!(line.len() <= 3 + 10, "{line:?}");
}
