//! The subnetwork interface (Annex A): clients on byte streams, their requests, and the reports to
//! them; and such a client itself, for other nodes.
//!
//! A machine without sockets: octets of numbered clients come in, octets for them go out. Clients'
//! data is taken from here in its turn, and its outcome is reported here.

mod access;
mod data;
mod hard;
mod numbers;
mod primitive;

pub use self::access::{
    Access, AccessData, AccessOp, AccessSettings, NOT_RESPONDING, TTL_EXPIRED, Word,
};
pub use self::data::{Arrived, Next, Taken};
pub use self::hard::HardSettings;
pub use self::primitive::{
    FRONT, HardLink, Indication, MODE_ARQ, MODE_AS_BOUND, MODE_NON_ARQ, MODE_WITH_ERRORS,
    NoPrimitive, NodeAddress, PREAMBLE, Primitive, Reader, Request, Service, Told,
};

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::chance::Stream;
use strait_core::node::WallTime;
use strait_core::stats::ClientStats;
use strait_core::{Duration, Instant};

use self::data::{Submission, Undecided};
use self::hard::Hard;
use self::numbers::Numbers;
use crate::address::Address;
use crate::s_pdu::{DataSPdu, NUMBER};
use crate::station::{Exclusive, Peer, Station};

/// The longest U_PDU that a general node takes.
pub const MTU: u16 = 2048;

/// The longest that one may take which has no links.
pub const BROADCAST_MTU_MAX: u16 = 4096;

/// Octets that a client may send before it hears that it may send more: two of the longest
/// primitives.
const CREDIT: u32 = 128 * 1024;

/// Octets that wait for a client that doesn't read; then it is disconnected. Two minutes of the
/// deliveries of a channel of 9600 bit/s.
const UNREAD_MAX: usize = 256 * 1024;

/// Primitives that make no sense, until a client loses its binding; one is forgotten each minute.
const INVALID_MAX: u32 = 8;
const INVALID_LASTS: Duration = Duration::from_secs(60);

/// From the last octets of a client until it is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// How long it may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How long one may stay after it was asked to go.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// Senders give up data that is too old. Data that arrives so much later is by another clock or
/// calendar.
const LATE_MAX_NS: u64 = 3_600_000_000_000;

/// How a subnetwork interface behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// This node.
    pub own: Address,
    /// The nodes and groups that data can be sent to.
    pub peers: Vec<Address>,
    /// Nodes that aren't listed and that data can be sent to at a time: the places that the station
    /// has for them.
    pub guests: usize,
    /// The longest U_PDU: [`MTU`], but for nodes without links.
    pub mtu: u16,
    /// There are no links (A.1.1.3): requests for ARQ can't be served.
    pub broadcast_only: bool,
    /// Clients that may bind at a time.
    pub clients_max: usize,
    /// Access points that aren't for clients: this node's own use them.
    pub reserved: Vec<u8>,
    /// Connections without an access point: one more, and the oldest of the address with the most
    /// of them ends.
    pub unbound_max: usize,
    /// How long a connection may be without an access point.
    pub unbound_for: Duration,
    /// Connections from one address.
    pub address_max: usize,
    /// How long data of a client that doesn't say so itself is worth sending.
    pub ttl_max: Duration,
    /// Octets of a U_PDU that are returned to its client with the outcome.
    pub told_octets: usize,
    /// Expedited U_PDUs of a client that wait or are under way, until it loses its binding.
    pub expedited_max: usize,
    /// How long hard links wait for others.
    pub hard: HardSettings,
    /// Data for nodes of `strait` has numbers, which its confirmations name.
    pub compact_confirmations: bool,
    /// Times to die are sent, and heeded: clocks are right, here and elsewhere.
    pub time_to_die: bool,
}

impl Settings {
    /// Settings for most nodes. The standard leaves all of these free, and requires that they are
    /// configurable.
    #[must_use]
    pub fn new(own: Address, peers: Vec<Address>) -> Self {
        Self {
            own,
            peers,
            guests: 0,
            mtu: MTU,
            broadcast_only: false,
            clients_max: 16,
            reserved: Vec::new(),
            unbound_max: 8,
            unbound_for: Duration::from_secs(30),
            address_max: 24,
            ttl_max: Duration::from_secs(86_400),
            told_octets: 64,
            expedited_max: 8,
            hard: HardSettings::default(),
            compact_confirmations: true,
            time_to_die: true,
        }
    }
}

