//! Sockets and byte streams of nodes: they end in the [kernels](crate::kernel) of the nodes'
//! machines. What its kernel tells it comes at the same moment.

use std::collections::BTreeMap;

use strait_core::node::{SocketEvent, SocketId, SocketOp, StreamId, StreamOp};
use strait_core::tls::TlsFault;
use strait_core::{Input, Instant};
use strait_hosts::tls::Profile;

use super::{Body, Fabric, NodeIndex, World};
use crate::event::What;
use crate::kernel::{Around, Happening, Kernel, Report};

/// Errors of Linux, as sockets and streams tell them.
const OPERATION_NOT_SUPPORTED: i32 = 95;
const NETWORK_UNREACHABLE: i32 = 101;

/// What is on its way between nodes and the kernels of their machines.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// On their way to nodes, by number.
    coming: BTreeMap<u32, (usize, Report)>,
    /// The number of the next of them.
    next: u32,
    /// By node, the kernel of its machine.
    kernels: BTreeMap<usize, usize>,
}

impl Fabric {
    fn report(&mut self, node: usize, report: Report) {
        let number = self.streams.next;
        self.streams.next = number.wrapping_add(1);
        self.streams.coming.insert(number, (node, report));
        self.events.push(self.now, node, What::Stream { number });
    }

    /// Forgets octets of a stream that are on their way to its node; whether there are any.
    fn intercept(&mut self, end: (usize, StreamId)) -> bool {
        let coming = &mut self.streams.coming;
        let before = coming.len();
        coming.retain(|_, (node, report)| {
            let octets =
                matches!(report, Report::Stream(id, Happening::Data(_)) if (*node, *id) == end);
            !octets
        });
        coming.len() < before
    }

    /// Forgets what is on its way to a node that is no more.
    pub(super) fn forget_reports(&mut self, node: usize) {
        self.streams.coming.retain(|_, (of, _)| *of != node);
    }
}

impl World {
    /// Adds the kernel of a node's machine, between the node's host side and its network. The two
    /// are joined to its ports `TUN` and `WIRE`, and its cables to the ports behind these and those
    /// of further host sides.
    pub fn add_kernel(&mut self, node: NodeIndex, around: Around) -> NodeIndex {
        let name = format!("{} kernel", self.slots[node.0].name);
        let cables_at = around.cables_at();
        let kernel = Kernel::new(&name, node.0, around, self.fabric.seed);
        let index = self.add(&name, Body::Kernel(Box::new(kernel)));
        self.reserve_ports(index, cables_at.0);
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

    /// The slot of the kernel of a node's machine.
    pub(super) fn kernel_of(&self, node: usize) -> Option<usize> {
        self.fabric.streams.kernels.get(&node).copied()
    }

    /// Has the kernel of a node's machine do something, if it has one; whether it has.
    pub(super) fn ask_kernel(
        &mut self,
        node: usize,
        ask: impl FnOnce(&mut Kernel, Instant),
    ) -> bool {
        let Some(index) = self.kernel_of(node) else {
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
        let node = kernel.gateway;
        for report in kernel.take_reports() {
            self.fabric.report(node, report);
        }
    }

    /// Does what a node wants of a socket.
    pub(super) fn open_socket(&mut self, node: usize, id: SocketId, op: SocketOp) {
        let there = self.ask_kernel(node, |kernel, now| kernel.open(now, id, op));
        if !there && op != SocketOp::Close {
            let event = SocketEvent::Failed(OPERATION_NOT_SUPPORTED);
            self.give(node, Input::Socket { id, event });
        }
    }

    /// Does what a node wants of a stream.
    pub(super) fn operate(&mut self, node: usize, id: StreamId, op: StreamOp) {
        let end = (node, id);
        let fault = match op {
            // Octets that the node hasn't heard belong to TLS, and these are in the clear.
            StreamOp::StartTls { .. } if self.fabric.intercept(end) => {
                Some(TlsFault::Clear.number())
            }
            StreamOp::Connect { .. } if !self.fabric.streams.kernels.contains_key(&node) => {
                Some(NETWORK_UNREACHABLE)
            }
            _ => None,
        };
        let op = fault.map_or(op, StreamOp::Reset);
        self.ask_kernel(node, |kernel, now| kernel.operate(now, id, op));
        if let Some(number) = fault {
            let reset = Report::Stream(id, Happening::Reset(number));
            self.fabric.report(node, reset);
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
