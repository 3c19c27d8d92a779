//! A session: the streams of one partner, and the datagrams that carry them.
//!
//! **Who is there.** Each side draws a token at its start, and puts the other's into what it sends:
//! nobody who doesn't hear the other's words can say a word in its name. A token that the other
//! side has changed means that it began anew, and ends every stream.
//!
//! **Silence.** Who leaves unanswered for long what he was sent counts as lost: streams that he
//! hasn't accepted end, and whoever drives the session opens no others until he answers again.
//!
//! **Repairs.** Datagrams are numbered. What was in one that is lost goes again in another. One is
//! lost when three behind it have arrived that had its code point (different ones may overtake each
//! other) and the link isn't still repeating it, or when nothing is heard for so long that an
//! answer should have come; then one small datagram at a time asks whether the way is there again.
//!
//! **Rate.** There is no window that grows and shrinks: whoever drives the session asks for a
//! datagram when the link has room for it.
//!
//! **Order.** Of the streams with one code point the one goes next that had least so far, unless
//! another has waited too long: short ones needn't wait for long ones, and none starves.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use strait_core::prefix::Prefix;
use strait_core::stats::SessionStats;
use strait_core::stream_ledger::ResetCause;
use strait_core::{Duration, Instant};

use crate::codec::{
    self, Head, Item, Key, Malformed, Reader, number_octets, write_head, write_item,
};
use crate::flights::{Flights, Said, Told, Waits};
use crate::greeting::{Greeting, News};
use crate::receipts::{Openings, Receipts};
use crate::silence::{Silence, Stage};
use crate::stream::{Open, Stream, Word};
use crate::table::{ANSWERS, FIRST_CREDIT, Table};

/// Octets of a datagram that asks whether the way is there.
const PROBE_OCTETS: usize = 104;
/// Ranges that are acknowledged with it, so that there is room for something else.
const PROBE_RANGES: usize = 4;
/// Octets of the length of a piece: no datagram has 16 KiB.
const LENGTH_OCTETS: usize = 2;
/// A datagram's last octets stay empty rather than have so few of another stream.
const PIECE_OCTETS_MIN: usize = 32;
/// Streams of the other side that have no connection yet.
const HALF_OPEN_MAX: usize = 256;

/// Errors of Linux.
const TRY_AGAIN: u16 = 11;
const PROTOCOL: u16 = 71;
const CONNECTION_RESET: u16 = 104;
const TIMED_OUT: u16 = 110;
const TIMER_EXPIRED: u16 = 62;

/// What a session goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long what is waited for.
    pub waits: Waits,
    /// Octets of a stream that may come before they are read.
    pub window: u64,
    /// Octets of a stream that may wait to be sent.
    pub hold: u64,
    /// The same of one beside which there is no other.
    pub hold_alone: u64,
    /// A stream that has waited so long goes before those that had less.
    pub wait: Duration,
    /// Streams that each side may open at a time.
    pub streams_max: usize,
    /// Octets of all streams, of each direction, that may be held here: those that go until they
    /// have arrived, those that come until they are read. Beyond it each may have as good as none.
    pub octets_max: u64,
}

/// What happened in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The other side wants a connection for a stream: [`Session::accept`] or [`Session::reset`].
    Opened(Key, Open),
    /// A stream of ours has its connection.
    Accepted(Key),
    /// A stream has octets or its end to read, or room for more.
    Ready(Key),
    /// A stream is no more.
    Reset(Key, u16),
    /// A stream is no more, as the other side is silent and hasn't accepted it.
    Lost(Key),
}

/// Why a stream can't be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There are as many as there may be.
    Full,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    greeting: Greeting,
    /// Who is behind this side, and who the other one says is behind it.
    own: Vec<Prefix>,
    announced: Vec<Prefix>,
    settings: Settings,
    streams: Table,
    /// The number of our next stream.
    next: u32,
    openings: Openings,
    flights: Flights,
    receipts: Receipts,
    silence: Silence,
    /// The other side may not have heard yet who this one is: by these code points it has been
    /// told, and until then it is before what goes by others. Those may overtake each other.
    introduced: Option<(Instant, BTreeSet<u8>)>,
    /// When the other side asked for something last, beside other streams.
    asked: Option<Instant>,
    /// When it asked for anything last.
    question: Option<Instant>,
    events: VecDeque<Event>,
    stats: SessionStats,
}

