//! What goes between two gateways: a question, or its answer, one a datagram.
//!
//! ```text
//!   7   6   5   4   3   2   1   0
//! +---+---+---+---+---+---+---+---+--------+--------+---------
//! | A | V | U | O | W | H | 6 | 4 |  id    | type   | name, or bodies
//! +---+---+---+---+---+---+---+---+--------+--------+---------
//!                                    2 B      2 B, with O
//! ```
//!
//! A: an answer. V: whoever asks verifies, and gets whole messages. U: without being checked
//! before (CD of RFC 4035). W: kept fresh, as is asked or answered. 4, 6 and H: IPv4 addresses,
//! IPv6 addresses, HTTPS, each or all. O: another type, alone. A question with both U and W has the
//! IPv4 address by which its name goes meanwhile, before that. A question ends with its [name]; an
//! answer has a [body](crate::body) for each type in this order, and no name: its id says of which
//! question.
//!
//! Frames without any type have no id: what is kept fresh, by A and U, as a sum (4 octets); what is
//! taken to be, by U (pairs of id and end of its sum); what isn't any more (ids, from both); by A
//! and V, addresses by which names go that the side of the resolvers doesn't know; and, by A, V
//! and U, a part of an answer that is too long for a datagram: id, its place, how many there are.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use hickory_proto::rr::{Name, RecordType};
use strait_wire::check::crc32;

use crate::body::{Body, take};
use crate::name;

const ANSWER: u8 = 0x80;
const VERIFIES: u8 = 0x40;
const UNCHECKED: u8 = 0x20;
const OTHER: u8 = 0x10;
const WATCH: u8 = 0x08;
/// Frames that are for no question.
const GONE: u8 = 0x00;
const ROLL: u8 = UNCHECKED;
const HELLO: u8 = ANSWER | UNCHECKED;
const STRANGE: u8 = ANSWER | VERIFIES;
const PART: u8 = ANSWER | VERIFIES | UNCHECKED;
/// Octets of a datagram between the gateways that every path takes, without a few of its head.
pub const DATAGRAM_OCTETS: usize = 1200;
/// Parts of an answer, at most.
pub const PARTS_MAX: usize = 12;
/// Nobody who wants what isn't right has it kept fresh: together they say something else.
const AHEAD: u8 = UNCHECKED | WATCH;
/// Octets that an answer may have before its bodies.
const HEAD_OCTETS_MAX: usize = 16;
/// Types that go together, each with its bit.
const TOGETHER: [(u8, RecordType); 3] = [
    (0x01, RecordType::A),
    (0x02, RecordType::AAAA),
    (0x04, RecordType::HTTPS),
];

/// Types that one question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Types {
    /// Some of A, AAAA and HTTPS, by their bits.
    Together(u8),
    /// Another one alone.
    Other(u16),
}

impl Types {
    /// One type.
    pub fn of(kind: RecordType) -> Self {
        let bit = TOGETHER.iter().find(|(_, it)| *it == kind);
        bit.map_or_else(|| Self::Other(kind.into()), |(bit, _)| Self::Together(*bit))
    }

    /// Each, in order.
    pub fn iter(self) -> impl Iterator<Item = RecordType> {
        let bits = match self {
            Self::Together(bits) => bits,
            Self::Other(_) => 0,
        };
        let other = match self {
            Self::Together(_) => None,
            Self::Other(kind) => Some(RecordType::from(kind)),
        };
        let together = TOGETHER.into_iter().filter(move |(bit, _)| bits & bit != 0);
        together.map(|(_, kind)| kind).chain(other)
    }

    /// Whether it has one.
    pub fn has(self, kind: RecordType) -> bool {
        self.iter().any(|it| it == kind)
    }

    /// The others, if there are any.
    pub fn without(self, kind: RecordType) -> Option<Self> {
        match (self, Self::of(kind)) {
            (Self::Together(these), Self::Together(one)) if these != one => {
                Some(Self::Together(these & !one)).filter(|it| *it != Self::Together(0))
            }
            (own, other) if own == other => None,
            (own, _) => Some(own),
        }
    }

