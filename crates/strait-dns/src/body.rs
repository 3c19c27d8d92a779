//! What is known of one name and type: records, or why there are none; in few octets.
//!
//! ```text
//! +---------+-----------+------+---------------------------
//! | outcome |  records  | life | records, or a cause
//! |  3 bits |  5 bits   | 1 B  |
//! +---------+-----------+------+---------------------------
//! ```
//!
//! Life is a number of seconds with a mantissa of three bits, rounded down. A record is its data
//! alone: of addresses so many octets as they have, of others behind their length in one octet, or
//! two from 128 on; none is empty. With 31 in the field, the number of records stands in an octet
//! behind life. What is missing has labels of its zone there, the last ones of the name.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::RecordType;

use crate::frame::{DATAGRAM_OCTETS, PARTS_MAX};

/// Records of one name and type, at most.
pub const RECORDS_MAX: usize = 255;
/// Octets of all of them, at most: what goes between the gateways in the parts that there may be.
pub const OCTETS_MAX: usize = (PARTS_MAX - 1) * DATAGRAM_OCTETS;
/// The longest life in seconds: a week, as RFC 8767 section 4 has it.
pub const LIFE_MAX_S: u32 = 604_800;

/// Labels of a zone, at most: no deeper one is told.
const ZONE_MAX: u8 = 31;

/// From this on the number of records has an octet of its own.
const MANY: usize = 31;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There are records.
    Records,
    /// There is the name, and nothing of this type.
    NoData,
    /// There is no such name.
    NoName,
    /// A whole message, with all that proves it: for those who verify.
    Message,
    /// Nothing is known, for a cause by its number in RFC 8914.
    Failure(u16),
}

/// What is known of one name and type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// What became of the question.
    pub outcome: Outcome,
    /// For so many seconds.
    pub life_s: u32,
    /// Of what is missing: labels of the zone that says so.
    pub zone: u8,
    /// The records' data as in a message, without compression; or the message.
    pub records: Vec<Vec<u8>>,
}

