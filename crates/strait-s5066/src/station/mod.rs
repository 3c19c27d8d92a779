//! A station: its links to peers, and whose turn it is on the air.

mod access;
mod adapt;
mod call;
mod hear;
mod settings;
mod silence;
mod strangers;
mod turn;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::chance::Stream;
use strait_core::node::PortState;
use strait_core::stats::{HfCounts, HfLink};
use strait_core::time::nanos;
use strait_core::{Duration, Instant};

use crate::address::Address;
use crate::arq::{Expedited, Numbering, Receiver, Sender};
use crate::d_pdu::{Fault, Reset, Warning};
use crate::early::Early;
use crate::link::{Link, State};
use crate::management::Management;
use crate::non_arq::Assembler;
use crate::non_arq::numbers::PlainNumbers;
use crate::quality::Quality;
use crate::reset::ResetExchange;
use crate::stream::Finder;

use self::access::Share;
pub use self::access::{Access, Csma, Order, Slots};
use self::adapt::Towards;
pub use self::settings::Settings;
use self::turn::{EOT_MAX, OnAir, Outgoing};

/// What a caller hands over to be sent.
#[derive(Debug)]
pub struct Offer<T> {
    /// The number of the peer.
    pub to: usize,
    /// The C_PDU, its first octet included.
    pub c_pdu: Vec<u8>,
    /// With repeats until it has come.
    pub arq: bool,
    /// Ahead of all that isn't.
    pub expedited: bool,
    /// It goes before repeats of others.
    pub urgent: bool,
    /// It is to be delivered in order.
    pub in_order: bool,
    /// Without ARQ: times that it is sent, at least one.
    pub copies: u32,
    /// Given back with the outcome.
    pub ticket: T,
}

/// What became of an offer.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// The number of the peer.
    pub to: usize,
    /// The offer's.
    pub ticket: T,
    /// It was acknowledged, or has left without ARQ.
    pub delivered: bool,
    /// When its first octet left.
    pub began: Instant,
    /// When all of it had left once.
    pub sent: Instant,
    /// When the last of it left, repeats included.
    pub left: Instant,
}

/// A C_PDU with client data that arrived whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    /// The number of the peer, or of the place of a stranger; none of one that has no place, whose
    /// comes without ARQ.
    pub from: Option<usize>,
    /// Its address.
    pub source: Address,
    /// This station, or a group of it.
    pub to: Address,
    /// With ARQ.
    pub arq: bool,
    /// Expedited.
    pub expedited: bool,
    /// The C_PDU, its first octet included.
    pub c_pdu: Vec<u8>,
    /// Without ARQ: offset and length of what is damaged in it.
    pub damaged: Vec<(u16, u16)>,
    /// The same of what didn't come.
    pub missing: Vec<(u16, u16)>,
}

#[derive(Debug)]
struct Peer<T> {
    address: Address,
    /// It isn't listed, and there is something for it: it keeps its place.
    wanted: bool,
    link: Link,
    send: Sender<T>,
    receive: Receiver,
    expedited: Expedited<T>,
    quality: Quality,
    /// The part of the longest transmission that is risked: one of so many.
    caution: u32,
    /// Data came that hasn't been acknowledged.
    owes_ack: bool,
    /// Our last turn was for it, and wants an answer.
    awaited: bool,
    /// It has answered since.
    answered: bool,
    /// Turns without an answer.
    unanswered: u32,
    /// Those of them since it used the link last that nobody kept it from answering.
    unheard: u32,
    /// Its link, or calls to it, were given up, and it wasn't heard since.
    silent: bool,
    /// It didn't answer, and others go before it until then.
    rests_until: Option<Instant>,
    /// No calls until then.
    paused_until: Option<Instant>,
    /// Rows of calls in a row that it answered none of.
    rows: u32,
    /// Calls that it refused since it accepted one.
    refusals: u32,
    outgoing: Option<Outgoing<T>>,
    reset: ResetExchange,
    management: Management,
    /// The rate of what is sent to it.
    towards: Towards,
    /// Data with calls.
    early: Early,
    /// Its last link ended, by whatever either end said or didn't say: the next is made by a call.
    doubtful: bool,
    /// Nothing has said yet that both ends count alike by the link that something else made.
    uneven: bool,
    /// It said that it is one of ours when it called or answered last.
    ours: bool,
    /// It used long numbers, with whomever, since the first call of a row.
    seen_ours: bool,
    /// It used long numbers by this link.
    used_long: bool,
    /// It has no long numbers until then, whatever it says.
    plain_until: Option<Instant>,
    /// To be sent.
    warning: Option<Warning>,
    /// Time on the air: ours for it, and its own.
    air: (Duration, Duration),
    /// When the last turn for it began that was more than a brief answer.
    turn_at: Instant,
}

