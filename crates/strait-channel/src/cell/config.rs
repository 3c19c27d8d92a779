//! The keys of a cell: `[cell]` in a link file of `kind = "cell"`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::keys::KeyError;
use strait_core::time::Duration;
use strait_core::units::{BitRate, Octets, Time};

use super::phy::Phy;
use crate::validate::require;

/// Stations of IEEE 802.11 on one channel, by the distributed coordination function (clause 10.3 of
/// IEEE 802.11-2020) or in slots of their own, with the times of their waveform where nothing else
/// is said.
///
/// Lengths are in metres.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CellConfig {
    /// Where the stations are when the link begins, in their order.
    pub places: Vec<[f64; 2]>,
    /// Who goes where, in order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<Move>,
    /// A file of ways, in place of `moves`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_file: Option<String>,
    /// Stations that go where chance sends them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wander: Option<Wander>,
    /// Where what isn't said comes from.
    pub waveform: Waveform,
    /// How far frames are understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<f64>,
    /// How far transmissions are noticed, and disturb others; as `reach` if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sense: Option<f64>,
    /// By how many dB a transmission has to be stronger than all others together to be understood
    /// beside them; if not given, none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<f64>,
    /// Rates that cards choose among for a frame for one station, up to `rate`; those of the
    /// waveform if none is given. Without any all such frames have `rate`, and no bit errors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<Rate>,
    /// How they choose.
    pub adapt: Adapt,
    /// The exponent by which power falls with distance.
    pub path_loss: f64,
    /// Rate of frames for all, and the least of acknowledgements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_rate: Option<BitRate>,
    /// Whose turn it is when, in place of contention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tdma: Option<Tdma>,
    /// Frames that a card takes from its node before it has sent them.
    pub card: usize,
    /// The shortest frame for one station whose sender asks for the channel before (RTS); none if
    /// not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rts: Option<Octets>,
    /// How often a frame is sent again that nobody acknowledges.
    pub retries: u32,
    /// The shortest contention window, in slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_min: Option<u32>,
    /// The longest one.
    pub window_max: u32,
    /// A slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Time>,
    /// From a frame to its acknowledgement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sifs: Option<Time>,
    /// Preamble and header of the physical layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preamble: Option<Time>,
}

/// What frames are sent by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waveform {
    /// IEEE 802.11b: DSSS and HR/DSSS with long preambles (clauses 15 and 16).
    #[default]
    #[serde(rename = "802.11b")]
    Dsss,
    /// IEEE 802.11g: ERP-OFDM, 6 to 54 Mbit/s, among stations of its kind (clause 18).
    #[serde(rename = "802.11g")]
    Ofdm,
    /// A narrowband radio for vehicles, 1 Mbit/s over some kilometres.
    #[serde(rename = "tactical")]
    Tactical,
}

/// What a waveform is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    reach: f64,
    basic_bit_s: u64,
    /// The rates at which all understand acknowledgements; none: up to twice the basic one.
    pub(super) control_bit_s: &'static [u64],
    slot_us: u64,
    sifs_us: u64,
    preamble_us: u64,
    window_min: u32,
    /// Bits are sent by symbols of this length, with so many around a frame's, and this behind the
    /// last one.
    pub(super) symbol: Option<(Duration, u64, Duration)>,
    /// The rates, and the power in dBm at which 10 % of frames of 1000 octets have bit errors.
    rates: &'static [(u64, f64)],
}

const DSSS: Table = Table {
    reach: 250.0,
    basic_bit_s: 1_000_000,
    control_bit_s: &[],
    slot_us: 20,
    sifs_us: 10,
    preamble_us: 192,
    window_min: 31,
    symbol: None,
    rates: &[],
};

