//! The packet by which a TCP client asks for a connection.

use core::net::SocketAddr;

use etherparse::{TcpHeaderSlice, TcpOptionElement};

use super::checksum::adjust;
use super::view::{TcpFlags, tcp_header};
use super::{PacketInfo, protocol};
use crate::bytes::{put_at, u16_at};

/// What a client says of itself in its SYN (RFC 9293 section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SynOptions {
    /// The largest segment that it takes, in octets.
    pub mss: Option<u16>,
    /// By how many bits its windows are to be shifted (RFC 7323 section 2).
    pub window_scale: Option<u8>,
    /// It understands selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// It puts times on its segments (RFC 7323 section 3).
    pub timestamps: bool,
}

/// A client's first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syn {
    /// The client.
    pub src: SocketAddr,
    /// Whom it wants.
    pub dst: SocketAddr,
    /// The packet's code point.
    pub dscp: u8,
    /// What it says of itself, up to the first option that can't be read.
    pub options: SynOptions,
}

impl Syn {
    /// Reads an unfragmented TCP packet that asks for a connection, and does nothing else. Its
    /// checksum isn't judged.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let info = PacketInfo::parse(bytes).ok()?;
        let view = tcp_header(bytes).filter(|_| info.protocol == protocol::TCP)?;
        let others = TcpFlags::ACK.0 | TcpFlags::RST.0 | TcpFlags::FIN.0;
        if !view.flags.contains(TcpFlags::SYN) || view.flags.0 & others != 0 {
            return None;
        }
        let (from, to) = info.ports?;
        let header = TcpHeaderSlice::from_slice(bytes.get(view.header)?).ok()?;
        let mut options = SynOptions::default();
        for option in header.options_iterator().map_while(Result::ok) {
            match option {
                TcpOptionElement::MaximumSegmentSize(octets) => options.mss = Some(octets),
                TcpOptionElement::WindowScale(bits) => options.window_scale = Some(bits),
                TcpOptionElement::SelectiveAcknowledgementPermitted => options.sack = true,
                TcpOptionElement::Timestamp(..) => options.timestamps = true,
                _ => {}
            }
        }
        Some(Self {
            src: SocketAddr::new(info.src, from),
            dst: SocketAddr::new(info.dst, to),
            dscp: info.dscp,
            options,
        })
    }
}

/// Sets the urgent pointer of a TCP packet, which says nothing as long as URG isn't set (RFC 9293
/// section 3.1), and keeps its checksum right. What is no such packet stays as it is.
pub fn set_urgent_pointer(bytes: &mut [u8], pointer: u16) {
    let Some(view) = tcp_header(bytes) else {
        return;
    };
    replace(bytes, view.header.start, 18, pointer);
}

/// Makes of a client's first packet the reset by which it takes that back: of the octet behind the
/// SYN (RFC 9293 section 3.10.7.4). What is no TCP packet stays as it is.
pub fn take_back(bytes: &mut [u8]) {
    let Some(view) = tcp_header(bytes) else {
        return;
    };
    let start = view.header.start;
    let [high, low] = [16, 0].map(|shift| (view.seq.wrapping_add(1) >> shift) as u16);
    let lengths = u16_at(bytes, start + 12).unwrap_or_default() & 0xff00;
    let words = [
        (4, high),
        (6, low),
        (12, lengths | u16::from(TcpFlags::RST.0)),
    ];
    for (at, new) in words {
        replace(bytes, start, at, new);
    }
}

