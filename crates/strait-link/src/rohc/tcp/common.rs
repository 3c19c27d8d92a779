//! The common format, which says any change of what isn't static (`co_common`).

use alloc::vec::Vec;

use super::super::numbers::Cursor;
use super::header::flag;
use super::{Ids, Known, fits, low, near};

/// The first seven bits; the eighth is of an outer header.
pub(super) const MARK: u8 = 0xfa;
/// Octets that a common header has where it says a number or two.
pub(super) const OCTETS: usize = 9;

/// Which of its fields a common header has, beside those that it always has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Presence {
    /// 0: as known, 1: eight low bits, 2: sixteen, 3: all.
    pub(super) sequence: u8,
    pub(super) ack: u8,
    pub(super) ack_stride: bool,
    pub(super) window: bool,
    /// The identification is said whole.
    pub(super) id: bool,
    pub(super) urgent: bool,
    pub(super) dscp: bool,
    pub(super) hop_limit: bool,
    pub(super) list: bool,
}

/// Width in bits of a number's low bits and how far below the known one their interval begins, by
/// the indicator's value.
const VARIABLE: [(u8, i32); 4] = [(0, 0), (8, 63), (16, 16383), (32, 0)];

/// The least indicator by which `value` can be said to whoever knows any of `known`.
pub(super) fn indicator(value: u32, known: &(impl Iterator<Item = u32> + Clone)) -> u8 {
    let can = |at: &usize| {
        let (width, back) = VARIABLE[*at];
        known.clone().all(|known| match at {
            0 => known == value,
            _ => fits(known, value, width, back, u32::MAX),
        })
    };
    (0..3).find(can).unwrap_or(3) as u8
}

fn put_variable(indicator: u8, value: u32, out: &mut Vec<u8>) {
    let octets = usize::from(VARIABLE[usize::from(indicator)].0 / 8);
    out.extend_from_slice(&value.to_be_bytes()[4 - octets..]);
}

fn read_variable(indicator: u8, known: u32, rest: &mut Cursor<'_>) -> Option<u32> {
    let (width, back) = VARIABLE[usize::from(indicator & 3)];
    let mut bits = 0;
    for &octet in rest.take(usize::from(width / 8))? {
        bits = bits << 8 | u32::from(octet);
    }
    Some(match width {
        0 => known,
        _ => near(known, bits, width, back, u32::MAX),
    })
}

impl Known {
    /// Appends what follows the first octet of a common header, up to the list of options.
    pub(super) fn put_common(&self, present: Presence, rsf: u8, check: u8, out: &mut Vec<u8>) {
        let header = &self.header;
        let bit = |set: bool, at: u8| u8::from(set) << at;
        out.push(
            bit(header.has(flag::ACK), 7)
                | bit(header.has(flag::PUSH), 6)
                | rsf << 4
                | low(u32::from(self.msn), 4) as u8,
        );
        out.push(
            present.sequence << 6
                | present.ack << 4
                | bit(present.ack_stride, 3)
                | bit(present.window, 2)
                | bit(present.id, 1)
                | bit(present.urgent, 0),
        );
        out.push(
            bit(self.ecn_used, 6)
                | bit(present.dscp, 5)
                | bit(present.hop_limit, 4)
                | bit(present.list, 3)
                | (self.ids as u8) << 1
                | bit(header.has(flag::URGENT), 0),
        );
        out.push(bit(header.ip.dont_fragment, 7) | check);
        put_variable(present.sequence, header.sequence, out);
        put_variable(present.ack, header.acknowledgement, out);
        if present.ack_stride {
            out.extend_from_slice(&self.ack_stride.to_be_bytes());
        }
        if present.window {
            out.extend_from_slice(&header.window.to_be_bytes());
        }
        if self.ids.counts() {
            if present.id {
                out.extend_from_slice(&header.ip.id.to_be_bytes());
            } else {
                out.push(self.ids.offset(header.ip.id, self.msn) as u8);
            }
        }
        if present.urgent {
            out.extend_from_slice(&header.urgent.to_be_bytes());
        }
        if present.dscp {
            out.push(header.ip.traffic_class & 0xfc);
        }
        if present.hop_limit {
            out.push(header.ip.hop_limit);
        }
    }

    /// Reads the same into what was known before; gives the check, and what is in the header.
    pub(super) fn read_common(&mut self, rest: &mut Cursor<'_>) -> Option<(u8, Presence)> {
        let [flags, numbers, others, check]: [u8; 4] = rest.array()?;
        let before = *self;
        let header = &mut self.header;
        let has = |octet: u8, at: u8| octet & 1 << at != 0;
        if has(others, 7) {
            return None;
        }
        let mut set = |flag: u8, on: bool| {
            header.flags = header.flags & !flag | if on { flag } else { 0 };
        };
        set(flag::ACK, has(flags, 7));
        set(flag::PUSH, has(flags, 6));
        set(flag::URGENT, has(others, 0));
        header.set_rsf(flags >> 4);
        self.msn = near(
            u32::from(before.msn),
            u32::from(flags),
            4,
            super::formats::MSN_BACK,
            0xffff,
        ) as u16;
        self.ecn_used = has(others, 6);
        if !before.header.ip.v6 {
            self.ids = Ids::numbered(others >> 1);
        }
        header.sequence = read_variable(numbers >> 6, header.sequence, rest)?;
        header.acknowledgement = read_variable(numbers >> 4, header.acknowledgement, rest)?;
        if has(numbers, 3) {
            self.ack_stride = rest.u16()?;
        }
        if has(numbers, 2) {
            header.window = rest.u16()?;
        }
        if self.ids.counts() {
            header.ip.id = if has(numbers, 1) {
                rest.u16()?
            } else {
                let known = self.ids.offset(before.header.ip.id, before.msn);
                let bits = u32::from(rest.u8()?);
                let offset = near(u32::from(known), bits, 8, 3, 0xffff);
                self.ids.at(offset as u16, self.msn)
            };
        } else if self.ids == Ids::Zero {
            header.ip.id = 0;
        }
        if has(numbers, 0) {
            header.urgent = rest.u16()?;
        }
        if has(others, 5) {
            header.ip.traffic_class = rest.u8()? & 0xfc | header.ip.traffic_class & 3;
        }
        if has(others, 4) {
            header.ip.hop_limit = rest.u8()?;
        }
        header.ip.dont_fragment = has(check, 7);
        let present = Presence {
            sequence: numbers >> 6,
            ack: numbers >> 4 & 3,
            ack_stride: has(numbers, 3),
            window: has(numbers, 2),
            id: has(numbers, 1),
            urgent: has(numbers, 0),
            dscp: has(others, 5),
            hop_limit: has(others, 4),
            list: has(others, 3),
        };
        Some((check & 0x7f, present))
    }
}
