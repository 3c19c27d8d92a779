//! `strait measure flows` against `mgen` itself, both ways, over loopback: every pattern, both
//! families, UDP and TCP, marks on real packets. And the scenario with a script, simulated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use strait_traffic::mgen::{Entry, Line};
use strait_wire::mgen::FLAG_CONTINUES;

/// By flow: number, octets and time of the day in us of each message.
type Messages = BTreeMap<u32, Vec<(u32, u64, u64)>>;

/// What a log says.
#[derive(Debug, Default)]
struct Log {
    sent: Messages,
    received: Messages,
    errors: Vec<String>,
}

fn read(path: &Path) -> Log {
    let text = std::fs::read_to_string(path).expect("a log");
    let mut log = Log::default();
    let mut before: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for line in text.lines() {
        let read = Line::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Some(Line { at_us, entry }) = read else {
            continue;
        };
        match entry {
            Entry::Send(send) => {
                let messages = log.sent.entry(send.flow).or_default();
                messages.push((send.sequence, send.octets, at_us));
            }
            Entry::Recv(recv) => {
                let octets = before.entry((recv.flow, recv.sequence)).or_default();
                *octets += recv.octets;
                if recv.flags & FLAG_CONTINUES == 0 {
                    let messages = log.received.entry(recv.flow).or_default();
                    messages.push((recv.sequence, *octets, at_us));
                }
            }
            Entry::Rerr(..) => log.errors.push(line.into()),
            _ => {}
        }
    }
    log
}

fn has(program: &str) -> bool {
    let found = Command::new(program)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .arg("--version")
        .status()
        .is_ok();
    if !found {
        eprintln!("mgen: skipped, there is no `{program}`");
    }
    found
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().expect("a program"))
    }

    /// Asks it to end, and waits until it has.
    fn stop(mut self) {
        let pid = self.0.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a log says that its process listens.
fn wait_for_ports(log: &Path, count: usize) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if text.matches(" LISTEN ").count() >= count {
            return;
        }
        assert!(Instant::now() < end, "nobody listens: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, text).expect("a script");
        path
    }
}

fn strait(script: &Path, log: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command
        .args(["measure", "flows"])
        .arg(script)
        .arg("--log")
        .arg(log);
    command
}

/// `mgen` keeps what it has logged to itself until it ends unless it is told to flush.
fn mgen(script: &Path, log: &Path) -> Command {
    let mut command = Command::new("mgen");
    command
        .args(["flush", "txlog", "output"])
        .arg(log)
        .arg("input")
        .arg(script);
    command
}

/// A capture of tcpdump's with frames of 142, 242 and 342 octets, 20 ms apart.
fn capture() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for (number, octets) in [142_u32, 242, 342].into_iter().enumerate() {
        for word in [7, number as u32 * 20_000, octets, octets] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(bytes.len() + octets as usize, 0);
    }
    bytes
}

/// Flows with a pattern each, and their ports from `first` on. The bursts end between two
/// messages, as MGEN counts those on the edge in its own way.
fn sending(first: u16, capture: Option<&Path>) -> String {
    let clone = capture.map_or_else(
        || "PERIODIC [50 200]".into(),
        |capture| format!("CLONE [tcpdump {} -1]", capture.display()),
    );
    let flows = [
        ("UDP", "PERIODIC [100 60] TOS 0xb8"),
        ("UDP", "POISSON [200 100] TOS 0x28"),
        ("UDP", "JITTER [100 200 0.5]"),
        ("UDP", "BURST [REGULAR 0.4 PERIODIC [100 300] FIXED 0.105]"),
        ("UDP", "BURST [RANDOM 0.2 POISSON [200 50] EXPONENTIAL 0.1]"),
        ("UDP", clone.as_str()),
        ("UDP", "PERIODIC [50 8192] DATA [00112233]"),
        ("TCP", "PERIODIC [20 1000]"),
        ("TCP", "PERIODIC [5 100000]"),
    ];
    let mut text = String::new();
    for (flow, (protocol, pattern)) in flows.iter().enumerate() {
        let (flow, port) = (flow + 1, first + flow as u16);
        text += &format!("0.1 ON {flow} {protocol} DST 127.0.0.1/{port} {pattern}\n");
        text += &format!("2.1 OFF {flow}\n");
    }
    text + "1.1 MOD 1 PERIODIC [200 80]\n"
}

fn listening(first: u16) -> String {
    let (last, tcp) = (first + 6, first + 7);
    format!(
        "0 LISTEN UDP {first}-{last}\n0 LISTEN TCP {tcp}-{}\n",
        tcp + 1
    )
}

