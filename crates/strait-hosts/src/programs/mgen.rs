//! The flows of an MGEN script between simulated hosts.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use strait_core::{Duration, Instant};
use strait_tcp::TcpState;
use strait_traffic::mgen::{Action, FlowOptions, Player, Protocol};
use strait_traffic::{FlowLog, MgenTraffic, TcpOptions, flow_key};
use strait_wire::mgen::{FLAG_CONTINUES, Message, SentAt, piece_octets, pieces};

use crate::host::{Application, ConnectionId, Event, Stack};

/// Messages of a TCP flow that may wait for their connection, if the script has no QUEUE: ten
/// seconds of a hundred a second.
const QUEUE_MESSAGES: usize = 1000;
/// Flows without limit fill the host's output queue up to here, at every `REFILL`: more than its
/// LAN carries in the meantime unless packets are tiny.
const QUEUED_PACKETS: usize = 64;
const REFILL: Duration = Duration::from_millis(1);
/// Octets that move between application and endpoint at once.
const CHUNK_OCTETS: usize = 16_384;

/// A flow's connection, and what waits for it.
struct Outlet {
    connection: Option<ConnectionId>,
    dst: SocketAddr,
    /// The user's own octets in each message.
    data: Vec<u8>,
    /// Messages that are due: number, octets.
    waiting: VecDeque<(u32, u64)>,
    /// Octets made but not taken yet.
    chunk: Vec<u8>,
    /// Pieces of the message at the front that aren't made yet.
    left: Vec<(usize, u8)>,
    /// The flow is off: close when all is sent.
    closing: bool,
}

/// Plays a script.
pub(super) struct MgenSender {
    log: FlowLog,
    player: Player,
    stop: Instant,
    dscp: u8,
    addresses: Vec<IpAddr>,
    ports: BTreeMap<u32, u16>,
    options: TcpOptions,
    outlets: BTreeMap<u32, Outlet>,
    /// When flows without limit may send again.
    refill: Option<Instant>,
    message: Vec<u8>,
}

impl MgenSender {
    pub(super) fn new(
        log: FlowLog,
        traffic: &MgenTraffic,
        (start, stop): (Instant, Instant),
        (seed, name): (u64, &str),
        dscp: u8,
        (addresses, ports): (Vec<IpAddr>, BTreeMap<u32, u16>),
    ) -> Self {
        let captures = traffic.captures.clone();
        Self {
            log,
            player: Player::new(&traffic.script, captures, start, seed, name),
            stop,
            dscp,
            addresses,
            ports,
            options: traffic.options.clone(),
            outlets: BTreeMap::new(),
            refill: None,
            message: Vec::new(),
        }
    }

    fn play(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(action) = self.player.poll(now) {
            self.act(&action, now, stack);
        }
        self.refill = None;
        let unlimited: Vec<u32> = self.player.unlimited().map(|(flow, _)| flow).collect();
        for flow in unlimited {
            self.refill = Some(now + REFILL);
            while self.has_room(flow, stack)
                && let Some(action) = self.player.poll_unlimited(now, flow)
            {
                self.act(&action, now, stack);
            }
        }
        while let Some(action) = self.player.poll(now) {
            self.act(&action, now, stack);
        }
    }

    fn has_room(&self, flow: u32, stack: &Stack) -> bool {
        match self.outlets.get(&flow) {
            Some(outlet) => outlet.waiting.is_empty(),
            None => stack.queued() < QUEUED_PACKETS,
        }
    }

    fn act(&mut self, action: &Action, now: Instant, stack: &mut Stack) {
        match *action {
            Action::On(flow) => self.begin(now, flow, stack),
            Action::Send {
                flow,
                sequence,
                octets,
                ..
            } => self.send(now, flow, (sequence, octets), stack),
            Action::Off(flow) => {
                if let Some(outlet) = self.outlets.get_mut(&flow) {
                    outlet.closing = true;
                    self.write(now, flow, stack);
                }
            }
            // Ports are the receiver's here, and options are looked up when they are needed.
            _ => {}
        }
    }

    /// Own and other end of a flow.
    fn ends(&self, flow: u32, options: &FlowOptions) -> Option<(SocketAddr, SocketAddr)> {
        let dst = options.dst?;
        let same = |address: &&IpAddr| address.is_ipv4() == dst.is_ipv4();
        let src = *self.addresses.iter().find(same)?;
        Some((SocketAddr::new(src, *self.ports.get(&flow)?), dst))
    }

    fn code_point(&self, options: &FlowOptions) -> u8 {
        options.tos.map_or(self.dscp, |tos| tos >> 2)
    }

    fn begin(&mut self, now: Instant, flow: u32, stack: &mut Stack) {
        let Some(options) = self.player.flow(flow).map(|flow| flow.options.clone()) else {
            return;
        };
        if options.protocol != Some(Protocol::Tcp) {
            return;
        }
        let tcp = TcpOptions {
            dscp: self.code_point(&options),
            ..self.options.clone()
        };
        let Some((near, dst)) = self.ends(flow, &options) else {
            return;
        };
        let connection = stack.connect(now, near, dst, &tcp).ok();
        if connection.is_none() {
            self.log.count("failed_connections");
        }
        let outlet = Outlet {
            connection,
            dst,
            data: options.data.unwrap_or_default(),
            waiting: VecDeque::new(),
            chunk: Vec::new(),
            left: Vec::new(),
            closing: false,
        };
        self.outlets.insert(flow, outlet);
    }

