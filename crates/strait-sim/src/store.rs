//! Stable storage of a simulated node.

use std::collections::{BTreeMap, VecDeque};

use strait_core::chance::Stream;
use strait_core::node::{StoreError, StoreOp, Ticket};
use strait_core::storage::{Answer, Asked, Job, Waiting, chunk_octets};
use strait_core::{Duration, Instant};
use strait_scenario::StorageEntry;

/// Values by key, and what is asked of them.
#[derive(Debug)]
pub(crate) struct Store {
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Octets of all keys and values.
    octets: u64,
    octets_max: u64,
    latency: Duration,
    /// Whether a kill loses all that isn't acknowledged, or nothing; by chance if unset.
    loses_at_kill: Option<bool>,
    /// What everything is answered with for now.
    fault: Option<StoreError>,
    jobs: VecDeque<Job>,
    waiting: Waiting,
    /// The first jobs so many are done together now.
    under_way: usize,
    /// Groups begun so far.
    begun: u64,
}

/// Time until batches are stable: that of a small synchronous write to flash storage, however many
/// of them become so together.
const COMMIT: Duration = Duration::from_millis(2);

/// Time to read a chunk: that of a few random reads of flash storage.
const READ: Duration = Duration::from_micros(100);

/// A group of jobs that are done together: its number, and when it is.
pub(crate) type Group = (u64, Instant);

impl Default for Store {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            octets: 0,
            octets_max: u64::MAX,
            latency: COMMIT,
            loses_at_kill: None,
            fault: None,
            jobs: VecDeque::new(),
            waiting: Waiting::default(),
            under_way: 0,
            begun: 0,
        }
    }
}

impl Store {
    /// Has room for so many octets of keys and values.
    pub(crate) const fn set_octets_max(&mut self, octets_max: u64) {
        self.octets_max = octets_max;
    }

    /// Is as a scenario says.
    pub(crate) fn be(&mut self, entry: StorageEntry) {
        self.latency = entry.latency.map_or(COMMIT, |time| time.0);
        self.octets_max = entry
            .room
            .map_or(self.octets_max, |room| room.0.min(self.octets_max));
        self.loses_at_kill = entry.loses_at_kill;
    }

    /// From now on everything fails so, until it doesn't any more.
    pub(crate) const fn set_fault(&mut self, fault: Option<StoreError>) {
        self.fault = fault;
    }

    /// Takes what is asked; returns the group that begins with it, if nothing is under way.
    ///
    /// # Errors
    /// What is to be said at once.
    pub(crate) fn ask(
        &mut self,
        now: Instant,
        ticket: Ticket,
        asked: Asked,
    ) -> Result<Option<Group>, Answer> {
        self.jobs.push_back(self.waiting.take(ticket, asked)?);
        Ok(if self.under_way == 0 {
            self.begin(now)
        } else {
            None
        })
    }

    /// Begins with all that waits.
    fn begin(&mut self, now: Instant) -> Option<Group> {
        self.under_way = self.jobs.len();
        self.begun += 1;
        let is_store = |job: &Job| matches!(job.asked, Ok(Asked::Store(_)));
        let is_load = |job: &&Job| matches!(job.asked, Ok(Asked::Load { .. }));
        let commits = u32::from(self.jobs.iter().any(is_store));
        let reads = self.jobs.iter().filter(is_load).count() as u32;
        let time = match self.fault {
            None => self.latency * commits + READ * reads,
            Some(_) => Duration::ZERO,
        };
        (self.under_way > 0).then_some((self.begun, now + time))
    }

    /// A group is done: its answers in order, and the next group. Nothing if a crash has decided
    /// about it.
    pub(crate) fn complete(
        &mut self,
        now: Instant,
        group: u64,
    ) -> (Vec<(Ticket, Answer)>, Option<Group>) {
        if self.under_way == 0 || self.begun != group {
            return (Vec::new(), None);
        }
        let jobs: Vec<Job> = self.jobs.drain(..self.under_way).collect();
        self.under_way = 0;
        let answers = jobs.into_iter().map(|job| {
            self.waiting.done(&job);
            (
                job.ticket,
                job.asked.map_or_else(|it| it, |it| self.serve(it)),
            )
        });
        let answers = answers.collect();
        (answers, self.begin(now))
    }

