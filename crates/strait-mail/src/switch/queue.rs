//! What a switch has: messages, the ways by which they are to go, and what of it is stored.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use strait_core::chance::Stream as Chance;
use strait_core::node::{StoreError, StoreOp};
use strait_core::stats::MailStats;
use strait_core::{Duration, Instant};

use super::Settings;
use super::asks::{Asks, Change, Pending};
use super::deadlines::Deadlines;
use super::hops::Hops;
use super::known::Known;
use super::moves::divert_of;
use super::polls::limit;
use super::repeats::Repeats;
use crate::command::{DeliverBy, domain_of};
use crate::message::{Message, Recipient};
use crate::precedence::Precedence;
use crate::report::{Action, Told, report};

/// Envelopes that are read at a time, after a start: storage has room for what clients bring too.
const LOADS_MAX: usize = 16;
/// Octets of an envelope: a hundred recipients with all that they may have.
const ENVELOPE_OCTETS_MAX: u64 = 256 * 1024;
/// Pauses before a mailbox that can't be written is tried again, the first and the longest: this is
/// our own disk's trouble, whatever the message.
const MAILBOX_RETRIES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// What storage has of a message.
pub(super) const ENVELOPES: &[u8] = b"mail/envelope/";
pub(super) const TEXTS: &[u8] = b"mail/text/";
const MINIMIZE: &[u8] = b"mail/minimize/";

/// A way for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Into mailboxes here.
    Mailbox,
    /// To a next hop.
    Hop(usize),
}

/// Where an address belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Mailbox,
    Route(usize),
}

/// A message on one of its ways.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) tries: u32,
    pub(super) said: String,
    /// When it is tried again, if it isn't ready.
    pub(super) later: Option<Instant>,
    /// It is being sent.
    pub(super) busy: bool,
    /// That its next hop may have it is being stored, or is; and nothing of it has gone there.
    pub(super) noting: bool,
    pub(super) noted: bool,
}

/// What became of a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It has got its message, and this is to be told if somebody wants to hear it, with what was
    /// replied, if anything was.
    Done(Option<(Action, String)>),
    /// Not now.
    Later(String),
    /// Never, by this enhanced code.
    Never(String, String),
}

/// All messages.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) settings: Settings,
    pub(super) stats: MailStats,
    /// What other switches sent.
    pub(super) repeats: Repeats,
    /// What programs brought.
    pub(super) known: Known,
    /// Where they are sent.
    pub(super) hops: Hops,
    pub(super) messages: BTreeMap<u64, Message>,
    pub(super) jobs: BTreeMap<(Way, u64), Job>,
    /// By way and precedence, what can go.
    pub(super) ready: BTreeMap<(Way, Precedence), BTreeSet<u64>>,
    pub(super) later: BTreeSet<(Instant, Way, u64)>,
    /// When messages are given up, and when they are late.
    expiries: Deadlines,
    lates: Deadlines,
    pub(super) next: u64,
    tokens: Chance,
    /// The least precedence that goes to other switches.
    pub(super) minimize: Precedence,
    /// When it looked last.
    pub(super) looked: Instant,
    /// When a message has been here for too long, and which have.
    alarms: Deadlines,
    overdue: BTreeSet<u64>,
    /// A moment and the calendar's seconds then.
    pub(super) calendar: Option<(Instant, u64)>,
    /// Envelopes that are to be read yet, and how many are being read.
    unread: VecDeque<u64>,
    loads: usize,
}

fn key(kind: &[u8], id: u64) -> Vec<u8> {
    [kind, format!("{id:020}").as_bytes()].concat()
}

/// The key of a message's text.
pub(super) fn text_key(id: u64) -> Vec<u8> {
    key(TEXTS, id)
}

/// Whether a domain is one of these zones, or below one.
pub(super) fn is_below(zones: &[String], domain: &str) -> bool {
    let domain = domain.to_ascii_lowercase();
    zones.iter().any(|zone| {
        let zone = zone.to_ascii_lowercase();
        zone == "." || domain == zone || domain.ends_with(&format!(".{zone}"))
    })
}

