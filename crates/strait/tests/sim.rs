//! `strait sim` as its user calls it.
#![cfg(test)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use strait_core::node::{Boot, NodeFactory};
use strait_core::time::Instant;
use strait_live::node_loop::service::{PortStatus, Rates, Timers, View};
use strait_node::GatewayFactory;
use strait_report::{names_text, status_text};
use strait_scenario::Scenario;
use strait_status::why::why;
use strait_status::{Dns, Local, NameRow, Names, Snapshot};

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
    // What gateways said on the way, but not hosts.
    let said = page.split("id=\"recording\">").nth(1).unwrap();
    let lines: Vec<Value> = said
        .lines()
        .map_while(|line| serde_json::from_str(line.trim_end_matches("</script>")).ok())
        .collect();
    let nodes: BTreeSet<&str> = lines
        .iter()
        .filter_map(|line| line["full"]["node"].as_str())
        .collect();
    let names = ["fifo: a", "fifo: b", "strait: a", "strait: b"];
    assert_eq!(nodes, BTreeSet::from(names));
    assert!((400..=500).contains(&lines.len()), "{}", lines.len());
    // Beside it what follows from it, and packets behind the numbers.
    for key in [
        "\"class voice delay\":",
        "\"opinion\":",
        "\"choices\":",
        "\"ended\":{\"",
    ] {
        assert!(said.contains(key), "{key}");
    }
}

#[test]
fn scenarios_of_the_lab_hold_in_virtual_time() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab");
    for file in [
        "ethernet.toml",
        "hellos.toml",
        "kiss.toml",
        "kiss-1200.toml",
        "kiss-9600.toml",
        "synchronous.toml",
        "dictionary.toml",
        "second-way.toml",
        "two-hosts.toml",
        "two-rates.toml",
        "cell-walk.toml",
        "waveforms.toml",
        "etx.toml",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command
            .arg("sim")
            .arg(folder.join(file))
            .args(["--strict", "--picture"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("\nuse of "), "{file}: {text}");
    }
}

