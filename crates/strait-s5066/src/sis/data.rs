//! Clients' data: waiting, under way, and received.

use alloc::vec::Vec;

use strait_core::time::nanos;
use strait_core::{Duration, Instant};

use super::primitive::{
    Indication, MODE_ARQ, MODE_AS_BOUND, MODE_NON_ARQ, MODE_WITH_ERRORS, NodeAddress, Primitive,
    Request, Service, Told,
};
use super::{Binding, Sis};
use crate::address::Address;
use crate::calendar::TimeToDie;
use crate::s_pdu::{CONFIRMS_MAX, CONFIRMS_OCTET, DataSPdu, confirmation, confirmations};
use crate::station::Waiting;

/// U_PDUs of a client that wait or are under way: when it is stopped, when it may continue, and
/// when more are dropped silently.
const STOP_AT: usize = 16;
const GO_ON_AT: usize = 8;
const PENDING_MAX: usize = 64;

/// Octets of an S_PDU's header with a time to die.
const DATED_OCTETS: u16 = 5;

/// The unit of a time to live.
const TTL_UNIT: Duration = Duration::from_secs(2);

/// The longest time to live, in its units: 15 days. Times to die can't tell longer ones.
const TTL_UNITS_MAX: u32 = 648_000;

/// Data that waits for its turn.
#[derive(Debug)]
pub(super) struct Submission<C> {
    number: u64,
    /// `None` for this node's own reports.
    owner: Option<C>,
    /// None while the node, which isn't listed, has no place at the station.
    pub(super) peer: Option<usize>,
    priority: u8,
    expedited: bool,
    service: Service,
    asked: Instant,
    pub(super) dies: Instant,
    c_pdu: Vec<u8>,
    saps: (u8, u8),
    /// Its node, as the client named it.
    pub(super) to: NodeAddress,
    told: Vec<u8>,
}

/// Data that has left.
#[derive(Debug)]
pub(super) struct Undecided<C> {
    owner: Option<C>,
    peer: Option<usize>,
    expedited: bool,
    confirmation: u8,
    /// The number by which a node of `strait` confirms it.
    compact: Option<u16>,
    /// The node has it; its client hasn't confirmed it.
    arrived: bool,
    /// Whether its client has it, by a message that arrived ahead of the node's. Until then it may
    /// be about something else.
    word: Option<bool>,
    /// The station was asked to give it up.
    overdue: bool,
    asked: Instant,
    dies: Instant,
    saps: (u8, u8),
    pub(super) to: NodeAddress,
    told: Vec<u8>,
}

impl<C> Undecided<C> {
    /// When it is given up, or the other client's word isn't waited for any more.
    pub(super) fn dies(&self) -> Option<Instant> {
        (self.arrived || !self.overdue).then_some(self.dies)
    }
}

/// The data that may go next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its number.
    pub number: u64,
    /// The number of the peer.
    pub to: usize,
    /// 0 to 15, 15 the most urgent.
    pub priority: u8,
    /// With repeats until it has come.
    pub arq: bool,
    /// Ahead of all that isn't expedited.
    pub expedited: bool,
}

/// Data on its way to the station.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    /// The C_PDU.
    pub c_pdu: Vec<u8>,
    /// It is to be delivered in order.
    pub in_order: bool,
    /// Without ARQ: times that it is sent.
    pub copies: u32,
}

/// An S_PDU that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived<'a> {
    /// The number of the peer, or of the place of a stranger; none of one that gets no answer.
    pub from: Option<usize>,
    /// Its address.
    pub source: Address,
    /// This node's address, or that of a group of it.
    pub to: Address,
    /// With ARQ, expedited or not.
    pub arq: bool,
    /// Expedited.
    pub expedited: bool,
    /// The S_PDU.
    pub s_pdu: &'a [u8],
    /// Offset and length of damaged and missing parts, in the S_PDU.
    pub damaged: &'a [(u16, u16)],
    /// The same of missing parts.
    pub missing: &'a [(u16, u16)],
}

