//! HF radio: stations that share a channel, one of which at a time is understood.
//!
//! A station keys its transmitter, which takes a turnaround, sends a preamble and then blocks of
//! its waveform's interleaver, each whole, and stops. The others hear power (after a while they are
//! told), and get each block's octets when it is over and decoded. Who hears whom is a matter of
//! paths between pairs of stations. Where two transmissions meet at a receiver, or one meets the
//! receiver's own, nothing more of them is understood.
//!
//! What comes of octets depends on what others do until they have arrived. So unlike a
//! [`crate::Line`] this medium has an agenda: the driver asks [`Air::next_event`] when to come back
//! and takes what has happened from [`Air::poll`], in virtual time or in real time.

mod config;
mod decoder;
mod fading;
mod noise;
mod path;
mod station;
#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use strait_core::node::{FrameMeta, PortState, Room, Turn, TxMeta};
use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;

use self::config::Modem;
pub use self::config::{HfConfig, KeyedBy, TraceError};
pub use self::fading::{Condition, HfChannel, TracePoint, Variation};
use self::path::{Carried, Path};
use self::station::{Cut, Station};
use crate::config::{LinkConfig, LinkKind};
use crate::stats::ChannelStats;
use crate::{Deliver, Heard, LossCause, Medium, MediumEvent, PathId, Side, StationId};
use strait_core::keys::KeyError;

pub use self::station::StationStats;

/// Something that is to happen.
#[derive(Clone, Debug)]
enum Step {
    /// A station's power comes on.
    On { station: usize, keying: u64 },
    /// Its next block begins.
    Block { station: usize, keying: u64 },
    /// Its power goes off.
    Off { station: usize, keying: u64 },
    /// Power reaches a receiver.
    Rises {
        path: usize,
        to: Side,
        keying: u64,
        power: Power,
    },
    /// It is gone there.
    Falls { path: usize, to: Side, keying: u64 },
    /// A receiver may have noticed.
    Detect { station: usize, change: u64 },
    /// A block is decoded.
    Deliver { path: usize, to: Side, block: Block },
    /// Nothing more comes of a transmission.
    Over { station: usize, keying: u64 },
}

/// A transmission as it reaches a receiver.
#[derive(Clone, Copy, Debug)]
struct Power {
    /// When its first block begins, as its sender sees it.
    data: Instant,
    /// From the end of a block to its octets.
    decode: Duration,
    /// The waveform, which its preamble tells.
    mode: Mode,
}

/// A block on its way to one receiver.
#[derive(Clone, Debug)]
struct Block {
    keying: u64,
    /// When its last bit is there.
    ends: Instant,
    octets: Vec<u8>,
    carried: Carried,
}

/// Stations and the paths between them. Paths that have no station in common don't touch.
///
/// A driver polls up to the moment at which it asks for room or sends.
#[derive(Clone, Debug, Default)]
pub struct Air {
    stations: Vec<Station>,
    paths: Vec<Path>,
    agenda: BTreeMap<(Instant, u64), Step>,
    planned: u64,
    keyings: u64,
}

impl Air {
    /// A station with the modem and radio that `config` describes for its end `side`. Name and seed
    /// select its randomness.
    ///
    /// # Errors
    /// What [`LinkConfig::validate`] finds.
    pub fn add_station(
        &mut self,
        config: &LinkConfig,
        side: Side,
        name: &str,
        seed: u64,
    ) -> Result<StationId, KeyError> {
        config.validate()?;
        let modem = Modem::new(config, side).ok_or(NOT_HF)?;
        self.stations.push(Station::new(modem, name, seed));
        Ok(StationId(self.stations.len() - 1))
    }

    /// A path between two stations, each of which hears the other by it.
    ///
    /// # Errors
    /// What [`LinkConfig::validate`] finds.
    pub fn add_path(
        &mut self,
        ends: [StationId; 2],
        config: &LinkConfig,
        name: &str,
        seed: u64,
    ) -> Result<PathId, KeyError> {
        config.validate()?;
        if !matches!(config.kind, LinkKind::Hf(_)) {
            return Err(NOT_HF);
        }
        let ends = ends.map(|end| end.0);
        let number = self.paths.len();
        self.paths.push(Path::new(ends, config, name, seed));
        for (end, side) in ends.into_iter().zip(Side::BOTH) {
            let delay = self.paths[number].delay(side);
            self.stations[end].join(number, side, delay);
        }
        Ok(PathId(number))
    }

    /// What a station may send now.
    ///
    /// # Errors
    /// When to ask again; `None` if the station hears of it.
    pub fn room(&mut self, now: Instant, station: StationId) -> Result<Room, Option<Instant>> {
        self.stations[station.0].room(now)
    }

