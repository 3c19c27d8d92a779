//! A cell of IEEE 802.11: stations that share a channel of packets, each listening before it sends.
//!
//! A station sends a frame once it has heard nobody for a while and for a drawn number of slots;
//! the receiver acknowledges, and what isn't acknowledged is sent again behind a longer draw.
//! Frames for all are sent once. Stations that don't hear each other meet at a receiver between
//! them. Where two transmissions overlap at a receiver, neither is understood.
//!
//! Modelled are the distributed coordination function of IEEE 802.11-2020 clause 10.3 with EIFS,
//! reservations (NAV), RTS and CTS before long frames where the file asks for it, and the draw
//! after each frame, cards that choose among rates with bit errors by distance, and slots in place
//! of contention (TDMA). Not modelled are propagation times and management frames: all know each
//! other.

mod config;
mod paths;
mod phy;
mod rates;
mod station;
#[cfg(test)]
mod tests;
mod ways;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use strait_core::id::{NeighbourId, Neighbours};
use strait_core::keys::KeyError;
use strait_core::node::{Notice, PortState, Room, TxMeta};
use strait_core::rate::LineRate;
use strait_core::time::{Duration, Instant, nanos};

pub use self::config::{Adapt, CellConfig, Move, Rate, Tdma, Wander, Waveform};
use self::phy::{ACK_OCTETS, FRAME_OCTETS, Phy, RTS_OCTETS};
use self::rates::Rates;
use self::station::{Frame, Station};
use self::ways::Ways;
use crate::config::{LinkConfig, LinkKind};
use crate::stats::ChannelStats;
use crate::{Deliver, Heard, LossCause, Medium, MediumEvent, PathId, Side, StationId};

/// What happens at a moment that is known before.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A transmission ends.
    End(u64),
    /// A receiver acknowledges.
    Acknowledge { from: usize, to: usize, number: u64 },
    /// A receiver permits a frame.
    Permit { from: usize, to: usize, number: u64 },
    /// The frame that was permitted begins.
    Permitted { station: usize, number: u64 },
    /// No answer has begun.
    Silence { station: usize, number: u64 },
}

/// A transmission on the air.
#[derive(Clone, Debug)]
struct Emission {
    id: u64,
    from: usize,
    what: What,
    /// Who notices it, in order.
    at: Vec<There>,
}

/// A transmission at a station that notices it.
#[derive(Clone, Copy, Debug)]
struct There {
    station: usize,
    metres: f64,
    /// Why it isn't understood.
    lost: Option<LossCause>,
}

impl Emission {
    fn there(&mut self, station: usize) -> Option<&mut There> {
        let place = self.at.binary_search_by_key(&station, |it| it.station).ok();
        place.map(|place| &mut self.at[place])
    }

    /// Why a station doesn't understand it; `None` if it does.
    fn lost(&self, to: usize) -> Option<LossCause> {
        let place = self.at.binary_search_by_key(&to, |it| it.station);
        place.map_or(Some(LossCause::Outage), |place| self.at[place].lost)
    }
}

/// What a transmission is.
#[derive(Clone, Copy, Debug)]
enum What {
    /// The frame ahead in its sender's queue, for one station or for all.
    Frame { number: u64, to: Option<usize> },
    /// An acknowledgement of a frame.
    Ack { to: usize, number: u64 },
    /// May the frame ahead be sent?
    Rts { number: u64, to: usize },
    /// It may.
    Cts { to: usize, number: u64 },
}

/// What two stations sent each other.
#[derive(Clone, Debug)]
struct Path {
    stats: [ChannelStats; 2],
    there: bool,
}

/// Whom a station may reach until some moment, and how far they are if neither moves.
#[derive(Clone, Debug, Default)]
struct Near {
    until: Instant,
    all: Vec<(usize, Option<f64>)>,
}

/// Stations of which it is known who begins first, so that few are asked.
const BLOCK: usize = 16;
/// For how long it is known who may be near where stations move.
const NEAR: Duration = Duration::from_secs(1);

