//! Packets as captures have them: cut short, padded, with checksums still to be filled in.

use super::edit::next_mss;
use super::parse::Chain;
use super::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS, ParseError, TcpFlags, protocol};
use crate::bytes::{array_at, u16_at, u32_at};
use crate::hash::hash64;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most octets of a packet that can count for its [`Captured::mark`].
pub const MARK_OCTETS_MAX: usize = 512;

/// What the headers of a captured packet say. Unlike [`PacketInfo`](super::PacketInfo) it takes
/// packets of which only the beginning was kept, and judges no checksum: on the host that sends a
/// packet it may be filled in by the network card, after the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Source address.
    pub src: IpAddr,
    /// Destination address, as the fixed header has it.
    pub dst: IpAddr,
    /// Code point, 0 … 63.
    pub dscp: u8,
    /// Explicit congestion notification, 0 … 3.
    pub ecn: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// Number of the transport protocol; in IPv6 as far as the extension headers were kept.
    pub protocol: u8,
    /// Source and destination port of TCP and UDP, if they were kept; later fragments have none.
    pub ports: Option<(u16, u16)>,
    /// Security parameters index of ESP.
    pub spi: Option<u32>,
    /// Octets of the whole packet by its own header, whatever was kept of it.
    pub octets: u32,
    /// Octets before the transport header, or before the data of a later fragment.
    pub transport: u32,
    /// A part of a larger packet, but not its first.
    pub later_fragment: bool,
}

impl Captured {
    /// Reads the headers of a packet. `bytes` are what was kept of it, perhaps with something
    /// behind it; `original_len` counts the octets that there were, and is used only where the
    /// header has no room for the length (0: RFC 2675, and the same practice in IPv4).
    ///
    /// # Errors
    /// The fixed header isn't all there, or is none, or says that the packet is shorter than it.
    pub fn parse(bytes: &[u8], original_len: u32) -> Result<Self, ParseError> {
        let (read, least) = match bytes.first().ok_or(ParseError::Truncated)? >> 4 {
            4 => (Self::ipv4(bytes, original_len)?, IPV4_HEADER_OCTETS),
            6 => (Self::ipv6(bytes, original_len)?, IPV6_HEADER_OCTETS),
            _ => return Err(ParseError::BadVersion),
        };
        if (read.octets as usize) < least {
            return Err(ParseError::LengthMismatch);
        }
        Ok(read)
    }

    fn ipv4(bytes: &[u8], original_len: u32) -> Result<Self, ParseError> {
        let fixed = bytes
            .first_chunk::<IPV4_HEADER_OCTETS>()
            .ok_or(ParseError::Truncated)?;
        let transport = u32::from(fixed[0] & 0x0f) * 4;
        if (transport as usize) < IPV4_HEADER_OCTETS {
            return Err(ParseError::BadHeaderLength);
        }
        let octets = match u16::from_be_bytes([fixed[2], fixed[3]]) {
            0 => original_len,
            octets => octets.into(),
        };
        let address = |at| IpAddr::V4(Ipv4Addr::from(array_at(fixed, at).unwrap_or_default()));
        Ok(Self {
            src: address(12),
            dst: address(16),
            dscp: fixed[1] >> 2,
            ecn: fixed[1] & 3,
            hop_limit: fixed[8],
            protocol: fixed[9],
            ports: None,
            spi: None,
            octets,
            transport,
            later_fragment: u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0,
        }
        .with_transport(bytes))
    }

    fn ipv6(bytes: &[u8], original_len: u32) -> Result<Self, ParseError> {
        let fixed = bytes
            .first_chunk::<IPV6_HEADER_OCTETS>()
            .ok_or(ParseError::Truncated)?;
        let octets = match u16::from_be_bytes([fixed[4], fixed[5]]) {
            0 => original_len,
            payload => u32::from(payload) + IPV6_HEADER_OCTETS as u32,
        };
        let class = fixed[0] << 4 | fixed[1] >> 4;
        let chain = Chain::as_far_as_kept(bytes, fixed[6]);
        let address = |at| IpAddr::V6(Ipv6Addr::from(array_at(fixed, at).unwrap_or_default()));
        Ok(Self {
            src: address(8),
            dst: address(24),
            dscp: class >> 2,
            ecn: class & 3,
            hop_limit: fixed[7],
            protocol: chain.protocol,
            ports: None,
            spi: None,
            octets,
            transport: chain.at as u32,
            later_fragment: chain.later_fragment,
        }
        .with_transport(bytes))
    }

    fn with_transport(mut self, bytes: &[u8]) -> Self {
        let at = self.transport as usize;
        match self.protocol {
            _ if self.later_fragment => {}
            protocol::UDP | protocol::TCP => {
                self.ports = u16_at(bytes, at).zip(u16_at(bytes, at + 2));
            }
            protocol::ESP => self.spi = u32_at(bytes, at),
            _ => {}
        }
        self
    }

