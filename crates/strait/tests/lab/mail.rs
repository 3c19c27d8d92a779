//! Mail servers of others on both sides of two message switches: by request
//! (`STRAIT_MAIL_SERVERS`), as their times are judged, and the radio takes three minutes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::PoisonError;

use super::{HOST, STRAIT, can_run};

/// Where `cargo xtask install` unpacks programs that can't be installed beside each other.
fn unpacked() -> PathBuf {
    let target = Path::new(STRAIT).ancestors().nth(2).unwrap();
    target.join("programs")
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
    // Mail servers wait for their disk at each step, which is no part of the line's time.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    };
    let run = || {
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
    let first = run();
    drop(beside);
    if first.status.success() {
        return;
    }
    // What a host with much else to do adds is no part of what is judged.
    let _alone = HOST.write().unwrap_or_else(PoisonError::into_inner);
    let again = run();
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
