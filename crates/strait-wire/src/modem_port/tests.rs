use super::*;
use alloc::vec;
use proptest::prelude::*;

fn octets(packet: ModemPacket<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    packet.emit(&mut out);
    out
}

const ID: PacketId = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

const SETUP: InitialSetup = InitialSetup {
    round_trip_ms: 15,
    latency_ms_min: 0,
    latency_ms_max: 5000,
    synchronous: true,
    asynchronous: [3, 0, 0, 0],
};

/// Packets and their octets as another implementation writes them.
const GOLDEN: [(ModemPacket<'_>, &str); 9] = [
    (
        ModemPacket::Connect { version: 12 },
        "49505501000157090c4dd8",
    ),
    (
        ModemPacket::ConnectAck { version: 12 },
        "495055020001e6220c4dd8",
    ),
    (ModemPacket::KeepAlive, "49505500000036c2"),
    (ModemPacket::Probe, "49505500000138100b65e6"),
    (ModemPacket::Arm, "4950550000013810010ed2"),
    (
        ModemPacket::Data {
            order: Order::Only,
            id: ID,
            octets: b"Hi",
        },
        "495055000010dbe20002000102030405060708090a0b4869a796",
    ),
    (
        ModemPacket::TxStatus(TxStatus::of(TxState::Flushed, 100)),
        "495055000012c6460501000000640000000000000000000000005999",
    ),
    (
        ModemPacket::Carrier {
            on: true,
            rate_bit_s: 2400,
            block_bits: 600,
        },
        "49505500000a5df608010000096000000258d760",
    ),
    (
        ModemPacket::InitialSetup(SETUP),
        "495055000012c6460a0000000f0000000000001388010300000001fb",
    ),
];

fn hex(octets: &[u8]) -> alloc::string::String {
    octets
        .iter()
        .map(|octet| alloc::format!("{octet:02x}"))
        .collect()
}

/// A.4.4, A.5.1.1, A.5.1.1.1, A.5.1.1.2, A.5.1.1.4 to A.5.1.1.10, A.5.3.
#[test]
fn packets_have_the_octets_of_another_implementation() {
    for (packet, expected) in GOLDEN {
        assert_eq!(hex(&octets(packet)), expected, "{packet:?}");
    }
}

/// A.5.3: the register starts at 0, the least significant bit goes first.
#[test]
fn the_check_is_that_of_its_loop() {
    for data in [
        &b""[..],
        b"1",
        b"123456789",
        b"\0",
        b"\xff",
        &[0x49, 0x50, 0x55, 1, 0, 1],
    ] {
        let mut crc = 0u16;
        for octet in data {
            for bit in 0..8 {
                let out = crc & 1 ^ u16::from(octet >> bit & 1);
                crc >>= 1;
                if out == 1 {
                    crc ^= 0x9299;
                }
            }
        }
        assert_eq!(CRC.checksum(data), crc);
    }
    assert_eq!(CRC.checksum(b"123456789"), 0x7d01);
}

const fn data(order: Order, octets: &[u8]) -> ModemPacket<'_> {
    ModemPacket::Data {
        order,
        id: ID,
        octets,
    }
}

const MORE: [ModemPacket<'_>; 8] = [
    data(Order::First, b""),
    data(Order::Continuation, b"more"),
    data(Order::Last, &[7; DATA_OCTETS_MAX]),
    ModemPacket::Start,
    ModemPacket::RequestStatus,
    ModemPacket::Nack {
        cause: NackCause::SecondFirst,
        id: ID,
    },
    ModemPacket::TxSetup {
        rate_bit_s: 2400,
        block_bits: 600,
    },
    ModemPacket::AbortRx,
];

/// The command and the rest of a payload, without a header.
fn payload(packet: ModemPacket<'_>) -> Vec<u8> {
    let octets = octets(packet);
    octets[HEADER_OCTETS..octets.len() - CRC_OCTETS].to_vec()
}

/// Tables A-I to A-VI, Figures, by literal octets.
#[test]
fn payloads_have_these_octets() {
    assert_eq!(octets(ModemPacket::Error)[3..6], [0xff, 0, 0]);
    assert_eq!(payload(ModemPacket::Arm), [1]);
    assert_eq!(payload(ModemPacket::Start), [2]);
    assert_eq!(payload(ModemPacket::RequestStatus), [3]);
    assert_eq!(payload(ModemPacket::AbortRx), [6]);
    for (order, octet) in [
        (Order::First, 1),
        (Order::Only, 2),
        (Order::Continuation, 3),
        (Order::Last, 4),
    ] {
        assert_eq!(payload(data(order, b""))[..2], [0, octet]);
    }
    for (cause, octet) in [
        (NackCause::NotArmed, 0),
        (NackCause::Underrun, 1),
        (NackCause::NoFirst, 2),
        (NackCause::SecondFirst, 3),
    ] {
        let nack = payload(ModemPacket::Nack { cause, id: ID });
        assert_eq!(nack, [&[4, octet][..], &ID].concat());
    }
    for (state, octet) in [
        (TxState::Flushed, 1),
        (TxState::ArmedNotReady, 2),
        (TxState::Armed, 3),
        (TxState::Started, 4),
        (TxState::Draining, 5),
        (TxState::DrainingForced, 6),
    ] {
        let status = TxStatus {
            state,
            free_octets: 0x0102_0304,
            queued_octets: 5,
            critical_ms: 6,
            critical_octets: 7,
        };
        assert_eq!(
            payload(ModemPacket::TxStatus(status)),
            [5, octet, 1, 2, 3, 4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7]
        );
    }
    assert_eq!(payload(MORE[6]), [9, 0, 0, 0x09, 0x60, 0, 0, 0x02, 0x58]);
    assert!(octets(ModemPacket::Invalid).is_empty());
}

