//! The streams of a session, and the books about them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use strait_core::stream_ledger::{ResetCause, StreamLedger};
use strait_core::{Duration, Instant};

use crate::codec::{HEADER_OCTETS_MAX, ITEM_OCTETS_MAX, Key, write_item};
use crate::flights::Said;
use crate::stream::{Stream, Word};

/// What may come of a stream before anybody says a word, and when too much of others waits.
pub(crate) const FIRST_CREDIT: u64 = 16 * 1024;

/// Of what is left for all, the part that one stream may have of each direction. A stream that has
/// much stops before others, and something is left for those that begin.
const SHARE_OUT: u64 = 2;
const SHARE_IN: u64 = 8;
/// What a stream may have to send, however much others have.
pub(crate) const LEAST_OUT_OCTETS: u64 = 1024;

/// A stream that had fewer octets may be a short one, and one that had so few has as good as none.
const SHORT_OCTETS: u64 = 16 * 1024;
const LEAST_OCTETS: u64 = 1024;
/// What began so far apart didn't begin together.
const EPOCH: Duration = Duration::from_secs(10);

/// How long after a question its answer may begin, and pauses in which it goes on; and how long
/// one waits for both at most. What comes later has to wait for another turn.
const ANSWER: Duration = Duration::from_millis(300);
const ANSWER_PAUSE: Duration = Duration::from_millis(30);
pub(crate) const ANSWERS: Duration = Duration::from_millis(500);

/// All streams of a session.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) all: BTreeMap<Key, Stream>,
    /// Of these, how many we opened.
    ours: usize,
    /// Octets that may come, of all of them.
    granted: u64,
    /// Octets of all of them that go, until they have arrived.
    leaving: u64,
    books: StreamLedger,
    /// How often one was stopped, as others have too much.
    starved: u64,
    /// When octets of an answer came last whose question had just come.
    filled: Instant,
}

impl Table {
    pub(crate) const fn books(&self) -> &StreamLedger {
        &self.books
    }

