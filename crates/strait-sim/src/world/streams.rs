//! Sockets and byte streams of nodes.
//!
//! Those of a node whose machine has a [kernel](crate::kernel) end there. What its kernel tells it
//! comes at the same moment.
//!
//! Others' lead from node to node, where no network joins the two: the TCP connections of a port
//! that uses another node's station. They are LAN connections: in order, whole, and late by a
//! constant. What their ends may send is what the other has allowed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use strait_core::node::{Owner, Side, SocketEvent, SocketId, SocketOp, StreamId, StreamOp};
use strait_core::tls::TlsFault;
use strait_core::{Duration, Input, Instant};
use strait_world::tls::Profile;

use super::{Attach, Body, Fabric, NodeIndex, World};
use crate::event::What;
use crate::kernel::{Around, Happening, Kernel, Report};

/// Of a LAN, each way.
const DELAY: Duration = Duration::from_micros(100);

/// Errors of Linux, as streams tell them.
const OPERATION_NOT_SUPPORTED: i32 = 95;
const CONNECTION_RESET: i32 = 104;
const CONNECTION_REFUSED: i32 = 111;
const HOST_UNREACHABLE: i32 = 113;

/// Who takes clients: the listener that belongs to this part of a node.
#[derive(Clone, Copy, Debug)]
struct Server {
    node: usize,
    owner: Owner,
}

/// One end of a stream: a node, and what the node knows the stream by.
type End = (usize, StreamId);

/// All streams of a world.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// By client node and the address that it connects to.
    servers: BTreeMap<(usize, SocketAddr), Server>,
    /// What nodes listen by, with their addresses.
    listeners: BTreeMap<(usize, SocketId), SocketAddr>,
    /// Ports whose packets go by these streams.
    joined: Vec<[Attach; 2]>,
    /// By one end, the other.
    others: BTreeMap<End, End>,
    /// On their way to nodes, by number.
    coming: BTreeMap<u32, (usize, Report)>,
    /// By node, the kernel of its machine.
    kernels: BTreeMap<usize, usize>,
    /// Numbers given to what comes, and to streams of servers.
    next: u32,
    next_stream: u64,
}

impl Streams {
    fn listener(&self, server: Server) -> Option<SocketId> {
        let mut all = self.listeners.keys();
        let found = all.find(|(node, id)| *node == server.node && id.owner == server.owner);
        found.map(|(_, id)| *id)
    }
}

impl Fabric {
    fn post(&mut self, now: Instant, (node, id): End, happening: Happening) {
        self.report(now + DELAY, node, Report::Stream(id, happening));
    }

    fn report(&mut self, at: Instant, node: usize, report: Report) {
        let number = self.streams.next;
        self.streams.next = number.wrapping_add(1);
        self.streams.coming.insert(number, (node, report));
        self.events.push(at, node, What::Stream { number });
    }

    fn connect(
        &mut self,
        now: Instant,
        client: End,
        dst: SocketAddr,
        alive: impl Fn(usize) -> bool,
    ) {
        let Some(server) = self.streams.servers.get(&(client.0, dst)).copied() else {
            return self.post(now, client, Happening::Reset(HOST_UNREACHABLE));
        };
        let listener = self.streams.listener(server).filter(|_| alive(server.node));
        let Some(listener) = listener else {
            return self.post(now, client, Happening::Reset(CONNECTION_REFUSED));
        };
        let id = StreamId {
            owner: server.owner,
            side: Side::Client,
            n: self.streams.next_stream,
        };
        let far = (server.node, id);
        self.streams.next_stream += 1;
        self.streams.others.insert(client, far);
        self.streams.others.insert(far, client);
        for (end, listener) in [(far, Some(listener)), (client, None)] {
            self.post(now, end, Happening::opened_somewhere(listener));
        }
    }

    /// Forgets a stream; its other end.
    fn part(&mut self, end: End) -> Option<End> {
        let other = self.streams.others.remove(&end)?;
        self.streams.others.remove(&other);
        Some(other)
    }

