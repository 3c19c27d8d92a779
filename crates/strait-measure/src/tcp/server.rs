//! Serves measured transfers: one poll loop for all clients.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread::{self, JoinHandle};

use nix::poll::{PollFd, PollFlags};
use socket2::Socket;
use strait_core::time::{Duration, Instant};
use strait_live::clock::monotonic;
use strait_live::error::{Doing, Error};
use strait_live::poll::wait;
use strait_live::signals::{StopRequests, Stopper};
use strait_traffic::measure::{Campaign, Direction, Due, Server, Verdict};

use crate::tcp_socket::{Intake, Tcp, clock, interest, listen};

/// What a server allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Transfers at once. One more is told that the server is busy.
    pub clients: usize,
    /// Octets of content of a transfer.
    pub octets: u32,
    /// How long a connection may be open.
    pub time: Duration,
    /// How long a connection may be without any octet in either direction.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 16,
            octets: 1_000_000_000,
            time: Campaign::TIMEOUT,
            // Linux gives a connection up after about as long.
            silence: Duration::from_secs(1000),
        }
    }
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections accepted.
    pub connections: u64,
    /// Transfers that came to their end.
    pub complete: u64,
    /// Requests declined.
    pub declined: u64,
    /// Connections closed because they took too long or were silent for too long.
    pub expired: u64,
}

/// A server that listens.
#[derive(Debug)]
pub struct Listening {
    listener: Socket,
    address: SocketAddr,
    limits: Limits,
    clock: u64,
    peers: Vec<Peer>,
    tally: Tally,
    /// Accepts nothing before: the system has just refused to.
    deaf_until: Instant,
}

/// A server on a thread of its own; it ends with this value.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<Tally, Error>>>,
}

/// One connection.
#[derive(Debug)]
struct Peer {
    socket: Tcp,
    server: Server,
    since: Instant,
    heard: Instant,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The request isn't there.
    New,
    Admitted,
    Declined,
    /// The report isn't all in the kernel's hands.
    Reporting,
    Reported,
    /// To be closed.
    Over,
}

/// Connections waiting for `accept(2)`.
const BACKLOG: i32 = 16;
/// Pause after `accept(2)` has failed for want of descriptors or memory.
const PAUSE: Duration = Duration::from_secs(1);
/// Connections that have not asked yet, or that are told that they can't, beside the transfers.
const STRANGERS_MAX: usize = 16;

