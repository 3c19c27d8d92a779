//! Same scenario and seed, same history: in any thread, process, build and machine, and whether
//! or not anybody looks at it.

use std::path::Path;
use std::process::Command;

use strait_core::units::Time;
use strait_core::{Duration, Instant};
use strait_scenario::{Loaded, Scenario};
use strait_sim::{Options, build, run_once, run_scenario};
use strait_traffic::Kind;

use crate::draw::{HEAL_MS, draw};

/// A swarm scenario with four gateways, a shared port, a serial line, kills, outages, changes of
/// the rate, loss in bursts, jitter, reordering, duplicates, bit errors, half duplex and
/// compressed headers.
const SEED: u64 = 32_464;

/// Hashes of runs. They are the same in every build and on every machine, and change with whatever
/// changes what happens in these scenarios: their files, the drawing of the swarm's, the simulated
/// endpoints and applications, link format, scheduling, channels and their randomness, the
/// simulator's order of events, and what the hash takes in. If such a change is meant, put the
/// hash that the test prints here, in the same commit.
const GOLDEN_DEMO: u64 = 0x3596_91cb_79f0_6ea8;
const GOLDEN_SWARM: u64 = 0xf4ce_f9d8_ccf6_802f;

/// With the endpoints that change least.
fn pinned(mut loaded: Loaded) -> Loaded {
    for traffic in &mut loaded.scenario.traffic {
        if matches!(traffic.kind, Kind::Tcp | Kind::Page) {
            let endpoint = Some("smoltcp-cubic".into());
            traffic.change(|keys| keys.endpoint = endpoint).unwrap();
        }
    }
    loaded
}

fn swarm() -> Loaded {
    let drawn = draw(SEED);
    assert!(drawn.doubles && !drawn.weak && drawn.resent_max == 0);
    assert!(drawn.end_ms > drawn.complete_ms && drawn.complete_ms > drawn.drained_ms);
    let mut loaded = drawn.load();
    // Faults and what follows directly; the long wait after them shows nothing here.
    loaded.scenario.duration = Time(Duration::from_millis(2 * HEAL_MS));
    pinned(loaded)
}

/// The demonstration's first two minutes.
fn demo() -> Loaded {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
    let mut loaded = match Scenario::load(&file) {
        Ok(loaded) => loaded,
        Err(error) => panic!("{error}"),
    };
    loaded.scenario.duration = Time(Duration::from_secs(120));
    pinned(loaded)
}

fn hash(loaded: &Loaded, seed: u64) -> u64 {
    run_once(loaded, Scenario::BASE, seed, false).unwrap().hash
}

#[test]
fn one_seed_has_one_history_and_another_seed_another() {
    let loaded = swarm();
    assert_eq!(hash(&loaded, 1), hash(&loaded, 1));
    assert_ne!(hash(&loaded, 1), hash(&loaded, 2));
}

#[test]
fn threads_change_nothing() {
    let loaded = swarm();
    let outcome = |threads| {
        let options = Options {
            runs: Some(6),
            threads: Some(threads),
            ..Options::default()
        };
        run_scenario(&loaded, &options, |_, _| ()).unwrap()
    };
    let (one, many) = (outcome(1), outcome(3));
    assert_eq!(one.hash(), many.hash());
    let hashes = |outcome: &strait_sim::Outcome| -> Vec<_> {
        let runs = outcome.runs.iter();
        runs.map(|run| (run.seed, run.hash, run.metrics.clone()))
            .collect()
    };
    assert_eq!(hashes(&one), hashes(&many));
}

#[test]
fn looking_changes_nothing() {
    for loaded in [swarm(), demo()] {
        let plain = hash(&loaded, 5);
        let captured = run_once(&loaded, Scenario::BASE, 5, true).unwrap();
        assert_eq!(captured.hash, plain);
        assert!(!captured.captures.is_empty());
        let end_ns = loaded.scenario.duration.0.as_nanos() as u64;
        for step_ns in [end_ns, 77_777_777] {
            let mut built = build(&loaded, Scenario::BASE, 5).unwrap();
            let world = built.world_mut();
            world.keep_fates();
            world.set_check_every(3);
            let mut at_ns = 0;
            while at_ns < end_ns {
                at_ns = (at_ns + step_ns).min(end_ns);
                world.run_until(Instant::from_nanos(at_ns));
            }
            assert_eq!(world.hash(), plain, "in steps of {step_ns} ns");
        }
    }
}

/// What [`another_process_has_the_same_history`] runs in another process.
#[test]
fn prints_a_hash() {
    println!("hash={:#018x}", hash(&swarm(), 7));
}

#[test]
fn another_process_has_the_same_history() {
    let program = std::env::current_exe().unwrap();
    let mut printed = Vec::new();
    for _ in 0..2 {
        let mut command = Command::new(&program);
        let output = command
            .args(["--exact", "determinism::prints_a_hash", "--nocapture"])
            .output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let (_, hash) = text.split_once("hash=").unwrap();
        printed.push(hash[..18].to_owned());
    }
    let here = format!("{:#018x}", hash(&swarm(), 7));
    assert_eq!(printed, [here.clone(), here]);
}

#[test]
fn every_build_and_machine_has_the_same_history() {
    let found = [hash(&demo(), 1), hash(&swarm(), 1)];
    let [demo, swarm] = found;
    let text = format!("the hashes are now {demo:#018x} and {swarm:#018x}");
    assert_eq!(found, [GOLDEN_DEMO, GOLDEN_SWARM], "{text}");
}