/// A.5.1.1, A.5.1.1.5: 4096 octets, 4086 of payload, 4072 of data.
#[test]
fn the_longest_packet_has_4096_octets() {
    assert_eq!((PAYLOAD_OCTETS_MAX, DATA_OCTETS_MAX), (4086, 4072));
    let long = vec![1; DATA_OCTETS_MAX + 1];
    assert_eq!(octets(data(Order::Only, &long)).len(), 4096);
}

/// A.5.1.1.3: no payload, no check of it.
#[test]
fn without_a_payload_there_is_no_second_check() {
    assert_eq!(octets(ModemPacket::KeepAlive).len(), HEADER_OCTETS);
}

#[test]
fn what_is_written_reads_back_in_any_pieces() {
    let all: Vec<ModemPacket<'_>> = GOLDEN.iter().map(|it| it.0).chain(MORE).collect();
    let stream: Vec<u8> = all.iter().copied().flat_map(octets).collect();
    for piece in [1, 3, 1000, stream.len()] {
        let (mut reader, mut count) = (ModemReader::default(), 0);
        for chunk in stream.chunks(piece) {
            reader.feed(chunk, |packet| {
                assert_eq!(packet, all[count]);
                count += 1;
            });
        }
        assert_eq!((count, reader.dropped), (all.len(), 0));
    }
}

fn read(stream: &[u8]) -> (Vec<&'static str>, u64) {
    let mut reader = ModemReader::default();
    let mut seen = Vec::new();
    reader.feed(stream, |packet| {
        seen.push(match packet {
            ModemPacket::Arm => "arm",
            ModemPacket::KeepAlive => "life",
            ModemPacket::Invalid => "invalid",
            _ => "other",
        });
    });
    (seen, reader.dropped)
}

/// A.5.1.2.3, A.5.3: what fails a check is as if it had never come.
#[test]
fn a_packet_with_a_wrong_check_is_dropped_and_the_next_one_read() {
    let arm = octets(ModemPacket::Arm);
    let mut payload = octets(data(Order::Only, b"IPU"));
    let last = payload.len() - 1;
    payload[last] ^= 1;
    assert_eq!(read(&[&payload[..], &arm].concat()), (vec!["arm"], 1));
    let mut header = arm.clone();
    header[6] ^= 1;
    let (seen, dropped) = read(&[&header[..], &arm].concat());
    assert_eq!(seen, ["arm"]);
    assert!(dropped > 0);
    // So is what stands before a preamble.
    assert_eq!(read(&[b"HELLO?IP", &arm[..]].concat()), (vec!["arm"], 1));
}

/// Tables A-I and A-II: types and commands that aren't there, and payloads of another length.
#[test]
fn what_the_interface_does_not_have_is_invalid() {
    let packet = |kind: u8, payload: &[u8]| {
        let mut out = vec![0x49, 0x50, 0x55, kind];
        out.extend((payload.len() as u16).to_be_bytes());
        out.extend(CRC.checksum(&out).to_be_bytes());
        out.extend(payload);
        if !payload.is_empty() {
            out.extend(CRC.checksum(payload).to_be_bytes());
        }
        read(&out).0
    };
    for kind in 3..0xff {
        assert_eq!(packet(kind, &[]), ["invalid"]);
    }
    for command in (12..=255).chain([7]) {
        assert_eq!(packet(0, &[command]), ["invalid"]);
    }
    for wrong in [
        &[0][..],
        &[0, 1],
        &[0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0],
        &[4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[5, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[8, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        &[9],
        &[10],
    ] {
        assert_eq!(packet(0, wrong), ["invalid"], "{wrong:?}");
    }
    assert_eq!(packet(1, &[]), ["invalid"]);
    assert_eq!(packet(2, &[12, 12]), ["invalid"]);
    // A payload that is longer than any.
    let mut long = vec![0x49, 0x50, 0x55, 0, 0x0f, 0xf7];
    long.extend(CRC.checksum(&long).to_be_bytes());
    assert_eq!(read(&long).0, ["invalid"]);
}

/// Tables A-VII and A-VIII: eight data bits, or none of its own.
#[test]
fn octets_need_a_synchronous_modem_or_eight_data_bits() {
    let setup = |synchronous, bits| InitialSetup {
        synchronous,
        asynchronous: [bits, 0, 0, 0],
        ..SETUP
    };
    assert!(setup(true, 0).carries_octets());
    assert!(setup(false, 3).carries_octets());
    assert!(!setup(false, 2).carries_octets());
}

proptest! {
    #[test]
    fn no_octets_make_it_fail(octets in prop::collection::vec(any::<u8>(), 0..64), kind: u8) {
        let _ = ModemPacket::parse(&octets);
        read(&octets);
        // Behind a header that is right.
        let mut packet = vec![0x49, 0x50, 0x55, kind, 0, octets.len() as u8];
        packet.extend(CRC.checksum(&packet).to_be_bytes());
        packet.extend(&octets);
        packet.extend(CRC.checksum(&octets).to_be_bytes());
        let is_packet = matches!(ModemPacket::parse(&packet), Parsed::Packet(..));
        prop_assert!(is_packet);
    }
}