    /// Forgets octets of a stream that are on their way to its end; whether there are any.
    fn intercept(&mut self, end: End) -> bool {
        let coming = &mut self.streams.coming;
        let before = coming.len();
        coming.retain(|_, (node, report)| {
            let octets =
                matches!(report, Report::Stream(id, Happening::Data(_)) if (*node, *id) == end);
            !octets
        });
        coming.len() < before
    }

    /// Ends the streams of a node that is no more.
    pub(super) fn cut_streams(&mut self, node: usize) {
        let ends = self.streams.others.keys();
        let ends: Vec<End> = ends.filter(|end| end.0 == node).copied().collect();
        for end in ends {
            if let Some(other) = self.part(end) {
                self.post(self.now, other, Happening::Reset(CONNECTION_RESET));
            }
        }
        self.streams.coming.retain(|_, (of, _)| *of != node);
        self.streams.listeners.retain(|(of, _), _| *of != node);
    }
}

impl World {
    /// Says whom a node reaches at an address: the listener that belongs to a part of another node.
    pub fn serve(
        &mut self,
        client: NodeIndex,
        address: SocketAddr,
        server: NodeIndex,
        owner: Owner,
    ) {
        let server = Server {
            node: server.0,
            owner,
        };
        let servers = &mut self.fabric.streams.servers;
        servers.insert((client.0, address), server);
    }

    /// Joins two ports whose packets go by stations of others.
    pub fn join_by_stations(&mut self, ends: [Attach; 2]) {
        for end in ends {
            self.reserve_ports(end.node, end.port.0 + 1);
        }
        if let Some(paths) = &mut self.fabric.paths {
            paths.join_by_stations(ends);
        }
        self.fabric.streams.joined.push(ends);
    }

    /// Ports whose packets go by stations of others, in pairs.
    pub(crate) fn joined_by_stations(&self) -> &[[Attach; 2]] {
        &self.fabric.streams.joined
    }

    /// Adds the kernel of a node's machine, between the node's host side and its network. The two
    /// are joined to its ports `TUN` and `WIRE`.
    pub fn add_kernel(&mut self, node: NodeIndex, around: Around) -> NodeIndex {
        let name = format!("{} kernel", self.slots[node.0].name);
        let kernel = Kernel::new(&name, node.0, around, self.fabric.seed);
        let index = self.add(&name, Body::Kernel(Box::new(kernel)));
        // Like a host it has no classes.
        if let Some(paths) = &mut self.fabric.paths {
            paths.set_host(index.0);
        }
        self.fabric.streams.kernels.insert(node.0, index.0);
        index
    }

    /// From now on a node's streams are secured by these, if its machine has a kernel.
    pub fn secure_by(&mut self, node: NodeIndex, profiles: BTreeMap<String, Profile>) {
        let kernel = self.fabric.streams.kernels.get(&node.0);
        if let Some(Body::Kernel(kernel)) = kernel.map(|index| &mut self.slots[*index].body) {
            kernel.secure_by(profiles);
        }
    }

    /// Has the kernel of a node's machine do something, if it has one; whether it has.
    pub(super) fn ask_kernel(
        &mut self,
        node: usize,
        ask: impl FnOnce(&mut Kernel, Instant),
    ) -> bool {
        let Some(index) = self.fabric.streams.kernels.get(&node).copied() else {
            return false;
        };
        let now = self.fabric.now;
        if let Body::Kernel(kernel) = &mut self.slots[index].body {
            ask(kernel, now);
        }
        self.settle(index);
        true
    }

    /// Passes on what a kernel has to tell its node.
    pub(super) fn pass_on(&mut self, index: usize) {
        let Body::Kernel(kernel) = &mut self.slots[index].body else {
            return;
        };
        let (node, now) = (kernel.gateway, self.fabric.now);
        for report in kernel.take_reports() {
            self.fabric.report(now, node, report);
        }
    }

