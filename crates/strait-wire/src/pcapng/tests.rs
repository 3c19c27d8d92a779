use super::*;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn blocks(bytes: &[u8]) -> Vec<Result<Block<'_>, PcapngError>> {
    Reader::new(bytes).collect()
}

#[test]
fn literal_section() {
    let mut out = vec![];
    section(&mut out, "strait");
    assert_eq!(
        out,
        [
            0x0a, 0x0d, 0x0d, 0x0a, 44, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 4, 0, 6, 0, b's', b't', b'r', b'a', b'i', b't', 0,
            0, 0, 0, 0, 0, 44, 0, 0, 0
        ]
    );
}

#[test]
fn literal_interface() {
    let mut out = vec![];
    interface(&mut out, linktype::RAW, 65_535, "lan");
    assert_eq!(
        out,
        [
            1, 0, 0, 0, 40, 0, 0, 0, 101, 0, 0, 0, 0xff, 0xff, 0, 0, 2, 0, 3, 0, b'l', b'a', b'n',
            0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0
        ]
    );
}

#[test]
fn literal_packet() {
    let mut out = vec![];
    packet(
        &mut out,
        1,
        0x0000_0001_8000_0002,
        &[0x45, 0, 0, 1, 7],
        20,
        Some("lost"),
    );
    assert_eq!(
        out,
        [
            6, 0, 0, 0, 52, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0x80, 5, 0, 0, 0, 20, 0, 0,
            0, 0x45, 0, 0, 1, 7, 0, 0, 0, 1, 0, 4, 0, b'l', b'o', b's', b't', 0, 0, 0, 0, 52, 0, 0,
            0
        ]
    );
}

/// A big-endian section whose interface counts 2⁻¹⁰ s from 100 s on, then one packet of each kind.
fn big_endian() -> Vec<u8> {
    let mut out = vec![];
    let mut block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_be_bytes();
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&length);
        out.extend_from_slice(body);
        out.extend_from_slice(&length);
    };
    block(
        SECTION_HEADER,
        b"\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
    );
    block(5, b"\0\0\0\0");
    let options = b"\0\x09\0\x01\x8a\0\0\0\0\x0e\0\x08\0\0\0\0\0\0\0\x64\0\0\0\0";
    block(1, &[&b"\0\x65\0\0\0\0\0\x03"[..], options].concat());
    block(
        6,
        b"\0\0\0\0\0\0\0\0\0\0\x06\0\0\0\0\x02\0\0\0\x09ab\0\0\0\x01\0\x02hi\0\0",
    );
    block(3, b"\0\0\0\x09abc\0");
    out
}

#[test]
fn the_other_order_of_octets_and_another_resolution() {
    let bytes = big_endian();
    let enhanced = PacketBlock {
        interface: 0,
        time_ns: Some(101_500_000_000),
        bytes: b"ab",
        original_len: 9,
        comment: Some("hi"),
    };
    let simple = PacketBlock {
        interface: 0,
        time_ns: None,
        bytes: b"abc",
        original_len: 9,
        comment: None,
    };
    assert_eq!(
        blocks(&bytes),
        [
            Ok(Block::Section { application: None }),
            Ok(Block::Other { kind: 5 }),
            Ok(Block::Interface(InterfaceBlock {
                linktype: 101,
                snaplen: 3,
                name: None
            })),
            Ok(Block::Packet(enhanced)),
            Ok(Block::Packet(simple)),
        ]
    );
}

#[test]
fn microseconds_where_an_interface_tells_no_resolution() {
    let mut bytes = vec![];
    section(&mut bytes, "");
    bytes.extend_from_slice(&[1, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0]);
    packet(&mut bytes, 0, 1_500_000, b"", 0, None);
    let last = blocks(&bytes).pop().unwrap().unwrap();
    assert!(matches!(
        last,
        Block::Packet(PacketBlock {
            time_ns: Some(1_500_000_000),
            ..
        })
    ));
}

/// What the last block read was.
fn error(bytes: &[u8]) -> Result<Block<'_>, PcapngError> {
    Reader::new(bytes).last().unwrap()
}

