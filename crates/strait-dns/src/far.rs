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

use crate::body::{Body, OCTETS_MAX, Outcome};
use crate::frame::{Care, Frame, Types};
use crate::message::{Ask, Judgement, cause};

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
    /// Partners.
    pub partners: usize,
}

/// What is to be done with a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Have it, at this address.
    Open(SocketAddr),
    /// Send by it.
    Send(SocketAddr, Vec<u8>),
    /// Have it no more.
    Close,
}

/// A partner's question, by partner and number.
type JobId = (usize, u16);

#[derive(Debug)]
struct Job {
    name: Name,
    types: Types,
    care: Care,
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
            allowances: (0..settings.partners).map(|_| full).collect(),
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
    pub const fn stats(&self) -> DnsStats {
        self.stats
    }

    /// Asserts that limits hold.
    pub fn check(&self) {
        assert!(self.jobs.len() <= JOBS_MAX, "too many questions");
        assert!(self.open.len() <= ASKS_MAX, "too many sockets");
        assert!(self.waiting.len() <= 3 * JOBS_MAX, "too many types wait");
    }

    /// A partner asks.
    pub fn hear_partner(&mut self, now: Instant, partner: usize, octets: &[u8]) {
        let Some(Frame::Question {
            id,
            types,
            care,
            name,
        }) = Frame::read(octets)
        else {
            self.stats.malformed += 1;
            return;
        };
        self.stats.octets_in += octets.len() as u64;
        if let Some(job) = self.jobs.get(&(partner, id)) {
            if job.name == name && job.types == types && job.care == care {
                self.stats.served_again += 1;
                let kept = job.answer.iter().flat_map(|(_, frames)| frames.clone());
                let again: Vec<_> = kept.map(|frame| (partner, frame)).collect();
                self.frames.extend(again);
                return;
            }
            // It began anew.
            self.abandon((partner, id));
        }
        if !self.admits(now, partner) || !self.has_room() {
            self.stats.unserved += 1;
            return;
        }
        self.stats.served += 1;
        let job = Job {
            name,
            types,
            care,
            bodies: BTreeMap::new(),
            answer: None,
        };
        self.jobs.insert((partner, id), job);
        if self.settings.resolvers.is_empty() {
            self.stats.unserved += 1;
            for kind in types.iter() {
                self.settle(now, (partner, id), kind, failure(cause::NOT_READY));
            }
            return;
        }
        let types = types.iter().map(|kind| ((partner, id), kind));
        self.waiting.extend(types);
        self.ask_waiting(now);
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
        let servers = &self.settings.resolvers;
        let Some(resolver) = servers.get(tries as usize % servers.len().max(1)).copied() else {
            return;
        };
        let Some(job) = self.jobs.get(&id) else {
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
        let n = self.next;
        // Some are open; none of them has a number that comes again.
        self.next = (self.next + 1) & (u32::MAX >> 2);
        let local = SocketAddr::new(any, port as u16);
        self.wishes.push_back((n, Wish::Open(local)));
        self.wishes
            .push_back((n, Wish::Send(resolver, ask.to_vec())));
        self.stats.resolved += 1;
        let open = Open {
            job: id,
            ask,
            resolver,
            tries: tries + 1,
            until: now + PATIENCE * (1 << tries.min(4)),
        };
        self.open.insert(n, open);
    }

    /// A datagram came to a socket.
    pub fn hear_resolver(&mut self, now: Instant, n: u32, from: SocketAddr, octets: &[u8]) {
        let Some(open) = self.open.get(&n).filter(|it| it.resolver == from) else {
            self.stats.forged += 1;
            return;
        };
        match open.ask.judge(octets) {
            Judgement::Forged => self.stats.forged += 1,
            Judgement::Truncated => {
                self.stats.unanswered += 1;
                self.conclude(now, n, failure(cause::OTHER));
            }
            // A resolver that can't say isn't asked again (RFC 9520), but the next one is.
            Judgement::Failed(cause) if open.tries as usize >= self.settings.resolvers.len() => {
                self.conclude(now, n, failure(cause));
            }
            Judgement::Failed(cause) => self.try_again(now, n, cause),
            Judgement::Known(body) => self.conclude(now, n, body),
        }
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
        let frames = answers(id.1, job.types, &mut job.bodies);
        job.answer = Some((now, frames.clone()));
        self.frames
            .extend(frames.into_iter().map(|frame| (id.0, frame)));
    }

    /// What is to be done with a socket next.
    pub fn poll_wish(&mut self) -> Option<(u32, Wish)> {
        self.wishes.pop_front()
    }

    /// The next frame, and the partner that it is for.
    pub fn poll_frame(&mut self) -> Option<(usize, Vec<u8>)> {
        let (partner, frame) = self.frames.pop_front()?;
        self.stats.octets_out += frame.len() as u64;
        Some((partner, frame))
    }

    /// Does what is due.
    pub fn tend(&mut self, now: Instant) {
        let late = self.open.iter().filter(|(_, it)| it.until <= now);
        let late: Vec<u32> = late.map(|(n, _)| *n).collect();
        for n in late {
            self.stats.unanswered += 1;
            self.try_again(now, n, cause::UNREACHABLE);
        }
        self.jobs.retain(|_, job| {
            let answer = job.answer.as_ref();
            answer.is_none_or(|(given, _)| now < *given + KEPT)
        });
    }

    /// When it has something to do.
    pub fn wake(&self) -> Option<Instant> {
        let late = self.open.values().map(|it| it.until);
        let answers = self.jobs.values().filter_map(|it| it.answer.as_ref());
        late.chain(answers.map(|(given, _)| *given + KEPT)).min()
    }
}

const fn failure(cause: u16) -> Body {
    Body::empty(Outcome::Failure(cause), FAILED_S)
}

/// The answer to a question: one frame, or several if that were too long.
fn answers(id: u16, types: Types, bodies: &mut BTreeMap<u16, Body>) -> Vec<Vec<u8>> {
    let mut frames: Vec<(Types, Vec<Body>)> = Vec::new();
    for kind in types.iter() {
        let Some(body) = bodies.remove(&kind.into()) else {
            continue;
        };
        let last = frames.last_mut().and_then(|(types, bodies)| {
            let octets: usize = bodies.iter().map(Body::octets).sum();
            let both = types.with(Types::of(kind))?;
            (octets + body.octets() <= OCTETS_MAX).then_some((types, bodies, both))
        });
        match last {
            Some((types, bodies, both)) => {
                *types = both;
                bodies.push(body);
            }
            None => frames.push((Types::of(kind), Vec::from([body]))),
        }
    }
    let frames = frames.into_iter().map(|(types, bodies)| {
        let answer = Frame::Answer { id, types, bodies };
        answer.to_vec()
    });
    frames.collect()
}

#[cfg(test)]
#[path = "far_tests.rs"]
mod tests;
