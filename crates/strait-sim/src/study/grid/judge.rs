//! Is an alternative better for somebody, and hardly worse for anybody?

use strait_report::estimate::mean_interval;

use super::world::World;

/// What a figure of a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// Of a transfer: from its beginning to its last octet, in s.
    Time,
    /// Of packets: the 99th percentile of their delays, in s.
    Delay,
    /// Of packets: the share that didn't come.
    Loss,
}

/// One figure of a flow, with the defaults and with an alternative.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// The flow's name, a dot, and the metric's.
    pub(super) metric: String,
    /// Median with the defaults.
    pub(super) own: f64,
    /// Median with the alternative.
    pub(super) other: f64,
    /// Median of the paired runs' ratios; above 1 the alternative is better.
    pub(super) ratio: f64,
    /// The mean of the ratios' logarithms is above 0 by more than its 95 % interval.
    sure: bool,
}

/// What an alternative is worth in a world.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// The figure in which it is better for sure by most, if there is one.
    pub(super) best: Option<Figure>,
    /// The figure in which it is worst.
    pub(super) worst: Option<Figure>,
    /// It is better by more than [`BETTER`], and nowhere worse by half as much.
    pub(super) dominates: bool,
}

/// What counts as better.
const BETTER: f64 = 1.05;
/// Shares of packets that are lost are equal if they are no further apart, and are compared with so
/// much added: a hundredth more or less is what nobody notices.
const LOSS_UNIT: f64 = 0.01;

/// Judges an alternative by the figures of paired runs.
pub(super) fn judge(world: &World, own: &[Vec<f64>], other: &[Vec<f64>]) -> Verdict {
    let figures = paired(world, own, other).filter_map(|(quantity, metric, pairs)| {
        let logarithms = logarithms(world, quantity, &pairs);
        figure(metric, &pairs, logarithms)
    });
    verdict(&figures.collect::<Vec<_>>())
}

/// Whether an alternative may dominate once all runs are made, of which these are more than half:
/// the median of all is at most the greatest of them.
pub(super) fn may_dominate(world: &World, own: &[Vec<f64>], other: &[Vec<f64>]) -> bool {
    let most = paired(world, own, other).map(|(quantity, _, pairs)| {
        let logarithms = logarithms(world, quantity, &pairs);
        logarithms.into_iter().fold(f64::MIN, f64::max).exp()
    });
    let (least, most) = most.fold((f64::MAX, 0.0), |(least, most), it| {
        (f64::min(least, it), f64::max(most, it))
    });
    dominates(most, least)
}

/// Of each figure what it is, its name, and its values with the defaults and with an alternative.
fn paired<'a>(
    world: &World,
    own: &'a [Vec<f64>],
    other: &'a [Vec<f64>],
) -> impl Iterator<Item = (Quantity, String, Vec<(f64, f64)>)> + use<'a> {
    let quantities = world.quantities().into_iter().enumerate();
    quantities.map(move |(place, (quantity, metric))| {
        let pairs = own.iter().zip(other);
        let pairs = pairs.map(|(own, other)| (own[place], other[place]));
        (quantity, metric, pairs.collect())
    })
}

/// Logarithms of the pairs' ratios; above 0 the alternative is better.
fn logarithms(world: &World, quantity: Quantity, pairs: &[(f64, f64)]) -> Vec<f64> {
    // How far apart two values are equal, and what is added to both.
    let (equal, unit) = match quantity {
        Quantity::Loss => (LOSS_UNIT, LOSS_UNIT),
        Quantity::Delay => (world.longest_s(), 0.0),
        Quantity::Time => (0.0, 0.0),
    };
    let logarithms = pairs.iter().map(|(own, other)| {
        if (own - other).abs() <= equal {
            return 0.0;
        }
        ((own + unit) / (other + unit)).ln()
    });
    logarithms.collect()
}

fn figure(metric: String, pairs: &[(f64, f64)], logarithms: Vec<f64>) -> Option<Figure> {
    let interval = mean_interval(&logarithms)?;
    Some(Figure {
        metric,
        own: median(pairs.iter().map(|pair| pair.0).collect())?,
        other: median(pairs.iter().map(|pair| pair.1).collect())?,
        ratio: median(logarithms)?.exp(),
        sure: interval.mean > interval.half_width?,
    })
}

/// The middle one, or the mean of both that are.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let above = *values.get(values.len() / 2)?;
    let below = *values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(below, above))
}

fn verdict(figures: &[Figure]) -> Verdict {
    let by_ratio = |a: &&Figure, b: &&Figure| a.ratio.total_cmp(&b.ratio);
    let best = figures.iter().filter(|it| it.sure).max_by(by_ratio);
    let worst = figures.iter().min_by(by_ratio);
    Verdict {
        dominates: dominates(
            best.map_or(1.0, |it| it.ratio),
            worst.map_or(1.0, |it| it.ratio),
        ),
        best: best.cloned(),
        worst: worst.cloned(),
    }
}

/// Whether who is at best and at worst so many times as good is better by more than [`BETTER`], and
/// nowhere worse by half as much.
fn dominates(best: f64, worst: f64) -> bool {
    let loss = (1.0 / worst - 1.0).max(0.0);
    best > BETTER && loss < (best - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(ratio: f64, sure: bool) -> Figure {
        Figure {
            metric: String::new(),
            own: ratio,
            other: 1.0,
            ratio,
            sure,
        }
    }

    #[test]
    fn the_median_of_an_even_number_is_between_both_in_the_middle() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(vec![4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn who_is_better_for_one_and_half_as_much_worse_for_none_dominates() {
        let dominates = |figures: &[Figure]| verdict(figures).dominates;
        assert!(dominates(&[figure(1.06, true)]));
        assert!(!dominates(&[figure(1.04, true)]), "too little");
        assert!(!dominates(&[figure(1.06, false)]), "by chance");
        assert!(dominates(&[figure(1.4, true), figure(1.0 / 1.19, true)]));
        assert!(!dominates(&[figure(1.4, true), figure(1.0 / 1.21, false)]));
        assert!(!dominates(&[]));
    }
}
