//! Neighbour discovery (RFC 4861): who has an IPv6 address on a network, and who leads out of it.

use super::build::Envelope;
use super::checksum::verify;
use super::{parse, protocol};
use crate::bytes::{array_at, put_at, u16_at};
use crate::ethernet::Mac;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// All hosts of a network, and the group that router advertisements go to.
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of a network.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// A message of neighbour discovery that a station has an answer to, or learns from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// Who has an address, asked or told.
    Neighbour(Neighbour),
    /// Which routers are there? With the link-layer address of who asks, if it says so.
    Routers(Option<Mac>),
    /// A router's word, of which only the time in seconds is read for which it leads out of the
    /// network.
    Router(u16),
}

/// A neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// It asks; else it answers.
    pub asks: bool,
    /// The address that it is about.
    pub target: Ipv6Addr,
    /// The link-layer address told with it: of who asks, or of the target.
    pub mac: Option<Mac>,
    /// The target is a router; hosts that are told it isn't stop using it as one (section 7.2.5).
    pub router: bool,
    /// An answer to a question, not an announcement.
    pub solicited: bool,
    /// An answer that replaces what is known; one for somebody else doesn't (section 7.2.8).
    pub overrides: bool,
}

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// What a router forwards has less: proof that it was sent on this link (section 7.1).
const HOP_LIMIT: u8 = 255;
/// Octets of a neighbour message, and of a router solicitation, before the options.
const FIXED_OCTETS: usize = 24;
const ROUTER_FIXED_OCTETS: usize = 8;
const ROUTER_ADVERTISEMENT_OCTETS: usize = 16;
/// Options: the link-layer address of the sender, of the target.
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

impl Discovery {
    /// Reads a message that is valid by sections 6.1 and 7.1.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let layout = parse::layout(bytes).ok()?;
        let info = &layout.info;
        let right = info.protocol == protocol::ICMPV6
            && info.dst.is_ipv6()
            && info.hop_limit == HOP_LIMIT
            && verify(bytes, &layout) == Some(true);
        let segment = layout.whole_segment(bytes).filter(|_| right)?;
        match *segment.first_chunk()? {
            [ROUTER_SOLICITATION, 0] => {
                let mac = option(segment.get(ROUTER_FIXED_OCTETS..)?, SOURCE)?;
                Some(Self::Routers(mac))
            }
            [ROUTER_ADVERTISEMENT, 0] => {
                option(segment.get(ROUTER_ADVERTISEMENT_OCTETS..)?, SOURCE)?;
                u16_at(segment, 6).map(Self::Router)
            }
            [SOLICITATION, 0] => Neighbour::parse(segment, true).map(Self::Neighbour),
            [ADVERTISEMENT, 0] => Neighbour::parse(segment, false).map(Self::Neighbour),
            _ => None,
        }
    }
}

impl Neighbour {
    fn parse(segment: &[u8], asks: bool) -> Option<Self> {
        let target = Ipv6Addr::from(array_at::<16>(segment, 8)?);
        let flags = *segment.get(4)?;
        let wanted = if asks { SOURCE } else { TARGET };
        let mac = option(segment.get(FIXED_OCTETS..)?, wanted)?;
        (!target.is_multicast()).then_some(Self {
            asks,
            target,
            mac,
            router: !asks && flags & 0x80 != 0,
            solicited: !asks && flags & 0x40 != 0,
            overrides: !asks && flags & 0x20 != 0,
        })
    }

    /// Appends the packet that carries it.
    pub fn build(&self, src: Ipv6Addr, dst: Ipv6Addr, out: &mut Vec<u8>) -> bool {
        let mut head = [0; 8];
        head[0] = if self.asks {
            SOLICITATION
        } else {
            ADVERTISEMENT
        };
        let flags = [self.router, self.solicited, self.overrides];
        head[4] = flags
            .iter()
            .fold(0, |bits, flag| bits << 1 | u8::from(*flag))
            << 5;
        let mut rest = Vec::from(self.target.octets());
        if let Some(mac) = self.mac {
            put_address(if self.asks { SOURCE } else { TARGET }, mac, &mut rest);
        }
        build(src, dst, head, &rest, out)
    }