/// Both logs tell of the same messages: numbers without gaps, sizes, and rates.
fn same(sent: &Log, received: &Log) {
    assert_eq!(received.errors, Vec::<String>::new());
    assert_eq!(sent.sent.len(), 9, "{:?}", sent.sent.keys());
    for (flow, messages) in &sent.sent {
        let arrived = &received.received[flow];
        let plain = |all: &[(u32, u64, u64)]| -> Vec<(u32, u64)> {
            all.iter()
                .map(|(number, octets, _)| (*number, *octets))
                .collect()
        };
        assert_eq!(plain(arrived), plain(messages), "flow {flow}");
        let numbers: Vec<u32> = arrived.iter().map(|(number, ..)| *number).collect();
        let expected: Vec<u32> = (0..numbers.len() as u32).collect();
        assert_eq!(numbers, expected, "flow {flow}");
        let span_us = |all: &[(u32, u64, u64)]| all[all.len() - 1].2 - all[0].2;
        let (there_us, here_us) = (span_us(messages), span_us(arrived));
        assert!(
            there_us.abs_diff(here_us) < 200_000,
            "flow {flow}: {there_us} {here_us}"
        );
    }
    // How many a fixed pattern has in its two seconds, and a random one about.
    let count = |flow: u32| sent.sent[&flow].len() as f64;
    for (flow, expected, within) in [
        (1, 300.0, 3.0),
        (2, 400.0, 120.0),
        (3, 200.0, 3.0),
        (4, 55.0, 6.0),
        (6, 100.0, 3.0),
        (7, 100.0, 3.0),
        (8, 40.0, 3.0),
        (9, 10.0, 2.0),
    ] {
        let found = count(flow);
        assert!(
            (found - expected).abs() <= within,
            "flow {flow}: {found} of {expected}"
        );
    }
    assert!(count(5) > 10.0);
}

#[test]
fn mgen_receives_what_we_send() {
    if !has("mgen") {
        return;
    }
    let place = Place::new();
    std::fs::write(place.file("c.pcap"), capture()).expect("a capture");
    let listen = place.script("listen.mgn", &listening(17_100));
    let send = place.script("send.mgn", &sending(17_100, Some(&place.file("c.pcap"))));
    let (ours, theirs) = (place.file("ours.drc"), place.file("theirs.drc"));
    let receiver = Running::start(&mut mgen(&listen, &theirs));
    wait_for_ports(&theirs, 9);
    let status = strait(&send, &ours)
        .stdout(Stdio::null())
        .status()
        .expect("strait");
    assert!(status.success());
    std::thread::sleep(Duration::from_millis(200));
    receiver.stop();
    same(&read(&ours), &read(&theirs));
}

#[test]
fn we_receive_what_mgen_sends() {
    if !has("mgen") {
        return;
    }
    let place = Place::new();
    let listen = place.script("listen.mgn", &listening(17_200));
    // Distributions build `mgen` without CLONE.
    let send = place.script("send.mgn", &sending(17_200, None));
    let (ours, theirs) = (place.file("ours.drc"), place.file("theirs.drc"));
    let receiver = Running::start(&mut strait(&listen, &ours));
    wait_for_ports(&ours, 9);
    let sender = Running::start(&mut mgen(&send, &theirs));
    std::thread::sleep(Duration::from_millis(3000));
    sender.stop();
    receiver.stop();
    same(&read(&theirs), &read(&ours));
}

#[test]
fn checksums_are_taken_both_ways() {
    if !has("mgen") {
        return;
    }
    let place = Place::new();
    let flow = |port: u16| {
        format!(
            "0 ON 1 UDP DST 127.0.0.1/{port} PERIODIC [50 100] COUNT 20\n\
             0 ON 2 TCP DST 127.0.0.1/{port} PERIODIC [20 70000] COUNT 5\n"
        )
    };
    let port = |port: u16| format!("0 LISTEN UDP {port}\n0 LISTEN TCP {port}\n");
    let (ours, theirs) = (place.file("ours.drc"), place.file("theirs.drc"));

    let receiver = place.script("a.mgn", &port(17_301));
    let mut command = Command::new("mgen");
    command
        .args(["rxcheck", "flush", "output"])
        .arg(&theirs)
        .arg("input")
        .arg(&receiver);
    let receiver = Running::start(&mut command);
    wait_for_ports(&theirs, 2);
    let send = place.script("b.mgn", &flow(17_301));
    let mut command = strait(&send, &ours);
    assert!(
        command
            .arg("--checksum")
            .stdout(Stdio::null())
            .status()
            .expect("strait")
            .success()
    );
    std::thread::sleep(Duration::from_millis(200));
    receiver.stop();
    let log = read(&theirs);
    assert_eq!(
        (log.errors.len(), log.received[&1].len()),
        (0, 20),
        "{:?}",
        log.errors
    );
    assert_eq!(log.received[&2].len(), 5);

    let listen = place.script("c.mgn", &port(17_302));
    let receiver = Running::start(&mut strait(&listen, &ours));
    wait_for_ports(&ours, 2);
    let send = place.script("d.mgn", &flow(17_302));
    let mut command = Command::new("mgen");
    command
        .args(["txcheck", "output", "/dev/null", "input"])
        .arg(&send);
    let sender = Running::start(&mut command);
    std::thread::sleep(Duration::from_millis(1500));
    sender.stop();
    receiver.stop();
    let log = read(&ours);
    assert_eq!(log.errors, Vec::<String>::new());
    assert!(log.received[&1].len() >= 19, "{}", log.received[&1].len());
    assert_eq!(log.received[&2].len(), 5);
}

