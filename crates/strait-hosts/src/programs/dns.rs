//! Look-ups of names, one question a datagram (RFC 1035), and a server that answers all of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use strait_core::{Duration, Instant};
use strait_traffic::{FlowLog, HOST_NAME_WAIT, HOSTS_ZONE, LookUps, dns_name, widen};

use super::Span;
use crate::host::{Application, Event, Stack};

/// Octets of a message's header.
const HEADER_OCTETS: usize = 12;

/// Recursion is desired, and the answer may be of an authority's word: what `dig` says.
const FLAGS: [u8; 2] = [0x01, 0x20];

/// Type A, and class IN, of the root's end.
const ADDRESS: [u8; 5] = [0, 0, 1, 0, 1];
/// The address that every name has which is no host's.
const HOST: [u8; 4] = [192, 0, 2, 1];

/// A question for a name and a type.
fn question(sequence: u64, name: &str, kind: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&(sequence as u16).to_be_bytes());
    out.extend_from_slice(&FLAGS);
    out.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
    write_name(name, out);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&[0, 1]);
}

fn write_name(name: &str, out: &mut Vec<u8>) {
    for label in name.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
}

/// The answer to a question; nothing to what is none. Names have nothing but an IPv4 address: in
/// the hosts' zone `own`.
fn answer(question: &[u8], own: [u8; 4], life_s: u32, out: &mut Vec<u8>) -> bool {
    let Some((header, asked)) = question.split_first_chunk::<HEADER_OCTETS>() else {
        return false;
    };
    if header[2] & 0x80 != 0 || header[4..6] != [0, 1] {
        return false;
    }
    // Behind the question may be what is said of extended DNS, of which this server knows nothing.
    let name = asked.iter().position(|octet| *octet == 0);
    let Some(asked) = name.and_then(|end| asked.get(..end + ADDRESS.len())) else {
        return false;
    };
    let known = u8::from(asked.ends_with(&ADDRESS));
    out.extend_from_slice(&header[..2]);
    // An answer with authority, recursion desired and available; one question.
    out.extend_from_slice(&[0x85, 0x80, 0, 1, 0, known, 0, 0, 0, 0]);
    out.extend_from_slice(asked);
    if known == 1 {
        // The name as in the question; A, IN.
        out.extend_from_slice(&[0xc0, HEADER_OCTETS as u8, 0, 1, 0, 1]);
        out.extend_from_slice(&life_s.to_be_bytes());
        out.extend_from_slice(&[0, 4]);
        let mut zone = Vec::new();
        write_name(HOSTS_ZONE, &mut zone);
        let name = asked[..asked.len() - 4].to_ascii_lowercase();
        let is_host = name.ends_with(&zone);
        out.extend_from_slice(if is_host { &own } else { &HOST });
    }
    true
}

/// What an answer to a question says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// The address, or of another type that there is nothing.
    Known,
    /// That the server knows nothing (SERVFAIL).
    Failure,
}

/// What `answer` says to `question`; `None` if it isn't its answer.
fn told(question: &[u8], answer: &[u8]) -> Option<Told> {
    let (asked, name) = question.split_at_checked(HEADER_OCTETS)?;
    let (header, rest) = answer.split_at_checked(HEADER_OCTETS)?;
    if header[..2] != asked[..2] || header[2] & 0x80 == 0 || !rest.starts_with(name) {
        return None;
    }
    match header[3] & 0x0f {
        0 if !name.ends_with(&ADDRESS) => Some(Told::Known),
        0 if header[6..8] == [0, 1] && rest.ends_with(&HOST) => Some(Told::Known),
        2 => Some(Told::Failure),
        _ => None,
    }
}

/// Asks at a fixed period, and again as its manner is.
pub(super) struct Lookups {
    pub(super) log: FlowLog,
    pub(super) ends: (SocketAddr, SocketAddr),
    pub(super) dscp: u8,
    pub(super) period_ns: u64,
    pub(super) count: u64,
    pub(super) span: Span,
    pub(super) sent: u64,
    pub(super) manner: LookUps,
    /// Questions that are to be asked again: when, and how many tries there were.
    pub(super) open: BTreeMap<u64, (Instant, usize)>,
}

impl Lookups {
    fn next(&self) -> Instant {
        let after_ns = self.sent.saturating_mul(self.period_ns);
        self.span.start + Duration::from_nanos(after_ns)
    }

    /// When the next new question is due, if there is one.
    fn due(&self) -> Option<Instant> {
        let next = self.next();
        (self.sent < self.count && next < self.span.stop).then_some(next)
    }

    fn begin(&mut self, now: Instant, stack: &mut Stack) {
        let sequence = self.sent;
        self.sent += 1;
        if let Some(octets) = self.ask(now, sequence, stack) {
            self.log.sent(now, sequence, octets);
        }
        if let Some(wait) = self.manner.waits.first() {
            self.open.insert(sequence, (now + *wait, 1));
        }
    }

