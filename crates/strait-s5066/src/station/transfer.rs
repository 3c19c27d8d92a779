//! Data transfer with one peer: frames with ARQ, expedited ones, and resets; and C_PDUs without.

use strait_core::Instant;
use strait_core::stats::HfCounts;

use super::plain::Outgoing;
use super::transmission::{EMPTY, Space};
use super::{Identity, Offer};
use crate::arq::{Done, Expedited, Left, Numbering, OutOfSync, Receiver, Sender};
use crate::d_pdu::{Ack, Body, DATA_OVERHEAD, Data, LongAck, Reset, SELECTIVE_OCTETS_MAX, Segment};
use crate::quality::{Quality, Told};
use crate::reset::ResetExchange;

/// Octets of a long acknowledgement's bits: short ones are more likely to arrive.
const LONG_ACK_OCTETS: usize = 64;

/// The bit at `place`, the lowest of the first octet being the first; `None` behind the last.
fn bit(octets: &[u8], place: usize) -> Option<bool> {
    octets
        .get(place / 8)
        .map(|octet| octet >> (place % 8) & 1 != 0)
}

/// The effect of a received reset on a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterReset {
    /// Nothing, or as much as was asked for.
    GoesOn,
    /// Both directions begin anew.
    Anew,
}

/// Which frame is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The next one that is due.
    Next,
    /// One of this transmission, once more.
    Again,
}

/// Both directions of data with one peer.
#[derive(Debug)]
pub(super) struct Transfer<T> {
    pub(super) send: Sender<T>,
    pub(super) receive: Receiver,
    pub(super) expedited: Expedited<T>,
    pub(super) quality: Quality,
    reset: ResetExchange,
    /// Received data hasn't been acknowledged.
    owes_ack: bool,
    /// Data without ARQ.
    plain: Option<Outgoing<T>>,
    /// Finished data without ARQ.
    plain_done: Option<Done<T>>,
    /// It hasn't been shown yet that both ends count alike on the link made by other means.
    uneven: bool,
}

impl<T> Transfer<T> {
    pub(super) fn new(numbering: Numbering, segment_octets_max: usize) -> Self {
        Self {
            send: Sender::new(numbering, segment_octets_max),
            receive: Receiver::new(numbering),
            expedited: Expedited::new(segment_octets_max),
            quality: Quality::default(),
            reset: ResetExchange::default(),
            owes_ack: false,
            plain: None,
            plain_done: None,
            uneven: false,
        }
    }

    /// C_PDUs with ARQ that aren't over.
    pub(super) fn held(&self) -> usize {
        self.send.held() + self.expedited.held()
    }

    /// All C_PDUs that aren't over.
    pub(super) fn held_in_all(&self) -> usize {
        let plain = self.plain.as_ref();
        self.held() + usize::from(plain.is_some_and(|it| it.ticket().is_some()))
    }

    /// Whether something goes without ARQ.
    pub(super) const fn has_plain(&self) -> bool {
        self.plain.is_some()
    }

    /// Whether frames are to be sent.
    pub(super) fn has_more(&self) -> bool {
        self.send.has_more() || self.expedited.has_more()
    }

    /// Whether a reset of this station isn't answered.
    pub(super) const fn is_resetting(&self) -> bool {
        self.reset.is_open()
    }

    /// The lower edges of reception and of sending.
    #[cfg(test)]
    pub(super) const fn lower(&self) -> (u16, u16) {
        (self.receive.lower(), self.send.lower())
    }

    #[cfg(test)]
    pub(super) const fn reset(&self) -> Option<Reset> {
        self.reset.open()
    }

    /// Whether an acknowledgement of data is due. None is while a reset isn't answered: received
    /// data may have had new numbers, and the acknowledgement would name old ones.
    pub(super) const fn owes_ack(&self) -> bool {
        self.owes_ack && !self.is_resetting()
    }

    /// Whether an acknowledgement of any data is due, now or later.
    pub(super) const fn has_unacknowledged(&self) -> bool {
        self.owes_ack || self.expedited.owes_ack()
    }

    /// Data is to be acknowledged, or its acknowledgement to be repeated.
    pub(super) const fn owe_ack(&mut self) {
        self.owes_ack = true;
    }

    /// The acknowledgements were enough.
    pub(super) const fn forget_ack(&mut self) {
        self.owes_ack = false;
    }

    /// Whether the peer waits for an answer, by a link that `is_made` or not.
    pub(super) fn has_to_answer(&self, is_made: bool) -> bool {
        let acks = self.owes_ack() || self.expedited.owes_ack();
        acks || self.reset.answers() > 0 || is_made && self.is_resetting()
    }