/// The sensitivities are those of clause 17.3.10.2.
const OFDM: Table = Table {
    reach: 250.0,
    basic_bit_s: 6_000_000,
    control_bit_s: &[6_000_000, 12_000_000, 24_000_000],
    slot_us: 9,
    sifs_us: 10,
    preamble_us: 20,
    window_min: 15,
    symbol: Some((Duration::from_micros(4), 16 + 6, Duration::from_micros(6))),
    rates: &[
        (6_000_000, -82.0),
        (9_000_000, -81.0),
        (12_000_000, -79.0),
        (18_000_000, -77.0),
        (24_000_000, -74.0),
        (36_000_000, -70.0),
        (48_000_000, -66.0),
        (54_000_000, -65.0),
    ],
};

/// No standard's: a slot has room for 10 km and for turning from receiving to sending.
const TACTICAL: Table = Table {
    reach: 8000.0,
    basic_bit_s: 1_000_000,
    control_bit_s: &[1_000_000],
    slot_us: 150,
    sifs_us: 200,
    preamble_us: 1000,
    window_min: 15,
    symbol: None,
    rates: &[],
};

impl Waveform {
    pub(super) const fn table(self) -> &'static Table {
        match self {
            Self::Dsss => &DSSS,
            Self::Ofdm => &OFDM,
            Self::Tactical => &TACTICAL,
        }
    }
}

/// Stations send in slots of their own, in the same order again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tdma {
    /// From the beginning of one slot to that of the next.
    pub slot: Time,
    /// What of it stays free at its end.
    #[serde(default = "guard")]
    pub guard: Time,
    /// Whose each slot is, by its place in the order of stations, from 0 on; each has one if none
    /// is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<usize>,
}

const fn guard() -> Time {
    Time(Duration::from_micros(500))
}

/// Stations that walk to a place that chance draws, rest there, and go on (the random waypoint
/// model). The way follows from the file alone: it is the same in each run, simulated and live.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wander {
    /// Which, from 0 on; all if none is named.
    #[serde(default)]
    pub stations: Vec<usize>,
    /// Two corners of the area in which they go.
    pub area: [[f64; 2]; 2],
    /// The least and the most metres a second.
    pub speed: [f64; 2],
    /// How long they rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<Time>,
    /// They go as a group, at the distances of their places; the middle of the area stands for the
    /// place from which the group sets out.
    #[serde(default)]
    pub together: bool,
    /// What the ways follow from.
    #[serde(default)]
    pub seed: u64,
}

/// A rate, and how far it goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Of a frame behind its preamble.
    pub rate: BitRate,
    /// Where 8 % of frames of 1024 octets have bit errors (a receiver's sensitivity, clause
    /// 15.4.8.2).
    pub reach: f64,
}

/// How a card chooses the rate of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adapt {
    /// Auto rate fallback: a lower one after two failures, a higher one after ten successes.
    Arf,
    /// As Linux does: by what each rate was seen to yield, with samples of the others.
    #[default]
    Minstrel,
}

/// A station goes straight to another place, at an even speed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// Which one, by its place in the order, from 0 on.
    pub station: usize,
    /// When it sets out, since the link's beginning.
    pub from: Time,
    /// When it is there.
    pub until: Time,
    /// Where.
    pub to: [f64; 2],
}

impl Default for CellConfig {
    fn default() -> Self {
        Self {
            places: Vec::new(),
            moves: Vec::new(),
            path_file: None,
            wander: None,
            waveform: Waveform::default(),
            reach: None,
            sense: None,
            capture: None,
            rates: Vec::new(),
            adapt: Adapt::default(),
            path_loss: 3.0,
            basic_rate: None,
            tdma: None,
            card: 1,
            rts: None,
            retries: 7,
            window_min: None,
            window_max: 1023,
            slot: None,
            sifs: None,
            preamble: None,
        }
    }
}

impl CellConfig {
    /// How far frames are understood.
    pub(super) fn reach(&self) -> f64 {
        self.reach.unwrap_or_else(|| self.waveform.table().reach)
    }

    /// Rate of frames for all.
    pub(super) fn basic(&self) -> BitRate {
        let usual = BitRate(self.waveform.table().basic_bit_s);
        self.basic_rate.unwrap_or(usual)
    }

