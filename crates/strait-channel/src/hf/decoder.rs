//! Which bits of a block are wrong behind its decoder.
//!
//! All these waveforms use convolutional codes of constraint length 7, and a Viterbi decoder's
//! errors come in short runs: it follows a wrong path for some dozen bits, half of which differ.

use strait_core::chance::Stream;
use strait_core::waveform::Waveform;

use super::fading::{HfChannel, Quality};
use crate::impair::Source;

/// Wrong bits at the ratio that a waveform's table names.
const AT_MASK: f64 = 1e-5;

/// Decades of the share of wrong bits for each decibel, near there: soft decisions, rate 1/2.
const DECADES_PER_DB: f64 = 1.43;

/// The same where the mean stands for a fading channel: what changes is how many blocks are bad.
const DECADES_PER_DB_POOR: f64 = 0.5;

/// The share of wrong bits in a bad block.
const IN_BAD_BLOCK: f64 = 0.1;

/// Bits of a run, half of which are wrong.
const RUN_BITS: u64 = 12;

/// A receiver finds a preamble where the slowest waveform just works, and a decibel below.
/// (Chosen: standards ask for more robust synchronisation than data, and give no figure.)
pub(super) const FOUND_FROM_DB: f64 = -7.0;

/// The share of wrong bits, of 0.5 at most, for a waveform that needs `mask_db`.
pub(super) fn share(channel: HfChannel, quality: Quality, mask_db: f64) -> f64 {
    let slope = match channel {
        HfChannel::Poor => DECADES_PER_DB_POOR,
        HfChannel::Awgn | HfChannel::Fading => DECADES_PER_DB,
    };
    let decades = slope * (mask_db - quality.effective_db);
    (AT_MASK * libm::pow(10.0, decades.min(10.0))).min(0.5)
}

/// One direction's decoder.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    channel: HfChannel,
    waveform: Waveform,
    stream: Stream,
}

impl Decoder {
    pub(super) fn new(channel: HfChannel, waveform: Waveform, source: &Source<'_>) -> Self {
        let stream = source.stream("decoder");
        Self {
            channel,
            waveform,
            stream,
        }
    }

    /// What a waveform needs; the station's own where the one in use isn't known.
    pub(super) fn mask_db(&self, waveform: Option<Waveform>) -> f64 {
        let waveform = waveform.unwrap_or(self.waveform);
        let mask_db = match self.channel {
            HfChannel::Poor => waveform.poor_db.unwrap_or(waveform.awgn_db + 12),
            HfChannel::Awgn | HfChannel::Fading => waveform.awgn_db,
        };
        f64::from(mask_db)
    }

    /// Whether a transmission is found by its preamble.
    pub(super) const fn finds(&self, quality: Quality) -> bool {
        let from_db = match self.channel {
            // By the same table, which has 5 dB between the two channels at 75 bit/s.
            HfChannel::Poor => FOUND_FROM_DB + 5.0,
            HfChannel::Awgn | HfChannel::Fading => FOUND_FROM_DB,
        };
        quality.effective_db >= from_db
    }

