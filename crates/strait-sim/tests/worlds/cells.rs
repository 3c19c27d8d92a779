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

#[test]
fn urgent_packets_do_not_wait_for_what_a_relay_has_to_send_on() {
    let rate = ("medium.air.rate".into(), "1 Mbit/s".into());
    let loaded = load("manet/routed.toml", 62).at(&vec![rate]).unwrap();
    let run = run_once(&loaded, Scenario::BASE, 2, false).unwrap();
    // Where the relay has a queue, 0.14 s.
    let p99 = run.metrics["audio.settled_delay_p99_s"];
    assert!(p99 < 0.09, "{p99}");
}

#[test]
fn nothing_waits_for_a_relay_that_sends_on_by_another_channel() {
    let loaded = load("manet/two-channels.toml", 80);
    let time_s = |variant: &str| {
        let run = run_once(&loaded, variant, 1, false).unwrap();
        assert_eq!(run.unexplained, 0);
        run.metrics["file.time_s"]
    };
    // It took nearly twice as long where the hops of the way alone counted.
    assert!(time_s(Scenario::BASE) <= time_s("never") * 1.02);
}

#[test]
fn a_call_over_two_hops_takes_the_air_of_both() {
    let loaded = load("lab/cell-calls.toml", 24);
    let run = run_once(&loaded, Scenario::BASE, 1, false).unwrap();
    holds(&loaded, &run);
    let all = run_once(&loaded, "all", 1, false).unwrap();
    let worst = |run: &Run| run.metrics["second.loss"];
    assert!(worst(&all) > 0.05 && worst(&run) < 0.01);
}

#[test]
fn reliable_hops_repair_what_their_class_is_worth() {
    let loaded = load("manet/hbh.toml", 40);
    let loss = |variant: &str| {
        let run = run_once(&loaded, variant, 1, false).unwrap();
        holds(&loaded, &run);
        run.metrics["call.loss"]
    };
    assert!(loss(Scenario::BASE) > 0.03 && loss("parity") < 0.01 && loss("all") < 0.001);
}
