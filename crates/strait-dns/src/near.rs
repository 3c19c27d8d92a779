//! The side of those who ask.
//!
//! **One question, one crossing**: what several clients ask at a time, or one repeats, crosses the
//! link once, and A, AAAA and HTTPS of a name that are asked together cross in one frame.
//!
//! **Times follow from the link**: how long an answer may take is what the link needs, and what
//! answers took so far. A client that has waited for so long that it is about to give up hears that
//! nothing is known yet, and why; the answer that comes later is kept for its next try.
//!
//! **Stale** answers (RFC 8767) are told at once where the link can't bring a fresh one in the time
//! that clients wait gladly.
//!
//! **Shares**: questions take a quarter of the line at most, and of many clients those with the
//! fewest questions on their way go first.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use hickory_proto::rr::{Name, RecordType};
use strait_core::chance::Stream as Chance;
use strait_core::prefix::Prefix;
use strait_core::stats::DnsStats;
use strait_core::{Duration, Instant};

use crate::body::{Body, Outcome};
use crate::cache::{Age, Cache, Key, Limits};
use crate::frame::{Care, Frame, Types};
use crate::message::{self, Heard, Manner, Question, cause};
use crate::saved::{self, Saved};

/// Questions that are on their way or wait to be, and those of one client.
pub const CROSSINGS_MAX: usize = 256;
const CROSSINGS_OF_ONE_MAX: usize = 32;
/// Clients' messages that wait for answers, and those that wait for one answer.
pub const WAITERS_MAX: usize = 4096;
const WAITERS_OF_ONE_MAX: usize = 512;
/// How long a question waits for others for its name: programs ask for several types at once.
const GATHER: Duration = Duration::from_millis(20);
/// How often a question is sent, at most.
const TRIES_MAX: u32 = 3;
/// How long an answer is listened to that didn't come in time.
const LISTENS: Duration = Duration::from_secs(300);
/// How long a question that can't leave is kept for the next try of those who asked.
const KEPT: Duration = Duration::from_secs(60);
/// How long clients wait gladly where something stale could be told (RFC 8767 section 5).
const GLADLY: Duration = Duration::from_millis(1800);
/// The life of stale answers (RFC 8767 section 4).
const STALE_LIFE_S: u32 = 30;
/// Answers hold for twice the time that they take, if that isn't longer than this: those who have
/// given up meanwhile find them at their next try.
const LIFE_LEAST_MAX_S: u64 = 60;
/// For how long a failure holds, in seconds (RFC 9520 section 3.2).
const FAILED_S: (u64, u64) = (1, 300);
/// Line time of a question that the next waits for.
const SPACING: u32 = 4;
/// Octets of headers around a frame.
const HEADERS: u64 = 28;

/// Who asks, and by which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client {
    /// The socket that it asked.
    pub socket: u32,
    /// Its address.
    pub address: SocketAddr,
    /// The address that it asked.
    pub local: SocketAddr,
    /// The stream by which it asked, if by one.
    pub stream: Option<u64>,
}

/// How it is with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// How long a question and its answer take at least, with what waits before them.
    pub turnaround: Duration,
    /// Its rate.
    pub bit_s: u64,
}

/// How a proxy is to be.
#[derive(Clone, Debug)]
pub struct NearSettings {
    /// How much is kept.
    pub limits: Limits,
    /// How long clients wait before they give up.
    pub patience: Duration,
    /// Who may ask, beside programs of this host.
    pub clients: Vec<Prefix>,
    /// What is known is to outlive it.
    pub saves: bool,
    /// By partner, the names that it is asked for.
    pub zones: Vec<Vec<Name>>,
}

#[derive(Debug)]
struct Waiter {
    client: Client,
    question: Question,
    until: Instant,
}

