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
    let quantities = world.quantities().into_iter().enumerate();
    let figures = quantities.filter_map(|(place, (quantity, metric))| {
        let pairs = own
            .iter()
            .zip(other)
            .map(|(own, other)| (own[place], other[place]));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        figure(world, quantity, metric, &pairs)
    });
    verdict(&figures.collect::<Vec<_>>())
}

fn figure(
    world: &World,
    quantity: Quantity,
    metric: String,
    pairs: &[(f64, f64)],
) -> Option<Figure> {
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
    let logarithms: Vec<f64> = logarithms.collect();
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
    let gain = best.map_or(0.0, |it| it.ratio - 1.0);
    let loss = worst.map_or(0.0, |it| (1.0 / it.ratio - 1.0).max(0.0));
    Verdict {
        dominates: gain > BETTER - 1.0 && loss < gain / 2.0,
        best: best.cloned(),
        worst: worst.cloned(),
    }
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