    /// Sends octets that fit the room given at the same `now`. A turn of 0 blocks lasts as long as
    /// octets come. Without a turn they are one of their own, unless the modem keys by itself. More
    /// than fits, or a second key-up within a turn, is counted and goes nowhere.
    pub fn transmit(
        &mut self,
        now: Instant,
        station: StationId,
        turn: Option<Turn>,
        octets: &[u8],
    ) {
        let StationId(station) = station;
        let keying = self.keyings + 1;
        let Some(keyed) = self.stations[station].send(now, turn, octets, keying) else {
            return;
        };
        self.keyings = keying;
        self.plan(keyed.power, Step::On { station, keying });
        self.plan(keyed.data, Step::Block { station, keying });
        self.sense(now, station);
    }

    /// A station ends without warning: its power goes off, and what hasn't left is lost.
    pub fn cut(&mut self, now: Instant, station: StationId) {
        let StationId(number) = station;
        let Some(Cut {
            keying,
            power,
            over,
        }) = self.stations[number].cut()
        else {
            return;
        };
        if power {
            self.falls(now, number, keying, over);
            for (path, side) in self.stations[number].paths().to_vec() {
                let to = side.other();
                let there = now + self.paths[path].delay(side);
                let receiver = self.paths[path].ends[to.index()];
                self.stations[receiver].spoil(keying, there, LossCause::Outage);
            }
        }
        self.sense(now, number);
    }

    /// When something happens next.
    pub fn next_event(&self) -> Option<Instant> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next thing that a station is to be told, of what happens by `now`. To be asked until
    /// there is none; the station's node answers each before the next is taken.
    pub fn poll(&mut self, now: Instant) -> Option<MediumEvent> {
        while let Some(entry) = self
            .agenda
            .first_entry()
            .filter(|entry| entry.key().0 <= now)
        {
            let ((at, _), step) = entry.remove_entry();
            if let Some((station, what)) = self.happen(at, step) {
                let station = StationId(station);
                return Some(MediumEvent { at, station, what });
            }
        }
        None
    }

    /// State of a station's port.
    pub fn state(&self, station: StationId) -> PortState {
        self.stations[station.0].state()
    }

    /// Whether a station hears another's power, as far as it was told.
    pub fn carrier(&self, station: StationId) -> bool {
        self.stations[station.0].carrier()
    }

    /// The waveform of the transmission that reached a station last, as its modem knows by the
    /// preamble: receivers follow what is sent.
    pub fn mode_heard(&self, station: StationId) -> Option<Mode> {
        self.stations[station.0].heard()
    }

    /// What happened to what the end `from` of a path sent.
    pub fn stats(&self, path: PathId, from: Side) -> &ChannelStats {
        &self.paths[path.0].way(from).stats
    }

    /// What a station counts.
    pub fn station_stats(&self, station: StationId) -> &StationStats {
        &self.stations[station.0].stats
    }

    /// Blocks on their way, and not decoded yet.
    pub fn under_way(&self) -> usize {
        let blocks = self.agenda.values();
        blocks
            .filter(|step| matches!(step, Step::Deliver { .. }))
            .count()
    }

    /// From now on nothing is left to chance. What has been sent stays as it is.
    pub fn heal(&mut self) {
        self.paths.iter_mut().for_each(Path::heal);
    }

