//! What is known of names, and what of that is to outlive it.

use core::net::Ipv4Addr;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use hickory_proto::rr::{Name, RecordType};
use strait_core::names::{NameEntry, NameState};
use strait_core::prefix::Prefix;
use strait_core::{Duration, Instant};

use crate::ahead::Ahead;
use crate::body::{Body, Outcome};
use crate::cache::{Age, Cache, Key, Limits};
use crate::message::Question;
use crate::saved::{self, Entry, Saved};

/// The life of an address ahead of its answer, in seconds: it is asked for again soon.
const AHEAD_LIFE_S: u32 = 1;

/// The cache, addresses ahead of answers, and notes of both for the storage.
#[derive(Debug)]
pub struct Memory {
    pub(crate) cache: Cache,
    ahead: Option<Ahead>,
    /// Entries since it was saved last, where anything is saved.
    unsaved: Option<Vec<u8>>,
    /// Seconds since 1970 at a moment, where that is known.
    calendar: Option<(Instant, u64)>,
}

impl Memory {
    /// An empty one; with `saves` it takes notes. `ahead` is the range of addresses, if names have
    /// any before they are known.
    pub(crate) fn new(limits: Limits, saves: bool, ahead: Option<Prefix>) -> Self {
        Self {
            cache: Cache::new(limits),
            ahead: ahead.map(Ahead::new),
            unsaved: saves.then(Vec::new),
            calendar: None,
        }
    }

    /// What is known for a question, by itself; that there is no such name holds for all types.
    pub(crate) fn known(&mut self, now: Instant, question: &Question) -> Option<(Body, Age)> {
        let key = Key::new(&question.name, question.kind, question.care);
        let none = Key {
            kind: 0,
            ..key.clone()
        };
        let missing = self.cache.look(now, &none);
        let missing = missing.filter(|(_, age)| *age != Age::Stale);
        missing.or_else(|| self.cache.look(now, &key))
    }

    /// Something has become known.
    pub(crate) fn keep(&mut self, now: Instant, key: Key, body: Body) {
        let today_s = self.today_s(now);
        let known = body.is_known() && body.life_s > 0;
        if let Some(unsaved) = self.unsaved.as_mut().filter(|_| known) {
            saved::write(&key, &body, today_s, unsaved);
        }
        self.cache.keep(now, key, body);
    }

    /// What a question for a name hears that isn't known yet, if that is to be had: an address, and
    /// of what programs ask for beside it that there is nothing.
    pub(crate) fn answer_ahead(&mut self, question: &Question) -> Option<Body> {
        let wary = !question.care.is_usual();
        self.ahead.as_ref().filter(|_| !wary)?;
        match question.kind {
            RecordType::A => {
                let address = self.give_ahead(&question.name.to_lowercase())?;
                Some(Body {
                    records: Vec::from([address.octets().to_vec()]),
                    ..Body::empty(Outcome::Records, AHEAD_LIFE_S)
                })
            }
            RecordType::AAAA | RecordType::HTTPS => {
                Some(Body::missing(Outcome::NoData, AHEAD_LIFE_S, 0))
            }
            _ => None,
        }
    }

    /// The address by which a name goes from now on, in small letters, if there are any.
    pub(crate) fn give_ahead(&mut self, name: &Name) -> Option<Ipv4Addr> {
        let (address, new) = self.ahead.as_mut()?.give(name);
        if let Some(unsaved) = self.unsaved.as_mut().filter(|_| new) {
            saved::write_ahead(name, address, unsaved);
        }
        Some(address)
    }

    /// The address by which a name goes, if it does.
    pub(crate) fn ahead_of(&self, name: &Name) -> Option<Ipv4Addr> {
        self.ahead.as_ref()?.find(name)
    }

    /// The name that goes by an address.
    pub(crate) fn name_ahead(&self, address: Ipv4Addr) -> Option<&Name> {
        self.ahead.as_ref()?.name_of(address)
    }