/// A question on its way.
#[derive(Debug)]
struct Crossing {
    partner: usize,
    name: Name,
    types: Types,
    care: Care,
    /// Who asked first.
    by: IpAddr,
    /// When it was asked for last.
    wanted: Instant,
    /// When it was sent first and last.
    sent: Option<(Instant, Instant)>,
    tries: u32,
    /// When it is to be sent, given up, or forgotten.
    due: Instant,
    /// Nobody waits for its answer any more, but it may come.
    given_up: bool,
    waiters: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Way {
    link: Option<LinkState>,
    /// The mean of what answers took, and by how much single ones differ.
    took: Option<(Duration, Duration)>,
    /// When the line has room for a question.
    next: Instant,
}

impl Way {
    /// How long an answer may take (RFC 6298 section 2).
    fn patience(&self, link: LinkState) -> Duration {
        let took = self.took.map(|(mean, spread)| mean + spread * 4);
        took.map_or(link.turnaround, |took| took.max(link.turnaround))
    }

    fn measure(&mut self, took: Duration) {
        self.took = Some(match self.took {
            None => (took, took / 2),
            Some((mean, spread)) => {
                let error = mean.abs_diff(took);
                ((mean * 7 + took) / 8, (spread * 3 + error) / 4)
            }
        });
    }
}

/// The side of those who ask.
#[derive(Debug)]
pub struct Near {
    settings: NearSettings,
    cache: Cache,
    crossings: BTreeMap<u16, Crossing>,
    ways: Vec<Way>,
    replies: VecDeque<(Client, Vec<u8>)>,
    /// What is known since it was saved last, where that is to be.
    unsaved: Option<Vec<u8>>,
    /// Seconds since 1970 at a moment, where that is known.
    calendar: Option<(Instant, u64)>,
    chance: Chance,
    stats: DnsStats,
}

impl Near {
    /// One that knows nothing. Numbers of questions follow from `seed`.
    pub fn new(settings: NearSettings, seed: u64) -> Self {
        Self {
            cache: Cache::new(settings.limits),
            crossings: BTreeMap::new(),
            ways: settings.zones.iter().map(|_| Way::default()).collect(),
            replies: VecDeque::new(),
            unsaved: settings.saves.then(Vec::new),
            calendar: None,
            chance: Chance::new(seed, "dns.near"),
            stats: DnsStats::default(),
            settings,
        }
    }

    /// What it has counted.
    pub fn stats(&self) -> DnsStats {
        DnsStats {
            known: self.cache.len() as u64,
            known_octets: self.cache.octets() as u64,
            evicted: self.cache.evicted(),
            ..self.stats
        }
    }

    /// What it knows.
    pub const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Asserts that limits hold.
    pub fn check(&self) {
        self.cache.check();
        assert!(self.crossings.len() <= CROSSINGS_MAX, "too many questions");
        assert!(self.waiters() <= WAITERS_MAX, "too many clients wait");
    }

    fn waiters(&self) -> usize {
        self.crossings.values().map(|it| it.waiters.len()).sum()
    }

    /// A client says something.
    pub fn hear_client(&mut self, now: Instant, client: Client, octets: &[u8]) {
        let address = client.address.ip();
        let mut allowed = self.settings.clients.iter();
        if !address.is_loopback() && !allowed.any(|it| it.contains(address)) {
            self.stats.refused += 1;
            return;
        }
        match message::hear(octets) {
            Heard::Question(question) => self.take(now, client, question),
            Heard::Wrong(reply) => {
                self.stats.malformed += 1;
                self.replies.push_back((client, reply));
            }
            Heard::Nothing => self.stats.malformed += 1,
        }
    }

