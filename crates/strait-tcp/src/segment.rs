//! TCP segments as octets and as meaning: the header with the options that hosts use, in an IP
//! packet without extension headers. Anything else that an endpoint can be sent is read too.

use std::net::{IpAddr, SocketAddr};

use strait_wire::ip::{PacketInfo, TcpFlags, tcp_header, verify_transport_checksum};

/// Numbers in front of any sequence number in use, so that there is room below.
pub(super) const SEQUENCE_BASE: u64 = 1 << 32;

/// The place in the stream that 32 bits mean: the nearest to `near` (RFC 9293 section 3.4).
pub(super) const fn unwrap_sequence(near: u64, value: u32) -> u64 {
    let delta = value.wrapping_sub(near as u32) as i32;
    near.wrapping_add_signed(delta as i64)
}

/// Ranges of sequence numbers in one selective acknowledgement; four fit in a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SackBlocks {
    blocks: [(u32, u32); 4],
    count: u8,
}

impl SackBlocks {
    pub(super) fn push(&mut self, start: u32, end: u32) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = (start, end);
            self.count += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// TCP options (RFC 9293 section 3.2, RFC 2018, RFC 7323).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack_permitted: bool,
    /// Value and echo reply.
    pub(super) timestamps: Option<(u32, u32)>,
    pub(super) sack: SackBlocks,
}

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

fn word(octets: &[u8], at: usize) -> Option<u32> {
    octets
        .get(at..at + 4)?
        .first_chunk::<4>()
        .map(|chunk| u32::from_be_bytes(*chunk))
}

impl Options {
    /// Reads options up to the end or the first that is malformed.
    pub(super) fn parse(mut octets: &[u8]) -> Self {
        let mut options = Self::default();
        while let Some((kind, rest)) = octets.split_first() {
            match *kind {
                END => break,
                NOP => octets = rest,
                kind => {
                    let length = rest.first().map_or(0, |length| usize::from(*length));
                    let Some(value) = octets.get(2..length) else {
                        break;
                    };
                    options.take(kind, value);
                    octets = &octets[length..];
                }
            }
        }
        options
    }

    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (MSS, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
            // A shift above 14 is used as 14: RFC 7323 section 2.3.
            (WINDOW_SCALE, [shift]) => self.window_scale = Some((*shift).min(14)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (TIMESTAMPS, value) if value.len() == 8 => {
                self.timestamps = word(value, 0).zip(word(value, 4));
            }
            (SACK, value) if value.len().is_multiple_of(8) => {
                self.sack = SackBlocks::default();
                for block in value.chunks_exact(8) {
                    if let Some((start, end)) = word(block, 0).zip(word(block, 4)) {
                        self.sack.push(start, end);
                    }
                }
            }
            _ => {}
        }
    }

    /// Appends the options, padded to whole words, in the order and with the padding that Linux
    /// has.
    fn write(&self, out: &mut Vec<u8>) {
        if let Some(mss) = self.mss {
            out.extend_from_slice(&[MSS, 4]);
            out.extend_from_slice(&mss.to_be_bytes());
        }
        if let Some((value, echo)) = self.timestamps {
            let lead = if self.sack_permitted {
                [SACK_PERMITTED, 2]
            } else {
                [NOP, NOP]
            };
            out.extend_from_slice(&lead);
            out.extend_from_slice(&[TIMESTAMPS, 10]);
            out.extend_from_slice(&value.to_be_bytes());
            out.extend_from_slice(&echo.to_be_bytes());
        } else if self.sack_permitted {
            out.extend_from_slice(&[NOP, NOP, SACK_PERMITTED, 2]);
        }
        if let Some(shift) = self.window_scale {
            out.extend_from_slice(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            out.extend_from_slice(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                out.extend_from_slice(&start.to_be_bytes());
                out.extend_from_slice(&end.to_be_bytes());
            }
        }
    }

    /// Octets that [`Options::write`] appends.
    pub(super) fn octets(&self) -> usize {
        let sack = match self.sack.as_slice().len() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        let lone_permission = self.sack_permitted && self.timestamps.is_none();
        [
            (self.mss.is_some(), 4),
            (self.timestamps.is_some(), 12),
            (lone_permission, 4),
            (self.window_scale.is_some(), 4),
        ]
        .iter()
        .map(|(present, octets)| if *present { *octets } else { 0 })
        .sum::<usize>()
            + sack
    }
}

/// A segment received.
#[derive(Clone, Debug)]
pub(super) struct Segment<'a> {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: TcpFlags,
    pub(super) window: u16,
    pub(super) options: Options,
    pub(super) payload: &'a [u8],
    /// The packet met congestion (RFC 3168 section 5).
    pub(super) congested: bool,
}

/// Octets of an IP header without options or extensions.
pub(super) const fn ip_header_octets(ipv4: bool) -> usize {
    if ipv4 { 20 } else { 40 }
}

