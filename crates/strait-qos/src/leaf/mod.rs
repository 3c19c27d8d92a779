//! Waiting packets of one class without classes below it, their order, and dropped ones.

mod codel;
pub mod config;
mod costs;
mod flows;
mod limits;
mod thin;
mod wred;

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use strait_core::chance::Stream;
use strait_core::fate::Origin;
use strait_core::rate::LineRate;
use strait_core::{ClassId, DropCause, Duration, Fate, Instant, NeighbourId, Packet, PortId};
use strait_wire::ip::TcpFlags;

pub use self::config::QueueConfig;
use self::config::{FqCodelConfig, SfqConfig};
pub use self::costs::Costs;
pub use self::limits::Limits;

use self::codel::Law;
use self::flows::{FlowKey, Flows, Hashing, Shares, Turn};
use self::wred::Wred;
use crate::policy::Class;
use crate::repeat::first_copy;
use crate::scheduler::{Eligibility, FLOWS_MAX, Head, Queued, Refusal};

/// Buckets of `kind = "fair"`: so many that flows share none by chance. A call would wait behind
/// all of a transfer, and one that yields gets nothing beside one that doesn't.
const FAIR_BUCKETS: u32 = u32::MAX;

/// Octets of a small packet of `kind = "fair"`: a request or a call's packet.
pub(crate) const FAIR_SMALL_OCTETS: u32 = 500;

/// The packets of a `fair` queue take so long on the line, or are so many of the longest packets. A
/// sender that waits for longer repeats ever more rarely, and loses all if the queue gives it up.
pub(crate) const FAIR_WAIT: Duration = Duration::from_secs(30);
const FAIR_PACKETS_LEAST: u64 = 8;

/// A class with an age below this is for packets in real time, of no use after the other side's
/// turn. Requests (for an echo, a name, a connection) have longer ages, and wait for its end.
const REAL_TIME: Duration = Duration::from_secs(5);

/// How many times its class's age a packet may wait in a `fair` queue: as many times as the least
/// content of the queue takes [`FAIR_WAIT`] on the line; otherwise packets would grow too old in
/// the queue of a very slow line. An age below that wait is the useful life of a packet, and stays.
fn fair_stretch(age: Duration, octets_most: u64, rate: LineRate, mtu_octets: u32) -> f64 {
    if age < FAIR_WAIT {
        return 1.0;
    }
    let held = (u64::from(mtu_octets) * FAIR_PACKETS_LEAST).min(octets_most);
    (rate.time_for(held).as_secs_f64() / FAIR_WAIT.as_secs_f64()).max(1.0)
}

/// A class's limit of age on a line. The time of an uninterruptible packet comes on top; otherwise
/// the next packet would be given up while an earlier one is being sent. So does a turn of the
/// other side, unless the class is for packets in real time. `fair` is the class's limit of octets,
/// if its queue is of that kind.
pub(crate) fn age_on(age: Duration, fair: Option<u64>, rate: LineRate, site: Site) -> Duration {
    let stretch = |octets| fair_stretch(age, octets, rate, site.mtu_octets);
    let uncut = rate.time_for(u64::from(site.unit_octets));
    let turn = if age < REAL_TIME {
        Duration::ZERO
    } else {
        site.turn
    };
    age.mul_f64(fair.map_or(1.0, stretch)) + uncut + turn
}

/// Packets that one overflow of `fq-codel` drops at most (Linux: `drop_batch`).
const BATCH_MAX: usize = 64;

/// Where a leaf stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Octets of the largest packet of the port.
    pub mtu_octets: u32,
    /// Octets that leave without interruption and take long enough to count: those of the largest
    /// packet if the link cuts none, else none.
    pub unit_octets: u32,
    /// How long the other side may have the line to itself at a time; zero where both send at once.
    pub turn: Duration,
    /// The seed of its random numbers.
    pub seed: u64,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            mtu_octets: 1500,
            unit_octets: 0,
            turn: Duration::ZERO,
            seed: 0,
        }
    }
}

