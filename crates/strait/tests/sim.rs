//! `strait sim` as its user calls it.
#![cfg(test)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

#[test]
fn the_results_say_what_tcp_connections_met() {
    let report = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sim-tcp.html");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.arg("sim").arg(demo).args(["--runs", "1", "--json"]);
    let output = command.arg("--report").arg(&report).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tables = result["tables"].as_array().unwrap();
    let tcp = tables.iter().find(|table| table["id"] == "tcp").unwrap();
    let rows = tcp["rows"].as_array().unwrap();
    let count = |part: &str, column: usize| -> f64 {
        let wanted = rows
            .iter()
            .filter(|row| row[0].as_str().unwrap().starts_with(part));
        wanted.map(|row| row[column].as_f64().unwrap()).sum()
    };
    for (traffic, column) in [("file", 1), ("file", 2), ("page", 1), ("page", 2)] {
        let again = count(&format!("{traffic}.tcp_retransmissions"), column);
        assert!(again > 0.0);
        assert_eq!(count(&format!("{traffic}.tcp_repeats_"), column), again);
    }
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("sent again of file"));
    assert!(!page.contains("sent again of page"), "many connections");
}

#[test]
fn scenarios_of_the_lab_hold_in_virtual_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab");
    for file in [
        "ethernet.toml",
        "hellos.toml",
        "synchronous.toml",
        "dictionary.toml",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command.arg("sim").arg(folder.join(file)).arg("--strict");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
