//! Two endpoints and the path between them, for tests: loss, duplication, reordering, delay,
//! rate and a limit of packet size each way.

use std::collections::{BTreeMap, VecDeque};

use strait_core::chance::Stream;
use strait_core::time::{Duration, Instant};
use strait_wire::ip::verify_transport_checksum;

use super::*;

/// What a direction does to packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) loss: f64,
    pub(super) duplicate: f64,
    /// Share of packets that are held back, and how long at most.
    pub(super) reorder: f64,
    pub(super) hold: Duration,
    pub(super) delay: Duration,
    /// Octets a second; packets wait for the line, so many at most.
    pub(super) rate: u64,
    pub(super) queue: usize,
}

impl Way {
    pub(super) const fn clean(rate: u64, delay: Duration) -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            hold: Duration::ZERO,
            delay,
            rate,
            queue: 1000,
        }
    }
}

/// An end with its application: what it sends, what it has, and how eagerly it reads.
pub(super) struct End<T: TcpEndpoint + ?Sized> {
    pub(super) tcp: Box<T>,
    pub(super) to_send: Vec<u8>,
    pub(super) taken: usize,
    pub(super) received: Vec<u8>,
    pub(super) closes: bool,
    /// Reads at most so much at a time, every so often; `None`: all at once.
    pub(super) reads: Option<(usize, Duration)>,
    read_at: Instant,
    pub(super) log: Vec<(Instant, Vec<u8>)>,
}

impl<T: TcpEndpoint + ?Sized> End<T> {
    pub(super) fn new(tcp: Box<T>, to_send: Vec<u8>) -> Self {
        Self {
            tcp,
            to_send,
            taken: 0,
            received: Vec::new(),
            closes: true,
            reads: None,
            read_at: Instant::ZERO,
            log: Vec::new(),
        }
    }

    fn work(&mut self, now: Instant) {
        let mut buffer = [0; 4096];
        match self.reads {
            None => loop {
                let count = self.tcp.recv(&mut buffer);
                if count == 0 {
                    break;
                }
                self.received.extend_from_slice(&buffer[..count]);
            },
            Some((most, every)) if now >= self.read_at => {
                let most = most.min(buffer.len());
                let count = self.tcp.recv(&mut buffer[..most]);
                self.received.extend_from_slice(&buffer[..count]);
                self.read_at = now + every;
            }
            Some(_) => {}
        }
        if self.tcp.state() == TcpState::Established {
            while self.taken < self.to_send.len() {
                let count = self.tcp.send(&self.to_send[self.taken..]);
                self.taken += count;
                if count == 0 {
                    break;
                }
            }
            if self.closes && self.taken == self.to_send.len() {
                self.tcp.close();
            }
        }
    }
}

pub(super) struct Path<A: TcpEndpoint + ?Sized, B: TcpEndpoint + ?Sized> {
    pub(super) a: End<A>,
    pub(super) b: End<B>,
    pub(super) ways: [Way; 2],
    busy: [Instant; 2],
    /// When the packets that wait or are being sent will have left.
    queues: [VecDeque<Instant>; 2],
    chance: Stream,
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    flown: u64,
    pub(super) now: Instant,
    /// Keep what each end sends.
    pub(super) logs: bool,
    /// What comes for an end that is closed is answered with a reset, as its host does.
    pub(super) resets: bool,
    pub(super) packets: u64,
}

impl<A: TcpEndpoint + ?Sized, B: TcpEndpoint + ?Sized> Path<A, B> {
    pub(super) fn new(a: End<A>, b: End<B>, ways: [Way; 2], seed: u64) -> Self {
        Self {
            a,
            b,
            ways,
            busy: [Instant::ZERO; 2],
            queues: [VecDeque::new(), VecDeque::new()],
            chance: Stream::new(seed, "pipe"),
            flying: BTreeMap::new(),
            flown: 0,
            now: Instant::ZERO,
            logs: false,
            resets: false,
            packets: 0,
        }
    }