    pub(super) fn window_min(&self) -> u32 {
        self.window_min
            .unwrap_or_else(|| self.waveform.table().window_min)
    }

    /// Whether frames of this length, at this rate, fit into slots where there are any.
    pub(crate) fn fits(&self, bit_s: Option<u64>, octets: usize) -> bool {
        Phy::of(self, bit_s).fits(octets)
    }

    /// A slot, SIFS, and preamble with header.
    pub(super) fn times(&self) -> [Duration; 3] {
        let table = self.waveform.table();
        [
            (self.slot, table.slot_us),
            (self.sifs, table.sifs_us),
            (self.preamble, table.preamble_us),
        ]
        .map(|(given, usual)| given.map_or_else(|| Duration::from_micros(usual), |it| it.0))
    }

    /// The rates among which cards choose.
    pub(super) fn rates(&self) -> Vec<Rate> {
        if !self.rates.is_empty() {
            return self.rates.clone();
        }
        let rates = self.waveform.table().rates;
        let least = rates.first().map_or(0.0, |(_, dbm)| *dbm);
        let reach = |dbm: f64| {
            let db = least - dbm;
            self.reach() * libm::pow(10.0, db / 10.0 / self.path_loss)
        };
        let rates = rates.iter();
        rates
            .map(|(bit_s, dbm)| Rate {
                rate: BitRate(*bit_s),
                reach: reach(*dbm),
            })
            .collect()
    }

    pub(crate) fn validate(&self) -> Result<(), KeyError> {
        let places = "needed: the place of each station, like places = [[0, 0], [200, 0]] in \
                      metres";
        require("cell.places", self.places.len() >= 2, places)?;
        let finite = |place: &[f64; 2]| place.iter().all(|it| it.is_finite());
        let number = "a place is two numbers of metres";
        require("cell.places", self.places.iter().all(finite), number)?;
        let range = "it must be above 0";
        require("cell.reach", self.reach() > 0.0, range)?;
        let sense = self.sense.is_none_or(|sense| sense >= self.reach());
        require("cell.sense", sense, "it must be `reach` or more")?;
        require(
            "cell.basic_rate",
            self.basic().0 >= 1000,
            "it must be at least 1 kbit/s",
        )?;
        require(
            "cell.card",
            (1..=1000).contains(&self.card),
            "it must be 1 to 1000",
        )?;
        require(
            "cell.retries",
            self.retries <= 255,
            "it must be at most 255",
        )?;
        let window_min = self.window_min();
        let windows = window_min >= 1 && self.window_max >= window_min;
        require(
            "cell.window_max",
            windows && self.window_max <= 65_535,
            "windows are 1 to 65535 slots, the longest not below the shortest",
        )?;
        let times = self.times();
        let possible = |time: &Duration| !time.is_zero() && *time <= Duration::from_millis(100);
        require(
            "cell.slot",
            times.iter().all(possible),
            "slot, sifs and preamble are above 0, and at most 100 ms",
        )?;
        let one = self.path_file.is_none() || (self.moves.is_empty() && self.wander.is_none());
        let why = "it has all movements: leave out `moves` and `wander`";
        require("cell.path_file", one, why)?;
        let capture = self.capture.is_none_or(|db| (0.0..=60.0).contains(&db));
        require("cell.capture", capture, "it is 0 to 60 dB")?;
        self.validate_rates()?;
        self.validate_tdma()?;
        self.validate_wander()?;
        self.validate_moves()
    }

