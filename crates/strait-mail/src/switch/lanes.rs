//! Connections to next hops: one for each precedence, and none sends while a higher one to the same
//! hop has something to send.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;

use strait_core::mail::MailState;
use strait_core::node::{Held, Side, StoreError, StreamEvent, StreamOp};
use strait_core::tls::TlsRole;
use strait_core::work::Work;
use strait_core::{Duration, Instant};

use super::asks::{Asks, Pending};
use super::line::{Line, OF_SESSION};
use super::outcomes::{never, outcome, said};
use super::polls;
use super::queue::{Outcome, Queue, Way, text_key};
use super::sending::{Packer, Reading, Sending, whole_lines};
use super::{Bearer, Link, Yields};
use crate::client::{Client, Event, Letter};
use crate::message::Recipient;
use crate::pack::{self, PIECE_OCTETS_MAX};
use crate::precedence::Precedence;
use crate::report::Action;

mod hops;

/// A lane: to which hop, and for which precedence; and its first connection, or a further one.
pub(super) type LaneId = (usize, Precedence, usize);

/// Octets of replies that may come: some hundred of them.
const INBOUND_OCTETS: u32 = 16 * 1024;
/// Line time of what may lie below this switch, and the least octets of it: some segments of TCP.
const HELD: Duration = Duration::from_secs(2);
const HELD_OCTETS_MIN: u32 = 5600;
/// What a connection is given at a time, if there is as much: two packets, as it makes packets of
/// what it gets, and short ones cost a slow line more headers.
const GIVEN_OCTETS_MIN: usize = 2800;
/// Line time of a piece of a message, and its least and most octets. Each costs a command, an
/// answer, and its acknowledgement.
const PIECE: Duration = Duration::from_secs(8);
const PIECE_OCTETS: core::ops::RangeInclusive<u64> = 1024..=65_536;
/// Octets that a kernel may have taken of a connection, whatever it was told.
const KERNEL_OCTETS: u64 = 16_384;
/// How long a hop may take for a reply (RFC 5321 section 4.5.3.2.6 has ten minutes for the last),
/// and for a connection that lower lanes wait for.
const REPLY: Duration = Duration::from_secs(600);
const CONNECT: Duration = Duration::from_secs(20);
/// Pauses behind a connection that came to nothing: the first, and the longest. A link that comes
/// back ends them.
const AGAIN: Duration = Duration::from_secs(2);
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// For each connection that a lane has, so many messages wait before it has a further one.
const GROWN: usize = 4;
/// How long a connection without work stays, where it isn't to stay for good.
const IDLE: Duration = Duration::from_secs(60);
/// A link that was away for longer has made its connections wait: they begin anew.
const STALE: Duration = Duration::from_secs(5);
/// What a hop hears of a connection that is given up (ETIMEDOUT of Linux).
const TIMED_OUT: i32 = 110;

#[derive(Debug, Default)]
struct Lane {
    line: Option<Line>,
    /// Connections that came to nothing since one did, and when the next may be tried.
    failures: u32,
    again: Option<Instant>,
    /// Why the last one did.
    failed: String,
}

/// All lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    lanes: BTreeMap<LaneId, Lane>,
    streams: BTreeMap<u64, LaneId>,
    next: u64,
    /// By route: the way there, and since when it isn't.
    links: Vec<Option<Link>>,
    away: Vec<Option<Instant>>,
    /// Lanes that are to be looked at before the next event.
    soonest: Option<Instant>,
    /// When it looked last: what was due then is done, or waits for something else.
    looked: Instant,
}

impl Lanes {
    /// To next hops that may have so many connections for a precedence.
    pub(super) fn new(connections: impl Iterator<Item = usize>) -> Self {
        let mut lanes = BTreeMap::new();
        let mut hops = 0;
        for most in connections {
            let each = |it: Precedence| (0..most.max(1)).map(move |n| (hops, it, n));
            let ids = Precedence::ALL.into_iter().flat_map(each);
            lanes.extend(ids.map(|id| (id, Lane::default())));
            hops += 1;
        }
        Self {
            lanes,
            streams: BTreeMap::new(),
            next: 0,
            links: alloc::vec![None; hops],
            away: alloc::vec![None; hops],
            soonest: None,
            looked: Instant::ZERO,
        }
    }

