//! Headline figures of simulations once more, by a script that has nothing of ours: it reads the
//! captures with `tshark` and does its own arithmetic. Without `tshark` or `python3` this is left
//! out, and says so.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

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

/// A scenario that was simulated, with its captures.
struct Simulated {
    result: Value,
    folder: PathBuf,
}

impl Simulated {
    /// `None`, after saying so, where a program is missing.
    fn of(scenario: &str) -> Option<Self> {
        let file = root().join("scenarios").join(scenario);
        Self::by(&["sim", file.to_str()?, "--runs", "1"])
    }

    /// The same of a command.
    fn by(command: &[&str]) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        if !has("tshark") || !has("python3") {
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = format!("strait-recomputed-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).unwrap();
        let strait = &mut Command::new(env!("CARGO_BIN_EXE_strait"));
        let result = json(strait.args(command).args(["--json", "--pcap"]).arg(&folder));
        Some(Self { result, folder })
    }

    /// What the script finds in captures of a variant, whose names follow its own.
    fn recomputed(&self, variant: &str, files: [&str; 4]) -> Value {
        let files = files.map(|file| self.folder.join(format!("{variant}-{file}.pcapng")));
        let script = root().join("scripts/from_captures.py");
        json(Command::new("python3").arg(script).args(files))
    }

    fn told(&self, variant: &str, metric: &str) -> f64 {
        told(&self.result, variant, metric)
    }

    /// Loss and times of a flow are as told, each time but for the LAN.
    fn has_delays(&self, variant: &str, flow: &str, found: &Value, time: &str) {
        let loss = self.told(variant, &format!("{flow}.loss"));
        let found_loss = found["loss"].as_f64().unwrap();
        assert!((found_loss - loss).abs() < 1e-9, "{variant} {flow}: {loss}");
        for which in ["min", "p50", "p99", "max"] {
            let what = format!("{time}_{which}_s");
            let known_s = self.told(variant, &format!("{flow}.{what}"));
            let found_s = found[&*what].as_f64().unwrap();
            assert!(
                (found_s - known_s).abs() < LAN_S,
                "{variant} {flow} {what}: {found_s} {known_s}"
            );
        }
    }

    /// Time and goodput of the transfer to a port are as told.
    fn has_transfer(&self, variant: &str, flow: &str, recomputed: &Value, port: &str) {
        let known_s = self.told(variant, &format!("{flow}.time_s"));
        let found_s = of_both(recomputed, port, "time_s");
        assert!(
            (found_s - known_s).abs() < LAN_S,
            "{variant} {flow}: {found_s} {known_s}"
        );
        let known = self.told(variant, &format!("{flow}.goodput_bit_s"));
        let found = of_both(recomputed, port, "goodput_bit_s");
        assert!(
            (found / known - 1.0).abs() < 1e-4,
            "{variant} {flow}: {found} {known}"
        );
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        // What isn't deleted stands in the folder of temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// From ha to hb and back: what a host sent, and what the gateway beside the other sent on.
const BOTH_WAYS: [&str; 4] = ["ha", "b", "hb", "a"];
/// The same where a gateway has sockets: what goes to hosts leaves by its kernel.
const BY_KERNEL: [&str; 4] = ["ha", "b kernel", "hb", "a kernel"];

#[test]
fn a_call_beside_a_file_follows_from_captures() {
    let Some(simulated) = Simulated::of("demo.toml") else {
        return;
    };
    for variant in ["strait", "fifo"] {
        let recomputed = simulated.recomputed(variant, BOTH_WAYS);
        for (what, metric) in [
            ("segments", "file.tcp_segments"),
            ("retransmissions", "file.tcp_retransmissions"),
        ] {
            let known = simulated.told(variant, metric);
            let found = of_both(&recomputed, "5003", what);
            assert_eq!(found, known, "{variant} {what}");
            assert!(known > 0.0);
        }
        simulated.has_transfer(variant, "file", &recomputed, "5003");
        assert!(recomputed["rtp"]["packets"].as_f64().unwrap() > 4000.0);
        simulated.has_delays(variant, "voice", &recomputed["rtp"], "delay");
    }
}

#[test]
fn a_file_over_reliable_hops_follows_from_captures() {
    let Some(simulated) = Simulated::of("hbh-chain.toml") else {
        return;
    };
    let recomputed = simulated.recomputed("strait", BOTH_WAYS);
    simulated.has_transfer("strait", "file", &recomputed, "5000");
    simulated.has_delays(
        "strait",
        "calls",
        &recomputed["udp"]["40064 > 5001"],
        "delay",
    );
}

#[test]
fn a_file_and_pings_over_hf_follow_from_captures() {
    let Some(simulated) = Simulated::of("hf/s5066-9600.toml") else {
        return;
    };
    let recomputed = simulated.recomputed("strait", BOTH_WAYS);
    simulated.has_transfer("strait", "file", &recomputed, "5001");
    simulated.has_delays("strait", "ping", &recomputed["ping"], "rtt");
}

#[test]
fn classes_in_a_radio_cell_follow_from_captures() {
    let Some(simulated) = Simulated::of("manet/one-hop.toml") else {
        return;
    };
    for variant in ["strait", "fifo", "1b"] {
        let recomputed = simulated.recomputed(variant, BOTH_WAYS);
        for (flow, ports) in [("audio", "40000 > 5000"), ("video", "40064 > 5001")] {
            simulated.has_delays(variant, flow, &recomputed["udp"][ports], "delay");
        }
    }
}

#[test]
fn a_page_and_a_file_through_proxies_follow_from_captures() {
    let Some(simulated) = Simulated::of("lab/proxied.toml") else {
        return;
    };
    for (variant, files) in [("strait", BY_KERNEL), ("plain-cubic", BOTH_WAYS)] {
        let recomputed = simulated.recomputed(variant, files);
        for (flow, port) in [("download", "5002"), ("page", "5003")] {
            let answers = recomputed["answers"].as_object().unwrap().iter();
            let mine = answers.filter(|(ports, _)| ports.ends_with(port));
            let times =
                mine.map(|(_, it)| ["start_s", "done_s"].map(|at| it[at].as_f64().unwrap()));
            let (start_s, done_s) = times.fold((f64::MAX, 0.0_f64), |(start, done), [from, to]| {
                (start.min(from), done.max(to))
            });
            let (known_s, found_s) = (
                simulated.told(variant, &format!("{flow}.time_s")),
                done_s - start_s,
            );
            assert!(
                (found_s - known_s).abs() < LAN_S,
                "{variant} {flow}: {found_s} {known_s}"
            );
        }
        simulated.has_delays(variant, "voice", &recomputed["rtp"], "delay");
        simulated.has_delays(variant, "ping", &recomputed["ping"], "rtt");
    }
}

#[test]
fn a_flash_message_follows_from_captures() {
    let Some(simulated) = Simulated::of("mail/flash.toml") else {
        return;
    };
    // Its client gave it to one switch, whose lane of this precedence carries it to the other.
    let recomputed = simulated.recomputed("strait", ["ha", "a kernel", "a kernel", "b"]);
    let flow = |ports: &str, what: &str| recomputed["tcp"][ports][what].as_f64().unwrap();
    let came_s = flow("32769 > 5003", "start_s") + flow("32769 > 5003", "time_s");
    let found_s = came_s - flow("40128 > 2525", "start_s");
    let known_s = simulated.told("strait", "flash.time_s");
    // Then the other switch writes it down.
    assert!(
        found_s < known_s && known_s < found_s + 0.01,
        "{found_s} {known_s}"
    );
}

#[test]
fn pings_of_a_study_follow_from_its_captures() {
    let Some(simulated) = Simulated::by(&["study", "na", "--sim-only"]) else {
        return;
    };
    let tables = simulated.result["tables"].as_array().unwrap();
    let jitter = tables.iter().find(|it| it["id"] == "na-jitter").unwrap();
    let columns = jitter["columns"].as_array().unwrap();
    let place = |name: &str| columns.iter().position(|it| it == name).unwrap();
    let (beside, median) = (place("beside"), place("ping, median [s]"));
    let fifo = place("fifo, ping [s]");
    for pings in ["ping 64", "ping 512", "two pings 64"] {
        let mut rows = jitter["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row[beside] == pings).unwrap();
        let case = format!("na-1200-bit-s-1-{}", pings.replace(' ', "-"));
        for (case, column) in [(case.clone(), median), (format!("{case}-fifo"), fifo)] {
            let found = simulated.recomputed(&case, BOTH_WAYS);
            let found_s = found["ping"]["rtt_p50_s"].as_f64().unwrap();
            let known_s = row[column].as_f64().unwrap();
            assert!(
                (found_s - known_s).abs() < LAN_S,
                "{case}: {found_s} {known_s}"
            );
        }
    }
}
