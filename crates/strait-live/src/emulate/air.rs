//! An HF channel between two modems of this host, in real time: the simulator's [`Air`] with a
//! clock.
//!
//! A pseudo-terminal is a modem that keys when octets come; a data port over TCP is one whose
//! program keys it. What happens on the air happens at its time there, however late the emulator
//! comes to it; only what is handed over is then late.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use strait_channel::Side;
use strait_channel::hf::{Air, AirEvent, Heard, KeyedBy, PathId, StationId};
use strait_core::node::Turn;
use strait_core::time::Instant;

use super::data_port::{DataPort, Wish};
use super::end::{EndSpec, EndSpecError};
use super::report::{DirectionReport, EmulateReport};
use super::{BUFFER_OCTETS, EmulateConfig, EmulateError, lost, report};
use crate::clock::Clock;
use crate::error::{Doing, Error};
use crate::port_io::is_not_now;
use crate::pty::PtyPair;
use crate::schedule;
use crate::signals::{SignalGuard, StopRequests, Stopper};

/// Octets that wait at a modem that keys when octets come: as many as a UART's driver takes from
/// its program before it makes it wait.
const WAITING_OCTETS_MAX: usize = 4096;

/// An HF channel between two modems.
pub struct AirEmulator {
    clock: Clock,
    config: EmulateConfig,
    air: Air,
    path: PathId,
    ends: [AirEnd; 2],
    /// Octets, or blocks, that arrived and nobody took, by sender.
    undelivered: [u64; 2],
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
    /// Opens both ends. The channel's time begins now.
    ///
    /// # Errors
    /// The link or an end can't work, or the host refuses something.
    pub fn open(config: EmulateConfig) -> Result<Self, EmulateError> {
        let link = &config.link;
        let mut air = Air::default();
        let mut stations = [StationId(0); 2];
        for side in Side::BOTH {
            let name = format!("{} {}", config.name, report::side_name(side));
            let station = air.add_station(link, side, &name, config.seed);
            stations[side.index()] = station.map_err(EmulateError::Link)?;
        }
        let path = air.add_path(stations, link, &config.name, config.seed);
        let path = path.map_err(EmulateError::Link)?;
        let end = |side: Side| AirEnd::open(&config, side);
        Ok(Self {
            clock: Clock::start(),
            ends: [end(Side::A)?, end(Side::B)?],
            air,
            path,
            undelivered: [0; 2],
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
        let [a, b] = &self.ends;
        let rate = report::rate_text(&self.config.link);
        format!("{}: up: a={a}, b={b}; HF, {rate}", self.config.name)
    }

    /// What happened so far.
    pub fn report(&self) -> EmulateReport {
        let uptime_s = self.clock.now().as_secs_f64();
        let direction = |side: Side| {
            let stats = self.air.stats(self.path, side);
            let mut report = DirectionReport::new(&self.config.link, side, stats, uptime_s);
            report.undelivered = self.undelivered[side.index()];
            report
        };
        EmulateReport {
            link: self.config.name.clone(),
            seed: self.config.seed,
            uptime_s,
            directions: Side::BOTH.map(direction).into(),
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
            let ready = self.wait().doing(|| "wait for the modems")?;
            if ready[2] && self.requests.take() > 0 {
                return Ok(());
            }
            self.catch_up(self.clock.now())?;
            for side in Side::BOTH {
                if ready[side.index()] {
                    self.read(side).doing(|| lost(side))?;
                }
                let now = self.clock.now();
                if let AirEnd::DataPort(port) = &mut self.ends[side.index()] {
                    port.tick(now).doing(|| lost(side))?;
                }
            }
            self.catch_up(self.clock.now())?;
        }
    }

    fn wait(&self) -> Result<[bool; 3], Errno> {
        let mut fds = vec![PollFd::new(self.requests.as_fd(), PollFlags::POLLIN)];
        let mut who = vec![2];
        for side in Side::BOTH {
            let mut flags = PollFlags::empty();
            let fd = match &self.ends[side.index()] {
                AirEnd::Pty { pair, waiting, .. } => {
                    flags.set(PollFlags::POLLIN, waiting.len() < WAITING_OCTETS_MAX);
                    pair.as_fd()
                }
                AirEnd::DataPort(port) => {
                    flags.insert(PollFlags::POLLIN);
                    flags.set(PollFlags::POLLOUT, port.holds());
                    port.fd()
                }
            };
            if !flags.is_empty() {
                fds.push(PollFd::new(fd, flags));
                who.push(side.index());
            }
        }
        let ends = self.ends.iter().filter_map(AirEnd::wake);
        let deadline = ends.chain(self.air.next_event()).min();
        let timeout = deadline.map(|at| self.clock.until(at));
        match ppoll(&mut fds, timeout.map(TimeSpec::from_duration), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        let mut ready = [false; 3];
        for (who, fd) in who.into_iter().zip(&fds) {
            ready[who] = fd.any().unwrap_or(true);
        }
        Ok(ready)
    }

    /// Lets happen what happens by `now`, in its order: on the air, and at modems that get room.
    fn catch_up(&mut self, now: Instant) -> Result<(), Error> {
        loop {
            let rooms = Side::BOTH.map(|side| match &self.ends[side.index()] {
                AirEnd::Pty { again, .. } => *again,
                AirEnd::DataPort(_) => None,
            });
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
            for side in Side::BOTH {
                if rooms[side.index()].is_some_and(|room| room <= at) {
                    self.feed(at, side);
                }
            }
        }
    }

    /// Gives a modem that keys by itself what waits, as far as there is room.
    fn feed(&mut self, now: Instant, side: Side) {
        let AirEnd::Pty { waiting, again, .. } = &mut self.ends[side.index()] else {
            return;
        };
        let station = StationId(side.index());
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

    fn read(&mut self, side: Side) -> io::Result<()> {
        let now = self.clock.now();
        match &mut self.ends[side.index()] {
            AirEnd::Pty { pair, waiting, .. } => {
                let room = WAITING_OCTETS_MAX.saturating_sub(waiting.len());
                match pair.read(&mut self.buffer[..room]) {
                    Ok(octets) => waiting.extend(&self.buffer[..octets]),
                    Err(error) if is_not_now(&error) => {}
                    Err(error) => return Err(error),
                }
                self.feed(now, side);
            }
            AirEnd::DataPort(port) => {
                port.flush()?;
                for wish in port.read(now, &mut self.buffer)? {
                    self.grant(now, side, wish);
                }
            }
        }
        Ok(())
    }

    fn grant(&mut self, now: Instant, side: Side, wish: Wish) {
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
        let station = StationId(side.index());
        self.air.transmit(now, station, Some(turn), &octets);
    }

    fn tell(&mut self, event: &AirEvent) -> Result<(), Error> {
        let StationId(index) = event.station;
        let mode = self.air.mode_heard(event.station);
        let (side, now) = (Side::BOTH[index], self.clock.now());
        let told = match &mut self.ends[index] {
            AirEnd::Pty { pair, .. } => match &event.what {
                Heard::Octets(octets, _) => match pair.write(octets) {
                    Ok(written) => Ok(written == octets.len()),
                    Err(error) if is_not_now(&error) => Ok(false),
                    Err(error) => Err(error),
                },
                // It may have room now.
                Heard::Carrier(_) | Heard::Drained => {
                    self.feed(event.at, side);
                    Ok(true)
                }
            },
            AirEnd::DataPort(port) => match &event.what {
                Heard::Octets(octets, _) => port.tell_octets(now, octets),
                Heard::Carrier(on) => port.tell_carrier(now, *on, mode).map(|()| true),
                Heard::Drained => port.tell_drained(now).map(|()| true),
            },
        };
        if !told.doing(|| lost(side))? {
            self.undelivered[side.other().index()] += 1;
        }
        Ok(())
    }
}

impl AirEnd {
    fn open(config: &EmulateConfig, side: Side) -> Result<Self, EmulateError> {
        let spec = &config.ends[side.index()];
        let hf = config.link.hf.as_ref();
        let keyed_by = hf.map(|hf| hf.keyed_by);
        let wrong = |why: &str| EmulateError::End(EndSpecError::new(why));
        match (spec, keyed_by) {
            (EndSpec::Pty(link), Some(KeyedBy::Data)) => Ok(Self::Pty {
                pair: PtyPair::open(Some(link))?,
                link: link.clone(),
                waiting: VecDeque::new(),
                again: None,
            }),
            (EndSpec::Modem(address) | EndSpec::ModemUdp(address), Some(KeyedBy::Node)) => {
                let waveform = hf.and_then(|hf| hf.waveform(&config.link, side));
                let own = waveform.ok_or_else(|| wrong("the link has no waveform"))?;
                let port = match spec {
                    EndSpec::ModemUdp(_) => DataPort::over_udp(*address, own.mode)?,
                    _ => DataPort::new(*address, own.mode)?,
                };
                Ok(Self::DataPort(Box::new(port)))
            }
            (EndSpec::Pty(_), _) => Err(wrong(
                "a pty keys no modem: write keyed_by = \"data\" in the link's [hf], or ends \
                 modem:ADDR:PORT",
            )),
            (EndSpec::Modem(_) | EndSpec::ModemUdp(_), _) => Err(wrong(
                "a modem's data port is keyed by its program: leave keyed_by = \"data\" out",
            )),
            _ => Err(wrong("an HF channel has ends modem:ADDR:PORT or pty:PATH")),
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
