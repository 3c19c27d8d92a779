//! What a decompressor tells the compressor (RFC 3095 section 5.7.6, RFC 6846 section 8.3,
//! RFC 5795 section 5.2.4.1).

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

/// How a profile writes FEEDBACK-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A mode, twelve bits of a sequence number, and a check as an option.
    Rfc3095,
    /// Fourteen bits of a sequence number, then a check.
    Rfc6846,
}

/// Options of FEEDBACK-2 (section 5.7.6.2 to 5.7.6.6).
const OPTION_CRC: u8 = 1;
const OPTION_SEQUENCE_INVALID: u8 = 3;

impl Feedback {
    /// Reads the data of a feedback element: FEEDBACK-1 if that is one octet, else FEEDBACK-2,
    /// behind the context's number; `form` says how that context's profile writes it.
    pub(super) fn parse(data: &[u8], large: bool, form: impl Fn(u16) -> Form) -> Option<Self> {
        let mut rest = Cursor(data);
        let number = match data {
            _ if large => rest.sdvl()?.value,
            [first, _, ..] if first >> 4 == 0x0e => u32::from(rest.u8()? & 0x0f),
            _ => 0,
        };
        let number = u16::try_from(number).ok()?;
        let cid = Cid { number, large };
        if let &[sequence] = rest.0 {
            let kind = Kind::Ack(Bits::new(u32::from(sequence), 8));
            return Some(Self { cid, kind });
        }
        // A decompressor without the context doesn't know its profile either, and one that has
        // another flow's lacks everything, whatever it asks for.
        let lacks = |kind| (!matches!(kind, Kind::Ack(_))).then_some(Kind::StaticNack);
        let kind = match form(number) {
            Form::Rfc3095 => {
                read_3095(data, rest).or_else(|| read_6846(data, rest).and_then(lacks))
            }
            Form::Rfc6846 => {
                read_6846(data, rest).or_else(|| read_3095(data, rest).and_then(lacks))
            }
        };
        let kind = kind?;
        Some(Self { cid, kind })
    }

    /// Appends the feedback element: FEEDBACK-2 with a check.
    pub(super) fn put(self, sequence: Option<u32>, form: Form, out: &mut Vec<u8>) {
        let at = out.len();
        out.push(0);
        self.cid.put_feedback(out);
        let kind = match self.kind {
            Kind::Ack(_) => 0,
            Kind::Nack => 1,
            Kind::StaticNack => 2,
        };
        let low = sequence.unwrap_or(0) as u16;
        let head = match form {
            Form::Rfc3095 => kind << 14 | u16::from(chain::mode_bits(true)) << 12 | low & 0x0fff,
            Form::Rfc6846 => kind << 14 | low & 0x3fff,
        };
        out.extend_from_slice(&head.to_be_bytes());
        let check_at = match form {
            Form::Rfc3095 => {
                if sequence.is_none() {
                    out.push(OPTION_SEQUENCE_INVALID << 4);
                }
                out.extend_from_slice(&[OPTION_CRC << 4 | 1, 0]);
                out.len() - 1
            }
            Form::Rfc6846 => {
                out.push(0);
                if sequence.is_none() {
                    out.push(OPTION_SEQUENCE_INVALID << 4);
                }
                at + 1 + self.cid.feedback_octets() + 2
            }
        };
        out[check_at] = crc8(&[&out[at + 1..]]);
        let octets = out.len() - at - 1;
        // Two octets of number and six of feedback at most: the code says 1 to 7, zero that an
        // octet of length follows.
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

fn kind_of(acktype: u16, sequence: Bits) -> Option<Kind> {
    match acktype {
        0 => Some(Kind::Ack(sequence)),
        1 => Some(Kind::Nack),
        2 => Some(Kind::StaticNack),
        _ => None,
    }
}

/// Reads FEEDBACK-2 of RFC 3095 at `rest` in `data`.
fn read_3095(data: &[u8], mut rest: Cursor<'_>) -> Option<Kind> {
    let head = rest.u16()?;
    let kind = kind_of(head >> 14, Bits::new(u32::from(head), 12))?;
    read_options(kind, data, rest)
}

/// Reads FEEDBACK-2 of RFC 6846 at `rest` in `data`.
fn read_6846(data: &[u8], mut rest: Cursor<'_>) -> Option<Kind> {
    let head = rest.u16()?;
    let at = data.len() - rest.0.len();
    let check = rest.u8()?;
    if crc8(&[&data[..at], &[0], &data[at + 1..]]) != check {
        return None;
    }
    let kind = kind_of(head >> 14, Bits::new(u32::from(head), 14))?;
    read_options(kind, data, rest)
}

/// Reads options up to the end; `None` if one makes the feedback worthless.
fn read_options(kind: Kind, data: &[u8], mut rest: Cursor<'_>) -> Option<Kind> {
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
    (!invalid || !matches!(kind, Kind::Ack(_))).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CID: Cid = Cid {
        number: 3,
        large: false,
    };

    fn parse(element: &[u8], form: Form) -> Option<Feedback> {
        let mut rest = Cursor(element);
        let data = Feedback::take(&mut rest).expect("one element");
        assert!(rest.0.is_empty());
        Feedback::parse(data, false, |_| form)
    }

    #[test]
    fn each_profile_family_has_its_own_form() {
        let ack = Feedback {
            cid: CID,
            kind: Kind::Ack(Bits::new(0x1234, 14)),
        };
        let mut element = Vec::new();
        ack.put(Some(0x1234), Form::Rfc6846, &mut element);
        // Code, context 3, acknowledgement and fourteen bits, check.
        assert_eq!(element[..4], [0xf4, 0xe3, 0x12, 0x34]);
        assert_eq!(element[4], crc8(&[&[0xe3, 0x12, 0x34, 0]]));
        assert_eq!(parse(&element, Form::Rfc6846), Some(ack));
        element[4] ^= 1;
        assert_eq!(parse(&element, Form::Rfc6846), None);

        element.clear();
        ack.put(Some(0x1234), Form::Rfc3095, &mut element);
        assert_eq!(element[..5], [0xf5, 0xe3, 0x22, 0x34, 0x11]);
        let kind = Kind::Ack(Bits::new(0x234, 12));
        assert_eq!(
            parse(&element, Form::Rfc3095),
            Some(Feedback { cid: CID, kind })
        );
        // Of a profile that it isn't for, it says nothing.
        assert_eq!(parse(&element, Form::Rfc6846), None);
    }

    #[test]
    fn a_context_that_is_missing_is_told_in_one_form_for_all() {
        let missing = Feedback {
            cid: CID,
            kind: Kind::StaticNack,
        };
        let mut element = Vec::new();
        missing.put(None, Form::Rfc3095, &mut element);
        for form in [Form::Rfc3095, Form::Rfc6846] {
            assert_eq!(parse(&element, form), Some(missing));
        }
    }
}
