//! One forged frame, whatever it is and whenever it comes, costs a link ten seconds at most.
//!
//! One forger reads everything and puts in one frame; another reads nothing and puts in very many.
//!
//! `STRAIT_SWARM_SEED=n` runs one case of each kind of link, `STRAIT_SWARM_RUNS=n` so many;
//! `STRAIT_FORGED_FRAMES=n` is how many the one who reads nothing puts in.

#![allow(clippy::unwrap_used, reason = "a test ends at what it does not expect")]
#![allow(clippy::print_stdout, reason = "a test tells what it has tried")]

mod dice;
mod hops;
mod segments;
mod traffic;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use strait_core::chance::Stream;
use strait_core::rate::LineRate;
use strait_core::{Duration, Instant};
use strait_wire::segment::SegmentCheck;

use dice::Dice;
use traffic::{Flow, Record};
use world::{Medium, World};

/// What the frames of a link are.
#[derive(Clone, Copy, Debug)]
enum Format {
    Segments { marks: bool },
    Hops(SegmentCheck),
    Paper,
}

/// A kind of link.
#[derive(Clone, Copy, Debug)]
struct Link {
    name: &'static str,
    keys: &'static str,
    octets: bool,
    format: Format,
}

const SEGMENTS: Format = Format::Segments { marks: false };

const LINKS: [Link; 9] = [
    Link {
        name: "plain line",
        keys: "profile = \"plain\"",
        octets: true,
        format: SEGMENTS,
    },
    Link {
        name: "plain frames",
        keys: "profile = \"plain\"",
        octets: false,
        format: SEGMENTS,
    },
    Link {
        name: "segments line",
        keys: "profile = \"segments\"\ncompression = \"rohc\"\nremember_flows = true\n[state]\nfile = \"state\"",
        octets: true,
        format: SEGMENTS,
    },
    Link {
        name: "segments frames",
        keys: "profile = \"segments\"\ncompression = \"rohc\"\npayload = \"deflate\"",
        octets: false,
        format: SEGMENTS,
    },
    Link {
        name: "rebuilding frames",
        keys: "profile = \"segments\"\ncompression = \"rohc\"\nchecksums = \"rebuild\"\ncheck = 16",
        octets: false,
        format: SEGMENTS,
    },
    Link {
        name: "adapter line",
        keys: "profile = \"adapter\"\ncompression = \"rohc\"\npayload = \"deflate\"",
        octets: true,
        format: Format::Segments { marks: true },
    },
    Link {
        name: "hbh",
        keys: "profile = \"hbh\"\nhbh = { reliability = [{ class = \"voice\", parity = 3 }] }",
        octets: false,
        format: Format::Hops(SegmentCheck::Long),
    },
    Link {
        name: "hbh, 16 bits",
        keys: "profile = \"hbh\"\ncheck = 16",
        octets: false,
        format: Format::Hops(SegmentCheck::Short),
    },
    Link {
        name: "hbh as published",
        keys: "profile = \"hbh\"\nhbh = { format = \"paper\" }",
        octets: false,
        format: Format::Paper,
    },
];

impl Link {
    fn medium(self) -> Medium {
        let (bit_s, bits) = if self.octets { (9600, 10) } else { (64_000, 8) };
        Medium {
            octets: self.octets,
            rate: LineRate::new(bit_s, bits),
            latency: Duration::from_millis(30),
        }
    }

    fn text(self) -> String {
        let kind = if self.octets {
            "kind = \"serial\"\nbaud = 9600"
        } else {
            "kind = \"udp\""
        };
        format!(
            "name = \"end\"\n[host]\naddresses = [\"10.9.0.1/30\", \"fd00:9::1/64\"]\n[[port]]\nname = \"link\"\n{kind}\n{}\n",
            self.keys
        )
    }

    /// Packets that may come twice: as published, those of each flow's window when both ends begin
    /// anew; else what a forger says again.
    const fn doubled_max(self) -> usize {
        match self.format {
            Format::Paper => 4 * 8,
            _ => 1,
        }
    }

