//! Byte streams between nodes: the TCP connections of a port that uses another node's station.
//!
//! They are LAN connections: in order, whole, and late by a constant. What their ends may send is
//! what the other has allowed.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use strait_core::node::{
    Owner, Side, SocketEvent, SocketId, SocketOp, StreamEvent, StreamId, StreamOp,
};
use strait_core::{Duration, Input, Instant};

use super::{Attach, Fabric, NodeIndex, World};
use crate::event::What;

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

/// Something on its way to an end.
#[derive(Debug)]
enum Happening {
    Opened(Option<SocketId>),
    Data(Vec<u8>),
    Writable(u32),
    Fin,
    Reset(i32),
}

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
    /// On their way, by number.
    coming: BTreeMap<u32, (End, Happening)>,
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
    fn post(&mut self, now: Instant, to: End, happening: Happening) {
        let number = self.streams.next;
        self.streams.next = number.wrapping_add(1);
        self.streams.coming.insert(number, (to, happening));
        let what = What::Stream { number };
        self.events.push(now + DELAY, to.0, what);
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
        self.post(now, far, Happening::Opened(Some(listener)));
        self.post(now, client, Happening::Opened(None));
    }

    /// Forgets a stream; its other end.
    fn part(&mut self, end: End) -> Option<End> {
        let other = self.streams.others.remove(&end)?;
        self.streams.others.remove(&other);
        Some(other)
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
        self.streams.coming.retain(|_, (end, _)| end.0 != node);
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

    /// Does what a node wants of a socket.
    pub(super) fn open_socket(&mut self, node: usize, id: SocketId, op: SocketOp) {
        let listeners = &mut self.fabric.streams.listeners;
        match op {
            SocketOp::Listen(listen) => {
                let address = listen.address;
                listeners.insert((node, id), address);
                let event = SocketEvent::Bound(address);
                self.give(node, Input::Socket { id, event });
            }
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
            StreamOp::Connect { .. } | StreamOp::Hold(_) => {}
            StreamOp::Send(octets) => fabric.post(now, other, Happening::Data(octets)),
            StreamOp::Credit(octets) => fabric.post(now, other, Happening::Writable(octets)),
            StreamOp::Fin => fabric.post(now, other, Happening::Fin),
            StreamOp::Reset(_) => {
                fabric.part(end);
                fabric.post(now, other, Happening::Reset(CONNECTION_RESET));
            }
        }
    }

    /// Something on a stream has come.
    pub(super) fn come(&mut self, number: u32) {
        let Some(((node, id), happening)) = self.fabric.streams.coming.remove(&number) else {
            return;
        };
        // Where a stream comes from and goes to, nobody here looks at.
        let nobody = SocketAddr::from(([127, 0, 0, 1], 0));
        let event = match &happening {
            Happening::Opened(listener) => StreamEvent::Opened {
                listener: *listener,
                src: nobody,
                dst: nobody,
                dscp: 0,
            },
            Happening::Data(octets) => StreamEvent::Data(octets),
            Happening::Writable(octets) => StreamEvent::Writable(*octets),
            Happening::Fin => StreamEvent::Fin,
            Happening::Reset(error) => StreamEvent::Reset(*error),
        };
        self.give(node, Input::Stream { id, event });
        self.settle(node);
    }
}
