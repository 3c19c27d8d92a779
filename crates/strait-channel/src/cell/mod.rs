//! A cell of IEEE 802.11: stations that share a channel of packets, each listening before it sends.
//!
//! A station sends a frame once it has heard nobody for a while and for a drawn number of slots;
//! the receiver acknowledges, and what isn't acknowledged is sent again behind a longer draw.
//! Frames for all are sent once. Stations that don't hear each other meet at a receiver between
//! them. Where two transmissions overlap at a receiver, neither is understood.
//!
//! Modelled are the distributed coordination function of IEEE 802.11-2020 clause 10.3 with EIFS,
//! reservations (NAV), RTS and CTS before long frames where the file asks for it, and the draw
//! after each frame, and cards that choose among rates with bit errors by distance. Not modelled
//! are propagation times, capture, and management frames: all know each other.

mod config;
mod paths;
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

pub use self::config::{Adapt, CellConfig, Move, Rate, Wander};
use self::rates::Rates;
use self::station::{Frame, Station};
use self::ways::Ways;
use crate::config::{LinkConfig, LinkKind};
use crate::stats::ChannelStats;
use crate::{Deliver, Heard, LossCause, Medium, MediumEvent, PathId, Side, StationId};

/// Octets around a packet: the frame's header and check, and LLC with SNAP.
const FRAME_OCTETS: u64 = 24 + 4 + 8;
/// Octets of an acknowledgement, and of a permission to send (CTS).
const ACK_OCTETS: u64 = 14;
/// Octets of a question whether a frame may be sent (RTS).
const RTS_OCTETS: u64 = 20;

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
    /// Who notices it, in order, and why it isn't understood there.
    at: Vec<(usize, Option<LossCause>)>,
}

