//! A host: applications on top of sockets, behind the same contract as a gateway.

mod app;
mod fragments;
mod schedule;
mod stack;

use std::net::{IpAddr, SocketAddr};

use strait_core::fate::Origin;
use strait_core::node::{Command, PortEvent};
use strait_core::rate::LineRate;
use strait_core::stats::{PortStats, Stats};
use strait_core::{
    ClassId, DropCause, Duration, Effect, Fate, Input, Instant, Node, PortId, Room, TxMeta, Wake,
    WakeReason, Want,
};
use strait_tcp::TcpCounters;
use strait_traffic::{Family, FlowLog};
use strait_wire::ip::{
    EchoKind, Fragment, IPV6_HEADER_OCTETS, IcmpError, PacketInfo, Unreachable, parse_echo,
    parse_icmp_error, protocol, udp_payload,
};

pub use self::app::{AppId, Application, ConnectionId, Event};
use self::fragments::Fragments;
use self::schedule::Owner;
use self::stack::Notice;
pub use self::stack::{HostCounters, Stack};

/// What a host is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its name, part of the names of its random streams.
    pub name: String,
    /// Its addresses of both families.
    pub addresses: Vec<IpAddr>,
    /// The largest packet that it sends, in octets.
    pub mtu: u32,
    /// Packets that may wait to be pulled. A LAN is faster than any application here, so this is
    /// reached only when the port is down or badly overloaded; 1000 is the usual length of an
    /// Ethernet device's queue.
    pub queue_packets: usize,
    /// Ports, normally one. Everything leaves by the first.
    pub ports: u8,
    /// Seed of the run.
    pub seed: u64,
    /// 0 for the first start, 1 after the first restart.
    pub incarnation: u32,
}

impl HostConfig {
    /// Defaults for everything else.
    pub fn new(name: impl Into<String>, addresses: Vec<IpAddr>, seed: u64) -> Self {
        Self {
            name: name.into(),
            addresses,
            mtu: 1500,
            queue_packets: 1000,
            ports: 1,
            seed,
            incarnation: 0,
        }
    }
}

/// A host of the simulated world.
///
/// Every packet that it takes in ends as delivered, also one that no application waits for; what
/// isn't addressed to it has no route. Every packet that it makes ends as forwarded when pulled.
pub struct Host {
    name: String,
    incarnation: u32,
    stack: Stack,
    apps: Vec<Box<dyn Application>>,
    /// Whether the first port takes packets; up until told otherwise.
    up: bool,
    tx_rate: Option<LineRate>,
    mtu: u32,
    fragments: Fragments,
    stopped: bool,
}

