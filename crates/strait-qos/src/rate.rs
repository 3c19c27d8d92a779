//! Rates as policies write them.

use core::fmt;
use core::str::FromStr;

use strait_core::units::BitRate;

use crate::text::{TextError, text_value};

/// A rate: fixed, or a share of the available one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many bit/s of octets on the line.
    Fixed(u64),
    /// So many millionths of the parent's.
    Share(u32),
}

impl Rate {
    /// All of the parent's.
    pub const WHOLE: Self = Self::Share(1_000_000);

    /// In bit/s, at least 1. `base_bit_s` is the base of a share; a fixed rate written for a line
    /// of `scale_from` grows and shrinks with the line.
    #[must_use]
    pub fn bit_s(self, base_bit_s: u64, scale_from: Option<u64>, line_bit_s: u64) -> u64 {
        let scaled = |value: u64, part: u64, whole: u64| {
            let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
            u64::try_from(scaled).unwrap_or(u64::MAX).max(1)
        };
        match (self, scale_from) {
            (Self::Share(millionths), _) => scaled(base_bit_s, u64::from(millionths), 1_000_000),
            (Self::Fixed(bit_s), Some(from)) => scaled(bit_s, line_bit_s, from),
            (Self::Fixed(bit_s), None) => bit_s.max(1),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(bit_s) => write!(f, "{}", BitRate(*bit_s)),
            Self::Share(millionths) => write!(f, "{} %", f64::from(*millionths) / 10_000.0),
        }
    }
}

impl FromStr for Rate {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let wrong = || TextError::new(text, "rate", "\"64 kbit/s\" or \"30 %\"");
        let Some(percent) = text.trim().strip_suffix('%') else {
            let rate: BitRate = text.parse().map_err(|_| wrong())?;
            return Ok(Self::Fixed(rate.0));
        };
        let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
        let millionths = percent * 10_000.0 + 0.5;
        if !(1.0..10_000_001.0).contains(&millionths) {
            return Err(wrong());
        }
        Ok(Self::Share(millionths as u32))
    }
}

text_value!(Rate, "a rate like \"64 kbit/s\" or \"30 %\"");

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn rates_read_back() {
        for (text, rate) in [
            ("30 %", Rate::Share(300_000)),
            ("0.5 %", Rate::Share(5000)),
            ("32768 bit/s", Rate::Fixed(32_768)),
        ] {
            assert_eq!(text.parse(), Ok(rate));
            assert_eq!(rate.to_string(), text);
        }
        assert_eq!("64 kbit/s".parse(), Ok(Rate::Fixed(64_000)));
        for wrong in ["0 %", "-3 %", "NaN %", "2000 %", "64", "fast"] {
            let error = wrong.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("30 %"), "{error}");
        }
    }

    #[test]
    fn a_share_follows_its_base_and_a_fixed_rate_the_line_if_asked() {
        assert_eq!(Rate::Share(250_000).bit_s(9600, None, 1), 2400);
        assert_eq!(Rate::Share(1).bit_s(9600, None, 1), 1, "never nothing");
        assert_eq!(Rate::Fixed(32_000).bit_s(0, None, 9600), 32_000);
        assert_eq!(Rate::Fixed(32_000).bit_s(0, Some(64_000), 9600), 4800);
    }
}
