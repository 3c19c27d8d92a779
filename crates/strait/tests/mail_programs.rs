//! Mail programs of others on both sides of a message switch: by request (`STRAIT_MAIL_SERVERS`),
//! as `cargo xtask install` unpacks them then alone.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::Path;
use std::process::Command;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");

#[test]
fn mail_programs_of_others_bring_mail_and_have_theirs() {
    let unpacked = Path::new(STRAIT).ancestors().nth(2).unwrap();
    let unpacked = unpacked.join("programs");
    if std::env::var_os("STRAIT_MAIL_SERVERS").is_none() {
        eprintln!("mail_programs: skipped, it runs by request (STRAIT_MAIL_SERVERS)");
        return;
    }
    if !unpacked.join("usr/lib/postfix/sbin/master").is_file() {
        eprintln!("mail_programs: skipped, no Postfix: cargo xtask install");
        return;
    }
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("python3");
    command.arg(scripts.join("mail_programs.py"));
    command
        .arg(STRAIT)
        .arg(&unpacked)
        .env("TMPDIR", folder.path());
    let delta = unpacked.join("delta/bin/deltachat-rpc-server");
    command.args(delta.is_file().then_some(&delta));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{why}");
    assert!(!said.contains("FAILED") && said.contains("ok "), "{said}");
}
