//! A link between two ports of this host, in real time: the simulator's [`Channel`] with a clock.
//!
//! The channel decides when octets are sent and when they arrive. The emulator reads what comes at
//! each end, notes when, offers it to the channel at the moment when it was there and the line was
//! free, and hands it over when it has arrived. It may come late to any of these; only the last
//! one is then late, and the line loses no time.

mod air;
mod cell;
mod data_port;
mod end;
mod flow;
mod medium;
mod net;
mod report;
mod tnc;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use strait_channel::{Channel, Line, LinkConfig, Side};
use strait_core::keys::KeyError;
use strait_core::time::{Duration, Instant};
use strait_live::clock::Clock;
use strait_live::error::{Doing, Error};
use strait_live::kernel::schedule;
use strait_live::poll;
use strait_live::signals::{SignalGuard, StopRequests, Stopper};

pub use air::AirEmulator;
pub use cell::CellEmulator;
pub use end::{EndSpec, EndSpecError, ModemSpec};
pub use medium::Medium;
pub use net::{NetConfig, NetPath};
pub use report::{AirCounts, DirectionReport, EmulateReport, ModemCounts};

use self::end::End;
use self::flow::Flow;

/// What is to be emulated.
#[derive(Clone, Debug)]
pub struct EmulateConfig {
    /// The link.
    pub link: LinkConfig,
    /// What its ends are attached to.
    pub ends: [EndSpec; 2],
    /// The link's name, which with `seed` selects its randomness.
    pub name: String,
    /// The run's seed.
    pub seed: u64,
}

/// Why a link can't be emulated.
#[derive(Debug)]
pub enum EmulateError {
    /// The link describes no medium.
    Link(KeyError),
    /// An end doesn't fit the link.
    End(EndSpecError),
    /// The host refuses something.
    Host(Error),
}

impl From<Error> for EmulateError {
    fn from(error: Error) -> Self {
        Self::Host(error)
    }
}

/// Something on its way, ordered by its arrival, then by when it was sent.
type UnderWay = Reverse<(Instant, u64, usize, Vec<u8>)>;

/// Octets that may be under way. At 10 Mbit/s they are half a minute of delay; a medium that holds
/// more loses what comes on top.
const UNDER_WAY_OCTETS_MAX: usize = 40_000_000;

/// Frames taken from one end before the other has its turn.
const BATCH: u32 = 64;

/// Longest datagram or packet, and then some.
const BUFFER_OCTETS: usize = 65_536;

/// A channel that can't say when it has room is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// A link between two ports of this host.
pub struct Emulator {
    clock: Clock,
    config: EmulateConfig,
    line: Line,
    ends: [End; 2],
    /// What came at each end and waits for the line.
    flows: [Flow; 2],
    under_way: BinaryHeap<UnderWay>,
    under_way_octets: usize,
    sent: u64,
    /// Frames lost, by sender, because the receiver took none or too much was under way.
    undelivered: [u64; 2],
    requests: StopRequests,
    buffer: Vec<u8>,
}

impl Emulator {
    /// Opens both ends. The link's time begins now.
    ///
    /// # Errors
    /// The link or an end can't work, or the host refuses something.
    pub fn open(config: EmulateConfig) -> Result<Self, EmulateError> {
        let line = Line::new(&config.link, &config.name, config.seed);
        let line = line.map_err(EmulateError::Link)?;
        for spec in &config.ends {
            spec.fits(&config.link.kind).map_err(EmulateError::End)?;
        }
        let clock = Clock::start();
        let end = |side: Side| {
            let mtu = config.link.direction(side).frame_octets_max;
            let mtu = mtu.unwrap_or(LinkConfig::FRAME_OCTETS_MAX);
            End::open(&config.ends[side.index()], mtu, clock.now())
        };
        Ok(Self {
            ends: [end(Side::A)?, end(Side::B)?],
            flows: Side::BOTH.map(|side| Flow::new(&config.link, side)),
            clock,
            config,
            line,
            under_way: BinaryHeap::new(),
            under_way_octets: 0,
            sent: 0,
            undelivered: [0; 2],
            requests: StopRequests::new()?,
            buffer: vec![0; BUFFER_OCTETS],
        })
    }

