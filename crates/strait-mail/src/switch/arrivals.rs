//! Clients that bring mail, and the messages that they bring.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::node::{Listen, Side, SocketOp, StoreError, StoreOp, StreamEvent, StreamOp};
use strait_core::tls::TlsRole;
use strait_core::work::{Login, Sasl, Secret, Work};
use strait_core::{Duration, Instant};

use super::asks::{Asks, Pending};
use super::edge;
use super::known::{Before, Digesting};
use super::polls;
use super::queue::{Queue, text_key};
use super::{ListenSettings, Settings, UserSettings};
use crate::command::{Body, MailFrom, RcptTo, domain_of};
use crate::date::date;
use crate::header::{self, HEADER_OCTETS_MAX, Header};
use crate::message::{Message, Recipient};
use crate::pack::FOLDED_OCTETS_MAX;
use crate::precedence::Precedence;
use crate::session::{Event, Rules, Session, TOO_LONG_FOR_IT};

/// Clients at a time, at each listener.
const STREAMS_MAX: u32 = 64;
/// Of these, how many one address may have, and how many all those that may not come.
const EACH_MAX: usize = 32;
const STRANGERS_MAX: usize = 8;
/// Octets of a client that may wait to be looked at.
const INBOUND_OCTETS: u32 = 64 * 1024;
/// Octets of a text that are stored at a time. The first of these have all that is looked at.
const PIECE_OCTETS: usize = HEADER_OCTETS_MAX;
/// Pieces of a client that are being stored at a time: then it isn't read from.
const PIECES_MAX: u32 = 4;
/// Octets of replies that may wait for a client that doesn't read them.
const REPLIES_OCTETS_MAX: usize = 64 * 1024;
/// How long a client may be silent (RFC 5321 section 4.5.3.2.7), and how long one that is done has
/// to take its last reply.
const SILENT: Duration = Duration::from_secs(300);
const LAST_WORDS: Duration = Duration::from_secs(10);
/// How much longer a client has for each octet of a message: the slowest modems bring twice as
/// many.
const OCTET: Duration = Duration::from_millis(250);
/// How long another switch may be silent: its connection stays open for what may come.
const LANE_SILENT: Duration = Duration::from_secs(7 * 86_400);
/// How often a message may have been taken by switches; more is a circle (RFC 5321 section 6.3).
const HOPS_MAX: u32 = 30;
/// What a client hears whose session ends by us (ETIMEDOUT of Linux).
const TIMED_OUT: i32 = 110;
/// And one that isn't let in (ECONNREFUSED).
const REFUSED: i32 = 111;

/// A message that comes.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) id: u64,
    mail: MailFrom,
    /// When its MAIL came.
    since: Instant,
    recipients: Vec<RcptTo>,
    /// What hasn't been given to storage.
    rest: Vec<u8>,
    /// What its header says, once that has been looked at.
    header: Option<Header>,
    /// Its text, where that may go first.
    text: Option<Vec<u8>>,
    pub(super) octets: u64,
    /// What tells it from others, unless it is another switch of ours that knows that.
    digest: Option<Digesting>,
    /// A piece couldn't be stored.
    failed: Option<StoreError>,
    /// It was taken before, for so many recipients.
    taken_for: Option<usize>,
    /// It has come to its end, whose lines are right or aren't, while pieces are being stored.
    ending: Option<bool>,
}

/// A client.
#[derive(Debug)]
struct Guest {
    session: Session,
    listener: usize,
    address: IpAddr,
    /// It may come.
    welcome: bool,
    tls: Begin,
    /// Who it has said it is, as a place among the users.
    user: Option<usize>,
    arrival: Option<Arrival>,
    /// Replies that it hasn't room for.
    out: Vec<u8>,
    writable: u64,
    /// Octets that it may send again when what came has been looked at.
    owed: u32,
    storing: u32,
    /// It hears no more after what is there; and has heard it.
    closing: bool,
    closed: bool,
    ended: bool,
    until: Instant,
}

/// Whether TLS is to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Never,
    /// As soon as all has been said that goes before.
    Asked,
    /// It has begun: nothing is said.
    Begun,
}

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    guests: BTreeMap<u64, Guest>,
}