    fn serve(&mut self, asked: Asked) -> Answer {
        if let Some(error) = self.fault {
            return asked.fails(error);
        }
        match asked {
            Asked::Store(batch) => Answer::Stored(self.apply(batch)),
            Asked::Load {
                key,
                offset,
                octets,
            } => Answer::Loaded(Ok(self.read(&key, offset, octets))),
        }
    }

    /// Octets of all keys and values after a batch.
    fn octets_after(&self, batch: &[StoreOp]) -> u64 {
        let mut lengths: BTreeMap<&[u8], Option<usize>> = BTreeMap::new();
        for op in batch {
            let (StoreOp::Put(key, _) | StoreOp::Append(key, _) | StoreOp::Delete(key)) = op;
            let length = lengths
                .entry(key)
                .or_insert_with(|| self.values.get(key).map(Vec::len));
            *length = match op {
                StoreOp::Put(_, value) => Some(value.len()),
                StoreOp::Append(_, more) => Some(length.unwrap_or(0) + more.len()),
                StoreOp::Delete(_) => None,
            };
        }
        let octets = |key: &[u8], length: usize| (key.len() + length) as u64;
        lengths.into_iter().fold(self.octets, |sum, (key, length)| {
            let before = self.values.get(key).map_or(0, |it| octets(key, it.len()));
            sum - before + length.map_or(0, |length| octets(key, length))
        })
    }

    fn apply(&mut self, batch: Vec<StoreOp>) -> Result<(), StoreError> {
        let after = self.octets_after(&batch);
        if after > self.octets_max.max(self.octets) {
            return Err(StoreError::Full);
        }
        self.octets = after;
        for op in batch {
            match op {
                StoreOp::Put(key, value) => {
                    self.values.insert(key, value);
                }
                StoreOp::Append(key, more) => self.values.entry(key).or_default().extend(more),
                StoreOp::Delete(key) => {
                    self.values.remove(&key);
                }
            }
        }
        Ok(())
    }

    fn read(&self, key: &[u8], offset: u64, octets: u32) -> Option<Vec<u8>> {
        let value = self.values.get(key)?;
        let length = chunk_octets(value.len() as u64, offset, octets);
        // Behind the end there is nothing to begin at.
        let offset = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(value.len());
        Some(value[offset..offset + length].to_vec())
    }

    /// The node has crashed: of the batches that weren't answered the first ones are stored, as
    /// many as chance says unless it is settled, and the others lost.
    pub(crate) fn crash(&mut self, chance: &mut Stream) {
        let jobs = std::mem::take(&mut self.jobs).into_iter();
        (self.waiting, self.under_way) = (Waiting::default(), 0);
        let batches = jobs.filter_map(|job| match job.asked {
            Ok(Asked::Store(batch)) => Some(batch),
            _ => None,
        });
        let batches: Vec<_> = batches.collect();
        if batches.is_empty() || self.fault.is_some() {
            return;
        }
        let kept = match self.loses_at_kill {
            Some(true) => 0,
            Some(false) => batches.len(),
            None => chance.below(batches.len() as u64 + 1) as usize,
        };
        for batch in batches.into_iter().take(kept) {
            // One that doesn't fit is lost either way.
            let _ = self.apply(batch);
        }
    }

    /// Every key, with the octets of its value.
    pub(crate) fn contents(&self) -> Vec<(Vec<u8>, u64)> {
        let values = self.values.iter();
        values
            .map(|(key, value)| (key.clone(), value.len() as u64))
            .collect()
    }
}

#[cfg(test)]
#[path = "../../strait-core/tests/suite/storage.rs"]
mod suite;

#[cfg(test)]
mod tests {
    use super::suite::{Storage, delete, load, numbered, only_the_last_are_lost, put, ticket};
    use super::*;

    /// A store with its own time.
    struct Bench {
        store: Store,
        now: Instant,
        group: Option<Group>,
        answers: VecDeque<(Ticket, Answer)>,
        /// Groups so far.
        groups: u32,
    }

    impl Bench {
        fn new(octets_max: u64) -> Self {
            let mut store = Store::default();
            store.set_octets_max(octets_max);
            Self {
                store,
                now: Instant::ZERO,
                group: None,
                answers: VecDeque::new(),
                groups: 0,
            }
        }