/// The queue of a class: a queue for each neighbour that has packets here, or for each flow to a
/// neighbour if its kind separates them.
///
/// Fields that each packet needs come first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Leaf {
    queued: Queued,
    under_way: Option<(NeighbourId, u32)>,
    /// When the first of its packets grows too old, if that is known; never, without packets.
    soonest: Option<Instant>,
    flows: Flows,
    /// Given up for others, until its owner asks.
    discarded: VecDeque<Refusal>,
    kind: Kind,
    /// The age of its class at the line's rate.
    age: Option<Duration>,
    /// How long a packet that nothing interrupts takes on the line.
    uncut: Duration,
    /// The octets of its class's limits at the line's rate.
    line_octets: u64,
    limits: Limits,
    hashing: Hashing,
    absorbs_repeats: bool,
    thins_acks: bool,
    /// Its class's limits, as they are before its link.
    own: Limits,
    age_least: Option<Duration>,
    site: Site,
}

/// The differences of the kinds beyond turns.
#[derive(Debug)]
enum Kind {
    /// Packets without room are refused.
    Tail,
    /// Packets without room displace those of the flow that has the most.
    Fair,
    Sfq(Sfq),
    FqCodel(Box<(FqCodelConfig, Law)>),
    Wred(Box<Wred>),
}

#[derive(Debug)]
struct Sfq {
    depth: usize,
    head_drop: bool,
    perturbation: Option<Box<Perturbation>>,
}

/// Another salt now and then.
#[derive(Debug)]
struct Perturbation {
    every: Duration,
    due: Instant,
    salts: Stream,
}

impl Sfq {
    fn new(config: &SfqConfig, seed: u64) -> Self {
        Self {
            depth: config.depth as usize,
            head_drop: config.head_drop,
            perturbation: config.perturb.map(|every| {
                Box::new(Perturbation {
                    every: every.0,
                    due: Instant::ZERO + every.0,
                    salts: Stream::new(seed, "sfq"),
                })
            }),
        }
    }

    /// A new salt, if it is time for one.
    fn perturb(&mut self, now: Instant) -> Option<u64> {
        let perturbation = self.perturbation.as_mut()?;
        if now < perturbation.due {
            return None;
        }
        perturbation.due = now + perturbation.every;
        Some(perturbation.salts.draw())
    }
}

impl Leaf {
    pub(crate) fn new(class: &Class, site: Site) -> Self {
        let quantum = |octets: Option<strait_core::units::Octets>| {
            octets.map_or_else(
                || i64::from(site.mtu_octets.max(64)),
                |octets| octets.0 as i64,
            )
        };
        let (kind, buckets, flows) = match &class.queue {
            QueueConfig::Fifo(_) => (Kind::Tail, 1, Flows::new(Turn::Packet, FLOWS_MAX)),
            QueueConfig::Fair(_) => {
                let turn = Turn::Shares(Shares {
                    small_octets: FAIR_SMALL_OCTETS,
                    long_octets: site.mtu_octets,
                });
                (Kind::Fair, FAIR_BUCKETS, Flows::new(turn, FLOWS_MAX))
            }
            QueueConfig::Sfq(config) => {
                let turn = Turn::Octets(quantum(config.quantum));
                let flows = Flows::new(turn, config.flows as usize);
                (
                    Kind::Sfq(Sfq::new(config, site.seed)),
                    config.buckets,
                    flows,
                )
            }
            QueueConfig::FqCodel(config) => {
                let turn = Turn::NewFirst(quantum(config.quantum));
                let law = Law::new(config, None, site.mtu_octets);
                let kind = Kind::FqCodel(Box::new((config.clone(), law)));
                (kind, config.flows, Flows::new(turn, config.flows as usize))
            }
            QueueConfig::Wred(config) => {
                let wred = Box::new(Wred::new(config, site.seed));
                (Kind::Wred(wred), 1, Flows::new(Turn::Packet, FLOWS_MAX))
            }
        };
        // As it always was: pages and figures of the fair queue don't depend on a start.
        let salt = match kind {
            Kind::Sfq(_) | Kind::FqCodel(_) => site.seed,
            Kind::Tail | Kind::Fair | Kind::Wred(_) => 0,
        };
        Self {
            own: Limits::of(class),
            limits: Limits::of(class),
            line_octets: u64::MAX,
            age_least: class.age,
            age: class.age,
            uncut: Duration::ZERO,
            absorbs_repeats: class.queue.absorbs_repeats(),
            thins_acks: class.queue.thins_acks(),
            site,
            kind,
            hashing: Hashing { buckets, salt },
            flows,
            queued: Queued::default(),
            under_way: None,
            soonest: Some(Instant::NEVER),
            discarded: VecDeque::new(),
        }
    }

