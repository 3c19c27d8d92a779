//! A host and a gateway's echo service.

use std::net::SocketAddr;

use strait_core::tls::{TlsFault, TlsRole};
use strait_core::{Duration, Instant};
use strait_node::config::EchoConfig;
use strait_tcp::{TcpEndpoint, TcpError, TcpState};
use strait_traffic::{
    CallerTls, Content, FlowLog, TcpOptions, datagram_payload, datagram_sequence, place, widen,
};

use super::Span;
use super::bulk::{CHUNK_OCTETS, note};
use crate::host::{Application, ConnectionId, Event, Stack};
use crate::tls::{Line, Profile};

/// Sends octets over a connection, ends its direction, and takes what comes back until that ends.
pub(super) struct EchoCaller {
    pub(super) log: FlowLog,
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) start: Option<Instant>,
    pub(super) octets: u64,
    /// What it sends, and the same again to compare.
    pub(super) content: [Content; 2],
    pub(super) options: TcpOptions,
    pub(super) connection: Option<ConnectionId>,
    /// Octets that the endpoint has taken.
    pub(super) taken: u64,
    /// Content made but not taken yet, from `taken` on.
    pub(super) chunk: Vec<u8>,
    /// What the connection is to be secured by, and how far that is.
    pub(super) tls: Option<CallerTls>,
    pub(super) safety: Safety,
}

/// How far a connection is that is to be secured.
#[derive(Debug)]
pub(super) enum Safety {
    Clear,
    /// The service has been asked; what it has said so far.
    Asked(Vec<u8>),
    Begun(Box<Line>),
}

impl EchoCaller {
    fn begin(&mut self, now: Instant, stack: &mut Stack) {
        self.start = None;
        self.log.transfer().started_ns = Some(now.as_nanos());
        match stack.connect(now, self.ends.0, self.ends.1, &self.options) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: TcpError) {
        let transfer = self.log.transfer();
        transfer.error = Some(error);
        transfer.failed_connections += 1;
    }

