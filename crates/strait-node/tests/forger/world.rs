//! Two gateways over one medium, driven by the contract in virtual time.

use std::collections::BTreeMap;

use strait_core::drive::{Media, settle};
use strait_core::node::{
    Boot, Effect, FrameMeta, Input, Node, NodeFactory, Notice, PortEvent, PortState, Room, StoreOp,
    TxMeta,
};
use strait_core::rate::LineRate;
use strait_core::{Duration, Instant, NeighbourId, Neighbours, PortId};
use strait_node::ethernet::{Claim, Heard, Station};
use strait_node::{GatewayFactory, config_text};
use strait_wire::ethernet::{self, Mac};
use strait_wire::hash::hash64;

use crate::links::Link;
use crate::traffic::{v4, v6};

const LINK: PortId = PortId(1);

/// What lies between the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Medium {
    /// An octet stream; else frames.
    pub(crate) octets: bool,
    pub(crate) frame_octets_max: usize,
    pub(crate) rate: LineRate,
    pub(crate) latency: Duration,
    /// Of a thousand slots of time, those in which all is lost.
    pub(crate) lost: u64,
    /// What latency varies by, and whether frames overtake each other by it.
    pub(crate) jitter: Duration,
    pub(crate) reorders: bool,
    /// Nothing of the second end arrives.
    pub(crate) one_way: bool,
}

impl Medium {
    /// Octets pulled at once from an octet stream.
    const CHUNK: usize = 8;
    /// Whatever leaves in one slot has one fate, so that a run with other frames meets the same
    /// losses.
    const SLOT: Duration = Duration::from_millis(40);

    /// When what leaves an end now arrives, if it does.
    fn arrival(self, seed: u64, from: usize, leaves: Instant) -> Option<Instant> {
        let slot = leaves.as_nanos() / Self::SLOT.as_nanos() as u64;
        let draw = |what: u64| {
            let name = [slot, from as u64, what].map(u64::to_le_bytes).concat();
            hash64(seed, &name)
        };
        let lost = (self.one_way && from == 1) || draw(0) % 1000 < self.lost;
        let jitter = Duration::from_nanos(draw(1) % (self.jitter.as_nanos() as u64 + 1));
        (!lost).then_some(leaves + self.latency + jitter)
    }

    fn state(self) -> PortState {
        PortState {
            tx_rate: self.rate,
            rx_rate: self.rate,
            frame_octets_max: self.frame_octets_max as u32,
            block: Duration::ZERO,
            latency: self.latency,
            notice: Notice::NONE,
        }
    }
}

/// What went over the medium from one end.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) from: usize,
    pub(crate) octets: Vec<u8>,
}

/// A packet that came out at an end.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) to: usize,
    pub(crate) at: Instant,
    pub(crate) packet: Vec<u8>,
}

struct End {
    factory: GatewayFactory,
    node: Box<dyn Node>,
    incarnation: u32,
    stored: BTreeMap<Vec<u8>, Vec<u8>>,
    /// When its line takes the next octets.
    free: Instant,
    /// When what it sent last arrives.
    arrives: Instant,
    /// The host on its Ethernet, if there is one.
    host: Option<Station>,
}

impl End {
    fn boot(&mut self, seed: u64) {
        let stored = self.stored.iter();
        let stored = stored.map(|(key, value)| (key.clone(), value.len() as u64));
        self.node = self.factory.boot(Boot {
            incarnation: self.incarnation,
            entropy: seed,
            wall: None,
            stored: stored.collect(),
        });
        self.incarnation += 1;
    }
}

/// Both ends, what is on its way between them, and what came out.
pub(crate) struct World {
    pub(crate) now: Instant,
    seed: u64,
    medium: Medium,
    ends: [End; 2],
    way: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) delivered: Vec<Delivered>,
    /// Of these, those that hosts of Ethernets have read.
    read: usize,
    scratch: Vec<u8>,
}

struct Side<'a> {
    at: usize,
    medium: Medium,
    free: &'a mut Instant,
    sent: Vec<(Instant, Vec<u8>)>,
    delivered: &'a mut Vec<Delivered>,
    effects: Vec<Effect>,
}

