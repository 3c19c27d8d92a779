//! Brings a message to a gateway's switch.

use std::net::SocketAddr;

use strait_core::Instant;
use strait_mail::Client;
use strait_mail::client::{Event as Heard, Letter, Verdict};
use strait_tcp::{TcpError, TcpState};
use strait_traffic::{FlowLog, TcpOptions};

use super::bulk::{CHUNK_OCTETS, note};
use crate::host::{Application, ConnectionId, Event, Stack};

pub(super) struct MailCaller {
    pub(super) log: FlowLog,
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) start: Option<Instant>,
    pub(super) options: TcpOptions,
    pub(super) letter: Letter,
    pub(super) text: Vec<u8>,
    pub(super) client: Client,
    pub(super) connection: Option<ConnectionId>,
    /// Octets that the endpoint hasn't taken.
    pub(super) out: Vec<u8>,
}

impl MailCaller {
    fn fail(&mut self, error: TcpError) {
        let transfer = self.log.transfer();
        transfer.error = Some(error);
        transfer.failed_connections += 1;
    }

    fn begin(&mut self, now: Instant, stack: &mut Stack) {
        self.start = None;
        self.log.transfer().started_ns = Some(now.as_nanos());
        match stack.connect(now, self.ends.0, self.ends.1, &self.options) {
            Ok(connection) => self.connection = Some(connection),
            Err(error) => self.fail(error),
        }
    }

    fn work(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        note(&mut self.log, id, stack);
        let Some(endpoint) = stack.connection(id) else {
            return;
        };
        if endpoint.state() != TcpState::Established {
            return;
        }
        let transfer = self.log.transfer();
        transfer.connected_ns.get_or_insert(now.as_nanos());
        let mut buffer = [0; CHUNK_OCTETS];
        loop {
            let count = endpoint.recv(&mut buffer);
            if count == 0 {
                break;
            }
            self.client.take(&buffer[..count]);
        }
        while let Some(heard) = self.client.poll() {
            match heard {
                Heard::Ready => self.client.begin(self.letter.clone()),
                Heard::Done(_, verdicts) => {
                    let taken = |it: &Verdict| matches!(it, Verdict::Taken { .. });
                    if verdicts.iter().all(taken) {
                        let transfer = self.log.transfer();
                        transfer.finished_ns = Some(now.as_nanos());
                    } else {
                        self.log.count("refused");
                    }
                    endpoint.close();
                }
                Heard::Resume(..)
                | Heard::Again(_)
                | Heard::Lost(_)
                | Heard::Secure
                | Heard::LogIn
                | Heard::Turned(_) => {
                    self.log.count("refused");
                    endpoint.close();
                }
            }
        }
        if self.client.wants().is_some() {
            self.client.piece(&self.text, true);
        }
        self.out.extend(self.client.send(usize::MAX));
        let count = endpoint.send(&self.out);
        self.out.drain(..count);
    }
}

impl Application for MailCaller {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.start.is_some_and(|start| start <= now) => {
                self.begin(now, stack);
            }
            Event::Ready(id) if self.connection == Some(id) => self.work(now, id, stack),
            Event::Closed { connection, error } if self.connection == Some(connection) => {
                note(&mut self.log, connection, stack);
                self.connection = None;
                error.into_iter().for_each(|error| self.fail(error));
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