    /// The line's present rate: waiting times that are fine follow it.
    pub(crate) fn set_line_rate(&mut self, rate: LineRate) {
        let fair = matches!(self.kind, Kind::Fair).then_some(self.own.octets);
        let age = |least| age_on(least, fair, rate, self.site);
        self.age = self.age_least.map(age);
        self.uncut = rate.time_for(u64::from(self.site.unit_octets));
        match &mut self.kind {
            Kind::Tail | Kind::Sfq(_) => {}
            Kind::Fair => {
                let least = u64::from(self.site.mtu_octets) * FAIR_PACKETS_LEAST;
                self.line_octets = rate.octets_in(FAIR_WAIT).max(least);
            }
            Kind::FqCodel(codel) => {
                let (config, law) = &mut **codel;
                *law = Law::new(config, Some(rate), self.site.mtu_octets);
            }
            Kind::Wred(wred) => wred.set_line_rate(rate),
        }
    }

    /// The costs of octets for each neighbour: the neighbour of a flow counts in its share.
    pub(crate) fn set_costs(&mut self, costs: &Costs) {
        self.flows.set_costs(costs);
    }

    /// Octets that its link takes in a round trip: see [`Limits::over`].
    pub(crate) fn set_trip_octets(&mut self, octets: u64) {
        self.limits = self.own.over(octets);
    }

    fn octets_max(&self) -> u64 {
        self.line_octets.min(self.limits.octets)
    }

    /// See [`Scheduler::has_share`](crate::Scheduler::has_share). A flow is whose its first packet
    /// is.
    pub(crate) fn has_share(&self, (port, from): (PortId, NeighbourId)) -> bool {
        let own = |packet: &Packet| (packet.origin(), packet.from) == (Origin::Port(port), from);
        let (mut flows, mut flows_own, mut octets, mut octets_own) = (0, 0, 0, 0);
        for flow in self.flows.iter() {
            let Some(first) = flow.packets().front() else {
                continue;
            };
            let is_own = own(first);
            (flows, octets) = (flows + 1, octets + flow.octets());
            flows_own += u64::from(is_own);
            octets_own += if is_own { flow.octets() } else { 0 };
        }
        octets_own * flows >= octets * flows_own
    }

    pub(crate) const fn queued(&self) -> Queued {
        self.queued
    }

    pub(crate) const fn backlogged(&self) -> bool {
        self.queued.packets > 0 || self.under_way.is_some()
    }

    /// Whether it has packets that it gave up for others.
    pub(crate) fn gives_up(&self) -> bool {
        !self.discarded.is_empty()
    }

    /// Whether a packet of the class has begun to leave.
    pub(crate) const fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// The rest of it.
    pub(crate) const fn under_way_octets(&self) -> u64 {
        match self.under_way {
            Some((_, octets_left)) => octets_left as u64,
            None => 0,
        }
    }

    pub(crate) const fn set_under_way(&mut self, to: NeighbourId, octets_left: u32) {
        self.under_way = if octets_left > 0 {
            Some((to, octets_left))
        } else {
            None
        };
    }

    pub(crate) fn enqueue(&mut self, now: Instant, mut packet: Packet) -> Result<(), Refusal> {
        self.limit_age(&mut packet);
        if packet.expires <= now {
            return Err((packet, Fate::Dropped(DropCause::Aged)));
        }
        self.perturb(now);
        let key = self.hashing.key(&packet);
        let place = self.flows.find(key);
        let flow = place.and_then(|place| self.flows.flow_mut(place));
        if self.absorbs_repeats
            && let Some(flow) = flow
            && first_copy(&packet, flow.packets()).is_some()
        {
            flow.renew(&packet);
            self.soonest = None;
            return Err((packet, Fate::Absorbed));
        }
        // The average is over all that arrive, also over those that find the queue full.
        if let Kind::Wred(wred) = &mut self.kind
            && !wred.admits(now, self.queued.packets, &mut packet)
        {
            return Err((packet, Fate::Dropped(DropCause::Wred)));
        }
        if let Err(cause) = self.make_room(key, place, packet.octets() as u64) {
            return Err((packet, Fate::Dropped(cause)));
        }
        // The dropped packet may have been the last of its flow.
        let place = if self.discarded.is_empty() {
            place
        } else {
            self.flows.find(key)
        };
        if self.thins_acks {
            self.thin(place, &packet);
        }
        self.soonest = self.soonest.map(|at| at.min(packet.expires));
        self.queued.packets += 1;
        self.queued.octets += packet.octets() as u64;
        self.flows.push(key, place, packet);
        Ok(())
    }

