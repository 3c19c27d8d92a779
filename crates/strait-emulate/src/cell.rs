//! A cell of packet radio between KISS modems of this host, in real time: the simulator's medium
//! with a clock.
//!
//! A modem takes a frame from its program while its card has room, and gives notice when the cell
//! is done with it. Which station has a call sign, the net file says, or else the modems learn from
//! what it sends; frames for others go to all. So it is with Ethernet interfaces, the cards of this
//! kernel.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use strait_channel::{Heard, LinkConfig, Medium, MediumEvent, PathId, Side, StationId};
use strait_core::id::{ClassId, NeighbourId, TxId};
use strait_core::node::TxMeta;
use strait_core::time::Instant;
use strait_live::clock::Clock;
use strait_live::error::{Doing, Error};
use strait_live::kernel::schedule;
use strait_live::poll;
use strait_live::signals::{SignalGuard, StopRequests};
use strait_wire::ax25::{Station, UiFrame};
use strait_wire::ethernet::{self, Mac};

use super::end::{End, EndSpecError};
use super::net::NetConfig;
use super::report::{self, EmulateReport};
use super::{BUFFER_OCTETS, EmulateError};

/// Names of stations that are kept in mind.
const NAMES_MAX: usize = 256;

/// What frames call a station.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Call(Station),
    Ethernet(Mac),
}

/// A cell between modems.
pub struct CellEmulator {
    clock: Clock,
    config: NetConfig,
    cell: Box<dyn Medium>,
    paths: Vec<PathId>,
    ends: Vec<End>,
    /// Who is where.
    names: BTreeMap<Name, usize>,
    /// By receiver: frames that arrived and nobody took.
    undelivered: Vec<u64>,
    sent: u64,
    requests: StopRequests,
    buffer: Vec<u8>,
}

