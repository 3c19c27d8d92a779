//! The simulated world: nodes, the links between them, and the order in which things happen.

use std::collections::{BTreeMap, BTreeSet};

use strait_channel::{LinkConfig, PathId};
use strait_core::chance::Stream;
use strait_core::drive::{Media, settle};
use strait_core::fate::Memory;
use strait_core::hash::RunHash;
use strait_core::keys::KeyError;
use strait_core::node::{Boot, FrameMeta, NodeFactory, RouteChange, StoreError, Ticket, WallTime};
use strait_core::stats::Stats;
use strait_core::storage::{Answer, Asked};
use strait_core::work::Work;
use strait_core::{
    Duration, Effect, Fate, Input, Instant, NeighbourId, Neighbours, Node, PortId, Room, TxMeta,
};
use strait_hosts::Host;
use strait_scenario::StorageEntry;

use crate::capture::Captures;
use crate::check::FateEntry;
use crate::event::{Event, EventQueue, What};
use crate::few::Few;
use crate::host_table::{HostTable, TableChange};
use crate::kernel::Kernel;
use crate::path::PathBook;
use crate::router::Router;
use crate::segment::Segment;
use crate::store::Store;
use crate::workshop::Workshop;

mod captures;
mod device;
mod envelope;
mod faults;
mod media;
mod repeats;
mod routes;
mod streams;
mod view;

pub use self::view::delivered;
pub(crate) use device::Device;
pub(crate) use envelope::{Envelope, EnvelopeKind};
use media::{Attached, Flight, Shared};
use streams::Streams;

/// A node of the world, by its number in the order of construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIndex(pub usize);

/// A link of the world, by its number in the order of construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkIndex(pub usize);

/// What a node is. Hosts are reached into for their measurements, gateways can be restarted.
enum Body {
    Host(Box<Host>),
    Router(Box<Router>),
    Segment(Box<Segment>),
    Kernel(Box<Kernel>),
    Gateway {
        node: Box<dyn Node>,
        factory: Box<dyn NodeFactory>,
    },
    /// Killed, and not started again.
    Dead {
        factory: Option<Box<dyn NodeFactory>>,
    },
}

impl Body {
    fn node(&self) -> Option<&dyn Node> {
        match self {
            Self::Host(host) => Some(host.as_ref()),
            Self::Router(router) => Some(router.as_ref()),
            Self::Segment(segment) => Some(segment.as_ref()),
            Self::Kernel(kernel) => Some(kernel.as_ref()),
            Self::Gateway { node, .. } => Some(node.as_ref()),
            Self::Dead { .. } => None,
        }
    }

    fn node_mut(&mut self) -> Option<&mut dyn Node> {
        match self {
            Self::Host(host) => Some(host.as_mut()),
            Self::Router(router) => Some(router.as_mut()),
            Self::Segment(segment) => Some(segment.as_mut()),
            Self::Kernel(kernel) => Some(kernel.as_mut()),
            Self::Gateway { node, .. } => Some(node.as_mut()),
            Self::Dead { .. } => None,
        }
    }
}

/// A port and the media that it is attached to: none, one, or one for each neighbour. What each
/// frame meets comes first, in a line of the processor's cache.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
struct Port {
    attached: Few<Attached>,
    envelopes: Option<Box<Envelopes>>,
    /// Each medium has a transmitter of its own.
    apart: bool,
    /// Its node was told that it is up.
    up: bool,
    device: Device,
    /// The moment for which a [`What::Room`] is planned.
    room_at: Option<Instant>,
    /// The links that end here, by their numbers.
    links: Vec<usize>,
}

/// By neighbour, the packets that a port's frames go in.
type Envelopes = BTreeMap<NeighbourId, Envelope>;

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attach {
    /// The node.
    pub node: NodeIndex,
    /// Its port.
    pub port: PortId,
    /// The other end's number among the port's neighbours.
    pub neighbour: NeighbourId,
}

