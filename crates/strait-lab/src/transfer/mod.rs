//! Transfers by this host's own TCP over emulated links: what simulated endpoints are compared
//! with.
//!
//! Each transfer has two network namespaces of its own, joined by two TUN interfaces and an
//! [`Emulator`] between them, so that nothing is shared but the machine: many run at once, as they
//! wait most of the time. The namespaces have the settings of the simulated profiles whatever this
//! host's are, and remember nothing of earlier connections. Every packet on a TUN interface is at
//! most as long as the link's frames: the kernel cuts what its TCP hands over in larger pieces.

mod counters;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use nix::poll::{PollFd, PollFlags};
use socket2::Socket;
use strait_channel::LinkConfig;
use strait_core::time::{Duration, Instant};
use strait_emulate::{EmulateConfig, EmulateError, Emulator, EndSpec};
use strait_live::clock::Clock;
use strait_live::error::{Doing, Error};
use strait_live::kernel::namespace::Namespace;
use strait_live::poll::wait;
use strait_live::signals::Stopper;
use strait_measure::tcp_socket::{Intake, Tcp, listen};
use strait_traffic::Content;

pub use self::counters::KernelCounters;

/// A transfer.
#[derive(Clone, Debug)]
pub struct TransferConfig {
    /// The link.
    pub link: LinkConfig,
    /// Its name, which with the seed selects what befalls a frame: a simulated link of the same
    /// name and seed loses the same frames.
    pub name: String,
    /// The run's seed.
    pub seed: u64,
    /// Octets of the file.
    pub octets: u64,
    /// The sender's congestion control, as the kernel calls it.
    pub congestion: String,
    /// When it begins, by the link's time.
    pub start: Duration,
    /// What hasn't come so long after that is given up.
    pub limit: Duration,
}

/// How a transfer went.
#[derive(Clone, Debug, PartialEq)]
pub struct Transferred {
    /// The congestion control that the sending socket says it had.
    pub congestion: String,
    /// From the request for a connection to the last octet, in s; `None` if it didn't come in
    /// time.
    pub time_s: Option<f64>,
    /// Octets that came and were wrong.
    pub wrong_octets: u64,
    /// What the sending kernel counted until then.
    pub counters: KernelCounters,
}

const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const RECEIVER_AT: SocketAddr = SocketAddr::new(IpAddr::V4(RECEIVER), 5000);
const PREFIX: u8 = 24;
/// Octets that move between program and socket at once.
const CHUNK_OCTETS: usize = 16_384;
/// No connection shall know what an earlier one learned. And where a new namespace would take over
/// this host's settings, it has those of the simulated profiles (`Profile::linux`), which are the
/// kernel's defaults before 6.16.
const SETTINGS: [(&str, &str); 3] = [
    ("ipv4/tcp_no_metrics_save", "1"),
    ("ipv4/tcp_rmem", "4096 131072 6291456"),
    ("ipv4/tcp_wmem", "4096 16384 4194304"),
];

/// Runs all transfers at once; `done` hears of each that ended.
///
/// # Errors
/// A privilege or a device is missing, the kernel has no such congestion control, or the link
/// describes no medium.
pub fn run_all(
    configs: &[TransferConfig],
    done: impl Fn() + Sync,
) -> Result<Vec<Transferred>, Error> {
    // One first: what is missing is missing for all, and its error text is enough.
    drop(configs.first().map(Wire::lay).transpose()?);
    thread::scope(|scope| {
        let start = |config| {
            let done = &done;
            let work = move || {
                let ended = Wire::lay(config).and_then(|wire| wire.carry(config));
                done();
                ended
            };
            thread::Builder::new().spawn_scoped(scope, work)
        };
        let threads: io::Result<Vec<_>> = configs.iter().map(start).collect();
        let threads = threads.doing(|| "start a thread for each transfer")?;
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            let lost = |_| Err(Error::invalid("transfer a file", "its thread has failed"));
            thread.join().unwrap_or_else(lost)
        };
        threads.into_iter().map(join).collect()
    })
}

/// Two hosts and the link between them.
struct Wire {
    sender: Namespace,
    receiver: Namespace,
    stopper: Stopper,
    clock: Clock,
    emulator: Option<thread::JoinHandle<Result<(), Error>>>,
}

impl Wire {
    fn lay(config: &TransferConfig) -> Result<Self, Error> {
        let [sender, receiver] = ["sender", "receiver"].map(Namespace::create);
        let (sender, receiver) = (sender?, receiver?);
        for (namespace, (key, value)) in [&sender, &receiver]
            .into_iter()
            .flat_map(|namespace| SETTINGS.map(|setting| (namespace, setting)))
        {
            namespace.set(key, value)?;
        }
        let end = |namespace: &Namespace, address: Ipv4Addr| EndSpec::Tun {
            ethernet: false,
            name: String::from("link"),
            namespace: Some(format!("/proc/self/fd/{}", namespace.as_fd().as_raw_fd())),
            addresses: vec![(IpAddr::V4(address), PREFIX)],
        };
        let link = EmulateConfig {
            link: config.link.clone(),
            ends: [end(&sender, SENDER), end(&receiver, RECEIVER)],
            name: config.name.clone(),
            seed: config.seed,
        };
        let (opened, result) = channel();
        let emulator = thread::Builder::new()
            .name("emulator".into())
            .spawn(move || emulate(link, &opened))
            .doing(|| "start a thread")?;
        let lost = |_| Error::invalid("emulate a link", "its thread has failed");
        let (stopper, clock) = result.recv().map_err(lost)??;
        Ok(Self {
            sender,
            receiver,
            stopper,
            clock,
            emulator: Some(emulator),
        })
    }