    fn send(&mut self, now: Instant, flow: u32, (sequence, octets): (u32, u64), stack: &mut Stack) {
        let Some(options) = self.player.flow(flow).map(|flow| flow.options.clone()) else {
            return;
        };
        if let Some(outlet) = self.outlets.get_mut(&flow) {
            let queue = options.queue.filter(|queue| *queue > 0);
            let queue = queue.map_or(QUEUE_MESSAGES, |queue| queue as usize);
            if outlet.connection.is_none() || outlet.waiting.len() >= queue {
                self.log.count("not_sent");
                return self.player.not_sent(flow);
            }
            outlet.waiting.push_back((sequence, octets));
            return self.write(now, flow, stack);
        }
        let Some((src, dst)) = self.ends(flow, &options) else {
            return self.log.count("not_sent");
        };
        let mut message = Message::new(flow, sequence, SentAt::from_ns(now.as_nanos()), dst);
        message.data = options.data.as_deref().unwrap_or_default();
        let made = message.emit(octets as usize, &mut self.message).is_ok();
        let marks = (self.code_point(&options), options.label.unwrap_or(0));
        if made && stack.send_labelled_udp(now, (src, dst), marks, &self.message) {
            self.log.sent(now, flow_key(flow, sequence), octets as u32);
        } else {
            self.log.count("not_sent");
            self.player.not_sent(flow);
        }
    }

    /// Gives a flow's connection what waits for it.
    fn write(&mut self, now: Instant, flow: u32, stack: &mut Stack) {
        let Some(outlet) = self.outlets.get_mut(&flow) else {
            return;
        };
        let Some(endpoint) = outlet.connection.and_then(|id| stack.connection(id)) else {
            return;
        };
        if endpoint.state() != TcpState::Established {
            return;
        }
        loop {
            if outlet.chunk.is_empty() {
                let Some((sequence, octets)) = outlet.waiting.front().copied() else {
                    break;
                };
                if outlet.left.is_empty() {
                    outlet.left = pieces(octets).collect();
                    outlet.left.reverse();
                    self.log.sent(now, flow_key(flow, sequence), octets as u32);
                }
                let Some((octets, flags)) = outlet.left.pop() else {
                    break;
                };
                if outlet.left.is_empty() {
                    outlet.waiting.pop_front();
                }
                let sent = SentAt::from_ns(now.as_nanos());
                let mut message = Message::new(flow, sequence, sent, outlet.dst);
                message.flags = flags;
                message.data = &outlet.data;
                if message.emit(octets, &mut outlet.chunk).is_err() {
                    self.log.count("not_sent");
                }
            }
            let taken = endpoint.send(&outlet.chunk);
            if taken == 0 {
                return;
            }
            outlet.chunk.drain(..taken);
        }
        if outlet.closing {
            endpoint.close();
        }
    }

    fn flow_on(&self, id: ConnectionId) -> Option<u32> {
        let of = |(flow, outlet): (&u32, &Outlet)| (outlet.connection == Some(id)).then_some(*flow);
        self.outlets.iter().find_map(of)
    }
}

impl Application for MgenSender {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if now < self.stop => self.play(now, stack),
            Event::Ready(id) => {
                if let Some(flow) = self.flow_on(id) {
                    self.write(now, flow, stack);
                }
            }
            Event::Closed { connection, error } => {
                if let Some(flow) = self.flow_on(connection)
                    && let Some(outlet) = self.outlets.get_mut(&flow)
                {
                    outlet.connection = None;
                    if error.is_some() {
                        self.log.count("failed_connections");
                    }
                }
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        let next = self.player.wake().into_iter().chain(self.refill).min();
        next.filter(|next| *next < self.stop)
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}

/// Takes in what a script sends.
pub(super) struct MgenReceiver {
    log: FlowLog,
    /// By connection: what has arrived of the next piece, and octets of the pieces before it.
    streams: BTreeMap<ConnectionId, (Vec<u8>, u64)>,
    buffer: Vec<u8>,
}

impl MgenReceiver {
    pub(super) fn new(log: FlowLog) -> Self {
        Self {
            log,
            streams: BTreeMap::new(),
            buffer: vec![0; CHUNK_OCTETS],
        }
    }

    fn read(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let Some(endpoint) = stack.connection(id) else {
            return;
        };
        loop {
            let count = endpoint.recv(&mut self.buffer);
            if count == 0 {
                break;
            }
            stream.0.extend_from_slice(&self.buffer[..count]);
            if take_pieces(now, stream, &mut self.log).is_none() {
                // Nothing tells where the next message begins.
                self.log.count("unusable");
                endpoint.abort();
                break;
            }
        }
        if endpoint.is_drained() {
            endpoint.close();
        }
    }
}

/// Notes all messages that are complete; `None` if the stream makes no sense.
fn take_pieces(
    now: Instant,
    (octets, before): &mut (Vec<u8>, u64),
    log: &mut FlowLog,
) -> Option<()> {
    while let Some(length) = piece_octets(octets).ok()? {
        let Some(piece) = octets.get(..length) else {
            break;
        };
        let message = Message::parse(piece).ok()?;
        *before += length as u64;
        if message.flags & FLAG_CONTINUES == 0 {
            let key = flow_key(message.flow, message.sequence);
            log.received(now, key, std::mem::take(before) as u32);
        }
        octets.drain(..length);
    }
    Some(())
}

impl Application for MgenReceiver {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Datagram { payload, .. } => match Message::parse(payload) {
                Ok(message) => {
                    let key = flow_key(message.flow, message.sequence);
                    self.log.received(now, key, payload.len() as u32);
                }
                Err(_) => self.log.count("unusable"),
            },
            Event::Accepted(id) => {
                self.streams.insert(id, (Vec::new(), 0));
            }
            Event::Ready(id) => self.read(now, id, stack),
            Event::Closed { connection, .. } => {
                self.read(now, connection, stack);
                self.streams.remove(&connection);
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        None
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}