    /// What was kept of the packet itself, without anything behind it.
    #[must_use]
    pub fn kept<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(..self.octets as usize).unwrap_or(bytes)
    }

    /// What was kept of a UDP payload, if that is what the packet has.
    #[must_use]
    pub fn udp_payload<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.ports?;
        let payload = self.kept(bytes).get(self.transport as usize + 8..)?;
        (self.protocol == protocol::UDP).then_some(payload)
    }

    /// A 64-bit hash by which the same packet is known at two places: over its first `octets`
    /// octets (at most [`MARK_OCTETS_MAX`]), but for what changes on the way. `None` if fewer of
    /// them were kept. `bytes` are those that [`Self::parse`] read.
    ///
    /// Besides what [`digest`](super::digest()) leaves out (DSCP, ECN, hop limit, header checksum,
    /// the segment size that a SYN announces) the checksums of TCP, UDP and ICMPv6 don't count: a
    /// capture on the sender may have them unfinished. With `translated`, neither do addresses and
    /// ports.
    #[must_use]
    pub fn mark(&self, bytes: &[u8], octets: usize, translated: bool) -> Option<u64> {
        let octets = octets.min(MARK_OCTETS_MAX);
        let kept = self.kept(bytes);
        if kept.len() < octets.min(self.octets as usize) {
            return None;
        }
        let mut room = [0_u8; MARK_OCTETS_MAX];
        let copy = room.get_mut(..kept.len().min(octets))?;
        copy.copy_from_slice(&kept[..copy.len()]);
        self.mask(copy, translated);
        // The length stands for the octets that aren't looked at.
        Some(hash64(u64::from(self.octets), copy))
    }

    /// Makes zero what changes on the way.
    fn mask(&self, bytes: &mut [u8], translated: bool) {
        if self.src.is_ipv4() {
            for (at, octets) in [(1, 1), (8, 1), (10, 2)] {
                zero(bytes, at, octets);
            }
        } else {
            for (octet, kept) in bytes.iter_mut().zip([0xf0, 0x0f]) {
                *octet &= kept;
            }
            zero(bytes, 7, 1);
        }
        if translated {
            let (at, octets) = if self.src.is_ipv4() { (12, 8) } else { (8, 32) };
            zero(bytes, at, octets);
        }
        if self.later_fragment {
            return;
        }
        let at = self.transport as usize;
        match self.protocol {
            protocol::TCP => {
                zero_announced_mss(bytes, at);
                zero(bytes, at + 16, 2);
            }
            protocol::UDP => zero(bytes, at + 6, 2),
            protocol::ICMPV6 => zero(bytes, at + 2, 2),
            _ => {}
        }
        if translated && self.ports.is_some() {
            zero(bytes, at, 4);
        }
    }
}

/// Makes `octets` octets zero, as far as they are there.
fn zero(bytes: &mut [u8], at: usize, octets: usize) {
    let end = (at + octets).min(bytes.len());
    if let Some(field) = bytes.get_mut(at..end) {
        field.fill(0);
    }
}

