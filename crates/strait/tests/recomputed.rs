//! Headline figures of a simulation once more, by a script that has nothing of ours: it reads the
//! captures with `tshark` and does its own arithmetic. Without `tshark` or `python3` this is left
//! out, and says so.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What a LAN adds: captures end where the gateway sends, the simulator's own times at the host.
const LAN_S: f64 = 0.000_5;

fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !there {
        eprintln!("recomputed figures: skipped, there is no `{program}`");
    }
    there
}

fn json(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaints}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the simulator says of a variant, whichever table says it.
fn told(result: &Value, variant: &str, metric: &str) -> f64 {
    let tables = result["tables"].as_array().unwrap();
    let found = tables.iter().find_map(|table| {
        let columns = table["columns"].as_array()?;
        let column = columns.iter().position(|title| title == variant)?;
        let rows = table["rows"].as_array()?;
        let row = rows.iter().find(|row| row[0] == metric)?;
        row[column].as_f64()
    });
    found.unwrap_or_else(|| panic!("no {metric} of {variant}"))
}

/// The sum over both directions of the connection to a port.
fn of_both(recomputed: &Value, port: &str, what: &str) -> f64 {
    let flows = recomputed["tcp"].as_object().unwrap().iter();
    let mine = flows.filter(|(name, _)| name.split(" > ").any(|end| end == port));
    mine.map(|(_, flow)| flow[what].as_f64().unwrap_or(0.0))
        .sum()
}

#[test]
fn headline_figures_follow_from_the_captures_alone() {
    if !has("tshark") || !has("python3") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::temp_dir().join(format!("strait-recomputed-{}", std::process::id()));
    let result = json(
        Command::new(env!("CARGO_BIN_EXE_strait"))
            .arg("sim")
            .arg(root.join("scenarios/demo.toml"))
            .args(["--runs", "1", "--json", "--pcap"])
            .arg(&folder),
    );
    for variant in ["strait", "fifo"] {
        // From ha to hb and back: what a host sent, and what the gateway beside the other sent on.
        let files = ["ha", "b", "hb", "a"].map(|node| format!("{variant}-{node}.pcapng"));
        let mut script = Command::new("python3");
        script.arg(root.join("scripts/from_captures.py"));
        let recomputed = json(script.args(files.map(|file| folder.join(file))));
        for (what, metric) in [
            ("segments", "file.tcp_segments"),
            ("retransmissions", "file.tcp_retransmissions"),
        ] {
            let known = told(&result, variant, metric);
            assert_eq!(
                of_both(&recomputed, "5003", what),
                known,
                "{variant} {what}"
            );
            assert!(known > 0.0);
        }
        let time_s = told(&result, variant, "file.time_s");
        let found_s = of_both(&recomputed, "5003", "time_s");
        assert!(
            (found_s - time_s).abs() < LAN_S,
            "{variant}: {found_s} {time_s}"
        );
        let goodput = told(&result, variant, "file.goodput_bit_s");
        let found = of_both(&recomputed, "5003", "goodput_bit_s");
        assert!(
            (found / goodput - 1.0).abs() < 1e-4,
            "{variant}: {found} {goodput}"
        );
        let voice = |what: &str| recomputed["rtp"][what].as_f64().unwrap();
        assert!(voice("packets") > 4000.0);
        let loss = told(&result, variant, "voice.loss");
        assert!((voice("loss") - loss).abs() < 1e-9, "{variant}: {loss}");
        for what in ["delay_min_s", "delay_p50_s", "delay_p99_s", "delay_max_s"] {
            let (found_s, known_s) = (
                voice(what),
                told(&result, variant, &format!("voice.{what}")),
            );
            assert!(
                (found_s - known_s).abs() < LAN_S,
                "{variant} {what}: {found_s} {known_s}"
            );
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
