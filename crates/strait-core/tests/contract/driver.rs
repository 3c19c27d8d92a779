//! A driver in virtual time: the least that keeps the driver's side of the contract.

use std::collections::VecDeque;

use strait_core::drive::{self, Media};
use strait_core::hash::RunHash;
use strait_core::node::{Boot, FrameMeta, NodeFactory, PortEvent, PortState};
use strait_core::rate::LineRate;
use strait_core::time::Duration;
use strait_core::{
    DropCause, Effect, Fate, FateRecord, Input, Instant, NeighbourId, Neighbours, Node, PortId,
    Room, TxMeta,
};

use crate::medium::{Agenda, Medium, What};
use crate::parts::{LINK, read};

const PORTS: u8 = 2;
/// A node with what belongs to it but isn't in it.
struct Slot {
    factory: Box<dyn NodeFactory>,
    node: Option<Box<dyn Node>>,
    incarnation: u32,
    /// Frames that the node doesn't read yet, by port.
    waiting: [VecDeque<(NeighbourId, Vec<u8>)>; PORTS as usize],
    /// A wake-up that waits for room, not for time.
    muted: bool,
    /// Fates of this incarnation.
    fates: u64,
}

/// A packet that reached the host side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) at: Instant,
    pub(crate) node: usize,
    pub(crate) port: u16,
    pub(crate) number: u32,
}

/// What happened.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) hash: RunHash,
    pub(crate) delivered: Vec<Delivery>,
    pub(crate) fates: Vec<(usize, FateRecord)>,
    /// What pulls from the link ports gave.
    pub(crate) pulls: Vec<Vec<u8>>,
    /// Packets that ended with a node, by node.
    pub(crate) crashed: Vec<u64>,
    /// The most frames that waited for a node to read its host port.
    pub(crate) waiting_max: usize,
}

impl Log {
    /// Numbers of the messages that reached the host side of `node`, in order.
    pub(crate) fn numbers(&self, node: usize, port: u16) -> Vec<u32> {
        let here = |seen: &&Delivery| seen.node == node && seen.port == port;
        self.delivered
            .iter()
            .filter(here)
            .map(|seen| seen.number)
            .collect()
    }

    pub(crate) fn dropped(&self, node: usize, cause: DropCause) -> u64 {
        self.count(node, |fate| fate == Fate::Dropped(cause))
    }

    pub(crate) fn forwarded(&self, node: usize) -> u64 {
        self.count(node, |fate| matches!(fate, Fate::Forwarded { .. }))
    }

    pub(crate) fn count(&self, node: usize, matches: impl Fn(Fate) -> bool) -> u64 {
        let ends = self.fates.iter();
        ends.filter(|(at, record)| *at == node && matches(record.fate))
            .count() as u64
    }
}

/// The hands of the driver while it settles one node.
struct Hands<'a, M> {
    node: usize,
    medium: &'a mut M,
    agenda: &'a mut Agenda,
    log: &'a mut Log,
    fates: &'a mut u64,
    /// Anything at all was done.
    busy: bool,
}

impl<M: Medium> Media for Hands<'_, M> {
    fn room(&mut self, now: Instant, port: PortId) -> Option<Room> {
        if port == PortId::HOST {
            return Some(Room {
                octets: usize::from(u16::MAX),
                starts: now,
                until: None,
                to: Neighbours::ALL,
            });
        }
        let room = self.medium.room(now, self.node, self.agenda);
        assert!(room.is_none_or(|room| room.starts >= now));
        room
    }

    fn transmit(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        meta: TxMeta,
        frame: &mut Vec<u8>,
    ) {
        self.busy = true;
        let hash = &mut self.log.hash;
        hash.fold(now.as_nanos());
        hash.fold(self.node as u64 | u64::from(port.0) << 8);
        hash.fold_bytes(frame);
        let node = self.node;
        if port == PortId::HOST {
            let (port, number) = read(frame).expect("only whole messages reach a host");
            self.log.delivered.push(Delivery {
                at: now,
                node,
                port,
                number,
            });
            return;
        }
        self.log.pulls.push(frame.clone());
        self.medium
            .transmit(now, node, room, meta, frame, self.agenda);
    }

    fn effect(&mut self, _: Instant, effect: Effect) {
        self.busy = true;
        match effect {
            Effect::Fate(record) => {
                let hash = &mut self.log.hash;
                hash.fold(record.digest);
                hash.fold(record.ended.as_nanos());
                hash.fold(record.fate.code());
                let whole = record.ended.since(record.began);
                assert_eq!(u128::from(record.parts.total_ns()), whole.as_nanos());
                *self.fates += 1;
                self.log.fates.push((self.node, record));
            }
            Effect::Store { .. }
            | Effect::Load { .. }
            | Effect::Stream { .. }
            | Effect::Socket { .. }
            | Effect::Datagram { .. }
            | Effect::Work { .. }
            | Effect::Route { .. } => {}
        }
    }
}

