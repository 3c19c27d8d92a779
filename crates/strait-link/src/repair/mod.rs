//! What an octet stream loses, sent again: segments with numbers, and notes about them.
//!
//! The sender keeps each numbered segment until the receiver has said that it came.
//! All streams share one row of numbers. As a line keeps the order, whatever left before something
//! that came, and didn't come, was lost. The receiver hands on the segments of each stream in
//! order, and holds up no other stream. Notes tell what came: soon where something is
//! missing, else from time to time. When a sender has nothing more to send, it asks, so that the
//! last of a burst is missed as soon as any other.
//!
//! Segments have numbers only as long as the receiver sees errors.

mod errors;
mod row;
#[cfg(test)]
mod tests;
mod window;

use alloc::vec::Vec;

use strait_core::{Duration, Instant};
use strait_wire::repair::Note;

pub use self::row::RowCounts;
pub use self::window::{Done, Outcome, WindowCounts};

pub(crate) use self::row::{Arrived, Row};
pub(crate) use self::window::Window;

use self::errors::Errors;
use crate::hbh::RoundTrip;
use crate::{OctetSender, Receiver, Refused};

/// When repairs are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// While the line has errors.
    #[default]
    Errors,
    /// Always.
    Always,
}

/// What repairs count beside [`WindowCounts`] and [`RowCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoteCounts {
    /// Notes sent.
    pub sent: u64,
    /// Their octets, before framing.
    pub octets: u64,
}

/// A question that hasn't been answered.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// What the next transmission was when it left.
    order: u64,
    at: Instant,
    /// How long to wait for an answer.
    patience: Duration,
}

/// What is told of numbered segments, both ways, with one neighbour.
#[derive(Debug)]
pub struct Repairs {
    errors: Errors,
    now: Instant,
    /// The time that an octet takes.
    octet: Duration,
    /// The other end's segments may have numbers, and this end's.
    taken: bool,
    sent: bool,
    /// The other end wants numbers.
    wished: bool,
    /// The other end has to be told what is wanted.
    wish_due: bool,
    wish_told: Instant,
    /// A numbered segment has come since.
    heeded: bool,
    trip: RoundTrip,
    /// The number of the last question, 1 to 3.
    number: u8,
    question: Option<Question>,
    /// The question of the other end that is to be answered, or 0.
    answer: u8,
    /// Segments that no note has told of, and since when there are any.
    untold: u32,
    untold_since: Instant,
    /// Something is missing, or came again, that the other end has to know of.
    urgent: bool,
    told_at: Instant,
    /// Since when the first missing one is missing.
    gap_since: Option<(u8, Instant)>,
    counts: NoteCounts,
}

impl Repairs {
    /// Segments of which a note tells at the latest.
    const UNTOLD_MAX: u32 = 32;
    /// The least time in which notes go unasked.
    const PAUSE_LEAST: Duration = Duration::from_secs(1);
    /// As octets of the line's time: notes of 16 octets or so then take a fiftieth of it.
    const PAUSE_OCTETS: u32 = 800;
    /// The same while something is missing.
    const GAP_PAUSE_OCTETS: u32 = 200;
    /// Octets that may leave in both directions between a question and its answer: a piece each
    /// way, and both notes.
    const ROUND_OCTETS: u32 = 600;
    /// The longest time between two questions.
    const PATIENCE_MAX: Duration = Duration::from_secs(20);
    /// How long a missing segment is waited for at most, and as octets of the line's time. Its
    /// sender gives it up by the age of its packet's class; this is for one that doesn't say so.
    const HOLD_LEAST: Duration = Duration::from_secs(5);
    const HOLD_OCTETS: u32 = 6000;

    /// Nothing is known. `octet` is the time that one takes.
    pub fn new(when: When, octet: Duration) -> Self {
        Self {
            errors: Errors::new(when),
            now: Instant::ZERO,
            octet,
            taken: false,
            sent: false,
            wished: false,
            wish_due: false,
            wish_told: Instant::ZERO,
            heeded: false,
            trip: RoundTrip::default(),
            number: 0,
            question: None,
            answer: 0,
            untold: 0,
            untold_since: Instant::ZERO,
            urgent: false,
            told_at: Instant::ZERO,
            gap_since: None,
            counts: NoteCounts::default(),
        }
    }