    fn validate_wander(&self) -> Result<(), KeyError> {
        let Some(it) = &self.wander else {
            return Ok(());
        };
        let known = it.stations.iter().all(|it| *it < self.places.len());
        let why = "there is no such place in `places`";
        require("cell.wander.stations", known, why)?;
        let [low, high] = it.area;
        let area = (0..2).all(|axis| low[axis] < high[axis] && high[axis] - low[axis] < 1e7);
        let why = "two corners, the lower left one first, like [[0, 0], [800, 400]]";
        require("cell.wander.area", area, why)?;
        let [least, most] = it.speed;
        let why = "the least and the most metres a second, above 0 and at most 1000";
        let speed = least > 0.0 && least <= most && most <= 1000.0;
        require("cell.wander.speed", speed, why)?;
        let fixed = self.moves.iter().all(|it| {
            let wander = self.wander.as_ref();
            wander.is_none_or(|all| !all.stations.is_empty() && !all.stations.contains(&it.station))
        });
        let why = "the station wanders: name others in `wander.stations`";
        require("cell.moves.station", fixed, why)
    }

    fn validate_tdma(&self) -> Result<(), KeyError> {
        let Some(tdma) = &self.tdma else {
            return Ok(());
        };
        let slots = tdma.order.len() <= 1000;
        require("cell.tdma.order", slots, "there may be 1000 slots")?;
        let known = tdma.order.iter().all(|it| *it < self.places.len());
        let why = "there is no such place in `places`";
        require("cell.tdma.order", known, why)?;
        let own = |it: usize| tdma.order.is_empty() || tdma.order.contains(&it);
        let why = "each station needs a slot";
        require("cell.tdma.order", (0..self.places.len()).all(own), why)?;
        let why = "longer than its `guard`, and at most 10 s";
        let slot = tdma.slot.0 > tdma.guard.0 && tdma.slot.0 <= Duration::from_secs(10);
        require("cell.tdma.slot", slot, why)?;
        let contends = self.rts.is_some();
        require(
            "cell.rts",
            !contends,
            "there is no contention with `tdma`: remove it",
        )
    }

    fn validate_rates(&self) -> Result<(), KeyError> {
        let exponent = (1.0..=10.0).contains(&self.path_loss);
        require("cell.path_loss", exponent, "it must be 1 to 10")?;
        let few = "there may be 16 rates";
        require("cell.rates", self.rates.len() <= 16, few)?;
        for (index, it) in self.rates.iter().enumerate() {
            let least = "it must be at least 1 kbit/s";
            require("cell.rates.rate", it.rate.0 >= 1000, least)?;
            let once = self.rates[..index]
                .iter()
                .all(|other| other.rate != it.rate);
            require("cell.rates.rate", once, "there is such a rate already")?;
            let near = it.reach > 0.0 && it.reach <= self.reach();
            let why = "a rate reaches further than 0, and not further than `cell.reach`";
            require("cell.rates.reach", near, why)?;
        }
        Ok(())
    }

    fn validate_moves(&self) -> Result<(), KeyError> {
        let mut free = alloc::vec![Duration::ZERO; self.places.len()];
        for it in &self.moves {
            let known = it.station < self.places.len();
            require(
                "cell.moves.station",
                known,
                "there is no such place in `places`",
            )?;
            require(
                "cell.moves.until",
                it.until.0 > it.from.0,
                "it must be after `from`",
            )?;
            let finite = it.to.iter().all(|it| it.is_finite());
            require("cell.moves.to", finite, "a place is two numbers of metres")?;
            let free = &mut free[it.station];
            require(
                "cell.moves.from",
                *free <= it.from.0,
                "a station's moves must be in order, without overlap",
            )?;
            *free = it.until.0;
        }
        Ok(())
    }

    /// A station's way: times in s and places, between which it goes straight.
    pub fn way(&self, station: usize) -> Vec<[f64; 3]> {
        let [mut x, mut y] = self.places.get(station).copied().unwrap_or_default();
        let wander = self.wander.as_ref();
        if let Some(knots) = wander.and_then(|it| it.way(station, [x, y])) {
            return knots;
        }
        let mut knots = alloc::vec![[0.0, x, y]];
        for it in self.moves.iter().filter(|it| it.station == station) {
            knots.push([it.from.0.as_secs_f64(), x, y]);
            [x, y] = it.to;
            knots.push([it.until.0.as_secs_f64(), x, y]);
        }
        knots
    }
}