/// A node with all that its driver knows of it. What each event meets comes first.
#[repr(C, align(64))]
struct Slot {
    body: Body,
    ports: Vec<Port>,
    /// The moment for which a [`What::Wake`] is planned.
    wake_at: Option<Instant>,
    incarnation: u32,
    store: Box<Store>,
    workshop: Box<Workshop>,
    /// Of the node's host.
    table: Box<HostTable>,
    /// That host's own node, where it has other ways.
    machine: Option<usize>,
    name: String,
    /// By how much its host's clock goes ahead.
    ahead: Duration,
    /// Counters of incarnations that ended.
    past: Vec<Stats>,
    /// Packets that incarnations held when they were killed.
    crashed: u64,
    /// When its routes changed.
    rerouted: BTreeSet<Instant>,
}

/// Two ports, and the path between them.
struct Link {
    name: String,
    medium: usize,
    path: PathId,
    ends: [Attach; 2],
    config: LinkConfig,
}

/// Something that goes wrong on purpose.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The node ends without warning, as by kill -9 or a power failure.
    Kill(NodeIndex),
    /// A killed node starts again.
    Restart(NodeIndex),
    /// The medium of a link is gone, as its ends see where they can. A port with other links stays
    /// up without this neighbour. What is on its way still arrives.
    Unplug(LinkIndex),
    /// The medium of a link is back.
    Plug(LinkIndex),
    /// The routing table of a node's host changes.
    Reroute(NodeIndex, RouteChange),
    /// Somebody else changes that table, as far as the node leads its host by it.
    HostTable(NodeIndex, TableChange),
    /// Whatever a node asks of its storage fails so from now on, or no more.
    Storage(NodeIndex, Option<StoreError>),
    /// A node's host sets its clock so far forward.
    Clock(NodeIndex, Duration),
}

/// The simulated world.
pub struct World {
    slots: Vec<Slot>,
    fabric: Fabric,
    faults: Vec<Fault>,
    /// Ports that repeat what they send until it has come.
    repeating: BTreeSet<(NodeIndex, PortId)>,
    /// Ports whose packets go by stations of others.
    by_stations: Vec<[Attach; 2]>,
    /// Frames of some port go in packets: else no arrival looks for it.
    has_envelopes: bool,
    scratch: Vec<u8>,
    /// What one gateway after the other works with, and who has it.
    memory: Memory,
    lent_to: Option<usize>,
    /// Inputs between two calls of every node's [`Node::check`].
    check_every: u64,
    inputs: u64,
    started: bool,
}

/// Everything but the nodes: what a node's driver needs while the node is borrowed.
struct Fabric {
    now: Instant,
    events: EventQueue,
    links: Vec<Link>,
    media: Vec<Shared>,
    streams: Streams,
    flight: Flight,
    hash: RunHash,
    paths: Option<PathBook>,
    captures: Option<Captures>,
    /// Every fate so far, if they are kept.
    fates: Option<Vec<FateEntry>>,
    /// Frames that came to a node that was dead, or were none of its ports'.
    missed: u64,
    hops: u64,
    seed: u64,
}

/// A node's driver while it settles.
struct Driver<'a> {
    fabric: &'a mut Fabric,
    node: usize,
    incarnation: u32,
    ports: &'a mut [Port],
    store: &'a mut Store,
    /// What the driver has to tell the node after it has settled.
    answers: Vec<Effect>,
    /// What storage has no room for.
    refused: Vec<(Ticket, Answer)>,
}