impl Host {
    /// A host without applications.
    pub fn new(config: &HostConfig) -> Self {
        let ports = (0..config.ports.max(1)).map(|port| PortStats {
            name: format!("port{port}"),
            up: true,
            ..PortStats::default()
        });
        let stats = Stats {
            ports: ports.collect(),
            ..Stats::default()
        };
        Self {
            name: config.name.clone(),
            incarnation: config.incarnation,
            stack: Stack::new(config, stats),
            apps: Vec::new(),
            up: true,
            tx_rate: None,
            mtu: config.mtu,
            fragments: Fragments::default(),
            stopped: false,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// 0 for the first start, 1 after the first restart.
    pub const fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Its addresses.
    pub fn addresses(&self) -> &[IpAddr] {
        &self.stack.addresses
    }

    /// Its first address of a family.
    pub fn address(&self, family: Family) -> Option<IpAddr> {
        let ipv4 = family == Family::V4;
        self.stack
            .addresses
            .iter()
            .copied()
            .find(|address| address.is_ipv4() == ipv4)
    }

    /// Counters that aren't a packet's fate.
    pub const fn counters(&self) -> &HostCounters {
        &self.stack.counters
    }

    /// What all TCP connections that it has now have counted.
    pub fn tcp_totals(&self) -> TcpCounters {
        self.stack.tcp_totals()
    }

    /// Starts an application: `set_up` takes ports for it and makes it.
    pub fn install<A: Application + 'static>(
        &mut self,
        set_up: impl FnOnce(&mut Stack) -> A,
    ) -> AppId {
        let id = AppId(self.apps.len() as u32);
        self.stack.current = id;
        let app = set_up(&mut self.stack);
        self.stack.schedule.set(Owner::App(id), app.wake());
        self.apps.push(Box::new(app));
        id
    }

    /// What the applications have measured, in the order of installation.
    pub fn logs(&self) -> impl Iterator<Item = &FlowLog> {
        self.apps.iter().map(|app| app.log())
    }

    /// The messages in the host's mailboxes, and when they came there.
    pub fn mail(&self) -> impl Iterator<Item = &(Instant, Vec<u8>)> {
        self.apps.iter().flat_map(|app| app.mail())
    }

    fn call(&mut self, now: Instant, id: AppId, event: Event<'_>) {
        let Some(app) = self.apps.get_mut(id.0 as usize) else {
            return;
        };
        self.stack.current = id;
        app.handle(now, event, &mut self.stack);
        self.stack.schedule.set(Owner::App(id), app.wake());
    }

    /// Tells applications of changes and sends what they and their connections have to send,
    /// until nothing is left.
    fn pump(&mut self, now: Instant) {
        loop {
            if let Some((app, notice)) = self.stack.notices.pop_front() {
                match notice {
                    Notice::Accepted(id) => self.call(now, app, Event::Accepted(id)),
                    Notice::Ready(id) => self.call(now, app, Event::Ready(id)),
                    Notice::Closed(connection, error) => {
                        self.call(now, app, Event::Closed { connection, error });
                        self.stack.forget(connection);
                    }
                }
            } else if !self.stack.flush_next(now) {
                return;
            }
        }
    }

    fn timeout(&mut self, now: Instant) {
        while let Some(owner) = self.stack.schedule.pop_due(now) {
            match owner {
                Owner::App(id) => self.call(now, id, Event::Timeout),
                Owner::Connection(id) => self.stack.touch(id),
            }
            self.pump(now);
        }
    }

    fn receive(&mut self, now: Instant, port: PortId, frame: &[u8]) {
        if let Some(stats) = self.stack.ledger.stats_mut().ports.get_mut(port.index()) {
            stats.frames_in += 1;
            stats.octets_in += frame.len() as u64;
        }
        let mut bytes = self.stack.buffer();
        bytes.extend_from_slice(frame);
        let Ok(packet) = self.stack.ledger.admit(now, bytes, Origin::Port(port)) else {
            return;
        };
        let info = *packet.info();
        if !self.stack.addresses.contains(&info.dst) {
            self.stack.ledger.drop(now, packet, DropCause::NoRoute);
            return;
        }
        let bytes = self
            .stack
            .ledger
            .close(now, packet, Fate::Delivered(PortId::HOST));
        match Fragment::parse(&bytes) {
            Some(part) => {
                if let Some(whole) = self.fragments.take(now, &part, &bytes)
                    && let Ok(info) = PacketInfo::parse(&whole)
                {
                    self.dispatch(now, &info, &whole);
                }
            }
            None => self.dispatch(now, &info, &bytes),
        }
        self.stack.recycle(bytes);
        self.pump(now);
    }

    fn dispatch(&mut self, now: Instant, info: &PacketInfo, bytes: &[u8]) {
        match (info.protocol, info.ports) {
            (protocol::UDP, _) => self.datagram(now, info, bytes),
            (protocol::TCP, Some((from, to))) => {
                let ends = (
                    SocketAddr::new(info.dst, to),
                    SocketAddr::new(info.src, from),
                );
                self.stack.handle_tcp(now, bytes, ends, info.dscp);
            }
            (protocol::ICMP | protocol::ICMPV6, _) => self.icmp(now, info, bytes),
            (protocol::ESP, _) => self.esp(now, info, bytes),
            _ => self.stack.counters.unusable += 1,
        }
    }

    fn datagram(&mut self, now: Instant, info: &PacketInfo, bytes: &[u8]) {
        let Some(((from, to), payload)) = udp_payload(bytes) else {
            self.stack.counters.unusable += 1;
            return;
        };
        if let Some(app) = self.stack.udp_owner(to) {
            let from = SocketAddr::new(info.src, from);
            self.call(
                now,
                app,
                Event::Datagram {
                    from,
                    port: to,
                    dscp: info.dscp,
                    hop_limit: info.hop_limit,
                    payload,
                },
            );
        }
    }

    fn esp(&mut self, now: Instant, info: &PacketInfo, bytes: &[u8]) {
        let header = if info.src.is_ipv4() {
            usize::from(bytes[0] & 0x0f) * 4
        } else {
            IPV6_HEADER_OCTETS
        };
        let (Some(index), Some(payload)) = (info.spi, bytes.get(header..)) else {
            self.stack.counters.unusable += 1;
            return;
        };
        if let Some(app) = self.stack.esp_owner(index) {
            let from = SocketAddr::new(info.src, 0);
            self.call(
                now,
                app,
                Event::Datagram {
                    from,
                    port: 0,
                    dscp: info.dscp,
                    hop_limit: info.hop_limit,
                    payload,
                },
            );
        }
    }

    fn icmp(&mut self, now: Instant, info: &PacketInfo, bytes: &[u8]) {
        if let Some(echo) = parse_echo(bytes) {
            match echo.kind {
                EchoKind::Request => self.stack.answer_echo(now, bytes, info, &echo),
                EchoKind::Reply => {
                    if let Some(app) = self.stack.echo_owner(echo.ident) {
                        let payload = &bytes[echo.payload];
                        let (from, sequence) = (info.src, echo.sequence);
                        self.call(
                            now,
                            app,
                            Event::EchoReply {
                                from,
                                sequence,
                                payload,
                            },
                        );
                    }
                }
            }
        } else if let Some((error, quoted)) = parse_icmp_error(bytes) {
            self.stack.counters.icmp_errors += 1;
            let ends = bytes.get(quoted).and_then(quoted_ends);
            match (error, ends) {
                (IcmpError::PacketTooBig { mtu }, Some(ends)) => {
                    self.stack.handle_path_mtu(now, ends, mtu);
                }
                // That no way leads there now may pass, as where a link is cut: RFC 1122 (4.2.3.9)
                // has a host go on trying.
                (IcmpError::Unreachable(Unreachable::AdminProhibited), Some(ends)) => {
                    self.stack.handle_unreachable(ends);
                }
                _ => {}
            }
        } else {
            self.stack.counters.unusable += 1;
        }
    }

    fn port_event(&mut self, now: Instant, port: PortId, event: PortEvent) {
        if port != PortId::HOST {
            return;
        }
        match event {
            PortEvent::Up(state) | PortEvent::Changed(state) => {
                self.set_up(true);
                self.tx_rate = Some(state.tx_rate);
                self.stack
                    .limit_mtu(now, self.mtu.min(state.frame_octets_max));
            }
            PortEvent::Down(_) => self.set_up(false),
            PortEvent::Carrier(_)
            | PortEvent::Drained
            | PortEvent::Neighbour(..)
            | PortEvent::NeighbourRate(..) => {}
        }
    }

    fn set_up(&mut self, up: bool) {
        let was = std::mem::replace(&mut self.up, up);
        if let Some(stats) = self.stack.ledger.stats_mut().ports.first_mut() {
            stats.up = up;
            stats.presence.downs += u64::from(was && !up);
        }
    }

    fn command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Stop => {
                self.stopped = true;
                self.stack.drop_all(now, DropCause::Stopped);
            }
            // A host has no switch.
            Command::Mail(_) => {}
        }
    }
}

