//! One context of a compressor.

use alloc::vec::Vec;

use super::super::check::{crc8, plain_crc3, plain_crc7};
use super::super::encode::{IdHabit, IdOrder, Window};
use super::super::envelope::{Envelope, Outer};
use super::super::numbers::{Bits, low_mask};
use super::super::pace::{Pace, Say};
use super::super::{Cid, Profile, Settings};
use super::anchors::{FEW_BITS, REACH, Thrift, Way};
use super::common::{self, Presence, indicator};
use super::formats::{
    ACK_SCALED_BACK, Format, HOP_LIMIT_BACK, MSN_BACK, Part, RANDOM, SEQUENCE_SCALED_BACK,
    SEQUENTIAL, WINDOW_BACK, say,
};
use super::header::{Header, flag};
use super::options::{Kinds, Options, Told, goes_irregular, put_irregular};
use super::{Ids, Known, fits, low};

/// What one sent packet told.
#[derive(Clone, Copy, Debug)]
struct Sent {
    known: Known,
    payload: u32,
}

/// Equal steps of the acknowledgement number in a row after which it is taken for a multiple.
const STRIDE_RUN: u8 = 3;
/// Packets without a change after which congestion bits aren't said in every packet any more.
const CALM: u8 = 16;

/// Packets after which it is said once more that options have come or gone: for whoever has lost
/// all the first ones, as then each packet without is one that it can't read.
const LIST_AGAIN: u16 = 8;

/// How much oftener everything is said while nobody answers.
const UNHEARD_HURRY: u32 = 2;

/// The compressing end of one context.
#[derive(Clone, Debug)]
pub(in super::super) struct Encoder {
    known: Known,
    payload: u32,
    window: Window<Sent>,
    pace: Pace,
    /// Packets any of which is enough to read what the transport checksum covers.
    covered_repeats: u16,
    /// The first packet with the options that the last one had, unless the other end has one.
    listed: Option<u16>,
    habit: IdHabit,
    /// How identifications go, whatever they are said to do.
    order: Ids,
    thrift: Thrift,
    /// The packet is an anchor.
    anchor: bool,
    kinds: Kinds,
    /// The options that were said since the other end was told everything.
    told: Told,
    /// The last step of the acknowledgement number, and how often in a row it was that.
    ack_step: (u32, u8),
    /// Packets since congestion bits changed.
    calm: u8,
    /// Nothing has been sent.
    fresh: bool,
}

impl Encoder {
    /// A context that the other end knows nothing of.
    pub(in super::super) fn new(header: &Header, settings: &Settings) -> Self {
        let halves = |halves: u8| {
            let repeats = settings.repeats.saturating_mul(halves) / 2;
            repeats.clamp(1, Settings::REPEATS_MAX)
        };
        // No checksum stands for the hop limit and the code point, nor for the identification.
        let repeats = if header.ip.v6 { halves(3) } else { halves(4) };
        Self {
            known: Known::new(*header),
            payload: 0,
            window: Window::default(),
            pace: Pace::new(halves(2), 0)
                .repeating(repeats)
                .hurried(UNHEARD_HURRY),
            covered_repeats: u16::from(halves(2)),
            listed: None,
            habit: IdHabit::default(),
            order: Ids::Random,
            thrift: Thrift::default(),
            anchor: false,
            kinds: Kinds::default(),
            told: Told::default(),
            ack_step: (0, 0),
            calm: 0,
            fresh: true,
        }
    }

    /// The pace at which it is said.
    pub(in super::super) const fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    /// Says everything again, as after the other end has lost all.
    pub(in super::super) fn begin_again(&mut self) {
        self.pace
            .begin_again(u32::from(self.known.msn.wrapping_add(1)));
    }

    /// Says what the other end lacks, which has some of the context.
    pub(in super::super) fn answer_nack(&mut self) {
        self.pace
            .answer_nack(u32::from(self.known.msn.wrapping_add(1)));
    }

    /// The other end has taken in the packet with these low bits of a sequence number.
    pub(in super::super) fn confirm(&mut self, acknowledged: Bits) {
        let last = u32::from(self.known.msn);
        let behind = last.wrapping_sub(acknowledged.value) & low_mask(acknowledged.width);
        let msn = last.wrapping_sub(behind);
        if self.pace.confirm(msn) {
            // What was sent before is known no more: the receiver doesn't go back.
            self.listed = self
                .listed
                .filter(|&listed| ((msn as u16).wrapping_sub(listed) as i16) < 0);
            self.window
                .retain(|sent| u32::from(sent.known.msn).wrapping_sub(msn) as i16 >= 0);
        }
    }

