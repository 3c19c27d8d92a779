//! How good a path is while something is sent: its mean, slow changes, and fading.

use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use strait_core::chance::Stream;
use strait_core::time::Instant;
use strait_core::units::{Decibels, Hertz, Time};

use super::config::HfConfig;
use super::noise::Shaped;

/// What noise and propagation do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HfChannel {
    /// Noise alone.
    #[default]
    Awgn,
    /// The standard's channel of two fading paths, by its table: a block is good or bad as a whole.
    Poor,
    /// Two paths that fade as time goes by (Watterson; ITU-R F.1487).
    Fading,
}

/// Conditions of ITU-R F.1487, Annex 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "their names are the recommendation's")]
pub enum Condition {
    LowLatitudeQuiet,
    LowLatitudeModerate,
    LowLatitudeDisturbed,
    MidLatitudeQuiet,
    MidLatitudeModerate,
    MidLatitudeDisturbed,
    NearVertical,
    HighLatitudeQuiet,
    HighLatitudeModerate,
    HighLatitudeDisturbed,
}

impl Condition {
    /// Time between the two paths in milliseconds, and how far each spreads frequencies, in hertz.
    pub const fn spreads(self) -> (f64, f64) {
        match self {
            Self::LowLatitudeQuiet => (0.5, 0.5),
            Self::LowLatitudeModerate => (2.0, 1.5),
            Self::LowLatitudeDisturbed => (6.0, 10.0),
            Self::MidLatitudeQuiet => (0.5, 0.1),
            Self::MidLatitudeModerate => (1.0, 0.5),
            Self::MidLatitudeDisturbed => (2.0, 1.0),
            Self::NearVertical => (7.0, 1.0),
            Self::HighLatitudeQuiet => (1.0, 0.5),
            Self::HighLatitudeModerate => (3.0, 10.0),
            Self::HighLatitudeDisturbed => (7.0, 30.0),
        }
    }
}

/// Slow changes of the signal-to-noise ratio around its mean: Gaussian in decibels, forgotten with
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variation {
    /// Standard deviation.
    #[serde(default = "four_db")]
    pub deviation: Decibels,
    /// Time in which its correlation falls to 1/e.
    #[serde(default = "ten_s")]
    pub time: Time,
}

const fn four_db() -> Decibels {
    Decibels(4.0)
}

const fn ten_s() -> Time {
    Time(strait_core::Duration::from_secs(10))
}

/// A signal-to-noise ratio as measured. Between two points it changes evenly; before the first and
/// after the last it stays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TracePoint {
    /// When, since the link's beginning.
    pub at: Time,
    /// How much.
    pub snr: Decibels,
}

/// The changes that both directions of a path have in common: it is the same path.
#[derive(Clone, Debug)]
pub(super) struct Fading {
    variation: Option<(f64, Shaped)>,
    trace: Vec<(f64, f64)>,
    taps: Option<Taps>,
}

/// Two paths of equal power.
#[derive(Clone, Debug)]
struct Taps {
    gains: [Shaped; 2],
    /// The angle between the two across the band, at evenly spaced frequencies: cosine and sine.
    angles: Vec<(f64, f64)>,
}

/// Frequencies at which a channel is looked at.
const FREQUENCIES: u32 = 16;

/// Samples of a fading channel in one block; longer blocks are looked at less often.
const SAMPLES_MAX: u64 = 256;

/// What a receiver has of a stretch of a transmission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quality {
    /// The mean signal-to-noise ratio, as a modem measures it, in decibels.
    pub(super) snr_db: f64,
    /// The ratio at which noise alone does as much harm.
    pub(super) effective_db: f64,
}

/// How much worse the bad parts of a block are for its code than the good ones are good. One
/// constant for all waveforms: with it, long blocks on two paths of 2 ms and 1 Hz need what the
/// standard's table says.
const SHARPNESS: f64 = 3.0;

impl Fading {
    pub(super) fn new(config: &HfConfig, name: &str, seed: u64) -> Self {
        let stream = |purpose: &str| Stream::new(seed, &format!("channel.{name}.{purpose}"));
        let variation = config.variation.map(|variation| {
            let time_s = variation.time.0.as_secs_f64();
            let shaped = Shaped::forgetful(stream("variation"), time_s);
            (variation.deviation.0, shaped)
        });
        let (spread_s, Hertz(doppler_hz)) = config.spreads();
        let taps = (config.channel == HfChannel::Fading).then(|| Taps {
            gains: ["tap 0", "tap 1"].map(|tap| Shaped::doppler(stream(tap), doppler_hz)),
            angles: angles(f64::from(config.bandwidth.khz) * 800.0, spread_s),
        });
        let point = |point: &TracePoint| (point.at.0.as_secs_f64(), point.snr.0);
        let trace = config.trace.iter().flatten().map(point).collect();
        Self {
            variation,
            trace,
            taps,
        }
    }

