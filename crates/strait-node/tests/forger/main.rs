//! One forged frame, whatever it is and whenever it comes, costs a link ten seconds at most.
//!
//! One forger reads everything and puts in one frame; another reads nothing and puts in very many.
//!
//! `STRAIT_SWARM_SEED=n` runs one case of each kind of link, `STRAIT_SWARM_RUNS=n` so many;
//! `STRAIT_FORGED_FRAMES=n` is how many the one who reads nothing puts in.

#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]
#![allow(clippy::print_stdout, reason = "a test tells what it has tried")]

mod answers;
mod dice;
mod hops;
mod links;
mod packets;
mod segments;
mod traffic;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use strait_core::chance::Stream;
use strait_core::{Duration, Instant};

use dice::Dice;
use links::{LINKS, Link};
use traffic::{Flow, Record, Service};
use world::World;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Cases of each kind of link.
const RUNS: u64 = 16;
/// What one frame may cost.
const COST_S: u64 = 10;
/// How long service is watched after that.
const WATCHED_S: u64 = 30;

/// What a case draws beside the frame.
struct Case {
    world: World,
    record: Record,
    at_ms: u64,
    /// Packets are lost on the medium, or come in another order.
    rough: bool,
}

/// The flows of hosts that a link carries.
fn record(link: Link) -> Record {
    let octets_s = link.medium().rate.octets_in(Duration::from_secs(1));
    let mut flows = Flow::all(octets_s);
    flows.retain(|flow| !link.one_way || flow.from == 0);
    Record::new(flows)
}

/// What befalls a run, and when a case says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blow {
    /// Nothing.
    None,
    /// A forged frame reaches an end, or both.
    Frame,
    /// In place of that, whoever it would reach begins anew.
    Restart,
}

/// A run with what befalls it.
fn run(link: Link, seed: u64, blow: Blow) -> Case {
    let mut dice = Dice(Stream::new(seed, "forger"));
    let medium = link.rough_medium(&mut dice);
    let mut world = World::new(link, medium, seed);
    let mut record = record(link);
    let restart_s = dice.one_in(3).then(|| 1 + dice.below(8) as u64);
    let begins = if restart_s.is_some() { 9_000 } else { 0 };
    let at_ms = begins + dice.below(20_000) as u64;
    if let Some(restart_s) = restart_s {
        record.run_until(&mut world, Instant::from_secs(restart_s));
        world.restart(dice.below(2));
    }
    record.run_until(&mut world, Instant::from_millis(at_ms));
    if blow != Blow::None {
        let from = dice.below(2);
        let octets = link.forge(&mut dice, &world, from);
        // Who hears radio mostly hears both ends, and is heard by both.
        let both = dice.one_in(4);
        let hit = [1 - from, from].into_iter().take(1 + usize::from(both));
        if number("STRAIT_SWARM_SEED").is_some() && number("STRAIT_SWARM_RUNS").is_none() {
            let hit: Vec<usize> = hit.clone().collect();
            println!("{} {seed}: {medium:?}", link.name);
            println!("  restart {restart_s:?} s; at {at_ms} ms to {hit:?}: {octets:02x?}");
        }
        for end in hit {
            match blow {
                Blow::Restart => world.restart(end),
                _ => world.inject(end, &octets),
            }
        }
    }
    let end_s = at_ms / 1000 + COST_S + WATCHED_S;
    record.run_until(&mut world, Instant::from_secs(end_s));
    world.check();
    Case {
        world,
        record,
        at_ms,
        rough: medium.lost > 0 || medium.reorders,
    }
}

/// Packets that a flow may miss though it has its service: where the medium loses some, or a flow
/// is too much for it, others are lost if one frame came between.
const fn spared(service: Service, rough: bool) -> usize {
    if rough || service.expected < service.offered {
        3 + service.expected / 4
    } else {
        0
    }
}

/// What comes of a flow if those that a forged frame reaches lose all that they know in place of
/// it. Where nobody can ask, that comes back with what is said anew from time to time; and the
/// medium may take one of these packets after the other, forger or not.
fn forgotten(link: Link, seed: u64, flow: usize, from: Instant, until: Instant) -> usize {
    let record = run(link, seed, Blow::Restart).record;
    record.beside(&record, flow, from, until).came
}

