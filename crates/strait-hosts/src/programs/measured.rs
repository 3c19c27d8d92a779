//! Measured transfers between two hosts.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use strait_core::Instant;
use strait_core::time::nanos;
use strait_tcp::{TcpEndpoint, TcpState};
use strait_traffic::measure::{Client, Due, Facts, Failure, Plan, Server, Verdict};
use strait_traffic::{FlowLog, TcpOptions};

use crate::host::{Application, ConnectionId, Event, Stack};

/// All hosts of a simulation have the same clock.
const CLOCK: u64 = 1;

/// Octets that move from an endpoint to an application at once.
const CHUNK_OCTETS: usize = 16_384;

/// The port of each transfer is another one, so that none has to wait for the last one's port.
const PORTS: u16 = 64;

fn facts(endpoint: &dyn TcpEndpoint, profile: &str) -> Facts {
    let counters = endpoint.counters();
    Facts {
        congestion: profile.into(),
        segments_out: counters.segments_out,
        retransmissions: counters.retransmissions,
        rtt_ns: endpoint.smoothed_rtt().map(nanos),
    }
}

/// Connects for one transfer after another.
pub(super) struct MeasureClient {
    log: FlowLog,
    ends: (SocketAddr, SocketAddr),
    options: TcpOptions,
    plans: VecDeque<Plan>,
    /// When the next transfer begins, between two of them.
    next: Option<Instant>,
    current: Option<(ConnectionId, Client)>,
    /// Transfers begun.
    begun: u16,
    buffer: Vec<u8>,
}

impl MeasureClient {
    pub(super) fn new(
        log: FlowLog,
        ends: (SocketAddr, SocketAddr),
        start: Instant,
        plans: Vec<Plan>,
        options: &TcpOptions,
    ) -> Self {
        Self {
            log,
            ends,
            options: options.clone(),
            next: (!plans.is_empty()).then_some(start),
            plans: plans.into(),
            current: None,
            begun: 0,
            buffer: vec![0; CHUNK_OCTETS],
        }
    }

    fn begin(&mut self, now: Instant, stack: &mut Stack) {
        self.next = None;
        let Some(plan) = self.plans.pop_front() else {
            return;
        };
        let mut client = Client::new(plan, CLOCK, now);
        let (mut near, far) = self.ends;
        near.set_port(near.port() + self.begun % PORTS);
        self.begun += 1;
        match stack.connect(now, near, far, &self.options) {
            Ok(connection) => self.current = Some((connection, client)),
            Err(error) => {
                client.fail(now, error.into());
                self.conclude(now, client, Facts::default());
            }
        }
    }

    fn conclude(&mut self, now: Instant, client: Client, facts: Facts) {
        self.log.measured.push(client.record(facts));
        self.next = (!self.plans.is_empty()).then_some(now);
    }

    /// Moves octets, as far as they go.
    fn work(&mut self, now: Instant, stack: &mut Stack) {
        let Some((id, mut client)) = self.current.take() else {
            return;
        };
        let Some(endpoint) = stack.connection(id) else {
            client.fail(now, Failure::Closed);
            return self.conclude(now, client, Facts::default());
        };
        if endpoint.state() == TcpState::Established {
            client.connected(now);
        }
        loop {
            let count = endpoint.recv(&mut self.buffer);
            if count == 0 {
                break;
            }
            client.receive(now, &self.buffer[..count]);
        }
        loop {
            let pending = client.pending();
            let count = if pending.is_empty() {
                0
            } else {
                endpoint.send(pending)
            };
            if count == 0 {
                break;
            }
            client.take(now, count);
        }
        if endpoint.is_drained() {
            client.fail(now, Failure::Closed);
        }
        if now >= client.deadline() {
            client.fail(now, Failure::TimedOut);
        }
        if !client.is_ended() {
            self.current = Some((id, client));
            return;
        }
        let facts = facts(endpoint, &self.options.profile);
        if client.is_complete() {
            endpoint.close();
        } else {
            endpoint.abort();
        }
        self.conclude(now, client, facts);
    }
}

impl Application for MeasureClient {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.next.is_some_and(|next| next <= now) => self.begin(now, stack),
            Event::Timeout => self.work(now, stack),
            Event::Ready(id) if self.current.as_ref().is_some_and(|it| it.0 == id) => {
                self.work(now, stack);
            }
            Event::Closed { connection, error }
                if self.current.as_ref().is_some_and(|it| it.0 == connection) =>
            {
                if let Some((_, mut client)) = self.current.take() {
                    client.fail(now, error.map_or(Failure::Closed, Failure::from));
                    self.conclude(now, client, Facts::default());
                }
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        let deadline = self.current.as_ref().map(|(_, client)| client.deadline());
        self.next.or(deadline)
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}

/// Serves every connection.
pub(super) struct MeasureServer {
    log: FlowLog,
    profile: String,
    connections: BTreeMap<ConnectionId, Server>,
    buffer: Vec<u8>,
}

impl MeasureServer {
    pub(super) fn new(log: FlowLog, options: &TcpOptions) -> Self {
        Self {
            log,
            profile: options.profile.clone(),
            connections: BTreeMap::new(),
            buffer: vec![0; CHUNK_OCTETS],
        }
    }

    fn work(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let (Some(server), Some(endpoint)) = (self.connections.get_mut(&id), stack.connection(id))
        else {
            return;
        };
        loop {
            let count = endpoint.recv(&mut self.buffer);
            server.receive(now, &self.buffer[..count]);
            match server.due() {
                Due::Answer => {
                    server.answer(now, Verdict::Admitted);
                }
                Due::Report => server.report(facts(endpoint, &self.profile)),
                Due::Close | Due::Nothing => {}
            }
            let pending = server.pending();
            let sent = if pending.is_empty() {
                0
            } else {
                endpoint.send(pending)
            };
            server.take(now, sent);
            if count == 0 && sent == 0 {
                break;
            }
        }
        if endpoint.is_drained() {
            server.end();
        }
        if server.due() == Due::Close {
            endpoint.close();
        }
    }
}

impl Application for MeasureServer {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            // The stack limits connections, and with them these.
            Event::Accepted(id) => {
                self.connections.insert(id, Server::new(CLOCK, u32::MAX));
            }
            Event::Ready(id) => self.work(now, id, stack),
            Event::Closed { connection, .. } => {
                self.connections.remove(&connection);
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
