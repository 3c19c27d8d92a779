//! Two hosts back to back in virtual time, for tests: a pipe with rate, delay and loss each way.

use std::collections::BTreeMap;

use strait_core::chance::Stream;
use strait_core::drive::{Media, settle};
use strait_core::hash::RunHash;
use strait_core::id::NeighbourId;
use strait_core::id::Neighbours;
use strait_core::node::FrameMeta;
use strait_core::rate::{Burst, LineRate};
use strait_core::{Duration, Effect, Fate, Input, Instant, Node, PortId, Room, TxMeta};

use super::{Host, HostConfig};

/// What the pipe is like, both ways alike.
#[derive(Clone, Copy)]
pub(crate) struct Pipe {
    pub(crate) rate: LineRate,
    pub(crate) delay: Duration,
    pub(crate) loss: f64,
}

impl Pipe {
    pub(crate) const fn new(bit_s: u64, delay: Duration, loss: f64) -> Self {
        Self {
            rate: LineRate::new(bit_s, 8),
            delay,
            loss,
        }
    }
}

struct Direction {
    burst: Burst,
    pipe: Pipe,
    loss: Stream,
    sent: Vec<(Instant, Vec<u8>)>,
    fates: u64,
    hash: RunHash,
}

impl Direction {
    fn new(pipe: Pipe, seed: u64, name: &str) -> Self {
        Self {
            burst: Burst::new(pipe.rate, Instant::ZERO),
            pipe,
            loss: Stream::new(seed, name),
            sent: Vec::new(),
            fates: 0,
            hash: RunHash::default(),
        }
    }
}

impl Media for Direction {
    fn room(&mut self, now: Instant, _: PortId) -> Option<Room> {
        let free = self.burst.end() <= now;
        free.then_some(Room {
            octets: 1500,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(&mut self, now: Instant, _: PortId, _: Room, _: TxMeta, frame: &mut Vec<u8>) {
        let end = self.burst.push(now, frame.len() as u64);
        if !self.loss.happens(self.pipe.loss) {
            self.sent
                .push((end + self.pipe.delay, std::mem::take(frame)));
        }
    }

    fn effect(&mut self, _: Instant, effect: Effect) {
        let Effect::Fate(record) = effect else {
            panic!("hosts have fates only")
        };
        assert!(
            matches!(record.fate, Fate::Delivered(_) | Fate::Forwarded { .. }),
            "{record:?}"
        );
        self.fates += 1;
        self.hash.fold(record.digest);
        self.hash.fold(record.ended.as_nanos());
        self.hash.fold(record.fate.code());
    }
}

/// Two hosts and the pipe between them.
pub(crate) struct Pair {
    pub(crate) hosts: [Host; 2],
    out: [Direction; 2],
    /// Frames under way, by arrival, receiver and number.
    flying: BTreeMap<(Instant, usize, u64), Vec<u8>>,
    flown: u64,
    pub(crate) now: Instant,
    scratch: Vec<u8>,
    pub(crate) events: u64,
}

impl Pair {
    pub(crate) fn new(pipe: Pipe, seed: u64) -> Self {
        let host = |name: &str, addresses: [&str; 2]| {
            let addresses = addresses.map(|text| text.parse().unwrap());
            Host::new(&HostConfig::new(name, addresses.into(), seed))
        };
        Self {
            hosts: [
                host("ha", ["10.0.0.1", "fd00::1"]),
                host("hb", ["10.0.0.2", "fd00::2"]),
            ],
            out: [
                Direction::new(pipe, seed, "ab"),
                Direction::new(pipe, seed, "ba"),
            ],
            flying: BTreeMap::new(),
            flown: 0,
            now: Instant::ZERO,
            scratch: Vec::new(),
            events: 0,
        }
    }

    fn settle(&mut self, side: usize) {
        let (host, out) = (&mut self.hosts[side], &mut self.out[side]);
        settle(host, out, self.now, 1, &mut self.scratch);
        assert!(
            self.events == 0 || host.wake().is_none_or(|wake| wake.at > self.now),
            "a wake-up right after a settle"
        );
        for (at, frame) in out.sent.drain(..) {
            self.flying.insert((at, 1 - side, self.flown), frame);
            self.flown += 1;
        }
        host.check();
    }

    /// The next moment at which something happens.
    fn next(&self) -> Option<Instant> {
        let arrival = self.flying.first_key_value().map(|((at, ..), _)| *at);
        let sides = (0..2).flat_map(|side| {
            let wake = self.hosts[side].wake().map(|wake| wake.at);
            let queued = self.hosts[side].wants(PortId::HOST).is_some();
            let room = queued.then(|| self.out[side].burst.end());
            [wake, room]
        });
        sides.chain([arrival]).flatten().min()
    }

    /// Runs until `end`, that moment included, or until nothing happens any more.
    pub(crate) fn run(&mut self, end: Instant) {
        self.settle(0);
        self.settle(1);
        while let Some(next) = self.next().filter(|next| *next <= end) {
            assert!(next >= self.now, "time goes back");
            self.now = next;
            self.events += 1;
            while let Some((key, frame)) = self.flying.pop_first() {
                if key.0 > self.now {
                    self.flying.insert(key, frame);
                    break;
                }
                let input = Input::Frame {
                    port: PortId::HOST,
                    from: NeighbourId::PEER,
                    bytes: &frame,
                    meta: FrameMeta::default(),
                };
                self.hosts[key.1].handle(self.now, input);
                self.settle(key.1);
            }
            for side in 0..2 {
                if self.hosts[side]
                    .wake()
                    .is_some_and(|wake| wake.at <= self.now)
                {
                    self.hosts[side].handle(self.now, Input::Timeout);
                }
                self.settle(side);
            }
        }
    }

    /// What happened, in one number.
    pub(crate) fn hash(&self) -> u64 {
        let mut hash = RunHash::default();
        self.out.iter().for_each(|out| hash.fold(out.hash.value()));
        hash.value()
    }
}
