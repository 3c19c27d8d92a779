//! The kernel of the machine that a gateway runs on, as far as the gateway's own sockets need one.
//!
//! It stands between the network at a host side, its wire, and the gateway's TUN interface, and
//! has cables to other machines. What is for a socket of the gateway's ends here: TCP at an
//! endpoint as hosts have it, with buffers of the octets that may wait
//! ([`strait_core::node::Held`]). All else passes, either way, and no hop is counted. What it sends
//! itself goes by the wire or a cable to who is there, and by the gateway to others.
//!
//! It outlives the gateway: when that is killed, it ends its connections and goes on answering.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use strait_core::asked::Questions;
use strait_core::delay::DelayPart;
use strait_core::fate::{Ledger, Origin};
use strait_core::host_routes::HostRoute;
use strait_core::node::{DatagramMeta, PortEvent, SocketEvent, SocketId, StreamEvent, StreamId};
use strait_core::rate::{Burst, LineRate};
use strait_core::stats::{ClassStats, PortStats, Stats};
use strait_core::{
    ClassId, DropCause, Effect, Fate, Input, Instant, NeighbourId, Node, Packet, PortId, Room,
    TxMeta, Wake, WakeReason, Want,
};
use strait_hosts::quoted_ends;
use strait_hosts::tls::{Profile, Secured};
use strait_node::Prefix;
use strait_tcp::reset_for;
use strait_wire::ip::{
    IcmpError, PacketInfo, Syn, Unreachable, parse_icmp_error, protocol, set_dscp,
};

mod asking;
mod secure;
mod sides;
mod sockets;
mod streams;

pub use self::sides::FurtherSide;
pub(crate) use self::sides::ports_at;
use self::sockets::Sockets;
use self::streams::{Ends, Streams};

/// The network at the first host side.
const WIRE: PortId = PortId(0);
/// The gateway's interface there.
const TUN: PortId = PortId(1);

/// Packets that may wait for each of them: the usual length of a device's queue.
const QUEUE_PACKETS: usize = 1000;

/// The largest packet, in octets: an Ethernet's.
const MTU: usize = 1500;

/// Errors of Linux, as streams and sockets tell them.
const BROKEN_PIPE: i32 = 32;
const ADDRESS_IN_USE: i32 = 98;
const ALREADY: i32 = 114;
const ADDRESS_NOT_AVAILABLE: i32 = 99;
const NETWORK_UNREACHABLE: i32 = 101;
const CONNECTION_RESET: i32 = 104;
const NO_BUFFERS: i32 = 105;
const NOT_CONNECTED: i32 = 107;
const TIMED_OUT: i32 = 110;
const CONNECTION_REFUSED: i32 = 111;
const HOST_UNREACHABLE: i32 = 113;

/// What a kernel knows of the networks around it.
#[derive(Clone, Debug, Default)]
pub struct Around {
    /// Its own addresses, on any interface but cables.
    pub own: Vec<IpAddr>,
    /// The networks on wires, with its own addresses there.
    pub networks: Vec<Prefix>,
    /// Who is on the first wire.
    pub hosts: Vec<IpAddr>,
    /// Its cables to other machines, by their ports.
    pub cables: Vec<Cable>,
    /// More wires, each at a host side of its own.
    pub further: Vec<FurtherSide>,
    /// Where the rules of the machine bring clients of others to its transparent listeners from;
    /// everywhere if it has none.
    pub brought: Option<Vec<Prefix>>,
}

/// A cable to another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cable {
    /// Its own address there, and the network.
    pub own: Prefix,
    /// The other machine's.
    pub peer: IpAddr,
}

impl Around {
    fn is_own(&self, address: IpAddr) -> bool {
        let mut cables = self.cables.iter();
        self.own.contains(&address) || cables.any(|it| it.own.address == address)
    }

    /// Whether what is for somebody else's address goes to a transparent listener.
    fn brings(&self, address: IpAddr) -> bool {
        let brought = self.brought.as_ref();
        brought.is_none_or(|all| all.iter().any(|it| it.contains(address)))
    }

