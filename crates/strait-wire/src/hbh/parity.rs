//! A frame by which one lost packet of a few can be made again, without a round trip.
//!
//! ```text
//!   parity   0x0C  tag, 3 bits, 0, 5 bits  first, 2  serial, 2  others, 4  sum  check
//! ```
//!
//! Of each packet the sum has what stood in its frame behind the serial, with length and check
//! before it. Whoever has all of them but one adds those to it, and what is left is the missing
//! one. That check is no CRC: the sum of several CRCs is that of their sum, right or wrong.

use alloc::vec::Vec;

use super::{FrameError, Session, check_of};
use crate::bytes::{array_at, u16_at, u32_at};
use crate::hash::hash64;
use crate::segment::SegmentCheck;

/// The first octet of the frame.
pub(super) const PARITY: u8 = 0x0c;
/// Octets before the sum.
const FIXED_OCTETS: usize = 10;
/// Octets of a length in the sum.
const LENGTH_OCTETS: usize = 2;

/// Several packets of a tag, added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity<'a> {
    /// The tag of all of them, 0 to 7.
    pub tag: u8,
    /// The number of the first of them.
    pub first: u16,
    /// Which others there are: the lowest bit is for the number behind the first.
    pub others: u32,
    /// The number of this transmission.
    pub serial: u16,
    /// They, as a [`ParitySum`] adds them.
    pub sum: &'a [u8],
}

impl Parity<'_> {
    /// Numbers that the last of them may be behind the first.
    pub const SPAN_MAX: u16 = u32::BITS as u16;

    /// Appends the frame.
    pub fn emit(&self, check: SegmentCheck, session: Session, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[PARITY, self.tag << 5]);
        out.extend_from_slice(&self.first.to_be_bytes());
        out.extend_from_slice(&self.serial.to_be_bytes());
        out.extend_from_slice(&self.others.to_be_bytes());
        out.extend_from_slice(self.sum);
        let value = check_of(check, Some(session), out.get(start..).unwrap_or_default());
        check.append(value, out);
    }

    /// The numbers of the packets in it.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + use<> {
        let (first, others) = (self.first, self.others);
        let behind = (0..Self::SPAN_MAX).filter(move |bit| others >> bit & 1 == 1);
        core::iter::once(first).chain(behind.map(move |bit| first.wrapping_add(bit + 1)))
    }
}

impl<'a> Parity<'a> {
    /// Reads what stands before the check.
    pub(super) fn parse(body: &'a [u8], check: SegmentCheck) -> Result<Self, FrameError> {
        let parse = || {
            let &[_, tag] = &array_at::<2>(body, 0)?;
            let sum = body.get(FIXED_OCTETS..)?;
            let sound = tag & 31 == 0 && sum.len() >= LENGTH_OCTETS + check.octets();
            Some(Self {
                tag: tag >> 5,
                first: u16_at(body, 2)?,
                serial: u16_at(body, 4)?,
                others: u32_at(body, 6)?,
                sum,
            })
            .filter(|_| sound)
        };
        parse().ok_or(FrameError::Invalid)
    }
}

/// As many octets as a frame's check has, of a hash over a part.
fn value_of(check: SegmentCheck, part: &[u8]) -> Vec<u8> {
    let octets = hash64(0, part).to_be_bytes();
    octets.into_iter().take(check.octets()).collect()
}

/// A sum without carry of what stood in frames; adding the same twice leaves nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParitySum {
    octets: Vec<u8>,
}

impl ParitySum {
    /// The sum in a frame.
    pub fn of(parity: &Parity<'_>) -> Self {
        Self {
            octets: parity.sum.to_vec(),
        }
    }

    /// Adds what stood in a frame behind the serial, in pieces.
    pub fn add(&mut self, check: SegmentCheck, pieces: &[&[u8]]) {
        let part = pieces.concat();
        let length = (part.len() as u16).to_be_bytes();
        let value = value_of(check, &part);
        let octets = length.iter().chain(&value).chain(&part);
        for (place, octet) in octets.enumerate() {
            match self.octets.get_mut(place) {
                Some(there) => *there ^= octet,
                None => self.octets.push(*octet),
            }
        }
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.octets.clear();
    }

    /// As it goes into a frame.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// What stood in a frame, if the sum is of one alone.
    pub fn single(&self, check: SegmentCheck) -> Option<&[u8]> {
        let length = usize::from(u16_at(&self.octets, 0)?);
        let rest = self.octets.get(LENGTH_OCTETS..)?;
        let (value, rest) = rest.split_at_checked(check.octets())?;
        let (octets, padding) = rest.split_at_checked(length)?;
        let sound = length > 0 && value == value_of(check, octets);
        (sound && padding.iter().all(|octet| *octet == 0)).then_some(octets)
    }
}
