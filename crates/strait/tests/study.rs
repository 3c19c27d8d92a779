//! `strait study`: what it lists, runs and prints. Live halves have tests of their own.

#![cfg(test)]

use std::fs;
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

fn strait(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_strait");
    Command::new(program).args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = strait(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn without_a_name_the_studies_are_listed() {
    let output = strait(&["study"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("tcp"), "{text}");
    assert_eq!(strait(&["study", "--json"]).status.code(), Some(2));
    assert_eq!(strait(&["study", "udp"]).status.code(), Some(2));
}

#[test]
fn the_simulated_half_of_tcp_has_its_checks_and_repeats() {
    let args = ["study", "tcp", "--sim-only", "--json"];
    let result = json(&args);
    let checks = result["checks"].as_array().unwrap();
    let ids: Vec<&str> = checks
        .iter()
        .map(|check| check["id"].as_str().unwrap())
        .collect();
    let expected = [
        "tcp-chain-0",
        "tcp-chain-many",
        "tcp-linux-error",
        "tcp-conserved",
    ];
    assert_eq!(ids, expected);
    for check in checks {
        let live = check["id"] == "tcp-linux-error";
        assert_eq!(check["value"].is_null(), live, "{check}");
        assert_eq!(check["ok"].is_null(), live, "{check}");
    }
    for exact in ["tcp-chain-0", "tcp-chain-many", "tcp-conserved"] {
        let check = checks.iter().find(|check| check["id"] == exact);
        assert_eq!(check.unwrap()["ok"], true, "{exact}");
    }
    assert_eq!(result["seeds"].as_array().unwrap().len(), 400);
    let tables = result["tables"].as_array().unwrap();
    // Without a loss a slower line makes timeouts run out, and they are taken back.
    let rows = tables[2]["rows"].as_array().unwrap();
    let of = |quantity: &str| {
        let row = rows
            .iter()
            .find(|row| row[0] == "64, then 4.8 kbit/s" && row[1] == 0.0 && row[3] == quantity);
        row.unwrap()[4].as_f64().unwrap()
    };
    assert!(of("timeouts") > 0.0 && of("recoveries taken back") > 0.0);
    for table in result["tables"].as_array().unwrap() {
        let columns = table["columns"].as_array().unwrap().len();
        let rows = table["rows"].as_array().unwrap();
        assert!(!rows.is_empty());
        assert!(
            rows.iter()
                .all(|row| row.as_array().unwrap().len() == columns)
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let again = json(&[&args[..], &["--pcap", path]].concat());
    assert_eq!(again["run_hash"], result["run_hash"]);
    let files = fs::read_dir(folder.path()).unwrap().flatten();
    let names: Vec<String> = files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    let chain = names
        .iter()
        .filter(|name| name.starts_with("tcp-4x300000-"));
    assert_eq!(
        chain.filter(|name| name.contains("5%-ns3-sack")).count(),
        5,
        "{names:?}"
    );
}

/// The simulated half of the study `policing` and its page, made once for the tests that read them.
fn policing() -> &'static (Value, String) {
    static RESULT: OnceLock<(Value, String)> = OnceLock::new();
    RESULT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        let to = page.to_str().unwrap();
        let result = json(&["study", "policing", "--sim-only", "--json", "--report", to]);
        (result, fs::read_to_string(&page).unwrap())
    })
}

#[test]
fn a_policer_spares_the_wait_behind_a_shaper() {
    let (result, page) = policing();
    for part in [
        "<h1>study policing",
        "policing-conserved",
        "id=\"results\"",
        "study = ",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=\""), "nothing is fetched");
    let check = |id: &str| {
        let checks = result["checks"].as_array().unwrap();
        checks.iter().find(|check| check["id"] == id).unwrap()
    };
    assert_eq!(check("policing-wait")["ok"], true);
    assert_eq!(check("policing-conserved")["ok"], true);
    assert!(check("policing-kernel-wait")["ok"].is_null());
    let rows = result["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    for row in rows {
        assert_eq!(row[5].is_null(), row[2] == "kernel", "{row}");
    }
}

#[test]
fn the_file_of_a_study_can_be_checked() {
    let root = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../scenarios/studies/tcp.toml"
    );
    let output = strait(&["check", root]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(": valid study"), "{text}");
}