/// An operation on a client's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Send octets.
    Send(Vec<u8>),
    /// So many more octets may come.
    Credit(u32),
    /// No more octets go; earlier ones still do.
    Finish,
    /// It is of no use any more: end it at once.
    Cut,
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    sap: u8,
    rank: u8,
    service: Service,
}

#[derive(Debug)]
struct Attached<C> {
    id: C,
    /// Where it connects from, if that is known.
    from: Option<IpAddr>,
    reader: Reader,
    binding: Option<Binding>,
    /// It has no binding since then.
    unbound_at: Instant,
    /// Invalid primitives that aren't forgotten, and since when the next may be.
    invalid: u32,
    invalid_at: Instant,
    /// It was stopped.
    stopped: bool,
    /// Octets for it that its stream hasn't accepted.
    unread: Vec<u8>,
    /// Octets that its stream would take.
    credit: usize,
    heard: Instant,
    /// It was asked whether it is there, and has until then.
    asked_until: Option<Instant>,
}

/// A subnetwork interface. `C` identifies its clients.
#[derive(Debug)]
pub struct Sis<C = u64> {
    settings: Settings,
    clients: Vec<Attached<C>>,
    /// Those that were asked to go, and until when they have time: the first to be disconnected
    /// first. Each holds a stream, of which there are only so many.
    leaving: VecDeque<(C, Instant)>,
    ops: VecDeque<(C, Op)>,
    /// Whether the medium is there.
    up: bool,
    now: Instant,
    /// The calendar's nanoseconds since 1970 at the origin of time, if it is known.
    calendar_ns: Option<u64>,
    /// By peer: there is a link.
    linked: Vec<bool>,
    /// By peer: that link isn't exclusive.
    soft: Vec<bool>,
    /// By peer: it refused the last call.
    refused: Vec<bool>,
    /// By peer: it is a node of `strait`, and reads data with numbers.
    ours: Vec<bool>,
    queue: Vec<Submission<C>>,
    /// Sent, with an outcome that isn't known.
    undecided: BTreeMap<u64, Undecided<C>>,
    next_number: u64,
    /// The numbers that confirm data for nodes of `strait`.
    numbers: Numbers,
    hard: Option<Hard<C>>,
    /// Its replacement once its other end knows that it is over.
    next_hard: Option<Hard<C>>,
    stats: ClientStats,
}

