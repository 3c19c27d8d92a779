//! The published format of reliable hops: HBH, of «Transparent IP Proxy for Tactical Ad hoc
//! Networks» (Marques et al., 2012), figure 3.
//!
//! ```text
//!    0 1 2       7 8            15 16                          31
//!   ┌─┬─┬─────────┬───────────────┬──────────────────────────────┐
//!   │T│R│ option  │ sequence      │ flow                         │
//!   ├─┴─┴─────────┴───────────────┼───────────────┬──────────────┤
//!   │ check                       │ protocol      │ reserved     │
//!   └─────────────────────────────┴───────────────┴──────────────┘
//! ```
//!
//! A data message (`T` = 0) is an IP packet with this header between its own and its payload, and
//! protocol 253 (RFC 3692) in the place of the one that is kept in here. An acknowledgement
//! (`T` = 1) is the header and, for each range that came behind the missing one, its first and its
//! last number.
//!
//! What the paper leaves open: the check is the CRC-16 of the other format, over the incarnations
//! of sender and receiver and the whole frame; the option of a data message is how many numbers
//! before it the oldest is that is still sent; the reserved octet is 0, or one more than the
//! retries that are left on the whole path; and an acknowledgement, which goes to a neighbour that
//! is known, has no IP header.

use alloc::vec::Vec;

use super::{FrameError, HELLO, Hello, Session, crc16};
use crate::bytes::{array_at, put_at, u16_at};
use crate::ip::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, header_checksum};

/// Octets of the header.
pub const HEADER_OCTETS: usize = 8;
/// Ranges that an acknowledgement can tell of, and numbers between the oldest packet that is still
/// sent and the newest: both have six bits.
pub const SPAN_MAX: u8 = 63;
/// The most octets of a frame without packet.
pub const CONTROL_OCTETS_MAX: usize = HEADER_OCTETS + 2 * SPAN_MAX as usize;

/// The IP protocol of data messages: for experiments (RFC 3692).
const PROTOCOL: u8 = 253;
const ACK: u8 = 0x80;
const REQUEST: u8 = 0x40;
const OPTION: u8 = 0x3f;
/// Place of the check in the header.
const CHECK_AT: usize = 4;

/// What stands before a packet's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its number in its flow, the same in all its transmissions.
    pub seq: u8,
    /// Its flow.
    pub flow: u16,
    /// An acknowledgement is asked for.
    pub request: bool,
    /// How many numbers before it is the oldest that is still sent, [`SPAN_MAX`] at most.
    pub behind: u8,
    /// Retries that are left on the whole path, if they are counted.
    pub left: Option<u8>,
}

/// What a receiver has of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The number of the first packet that is missing.
    pub next: u8,
    /// The flow.
    pub flow: u16,
    /// Packets come in faster than they go out.
    pub congested: bool,
    /// First and last number of what came behind the missing one, [`SPAN_MAX`] ranges at most.
    pub ranges: &'a [[u8; 2]],
}

/// Any frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A hello.
    Hello(Hello),
    /// An IP packet as it was, and what stood in it.
    Data(Data, Vec<u8>),
    /// An acknowledgement.
    Ack(Ack<'a>),
}

/// Where a packet's payload begins, and where its protocol stands.
fn layout(packet: &[u8]) -> Option<(usize, usize)> {
    let first = *packet.first()?;
    let (octets, least, protocol_at) = match first >> 4 {
        4 => (usize::from(first & 15) * 4, IPV4_HEADER_OCTETS, 9),
        6 => (IPV6_HEADER_OCTETS, IPV6_HEADER_OCTETS, 6),
        _ => return None,
    };
    (least..=packet.len())
        .contains(&octets)
        .then_some((octets, protocol_at))
}

/// Writes the length of an IP packet into its header, and what follows from it.
fn put_length(packet: &mut [u8], header_octets: usize) -> Option<()> {
    if packet.first()? >> 4 == 4 {
        let length = u16::try_from(packet.len()).ok()?;
        put_at(packet, 2, length.to_be_bytes());
        put_at(packet, 10, [0, 0]);
        let sum = header_checksum(packet.get(..header_octets)?);
        put_at(packet, 10, sum.to_be_bytes());
    } else {
        let length = u16::try_from(packet.len().checked_sub(IPV6_HEADER_OCTETS)?).ok()?;
        put_at(packet, 4, length.to_be_bytes());
    }
    Some(())
}

/// Whether the header's own length is right, and its checksum.
fn is_sound(packet: &[u8], header_octets: usize) -> bool {
    let header = packet.get(..header_octets).unwrap_or_default();
    if header.first().is_some_and(|first| first >> 4 == 4) {
        u16_at(header, 2).map(usize::from) == Some(packet.len()) && header_checksum(header) == 0
    } else {
        u16_at(header, 4).map(|it| usize::from(it) + IPV6_HEADER_OCTETS) == Some(packet.len())
    }
}

/// The check of a frame whose header begins at `at`: as if its own place were empty.
fn check_of(frame: &[u8], at: usize, session: Session) -> Option<u16> {
    let (before, behind) = frame.split_at_checked(at + CHECK_AT)?;
    let behind = behind.get(2..)?;
    Some(crc16(&[&session.octets(), before, &[0, 0], behind]))
}

