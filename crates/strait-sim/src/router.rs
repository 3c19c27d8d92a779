//! A plain store-and-forward router, as a baseline: a drop-tail queue at each port and static
//! routes, nothing else.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::net::IpAddr;

use strait_core::delay::DelayPart;
use strait_core::fate::{Ledger, Origin};
use strait_core::host_routes::HostRoute;
use strait_core::node::{Command, PortEvent};
use strait_core::rate::{Burst, LineRate};
use strait_core::stats::{ClassStats, PortStats, Stats};
use strait_core::{
    ClassId, DropCause, Effect, Fate, Input, Instant, NeighbourId, Node, Packet, PortId, Room,
    TxMeta, Wake, Want,
};
use strait_node::{Hop, Prefix, Routes};
use strait_scenario::topology::OTHER_METRIC;

/// A router of the baseline.
#[derive(Debug)]
pub struct Router {
    ledger: Ledger,
    routes: Routes,
    ports: Vec<Port>,
    queue_packets: usize,
    /// It counts hops; a switch doesn't.
    counts_hops: bool,
    /// What a gateway leads to by the first port, where this is its machine.
    led: Vec<HostRoute>,
    /// The way of the last packet: consecutive packets mostly go the same way.
    last: Option<(IpAddr, Hop)>,
}

#[derive(Debug)]
struct Port {
    queue: VecDeque<Packet>,
    burst: Burst,
    up: bool,
}

impl Router {
    /// A router with as many ports as names, a queue of `queue_packets` at each, and no routes.
    pub fn new<'a>(ports: impl IntoIterator<Item = &'a str>, queue_packets: usize) -> Self {
        let ports: Vec<_> = ports
            .into_iter()
            .map(|name| PortStats {
                name: name.to_owned(),
                ..PortStats::default()
            })
            .collect();
        let port = || Port {
            queue: VecDeque::new(),
            burst: Burst::new(LineRate::new(1, 8), Instant::ZERO),
            up: false,
        };
        Self {
            ports: ports.iter().map(|_| port()).collect(),
            ledger: Ledger::new(Stats {
                ports,
                classes: vec![ClassStats {
                    name: "all".to_owned(),
                    ..ClassStats::default()
                }],
                ..Stats::default()
            }),
            routes: Routes::default(),
            queue_packets,
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
        if let Some(stats) = self.ledger.stats_mut().ports.get_mut(from.index()) {
            stats.frames_in += 1;
            stats.octets_in += bytes.len() as u64;
        }
        let mut buffer = self.ledger.spare();
        buffer.extend_from_slice(bytes);
        let Ok(mut packet) = self.ledger.admit(now, buffer, Origin::Port(from)) else {
            return;
        };
        let Some(hop) = self.way(packet.info().dst) else {
            return self.ledger.drop(now, packet, DropCause::NoRoute);
        };
        if self.counts_hops && !packet.decrement_hop_limit() {
            return self.ledger.drop(now, packet, DropCause::HopLimit);
        }
        let queue = &mut self.ports[hop.port.index()].queue;
        if queue.len() >= self.queue_packets {
            return self.ledger.drop(now, packet, DropCause::QueuePackets);
        }
        queue.push_back(packet);
    }
}

impl Node for Router {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Frame { port, bytes, .. } => self.forward(now, port, bytes),
            Input::Port { port, event } => {
                let entry = &mut self.ports[port.index()];
                match event {
                    PortEvent::Up(state) | PortEvent::Changed(state) => {
                        entry.up = true;
                        entry.burst.set_rate(state.tx_rate);
                    }
                    PortEvent::Down(_) => entry.up = false,
                    PortEvent::Carrier(_)
                    | PortEvent::Drained
                    | PortEvent::Neighbour(..)
                    | PortEvent::NeighbourRate(..) => {}
                }
                self.ledger.stats_mut().ports[port.index()].up = entry.up;
            }
            Input::Command(Command::Stop) => {
                for port in &mut self.ports {
                    for packet in port.queue.drain(..) {
                        self.ledger.drop(now, packet, DropCause::Stopped);
                    }
                }
            }
            _ => {}
        }
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        let port = self.ports.get(port.index()).filter(|port| port.up)?;
        let octets = port.queue.front()?.octets() as u32;
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
        let port = self.ports.get_mut(id.index()).filter(|port| port.up)?;
        if port.queue.front()?.octets() > room.octets {
            return None;
        }
        let mut packet = port.queue.pop_front()?;
        packet.enter(room.starts, DelayPart::Line);
        let ended = port.burst.push(room.starts, packet.octets() as u64);
        let stats = &mut self.ledger.stats_mut().ports[id.index()];
        stats.frames_out += 1;
        stats.octets_out += packet.octets() as u64;
        let fate = Fate::Forwarded {
            port: id,
            to: NeighbourId::PEER,
        };
        self.ledger.close_into(ended, packet, fate, out);
        Some(TxMeta::to_peer(ClassId(0)))
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.ledger.poll().map(Effect::Fate)
    }

    fn wake(&self) -> Option<Wake> {
        None
    }

    fn stats(&self) -> &Stats {
        self.ledger.stats()
    }

    fn check(&self) {
        let queued: usize = self.ports.iter().map(|port| port.queue.len()).sum();
        assert_eq!(
            queued as u64,
            self.ledger.held(),
            "a packet has no fate, or two"
        );
    }
}