impl<C: Copy + Ord> Sis<C> {
    /// An interface without clients, on a medium that isn't there yet. `seed` differs from start to
    /// start, and with it the numbers that confirm data: confirmations of earlier data are still
    /// under way.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        let places = settings.peers.len() + settings.guests;
        let first = Stream::new(seed, "s5066 numbers").below(u64::from(NUMBER) + 1);
        Self {
            linked: alloc::vec![false; places],
            soft: alloc::vec![false; places],
            refused: alloc::vec![false; places],
            ours: alloc::vec![false; places],
            settings,
            clients: Vec::new(),
            leaving: VecDeque::new(),
            ops: VecDeque::new(),
            up: false,
            now: Instant::ZERO,
            calendar_ns: None,
            queue: Vec::new(),
            undecided: BTreeMap::new(),
            next_number: 0,
            numbers: Numbers::new(first as u16),
            hard: None,
            next_hard: None,
            stats: ClientStats::default(),
        }
    }

    /// Its counters.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        let bound = self.clients.iter().filter(|it| it.binding.is_some());
        ClientStats {
            bound: bound.count() as u64,
            ..self.stats
        }
    }

    /// Calendar time is known, or was set.
    pub const fn set_calendar(&mut self, now: Instant, wall: WallTime) {
        self.calendar_ns = Some(wall.0.saturating_sub(now.as_nanos()));
    }

    /// The calendar's nanoseconds since 1970, where times to die are in use.
    fn calendar(&self, at: Instant) -> Option<u64> {
        let origin_ns = self.calendar_ns.filter(|_| self.settings.time_to_die)?;
        origin_ns.checked_add(at.as_nanos())
    }

    /// Whether data arrived after its time to die. It is counted, and not delivered. A time of
    /// another calendar, or of another day that looks like it, doesn't count.
    pub fn is_late(&mut self, now: Instant, data: &DataSPdu<'_>) -> bool {
        self.now = self.now.max(now);
        let Some((dies, now_ns)) = data.dies.zip(self.calendar(self.now)) else {
            return false;
        };
        let moment = dies.moment(now_ns);
        let late_ns = moment.and_then(|moment| now_ns.checked_sub(moment));
        let odd = moment.is_none() || late_ns.is_some_and(|late| late > LATE_MAX_NS);
        let late = late_ns.is_some() && !odd;
        self.stats.misdated += u64::from(odd);
        self.stats.expired += u64::from(late);
        late
    }

    /// Whether a client with this number is connected.
    #[must_use]
    pub fn has(&self, id: C) -> bool {
        self.clients.iter().any(|client| client.id == id)
    }

    /// The next thing to do to a stream.
    pub fn poll(&mut self) -> Option<(C, Op)> {
        self.ops.pop_front()
    }

    /// A client connected from an address, under a number that none has had before. Those without
    /// an access point make room for it, never one that has it.
    pub fn open(&mut self, now: Instant, id: C, from: Option<IpAddr>) {
        self.now = now;
        if !self.makes_room(from) {
            self.stats.cut += 1;
            self.ops.push_back((id, Op::Cut));
            return;
        }
        self.clients.push(Attached {
            id,
            from,
            reader: Reader::default(),
            binding: None,
            unbound_at: now,
            invalid: 0,
            invalid_at: now,
            stopped: false,
            unread: Vec::new(),
            credit: 0,
            heard: now,
            asked_until: None,
        });
        self.ops.push_back((id, Op::Credit(CREDIT)));
    }

    /// Ends the clients whose room a new connection from an address needs; whether there is any
    /// then.
    fn makes_room(&mut self, from: Option<IpAddr>) -> bool {
        let unbound = self.clients.iter().filter(|it| it.binding.is_none());
        let unbound: Vec<(C, Option<IpAddr>)> = unbound.map(|it| (it.id, it.from)).collect();
        let of = |address| unbound.iter().filter(move |it| it.1 == address);
        let same = self.clients.iter().filter(|it| it.from == from).count();
        let ends = if from.is_some() && same >= self.settings.address_max {
            of(from).next()
        } else if unbound.len() >= self.settings.unbound_max {
            // The first of equals: the oldest connection precedes.
            let most = unbound.iter().rev().max_by_key(|it| of(it.1).count());
            most.and_then(|most| of(most.1).next())
        } else {
            return true;
        };
        let ends = ends.map(|it| it.0);
        ends.inspect(|id| self.cut(*id)).is_some()
    }

    /// A client's stream takes so many more octets.
    pub fn give_credit(&mut self, id: C, octets: usize) {
        if let Some(client) = self.client(id) {
            client.credit = client.credit.saturating_add(octets);
        }
        self.flush(id);
    }

    /// A client is gone.
    pub fn close(&mut self, now: Instant, id: C) {
        self.now = now;
        self.remove(id);
        self.leaving.retain(|(of, _)| *of != id);
    }

    /// A client sends no more: it has no requests, and gets no reports.
    pub fn finish(&mut self, now: Instant, id: C) {
        let attached = self.has(id);
        self.close(now, id);
        if attached {
            self.ops.push_back((id, Op::Finish));
        }
    }

    /// Octets of a client.
    pub fn hear(&mut self, now: Instant, id: C, bytes: &[u8]) {
        self.now = now;
        let Some(client) = self.client(id) else {
            return;
        };
        client.heard = now;
        let mut reader = core::mem::take(&mut client.reader);
        let read = reader.feed(bytes, |body| {
            self.take(id, body);
            self.has(id)
        });
        if let Some(client) = self.client(id) {
            (client.reader, client.asked_until) = (reader, None);
            self.ops.push_back((id, Op::Credit(bytes.len() as u32)));
        }
        if read.is_err() {
            self.stats.invalid += 1;
            self.dismiss(id, 3);
        }
    }

    /// The medium has come or gone.
    pub fn set_up(&mut self, now: Instant, up: bool) {
        self.now = now;
        if core::mem::replace(&mut self.up, up) == up {
            return;
        }
        let bound = self.clients.iter().filter(|it| it.binding.is_some());
        let bound: Vec<C> = bound.map(|client| client.id).collect();
        for id in bound {
            self.tell_availability(id);
        }
    }

    fn tell_availability(&mut self, id: C) {
        let status = if self.up { 3 } else { 0 };
        self.say(id, &Primitive::SubnetAvailability { status, reason: 0 });
    }

    /// Whether a peer is a node of `strait`, which reads data with numbers, and confirmations by
    /// them.
    pub fn set_ours(&mut self, peer: usize, ours: bool) {
        if let Some(known) = self.ours.get_mut(peer) {
            *known = ours;
        }
    }

    /// Whether the link with a peer is one that a hard link doesn't go by as it is.
    pub fn set_soft(&mut self, peer: usize, soft: bool) {
        if let Some(known) = self.soft.get_mut(peer) {
            *known = soft;
        }
    }

    /// Whether a peer is there, but refuses calls.
    pub fn set_refused(&mut self, peer: usize, refused: bool) {
        if let Some(known) = self.refused.get_mut(peer) {
            *known = refused;
        }
    }

    /// Brings the interface up to this moment. `linked` has for each peer whether there is a link,
    /// and `silent` whether it doesn't answer calls.
    pub fn advance(
        &mut self,
        now: Instant,
        linked: impl Fn(usize) -> bool,
        silent: impl Fn(usize) -> bool,
    ) {
        self.now = self.now.max(now);
        for (peer, known) in self.linked.iter_mut().enumerate() {
            *known = linked(peer);
        }
        self.give_up_calls(&silent);
        self.forget_lost_callers();
        self.expire(silent);
        self.tend_hard_link();
        self.cut_those_who_stay();
        for place in (0..self.clients.len()).rev() {
            let client = &mut self.clients[place];
            let id = client.id;
            let idle_at = client.unbound_at + self.settings.unbound_for;
            let idle = client.binding.is_none() && idle_at <= now;
            if idle || client.asked_until.is_some_and(|until| until <= now) {
                self.dismiss(id, 2);
            } else if client.asked_until.is_none() && client.heard + KEEP_ALIVE <= now {
                client.asked_until = Some(now + ANSWER_WITHIN);
                self.say(id, &Primitive::KeepAlive);
            }
        }
    }

    /// Brings the interface up to this moment, and tells its station which data to give up and
    /// which link to keep. `is` says whether a ticket of the station is that of a number.
    pub fn tend<T>(
        &mut self,
        now: Instant,
        station: &mut Station<T>,
        is: impl Fn(&T, u64) -> bool,
    ) {
        self.place_guests(station);
        for peer in 0..station.places() {
            self.set_ours(peer, station.peer(peer).is_some_and(Peer::is_ours));
            self.set_soft(peer, station.peer(peer).is_some_and(Peer::is_linked_softly));
            self.set_refused(peer, station.peer(peer).is_some_and(Peer::is_refused));
        }
        let linked = |peer| station.peer(peer).is_some_and(Peer::is_linked);
        self.advance(now, linked, |peer| {
            station.peer(peer).is_some_and(Peer::is_silent)
        });
        while let Some((to, number)) = self.poll_overdue() {
            station.give_up(to, |ticket| is(ticket, number));
        }
        let keeps = self.keeps();
        let exclusive = self.exclusive().map(|peer| Exclusive { peer, keeps });
        station.set_exclusive(exclusive);
        if let Some(peer) = self.calls() {
            station.link_exclusive(peer);
        }
    }

    /// Finds places at the station for nodes that aren't listed and that data waits for.
    fn place_guests<T>(&mut self, station: &mut Station<T>) {
        if self.settings.guests == 0 {
            return;
        }
        let queued = self.queue.iter().map(|it| it.to);
        let sent = self.undecided.values().map(|it| it.to);
        let nodes: Vec<Address> = queued.chain(sent).map(NodeAddress::address).collect();
        station.keep_guests(|node| nodes.contains(&node));
        for it in self.queue.iter_mut().filter(|it| it.peer.is_none()) {
            it.peer = station.place(it.to.address());
        }
    }

    /// The data that a station would take next.
    #[must_use]
    pub fn next_for<T>(&self, station: &Station<T>) -> Option<Next> {
        self.next(|next| match next.expedited && next.arq {
            true => station.takes_expedited(next.to),
            false => station.takes(next.to, next.arq),
        })
    }

    /// When [`Self::advance`] is to be called.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let clients = self.clients.iter();
        let clients = clients.flat_map(|it| {
            let idle_at = it.unbound_at + self.settings.unbound_for;
            let idle_at = it.binding.is_none().then_some(idle_at);
            let heard_at = it.asked_until.unwrap_or(it.heard + KEEP_ALIVE);
            idle_at.into_iter().chain([heard_at])
        });
        let dies = self.queue.iter().map(|it| it.dies);
        let undecided = self.undecided.values().filter_map(Undecided::dies);
        let hard = self.hard.iter().filter_map(Hard::until);
        let leaving = self.leaving.front().map(|(_, until)| *until);
        let all = clients.chain(dies).chain(undecided).chain(hard);
        let all = all.chain(leaving);
        all.filter(|at| *at > self.now).min()
    }

    fn client(&mut self, id: C) -> Option<&mut Attached<C>> {
        self.clients.iter_mut().find(|client| client.id == id)
    }

    fn binding(&self, id: C) -> Option<Binding> {
        let client = self.clients.iter().find(|client| client.id == id);
        client.and_then(|client| client.binding)
    }

    /// The client that has an access point.
    fn holder(&self, sap: u8) -> Option<C> {
        let holds = |client: &&Attached<C>| client.binding.is_some_and(|it| it.sap == sap);
        self.clients.iter().find(holds).map(|client| client.id)
    }

    /// Sends a client a primitive. One that doesn't read is disconnected: no other is to wait for
    /// it.
    fn say(&mut self, id: C, primitive: &Primitive<'_>) {
        let Some(client) = self.client(id) else {
            return;
        };
        primitive.put(&mut client.unread);
        self.flush(id);
        if self
            .client(id)
            .is_some_and(|it| it.unread.len() > UNREAD_MAX)
        {
            self.cut(id);
        }
    }

    fn flush(&mut self, id: C) {
        let Some(client) = self.client(id) else {
            return;
        };
        let octets = client.unread.len().min(client.credit);
        if octets > 0 {
            client.credit -= octets;
            let rest = client.unread.split_off(octets);
            let octets = core::mem::replace(&mut client.unread, rest);
            self.ops.push_back((id, Op::Send(octets)));
        }
    }

    fn cut(&mut self, id: C) {
        self.stats.cut += 1;
        self.remove(id);
        self.ops.push_back((id, Op::Cut));
    }

    /// Sends a client the reason to go, and lets it. One that doesn't go is disconnected.
    fn dismiss(&mut self, id: C, reason: u8) {
        self.say(id, &Primitive::UnbindIndication(reason));
        if self.has(id) {
            self.stats.cut += 1;
            self.remove(id);
            self.leaving.push_back((id, self.now + LEAVE_WITHIN));
            self.ops.push_back((id, Op::Finish));
        }
    }

    fn remove(&mut self, id: C) {
        self.unbind(id);
        self.clients.retain(|client| client.id != id);
    }

    fn cut_those_who_stay(&mut self) {
        while let Some((id, _)) = self.leaving.pop_front_if(|(_, until)| *until <= self.now) {
            self.ops.push_back((id, Op::Cut));
        }
    }

    /// Takes a client's access point away, and with it its data.
    fn unbind(&mut self, id: C) {
        let now = self.now;
        if let Some(client) = self.client(id)
            && client.binding.take().is_some()
        {
            client.unbound_at = now;
            client.stopped = false;
        }
        self.forget_requests(id);
        self.end_hard_link_of(id);
    }

    /// Takes a primitive of a client.
    fn take(&mut self, id: C, body: &[u8]) {
        let parsed = Primitive::parse(body);
        let bound = self.binding(id);
        match (parsed, bound) {
            (Some(Primitive::BindRequest { sap, rank, service }), _) => {
                self.bind(id, Binding { sap, rank, service });
            }
            (Some(Primitive::UnbindRequest), Some(_)) => self.unbind(id),
            (Some(Primitive::KeepAlive), _) => self.answer_keep_alive(id),
            (Some(Primitive::UnidataRequest(expedited, request)), Some(binding)) => {
                self.submit(id, binding, expedited, &request);
            }
            (Some(Primitive::HardLinkEstablish(link, to)), Some(binding)) => {
                self.want_hard_link(id, (binding.rank, binding.sap), link, to);
            }
            (Some(Primitive::HardLinkTerminate(to)), Some(_)) => self.drop_hard_link(id, to),
            (Some(Primitive::HardLinkAccept(_, to)), Some(_)) => {
                self.decide_hard_link(id, to, None);
            }
            (Some(Primitive::HardLinkReject(reason, _, to)), Some(_)) => {
                self.decide_hard_link(id, to, Some(reason));
            }
            (Some(Primitive::ManagementRequest { kind, .. }), Some(Binding { rank: 15, .. })) => {
                self.answer_management(id, kind);
            }
            _ => self.note_invalid(id),
        }
    }

    /// A primitive of an unknown type, of a wrong size, or that isn't for a client to send now.
    fn note_invalid(&mut self, id: C) {
        self.stats.invalid += 1;
        let now = self.now;
        let Some(client) = self.client(id) else {
            return;
        };
        while client.invalid > 0 && client.invalid_at + INVALID_LASTS <= now {
            client.invalid -= 1;
            client.invalid_at += INVALID_LASTS;
        }
        if client.invalid == 0 {
            client.invalid_at = now;
        }
        client.invalid += 1;
        if client.invalid > INVALID_MAX {
            self.dismiss(id, 3);
        }
    }

    /// A client's question is answered, its answer isn't.
    fn answer_keep_alive(&mut self, id: C) {
        let asked = self
            .client(id)
            .is_some_and(|it| it.asked_until.take().is_some());
        if !asked {
            self.say(id, &Primitive::KeepAlive);
        }
    }

    /// The information for management: of each peer its address and whether there is a link.
    fn answer_management(&mut self, id: C, kind: u8) {
        let mut body = Vec::new();
        if kind == MANAGEMENT_LINKS {
            for (peer, linked) in self.settings.peers.iter().zip(&self.linked) {
                body.extend_from_slice(&peer.bits().to_be_bytes());
                body.push(u8::from(*linked));
            }
        }
        self.say(id, &Primitive::ManagementIndication { kind, body: &body });
    }

    fn bind(&mut self, id: C, wanted: Binding) {
        match self.refuse(id, wanted) {
            Some(reason) => self.say(id, &Primitive::BindRejected(reason)),
            None => {
                if let Some(client) = self.client(id) {
                    client.binding = Some(wanted);
                }
                let (sap, mtu) = (wanted.sap, self.settings.mtu);
                self.say(id, &Primitive::BindAccepted { sap, mtu });
                if !self.up {
                    self.tell_availability(id);
                }
            }
        }
    }

    /// Why a client can't have an access point. One of a higher rank may take the place of another.
    fn refuse(&mut self, id: C, wanted: Binding) -> Option<u8> {
        if self.binding(id).is_some() || self.holder(wanted.sap).is_some() {
            return Some(3);
        }
        if self.settings.reserved.contains(&wanted.sap) {
            return Some(3);
        }
        if self.settings.broadcast_only && wanted.service.mode == MODE_ARQ {
            return Some(4);
        }
        // The standard has no reason for it. This one means that the node can't serve it.
        if !(MODE_ARQ..=MODE_WITH_ERRORS).contains(&wanted.service.mode) {
            return Some(1);
        }
        let bound = self.clients.iter();
        let bound = bound.filter_map(|it| Some((it.binding?.rank, it.id)));
        if bound.clone().count() < self.settings.clients_max {
            return None;
        }
        match bound.min().filter(|(rank, _)| *rank < wanted.rank) {
            Some((_, lowest)) => {
                self.say(lowest, &Primitive::UnbindIndication(1));
                self.unbind(lowest);
                None
            }
            None => Some(1),
        }
    }
}

/// The kind of management message that asks for the links.
const MANAGEMENT_LINKS: u8 = 1;

#[cfg(test)]
mod clause_tests;
#[cfg(test)]
mod compact_tests;
#[cfg(test)]
mod hard_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod time_tests;