    /// The line has another rate.
    pub const fn set_octet(&mut self, octet: Duration) {
        self.octet = octet;
    }

    /// What is agreed: whether the other end's segments may have numbers, and this end's.
    pub fn agree(&mut self, taken: bool, sent: bool) {
        self.wish_due |= taken && !self.taken && self.errors.are_on();
        (self.taken, self.sent) = (taken, sent);
    }

    /// Whether new packets' segments have numbers.
    pub const fn numbers(&self) -> bool {
        self.sent && self.wished
    }

    /// Whether this end wants the other's segments to have numbers.
    pub const fn wishes(&self) -> bool {
        self.errors.are_on()
    }

    /// What it has counted.
    pub const fn counts(&self) -> NoteCounts {
        self.counts
    }

    /// Either end began anew: numbers begin anew, both ways.
    pub fn restart(&mut self, sender: &mut OctetSender, receiver: &mut Receiver) {
        sender.window_mut().restart();
        receiver.restart_row();
        self.question = None;
        self.wished = false;
        (self.answer, self.untold, self.urgent) = (0, 0, false);
        self.gap_since = None;
        self.wish_due = self.taken && self.errors.are_on();
    }

    /// It is this time.
    pub const fn advance(&mut self, now: Instant) {
        self.now = now;
    }

    /// Octets came, of which a receiver has been told.
    pub fn came(&mut self, octets: usize, receiver: &mut Receiver) {
        self.errors.count(octets as u64);
        let arrivals = receiver.take_arrivals();
        if arrivals.segments == 0 {
            return;
        }
        if self.untold == 0 {
            self.untold_since = self.now;
        }
        self.untold = self.untold.saturating_add(arrivals.segments);
        self.urgent |= arrivals.urgent;
        self.heeded = true;
    }

    /// Some of them were refused. Says whether repairs should be agreed on, and aren't.
    pub fn refused(&mut self, why: Refused) -> bool {
        // What is incomplete follows from what was damaged.
        if !matches!(why, Refused::Damaged | Refused::Invalid) {
            return false;
        }
        self.errors.add();
        let again = !self.heeded && self.now >= self.wish_told + self.pause(Self::PAUSE_OCTETS);
        self.wish_due |= self.taken && self.errors.are_on() && again;
        self.errors.are_on() && !self.taken
    }

    /// The first missing segment isn't waited for any longer if it has been for too long.
    pub fn lose_patience(
        &mut self,
        receiver: &mut Receiver,
        tell: impl FnMut(Result<&[u8], Refused>),
    ) {
        let first = receiver.row().first_missing();
        let Some(first) = first else {
            self.gap_since = None;
            return;
        };
        let known = self.gap_since.filter(|(number, _)| *number == first);
        let (_, since) = *self.gap_since.insert(known.unwrap_or((first, self.now)));
        let hold = Self::HOLD_LEAST.max(self.octet * Self::HOLD_OCTETS);
        if self.now >= since + hold {
            self.gap_since = None;
            receiver.skip_first(tell);
        }
    }

    /// The time of so many octets, but a second at least.
    fn pause(&self, octets: u32) -> Duration {
        Self::PAUSE_LEAST.max(self.octet * octets)
    }

    /// When something is to be told of what came.
    fn tells_at(&self, receiver: &Receiver) -> Option<Instant> {
        if self.urgent || self.answer != 0 || self.untold >= Self::UNTOLD_MAX {
            return Some(Instant::ZERO);
        }
        let untold = self.untold_since + self.pause(Self::PAUSE_OCTETS);
        let untold = (self.untold > 0).then_some(untold);
        // What tells of something missing may have been lost.
        let gap = self.told_at + self.pause(Self::GAP_PAUSE_OCTETS);
        let gap = (self.untold > 0 && receiver.row().first_missing().is_some()).then_some(gap);
        untold.into_iter().chain(gap).min()
    }

