//! An HF channel between modems of this host, in real time: the simulator's [`Air`] with a
//! clock.
//!
//! A pseudo-terminal is a modem that keys when octets come; one with a data port is keyed by its
//! program. What happens on the air happens at its time there, however late the emulator
//! comes to it; only what is handed over is then late.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use strait_channel::hf::{Air, KeyedBy};
use strait_channel::{Heard, LinkConfig, MediumEvent, PathId, Side, StationId};
use strait_core::node::Turn;
use strait_core::time::{Duration, Instant};
use strait_core::units::Time;
use strait_live::clock::Clock;
use strait_live::error::{Doing, Error};
use strait_live::kernel::schedule;
use strait_live::poll;
use strait_live::ports::is_not_now;
use strait_live::ports::pty::PtyPair;
use strait_live::signals::{SignalGuard, StopRequests, Stopper};

use super::data_port::{DataPort, DataPortConfig, Wish};
use super::end::{EndSpec, EndSpecError};
use super::net::{NetConfig, NetPath};
use super::report::{AirCounts, EmulateReport};
use super::{BUFFER_OCTETS, EmulateError, report};

/// Octets that wait at a modem that keys when octets come: as many as a UART's driver takes from
/// its program before it makes it wait.
const WAITING_OCTETS_MAX: usize = 4096;

/// An HF channel between modems.
pub struct AirEmulator {
    clock: Clock,
    config: NetConfig,
    air: Air,
    paths: Vec<PathId>,
    ends: Vec<AirEnd>,
    /// By receiver: octets, or blocks, that arrived and nobody took.
    undelivered: Vec<u64>,
    requests: StopRequests,
    buffer: Vec<u8>,
}

/// What a modem is attached to.
enum AirEnd {
    Pty {
        pair: PtyPair,
        link: PathBuf,
        waiting: VecDeque<u8>,
        /// When there is room again, if that is known.
        again: Option<Instant>,
    },
    DataPort(Box<DataPort>),
}

impl AirEmulator {
    /// Opens all ends. The channel's time begins now.
    ///
    /// # Errors
    /// A link or an end can't work, or the host refuses something.
    pub fn open(config: impl Into<NetConfig>) -> Result<Self, EmulateError> {
        let config = config.into();
        let mut air = Air::default();
        let (mut stations, mut ends) = (Vec::new(), Vec::new());
        for (number, (name, spec)) in config.ends.iter().enumerate() {
            // A modem is what the first of its paths says.
            let own = |path: &&NetPath| path.between.contains(&number);
            let path = config.paths.iter().find(own).ok_or_else(|| {
                EmulateError::End(EndSpecError::new("an end of an HF channel needs a path"))
            })?;
            let side = Side::BOTH[usize::from(path.between[1] == number)];
            let name = format!("{} {name}", config.name);
            let station = air.add_station(&path.link, side, &name, config.seed);
            stations.push(station.map_err(EmulateError::Link)?);
            ends.push(AirEnd::open(spec, &path.link, side)?);
        }
        let mut paths = Vec::new();
        for path in &config.paths {
            let between = path.between.map(|end| stations[end]);
            let path = air.add_path(between, &path.link, &path.name, config.seed);
            paths.push(path.map_err(EmulateError::Link)?);
        }
        Ok(Self {
            clock: Clock::start(),
            air,
            paths,
            undelivered: vec![0; ends.len()],
            ends,
            requests: StopRequests::new()?,
            buffer: vec![0; BUFFER_OCTETS],
            config,
        })
    }

    /// Lets SIGINT, SIGTERM and SIGHUP end the run.
    ///
    /// # Errors
    /// The handlers can't be set.
    pub fn stop_on_signals(&self) -> Result<SignalGuard, Error> {
        self.requests.on_signals()
    }

    /// A way to end the run from another thread.
    pub fn stopper(&self) -> Stopper {
        self.requests.stopper()
    }

    /// One line that says what is up.
    pub fn ready_line(&self) -> String {
        let ends = self.config.ends.iter().zip(&self.ends);
        let ends: Vec<_> = ends
            .map(|((name, _), end)| format!("{name}={end}"))
            .collect();
        let rates = self.config.paths.iter();
        let rates: BTreeSet<_> = rates.map(|path| report::rate_text(&path.link)).collect();
        let rates: Vec<_> = rates.into_iter().collect();
        let (ends, rates) = (ends.join(", "), rates.join(", "));
        format!("{}: up: {ends}; HF, {rates}", self.config.name)
    }