    fn put(&mut self, side: usize, packet: &[u8]) {
        let way = self.ways[side];
        self.packets += 1;
        let queue = &mut self.queues[side];
        while queue.front().is_some_and(|ends| *ends <= self.now) {
            queue.pop_front();
        }
        // One is on the line.
        if queue.len() > way.queue {
            return;
        }
        let time_ns = packet.len() as u64 * 1_000_000_000 / way.rate;
        self.busy[side] = self.busy[side].max(self.now) + Duration::from_nanos(time_ns);
        queue.push_back(self.busy[side]);
        let copies = 1 + usize::from(self.chance.happens(way.duplicate));
        for _ in 0..copies {
            if self.chance.happens(way.loss) {
                continue;
            }
            let mut at = self.busy[side] + way.delay;
            if self.chance.happens(way.reorder) {
                at += Duration::from_nanos(self.chance.below(way.hold.as_nanos() as u64 + 1));
            }
            self.flown += 1;
            self.flying
                .insert((at, self.flown), (1 - side, packet.to_vec()));
        }
    }

    fn settle(&mut self) {
        let mut packet = Vec::new();
        for side in 0..2 {
            loop {
                let sent = if side == 0 {
                    self.a.work(self.now);
                    self.a.tcp.poll_packet(self.now, &mut packet)
                } else {
                    self.b.work(self.now);
                    self.b.tcp.poll_packet(self.now, &mut packet)
                };
                if !sent {
                    assert!(packet.is_empty());
                    break;
                }
                assert_eq!(verify_transport_checksum(&packet), Some(true));
                if self.logs {
                    let log = if side == 0 {
                        &mut self.a.log
                    } else {
                        &mut self.b.log
                    };
                    log.push((self.now, packet.clone()));
                }
                self.put(side, &packet);
            }
            let wake = if side == 0 {
                self.a.tcp.wake()
            } else {
                self.b.tcp.wake()
            };
            assert!(
                wake.is_none_or(|at| at > self.now),
                "side {side} wakes at once: {wake:?}"
            );
        }
    }

    /// The next moment at which something happens.
    fn next(&self) -> Option<Instant> {
        let read =
            |since: Option<(usize, Duration)>, at| since.map(|_| at).filter(|at| *at > self.now);
        [
            self.flying.first_key_value().map(|((at, _), _)| *at),
            self.a.tcp.wake(),
            self.b.tcp.wake(),
            read(self.a.reads, self.a.read_at),
            read(self.b.reads, self.b.read_at),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// One moment; false if nothing is planned up to `until`.
    pub(super) fn step(&mut self, until: Instant) -> bool {
        let Some(next) = self.next().filter(|next| *next <= until) else {
            return false;
        };
        assert!(next >= self.now);
        self.now = next;
        while let Some(entry) = self
            .flying
            .first_entry()
            .filter(|entry| entry.key().0 <= next)
        {
            let (to, packet) = entry.remove();
            self.deliver(to, &packet);
            self.settle();
        }
        self.settle();
        true
    }

    fn deliver(&mut self, to: usize, packet: &[u8]) {
        let state = [self.a.tcp.state(), self.b.tcp.state()][to];
        if self.resets && state == TcpState::Closed {
            let mut reset = Vec::new();
            if reset_for(packet, &mut reset) {
                self.put(to, &reset);
            }
        } else if to == 0 {
            self.a.tcp.handle_packet(self.now, packet);
        } else {
            self.b.tcp.handle_packet(self.now, packet);
        }
    }

    pub(super) fn run(&mut self, until: Instant) {
        self.settle();
        while self.step(until) {}
    }

    /// The line carries nothing for a while.
    pub(super) fn stall(&mut self, side: usize, lasts: Duration) {
        self.busy[side] = self.busy[side].max(self.now) + lasts;
    }

    /// Opens from `a`, with `b` listening.
    pub(super) fn open(&mut self) {
        self.a.tcp.connect(self.now).unwrap();
        self.b.tcp.accept(self.now).unwrap();
        self.settle();
    }
}

pub(super) fn ends(family: u8) -> (SocketAddr, SocketAddr) {
    let texts = match family {
        4 => ("10.0.0.1:4000", "10.0.0.2:80"),
        _ => ("[fd00::1]:4000", "[fd00::2]:80"),
    };
    (texts.0.parse().unwrap(), texts.1.parse().unwrap())
}

pub(super) fn content(octets: usize) -> Vec<u8> {
    (0..octets)
        .map(|at| (at ^ (at >> 8) ^ (at >> 13)) as u8)
        .collect()
}
