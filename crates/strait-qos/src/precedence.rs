//! IP precedence: the upper three bits of the code point.

use core::fmt;
use core::str::FromStr;

use crate::dscp::Dscp;
use crate::text::{TextError, text_value};

/// A level of IP precedence (RFC 791 section 3.1): eight code points each (RFC 2474 section
/// 4.2.2). Military messages map their own six levels on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Precedence(u8);

/// The names of RFC 791, from 0 on.
const NAMES: [&str; 8] = [
    "routine",
    "priority",
    "immediate",
    "flash",
    "flash-override",
    "critic-ecp",
    "internetwork-control",
    "network-control",
];

impl Precedence {
    /// Every code point of this level.
    pub fn code_points(self) -> impl Iterator<Item = Dscp> {
        (self.0 << 3..(self.0 + 1) << 3).filter_map(Dscp::new)
    }
}

impl fmt::Display for Precedence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES[usize::from(self.0)])
    }
}

impl FromStr for Precedence {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let named = || {
            NAMES
                .iter()
                .position(|name| name.eq_ignore_ascii_case(text))
        };
        let level = text.parse().ok().or_else(named).filter(|level| *level < 8);
        level
            .and_then(|level| u8::try_from(level).ok())
            .map(Self)
            .ok_or_else(|| TextError::new(text, "precedence", "\"flash\" or 3 (0 to 7)"))
    }
}

text_value!(Precedence, "a precedence like \"flash\" or 3");

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    #[test]
    fn a_level_is_the_eight_code_points_from_its_class_selector_on() {
        let numbers = |text: &str| -> Vec<u8> {
            let level: Precedence = text.parse().unwrap();
            level.code_points().map(Dscp::number).collect()
        };
        assert_eq!(numbers("flash"), (24..32).collect::<Vec<_>>());
        assert_eq!(numbers("7"), (56..64).collect::<Vec<_>>());
        assert_eq!(numbers("Routine"), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn levels_read_back_from_their_names() {
        for level in 0..8 {
            let level: Precedence = level.to_string().parse().unwrap();
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        for wrong in ["8", "-1", "", "flash override"] {
            assert!(wrong.parse::<Precedence>().is_err(), "{wrong}");
        }
    }
}
