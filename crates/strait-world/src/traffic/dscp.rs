//! Code points by name.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A differentiated services code point, 0 … 63, written as a name of RFC 2474 (`CS0` … `CS7`),
/// RFC 2597 (`AF11` … `AF43`), RFC 3246 (`EF`), RFC 5865 (`VA`), RFC 8622 (`LE`), as `BE`, or as a
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dscp(pub u8);

const NAMES: [(&str, u8); 24] = [
    ("BE", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
    ("CS0", 0),
];

/// A text that is no code point.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no code point: write a name like \"EF\" or \"AF41\", or a number from 0 to 63")]
pub struct DscpError(String);

impl FromStr for Dscp {
    type Err = DscpError;
    fn from_str(text: &str) -> Result<Self, DscpError> {
        let named = NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(text));
        let value = named.map(|(_, value)| *value).or_else(|| text.parse().ok());
        value
            .filter(|value| *value < 64)
            .map(Self)
            .ok_or_else(|| DscpError(text.into()))
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Dscp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a code point like \"EF\" or 46")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Dscp, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Dscp, E> {
                self.visit_str(&number.to_string())
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Dscp, E> {
                self.visit_str(&number.to_string())
            }
        }
        deserializer.deserialize_any(Text)
    }
}

impl Serialize for Dscp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_read_and_written() {
        for (text, value, shown) in [
            ("EF", 46, "EF"),
            ("ef", 46, "EF"),
            ("46", 46, "EF"),
            ("CS1", 8, "CS1"),
            ("5", 5, "5"),
        ] {
            assert_eq!(text.parse(), Ok(Dscp(value)), "{text}");
            assert_eq!(Dscp(value).to_string(), shown);
        }
        for wrong in ["64", "-1", "", "EF ", "AF14", "256"] {
            assert!(wrong.parse::<Dscp>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_values_read_back() {
        for value in 0..64 {
            assert_eq!(Dscp(value).to_string().parse(), Ok(Dscp(value)));
        }
    }
}