    /// How good the path is from one moment to another, for a waveform that needs `mask_db`, where
    /// it is `mean_db` in the mean.
    pub(super) fn quality(
        &mut self,
        (from, to): (Instant, Instant),
        mean_db: f64,
        mask_db: f64,
    ) -> Quality {
        let middle = from + to.since(from) / 2;
        let mut snr_db = self.traced(middle).unwrap_or(mean_db);
        if let Some((deviation_db, shaped)) = &mut self.variation {
            snr_db += *deviation_db * between(shaped, middle);
        }
        let Some(taps) = &mut self.taps else {
            return Quality {
                snr_db,
                effective_db: snr_db,
            };
        };
        let snr = linear(snr_db);
        let scale = linear(mask_db) / SHARPNESS;
        let (first, last) = taps.gains[0].span(from, to);
        let step = ((last - first) / SAMPLES_MAX).max(1);
        let (mut power, mut harm, mut count) = (0.0, 0.0, 0.0);
        for moment in (first..=last).step_by(step as usize) {
            let (sum, equalised) = taps.at(moment, snr);
            power += sum;
            harm += libm::exp(-equalised / scale);
            count += 1.0;
        }
        let effective = -scale * libm::log((harm / count).max(f64::MIN_POSITIVE));
        Quality {
            snr_db: snr_db + decibels(power / count),
            effective_db: decibels(effective),
        }
    }

    fn traced(&self, at: Instant) -> Option<f64> {
        let at_s = at.as_secs_f64();
        let next = self.trace.partition_point(|point| point.0 <= at_s);
        let Some(before) = next.checked_sub(1).map(|index| self.trace[index]) else {
            return self.trace.first().map(|point| point.1);
        };
        let Some(after) = self.trace.get(next) else {
            return Some(before.1);
        };
        let part = (at_s - before.0) / (after.0 - before.0);
        Some(before.1 + part * (after.1 - before.1))
    }
}

impl Taps {
    /// The power that both paths bring at a moment, where 1 is the mean, and the signal-to-noise
    /// ratio behind a receiver that undoes their echo: the geometric mean over the band, as of a
    /// decision-feedback equaliser.
    fn at(&mut self, moment: u64, snr: f64) -> (f64, f64) {
        let [a, b] = &mut self.gains;
        let (a, b) = (a.at(moment), b.at(moment));
        let power = (a.0 * a.0 + a.1 * a.1 + b.0 * b.0 + b.1 * b.1) / 2.0;
        // Twice the real and imaginary part of one gain times the other's conjugate, halved.
        let (re, im) = (a.0 * b.0 + a.1 * b.1, a.1 * b.0 - a.0 * b.1);
        let gain =
            |(cos, sin): &(f64, f64)| libm::log1p(snr * (power + re * cos - im * sin).max(0.0));
        let mean = self.angles.iter().map(gain).sum::<f64>() / self.angles.len() as f64;
        (power, libm::expm1(mean))
    }
}

/// Angles between two paths `spread_s` apart, over a band of `symbols_s` hertz.
fn angles(symbols_s: f64, spread_s: f64) -> Vec<(f64, f64)> {
    let angle = |n: u32| {
        let frequency_hz = symbols_s * (f64::from(n) + 0.5) / f64::from(FREQUENCIES);
        let angle = 2.0 * core::f64::consts::PI * frequency_hz * spread_s;
        (libm::cos(angle), libm::sin(angle))
    };
    (0..FREQUENCIES).map(angle).collect()
}

/// Real noise of power 1 at a moment between two of the grid.
fn between(shaped: &mut Shaped, at: Instant) -> f64 {
    let (before, _) = shaped.span(at, at);
    let part = at.as_secs_f64() * shaped.rate_hz - before as f64;
    let [a, b] = [shaped.at(before).0, shaped.at(before + 1).0];
    // Each part of complex noise has half its power.
    core::f64::consts::SQRT_2 * (a + part * (b - a))
}

pub(super) fn linear(db: f64) -> f64 {
    libm::pow(10.0, db / 10.0)
}

pub(super) fn decibels(ratio: f64) -> f64 {
    10.0 * libm::log10(ratio.max(1e-30))
}

#[cfg(test)]
mod tests {
    use super::super::decoder::share;
    use super::*;
    use strait_core::waveform::{Bandwidth, Family, Interleaver, find};

    fn fading(condition: Condition) -> Fading {
        let config = HfConfig {
            channel: HfChannel::Fading,
            condition: Some(condition),
            ..HfConfig::default()
        };
        Fading::new(&config, "x", 1)
    }

