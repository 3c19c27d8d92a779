//! Octets and their meaning.

use alloc::vec;
use core::time::Duration;

use proptest::prelude::*;

use super::*;

const SESSION: Session = Session {
    sender: 0x0102_0304,
    receiver: 0xa0b0_c0d0,
};
const SHORT: SegmentCheck = SegmentCheck::Short;

const HEADER: DataHeader = DataHeader {
    seq: 0x1122,
    serial: 0x3344,
    tag: 5,
    order: Order::After(3),
    lifetime: Lifetime::from_code(0x12),
    ingress: Ingress {
        node: 0x5566,
        serial: 0x7788,
    },
};

/// A frame without its check.
fn body(octets: &[u8]) -> &[u8] {
    &octets[..octets.len() - 2]
}

#[test]
fn a_hello_literally() {
    let hello = Hello {
        incarnation: 0x0102_0304,
        heard: 0xa0b0_c0d0,
        asks: true,
        format: Format::Strait,
    };
    let mut octets = Vec::new();
    hello.emit(SHORT, &mut octets);
    let expected = [0x0b, 2, 1, 1, 2, 3, 4, 0xa0, 0xb0, 0xc0, 0xd0];
    assert_eq!(body(&octets), expected);
    assert_eq!(parse(&octets, SHORT, None), Ok(Frame::Hello(hello)));
    // Known and unknown sessions alike.
    assert_eq!(
        parse(&octets, SHORT, Some(SESSION)),
        Ok(Frame::Hello(hello))
    );
    octets[4] ^= 1;
    assert_eq!(parse(&octets, SHORT, None), Err(FrameError::BadCheck));
}

#[test]
fn a_packet_alone_literally() {
    let content = Content {
        data: Some((HEADER, &[0x45, 0xff])),
        ..Content::default()
    };
    let mut octets = Vec::new();
    content.emit(SHORT, SESSION, &mut octets);
    let expected = [
        0xa0, 0x11, 0x22, 0x33, 0x44, 0xa3, 0x12, 0x55, 0x66, 0x77, 0x88, 0x45, 0xff,
    ];
    assert_eq!(body(&octets), expected);
    let parsed = parse(&octets, SHORT, Some(SESSION));
    assert_eq!(parsed, Ok(Frame::Content(content)));
}

#[test]
fn all_that_a_frame_can_hold_literally() {
    let ack = Ack {
        next: 0x0a0b,
        newest: 0x0c0d,
        map: Map::new(1 << 32 | 2),
        prompt: true,
    };
    let content = Content {
        ack: Some(ack),
        stop: Some(0x81),
        base: Some(0x1020),
        data: Some((HEADER, &[0x60])),
    };
    let mut octets = Vec::new();
    content.emit(SHORT, SESSION, &mut octets);
    let expected = [
        0xfb, 0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 2, 0, 0, 0, 1, 0x81, 0x10, 0x20, 0x11, 0x22, 0x33,
        0x44, 0xa3, 0x12, 0x55, 0x66, 0x77, 0x88, 0x60,
    ];
    assert_eq!(body(&octets), expected);
    let parsed = parse(&octets, SHORT, Some(SESSION));
    assert_eq!(parsed, Ok(Frame::Content(content)));
    assert!(octets.len() - 1 < OVERHEAD_OCTETS_MAX);
}

#[test]
fn a_frame_of_another_life_of_either_end_fails_its_check() {
    let mut octets = Vec::new();
    Content::default().emit(SHORT, SESSION, &mut octets);
    assert!(parse(&octets, SHORT, Some(SESSION)).is_ok());
    for other in [
        Session {
            sender: 7,
            ..SESSION
        },
        Session {
            receiver: 7,
            ..SESSION
        },
        Session {
            sender: SESSION.receiver,
            receiver: SESSION.sender,
        },
    ] {
        let parsed = parse(&octets, SHORT, Some(other));
        assert_eq!(parsed, Err(FrameError::BadCheck));
    }
    assert_eq!(parse(&octets, SHORT, None), Err(FrameError::BadCheck));
}