        /// Lets the group that is under way be done.
        fn pass(&mut self) {
            let (group, at) = self.group.expect("nothing is under way");
            let (answers, next) = self.store.complete(at, group);
            (self.now, self.group) = (at, next);
            self.groups += 1;
            self.answers.extend(answers);
        }
    }

    impl Storage for Bench {
        fn ask(&mut self, ticket: Ticket, asked: Asked) {
            match self.store.ask(self.now, ticket, asked) {
                Ok(group) => self.group = self.group.or(group),
                Err(answer) => self.answers.push_back((ticket, answer)),
            }
        }

        fn answer(&mut self) -> (Ticket, Answer) {
            while self.answers.is_empty() {
                self.pass();
            }
            self.answers.pop_front().unwrap()
        }

        fn restart(&mut self) -> Vec<(Vec<u8>, u64)> {
            self.store.contents()
        }

        fn fail(&mut self) {
            self.store.set_fault(Some(StoreError::Failed));
        }
    }

    #[test]
    fn it_does_what_storage_does() {
        suite::all(Bench::new);
        suite::a_large_value_goes_and_comes_in_pieces(&mut Bench::new(u64::MAX), 100_000_000);
    }

    #[test]
    fn a_kill_loses_the_last_batches_of_those_not_acknowledged() {
        let mut kept = [0; 9];
        for seed in 0..200 {
            let mut bench = Bench::new(u64::MAX);
            for n in 0..8 {
                bench.ask(ticket(n), Asked::Store(numbered(n)));
                bench.ask(ticket(100 + n), load(b"log", 0, 9));
            }
            assert_eq!(bench.answer().0, ticket(0));
            let group = bench.group.take();
            bench.store.crash(&mut Stream::new(seed, "crash"));
            let (group, at) = group.unwrap();
            assert_eq!(
                bench.store.complete(at, group),
                (vec![], None),
                "of a former life"
            );
            let contents = bench.restart();
            kept[only_the_last_are_lost(&mut bench, &contents, 1) as usize] += 1;
        }
        assert_eq!(kept[0], 0);
        assert!(kept[1..].iter().all(|times| *times > 10), "{kept:?}");
    }

    #[test]
    fn what_waits_while_one_is_written_becomes_stable_together() {
        let mut bench = Bench::new(u64::MAX);
        for n in 0..100 {
            bench.ask(ticket(n), Asked::Store(numbered(n)));
        }
        assert_eq!(bench.answer().0, ticket(0));
        assert_eq!(bench.now, Instant::ZERO + COMMIT);
        for n in 1..100 {
            assert_eq!(bench.answer().0, ticket(n));
        }
        assert_eq!(bench.now, Instant::ZERO + COMMIT * 2);
        assert_eq!(bench.groups, 2);
        bench.ask(ticket(1), load(b"log", 0, 9));
        bench.answer();
        assert_eq!(bench.now, Instant::ZERO + COMMIT * 2 + READ);
    }

    #[test]
    fn a_deleted_value_makes_room() {
        let mut bench = Bench::new(10);
        let mut store = |batch| suite::done(&mut bench, Asked::Store(batch));
        assert_eq!(store(vec![put(b"k", &[1; 9])]), Answer::Stored(Ok(())));
        let full = Answer::Stored(Err(StoreError::Full));
        assert_eq!(store(vec![put(b"", &[1])]), full);
        assert_eq!(
            store(vec![put(b"", &[1]), delete(b"k")]),
            Answer::Stored(Ok(()))
        );
        assert_eq!(store(vec![put(b"k", &[1; 8])]), Answer::Stored(Ok(())));
        assert_eq!(store(vec![put(b"k", &[1; 9])]), full);
    }

    #[test]
    fn a_scenario_settles_what_a_kill_loses() {
        for (loses, kept) in [(true, 0), (false, 8)] {
            let mut bench = Bench::new(u64::MAX);
            bench.store.be(StorageEntry {
                loses_at_kill: Some(loses),
                ..StorageEntry::default()
            });
            for n in 0..8 {
                bench.ask(ticket(n), Asked::Store(numbered(n)));
            }
            bench.group = None;
            bench.store.crash(&mut Stream::new(1, "crash"));
            let contents = bench.store.contents();
            assert_eq!(only_the_last_are_lost(&mut bench, &contents, 0), kept);
        }
    }
}
