//! The analyser of captures as its user meets it: its figures beside those of `tshark` and of the
//! simulator, files as other programs write them, ends by a signal. What needs a program that isn't
//! there is left out, and says so.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use strait_wire::ip::build_udp;
use strait_wire::pcapng::{self, linktype};
use strait_wire::rtp::RtpHeader;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");
const MS: u64 = 1_000_000;

fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !there {
        eprintln!("measure pcap: a part is skipped, there is no `{program}`");
    }
    there
}

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {complaints}");
    output
}

fn measure(args: &[&str]) -> Value {
    let output = run(STRAIT, &[&["measure", "pcap", "--json"], args].concat());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A number by table, the row's label and the column's title.
fn number(result: &Value, table: &str, row: &str, column: &str) -> f64 {
    let tables = result["tables"].as_array().unwrap();
    let table = tables.iter().find(|it| it["id"] == table).unwrap();
    let columns = table["columns"].as_array().unwrap();
    let index = columns.iter().position(|it| it == column).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let row = rows.iter().find(|it| it[0] == row).unwrap();
    row[index].as_f64().unwrap()
}

/// A packet with an RTP header of payload type 0, IPv4 or IPv6.
fn rtp(ipv6: bool, dscp: u8, sequence: u16) -> Vec<u8> {
    let (src, dst): (SocketAddr, SocketAddr) = if ipv6 {
        (
            "[fd00::1]:5004".parse().unwrap(),
            "[fd00::2]:5004".parse().unwrap(),
        )
    } else {
        (
            "10.0.0.1:5004".parse().unwrap(),
            "10.0.0.2:5004".parse().unwrap(),
        )
    };
    let mut payload = Vec::new();
    let header = RtpHeader {
        sequence,
        timestamp: u32::from(sequence) * 160,
        ssrc: 0x1234_5678,
        ..RtpHeader::default()
    };
    header.emit(&mut payload);
    payload.resize(172, 0xff);
    let mut packet = Vec::new();
    assert!(build_udp(
        src,
        dst,
        dscp,
        64,
        sequence,
        0,
        &payload,
        &mut packet
    ));
    packet
}

/// Calls in both families with loss, jitter, disorder and a copy, as a file of raw IP.
fn calls() -> Vec<u8> {
    let mut file = Vec::new();
    pcapng::section(&mut file, "test");
    pcapng::interface(&mut file, linktype::RAW, 0, "lan");
    let order = (0..500_u16)
        .filter(|n| n % 50 != 7)
        .flat_map(|n| match n % 100 {
            20 => vec![n + 1],
            21 => vec![n - 1],
            60 => vec![n, n],
            _ => vec![n],
        });
    for (place, sequence) in (0_u64..).zip(order) {
        // Up to 12 ms late, in a pattern without sense.
        let late_ns = place * place * 7919 % 12_000 * 1000;
        for (ipv6, dscp) in [(false, 46), (true, 34)] {
            let packet = rtp(ipv6, dscp, sequence);
            let time_ns = 1_000 * MS + place * 20 * MS + late_ns;
            pcapng::packet(
                &mut file,
                0,
                time_ns,
                &packet,
                packet.len() as u32,
                Some("x"),
            );
        }
    }
    file
}

#[test]
fn calls_and_classes_are_as_tshark_sees_them() {
    if !has("tshark") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.pcapng");
    fs::write(&path, calls()).unwrap();
    let path = path.to_str().unwrap();
    let ours = measure(&[path]);
    let as_rtp = ["-r", path, "-d", "udp.port==5004,rtp"];
    let streams = run(
        "tshark",
        &[&as_rtp[..], &["-q", "-z", "rtp,streams"]].concat(),
    );
    let streams = String::from_utf8(streams.stdout).unwrap();
    let lines: Vec<&str> = streams
        .lines()
        .filter(|it| it.contains("0x12345678"))
        .collect();
    assert_eq!(lines.len(), 2, "{streams}");
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let stream = if words[2].contains(':') {
            "udp [fd00::1]:5004 > [fd00::2]:5004"
        } else {
            "udp 10.0.0.1:5004 > 10.0.0.2:5004"
        };
        let own = |column| number(&ours, "rtp", stream, column);
        // … SSRC, payload type, packets, lost, (share), deltas, jitters.
        let ssrc = words.iter().position(|it| *it == "0x12345678").unwrap();
        let theirs = |offset: usize| words[ssrc + offset].parse::<f64>().unwrap();
        assert_eq!(own("packets"), theirs(2), "{line}");
        assert_eq!(own("lost") - own("duplicates"), theirs(3), "{line}");
        assert!(
            (own("gap max [s]") * 1e3 - theirs(7)).abs() < 0.001,
            "{line}"
        );
        assert!(
            (own("jitter mean [s]") * 1e3 - theirs(9)).abs() < 0.001,
            "{line}"
        );
        assert!(
            (own("jitter max [s]") * 1e3 - theirs(10)).abs() < 0.001,
            "{line}"
        );
    }
    let fields = [
        "-T",
        "fields",
        "-e",
        "ip.dsfield.dscp",
        "-e",
        "ipv6.tclass.dscp",
    ];
    let classes = run("tshark", &[&["-r", path][..], &fields].concat());
    let classes = String::from_utf8(classes.stdout).unwrap();
    for (label, value) in [("EF", "46"), ("AF41", "34")] {
        let theirs = classes.lines().filter(|it| it.trim() == value).count();
        assert_eq!(number(&ours, "by dscp", label, "packets"), theirs as f64);
    }
}

