//! Policies in a real kernel: every preset is taken, set and removed without a trace.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use strait_core::time::Duration;
use strait_core::units::BitRate;
use strait_lab::kernel::{
    Applied, Offered, Pace, QueueBench, QueueSpeed, apply, bench::INTERFACE, remove,
};
use strait_qos::PolicyConfig;
use strait_qos::export::{Export, Queues, export};

#[path = "../../strait-live/tests/common/mod.rs"]
mod common;

fn exported(text: &str, line: u64, queues: Queues) -> Export {
    let config: PolicyConfig = toml::from_str(text).unwrap();
    export(&config, INTERFACE, Some(BitRate(line)), queues).unwrap()
}

/// Whether this host has what a policy in the kernel needs; says so if not.
fn can_run(test: &str) -> bool {
    if !common::is_root(test) {
        return false;
    }
    for program in ["nft", "tc"] {
        let found = std::process::Command::new(program).arg("-V").output();
        if found.is_err() {
            eprintln!("{test}: skipped, no `{program}`");
            return false;
        }
    }
    let bench = QueueBench::create("probe").unwrap();
    let htb = exported("preset = \"fifo\"", 512_000, Queues::Plain);
    let applied = apply(&htb, bench.namespace());
    if let Err(error) = &applied {
        eprintln!("{test}: skipped: {error}");
    }
    applied.is_ok()
}

/// What `nft` and `tc` show of the interface's namespace.
fn shown(bench: &QueueBench) -> String {
    let show = |program: &str, arguments: &[&str]| {
        let run = || std::process::Command::new(program).args(arguments).output();
        let output = bench.namespace().enter(run).unwrap().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let qdiscs = show("tc", &["qdisc", "show", "dev", INTERFACE]);
    let classes = show("tc", &["class", "show", "dev", INTERFACE]);
    qdiscs + &classes + &show("nft", &["list", "ruleset"])
}

#[test]
fn presets_are_set_and_removed_without_a_trace() {
    if !can_run("presets_are_set_and_removed_without_a_trace") {
        return;
    }
    let bench = QueueBench::create("presets").unwrap();
    let before = shown(&bench);
    let table = Export::table(INTERFACE);
    let presets = PolicyConfig::presets();
    for (name, queues) in presets.flat_map(|it| [(it, Queues::Near), (it, Queues::Plain)]) {
        let export = exported(&format!("preset = \"{name}\""), 512_000, queues);
        // Kernels without modules lack these; elsewhere they have to be taken as well.
        let missing = ["sfq", "fq_codel", " prio bands "]
            .iter()
            .any(|kind| export.tc.contains(kind));
        match apply(&export, bench.namespace()) {
            Ok(applied) => assert_eq!(applied, Applied::New, "{name}"),
            Err(error) if missing && error.to_string().contains("unknown") => {
                assert!(error.to_string().contains("--plain-queues"), "{error}");
                assert_eq!(shown(&bench), before, "{name}: nothing stays of a failure");
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        }
        assert_ne!(shown(&bench), before);
        let again = apply(&export, bench.namespace()).unwrap();
        assert_eq!(again, Applied::Replaced);
        assert!(remove(INTERFACE, &table, bench.namespace()).unwrap());
        assert_eq!(shown(&bench), before, "{name}");
        assert!(!remove(INTERFACE, &table, bench.namespace()).unwrap());
    }
}

#[test]
fn what_others_set_stays() {
    if !can_run("what_others_set_stays") {
        return;
    }
    let bench = QueueBench::create("others").unwrap();
    let theirs = || {
        std::process::Command::new("tc")
            .args([
                "qdisc", "add", "dev", INTERFACE, "root", "handle", "7:", "pfifo",
            ])
            .status()
    };
    assert!(bench.namespace().enter(theirs).unwrap().unwrap().success());
    let before = shown(&bench);
    let export = exported("preset = \"fifo\"", 512_000, Queues::Near);
    let error = apply(&export, bench.namespace()).unwrap_err().to_string();
    assert!(
        error.contains("pfifo 7:") && error.contains("tc qdisc del"),
        "{error}"
    );
    assert!(!remove(INTERFACE, &export.table, bench.namespace()).unwrap());
    assert_eq!(shown(&bench), before);
}

#[test]
fn a_policy_in_the_kernel_shares_and_marks() {
    if !can_run("a_policy_in_the_kernel_shares_and_marks") {
        return;
    }
    let text = r#"
        discipline = "htb"
        default = "b"
        class = [
            { name = "all", rate = "2 Mbit/s" },
            { name = "a", parent = "all", rate = "1500 kbit/s", mark = "AF21" },
            { name = "b", parent = "all", rate = "500 kbit/s" },
        ]
        match = [{ class = "a", dscp = "EF", destination_port = 5001 }]
    "#;
    let mut bench = QueueBench::create("shares").unwrap();
    apply(
        &exported(text, 100_000_000, Queues::Near),
        bench.namespace(),
    )
    .unwrap();
    let flow = |port, dscp| Offered {
        port,
        dscp,
        octets: 1000,
        pace: Pace::Backlogged,
    };
    let flows = [flow(5001, 46), flow(5002, 46)];
    let (warm_up, window) = (Duration::from_millis(300), Duration::from_secs(2));
    let came = bench.run(&flows, warm_up, window, &|| false).unwrap();
    let rates = came.iter().map(|came| came.rate_bit_s(window));
    let [a, b] = rates.collect::<Vec<_>>()[..] else {
        panic!("two flows");
    };
    assert!(
        (a - 1.5e6).abs() < 0.1e6 && (b - 0.5e6).abs() < 0.05e6,
        "{a} {b}"
    );
    let marks = |came: &strait_lab::kernel::Came| {
        came.by_dscp
            .iter()
            .map(|(dscp, _)| *dscp)
            .collect::<Vec<_>>()
    };
    assert_eq!((marks(&came[0]), marks(&came[1])), (vec![18], vec![46]));
}

#[test]
fn a_round_of_packets_waits_in_the_policy_and_comes_through_whole() {
    if !can_run("a_round_of_packets_waits_in_the_policy_and_comes_through_whole") {
        return;
    }
    let text = r#"
        discipline = "htb"
        shape = { rate = "10 Gbit/s", burst = "4 MB" }
        class = [{ name = "all", rate = "10 Gbit/s", packets = 1000 }]
    "#;
    let load = strait_qos::load::Load::new().unwrap();
    let packets = load.packets();
    let export = exported(text, 10_000_000_000, Queues::Near);
    let mut speed = QueueSpeed::open(&export, &packets).unwrap();
    for _ in 0..2 {
        let round = speed.round().unwrap();
        assert!(round.with > Duration::ZERO && round.without > Duration::ZERO);
    }
    // What can't be shut can't be measured.
    let open = exported("preset = \"fifo\"", 512_000, Queues::Near);
    assert!(QueueSpeed::open(&open, &packets).is_err());
}