    /// Appends the compressed form of the headers `bytes`, which `header` was read from and
    /// `payload` octets follow.
    pub(in super::super) fn encode(
        &mut self,
        mut header: Header,
        (bytes, payload): (&[u8], usize),
        cid: Cid,
        settings: &Settings,
        out: &mut Vec<u8>,
    ) {
        header.options.number(&mut self.kinds);
        self.payload = payload as u32;
        let first = core::mem::replace(&mut self.fresh, false);
        self.watch_ids(&header, first);
        if first {
            self.known.outer_ids = match header.ip.envelope.outer {
                Some(Outer { id: 0, .. }) => Ids::Zero,
                _ => Ids::Random,
            };
        } else {
            self.watch(&header);
            self.watch_envelope(&header.ip.envelope);
            self.known.msn = self.known.msn.wrapping_add(1);
            if !self.known.header.options.same_order(&header.options) {
                self.listed = Some(self.known.msn);
            }
        }
        self.known.header = header;
        self.choose_ids();
        let say = match self.pace.advance(settings) {
            // No compressed header says such flags, and what follows says its own.
            Say::Changes if header.rsf().is_none() => Say::Dynamic,
            say => say,
        };
        if say != Say::Changes {
            // Whoever needs it may not know the options that this packet hasn't.
            self.told = Told::default();
        }
        match say {
            Say::Whole => self.put_whole(cid, out),
            Say::Dynamic => self.put_dynamic(cid, out),
            Say::Changes => {
                self.anchor = self.thrift.advance() && self.known.ids.counts();
                if !self.put_compressed(bytes, cid, out) {
                    self.pace.fall_back(u32::from(self.known.msn));
                    self.put_dynamic(cid, out);
                }
            }
        }
        self.told.learn(&self.known.header.options);
        let sent = Sent {
            known: self.known,
            payload: self.payload,
        };
        self.window.push(sent, self.pace.repeats);
    }

    /// How identifications go.
    fn watch_ids(&mut self, header: &Header, first: bool) {
        let (last, id) = (self.known.header.ip.id, header.ip.id);
        self.order = match self.order {
            _ if header.ip.v6 => Ids::Random,
            _ if first && id == 0 => Ids::Zero,
            _ if first => Ids::Sequential,
            _ if id == 0 && last == 0 => Ids::Zero,
            Ids::Zero => {
                self.habit = IdHabit::default();
                Ids::Sequential
            }
            before => {
                let mut order = IdOrder {
                    random: before == Ids::Random,
                    network: before != Ids::Swapped,
                };
                self.habit.watch(last, id, &mut order);
                match order {
                    IdOrder { random: true, .. } => Ids::Random,
                    IdOrder { network: true, .. } => Ids::Sequential,
                    IdOrder { .. } => Ids::Swapped,
                }
            }
        };
    }

    /// Which way identifications that count are said.
    fn choose_ids(&mut self) {
        self.known.ids = self.order;
        if self.order.counts() {
            let needs = self.needs() & (say::SEQUENCE | say::ACK | say::WINDOW);
            let octets = |formats, reach| {
                self.fitting(formats, needs, reach)
                    .map_or(common::OCTETS, Format::octets)
            };
            let whole = octets(&RANDOM, 0) + size_of::<u16>();
            let by_bits = [u16::MAX, REACH].map(|reach| octets(&SEQUENTIAL, reach));
            self.thrift.watch([by_bits[0], by_bits[1], whole]);
            if self.thrift.way() == Way::Whole {
                self.known.ids = Ids::Random;
            }
        }
    }

    /// How acknowledgement numbers and congestion bits go.
    fn watch(&mut self, header: &Header) {
        let known = &mut self.known;
        let last = &known.header;
        if header.congestion() == last.congestion() {
            self.calm = self.calm.saturating_add(1);
            known.ecn_used &= self.calm < CALM;
        } else {
            self.calm = 0;
            known.ecn_used = true;
        }
        let step = header.acknowledgement.wrapping_sub(last.acknowledgement);
        if step == 0 {
            return;
        }
        self.ack_step = match self.ack_step {
            (before, run) if before == step => (step, run.saturating_add(1)),
            _ => (step, 1),
        };
        let stride = u32::from(known.ack_stride);
        let expressed = stride != 0 && step.is_multiple_of(stride);
        if self.ack_step.1 >= STRIDE_RUN
            && !expressed
            && let Ok(step) = u16::try_from(step)
        {
            known.ack_stride = step;
        }
    }

