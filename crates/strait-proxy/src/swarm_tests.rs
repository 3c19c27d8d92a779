//! Random transfers while everything goes wrong between two sessions: whatever a stream's reader
//! takes is what its writer gave, each stream ends whole or with an error on both sides, and when
//! things stop going wrong nothing is left. `STRAIT_SWARM_SEED=n` runs one scenario,
//! `STRAIT_SWARM_RUNS=n` so many.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use std::println;

use strait_core::chance::Stream as Chance;

use super::*;
use crate::codec::Ends;
use crate::table::LEAST_OUT_OCTETS;

const RUNS: u64 = 20;
/// Scenarios go wrong for so long, in steps of 10 ms; then all has to end in so many.
const STEPS: u64 = 9000;
const STEPS_AFTER: u64 = 30_000;

const SETTINGS: Settings = Settings {
    waits: Waits {
        patience: Duration::from_secs(1),
        pause: Duration::from_millis(750),
        reorder: Duration::ZERO,
        ack: Duration::from_millis(200),
    },
    window: 64 * 1024,
    hold: 4 * 1024,
    hold_alone: 8 * 1024,
    wait: Duration::from_secs(30),
    streams_max: 32,
    octets_max: 256 * 1024,
};

/// How a stream's end here has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Whole,
    Error(u16),
}

/// One end of a stream, with whoever is there.
#[derive(Debug)]
struct End {
    tag: u16,
    /// Octets it has to send, and has sent; octets it has read.
    octets: usize,
    sent: usize,
    read: usize,
    /// How many of a hundred times it reads when it might; and whether all has been.
    reads: u64,
    at_end: bool,
    accepted: bool,
}

/// What one side of a stream sends at a place.
fn octet(tag: u16, opener: bool, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8) ^ usize::from(tag) ^ (usize::from(opener) << 6)) as u8
}

fn octets(tag: u16, opener: bool, from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|at| octet(tag, opener, at)).collect()
}

struct Swarm {
    now: Instant,
    chance: Chance,
    sides: [Session; 2],
    tokens: u32,
    ends: [BTreeMap<Key, End>; 2],
    /// By stream, its length each way, the opener's first.
    lengths: Vec<[usize; 2]>,
    fates: BTreeMap<(u16, bool), Fate>,
    way: Vec<(Instant, usize, u8, Vec<u8>)>,
    /// How many of a hundred datagrams are lost, come twice, are late; datagrams of a step.
    faults: [u64; 3],
    pace: u64,
    cut_until: Instant,
    healed: bool,
    octets_most: u64,
}