    fn forge(self, dice: &mut Dice, world: &World, from: usize) -> Vec<u8> {
        match self.format {
            Format::Segments { marks } => {
                segments::forge(dice, &world.seen, from, self.medium(), marks)
            }
            Format::Hops(check) => hops::forge(dice, &world.seen, from, check),
            Format::Paper => hops::forge_paper(dice, &world.seen, from),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Cases of each kind of link.
const RUNS: u64 = 40;
/// What one frame may cost.
const COST_S: u64 = 10;
/// How long service is watched after that.
const WATCHED_S: u64 = 30;

/// A run, with a forger or without.
fn run(link: Link, seed: u64, forges: bool) -> (World, Record, u64) {
    let mut dice = Dice(Stream::new(seed, "forger"));
    let mut world = World::new(&link.text(), link.medium(), seed);
    let octets_s = link.medium().rate.octets_in(Duration::from_secs(1));
    let mut record = Record::new(Flow::all(octets_s));
    let restart_s = dice.one_in(3).then(|| 1 + dice.below(8) as u64);
    let begins = if restart_s.is_some() { 9_000 } else { 0 };
    let at_ms = begins + dice.below(20_000) as u64;
    let to = dice.below(2);
    if let Some(restart_s) = restart_s {
        record.run_until(&mut world, Instant::from_secs(restart_s));
        world.restart(1);
    }
    record.run_until(&mut world, Instant::from_millis(at_ms));
    if forges {
        let octets = link.forge(&mut dice, &world, 1 - to);
        if number("STRAIT_SWARM_SEED").is_some() && number("STRAIT_SWARM_RUNS").is_none() {
            println!("{} {seed}: at {at_ms} ms to {to}: {octets:02x?}", link.name);
        }
        world.inject(to, &octets);
    }
    let end_s = at_ms / 1000 + COST_S + WATCHED_S;
    record.run_until(&mut world, Instant::from_secs(end_s));
    world.check();
    (world, record, at_ms)
}

/// What is wrong with a case.
fn judge(link: Link, seed: u64) -> Vec<String> {
    let (_, expected, at_ms) = run(link, seed, false);
    let (world, record, _) = run(link, seed, true);
    let mut wrong = Vec::new();
    let (from_s, to_s) = (
        at_ms / 1000 + 1 + COST_S,
        at_ms / 1000 + COST_S + WATCHED_S - 4,
    );
    let service = record.service();
    let mut lost = std::collections::BTreeMap::new();
    for (&(flow, second), &came) in &expected.service() {
        let own = service.get(&(flow, second)).copied().unwrap_or_default();
        if own < came && (from_s..to_s).contains(&second) {
            *lost.entry(flow).or_insert(0) += came - own;
        }
    }
    for (flow, packets) in lost {
        wrong.push(format!(
            "{:?} loses {packets} packets after {COST_S} s",
            record.flow(flow)
        ));
    }
    // One frame may hold one packet, and one may come of it by parity.
    let strange = record.strange.len() - expected.strange.len().min(record.strange.len());
    if strange > 2 {
        wrong.push(format!(
            "{strange} packets that nobody sent: {:02x?}",
            record.strange
        ));
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
    let mut world = World::new(&link.text(), link.medium(), seed);
    let octets_s = link.medium().rate.octets_in(Duration::from_secs(1));
    let mut record = Record::new(Flow::all(octets_s));
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
    let link = LINKS.into_iter().find(|link| link.name == name).unwrap();
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
    let link = LINKS.into_iter().find(|link| link.name == name).unwrap();
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
    one_frame_on_a_line_of_segments: "segments line",
    one_frame_among_segments: "segments frames",
    one_frame_where_checksums_are_rebuilt: "rebuilding frames",
    one_frame_on_an_adapter_line: "adapter line",
    one_frame_on_a_reliable_hop: "hbh",
    one_frame_on_a_reliable_hop_of_16_bits: "hbh, 16 bits",
    one_frame_on_a_hop_as_published: "hbh as published",
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
