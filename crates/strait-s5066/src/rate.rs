//! The rate by which a station sends to a peer: receptions decide.
//!
//! After each answer the share of received frames is known, and the recent deliveries of each rate.
//! A lower one is chosen if it would deliver more; its smaller losses are guessed if unknown. A
//! higher one is tried for a turn if it would deliver more, and kept if it does. A rate that was
//! tried in vain isn't tried again for a while, each time longer.
//!
//! Where nothing is heard, it falls to half, to half of that, and then to the slowest rate; from
//! there it finds back in strides of four times, as far as it was before.
//!
//! In a net, an unanswered turn may have collided by chance, which says nothing of the rate; but
//! chance doesn't last.

use alloc::vec::Vec;

use strait_core::waveform::Waveform;
use strait_core::{Duration, Instant};

use crate::delivered::{Delivered, Reading};
use crate::quality::{Late, Told};

/// Frames that are enough to judge a rate by; when it finds back, half of that.
const ENOUGH: u32 = 4;

/// Judgements without a change after which a rate counts as lasting.
const CALM: u32 = 4;

/// How long a rate isn't tried again that was tried in vain, at first, at least; and how often that
/// is doubled.
const PAUSE: Duration = Duration::from_secs(30);
const PAUSE_DOUBLED_MAX: u32 = 5;
const PAUSE_MAX: Duration = Duration::from_secs(1800);

/// Deliveries count half after so many of these pauses.
const MEMORY_PAUSES: u32 = 4;

/// A lower rate has to deliver so many times as much to be chosen instead.
const BETTER: f64 = 1.05;

/// Of a lower rate, the least part that losses and all that is around segments take.
const LOSS_AT_BEST: f64 = 0.04;

/// The same in times that an answer takes, where that is longer.
const PAUSE_ANSWERS: u32 = 6;

/// Transmissions without an answer after which the slowest rate is used.
const SILENT_MAX: u32 = 3;

/// In a net, so many transmissions in a row without an answer, or without arrivals, may have
/// collided: if one of five does, that is one of 25, and a third one of 125. A rate that is only
/// tried is doubtful itself: there, one.
pub(crate) const MET_MAX: u32 = 2;

/// Rates between which a station may choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapt {
    /// The waveforms, the slowest first. At least one.
    pub ladder: Vec<Waveform>,
    /// The interleaver's code on the order wire.
    pub interleaver: u8,
    /// The waveforms' code in messages for rates that have none.
    pub waveform: u8,
    /// The other station is asked before each change. Otherwise its modem finds the rate alone.
    pub agree: bool,
    /// Measured signal-to-noise ratios are reported to the other station, and its advice is
    /// followed.
    pub advice: bool,
}

impl Adapt {
    /// The place of a rate, or of the next lower one.
    #[must_use]
    pub fn place(&self, rate_bit_s: u32) -> usize {
        let below = self
            .ladder
            .iter()
            .rposition(|it| it.mode.rate_bit_s <= rate_bit_s);
        below.unwrap_or(0)
    }

    pub(crate) fn rate(&self, place: usize) -> u32 {
        let place = place.min(self.ladder.len().saturating_sub(1));
        self.ladder.get(place).map_or(0, |it| it.mode.rate_bit_s)
    }

    /// Whether blocks by the rate of a place are so long that the fades of most paths are spread
    /// over them: losses end within a few decibels then.
    fn spans_fades(&self, place: usize) -> bool {
        let mode = self.ladder.get(place).map(|it| it.mode);
        mode.is_some_and(|mode| mode.block_bits >= mode.rate_bit_s)
    }

    /// The highest place at which a signal-to-noise ratio, in hundredths of a decibel, is a decibel
    /// less than the waveform needs without fading for one wrong bit in 100,000: short segments
    /// live with more.
    pub(crate) fn place_for(&self, snr_centi_db: i32) -> usize {
        let suffices = |it: &Waveform| (i32::from(it.awgn_db) - 1) * 100 <= snr_centi_db;
        self.ladder.iter().rposition(suffices).unwrap_or(0)
    }
}