    fn take(&mut self, now: Instant, client: Client, question: Question) {
        self.stats.questions += 1;
        let Some(partner) = self.partner_of(&question.name) else {
            return self.fail(client, &question, cause::PROHIBITED);
        };
        let stale = match self.known(now, &question) {
            Some((body, Age::Fresh(life_s))) => {
                self.stats.hits += 1;
                let manner = Manner {
                    life_s,
                    ..Manner::default()
                };
                return self.reply(client, &question, &body, manner);
            }
            Some((body, Age::Stale)) if body.is_known() => Some(body),
            _ => None,
        };
        let key = Key::new(&question.name, question.kind, question.care);
        let rests = self.cache.rests(now, &key);
        let way = self.ways[partner];
        let quick = !rests && way.link.is_some_and(|link| way.patience(link) <= GLADLY);
        let patience = match &stale {
            Some(_) if quick => GLADLY,
            _ => self.settings.patience,
        };
        let waits = stale.is_none() || quick;
        if let Some(body) = stale.filter(|_| !waits) {
            self.tell_stale(client, &question, &body);
        }
        if rests {
            return;
        }
        let waiter = Waiter {
            client,
            question,
            until: now + patience,
        };
        self.ask(now, partner, waiter, waits);
    }

    /// What is known for a question; that there is no such name holds for all types.
    fn known(&mut self, now: Instant, question: &Question) -> Option<(Body, Age)> {
        let key = Key::new(&question.name, question.kind, question.care);
        let none = Key {
            kind: 0,
            ..key.clone()
        };
        let missing = self.cache.look(now, &none);
        let missing = missing.filter(|(_, age)| *age != Age::Stale);
        missing.or_else(|| self.cache.look(now, &key))
    }

    /// The partner with the longest zone that a name is in.
    fn partner_of(&self, name: &Name) -> Option<usize> {
        let zones = self.settings.zones.iter().enumerate();
        let all = zones.flat_map(|(at, zones)| zones.iter().map(move |zone| (zone, at)));
        let own = all.filter(|(zone, _)| zone.zone_of(name));
        let longest = own.max_by_key(|(zone, at)| (zone.num_labels(), usize::MAX - at));
        longest.map(|(_, at)| at)
    }

    fn reply(&mut self, client: Client, question: &Question, body: &Body, manner: Manner) {
        let manner = Manner {
            stream: client.stream.is_some(),
            ..manner
        };
        let octets = message::reply(question, body, manner);
        self.replies.push_back((client, octets));
    }

    fn tell_stale(&mut self, client: Client, question: &Question, body: &Body) {
        self.stats.stale += 1;
        let cause = match body.outcome {
            Outcome::NoName => cause::STALE_NO_NAME,
            _ => cause::STALE,
        };
        let manner = Manner {
            life_s: STALE_LIFE_S,
            cause: Some(cause),
            stream: false,
        };
        self.reply(client, question, body, manner);
    }

    fn fail(&mut self, client: Client, question: &Question, cause: u16) {
        let body = Body::empty(Outcome::Failure(cause), 0);
        self.reply(client, question, &body, Manner::default());
    }

    /// Has a question cross, unless it does already. `waits`: for its client, who has no answer.
    fn ask(&mut self, now: Instant, partner: usize, waiter: Waiter, waits: bool) {
        let question = &waiter.question;
        let kind = Types::of(question.kind);
        let care = question.care;
        let mut like = self
            .crossings
            .iter_mut()
            .filter(|(_, it)| it.partner == partner && it.care == care && it.name == question.name);
        let found = like.find_map(|(id, it)| {
            if it.types.has(question.kind) {
                if core::mem::take(&mut it.given_up) {
                    (it.tries, it.due) = (0, now);
                }
                return Some((*id, true));
            }
            it.types = it.types.with(kind).filter(|_| it.tries == 0)?;
            Some((*id, false))
        });
        let id = match found {
            Some((id, joins)) => {
                self.stats.joined += u64::from(joins && waits);
                id
            }
            None => match self.open(now, partner, &waiter) {
                Some(id) => id,
                None if waits => {
                    self.stats.full += 1;
                    return self.fail(waiter.client, &waiter.question, cause::NOT_READY);
                }
                None => return,
            },
        };
        let room = self.waiters() < WAITERS_MAX;
        let Some(crossing) = self.crossings.get_mut(&id) else {
            return;
        };
        crossing.wanted = now;
        if !waits {
            return;
        }
        let mut waiters = crossing.waiters.iter();
        if waiters.any(|it| it.client == waiter.client && it.question == waiter.question) {
            self.stats.repeats += 1;
            return;
        }
        if !room || crossing.waiters.len() >= WAITERS_OF_ONE_MAX {
            self.stats.full += 1;
            return self.fail(waiter.client, &waiter.question, cause::NOT_READY);
        }
        crossing.waiters.push(waiter);
    }