    fn plan(&mut self, at: Instant, step: Step) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), step);
    }

    fn happen(&mut self, at: Instant, step: Step) -> Option<(usize, Heard)> {
        match step {
            Step::On { station, keying } => {
                let power = self.stations[station].power_on(keying)?;
                for (path, side) in self.stations[station].paths().to_vec() {
                    let there = at + self.paths[path].delay(side);
                    let to = side.other();
                    self.plan(
                        there,
                        Step::Rises {
                            path,
                            to,
                            keying,
                            power,
                        },
                    );
                }
                None
            }
            Step::Block { station, keying } => {
                self.begin_block(at, station, keying);
                None
            }
            Step::Off { station, keying } => {
                let (power, decode) = self.stations[station].power_off(at, keying)?;
                for (path, side) in self.stations[station].paths().to_vec() {
                    self.paths[path].count_power(side, power);
                }
                self.falls(at, station, keying, decode);
                self.sense(at, station);
                Some((station, Heard::Drained))
            }
            Step::Rises {
                path,
                to,
                keying,
                power,
            } => {
                let lost = self.paths[path].loses(to.other(), (at, power.data));
                let receiver = self.paths[path].ends[to.index()];
                self.stations[receiver].rises(at, keying, power, lost);
                self.sense(at, receiver);
                None
            }
            Step::Falls { path, to, keying } => {
                let receiver = self.paths[path].ends[to.index()];
                self.stations[receiver].falls(keying);
                self.sense(at, receiver);
                None
            }
            Step::Detect { station, change } => {
                let carrier = self.stations[station].detect(at, change)?;
                Some((station, Heard::Carrier(carrier)))
            }
            Step::Deliver { path, to, block } => {
                let receiver = self.paths[path].ends[to.index()];
                let meets = || self.stations[receiver].lost(block.keying, block.ends);
                let lost = block.carried.lost.or_else(meets);
                if let Some(cause) = lost {
                    self.paths[path].count_loss(to.other(), cause, block.octets.len());
                    return None;
                }
                let mode = self.stations[receiver].heard();
                let meta = FrameMeta {
                    damaged: false,
                    snr_centi_db: block.carried.snr_centi_db,
                    rate_bit_s: mode.map(|mode| mode.rate_bit_s),
                };
                let heard = Heard::Octets(block.octets, meta);
                Some((receiver, heard))
            }
            Step::Over { station, keying } => {
                self.stations[station].forget(keying);
                None
            }
        }
    }

    /// A block begins: what is in it is fixed now.
    fn begin_block(&mut self, at: Instant, station: usize, keying: u64) {
        let Some(begun) = self.stations[station].begin_block(keying) else {
            return;
        };
        let next = match begun.over {
            Some(off) => (off, Step::Off { station, keying }),
            None => (begun.ends, Step::Block { station, keying }),
        };
        self.plan(next.0, next.1);
        if begun.octets.is_empty() {
            return;
        }
        let decode = begun.decode;
        for (path, side) in self.stations[station].paths().to_vec() {
            let (mut octets, ends) = (begun.octets.clone(), begun.ends);
            let place = (begun.mode, begun.first_bit);
            let carried = self.paths[path].carry(side, (at, ends), place, &mut octets);
            let there = ends + self.paths[path].delay(side);
            let to = side.other();
            let block = Block {
                keying,
                ends: there,
                octets,
                carried,
            };
            self.plan(there + decode, Step::Deliver { path, to, block });
        }
    }

    /// A station's power goes off, and is gone at the others a while later. `over` after that,
    /// nothing of what it sent is under way.
    fn falls(&mut self, at: Instant, station: usize, keying: u64, over: Duration) {
        for (path, side) in self.stations[station].paths().to_vec() {
            let there = at + self.paths[path].delay(side);
            let to = side.other();
            let receiver = self.paths[path].ends[to.index()];
            self.plan(there, Step::Falls { path, to, keying });
            self.plan(
                there + over,
                Step::Over {
                    station: receiver,
                    keying,
                },
            );
        }
    }

    /// Looks whether there is power at a station, and plans that its modem notices.
    fn sense(&mut self, at: Instant, station: usize) {
        if let Some((after, change)) = self.stations[station].sense() {
            self.plan(at + after, Step::Detect { station, change });
        }
    }
}

/// Who sends is in the octets, if anywhere. Stations don't notice that others come and go.
impl Medium for Air {
    fn stations(&self) -> usize {
        self.stations.len()
    }

    fn add_station(
        &mut self,
        config: &LinkConfig,
        side: Side,
        name: &str,
        seed: u64,
    ) -> Result<StationId, KeyError> {
        Self::add_station(self, config, side, name, seed)
    }

    fn add_path(
        &mut self,
        ends: [StationId; 2],
        config: &LinkConfig,
        name: &str,
        seed: u64,
    ) -> Result<PathId, KeyError> {
        Self::add_path(self, ends, config, name, seed)
    }

    fn room(&mut self, now: Instant, station: StationId) -> Result<Room, Option<Instant>> {
        Self::room(self, now, station)
    }

    fn transmit(
        &mut self,
        now: Instant,
        station: StationId,
        meta: &TxMeta,
        octets: &mut Vec<u8>,
        _deliver: &mut Deliver<'_>,
    ) {
        Self::transmit(self, now, station, meta.turn, octets);
    }

    fn next_event(&self) -> Option<Instant> {
        Self::next_event(self)
    }

    fn poll(&mut self, now: Instant) -> Option<MediumEvent> {
        Self::poll(self, now)
    }

    fn state(&self, _now: Instant, station: StationId) -> Option<PortState> {
        Some(Self::state(self, station))
    }

    fn carrier(&self, station: StationId) -> bool {
        Self::carrier(self, station)
    }

    fn silence(&mut self, now: Instant, station: StationId) {
        self.cut(now, station);
    }

    fn plug(&mut self, _now: Instant, path: PathId, there: bool) {
        self.paths[path.0].plug(there);
    }

    fn heal(&mut self) {
        Self::heal(self);
    }

    fn under_way(&self) -> usize {
        Self::under_way(self)
    }

    fn stats(&self, path: PathId, from: Side) -> &ChannelStats {
        Self::stats(self, path, from)
    }

    fn station_stats(&self, station: StationId) -> Option<&StationStats> {
        Some(Self::station_stats(self, station))
    }
}

const NOT_HF: KeyError = KeyError::new("kind", "it is no HF channel: write kind = \"hf\" and [hf]");

/// The latest of a station's propagation delays, and how many there are.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    others: u64,
    delay: Duration,
}