    /// The mean share of wrong bits of a rate's blocks over half an hour.
    fn wrong(condition: Condition, rate: u32, interleaver: Interleaver, snr_db: f64) -> f64 {
        let mut fading = fading(condition);
        let waveform = find(Family::M110D, Bandwidth::default(), interleaver, rate).unwrap();
        let (block, mask_db) = (waveform.mode.block(), f64::from(waveform.awgn_db));
        let (mut from, mut sum, mut count) = (Instant::ZERO, 0.0, 0.0);
        while from < Instant::from_secs(1200) {
            let quality = fading.quality((from, from + block), snr_db, mask_db);
            sum += share(HfChannel::Fading, quality, mask_db);
            (from, count) = (from + block, count + 1.0);
        }
        sum / count
    }

    #[test]
    fn long_blocks_need_on_the_poor_channel_what_the_standard_allows() {
        // The table's points for 1e-5, for this model and one constant: within 2 dB.
        for (rate, poor_db) in [(600, 7.0), (2400, 11.0), (4800, 19.0), (8000, 27.0)] {
            let at = |snr_db| {
                wrong(
                    Condition::MidLatitudeDisturbed,
                    rate,
                    Interleaver::Long,
                    snr_db,
                )
            };
            let (less, more) = (at(poor_db - 2.0), at(poor_db + 2.0));
            assert!(more < 1e-5 && 1e-5 < less, "{rate}: {less:e} to {more:e}");
        }
    }

    #[test]
    fn short_blocks_and_slow_fading_are_worse() {
        let at = |condition, interleaver| wrong(condition, 2400, interleaver, 13.0);
        let disturbed = Condition::MidLatitudeDisturbed;
        let (long, short) = (
            at(disturbed, Interleaver::Long),
            at(disturbed, Interleaver::Short),
        );
        assert!(short > 10.0 * long.max(1e-6), "{short:e}, {long:e}");
        // A fade that outlasts the longest block isn't spread by it.
        let slow = at(Condition::MidLatitudeQuiet, Interleaver::Long);
        assert!(slow > 10.0 * long.max(1e-6), "{slow:e}, {long:e}");
    }

    #[test]
    fn noise_alone_is_what_it_says() {
        let mut plain = Fading::new(&HfConfig::default(), "x", 1);
        let span = (Instant::ZERO, Instant::from_secs(1));
        let quality = plain.quality(span, 12.5, 6.0);
        assert_eq!((quality.snr_db, quality.effective_db), (12.5, 12.5));
    }

    #[test]
    fn fading_keeps_the_mean_power() {
        let mut fading = fading(Condition::MidLatitudeDisturbed);
        let mut sum = 0.0;
        for s in 0..400 {
            let span = (Instant::from_secs(s), Instant::from_secs(s + 1));
            sum += linear(fading.quality(span, 10.0, 6.0).snr_db);
        }
        assert!((9.0..11.0).contains(&(sum / 400.0)), "{}", sum / 400.0);
    }

    #[test]
    fn slow_changes_have_their_deviation() {
        let config = HfConfig {
            variation: Some(Variation {
                deviation: four_db(),
                time: ten_s(),
            }),
            ..HfConfig::default()
        };
        let mut slow = Fading::new(&config, "x", 1);
        let db = |s: u64| {
            let at = Instant::from_secs(s);
            slow.quality((at, at), 10.0, 6.0).snr_db
        };
        let all: Vec<f64> = (0..20_000).map(db).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let power = all.iter().map(|db| (db - mean) * (db - mean)).sum::<f64>() / all.len() as f64;
        assert!((mean - 10.0).abs() < 0.4, "{mean}");
        // Between two points of the grid a straight line takes a little of it.
        assert!((3.6..4.2).contains(&libm::sqrt(power)), "{power}");
        let step = all
            .windows(2)
            .map(|two| (two[1] - two[0]).abs())
            .fold(0.0, f64::max);
        assert!(step < 8.0, "{step}");
    }

    #[test]
    fn a_trace_is_followed_evenly_and_kept_at_its_ends() {
        let mut config = HfConfig::default();
        config
            .read_trace("# s, dB\n10, 20\n\n20 -4 # a storm\n20.5,\t0\n")
            .unwrap();
        let mut traced = Fading::new(&config, "x", 1);
        let mut at = |ms: u64| {
            let at = Instant::from_millis(ms);
            traced.quality((at, at), 99.0, 6.0).snr_db
        };
        assert_eq!(
            [0, 10_000, 15_000, 20_000, 20_250, 99_000].map(&mut at),
            [20.0, 20.0, 8.0, -4.0, -2.0, 0.0]
        );
        // A block has what is in its middle.
        let span = (Instant::from_secs(10), Instant::from_secs(20));
        assert_eq!(traced.quality(span, 99.0, 6.0).snr_db, 8.0);
        for (text, line) in [
            ("", 1),
            ("x, 1", 1),
            ("1, 2\n1, 3", 2),
            ("1", 1),
            ("1, 2\n3, x", 2),
        ] {
            assert_eq!(
                config.read_trace(text).map_err(|error| error.line),
                Err(line),
                "{text}"
            );
        }
    }
}
