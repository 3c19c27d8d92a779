//! A line through points that may be far off.

use strait_report::estimate::{percentile_of_sorted, student_t_975};

/// An estimate with half the width of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The most likely value.
    pub value: f64,
    /// How far off it may be.
    pub half_width: f64,
}

/// A line, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Value at 0.
    pub intercept: f64,
    /// Growth by 1.
    pub slope: f64,
    /// Covariances of intercept and slope: of the first, of both, of the second.
    covariance: [f64; 3],
    /// Points.
    pub points: usize,
}

/// Where Huber's function turns from a square to a straight line, in standard deviations: 95 %
/// as sure as least squares on points without outliers (Huber, Robust Statistics, 1981).
const TURN: f64 = 1.345;
/// What a median absolute deviation is multiplied by to be a standard deviation, if the
/// distribution is normal.
const MAD_TO_SIGMA: f64 = 1.4826;
/// Times have this resolution in s: without it, points that all lie on a line have no scale.
const SCALE_MIN: f64 = 1e-9;
/// Rounds of reweighting; it converges in a dozen.
const ROUNDS: usize = 60;

impl Fit {
    /// Huber's M-estimator with the median absolute deviation as scale, by repeated weighting from
    /// a Theil-Sen line on. `None` without three points at two places.
    pub fn huber(points: &[(f64, f64)]) -> Option<Self> {
        let (mut intercept, mut slope) = theil_sen(points)?;
        let mut turn = SCALE_MIN;
        for _ in 0..ROUNDS {
            let rest = |(x, y): &(f64, f64)| y - intercept - slope * x;
            let mut off: Vec<f64> = points.iter().map(|point| rest(point).abs()).collect();
            off.sort_by(f64::total_cmp);
            turn = TURN * (MAD_TO_SIGMA * percentile_of_sorted(&off, 0.5)?).max(SCALE_MIN);
            let weight = |point: &(f64, f64)| (turn / rest(point).abs().max(turn)).min(1.0);
            let weights: Vec<f64> = points.iter().map(weight).collect();
            let line = weighted(points, &weights)?;
            let moved = (line.0 - intercept).abs() + (line.1 - slope).abs();
            (intercept, slope) = line;
            if moved <= 1e-12 * (intercept.abs() + slope.abs()) {
                break;
            }
        }
        Self::judged(points, (intercept, slope), turn)
    }

    /// Least squares. `None` without three points at two places.
    pub fn least_squares(points: &[(f64, f64)]) -> Option<Self> {
        let line = weighted(points, &vec![1.0; points.len()])?;
        Self::judged(points, line, f64::INFINITY)
    }

    /// The sandwich estimator of the covariances: the spread may differ from place to place.
    fn judged(points: &[(f64, f64)], (intercept, slope): (f64, f64), turn: f64) -> Option<Self> {
        if points.len() < 3 {
            return None;
        }
        let (mut bread, mut meat) = ([0.0; 3], [0.0; 3]);
        for (x, y) in points {
            let rest = y - intercept - slope * x;
            let square = rest.clamp(-turn, turn).powi(2);
            let inside = if rest.abs() <= turn { 1.0 } else { 0.0 };
            for (place, power) in [1.0, *x, x * x].into_iter().enumerate() {
                bread[place] += inside * power;
                meat[place] += square * power;
            }
        }
        let [a, b, d] = inverse(bread)?;
        let [p, q, r] = meat;
        let few = points.len() as f64 / (points.len() - 2) as f64;
        Some(Self {
            intercept,
            slope,
            covariance: [
                few * (a * a * p + 2.0 * a * b * q + b * b * r),
                few * (a * b * p + (a * d + b * b) * q + b * d * r),
                few * (b * b * p + 2.0 * b * d * q + d * d * r),
            ],
            points: points.len(),
        })
    }

    fn estimate(&self, value: f64, variance: f64) -> Estimate {
        let t = student_t_975(self.points - 2);
        Estimate {
            value,
            half_width: t * variance.max(0.0).sqrt(),
        }
    }

    /// The slope with its interval.
    pub fn slope(&self) -> Estimate {
        self.estimate(self.slope, self.covariance[2])
    }

    /// The line's value at a place, with its interval.
    pub fn at(&self, x: f64) -> Estimate {
        let [first, both, second] = self.covariance;
        let variance = first + 2.0 * x * both + x * x * second;
        self.estimate(self.intercept + self.slope * x, variance)
    }
}

impl Estimate {
    /// `bits` divided by this, with its interval to first order; `None` if this isn't positive.
    pub fn rate(self, bits: f64) -> Option<Self> {
        (self.value > 0.0).then(|| Self {
            value: bits / self.value,
            half_width: bits * self.half_width / self.value.powi(2),
        })
    }
}

/// Inverse of a symmetric matrix of two rows; `None` if it has none.
fn inverse([a, b, d]: [f64; 3]) -> Option<[f64; 3]> {
    let determinant = a * d - b * b;
    (determinant > 1e-12 * a * d).then(|| [d / determinant, -b / determinant, a / determinant])
}

