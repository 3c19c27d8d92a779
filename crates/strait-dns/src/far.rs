//! The side of the resolvers.
//!
//! A partner's question is asked of a resolver by a socket of its own, with a port, a number and
//! letters of its name by chance: whoever can't see it can't answer it (RFC 5452). All types of one
//! question are answered together. An answer is kept for a while: a question that comes again, as
//! its answer was lost, is answered by that.
//!
//! Nobody but partners is served, each so many questions at a time and a second.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::rr::{Name, RecordType};
use strait_core::chance::Stream as Chance;
use strait_core::stats::DnsStats;
use strait_core::{Duration, Instant};

use crate::body::{Body, Outcome};
use crate::frame::{Care, DATAGRAM_OCTETS, Frame, Types};
use crate::meanings::{Meanings, Meant};
use crate::message::{Ask, Judgement, cause};
use crate::watching::Watching;

/// Questions to resolvers at a time: each has a socket.
pub const ASKS_MAX: usize = 64;
/// Questions of partners, answered ones among them.
pub const JOBS_MAX: usize = 512;
/// Questions of a partner that may come at once, and a second later.
const BURST: u32 = 128;
const EACH_SECOND: u32 = 32;
/// How often a resolver is asked, and how long the first time is waited for.
const TRIES_MAX: u32 = 4;
const PATIENCE: Duration = Duration::from_millis(1500);
/// The same by a stream, which has to be opened before.
const PATIENCE_STREAM: Duration = Duration::from_secs(4);
/// How long an answer is kept for the partner.
const KEPT: Duration = Duration::from_secs(300);
/// For how long a failure holds, in seconds.
const FAILED_S: u32 = 5;
/// Ports by chance: those that nobody is known by.
const PORTS: core::ops::Range<u64> = 10_240..65_536;

/// Which resolvers are asked, and for how many partners.
#[derive(Clone, Debug, Default)]
pub struct FarSettings {
    /// Resolvers, the first being the best.
    pub resolvers: Vec<SocketAddr>,
    /// Those for the names of some zones. Of several zones the longest counts.
    pub zones: Vec<(Name, Vec<SocketAddr>)>,
    /// Partners. Behind the last of them is this gateway itself.
    pub partners: usize,
}

/// What is to be done with a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Have it, at this address.
    Open(SocketAddr),
    /// Send by it.
    Send(SocketAddr, Vec<u8>),
    /// Have a stream to there instead, and send by that.
    Connect(SocketAddr, Vec<u8>),
    /// Have it no more.
    Close,
}

/// What resolvers are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct JobId {
    partner: usize,
    /// The number of the partner's question.
    id: u16,
    /// Its answer is kept fresh: it is asked for anew.
    anew: bool,
}

#[derive(Debug)]
struct Job {
    name: Name,
    types: Types,
    care: Care,
    watch: bool,
    /// The address by which its name goes at the partner, until it has another.
    ahead: Option<Ipv4Addr>,
    /// What is known so far, in the order of the types.
    bodies: BTreeMap<u16, Body>,
    /// Its answer, and when that was given.
    answer: Option<(Instant, Vec<Vec<u8>>)>,
}

/// A question to a resolver.
#[derive(Debug)]
struct Open {
    job: JobId,
    ask: Ask,
    resolver: SocketAddr,
    tries: u32,
    until: Instant,
    /// By a stream: what has come of it.
    stream: Option<Vec<u8>>,
}

/// What a partner may ask yet.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: u32,
    since: Instant,
}

/// The side of the resolvers.
#[derive(Debug)]
pub struct Far {
    settings: FarSettings,
    allowances: Vec<Allowance>,
    jobs: BTreeMap<JobId, Job>,
    /// Types that wait for a socket.
    waiting: VecDeque<(JobId, RecordType)>,
    /// By the number of their socket.
    open: BTreeMap<u32, Open>,
    next: u32,
    wishes: VecDeque<(u32, Wish)>,
    frames: VecDeque<(usize, Vec<u8>)>,
    watching: Watching,
    meanings: Meanings,
    /// What partners are told that nobody waits for.
    quiet: VecDeque<(usize, Vec<u8>)>,
    chance: Chance,
    stats: DnsStats,
}