/// The number in a key of this kind.
fn number(key: &[u8], kind: &[u8]) -> Option<u64> {
    core::str::from_utf8(key.strip_prefix(kind)?)
        .ok()?
        .parse()
        .ok()
}

impl Queue {
    pub(super) fn new(settings: Settings, seed: u64) -> Self {
        Self {
            stats: MailStats::default(),
            repeats: Repeats::default(),
            known: Known::restore(settings.repeats, &[]).0,
            hops: Hops::new(&settings.routes, BTreeMap::new()),
            settings,
            messages: BTreeMap::new(),
            jobs: BTreeMap::new(),
            ready: BTreeMap::new(),
            later: BTreeSet::new(),
            expiries: Deadlines::default(),
            lates: Deadlines::default(),
            next: 1,
            tokens: Chance::new(seed, "mail.tokens"),
            minimize: Precedence::Deferred,
            looked: Instant::ZERO,
            alarms: Deadlines::default(),
            overdue: BTreeSet::new(),
            calendar: None,
            unread: VecDeque::new(),
            loads: 0,
        }
    }

    /// Takes note of what storage has. A text without an envelope was never answered for.
    pub(super) fn restore(&mut self, stored: &[(Vec<u8>, u64)], asks: &mut Asks) {
        let of = |kind| stored.iter().filter_map(move |(key, _)| number(key, kind));
        let envelopes: BTreeSet<u64> = of(ENVELOPES).collect();
        let orphans = of(TEXTS).filter(|id| !envelopes.contains(id));
        let mut batch: Vec<StoreOp> = orphans.map(|id| StoreOp::Delete(text_key(id))).collect();
        let (known, gone) = Known::restore(self.settings.repeats, stored);
        self.known = known;
        batch.extend(gone);
        if !batch.is_empty() {
            asks.forget(batch);
        }
        self.next = of(ENVELOPES).chain(of(TEXTS)).max().map_or(1, |id| id + 1);
        self.unread = envelopes.into_iter().collect();
        self.repeats = Repeats::restore(stored);
        let diverts = stored.iter().filter_map(|(key, _)| divert_of(key));
        self.hops = Hops::new(&self.settings.routes, diverts.collect());
        let minimize = stored.iter().find_map(|(key, _)| number(key, MINIMIZE));
        self.set_minimize(minimize.unwrap_or(0));
    }

    /// A number for a new message.
    pub(super) const fn number(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        id
    }

    /// A number that no other message has, be it of an earlier start.
    pub(super) fn token(&mut self) -> u64 {
        self.tokens.draw()
    }

    pub(super) fn is_full(&self) -> bool {
        let all = self.messages.len() + self.unread.len() + self.loads;
        all >= self.settings.messages_max
    }

    /// Messages that were stored and haven't been read: before, what was sent first might be less
    /// urgent.
    pub(super) fn unread(&self) -> u64 {
        (self.unread.len() + self.loads) as u64
    }

    /// What the calendar says; 0 if nobody knows.
    pub(super) fn now_s(&self, now: Instant) -> u64 {
        self.calendar
            .map_or(0, |(at, unix_s)| unix_s + now.since(at).as_secs())
    }

    pub(super) fn set_calendar(&mut self, now: Instant, unix_s: u64) {
        let first = self.calendar.replace((now, unix_s)).is_none();
        if first {
            let ids: Vec<u64> = self.messages.keys().copied().collect();
            ids.into_iter().for_each(|id| self.plan_expiry(now, id));
        }
    }

    pub(super) fn age(&self, now: Instant, message: &Message) -> Duration {
        let now_s = self.now_s(now);
        let known = message.accepted_s > 0 && now_s > 0;
        Duration::from_secs(if known {
            now_s.saturating_sub(message.accepted_s)
        } else {
            0
        })
    }

