//! The share of octets that arrives undamaged, and the best segment length for it.

use crate::d_pdu::SEGMENT_OCTETS_MAX;

/// The shortest segment that is worth its price, and the longest first one on an unknown channel.
const SEGMENT_OCTETS_MIN: usize = 24;

/// Frames after which older ones count half.
const MEMORY: f64 = 300.0;

/// How much a frame behind a lost one counts for the length of segments: a fade takes several, and
/// would take as many octets of shorter ones. Where next to nothing arrives, these tell all.
const BEHIND_LOST: f64 = 0.1;

/// Frames reported by an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// How many.
    pub frames: u32,
    /// Of these, how many were lost.
    pub lost: u32,
}

/// Frames reported by a later answer than that to their turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// How many.
    pub frames: u32,
    /// Of these, how many had come.
    pub came: u32,
}

/// Frames, by weight.
#[derive(Clone, Copy, Debug)]
struct Sum {
    frames: f64,
    octets: f64,
    lost: f64,
}

impl Sum {
    /// As if so much of four frames of 200 octets had been lost.
    const fn guess(lost: f64) -> Self {
        Self {
            frames: 4.0,
            octets: 800.0,
            lost,
        }
    }

    fn add(&mut self, weight: f64, octets: usize, came: bool) {
        self.frames += weight;
        self.octets += weight * octets as f64;
        self.lost += if came { 0.0 } else { weight };
    }

    fn halve(&mut self) {
        self.frames /= 2.0;
        self.octets /= 2.0;
        self.lost /= 2.0;
    }

    fn share(&self) -> f64 {
        self.lost / self.frames
    }
}

/// Estimates how often damage begins, from frames that arrived and frames that didn't.
#[derive(Clone, Debug)]
pub struct Quality {
    all: Sum,
    /// Those behind a received one, mostly: their losses show where damage began.
    begun: Sum,
    /// The last frame arrived.
    came: bool,
    /// The part that [`Quality::take_news`] hasn't reported.
    news: Told,
}

impl Default for Quality {
    /// Nothing is known: as if one of forty frames of 200 octets had been lost, until better is
    /// known.
    fn default() -> Self {
        Self::guess(0.1)
    }
}

impl Quality {
    fn guess(lost: f64) -> Self {
        Self {
            all: Sum::guess(lost),
            begun: Sum::guess(lost),
            came: true,
            news: Told::default(),
        }
    }

    /// A D_PDU of so many octets arrived or didn't, behind that of the last call.
    pub fn learn(&mut self, octets: usize, came: bool) {
        if self.all.frames > MEMORY {
            self.all.halve();
            self.begun.halve();
        }
        self.all.add(1.0, octets, came);
        let weight = if self.came { 1.0 } else { BEHIND_LOST };
        self.begun.add(weight, octets, came);
        self.came = came;
        self.news.frames += 1;
        self.news.lost += u32::from(!came);
    }

    /// Frames reported since the last call.
    pub fn take_news(&mut self) -> Told {
        core::mem::take(&mut self.news)
    }

    /// The waveform is another one: earlier results count little. A `faster` one is more likely to
    /// be damaged: as if half a frame of four had been lost.
    pub fn forget(&mut self, faster: bool) {
        let lost = if faster { 0.5 } else { 0.1 };
        *self = Self {
            news: self.news,
            ..Self::guess(lost)
        };
    }

    /// Of the frames of late, the share that got lost.
    #[must_use]
    pub fn lost(&self) -> f64 {
        self.all.share()
    }

    /// How often damage begins at an octet.
    #[must_use]
    pub fn damage(&self) -> f64 {
        let lost = self.begun.share().clamp(1e-6, 0.98);
        -libm::log(1.0 - lost) * self.begun.frames / self.begun.octets.max(1.0)
    }

    /// The chance that so many octets in a row arrive.
    #[must_use]
    pub fn comes(&self, octets: usize) -> f64 {
        libm::exp(-self.damage() * octets as f64)
    }

    /// The segment with the best ratio of its own octets that arrive to all that are sent, with
    /// `around` octets around each.
    #[must_use]
    pub fn segment_octets(&self, around: usize, most: usize) -> usize {
        // The maximum of n / (n + a) × exp(−d (n + a)).
        let (a, d) = (around as f64, self.damage());
        let best = (libm::sqrt(a * a + 4.0 * a / d) - a) / 2.0;
        let most = most.min(SEGMENT_OCTETS_MAX);
        (best as usize).clamp(SEGMENT_OCTETS_MIN.min(most), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_core::chance::Stream;

    /// Frames of the best length over a channel with bit errors, in equilibrium.
    fn settled(bit_errors: f64) -> usize {
        let mut quality = Quality::default();
        let mut chance = Stream::new(1, "quality");
        for _ in 0..2000 {
            let octets = quality.segment_octets(16, 1023);
            let right = libm::pow(1.0 - bit_errors, 8.0 * (octets + 16) as f64);
            quality.learn(octets + 16, chance.happens(right));
        }
        quality.segment_octets(16, 1023)
    }

    #[test]
    fn segments_of_a_faster_waveform_are_short_until_more_is_known() {
        let mut quality = Quality::default();
        for (faster, expected) in [(true, 147), (false, 347)] {
            quality.forget(faster);
            assert_eq!(quality.segment_octets(16, 1023), expected);
        }
    }

    #[test]
    fn a_fade_takes_several_frames_and_shortens_them_little() {
        let after = |lost_at: fn(usize) -> bool| {
            let mut quality = Quality::default();
            (0..1400).for_each(|place| quality.learn(216, !lost_at(place)));
            assert!((quality.lost() - 0.25).abs() < 0.03, "{}", quality.lost());
            quality.segment_octets(16, 1023)
        };
        let scattered = after(|place| place % 4 == 0);
        let fades = after(|place| place % 28 < 7);
        assert!((80..95).contains(&scattered), "{scattered}");
        assert!((190..260).contains(&fades), "{fades}");
        // Where nothing arrives, they are too long.
        let mut quality = Quality::default();
        (0..300).for_each(|_| quality.learn(1039, true));
        (0..700).for_each(|_| quality.learn(1039, false));
        assert!(quality.segment_octets(16, 1023) < 150);
    }

    #[test]
    fn segments_have_about_the_best_length() {
        // By sqrt(16 / (8 × errors)) less the half of 16: 442, 134, 38; all have flat maxima.
        assert!((330..620).contains(&settled(1e-5)), "{}", settled(1e-5));
        assert!((105..165).contains(&settled(1e-4)), "{}", settled(1e-4));
        assert!((28..50).contains(&settled(1e-3)), "{}", settled(1e-3));
        assert!(settled(1e-7) > 900);
    }
}