impl Far {
    /// One that has been asked nothing. Its chance follows from `seed`.
    pub fn new(settings: FarSettings, seed: u64) -> Self {
        let full = Allowance {
            left: BURST,
            since: Instant::ZERO,
        };
        Self {
            allowances: (0..=settings.partners).map(|_| full).collect(),
            watching: Watching::new(settings.partners),
            meanings: Meanings::default(),
            quiet: VecDeque::new(),
            settings,
            jobs: BTreeMap::new(),
            waiting: VecDeque::new(),
            open: BTreeMap::new(),
            next: 0,
            wishes: VecDeque::new(),
            frames: VecDeque::new(),
            chance: Chance::new(seed, "dns.far"),
            stats: DnsStats::default(),
        }
    }

    /// What it has counted.
    pub fn stats(&self) -> DnsStats {
        let mut stats = self.stats;
        stats.fresh.watching = self.watching.len() as u64;
        stats
    }

    /// Asserts that limits hold.
    pub fn check(&self) {
        assert!(self.jobs.len() <= JOBS_MAX, "too many questions");
        assert!(self.open.len() <= ASKS_MAX, "too many sockets");
        assert!(self.waiting.len() <= 3 * JOBS_MAX, "too many types wait");
        self.meanings.check();
    }

    /// A partner says something.
    pub fn hear_partner(&mut self, now: Instant, partner: usize, octets: &[u8]) {
        if partner < self.settings.partners {
            self.stats.octets_in += octets.len() as u64;
        }
        match Frame::read(octets) {
            Some(Frame::Question {
                id,
                types,
                care,
                watch,
                ahead,
                name,
            }) => {
                let job = Job {
                    name,
                    types,
                    care,
                    watch: watch && care.is_usual(),
                    ahead,
                    bodies: BTreeMap::new(),
                    answer: None,
                };
                self.hear_question(now, partner, id, job);
            }
            Some(Frame::Gone { near: true, ids }) => self.watching.hear_gone(now, partner, &ids),
            Some(Frame::Roll(entries)) => {
                for frame in self.watching.hear_roll(now, partner, &entries) {
                    self.tell_quietly(partner, &frame);
                }
            }
            _ => self.stats.malformed += 1,
        }
    }

    fn hear_question(&mut self, now: Instant, partner: usize, id: u16, job: Job) {
        let key = JobId {
            partner,
            id,
            anew: false,
        };
        if let Some(known) = self.jobs.get(&key) {
            if known.name == job.name && known.types == job.types && known.care == job.care {
                self.stats.served_again += 1;
                let kept = known.answer.iter().flat_map(|(_, frames)| frames.clone());
                let again: Vec<_> = kept.map(|frame| (partner, frame)).collect();
                self.frames.extend(again);
                return;
            }
            // It began anew.
            self.abandon(key);
        }
        if !self.admits(now, partner) || !self.has_room() {
            self.stats.unserved += 1;
            return;
        }
        self.stats.served += u64::from(partner < self.settings.partners);
        if let Some(address) = job.ahead {
            self.meanings.tell(now, partner, address);
        }
        self.begin(now, key, job);
    }

    /// Asks resolvers for all types.
    fn begin(&mut self, now: Instant, key: JobId, job: Job) {
        let types = job.types;
        let nobody = self.servers(&job.name).is_empty();
        self.jobs.insert(key, job);
        if nobody {
            self.stats.unserved += 1;
            for kind in types.iter() {
                self.settle(now, key, kind, failure(cause::NOT_READY));
            }
            return;
        }
        self.waiting.extend(types.iter().map(|kind| (key, kind)));
        self.ask_waiting(now);
    }

    /// Who is asked for a name.
    fn servers(&self, name: &Name) -> &[SocketAddr] {
        let own = self.settings.zones.iter();
        let own = own.filter(|(zone, _)| zone.zone_of(name));
        let longest = own.max_by_key(|(zone, _)| zone.num_labels());
        longest.map_or(&self.settings.resolvers, |(_, servers)| servers)
    }

    fn tell_quietly(&mut self, partner: usize, frame: &Frame) {
        self.quiet.push_back((partner, frame.to_vec()));
    }

    /// Whether a partner may ask now.
    fn admits(&mut self, now: Instant, partner: usize) -> bool {
        let Some(allowance) = self.allowances.get_mut(partner) else {
            return false;
        };
        let whole_s = now.since(allowance.since).as_secs();
        if whole_s > 0 {
            let more = u64::from(EACH_SECOND)
                .saturating_mul(whole_s)
                .min(u64::from(BURST)) as u32;
            allowance.left = (allowance.left + more).min(BURST);
            allowance.since += Duration::from_secs(whole_s);
        }
        match allowance.left.checked_sub(1) {
            Some(left) => allowance.left = left,
            None => return false,
        }
        true
    }