    fn plan_expiry(&mut self, now: Instant, id: u64) {
        if let Some(message) = self.messages.get(&id) {
            let lane = self.settings.lanes[message.precedence().index()];
            let age = self.age(now, message);
            self.expiries
                .set(id, Some(now + lane.expiry.saturating_sub(age)));
            let left = self
                .left(now, message)
                .filter(|it| it.returns || !message.late);
            let late = left.map(|it| {
                let left = u64::try_from(it.seconds).unwrap_or(0);
                now + Duration::from_secs(left)
            });
            self.lates.set(id, late);
            if let Some(most) = lane.alarm {
                self.forget_alarm(id);
                self.alarms.set(id, Some(now + most.saturating_sub(age)));
            }
        }
    }

    /// By when a message is to be there from now on.
    pub(super) fn left(&self, now: Instant, message: &Message) -> Option<DeliverBy> {
        let by = message.by?;
        Some(by.later(self.age(now, message).as_secs()))
    }

    fn forget_alarm(&mut self, id: u64) {
        self.alarms.set(id, None);
        self.overdue.remove(&id);
        self.stats.overdue = self.overdue.len() as u64;
    }

    /// Where an address belongs.
    pub(super) fn target_of(&self, address: &str) -> Option<Target> {
        if self.is_mailbox(address) {
            return Some(Target::Mailbox);
        }
        let domain = domain_of(address);
        let mut routes = self.settings.routes.iter();
        let route = routes.position(|it| is_below(&it.domains, domain));
        route.filter(|_| !self.is_own(domain)).map(Target::Route)
    }

    pub(super) fn target(&self, way: Way) -> Option<Target> {
        match way {
            Way::Mailbox => Some(Target::Mailbox),
            Way::Hop(hop) => self.hops.route_of(hop).map(Target::Route),
        }
    }

    fn is_mailbox(&self, address: &str) -> bool {
        let mut all = self.settings.mailboxes.iter();
        all.any(|it| it.eq_ignore_ascii_case(address))
    }

    /// Whether a domain's mail stays here.
    pub(super) fn is_own(&self, domain: &str) -> bool {
        let mut all = self.settings.mailboxes.iter();
        all.any(|it| domain_of(it).eq_ignore_ascii_case(domain))
    }

    /// A message that is stored.
    pub(super) fn enter(&mut self, now: Instant, id: u64, message: Message, asks: &mut Asks) {
        self.stats.waiting[message.precedence().index()] += 1;
        let held = message.held;
        self.messages.insert(id, message);
        self.plan_expiry(now, id);
        if !held {
            self.queue(now, id, asks);
        }
    }

    /// Has a message go by its ways.
    pub(super) fn queue(&mut self, now: Instant, id: u64, asks: &mut Asks) {
        let Some(message) = self.messages.get(&id) else {
            return;
        };
        let precedence = message.precedence();
        let recipients = message.recipients.iter();
        let targets = recipients.map(|it| self.target_of(&it.address));
        let targets: BTreeSet<Option<Target>> = targets.collect();
        for target in targets.iter().flatten() {
            let way = match target {
                Target::Mailbox => Way::Mailbox,
                Target::Route(route) => Way::Hop(self.hop_for(message, *route)),
            };
            self.jobs.entry((way, id)).or_default();
            self.ready.entry((way, precedence)).or_default().insert(id);
        }
        if targets.contains(&None) {
            // The node file has changed since it was taken.
            let nowhere = |_: &Recipient| {
                let why = "no route leads there any more".to_string();
                Outcome::Never("5.4.4".into(), why)
            };
            self.decide(now, id, None, nowhere, asks);
        }
    }

    /// The first message of a precedence that can go by a way.
    pub(super) fn first(&self, way: Way, precedence: Precedence) -> Option<u64> {
        let goes = way == Way::Mailbox || self.closed(precedence).is_none();
        let ready = self.ready.get(&(way, precedence)).filter(|_| goes)?;
        let limit = limit(self, way, precedence);
        ready.first().copied().filter(|id| *id < limit)
    }

