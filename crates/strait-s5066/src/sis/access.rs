//! The other side of the subnetwork interface: a client's access point at any node, by its socket
//! (Annex A.2.2, Annex F.16). One connection is one access point.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::stats::AccessStats;
use strait_core::{Duration, Instant};

use super::primitive::{MODE_ARQ, Primitive, Reader, Request, Service};
use crate::address::Address;

/// U_PDUs under way that the node is to confirm: a turn of two minutes at 2400 bit/s of the longest
/// packets. Nodes stop their clients well before.
const UNDER_WAY_MAX: usize = 32;

/// From one unconfirmed U_PDU to the next: a node that needs its client to stop says so before it
/// has too many.
const SPACE: Duration = Duration::from_millis(10);

/// Octets that the node may send before it hears that it may send more.
const CREDIT: u32 = 128 * 1024;

/// How long a connection, and an answer to a binding, may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// From the last octets of a node until it is asked whether it is there. The standard allows no
/// shorter one.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// The pause before the first further try, doubled with each up to the longest.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Octets of each U_PDU that are kept to know it again: nodes give back only how it begins.
const HEAD_OCTETS: usize = 80;

/// Beside its time to live, how long a U_PDU may be without word.
const WORD_WITHIN: Duration = Duration::from_secs(30);

/// A unit of times to live.
const TTL_UNIT: Duration = Duration::from_secs(2);

/// A client's requirements of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessSettings {
    /// The access point.
    pub sap: u8,
    /// 0 to 15.
    pub rank: u8,
    /// How its data is carried if requests don't say.
    pub service: Service,
    /// How long data is worth sending.
    pub ttl: Duration,
    /// Octets that the node may have without having confirmed them.
    pub octets_max: usize,
}

/// An operation on the client's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessOp {
    /// Connect, as [`Access::attempt`].
    Connect,
    /// Send octets.
    Send(Vec<u8>),
    /// So many more octets may come.
    Credit(u32),
    /// End it at once.
    Cut,
}

/// The node's report about data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word<T> {
    /// The outcome of data with confirmation: it has arrived; or it hasn't, for a reason of the
    /// node, if it gave one.
    Decided(T, Result<(), Option<u8>>),
    /// Data arrived, with its sender.
    Came(Address, Vec<u8>),
}

/// The reason of a node that rejects data: there is no answer from the destination.
pub const NOT_RESPONDING: u8 = 3;
/// The reason of a node that rejects data: its time to live is over.
pub const TTL_EXPIRED: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No connection until then.
    Off(Instant),
    /// It is to be there by then.
    Connecting(Instant),
    /// The node is to answer by then.
    Binding(Instant),
    Bound,
}

#[derive(Debug)]
struct UnderWay<T> {
    to: Address,
    head: Vec<u8>,
    octets: usize,
    until: Instant,
    ticket: T,
}

/// Data for another node's client of the same access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessData<'a> {
    /// 0 to 15, 15 the most urgent.
    pub priority: u8,
    /// The node, or a group.
    pub to: Address,
    /// How it is to be carried.
    pub service: Service,
    /// The data.
    pub u_pdu: &'a [u8],
}

/// An access point at any node. `T` is the caller's name for a U_PDU.
#[derive(Debug)]
pub struct Access<T> {
    settings: AccessSettings,
    state: State,
    now: Instant,
    attempt: u32,
    retry: Duration,
    mtu: u16,
    reader: Reader,
    /// Octets that the stream takes.
    credit: usize,
    unsent: Vec<u8>,
    /// By the node.
    stopped: bool,
    /// The node can send.
    available: bool,
    refused: bool,
    heard: Instant,
    asked_until: Option<Instant>,
    /// Data without confirmation may be sent from then on.
    free_at: Instant,
    under_way: VecDeque<UnderWay<T>>,
    under_way_octets: usize,
    ops: VecDeque<AccessOp>,
    words: VecDeque<Word<T>>,
    stats: AccessStats,
}

impl<T> Access<T> {
    /// One without a connection.
    #[must_use]
    pub fn new(settings: AccessSettings) -> Self {
        Self {
            settings,
            state: State::Off(Instant::ZERO),
            now: Instant::ZERO,
            attempt: 0,
            retry: RETRY_MIN,
            mtu: 0,
            reader: Reader::default(),
            credit: 0,
            unsent: Vec::new(),
            stopped: false,
            available: true,
            refused: false,
            heard: Instant::ZERO,
            asked_until: None,
            free_at: Instant::ZERO,
            under_way: VecDeque::new(),
            under_way_octets: 0,
            ops: VecDeque::new(),
            words: VecDeque::new(),
            stats: AccessStats::default(),
        }
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> AccessStats {
        AccessStats {
            sap: self.settings.sap,
            bound: self.state == State::Bound,
            stopped: self.stopped,
            under_way: self.under_way() as u64,
            mtu: self.mtu().map_or(0, u64::from),
            ..self.stats
        }
    }

    /// Its number.
    #[must_use]
    pub const fn sap(&self) -> u8 {
        self.settings.sap
    }

    /// Which of its connections is meant: a number that grows by one with each.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The longest U_PDU, while it is bound.
    #[must_use]
    pub fn mtu(&self) -> Option<u16> {
        (self.state == State::Bound).then_some(self.mtu)
    }

    /// The node refused the binding, and hasn't accepted one since.
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        self.refused
    }