impl Listening {
    /// Listens on an address; with port 0, on a free one.
    ///
    /// # Errors
    /// The address can't be had.
    pub fn bind(local: SocketAddr, limits: Limits) -> Result<Self, Error> {
        let open = || -> std::io::Result<(Socket, SocketAddr)> {
            let socket = listen(local, BACKLOG)?;
            let address = socket.local_addr()?.as_socket();
            Ok((socket, address.unwrap_or(local)))
        };
        let (listener, address) = open().doing(|| format!("listen on TCP {local}"))?;
        Ok(Self {
            listener,
            address,
            limits,
            clock: clock(),
            peers: Vec::new(),
            tally: Tally::default(),
            deaf_until: Instant::ZERO,
        })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves on a thread of its own.
    ///
    /// # Errors
    /// The system has no threads or descriptors left.
    pub fn spawn(self) -> Result<Running, Error> {
        let requests = StopRequests::new()?;
        let (address, stopper) = (self.address, requests.stopper());
        let serve = move || self.run(requests, None);
        let thread = thread::Builder::new().name(String::from("measure"));
        let thread = thread.spawn(serve).doing(|| "start a thread")?;
        Ok(Running {
            address,
            stopper,
            thread: Some(thread),
        })
    }

    /// Serves until it is asked to stop, or until the given time. Open connections are reset then.
    ///
    /// # Errors
    /// The system's poll fails.
    pub fn run(mut self, mut stop: StopRequests, until: Option<Instant>) -> Result<Tally, Error> {
        loop {
            let now = monotonic();
            if stop.take() > 0 || until.is_some_and(|until| until <= now) {
                break;
            }
            self.wait(&stop, until).doing(|| "wait for connections")?;
            let now = monotonic();
            self.accept(now);
            self.serve();
        }
        for peer in &self.peers {
            peer.socket.abort_on_close();
        }
        Ok(self.tally)
    }

    fn hears(&self, now: Instant) -> bool {
        let room = self.limits.clients.saturating_add(STRANGERS_MAX);
        now >= self.deaf_until && self.peers.len() < room
    }

    fn wait(&mut self, stop: &StopRequests, until: Option<Instant>) -> std::io::Result<()> {
        let now = monotonic();
        let mut descriptors = vec![PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        if self.hears(now) {
            descriptors.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        let mut wake = until.unwrap_or(Instant::NEVER);
        if self.deaf_until > now {
            wake = wake.min(self.deaf_until);
        }
        for peer in &mut self.peers {
            wake = wake.min(peer.expiry(&self.limits));
            let writes = !peer.server.pending().is_empty();
            descriptors.push(PollFd::new(peer.socket.as_fd(), interest(writes)));
        }
        // An hour, so that the system's times don't overflow.
        let patience = wake.since(now).min(Duration::from_secs(3600));
        Ok(wait(&mut descriptors, Some(patience))?)
    }

    fn accept(&mut self, now: Instant) {
        while self.hears(now) {
            match self.listener.accept() {
                Ok((socket, peer)) => {
                    self.tally.connections += 1;
                    let peer = peer.as_socket().unwrap_or(self.address);
                    if let Ok(socket) = Tcp::of(socket, peer) {
                        self.peers
                            .push(Peer::new(socket, self.clock, &self.limits, now));
                    }
                }
                Err(error) => {
                    use std::io::ErrorKind::{ConnectionAborted, Interrupted, WouldBlock};
                    if !matches!(error.kind(), WouldBlock | Interrupted | ConnectionAborted) {
                        tracing::warn!(%error, "can't accept a connection");
                        self.deaf_until = now + PAUSE;
                    }
                    return;
                }
            }
        }
    }

    fn serve(&mut self) {
        let busy = |peer: &&Peer| matches!(peer.stage, Stage::Admitted | Stage::Reporting);
        let mut running = self.peers.iter().filter(busy).count();
        for peer in &mut self.peers {
            let before = peer.stage;
            peer.work(running < self.limits.clients);
            match (before, peer.stage) {
                (Stage::New, Stage::Admitted) => running += 1,
                (Stage::New, Stage::Declined) => self.tally.declined += 1,
                _ => {}
            }
            if peer.stage == Stage::Reported && before != Stage::Reported {
                self.tally.complete += 1;
            }
            if peer.stage != Stage::Over && peer.expiry(&self.limits) <= monotonic() {
                self.tally.expired += 1;
                peer.socket.abort_on_close();
                peer.stage = Stage::Over;
            }
        }
        self.peers.retain(|peer| peer.stage != Stage::Over);
    }
}

impl Peer {
    fn new(socket: Tcp, clock: u64, limits: &Limits, now: Instant) -> Self {
        Self {
            socket,
            server: Server::new(clock, limits.octets),
            since: now,
            heard: now,
            stage: Stage::New,
        }
    }

    fn expiry(&self, limits: &Limits) -> Instant {
        (self.since + limits.time).min(self.heard + limits.silence)
    }

    /// Moves octets as far as they go.
    fn work(&mut self, has_room: bool) {
        let Self { socket, server, .. } = self;
        let ended = socket.read_all(|octets| server.receive(monotonic(), octets));
        match ended {
            Intake::Octets(_) => self.heard = monotonic(),
            Intake::Nothing => {}
            Intake::End | Intake::Failed(_) => {
                self.server.end();
                return self.stage = Stage::Over;
            }
        }
        loop {
            match self.server.due() {
                Due::Answer => self.answer(has_room),
                Due::Report => {
                    self.server.report(self.socket.facts());
                    self.stage = Stage::Reporting;
                }
                Due::Close => return self.stage = Stage::Over,
                Due::Nothing => break,
            }
        }
        while !self.server.pending().is_empty() {
            match self.socket.write(self.server.pending()) {
                Ok(0) => break,
                Ok(count) => {
                    let now = monotonic();
                    self.server.take(now, count);
                    self.heard = now;
                }
                Err(_) => return self.stage = Stage::Over,
            }
        }
        if self.stage == Stage::Reporting && self.server.pending().is_empty() {
            self.stage = Stage::Reported;
        }
    }

    fn answer(&mut self, has_room: bool) {
        let Some(request) = self.server.request() else {
            return;
        };
        let congestion = match request.direction {
            Direction::Down => request.congestion.as_str(),
            Direction::Up => "",
        };
        let verdict = if !has_room {
            Verdict::Busy
        } else if self.socket.mark(request.dscp, congestion).is_err() {
            Verdict::NoSuchCongestion
        } else {
            Verdict::Admitted
        };
        self.stage = match self.server.answer(monotonic(), verdict) {
            Verdict::Admitted => Stage::Admitted,
            _ => Stage::Declined,
        };
    }
}

impl Running {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it and says what it has done.
    ///
    /// # Errors
    /// It had ended by itself, with an error of the system.
    pub fn stop(mut self) -> Result<Tally, Error> {
        self.end()
    }

    fn end(&mut self) -> Result<Tally, Error> {
        self.stopper.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(tally)) => tally,
            _ => Err(Error::invalid("serve transfers", "its thread has ended")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Who wants to know calls `stop`.
            let _ = self.end();
        }
    }
}
