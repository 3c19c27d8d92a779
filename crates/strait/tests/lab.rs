//! The lab as its user meets it: a short scenario with a kill, an end by force, missing rights.
//! Needs root, and the programs that make the traffic.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");

/// Whether this machine can have a lab; says why not.
fn can_run(test: &str) -> bool {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("{test}: skipped, this needs root");
        return false;
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let has = |program: &&str| std::env::split_paths(&folders).any(|it| it.join(program).is_file());
    let missing = ["ping", "curl", "python3"]
        .into_iter()
        .find(|program| !has(program));
    if let Some(program) = missing {
        eprintln!("{test}: skipped, there is no `{program}`");
    }
    missing.is_none()
}

/// A scenario file in `folder`: twelve seconds with everything but iperf3, and a kill.
fn scenario(folder: &Path) -> PathBuf {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = include_str!("lab/short.toml").replace("SCENARIOS", files.to_str().unwrap());
    let path = folder.join("short.toml");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_short_lab_measures_resumes_and_leaves_nothing() {
    if !can_run("lab") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(STRAIT)
        .args(["lab", "--json", "--strict"])
        .arg(scenario(folder.path()))
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&complaints);
    let checks = result["checks"].as_array().unwrap();
    let ids: Vec<&str> = checks.iter().filter_map(|it| it["id"].as_str()).collect();
    for id in [
        "voice-loss",
        "lab-wrong-octets",
        "lab-restart",
        "lab-nothing-left",
    ] {
        assert!(ids.contains(&id), "{id} in {ids:?}");
    }
    let failed: Vec<_> = checks.iter().filter(|it| it["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}\n{complaints}");
    assert!(output.status.success(), "{complaints}");
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "only the scenario itself");
}

#[test]
fn the_flows_of_a_script_are_the_same_live_and_simulated() {
    if !can_run("lab mgen") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab/mgen.toml");
    let output = Command::new(STRAIT)
        .args(["lab", "--json", "--strict", "--with-sim"])
        .arg(scenario)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&complaints);
    assert!(
        output.status.success(),
        "{:#?}\n{complaints}",
        result["checks"]
    );
    let rows = result["tables"][0]["rows"].as_array().unwrap();
    // Patterns draw the same gaps in both worlds: so rates agree far better than by chance.
    for flow in 1..=3 {
        let name = format!("flows.{flow}.rate_bit_s");
        let row = rows
            .iter()
            .find(|row| row[0] == name.as_str())
            .expect("a rate");
        let relative = row[5].as_f64().expect("both rates");
        assert!(relative.abs() < 0.005, "{name}: {relative}");
    }
}

#[test]
fn token_buckets_share_a_live_line_as_they_do_a_simulated_one() {
    if !can_run("lab policy-htb") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // A quarter of the time is enough for shares.
    let text = include_str!("../../../scenarios/lab/policy-htb.toml")
        .replace("\"42 s\"", "\"14 s\"")
        .replace("\"41 s\"", "\"13 s\"");
    let path = folder.path().join("policy-htb.toml");
    fs::write(&path, text).unwrap();
    let output = Command::new(STRAIT)
        .args(["lab", "--with-sim", "--json", "--strict"])
        .arg(&path)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&complaints);
    let checks = result["checks"].as_array().unwrap();
    let ids: Vec<&str> = checks.iter().filter_map(|it| it["id"].as_str()).collect();
    for id in ["policy-htb-small", "policy-htb-large", "agree-small-rate"] {
        assert!(ids.contains(&id), "{id} in {ids:?}");
    }
    let failed: Vec<_> = checks.iter().filter(|it| it["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}\n{complaints}");
    assert!(output.status.success(), "{complaints}");
}

#[test]
fn a_command_runs_inside_a_host_and_its_status_is_ours() {
    if !can_run("lab command") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |script: &str| {
        Command::new(STRAIT)
            .arg("lab")
            .arg(scenario(folder.path()))
            .args(["--host", "hb", "--", "sh", "-c", script])
            .env("TMPDIR", folder.path())
            .output()
            .unwrap()
    };
    let output = run("ping -c 1 -W 5 10.1.0.2 && cat /proc/net/fib_trie && exit 7");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(
        text.contains("1 received") && text.contains("10.2.0.2"),
        "{text}"
    );
    let output = run("kill -9 $$");
    assert_eq!(output.status.code(), Some(137), "{output:?}");
}

#[test]
fn packet_pairs_cross_a_live_line_beside_a_call() {
    if !can_run("lab measure pair") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = fs::read_to_string(files.join("lab/measure-pair.toml")).unwrap();
    let text = text.replace("\"../", &format!("\"{}/", files.to_str().unwrap()));
    // A shorter run, whose interval is wider.
    let text = text.replace("sizes = [100, 400, 800]", "sizes = [100, 300]");
    let text = text.replace("count = 6", "count = 3");
    let text = text.replace("min = 6.0", "min = 3.0");
    let text = text.replace("duration = \"62 s\"", "duration = \"22 s\"");
    let path = folder.path().join("measure-pair.toml");
    fs::write(&path, text).unwrap();
    let output = Command::new(STRAIT)
        .args(["lab", "--json"])
        .arg(&path)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&complaints);
    for id in ["pairs-complete", "pairs-lost"] {
        let checks = result["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["id"] == id).unwrap();
        assert_eq!(check["ok"], true, "{check} {complaints}");
    }
    let tables = result["tables"].as_array().unwrap();
    let of = |id: &str| {
        let found = tables.iter().find(|table| table["id"] == id);
        found.unwrap_or_else(|| panic!("{id} {complaints}")).clone()
    };
    // A line of 7680 bit/s less a call of 3840 with its headers. A busy host only makes it slower.
    let rate = of("available rate of pairs, lab")["rows"][0][1]
        .as_f64()
        .unwrap();
    assert!((500.0..5500.0).contains(&rate), "{rate}");
}

