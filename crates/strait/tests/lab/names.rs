//! Names looked up by DNS proxies.

use std::path::Path;
use std::process::Command;

use super::{STRAIT, can_run, compared, has, lab, lab_that};

#[test]
fn names_are_looked_up_by_proxies_live_as_in_virtual_time() {
    if !can_run("lab dns") {
        return;
    }
    let told = compared("dns.toml");
    told.expect_all(&[
        "dns-proxied-loss",
        "dns-captured-loss",
        "dns-proxied-first",
        "dns-proxied-again",
        "dns-crossed-once",
        "lab-nothing-left",
    ]);
}

#[test]
fn a_hundred_clients_and_names_in_use_cross_once() {
    if !can_run("lab dns-use") {
        return;
    }
    // A hundred processes start in a second: times are no part of it.
    let folder = tempfile::tempdir().unwrap();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab/dns-use.toml");
    let told = lab(folder.path(), &scenario, &[]);
    told.expect_all(&[
        "dns-clients-loss",
        "dns-names-loss",
        "dns-use-asked",
        "dns-use-again",
        "dns-use-octets",
        "lab-nothing-left",
    ]);
}

#[test]
fn a_cut_link_is_told_in_time_and_names_in_use_stay_live_as_in_virtual_time() {
    if !can_run("lab dns-cut") {
        return;
    }
    let told = compared("dns-cut.toml");
    told.expect_all(&[
        "dns-cut-used",
        "dns-cut-told",
        "dns-cut-asked",
        "dns-cut-asked-again-live",
        "dns-cut-new",
        "lab-nothing-left",
    ]);
}

#[test]
fn names_are_connected_to_before_they_are_known() {
    if !can_run("lab ahead") {
        return;
    }
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab/ahead.toml");
    let only = ["--only", "turn,exchange,pings,datagrams,kept"];
    let told = lab_that(&scenario, &only, |told| {
        told.checks().iter().all(|it| it["ok"] == true)
    });
    told.expect_all(&[
        "open-names",
        "open-names-pings",
        "open-names-datagrams",
        "open-names-kept",
        "lab-nothing-left",
    ]);
}

/// Resolvers at both ends, those that verify, and floods: at most ten seconds.
#[test]
fn programs_of_others_look_names_up() {
    if let Some(program) = ["dig", "dnsmasq", "ip"].iter().find(|it| !has(it)) {
        return eprintln!("names by programs of others: skipped, there is no `{program}`");
    }
    if !can_run("names by programs of others") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/dns_programs.py");
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).args([STRAIT, "short"]);
    let told = command.output().unwrap();
    let complaints = String::from_utf8_lossy(&told.stderr);
    let told_of = String::from_utf8_lossy(&told.stdout);
    eprintln!("{told_of}");
    assert!(told.status.success(), "{told_of}{complaints}");
    for row in ["dig ", "glibc", "dnsmasq at the far side", "strait dns"] {
        assert!(told_of.contains(row), "{row}: {told_of}");
    }
}
