//! The event loop with a real node over a pseudo-terminal: echo, pacing, a line that goes and
//! comes back, silence that costs nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod common;

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::Echo;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use strait_core::framing::Framing;
use strait_core::id::PortId;
use strait_core::node::{Input, PortEvent, Room, TxMeta};
use strait_core::rate::LineRate;
use strait_live::clock::Clock;
use strait_live::node_loop::{Ended, Options, Recorder, Runner};
use strait_live::ports::PortIo;
use strait_live::ports::kiss::{KissConfig, KissPort};
use strait_live::ports::pty::PtyPair;
use strait_live::ports::serial::{SerialConfig, SerialPort};
use strait_live::signals::Stopper;

/// What a runner's thread leaves behind.
struct Outcome {
    ended: Ended,
    up: u32,
    down: u32,
    inputs: u64,
    resets: u32,
    octets_out: u64,
    cpu: Duration,
}

fn serial(device: &Path, baud: u32) -> Box<dyn PortIo> {
    Box::new(SerialPort::new(SerialConfig {
        device: device.to_path_buf(),
        baud,
        framing: Framing::ASYNC_8N1,
        hardware_flow_control: false,
    }))
}

/// Runs `node` on a serial line at `device`.
fn run(
    make: impl FnOnce() -> Echo + Send + 'static,
    device: PathBuf,
    baud: u32,
) -> (Stopper, JoinHandle<Outcome>) {
    let (send, stopper) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let ports = vec![serial(&device, baud)];
        let mut runner = Runner::new(Clock::start(), Box::new(make()), ports).unwrap();
        runner.set_options(Options {
            retry: Duration::from_millis(50),
            drain: Duration::from_secs(1),
            // What is measured here is the pace, not what else the machine does.
            goes_first: true,
        });
        send.send(runner.stopper()).unwrap();
        let ended = runner.run().unwrap();
        let node = runner.node();
        Outcome {
            ended,
            up: node.up,
            down: node.down,
            inputs: node.inputs,
            resets: node.resets,
            octets_out: node.stats.ports[0].octets_out,
            cpu: clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
                .unwrap()
                .into(),
        }
    });
    (stopper.recv().unwrap(), thread)
}

/// Reads from the master until `count` octets are there, with the time of each read.
fn read(pair: &PtyPair, count: usize) -> (Vec<u8>, Vec<(Instant, usize)>) {
    let (mut octets, mut times) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + Duration::from_secs(10);
    while octets.len() < count {
        assert!(
            Instant::now() < deadline,
            "{} of {count} octets",
            octets.len()
        );
        let mut fds = [PollFd::new(pair.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(100u16)).unwrap();
        let mut buffer = [0; 4096];
        if let Ok(got) = pair.read(&mut buffer) {
            octets.extend_from_slice(&buffer[..got]);
            times.push((Instant::now(), octets.len()));
        }
    }
    (octets, times)
}

#[test]
fn an_echo_comes_back_unchanged() {
    let pair = PtyPair::open(None).unwrap();
    let (stopper, thread) = run(Echo::new, pair.slave_path().into(), 115_200);
    let all: Vec<u8> = (0..=255).cycle().take(1000).collect();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(pair.write(&all).unwrap(), 1000);
    assert_eq!(read(&pair, 1000).0, all);
    stopper.stop();
    let outcome = thread.join().unwrap();
    assert_eq!(outcome.ended, Ended::Drained);
    assert_eq!((outcome.up, outcome.down), (1, 0));
}

#[test]
fn at_9600_baud_960_octets_take_a_second() {
    let pair = PtyPair::open(None).unwrap();
    let start = Instant::now();
    let (stopper, thread) = run(|| Echo::saying(&[7; 1920]), pair.slave_path().into(), 9600);
    let (_, times) = read(&pair, 1920);
    stopper.stop();
    let outcome = thread.join().unwrap();
    let at = |count: usize| {
        let (time, _) = times.iter().find(|(_, got)| *got >= count).unwrap();
        time.duration_since(start).as_secs_f64()
    };
    let (first, second) = (at(960), at(1920) - at(960));
    eprintln!(
        "960 octets: {first:.4} s, the next 960: {second:.4} s, {:?} of CPU",
        outcome.cpu
    );
    assert!((0.95..1.05).contains(&second), "{second}");
    // At no time more than the low-water mark of 3 octets ahead of the line.
    for (time, got) in &times {
        let line = time.duration_since(start).as_secs_f64() * 960.0;
        assert!(
            *got as f64 <= line + 3.5,
            "{got} octets when the line had {line}"
        );
    }
}

#[test]
fn a_line_that_vanishes_takes_the_port_down_until_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("line");
    let (stopper, thread) = run(Echo::new, link.clone(), 115_200);
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(120));
        let pair = PtyPair::open(Some(&link)).unwrap();
        thread::sleep(Duration::from_millis(120));
        pair.write(b"back").unwrap();
        assert_eq!(read(&pair, 4).0, b"back");
    }
    thread::sleep(Duration::from_millis(120));
    stopper.stop();
    let outcome = thread.join().unwrap();
    assert_eq!((outcome.up, outcome.down), (2, 2));
}