    /// Lets SIGINT, SIGTERM and SIGHUP end the run.
    ///
    /// # Errors
    /// The handlers can't be set.
    pub fn stop_on_signals(&self) -> Result<SignalGuard, Error> {
        self.requests.on_signals()
    }

    /// The clock of the link: its changes and outages go by it.
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// A way to end the run from another thread.
    pub fn stopper(&self) -> Stopper {
        self.requests.stopper()
    }

    /// One line that says what is up.
    pub fn ready_line(&self) -> String {
        let [a, b] = &self.ends;
        let rate = report::rate_text(&self.config.link);
        format!("{}: up: a={a}, b={b}; {rate}", self.config.name)
    }

    /// What happened so far.
    pub fn report(&self) -> EmulateReport {
        let uptime_s = self.clock.now().as_secs_f64();
        let direction = |side: Side| {
            let index = side.index();
            let strangers = self.ends[index].strangers();
            let undelivered = self.undelivered[index];
            let stats = self.line.stats(side);
            let link = &self.config.link;
            let mut report = DirectionReport::new(link, side, stats, uptime_s);
            report.queue_dropped = self.flows[index].dropped();
            report.too_long = self.flows[index].too_long();
            (report.undelivered, report.strangers) = (undelivered, strangers);
            report.modem = self.ends[index].modem();
            report
        };
        EmulateReport {
            link: self.config.name.clone(),
            seed: self.config.seed,
            uptime_s,
            directions: Side::BOTH.map(direction).into(),
            modems: Vec::new(),
        }
    }

    /// Runs until asked to stop. What is under way then is lost.
    ///
    /// # Errors
    /// An end's device is gone, or the system can't wait for descriptors any more.
    pub fn run(&mut self) -> Result<(), Error> {
        // Where it isn't allowed to, the line has gaps when the machine is busy: that it is late
        // is all that an emulator may add to what it emulates.
        schedule::exact_timers();
        let _ = schedule::go_first();
        loop {
            let ready = self.wait().doing(|| "wait for the link's ends")?;
            if ready[2] && self.requests.take() > 0 {
                return Ok(());
            }
            // Before anything new comes in: a frame that has left makes place in its queue.
            self.pump(self.clock.now());
            let now = self.clock.now();
            for side in Side::BOTH {
                let due = self.ends[side.index()].wake().is_some_and(|at| at <= now);
                if ready[side.index()] || due {
                    self.read(side)?;
                }
            }
            self.pump(self.clock.now());
            self.deliver(self.clock.now())?;
        }
    }