impl Session {
    /// A session by the token `own`, which no earlier one had; 0 is none.
    pub fn new(own: u32, settings: Settings) -> Self {
        Self {
            greeting: Greeting::new(own),
            own: Vec::new(),
            announced: Vec::new(),
            settings,
            streams: Table::default(),
            next: 0,
            openings: Openings::default(),
            flights: Flights::default(),
            receipts: Receipts::default(),
            silence: Silence::default(),
            introduced: None,
            asked: None,
            question: None,
            events: VecDeque::new(),
            stats: SessionStats::default(),
        }
    }

    /// The other side is told that these are behind this one.
    pub fn announce(&mut self, networks: &[Prefix]) {
        let networks = networks.iter().take(codec::NETWORKS_MAX);
        self.own = networks.copied().collect();
    }

    /// Who the other side says is behind it.
    pub fn announced(&self) -> &[Prefix] {
        &self.announced
    }

    /// The link is another one now, or has another rate.
    pub const fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// What it has counted.
    pub const fn stats(&self) -> SessionStats {
        SessionStats {
            streams: *self.streams.books(),
            starved: self.streams.starved(),
            ..self.stats
        }
    }

    const fn is_known(&self) -> bool {
        self.greeting.peer().is_some()
    }

    /// The other side's token, once it has been heard.
    pub const fn peer(&self) -> Option<u32> {
        self.greeting.peer()
    }

    /// Whether the other side has been heard, and isn't lost.
    pub const fn is_there(&self) -> bool {
        self.is_known() && !self.silence.is_long()
    }

    /// Tells the other side that this one is there, which ends what it had with an earlier one.
    pub fn greet(&mut self, now: Instant) {
        self.greeting.greet(now);
    }

    /// Opens a stream.
    pub fn open(&mut self, now: Instant, open: Open) -> Result<Key, Fault> {
        let ours = self.streams.count(true);
        let next = self.next.checked_add(1);
        let Some(next) = next.filter(|_| ours < self.settings.streams_max) else {
            self.stats.refused += 1;
            return Err(Fault::Full);
        };
        let key = Key {
            ours: true,
            n: self.next,
        };
        self.next = next;
        let mut stream = Stream::new(now, open, FIRST_CREDIT);
        stream.opening = Word::Due;
        self.streams.add(key, stream);
        self.silence.begin(now);
        if !self.is_known() {
            self.greet(now);
        }
        Ok(key)
    }

    /// A stream of the other side's has its connection.
    pub fn accept(&mut self, key: Key) {
        if self.streams.accept(key) {
            self.extend(key);
        }
    }

    /// A stream's client was connected ahead of its server: it is about to say something.
    pub fn expect(&mut self, now: Instant, key: Key) {
        let noted = self.streams.change_live(key, |stream| {
            (stream.question, stream.unanswered) = (Some(now), true);
        });
        // Others that come meanwhile are waited for no longer.
        if noted.is_some() && self.question.is_none_or(|at| at + ANSWERS * 2 <= now) {
            self.question = Some(now);
        }
    }

    /// Octets that a stream takes now.
    pub fn room(&mut self, key: Key) -> u64 {
        let Settings {
            hold,
            hold_alone,
            octets_max,
            ..
        } = self.settings;
        let hold = if self.is_only() { hold_alone } else { hold };
        self.streams.room(key, hold, octets_max)
    }

    /// Sends octets on a stream, whether or not there is room for them.
    pub fn write(&mut self, now: Instant, key: Key, octets: &[u8]) {
        self.streams.write(now, key, octets);
    }

    /// Nothing more is sent on a stream.
    pub fn finish(&mut self, key: Key) {
        self.streams.change_live(key, |stream| {
            stream.unanswered = false;
            stream.outbound.finish();
        });
    }

    /// Ends a stream at once; the other side is told this error.
    pub fn reset(&mut self, key: Key, error: u16) {
        self.end(key, error, ResetCause::Peer, true);
    }

    /// Ends a stream on which nothing has moved for too long; both sides are told why.
    pub fn expire(&mut self, key: Key) {
        self.end(key, TIMER_EXPIRED, ResetCause::Idle, true);
    }

    /// How long the other side's answer takes at most, as a rule.
    pub fn patience(&self) -> Duration {
        self.flights.patience(self.settings.waits)
    }

    /// Whether octets of a stream wait to go, or for the word that they have come.
    pub fn is_leaving(&self, key: Key) -> bool {
        self.streams
            .get(key)
            .is_some_and(|it| it.outbound.held() > 0)
    }

