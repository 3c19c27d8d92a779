//! Cells of packet radio in whole scenarios.

use std::path::Path;

use strait_core::units::Time;
use strait_core::{Duration, Instant};
use strait_scenario::{Loaded, Scenario};
use strait_sim::{Fault, Run, build, check, run_once};

fn load(name: &str, seconds: u64) -> Loaded {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut loaded = Scenario::load(&folder.join(name)).unwrap();
    loaded.scenario.duration = Time(Duration::from_secs(seconds));
    loaded
}

/// Asserts what the scenario expects.
fn holds(loaded: &Loaded, run: &Run) {
    for expected in &loaded.scenario.expectations {
        let value = run.metrics[&expected.metric];
        let low = expected.min.is_none_or(|min| value >= min);
        let high = expected.max.is_none_or(|max| value <= max);
        assert!(low && high, "{} is {value}", expected.id);
    }
}

#[test]
fn a_call_crosses_a_relay_that_others_flood() {
    let loaded = load("lab/cell.toml", 14);
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    assert_eq!(run.unexplained, 0);
    holds(&loaded, &run);
}

#[test]
fn a_far_receiver_has_its_share_of_the_time_and_no_more() {
    let loaded = load("manet/far-station.toml", 30);
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    assert_eq!(run.unexplained, 0);
    holds(&loaded, &run);
    // In turns by octets it has most of the time.
    let turns = run_once(&loaded, "fq-codel", 1, false).unwrap();
    let near = |run: &Run| run.metrics["to-n1.rate_bit_s"];
    assert!(near(&run) > 2.0 * near(&turns));
}

#[test]
fn a_call_goes_on_among_ten_that_wander() {
    let loaded = load("manet/wander.toml", 330);
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    assert_eq!(run.unexplained, 0);
    let (loss, changes) = (run.metrics["voice.loss"], run.metrics["n4.olsr_changes"]);
    assert!(loss < 0.01 && changes > 10.0, "{loss} {changes}");
}

#[test]
fn a_call_goes_on_by_another_relay_when_one_walks_away() {
    let loaded = load("manet/walk.toml", 70);
    for (variant, silent_s) in [(Scenario::BASE, 1.5), ("by-hellos", 6.5)] {
        let run = run_once(&loaded, variant, 1, false).unwrap();
        assert_eq!(run.unexplained, 0, "{variant}");
        let lost_s = run.metrics["voice.loss"] * 45.0;
        assert!(lost_s > 0.0 && lost_s < silent_s, "{variant}: {lost_s}");
    }
}

#[test]
fn routers_hear_each_other_beside_more_than_the_cell_carries() {
    let loaded = load("manet/routed.toml", 45);
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    assert_eq!(run.unexplained, 0);
    // By the RFC alone half of it is lost.
    let loss = run.metrics["audio.loss"];
    assert!(loss < 0.01, "{loss}");
}

#[test]
fn a_router_that_is_killed_leaves_nothing_unexplained() {
    let loaded = load("lab/olsr.toml", 26);
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    holds(&loaded, &run);
}

#[test]
fn precedence_keeps_a_call_where_a_plain_queue_loses_most_of_it() {
    let loaded = load("manet/two-hop.toml", 12);
    let loss = |variant: &str| {
        let run = run_once(&loaded, variant, 1, false).unwrap();
        assert_eq!(run.unexplained, 0);
        run.metrics["audio.loss"]
    };
    assert_eq!(loss(Scenario::BASE), 0.0);
    assert!(loss("fifo") > 0.5);
}

#[test]
fn a_relay_that_is_killed_leaves_nothing_unexplained() {
    let loaded = load("lab/cell.toml", 14);
    let mut built = build(&loaded, Scenario::BASE, 1).unwrap();
    let relay = built.node("r").unwrap();
    let world = built.world_mut();
    world.keep_fates();
    world.set_check_every(50);
    world.plan(Instant::from_secs(5), Fault::Kill(relay));
    world.plan(Instant::from_secs(7), Fault::Restart(relay));
    for second in 1..=14 {
        world.run_until(Instant::from_secs(second));
        assert_eq!(check::violations(world), [""; 0], "after {second} s");
    }
}
