//! `strait measure pair` and its receiver as their user meets them, over loopback.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");

fn measure(arguments: &[&str]) -> Output {
    let mut command = Command::new(STRAIT);
    command.args(["measure", "pair"]).args(arguments);
    command.output().unwrap()
}

#[test]
fn a_receiver_and_a_prober_tell_a_rate_and_draw_it() {
    let mut receiver = Command::new(STRAIT)
        .args(["measure", "pair", "--serve", "--local", "127.0.0.1:0"])
        .args(["--for", "30 s"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut complaints = BufReader::new(receiver.stderr.take().unwrap());
    let mut line = String::new();
    complaints.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let folder = std::env::temp_dir().join(format!("strait-pair-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let [report, plot, log] = ["report.html", "plot.svg", "log.json"].map(|name| {
        let path = folder.join(name);
        path.to_str().unwrap().to_owned()
    });
    let mut arguments = vec![address, "--json", "--size", "100,1400", "--count", "5"];
    arguments.extend(["--pause", "1 ms", "--trains", "2", "--report", &report]);
    arguments.extend(["--plot", &plot, "--log", &log]);
    let output = measure(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let ids: Vec<&str> = result["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids,
        ["available-rate", "lost-groups", "sender-bound-groups"]
    );
    assert_eq!(result["checks"][1]["value"], 0.0);
    assert_eq!(result["tables"][1]["rows"].as_array().unwrap().len(), 2);
    assert!(fs::read_to_string(&plot).unwrap().starts_with("<svg"));
    assert!(
        fs::read_to_string(&report)
            .unwrap()
            .contains("<figure><svg")
    );
    assert!(fs::read_to_string(&log).unwrap().contains("arrived_ns"));
    fs::remove_dir_all(folder).unwrap();
    let number = receiver.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &number]).status();
    assert!(sent.unwrap().success() && receiver.wait().unwrap().success());
    // Now nobody is there any more.
    let output = measure(&[address, "--timeout", "20 ms"]);
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("strait measure pair --serve"), "{errors}");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (arguments, word) in [
        (["127.0.0.1", "--size", "59"], "--size"),
        (["127.0.0.1", "--count", "5000"], "--count"),
        (["127.0.0.1", "--train", "65"], "--train"),
    ] {
        let output = measure(&arguments);
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(word), "{errors}");
    }
    assert_eq!(measure(&[]).status.code(), Some(2));
}
