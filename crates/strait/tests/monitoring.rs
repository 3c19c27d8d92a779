//! What other programs read of gateways: IPFIX by `nfcapd` with `nfdump` and by pmacct's
//! `nfacctd`, metrics by `promtool`, and the dashboard. Programs that aren't there are skipped.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use strait_live::status::metrics::plain;
use strait_status::{Snapshot, metrics};

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");
const PATIENCE: Duration = Duration::from_secs(20);
/// Snapshots of the gateway, a tenth of a second apart; it says the last one until nobody listens.
const STEPS: u64 = 5;

/// A process that is ended with the test, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a gateway says that has a transfer with its acknowledgements, a call over IPv6, and a ping.
fn snapshot(uptime_s: u64) -> String {
    let n = uptime_s.min(STEPS);
    let flow = |from: &str, to: &str, ports: &str, protocol: u8, (packets, octets): (u64, u64)| {
        format!(
            "{{\"source\":\"{from}\",\"destination\":\"{to}\",\"protocol\":{protocol},\
             \"ports\":{ports},\"dscp\":46,\"port\":\"line\",\"packets_in\":{packets},\
             \"octets_in\":{octets},\"packets_out\":{packets},\"octets_out\":{octets},\
             \"dropped\":{{\"codel\":{n}}}}}"
        )
    };
    let talkers = [
        flow("10.0.0.1", "10.0.0.2", "[40000,80]", 6, (10 * n, 5000 * n)),
        flow("10.0.0.2", "10.0.0.1", "[80,40000]", 6, (8 * n, 320 * n)),
        flow(
            "2001:db8::1",
            "2001:db8::2",
            "[5000,5002]",
            17,
            (50 * n, 3000 * n),
        ),
        flow("10.0.0.1", "10.0.0.9", "null", 1, (n, 84 * n)),
    ];
    format!(
        "{{\"node\":\"a\",\"uptime_s\":{uptime_s},\"ports\":[{{\"name\":\"host\"}},{{\"name\":\"line\"}}],\
         \"talkers\":[{}]}}\n",
        talkers.join(",")
    )
}

fn gateway(path: &Path) {
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert_eq!(line, "status stream 0.1\n");
        for n in 1.. {
            let said = snapshot(n);
            if (&stream).write_all(said.as_bytes()).is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
    });
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(system);
    folders.any(|folder| folder.join(program).is_file())
}

/// A port of UDP that nobody had a moment ago.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// A collector, once it listens.
fn collector(command: &mut Command, port: u16) -> Running {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(quiet.spawn().unwrap());
    let local = format!(":{port:04X} ");
    let until = Instant::now() + PATIENCE;
    let listens = || {
        let tables = ["/proc/net/udp", "/proc/net/udp6"].map(fs::read_to_string);
        tables.into_iter().flatten().any(|it| it.contains(&local))
    };
    while !listens() {
        assert!(Instant::now() < until, "{command:?} doesn't listen");
        thread::sleep(Duration::from_millis(20));
    }
    running
}

fn export(folder: &Path, port: u16) -> Running {
    let socket = folder.join("a.sock");
    gateway(&socket);
    let mut strait = Command::new(STRAIT);
    strait.arg("ipfix").arg(&socket);
    strait.args(["--to", &format!("127.0.0.1:{port}"), "--interval", "0.1"]);
    let running = Running(strait.spawn().unwrap());
    thread::sleep(Duration::from_millis(100 * STEPS + 500));
    running
}