    /// Octets of that.
    pub(super) fn owed_octets(&self, field: usize, is_made: bool, long: bool) -> usize {
        // Of answers to resets, two at most.
        let small = self.reset.answers().min(2) + usize::from(is_made && self.is_resetting());
        let mut octets = small * (EMPTY + field + 3);
        if self.owes_ack() {
            octets += self.ack_octets(field, long);
        }
        if self.expedited.owes_ack() {
            octets += EMPTY + field + 1 + SELECTIVE_OCTETS_MAX;
        }
        octets
    }

    fn ack_octets(&self, field: usize, long: bool) -> usize {
        let bits = self.receive.selected().div_ceil(8);
        if !long {
            return EMPTY + field + 1 + bits.min(SELECTIVE_OCTETS_MAX);
        }
        (bits / LONG_ACK_OCTETS + 1) * (EMPTY + field + 6 + 4) + bits
    }

    /// The longest segment that may go next, if new ones have about `segment` octets.
    pub(super) fn longest(&self, segment: usize) -> usize {
        self.send
            .longest(segment)
            .max(self.expedited.longest(segment))
    }

    /// Octets of data without ARQ.
    pub(super) fn plain_octets(&self, segment: usize, field: usize) -> usize {
        let plain = self.plain.as_ref();
        plain.map_or(0, |plain| plain.all_octets(segment, field))
    }

    /// Takes data to be sent.
    pub(super) fn offer(&mut self, offer: Offer<T>, arq: bool) {
        if !arq {
            self.plain = Some(Outgoing::new(offer));
        } else if offer.expedited {
            self.expedited.offer(offer.c_pdu, offer.ticket);
        } else {
            self.send
                .offer(offer.c_pdu, offer.in_order, offer.urgent, offer.ticket);
        }
    }

    /// Gives up unfinished data whose tickets are `such`.
    pub(super) fn give_up(&mut self, such: impl Fn(&T) -> bool) {
        self.send.give_up(&such);
        self.expedited.give_up(&such);
        if let Some(plain) = &mut self.plain
            && plain.ticket().is_some_and(such)
        {
            // Where only repeats are left, it has been sent.
            self.plain_done = plain.over(plain.is_sent());
        }
    }

    /// Drops given-up data without ARQ, unless some of it has left and the rest may follow: the
    /// other end decides whether that comes too late.
    pub(super) fn end_given_up(&mut self, may_follow: bool) {
        self.plain
            .take_if(|it| it.ticket().is_none() && !(may_follow && it.has_begun()));
    }

    /// The next C_PDU that is over.
    pub(super) fn poll_done(&mut self) -> Option<Done<T>> {
        let plain = self.plain_done.take();
        plain.or_else(|| self.send.poll().or_else(|| self.expedited.poll()))
    }

    /// The medium is gone.
    pub(super) fn abandon(&mut self) {
        self.send.abandon();
        self.expedited.abandon();
        self.reset.forget_answers();
        if let Some(mut plain) = self.plain.take() {
            self.plain_done = plain.over(false);
        }
    }

    /// The sending end begins anew, and with it the data that had `left` completely.
    pub(super) fn restart_sending(&mut self, numbering: Numbering, left: Left) {
        self.send.restart(numbering, left);
        self.expedited.restart(left);
        self.reset.cancel();
    }

    /// The receiving end begins anew.
    pub(super) fn restart_receiving(&mut self, numbering: Numbering) {
        self.receive.restart(numbering);
        self.expedited.forget_incoming();
        self.owes_ack = false;
    }

    /// A link is made: both ends count alike, and resets are numbered anew.
    pub(super) const fn renumber(&mut self) {
        self.uneven = false;
        self.reset.go_on();
    }

    /// Something else has made it.
    pub(super) const fn note_uneven(&mut self) {
        self.uneven = true;
    }

    /// The other end took nothing from `since` on.
    pub(super) fn not_taken(&mut self, since: Instant) {
        self.send.not_taken(since);
        self.expedited.not_taken(since);
    }

    /// The other end has acknowledged, and frames that it didn't name haven't arrived. Gives the
    /// acknowledged ones.
    pub(super) fn end_answer(&mut self) -> Told {
        self.send.end_answer();
        self.expedited.end_answer();
        self.quality.take_news()
    }

    /// The same, and its earlier acknowledgements were complete.
    pub(super) fn ask_for_what_came(&mut self) {
        self.send.end_answer();
        self.send.probe();
    }