impl Body {
    /// The first address, if there is one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        let known = self.outcome == Outcome::Records;
        let record = &self.records.first().filter(|_| known)?[..];
        let v4 = record.try_into().map(|it: [u8; 4]| IpAddr::from(it));
        v4.or_else(|_| record.try_into().map(|it: [u8; 16]| IpAddr::from(it)))
            .ok()
    }

    /// Nothing but an outcome.
    pub const fn empty(outcome: Outcome, life_s: u32) -> Self {
        Self {
            outcome,
            life_s,
            zone: 0,
            records: Vec::new(),
        }
    }

    /// What is missing in a zone with so many labels.
    pub const fn missing(outcome: Outcome, life_s: u32, zone: u8) -> Self {
        Self {
            outcome,
            life_s,
            zone: if zone > ZONE_MAX { ZONE_MAX } else { zone },
            records: Vec::new(),
        }
    }

    /// What it says, for people.
    pub fn told(&self, kind: RecordType) -> String {
        match self.outcome {
            Outcome::Records => {
                let records = self.records.iter().map(|it| record_told(kind, it));
                records.collect::<Vec<_>>().join(", ")
            }
            Outcome::NoData => "nothing of this type".into(),
            Outcome::NoName => "no such name".into(),
            Outcome::Message => "a whole message, for a client that verifies".into(),
            Outcome::Failure(cause) => format!("failed, cause {cause} of RFC 8914"),
        }
    }

    /// Octets that it takes.
    pub fn octets(&self) -> usize {
        self.records.iter().map(|it| it.len() + 2).sum::<usize>() + 4
    }

    /// Whether it says what there is, or that there is nothing.
    pub const fn is_known(&self) -> bool {
        !matches!(self.outcome, Outcome::Failure(_))
    }

    /// Whether it says that there is nothing.
    pub const fn is_missing(&self) -> bool {
        matches!(self.outcome, Outcome::NoData | Outcome::NoName)
    }

    /// Appends it. `kind` is the type that was asked for.
    pub fn write(&self, kind: RecordType, out: &mut Vec<u8>) {
        let outcome: u8 = match self.outcome {
            Outcome::Records => 0,
            Outcome::NoData => 1,
            Outcome::NoName => 2,
            Outcome::Message => 3,
            Outcome::Failure(_) => 4,
        };
        let count = self.records.len().min(RECORDS_MAX);
        if self.is_missing() {
            out.extend_from_slice(&[outcome << 5 | self.zone, short_life(self.life_s)]);
            return;
        }
        out.push(outcome << 5 | count.min(MANY) as u8);
        out.push(short_life(self.life_s));
        if count >= MANY {
            out.push(count as u8);
        }
        if let Outcome::Failure(cause) = self.outcome {
            out.extend_from_slice(&cause.to_be_bytes());
        }
        for record in &self.records[..count] {
            if self.fixed(kind).is_none() {
                match record.len() {
                    short @ ..128 => out.push(short as u8),
                    long => out.extend_from_slice(&(0x8000 | long as u16).to_be_bytes()),
                }
            }
            out.extend_from_slice(record);
        }
    }

    /// Takes one off `octets`; `None` if there is none.
    pub fn read(kind: RecordType, octets: &mut &[u8]) -> Option<Self> {
        let [first, life] = take::<2>(octets)?;
        let mut count = usize::from(first & 0x1f);
        let longest = long_life(short_life(LIFE_MAX_S));
        let life_s = long_life(life).min(longest);
        let missing = |outcome| Some(Self::missing(outcome, life_s, first & 0x1f));
        match first >> 5 {
            1 => return missing(Outcome::NoData),
            2 => return missing(Outcome::NoName),
            _ => {}
        }
        if count == MANY {
            let [many] = take::<1>(octets)?;
            count = Some(usize::from(many)).filter(|many| *many >= MANY)?;
        }
        let outcome = match first >> 5 {
            0 => Outcome::Records,
            3 => Outcome::Message,
            4 => Outcome::Failure(u16::from_be_bytes(take(octets)?)),
            _ => return None,
        };
        let right = match outcome {
            Outcome::Records => count > 0,
            Outcome::Message => count == 1,
            _ => count == 0,
        };
        let mut body = Self::empty(outcome, life_s);
        if !right {
            return None;
        }
        for _ in 0..count {
            let length = match body.fixed(kind) {
                Some(length) => length,
                None => read_length(octets)?,
            };
            let (record, rest) = octets.split_at_checked(length)?;
            body.records.push(record.to_vec());
            *octets = rest;
        }
        Some(body)
    }

    /// Octets that each record has, where the type says it.
    fn fixed(&self, kind: RecordType) -> Option<usize> {
        match kind {
            _ if self.outcome != Outcome::Records => None,
            RecordType::A => Some(4),
            RecordType::AAAA => Some(16),
            _ => None,
        }
    }

    /// Whether it can be written: its records have the octets that they are to have.
    pub fn is_right(&self, kind: RecordType) -> bool {
        let fits = |it: &Vec<u8>| match self.fixed(kind) {
            Some(length) => it.len() == length,
            None => !it.is_empty(),
        };
        self.records.len() <= RECORDS_MAX
            && self.octets() <= OCTETS_MAX
            && self.records.iter().all(fits)
    }
}

fn record_told(kind: RecordType, octets: &[u8]) -> String {
    match (kind, octets.len()) {
        (RecordType::A | RecordType::AAAA, 4) => {
            let octets = octets.first_chunk::<4>().copied().unwrap_or_default();
            Ipv4Addr::from(octets).to_string()
        }
        (RecordType::AAAA, 16) => {
            let octets = octets.first_chunk::<16>().copied().unwrap_or_default();
            Ipv6Addr::from(octets).to_string()
        }
        (_, octets) => format!("{octets} octets"),
    }
}

fn read_length(octets: &mut &[u8]) -> Option<usize> {
    let [first] = take::<1>(octets)?;
    if first < 128 {
        return Some(usize::from(first)).filter(|short| *short > 0);
    }
    let [second] = take::<1>(octets)?;
    let long = usize::from(u16::from_be_bytes([first & 0x7f, second]));
    Some(long).filter(|long| *long >= 128)
}

/// Takes octets off the front.
pub(crate) fn take<const N: usize>(octets: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = octets.split_first_chunk::<N>()?;
    *octets = rest;
    Some(*first)
}

