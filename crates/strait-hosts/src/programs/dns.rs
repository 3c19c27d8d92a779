//! Look-ups of names, one question a datagram (RFC 1035), and a server that answers all of them.

use std::net::SocketAddr;

use strait_core::{Duration, Instant};
use strait_traffic::{FlowLog, dns_name, widen};

use super::Span;
use crate::host::{Application, Event, Stack};

/// Octets of a message's header.
const HEADER_OCTETS: usize = 12;

/// Recursion is desired, and the answer may be of an authority's word: what `dig` says.
const FLAGS: [u8; 2] = [0x01, 0x20];

/// A question for the IPv4 address of a name.
fn question(sequence: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(sequence as u16).to_be_bytes());
    out.extend_from_slice(&FLAGS);
    out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    for label in dns_name(sequence).split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    // The root; type A, class IN.
    out.extend_from_slice(&[0, 0, 1, 0, 1]);
}

/// The answer to a question; nothing to what is none.
fn answer(question: &[u8], out: &mut Vec<u8>) -> bool {
    let Some((header, asked)) = question.split_first_chunk::<HEADER_OCTETS>() else {
        return false;
    };
    if header[2] & 0x80 != 0 || header[4..6] != [0, 1] {
        return false;
    }
    out.extend_from_slice(&header[..2]);
    // An answer with authority, recursion desired and available; one question, one answer.
    out.extend_from_slice(&[0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    out.extend_from_slice(asked);
    // The name as in the question; A, IN, for no time, 192.0.2.1.
    out.extend_from_slice(&[0xc0, HEADER_OCTETS as u8, 0, 1, 0, 1]);
    out.extend_from_slice(&[0, 0, 0, 0, 0, 4, 192, 0, 2, 1]);
    true
}

/// Asks at a fixed period.
pub(super) struct Lookups {
    pub(super) log: FlowLog,
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) dscp: u8,
    pub(super) period_ns: u64,
    pub(super) count: u64,
    pub(super) span: Span,
    pub(super) sent: u64,
}

impl Lookups {
    fn next(&self) -> Instant {
        let after_ns = self.sent.saturating_mul(self.period_ns);
        self.span.start + Duration::from_nanos(after_ns)
    }

    fn send(&mut self, now: Instant, stack: &mut Stack) {
        let mut payload = stack.buffer();
        question(self.sent, &mut payload);
        if stack.send_udp(now, self.ends.0, self.ends.1, self.dscp, &payload) {
            self.log.sent(now, self.sent, payload.len() as u32);
        } else {
            self.log.count("not_sent");
        }
        stack.recycle(payload);
        self.sent += 1;
    }

    /// Takes an answer to one of the questions that can still be told apart.
    fn receive(&mut self, now: Instant, from: SocketAddr, payload: &[u8]) {
        let number = payload.first_chunk().map(|id| u16::from_be_bytes(*id));
        let sequence = number.map(|low| widen(self.sent, low.into(), 16));
        let expected = sequence.filter(|sequence| {
            let (mut asked, mut told) = (Vec::new(), Vec::new());
            question(*sequence, &mut asked);
            *sequence < self.sent && answer(&asked, &mut told) && told == payload
        });
        match expected.filter(|_| from == self.ends.1) {
            Some(sequence) => self.log.received(now, sequence, payload.len() as u32),
            None => self.log.count("unusable"),
        }
    }
}

impl Application for Lookups {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.wake().is_some_and(|at| at <= now) => self.send(now, stack),
            Event::Datagram { from, payload, .. } => self.receive(now, from, payload),
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

/// Answers.
pub(super) struct NameServer {
    pub(super) log: FlowLog,
    pub(super) own: SocketAddr,
    pub(super) dscp: u8,
}

impl Application for NameServer {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        let Event::Datagram { from, payload, .. } = event else {
            return;
        };
        let mut told = stack.buffer();
        if answer(payload, &mut told) {
            stack.send_udp(now, self.own, from, self.dscp, &told);
        } else {
            self.log.count("unusable");
        }
        stack.recycle(told);
    }

    fn wake(&self) -> Option<Instant> {
        None
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_and_answer_are_these_octets() {
        let mut asked = Vec::new();
        question(7, &mut asked);
        let name = b"\x06n00007\x02hf\x07example\0\0\x01\0\x01";
        let head = [0, 7, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(asked, [&head[..], name].concat());
        let mut told = Vec::new();
        assert!(answer(&asked, &mut told));
        let head = [0, 7, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        let record = b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\xc0\0\x02\x01";
        assert_eq!(told, [&head[..], name, record].concat());
        // Answers, and what is cut short, get none.
        let mut none = Vec::new();
        assert!(!answer(&told, &mut none) && !answer(&asked[..11], &mut none));
        assert!(none.is_empty());
    }
}
