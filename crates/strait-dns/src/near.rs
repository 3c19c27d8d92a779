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
//! **Ahead** of answers, where that is wanted, names have addresses of a reserved range at once:
//! the question that crosses says which, and the far side knows what is meant by them.
//!
//! **Shares**: questions take a quarter of the line at most, and of many clients those with the
//! fewest questions on their way go first.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use hickory_proto::rr::{Name, RecordType};
use strait_core::names::NameEntry;
use strait_core::prefix::Prefix;
use strait_core::stats::DnsStats;
use strait_core::{Duration, Instant};

use crate::body::{Body, Outcome};
use crate::cache::{Age, Cache, Key, Limits};
pub use crate::crossing::{CROSSINGS_MAX, WAITERS_MAX};
use crate::crossing::{Crossings, Lapse, WAITERS_OF_ONE_MAX, Waiter};
use crate::frame::{Care, Frame, Types, sum_of};
use crate::gains::Gains;
use crate::memory::Memory;
use crate::message::{self, Heard, Manner, Question, cause};
use crate::name;
use crate::partners::Partners;
use crate::replies::Replies;
use crate::rules::{self, Rule, Verdict};
use crate::watched::WATCHES_MAX;
pub use crate::way::LinkState;
use crate::way::Way;

/// How long an answer is listened to that didn't come in time.
const LISTENS: Duration = Duration::from_secs(300);
/// How long clients wait gladly where something stale could be told (RFC 8767 section 5).
const GLADLY: Duration = Duration::from_millis(1800);
/// Answers hold for twice the time that they take, if that isn't longer than this: those who have
/// given up meanwhile find them at their next try.
const LIFE_LEAST_MAX_S: u64 = 60;
/// For how long a failure holds, in seconds (RFC 9520 section 3.2).
const FAILED_S: (u64, u64) = (1, 300);
/// The part of a turn that a question waits for who was told an address ahead.
const LINGERS: u32 = 32;
/// Line time of a question that the next waits for.
const SPACING: u32 = 4;
/// Addresses in a frame that a partner is told the names of.
const STRANGE_MAX: usize = 64;
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
    /// By partner, the names that it is asked for. Behind the last of them is this gateway itself.
    pub zones: Vec<Vec<Name>>,
    /// What is to become of some names.
    pub rules: Vec<Rule>,
    /// Names in use are kept fresh by partners.
    pub watches: bool,
    /// Addresses of IPv4 that names have before they are known, if they have any.
    pub ahead: Option<Prefix>,
    /// Whether clients hear these. If not, names have them that are connected to by name.
    pub tells_ahead: bool,
}

/// The side of those who ask.
#[derive(Debug)]
pub struct Near {
    settings: NearSettings,
    memory: Memory,
    crossings: Crossings,
    partners: Partners,
    replies: Replies,
    gains: Gains,
    stats: DnsStats,
}

impl Near {
    /// One that knows nothing. Numbers of questions follow from `seed`.
    pub fn new(settings: NearSettings, seed: u64) -> Self {
        Self {
            memory: Memory::new(settings.limits, settings.saves, settings.ahead),
            crossings: Crossings::new(seed),
            partners: Partners::new(settings.zones.clone()),
            replies: Replies::default(),
            gains: Gains::default(),
            stats: DnsStats::default(),
            settings,
        }
    }

    /// What it has counted.
    pub fn stats(&self) -> DnsStats {
        let mut stats = DnsStats {
            known: self.memory.cache.len() as u64,
            known_octets: self.memory.cache.octets() as u64,
            evicted: self.memory.cache.evicted(),
            ..self.stats
        };
        stats.fresh.watched = self.partners.watched();
        stats
    }

    /// What it knows of names.
    pub const fn cache(&self) -> &Cache {
        &self.memory.cache
    }

