//! The formats of compressed base headers as tables, which both ends read (RFC 6846 section 8.2).

/// One field of a base header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Bits that tell the format.
    Mark(u8),
    Msn,
    Push,
    /// CRC-3 or CRC-7 over the header, as its width says.
    Check,
    /// Low bits of the sequence number; how far below the known one their interval begins.
    Sequence(i32),
    /// Low bits of the sequence number in units of the payload's length.
    SequenceScaled,
    /// Low bits of the acknowledgement number.
    Ack(i32),
    /// Low bits of the acknowledgement number in units of its stride.
    AckScaled,
    /// Low bits of the identification's offset.
    Id(i32),
    Window,
    Rsf,
    HopLimit,
    EcnUsed,
    HasList,
}

/// How far below the known one the intervals of some fields begin.
pub(super) const MSN_BACK: i32 = 4;
pub(super) const HOP_LIMIT_BACK: i32 = 3;
pub(super) const SEQUENCE_SCALED_BACK: i32 = 7;
pub(super) const ACK_SCALED_BACK: i32 = 3;
pub(super) const WINDOW_BACK: i32 = 16383;

/// What a packet has to say, as bits; a format may be used if it says all of it.
pub(super) mod say {
    pub(in super::super) const SEQUENCE: u8 = 1;
    pub(in super::super) const ACK: u8 = 2;
    pub(in super::super) const WINDOW: u8 = 4;
    /// RST, SYN or FIN.
    pub(in super::super) const RSF: u8 = 8;
    pub(in super::super) const HOP_LIMIT: u8 = 16;
    pub(in super::super) const ECN_USED: u8 = 32;
    pub(in super::super) const LIST: u8 = 64;
    /// What only the common format says.
    pub(in super::super) const COMMON: u8 = 128;
}

/// A base header: its fields and their widths in bits, 64 altogether at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) parts: &'static [(Part, u8)],
    /// See [`say`].
    pub(super) says: u8,
}

impl Format {
    const fn new(says: u8, parts: &'static [(Part, u8)]) -> Self {
        Self { parts, says }
    }

    pub(super) const fn octets(&self) -> usize {
        let (mut bits, mut at) = (0, 0);
        while at < self.parts.len() {
            bits += self.parts[at].1 as usize;
            at += 1;
        }
        bits / 8
    }

    /// Whether a base header that begins with this octet has this format.
    pub(super) fn begins(&self, first: u8) -> bool {
        matches!(self.parts.first(), Some(&(Mark(mark), width)) if first >> (8 - width) == mark)
    }
}

use Part::{
    Ack, AckScaled, Check, EcnUsed, HasList, HopLimit, Id, Mark, Msn, Push, Rsf, Sequence,
    SequenceScaled, Window,
};

const ALL: u8 = say::SEQUENCE | say::ACK | say::RSF | say::HOP_LIMIT | say::ECN_USED | say::LIST;

/// Where identifications don't count (`rnd_1` to `rnd_8`), the shorter ones first.
pub(super) const RANDOM: [Format; 8] = [
    // rnd_2
    Format::new(
        say::SEQUENCE,
        &[
            (Mark(0b1100), 4),
            (SequenceScaled, 4),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // rnd_4
    Format::new(
        say::ACK,
        &[
            (Mark(0b1101), 4),
            (AckScaled, 4),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // rnd_3
    Format::new(
        say::ACK,
        &[
            (Mark(0), 1),
            (Ack(8191), 15),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // rnd_1
    Format::new(
        say::SEQUENCE,
        &[
            (Mark(0b10_1110), 6),
            (Sequence(65535), 18),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // rnd_6
    Format::new(
        say::SEQUENCE | say::ACK,
        &[
            (Mark(0b1010), 4),
            (Check, 3),
            (Push, 1),
            (Ack(16383), 16),
            (Msn, 4),
            (SequenceScaled, 4),
        ],
    ),
    // rnd_5
    Format::new(
        say::SEQUENCE | say::ACK,
        &[
            (Mark(0b100), 3),
            (Push, 1),
            (Msn, 4),
            (Check, 3),
            (Sequence(8191), 14),
            (Ack(8191), 15),
        ],
    ),
    // rnd_7
    Format::new(
        say::ACK | say::WINDOW,
        &[
            (Mark(0b10_1111), 6),
            (Ack(65535), 18),
            (Window, 16),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // rnd_8
    Format::new(
        ALL,
        &[
            (Mark(0b1_0110), 5),
            (Rsf, 2),
            (HasList, 1),
            (Check, 7),
            (Msn, 4),
            (Push, 1),
            (HopLimit, 3),
            (EcnUsed, 1),
            (Sequence(65535), 16),
            (Ack(16383), 16),
        ],
    ),
];

/// Where identifications count (`seq_1` to `seq_8`), the shorter ones first.
pub(super) const SEQUENTIAL: [Format; 8] = [
    // seq_4
    Format::new(
        say::ACK,
        &[
            (Mark(0), 1),
            (AckScaled, 4),
            (Id(1), 3),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // seq_2
    Format::new(
        say::SEQUENCE,
        &[
            (Mark(0b1_1010), 5),
            (Id(3), 7),
            (SequenceScaled, 4),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // seq_1
    Format::new(
        say::SEQUENCE,
        &[
            (Mark(0b1010), 4),
            (Id(3), 4),
            (Sequence(32767), 16),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // seq_3
    Format::new(
        say::ACK,
        &[
            (Mark(0b1001), 4),
            (Id(3), 4),
            (Ack(16383), 16),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // seq_6
    Format::new(
        say::SEQUENCE | say::ACK,
        &[
            (Mark(0b1_1011), 5),
            (SequenceScaled, 4),
            (Id(3), 7),
            (Ack(16383), 16),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // seq_5
    Format::new(
        say::SEQUENCE | say::ACK,
        &[
            (Mark(0b1000), 4),
            (Id(3), 4),
            (Ack(16383), 16),
            (Sequence(32767), 16),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // seq_7
    Format::new(
        say::ACK | say::WINDOW,
        &[
            (Mark(0b1100), 4),
            (Window, 15),
            (Id(3), 5),
            (Ack(32767), 16),
            (Msn, 4),
            (Push, 1),
            (Check, 3),
        ],
    ),
    // seq_8
    Format::new(
        ALL,
        &[
            (Mark(0b1011), 4),
            (Id(3), 4),
            (HasList, 1),
            (Check, 7),
            (Msn, 4),
            (Push, 1),
            (HopLimit, 3),
            (EcnUsed, 1),
            (Ack(8191), 15),
            (Rsf, 2),
            (Sequence(8191), 14),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bits_tell_every_format() {
        for formats in [RANDOM, SEQUENTIAL] {
            for first in 0..=u8::MAX {
                let found = formats.iter().filter(|format| format.begins(first)).count();
                // From here on are the common format, and types that all profiles have.
                let expected = usize::from(first < 0xe0);
                assert_eq!(found, expected, "{first:08b}");
            }
        }
    }

    #[test]
    fn every_format_fills_whole_octets() {
        for format in RANDOM.iter().chain(&SEQUENTIAL) {
            let bits: u8 = format.parts.iter().map(|part| part.1).sum();
            assert_eq!(usize::from(bits), 8 * format.octets());
            assert!(bits <= 64);
        }
    }
}
