//! Noise that changes slowly: Gaussian, shaped by a filter, at any time without what came before.

use alloc::vec::Vec;

use strait_core::chance::Stream;
use strait_core::time::Instant;

/// Complex Gaussian noise of mean power 1 on a grid of moments, shaped by a filter. What it is at a
/// moment depends on that moment alone.
#[derive(Clone, Debug)]
pub(super) struct Shaped {
    stream: Stream,
    /// Moments each second.
    pub(super) rate_hz: f64,
    /// Their squares add up to 1.
    weights: Vec<f64>,
    /// Unshaped noise from `first` on.
    cache: Vec<(f64, f64)>,
    first: u64,
}

impl Shaped {
    /// Noise whose spectrum is a Gaussian of twice the deviation `doppler_hz`: a path's gain
    /// (ITU-R F.1487). Moments stand 32 to a period of it, and the filter reaches to where it is
    /// down to 1 %.
    pub(super) fn doppler(stream: Stream, doppler_hz: f64) -> Self {
        const OVERSAMPLED: f64 = 32.0;
        let deviation = core::f64::consts::PI / OVERSAMPLED;
        // exp(-(2 pi s t)^2), s = doppler / 2, t = n / (32 doppler).
        let reach = libm::ceil(libm::sqrt(libm::log(100.0)) / deviation) as i64;
        let weight = |n: i64| {
            let x = deviation * n as f64;
            libm::exp(-x * x)
        };
        let weights = (-reach..=reach).map(weight).collect();
        Self::new(stream, OVERSAMPLED * doppler_hz, weights)
    }

    /// Noise that forgets: its correlation falls to 1/e in `time_s`. Eight moments in that time.
    pub(super) fn forgetful(stream: Stream, time_s: f64) -> Self {
        let weight = |n: u32| libm::exp(-f64::from(n) / 8.0);
        Self::new(stream, 8.0 / time_s, (0..=37).map(weight).collect())
    }

    fn new(stream: Stream, rate_hz: f64, mut weights: Vec<f64>) -> Self {
        let power: f64 = weights.iter().map(|weight| weight * weight).sum();
        let scale = 1.0 / libm::sqrt(power);
        weights.iter_mut().for_each(|weight| *weight *= scale);
        Self {
            stream,
            rate_hz,
            weights,
            cache: Vec::new(),
            first: 0,
        }
    }

    /// The moments on the grid from the one at or before `from` to the one at or after `to`.
    pub(super) fn span(&self, from: Instant, to: Instant) -> (u64, u64) {
        let moment = |at: Instant| at.as_secs_f64() * self.rate_hz;
        (
            libm::floor(moment(from)) as u64,
            libm::ceil(moment(to)) as u64,
        )
    }

    /// The gain at a moment of the grid: its real and its imaginary part.
    pub(super) fn at(&mut self, moment: u64) -> (f64, f64) {
        let count = self.weights.len();
        let held = moment.wrapping_sub(self.first);
        // A little ahead, so that the moments of a block cost one draw each.
        if held >= 4 * count as u64 || self.cache.len() < held as usize + count {
            let keep = usize::try_from(held)
                .ok()
                .filter(|held| *held < self.cache.len());
            match keep {
                Some(held) => drop(self.cache.drain(..held)),
                None => self.cache.clear(),
            }
            self.first = moment;
            while self.cache.len() < count {
                let next = moment.saturating_add(self.cache.len() as u64);
                let drawn = self.draw(next);
                self.cache.push(drawn);
            }
        }
        let from = moment.wrapping_sub(self.first) as usize;
        let taps = self.weights.iter().zip(&self.cache[from..]);
        taps.fold((0.0, 0.0), |(re, im), (weight, noise)| {
            (re + weight * noise.0, im + weight * noise.1)
        })
    }

    /// Gaussian noise of power 1, by Box and Muller.
    fn draw(&mut self, moment: u64) -> (f64, f64) {
        let counter = moment.wrapping_mul(2);
        let radius = libm::sqrt(-libm::log(1.0 - self.stream.unit_at(counter)));
        let angle = 2.0 * core::f64::consts::PI * self.stream.unit_at(counter.wrapping_add(1));
        (radius * libm::cos(angle), radius * libm::sin(angle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Stream::new(1, "noise")
    }

    #[test]
    fn a_moment_depends_on_nothing_before_it() {
        let mut in_order = Shaped::doppler(stream(), 1.0);
        let all: Vec<_> = (0..2000).map(|moment| in_order.at(moment)).collect();
        let mut anywhere = Shaped::doppler(stream(), 1.0);
        for moment in [1999, 5, 6, 1000, 1001, 900, 0, 1999] {
            assert_eq!(anywhere.at(moment), all[moment as usize], "{moment}");
        }
        assert!(anywhere.at(u64::MAX / 2).0.is_finite());
    }

    /// Correlation of a gain with itself, so many moments apart.
    fn correlation(shaped: &mut Shaped, lag: u64, moments: u64) -> f64 {
        let product = |moment: u64| {
            let (a, b) = (shaped.at(moment), shaped.at(moment + lag));
            a.0 * b.0 + a.1 * b.1
        };
        (0..moments).map(product).sum::<f64>() / moments as f64
    }

    #[test]
    fn power_and_correlation_are_those_of_the_spectrum() {
        // A Gaussian spectrum of deviation s has the correlation exp(-2 (pi s t)^2).
        let mut shaped = Shaped::doppler(stream(), 1.0);
        for (lag, wanted) in [(0, 1.0), (8, 0.734_5), (16, 0.291_2), (32, 0.007_2)] {
            let found = correlation(&mut shaped, lag, 60_000);
            assert!((found - wanted).abs() < 0.06, "{lag}: {found} for {wanted}");
        }
        let mut slow = Shaped::forgetful(stream(), 10.0);
        assert!((slow.rate_hz - 0.8).abs() < 1e-12);
        for (lag, wanted) in [(0, 1.0), (8, 0.367_9), (24, 0.049_8)] {
            let found = correlation(&mut slow, lag, 60_000);
            assert!((found - wanted).abs() < 0.05, "{lag}: {found} for {wanted}");
        }
    }

    #[test]
    fn fades_are_as_deep_as_rayleigh_s() {
        // The share of time below a hundredth of the mean power is 1 - exp(-0.01).
        let mut shaped = Shaped::doppler(stream(), 1.0);
        let power = |moment: u64| {
            let (re, im) = shaped.at(moment * 16);
            re * re + im * im
        };
        let below = (0..40_000).map(power).filter(|power| *power < 0.01).count();
        assert!((300..500).contains(&below), "{below}");
    }
}