    /// Octets of a stream that haven't gone, or are to go again.
    pub fn waiting(&self, key: Key) -> u64 {
        self.streams.get(key).map_or(0, |it| it.outbound.waiting())
    }

    /// Octets that a stream has for whom it is for.
    pub fn read(&mut self, key: Key, octets_max: usize) -> Vec<u8> {
        let octets = self.streams.read(key, octets_max);
        self.extend(key);
        octets
    }

    fn extend(&mut self, key: Key) {
        let (window, octets_max) = (self.settings.window, self.settings.octets_max);
        self.streams.extend(key, window, octets_max);
    }

    /// Whether all of a stream that comes has been read. The stream may be forgotten then.
    pub fn at_end(&mut self, key: Key) -> bool {
        let done = self.streams.change(key, |it| it.inbound.read_end());
        self.streams.forget(key);
        done == Some(true)
    }

    /// What happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When there is something to do by itself.
    pub fn wake(&self) -> Option<Instant> {
        let answer = self.flights.wake(self.settings.waits);
        let all = [self.greeting.wake(), self.receipts.due(), answer];
        all.into_iter().flatten().chain(self.wake_silent()).min()
    }

    /// The same where nothing can be heard.
    pub fn wake_silent(&self) -> Option<Instant> {
        let patience = self.patience();
        self.silence.wake(patience)
    }

    /// Nothing could be heard before now.
    pub fn wait(&mut self, now: Instant) {
        self.flights.wait(now);
        self.silence.end();
        if !self.flights.is_empty() {
            self.silence.begin(now);
        }
    }

    /// Takes what hasn't been answered for lost.
    pub fn tend(&mut self, now: Instant) {
        let told = self.flights.tend(now, self.settings.waits);
        self.learn(told);
        self.tend_silence(now);
    }

    /// Nothing can be heard.
    pub fn tend_silent(&mut self, now: Instant) {
        self.silence.begin(now);
        self.tend_silence(now);
    }

    fn tend_silence(&mut self, now: Instant) {
        let patience = self.patience();
        let Some(stage) = self.silence.tend(now, patience) else {
            return;
        };
        for key in self.streams.keys() {
            let waits = self.streams.get(key).is_some_and(|it| !it.accepted);
            if stage == Stage::Over {
                self.end(key, TIMED_OUT, ResetCause::Far, true);
            } else if key.ours && waits && self.end(key, TIMED_OUT, ResetCause::Peer, true) {
                self.events.push_back(Event::Lost(key));
            }
        }
    }

    /// The code points of which there is something to send now. A hello goes ahead of what goes by
    /// any of them, and by one of its own only where there is none.
    pub fn wants(&self, now: Instant) -> BTreeSet<u8> {
        let mut all = BTreeSet::new();
        if self.is_known() && self.receipts.is_due(now) {
            all.insert(self.receipts.dscp());
        }
        if self.is_known() && self.flights.may_go() {
            all.extend(self.streams.wanting(self.flights.has_room()));
        }
        if all.is_empty() && self.greeting.is_due(now) {
            all.insert(self.receipts.dscp());
        }
        all
    }

    /// Whether the other side asked for something so short a time ago, while there were others.
    pub fn is_asked(&self, now: Instant, lately: Duration) -> bool {
        self.asked.is_some_and(|at| now < at + lately)
    }

    /// Until when answers to what was asked last may come in, if they should be waited for.
    pub fn settles(&self) -> Option<Instant> {
        let most = self.question? + ANSWERS;
        Some(self.streams.settles().min(most))
    }

    /// Whether the link gave up what may have arrived, and the other side hasn't told since: much
    /// of what is ready may be there.
    pub const fn is_in_doubt(&self) -> bool {
        self.flights.is_doubtful()
    }

    /// Octets of streams that may go now.
    pub fn ready(&self) -> u64 {
        let goes = self.is_known() && self.flights.may_go();
        let fresh = self.flights.has_room();
        if goes { self.streams.ready(fresh) } else { 0 }
    }

    /// Of these, octets of streams by which the other side asked something so short a time ago.
    pub fn answers(&self, now: Instant, lately: Duration) -> u64 {
        self.ready().min(self.streams.answers(now, lately))
    }

    /// Whether there is no more than one stream, which may be idle.
    pub fn is_only(&self) -> bool {
        self.streams.len() <= 1
    }

