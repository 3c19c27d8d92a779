//! A live gateway as its operator meets it: it starts, carries pings over an emulated line, says
//! how it is, ends in order or by force, and its journal repeats it. Needs root and `ping`.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");

/// A process that is ended with the test, whatever happens.
struct Running(Child);

impl Running {
    /// Starts a command and waits for the line that says that it is up.
    fn start(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let running = Self(child);
        let up = lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.contains(": up: "));
        assert!(up, "it ended instead");
        // Whoever writes on must find a reader.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        running
    }

    fn end(mut self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn gateway(folder: &Path, name: &str) -> Running {
    Running::start(&mut start_gateway(folder, name))
}

fn start_gateway(folder: &Path, name: &str) -> Command {
    let nodes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/nodes");
    let file = |suffix: &str| folder.join(format!("{name}.{suffix}"));
    let mut command = Command::new("unshare");
    command
        .args(["--net", STRAIT, "run"])
        .arg(nodes.join(format!("serial-9600-{name}.toml")));
    command
        .arg("--device")
        .arg(format!("line={}", file("line").display()));
    command
        .arg("--status")
        .arg(file("sock"))
        .arg("--journal")
        .arg(file("journal"));
    command
}

#[test]
fn a_gateway_carries_pings_says_how_it_is_and_its_journal_repeats_it() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || Command::new("ping").arg("-V").output().is_err() {
        eprintln!("run: skipped, this needs root and `ping`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let link = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links/serial-9600.toml");
    let mut emulate = Command::new(STRAIT);
    emulate.arg("emulate").arg(link).stdout(Stdio::null());
    for end in ["a", "b"] {
        let pty = format!("pty:{}", file(&format!("{end}.line")).display());
        emulate.arg(format!("--{end}")).arg(pty);
    }
    let line = Running::start(&mut emulate);
    let (a, b) = (gateway(folder.path(), "a"), gateway(folder.path(), "b"));

    let inside = a.0.id().to_string();
    for far in ["10.9.0.2", "fd00:9::2"] {
        let mut ping = Command::new("nsenter");
        ping.args([
            "--net", "--target", &inside, "ping", "-c", "2", "-i", "0.3", "-W", "5", far,
        ]);
        let output = ping.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains(" 0% packet loss"), "{told}");
    }

    let status = Command::new(STRAIT)
        .args(["status", "--json"])
        .arg(file("a.sock"))
        .output();
    let status: serde_json::Value = serde_json::from_slice(&status.unwrap().stdout).unwrap();
    let classes = status["classes"].as_array().unwrap();
    let packets: u64 = classes
        .iter()
        .filter_map(|class| class["packets"].as_u64())
        .sum();
    assert_eq!(packets, 8, "four requests out, four replies in");

    a.end("-TERM");
    // Each second a journal is written out: so much has a killed gateway's.
    thread::sleep(Duration::from_millis(1500));
    b.end("-KILL");
    line.end("-TERM");
    for name in ["a.journal", "b.journal"] {
        let mut replay = Command::new(STRAIT);
        let output = replay
            .args(["replay", "--strict"])
            .arg(file(name))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && told.contains("same:"),
            "{name}: {told}"
        );
        let list = Command::new(STRAIT)
            .args(["replay", "--list", "--json"])
            .arg(file(name))
            .output();
        let list = String::from_utf8(list.unwrap().stdout).unwrap();
        let records: Vec<serde_json::Value> = list
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for what in ["in", "out", "port"] {
            assert!(
                records.iter().any(|it| it["what"] == what),
                "{what}: {list}"
            );
        }
        assert!(records.last().unwrap()["end"].is_string(), "{list}");
    }
    // What the gateway said while it ran is said of its journal: in a sentence, and in a page whose
    // numbers have their packets.
    let journal = file("a.journal");
    let why = Command::new(STRAIT).arg("why").arg(&journal).output();
    let why = String::from_utf8(why.unwrap().stdout).unwrap();
    assert!(why.starts_with("a: All is well: port line"), "{why}");
    let page = file("a.html");
    let mut web = Command::new(STRAIT);
    web.arg("web").arg(&journal).arg("--save").arg(&page);
    assert!(web.output().unwrap().status.success());
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("10.9.0.1 > 10.9.0.2 ICMP"),
        "no packet of the ping"
    );
}