    /// The port at which somebody is, unless he is behind the gateway.
    fn port_of(&self, address: IpAddr) -> Option<PortId> {
        let mut cables = (self.cables_at().0..).map(PortId).zip(&self.cables);
        let cable = cables.find(|(_, it)| it.peer == address);
        let cable = cable.map(|(port, _)| port);
        cable.or_else(|| self.wire_of(address))
    }

    /// The network that an address belongs to, with the own address there.
    fn network(&self, address: IpAddr) -> Option<&Prefix> {
        let cables = self.cables.iter().map(|it| &it.own);
        let mut networks = cables.chain(&self.networks);
        networks.find(|it| it.contains(address))
    }

    /// The address that it sends from to `dst`: on the network where that is, or its first.
    fn source(&self, dst: IpAddr) -> Option<IpAddr> {
        let near = self.network(dst).map(|it| it.address);
        near.or_else(|| {
            let mut own = self.own.iter();
            own.find(|own| own.is_ipv4() == dst.is_ipv4()).copied()
        })
    }
}

/// What it tells its gateway.
#[derive(Debug)]
pub(crate) enum Report {
    Stream(StreamId, Happening),
    Socket(SocketId, SocketEvent),
    Datagram(SocketId, DatagramMeta, Vec<u8>),
}

/// What happens on a stream: a [`strait_core::node::StreamEvent`] on its way.
#[derive(Debug)]
pub(crate) enum Happening {
    Asked(SocketId, Syn),
    Opened {
        listener: Option<SocketId>,
        /// `remote` is who began.
        ends: Ends,
        dscp: u8,
    },
    Secured(Secured),
    Data(Vec<u8>),
    Writable(u32),
    Fin,
    Reset(i32),
}

impl Happening {
    /// What the node is told.
    pub(crate) fn event(&self) -> StreamEvent<'_> {
        match self {
            Self::Asked(listener, syn) => StreamEvent::Asked {
                listener: *listener,
                src: syn.src,
                dst: syn.dst,
                dscp: syn.dscp,
                options: syn.options,
            },
            Self::Opened {
                listener,
                ends,
                dscp,
            } => StreamEvent::Opened {
                listener: *listener,
                src: ends.remote,
                dst: ends.local,
                dscp: *dscp,
            },
            Self::Secured(with) => StreamEvent::Secured {
                peer: with.peer.as_deref(),
                version: with.version,
            },
            Self::Data(octets) => StreamEvent::Data(octets),
            Self::Writable(octets) => StreamEvent::Writable(*octets),
            Self::Fin => StreamEvent::Fin,
            Self::Reset(error) => StreamEvent::Reset(*error),
        }
    }
}

/// A port: the wire, the interface, or a cable.
#[derive(Debug)]
struct Port {
    queue: VecDeque<Packet>,
    burst: Burst,
    up: bool,
}

/// The kernel.
pub(crate) struct Kernel {
    /// The number of its gateway.
    pub(crate) gateway: usize,
    around: Around,
    /// What the gateway leads it to.
    led: Vec<HostRoute>,
    ledger: Ledger,
    ports: Vec<Port>,
    sockets: Sockets,
    streams: Streams,
    /// What the gateway's streams are secured by.
    profiles: BTreeMap<String, Profile>,
    /// Clients that the gateway is asked about.
    questions: Questions,
    reports: Vec<Report>,
    /// Packets to itself.
    looped: VecDeque<Vec<u8>>,
    ident: u16,
    /// The port that its next connection is tried from first.
    next_port: u16,
}

impl Kernel {
    pub(crate) fn new(name: &str, gateway: usize, around: Around, seed: u64) -> Self {
        let cables = (0..around.cables.len()).map(|number| format!("cable{number}"));
        let sides = (0..=around.further.len()).flat_map(|_| ["wire", "tun"]);
        let names = sides.map(str::to_owned).chain(cables);
        let port = |name| PortStats {
            name,
            ..PortStats::default()
        };
        let ports: Vec<_> = names.map(port).collect();
        let down = |_: &PortStats| Port {
            queue: VecDeque::new(),
            burst: Burst::new(LineRate::new(1, 8), Instant::ZERO),
            up: false,
        };
        let down = ports.iter().map(down).collect();
        let stats = Stats {
            ports,
            classes: vec![ClassStats {
                name: "all".to_owned(),
                ..ClassStats::default()
            }],
            ..Stats::default()
        };
        Self {
            gateway,
            around,
            led: Vec::new(),
            ledger: Ledger::new(stats),
            ports: down,
            sockets: Sockets::default(),
            streams: Streams::new(seed, name),
            profiles: BTreeMap::new(),
            questions: Questions::default(),
            reports: Vec::new(),
            looped: VecDeque::new(),
            ident: 0,
            next_port: *sockets::EPHEMERAL.start(),
        }
    }