    /// What it knows.
    pub const fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The same, to be saved and restored.
    pub const fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// All that it asks for and knows, questions first.
    pub fn names(&self, now: Instant) -> Vec<NameEntry> {
        let asked = self.crossings.iter().filter(|(_, it)| !it.given_up);
        let asked = asked.map(|(_, it)| it.told(now));
        let known = self.memory.told(now, |key| self.partners.keep(now, key));
        asked.chain(known).collect()
    }

    /// Asserts that limits hold.
    pub fn check(&self) {
        self.memory.check();
        self.crossings.check();
        self.partners.check();
        self.gains.check();
    }

    /// A client says something.
    pub fn hear_client(&mut self, now: Instant, client: Client, octets: &[u8]) {
        if !self.serves(client.address.ip()) {
            self.stats.refused += 1;
            return;
        }
        self.stats.own.client_octets += octets.len() as u64;
        let before = self.replies.len();
        match message::hear(octets) {
            Heard::Question(question) => self.take(now, client, question),
            Heard::Wrong(reply) => {
                self.stats.malformed += 1;
                self.replies.raw(client, reply);
            }
            Heard::Nothing => self.stats.malformed += 1,
        }
        // Anybody may send a datagram in a client's name; who has a stream has heard us.
        if client.stream.is_none() && !client.address.ip().is_loopback() {
            let gains = &mut self.gains;
            let more = |reply: &[u8]| reply.len().saturating_sub(octets.len()) as u64;
            let allow = |reply: &[u8]| gains.allow(now, client.address.ip(), more(reply));
            self.stats.own.cut += self.replies.cut(before, allow);
        }
    }

    /// Whether somebody may ask.
    pub fn serves(&self, address: IpAddr) -> bool {
        let mut allowed = self.settings.clients.iter();
        address.is_loopback() || allowed.any(|it| it.contains(address))
    }

    fn take(&mut self, now: Instant, client: Client, question: Question) {
        self.stats.questions += 1;
        let partner = match rules::judge(&self.settings.rules, &question) {
            Verdict::Say(body, cause) => {
                self.stats.own.ruled += 1;
                let manner = Manner {
                    life_s: body.life_s,
                    cause,
                    ..Manner::default()
                };
                return self.replies.add(client, &question, &body, manner);
            }
            Verdict::AskHere => self.partners.own(),
            Verdict::Ask => match self.partners.of(&question.name) {
                Some(partner) => partner,
                None => return self.replies.failure(client, &question, cause::PROHIBITED),
            },
        };
        let stale = match self.known_by(now, partner, &question) {
            Some((body, Age::Fresh(life_s))) => {
                self.stats.hits += 1;
                let manner = Manner {
                    life_s,
                    ..Manner::default()
                };
                return self.replies.add(client, &question, &body, manner);
            }
            Some((body, Age::Stale)) if body.is_known() => Some(body),
            _ => None,
        };
        let key = Key::new(&question.name, question.kind, question.care);
        let rests = self.memory.cache.rests(now, &key);
        let way = self.partners.way(partner);
        let quick = !rests && way.link.is_some_and(|link| way.patience(link) <= GLADLY);
        let patience = match &stale {
            Some(_) if quick => GLADLY,
            _ => self.settings.patience,
        };
        let again = stale.is_some();
        let ahead = !again && self.answers_ahead(partner, client, &question);
        let waits = !ahead && (stale.is_none() || quick);
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
        self.ask(now, partner, waiter, (waits, again));
    }

    /// What is known for a question. What its partner keeps fresh doesn't grow old.
    fn known_by(
        &mut self,
        now: Instant,
        partner: usize,
        question: &Question,
    ) -> Option<(Body, Age)> {
        let key = Key::new(&question.name, question.kind, question.care);
        let watches = self.partners.watches_mut(partner);
        let mut watches = watches.filter(|_| question.care.is_usual());
        let fresh = watches
            .as_mut()
            .is_some_and(|it| it.use_fresh(now, &key.name, key.kind));
        let cache = &mut self.memory.cache;
        if fresh && let Some((body, _)) = cache.look(now, &key) {
            cache.renew(now, &key);
            let life_s = body.life_s;
            return Some((body, Age::Fresh(life_s)));
        }
        self.memory.known(now, question)
    }

