//! D_PDUs as octets: the vectors of Annex C and others that an independent decoder agrees with.

use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter_map(|digit| (digit as char).to_digit(16).map(|value| value as u8))
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

const LEFT: Address = Address::new(0x0123_4567);
const RIGHT: Address = Address::new(0x0123_4568);

/// What a link request is in Annex B, as a D_PDU.
fn request(to: u32, from: u32) -> DPdu<'static> {
    DPdu {
        eow: 0,
        eot: 2,
        to: Address::new(to),
        from: Address::new(from),
        body: Body::NonArq(NonArq {
            expedited: true,
            c_pdu: 0,
            in_order: false,
            group: false,
            size: 1,
            offset: 0,
            window: 20,
            segment: Segment::whole(&[0x10]),
        }),
    }
}

fn plain(to: Address, from: Address, body: Body<'_>) -> DPdu<'_> {
    DPdu {
        eow: 0,
        eot: 0,
        to,
        from,
        body,
    }
}

#[test]
fn d_pdus_are_these_octets() {
    let (a, b) = (Address::new(0x0121_2121), Address::new(0x0212_1212));
    let warning = |received, fault| Body::Warning(Warning::of(received, fault));
    let hello = b"\x00\x00\x99\x00HELLO";
    let data = Data {
        start: true,
        end: true,
        in_order: false,
        dropped: false,
        upper: true,
        lower: true,
        number: 0,
        segment: Segment::whole(hello),
    };
    let reset = Reset {
        full: true,
        frame: 7,
        ..Reset::default()
    };
    let ack = Ack {
        lower: 1,
        selective: &[],
    };
    for (d_pdu, octets) in [
        (
            plain(Address::new(5), Address::new(100), warning(0, 2)),
            "90EB F0000047 0564 02 5F1E",
        ),
        (
            request(RIGHT.bits(), LEFT.bits()),
            "90EB 800002EF 12345681234567 000100000100000014 20E8 10 AA9C741E",
        ),
        (
            request(6, 5),
            "90EB 8000022F 65 000100000100000014 D175 10 AA9C741E",
        ),
        (
            DPdu {
                eot: 2,
                ..plain(RIGHT, LEFT, Body::Data(data, None))
            },
            "90EB 000002E9 12345681234567 CC0900 9EE6 0000990048454C4C4F 619DE6D7",
        ),
        (plain(a, b, warning(0, 2)), ""),
        (plain(a, b, Body::Ack(ack)), ""),
        (plain(a, b, Body::Reset(reset)), ""),
    ] {
        let mut out = Vec::new();
        d_pdu.put(&mut out);
        if !octets.is_empty() {
            assert_eq!(out, hex(octets));
        }
        assert_eq!(parse(&out, false), Ok((d_pdu, out.len())));
    }
}

#[test]
fn others_octets_are_read() {
    let warning = hex("90EB F00000E7 12121212121212 02 98C9");
    let (read, octets) = parse(&warning, false).expect("a warning");
    assert_eq!(octets, warning.len());
    assert_eq!(read.body, Body::Warning(Warning::of(0, 2)));
    let ack = hex("90EB 100000E7 12121212121212 01 63D1");
    let (read, _) = parse(&ack, false).expect("an acknowledgement");
    assert_eq!(
        read.body,
        Body::Ack(Ack {
            lower: 1,
            selective: &[]
        })
    );
    let reset = hex("90EB 300000E9 12121212121212 080007 7A84");
    let (read, _) = parse(&reset, false).expect("a reset");
    let full = Reset {
        full: true,
        frame: 7,
        ..Reset::default()
    };
    assert_eq!(read.body, Body::Reset(full));
}

/// Octets that an independent implementation wrote: read, and written again, they are the same.
/// `tshark` calls each right that is long enough for it.
#[test]
fn octets_of_another_implementation_are_read_and_written_alike() {
    let bodies = [
        "90EB 012307C9 2345671ABCD0 A808C8 5539 0000990070656572 7DB50F55",
        "90EB 00000149 1203 540003 25F3 00000000",
        "90EB 10000349 1203 FA8101 1353",
        "90EB 200009CB 2345671ABCD0 C008110522 3301 0000990070656572 7DB50F55",
        "90EB 50000247 1203 02 1B11",
        "90EB 65410248 1203 0221 ACE4",
        "90EB 7000FFCF 2345671ABCD0 AC08BC00300028012C 8BD5 0000990070656572 7DB50F55",
        "90EB 8000044F 1203 F001FF000100000005 75A3 11 6409DED0",
        "90EB F0000147 1203 90 BE31",
    ]
    .map(|text| {
        let octets = hex(text);
        let (d_pdu, read) = parse(&octets, false).expect(text);
        let mut out = Vec::new();
        d_pdu.put(&mut out);
        assert_eq!((&out, read), (&octets, octets.len()), "{text}");
        alloc::format!("{:?}", d_pdu.body)
    });
    // What some of them say.
    for (place, part) in [
        (
            0,
            "start: true, end: false, in_order: true, dropped: false, upper: true, lower: false",
        ),
        (2, "Ack(Ack { lower: 250, selective: [129, 1] })"),
        (
            6,
            "c_pdu: 2748, in_order: true, group: true, size: 48, offset: 40, window: 300",
        ),
        (7, "expedited: true, c_pdu: 4095"),
    ] {
        assert!(bodies[place].contains(part), "{}", bodies[place]);
    }
}

#[test]
fn a_damaged_segment_leaves_the_header_readable() {
    let mut out = Vec::new();
    request(6, 5).put(&mut out);
    let last = out.len() - 1;
    out[last] ^= 1;
    let (read, octets) = parse(&out, false).expect("its header is right");
    assert_eq!(octets, out.len());
    assert_eq!(
        read.body.segment().map(|segment| segment.intact),
        Some(false)
    );
    // And so does one that the end of the transmission cut off.
    assert_eq!(parse(&out[..last], false), Err(NoDPdu::Incomplete));
    let (read, octets) = parse(&out[..last], true).expect("its header is right");
    assert_eq!(octets, last);
    assert_eq!(
        read.body.segment().map(|segment| segment.intact),
        Some(false)
    );
    // A header that is cut off is none.
    assert_eq!(parse(&out[..12], true), Err(NoDPdu::Incomplete));
    out[5] ^= 1;
    assert_eq!(parse(&out, false), Err(NoDPdu::Check));
    out[5] ^= 1;
    out[7] ^= 1;
    assert_eq!(parse(&out, false), Err(NoDPdu::Check));
}

/// C.3.2.11 (1): each D_PDU that can hold a segment ends with its check, also without a segment, as
/// when a C_PDU is given up (C.3.3 (10)). Octets as an independent decoder reads them.
#[test]
fn an_empty_segment_has_its_check_too() {
    let given_up = Data {
        start: true,
        end: true,
        in_order: false,
        dropped: true,
        upper: false,
        lower: false,
        number: 5,
        segment: Segment::whole(&[]),
    };
    let d_pdu = DPdu {
        eot: 2,
        ..plain(RIGHT, LEFT, Body::Data(given_up, None))
    };
    let mut out = Vec::new();
    d_pdu.put(&mut out);
    let octets = hex("90EB 000002E9 12345681234567 D00005 FDB4 00000000");
    assert_eq!(out, octets);
    assert_eq!(parse(&octets, false), Ok((d_pdu, 22)));
    // The check may be on its way; one that isn't there takes nothing of what follows.
    for short in 18..22 {
        assert_eq!(parse(&octets[..short], false), Err(NoDPdu::Incomplete));
        assert_eq!(parse(&octets[..short], true), Ok((d_pdu, 18)));
    }
    for next in ["90EB0000", "00000001", "00000100"] {
        let followed = [&octets[..18], &hex(next)].concat();
        assert_eq!(parse(&followed, false), Ok((d_pdu, 18)));
    }
}

/// Any D_PDU's own part.
fn any_body() -> impl Strategy<Value = (u8, [bool; 6], u16, Vec<u8>, [u16; 3])> {
    let octets = proptest::collection::vec(any::<u8>(), 0..1024);
    (
        0u8..12,
        any::<[bool; 6]>(),
        any::<u16>(),
        octets,
        any::<[u16; 3]>(),
    )
}

proptest! {
    #[test]
    fn what_is_put_is_read_again(
        to in 0u32..0x1000_0000,
        from in 0u32..0x1000_0000,
        eow in 0u16..0x1000,
        eot: u8,
        (kind, flags, number, octets, words) in any_body(),
    ) {
        let segment = Segment::whole(&octets);
        let short = &octets[..octets.len().min(SELECTIVE_OCTETS_MAX)];
        let [start, end, in_order, dropped, upper, lower] = flags;
        let data = |number| Data { start, end, in_order, dropped, upper, lower, number, segment };
        let ack = Ack { lower: words[0] as u8, selective: short };
        let body = match kind {
            0 => Body::Data(data(number & 255), None),
            1 => Body::Data(data(number & 255), Some(ack)),
            2 => Body::Ack(ack),
            3 => Body::ExpeditedAck(ack),
            4 => Body::Reset(Reset {
                full: start, request: end, command: in_order, ack: dropped,
                lower: words[0] as u8, frame: words[1] as u8,
            }),
            5 => Body::ExpeditedData {
                start, end, c_pdu: number as u8 & 15, number: words[0] as u8, segment,
            },
            6 => Body::Management {
                extended: start, valid: end, ack: in_order, frame: number as u8, message: short,
            },
            7 | 8 => Body::NonArq(NonArq {
                expedited: kind == 8, c_pdu: number & 0xfff, in_order, group: false,
                size: words[0], offset: words[1], window: words[2], segment,
            }),
            9 => Body::LongData(data(number)),
            10 => Body::LongAck(LongAck { lower: number, first: words[0], selective: segment }),
            _ => Body::Warning(Warning::of(number as u8 & 15, words[0] as u8 & 15)),
        };
        let d_pdu = DPdu { eow, eot, to: Address::new(to), from: Address::new(from), body };
        let mut out = Vec::new();
        d_pdu.put(&mut out);
        prop_assert!(out.len() <= OCTETS_MAX);
        prop_assert_eq!(parse(&out, false), Ok((d_pdu, out.len())));
        for cut in [out.len() - 1, out.len() / 2, 1] {
            prop_assert_eq!(parse(&out[..cut], false), Err(NoDPdu::Incomplete));
        }
    }

    #[test]
    fn any_octets_are_read_without_harm(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ended: bool,
    ) {
        for (place, octet) in bytes.iter_mut().zip(SYNC) {
            *place = octet;
        }
        let check = |bytes: &[u8]| {
            let sizes = usize::from(*bytes.get(5)?);
            let end = 2 + (sizes >> 5) + (sizes & 31);
            Some((end, crc16(bytes.get(2..end.checked_sub(2)?)?)))
        };
        if let Some((end, check)) = check(&bytes) && end <= bytes.len() {
            bytes[end - 2..end].copy_from_slice(&check.to_le_bytes());
        }
        if let Ok((_, octets)) = parse(&bytes, ended) {
            prop_assert!(octets <= bytes.len());
        }
    }
}
