//! Clients' streams: whole messages in, and answers out (RFC 7766).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;

use strait_core::node::{StreamEvent, StreamOp};
use strait_core::{Duration, Instant};
use strait_dns::Client;

/// How long a stream may be silent (RFC 7766 section 6.2.3).
const SILENT: Duration = Duration::from_secs(20);
/// Octets of a stream that may wait to be a message: the longest question, and as much again.
const INBOUND_OCTETS: u32 = 2048;
/// What a client hears that says what is no message (EPROTO of Linux).
const PROTOCOL_ERROR: i32 = 71;

#[derive(Debug)]
struct Inbound {
    listener: u32,
    address: SocketAddr,
    local: SocketAddr,
    /// What has come and is no whole message yet.
    octets: Vec<u8>,
    /// Octets that it takes.
    writable: u64,
    /// Questions that have no answer yet.
    asked: u32,
    ended: bool,
    until: Instant,
}

impl Inbound {
    /// When it is ended, if nothing happens. Whoever waits for an answer is silent for as long.
    fn ends(&self) -> Option<Instant> {
        (self.asked == 0).then_some(self.until)
    }

    /// The next whole message of the stream `n`, if there is one (RFC 1035 section 4.2.2); `None`
    /// instead of one that is too long.
    fn next(&mut self, n: u64) -> Option<Option<(Client, Vec<u8>)>> {
        let length = usize::from(u16::from_be_bytes(*self.octets.first_chunk()?));
        if length + 2 > INBOUND_OCTETS as usize {
            return Some(None);
        }
        if self.octets.len() < length + 2 {
            return None;
        }
        let message = self.octets.drain(..length + 2).skip(2).collect();
        self.asked += 1;
        let client = Client {
            socket: self.listener,
            address: self.address,
            local: self.local,
            stream: Some(n),
        };
        Some(Some((client, message)))
    }
}

/// All of them, and what is to be done on them.
#[derive(Debug, Default)]
pub(super) struct Streams {
    all: BTreeMap<u64, Inbound>,
    /// Those that were accepted for somebody else's address, and aren't open yet.
    accepted: BTreeSet<u64>,
    ops: VecDeque<(u64, StreamOp)>,
}

impl Streams {
    /// Takes one that asked to be let in.
    pub(super) fn adopt(&mut self, n: u64) {
        self.accepted.insert(n);
    }

    pub(super) fn has(&self, n: u64) -> bool {
        self.accepted.contains(&n) || self.all.contains_key(&n)
    }

    /// Something happened on one; whole messages that came by it.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        n: u64,
        event: StreamEvent<'_>,
    ) -> Vec<(Client, Vec<u8>)> {
        match event {
            StreamEvent::Opened {
                listener, src, dst, ..
            } => {
                let stream = Inbound {
                    listener: listener.map_or(0, |it| it.n),
                    address: src,
                    local: dst,
                    octets: Vec::new(),
                    writable: 0,
                    asked: 0,
                    ended: false,
                    until: now + SILENT,
                };
                self.accepted.remove(&n);
                self.all.insert(n, stream);
                self.act(n, StreamOp::Credit(INBOUND_OCTETS));
            }
            StreamEvent::Data(octets) => return self.hear_octets(now, n, octets),
            StreamEvent::Writable(octets) => {
                if let Some(stream) = self.all.get_mut(&n) {
                    stream.writable += u64::from(octets);
                }
            }
            StreamEvent::Fin => {
                if let Some(stream) = self.all.get_mut(&n) {
                    stream.ended = true;
                }
                self.end_if_done(n);
            }
            StreamEvent::Reset(_) => {
                self.accepted.remove(&n);
                self.all.remove(&n);
            }
            StreamEvent::Asked { .. } => self.act(n, StreamOp::Accept),
            StreamEvent::Secured { .. } => {}
        }
        Vec::new()
    }

    fn hear_octets(&mut self, now: Instant, n: u64, octets: &[u8]) -> Vec<(Client, Vec<u8>)> {
        let mut messages = Vec::new();
        let Some(stream) = self.all.get_mut(&n) else {
            return messages;
        };
        stream.octets.extend_from_slice(octets);
        stream.until = now + SILENT;
        while let Some(next) = stream.next(n) {
            let Some(message) = next else {
                self.reset(n);
                return messages;
            };
            messages.push(message);
        }
        self.act(n, StreamOp::Credit(octets.len() as u32));
        messages
    }

    /// Gives a client its answer.
    pub(super) fn reply(&mut self, now: Instant, n: u64, reply: &[u8]) {
        let Some(stream) = self.all.get_mut(&n) else {
            return;
        };
        stream.asked = stream.asked.saturating_sub(1);
        stream.until = now + SILENT;
        let length = reply.len() as u16;
        let octets = [&length.to_be_bytes()[..], reply].concat();
        if stream.writable < octets.len() as u64 {
            // It doesn't read what it asked for.
            return self.reset(n);
        }
        stream.writable -= octets.len() as u64;
        self.act(n, StreamOp::Send(octets));
        self.end_if_done(n);
    }

    fn reset(&mut self, n: u64) {
        self.all.remove(&n);
        self.act(n, StreamOp::Reset(PROTOCOL_ERROR));
    }

    /// Says that no more comes, where the client has said so and has its answers.
    fn end_if_done(&mut self, n: u64) {
        let done = |it: &Inbound| it.ended && it.asked == 0;
        if self.all.get(&n).is_some_and(done) {
            self.all.remove(&n);
            self.act(n, StreamOp::Fin);
        }
    }

    /// Ends those on which nothing happens.
    pub(super) fn end_silent(&mut self, now: Instant) {
        let silent = self.all.iter();
        let silent = silent.filter(|(_, it)| it.ends().is_some_and(|at| at <= now));
        let silent: Vec<u64> = silent.map(|(n, _)| *n).collect();
        for n in silent {
            self.all.remove(&n);
            self.act(n, StreamOp::Fin);
        }
    }

    fn act(&mut self, n: u64, op: StreamOp) {
        self.ops.push_back((n, op));
    }

    /// What is to be done on one next.
    pub(super) fn poll(&mut self) -> Option<(u64, StreamOp)> {
        self.ops.pop_front()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.all.values().filter_map(Inbound::ends).min()
    }
}
