//! The headers that profiles compress, as fields, and back.

use alloc::vec::Vec;

use super::Profile;
use super::envelope::{Cover, Envelope};
use super::numbers::Cursor;

/// Protocol numbers (RFC 5237 registry).
mod protocol {
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const ESP: u8 = 50;
}

/// Every field of the headers of one packet but those that follow from its length. Which of them
/// mean something depends on the profile; the others are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) v6: bool,
    /// Traffic class, or type of service.
    pub(super) traffic_class: u8,
    /// Hop limit, or time to live.
    pub(super) hop_limit: u8,
    /// Next header, or protocol.
    pub(super) protocol: u8,
    pub(super) flow_label: u32,
    /// IPv4: identification, as the header has it.
    pub(super) id: u16,
    pub(super) dont_fragment: bool,
    /// Addresses; IPv4 ones take the first four octets.
    pub(super) src: [u8; 16],
    pub(super) dst: [u8; 16],
    /// UDP and TCP: source and destination port.
    pub(super) ports: [u16; 2],
    /// UDP: checksum; zero if there is none.
    pub(super) checksum: u16,
    pub(super) padding: bool,
    pub(super) extension: bool,
    pub(super) marker: bool,
    pub(super) payload_type: u8,
    pub(super) timestamp: u32,
    /// RTP: synchronisation source; ESP: security parameters index.
    pub(super) source: u32,
    /// RTP or ESP sequence number, or the compressor's own.
    pub(super) sequence: u32,
    /// What lies around the IP header: the fields above are the inner one's of two.
    pub(super) envelope: Envelope,
}

/// The fields of one flow that never change: its context's static part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    v6: bool,
    protocol: u8,
    flow_label: u32,
    src: [u8; 16],
    dst: [u8; 16],
    ports: [u16; 2],
    /// ESP: security parameters index.
    index: u32,
    cover: Cover,
}

impl Fields {
    /// Reads one IP header or two, and that of UDP or ESP behind them. `None` for what isn't
    /// repeated exactly by [`Self::emit`]: IPv4 options, IPv4 fragments, lengths or checksums that
    /// are wrong.
    pub(super) fn parse(packet: &[u8]) -> Option<(Profile, Self)> {
        let (mut fields, mut rest) = Self::read_ip(packet)?;
        if let Some((inner, behind)) = Self::read_ip(rest)
            && fields.carries(inner.v6)
        {
            (fields, rest) = (inner.behind(&fields), behind);
        }
        let mut rest = Cursor(rest);
        let profile = match fields.protocol {
            protocol::UDP => {
                let octets = rest.0.len();
                fields.ports = [rest.u16()?, rest.u16()?];
                let length = rest.u16()?;
                fields.checksum = rest.u16()?;
                if usize::from(length) != octets {
                    return None;
                }
                Profile::Udp
            }
            protocol::ESP => {
                fields.source = rest.u32()?;
                fields.sequence = rest.u32()?;
                Profile::Esp
            }
            // Its own header is read by whoever compresses it.
            protocol::TCP => Profile::Tcp,
            _ => Profile::Ip,
        };
        Some((profile, fields))
    }