    /// How many wait for a way and may go.
    pub(super) fn waiting(&self, way: Way, precedence: Precedence) -> usize {
        let first = self.first(way, precedence);
        let ready = self
            .ready
            .get(&(way, precedence))
            .filter(|_| first.is_some());
        ready.map_or(0, |it| it.range(..limit(self, way, precedence)).count())
    }

    pub(super) fn message(&self, id: u64) -> Option<&Message> {
        self.messages.get(&id)
    }

    /// Those who get a message by a way.
    pub(super) fn recipients(&self, way: Way, id: u64) -> Vec<Recipient> {
        let message = self.messages.get(&id);
        let all = message.map_or(&[][..], |it| &it.recipients).iter();
        let target = self.target(way);
        all.filter(|it| self.target_of(&it.address) == target)
            .cloned()
            .collect()
    }

    /// A message is being sent by a way.
    pub(super) fn begin(&mut self, way: Way, id: u64) {
        self.set_ready(way, id, false);
        if let Some(job) = self.jobs.get_mut(&(way, id)) {
            (job.busy, job.noted) = (true, false);
        }
        if let Some(message) = self.messages.get_mut(&id) {
            message.begun = true;
        }
    }

    /// It isn't any more, and can go again. Its next hop may have it all the same if the flag is
    /// set.
    pub(super) fn give_back(&mut self, way: Way, id: u64, why: Option<String>, may_be_there: bool) {
        if !may_be_there {
            self.set_at(way, id, None);
        }
        let held = self.messages.get(&id).is_some_and(|it| it.held);
        if let Some(job) = self.jobs.get_mut(&(way, id)) {
            job.busy = false;
            job.said = why.unwrap_or_else(|| core::mem::take(&mut job.said));
            if held {
                self.jobs.remove(&(way, id));
            } else {
                self.set_ready(way, id, true);
                self.move_on(way, id);
            }
        }
    }

    pub(super) fn set_ready(&mut self, way: Way, id: u64, is: bool) {
        let Some(message) = self.messages.get(&id) else {
            return;
        };
        let lane = self.ready.entry((way, message.precedence())).or_default();
        if is {
            lane.insert(id);
        } else {
            lane.remove(&id);
        }
    }

    /// What became of those who were to get a message by a way: of each in the order of
    /// [`Self::recipients`].
    pub(super) fn finish(
        &mut self,
        now: Instant,
        (way, id): (Way, u64),
        outcomes: Vec<Outcome>,
        asks: &mut Asks,
    ) {
        let Some(job) = self.jobs.get_mut(&(way, id)) else {
            return;
        };
        job.busy = false;
        let mut outcomes = outcomes.into_iter();
        let next = |_: &Recipient| {
            let next = outcomes.next();
            next.unwrap_or_else(|| Outcome::Later("no answer".into()))
        };
        self.decide(now, id, Some(way), next, asks);
    }

    /// Decides about those who are reached by a way.
    fn decide(
        &mut self,
        now: Instant,
        id: u64,
        way: Option<Way>,
        of: impl FnMut(&Recipient) -> Outcome,
        asks: &mut Asks,
    ) {
        let target = way.and_then(|way| self.target(way));
        self.decide_of(now, id, target, way, of, asks);
    }

