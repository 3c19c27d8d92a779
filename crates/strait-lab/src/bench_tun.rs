//! How many small packets a second two live gateways pass on, and how many a bare copy does.
//!
//! Two namespaces are two hosts, joined by a pair of virtual Ethernet interfaces. In each, a
//! thread stands between a TUN interface and a UDP socket: either a whole gateway in its event
//! loop, or a loop that copies packets and does nothing else. An application in the one namespace
//! sends UDP to one in the other, as much as comes through: a window of packets under way is kept
//! full, so that nothing is lost but by a fault.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle, Thread};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use strait_core::node::{Boot, NodeFactory};
use strait_core::time::{Duration, Instant};
use strait_live::clock::Clock;
use strait_live::error::{Doing, Error};
use strait_live::kernel::namespace::Namespace;
use strait_live::node_loop::{BATCH, Runner};
use strait_live::ports::PortIo;
use strait_live::ports::tun::{TunConfig, TunPort};
use strait_live::ports::udp::{UdpConfig, UdpPort};
use strait_live::signals::Stopper;
use strait_node::{GatewayFactory, NodeConfig};

/// Octets of UDP payload in each packet.
pub const PAYLOAD_OCTETS: usize = 200;

/// Packets under way at most. Small enough for every queue on the way: a gateway's class takes
/// 200 packets, a socket's default buffer some 270 of this size, a TUN interface 500.
const WINDOW: u64 = 128;

/// Silence after which packets under way are taken for lost: longer than a busy machine keeps a
/// thread waiting.
const PATIENCE: Duration = Duration::from_secs(1);

/// How soon a thread that waits looks whether it is to stop.
const LOOK_OUT: Duration = Duration::from_millis(50);

/// What stands between TUN interface and UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// A gateway with the default policy.
    Gateway,
    /// A loop that copies, with the batches of a gateway's event loop.
    Copy,
}

/// What went through a [`TunPath`] in a while.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passed {
    /// Packets sent.
    pub sent: u64,
    /// Packets that arrived.
    pub received: u64,
    /// The time it took.
    pub elapsed: Duration,
}

impl Passed {
    /// Packets that arrived a second.
    pub fn rate(&self) -> f64 {
        self.received as f64 / self.elapsed.as_secs_f64()
    }

    /// Adds another while.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.elapsed += other.elapsed;
    }
}

/// One of the two hosts.
struct Place {
    letter: char,
    number: u8,
}

const PLACES: [Place; 2] = [
    Place {
        letter: 'a',
        number: 1,
    },
    Place {
        letter: 'b',
        number: 2,
    },
];

impl Place {
    fn other(&self) -> &'static Self {
        &PLACES[usize::from(2 - self.number)]
    }

    /// Address on the wire between the hosts.
    fn wire(&self) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, self.number], 7000))
    }

    /// Address of the applications.
    fn host(&self) -> SocketAddr {
        SocketAddr::from(([10, 77, self.number, 1], 9000))
    }

    fn tun(&self) -> TunPort {
        TunPort::new(TunConfig {
            interface: "strait0".into(),
            // The other host is in the same network.
            addresses: vec![(self.host().ip(), 16)],
            mtu: 1500,
        })
    }
}

/// Two hosts with an application each and what stands between them, until it is dropped.
pub struct TunPath {
    source: UdpSocket,
    sink: Arc<Sink>,
    threads: Vec<JoinHandle<()>>,
    stoppers: Vec<Stop>,
}

enum Stop {
    Runner(Stopper),
    Flag(Arc<AtomicBool>),
}

/// The receiving application's count.
#[derive(Debug, Default)]
struct Sink {
    received: AtomicU64,
    stop: AtomicBool,
    /// The source sleeps until the count has reached this number.
    awaited: AtomicU64,
}