    /// Waits until something comes, arrives, or may begin to leave. Says which ends are ready, and
    /// whether somebody asked to stop.
    fn wait(&self) -> Result<[bool; 3], Errno> {
        let mut fds = vec![PollFd::new(self.requests.as_fd(), PollFlags::POLLIN)];
        let mut who = vec![2];
        for side in Side::BOTH {
            let (end, flow) = (&self.ends[side.index()], &self.flows[side.index()]);
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, flow.room_octets() > 0);
            flags.set(PollFlags::POLLOUT, end.holds());
            if let Some(fd) = end.fd().filter(|_| !flags.is_empty()) {
                fds.push(PollFd::new(fd, flags));
                who.push(side.index());
            }
        }
        let timeout = self.deadline().map(|at| self.clock.until(at));
        poll::wait(&mut fds, timeout)?;
        let mut ready = [false; 3];
        for (who, fd) in who.into_iter().zip(&fds) {
            ready[who] = fd.any().unwrap_or(true);
        }
        Ok(ready)
    }

    fn deadline(&self) -> Option<Instant> {
        let arrival = self.under_way.peek().map(|Reverse(first)| first.0);
        let begins = self.flows.iter().filter_map(Flow::begins);
        let ends = self.ends.iter().filter_map(End::wake);
        begins.chain(arrival).chain(ends).min()
    }

    /// Takes what came at an end. Each frame is offered to the line before the next is taken: one
    /// that finds the line free needs no place in the queue.
    fn read(&mut self, side: Side) -> Result<(), Error> {
        let index = side.index();
        let flushed = self.ends[index].flush(self.clock.now());
        flushed.doing(|| lost(side))?;
        for _ in 0..BATCH {
            let flow = &mut self.flows[index];
            let octets_max = flow.room_octets().min(self.buffer.len());
            let buffer = &mut self.buffer[..octets_max];
            if buffer.is_empty() {
                break;
            }
            let now = self.clock.now();
            let came = self.ends[index].read(now, buffer);
            let Some(octets) = came.doing(|| lost(side))? else {
                break;
            };
            if !flow.push(now, &buffer[..octets]) {
                self.ends[index].forget_last();
            }
            self.pump(now);
        }
        Ok(())
    }

    /// Sends everything that could begin to leave by `now`, in the order of time: on a half-duplex
    /// line what one side does first decides about the other.
    fn pump(&mut self, now: Instant) {
        while let Some((at, side)) = self.next_begin().filter(|(at, _)| *at <= now) {
            self.offer(at, side);
        }
    }

    fn next_begin(&self) -> Option<(Instant, Side)> {
        let begins = Side::BOTH
            .into_iter()
            .filter_map(|side| Some((self.flows[side.index()].begins()?, side)));
        begins.min()
    }

    fn offer(&mut self, at: Instant, side: Side) {
        let flow = &mut self.flows[side.index()];
        let room = match self.line.room(at, side) {
            Ok(room) => room,
            Err(again) => {
                let change = || self.line.next_change(at).unwrap_or(at + ASK_AGAIN);
                let later = at + Duration::from_nanos(1);
                flow.not_before(again.unwrap_or_else(change).max(later));
                return;
            }
        };
        let mut octets = flow.take(at, room.octets);
        let sent = self.line.transmit(at, side, &mut octets);
        if let Some(fill) = sent.fill {
            octets.insert(0, fill);
        }
        flow.not_before(sent.ends);
        self.ends[side.index()].left(sent.ends);
        for arrival in [sent.duplicate, sent.arrival].into_iter().flatten() {
            self.send(arrival, side, octets.clone());
        }
    }

    fn send(&mut self, arrival: Instant, from: Side, octets: Vec<u8>) {
        if self.under_way_octets + octets.len() > UNDER_WAY_OCTETS_MAX {
            self.undelivered[from.index()] += 1;
            return;
        }
        self.sent += 1;
        self.under_way_octets += octets.len();
        let entry = (arrival, self.sent, from.index(), octets);
        self.under_way.push(Reverse(entry));
    }

    /// Hands over everything that has arrived by `now`, and tells what has left.
    fn deliver(&mut self, now: Instant) -> Result<(), Error> {
        for side in Side::BOTH {
            let told = self.ends[side.index()].tick(now);
            told.doing(|| lost(side))?;
        }
        let due = |first: &UnderWay| first.0.0 <= now;
        while self.under_way.peek().is_some_and(due) {
            let Some(Reverse((_, _, from, octets))) = self.under_way.pop() else {
                break;
            };
            self.under_way_octets -= octets.len();
            let to = Side::BOTH[from].other();
            let taken = self.ends[to.index()].write(now, &octets);
            if !taken.doing(|| lost(to))? {
                self.undelivered[from] += 1;
            }
        }
        Ok(())
    }
}

fn lost(side: Side) -> String {
    format!("use end {}", report::side_name(side))
}