impl Driver<'_> {
    /// Asks storage for something.
    fn ask(&mut self, now: Instant, ticket: Ticket, asked: Asked) {
        self.fabric.hash.fold(ticket.n);
        match self.store.ask(now, ticket, asked) {
            Ok(Some((group, at))) => {
                let what = What::Stored { group };
                self.fabric.events.push(at, self.node, what);
            }
            Ok(None) => {}
            Err(answer) => self.refused.push((ticket, answer)),
        }
    }

    /// Room of a port with one medium.
    fn lone_room(&mut self, now: Instant, id: PortId, at: Attached) -> Option<Room> {
        let medium = &mut self.fabric.media[at.medium()].medium;
        match medium.room(now, at.station) {
            Ok(room) => {
                let around = self.ports[id.index()].envelope_octets();
                Some(Room {
                    octets: room.octets.saturating_sub(around),
                    to: Neighbours::ALL,
                    ..room
                })
            }
            Err(until) => {
                if let Some(at) = until.filter(|at| *at < Instant::NEVER) {
                    self.plan_room(id, at);
                }
                None
            }
        }
    }

    /// Plans to ask a port for room, unless that is planned for before.
    fn plan_room(&mut self, id: PortId, at: Instant) {
        let now = self.fabric.now;
        let planned = &mut self.ports[id.index()].room_at;
        if planned.is_none_or(|planned| planned > at || planned <= now) {
            *planned = Some(at);
            let what = What::Room { port: id };
            self.fabric.events.push(at, self.node, what);
        }
    }
}

/// Whoever asks a half-duplex line for room and gets none has the next turn on it, and a port with
/// a way to each neighbour asks all of its lines, also those for which it has nothing.
const NO_TURNS: KeyError = KeyError::new(
    "half_duplex",
    "its port's neighbours have rates of their own: give each a port, or one `rate` to the port",
);

impl Media for Driver<'_> {
    /// A port with several media has one transmitter, and room when all of them have; or one for
    /// each, and room for whom one leads to that has.
    fn room(&mut self, now: Instant, id: PortId) -> Option<Room> {
        let port = &self.ports[id.index()];
        if let [at] = port.attached[..]
            && !port.apart
        {
            return self.lone_room(now, id, at);
        }
        let mut least: Option<Room> = None;
        let (mut busy_until, mut free_at) = (None, Instant::NEVER);
        let mut to = Neighbours::ALL;
        for at in port.attached.iter() {
            let medium = &mut self.fabric.media[at.medium()].medium;
            match medium.room(now, at.station) {
                Ok(room) if least.is_none_or(|least| room.octets < least.octets) => {
                    least = Some(room);
                }
                Ok(_) => {}
                Err(until) => {
                    let until = until.unwrap_or(Instant::NEVER);
                    busy_until = busy_until.max(Some(until));
                    free_at = free_at.min(until);
                    to = at.to.map_or(to, |busy| to.without(busy));
                }
            }
        }
        let around = port.envelope_octets();
        let room = least.filter(|_| port.apart || busy_until.is_none());
        let again = busy_until.map(|until| if port.apart { free_at } else { until });
        if let Some(at) = again.filter(|at| *at < Instant::NEVER) {
            self.plan_room(id, at);
        }
        room.map(|room| Room {
            octets: room.octets.saturating_sub(around),
            to,
            ..room
        })
    }

    fn transmit(
        &mut self,
        now: Instant,
        port: PortId,
        _room: Room,
        meta: TxMeta,
        frame: &mut Vec<u8>,
    ) {
        let fabric = &mut *self.fabric;
        let raw = self.ports[port.index()].sends_raw();
        if let Some(captures) = fabric.captures.as_mut().filter(|_| !raw) {
            captures.sent(now, self.node, port, meta, frame);
        }
        let sender = &self.ports[port.index()];
        let lone = sender.attached.len() == 1;
        for at in sender.attached.iter() {
            let Some(to) = at.reaches(meta.to) else {
                continue;
            };
            let Some(envelope) = sender.envelope(to) else {
                fabric.send(now, at, &meta, frame, lone);
                continue;
            };
            let mut packet = envelope.wrap(meta.class, frame);
            if let Some(captures) = fabric.captures.as_mut().filter(|_| raw) {
                captures.sent(now, self.node, port, meta, &packet);
            }
            if let Some(paths) = &mut fabric.paths {
                paths.wrapped((self.node, port, to), now, &packet);
            }
            fabric.send(now, at, &meta, &mut packet, true);
        }
    }

    fn effect(&mut self, now: Instant, effect: Effect) {
        match effect {
            Effect::Fate(record) => {
                let hash = &mut self.fabric.hash;
                hash.fold(record.digest);
                hash.fold(record.ended.as_nanos());
                hash.fold(record.fate.code() << 20 | self.node as u64);
                if let Fate::Forwarded { .. } = record.fate {
                    self.fabric.hops += 1;
                }
                if let Some(paths) = &mut self.fabric.paths {
                    paths.take(self.node, &record);
                }
                if let Some(fates) = &mut self.fabric.fates {
                    fates.push(FateEntry {
                        node: NodeIndex(self.node),
                        incarnation: self.incarnation,
                        record,
                    });
                }
            }
            Effect::Store { ticket, batch } => self.ask(now, ticket, Asked::Store(batch)),
            Effect::Load {
                ticket,
                key,
                offset,
                octets,
            } => {
                let asked = Asked::Load {
                    key,
                    offset,
                    octets,
                };
                self.ask(now, ticket, asked);
            }
            Effect::Stream { .. }
            | Effect::Socket { .. }
            | Effect::Datagram { .. }
            | Effect::Work { .. }
            | Effect::Route { .. } => self.answers.push(effect),
        }
    }
}