/// The stations of a channel. A driver polls up to the moment at which it asks for room or sends.
#[derive(Clone, Debug)]
pub struct Cell {
    config: CellConfig,
    phy: Phy,
    ways: Ways,
    rates: Option<Rates>,
    seed: u64,
    loss: f64,
    frame_octets_max: u32,
    stations: Vec<Station>,
    /// By station, when it begins if nothing happens; never if it has nothing to send.
    begins: Vec<Instant>,
    /// The first of each [`BLOCK`] of these.
    firsts: Vec<Instant>,
    near: Vec<Near>,
    paths: Vec<Path>,
    /// By sender and receiver, the path between them and the sender's side.
    between: BTreeMap<(usize, usize), (usize, Side)>,
    /// What stations call each other.
    names: BTreeMap<(usize, NeighbourId), usize>,
    agenda: BTreeMap<(Instant, u64), Step>,
    air: Vec<Emission>,
    /// Of an emission that is over.
    spare: Vec<There>,
    counted: u64,
    told: VecDeque<MediumEvent>,
}

impl Cell {
    /// A cell without stations.
    ///
    /// # Errors
    /// That it is no cell.
    pub(crate) fn new(config: &LinkConfig) -> Result<Self, KeyError> {
        let LinkKind::Cell(cell) = &config.kind else {
            return Err(KeyError::new("kind", "is no cell"));
        };
        let way = config.direction(Side::A);
        let phy = Phy::of(cell, way.rate.map(|rate| rate.0));
        Ok(Self {
            ways: Ways::of(cell),
            rates: Rates::of(cell, phy.rate),
            phy,
            seed: 0,
            loss: way.loss.map_or(0.0, |loss| loss.0),
            frame_octets_max: way.frame_octets_max.unwrap_or(LinkConfig::FRAME_OCTETS_MAX),
            config: (**cell).clone(),
            stations: Vec::new(),
            begins: Vec::new(),
            firsts: Vec::new(),
            near: Vec::new(),
            paths: Vec::new(),
            between: BTreeMap::new(),
            names: BTreeMap::new(),
            agenda: BTreeMap::new(),
            air: Vec::new(),
            spare: Vec::new(),
            counted: 0,
            told: VecDeque::new(),
        })
    }

    fn plan(&mut self, at: Instant, step: Step) {
        self.counted += 1;
        self.agenda.insert((at, self.counted), step);
    }

    /// When a station begins next.
    fn next_begin(&self) -> Option<Instant> {
        let firsts = self.firsts.iter().copied();
        firsts.min().filter(|at| *at != Instant::NEVER)
    }

    /// The first station that begins then.
    fn beginner(&self, at: Instant) -> Option<usize> {
        let block = self.firsts.iter().position(|it| *it == at)? * BLOCK;
        let place = self.begins[block..].iter().position(|it| *it == at)?;
        Some(block + place)
    }

    /// Something has happened to a station.
    fn stir(&mut self, station: usize) {
        let at = self.stations[station].begins(&self.phy);
        let before = core::mem::replace(&mut self.begins[station], at);
        let block = station / BLOCK;
        if at <= self.firsts[block] {
            self.firsts[block] = at;
        } else if before == self.firsts[block] {
            let begins = self.begins[block * BLOCK..].iter().take(BLOCK);
            self.firsts[block] = begins.copied().min().unwrap_or(Instant::NEVER);
        }
    }

    /// Who notices a station, and who can't understand it for the distance alone.
    fn audience(&mut self, at: Instant, from: usize) -> Vec<There> {
        let mut audience = core::mem::take(&mut self.spare);
        audience.clear();
        if self.near[from].until <= at {
            self.look(at, from);
        }
        let (reach, sense) = (self.config.reach(), self.sense());
        let since = at.since(Instant::ZERO);
        let mut here = None;
        let near = self.near[from].all.iter();
        audience.extend(near.filter_map(|(station, metres)| {
            let metres = metres.unwrap_or_else(|| {
                let here = here.get_or_insert_with(|| self.ways.place(from, since));
                distance(*here, self.ways.place(*station, since))
            });
            (metres <= sense).then_some(There {
                station: *station,
                metres,
                lost: (metres > reach).then_some(LossCause::Outage),
            })
        }));
        audience
    }

