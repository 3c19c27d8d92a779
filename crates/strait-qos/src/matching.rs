//! Conditions of rules on a packet.

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
pub use strait_core::prefix::Prefix;
use strait_wire::ip::protocol;

use crate::text::{TextError, text_value};

/// The alternatives of a condition: a packet that meets one of them meets it. Written as a list or
/// as a single value; no alternatives means that the condition isn't made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> List<T> {
    /// Whether the condition isn't made.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T, I: IntoIterator<Item = T>> From<I> for List<T> {
    fn from(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<T> ListVisitor<T> {
    fn one<'de, E: de::Error, V: IntoDeserializer<'de, E>>(value: V) -> Result<List<T>, E>
    where
        T: Deserialize<'de>,
    {
        T::deserialize(value.into_deserializer()).map(|item| List::from([item]))
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<List<T>, E> {
        Self::one(text)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<List<T>, E> {
        Self::one(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<List<T>, E> {
        Self::one(number)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<List<T>, A::Error> {
        let items = Vec::deserialize(SeqAccessDeserializer::new(items))?;
        if items.is_empty() {
            return Err(de::Error::custom(
                "an empty list matches nothing: leave the key out",
            ));
        }
        Ok(List(items))
    }
}

/// A transport protocol by its number; for IPv6 the one after all extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol(pub u8);

impl Protocol {
    const NAMES: [(&'static str, u8); 5] = [
        ("udp", protocol::UDP),
        ("tcp", protocol::TCP),
        ("icmp", protocol::ICMP),
        ("icmpv6", protocol::ICMPV6),
        ("esp", protocol::ESP),
    ];
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for Protocol {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let named = Self::NAMES
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, number)| *number);
        let number = named.or_else(|| text.parse().ok());
        number.map(Self).ok_or_else(|| {
            TextError::new(
                text,
                "protocol",
                "\"udp\", \"tcp\", \"icmp\", \"icmpv6\", \"esp\" or 89",
            )
        })
    }
}

text_value!(Protocol, "a protocol like \"udp\" or 17");

/// UDP or TCP ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl PortRange {
    /// A single port.
    #[must_use]
    pub const fn single(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    /// Whether `port` is one of them.
    #[must_use]
    pub const fn contains(&self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for PortRange {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = first.trim().parse().ok().zip(last.trim().parse().ok());
        range
            .map(|(first, last)| Self { first, last })
            .filter(|range| range.first <= range.last)
            .ok_or_else(|| TextError::new(text, "port or range of ports", "53 or \"5000-5010\""))
    }
}

text_value!(PortRange, "a port like 53 or a range like \"5000-5010\"");

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn ports_and_protocols_read_back() {
        for text in ["53", "5000-5010", "0-65535"] {
            assert_eq!(text.parse::<PortRange>().unwrap().to_string(), text);
        }
        for wrong in ["65536", "5-4", "-", "a", "1-2-3"] {
            assert!(wrong.parse::<PortRange>().is_err(), "{wrong}");
        }
        for (text, number) in [("udp", 17), ("icmpv6", 58), ("89", 89), ("6", 6)] {
            assert_eq!(text.parse(), Ok(Protocol(number)));
        }
        assert_eq!(Protocol(6).to_string(), "tcp");
        assert!("256".parse::<Protocol>().is_err());
    }
}