    /// Sends a question; its octets.
    fn ask(&mut self, now: Instant, sequence: u64, stack: &mut Stack) -> Option<u32> {
        let mut payload = stack.buffer();
        let name = dns_name(self.manner.name(sequence));
        question(sequence, &name, self.manner.kind.1, &mut payload);
        let sent = stack.send_udp(now, self.ends.0, self.ends.1, self.dscp, &payload);
        if !sent {
            self.log.count("not_sent");
        }
        let octets = payload.len() as u32;
        stack.recycle(payload);
        sent.then_some(octets)
    }

    /// Asks again, or gives up.
    fn try_again(&mut self, now: Instant, sequence: u64, stack: &mut Stack) {
        let Some((_, tries)) = self.open.remove(&sequence) else {
            return;
        };
        let Some(wait) = self.manner.waits.get(tries).copied() else {
            return self.log.count("given_up");
        };
        self.open.insert(sequence, (now + wait, tries + 1));
        self.log.count("asked_again");
        self.ask(now, sequence, stack);
    }

    /// Takes an answer to one of the questions that can still be told apart.
    fn receive(&mut self, now: Instant, from: SocketAddr, payload: &[u8], stack: &mut Stack) {
        let number = payload.first_chunk().map(|id| u16::from_be_bytes(*id));
        let sequence = number.map(|low| widen(self.sent, low.into(), 16));
        let sequence = sequence.filter(|it| *it < self.sent && from == self.ends.1);
        let told = sequence.and_then(|sequence| {
            let mut asked = Vec::new();
            let name = dns_name(self.manner.name(sequence));
            question(sequence, &name, self.manner.kind.1, &mut asked);
            Some((sequence, told(&asked, payload)?))
        });
        let waits = !self.manner.waits.is_empty();
        match told {
            // Whoever has given up hears nothing any more.
            Some((sequence, _)) if waits && !self.open.contains_key(&sequence) => {
                self.log.count("late");
            }
            Some((sequence, Told::Known)) => {
                self.open.remove(&sequence);
                self.log.received(now, sequence, payload.len() as u32);
            }
            Some((sequence, Told::Failure)) => {
                self.log.count("failed");
                self.try_again(now, sequence, stack);
            }
            None => self.log.count("unusable"),
        }
    }
}

impl Application for Lookups {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout => {
                if self.due().is_some_and(|at| at <= now) {
                    self.begin(now, stack);
                }
                let late = self.open.iter().filter(|(_, (at, _))| *at <= now);
                let late: Vec<u64> = late.map(|(sequence, _)| *sequence).collect();
                for sequence in late {
                    self.try_again(now, sequence, stack);
                }
            }
            Event::Datagram { from, payload, .. } => self.receive(now, from, payload, stack),
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        let again = self.open.values().map(|(at, _)| *at);
        again.chain(self.due()).min()
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}

/// A program that can be told where to send to.
pub(super) trait Aim: Application {
    /// It sends to there, from now on.
    fn aim(&mut self, now: Instant, to: IpAddr);
}

/// The look-up of a name, until its address is told.
pub(super) struct LookUp {
    name: String,
    /// The ends of its questions.
    ends: (SocketAddr, SocketAddr),
    /// When it asks next, until it knows.
    pub(super) asks: Option<Instant>,
    asked: u64,
}

impl LookUp {
    pub(super) const fn new(
        name: String,
        ends: (SocketAddr, SocketAddr),
        asks: Option<Instant>,
    ) -> Self {
        Self {
            name,
            ends,
            asks,
            asked: 0,
        }
    }

    pub(super) fn ask(&mut self, now: Instant, stack: &mut Stack) {
        self.asks = Some(now + HOST_NAME_WAIT);
        let mut payload = stack.buffer();
        question(self.asked, &self.name, 1, &mut payload);
        stack.send_udp(now, self.ends.0, self.ends.1, 0, &payload);
        stack.recycle(payload);
        self.asked += 1;
    }

    /// The address that a datagram tells, if it is the first answer to a question of its.
    pub(super) fn hear(&mut self, from: SocketAddr, port: u16, payload: &[u8]) -> Option<IpAddr> {
        let number = u64::from(u16::from_be_bytes(*payload.first_chunk()?));
        let mut asked = Vec::new();
        question(number, &self.name, 1, &mut asked);
        let rest = payload.get(HEADER_OCTETS..)?;
        let right = self.asks.is_some()
            && (from, port) == (self.ends.1, self.ends.0.port())
            && number < self.asked
            && payload[3] & 0x0f == 0
            && payload[6..8] == [0, 1]
            && rest.starts_with(&asked[HEADER_OCTETS..]);
        let address = payload.last_chunk::<4>().filter(|_| right)?;
        self.asks = None;
        Some(IpAddr::from(*address))
    }
}