#[test]
fn measured_transfers_agree_with_the_simulation() {
    if !can_run("lab measure tcp") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let text = fs::read_to_string(files.join("lab/measure-tcp.toml")).unwrap();
    let links = format!("\"{}/links/", files.to_str().unwrap());
    let text = text.replace("\"../links/", &links);
    // As long as the two smaller sizes take.
    let text = text.replace(", \"50 kB\"]", "]");
    let text = text.replace("duration = \"24 s\"", "duration = \"9 s\"");
    let path = folder.path().join("measure-tcp.toml");
    fs::write(&path, text).unwrap();
    let output = Command::new(STRAIT)
        .args(["lab", "--with-sim", "--json", "--strict"])
        .arg(&path)
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect(&complaints);
    let checks = result["checks"].as_array().unwrap();
    let agree = |check: &&serde_json::Value| {
        let id = check["id"].as_str().unwrap();
        id.starts_with("agree-file-")
    };
    // Two sizes, two directions, two times.
    assert_eq!(checks.iter().filter(agree).count(), 8);
    assert!(output.status.success(), "{checks:#?}\n{complaints}");
    let table = |id: &str| {
        let tables = result["tables"].as_array().unwrap();
        tables
            .iter()
            .find(|table| table["id"] == id)
            .unwrap()
            .clone()
    };
    let (lab, sim) = (
        table("transfers of file, lab"),
        table("transfers of file, sim"),
    );
    assert_eq!(lab["columns"], sim["columns"]);
    let rows = |table: &serde_json::Value| table["rows"].as_array().unwrap().len();
    assert_eq!((rows(&lab), rows(&sim)), (4, 4));
}

/// Processes with `marker` somewhere in their arguments, and their network namespaces.
fn running(marker: &str) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let marked = numbers.filter(|number: &u32| {
        let arguments = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(marker)
    });
    marked.map(|number| (number, namespace(number))).collect()
}

fn namespace(process: u32) -> String {
    let link = fs::read_link(format!("/proc/{process}/ns/net")).unwrap_or_default();
    link.to_string_lossy().into_owned()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_lab_ended_by_force_leaves_nothing_in_the_kernel() {
    if !can_run("lab kill") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Only files of the lab itself are named so.
    let marker = format!("{}/strait-lab-", folder.path().display());
    let mut lab = Command::new(STRAIT)
        .arg("lab")
        .arg(scenario(folder.path()))
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Two gateways, the emulator, the web server and both ends of the call.
    eventually("everything runs", || running(&marker).len() >= 6);
    let namespaces: BTreeSet<String> = running(&marker).into_iter().map(|(_, it)| it).collect();
    assert!(namespaces.len() >= 5, "{namespaces:?}");
    lab.kill().unwrap();
    lab.wait().unwrap();
    eventually("all processes are gone", || running(&marker).is_empty());
    eventually("nobody is in the namespaces", || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let mut numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        !numbers.any(|number| namespaces.contains(&namespace(number)))
    });
    let stale = || {
        let entries = fs::read_dir(folder.path()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("strait-lab-")).count()
    };
    assert_eq!(stale(), 1);
    let next = Command::new(STRAIT)
        .arg("lab")
        .arg(scenario(folder.path()))
        .args(["--", "true"])
        .env("TMPDIR", folder.path())
        .status();
    assert!(next.unwrap().success());
    assert_eq!(stale(), 0, "the next lab sweeps what the killed one left");
}

#[test]
fn without_rights_the_error_names_the_remedy() {
    if !can_run("lab rights") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(STRAIT);
    command.arg("lab").arg(scenario(folder.path())).uid(65_534);
    fs::set_permissions(folder.path(), mode(0o755)).unwrap();
    match command.output() {
        Err(error) => eprintln!("lab rights: skipped, nobody may start it: {error}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            if text.contains("can't be read") {
                eprintln!("lab rights: skipped, nobody may read the scenario files");
                return;
            }
            assert_eq!(output.status.code(), Some(3), "{text}");
            assert!(text.contains("run it as root"), "{text}");
        }
    }
}

fn mode(bits: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(bits)
}

#[test]
fn what_cannot_be_had_live_is_refused_by_name() {
    if !can_run("lab refusals") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path());
    let text = fs::read_to_string(&path).unwrap();
    let refused = |text: &str, options: &[&str]| {
        fs::write(&path, text).unwrap();
        let output = Command::new(STRAIT)
            .arg("lab")
            .arg(&path)
            .args(options)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let routed = format!("{text}\n[[router]]\nname = \"r\"\n");
    assert!(refused(&routed, &[]).contains("`r`"));
    let marked = text.replace("octets = \"500 B\"", "octets = \"500 B\"\ndscp = \"EF\"");
    assert!(refused(&marked, &[]).contains("`web`"));
    let unknown = refused(&text, &["--only", "nothing"]);
    assert!(unknown.contains("`voice`"), "{unknown}");
    assert!(refused(&text, &["--variant", "none"]).contains("`strait`"));
    let nowhere = refused(&text, &["--host", "hc", "--", "true"]);
    assert!(nowhere.contains("`ha`"), "{nowhere}");
}