impl World {
    /// An empty world. The seed selects all chance in it.
    pub fn new(seed: u64) -> Self {
        Self {
            slots: Vec::new(),
            fabric: Fabric {
                now: Instant::ZERO,
                events: EventQueue::default(),
                links: Vec::new(),
                media: Vec::new(),
                streams: Streams::default(),
                flight: Flight::default(),
                hash: RunHash::default(),
                paths: None,
                captures: None,
                fates: None,
                missed: 0,
                hops: 0,
                seed,
            },
            faults: Vec::new(),
            repeating: BTreeSet::new(),
            by_stations: Vec::new(),
            has_envelopes: false,
            scratch: Vec::new(),
            memory: Memory::default(),
            lent_to: None,
            check_every: 1024,
            inputs: 0,
            started: false,
        }
    }

    /// How often each node's [`Node::check`] runs: once in so many inputs.
    pub const fn set_check_every(&mut self, inputs: u64) {
        self.check_every = if inputs == 0 { 1 } else { inputs };
    }

    /// Follows every packet along its path: what [`World::paths`] gives.
    pub fn trace_paths(&mut self) {
        self.fabric.paths = Some(PathBook::default());
    }

    /// Keeps every packet's fate in every node: what [`World::fates`] gives and
    /// [`crate::check::violations`] goes by.
    pub fn keep_fates(&mut self) {
        self.fabric.fates = Some(Vec::new());
    }

    fn add(&mut self, name: &str, body: Body) -> NodeIndex {
        assert!(self.slots.len() < EventQueue::NODES_MAX, "too many nodes");
        self.slots.push(Slot {
            name: name.to_owned(),
            body,
            ports: Vec::new(),
            wake_at: None,
            incarnation: 0,
            store: Box::default(),
            workshop: Box::default(),
            table: Box::default(),
            machine: None,
            ahead: Duration::ZERO,
            past: Vec::new(),
            crashed: 0,
            rerouted: BTreeSet::new(),
        });
        NodeIndex(self.slots.len() - 1)
    }

    /// Adds a host.
    pub fn add_host(&mut self, host: Host) -> NodeIndex {
        let name = host.name().to_owned();
        let index = self.add(&name, Body::Host(Box::new(host)));
        if let Some(paths) = &mut self.fabric.paths {
            paths.set_host(index.0);
        }
        index
    }

    /// Adds a plain router.
    pub fn add_router(&mut self, name: &str, router: Router) -> NodeIndex {
        // Like a host a switch has no classes.
        if let Some(paths) = self.fabric.paths.as_mut().filter(|_| router.is_switch()) {
            paths.set_host(self.slots.len());
        }
        self.add(name, Body::Router(Box::new(router)))
    }

    /// Adds an Ethernet of a gateway and its hosts.
    pub fn add_segment(&mut self, name: &str, segment: Segment) -> NodeIndex {
        let index = self.add(name, Body::Segment(Box::new(segment)));
        // Like a host it has no classes.
        if let Some(paths) = &mut self.fabric.paths {
            paths.set_host(index.0);
        }
        index
    }