    /// Both, if they can go together.
    pub const fn with(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Together(these), Self::Together(those)) => Some(Self::Together(these | those)),
            _ => None,
        }
    }
}

/// For whom a question is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Care {
    /// Who asks verifies (DO of RFC 3225).
    pub verifies: bool,
    /// And wants what isn't right, too (CD of RFC 4035).
    pub unchecked: bool,
}

impl Care {
    /// Whether it is for nobody who verifies.
    pub const fn is_usual(self) -> bool {
        !self.verifies && !self.unchecked
    }
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A question.
    Question {
        /// Its number.
        id: u16,
        /// What for.
        types: Types,
        /// For whom.
        care: Care,
        /// Its answer is to be kept fresh.
        watch: bool,
        /// The address by which the name goes where it is asked for, until it has another.
        ahead: Option<Ipv4Addr>,
        /// The name.
        name: Name,
    },
    /// An answer.
    Answer {
        /// That of the question.
        id: u16,
        /// Those of the question.
        types: Types,
        /// It is kept fresh: a change is told.
        watched: bool,
        /// Of each type.
        bodies: Vec<Body>,
    },
    /// What the far side keeps fresh, as the exclusive or of all its [sums](sum_of).
    Hello(u32),
    /// Answers that aren't kept fresh any more, by number.
    Gone {
        /// The side of those who ask says so.
        near: bool,
        /// Which.
        ids: Vec<u16>,
    },
    /// A part of an answer, which is one when all are there.
    Part {
        /// That of the question.
        id: u16,
        /// From 0 on.
        at: u8,
        /// How many there are.
        of: u8,
        /// Its octets.
        octets: Vec<u8>,
    },
    /// Addresses by which names are to go, and nobody has said which.
    Strange(Vec<Ipv4Addr>),
    /// What the side of those who ask takes to be kept fresh: numbers, and ends of their sums.
    Roll(Vec<(u16, u16)>),
}

/// What an answer says beside its life, in short: which number, which types, which records.
pub fn sum_of(id: u16, types: Types, bodies: &[Body]) -> u32 {
    let mut octets = Vec::new();
    write_head(0, id, types, &mut octets);
    for (kind, body) in types.iter().zip(bodies) {
        let mut body = body.clone();
        body.life_s = 0;
        // Resolvers turn them round.
        body.records.sort_unstable();
        body.write(kind, &mut octets);
    }
    crc32(&octets)
}

