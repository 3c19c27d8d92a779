//! The streams of a session, and the books about them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use strait_core::stream_ledger::{ResetCause, StreamLedger};
use strait_core::{Duration, Instant};

use crate::codec::{HEADER_OCTETS_MAX, ITEM_OCTETS_MAX, Key, write_item};
use crate::flights::Said;
use crate::order::{Mark, Order};
use crate::stream::{Stream, Word};

/// What may come of a stream before anybody says a word, and when too much of others waits.
pub(crate) const FIRST_CREDIT: u64 = 16 * 1024;

/// Of what is left for all, the part that one stream may have of each direction. A stream that has
/// much stops before others, and something is left for those that begin.
const SHARE_OUT: u64 = 2;
const SHARE_IN: u64 = 8;
/// What a stream may have to send, however much others have.
pub(crate) const LEAST_OUT_OCTETS: u64 = 1024;

/// How long after a question its answer may begin, and pauses in which it goes on; and how long
/// one waits for both at most. What comes later has to wait for another turn.
const ANSWER: Duration = Duration::from_millis(300);
const ANSWER_PAUSE: Duration = Duration::from_millis(30);
pub(crate) const ANSWERS: Duration = Duration::from_millis(500);

/// All streams of a session.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) all: BTreeMap<Key, Stream>,
    order: Order,
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

    /// Changes a stream, which has another place in the order then.
    pub(crate) fn change<T>(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut Stream) -> T,
    ) -> Option<T> {
        let stream = self.all.get_mut(&key)?;
        let changed = change(stream);
        let mark = Mark::of(key, stream);
        if let Some(before) = stream.mark.replace(mark).filter(|it| *it != mark) {
            self.order.remove(key, &before);
            self.order.add(key, &mark);
        }
        Some(changed)
    }

    /// The same with one that hasn't been reset.
    pub(crate) fn change_live<T>(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut Stream) -> T,
    ) -> Option<T> {
        let live = self.is_live(key);
        live.then(|| self.change(key, change)).flatten()
    }

    pub(crate) fn is_live(&self, key: Key) -> bool {
        self.get(key).is_some_and(|it| it.reset.is_none())
    }

    /// The lowest of those that we opened.
    pub(crate) fn first(&self) -> Option<Key> {
        let ours = Key { ours: true, n: 0 };
        self.all.range(ours..).next().map(|(key, _)| *key)
    }

    /// Streams of the other side's that have no connection yet.
    pub(crate) const fn half_open(&self) -> usize {
        self.order.half_open()
    }

    pub(crate) fn add(&mut self, key: Key, stream: Stream) {
        self.books.opened += 1;
        self.granted += stream.inbound.granted();
        self.insert(key, stream);
    }

    fn insert(&mut self, key: Key, mut stream: Stream) {
        let mark = Mark::of(key, &stream);
        stream.mark = Some(mark);
        self.order.add(key, &mark);
        self.ours += usize::from(key.ours);
        self.all.insert(key, stream);
    }

    /// One that is over as it begins: the other side is told why.
    pub(crate) fn add_refused(&mut self, key: Key, mut stream: Stream, error: u16) {
        stream.end(error, true);
        self.insert(key, stream);
    }

    /// A stream has its connection; false if that was known, or it is over.
    pub(crate) fn accept(&mut self, key: Key) -> bool {
        let accepted = self.change_live(key, |stream| {
            if !stream.accepted {
                if !key.ours {
                    stream.opening = Word::Due;
                }
                if stream.inbound.is_untouched() {
                    stream.unanswered = false;
                }
            }
            !core::mem::replace(&mut stream.accepted, true)
        });
        accepted == Some(true)
    }

    pub(crate) fn write(&mut self, now: Instant, key: Key, octets: &[u8]) {
        let written = self.change_live(key, |stream| {
            if !stream.outbound.wants(true) {
                stream.served = now;
            }
            if stream.outbound.held() == 0 {
                // What has arrived is another exchange: the next object of a page needn't wait
                // for it.
                (stream.attained, stream.began) = (0, now);
            }
            stream.unanswered = false;
            let answers = stream.answers(now, ANSWERS);
            stream.outbound.write(octets);
            answers
        });
        let Some(answers) = written else { return };
        if answers {
            self.filled = now;
        }
        self.leaving += octets.len() as u64;
        self.books.taken += octets.len() as u64;
    }

    pub(crate) fn read(&mut self, key: Key, octets_max: usize) -> Vec<u8> {
        let octets = self.change(key, |stream| stream.inbound.read(octets_max));
        let octets = octets.unwrap_or_default();
        self.granted -= octets.len() as u64;
        self.books.delivered += octets.len() as u64;
        octets
    }

    /// Octets came; false if they lie where none may.
    pub(crate) fn take(&mut self, key: Key, offset: u64, octets: &[u8], end: bool) -> bool {
        let fresh = self.change_live(key, |stream| stream.inbound.take(offset, octets, end));
        let Some(fresh) = fresh else {
            return true;
        };
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
        let Some(stream) = self.all.get(&key).filter(|it| it.reset.is_none()) else {
            return;
        };
        let inbound = &stream.inbound;
        let others = self.granted - inbound.granted();
        let share = (octets_max.saturating_sub(others) / SHARE_IN).max(FIRST_CREDIT);
        let tight = share < window && share == FIRST_CREDIT;
        let window = window.min(share);
        let more = window.saturating_sub(inbound.granted());
        if more * 4 < window || inbound.has_end() {
            return;
        }
        self.starved += u64::from(tight);
        self.granted += more;
        self.change(key, |stream| {
            stream.inbound.limit += more;
            stream.inbound.credit = Word::Due;
        });
    }

    /// The stream of a code point whose octets go next.
    pub(crate) fn next(&self, now: Instant, dscp: u8, fresh: bool, wait: Duration) -> Option<Key> {
        self.order.next(now, dscp, fresh, wait)
    }

    /// Whether no stream of a code point waits for another one to send.
    pub(crate) fn is_alone(&self, dscp: u8, fresh: bool) -> bool {
        self.order.is_alone(dscp, fresh)
    }

    /// Octets that streams have to send, new ones only with `fresh`.
    pub(crate) const fn ready(&self, fresh: bool) -> u64 {
        self.order.ready(fresh)
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
        self.order.wanting(fresh)
    }

    /// Says what streams of a code point have to say beside octets.
    pub(crate) fn say_words(
        &mut self,
        dscp: u8,
        room: usize,
        body: &mut Vec<u8>,
        said: &mut Vec<Said>,
    ) {
        while body.len() + HEADER_OCTETS_MAX + ITEM_OCTETS_MAX <= room {
            let next = self.order.next_word(dscp);
            let word = next.and_then(|key| self.change(key, |it| it.say_word(key))?);
            let Some((item, what)) = word else {
                return;
            };
            write_item(&item, body);
            said.push(what);
        }
    }

    /// Something is known to the other side; the stream that has room for more by that.
    pub(crate) fn arrive(&mut self, said: Said) -> Option<Key> {
        let key = said.key();
        let freed = self.change(key, |stream| {
            match said {
                Said::Open(_) | Said::Accept(_) => stream.opening.arrive(),
                Said::Credit(_, limit) if limit == stream.inbound.limit => {
                    stream.inbound.credit.arrive();
                }
                Said::Reset(_) => stream.resetting.arrive(),
                Said::Data(_, piece) if stream.reset.is_none() => {
                    return Some(stream.outbound.arrive(piece));
                }
                Said::Data(..) | Said::Credit(..) => {}
            }
            None
        })?;
        self.leaving -= freed.unwrap_or_default();
        self.books.delivered += freed.unwrap_or_default();
        self.forget(key);
        freed.map(|_| key)
    }

    /// What is lost is to be said again.
    pub(crate) fn lose(&mut self, said: Said) {
        self.change(said.key(), |stream| match said {
            Said::Open(_) | Said::Accept(_) => stream.opening.lose(),
            Said::Credit(_, limit) if limit == stream.inbound.limit => {
                stream.inbound.credit.lose();
            }
            Said::Reset(_) => stream.resetting.lose(),
            Said::Data(_, piece) if stream.reset.is_none() => stream.outbound.lose(piece),
            Said::Data(..) | Said::Credit(..) => {}
        });
    }

    /// Ends a stream; false if it had ended.
    pub(crate) fn end(&mut self, key: Key, error: u16, cause: ResetCause, tell: bool) -> bool {
        let Some(stream) = self.all.get(&key) else {
            return false;
        };
        let live = stream.reset.is_none();
        if live {
            self.books.reset(cause, stream.held());
            self.granted -= stream.inbound.granted();
            self.leaving -= stream.outbound.held();
        }
        self.change(key, |stream| {
            if live {
                stream.end(error, tell);
            } else if !tell {
                // Both ended it: nobody waits to be told.
                stream.resetting = Word::Known;
            }
        });
        live
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
        if let Some(mark) = self.all.remove(&key).and_then(|it| it.mark) {
            self.order.remove(key, &mark);
        }
        self.ours -= usize::from(key.ours);
    }

    /// Asserts that each octet taken is delivered, held or lost by a reset, and that limits hold.
    pub(crate) fn check(&self) {
        let held = self.all.values().map(Stream::held).sum();
        let open = self.all.values().filter(|it| it.reset.is_none());
        let granted: u64 = open.clone().map(|it| it.inbound.granted()).sum();
        let ours = self.all.keys().filter(|it| it.ours).count();
        assert_eq!(ours, self.ours, "streams aren't as many as were opened");
        let leaving: u64 = open.clone().map(|it| it.outbound.held()).sum();
        let books = &self.books;
        let right = books.balanced(open.count() as u64, held);
        assert!(right, "octets are lost, or twice: {books:?}, {held} held");
        assert_eq!(granted, self.granted, "credit isn't what was given");
        assert_eq!(leaving, self.leaving, "what goes isn't what was written");
        self.order.check(self.all.iter());
    }
}
