//! Octets and their meaning.

use proptest::prelude::*;

use super::*;

const SESSION: Session = Session {
    sender: 0x0102_0304,
    receiver: 0xa0b0_c0d0,
};

const DATA: Data = Data {
    seq: 0x12,
    flow: 0x3456,
    request: true,
    behind: 5,
    left: Some(3),
};

/// UDP from 10.0.0.1 to 10.0.0.2 with two octets.
const V4: [u8; 30] = [
    0x45, 0, 0, 30, 0, 1, 0, 0, 64, 17, 0x66, 0xcc, 10, 0, 0, 1, 10, 0, 0, 2, // IP
    0, 7, 0, 9, 0, 10, 0, 0, 0xab, 0xcd,
];

fn v6() -> Vec<u8> {
    let mut packet = alloc::vec![0x60, 0, 0, 0, 0, 3, 17, 64];
    packet.extend([0xfd; 32]);
    packet.extend([1, 2, 3]);
    packet
}

fn framed(data: &Data, packet: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    data.emit(packet, SESSION, &mut frame).unwrap();
    frame
}

#[test]
fn a_data_message_literally() {
    let mut frame = framed(&DATA, &V4);
    assert_eq!(frame.len(), V4.len() + HEADER_OCTETS);
    // Eight octets longer, another protocol: the header checksum is less by 8 and by 236.
    assert_eq!(
        frame[..12],
        [0x45, 0, 0, 38, 0, 1, 0, 0, 64, 253, 0x65, 0xd8]
    );
    assert_eq!(frame[12..20], V4[12..20]);
    assert_eq!(frame[20..24], [0x45, 0x12, 0x34, 0x56]);
    assert_eq!(frame[26..28], [17, 4]);
    assert_eq!(frame[28..], V4[20..]);
    let read = parse(&frame, Some(SESSION));
    assert_eq!(read, Ok(Frame::Data(DATA, V4.to_vec())));
    let check = u16_at(&frame, 24);
    put_at(&mut frame, 24, [0, 0]);
    assert_eq!(check, Some(crc16(&[&SESSION.octets(), &frame])));
}

#[test]
fn a_data_message_over_ipv6_literally() {
    let data = Data {
        request: false,
        behind: 0,
        left: None,
        ..DATA
    };
    let frame = framed(&data, &v6());
    assert_eq!(frame[4..8], [0, 11, 253, 64]);
    assert_eq!(frame[40..44], [0, 0x12, 0x34, 0x56]);
    assert_eq!(frame[46..], [17, 0, 1, 2, 3]);
    assert_eq!(parse(&frame, Some(SESSION)), Ok(Frame::Data(data, v6())));
}

#[test]
fn an_acknowledgement_literally() {
    let ack = Ack {
        next: 0xfe,
        flow: 0x3456,
        congested: true,
        ranges: &[[0xff, 0xff], [1, 4]],
    };
    let mut frame = Vec::new();
    ack.emit(SESSION, &mut frame);
    assert_eq!(frame[..4], [0xc2, 0xfe, 0x34, 0x56]);
    assert_eq!(frame[6..], [0, 0, 0xff, 0xff, 1, 4]);
    assert_eq!(parse(&frame, Some(SESSION)), Ok(Frame::Ack(ack)));
    // It tells of two ranges, and no more octets follow.
    for length in 0..frame.len() {
        assert!(parse(&frame[..length], Some(SESSION)).is_err());
    }
}

#[test]
fn a_hello_tells_the_format() {
    let hello = Hello {
        incarnation: 1,
        heard: 2,
        asks: false,
        wide: false,
        format: super::super::Format::Paper,
    };
    let mut frame = Vec::new();
    hello.emit(super::super::SegmentCheck::Short, &mut frame);
    assert_eq!(frame[..3], [0x0b, 0x80, 0]);
    assert_eq!(parse(&frame, None), Ok(Frame::Hello(hello)));
    let other = super::super::parse(&frame, super::super::SegmentCheck::Short, None);
    assert_eq!(other, Ok(super::super::Frame::Hello(hello)));
}

#[test]
fn another_life_reads_nothing() {
    let frame = framed(&DATA, &V4);
    let later = Session {
        receiver: SESSION.receiver + 1,
        ..SESSION
    };
    for session in [None, Some(later)] {
        assert_eq!(parse(&frame, session), Err(FrameError::BadCheck));
    }
}

#[test]
fn what_is_no_packet_has_no_frame() {
    let mut out = alloc::vec![7];
    let long = {
        let mut packet = V4.to_vec();
        packet.resize(65_530, 0);
        packet
    };
    for packet in [&[][..], &V4[..19], &[0x4f; 30], &[0x75; 40], &long] {
        assert_eq!(DATA.emit(packet, SESSION, &mut out), None);
        assert_eq!(out, [7]);
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        seq: u8, flow: u16, request: bool, behind in 0..=SPAN_MAX,
        left in proptest::option::of(0..255u8),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let data = Data { seq, flow, request, behind, left };
        let mut packet = V4[..20].to_vec();
        packet.extend(payload);
        put_length(&mut packet, 20);
        let frame = framed(&data, &packet);
        prop_assert_eq!(parse(&frame, Some(SESSION)), Ok(Frame::Data(data, packet)));
    }

    #[test]
    fn any_octets_are_read_or_refused(
        mut frame in proptest::collection::vec(any::<u8>(), 0..80), sound: bool, at in 0..3usize,
    ) {
        if sound {
            seal(&mut frame, [0, 20, 40][at], SESSION);
        }
        match parse(&frame, Some(SESSION)) {
            Ok(Frame::Data(data, packet)) => {
                let again = framed(&data, &packet);
                prop_assert_eq!(parse(&again, Some(SESSION)), Ok(Frame::Data(data, packet)));
            }
            Ok(Frame::Ack(ack)) => {
                let mut again = Vec::new();
                ack.emit(SESSION, &mut again);
                prop_assert_eq!(again, frame.clone());
            }
            _ => {}
        }
    }

    #[test]
    fn a_damaged_octet_is_seen(place in 0..38usize, change in 1..=255u8) {
        let mut frame = framed(&DATA, &V4);
        frame[place] ^= change;
        prop_assert!(parse(&frame, Some(SESSION)).is_err());
    }
}
