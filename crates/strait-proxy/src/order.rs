//! Which streams have something to say, and which goes first, without looking at all of them: a
//! session may have ten thousand.

use alloc::collections::{BTreeMap, BTreeSet};
use core::cmp::Reverse;

use strait_core::{Duration, Instant};

use crate::codec::Key;
use crate::stream::Stream;

/// A stream that had fewer octets may be a short one, and one that had so few has as good as none.
const SHORT_OCTETS: u64 = 16 * 1024;
const LEAST_OCTETS: u64 = 1024;
/// What began so far apart didn't begin together.
const EPOCH: Duration = Duration::from_secs(10);

/// The lower, the sooner: about how much a stream had, when it began, how much it had, and when it
/// had a turn.
type Rank = (u64, Reverse<u64>, u64, Instant);

/// What a stream is in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    dscp: u8,
    words: bool,
    /// It has octets to send: ones that were lost, and any.
    octets: [bool; 2],
    /// How many of these.
    ready: [u64; 2],
    /// The other side has opened it, and it has no connection yet.
    half_open: bool,
    rank: Rank,
}

impl Mark {
    pub(crate) fn of(key: Key, stream: &Stream) -> Self {
        // Nobody takes octets of what he hasn't heard of.
        let told = !stream.opening.is_due();
        // Of those that had about as little those that have just begun: a page goes before
        // transfers that began a while ago and had not much yet.
        let attained = stream.attained;
        let (level, epoch) = if attained < SHORT_OCTETS {
            let level = attained.max(LEAST_OCTETS).ilog2();
            let epoch = stream.began.as_nanos() / EPOCH.as_nanos() as u64;
            (level.into(), epoch)
        } else {
            (attained, 0)
        };
        Self {
            dscp: stream.open.dscp,
            words: stream.has_word(),
            octets: [false, true].map(|fresh| told && stream.outbound.wants(fresh)),
            ready: [false, true].map(|fresh| stream.outbound.ready(fresh)),
            half_open: !key.ours && !stream.accepted && stream.reset.is_none(),
            rank: (level, Reverse(epoch), attained, stream.served),
        }
    }

    const fn served(&self) -> Instant {
        self.rank.3
    }
}

/// Streams of a code point that have octets to send.
#[derive(Debug, Default)]
struct Queue {
    by_rank: BTreeSet<(Rank, Key)>,
    by_turn: BTreeSet<(Instant, Key)>,
}

/// The order of all streams.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// By code point, those that have something to say beside octets.
    words: BTreeMap<u8, BTreeSet<Key>>,
    /// By code point, those with octets: that were lost, and any.
    queues: [BTreeMap<u8, Queue>; 2],
    ready: [u64; 2],
    half_open: usize,
}

impl Order {
    pub(crate) fn add(&mut self, key: Key, mark: &Mark) {
        if mark.words {
            self.words.entry(mark.dscp).or_default().insert(key);
        }
        for (queues, wants) in self.queues.iter_mut().zip(mark.octets) {
            if wants {
                let queue = queues.entry(mark.dscp).or_default();
                queue.by_rank.insert((mark.rank, key));
                queue.by_turn.insert((mark.served(), key));
            }
        }
        self.count(mark, u64::wrapping_add, usize::wrapping_add);
    }

    pub(crate) fn remove(&mut self, key: Key, mark: &Mark) {
        if mark.words
            && let Some(words) = self.words.get_mut(&mark.dscp)
        {
            words.remove(&key);
            if words.is_empty() {
                self.words.remove(&mark.dscp);
            }
        }
        for (queues, wants) in self.queues.iter_mut().zip(mark.octets) {
            if let Some(queue) = queues.get_mut(&mark.dscp).filter(|_| wants) {
                queue.by_rank.remove(&(mark.rank, key));
                queue.by_turn.remove(&(mark.served(), key));
                if queue.by_rank.is_empty() {
                    queues.remove(&mark.dscp);
                }
            }
        }
        self.count(mark, u64::wrapping_sub, usize::wrapping_sub);
    }

    fn count(
        &mut self,
        mark: &Mark,
        octets: impl Fn(u64, u64) -> u64,
        streams: impl Fn(usize, usize) -> usize,
    ) {
        for (sum, ready) in self.ready.iter_mut().zip(mark.ready) {
            *sum = octets(*sum, ready);
        }
        self.half_open = streams(self.half_open, mark.half_open.into());
    }

    /// The stream of a code point whose octets go next, new ones only with `fresh`: the one that
    /// had least, before it one that has waited too long.
    pub(crate) fn next(&self, now: Instant, dscp: u8, fresh: bool, wait: Duration) -> Option<Key> {
        let queue = self.queues[usize::from(fresh)].get(&dscp)?;
        let waited = queue.by_turn.first();
        let starves = waited.filter(|(served, _)| now.since(*served) >= wait);
        let least = queue.by_rank.first().map(|(_, key)| *key);
        starves.map(|(_, key)| *key).or(least)
    }