    /// What happened so far.
    pub fn report(&self) -> EmulateReport {
        let uptime_s = self.clock.now().as_secs_f64();
        let stats = |path: usize, side| self.air.stats(self.paths[path], side);
        let directions = report::directions(&self.config, uptime_s, &self.undelivered, stats);
        let modem = |(number, (name, _)): (usize, &(String, EndSpec))| {
            let stats = self.air.station_stats(StationId(number));
            AirCounts {
                name: name.clone(),
                turns: stats.turns,
                collisions: stats.collisions,
                undelivered: self.undelivered[number],
            }
        };
        EmulateReport {
            link: self.config.name.clone(),
            seed: self.config.seed,
            uptime_s,
            directions,
            modems: self.config.ends.iter().enumerate().map(modem).collect(),
        }
    }

    /// Runs until asked to stop.
    ///
    /// # Errors
    /// An end's device is gone, or the system can't wait for descriptors any more.
    pub fn run(&mut self) -> Result<(), Error> {
        schedule::exact_timers();
        let _ = schedule::go_first();
        loop {
            let (stop, ready) = self.wait().doing(|| "wait for the modems")?;
            if stop && self.requests.take() > 0 {
                return Ok(());
            }
            self.catch_up(self.clock.now())?;
            for number in 0..self.ends.len() {
                if ready.contains(&number) {
                    self.read(number).doing(|| self.lost(number))?;
                }
                let now = self.clock.now();
                if let AirEnd::DataPort(port) = &mut self.ends[number] {
                    let wishes = port.tick(now);
                    self.grant_all(now, number, wishes);
                }
            }
            self.catch_up(self.clock.now())?;
        }
    }

    fn lost(&self, end: usize) -> String {
        format!("use end {}", self.config.ends[end].0)
    }

    /// Waits until something comes or happens. Says whether somebody asked to stop, and which ends
    /// are ready.
    fn wait(&self) -> Result<(bool, Vec<usize>), Errno> {
        let mut fds = vec![PollFd::new(self.requests.as_fd(), PollFlags::POLLIN)];
        let mut who = Vec::new();
        for (number, end) in self.ends.iter().enumerate() {
            let mut flags = PollFlags::empty();
            let waited = match end {
                AirEnd::Pty { pair, waiting, .. } => {
                    flags.set(PollFlags::POLLIN, waiting.len() < WAITING_OCTETS_MAX);
                    vec![pair.as_fd()]
                }
                AirEnd::DataPort(port) => {
                    flags.insert(PollFlags::POLLIN);
                    flags.set(PollFlags::POLLOUT, port.holds());
                    port.fds()
                }
            };
            for fd in waited.into_iter().filter(|_| !flags.is_empty()) {
                fds.push(PollFd::new(fd, flags));
                who.push(number);
            }
        }
        let ends = self.ends.iter().filter_map(AirEnd::wake);
        let deadline = ends.chain(self.air.next_event()).min();
        let timeout = deadline.map(|at| self.clock.until(at));
        poll::wait(&mut fds, timeout)?;
        let is_ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
        let ends = who.into_iter().zip(&fds[1..]);
        let ready = ends.filter(|(_, fd)| is_ready(fd)).map(|(end, _)| end);
        Ok((is_ready(&fds[0]), ready.collect()))
    }

    /// Lets happen what happens by `now`, in its order: on the air, and at modems that get room.
    fn catch_up(&mut self, now: Instant) -> Result<(), Error> {
        loop {
            let rooms: Vec<_> = self.ends.iter().map(AirEnd::again).collect();
            let room = rooms.iter().flatten().min().copied();
            let Some(at) = room.into_iter().chain(self.air.next_event()).min() else {
                return Ok(());
            };
            if at > now {
                return Ok(());
            }
            while let Some(event) = self.air.poll(at) {
                self.tell(&event)?;
            }
            for (number, room) in rooms.into_iter().enumerate() {
                if room.is_some_and(|room| room <= at) {
                    self.feed(at, number);
                }
            }
        }
    }

    /// Gives a modem that keys by itself what waits, as far as there is room.
    fn feed(&mut self, now: Instant, end: usize) {
        let AirEnd::Pty { waiting, again, .. } = &mut self.ends[end] else {
            return;
        };
        let station = StationId(end);
        *again = None;
        while !waiting.is_empty() {
            match self.air.room(now, station) {
                Ok(room) => {
                    let octets = waiting.len().min(room.octets);
                    let octets: Vec<u8> = waiting.drain(..octets).collect();
                    self.air.transmit(now, station, None, &octets);
                }
                Err(at) => {
                    *again = at;
                    return;
                }
            }
        }
    }

    fn read(&mut self, end: usize) -> io::Result<()> {
        let now = self.clock.now();
        match &mut self.ends[end] {
            AirEnd::Pty { pair, waiting, .. } => {
                let room = WAITING_OCTETS_MAX.saturating_sub(waiting.len());
                match pair.read(&mut self.buffer[..room]) {
                    Ok(octets) => waiting.extend(&self.buffer[..octets]),
                    Err(error) if is_not_now(&error) => {}
                    Err(error) => return Err(error),
                }
                self.feed(now, end);
            }
            AirEnd::DataPort(port) => {
                let wishes = port.read(now, &mut self.buffer)?;
                self.grant_all(now, end, wishes);
            }
        }
        Ok(())
    }