    /// Does what a node wants of a socket.
    pub(super) fn open_socket(&mut self, node: usize, id: SocketId, op: SocketOp) {
        let there = self.ask_kernel(node, |kernel, now| kernel.open(now, id, op));
        let listeners = &mut self.fabric.streams.listeners;
        match op {
            SocketOp::Listen(listen) => {
                let address = listen.address;
                listeners.insert((node, id), address);
                let event = SocketEvent::Bound(address);
                if !there {
                    self.give(node, Input::Socket { id, event });
                }
            }
            SocketOp::Bind(_) if there => {}
            SocketOp::Bind(_) => {
                let event = SocketEvent::Failed(OPERATION_NOT_SUPPORTED);
                self.give(node, Input::Socket { id, event });
            }
            SocketOp::Close => {
                listeners.remove(&(node, id));
            }
        }
    }

    /// Does what a node wants of a stream.
    pub(super) fn operate(&mut self, node: usize, id: StreamId, op: StreamOp) {
        let now = self.fabric.now;
        let end = (node, id);
        let streams = &self.fabric.streams;
        let joined = match op {
            StreamOp::Connect { dst, .. } => streams.servers.contains_key(&(node, dst)),
            _ => streams.others.contains_key(&end),
        };
        if !joined && self.fabric.streams.kernels.contains_key(&node) {
            // Octets that the node hasn't heard belong to TLS, and these are in the clear.
            let begins = matches!(op, StreamOp::StartTls { .. });
            if begins && self.fabric.intercept(end) {
                let number = TlsFault::Clear.number();
                self.ask_kernel(node, |kernel, now| {
                    kernel.operate(now, id, StreamOp::Reset(number));
                });
                let reset = Report::Stream(id, Happening::Reset(number));
                return self.fabric.report(now, node, reset);
            }
            self.ask_kernel(node, |kernel, now| kernel.operate(now, id, op));
            return;
        }
        if let StreamOp::Connect { dst, .. } = op {
            let slots = &self.slots;
            let alive = |node: usize| slots[node].body.node().is_some();
            return self.fabric.connect(now, end, dst, alive);
        }
        let fabric = &mut self.fabric;
        let Some(other) = fabric.streams.others.get(&end).copied() else {
            return;
        };
        match op {
            // Stations of others ask about nobody.
            StreamOp::Connect { .. }
            | StreamOp::Accept
            | StreamOp::Refuse(_)
            | StreamOp::Hold(_)
            | StreamOp::Mark(_) => {}
            // They have no certificates, either.
            StreamOp::StartTls { .. } => {
                fabric.part(end);
                fabric.post(now, end, Happening::Reset(TlsFault::Profile.number()));
                fabric.post(now, other, Happening::Reset(CONNECTION_RESET));
            }
            StreamOp::Send(octets) => fabric.post(now, other, Happening::Data(octets)),
            StreamOp::Credit(octets) => fabric.post(now, other, Happening::Writable(octets)),
            StreamOp::Fin => fabric.post(now, other, Happening::Fin),
            StreamOp::Reset(_) => {
                fabric.part(end);
                fabric.post(now, other, Happening::Reset(CONNECTION_RESET));
            }
        }
    }

    /// Something that a node is told has come.
    pub(super) fn come(&mut self, number: u32) {
        let Some((node, report)) = self.fabric.streams.coming.remove(&number) else {
            return;
        };
        let input = match &report {
            Report::Stream(id, happening) => Input::Stream {
                id: *id,
                event: happening.event(),
            },
            Report::Socket(id, event) => Input::Socket {
                id: *id,
                event: *event,
            },
            Report::Datagram(socket, meta, bytes) => Input::Datagram {
                socket: *socket,
                meta: *meta,
                bytes,
            },
        };
        self.give(node, input);
        self.settle(node);
    }
}