    /// The same for those who belong somewhere, whatever their way.
    fn decide_of(
        &mut self,
        now: Instant,
        id: u64,
        target: Option<Target>,
        way: Option<Way>,
        mut of: impl FnMut(&Recipient) -> Outcome,
        asks: &mut Asks,
    ) {
        let Some(mut message) = self.messages.remove(&id) else {
            return;
        };
        let (mut stay, mut told, mut later) = (Vec::new(), BTreeMap::new(), None);
        let mut failed = false;
        let remote = match way {
            Some(Way::Hop(hop)) => self.hops.get(hop).map(|it| it.to),
            _ => None,
        };
        for recipient in core::mem::take(&mut message.recipients) {
            if self.target_of(&recipient.address) != target {
                stay.push(recipient);
                continue;
            }
            let mut tell = |action: Action, recipient, status, text| {
                let one = Told {
                    recipient,
                    status,
                    text,
                    remote,
                };
                told.entry(action as usize)
                    .or_insert_with(|| (action, Vec::new()))
                    .1
                    .push(one);
            };
            match of(&recipient) {
                Outcome::Done(action) => {
                    let here = target == Some(Target::Mailbox);
                    self.stats.delivered += u64::from(here);
                    self.stats.relayed += u64::from(!here);
                    let wanted = action.filter(|it| it.0.is_wanted(&recipient));
                    if let Some((action, mut said)) = wanted {
                        if said.is_empty() {
                            said = "done".into();
                        }
                        tell(action, recipient, "2.0.0".into(), said);
                    }
                }
                Outcome::Later(text) => {
                    self.stats.deferred += 1;
                    later = Some(text);
                    stay.push(recipient);
                }
                Outcome::Never(status, text) => {
                    self.stats.failed += 1;
                    failed = true;
                    if Action::Failed.is_wanted(&recipient) && !message.sender.is_empty() {
                        tell(Action::Failed, recipient, status, text);
                    } else {
                        self.stats.untold += 1;
                    }
                }
            }
        }
        message.recipients = stay;
        let about = message.clone();
        self.messages.insert(id, message);
        if let Some(way) = way {
            self.plan(now, way, id, later);
        }
        let mut change = Change {
            ids: alloc::vec![id],
            ..Change::default()
        };
        if failed {
            change.texts.extend(self.known.forget(id));
        }
        for (action, told) in told.into_values() {
            self.tell(now, action, &about, &told, &mut change, asks);
        }
        self.store(change, asks);
        self.forget_if_done(id);
    }

    /// A way's next try, or its end.
    fn plan(&mut self, now: Instant, way: Way, id: u64, later: Option<String>) {
        let Some(said) = later else {
            self.jobs.remove(&(way, id));
            self.set_ready(way, id, false);
            return;
        };
        let held = self.messages.get(&id).is_some_and(|it| it.held);
        let precedence = self
            .messages
            .get(&id)
            .map(Message::precedence)
            .unwrap_or_default();
        let Some(job) = self.jobs.get_mut(&(way, id)) else {
            return;
        };
        if held {
            self.jobs.remove(&(way, id));
            return;
        }
        let (first, most) = match way {
            Way::Mailbox => MAILBOX_RETRIES,
            Way::Hop(_) => precedence.retries(),
        };
        let wait = first.saturating_mul(1 << job.tries.min(16)).min(most);
        job.tries += 1;
        job.said = said;
        job.later = Some(now + wait);
        self.later.insert((now + wait, way, id));
        // It has said so: it hasn't got it.
        self.set_at(way, id, None);
        self.move_on(way, id);
    }

    /// Reports about a message. A report about none of ours is made of none.
    fn tell(
        &mut self,
        now: Instant,
        action: Action,
        about: &Message,
        told: &[Told],
        change: &mut Change,
        asks: &mut Asks,
    ) {
        if about.sender.is_empty() || self.target_of(&about.sender).is_none() {
            self.stats.untold += told.len() as u64;
            return;
        }
        let id = self.number();
        let now_s = self.now_s(now);
        let (mut message, text) = report(&self.settings.name, id, now_s, action, about, told);
        message.token = self.token();
        self.stats.reports += 1;
        change.ids.push(id);
        change.texts.push(StoreOp::Put(text_key(id), text));
        self.enter(now, id, message, asks);
    }

    /// Has messages stored as they are.
    pub(super) fn store(&self, change: Change, asks: &mut Asks) {
        let mut batch = change.texts.clone();
        for id in &change.ids {
            let there = self.messages.get(id).filter(|it| !it.recipients.is_empty());
            match there.and_then(|_| self.envelope(*id)) {
                Some(envelope) => batch.push(envelope),
                None => {
                    let keys = [key(ENVELOPES, *id), text_key(*id)];
                    batch.extend(keys.map(StoreOp::Delete));
                }
            }
        }
        if change.minimize {
            let all = 0..Precedence::ALL.len() as u64;
            let others = all.filter(|least| *least != self.stats.minimize);
            batch.extend(others.map(|least| StoreOp::Delete(key(MINIMIZE, least))));
            batch.push(StoreOp::Put(
                key(MINIMIZE, self.stats.minimize),
                b"1".to_vec(),
            ));
        }
        if !batch.is_empty() {
            asks.store(batch, Pending::Change(change));
        }
    }