/// Seconds in an octet: five bits of exponent before three of mantissa, rounded down.
fn short_life(seconds: u32) -> u8 {
    let seconds = seconds.min(LIFE_MAX_S);
    if seconds < 8 {
        return seconds as u8;
    }
    let exponent = seconds.ilog2() - 3;
    (exponent as u8 + 1) << 3 | (seconds >> exponent & 7) as u8
}

fn long_life(octet: u8) -> u32 {
    let mantissa = u32::from(octet & 7);
    match octet >> 3 {
        0 => mantissa,
        // Beyond any that is written.
        exponent @ 1..=28 => (8 + mantissa) << (exponent - 1),
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec;

    use proptest::prelude::*;

    #[test]
    fn an_address_is_six_octets() {
        let body = Body {
            outcome: Outcome::Records,
            zone: 0,
            life_s: 300,
            records: vec![vec![192, 0, 2, 1]],
        };
        let mut out = Vec::new();
        body.write(RecordType::A, &mut out);
        // 288 s are 9 · 2^5.
        assert_eq!(out, [0x01, 6 << 3 | 1, 192, 0, 2, 1]);
        let back = Body::read(RecordType::A, &mut &out[..]).unwrap();
        assert_eq!((back.life_s, &back.records), (288, &body.records));
    }

    #[test]
    fn life_is_rounded_down_by_an_eighth_at_most() {
        for seconds in (0..70_000).chain([LIFE_MAX_S - 1, LIFE_MAX_S, u32::MAX]) {
            let back = long_life(short_life(seconds));
            let capped = seconds.min(LIFE_MAX_S);
            assert!(
                back <= capped && back >= capped - capped / 9,
                "{seconds}: {back}"
            );
        }
        assert_eq!(long_life(255), u32::MAX);
    }

    #[test]
    fn records_of_all_lengths_come_back() {
        for length in [1, 127, 128, 300] {
            for count in [1, 30, 31, 32, 255] {
                let body = Body {
                    outcome: Outcome::Records,
                    zone: 0,
                    life_s: 5,
                    records: vec![vec![7; length]; count],
                };
                let mut out = Vec::new();
                body.write(RecordType::TXT, &mut out);
                let mut rest = &out[..];
                assert_eq!(Body::read(RecordType::TXT, &mut rest), Some(body));
                assert!(rest.is_empty());
                assert_eq!(
                    Body::read(RecordType::TXT, &mut &out[..out.len() - 1]),
                    None
                );
            }
        }
    }

    #[test]
    fn an_outcome_has_the_records_that_fit_it() {
        for wrong in [
            // No records, two messages, an outcome of nobody.
            &[0x00, 0][..],
            &[0x62, 0, 0, 0],
            &[0xa0, 0],
            // A cause cut short, few records written as many, a short length as a long one.
            &[0x80, 0, 22],
            &[0x1f, 0, 30],
            &[0x01, 0, 0x80, 0x01, 0],
            // A record of nothing.
            &[0x01, 0, 0],
        ] {
            assert_eq!(
                Body::read(RecordType::TXT, &mut &wrong[..]),
                None,
                "{wrong:x?}"
            );
        }
        // What is missing has the labels of its zone, 31 at most.
        let mut out = Vec::new();
        Body::missing(Outcome::NoName, 60, 40).write(RecordType::A, &mut out);
        assert_eq!(out, [0x5f, 0x1f]);
        let back = Body::read(RecordType::A, &mut &out[..]).unwrap();
        assert_eq!(back, Body::missing(Outcome::NoName, 60, 31));
        let failed = Body::empty(Outcome::Failure(22), 1);
        let mut out = Vec::new();
        failed.write(RecordType::A, &mut out);
        assert_eq!(out, [0x80, 1, 0, 22]);
        assert_eq!(Body::read(RecordType::A, &mut &out[..]), Some(failed));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            for kind in [RecordType::A, RecordType::MX] {
                let mut rest = &octets[..];
                if let Some(body) = Body::read(kind, &mut rest) {
                    let mut out = Vec::new();
                    body.write(kind, &mut out);
                    prop_assert_eq!(Body::read(kind, &mut &out[..]), Some(body));
                }
            }
        }
    }
}
