//! What is known of names, within limits of entries and octets.
//!
//! What is asked for again is kept before what was asked for once: names by chance, however many,
//! push out each other and nothing else. What has outlived its life is stale, and kept for as long
//! as that may be told (RFC 8767).

use alloc::collections::BTreeMap;

use hickory_proto::rr::{Name, RecordType};
use strait_core::{Duration, Instant};

use crate::body::Body;
use crate::frame::Care;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// In small letters.
    pub name: Name,
    /// The type's number.
    pub kind: u16,
    /// For whom.
    pub care: Care,
}

impl Key {
    /// What a name and a type are known by.
    pub fn new(name: &Name, kind: RecordType, care: Care) -> Self {
        Self {
            name: name.to_lowercase(),
            kind: kind.into(),
            care,
        }
    }
}

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries.
    pub entries: usize,
    /// Octets of all of them.
    pub octets: usize,
    /// How long what is stale may be told.
    pub stale: Duration,
}

#[derive(Clone, Debug)]
struct Entry {
    body: Body,
    /// Until then it is fresh, and until then stale.
    fresh: Instant,
    stale: Instant,
    octets: usize,
    /// A fresh answer couldn't be had: until then it isn't asked for.
    rests: Instant,
    /// It was asked for again, and when it was asked for last: its place in the order.
    place: (bool, u64),
}

/// How fresh something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It lives for so many seconds yet.
    Fresh(u32),
    /// It has outlived its life.
    Stale,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    limits: Limits,
    entries: BTreeMap<Key, Entry>,
    /// Who goes first when there is no room.
    order: BTreeMap<(bool, u64), Key>,
    octets: usize,
    /// Of those that were asked for again: how many, and their octets.
    wanted: (usize, usize),
    uses: u64,
    evicted: u64,
}

/// How long what is stale is told without asking, after asking failed (RFC 8767 section 5).
const RESTS: Duration = Duration::from_secs(30);

/// Octets of an entry beside its name and body.
const ENTRY_OCTETS: usize = 64;