    /// Asks for TLS, or begins with it; whether content may go.
    fn secure(&mut self, now: Instant, endpoint: &mut dyn TcpEndpoint) -> Result<bool, TlsFault> {
        let Some(caller) = &self.tls else {
            return Ok(true);
        };
        let begin = || {
            let profile = Profile {
                newest: caller.newest.version(),
                ..Profile::trusting(vec![String::new()])
            };
            let name = caller.name.clone();
            let line = Line::new(&profile, &TlsRole::Client { name })?;
            Ok(Safety::Begun(Box::new(line)))
        };
        match &mut self.safety {
            Safety::Clear if caller.starttls => {
                endpoint.send(EchoConfig::STARTTLS);
                self.safety = Safety::Asked(Vec::new());
            }
            Safety::Clear => self.safety = begin()?,
            Safety::Asked(said) => {
                let mut octet = [0];
                while said.len() < EchoConfig::STARTTLS_ANSWER.len()
                    && endpoint.recv(&mut octet) > 0
                {
                    said.extend(octet);
                }
                if said == EchoConfig::STARTTLS_ANSWER {
                    self.safety = begin()?;
                }
            }
            Safety::Begun(_) => {}
        }
        if let Safety::Begun(line) = &mut self.safety {
            line.flush(endpoint);
            if line.session().is_secured() {
                let transfer = self.log.transfer();
                transfer.secured_ns.get_or_insert(now.as_nanos());
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn work(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        note(&mut self.log, id, stack);
        let Some(endpoint) = stack.connection(id) else {
            return;
        };
        if let Err(fault) = self.exchange(now, endpoint) {
            self.log.count(fault.name());
            self.connection = None;
            self.fail(TcpError::Reset);
        }
    }

    fn exchange(&mut self, now: Instant, endpoint: &mut dyn TcpEndpoint) -> Result<(), TlsFault> {
        let mut came = Vec::new();
        if let Safety::Begun(line) = &mut self.safety {
            line.work(endpoint, &mut came)?;
        }
        if endpoint.state() == TcpState::Established {
            self.log
                .transfer()
                .connected_ns
                .get_or_insert(now.as_nanos());
            if !self.secure(now, endpoint)? {
                return Ok(());
            }
            while self.taken < self.octets {
                if self.chunk.is_empty() {
                    let count = (self.octets - self.taken).min(CHUNK_OCTETS as u64) as usize;
                    self.content[0].append(self.taken, count, &mut self.chunk);
                }
                let count = match &mut self.safety {
                    Safety::Begun(line) => line.send(endpoint, &self.chunk),
                    _ => endpoint.send(&self.chunk),
                };
                if count == 0 {
                    break;
                }
                self.taken += count as u64;
                self.chunk.drain(..count);
            }
            if self.taken == self.octets {
                match &mut self.safety {
                    Safety::Begun(line) => line.close(endpoint),
                    _ => endpoint.close(),
                }
            }
        }
        if self.tls.is_none() {
            let mut buffer = vec![0; CHUNK_OCTETS];
            let mut count = endpoint.recv(&mut buffer);
            while count > 0 {
                came.extend_from_slice(&buffer[..count]);
                count = endpoint.recv(&mut buffer);
            }
        }
        for chunk in came.chunks(CHUNK_OCTETS) {
            let before = self.log.transfer().octets;
            let wrong = self.content[1].count_wrong(before, chunk);
            self.log.received(now, before, chunk.len() as u32);
            let transfer = self.log.transfer();
            transfer.octets += chunk.len() as u64;
            transfer.wrong_octets += wrong;
        }
        let ended = match &mut self.safety {
            Safety::Begun(line) => line.session().has_ended(),
            _ => endpoint.is_drained(),
        };
        let transfer = self.log.transfer();
        if ended && transfer.octets == self.octets {
            transfer.finished_ns.get_or_insert(now.as_nanos());
        }
        Ok(())
    }
}

impl Application for EchoCaller {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.start.is_some_and(|start| start <= now) => {
                self.begin(now, stack);
            }
            Event::Ready(id) if self.connection == Some(id) => self.work(now, id, stack),
            Event::Closed { connection, error } if self.connection == Some(connection) => {
                self.work(now, connection, stack);
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

/// Sends datagrams at a fixed period, and takes them back.
pub(super) struct EchoAsker {
    pub(super) log: FlowLog,
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) dscp: u8,
    pub(super) payload_octets: u32,
    pub(super) period_ns: u64,
    pub(super) count: u64,
    pub(super) span: Span,
    pub(super) content: Content,
    pub(super) sent: u64,
}

impl EchoAsker {
    fn next(&self) -> Instant {
        let after_ns = self.sent.saturating_mul(self.period_ns);
        self.span.start + Duration::from_nanos(after_ns)
    }

    fn send(&mut self, now: Instant, stack: &mut Stack) {
        let mut payload = stack.buffer();
        let octets = self.payload_octets;
        datagram_payload(&mut self.content, self.sent, octets, &mut payload);
        if stack.send_udp(now, self.ends.0, self.ends.1, self.dscp, &payload) {
            self.log.sent(now, self.sent, octets);
        } else {
            self.log.count("not_sent");
        }
        stack.recycle(payload);
        self.sent += 1;
    }

    /// An answer; one with another code point than the question's is counted as remarked.
    fn receive(&mut self, now: Instant, from: SocketAddr, dscp: u8, payload: &[u8]) {
        let low = datagram_sequence(payload).unwrap_or(u32::MAX);
        let sequence = widen(self.sent, u64::from(low), 32);
        let octets = self.payload_octets;
        let rest = payload.get(4..).unwrap_or_default();
        let at = place(sequence, octets.saturating_sub(4));
        let wrong = self.content.count_wrong(at, rest);
        let asked = from == self.ends.1 && sequence < self.sent;
        if asked && payload.len() == octets as usize && wrong == 0 {
            self.log.received(now, sequence, octets);
        } else {
            self.log.count("unusable");
        }
        if dscp != self.dscp {
            self.log.count("remarked");
        }
    }
}

impl Application for EchoAsker {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.wake().is_some_and(|at| at <= now) => self.send(now, stack),
            Event::Datagram {
                from,
                dscp,
                payload,
                ..
            } => self.receive(now, from, dscp, payload),
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        let next = self.next();
        (self.sent < self.count && next < self.span.stop).then_some(next)
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}
