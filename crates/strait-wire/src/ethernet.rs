//! Ethernet II frames, and ARP in them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use core::str::FromStr;

use crate::bytes::{array_at, u16_at};

/// The address of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Every station.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// A group of stations, or all of them.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// The stations that a packet to many is sent to: the group of a multicast address (RFC 1112
    /// section 6.4, RFC 2464 section 7), all for 255.255.255.255. `None` for a packet to one.
    pub fn of_many(dst: IpAddr) -> Option<Self> {
        match dst {
            IpAddr::V4(Ipv4Addr::BROADCAST) => Some(Self::BROADCAST),
            IpAddr::V4(group) if group.is_multicast() => {
                let [_, a, b, c] = group.octets();
                Some(Self([1, 0, 0x5e, a & 0x7f, b, c]))
            }
            IpAddr::V6(group) if group.is_multicast() => {
                let [.., a, b, c, d] = group.octets();
                Some(Self([0x33, 0x33, a, b, c, d]))
            }
            _ => None,
        }
    }

    /// The last half of an IPv6 address made from this one (RFC 4291 appendix A).
    pub const fn interface_id(self) -> [u8; 8] {
        let [a, b, c, d, e, f] = self.0;
        [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut octets = [0; 6];
        let mut words = text.split(':');
        let read = |word: &str| match word.len() {
            2 if !word.starts_with('+') => u8::from_str_radix(word, 16).ok(),
            _ => None,
        };
        let whole = octets.iter_mut().all(|octet| {
            words
                .next()
                .and_then(read)
                .map(|read| *octet = read)
                .is_some()
        });
        if whole && words.next().is_none() {
            return Ok(Self(octets));
        }
        Err(format!(
            "`{text}` is no address of a station: write it like \"02:00:00:00:00:01\""
        ))
    }
}

/// Octets of the header: both addresses and the type.
pub const HEADER_OCTETS: usize = 14;
/// Type of a frame with an IPv4 packet.
pub const IPV4: u16 = 0x0800;
/// Type of a frame with an ARP message.
pub const ARP: u16 = 0x0806;
/// Type of a frame with an IPv6 packet.
pub const IPV6: u16 = 0x86dd;

/// A frame without its check, as an operating system hands it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Whom it is for.
    pub dst: Mac,
    /// Who sent it.
    pub src: Mac,
    /// What it holds.
    pub ether_type: u16,
    /// That, perhaps with octets behind it that only fill the frame up.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a frame; `None` if it is shorter than its header.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        Some(Self {
            dst: Mac(array_at(bytes, 0)?),
            src: Mac(array_at(bytes, 6)?),
            ether_type: u16_at(bytes, 12)?,
            payload: bytes.get(HEADER_OCTETS..)?,
        })
    }

    /// The IP packet that it holds, by the packet's own length: short frames are filled up.
    pub fn packet(&self) -> Option<&'a [u8]> {
        let octets = match (self.ether_type, self.payload.first()? >> 4) {
            (IPV4, 4) => usize::from(u16_at(self.payload, 2)?),
            (IPV6, 6) => 40 + usize::from(u16_at(self.payload, 4)?),
            _ => return None,
        };
        self.payload.get(..octets)
    }
}

/// Appends the header of a frame.
pub fn put_header(dst: Mac, src: Mac, ether_type: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&dst.0);
    out.extend_from_slice(&src.0);
    out.extend_from_slice(&ether_type.to_be_bytes());
}