impl<'a> Segment<'a> {
    /// Reads a packet from `remote` to `local` whose checksums are right.
    pub(super) fn parse(packet: &'a [u8], local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        let view = tcp_header(packet)?;
        let header = packet.get(view.header.clone())?;
        let ipv4 = local.is_ipv4();
        let ecn = if view.header.start == ip_header_octets(ipv4)
            && packet[0] >> 4 == if ipv4 { 4 } else { 6 }
        {
            Self::check_plain(packet, ipv4, view.header.start, (local, remote))?
        } else {
            let info = PacketInfo::parse(packet).ok()?;
            let addressed = info.src == remote.ip() && info.dst == local.ip();
            if !addressed || verify_transport_checksum(packet) != Some(true) {
                return None;
            }
            info.ecn
        };
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        if (port(0), port(2)) != (remote.port(), local.port()) {
            return None;
        }
        Some(Self {
            seq: view.seq,
            ack: view.ack,
            flags: view.flags,
            window: view.window,
            options: Options::parse(header.get(20..)?),
            payload: packet.get(view.payload)?,
            congested: ecn == 3,
        })
    }

    /// Addresses and checksum of a packet with a plain IP header; its ECN field.
    fn check_plain(
        packet: &[u8],
        ipv4: bool,
        start: usize,
        (local, remote): (SocketAddr, SocketAddr),
    ) -> Option<u8> {
        let fragment = ipv4 && (packet[6] & 0x3f, packet[7]) != (0, 0);
        let addresses = if ipv4 { 12..20 } else { 8..40 };
        let matches = match (local.ip(), remote.ip()) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                packet[12..16] == remote.octets() && packet[16..20] == local.octets()
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                packet[8..24] == remote.octets() && packet[24..40] == local.octets()
            }
            _ => false,
        };
        let segment = &packet[start..];
        let sum = sum(&packet[addresses]) + sum(segment) + segment.len() as u64 + 6;
        if fragment || !matches || fold(sum) != 0xffff {
            return None;
        }
        Some(if ipv4 {
            packet[1] & 3
        } else {
            packet[1] >> 4 & 3
        })
    }

    /// Sequence numbers that the segment takes.
    pub(super) fn length(&self) -> u64 {
        self.payload.len() as u64
            + u64::from(self.has(TcpFlags::SYN))
            + u64::from(self.has(TcpFlags::FIN))
    }

    pub(super) const fn has(&self, flag: TcpFlags) -> bool {
        self.flags.contains(flag)
    }
}

/// A segment to send, all but its data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: TcpFlags,
    pub(super) window: u16,
    pub(super) options: Options,
    /// ECN capable transport (RFC 3168 section 6.1.2).
    pub(super) ecn_capable: bool,
    pub(super) dont_fragment: bool,
    /// IPv4 identification.
    pub(super) ident: u16,
}

const HOP_LIMIT: u8 = 64;
const PROTOCOL_TCP: u8 = 6;

impl Outgoing {
    /// Writes the packet into `out`, which is empty; `data` appends what it carries.
    pub(super) fn write(
        &self,
        (local, remote): (SocketAddr, SocketAddr),
        out: &mut Vec<u8>,
        data: impl FnOnce(&mut Vec<u8>),
    ) {
        let ecn = if self.ecn_capable { 2 } else { 0 };
        let (start, addresses) = match (local.ip(), remote.ip()) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let fragment = if self.dont_fragment { 0x40 } else { 0 };
                let [id_high, id_low] = self.ident.to_be_bytes();
                out.extend_from_slice(&[0x45, ecn, 0, 0, id_high, id_low, fragment, 0]);
                out.extend_from_slice(&[HOP_LIMIT, PROTOCOL_TCP, 0, 0]);
                out.extend_from_slice(&local.octets());
                out.extend_from_slice(&remote.octets());
                (20, 12..20)
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                out.extend_from_slice(&[0x60, ecn << 4, 0, 0, 0, 0, PROTOCOL_TCP, HOP_LIMIT]);
                out.extend_from_slice(&local.octets());
                out.extend_from_slice(&remote.octets());
                (40, 8..40)
            }
            _ => return,
        };
        let words = (20 + self.options.octets()) / 4;
        out.extend_from_slice(&local.port().to_be_bytes());
        out.extend_from_slice(&remote.port().to_be_bytes());
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.ack.to_be_bytes());
        out.extend_from_slice(&[(words as u8) << 4, self.flags.0]);
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        self.options.write(out);
        data(out);
        let octets = out.len() - start;
        let check = !fold(sum(&out[addresses]) + sum(&out[start..]) + octets as u64 + 6);
        out[start + 16..start + 18].copy_from_slice(&check.to_be_bytes());
        if start == 20 {
            let total = (octets + 20) as u16;
            out[2..4].copy_from_slice(&total.to_be_bytes());
            let check = !fold(sum(&out[..20]));
            out[10..12].copy_from_slice(&check.to_be_bytes());
        } else {
            out[4..6].copy_from_slice(&(octets as u16).to_be_bytes());
        }
    }
}

/// The sum of 16-bit words of RFC 1071, an odd octet padded with zero.
fn sum(octets: &[u8]) -> u64 {
    let mut chunks = octets.chunks_exact(4);
    let mut total: u64 = 0;
    for chunk in &mut chunks {
        total += u64::from(u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]));
    }
    let mut last = [0; 4];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(last))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