impl Arrivals {
    /// Declares the listeners.
    pub(super) fn listen(&mut self, settings: &Settings, asks: &mut Asks) {
        for (n, listener) in (0..).zip(&settings.listeners) {
            let listen = Listen {
                dscp: listener.dscp,
                streams_max: STREAMS_MAX,
                ..Listen::at(listener.address)
            };
            asks.socket(n, SocketOp::Listen(listen));
        }
    }

    /// Something happened to a client.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        n: u64,
        event: StreamEvent<'_>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        if let StreamEvent::Opened { listener, src, .. } = event {
            let listener = listener.map_or(0, |it| it.n as usize);
            self.open(now, n, (listener, src.ip()), queue, asks);
        }
        let Some(guest) = self.guests.get_mut(&n) else {
            return;
        };
        match event {
            StreamEvent::Data(octets) => {
                guest.owed += octets.len() as u32;
                let (commands, in_message) = guest.progress();
                guest.with_rules(queue, |session, rules| session.take(octets, rules));
                let most = now + patience(queue, guest.listener);
                let (done, goes_on) = guest.progress();
                let ended = in_message && !goes_on;
                if done > commands || ended || is_lane(queue, guest.listener) {
                    guest.until = most;
                } else if in_message {
                    let more = OCTET.saturating_mul(octets.len() as u32);
                    guest.until = (guest.until + more).min(most);
                }
            }
            StreamEvent::Secured { .. } => {
                guest.tls = Begin::Never;
                guest.session.secured();
            }
            StreamEvent::Writable(octets) => guest.writable += u64::from(octets),
            StreamEvent::Fin => guest.ended = true,
            StreamEvent::Reset(_) => {
                guest.break_off(queue, asks);
                self.guests.remove(&n);
                return;
            }
            _ => {}
        }
        self.tend(now, n, queue, asks);
    }

    fn open(
        &mut self,
        now: Instant,
        n: u64,
        (listener, address): (usize, IpAddr),
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let Some(at) = queue.settings.listeners.get(listener) else {
            return;
        };
        let tls = match &at.tls {
            Some(tls) if tls.at_once => Begin::Asked,
            _ => Begin::Never,
        };
        let welcome = at.clients.iter().any(|it| it.contains(address));
        if at.lane && welcome {
            // Its last connection may have died without a word.
            self.part_from(listener, address, queue, asks);
        }
        let alike = |it: &&Guest| {
            it.listener == listener && it.welcome == welcome && (it.address == address || !welcome)
        };
        let most = if welcome { EACH_MAX } else { STRANGERS_MAX };
        if self.guests.values().filter(alike).count() >= most {
            queue.stats.strangers += 1;
            return asks.stream(Side::Client, n, StreamOp::Reset(REFUSED));
        }
        let session = if welcome {
            Session::new(&queue.settings.name)
        } else {
            queue.stats.strangers += 1;
            Session::refusing("554 5.7.1 you are no client of this switch")
        };
        let guest = Guest {
            session,
            listener,
            tls,
            user: None,
            address,
            welcome,
            arrival: None,
            out: Vec::new(),
            writable: 0,
            owed: 0,
            storing: 0,
            closing: false,
            closed: false,
            ended: false,
            until: now + patience(queue, listener),
        };
        self.guests.insert(n, guest);
        asks.stream(Side::Client, n, StreamOp::Credit(INBOUND_OCTETS));
    }

    fn part_from(&mut self, listener: usize, address: IpAddr, queue: &mut Queue, asks: &mut Asks) {
        let others = self.guests.extract_if(.., |_, guest| {
            // What it sent whole, it may have its answer for.
            let idle = guest.storing == 0;
            guest.listener == listener && guest.address == address && idle
        });
        for (n, mut guest) in others {
            guest.break_off(queue, asks);
            asks.stream(Side::Client, n, StreamOp::Reset(TIMED_OUT));
        }
    }

    /// A piece of a client's message is stored, or isn't.
    pub(super) fn hear_stored(
        &mut self,
        now: Instant,
        n: u64,
        result: Result<(), StoreError>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let Some(guest) = self.guests.get_mut(&n) else {
            return;
        };
        guest.storing = guest.storing.saturating_sub(1);
        if let (Err(error), Some(arrival)) = (result, &mut guest.arrival) {
            arrival.failed = Some(error);
        }
        if guest.storing == 0
            && let Some(right) = guest.arrival.as_mut().and_then(|it| it.ending.take())
        {
            guest.end(now, n, right, queue, asks);
        }
        self.tend(now, n, queue, asks);
    }

    /// What came of what a client says of who it is.
    pub(super) fn hear_login(
        &mut self,
        now: Instant,
        n: u64,
        login: Option<Login>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        if let Some(guest) = self.guests.get_mut(&n) {
            queue.stats.wrong_passwords += u64::from(login == Some(Login::Wrong));
            if let Some(Login::Is(user)) = login {
                guest.user = Some(user);
            }
            guest.with_rules(queue, |session, rules| session.verified(login, rules));
            self.tend(now, n, queue, asks);
        }
    }

    /// What may be kept of octets of a client, if not they themselves.
    pub(super) fn conceal(&self, n: u64, octets: &[u8], queue: &Queue) -> Option<Vec<u8>> {
        let guest = self.guests.get(&n)?;
        by_rules(queue, guest.place(), |rules| {
            guest.session.conceal(octets, rules)
        })
    }

    /// A packed piece of a client's message is what it was, folded.
    pub(super) fn hear_unpacked(
        &mut self,
        now: Instant,
        n: u64,
        folded: Option<&[u8]>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        if let Some(guest) = self.guests.get_mut(&n) {
            guest.with_rules(queue, |session, rules| session.unpacked(folded, rules));
            self.tend(now, n, queue, asks);
        }
    }

    /// A whole message is stored, or isn't: now it is answered for.
    pub(super) fn hear_taken(
        &mut self,
        now: Instant,
        (n, taken): (u64, Taken),
        result: Result<(), StoreError>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let Taken {
            id,
            message,
            first,
            reply,
            known_by,
            known,
        } = taken;
        if let Some(known) = known {
            queue.known.stored(known, result.is_ok());
        }
        if let Some(known_by) = known_by {
            let recipients = message.recipients.len();
            queue.repeats.stored(known_by, recipients, result.is_ok());
        }
        let reply = match result {
            Ok(()) => {
                queue.stats.accepted += 1;
                queue.stats.octets_in += message.octets;
                if let Some((id, first)) = first {
                    queue.enter(now, id, first, asks);
                }
                queue.enter(now, id, message, asks);
                reply
            }
            Err(error) => {
                queue.stats.refused += 1;
                forget(id, asks);
                refusal(error).into()
            }
        };
        if let Some(guest) = self.guests.get_mut(&n) {
            guest.storing = guest.storing.saturating_sub(1);
            guest.with_rules(queue, |session, rules| session.answer(&reply, rules));
            self.tend(now, n, queue, asks);
        }
    }

    /// Goes on with a client as far as that goes.
    fn tend(&mut self, now: Instant, n: u64, queue: &mut Queue, asks: &mut Asks) {
        let Some(guest) = self.guests.get_mut(&n) else {
            return;
        };
        loop {
            while let Some(event) = guest.session.poll() {
                guest.take(now, n, event, queue, asks);
            }
            // Who says no more may still wait for the answer to what it has said.
            if !guest.ended || guest.closing || guest.session.waits() {
                break;
            }
            guest.session.close("421 4.4.2 you have gone");
        }
        if guest.is_at_once(queue) {
            return guest.begin_tls(n, queue, asks);
        }
        guest.out.extend(guest.session.take_replies());
        let room = usize::try_from(guest.writable).unwrap_or(usize::MAX);
        let octets = room.min(guest.out.len());
        if octets > 0 {
            guest.writable -= octets as u64;
            let replies = guest.out.drain(..octets).collect();
            asks.stream(Side::Client, n, StreamOp::Send(replies));
        }
        if guest.tls == Begin::Asked && guest.out.is_empty() {
            return guest.begin_tls(n, queue, asks);
        }
        // A command of which the end is missing goes on only by what comes next.
        let reads = !guest.session.waits() && !guest.closing;
        let looked_at = reads || guest.session.unread() == 0;
        let room = guest.out.len() < REPLIES_OCTETS_MAX && guest.storing < PIECES_MAX;
        if guest.owed > 0 && looked_at && room {
            let owed = core::mem::take(&mut guest.owed);
            asks.stream(Side::Client, n, StreamOp::Credit(owed));
        }
        if guest.closing && !guest.closed && guest.out.is_empty() {
            guest.closed = true;
            guest.until = now + LAST_WORDS;
            asks.stream(Side::Client, n, StreamOp::Fin);
        }
        if guest.closed && guest.ended {
            self.guests.remove(&n);
        }
    }

    /// Sends away who has been silent for too long.
    pub(super) fn settle(&mut self, now: Instant, queue: &mut Queue, asks: &mut Asks) {
        let silent = self.guests.iter().filter(|(_, guest)| guest.until <= now);
        let silent: Vec<u64> = silent.map(|(n, _)| *n).collect();
        for n in silent {
            let Some(guest) = self.guests.get_mut(&n) else {
                continue;
            };
            if guest.closing {
                guest.drop_arrival(asks);
                self.guests.remove(&n);
                asks.stream(Side::Client, n, StreamOp::Reset(TIMED_OUT));
            } else {
                guest.session.close("421 4.4.2 timeout");
                guest.until = now + LAST_WORDS;
                self.tend(now, n, queue, asks);
            }
        }
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.guests.values().map(|it| it.until).min()
    }
}