/// Why a rate was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    /// It never was.
    #[default]
    None,
    /// Nearly all arrived: a higher one is tried.
    Good,
    /// Most was lost.
    Lost,
    /// The next lower one delivers more.
    Worse,
    /// A higher one was tried and didn't deliver more.
    Failed,
    /// No answer was heard.
    Silence,
    /// Only the answer had been lost, or the other station is heard again.
    Heard,
    /// The other station asked for it.
    Asked,
}

impl Reason {
    /// For tables.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Good => "nearly all arrived",
            Self::Lost => "most was lost",
            Self::Worse => "a lower one delivers more",
            Self::Failed => "a higher one didn't deliver more",
            Self::Silence => "no answer",
            Self::Heard => "heard again",
            Self::Asked => "asked for",
        }
    }
}

/// How often a rate was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// To a higher one.
    pub up: u64,
    /// To a lower one by reported losses.
    pub down: u64,
    /// To a lower one as nothing was heard.
    pub silent: u64,
}

/// A rate that is tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    from: usize,
    /// Judgements in a row that had changed nothing there.
    calm: u32,
    /// It begins with a short transmission: nothing arrived of the last one.
    probe: bool,
}

/// The rate towards one peer.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    at: usize,
    /// It doesn't fall below this place, though it would to the one wanted.
    least: usize,
    wanted: usize,
    trial: Option<Trial>,
    /// The place before a fall.
    known: usize,
    /// It fell, or tried in vain, since the beginning.
    fell: bool,
    /// Frames reported since the last judgement.
    tally: Told,
    /// The deliveries of each rate.
    delivered: Delivered,
    /// Of the octets of frames at present, the share that is payload.
    payload: f64,
    silent: u32,
    /// Transmissions by it in a row without arrivals, according to an answer to a slower one.
    lost: u32,
    /// Judgements in a row that changed nothing.
    calm: u32,
    not_before: Instant,
    /// The place that was tried in vain last.
    in_vain: usize,
    pause: Duration,
    /// How often that has been doubled.
    doubled: u32,
    /// The same for trials of a lower rate.
    lower_not_before: Instant,
    lower_doubled: u32,
    /// Nothing arrived by the higher rate that was tried last.
    unheard: bool,
    /// The rate that the peer considers receivable.
    advice: Option<usize>,
    changes: Changes,
    reason: Reason,
}

impl Rate {
    pub(crate) const fn new(at: usize) -> Self {
        Self {
            at,
            least: 0,
            wanted: at,
            trial: None,
            known: at,
            fell: false,
            tally: Told { frames: 0, lost: 0 },
            delivered: Delivered::new(),
            payload: 1.0,
            silent: 0,
            lost: 0,
            calm: 0,
            not_before: Instant::ZERO,
            in_vain: 0,
            pause: PAUSE,
            doubled: 0,
            lower_not_before: Instant::ZERO,
            lower_doubled: 0,
            unheard: false,
            advice: None,
            changes: Changes {
                up: 0,
                down: 0,
                silent: 0,
            },
            reason: Reason::None,
        }
    }

    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// How often it was changed.
    pub(crate) const fn changes(&self) -> Changes {
        self.changes
    }

    /// Why it was changed last.
    pub(crate) const fn reason(&self) -> Reason {
        self.reason
    }

    /// The rate that the peer considers receivable.
    pub(crate) const fn advice(&self) -> Option<usize> {
        self.advice
    }

    /// Takes the peer's advice.
    pub(crate) const fn advise(&mut self, advice: Option<usize>) {
        self.advice = advice;
    }

    /// An answer takes so long.
    pub(crate) fn answers_take(&mut self, time: Duration) {
        self.pause = PAUSE.max(time * PAUSE_ANSWERS);
    }

    /// Of the octets of frames reported next, so many are payload.
    pub(crate) const fn carries(&mut self, payload: f64) {
        self.payload = payload;
    }

    /// Where it would be, if it could fall so low.
    pub(crate) const fn wanted(&self) -> usize {
        self.wanted
    }

    /// Transmissions without an answer since the last one.
    pub(crate) const fn silent(&self) -> u32 {
        self.silent
    }

    /// So many transmissions in a row may have met others.
    pub(crate) const fn met_max(&self) -> u32 {
        if self.trial.is_some() { 1 } else { MET_MAX }
    }

