//! A path between two stations: what it does to blocks, each way.

use strait_core::time::{Duration, Instant, nanos};
use strait_core::waveform::{self, Mode};

use super::config::HfConfig;
use super::decoder::{Decoder, FOUND_FROM_DB};
use super::fading::Fading;

use crate::config::LinkConfig;
use crate::impair::{BitErrors, Source};
use crate::schedule::Schedule;
use crate::stats::ChannelStats;
use crate::{LossCause, Side};

/// A path.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) ends: [usize; 2],
    ways: [Way; 2],
    /// If it has a signal-to-noise ratio. Both directions fade alike.
    fading: Option<Fading>,
    waveforms: HfConfig,
    /// It is there at all.
    plugged: bool,
}

/// One direction of it.
#[derive(Clone, Debug)]
pub(super) struct Way {
    delay: Duration,
    schedule: Schedule,
    bits: Option<BitErrors>,
    /// The mean signal-to-noise ratio, and what it does.
    noise: Option<(f64, Decoder)>,
    pub(super) stats: ChannelStats,
}

impl Path {
    pub(super) fn new(ends: [usize; 2], config: &LinkConfig, name: &str, seed: u64) -> Self {
        let hf = config.hf_config().cloned().unwrap_or_default();
        let traced = hf.trace.as_ref().and_then(|trace| trace.first());
        let traced = traced.map(|point| point.snr);
        let way = |from: Side| {
            let keys = config.direction(from);
            let source = Source {
                seed,
                link: name,
                way: match from {
                    Side::A => "ab",
                    Side::B => "ba",
                },
            };
            Way {
                delay: keys.delay.map_or(Duration::ZERO, |time| time.0),
                schedule: Schedule::new(config, &keys),
                bits: BitErrors::new(keys.bit_errors, &source),
                noise: keys.snr.or(traced).and_then(|mean| {
                    let waveform = hf.waveform(config, from)?;
                    Some((mean.0, Decoder::new(hf.channel, waveform, &source)))
                }),
                stats: ChannelStats::default(),
            }
        };
        let ways = Side::BOTH.map(way);
        let noisy = ways.iter().any(|way| way.noise.is_some());
        Self {
            ends,
            ways,
            fading: noisy.then(|| Fading::new(&hf, name, seed)),
            waveforms: hf,
            plugged: true,
        }
    }

    pub(super) const fn way(&self, from: Side) -> &Way {
        &self.ways[from.index()]
    }

    /// How long power takes from one end to the other.
    pub(super) const fn delay(&self, from: Side) -> Duration {
        self.way(from).delay
    }

    /// From now on it carries something, or nothing.
    pub(super) const fn plug(&mut self, there: bool) {
        self.plugged = there;
    }

    /// Ends everything that is left to chance.
    pub(super) fn heal(&mut self) {
        for way in &mut self.ways {
            way.bits = None;
            way.noise = None;
        }
    }

    /// Why the other end doesn't find a transmission, whose preamble is on the air between two
    /// moments.
    pub(super) fn loses(&mut self, from: Side, span: (Instant, Instant)) -> Option<LossCause> {
        let way = &self.ways[from.index()];
        if !self.plugged || way.schedule.out(span.0, span.1) {
            return Some(LossCause::Outage);
        }
        let (Some((mean_db, decoder)), Some(fading)) = (&way.noise, &mut self.fading) else {
            return None;
        };
        let quality = fading.quality(span, *mean_db, FOUND_FROM_DB);
        (!decoder.finds(quality)).then_some(LossCause::Noise)
    }

    /// Carries a block of `mode` that is on the air between two moments, as its sender sees them,
    /// and whose first bit is the line's bit `first_bit`. Inverts the bits that are wrong.
    pub(super) fn carry(
        &mut self,
        from: Side,
        span: (Instant, Instant),
        (mode, first_bit): (Mode, u64),
        octets: &mut [u8],
    ) -> Carried {
        let way = &mut self.ways[from.index()];
        way.stats.frames += 1;
        way.stats.octets += octets.len() as u64;
        let mut carried = Carried::default();
        if !self.plugged || way.schedule.out(span.0, span.1) {
            carried.lost = Some(LossCause::Outage);
            return carried;
        }
        let mut wrong = 0;
        if let Some(errors) = &mut way.bits {
            wrong += invert(errors, first_bit, octets);
        }
        if let (Some((mean_db, decoder)), Some(fading)) = (&mut way.noise, &mut self.fading) {
            let hf = &self.waveforms;
            let rate = mode.rate_bit_s;
            let waveform = waveform::find(hf.family, hf.bandwidth, hf.interleaver, rate);
            let mask_db = decoder.mask_db(waveform);
            let quality = fading.quality(span, *mean_db, mask_db);
            wrong += decoder.decode(quality, mask_db, first_bit, octets);
            let snr_centi_db = (quality.snr_db * 100.0).clamp(-32_000.0, 32_000.0);
            carried.snr_centi_db = Some(libm::round(snr_centi_db) as i16);
        }
        way.stats.corrupted_bits += wrong;
        way.stats.corrupted_frames += u64::from(wrong > 0);
        carried
    }

    /// Counts a block that wasn't understood.
    pub(super) fn count_loss(&mut self, from: Side, cause: LossCause, octets: usize) {
        let stats = &mut self.ways[from.index()].stats;
        stats.count_loss(cause, octets as u64);
    }

    /// Counts the time for which an end had its power on.
    pub(super) fn count_power(&mut self, from: Side, power: Duration) {
        self.ways[from.index()].stats.busy_ns += nanos(power);
    }
}

/// What a receiver has of a block beside its octets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    pub(super) lost: Option<LossCause>,
    pub(super) snr_centi_db: Option<i16>,
}

/// Inverts the bits in error, and counts them.
fn invert(errors: &mut BitErrors, first_bit: u64, octets: &mut [u8]) -> u64 {
    let end = first_bit.saturating_add(octets.len() as u64 * 8);
    let (mut from, mut count) = (first_bit, 0);
    while let Some(bit) = errors.first(from, end) {
        let place = bit - first_bit;
        // On the air an octet's lowest bit is first.
        if let Some(octet) = octets.get_mut((place / 8) as usize) {
            *octet ^= 1 << (place % 8);
        }
        (from, count) = (bit + 1, count + 1);
    }
    count
}