    /// Begins a crossing, if there may be another.
    fn open(&mut self, now: Instant, partner: usize, waiter: &Waiter) -> Option<u16> {
        let by = waiter.client.address.ip();
        let own = self.crossings.values();
        let own = own.filter(|it| it.by == by && !it.given_up).count();
        if own >= CROSSINGS_OF_ONE_MAX {
            return None;
        }
        if self.crossings.len() >= CROSSINGS_MAX {
            let given_up = self.crossings.iter().filter(|(_, it)| it.given_up);
            let oldest = given_up.min_by_key(|(_, it)| it.due);
            let oldest = *oldest?.0;
            self.crossings.remove(&oldest);
        }
        let id = loop {
            let id = self.chance.draw() as u16;
            if !self.crossings.contains_key(&id) {
                break id;
            }
        };
        let crossing = Crossing {
            partner,
            name: waiter.question.name.to_lowercase(),
            types: Types::of(waiter.question.kind),
            care: waiter.question.care,
            by,
            wanted: now,
            sent: None,
            tries: 0,
            due: now + GATHER,
            given_up: false,
            waiters: Vec::new(),
        };
        self.crossings.insert(id, crossing);
        Some(id)
    }

    /// A partner says something.
    pub fn hear_partner(&mut self, now: Instant, partner: usize, octets: &[u8]) {
        let Some(Frame::Answer { id, types, bodies }) = Frame::read(octets) else {
            self.stats.malformed += 1;
            return;
        };
        let crossing = self.crossings.get(&id);
        let crossing = crossing.filter(|it| it.partner == partner && it.sent.is_some());
        let Some(crossing) = crossing.filter(|it| types.iter().all(|kind| it.types.has(kind)))
        else {
            self.stats.unasked += 1;
            return;
        };
        self.stats.answered += 1;
        self.stats.octets_in += octets.len() as u64;
        let way = &mut self.ways[partner];
        if let Some((first, last)) = crossing.sent {
            // Of an answer that comes sooner than any could, the question is an earlier one.
            let soon = way
                .link
                .is_some_and(|it| now.since(last) < it.turnaround / 2);
            if crossing.tries == 1 || crossing.given_up || soon {
                way.measure(now.since(first));
            }
        }
        for (kind, body) in types.iter().zip(bodies) {
            self.settle(now, id, kind, body);
        }
    }

    /// Something has become known for a type that a question asks for.
    fn settle(&mut self, now: Instant, id: u16, kind: RecordType, mut body: Body) {
        let Some(crossing) = self.crossings.get_mut(&id) else {
            return;
        };
        let took = self.ways[crossing.partner].took;
        let least_s = took.map_or(0, |(mean, _)| (mean * 2).as_secs().min(LIFE_LEAST_MAX_S));
        body.life_s = body.life_s.max(least_s as u32);
        let mut key = Key::new(&crossing.name, kind, crossing.care);
        let (served, left) = core::mem::take(&mut crossing.waiters)
            .into_iter()
            .partition::<Vec<_>, _>(|it| it.question.kind == kind);
        crossing.waiters = left;
        match crossing.types.without(kind) {
            Some(types) => crossing.types = types,
            None => {
                self.crossings.remove(&id);
            }
        }
        if body.outcome == Outcome::NoName {
            key.kind = 0;
        }
        let before = self.cache.look(now, &key).map(|(before, _)| before);
        let stale = before.filter(|it| it.is_known() && !body.is_known());
        self.save(now, &key, &body);
        self.cache.keep(now, key, body.clone());
        for waiter in served {
            let Waiter {
                client, question, ..
            } = waiter;
            match &stale {
                Some(stale) => self.tell_stale(client, &question, stale),
                None => {
                    let manner = Manner {
                        life_s: body.life_s,
                        ..Manner::default()
                    };
                    self.reply(client, &question, &body, manner);
                }
            }
        }
    }