    /// Tells a client the address by which a name goes that isn't known yet, if it goes by one and
    /// the link leads there.
    fn answers_ahead(&mut self, partner: usize, client: Client, question: &Question) -> bool {
        let linked = self.partners.way(partner).link.is_some() && partner < self.partners.own();
        let body = (linked && self.settings.tells_ahead)
            .then(|| self.memory.answer_ahead(question))
            .flatten();
        let Some(body) = body else {
            return false;
        };
        self.stats.own.ahead += 1;
        let manner = Manner {
            life_s: body.life_s,
            ..Manner::default()
        };
        self.replies.add(client, question, &body, manner);
        true
    }

    /// Whether names go by addresses here before they are known.
    pub const fn goes_ahead(&self) -> bool {
        self.settings.tells_ahead
    }

    /// The address by which a connection to a name is asked for, which is for somebody here, and
    /// the partner that knows it: the real one where that is known, else one of the range, whose
    /// question crosses now. `None` if there is no such name, or nobody to ask for it.
    pub fn address_of(
        &mut self,
        now: Instant,
        client: Client,
        name: &str,
    ) -> Option<(IpAddr, Option<usize>)> {
        let name = name::parse(name)?;
        self.stats.questions += 1;
        let mut unknown = None;
        for kind in [RecordType::A, RecordType::AAAA] {
            let question = Question::of(name.clone(), kind);
            let partner = match rules::judge(&self.settings.rules, &question) {
                Verdict::Say(body, _) => match body.address() {
                    Some(address) => return Some((address, None)),
                    None => continue,
                },
                // What this side's own resolvers know is no matter of partners.
                Verdict::AskHere => continue,
                Verdict::Ask => self.partners.of(&name)?,
            };
            if let Some((body, Age::Fresh(_))) = self.known_by(now, partner, &question) {
                if let Some(address) = body.address() {
                    self.stats.hits += 1;
                    return Some((address, Some(partner)));
                }
                continue;
            }
            let key = Key::new(&name, kind, question.care);
            if !self.memory.cache.rests(now, &key) {
                unknown = Some(partner);
                let until = now + self.settings.patience;
                let waiter = Waiter {
                    client,
                    question,
                    until,
                };
                self.ask(now, partner, waiter, (false, false));
            }
        }
        let partner = unknown?;
        let address = self.memory.give_ahead(&name)?;
        self.crossings.hurry(now, &name);
        Some((address.into(), Some(partner)))
    }

    /// The partner that knows what is meant by an address, if a name goes by it.
    pub fn partner_ahead(&self, address: Ipv4Addr) -> Option<usize> {
        let name = self.memory.name_ahead(address)?;
        self.partners.of(name)
    }

    /// Somebody sends to an address that stands for a name: its question doesn't wait for others.
    pub fn hurry(&mut self, now: Instant, address: Ipv4Addr) {
        if let Some(name) = self.memory.name_ahead(address) {
            self.crossings.hurry(now, name);
        }
    }

    /// A partner doesn't know which name goes by an address: it is told, by the question for it.
    fn tell_ahead(&mut self, now: Instant, partner: usize, address: Ipv4Addr) {
        let name = self.memory.name_ahead(address).cloned();
        let Some(name) = name.filter(|name| self.partners.of(name) == Some(partner)) else {
            self.stats.unasked += 1;
            return;
        };
        let question = Question::of(name, RecordType::A);
        if self.crossings.find(now, partner, &question).is_none() {
            self.open(now, (partner, address.into()), &question);
        }
    }

    fn tell_stale(&mut self, client: Client, question: &Question, body: &Body) {
        self.stats.stale += 1;
        self.replies.stale(client, question, body);
    }