    fn change(&mut self, to: usize, reason: Reason) {
        self.wanted = to;
        let to = to.max(self.least.min(self.at));
        (self.tally, self.lost) = (Told::default(), 0);
        if to != self.at {
            self.calm = 0;
            let count = match reason {
                Reason::Silence => &mut self.changes.silent,
                _ if to > self.at => &mut self.changes.up,
                _ => &mut self.changes.down,
            };
            *count += 1;
            self.reason = reason;
        }
        self.fell |= to < self.at;
        self.at = to;
    }

    /// Whether it was higher before it fell, and may be again soon.
    pub(crate) const fn finds_back(&self) -> bool {
        self.at < self.known
    }

    /// Whether a short transmission is to show whether anything arrives by it.
    pub(crate) fn is_probed(&self) -> bool {
        self.trial.is_some_and(|trial| trial.probe)
    }

    /// Whether it hasn't changed for a while, so that long transmissions risk little.
    pub(crate) const fn is_calm(&self) -> bool {
        self.calm >= CALM
    }

    /// The rate is that of the other station's request, or of a failed agreement.
    pub(crate) fn set(&mut self, to: usize, reason: Reason) {
        self.trial = None;
        self.known = to;
        self.change(to, reason);
    }

    /// Half the rate of a place, if there is one so low.
    fn half(adapt: &Adapt, place: usize) -> usize {
        adapt.place(adapt.rate(place) / 2).min(place)
    }

    /// Nothing was heard of a transmission; it doesn't fall below `least`.
    pub(crate) fn miss(&mut self, now: Instant, adapt: &Adapt, least: usize) {
        self.least = least;
        self.silent += 1;
        if self.silent > 1 {
            // The channel has changed.
            self.delivered = Delivered::new();
        }
        if let Some(trial) = self.take_higher() {
            self.wait_after_trial(now, adapt, self.at);
            self.unheard = true;
            self.known = trial.from;
            return self.change(trial.from, Reason::Silence);
        }
        self.known = self.known.max(self.at);
        let to = if self.silent >= SILENT_MAX {
            0
        } else {
            Self::half(adapt, self.at)
        };
        self.change(to, Reason::Silence);
    }

    /// An answer was heard, whatever its content; it doesn't fall below `least`.
    pub(crate) fn hear(&mut self, least: usize) {
        (self.silent, self.least) = (0, least);
    }

    /// The other station was heard by a rate of this place. Where the own one fell as nothing was
    /// heard, half of that is a better place to begin at: both have the same path.
    pub(crate) fn hear_at(&mut self, adapt: &Adapt, heard: usize) {
        let to = Self::half(adapt, heard).min(self.known);
        if self.reason == Reason::Silence && self.silent == 0 && to > self.at {
            self.change(to, Reason::Heard);
        }
    }

    /// Learns late of frames that went at a place before the rate fell for lack of an answer. If
    /// most arrived, only the answer was lost. If not, that rate isn't the one to return to.
    pub(crate) fn hear_late(&mut self, now: Instant, adapt: &Adapt, used: usize, late: Late) {
        let Late { frames, came } = late;
        if used <= self.at || frames < 2 {
            return;
        }
        let lost = frames - came;
        self.note(now, adapt, used, Told { frames, lost });
        self.unheard &= came * 8 < frames;
        if came * 4 >= frames * 3 {
            return self.change(used, Reason::Heard);
        }
        // If next to nothing arrived, it isn't known by how much the rate was too fast.
        let (best, _) = self.best(now, adapt, used);
        if best > self.at && came * 8 >= frames {
            self.known = best;
            self.wait_after_fall(now, used);
            return self.change(best, Reason::Heard);
        }
        let before = if self.at == 0 { used - 1 } else { self.at };
        self.known = self.known.min(before);
        self.wait_after_fall(now, used);
    }

    /// Learns late of unreported frames that went at a place, without having lowered a rate: they
    /// may have collided. By chance that ends; if it doesn't, and slower transmissions are heard,
    /// it is the rate.
    pub(crate) fn hear_met(&mut self, now: Instant, adapt: &Adapt, used: usize, late: Late) {
        let Late { frames, came } = late;
        if used != self.at {
            return;
        }
        if came * 4 >= frames {
            // It was the answer that met another.
            let lost = frames - came;
            return self.learn(now, adapt, used, Told { frames, lost });
        }
        self.lost += 1;
        if self.lost > self.met_max() {
            self.fall(now, adapt, Self::half(adapt, used));
        }
    }

