//! Static and dynamic chains (RFC 6846 section 6.3 and 8.2).

use alloc::vec::Vec;

use super::super::envelope::{List, is_ip};
use super::super::fields::Fields;
use super::super::numbers::Cursor;
use super::header::{Header, flag};
use super::options::{Options, Table};
use super::{Ids, Known};

/// The protocol number of TCP.
const TCP: u8 = 6;

impl Known {
    /// Appends the static chain.
    pub(super) fn put_static(&self, out: &mut Vec<u8>) {
        let ip = &self.header.ip;
        if let Some(outer) = ip.outer() {
            put_static_ip(&outer, out);
        }
        put_static_ip(ip, out);
        out.extend_from_slice(&ip.ports[0].to_be_bytes());
        out.extend_from_slice(&ip.ports[1].to_be_bytes());
    }

    /// Reads a static chain.
    pub(super) fn read_static(chain: &mut Cursor<'_>) -> Option<Self> {
        let mut ip = read_static_ip(chain)?;
        if is_ip(ip.protocol) {
            let inner = read_static_ip(chain).filter(|inner| ip.carries(inner.v6))?;
            ip = inner.behind(&ip);
        }
        if ip.protocol != TCP {
            return None;
        }
        ip.ports = [chain.u16()?, chain.u16()?];
        Some(Self::new(Header::new(ip)))
    }

    pub(super) const fn new(header: Header) -> Self {
        Self {
            header,
            msn: 0,
            ids: Ids::Random,
            outer_ids: Ids::Random,
            ecn_used: false,
            ack_stride: 0,
        }
    }

    /// Appends the dynamic chain.
    pub(super) fn put_dynamic(&self, out: &mut Vec<u8>) {
        let Header { ip, .. } = &self.header;
        if let Some(outer) = ip.outer() {
            put_dynamic_ip(&outer, self.outer_ids, out);
        }
        put_dynamic_ip(ip, self.ids, out);
        let Header {
            acknowledgement: ack,
            urgent,
            ..
        } = self.header;
        out.push(
            u8::from(self.ecn_used) << 7
                | u8::from(self.ack_stride != 0) << 6
                | u8::from(ack == 0) << 5
                | u8::from(urgent == 0) << 4
                | self.header.reserved,
        );
        out.push(self.header.ecn << 6 | self.header.flags);
        out.extend_from_slice(&self.msn.to_be_bytes());
        out.extend_from_slice(&self.header.sequence.to_be_bytes());
        if ack != 0 {
            out.extend_from_slice(&ack.to_be_bytes());
        }
        out.extend_from_slice(&self.header.window.to_be_bytes());
        out.extend_from_slice(&self.header.checksum.to_be_bytes());
        if urgent != 0 {
            out.extend_from_slice(&urgent.to_be_bytes());
        }
        if self.ack_stride != 0 {
            out.extend_from_slice(&self.ack_stride.to_be_bytes());
        }
        self.header.options.put_whole(ack, out);
    }

    /// Reads a dynamic chain.
    pub(super) fn read_dynamic(&mut self, chain: &mut Cursor<'_>) -> Option<()> {
        let header = &mut self.header;
        if let Some(mut outer) = header.ip.outer() {
            self.outer_ids = read_dynamic_ip(&mut outer, chain)?;
            if self.outer_ids.counts() {
                return None;
            }
            header.ip = header.ip.behind(&outer);
        }
        self.ids = read_dynamic_ip(&mut header.ip, chain)?;
        let first = chain.u8()?;
        let second = chain.u8()?;
        let bit = |at: u8| first & 1 << at != 0;
        self.ecn_used = bit(7);
        header.reserved = first & 0x0f;
        header.ecn = second >> 6;
        header.flags = second & (flag::URGENT | flag::ACK | flag::PUSH | flag::RSF);
        self.msn = chain.u16()?;
        header.sequence = chain.u32()?;
        header.acknowledgement = if bit(5) { 0 } else { chain.u32()? };
        header.window = chain.u16()?;
        header.checksum = chain.u16()?;
        header.urgent = if bit(4) { 0 } else { chain.u16()? };
        if bit(6) {
            self.ack_stride = chain.u16()?;
        }
        let ack = header.acknowledgement;
        let plan = Options::read_list(chain)?;
        let whole = plan.read_whole(chain, ack)?;
        // Every item is in the list.
        header.options = plan.complete(&whole, &Table::default(), &mut Cursor(&[]), ack)?;
        Some(())
    }
}

fn put_static_ip(ip: &Fields, out: &mut Vec<u8>) {
    if !ip.v6 {
        out.push(0);
    } else if ip.flow_label == 0 {
        out.push(0x80);
    } else {
        let label = ip.flow_label.to_be_bytes();
        out.extend_from_slice(&[0x90 | label[1] & 0x0f, label[2], label[3]]);
    }
    let address = if ip.v6 { 16 } else { 4 };
    let list = &ip.envelope.list;
    out.push(list.first(ip.protocol));
    out.extend_from_slice(&ip.src[..address]);
    out.extend_from_slice(&ip.dst[..address]);
    list.put_static(ip.protocol, out);
}

fn read_static_ip(chain: &mut Cursor<'_>) -> Option<Fields> {
    let mut ip = Fields::default();
    let first = chain.u8()?;
    match first {
        0x80 => ip.v6 = true,
        0x90..=0x9f => {
            ip.v6 = true;
            let low: [u8; 2] = chain.array()?;
            ip.flow_label = u32::from_be_bytes([0, first & 0x0f, low[0], low[1]]);
        }
        0 => {}
        _ => return None,
    }
    let next = chain.u8()?;
    let address = if ip.v6 { 16 } else { 4 };
    ip.src[..address].copy_from_slice(chain.take(address)?);
    ip.dst[..address].copy_from_slice(chain.take(address)?);
    ip.protocol = next;
    if ip.v6 {
        (ip.envelope.list, ip.protocol) = List::read_static(next, chain)?;
    }
    Some(ip)
}

fn put_dynamic_ip(ip: &Fields, ids: Ids, out: &mut Vec<u8>) {
    if !ip.v6 {
        out.push(u8::from(ip.dont_fragment) << 2 | ids as u8);
    }
    out.extend_from_slice(&[ip.traffic_class, ip.hop_limit]);
    if !ip.v6 && ids != Ids::Zero {
        out.extend_from_slice(&ip.id.to_be_bytes());
    }
    ip.envelope.list.put_dynamic(out);
}

/// Reads that, and how identifications go.
fn read_dynamic_ip(ip: &mut Fields, chain: &mut Cursor<'_>) -> Option<Ids> {
    let mut ids = Ids::Random;
    if !ip.v6 {
        let first = chain.u8()?;
        ip.dont_fragment = first & 4 != 0;
        ids = Ids::numbered(first);
    }
    ip.traffic_class = chain.u8()?;
    ip.hop_limit = chain.u8()?;
    ip.id = if ip.v6 || ids == Ids::Zero {
        0
    } else {
        chain.u16()?
    };
    ip.envelope.list.read_dynamic(chain)?;
    Some(ids)
}