impl Media for Side<'_> {
    fn room(&mut self, now: Instant, port: PortId) -> Option<Room> {
        let octets = match port {
            PortId::HOST => 65_536,
            _ if *self.free > now => return None,
            _ if self.medium.octets => Medium::CHUNK,
            _ => self.medium.frame_octets_max,
        };
        Some(Room {
            octets,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, now: Instant, port: PortId, _: Room, _: TxMeta, frame: &mut Vec<u8>) {
        let octets = std::mem::take(frame);
        if port == PortId::HOST {
            self.delivered.push(Delivered {
                to: self.at,
                at: now,
                packet: octets,
            });
        } else {
            *self.free = now + self.medium.rate.time_for(octets.len() as u64);
            self.sent.push((*self.free, octets));
        }
    }

    fn effect(&mut self, _: Instant, effect: Effect) {
        self.effects.push(effect);
    }
}

const fn host_mac(end: usize) -> Mac {
    Mac([2, 0, 0, 0, 2, end as u8 + 1])
}

impl World {
    /// Both ends started at once.
    pub(crate) fn new(link: Link, medium: Medium, seed: u64) -> Self {
        let end = |number: usize| {
            let config = config_text::parse("swarm.toml", &link.text(number)).unwrap();
            let factory = GatewayFactory::new(config).unwrap();
            let node = factory.boot(Boot::default());
            let mut end = End {
                factory,
                node,
                incarnation: 0,
                stored: BTreeMap::new(),
                free: Instant::ZERO,
                arrives: Instant::ZERO,
                host: link.tap.then(|| Station::new(host_mac(number))),
            };
            end.boot(seed * 2 + number as u64);
            end
        };
        let mut world = Self {
            now: Instant::ZERO,
            seed,
            medium,
            ends: [end(0), end(1)],
            way: BTreeMap::new(),
            seen: Vec::new(),
            delivered: Vec::new(),
            read: 0,
            scratch: Vec::new(),
        };
        (0..2).for_each(|at| world.bring_up(at));
        world
    }

    fn bring_up(&mut self, at: usize) {
        for port in [PortId::HOST, LINK] {
            let event = PortEvent::Up(self.medium.state());
            self.give(at, Input::Port { port, event });
        }
    }

    /// Ends an end and starts it again.
    pub(crate) fn restart(&mut self, at: usize) {
        self.ends[at].boot(self.seed * 2 + at as u64);
        self.bring_up(at);
    }

    fn give(&mut self, at: usize, input: Input<'_>) {
        self.ends[at].node.handle(self.now, input);
        self.settle(at);
    }

    fn settle(&mut self, at: usize) {
        let Self {
            now, ends, medium, ..
        } = self;
        let End {
            node, free, stored, ..
        } = &mut ends[at];
        let mut side = Side {
            at,
            medium: *medium,
            free,
            sent: Vec::new(),
            delivered: &mut self.delivered,
            effects: Vec::new(),
        };
        settle(&mut **node, &mut side, *now, 2, &mut self.scratch);
        let Side { sent, effects, .. } = side;
        let mut asked = Vec::new();
        for effect in effects {
            match effect {
                Effect::Store { ticket, batch } => {
                    for op in batch {
                        if let StoreOp::Put(key, value) = op {
                            stored.insert(key, value);
                        }
                    }
                    asked.push((ticket, None));
                }
                Effect::Load { ticket, key, .. } => {
                    asked.push((ticket, Some(stored.get(&key).cloned())));
                }
                _ => {}
            }
        }
        for (leaves, octets) in sent {
            let number = self.seen.len() as u64;
            self.seen.push(Seen {
                from: at,
                octets: octets.clone(),
            });
            let Some(mut arrives) = self.medium.arrival(self.seed, at, leaves) else {
                continue;
            };
            if !self.medium.reorders {
                arrives = arrives.max(self.ends[at].arrives);
                self.ends[at].arrives = arrives;
            }
            self.way.insert((arrives, number), (1 - at, octets));
        }
        for frame in self.hear_at_host(at) {
            self.give(at, Self::frame(PortId::HOST, &frame));
        }
        for (ticket, loaded) in asked {
            let input = match &loaded {
                None => Input::Stored {
                    ticket,
                    result: Ok(()),
                },
                Some(value) => Input::Loaded {
                    ticket,
                    result: Ok(value.as_deref()),
                },
            };
            self.give(at, input);
        }
        self.pester(at);
    }

    /// Pulls without room and early time-outs change nothing that is due. What is learned of flows
    /// may be stored with any input.
    fn pester(&mut self, at: usize) {
        let now = self.now;
        let node = &mut self.ends[at].node;
        let nothing = Room {
            octets: 0,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        };
        for port in [PortId::HOST, LINK] {
            let mut out = Vec::new();
            let pulled = node.poll_transmit(now, port, nothing, &mut out);
            assert!(pulled.is_none() && out.is_empty());
        }
        let pulled = node.poll_effect();
        assert!(pulled.is_none(), "a pull without room did {pulled:?}");
        let wake = node.wake();
        if wake.is_some_and(|wake| wake.at <= now) {
            return;
        }
        node.handle(now, Input::Timeout);
        assert_eq!(node.wake(), wake, "an early time-out moved a deadline");
    }

    /// What the host of an Ethernet makes of the frames that its gateway gave out, and its answers.
    fn hear_at_host(&mut self, at: usize) -> Vec<Vec<u8>> {
        let Some(host) = &mut self.ends[at].host else {
            return Vec::new();
        };
        let own = [v4(at), v6(at)];
        let claim = |address| {
            if own.contains(&address) {
                Claim::Own
            } else {
                Claim::None
            }
        };
        let fresh = self.delivered.split_off(self.read);
        for mut delivered in fresh {
            if let Heard::Packet(packet) = host.hear(self.now, &delivered.packet, claim) {
                delivered.packet = packet.to_vec();
                self.delivered.push(delivered);
            }
        }
        self.read = self.delivered.len();
        core::iter::from_fn(|| host.next_frame(2000)).collect()
    }

    /// A packet from a host at an end.
    pub(crate) fn offer(&mut self, at: usize, packet: &[u8]) {
        let mut frame = Vec::new();
        if self.ends[at].host.is_some() {
            let kind = if packet[0] >> 4 == 4 {
                ethernet::IPV4
            } else {
                ethernet::IPV6
            };
            let gateway = Mac([2, 0, 0, 0, 1, at as u8 + 1]);
            ethernet::put_header(gateway, host_mac(at), kind, &mut frame);
        }
        frame.extend_from_slice(packet);
        self.give(at, Self::frame(PortId::HOST, &frame));
    }

    /// Octets that nobody at the other end sent.
    pub(crate) fn inject(&mut self, to: usize, octets: &[u8]) {
        self.give(to, Self::frame(LINK, octets));
    }

    fn frame(port: PortId, bytes: &[u8]) -> Input<'_> {
        Input::Frame {
            port,
            from: NeighbourId::PEER,
            bytes,
            meta: FrameMeta::default(),
        }
    }

    fn next(&self) -> Option<Instant> {
        let arrival = self.way.keys().next().map(|(at, _)| *at);
        let ends = self.ends.iter().flat_map(|end| {
            let wake = end.node.wake().map(|wake| wake.at);
            let line = (end.free > self.now && end.node.wants(LINK).is_some()).then_some(end.free);
            [wake, line]
        });
        ends.flatten().chain(arrival).min()
    }

    /// Runs until a moment.
    pub(crate) fn run_until(&mut self, until: Instant) {
        while let Some(next) = self.next().filter(|next| *next <= until) {
            self.now = next.max(self.now);
            while let Some(entry) = self.way.first_entry().filter(|it| it.key().0 <= self.now) {
                let (to, octets) = entry.remove();
                self.give(to, Self::frame(LINK, &octets));
            }
            for at in 0..2 {
                let due = self.ends[at].node.wake();
                if due.is_some_and(|wake| wake.at <= self.now) {
                    self.give(at, Input::Timeout);
                } else {
                    self.settle(at);
                }
            }
        }
        self.now = until;
    }

    /// Asserts each gateway's own invariants.
    pub(crate) fn check(&self) {
        self.ends.iter().for_each(|end| end.node.check());
    }

    /// What the gateways have counted, for a run that is looked at.
    pub(crate) fn told(&self) -> String {
        let ports = self.ends.iter().map(|end| &end.node.stats().ports[1]);
        ports.map(|port| format!("{port:?}\n")).collect()
    }
}