/// A program that looks up a name before it begins, and asks again until it is told.
pub(super) struct Named<A> {
    pub(super) app: A,
    pub(super) look_up: LookUp,
}

impl<A: Aim> Application for Named<A> {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        match event {
            Event::Timeout if self.look_up.asks.is_some_and(|at| at <= now) => {
                self.look_up.ask(now, stack);
            }
            Event::Datagram {
                from,
                port,
                payload,
                ..
            } if port == self.look_up.ends.0.port() => {
                if let Some(address) = self.look_up.hear(from, port, payload) {
                    self.app.aim(now, address);
                    self.app.handle(now, Event::Timeout, stack);
                }
            }
            _ if self.look_up.asks.is_none() => self.app.handle(now, event, stack),
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.look_up.asks.or_else(|| self.app.wake())
    }

    fn log(&self) -> &FlowLog {
        self.app.log()
    }
}

/// Answers.
pub(super) struct NameServer {
    pub(super) log: FlowLog,
    pub(super) own: SocketAddr,
    pub(super) dscp: u8,
    /// How long an address holds, in seconds.
    pub(super) life_s: u32,
}

impl Application for NameServer {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        let Event::Datagram { from, payload, .. } = event else {
            return;
        };
        self.log.count("questions");
        let mut told = stack.buffer();
        let own = match self.own.ip() {
            IpAddr::V4(own) => own.octets(),
            IpAddr::V6(_) => HOST,
        };
        if answer(payload, own, self.life_s, &mut told) {
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
    use strait_traffic::DNS_LIFE_S;

    use super::*;

    const OWN: [u8; 4] = [10, 2, 0, 2];

    #[test]
    fn question_and_answer_are_these_octets() {
        let mut asked = Vec::new();
        question(7, &dns_name(7), 1, &mut asked);
        let name = b"\x06n00007\x02hf\x07example\0\0\x01\0\x01";
        let head = [0, 7, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(asked, [&head[..], name].concat());
        let mut said = Vec::new();
        assert!(answer(&asked, OWN, DNS_LIFE_S, &mut said));
        let head = [0, 7, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        let record = b"\xc0\x0c\0\x01\0\x01\0\0\x02\x58\0\x04\xc0\0\x02\x01";
        assert_eq!(said, [&head[..], name, record].concat());
        assert_eq!(told(&asked, &said), Some(Told::Known));
        // Answers, and what is cut short, get none.
        let mut none = Vec::new();
        assert!(
            !answer(&said, OWN, DNS_LIFE_S, &mut none)
                && !answer(&asked[..11], OWN, DNS_LIFE_S, &mut none)
        );
        assert!(none.is_empty());
    }

    #[test]
    fn what_is_behind_a_question_and_other_types_are_answered_without_a_record() {
        let mut asked = Vec::new();
        question(7, &dns_name(7), 1, &mut asked);
        asked[11] = 1;
        let of_address = asked.clone();
        // Extended DNS with 4096 octets.
        asked.extend_from_slice(&[0, 0, 41, 0x10, 0, 0, 0, 0, 0, 0, 0]);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        assert!(
            answer(&asked, OWN, DNS_LIFE_S, &mut with)
                && answer(&of_address, OWN, DNS_LIFE_S, &mut without)
        );
        assert_eq!(with, without);
        let kind = of_address.len() - 3;
        let mut other = of_address;
        other[kind] = 28;
        let mut none = Vec::new();
        assert!(answer(&other, OWN, DNS_LIFE_S, &mut none));
        assert_eq!((none[7], none.len()), (0, other.len()));
        let mut asked = Vec::new();
        question(7, &dns_name(7), 28, &mut asked);
        assert_eq!(told(&asked, &none), Some(Told::Known));
    }

    #[test]
    fn failures_and_other_answers_are_told_apart() {
        let mut asked = Vec::new();
        question(7, &dns_name(7), 1, &mut asked);
        let mut failed = asked.clone();
        failed[2..4].copy_from_slice(&[0x81, 0x82]);
        assert_eq!(told(&asked, &failed), Some(Told::Failure));
        for (at, octet) in [(1, 8), (2, 0x01), (3, 0x83), (14, b'x')] {
            let mut other = failed.clone();
            other[at] = octet;
            assert_eq!(told(&asked, &other), None, "{at}");
        }
    }

    #[test]
    fn a_host_has_its_own_address() {
        let mut asked = Vec::new();
        question(7, "H00001.Hosts.hf.example", 1, &mut asked);
        let mut said = Vec::new();
        assert!(answer(&asked, OWN, DNS_LIFE_S, &mut said));
        assert!(said.ends_with(&OWN));
    }
}