#[test]
fn files_of_other_programs_give_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let original = file("calls.pcapng");
    fs::write(&original, calls()).unwrap();
    let rows = |path: &str| {
        let result = measure(&[path]);
        let tables = result["tables"].as_array().unwrap();
        tables[1..].to_vec()
    };
    let expected = rows(&original);
    assert_eq!(expected.len(), 2);
    if has("editcap") {
        let old = file("old.pcap");
        run("editcap", &["-F", "nsecpcap", &original, &old]);
        assert_eq!(rows(&old), expected);
        // Only the beginning of each packet: headers say how long it was.
        let cut = file("cut.pcap");
        run("editcap", &["-F", "nsecpcap", "-s", "60", &original, &cut]);
        assert_eq!(rows(&cut), expected);
    }
    for (program, ending) in [("gzip", "gz"), ("xz", "xz"), ("zstd", "zst")] {
        if has(program) {
            run(program, &["-k", "-q", &original]);
            assert_eq!(rows(&format!("{original}.{ending}")), expected);
        }
    }
    // The same from a pipe.
    let mut child = Command::new(STRAIT)
        .args(["measure", "pcap", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&calls()).unwrap();
    let output = child.wait_with_output().unwrap();
    let piped: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(piped["tables"].as_array().unwrap()[1..], expected);
}

/// One call from `ha` to `hb` over a link that loses, repeats and reorders; pings go on after it.
const LOSSY: &str = r#"
name = "lossy"
duration = "70 s"
seed = 3
[[node]]
name = "a"
[node.config]
name = "a"
host = { addresses = ["10.1.0.1/24"] }
port = [{ name = "radio", kind = "udp", rate = "64 kbit/s", neighbours = [{ name = "b" }] }]
route = [{ prefix = "10.2.0.0/24", port = "radio" }]
[[node]]
name = "b"
[node.config]
name = "b"
host = { addresses = ["10.2.0.1/24"] }
port = [{ name = "radio", kind = "udp", rate = "64 kbit/s", neighbours = [{ name = "a" }] }]
route = [{ prefix = "10.1.0.0/24", port = "radio" }]
[[host]]
name = "ha"
behind = "a"
addresses = ["10.1.0.2/24"]
[[host]]
name = "hb"
behind = "b"
addresses = ["10.2.0.2/24"]
[[link]]
name = "radio"
between = ["a.radio", "b.radio"]
channel = { kind = "frames", rate = "64 kbit/s", delay = "80 ms", jitter = "20 ms", loss = "5 %", reorder = "2 %", reorder_delay = "300 ms", frame_octets_max = 1500 }
[[traffic]]
name = "voice"
kind = "voice"
family = 4
from = "ha"
to = "hb"
start = "1 s"
stop = "61 s"
period = "20 ms"
payload = "31 B"
dscp = "EF"
[[traffic]]
name = "ping"
kind = "ping"
family = 4
from = "ha"
to = "hb"
start = "1 s"
stop = "69 s"
period = "1 s"
"#;