/// Prints the traffic class and the flow label of the first datagram of each of two sockets.
const MARKS: &str = "
import socket, struct
for family, host, port in ((socket.AF_INET, '127.0.0.1', 17401), (socket.AF_INET6, '::1', 17402)):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_IP, 13, 1) if family == socket.AF_INET else None
    if family == socket.AF_INET6:
        s.setsockopt(41, 66, 1)
        s.setsockopt(41, 11, 1)
    s.bind((host, port)); s.settimeout(20)
    globals()['s%d' % port] = s
print('ready', flush=True)
for port in (17401, 17402):
    data, extra, flags, sender = globals()['s%d' % port].recvmsg(9000, 200)
    for level, kind, value in sorted(extra):
        if (level, kind) == (0, 1): print('tos', value[0])
        if (level, kind) == (41, 67): print('class', struct.unpack('i', value)[0])
        if (level, kind) == (41, 11): print('label', struct.unpack('>I', value)[0] & 0xfffff)
";

#[test]
fn marks_stand_in_real_packets() {
    if !has("python3") {
        return;
    }
    use std::io::{BufRead as _, BufReader, Read as _};
    let mut python = Command::new("python3");
    python.args(["-c", MARKS]).stdout(Stdio::piped());
    let mut python = python.spawn().expect("python3");
    let mut output = BufReader::new(python.stdout.take().expect("its output"));
    let mut told = String::new();
    output.read_line(&mut told).expect("a line");
    assert_eq!(told, "ready\n");
    let place = Place::new();
    let send = place.script(
        "marks.mgn",
        "0 ON 1 UDP DST 127.0.0.1/17401 PER [20 60] TOS 0xb8 COUNT 5\n\
         0 ON 2 UDP DST ::1/17402 PER [20 60] TOS 0x48 LABEL 0x12345 COUNT 5\n",
    );
    let status = strait(&send, &place.file("log"))
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("strait").success());
    told.clear();
    output.read_to_string(&mut told).expect("lines");
    let _ = python.wait();
    let told: Vec<&str> = told.lines().collect();
    assert!(told.contains(&"tos 184"), "{told:?}");
    assert!(
        told.contains(&"class 72") && told.contains(&"label 74565"),
        "{told:?}"
    );
}

#[test]
fn a_simulated_script_leaves_logs_that_tell_what_the_tables_do() {
    let place = Place::new();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/lab/mgen.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_strait"));
    command
        .arg("sim")
        .arg(scenario)
        .args(["--json", "--strict", "--mgen-log"]);
    let output = command.arg(place.0.path()).output().expect("strait");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let from = read(&place.file("strait-flows.from.drc"));
    let to = read(&place.file("strait-flows.to.drc"));
    assert_eq!(
        from.sent.keys().copied().collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    for (flow, sent) in &from.sent {
        assert_eq!(sent.len(), to.received[flow].len(), "flow {flow}");
    }
    // 50 messages in ten seconds at 5 a second, 80 in eight at 10.
    assert_eq!(from.sent[&1].len(), 130);
    assert_eq!(from.sent[&4].len(), 60);
}

#[test]
fn a_wrong_script_is_told_with_its_place() {
    let place = Place::new();
    let script = place.script("wrong.mgn", "# one\n0 ON 1 UDP DST here/5 PER [1 100]\n");
    let output = strait(&script, &place.file("log"))
        .output()
        .expect("strait");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("wrong.mgn") && told.contains("`here/5` is no address"),
        "{told}"
    );
    assert!(told.contains("wrong.mgn:2: column 16: "), "{told}");
}
