//! One stream of a session: what goes, and what comes.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use crate::codec::{Ends, Item, Key};
use crate::flights::Said;
use crate::order::Mark;
use crate::ranges::Ranges;

/// What the far gateway is asked to open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Who wants whom.
    pub ends: Ends,
    /// The code point of the client's packets, which all of the stream's have.
    pub dscp: u8,
}

/// How far something is that the other gateway is to know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Word {
    /// There is nothing to tell.
    #[default]
    Nothing,
    /// It is to be told.
    Due,
    /// It is on its way.
    Sent,
    /// It is known.
    Known,
}

impl Word {
    /// What was on its way is lost.
    pub(crate) fn lose(&mut self) {
        if *self == Self::Sent {
            *self = Self::Due;
        }
    }

    /// What was on its way has arrived; what has changed meanwhile is to be told still.
    pub(crate) fn arrive(&mut self) {
        if *self == Self::Sent {
            *self = Self::Known;
        }
    }

    pub(crate) fn is_due(self) -> bool {
        self == Self::Due
    }
}

/// A piece of a stream on its way: its first octet and the one behind its last, and whether the end
/// follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) end: bool,
}

/// A stream's first octets are a question, whose answer is likely to lead to others, and so are
/// octets of which there are so few beside those of answers.
const QUESTION_OCTETS: u64 = 4096;
const QUESTION_PART: u64 = 16;

/// Memory that an empty buffer keeps at most.
const SPARE_OCTETS: usize = 4096;

/// Gives memory back that a buffer had when it was much fuller.
fn give_back(buffer: &mut VecDeque<u8>) {
    if buffer.capacity() > SPARE_OCTETS.max(4 * buffer.len()) {
        buffer.shrink_to(2 * buffer.len());
    }
}

/// The direction that goes.
#[derive(Debug, Default)]
pub(crate) struct Outbound {
    /// Octets from `base` on, until they are acknowledged.
    buffer: VecDeque<u8>,
    base: u64,
    /// The first octet that hasn't been sent.
    next: u64,
    /// What is to be sent again, and what arrived out of order.
    lost: Ranges,
    acked: Ranges,
    /// Octets before this place may be sent.
    pub(crate) limit: u64,
    ended: bool,
    end: Word,
}

impl Outbound {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Octets of it so far.
    pub(crate) fn written(&self) -> u64 {
        self.base + self.buffer.len() as u64
    }

