//! Repairs: segments with numbers, and what the ends tell each other of them. On an octet stream:
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
//!
//! In frames numbers have two octets, in notes as well, and a segment says behind which other one
//! it is to be handed on, as a distance:
//!
//! ```text
//!   +--------+--------+-------+---------+-----------------------+
//!   | header | number | after | payload | check of 32, inverted |
//!   +--------+--------+-------+---------+-----------------------+
//! ```

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

/// The most octets of the map in a note of frames: of so many segments one may be on its way.
pub const WIDE_MAP_OCTETS: usize = 512;
/// Octets of a segment's number in a frame, and of which one it comes after.
pub const NUMBER_OCTETS: usize = 4;
/// The same with the header.
pub const LINKED_HEAD_OCTETS: usize = 1 + NUMBER_OCTETS;

const SUM_OCTETS: usize = 4;

/// How wide the numbers of a link's notes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// An octet, on octet streams.
    Octet,
    /// Two, the low one first, in frames.
    Wide,
}

impl Numbers {
    const fn map_octets_max(self) -> usize {
        match self {
            Self::Octet => MAP_BITS / 8,
            Self::Wide => WIDE_MAP_OCTETS,
        }
    }

    fn emit(self, number: u16, out: &mut Vec<u8>) {
        let [low, high] = number.to_le_bytes();
        out.push(low);
        if self == Self::Wide {
            out.push(high);
        }
    }

    /// The first number of `octets`, and what is behind it.
    const fn parse(self, octets: &[u8]) -> Option<(u16, &[u8])> {
        match (self, octets) {
            (Self::Octet, &[low, ref rest @ ..]) => Some((low as u16, rest)),
            (Self::Wide, &[low, high, ref rest @ ..]) => {
                Some((u16::from_le_bytes([low, high]), rest))
            }
            _ => None,
        }
    }
}

/// A numbered segment of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linked<'a> {
    /// Of its sequence nothing is sent.
    pub header: SegmentHeader,
    /// Its number.
    pub number: u16,
    /// How many numbers before it the segment has that is to be handed on before it; 0 without one.
    pub after: u16,
    /// A piece of a packet.
    pub payload: &'a [u8],
}

impl<'a> Linked<'a> {
    /// Appends it as a frame.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.push(self.header.emit());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.after.to_le_bytes());
        out.extend_from_slice(self.payload);
        let value = !SegmentCheck::Long.over(&out[from..]);
        SegmentCheck::Long.append(value, out);
    }

    /// The segment that a frame is, if it is one.
    #[must_use]
    pub fn parse(frame: &'a [u8]) -> Option<Self> {
        let cut = frame.len().checked_sub(SegmentCheck::Long.octets())?;
        let (checked, tail) = frame.split_at(cut);
        let &[header, n0, n1, a0, a1, ref payload @ ..] = checked else {
            return None;
        };
        let sound = SegmentCheck::Long.read(tail) == !SegmentCheck::Long.over(checked);
        sound.then(|| Self {
            header: SegmentHeader::parse(header),
            number: u16::from_le_bytes([n0, n1]),
            after: u16::from_le_bytes([a0, a1]),
            payload,
        })
    }
}

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
    pub sent: Option<(u16, u16)>,
    /// Of what it receives.
    pub came: Option<Came>,
}

/// What has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// All numbers before this one came, or won't.
    pub base: u16,
    /// The number that came last.
    pub last: u16,
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
    pub fn emit(&self, numbers: Numbers, out: &mut Vec<u8>) {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.wish, WISH)
            | flag(self.sent.is_some(), SENT)
            | flag(self.came.is_some(), CAME)
            | (self.asks & 3) << 4
            | (self.answers & 3) << 6;
        out.extend_from_slice(&[MARK, flags]);
        let came = self.came.as_ref();
        let came_numbers = came.map(|came| (came.base, came.last));
        for (first, second) in self.sent.into_iter().chain(came_numbers) {
            numbers.emit(first, out);
            numbers.emit(second, out);
        }
        if let Some(came) = came {
            let all = came.map.iter().rposition(|octet| *octet != 0);
            let octets = all.map_or(0, |last| last + 1);
            out.extend_from_slice(&came.map[..octets.min(numbers.map_octets_max())]);
        }
    }

    /// Reads a note, which `octets` hold whole.
    #[must_use]
    pub fn parse(octets: &[u8], numbers: Numbers) -> Option<Self> {
        let &[MARK, flags, ref rest @ ..] = octets else {
            return None;
        };
        let mut rest = rest;
        let mut two = |there: bool| {
            if !there {
                return Some(None);
            }
            let (first, after) = numbers.parse(rest)?;
            let (second, after) = numbers.parse(after)?;
            rest = after;
            Some(Some((first, second)))
        };
        let sent = two(flags & SENT != 0)?;
        let came = two(flags & CAME != 0)?;
        if rest.len() > numbers.map_octets_max() || came.is_none() && !rest.is_empty() {
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
    fn literal_frames() {
        let linked = Linked {
            header: header(true, true, 2, 0),
            number: 0x0102,
            after: 3,
            payload: b"data",
        };
        let mut frame = vec![];
        linked.emit(&mut frame);
        assert_eq!(frame[..9], *b"\xd0\x02\x01\x03\x00data");
        let check = !SegmentCheck::Long.over(&frame[..9]);
        assert_eq!(frame[9..], check.to_le_bytes());
        assert_eq!(Linked::parse(&frame), Some(linked));
        assert_eq!(parse_segment(&frame, LONG), Err(SegmentError::BadCheck));
        for cut in 0..frame.len() {
            assert_eq!(Linked::parse(&frame[..cut]), None, "{cut}");
        }
        frame[3] ^= 1;
        assert_eq!(Linked::parse(&frame), None);
        let mut note = vec![];
        let came = Came {
            base: 0x0203,
            last: 0x0201,
            map: vec![1],
        };
        let told = Note {
            sent: Some((0x0102, 0x0105)),
            came: Some(came),
            ..Note::default()
        };
        told.emit(Numbers::Wide, &mut note);
        assert_eq!(note, [MARK, 0x06, 2, 1, 5, 1, 3, 2, 1, 2, 1]);
        assert_eq!(Note::parse(&note, Numbers::Wide), Some(told));
        assert_eq!(Note::parse(&note[..9], Numbers::Wide), None);
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
        note.emit(Numbers::Octet, &mut out);
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
        note.emit(Numbers::Octet, &mut out);
        assert_eq!(out, [MARK, 0x97, 250, 3, 7, 10, 0b110]);
        let came = Note::parse(&out, Numbers::Octet)
            .and_then(|note| note.came)
            .unwrap();
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
            assert_eq!(Note::parse(octets, Numbers::Octet), None, "{octets:?}");
        }
        let longest = [&[MARK, CAME, 1, 1][..], &[1; MAP_BITS / 8]].concat();
        assert!(Note::parse(&longest, Numbers::Octet).is_some());
        assert_eq!(
            Note::parse(&[&longest[..], &[1]].concat(), Numbers::Octet),
            None
        );
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(bytes: Vec<u8>, long: bool) {
            let alone = if long { LONG } else { SHORT };
            if let Ok((_, segment)) = parse_numbered(&bytes, alone) {
                prop_assert!(segment.payload.len() < bytes.len());
            }
            if let Some(note) = Note::parse(&bytes, Numbers::Octet) {
                let mut again = vec![];
                note.emit(Numbers::Octet, &mut again);
                let read = Note::parse(&again, Numbers::Octet);
                prop_assert_eq!(read.map(|it| it.sent), Some(note.sent));
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
