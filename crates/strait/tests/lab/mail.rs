//! Lanes of two message switches, also by the TCP proxy's session, live as in virtual time. Mail
//! servers of others on both sides of two switches: by request (`STRAIT_MAIL_SERVERS`), as their
//! times are judged, and the radio takes three minutes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::PoisonError;

use super::{HOST, STRAIT, Told, can_run, lab_that, run, shortened};

/// Where `cargo xtask install` unpacks programs that can't be installed beside each other.
fn unpacked() -> PathBuf {
    let target = Path::new(STRAIT).ancestors().nth(2).unwrap();
    target.join("programs")
}

/// A place without a disk, where there is one: who stores each step waits for that, which is no
/// part of a line's time.
fn memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

/// Messages from Postfix to Exim by this scenario, and one back: their times are those of the
/// simulated one within 5 % and a second, and all packets of lanes have their lane's code point.
fn crosses(scenario: &str) {
    let there = |it: &str| unpacked().join(it).is_file();
    let servers = ["usr/sbin/exim4", "usr/lib/postfix/sbin/master"];
    if std::env::var_os("STRAIT_MAIL_SERVERS").is_none() || !can_run(scenario) {
        return;
    }
    if !servers.into_iter().all(there) {
        eprintln!("{scenario}: skipped, no Postfix and Exim: cargo xtask install");
        return;
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = project.join("scenarios/mail").join(scenario);
    let place = memory();
    let tried = || {
        let folder = tempfile::tempdir_in(&place).unwrap();
        let mut lab = Command::new(STRAIT);
        lab.arg("lab").arg(&file).args(["--", "python3"]);
        lab.arg(project.join("scripts/mail_path.py")).arg(&file);
        lab.arg(STRAIT).arg(unpacked());
        lab.env("TMPDIR", folder.path()).output().unwrap()
    };
    let told = |output: &Output| {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said + &String::from_utf8_lossy(&output.stderr)
    };
    let beside = HOST.read().unwrap_or_else(PoisonError::into_inner);
    let first = tried();
    drop(beside);
    if first.status.success() {
        return;
    }
    // What a host with much else to do adds is no part of what is judged.
    let _alone = HOST.write().unwrap_or_else(PoisonError::into_inner);
    let again = tried();
    assert!(again.status.success(), "{}\n{}", told(&first), told(&again));
}

#[test]
fn messages_cross_a_serial_line_from_postfix_to_exim() {
    crosses("site-9600.toml");
}

#[test]
fn messages_cross_512_kbit_s_from_postfix_to_exim() {
    crosses("site-512k.toml");
}

#[test]
fn messages_cross_two_hf_stations_from_postfix_to_exim() {
    crosses("site-hf.toml");
}

/// Whether messages took as long as in virtual time, within 5 % and a second, and nothing else
/// failed.
fn holds(told: &Told, table: &str) -> bool {
    let near = |name: &&str| {
        let [live, simulated] = [2, 3].map(|it| told.number(table, &format!("{name}.time_s"), it));
        (live - simulated).abs() <= 0.05 * simulated + 1.0
    };
    let of_times = |it: &serde_json::Value| it["id"].as_str().unwrap().starts_with("agree-");
    let mut others = told.checks().iter().filter(|it| !of_times(it));
    ["idle", "routine", "flash"].iter().all(near) && others.all(|it| it["ok"] == true)
}

/// Lanes of two switches, by a scenario with these changes.
fn between_switches(scenario: &str, changes: &[(&str, &str)], check: &str) {
    if !can_run(scenario) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let table = format!("mail-{}", scenario.trim_end_matches(".toml"));
    let scenario = shortened(folder.path(), &format!("../mail/{scenario}"), changes);
    let again = || {
        let folder = tempfile::tempdir_in(memory()).unwrap();
        run(folder.path(), &scenario, &["--with-sim", "--brief"])
    };
    let beside = HOST.read().unwrap_or_else(PoisonError::into_inner);
    let first = again();
    drop(beside);
    let told = if holds(&first, &table) {
        first
    } else {
        let _alone = HOST.write().unwrap_or_else(PoisonError::into_inner);
        again()
    };
    for id in [check, "lab-wrong-octets", "lab-nothing-left"] {
        assert!(told.checks().iter().any(|it| it["id"] == id), "no {id}");
    }
    assert!(
        holds(&told, &table),
        "{:#?}\n{}",
        told.result,
        told.complaints
    );
}

#[test]
fn lanes_by_a_session_over_a_serial_line_are_as_in_virtual_time() {
    let changes = [("\"100 kB\"", "\"40 kB\""), ("\"60 s\"", "\"40 s\"")];
    between_switches("proxied.toml", &changes, "mail-proxied-all");
}

#[test]
fn lanes_by_a_session_of_two_hf_stations_are_as_in_virtual_time() {
    between_switches("proxied-hf.toml", &[], "mail-proxied-hf-flash");
}

#[test]
fn messages_cross_512_kbit_s_between_two_switches_as_in_virtual_time() {
    between_switches("flash-512k.toml", &[], "mail-all");
}

#[test]
fn a_station_fetches_its_mail_live_as_in_virtual_time() {
    if !can_run("lab polled") {
        return;
    }
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scenario = project.join("scenarios/mail/polled.toml");
    let told = lab_that(&scenario, &[], |told| {
        told.checks().iter().all(|it| it["ok"] == true)
    });
    told.expect_all(&[
        "mail-polled-waits",
        "mail-polled-comes",
        "mail-polled-flash",
        "lab-wrong-octets",
        "lab-nothing-left",
    ]);
}