impl CellEmulator {
    /// Opens all ends. The cell's time begins now.
    ///
    /// # Errors
    /// A link or an end can't work, or the host refuses something.
    pub fn open(config: NetConfig) -> Result<Self, EmulateError> {
        let needs = |why: &str| EmulateError::End(EndSpecError::new(why));
        let link = config.paths.first().map(|path| path.link.clone());
        let link = link.ok_or_else(|| needs("a cell needs a path"))?;
        if config.paths.iter().any(|path| path.link != link) {
            return Err(needs("all paths of a cell have one link file"));
        }
        let wrong = EmulateError::Link;
        let mut cell = link.medium(&config.name, config.seed).map_err(wrong)?;
        let (mut stations, mut ends) = (Vec::new(), Vec::new());
        let mtu = link.direction(Side::A).frame_octets_max;
        let mtu = mtu.unwrap_or(LinkConfig::FRAME_OCTETS_MAX);
        for (name, spec) in &config.ends {
            let station = cell.add_station(&link, Side::A, name, config.seed);
            stations.push(station.map_err(wrong)?);
            spec.fits(&link.kind).map_err(EmulateError::End)?;
            ends.push(End::open(spec, mtu, Instant::ZERO)?);
        }
        let mut paths = Vec::new();
        for path in &config.paths {
            let [a, b] = path.between.map(|end| stations[end]);
            let added = cell.add_path([a, b], &path.link, &path.name, config.seed);
            paths.push(added.map_err(wrong)?);
            cell.introduce(a, name_of(b), b);
            cell.introduce(b, name_of(a), a);
        }
        Ok(Self {
            clock: Clock::start(),
            cell,
            paths,
            undelivered: vec![0; ends.len()],
            ends,
            names: (config.calls.iter())
                .map(|(call, end)| (Name::Call(*call), *end))
                .collect(),
            sent: 0,
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

    /// One line that says what is up.
    pub fn ready_line(&self) -> String {
        let ends = self.config.ends.iter().zip(&self.ends);
        let ends: Vec<_> = ends
            .map(|((name, _), end)| format!("{name}={end}"))
            .collect();
        let rate = self.config.paths.first();
        let rate = rate
            .map(|path| report::rate_text(&path.link))
            .unwrap_or_default();
        format!(
            "{}: up: {}; a cell, {rate}",
            self.config.name,
            ends.join(", ")
        )
    }

    /// What happened so far.
    pub fn report(&self) -> EmulateReport {
        let uptime_s = self.clock.now().as_secs_f64();
        let stats = |path: usize, side| self.cell.stats(self.paths[path], side);
        EmulateReport {
            link: self.config.name.clone(),
            seed: self.config.seed,
            uptime_s,
            directions: report::directions(&self.config, uptime_s, &self.undelivered, stats),
            modems: Vec::new(),
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
            let stop = self.wait().doing(|| "wait for the modems")?;
            if stop && self.requests.take() > 0 {
                return Ok(());
            }
            let now = self.clock.now();
            self.catch_up(now)?;
            for end in 0..self.ends.len() {
                self.read(now, end).doing(|| self.lost(end))?;
            }
            self.catch_up(now)?;
        }
    }

    fn lost(&self, end: usize) -> String {
        format!("use end {}", self.config.ends[end].0)
    }

    /// Waits until something comes or happens. Says whether somebody asked to stop.
    fn wait(&mut self) -> Result<bool, Errno> {
        let now = self.clock.now();
        let mut fds = vec![PollFd::new(self.requests.as_fd(), PollFlags::POLLIN)];
        let mut next = self.cell.next_event();
        for (number, end) in self.ends.iter().enumerate() {
            let mut flags = PollFlags::empty();
            let room = self.cell.room(now, StationId(number));
            flags.set(PollFlags::POLLIN, room.is_ok());
            if let Err(Some(at)) = room {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
            flags.set(PollFlags::POLLOUT, end.holds());
            if let Some(fd) = end.fd().filter(|_| !flags.is_empty()) {
                fds.push(PollFd::new(fd, flags));
            }
        }
        let timeout = next.map(|at| self.clock.until(at));
        poll::wait(&mut fds, timeout)?;
        Ok(fds[0].any().unwrap_or(true))
    }

    /// Lets happen what happens by `now`, in its order.
    fn catch_up(&mut self, now: Instant) -> Result<(), Error> {
        while let Some(at) = self.cell.next_event().filter(|at| *at <= now) {
            while let Some(event) = self.cell.poll(at) {
                let end = event.station.0;
                self.tell(now, event).doing(|| self.lost(end))?;
                // Its card may have room now.
                self.read(now.max(at), end).doing(|| self.lost(end))?;
            }
        }
        Ok(())
    }

    fn tell(&mut self, now: Instant, event: MediumEvent) -> io::Result<()> {
        let end = &mut self.ends[event.station.0];
        match event.what {
            Heard::Frame(_, octets) => {
                let taken = end.write(now, &octets)?;
                self.undelivered[event.station.0] += u64::from(!taken);
            }
            Heard::Done { .. } => {
                end.left(now);
                end.tick(now)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes what a program has for its modem, as far as the card has room.
    fn read(&mut self, now: Instant, end: usize) -> io::Result<()> {
        self.ends[end].flush(now)?;
        while self.cell.room(now, StationId(end)).is_ok() {
            let Some(octets) = self.ends[end].read(now, &mut self.buffer)? else {
                return Ok(());
            };
            let mut frame = self.buffer[..octets].to_vec();
            let to = self.receiver(end, &frame);
            self.sent += 1;
            let meta = TxMeta {
                to,
                class: ClassId(0),
                id: TxId(self.sent),
                turn: None,
            };
            self.cell
                .transmit(now, StationId(end), &meta, &mut frame, &mut |_, _, _| {});
        }
        Ok(())
    }

    /// For whom a frame is, as its addresses say.
    fn receiver(&mut self, from: usize, frame: &[u8]) -> NeighbourId {
        let [source, destination] = match &self.ends[from] {
            End::Modem(_) => match UiFrame::parse(frame) {
                Some(ui) => [ui.source, ui.destination].map(Name::Call),
                None => return NeighbourId::ALL,
            },
            _ => match ethernet::Frame::parse(frame) {
                Some(frame) => [frame.src, frame.dst].map(Name::Ethernet),
                None => return NeighbourId::ALL,
            },
        };
        if self.names.len() < NAMES_MAX || self.names.contains_key(&source) {
            self.names.insert(source, from);
        }
        let to = self.names.get(&destination).filter(|to| **to != from);
        to.map_or(NeighbourId::ALL, |to| name_of(StationId(*to)))
    }
}

/// What the others call a station.
fn name_of(station: StationId) -> NeighbourId {
    NeighbourId(station.0 as u16)
}
