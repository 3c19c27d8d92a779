//! The emulator in real time: what it does agrees with its channel in virtual time.

#![cfg(test)]

#[path = "../../strait-live/tests/common/mod.rs"]
mod common;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant as WallInstant};

use common::is_root;
use strait_channel::config::Outage;
use strait_channel::{Channel, HalfDuplex, Line, LinkConfig, Side};
use strait_core::time::Instant;
use strait_core::units::{Share, Time};
use strait_emulate::{EmulateConfig, EmulateReport, Emulator, EndSpec};
use strait_live::kernel::namespace::{Namespace, Nursery, capture};
use strait_live::signals::Stopper;

const PATIENCE: Duration = Duration::from_secs(10);

/// How late a loaded machine may be.
const SLACK: Duration = Duration::from_millis(250);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An emulator on a thread of its own.
struct Running {
    stopper: Stopper,
    thread: JoinHandle<EmulateReport>,
}

impl Running {
    fn start(link: LinkConfig, ends: [EndSpec; 2]) -> Self {
        let (sender, receiver) = channel();
        let thread = thread::spawn(move || {
            let config = EmulateConfig {
                link,
                ends,
                name: "test".into(),
                seed: 7,
            };
            let mut emulator = Emulator::open(config).unwrap();
            sender.send(emulator.stopper()).unwrap();
            emulator.run().unwrap();
            emulator.report()
        });
        let stopper = receiver.recv().unwrap();
        Self { stopper, thread }
    }

    fn stop(self) -> EmulateReport {
        self.stopper.stop();
        self.thread.join().unwrap()
    }
}

/// Two programs' sockets with an emulated link between them.
fn udp_pair(link: LinkConfig) -> (Running, UdpSocket, UdpSocket) {
    // An address of its own for each pair: the emulator binds ports that were free a moment ago,
    // and no other test may take them meanwhile.
    static PAIRS: AtomicU8 = AtomicU8::new(1);
    let pair = PAIRS.fetch_add(1, Ordering::Relaxed);
    let bind = || UdpSocket::bind((Ipv4Addr::new(127, 50, 0, pair), 0)).unwrap();
    let programs = [bind(), bind()];
    let middle = [bind(), bind()].map(|socket| socket.local_addr().unwrap());
    let mut ends = Vec::new();
    for (program, local) in programs.iter().zip(middle) {
        program.connect(local).unwrap();
        program.set_read_timeout(Some(ms(800))).unwrap();
        let peer = program.local_addr().unwrap();
        ends.push(EndSpec::Udp { local, peer });
    }
    let running = Running::start(link, ends.try_into().unwrap());
    let [a, b] = programs;
    (running, a, b)
}

/// Everything that comes until nothing more does: number of the frame, and when.
fn receive_all(socket: &UdpSocket, began: WallInstant) -> Vec<(u16, Duration)> {
    let mut frames = Vec::new();
    let mut buffer = [0; 2000];
    while socket.recv(&mut buffer).is_ok() {
        let number = u16::from_be_bytes([buffer[0], buffer[1]]);
        frames.push((number, began.elapsed()));
    }
    frames
}

fn frame(number: u16, octets: usize) -> Vec<u8> {
    let mut frame = vec![0; octets];
    frame[..2].copy_from_slice(&number.to_be_bytes());
    frame
}

#[test]
fn rate_delay_and_loss_are_those_of_virtual_time() {
    let mut link = LinkConfig::frames(800_000, ms(40));
    (link.loss, link.queue) = (Some(Share(0.1)), Some(400));
    let mut line = Line::new(&link, "test", 7).unwrap();
    let (running, a, b) = udp_pair(link);
    let began = WallInstant::now();
    let mut expected = Vec::new();
    for number in 0..200 {
        // Faster than the line, so that it stays busy, but not all at once: what `b` hasn't read
        // has to fit its socket.
        if number % 50 == 49 {
            thread::sleep(ms(60));
        }
        a.send(&frame(number, 200)).unwrap();
        let at = Instant::from_millis(2 * u64::from(number));
        let sent = line.transmit(at, Side::A, &mut frame(number, 200));
        expected.extend(sent.arrival.map(|at| (number, at.since(Instant::ZERO))));
    }
    let received = receive_all(&b, began);
    let report = running.stop();

    let numbers = |frames: &[(u16, Duration)]| frames.iter().map(|one| one.0).collect::<Vec<_>>();
    assert_eq!(numbers(&received), numbers(&expected));
    for ((_, arrived), (_, predicted)) in received.iter().zip(&expected) {
        // The first frame came a moment after `began`, and all others leave behind it.
        assert!(*arrived >= *predicted && *arrived < *predicted + SLACK);
    }
    let way = &report.directions[0];
    let lost = 200 - expected.len() as u64;
    assert!((5..=40).contains(&lost), "{lost}");
    assert_eq!(
        (way.frames, way.octets, way.queue_dropped),
        (200, 40_000, 0)
    );
    assert_eq!(way.lost.get("random"), Some(&lost));
    assert!((way.busy_s - 0.4).abs() < 1e-6);
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let mut link = LinkConfig::frames(80_000, ms(0));
    link.queue = Some(5);
    let (running, a, b) = udp_pair(link);
    for number in 0..50 {
        a.send(&frame(number, 500)).unwrap();
    }
    a.send(&frame(99, 1501)).unwrap();
    let received = receive_all(&b, WallInstant::now());
    let report = running.stop();
    // One on the line, five that wait, and perhaps one or two more on a machine that was busy.
    assert!((6..=10).contains(&received.len()), "{received:?}");
    let way = &report.directions[0];
    assert_eq!(way.queue_dropped + received.len() as u64, 50);
    assert_eq!(way.too_long, 1);
}

