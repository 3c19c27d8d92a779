//! Echo requests at a fixed period.

use std::net::IpAddr;

use strait_core::{Duration, Instant};
use strait_traffic::{Content, FlowLog, place, widen};

use super::Span;
use super::dns::Aim;
use crate::host::{Application, Event, Stack};

pub(super) struct Ping {
    pub(super) log: FlowLog,
    pub(super) ends: (IpAddr, IpAddr),
    pub(super) ident: u16,
    pub(super) dscp: u8,
    pub(super) payload_octets: u32,
    pub(super) period_ns: u64,
    pub(super) count: u64,
    pub(super) span: Span,
    pub(super) content: Content,
    pub(super) sent: u64,
}

impl Ping {
    fn next(&self) -> Instant {
        let after_ns = self.sent.saturating_mul(self.period_ns);
        self.span.start + Duration::from_nanos(after_ns)
    }

    fn send(&mut self, now: Instant, stack: &mut Stack) {
        let mut payload = stack.buffer();
        let octets = self.payload_octets;
        self.content
            .append(place(self.sent, octets), octets as usize, &mut payload);
        let numbers = (self.ident, self.sent as u16);
        if stack.send_echo(now, self.ends, self.dscp, numbers, &payload) {
            self.log.sent(now, self.sent, octets);
        } else {
            self.log.count("not_sent");
        }
        stack.recycle(payload);
        self.sent += 1;
    }

    fn receive(&mut self, now: Instant, from: IpAddr, low: u16, payload: &[u8]) {
        let sequence = widen(self.sent, u64::from(low), 16);
        let octets = payload.len() as u32;
        let wrong = self
            .content
            .count_wrong(place(sequence, self.payload_octets), payload);
        let expected = from == self.ends.1 && sequence < self.sent && octets == self.payload_octets;
        if expected && wrong == 0 {
            self.log.received(now, sequence, octets);
        } else {
            self.log.count("unusable");
        }
    }
}

impl Aim for Ping {
    fn aim(&mut self, now: Instant, to: IpAddr) {
        self.ends.1 = to;
        self.span.start = self.span.start.max(now);
    }
}

impl Application for Ping {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.wake().is_some_and(|at| at <= now) => self.send(now, stack),
            Event::EchoReply {
                from,
                sequence,
                payload,
            } => {
                self.receive(now, from, sequence, payload);
            }
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