fn weighted(points: &[(f64, f64)], weights: &[f64]) -> Option<(f64, f64)> {
    let mut sums = [0.0; 5];
    for ((x, y), w) in points.iter().zip(weights) {
        for (sum, part) in sums
            .iter_mut()
            .zip([*w, w * x, w * x * x, w * y, w * x * y])
        {
            *sum += part;
        }
    }
    let [w, wx, wxx, wy, wxy] = sums;
    let [a, b, d] = inverse([w, wx, wxx])?;
    Some((a * wy + b * wxy, b * wy + d * wxy))
}

/// Points that the Theil-Sen line is drawn through: its work grows with their square.
const THEIL_SEN_MAX: usize = 600;

/// The median of the slopes between all points, and of what it leaves at 0.
fn theil_sen(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let step = points.len().div_ceil(THEIL_SEN_MAX).max(1);
    let some: Vec<(f64, f64)> = points.iter().copied().step_by(step).collect();
    let mut slopes = Vec::new();
    for (index, (x0, y0)) in some.iter().enumerate() {
        let later = some[index + 1..].iter();
        let apart = later.filter(|(x, _)| x != x0);
        slopes.extend(apart.map(|(x, y)| (y - y0) / (x - x0)));
    }
    slopes.sort_by(f64::total_cmp);
    let slope = percentile_of_sorted(&slopes, 0.5)?;
    let mut rests: Vec<f64> = some.iter().map(|(x, y)| y - slope * x).collect();
    rests.sort_by(f64::total_cmp);
    Some((percentile_of_sorted(&rests, 0.5)?, slope))
}

#[cfg(test)]
mod tests {
    use strait_core::chance::Stream;

    use super::*;

    const PLACES: [f64; 5] = [60.0, 200.0, 600.0, 1000.0, 1400.0];

    /// Separations at 960 octets a second behind 5 ms.
    fn line(x: f64) -> f64 {
        0.005 + x / 960.0
    }

    fn noisy(seed: u64) -> Vec<(f64, f64)> {
        let mut chance = Stream::new(seed, "noise");
        let places = PLACES.iter().cycle().take(100);
        places
            .map(|x| (*x, line(*x) + 0.02 * (chance.unit() + chance.unit() - 1.0)))
            .collect()
    }

    #[test]
    fn exact_points_give_the_exact_line() {
        let points: Vec<_> = PLACES.iter().map(|x| (*x, line(*x))).collect();
        for fit in [Fit::huber(&points), Fit::least_squares(&points)] {
            let fit = fit.unwrap();
            assert!((fit.slope - 1.0 / 960.0).abs() < 1e-12, "{fit:?}");
            assert!((fit.intercept - 0.005).abs() < 1e-9);
            let rate = fit.slope().rate(8.0).unwrap();
            assert!((rate.value - 7680.0).abs() < 1e-3 && rate.half_width < 1e-3);
        }
    }

    #[test]
    fn least_squares_of_a_literal_sample() {
        // Anscombe's first set.
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [
            8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68,
        ];
        let points: Vec<_> = x.into_iter().zip(y).collect();
        let fit = Fit::least_squares(&points).unwrap();
        assert!((fit.slope - 0.500_09).abs() < 1e-5 && (fit.intercept - 3.000_09).abs() < 1e-5);
    }

    #[test]
    fn bursts_move_the_robust_line_little() {
        let mut points = noisy(1);
        // One pair in ten met something ten times as long as itself.
        for point in points.iter_mut().skip(4).step_by(10) {
            point.1 *= 10.0;
        }
        let off = |fit: Option<Fit>| (fit.unwrap().slope * 960.0 - 1.0).abs();
        assert!(off(Fit::huber(&points)) < 0.01);
        assert!(off(Fit::least_squares(&points)) > 0.5);
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let inside = (0..400u64).filter(|seed| {
            let slope = Fit::huber(&noisy(*seed)).unwrap().slope();
            (slope.value - 1.0 / 960.0).abs() <= slope.half_width
        });
        let share = inside.count() as f64 / 400.0;
        assert!((0.90..=0.99).contains(&share), "{share}");
    }

    #[test]
    fn too_little_has_no_line() {
        assert_eq!(Fit::huber(&[]), None);
        assert_eq!(Fit::huber(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(Fit::huber(&[(1.0, 1.0); 9]), None);
        assert_eq!(Fit::least_squares(&[(1.0, 1.0); 9]), None);
        let flat = Fit::huber(&[(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)]).unwrap();
        assert_eq!(flat.slope().rate(8.0), None);
    }

    proptest::proptest! {
        #[test]
        fn any_points_end(points in proptest::collection::vec((0.0f64..1e4, 0.0f64..1e4), 0..40)) {
            for fit in [Fit::huber(&points), Fit::least_squares(&points)].into_iter().flatten() {
                assert!(fit.slope.is_finite() && fit.at(1400.0).half_width >= 0.0);
            }
        }
    }
}
