//! Node addresses: 28 bits and a mark for groups.

use core::fmt;
use core::str::FromStr;

use alloc::vec::Vec;

/// An address of a node or of a group of nodes, written as four numbers of which the first is 0 to
/// 15, or 16 to 31 for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(u32);

/// Text that is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("four numbers with points between them, the first 0 to 31, such as 0.0.0.1")]
pub struct NotAnAddress;

impl Address {
    /// All stations.
    pub const BROADCAST: Self = Self(0x1fff_ffff);

    /// An address of 29 bits, the highest of them the mark of groups; higher bits are ignored.
    #[must_use]
    pub const fn new(bits: u32) -> Self {
        Self(bits & 0x1fff_ffff)
    }

    /// Its 29 bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether it is one of a group.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0 >> 28 != 0
    }

    /// The 28 bits that stand in a D_PDU's address field.
    const fn low(self) -> u32 {
        self.0 & 0x0fff_ffff
    }

    /// Half octets that it needs, at least one.
    const fn nibbles(self) -> usize {
        let bits = 32 - self.low().leading_zeros() as usize;
        let nibbles = bits.div_ceil(4);
        if nibbles == 0 { 1 } else { nibbles }
    }
}

/// Octets of an address field for these two: as short as both allow.
#[must_use]
pub(crate) fn field_octets(to: Address, from: Address) -> usize {
    to.nibbles().max(from.nibbles())
}

/// Appends the address field, destination first, each of as many half octets as the field has
/// octets.
pub(crate) fn put_field(to: Address, from: Address, octets: usize, out: &mut Vec<u8>) {
    let both = u64::from(to.low()) << (4 * octets) | u64::from(from.low());
    out.extend_from_slice(&both.to_be_bytes()[8 - octets..]);
}

/// Reads an address field of 1 to 7 octets.
pub(crate) fn read_field(field: &[u8]) -> (Address, Address) {
    let all = field
        .iter()
        .fold(0u64, |all, octet| all << 8 | u64::from(*octet));
    let shift = 4 * field.len().min(7);
    let from = all & ((1 << shift) - 1);
    (Address((all >> shift) as u32), Address(from as u32))
}

impl FromStr for Address {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        let mut parts = text.split('.');
        let mut bits = 0u32;
        for place in 0..4 {
            let part: u8 = parts
                .next()
                .and_then(|part| part.parse().ok())
                .ok_or(NotAnAddress)?;
            if place == 0 && part > 31 {
                return Err(NotAnAddress);
            }
            bits = bits << 8 | u32::from(part);
        }
        match parts.next() {
            None => Ok(Self(bits)),
            Some(_) => Err(NotAnAddress),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d] = self.0.to_be_bytes();
        write!(f, "{a}.{b}.{c}.{d}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn text_and_bits_agree() {
        let address: Address = "1.35.69.104".parse().expect("an address");
        assert_eq!(address.bits(), 0x0123_4568);
        assert_eq!(address.to_string(), "1.35.69.104");
        assert_eq!("31.255.255.255".parse(), Ok(Address::BROADCAST));
        assert!(Address::BROADCAST.is_group());
        for wrong in [
            "",
            "1",
            "1.2.3",
            "1.2.3.4.5",
            "32.0.0.0",
            "1.2.3.256",
            "a.b.c.d",
        ] {
            assert_eq!(wrong.parse::<Address>(), Err(NotAnAddress), "{wrong}");
        }
    }

    #[test]
    fn a_field_is_as_short_as_both_allow() {
        for (to, from, field) in [
            (6, 5, &[0x65][..]),
            (5, 100, &[0x05, 0x64]),
            (
                0x0123_4568,
                0x0123_4567,
                &[0x12, 0x34, 0x56, 0x81, 0x23, 0x45, 0x67],
            ),
            (0, 0, &[0]),
        ] {
            let (to, from) = (Address::new(to), Address::new(from));
            let mut out = Vec::new();
            put_field(to, from, field_octets(to, from), &mut out);
            assert_eq!(out, field);
            assert_eq!(read_field(field), (to, from));
        }
    }
}
