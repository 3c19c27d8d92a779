//! The recent deliveries of each rate, and those that the others would have by them.

use alloc::vec::Vec;

use strait_core::waveform::Waveform;
use strait_core::{Duration, Instant};

use crate::quality::Told;

/// Frames that count as one observation; more at a time have the same fades in them.
const FRAMES: f64 = 4.0;

/// Observations that are remembered: older ones give way.
const WEIGHT_MAX: f64 = 2.0;

/// Those that a guess by a neighbouring rate counts as.
const GUESS_WEIGHT: f64 = 0.5;

/// The least that is left of that where there is a record.
const GUESS_WEIGHT_MIN: f64 = 0.01;

/// A record is something to guess by from so many observations on.
const WEIGHT_MIN: f64 = 0.2;

/// Where nothing is known at all.
const LOSS_UNKNOWN: f64 = 0.05;

/// The least share that a guess has of losses, before they grow for the next higher rate.
const LOSS_MIN: f64 = 0.03;

/// A negligible share of frames: it doesn't show by how much the rate was too fast.
const NONE_CAME: f64 = 0.03;
const NONE_CAME_IS: f64 = 0.02;

/// Frames that went by one rate, older ones for less.
#[derive(Clone, Copy, Debug)]
struct Record {
    weight: f64,
    came: f64,
    /// Of their octets, the share that was payload.
    payload: f64,
    at: Instant,
}

impl Record {
    const NONE: Self = Self {
        weight: 0.0,
        came: 0.0,
        payload: 1.0,
        at: Instant::ZERO,
    };

    /// Its weight at a moment, if it halves after a time.
    fn aged(self, now: Instant, half_life: Duration) -> Self {
        let lives = now.since(self.at).as_secs_f64() / half_life.as_secs_f64().max(1.0);
        let part = libm::exp2(-lives);
        Self {
            weight: self.weight * part,
            came: self.came * part,
            at: now,
            ..self
        }
    }
}

/// The deliveries of each rate of a ladder, by its place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivered {
    records: Vec<Record>,
}

/// When records are read, and of which rates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    pub(crate) now: Instant,
    /// After so long they count half.
    pub(crate) half_life: Duration,
    /// The rates, by their places.
    pub(crate) ladder: &'a [Waveform],
}

impl Reading<'_> {
    /// How many times as deep as by one rate's a fade need not be to damage by another's: its power
    /// falls below a small part of its mean in proportion to that part (Rayleigh).
    fn needs(&self, other: usize, place: usize) -> f64 {
        let of = |place: usize| self.ladder.get(place).map_or(0, |it| it.awgn_db);
        let need_db = |place| f64::from(of(place));
        libm::exp10((need_db(place) - need_db(other)) / 10.0)
    }
}

impl Delivered {
    pub(crate) const fn new() -> Self {
        Self {
            records: Vec::new(),
        }
    }

    /// Frames went by the rate of a place, of whose octets so many were payload. A record counts
    /// half after a time.
    pub(crate) fn note(&mut self, at: Reading<'_>, place: usize, (told, payload): (Told, f64)) {
        if told.frames == 0 {
            return;
        }
        if self.records.len() <= place {
            self.records.resize(place + 1, Record::NONE);
        }
        let frames = f64::from(told.frames);
        let weight = (frames / FRAMES).min(1.0);
        let came = weight * (1.0 - f64::from(told.lost.min(told.frames)) / frames);
        if let Some(record) = self.records.get_mut(place) {
            let before = record.aged(at.now, at.half_life);
            let rest = WEIGHT_MAX - weight;
            let part = rest / before.weight.max(rest);
            *record = Record {
                weight: before.weight * part + weight,
                came: before.came * part + came,
                payload,
                at: at.now,
            };
        }
    }

    /// Deliveries by the rate of a place no longer count.
    pub(crate) fn forget(&mut self, place: usize) {
        if let Some(record) = self.records.get_mut(place) {
            *record = Record::NONE;
        }
    }

    fn record(&self, at: Reading<'_>, place: usize) -> Record {
        let record = self.records.get(place).copied().unwrap_or(Record::NONE);
        record.aged(at.now, at.half_life)
    }

    /// The share of frames that arrives by the rate of a place: by its own record, and by its
    /// neighbours' if that has little evidence.
    pub(crate) fn share(&self, at: Reading<'_>, place: usize) -> f64 {
        let own = self.record(at, place);
        let guess = GUESS_WEIGHT * (1.0 - own.weight).max(GUESS_WEIGHT_MIN);
        let beside = self.share_beside(at, place);
        (own.came + guess * beside) / (own.weight + guess)
    }

    /// Whether the recent share of arrivals by the rate of a place is known.
    pub(crate) fn is_known(&self, at: Reading<'_>, place: usize) -> bool {
        self.record(at, place).weight >= WEIGHT_MIN
    }