/// Local and remote end of the connection whose packet an ICMP error quotes: the quote is one of
/// this host's own packets, usually cut short. Without extension headers, as hosts send them.
pub fn quoted_ends(quote: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
    let array = |at: usize| quote.get(at..at + 16)?.first_chunk::<16>().copied();
    let word = |at: usize| {
        Some(u16::from_be_bytes(
            *quote.get(at..at + 2)?.first_chunk::<2>()?,
        ))
    };
    let (src, dst, ports) = match quote.first()? >> 4 {
        4 => {
            let four = |at: usize| quote.get(at..at + 4)?.first_chunk::<4>().copied();
            let header = usize::from(quote[0] & 0x0f) * 4;
            (IpAddr::from(four(12)?), IpAddr::from(four(16)?), header)
        }
        6 => (IpAddr::from(array(8)?), IpAddr::from(array(24)?), 40),
        _ => return None,
    };
    Some((
        SocketAddr::new(src, word(ports)?),
        SocketAddr::new(dst, word(ports + 2)?),
    ))
}

impl Node for Host {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.stopped {
            return;
        }
        match input {
            Input::Timeout => {}
            Input::Frame { port, bytes, .. } => self.receive(now, port, bytes),
            Input::Port { port, event } => self.port_event(now, port, event),
            Input::Command(command) => self.command(now, command),
            // A host has no storage, no routing and no streams of the driver's.
            Input::TxDone { .. }
            | Input::Route(_)
            | Input::Routed { .. }
            | Input::Stream { .. }
            | Input::Socket { .. }
            | Input::Datagram { .. }
            | Input::Stored { .. }
            | Input::Loaded { .. }
            | Input::Worked { .. }
            | Input::Wall(_) => {}
        }
        // Whatever the reason of the call: what is due is done, so no wake-up is left behind.
        if !self.stopped {
            self.timeout(now);
        }
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        let packet = self
            .stack
            .front()
            .filter(|_| port == PortId::HOST && self.up)?;
        Some(Want {
            class: packet.class,
            octets: packet.octets() as u32,
            to: packet.to,
        })
    }

    fn reads(&self, _: PortId) -> bool {
        true
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        use strait_core::delay::DelayPart;
        let octets = self.wants(port)?.octets;
        if octets as usize > room.octets {
            return None;
        }
        let mut packet = self.stack.pop_front()?;
        let starts = room.starts.max(now);
        packet.enter(starts, DelayPart::Line);
        let sending = self
            .tx_rate
            .map_or(Duration::ZERO, |rate| rate.time_for(octets.into()));
        let meta = TxMeta::to_peer(ClassId::default());
        out.extend_from_slice(packet.bytes());
        let fate = Fate::Forwarded { port, to: meta.to };
        let bytes = self.stack.ledger.close(starts + sending, packet, fate);
        self.stack.recycle(bytes);
        if let Some(stats) = self.stack.ledger.stats_mut().ports.get_mut(port.index()) {
            stats.frames_out += 1;
            stats.octets_out += u64::from(octets);
            stats.busy_ns += sending.as_nanos() as u64;
        }
        Some(meta)
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        self.stack.ledger.poll().map(Effect::Fate)
    }

    fn wake(&self) -> Option<Wake> {
        let at = self.stack.schedule.next().filter(|_| !self.stopped)?;
        Some(Wake {
            at,
            why: WakeReason::Application,
        })
    }

    fn stats(&self) -> &Stats {
        self.stack.ledger.stats()
    }

    fn check(&self) {
        assert_eq!(
            self.stack.ledger.held(),
            self.stack.queued() as u64,
            "every open packet of host {} waits in its queue",
            self.name
        );
    }
}

#[cfg(test)]
pub(crate) mod harness;
#[cfg(test)]
mod tests;