    pub(super) fn read_v4<'a>(&mut self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let (header, rest) = packet.split_at_checked(20)?;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let flags = u16::from_be_bytes([header[6], header[7]]);
        if header[0] != 0x45 || total != packet.len() || flags & !0x4000 != 0 || sum16(header) != 0
        {
            return None;
        }
        self.traffic_class = header[1];
        self.id = u16::from_be_bytes([header[4], header[5]]);
        self.dont_fragment = flags != 0;
        self.hop_limit = header[8];
        self.protocol = header[9];
        self.src[..4].copy_from_slice(&header[12..16]);
        self.dst[..4].copy_from_slice(&header[16..20]);
        Some(rest)
    }

    pub(super) fn read_v6<'a>(&mut self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let (header, rest) = packet.split_at_checked(40)?;
        if usize::from(u16::from_be_bytes([header[4], header[5]])) != rest.len() {
            return None;
        }
        let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        self.v6 = true;
        self.traffic_class = (first >> 20) as u8;
        self.flow_label = first & 0x000f_ffff;
        self.protocol = header[6];
        self.hop_limit = header[7];
        self.src.copy_from_slice(&header[8..24]);
        self.dst.copy_from_slice(&header[24..40]);
        Some(rest)
    }

    /// The same with the RTP header that follows the UDP header, if one can be there: version 2,
    /// no contributing sources, not the packet types of RTCP (RFC 5761 section 4).
    pub(super) fn with_rtp(mut self, packet: &[u8]) -> Option<Self> {
        let mut rtp = Cursor(packet.get(self.octets(Profile::Udp)..)?);
        let first = rtp.u8()?;
        let second = rtp.u8()?;
        let payload_type = second & 0x7f;
        if first >> 6 != 2 || first & 0x0f != 0 || (64..96).contains(&payload_type) {
            return None;
        }
        self.padding = first & 0x20 != 0;
        self.extension = first & 0x10 != 0;
        self.marker = second & 0x80 != 0;
        self.payload_type = payload_type;
        self.sequence = u32::from(rtp.u16()?);
        self.timestamp = rtp.u32()?;
        self.source = rtp.u32()?;
        Some(self)
    }

    /// What tells this packet's flow from others.
    pub(super) const fn flow(&self, profile: Profile) -> Flow {
        Flow {
            v6: self.v6,
            protocol: self.protocol,
            flow_label: self.flow_label,
            src: self.src,
            dst: self.dst,
            ports: self.ports,
            index: match profile {
                Profile::Esp => self.source,
                _ => 0,
            },
            cover: self.envelope.cover(),
        }
    }

    /// All that a transport checksum says of the flow: the sum of its addresses, ports and source.
    /// Turned round it is the same.
    pub(super) fn covered(&self) -> u32 {
        let addresses = self.src.chunks(2).chain(self.dst.chunks(2));
        let addresses = addresses.map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
        let ports = self.ports.iter().map(|&port| u32::from(port));
        let source = [self.source >> 16, self.source & 0xffff];
        addresses.chain(ports).chain(source).sum::<u32>() % 0xffff
    }

    /// The same as `other` but for what changes with every packet, or often: those fields are the
    /// ones that checks take last, see [`Spans`].
    pub(super) fn stays_as(&self, other: &Self) -> bool {
        let same = Self {
            id: other.id,
            checksum: other.checksum,
            marker: other.marker,
            payload_type: other.payload_type,
            timestamp: other.timestamp,
            sequence: other.sequence,
            envelope: other.envelope,
            ..*self
        };
        same == *other && self.envelope.stays_as(&other.envelope)
    }

    /// The same at the place in the flow where `other` is.
    pub(super) const fn at(self, other: &Self) -> Self {
        let mut envelope = self.envelope;
        envelope.take_id(&other.envelope);
        Self {
            envelope,
            sequence: other.sequence,
            timestamp: other.timestamp,
            id: other.id,
            checksum: other.checksum,
            ..self
        }
    }

    /// Octets of the headers that `profile` compresses.
    pub(super) const fn octets(&self, profile: Profile) -> usize {
        self.envelope.octets_ahead()
            + self.ip_octets()
            + match profile {
                // TCP's header hasn't always the same length.
                Profile::Uncompressed | Profile::Ip | Profile::Tcp => 0,
                Profile::Udp | Profile::Esp => 8,
                Profile::Rtp => 20,
            }
    }

    /// Appends the headers of a packet with `payload` octets behind them. `false`, and nothing is
    /// appended, if no packet is that long.
    pub(super) fn emit(&self, profile: Profile, payload: usize, out: &mut Vec<u8>) -> bool {
        let whole = self.octets(profile) + payload;
        if !self.emit_ip(whole, out) {
            return false;
        }
        match profile {
            Profile::Uncompressed | Profile::Ip | Profile::Tcp => {}
            Profile::Esp => {
                out.extend_from_slice(&self.source.to_be_bytes());
                out.extend_from_slice(&self.sequence.to_be_bytes());
            }
            Profile::Udp | Profile::Rtp => {
                out.extend_from_slice(&self.ports[0].to_be_bytes());
                out.extend_from_slice(&self.ports[1].to_be_bytes());
                let length = whole - self.octets(Profile::Ip);
                out.extend_from_slice(&(length as u16).to_be_bytes());
                out.extend_from_slice(&self.checksum.to_be_bytes());
                if profile == Profile::Rtp {
                    self.emit_rtp(out);
                }
            }
        }
        true
    }

    pub(super) fn emit_v6(&self, next: u8, length: u16, out: &mut Vec<u8>) {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        out.extend_from_slice(&first.to_be_bytes());
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&[next, self.hop_limit]);
        out.extend_from_slice(&self.src);
        out.extend_from_slice(&self.dst);
    }

    pub(super) fn emit_v4(&self, length: u16, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0x45, self.traffic_class]);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&[u8::from(self.dont_fragment) << 6, 0]);
        out.extend_from_slice(&[self.hop_limit, self.protocol, 0, 0]);
        out.extend_from_slice(&self.src[..4]);
        out.extend_from_slice(&self.dst[..4]);
        let checksum = sum16(&out[start..]);
        out[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
    }

    fn emit_rtp(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[
            0x80 | u8::from(self.padding) << 5 | u8::from(self.extension) << 4,
            u8::from(self.marker) << 7 | self.payload_type,
        ]);
        out.extend_from_slice(&(self.sequence as u16).to_be_bytes());
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.source.to_be_bytes());
    }
}

