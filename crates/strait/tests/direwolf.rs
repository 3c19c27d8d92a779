//! Two live gateways over two real Dire Wolfs, whose sound cards are a loop of samples in both
//! directions. Needs root, `direwolf` and `ping`.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use strait_live::kernel::namespace::Namespace;

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");
/// Samples a second.
const SAMPLES_S: usize = 48_000;
const SAMPLE_OCTETS: usize = 2;
/// Octets of samples that are passed on together: those of 10 ms.
const TICK_OCTETS: usize = SAMPLES_S * SAMPLE_OCTETS / 100;
const TICK: Duration = Duration::from_millis(10);
/// Nothing takes longer than this.
const LIMIT: Duration = Duration::from_secs(90);

/// A process that is ended with the test, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program in a namespace.
fn inside(namespace: &Namespace, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    // The namespace has no file of its own: this process holds it open.
    let (process, fd) = (std::process::id(), namespace.as_fd().as_raw_fd());
    command.arg(format!("--net=/proc/{process}/fd/{fd}"));
    command.arg(program);
    command
}

/// What each thread of a modem waits for in the kernel: its sender sleeps while it waits for a
/// clear channel, and is in a futex while it knows of nothing to send.
fn waits(modem: &Running) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", modem.0.id())).unwrap();
    let wait = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("wchan"));
    threads.flatten().flat_map(wait).collect()
}

/// A modem at port 8001 of its namespace: samples come by its input and leave by a FIFO.
fn direwolf(namespace: &Namespace, folder: &Path, name: &str, baud: u32) -> (Running, ChildStdin) {
    let file = |end: &str| folder.join(format!("{name}.{end}"));
    let made = Command::new("mkfifo").arg(file("fifo")).status().unwrap();
    assert!(made.success());
    let config = format!(
        "ADEVICE - out\nARATE {SAMPLES_S}\nCHANNEL 0\nMYCALL N0CALL-9\nMODEM {baud}\n\
         TXDELAY 10\nTXTAIL 3\nSLOTTIME 2\nPERSIST 255\nKISSPORT 8001\nAGWPORT 0\n"
    );
    fs::write(file("conf"), config).unwrap();
    let sound = format!(
        "pcm.out {{ type file; slave.pcm {{ type null }}; format \"raw\"; file \"{}\" }}\n",
        file("fifo").display()
    );
    fs::write(file("asound"), sound).unwrap();
    let mut command = inside(namespace, "direwolf");
    command
        .arg("-c")
        .arg(file("conf"))
        .args(["-t", "0", "-q", "d"]);
    command.env("ALSA_CONFIG_PATH", file("asound"));
    command.stdin(Stdio::piped());
    command.stdout(File::create(file("log")).unwrap());
    command.stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let input = child.stdin.take().unwrap();
    (Running(child), input)
}

/// The next samples, a tick's at most. Where silence follows half of a sample, all that comes after
/// is noise: the other half is waited for.
fn piece(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; TICK_OCTETS];
    let mut octets = from.read(&mut piece)?;
    if !octets.is_multiple_of(SAMPLE_OCTETS) {
        from.read_exact(&mut piece[octets..=octets])?;
        octets += 1;
    }
    piece.truncate(octets);
    Ok(piece)
}

/// The samples that a modem sends, in pieces of a tick.
fn samples(folder: &Path, name: &str) -> Receiver<Vec<u8>> {
    // Open for both, so that no end waits for the other, and none of it ever ends.
    let mut options = OpenOptions::new();
    let fifo = options.read(true).write(true);
    let mut fifo = fifo.open(folder.join(format!("{name}.fifo"))).unwrap();
    let (sender, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        while let Ok(piece) = piece(&mut fifo) {
            if sender.send(piece).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Passes samples on at their rate, and silence where there are none. Time stands still for a modem
/// whose program is held up within a transmission.
fn air(from: Receiver<Vec<u8>>, mut to: ChildStdin) {
    thread::spawn(move || {
        let mut next = Instant::now();
        let mut sends = false;
        loop {
            let patience = if sends { TICK * 40 } else { Duration::ZERO };
            let piece = match from.recv_timeout(patience) {
                Ok(piece) => Some(piece),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            sends = piece.is_some();
            // The modem has ended.
            if to
                .write_all(&piece.unwrap_or_else(|| vec![0; TICK_OCTETS]))
                .is_err()
            {
                return;
            }
            next = (next + TICK).max(Instant::now());
            thread::sleep(next - Instant::now());
        }
    });
}

/// Starts a gateway, and waits until it knows its modem.
fn gateway(namespace: &Namespace, folder: &Path, name: &str, port: &str) -> Running {
    let last = if name == "a" { 1 } else { 2 };
    let text = format!(
        "name = \"{name}\"\n[host]\naddresses = [\"10.9.0.{last}/30\"]\n\
         [[port]]\nname = \"radio\"\nkind = \"kiss\"\n{port}\n\
         [port.kiss]\nmodem = \"127.0.0.1:8001\"\nown = \"N0CALL-{last}\"\n\
         peer = \"N0CALL-{}\"\n",
        3 - last
    );
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, text).unwrap();
    let mut command = inside(namespace, STRAIT);
    command
        .args(["run", "-v"])
        .arg(&file)
        .stderr(Stdio::piped());
    command.arg("--status").arg(folder.join(name));
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    let (sender, receiver) = mpsc::channel();
    // Whoever writes on must find a reader.
    thread::spawn(move || {
        lines.map_while(Result::ok).for_each(|line| {
            let _ = sender.send(line);
        });
    });
    let until = Instant::now() + LIMIT;
    let mut said = String::new();
    while !said.contains("the modem reports its queue") {
        let left = until.saturating_duration_since(Instant::now());
        match receiver.recv_timeout(left) {
            Ok(line) => said += &(line + "\n"),
            Err(error) => panic!("{error}: {said}"),
        }
    }
    running
}

/// What `status` says of a gateway's radio.
fn radio(folder: &Path, name: &str) -> serde_json::Value {
    let mut command = Command::new(STRAIT);
    command.args(["status", "--json"]).arg(folder.join(name));
    let output = command.output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    status["ports"][1].clone()
}

/// Sends octets by TCP, and has them counted at the other end.
fn transfer([a, b]: [&Namespace; 2], octets: usize) {
    let bind = || TcpListener::bind("10.9.0.2:7000").unwrap();
    let listener = b.enter(bind).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        stream.write_all(&came.len().to_be_bytes()).unwrap();
        came
    });
    let far = SocketAddr::from(([10, 9, 0, 2], 7000));
    let connect = || TcpStream::connect_timeout(&far, LIMIT).unwrap();
    let mut stream = a.enter(connect).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    // Nothing that a modem or a gateway could make shorter.
    let mut seed = 1u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 24) as u8
    };
    let sent: Vec<u8> = (0..octets).map(|_| next()).collect();
    stream.write_all(&sent).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut count = [0; 8];
    stream.read_exact(&mut count).unwrap();
    assert_eq!(usize::from_be_bytes(count), octets);
    assert!(server.join().unwrap() == sent, "other octets came");
}

