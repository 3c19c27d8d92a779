//! Datagrams on their way: which arrived, and which are lost.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use crate::codec::Key;
use crate::rtt::Rtt;
use crate::stream::Piece;

/// Datagrams behind one of the same code point that arrive before that counts as lost.
const OVERTAKEN: u8 = 3;
/// Pauses between questions whether the way is there grow fourfold with each so many, a few times.
const PROBES: u32 = 130;
const DOUBLINGS_MAX: u32 = 4;
/// Octets on their way: what the fastest link that this is for carries in a turn.
const OCTETS_MAX: usize = 8 << 20;
/// Datagrams taken for lost that are remembered, as many as a turn has: their answers may be late.
const LAPSED_MAX: usize = 512;

/// How long what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// How long an answer may take before anything is repeated for the want of it, at least.
    pub patience: Duration,
    /// How long until the next question while nothing is heard.
    pub pause: Duration,
    /// How long one datagram may be overtaken by others that went behind it.
    pub reorder: Duration,
    /// How long an acknowledgement waits for something to go with.
    pub ack: Duration,
}

/// What a datagram says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    Open(Key),
    Accept(Key),
    /// With how far it goes: a later one says more.
    Credit(Key, u64),
    Reset(Key),
    Data(Key, Piece),
}

impl Said {
    pub(crate) const fn key(&self) -> Key {
        match self {
            Self::Open(key)
            | Self::Accept(key)
            | Self::Credit(key, _)
            | Self::Reset(key)
            | Self::Data(key, _) => *key,
        }
    }
}

/// A datagram on its way.
#[derive(Debug)]
struct Flight {
    at: Instant,
    dscp: u8,
    octets: usize,
    /// Datagrams behind it that have arrived.
    overtaken: u8,
    said: Vec<Said>,
}

/// What an acknowledgement tells.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) arrived: Vec<Said>,
    pub(crate) lost: Vec<Said>,
    /// It answers something.
    pub(crate) answers: bool,
    /// Datagrams whose contents are lost.
    pub(crate) repairs: u64,
}

/// All datagrams on their way.
#[derive(Debug)]
pub(crate) struct Flights {
    all: BTreeMap<u64, Flight>,
    /// The number of the next.
    next: u64,
    octets: usize,
    /// Those taken for lost: when they went, and which octets they had. Words are short, and go
    /// again.
    lapsed: BTreeMap<u64, (Instant, Vec<Said>)>,
    /// The link gave some up, and nothing was heard since: they may have arrived.
    doubtful: bool,
    rtt: Rtt,
    /// Since when an answer is waited for, and how often none came.
    waits_since: Instant,
    silences: u32,
    /// May ask whether the way is there.
    probes: bool,
}

impl Default for Flights {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            next: 0,
            octets: 0,
            lapsed: BTreeMap::new(),
            doubtful: false,
            rtt: Rtt::default(),
            waits_since: Instant::ZERO,
            silences: 0,
            probes: false,
        }
    }
}

impl Flights {
    /// Forgets all of them: nobody answers any more. Numbers go on.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.lapsed.clear();
        (self.octets, self.silences) = (0, 0);
        (self.probes, self.doubtful) = (false, false);
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Whether there may be more octets on their way.
    pub(crate) const fn has_room(&self) -> bool {
        self.octets < OCTETS_MAX
    }

    /// Whether nothing is heard: a datagram is a question now.
    pub(crate) const fn asks(&self) -> bool {
        self.silences > 0
    }

    /// Whether a datagram may go.
    pub(crate) const fn may_go(&self) -> bool {
        self.silences == 0 || self.probes
    }

