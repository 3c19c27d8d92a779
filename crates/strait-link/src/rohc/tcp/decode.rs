//! One context of a decompressor.

use alloc::vec::Vec;

use super::super::check::{plain_crc3, plain_crc7};
use super::super::decode::{Check, Evidence, Found, Trust, WrongSums};
use super::super::decompress::Fault;
use super::super::fields::Fields;
use super::super::numbers::{Cursor, low_mask};
use super::anchors::Anchorage;
use super::common;
use super::formats::{
    ACK_SCALED_BACK, Format, HOP_LIMIT_BACK, MSN_BACK, Part, RANDOM, SEQUENCE_SCALED_BACK,
    SEQUENTIAL, WINDOW_BACK,
};
use super::header::{Header, flag};
use super::options::{Options, Table, Whole};
use super::{Ids, Known, near};

/// Rounds of the scaled sequence number's four bits that are tried, if the transport checksum can
/// judge them: after the loss of up to this many times sixteen packets.
const ROUNDS_MAX: u32 = 16;

/// The decompressing end of one context.
#[derive(Clone, Debug)]
pub(in super::super) struct Decoder {
    known: Known,
    /// The sequence number of the last packet that had a payload.
    data: u32,
    table: Table,
    anchorage: Anchorage,
}

/// What a base header said that isn't told at once.
#[derive(Clone, Copy, Debug)]
struct Said {
    check: Check,
    /// Bits of the scaled sequence number.
    scaled: Option<(u32, u8)>,
    list: bool,
    /// Bits by which the identification is said; none where it is whole, or there is none.
    id_width: u8,
    anchor: bool,
}

impl Decoder {
    /// The context that an IR packet tells; the headers stand for its packet. What it doesn't say
    /// of acknowledgements' stride and of options' kinds stays as it was `before` (RFC 6846
    /// sections 8.2 and 6.3.2). `None`: no such packet, or one that we don't know.
    pub(in super::super) fn read_whole(
        before: Option<&Self>,
        chain: &mut Cursor<'_>,
    ) -> Option<Self> {
        let mut known = Known::read_static(chain)?;
        known.ack_stride = before.map_or(0, |before| before.known.ack_stride);
        known.read_dynamic(chain)?;
        let table = before.map_or_else(Table::default, |before| before.table.clone());
        let anchorage = before.map_or_else(Anchorage::default, |before| before.anchorage.told());
        Some(Self::with(known, table, anchorage))
    }

    /// The same context with what an IR-DYN packet tells anew.
    pub(in super::super) fn read_dynamic(&self, chain: &mut Cursor<'_>) -> Option<Self> {
        let mut known = self.known;
        known.read_dynamic(chain)?;
        Some(Self::with(known, self.table.clone(), self.anchorage.told()))
    }

    fn with(known: Known, mut table: Table, anchorage: Anchorage) -> Self {
        table.learn(&known.header.options);
        Self {
            known,
            data: known.header.sequence,
            table,
            anchorage,
        }
    }

    /// The last packet's IP header, and the ports.
    pub(in super::super) const fn ip(&self) -> &Fields {
        self.known.header.ip()
    }

    /// The last packet's master sequence number.
    pub(in super::super) const fn msn(&self) -> u16 {
        self.known.msn
    }

    /// Appends the headers that the context stands for, and `payload`.
    pub(in super::super) fn emit(&self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        let done = self.known.header.emit(payload.len(), out);
        if done {
            out.extend_from_slice(payload);
        }
        done
    }