impl<T> Peer<T> {
    fn new(address: Address, numbering: Numbering, segment_octets_max: usize) -> Self {
        Self {
            address,
            wanted: false,
            link: Link::new(),
            send: Sender::new(numbering, segment_octets_max),
            receive: Receiver::new(numbering),
            expedited: Expedited::new(segment_octets_max),
            quality: Quality::default(),
            caution: 1,
            owes_ack: false,
            awaited: false,
            answered: false,
            unanswered: 0,
            unheard: 0,
            silent: false,
            rests_until: None,
            paused_until: None,
            rows: 0,
            refusals: 0,
            outgoing: None,
            reset: ResetExchange::default(),
            management: Management::default(),
            towards: Towards::new(0),
            early: Early::default(),
            doubtful: false,
            uneven: false,
            ours: false,
            seen_ours: false,
            used_long: false,
            plain_until: None,
            warning: None,
            air: (Duration::ZERO, Duration::ZERO),
            turn_at: Instant::ZERO,
        }
    }

    /// A call or an acceptance says what a warning that there is no link would, and makes one:
    /// behind it, the warning would end it.
    fn forget_warning(&mut self) {
        self.warning
            .take_if(|warning| warning.fault == Fault::NotConnected);
    }

    /// A link is made: messages and resets are numbered anew.
    fn begin_numbers(&mut self) {
        (self.doubtful, self.uneven) = (false, false);
        self.management.renumber();
        self.reset.heard = None;
    }

    /// It is in contact: turns without an answer are counted anew.
    const fn note_contact(&mut self) {
        (self.unanswered, self.unheard) = (0, 0);
    }

    /// Whether so many turns without an answer are enough to take its link for lost. Who uses the
    /// link meanwhile has it, and counts its own turns; one that never answers is given up all the
    /// same.
    const fn is_lost(&self, unanswered_max: u32) -> bool {
        self.unheard >= unanswered_max || self.unanswered >= unanswered_max.saturating_mul(2)
    }

    /// Whether an acknowledgement is due. None is while a reset isn't answered: what came may have
    /// gone by new numbers, which it would say of old ones.
    const fn owes_ack(&self) -> bool {
        self.owes_ack && self.reset.open.is_none()
    }

    /// A reset that waits for its answer: there is none without a link.
    fn asks_reset(&self) -> Option<Reset> {
        self.reset.open.filter(|_| self.link.is_made())
    }
}

/// Who is on the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The medium isn't there.
    Down,
    /// Nobody; we may begin.
    Free,
    /// Nobody; we may begin at this moment.
    Quiet(Instant),
    /// We were; an answer begins before this moment, or is lost.
    Awaiting(Instant),
    /// Another, to this moment at the latest.
    Hearing(Instant),
    /// We are.
    Keyed,
}

/// A station with its peers, whose numbers are their places in its list.
#[derive(Debug)]
pub struct Station<T> {
    settings: Settings,
    /// First those that are listed; then places for strangers with links; one for the stranger that
    /// is answered.
    peers: Vec<Peer<T>>,
    listed: usize,
    /// Frames that were sent again to strangers that gave their places up.
    repeated_before: u64,
    phase: Phase,
    now: Instant,
    state: Option<PortState>,
    /// From key-up to the first octet on the air, as it was last.
    lead: Duration,
    on_air: Option<OnAir>,
    finder: Finder,
    assembler: Assembler,
    of_strangers: Assembler,
    /// What arrived, and when it is to be told.
    received: VecDeque<(Instant, Received)>,
    outcomes: VecDeque<Outcome<T>>,
    /// The peer that spoke to us in the transmission that we hear.
    spoke: Option<usize>,
    /// When we last came to be free to begin.
    free_since: Instant,
    /// When the air has been silent for so long since then that nobody has anything to say.
    silent_at: Instant,
    /// When the transmission that we hear or make began, and the peer that makes it.
    on_since: Instant,
    /// The end of a transmission of ours without ARQ, if nobody was heard since.
    plain_end: Option<Instant>,
    speaker: Option<usize>,
    /// Signal-to-noise ratios of its blocks: their sum in hundredths of a decibel, and how many.
    snr: (i32, i32),
    /// Its rate, where the modem tells.
    heard_bit_s: Option<u32>,
    /// What it knows of the others' use of the air.
    share: Share,
    /// The only peer that is served, where a link is kept for it alone.
    exclusive: Option<usize>,
    /// That link is renewed when it is idle.
    keeps: bool,
    /// The peer that spoke to us last and waits for an answer.
    to_answer: Option<usize>,
    /// Answers to strangers are spent until then.
    answers_spent: Instant,
    /// The numbers of C_PDUs without ARQ, plain and expedited.
    c_pdus: [PlainNumbers; 2],
    /// Another one after each start.
    life: u16,
    /// The epoch that was begun last.
    epoch: u16,
    chance: Stream,
    /// Draws what silences it waits for.
    silences: Stream,
    stats: HfCounts,
}