/// A message that is being stored, and its client's answer if that goes well.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) id: u64,
    pub(super) message: Message,
    /// Its text, which goes first.
    pub(super) first: Option<(u64, Message)>,
    pub(super) reply: String,
    /// What another switch of ours knows it by.
    pub(super) known_by: Option<u64>,
    /// Its place among those that programs brought.
    pub(super) known: Option<u64>,
}

fn is_lane(queue: &Queue, listener: usize) -> bool {
    let mut listeners = queue.settings.listeners.iter();
    listeners.nth(listener).is_some_and(|it| it.lane)
}

fn patience(queue: &Queue, listener: usize) -> Duration {
    if is_lane(queue, listener) {
        LANE_SILENT
    } else {
        SILENT
    }
}

/// Has storage forget what it has of a message that nobody was answered for.
pub(super) fn forget(id: u64, asks: &mut Asks) {
    asks.forget(alloc::vec![StoreOp::Delete(text_key(id))]);
}

const fn refusal(error: StoreError) -> &'static str {
    match error {
        StoreError::Full => "452 4.3.1 no room is left",
        StoreError::Busy => "452 4.3.1 too much waits to be stored",
        StoreError::Absent | StoreError::Failed => "451 4.3.0 it can't be stored",
    }
}

/// What an address is answered with that mail isn't taken for.
fn refuses(queue: &Queue, address: &str) -> Option<&'static str> {
    if queue.target_of(address).is_some() {
        return None;
    }
    Some(if queue.is_own(domain_of(address)) {
        "550 5.1.1 no such mailbox"
    } else {
        "550 5.7.1 no route leads there"
    })
}