impl Swarm {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed, "swarm");
        let faults = [25, 10, 30].map(|most| chance.below(most));
        Self {
            now: Instant::ZERO,
            sides: [1, 2].map(|token| Session::new(token, SETTINGS)),
            tokens: 2,
            ends: [BTreeMap::new(), BTreeMap::new()],
            lengths: Vec::new(),
            fates: BTreeMap::new(),
            way: Vec::new(),
            faults,
            pace: 1 + chance.below(4),
            cut_until: Instant::ZERO,
            healed: false,
            octets_most: 0,
            chance,
        }
    }

    fn happens(&mut self, of_1000: u64) -> bool {
        self.chance.below(1000) < of_1000
    }

    fn draw_octets(&mut self) -> usize {
        let most = [1, 200, 5000, 100_000][self.chance.below(4) as usize];
        self.chance.below(most) as usize
    }

    /// Who opens a stream, and whoever sends by it.
    fn add(&mut self, side: usize, key: Key, tag: u16, octets: usize, accepted: bool) {
        let patient = [100, 100, 10, 1, 0][self.chance.below(5) as usize];
        let reads = if self.healed { 100 } else { patient };
        let end = End {
            tag,
            octets,
            sent: 0,
            read: 0,
            reads,
            at_end: false,
            accepted,
        };
        self.ends[side].insert(key, end);
    }

    fn open(&mut self, side: usize) {
        let tag = self.lengths.len() as u16;
        let open = Open {
            ends: Ends {
                client: ([10, 1, 0, 2], tag).into(),
                server: ([10, 2, 0, 2], 80).into(),
            },
            dscp: [0, 10][self.chance.below(2) as usize],
        };
        let lengths = [self.draw_octets(), self.draw_octets()];
        if let Ok(key) = self.sides[side].open(self.now, open) {
            self.lengths.push(lengths);
            self.add(side, key, tag, lengths[0], true);
        }
    }

    fn end(&mut self, side: usize, key: Key, fate: Fate) {
        if let Some(end) = self.ends[side].remove(&key) {
            self.fates.insert((end.tag, key.ours), fate);
        }
    }

    /// A gateway is killed and begins anew: its hosts' connections are gone with it.
    fn restart(&mut self, side: usize) {
        self.tokens += 1;
        self.sides[side] = Session::new(self.tokens, SETTINGS);
        self.sides[side].greet(self.now);
        for key in self.ends[side].keys().copied().collect::<Vec<_>>() {
            self.end(side, key, Fate::Error(CONNECTION_RESET));
        }
    }

    fn go_wrong(&mut self) {
        for side in 0..2 {
            if self.happens(8) {
                self.open(side);
            }
            if self.happens(1) && self.happens(300) {
                self.restart(side);
            }
            let key = self.ends[side].keys().next().copied();
            if let Some(key) = key.filter(|_| self.happens(1)) {
                self.sides[side].reset(key, 200 + side as u16);
                self.end(side, key, Fate::Error(200 + side as u16));
            }
        }
        if self.happens(1) {
            self.cut_until = self.now + Duration::from_millis(self.chance.below(50_000));
        }
    }

    fn heal(&mut self) {
        (self.faults, self.cut_until) = ([0; 3], self.now);
        self.healed = true;
        let ends = self.ends.iter_mut().flat_map(BTreeMap::values_mut);
        ends.for_each(|end| end.reads = 100);
    }

    fn hear_events(&mut self, side: usize) {
        while let Some(event) = self.sides[side].poll_event() {
            match event {
                Event::Opened(key, _) if self.happens(100) => self.sides[side].reset(key, 111),
                Event::Opened(key, open) => {
                    let tag = open.ends.client.port();
                    let octets = self.lengths[usize::from(tag)][1];
                    self.add(side, key, tag, octets, false);
                }
                Event::Reset(key, error) => self.end(side, key, Fate::Error(error)),
                Event::Lost(key) => self.end(side, key, Fate::Error(TIMED_OUT)),
                Event::Accepted(_) | Event::Ready(_) => {}
            }
        }
    }

    /// Whoever is at the ends of streams writes and reads.
    fn use_ends(&mut self, side: usize) {
        for (key, mut end) in core::mem::take(&mut self.ends[side]) {
            let session = &mut self.sides[side];
            if !end.accepted && self.chance.below(100) < 20 {
                session.accept(key);
                end.accepted = true;
            }
            if end.accepted && end.sent < end.octets {
                let room = session.room(key).min(1 + self.chance.below(3000)) as usize;
                let to = end.octets.min(end.sent + room);
                session.write(self.now, key, &octets(end.tag, key.ours, end.sent, to));
                end.sent = to;
            }
            if end.accepted && end.sent == end.octets {
                session.finish(key);
            }
            if self.chance.below(100) < end.reads {
                let came = session.read(key, 1 + self.chance.below(5000) as usize);
                let right = octets(end.tag, !key.ours, end.read, end.read + came.len());
                assert!(came == right, "{end:?} reads what nobody sent");
                end.read += came.len();
                if !end.at_end && session.at_end(key) {
                    let all = self.lengths[usize::from(end.tag)][usize::from(key.ours)];
                    assert_eq!(end.read, all, "{end:?} is cut short");
                    end.at_end = true;
                }
            }
            let done = end.at_end && end.accepted && end.sent == end.octets;
            self.ends[side].insert(key, end);
            if done {
                self.end(side, key, Fate::Whole);
            }
        }
    }

    fn carry(&mut self, from: usize) {
        self.sides[from].tend(self.now);
        for dscp in self.sides[from].wants(self.now) {
            for _ in 0..self.pace {
                let Some(bytes) = self.sides[from].poll(self.now, dscp, 1200) else {
                    break;
                };
                let mut draw = |of: u64| self.chance.below(100) < of;
                let [lost, twice, late] = self.faults.map(&mut draw);
                if lost || self.now < self.cut_until {
                    continue;
                }
                for _ in 0..1 + u32::from(twice) {
                    let more = self.chance.below(if late { 400 } else { 1 });
                    let at = self.now + Duration::from_millis(50 + more);
                    self.way.push((at, 1 - from, dscp, bytes.clone()));
                }
            }
        }
    }

    fn step(&mut self) {
        (0..2).for_each(|side| self.carry(side));
        self.now += Duration::from_millis(10);
        let now = self.now;
        for (_, to, dscp, bytes) in self
            .way
            .extract_if(.., |it| it.0 <= now)
            .collect::<Vec<_>>()
        {
            self.sides[to].hear(now, dscp, &bytes).unwrap();
        }
        for side in 0..2 {
            self.hear_events(side);
            self.use_ends(side);
            self.hear_events(side);
            self.sides[side].check();
            let held = self.sides[side].streams.all.values().map(Stream::held);
            self.octets_most = self.octets_most.max(held.sum());
        }
    }

    fn is_over(&self) -> bool {
        let quiet = |it: &Session| it.streams.all.is_empty() && it.flights.is_empty();
        self.sides.iter().all(quiet) && self.ends.iter().all(BTreeMap::is_empty)
    }

    fn run(&mut self) {
        for _ in 0..STEPS {
            self.go_wrong();
            self.step();
        }
        self.heal();
        for _ in 0..STEPS_AFTER {
            if self.is_over() {
                break;
            }
            self.step();
        }
        let left = self.ends.each_ref().map(BTreeMap::len);
        let all = self.sides.each_ref().map(|it| it.streams.len());
        assert!(
            self.is_over(),
            "{left:?} ends and {all:?} streams are stuck"
        );
        for tag in 0..self.lengths.len() as u16 {
            let fates = [true, false].map(|opener| self.fates.get(&(tag, opener)));
            assert!(fates[0].is_some(), "whoever opened {tag} was told nothing");
            // Who had all of it can't have been told otherwise by the other end's gateway.
            let half = matches!(fates, [Some(Fate::Whole), None]);
            assert!(!half, "{tag} is whole, and nobody was at its other end");
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn streams_are_whole_or_end_with_an_error_whatever_goes_wrong() {
    let first = number("STRAIT_SWARM_SEED");
    let runs =
        number("STRAIT_SWARM_RUNS").unwrap_or_else(|| if first.is_some() { 1 } else { RUNS });
    let (mut whole, mut ended, mut most) = (0, 0, 0);
    for seed in first.unwrap_or(1)..first.unwrap_or(1) + runs {
        println!("STRAIT_SWARM_SEED={seed}");
        let mut swarm = Swarm::new(seed);
        swarm.run();
        whole += swarm
            .fates
            .values()
            .filter(|it| **it == Fate::Whole)
            .count();
        ended += swarm.fates.len();
        most = most.max(swarm.octets_most);
        let least = (SETTINGS.streams_max as u64 * 3) * (FIRST_CREDIT + LEAST_OUT_OCTETS);
        assert!(most <= 2 * SETTINGS.octets_max + least, "{most} octets");
    }
    println!("{whole} of {ended} ends whole, {most} octets held at most");
    // Many go well in spite of all.
    assert!(whole * 3 > ended || runs < 10, "{whole} of {ended}");
}