/// Pings over two modems, and transfers so many octets.
fn crosses(baud: u32, keys: &str, octets: usize) {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let lacks = |program: &str, option| {
        let mut command = Command::new(program);
        command.arg(option).stdout(Stdio::null());
        command.status().is_err()
    };
    if !is_root || lacks("direwolf", "-u") || lacks("ping", "-V") {
        eprintln!("direwolf: skipped, this needs root, `direwolf` and `ping`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let [a, b] = &["a", "b"].map(|name| Namespace::create(name).unwrap());
    let (modem_a, to_a) = direwolf(a, folder, "a", baud);
    let (modem_b, to_b) = direwolf(b, folder, "b", baud);
    air(samples(folder, "a"), to_b);
    air(samples(folder, "b"), to_a);
    let port = format!("rate = \"{baud} bit/s\"\n{keys}");
    let _gateways = [
        gateway(a, folder, "a", &port),
        gateway(b, folder, "b", &port),
    ];
    let mut ping = inside(a, "ping");
    // Who sends without pause is never answered: the other's modem waits for a clear channel.
    let (count, pause) = if baud < 9600 { ("2", "3") } else { ("3", "1") };
    ping.args(["-c", count, "-i", pause, "-W", "20", "-s", "56", "10.9.0.2"]);
    let output = ping.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    if !told.contains(" 0% packet loss") {
        let heard = ["a", "b"].map(|name| radio(folder, name)["frames_in"].clone());
        let logs = ["a.log", "b.log"].map(|name| fs::read(folder.join(name)).unwrap());
        let logs = logs.map(|log| String::from_utf8_lossy(&log).into_owned());
        let waits = [&modem_a, &modem_b].map(waits);
        let logs = logs.join("\n\n");
        panic!("{told}heard: {heard:?}, modems wait: {waits:?}\n{logs}");
    }
    transfer([a, b], octets);
    for name in ["a", "b"] {
        let radio = radio(folder, name);
        assert_eq!(radio["refused"], 0, "{radio}");
        let found = radio["found"].as_str().unwrap_or_default();
        assert!(found.contains("reports its queue"), "{radio}");
        let log = fs::read(folder.join(format!("{name}.log"))).unwrap();
        let log = String::from_utf8_lossy(&log);
        assert!(!log.contains("Invalid"), "{log}");
    }
}

#[test]
fn pieces_are_whole_samples_whatever_a_read_gives() {
    /// Gives so many octets a read, of those that are left.
    struct Reads<'a>(&'a [u8], std::vec::IntoIter<usize>);
    impl Read for Reads<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.1.next().unwrap_or(usize::MAX);
            let octets = most.min(buffer.len()).min(self.0.len());
            buffer[..octets].copy_from_slice(&self.0[..octets]);
            self.0 = &self.0[octets..];
            Ok(octets)
        }
    }
    let sent: Vec<u8> = (0..4 * TICK_OCTETS).map(|octet| octet as u8).collect();
    let reads = vec![1, 1, TICK_OCTETS - 1, 1, TICK_OCTETS, 3, 1, 2];
    let mut from = Reads(&sent, reads.into_iter());
    let mut came = Vec::new();
    while came.len() < sent.len() {
        let piece = piece(&mut from).unwrap();
        assert_eq!(piece.len() % SAMPLE_OCTETS, 0, "after {}", came.len());
        came.extend(piece);
    }
    assert!(came == sent);
}

#[test]
fn a_ping_and_a_transfer_cross_two_dire_wolfs_at_9600() {
    crosses(9600, "compression = \"rohc\"", 4000);
}

#[test]
fn a_ping_and_a_transfer_cross_two_dire_wolfs_at_1200() {
    crosses(1200, "compression = \"rohc\"", 400);
}

#[test]
fn plain_ip_crosses_two_dire_wolfs() {
    crosses(9600, "profile = \"ip\"", 2000);
}