    /// Makes room for a question, by that which was answered first.
    fn has_room(&mut self) -> bool {
        if self.jobs.len() < JOBS_MAX {
            return true;
        }
        let answered = self.jobs.iter();
        let answered = answered.filter_map(|(id, job)| Some((job.answer.as_ref()?.0, *id)));
        let Some((_, oldest)) = answered.min() else {
            return false;
        };
        self.jobs.remove(&oldest);
        true
    }

    /// Forgets a question, and what was asked for it.
    fn abandon(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.waiting.retain(|(job, _)| *job != id);
        let own = self.open.iter().filter(|(_, it)| it.job == id);
        let own: Vec<u32> = own.map(|(n, _)| *n).collect();
        own.into_iter().for_each(|n| self.close(n));
    }

    fn close(&mut self, n: u32) {
        if self.open.remove(&n).is_some() {
            self.wishes.push_back((n, Wish::Close));
        }
    }

    /// Asks resolvers for what waits, as far as there are sockets.
    fn ask_waiting(&mut self, now: Instant) {
        while self.open.len() < ASKS_MAX {
            let Some((job, kind)) = self.waiting.pop_front() else {
                return;
            };
            self.ask(now, job, kind, 0);
        }
    }

    /// Asks a resolver; after so many tries, the next one.
    fn ask(&mut self, now: Instant, id: JobId, kind: RecordType, tries: u32) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let servers = self.servers(&job.name);
        let Some(resolver) = servers.get(tries as usize % servers.len().max(1)).copied() else {
            return;
        };
        let chance = &mut self.chance;
        let ask = Ask {
            id: chance.draw() as u16,
            name: Ask::with_letters(&job.name, || chance.draw() & 1 == 1),
            kind,
            care: job.care,
        };
        let port = PORTS.start + chance.below(PORTS.end - PORTS.start);
        let any: IpAddr = match resolver {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let n = self.number();
        let local = SocketAddr::new(any, port as u16);
        self.wishes.push_back((n, Wish::Open(local)));
        self.wishes
            .push_back((n, Wish::Send(resolver, ask.to_vec())));
        self.stats.resolvers.resolved += 1;
        let open = Open {
            job: id,
            ask,
            resolver,
            tries: tries + 1,
            until: now + PATIENCE * (1 << tries.min(4)),
            stream: None,
        };
        self.open.insert(n, open);
    }

    /// The number of another socket. Some are open; none of them has a number that comes again.
    const fn number(&mut self) -> u32 {
        let n = self.next;
        self.next = (self.next + 1) & (u32::MAX >> 2);
        n
    }

    /// A datagram came to a socket.
    pub fn hear_resolver(&mut self, now: Instant, n: u32, from: SocketAddr, octets: &[u8]) {
        let open = self.open.get(&n);
        let Some(open) = open.filter(|it| it.resolver == from && it.stream.is_none()) else {
            self.stats.resolvers.forged += 1;
            return;
        };
        match open.ask.judge(octets) {
            Judgement::Truncated => self.ask_by_stream(now, n),
            judgement => self.believe(now, n, judgement),
        }
    }

    /// Octets came by a stream (RFC 1035 section 4.2.2).
    pub fn hear_stream(&mut self, now: Instant, n: u32, octets: &[u8]) {
        let open = self.open.get_mut(&n);
        let Some((open, stream)) = open.and_then(|it| it.stream.take().map(|stream| (it, stream)))
        else {
            return;
        };
        let all = [&stream[..], octets].concat();
        let length = all.first_chunk().map(|it| u16::from_be_bytes(*it));
        let length = length.map_or(usize::MAX, |it| usize::from(it) + 2);
        let message = all.get(2..length);
        let judgement = message.map(|message| open.ask.judge(message));
        open.stream = Some(all);
        match judgement {
            None => {}
            // By a stream nothing is too long.
            Some(Judgement::Truncated | Judgement::Forged) => {
                self.believe(now, n, Judgement::Failed(cause::INVALID));
            }
            Some(judgement) => self.believe(now, n, judgement),
        }
    }