    /// What time it is, in seconds since 1970.
    pub const fn set_calendar(&mut self, now: Instant, since_1970_s: u64) {
        self.calendar = Some((now, since_1970_s));
    }

    fn today_s(&self, now: Instant) -> Option<u32> {
        let (at, seconds) = self.calendar?;
        u32::try_from(seconds + now.since(at).as_secs()).ok()
    }

    fn save(&mut self, now: Instant, key: &Key, body: &Body) {
        let today_s = self.today_s(now);
        let known = body.is_known() && body.life_s > 0;
        if let Some(unsaved) = self.unsaved.as_mut().filter(|_| known) {
            saved::write(key, body, today_s, unsaved);
        }
    }

    /// What has become known since it was taken last, to be appended to what is saved.
    pub fn take_unsaved(&mut self) -> Vec<u8> {
        self.unsaved
            .as_mut()
            .map(core::mem::take)
            .unwrap_or_default()
    }

    /// Octets of that.
    pub fn unsaved_octets(&self) -> usize {
        self.unsaved.as_ref().map_or(0, Vec::len)
    }

    /// All that is known, to take the place of what is saved.
    pub fn saved(&mut self, now: Instant) -> Vec<u8> {
        self.take_unsaved();
        let mut out = Vec::new();
        let known = self.cache.iter().filter(|(_, body, _)| body.is_known());
        for (key, body, fresh) in known {
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
            let Some(Saved { key, body, came_s }) = entry else {
                continue;
            };
            let ago_s = today_s
                .zip(came_s)
                .and_then(|(now, came)| now.checked_sub(came));
            let ago = ago_s.map(|it| Duration::from_secs(u64::from(it)));
            self.cache.restore(now, key, body, ago);
        }
        octets.len() - rest.len()
    }

    /// How it is with the link to a partner; `None` if none leads there.
    pub fn set_link(&mut self, partner: usize, link: Option<LinkState>) {
        if let Some(way) = self.ways.get_mut(partner) {
            way.link = link;
        }
    }

    /// Does what is due.
    pub fn tend(&mut self, now: Instant) {
        let ids: Vec<u16> = self.crossings.keys().copied().collect();
        for id in ids {
            self.tend_one(now, id);
        }
    }

    fn tend_one(&mut self, now: Instant, id: u16) {
        let Some(crossing) = self.crossings.get_mut(&id) else {
            return;
        };
        let way = self.ways[crossing.partner];
        let (gone, left) = core::mem::take(&mut crossing.waiters)
            .into_iter()
            .partition::<Vec<_>, _>(|it| it.until <= now);
        crossing.waiters = left;
        let over = crossing.tries >= TRIES_MAX && crossing.due <= now;
        let lost = way.link.is_some() && over && !crossing.given_up;
        let forgotten = over && crossing.given_up;
        let idle = crossing.waiters.is_empty() && crossing.wanted + KEPT <= now;
        let dropped = way.link.is_none() && idle && !crossing.given_up;
        for waiter in gone {
            self.give_up(now, way.link.is_some(), waiter);
        }
        if lost {
            self.lose(now, id, way);
        } else if dropped || forgotten {
            self.stats.lost += u64::from(!forgotten);
            self.crossings.remove(&id);
        }
    }

    /// A client is about to give up.
    fn give_up(&mut self, now: Instant, linked: bool, waiter: Waiter) {
        let Waiter {
            client, question, ..
        } = waiter;
        match self.known(now, &question) {
            Some((body, _)) if body.is_known() => self.tell_stale(client, &question, &body),
            _ => {
                self.stats.late += 1;
                let cause = if linked {
                    cause::UNREACHABLE
                } else {
                    cause::NETWORK
                };
                self.fail(client, &question, cause);
            }
        }
    }

