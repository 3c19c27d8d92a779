//! Compressor and decompressor together.

use super::*;
use alloc::vec;
use proptest::prelude::*;
use strait_wire::hash::hash64;
use strait_wire::ip::build_udp;

const OCTETS_MAX: usize = 1600;

fn packet(port: u16, payload: &[u8]) -> (PacketInfo, Vec<u8>) {
    let mut bytes = Vec::new();
    let (from, to) = (
        "10.0.0.1:5000".parse().unwrap(),
        ([10, 0, 0, 2], port).into(),
    );
    build_udp(from, to, 0, 64, 0, 0, payload, &mut bytes);
    (PacketInfo::parse(&bytes).unwrap(), bytes)
}

fn pair() -> (Deflater, Inflater) {
    let dictionary = Dictionary::built_in();
    (
        Deflater::new(&dictionary),
        Inflater::new(&dictionary, OCTETS_MAX),
    )
}

/// There and back; the octets that went.
fn pass(deflater: &mut Deflater, inflater: &mut Inflater, port: u16, payload: &[u8]) -> usize {
    let (info, bytes) = packet(port, payload);
    let mut line = vec![];
    match deflater.deflate(&info, &bytes, &mut line) {
        Payload::Shorter => {
            assert!(line.len() < bytes.len());
            assert_eq!(inflater.inflate(&line), Ok(&bytes[..]));
            line.len()
        }
        Payload::Raw | Payload::Short => bytes.len(),
    }
}

const REQUEST: &[u8] =
    b"GET /news/today.html HTTP/1.1\r\nHost: intranet.example\r\nUser-Agent: curl/8.5.0\r\n\
    Accept: */*\r\n\r\n";
const QUESTION: &[u8] = b"\x4a\x21\x01\0\0\x01\0\0\0\0\0\x01\x03www\x07example\x03com\0\0\x01\0\x01\0\0\x29\x04\xd0\0\0\0\0\0\0";
const INVITE: &[u8] = b"INVITE sip:ops@10.2.0.2 SIP/2.0\r\nVia: SIP/2.0/UDP 10.1.0.2:5060;branch=z9hG4bKx81\r\n\
    Max-Forwards: 70\r\nFrom: <sip:watch@10.1.0.2>;tag=77\r\nTo: <sip:ops@10.2.0.2>\r\nCall-ID: 4711@10.1.0.2\r\n\
    CSeq: 1 INVITE\r\nContact: <sip:watch@10.1.0.2:5060>\r\nContent-Type: application/sdp\r\n\
    Content-Length: 129\r\n\r\nv=0\r\no=- 1 1 IN IP4 10.1.0.2\r\ns=-\r\nc=IN IP4 10.1.0.2\r\nt=0 0\r\n\
    m=audio 5004 RTP/AVP 96\r\na=rtpmap:96 MELP/8000\r\na=sendrecv\r\n";

#[test]
fn what_a_site_says_is_behind_the_built_in_dictionary() {
    let own = Dictionary::with(INVITE);
    assert!(own.octets().ends_with(INVITE) && own.digest() != Dictionary::built_in().digest());
    let (mut deflater, mut inflater) = (Deflater::new(&own), Inflater::new(&own, OCTETS_MAX));
    // Nearly all of it are two references, and 28 octets of headers.
    assert!(pass(&mut deflater, &mut inflater, 80, INVITE) < 80);
    // What stands first in the longest dictionary can still be reached.
    let mut long = INVITE.to_vec();
    long.extend((0..Dictionary::OWN_OCTETS_MAX as u64).map(|it| hash64(it, b"") as u8));
    let longest = Dictionary::with(&long);
    assert_eq!(
        longest.octets().len(),
        Dictionary::with(&long[..Dictionary::OWN_OCTETS_MAX])
            .octets()
            .len()
    );
    let mut inflater = Inflater::new(&longest, OCTETS_MAX);
    let (mut deflater, before) = (Deflater::new(&longest), Dictionary::built_in());
    let first = &before.octets()[..60];
    assert!(pass(&mut deflater, &mut inflater, 80, first) < 80);
    assert!(pass(&mut deflater, &mut inflater, 80, INVITE) < 80);
}

#[test]
fn what_everybody_says_is_in_the_dictionary() {
    let (mut deflater, mut inflater) = pair();
    for (payload, share) in [(REQUEST, 0.8), (QUESTION, 0.85), (INVITE, 0.5)] {
        let octets = pass(&mut deflater, &mut inflater, 80, payload);
        let before = (payload.len() + 28) as f64;
        assert!((octets as f64) < share * before, "{octets} of {before}");
    }
}