    /// A message's envelope, to be stored.
    pub(super) fn envelope(&self, id: u64) -> Option<StoreOp> {
        let message = self.messages.get(&id)?;
        Some(StoreOp::Put(key(ENVELOPES, id), message.encode()))
    }

    fn forget_if_done(&mut self, id: u64) {
        let done = self
            .messages
            .get(&id)
            .is_some_and(|it| it.recipients.is_empty());
        if !done {
            return;
        }
        if let Some(message) = self.messages.remove(&id) {
            self.stats.waiting[message.precedence().index()] -= 1;
        }
        self.expiries.set(id, None);
        self.lates.set(id, None);
        self.forget_alarm(id);
        for way in self.ways(id) {
            self.jobs.remove(&(way, id));
        }
    }

    /// An envelope and its text's last octets, to be stored as one.
    pub(super) fn batch(id: u64, rest: Vec<u8>, message: &Message) -> Vec<StoreOp> {
        let text = StoreOp::Append(text_key(id), rest);
        alloc::vec![text, StoreOp::Put(key(ENVELOPES, id), message.encode())]
    }

    /// An envelope that was stored before.
    pub(super) fn hear_envelope(
        &mut self,
        now: Instant,
        id: u64,
        result: Result<Option<&[u8]>, StoreError>,
        asks: &mut Asks,
    ) {
        self.loads -= 1;
        match result {
            Ok(octets) => match octets.and_then(Message::decode) {
                Some(message) => self.enter(now, id, message, asks),
                // It stays where it is: somebody may know what to do with it.
                None => self.stats.unreadable += 1,
            },
            Err(_) => self.unread.push_back(id),
        }
    }

    /// Reads on, and looks what has waited long enough, or too long.
    pub(super) fn settle(&mut self, now: Instant, asks: &mut Asks) {
        self.looked = now;
        while self.loads < LOADS_MAX
            && let Some(id) = self.unread.pop_front()
        {
            self.loads += 1;
            let key = key(ENVELOPES, id);
            asks.load(key, 0, ENVELOPE_OCTETS_MAX, Pending::Envelope(id));
        }
        while let Some((_, way, id)) = self.later.first().copied().filter(|it| it.0 <= now) {
            self.later.pop_first();
            self.be_ready(way, id);
        }
        while let Some(id) = self.alarms.due(now) {
            self.overdue.insert(id);
            self.stats.overdue = self.overdue.len() as u64;
        }
        while let Some(id) = self.lates.due(now) {
            self.be_late(now, id, asks);
        }
        while let Some(id) = self.expiries.due(now) {
            self.expire(now, id, asks);
        }
    }

    fn be_ready(&mut self, way: Way, id: u64) {
        if let Some(job) = self.jobs.get_mut(&(way, id)) {
            job.later = None;
            self.set_ready(way, id, true);
        }
    }

    /// All that waits for a next try by a way goes now: what was in its way is over.
    pub(super) fn hurry(&mut self, way: Way, only: Option<u64>) {
        let right = |id: u64| only.is_none_or(|it| it == id);
        let due = self
            .later
            .extract_if(.., |(_, of, id)| *of == way && right(*id));
        let due: Vec<u64> = due.map(|(_, _, id)| id).collect();
        due.into_iter().for_each(|id| self.be_ready(way, id));
    }