/// What is wrong with a case.
fn judge(link: Link, seed: u64) -> Vec<String> {
    let expected = run(link, seed, Blow::None);
    let case = run(link, seed, Blow::Frame);
    let (world, record, rough) = (case.world, case.record, case.rough);
    let (expected, at_s) = (expected.record, case.at_ms / 1000);
    let mut wrong = Vec::new();
    let from = Instant::from_secs(at_s + 1 + COST_S);
    let until = Instant::from_secs(at_s + COST_S + WATCHED_S - 4);
    for flow in 0..record.flows() {
        let service = record.beside(&expected, flow, from, until);
        if service.came + spared(service, rough) < service.expected {
            let unasked = rough && link.one_way;
            if unasked && service.came >= forgotten(link, seed, flow, from, until) {
                continue;
            }
            let flow = record.flow(flow);
            wrong.push(format!("{flow:?} after {COST_S} s: {service:?}"));
        }
    }
    // One frame may hold one packet, and one may come of it by parity.
    let strange = record.strange.len() - expected.strange.len().min(record.strange.len());
    if strange > 2 {
        wrong.push(format!(
            "{strange} packets that nobody sent: {:02x?}",
            record.strange
        ));
    }
    // A packet that comes with another header is no service: ten seconds for these as well.
    let altered = |record: &Record| record.altered.iter().filter(|at| **at >= from).count();
    if altered(&record) > altered(&expected) {
        let last = record.altered.last();
        wrong.push(format!("packets came altered until {last:?}"));
    }
    if record.doubled() > expected.doubled() + link.doubled_max() {
        wrong.push(format!("{} packets twice", record.doubled()));
    }
    if !wrong.is_empty() && number("STRAIT_SWARM_SEED").is_some() {
        println!("{}", world.told());
    }
    wrong
}

/// Frames of somebody who reads nothing, in a run.
const GUESSES: u64 = 20_000;
/// How long they come.
const GUESSING_S: u64 = 30;

/// A run in which frames of random octets reach both ends all the time, or don't.
fn guess(link: Link, seed: u64, frames: u64) -> Record {
    let mut dice = Dice(Stream::new(seed, "guesses"));
    let mut world = World::new(link, link.medium(), seed);
    let mut record = record(link);
    let begins = Instant::from_secs(3);
    for frame in 0..frames {
        let at = begins + Duration::from_nanos(GUESSING_S * 1_000_000_000 / frames * frame);
        record.run_until(&mut world, at);
        let many = 3 + dice.below(30);
        let mut octets = dice.octets(many);
        if dice.one_in(2) {
            octets[0] = [0x0b, 0x0c, 0x80, 0xa0, 0xc0, 0xf8, 0x45, 0x7e][dice.below(8)];
        }
        world.inject(dice.below(2), &octets);
    }
    let end = Instant::from_secs(3 + GUESSING_S + WATCHED_S);
    record.run_until(&mut world, end);
    world.check();
    record
}

/// How soon guesses are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Felt {
    /// Where frames have 32 bits of check: nobody ever feels any.
    Never,
    /// Where one of 65,536 has a right check, or all damage what they stand in, as on a line.
    Briefly,
}

/// Whoever reads nothing is felt by chance alone, and not for long.
fn expect_guesses_fail(name: &str, felt: Felt) {
    let link = Link::named(name);
    let seed = number("STRAIT_SWARM_SEED").unwrap_or(1);
    let frames = number("STRAIT_FORGED_FRAMES").unwrap_or(GUESSES);
    let expected = guess(link, seed, 0);
    let record = guess(link, seed, frames);
    let service = record.service();
    let over_s = 3 + GUESSING_S;
    let from_s = match felt {
        Felt::Never => 0,
        Felt::Briefly => over_s + COST_S,
    };
    let to_s = over_s + WATCHED_S - 4;
    for (&(flow, second), &came) in &expected.service() {
        let own = service.get(&(flow, second)).copied().unwrap_or_default();
        let flow = record.flow(flow);
        if (from_s..to_s).contains(&second) {
            assert!(
                own >= came,
                "{name}: {flow:?} at {second} s: {own} of {came}"
            );
        }
    }
}