    fn sense(&self) -> f64 {
        self.config.sense.unwrap_or_else(|| self.config.reach())
    }

    /// Finds out who may be near a station.
    fn look(&mut self, at: Instant, from: usize) {
        let since = at.since(Instant::ZERO);
        let here = self.ways.place(from, since);
        let (span, sense) = (NEAR.as_secs_f64(), self.sense());
        let Near { until, all } = &mut self.near[from];
        (*until, _) = (Instant::NEVER, all.clear());
        let ways = self.between.range((from, 0)..=(from, usize::MAX));
        for ((_, other), (path, _)) in ways {
            if !self.paths[*path].there {
                continue;
            }
            let speed = self.ways.speed(from) + self.ways.speed(*other);
            let metres = distance(here, self.ways.place(*other, since));
            if speed > 0.0 {
                *until = at + NEAR;
            }
            if metres <= sense + speed * span {
                all.push((*other, (speed == 0.0).then_some(metres)));
            }
        }
    }

    /// Who is near has to be found out again.
    fn stray(&mut self) {
        self.near.iter_mut().for_each(|it| it.until = Instant::ZERO);
    }

    fn emit(&mut self, at: Instant, from: usize, what: What, lasts: Duration) {
        self.counted += 1;
        let mut emission = Emission {
            id: self.counted,
            from,
            what,
            at: self.audience(at, from),
        };
        for there in &mut emission.at {
            let other = &mut self.stations[there.station];
            if other.hears() {
                meet(
                    &mut self.air,
                    there,
                    self.config.capture,
                    self.config.path_loss,
                );
            }
            if other.sending {
                there.lost = Some(LossCause::Collision);
            }
            other.notice(at, &self.phy);
        }
        self.stations[from].notice(at, &self.phy);
        self.stations[from].sending = true;
        emission
            .at
            .iter()
            .for_each(|there| self.stir(there.station));
        self.stir(from);
        for there in self.air.iter_mut().filter_map(|other| other.there(from)) {
            there.lost = Some(LossCause::Collision);
        }
        self.plan(at + lasts, Step::End(emission.id));
        self.air.push(emission);
    }

    /// A station's turn has come.
    fn begin(&mut self, at: Instant, station: usize) {
        let Some((number, to, octets)) = self.stations[station].begin() else {
            return;
        };
        let rate = self.pick(at, station, to);
        let (what, lasts) = match to.filter(|_| self.phy.asks(octets)) {
            Some(to) => (What::Rts { number, to }, self.phy.rts(rate)),
            None => (What::Frame { number, to }, self.phy.airtime(octets, rate)),
        };
        self.emit_frame(at, station, to, what, lasts);
    }

    /// The rate of a station's frame ahead, this time.
    fn pick(&mut self, at: Instant, station: usize, to: Option<usize>) -> LineRate {
        let tries = self.stations[station].tries();
        let (rate, number) = match (to, &mut self.rates) {
            (None, _) => (self.phy.basic, None),
            (Some(_), None) => (self.phy.rate, None),
            (Some(to), Some(rates)) => {
                let (rate, number) = rates.pick(at, self.seed, (station, to), tries);
                (rate, Some(number))
            }
        };
        let it = &mut self.stations[station];
        (it.rate, it.picked) = (rate, number);
        rate
    }

    /// A station sends its frame ahead, or asks whether it may.
    fn emit_frame(
        &mut self,
        at: Instant,
        station: usize,
        to: Option<usize>,
        what: What,
        lasts: Duration,
    ) {
        self.count(station, to, |stats| stats.busy_ns += nanos(lasts));
        if matches!(what, What::Frame { .. }) {
            let it = &mut self.stations[station];
            it.tried = it.picked.take();
        }
        self.emit(at, station, what, lasts);
    }