    /// Inverts the wrong bits of a block whose first bit is the line's bit `first_bit`, and counts
    /// them.
    pub(super) fn decode(
        &mut self,
        quality: Quality,
        mask_db: f64,
        first_bit: u64,
        octets: &mut [u8],
    ) -> u64 {
        let mut counter = first_bit.wrapping_mul(4);
        let mut draw = || {
            counter = counter.wrapping_add(1);
            self.stream.at(counter)
        };
        let unit = |word: u64| (word >> 11) as f64 / (1u64 << 53) as f64;
        let mut share = share(self.channel, quality, mask_db);
        if self.channel == HfChannel::Poor {
            let bad = unit(draw()) < share / IN_BAD_BLOCK;
            share = if bad { IN_BAD_BLOCK } else { 0.0 };
        }
        // A run begins at a bit that none covers: of 6 wrong bits in a run and the gap before it.
        let share = share.min(0.499);
        let run_bits = RUN_BITS as f64;
        let begins = share / (run_bits / 2.0 - (run_bits - 1.0) * share);
        if begins <= 1e-18 {
            return 0;
        }
        let log_good = libm::log1p(-begins.min(1.0 - 1e-9));
        let (mut at, end, mut count) = (0u64, octets.len() as u64 * 8, 0);
        loop {
            let gap = libm::log(1.0 - unit(draw())) / log_good;
            at = at.saturating_add(gap as u64);
            if at >= end {
                return count;
            }
            let flips = draw();
            for bit in 0..RUN_BITS.min(end - at) {
                if flips >> bit & 1 == 1 {
                    let place = at + bit;
                    octets[(place / 8) as usize] ^= 1 << (place % 8);
                    count += 1;
                }
            }
            at += RUN_BITS;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use strait_core::waveform::{Bandwidth, Family, Interleaver, find};

    fn decoder(channel: HfChannel, rate_bit_s: u32) -> Decoder {
        let (family, narrow) = (Family::M110D, Bandwidth::default());
        let waveform = find(family, narrow, Interleaver::Short, rate_bit_s).unwrap();
        let source = Source {
            seed: 1,
            link: "x",
            way: "ab",
        };
        Decoder::new(channel, waveform, &source)
    }

    /// The share of wrong bits of 8 Mbit in blocks of so many octets, and of bad blocks.
    fn measured(channel: HfChannel, rate_bit_s: u32, snr_db: f64, octets: usize) -> (f64, f64) {
        let mut decoder = decoder(channel, rate_bit_s);
        let mask_db = decoder.mask_db(None);
        let quality = Quality {
            snr_db,
            effective_db: snr_db,
        };
        let (mut wrong, mut bad, blocks) = (0, 0, 1_000_000 / octets);
        for block in 0..blocks {
            let mut content = vec![0; octets];
            let first = (block * octets * 8) as u64;
            let count = decoder.decode(quality, mask_db, first, &mut content);
            let ones: u32 = content.iter().map(|octet| octet.count_ones()).sum();
            assert_eq!(u64::from(ones), count);
            wrong += count;
            bad += u64::from(count > 0);
        }
        let bits = (blocks * octets * 8) as f64;
        (wrong as f64 / bits, bad as f64 / blocks as f64)
    }

    #[test]
    fn the_tables_hold_at_their_points() {
        // 8 Mbit at 1e-5 are 80 wrong bits in about 13 runs: a deviation of 28 %.
        for (rate, awgn_db) in [(75, -6.0), (2400, 6.0), (9600, 21.0)] {
            let (share, _) = measured(HfChannel::Awgn, rate, awgn_db, 2000);
            assert!((0.3e-5..2e-5).contains(&share), "{rate}: {share}");
            // A decade in 0.7 dB, as of a code of constraint length 7.
            let (share, _) = measured(HfChannel::Awgn, rate, awgn_db - 1.4, 2000);
            assert!((0.9e-3..1.1e-3).contains(&share), "{rate}: {share}");
        }
        let (share, _) = measured(HfChannel::Awgn, 9600, -40.0, 2000);
        assert!((0.49..0.51).contains(&share), "nothing but noise: {share}");
        assert_eq!(measured(HfChannel::Awgn, 9600, 60.0, 2000).0, 0.0);
        // By the other table what changes is how many blocks are bad.
        let (share, bad) = measured(HfChannel::Poor, 9600, 31.0 - 4.0, 576);
        assert!((0.7e-3..1.3e-3).contains(&share), "{share}");
        assert!((0.007..0.013).contains(&bad), "{bad}");
    }

    #[test]
    fn wrong_bits_come_in_runs() {
        // At 1e-3 there is a run of six wrong bits in 6000: 1.3 in a block of 1000 octets, where
        // single bits would be eight. 1 - exp(-1.33) of the blocks have one.
        let (_, bad) = measured(HfChannel::Awgn, 2400, 6.0 - 1.4, 1000);
        assert!((0.68..0.79).contains(&bad), "{bad}");
    }

    #[test]
    fn preambles_are_found_a_little_longer_than_the_slowest_waveform_works() {
        let finds = |channel, effective_db| {
            let quality = Quality {
                snr_db: effective_db,
                effective_db,
            };
            decoder(channel, 9600).finds(quality)
        };
        assert_eq!(
            [-7.0, -7.01].map(|db| finds(HfChannel::Fading, db)),
            [true, false]
        );
        assert_eq!(
            [-2.0, -2.01].map(|db| finds(HfChannel::Poor, db)),
            [true, false]
        );
    }
}