impl Cache {
    /// An empty one.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            octets: 0,
            wanted: (0, 0),
            uses: 0,
            evicted: 0,
        }
    }

    /// Entries that are there.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Octets that they take.
    pub const fn octets(&self) -> usize {
        self.octets
    }

    /// Entries that had to go for want of room.
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// All of them: what is known, and until when it is fresh.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Body, Instant)> {
        self.entries
            .iter()
            .map(|(key, it)| (key, &it.body, it.fresh))
    }

    /// What is known, and how fresh it is.
    pub fn look(&mut self, now: Instant, key: &Key) -> Option<(Body, Age)> {
        let entry = self.entries.get_mut(key)?;
        if now >= entry.stale.max(entry.fresh) {
            self.remove(key);
            return None;
        }
        let left = entry.fresh.since(now);
        // The last part of a second is a whole one to who is told of it.
        let age = match left.as_nanos().div_ceil(1_000_000_000) {
            0 => Age::Stale,
            whole_s => Age::Fresh(u32::try_from(whole_s).unwrap_or(u32::MAX)),
        };
        let old = entry.place;
        self.uses += 1;
        entry.place = (true, self.uses);
        if !old.0 {
            self.wanted.0 += 1;
            self.wanted.1 += entry.octets;
        }
        let (body, place) = (entry.body.clone(), entry.place);
        self.order.remove(&old);
        self.order.insert(place, key.clone());
        self.calm();
        Some((body, age))
    }

    /// What is known is right still: its life begins anew.
    pub fn renew(&mut self, now: Instant, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.fresh = now + Duration::from_secs(u64::from(entry.body.life_s));
            entry.stale = entry.fresh + self.limits.stale;
        }
    }

    /// Whether a fresh answer isn't asked for, as it couldn't be had just now.
    pub fn rests(&self, now: Instant, key: &Key) -> bool {
        self.entries.get(key).is_some_and(|it| now < it.rests)
    }

    /// Keeps what has become known. What is known goes before what failed, be it stale.
    pub fn keep(&mut self, now: Instant, key: Key, body: Body) {
        // What holds for no time is for whoever waits for it alone (RFC 1035 section 3.2.1).
        if body.life_s == 0 {
            return;
        }
        let fresh = now + Duration::from_secs(u64::from(body.life_s));
        self.keep_until(now, key, body, (fresh, fresh + self.limits.stale));
    }

    /// The same, fresh and then stale until other times.
    fn keep_until(
        &mut self,
        now: Instant,
        key: Key,
        body: Body,
        (fresh, stale): (Instant, Instant),
    ) {
        let known = self.entries.get_mut(&key);
        let again = known.as_ref().is_some_and(|it| it.place.0);
        if let Some(known) = known.filter(|it| it.body.is_known() && !body.is_known()) {
            known.rests = now + RESTS;
            return;
        }
        self.remove(&key);
        let octets = key.name.len() + body.octets() + ENTRY_OCTETS;
        if octets > self.limits.octets / 4 {
            return;
        }
        self.uses += 1;
        let place = (again, self.uses);
        self.order.insert(place, key.clone());
        self.octets += octets;
        if again {
            self.wanted.0 += 1;
            self.wanted.1 += octets;
        }
        let entry = Entry {
            body,
            fresh,
            stale,
            octets,
            rests: now,
            place,
        };
        self.entries.insert(key, entry);
        while self.entries.len() > self.limits.entries || self.octets > self.limits.octets {
            let Some((_, oldest)) = self.order.first_key_value() else {
                break;
            };
            let oldest = oldest.clone();
            self.evicted += 1;
            self.remove(&oldest);
        }
    }

    /// Takes in what was known before a restart: it came so long ago, or nobody knows when, and is
    /// stale then from now on.
    pub fn restore(&mut self, now: Instant, key: Key, body: Body, ago: Option<Duration>) {
        let life = Duration::from_secs(u64::from(body.life_s));
        let ago = ago.unwrap_or(life);
        let left = |whole: Duration| now + whole.saturating_sub(ago);
        let (fresh, stale) = (left(life), left(life + self.limits.stale));
        if stale > now && body.is_known() && !self.entries.contains_key(&key) {
            self.keep_until(now, key, body, (fresh, stale));
        }
    }

    /// Leaves a quarter of the room to what is new: of all that was asked for again, what is
    /// longest ago becomes as if it hadn't been.
    fn calm(&mut self) {
        while self.wanted.0 > self.limits.entries / 4 * 3
            || self.wanted.1 > self.limits.octets / 4 * 3
        {
            let Some((place, key)) = self.order.range((true, 0)..).next() else {
                return;
            };
            let (place, key) = (*place, key.clone());
            self.order.remove(&place);
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.place.0 = false;
                self.wanted.0 -= 1;
                self.wanted.1 -= entry.octets;
                self.order.insert(entry.place, key);
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.place);
            self.octets -= entry.octets;
            if entry.place.0 {
                self.wanted.0 -= 1;
                self.wanted.1 -= entry.octets;
            }
        }
    }

    /// Asserts that the books are right.
    pub fn check(&self) {
        let octets = |wanted: bool| {
            let entries = self.entries.values();
            let chosen = entries.filter(|it| it.place.0 || !wanted);
            chosen.map(|it| it.octets).sum::<usize>()
        };
        assert_eq!(octets(false), self.octets, "octets of the cache");
        assert_eq!(octets(true), self.wanted.1, "octets asked for again");
        assert_eq!(self.order.len(), self.entries.len(), "places in the order");
        assert!(self.octets <= self.limits.octets, "the cache is too large");
        assert!(self.len() <= self.limits.entries, "the cache has too many");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::format;
    use alloc::vec;
    use core::str::FromStr;

    use crate::body::Outcome;
    use crate::message::cause;

    const LIMITS: Limits = Limits {
        entries: 40,
        octets: 8000,
        stale: Duration::from_secs(100),
    };

    fn key(name: &str) -> Key {
        Key::new(
            &Name::from_str(name).unwrap(),
            RecordType::A,
            Care::default(),
        )
    }

    fn address(last: u8, life_s: u32) -> Body {
        Body {
            outcome: Outcome::Records,
            zone: 0,
            life_s,
            records: vec![vec![192, 0, 2, last]],
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_life_ends_and_what_is_stale_goes_later() {
        let mut cache = Cache::new(LIMITS);
        cache.keep(at(0), key("a.example."), address(1, 10));
        let age = |cache: &mut Cache, now| cache.look(now, &key("A.Example.")).map(|it| it.1);
        assert_eq!(age(&mut cache, at(999)), Some(Age::Fresh(10)));
        assert_eq!(age(&mut cache, at(9999)), Some(Age::Fresh(1)));
        assert_eq!(age(&mut cache, at(10_000)), Some(Age::Stale));
        assert_eq!(age(&mut cache, at(109_999)), Some(Age::Stale));
        assert_eq!(age(&mut cache, at(110_000)), None);
        assert!(cache.is_empty());
        cache.check();
    }

    #[test]
    fn what_was_known_before_a_restart_is_as_old_as_it_is() {
        let s = Duration::from_secs;
        let age = |ago, now| {
            let mut cache = Cache::new(LIMITS);
            cache.restore(at(0), key("a.example."), address(1, 10), ago);
            cache.look(now, &key("a.example.")).map(|it| it.1)
        };
        assert_eq!(age(Some(s(4)), at(0)), Some(Age::Fresh(6)));
        assert_eq!(age(Some(s(4)), at(6000)), Some(Age::Stale));
        assert_eq!(age(Some(s(50)), at(59_999)), Some(Age::Stale));
        assert_eq!(age(Some(s(50)), at(60_000)), None);
        assert_eq!(age(Some(s(110)), at(0)), None);
        assert_eq!(age(None, at(0)), Some(Age::Stale));
        // What has become known since goes before it.
        let mut cache = Cache::new(LIMITS);
        cache.keep(at(0), key("a.example."), address(2, 10));
        cache.restore(at(0), key("a.example."), address(1, 10), Some(s(0)));
        assert_eq!(
            cache.look(at(0), &key("a.example.")).unwrap().0,
            address(2, 10)
        );
    }

    #[test]
    fn what_is_known_goes_before_a_failure() {
        let mut cache = Cache::new(LIMITS);
        let failed = Body::empty(Outcome::Failure(cause::UNREACHABLE), 5);
        cache.keep(at(0), key("a.example."), failed.clone());
        cache.keep(at(0), key("a.example."), address(1, 10));
        cache.keep(at(20_000), key("a.example."), failed);
        let known = cache.look(at(20_000), &key("a.example."));
        assert_eq!(known, Some((address(1, 10), Age::Stale)));
        assert!(cache.rests(at(49_999), &key("a.example.")));
        assert!(!cache.rests(at(50_000), &key("a.example.")));
        let none = Body::empty(Outcome::NoName, 10);
        cache.keep(at(20_000), key("a.example."), none.clone());
        assert_eq!(cache.look(at(20_000), &key("a.example.")).unwrap().0, none);
    }

    #[test]
    fn names_by_chance_push_out_each_other_alone() {
        let mut cache = Cache::new(LIMITS);
        for n in 0..20 {
            let name = key(&format!("wanted{n}.example."));
            cache.keep(at(0), name.clone(), address(n, 1000));
            cache.look(at(1), &name).unwrap();
        }
        for n in 0..5000 {
            cache.keep(at(2), key(&format!("chance{n}.example.")), address(0, 1000));
        }
        cache.check();
        assert_eq!(cache.len(), LIMITS.entries);
        assert_eq!(cache.evicted(), 4980);
        let all = (0..20).all(|n| {
            cache
                .look(at(3), &key(&format!("wanted{n}.example.")))
                .is_some()
        });
        assert!(all, "a name that was asked for again is gone");
    }

    #[test]
    fn new_names_have_a_quarter_of_the_room() {
        let mut cache = Cache::new(LIMITS);
        for n in 0..200 {
            let name = key(&format!("n{n}.example."));
            cache.keep(at(0), name.clone(), address(0, 1000));
            cache.look(at(0), &name).unwrap();
            cache.check();
        }
        assert_eq!(cache.wanted.0, 30);
    }

    #[test]
    fn octets_are_limited_and_what_is_too_long_is_not_kept() {
        let mut cache = Cache::new(LIMITS);
        let long = |octets: usize| Body {
            outcome: Outcome::Records,
            zone: 0,
            life_s: 100,
            records: vec![vec![0; octets]],
        };
        for n in 0..30 {
            let name = Name::from_str(&format!("n{n}.example.")).unwrap();
            let name = Key::new(&name, RecordType::TXT, Care::default());
            cache.keep(at(0), name, long(1000));
            cache.check();
        }
        assert!(cache.len() < 8);
        let before = cache.len();
        cache.keep(at(0), key("long.example."), long(2000));
        assert_eq!(cache.len(), before);
        assert!(cache.look(at(0), &key("long.example.")).is_none());
    }
}