    /// Learns of frames that went at a place of the ladder.
    pub(crate) fn learn(&mut self, now: Instant, adapt: &Adapt, used: usize, told: Told) {
        self.note(now, adapt, used, told);
        if used > self.at {
            return;
        }
        if used < self.at {
            if told.lost * 2 > told.frames {
                self.fall(now, adapt, used.saturating_sub(1));
            }
            return;
        }
        if told.lost * 2 <= told.frames {
            // Much of its data arrives: it isn't sustained by long frames alone.
            (self.lost, self.wanted) = (0, self.at);
        }
        self.tally.frames += told.frames;
        self.tally.lost += told.lost;
        let finding = self.trial.map_or(self.at, |trial| trial.from) < self.known;
        let enough = if finding { ENOUGH / 2 } else { ENOUGH };
        let most_lost = self.tally.lost * 2 > self.tally.frames;
        if self.tally.frames >= enough || most_lost {
            self.tally = Told::default();
            if let Some(trial) = self.trial.as_mut().filter(|it| it.probe && !most_lost) {
                trial.probe = false;
                return;
            }
            self.judge(now, adapt);
        }
    }

    fn note(&mut self, now: Instant, adapt: &Adapt, used: usize, told: Told) {
        let at = self.reading(now, adapt);
        self.delivered.note(at, used, (told, self.payload));
    }

