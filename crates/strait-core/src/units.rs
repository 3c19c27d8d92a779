//! Values with units, as configuration files write them: `"50 ms"`, `"9600 bit/s"`, `"64 kB"`,
//! `"5 %"`.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::time::{Duration, nanos};

/// A value that could not be read, and what would have been right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no {what}: write it like {example}")]
pub struct UnitError {
    found: String,
    what: &'static str,
    example: &'static str,
}

/// Splits `"1.5 ms"` into a number and a unit, and scales the number.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let split = text
        .find(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E' || c == '%' || c == ' ');
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let number: f64 = number.trim().parse().ok()?;
    let scale = units.iter().find(|(name, _)| *name == unit.trim())?.1;
    (number.is_finite() && number >= 0.0).then_some(number * scale)
}

/// Rounds to an integer in range.
fn whole(value: f64) -> Option<u64> {
    (value <= u64::MAX as f64 / 2.0).then(|| libm::round(value) as u64)
}

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $what:literal, $example:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(pub $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!($what, " like ", $example))
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                    fn visit_i64<E: de::Error>(self, number: i64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }
                    fn visit_f64<E: de::Error>(self, number: f64) -> Result<$name, E> {
                        self.visit_str(&number.to_string())
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.to_string())
            }
        }

        impl $name {
            fn error(text: &str) -> UnitError {
                UnitError { found: text.to_string(), what: $what, example: $example }
            }
        }
    };
}

quantity!(
    /// A length of time: `ns`, `us`, `ms`, `s`, `min` or `h`. A number without a unit is an error.
    Time(Duration), "time", "\"50 ms\""
);

impl FromStr for Time {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let units = [
            ("ns", 1.0),
            ("us", 1e3),
            ("ms", 1e6),
            ("s", 1e9),
            ("min", 60e9),
            ("h", 3600e9),
        ];
        let ns = scaled(text, &units)
            .and_then(whole)
            .ok_or_else(|| Self::error(text))?;
        Ok(Self(Duration::from_nanos(ns)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = nanos(self.0);
        match ns {
            ns if ns % 1_000_000_000 == 0 => write!(f, "{} s", ns / 1_000_000_000),
            ns if ns % 1_000_000 == 0 => write!(f, "{} ms", ns / 1_000_000),
            ns if ns % 1000 == 0 => write!(f, "{} us", ns / 1000),
            ns => write!(f, "{ns} ns"),
        }
    }
}

quantity!(
    /// A rate: `bit/s`, `kbit/s` or `Mbit/s` (thousands). A number without a unit is an error.
    BitRate(u64), "bit rate", "\"9600 bit/s\""
);

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let units = [
            ("bit/s", 1.0),
            ("kbit/s", 1e3),
            ("Mbit/s", 1e6),
            ("Gbit/s", 1e9),
        ];
        let rate = scaled(text, &units)
            .and_then(whole)
            .filter(|rate| *rate > 0);
        rate.map(Self).ok_or_else(|| Self::error(text))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}

quantity!(
    /// A number of octets: `B`, `kB`, `MB` (thousands), `KiB` or `MiB`. A number without a unit
    /// counts octets.
    Octets(u64), "number of octets", "\"64 kB\""
);

impl FromStr for Octets {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let units = [
            ("", 1.0),
            ("B", 1.0),
            ("kB", 1e3),
            ("MB", 1e6),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
        ];
        scaled(text, &units)
            .and_then(whole)
            .map(Self)
            .ok_or_else(|| Self::error(text))
    }
}

impl fmt::Display for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

quantity!(
    /// A share or probability, 0 … 1: `"5 %"`, `"1e-5"` or a number.
    Share(f64), "share between 0 and 1", "\"5 %\" or \"1e-5\""
);

impl FromStr for Share {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let share = scaled(text, &[("", 1.0), ("%", 0.01)]).filter(|share| *share <= 1.0);
        share.map(Self).ok_or_else(|| Self::error(text))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{:e}", self.0))
    }
}

quantity!(
    /// A frequency: `Hz` or `kHz`. A number without a unit is an error.
    Hertz(f64), "frequency", "\"0.5 Hz\""
);

impl FromStr for Hertz {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let hertz = scaled(text, &[("Hz", 1.0), ("kHz", 1e3)]);
        hertz.map(Self).ok_or_else(|| Self::error(text))
    }
}

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", self.0)
    }
}

quantity!(
    /// A ratio of powers in decibels, of either sign. A number without a unit is an error.
    Decibels(f64), "ratio of at most 1000 dB", "\"12 dB\" or \"-3 dB\""
);

impl FromStr for Decibels {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let text = text.trim();
        let positive = text.strip_prefix('-').unwrap_or(text);
        let sign = if positive.len() < text.len() {
            -1.0
        } else {
            1.0
        };
        let size = scaled(positive, &[("dB", 1.0)]).filter(|size| *size <= 1000.0);
        size.map(|size| Self(sign * size))
            .ok_or_else(|| Self::error(text))
    }
}

impl fmt::Display for Decibels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} dB", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_scale_and_are_required() {
        assert_eq!("50 ms".parse(), Ok(Time(Duration::from_millis(50))));
        assert_eq!("1.5s".parse(), Ok(Time(Duration::from_millis(1500))));
        assert_eq!("9600 bit/s".parse(), Ok(BitRate(9600)));
        assert_eq!("0.3 Mbit/s".parse(), Ok(BitRate(300_000)));
        assert_eq!("1e-5".parse(), Ok(Share(1e-5)));
        assert_eq!("5 %".parse(), Ok(Share(0.05)));
        assert_eq!("64 kB".parse(), Ok(Octets(64_000)));
        assert_eq!("1500".parse(), Ok(Octets(1500)));
        assert_eq!("0.5 Hz".parse(), Ok(Hertz(0.5)));
        assert_eq!(
            ["-3 dB", "12dB"].map(str::parse),
            [Ok(Decibels(-3.0)), Ok(Decibels(12.0))]
        );
        assert_eq!(Decibels(-1.5).to_string().parse(), Ok(Decibels(-1.5)));
        for wrong in ["3", "--3 dB", "-", "1001 dB", "nan dB"] {
            assert!(wrong.parse::<Decibels>().is_err(), "{wrong}");
        }
        for wrong in ["50", "-1 s", "1 fortnight", "", "s", "nan s", "1e999 s"] {
            assert!(wrong.parse::<Time>().is_err(), "{wrong}");
        }
        assert!("0 bit/s".parse::<BitRate>().is_err());
        assert!("101 %".parse::<Share>().is_err());
    }

    #[test]
    fn errors_name_value_and_remedy() {
        let error = "50".parse::<Time>().map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err(String::from("`50` is no time: write it like \"50 ms\""))
        );
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["50 ms", "3 s", "7 ns", "1500 us"] {
            let time: Time = text.parse().unwrap();
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }
}
