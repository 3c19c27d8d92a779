//! Other addresses in IPv4 packets, where one stands for another (RFC 3022). Checksums are changed
//! in place, as by any other forwarding.

use core::net::Ipv4Addr;

use super::edit::put_ipv4_word;
use super::{IPV4_HEADER_OCTETS, checksum, icmp, protocol};
use crate::bytes::{put_at, u16_at};

/// Which of a packet's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

impl End {
    /// Where it stands in the header.
    const fn place(self) -> usize {
        match self {
            Self::Source => 12,
            Self::Destination => 16,
        }
    }
}

/// Both ends of what an IPv4 packet belongs to. It may be cut short, as in an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// Where it comes from.
    pub src: Ipv4Addr,
    /// Where it goes.
    pub dst: Ipv4Addr,
    /// Its protocol.
    pub protocol: u8,
    /// Ports of TCP and UDP; of an echo its identifier, twice; else 0, also of later fragments.
    pub ports: (u16, u16),
}

impl Ends {
    /// Those of the packet that `bytes` begin with; `None` if that is none of IPv4.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.first()? >> 4 != 4 || bytes.len() < IPV4_HEADER_OCTETS {
            return None;
        }
        let address = |at: usize| {
            let octets = bytes.get(at..)?.first_chunk::<4>()?;
            Some(Ipv4Addr::from(*octets))
        };
        let start = header_octets(bytes);
        let first = u16_at(bytes, 6)? & 0x1fff == 0;
        let both = u16_at(bytes, start).zip(u16_at(bytes, start + 2));
        let ports = match bytes[9] {
            _ if !first => None,
            protocol::TCP | protocol::UDP => both,
            // Echoes and their replies.
            protocol::ICMP if matches!(bytes.get(start), Some(0 | 8)) => {
                u16_at(bytes, start + 4).map(|ident| (ident, ident))
            }
            _ => None,
        };
        Some(Self {
            src: address(12)?,
            dst: address(16)?,
            protocol: bytes[9],
            ports: ports.unwrap_or_default(),
        })
    }

    /// The same of what comes back.
    #[must_use]
    pub const fn turned(self) -> Self {
        Self {
            src: self.dst,
            dst: self.src,
            protocol: self.protocol,
            ports: (self.ports.1, self.ports.0),
        }
    }
}

fn header_octets(bytes: &[u8]) -> usize {
    usize::from(bytes[0] & 0x0f) * 4
}

/// Gives a whole IPv4 packet another address, also in the sum over its transport.
pub fn set_address(bytes: &mut [u8], end: End, new: Ipv4Addr) {
    let Some(ends) = Ends::of(bytes) else { return };
    let first = u16_at(bytes, 6).is_some_and(|word| word & 0x1fff == 0);
    let start = header_octets(bytes);
    let sum = match ends.protocol {
        protocol::TCP => Some(start + 16),
        // Zero says that there is none (RFC 768).
        protocol::UDP => Some(start + 6).filter(|at| u16_at(bytes, *at) != Some(0)),
        _ => None,
    };
    let sum = sum.filter(|_| first);
    for (at, word) in (end.place()..)
        .step_by(2)
        .zip(new.octets().as_chunks::<2>().0)
    {
        let (old, word) = (u16_at(bytes, at), u16::from_be_bytes(*word));
        if let Some((old, sum)) = old.zip(sum) {
            checksum::adjust(bytes, sum, old, word);
        }
        put_ipv4_word(bytes, at, word);
    }
    if let Some(at) =
        sum.filter(|at| ends.protocol == protocol::UDP && u16_at(bytes, *at) == Some(0))
    {
        put_at(bytes, at, [0xff; 2]);
    }
}

/// What an ICMP error is about, if it is one.
pub fn quoted(bytes: &[u8]) -> Option<Ends> {
    let (_, range) = icmp::parse_icmp_error(bytes)?;
    Ends::of(bytes.get(range)?)
}

