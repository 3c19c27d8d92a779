//! Pre-emptible segments: a packet cut into pieces, so that a more urgent one can go between them.
//!
//! ```text
//!   bit   7      6      5..3     2..0
//!       +-------+------+--------+----------+---------+----------------+
//!       | FIRST | LAST | stream | sequence | payload | check, 2 or 4  |
//!       +-------+------+--------+----------+---------+----------------+
//! ```
//!
//! The check, least significant octet first, is
//! - CRC-16 over header and payload of a segment that isn't LAST: it protects this piece;
//! - CRC-32 over all payload octets of the packet and then this header octet, for a segment that is
//!   LAST but not FIRST: it protects the packet, so that pieces of two packets never pass as one;
//! - CRC-16 or CRC-32 over header and payload of a segment that is both, as its stream is set up.

use crate::check::{Crc16Sum, Crc32Sum};
use alloc::vec::Vec;

/// Streams that a link has; each carries one packet at a time.
pub const STREAMS: usize = 8;
/// Octets of the header.
pub const HEADER_OCTETS: usize = 1;

const FIRST: u8 = 0x80;
const LAST: u8 = 0x40;

/// The header octet of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The packet begins here.
    pub first: bool,
    /// The packet ends here.
    pub last: bool,
    /// Stream, 0 … 7.
    pub stream: u8,
    /// Number of the segment in its stream, modulo 8.
    pub sequence: u8,
}

impl SegmentHeader {
    /// Reads a header; every octet is one.
    #[must_use]
    pub const fn parse(octet: u8) -> Self {
        Self {
            first: octet & FIRST != 0,
            last: octet & LAST != 0,
            stream: (octet >> 3) & 7,
            sequence: octet & 7,
        }
    }

    /// The octet; of stream and sequence only three bits each are sent.
    #[must_use]
    pub const fn emit(self) -> u8 {
        let first = if self.first { FIRST } else { 0 };
        let last = if self.last { LAST } else { 0 };
        first | last | (self.stream & 7) << 3 | (self.sequence & 7)
    }

    /// Which check such a segment ends in; `alone` is the stream's choice for whole packets.
    #[must_use]
    pub const fn check(self, alone: SegmentCheck) -> SegmentCheck {
        match (self.first, self.last) {
            (_, false) => SegmentCheck::Short,
            (false, true) => SegmentCheck::Long,
            (true, true) => alone,
        }
    }
}

/// The length of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentCheck {
    /// CRC-16.
    Short,
    /// CRC-32.
    Long,
}

impl SegmentCheck {
    /// Octets of the check.
    #[must_use]
    pub const fn octets(self) -> usize {
        match self {
            Self::Short => 2,
            Self::Long => 4,
        }
    }

    /// The value over `bytes`; the upper half of a short one is zero.
    pub(crate) fn over(self, bytes: &[u8]) -> u32 {
        match self {
            Self::Short => Crc16Sum::new().update(bytes).finish().into(),
            Self::Long => Crc32Sum::new().update(bytes).finish(),
        }
    }

    /// Appends the check's octets.
    pub(crate) fn append(self, value: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&value.to_le_bytes()[..self.octets()]);
    }

    /// What a check's octets say.
    pub(crate) fn read(self, octets: &[u8]) -> u32 {
        let octets = octets.iter().rev();
        octets.fold(0, |value, octet| (value << 8) | u32::from(*octet))
    }
}

/// Appends a segment to `out`: header, payload, check.
///
/// `sum` runs over the payload octets of the packet that is under way on this stream; the sender
/// keeps one per stream, and a FIRST segment starts it anew. A segment that is FIRST and LAST
/// leaves it empty.
pub fn emit_segment(
    header: SegmentHeader,
    payload: &[u8],
    alone: SegmentCheck,
    sum: &mut Crc32Sum,
    out: &mut Vec<u8>,
) {
    if header.first {
        *sum = Crc32Sum::new();
    }
    // A packet in one segment has its own check and needs no sum.
    if !(header.first && header.last) {
        sum.update(payload);
    }
    let from = out.len();
    out.push(header.emit());
    out.extend_from_slice(payload);
    let check = header.check(alone);
    let value = if header.last && !header.first {
        packet_check(*sum, header.emit())
    } else {
        check.over(&out[from..])
    };
    check.append(value, out);
}