impl<C: Copy + Ord> Sis<C> {
    /// A client wants data sent.
    pub(super) fn submit(
        &mut self,
        id: C,
        binding: Binding,
        expedited: bool,
        request: &Request<'_>,
    ) {
        let as_bound = request.service.mode == MODE_AS_BOUND;
        let service = if as_bound {
            binding.service
        } else {
            request.service
        };
        self.stats.requests += 1;
        if let Err(reason) = self.takes(service, request) {
            let told = Told {
                sap: request.sap,
                to: request.to,
                u_pdu: self.head(request.u_pdu),
            };
            self.stats.rejected += 1;
            return self.say(id, &Primitive::UnidataRejected(expedited, reason, told));
        }
        let pending = self.pending(id);
        if expedited && self.pending_expedited(id) >= self.settings.expedited_max {
            self.stats.forgotten += 1;
            self.say(id, &Primitive::UnbindIndication(4));
            return self.unbind(id);
        }
        if pending >= PENDING_MAX {
            self.stats.flooded += 1;
            return;
        }
        let arq = service.mode == MODE_ARQ;
        // Without a time to live it is tried for ever, as far as other nodes are informed.
        let (dies, told) = match request.ttl {
            0 => (self.now + self.settings.ttl_max, None),
            units => {
                let dies = self.now + TTL_UNIT * units.min(TTL_UNITS_MAX);
                let times = self.calendar(dies).zip(self.calendar(self.now));
                (
                    dies,
                    times.and_then(|(at, now)| TimeToDie::readable_at(at, now)),
                )
            }
        };
        let header = DataSPdu {
            priority: if expedited { 0 } else { request.priority },
            source: binding.sap,
            destination: request.sap,
            confirm: arq && service.confirmation == 2,
            dies: told,
            number: None,
            u_pdu: &[],
        };
        let mut c_pdu = alloc::vec![0];
        header.put_header(&mut c_pdu);
        c_pdu.extend_from_slice(request.u_pdu);
        let submission = Submission {
            number: 0,
            owner: Some(id),
            peer: self.peer(request.to.address()),
            priority: header.priority,
            expedited,
            service,
            asked: self.now,
            dies,
            c_pdu,
            saps: (binding.sap, request.sap),
            to: request.to,
            told: self.head(request.u_pdu).into(),
        };
        self.enqueue(submission);
        self.control_flow(id);
    }

