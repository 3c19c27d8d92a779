//! `strait sweep` as its user meets it.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn sweep(args: &[&str]) -> Output {
    let chain = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/chain.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.args(["sweep", chain]).args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = sweep(args);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    serde_json::from_slice(&output.stdout).unwrap()
}

const FEW: [&str; 7] = [
    "--set",
    "link.*.loss=0,0.05",
    "--seeds",
    "3",
    "--metric",
    "file.time_s",
    "--json",
];

fn means(result: &Value) -> Vec<f64> {
    let table = &result["tables"][0];
    let columns = table["columns"].as_array().unwrap();
    let mean = columns.iter().position(|column| column == "mean").unwrap();
    let rows = table["rows"].as_array().unwrap();
    rows.iter().map(|row| row[mean].as_f64().unwrap()).collect()
}

#[test]
fn every_point_has_its_own_result() {
    let result = json(&FEW);
    let means = means(&result);
    let [hops, plain, lossy_hops, lossy_plain] = means[..] else {
        panic!("{means:?}");
    };
    assert!(lossy_plain > 1.5 * plain, "loss costs nothing: {means:?}");
    assert!(lossy_hops < 1.5 * hops, "links repeat nothing: {means:?}");
    assert_eq!(result["seeds"].as_array().unwrap().len(), 3);
    assert_eq!(result["checks"][0]["ok"], true);
    // The number of threads changes nothing.
    let one = json(&[&FEW[..], &["--threads", "1"]].concat());
    assert_eq!(one["run_hash"], result["run_hash"]);
    // Every run by itself, for other programs.
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("runs.csv");
    let with_csv = ["--csv", csv.to_str().unwrap()];
    json(&[&FEW[..], &with_csv[..]].concat());
    let text = fs::read_to_string(csv).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "link.*.loss,variant,seed,file.time_s");
    assert_eq!(lines.len(), 1 + 12);
    let time = |line: &str| -> f64 { line.rsplit(',').next().unwrap().parse().unwrap() };
    let lossless = lines[1..4].iter().map(|line| time(line)).sum::<f64>() / 3.0;
    assert!((lossless - hops).abs() < 1e-9, "{text}");
}

fn with_store(store: &Path, more: &[&str]) -> Value {
    let kept = ["--store", store.to_str().unwrap()];
    json(&[&FEW[..], &kept[..], more].concat())
}

#[test]
fn a_sweep_that_was_ended_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store: PathBuf = folder.path().join("results.jsonl");
    let whole = with_store(&store, &[]);
    let lines = |store: &Path| fs::read_to_string(store).unwrap().lines().count();
    assert_eq!(lines(&store), 12);
    // Again: nothing is run.
    assert_eq!(with_store(&store, &[])["run_hash"], whole["run_hash"]);
    assert_eq!(lines(&store), 12);
    // Killed while it wrote: the torn run is done again, the others aren't.
    let octets = fs::read(&store).unwrap();
    fs::write(&store, &octets[..octets.len() - 20]).unwrap();
    assert_eq!(with_store(&store, &[])["run_hash"], whole["run_hash"]);
    assert_eq!(lines(&store), 13);
    // What is stored is what is told: another result in its place shows.
    let text = fs::read_to_string(&store).unwrap();
    let forged: Vec<String> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|mut line| {
            line["metrics"]["file.time_s"] = 1000.0.into();
            line.to_string()
        })
        .collect();
    fs::write(&store, forged.join("\n")).unwrap();
    assert_eq!(means(&with_store(&store, &[])), [1000.0; 4]);
    // One more seed: only that is run.
    let more = with_store(&store, &["--seed", "2"]);
    assert!(
        means(&more)
            .iter()
            .all(|mean| (500.0..999.0).contains(mean))
    );
}

#[test]
fn what_cannot_be_is_told_with_the_remedy() {
    for (args, reason) in [
        (&["--set", "link.l9.loss=0.1"][..], "did you mean `l1`?"),
        (&["--set", "link.l1.lost=0.1"], "did you mean `loss`?"),
        (&["--set", "link.l1.loss"], "KEY=VALUES"),
        (&["--set", "link.l1.loss=0..1"], "FROM..TO/STEP"),
        (
            &["--set", "duration=5 s", "--metric", "file.speed"],
            "metrics: file.",
        ),
        (
            &["--set", "duration=1..1000/1 s", "--seeds", "5000"],
            "take fewer",
        ),
    ] {
        let output = sweep(args);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(reason), "{args:?}: {told}");
    }
}

#[test]
fn a_serial_rate_is_swept_with_the_ports_at_both_ends_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (csv, page) = (file("runs.csv"), file("page.html"));
    let scenario = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/lab/serial-9600.toml"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_strait"))
        .args(["sweep", scenario, "--seeds", "2", "--metric", "web.time_s"])
        .args(["--set", "link.*.baud+node.*.port.line.baud=9600,19200"])
        .args(["--set", "traffic.web.octets=1 kB,2 kB"])
        .args(["--csv", &csv, "--report", &page, "--json"])
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    let means = means(&serde_json::from_slice(&output.stdout).unwrap());
    let (slow, fast) = means.split_at(means.len() / 2);
    for (slow, fast) in slow.iter().zip(fast) {
        assert!(*slow > 1.7 * fast, "half the rate: {means:?}");
    }
    let text = fs::read_to_string(csv).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "link.*.baud+node.*.port.line.baud,traffic.web.octets [kB],variant,seed,web.time_s"
    );
    assert!(lines.next().unwrap().starts_with("9600,1,"), "{text}");
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("web.time_s: mean and 95 % interval"));
    // Two lines of two points each, and their names.
    assert_eq!(page.matches("<circle").count(), 2 * (2 + 1), "{page}");
}

#[test]
fn what_cannot_be_is_told_before_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("none/page.html");
    let nowhere = nowhere.to_str().unwrap();
    let kept = folder.path().join("kept.jsonl");
    let store = ["--store", kept.to_str().unwrap()];
    for (args, told) in [
        (["--report", nowhere].as_slice(), "cannot write"),
        (&["--csv", nowhere], "cannot write"),
        (
            &["--set", "duration+link.*.loss=0"],
            "key `link.*.loss` is given twice",
        ),
    ] {
        let output = sweep(&[&FEW[..], &store[..], args].concat());
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(complaints.contains(told), "{complaints}");
        assert!(!kept.exists(), "nothing ran: {complaints}");
    }
}