#[test]
fn numbers_that_nothing_can_hold_are_named_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    for (text, known, large) in [
        (
            include_str!("../../../scenarios/studies/tcp.toml"),
            "\nruns = 11",
            "\nruns = 99999999999",
        ),
        (
            include_str!("../../../scenarios/studies/hbh.toml"),
            "\nseeds = 20",
            "\nseeds = 99999999999",
        ),
        (
            include_str!("../../../scenarios/studies/htb.toml"),
            "\ncases = 16",
            "\ncases = 99999999999",
        ),
        (
            include_str!("../../../scenarios/studies/na.toml"),
            "count = 20",
            "count = 99999999999",
        ),
    ] {
        let at = text.find(known).expect("it stands there");
        let line = text[..=at].matches('\n').count() + 1;
        let path = folder.path().join("mine.toml");
        fs::write(&path, text.replacen(known, large, 1)).unwrap();
        let output = strait(&["study", path.to_str().unwrap(), "--sim-only"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("mine.toml:{line}: ")), "{said}");
        assert!(
            said.contains("has to be between ") && said.contains(" and 100000"),
            "{said}"
        );
    }
}

#[test]
fn a_directory_is_called_one() {
    let folder = tempfile::tempdir().unwrap();
    let output = strait(&["study", folder.path().to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("is a directory: name a file in it"), "{said}");
}

#[test]
fn a_study_runs_with_a_file_of_ones_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let file = path.to_str().unwrap();
    let refused = |text: &str, why: &str| {
        fs::write(&path, text).unwrap();
        let output = strait(&["study", file, "--sim-only"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    };
    refused("name = \"x\"\n", "needs a line `study = ");
    refused("study = \"udp\"\n", "mine.toml:1");
    let text = include_str!("../../../scenarios/studies/policing.toml");
    let known = "window = \"30 s\"";
    assert!(text.contains(known));
    fs::write(&path, text.replace(known, "window = \"20 s\"")).unwrap();
    let mine = json(&["study", file, "--sim-only", "--json"]);
    assert_ne!(mine["run_hash"], policing().0["run_hash"]);
}

#[test]
fn data_does_nothing_to_a_call_but_two_octets_and_pairs_tell_what_a_backlog_gets() {
    let folder = std::env::temp_dir().join(format!("strait-na-{}", std::process::id()));
    let folder = folder.to_str().unwrap();
    let result = json(&["study", "na", "--sim-only", "--json", "--figures", folder]);
    let checks = result["checks"].as_array().unwrap();
    let failed: Vec<_> = checks.iter().filter(|it| it["ok"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    let rows = result["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 45);
    assert!(rows.iter().all(|row| row[3].as_f64().unwrap() > 500.0));
    let check = checks.iter().find(|check| check["id"] == "na-pairs-error");
    let check = check.unwrap();
    assert!(check["value"].as_f64().unwrap() > 0.0, "two measurements");
    let tables = result["tables"].as_array().unwrap();
    let pairs = tables.iter().find(|table| table["id"] == "na-pairs");
    assert_eq!(pairs.unwrap()["rows"].as_array().unwrap().len(), 3);
    let svg = fs::read_to_string(format!("{folder}/na-pairs.svg")).unwrap();
    assert!(svg.matches("<circle").count() > 330);
    assert_eq!(svg.matches("<polyline").count(), 3);
    let svg = fs::read_to_string(format!("{folder}/na-ping.svg")).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 2);
    let svg = fs::read_to_string(format!("{folder}/na-jitter.svg")).unwrap();
    assert!(svg.matches("<circle").count() > 1000);
    fs::remove_dir_all(folder).unwrap();
}
