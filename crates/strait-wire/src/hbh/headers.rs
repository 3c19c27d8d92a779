//! A packet's headers, said by what tells them from those of a packet that the receiver has.
//!
//! ```text
//!   1 distance, 7   so many sequence numbers before; 0: it follows in two octets
//!   same, 4  other, 4  octets …   so many octets are as there, then so many aren't: these
//!   0x00   all the rest is as there; left out if there is no rest
//! ```
//!
//! What stands for nothing but the flow (addresses, protocol, ports) is the same in both, and
//! lengths and the IPv4 header's checksum follow from the rest: neither is said. What is left goes
//! in the packet's order, but a TCP checksum comes last. The payload follows as it is.

use alloc::vec::Vec;

use crate::bytes::u16_at;
use crate::ip::{header_checksum, protocol};

/// A packet's headers, without what follows from the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Version, protocol, addresses, and the ports or what stands in their place.
    flow: Vec<u8>,
    /// What differs from packet to packet.
    told: Vec<u8>,
}

/// How a transport's header is taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Octets that stand for the flow, at its beginning.
    flow: usize,
    /// All its octets.
    octets: usize,
}

impl Layout {
    const NONE: Self = Self { flow: 0, octets: 0 };

    /// Of the header at the beginning of `transport`; `None` if it isn't whole.
    fn of(number: u8, transport: &[u8]) -> Option<Self> {
        let layout = match number {
            protocol::TCP => Self {
                flow: 4,
                octets: usize::from(transport.get(12)? >> 4) * 4,
            },
            protocol::UDP if usize::from(u16_at(transport, 4)?) != transport.len() => return None,
            protocol::UDP | protocol::ESP => Self { flow: 4, octets: 8 },
            protocol::ICMP | protocol::ICMPV6 => Self { flow: 0, octets: 8 },
            _ => Self::NONE,
        };
        let least = if number == protocol::TCP { 20 } else { 0 };
        (least..=transport.len())
            .contains(&layout.octets)
            .then_some(layout)
    }
}

const V4: u8 = 0x45;
const V6: u8 = 0x60;
const V4_OCTETS: usize = 20;
const V6_OCTETS: usize = 40;
/// The first octet of a packet whose headers are said like that. No IP packet begins with it.
const RELATIVE: u8 = 0x80;

impl Headers {
    /// The longest distance that any end reads.
    pub const NEAR_MAX: u16 = 127;
    /// The longest distance.
    pub const DISTANCE_MAX: u16 = 4095;

    /// Those of a packet, and how many octets they are; `None` for one whose headers don't follow
    /// from what is told: with options, fragments, wrong lengths or checksums.
    #[must_use]
    pub fn of(packet: &[u8]) -> Option<(Self, usize)> {
        let (mut headers, number, start) = match packet.first()? {
            &V4 => Self::of_v4(packet)?,
            first if first >> 4 == 6 => Self::of_v6(packet)?,
            _ => return None,
        };
        let transport = packet.get(start..)?;
        let layout = Layout::of(number, transport)?;
        let (flow, rest) = transport.get(..layout.octets)?.split_at(layout.flow);
        headers.flow.extend_from_slice(flow);
        match number {
            protocol::TCP => {
                headers.told.extend_from_slice(&rest[..12]);
                headers.told.extend_from_slice(&rest[14..]);
                headers.told.extend_from_slice(&rest[12..14]);
            }
            protocol::UDP => headers.told.extend_from_slice(&rest[2..]),
            _ => headers.told.extend_from_slice(rest),
        }
        Some((headers, start + layout.octets))
    }

    fn of_v4(packet: &[u8]) -> Option<(Self, u8, usize)> {
        let header = packet.get(..V4_OCTETS)?;
        let fragment = u16_at(header, 6)? & 0x3fff != 0;
        let length = usize::from(u16_at(header, 2)?);
        if fragment || length != packet.len() || header_checksum(header) != 0 {
            return None;
        }
        let number = header[9];
        let mut flow = alloc::vec![V4, number];
        flow.extend_from_slice(&header[12..]);
        let mut told = alloc::vec![header[1]];
        told.extend_from_slice(&header[4..9]);
        Some((Self { flow, told }, number, V4_OCTETS))
    }

    fn of_v6(packet: &[u8]) -> Option<(Self, u8, usize)> {
        let header = packet.get(..V6_OCTETS)?;
        if usize::from(u16_at(header, 4)?) + V6_OCTETS != packet.len() {
            return None;
        }
        let number = header[6];
        let mut flow = alloc::vec![V6, number];
        flow.extend_from_slice(&header[8..]);
        let mut told = header[..4].to_vec();
        told.push(header[7]);
        Some((Self { flow, told }, number, V6_OCTETS))
    }