    /// A frame arrived.
    pub(super) fn hear_data(&mut self, data: &Data<'_>, counts: &mut HfCounts) {
        // It isn't known whether its numbers are still those of before.
        if self.is_resetting() {
            return;
        }
        self.reset.go_on();
        self.owes_ack = true;
        // The header is right whatever the segment is.
        let taken = match data.segment.intact || data.dropped {
            true => self.receive.take(data),
            false => self.receive.check(data),
        };
        if taken == Err(OutOfSync) {
            self.reset_fully(counts);
        }
    }

    /// The receptions of frames were reported. If the transmission may have `met` another one, that
    /// says nothing of the channel.
    pub(super) fn hear_ack(&mut self, ack: Ack<'_>, best: usize, met: bool, counts: &mut HfCounts) {
        let told = |above: usize| Some(bit(ack.selective, above - 1).unwrap_or(false));
        self.acknowledge(u16::from(ack.lower), told, best, met, counts);
    }

    /// The same of long numbers.
    pub(super) fn hear_long_ack(
        &mut self,
        ack: LongAck<'_>,
        best: usize,
        met: bool,
        counts: &mut HfCounts,
    ) {
        let skipped = usize::from(ack.first.wrapping_sub(ack.lower));
        let bits = ack.selective.octets;
        let last = bits.len() < LONG_ACK_OCTETS;
        let told = |above: usize| match above.checked_sub(skipped) {
            Some(place) if ack.selective.intact => {
                bit(bits, place).or_else(|| last.then_some(false))
            }
            _ => None,
        };
        self.acknowledge(ack.lower, told, best, met, counts);
    }

    fn acknowledge(
        &mut self,
        lower: u16,
        told: impl Fn(usize) -> Option<bool>,
        best: usize,
        met: bool,
        counts: &mut HfCounts,
    ) {
        // The other end has been given a lower edge, and forgets frames above it.
        if self.reset.commands() {
            return;
        }
        self.reset.go_on();
        let mut of_another = Quality::default();
        let quality = match met {
            true => &mut of_another,
            false => &mut self.quality,
        };
        if self.send.acknowledge(lower, told, best, quality).is_err() {
            self.reset_fully(counts);
        }
    }

    /// The receptions of expedited frames were reported.
    pub(super) fn hear_expedited_ack(&mut self, ack: Ack<'_>, best: usize) {
        let told = |above: usize| Some(bit(ack.selective, above - 1).unwrap_or(false));
        self.expedited
            .acknowledge(ack, told, best, &mut self.quality);
    }

    /// Asks the other end to begin anew.
    pub(super) fn reset_fully(&mut self, counts: &mut HfCounts) {
        let full = Reset {
            full: true,
            ..Reset::default()
        };
        self.begin_reset(full, counts);
    }

    /// Ensures that both ends of a link made by other means count from zero before data goes: a
    /// frame whose number the other end had before this station began would be acknowledged. If
    /// data `came` by the link, reception continues.
    pub(super) fn even_out(&mut self, came: bool, counts: &mut HfCounts) {
        if !core::mem::take(&mut self.uneven) {
            return;
        }
        let reset = Reset {
            full: !came,
            command: came,
            ..Reset::default()
        };
        self.begin_reset(reset, counts);
    }

    fn begin_reset(&mut self, reset: Reset, counts: &mut HfCounts) {
        counts.resets += u64::from(self.reset.begin(reset));
    }

    /// A reset arrived.
    pub(super) fn hear_reset(
        &mut self,
        reset: Reset,
        long: bool,
        counts: &mut HfCounts,
    ) -> AfterReset {
        if reset.full {
            let fresh = self.reset.hear(reset.frame);
            counts.resets += u64::from(fresh);
            self.reset.answer(reset, long);
            self.uneven &= !fresh;
            return if fresh {
                AfterReset::Anew
            } else {
                AfterReset::GoesOn
            };
        }
        if reset.command && !long {
            if self.reset.hear(reset.frame) {
                self.receive.set_lower(u16::from(reset.lower));
            }
            self.reset.answer(reset, long);
        } else if reset.request && !long {
            let command = Reset {
                command: true,
                lower: self.send.lower() as u8,
                ..Reset::default()
            };
            self.begin_reset(command, counts);
        }
        AfterReset::GoesOn
    }