    fn limit_age(&self, packet: &mut Packet) {
        if let Some(mut age) = self.age {
            // The next acknowledgement includes this one: a turn's worth of them isn't kept.
            let is_short = |least| (REAL_TIME..FAIR_WAIT).contains(&least);
            if packet.info().tcp_bare == Some(TcpFlags::ACK) && self.age_least.is_some_and(is_short)
            {
                age = age.saturating_sub(self.site.turn);
            }
            // The age of a packet from other links takes no account of a packet being sent here.
            let left = packet.expires + self.uncut;
            packet.expires = left.min(packet.began() + age);
        }
    }

    /// See [`Scheduler::renew`](crate::Scheduler::renew).
    pub(crate) fn renew(&mut self, repetition: &mut Packet) {
        self.limit_age(repetition);
        let place = self.flows.find(self.hashing.key(repetition));
        if let Some(flow) = place.and_then(|place| self.flows.flow_mut(place)) {
            flow.renew(repetition);
            self.soonest = None;
        }
    }

    fn perturb(&mut self, now: Instant) {
        let Kind::Sfq(sfq) = &mut self.kind else {
            return;
        };
        let Some(salt) = sfq.perturb(now) else {
            return;
        };
        self.hashing.salt = salt;
        for packet in self.flows.rehash(self.hashing) {
            self.uncount(&packet);
            self.discarded
                .push_back((packet, Fate::Dropped(DropCause::PushedOut)));
        }
    }

    /// Leaves out an acknowledgement that the packet to come makes superfluous.
    fn thin(&mut self, place: Option<usize>, packet: &Packet) {
        if let Some(place) = place
            && let Some(flow) = self.flows.flow(place)
            && let Some(index) = thin::superfluous(packet, flow.packets())
        {
            self.give_up(place, index, Fate::Absorbed);
        }
    }

