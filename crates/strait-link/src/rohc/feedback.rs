//! What a decompressor tells the compressor (RFC 3095 section 5.7.6, RFC 5795 section 5.2.4.1).

use alloc::vec::Vec;

use super::check::crc8;
use super::numbers::{Bits, Cursor};
use super::{Cid, chain};

/// What feedback asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The packet with these low bits of a sequence number has been taken in.
    Ack(Bits),
    /// What changes is unknown.
    Nack,
    /// Everything is unknown.
    StaticNack,
}

/// Feedback on one context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feedback {
    pub(super) cid: Cid,
    pub(super) kind: Kind,
}

/// Options of FEEDBACK-2 (section 5.7.6.2 to 5.7.6.6).
const OPTION_CRC: u8 = 1;
const OPTION_SEQUENCE_INVALID: u8 = 3;

impl Feedback {
    /// Reads the data of a feedback element: FEEDBACK-1 if that is one octet, else FEEDBACK-2,
    /// behind the context's number.
    pub(super) fn parse(data: &[u8], large: bool) -> Option<Self> {
        let mut rest = Cursor(data);
        let number = match data {
            _ if large => rest.sdvl()?.value,
            [first, _, ..] if first >> 4 == 0x0e => u32::from(rest.u8()? & 0x0f),
            _ => 0,
        };
        let cid = Cid {
            number: u16::try_from(number).ok()?,
            large,
        };
        if let &[sequence] = rest.0 {
            let kind = Kind::Ack(Bits::new(u32::from(sequence), 8));
            return Some(Self { cid, kind });
        }
        let head = rest.u16()?;
        let sequence = Bits::new(u32::from(head), 12);
        let kind = match head >> 14 {
            0 => Kind::Ack(sequence),
            1 => Kind::Nack,
            2 => Kind::StaticNack,
            _ => return None,
        };
        let mut invalid = false;
        while let Some(option) = rest.u8() {
            let at = data.len() - rest.0.len();
            let value = rest.take(usize::from(option & 0x0f))?;
            match option >> 4 {
                OPTION_CRC => {
                    let &[check] = value else {
                        return None;
                    };
                    if crc8(&[&data[..at], &[0], &data[at + 1..]]) != check {
                        return None;
                    }
                }
                OPTION_SEQUENCE_INVALID => invalid = true,
                // Others tell what we don't need: skipped, as RFC 3095 section 5.7.6.2 asks.
                _ => {}
            }
        }
        if invalid && matches!(kind, Kind::Ack(_)) {
            return None;
        }
        Some(Self { cid, kind })
    }

    /// Appends the feedback element: FEEDBACK-2 with a check.
    pub(super) fn put(self, sequence: Option<u32>, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(0);
        self.cid.put_feedback(out);
        let kind = match self.kind {
            Kind::Ack(_) => 0,
            Kind::Nack => 1,
            Kind::StaticNack => 2,
        };
        let mode = u16::from(chain::mode_bits(true));
        let low = sequence.unwrap_or(0) as u16 & 0x0fff;
        out.extend_from_slice(&(kind << 14 | mode << 12 | low).to_be_bytes());
        if sequence.is_none() {
            out.push(OPTION_SEQUENCE_INVALID << 4);
        }
        out.extend_from_slice(&[OPTION_CRC << 4 | 1, 0]);
        let check = crc8(&[&out[at + 1..]]);
        let octets = out.len() - at - 1;
        // Two octets of number and six of feedback at most: the code says 1 to 7, zero that an
        // octet of length follows.
        if let Some(last) = out.last_mut() {
            *last = check;
        }
        if octets < 8 {
            out[at] = 0xf0 | octets as u8;
        } else {
            out[at] = 0xf0;
            out.insert(at + 1, octets as u8);
        }
    }

    /// Takes a feedback element, whose first octet is `11110` and a code, from the front; gives
    /// its data.
    pub(super) fn take<'a>(rest: &mut Cursor<'a>) -> Option<&'a [u8]> {
        let octets = match rest.u8()? & 7 {
            0 => rest.u8()?,
            code => code,
        };
        rest.take(usize::from(octets))
    }
}