impl Frame {
    /// Its octets.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Question {
                id,
                types,
                care,
                watch,
                ahead,
                name,
            } => {
                let watch = if *watch { WATCH } else { 0 };
                let ahead_bits = if ahead.is_some() { AHEAD } else { 0 };
                let verifies = if care.verifies { VERIFIES } else { 0 };
                let unchecked = if care.unchecked { UNCHECKED } else { 0 };
                let flags = watch | verifies | unchecked | ahead_bits;
                write_head(flags, *id, *types, &mut out);
                out.extend(ahead.iter().flat_map(Ipv4Addr::octets));
                name::write(name, &mut out);
            }
            Self::Answer {
                id,
                types,
                watched,
                bodies,
            } => {
                let watched = if *watched { WATCH } else { 0 };
                write_head(ANSWER | watched, *id, *types, &mut out);
                let bodies = types.iter().zip(bodies);
                bodies.for_each(|(kind, body)| body.write(kind, &mut out));
            }
            Self::Hello(sum) => {
                out.push(HELLO);
                out.extend_from_slice(&sum.to_be_bytes());
            }
            Self::Gone { near, ids } => {
                out.push(if *near { GONE } else { ANSWER | GONE });
                out.extend(ids.iter().flat_map(|id| id.to_be_bytes()));
            }
            Self::Part { id, at, of, octets } => {
                out.push(PART);
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(&[*at, *of]);
                out.extend_from_slice(octets);
            }
            Self::Strange(addresses) => {
                out.push(STRANGE);
                out.extend(addresses.iter().flat_map(Ipv4Addr::octets));
            }
            Self::Roll(entries) => {
                out.push(ROLL);
                let each = entries.iter().flat_map(|(id, sum)| [*id, *sum]);
                out.extend(each.flat_map(u16::to_be_bytes));
            }
        }
        out
    }

    /// Its octets as datagrams: several of an answer that is too long for one.
    pub fn to_datagrams(&self) -> Vec<Vec<u8>> {
        let octets = self.to_vec();
        let Self::Answer { id, .. } = self else {
            return Vec::from([octets]);
        };
        if octets.len() <= DATAGRAM_OCTETS + HEAD_OCTETS_MAX {
            return Vec::from([octets]);
        }
        let parts = octets.chunks(DATAGRAM_OCTETS);
        let of = parts.len() as u8;
        let parts = (0..).zip(parts).map(|(at, octets)| Self::Part {
            id: *id,
            at,
            of,
            octets: octets.to_vec(),
        });
        parts.map(|part| part.to_vec()).collect()
    }

    /// The frame that `octets` are; `None` if they are none.
    pub fn read(mut octets: &[u8]) -> Option<Self> {
        let octets = &mut octets;
        let [head] = take::<1>(octets)?;
        if head & !(ANSWER | UNCHECKED) == 0 || matches!(head, STRANGE | PART) {
            return Self::read_quiet(head, octets);
        }
        let id = u16::from_be_bytes(take(octets)?);
        let bits = head & 0x07;
        let types = match head & OTHER {
            0 => Types::Together(bits),
            _ => Types::Other(u16::from_be_bytes(take(octets)?)),
        };
        let other = head & OTHER != 0;
        let alone = !other || Types::of(RecordType::from(other_number(types))) == types;
        if other != (bits == 0) || !alone {
            return None;
        }
        if head & ANSWER == 0 {
            let goes_ahead = head & AHEAD == AHEAD;
            if goes_ahead && (head & VERIFIES != 0 || other) {
                return None;
            }
            let care = Care {
                verifies: head & VERIFIES != 0,
                unchecked: head & UNCHECKED != 0 && !goes_ahead,
            };
            let ahead = match goes_ahead {
                true => Some(Ipv4Addr::from(take::<4>(octets)?)),
                false => None,
            };
            let name = name::read(octets)?;
            return Some(Self::Question {
                id,
                types,
                care,
                watch: head & WATCH != 0 && !goes_ahead,
                ahead,
                name,
            });
        }
        let bodies: Option<Vec<Body>> = types.iter().map(|it| Body::read(it, octets)).collect();
        let whole = octets.is_empty() && head & (VERIFIES | UNCHECKED) == 0;
        let bodies = bodies.filter(|_| whole)?;
        Some(Self::Answer {
            id,
            types,
            watched: head & WATCH != 0,
            bodies,
        })
    }

    /// One of those that are for no question.
    fn read_quiet(head: u8, mut octets: &[u8]) -> Option<Self> {
        let octets = &mut octets;
        if head == HELLO {
            let sum = u32::from_be_bytes(take(octets)?);
            return octets.is_empty().then_some(Self::Hello(sum));
        }
        if head == PART {
            let id = u16::from_be_bytes(take(octets)?);
            let [at, of] = take(octets)?;
            let right = at < of && (2..=PARTS_MAX).contains(&usize::from(of));
            let octets = octets.to_vec();
            return (right && !octets.is_empty()).then_some(Self::Part { id, at, of, octets });
        }
        if head == STRANGE {
            let (addresses, rest) = octets.as_chunks::<4>();
            let addresses = addresses.iter().map(|it| Ipv4Addr::from(*it)).collect();
            return rest.is_empty().then_some(Self::Strange(addresses));
        }
        let mut numbers = Vec::new();
        while !octets.is_empty() {
            numbers.push(u16::from_be_bytes(take(octets)?));
        }
        if head != ROLL {
            return Some(Self::Gone {
                near: head & ANSWER == 0,
                ids: numbers,
            });
        }
        let (pairs, rest) = numbers.as_chunks::<2>();
        let entries = pairs.iter().map(|[id, sum]| (*id, *sum)).collect();
        rest.is_empty().then_some(Self::Roll(entries))
    }
}