/// Puts the check into a frame that begins at `start` of `out`.
fn seal(out: &mut [u8], at: usize, session: Session) -> Option<()> {
    let check = check_of(out, at, session)?;
    put_at(out, at + CHECK_AT, check.to_be_bytes());
    Some(())
}

impl Data {
    /// Appends the frame of an IP packet. `None`, and nothing, if it is none or too long.
    pub fn emit(&self, packet: &[u8], session: Session, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let done = self.append(packet, session, out);
        if done.is_none() {
            out.truncate(start);
        }
        done
    }

    fn append(&self, packet: &[u8], session: Session, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let (header_octets, protocol_at) = layout(packet)?;
        let (header, payload) = packet.split_at_checked(header_octets)?;
        let protocol = *header.get(protocol_at)?;
        out.extend_from_slice(header);
        let request = if self.request { REQUEST } else { 0 };
        out.extend_from_slice(&[request | self.behind & OPTION, self.seq]);
        out.extend_from_slice(&self.flow.to_be_bytes());
        out.extend_from_slice(&[0, 0, protocol]);
        out.push(self.left.map_or(0, |left| left.saturating_add(1)));
        out.extend_from_slice(payload);
        let frame = out.get_mut(start..)?;
        put_at(frame, protocol_at, [PROTOCOL]);
        put_length(frame, header_octets)?;
        seal(frame, header_octets, session)
    }

    fn parse(frame: &[u8], session: Session) -> Result<(Self, Vec<u8>), FrameError> {
        let invalid = FrameError::Invalid;
        let (header_octets, protocol_at) = layout(frame).ok_or(invalid)?;
        let own: [u8; HEADER_OCTETS] = array_at(frame, header_octets).ok_or(invalid)?;
        if check_of(frame, header_octets, session) != u16_at(&own, CHECK_AT) {
            return Err(FrameError::BadCheck);
        }
        let sound = is_sound(frame, header_octets) && frame.get(protocol_at) == Some(&PROTOCOL);
        if !sound || own[0] & ACK != 0 {
            return Err(invalid);
        }
        let mut packet = Vec::with_capacity(frame.len() - HEADER_OCTETS);
        packet.extend_from_slice(&frame[..header_octets]);
        packet.extend_from_slice(&frame[header_octets + HEADER_OCTETS..]);
        put_at(&mut packet, protocol_at, [own[6]]);
        put_length(&mut packet, header_octets).ok_or(invalid)?;
        let data = Self {
            seq: own[1],
            flow: u16::from_be_bytes([own[2], own[3]]),
            request: own[0] & REQUEST != 0,
            behind: own[0] & OPTION,
            left: own[7].checked_sub(1),
        };
        Ok((data, packet))
    }
}

impl<'a> Ack<'a> {
    /// Appends the frame.
    pub fn emit(&self, session: Session, out: &mut Vec<u8>) {
        let start = out.len();
        let ranges = self.ranges.get(..usize::from(SPAN_MAX));
        let ranges = ranges.unwrap_or(self.ranges);
        let congested = if self.congested { REQUEST } else { 0 };
        out.extend_from_slice(&[ACK | congested | ranges.len() as u8, self.next]);
        out.extend_from_slice(&self.flow.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(ranges.as_flattened());
        seal(out.get_mut(start..).unwrap_or_default(), 0, session);
    }

    fn parse(frame: &'a [u8], session: Session) -> Result<Self, FrameError> {
        let (own, ranges) = frame
            .split_first_chunk::<HEADER_OCTETS>()
            .ok_or(FrameError::Invalid)?;
        if check_of(frame, 0, session) != u16_at(own, CHECK_AT) {
            return Err(FrameError::BadCheck);
        }
        let (ranges, rest) = ranges.as_chunks::<2>();
        let told = usize::from(own[0] & OPTION);
        if ranges.len() != told || !rest.is_empty() || own[6..] != [0, 0] {
            return Err(FrameError::Invalid);
        }
        Ok(Self {
            next: own[1],
            flow: u16::from_be_bytes([own[2], own[3]]),
            congested: own[0] & REQUEST != 0,
            ranges,
        })
    }
}

/// Reads a frame that came from a neighbour. `session` is the two incarnations as that neighbour
/// names them; without it, only hellos can be read.
///
/// # Errors
/// Why it is none.
pub fn parse(frame: &[u8], session: Option<Session>) -> Result<Frame<'_>, FrameError> {
    let first = *frame.first().ok_or(FrameError::Invalid)?;
    if first == HELLO {
        return Hello::parse_checked(frame, super::SegmentCheck::Short).map(Frame::Hello);
    }
    let data = matches!(first >> 4, 4 | 6);
    if !data && first & ACK == 0 {
        return Err(FrameError::Invalid);
    }
    let session = session.ok_or(FrameError::BadCheck)?;
    if data {
        Data::parse(frame, session).map(|(data, packet)| Frame::Data(data, packet))
    } else {
        Ack::parse(frame, session).map(Frame::Ack)
    }
}

#[cfg(test)]
#[path = "paper_tests.rs"]
mod tests;