impl TunPath {
    /// Builds both hosts and starts everything.
    ///
    /// # Errors
    /// The privilege for namespaces is missing, or there is no TUN driver.
    pub fn open(between: Between) -> Result<Self, Error> {
        let spaces = [Namespace::create("bench a")?, Namespace::create("bench b")?];
        spaces[0].connect("wire", &spaces[1], "wire")?;
        for (space, place) in spaces.iter().zip(&PLACES) {
            space.add_address("wire", place.wire().ip(), 24)?;
        }
        let (mut threads, mut stoppers) = (Vec::new(), Vec::new());
        for (space, place) in spaces.iter().zip(&PLACES) {
            let space = space.try_clone()?;
            let (ready, started) = channel();
            let name = format!("bench {} {between:?}", place.letter);
            threads.push(spawn(name, move || {
                let lost = ready.clone();
                let entered = space.enter(|| match between {
                    Between::Gateway => run_gateway(place, &ready),
                    Between::Copy => run_copy(place, &ready),
                });
                if let Err(error) | Ok(Err(error)) = entered {
                    let _ = lost.send(Err(error));
                }
            })?);
            let doing = || format!("start the bench's node {}", place.letter);
            let stop = started.recv().map_err(io::Error::other).doing(doing)?;
            stoppers.push(stop?);
        }
        let bind = |place: &Place| UdpSocket::bind(place.host());
        let doing = || "bind the bench's sockets";
        let source = spaces[0].enter(|| bind(&PLACES[0]))?.doing(doing)?;
        let drain = spaces[1].enter(|| bind(&PLACES[1]))?.doing(doing)?;
        source.connect(PLACES[1].host()).doing(doing)?;
        drain.set_read_timeout(Some(LOOK_OUT)).doing(doing)?;
        let sink = Arc::new(Sink::default());
        let counting = (Arc::clone(&sink), thread::current());
        let count = move || counting.0.count(&drain, &counting.1);
        threads.push(spawn("bench sink".into(), count)?);
        Ok(Self {
            source,
            sink,
            threads,
            stoppers,
        })
    }

    /// Sends as much as comes through for `span`. To be called on the thread that opened it.
    ///
    /// # Errors
    /// The system refuses to send.
    pub fn pass(&self, clock: &Clock, span: Duration) -> Result<Passed, Error> {
        let payload = [0x5a; PAYLOAD_OCTETS];
        let (began, before) = (clock.now(), self.sink.received.load(Ordering::Acquire));
        let (mut sent, mut lost) = (0u64, 0u64);
        let received = || self.sink.received.load(Ordering::Acquire) - before;
        while clock.until(began + span) > Duration::ZERO {
            let under_way = (sent - lost).saturating_sub(received());
            if under_way >= WINDOW && !self.wait(clock, before + sent - lost - WINDOW / 2) {
                lost = sent.saturating_sub(received());
            }
            match self.source.send(&payload) {
                Ok(_) => sent += 1,
                // No buffer, or an error of an earlier packet.
                Err(error) if error.kind() != ErrorKind::PermissionDenied => {}
                Err(error) => return Err(Error::new("send", error)),
            }
        }
        // What is under way still counts, in number and in time.
        self.wait(clock, before + sent - lost);
        Ok(Passed {
            sent,
            received: received(),
            elapsed: clock.now().since(began),
        })
    }

    /// Sleeps until so many packets have arrived; false if no more come.
    fn wait(&self, clock: &Clock, count: u64) -> bool {
        let mut seen = self.sink.received.load(Ordering::Acquire);
        let mut since = clock.now();
        self.sink.awaited.store(count, Ordering::Release);
        loop {
            let now_seen = self.sink.received.load(Ordering::Acquire);
            if now_seen >= count {
                return true;
            }
            let now = clock.now();
            if now_seen != seen {
                (seen, since) = (now_seen, now);
            } else if now.since(since) > PATIENCE {
                return false;
            }
            thread::park_timeout(LOOK_OUT);
        }
    }
}

impl Drop for TunPath {
    fn drop(&mut self) {
        self.sink.stop.store(true, Ordering::Release);
        for stop in &self.stoppers {
            match stop {
                Stop::Runner(stopper) => stopper.stop(),
                Stop::Flag(flag) => flag.store(true, Ordering::Release),
            }
        }
        for thread in self.threads.drain(..) {
            // A panic of that thread has been told on stderr already.
            let _ = thread.join();
        }
    }
}

