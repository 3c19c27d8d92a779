//! Expedited data transfer: one C_PDU after the other, each with numbers of its own (Annex C).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::Instant;

use super::{Done, Numbering, Receiver, SHORT_WINDOW_MAX, Sender};
use crate::d_pdu::{Ack, Data};
use crate::quality::Quality;

/// Both ends of expedited data with one peer.
#[derive(Debug)]
pub(crate) struct Expedited<T> {
    waiting: VecDeque<(Vec<u8>, T)>,
    /// The C_PDU under way, with its number of 4 bits.
    current: Option<(u8, Sender<T>)>,
    next: u8,
    segment_max: usize,
    /// The C_PDU that comes, or came last.
    incoming: Option<(u8, Receiver)>,
    /// Frames came that haven't been acknowledged.
    pub(crate) owes_ack: bool,
    done: VecDeque<Done<T>>,
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
            owes_ack: false,
            done: VecDeque::new(),
        }
    }

    /// C_PDUs without an outcome.
    pub(crate) fn held(&self) -> usize {
        let current = self.current.as_ref().map_or(0, |(_, send)| send.held());
        self.waiting.len() + current + self.done.len()
    }

    pub(crate) fn offer(&mut self, c_pdu: Vec<u8>, ticket: T) {
        self.waiting.push_back((c_pdu, ticket));
        self.go_on();
    }

    /// Begins with the next C_PDU once nothing of the last is under way.
    fn go_on(&mut self) {
        if let Some((_, send)) = &mut self.current {
            while let Some(done) = send.poll() {
                self.done.push_back(done);
            }
            if send.held() > 0 {
                return;
            }
            self.current = None;
        }
        if let Some((c_pdu, ticket)) = self.waiting.pop_front() {
            let mut send = Sender::new(NUMBERING, self.segment_max);
            // As if in order: type 4 can't tell that frames are given up, so none is cut anew.
            send.offer(c_pdu, true, false, ticket);
            self.current = Some((self.next, send));
            self.next = (self.next + 1) % 16;
        }
    }

    /// Whether something is to be sent.
    pub(crate) fn has_more(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|(_, send)| send.has_more())
    }

    /// Whether something was begun that isn't over.
    pub(crate) const fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// The longest segment that may go next, if new ones have about `segment` octets.
    pub(crate) fn longest(&self, segment: usize) -> usize {
        let current = self.current.as_ref();
        current.map_or(0, |(_, send)| send.longest(segment))
    }

    /// Octets of what is to be sent, in frames of `segment` octets with `around` for each.
    pub(crate) fn backlog(&self, segment: usize, around: usize) -> usize {
        let current = self.current.as_ref();
        current.map_or(0, |(_, send)| send.backlog(segment, around).0)
    }

    /// The next frame, and the number of its C_PDU.
    pub(crate) fn next(
        &mut self,
        room: usize,
        segment: usize,
        begins: Instant,
        ends: impl Fn(usize) -> Instant,
    ) -> Option<(u8, Data<'_>)> {
        let (number, send) = self.current.as_mut()?;
        let data = send.next(room, segment, begins, ends)?;
        Some((*number, data))
    }

    /// Takes a frame; a number that isn't the last C_PDU's begins a new one. Gives what is whole.
    pub(crate) fn take(&mut self, c_pdu: u8, data: &Data<'_>) -> Option<Vec<u8>> {
        self.owes_ack = true;
        let receive = match &mut self.incoming {
            Some((number, receive)) if *number == c_pdu => receive,
            incoming => {
                let (_, receive) = incoming.insert((c_pdu, Receiver::new(NUMBERING)));
                receive
            }
        };
        // What is damaged has an answer, too. A frame out of order of all is one of another life.
        if !data.segment.intact {
            return None;
        }
        receive.take(data).ok()?;
        receive.poll()
    }

    /// What is to be said of frames that came: the lower edge, and bits above it.
    pub(crate) fn ack(&self, octets_max: usize) -> Option<(u8, Vec<u8>)> {
        let (_, receive) = self.incoming.as_ref()?;
        Some((receive.lower() as u8, receive.selective(1, octets_max)))
    }

    /// The other end tells what came.
    pub(crate) fn acknowledge(
        &mut self,
        ack: Ack<'_>,
        told: impl Fn(usize) -> Option<bool>,
        segment: usize,
        quality: &mut Quality,
    ) {
        if let Some((_, send)) = &mut self.current {
            // Of another C_PDU, if it can't be of this one.
            let _ = send.acknowledge(u16::from(ack.lower), told, segment, quality);
            self.go_on();
        }
    }

    /// The other end has told all it had to tell, or nothing was heard of it.
    pub(crate) fn end_answer(&mut self) {
        if let Some((_, send)) = &mut self.current {
            send.end_answer();
        }
    }

    /// The receiving end begins anew.
    pub(crate) fn forget_incoming(&mut self) {
        (self.incoming, self.owes_ack) = (None, false);
    }

    /// The sending end begins anew: what had left whole may have come, and is over, unless it is
    /// known that nothing `arrived`; the rest waits for a new link.
    pub(crate) fn restart(&mut self, arrived: bool) {
        if let Some((_, send)) = &mut self.current {
            send.restart(NUMBERING, arrived);
            self.go_on();
        }
    }

    /// Gives up all there is.
    pub(crate) fn abandon(&mut self) {
        self.forget_incoming();
        loop {
            self.go_on();
            let Some((_, send)) = &mut self.current else {
                break;
            };
            send.abandon();
        }
    }

    pub(crate) fn poll(&mut self) -> Option<Done<T>> {
        self.done.pop_front()
    }
}