    /// Adds a node that can be killed and started again.
    pub fn add_node(&mut self, name: &str, factory: Box<dyn NodeFactory>) -> NodeIndex {
        let boot = self.boot(name, 0, Vec::new());
        self.add(
            name,
            Body::Gateway {
                node: factory.boot(boot),
                factory,
            },
        )
    }

    /// Gives a node storage for so many octets of keys and values, or none.
    pub const fn set_storage(&mut self, node: NodeIndex, octets_max: Option<u64>) {
        let store = &mut self.slots.as_mut_slice()[node.0].store;
        match octets_max {
            Some(octets_max) => store.set_octets_max(octets_max),
            None => store.set_fault(Some(StoreError::Absent)),
        }
    }

    /// What a node's storage is like; after [`World::set_storage`].
    pub fn describe_storage(&mut self, node: NodeIndex, entry: StorageEntry) {
        self.slots[node.0].store.be(entry);
    }

    fn boot(&self, name: &str, incarnation: u32, stored: Vec<(Vec<u8>, u64)>) -> Boot {
        let mut entropy = Stream::new(self.fabric.seed, &format!("boot {name} {incarnation}"));
        Boot {
            incarnation,
            entropy: entropy.draw(),
            wall: Some(WallTime(self.fabric.now.as_nanos())),
            stored,
        }
    }

    /// Gives a node ports up to this number; those that no link joins stay down.
    pub fn reserve_ports(&mut self, node: NodeIndex, ports: u8) {
        let have = &mut self.slots[node.0].ports;
        have.resize_with(have.len().max(usize::from(ports)), Port::default);
    }

    /// Says what a port's device is.
    pub(crate) fn set_device(&mut self, node: NodeIndex, port: PortId, device: Device) {
        self.reserve_ports(node, port.0 + 1);
        self.slots[node.0].ports[port.index()].device = device;
    }

    /// Gives each neighbour on a port a transmitter of its own.
    pub fn set_apart(&mut self, node: NodeIndex, port: PortId) {
        self.reserve_ports(node, port.0 + 1);
        self.slots[node.0].ports[port.index()].apart = true;
    }

    /// The number that the node's next port gets.
    pub fn next_port(&self, node: NodeIndex) -> PortId {
        PortId(self.slots[node.0].ports.len() as u8)
    }

    /// Joins the next free ports of two nodes; returns the link's number.
    ///
    /// # Errors
    /// What is wrong with `config`.
    pub fn join(
        &mut self,
        name: &str,
        config: &LinkConfig,
        a: NodeIndex,
        b: NodeIndex,
    ) -> Result<LinkIndex, KeyError> {
        let next = |node| Attach {
            node,
            port: self.next_port(node),
            neighbour: NeighbourId::PEER,
        };
        self.join_at(name, config, [next(a), next(b)])
    }

    /// Joins two ports; a port may be joined to several neighbours.
    ///
    /// # Errors
    /// What is wrong with `config`.
    pub fn join_at(
        &mut self,
        name: &str,
        config: &LinkConfig,
        ends: [Attach; 2],
    ) -> Result<LinkIndex, KeyError> {
        self.join_on(None, name, config, ends)
    }

    /// The same on a medium that is shared under a name of its own.
    ///
    /// # Errors
    /// What is wrong with `config`.
    pub fn join_on(
        &mut self,
        shared: Option<&str>,
        name: &str,
        config: &LinkConfig,
        ends: [Attach; 2],
    ) -> Result<LinkIndex, KeyError> {
        for end in ends {
            self.reserve_ports(end.node, end.port.0 + 1);
            if config.half_duplex.is_some() && self.port_mut(end).apart {
                return Err(NO_TURNS);
            }
        }
        let (medium, path) = if config.kind.is_shared() {
            self.join_shared(shared, name, config, ends)?
        } else {
            self.join_line(name, config, ends)?
        };
        let link = self.fabric.links.len();
        for end in ends {
            self.port_mut(end).links.push(link);
        }
        if let Some(paths) = &mut self.fabric.paths {
            paths.join(ends, config);
        }
        self.fabric.links.push(Link {
            name: name.to_owned(),
            medium,
            path,
            ends,
            config: config.clone(),
        });
        Ok(LinkIndex(link))
    }

