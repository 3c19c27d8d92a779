//! What a desktop computer says to its network by itself, and what a router does.

use std::net::SocketAddr;

use strait_core::{Duration, Instant};
use strait_traffic::{Family, FlowLog, chatter_round, hello_interval_s};

use super::Span;
use crate::host::{Application, Event, Stack};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Speaker {
    Computer,
    Router,
}

/// A round each period.
pub(super) struct ChatterSource {
    pub(super) log: FlowLog,
    pub(super) speaker: Speaker,
    pub(super) from: SocketAddr,
    pub(super) family: Family,
    pub(super) period: Duration,
    pub(super) span: Span,
    pub(super) next: Instant,
}

impl ChatterSource {
    fn send(&mut self, now: Instant, stack: &mut Stack) {
        match self.speaker {
            Speaker::Computer => self.send_round(now, stack),
            Speaker::Router => {
                let interval_s = hello_interval_s(self.period);
                if stack.send_ospf_hello(now, self.from.ip(), interval_s) {
                    self.log.sent(now, self.log.sent.len() as u64, 0);
                }
            }
        }
        self.next += self.period;
    }

    fn send_round(&mut self, now: Instant, stack: &mut Stack) {
        for (to, octets) in chatter_round(self.family) {
            let mut payload = stack.buffer();
            payload.resize(octets, b'?');
            if stack.send_udp(now, self.from, to, 0, &payload) {
                self.log
                    .sent(now, self.log.sent.len() as u64, octets as u32);
            }
            stack.recycle(payload);
        }
    }
}

impl Application for ChatterSource {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        if matches!(event, Event::Timeout) && self.wake().is_some_and(|at| at <= now) {
            self.send(now, stack);
        }
    }

    fn wake(&self) -> Option<Instant> {
        (self.next < self.span.stop).then_some(self.next)
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}