    /// Has a question cross, unless it does already. `waits`: for its client, who has no answer.
    /// `again`: what was known is old.
    fn ask(
        &mut self,
        now: Instant,
        partner: usize,
        mut waiter: Waiter,
        (waits, again): (bool, bool),
    ) {
        let question = &waiter.question;
        let id = match self.crossings.find(now, partner, question) {
            Some((id, joins)) => {
                self.stats.joined += u64::from(joins && waits);
                id
            }
            None => match self.open(now, (partner, waiter.client.address.ip()), question) {
                Some(id) => {
                    if !waits && !again {
                        self.linger(id);
                    }
                    id
                }
                None if waits => {
                    self.stats.full += 1;
                    return self
                        .replies
                        .failure(waiter.client, &waiter.question, cause::NOT_READY);
                }
                None => return,
            },
        };
        let watches = self.partners.watches(partner);
        let watches = watches.filter(|_| self.settings.watches);
        let room = watches.is_some_and(|it| it.len() < WATCHES_MAX);
        let watch = again && room && waiter.question.care.is_usual();
        let room = self.crossings.waiters() < WAITERS_MAX;
        let Some(crossing) = self.crossings.by_id_mut(id) else {
            return;
        };
        crossing.wanted = now;
        crossing.watch |= watch && crossing.tries == 0;
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
            return self
                .replies
                .failure(waiter.client, &waiter.question, cause::NOT_READY);
        }
        // Whoever repeats a question from another port gives up as long after it asked first.
        let (address, kind) = (waiter.client.address.ip(), waiter.question.kind);
        let waiters = crossing.waiters.iter();
        let earlier = waiters.filter(|it| it.client.address.ip() == address);
        let earlier = earlier.filter(|it| it.question.kind == kind);
        if let Some(until) = earlier.map(|it| it.until).min() {
            waiter.until = waiter.until.min(until);
        }
        crossing.waiters.push(waiter);
    }

    /// Who was told an address ahead is about to connect to it: where a turn takes long, the
    /// question waits for that, to leave in the same one.
    fn linger(&mut self, id: u16) {
        let Some(crossing) = self.crossings.by_id_mut(id) else {
            return;
        };
        let link = self.partners.way(crossing.partner).link;
        crossing.due += link.map_or(Duration::ZERO, |link| link.turnaround / LINGERS);
    }

    /// Begins a crossing, if there may be another.
    fn open(
        &mut self,
        now: Instant,
        (partner, by): (usize, IpAddr),
        question: &Question,
    ) -> Option<u16> {
        let name = question.name.to_lowercase();
        let watches = self.partners.watches_mut(partner);
        if let Some(watches) = watches.filter(|_| question.care.is_usual()) {
            watches.leave_name(&name, question.kind);
        }
        let watches = self.partners.watches(partner);
        let taken = |id| watches.is_some_and(|it| it.has(id));
        self.crossings.open(now, (partner, by), question, taken)
    }

    /// A partner says something.
    pub fn hear_partner(&mut self, now: Instant, partner: usize, octets: &[u8]) {
        if partner != self.partners.own() {
            self.stats.octets_in += octets.len() as u64;
        }
        self.hear_frame(now, partner, octets);
    }

    /// A part of an answer came.
    fn hear_part(
        &mut self,
        now: Instant,
        (partner, id): (usize, u16),
        (at, of): (u8, u8),
        octets: Vec<u8>,
    ) {
        let crossing = self.crossings.by_id_mut(id);
        let crossing = crossing.filter(|it| it.partner == partner && it.sent.is_some());
        let Some(crossing) = crossing else {
            self.stats.unasked += 1;
            return;
        };
        // A part of parts is none.
        let whole = crossing.join(at, of, octets);
        let answer = whole.filter(|it| matches!(Frame::read(it), Some(Frame::Answer { .. })));
        answer
            .iter()
            .for_each(|it| self.hear_frame(now, partner, it));
    }

    fn hear_frame(&mut self, now: Instant, partner: usize, octets: &[u8]) {
        let watches = self.partners.watches_mut(partner);
        match (Frame::read(octets), watches) {
            (
                Some(Frame::Answer {
                    id,
                    types,
                    watched,
                    bodies,
                }),
                _,
            ) => self.hear_answer(now, (partner, id), types, watched, bodies),
            (Some(Frame::Part { id, at, of, octets }), _) => {
                self.hear_part(now, (partner, id), (at, of), octets);
            }
            (Some(Frame::Strange(addresses)), _) => {
                let each = addresses.into_iter().take(STRANGE_MAX);
                each.for_each(|it| self.tell_ahead(now, partner, it));
            }
            (Some(Frame::Hello(sum)), Some(watches)) => watches.hear_hello(now, sum),
            (Some(Frame::Gone { near: false, ids }), Some(watches)) => {
                ids.into_iter().for_each(|id| watches.forget(id));
            }
            _ => self.stats.malformed += 1,
        }
    }

    fn hear_answer(
        &mut self,
        now: Instant,
        (partner, id): (usize, u16),
        types: Types,
        watched: bool,
        bodies: Vec<Body>,
    ) {
        let crossing = self.crossings.by_id(id);
        let crossing = crossing.filter(|it| it.partner == partner && it.sent.is_some());
        let Some(crossing) = crossing.filter(|it| types.iter().all(|kind| it.types.has(kind)))
        else {
            return self.hear_change(now, (partner, id), types, watched, bodies);
        };
        self.stats.answered += u64::from(partner != self.partners.own());
        if let Some((way, (first, last))) = self.partners.way_mut(partner).zip(crossing.sent) {
            // Of an answer that comes sooner than any could, the question is an earlier one.
            let soon = way
                .link
                .is_some_and(|it| now.since(last) < it.turnaround / 2);
            if crossing.tries == 1 || crossing.given_up || soon {
                way.measure(now.since(first));
            }
        }
        let watches = self.partners.watches_mut(partner);
        let whole = watched && crossing.types == types && crossing.care.is_usual();
        let watches = watches.filter(|it| whole && it.len() < WATCHES_MAX);
        if let Some(watches) = watches {
            watches.keep(now, id, &crossing.name, types, sum_of(id, types, &bodies));
        }
        for (kind, body) in types.iter().zip(bodies) {
            self.settle(now, id, kind, body);
        }
    }

    /// A partner says more than it was asked: that something has changed which it keeps fresh.
    fn hear_change(
        &mut self,
        now: Instant,
        (partner, id): (usize, u16),
        types: Types,
        watched: bool,
        bodies: Vec<Body>,
    ) {
        let watches = self.partners.watches_mut(partner).filter(|_| watched);
        let sum = sum_of(id, types, &bodies);
        let name = watches.and_then(|it| it.change(now, id, types, sum));
        let Some(name) = name else {
            self.stats.unasked += 1;
            return;
        };
        self.stats.fresh.changes += 1;
        for (kind, body) in types.iter().zip(bodies) {
            let key = Key::new(&name, kind, Care::default());
            self.memory.keep(now, key, body);
        }
    }

    /// Something has become known for a type that a question asks for.
    fn settle(&mut self, now: Instant, id: u16, kind: RecordType, mut body: Body) {
        let Some(crossing) = self.crossings.by_id_mut(id) else {
            return;
        };
        let partner = crossing.partner;
        let took = self.partners.way(partner).took;
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
                self.crossings.remove(id);
            }
        }
        let watches = self.partners.watches(partner);
        if body.outcome == Outcome::NoName && !watches.is_some_and(|it| it.has(id)) {
            key.kind = 0;
        }
        let before = self.memory.cache.look(now, &key);
        let before = before.map(|(before, _)| before);
        let stale = before.filter(|it| it.is_known() && !body.is_known());
        self.memory.keep(now, key, body.clone());
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
                    self.replies.add(client, &question, &body, manner);
                }
            }
        }
    }

    /// How it is with the link to a partner; `None` if none leads there.
    pub fn set_link(&mut self, partner: usize, link: Option<LinkState>) {
        self.partners.set_link(partner, link);
    }

    /// Does what is due.
    pub fn tend(&mut self, now: Instant) {
        let ids: Vec<u16> = self.crossings.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.tend_one(now, id);
        }
        self.partners.tend(now);
    }

    fn tend_one(&mut self, now: Instant, id: u16) {
        let Some(crossing) = self.crossings.by_id_mut(id) else {
            return;
        };
        let way = self.partners.way(crossing.partner);
        let linked = way.link.is_some();
        let (gone, left) = core::mem::take(&mut crossing.waiters)
            .into_iter()
            .partition::<Vec<_>, _>(|it| it.until <= now);
        crossing.waiters = left;
        let lapse = crossing.lapse(now, linked);
        for waiter in gone {
            self.give_up(now, linked, waiter);
        }
        match lapse {
            Some(Lapse::Lost) => self.lose(now, id, way),
            Some(lapse) => {
                self.stats.lost += u64::from(lapse == Lapse::Dropped);
                self.crossings.remove(id);
            }
            None => {}
        }
    }

    /// A client is about to give up.
    fn give_up(&mut self, now: Instant, linked: bool, waiter: Waiter) {
        let Waiter {
            client, question, ..
        } = waiter;
        match self.memory.known(now, &question) {
            Some((body, _)) if body.is_known() => self.tell_stale(client, &question, &body),
            _ => {
                self.stats.late += 1;
                let cause = if linked {
                    cause::UNREACHABLE
                } else {
                    cause::NETWORK
                };
                self.replies.failure(client, &question, cause);
            }
        }
    }

    /// Nobody answers. What comes all the same is listened to for a while.
    fn lose(&mut self, now: Instant, id: u16, way: Way) {
        let Some(crossing) = self.crossings.by_id_mut(id) else {
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
            self.memory.keep(now, Key::new(&name, kind, care), body);
        }
        for waiter in waiters {
            self.give_up(now, true, waiter);
        }
    }

    /// The next answer for a client.
    pub fn poll_reply(&mut self) -> Option<(Client, Vec<u8>)> {
        let reply = self.replies.next()?;
        self.stats.own.client_octets += reply.1.len() as u64;
        Some(reply)
    }

    /// The next question for a partner, if it is time for one.
    pub fn poll_frame(&mut self, now: Instant, partner: usize) -> Option<Vec<u8>> {
        let way = self.partners.way(partner);
        let link = way.link.filter(|_| way.next <= now)?;
        let id = self.crossings.next_to(partner, now)?;
        let patience = way.patience(link);
        let crossing = self.crossings.by_id_mut(id)?;
        let named = crossing.care.is_usual() && crossing.types.has(RecordType::A);
        let ahead = self.memory.ahead_of(&crossing.name).filter(|_| named);
        let octets = crossing.send(now, id, patience, ahead);
        let again = crossing.tries > 1;
        if partner == self.partners.own() {
            // It crosses no link: a rule has resolvers of its own.
            self.stats.own.ruled += u64::from(!again);
            return Some(octets);
        }
        self.stats.asked += u64::from(!again);
        self.stats.asked_again += u64::from(again);
        self.stats.octets_out += octets.len() as u64;
        let line = octets.len() as u64 + HEADERS;
        let line = Duration::from_nanos(line * 8_000_000_000 / link.bit_s.max(1));
        if let Some(way) = self.partners.way_mut(partner) {
            way.next = now + line * SPACING;
        }
        Some(octets)
    }

    /// What is to be said to a partner when nothing else is: of what it keeps fresh.
    pub fn poll_quiet(&mut self, now: Instant, partner: usize) -> Option<Vec<u8>> {
        let octets = self.partners.poll_quiet(now, partner)?;
        self.stats.octets_out += octets.len() as u64;
        Some(octets)
    }

    /// When it has something to do.
    pub fn wake(&self) -> Option<Instant> {
        let crossings = self.crossings.wake(self.partners.ways());
        self.partners.wake().into_iter().chain(crossings).min()
    }
}

#[cfg(test)]
#[path = "near_tests.rs"]
mod tests;
