//! Questions on their way to partners, and who waits for what comes of them.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use hickory_proto::rr::{Name, RecordType};
use strait_core::chance::Stream as Chance;
use strait_core::names::{NameEntry, NameState};
use strait_core::{Duration, Instant};

use crate::frame::{Care, Frame, Types};
use crate::message::Question;
use crate::near::Client;
use crate::way::Way;

/// Questions that are on their way or wait to be, and those of one client.
pub const CROSSINGS_MAX: usize = 256;
const CROSSINGS_OF_ONE_MAX: usize = 32;
/// Clients' messages that wait for answers, and those that wait for one answer.
pub const WAITERS_MAX: usize = 4096;
pub(crate) const WAITERS_OF_ONE_MAX: usize = 512;
/// How long a question waits for others for its name: programs ask for several types at once.
const GATHER: Duration = Duration::from_millis(20);
/// How often a question is sent, at most.
const TRIES_MAX: u32 = 3;
/// How long a question that can't leave is kept for the next try of those who asked.
const KEPT: Duration = Duration::from_secs(60);

/// A client that waits for an answer.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) client: Client,
    pub(crate) question: Question,
    pub(crate) until: Instant,
}

/// A question on its way.
#[derive(Debug)]
pub(crate) struct Crossing {
    pub(crate) partner: usize,
    pub(crate) name: Name,
    pub(crate) types: Types,
    pub(crate) care: Care,
    /// Its answer is to be kept fresh by the far side.
    pub(crate) watch: bool,
    /// Who asked first.
    pub(crate) by: IpAddr,
    /// When it was asked for last.
    pub(crate) wanted: Instant,
    /// When it was sent first and last.
    pub(crate) sent: Option<(Instant, Instant)>,
    pub(crate) tries: u32,
    /// When it is to be sent, given up, or forgotten.
    pub(crate) due: Instant,
    /// Nobody waits for its answer any more, but it may come.
    pub(crate) given_up: bool,
    pub(crate) waiters: Vec<Waiter>,
    /// Of an answer in parts, those that have come.
    parts: BTreeMap<u8, Vec<u8>>,
}

/// What became of a question with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lapse {
    /// No answer came in time.
    Lost,
    /// It couldn't leave, and nobody asks for it any more.
    Dropped,
    /// Its answer isn't listened to any more.
    Forgotten,
}

impl Crossing {
    /// Whether a question that is on its way asks for this, too; if it waits still, it does then.
    fn joins(&mut self, now: Instant, kind: RecordType) -> Option<bool> {
        if self.types.has(kind) {
            if core::mem::take(&mut self.given_up) {
                (self.tries, self.due) = (0, now);
            }
            return Some(true);
        }
        let both = self.types.with(Types::of(kind));
        self.types = both.filter(|_| self.tries == 0)?;
        Some(false)
    }

    /// What has become of it, if anything.
    pub(crate) fn lapse(&self, now: Instant, linked: bool) -> Option<Lapse> {
        let over = self.tries >= TRIES_MAX && self.due <= now;
        let idle = self.waiters.is_empty() && self.wanted + KEPT <= now;
        match linked {
            true if over && !self.given_up => Some(Lapse::Lost),
            false if idle && !self.given_up => Some(Lapse::Dropped),
            _ if over && self.given_up => Some(Lapse::Forgotten),
            _ => None,
        }
    }

    /// Its frame, if it is sent now and its answer may take so long; with the address by which its
    /// name goes ahead, if it does.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        id: u16,
        patience: Duration,
        ahead: Option<Ipv4Addr>,
    ) -> Vec<u8> {
        let frame = Frame::Question {
            id,
            types: self.types,
            care: self.care,
            watch: self.watch,
            ahead: ahead.filter(|_| !self.watch),
            name: self.name.clone(),
        };
        // Longer each time: what was expected was too little, or the link loses.
        self.due = now + patience * (1 << self.tries);
        self.tries += 1;
        let first = self.sent.map_or(now, |(first, _)| first);
        self.sent = Some((first, now));
        frame.to_vec()
    }

    /// Takes a part of its answer; the whole one when all are there. Of another answer there may be
    /// fewer.
    pub(crate) fn join(&mut self, at: u8, of: u8, octets: Vec<u8>) -> Option<Vec<u8>> {
        self.parts.retain(|other, _| *other < of);
        self.parts.insert(at, octets);
        let whole = self.parts.len() == usize::from(of);
        whole.then(|| {
            core::mem::take(&mut self.parts)
                .into_values()
                .flatten()
                .collect()
        })
    }

    /// What it is, for people.
    pub(crate) fn told(&self, now: Instant) -> NameEntry {
        let kinds = self.types.iter().map(|kind| kind.to_string());
        let sent = self.sent.map(|(first, _)| now.since(first));
        NameEntry {
            name: self.name.to_string(),
            kind: kinds.collect::<Vec<_>>().join(" "),
            state: NameState::Asked,
            said: String::new(),
            time: sent.unwrap_or_default(),
            waiting: self.waiters.len(),
            tries: self.tries,
        }
    }

    fn wake(&self, way: &Way) -> Option<Instant> {
        let due = match way.link {
            _ if self.given_up => self.due,
            Some(_) if self.tries < TRIES_MAX => self.due.max(way.next),
            Some(_) => self.due,
            None => self.wanted + KEPT,
        };
        let kept = way.link.is_some() || self.given_up || self.waiters.is_empty();
        let own = Some(due).filter(|_| kept);
        self.waiters.iter().map(|it| it.until).chain(own).min()
    }
}

