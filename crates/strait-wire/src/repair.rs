//! Repairs on an octet stream: segments with numbers, and what the ends tell each other of them.
//!
//! ```text
//!   numbered segment                                     note, in the place of a packet
//!   +--------+--------+---------+------------+-------+   +------+-------+------------+-----------+
//!   | header | number | payload | packet sum | check |   | 0xFE | flags | from, next | base, ... |
//!   +--------+--------+---------+------------+-------+   +------+-------+------------+-----------+
//! ```
//!
//! The check of a numbered segment is over all that is ahead of it, and sent inverted: so it is
//! never taken for a segment without a number, or the other way round. The packet's sum, of 32
//! bits, is there on a segment that is LAST but not FIRST, as in [`crate::segment`].

use alloc::vec::Vec;

use crate::check::Crc32Sum;
use crate::segment::{Segment, SegmentCheck, SegmentError, SegmentHeader, packet_check};

/// The first octet of a note. It begins no IP packet, and of robust header compression only a
/// segment (RFC 5795 section 5.2.5), of which nobody here sends any.
pub const MARK: u8 = 0xfe;
/// The most numbers behind the first missing one that a note tells of.
pub const MAP_BITS: usize = 128;
/// The most octets of a note.
pub const NOTE_OCTETS_MAX: usize = 6 + MAP_BITS / 8;
/// Octets ahead of a numbered segment's payload: its header and its number.
pub const HEAD_OCTETS: usize = 2;

const SUM_OCTETS: usize = 4;

const WISH: u8 = 0x01;
const SENT: u8 = 0x02;
const CAME: u8 = 0x04;

/// Appends a numbered segment to `out`. `alone` is the check of a packet that fits one segment;
/// `sum` runs over the payload octets of the packet, as in [`crate::segment::emit_segment`].
pub fn emit_numbered(
    header: SegmentHeader,
    number: u8,
    payload: &[u8],
    alone: SegmentCheck,
    sum: &mut Crc32Sum,
    out: &mut Vec<u8>,
) {
    if header.first {
        *sum = Crc32Sum::new();
    }
    sum.update(payload);
    let from = out.len();
    out.extend_from_slice(&[header.emit(), number]);
    out.extend_from_slice(payload);
    if header.last && !header.first {
        let sum = packet_check(*sum, header.emit());
        out.extend_from_slice(&sum.to_le_bytes());
    }
    let check = own_check(header, alone);
    let value = !check.over(&out[from..]);
    check.append(value, out);
}

/// The check over a segment itself.
const fn own_check(header: SegmentHeader, alone: SegmentCheck) -> SegmentCheck {
    if header.first && header.last {
        alone
    } else {
        SegmentCheck::Short
    }
}

/// Takes a numbered segment apart: its number, and the rest of it. `alone` is the check of a packet
/// that fits one segment.
pub fn parse_numbered(
    bytes: &[u8],
    alone: SegmentCheck,
) -> Result<(u8, Segment<'_>), SegmentError> {
    let &[octet, number, ref rest @ ..] = bytes else {
        return Err(SegmentError::Truncated);
    };
    let header = SegmentHeader::parse(octet);
    let check = own_check(header, alone);
    let split = |of: &[u8], tail: usize| of.len().checked_sub(tail).ok_or(SegmentError::Truncated);
    let cut = split(rest, check.octets())?;
    let (checked, tail) = bytes.split_at(HEAD_OCTETS + cut);
    let mask = match check {
        SegmentCheck::Short => 0xffff,
        SegmentCheck::Long => u32::MAX,
    };
    if check.read(tail) != check.over(checked) ^ mask {
        return Err(SegmentError::BadCheck);
    }
    let (mut payload, mut sum) = (&checked[HEAD_OCTETS..], None);
    if header.last && !header.first {
        let (before, tail) = payload.split_at(split(payload, SUM_OCTETS)?);
        (payload, sum) = (before, Some(SegmentCheck::Long.read(tail)));
    }
    let packet_check = sum;
    Ok((
        number,
        Segment {
            header,
            payload,
            packet_check,
        },
    ))
}