    /// Appends the packet of the compressed header at the front of `rest`, and says how it was
    /// found. `sum` judges the transport checksum of a whole packet.
    pub(in super::super) fn decode(
        &mut self,
        first: u8,
        mut rest: Cursor<'_>,
        trust: Trust,
        out: &mut Vec<u8>,
        sum: impl Fn(&[u8]) -> Option<bool>,
    ) -> Result<Found, Fault> {
        let mut known = self.known;
        let said = read_base(&mut known, first, &mut rest)?;
        let outer_hops = first == common::MARK | 1;
        self.read_rest(&mut known, (said.list, outer_hops), &mut rest)
            .ok_or(Fault::Malformed)?;
        let step = known.msn.wrapping_sub(self.known.msn);
        let ahead = step.wrapping_sub(1) % 16 + 1;
        let told = self.anchorage.tells(said.id_width, ahead);
        let covered = known.header.ip.v6;
        let evidence = |packet: &[u8]| Evidence {
            check: said.check,
            step: u32::from(step),
            sum: sum(packet),
            covered,
        };
        let payload = rest.0;
        let rounds = if said.scaled.is_some() { ROUNDS_MAX } else { 0 };
        let tries = (0..=rounds).map(|round| (round, false));
        for (round, last) in tries.chain([(0, true)]) {
            if let Some(scaled) = said.scaled {
                known.header.sequence = self
                    .unscaled(scaled, round, payload.len())
                    .ok_or(Fault::Malformed)?;
            }
            let judge = |packet: &[u8]| {
                let it = evidence(packet);
                let enough = match round {
                    _ if !told => it.sum == Some(true),
                    // So much changes in TCP that the shorter check fits another flow's header.
                    _ if last => matches!(it.check, Check::Crc7(_)) && trust.insists(it),
                    0 => trust.believes(it),
                    _ => it.sum == Some(true),
                };
                enough.then(|| Found::of(it))
            };
            let start = out.len();
            let check = told.then_some(said.check);
            let Some(found) = attempt(&known.header, check, payload, out, judge)? else {
                continue;
            };
            if !told {
                out.truncate(start);
                self.follow(known, ahead, payload.len());
                break;
            }
            if !last || trust.wrong_sums == WrongSums::Learned {
                self.anchorage.go_on(ahead, said.anchor, true);
                self.commit(known, payload.len());
            }
            return Ok(found);
        }
        Err(Fault::BadCheck)
    }

    /// Learns all but its identification, which isn't told, of a packet that is `ahead` packets on.
    fn follow(&mut self, mut known: Known, ahead: u16, payload: usize) {
        let before = &self.known;
        let offset = before.ids.offset(before.header.ip.id, before.msn);
        known.msn = before.msn.wrapping_add(ahead);
        known.header.ip.id = known.ids.at(offset, known.msn);
        self.anchorage.go_on(ahead, false, false);
        self.commit(known, payload);
    }

    fn commit(&mut self, known: Known, payload: usize) {
        self.known = known;
        self.table.learn(&known.header.options);
        if payload > 0 {
            self.data = known.header.sequence;
        }
    }

    /// The sequence number that scaled bits stand for, `round` rounds further on.
    fn unscaled(&self, (bits, width): (u32, u8), round: u32, payload: usize) -> Option<u32> {
        let stride = u32::try_from(payload).ok().filter(|&stride| stride > 0)?;
        let (known, residue) = (self.data / stride, self.data % stride);
        let scaled = near(known, bits, width, SEQUENCE_SCALED_BACK, u32::MAX);
        let scaled = scaled.wrapping_add(round << width);
        Some(scaled.wrapping_mul(stride).wrapping_add(residue))
    }

    /// Reads what follows the base header: a list of options, and the irregular chain.
    fn read_rest(
        &self,
        known: &mut Known,
        (list, outer_hops): (bool, bool),
        rest: &mut Cursor<'_>,
    ) -> Option<()> {
        let ack = known.header.acknowledgement;
        let (plan, whole) = if list {
            let plan = Options::read_list(rest)?;
            let whole = plan.read_whole(rest, ack)?;
            (plan, whole)
        } else {
            (self.known.header.options.plan(), Whole::default())
        };
        if let Some(mut outer) = known.header.ip.outer() {
            if !outer.v6 && known.outer_ids == Ids::Random {
                outer.id = rest.u16()?;
            }
            if known.ecn_used {
                outer.traffic_class = rest.u8()?;
            }
            if outer_hops {
                outer.hop_limit = rest.u8()?;
            }
            known.header.ip = known.header.ip.behind(&outer);
        }
        if !known.header.ip.v6 && known.ids == Ids::Random {
            known.header.ip.id = rest.u16()?;
        }
        if known.ecn_used {
            known.header.set_congestion(rest.u8()?);
        }
        known.header.checksum = rest.u16()?;
        known.header.options = plan.complete(&whole, &self.table, rest, ack)?;
        Some(())
    }
}