    /// Whether no stream of a code point waits for another one to send.
    pub fn is_alone(&self, dscp: u8) -> bool {
        self.streams.is_alone(dscp, self.flights.has_room())
    }

    /// The next datagram of a code point, of at most so many octets.
    pub fn poll(&mut self, now: Instant, dscp: u8, octets_max: usize) -> Option<Vec<u8>> {
        let introduced = self.introduced.as_mut();
        let introduces = introduced.is_some_and(|(until, by)| by.insert(dscp) && now < *until);
        if introduces || self.greeting.is_due(now) {
            // The lowest of our streams that the other side may still hear of.
            let first = self.streams.first().map_or(self.next, |key| key.n);
            let more = !self.streams.all.is_empty();
            let mut hello = self
                .greeting
                .say(now, first, self.settings.waits.patience, more);
            let own = self.own.iter().map(|it| Item::Network(*it));
            own.for_each(|item| write_item(&item, &mut hello));
            return Some(self.count(hello));
        }
        let to = self.greeting.token()?;
        let asks = self.flights.asks();
        let octets_max = octets_max.min(if asks { PROBE_OCTETS } else { usize::MAX });
        let mut body = Vec::new();
        let ranges = if asks {
            PROBE_RANGES
        } else {
            codec::ACK_RANGES_MAX
        };
        if let Some(ack) = self.receipts.item(ranges) {
            write_item(&ack, &mut body);
        }
        let mut said = Vec::new();
        if self.flights.may_go() {
            self.streams
                .say_words(dscp, octets_max, &mut body, &mut said);
            // Who waits to be connected needn't wait for octets of others.
            if !said.iter().any(|it| matches!(it, Said::Accept(_))) {
                self.say_data(now, dscp, octets_max, &mut body, &mut said);
            }
        }
        let answers = said.is_empty();
        if answers && !self.receipts.is_due(now) {
            return None;
        }
        self.receipts.said();
        let number = (!answers).then_some(self.flights.next());
        let mut bytes = Vec::new();
        write_head(Head::Items { to, number }, &mut bytes);
        bytes.append(&mut body);
        if !answers {
            self.silence.begin(now);
            self.flights.send(now, dscp, bytes.len(), said);
        }
        Some(self.count(bytes))
    }

    const fn count(&mut self, datagram: Vec<u8>) -> Vec<u8> {
        self.stats.datagrams_out += 1;
        self.stats.octets_out += datagram.len() as u64;
        datagram
    }

    /// Says octets of streams, those first that had least.
    fn say_data(
        &mut self,
        now: Instant,
        dscp: u8,
        octets_max: usize,
        body: &mut Vec<u8>,
        said: &mut Vec<Said>,
    ) {
        let (fresh, wait) = (self.flights.has_room(), self.settings.wait);
        while let Some(key) = self.streams.next(now, dscp, fresh, wait) {
            let used = body.len() + codec::header_octets(self.flights.next());
            let written = self.streams.get(key).map(|it| it.outbound.written());
            let place = number_octets(written.unwrap_or_default());
            let around = 1 + number_octets(u64::from(key.n)) + place + LENGTH_OCTETS;
            let Some(room) = octets_max
                .checked_sub(used + around)
                .filter(|room| *room >= PIECE_OCTETS_MIN)
            else {
                return;
            };
            let taken = self.streams.change(key, |stream| {
                let (piece, octets) = stream.outbound.take(room, fresh)?;
                stream.attained += octets.len() as u64;
                stream.served = now;
                Some((piece, octets))
            });
            let Some((piece, octets)) = taken.flatten() else {
                return;
            };
            let item = Item::Data {
                key,
                offset: piece.from,
                end: piece.end,
                octets: &octets,
            };
            write_item(&item, body);
            said.push(Said::Data(key, piece));
            self.events.push_back(Event::Ready(key));
        }
    }

    /// Whether a datagram has the tokens of both sides: whoever sent it saw one of ours.
    #[must_use]
    pub fn is_of_both(&self, bytes: &[u8]) -> bool {
        match codec::read(bytes) {
            Ok((Head::Items { to, .. }, _)) => self.greeting.is_known(to),
            _ => false,
        }
    }