    /// The paths by which a station's frame goes.
    fn ways(&self, from: usize, to: Option<usize>) -> impl Iterator<Item = (usize, Side)> {
        let others = to.map_or(0..=usize::MAX, |to| to..=to);
        let ways = self
            .between
            .range((from, *others.start())..=(from, *others.end()));
        ways.map(|(_, way)| *way)
    }

    /// Counts something of a station's frame.
    fn count(&mut self, from: usize, to: Option<usize>, count: impl Fn(&mut ChannelStats)) {
        let others = to.map_or(0..=usize::MAX, |to| to..=to);
        let ways = (from, *others.start())..=(from, *others.end());
        for (_, (path, side)) in self.between.range(ways) {
            count(&mut self.paths[*path].stats[side.index()]);
        }
    }

    fn count_loss(&mut self, from: usize, to: usize, cause: LossCause, octets: usize) {
        if let Some((path, side)) = self.between.get(&(from, to)) {
            self.paths[*path].stats[side.index()].count_loss(cause, octets as u64);
        }
    }

    fn end(&mut self, at: Instant, id: u64) {
        let Some(index) = self.air.iter().position(|it| it.id == id) else {
            return;
        };
        let mut emission = self.air.swap_remove(index);
        let (from, what) = (emission.from, emission.what);
        let (meant, reserved) = self.reserved(from, what);
        for there in &mut emission.at {
            let other = there.station;
            if there.lost.is_none() {
                let share = self.chance_loss(from, there.metres, what);
                if self.stations[other].loses(share) {
                    there.lost = Some(LossCause::Random);
                }
            }
            let (defer, until) = match there.lost {
                Some(_) => (self.phy.times.eifs, at),
                None if meant == Some(other) => (self.phy.times.difs, at),
                None => (self.phy.times.difs, at + reserved),
            };
            self.stations[other].quiet(at, defer, until);
            self.stir(other);
        }
        self.stations[from].sending = false;
        self.stations[from].quiet(at, self.phy.times.difs, at);
        self.stir(from);
        match emission.what {
            What::Frame { number, to } => self.frame_ends(at, number, to, &emission),
            What::Ack { to, number } => self.answered(at, to, number, emission.lost(to)),
            What::Rts { number, to } => self.asked(at, number, to, &emission),
            What::Cts { to, number } => match emission.lost(to) {
                None => {
                    let permitted = Step::Permitted {
                        station: to,
                        number,
                    };
                    self.plan(at + self.phy.times.sifs, permitted);
                }
                lost => self.answered(at, to, number, lost),
            },
        }
        self.spare = emission.at;
    }

    /// The share of such transmissions that a station in reach doesn't understand.
    fn chance_loss(&self, from: usize, metres: f64, what: What) -> f64 {
        let Some(rates) = &self.rates else {
            return self.loss;
        };
        let (rate, octets) = match what {
            What::Frame { .. } => {
                let sender = &self.stations[from];
                (sender.rate, sender.octets() as u64 + FRAME_OCTETS)
            }
            What::Rts { .. } => (self.phy.control_rate(self.stations[from].rate), RTS_OCTETS),
            What::Ack { to, .. } | What::Cts { to, .. } => {
                (self.phy.control_rate(self.stations[to].rate), ACK_OCTETS)
            }
        };
        let errors = rates.loss(rate, octets, metres);
        1.0 - (1.0 - self.loss) * (1.0 - errors)
    }

    /// Who is meant by a transmission, and for how long others that understand it leave the channel
    /// to them behind it.
    fn reserved(&self, from: usize, what: What) -> (Option<usize>, Duration) {
        let sifs = self.phy.times.sifs;
        let ack = |sender: usize| self.phy.ack(self.stations[sender].rate);
        let (to, time) = match what {
            What::Frame { to: Some(to), .. } => (to, sifs + ack(from)),
            What::Frame { to: None, .. } => return (None, Duration::ZERO),
            // Until it notices the frame: if none comes, it wasn't permitted.
            What::Rts { to, .. } => (to, 2 * sifs + ack(from) + self.phy.times.slot),
            What::Cts { to, .. } => {
                let asks = &self.stations[to];
                let frame = self.phy.airtime(asks.octets(), asks.rate);
                (to, 2 * sifs + frame + ack(to))
            }
            What::Ack { to, .. } => (to, Duration::ZERO),
        };
        (Some(to), time)
    }

