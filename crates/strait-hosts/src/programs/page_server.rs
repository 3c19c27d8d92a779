//! Answers requests for objects, on any number of connections.

use std::collections::BTreeMap;

use strait_core::Instant;
use strait_traffic::{Content, FlowLog};

use super::http::{REQUEST_OCTETS, Wire, object_place, parse_request, response_head};
use crate::host::{Application, ConnectionId, Event, Stack};

/// Octets that move between application and endpoint at once.
const CHUNK_OCTETS: usize = 4096;

/// One persistent connection: requests are answered one after the other.
struct Service {
    wire: Wire,
    /// Requests that aren't answered yet.
    requests: Vec<u8>,
    /// Ready to send.
    chunk: Vec<u8>,
    /// Content not yet in `chunk`: where it begins and how much is left.
    body: (u64, u64),
    broken: bool,
}

pub(super) struct PageServer {
    log: FlowLog,
    content: Content,
    tls: bool,
    services: BTreeMap<ConnectionId, Service>,
}

impl PageServer {
    pub(super) fn new(mut log: FlowLog, content: Content, tls: bool) -> Self {
        log.transfer();
        Self {
            log,
            content,
            tls,
            services: BTreeMap::new(),
        }
    }

    fn work(&mut self, id: ConnectionId, stack: &mut Stack) {
        let Some(service) = self.services.get_mut(&id) else {
            return;
        };
        let Some(endpoint) = stack.connection(id) else {
            return;
        };
        if service.broken || service.wire.work(endpoint, &mut service.requests).is_err() {
            service.broken = true;
            return;
        }
        loop {
            if service.chunk.is_empty() && service.body.1 > 0 {
                let count = service.body.1.min(CHUNK_OCTETS as u64);
                self.content
                    .append(service.body.0, count as usize, &mut service.chunk);
                service.body = (service.body.0 + count, service.body.1 - count);
            }
            if !service.chunk.is_empty() {
                let count = service.wire.send(endpoint, &service.chunk);
                if count == 0 {
                    return;
                }
                service.chunk.drain(..count);
                continue;
            }
            if service.requests.len() < REQUEST_OCTETS {
                if service.wire.has_ended(endpoint) {
                    service.wire.close(endpoint);
                }
                return;
            }
            let request: Vec<u8> = service.requests.drain(..REQUEST_OCTETS).collect();
            let Some((index, octets)) = parse_request(&request) else {
                service.broken = true;
                endpoint.abort();
                return;
            };
            service.chunk = response_head(octets);
            service.body = (object_place(index), octets);
        }
    }
}

impl Application for PageServer {
    fn handle(&mut self, _: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Accepted(id) => {
                let service = Service {
                    wire: Wire::server(self.tls),
                    requests: Vec::new(),
                    chunk: Vec::new(),
                    body: (0, 0),
                    broken: false,
                };
                self.services.insert(id, service);
            }
            Event::Ready(id) => self.work(id, stack),
            Event::Closed { connection, error } => {
                let counters = stack.tcp_counters(connection);
                let broken = self
                    .services
                    .remove(&connection)
                    .is_some_and(|service| service.broken);
                let transfer = self.log.transfer();
                transfer.tcp.merge(&counters);
                transfer.failed_connections += u64::from(error.is_some() || broken);
                transfer.error = error.or(transfer.error);
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
