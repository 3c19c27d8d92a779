//! Fragmentation of packets: of IPv4 anywhere (RFC 791 section 3.2), of IPv6 where they come from
//! (RFC 8200 section 4.5); and what a host needs to put fragments together again.

use super::IPV6_HEADER_OCTETS;
use super::checksum;
use super::parse::{self, ParseError, extension};
use crate::bytes::{put_at, u16_at, u32_at};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::Range;
use etherparse::checksum::Sum16BitWords;
use thiserror::Error;

/// Why a packet can't be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FragmentError {
    /// Not a packet.
    #[error("no IP packet: {0}")]
    NoPacket(ParseError),
    /// An IPv6 packet: only its sender cuts it.
    #[error("IPv6 packets are not cut on their way")]
    Ipv6,
    /// It is too long and says «don't fragment».
    #[error("packet must not be fragmented")]
    DontFragment,
    /// Header and eight octets of data don't fit.
    #[error("MTU too small for a fragment")]
    MtuTooSmall,
    /// An option runs beyond the header or has no length.
    #[error("malformed IPv4 option")]
    BadOption,
    /// The fragments would lie beyond what an offset can say.
    #[error("fragment beyond the longest packet")]
    BeyondEnd,
}

/// Offsets count units of this many octets.
const UNIT_OCTETS: usize = 8;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// Cuts an IPv4 packet into packets of at most `mtu` octets; one that fits comes back whole.
///
/// The first piece keeps all options, the others those with the copied flag. A fragment is cut into
/// smaller ones of the same whole.
pub fn fragment_ipv4(bytes: &[u8], mtu: usize) -> Result<Vec<Vec<u8>>, FragmentError> {
    let layout = parse::layout(bytes).map_err(FragmentError::NoPacket)?;
    if layout.info.src.is_ipv6() {
        return Err(FragmentError::Ipv6);
    }
    if bytes.len() <= mtu {
        return Ok(Vec::from([Vec::from(bytes)]));
    }
    if layout.info.dont_fragment {
        return Err(FragmentError::DontFragment);
    }
    let (header, mut data) = bytes.split_at(layout.transport);
    let later_header = with_copied_options(header).ok_or(FragmentError::BadOption)?;
    let flags = u16_at(header, 6).unwrap_or_default();
    let mut offset = usize::from(flags & OFFSET_MASK);
    let mut pieces = Vec::new();
    let mut header = header;
    loop {
        let room = mtu
            .checked_sub(header.len())
            .ok_or(FragmentError::MtuTooSmall)?;
        let (piece, rest) = if data.len() <= room {
            (data, &[][..])
        } else {
            data.split_at(room / UNIT_OCTETS * UNIT_OCTETS)
        };
        if piece.is_empty() {
            return Err(FragmentError::MtuTooSmall);
        }
        let more = flags & MORE_FRAGMENTS != 0 || !rest.is_empty();
        pieces.push(emit(header, flags, offset, more, piece)?);
        if rest.is_empty() {
            return Ok(pieces);
        }
        offset += piece.len() / UNIT_OCTETS;
        data = rest;
        header = &later_header;
    }
}

fn emit(
    header: &[u8],
    flags: u16,
    offset: usize,
    more: bool,
    data: &[u8],
) -> Result<Vec<u8>, FragmentError> {
    let offset = u16::try_from(offset)
        .ok()
        .filter(|offset| *offset <= OFFSET_MASK);
    let offset = offset.ok_or(FragmentError::BeyondEnd)?;
    let kept = flags & !(MORE_FRAGMENTS | OFFSET_MASK);
    let more = if more { MORE_FRAGMENTS } else { 0 };
    let mut packet = Vec::with_capacity(header.len() + data.len());
    packet.extend_from_slice(header);
    // The whole was at most 65,535 octets, so a part is.
    put_at(
        &mut packet,
        2,
        ((header.len() + data.len()) as u16).to_be_bytes(),
    );
    put_at(&mut packet, 6, (kept | more | offset).to_be_bytes());
    put_at(&mut packet, 10, [0, 0]);
    let sum = Sum16BitWords::new().add_slice(&packet).ones_complement();
    put_at(&mut packet, 10, sum.to_ne_bytes());
    debug_assert!(checksum::is_right(&packet));
    packet.extend_from_slice(data);
    Ok(packet)
}

/// The header of every fragment but the first: of the options only those with the copied flag, the
/// header length to match.
fn with_copied_options(header: &[u8]) -> Option<Vec<u8>> {
    let (fixed, mut options) = header.split_at_checked(super::IPV4_HEADER_OCTETS)?;
    let mut copied = Vec::from(fixed);
    while let Some(&kind) = options.first() {
        let octets = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(*options.get(1)?),
        };
        let option = options.get(..octets).filter(|_| kind == 1 || octets >= 2)?;
        if kind & 0x80 != 0 {
            copied.extend_from_slice(option);
        }
        options = &options[octets..];
    }
    copied.resize(copied.len().next_multiple_of(4), 0);
    let words = (copied.len() / 4) as u8;
    put_at(&mut copied, 0, [0x40 | words]);
    Some(copied)
}

