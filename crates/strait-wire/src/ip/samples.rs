//! Packets for tests.

use alloc::vec::Vec;
use etherparse::checksum::Sum16BitWords;

/// An echo request as a Linux kernel sent it: DSCP 46, don't fragment, 24 octets of data.
pub(crate) const PING4: &[u8] = b"\
\x45\xb8\x00\x34\x6b\x3e\x40\x00\x40\x01\xd0\xd0\x7f\x00\x00\x01\x7f\x00\x00\x01\
\x08\x00\xa9\xf1\x21\xfd\x00\x01\x27\xf4\x00\x6b\x00\x00\x00\x00\xad\x60\x0a\x00\
\x00\x00\x00\x00\x10\x11\x12\x13\x14\x15\x16\x17";

/// UDP from 2001:db8::1 port 5004 to 2001:db8:1::2 port 5006: DSCP 46, ECT(0), label 0xabcde, 5
/// octets.
pub(crate) const UDP6: &[u8] = b"\
\x6b\xaa\xbc\xde\x00\x0d\x11\x40\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\
\x00\x00\x00\x01\x20\x01\x0d\xb8\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\
\x13\x8c\x13\x8e\x00\x0d\x39\x72hello";

/// An IPv4 packet with right header checksum, for whatever stands in it.
pub(crate) fn ipv4(options: &[u8], flags: u16, protocol: u8, data: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut packet = Vec::from([0x40 | (header / 4) as u8, 0]);
    packet.extend_from_slice(&((header + data.len()) as u16).to_be_bytes());
    packet.extend_from_slice(&[0x12, 0x34]);
    packet.extend_from_slice(&flags.to_be_bytes());
    packet.extend_from_slice(&[64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
    packet.extend_from_slice(options);
    let sum = Sum16BitWords::new()
        .add_slice(&packet)
        .ones_complement()
        .to_ne_bytes();
    packet[10..12].copy_from_slice(&sum);
    packet.extend_from_slice(data);
    packet
}

/// An IPv6 packet from 2001:db8::1 to 2001:db8:1::2.
pub(crate) fn ipv6(next_header: u8, data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::from([0x60, 0, 0, 0]);
    packet.extend_from_slice(&(data.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[next_header, 64]);
    packet.extend_from_slice(&UDP6[8..40]);
    packet.extend_from_slice(data);
    packet
}
