//! Code points by name.

use alloc::format;
use core::fmt;
use core::str::FromStr;

pub use crate::text::TextError;
use crate::text::text_value;

/// A differentiated services code point (RFC 2474), 0 … 63.
///
/// Names: `DF` or `BE` (0), `CS0` … `CS7` (RFC 2474 section 4.2.2), `AF11` … `AF43` (RFC 2597),
/// `EF` (RFC 3246), `VA` (RFC 5865), `LE` (RFC 8622).
///
/// A number isn't a rank: `CS1` and `LE` ask for *less* than best effort (RFC 4594 section 4.10,
/// RFC 8622), although 8 and 1 are greater than 0. Stock routers and Wi-Fi (RFC 8325) treat them in
/// this way: a slightly urgent message marked with CS1 is sent last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dscp(u8);

impl Dscp {
    /// Default forwarding: best effort.
    pub const DF: Self = Self(0);
    /// Lower effort (RFC 8622).
    pub const LE: Self = Self(1);
    /// Low-priority data (RFC 4594), the older mark for lower effort.
    pub const CS1: Self = Self(8);
    /// Expedited forwarding (RFC 3246): voice.
    pub const EF: Self = Self(46);
    /// Voice with admission control (RFC 5865).
    pub const VA: Self = Self(44);
    /// Network control (RFC 4594): routing protocols.
    pub const CS6: Self = Self(48);

    /// The code point with this number; `None` above 63.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < 64 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// Class selector `class`, 0 … 7 (higher bits don't count).
    #[must_use]
    pub const fn cs(class: u8) -> Self {
        Self((class & 7) << 3)
    }

    /// Assured forwarding `class` 1 … 4 with drop precedence 1 … 3 (RFC 2597); higher bits don't
    /// count.
    #[must_use]
    pub const fn af(class: u8, precedence: u8) -> Self {
        Self((class & 7) << 3 | (precedence & 3) << 1)
    }

    /// The number, 0 … 63.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether the mark asks for less than best effort.
    #[must_use]
    pub const fn asks_for_less(self) -> bool {
        self.0 == Self::LE.0 || self.0 == Self::CS1.0
    }

    /// `AF` class and drop precedence, if the number is one of the twelve.
    pub(crate) const fn assured(self) -> Option<(u8, u8)> {
        let (class, precedence) = (self.0 >> 3, self.0 >> 1 & 3);
        let known = self.0 & 1 == 0 && class >= 1 && class <= 4 && precedence != 0;
        if known {
            Some((class, precedence))
        } else {
            None
        }
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::DF => f.write_str("DF"),
            Self::LE => f.write_str("LE"),
            Self::EF => f.write_str("EF"),
            Self::VA => f.write_str("VA"),
            Self(number) if number & 7 == 0 => write!(f, "CS{}", number >> 3),
            Self(number) => match self.assured() {
                Some((class, precedence)) => write!(f, "AF{class}{precedence}"),
                None => write!(f, "{number}"),
            },
        }
    }
}

impl FromStr for Dscp {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let error = || TextError::new(text, "code point", "\"EF\", \"AF21\", \"CS6\" or 46");
        if let Ok(number) = text.parse() {
            return Self::new(number).ok_or_else(error);
        }
        (0..64)
            .map(Self)
            .find(|dscp| format!("{dscp}").eq_ignore_ascii_case(text))
            .or_else(|| {
                let best_effort = ["BE", "CS0"];
                best_effort
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case(text))
                    .then_some(Self::DF)
            })
            .ok_or_else(error)
    }
}

text_value!(Dscp, "a code point like \"EF\" or 46");

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_have_the_numbers_of_their_standards() {
        for (name, number) in [
            ("DF", 0),
            ("BE", 0),
            ("CS0", 0),
            ("LE", 1),
            ("CS1", 8),
            ("AF11", 10),
            ("AF12", 12),
            ("AF13", 14),
            ("CS2", 16),
            ("AF21", 18),
            ("AF33", 30),
            ("CS4", 32),
            ("AF41", 34),
            ("AF43", 38),
            ("CS5", 40),
            ("VA", 44),
            ("EF", 46),
            ("ef", 46),
            ("CS6", 48),
            ("CS7", 56),
            ("63", 63),
            ("5", 5),
        ] {
            assert_eq!(name.parse().map(Dscp::number), Ok(number), "{name}");
        }
        for wrong in ["64", "-1", "", "AF14", "AF51", "CS8", "AF10", "EF ", "46.0"] {
            assert!(wrong.parse::<Dscp>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_code_point_reads_back_from_its_name() {
        for number in 0..64 {
            let dscp = Dscp::new(number).unwrap();
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
        }
        assert_eq!(Dscp::new(64), None);
        assert_eq!(Dscp::af(2, 1).to_string(), "AF21");
        assert_eq!(Dscp::cs(6), Dscp::CS6);
    }

    #[test]
    fn errors_say_what_would_be_right() {
        let error = "AF44".parse::<Dscp>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`AF44` is no code point: write it like \"EF\", \"AF21\", \"CS6\" or 46"
        );
    }
}