/// Octets of IPv6's fragment header.
const FRAGMENT_HEADER_OCTETS: usize = 8;

/// Cuts a packet of a host's own into packets of at most `mtu` octets; one that fits comes back
/// whole. `ident` tells the fragments of one IPv6 packet from those of another; an IPv4 packet has
/// its own. An IPv6 packet with extension headers isn't cut: hosts here send none.
pub fn fragment_own(bytes: &[u8], ident: u32, mtu: usize) -> Result<Vec<Vec<u8>>, FragmentError> {
    let layout = parse::layout(bytes).map_err(FragmentError::NoPacket)?;
    if layout.info.src.is_ipv4() || bytes.len() <= mtu {
        return fragment_ipv4(bytes, mtu).or_else(|error| match error {
            FragmentError::Ipv6 => Ok(Vec::from([Vec::from(bytes)])),
            other => Err(other),
        });
    }
    if layout.transport != IPV6_HEADER_OCTETS {
        return Err(FragmentError::Ipv6);
    }
    let (header, data) = bytes.split_at(IPV6_HEADER_OCTETS);
    let room = mtu.saturating_sub(IPV6_HEADER_OCTETS + FRAGMENT_HEADER_OCTETS);
    let unit = room / UNIT_OCTETS * UNIT_OCTETS;
    if unit == 0 {
        return Err(FragmentError::MtuTooSmall);
    }
    let pieces = data.chunks(unit).enumerate().map(|(place, piece)| {
        let offset = place * unit;
        let more = offset + piece.len() < data.len();
        let mut packet = Vec::with_capacity(mtu);
        packet.extend_from_slice(header);
        put_at(
            &mut packet,
            4,
            ((FRAGMENT_HEADER_OCTETS + piece.len()) as u16).to_be_bytes(),
        );
        put_at(&mut packet, 6, [extension::FRAGMENT]);
        packet.extend_from_slice(&[layout.info.protocol, 0]);
        // Units of eight octets, in the upper 13 bits.
        packet.extend_from_slice(&(offset as u16 | u16::from(more)).to_be_bytes());
        packet.extend_from_slice(&ident.to_be_bytes());
        packet.extend_from_slice(piece);
        packet
    });
    Ok(pieces.collect())
}

/// Which packet a fragment is of (RFC 791 section 3.2, RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FragmentOf {
    /// Source and destination.
    pub ends: (IpAddr, IpAddr),
    /// Told apart by protocol too in IPv4; 0 in IPv6.
    pub protocol: u8,
    /// Its identification.
    pub ident: u32,
}

/// A part of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Of which.
    pub of: FragmentOf,
    /// Octets of the whole before its own.
    pub offset: usize,
    /// Others come after it.
    pub more: bool,
    /// Its octets of the whole, in the packet.
    pub data: Range<usize>,
}

impl Fragment {
    /// Reads a fragment; `None` for what is whole, no packet, or has extension headers before its
    /// fragment header.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let layout = parse::layout(bytes).ok().filter(|it| it.fragment)?;
        let info = layout.info;
        let ends = (info.src, info.dst);
        let (place, of, more, start) = if info.src.is_ipv4() {
            let (ident, protocol) = (u16_at(bytes, 4)?.into(), info.protocol);
            let flags = u16_at(bytes, 6)?;
            let place = usize::from(flags & OFFSET_MASK) * UNIT_OCTETS;
            let of = FragmentOf {
                ends,
                protocol,
                ident,
            };
            (place, of, flags & MORE_FRAGMENTS != 0, layout.transport)
        } else {
            if *bytes.get(6)? != extension::FRAGMENT {
                return None;
            }
            let word = u16_at(bytes, IPV6_HEADER_OCTETS + 2)?;
            let ident = u32_at(bytes, IPV6_HEADER_OCTETS + 4)?;
            let of = FragmentOf {
                ends,
                protocol: 0,
                ident,
            };
            let start = IPV6_HEADER_OCTETS + FRAGMENT_HEADER_OCTETS;
            (usize::from(word & !7), of, word & 1 != 0, start)
        };
        let data = start..bytes.len();
        let whole = !more || data.len().is_multiple_of(UNIT_OCTETS);
        (!data.is_empty() && whole && place + data.len() <= usize::from(u16::MAX)).then_some(Self {
            of,
            offset: place,
            more,
            data,
        })
    }
}