    /// Nobody answers. What comes all the same is listened to for a while.
    fn lose(&mut self, now: Instant, id: u16, way: Way) {
        let Some(crossing) = self.crossings.get_mut(&id) else {
            return;
        };
        self.stats.lost += 1;
        crossing.given_up = true;
        crossing.due = now + LISTENS;
        let (name, care) = (crossing.name.clone(), crossing.care);
        let kinds: Vec<RecordType> = crossing.types.iter().collect();
        let waiters = core::mem::take(&mut crossing.waiters);
        let patience = way.link.map_or(Duration::ZERO, |link| way.patience(link));
        let life_s = patience.as_secs().clamp(FAILED_S.0, FAILED_S.1) as u32;
        for kind in kinds {
            let body = Body::empty(Outcome::Failure(cause::UNREACHABLE), life_s);
            self.cache.keep(now, Key::new(&name, kind, care), body);
        }
        for waiter in waiters {
            self.give_up(now, true, waiter);
        }
    }

    /// The next answer for a client.
    pub fn poll_reply(&mut self) -> Option<(Client, Vec<u8>)> {
        self.replies.pop_front()
    }

    /// The next question for a partner, if it is time for one.
    pub fn poll_frame(&mut self, now: Instant, partner: usize) -> Option<Vec<u8>> {
        let way = self.ways.get(partner)?;
        let link = way.link.filter(|_| way.next <= now)?;
        let id = self.next_to(partner, now)?;
        let patience = way.patience(link);
        let crossing = self.crossings.get_mut(&id)?;
        let frame = Frame::Question {
            id,
            types: crossing.types,
            care: crossing.care,
            name: crossing.name.clone(),
        };
        let octets = frame.to_vec();
        // Longer each time: what was expected was too little, or the link loses.
        crossing.due = now + patience * (1 << crossing.tries);
        crossing.tries += 1;
        let first = crossing.sent.map_or(now, |(first, _)| first);
        crossing.sent = Some((first, now));
        if crossing.tries == 1 {
            self.stats.asked += 1;
        } else {
            self.stats.asked_again += 1;
        }
        self.stats.octets_out += octets.len() as u64;
        let line = octets.len() as u64 + HEADERS;
        let line = Duration::from_nanos(line * 8_000_000_000 / link.bit_s.max(1));
        self.ways[partner].next = now + line * SPACING;
        Some(octets)
    }

    /// Which question goes next: of the client that has the fewest on their way, the oldest.
    fn next_to(&self, partner: usize, now: Instant) -> Option<u16> {
        let mut sent: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for crossing in self
            .crossings
            .values()
            .filter(|it| it.tries > 0 && !it.given_up)
        {
            *sent.entry(crossing.by).or_default() += 1;
        }
        let ready = self.crossings.iter().filter(|(_, it)| {
            it.partner == partner && it.due <= now && it.tries < TRIES_MAX && !it.given_up
        });
        let place = |it: &Crossing| (sent.get(&it.by).copied().unwrap_or(0), it.due);
        let first = ready.min_by_key(|(_, it)| place(it));
        first.map(|(id, _)| *id)
    }

    /// When it has something to do.
    pub fn wake(&self) -> Option<Instant> {
        let crossings = self.crossings.values();
        let times = crossings.flat_map(|it| {
            let way = &self.ways[it.partner];
            let due = match way.link {
                _ if it.given_up => it.due,
                Some(_) if it.tries < TRIES_MAX => it.due.max(way.next),
                Some(_) => it.due,
                None => it.wanted + KEPT,
            };
            let kept = way.link.is_some() || it.given_up || it.waiters.is_empty();
            let own = Some(due).filter(|_| kept);
            it.waiters.iter().map(|it| it.until).chain(own)
        });
        times.min()
    }
}

#[cfg(test)]
#[path = "near_tests.rs"]
mod tests;