#[test]
fn a_silent_line_costs_nothing() {
    let pair = PtyPair::open(None).unwrap();
    let (stopper, thread) = run(Echo::new, pair.slave_path().into(), 9600);
    thread::sleep(Duration::from_millis(1500));
    stopper.stop();
    let outcome = thread.join().unwrap();
    eprintln!(
        "idle for 1.5 s: {:?} of CPU, {} inputs",
        outcome.cpu, outcome.inputs
    );
    assert!(outcome.cpu < Duration::from_millis(15), "{:?}", outcome.cpu);
    // The port is up, what time of day it is, and the command to stop.
    assert_eq!(outcome.inputs, 3);
}

#[test]
fn a_node_that_never_rests_does_not_take_the_processor() {
    let pair = PtyPair::open(None).unwrap();
    let restless = || Echo {
        restless: true,
        ..Echo::new()
    };
    let (stopper, thread) = run(restless, pair.slave_path().into(), 9600);
    thread::sleep(Duration::from_millis(500));
    stopper.stop();
    let outcome = thread.join().unwrap();
    assert!((100..1500).contains(&outcome.inputs), "{}", outcome.inputs);
}

#[test]
fn a_stream_that_nobody_serves_is_refused() {
    let pair = PtyPair::open(None).unwrap();
    let (stopper, thread) = run(Echo::connecting, pair.slave_path().into(), 9600);
    thread::sleep(Duration::from_millis(100));
    stopper.stop();
    assert_eq!(thread.join().unwrap().resets, 1);
}

#[test]
fn a_line_that_nobody_empties_is_cut_after_the_drain_time() {
    let pair = PtyPair::open(None).unwrap();
    let (stopper, thread) = run(
        || Echo::saying(&[0; 100_000]),
        pair.slave_path().into(),
        10_000_000,
    );
    thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    stopper.stop();
    let outcome = thread.join().unwrap();
    assert_eq!(outcome.ended, Ended::Cut);
    let took = start.elapsed();
    assert!((0.9..1.5).contains(&took.as_secs_f64()), "{took:?}");
    assert!(
        outcome.cpu < Duration::from_millis(300),
        "{:?}",
        outcome.cpu
    );
}