    pub(crate) fn held(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Octets that haven't been sent yet, or are to be sent again.
    pub(crate) fn waiting(&self) -> u64 {
        self.written() - self.next + self.lost.sum()
    }

    /// Whether none of it has left.
    pub(crate) const fn is_untouched(&self) -> bool {
        self.next == 0
    }

    pub(crate) fn write(&mut self, octets: &[u8]) {
        debug_assert!(!self.ended, "nothing follows the end");
        self.buffer.extend(octets);
    }

    pub(crate) fn finish(&mut self) {
        if !self.ended {
            self.ended = true;
            self.end = Word::Due;
        }
    }

    /// Whether there is something to send, new octets only with `fresh`.
    pub(crate) fn wants(&self, fresh: bool) -> bool {
        let more = fresh && self.next < self.limit.min(self.written());
        let end = self.end.is_due() && self.next == self.written();
        more || end || !self.lost.is_empty()
    }

    /// Octets that may be sent, new ones only with `fresh`.
    pub(crate) fn ready(&self, fresh: bool) -> u64 {
        let more = self.limit.min(self.written()).saturating_sub(self.next);
        self.lost.sum() + if fresh { more } else { 0 }
    }

    /// Takes a piece of at most so many octets to send it; what was lost goes first.
    pub(crate) fn take(&mut self, octets_max: usize, fresh: bool) -> Option<(Piece, Vec<u8>)> {
        let (from, until) = match self.lost.first() {
            Some(range) => range,
            None if fresh => (self.next, self.limit.min(self.written()).max(self.next)),
            None => (self.next, self.next),
        };
        let to = until.min(from + octets_max as u64);
        let end = self.ended && to == self.written();
        if from == to && !(end && self.end.is_due()) {
            return None;
        }
        self.lost.remove(from, to);
        self.next = self.next.max(to);
        if end {
            self.end = Word::Sent;
        }
        let place = (from - self.base) as usize..(to - self.base) as usize;
        let octets = self.buffer.range(place).copied().collect();
        Some((Piece { from, to, end }, octets))
    }

    /// A piece has arrived; how many octets need no longer be held.
    pub(crate) fn arrive(&mut self, piece: Piece) -> u64 {
        if piece.end {
            self.end = Word::Known;
        }
        self.acked.insert(piece.from.max(self.base), piece.to);
        self.lost.remove(piece.from, piece.to);
        let Some((_, to)) = self.acked.first().filter(|(from, _)| *from <= self.base) else {
            return 0;
        };
        self.acked.pop_first();
        let freed = to - self.base;
        self.buffer.drain(..freed as usize);
        give_back(&mut self.buffer);
        self.base = to;
        freed
    }

    /// A piece is lost.
    pub(crate) fn lose(&mut self, piece: Piece) {
        if piece.end {
            self.lose_end();
        }
        self.lost.insert(piece.from.max(self.base), piece.to);
        for (from, to) in self.acked.iter() {
            self.lost.remove(from, to);
        }
    }

    /// If its end is on its way, it is lost.
    pub(crate) fn lose_end(&mut self) {
        self.end.lose();
    }

    /// All of it has arrived, the end too.
    pub(crate) fn is_done(&self) -> bool {
        self.end == Word::Known && self.buffer.is_empty()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The direction that comes.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    /// Octets from `read` on; those of gaps are 0.
    buffer: VecDeque<u8>,
    read: u64,
    have: Ranges,
    held: u64,
    end: Option<u64>,
    end_read: bool,
    /// The other side may send octets before this place.
    pub(crate) limit: u64,
    pub(crate) credit: Word,
}

impl Inbound {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Takes octets in; how many of them are new. `None` if they lie where none may.
    pub(crate) fn take(&mut self, offset: u64, octets: &[u8], end: bool) -> Option<u64> {
        let to = offset.checked_add(octets.len() as u64)?;
        let after = self.end.is_some_and(|end| to > end);
        let wrong_end = end && (self.end.is_some_and(|end| to != end) || to < self.highest());
        if to > self.limit || after || wrong_end {
            return None;
        }
        if end {
            self.end = Some(to);
        }
        let from = offset.max(self.read);
        if from >= to {
            return Some(0);
        }
        let behind = (to - self.read) as usize;
        if self.buffer.len() < behind {
            self.buffer.resize(behind, 0);
        }
        let before = self.have.count(from, to);
        let place = (from - self.read) as usize..behind;
        let new = &octets[(from - offset) as usize..];
        for (place, octet) in self.buffer.range_mut(place).zip(new) {
            *place = *octet;
        }
        self.have.insert(from, to);
        let fresh = to - from - before;
        self.held += fresh;
        Some(fresh)
    }

    /// Nothing of it has come.
    pub(crate) fn is_untouched(&self) -> bool {
        self.highest() == 0
    }

    fn highest(&self) -> u64 {
        self.have.last().map_or(self.read, |(_, to)| to)
    }

    pub(crate) const fn held(&self) -> u64 {
        self.held
    }

    /// Octets that can be read.
    pub(crate) fn ready(&self) -> usize {
        let first = self.have.first().filter(|(from, _)| *from == self.read);
        first.map_or(0, |(from, to)| (to - from) as usize)
    }

    pub(crate) fn read(&mut self, octets_max: usize) -> Vec<u8> {
        let count = self.ready().min(octets_max);
        let octets: Vec<u8> = self.buffer.drain(..count).collect();
        give_back(&mut self.buffer);
        self.have.remove(self.read, self.read + count as u64);
        self.read += count as u64;
        self.held -= count as u64;
        octets
    }

    /// Whether all has been read, and takes note that the end has been, too.
    pub(crate) fn read_end(&mut self) -> bool {
        self.end_read |= self.end == Some(self.read);
        self.end_read
    }

    /// Octets that the other side may still send, or that are here.
    pub(crate) const fn granted(&self) -> u64 {
        self.limit - self.read
    }

    pub(crate) const fn has_end(&self) -> bool {
        self.end.is_some()
    }

    fn clear(&mut self) {
        let (read, limit) = (self.read, self.limit);
        *self = Self {
            read,
            limit,
            ..Self::default()
        };
    }
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) open: Open,
    /// Ours: that it is to be opened. Theirs: that it is.
    pub(crate) opening: Word,
    /// Its connection is there.
    pub(crate) accepted: bool,
    /// It is no more, for this reason, which the other side may have to be told.
    pub(crate) reset: Option<u16>,
    pub(crate) resetting: Word,
    pub(crate) outbound: Outbound,
    pub(crate) inbound: Inbound,
    /// Octets that were sent of it, and when it last had a turn or began to want one.
    pub(crate) attained: u64,
    /// When the first of these came.
    pub(crate) began: Instant,
    pub(crate) served: Instant,
    /// When the other side asked for something last, and whether that has no answer yet.
    pub(crate) question: Option<Instant>,
    pub(crate) unanswered: bool,
    /// Where it stands in the order, once it does.
    pub(crate) mark: Option<Mark>,
}

impl Stream {
    pub(crate) fn new(now: Instant, open: Open, credit: u64) -> Self {
        Self {
            open,
            opening: Word::Nothing,
            accepted: false,
            reset: None,
            resetting: Word::Nothing,
            outbound: Outbound::new(credit),
            inbound: Inbound::new(credit),
            attained: 0,
            began: now,
            served: now,
            question: None,
            unanswered: false,
            mark: None,
        }
    }

