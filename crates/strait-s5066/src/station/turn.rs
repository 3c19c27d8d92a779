//! A station's own transmissions: how long they are, and what goes into them.

use alloc::vec::Vec;

use strait_core::node::Turn;
use strait_core::rate::LineRate;
use strait_core::{Duration, Instant, Room};

use super::adapt::Pace;
use super::hear::{CAUTION, LONG_ACK_OCTETS};
use super::{Offer, Outcome, Phase, Station};
use crate::address::{Address, field_octets};
use crate::c_pdu::{CONTROL_OCTETS_MAX, CPdu};
use crate::d_pdu::{
    Ack, Body, DATA_OVERHEAD, DPdu, LongAck, NON_ARQ_OVERHEAD, NonArq, OCTETS_MAX,
    SELECTIVE_OCTETS_MAX, SYNC, Segment,
};

/// The unit of the time in each D_PDU after which the transmission ends.
const EOT_UNIT: Duration = Duration::from_millis(500);

/// The longest time that it can tell.
pub(super) const EOT_MAX: Duration = Duration::from_millis(127_500);

/// Octets of a D_PDU with neither addresses nor anything of its own.
const EMPTY: usize = SYNC.len() + 4 + 2;

/// Half seconds that receivers wait for the rest of a C_PDU without ARQ that doesn't fit into the
/// transmission, beside three times its own time: ten minutes for others' turns in between.
const WINDOW: u16 = 1200;

/// An acknowledgement goes three times in a transmission that has room for it.
const ACKS_AGAIN: u8 = 2;

/// A C_PDU that is sent without ARQ.
#[derive(Debug)]
pub(super) struct Outgoing<T> {
    /// Its number, and the end of the time in which its pieces go, once it has begun to leave.
    window: Option<(u16, Instant)>,
    octets: Vec<u8>,
    in_order: bool,
    offset: usize,
    copies: u32,
    /// None once it is given up.
    ticket: Option<T>,
    expedited: bool,
    began: Option<Instant>,
    sent: Option<Instant>,
    left: Instant,
}

impl<T> Outgoing<T> {
    pub(super) fn new(offer: Offer<T>) -> Self {
        Self {
            window: None,
            octets: offer.c_pdu,
            in_order: offer.in_order,
            offset: 0,
            copies: offer.copies.max(1),
            ticket: Some(offer.ticket),
            expedited: offer.expedited,
            began: None,
            sent: None,
            left: Instant::ZERO,
        }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.began.is_some()
    }

    /// Whether all of it has left once.
    pub(super) const fn is_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// Whether what is heard then comes too late for the time in which its pieces go.
    fn is_late(&self, heard: Instant) -> bool {
        self.window.is_some_and(|(_, until)| until <= heard)
    }

    /// Whose it is, if it wasn't given up.
    pub(super) const fn ticket(&self) -> Option<&T> {
        self.ticket.as_ref()
    }

    /// It is over, and nobody's from now on; `None` if it was nobody's.
    pub(super) fn over(&mut self, to: usize, delivered: bool) -> Option<Outcome<T>> {
        Some(Outcome {
            to,
            ticket: self.ticket.take()?,
            delivered,
            began: self.began.unwrap_or(self.left),
            sent: self.sent.unwrap_or(self.left),
            left: self.left,
        })
    }
}

/// A transmission of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnAir {
    pub(super) peer: usize,
    /// The place of its rate, where rates change, and what follows from it.
    pub(super) place: usize,
    pace: Pace,
    blocks: u32,
    pub(super) starts: Instant,
    pub(super) ends: Instant,
    /// Octets that waited when it began and haven't been offered.
    pub(super) planned: usize,
    /// Nothing was pulled yet.
    begins: bool,
    pub(super) wants_answer: bool,
    /// It says what came.
    pub(super) answers: bool,
    /// It has data without ARQ.
    pub(super) plain: bool,
    /// It has something beside data.
    pub(super) word: bool,
    /// It has no data.
    pub(super) brief: bool,
    /// Acknowledgements have gone out up to so many places above the lower edge.
    acked: Option<usize>,
    /// What was said of the link, to say it again where there is room.
    said: Option<(CPdu<'static>, u16)>,
    /// Times that the acknowledgement may go again where there is room: without it, all that it
    /// tells of is sent again.
    acks_again: u8,
}

