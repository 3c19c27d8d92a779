//! Fetches a page as a browser does: the root first, then the rest over a few connections, each
//! used again for the next object.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use strait_core::Instant;
use strait_tcp::TcpState;
use strait_traffic::{Content, FlowLog, ObjectMark, TcpOptions};

use super::dns::Aim;
use super::http::{RESPONSE_HEAD_OCTETS, object_place, request};
use crate::host::{Application, ConnectionId, Event, Stack};

/// Ports that a client may use: its connections and those that replace failed ones. When they are
/// used up, the page stays incomplete.
const PORTS_MAX: u16 = 64;

/// An object under way.
struct Fetch {
    index: u32,
    /// The rest of the request.
    request: Vec<u8>,
    /// Octets of the response's header still to come.
    head_left: usize,
    /// Octets of the object that have arrived.
    arrived: u64,
}

pub(super) struct PageClient {
    log: FlowLog,
    ends: (SocketAddr, SocketAddr),
    start: Option<Instant>,
    sizes: Vec<u64>,
    connections_max: usize,
    options: TcpOptions,
    content: Content,
    /// Objects that nobody fetches yet.
    waiting: VecDeque<u32>,
    /// Connections and what each of them fetches.
    fetches: BTreeMap<ConnectionId, Option<Fetch>>,
    done: usize,
    ports_used: u16,
}

impl PageClient {
    pub(super) fn new(
        mut log: FlowLog,
        ends: (SocketAddr, SocketAddr),
        start: Instant,
        sizes: Vec<u64>,
        connections: u32,
        options: &TcpOptions,
        content: Content,
    ) -> Self {
        log.transfer();
        Self {
            log,
            ends,
            start: Some(start),
            // Nothing but the root is known before it has arrived.
            waiting: VecDeque::from([0]),
            sizes,
            connections_max: connections as usize,
            options: options.clone(),
            content,
            fetches: BTreeMap::new(),
            done: 0,
            ports_used: 0,
        }
    }

    /// Opens as many connections as there are objects for.
    fn open(&mut self, now: Instant, stack: &mut Stack) {
        let idle = self
            .fetches
            .values()
            .filter(|fetch| fetch.is_none())
            .count();
        let wanted = self.waiting.len().saturating_sub(idle);
        let room = self.connections_max.saturating_sub(self.fetches.len());
        for _ in 0..wanted.min(room) {
            if self.ports_used == PORTS_MAX {
                return;
            }
            let port = self.ends.0.port().wrapping_add(self.ports_used);
            self.ports_used += 1;
            let local = SocketAddr::new(self.ends.0.ip(), port);
            match stack.connect(now, local, self.ends.1, &self.options) {
                Ok(id) => {
                    self.fetches.insert(id, None);
                }
                Err(error) => {
                    let transfer = self.log.transfer();
                    transfer.failed_connections += 1;
                    transfer.error = Some(error);
                }
            }
        }
    }

    fn work(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        if !self.fetches.contains_key(&id) {
            return;
        }
        loop {
            let Some(endpoint) = stack.connection(id) else {
                return;
            };
            if endpoint.state() != TcpState::Established {
                return;
            }
            self.log
                .transfer()
                .connected_ns
                .get_or_insert(now.as_nanos());
            let Some(slot) = self.fetches.get_mut(&id) else {
                return;
            };
            let Some(fetch) = slot.as_mut() else {
                let Some(index) = self.waiting.pop_front() else {
                    return;
                };
                let octets = self.sizes.get(index as usize).copied().unwrap_or(0);
                *slot = Some(Fetch {
                    index,
                    request: request(index, octets),
                    head_left: RESPONSE_HEAD_OCTETS,
                    arrived: 0,
                });
                continue;
            };
            let asked = endpoint.send(&fetch.request);
            fetch.request.drain(..asked);
            let size = self.sizes.get(fetch.index as usize).copied().unwrap_or(0);
            let mut buffer = [0; 4096];
            let wanted = (fetch.head_left as u64).saturating_add(size - fetch.arrived);
            let wanted = wanted.min(buffer.len() as u64) as usize;
            let count = endpoint.recv(&mut buffer[..wanted]);
            let head = count.min(fetch.head_left);
            fetch.head_left -= head;
            let body = &buffer[head..count];
            let place = object_place(fetch.index) + fetch.arrived;
            let wrong = self.content.count_wrong(place, body);
            fetch.arrived += body.len() as u64;
            let complete = fetch.head_left == 0 && fetch.arrived == size;
            let index = fetch.index;
            if complete {
                *slot = None;
            }
            self.note(now, body.len() as u64, wrong);
            if complete {
                self.complete(now, index, size, stack);
            } else if count == 0 {
                return;
            }
        }
    }

    fn note(&mut self, now: Instant, octets: u64, wrong: u64) {
        if octets == 0 {
            return;
        }
        let before = self.log.transfer().octets;
        self.log.received(now, before, octets as u32);
        let transfer = self.log.transfer();
        transfer.octets += octets;
        transfer.wrong_octets += wrong;
    }

    fn complete(&mut self, now: Instant, index: u32, octets: u64, stack: &mut Stack) {
        let mark = ObjectMark {
            index,
            at_ns: now.as_nanos(),
            octets,
        };
        self.log.transfer().objects.push(mark);
        self.done += 1;
        if index == 0 {
            self.waiting.extend(1..self.sizes.len() as u32);
            self.open(now, stack);
        }
        if self.done == self.sizes.len() {
            self.log.transfer().finished_ns = Some(now.as_nanos());
            for id in self.fetches.keys() {
                if let Some(endpoint) = stack.connection(*id) {
                    endpoint.close();
                }
            }
        }
    }

    /// What a lost connection was fetching is fetched again from the beginning, by one that idles
    /// or a new one.
    fn lost(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        if let Some(Some(fetch)) = self.fetches.remove(&id) {
            self.waiting.push_front(fetch.index);
        }
        let idle = self.fetches.iter().filter(|(_, fetch)| fetch.is_none());
        let idle: Vec<ConnectionId> = idle.map(|(id, _)| *id).collect();
        for id in idle {
            self.work(now, id, stack);
        }
        self.open(now, stack);
    }
}

impl Aim for PageClient {
    fn begin(&mut self, now: Instant) {
        self.log.transfer().started_ns = Some(now.as_nanos());
    }

    fn aim(&mut self, _now: Instant, to: IpAddr) {
        self.ends.1.set_ip(to);
    }
}

impl Application for PageClient {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.start.is_some_and(|start| start <= now) => {
                self.start = None;
                let started_ns = &mut self.log.transfer().started_ns;
                started_ns.get_or_insert(now.as_nanos());
                self.open(now, stack);
            }
            Event::Ready(id) => self.work(now, id, stack),
            Event::Closed { connection, error } => {
                let counters = stack.tcp_counters(connection);
                let transfer = self.log.transfer();
                transfer.tcp.merge(&counters);
                transfer.failed_connections += u64::from(error.is_some());
                transfer.error = error.or(transfer.error);
                self.lost(now, connection, stack);
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.start
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}