impl Emission {
    /// Why a station doesn't understand it; `None` if it does.
    fn lost(&self, to: usize) -> Option<LossCause> {
        let there = self.at.iter().find(|(other, _)| *other == to);
        there.map_or(Some(LossCause::Outage), |(_, lost)| *lost)
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

/// Lengths of time that all share.
#[derive(Clone, Copy, Debug)]
struct Times {
    slot: Duration,
    sifs: Duration,
    difs: Duration,
    eifs: Duration,
    /// How long a sender waits for an answer to begin.
    patience: Duration,
}

/// The stations of a channel. A driver polls up to the moment at which it asks for room or sends.
#[derive(Clone, Debug)]
pub struct Cell {
    config: CellConfig,
    times: Times,
    ways: Ways,
    /// Of frames for one station, the highest if there are several.
    rate: LineRate,
    basic: LineRate,
    rates: Option<Rates>,
    seed: u64,
    loss: f64,
    frame_octets_max: u32,
    stations: Vec<Station>,
    paths: Vec<Path>,
    /// By sender and receiver, the path between them and the sender's side.
    between: BTreeMap<(usize, usize), (usize, Side)>,
    /// What stations call each other.
    names: BTreeMap<(usize, NeighbourId), usize>,
    agenda: BTreeMap<(Instant, u64), Step>,
    air: Vec<Emission>,
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
        let basic = LineRate::new(cell.basic_rate.0, 8);
        let rate = way.rate.map_or(basic, |rate| LineRate::new(rate.0, 8));
        let (slot, sifs) = (cell.slot.0, cell.sifs.0);
        let difs = sifs + 2 * slot;
        Ok(Self {
            times: Times {
                slot,
                sifs,
                difs,
                eifs: sifs + difs + cell.preamble.0 + basic.time_for(ACK_OCTETS),
                patience: sifs + slot + cell.preamble.0,
            },
            ways: Ways::of(cell),
            rates: Rates::of(cell, rate),
            seed: 0,
            rate,
            basic,
            loss: way.loss.map_or(0.0, |loss| loss.0),
            frame_octets_max: way.frame_octets_max.unwrap_or(LinkConfig::FRAME_OCTETS_MAX),
            config: (**cell).clone(),
            stations: Vec::new(),
            paths: Vec::new(),
            between: BTreeMap::new(),
            names: BTreeMap::new(),
            agenda: BTreeMap::new(),
            air: Vec::new(),
            counted: 0,
            told: VecDeque::new(),
        })
    }

    /// How long a frame is on the air.
    fn airtime(&self, octets: usize, rate: LineRate) -> Duration {
        self.config.preamble.0 + rate.time_for(octets as u64 + FRAME_OCTETS)
    }

    /// The rate of what a frame of this rate is answered by, or asked for: the highest mandatory
    /// one that isn't above it.
    fn control_rate(&self, rate: LineRate) -> LineRate {
        LineRate::new(rate.bit_s().min(2 * self.basic.bit_s()), 8)
    }

    /// An acknowledgement of a frame of this rate, or a permission for one.
    fn ack(&self, rate: LineRate) -> Duration {
        self.config.preamble.0 + self.control_rate(rate).time_for(ACK_OCTETS)
    }

    fn rts(&self, rate: LineRate) -> Duration {
        self.config.preamble.0 + self.control_rate(rate).time_for(RTS_OCTETS)
    }

    /// Whether the sender of a frame for one station asks before.
    fn asks(&self, octets: usize) -> bool {
        let least = self.config.rts;
        least.is_some_and(|least| octets as u64 >= least.0)
    }

    /// What a lone station carries in frames of the greatest length.
    fn usual_rate(&self) -> LineRate {
        let octets = self.frame_octets_max as usize;
        let draw = self.times.slot * self.config.window_min / 2;
        let ack = self.ack(self.rate);
        let around = self.times.difs + draw + self.times.sifs + ack;
        let asked = match self.asks(octets) {
            true => self.rts(self.rate) + ack + 2 * self.times.sifs,
            false => Duration::ZERO,
        };
        let whole = nanos(asked + around + self.airtime(octets, self.rate)).max(1);
        let bits = octets as u128 * 8 * 1_000_000_000;
        LineRate::new((bits / u128::from(whole)) as u64, 8)
    }

    fn plan(&mut self, at: Instant, step: Step) {
        self.counted += 1;
        self.agenda.insert((at, self.counted), step);
    }

    /// The station that begins next, and when.
    fn next_begin(&self) -> Option<(Instant, usize)> {
        let begins = self.stations.iter().enumerate();
        let begins = begins.filter_map(|(number, it)| Some((it.begins(&self.times)?, number)));
        begins.min()
    }

    fn distance(&self, at: Instant, ends: [usize; 2]) -> f64 {
        let since = at.since(Instant::ZERO);
        let [a, b] = ends.map(|end| self.ways.place(end, since));
        libm::hypot(a[0] - b[0], a[1] - b[1])
    }

    /// Who notices a station, and who can't understand it for the distance alone.
    fn audience(&self, at: Instant, from: usize) -> Vec<(usize, Option<LossCause>)> {
        let sense = self.config.sense.unwrap_or(self.config.reach);
        let others = (0..self.stations.len()).filter(|other| *other != from);
        let there = |other: &usize| {
            let path = self.between.get(&(from, *other));
            path.is_some_and(|(path, _)| self.paths[*path].there)
        };
        let far = |other: usize| (other, self.distance(at, [from, other]));
        let near = others.filter(there).map(far).filter(|it| it.1 <= sense);
        near.map(|(other, far)| {
            (
                other,
                (far > self.config.reach).then_some(LossCause::Outage),
            )
        })
        .collect()
    }

    fn emit(&mut self, at: Instant, from: usize, what: What, lasts: Duration) {
        self.counted += 1;
        let id = self.counted;
        let mut audience = self.audience(at, from);
        for (other, lost) in &mut audience {
            self.stations[*other].notice(at, &self.times);
            if self.stations[*other].sending {
                *lost = Some(LossCause::Collision);
            }
        }
        self.stations[from].notice(at, &self.times);
        self.stations[from].sending = true;
        for other in &mut self.air {
            let both = meeting(&mut other.at, &mut audience);
            both.for_each(|lost| *lost = Some(LossCause::Collision));
            if let Some((_, lost)) = other.at.iter_mut().find(|(station, _)| *station == from) {
                *lost = Some(LossCause::Collision);
            }
        }
        let what_it_is = Emission {
            id,
            from,
            what,
            at: audience,
        };
        self.air.push(what_it_is);
        self.plan(at + lasts, Step::End(id));
    }

    /// A station's turn has come.
    fn begin(&mut self, at: Instant, station: usize) {
        let Some((number, to, octets)) = self.stations[station].begin() else {
            return;
        };
        let rate = self.pick(at, station, to);
        let (what, lasts) = match to.filter(|_| self.asks(octets)) {
            Some(to) => (What::Rts { number, to }, self.rts(rate)),
            None => (What::Frame { number, to }, self.airtime(octets, rate)),
        };
        self.emit_frame(at, station, to, what, lasts);
    }

    /// The rate of a station's frame ahead, this time.
    fn pick(&mut self, at: Instant, station: usize, to: Option<usize>) -> LineRate {
        let tries = self.stations[station].tries();
        let (rate, number) = match (to, &mut self.rates) {
            (None, _) => (self.basic, None),
            (Some(_), None) => (self.rate, None),
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
        for (path, side) in self.ways(station, to) {
            self.paths[path].stats[side.index()].busy_ns += nanos(lasts);
        }
        if matches!(what, What::Frame { .. }) {
            let it = &mut self.stations[station];
            it.tried = it.picked.take();
        }
        self.emit(at, station, what, lasts);
    }

    /// The paths by which a station's frame goes.
    fn ways(&self, from: usize, to: Option<usize>) -> Vec<(usize, Side)> {
        let ways = self.between.range((from, 0)..=(from, usize::MAX));
        let ways = ways.filter(|((_, other), _)| to.is_none_or(|to| to == *other));
        ways.map(|(_, way)| *way).collect()
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
        for (other, lost) in &mut emission.at {
            if lost.is_none() {
                let share = self.chance_loss(at, from, *other, what);
                if self.stations[*other].loses(share) {
                    *lost = Some(LossCause::Random);
                }
            }
            let (defer, until) = match *lost {
                Some(_) => (self.times.eifs, at),
                None => (self.times.difs, at + self.reserved(from, what, *other)),
            };
            self.stations[*other].quiet(at, defer, until);
        }
        self.stations[emission.from].sending = false;
        self.stations[emission.from].quiet(at, self.times.difs, at);
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
                    self.plan(at + self.times.sifs, permitted);
                }
                lost => self.answered(at, to, number, lost),
            },
        }
    }

    /// The share of such transmissions that a station in reach doesn't understand.
    fn chance_loss(&self, at: Instant, from: usize, to: usize, what: What) -> f64 {
        let Some(rates) = &self.rates else {
            return self.loss;
        };
        let (rate, octets) = match what {
            What::Frame { .. } => {
                let sender = &self.stations[from];
                (sender.rate, sender.octets() as u64 + FRAME_OCTETS)
            }
            What::Rts { .. } => (self.control_rate(self.stations[from].rate), RTS_OCTETS),
            What::Ack { to, .. } | What::Cts { to, .. } => {
                (self.control_rate(self.stations[to].rate), ACK_OCTETS)
            }
        };
        let errors = rates.loss(rate, octets, self.distance(at, [from, to]));
        1.0 - (1.0 - self.loss) * (1.0 - errors)
    }

    /// For how long a station that understands a transmission, and isn't meant, leaves the channel
    /// to others behind it.
    fn reserved(&self, from: usize, what: What, other: usize) -> Duration {
        let Times { sifs, slot, .. } = self.times;
        let ack = |sender: usize| self.ack(self.stations[sender].rate);
        match what {
            What::Frame { to: Some(to), .. } if to != other => sifs + ack(from),
            // Until it notices the frame: if none comes, it wasn't permitted.
            What::Rts { to, .. } if to != other => 2 * sifs + ack(from) + slot,
            What::Cts { to, .. } if to != other => {
                let asks = &self.stations[to];
                2 * sifs + self.airtime(asks.octets(), asks.rate) + ack(to)
            }
            _ => Duration::ZERO,
        }
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
                return self.plan(at + self.times.patience, Step::Silence { station, number });
            }
        };
        self.plan(at + self.times.sifs, step);
    }

    fn frame_ends(&mut self, at: Instant, number: u64, to: Option<usize>, emission: &Emission) {
        let from = emission.from;
        let Some(frame) = self.stations[from].front(number) else {
            return;
        };
        let octets = frame.octets.clone();
        let Some(to) = to else {
            let others: Vec<_> = self.between.range((from, 0)..=(from, usize::MAX)).collect();
            let others: Vec<usize> = others.into_iter().map(|((_, to), _)| *to).collect();
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
            return self.plan(at + self.times.patience, silence);
        }
        if self.stations[from].arrives() {
            let lasts = self.airtime(octets.len(), self.stations[from].rate);
            for (path, side) in self.ways(from, Some(to)) {
                self.paths[path].stats[side.index()].arrived_ns += nanos(lasts);
            }
            self.deliver(at, from, to, octets);
        }
        let answer = Step::Acknowledge {
            from: to,
            to: from,
            number,
        };
        self.plan(at + self.times.sifs, answer);
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
        } else {
            self.over(at, station, false);
        }
    }

    /// A station is done with the frame ahead.
    fn over(&mut self, at: Instant, station: usize, ok: bool) {
        let Some(frame) = self.stations[station].done(at, self.config.window_min) else {
            return;
        };
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
                let lasts = self.ack(self.stations[to].rate);
                self.emit(at, from, What::Ack { to, number }, lasts);
            }
            Step::Permit { from, to, number } => {
                if self.stations[from].sending {
                    return self.answered(at, to, number, Some(LossCause::Collision));
                }
                let lasts = self.ack(self.stations[to].rate);
                self.emit(at, from, What::Cts { to, number }, lasts);
            }
            Step::Permitted { station, number } => {
                let it = &self.stations[station];
                let Some(frame) = it.front(number).filter(|_| !it.sending) else {
                    return self.answered(at, station, number, Some(LossCause::Collision));
                };
                let (to, octets) = (frame.to, frame.octets.len());
                let lasts = self.airtime(octets, self.stations[station].rate);
                self.emit_frame(at, station, to, What::Frame { number, to }, lasts);
            }
            Step::Silence { station, number } => {
                let lost = self.stations[station].lost;
                self.answered(at, station, number, lost.or(Some(LossCause::Collision)));
            }
        }
    }
}