    /// A hop's lanes, the least precedence first.
    fn of_hop(&self, hop: usize) -> Vec<LaneId> {
        let least = (hop, Precedence::ALL[0], 0);
        let all = self.lanes.range(least..).map(|it| *it.0);
        all.take_while(|id| id.0 == hop).collect()
    }

    /// The way to a hop.
    pub(super) fn link(&self, hop: usize) -> Option<Link> {
        self.links.get(hop).copied().flatten()
    }

    /// Ways to hops, as they are now; whether any came or went.
    pub(super) fn set_links(
        &mut self,
        now: Instant,
        links: impl Iterator<Item = Option<Link>>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) -> bool {
        let mut changed = false;
        for (hop, link) in links.enumerate().take(self.links.len()) {
            let was = core::mem::replace(&mut self.links[hop], link);
            match (was, link) {
                (Some(_), None) => {
                    self.away[hop] = Some(now);
                    polls::end_call(queue, hop, None);
                }
                (None, Some(_)) => self.come_back(now, hop, queue, asks),
                (Some(was), Some(link)) if was.bearer != link.bearer => {
                    self.change_bearer(now, hop, link.bearer, queue, asks);
                }
                _ => continue,
            }
            changed = true;
        }
        changed
    }

    /// A link is there again: nothing waits for a clock.
    fn come_back(&mut self, now: Instant, hop: usize, queue: &mut Queue, asks: &mut Asks) {
        let away = self.away[hop].take();
        let stale = away.is_some_and(|since| now.since(since) >= STALE);
        for id in self.of_hop(hop) {
            let line = self.lanes.get_mut(&id).and_then(|it| it.line.as_mut());
            match line {
                Some(line) if line.is_of_session() => line.forgive(now),
                _ if stale => self.part(now, id, "the link was down", queue, asks),
                _ => {}
            }
            if let Some(lane) = self.lanes.get_mut(&id) {
                (lane.failures, lane.again) = (0, None);
            }
        }
        queue.hops.is_back(hop);
        queue.hurry(Way::Hop(hop), None);
    }

    /// What carries a hop's lanes is another thing now: who isn't connected yet begins anew by
    /// that.
    fn change_bearer(
        &mut self,
        now: Instant,
        hop: usize,
        bearer: Bearer,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        for id in self
            .of_hop(hop)
            .into_iter()
            .filter(|_| bearer == Bearer::Session)
        {
            let lane = self.lanes.get_mut(&id);
            let line = lane.as_ref().and_then(|it| it.line.as_ref());
            if line.is_some_and(|it| !it.open && !it.is_of_session()) {
                self.part(now, id, "its gateway is up again", queue, asks);
            } else if let Some(lane) = lane {
                lane.again = None;
            }
        }
    }

    /// Ends a lane's connection, if it isn't gone already; its messages go by the next.
    fn part(&mut self, now: Instant, id: LaneId, why: &str, queue: &mut Queue, asks: &mut Asks) {
        let line = self.lanes.get_mut(&id).and_then(|it| it.line.take());
        let Some(line) = line else { return };
        if self.streams.remove(&line.stream).is_some() {
            asks.stream(Side::Node, line.stream, StreamOp::Reset(TIMED_OUT));
        }
        let way = Way::Hop(id.0);
        let under_way: BTreeSet<u64> = line.client.under_way().collect();
        for of in under_way {
            if let Some(verdicts) = line.client.partly(of) {
                let outcomes = verdicts.into_iter();
                let outcomes = outcomes.map(|it| outcome(it, Action::Delivered)).collect();
                queue.finish(now, (way, of), outcomes, asks);
                // Nobody has refused the others.
                queue.hurry(way, Some(of));
                continue;
            }
            let there = line.client.may_be_there(of);
            queue.give_back(way, of, Some(why.to_string()), there);
        }
    }