impl OnAir {
    /// Whether it has data without ARQ and nothing else.
    pub(super) const fn is_plain(&self) -> bool {
        self.plain && !self.word && !self.wants_answer
    }
}

impl<T> Station<T> {
    /// Octets around a segment of data to a peer.
    pub(super) fn around(&self, number: usize) -> usize {
        let peer = &self.peers[number];
        let field = field_octets(peer.address, self.settings.own);
        DATA_OVERHEAD + field + usize::from(peer.link.is_long())
    }

    /// Whether something is to be said to a peer, beside what its owner offers.
    fn has_to_say(&self, number: usize) -> bool {
        let peer = &self.peers[number];
        if peer.rests_until.is_some() {
            return false;
        }
        if !self.serves(number) {
            // Nothing but that it isn't served.
            return peer.link.says.is_some();
        }
        let more = self.may_send(peer) && (peer.send.has_more() || peer.expedited.has_more());
        let waits = peer.send.held() + peer.expedited.held() > 0
            && peer.link.wants_call(self.now)
            && peer.paused_until.is_none();
        peer.link.says.is_some()
            || peer.management.has_to_say()
            || peer.management.is_open() && !peer.awaited
            || peer.warning.is_some()
            || !peer.reset.says.is_empty()
            || peer.asks_reset().is_some()
            || peer.owes_ack()
            || peer.expedited.owes_ack
            || peer.outgoing.is_some()
            || more
            || waits
    }

    /// Whether the station may transmit now.
    #[must_use]
    pub const fn may_transmit(&self) -> bool {
        matches!(self.phase, Phase::Keyed | Phase::Free)
    }

    /// The peer that a transmission would be for: who waits for an answer, else whose turn was the
    /// longest ago, of those with something to be said, or to be sent by its owner, which has it
    /// for `others`. Who isn't there comes behind all who are.
    #[must_use]
    pub fn to_whom(&self, others: &[usize]) -> Option<usize> {
        let answered = self.to_answer.filter(|number| self.has_to_say(*number));
        let has = |number: &usize| others.contains(number) || self.has_to_say(*number);
        let waiting = (0..self.peers.len()).filter(has);
        let last = |number: &usize| (self.gives_way(*number), self.peers[*number].turn_at);
        answered.or_else(|| waiting.min_by_key(last))
    }

    /// Begins a transmission to a peer, if none is under way and it may. `waiting` are octets and
    /// packets that its owner has for that peer.
    pub fn begin(&mut self, now: Instant, to: usize, room: Room, waiting: (usize, usize)) -> bool {
        self.advance(now);
        if self.state.is_none() || self.phase != Phase::Free {
            return false;
        }
        let Some(peer) = self.peers.get(to) else {
            return false;
        };
        if peer.send.held() + peer.expedited.held() > 0 {
            self.link(to);
        }
        self.lead = room.starts.since(now);
        self.note_silence(now);
        if !self.peers[to].awaited {
            self.peers[to].management.repeat();
        }
        let brief = self.is_brief(now, to);
        let data = !brief && self.has_data(to, waiting.0);
        let mut octets = self.owed_octets(to);
        if !brief {
            octets += self.data_octets(to, waiting);
        }
        let (place, pace) = self.safest(to, octets, data);
        if pace.mode.is_none() {
            octets = octets.min(room.octets);
        }
        let peer = &self.peers[to];
        let segment = self.segment_octets(to);
        let longest = peer
            .send
            .longest(segment)
            .max(peer.expedited.longest(segment));
        let longest = longest + self.around(to);
        let turn_max = self.settings.turn_max.min(EOT_MAX);
        // Whoever isn't known to hear us gets no long transmission.
        let caution = match peer.link.is_calling() {
            true => peer.caution.max(CAUTION),
            false => peer.caution,
        };
        let risked = whole_blocks(turn_max / caution, pace.block);
        let most = risked.max(pace.blocks_for(longest));
        let most = most.clamp(1, whole_blocks(turn_max, pace.block).max(1));
        let slots = self.settings.access.slots();
        let shortest = slots.map_or(Duration::ZERO, |it| it.turn_min);
        let least = blocks_in(shortest, pace.block).clamp(1, most);
        let blocks = pace.blocks_for(octets).clamp(least, most);
        self.on_air = Some(OnAir {
            peer: to,
            place,
            pace,
            blocks,
            starts: room.starts,
            ends: room.starts + pace.time_of(blocks),
            planned: if brief { 0 } else { waiting.0 },
            begins: true,
            wants_answer: false,
            answers: false,
            plain: false,
            word: false,
            brief,
            acked: None,
            said: None,
            acks_again: 0,
        });
        self.peers[to].send.begin_turn();
        self.phase = Phase::Keyed;
        self.on_since = now;
        let answers = self.to_answer.take() == Some(to);
        if !(answers && brief) {
            self.peers[to].turn_at = now;
        }
        self.stats.turns += 1;
        true
    }