    /// Whether at most one stream of a code point has octets to send, new ones only with `fresh`.
    pub(crate) fn is_alone(&self, dscp: u8, fresh: bool) -> bool {
        let queue = self.queues[usize::from(fresh)].get(&dscp);
        queue.is_none_or(|queue| queue.by_rank.len() <= 1)
    }

    /// The stream of a code point that has something to say beside octets.
    pub(crate) fn next_word(&self, dscp: u8) -> Option<Key> {
        self.words.get(&dscp)?.first().copied()
    }

    /// Octets that streams have to send, new ones only with `fresh`.
    pub(crate) const fn ready(&self, fresh: bool) -> u64 {
        self.ready[fresh as usize]
    }

    /// The code points of streams that have something to say, new octets only with `fresh`.
    pub(crate) fn wanting(&self, fresh: bool) -> impl Iterator<Item = u8> {
        let octets = self.queues[usize::from(fresh)].keys();
        self.words.keys().chain(octets).copied()
    }

    /// Streams of the other side's that have no connection yet.
    pub(crate) const fn half_open(&self) -> usize {
        self.half_open
    }

    /// Asserts that all is where it belongs.
    pub(crate) fn check<'a>(&self, all: impl Iterator<Item = (&'a Key, &'a Stream)>) {
        let (mut words, mut queued, mut ready, mut half_open) = (0, [0; 2], [0; 2], 0);
        for (key, stream) in all {
            let mark = Mark::of(*key, stream);
            assert_eq!(stream.mark, Some(mark), "a stream is where it was");
            words += usize::from(mark.words);
            half_open += usize::from(mark.half_open);
            for at in [0, 1] {
                queued[at] += usize::from(mark.octets[at]);
                ready[at] += mark.ready[at];
            }
        }
        assert_eq!(words, self.words.values().map(BTreeSet::len).sum::<usize>());
        for (queues, queued) in self.queues.iter().zip(queued) {
            let by_rank: usize = queues.values().map(|it| it.by_rank.len()).sum();
            let by_turn: usize = queues.values().map(|it| it.by_turn.len()).sum();
            assert_eq!((by_rank, by_turn), (queued, queued), "queues of streams");
        }
        assert_eq!((ready, half_open), (self.ready, self.half_open));
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use strait_core::chance::Stream as Chance;

    use super::*;
    use crate::codec::Ends;
    use crate::stream::Open;
    use crate::table::Table;

    const WAIT: Duration = Duration::from_secs(30);

    /// The same by a look at each.
    fn next_by_search(table: &Table, now: Instant, dscp: u8, fresh: bool) -> Option<Key> {
        let streams = table.all.iter().filter(|(_, it)| {
            it.open.dscp == dscp && !it.opening.is_due() && it.outbound.wants(fresh)
        });
        let rank = |(key, stream): (&Key, &Stream)| {
            let starves = now.since(stream.served) >= WAIT;
            let (level, epoch, attained, served) = Mark::of(*key, stream).rank;
            match starves {
                true => (false, (0, Reverse(0), 0, served), *key),
                false => (true, (level, epoch, attained, served), *key),
            }
        };
        streams.map(rank).min().map(|(_, _, key)| key)
    }

    #[test]
    fn the_next_one_is_who_a_search_finds() {
        let mut chance = Chance::new(7, "order");
        let mut table = Table::default();
        let mut now = Instant::ZERO;
        let keys: Vec<Key> = (0..40)
            .map(|n| Key {
                ours: n % 2 == 0,
                n,
            })
            .collect();
        for key in &keys {
            let client = ([10, 1, 0, 2], 1).into();
            let ends = Ends {
                client,
                server: client,
            };
            let dscp = (key.n % 3) as u8;
            table.add(*key, Stream::new(now, Open { ends, dscp }, 9000));
        }
        let mut found = 0;
        for _ in 0..20_000 {
            now += Duration::from_millis(chance.below(300));
            let key = keys[chance.below(40) as usize];
            match chance.below(3) {
                0 => table.write(now, key, &[0; 50]),
                1 => drop(table.change(key, |it| {
                    let taken = it.outbound.take(chance.below(100) as usize, true);
                    it.attained += chance.below(3000);
                    it.served = now;
                    taken
                        .filter(|_| chance.below(3) == 0)
                        .map(|(piece, _)| it.outbound.lose(piece))
                })),
                _ => drop(table.read(key, 9)),
            }
            let dscp = chance.below(3) as u8;
            let fresh = chance.below(2) == 0;
            let next = table.next(now, dscp, fresh, WAIT);
            assert_eq!(next, next_by_search(&table, now, dscp, fresh));
            found += u32::from(next.is_some());
        }
        assert!(found > 5000, "{found}");
        table.check();
    }
}