#[test]
fn broken_captures_say_why_and_end() {
    let mut good = vec![];
    section(&mut good, "x");
    for length in 1..good.len() {
        assert_eq!(
            error(&good[..length]),
            Err(PcapngError::Truncated),
            "{length}"
        );
    }
    assert_eq!(
        error(&[1, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0]),
        Err(PcapngError::NoSection)
    );
    let mut bad = good.clone();
    bad[8] = 0;
    assert_eq!(error(&bad), Err(PcapngError::NoSection));
    let mut bad = good.clone();
    bad[12] = 2;
    assert_eq!(error(&bad), Err(PcapngError::BadVersion));
    for (at, value) in [(4, 8), (4, 39), (36, 44)] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(error(&bad), Err(PcapngError::BadLength), "{at}");
    }
    packet(&mut good, 0, 0, b"", 0, None);
    assert_eq!(error(&good), Err(PcapngError::UnknownInterface));
    assert_eq!(blocks(&good).len(), 2);
}

#[test]
fn interfaces_are_bounded() {
    let mut bytes = vec![];
    section(&mut bytes, "x");
    for _ in 0..INTERFACES_MAX {
        interface(&mut bytes, 1, 0, "");
    }
    assert!(blocks(&bytes).iter().all(Result::is_ok));
    interface(&mut bytes, 1, 0, "");
    assert_eq!(
        blocks(&bytes).last(),
        Some(&Err(PcapngError::TooManyInterfaces))
    );
}

#[test]
fn a_comment_too_long_is_cut_between_characters() {
    let long: String = core::iter::repeat_n('é', 40_000).collect();
    let mut bytes = vec![];
    section(&mut bytes, "x");
    interface(&mut bytes, 1, 0, "");
    packet(&mut bytes, 0, 0, b"", 0, Some(&long));
    let Some(Ok(Block::Packet(packet))) = Reader::new(&bytes).last() else {
        panic!("no packet")
    };
    assert_eq!(packet.comment.map(str::len), Some(65_534));
}

proptest! {
    #[test]
    fn any_octets_are_judged(bytes: Vec<u8>) {
        for _ in Reader::new(&bytes) {}
    }

    #[test]
    fn a_damaged_capture_is_judged(at: usize, value: u8) {
        let mut bytes = big_endian();
        section(&mut bytes, "x");
        interface(&mut bytes, 1, 0, "y");
        packet(&mut bytes, 0, u64::MAX, b"abc", 3, Some("z"));
        let at = at % bytes.len();
        bytes[at] = value;
        for _ in Reader::new(&bytes) {}
    }

    #[test]
    fn what_is_written_reads_back(
        application: String, name: String, linktype: u16, snaplen: u32,
        packets: Vec<(u64, Vec<u8>, u32, Option<String>)>,
    ) {
        let mut bytes = vec![];
        section(&mut bytes, &application);
        interface(&mut bytes, linktype, snaplen, &name);
        for (time_ns, octets, original_len, comment) in &packets {
            packet(&mut bytes, 0, *time_ns, octets, *original_len, comment.as_deref());
        }
        prop_assert_eq!(bytes.len() % 4, 0);
        let mut reader = Reader::new(&bytes);
        let application = Some(&*application);
        prop_assert_eq!(reader.next(), Some(Ok(Block::Section { application })));
        let described = InterfaceBlock { linktype, snaplen, name: Some(&name) };
        prop_assert_eq!(reader.next(), Some(Ok(Block::Interface(described))));
        for (time_ns, octets, original_len, comment) in &packets {
            let written = PacketBlock {
                interface: 0,
                time_ns: Some(*time_ns),
                bytes: octets,
                original_len: *original_len,
                comment: comment.as_deref(),
            };
            prop_assert_eq!(reader.next(), Some(Ok(Block::Packet(written))));
        }
        prop_assert_eq!(reader.next(), None);
    }
}

#[test]
fn a_decoder_says_how_much_it_needs() {
    let mut file = vec![];
    section(&mut file, "strait");
    let start = file.len();
    packet(&mut file, 0, 1, &[0x45; 20], 20, None);
    let decoder = Decoder::default();
    for length in 0..12 {
        assert_eq!(decoder.block_octets(&file[..length]), Ok(12));
    }
    assert_eq!(decoder.block_octets(&file[..12]), Ok(start));
    assert_eq!(decoder.block_octets(&file), Ok(start));
    // A packet before any section.
    assert_eq!(
        decoder.block_octets(&file[start..]),
        Err(PcapngError::NoSection)
    );
    let mut decoder = decoder;
    let mut rest = &file[..];
    assert_eq!(
        decoder.block(&mut rest),
        Ok(Block::Section {
            application: Some("strait")
        })
    );
    assert_eq!(rest.len(), file.len() - start);
    assert_eq!(decoder.block_octets(rest), Ok(rest.len()));
    assert_eq!(
        decoder.block(&mut &rest[..rest.len() - 1]),
        Err(PcapngError::Truncated)
    );
}