    /// The record of the nearest other place that has one.
    fn beside(&self, at: Reading<'_>, place: usize) -> Option<(usize, Record)> {
        let records = (0..self.records.len()).filter(|other| *other != place);
        let records = records.map(|other| (other, self.record(at, other)));
        let known = records.filter(|(_, record)| record.weight >= WEIGHT_MIN);
        known.min_by_key(|(other, _)| (other.abs_diff(place), *other > place))
    }

    /// The share of payload by the rate of a place: frames are the shorter the more is lost.
    pub(crate) fn payload(&self, at: Reading<'_>, place: usize) -> f64 {
        if self.is_known(at, place) {
            return self.record(at, place).payload;
        }
        let nearest = self.beside(at, place);
        nearest.map_or(1.0, |(other, record)| {
            // The overhead of the best segments follows the root of losses.
            let times = libm::sqrt(at.needs(other, place));
            (1.0 - (1.0 - record.payload) * times).max(0.0)
        })
    }

    /// The share of frames by its neighbours' records alone.
    pub(crate) fn share_beside(&self, at: Reading<'_>, place: usize) -> f64 {
        let nearest = self.beside(at, place);
        let Some((other, record)) = nearest else {
            return 1.0 - LOSS_UNKNOWN;
        };
        let share = match record.came / record.weight {
            none if none < NONE_CAME => NONE_CAME_IS,
            share => share.min(1.0 - LOSS_MIN),
        };
        libm::pow(share, at.needs(other, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::waveform::{self, Bandwidth, Family, Interleaver};

    const HALF_LIFE: Duration = Duration::from_secs(120);

    /// 600, 1200, 1600 and 2400 bit/s are the places 3 to 6, and need 3, 5, 6 and 6 dB.
    fn ladder() -> Vec<Waveform> {
        let narrow = Bandwidth::default();
        let find = |rate| waveform::find(Family::M110D, narrow, Interleaver::Short, rate);
        waveform::rates(Family::M110D, narrow)
            .filter_map(find)
            .collect()
    }

    fn at(now: Instant, ladder: &[Waveform]) -> Reading<'_> {
        Reading {
            now,
            half_life: HALF_LIFE,
            ladder,
        }
    }

    fn told(frames: u32, lost: u32) -> Told {
        Told { frames, lost }
    }

    /// What is noted of places, one after the other, and the share of another in thousandths.
    fn share(notes: &[(usize, Told)], place: usize) -> u32 {
        let (mut delivered, ladder) = (Delivered::new(), ladder());
        for (place, told) in notes {
            delivered.note(at(Instant::ZERO, &ladder), *place, (*told, 1.0));
        }
        let share = delivered.share(at(Instant::ZERO, &ladder), place);
        libm::round(share * 1000.0) as u32
    }

    #[test]
    fn a_record_is_what_came_and_newer_frames_count_for_more() {
        let (all, none, half) = (told(8, 0), told(8, 8), told(40, 20));
        assert_eq!(share(&[], 3), 950, "nothing is known");
        assert_eq!(share(&[(3, half)], 3), 502);
        assert_eq!(share(&[(3, all), (3, none)], 3), 501);
        // Of three observations two are remembered: the newest, and half of each before.
        assert_eq!(share(&[(3, all), (3, all), (3, none)], 3), 501);
        assert_eq!(share(&[(3, all), (3, none), (3, none)], 3), 252);
    }

    #[test]
    fn a_rate_that_needs_less_loses_less_as_far_as_is_known() {
        let quarter = told(8, 2);
        let of = |place| share(&[(5, quarter)], place);
        assert_eq!([3, 4, 6, 7].map(of), [866, 796, 750, 563]);
        // Where nothing came at all it may have been far too fast.
        let of = |place| share(&[(5, told(8, 8))], place);
        assert_eq!([2, 3, 4, 6].map(of), [374, 141, 45, 20]);
        // What is known of the rate itself counts, the more the more it is.
        let of = |frames| share(&[(5, quarter), (4, told(frames, frames))], 4);
        assert_eq!([1, 2, 4].map(of), [477, 265, 4]);
    }

    #[test]
    fn what_was_long_ago_counts_for_less() {
        let (mut delivered, ladder) = (Delivered::new(), ladder());
        let then = |times| at(Instant::ZERO + HALF_LIFE * times, &ladder);
        delivered.note(then(0), 5, (told(8, 8), 1.0));
        delivered.note(then(1), 5, (told(8, 0), 1.0));
        let share = delivered.share(then(1), 5);
        // One that came, and half of one that didn't.
        assert!((share - 1.0 / 1.5).abs() < 0.01, "{share}");
        // In the end nothing is left of it.
        let share = delivered.share(then(20), 5);
        assert!((share - 0.95).abs() < 0.01, "{share}");
    }
}