/// An ARP message about IPv4 over Ethernet (RFC 826).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// It asks; else it answers.
    pub asks: bool,
    /// Who sends it.
    pub sender: (Mac, Ipv4Addr),
    /// Whom it is about, or answers.
    pub target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Hardware Ethernet, protocol IPv4, lengths of their addresses.
    const HEAD: [u8; 6] = [0, 1, 0x08, 0, 6, 4];

    /// Reads a message; `None` for other networks and operations.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let asks = match (bytes.starts_with(&Self::HEAD), u16_at(bytes, 6)?) {
            (true, 1) => true,
            (true, 2) => false,
            _ => return None,
        };
        let pair = |at: usize| {
            let address: [u8; 4] = array_at(bytes, at + 6)?;
            Some((Mac(array_at(bytes, at)?), Ipv4Addr::from(address)))
        };
        Some(Self {
            asks,
            sender: pair(8)?,
            target: pair(18)?,
        })
    }

    /// The frame that carries it to `dst`.
    pub fn frame(&self, dst: Mac) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_OCTETS + 28);
        put_header(dst, self.sender.0, ARP, &mut out);
        out.extend_from_slice(&Self::HEAD);
        out.extend_from_slice(&[0, if self.asks { 1 } else { 2 }]);
        for (mac, address) in [self.sender, self.target] {
            out.extend_from_slice(&mac.0);
            out.extend_from_slice(&address.octets());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    /// Who has 10.2.0.2? Tell 10.9.0.1.
    const ASKS: &[u8] = b"\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x08\x06\
        \x00\x01\x08\x00\x06\x04\x00\x01\x02\x00\x00\x00\x00\x01\x0a\x09\x00\x01\
        \x00\x00\x00\x00\x00\x00\x0a\x02\x00\x02";

    #[test]
    fn an_arp_request_reads_and_builds() {
        let frame = Frame::parse(ASKS).unwrap();
        assert_eq!((frame.dst, frame.ether_type), (Mac::BROADCAST, ARP));
        let arp = Arp::parse(frame.payload).unwrap();
        assert!(arp.asks);
        assert_eq!(arp.sender.1, Ipv4Addr::new(10, 9, 0, 1));
        assert_eq!(arp.target.1, Ipv4Addr::new(10, 2, 0, 2));
        assert_eq!(arp.frame(Mac::BROADCAST), ASKS);
        for length in 0..ASKS.len() {
            let frame = Frame::parse(&ASKS[..length]);
            assert_eq!(frame.and_then(|frame| Arp::parse(frame.payload)), None);
        }
    }

    #[test]
    fn a_packet_ends_where_it_says() {
        let mut bytes = Vec::new();
        put_header(Mac([2; 6]), Mac([4; 6]), IPV4, &mut bytes);
        bytes.extend_from_slice(&[0x45, 0, 0, 6, 1, 2, 0, 0, 0]);
        let packet = |bytes: &[u8]| Frame::parse(bytes).unwrap().packet().map(<[u8]>::len);
        assert_eq!(packet(&bytes), Some(6));
        assert_eq!(packet(&bytes[..19]), None);
        bytes[12..14].copy_from_slice(&IPV6.to_be_bytes());
        assert_eq!(packet(&bytes), None);
    }

    #[test]
    fn addresses_have_the_groups_and_names_of_the_standards() {
        let mac = Mac([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
        assert_eq!(
            mac.interface_id(),
            [0x36, 0x56, 0x78, 0xff, 0xfe, 0x9a, 0xbc, 0xde]
        );
        let many = |text: &str| Mac::of_many(text.parse().unwrap()).map(|mac| mac.0);
        assert_eq!(many("ff02::1:ff01:203"), Some([0x33, 0x33, 0xff, 1, 2, 3]));
        assert_eq!(
            many("239.255.255.250"),
            Some([1, 0, 0x5e, 0x7f, 0xff, 0xfa])
        );
        assert_eq!(many("255.255.255.255"), Some([0xff; 6]));
        assert_eq!((many("10.255.255.255"), many("fd00::1")), (None, None));
        assert!(Mac::BROADCAST.is_group() && !mac.is_group());
    }

    #[test]
    fn addresses_are_written_with_colons() {
        let mac = Mac([2, 0, 0, 0, 0, 0xab]);
        assert_eq!(mac.to_string(), "02:00:00:00:00:ab");
        assert_eq!("02:00:00:00:00:AB".parse(), Ok(mac));
        for wrong in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "2:0:0:0:0:1",
            "+2:00:00:00:00:00",
        ] {
            assert!(wrong.parse::<Mac>().is_err(), "{wrong}");
        }
    }
}