    /// What the gateway leads it to, from now on.
    pub(crate) fn lead(&mut self, led: impl IntoIterator<Item = HostRoute>) {
        self.led = led.into_iter().collect();
    }

    /// From now on streams are secured by these.
    pub(crate) fn secure_by(&mut self, profiles: BTreeMap<String, Profile>) {
        self.profiles = profiles;
    }

    /// What it has to tell, in order.
    pub(crate) fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// The gateway is no more: its sockets are closed, and its connections end at once.
    pub(crate) fn bereave(&mut self, now: Instant) {
        self.sockets = Sockets::default();
        self.questions = Questions::default();
        self.streams.abort_all();
        self.pump(now);
        self.reports.clear();
    }

    fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.around.is_own(address)
    }

    fn receive(&mut self, now: Instant, from: PortId, bytes: &[u8]) {
        if let Some(stats) = self.ledger.stats_mut().ports.get_mut(from.index()) {
            stats.frames_in += 1;
            stats.octets_in += bytes.len() as u64;
        }
        let mut buffer = self.ledger.spare();
        buffer.extend_from_slice(bytes);
        let Ok(packet) = self.ledger.admit(now, buffer, Origin::Port(from)) else {
            return;
        };
        if !self.takes(&packet, from) {
            let other = self.around.across(from);
            return self.enqueue(now, packet, other);
        }
        let bytes = self.ledger.close(now, packet, Fate::Absorbed);
        self.dispatch(now, &bytes);
        self.ledger.keep_spare(bytes);
        self.pump(now);
    }

    /// Whether a packet ends here.
    fn takes(&self, packet: &Packet, from: PortId) -> bool {
        let info = packet.info();
        let own = self.is_own(info.dst) && !info.dst.is_loopback();
        match info.protocol {
            protocol::TCP => {
                let ends = Ends::received(info);
                let known = ends.is_some_and(|ends| self.streams.knows(ends));
                let foreign = self.around.is_wire(from) && self.sockets.takes_foreign_streams();
                // Rules bring first packets alone: others are for connections of somebody else.
                let first = Syn::parse(packet.bytes()).is_some();
                let brought = foreign && first && self.around.brings(info.dst);
                known || own || brought && !info.dst.is_multicast()
            }
            protocol::UDP if info.dst.is_multicast() => self.sockets.owner(info).is_some(),
            protocol::UDP => own || self.around.is_wire(from) && self.sockets.owner(info).is_some(),
            protocol::ICMP | protocol::ICMPV6 => own && parse_icmp_error(packet.bytes()).is_some(),
            _ => false,
        }
    }

    fn dispatch(&mut self, now: Instant, bytes: &[u8]) {
        let Ok(info) = PacketInfo::parse(bytes) else {
            return;
        };
        match info.protocol {
            protocol::TCP => self.dispatch_tcp(now, &info, bytes),
            protocol::UDP => self.dispatch_udp(&info, bytes),
            _ => self.dispatch_error(now, bytes),
        }
    }

    fn dispatch_tcp(&mut self, now: Instant, info: &PacketInfo, bytes: &[u8]) {
        let Some(ends) = Ends::received(info) else {
            return;
        };
        let listener = self.sockets.listener(ends.local);
        if let Some(listener) = listener
            && self.asks(now, ends, bytes, listener)
        {
            return;
        }
        if self.streams.hear(now, ends, bytes, listener, info.dscp) {
            return;
        }
        let mut reset = Vec::new();
        if reset_for(bytes, &mut reset) {
            self.send(now, reset);
        }
    }

    fn dispatch_udp(&mut self, info: &PacketInfo, bytes: &[u8]) {
        if let Some((id, meta, payload)) = self.sockets.datagram(info, bytes) {
            let report = Report::Datagram(id, meta, payload.to_vec());
            self.reports.push(report);
        }
    }

    /// A router says what it can't do with a packet of ours.
    fn dispatch_error(&mut self, now: Instant, bytes: &[u8]) {
        let Some((error, quote)) = parse_icmp_error(bytes) else {
            return;
        };
        let Some((local, remote)) = bytes.get(quote).and_then(quoted_ends) else {
            return;
        };
        let ends = Ends { local, remote };
        match error {
            IcmpError::PacketTooBig { mtu } => self.streams.limit_mtu(now, ends, mtu),
            IcmpError::Unreachable(Unreachable::Port) => {
                self.streams.give_up(ends, CONNECTION_REFUSED);
            }
            IcmpError::Unreachable(_) => self.streams.give_up(ends, HOST_UNREACHABLE),
            IcmpError::TimeExceeded => {}
        }
    }

    /// Sends what connections have to send, and tells what happened to them, until nothing is left.
    fn pump(&mut self, now: Instant) {
        loop {
            while let Some((packet, dscp)) = self.streams.poll_packet(now) {
                let mut packet = packet;
                if dscp != 0 {
                    set_dscp(&mut packet, dscp);
                }
                self.send(now, packet);
            }
            match self.looped.pop_front() {
                Some(packet) => self.dispatch(now, &packet),
                None => break,
            }
        }
        self.reports.extend(self.streams.take_reports());
    }

    /// Sends a packet of its own.
    fn send(&mut self, now: Instant, bytes: Vec<u8>) {
        let Ok(info) = PacketInfo::parse(&bytes) else {
            return;
        };
        let dst = info.dst;
        if self.is_own(dst) {
            return self.looped.push_back(bytes);
        }
        let port = self.outlet(dst);
        let Ok(packet) = self.ledger.admit(now, bytes, Origin::Own) else {
            return;
        };
        self.enqueue(now, packet, port);
    }

    fn enqueue(&mut self, now: Instant, packet: Packet, port: PortId) {
        let queue = &mut self.ports[port.index()].queue;
        if queue.len() >= QUEUE_PACKETS {
            return self.ledger.drop(now, packet, DropCause::QueuePackets);
        }
        queue.push_back(packet);
    }

    fn port_event(&mut self, port: PortId, event: PortEvent) {
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
}