/// All questions, by number.
#[derive(Debug)]
pub(crate) struct Crossings {
    all: BTreeMap<u16, Crossing>,
    chance: Chance,
}

impl Crossings {
    /// None. Their numbers follow from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            all: BTreeMap::new(),
            chance: Chance::new(seed, "dns.near"),
        }
    }

    /// Each, and its number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Crossing)> {
        self.all.iter().map(|(id, it)| (*id, it))
    }

    pub(crate) fn by_id(&self, id: u16) -> Option<&Crossing> {
        self.all.get(&id)
    }

    pub(crate) fn by_id_mut(&mut self, id: u16) -> Option<&mut Crossing> {
        self.all.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: u16) {
        self.all.remove(&id);
    }

    /// Clients that wait.
    pub(crate) fn waiters(&self) -> usize {
        self.all.values().map(|it| it.waiters.len()).sum()
    }

    /// Asserts that limits hold.
    pub(crate) fn check(&self) {
        assert!(self.all.len() <= CROSSINGS_MAX, "too many questions");
        assert!(self.waiters() <= WAITERS_MAX, "too many clients wait");
    }

    /// The question that asks for the same or for the same name, and whether it did already.
    pub(crate) fn find(
        &mut self,
        now: Instant,
        partner: usize,
        question: &Question,
    ) -> Option<(u16, bool)> {
        let like = |it: &Crossing| {
            it.partner == partner && it.care == question.care && it.name == question.name
        };
        let mut alike = self.all.iter_mut().filter(|(_, it)| like(it));
        alike.find_map(|(id, it)| Some((*id, it.joins(now, question.kind)?)))
    }

    /// Has questions for a name wait no longer for others.
    pub(crate) fn hurry(&mut self, now: Instant, name: &Name) {
        let waiting = self
            .all
            .values_mut()
            .filter(|it| it.tries == 0 && it.name == *name);
        waiting.for_each(|it| it.due = it.due.min(now));
    }

    /// Begins another, if there may be one; its number is none that is `taken`.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        (partner, by): (usize, IpAddr),
        question: &Question,
        taken: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let own = self.all.values().filter(|it| it.by == by && !it.given_up);
        if own.count() >= CROSSINGS_OF_ONE_MAX {
            return None;
        }
        if self.all.len() >= CROSSINGS_MAX {
            let given_up = self.all.iter().filter(|(_, it)| it.given_up);
            let oldest = *given_up.min_by_key(|(_, it)| it.due)?.0;
            self.all.remove(&oldest);
        }
        let id = loop {
            let id = self.chance.draw() as u16;
            if !self.all.contains_key(&id) && !taken(id) {
                break id;
            }
        };
        let crossing = Crossing {
            partner,
            name: question.name.to_lowercase(),
            types: Types::of(question.kind),
            care: question.care,
            watch: false,
            by,
            wanted: now,
            sent: None,
            tries: 0,
            due: now + GATHER,
            given_up: false,
            waiters: Vec::new(),
            parts: BTreeMap::new(),
        };
        self.all.insert(id, crossing);
        Some(id)
    }

    /// Which question goes next: of the client that has the fewest on their way, the oldest.
    pub(crate) fn next_to(&self, partner: usize, now: Instant) -> Option<u16> {
        let mut sent: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let on_way = |it: &&Crossing| it.tries > 0 && !it.given_up;
        for crossing in self.all.values().filter(on_way) {
            *sent.entry(crossing.by).or_default() += 1;
        }
        let ready = self.all.iter().filter(|(_, it)| {
            it.partner == partner && it.due <= now && it.tries < TRIES_MAX && !it.given_up
        });
        let place = |it: &Crossing| (sent.get(&it.by).copied().unwrap_or(0), it.due);
        let first = ready.min_by_key(|(_, it)| place(it));
        first.map(|(id, _)| *id)
    }

    /// When there is something to do.
    pub(crate) fn wake(&self, ways: &[Way]) -> Option<Instant> {
        let each = self.all.values();
        each.filter_map(|it| it.wake(&ways[it.partner])).min()
    }
}
