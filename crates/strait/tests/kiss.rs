//! Two live gateways over KISS, between them a small modem in software: it takes frames faster than
//! it sends them, and tells of each that it has sent. Needs root and `ping`.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use strait_live::kernel::namespace::Namespace;
use strait_wire::ax25::UiFrame;
use strait_wire::kiss::{Command as Kiss, KissFrame, KissReader};

const STRAIT: &str = env!("CARGO_BIN_EXE_strait");
/// Bits a second on the air.
const RATE: u64 = 9600;

/// What the modems saw.
#[derive(Default)]
struct Seen {
    frames: AtomicU64,
    noticed: AtomicU64,
    ui: AtomicU64,
    /// Questions.
    asked: AtomicU64,
    /// Most frames in one modem's hands.
    held_max: AtomicU64,
}

fn send(stream: &Mutex<TcpStream>, command: Kiss, contents: &[u8]) {
    let mut out = Vec::new();
    let port = 0;
    let frame = KissFrame {
        port,
        command,
        contents,
    };
    frame.emit(&mut out);
    // A gateway that has ended hears nothing more.
    let _ = stream.lock().unwrap().write_all(&out);
}

/// Reads what a gateway wants to send, into the modem's queue.
fn listen(mut stream: TcpStream, queue: &Sender<(Kiss, Vec<u8>)>, held: &AtomicU64, seen: &Seen) {
    let mut reader = KissReader::new(4096);
    let mut octets = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut octets) {
        reader.feed(&octets[..count], |frame| {
            let frame = frame.unwrap();
            // It knows no answer.
            if !matches!(frame.command, Kiss::Data | Kiss::Acknowledged) {
                seen.asked.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let held = held.fetch_add(1, Ordering::SeqCst) + 1;
            seen.held_max.fetch_max(held, Ordering::SeqCst);
            let _ = queue.send((frame.command, frame.contents.to_vec()));
        });
    }
}

/// A modem at each of two listeners, and the air between.
fn modems(listeners: [TcpListener; 2], seen: &Arc<Seen>) {
    let seen = Arc::clone(seen);
    thread::spawn(move || {
        let streams = listeners.map(|listener| listener.accept().unwrap().0);
        let writers: Vec<Arc<Mutex<TcpStream>>> = streams
            .iter()
            .map(|stream| Arc::new(Mutex::new(stream.try_clone().unwrap())))
            .collect();
        for (from, stream) in streams.into_iter().enumerate() {
            let (own, other) = (Arc::clone(&writers[from]), Arc::clone(&writers[1 - from]));
            let (queue, waiting) = mpsc::channel::<(Kiss, Vec<u8>)>();
            let held = Arc::new(AtomicU64::new(0));
            let (counter, watched) = (Arc::clone(&held), Arc::clone(&seen));
            thread::spawn(move || listen(stream, &queue, &counter, &watched));
            let seen = Arc::clone(&seen);
            thread::spawn(move || {
                for (command, contents) in waiting {
                    let number = usize::from(command == Kiss::Acknowledged) * 2;
                    let (number, contents) = contents.split_at(number);
                    let bits = contents.len() as u64 * 8;
                    thread::sleep(Duration::from_micros(bits * 1_000_000 / RATE));
                    seen.frames.fetch_add(1, Ordering::SeqCst);
                    let ui = u64::from(UiFrame::parse(contents).is_some());
                    seen.ui.fetch_add(ui, Ordering::SeqCst);
                    send(&other, Kiss::Data, contents);
                    held.fetch_sub(1, Ordering::SeqCst);
                    if command == Kiss::Acknowledged {
                        seen.noticed.fetch_add(1, Ordering::SeqCst);
                        send(&own, Kiss::Acknowledged, number);
                    }
                }
            });
        }
    });
}

/// A process that is ended with the test, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program in a namespace.
fn inside(namespace: &Namespace, process: u32, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    // The namespace has no file of its own: this process holds it open.
    let path = format!("/proc/{process}/fd/{}", namespace.as_fd().as_raw_fd());
    command.arg(format!("--net={path}")).arg(program);
    command
}

fn gateway(namespace: &Namespace, folder: &Path, name: &str, kiss: &str) -> Running {
    let last = if name == "a" { 1 } else { 2 };
    let text = format!(
        "name = \"{name}\"\n[host]\naddresses = [\"10.9.0.{last}/30\", \"fd00:9::{last}/64\"]\n\
         [[port]]\nname = \"radio\"\nkind = \"kiss\"\n\
         rate = \"{RATE} bit/s\"\nkiss = {{ modem = \"127.0.0.1:8001\"{kiss} }}\n"
    );
    let file = folder.join(format!("{name}.toml"));
    fs::write(&file, text).unwrap();
    let mut command = inside(namespace, std::process::id(), STRAIT);
    command.arg("run").arg(&file).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    let up = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains(": up: "));
    assert!(up, "it ended instead");
    // Whoever writes on must find a reader.
    thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    running
}