#[test]
fn a_port_of_ip_packets_says_what_it_needs() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("run: skipped, this needs root and `setpriv`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.toml");
    let text = "name = \"a\"\nhost = {}\n[[port]]\nname = \"p\"\nkind = \"ip\"\n\
                local = \"127.0.0.1\"\nneighbours = [{ name = \"b\", address = \"127.0.0.2\" }]\n";
    fs::write(&path, text).unwrap();
    let output = Command::new("unshare")
        .args(["--net", "setpriv", "--bounding-set=-net_raw", STRAIT, "run"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let told = String::from_utf8_lossy(&output.stderr);
    let expected = "cannot send IP packets of protocol 253 from 127.0.0.1: Operation not \
                    permitted (this needs CAP_NET_RAW";
    assert!(told.contains(expected), "{told}");
}

/// A pipe that takes no octet more, and its reader, who doesn't read.
fn full_pipe() -> (std::io::PipeReader, Stdio) {
    let (reader, writer) = std::io::pipe().unwrap();
    // Opened anew, only this writer never waits.
    let again = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let never_waits = 0o4000;
    let mut filler = fs::OpenOptions::new()
        .write(true)
        .custom_flags(never_waits)
        .open(again)
        .unwrap();
    while filler.write(&[b'x'; 4096]).is_ok() {}
    while filler.write(b"x").is_ok() {}
    (reader, writer.into())
}

/// Waits for the end of a process, not for ever.
fn ends(child: &mut Child) -> Option<ExitStatus> {
    (0..100).find_map(|_| {
        thread::sleep(Duration::from_millis(100));
        child.try_wait().unwrap()
    })
}

#[test]
fn nobody_reads_stderr_and_a_gateway_starts_and_ends() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("run: skipped, this needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("a.toml"), folder.path().join("sock"));
    let node = "name = \"a\"\nhost = {}\n[[port]]\nname = \"p\"\nkind = \"udp\"\n\
                local = \"0.0.0.0:7000\"\n[[port.neighbours]]\nname = \"b\"\n\
                address = \"10.0.0.2:7000\"\n";
    fs::write(&file, node).unwrap();
    let start = |file: &Path, stderr: Stdio| {
        let mut command = Command::new("unshare");
        command.args(["--net", STRAIT, "run"]).arg(file);
        command.arg("--status").arg(&socket);
        Running(command.stderr(stderr).spawn().unwrap())
    };

    let (_reader, stderr) = full_pipe();
    let mut running = start(&file, stderr);
    let answers = || {
        let mut status = Command::new(STRAIT);
        let output = status.arg("status").arg(&socket).output().unwrap();
        output.status.success()
    };
    let waited = (0..100).find(|_| {
        thread::sleep(Duration::from_millis(100));
        answers()
    });
    assert!(waited.is_some(), "it serves");
    let id = running.0.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    assert!(ends(&mut running.0).unwrap().success());

    // Nor does what keeps it from a start.
    let (_reader, stderr) = full_pipe();
    let mut running = start(&folder.path().join("absent.toml"), stderr);
    assert_eq!(ends(&mut running.0).unwrap().code(), Some(2));
}

#[test]
fn a_service_goes_on_at_sighup_and_says_what_it_does_not_do() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || Command::new("setsid").arg("-V").output().is_err() {
        eprintln!("run: skipped, this needs root and `setsid`");
        return;
    }
    let node =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/nodes/serial-9600-a.toml");
    let folder = tempfile::tempdir().unwrap();
    for form in ["text", "json"] {
        let mut command = Command::new("setsid");
        // Without a terminal, as a service manager starts it.
        command
            .args(["unshare", "--net", STRAIT, "run", "--log", form])
            .arg(&node);
        command.arg("--status").arg(folder.path().join("sock"));
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut running = Running(child);
        let id = running.0.id().to_string();
        let signal = |name: &str| {
            let sent = Command::new("kill").args([name, &id]).status();
            assert!(sent.unwrap().success());
        };
        let level = |line: &str| {
            let message: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            assert_eq!(message.is_object(), form == "json", "{line}");
            message["level"].as_str().unwrap_or("text").to_owned()
        };
        let mut lines = lines.map_while(Result::ok);
        let mut all = lines.by_ref().inspect(|line| drop(level(line)));
        assert!(all.any(|line| line.contains(": up: ")));
        signal("-HUP");
        let told = lines.find(|line| line.contains("SIGHUP") && line.contains("restart"));
        assert!(["text", "WARN"].contains(&level(&told.unwrap()).as_str()));
        assert_eq!(running.0.try_wait().unwrap(), None);
        signal("-TERM");
        assert_eq!(running.0.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_gateway_waits_for_a_modem_that_starts_after_it() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("run: skipped, this needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("a.toml"), folder.path().join("sock"));
    // Nobody else comes by this address while nobody listens there.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let modem = held.local_addr().unwrap();
    drop(held);
    let node = format!(
        "name = \"a\"\nhost.interface = \"late{}\"\n[[port]]\nname = \"radio\"\nkind = \"kiss\"\n\
         rate = \"1200 bit/s\"\nkiss.modem = \"{modem}\"\n",
        std::process::id() % 100_000
    );
    fs::write(&file, node).unwrap();
    let mut command = Command::new(STRAIT);
    command.arg("run").arg(&file).arg("--status").arg(&socket);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    let mut lines = lines.map_while(Result::ok);
    assert!(
        lines
            .by_ref()
            .any(|line| line.contains("KISS 127.0.0.1") && line.contains(" (down)"))
    );
    let listener = TcpListener::bind(modem).unwrap();
    let _modem = listener.accept().unwrap();
    assert!(
        lines
            .by_ref()
            .any(|line| line.contains("port up after all"))
    );
    thread::spawn(move || lines.for_each(drop));
    running.end("-TERM");
}

/// As a gateway's predecessor does that is still ending when it starts.
#[test]
fn a_line_may_be_busy_for_a_moment_and_no_longer() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("run: skipped, this needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let line = folder.path().join("a.line");
    let link = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/links/serial-9600.toml");
    let mut emulate = Command::new(STRAIT);
    emulate.arg("emulate").arg(link).stdout(Stdio::null());
    emulate.arg(format!("--a=pty:{}", line.display()));
    emulate.arg(format!(
        "--b=pty:{}",
        folder.path().join("b.line").display()
    ));
    let _emulator = Running::start(&mut emulate);

    let taken = fs::File::open(&line).unwrap();
    taken.lock().unwrap();
    let mut refused = start_gateway(folder.path(), "a");
    let output = refused.stderr(Stdio::piped()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(told.contains("another program uses it"), "{told}");

    let gives_back = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        drop(taken);
    });
    gateway(folder.path(), "a").end("-INT");
    gives_back.join().unwrap();
}