#[test]
fn what_was_begun_gets_out_before_the_end() {
    let pair = PtyPair::open(None).unwrap();
    // A full pseudo-terminal makes the port hold octets that only flushing brings out.
    let (stopper, thread) = run(
        || Echo::saying(&[3; 100_000]),
        pair.slave_path().into(),
        10_000_000,
    );
    thread::sleep(Duration::from_millis(200));
    stopper.stop();
    let got = read(&pair, 4096).0.len();
    let outcome = thread.join().unwrap();
    assert_eq!(outcome.ended, Ended::Drained);
    let mut rest = [0; 65_536];
    let left = std::iter::from_fn(|| pair.read(&mut rest).ok().filter(|count| *count > 0));
    assert_eq!((got + left.sum::<usize>()) as u64, outcome.octets_out);
}

#[test]
fn a_signal_ends_the_run() {
    let ports = Vec::new();
    let mut runner = Runner::new(Clock::start(), Box::new(Echo::new()), ports).unwrap();
    let guard = runner.stop_on_signals().unwrap();
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(runner.run().unwrap(), Ended::Drained);
    drop(guard);
}

struct Log(Rc<RefCell<Vec<String>>>);

impl Recorder for Log {
    fn input(&mut self, _now: strait_core::Instant, input: &Input<'_>) {
        let line = match input {
            Input::Frame { bytes, .. } => format!("frame {}", bytes.len()),
            Input::Port {
                event: PortEvent::Up(_),
                ..
            } => "up".into(),
            other => format!("{other:?}"),
        };
        self.0.borrow_mut().push(line);
    }

    fn pulled(
        &mut self,
        _now: strait_core::Instant,
        port: PortId,
        room: Room,
        _meta: &TxMeta,
        octets: &[u8],
    ) {
        assert!(octets.len() <= room.octets);
        let line = format!("pulled {} from {}", octets.len(), port.0);
        self.0.borrow_mut().push(line);
    }
}

#[test]
fn the_recorder_sees_inputs_and_pulls_in_order() {
    let pair = PtyPair::open(None).unwrap();
    let log = Rc::new(RefCell::new(Vec::new()));
    let ports = vec![serial(pair.slave_path(), 115_200)];
    let mut runner = Runner::new(Clock::start(), Box::new(Echo::new()), ports).unwrap();
    runner.set_recorder(Box::new(Log(Rc::clone(&log))));
    assert!(runner.open_ports().is_empty());
    pair.write(b"hello").unwrap();
    let stopper = runner.stopper();
    let thread = thread::spawn(move || {
        let octets = read(&pair, 5).0;
        stopper.stop();
        (octets, pair)
    });
    runner.run().unwrap();
    let (octets, _pair) = thread.join().unwrap();
    assert_eq!(octets, b"hello");
    let mut log = log.borrow_mut();
    // Once the port is up, the node is told the time of day.
    assert!(log.remove(1).starts_with("Wall("), "{log:?}");
    let expected = ["up", "frame 5", "pulled 5 from 0", "Command(Stop)"];
    assert_eq!(*log, expected);
}

/// They are more than the loop takes of a port at a time, and the modem says nothing more.
#[test]
fn all_frames_that_a_kiss_modem_gives_at_once_reach_the_node() {
    let pair = PtyPair::open(None).unwrap();
    let device = pair.slave_path().to_path_buf();
    let (send, stopper) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        let config = KissConfig {
            radio: 0,
            rate: LineRate::new(9600, 8),
            frame_octets_max: 256,
            asks: None,
            stations: None,
        };
        let port = KissPort::new(config, serial(&device, 115_200));
        let mut runner = Runner::new(
            Clock::start(),
            Box::new(Echo::new()),
            vec![Box::new(port) as Box<dyn PortIo>],
        )
        .unwrap();
        assert!(runner.open_ports().is_empty());
        send.send(runner.stopper()).unwrap();
        runner.run().unwrap();
        runner.node().stats.ports[0].octets_in
    });
    let stopper = stopper.recv().unwrap();
    assert_eq!(pair.write(&b"\xc0\0x\xc0".repeat(100)).unwrap(), 400);
    thread::sleep(Duration::from_millis(300));
    stopper.stop();
    assert_eq!(thread.join().unwrap(), 100);
}