/// Whether octets are an answer, if they are a frame.
pub fn is_answer(octets: &[u8]) -> bool {
    octets.first().is_some_and(|head| head & ANSWER != 0)
}

const fn other_number(types: Types) -> u16 {
    match types {
        Types::Other(number) => number,
        Types::Together(_) => 0,
    }
}

fn write_head(flags: u8, id: u16, types: Types, out: &mut Vec<u8>) {
    let bits = match types {
        Types::Together(bits) => bits,
        Types::Other(_) => OTHER,
    };
    out.push(flags | bits);
    out.extend_from_slice(&id.to_be_bytes());
    if let Types::Other(kind) = types {
        out.extend_from_slice(&kind.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec;
    use core::str::FromStr;

    use proptest::prelude::*;

    use crate::body::Outcome;

    #[test]
    fn a_question_and_its_answer_are_these_octets() {
        let types = Types::of(RecordType::A);
        let question = Frame::Question {
            id: 0x1234,
            types,
            care: Care::default(),
            watch: false,
            ahead: None,
            name: Name::from_str("abc.com.").unwrap(),
        };
        let octets = question.to_vec();
        assert_eq!(octets, [0x01, 0x12, 0x34, 0x06, 0x93, 0xfa, 0x03]);
        assert_eq!(Frame::read(&octets), Some(question));
        let answer = Frame::Answer {
            id: 0x1234,
            types,
            watched: false,
            bodies: vec![Body {
                outcome: Outcome::Records,
                zone: 0,
                life_s: 288,
                records: vec![vec![192, 0, 2, 1]],
            }],
        };
        let octets = answer.to_vec();
        assert_eq!(octets, [0x81, 0x12, 0x34, 0x01, 0x31, 192, 0, 2, 1]);
        assert_eq!(Frame::read(&octets), Some(answer));
    }

    #[test]
    fn types_go_together_or_alone() {
        let all = [RecordType::A, RecordType::AAAA, RecordType::HTTPS].map(Types::of);
        let all = all.into_iter().reduce(|a, b| a.with(b).unwrap()).unwrap();
        assert_eq!(all.iter().count(), 3);
        let mx = Types::of(RecordType::MX);
        assert!(mx.with(all).is_none() && mx.has(RecordType::MX) && !mx.has(RecordType::A));
        let question = Frame::Question {
            id: 7,
            types: mx,
            care: Care {
                verifies: true,
                unchecked: true,
            },
            watch: false,
            ahead: None,
            name: Name::root(),
        };
        assert_eq!(question.to_vec(), [0x70, 0, 7, 0, 15]);
        assert_eq!(Frame::read(&question.to_vec()), Some(question));
    }

    #[test]
    fn what_is_kept_fresh_is_told_in_these_octets() {
        let ids = vec![7, 8];
        for (frame, octets) in [
            (Frame::Hello(0x0102_0304), &[0xa0, 1, 2, 3, 4][..]),
            (Frame::Roll(vec![(7, 0x0102)]), &[0x20, 0, 7, 1, 2]),
            (Frame::Roll(vec![]), &[0x20]),
            (
                Frame::Gone {
                    near: true,
                    ids: ids.clone(),
                },
                &[0x00, 0, 7, 0, 8],
            ),
            (Frame::Gone { near: false, ids }, &[0x80, 0, 7, 0, 8]),
        ] {
            assert_eq!(frame.to_vec(), octets);
            assert_eq!(Frame::read(octets), Some(frame));
        }
    }

    #[test]
    fn a_long_answer_goes_in_parts() {
        let answer = |octets: usize| Frame::Answer {
            id: 0x1234,
            types: Types::of(RecordType::TXT),
            watched: false,
            bodies: vec![Body {
                records: vec![vec![7; octets]],
                ..Body::empty(Outcome::Message, 60)
            }],
        };
        assert_eq!(answer(1200).to_datagrams(), [answer(1200).to_vec()]);
        let parts = answer(2500).to_datagrams();
        let heads: Vec<&[u8]> = parts.iter().map(|it| &it[..5]).collect();
        let head = |at| [0xe0, 0x12, 0x34, at, 3];
        assert_eq!(heads, [&head(0), &head(1), &head(2)]);
        let whole: Vec<u8> = parts.iter().flat_map(|it| it[5..].to_vec()).collect();
        assert_eq!(Frame::read(&whole), Some(answer(2500)));
        for part in &parts {
            assert_eq!(Frame::read(part).map(|it| it.to_vec()).as_ref(), Some(part));
        }
        // Alone, too many, behind the last, empty.
        for wrong in [[0, 1, 9], [0, 13, 9], [2, 2, 9]] {
            let [at, of, octet] = wrong;
            assert_eq!(Frame::read(&[0xe0, 0, 7, at, of, octet]), None);
        }
        assert_eq!(Frame::read(&[0xe0, 0, 7, 0, 2]), None);
    }

    #[test]
    fn an_address_ahead_stands_before_the_name() {
        let question = Frame::Question {
            id: 7,
            types: Types::of(RecordType::A),
            care: Care::default(),
            watch: false,
            ahead: Some(Ipv4Addr::new(198, 19, 0, 1)),
            name: Name::from_str("abc.com.").unwrap(),
        };
        let octets = [0x29, 0, 7, 198, 19, 0, 1, 0x06, 0x93, 0xfa, 0x03];
        assert_eq!(question.to_vec(), octets);
        assert_eq!(Frame::read(&octets), Some(question));
        let strange = Frame::Strange(vec![Ipv4Addr::new(198, 19, 0, 1)]);
        assert_eq!(strange.to_vec(), [0xc0, 198, 19, 0, 1]);
        assert_eq!(Frame::read(&strange.to_vec()), Some(strange));
        assert!(is_answer(&[0xc0]));
        // Cut short, for who verifies, for another type.
        for wrong in [
            &octets[..6],
            &[0x69, 0, 7, 198, 19, 0, 1, 0],
            &[0x38, 0, 7, 0, 15, 198, 19, 0, 1, 0],
            &[0xc0, 198, 19, 0],
        ] {
            assert_eq!(Frame::read(wrong), None, "{wrong:x?}");
        }
    }

    #[test]
    fn a_sum_is_of_what_is_said_and_not_of_its_life_or_order() {
        let types = Types::of(RecordType::A);
        let body = |life_s, last: [u8; 2]| Body {
            records: last.map(|it| vec![192, 0, 2, it]).to_vec(),
            ..Body::empty(Outcome::Records, life_s)
        };
        let sum = |id, body| sum_of(id, types, &[body]);
        assert_eq!(sum(7, body(60, [1, 2])), sum(7, body(50, [2, 1])));
        assert_ne!(sum(7, body(60, [1, 2])), sum(8, body(60, [1, 2])));
        assert_ne!(sum(7, body(60, [1, 2])), sum(7, body(60, [1, 3])));
    }

    #[test]
    fn what_is_no_frame_is_none() {
        for wrong in [
            &[][..],
            // No type, odd octets of numbers, a sum too long, A as another type, both ways.
            &[0x40, 0, 7, 0x06, 0x93],
            &[0x00, 0, 7, 6],
            &[0x20, 0, 7],
            &[0xa0, 0, 0, 0, 0, 0],
            &[0x10, 0, 7, 0, 1],
            &[0x11, 0, 7, 0, 15],
            // Answers that are short, that go on, that verify.
            &[0x81, 0, 7, 0x20],
            &[0x81, 0, 7, 0x20, 0, 0],
            &[0xc1, 0, 7, 0x20, 0],
        ] {
            assert_eq!(Frame::read(wrong), None, "{wrong:x?}");
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(octets in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(frame) = Frame::read(&octets) {
                prop_assert_eq!(Frame::read(&frame.to_vec()), Some(frame));
            }
        }
    }
}
