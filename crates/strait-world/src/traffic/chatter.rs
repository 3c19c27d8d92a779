//! What a desktop computer says to its network by itself, and what a router does.

use std::net::{IpAddr, SocketAddr};

use strait_core::{Duration, Instant};

use super::Span;
use super::config::Family;
use super::log::FlowLog;
use crate::host::{Application, Event, Stack};

/// A round of questions to everybody: where each goes, and octets of its payload. The sizes are
/// those of a question for one name or one service.
pub fn chatter_round(family: Family) -> Vec<(SocketAddr, usize)> {
    let to = |address: IpAddr, port: u16, octets: usize| (SocketAddr::new(address, port), octets);
    match family {
        Family::V4 => {
            let group = |octets: [u8; 4]| IpAddr::from(octets);
            vec![
                to(group([224, 0, 0, 251]), 5353, 45),
                to(group([224, 0, 0, 252]), 5355, 22),
                to(group([239, 255, 255, 250]), 1900, 174),
                to(group([239, 255, 255, 250]), 3702, 624),
                to(group([255, 255, 255, 255]), 137, 50),
            ]
        }
        Family::V6 => {
            let group = |last: [u16; 2]| IpAddr::from([0xff02, 0, 0, 0, 0, 0, last[0], last[1]]);
            vec![
                to(group([0, 0xfb]), 5353, 45),
                to(group([1, 3]), 5355, 22),
                to(group([0, 0xc]), 1900, 174),
                to(group([0, 0xc]), 3702, 624),
            ]
        }
    }
}

/// What an OSPF hello says that comes each `period`.
pub fn hello_interval_s(period: Duration) -> u16 {
    let whole_s = period.as_nanos().div_ceil(1_000_000_000);
    u16::try_from(whole_s).unwrap_or(u16::MAX)
}

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