    /// A reset of this station was answered.
    pub(super) fn hear_reset_ack(&mut self, frame: u8, long: bool) -> AfterReset {
        match self.reset.answered(frame, long) {
            Some(Reset { full: true, .. }) => return AfterReset::Anew,
            Some(_) => {
                self.reset.cancel();
                self.send.resync();
            }
            None => {}
        }
        AfterReset::GoesOn
    }

    /// Writes the next answer to a reset.
    pub(super) fn write_reset_answer(&mut self, space: &mut Space<'_>) -> bool {
        let says = self.reset.next_answer();
        says.inspect(|says| space.put(Body::Reset(*says))).is_some()
    }

    /// Writes a reset that isn't answered.
    pub(super) fn write_reset(&self, space: &mut Space<'_>) -> bool {
        let open = self.reset.open();
        open.inspect(|open| space.put(Body::Reset(*open))).is_some()
    }

    /// Writes an acknowledgement, or the next part of a long one, from so many places above the
    /// lower edge on; gives where the next part begins.
    pub(super) fn write_ack(
        &mut self,
        space: &mut Space<'_>,
        long: bool,
        from: Option<usize>,
    ) -> Option<Option<usize>> {
        let lower = self.receive.lower();
        if !long {
            let selective = self.receive.selective(1, SELECTIVE_OCTETS_MAX);
            if !space.fits(EMPTY + 1 + selective.len()) {
                return None;
            }
            self.owes_ack = false;
            space.put(Body::Ack(Ack {
                lower: lower as u8,
                selective: &selective,
            }));
            return Some(from);
        }
        let skip = from.unwrap_or(1);
        let bits = self.receive.selective(skip, LONG_ACK_OCTETS);
        if !space.fits(EMPTY + 6 + 4 + bits.len()) {
            return None;
        }
        let next = (bits.len() == LONG_ACK_OCTETS).then_some(skip + 8 * LONG_ACK_OCTETS);
        self.owes_ack = next.is_some();
        space.put(Body::LongAck(LongAck {
            lower,
            first: lower.wrapping_add(skip as u16),
            selective: Segment::whole(&bits),
        }));
        Some(next)
    }

    /// Writes an acknowledgement of expedited frames, if one is due.
    pub(super) fn write_expedited_ack(&mut self, space: &mut Space<'_>) -> bool {
        if !self.expedited.owes_ack() {
            return false;
        }
        let Some((lower, selective)) = self.expedited.ack(SELECTIVE_OCTETS_MAX) else {
            return false;
        };
        if !space.fits(EMPTY + 1 + selective.len()) {
            return false;
        }
        self.expedited.forget_ack();
        space.put(Body::ExpeditedAck(Ack {
            lower,
            selective: &selective,
        }));
        true
    }

    /// Writes the next expedited frame.
    pub(super) fn write_expedited(&mut self, space: &mut Space<'_>, segment: usize) -> bool {
        let around = DATA_OVERHEAD + space.field();
        let (starts, ends) = (space.starts(), space.ends(around));
        let Some(room) = space.octets().checked_sub(around) else {
            return false;
        };
        let Some((c_pdu, data)) = self.expedited.next(room, segment, starts, ends) else {
            return false;
        };
        space.put(Body::ExpeditedData {
            start: data.start,
            end: data.end,
            c_pdu,
            number: data.number as u8,
            segment: data.segment,
        });
        true
    }

    /// Writes a frame.
    pub(super) fn write_frame(
        &mut self,
        space: &mut Space<'_>,
        long: bool,
        segment: usize,
        which: Frame,
    ) -> bool {
        let around = DATA_OVERHEAD + space.field() + usize::from(long);
        let (starts, ends) = (space.starts(), space.ends(around));
        let Some(room) = space.octets().checked_sub(around) else {
            return false;
        };
        let data = match which {
            Frame::Again => self.send.fill(room, ends),
            Frame::Next => self.send.next(room, segment, starts, ends),
        };
        let body = |data| match long {
            true => Body::LongData(data),
            false => Body::Data(data, None),
        };
        data.map(|data| space.put(body(data))).is_some()
    }

    /// Writes the next piece of data without ARQ.
    pub(super) fn write_plain(
        &mut self,
        space: &mut Space<'_>,
        segment_max: usize,
        identity: &mut Identity,
    ) -> bool {
        if let Some(mut late) = self.plain.take_if(|it| it.is_late(space.heard())) {
            self.plain_done = late.over(late.is_sent());
        }
        let Some(plain) = &mut self.plain else {
            return false;
        };
        let written = plain.write(space, segment_max, identity);
        if plain.is_over() {
            self.plain_done = plain.over(true);
            self.plain = None;
        }
        written
    }
}