/// The packet whose first fragment is `first` and whose octets behind its headers are `data`;
/// `None` if `first` is none or the whole is too long.
#[must_use]
pub fn join(first: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let fragment = Fragment::parse(first).filter(|it| it.offset == 0)?;
    let header = match fragment.of.ends.0 {
        IpAddr::V4(_) => &first[..fragment.data.start],
        IpAddr::V6(_) => &first[..IPV6_HEADER_OCTETS],
    };
    let mut whole = Vec::with_capacity(header.len() + data.len());
    whole.extend_from_slice(header);
    whole.extend_from_slice(data);
    if fragment.of.ends.0.is_ipv4() {
        let octets = u16::try_from(whole.len()).ok()?;
        put_at(&mut whole, 2, octets.to_be_bytes());
        let flags = u16_at(&whole, 6)? & !MORE_FRAGMENTS;
        put_at(&mut whole, 6, flags.to_be_bytes());
        put_at(&mut whole, 10, [0, 0]);
        let sum = Sum16BitWords::new()
            .add_slice(header_of(&whole)?)
            .ones_complement();
        put_at(&mut whole, 10, sum.to_ne_bytes());
    } else {
        put_at(&mut whole, 4, u16::try_from(data.len()).ok()?.to_be_bytes());
        put_at(&mut whole, 6, [*first.get(IPV6_HEADER_OCTETS)?]);
    }
    Some(whole)
}