/// Ends it as by Ctrl-C, which all of them take as the end in order.
fn end(mut collector: Running) {
    let id = collector.0.id().to_string();
    let kill = Command::new("kill").args(["-INT", &id]).status();
    assert!(kill.unwrap().success());
    let until = Instant::now() + PATIENCE;
    while collector.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the collector goes on");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nfdump_reads_each_way_of_each_flow() {
    if !is_there("nfcapd") || !is_there("nfdump") {
        eprintln!("ipfix: skipped, this needs `nfcapd` and `nfdump`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let files = folder.path().join("flows");
    fs::create_dir(&files).unwrap();
    let mut nfcapd = Command::new("nfcapd");
    nfcapd.arg("-w").arg(&files);
    nfcapd.args(["-b", "127.0.0.1", "-p", &port.to_string()]);
    let nfcapd = collector(&mut nfcapd, port);
    let strait = export(folder.path(), port);
    drop(strait);
    end(nfcapd);
    let read = Command::new("nfdump")
        .arg("-R")
        .arg(&files)
        .args(["-q", "-N", "-A", "proto,srcip,dstip,srcport,dstport"])
        .args(["-o", "fmt:%pr|%sa|%sp|%da|%dp|%ipkt|%ibyt"])
        .output()
        .unwrap();
    let text = String::from_utf8(read.stdout).unwrap();
    let mut rows: Vec<String> = text.lines().map(|it| it.replace(' ', "")).collect();
    rows.retain(|it| it.contains('|'));
    rows.sort();
    // What passed behind the first snapshot.
    let expected = [
        "17|2001:db8::1|5000|2001:db8::2|5002|200|12000",
        "1|10.0.0.1|0|10.0.0.9|0.0|4|336",
        "6|10.0.0.1|40000|10.0.0.2|80|40|20000",
        "6|10.0.0.2|80|10.0.0.1|40000|32|1280",
    ];
    assert_eq!(rows, expected, "{text}");
}

#[test]
fn pmacct_reads_each_way_of_each_flow() {
    if !is_there("nfacctd") {
        eprintln!("ipfix: skipped, this needs `nfacctd` of Debian's pmacct");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let (config, flows) = (folder.path().join("config"), folder.path().join("flows"));
    let text = format!(
        "nfacctd_ip: 127.0.0.1\nnfacctd_port: {port}\nplugins: print\n\
         aggregate: proto,src_host,dst_host,src_port,dst_port\nprint_output: csv\n\
         print_refresh_time: 60\nprint_output_file: {}\n",
        flows.display()
    );
    fs::write(&config, text).unwrap();
    let mut nfacctd = Command::new("nfacctd");
    let nfacctd = collector(nfacctd.arg("-f").arg(&config), port);
    let strait = export(folder.path(), port);
    drop(strait);
    end(nfacctd);
    // It writes what it has as it ends.
    let until = Instant::now() + PATIENCE;
    let mut rows: Vec<String> = Vec::new();
    while rows.len() < 5 && Instant::now() < until {
        thread::sleep(Duration::from_millis(50));
        let text = fs::read_to_string(&flows).unwrap_or_default();
        rows = text.lines().map(str::to_owned).collect();
    }
    rows.sort();
    let expected = [
        "10.0.0.1,10.0.0.2,40000,80,tcp,40,20000",
        "10.0.0.1,10.0.0.9,0,0,icmp,4,336",
        "10.0.0.2,10.0.0.1,80,40000,tcp,32,1280",
        "2001:db8::1,2001:db8::2,5000,5002,udp,200,12000",
        "SRC_IP,DST_IP,SRC_PORT,DST_PORT,PROTOCOL,PACKETS,BYTES",
    ];
    assert_eq!(rows, expected);
}

/// A scrape of a gateway that has everything.
fn scrape() -> String {
    let text = r#"{
        "node": "a", "packets": {"dropped": {"aged": 1}},
        "local": {"chatter": {"mdns": {"packets": 1}}},
        "ports": [{"name": "line", "neighbours": [{"name": "b", "rate_bit_s": 1, "heard_s": 1}],
            "rate_bit_s": 1, "heard_s": 1, "hop": {}, "repairs": {}, "urgent": {},
            "hf": {"queued": {"3": 1}, "neighbours": [{"name": "b", "rate": {}}], "accesses": [{}]}}],
        "classes": [{"name": "voice", "dropped": {"aged": 1}}],
        "proxy": {"streams": {"reset": {"refused": 1}}}, "echo": {}, "dns": {}, "mail": {},
        "olsr": {}, "led": {}, "taps": [{"name": "x"}]
    }"#;
    metrics(&serde_json::from_str::<Snapshot>(text).unwrap())
}

/// Words of an expression that begin as metrics do.
fn metric_names(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    words.filter(|it| it.starts_with("strait_"))
}

#[test]
fn the_dashboard_names_metrics_and_labels_that_there_are() {
    let text = include_str!("../../../docs/monitoring/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    let scrape = scrape();
    let samples = || scrape.lines().filter(|line| !line.starts_with('#'));
    let name = |sample: &str| sample.split([' ', '{']).next().unwrap().to_owned();
    let known: Vec<String> = samples().map(name).collect();
    let mut named = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        let targets = panel["targets"].as_array();
        for target in targets.into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap();
            for name in metric_names(expression) {
                assert!(
                    known.iter().any(|it| it == name),
                    "{}: no {name}",
                    panel["title"]
                );
                named += 1;
            }
            // What a legend names is a label of the first metric, or of the scrape.
            let first = metric_names(expression).next().unwrap();
            let sample = samples().find(|it| it.starts_with(&format!("{first}{{")));
            let sample = sample.unwrap_or_default();
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1) {
                let label = label.split("}}").next().unwrap();
                let there = sample.contains(&format!("{label}=\""));
                assert!(
                    there || label == "instance",
                    "{first} has no {label}: {sample}"
                );
            }
        }
    }
    assert!(named > 60, "{named}");
}

/// The rules of Grafana's dashboard-linter that a change breaks first; the linter itself is no
/// package of Debian.
#[test]
fn the_dashboard_keeps_to_the_rules_of_its_linter() {
    let text = include_str!("../../../docs/monitoring/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(dashboard["editable"], false);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    for (name, label) in [
        ("datasource", "Data source"),
        ("job", "Job"),
        ("instance", "Instance"),
    ] {
        let variable = variables.iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(variable["label"], label);
        if name != "datasource" {
            assert_eq!(
                (&variable["allValue"], &variable["refresh"]),
                (&".+".into(), &2.into())
            );
        }
    }
    let panels = dashboard["panels"].as_array().unwrap();
    for panel in panels.iter().filter(|it| it["type"] != "row") {
        let title = &panel["title"];
        let described = panel["description"]
            .as_str()
            .is_some_and(|it| !it.is_empty());
        assert!(described, "{title}");
        assert!(
            panel["fieldConfig"]["defaults"]["unit"].is_string(),
            "{title}"
        );
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let selected = expression
                .matches("job=~\"$job\", instance=~\"$instance\"")
                .count();
            assert_eq!(selected, metric_names(expression).count(), "{expression}");
            let rates =
                expression.matches("rate(").count() + expression.matches("increase(").count();
            let spans = expression.matches("[$__rate_interval]").count();
            let counters = metric_names(expression).filter(|it| it.ends_with("_total"));
            assert_eq!((rates, spans), (spans, counters.count()), "{expression}");
        }
    }
}

#[test]
fn promtool_finds_nothing_wrong_with_a_scrape() {
    if !is_there("promtool") {
        eprintln!("metrics: skipped, this needs `promtool` of Debian's prometheus");
        return;
    }
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = promtool.stdin.take().unwrap();
    stdin.write_all(plain(&scrape()).as_bytes()).unwrap();
    drop(stdin);
    let told = promtool.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{text}");
}