    /// Plans a fault.
    pub fn plan(&mut self, at: Instant, fault: Fault) {
        self.fabric
            .events
            .push(at, 0, What::Fault(self.faults.len() as u32));
        self.faults.push(fault);
    }

    /// Brings every port up, when the world is complete. The first [`World::run_until`] does it if
    /// nobody has before.
    pub fn start(&mut self) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        for medium in 0..self.fabric.media.len() {
            self.fabric.plan_medium(medium);
        }
        for node in 0..self.slots.len() {
            self.bring_up(node);
        }
    }

    fn bring_up(&mut self, node: usize) {
        self.give(node, Input::Wall(self.calendar(node)));
        for port in 0..self.slots[node].ports.len() {
            self.bring_port_up(node, PortId(port as u8));
        }
        self.settle(node);
    }

    /// Runs until nothing is planned up to and including `until`.
    pub fn run_until(&mut self, until: Instant) {
        self.start();
        while let Some(event) = self.fabric.events.pop(until) {
            self.fabric.now = event.at;
            self.happen(event);
        }
        self.fabric.now = self.fabric.now.max(until);
    }

    fn happen(&mut self, event: Event) {
        let node = event.node();
        match event.what {
            What::Fault(index) => self.strike(&self.faults[index as usize].clone()),
            What::Medium(medium) => self.attend(medium as usize),
            What::Stream { number } => self.come(number),
            What::Arrival { port, from, frame } => self.arrive(node, port, from, frame),
            What::Stored { group } => self.stored(node, event.at, group),
            What::Worked { incarnation } => self.worked(node, incarnation),
            What::Routes => {
                self.tend_table(node);
                self.settle(node);
            }
            What::Room { port } => {
                let planned = &mut self.slots[node].ports[port.index()].room_at;
                if *planned == Some(event.at) {
                    *planned = None;
                    self.settle(node);
                }
            }
            What::Wake => self.wake(node, event.at),
        }
    }

    fn stored(&mut self, node: usize, at: Instant, group: u64) {
        let (answers, next) = self.slots[node].store.complete(at, group);
        if let Some((group, at)) = next {
            self.fabric.events.push(at, node, What::Stored { group });
        }
        for (ticket, answer) in answers {
            self.give(node, answer.input(ticket));
            self.settle(node);
        }
    }

    fn worked(&mut self, node: usize, incarnation: u32) {
        let slot = &mut self.slots[node];
        if slot.incarnation != incarnation {
            return;
        }
        if let Some((ticket, done)) = slot.workshop.complete(self.fabric.now) {
            let result = done.as_deref().map_err(|error| *error);
            self.give(node, Input::Worked { ticket, result });
            self.settle(node);
        }
    }

    /// Has work done for a node.
    fn work(&mut self, node: usize, ticket: Ticket, work: &Work) {
        self.fabric.hash.fold(ticket.n);
        let slot = &mut self.slots[node];
        let incarnation = slot.incarnation;
        match slot.workshop.ask(self.fabric.now, ticket, work) {
            Ok(at) => {
                let what = What::Worked { incarnation };
                self.fabric.events.push(at, node, what);
            }
            Err(error) => {
                let result = Err(error);
                self.give(node, Input::Worked { ticket, result });
            }
        }
    }

    fn arrive(&mut self, node: usize, port: PortId, from: NeighbourId, frame: u32) {
        let bytes = self.fabric.flight.open(frame);
        let dead = matches!(self.slots[node].body, Body::Dead { .. });
        let envelope = || self.slots[node].ports[port.index()].envelope(from);
        let envelope = self.has_envelopes.then(envelope).flatten();
        if let (Some(_), Some(paths)) = (envelope, &mut self.fabric.paths) {
            paths.unwrapped(&bytes);
        }
        let content = match envelope {
            None => Some(&bytes[..]),
            Some(envelope) => envelope.content(&bytes),
        };
        // What isn't a port's packet, its host's kernel throws away.
        self.fabric.missed += u64::from(dead || content.is_none());
        if let Some(bytes) = content {
            let input = Input::Frame {
                port,
                from,
                bytes,
                meta: FrameMeta::default(),
            };
            self.give(node, input);
        }
        self.fabric.flight.end(frame, bytes);
        self.settle(node);
    }

    fn wake(&mut self, node: usize, at: Instant) {
        let slot = &mut self.slots[node];
        if slot.wake_at != Some(at) {
            return;
        }
        slot.wake_at = None;
        let due = slot
            .body
            .node()
            .and_then(|node| node.wake())
            .is_some_and(|wake| wake.at <= at);
        if due {
            self.give(node, Input::Timeout);
        }
        self.settle(node);
        if let Some(wake) = self.slots[node].body.node().and_then(|node| node.wake()) {
            let name = &self.slots[node].name;
            assert!(
                !due || wake.at > at,
                "{name} wants to wake at once again: {wake:?}"
            );
        }
    }

    /// Lends a gateway the memory that all share.
    fn lend(&mut self, to: usize) {
        if self.lent_to == Some(to) || !matches!(self.slots[to].body, Body::Gateway { .. }) {
            return;
        }
        for number in self.lent_to.replace(to).into_iter().chain([to]) {
            if let Body::Gateway { node, .. } = &mut self.slots[number].body {
                node.exchange(&mut self.memory);
            }
        }
    }

    fn give(&mut self, node: usize, input: Input<'_>) {
        self.lend(node);
        let now = self.fabric.now;
        if let Some(body) = self.slots[node].body.node_mut() {
            body.handle(now, input);
        }
        self.inputs += 1;
        if self.inputs.is_multiple_of(self.check_every)
            && let Some(body) = self.slots[node].body.node()
        {
            body.check();
        }
    }

    fn settle(&mut self, node: usize) {
        loop {
            let slot = &mut self.slots[node];
            let Some(body) = slot.body.node_mut() else {
                return;
            };
            let ports = slot.ports.len() as u8;
            let mut driver = Driver {
                fabric: &mut self.fabric,
                node,
                incarnation: slot.incarnation,
                ports: &mut slot.ports,
                store: &mut slot.store,
                answers: Vec::new(),
                refused: Vec::new(),
            };
            let now = driver.fabric.now;
            settle(body, &mut driver, now, ports, &mut self.scratch);
            let Driver {
                answers, refused, ..
            } = driver;
            if answers.is_empty() && refused.is_empty() {
                break;
            }
            for (ticket, answer) in refused {
                self.give(node, answer.input(ticket));
            }
            for answer in answers {
                self.answer(node, answer);
            }
        }
        self.plan_wake(node);
        if matches!(self.slots[node].body, Body::Kernel(_)) {
            self.pass_on(node);
        }
    }

    /// Serves an effect that asks for something at once.
    fn answer(&mut self, node: usize, effect: Effect) {
        match effect {
            Effect::Stream { id, op } => self.operate(node, id, op),
            Effect::Socket { id, op } => self.open_socket(node, id, op),
            Effect::Work { ticket, work } => self.work(node, ticket, &work),
            Effect::Route { prefix, op } => self.lead(node, prefix, op),
            Effect::Datagram {
                socket,
                meta,
                bytes,
            } => {
                self.ask_kernel(node, |kernel, now| {
                    kernel.send_datagram(now, socket, meta, &bytes);
                });
            }
            _ => {}
        }
    }

    fn plan_wake(&mut self, node: usize) {
        let slot = &mut self.slots[node];
        let Some(wake) = slot.body.node().and_then(|node| node.wake()) else {
            return;
        };
        if slot.wake_at.is_none_or(|planned| wake.at < planned) && wake.at < Instant::NEVER {
            let at = wake.at.max(self.fabric.now);
            slot.wake_at = Some(at);
            self.fabric.events.push(at, node, What::Wake);
        }
    }
}