    /// Ensures that another packet of so many octets fits, or returns why it can't.
    fn make_room(
        &mut self,
        key: FlowKey,
        place: Option<usize>,
        octets: u64,
    ) -> Result<(), DropCause> {
        if place.is_none() && !self.flows.has_room() {
            return Err(DropCause::QueuePackets);
        }
        if octets > self.octets_max() {
            return Err(DropCause::QueueOctets);
        }
        if let Kind::Sfq(Sfq {
            depth, head_drop, ..
        }) = self.kind
            && let Some(place) = place
            && self
                .flows
                .flow(place)
                .is_some_and(|flow| flow.packets().len() >= depth)
        {
            if !head_drop {
                return Err(DropCause::QueuePackets);
            }
            self.push_out(place, 0);
        }
        while let Some(cause) = self.lack(octets) {
            let made = match self.kind {
                Kind::Tail | Kind::Wred(_) => false,
                Kind::Fair => self.push_out_of_largest(key, octets),
                Kind::Sfq(Sfq { head_drop, .. }) => self.push_out_of_longest(key, head_drop),
                Kind::FqCodel(_) => self.push_out_of_fattest(key, octets),
            };
            if !made {
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Which limit another packet of so many octets would break.
    fn lack(&self, octets: u64) -> Option<DropCause> {
        let lacks = |limits: Limits| {
            if self.queued.packets >= limits.packets {
                Some(DropCause::QueuePackets)
            } else if self.queued.octets + octets > self.line_octets.min(limits.octets) {
                Some(DropCause::QueueOctets)
            } else {
                None
            }
        };
        lacks(self.limits)?;
        let flows = self.flows.iter().filter(|flow| !flow.packets().is_empty());
        lacks(self.limits.among(flows.count(), self.site.mtu_octets))
    }

    /// Drops the oldest packet of the flow with the most octets, the newcomer counted to its own:
    /// else flows that never yield would keep all the room, and their turn would be all the time.
    /// The sender of the oldest packet hears of it first. Octets count as the flow's first packet
    /// does.
    fn push_out_of_largest(&mut self, newcomer: FlowKey, octets: u64) -> bool {
        let size = |flow: &flows::Flow| {
            let own = if flow.key == newcomer { octets } else { 0 };
            let burden = flow.packets().front().map_or(1, flows::burden);
            (flow.octets() + own) * burden
        };
        let sizes = self.flows.iter().map(size).enumerate();
        let largest = sizes.max_by_key(|(_, size)| *size);
        largest.is_some_and(|(place, size)| size > octets && self.push_out(place, 0))
    }

    /// Drops a packet of the flow with the most packets, unless that is the newcomer, at the end
    /// of its flow.
    fn push_out_of_longest(&mut self, newcomer: FlowKey, head_drop: bool) -> bool {
        let own = self.flows.find(newcomer);
        let length = |flow: &flows::Flow| flow.packets().len();
        let packets = |place| self.flows.flow(place).map_or(0, length);
        let lengths = self.flows.iter().map(length).enumerate();
        let Some((place, longest)) = lengths.max_by_key(|(_, packets)| *packets) else {
            return false;
        };
        if longest > own.map_or(0, packets) + 1 {
            return self.push_out(place, if head_drop { 0 } else { longest - 1 });
        }
        head_drop && own.is_some_and(|own| self.push_out(own, 0))
    }

    /// Drops half the octets of the flow with the most, from its head, at most [`BATCH_MAX`]
    /// packets. The newcomer counts to its flow, but goes in.
    fn push_out_of_fattest(&mut self, newcomer: FlowKey, octets: u64) -> bool {
        let size = |flow: &flows::Flow| {
            let own = if flow.key == newcomer { octets } else { 0 };
            flow.octets() + own
        };
        let sizes = self.flows.iter().map(size).enumerate();
        let Some((place, size)) = sizes.max_by_key(|(_, size)| *size) else {
            return false;
        };
        let waiting = |leaf: &Self| leaf.flows.flow(place).map_or(0, flows::Flow::octets);
        let before = waiting(self);
        if before == 0 || size < octets {
            return false;
        }
        for _ in 0..BATCH_MAX {
            self.push_out(place, 0);
            let left = waiting(self);
            if left == 0 || (before - left) * 2 >= size {
                break;
            }
        }
        true
    }

    fn push_out(&mut self, place: usize, index: usize) -> bool {
        self.give_up(place, index, Fate::Dropped(DropCause::PushedOut))
    }

    /// Takes a packet out for good.
    fn give_up(&mut self, place: usize, index: usize, fate: Fate) -> bool {
        let Some(packet) = self.remove(place, index) else {
            return false;
        };
        self.discarded.push_back((packet, fate));
        true
    }

    pub(crate) fn head(&self, class: ClassId, eligible: &dyn Eligibility) -> Option<Head> {
        if let Some((to, octets)) = self.under_way {
            return eligible
                .eligible(to, class)
                .then_some(Head { class, to, octets });
        }
        let place = self.flows.first(|to| eligible.eligible(to, class))?;
        let flow = self.flows.flow(place)?;
        Some(Head {
            class,
            to: flow.key.to,
            octets: flow.packets().front()?.info().octets,
        })
    }

    /// The packet that goes first to a neighbour.
    pub(crate) fn front(&self, to: NeighbourId) -> Option<&Packet> {
        let place = self.flows.first(|other| other == to)?;
        self.flows.flow(place)?.packets().front()
    }

    /// Takes the packet that `head` named, and lets the other flows have their turns.
    pub(crate) fn take(&mut self, now: Instant, head: Head) -> Option<Packet> {
        if self.under_way.is_some() {
            return None;
        }
        let place = self.flows.first(|to| to == head.to)?;
        let first = self.flows.flow(place)?.packets().front()?;
        if first.info().octets != head.octets || first.expires <= now {
            return None;
        }
        if matches!(self.kind, Kind::FqCodel(_)) && self.condemn(now, place) {
            return None;
        }
        let packet = self.flows.serve(place)?;
        self.uncount(&packet);
        self.rest(now);
        Some(packet)
    }

    /// Drops the packets that the flow's `CoDel` condemns, and says whether it did. The packet in
    /// front has then been judged: it goes at the next request.
    fn condemn(&mut self, now: Instant, place: usize) -> bool {
        let Kind::FqCodel(codel) = &self.kind else {
            return false;
        };
        let (ecn, law) = (codel.0.ecn, codel.1);
        let mut dropped = false;
        loop {
            let flow = self.flows.flow_mut(place);
            let Some(waiting) = flow.and_then(|flow| flow.waiting.as_mut()) else {
                return dropped;
            };
            if !dropped && waiting.codel.take_pass() {
                return false;
            }
            let Some(first) = waiting.packets.front_mut() else {
                return dropped;
            };
            let waited = now.since(first.began());
            let left = waiting.octets - first.octets() as u64;
            let condemned = waiting.codel.condemns(&law, now, waited, left);
            if !condemned || ecn && first.mark_congestion() {
                if dropped {
                    waiting.codel.pass();
                }
                return dropped;
            }
            dropped |= self.give_up(place, 0, Fate::Dropped(DropCause::Codel));
        }
    }

    /// Takes out any packet that isn't to go any more.
    pub(crate) fn discard(&mut self, now: Instant) -> Option<Refusal> {
        if let Some(refusal) = self.discarded.pop_front() {
            return Some(refusal);
        }
        if self.soonest.is_some_and(|at| now < at) {
            return None;
        }
        let old = |(place, flow): (usize, &flows::Flow)| {
            let (index, expires) = flow.soonest()?;
            (expires <= now).then_some((place, index))
        };
        let (place, index) = self.flows.iter().enumerate().find_map(old)?;
        let packet = self.remove(place, index)?;
        self.rest(now);
        Some((packet, Fate::Dropped(DropCause::Aged)))
    }

    pub(crate) fn wake(&self) -> Option<Instant> {
        let soonest = self.soonest.or_else(|| self.search_soonest());
        soonest.filter(|expires| *expires < Instant::NEVER)
    }

    /// When the first of its packets grows too old.
    fn search_soonest(&self) -> Option<Instant> {
        let flows = self.flows.iter().filter_map(flows::Flow::soonest);
        flows.map(|(_, expires)| expires).min()
    }

    pub(crate) fn drain(&mut self) -> Option<Packet> {
        if let Some((packet, _)) = self.discarded.pop_front() {
            return Some(packet);
        }
        let place = self
            .flows
            .iter()
            .position(|flow| !flow.packets().is_empty())?;
        self.remove(place, 0)
    }

    pub(crate) fn drain_to(&mut self, now: Instant, to: NeighbourId) -> Option<Packet> {
        let waits = |flow: &flows::Flow| flow.key.to == to && !flow.packets().is_empty();
        let place = self.flows.iter().position(waits)?;
        let packet = self.remove(place, 0)?;
        self.rest(now);
        Some(packet)
    }

    fn remove(&mut self, place: usize, index: usize) -> Option<Packet> {
        let packet = self.flows.remove(place, index)?;
        self.uncount(&packet);
        Some(packet)
    }

    fn uncount(&mut self, packet: &Packet) {
        self.queued.packets -= 1;
        self.queued.octets -= packet.octets() as u64;
        if self.queued.packets == 0 {
            self.soonest = Some(Instant::NEVER);
        } else {
            self.soonest = self.soonest.filter(|at| *at < packet.expires);
        }
    }

    /// Takes note if nothing waits any more.
    fn rest(&mut self, now: Instant) {
        if let Kind::Wred(wred) = &mut self.kind
            && self.queued.packets == 0
        {
            wred.rest(now);
        }
    }

    /// Asserts the conditions that hold between calls.
    pub(crate) fn check(&self, class: ClassId) {
        self.flows.check(self.hashing);
        let mut sum = Queued::default();
        for packet in self.flows.iter().flat_map(flows::Flow::packets) {
            assert_eq!(packet.class, class, "in its place");
            sum.packets += 1;
            sum.octets += packet.octets() as u64;
        }
        assert_eq!(sum, self.queued, "the counters are the sums");
        let soonest = self.search_soonest().unwrap_or(Instant::NEVER);
        assert!(
            self.soonest.is_none_or(|at| at == soonest),
            "known as it is"
        );
        // No waiting packet is given up because a link has become shorter.
        let most = self.own.most();
        assert!(
            sum.packets <= most.packets && sum.octets <= most.octets,
            "within limits"
        );
    }
}

#[cfg(test)]
#[path = "leaf_tests.rs"]
mod tests;