    /// Something happened to a connection.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        stream: u64,
        event: StreamEvent<'_>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let Some(id) = self.streams.get(&stream).copied() else {
            return;
        };
        let Some(line) = self.lanes.get_mut(&id).and_then(|it| it.line.as_mut()) else {
            return;
        };
        line.stirred = now;
        if line.ready && matches!(event, StreamEvent::Data(_)) {
            queue.hops.heard(now, id.0);
        }
        match event {
            StreamEvent::Opened { .. } => {
                line.open = true;
                asks.stream(Side::Node, stream, StreamOp::Credit(INBOUND_OCTETS));
            }
            StreamEvent::Data(octets) => {
                line.client.take(octets);
                let credit = StreamOp::Credit(octets.len() as u32);
                asks.stream(Side::Node, stream, credit);
                self.hear_replies(now, id, queue, asks);
            }
            StreamEvent::Secured { .. } => line.client.secured(),
            StreamEvent::Writable(octets) => {
                line.writable += u64::from(octets);
                line.room = line.room.max(line.writable);
            }
            StreamEvent::Fin => self.lose(now, id, "the connection was ended", queue, asks),
            StreamEvent::Reset(error) => {
                let why = format!("the connection failed (error {error})");
                self.streams.remove(&stream);
                self.lose(now, id, &why, queue, asks);
            }
            _ => {}
        }
    }

    /// What may be kept of octets of a connection, if not they themselves.
    pub(super) fn conceal(&self, stream: u64, octets: &[u8]) -> Option<Vec<u8>> {
        let id = self.streams.get(&stream)?;
        let line = self.lanes.get(id)?.line.as_ref()?;
        line.client.conceal(octets)
    }

    /// A connection is of no use any more: the next is tried after a pause.
    fn lose(&mut self, now: Instant, id: LaneId, why: &str, queue: &mut Queue, asks: &mut Asks) {
        queue.stats.broken += 1;
        polls::end_call(queue, id.0, Some(id.1));
        self.part(now, id, why, queue, asks);
        if let Some(lane) = self.lanes.get_mut(&id) {
            let pause = AGAIN
                .saturating_mul(1 << lane.failures.min(8))
                .min(AGAIN_MAX);
            lane.failures += 1;
            lane.again = Some(now + pause);
            lane.failed = why.to_string();
        }
    }

    fn hear_replies(&mut self, now: Instant, id: LaneId, queue: &mut Queue, asks: &mut Asks) {
        let way = Way::Hop(id.0);
        while let Some(lane) = self.lanes.get_mut(&id) {
            let Some(line) = &mut lane.line else { return };
            let Some(event) = line.client.poll() else {
                return;
            };
            let ends = |of: u64, line: &mut Line| {
                if line.sending.as_ref().is_some_and(|it| it.id == of) {
                    line.sending = None;
                }
            };
            match event {
                Event::Ready => {
                    line.ready = true;
                    lane.failures = 0;
                    lane.failed.clear();
                    queue.hops.heard(now, id.0);
                    queue.stats.connections += 1;
                }
                Event::Secure => {
                    let hop = queue.hops.get(id.0);
                    if let Some((profile, name)) = hop.and_then(|it| it.tls.clone()) {
                        let role = TlsRole::Client { name };
                        asks.stream(
                            Side::Node,
                            line.stream,
                            StreamOp::StartTls { profile, role },
                        );
                    }
                }
                Event::LogIn => {
                    let login = queue.hops.get(id.0).and_then(|it| it.login.clone());
                    if let Some((name, file)) = login {
                        let work = Work::Credential { name, file };
                        let stream = line.stream;
                        asks.work(work, Pending::Credential { stream });
                    }
                }
                Event::Done(of, verdicts) => {
                    ends(of, line);
                    queue.hops.answered(id.0);
                    // Who is to hear that a message is late is to hear that nobody looks any more.
                    let by = queue.message(of).and_then(|it| it.by);
                    let offers = line.client.offers();
                    let lmtp = queue.hops.is_lmtp(id.0);
                    let told = by.is_some_and(|it| it.traced || offers.by.is_none());
                    let taken = match (told, lmtp) {
                        (_, true) => Action::Delivered,
                        (true, false) => Action::Traced,
                        (false, false) => Action::Relayed,
                    };
                    let outcomes = verdicts.into_iter();
                    let outcomes = outcomes.map(|it| outcome(it, taken)).collect();
                    queue.finish(now, (way, of), outcomes, asks);
                }
                Event::Turned(reply) => {
                    queue.hops.asked(now, id.0);
                    lane.failed = if reply.code / 100 == 2 {
                        String::new()
                    } else {
                        said(&reply)
                    };
                }
                Event::Resume(of, octets) => line.go_on(of, octets, queue),
                Event::Again(of) => {
                    ends(of, line);
                    queue.give_back(way, of, Some("it is to be sent again".into()), true);
                }
                Event::Lost(reply) => {
                    return self.lose(now, id, &said(&reply), queue, asks);
                }
            }
        }
    }

    /// The line by which a connection says who this switch is, if there is one.
    pub(super) fn hear_credential(
        &mut self,
        now: Instant,
        stream: u64,
        said: Option<&[u8]>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let Some(id) = self.streams.get(&stream).copied() else {
            return;
        };
        let line = self.lanes.get_mut(&id).and_then(|it| it.line.as_mut());
        match line.zip(said) {
            Some((line, said)) => {
                line.stirred = now;
                line.client.log_in(said);
            }
            None => self.lose(
                now,
                id,
                "the file of the password can't be read",
                queue,
                asks,
            ),
        }
    }

    /// A piece of a text was read.
    pub(super) fn hear_text(
        &mut self,
        now: Instant,
        reading: Reading,
        result: Result<Option<&[u8]>, StoreError>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let id = reading.lane;
        let line = self.lanes.get_mut(&id).and_then(|it| it.line.as_mut());
        let Some(line) = line.filter(|it| it.stream == reading.stream) else {
            return;
        };
        let right = |it: &&mut Sending| (it.id, it.offset) == (reading.id, reading.offset);
        let Some(sending) = line.sending.as_mut().filter(right) else {
            return;
        };
        if !core::mem::take(&mut sending.reading) || line.client.wants() != Some(sending.id) {
            return;
        }
        let Some(message) = queue.message(sending.id) else {
            return;
        };
        let octets = match result {
            Ok(octets) => octets.unwrap_or_default(),
            // It is tried again as soon as something stirs here.
            Err(_) => {
                self.soonest = Some(now + Duration::from_secs(1));
                return;
            }
        };
        if octets.is_empty() && sending.offset < message.octets {
            return self.lose(now, id, "its text can't be read", queue, asks);
        }
        let mut piece = core::mem::take(&mut sending.prefix);
        let packs = sending.packs(line.client.offers());
        let octets = if packs {
            whole_lines(&octets[..octets.len().min(PIECE_OCTETS_MAX - piece.len())])
        } else {
            octets
        };
        piece.extend(sending.cuts.without(sending.offset, octets));
        sending.offset += octets.len() as u64;
        let last = sending.offset >= message.octets;
        if piece.is_empty() && !last {
            // None of it is sent: the next piece is read at once.
            return;
        }
        let packs = packs && !piece.is_empty();
        if packs {
            let offset = sending.offset;
            let work = sending.pack(piece, last, &queue.settings.dictionary);
            return asks.work(work, Pending::Packed(Reading { offset, ..reading }));
        }
        sending.packer.rests = sending.packer.rests.saturating_sub(1);
        queue.stats.octets_out += piece.len() as u64;
        queue.stats.octets_out_packed += piece.len() as u64;
        line.client.piece(&piece, last);
        if last {
            line.sending = None;
        }
    }

    /// A piece was packed, if that could be done.
    pub(super) fn hear_packed(
        &mut self,
        reading: Reading,
        frame: Option<&[u8]>,
        queue: &mut Queue,
    ) {
        let line = self.lanes.get_mut(&reading.lane);
        let line = line.and_then(|it| it.line.as_mut());
        let Some(line) = line.filter(|it| it.stream == reading.stream) else {
            return;
        };
        let right = |it: &&mut Sending| (it.id, it.offset) == (reading.id, reading.offset);
        let Some(sending) = line.sending.as_mut().filter(right) else {
            return;
        };
        let Some(piece) = sending.packer.piece.take() else {
            return;
        };
        sending.reading = false;
        let octets = piece.octets.len() as u64;
        queue.stats.octets_out += octets;
        if let Some(sent) = frame.and_then(|it| pack::sent(it, piece.octets.len())) {
            queue.stats.octets_out_packed += sent.len() as u64;
            let packer = &mut sending.packer;
            packer.before.take(&piece.folded);
            packer.packed.0 += octets;
            packer.packed.1 += sent.len() as u64;
            packer.rest = 0;
            line.client.packed(sent, piece.last);
        } else {
            queue.stats.octets_out_packed += octets;
            sending.packer.give_up();
            line.client.piece(&piece.octets, piece.last);
        }
        if piece.last {
            line.sending = None;
        }
    }

    /// Has each hop get what is most urgent.
    pub(super) fn settle(&mut self, now: Instant, queue: &mut Queue, asks: &mut Asks) {
        (self.soonest, self.looked) = (None, now);
        self.judge(now, queue, asks);
        for hop in 0..self.links.len() {
            let Some(link) = self.link(hop) else { continue };
            // Higher lanes have something to send; one of them has no connection for it yet, which
            // then has the line for itself.
            let (mut higher, mut opening) = (false, false);
            let ids = self.of_hop(hop);
            self.turn(now, hop, &ids, queue);
            for precedence in Precedence::ALL.into_iter().rev() {
                let (mut works, mut opens) = (false, false);
                let yields = queue.settings.lanes[precedence.index()].yields;
                let aborts = higher && yields == Yields::Abort;
                let rests = higher && yields >= Yields::Pause;
                for id in ids.iter().copied().filter(|it| it.1 == precedence) {
                    if aborts && self.has_more(id) {
                        self.part(now, id, "a higher precedence uses the line", queue, asks);
                    }
                    if !higher {
                        self.give_up_silent(now, id, link, queue, asks);
                    }
                    if !opening && !aborts {
                        self.connect(now, id, link, queue, asks);
                    }
                    if !higher || yields == Yields::Never {
                        self.begin(now, id, queue, asks);
                    }
                    self.go_on(id, link, rests, queue, asks);
                    if !rests {
                        self.drain(id, asks);
                    }
                    let has_work = self.has_work(now, id, queue);
                    works |= has_work;
                    opens |= has_work && !self.is_ready(id);
                }
                higher |= works;
                opening |= opens;
            }
        }
    }

    /// Whether there is more of a message than what a lane's connection was given.
    fn has_more(&self, id: LaneId) -> bool {
        let line = self.lanes.get(&id).and_then(|it| it.line.as_ref());
        line.is_some_and(|it| it.ready && it.client.outgoing() > 0) || self.sends(id)
    }

    fn sends(&self, id: LaneId) -> bool {
        let line = self.lanes.get(&id).and_then(|it| it.line.as_ref());
        line.is_some_and(|it| it.sending.is_some())
    }

    fn is_ready(&self, id: LaneId) -> bool {
        let line = self.lanes.get(&id).and_then(|it| it.line.as_ref());
        line.is_some_and(|it| it.ready)
    }

    /// Whether lower lanes wait for this one: it has something to send, and a connection, or soon;
    /// or the other side hasn't got all of it, which a shorter message would overtake.
    fn has_work(&self, now: Instant, id: LaneId, queue: &Queue) -> bool {
        let Some(line) = self.lanes.get(&id).and_then(|it| it.line.as_ref()) else {
            return false;
        };
        let waits = queue.first(Way::Hop(id.0), id.1).is_some();
        let soon = line.ready || now.since(line.since) < CONNECT;
        line.sending.is_some() || line.is_behind() && line.ready || (waits && soon)
    }

    fn give_up_silent(
        &mut self,
        now: Instant,
        id: LaneId,
        link: Link,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let Some(line) = self.lanes.get(&id).and_then(|it| it.line.as_ref()) else {
            return;
        };
        if line.client.awaits() && line.sending.is_none() {
            let most = REPLY.max(answer_time(Some(link)));
            if now >= line.stirred + most {
                if line.client.is_busy() {
                    queue.hops.doubt(now, id.0);
                }
                self.lose(now, id, "no reply came", queue, asks);
            }
            return;
        }
        let permanent = is_permanent(id, queue);
        let idle = !line.client.is_busy() && queue.first(Way::Hop(id.0), id.1).is_none();
        if idle && !permanent && line.ready && now >= line.stirred + IDLE {
            self.leave(id, asks);
        }
    }

    /// Ends a connection that nobody needs.
    fn leave(&mut self, id: LaneId, asks: &mut Asks) {
        let line = self.lanes.get_mut(&id).and_then(|it| it.line.take());
        if let Some(line) = line {
            self.streams.remove(&line.stream);
            asks.stream(
                Side::Node,
                line.stream,
                StreamOp::Send(b"QUIT\r\n".to_vec()),
            );
            asks.stream(Side::Node, line.stream, StreamOp::Fin);
        }
    }

    fn connect(&mut self, now: Instant, id: LaneId, link: Link, queue: &Queue, asks: &mut Asks) {
        let (hop, precedence, _) = id;
        let settings = queue.settings.lanes[precedence.index()];
        let Some(there) = queue.hops.get(hop) else {
            return;
        };
        let waits = self.wants_line(id, queue);
        let Some(lane) = self.lanes.get_mut(&id).filter(|it| it.line.is_none()) else {
            return;
        };
        let paused = lane.again.is_some_and(|at| now < at);
        if paused || !(waits || stays(id, queue)) || queue.unread() > 0 {
            return;
        }
        let of_session = match link.bearer {
            _ if !there.is_ours() => 0,
            Bearer::Awaited => return,
            Bearer::Session => OF_SESSION,
            Bearer::Tcp => 0,
        };
        self.next += 1;
        let stream = self.next | of_session;
        self.streams.insert(stream, id);
        let client = match there.tls {
            None => Client::new(&queue.settings.name),
            Some(_) => Client::with_tls(&queue.settings.name),
        };
        let client = client
            .with_login(there.login.is_some())
            .with_lmtp(there.lmtp);
        lane.line = Some(Line::new(now, stream, client));
        let time = HELD + link.turn.saturating_mul(2);
        let connect = StreamOp::Connect {
            src: None,
            dst: SocketAddr::new(there.to, there.port.unwrap_or(settings.port)),
            dscp: settings.dscp,
            held: Held::by_time(link.bit_s, time, HELD_OCTETS_MIN),
        };
        asks.stream(Side::Node, stream, connect);
    }

    /// Whether a lane has messages for a connection. A further one helps where each answer is
    /// waited for: what goes ahead of answers fills the line by itself.
    fn wants_line(&self, (hop, precedence, n): LaneId, queue: &Queue) -> bool {
        let waiting = queue.waiting(Way::Hop(hop), precedence);
        let is_full = |n: usize| {
            let lane = self.lanes.get(&(hop, precedence, n));
            let line = lane.and_then(|it| it.line.as_ref());
            line.is_some_and(|it| it.ready && it.client.is_busy() && !it.client.goes_ahead())
        };
        let grown = n == 0 || waiting >= GROWN * n && !queue.hops.is_doubted(hop);
        waiting > 0 && grown && (0..n).all(is_full)
    }

    /// Begins the next message of a lane.
    fn begin(&mut self, now: Instant, id: LaneId, queue: &mut Queue, asks: &mut Asks) {
        let way = Way::Hop(id.0);
        let line = self.lanes.get_mut(&id).and_then(|it| it.line.as_mut());
        let Some(line) = line.filter(|it| it.client.may_begin() && it.sending.is_none()) else {
            return;
        };
        if line.client.is_busy() && queue.hops.is_doubted(id.0) {
            return;
        }
        let Some(of) = queue.first(way, id.1) else {
            return;
        };
        if !queue.is_noted(way, of, asks) {
            return;
        }
        let recipients = queue.recipients(way, of);
        let Some(message) = queue.message(of) else {
            return;
        };
        let offers = line.client.offers();
        let by = queue.left(now, message);
        // Who keeps mailboxes has the message where it is to be.
        let by = by.filter(|_| offers.by.is_some() || !queue.hops.is_lmtp(id.0));
        if let Some((code, why)) = never(message, by, offers) {
            let never = |_: &Recipient| Outcome::Never(code.into(), why.into());
            let outcomes = recipients.iter().map(never).collect();
            queue.begin(way, of);
            return queue.finish(now, (way, of), outcomes, asks);
        }
        let tunnel = !offers.priority;
        let thin = message.is_thin_for(queue.hops.get(id.0).map(|it| it.to));
        let prefix = message.prefix(tunnel, thin);
        let cuts = message.cuts(tunnel, thin);
        let letter = Letter {
            id: of,
            sender: message.sender.clone(),
            wire: Some(message.wire),
            body: message.body,
            resume: (!tunnel).then(|| message.known_by(&recipients)),
            begun: message.begun,
            headers_only: message.headers_only,
            envid: message.envid.clone(),
            by,
            octets: (message.octets + prefix.len() as u64).saturating_sub(cuts.octets()),
            recipients,
        };
        queue.begin(way, of);
        line.client.begin(letter);
        line.sending = Some(Sending {
            id: of,
            offset: 0,
            prefix,
            cuts,
            tunnel,
            reading: false,
            paused: false,
            packer: Packer::default(),
        });
    }

    /// Has the next piece of a message read, unless a higher lane has something.
    fn go_on(&mut self, id: LaneId, link: Link, higher: bool, queue: &mut Queue, asks: &mut Asks) {
        let line = self.lanes.get_mut(&id).and_then(|it| it.line.as_mut());
        let Some(line) = line else { return };
        let wants = line.client.wants();
        let Some(sending) = line.sending.as_mut().filter(|it| wants == Some(it.id)) else {
            return;
        };
        if sending.reading {
            return;
        }
        if higher {
            queue.stats.paused += u64::from(!sending.paused);
            sending.paused = true;
            return;
        }
        sending.paused = false;
        sending.reading = true;
        let time = PIECE.max(link.turn);
        let held = Held::by_time(link.bit_s, time, 0).outbound;
        let octets = u64::from(held).clamp(*PIECE_OCTETS.start(), *PIECE_OCTETS.end());
        let octets = if sending.packs(line.client.offers()) {
            sending.packer.reach(octets)
        } else {
            octets
        };
        let reading = Reading {
            lane: id,
            stream: line.stream,
            id: sending.id,
            offset: sending.offset,
        };
        asks.load(
            text_key(sending.id),
            sending.offset,
            octets,
            Pending::Text(reading),
        );
    }

    /// Gives a connection what it can take.
    fn drain(&mut self, id: LaneId, asks: &mut Asks) {
        let line = self.lanes.get_mut(&id).and_then(|it| it.line.as_mut());
        let Some(line) = line.filter(|it| it.open) else {
            return;
        };
        let room = usize::try_from(line.writable).unwrap_or(usize::MAX);
        let outgoing = line.client.outgoing();
        // What is being read goes with it.
        let more = line.sending.as_ref().is_some_and(|it| it.reading);
        if room < outgoing.min(GIVEN_OCTETS_MIN) || more && outgoing < GIVEN_OCTETS_MIN {
            return;
        }
        let octets = line.client.send(room);
        if !octets.is_empty() {
            line.writable -= octets.len() as u64;
            asks.stream(Side::Node, line.stream, StreamOp::Send(octets));
        }
    }

    /// Connections to a hop, the highest precedence first: whether they are streams of a session,
    /// and ready.
    pub(super) fn lines(&self, hop: usize) -> impl Iterator<Item = (Precedence, bool, bool)> + '_ {
        let lanes = self.lanes.iter().rev().filter(move |(id, _)| id.0 == hop);
        lanes.filter_map(|(id, lane)| {
            let line = lane.line.as_ref()?;
            Some((id.1, line.is_of_session(), line.ready))
        })
    }

    /// Why there is no connection to a hop for a precedence, if one was tried.
    pub(super) fn failed(&self, hop: usize, precedence: Precedence) -> &str {
        let lane = self.lanes.get(&(hop, precedence, 0));
        lane.map_or("", |it| &it.failed)
    }

    /// What a message waits for that could go by a lane.
    pub(super) fn state(&self, hop: usize, own: Precedence, queue: &Queue) -> MailState {
        let lanes = self.lanes.iter().filter(|(id, _)| id.0 == hop);
        let mut higher = lanes.filter(|(id, _)| id.1 > own);
        let line = self.lanes.get(&(hop, own, 0));
        let line = line.and_then(|it| it.line.as_ref());
        if self.link(hop).is_none() {
            MailState::LinkDown
        } else if higher.any(|(id, _)| self.sends(*id)) {
            MailState::Behind
        } else if queue.unread() > 0 || line.is_none_or(|it| !it.ready) {
            MailState::Unconnected
        } else {
            MailState::Queued
        }
    }

    pub(super) fn wake(&self, queue: &Queue) -> Option<Instant> {
        let lanes = self
            .lanes
            .iter()
            .filter(|(id, _)| self.link(id.0).is_some());
        let wakes = lanes.filter_map(|(id, lane)| {
            let permanent = is_permanent(*id, queue);
            let waits = queue.first(Way::Hop(id.0), id.1).is_some();
            let Some(line) = &lane.line else {
                return lane.again.filter(|_| waits || stays(*id, queue));
            };
            if !line.ready && waits {
                return Some(line.since + CONNECT);
            }
            let busy = line.client.awaits() && line.sending.is_none();
            let answer = answer_time(self.link(id.0));
            let reply = busy.then(|| line.stirred + REPLY.max(answer));
            let idle = (line.ready && !permanent && !waits && !line.client.is_busy())
                .then(|| line.stirred + IDLE);
            reply.or(idle)
        });
        let wakes = wakes.chain(self.soonest).chain(queue.hops.wake());
        wakes.filter(|at| *at > self.looked).min()
    }
}