    /// The time by which a message was to be there has come. One that is being sent has told its
    /// next hop of that.
    fn be_late(&mut self, now: Instant, id: u64, asks: &mut Asks) {
        let Some(message) = self.messages.get_mut(&id) else {
            return;
        };
        if message.by.is_some_and(|it| it.returns) {
            if self.is_busy(id) {
                return self.lates.set(id, Some(now + Duration::from_secs(1)));
            }
            return self.return_all(now, id, "it would arrive too late", asks);
        }
        message.late = true;
        let about = message.clone();
        let mut change = Change {
            ids: alloc::vec![id],
            ..Change::default()
        };
        let recipients = about.recipients.iter();
        let wanted = recipients.filter(|it| Action::Delayed.is_wanted(it));
        let told = wanted.map(|recipient| Told {
            recipient: recipient.clone(),
            status: "4.4.7".into(),
            text: "it is late, and its delivery continues".into(),
            remote: None,
        });
        let told: Vec<Told> = told.collect();
        if !told.is_empty() {
            self.tell(now, Action::Delayed, &about, &told, &mut change, asks);
        }
        self.store(change, asks);
    }

    /// Has a message return for all who haven't got it.
    fn return_all(&mut self, now: Instant, id: u64, why: &str, asks: &mut Asks) {
        let never = |_: &Recipient| Outcome::Never("5.4.7".into(), why.into());
        let Some(message) = self.messages.get(&id) else {
            return;
        };
        let targets = message
            .recipients
            .iter()
            .map(|it| self.target_of(&it.address));
        let targets: BTreeSet<Option<Target>> = targets.collect();
        for way in self.ways(id) {
            self.set_ready(way, id, false);
            self.jobs.remove(&(way, id));
        }
        for target in targets {
            self.decide_of(now, id, target, None, never, asks);
        }
        self.later.retain(|(_, _, of)| *of != id);
    }

    /// A message has waited too long, unless it is being sent or somebody holds it.
    fn expire(&mut self, now: Instant, id: u64, asks: &mut Asks) {
        let Some(message) = self.messages.get(&id) else {
            return;
        };
        if message.held || self.is_busy(id) {
            return self.expiries.set(id, Some(now + Duration::from_secs(60)));
        }
        let ways: Vec<Way> = self.ways(id);
        for way in ways {
            let said = self
                .jobs
                .get(&(way, id))
                .map_or("", |job| &job.said)
                .to_string();
            let late = |_: &Recipient| Outcome::Never("5.4.7".into(), format!("too late {said}"));
            self.decide(now, id, Some(way), late, asks);
        }
        self.later.retain(|(_, _, of)| *of != id);
    }

    /// The ways by which a message is still to go.
    pub(super) fn ways(&self, id: u64) -> Vec<Way> {
        let hops = (0..self.hops.len()).map(Way::Hop);
        let all = core::iter::once(Way::Mailbox).chain(hops);
        all.filter(|way| self.jobs.contains_key(&(*way, id)))
            .collect()
    }

    pub(super) fn is_busy(&self, id: u64) -> bool {
        let ways = self.ways(id);
        ways.iter()
            .any(|way| self.jobs.get(&(*way, id)).is_some_and(|job| job.busy))
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let later = self.later.first().map(|it| it.0);
        let all = later.into_iter();
        let all = all.chain(self.expiries.next()).chain(self.lates.next());
        let all = all.chain(self.alarms.next());
        all.chain(self.next_hours()).min()
    }

    pub(super) fn check(&self) {
        for (way, id) in self.jobs.keys() {
            assert!(
                self.messages.contains_key(id),
                "{way:?}: a job of no message"
            );
        }
        for ((way, precedence), ids) in &self.ready {
            for id in ids {
                let job = self.jobs.get(&(*way, *id));
                assert!(
                    job.is_some_and(|it| !it.busy),
                    "{way:?}: {id} is ready and isn't"
                );
                let own = self.messages.get(id).map(Message::precedence);
                assert_eq!(own, Some(*precedence), "{id} waits in the wrong lane");
            }
        }
        let waiting: u64 = self.stats.waiting.iter().sum();
        assert_eq!(waiting, self.messages.len() as u64);
    }
}