    /// Finds what has changed around the IP header: identifications ahead of it are said in every
    /// packet, all else only in chains.
    fn watch_envelope(&mut self, envelope: &Envelope) {
        let known = &mut self.known;
        let last = known.header.ip.envelope;
        let next = u32::from(known.msn.wrapping_add(1));
        if !envelope.lists_as(&last) {
            self.pace.begin_again(next);
            return;
        }
        let mut changed = !envelope.stays_as(&last);
        if known.outer_ids == Ids::Zero && envelope.outer.is_some_and(|outer| outer.id != 0) {
            known.outer_ids = Ids::Random;
            changed = true;
        }
        if changed {
            self.pace.repeat_dynamic(next);
        }
    }

    /// IR.
    fn put_whole(&self, cid: Cid, out: &mut Vec<u8>) {
        let start = out.len();
        cid.put(0xfd, out);
        out.extend_from_slice(&[Profile::Tcp.number(), 0]);
        let check = out.len() - 1;
        self.known.put_static(out);
        self.known.put_dynamic(out);
        out[check] = crc8(&[&out[start..]]);
    }

    /// IR-DYN.
    fn put_dynamic(&self, cid: Cid, out: &mut Vec<u8>) {
        let start = out.len();
        cid.put(0xf8, out);
        out.extend_from_slice(&[Profile::Tcp.number(), 0]);
        let check = out.len() - 1;
        self.known.put_dynamic(out);
        out[check] = crc8(&[&out[start..]]);
    }

    /// A compressed header. `false`, and nothing is appended, if none says enough.
    fn put_compressed(&self, bytes: &[u8], cid: Cid, out: &mut Vec<u8>) -> bool {
        let Some(rsf) = self.known.header.rsf() else {
            return false;
        };
        if !self.part_fits(Part::Msn, 4, 0) {
            return false;
        }
        let needs = self.needs() | if rsf != 0 { say::RSF } else { 0 };
        let formats = if self.known.ids.counts() {
            &SEQUENTIAL
        } else {
            &RANDOM
        };
        match self.fitting(formats, needs, self.thrift.reach()) {
            Some(format) => self.put_format(format, needs, rsf, bytes, cid, out),
            None => self.put_common(needs, rsf, bytes, cid, out),
        }
        let list = needs & say::LIST != 0;
        if list {
            let ack = self.known.header.acknowledgement;
            let whole = |index, item: &[u8]| !self.goes_irregular(index, item);
            self.known.header.options.put_list(ack, whole, out);
        }
        self.put_irregular(list, out);
        true
    }