/// Replaces two octets of a TCP header that begins at `start`, and keeps its checksum right.
fn replace(bytes: &mut [u8], start: usize, at: usize, new: u16) {
    if let Some(old) = u16_at(bytes, start + at) {
        put_at(bytes, start + at, new.to_be_bytes());
        adjust(bytes, start + 16, old, new);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::IpAddr;

    use super::super::{complete_tcp_checksum, verify_transport_checksum};
    use super::*;

    const OPTIONS: [u8; 20] = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ];

    /// A SYN from port 40,000 to 80 with AF21; its checksum is to be completed.
    fn syn(v6: bool, flags: u8, options: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0x9c, 0x40, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0];
        tcp.extend([
            (((20 + options.len()) / 4) << 4) as u8,
            flags,
            1,
            0,
            0,
            0,
            0,
            0,
        ]);
        tcp.extend(options);
        let (src, dst): (IpAddr, IpAddr) = if v6 {
            ("fd00::2".parse().unwrap(), "fd00::1".parse().unwrap())
        } else {
            ([10, 1, 0, 2].into(), [10, 1, 0, 1].into())
        };
        let mut bytes = Vec::new();
        let built = super::super::build_packet((src, dst), protocol::TCP, 18, 64, &tcp, &mut bytes);
        assert!(built);
        bytes
    }

    /// What stands where the checksum is to be.
    fn put_sum(bytes: &mut [u8], sum: u16) {
        let at = bytes.len() - 20 - OPTIONS.len() + 16;
        put_at(bytes, at, sum.to_be_bytes());
    }

    /// The sum over the pseudo-header, by hand: what a sender leaves to its hardware.
    fn partial(bytes: &[u8], v6: bool) -> u16 {
        let addresses = if v6 { 8..40 } else { 12..20 };
        let words = bytes[addresses].chunks(2);
        let sum: u32 = words
            .map(|it| u32::from(it[0]) << 8 | u32::from(it[1]))
            .sum();
        let sum = sum + 6 + 20 + OPTIONS.len() as u32;
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn a_syn_says_who_wants_whom_and_what_it_can() {
        for v6 in [false, true] {
            let found = Syn::parse(&syn(v6, 0x02, &OPTIONS)).unwrap();
            assert_eq!(
                (found.src.port(), found.dst.port(), found.dscp),
                (40_000, 80, 18)
            );
            assert_eq!(found.src.is_ipv6(), v6);
            let all = SynOptions {
                mss: Some(1460),
                window_scale: Some(7),
                sack: true,
                timestamps: true,
            };
            assert_eq!(found.options, all);
        }
        let bare = Syn::parse(&syn(false, 0xc2, &[])).unwrap();
        assert_eq!(bare.options, SynOptions::default());
        // What can't be read ends the list.
        let cut = Syn::parse(&syn(false, 0x02, &[2, 4, 0, 200, 3, 1, 4, 2])).unwrap();
        assert_eq!((cut.options.mss, cut.options.sack), (Some(200), false));
    }

    #[test]
    fn only_a_plain_syn_asks() {
        for flags in [0x12, 0x03, 0x06, 0x10, 0x04, 0] {
            assert_eq!(Syn::parse(&syn(false, flags, &OPTIONS)), None, "{flags:#x}");
        }
        let whole = syn(true, 0x02, &OPTIONS);
        for cut in 0..whole.len() {
            assert_eq!(Syn::parse(&whole[..cut]), None);
        }
    }

    #[test]
    fn a_checksum_left_to_hardware_is_completed_and_a_wrong_one_is_not() {
        for v6 in [false, true] {
            let mut bytes = syn(v6, 0x02, &OPTIONS);
            let left = partial(&bytes, v6);
            put_sum(&mut bytes, left ^ 1);
            assert!(!complete_tcp_checksum(&mut bytes));
            put_sum(&mut bytes, left);
            assert_eq!(verify_transport_checksum(&bytes), Some(false));
            assert!(complete_tcp_checksum(&mut bytes));
            assert_eq!(verify_transport_checksum(&bytes), Some(true));
            let before = bytes.clone();
            assert!(complete_tcp_checksum(&mut bytes));
            assert_eq!(bytes, before);
            set_urgent_pointer(&mut bytes, 0x5374);
            assert_eq!(verify_transport_checksum(&bytes), Some(true));
            assert_eq!(Syn::parse(&bytes), Syn::parse(&before));
            assert_ne!(bytes, before);
            set_urgent_pointer(&mut bytes, 0);
            assert_eq!(bytes, before);
        }
        assert!(!complete_tcp_checksum(&mut [0; 40]));
    }

    #[test]
    fn a_syn_is_taken_back_by_the_reset_of_its_octet() {
        for v6 in [false, true] {
            let mut bytes = syn(v6, 0x02, &OPTIONS);
            let sum = partial(&bytes, v6);
            put_sum(&mut bytes, sum);
            assert!(complete_tcp_checksum(&mut bytes));
            take_back(&mut bytes);
            assert_eq!(verify_transport_checksum(&bytes), Some(true));
            let view = tcp_header(&bytes).unwrap();
            assert_eq!((view.seq, view.flags), (10, TcpFlags::RST));
            assert_eq!(Syn::parse(&bytes), None);
        }
    }
}