/// The value that a message goes on with, and whether somebody said it (RFC 6710 section 4.1, RFC
/// 6758 section 4).
fn determine(
    listener: &ListenSettings,
    user: Option<&UserSettings>,
    parameter: Option<i8>,
    header: &Header,
) -> (i8, bool) {
    let said = parameter.or(header.tunnelled);
    let guessed = header.mmhs.or(header.common).or(header.subject);
    let guessed = guessed.unwrap_or(listener.default);
    let wire = said.unwrap_or_else(|| guessed.wire());
    let most = match (user, listener.most) {
        (Some(user), _) => user.most.wire(),
        (None, None) => i8::MAX,
        (None, Some(most)) => most.max(listener.default).wire(),
    };
    (wire.min(most), said.is_some())
}

/// Has looked at what a client says of who it is.
fn log_in(n: u64, by: Sasl, said: Vec<Secret>, queue: &mut Queue, asks: &mut Asks) {
    let users = queue.settings.users.iter();
    let users = users.map(|it| (it.name.clone(), it.hash.clone()));
    let work = Work::LogIn {
        by,
        said,
        nonce: String::new(),
        users: users.collect(),
    };
    asks.work(work, Pending::Login { client: n });
}

/// What a session is to know where a listener is.
fn by_rules<T>(
    queue: &Queue,
    (listener, address): (usize, IpAddr),
    what: impl FnOnce(&Rules<'_>) -> T,
) -> T {
    let listener = queue.settings.listeners.get(listener);
    let began = |id| queue.repeats.began(id);
    let polled = |name: &str| polls::awaits(queue, address, name);
    what(&Rules {
        polled: polls::may_poll(queue, address).then_some(&polled as _),
        began: listener.filter(|it| it.lane).map(|_| &began as _),
        sizes: match listener {
            Some(listener) if !listener.lane => queue.settings.lanes.map(|it| it.octets_max),
            _ => [u64::MAX; 6],
        },
        tls: listener.is_some_and(|it| it.tls.is_some()),
        users: listener.is_some_and(|it| it.users),
        name: &queue.settings.name,
        dictionary: &queue.settings.dictionary,
        by_min: queue.settings.by_min,
        octets_max: queue.settings.octets_max + listener.map_or(0, ListenSettings::traces),
        full: queue.is_full(),
        refuses: &|address| refuses(queue, address),
    })
}

impl Guest {
    /// Commands that it has brought, and whether it is within a message.
    const fn progress(&self) -> (u64, bool) {
        (self.session.commands(), self.session.is_in_message())
    }

    /// Whether nothing is said before TLS.
    fn is_at_once(&self, queue: &Queue) -> bool {
        let listener = queue.settings.listeners.get(self.listener);
        let tls = listener.and_then(|it| it.tls.as_ref());
        self.tls == Begin::Begun || self.tls == Begin::Asked && tls.is_some_and(|it| it.at_once)
    }

    fn begin_tls(&mut self, n: u64, queue: &Queue, asks: &mut Asks) {
        let listener = queue.settings.listeners.get(self.listener);
        let tls = listener.and_then(|it| it.tls.as_ref());
        if let Some(tls) = tls.filter(|_| self.tls == Begin::Asked) {
            self.tls = Begin::Begun;
            let profile = tls.profile.clone();
            let role = TlsRole::Server;
            asks.stream(Side::Client, n, StreamOp::StartTls { profile, role });
        }
    }

    /// By which listener it came, and from where.
    const fn place(&self) -> (usize, IpAddr) {
        (self.listener, self.address)
    }

    /// Has its session do something by the rules of now.
    fn with_rules(&mut self, queue: &Queue, what: impl FnOnce(&mut Session, &Rules<'_>)) {
        by_rules(queue, self.place(), |rules| what(&mut self.session, rules));
    }

    fn take(&mut self, now: Instant, n: u64, event: Event, queue: &mut Queue, asks: &mut Asks) {
        match event {
            Event::Begin(mail, recipients) => {
                self.begin(now, mail, recipients, queue, asks);
            }
            Event::Content(octets) => {
                let new = |it: &&mut Arrival| it.taken_for.is_none();
                let Some(arrival) = self.arrival.as_mut().filter(new) else {
                    return;
                };
                arrival.octets += octets.len() as u64;
                let digest = arrival.digest.iter_mut();
                digest.for_each(|it| it.take(&octets));
                arrival.rest.extend(octets);
                if arrival.rest.len() >= PIECE_OCTETS {
                    arrival.look(now, queue);
                    let rest = core::mem::take(&mut arrival.rest);
                    let batch = alloc::vec![StoreOp::Append(text_key(arrival.id), rest)];
                    asks.store(batch, Pending::Piece { client: n });
                    self.storing += 1;
                }
            }
            Event::Packed(octets, behind) => {
                let octets_max = FOLDED_OCTETS_MAX as u32;
                let work = Work::Decompress {
                    octets,
                    octets_max,
                    behind,
                };
                asks.work(work, Pending::Unpacked { client: n });
            }
            Event::End { right } => self.end(now, n, right, queue, asks),
            Event::Abort => self.drop_arrival(asks),
            Event::Secure => self.tls = Begin::Asked,
            Event::Login(by, said) => log_in(n, by, said, queue, asks),
            Event::Turn(name) => polls::call(queue, now, self.address, &name),
            Event::Close => self.closing = true,
        }
    }

    /// A message comes, or what of one hadn't come.
    fn begin(
        &mut self,
        now: Instant,
        mail: MailFrom,
        recipients: Vec<RcptTo>,
        queue: &mut Queue,
        asks: &mut Asks,
    ) {
        let known = mail.resume;
        let there = known.and_then(|(id, from)| queue.repeats.go_on(id, from, asks));
        queue.stats.slow.resumed_octets += there.as_ref().map_or(0, |it| it.octets);
        let arrival = there.unwrap_or_else(|| Arrival {
            id: queue.number(),
            mail: MailFrom::default(),
            since: now,
            recipients: Vec::new(),
            rest: Vec::new(),
            header: None,
            text: None,
            octets: 0,
            digest: (known.is_none() && queue.known.is_on()).then(Digesting::default),
            failed: None,
            taken_for: known.and_then(|(id, _)| queue.repeats.taken_for(id)),
            ending: None,
        });
        self.arrival = Some(Arrival {
            mail,
            since: now,
            recipients,
            ..arrival
        });
    }

    /// The client is gone. Another switch of ours can go on where it was.
    fn break_off(&mut self, queue: &mut Queue, asks: &mut Asks) {
        let whole = |it: &mut Arrival| it.failed.is_none() && it.taken_for.is_none();
        let known = self.arrival.as_ref().and_then(|it| it.mail.resume);
        // A piece that is being stored might not be.
        if let Some((id, _)) = known.filter(|_| self.storing == 0)
            && let Some(arrival) = self.arrival.take_if(whole)
        {
            return queue.repeats.keep(id, arrival, self.session.ends(), asks);
        }
        self.drop_arrival(asks);
    }

    /// A message that comes is no more.
    fn drop_arrival(&mut self, asks: &mut Asks) {
        if let Some(arrival) = self.arrival.take() {
            forget(arrival.id, asks);
        }
    }

    /// A message is whole. Its envelope is stored when all pieces of its text are: one of them
    /// may be refused.
    fn end(&mut self, now: Instant, n: u64, right: bool, queue: &mut Queue, asks: &mut Asks) {
        if self.storing > 0 {
            self.arrival
                .as_mut()
                .into_iter()
                .for_each(|it| it.ending = Some(right));
            return;
        }
        let Some(mut arrival) = self.arrival.take() else {
            return;
        };
        if let Some(reply) = arrival.taken_before(queue) {
            return self.with_rules(queue, |session, rules| session.answer(reply, rules));
        }
        let header = arrival.look(now, queue).clone();
        let refused = if !right {
            Some("554 5.6.0 lines end by CR LF alone")
        } else if header.received > HOPS_MAX {
            Some("554 5.4.6 mail loop")
        } else {
            arrival.failed.map(refusal)
        };
        if let Some(reply) = refused {
            queue.stats.refused += 1;
            forget(arrival.id, asks);
            return self.with_rules(queue, |session, rules| session.answer(reply, rules));
        }
        let Some(listener) = queue.settings.listeners.get(self.listener) else {
            return;
        };
        let user = self.user.and_then(|it| queue.settings.users.get(it));
        let (wire, said) = determine(listener, user, arrival.mail.priority, &header);
        let asked = arrival.mail.priority.or(header.tunnelled).unwrap_or(0);
        let lane = queue.settings.lanes[Precedence::of_wire(wire).index()];
        if arrival.octets > lane.octets_max && !listener.lane {
            queue.stats.refused += 1;
            forget(arrival.id, asks);
            return self.with_rules(queue, |session, rules| {
                session.answer(TOO_LONG_FOR_IT, rules);
            });
        }
        let id = arrival.id;
        let now_s = queue.now_s(now);
        let named = header.naming.iter().any(|it| it.starts_with("Message-ID"));
        let digest = arrival.digest.take().filter(|_| named);
        let digest = digest.map(|it| it.end(&arrival.mail, &arrival.recipients, wire));
        if let Some(before) = digest.and_then(|it| queue.known.find(now_s, &it)) {
            forget(id, asks);
            let reply = match before {
                Before::Storing => "450 4.3.0 it is being stored".into(),
                Before::Taken(id) => {
                    queue.stats.repeats += 1;
                    format!("250 2.6.0 {id} stored before")
                }
            };
            return self.with_rules(queue, |session, rules| session.answer(&reply, rules));
        }
        let trace = self.trace(now, id, wire, queue);
        let mut message = arrival.message(wire, said, trace);
        edge::thin(queue, &mut message, &header);
        (message.token, message.accepted_s) = (queue.token(), now_s);
        let came_s = now.since(arrival.since).as_secs();
        message.by = arrival.mail.by.map(|it| it.later(came_s));
        let rest = core::mem::take(&mut arrival.rest);
        let first = arrival.text.take().and_then(|text| {
            let (id, first) = edge::part(queue, &mut message, &text)?;
            Some((Queue::batch(id, text, &first), (id, first)))
        });
        let behind = if first.is_some() {
            ", its text goes first"
        } else {
            ""
        };
        let reply = if asked == message.wire {
            format!("250 2.6.0 {id} stored{behind}")
        } else {
            // RFC 6710 section 4.1: the priority asked for, be it by saying nothing, was changed.
            let wire = message.wire;
            format!(
                "250 2.3.6 {wire} is the new priority assigned to the message, {id} stored{behind}"
            )
        };
        let mut batch = Queue::batch(id, rest, &message);
        let first = first.map(|(own, first)| {
            batch.extend(own);
            first
        });
        let known_by = arrival.mail.resume.map(|(id, _)| id);
        if let Some(known_by) = known_by {
            batch.extend(queue.repeats.store(known_by, message.recipients.len()));
        }
        let known = digest.map(|it| {
            let (order, ops) = queue.known.store(now_s, id, it);
            batch.extend(ops);
            order
        });
        let taken = Taken {
            id,
            message,
            first,
            reply,
            known_by,
            known,
        };
        let taken = Box::new(taken);
        asks.store(batch, Pending::Message { client: n, taken });
        self.storing += 1;
    }

    /// The field that tells where a message came from, with its priority (RFC 6710 section 4.2).
    fn trace(&self, now: Instant, id: u64, wire: i8, queue: &Queue) -> String {
        let (name, protocol) = (self.session.greeted(), self.session.protocol());
        let own = &queue.settings.name;
        let date = date(queue.now_s(now));
        let address = match self.address {
            IpAddr::V4(address) => format!("[{address}]"),
            IpAddr::V6(address) => format!("[IPv6:{address}]"),
        };
        format!(
            "Received: from {name} ({address}) by {own} with {protocol} id {id} PRIORITY {wire}; {date}"
        )
    }
}

impl Arrival {
    /// The answer for a message that was taken before.
    fn taken_before(&self, queue: &mut Queue) -> Option<&'static str> {
        let (id, _) = self.mail.resume?;
        if self.taken_for? == self.recipients.len() {
            queue.stats.repeats += 1;
            return Some("250 2.6.0 stored before");
        }
        // Some who were refused then are taken now, or the other way round.
        queue.repeats.doubt(id);
        Some("450 4.3.0 send all of it again")
    }

    /// What its header says. The first octets that are stored have all of it that counts.
    fn look(&mut self, now: Instant, queue: &Queue) -> &Header {
        let (id, octets) = (
            self.id,
            &self.rest[..self.rest.len().min(HEADER_OCTETS_MAX)],
        );
        let parts =
            edge::parts_texts(queue) && self.mail.by.is_none() && self.mail.body != Body::Binary;
        let text = &mut self.text;
        self.header.get_or_insert_with(|| {
            let header = header::parse(octets);
            *text = parts
                .then(|| edge::text_of(queue, now, id, octets, &header))
                .flatten();
            header
        })
    }

    fn message(&mut self, wire: i8, said: bool, trace: String) -> Message {
        let recipients = self.recipients.drain(..).map(|it| Recipient {
            address: it.address,
            notify: it.notify,
            orcpt: it.orcpt,
            at: None,
        });
        let header = self.header.take().unwrap_or_default();
        Message {
            wire,
            said,
            body: self.mail.body,
            octets: self.octets,
            sender: core::mem::take(&mut self.mail.sender),
            headers_only: self.mail.headers_only,
            envid: self.mail.envid.take(),
            trace,
            tunnels: header.tunnels,
            naming: header.naming,
            recipients: recipients.collect(),
            ..Message::default()
        }
    }
}