    fn grant_all(&mut self, now: Instant, end: usize, wishes: Vec<Wish>) {
        for wish in wishes {
            self.grant(now, end, wish);
        }
    }

    fn grant(&mut self, now: Instant, end: usize, wish: Wish) {
        let (key_up, octets, last, mode) = match wish {
            Wish::KeyUp(mode) => (true, Vec::new(), false, mode),
            Wish::Send(octets, last) => (false, octets, last, None),
        };
        let turn = Turn {
            key_up,
            blocks: 0,
            last,
            mode,
        };
        self.air.transmit(now, StationId(end), Some(turn), &octets);
    }

    fn tell(&mut self, event: &MediumEvent) -> Result<(), Error> {
        let StationId(index) = event.station;
        let mode = self.air.mode_heard(event.station);
        let now = self.clock.now();
        let told = match &mut self.ends[index] {
            AirEnd::Pty { pair, .. } => match &event.what {
                Heard::Octets(octets, _) => match pair.write(octets) {
                    Ok(written) => Ok(written == octets.len()),
                    Err(error) if is_not_now(&error) => Ok(false),
                    Err(error) => Err(error),
                },
                // It may have room now.
                Heard::Carrier(_) | Heard::Drained => {
                    self.feed(event.at, index);
                    Ok(true)
                }
                Heard::Frame(..) | Heard::Done { .. } | Heard::Changed | Heard::Neighbour(..) => {
                    Ok(true)
                }
            },
            AirEnd::DataPort(port) => match &event.what {
                Heard::Octets(octets, _) => Ok(port.tell_octets(now, octets)),
                Heard::Carrier(on) => {
                    port.tell_carrier(now, *on, mode);
                    Ok(true)
                }
                Heard::Drained => {
                    port.tell_drained(now);
                    Ok(true)
                }
                Heard::Frame(..) | Heard::Done { .. } | Heard::Changed | Heard::Neighbour(..) => {
                    Ok(true)
                }
            },
        };
        if !told.doing(|| self.lost(index))? {
            self.undelivered[index] += 1;
        }
        Ok(())
    }
}

impl AirEnd {
    fn open(spec: &EndSpec, link: &LinkConfig, side: Side) -> Result<Self, EmulateError> {
        let hf = link.hf_config();
        let keyed_by = hf.map(|hf| hf.keyed_by);
        let wrong = |why: &str| EmulateError::End(EndSpecError::new(why));
        match (spec, keyed_by) {
            (EndSpec::Pty(path), Some(KeyedBy::Data)) => Ok(Self::Pty {
                pair: PtyPair::open(Some(path))?,
                link: path.clone(),
                waiting: VecDeque::new(),
                again: None,
            }),
            (EndSpec::Modem(modem), Some(KeyedBy::Node)) => {
                let waveform = hf.and_then(|hf| hf.waveform(link, side));
                let own = waveform.ok_or_else(|| wrong("the link has no waveform"))?;
                let given = |time: Option<Time>, ms| {
                    time.map_or_else(|| Duration::from_millis(ms), |time| time.0)
                };
                let lead = hf.map_or(Duration::ZERO, |hf| {
                    given(hf.turnaround, 200) + given(hf.preamble, 240)
                });
                let port = DataPort::open(DataPortConfig {
                    address: modem.address,
                    datagrams: modem.datagrams,
                    control: modem.control,
                    receiver_first: modem.receiver_first,
                    own: own.mode,
                    lead,
                })?;
                Ok(Self::DataPort(Box::new(port)))
            }
            (EndSpec::Pty(_), _) => Err(wrong(
                "a pty keys no modem: write keyed_by = \"data\" in the link's [hf], or ends \
                 modem:ADDR:PORT",
            )),
            (EndSpec::Modem(_), _) => Err(wrong(
                "a modem's data port is keyed by its program: leave keyed_by = \"data\" out",
            )),
            _ => Err(wrong("an HF channel has ends modem:ADDR:PORT or pty:PATH")),
        }
    }

    /// When a modem that keys by itself has room again.
    const fn again(&self) -> Option<Instant> {
        match self {
            Self::Pty { again, .. } => *again,
            Self::DataPort(_) => None,
        }
    }

    fn wake(&self) -> Option<Instant> {
        match self {
            Self::Pty { again, .. } => *again,
            Self::DataPort(port) => port.wake(),
        }
    }
}

impl fmt::Display for AirEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pty { pair, link, .. } => {
                let slave = pair.slave_path().display();
                write!(f, "pty:{} ({slave})", link.display())
            }
            Self::DataPort(port) => port.fmt(f),
        }
    }
}
