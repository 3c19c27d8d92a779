//! One transfer over one connection.

use std::net::SocketAddr;

use strait_core::Instant;
use strait_tcp::TcpState;
use strait_traffic::{Content, FlowLog, TcpOptions};

use crate::host::{Application, ConnectionId, Event, Stack};

/// Octets that move between application and endpoint at once.
pub(super) const CHUNK_OCTETS: usize = 16_384;

/// Notes what the connection has counted and met.
pub(super) fn note(log: &mut FlowLog, id: ConnectionId, stack: &mut Stack) {
    let transfer = log.transfer();
    transfer.tcp = stack.tcp_counters(id);
    while let Some(event) = stack.tcp_event(id) {
        transfer.note(&event);
    }
}

/// Connects, sends all, closes.
pub(super) struct BulkSender {
    log: FlowLog,
    ends: (SocketAddr, SocketAddr),
    start: Option<Instant>,
    octets: u64,
    content: Content,
    options: TcpOptions,
    connection: Option<ConnectionId>,
    /// Octets that the endpoint has taken.
    taken: u64,
    /// Content made but not taken yet, from `taken` on.
    chunk: Vec<u8>,
}

impl BulkSender {
    pub(super) fn new(
        mut log: FlowLog,
        ends: (SocketAddr, SocketAddr),
        start: Instant,
        octets: u64,
        content: Content,
        options: &TcpOptions,
    ) -> Self {
        log.transfer();
        Self {
            log,
            ends,
            start: Some(start),
            octets,
            content,
            options: options.clone(),
            connection: None,
            taken: 0,
            chunk: Vec::new(),
        }
    }

    fn begin(&mut self, now: Instant, stack: &mut Stack) {
        self.start = None;
        self.log.transfer().started_ns = Some(now.as_nanos());
        match stack.connect(now, self.ends.0, self.ends.1, &self.options) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: strait_tcp::TcpError) {
        let transfer = self.log.transfer();
        transfer.error = Some(error);
        transfer.failed_connections += 1;
    }

    fn work(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        note(&mut self.log, id, stack);
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
        while self.taken < self.octets {
            if self.chunk.is_empty() {
                let count = (self.octets - self.taken).min(CHUNK_OCTETS as u64) as usize;
                self.content.append(self.taken, count, &mut self.chunk);
            }
            let count = endpoint.send(&self.chunk);
            if count == 0 {
                return;
            }
            self.taken += count as u64;
            self.chunk.drain(..count);
        }
        endpoint.close();
    }
}

impl Application for BulkSender {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.start.is_some_and(|start| start <= now) => {
                self.begin(now, stack);
            }
            Event::Ready(id) if self.connection == Some(id) => self.work(now, id, stack),
            Event::Closed { connection, error } if self.connection == Some(connection) => {
                note(&mut self.log, connection, stack);
                self.connection = None;
                if let Some(error) = error {
                    self.fail(error);
                }
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

/// Accepts connections, takes what comes and checks it.
pub(super) struct BulkReceiver {
    log: FlowLog,
    octets: u64,
    content: Content,
    connection: Option<ConnectionId>,
    buffer: Vec<u8>,
}

impl BulkReceiver {
    pub(super) fn new(mut log: FlowLog, octets: u64, content: Content) -> Self {
        log.transfer();
        Self {
            log,
            octets,
            content,
            connection: None,
            buffer: vec![0; CHUNK_OCTETS],
        }
    }

    fn work(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        note(&mut self.log, id, stack);
        let Some(endpoint) = stack.connection(id) else {
            return;
        };
        loop {
            let count = endpoint.recv(&mut self.buffer);
            if count == 0 {
                break;
            }
            let received = &self.buffer[..count];
            let before = self.log.transfer().octets;
            let wrong = self.content.count_wrong(before, received);
            self.log.received(now, before, count as u32);
            let transfer = self.log.transfer();
            transfer.octets += count as u64;
            transfer.wrong_octets += wrong;
        }
        if endpoint.is_drained() {
            endpoint.close();
        }
        let transfer = self.log.transfer();
        if transfer.octets >= self.octets && endpoint.state() != TcpState::Listening {
            transfer.finished_ns.get_or_insert(now.as_nanos());
        }
    }
}

impl Application for BulkReceiver {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            // One transfer, one connection; a second one would mix up the positions.
            Event::Accepted(id) => {
                if self.connection.is_none() && self.log.transfer().octets == 0 {
                    self.connection = Some(id);
                } else if let Some(endpoint) = stack.connection(id) {
                    endpoint.abort();
                }
            }
            Event::Ready(id) if self.connection == Some(id) => self.work(now, id, stack),
            Event::Closed { connection, error } if self.connection == Some(connection) => {
                self.work(now, connection, stack);
                self.connection = None;
                if let Some(error) = error {
                    let transfer = self.log.transfer();
                    transfer.error = Some(error);
                    transfer.failed_connections += 1;
                }
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