impl Sink {
    fn count(&self, socket: &UdpSocket, source: &Thread) {
        let mut buffer = [0; 2048];
        while !self.stop.load(Ordering::Acquire) {
            if socket.recv(&mut buffer).is_err() {
                continue;
            }
            let count = self.received.fetch_add(1, Ordering::AcqRel) + 1;
            if count == self.awaited.load(Ordering::Acquire) {
                source.unpark();
            }
        }
    }
}

/// A thread with a name, so that a profile tells who costs what.
fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let builder = thread::Builder::new().name(name);
    builder.spawn(work).doing(|| "start a thread")
}

fn node_config(place: &Place) -> Result<NodeConfig, Error> {
    let other = place.other();
    let text = format!(
        "name = \"{letter}\"\n[host]\naddresses = [\"{host}/24\"]\n[policy]\npreset = \"default\"\n\
         [[port]]\nname = \"net\"\nkind = \"udp\"\nlocal = \"{local}\"\n\
         neighbours = [{{ name = \"{far}\", address = \"{remote}\" }}]\nframe = 1500\n",
        letter = place.letter,
        host = place.host().ip(),
        local = place.wire(),
        far = other.letter,
        remote = other.wire(),
    );
    NodeConfig::from_text("bench", &text).map_err(|error| invalid(&error))
}

fn invalid(error: &impl ToString) -> Error {
    Error::invalid("configure the bench", error.to_string())
}

/// A gateway in its event loop, as `strait run` has it.
fn run_gateway(place: &Place, ready: &Sender<Result<Stop, Error>>) -> Result<(), Error> {
    let config = node_config(place)?;
    let port = UdpConfig {
        local: place.wire(),
        neighbours: vec![place.other().wire()],
        rate: None,
        own_rates: Vec::new(),
        frame_octets_max: 1500,
    };
    let ports: Vec<Box<dyn PortIo>> = vec![Box::new(place.tun()), Box::new(UdpPort::new(port))];
    let factory = GatewayFactory::new(config).map_err(|error| invalid(&error))?;
    let node = factory.boot(Boot::default());
    let mut runner = Runner::new(Clock::start(), node, ports)?;
    if let Some((_, error)) = runner.open_ports().pop() {
        return Err(error);
    }
    let _ = ready.send(Ok(Stop::Runner(runner.stopper())));
    runner.run().map(drop)
}

/// Copies between the two, both ways, until the flag is set.
fn run_copy(place: &Place, ready: &Sender<Result<Stop, Error>>) -> Result<(), Error> {
    let doing = || "copy between TUN and UDP";
    let socket = UdpSocket::bind(place.wire()).doing(doing)?;
    socket.set_nonblocking(true).doing(doing)?;
    let mut port = place.tun();
    port.open(Instant::ZERO)?;
    let Some(tun) = port.fd() else {
        return Ok(());
    };
    let stop = Arc::new(AtomicBool::new(false));
    let _ = ready.send(Ok(Stop::Flag(Arc::clone(&stop))));
    let mut buffer = vec![0; 65_536];
    let target = place.other().wire();
    while !stop.load(Ordering::Acquire) {
        let mut fds = [
            PollFd::new(tun, PollFlags::POLLIN),
            PollFd::new(socket.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut fds, PollTimeout::from(50u8)).doing(doing)?;
        let [from_tun, from_net] = fds.map(|fd| fd.any().unwrap_or(false));
        for _ in 0..if from_tun { BATCH } else { 0 } {
            let Ok(octets) = nix::unistd::read(tun, &mut buffer) else {
                break;
            };
            let _ = socket.send_to(&buffer[..octets], target);
        }
        for _ in 0..if from_net { BATCH } else { 0 } {
            let Ok((octets, _)) = socket.recv_from(&mut buffer) else {
                break;
            };
            let _ = nix::unistd::write(tun, &buffer[..octets]);
        }
    }
    Ok(())
}