/// Why octets are no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Shorter than a header and its check.
    #[error("segment too short")]
    Truncated,
    /// The check over this segment is wrong.
    #[error("segment check wrong")]
    BadCheck,
}

/// A segment received; its own check, if it has one, was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// The header.
    pub header: SegmentHeader,
    /// The payload; may be empty.
    pub payload: &'a [u8],
    /// The packet's check, on a segment that is LAST but not FIRST; [`Self::accept`] compares it.
    pub packet_check: Option<u32>,
}

impl Segment<'_> {
    /// Takes the payload into the running sum of this stream's packet, as the receiver keeps it,
    /// and says whether the packet is sound so far: always, but at the end of a packet in several
    /// pieces. On `false`, all pieces of the packet go.
    pub fn accept(&self, sum: &mut Crc32Sum) -> bool {
        if self.header.first {
            *sum = Crc32Sum::new();
        }
        sum.update(self.payload);
        self.packet_check
            .is_none_or(|check| check == packet_check(*sum, self.header.emit()))
    }
}

/// The packet's check: over its payload octets and the header octet of its last segment.
pub(crate) fn packet_check(mut payloads: Crc32Sum, header: u8) -> u32 {
    payloads.update(&[header]).finish()
}

/// Takes a segment apart and judges its own check. `alone` is what the stream named in the header
/// (its first octet, see [`SegmentHeader::parse`]) has set for whole packets.
pub fn parse_segment(bytes: &[u8], alone: SegmentCheck) -> Result<Segment<'_>, SegmentError> {
    let (&octet, rest) = bytes.split_first().ok_or(SegmentError::Truncated)?;
    let header = SegmentHeader::parse(octet);
    let check = header.check(alone);
    let cut = rest
        .len()
        .checked_sub(check.octets())
        .ok_or(SegmentError::Truncated)?;
    let (payload, tail) = rest.split_at(cut);
    let told = check.read(tail);
    if header.last && !header.first {
        return Ok(Segment {
            header,
            payload,
            packet_check: Some(told),
        });
    }
    if told != check.over(&bytes[..=cut]) {
        return Err(SegmentError::BadCheck);
    }
    Ok(Segment {
        header,
        payload,
        packet_check: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    const SHORT: SegmentCheck = SegmentCheck::Short;
    const LONG: SegmentCheck = SegmentCheck::Long;

    const fn header(first: bool, last: bool, stream: u8, sequence: u8) -> SegmentHeader {
        SegmentHeader {
            first,
            last,
            stream,
            sequence,
        }
    }

    /// Cuts `packet` at `cuts` and gives the segments.
    fn cut(packet: &[u8], pieces: &[usize], stream: u8) -> Vec<Vec<u8>> {
        let mut sum = Crc32Sum::new();
        let mut at = 0;
        let mut segments = vec![];
        for (index, piece) in pieces.iter().enumerate() {
            let header = header(
                index == 0,
                index + 1 == pieces.len(),
                stream,
                (index % 8) as u8,
            );
            let mut out = vec![];
            emit_segment(header, &packet[at..at + piece], LONG, &mut sum, &mut out);
            segments.push(out);
            at += piece;
        }
        segments
    }

    #[test]
    fn header_bits_are_where_they_belong() {
        assert_eq!(header(true, false, 5, 3).emit(), 0b1010_1011);
        assert_eq!(header(false, true, 0, 7).emit(), 0b0100_0111);
        assert_eq!(SegmentHeader::parse(0xff), header(true, true, 7, 7));
        for octet in 0..=255 {
            assert_eq!(SegmentHeader::parse(octet).emit(), octet);
        }
    }

    #[test]
    fn literal_segments() {
        // Checks computed by another implementation of both polynomials.
        let mut sum = Crc32Sum::new();
        let mut out = vec![];
        emit_segment(
            header(true, true, 2, 1),
            b"voice",
            SHORT,
            &mut sum,
            &mut out,
        );
        assert_eq!(out, *b"\xd1voice\xd4\x51");
        out.clear();
        emit_segment(header(true, true, 2, 1), b"voice", LONG, &mut sum, &mut out);
        assert_eq!(out, *b"\xd1voice\x0f\xc1\x79\x49");
        let pieces = cut(b"a longer one", &[5, 7], 6);
        assert_eq!(pieces[0], *b"\xb0a lon\x52\xdc");
        assert_eq!(pieces[1], *b"\x71ger one\x8c\x09\xac\xb0");
    }

    #[test]
    fn too_short_is_refused_at_the_octet() {
        assert_eq!(parse_segment(&[], SHORT), Err(SegmentError::Truncated));
        assert_eq!(
            parse_segment(&[0x80, 0], SHORT),
            Err(SegmentError::Truncated)
        );
        assert_eq!(
            parse_segment(&[0x80, 0, 0], SHORT),
            Err(SegmentError::BadCheck)
        );
        assert_eq!(
            parse_segment(&[0x40, 0, 0, 0], SHORT),
            Err(SegmentError::Truncated)
        );
        assert!(parse_segment(&[0x40, 0, 0, 0, 0], SHORT).is_ok());
        assert_eq!(
            parse_segment(&[0xc0, 0, 0, 0], LONG),
            Err(SegmentError::Truncated)
        );
        assert_eq!(
            parse_segment(&[0xc0, 0, 0, 0, 1], LONG),
            Err(SegmentError::BadCheck)
        );
    }

    #[test]
    fn a_splice_of_two_packets_is_found() {
        let one = cut(b"one head+a tail!", &[8, 8], 3);
        let two = cut(b"two head+a tail!", &[8, 8], 3);
        let mut sum = Crc32Sum::new();
        assert!(parse_segment(&one[0], LONG).unwrap().accept(&mut sum));
        let mut same = sum;
        assert!(parse_segment(&one[1], LONG).unwrap().accept(&mut same));
        // Same tail octets, same sequence, another head: only the packet's check can tell.
        assert_eq!(one[1][..9], two[1][..9]);
        assert!(!parse_segment(&two[1], LONG).unwrap().accept(&mut sum));
    }

    fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..12)
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(bytes: Vec<u8>, long: bool) {
            let alone = if long { LONG } else { SHORT };
            if let Ok(segment) = parse_segment(&bytes, alone) {
                let mut sum = Crc32Sum::new();
                segment.accept(&mut sum);
            }
        }

        #[test]
        fn a_packet_in_pieces_comes_back(
            pieces in pieces(),
            stream in 0..8_u8,
        ) {
            let packet = pieces.concat();
            let sizes: Vec<usize> = pieces.iter().map(Vec::len).collect();
            let mut sum = Crc32Sum::new();
            let mut back = vec![];
            for bytes in cut(&packet, &sizes, stream) {
                let segment = parse_segment(&bytes, LONG).unwrap();
                prop_assert!(segment.accept(&mut sum));
                prop_assert_eq!(segment.header.stream, stream);
                back.extend_from_slice(segment.payload);
            }
            prop_assert_eq!(back, packet);
        }

        #[test]
        fn one_wrong_bit_is_found(
            head in proptest::collection::vec(any::<u8>(), 1..40),
            tail in proptest::collection::vec(any::<u8>(), 1..40),
            bit: usize,
        ) {
            let packet = [head.clone(), tail.clone()].concat();
            let mut segments = cut(&packet, &[head.len(), tail.len()], 1);
            let bit = bit % (8 * (segments[0].len() + segments[1].len()));
            let (which, bit) = match bit.checked_sub(8 * segments[0].len()) {
                Some(bit) => (1, bit),
                None => (0, bit),
            };
            // The two bits that choose the check are not protected against each other by it.
            prop_assume!(bit / 8 != 0 || bit % 8 < 6);
            segments[which][bit / 8] ^= 1 << (bit % 8);
            let mut sum = Crc32Sum::new();
            let sound = segments.iter().all(|bytes| {
                parse_segment(bytes, LONG).is_ok_and(|segment| segment.accept(&mut sum))
            });
            prop_assert!(!sound);
        }
    }
}
