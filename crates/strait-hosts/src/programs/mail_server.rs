//! A server of mailboxes, by LMTP or SMTP: it takes messages one after the other on each of its
//! connections, without CHUNKING, as many mail servers do.

use std::collections::BTreeMap;

use strait_core::{Duration, Instant};
use strait_tcp::TcpState;
use strait_traffic::FlowLog;

use super::bulk::CHUNK_OCTETS;
use crate::host::{Application, ConnectionId, Event, Stack};

/// Its mailboxes, and how long a message takes to be stored there.
type Boxes = BTreeMap<String, Duration>;

/// One connection.
#[derive(Default)]
struct Service {
    input: Vec<u8>,
    out: Vec<u8>,
    recipients: Vec<String>,
    /// Lines of a message, once that has begun.
    text: Option<Vec<u8>>,
    /// When it will be stored, if it is whole.
    stored: Option<Instant>,
    done: bool,
}

pub(super) struct MailServer {
    log: FlowLog,
    lmtp: bool,
    boxes: Boxes,
    services: BTreeMap<ConnectionId, Service>,
    mail: Vec<(Instant, Vec<u8>)>,
}

impl MailServer {
    pub(super) const fn new(log: FlowLog, lmtp: bool, boxes: Boxes) -> Self {
        Self {
            log,
            lmtp,
            boxes,
            services: BTreeMap::new(),
            mail: Vec::new(),
        }
    }

    fn work(&mut self, now: Instant, id: ConnectionId, stack: &mut Stack) {
        let (Some(service), Some(endpoint)) = (self.services.get_mut(&id), stack.connection(id))
        else {
            return;
        };
        if endpoint.state() == TcpState::Listening {
            return;
        }
        let mut buffer = [0; CHUNK_OCTETS];
        loop {
            let count = endpoint.recv(&mut buffer);
            if count == 0 {
                break;
            }
            service.input.extend(&buffer[..count]);
        }
        if service.stored.is_some_and(|at| at <= now) {
            self.mail.extend(service.store(now, self.lmtp));
        }
        service.read(now, self.lmtp, &self.boxes);
        let count = endpoint.send(&service.out);
        service.out.drain(..count);
        if endpoint.is_drained() || (service.done && service.out.is_empty()) {
            endpoint.close();
        }
    }
}

impl Service {
    fn new() -> Self {
        let out = b"220 mailboxes ready\r\n".to_vec();
        let service = Self::default();
        Self { out, ..service }
    }

    fn say(&mut self, reply: &str) {
        self.out.extend(reply.as_bytes());
        self.out.extend(b"\r\n");
    }

    /// Reads lines, up to the end of a message.
    fn read(&mut self, now: Instant, lmtp: bool, boxes: &Boxes) {
        while self.stored.is_none() {
            let Some(end) = self.input.iter().position(|octet| *octet == b'\n') else {
                return;
            };
            let line: Vec<u8> = self.input.drain(..=end).collect();
            match &mut self.text {
                None => self.command(String::from_utf8_lossy(&line).trim_end(), lmtp, boxes),
                Some(_) if line == b".\r\n" => {
                    let pause = self.recipients.iter().filter_map(|it| boxes.get(it)).max();
                    self.stored = Some(now + pause.copied().unwrap_or_default());
                }
                Some(text) => text.extend(line.strip_prefix(b".").unwrap_or(&line)),
            }
        }
    }

    fn command(&mut self, line: &str, lmtp: bool, boxes: &Boxes) {
        let line = line.to_ascii_lowercase();
        let word = line.split([' ', ':']).next().unwrap_or_default();
        match word {
            "lhlo" if lmtp => self.say("250-mailboxes\r\n250-PIPELINING\r\n250 8BITMIME"),
            "ehlo" if !lmtp => self.say("250-mailboxes\r\n250-PIPELINING\r\n250 8BITMIME"),
            "mail" | "rset" => {
                self.recipients.clear();
                self.say("250 2.0.0 ok");
            }
            "rcpt" => {
                let address = line.split(['<', '>']).nth(1).unwrap_or_default();
                let name = address.split('@').next().unwrap_or_default();
                if boxes.contains_key(name) {
                    self.recipients.push(name.to_owned());
                    self.say("250 2.1.5 ok");
                } else {
                    self.say("550 5.1.1 no such mailbox");
                }
            }
            "data" if self.recipients.is_empty() => self.say("503 5.5.1 no valid recipient"),
            "data" => {
                self.text = Some(Vec::new());
                self.say("354 go on");
            }
            "noop" => self.say("250 2.0.0 ok"),
            "quit" => {
                self.say("221 2.0.0 bye");
                self.done = true;
            }
            _ => self.say("502 5.5.1 unknown"),
        }
    }

    /// What lies in the mailboxes now. By LMTP each has an answer of its own (RFC 2033).
    fn store(&mut self, now: Instant, lmtp: bool) -> Vec<(Instant, Vec<u8>)> {
        self.stored = None;
        let text = self.text.take().unwrap_or_default();
        let recipients = std::mem::take(&mut self.recipients);
        let answers = if lmtp { recipients.len() } else { 1 };
        (0..answers).for_each(|_| self.say("250 2.0.0 stored"));
        let lines = text.split_inclusive(|octet| *octet == b'\n');
        let lies: Vec<u8> = lines
            .flat_map(|it| {
                it.strip_suffix(b"\r\n")
                    .map_or_else(|| it.to_vec(), |it| [it, b"\n"].concat())
            })
            .collect();
        recipients.iter().map(|_| (now, lies.clone())).collect()
    }
}

impl Application for MailServer {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Accepted(id) => {
                self.services.insert(id, Service::new());
            }
            Event::Ready(id) => self.work(now, id, stack),
            Event::Timeout => {
                let due = self.services.iter();
                let due = due.filter(|(_, it)| it.stored.is_some_and(|at| at <= now));
                let due: Vec<ConnectionId> = due.map(|(id, _)| *id).collect();
                for id in due {
                    self.work(now, id, stack);
                }
            }
            Event::Closed { connection, .. } => {
                self.services.remove(&connection);
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.services.values().filter_map(|it| it.stored).min()
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }

    fn mail(&self) -> &[(Instant, Vec<u8>)] {
        &self.mail
    }
}
