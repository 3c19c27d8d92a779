//! The TCP profile (RFC 6846): IP and TCP with its options.
//!
//! Other than the older profiles, this one numbers packets by itself (*master sequence number*) and
//! has two sets of formats: one for packets whose identification counts, one for all others.

mod anchors;
mod chain;
mod common;
mod decode;
mod encode;
mod formats;
mod header;
mod options;

pub(super) use decode::Decoder;
pub(super) use encode::Encoder;
pub(super) use header::Header;

use super::numbers::low_mask;

/// How identifications go (RFC 6846 section 6.1.2); the numbers are the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ids {
    Sequential = 0,
    Swapped = 1,
    /// Without order, or none at all: IPv6.
    Random = 2,
    Zero = 3,
}

impl Ids {
    const fn numbered(number: u8) -> Self {
        match number & 3 {
            0 => Self::Sequential,
            1 => Self::Swapped,
            2 => Self::Random,
            _ => Self::Zero,
        }
    }

    /// Whether compressed headers say identifications by low bits.
    const fn counts(self) -> bool {
        matches!(self, Self::Sequential | Self::Swapped)
    }

    /// Identification less sequence number.
    const fn offset(self, id: u16, msn: u16) -> u16 {
        let id = if matches!(self, Self::Swapped) {
            id.swap_bytes()
        } else {
            id
        };
        id.wrapping_sub(msn)
    }

    /// The identification that `offset` and the sequence number stand for.
    const fn at(self, offset: u16, msn: u16) -> u16 {
        let id = offset.wrapping_add(msn);
        if matches!(self, Self::Swapped) {
            id.swap_bytes()
        } else {
            id
        }
    }
}

/// What both ends of a context know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// The last packet's headers.
    header: Header,
    /// The master sequence number.
    msn: u16,
    ids: Ids,
    /// The same of a header ahead: without order, or zero.
    outer_ids: Ids,
    /// Congestion bits and reserved bits are said in every packet.
    ecn_used: bool,
    /// What acknowledgement numbers are multiples of, but for a residue; zero while unknown.
    ack_stride: u16,
}

/// `width` low bits of `value`.
const fn low(value: u32, width: u8) -> u64 {
    (value & low_mask(width)) as u64
}

/// Whether `width` low bits of `value` tell it to whoever knows `known`: the interval begins
/// `back` below that (−1: one above), numbers have `mask`.
const fn fits(known: u32, value: u32, width: u8, back: i32, mask: u32) -> bool {
    let from = known.wrapping_sub(back as u32);
    value.wrapping_sub(from) & mask <= low_mask(width)
}

/// The number with the low bits `bits` in the interval around `known`.
const fn near(known: u32, bits: u32, width: u8, back: i32, mask: u32) -> u32 {
    let from = known.wrapping_sub(back as u32);
    let ahead = bits.wrapping_sub(from) & low_mask(width);
    from.wrapping_add(ahead) & mask
}
