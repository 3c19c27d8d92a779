//! Ends that forget everything, vanish, or are cut off in the middle of whatever they do, and come
//! back with another connection between the same addresses and ports.
//!
//! Each end is a machine with one pair of ports. The client connects several times, one after the
//! other, and every connection carries octets that no other has. While that goes on, machines are
//! killed and lines are cut. What must hold: a stream is whole and in order, or its end is stated
//! in time; no octet of one connection comes out of another; something is always planned while
//! an end isn't closed; every queue keeps its limit.

mod machine;

use std::collections::BTreeMap;

use strait_core::chance::Stream;
use strait_core::time::{Duration, Instant};
use strait_core::units::Time;

use self::machine::{Machine, Role, Session};
use super::pipe::{End, Path, ends};
use super::swarm::{OURS, seeds, way};
use super::*;

/// Scenarios that a run of the tests tries.
const RUNS: u64 = 4000;
/// How long packets are held back at most: old segments meet new connections.
const HOLD_MS: u64 = 20_000;
/// Octets at the head of a stream that tell whose it is.
const TAG: usize = 8;

/// What goes wrong; ends and ways have numbers, the client's is 0.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill(usize),
    Revive(usize),
    Cut(usize),
    Mend(usize),
}

type Line = Path<Machine, Machine>;

struct Scenario {
    line: Line,
    faults: Vec<(Instant, Fault)>,
    worst: f64,
}

fn machine(role: Role, draw: &mut Stream, (local, remote): (SocketAddr, SocketAddr)) -> Machine {
    let name = OURS[draw.below(6) as usize];
    let mut profile = Profile::named(name).unwrap();
    // Days of virtual time for nothing, else.
    profile.keep_alive.idle = Time(Duration::from_secs(5 + draw.below(600)));
    profile.keep_alive.interval = Time(Duration::from_secs(1 + draw.below(75)));
    // Sequence numbers and timestamps near their end: they wrap within the transfers.
    let initial = u64::from(u32::MAX) - draw.below(100_000);
    let clock = u64::from(u32::MAX) - draw.below(20_000);
    let config = TcpConfig {
        mtu: [1500, 576, 1280][draw.below(3) as usize],
        send_octets: 2000 + draw.below(60_000) as usize,
        receive_octets: 2000 + draw.below(60_000) as usize,
        nagle: draw.happens(0.5),
        keep_alive: draw.happens(0.5),
        give_up: draw
            .happens(0.3)
            .then(|| Duration::from_secs(5 + draw.below(200))),
        seed: initial << 32 | clock,
        ..TcpConfig::new(local, remote)
    };
    let own = Stream::new(draw.draw(), "machine");
    Machine::new(role, profile, config, own)
}

/// When something goes wrong: in the handshake as often as much later.
fn moment(draw: &mut Stream) -> Instant {
    let most = 1 << (6 + draw.below(12));
    Instant::from_millis(draw.below(most))
}

fn faults(draw: &mut Stream) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..draw.below(4) {
        let (at, side) = (moment(draw), draw.below(2) as usize);
        let most = 1 << draw.below(20);
        let lasts = Duration::from_millis(draw.below(most));
        match draw.below(5) {
            0 => {
                faults.push((at, Fault::Cut(side)));
                faults.push((at + lasts, Fault::Mend(side)));
            }
            1 => {
                faults.extend([0, 1].map(|way| (at, Fault::Cut(way))));
                faults.extend([0, 1].map(|way| (at + lasts, Fault::Mend(way))));
            }
            2 if draw.happens(0.2) => faults.push((at, Fault::Kill(side))),
            _ => {
                faults.push((at, Fault::Kill(side)));
                faults.push((at + lasts, Fault::Revive(side)));
            }
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let mut draw = Stream::new(seed, "restart");
        let (near, far) = ends(if draw.happens(0.5) { 4 } else { 6 });
        let worst = [0.0, 0.05, 0.15][draw.below(3) as usize];
        let ways = [(); 2].map(|()| way(&mut draw, worst, HOLD_MS));
        let mut client = machine(Role::Client, &mut draw, (near, far));
        let mut server = machine(Role::Server, &mut draw, (far, near));
        // Who closes first; both at once, too.
        match draw.below(3) {
            0 => client.waits = true,
            1 => server.waits = true,
            _ => {}
        }
        let overlaps = draw.happens(0.25);
        for machine in [&mut client, &mut server] {
            machine.overlaps = overlaps;
            if overlaps {
                // Nobody waits until old segments are gone.
                machine.profile.time_wait = Time(Duration::from_millis(1 + draw.below(1000)));
            }
        }
        let faults = faults(&mut draw);
        let (client, server) = (Box::new(client), Box::new(server));
        let made = |machine| {
            let mut end = End::new(machine, Vec::new());
            end.closes = false;
            end
        };
        Self {
            line: Path::new(made(client), made(server), ways, seed),
            faults,
            worst,
        }
    }

    fn run(&mut self) {
        self.line.open();
        let ways = self.line.ways;
        for (at, fault) in self.faults.clone() {
            self.go_on(at);
            self.line.now = at;
            let [client, server] = [&mut self.line.a, &mut self.line.b];
            let ends = [&mut client.tcp, &mut server.tcp];
            match fault {
                Fault::Kill(end) => ends.into_iter().nth(end).unwrap().kill(),
                Fault::Revive(end) => ends.into_iter().nth(end).unwrap().revive(at),
                Fault::Cut(way) => self.line.ways[way].loss = 1.0,
                Fault::Mend(way) => self.line.ways[way].loss = ways[way].loss,
            }
            self.line.run(at);
        }
        self.go_on(self.line.now + Duration::from_secs(100_000));
    }

    fn go_on(&mut self, until: Instant) {
        while self.line.step(until) {
            self.line.a.tcp.check(self.line.now);
            self.line.b.tcp.check(self.line.now);
        }
    }

    /// What came of it all.
    fn judge(&self) -> Outcome {
        let machines = [&*self.line.a.tcp, &*self.line.b.tcp];
        let pairs = pairs(machines.map(|machine| &machine.sessions[..]));
        let mut outcome = Outcome::default();
        for (side, machine) in machines.into_iter().enumerate() {
            let other = machines[1 - side];
            for (index, session) in machine.sessions.iter().enumerate() {
                let partner = pairs[side].get(&index).map(|at| &other.sessions[*at]);
                if let Some(partner) = partner {
                    assert!(partner.to_send.starts_with(&session.received));
                    // The end of a stream is its end.
                    let all = session.received.len() == partner.to_send.len();
                    assert!(all || !session.drained);
                }
                outcome.count(session);
            }
        }
        outcome
    }
}