impl Node for Kernel {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        match input {
            Input::Frame { port, bytes, .. } => self.receive(now, port, bytes),
            Input::Port { port, event } => self.port_event(port, event),
            Input::Timeout => {
                for (id, event) in self.sockets.try_again(now, &self.around) {
                    self.reports.push(Report::Socket(id, event));
                }
                self.forget_unanswered(now);
                self.streams.wake_up(now);
                self.pump(now);
            }
            _ => {}
        }
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        let port = self.ports.get(port.index()).filter(|port| port.up)?;
        Some(Want {
            class: ClassId(0),
            octets: port.queue.front()?.octets() as u32,
            to: NeighbourId::PEER,
        })
    }

    fn reads(&self, _: PortId) -> bool {
        true
    }

    fn poll_transmit(
        &mut self,
        _: Instant,
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
        let meta = TxMeta::to_peer(ClassId(0));
        let fate = Fate::Forwarded {
            port: id,
            to: meta.to,
        };
        self.ledger.close_into(ended, packet, fate, out);
        Some(meta)
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.ledger.poll().map(Effect::Fate)
    }

    fn wake(&self) -> Option<Wake> {
        let at = [
            self.streams.wake(),
            self.sockets.wake(),
            self.questions.wake(),
        ];
        Some(Wake {
            at: at.into_iter().flatten().min()?,
            why: WakeReason::Retransmit,
        })
    }

    fn stats(&self) -> &Stats {
        self.ledger.stats()
    }

    fn check(&self) {
        let queued: usize = self.ports.iter().map(|port| port.queue.len()).sum();
        let held = self.ledger.held();
        assert_eq!(queued as u64, held, "a packet has no fate, or two");
    }
}