/// Makes zero what a SYN says of its maximum segment size.
fn zero_announced_mss(bytes: &mut [u8], start: usize) {
    let Some([offset, flags]) = array_at(bytes, start + 12) else {
        return;
    };
    if !TcpFlags(flags).contains(TcpFlags::SYN) {
        return;
    }
    let end = (start + usize::from(offset >> 4) * 4).min(bytes.len());
    let mut at = start + 20;
    while let Some(value) = next_mss(bytes, &mut at, end) {
        zero(bytes, value, 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::samples::{PING4, UDP6, ipv4};
    use crate::ip::{PacketInfo, clamp_mss, decrement_hop_limit, set_dscp, set_ecn_ce};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Captured {
        Captured::parse(bytes, 9000).unwrap()
    }

    fn mark(bytes: &[u8], octets: usize) -> Option<u64> {
        read(bytes).mark(bytes, octets, false)
    }

    /// A SYN that announces 1460 octets, with a wrong checksum, as on its way to the card.
    fn syn() -> Vec<u8> {
        let tcp: [u8; 28] = [
            0x13, 0x88, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x70, 2, 0xff, 0xff, 0xab, 0xcd, 0, 0, 2, 4,
            0x05, 0xb4, 1, 1, 1, 0,
        ];
        ipv4(&[], 0x4000, protocol::TCP, &tcp)
    }

    #[test]
    fn it_says_what_the_strict_reader_says() {
        for sample in [PING4, UDP6] {
            let (captured, info) = (read(sample), PacketInfo::parse(sample).unwrap());
            assert_eq!((captured.src, captured.dst), (info.src, info.dst));
            assert_eq!((captured.dscp, captured.ecn), (info.dscp, info.ecn));
            assert_eq!((captured.ports, captured.spi), (info.ports, info.spi));
            assert_eq!(captured.hop_limit, info.hop_limit);
            assert_eq!(captured.protocol, info.protocol);
            assert_eq!(captured.octets, info.octets);
        }
    }

    #[test]
    fn short_padded_and_huge_packets_are_read() {
        let padded = [PING4, &[0; 9]].concat();
        assert_eq!(read(&padded), read(PING4));
        assert_eq!(mark(&padded, 512), mark(PING4, 512));
        let head = read(&UDP6[..48]);
        assert_eq!((head.octets, head.ports), (53, Some((5004, 5006))));
        assert_eq!(read(&UDP6[..43]).ports, None);
        assert_eq!(Captured::parse(&UDP6[..39], 9), Err(ParseError::Truncated));
        let mut huge = Vec::from(PING4);
        huge[2..4].fill(0);
        assert_eq!(read(&huge).octets, 9000);
        let mut huge = Vec::from(UDP6);
        huge[4..6].fill(0);
        assert_eq!(read(&huge).octets, 9000);
        // Such a packet in a capture that tells no length, and one that is shorter than its header.
        let short = Err(ParseError::LengthMismatch);
        assert_eq!(Captured::parse(&huge, 39), short);
        assert_eq!(Captured::parse(&huge, 40).map(|read| read.octets), Ok(40));
        let mut wrong = Vec::from(PING4);
        wrong[2..4].copy_from_slice(&[0, 19]);
        assert_eq!(Captured::parse(&wrong, 9000), short);
    }

    #[test]
    fn a_mark_needs_its_octets() {
        for sample in [PING4, UDP6] {
            assert_eq!(mark(sample, 0), Some(hash64(sample.len() as u64, b"")));
            assert!(mark(sample, 1).is_some());
        }
        assert_eq!(mark(&PING4[..39], 40), None);
        assert_eq!(mark(&PING4[..40], 40), mark(PING4, 40));
        assert_eq!(mark(&PING4[..51], 512), None);
        assert_ne!(mark(PING4, 40), mark(PING4, 52));
    }

    #[test]
    fn what_changes_on_the_way_doesnt_count_and_all_else_does() {
        // Octets, and the bits of them that may change.
        let free4: &[(usize, u8)] = &[(1, 0xff), (8, 0xff), (10, 0xff), (11, 0xff)];
        let udp6: &[(usize, u8)] = &[(0, 0x0f), (1, 0xf0), (7, 0xff), (46, 0xff), (47, 0xff)];
        for (sample, free) in [(PING4, free4), (UDP6, udp6)] {
            for bit in 0..sample.len() * 8 {
                let (octet, mask) = (bit / 8, 1_u8 << (bit % 8));
                let mut other = Vec::from(sample);
                other[octet] ^= mask;
                let free = free
                    .iter()
                    .any(|(at, bits)| *at == octet && bits & mask != 0);
                let same = Captured::parse(&other, 0)
                    .is_ok_and(|read| read.mark(&other, 512, false) == mark(sample, 512));
                assert_eq!(same, free, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_lowered_segment_size_and_a_finished_checksum_change_no_mark() {
        let (sent, mut seen) = (syn(), syn());
        assert!(clamp_mss(&mut seen, 536));
        seen[36..38].copy_from_slice(&[1, 2]);
        assert_ne!(sent, seen);
        assert_eq!(mark(&sent, 512), mark(&seen, 512));
    }

    #[test]
    fn translated_packets_have_a_mark_of_their_own() {
        let (sent, mut seen) = (syn(), syn());
        seen[12..20].fill(9);
        seen[20..24].fill(9);
        assert_ne!(mark(&sent, 512), mark(&seen, 512));
        let of = |bytes: &[u8]| read(bytes).mark(bytes, 512, true);
        assert_eq!(of(&sent), of(&seen));
        seen[24] ^= 1;
        assert_ne!(of(&sent), of(&seen));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(
            bytes: Vec<u8>, ipv4: bool, octets in 0..600_usize, original: u32,
        ) {
            let first = if ipv4 { 0x45 } else { 0x60 };
            for bytes in [bytes.clone(), [&[first], &bytes[..]].concat()] {
                if let Ok(read) = Captured::parse(&bytes, original) {
                    let _ = read.mark(&bytes, octets, ipv4);
                    let _ = read.udp_payload(&bytes);
                    prop_assert!(read.kept(&bytes).len() <= bytes.len());
                }
            }
        }

        #[test]
        fn hops_keep_the_mark(dscp in 0..64_u8, octets in 20..600_usize, ipv4: bool) {
            let sent = Vec::from(if ipv4 { PING4 } else { UDP6 });
            let mut seen = sent.clone();
            set_dscp(&mut seen, dscp);
            set_ecn_ce(&mut seen);
            decrement_hop_limit(&mut seen);
            prop_assert_eq!(mark(&sent, octets), mark(&seen, octets));
        }
    }
}