    /// Whether the node stopped this client, or can't send.
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.stopped || !self.available
    }

    /// U_PDUs that are to be confirmed.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// The next thing to do to its stream.
    pub fn poll(&mut self) -> Option<AccessOp> {
        self.ops.pop_front()
    }

    /// The node's next report.
    pub fn poll_word(&mut self) -> Option<Word<T>> {
        self.words.pop_front()
    }

    /// Whether data may go now.
    #[must_use]
    pub fn takes(&self, confirmed: bool) -> bool {
        let free = self.state == State::Bound && !self.is_stopped() && self.unsent.is_empty();
        free && match confirmed {
            true => {
                let octets = self.under_way_octets;
                let most = self.under_way.len() >= UNDER_WAY_MAX;
                !most && (octets == 0 || octets < self.settings.octets_max)
            }
            false => self.free_at <= self.now,
        }
    }

    /// Gives the node data, which [`Self::takes`] allowed; the ticket returns with the node's
    /// report, or at once if it refuses.
    pub fn submit(&mut self, now: Instant, submission: &AccessData<'_>, ticket: T) -> Option<T> {
        self.now = self.now.max(now);
        self.stats.requests += 1;
        let AccessData {
            priority,
            to,
            service,
            u_pdu,
        } = *submission;
        let units = self.settings.ttl.as_nanos().div_ceil(TTL_UNIT.as_nanos());
        let request = Request {
            priority,
            sap: self.settings.sap,
            to: to.into(),
            service,
            ttl: u32::try_from(units).unwrap_or(TTL_MAX).clamp(1, TTL_MAX),
            u_pdu,
        };
        self.say(&Primitive::UnidataRequest(false, request));
        if service.mode != MODE_ARQ || service.confirmation == 0 {
            self.free_at = self.now + SPACE;
            return Some(ticket);
        }
        self.under_way_octets += u_pdu.len();
        self.under_way.push_back(UnderWay {
            to,
            head: u_pdu[..u_pdu.len().min(HEAD_OCTETS)].to_vec(),
            octets: u_pdu.len(),
            until: self.now + self.settings.ttl + WORD_WITHIN,
            ticket,
        });
        None
    }

    /// The stream is open.
    pub fn opened(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if !matches!(self.state, State::Connecting(_)) {
            return;
        }
        self.state = State::Binding(self.now + ANSWER_WITHIN);
        self.heard = self.now;
        self.ops.push_back(AccessOp::Credit(CREDIT));
        let AccessSettings {
            sap, rank, service, ..
        } = self.settings;
        self.say(&Primitive::BindRequest { sap, rank, service });
    }

    /// The stream takes so many more octets.
    pub fn give_credit(&mut self, octets: usize) {
        self.credit = self.credit.saturating_add(octets);
        self.flush();
    }

    /// The stream is gone.
    pub fn closed(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if !matches!(self.state, State::Off(_)) {
            self.rest();
        }
    }

    /// The node sends no more.
    pub fn ended(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if !matches!(self.state, State::Off(_)) {
            self.hang_up();
        }
    }

    /// Takes back data without a report, and unclaimed reports.
    pub fn abandon(&mut self) -> Vec<T> {
        self.under_way_octets = 0;
        let told = self.words.drain(..).filter_map(|word| match word {
            Word::Decided(ticket, _) => Some(ticket),
            Word::Came(..) => None,
        });
        let under_way = self.under_way.drain(..).map(|it| it.ticket);
        told.chain(under_way).collect()
    }

    /// Octets of the node.
    pub fn hear(&mut self, now: Instant, bytes: &[u8]) {
        self.now = self.now.max(now);
        if matches!(self.state, State::Off(_) | State::Connecting(_)) {
            return;
        }
        (self.heard, self.asked_until) = (self.now, None);
        self.ops.push_back(AccessOp::Credit(bytes.len() as u32));
        let mut reader = core::mem::take(&mut self.reader);
        let attempt = self.attempt;
        let read = reader.feed(bytes, |body| {
            self.take(body);
            self.attempt == attempt && !matches!(self.state, State::Off(_))
        });
        if matches!(self.state, State::Off(_)) {
            return;
        }
        self.reader = reader;
        if read.is_err() {
            self.stats.invalid += 1;
            self.hang_up();
        }
    }

    /// Brings it up to this moment.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        let now = self.now;
        match self.state {
            State::Off(until) if until <= now => {
                self.attempt += 1;
                self.state = State::Connecting(now + ANSWER_WITHIN);
                self.ops.push_back(AccessOp::Connect);
            }
            State::Connecting(until) | State::Binding(until) if until <= now => self.hang_up(),
            State::Bound if self.asked_until.is_some_and(|until| until <= now) => self.hang_up(),
            State::Bound if self.asked_until.is_none() && self.heard + KEEP_ALIVE <= now => {
                self.asked_until = Some(now + ANSWER_WITHIN);
                self.say(&Primitive::KeepAlive);
            }
            _ => {}
        }
        while let Some(place) = self.under_way.iter().position(|it| it.until <= now) {
            self.decide(place, Err(None));
        }
    }

    /// When [`Self::advance`] is to be called.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let own = match self.state {
            State::Off(until) | State::Connecting(until) | State::Binding(until) => until,
            State::Bound => self.asked_until.unwrap_or(self.heard + KEEP_ALIVE),
        };
        let words = self.under_way.iter().map(|it| it.until);
        let free = Some(self.free_at).filter(|at| *at > self.now);
        core::iter::once(own).chain(words).chain(free).min()
    }

    fn say(&mut self, primitive: &Primitive<'_>) {
        primitive.put(&mut self.unsent);
        self.flush();
    }

    fn flush(&mut self) {
        let octets = self.unsent.len().min(self.credit);
        if octets > 0 {
            self.credit -= octets;
            let rest = self.unsent.split_off(octets);
            let octets = core::mem::replace(&mut self.unsent, rest);
            self.ops.push_back(AccessOp::Send(octets));
        }
    }

    /// Ends the connection, to try again later.
    fn hang_up(&mut self) {
        self.ops.push_back(AccessOp::Cut);
        self.rest();
    }

    /// The connection is over: data under way may or may not have arrived.
    fn rest(&mut self) {
        if self.state == State::Bound {
            self.stats.lost += 1;
        }
        self.state = State::Off(self.now + self.retry);
        self.retry = (self.retry * 2).min(RETRY_MAX);
        self.reader = Reader::default();
        self.unsent.clear();
        self.credit = 0;
        self.asked_until = None;
        (self.stopped, self.available) = (false, true);
        while !self.under_way.is_empty() {
            self.decide(0, Err(None));
        }
    }

    fn decide(&mut self, place: usize, outcome: Result<(), Option<u8>>) {
        let Some(decided) = self.under_way.remove(place) else {
            return;
        };
        self.under_way_octets -= decided.octets;
        match outcome {
            Ok(()) => self.stats.confirmed += 1,
            Err(_) => self.stats.rejected += 1,
        }
        self.words.push_back(Word::Decided(decided.ticket, outcome));
    }

    fn take(&mut self, body: &[u8]) {
        match (Primitive::parse(body), self.state) {
            (Some(Primitive::BindAccepted { sap, mtu }), State::Binding(_))
                if sap == self.settings.sap =>
            {
                self.state = State::Bound;
                self.mtu = mtu;
                self.refused = false;
                self.retry = RETRY_MIN;
            }
            (Some(Primitive::BindRejected(_)), State::Binding(_)) => {
                self.stats.refused += 1;
                self.refused = true;
                self.hang_up();
            }
            (Some(Primitive::UnbindIndication(_)), _) => self.hang_up(),
            (Some(Primitive::DataFlowOff), _) => {
                self.stats.stops += 1;
                self.stopped = true;
            }
            (Some(Primitive::DataFlowOn), _) => self.stopped = false,
            (Some(Primitive::SubnetAvailability { status, .. }), _) => {
                self.available = !matches!(status, STATUS_OFF | STATUS_RECEIVE_ONLY);
            }
            (Some(Primitive::KeepAlive), _) => self.say(&Primitive::KeepAlive),
            (Some(Primitive::UnidataIndication(_, came)), State::Bound) => {
                self.stats.indications += 1;
                let u_pdu = came.u_pdu.to_vec();
                self.words.push_back(Word::Came(came.from, u_pdu));
            }
            (Some(Primitive::UnidataConfirm(_, told)), State::Bound) => {
                self.told(told.to.address(), told.u_pdu, Ok(()));
            }
            (Some(Primitive::UnidataRejected(_, reason, told)), State::Bound) => {
                self.told(told.to.address(), told.u_pdu, Err(Some(reason)));
            }
            // Data for clients of other kinds.
            (
                Some(
                    Primitive::HardLinkIndication(..)
                    | Primitive::HardLinkTerminated(..)
                    | Primitive::ManagementIndication { .. },
                ),
                _,
            ) => {}
            _ => self.stats.invalid += 1,
        }
    }

    /// The node reports the first U_PDU under way that begins like this.
    fn told(&mut self, to: Address, u_pdu: &[u8], outcome: Result<(), Option<u8>>) {
        let alike = |it: &UnderWay<T>| {
            let octets = it.head.len().min(u_pdu.len());
            it.to == to && it.head[..octets] == u_pdu[..octets]
        };
        match self.under_way.iter().position(alike) {
            Some(place) => self.decide(place, outcome),
            // It wasn't to be confirmed.
            None if outcome.is_err() => self.stats.rejected += 1,
            None => {}
        }
    }
}

/// Statuses of a node that can't send (S_SUBNET_AVAILABILITY).
const STATUS_OFF: u8 = 0;
const STATUS_RECEIVE_ONLY: u8 = 2;

/// The longest time to live that can be asked for, in its units.
const TTL_MAX: u32 = 648_000;

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