/// What one end tells the other of repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// It wants the other end's segments to have numbers.
    pub wish: bool,
    /// A question, 1 to 3: what has come? 0 without one.
    pub asks: u8,
    /// The question that this answers, 1 to 3: what came before it is told of. 0 without one.
    pub answers: u8,
    /// Of what it sends: the oldest number that may still come, and the one that is next.
    pub sent: Option<(u8, u8)>,
    /// Of what it receives.
    pub came: Option<Came>,
}

/// What has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// All numbers before this one came, or won't.
    pub base: u8,
    /// The number that came last.
    pub last: u8,
    /// Which of those behind `base` came, the lowest bit of the first octet for the next one.
    pub map: Vec<u8>,
}

impl Came {
    /// Whether a number so far behind `base`, 1 or more, came.
    #[must_use]
    pub fn has(&self, behind: usize) -> bool {
        let bit = behind.wrapping_sub(1);
        let octet = self.map.get(bit / 8).copied().unwrap_or_default();
        octet >> (bit % 8) & 1 == 1
    }
}

impl Note {
    /// Appends the note.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.wish, WISH)
            | flag(self.sent.is_some(), SENT)
            | flag(self.came.is_some(), CAME)
            | (self.asks & 3) << 4
            | (self.answers & 3) << 6;
        out.extend_from_slice(&[MARK, flags]);
        if let Some((from, next)) = self.sent {
            out.extend_from_slice(&[from, next]);
        }
        if let Some(came) = &self.came {
            out.extend_from_slice(&[came.base, came.last]);
            let all = came.map.iter().rposition(|octet| *octet != 0);
            let octets = all.map_or(0, |last| last + 1).min(MAP_BITS / 8);
            out.extend_from_slice(&came.map[..octets]);
        }
    }

    /// Reads a note, which `octets` hold whole.
    #[must_use]
    pub fn parse(octets: &[u8]) -> Option<Self> {
        let &[MARK, flags, ref rest @ ..] = octets else {
            return None;
        };
        let mut rest = rest;
        let mut two = |there: bool| match rest {
            _ if !there => Some(None),
            &[a, b, ref after @ ..] => {
                rest = after;
                Some(Some((a, b)))
            }
            _ => None,
        };
        let sent = two(flags & SENT != 0)?;
        let came = two(flags & CAME != 0)?;
        if rest.len() > MAP_BITS / 8 || came.is_none() && !rest.is_empty() {
            return None;
        }
        Some(Self {
            wish: flags & WISH != 0,
            asks: flags >> 4 & 3,
            answers: flags >> 6,
            sent,
            came: came.map(|(base, last)| Came {
                base,
                last,
                map: rest.to_vec(),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{emit_segment, parse_segment};
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

    fn numbered(header: SegmentHeader, payload: &[u8], alone: SegmentCheck) -> Vec<u8> {
        let mut out = vec![];
        emit_numbered(header, 9, payload, alone, &mut Crc32Sum::new(), &mut out);
        out
    }

    #[test]
    fn literal_segments() {
        // Checks computed by another implementation of both polynomials.
        let whole = header(true, true, 2, 1);
        assert_eq!(numbered(whole, b"data", SHORT), *b"\xd1\x09data\x4e\x49");
        assert_eq!(
            numbered(whole, b"data", LONG),
            *b"\xd1\x09data\xd8\xdf\xf8\x16"
        );
        let first = numbered(header(true, false, 6, 0), b"a lon", LONG);
        assert_eq!(first, *b"\xb0\x09a lon\x04\xef");
        let last = numbered(header(false, true, 6, 1), b"ger one", LONG);
        assert_eq!(last, *b"\x71\x09ger onepI\x2d\xff\x62\xc3");
    }

    #[test]
    fn a_number_is_never_seen_where_there_is_none() {
        for (first, last, alone) in [(true, true, SHORT), (true, true, LONG), (true, false, LONG)] {
            let head = header(first, last, 2, 1);
            let with = numbered(head, b"some octets", alone);
            assert_eq!(parse_segment(&with, alone), Err(SegmentError::BadCheck));
            let mut without = vec![];
            let sum = &mut Crc32Sum::new();
            emit_segment(head, b"some octets", alone, sum, &mut without);
            assert_eq!(parse_numbered(&without, alone), Err(SegmentError::BadCheck));
        }
    }

    #[test]
    fn too_short_is_refused_at_the_octet() {
        let truncated = Err(SegmentError::Truncated);
        assert_eq!(parse_numbered(&[], LONG), truncated);
        assert_eq!(parse_numbered(&[0x80], LONG), truncated);
        assert_eq!(parse_numbered(&[0x80, 1, 0], LONG), truncated);
        assert_eq!(
            parse_numbered(&[0x80, 1, 0, 0], LONG),
            Err(SegmentError::BadCheck)
        );
        // The sum of a packet, cut by an octet, under a right check.
        let mut cut = vec![0x40, 1, 2, 3, 4];
        let check = !SHORT.over(&cut);
        SHORT.append(check, &mut cut);
        assert_eq!(parse_numbered(&cut, LONG), truncated);
    }

    #[test]
    fn literal_notes() {
        let mut out = vec![];
        let mut note = Note {
            wish: true,
            ..Note::default()
        };
        note.emit(&mut out);
        assert_eq!(out, [MARK, 0x01]);
        out.clear();
        note.asks = 1;
        note.answers = 2;
        note.sent = Some((250, 3));
        note.came = Some(Came {
            base: 7,
            last: 10,
            map: vec![0b110, 0],
        });
        note.emit(&mut out);
        assert_eq!(out, [MARK, 0x97, 250, 3, 7, 10, 0b110]);
        let came = Note::parse(&out).and_then(|note| note.came).unwrap();
        let has: Vec<usize> = (0..20).filter(|behind| came.has(*behind)).collect();
        assert_eq!(has, [2, 3]);
    }

    #[test]
    fn what_no_end_says_is_no_note() {
        for octets in [
            &[MARK][..],
            &[MARK, SENT, 1],
            &[MARK, CAME, 1],
            &[MARK, 0, 1],
            &[MARK, SENT, 1, 2, 3],
            &[0xf9, 0],
        ] {
            assert_eq!(Note::parse(octets), None, "{octets:?}");
        }
        let longest = [&[MARK, CAME, 1, 1][..], &[1; MAP_BITS / 8]].concat();
        assert!(Note::parse(&longest).is_some());
        assert_eq!(Note::parse(&[&longest[..], &[1]].concat()), None);
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(bytes: Vec<u8>, long: bool) {
            let alone = if long { LONG } else { SHORT };
            if let Ok((_, segment)) = parse_numbered(&bytes, alone) {
                prop_assert!(segment.payload.len() < bytes.len());
            }
            if let Some(note) = Note::parse(&bytes) {
                let mut again = vec![];
                note.emit(&mut again);
                prop_assert_eq!(Note::parse(&again).map(|it| it.sent), Some(note.sent));
            }
        }

        #[test]
        fn segments_come_back_and_damage_is_found(
            octet: u8, number: u8, payload: Vec<u8>, long: bool, at: usize, bit in 0..8_u8,
        ) {
            let alone = if long { LONG } else { SHORT };
            let header = SegmentHeader::parse(octet);
            let mut sent = vec![];
            emit_numbered(header, number, &payload, alone, &mut Crc32Sum::new(), &mut sent);
            let (told, segment) = parse_numbered(&sent, alone).unwrap();
            let read = (told, segment.header, segment.payload);
            prop_assert_eq!(read, (number, header, &payload[..]));
            let mut damaged = sent.clone();
            // The header says which check there is.
            let at = 1 + at % (sent.len() - 1);
            damaged[at] ^= 1 << bit;
            prop_assert!(parse_numbered(&damaged, alone).is_err());
        }
    }
}
