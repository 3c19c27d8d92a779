//! How octets are put on a serial line, bit by bit.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a serial line carries octets: asynchronous characters such as `"8N1"`, or `"sync"`, octet
/// after octet by the clock of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Framing {
    /// Each octet is a character of its own, with a start bit before it and stop bits behind.
    Async(Character),
    /// Eight bits an octet and nothing between them. The line never rests: what fills the pauses is
    /// the modem's choice, and the far end can't tell it from octets that were sent.
    Sync,
}

/// Form of an asynchronous character, the start bit apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Character {
    /// Data bits, 5 to 8; the octet's higher bits don't pass.
    pub data: u8,
    /// The parity bit.
    pub parity: Parity,
    /// Stop bits, 1 or 2.
    pub stop: u8,
}

/// The parity bit of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parity {
    /// There is none.
    None,
    /// Makes the number of ones even.
    Even,
    /// Makes it odd.
    Odd,
    /// Always 1.
    Mark,
    /// Always 0.
    Space,
}

/// A framing that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` is no framing: write data bits 5 to 8, parity N, E, O, M or S, and stop bits \
     1 or 2, like \"8N1\"; or \"sync\" for a line with a clock"
)]
pub struct FramingError {
    found: String,
}

impl Framing {
    /// Eight data bits, no parity, one stop bit: ten bits an octet.
    pub const ASYNC_8N1: Self = Self::Async(Character {
        data: 8,
        parity: Parity::None,
        stop: 1,
    });

    /// Bits of an octet that pass, the lowest: 5 to 8.
    pub const fn data_bits(self) -> u8 {
        match self {
            Self::Async(character) => character.data,
            Self::Sync => 8,
        }
    }

    /// Bits on the line for one octet: start, data, parity and stop.
    pub const fn bits_per_octet(self) -> u8 {
        match self {
            Self::Async(it) => 1 + it.data + it.has_parity() as u8 + it.stop,
            Self::Sync => 8,
        }
    }
}

impl Character {
    /// Whether there is a parity bit.
    pub const fn has_parity(self) -> bool {
        !matches!(self.parity, Parity::None)
    }
}

impl FromStr for Framing {
    type Err = FramingError;

    fn from_str(text: &str) -> Result<Self, FramingError> {
        let error = || FramingError {
            found: text.to_string(),
        };
        if text.trim() == "sync" {
            return Ok(Self::Sync);
        }
        let [data @ b'5'..=b'8', parity, stop @ b'1'..=b'2'] = *text.trim().as_bytes() else {
            return Err(error());
        };
        let parity = match parity {
            b'N' | b'n' => Parity::None,
            b'E' | b'e' => Parity::Even,
            b'O' | b'o' => Parity::Odd,
            b'M' | b'm' => Parity::Mark,
            b'S' | b's' => Parity::Space,
            _ => return Err(error()),
        };
        Ok(Self::Async(Character {
            data: data - b'0',
            parity,
            stop: stop - b'0',
        }))
    }
}

impl TryFrom<String> for Framing {
    type Error = FramingError;

    fn try_from(text: String) -> Result<Self, FramingError> {
        text.parse()
    }
}

impl From<Framing> for String {
    fn from(framing: Framing) -> Self {
        framing.to_string()
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Async(character) = self else {
            return f.write_str("sync");
        };
        let parity = match character.parity {
            Parity::None => 'N',
            Parity::Even => 'E',
            Parity::Odd => 'O',
            Parity::Mark => 'M',
            Parity::Space => 'S',
        };
        write!(f, "{}{parity}{}", character.data, character.stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_counts_every_bit_on_the_line() {
        for (text, bits, data) in [
            ("8N1", 10, 8),
            ("7E1", 10, 7),
            ("8N2", 11, 8),
            ("8E2", 12, 8),
            ("5N1", 7, 5),
            ("sync", 8, 8),
        ] {
            let framing: Framing = text.parse().unwrap();
            assert_eq!(framing.bits_per_octet(), bits, "{text}");
            assert_eq!(framing.data_bits(), data, "{text}");
            assert_eq!(framing.to_string(), text);
        }
        for wrong in [
            "", "8N", "9N1", "4N1", "8N3", "8X1", "8N1 5", "8N1.5", "synchron", "Sync",
        ] {
            assert!(wrong.parse::<Framing>().is_err(), "{wrong}");
        }
    }
}