    /// The group that hears questions about an address (RFC 4291 section 2.7.1).
    pub const fn group(target: Ipv6Addr) -> Ipv6Addr {
        let [.., a, b] = target.segments();
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | a & 0xff, b)
    }
}

/// Appends the packet that asks for routers (section 4.1).
pub fn build_router_solicitation(src: Ipv6Addr, mac: Mac, out: &mut Vec<u8>) -> bool {
    let mut head = [0; 8];
    head[0] = ROUTER_SOLICITATION;
    let mut rest = Vec::new();
    put_address(SOURCE, mac, &mut rest);
    build(src, ALL_ROUTERS, head, &rest, out)
}

/// A router advertisement (section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router<'a> {
    /// For how long it leads out of the network, in seconds; 0 not at all.
    pub lifetime_s: u16,
    /// The router's station.
    pub mac: Mac,
    /// The largest packet on the network, in octets.
    pub mtu: u32,
    /// The network's prefixes with their lengths. Hosts make themselves an address of those of 64
    /// bits (RFC 4862 section 5.5.3).
    pub prefixes: &'a [(Ipv6Addr, u8)],
}

impl Router<'_> {
    /// How long hosts may use a prefix that isn't told again, in seconds: whole and preferred. Well
    /// above the time between two advertisements, and short enough for a change within a day.
    const PREFIX_S: [u32; 2] = [86_400, 14_400];

    /// Appends the packet that carries it.
    pub fn build(&self, src: Ipv6Addr, dst: Ipv6Addr, out: &mut Vec<u8>) -> bool {
        let mut head = [0; 8];
        head[0] = ROUTER_ADVERTISEMENT;
        // The hop limit that hosts begin with.
        head[4] = 64;
        put_at(&mut head, 6, self.lifetime_s.to_be_bytes());
        // Hosts keep their own idea of how long a neighbour is believed.
        let mut rest = Vec::from([0; 8]);
        put_address(SOURCE, self.mac, &mut rest);
        rest.extend_from_slice(&[5, 1, 0, 0]);
        rest.extend_from_slice(&self.mtu.to_be_bytes());
        for (prefix, length) in self.prefixes {
            let own_addresses = if *length == 64 { 0x40 } else { 0 };
            rest.extend_from_slice(&[3, 4, *length, 0x80 | own_addresses]);
            for time_s in Self::PREFIX_S {
                rest.extend_from_slice(&time_s.to_be_bytes());
            }
            rest.extend_from_slice(&[0; 4]);
            let kept = u128::MAX.checked_shl(128 - u32::from(*length)).unwrap_or(0);
            rest.extend_from_slice(&(prefix.to_bits() & kept).to_be_bytes());
        }
        build(src, dst, head, &rest, out)
    }
}

fn build(src: Ipv6Addr, dst: Ipv6Addr, head: [u8; 8], rest: &[u8], out: &mut Vec<u8>) -> bool {
    Envelope {
        src: src.into(),
        dst: dst.into(),
        protocol: protocol::ICMPV6,
        dscp: 0,
        hop_limit: HOP_LIMIT,
        ident: 0,
        flow_label: 0,
    }
    .build(&head, 2, rest, out)
}

fn put_address(kind: u8, mac: Mac, out: &mut Vec<u8>) {
    out.extend_from_slice(&[kind, 1]);
    out.extend_from_slice(&mac.0);
}