    /// A station has asked another whether its frame may be sent.
    fn asked(&mut self, at: Instant, number: u64, to: usize, emission: &Emission) {
        let from = emission.from;
        let lost = emission.lost(to);
        self.stations[from].lost = lost;
        let step = match lost {
            None if self.stations[to].is_free(at) => Step::Permit {
                from: to,
                to: from,
                number,
            },
            _ => {
                let station = from;
                return self.plan(
                    at + self.phy.times.patience,
                    Step::Silence { station, number },
                );
            }
        };
        self.plan(at + self.phy.times.sifs, step);
    }

    fn frame_ends(&mut self, at: Instant, number: u64, to: Option<usize>, emission: &Emission) {
        let from = emission.from;
        let Some(frame) = self.stations[from].front(number) else {
            return;
        };
        let octets = frame.octets.clone();
        let Some(to) = to else {
            let others = self.between.range((from, 0)..=(from, usize::MAX));
            let others: Vec<usize> = others.map(|((_, to), _)| *to).collect();
            for to in others {
                match emission.lost(to) {
                    Some(cause) => self.count_loss(from, to, cause, octets.len()),
                    None => self.deliver(at, from, to, octets.clone()),
                }
            }
            return self.over(at, from, true);
        };
        let lost = emission.lost(to);
        self.stations[from].lost = lost;
        if lost.is_some() {
            let silence = Step::Silence {
                station: from,
                number,
            };
            return self.plan(at + self.phy.times.patience, silence);
        }
        if self.stations[from].arrives() {
            let lasts = self.phy.airtime(octets.len(), self.stations[from].rate);
            self.count(from, Some(to), |stats| stats.arrived_ns += nanos(lasts));
            self.deliver(at, from, to, octets);
        }
        let answer = Step::Acknowledge {
            from: to,
            to: from,
            number,
        };
        self.plan(at + self.phy.times.sifs, answer);
    }

    fn deliver(&mut self, at: Instant, from: usize, to: usize, octets: Vec<u8>) {
        self.told.push_back(MediumEvent {
            at,
            station: StationId(to),
            what: Heard::Frame(StationId(from), octets),
        });
    }

    /// What became of a frame that waits for its acknowledgement.
    fn answered(&mut self, at: Instant, station: usize, number: u64, lost: Option<LossCause>) {
        let it = &mut self.stations[station];
        if it.front(number).is_none() {
            return;
        }
        if let (Some(rates), Some(to), Some(tried)) = (&mut self.rates, it.to(), it.tried.take()) {
            rates.tell((station, to), tried, lost.is_none());
        }
        if lost.is_none() {
            self.over(at, station, true);
        } else if it.fails(self.config.retries, self.config.window_max) {
            it.rests(at);
            self.stir(station);
        } else {
            self.over(at, station, false);
        }
    }

    /// A station is done with the frame ahead.
    fn over(&mut self, at: Instant, station: usize, ok: bool) {
        let Some(frame) = self.stations[station].done(at, self.config.window_min()) else {
            return;
        };
        self.stir(station);
        if let (Some(to), Some(cause)) = (frame.to, frame.lost) {
            self.count_loss(station, to, cause, frame.octets.len());
        }
        let what = Heard::Done {
            id: frame.id,
            to: frame.name,
            ok,
        };
        let station = StationId(station);
        self.told.push_back(MediumEvent { at, station, what });
    }