    /// When a question is to be asked, whatever else there is to send.
    fn asks_at(&self, window: &Window) -> Option<Instant> {
        if !self.sent || !window.is_open() {
            return None;
        }
        match self.question {
            Some(question) => Some(question.at + question.patience),
            None => (window.skips() || !window.has_room()).then_some(Instant::ZERO),
        }
    }

    /// When a note is to go before anything else.
    fn due_at(&self, sender: &OctetSender, receiver: &Receiver) -> Option<Instant> {
        if !self.taken {
            return None;
        }
        let wish = self.wish_due.then_some(Instant::ZERO);
        let tells = self.tells_at(receiver);
        let asks = self.asks_at(sender.window());
        wish.into_iter().chain(tells).chain(asks).min()
    }

    /// Whether a note is to go before anything else.
    pub fn is_due(&self, sender: &OctetSender, receiver: &Receiver) -> bool {
        self.due_at(sender, receiver)
            .is_some_and(|at| at <= self.now)
    }

    /// Whether a question may go while nothing else is to be sent: what left last may be lost.
    pub fn may_ask(&self, sender: &OctetSender) -> bool {
        let window = sender.window();
        let asked = self
            .question
            .is_some_and(|question| question.order == window.order());
        self.sent && self.taken && window.is_open() && !asked
    }

    /// When a note becomes due by itself.
    pub fn wake(&self, sender: &OctetSender, receiver: &Receiver) -> Option<Instant> {
        self.due_at(sender, receiver).filter(|at| *at > self.now)
    }

    /// What the other end is to be told, if anything is due or may be asked.
    pub fn note(&mut self, sender: &OctetSender, receiver: &Receiver) -> Option<Vec<u8>> {
        let due = self.is_due(sender, receiver);
        if !due && !self.may_ask(sender) {
            return None;
        }
        let tells = self.tells_at(receiver).is_some();
        let asks = self.asks_at(sender.window());
        let asks = asks.is_some_and(|at| at <= self.now) || !due;
        let note = Note {
            wish: self.errors.are_on(),
            asks: if asks { self.ask(sender.window()) } else { 0 },
            answers: self.answer,
            sent: asks.then(|| sender.window().span()),
            came: tells.then(|| receiver.row().came()),
        };
        if tells {
            (self.untold, self.urgent, self.answer) = (0, false, 0);
            self.told_at = self.now;
        }
        if core::mem::take(&mut self.wish_due) {
            self.heeded = false;
        }
        self.wish_told = self.now;
        let mut octets = Vec::new();
        note.emit(&mut octets);
        self.counts.sent += 1;
        self.counts.octets += octets.len() as u64;
        Some(octets)
    }

    /// Asks a question; its number.
    fn ask(&mut self, window: &Window) -> u8 {
        let most = Self::PATIENCE_MAX.max(self.octet * Self::ROUND_OCTETS);
        let patience = match self.question {
            // The one before may have been lost, or the line is slower than was thought.
            Some(before) if self.now >= before.at + before.patience => before.patience * 2,
            _ => self.trip.overdue(self.octet * Self::ROUND_OCTETS),
        };
        self.number = self.number % 3 + 1;
        self.question = Some(Question {
            order: window.order(),
            at: self.now,
            patience: patience.min(most),
        });
        self.number
    }

    /// Reads a note. What it lets go on is told. Says whether it is one.
    pub fn hear(
        &mut self,
        note: &[u8],
        sender: &mut OctetSender,
        receiver: &mut Receiver,
        tell: impl FnMut(Result<&[u8], Refused>),
    ) -> bool {
        let Some(note) = Note::parse(note).filter(|_| self.taken) else {
            return false;
        };
        self.wished = note.wish;
        if note.asks != 0 {
            self.answer = note.asks;
        }
        if let Some(sent) = note.sent {
            receiver.told(sent, tell);
        }
        let answered = self
            .question
            .filter(|_| note.answers != 0 && note.answers == self.number);
        if let Some(question) = answered {
            self.trip.measure(self.now.since(question.at));
            self.question = None;
        }
        if let Some(came) = &note.came {
            let asked = answered.map(|question| question.order);
            sender.window_mut().hear(came, asked);
        }
        true
    }
}
