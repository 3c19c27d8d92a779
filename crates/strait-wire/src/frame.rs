//! The IP packet inside a captured frame, for the link types that captures usually have.

use crate::bytes::{array_at, u16_at};

/// What the octets of a captured frame are; numbers of the tcpdump registry.
pub mod linktype {
    /// BSD loopback: an address family in the order of octets of the host that captured.
    pub const NULL: u16 = 0;
    /// Ethernet frames.
    pub const ETHERNET: u16 = 1;
    /// PPP, with or without address and control fields.
    pub const PPP: u16 = 9;
    /// IP packets, by the number that some systems write into files.
    pub const DLT_RAW: u16 = 12;
    /// The same, of OpenBSD.
    pub const DLT_RAW_OPENBSD: u16 = 14;
    /// PPP in HDLC-like framing, or Cisco's HDLC.
    pub const PPP_HDLC: u16 = 50;
    /// A PPPoE session's frames, from the PPPoE header on.
    pub const PPP_ETHER: u16 = 51;
    /// IPv4 or IPv6 packets, nothing before them.
    pub const RAW: u16 = 101;
    /// Cisco's HDLC.
    pub const C_HDLC: u16 = 104;
    /// OpenBSD loopback: an address family, most significant octet first.
    pub const LOOP: u16 = 108;
    /// What Linux gives when it captures on all interfaces, first version.
    pub const LINUX_SLL: u16 = 113;
    /// Private; here the frames of our own links.
    pub const USER0: u16 = 147;
    /// Private; here octets of a serial line with urgent frames.
    pub const USER2: u16 = 149;
    /// Private; here the frames of reliable hops.
    pub const USER3: u16 = 150;
    /// IPv4 packets.
    pub const IPV4: u16 = 228;
    /// IPv6 packets.
    pub const IPV6: u16 = 229;
    /// D_PDUs of STANAG 5066, from the sync on.
    pub const STANAG_5066_D_PDU: u16 = 237;
    /// What Linux gives when it captures on all interfaces, second version.
    pub const LINUX_SLL2: u16 = 276;
}

/// Whether [`ip_packet`] can look into frames of this type.
#[must_use]
pub const fn is_known(linktype: u16) -> bool {
    use linktype::*;
    matches!(
        linktype,
        NULL | ETHERNET
            | PPP
            | DLT_RAW
            | DLT_RAW_OPENBSD
            | PPP_HDLC
            | PPP_ETHER
            | RAW
            | C_HDLC
            | LOOP
            | LINUX_SLL
            | IPV4
            | IPV6
            | LINUX_SLL2
    )
}

/// The most tags before an Ethernet frame's type that are followed: two are usual (QinQ), and a
/// bound keeps the time bounded.
const TAGS_MAX: usize = 4;

/// From the first octet of the IP packet in a frame to the frame's end, which may have padding or a
/// check of its own behind the packet. `None` for other contents and link types.
#[must_use]
pub fn ip_packet(linktype: u16, frame: &[u8]) -> Option<&[u8]> {
    match linktype {
        linktype::ETHERNET => by_ether_type(frame, 12, 14),
        linktype::RAW
        | linktype::DLT_RAW
        | linktype::DLT_RAW_OPENBSD
        | linktype::IPV4
        | linktype::IPV6 => Some(frame),
        linktype::LINUX_SLL => by_ether_type(frame, 14, 16),
        linktype::LINUX_SLL2 => by_ether_type(frame, 0, 20),
        linktype::NULL | linktype::LOOP => by_family(frame),
        linktype::PPP => by_ppp(frame),
        linktype::PPP_ETHER => by_ppp(frame.get(6..)?),
        linktype::PPP_HDLC | linktype::C_HDLC => match frame.first()? {
            // Unicast and broadcast addresses of Cisco's HDLC.
            0x0f | 0x8f => by_ether_type(frame, 2, 4),
            _ => by_ppp(frame),
        },
        _ => None,
    }
    .filter(|packet| matches!(packet.first().map(|octet| octet >> 4), Some(4 | 6)))
}