/// The link-layer address in the option of this type, `Some(None)` without it; `None` if the
/// options are no options.
fn option(mut rest: &[u8], wanted: u8) -> Option<Option<Mac>> {
    let mut found = None;
    while !rest.is_empty() {
        let [kind, words] = *rest.first_chunk()?;
        if words == 0 {
            return None;
        }
        let octets = usize::from(words) * 8;
        if kind == wanted && words == 1 {
            found = Some(Mac(array_at(rest, 2)?));
        }
        rest = rest.get(octets..)?;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn messages() -> impl Strategy<Value = Neighbour> {
        let fields = (
            any::<[u8; 16]>(),
            any::<Option<[u8; 6]>>(),
            any::<[bool; 4]>(),
        );
        fields.prop_map(
            |(target, mac, [asks, router, solicited, overrides])| Neighbour {
                asks,
                target: Ipv6Addr::from(target),
                mac: mac.map(Mac),
                router: router && !asks,
                solicited: solicited && !asks,
                overrides: overrides && !asks,
            },
        )
    }

    #[test]
    fn the_group_of_an_address_is_that_of_the_standard() {
        let target: Ipv6Addr = "4037::1:800:200e:8c6c".parse().unwrap();
        let group: Ipv6Addr = "ff02::1:ff0e:8c6c".parse().unwrap();
        assert_eq!(Neighbour::group(target), group);
    }

    #[test]
    fn a_router_tells_its_station_its_packets_and_its_prefixes() {
        let router = Router {
            lifetime_s: 1800,
            mac: Mac([2, 0, 0, 0, 0, 1]),
            mtu: 1280,
            prefixes: &[("fd00:1::9".parse().unwrap(), 64)],
        };
        let mut bytes = Vec::new();
        assert!(router.build("fe80::1".parse().unwrap(), ALL_NODES, &mut bytes));
        assert_eq!((bytes[6], bytes[7]), (58, 255));
        assert_eq!(bytes[40..42], [134, 0]);
        assert_eq!(
            bytes[44..72],
            *b"\x40\x00\x07\x08\x00\x00\x00\x00\x00\x00\x00\x00\
            \x01\x01\x02\x00\x00\x00\x00\x01\x05\x01\x00\x00\x00\x00\x05\x00"
        );
        assert_eq!(
            bytes[72..],
            *b"\x03\x04\x40\xc0\x00\x01\x51\x80\x00\x00\x38\x40\x00\x00\x00\x00\
            \xfd\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        );
        assert_eq!(Discovery::parse(&bytes), Some(Discovery::Router(1800)));
    }

    #[test]
    fn a_question_for_routers_reads_back() {
        let (src, mac) = ("fe80::2".parse().unwrap(), Mac([2, 0, 0, 0, 0, 2]));
        let mut bytes = Vec::new();
        assert!(build_router_solicitation(src, mac, &mut bytes));
        assert_eq!(
            Discovery::parse(&bytes),
            Some(Discovery::Routers(Some(mac)))
        );
        bytes[7] = 254;
        assert_eq!(Discovery::parse(&bytes), None);
    }

    proptest! {
        #[test]
        fn messages_read_back(message in messages(), bit: usize) {
            let (src, dst) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
            let mut bytes = Vec::new();
            prop_assert!(message.build(src, dst, &mut bytes));
            let expected = (!message.target.is_multicast()).then_some(message);
            prop_assert_eq!(Discovery::parse(&bytes), expected.map(Discovery::Neighbour));
            // One that crossed a router, and a damaged one.
            let mut forwarded = bytes.clone();
            forwarded[7] = 254;
            prop_assert_eq!(Discovery::parse(&forwarded), None);
            let bit = 320 + bit % (bytes.len() * 8 - 320);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Discovery::parse(&bytes), None);
        }

        #[test]
        fn any_octets_are_judged(data: Vec<u8>) {
            let _ = Discovery::parse(&data);
            let _ = option(&data, SOURCE);
            let _ = crate::ethernet::Frame::parse(&data).map(|frame| frame.packet());
            let _ = crate::ethernet::Arp::parse(&data);
        }
    }
}
