//! Expedited data transfer: one C_PDU after the other, each with numbers of its own (Annex C).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::Instant;

use super::{Done, Left, Numbering, Receiver, SHORT_WINDOW_MAX, Sender};
use crate::d_pdu::{Ack, Data};
use crate::quality::Quality;

/// Both ends of expedited data with one peer.
#[derive(Debug)]
pub(crate) struct Expedited<T> {
    waiting: VecDeque<(Vec<u8>, T)>,
    current: Option<Current<T>>,
    next: u8,
    segment_max: usize,
    /// The C_PDU that is being received, or was last.
    incoming: Option<Incoming>,
    /// The one before: a foreign frame may have been accepted as one of a new C_PDU.
    before: Option<Incoming>,
    /// Received frames haven't been acknowledged.
    owes_ack: bool,
    done: VecDeque<Done<T>>,
}

/// The C_PDU under way.
#[derive(Debug)]
struct Current<T> {
    /// Of 4 bits.
    number: u8,
    /// Without a ticket once it is given up.
    send: Sender<Option<T>>,
    /// It is given up. Its sent frames may still be acknowledged, and an acknowledgement doesn't
    /// say which C_PDU it is for: it continues, and no other begins, until the other end was heard.
    dead: bool,
    /// Receptions since the last answer ended: an acknowledgement, and a plausible one.
    heard: (bool, bool),
    /// Answers in a row that made none.
    senseless: u8,
}

/// Answers without sense after which a C_PDU is sent anew: one may be of another C_PDU.
const SENSELESS_MAX: u8 = 2;

impl<T> Current<T> {
    const fn new(number: u8, send: Sender<Option<T>>) -> Self {
        Self {
            number,
            send,
            dead: false,
            heard: (false, false),
            senseless: 0,
        }
    }
}

/// A C_PDU being received.
#[derive(Debug)]
struct Incoming {
    /// Of 4 bits.
    number: u8,
    receive: Receiver,
    /// The number of its last frame, once that has arrived.
    end: Option<u16>,
}

impl Incoming {
    const fn new(number: u8) -> Self {
        Self {
            number,
            receive: Receiver::new(NUMBERING),
            end: None,
        }
    }

    /// Takes a frame. One behind the last is foreign, and the acknowledgement would cover it like
    /// one that wasn't sent. Of two that claim to be the last, the repeated one is.
    fn take(&mut self, data: &Data<'_>) -> Option<Vec<u8>> {
        match self.end {
            Some(end) if data.end && data.number != end => {
                self.end = None;
                return None;
            }
            Some(end) if NUMBERING.ahead(end, data.number) < NUMBERING.window && !data.end => {
                return None;
            }
            None if data.end && self.receive.end_at(data.number) => self.end = Some(data.number),
            _ => {}
        }
        self.receive.take(data).ok()?;
        self.receive.poll()
    }

    /// All of it has arrived.
    fn is_whole(&self) -> bool {
        let past = self.end.map(|end| NUMBERING.add(end, 1));
        past == Some(self.receive.lower())
    }
}

const NUMBERING: Numbering = Numbering::short(SHORT_WINDOW_MAX);

