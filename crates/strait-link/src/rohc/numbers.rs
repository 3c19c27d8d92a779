//! Numbers by their low bits (RFC 3095 section 4.5.1), and self-describing lengths (4.5.6).

use alloc::vec::Vec;

/// A field that is sent by its low bits: where the numbers that `k` bits tell apart lie around the
/// one that the receiver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// RTP sequence numbers: mostly upwards, a little reordering allowed (section 5.7).
    RtpSequence,
    /// ESP sequence numbers: the same over 32 bits (section 5.12).
    EspSequence,
    /// Numbers that the compressor itself counts, so that they never go back (section 5.11).
    OwnSequence,
    /// RTP timestamps, scaled or not: a quarter of the interval backwards (section 4.5.3).
    Timestamp,
    /// IP identification less the sequence number (section 4.5.5).
    IdOffset,
}

impl Number {
    /// The bits that such a number has.
    pub(super) const fn mask(self) -> u32 {
        match self {
            Self::EspSequence | Self::Timestamp => u32::MAX,
            Self::RtpSequence | Self::OwnSequence | Self::IdOffset => 0xffff,
        }
    }

    /// How far below the known number the interval of `k` bits begins.
    const fn shift(self, k: u8) -> u32 {
        match self {
            Self::RtpSequence | Self::EspSequence if k <= 4 => 1,
            Self::RtpSequence | Self::EspSequence => low_mask(k - 5),
            Self::OwnSequence => u32::MAX,
            Self::Timestamp => low_mask(k.saturating_sub(2)),
            Self::IdOffset => 0,
        }
    }

    /// The number with the low bits `bits` in the interval around `known`.
    pub(super) const fn decode(self, known: u32, bits: Bits) -> u32 {
        let from = known.wrapping_sub(self.shift(bits.width));
        let ahead = bits.value.wrapping_sub(from) & low_mask(bits.width);
        from.wrapping_add(ahead) & self.mask()
    }

    /// The same number so many rounds of `k` bits further on, for a receiver that tries them.
    pub(super) const fn rounds(self, known: u32, value: u32, k: u8) -> u32 {
        let from = known.wrapping_sub(self.shift(k));
        (value.wrapping_sub(from) & self.mask()) >> k
    }

    /// Whether `k` low bits of `value` are enough for a receiver that knows `known`.
    pub(super) const fn fits(self, known: u32, value: u32, k: u8) -> bool {
        let from = known.wrapping_sub(self.shift(k));
        value.wrapping_sub(from) & self.mask() <= low_mask(k)
    }
}

/// A mask of the low `k` bits.
pub(super) const fn low_mask(k: u8) -> u32 {
    if k >= 32 { u32::MAX } else { (1 << k) - 1 }
}

/// Low bits received so far, the higher ones first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) value: u32,
    pub(super) width: u8,
}

impl Bits {
    /// `width` bits of `value`.
    pub(super) const fn new(value: u32, width: u8) -> Self {
        Self {
            value: value & low_mask(width),
            width,
        }
    }

    /// Appends `width` lower bits.
    pub(super) const fn push(&mut self, value: u32, width: u8) {
        let above = if width >= 32 { 0 } else { self.value << width };
        self.value = above | (value & low_mask(width));
        self.width += width;
    }
}

/// Widths in bits of the self-describing lengths of one to four octets.
pub(super) const SDVL_WIDTHS: [u8; 4] = [7, 14, 21, 29];

/// Appends `value` in a self-describing length of `width` bits, one of [`SDVL_WIDTHS`]; higher bits
/// are left out.
pub(super) fn put_sdvl(value: u32, width: u8, out: &mut Vec<u8>) {
    let value = value & low_mask(width);
    match width {
        0..=7 => out.push(value as u8),
        8..=14 => out.extend_from_slice(&(0x8000 | value as u16).to_be_bytes()),
        15..=21 => out.extend_from_slice(&(0x00c0_0000 | value).to_be_bytes()[1..]),
        _ => out.extend_from_slice(&(0xe000_0000 | value).to_be_bytes()),
    }
}

/// The least of [`SDVL_WIDTHS`] that holds `value` whole.
pub(super) fn sdvl_width(value: u32) -> Option<u8> {
    SDVL_WIDTHS
        .into_iter()
        .find(|&width| value <= low_mask(width))
}

/// Octets that are read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn take(&mut self, octets: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(octets)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|octets| octets[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A self-describing length.
    pub(super) fn sdvl(&mut self) -> Option<Bits> {
        let first = self.u8()?;
        let more = match first {
            0..0x80 => 0,
            0x80..0xc0 => 1,
            0xc0..0xe0 => 2,
            0xe0.. => 3,
        };
        let mut value = u32::from(first);
        for &octet in self.take(more)? {
            value = value << 8 | u32::from(octet);
        }
        Some(Bits::new(value, SDVL_WIDTHS[more]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bits_of_a_sequence_number_reach_one_back_and_fourteen_ahead() {
        let sequence = Number::RtpSequence;
        for known in [100u32, 0xffff, 0] {
            let at = |step: i32| known.wrapping_add_signed(step) & 0xffff;
            assert!(!sequence.fits(known, at(-2), 4));
            assert!(sequence.fits(known, at(-1), 4));
            assert!(sequence.fits(known, at(14), 4));
            assert!(!sequence.fits(known, at(15), 4));
            for step in -1..=14 {
                assert_eq!(sequence.decode(known, Bits::new(at(step), 4)), at(step));
            }
        }
    }

    #[test]
    fn own_numbers_only_go_ahead() {
        assert!(!Number::OwnSequence.fits(7, 7, 4));
        assert!(Number::OwnSequence.fits(7, 8, 4));
        assert!(Number::OwnSequence.fits(7, 23, 4));
        assert!(!Number::OwnSequence.fits(7, 24, 4));
        assert_eq!(Number::OwnSequence.decode(7, Bits::new(7, 4)), 23);
    }

    #[test]
    fn every_bit_says_the_number_whatever_is_known() {
        for known in [0, 1, 0x8000_0000, u32::MAX] {
            for value in [0, 5, 0x7fff_ffff, u32::MAX] {
                assert!(Number::Timestamp.fits(known, value, 32));
                let bits = Bits::new(value, 32);
                assert_eq!(Number::Timestamp.decode(known, bits), value);
            }
        }
    }

    #[test]
    fn lengths_describe_themselves() {
        for (value, octets) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 128]),
            (1620, &[0x86, 0x54]),
            (0x3fff, &[0xbf, 0xff]),
            (0x4000, &[0xc0, 0x40, 0]),
            (0x1f_ffff, &[0xdf, 0xff, 0xff]),
            (0x20_0000, &[0xe0, 0x20, 0, 0]),
            (0x1fff_ffff, &[0xff, 0xff, 0xff, 0xff]),
        ] {
            let width = sdvl_width(value).expect("29 bits hold it");
            let mut out = Vec::new();
            put_sdvl(value, width, &mut out);
            assert_eq!(out, octets);
            let mut cursor = Cursor(octets);
            assert_eq!(cursor.sdvl(), Some(Bits::new(value, width)));
            assert!(cursor.0.is_empty());
            assert_eq!(Cursor(&octets[1..]).0.len() + 1, octets.len());
        }
        assert_eq!(sdvl_width(0x2000_0000), None);
        assert_eq!(Cursor(&[0xe0, 0, 0]).sdvl(), None);
    }
}
