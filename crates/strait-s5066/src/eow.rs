//! The engineering order wire: 12 bits in each D_PDU's header (Annex C).

use strait_core::Duration;
use strait_core::waveform::Interleaver;

/// Data rates that have a code of four bits, in bit/s, from code 0 on.
pub const CODED_RATES: [u32; 12] = [
    75, 150, 300, 600, 1200, 2400, 3200, 3600, 4800, 6400, 8000, 9600,
];

/// The order wire of a D_PDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eow {
    /// Nothing.
    #[default]
    None,
    /// Type 1: a data rate, by its code, and an interleaver's: 0 none, 1 short, 2 long.
    Rate {
        /// A place in [`CODED_RATES`].
        rate: u8,
        /// Two bits.
        interleaver: u8,
        /// Their purpose.
        purpose: Purpose,
    },
    /// Type 2: an answer about a change of the data rate.
    Response {
        /// Which.
        response: Response,
        /// Why; 0 without a reason.
        reason: u8,
    },
    /// Type 3: a message of a type that isn't known.
    Unrecognised {
        /// That type, four bits.
        kind: u8,
    },
    /// Type 4: the station's capabilities.
    Capability(u8),
    /// Type 7: a change of the data rate whose rest is in the extended message.
    HighRate {
        /// Five bits: 0 110A, 3 STANAG 4539, 7 to 9 by agreement.
        waveform: u8,
        /// Three bits.
        channels: u8,
    },
    /// Another type, with its content.
    Other(u8, u8),
}

/// The purpose of a data rate on the order wire (type 1's last two bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The sender wants to send by it, and may receive by another.
    Request,
    /// The sender wants to send and receive by it.
    RequestBoth,
    /// The sender could receive by it.
    Advice,
    /// The sender could send and receive by it.
    AdviceBoth,
}

/// An answer about a change of the data rate (type 2's first three bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// It may change.
    Accept,
    /// It may not.
    Refuse,
    /// It is given up.
    Cancel,
    /// It has changed.
    Confirm,
    /// One that the standard doesn't have.
    Other(u8),
}

/// Why a change is refused: the modem can't change its rate, or to another waveform.
pub const RATE_FIXED: u8 = 2;
/// Why a change is refused: the modem can't change its interleaver, or has no so many channels.
pub const INTERLEAVER_FIXED: u8 = 3;
/// Why a change is refused: neither can be changed.
pub const BOTH_FIXED: u8 = 4;

/// The data rate can be changed.
pub const CAN_ADAPT: u8 = 0x80;
/// Waveforms of MIL-STD-188-110A are there.
pub const HAS_110A: u8 = 0x20;
/// Rates above 2400 bit/s are there.
pub const HAS_HIGH_RATES: u8 = 0x10;

/// Types that the standard leaves free, used by `strait`: how long turns may be, in tenths of a
/// second and in halves.
const TURN_TENTHS: u8 = 9;
const TURN_HALVES: u8 = 10;

impl Purpose {
    /// Whether it is a request, and no advice.
    #[must_use]
    pub const fn asks(self) -> bool {
        matches!(self, Self::Request | Self::RequestBoth)
    }
}

impl Eow {
    /// The 12 bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        let (kind, content) = match self {
            Self::None => (0, 0),
            Self::Rate {
                rate,
                interleaver,
                purpose,
            } => {
                let purpose = match purpose {
                    Purpose::Request => 0,
                    Purpose::RequestBoth => 1,
                    Purpose::Advice => 2,
                    Purpose::AdviceBoth => 3,
                };
                (1, (rate & 15) << 4 | (interleaver & 3) << 2 | purpose)
            }
            Self::Response { response, reason } => {
                let response = match response {
                    Response::Accept => 0,
                    Response::Refuse => 1,
                    Response::Cancel => 2,
                    Response::Confirm => 3,
                    Response::Other(other) => other & 7,
                };
                (2, response << 5 | reason & 31)
            }
            Self::Unrecognised { kind } => (3, kind & 15),
            Self::Capability(bits) => (4, bits),
            Self::HighRate { waveform, channels } => (7, (waveform & 31) << 3 | channels & 7),
            Self::Other(kind, content) => (kind & 15, content),
        };
        (kind as u16) << 8 | content as u16
    }

    /// The other station's turns may be so long: in tenths of a second up to 25.5 s, in halves up
    /// to 127.5 s, and at least a tenth.
    #[must_use]
    pub fn turn(most: Duration) -> Self {
        let tenths = most.as_millis() / 100;
        match u8::try_from(tenths) {
            Ok(tenths) => Self::Other(TURN_TENTHS, tenths.max(1)),
            Err(_) => Self::Other(TURN_HALVES, u8::try_from(tenths / 5).unwrap_or(u8::MAX)),
        }
    }

    /// How long this node's turns may be, if stated.
    #[must_use]
    pub fn turn_max(self) -> Option<Duration> {
        let unit_ms = match self {
            Self::Other(TURN_TENTHS, _) => 100,
            Self::Other(TURN_HALVES, _) => 500,
            _ => return None,
        };
        let Self::Other(_, count @ 1..) = self else {
            return None;
        };
        Some(Duration::from_millis(unit_ms * u64::from(count)))
    }

    /// The meaning of 12 bits.
    #[must_use]
    pub const fn parse(bits: u16) -> Self {
        let content = bits as u8;
        match (bits >> 8) as u8 & 15 {
            0 => Self::None,
            1 => Self::Rate {
                rate: content >> 4,
                interleaver: content >> 2 & 3,
                purpose: match content & 3 {
                    0 => Purpose::Request,
                    1 => Purpose::RequestBoth,
                    2 => Purpose::Advice,
                    _ => Purpose::AdviceBoth,
                },
            },
            2 => Self::Response {
                response: match content >> 5 {
                    0 => Response::Accept,
                    1 => Response::Refuse,
                    2 => Response::Cancel,
                    3 => Response::Confirm,
                    other => Response::Other(other),
                },
                reason: content & 31,
            },
            3 => Self::Unrecognised { kind: content & 15 },
            4 => Self::Capability(content),
            7 => Self::HighRate {
                waveform: content >> 3,
                channels: content & 7,
            },
            kind => Self::Other(kind, content),
        }
    }
}