/// What becomes of two transmissions where both are noticed.
fn meeting<'a>(
    one: &'a mut [(usize, Option<LossCause>)],
    other: &'a mut [(usize, Option<LossCause>)],
) -> impl Iterator<Item = &'a mut Option<LossCause>> {
    let stations: Vec<usize> = one.iter().map(|(station, _)| *station).collect();
    let others: Vec<usize> = other.iter().map(|(station, _)| *station).collect();
    let both = one
        .iter_mut()
        .filter(move |(station, _)| others.binary_search(station).is_ok());
    let again = other
        .iter_mut()
        .filter(move |(station, _)| stations.binary_search(station).is_ok());
    both.chain(again).map(|(_, lost)| lost)
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
        let window = self.config.window_min;
        self.stations
            .push(Station::new(name, seed, window, self.times.difs, self.rate));
        self.seed = seed;
        Ok(StationId(self.stations.len() - 1))
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
        Ok(PathId(number))
    }

    fn introduce(&mut self, station: StationId, name: NeighbourId, other: StationId) {
        self.names.insert((station.0, name), other.0);
    }

    fn room(&mut self, now: Instant, station: StationId) -> Result<Room, Option<Instant>> {
        if self.stations[station.0].waiting() >= self.config.card {
            return Err(None);
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
        for (path, side) in self.ways(station.0, to) {
            let stats = &mut self.paths[path].stats[side.index()];
            stats.frames += 1;
            stats.octets += octets.len() as u64;
        }
        self.counted += 1;
        let frame = Frame {
            number: self.counted,
            id: meta.id,
            name: meta.to,
            to,
            octets,
            lost: to.map(|_| LossCause::Outage),
        };
        self.stations[station.0].take(now, frame);
    }

    fn next_event(&self) -> Option<Instant> {
        let told = self.told.front().map(|event| event.at);
        let step = self.agenda.first_key_value().map(|((at, _), _)| *at);
        let begin = self.next_begin().map(|(at, _)| at);
        told.into_iter().chain(step).chain(begin).min()
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
                (Some(at), begin) if at <= now && begin.is_none_or(|(it, _)| at <= it) => {
                    let (_, step) = self.agenda.pop_first()?;
                    self.happen(at, step);
                }
                (_, Some((at, station))) if at <= now => self.begin(at, station),
                _ => return None,
            }
        }
    }

    fn state(&self, _now: Instant, _station: StationId) -> Option<PortState> {
        let rate = self.usual_rate();
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
            for (_, lost) in &mut emission.at {
                *lost = Some(LossCause::Outage);
            }
        }
        for frame in self.stations[number].cut(now) {
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
            let others = self.ways(number, None).len();
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
