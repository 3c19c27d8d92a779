//! Any medium that can be emulated.

use strait_channel::LinkKind;
use strait_live::error::Error;
use strait_live::signals::SignalGuard;

use super::{
    AirEmulator, CellEmulator, EmulateConfig, EmulateError, EmulateReport, Emulator, NetConfig,
    NetPath,
};

/// A line, or a channel that many share.
pub enum Medium {
    /// A line.
    Line(Box<Emulator>),
    /// An HF channel.
    Air(Box<AirEmulator>),
    /// A cell of packet radio.
    Cell(Box<CellEmulator>),
}

impl Medium {
    /// Opens both ends of what the link is. Its time begins now.
    ///
    /// # Errors
    /// The link or an end can't work, or the host refuses something.
    pub fn open(config: EmulateConfig) -> Result<Self, EmulateError> {
        Ok(if config.link.kind.is_shared() {
            Self::open_net(config.into())?
        } else {
            Self::Line(Box::new(Emulator::open(config)?))
        })
    }

    /// Opens all modems of a net. Its time begins now.
    ///
    /// # Errors
    /// A link or an end can't work, or the host refuses something.
    pub fn open_net(config: NetConfig) -> Result<Self, EmulateError> {
        let cell = |path: &NetPath| matches!(path.link.kind, LinkKind::Cell(_));
        Ok(if config.paths.iter().any(cell) {
            Self::Cell(Box::new(CellEmulator::open(config)?))
        } else {
            Self::Air(Box::new(AirEmulator::open(config)?))
        })
    }

    /// Lets SIGINT, SIGTERM and SIGHUP end the run.
    ///
    /// # Errors
    /// The handlers can't be set.
    pub fn stop_on_signals(&self) -> Result<SignalGuard, Error> {
        match self {
            Self::Line(line) => line.stop_on_signals(),
            Self::Air(air) => air.stop_on_signals(),
            Self::Cell(cell) => cell.stop_on_signals(),
        }
    }

    /// One line that says what is up.
    pub fn ready_line(&self) -> String {
        match self {
            Self::Line(line) => line.ready_line(),
            Self::Air(air) => air.ready_line(),
            Self::Cell(cell) => cell.ready_line(),
        }
    }

    /// Runs until asked to stop. What is under way then is lost.
    ///
    /// # Errors
    /// An end's device is gone, or the system can't wait for descriptors any more.
    pub fn run(&mut self) -> Result<(), Error> {
        match self {
            Self::Line(line) => line.run(),
            Self::Air(air) => air.run(),
            Self::Cell(cell) => cell.run(),
        }
    }

    /// What happened so far.
    pub fn report(&self) -> EmulateReport {
        match self {
            Self::Line(line) => line.report(),
            Self::Air(air) => air.report(),
            Self::Cell(cell) => cell.report(),
        }
    }
}
