//! The contents of a transmission: each D_PDU is chosen when it is about to leave.

use super::context::Context;
use super::peer::Peer;
use super::transfer::Frame;
use super::transmission::{EMPTY, Space, Transmission};
use crate::c_pdu::CPdu;
use crate::d_pdu::{Body, NON_ARQ_OVERHEAD, NonArq, Segment};
use crate::eow::Eow;

/// An acknowledgement goes three times in a transmission that has room for it.
const ACKS_AGAIN: u8 = 2;

/// Octets on the air for a message that waited for another's turn: a packet of 1000 octets, and an
/// acknowledgement.
const MESSAGE_OCTETS: usize = 1100;

/// An acknowledgement alone.
const ANSWER_OCTETS: usize = 24;

/// Writes the next D_PDU of a transmission to a peer.
#[derive(Debug)]
pub(super) struct Writer<'a, T> {
    pub(super) on_air: Transmission,
    pub(super) peer: &'a mut Peer<T>,
    pub(super) cx: Context<'a, T>,
    pub(super) space: Space<'a>,
}

impl<T> Writer<'_, T> {
    /// Writes the available D_PDUs, the most urgent first; whether there were any.
    pub(super) fn write(&mut self) -> bool {
        let word = self.write_word();
        self.on_air.word |= word;
        word || self.write_data() || self.write_again()
    }

    /// D_PDUs without data: of the link, warnings, resets, acknowledgements.
    fn write_word(&mut self) -> bool {
        if self.write_says() {
            return true;
        }
        if !self.space.fits(EMPTY + 3) {
            return false;
        }
        if self.write_message() {
            return true;
        }
        if let Some(warning) = self.peer.take_warning() {
            self.cx.counts.warnings_out += 1;
            self.space.put(Body::Warning(warning));
            return true;
        }
        let linked = self.peer.calls.link().is_made();
        let transfer = &mut self.peer.transfer;
        if transfer.write_reset_answer(&mut self.space) {
            return true;
        }
        if linked && !self.on_air.wants_answer && transfer.write_reset(&mut self.space) {
            self.on_air.wants_answer = true;
            self.peer.contact.say(true);
            return true;
        }
        // With a message that isn't acknowledged nothing else goes, but with an answer the
        // acknowledgement that its question may be about.
        if self.peer.rate.is_talking() && !self.peer.rate.is_answering() {
            return false;
        }
        if transfer.write_expedited_ack(&mut self.space) {
            return true;
        }
        if !transfer.owes_ack() {
            return false;
        }
        self.on_air.acks_again = ACKS_AGAIN;
        self.write_ack()
    }

    /// The link message.
    fn write_says(&mut self) -> bool {
        let calls = &mut self.peer.calls;
        let octets = calls.link().says_octets();
        if !octets.is_some_and(|octets| self.space.fits(NON_ARQ_OVERHEAD + octets)) {
            return false;
        }
        let (starts, over) = (self.space.starts(), self.space.over());
        let c_pdu = self.cx.identity.number_c_pdu(true, starts, over);
        let Some(says) = calls.say() else {
            return false;
        };
        // A call with data stands ahead of all that it is for, and nowhere else.
        let again = !calls.link().calls_with_data();
        self.on_air.said = again.then_some((says, c_pdu));
        let asks = matches!(says, CPdu::Request { .. } | CPdu::Break(_));
        let asks = asks || calls.link().asks_caller();
        self.on_air.wants_answer |= asks;
        // The caller continues with its data, and isn't heard at once.
        self.on_air.answers |= matches!(says, CPdu::Accepted { .. } | CPdu::BreakConfirm);
        self.peer.contact.say(asks);
        self.put_control(says, c_pdu);
        true
    }

    fn put_control(&mut self, says: CPdu<'static>, c_pdu: u16) {
        let octets = says.octets();
        let piece = NonArq {
            expedited: true,
            c_pdu,
            in_order: false,
            group: false,
            size: octets.len() as u16,
            offset: 0,
            window: u16::from(self.space.eot()) + 1,
            segment: Segment::whole(&octets),
        };
        let order = match self.cx.ladder.capability() {
            0 if self.peer.calls.link().is_long() => self.turn_order().unwrap_or(0),
            capability => capability,
        };
        self.space.put_with(order, Body::NonArq(piece));
    }

    /// The rate message: it precedes all else.
    fn write_message(&mut self) -> bool {
        let rate = &mut self.peer.rate;
        if rate.octets(EMPTY + 2 + self.space.field()) > self.space.octets() {
            return false;
        }
        let Some(due) = rate.next() else {
            return false;
        };
        let message = due.message.as_ref();
        // A station that is answered may have more data.
        self.on_air.answers |= message.is_none();
        self.cx.counts.messages_out += u64::from(message.is_some());
        if message.is_some() || rate.is_changing() {
            self.on_air.wants_answer = true;
            self.peer.contact.say(true);
        }
        let more = message.map_or(&[][..], |message| &message.more);
        let body = Body::Management {
            extended: !more.is_empty(),
            valid: message.is_some(),
            ack: message.is_none(),
            frame: due.frame,
            message: more,
        };
        let eow = message.map_or(0, |message| message.eow.bits());
        self.space.put_with(eow, body);
        true
    }

    /// An acknowledgement, or the next part of a long one.
    fn write_ack(&mut self) -> bool {
        self.on_air.answers = true;
        let (long, from) = (self.peer.calls.link().is_long(), self.on_air.acked);
        let usual = self.space.order();
        if let Some(eow) = self.turn_order().filter(|_| long) {
            self.space.set_order(eow);
        }
        let next = self.peer.transfer.write_ack(&mut self.space, long, from);
        self.space.set_order(usual);
        self.on_air.acked = next.unwrap_or(from);
        next.is_some()
    }

    /// How long others' turns may be, for the order wire; every other turn, where it has something
    /// else to say, too.
    fn turn_order(&self) -> Option<u16> {
        let wait_max = self.cx.settings.wait_max?;
        if self.space.order() != 0 && self.cx.counts.turns.is_multiple_of(2) {
            return None;
        }
        let pace = self.cx.ladder.pace(self.peer.rate.place());
        let lasts = |octets| pace.time_of(pace.blocks_for(octets));
        let lasting = [MESSAGE_OCTETS, ANSWER_OCTETS].map(lasts);
        let most = self.cx.access.others_turn(wait_max, lasting);
        Some(Eow::turn(most).bits())
    }

    /// Client data, without ARQ first: it can't wait.
    fn write_data(&mut self) -> bool {
        let peer = &mut *self.peer;
        if peer.rate.is_talking() || self.on_air.is_brief() {
            return false;
        }
        peer.rate.note_used(self.on_air.place());
        let segment = peer.segment_octets(self.cx.ladder);
        // Expedited data goes alone: with it under way, no other data is to be sent.
        if peer.may_send() && peer.transfer.expedited.is_open() {
            let written = peer.transfer.write_expedited(&mut self.space, segment);
            return self.note_frame(written, true);
        }
        let identity = &mut *self.cx.identity;
        let written = peer
            .transfer
            .write_plain(&mut self.space, segment, identity);
        self.cx.collect(self.on_air.peer(), &mut peer.transfer);
        if written {
            self.on_air.plain = true;
            return true;
        }
        peer.may_send() && self.write_frame(Frame::Next)
    }

    fn write_frame(&mut self, which: Frame) -> bool {
        let peer = &mut *self.peer;
        let (long, segment) = (
            peer.calls.link().is_long(),
            peer.segment_octets(self.cx.ladder),
        );
        let transfer = &mut peer.transfer;
        let written = transfer.write_frame(&mut self.space, long, segment, which);
        self.note_frame(written, which == Frame::Next)
    }

    /// A frame was written, or wasn't. A station that gets the same again answers anyway.
    fn note_frame(&mut self, written: bool, new: bool) -> bool {
        if written {
            self.on_air.wants_answer |= new;
            self.peer.contact.say(true);
            self.peer.calls.touch(self.cx.now);
        }
        written
    }

    /// If there is room and nothing else to send, the same again: it costs nothing. Data about to
    /// arrive has the room first.
    fn write_again(&mut self) -> bool {
        if self.space.octets() < EMPTY + 40 || self.cx.now < self.on_air.again_from {
            return false;
        }
        if let Some((says, c_pdu)) = self.on_air.said.take() {
            self.put_control(says, c_pdu);
            return true;
        }
        if self.on_air.acks_again > 0 || self.on_air.acked.is_some() {
            self.on_air.acks_again -= u8::from(self.on_air.acked.is_none());
            let written = self.write_ack();
            self.peer.transfer.forget_ack();
            if written {
                return true;
            }
        }
        let peer = &*self.peer;
        let alone = peer.transfer.expedited.is_open() || peer.rate.is_talking();
        peer.may_send() && !alone && !self.on_air.is_brief() && self.write_frame(Frame::Again)
    }
}