    pub(crate) const fn starved(&self) -> u64 {
        self.starved
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many one side opened.
    pub(crate) fn count(&self, ours: bool) -> usize {
        if ours {
            self.ours
        } else {
            self.all.len() - self.ours
        }
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.all.keys().copied().collect()
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Stream> {
        self.all.get(&key)
    }

    pub(crate) fn stream_mut(&mut self, key: Key) -> Option<&mut Stream> {
        self.all.get_mut(&key)
    }

    /// One that hasn't been reset.
    pub(crate) fn live(&mut self, key: Key) -> Option<&mut Stream> {
        self.stream_mut(key).filter(|it| it.reset.is_none())
    }

    /// Those that one side opened.
    pub(crate) fn of(&self, ours: bool) -> impl Iterator<Item = (&Key, &Stream)> {
        self.all.iter().filter(move |(key, _)| key.ours == ours)
    }

    pub(crate) fn add(&mut self, key: Key, stream: Stream) {
        self.books.opened += 1;
        self.granted += stream.inbound.granted();
        self.ours += usize::from(key.ours);
        self.all.insert(key, stream);
    }

    /// One that is over as it begins: the other side is told why.
    pub(crate) fn add_refused(&mut self, key: Key, mut stream: Stream, error: u16) {
        stream.end(error, true);
        self.all.insert(key, stream);
    }

    /// A stream has its connection; false if that was known, or it is over.
    pub(crate) fn accept(&mut self, key: Key) -> bool {
        let Some(stream) = self.live(key).filter(|it| !it.accepted) else {
            return false;
        };
        stream.accepted = true;
        if !key.ours {
            stream.opening = Word::Due;
        }
        if stream.inbound.is_untouched() {
            stream.unanswered = false;
        }
        true
    }

    pub(crate) fn write(&mut self, now: Instant, key: Key, octets: &[u8]) {
        let Some(stream) = self.live(key) else {
            return;
        };
        if !stream.outbound.wants(true) {
            stream.served = now;
        }
        if stream.outbound.held() == 0 {
            // What has arrived is another exchange: the next object of a page needn't wait for it.
            (stream.attained, stream.began) = (0, now);
        }
        stream.unanswered = false;
        let answers = stream.answers(now, ANSWERS);
        stream.outbound.write(octets);
        if answers {
            self.filled = now;
        }
        self.leaving += octets.len() as u64;
        self.books.taken += octets.len() as u64;
    }

    pub(crate) fn read(&mut self, key: Key, octets_max: usize) -> Vec<u8> {
        let Some(stream) = self.all.get_mut(&key) else {
            return Vec::new();
        };
        let octets = stream.inbound.read(octets_max);
        self.granted -= octets.len() as u64;
        self.books.delivered += octets.len() as u64;
        octets
    }

    /// Octets came; false if they lie where none may.
    pub(crate) fn take(&mut self, key: Key, offset: u64, octets: &[u8], end: bool) -> bool {
        let Some(stream) = self.live(key) else {
            return true;
        };
        let fresh = stream.inbound.take(offset, octets, end);
        self.books.taken += fresh.unwrap_or_default();
        fresh.is_some()
    }

    /// Octets that a stream takes now, if `hold` may wait of it and `octets_max` be held of all.
    pub(crate) fn room(&mut self, key: Key, hold: u64, octets_max: u64) -> u64 {
        let share = octets_max.saturating_sub(self.leaving) / SHARE_OUT;
        let Some(stream) = self.all.get(&key).filter(|it| it.reset.is_none()) else {
            return 0;
        };
        let most = share.max(LEAST_OUT_OCTETS);
        let shared = most.saturating_sub(stream.outbound.held());
        let own = hold.saturating_sub(stream.outbound.waiting());
        self.starved += u64::from(shared == 0 && own > 0);
        own.min(shared)
    }

    /// Lets more of a stream come, if much may come and little does. However much others have, it
    /// is never without: nobody would ask again for who waits.
    pub(crate) fn extend(&mut self, key: Key, window: u64, octets_max: u64) {
        let stream = self.all.get_mut(&key);
        let Some(stream) = stream.filter(|it| it.reset.is_none()) else {
            return;
        };
        let inbound = &mut stream.inbound;
        let others = self.granted - inbound.granted();
        let share = (octets_max.saturating_sub(others) / SHARE_IN).max(FIRST_CREDIT);
        let tight = share < window && share == FIRST_CREDIT;
        let window = window.min(share);
        let more = window.saturating_sub(inbound.granted());
        if more * 4 < window || inbound.has_end() {
            return;
        }
        self.starved += u64::from(tight);
        inbound.limit += more;
        inbound.credit = Word::Due;
        self.granted += more;
    }

    /// The stream of a code point whose octets go next: the one that had least, before it one that
    /// has waited too long.
    pub(crate) fn next(&self, now: Instant, dscp: u8, fresh: bool, wait: Duration) -> Option<Key> {
        let streams = self.all.iter().filter(|(_, it)| {
            // Nobody takes octets of what he hasn't heard of.
            let told = !it.opening.is_due();
            it.open.dscp == dscp && told && it.outbound.wants(fresh)
        });
        let rank = |stream: &Stream| {
            let starves = now.since(stream.served) >= wait;
            // Of those that had about as little those that have just begun: a page goes before
            // transfers that began a while ago and had not much yet.
            let (level, epoch) = match stream.attained {
                _ if starves => (0, 0),
                attained @ ..SHORT_OCTETS => {
                    let level = attained.max(LEAST_OCTETS).ilog2();
                    (
                        level.into(),
                        stream.began.as_nanos() / EPOCH.as_nanos() as u64,
                    )
                }
                attained => (attained, 0),
            };
            let attained = if starves { 0 } else { stream.attained };
            (!starves, level, Reverse(epoch), attained, stream.served)
        };
        streams.min_by_key(|(_, it)| rank(it)).map(|(key, _)| *key)
    }

    /// Octets that streams have to send, new ones only with `fresh`.
    pub(crate) fn ready(&self, fresh: bool) -> u64 {
        self.all.values().map(|it| it.outbound.ready(fresh)).sum()
    }

    /// The same of those that were asked something so short a time ago.
    pub(crate) fn answers(&self, now: Instant, lately: Duration) -> u64 {
        let answers = self.all.values().filter(|it| it.answers(now, lately));
        answers.map(|it| it.outbound.ready(true)).sum()
    }

    /// Until when answers may begin to come, or go on.
    pub(crate) fn settles(&self) -> Instant {
        let unanswered = self.all.values().filter(|it| it.unanswered);
        let last = unanswered.filter_map(|it| it.question).max();
        let begins = last.map_or(Instant::ZERO, |at| at + ANSWER);
        begins.max(self.filled + ANSWER_PAUSE)
    }

    /// The code points of streams that have something to say, new octets only with `fresh`.
    pub(crate) fn wanting(&self, fresh: bool) -> impl Iterator<Item = u8> {
        let streams = self.all.values();
        let streams = streams.filter(move |it| it.has_word() || it.outbound.wants(fresh));
        streams.map(|it| it.open.dscp)
    }

    /// Says what streams of a code point have to say beside octets.
    pub(crate) fn say_words(
        &mut self,
        dscp: u8,
        room: usize,
        body: &mut Vec<u8>,
        said: &mut Vec<Said>,
    ) {
        let streams = self.all.iter_mut().filter(|(_, it)| it.open.dscp == dscp);
        for (key, stream) in streams {
            while stream.has_word() && body.len() + HEADER_OCTETS_MAX + ITEM_OCTETS_MAX <= room {
                let Some((item, what)) = stream.say_word(*key) else {
                    break;
                };
                write_item(&item, body);
                said.push(what);
            }
        }
    }

    /// Something is known to the other side; the stream that has room for more by that.
    pub(crate) fn arrive(&mut self, said: Said) -> Option<Key> {
        let key = said.key();
        let stream = self.all.get_mut(&key)?;
        let mut ready = None;
        match said {
            Said::Open(_) | Said::Accept(_) => stream.opening.arrive(),
            Said::Credit(_, limit) if limit == stream.inbound.limit => {
                stream.inbound.credit.arrive();
            }
            Said::Reset(_) => stream.resetting.arrive(),
            Said::Data(_, piece) if stream.reset.is_none() => {
                let freed = stream.outbound.arrive(piece);
                self.leaving -= freed;
                self.books.delivered += freed;
                ready = Some(key);
            }
            Said::Data(..) | Said::Credit(..) => {}
        }
        self.forget(key);
        ready
    }

    /// What is lost is to be said again.
    pub(crate) fn lose(&mut self, said: Said) {
        let Some(stream) = self.all.get_mut(&said.key()) else {
            return;
        };
        match said {
            Said::Open(_) | Said::Accept(_) => stream.opening.lose(),
            Said::Credit(_, limit) if limit == stream.inbound.limit => {
                stream.inbound.credit.lose();
            }
            Said::Reset(_) => stream.resetting.lose(),
            Said::Data(_, piece) if stream.reset.is_none() => stream.outbound.lose(piece),
            Said::Data(..) | Said::Credit(..) => {}
        }
    }

    /// Ends a stream; false if it had ended.
    pub(crate) fn end(&mut self, key: Key, error: u16, cause: ResetCause, tell: bool) -> bool {
        let Some(stream) = self.all.get_mut(&key) else {
            return false;
        };
        if stream.reset.is_some() {
            // Both ended it: nobody waits to be told.
            if !tell {
                stream.resetting = Word::Known;
            }
            return false;
        }
        self.books.reset(cause, stream.held());
        self.granted -= stream.inbound.granted();
        self.leaving -= stream.outbound.held();
        stream.end(error, tell);
        true
    }

    /// Forgets a stream of which nothing is left.
    pub(crate) fn forget(&mut self, key: Key) {
        let Some(stream) = self.all.get(&key).filter(|it| it.is_over()) else {
            return;
        };
        if stream.reset.is_none() {
            self.books.ended += 1;
            self.granted -= stream.inbound.granted();
        }
        self.all.remove(&key);
        self.ours -= usize::from(key.ours);
    }

    /// Asserts that each octet taken is delivered, held or lost by a reset, and that limits hold.
    pub(crate) fn check(&self) {
        let held = self.all.values().map(Stream::held).sum();
        let open = self.all.values().filter(|it| it.reset.is_none());
        let granted: u64 = open.clone().map(|it| it.inbound.granted()).sum();
        let ours = self.of(true).count();
        assert_eq!(ours, self.ours, "streams aren't as many as were opened");
        let leaving: u64 = open.clone().map(|it| it.outbound.held()).sum();
        let books = &self.books;
        let right = books.balanced(open.count() as u64, held);
        assert!(right, "octets are lost, or twice: {books:?}, {held} held");
        assert_eq!(granted, self.granted, "credit isn't what was given");
        assert_eq!(leaving, self.leaving, "what goes isn't what was written");
    }
}