    fn carry(&self, config: &TransferConfig) -> Result<Transferred, Error> {
        let to = RECEIVER_AT;
        let listener = self.receiver.enter(|| listen(to, 1))?;
        let listener = listener.doing(|| format!("listen on {to}"))?;
        let sender = self.sender.enter(|| open(to, &config.congestion))?;
        let sender = sender.doing(|| format!("open a socket with {}", config.congestion))?;
        let mut transfer = Transfer::new(config, sender, listener);
        let clock = &self.clock;
        let started = Instant::ZERO + config.start;
        // All that is to be set up is set up by then, for other transfers too.
        thread::sleep(clock.until(started));
        transfer.run(clock, to).doing(|| "transfer a file")?;
        let counters = KernelCounters::read(&self.sender, &transfer.sender)?;
        Ok(Transferred {
            congestion: transfer.sender.facts().congestion,
            time_s: transfer.finished.map(|at| at.since(started).as_secs_f64()),
            wrong_octets: transfer.wrong_octets,
            counters,
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(emulator) = self.emulator.take() {
            // What it could complain of is that its end is gone, and that is meant.
            let _ = emulator.join();
        }
    }
}

fn emulate(
    config: EmulateConfig,
    opened: &Sender<Result<(Stopper, Clock), Error>>,
) -> Result<(), Error> {
    let emulator = Emulator::open(config).map_err(|error| match error {
        EmulateError::Host(error) => error,
        EmulateError::Link(error) => Error::invalid("emulate a link", error.to_string()),
        EmulateError::End(error) => Error::invalid("emulate a link", error.to_string()),
    });
    let told = |result| opened.send(result).is_ok();
    match emulator {
        Ok(mut emulator) if told(Ok((emulator.stopper(), emulator.clock()))) => emulator.run(),
        Ok(_) => Ok(()),
        Err(error) => {
            told(Err(error));
            Ok(())
        }
    }
}

/// A socket with this congestion control: with the privilege that namespaces need anyway the
/// kernel also takes one that it doesn't allow to everybody.
fn open(to: SocketAddr, congestion: &str) -> io::Result<Tcp> {
    let socket = Tcp::new(to)?;
    socket.mark(0, congestion)?;
    Ok(socket)
}

/// Both ends of a transfer, served by one thread. Nothing but the file goes over the connection,
/// as in a simulated transfer: the same frames are lost.
struct Transfer {
    octets: u64,
    content: Content,
    limit: Instant,
    sender: Tcp,
    /// Content made but not taken by the socket yet.
    chunk: Vec<u8>,
    taken: u64,
    listener: Socket,
    receiver: Option<Tcp>,
    received: u64,
    wrong_octets: u64,
    finished: Option<Instant>,
}

impl Transfer {
    fn new(config: &TransferConfig, sender: Tcp, listener: Socket) -> Self {
        Self {
            octets: config.octets,
            content: Content::new(config.seed, "file"),
            limit: Instant::ZERO + config.start + config.limit,
            sender,
            chunk: Vec::new(),
            taken: 0,
            listener,
            receiver: None,
            received: 0,
            wrong_octets: 0,
            finished: None,
        }
    }

    /// Asks for a connection, and runs until the last octet has come, the connection has failed,
    /// or the limit: then there is no time, and that is the result.
    fn run(&mut self, clock: &Clock, to: SocketAddr) -> io::Result<()> {
        self.sender.connect(to)?;
        while self.finished.is_none() && clock.now() < self.limit {
            let [may_send, may_receive] = self.wait(clock)?;
            if may_send && !self.send()? || may_receive && !self.receive(clock)? {
                break;
            }
        }
        Ok(())
    }

    fn wait(&self, clock: &Clock) -> io::Result<[bool; 2]> {
        let incoming = self
            .receiver
            .as_ref()
            .map_or_else(|| self.listener.as_fd(), Tcp::as_fd);
        let mut fds = [
            PollFd::new(incoming, PollFlags::POLLIN),
            PollFd::new(self.sender.as_fd(), PollFlags::POLLOUT),
        ];
        let count = if self.taken < self.octets { 2 } else { 1 };
        wait(&mut fds[..count], Some(clock.until(self.limit)))?;
        let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        Ok([count == 2 && ready(&fds[1]), ready(&fds[0])])
    }

    /// Hands octets to the socket; false if its connection has failed.
    fn send(&mut self) -> io::Result<bool> {
        if self.sender.connect_error().is_some() {
            return Ok(false);
        }
        while self.taken < self.octets {
            if self.chunk.is_empty() {
                let count = (self.octets - self.taken).min(CHUNK_OCTETS as u64) as usize;
                self.content.append(self.taken, count, &mut self.chunk);
            }
            match self.sender.write(&self.chunk) {
                Ok(0) => return Ok(true),
                Ok(count) => {
                    self.taken += count as u64;
                    self.chunk.drain(..count);
                }
                Err(_) => return Ok(false),
            }
        }
        // The connection ends with its last octet, as a simulated one does.
        self.sender.finish()?;
        Ok(true)
    }

    /// Takes what has come; false if the connection has failed.
    fn receive(&mut self, clock: &Clock) -> io::Result<bool> {
        if self.receiver.is_none() {
            match self.listener.accept() {
                Ok((socket, _)) => self.receiver = Some(Tcp::of(socket, RECEIVER_AT)?),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        let Some(receiver) = &mut self.receiver else {
            return Ok(true);
        };
        let intake = receiver.read_all(|octets| {
            self.wrong_octets += self.content.count_wrong(self.received, octets);
            self.received += octets.len() as u64;
            if self.received >= self.octets {
                self.finished.get_or_insert_with(|| clock.now());
            }
        });
        Ok(!matches!(intake, Intake::Failed(_)))
    }
}