#[test]
fn captures_of_a_simulation_tell_what_the_simulation_tells() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let scenario = file("lossy.toml");
    fs::write(&scenario, LOSSY).unwrap();
    let out = file("captures");
    let sim = run(STRAIT, &["sim", &scenario, "--json", "--pcap", &out]);
    let sim: Value = serde_json::from_slice(&sim.stdout).unwrap();
    let told = |metric: &str| number(&sim, "lossy", &format!("voice.{metric}"), "strait");
    let capture = |node: &str| format!("{out}/strait-{node}.pcapng");
    let ours = measure(&[&capture("ha"), &capture("b")]);
    let loss = |column| number(&ours, "A to B by dscp: loss and order", "EF", column);
    assert!((loss("loss") - told("loss")).abs() < 1e-9);
    assert!(loss("lost") > 50.0 && loss("reordered") > 10.0);
    assert_eq!((loss("unsent"), loss("not judged")), (0.0, 0.0));
    let delay = |column| number(&ours, "A to B by dscp: delay", "EF", column);
    for (column, metric) in [
        ("min [s]", "delay_min_s"),
        ("p50 [s]", "delay_p50_s"),
        ("p99 [s]", "delay_p99_s"),
        ("max [s]", "delay_max_s"),
        ("jitter p99 [s]", "jitter_p99_s"),
    ] {
        let (found, expected) = (delay(column), told(metric));
        assert!(
            (found / expected - 1.0).abs() < 0.002,
            "{metric}: {found} for {expected}"
        );
    }
}

#[test]
fn a_report_is_one_page_and_strict_judges() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (whole, cut, page) = (file("whole.pcapng"), file("cut.pcapng"), file("page.html"));
    let octets = calls();
    fs::write(&whole, &octets).unwrap();
    fs::write(&cut, &octets[..octets.len() - 5]).unwrap();
    let status = |args: &[&str]| {
        let mut command = Command::new(STRAIT);
        let output = command.args(["measure", "pcap"]).args(args).output();
        output.unwrap().status.code()
    };
    assert_eq!(
        status(&["--strict", &whole, &whole, "--report", &page]),
        Some(0)
    );
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("share of packets from A to B by delay"));
    assert!(html.contains("A to B: code points"));
    assert_eq!(status(&["--strict", &cut]), Some(1));
    assert_eq!(status(&[&cut]), Some(0));
    fs::write(&cut, b"no capture").unwrap();
    assert_eq!(status(&[&cut]), Some(2));
    assert_eq!(status(&["-", "-"]), Some(2));
    assert_eq!(status(&[&file("missing")]), Some(3));
}

#[test]
fn a_signal_ends_it_with_what_was_read() {
    let mut child = Command::new(STRAIT)
        .args(["measure", "pcap", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut head = Vec::new();
    pcapng::section(&mut head, "test");
    pcapng::interface(&mut head, linktype::RAW, 0, "lan");
    let (packet, mut packets) = (rtp(false, 46, 1), Vec::new());
    for _ in 0..20_000 {
        pcapng::packet(&mut packets, 0, MS, &packet, 200, None);
    }
    // A pipe holds far less than this: when it is written, the reader is at work.
    input.write_all(&head).unwrap();
    input.write_all(&packets).unwrap();
    run("kill", &["-INT", &child.id().to_string()]);
    // The reader may have gone already.
    let _ = input.write_all(&packets);
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = result["checks"].as_array().unwrap();
    let whole = checks.iter().find(|it| it["id"] == "whole").unwrap();
    assert_eq!(
        (&whole["value"], &whole["ok"]),
        (&0.0.into(), &false.into())
    );
    let packets = number(&result, "by dscp", "EF", "packets");
    assert!((4096.0..40_000.0).contains(&packets), "{packets}");
}