    /// How long an answer may take. While nothing is heard, how long until the next question.
    pub(crate) fn patience(&self, waits: Waits) -> Duration {
        match self.silences {
            0 => self.rtt.patience(waits.patience),
            n => waits.pause * (1 << (2 * (n / PROBES)).min(DOUBLINGS_MAX)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// When silence is taken for loss.
    pub(crate) fn wake(&self, waits: Waits) -> Option<Instant> {
        (!self.all.is_empty()).then(|| self.waits_since + self.patience(waits))
    }

    /// An answer can't have come before now.
    pub(crate) const fn wait(&mut self, now: Instant) {
        self.waits_since = now;
    }

    /// A datagram goes.
    pub(crate) fn send(&mut self, now: Instant, dscp: u8, octets: usize, said: Vec<Said>) {
        self.probes = false;
        if self.all.is_empty() {
            self.waits_since = now;
        }
        let flight = Flight {
            at: now,
            dscp,
            octets,
            overtaken: 0,
            said,
        };
        self.octets += octets;
        self.all.insert(self.next, flight);
        self.next += 1;
    }

    /// Takes what should have been answered for lost.
    pub(crate) fn tend(&mut self, now: Instant, waits: Waits) -> Told {
        let mut told = Told::default();
        let patience = self.patience(waits);
        if self.wake(waits).is_none_or(|at| now < at) {
            return told;
        }
        self.silences = self.silences.saturating_add(1);
        (self.waits_since, self.probes) = (now, true);
        let old = self.all.iter().filter(|(_, it)| it.at + patience <= now);
        let old: Vec<u64> = old.map(|(number, _)| *number).collect();
        old.into_iter()
            .for_each(|number| self.lose(number, &mut told));
        told
    }

    /// The other side has received these.
    pub(crate) fn hear(&mut self, now: Instant, ranges: &[(u64, u64)], waits: Waits) -> Told {
        let mut told = Told::default();
        let mut arrived = BTreeSet::new();
        for (first, last) in ranges {
            arrived.extend(self.all.range(*first..=*last).map(|(number, _)| *number));
        }
        let acked = |number: u64| ranges.iter().any(|(a, b)| (*a..=*b).contains(&number));
        // An answer that was late tells how long answers take, and what needn't go again.
        let late = self.lapsed.extract_if(.., |number, _| acked(*number));
        let late = late.map(|(_, (at, said))| {
            told.arrived.extend(said);
            at
        });
        let late = late.max();
        let newest = arrived.last().and_then(|it| self.all.get(it));
        let Some(at) = newest.map(|it| it.at).or(late) else {
            return told;
        };
        told.answers = true;
        self.rtt.measure(now.since(at));
        (self.waits_since, self.silences, self.probes) = (now, 0, false);
        self.doubtful = false;
        // By code point, how many behind have arrived, and when the last of them went.
        let (mut behind, mut lost) = (BTreeMap::new(), Vec::new());
        for (number, flight) in self.all.iter_mut().rev() {
            let (behind, last): &mut (u8, Instant) =
                behind.entry(flight.dscp).or_insert((0, Instant::ZERO));
            if arrived.contains(number) {
                *behind = behind.saturating_add(1);
                *last = flight.at.max(*last);
                continue;
            }
            flight.overtaken = flight.overtaken.saturating_add(*behind);
            let is_late = last.since(flight.at) >= waits.reorder;
            if flight.overtaken >= OVERTAKEN && is_late {
                lost.push(*number);
            }
        }
        for number in arrived {
            if let Some(flight) = self.all.remove(&number) {
                self.octets -= flight.octets;
                told.arrived.extend(flight.said);
            }
        }
        lost.into_iter()
            .for_each(|number| self.lose(number, &mut told));
        told
    }

    /// The link couldn't deliver one, which may have `left`.
    pub(crate) fn give_up(&mut self, number: u64, left: bool) -> Told {
        let mut told = Told::default();
        self.lose(number, &mut told);
        self.doubtful |= left && told.repairs > 0;
        told
    }

    /// Whether the link gave up datagrams of which nothing was heard since.
    pub(crate) const fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    fn lose(&mut self, number: u64, told: &mut Told) {
        let Some(flight) = self.all.remove(&number) else {
            return;
        };
        self.octets -= flight.octets;
        if self.lapsed.len() >= LAPSED_MAX {
            self.lapsed.pop_first();
        }
        told.repairs += 1;
        told.lost.extend(flight.said.iter().copied());
        let octets = |said: &Said| matches!(said, Said::Data(..));
        let said = flight.said.into_iter().filter(octets).collect();
        self.lapsed.insert(number, (flight.at, said));
    }

    pub(crate) fn check(&self) {
        let octets: usize = self.all.values().map(|it| it.octets).sum();
        assert_eq!(octets, self.octets, "octets on their way are lost");
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}