fn attempt(link: Link, seed: u64) -> Vec<String> {
    catch_unwind(AssertUnwindSafe(|| judge(link, seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        vec![format!("panic: {}", text.unwrap_or("?"))]
    })
}

/// Every case of a kind of link.
fn expect_right(name: &str) {
    let link = Link::named(name);
    let first = number("STRAIT_SWARM_SEED");
    let runs =
        number("STRAIT_SWARM_RUNS").unwrap_or_else(|| if first.is_some() { 1 } else { RUNS });
    let first = first.unwrap_or(1);
    let failures: Vec<String> = (first..first + runs)
        .map(|seed| (seed, attempt(link, seed)))
        .filter(|(_, wrong)| !wrong.is_empty())
        .map(|(seed, wrong)| format!("STRAIT_SWARM_SEED={seed}\n  {}\n", wrong.join("\n  ")))
        .collect();
    let shown = failures[..failures.len().min(10)].concat();
    assert!(
        failures.is_empty(),
        "{name}: {} of {runs} fail:\n{shown}",
        failures.len()
    );
}

macro_rules! swarm {
    ($($test:ident: $name:literal),* $(,)?) => {$(
        #[test]
        fn $test() {
            expect_right($name);
        }
    )*};
}

swarm! {
    one_frame_on_a_plain_line: "plain line",
    one_frame_among_plain_frames: "plain frames",
    one_frame_on_a_bare_line: "bare line",
    one_frame_among_bare_frames: "bare frames",
    one_frame_on_a_line_of_segments: "segments line",
    one_frame_among_segments: "segments frames",
    one_frame_where_packets_are_counted: "counting frames",
    one_frame_among_known_flows: "known flows",
    one_frame_where_checksums_are_rebuilt: "rebuilding frames",
    one_frame_on_a_bare_adapter_line: "bare adapter",
    one_frame_on_an_adapter_line: "adapter line",
    one_frame_among_adapter_frames: "adapter frames",
    one_frame_on_a_reliable_hop: "hbh",
    one_frame_on_a_reliable_hop_of_16_bits: "hbh, 16 bits",
    one_frame_on_a_hop_as_published: "hbh as published",
    one_frame_on_kiss: "kiss",
    one_frame_on_bare_kiss: "bare kiss",
    one_frame_on_plain_kiss: "plain kiss",
    one_frame_on_a_reliable_hop_by_kiss: "kiss, hbh",
    one_frame_one_way_plain: "one-way plain frames",
    one_frame_one_way: "one-way frames",
    one_frame_on_a_line_one_way: "one-way line",
    one_frame_on_an_adapter_line_one_way: "one-way adapter",
    one_frame_on_kiss_one_way: "one-way kiss",
    one_frame_between_ethernets_plain: "ethernets, plain",
    one_frame_between_ethernets_on_a_line: "ethernets, line",
    one_frame_between_ethernets: "ethernets, frames",
    one_frame_between_ethernets_on_an_adapter_line: "ethernets, adapter",
    one_frame_between_ethernets_on_a_reliable_hop: "ethernets, hbh",
    one_frame_between_ethernets_as_published: "ethernets, published",
}

#[test]
fn each_kind_of_link_serves() {
    for link in LINKS {
        let case = run(*link, 1, Blow::None);
        for flow in 0..case.record.flows() {
            let (from, until) = (Instant::from_secs(20), Instant::from_secs(30));
            let service = case.record.beside(&case.record, flow, from, until);
            assert!(
                service.came > 0,
                "{}: {:?}",
                link.name,
                case.record.flow(flow)
            );
        }
    }
}

#[test]
fn guesses_on_reliable_hops() {
    expect_guesses_fail("hbh", Felt::Never);
    expect_guesses_fail("hbh, 16 bits", Felt::Briefly);
    expect_guesses_fail("hbh as published", Felt::Briefly);
}

#[test]
fn guesses_among_segments() {
    expect_guesses_fail("segments frames", Felt::Briefly);
    expect_guesses_fail("plain frames", Felt::Briefly);
}

#[test]
fn guesses_on_a_line() {
    expect_guesses_fail("plain line", Felt::Briefly);
    expect_guesses_fail("adapter line", Felt::Briefly);
}
