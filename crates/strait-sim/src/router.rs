//! A plain store-and-forward router, as a baseline: a drop-tail queue at each port and static
//! routes, nothing else.

use std::cmp::Reverse;
use std::net::IpAddr;

use strait_core::host_routes::HostRoute;
use strait_core::node::Command;
use strait_core::stats::Stats;
use strait_core::{
    ClassId, DropCause, Effect, Input, Instant, NeighbourId, Node, PortId, Room, TxMeta, Wake, Want,
};
use strait_node::{Hop, Prefix, Routes};
use strait_scenario::topology::OTHER_METRIC;

use crate::outlets::Outlets;

/// A router of the baseline.
#[derive(Debug)]
pub struct Router {
    outlets: Outlets<()>,
    routes: Routes,
    /// It counts hops; a switch doesn't.
    counts_hops: bool,
    /// What a gateway leads to by the first port, where this is its machine.
    led: Vec<HostRoute>,
    /// The way of the last packet: consecutive packets mostly go the same way.
    last: Option<(IpAddr, Hop)>,
}

impl Router {
    /// A router with as many ports as names, a queue of `queue_packets` at each, and no routes.
    pub fn new<'a>(ports: impl IntoIterator<Item = &'a str>, queue_packets: usize) -> Self {
        Self {
            outlets: Outlets::new(ports.into_iter().map(str::to_owned), queue_packets),
            routes: Routes::default(),
            counts_hops: true,
            led: Vec::new(),
            last: None,
        }
    }

    /// The same, without counting hops: a LAN.
    pub fn switch<'a>(ports: impl IntoIterator<Item = &'a str>, queue_packets: usize) -> Self {
        Self {
            counts_hops: false,
            ..Self::new(ports, queue_packets)
        }
    }

    /// Whether it is a LAN.
    pub const fn is_switch(&self) -> bool {
        !self.counts_hops
    }

    /// Sends packets to `prefix` out of `port`.
    pub fn add_route(&mut self, prefix: Prefix, port: PortId) {
        self.routes.add(
            prefix,
            Hop {
                port,
                to: NeighbourId::PEER,
            },
        );
        self.last = None;
    }

    /// From now on a gateway leads to these by the first port. Its ways and those of
    /// [`Router::add_route`] to one prefix go by the metric, which of the latter is
    /// [`OTHER_METRIC`].
    pub(crate) fn lead(&mut self, led: impl IntoIterator<Item = HostRoute>) {
        self.led = led.into_iter().collect();
        self.last = None;
    }

    fn way(&mut self, dst: IpAddr) -> Option<Hop> {
        match self.last {
            Some((known, hop)) if known == dst => Some(hop),
            _ => {
                let hop = self.look_up(dst)?;
                self.last = Some((dst, hop));
                Some(hop)
            }
        }
    }

    fn look_up(&self, dst: IpAddr) -> Option<Hop> {
        let first = Hop {
            port: PortId(0),
            to: NeighbourId::PEER,
        };
        let led = self.led.iter().filter(|it| it.prefix.contains(dst));
        let led = led.map(|it| ((it.prefix.length, Reverse(it.lead.metric)), first));
        let own = self.routes.matching(dst);
        let own = own.map(|(prefix, hop)| ((prefix.length, Reverse(OTHER_METRIC)), hop));
        let best = led.chain(own).max_by_key(|(worth, _)| *worth);
        best.map(|(_, hop)| hop)
    }

    fn forward(&mut self, now: Instant, from: PortId, bytes: &[u8]) {
        self.outlets.came(from, bytes.len());
        let Some(mut packet) = self.outlets.admit(now, from, bytes) else {
            return;
        };
        let Some(hop) = self.way(packet.info().dst) else {
            return self.outlets.ledger.drop(now, packet, DropCause::NoRoute);
        };
        if self.counts_hops && !packet.decrement_hop_limit() {
            return self.outlets.ledger.drop(now, packet, DropCause::HopLimit);
        }
        self.outlets.enqueue(now, hop.port, ((), packet));
    }
}

impl Node for Router {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Frame { port, bytes, .. } => self.forward(now, port, bytes),
            Input::Port { port, event } => self.outlets.port_event(port, event),
            Input::Command(Command::Stop) => self.outlets.stop(now),
            _ => {}
        }
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        let octets = self.outlets.next_octets(port)? as u32;
        if !self.outlets.is_up(port) {
            return None;
        }
        Some(Want {
            class: ClassId(0),
            octets,
            to: NeighbourId::PEER,
        })
    }

    fn reads(&self, _port: PortId) -> bool {
        true
    }

    fn poll_transmit(
        &mut self,
        _now: Instant,
        id: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        if !self.outlets.is_up(id) {
            return None;
        }
        self.outlets.send(id, room, out, 0, |_, _, _| {})
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.outlets.ledger.poll().map(Effect::Fate)
    }

    fn wake(&self) -> Option<Wake> {
        None
    }

    fn stats(&self) -> &Stats {
        self.outlets.ledger.stats()
    }

    fn check(&self) {
        self.outlets.check(0);
    }
}