    /// Whether these can be said relative to others.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.flow == other.flow && self.told.len() == other.told.len()
    }

    /// Whether these have the same as others in what no transport checksum covers, but for an IPv4
    /// identification.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let uncovered = |it: &Self| match it.told.get(..6) {
            Some(&[tos, _, _, flags, offset, ttl]) if it.flow.first() == Some(&V4) => {
                [tos, flags, offset, ttl, 0]
            }
            Some(&[first, second, third, fourth, hop_limit, _]) => {
                [first, second, third, fourth, hop_limit]
            }
            _ => [0; 5],
        };
        uncovered(self) == uncovered(other)
    }

    /// Appends these relative to `known`, which is like them and `distance` sequence numbers
    /// before.
    pub fn emit(&self, known: &Self, distance: u16, out: &mut Vec<u8>) {
        if distance <= Self::NEAR_MAX {
            out.push(RELATIVE | distance as u8);
        } else {
            out.push(RELATIVE);
            out.extend_from_slice(&distance.to_be_bytes());
        }
        let same = |place: usize| self.told.get(place) == known.told.get(place);
        let mut place = 0;
        while place < self.told.len() {
            let run = |from: usize, wanted: bool| {
                let most = (from + 15).min(self.told.len());
                (from..most).take_while(|it| same(*it) == wanted).count()
            };
            if (place..self.told.len()).all(same) {
                return out.push(0);
            }
            let skip = run(place, true);
            let copy = run(place + skip, false);
            out.push((skip << 4 | copy) as u8);
            place += skip;
            out.extend_from_slice(self.told.get(place..place + copy).unwrap_or_default());
            place += copy;
        }
    }

    /// How many sequence numbers before is the packet that another's headers are said relative to;
    /// `None` for a packet that is whole.
    #[must_use]
    pub fn distance(line: &[u8]) -> Option<u16> {
        let first = line.first().filter(|first| **first & RELATIVE != 0)?;
        match first & !RELATIVE {
            0 => Some(u16_at(line, 1).unwrap_or(0)),
            near => Some(near.into()),
        }
    }

    /// The packet that `line` stands for; `None` if nobody says it like that.
    #[must_use]
    pub fn restore(&self, line: &[u8]) -> Option<Vec<u8>> {
        let mut headers = self.clone();
        let is_near = *line.first()? != RELATIVE;
        let mut rest = line.get(if is_near { 1 } else { 3 }..)?;
        let mut place = 0;
        while place < headers.told.len() {
            let (&token, behind) = rest.split_first()?;
            rest = behind;
            if token == 0 {
                break;
            }
            place += usize::from(token >> 4);
            let (octets, behind) = rest.split_at_checked(usize::from(token & 15))?;
            let told = headers.told.get_mut(place..place + octets.len())?;
            told.copy_from_slice(octets);
            place += octets.len();
            rest = behind;
        }
        headers.build(rest)
    }

    /// The whole packet with this payload.
    fn build(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let &[version, number] = self.flow.first_chunk()?;
        let mut packet = Vec::with_capacity(self.flow.len() + self.told.len() + payload.len() + 4);
        let (start, addresses, told) = if version == V4 {
            let (told, behind) = self.told.split_first_chunk::<6>()?;
            packet.extend_from_slice(&[V4, told[0], 0, 0]);
            packet.extend_from_slice(&told[1..]);
            packet.extend_from_slice(&[number, 0, 0]);
            (V4_OCTETS, 8, behind)
        } else {
            let (told, behind) = self.told.split_first_chunk::<5>()?;
            if told[0] >> 4 != 6 {
                return None;
            }
            packet.extend_from_slice(&told[..4]);
            packet.extend_from_slice(&[0, 0, number, told[4]]);
            (V6_OCTETS, 32, behind)
        };
        packet.extend_from_slice(self.flow.get(2..)?.get(..addresses)?);
        packet.extend_from_slice(self.flow.get(2 + addresses..)?);
        match number {
            protocol::TCP => {
                let (fixed, behind) = told.split_first_chunk::<12>()?;
                let (options, check) = behind.split_last_chunk::<2>()?;
                packet.extend_from_slice(fixed);
                packet.extend_from_slice(check);
                packet.extend_from_slice(options);
            }
            protocol::UDP => {
                let length = u16::try_from(8 + payload.len()).ok()?;
                packet.extend_from_slice(&length.to_be_bytes());
                packet.extend_from_slice(told);
            }
            _ => packet.extend_from_slice(told),
        }
        packet.extend_from_slice(payload);
        let length = packet.len();
        if version == V4 {
            packet[2..4].copy_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
            let sum = header_checksum(packet.get(..V4_OCTETS)?);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let length = u16::try_from(length - start).ok()?;
            packet[4..6].copy_from_slice(&length.to_be_bytes());
        }
        Some(packet)
    }
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