impl<T> Station<T> {
    /// A station that is off. `seed` differs from start to start.
    #[must_use]
    pub fn new(settings: Settings, peers: &[Address], seed: u64) -> Self {
        let mut chance = Stream::new(seed, "s5066");
        let mut lives = Stream::new(seed, "s5066 lives");
        let numbering = Numbering::short(settings.window);
        let segment = settings.segment_octets_max;
        let vacant = core::iter::repeat_n(&settings.own, settings.guests + 1);
        let places = peers.iter().chain(vacant);
        let places = places.map(|address| Peer::new(*address, numbering, segment));
        Self {
            peers: places.collect(),
            listed: peers.len(),
            repeated_before: 0,
            phase: Phase::Down,
            now: Instant::ZERO,
            state: None,
            lead: Duration::ZERO,
            on_air: None,
            finder: Finder::default(),
            assembler: Assembler::default(),
            of_strangers: Assembler::of_strangers(),
            received: VecDeque::new(),
            outcomes: VecDeque::new(),
            spoke: None,
            free_since: Instant::ZERO,
            silent_at: Instant::ZERO,
            on_since: Instant::ZERO,
            plain_end: None,
            speaker: None,
            snr: (0, 0),
            heard_bit_s: None,
            share: Share::default(),
            exclusive: None,
            keeps: false,
            to_answer: None,
            answers_spent: Instant::ZERO,
            // A station that begins anew must not be taken for the one before.
            c_pdus: {
                let first = chance.below(4096) as u16;
                [first; 2].map(PlainNumbers::new)
            },
            life: lives.draw() as u16,
            epoch: lives.draw() as u16,
            chance,
            silences: Stream::new(seed, "s5066 silences"),
            settings,
            stats: HfCounts::default(),
        }
    }

    /// What it counted.
    #[must_use]
    pub fn stats(&self) -> HfCounts {
        let now: u64 = self.peers.iter().map(|peer| peer.send.repeated()).sum();
        HfCounts {
            repeated: self.repeated_before + now,
            ..self.stats
        }
    }

    /// How the link with a peer stands.
    #[must_use]
    pub fn link_view(&self, number: usize) -> Option<HfLink> {
        let peer = self.peers.get(number)?;
        let (sent, heard) = peer.air;
        Some(HfLink {
            linked: peer.link.is_made(),
            long: peer.link.is_long(),
            under_way: peer.send.under_way() as u64,
            window: peer.send.window().into(),
            segment_octets: self.segment_octets(number) as u64,
            lost: peer.quality.lost(),
            sent_ns: nanos(sent),
            heard_ns: nanos(heard),
            rate: self.rate_view(number),
        })
    }

    /// C_PDUs offered whose outcome isn't known.
    #[must_use]
    pub fn held(&self) -> usize {
        let under_way = |peer: &Peer<T>| {
            peer.send.held()
                + peer.expedited.held()
                + usize::from(
                    peer.outgoing
                        .as_ref()
                        .is_some_and(|it| it.ticket().is_some()),
                )
        };
        self.peers.iter().map(under_way).sum::<usize>() + self.outcomes.len()
    }