/// By an Ethernet type at `kind`, with contents from `start` on.
fn by_ether_type(frame: &[u8], mut kind: usize, mut start: usize) -> Option<&[u8]> {
    for _ in 0..=TAGS_MAX {
        match u16_at(frame, kind)? {
            0x0800 | 0x86dd => return frame.get(start..),
            // VLAN tags of IEEE 802.1Q and 802.1ad, and their forerunner.
            0x8100 | 0x88a8 | 0x9100 => {
                kind = start + 2;
                start += 4;
            }
            0x8864 => return by_ppp(frame.get(start + 6..)?),
            _ => return None,
        }
    }
    None
}

/// By an address family of four octets in either order; IPv6 has another one on each system.
fn by_family(frame: &[u8]) -> Option<&[u8]> {
    let family = array_at::<4>(frame, 0)?;
    let family = u32::from_be_bytes(family).min(u32::from_le_bytes(family));
    matches!(family, 2 | 10 | 24 | 28 | 30).then(|| &frame[4..])
}

/// By a PPP protocol field of one or two octets (RFC 1661 section 2), with or without address and
/// control before it (RFC 1662 section 3.1).
fn by_ppp(frame: &[u8]) -> Option<&[u8]> {
    let frame = frame.strip_prefix(&[0xff, 0x03]).unwrap_or(frame);
    match frame {
        [0x00, 0x21 | 0x57, packet @ ..] | [0x21 | 0x57, packet @ ..] => Some(packet),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const PACKET: &[u8] = &[0x45, 0, 0, 20];

    fn found(linktype: u16, head: &[u8]) -> bool {
        let frame = [head, PACKET].concat();
        ip_packet(linktype, &frame) == Some(PACKET)
    }

    #[test]
    fn the_packet_in_frames_of_each_type() {
        let cases: [(u16, &[u8]); 18] = [
            (1, &[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]),
            // One tag, then two.
            (
                1,
                &[
                    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0x60, 7, 0x08, 0x00,
                ],
            ),
            (
                1,
                &[
                    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xa8, 0, 9, 0x81, 0, 0, 7, 0x86, 0xdd,
                ],
            ),
            // A PPPoE session.
            (
                1,
                &[
                    2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x64, 0x11, 0, 0, 1, 0, 6, 0, 0x21,
                ],
            ),
            (101, &[]),
            (12, &[]),
            (228, &[]),
            (0, &[2, 0, 0, 0]),
            (0, &[0, 0, 0, 2]),
            (0, &[30, 0, 0, 0]),
            (108, &[0, 0, 0, 24]),
            (9, &[0xff, 3, 0, 0x21]),
            (9, &[0x57]),
            (50, &[0xff, 3, 0x21]),
            (50, &[0x0f, 0, 0x08, 0x00]),
            (51, &[0x11, 0, 0, 1, 0, 6, 0, 0x21]),
            (113, &[0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0x08, 0x00]),
            (
                276,
                &[
                    0x08, 0x00, 0, 0, 0, 0, 0, 2, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0,
                ],
            ),
        ];
        for (linktype, head) in cases {
            assert!(is_known(linktype));
            assert!(found(linktype, head), "{linktype} {head:x?}");
        }
    }

    #[test]
    fn other_contents_have_none() {
        let arp = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x06];
        assert!(!found(1, &arp));
        assert!(!found(0, &[7, 0, 0, 0]));
        assert!(!found(9, &[0xc0, 0x21]));
        assert!(!found(147, &[]));
        assert!(!is_known(147));
        assert_eq!(ip_packet(101, &[0x50, 0]), None);
        // A tag too many.
        let tags = [[0x81, 0, 0, 1]; TAGS_MAX + 1].concat();
        let address: &[u8] = &[0; 12];
        assert!(!found(1, &[address, &tags, &[8, 0]].concat()));
        assert!(found(1, &[address, &tags[4..], &[8, 0]].concat()));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(linktype in 0..300_u16, bytes: Vec<u8>) {
            let _ = ip_packet(linktype, &bytes);
        }
    }
}