/// How the driver treats its nodes beyond what is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manners {
    /// Repeats each [`Input::Timeout`] and sends early ones, which must do nothing at all; offers
    /// rooms of no octets.
    pub(crate) pester: bool,
    /// How late each [`Input::Timeout`] comes.
    pub(crate) late: Duration,
}

/// All nodes of a test on one medium.
pub(crate) struct World<M> {
    pub(crate) medium: M,
    pub(crate) log: Log,
    pub(crate) manners: Manners,
    agenda: Agenda,
    slots: Vec<Slot>,
    now: Instant,
    seed: u64,
    scratch: Vec<u8>,
}

impl<M: Medium> World<M> {
    /// A world whose nodes are all up.
    pub(crate) fn new(seed: u64, medium: M, factories: Vec<Box<dyn NodeFactory>>) -> Self {
        let slots: Vec<Slot> = factories.into_iter().map(Slot::new).collect();
        let mut world = Self {
            medium,
            log: Log {
                crashed: vec![0; slots.len()],
                ..Log::default()
            },
            manners: Manners::default(),
            agenda: Agenda::default(),
            slots,
            now: Instant::ZERO,
            seed,
            scratch: Vec::new(),
        };
        for node in 0..world.slots.len() {
            world.agenda.plan(Instant::ZERO, What::Restart { node });
        }
        world
    }

    pub(crate) fn plan(&mut self, at: Instant, what: What) {
        self.agenda.plan(at, what);
    }

    /// An application behind `node` sends `bytes` at `at`.
    pub(crate) fn offer(&mut self, at: Instant, node: usize, bytes: Vec<u8>) {
        self.plan(at, What::Offer { node, bytes });
    }

    /// Kills `node` at `at` and starts it again `pause` later.
    pub(crate) fn kill(&mut self, at: Instant, node: usize, pause: Duration) {
        self.plan(at, What::Kill { node });
        self.plan(at + pause, What::Restart { node });
    }

    pub(crate) fn rate(&mut self, at: Instant, rate: LineRate) {
        self.plan(at, What::Rate(rate));
    }

    pub(crate) fn node(&self, node: usize) -> Option<&dyn Node> {
        self.slots[node].node.as_deref()
    }

    pub(crate) fn held(&self, node: usize) -> u64 {
        self.node(node).map_or(0, |node| node.stats().held())
    }

    /// Runs everything planned up to and including `until`.
    pub(crate) fn run_until(&mut self, until: Instant) {
        loop {
            let event = self.agenda.next_at().filter(|at| *at <= until);
            let wake = self.next_wake().filter(|(at, _)| *at <= until);
            match (event, wake) {
                (None, None) => break,
                // Of things at one moment, planned ones come first.
                (Some(at), wake) if wake.is_none_or(|(wake, _)| at <= wake) => {
                    self.now = at;
                    let what = self.agenda.pop().expect("an event is planned");
                    self.happen(what);
                }
                (_, Some((at, node))) => {
                    self.now = at;
                    self.wake(node);
                }
                (Some(_), None) => unreachable!("taken by the second arm"),
            }
        }
        self.now = until;
        for node in 0..self.slots.len() {
            self.balance(node);
        }
    }