    /// All that is known, for people; `kept` says what a partner keeps fresh. Names that go by
    /// addresses come last.
    pub(crate) fn told(
        &self,
        now: Instant,
        kept: impl Fn(&Key) -> bool,
    ) -> impl Iterator<Item = NameEntry> {
        let known = self.cache.iter().map(move |(key, body, fresh)| {
            let state = match kept(key) {
                true => NameState::Kept,
                false if fresh > now => NameState::Fresh,
                false => NameState::Stale,
            };
            let kind = match key.kind {
                0 => "any".into(),
                kind => RecordType::from(kind).to_string(),
            };
            entry(
                &key.name,
                kind,
                state,
                body.told(key.kind.into()),
                fresh.since(now),
            )
        });
        let ahead = self
            .ahead
            .iter()
            .flat_map(Ahead::iter)
            .map(|(name, address)| {
                let (kind, state) = (RecordType::A.to_string(), NameState::Ahead);
                entry(name, kind, state, address.to_string(), Duration::ZERO)
            });
        known.chain(ahead)
    }

    /// What time it is, in seconds since 1970.
    pub const fn set_calendar(&mut self, now: Instant, since_1970_s: u64) {
        self.calendar = Some((now, since_1970_s));
    }

    fn today_s(&self, now: Instant) -> Option<u32> {
        let (at, seconds) = self.calendar?;
        u32::try_from(seconds + now.since(at).as_secs()).ok()
    }

    /// What has become known since it was taken last, to be appended to what is saved.
    pub fn take_unsaved(&mut self) -> Vec<u8> {
        let unsaved = self.unsaved.as_mut();
        unsaved.map(core::mem::take).unwrap_or_default()
    }

    /// Octets of that.
    pub fn unsaved_octets(&self) -> usize {
        self.unsaved.as_ref().map_or(0, Vec::len)
    }

    /// All that is known, to take the place of what is saved.
    pub fn saved(&mut self, now: Instant) -> Vec<u8> {
        self.take_unsaved();
        let mut out = Vec::new();
        for (name, address) in self.ahead.iter().flat_map(Ahead::iter) {
            saved::write_ahead(name, address, &mut out);
        }
        let cache = &self.cache;
        for (key, body, fresh) in cache.iter().filter(|(_, body, _)| body.is_known()) {
            let gone = (now + Duration::from_secs(u64::from(body.life_s))).since(fresh);
            // Rather older than it is than younger.
            let gone_s = gone.as_nanos().div_ceil(1_000_000_000);
            let gone_s = u32::try_from(gone_s).unwrap_or(u32::MAX);
            let came_s = self.today_s(now).and_then(|it| it.checked_sub(gone_s));
            saved::write(key, body, came_s, &mut out);
        }
        out
    }

    /// Takes in what an earlier one saved; how many of the octets it was.
    pub fn restore(&mut self, now: Instant, octets: &[u8]) -> usize {
        let today_s = self.today_s(now);
        let mut rest = octets;
        while let Some(entry) = saved::read(&mut rest) {
            match entry {
                Some(Entry::Known(Saved { key, body, came_s })) => {
                    let ago_s = today_s
                        .zip(came_s)
                        .and_then(|(now, came)| now.checked_sub(came));
                    let ago = ago_s.map(|it| Duration::from_secs(u64::from(it)));
                    self.cache.restore(now, key, body, ago);
                }
                Some(Entry::Ahead(name, address)) => {
                    if let Some(ahead) = &mut self.ahead {
                        ahead.restore(name, address);
                    }
                }
                None => {}
            }
        }
        octets.len() - rest.len()
    }

    /// Asserts that limits hold.
    pub(crate) fn check(&self) {
        self.cache.check();
        self.ahead.iter().for_each(Ahead::check);
    }
}

fn entry(name: &Name, kind: String, state: NameState, said: String, time: Duration) -> NameEntry {
    NameEntry {
        name: name.to_string(),
        kind,
        state,
        said,
        time,
        waiting: 0,
        tries: 0,
    }
}
