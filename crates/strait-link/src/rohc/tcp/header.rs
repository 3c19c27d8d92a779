//! IP and TCP headers as fields, and back.

use alloc::vec::Vec;

use super::super::Profile;
use super::super::fields::Fields;
use super::super::numbers::Cursor;
use super::options::Options;

/// Flags of the fourteenth octet, lowest first (RFC 9293 section 3.1).
pub(super) mod flag {
    /// FIN, SYN and RST.
    pub(in super::super) const RSF: u8 = 0x07;
    pub(in super::super) const PUSH: u8 = 0x08;
    pub(in super::super) const ACK: u8 = 0x10;
    pub(in super::super) const URGENT: u8 = 0x20;
}

/// Every field of the headers but those that follow from the packet's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Header {
    pub(super) ip: Fields,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) window: u16,
    pub(super) checksum: u16,
    pub(super) urgent: u16,
    /// Four bits.
    pub(super) reserved: u8,
    /// CWR and ECE.
    pub(super) ecn: u8,
    /// The six older flags; see [`flag`].
    pub(super) flags: u8,
    pub(super) options: Options,
}

impl Header {
    /// Octets of a TCP header without options.
    const PLAIN_OCTETS: usize = 20;

    /// Headers of the flow that `ip` tells, all else zero.
    pub(super) fn new(ip: Fields) -> Self {
        Self {
            ip,
            sequence: 0,
            acknowledgement: 0,
            window: 0,
            checksum: 0,
            urgent: 0,
            reserved: 0,
            ecn: 0,
            flags: 0,
            options: Options::default(),
        }
    }

    /// Reads the TCP header behind the IP header, which `ip` was read from. `None` for what isn't
    /// repeated exactly by [`Self::emit`].
    pub(in super::super) fn parse(mut ip: Fields, packet: &[u8]) -> Option<Self> {
        let mut tcp = Cursor(packet.get(ip.octets(Profile::Ip)..)?);
        ip.ports = [tcp.u16()?, tcp.u16()?];
        let mut header = Self::new(ip);
        header.sequence = tcp.u32()?;
        header.acknowledgement = tcp.u32()?;
        let first = tcp.u8()?;
        let second = tcp.u8()?;
        header.reserved = first & 0x0f;
        header.ecn = second >> 6;
        header.flags = second & 0x3f;
        header.window = tcp.u16()?;
        header.checksum = tcp.u16()?;
        header.urgent = tcp.u16()?;
        let octets = usize::from(first >> 4) * 4;
        let options = tcp.take(octets.checked_sub(Self::PLAIN_OCTETS)?)?;
        header.options = Options::parse(options)?;
        Some(header)
    }

    /// Octets of IP and TCP header.
    pub(in super::super) fn octets(&self) -> usize {
        self.ip.octets(Profile::Ip) + Self::PLAIN_OCTETS + self.options.octets()
    }

    /// Appends the headers of a packet with `payload` octets behind them. `false`, and nothing is
    /// appended, if there is no such packet.
    pub(super) fn emit(&self, payload: usize, out: &mut Vec<u8>) -> bool {
        let tcp = Self::PLAIN_OCTETS + self.options.octets();
        if !tcp.is_multiple_of(4) || !self.ip.emit(Profile::Ip, tcp + payload, out) {
            return false;
        }
        out.extend_from_slice(&self.ip.ports[0].to_be_bytes());
        out.extend_from_slice(&self.ip.ports[1].to_be_bytes());
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.acknowledgement.to_be_bytes());
        out.push((tcp as u8 / 4) << 4 | self.reserved);
        out.push(self.ecn << 6 | self.flags);
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&self.checksum.to_be_bytes());
        out.extend_from_slice(&self.urgent.to_be_bytes());
        out.extend_from_slice(self.options.raw());
        true
    }

    /// The fields of the IP header that tell flows apart, and the ports.
    pub(in super::super) const fn ip(&self) -> &Fields {
        &self.ip
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The congestion bits of both headers and the reserved ones, as every packet says them where
    /// they change.
    pub(super) const fn congestion(&self) -> u8 {
        (self.ip.traffic_class & 3) << 6 | self.reserved << 2 | self.ecn
    }

    pub(super) const fn set_congestion(&mut self, octet: u8) {
        self.ip.traffic_class = self.ip.traffic_class & !3 | octet >> 6;
        self.reserved = octet >> 2 & 0x0f;
        self.ecn = octet & 3;
    }

    /// The number of the combination of RST, SYN and FIN (`rsf_index_enc`); `None`: compressed
    /// headers can't say it.
    pub(super) const fn rsf(&self) -> Option<u8> {
        match self.flags & flag::RSF {
            0 => Some(0),
            4 => Some(1),
            2 => Some(2),
            1 => Some(3),
            _ => None,
        }
    }

    pub(super) const fn set_rsf(&mut self, index: u8) {
        let rsf = match index & 3 {
            0 => 0,
            1 => 4,
            2 => 2,
            _ => 1,
        };
        self.flags = self.flags & !flag::RSF | rsf;
    }
}