    /// Whether client data would go to a peer, of which so many octets wait beside.
    fn has_data(&self, number: usize, waiting: usize) -> bool {
        let peer = &self.peers[number];
        let more = peer.send.has_more() || peer.expedited.has_more();
        let data = waiting > 0 || peer.outgoing.is_some() || self.may_send(peer) && more;
        data && !peer.management.is_open()
    }

    /// Octets of what is to be said beside data.
    fn owed_octets(&self, number: usize) -> usize {
        let peer = &self.peers[number];
        let field = field_octets(peer.address, self.settings.own);
        let mut octets = self.management_octets(number);
        if let Some(says) = &peer.link.says {
            octets += NON_ARQ_OVERHEAD + field + control_octets(says);
        }
        for small in [
            peer.warning.is_some(),
            peer.reset.says.len() > 1,
            !peer.reset.says.is_empty(),
            peer.asks_reset().is_some(),
        ] {
            octets += usize::from(small) * (EMPTY + field + 3);
        }
        if peer.owes_ack() {
            octets += self.ack_octets(number);
        }
        if peer.expedited.owes_ack {
            octets += EMPTY + field + 1 + SELECTIVE_OCTETS_MAX;
        }
        octets
    }

    /// Octets of data, those that were offered and those that wait.
    fn data_octets(&self, number: usize, waiting: (usize, usize)) -> usize {
        let peer = &self.peers[number];
        let field = field_octets(peer.address, self.settings.own);
        let segment = self.segment_octets(number);
        if peer.management.is_open() {
            return 0;
        }
        if self.may_send(peer) && peer.expedited.has_more() {
            return peer.expedited.backlog(segment, self.around(number));
        }
        let mut octets = 0;
        let (waiting_octets, packets) = waiting;
        // As they will be cut: each into even pieces of about the best length.
        let mean = waiting_octets / packets.max(1);
        let least = mean.div_ceil(self.settings.segment_octets_max.max(1));
        let pieces = ((mean + segment / 2) / segment).max(least).max(1);
        let split = |around: usize| waiting_octets + packets * pieces * around;
        if let Some(outgoing) = &peer.outgoing {
            let pieces = outgoing.octets.len().div_ceil(segment).max(1);
            let once = outgoing.octets.len() + pieces * (NON_ARQ_OVERHEAD + field);
            octets += once * outgoing.copies as usize;
        }
        if self.may_send(peer) {
            let around = self.around(number);
            let (backlog, frames) = peer.send.backlog(segment, around);
            let piece = mean.div_ceil(pieces);
            octets += backlog + split(around).min(frames * (piece + around));
        } else if !peer.link.is_made() && peer.link.says.is_none() {
            octets += split(NON_ARQ_OVERHEAD + field);
        }
        octets
    }

    fn ack_octets(&self, number: usize) -> usize {
        let peer = &self.peers[number];
        let field = field_octets(peer.address, self.settings.own);
        let bits = peer.receive.selected().div_ceil(8);
        if !peer.link.is_long() {
            return EMPTY + field + 1 + bits.min(SELECTIVE_OCTETS_MAX);
        }
        (bits / LONG_ACK_OCTETS + 1) * (EMPTY + field + 6 + 4) + bits
    }

    /// The peer that a transmission of ours under way is for.
    #[must_use]
    pub fn on_air_to(&self) -> Option<usize> {
        self.on_air.map(|on_air| on_air.peer)
    }