    /// Octets of it that are here.
    pub(crate) fn held(&self) -> u64 {
        self.outbound.held() + self.inbound.held()
    }

    /// Whether what comes of it is likely to be a question: its first octets, or next to nothing
    /// beside what goes.
    pub(crate) fn is_asked_by(&self, offset: u64) -> bool {
        offset < QUESTION_OCTETS.max(self.outbound.written() / QUESTION_PART)
    }

    /// Whether it was asked something so short a time ago.
    pub(crate) fn answers(&self, now: Instant, lately: Duration) -> bool {
        self.question.is_some_and(|at| now < at + lately)
    }

    /// Whether it has anything to say but octets.
    pub(crate) fn has_word(&self) -> bool {
        self.resetting.is_due() || self.opening.is_due() || self.inbound.credit.is_due()
    }

    /// The next thing that it has to say beside octets, which is on its way then.
    pub(crate) fn say_word(&mut self, key: Key) -> Option<(Item<'static>, Said)> {
        let reset = self.reset.filter(|_| self.resetting.is_due());
        let (item, word, said) = if let Some(error) = reset {
            let item = Item::Reset { key, error };
            (item, &mut self.resetting, Said::Reset(key))
        } else if self.opening.is_due() && key.ours {
            let Open { ends, dscp } = self.open;
            let item = Item::Open {
                n: key.n,
                dscp,
                ends,
            };
            (item, &mut self.opening, Said::Open(key))
        } else if self.opening.is_due() {
            let item = Item::Accept { n: key.n };
            (item, &mut self.opening, Said::Accept(key))
        } else if self.inbound.credit.is_due() {
            let limit = self.inbound.limit;
            let item = Item::Credit { key, limit };
            (item, &mut self.inbound.credit, Said::Credit(key, limit))
        } else {
            return None;
        };
        *word = Word::Sent;
        Some((item, said))
    }

    /// Ends it; what it holds is lost.
    pub(crate) fn end(&mut self, error: u16, tell: bool) {
        self.reset = Some(error);
        self.resetting = if tell { Word::Due } else { Word::Known };
        self.opening = Word::Nothing;
        self.unanswered = false;
        self.outbound.clear();
        self.inbound.clear();
    }

    /// Nothing of it concerns anybody any more.
    pub(crate) fn is_over(&self) -> bool {
        match self.reset {
            Some(_) => self.resetting == Word::Known,
            None => self.outbound.is_done() && self.inbound.end_read,
        }
    }
}