    /// The returned part of a U_PDU.
    fn head<'a>(&self, u_pdu: &'a [u8]) -> &'a [u8] {
        &u_pdu[..u_pdu.len().min(self.settings.told_octets)]
    }

    fn peer(&self, address: Address) -> Option<usize> {
        let mut peers = self.settings.peers.iter();
        peers.position(|peer| *peer == address)
    }

    /// Whether data can be sent, or the reason why not.
    fn takes(&self, service: Service, request: &Request<'_>) -> Result<(), u8> {
        if request.u_pdu.len() > usize::from(self.settings.mtu) {
            return Err(4);
        }
        if !(MODE_ARQ..=MODE_WITH_ERRORS).contains(&service.mode) {
            return Err(5);
        }
        let arq = service.mode == MODE_ARQ;
        // A group couldn't acknowledge.
        if arq && (request.to.address().is_group() || self.settings.broadcast_only) {
            return Err(5);
        }
        let node = request.to.address();
        let guest = self.settings.guests > 0 && node != self.settings.own;
        match self.up && (guest || self.peer(node).is_some()) {
            true => Ok(()),
            false => Err(3),
        }
    }

    fn enqueue(&mut self, submission: Submission<C>) {
        let number = self.next_number;
        self.next_number += 1;
        self.queue.push(Submission {
            number,
            ..submission
        });
    }

    /// Sends an S_PDU of this node's own.
    pub(super) fn send_own(
        &mut self,
        (peer, to): (usize, Address),
        expedited: bool,
        priority: u8,
        s_pdu: &[u8],
    ) {
        // As many as clients may have under way: each answers something.
        if self.queue.len() >= PENDING_MAX * (self.settings.clients_max + 1) {
            self.stats.unsaid += 1;
            return;
        }
        let mut c_pdu = alloc::vec![0];
        c_pdu.extend_from_slice(s_pdu);
        let service = Service {
            mode: MODE_ARQ,
            any_order: true,
            ..Service::default()
        };
        self.enqueue(Submission {
            number: 0,
            owner: None,
            peer: Some(peer),
            priority,
            expedited,
            service,
            asked: self.now,
            dies: self.now + self.settings.ttl_max,
            c_pdu,
            saps: (0, 0),
            to: to.into(),
            told: Vec::new(),
        });
    }

    /// Asserts that each U_PDU accepted from a client waits, or ended once.
    pub fn check(&self) {
        let queued = self.queue.iter().filter(|it| it.owner.is_some()).count();
        let sent = self.undecided.values();
        let sent = sent.filter(|it| it.owner.is_some()).count();
        let of = &self.stats;
        let ended = of.rejected + of.confirmed + of.unasked + of.flooded + of.forgotten;
        assert_eq!(of.requests, ended + (queued + sent) as u64, "{of:?}");
    }

    /// U_PDUs of a client without a known outcome.
    fn pending(&self, id: C) -> usize {
        let queued = self.queue.iter().filter(|it| it.owner == Some(id));
        let sent = self.undecided.values().filter(|it| it.owner == Some(id));
        queued.count() + sent.count()
    }

    fn pending_expedited(&self, id: C) -> usize {
        let queued = self.queue.iter();
        let queued = queued.filter(|it| it.owner == Some(id) && it.expedited);
        let sent = self.undecided.values();
        let sent = sent.filter(|it| it.owner == Some(id) && it.expedited);
        queued.count() + sent.count()
    }

    fn control_flow(&mut self, id: C) {
        let pending = self.pending(id);
        let Some(client) = self.client(id) else {
            return;
        };
        if !client.stopped && pending >= STOP_AT {
            client.stopped = true;
            self.say(id, &Primitive::DataFlowOff);
        } else if client.stopped && pending <= GO_ON_AT {
            client.stopped = false;
            self.say(id, &Primitive::DataFlowOn);
        }
    }

    /// Gives up a client's data that hasn't left.
    pub(super) fn forget_requests(&mut self, id: C) {
        let before = self.queue.len();
        self.queue.retain(|it| it.owner != Some(id));
        self.stats.forgotten += (before - self.queue.len()) as u64;
        for sent in self.undecided.values_mut() {
            if sent.owner == Some(id) {
                sent.owner = None;
                self.stats.forgotten += 1;
            }
        }
    }

    /// The most urgent of the waiting ones that `may` go, the oldest of equals.
    pub fn next(&self, may: impl Fn(&Next) -> bool) -> Option<Next> {
        let placed = self.queue.iter().filter_map(|it| Some((it.peer?, it)));
        let waiting = placed
            .filter(|(peer, it)| it.owner.is_none() || self.lets(*peer, it.saps.0, it.saps.1));
        let waiting = waiting.map(|(to, it)| Next {
            number: it.number,
            to,
            priority: it.priority,
            arq: it.service.mode == MODE_ARQ,
            expedited: it.expedited,
        });
        let first = |next: &Next| {
            (
                next.expedited,
                next.priority,
                core::cmp::Reverse(next.number),
            )
        };
        waiting.filter(may).max_by_key(first)
    }

    /// Takes the one named by [`Self::next`]. [`Self::decide`] reports its outcome.
    pub fn take_next(&mut self, number: u64) -> Option<Taken> {
        let place = self.queue.iter().position(|it| it.number == number)?;
        let mut it = self.queue.remove(place);
        let confirmation = match it.service.mode {
            MODE_ARQ => it.service.confirmation,
            _ => 0,
        };
        let ours = it.peer.and_then(|peer| self.ours.get(peer)) == Some(&true);
        let compact = confirmation == 2 && ours && self.settings.compact_confirmations;
        // The data may come until it dies, and the word about it waits as long as any.
        let until = it.dies + self.settings.ttl_max;
        let compact = compact
            .then(|| self.numbers.take(self.now, until))
            .flatten();
        if let Some(compact) = compact {
            it.c_pdu = numbered(&it.c_pdu, compact);
        }
        self.undecided.insert(
            it.number,
            Undecided {
                owner: it.owner,
                peer: it.peer,
                expedited: it.expedited,
                confirmation,
                compact,
                arrived: false,
                word: None,
                overdue: false,
                asked: it.asked,
                dies: it.dies,
                saps: it.saps,
                to: it.to,
                told: it.told,
            },
        );
        Some(Taken {
            c_pdu: it.c_pdu,
            in_order: !it.service.any_order,
            copies: 1 + u32::from(it.service.repeats),
        })
    }

    /// Octets and U_PDUs that wait for a peer.
    #[must_use]
    pub fn waiting(&self, to: usize) -> Waiting {
        let those = self.queue.iter().filter(|it| it.peer == Some(to));
        those.fold(Waiting::default(), |sum, it| {
            sum + Waiting {
                octets: it.c_pdu.len(),
                count: 1,
            }
        })
    }

    /// Adds waiting data, by priority.
    pub fn count_queued(&self, queued: &mut [u64; 16]) {
        for it in &self.queue {
            queued[usize::from(it.priority & 15)] += 1;
        }
    }

    /// The outcome of data: its node has it, or it has left without ARQ; or it hasn't arrived, as
    /// far as is known.
    pub fn decide(&mut self, now: Instant, number: u64, delivered: bool) {
        self.now = self.now.max(now);
        let Some(sent) = self.undecided.get_mut(&number) else {
            return;
        };
        if delivered && sent.confirmation == 2 && sent.owner.is_some() {
            sent.arrived = true;
            if let Some(has) = sent.word {
                self.take_word(number, has);
            }
            return;
        }
        let confirmed = sent.confirmation == 1;
        if let Some(sent) = self.undecided.remove(&number) {
            match (delivered, confirmed) {
                (true, true) => self.tell(&sent, None),
                (true, false) => self.tell_nothing(&sent),
                (false, _) => {
                    let reason = if sent.dies <= self.now { 1 } else { 3 };
                    self.tell(&sent, Some(reason));
                }
            }
        }
    }

    fn tell_nothing(&mut self, sent: &Undecided<C>) {
        if let Some(id) = sent.owner {
            self.stats.unasked += 1;
            self.control_flow(id);
        }
    }

    /// Informs a client that its data has arrived, or why it hasn't.
    fn tell(&mut self, sent: &Undecided<C>, rejected: Option<u8>) {
        let Some(id) = sent.owner else { return };
        let told = Told {
            sap: sent.saps.1,
            to: sent.to,
            u_pdu: &sent.told,
        };
        let primitive = match rejected {
            Some(reason) => {
                self.stats.rejected += 1;
                Primitive::UnidataRejected(sent.expedited, reason, told)
            }
            None => {
                self.stats.confirmed += 1;
                self.stats.confirm_ns += nanos(self.now.since(sent.asked));
                Primitive::UnidataConfirm(sent.expedited, told)
            }
        };
        self.say(id, &primitive);
        self.control_flow(id);
    }

    /// Gives up data that is too old, and all data with ARQ for absent stations.
    pub(super) fn expire(&mut self, silent: impl Fn(usize) -> bool) {
        let now = self.now;
        let mut over = Vec::new();
        self.queue.retain_mut(|it| {
            let dead = it.dies <= now;
            let lost = it.service.mode == MODE_ARQ && it.peer.is_some_and(&silent);
            if dead || lost {
                let sent = Undecided {
                    owner: it.owner,
                    peer: it.peer,
                    expedited: it.expedited,
                    confirmation: 0,
                    compact: None,
                    arrived: false,
                    word: None,
                    overdue: false,
                    asked: it.asked,
                    dies: it.dies,
                    saps: it.saps,
                    to: it.to,
                    told: core::mem::take(&mut it.told),
                };
                over.push((sent, if dead { 1 } else { 3 }));
            }
            !(dead || lost)
        });
        let late = self.undecided.iter();
        let late = late.filter(|(_, sent)| sent.arrived && sent.dies <= now);
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        let late = late.into_iter().filter_map(|it| self.undecided.remove(&it));
        // The node has it, and its client hasn't confirmed in time.
        over.extend(late.map(|sent| (sent, 3)));
        for (sent, reason) in over {
            self.tell(&sent, Some(reason));
        }
    }

    /// Useless data at the station: its destination and number. Each is named once; the station
    /// gives it up, and calls [`Self::decide`].
    pub(super) fn poll_overdue(&mut self) -> Option<(usize, u64)> {
        let now = self.now;
        let mut sent = self.undecided.iter_mut();
        let over = |sent: &Undecided<C>| !sent.arrived && !sent.overdue && sent.dies <= now;
        let (number, sent) = sent.find(|(_, sent)| over(sent))?;
        sent.overdue = true;
        Some((sent.peer?, *number))
    }

    /// An S_PDU arrived that isn't for this node's own clients.
    pub fn arrive(&mut self, now: Instant, arrived: &Arrived<'_>) {
        self.now = self.now.max(now);
        let s_pdu = arrived.s_pdu;
        let Some(&first) = s_pdu.first() else {
            return;
        };
        let Some(from) = arrived.from else {
            if first >> 4 == 0 {
                self.arrive_data(arrived);
            }
            return;
        };
        // Of others, these types may be anything.
        let ours = self.ours.get(from) == Some(&true);
        match first >> 4 {
            0 => self.arrive_data(arrived),
            12 if ours => self.arrive_data(arrived),
            // Data alone arrives without ARQ: any station can send such a message, in another's
            // name.
            _ if !arrived.arq => {}
            13 if ours => self.arrive_confirmations(from, s_pdu),
            kind @ (1 | 2) => self.arrive_word(from, s_pdu, kind == 1),
            // A.3.2.2.2 (11), (25), A.3.2.2.3 (6).
            3..=7 if arrived.expedited => self.arrive_hard_link(from, arrived.source, s_pdu),
            _ => {}
        }
    }

    fn arrive_data(&mut self, arrived: &Arrived<'_>) {
        let Some(data) = DataSPdu::parse(arrived.s_pdu) else {
            return;
        };
        let blocks = arrived.damaged.iter().chain(arrived.missing);
        // A time with possible errors is ignored.
        let right = blocks
            .min()
            .is_none_or(|(offset, _)| *offset >= DATED_OCTETS);
        if right && self.is_late(self.now, &data) {
            return;
        }
        let errors = !arrived.damaged.is_empty() || !arrived.missing.is_empty();
        let holder = self.holder(data.destination);
        let takes_errors = |id: &C| {
            let mode = self.binding(*id).map(|it| it.service.mode);
            !errors || mode == Some(MODE_WITH_ERRORS)
        };
        let Some(id) = holder.filter(takes_errors) else {
            if holder.is_none() {
                self.stats.unbound += 1;
            }
            if data.confirm && arrived.arq {
                self.answer(arrived, &data, false);
            }
            return;
        };
        let mode = match (arrived.arq, self.binding(id).map(|it| it.service.mode)) {
            (true, _) => MODE_ARQ,
            (false, Some(MODE_WITH_ERRORS)) => MODE_WITH_ERRORS,
            (false, _) => MODE_NON_ARQ,
        };
        let front = arrived.s_pdu.len() - data.u_pdu.len();
        let within = |blocks: &[(u16, u16)]| -> Vec<(u16, u16)> {
            blocks.iter().filter_map(|it| behind(*it, front)).collect()
        };
        let (damaged, missing) = (within(arrived.damaged), within(arrived.missing));
        let indication = Indication {
            priority: data.priority,
            sap: data.destination,
            to: arrived.to,
            mode,
            from_sap: data.source,
            from: arrived.source,
            damaged: &damaged,
            missing: &missing,
            u_pdu: data.u_pdu,
        };
        self.stats.indications += 1;
        self.say(
            id,
            &Primitive::UnidataIndication(arrived.expedited, indication),
        );
        if data.confirm && arrived.arq {
            self.answer(arrived, &data, true);
        }
    }

    /// Tells the other client's node the outcome of its data here: a client has it, or there is
    /// none.
    fn answer(&mut self, arrived: &Arrived<'_>, data: &DataSPdu<'_>, has: bool) {
        let (Some(to), expedited) = (arrived.from, arrived.expedited) else {
            return;
        };
        let Some(number) = data.number else {
            let mut s_pdu = Vec::from([if has { 1 << 4 } else { 2 << 4 | 1 }]);
            s_pdu.push(data.source << 4 | data.destination & 15);
            s_pdu.extend_from_slice(self.head(data.u_pdu));
            return self.send_own((to, arrived.source), expedited, data.priority, &s_pdu);
        };
        let word = confirmation(number, has);
        let full = 2 + 2 * CONFIRMS_MAX;
        let joins = |it: &&mut Submission<C>| {
            let same = it.owner.is_none() && it.peer == Some(to) && it.expedited == expedited;
            same && it.c_pdu.get(1) == Some(&CONFIRMS_OCTET) && it.c_pdu.len() < full
        };
        if let Some(waits) = self.queue.iter_mut().find(joins) {
            waits.c_pdu.extend_from_slice(&word);
            waits.priority = waits.priority.max(data.priority);
            return;
        }
        let s_pdu = [CONFIRMS_OCTET, word[0], word[1]];
        self.send_own((to, arrived.source), expedited, data.priority, &s_pdu);
    }

    /// The same of data with numbers.
    fn arrive_confirmations(&mut self, from: usize, s_pdu: &[u8]) {
        for (number, has) in confirmations(s_pdu) {
            let about = |(_, sent): &(&u64, &Undecided<C>)| {
                sent.compact == Some(number) && sent.peer == Some(from)
            };
            if let Some((own, _)) = self.undecided.iter().find(about) {
                self.take_word(*own, has);
            }
        }
    }

    /// The other end says that a client has this node's data, or that there is none.
    fn arrive_word(&mut self, from: usize, s_pdu: &[u8], has: bool) {
        let Some((&[_, saps], told)) = s_pdu.split_first_chunk::<2>() else {
            return;
        };
        let saps = (saps >> 4, saps & 15);
        let about = |sent: &Undecided<C>| {
            let begins = sent.told.starts_with(told) || told.starts_with(&sent.told);
            sent.confirmation == 2 && sent.peer == Some(from) && sent.saps == saps && begins
        };
        let mut those = self.undecided.iter();
        let Some(number) = those
            .find(|(_, sent)| about(sent))
            .map(|(number, _)| *number)
        else {
            return;
        };
        self.take_word(number, has);
    }

    /// A message about this node's data arrived. The other end's station reports the data before
    /// it, unless that got lost: a message about data that hasn't arrived is about a former
    /// incarnation's.
    fn take_word(&mut self, number: u64, has: bool) {
        let Some(sent) = self.undecided.get_mut(&number) else {
            return;
        };
        if !sent.arrived {
            sent.word = Some(has);
        } else if let Some(sent) = self.undecided.remove(&number) {
            self.tell(&sent, if has { None } else { Some(2) });
        }
    }
}

/// The C_PDU of client data, with a number.
fn numbered(c_pdu: &[u8], number: u16) -> Vec<u8> {
    let data = c_pdu
        .split_first()
        .and_then(|(_, s_pdu)| DataSPdu::parse(s_pdu));
    let Some(data) = data else {
        return c_pdu.into();
    };
    let mut out = alloc::vec![0];
    let number = Some(number);
    DataSPdu { number, ..data }.put_header(&mut out);
    out.extend_from_slice(data.u_pdu);
    out
}

/// A block of the octets behind `front` ones.
fn behind((offset, length): (u16, u16), front: usize) -> Option<(u16, u16)> {
    let (begin, end) = (
        usize::from(offset),
        usize::from(offset) + usize::from(length),
    );
    let begin = begin.max(front);
    (begin < end).then(|| ((begin - front) as u16, (end - begin) as u16))
}