    /// Appends the next D_PDU of the transmission, if there is one that fits, and says what the
    /// medium has to know of it.
    pub fn write(&mut self, room: Room, out: &mut Vec<u8>) -> Option<Turn> {
        let mut on_air = self.on_air?;
        self.state?;
        let rate = on_air.pace.rate;
        let mut room = room;
        if on_air.begins {
            let all = on_air.pace.octets_in(on_air.blocks);
            room.octets = match on_air.pace.mode {
                // The room is what there is by the medium's own.
                Some(_) => all,
                None => room.octets.min(all),
            };
        }
        let before = out.len();
        let eot = eot(room.starts, on_air.ends);
        let word = self.write_word(&mut on_air, room, eot, out);
        on_air.word |= word;
        if !word
            && !self.write_data(&mut on_air, room, rate, eot, out)
            && !self.write_again(&mut on_air, room, rate, eot, out)
            && !on_air.begins
        {
            return None;
        }
        self.stats.d_pdus_out += u64::from(out.len() > before);
        let left = room.octets - (out.len() - before);
        let turn = Turn {
            key_up: core::mem::take(&mut on_air.begins),
            blocks: on_air.blocks,
            // Less than that is no D_PDU.
            last: left < EMPTY + 2,
            mode: on_air.pace.mode,
        };
        self.on_air = Some(on_air);
        Some(turn)
    }

    /// What the medium has to know of a transmission that goes on with nothing.
    #[must_use]
    pub fn idle_turn(&self) -> Option<Turn> {
        self.on_air.map(|on_air| Turn {
            key_up: false,
            blocks: on_air.blocks,
            last: false,
            mode: on_air.pace.mode,
        })
    }

    /// Appends a D_PDU with its order wire and the time to the transmission's end.
    pub(super) fn put(&self, number: usize, times: (u16, u8), body: Body<'_>, out: &mut Vec<u8>) {
        let to = self.peers[number].address;
        put(to, self.settings.own, times, body, out);
    }

    /// What isn't data: of the link, warnings, resets, acknowledgements.
    fn write_word(&mut self, on_air: &mut OnAir, room: Room, eot: u8, out: &mut Vec<u8>) -> bool {
        let number = on_air.peer;
        let field = field_octets(self.peers[number].address, self.settings.own);
        let fits = |octets: usize| octets + field <= room.octets;
        let says = self.peers[number].link.says.as_ref();
        if says.is_some_and(|says| fits(NON_ARQ_OVERHEAD + control_octets(says))) {
            let says = self.peers[number].link.says.take();
            let until = room.starts + EOT_UNIT * (u32::from(eot) + 1) + on_air.pace.block;
            let c_pdu = self.c_pdus[1].take(room.starts, until);
            // A call with data stands ahead of all that it is for, and nowhere else.
            let again = !self.peers[number].link.calls_with_data();
            on_air.said = says.filter(|_| again).map(|says| (says, c_pdu));
            if let Some(says) = says {
                let asks = self.peers[number].link.asks_caller();
                let calls = matches!(says, CPdu::Request { .. });
                let answered = asks || calls || matches!(says, CPdu::Break(_));
                if calls {
                    self.peers[number].early.count_call();
                }
                on_air.wants_answer |= answered;
                // The caller goes on with its data, and isn't heard at once.
                on_air.answers |= matches!(says, CPdu::Accepted { .. } | CPdu::BreakConfirm);
                self.peers[number].awaited |= answered;
                self.peers[number].answered = false;
                self.write_control(number, (says, c_pdu), eot, out);
            }
            return true;
        }
        if !fits(EMPTY + 3) {
            return false;
        }
        if self.write_management(on_air, room, eot, out) {
            return true;
        }
        if let Some(warning) = self.peers[number].warning.take() {
            self.stats.warnings_out += 1;
            self.put(
                number,
                (self.order(number), eot),
                Body::Warning(warning),
                out,
            );
            return true;
        }
        if let Some(says) = self.peers[number].reset.says.pop() {
            self.put(number, (self.order(number), eot), Body::Reset(says), out);
            return true;
        }
        if let (Some(asks), false) = (self.peers[number].asks_reset(), on_air.wants_answer) {
            on_air.wants_answer = true;
            (self.peers[number].awaited, self.peers[number].answered) = (true, false);
            self.put(number, (self.order(number), eot), Body::Reset(asks), out);
            return true;
        }
        // With a message that isn't acknowledged nothing else goes, but with an answer the
        // acknowledgement that its question may be about.
        let management = &self.peers[number].management;
        if management.is_open() && !management.answers() {
            return false;
        }
        if self.peers[number].expedited.owes_ack && self.write_expedited_ack(number, room, eot, out)
        {
            return true;
        }
        if !self.peers[number].owes_ack() {
            return false;
        }
        on_air.acks_again = ACKS_AGAIN;
        self.write_ack(on_air, room, eot, out)
    }