    fn believe(&mut self, now: Instant, n: u32, judgement: Judgement) {
        let Some(open) = self.open.get(&n) else {
            return;
        };
        let job = self.jobs.get(&open.job);
        let servers = job.map_or(0, |it| self.servers(&it.name).len());
        match judgement {
            Judgement::Forged | Judgement::Truncated => self.stats.resolvers.forged += 1,
            // A resolver that can't say isn't asked again (RFC 9520), but the next one is.
            Judgement::Failed(cause) if open.tries as usize >= servers => {
                self.conclude(now, n, failure(cause));
            }
            Judgement::Failed(cause) => self.try_again(now, n, cause),
            Judgement::Known(body) => self.conclude(now, n, body),
        }
    }

    /// Asks the same resolver by a stream: its answer is too long for a datagram.
    fn ask_by_stream(&mut self, now: Instant, n: u32) {
        let Some(mut open) = self.open.remove(&n) else {
            return;
        };
        self.wishes.push_back((n, Wish::Close));
        let n = self.number();
        self.stats.resolvers.by_stream += 1;
        self.wishes
            .push_back((n, Wish::Connect(open.resolver, open.ask.to_vec())));
        open.stream = Some(Vec::new());
        open.until = now + PATIENCE_STREAM;
        self.open.insert(n, open);
    }

    /// A socket can't be had.
    pub fn miss(&mut self, now: Instant, n: u32) {
        if self.open.contains_key(&n) {
            self.try_again(now, n, cause::NETWORK);
        }
    }

    /// Asks again, by another socket.
    fn try_again(&mut self, now: Instant, n: u32, cause: u16) {
        let Some(open) = self.open.get(&n) else {
            return;
        };
        let (job, kind, tries) = (open.job, open.ask.kind, open.tries);
        if tries >= TRIES_MAX {
            return self.conclude(now, n, failure(cause));
        }
        self.close(n);
        self.ask(now, job, kind, tries);
    }

    /// A resolver has answered, or doesn't.
    fn conclude(&mut self, now: Instant, n: u32, body: Body) {
        let Some(open) = self.open.get(&n) else {
            return;
        };
        let (job, kind) = (open.job, open.ask.kind);
        self.close(n);
        self.settle(now, job, kind, body);
        self.ask_waiting(now);
    }