    fn reading<'a>(&self, now: Instant, adapt: &'a Adapt) -> Reading<'a> {
        Reading {
            now,
            half_life: self.pause * MEMORY_PAUSES,
            ladder: &adapt.ladder,
        }
    }

    /// The delivery of a place's rate, as far as is known, in bit/s.
    fn delivers(&self, now: Instant, adapt: &Adapt, place: usize) -> f64 {
        let share = self.delivered.share(self.reading(now, adapt), place);
        self.delivers_by(share, now, adapt, place)
    }

    /// The same if such a share of frames arrives.
    fn delivers_by(&self, share: f64, now: Instant, adapt: &Adapt, place: usize) -> f64 {
        let payload = self.delivered.payload(self.reading(now, adapt), place);
        f64::from(adapt.rate(place)) * share * payload
    }

    /// Of a place and those below it, the one that delivers most.
    fn best(&self, now: Instant, adapt: &Adapt, most: usize) -> (usize, f64) {
        let places = (0..=most).map(|place| (place, self.delivers(now, adapt, place)));
        places
            .max_by(|one, other| one.1.total_cmp(&other.1))
            .unwrap_or((0, 0.0))
    }

    /// Most of the sent frames were lost.
    fn fall(&mut self, now: Instant, adapt: &Adapt, to: usize) {
        match self.take_higher() {
            Some(trial) => self.fail(now, adapt, trial),
            None => {
                self.change(to, Reason::Lost);
                self.known = self.at;
                self.settle(now);
            }
        }
    }

    /// Ends a trial, and gives that of a higher rate: a lower one that loses more is no reason to
    /// go back to a higher one.
    fn take_higher(&mut self) -> Option<Trial> {
        self.trial.take().filter(|trial| trial.from < self.at)
    }

    /// The rate that was tried isn't better.
    fn fail(&mut self, now: Instant, adapt: &Adapt, trial: Trial) {
        if trial.from > self.at {
            self.lower_not_before = now + self.paused(self.lower_doubled);
            self.lower_doubled = (self.lower_doubled + 1).min(PAUSE_DOUBLED_MAX);
            return self.go_back(trial);
        }
        let tried = self.at;
        self.go_back(trial);
        self.wait_after_trial(now, adapt, tried);
    }

    fn go_back(&mut self, trial: Trial) {
        self.change(trial.from, Reason::Failed);
        // The rate to return to is known.
        (self.calm, self.known) = (trial.calm, trial.from);
    }

    /// How long a rate isn't tried after so many trials in vain.
    fn paused(&self, doubled: u32) -> Duration {
        (self.pause * (1 << doubled)).min(self.pause.max(PAUSE_MAX))
    }

    /// It fell: earlier failed tries may have been on another channel.
    fn settle(&mut self, now: Instant) {
        (self.doubled, self.unheard) = (0, false);
        self.not_before = now + self.pause;
    }

    /// It fell from a place: what was tried in vain above that is no reason to stay below it.
    fn wait_after_fall(&mut self, now: Instant, from: usize) {
        let soon = now + self.pause;
        self.not_before = match self.in_vain > from {
            true => soon,
            false => self.not_before.max(soon),
        };
    }

    /// No higher rate is tried for a while.
    pub(crate) fn wait(&mut self, now: Instant) {
        self.wait_and_double(now, 1);
    }

    fn wait_and_double(&mut self, now: Instant, times: u32) {
        self.not_before = now + self.paused(self.doubled);
        self.doubled = (self.doubled + times).min(PAUSE_DOUBLED_MAX);
    }

    /// A higher rate was tried in vain. Behind a long interleaver a trial takes minutes.
    fn wait_after_trial(&mut self, now: Instant, adapt: &Adapt, tried: usize) {
        let times = if adapt.spans_fades(tried) { 2 } else { 1 };
        self.in_vain = tried;
        self.wait_and_double(now, times);
    }

    fn judge(&mut self, now: Instant, adapt: &Adapt) {
        let delivers = self.delivers(now, adapt, self.at);
        if let Some(trial) = self.trial {
            let better = BETTER;
            if delivers <= self.delivers(now, adapt, trial.from) * better {
                self.trial = None;
                return self.fail(now, adapt, trial);
            }
            self.trial = None;
            if trial.from > self.at {
                self.known = self.at;
                self.settle(now);
            }
            (self.doubled, self.unheard) = (0, false);
        }
        let (best, most) = self.best(now, adapt, self.at);
        if most > delivers * BETTER {
            self.change(best, Reason::Worse);
            self.known = self.at;
            return self.settle(now);
        }
        self.calm += 1;
        if let Some(lower) = self.lower_worth_a_trial(now, adapt, delivers) {
            return self.begin_trial(adapt, lower, Reason::Worse);
        }
        let next = self.at + 1;
        let finding = self.at < self.known;
        // Its earlier deliveries are old by now: the pause has ensured that.
        let share = self.delivered.share_beside(self.reading(now, adapt), next);
        let better = self.delivers_by(share, now, adapt, next) > delivers;
        if finding || better && now >= self.not_before {
            self.try_higher(adapt);
        }
    }

    /// A lower rate without recent results that may well deliver more than this one, if there is
    /// any: by the mean of the expectation from its neighbours, and of its delivery with next to no
    /// losses. Behind a long interleaver losses end within 3 dB.
    fn lower_worth_a_trial(&self, now: Instant, adapt: &Adapt, delivers: f64) -> Option<usize> {
        if now < self.lower_not_before || self.at < self.known || !adapt.spans_fades(self.at) {
            return None;
        }
        let reading = self.reading(now, adapt);
        let unknown = (self.least..self.at).filter(|it| !self.delivered.is_known(reading, *it));
        let expected = unknown.map(|place| {
            let at_best = f64::from(adapt.rate(place)) * (1.0 - LOSS_AT_BEST);
            (place, (at_best + self.delivers(now, adapt, place)) / 2.0)
        });
        let (place, most) = expected.max_by(|one, other| one.1.total_cmp(&other.1))?;
        (most > delivers * BETTER).then_some(place)
    }

    fn begin_trial(&mut self, adapt: &Adapt, to: usize, reason: Reason) {
        let (from, calm) = (self.at, self.calm);
        self.change(to, reason);
        let probe = to > from && self.unheard && adapt.spans_fades(to);
        self.trial = Some(Trial { from, calm, probe });
    }

    fn try_higher(&mut self, adapt: &Adapt) {
        let next = self.at + 1;
        let most = match self.advice {
            Some(advice) => advice.min(adapt.ladder.len() - 1),
            None => adapt.ladder.len() - 1,
        };
        if next > most {
            return;
        }
        let stride = adapt.place(adapt.rate(self.at).saturating_mul(4));
        let to = if self.at < self.known {
            stride.min(self.known)
        } else if self.advice.is_some() && !self.fell {
            stride
        } else {
            next
        };
        let to = to.min(most).max(next);
        self.delivered.forget(to);
        self.begin_trial(adapt, to, Reason::Good);
    }
}

#[cfg(test)]
#[path = "rate_tests.rs"]
mod tests;
