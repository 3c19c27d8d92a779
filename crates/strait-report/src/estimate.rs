//! Estimators: every number in a table comes from one of these.

use serde::Serialize;

/// The `q`-quantile of `values` by nearest rank: the smallest value that at least the share `q` of
/// all values don't exceed, so always one that was measured. `None` without values.
///
/// `q` is cut to 0 … 1; 0 gives the smallest value. The order of `values` doesn't matter.
pub fn percentile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile_of_sorted(&sorted, q)
}

/// The same for values that are already in ascending order.
pub fn percentile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// Arithmetic mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// A mean over independent runs, and how far the true one may be from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval; `None` for a single run.
    pub half_width: Option<f64>,
    /// Runs that it is made of.
    pub runs: usize,
}

/// Mean and two-sided 95 % confidence interval by Student's t distribution. `None` without values.
pub fn mean_interval(values: &[f64]) -> Option<Interval> {
    let mean = mean(values)?;
    let runs = values.len();
    let half_width = (runs > 1).then(|| {
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = squares / (runs - 1) as f64;
        student_t_975(runs - 1) * (variance / runs as f64).sqrt()
    });
    Some(Interval {
        mean,
        half_width,
        runs,
    })
}

/// The 97.5 % quantile of Student's t distribution. Between the tabulated degrees of freedom the
/// next smaller one counts, so that an interval is never too narrow.
pub fn student_t_975(degrees: usize) -> f64 {
    const SMALL: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0..=30 => SMALL[degrees.max(1) - 1],
        31..60 => 2.042,
        60..120 => 2.000,
        120..1000 => 1.980,
        _ => 1.962,
    }
}

/// Interarrival jitter of RFC 3550 section 6.4.1, in seconds.
///
/// D of two packets that arrived one after the other is the difference of their spacing at the
/// receiver and at the sender. The smoothed J follows |D| by a sixteenth with each packet.
#[derive(Clone, Debug, Default)]
pub struct Jitter {
    last_transit_s: Option<f64>,
    smoothed_s: f64,
    distances_s: Vec<f64>,
}

impl Jitter {
    /// Takes in the next packet in the order of arrival.
    pub fn record(&mut self, sent_s: f64, received_s: f64) {
        let transit_s = received_s - sent_s;
        if let Some(last_s) = self.last_transit_s.replace(transit_s) {
            let distance_s = (transit_s - last_s).abs();
            self.smoothed_s += (distance_s - self.smoothed_s) / 16.0;
            self.distances_s.push(distance_s);
        }
    }

    /// J after the packets so far; 0 before the second.
    pub const fn smoothed_s(&self) -> f64 {
        self.smoothed_s
    }

    /// |D| of each packet but the first.
    pub fn distances_s(&self) -> &[f64] {
        &self.distances_s
    }
}

/// Jain's fairness index of what several flows got: 1 if all got the same, 1/n if one got all
/// (Jain, Chiu, Hawe 1984). `None` without flows or if nobody got anything.
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The median of values in any order and the interval that holds the true one with at least 95 %,
/// whatever their distribution: between two of the values, by the binomial distribution of how many
/// lie below. `None` for fewer than six.
pub fn median_interval(values: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The chance that fewer than `rank` + 1 values lie below the median, one side of it.
    let mut chance = 0.5f64.powi(i32::try_from(n).ok()?);
    let mut tail = chance;
    let mut rank = None;
    for below in 0..n {
        if tail > 0.025 {
            break;
        }
        rank = Some(below);
        chance *= (n - below) as f64 / (below + 1) as f64;
        tail += chance;
    }
    let rank = rank?;
    Some([*sorted.get(rank)?, *sorted.get(n - 1 - rank)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_between_two_values() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        // The sixth and the fifteenth of twenty, as tables have it.
        assert_eq!(median_interval(&values), Some([6.0, 15.0]));
        assert_eq!(median_interval(&values[..6]), Some([15.0, 20.0]));
        assert_eq!(median_interval(&values[..5]), None);
    }

    #[test]
    fn percentiles_are_measured_values_by_nearest_rank() {
        let five = [50.0, 15.0, 40.0, 20.0, 35.0];
        let of = |q| percentile(&five, q);
        assert_eq!(of(0.0), Some(15.0));
        assert_eq!(of(0.05), Some(15.0));
        assert_eq!(of(0.2), Some(15.0));
        assert_eq!(of(0.201), Some(20.0));
        assert_eq!(of(0.3), Some(20.0));
        assert_eq!(of(0.5), Some(35.0));
        assert_eq!(of(1.0), Some(50.0));
        assert_eq!(of(7.0), Some(50.0));
        assert_eq!(percentile(&[], 0.5), None);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.99), Some(99.0));
    }

    #[test]
    fn the_interval_of_a_literal_sample() {
        // s² = 2.5, s/√5 = 0.70711, t(4) = 2.776.
        let interval = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((interval.mean, interval.runs), (3.0, 5));
        assert!((interval.half_width.unwrap() - 1.962_928).abs() < 1e-5);
        assert_eq!(mean_interval(&[7.0]).unwrap().half_width, None);
        assert_eq!(mean_interval(&[]), None);
        assert_eq!(mean_interval(&[2.0, 2.0]).unwrap().half_width, Some(0.0));
    }

    #[test]
    fn t_shrinks_with_the_number_of_runs() {
        assert_eq!(student_t_975(1), 12.706);
        assert_eq!((student_t_975(30), student_t_975(31)), (2.042, 2.042));
        let all: Vec<f64> = (1..2000).map(student_t_975).collect();
        assert!(all.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    #[test]
    fn jitter_of_a_literal_call() {
        let mut jitter = Jitter::default();
        // Transit times 0.1, 0.1, 0.18, 0.1 s.
        for (sent_s, transit_s) in [(0.0, 0.1), (0.2, 0.1), (0.4, 0.18), (0.6, 0.1)] {
            jitter.record(sent_s, sent_s + transit_s);
        }
        let expected_s = 0.08 / 16.0 + (0.08 - 0.08 / 16.0) / 16.0;
        assert!((jitter.smoothed_s() - expected_s).abs() < 1e-12);
        let distances: Vec<f64> = jitter
            .distances_s()
            .iter()
            .map(|d| (d * 1e9).round() / 1e9)
            .collect();
        assert_eq!(distances, [0.0, 0.08, 0.08]);
    }

    #[test]
    fn fairness_between_its_bounds() {
        assert_eq!(jain_index(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain_index(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[0.0]), None);
        assert_eq!(jain_index(&[]), None);
    }
}