#[test]
fn the_dictionary_is_the_one_that_is_described() {
    let dictionary = Dictionary::built_in();
    assert!(dictionary.0.len() <= 32_768);
    assert_eq!(dictionary.digest(), DIGEST, "{:08x}", dictionary.digest());
}

/// Ends with another digest don't compress: a new dictionary is a choice.
const DIGEST: u32 = 0x63ef_f142;

#[test]
fn random_payloads_and_short_packets_go_as_they_are() {
    let (mut deflater, mut inflater) = pair();
    for number in 0..300u16 {
        let random: Vec<u8> = (0..1000u64)
            .map(|at| hash64(u64::from(number), &at.to_le_bytes()) as u8)
            .collect();
        assert_eq!(pass(&mut deflater, &mut inflater, 80, &random), 1028);
    }
    assert_eq!(pass(&mut deflater, &mut inflater, 81, &[b'a'; 11]), 39);
    assert!(pass(&mut deflater, &mut inflater, 81, &[b'a'; 12]) <= 40);
}

#[test]
fn more_than_a_packet_is_refused_at_the_octet() {
    let dictionary = Dictionary::built_in();
    let (info, bytes) = packet(80, &[b'a'; 1000]);
    let mut line = vec![];
    let mut deflater = Deflater::new(&dictionary);
    assert_eq!(deflater.deflate(&info, &bytes, &mut line), Payload::Shorter);
    let mut exact = Inflater::new(&dictionary, 1028);
    assert_eq!(exact.inflate(&line), Ok(&bytes[..]));
    let mut narrow = Inflater::new(&dictionary, 1027);
    assert_eq!(narrow.inflate(&line), Err(Unreadable));
    // An octet behind its end, one missing, no mark, nothing.
    line.push(0);
    assert_eq!(exact.inflate(&line), Err(Unreadable));
    line.truncate(line.len() - 2);
    assert_eq!(exact.inflate(&line), Err(Unreadable));
    line[0] = 0xfe;
    assert_eq!(exact.inflate(&line), Err(Unreadable));
    assert_eq!(exact.inflate(&[]), Err(Unreadable));
    assert_eq!(exact.inflate(&[MARK]), Err(Unreadable));
}

#[test]
fn a_packet_reads_the_same_whatever_came_before() {
    let (mut deflater, mut inflater) = pair();
    let (info, bytes) = packet(80, INVITE);
    let mut line = vec![];
    deflater.deflate(&info, &bytes, &mut line);
    for junk in [&[MARK, 1, 2, 3][..], &[MARK, 0xed, 0xff, 0xff], &[MARK]] {
        let _ = inflater.inflate(junk);
        assert_eq!(inflater.inflate(&line), Ok(&bytes[..]));
    }
    let mut fresh = Inflater::new(&Dictionary::built_in(), OCTETS_MAX);
    assert_eq!(fresh.inflate(&line), Ok(&bytes[..]));
}

/// Payloads as applications have them: pieces of the dictionary, repetitions, and noise.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (0..8000usize, 1..200usize)
            .prop_map(|(from, octets)| { Dictionary::built_in().0[from..from + octets].to_vec() }),
        (any::<u8>(), 1..300usize).prop_map(|(octet, count)| vec![octet; count]),
        proptest::collection::vec(any::<u8>(), 1..100),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| {
        let mut all = pieces.concat();
        all.truncate(1500);
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_packet_comes_back_and_none_is_longer(
        payloads in proptest::collection::vec(payload(), 1..8),
    ) {
        let (mut deflater, mut inflater) = pair();
        for payload in payloads {
            prop_assert!(pass(&mut deflater, &mut inflater, 80, &payload) <= payload.len() + 28);
        }
    }

    #[test]
    fn any_octets_are_judged(
        octets: Vec<u8>,
        payload in payload(),
        flips in proptest::collection::vec(any::<(u16, u8)>(), 1..6),
    ) {
        let (mut deflater, mut inflater) = pair();
        let _ = inflater.inflate(&[&[MARK], &octets[..]].concat());
        let (info, bytes) = packet(80, &payload);
        let mut line = vec![];
        if deflater.deflate(&info, &bytes, &mut line) == Payload::Shorter {
            for (at, flip) in flips {
                let at = 1 + usize::from(at) % (line.len() - 1);
                line[at] ^= flip;
            }
            if let Ok(octets) = inflater.inflate(&line) {
                prop_assert!(octets.len() <= OCTETS_MAX);
            }
        }
    }
}