/// Which sessions of both ends are two sides of one connection, by the octets that came.
fn pairs(sessions: [&[Session]; 2]) -> [BTreeMap<usize, usize>; 2] {
    let mut pairs = [BTreeMap::new(), BTreeMap::new()];
    for side in 0..2 {
        let others = sessions[1 - side];
        for (index, session) in sessions[side].iter().enumerate() {
            if session.received.len() < TAG {
                let begins = |other: &Session| other.to_send.starts_with(&session.received);
                assert!(others.iter().any(begins) || session.received.is_empty());
                continue;
            }
            let tag = &session.received[..TAG];
            let partner = others
                .iter()
                .position(|other| other.to_send.starts_with(tag));
            let partner = partner.expect("octets that nobody sent");
            for (side, one, other) in [(side, index, partner), (1 - side, partner, index)] {
                let known = pairs[side].insert(one, other);
                assert!(
                    known.is_none_or(|known| known == other),
                    "streams are mixed"
                );
            }
        }
    }
    pairs
}

/// Connections that ended in order, forgotten, refused, reset, in a timeout, and not at all.
#[derive(Debug, Default)]
struct Outcome([u64; 6]);

impl Outcome {
    const fn count(&mut self, session: &Session) {
        self.0[match session.ended {
            _ if session.killed => 1,
            Some(None) => 0,
            Some(Some(TcpError::Refused)) => 2,
            Some(Some(TcpError::Reset)) => 3,
            Some(Some(_)) => 4,
            None => 5,
        }] += 1;
    }

    fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

impl Scenario {
    /// Connections begun when nothing goes wrong any more come to a good end, unless the path
    /// loses much, an end has little patience, or one reads for longer than the other waits.
    fn judge_last(&self) {
        let machines = [&*self.line.a.tcp, &*self.line.b.tcp];
        let last = self.faults.last().map_or(Instant::ZERO, |(at, _)| *at);
        let last = last.max(machines[1].up_at);
        let patient = |machine: &Machine| machine.on && machine.config.give_up.is_none();
        // Who waits too short a time answers a repeated FIN with a reset.
        let hasty = machines[0].overlaps;
        if hasty || self.worst > 0.05 || !machines.into_iter().all(patient) {
            return;
        }
        for session in &machines[0].sessions {
            // Who has closed doesn't wait for ever for one who reads on.
            let reads = machines[1].reading(session.to_send.len());
            if session.began > last && reads < machines[0].profile.fin_wait.0 {
                assert_eq!(session.ended, Some(None), "{session:?}");
            }
        }
    }
}

/// Tells of the seed if its scenario fails.
struct Shown(u64);

impl Drop for Shown {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("STRAIT_SWARM_SEED={}", self.0);
        }
    }
}

#[test]
fn ends_that_forget_vanish_or_are_cut_off_confuse_no_connection() {
    let seeds = seeds(RUNS);
    let runs = seeds.end - seeds.start;
    let mut total = Outcome::default();
    for seed in seeds {
        let mut scenario = Scenario::new(seed);
        let shown = Shown(seed);
        if runs == 1 {
            println!("{:?}, {:?}", scenario.faults, scenario.line.ways);
        }
        scenario.run();
        total.add(&scenario.judge());
        scenario.judge_last();
        drop(shown);
    }
    println!("{runs} scenarios: {total:?}");
    // Each way to end is met often, or nothing was tried.
    assert!(runs < RUNS || total.0.iter().all(|count| 20 * count >= runs));
}