/// Says in an ICMP error that the packet it is about went to another address.
pub fn set_quoted_destination(bytes: &mut [u8], new: Ipv4Addr) {
    let Some((_, range)) = icmp::parse_icmp_error(bytes) else {
        return;
    };
    let Some(message) = range.start.checked_sub(8) else {
        return;
    };
    let (_, quote) = bytes.split_at_mut(range.start);
    for (at, word) in (16..).step_by(2).zip(new.octets().as_chunks::<2>().0) {
        put_ipv4_word(quote, at, u16::from_be_bytes(*word));
    }
    put_at(bytes, message + 2, [0; 2]);
    let sum = checksum::header_checksum(&bytes[message..]);
    put_at(bytes, message + 2, sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::SocketAddr;

    use super::super::{
        IcmpError, PacketInfo, Unreachable, build_icmp_error, build_udp, fragment_ipv4,
        verify_transport_checksum,
    };

    const NEW: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

    fn udp(octets: usize) -> Vec<u8> {
        let (src, dst): (SocketAddr, SocketAddr) = (
            "10.1.0.2:4000".parse().unwrap(),
            "198.18.0.1:53".parse().unwrap(),
        );
        let mut packet = Vec::new();
        assert!(build_udp(
            src,
            dst,
            0,
            64,
            7,
            0,
            &vec![7; octets],
            &mut packet
        ));
        packet
    }

    fn is_right(packet: &[u8]) -> bool {
        checksum::header_checksum(&packet[..20]) == 0
            && verify_transport_checksum(packet) != Some(false)
    }

    #[test]
    fn both_addresses_change_and_sums_stay_right() {
        let mut packet = udp(30);
        let before = Ends::of(&packet).unwrap();
        set_address(&mut packet, End::Destination, NEW);
        assert_eq!(Ends::of(&packet), Some(Ends { dst: NEW, ..before }));
        assert_eq!(verify_transport_checksum(&packet), Some(true));
        set_address(&mut packet, End::Source, NEW);
        assert!(is_right(&packet));
        assert_eq!(PacketInfo::parse(&packet).unwrap().src, NEW);
        assert_eq!(before.turned().turned(), before);
        assert_eq!(before.ports, (4000, 53));
    }

    #[test]
    fn fragments_are_whole_again_with_the_other_address() {
        let mut fragments = fragment_ipv4(&udp(900), 400).unwrap();
        let ports: Vec<_> = fragments
            .iter()
            .map(|it| Ends::of(it).unwrap().ports)
            .collect();
        assert_eq!(ports, [(4000, 53), (0, 0), (0, 0)]);
        let mut whole = udp(900);
        set_address(&mut whole, End::Destination, NEW);
        for fragment in &mut fragments {
            set_address(fragment, End::Destination, NEW);
        }
        assert_eq!(fragment_ipv4(&whole, 400).unwrap(), fragments);
    }

    #[test]
    fn an_error_is_about_the_other_address() {
        let mut went = udp(30);
        set_address(&mut went, End::Destination, NEW);
        let mut error = Vec::new();
        let kind = IcmpError::Unreachable(Unreachable::Port);
        assert!(build_icmp_error(kind, NEW.into(), &went, &mut error));
        assert_eq!(quoted(&error), Ends::of(&went));
        set_quoted_destination(&mut error, Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(quoted(&error), Ends::of(&udp(30)));
        assert_eq!(verify_transport_checksum(&error), Some(true));
        assert_eq!(quoted(&udp(30)), None);
    }

    #[test]
    fn octets_that_are_no_packet_stay_as_they_are() {
        for octets in [&[][..], &[0x45; 19], &[0x60; 60], &[0x4f; 20]] {
            let mut bytes = octets.to_vec();
            set_quoted_destination(&mut bytes, NEW);
            if Ends::of(octets).is_none() {
                set_address(&mut bytes, End::Source, NEW);
                assert_eq!(bytes, octets);
            }
        }
    }
}