/// How long the answer of a hop may take by its link.
fn answer_time(link: Option<Link>) -> Duration {
    link.map_or(Duration::ZERO, |it| it.turn.saturating_mul(20))
}

/// How long a hop may take beyond that for the reply to a piece: it comes behind what the kernel
/// has, of which nothing is heard before, and the line may be another's half the time.
fn owed(link: Link) -> Duration {
    let piece = PIECE.max(link.time(*PIECE_OCTETS.start()));
    (piece + link.time(KERNEL_OCTETS)).saturating_mul(2)
}

/// Whether a lane's connection stays open. Those to switches that aren't ours don't: they are ended
/// there when nothing comes.
fn is_permanent((hop, precedence, _): LaneId, queue: &Queue) -> bool {
    let there = queue.hops.get(hop);
    let ours = there.is_some_and(|it| it.port.is_none());
    ours && !polls::is_polled(queue, hop, precedence)
        && queue.settings.lanes[precedence.index()].permanent
}

/// Whether a lane has a connection without messages, too: one that stays open, that shows whether a
/// hop is there again, or by which that is asked for messages.
fn stays(id: LaneId, queue: &Queue) -> bool {
    let probes = (id.1, id.2) == (Precedence::Routine, 0)
        && (queue.hops.is_out(id.0) || polls::asks(queue, id.0));
    probes || is_permanent(id, queue)
}