/// Pings through modems while a flood fills the queue; gives what the modems saw.
fn pinged(keys: [&str; 2]) -> Option<Arc<Seen>> {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || Command::new("ping").arg("-V").output().is_err() {
        eprintln!("kiss: skipped, this needs root and `ping`");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let namespaces = ["a", "b"].map(|name| Namespace::create(name).unwrap());
    let address = SocketAddr::from(([127, 0, 0, 1], 8001));
    let bind = |namespace: &Namespace| {
        let listener = namespace.enter(|| TcpListener::bind(address)).unwrap();
        listener.unwrap()
    };
    let seen = Arc::new(Seen::default());
    modems([bind(&namespaces[0]), bind(&namespaces[1])], &seen);
    let [a, b] = &namespaces;
    let _gateways = [
        gateway(a, folder.path(), "a", keys[0]),
        gateway(b, folder.path(), "b", keys[1]),
    ];
    for (far, size) in [("10.9.0.2", "56"), ("fd00:9::2", "1000")] {
        let mut ping = inside(a, std::process::id(), "ping");
        // Closer together than the radio sends them.
        ping.args(["-c", "4", "-i", "0.2", "-W", "20", "-s", size, far]);
        let output = ping.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains(" 0% packet loss"), "{told}");
    }
    Some(seen)
}

#[test]
fn pings_cross_modems_that_give_notice_in_ax25_frames() {
    let keys = [
        ", notice = true, own = \"N0CALL-1\", peer = \"N0CALL-2\"",
        ", notice = true, own = \"N0CALL-2\", peer = \"N0CALL-1\"",
    ];
    let Some(seen) = pinged(keys) else {
        return;
    };
    let frames = seen.frames.load(Ordering::SeqCst);
    // Four small packets each way, four of 1048 octets in frames of 256.
    assert!(frames >= 48, "{frames}");
    assert_eq!(seen.ui.load(Ordering::SeqCst), frames);
    assert!(seen.noticed.load(Ordering::SeqCst) >= frames - 1);
    assert_eq!(
        seen.asked.load(Ordering::SeqCst),
        0,
        "it may take them for settings"
    );
    assert_eq!(
        seen.held_max.load(Ordering::SeqCst),
        2,
        "all else waits where it can be overtaken"
    );
}

#[test]
fn pings_cross_modems_paced_by_the_rate() {
    let Some(seen) = pinged(["", ""]) else {
        return;
    };
    assert_eq!(seen.ui.load(Ordering::SeqCst), 0);
    assert_eq!(seen.noticed.load(Ordering::SeqCst), 0);
    assert_eq!(seen.asked.load(Ordering::SeqCst), 2, "one each");
    // Without pace a flood would be in the modem at once. A busy host may hold the modem up.
    let held = seen.held_max.load(Ordering::SeqCst);
    let frames = seen.frames.load(Ordering::SeqCst);
    assert!((1..frames / 4).contains(&held), "{held} of {frames}");
}

/// A station of somebody else's IP over AX.25, with its modem: it answers the packets of `ping`,
/// and knows nothing of strait.
fn other_station(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut reader = KissReader::new(4096);
    let mut octets = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut octets) {
        let mut answers = Vec::new();
        reader.feed(&octets[..count], |frame| {
            let frame = frame.unwrap();
            let mut answer = frame.contents.to_vec();
            // AX.25: from N0CALL-1 to N0CALL-2, unnumbered information, ARPA Internet Protocol.
            let header = b"\x9c\x60\x86\x82\x98\x98\xe4\x9c\x60\x86\x82\x98\x98\x63\x03\xcc";
            let is_echo = |packet: &[u8]| packet[0] == 0x45 && packet[9] == 1 && packet[20] == 8;
            if !answer.starts_with(header) || !is_echo(&answer[16..]) {
                return;
            }
            answer[6] = 0xe2;
            answer[13] = 0x65;
            let packet = &mut answer[16..];
            packet[12..20].rotate_left(4);
            packet[20] = 0;
            // What the type has lost, the checksum gains.
            let (sum, carry) = u16::from_be_bytes([packet[22], packet[23]]).overflowing_add(0x800);
            packet[22..24].copy_from_slice(&(sum + u16::from(carry)).to_be_bytes());
            KissFrame {
                contents: &answer,
                ..frame
            }
            .emit(&mut answers);
        });
        let _ = stream.write_all(&answers);
    }
}

#[test]
fn another_stack_of_ip_over_ax25_is_understood() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || Command::new("ping").arg("-V").output().is_err() {
        eprintln!("kiss: skipped, this needs root and `ping`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let a = Namespace::create("a").unwrap();
    let listener = a.enter(|| TcpListener::bind("127.0.0.1:8001")).unwrap();
    let listener = listener.unwrap();
    thread::spawn(move || other_station(&listener));
    let stations = ", own = \"N0CALL-1\", peer = \"N0CALL-2\"";
    let port = format!("{stations} }}\nprofile = \"ip\" #");
    let _gateway = gateway(&a, folder.path(), "a", &port);
    let mut ping = inside(&a, std::process::id(), "ping");
    ping.args(["-c", "2", "-W", "20", "10.9.0.2"]);
    let output = ping.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains(" 0% packet loss"), "{told}");
}