#[test]
fn what_nobody_sends_is_invalid() {
    for wrong in [
        // No flag of content; a map, and a prompt, without acknowledgement; too short; octets
        // behind the last part.
        vec![0x45, 0, 0],
        vec![0x84, 0, 0, 0, 1],
        vec![0xc0],
        vec![0xa0, 1, 2, 3],
        vec![0x82],
        vec![0x81, 1],
        vec![0x80, 1],
    ] {
        let mut octets = wrong.clone();
        let value = check_of(SHORT, Some(SESSION), &octets);
        SHORT.append(value, &mut octets);
        let parsed = parse(&octets, SHORT, Some(SESSION));
        assert_eq!(parsed, Err(FrameError::Invalid), "{wrong:x?}");
    }
    assert_eq!(parse(&[], SHORT, None), Err(FrameError::Invalid));
    assert_eq!(parse(&[0x80], SHORT, None), Err(FrameError::Invalid));
}

#[test]
fn lifetimes_are_rounded_down() {
    let left = |ms: u64| Lifetime::of(Duration::from_millis(ms)).left();
    let ms = |ms: u64| Some(Duration::from_millis(ms));
    assert_eq!(left(9), ms(0));
    assert_eq!(left(10), ms(10));
    assert_eq!(left(319), ms(310));
    assert_eq!(left(320), ms(320));
    assert_eq!(left(339), ms(320));
    assert_eq!(left(60_000), ms(58_880));
    // The highest code but one is the longest limit.
    assert_eq!(left(u64::MAX), ms(30 * (1 << 14) * 10));
    assert_eq!(Lifetime::UNLIMITED.left(), None);
}

#[test]
fn a_map_has_as_many_words_as_it_needs() {
    for (bits, words) in [
        (0, 0),
        (1, 1),
        (1 << 31, 1),
        (1 << 32, 2),
        (1 << 95, 3),
        (1 << 96, 0),
    ] {
        assert_eq!(Map::new(bits).words(), words, "{bits:x}");
    }
    let map = Map::new(1 | 1 << 95);
    let came: Vec<u16> = (0..200).filter(|distance| map.has(*distance)).collect();
    assert_eq!(came, [1, 96]);
}

fn content() -> impl Strategy<Value = (Content<'static>, Vec<u8>)> {
    let ack = (any::<u16>(), any::<u16>(), any::<u128>(), any::<bool>());
    let ack = ack.prop_map(|(next, newest, bits, prompt)| Ack {
        next,
        newest,
        map: Map::new(bits),
        prompt,
    });
    let numbers = (
        any::<u16>(),
        any::<u16>(),
        0..8u8,
        0..40u16,
        any::<u8>(),
        any::<u32>(),
    );
    let header = numbers.prop_map(
        |(seq, serial, tag, distance, lifetime, origin)| DataHeader {
            seq,
            serial,
            tag,
            order: Order::after(distance),
            lifetime: Lifetime::from_code(lifetime),
            ingress: Ingress {
                node: (origin >> 16) as u16,
                serial: origin as u16,
            },
        },
    );
    let parts = (
        proptest::option::of(ack),
        any::<Option<u8>>(),
        any::<Option<u16>>(),
        proptest::option::of(header),
        proptest::collection::vec(any::<u8>(), 0..60),
    );
    parts.prop_map(|(ack, stop, base, header, packet)| {
        let content = Content {
            ack,
            stop,
            base,
            data: header.map(|header| (header, &[][..])),
        };
        (content, packet)
    })
}

proptest! {
    #[test]
    fn what_is_sent_is_read(parts in content(), long: bool) {
        let (mut content, packet) = parts;
        content.data = content.data.map(|(header, _)| (header, &packet[..]));
        let check = if long { SegmentCheck::Long } else { SHORT };
        let mut octets = Vec::new();
        content.emit(check, SESSION, &mut octets);
        prop_assert!(octets.len() <= packet.len() + OVERHEAD_OCTETS_MAX);
        prop_assert_eq!(parse(&octets, check, Some(SESSION)), Ok(Frame::Content(content)));
    }

    #[test]
    fn any_octets_are_judged(octets: Vec<u8>, right: bool) {
        let mut octets = octets;
        if right {
            let value = check_of(SHORT, Some(SESSION), &octets);
            SHORT.append(value, &mut octets);
        }
        let _ = parse(&octets, SHORT, Some(SESSION));
    }
}