fn header_of(packet: &[u8]) -> Option<&[u8]> {
    packet.get(..usize::from(packet.first()? & 0x0f) * 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{UDP6, ipv4};
    use crate::ip::{PacketInfo, build_udp, udp_payload};
    use alloc::vec;
    use core::net::SocketAddr;
    use proptest::prelude::*;

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn udp(octets: usize) -> Vec<u8> {
        let payload: Vec<u8> = (0..octets).map(|at| (at * 7) as u8).collect();
        let mut out = vec![];
        let (src, dst) = (addr("192.0.2.1:1000"), addr("198.51.100.2:2000"));
        assert!(build_udp(src, dst, 46, 64, 0xbeef, 0, &payload, &mut out));
        out
    }

    /// Offset in units, and whether more follow.
    fn place(piece: &[u8]) -> (u16, bool) {
        let flags = u16_at(piece, 6).unwrap();
        (flags & OFFSET_MASK, flags & MORE_FRAGMENTS != 0)
    }

    /// Puts fragments without options together again.
    fn joined(pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut whole = pieces[0][..20].to_vec();
        for piece in pieces {
            assert!(PacketInfo::parse(piece).is_ok());
            assert_eq!(usize::from(place(piece).0) * 8, whole.len() - 20);
            whole.extend_from_slice(&piece[20..]);
        }
        let length = whole.len() as u16;
        put_at(&mut whole, 2, length.to_be_bytes());
        let flags = u16_at(&whole, 6).unwrap() & !MORE_FRAGMENTS;
        put_at(&mut whole, 6, flags.to_be_bytes());
        put_at(&mut whole, 10, [0, 0]);
        let sum = Sum16BitWords::new()
            .add_slice(&whole[..20])
            .ones_complement();
        put_at(&mut whole, 10, sum.to_ne_bytes());
        whole
    }

    #[test]
    fn a_packet_of_the_mtu_stays_whole_and_one_octet_more_is_cut() {
        let packet = udp(72); // 100 octets
        assert_eq!(fragment_ipv4(&packet, 100), Ok(vec![packet.clone()]));
        let pieces = fragment_ipv4(&packet, 99).unwrap();
        assert_eq!(
            pieces.iter().map(|piece| place(piece)).collect::<Vec<_>>(),
            [(0, true), (9, false)]
        );
        assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [92, 28]);
        let ports = |piece: &[u8]| PacketInfo::parse(piece).unwrap().ports;
        assert_eq!(ports(&pieces[0]), Some((1000, 2000)));
        assert_eq!(ports(&pieces[1]), None);
        assert!(PacketInfo::parse(&pieces[1]).unwrap().later_fragment);
    }

    #[test]
    fn a_fragment_is_cut_further() {
        let packet = udp(500);
        let mut pieces = vec![];
        for piece in fragment_ipv4(&packet, 300).unwrap() {
            pieces.extend(fragment_ipv4(&piece, 68).unwrap());
        }
        assert!(pieces.iter().all(|piece| piece.len() <= 68));
        assert_eq!(joined(&pieces), packet);
    }

    #[test]
    fn options_are_copied_by_their_flag() {
        // Record route (7, not copied), no operation, router alert (148, copied), end.
        let options = [7, 3, 4, 1, 0x94, 4, 0, 0, 0, 0, 0, 0];
        let packet = ipv4(&options, 0, 200, &[0x55; 40]);
        let pieces = fragment_ipv4(&packet, 48).unwrap();
        assert_eq!(pieces[0][..1], [0x48]);
        assert_eq!(pieces[0][20..32], options);
        assert_eq!(pieces[1][..1], [0x46]);
        assert_eq!(pieces[1][20..24], [0x94, 4, 0, 0]);
        let data: usize =
            pieces[0].len() - 32 + pieces[1..].iter().map(|p| p.len() - 24).sum::<usize>();
        assert_eq!(data, 40);
    }

    #[test]
    fn what_cant_be_cut_says_why() {
        let packet = udp(100);
        assert_eq!(fragment_ipv4(&packet, 27), Err(FragmentError::MtuTooSmall));
        assert_eq!(fragment_ipv4(&packet, 0), Err(FragmentError::MtuTooSmall));
        assert!(fragment_ipv4(&packet, 28).is_ok());
        assert_eq!(fragment_ipv4(UDP6, 20), Err(FragmentError::Ipv6));
        assert_eq!(
            fragment_ipv4(&packet[1..], 28),
            Err(FragmentError::NoPacket(ParseError::BadVersion))
        );
        let whole = ipv4(&[], 0x4000, 17, &[0; 80]);
        assert_eq!(fragment_ipv4(&whole, 99), Err(FragmentError::DontFragment));
        assert!(fragment_ipv4(&whole, 100).is_ok());
        for options in [
            [0x94, 5, 0, 0],
            [0x94, 0, 0, 0],
            [0x94, 1, 0, 0],
            [1, 1, 1, 0x94],
        ] {
            let bad = ipv4(&options, 0, 17, &[0; 80]);
            assert_eq!(fragment_ipv4(&bad, 60), Err(FragmentError::BadOption));
        }
        let far = ipv4(&[], 0x1fff, 17, &[0; 80]);
        assert_eq!(fragment_ipv4(&far, 60), Err(FragmentError::BeyondEnd));
    }

    proptest! {
        #[test]
        fn own_packets_come_back_from_their_parts(
            octets in 0..4000_usize, mtu in 60..1500_usize, ipv6: bool, ident: u32,
        ) {
            let payload: Vec<u8> = (0..octets).map(|at| (at * 7) as u8).collect();
            let (src, dst) = match ipv6 {
                true => (addr("[fd00::1]:1000"), addr("[fd00::2]:2000")),
                false => (addr("192.0.2.1:1000"), addr("198.51.100.2:2000")),
            };
            let mut packet = vec![];
            prop_assert!(build_udp(src, dst, 46, 64, 0xbeef, 0, &payload, &mut packet));
            let pieces = fragment_own(&packet, ident, mtu).unwrap();
            let mut data = vec![];
            for piece in &pieces {
                prop_assert!(piece.len() <= mtu && PacketInfo::parse(piece).is_ok());
                if let Some(part) = Fragment::parse(piece) {
                    prop_assert_eq!(part.offset, data.len());
                    data.extend_from_slice(&piece[part.data]);
                }
            }
            let joined = (pieces.len() > 1).then(|| join(&pieces[0], &data).unwrap());
            prop_assert_eq!(joined.as_ref().unwrap_or(&pieces[0]), &packet);
        }

        #[test]
        fn any_octets_are_a_part_or_none(data: Vec<u8>, flags: u16, body: Vec<u8>) {
            let _ = Fragment::parse(&data).is_some_and(|it| data.get(it.data).is_none());
            let packet = ipv4(&[], flags, 17, &body);
            if let Some(part) = Fragment::parse(&packet) {
                prop_assert!(packet.get(part.data).is_some());
                let _ = join(&packet, &body);
            }
        }

        #[test]
        fn pieces_join_to_the_packet(octets in 0..1500_usize, mtu in 28..1500_usize) {
            let packet = udp(octets);
            let pieces = fragment_ipv4(&packet, mtu).unwrap();
            prop_assert!(pieces.iter().all(|piece| piece.len() <= mtu));
            let whole = joined(&pieces);
            prop_assert_eq!(&whole, &packet);
            prop_assert!(udp_payload(&whole).is_some());
        }

        #[test]
        fn any_octets_are_judged(
            options in proptest::collection::vec(any::<u8>(), 0..10),
            flags: u16, mtu in 0..200_usize,
            data: Vec<u8>,
        ) {
            let mut options = options;
            options.resize(options.len().next_multiple_of(4), 0);
            let packet = ipv4(&options, flags, 17, &data);
            if let Ok(pieces) = fragment_ipv4(&packet, mtu) {
                for piece in pieces {
                    prop_assert!(piece.len() <= mtu);
                    prop_assert!(PacketInfo::parse(&piece).is_ok());
                }
            }
            let _ = fragment_ipv4(&data, mtu);
        }
    }
}