    fn happen(&mut self, at: Instant, step: Step) {
        match step {
            Step::End(id) => self.end(at, id),
            Step::Acknowledge { from, to, number } => {
                if self.stations[from].sending {
                    // It has begun a frame of its own in the meantime.
                    return self.answered(at, to, number, Some(LossCause::Collision));
                }
                let lasts = self.phy.ack(self.stations[to].rate);
                self.emit(at, from, What::Ack { to, number }, lasts);
            }
            Step::Permit { from, to, number } => {
                if self.stations[from].sending {
                    return self.answered(at, to, number, Some(LossCause::Collision));
                }
                let lasts = self.phy.ack(self.stations[to].rate);
                self.emit(at, from, What::Cts { to, number }, lasts);
            }
            Step::Permitted { station, number } => {
                let it = &self.stations[station];
                let Some(frame) = it.front(number).filter(|_| !it.sending) else {
                    return self.answered(at, station, number, Some(LossCause::Collision));
                };
                let (to, octets) = (frame.to, frame.octets.len());
                let lasts = self.phy.airtime(octets, self.stations[station].rate);
                self.emit_frame(at, station, to, What::Frame { number, to }, lasts);
            }
            Step::Silence { station, number } => {
                let lost = self.stations[station].lost;
                self.answered(at, station, number, lost.or(Some(LossCause::Collision)));
            }
        }
    }
}

/// Where transmissions overlap at a station that notices them, as another one comes there: only
/// one that is so many dB stronger than all others is understood, whenever it began.
fn meet(air: &mut [Emission], new: &mut There, capture: Option<f64>, path_loss: f64) {
    let power = |there: &There| libm::pow(there.metres.max(1e-3), -path_loss);
    let mut all: Vec<&mut There> = air
        .iter_mut()
        .filter_map(|it| it.there(new.station))
        .collect();
    all.push(new);
    let ratio = capture.map(|db| libm::pow(10.0, db / 10.0));
    let sum: f64 = all.iter().map(|there| power(there)).sum();
    for there in all {
        let own = power(there);
        if !ratio.is_some_and(|ratio| own >= ratio * (sum - own)) {
            there.lost = Some(LossCause::Collision);
        }
    }
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    libm::hypot(a[0] - b[0], a[1] - b[1])
}

impl Medium for Cell {
    fn stations(&self) -> usize {
        self.stations.len()
    }

    fn add_station(
        &mut self,
        config: &LinkConfig,
        _side: Side,
        name: &str,
        seed: u64,
    ) -> Result<StationId, KeyError> {
        config.validate()?;
        if self.stations.len() == self.config.places.len() {
            let why = "there are more stations: give each one a place, in their order";
            return Err(KeyError::new("cell.places", why));
        }
        let (number, window) = (self.stations.len(), self.config.window_min());
        self.stations
            .push(Station::new(name, number, seed, window, &self.phy));
        self.begins.push(Instant::NEVER);
        self.firsts
            .resize(self.begins.len().div_ceil(BLOCK), Instant::NEVER);
        self.near.push(Near::default());
        self.seed = seed;
        Ok(StationId(number))
    }

    fn add_path(
        &mut self,
        ends: [StationId; 2],
        _config: &LinkConfig,
        _name: &str,
        _seed: u64,
    ) -> Result<PathId, KeyError> {
        let ends = ends.map(|end| end.0);
        let number = self.paths.len();
        self.between.insert((ends[0], ends[1]), (number, Side::A));
        self.between.insert((ends[1], ends[0]), (number, Side::B));
        self.paths.push(Path {
            stats: <[ChannelStats; 2]>::default(),
            there: true,
        });
        self.stray();
        Ok(PathId(number))
    }

    fn introduce(&mut self, station: StationId, name: NeighbourId, other: StationId) {
        self.names.insert((station.0, name), other.0);
    }

    fn room(&mut self, now: Instant, station: StationId) -> Result<Room, Option<Instant>> {
        if self.stations[station.0].waiting() >= self.config.card {
            return Err(None);
        }
        // In others' slots it needn't choose yet.
        let least = self.phy.exchange(0, false);
        let turn = self.phy.turns().map(|it| it.next(station.0, now, least));
        if let Some(turn) = turn.filter(|turn| *turn > now) {
            return Err(Some(turn));
        }
        Ok(Room {
            octets: self.frame_octets_max as usize,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        })
    }

