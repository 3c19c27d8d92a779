//! Voice and plain UDP: datagrams at a pace one way, or both.

use std::net::{IpAddr, SocketAddr};

use strait_core::chance::Stream;
use strait_core::{Duration, Instant};
use strait_traffic::{
    Content, FlowLog, datagram_payload, datagram_sequence, esp_numbers, esp_payload, esp_wrong,
    voice_packet, widen,
};
use strait_wire::rtp::RtpHeader;

use super::Span;
use super::dns::Aim;
use crate::host::{Application, Event, Stack};

/// What the datagrams are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Voice,
    Plain,
    /// Packets of ESP, with the index of their association.
    Esp(u32),
}

/// When the next datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Every so many nanoseconds.
    Every(u64),
    /// The same in every second stretch of `turn` datagrams, the first of them being `skip` late.
    Turns {
        period_ns: u64,
        turn: u64,
        skip: u64,
    },
    /// So many bits at a rate, evenly.
    Rate { bits: u64, rate_bit_s: u64 },
    /// The same with exponentially distributed gaps.
    Poisson { bits: u64, rate_bit_s: u64 },
}

impl Pace {
    /// When datagram `sequence` goes; `last` is when the one before went.
    fn at(self, start: Instant, sequence: u64, last: Instant, gaps: &mut Stream) -> Instant {
        // From the start by one formula: rounding doesn't add up.
        let after = |total: u128, per: u64| {
            let ns = total
                .div_ceil(u128::from(per.max(1)))
                .min(u128::from(u64::MAX));
            start + Duration::from_nanos(ns as u64)
        };
        match self {
            Self::Every(period_ns) => after(u128::from(sequence) * u128::from(period_ns), 1),
            Self::Turns {
                period_ns,
                turn,
                skip,
            } => {
                let turn = turn.max(1);
                let slot = u128::from(sequence) + u128::from(sequence / turn * turn + skip);
                after(slot * u128::from(period_ns), 1)
            }
            Self::Rate { bits, rate_bit_s } => {
                let bits = u128::from(sequence) * u128::from(bits);
                let at = after(bits.saturating_mul(1_000_000_000), rate_bit_s);
                // At least a nanosecond apart, so that each moment sends a bounded number.
                if sequence == 0 {
                    at
                } else {
                    at.max(last + Duration::from_nanos(1))
                }
            }
            Self::Poisson { .. } if sequence == 0 => start,
            Self::Poisson { bits, rate_bit_s } => {
                let mean_ns = u128::from(bits) * 1_000_000_000 / u128::from(rate_bit_s.max(1));
                let mean = Duration::from_nanos(mean_ns.min(u128::from(u64::MAX)) as u64);
                last + gaps.exponential(mean).max(Duration::from_nanos(1))
            }
        }
    }
}

/// One end: sends if it has a pace, and notes what arrives.
pub(super) struct Datagrams {
    pub(super) log: FlowLog,
    pub(super) form: Form,
    pub(super) pace: Option<Pace>,
    pub(super) span: Span,
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) dscp: u8,
    pub(super) payload_octets: u32,
    pub(super) content: Content,
    pub(super) gaps: Stream,
    /// Datagrams sent so far.
    pub(super) sent: u64,
    /// When the next one goes.
    pub(super) next: Instant,
    /// The number after the highest received.
    pub(super) highest: u64,
}

impl Datagrams {
    /// Sets the time of the first datagram.
    pub(super) fn begin(&mut self) {
        self.plan(self.span.start);
    }

    fn plan(&mut self, last: Instant) {
        let at = self.pace.map_or(Instant::NEVER, |pace| {
            pace.at(self.span.start, self.sent, last, &mut self.gaps)
        });
        self.next = if at < self.span.stop {
            at
        } else {
            Instant::NEVER
        };
    }

    fn send(&mut self, now: Instant, stack: &mut Stack) {
        let mut payload = stack.buffer();
        let since_ns = now.since(self.span.start).as_nanos() as u64;
        let (content, octets) = (&mut self.content, self.payload_octets);
        match self.form {
            Form::Voice => voice_packet(content, self.sent, since_ns, octets, &mut payload),
            Form::Plain => datagram_payload(content, self.sent, octets, &mut payload),
            Form::Esp(index) => esp_payload(content, (index, self.sent), octets, &mut payload),
        }
        let ends = (self.ends.0, self.ends.1);
        let sent = match self.form {
            Form::Esp(_) => stack.send_esp(now, (ends.0.ip(), ends.1.ip()), self.dscp, &payload),
            _ => stack.send_udp(now, ends.0, ends.1, self.dscp, &payload),
        };
        if sent {
            self.log.sent(now, self.sent, payload.len() as u32);
        } else {
            self.log.count("not_sent");
        }
        stack.recycle(payload);
        self.sent += 1;
        self.plan(now);
    }

    fn receive(&mut self, now: Instant, from: SocketAddr, payload: &[u8]) {
        let numbered = match self.form {
            Form::Voice => RtpHeader::parse(payload)
                .ok()
                .map(|(h, _)| (u64::from(h.sequence), 16)),
            Form::Plain => datagram_sequence(payload).map(|low| (u64::from(low), 32)),
            Form::Esp(_) => esp_numbers(payload).map(|(_, low)| (u64::from(low), 32)),
        };
        match numbered {
            Some((low, bits)) if from == self.ends.1 => {
                let sequence = widen(self.highest, low, bits);
                if let Form::Esp(_) = self.form {
                    let wrong = esp_wrong(&mut self.content, sequence, payload);
                    self.log.add("wrong", wrong);
                }
                self.highest = self.highest.max(sequence + 1);
                self.log.received(now, sequence, payload.len() as u32);
            }
            _ => self.log.count("unusable"),
        }
    }
}

impl Aim for Datagrams {
    fn aim(&mut self, now: Instant, to: IpAddr) {
        self.ends.1.set_ip(to);
        self.span.start = self.span.start.max(now);
        self.begin();
    }
}

impl Application for Datagrams {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            // At one moment at most one is due: each pace advances.
            Event::Timeout if self.next <= now => self.send(now, stack),
            Event::Datagram { from, payload, .. } => self.receive(now, from, payload),
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        (self.next != Instant::NEVER).then_some(self.next)
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}