#[test]
fn nothing_passes_in_an_outage() {
    let mut link = LinkConfig::frames(1_000_000, ms(1));
    link.outage = Some(vec![Outage {
        at: Time(ms(300)),
        lasts: Time(ms(300)),
    }]);
    let (running, a, b) = udp_pair(link);
    let began = WallInstant::now();
    let sender = thread::spawn(move || {
        for number in 0..90 {
            a.send(&frame(number, 100)).unwrap();
            thread::sleep(ms(10));
        }
        a
    });
    let received = receive_all(&b, began);
    drop(sender.join().unwrap());
    let report = running.stop();
    let lost = report.directions[0]
        .lost
        .get("outage")
        .copied()
        .unwrap_or(0);
    assert!((5..=35).contains(&lost), "{lost}");
    assert_eq!(lost + received.len() as u64, 90);
    let gaps = received.windows(2).map(|pair| pair[1].1 - pair[0].1);
    let longest = gaps.max().unwrap();
    assert!(
        longest >= ms(280) && longest < ms(300) + SLACK,
        "{longest:?}"
    );
}

#[test]
fn a_half_duplex_link_turns_round() {
    let mut link = LinkConfig::frames(80_000, ms(5));
    link.half_duplex = Some(HalfDuplex {
        turnaround: Some(Time(ms(150))),
        turn_max: None,
    });
    let (running, a, b) = udp_pair(link);
    let echo = thread::spawn(move || {
        let mut buffer = [0; 2000];
        for _ in 0..2 {
            let octets = b.recv(&mut buffer).unwrap();
            b.send(&buffer[..octets]).unwrap();
        }
    });
    for number in 0..2 {
        let began = WallInstant::now();
        a.send(&frame(number, 500)).unwrap();
        a.recv(&mut [0; 2000]).unwrap();
        // Twice 50 + 5 ms, and a turnaround between; the second time also one before it, for `a`
        // sends as soon as it has heard `b`.
        let took = began.elapsed();
        let least = ms(260 + 150 * u64::from(number));
        // Up to a moment that passes between what `a` hears and its next frame.
        assert!(took >= least - ms(20), "{number}: {took:?}");
        assert!(took < least + SLACK, "{number}: {took:?}");
    }
    echo.join().unwrap();
    running.stop();
}

#[test]
fn octets_cross_a_serial_line_in_order_and_at_its_pace() {
    let dir = tempfile::tempdir().unwrap();
    let [link_a, link_b] = ["a", "b"].map(|name| dir.path().join(name));
    let ends = [&link_a, &link_b].map(|path| EndSpec::Pty(path.clone()));
    let running = Running::start(LinkConfig::serial(115_200), ends);
    let open = |path| {
        fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    };
    let (mut a, mut b) = (open(&link_a), open(&link_b));
    // More than the emulator holds: it lets its program wait, and loses nothing.
    let octets: Vec<u8> = (0..6000u32)
        .map(|number| (number * 7 + number / 251) as u8)
        .collect();
    let written = octets.clone();
    let began = WallInstant::now();
    let writer = thread::spawn(move || a.write_all(&written).map(|()| a));
    let mut received = vec![0; octets.len()];
    b.read_exact(&mut received).unwrap();
    let took = began.elapsed();
    drop(writer.join().unwrap().unwrap());
    assert!(received == octets, "octets differ");
    let least = Duration::from_secs_f64(6000.0 * 10.0 / 115_200.0);
    assert!(took >= least && took < least + SLACK, "{took:?}");
    let report = running.stop();
    assert_eq!(
        (report.directions[0].octets, report.directions[1].octets),
        (6000, 0)
    );
    assert_eq!(report.directions[0].undelivered, 0);
    for link in [link_a, link_b] {
        let gone = fs::symlink_metadata(&link).unwrap_err().kind();
        assert_eq!(gone, ErrorKind::NotFound);
    }
}

#[test]
fn ping_crosses_a_pair_of_interfaces() {
    if !is_root("tun pair") {
        return;
    }
    let spaces = ["a", "b"].map(|name| Namespace::create(name).unwrap());
    let spec = |index: usize| {
        let descriptor = spaces[index].as_fd().as_raw_fd();
        let number = index + 1;
        let text =
            format!("tun:wire0@/proc/self/fd/{descriptor},10.3.0.{number}/24,fd00:3::{number}/64");
        text.parse::<EndSpec>().unwrap()
    };
    let link = LinkConfig::frames(1_000_000, ms(30));
    let running = Running::start(link, [spec(0), spec(1)]);
    let nursery = Nursery::open().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for target in ["10.3.0.2", "fd00:3::2"] {
        let mut ping = Command::new("ping");
        ping.args(["-c", "3", "-i", "0.2", "-W", "2", target]);
        capture(&mut ping, dir.path(), "ping").unwrap();
        let Ok(process) = nursery.spawn(Some(&spaces[0]), ping) else {
            eprintln!("tun pair: skipped, no `ping`");
            return;
        };
        let status = process.wait(PATIENCE).unwrap().unwrap();
        let out = fs::read_to_string(dir.path().join("ping.out")).unwrap();
        assert!(status.success(), "{target}: {out}");
        let rtt = out.rsplit_once("= ").unwrap().1;
        let least_ms: f64 = rtt.split('/').next().unwrap().parse().unwrap();
        assert!((60.0..310.0).contains(&least_ms), "{out}");
    }
    let report = running.stop();
    assert_eq!(report.directions[0].frames, 6);
    assert_eq!(report.directions[1].frames, 6);
}
