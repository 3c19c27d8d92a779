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
        ordered: false,
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
        wide: false,
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
fn a_hello_with_a_check_of_another_length_is_known_for_one() {
    const LONG: SegmentCheck = SegmentCheck::Long;
    for (own, other) in [(SHORT, LONG), (LONG, SHORT)] {
        let mut octets = Vec::new();
        let hello = Hello {
            incarnation: 7,
            heard: 0,
            asks: true,
            wide: false,
            format: Format::Strait,
        };
        hello.emit(other, &mut octets);
        let told = Err(FrameError::OtherCheck(Format::Strait));
        assert_eq!(parse(&octets, own, None), told);
        octets[3] ^= 1;
        assert_eq!(parse(&octets, own, None), Err(FrameError::BadCheck));
    }
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
fn an_order_of_another_node_stands_in_the_place_of_a_distance() {
    let told = |header: DataHeader| {
        let mut read = DataHeader::with_rest(header.seq, header.serial, &header.rest()).unwrap();
        read.read_ordered();
        read
    };
    let mut header = HEADER;
    header.ingress.ordered = true;
    let read = told(header);
    assert_eq!((read.order, read.ingress), (Order::Any, header.ingress));
    for (distance, order) in [
        (29, Order::After(29)),
        (30, Order::AfterAll),
        (31, Order::AfterAll),
    ] {
        header = HEADER;
        header.order = Order::after(distance).beside_ordered();
        assert_eq!(told(header).order, order, "{distance}");
    }
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
    let came: Vec<u16> = (0..200).filter(|it| map.tells(*it) == Some(true)).collect();
    assert_eq!(came, [1, 96]);
}

#[test]
fn a_map_tells_nothing_of_what_is_cut_off() {
    let map = |last, words| Map::of(last, words, |distance| distance == last || distance == 1);
    let told = |map: Map| [1, 32, 33, 64, 65].map(|distance| map.tells(distance));
    let [yes, no] = [Some(true), Some(false)];
    assert_eq!(told(map(64, 2)), [yes, no, no, yes, no]);
    assert_eq!(told(map(65, 2)), [yes, no, no, no, None]);
    assert_eq!(told(map(65, 0)), [None; 5]);
    let all = map(Map::BITS_MAX, Map::WORDS_MAX);
    assert_eq!((all.is_cut(), all.tells(Map::BITS_MAX)), (false, yes));
    assert!(map(Map::BITS_MAX + 1, usize::MAX).is_cut());
}

#[test]
fn a_map_that_not_every_end_reads_literally() {
    let content = |map| Content {
        ack: Some(Ack {
            next: 0x0a0b,
            newest: 0x0c0d,
            map,
            prompt: true,
        }),
        ..Content::default()
    };
    let cut = content(Map::of(33, 1, |distance| distance != 2));
    let long = content(Map::of(97, 64, |distance| distance == 97));
    let none = content(Map::of(1, 0, |_| true));
    let head = [0xc4, 0x0a, 0x0b, 0x0c, 0x0d];
    let words = |words: [u8; 4]| [[0; 4], [0; 4], [0; 4], words].concat();
    for (content, map) in [
        (cut, [&[0x81][..], &[0xff, 0xff, 0xff, 0xfd]].concat()),
        (long, [&[0x04][..], &words([0, 0, 0, 1])].concat()),
        (none, vec![0x80]),
    ] {
        let mut octets = Vec::new();
        content.emit(SHORT, SESSION, &mut octets);
        assert_eq!(body(&octets), [&head[..], &map].concat());
        let parsed = parse(&octets, SHORT, Some(SESSION));
        assert_eq!(parsed, Ok(Frame::Content(content)));
    }
}

#[test]
fn the_longest_map_fits_the_frame_that_has_room_for_it() {
    for (frame, words) in [(1534, 2), (1535, 3), (1538, 3), (1539, 4), (9000, 64)] {
        assert_eq!(map_words_max(frame, 1500), words, "{frame}");
        let content = Content {
            ack: Some(Ack {
                next: 0,
                newest: 0,
                map: Map::of(Map::BITS_MAX, words, |_| true),
                prompt: false,
            }),
            stop: Some(1),
            base: Some(1),
            data: Some((HEADER, &[0x60; 1500])),
        };
        let mut octets = Vec::new();
        content.emit(SegmentCheck::Long, SESSION, &mut octets);
        assert!(octets.len() <= frame);
        let alone = Content {
            data: None,
            ..content
        };
        octets.clear();
        alone.emit(SegmentCheck::Long, SESSION, &mut octets);
        assert!(octets.len() <= CONTROL_OCTETS_MAX);
    }
    assert_eq!([map_words_max(1499, 1500), map_words_max(0, 0)], [0, 0]);
}

fn content() -> impl Strategy<Value = (Content<'static>, Vec<u8>)> {
    let ack = (
        any::<u16>(),
        any::<u16>(),
        any::<u128>(),
        0..3000u16,
        0..80usize,
        any::<bool>(),
    );
    let ack = ack.prop_map(|(next, newest, bits, last, words, prompt)| Ack {
        next,
        newest,
        map: match last {
            0..1500 => Map::new(bits),
            _ => Map::of(last, words, |it| it == last || bits >> (it % 128) & 1 == 1),
        },
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
                ordered: false,
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
        let narrow = content.ack.is_none_or(|ack| ack.map.is_narrow());
        let most = if narrow { OVERHEAD_OCTETS_MAX } else { CONTROL_OCTETS_MAX + 10 };
        prop_assert!(octets.len() <= packet.len() + most);
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

/// What stood in two frames behind their serials.
const PARTS: [&[u8]; 2] = [
    &[0xa3, 1, 2, 3, 4, 5, 0x45],
    &[0xa0, 1, 2, 3, 4, 6, 0x45, 7],
];

fn parity_of(parts: &[&[u8]], check: SegmentCheck) -> ParitySum {
    let mut sum = ParitySum::default();
    parts.iter().for_each(|part| sum.add(check, &[part]));
    sum
}

#[test]
fn a_parity_literally() {
    let sum = parity_of(&PARTS, SHORT);
    let parity = Parity {
        tag: 5,
        first: 0x1122,
        others: 1 << 31 | 1,
        serial: 0x3344,
        sum: sum.octets(),
    };
    let mut octets = Vec::new();
    parity.emit(SHORT, SESSION, &mut octets);
    let fixed = [0x0c, 0xa0, 0x11, 0x22, 0x33, 0x44, 0x80, 0, 0, 1];
    assert_eq!(body(&octets)[..10], fixed);
    // Lengths 7 and 8, checks, and what stood there.
    let [one, two] = PARTS.map(|part| crate::hash::hash64(0, part).to_be_bytes());
    let sum = [
        0,
        7 ^ 8,
        one[0] ^ two[0],
        one[1] ^ two[1],
        3,
        0,
        0,
        0,
        0,
        5 ^ 6,
        0,
        7,
    ];
    assert_eq!(body(&octets)[10..], sum);
    let parsed = parse(&octets, SHORT, Some(SESSION));
    assert_eq!(parsed, Ok(Frame::Parity(parity)));
    let numbers: Vec<u16> = parity.numbers().collect();
    assert_eq!(numbers, [0x1122, 0x1123, 0x1142]);
    assert_eq!(parse(&octets, SHORT, None), Err(FrameError::BadCheck));
}

#[test]
fn a_parity_that_nobody_sends_is_invalid() {
    for wrong in [
        // Too short for a sum; bits that aren't used.
        vec![0x0c, 0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        vec![0x0c, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ] {
        let mut octets = wrong.clone();
        SHORT.append(check_of(SHORT, Some(SESSION), &octets), &mut octets);
        let parsed = parse(&octets, SHORT, Some(SESSION));
        assert_eq!(parsed, Err(FrameError::Invalid), "{wrong:x?}");
    }
}

#[test]
fn what_is_left_of_a_sum_is_the_missing_part() {
    for check in [SHORT, SegmentCheck::Long] {
        let sum = parity_of(&PARTS, check);
        assert_eq!(sum.single(check), None, "two of them");
        for (there, missing) in [(0, 1), (1, 0)] {
            let mut sum = sum.clone();
            sum.add(check, &[&PARTS[there][..3], &PARTS[there][3..]]);
            assert_eq!(sum.single(check), Some(PARTS[missing]));
        }
        let mut sum = sum;
        sum.add(check, &[b"another part"]);
        assert_eq!(sum.single(check), None);
    }
    // Three as long as each other, of which one isn't what went into the sum.
    for check in [SHORT, SegmentCheck::Long] {
        let mut sum = parity_of(&[b"one", b"two", b"six"], check);
        sum.add(check, &[b"0ne"]);
        sum.add(check, &[b"two"]);
        assert_eq!(sum.single(check), None);
    }
    // All of them, and nothing at all.
    assert_eq!(parity_of(&[PARTS[0], PARTS[0]], SHORT).single(SHORT), None);
    assert_eq!(ParitySum::default().single(SHORT), None);
}

proptest! {
    #[test]
    fn any_part_is_made_again(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..80), 1..8),
        missing: proptest::sample::Index,
        long: bool,
    ) {
        let check = if long { SegmentCheck::Long } else { SHORT };
        let missing = missing.index(parts.len());
        let mut sum = ParitySum::default();
        parts.iter().for_each(|part| sum.add(check, &[part]));
        for (place, part) in parts.iter().enumerate() {
            if place != missing {
                sum.add(check, &[part]);
            }
        }
        prop_assert_eq!(sum.single(check), Some(&parts[missing][..]));
    }

    #[test]
    fn any_parity_is_judged(octets: Vec<u8>, long: bool) {
        let check = if long { SegmentCheck::Long } else { SHORT };
        let mut frame = vec![0x0c];
        frame.extend(octets);
        check.append(check_of(check, Some(SESSION), &frame), &mut frame);
        if let Ok(Frame::Parity(parity)) = parse(&frame, check, Some(SESSION)) {
            let mut again = Vec::new();
            parity.emit(check, SESSION, &mut again);
            prop_assert_eq!(&again, &frame);
            let _ = ParitySum::of(&parity).single(check);
        }
    }
}