/// The Internet checksum over a header of even length; zero if that contains its own (RFC 1071).
fn sum16(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Where in a header the fields lie that change with every packet. Checks take them last, so that
/// what comes before can be summed once a flow (RFC 3095 section 5.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spans {
    profile: Profile,
    /// Octets and version of the IP header ahead of another, with its extension headers.
    outer: Option<(usize, bool)>,
    /// Octets and version of the IP header, with its extension headers.
    ip: (usize, bool),
}

impl Spans {
    pub(super) const fn new(profile: Profile, fields: &Fields) -> Self {
        let ahead = fields.envelope.octets_ahead();
        Self {
            profile,
            outer: match fields.envelope.outer {
                Some(outer) => Some((ahead, outer.v6)),
                None => None,
            },
            ip: (fields.ip_octets(), fields.v6),
        }
    }

    /// The pieces of `header` that stay. It is as long as [`Fields::octets`] says.
    pub(super) fn stays(self, header: &[u8]) -> [&[u8]; 9] {
        let (outer, ip, next) = self.split(header);
        let [a, b, c]: [&[u8]; 3] = match self.outer {
            Some((_, v6)) => ip_stays(outer, v6),
            None => [&[]; 3],
        };
        let [d, e, f] = ip_stays(ip, self.ip.1);
        let [g, h, i]: [&[u8]; 3] = match self.profile {
            Profile::Uncompressed | Profile::Ip | Profile::Tcp => [&[]; 3],
            Profile::Esp | Profile::Udp => [&next[..4], &[], &[]],
            Profile::Rtp => [&next[..4], &next[8..9], &next[16..]],
        };
        [a, b, c, d, e, f, g, h, i]
    }

    /// The pieces that change.
    pub(super) fn changes(self, header: &[u8]) -> [&[u8]; 6] {
        let (outer, ip, next) = self.split(header);
        let [a, b]: [&[u8]; 2] = match self.outer {
            Some((_, v6)) => ip_changes(outer, v6),
            None => [&[]; 2],
        };
        let [c, d] = ip_changes(ip, self.ip.1);
        let [e, f]: [&[u8]; 2] = match self.profile {
            Profile::Uncompressed | Profile::Ip | Profile::Tcp => [&[]; 2],
            Profile::Esp | Profile::Udp => [&next[4..], &[]],
            Profile::Rtp => [&next[4..8], &next[9..16]],
        };
        [a, b, c, d, e, f]
    }

    /// The IP header ahead, the one behind it, and what follows that.
    fn split(self, header: &[u8]) -> (&[u8], &[u8], &[u8]) {
        let (outer, header) = header.split_at(self.outer.map_or(0, |(octets, _)| octets));
        let (ip, next) = header.split_at(self.ip.0);
        (outer, ip, next)
    }
}

fn ip_stays(ip: &[u8], v6: bool) -> [&[u8]; 3] {
    if v6 {
        [&ip[..4], &ip[6..], &[]]
    } else {
        [&ip[..2], &ip[6..10], &ip[12..]]
    }
}

fn ip_changes(ip: &[u8], v6: bool) -> [&[u8]; 2] {
    if v6 {
        [&ip[4..6], &[]]
    } else {
        [&ip[2..6], &ip[10..12]]
    }
}
