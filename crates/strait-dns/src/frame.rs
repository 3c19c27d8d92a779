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
//! IPv6 addresses, HTTPS, each or all. O: another type, alone. A question ends with its [name]; an
//! answer has a [body](crate::body) for each type in this order, and no name: its id says of which
//! question.
//!
//! Frames without any type have no id: what is kept fresh, by A and U, as a sum (4 octets); what is
//! taken to be, by U (pairs of id and end of its sum); and what isn't any more (ids, from both).

use alloc::vec::Vec;

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
                name,
            } => {
                let watch = if *watch { WATCH } else { 0 };
                let verifies = if care.verifies { VERIFIES } else { 0 };
                let unchecked = if care.unchecked { UNCHECKED } else { 0 };
                write_head(watch | verifies | unchecked, *id, *types, &mut out);
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
            Self::Roll(entries) => {
                out.push(ROLL);
                let each = entries.iter().flat_map(|(id, sum)| [*id, *sum]);
                out.extend(each.flat_map(u16::to_be_bytes));
            }
        }
        out
    }

    /// The frame that `octets` are; `None` if they are none.
    pub fn read(mut octets: &[u8]) -> Option<Self> {
        let octets = &mut octets;
        let [head] = take::<1>(octets)?;
        if head & !(ANSWER | UNCHECKED) == 0 {
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
            let care = Care {
                verifies: head & VERIFIES != 0,
                unchecked: head & UNCHECKED != 0,
            };
            let name = name::read(octets)?;
            return Some(Self::Question {
                id,
                types,
                care,
                watch: head & WATCH != 0,
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