    fn transmit(
        &mut self,
        now: Instant,
        station: StationId,
        meta: &TxMeta,
        octets: &mut Vec<u8>,
        _deliver: &mut Deliver<'_>,
    ) {
        let all = meta.to == NeighbourId::ALL;
        let to = self.names.get(&(station.0, meta.to)).copied();
        if !all && to.is_none() {
            return;
        }
        let octets = core::mem::take(octets);
        self.count(station.0, to, |stats| {
            stats.frames += 1;
            stats.octets += octets.len() as u64;
        });
        self.counted += 1;
        let frame = Frame {
            number: self.counted,
            id: meta.id,
            name: meta.to,
            to,
            lasts: self.phy.exchange(octets.len(), to.is_none()),
            octets,
            lost: to.map(|_| LossCause::Outage),
        };
        self.stations[station.0].take(now, frame);
        self.stir(station.0);
    }

    fn next_event(&self) -> Option<Instant> {
        let told = self.told.front().map(|event| event.at);
        let step = self.agenda.first_key_value().map(|((at, _), _)| *at);
        told.into_iter().chain(step).chain(self.next_begin()).min()
    }

    fn poll(&mut self, now: Instant) -> Option<MediumEvent> {
        loop {
            if let Some(event) = self.told.pop_front() {
                return Some(event);
            }
            let step = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let begin = self.next_begin();
            match (step, begin) {
                // What ends at a moment is over before something begins.
                (Some(at), begin) if at <= now && begin.is_none_or(|it| at <= it) => {
                    let (_, step) = self.agenda.pop_first()?;
                    self.happen(at, step);
                }
                (_, Some(at)) if at <= now => {
                    let station = self.beginner(at)?;
                    self.begin(at, station);
                }
                _ => return None,
            }
        }
    }

    fn state(&self, _now: Instant, station: StationId) -> Option<PortState> {
        let rate = self
            .phy
            .usual_rate(self.frame_octets_max as usize, station.0);
        Some(PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: self.frame_octets_max,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        })
    }

    fn silence(&mut self, now: Instant, station: StationId) {
        let StationId(number) = station;
        for emission in self.air.iter_mut().filter(|it| it.from == number) {
            for there in &mut emission.at {
                there.lost = Some(LossCause::Outage);
            }
        }
        let held = self.stations[number].cut(now);
        self.stir(number);
        for frame in held {
            let to: Vec<usize> = match frame.to {
                Some(to) => frame.lost.map(|_| to).into_iter().collect(),
                None => {
                    let others = self.between.range((number, 0)..=(number, usize::MAX));
                    others.map(|((_, to), _)| *to).collect()
                }
            };
            for to in to {
                self.count_loss(number, to, LossCause::Outage, frame.octets.len());
            }
        }
        self.told
            .retain(|event| event.station != station || matches!(event.what, Heard::Frame(..)));
    }

    fn plug(&mut self, _now: Instant, path: PathId, there: bool) {
        self.paths[path.0].there = there;
        self.stray();
    }

    fn heal(&mut self) {
        self.loss = 0.0;
    }

    fn under_way(&self) -> usize {
        let told = self.told.iter();
        let arriving = told
            .filter(|it| matches!(it.what, Heard::Frame(..)))
            .count();
        let held = |(number, it): (usize, &Station)| {
            let others = self.ways(number, None).count();
            it.frames()
                .map(|frame| match frame.to {
                    Some(_) => usize::from(frame.lost.is_some()),
                    None => others,
                })
                .sum::<usize>()
        };
        arriving + self.stations.iter().enumerate().map(held).sum::<usize>()
    }

    fn stats(&self, path: PathId, from: Side) -> &ChannelStats {
        &self.paths[path.0].stats[from.index()]
    }
}