    /// The next node to be woken; never in the past.
    fn next_wake(&self) -> Option<(Instant, usize)> {
        let wakes = self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let wake = slot.node.as_ref().filter(|_| !slot.muted)?.wake()?;
            Some(((wake.at + self.manners.late).max(self.now), index))
        });
        wakes.min()
    }

    fn wake(&mut self, node: usize) {
        self.feed(node, Input::Timeout);
        if self.manners.pester {
            self.feed(node, Input::Timeout);
        }
        let now = self.now;
        let slot = &mut self.slots[node];
        let Some(body) = slot.node.as_deref() else {
            return;
        };
        let Some(wake) = body.wake().filter(|wake| wake.at <= now) else {
            return;
        };
        let wants = body.wants(LINK).is_some();
        let full = wants && self.medium.room(now, node, &mut self.agenda).is_none();
        assert!(
            full,
            "node {node} wants to be woken again at once: {wake:?}"
        );
        slot.muted = true;
    }

    fn happen(&mut self, what: What) {
        match what {
            What::Offer { node, bytes } => {
                let waiting = &mut self.slots[node].waiting[PortId::HOST.index()];
                waiting.push_back((NeighbourId::PEER, bytes));
                self.settle(node);
                let waiting = &self.slots[node].waiting[PortId::HOST.index()];
                self.log.waiting_max = self.log.waiting_max.max(waiting.len());
            }
            What::Arrive { node, from, bytes } => {
                if self.slots[node].node.is_some() {
                    self.slots[node].waiting[LINK.index()].push_back((from, bytes));
                    self.settle(node);
                }
            }
            What::TxDone { node, id, ok } => {
                let port = LINK;
                let to = NeighbourId::PEER;
                let ok = Some(ok);
                self.feed(node, Input::TxDone { port, id, to, ok });
            }
            What::Room { node } => self.settle(node),
            What::Medium(mark) => self.medium.happen(self.now, mark, &mut self.agenda),
            What::Kill { node } => self.kill_now(node),
            What::Restart { node } => self.start(node),
            What::Rate(rate) => self.change(rate),
        }
    }

    fn change(&mut self, rate: LineRate) {
        self.medium.set_rate(self.now, rate);
        for node in 0..self.slots.len() {
            let event = PortEvent::Changed(self.medium.state());
            self.feed(node, Input::Port { port: LINK, event });
        }
    }

    fn start(&mut self, node: usize) {
        let slot = &mut self.slots[node];
        assert!(slot.node.is_none(), "node {node} runs");
        let boot = Boot {
            incarnation: slot.incarnation,
            entropy: self.seed,
            wall: None,
            stored: Vec::new(),
        };
        slot.node = Some(slot.factory.boot(boot));
        slot.incarnation += 1;
        slot.fates = 0;
        self.medium.join(node);
        let link: PortState = self.medium.state();
        for port in [PortId::HOST, LINK] {
            let event = PortEvent::Up(link);
            self.feed(node, Input::Port { port, event });
        }
        if self.medium.carrier(node) {
            let event = PortEvent::Carrier(true);
            self.feed(node, Input::Port { port: LINK, event });
        }
    }

    fn kill_now(&mut self, node: usize) {
        self.balance(node);
        self.log.crashed[node] += self.held(node);
        let slot = &mut self.slots[node];
        slot.node = None;
        slot.muted = false;
        slot.waiting[LINK.index()].clear();
        // What was meant for this incarnation must not reach the next.
        self.agenda.forget(|_, what| match what {
            What::TxDone { node: to, .. } | What::Room { node: to } => *to == node,
            _ => false,
        });
        self.medium.cut(self.now, node, &mut self.agenda);
    }

    /// Every packet that a node took in or made has ended once, or is held.
    fn balance(&self, node: usize) {
        let slot = &self.slots[node];
        let Some(body) = &slot.node else { return };
        body.check();
        let stats = body.stats();
        assert_eq!(
            stats.admitted + stats.originated,
            slot.fates + stats.held(),
            "the account of node {node}"
        );
    }

    fn feed(&mut self, node: usize, input: Input<'_>) {
        let Some(body) = &mut self.slots[node].node else {
            return;
        };
        body.handle(self.now, input);
        self.settle(node);
    }

    /// Settles a node and gives it what waited, until nothing is left to do.
    fn settle(&mut self, node: usize) {
        if self.slots[node].node.is_none() {
            return;
        }
        self.slots[node].muted = false;
        loop {
            self.settle_once(node);
            if !self.give_waiting(node) {
                break;
            }
        }
        if self.manners.pester {
            self.pester(node);
        }
        let Some(body) = &self.slots[node].node else {
            return;
        };
        body.check();
        let want = body.wants(LINK);
        self.medium.wanted(self.now, node, want, &mut self.agenda);
    }

    /// Whether the node did anything.
    fn settle_once(&mut self, node: usize) -> bool {
        let slot = &mut self.slots[node];
        let Some(body) = slot.node.as_deref_mut() else {
            return false;
        };
        let mut hands = Hands {
            node,
            medium: &mut self.medium,
            agenda: &mut self.agenda,
            log: &mut self.log,
            fates: &mut slot.fates,
            busy: false,
        };
        drive::settle(body, &mut hands, self.now, PORTS, &mut self.scratch);
        hands.busy
    }

    /// Gives the node the first frame that waits at a port that it reads.
    fn give_waiting(&mut self, node: usize) -> bool {
        let slot = &mut self.slots[node];
        let Some(body) = &mut slot.node else {
            return false;
        };
        for port in [PortId::HOST, LINK] {
            if slot.waiting[port.index()].is_empty() || !body.reads(port) {
                continue;
            }
            if let Some((from, bytes)) = slot.waiting[port.index()].pop_front() {
                let input = Input::Frame {
                    port,
                    from,
                    bytes: &bytes,
                    meta: FrameMeta::default(),
                };
                body.handle(self.now, input);
                return true;
            }
        }
        false
    }

    /// Early time-outs and rooms of no octets: a node at rest stays at rest.
    fn pester(&mut self, node: usize) {
        let now = self.now;
        let Some(body) = &mut self.slots[node].node else {
            return;
        };
        let nothing = Room {
            octets: 0,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        };
        let mut out = Vec::new();
        for port in [PortId::HOST, LINK] {
            assert_eq!(body.poll_transmit(now, port, nothing, &mut out), None);
            assert!(out.is_empty());
        }
        if body.wake().is_some_and(|wake| wake.at <= now) {
            return;
        }
        let before = body.wake();
        for _ in 0..3 {
            body.handle(now, Input::Timeout);
        }
        assert_eq!(body.wake(), before, "an early time-out moved a deadline");
        assert!(!self.settle_once(node), "an early time-out did something");
    }
}

impl Slot {
    fn new(factory: Box<dyn NodeFactory>) -> Self {
        Self {
            factory,
            node: None,
            incarnation: 0,
            waiting: [VecDeque::new(), VecDeque::new()],
            muted: false,
            fates: 0,
        }
    }
}

/// Proves for the run that `run` makes of a seed what every medium has to show: equal hashes for
/// equal seeds, whether or not the driver pesters its nodes; another hash for another seed; and
/// that late time-outs break nothing.
pub(crate) fn prove_run<M: Medium>(run: impl Fn(u64, Manners) -> World<M>) {
    let plain = Manners::default();
    let hash = |seed, manners| run(seed, manners).log.hash.value();
    let first = hash(1, plain);
    assert_eq!(first, hash(1, plain));
    let pester = Manners {
        pester: true,
        ..plain
    };
    assert_eq!(first, hash(1, pester), "a pestered run differs");
    let others: Vec<u64> = (2..6).map(|seed| hash(seed, plain)).collect();
    assert!(!others.contains(&first), "another seed gives the same run");
    for ms in [1, 70] {
        let late = Duration::from_millis(ms);
        run(1, Manners { late, ..plain });
    }
}