    /// Takes a datagram that came with this code point. One that makes no sense changes nothing.
    pub fn hear(&mut self, now: Instant, dscp: u8, bytes: &[u8]) -> Result<(), Malformed> {
        let heard = codec::read(bytes);
        let (head, items) = heard.inspect_err(|_| self.stats.malformed += 1)?;
        match head {
            Head::Hello { to, from, first } => {
                let networks = networks(items);
                let networks = networks.inspect_err(|_| self.stats.malformed += 1)?;
                let news = self.greeting.hear(now, to, from);
                match news {
                    News::Nothing => {}
                    News::Again => {
                        self.introduced = None;
                        self.silence.end();
                    }
                    News::There => self.begin(first),
                    News::Anew => self.begin_anew(first),
                }
                if matches!(news, News::There | News::Anew) {
                    self.introduced = Some((now + self.patience(), BTreeSet::new()));
                }
                if news != News::Nothing {
                    self.announced = networks;
                }
            }
            Head::Items { to, .. } if !self.greeting.is_known(to) => {
                self.stats.strangers += 1;
                self.greeting.hear_stranger(now);
            }
            Head::Items { number, .. } => {
                self.hear_items(now, dscp, number, items)?;
                self.introduced = None;
            }
        }
        Ok(())
    }

    /// The link gave up a datagram of ours, which may have `left` and arrived: what it says goes
    /// again without waiting for an answer.
    pub fn hear_returned(&mut self, now: Instant, bytes: &[u8], left: bool) {
        match codec::read(bytes) {
            Ok((Head::Items { number: None, .. }, _)) => self.receipts.say_again(now),
            Ok((Head::Items { to, number }, _)) if self.greeting.token() == Some(to) => {
                let told = number.map(|number| self.flights.give_up(number, left));
                self.learn(told.unwrap_or_default());
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// The other side is there, with nothing from before.
    fn begin(&mut self, first: u32) {
        self.openings.begin(first);
        self.receipts.clear();
        self.flights.clear();
        self.silence.end();
    }

    /// The other side isn't the one that it was.
    fn begin_anew(&mut self, first: u32) {
        self.begin(first);
        self.stats.restarts += 1;
        for key in self.streams.keys() {
            let fresh = |it: &Stream| it.outbound.is_untouched() && it.opening != Word::Known;
            // Nobody there has heard of it, or done anything for it that we know of.
            if key.ours && self.streams.is_live(key) && self.streams.get(key).is_some_and(fresh) {
                self.streams.change(key, |stream| {
                    stream.opening = Word::Due;
                    stream.outbound.lose_end();
                });
            } else {
                self.end(key, CONNECTION_RESET, ResetCause::Restart, false);
                self.streams.forget(key);
            }
        }
    }

    fn hear_items(
        &mut self,
        now: Instant,
        dscp: u8,
        number: Option<u64>,
        items: Reader<'_>,
    ) -> Result<(), Malformed> {
        let unready = self
            .judge(items)
            .inspect_err(|_| self.stats.malformed += 1)?;
        self.stats.datagrams_in += 1;
        if let Some(number) = number {
            if unready || self.receipts.is_forgotten(number) {
                return Ok(());
            }
            let delay = self.settings.waits.ack;
            if !self.receipts.take(now, delay, dscp, number) {
                self.stats.duplicates += 1;
                return Ok(());
            }
        }
        let mut items = items;
        while let Some(item) = items.item()? {
            self.hear_item(now, item);
        }
        Ok(())
    }

    /// Whether there are items for streams whose opening hasn't come, or that can't be opened now.
    fn judge(&self, mut items: Reader<'_>) -> Result<bool, Malformed> {
        let mut opened = BTreeSet::new();
        let mut unready = false;
        while let Some(item) = items.item()? {
            let key = match item {
                Item::Open { n, .. } => {
                    unready |= !self.may_open();
                    opened.insert(n);
                    continue;
                }
                Item::Reset { key, .. } => {
                    unready |= key.ours && !self.may_open();
                    continue;
                }
                Item::Data { key, .. } | Item::Credit { key, .. } => key,
                Item::Accept { .. } | Item::Ack(_) => continue,
                Item::Network(_) => return Err(Malformed),
            };
            let unknown = self.openings.is_unknown(key.n);
            unready |= key.ours && unknown && !opened.contains(&key.n);
        }
        Ok(unready)
    }

    /// Whether there is place for a stream of theirs, and for those before it that come later.
    fn may_open(&self) -> bool {
        let most = self.settings.streams_max;
        self.openings.has_room(3 * most) && self.streams.len() < 3 * most
    }

    fn hear_item(&mut self, now: Instant, item: Item<'_>) {
        let mine = |key: Key| Key {
            ours: !key.ours,
            n: key.n,
        };
        match item {
            Item::Open { n, dscp, ends } => self.hear_open(now, n, Open { ends, dscp }),
            Item::Accept { n } => {
                let key = Key { ours: true, n };
                if self.streams.accept(key) {
                    self.events.push_back(Event::Accepted(key));
                    self.extend(key);
                }
            }
            Item::Data {
                key,
                offset,
                end,
                octets,
            } => {
                let key = mine(key);
                let asks = |it: &Stream| it.is_asked_by(offset);
                if self.streams.get(key).is_some_and(asks) {
                    self.note_question(now, key);
                }
                self.hear_data(key, offset, end, octets);
            }
            Item::Credit { key, limit } => {
                self.streams.change(mine(key), |stream| {
                    stream.outbound.limit = stream.outbound.limit.max(limit);
                });
            }
            Item::Reset { key, error } => {
                let key = mine(key);
                if !key.ours {
                    self.openings.take(key.n);
                }
                let cause = match error {
                    TIMER_EXPIRED => ResetCause::Idle,
                    _ => ResetCause::Far,
                };
                self.end(key, error, cause, false);
                self.streams.forget(key);
            }
            // None of them is here.
            Item::Network(_) => {}
            Item::Ack(ranges) => {
                let told = self.flights.hear(now, &ranges, self.settings.waits);
                // Who only speaks, and doesn't hear, is silent as well.
                if told.answers {
                    self.silence.end();
                }
                self.learn(told);
            }
        }
    }

    fn hear_open(&mut self, now: Instant, n: u32, open: Open) {
        let key = Key { ours: false, n };
        if !self.openings.take(n) || self.streams.get(key).is_some() {
            return;
        }
        let stream = Stream::new(now, open, FIRST_CREDIT);
        let half_open = self.streams.half_open();
        if half_open >= HALF_OPEN_MAX || self.streams.count(false) >= self.settings.streams_max {
            self.stats.refused += 1;
            return self.streams.add_refused(key, stream, TRY_AGAIN);
        }
        self.streams.add(key, stream);
        self.events.push_back(Event::Opened(key, open));
        self.note_question(now, key);
    }

    fn note_question(&mut self, now: Instant, key: Key) {
        let noted = self.streams.change_live(key, |stream| {
            // Clients here are near, servers may be far.
            (stream.question, stream.unanswered) = (Some(now), !key.ours);
        });
        if noted.is_some() {
            self.question = Some(now);
        }
        if self.streams.len() > 1 {
            self.asked = Some(now);
        }
    }

    fn hear_data(&mut self, key: Key, offset: u64, end: bool, octets: &[u8]) {
        if !self.streams.is_live(key) {
            return;
        }
        if self.streams.take(key, offset, octets, end) {
            self.events.push_back(Event::Ready(key));
        } else {
            // It isn't what it agreed to be.
            self.end(key, PROTOCOL, ResetCause::Far, true);
        }
    }

    /// Some datagrams arrived, some are lost.
    fn learn(&mut self, told: Told) {
        self.stats.repaired += told.repairs;
        for said in told.arrived {
            let ready = self.streams.arrive(said);
            self.events.extend(ready.map(Event::Ready));
        }
        told.lost
            .into_iter()
            .for_each(|said| self.streams.lose(said));
    }

    /// Ends a stream; false if it had ended.
    fn end(&mut self, key: Key, error: u16, cause: ResetCause, tell: bool) -> bool {
        let ended = self.streams.end(key, error, cause, tell);
        if ended && cause != ResetCause::Peer {
            self.events.push_back(Event::Reset(key, error));
        }
        ended
    }

    /// Asserts that octets are balanced, and that limits hold.
    pub fn check(&self) {
        self.streams.check();
        self.flights.check();
    }
}

/// The networks of a hello, which has nothing else.
fn networks(mut items: Reader<'_>) -> Result<Vec<Prefix>, Malformed> {
    let mut networks = Vec::new();
    while let Some(item) = items.item()? {
        match item {
            Item::Network(network) if networks.len() < codec::NETWORKS_MAX => {
                networks.push(network.network());
            }
            _ => return Err(Malformed),
        }
    }
    Ok(networks)
}

#[cfg(test)]
#[path = "hello_tests.rs"]
mod hellos;

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "swarm_tests.rs"]
mod swarm;
