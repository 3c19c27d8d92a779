//! What a driver knows of any medium: a line, a radio channel, a cell.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use strait_core::NeighbourId;
use strait_core::id::TxId;
use strait_core::node::{FrameMeta, PortState, Room, TxMeta};
use strait_core::time::Instant;

use crate::Side;
use crate::cell::Cell;
use crate::config::{LinkConfig, LinkKind};
use crate::hf::{Air, StationStats};
use crate::line::Line;
use crate::stats::ChannelStats;
use strait_core::keys::KeyError;

/// A station of a medium, by its number in the order of construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StationId(pub usize);

/// A path between two stations, by its number in the order of construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathId(pub usize);

/// Takes octets whose arrival is certain when they are sent: when they arrive and at which station.
/// The buffer may be taken.
pub type Deliver<'a> = dyn FnMut(Instant, StationId, &mut Vec<u8>) + 'a;

/// Something between any number of stations. The simulator and the emulator drive the same ones
/// and don't ask which kind they have.
///
/// What a medium decides when octets are sent it hands over at once; what depends on others until
/// the octets have arrived, it keeps on an agenda of its own: a driver polls up to the moment at
/// which it asks for room or sends. `now` never goes back.
pub trait Medium: fmt::Debug {
    /// How many stations there are.
    fn stations(&self) -> usize;

    /// A further station of a shared medium, as `config` describes it for its end `side`. Name and
    /// seed select its randomness.
    ///
    /// # Errors
    /// What [`LinkConfig::validate`] finds, or that only two ends can be here.
    fn add_station(
        &mut self,
        _config: &LinkConfig,
        _side: Side,
        _name: &str,
        _seed: u64,
    ) -> Result<StationId, KeyError> {
        Err(NOT_SHARED)
    }

    /// A path of a shared medium, by which two stations hear each other.
    ///
    /// # Errors
    /// What [`LinkConfig::validate`] finds, or that only two ends can be here.
    fn add_path(
        &mut self,
        _ends: [StationId; 2],
        _config: &LinkConfig,
        _name: &str,
        _seed: u64,
    ) -> Result<PathId, KeyError> {
        Err(NOT_SHARED)
    }

    /// What a station's node calls another station, where frames are for one of them.
    fn introduce(&mut self, _station: StationId, _name: NeighbourId, _other: StationId) {}

    /// What a station may send now.
    ///
    /// # Errors
    /// When to ask again; `None` if the station hears of it.
    fn room(&mut self, now: Instant, station: StationId) -> Result<Room, Option<Instant>>;

    /// Sends octets that fit the room given at the same `now`, and takes them.
    fn transmit(
        &mut self,
        now: Instant,
        station: StationId,
        meta: &TxMeta,
        octets: &mut Vec<u8>,
        deliver: &mut Deliver<'_>,
    );

    /// When to poll next.
    fn next_event(&self) -> Option<Instant>;

    /// The next thing that a station is to be told, of what happens by `now`. To be asked until
    /// there is none; the station's node answers each before the next is taken.
    fn poll(&mut self, now: Instant) -> Option<MediumEvent>;

    /// State of a station's port; `None` while nobody is within its reach.
    fn state(&self, now: Instant, station: StationId) -> Option<PortState>;

    /// Whether a station hears another's transmission, as far as it was told.
    fn carrier(&self, _station: StationId) -> bool {
        false
    }

    /// A station ends without warning: what hasn't left is lost.
    fn silence(&mut self, _now: Instant, _station: StationId) {}

    /// A path is unplugged, or plugged again. What is on its way still arrives. Stations that can
    /// know of it are told ([`Heard::Neighbour`]).
    fn plug(&mut self, now: Instant, path: PathId, there: bool);

    /// From now on nothing is left to chance. What has been sent stays as it is.
    fn heal(&mut self);

    /// Frames, or blocks, on the medium's own agenda.
    fn under_way(&self) -> usize {
        0
    }

    /// What happened to what the end `from` of a path sent.
    fn stats(&self, path: PathId, from: Side) -> &ChannelStats;

    /// What a station counts, where stations count something of their own.
    fn station_stats(&self, _station: StationId) -> Option<&StationStats> {
        None
    }
}

const NOT_SHARED: KeyError = KeyError::new("kind", "is no shared channel: it has two ends");

impl LinkConfig {
    /// A medium of this kind: a line with its two stations, or a shared channel with none yet.
    ///
    /// # Errors
    /// What [`LinkConfig::validate`] finds.
    pub fn medium(&self, name: &str, seed: u64) -> Result<Box<dyn Medium>, KeyError> {
        self.validate()?;
        Ok(match self.kind {
            LinkKind::Serial(_) | LinkKind::Frames => Box::new(Line::new(self, name, seed)?),
            LinkKind::Hf(_) => Box::<Air>::default(),
            LinkKind::Cell(_) => Box::new(Cell::new(self)?),
        })
    }
}

/// Something that a station is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediumEvent {
    /// When.
    pub at: Instant,
    /// Which station.
    pub station: StationId,
    /// What.
    pub what: Heard,
}

/// What a station is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Octets, bit errors in them, and what the medium knows of them.
    Octets(Vec<u8>, FrameMeta),
    /// A frame of another station, whom the medium names.
    Frame(StationId, Vec<u8>),
    /// Another station's transmission is there, or gone.
    Carrier(bool),
    /// All that the station sent has left.
    Drained,
    /// The medium is done with a transmission to a neighbour, and knows what became of it.
    Done {
        /// The number that the transmission had.
        id: TxId,
        /// For whom it was.
        to: NeighbourId,
        /// Whether it was delivered.
        ok: bool,
    },
    /// The state of the station's port is another one.
    Changed,
    /// Another station came within reach, or went.
    Neighbour(StationId, bool),
}