    /// Something has become known; the partner hears of all types together.
    fn settle(&mut self, now: Instant, id: JobId, kind: RecordType, body: Body) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.bodies.insert(kind.into(), body);
        if job
            .types
            .iter()
            .any(|kind| !job.bodies.contains_key(&kind.into()))
        {
            return;
        }
        let types = job.types;
        if id.anew {
            let bodies = core::mem::take(&mut job.bodies);
            let bodies = types
                .iter()
                .filter_map(|it| bodies.get(&it.into()).cloned());
            let place = (id.partner, id.id);
            let told = self.watching.renew(now, place, bodies.collect());
            told.iter()
                .for_each(|frame| self.tell_quietly(id.partner, frame));
            self.stats.fresh.changes += u64::from(told.is_some());
            self.jobs.remove(&id);
            return;
        }
        if let Some(address) = job.ahead {
            // A name that has IPv6 addresses alone is reached by these.
            let kinds = [RecordType::A, RecordType::AAAA].map(u16::from);
            let bodies: Vec<&Body> = kinds.iter().filter_map(|it| job.bodies.get(it)).collect();
            let meant = bodies.iter().find_map(|it| it.address());
            let life_s = bodies.first().map_or(FAILED_S, |it| it.life_s);
            self.meanings
                .settle(now, (id.partner, address), meant, life_s);
        }
        let mut frames = answers(id.id, types, &mut job.bodies);
        if let [
            Frame::Answer {
                watched, bodies, ..
            },
        ] = &mut frames[..]
        {
            let place = (id.partner, id.id);
            let about = (&job.name, types);
            *watched = job.watch && self.watching.add(now, place, about, bodies);
        }
        let frames: Vec<Vec<u8>> = frames.iter().flat_map(Frame::to_datagrams).collect();
        job.answer = Some((now, frames.clone()));
        let frames = frames.into_iter().map(|frame| (id.partner, frame));
        self.frames.extend(frames);
    }

    /// What is to be done with a socket next.
    pub fn poll_wish(&mut self) -> Option<(u32, Wish)> {
        self.wishes.pop_front()
    }

    /// The next frame, and the partner that it is for.
    pub fn poll_frame(&mut self) -> Option<(usize, Vec<u8>)> {
        let (partner, frame) = self.frames.pop_front()?;
        if partner < self.settings.partners {
            self.stats.octets_out += frame.len() as u64;
        }
        Some((partner, frame))
    }

    /// The next frame that nobody waits for, and the partner that it is for.
    pub fn poll_quiet(&mut self) -> Option<(usize, Vec<u8>)> {
        let (partner, frame) = self.quiet.pop_front()?;
        self.stats.octets_out += frame.len() as u64;
        Some((partner, frame))
    }

    /// Asks anew for what is kept fresh, as far as nobody waits for a socket.
    fn keep_fresh(&mut self, now: Instant) {
        while self.open.len() < ASKS_MAX / 2 && self.jobs.len() < JOBS_MAX {
            let Some((partner, id, name, types)) = self.watching.take_due(now) else {
                break;
            };
            let key = JobId {
                partner,
                id,
                anew: true,
            };
            let job = Job {
                name,
                types,
                care: Care::default(),
                watch: false,
                ahead: None,
                bodies: BTreeMap::new(),
                answer: None,
            };
            self.begin(now, key, job);
        }
        for (partner, frame) in self.watching.tend(now) {
            self.tell_quietly(partner, &frame);
        }
    }

    /// Does what is due.
    pub fn tend(&mut self, now: Instant) {
        let late = self.open.iter().filter(|(_, it)| it.until <= now);
        let late: Vec<u32> = late.map(|(n, _)| *n).collect();
        for n in late {
            self.stats.resolvers.unanswered += 1;
            self.try_again(now, n, cause::UNREACHABLE);
        }
        self.jobs.retain(|_, job| {
            let answer = job.answer.as_ref();
            answer.is_none_or(|(given, _)| now < *given + KEPT)
        });
        for (partner, address) in self.meanings.tend(now) {
            self.stats.own.strange += 1;
            let frame = Frame::Strange(Vec::from([address]));
            self.frames.push_back((partner, frame.to_vec()));
        }
        self.keep_fresh(now);
    }

    /// Whether a partner has told of an address ahead of an answer.
    pub fn is_told(&self, partner: usize, address: Ipv4Addr) -> bool {
        self.meanings.is_told(partner, address)
    }

    /// What a partner means by an address ahead of an answer.
    pub fn meant(&mut self, now: Instant, partner: usize, address: Ipv4Addr) -> Meant {
        self.meanings.meant(now, partner, address)
    }

    /// When it has something to do.
    pub fn wake(&self) -> Option<Instant> {
        let late = self.open.values().map(|it| it.until);
        let answers = self.jobs.values().filter_map(|it| it.answer.as_ref());
        let kept = answers.map(|(given, _)| *given + KEPT);
        // What is to be asked anew waits for sockets.
        let crowded = self.open.len() >= ASKS_MAX / 2 || self.jobs.len() >= JOBS_MAX;
        let watching = self.watching.wake().filter(|_| !crowded);
        let meanings = self.meanings.wake();
        late.chain(kept).chain(watching).chain(meanings).min()
    }
}

const fn failure(cause: u16) -> Body {
    Body::empty(Outcome::Failure(cause), FAILED_S)
}

/// The answer to a question: one frame, or several if that were too long.
fn answers(id: u16, types: Types, bodies: &mut BTreeMap<u16, Body>) -> Vec<Frame> {
    let mut frames: Vec<(Types, Vec<Body>)> = Vec::new();
    for kind in types.iter() {
        let Some(body) = bodies.remove(&kind.into()) else {
            continue;
        };
        let last = frames.last_mut().and_then(|(types, bodies)| {
            let octets: usize = bodies.iter().map(Body::octets).sum();
            let both = types.with(Types::of(kind))?;
            (octets + body.octets() <= DATAGRAM_OCTETS).then_some((types, bodies, both))
        });
        match last {
            Some((types, bodies, both)) => {
                *types = both;
                bodies.push(body);
            }
            None => frames.push((Types::of(kind), Vec::from([body]))),
        }
    }
    let frames = frames.into_iter().map(|(types, bodies)| Frame::Answer {
        id,
        types,
        watched: false,
        bodies,
    });
    frames.collect()
}

#[cfg(test)]
#[path = "far_tests.rs"]
mod tests;