#[test]
fn ipv6_has_no_way_by_a_port_that_carries_ipv4_alone() {
    let node = |name: &str, own: u8, peer: u8| {
        format!(
            "[[node]]\nname = \"{name}\"\n[node.config]\nname = \"{name}\"\n\
             [node.config.host]\naddresses = [\"10.9.0.{own}/24\", \"fd00:9::{own}/64\"]\n\
             [[node.config.port]]\nname = \"radio\"\nkind = \"kiss\"\nrate = \"9600 bit/s\"\n\
             profile = \"ip\"\nkiss = {{ own = \"N0CALL-{own}\", peer = \"N0CALL-{peer}\" }}\n\
             [[host]]\nname = \"h{name}\"\nbehind = \"{name}\"\n\
             addresses = [\"10.{own}.0.2/24\", \"fd00:{own}::2/64\"]\n"
        )
    };
    let ping = |family: u8| {
        format!(
            "[[traffic]]\nname = \"ping{family}\"\nkind = \"ping\"\nfrom = \"ha\"\nto = \"hb\"\n\
             family = {family}\nstart = \"1 s\"\nstop = \"9 s\"\nperiod = \"1 s\"\n"
        )
    };
    let text = [
        "name = \"families\"\nabout = \"Both.\"\nduration = \"15 s\"\nseed = 1\n".into(),
        node("a", 1, 2) + &node("b", 2, 1),
        "[[link]]\nbetween = [\"a.radio\", \"b.radio\"]\n\
         [link.channel]\nkind = \"frames\"\nrate = \"9600 bit/s\"\ndelay = \"1 ms\"\n"
            .into(),
        ping(4) + &ping(6),
    ];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sim-families");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("families.toml");
    std::fs::write(&file, text.concat()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command.arg("sim").arg(&file).arg("--status").arg(&folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(folder.join("strait-a.json")).unwrap();
    let status: Value = serde_json::from_str(&text).unwrap();
    let dropped = &status["packets"]["dropped"];
    assert_eq!(
        *dropped,
        serde_json::json!({ "not-carried": 8 }),
        "{status}"
    );
    let radio = &status["ports"][1];
    assert_eq!(
        (&radio["frames_out"], &radio["frames_in"]),
        (&8.into(), &8.into())
    );
}

/// The names of all fields, by their path; of lists those of all elements together, and of maps by
/// kind none.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let path = format!("{path}.{name}");
                fields(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(all) => all.iter().for_each(|value| fields(value, path, found)),
        _ => {}
    }
}

#[test]
fn a_simulated_node_says_of_itself_what_a_live_one_does() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sim-status");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/demo.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command
        .arg("sim")
        .arg(&demo)
        .args(["--runs", "1", "--status"]);
    let output = command.arg(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(folder.join("strait-a.json")).unwrap();
    let simulated: Snapshot = serde_json::from_str(&text).unwrap();
    assert!(simulated.packets.forwarded > 100 && simulated.uptime_s > 1.0);
    assert!(simulated.classes.iter().any(|class| class.packets > 0));
    // Shown as a gateway that runs is.
    let status = |file: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command.arg("status").arg(folder.join(file)).args(more);
        let output = command.output().unwrap();
        (output.status.code(), [output.stdout, output.stderr])
    };
    assert_eq!(
        status("strait-a.json", &[]),
        (
            Some(0),
            [
                status_text(&simulated, &why(std::slice::from_ref(&simulated))).into(),
                Vec::new()
            ]
        )
    );
    assert_eq!(status("strait-a.json", &["--json"]).1[0], text.as_bytes());
    assert_eq!(status("strait-a.json", &["--watch", "1"]).0, Some(2));
    std::fs::write(folder.join("else.json"), "a: up 6 s").unwrap();
    let [_, refusal] = status("else.json", &[]).1;
    assert!(String::from_utf8_lossy(&refusal).contains("else.json: no status"));
    // So are the names that it knows.
    let names = |file: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
        command.arg("dns").arg(folder.join(file)).args(more);
        let output = command.output().unwrap();
        (output.status.code(), [output.stdout, output.stderr])
    };
    let known = Names {
        node: "a".into(),
        dns: Some(Dns {
            questions: 7,
            asked: 2,
            ..Dns::default()
        }),
        names: vec![NameRow {
            name: "www.example.".into(),
            state: "kept fresh".into(),
            ..NameRow::default()
        }],
        ..Names::default()
    };
    let text = serde_json::to_string(&known).unwrap();
    std::fs::write(folder.join("names.json"), &text).unwrap();
    let shown = names_text(&known);
    assert!(shown.contains("2 of 7 questions crossed") && shown.contains("www.example."));
    assert_eq!(names("names.json", &[]).1[0], shown.as_bytes());
    assert_eq!(names("names.json", &["--json"]).1[0], text.as_bytes());
    let (code, [_, refusal]) = names("else.json", &[]);
    assert!(String::from_utf8_lossy(&refusal).contains("else.json: no names"));
    assert_eq!(code, Some(2));

    // The same node file, as the live gateway shows it.
    let loaded = Scenario::load(&demo).unwrap();
    let config = loaded.nodes.iter().find(|node| node.name == "a").unwrap();
    let factory = GatewayFactory::new(config.config.clone()).unwrap();
    let node = factory.boot(Boot::default());
    let ports = vec![PortStatus::default(); node.stats().ports.len()];
    let view = View {
        now: Instant::from_secs(1),
        stats: node.stats(),
        flows: &node.flows(),
        names: &|| node.names(Instant::from_secs(1)),
        mail: &|| node.mail(Instant::from_secs(1)),
        ports: &ports,
        rates: &Rates::default(),
        timers: &Timers::default(),
        taps: &[],
        recorder: None,
    };
    let live = view.snapshot("a");
    let of = |snapshot: &Snapshot| {
        let mut snapshot = snapshot.clone();
        // By kind, and only what occurred.
        snapshot.packets.dropped.clear();
        (snapshot.local, snapshot.flows) = (Local::default(), Vec::new());
        (snapshot.talkers, snapshot.hosts) = (Vec::new(), Vec::new());
        // Said with the first input.
        snapshot.led = None;
        for class in &mut snapshot.classes {
            class.dropped.clear();
        }
        for port in &mut snapshot.ports {
            port.urgent = None;
        }
        let mut found = BTreeSet::new();
        fields(&serde_json::to_value(&snapshot).unwrap(), "", &mut found);
        found
    };
    assert_eq!(of(&simulated), of(&live));
    assert!(of(&live).len() > 60);
    // And both are what a page or a program reads back.
    let read: Snapshot = serde_json::from_str(&serde_json::to_string(&live).unwrap()).unwrap();
    assert_eq!(read, live);
}
