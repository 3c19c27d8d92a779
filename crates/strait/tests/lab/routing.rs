//! Routes that are found: by gateways themselves, and by a routing daemon beside them.

use std::fs;
use std::path::{Path, PathBuf};

use strait_live::files::packets;

use super::{Told, can_run, has, lab, lab_that};

fn scenario(name: &str) -> PathBuf {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab");
    scenarios.join(name)
}

fn has_babeld() -> bool {
    let there = can_run("lab babeld") && has("babeld");
    if !there {
        eprintln!("lab babeld: skipped without root or `babeld`");
    }
    there
}

#[test]
fn a_routing_protocol_leads_reliable_hops_round_a_cut_link() {
    if !has_babeld() {
        return;
    }
    let scenario = scenario("hbh-babel.toml");
    // Where `babeld` misses two hellos of three, as it does in one run of eight, it has left the
    // link before that is cut.
    for _ in 0..4 {
        let folder = tempfile::tempdir().unwrap();
        let told = lab(folder.path(), &scenario, &["--strict", "--brief"]);
        told.expect_all(&["hbh-babel-file", "lab-wrong-octets", "lab-nothing-left"]);
        let used = |link: &str| told.number("hbh-babel", link, 2) > 0.02;
        assert!(used("round.use"));
        // It went on by the other way: both carried some of it, and the first way takes 8.5 s.
        if used("three.use") {
            let time_s = told.number("hbh-babel", "file.time_s", 2);
            assert!(time_s > 9.0, "{time_s}");
            return;
        }
    }
    panic!("the file never went by the link that is cut");
}

/// The reports that took the radio: when they came to it and how long they stayed, in seconds since
/// the first.
fn by_radio(kept: &Path) -> Vec<(f64, f64)> {
    let all = packets::read(&kept.join("a-0.packets"));
    let mut reports: Vec<_> = all.iter().filter(|it| it.octets == 428).collect();
    reports.sort_by_key(|it| it.began_ns);
    let first = reports.first().map_or(0, |it| it.began_ns);
    let seconds = |from: u64, until: u64| (until - from) as f64 / 1e9;
    let each = reports.iter();
    let each = each.map(|it| {
        (
            seconds(first, it.began_ns),
            seconds(it.began_ns, it.ended_ns),
        )
    });
    each.collect()
}

/// The emulator starts before the reports do by this at least, less 35 s: the radio fades then.
const FADES_S: f64 = 12.0;

/// Until when reports took the radio that faded, and since when it had.
fn faded(variant: &str, checks: &[&str]) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let options = ["--variant", variant, "--keep", kept.to_str().unwrap()];
    let told = lab(folder.path(), &scenario("babel.toml"), &options);
    told.expect_all(checks);
    let reports = by_radio(&kept);
    // They had taken it, 20 a second, and it was good.
    let before = reports.iter().filter(|(at, _)| *at < FADES_S).count();
    assert!(before >= 235, "{before} of 240 reports by the radio");
    let slow = |(at, stay): &&(f64, f64)| *at >= FADES_S && *stay > 0.1;
    let (fades, _) = *reports.iter().find(slow).expect("a radio that fades");
    // It lost nothing.
    let lost = fs::read_to_string(kept.join("link2.stats.json")).unwrap();
    assert_eq!(lost.matches("\"lost\": {}").count(), 2, "{lost}");
    (fades, reports.last().unwrap().0)
}

#[test]
fn babeld_leaves_a_link_that_fades_if_it_is_told_what_that_costs() {
    if !has_babeld() {
        return;
    }
    let (fades, last) = faded("strait", &["babel-reports-loss", "lab-nothing-left"]);
    assert!((0.0..10.0).contains(&(last - fades)), "{fades} {last}");
}

#[test]
fn babeld_stays_on_a_link_that_fades_if_nobody_tells_it() {
    if !has_babeld() {
        return;
    }
    let (fades, last) = faded("plain", &["babel-reports-loss-plain", "lab-nothing-left"]);
    assert!(last - fades > 19.0, "{fades} {last}");
}

#[test]
fn gateways_find_another_way_when_a_relay_is_killed() {
    if !can_run("lab olsr") {
        return;
    }
    let mut options = vec!["--with-sim", "--runs", "20"];
    if !has("mgen") {
        options.extend(["--only", "voice,ping"]);
    }
    // How long hellos have to be missing depends on when the last one came: in simulated runs, too.
    let silent = |told: &Told| {
        let [live, lowest, highest] =
            [2, 6, 7].map(|column| told.number("olsr", "voice.silent_max_s", column));
        (live, lowest * 0.8..highest * 1.2)
    };
    let told = lab_that(&scenario("olsr.toml"), &options, |told| {
        let (live, near) = silent(told);
        near.contains(&live)
    });
    told.expect_all(&[
        "olsr-voice-loss",
        "olsr-voice-cut",
        "olsr-ping-loss",
        "lab-nothing-left",
    ]);
    let (live, near) = silent(&told);
    assert!(near.contains(&live), "{live} s of {near:?}");
}