    /// The shortest format that says all that is needed; few bits of an identification to whoever
    /// knows any of the last `reach` packets.
    fn fitting(
        &self,
        formats: &'static [Format],
        needs: u8,
        reach: u16,
    ) -> Option<&'static Format> {
        formats.iter().find(|format| {
            let mut parts = format.parts.iter();
            needs & !format.says == 0
                && parts.all(|&(part, width)| self.part_fits(part, width, reach))
        })
    }

    /// What the packet has to say to whoever knows any packet of the window; see [`say`].
    fn needs(&self) -> u8 {
        let Known {
            header,
            ids,
            ecn_used,
            ack_stride,
            ..
        } = &self.known;
        let mut needs = 0;
        let mut need = |what: u8, changed: bool| needs |= if changed { what } else { 0 };
        need(
            say::COMMON,
            self.anchor || !header.has(flag::ACK) || header.has(flag::URGENT),
        );
        for Sent { known, .. } in self.covered() {
            let before = &known.header;
            need(say::SEQUENCE, before.sequence != header.sequence);
            need(say::ACK, before.acknowledgement != header.acknowledgement);
            need(say::WINDOW, before.window != header.window);
            // Who doesn't know it reads a checksum from other octets.
            need(say::ECN_USED, known.ecn_used != *ecn_used);
            let others = |header: &Header| {
                let flags = header.flags & (flag::ACK | flag::URGENT);
                (header.urgent, flags)
            };
            need(
                say::COMMON,
                others(before) != others(header) || known.ack_stride != *ack_stride,
            );
        }
        for Sent { known, .. } in self.window.iter() {
            let before = &known.header;
            need(say::HOP_LIMIT, before.ip.hop_limit != header.ip.hop_limit);
            let others = |header: &Header| {
                let dscp = header.ip.traffic_class & 0xfc;
                (dscp, header.ip.dont_fragment)
            };
            need(
                say::COMMON,
                others(before) != others(header) || known.ids != *ids,
            );
        }
        let mut recent = self.options();
        let same = recent.all(|before| before.same_order(&header.options));
        let again = Some(self.known.msn.wrapping_sub(LIST_AGAIN));
        need(say::LIST, !same || self.listed == again);
        let mut items = header.options.items();
        need(
            say::LIST,
            !items.all(|(index, item)| self.goes_irregular(index, item)),
        );
        needs
    }

    /// Those of the last `packets` packets that the other end may know.
    fn recent(&self, packets: u16) -> impl Iterator<Item = &Sent> + Clone {
        let last = self.known.msn;
        let recent = move |sent: &&Sent| last.wrapping_sub(sent.known.msn) <= packets;
        self.window.iter().filter(recent)
    }

    /// The packets any of which is enough to read what the transport checksum covers.
    fn covered(&self) -> impl Iterator<Item = &Sent> + Clone {
        self.recent(self.covered_repeats)
    }

    /// Their options.
    fn options(&self) -> impl Iterator<Item = &Options> + Clone {
        self.covered().map(|sent| &sent.known.header.options)
    }

    fn goes_irregular(&self, index: u8, item: &[u8]) -> bool {
        u16::from(self.told.known(index, item)) >= self.covered_repeats
            || self
                .options()
                .all(|known| goes_irregular(index, item, known))
    }

    /// Whether `width` bits say the field to whoever knows any packet of the window, or few bits of
    /// an identification to whoever knows any of the last `reach`.
    fn part_fits(&self, part: Part, width: u8, reach: u16) -> bool {
        let Known { header, .. } = &self.known;
        let all = |value: u32, back: i32, mask: u32, of: fn(&Sent) -> u32| {
            self.covered()
                .all(|sent| fits(of(sent), value, width, back, mask))
        };
        match part {
            Part::Msn => self.window.all(|sent| {
                let (before, msn) = (u32::from(sent.known.msn), u32::from(self.known.msn));
                fits(before, msn, width, MSN_BACK, 0xffff)
            }),
            Part::Sequence(back) => all(header.sequence, back, u32::MAX, |sent| {
                sent.known.header.sequence
            }),
            Part::Ack(back) => all(header.acknowledgement, back, u32::MAX, |sent| {
                sent.known.header.acknowledgement
            }),
            Part::SequenceScaled => self.scaled_fits(
                header.sequence,
                self.payload,
                (width, SEQUENCE_SCALED_BACK),
                |sent| (sent.known.header.sequence, sent.payload),
            ),
            Part::AckScaled => self.scaled_fits(
                header.acknowledgement,
                u32::from(self.known.ack_stride),
                (width, ACK_SCALED_BACK),
                |sent| {
                    let stride = u32::from(sent.known.ack_stride);
                    (sent.known.header.acknowledgement, stride)
                },
            ),
            Part::Id(back) => {
                let offset = |known: &Known| self.order.offset(known.header.ip.id, known.msn);
                let value = u32::from(offset(&self.known));
                let reach = if width <= FEW_BITS { reach } else { u16::MAX };
                self.recent(reach)
                    .all(|sent| fits(u32::from(offset(&sent.known)), value, width, back, 0xffff))
            }
            Part::Window if width == 16 => true,
            Part::Window => all(u32::from(header.window), WINDOW_BACK, 0xffff, |sent| {
                u32::from(sent.known.header.window)
            }),
            Part::HopLimit => self.window.all(|sent| {
                let hops = |header: &Header| u32::from(header.ip.hop_limit);
                let (before, hops) = (hops(&sent.known.header), hops(header));
                fits(before, hops, width, HOP_LIMIT_BACK, 0xff)
            }),
            Part::Mark(_)
            | Part::Push
            | Part::Check
            | Part::Rsf
            | Part::EcnUsed
            | Part::HasList => true,
        }
    }

    /// Whether a number can be said in units of `stride`.
    fn scaled_fits(
        &self,
        value: u32,
        stride: u32,
        (width, back): (u8, i32),
        of: impl Fn(&Sent) -> (u32, u32),
    ) -> bool {
        stride != 0
            && self.covered().all(|sent| {
                let (before, before_stride) = of(sent);
                before_stride == stride
                    && before % stride == value % stride
                    && fits(before / stride, value / stride, width, back, u32::MAX)
            })
    }

    fn part_value(&self, part: Part, width: u8, needs: u8, rsf: u8, bytes: &[u8]) -> u64 {
        let Known { header, .. } = &self.known;
        let value = match part {
            Part::Mark(mark) => u32::from(mark),
            Part::Msn => u32::from(self.known.msn),
            Part::Push => u32::from(header.has(flag::PUSH)),
            Part::Check if width == 3 => u32::from(plain_crc3(bytes)),
            Part::Check => u32::from(plain_crc7(bytes)),
            Part::Sequence(_) => header.sequence,
            Part::SequenceScaled => header.sequence / self.payload.max(1),
            Part::Ack(_) => header.acknowledgement,
            Part::AckScaled => header.acknowledgement / u32::from(self.known.ack_stride.max(1)),
            Part::Id(_) => u32::from(self.known.ids.offset(header.ip.id, self.known.msn)),
            Part::Window => u32::from(header.window),
            Part::Rsf => u32::from(rsf),
            Part::HopLimit => u32::from(header.ip.hop_limit),
            Part::EcnUsed => u32::from(self.known.ecn_used),
            Part::HasList => u32::from(needs & say::LIST != 0),
        };
        low(value, width)
    }

    fn put_format(
        &self,
        format: &Format,
        needs: u8,
        rsf: u8,
        bytes: &[u8],
        cid: Cid,
        out: &mut Vec<u8>,
    ) {
        let mut base = 0u64;
        for &(part, width) in format.parts {
            base = base << width | self.part_value(part, width, needs, rsf, bytes);
        }
        let base = base.to_be_bytes();
        let base = &base[8 - format.octets()..];
        cid.put(base[0], out);
        out.extend_from_slice(&base[1..]);
    }

    fn put_common(&self, needs: u8, rsf: u8, bytes: &[u8], cid: Cid, out: &mut Vec<u8>) {
        let Known { header, ids, .. } = &self.known;
        let differs = |same: fn(&Known, &Known) -> bool| {
            !self.window.all(|sent| same(&sent.known, &self.known))
        };
        let sequences = self.covered().map(|sent| sent.known.header.sequence);
        let acks = self.covered().map(|sent| sent.known.header.acknowledgement);
        let present = Presence {
            sequence: indicator(header.sequence, &sequences),
            ack: indicator(header.acknowledgement, &acks),
            ack_stride: differs(|a, b| a.ack_stride == b.ack_stride),
            window: needs & say::WINDOW != 0,
            id: ids.counts()
                && (self.anchor
                    || differs(|a, b| a.ids == b.ids)
                    || !self.part_fits(Part::Id(3), 8, 0)),
            urgent: differs(|a, b| a.header.urgent == b.header.urgent),
            dscp: self.anchor
                || differs(|a, b| {
                    a.header.ip.traffic_class & 0xfc == b.header.ip.traffic_class & 0xfc
                }),
            hop_limit: self.anchor || needs & say::HOP_LIMIT != 0,
            list: needs & say::LIST != 0,
        };
        cid.put(common::MARK, out);
        self.known.put_common(present, rsf, plain_crc7(bytes), out);
    }

    /// What every packet says behind its base header.
    fn put_irregular(&self, list: bool, out: &mut Vec<u8>) {
        let Known { header, ids, .. } = &self.known;
        if let Some(outer) = header.ip.envelope.outer {
            if !outer.v6 && self.known.outer_ids == Ids::Random {
                out.extend_from_slice(&outer.id.to_be_bytes());
            }
            if self.known.ecn_used {
                out.push(outer.traffic_class);
            }
        }
        if !header.ip.v6 && *ids == Ids::Random {
            out.extend_from_slice(&header.ip.id.to_be_bytes());
        }
        if self.known.ecn_used {
            out.push(header.congestion());
        }
        out.extend_from_slice(&header.checksum.to_be_bytes());
        let known = self.options();
        for (index, item) in header.options.items() {
            if !list || self.goes_irregular(index, item) {
                let same = u16::from(self.told.same(index, item)) >= self.covered_repeats;
                let ack = header.acknowledgement;
                put_irregular(index, item, ack, known.clone(), same, out);
            }
        }
    }
}