    /// How many peers it has.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.listed
    }

    /// Whether a peer's address is that of a group.
    #[must_use]
    pub fn is_group(&self, peer: usize) -> bool {
        self.peers
            .get(peer)
            .is_some_and(|peer| peer.address.is_group())
    }

    /// The medium is there.
    pub fn set_up(&mut self, now: Instant, state: PortState) {
        self.now = now;
        self.state = Some(state);
        self.begin_rates(state);
        if self.phase == Phase::Down {
            self.phase = Phase::Free;
        }
    }

    /// The medium is gone, and with it all links; what was under way to them is over.
    pub fn set_down(&mut self) {
        self.state = None;
        self.phase = Phase::Down;
        (self.on_air, self.to_answer) = (None, None);
        self.finder = Finder::default();
        for number in 0..self.peers.len() {
            let peer = &mut self.peers[number];
            peer.send.abandon();
            peer.expedited.abandon();
            (peer.awaited, peer.warning) = (false, None);
            peer.reset.says.clear();
            peer.management.clear();
            if let Some(mut outgoing) = peer.outgoing.take() {
                self.outcomes.extend(outgoing.over(number, false));
            }
            self.forget_link(number);
            self.peers[number].doubtful = false;
        }
    }

    /// Another's transmission was heard to begin or to end; what it held was told before.
    pub fn hear_carrier(&mut self, now: Instant, on: bool) {
        self.advance(now);
        match (on, self.phase) {
            (_, Phase::Down | Phase::Keyed) => {}
            (true, _) => {
                // A modem may lose the end.
                self.phase = Phase::Hearing(now + EOT_MAX + self.answer_time());
                self.finder = Finder::default();
                self.spoke = None;
                (self.on_since, self.speaker) = (now, None);
                self.note_begin(now);
            }
            (false, Phase::Hearing(_)) => self.end_hearing(now),
            (false, _) => {}
        }
        self.advance(now);
    }

    /// Our transmission has left.
    pub fn drained(&mut self, now: Instant) {
        self.advance(now);
        let Some(on_air) = self.on_air.take() else {
            return;
        };
        self.peers[on_air.peer].air.0 += now.since(self.on_since);
        self.put_off(now);
        let again = on_air.plain && self.plain_end.is_some();
        self.plain_end = on_air.plain.then_some(now);
        let to = self.peers[on_air.peer].address;
        self.share
            .note_turn(self.settings.own, to, on_air.is_plain());
        self.share.note_own(self.settings.own, self.on_since);
        let known = now + self.latency_at(on_air.place);
        (self.share.ended, self.share.understood) = (known, None);
        self.follow_agreement(on_air.peer);
        self.phase = if on_air.wants_answer {
            Phase::Awaiting(now + self.answer_time())
        } else {
            Phase::Quiet(now + self.rest(&on_air, again))
        };
        self.advance(now);
    }

    /// A transmission ended, whoever made it: no peer can have shown meanwhile that it knows of its
    /// link.
    fn put_off(&mut self, now: Instant) {
        let patience = self.patience();
        for peer in &mut self.peers {
            peer.link.put_off(self.on_since, now, patience);
        }
    }

    /// Brings the station up to this moment.
    pub fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if let Phase::Awaiting(until) = self.phase
            && until <= now
        {
            self.phase = Phase::Quiet(now);
            self.miss_answers(now);
        }
        if let Phase::Hearing(until) = self.phase
            && until <= now
        {
            self.end_hearing(now);
        }
        if let Phase::Quiet(at) = self.phase
            && at <= now
        {
            (self.phase, self.free_since) = (Phase::Free, now);
            self.silent_at = now + self.silence();
            self.peers.iter_mut().for_each(|it| it.link.pass_turn());
        }
        self.end_rests(now);
        for peer in &mut self.peers {
            peer.paused_until = peer.paused_until.filter(|until| *until > now);
            peer.plain_until = peer.plain_until.filter(|until| *until > now);
        }
        for number in 0..self.peers.len() {
            // One of ours is asked, or called, once there is something for it.
            let kept = self.peers[number].link.is_kept_in_vain(now);
            if kept && !self.is_known_as_ours(number) {
                self.lose_link(number);
            }
        }
        self.forget_vain_guests(now);
        self.receive_assembled(now);
        if self.phase == Phase::Free {
            self.break_idle(now);
        }
    }

    /// Breaks a link that nobody needs, one at a time: behind each, all others have their turn.
    fn break_idle(&mut self, now: Instant) {
        if self.peers.iter().any(|peer| peer.link.is_leaving()) {
            return;
        }
        let due = |number: &usize| {
            let peer = &self.peers[*number];
            let idle = !peer.link.is_made() || peer.send.held() + peer.expedited.held() == 0;
            idle && self.breaks_at(*number).is_some_and(|at| at <= now)
        };
        let Some(number) = (0..self.peers.len()).find(due) else {
            return;
        };
        // One that is kept for its peer alone stays, and so it is known that the peer does.
        let its = self.keeps && self.exclusive == Some(number);
        if its && self.peers[number].link.is_own_exclusive() {
            return self.call(number);
        }
        self.peers[number].link.break_off();
    }

    /// When a link is broken, if nothing more is sent by it.
    fn breaks_at(&self, number: usize) -> Option<Instant> {
        let link = &self.peers[number].link;
        let silent = self.silent_at;
        if let Some((again, passed)) = link.again_at() {
            // What others say in between takes nothing of the other end's chance to go on; but that
            // was there once so many turns of ours have come.
            return Some(match link.is_long() {
                true => again,
                false if passed >= self.turns_for_all() => self.free_since,
                false => again.max(silent),
            });
        }
        // What its owner has for it, and could offer only then, goes first: it is asked for at the
        // moment at which the station is told that it is free, however late that is. In a slot, a
        // break that began later would meet who has the next one.
        let offered = self.free_since + Duration::from_nanos(1);
        let idle = link.idle_at(self.settings.idle)?.max(offered);
        // One that keeps all others out isn't held open by what they say.
        if link.is_exclusive() {
            return Some(idle);
        }
        Some(idle.max(silent))
    }

    /// Makes outcomes of what is over.
    fn collect(&mut self, number: usize) {
        loop {
            let peer = &mut self.peers[number];
            let Some(done) = peer.send.poll().or_else(|| peer.expedited.poll()) else {
                break;
            };
            self.outcomes.push_back(Outcome {
                to: number,
                ticket: done.ticket,
                delivered: done.acked,
                began: done.began,
                sent: done.sent,
                left: done.left,
            });
        }
    }

    /// The next outcome of an offer.
    pub fn poll_outcome(&mut self) -> Option<Outcome<T>> {
        self.outcomes.pop_front()
    }

    /// The next C_PDU that came.
    pub fn poll_received(&mut self) -> Option<Received> {
        let (at, _) = self.received.front()?;
        if *at > self.now {
            return None;
        }
        let (_, received) = self.received.pop_front()?;
        Some(Received {
            // A stranger may have lost its place since.
            from: self.place_of(received.source),
            ..received
        })
    }

    /// When [`Station::advance`] is to be called.
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let told = self.received.front().map(|(at, _)| *at);
        let phase = match self.phase {
            Phase::Quiet(at) | Phase::Awaiting(at) | Phase::Hearing(at) => Some(at),
            Phase::Down => return told.filter(|at| *at > self.now),
            Phase::Free | Phase::Keyed => None,
        };
        let peers = self.peers.iter().enumerate().flat_map(|(number, peer)| {
            let calls_at = peer.link.calls_at();
            let breaks_at = self.breaks_at(number);
            [peer.rests_until, peer.paused_until, calls_at, breaks_at]
                .into_iter()
                .flatten()
        });
        let assembled = self
            .assembler
            .wake()
            .into_iter()
            .chain(self.of_strangers.wake());
        let later = peers.chain(assembled).chain(told);
        let later = later.chain(self.numbers_free_at());
        let later = later.filter(|at| *at > self.now);
        phase.into_iter().chain(later).min()
    }

    /// Whether a peer didn't answer calls and isn't called for a while.
    #[must_use]
    pub fn is_silent(&self, number: usize) -> bool {
        let peer = self.peers.get(number);
        peer.is_some_and(|peer| peer.paused_until.is_some() && peer.refusals == 0)
    }

    /// Whether a peer refused calls and isn't called for a while.
    #[must_use]
    pub fn is_refused(&self, number: usize) -> bool {
        let peer = self.peers.get(number);
        peer.is_some_and(|peer| peer.paused_until.is_some() && peer.refusals > 0)
    }

    /// Whether an offer of expedited data with ARQ to a peer would be taken.
    #[must_use]
    pub fn takes_expedited(&self, to: usize) -> bool {
        let Some(peer) = self.peers.get(to).filter(|_| self.serves(to)) else {
            return false;
        };
        let link = match peer.link.state {
            _ if self.settings.broadcast_only => false,
            _ if peer.link.wants_call(self.now) => self.phase == Phase::Free,
            State::Made { .. } | State::Calling { .. } => self.may_send(peer),
            State::Idle | State::Breaking { .. } => false,
        };
        self.has_turn(to) && link && peer.expedited.takes() && !peer.address.is_group()
    }

    /// Whether an offer to a peer would be taken, or would make the station call it.
    #[must_use]
    pub fn takes(&self, to: usize, arq: bool) -> bool {
        let Some(peer) = self.peers.get(to).filter(|_| self.serves(to)) else {
            return false;
        };
        let turn = self.has_turn(to);
        if !arq || peer.address.is_group() {
            let numbers = self.numbers_free_at().is_none();
            return turn && peer.outgoing.is_none() && numbers;
        }
        turn && match peer.link.state {
            _ if self.settings.broadcast_only => false,
            _ if peer.link.wants_call(self.now) => self.phase == Phase::Free,
            State::Made { .. } | State::Calling { .. } => self.may_send(peer) && peer.send.takes(),
            State::Idle | State::Breaking { .. } => false,
        }
    }

    /// When there are numbers for more data without ARQ, if not now.
    fn numbers_free_at(&self) -> Option<Instant> {
        let free_at = |it: &PlainNumbers| it.free_at(self.now);
        self.c_pdus.iter().filter_map(free_at).max()
    }

    /// Whether a transmission for the peer is under way that takes more, or could begin now.
    fn has_turn(&self, to: usize) -> bool {
        let waits = |peer: &Peer<T>| peer.paused_until.or(peer.rests_until).is_some();
        match (self.phase, &self.on_air) {
            (Phase::Keyed, Some(on_air)) => on_air.peer == to && self.is_open(on_air),
            (Phase::Free, _) => !self.peers.get(to).is_some_and(waits),
            _ => false,
        }
    }

    /// Whether data with ARQ may go to the peer.
    fn may_send(&self, peer: &Peer<T>) -> bool {
        let managed = peer.management.is_open() || peer.towards.is_changing();
        let free = peer.reset.open.is_none() && !managed;
        peer.link.carries() && free
    }

    /// Takes what [`Station::takes`] said yes to. Offers with ARQ need a link: [`Station::link`]
    /// sees to that.
    pub fn offer(&mut self, offer: Offer<T>) {
        if let Some(on_air) = &mut self.on_air {
            on_air.planned = on_air.planned.saturating_sub(offer.c_pdu.len());
        }
        let Some(peer) = self.peers.get_mut(offer.to) else {
            return;
        };
        if offer.expedited && offer.arq {
            peer.expedited.offer(offer.c_pdu, offer.ticket);
        } else if offer.arq && !peer.address.is_group() {
            peer.send
                .offer(offer.c_pdu, offer.in_order, offer.urgent, offer.ticket);
        } else {
            peer.outgoing = Some(Outgoing::new(offer));
        }
    }

    /// Gives up what a peer hasn't acknowledged, or what hasn't left without ARQ, and whose tickets
    /// are `such`.
    pub fn give_up(&mut self, to: usize, such: impl Fn(&T) -> bool) {
        let Some(peer) = self.peers.get_mut(to) else {
            return;
        };
        peer.send.give_up(&such);
        peer.expedited.give_up(&such);
        if let Some(outgoing) = &mut peer.outgoing
            && outgoing.ticket().is_some_and(such)
        {
            // Where only repeats are left, it has been sent.
            self.outcomes.extend(outgoing.over(to, outgoing.is_sent()));
        }
        self.end_given_up(to);
        self.collect(to);
    }

    /// Drops what goes to a peer without ARQ and was given up, unless some of it has left and the
    /// rest may follow: whether that comes too late, the other end decides.
    fn end_given_up(&mut self, to: usize) {
        let serves = self.serves(to);
        let outgoing = &mut self.peers[to].outgoing;
        outgoing.take_if(|it| it.ticket().is_none() && !(serves && it.has_begun()));
    }

    /// Sees that there is a link to a peer; `true` if there is one that data can go by now.
    pub fn link(&mut self, to: usize) -> bool {
        let now = self.now;
        if self.settings.broadcast_only || !self.serves(to) {
            return false;
        }
        self.link_given(now, to);
        match self.peers.get(to) {
            Some(peer) if peer.link.wants_call(now) => {
                if !self.ask_caller(to) {
                    self.call(to);
                }
                false
            }
            Some(peer) => peer.link.carries() && peer.reset.open.is_none(),
            None => false,
        }
    }

    /// Whether there is a link to a peer.
    #[must_use]
    pub fn is_linked(&self, to: usize) -> bool {
        self.peers.get(to).is_some_and(|peer| peer.link.is_kept())
    }

    /// Whether there is a link to a peer, which answered when it last was to.
    #[must_use]
    pub fn is_answered(&self, to: usize) -> bool {
        let peer = self.peers.get(to);
        peer.is_some_and(|peer| peer.link.is_made() && peer.unanswered == 0)
    }
}

#[cfg(test)]
#[path = "../station_tests.rs"]
mod tests;
