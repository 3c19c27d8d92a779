//! Answers requests for objects, on any number of connections.

use std::collections::BTreeMap;

use strait_core::Instant;
use strait_traffic::{Content, FlowLog};

use super::http::{REQUEST_OCTETS, object_place, parse_request, response_head};
use crate::host::{Application, ConnectionId, Event, Stack};

/// Octets that move between application and endpoint at once.
const CHUNK_OCTETS: usize = 4096;

/// One persistent connection: requests are answered one after the other.
#[derive(Default)]
struct Service {
    /// The request so far; never more than one.
    request: Vec<u8>,
    /// Ready to send.
    chunk: Vec<u8>,
    /// Content not yet in `chunk`: where it begins and how much is left.
    body: (u64, u64),
    broken: bool,
}

pub(super) struct PageServer {
    log: FlowLog,
    content: Content,
    services: BTreeMap<ConnectionId, Service>,
}

impl PageServer {
    pub(super) fn new(mut log: FlowLog, content: Content) -> Self {
        log.transfer();
        Self {
            log,
            content,
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
        loop {
            if service.chunk.is_empty() && service.body.1 > 0 {
                let count = service.body.1.min(CHUNK_OCTETS as u64);
                self.content
                    .append(service.body.0, count as usize, &mut service.chunk);
                service.body = (service.body.0 + count, service.body.1 - count);
            }
            if !service.chunk.is_empty() {
                let count = endpoint.send(&service.chunk);
                if count == 0 {
                    return;
                }
                service.chunk.drain(..count);
                continue;
            }
            let mut buffer = [0; REQUEST_OCTETS];
            let count = endpoint.recv(&mut buffer[service.request.len()..]);
            service
                .request
                .extend_from_slice(&buffer[service.request.len()..][..count]);
            if count == 0 {
                if endpoint.is_drained() {
                    endpoint.close();
                }
                return;
            }
            if service.request.len() == REQUEST_OCTETS {
                let Some((index, octets)) = parse_request(&service.request) else {
                    service.broken = true;
                    endpoint.abort();
                    return;
                };
                service.request.clear();
                service.chunk = response_head(octets);
                service.body = (object_place(index), octets);
            }
        }
    }
}

impl Application for PageServer {
    fn handle(&mut self, _: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Accepted(id) => {
                self.services.insert(id, Service::default());
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