/// Appends the packet of these headers if the check is right, where there is one, and `judge` is
/// content with it.
fn attempt(
    header: &Header,
    check: Option<Check>,
    payload: &[u8],
    out: &mut Vec<u8>,
    judge: impl Fn(&[u8]) -> Option<Found>,
) -> Result<Option<Found>, Fault> {
    let start = out.len();
    if !header.emit(payload.len(), out) {
        return Err(Fault::Malformed);
    }
    let right = match check {
        Some(Check::Crc3(check)) => plain_crc3(&out[start..]) == check,
        Some(Check::Crc7(check)) => plain_crc7(&out[start..]) == check,
        None => true,
    };
    if right {
        out.extend_from_slice(payload);
        if let Some(found) = judge(&out[start..]) {
            return Ok(Some(found));
        }
    }
    out.truncate(start);
    Ok(None)
}

fn read_base(known: &mut Known, first: u8, rest: &mut Cursor<'_>) -> Result<Said, Fault> {
    // The lowest bit says that an outer hop limit follows in the irregular chain.
    if first & !1 == common::MARK {
        let (check, present) = known.read_common(rest).ok_or(Fault::Malformed)?;
        let counts = known.ids.counts();
        return Ok(Said {
            check: Check::Crc7(check),
            scaled: None,
            list: present.list,
            id_width: if counts && !present.id { 8 } else { 0 },
            anchor: counts && present.id && present.dscp && present.hop_limit,
        });
    }
    let formats = if known.ids.counts() {
        &SEQUENTIAL
    } else {
        &RANDOM
    };
    let format = formats.iter().find(|format| format.begins(first));
    let format = format.ok_or(Fault::Malformed)?;
    read_format(known, format, first, rest).ok_or(Fault::Malformed)
}

fn read_format(
    known: &mut Known,
    format: &Format,
    first: u8,
    rest: &mut Cursor<'_>,
) -> Option<Said> {
    let before = *known;
    let mut base = u64::from(first);
    for &octet in rest.take(format.octets() - 1)? {
        base = base << 8 | u64::from(octet);
    }
    let mut said = Said {
        check: Check::Crc3(0),
        scaled: None,
        list: false,
        id_width: 0,
        anchor: false,
    };
    let header = &mut known.header;
    // What these formats don't say has one value.
    header.flags = header.flags & flag::PUSH | flag::ACK;
    let mut id = None;
    let mut bits_left = format.octets() * 8;
    for &(part, width) in format.parts {
        bits_left -= usize::from(width);
        let bits = (base >> bits_left) as u32 & low_mask(width);
        match part {
            Part::Mark(_) => {}
            Part::Msn => {
                known.msn = near(u32::from(before.msn), bits, width, MSN_BACK, 0xffff) as u16;
            }
            Part::Push if bits != 0 => header.flags |= flag::PUSH,
            Part::Push => header.flags &= !flag::PUSH,
            Part::Check if width == 3 => said.check = Check::Crc3(bits as u8),
            Part::Check => said.check = Check::Crc7(bits as u8),
            Part::Sequence(back) => {
                header.sequence = near(header.sequence, bits, width, back, u32::MAX);
            }
            Part::SequenceScaled => said.scaled = Some((bits, width)),
            Part::Ack(back) => {
                header.acknowledgement = near(header.acknowledgement, bits, width, back, u32::MAX);
            }
            Part::AckScaled => {
                let stride = u32::from(before.ack_stride);
                let ack = before.header.acknowledgement;
                let scaled = ack.checked_div(stride)?;
                let scaled = near(scaled, bits, width, ACK_SCALED_BACK, u32::MAX);
                header.acknowledgement = scaled.wrapping_mul(stride).wrapping_add(ack % stride);
            }
            Part::Id(back) => id = Some((bits, width, back)),
            Part::Window => {
                let window = u32::from(header.window);
                header.window = near(window, bits, width, WINDOW_BACK, 0xffff) as u16;
            }
            Part::Rsf => header.set_rsf(bits as u8),
            Part::HopLimit => {
                let hop_limit = u32::from(header.ip.hop_limit);
                header.ip.hop_limit = near(hop_limit, bits, width, HOP_LIMIT_BACK, 0xff) as u8;
            }
            Part::EcnUsed => known.ecn_used = bits != 0,
            Part::HasList => said.list = bits != 0,
        }
    }
    if let Some((bits, width, back)) = id {
        let offset = before.ids.offset(before.header.ip.id, before.msn);
        let offset = near(u32::from(offset), bits, width, back, 0xffff);
        header.ip.id = before.ids.at(offset as u16, known.msn);
        said.id_width = width;
    }
    Some(said)
}