    fn write_control(
        &self,
        number: usize,
        (says, c_pdu): (CPdu<'static>, u16),
        eot: u8,
        out: &mut Vec<u8>,
    ) {
        let mut octets = Vec::with_capacity(CONTROL_OCTETS_MAX);
        says.put(&mut octets);
        let piece = NonArq {
            expedited: true,
            c_pdu,
            in_order: false,
            group: false,
            size: octets.len() as u16,
            offset: 0,
            window: u16::from(eot) + 1,
            segment: Segment::whole(&octets),
        };
        self.put(number, (self.capability(), eot), Body::NonArq(piece), out);
    }

    /// An acknowledgement, or the next part of a long one.
    fn write_ack(&mut self, on_air: &mut OnAir, room: Room, eot: u8, out: &mut Vec<u8>) -> bool {
        let number = on_air.peer;
        on_air.answers = true;
        let peer = &mut self.peers[number];
        let field = field_octets(peer.address, self.settings.own);
        let lower = peer.receive.lower();
        if !peer.link.is_long() {
            let selective = peer.receive.selective(1, SELECTIVE_OCTETS_MAX);
            if EMPTY + field + 1 + selective.len() > room.octets {
                return false;
            }
            peer.owes_ack = false;
            let ack = Ack {
                lower: lower as u8,
                selective: &selective,
            };
            self.put(number, (self.order(number), eot), Body::Ack(ack), out);
            return true;
        }
        let skip = on_air.acked.unwrap_or(1);
        let bits = peer.receive.selective(skip, LONG_ACK_OCTETS);
        if EMPTY + field + 6 + 4 + bits.len() > room.octets {
            return false;
        }
        on_air.acked = (bits.len() == LONG_ACK_OCTETS).then_some(skip + 8 * LONG_ACK_OCTETS);
        peer.owes_ack = on_air.acked.is_some();
        let ack = LongAck {
            lower,
            first: lower.wrapping_add(skip as u16),
            selective: Segment::whole(&bits),
        };
        self.put(number, (self.order(number), eot), Body::LongAck(ack), out);
        true
    }

    /// Client data, without ARQ first: it is what can't wait.
    fn write_data(
        &mut self,
        on_air: &mut OnAir,
        room: Room,
        rate: LineRate,
        eot: u8,
        out: &mut Vec<u8>,
    ) -> bool {
        let number = on_air.peer;
        if self.peers[number].management.is_open() || on_air.brief {
            return false;
        }
        self.note_used(on_air);
        // What is expedited goes alone: with it under way, nothing else is to be sent.
        if self.may_send(&self.peers[number]) && self.peers[number].expedited.is_open() {
            let written = self.write_expedited(number, room, rate, eot, out);
            on_air.wants_answer |= written;
            return written;
        }
        if self.write_non_arq(on_air, room, eot, out) {
            on_air.plain = true;
            return true;
        }
        if !self.may_send(&self.peers[number]) {
            return false;
        }
        let written = self.write_frame(number, room, rate, eot, false, out);
        on_air.wants_answer |= written;
        written
    }

    fn write_expedited_ack(
        &mut self,
        number: usize,
        room: Room,
        eot: u8,
        out: &mut Vec<u8>,
    ) -> bool {
        let peer = &mut self.peers[number];
        let field = field_octets(peer.address, self.settings.own);
        let Some((lower, selective)) = peer.expedited.ack(SELECTIVE_OCTETS_MAX) else {
            return false;
        };
        if EMPTY + field + 1 + selective.len() > room.octets {
            return false;
        }
        peer.expedited.owes_ack = false;
        let ack = Ack {
            lower,
            selective: &selective,
        };
        self.put(
            number,
            (self.order(number), eot),
            Body::ExpeditedAck(ack),
            out,
        );
        true
    }

    fn write_expedited(
        &mut self,
        number: usize,
        room: Room,
        rate: LineRate,
        eot: u8,
        out: &mut Vec<u8>,
    ) -> bool {
        let order = self.order(number);
        let segment = self.segment_octets(number);
        let (now, own) = (self.now, self.settings.own);
        let peer = &mut self.peers[number];
        let around = DATA_OVERHEAD + field_octets(peer.address, own);
        let Some(segment_room) = room.octets.checked_sub(around) else {
            return false;
        };
        let ends = |octets: usize| room.starts + rate.time_for((octets + around) as u64);
        let next = peer
            .expedited
            .next(segment_room, segment, room.starts, ends);
        let Some((c_pdu, data)) = next else {
            return false;
        };
        let body = Body::ExpeditedData {
            start: data.start,
            end: data.end,
            c_pdu,
            number: data.number as u8,
            segment: data.segment,
        };
        put(peer.address, own, (order, eot), body, out);
        (peer.awaited, peer.answered) = (true, false);
        peer.link.touch(now);
        true
    }

    fn write_non_arq(&mut self, on_air: &OnAir, room: Room, eot: u8, out: &mut Vec<u8>) -> bool {
        let number = on_air.peer;
        let Pace { rate, block, .. } = on_air.pace;
        let own = self.settings.own;
        let order = self.order(number);
        let segment_max = self.segment_octets(number);
        let peer = &mut self.peers[number];
        let around = NON_ARQ_OVERHEAD + field_octets(peer.address, own);
        // What begins a block may be heard with the block's end.
        let heard = room.starts + block;
        if let Some(mut outgoing) = peer.outgoing.take_if(|it| it.is_late(heard)) {
            self.outcomes
                .extend(outgoing.over(number, outgoing.is_sent()));
        }
        let Some(outgoing) = &mut peer.outgoing else {
            return false;
        };
        let left = outgoing.octets.len() - outgoing.offset;
        let octets = left
            .min(segment_max)
            .min(room.octets.saturating_sub(around));
        if octets == 0 && left > 0 || octets < left && octets < segment_max.min(16) {
            return false;
        }
        let end = outgoing.offset + octets;
        let whole = outgoing.octets.len();
        let around_pieces = |of: usize| of + of.div_ceil(octets.max(1)).max(1) * around;
        let again = (outgoing.copies as usize).saturating_sub(1);
        let all = around_pieces(left) + again * around_pieces(whole);
        let rest = rate.time_for(all as u64);
        let alone = octets == whole && outgoing.copies <= 1 && !outgoing.in_order;
        let (c_pdu, until) = *outgoing.window.get_or_insert_with(|| {
            // Where a medium takes a block at a time, pieces are cut shorter than this one.
            let fits = all <= room.octets || half_seconds(rest * 2) <= u16::from(eot);
            let window = match alone {
                true => 1,
                false => window(eot, fits, rest, block),
            };
            let until = room.starts + EOT_UNIT * u32::from(window);
            let numbers = &mut self.c_pdus[usize::from(outgoing.expedited)];
            (numbers.take(room.starts, until + block), until)
        });
        let piece = NonArq {
            expedited: outgoing.expedited,
            c_pdu,
            in_order: outgoing.in_order,
            group: peer.address.is_group(),
            size: outgoing.octets.len() as u16,
            offset: outgoing.offset as u16,
            window: half_seconds(until.since(room.starts)),
            segment: Segment::whole(&outgoing.octets[outgoing.offset..end]),
        };
        put(peer.address, own, (order, eot), Body::NonArq(piece), out);
        outgoing.began.get_or_insert(room.starts);
        outgoing.left = room.starts + rate.time_for((octets + around) as u64);
        outgoing.offset = end;
        if end == outgoing.octets.len() {
            outgoing.sent.get_or_insert(outgoing.left);
            outgoing.copies = outgoing.copies.saturating_sub(1);
            outgoing.offset = 0;
        }
        if outgoing.copies == 0
            && let Some(mut outgoing) = peer.outgoing.take()
        {
            self.outcomes.extend(outgoing.over(number, true));
        }
        true
    }

    /// Writes the next frame, or one of this transmission `again`.
    fn write_frame(
        &mut self,
        number: usize,
        room: Room,
        rate: LineRate,
        eot: u8,
        again: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        let order = self.order(number);
        let segment = self.segment_octets(number);
        let around = self.around(number);
        let Some(segment_room) = room.octets.checked_sub(around) else {
            return false;
        };
        let now = self.now;
        let own = self.settings.own;
        let peer = &mut self.peers[number];
        let ends = |octets: usize| room.starts + rate.time_for((octets + around) as u64);
        let data = if again {
            peer.send.fill(segment_room, ends)
        } else {
            peer.send.next(segment_room, segment, room.starts, ends)
        };
        let Some(data) = data else {
            return false;
        };
        let body = if peer.link.is_long() {
            Body::LongData(data)
        } else {
            Body::Data(data, None)
        };
        put(peer.address, own, (order, eot), body, out);
        (peer.awaited, peer.answered) = (true, false);
        peer.link.touch(now);
        true
    }

    /// Where there is room and nothing else to send, the same again: it costs nothing.
    fn write_again(
        &mut self,
        on_air: &mut OnAir,
        room: Room,
        rate: LineRate,
        eot: u8,
        out: &mut Vec<u8>,
    ) -> bool {
        let number = on_air.peer;
        if room.octets < OCTETS_MAX.min(EMPTY + 40) {
            return false;
        }
        if let Some(said) = on_air.said.take() {
            self.write_control(number, said, eot, out);
            return true;
        }
        if on_air.acks_again > 0 || on_air.acked.is_some() {
            on_air.acks_again -= u8::from(on_air.acked.is_none());
            let written = self.write_ack(on_air, room, eot, out);
            self.peers[number].owes_ack = false;
            if written {
                return true;
            }
        }
        let peer = &self.peers[number];
        let alone = peer.expedited.is_open() || peer.management.is_open() || on_air.brief;
        if !self.may_send(peer) || alone {
            return false;
        }
        self.write_frame(number, room, rate, eot, true, out)
    }
}

/// Octets of a C_PDU of channel access.
fn control_octets(says: &CPdu<'_>) -> usize {
    let mut octets = Vec::with_capacity(CONTROL_OCTETS_MAX);
    says.put(&mut octets);
    octets.len()
}

fn put(to: Address, from: Address, (eow, eot): (u16, u8), body: Body<'_>, out: &mut Vec<u8>) {
    let d_pdu = DPdu {
        eow,
        eot,
        to,
        from,
        body,
    };
    d_pdu.put(out);
}

/// Half seconds that receivers wait for a C_PDU without ARQ that leaves within `rest`.
///
/// Where all of it is sure to fit into the transmission, to the end of that and a block, as what
/// begins the last one is heard with its end. Else long enough for others' turns in between. Nobody
/// waits for more of what is in one piece, once, and not in order.
fn window(eot: u8, fits: bool, rest: Duration, block: Duration) -> u16 {
    if fits {
        u16::from(eot) + 1 + half_seconds(block)
    } else {
        half_seconds(rest).saturating_mul(3).saturating_add(WINDOW)
    }
}

/// Half seconds from `starts` to `ends`, rounded up.
fn eot(starts: Instant, ends: Instant) -> u8 {
    u8::try_from(half_seconds(ends.since(starts))).unwrap_or(u8::MAX)
}

/// Half seconds in a time, rounded up.
fn half_seconds(time: Duration) -> u16 {
    let halves = time.as_nanos().div_ceil(EOT_UNIT.as_nanos());
    u16::try_from(halves).unwrap_or(u16::MAX)
}

/// Blocks that last as long as a time, at least.
fn blocks_in(time: Duration, block: Duration) -> u32 {
    let blocks = time.as_nanos().div_ceil(block.as_nanos().max(1));
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// Blocks that fit into a time.
fn whole_blocks(time: Duration, block: Duration) -> u32 {
    let blocks = time.as_nanos() / block.as_nanos().max(1);
    u32::try_from(blocks).unwrap_or(u32::MAX)
}