impl<T> Expedited<T> {
    pub(crate) const fn new(segment_max: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            current: None,
            next: 0,
            segment_max,
            incoming: None,
            before: None,
            owes_ack: false,
            done: VecDeque::new(),
        }
    }

    /// Whether received frames haven't been acknowledged.
    pub(crate) const fn owes_ack(&self) -> bool {
        self.owes_ack
    }

    /// They are.
    pub(crate) const fn forget_ack(&mut self) {
        self.owes_ack = false;
    }

    /// C_PDUs without an outcome.
    pub(crate) fn held(&self) -> usize {
        let alive = self.current.as_ref().filter(|current| !current.dead);
        let current = alive.map_or(0, |current| current.send.held());
        self.waiting.len() + current + self.done.len()
    }

    pub(crate) fn offer(&mut self, c_pdu: Vec<u8>, ticket: T) {
        self.waiting.push_back((c_pdu, ticket));
        self.go_on();
    }

    /// Begins with the next C_PDU once nothing of the last is under way.
    fn go_on(&mut self) {
        if let Some(Current { send, .. }) = &mut self.current {
            while let Some(done) = send.poll() {
                self.done.extend(done.owned());
            }
            if send.held() > 0 {
                return;
            }
            self.current = None;
        }
        if let Some((c_pdu, ticket)) = self.waiting.pop_front() {
            let mut send = Sender::new(NUMBERING, self.segment_max);
            // As if in order: type 4 can't tell that frames are given up, so none is cut anew.
            send.offer(c_pdu, true, false, Some(ticket));
            self.current = Some(Current::new(self.next, send));
        }
    }

    /// Whether something is to be sent.
    pub(crate) fn has_more(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.send.has_more())
    }

    /// Whether another C_PDU may be offered.
    pub(crate) fn takes(&self) -> bool {
        self.waiting.is_empty() && self.current.as_ref().is_none_or(|current| current.dead)
    }

    /// Whether something was begun that isn't over.
    pub(crate) const fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// The longest segment that may go next, if new ones have about `segment` octets.
    pub(crate) fn longest(&self, segment: usize) -> usize {
        let current = self.current.as_ref();
        current.map_or(0, |current| current.send.longest(segment))
    }

    /// Octets of the data to be sent, in frames of `segment` octets with `around` for each.
    pub(crate) fn backlog(&self, segment: usize, around: usize) -> usize {
        let current = self.current.as_ref();
        current.map_or(0, |current| current.send.backlog(segment, around).0)
    }

    /// The next frame, and the number of its C_PDU.
    pub(crate) fn next(
        &mut self,
        room: usize,
        segment: usize,
        begins: Instant,
        ends: impl Fn(usize) -> Instant,
    ) -> Option<(u8, Data<'_>)> {
        let current = self.current.as_mut()?;
        let data = current.send.next(room, segment, begins, ends)?;
        // A number without a sent frame is used again: the other end considers the number of its
        // last C_PDU that one.
        self.next = (current.number + 1) % 16;
        Some((current.number, data))
    }

    /// Takes a frame; a number that isn't the last C_PDU's begins a new one. Gives a complete
    /// C_PDU.
    pub(crate) fn take(&mut self, c_pdu: u8, data: &Data<'_>) -> Option<Vec<u8>> {
        self.owes_ack = true;
        if self.incoming.as_ref().is_none_or(|it| it.number != c_pdu) {
            core::mem::swap(&mut self.incoming, &mut self.before);
            // A number that is used again begins anew.
            let is_it = |it: &mut Incoming| it.number == c_pdu && !it.is_whole();
            self.incoming.take_if(|it| !is_it(it));
        }
        let incoming = self.incoming.get_or_insert_with(|| Incoming::new(c_pdu));
        // Damaged frames have an answer, too. A frame out of any order belongs to another
        // incarnation.
        match data.segment.intact {
            true => incoming.take(data),
            false => None,
        }
    }

    /// The acknowledgement of received frames: the lower edge, and bits above it.
    pub(crate) fn ack(&self, octets_max: usize) -> Option<(u8, Vec<u8>)> {
        let receive = &self.incoming.as_ref()?.receive;
        Some((receive.lower() as u8, receive.selective(1, octets_max)))
    }

    /// The other end's acknowledgement.
    pub(crate) fn acknowledge(
        &mut self,
        ack: Ack<'_>,
        told: impl Fn(usize) -> Option<bool>,
        segment: usize,
        quality: &mut Quality,
    ) {
        if let Some(Current { send, heard, .. }) = &mut self.current {
            // A frame that wasn't sent is foreign. The acknowledgement of this end's own frames is
            // right nevertheless, and no reset would ever change it.
            let below = NUMBERING.ahead(send.lower(), u16::from(ack.lower)) as usize;
            let sent = send.under_way();
            let told = |above| {
                if below + above < sent {
                    told(above)
                } else {
                    Some(false)
                }
            };
            // Of another C_PDU, if it can't be of this one.
            let taken = send.acknowledge(u16::from(ack.lower), told, segment, quality);
            *heard = (true, heard.1 || taken.is_ok());
            self.go_on();
        }
    }

    /// The other end has acknowledged all it could. If its acknowledgements are implausible again
    /// and again, it has accepted foreign frames: under another number the C_PDU begins anew there.
    pub(crate) fn end_answer(&mut self) {
        if let Some(current) = self.current.as_mut().filter(|it| !it.dead) {
            match core::mem::take(&mut current.heard) {
                (true, true) => current.senseless = 0,
                (true, false) => current.senseless += 1,
                (false, _) => {}
            }
            if current.senseless >= SENSELESS_MAX {
                (current.senseless, current.number) = (0, self.next);
                current.send.restart(NUMBERING, Left::Untaken);
                return;
            }
        }
        match &mut self.current {
            Some(Current { send, dead, .. }) if *dead => send.abandon(),
            _ => return self.miss_answer(),
        }
        self.go_on();
    }

    /// Nothing was heard of the other end.
    pub(crate) fn miss_answer(&mut self) {
        if let Some(Current { send, .. }) = &mut self.current {
            send.end_answer();
        }
    }

    /// Gives up unacknowledged data whose tickets are `such`: data without a sent frame is removed,
    /// and the rest continues without an owner.
    pub(crate) fn give_up(&mut self, such: impl Fn(&T) -> bool) {
        let waiting = core::mem::take(&mut self.waiting).into_iter();
        let (over, waiting): (VecDeque<_>, _) = waiting.partition(|(_, ticket)| such(ticket));
        self.waiting = waiting;
        let over = over.into_iter().map(|(_, ticket)| Done::unsent(ticket));
        self.done.extend(over);
        if let Some(Current { send, dead, .. }) = &mut self.current
            && send.disown(such)
        {
            *dead = true;
            if send.under_way() == 0 {
                send.abandon();
            }
        }
        self.go_on();
    }

    /// The receiving end begins anew.
    pub(crate) fn forget_incoming(&mut self) {
        (self.incoming, self.before, self.owes_ack) = (None, None, false);
    }

    /// The other end took nothing from `since` on.
    pub(crate) fn not_taken(&mut self, since: Instant) {
        if let Some(Current { send, .. }) = &mut self.current {
            send.not_taken(since);
        }
    }

    /// The sending end begins anew: a C_PDU that had `left` completely is over if it may have
    /// arrived; the rest waits for a new link.
    pub(crate) fn restart(&mut self, left: Left) {
        match &mut self.current {
            Some(Current { send, dead, .. }) if *dead => send.abandon(),
            Some(Current { send, .. }) => send.restart(NUMBERING, left),
            None => {}
        }
        self.go_on();
    }

    /// Gives up all there is.
    pub(crate) fn abandon(&mut self) {
        self.forget_incoming();
        loop {
            self.go_on();
            let Some(Current { send, .. }) = &mut self.current else {
                break;
            };
            send.abandon();
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Done<T>> {
        self.done.pop_front()
    }
}