/// The code of a rate, if it has one.
#[must_use]
pub fn rate_code(rate_bit_s: u32) -> Option<u8> {
    let place = CODED_RATES.iter().position(|rate| *rate == rate_bit_s);
    place.map(|place| place as u8)
}

/// The code of an interleaver: short up to a second, long above.
#[must_use]
pub const fn interleaver_code(interleaver: Interleaver) -> u8 {
    match interleaver {
        Interleaver::UltraShort | Interleaver::VeryShort | Interleaver::Short => 1,
        Interleaver::Medium | Interleaver::Long | Interleaver::VeryLong => 2,
    }
}

/// The extended message of a high rate: bit/s in four octets, the interleaver's hundredths of a
/// second in two.
#[must_use]
pub fn high_rate(rate_bit_s: u32, interleaver_cs: u16) -> [u8; 6] {
    let mut message = [0; 6];
    message[..4].copy_from_slice(&rate_bit_s.to_be_bytes());
    message[4..].copy_from_slice(&interleaver_cs.to_be_bytes());
    message
}

/// The rate in such a message.
#[must_use]
pub fn high_rate_of(message: &[u8]) -> Option<u32> {
    let octets = message.get(..4)?.try_into().ok()?;
    Some(u32::from_be_bytes(octets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_wires_have_the_standard_s_layout() {
        let request = Eow::Rate {
            rate: 11,
            interleaver: 1,
            purpose: Purpose::Request,
        };
        // Type 1, rate 1011, interleaver 01, others 00.
        assert_eq!(request.bits(), 0x1b4);
        let advice = Eow::Rate {
            rate: 2,
            interleaver: 2,
            purpose: Purpose::Advice,
        };
        assert_eq!(advice.bits(), 0x12a);
        let confirm = Eow::Response {
            response: Response::Confirm,
            reason: 0,
        };
        assert_eq!(confirm.bits(), 0x260);
        let refuse = Eow::Response {
            response: Response::Refuse,
            reason: RATE_FIXED,
        };
        assert_eq!(refuse.bits(), 0x222);
        assert_eq!(Eow::Capability(CAN_ADAPT | HAS_110A).bits(), 0x4a0);
        assert_eq!(Eow::Unrecognised { kind: 13 }.bits(), 0x30d);
        assert_eq!(high_rate(64_000, 64), [0, 0, 0xfa, 0, 0, 64]);
        assert_eq!(high_rate_of(&[0, 0, 0xfa, 0, 0, 64]), Some(64_000));
        assert_eq!(high_rate_of(&[0, 0, 0xfa]), None);
    }

    #[test]
    fn turns_are_told_in_tenths_and_then_in_halves() {
        for (most_ms, told_ms) in [
            (1, 100),
            (10_680, 10_600),
            (25_599, 25_500),
            (25_600, 25_500),
            (26_000, 26_000),
            (127_500, 127_500),
            (500_000, 127_500),
        ] {
            let eow = Eow::parse(Eow::turn(Duration::from_millis(most_ms)).bits());
            assert_eq!(eow.turn_max(), Some(Duration::from_millis(told_ms)));
        }
        let others = [0x000, 0x12a, 0x4a0, 0x900, 0xa00, 0xb10];
        assert!(
            others
                .iter()
                .all(|bits| Eow::parse(*bits).turn_max().is_none())
        );
    }

    #[test]
    fn all_order_wires_come_back_as_they_were() {
        for bits in 0..0x1000 {
            let back = Eow::parse(bits).bits();
            // Nothing says nothing, and four bits of type 3 are always zero.
            let kept = match bits >> 8 {
                0 => 0,
                3 => bits & 0x30f,
                _ => bits,
            };
            assert_eq!(back, kept, "{bits:#x}");
        }
    }
}
