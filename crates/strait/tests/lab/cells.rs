//! Cells of packet radio.

use std::path::Path;

use super::{can_run, lab, shortened};

#[test]
fn a_cell_of_three_stations_carries_a_call_over_two_hops() {
    if !can_run("lab cell") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let changes = [
        ("duration = \"14 s\"", "duration = \"9 s\""),
        ("stop = \"12 s\"", "stop = \"8 s\""),
        ("stop = \"11 s\"", "stop = \"7 s\""),
        ("stop = \"10 s\"", "stop = \"7 s\""),
    ];
    let path = shortened(folder.path(), "cell.toml", &changes);
    let told = lab(folder.path(), &path, &["--only", "voice,ping"]);
    told.expect_all(&["cell-voice-loss", "cell-voice-p99", "cell-ping-loss"]);
}

#[test]
fn a_far_receiver_does_not_slow_the_near_ones() {
    if !can_run("lab far station") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/manet/far-station.toml");
    let text = std::fs::read_to_string(scenario).unwrap();
    let text = text
        .replace("\"30 s\"", "\"14 s\"")
        .replace("\"28 s\"", "\"13 s\"");
    let path = folder.path().join("far-station.toml");
    std::fs::write(&path, text).unwrap();
    let told = lab(folder.path(), &path, &[]);
    told.expect_all(&["far-near-rate", "far-far-rate", "lab-nothing-left"]);
}

#[test]
fn a_station_walks_live_as_its_file_says() {
    if !can_run("lab cell walk") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab");
    let told = lab(folder.path(), &scenarios.join("cell-walk.toml"), &[]);
    told.expect_all(&["cell-walk-away", "cell-walk-back", "lab-nothing-left"]);
}
