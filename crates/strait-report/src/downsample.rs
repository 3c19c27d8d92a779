//! Fewer points for a plot that looks the same.

/// At most about `limit` points that keep the extremes: of each of `limit` / 2 equal stretches of
/// time the least and the greatest value, in order of time. The first and the last point stay.
///
/// Points have to be in order of time; those with a value that is no number are left out.
pub(super) fn downsample(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    let points: Vec<(f64, f64)> = points
        .iter()
        .copied()
        .filter(|(t, v)| t.is_finite() && v.is_finite())
        .collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return points;
    };
    if points.len() <= limit.max(4) {
        return points;
    }
    let stretches = limit.max(4) / 2;
    let width = (last.0 - first.0) / stretches as f64;
    let stretch = |t: f64| {
        if width > 0.0 {
            (((t - first.0) / width) as usize).min(stretches - 1)
        } else {
            0
        }
    };
    let mut kept = vec![*first];
    for bucket in points.chunk_by(|one, next| stretch(one.0) == stretch(next.0)) {
        keep_extremes(bucket, &mut kept);
    }
    kept.push(*last);
    kept.dedup();
    kept
}

fn keep_extremes(bucket: &[(f64, f64)], kept: &mut Vec<(f64, f64)>) {
    let by_value = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
    let (Some(least), Some(greatest)) = (
        bucket.iter().min_by(by_value),
        bucket.iter().rev().max_by(by_value),
    ) else {
        return;
    };
    let (one, other) = if least.0 <= greatest.0 {
        (least, greatest)
    } else {
        (greatest, least)
    };
    kept.push(*one);
    if one != other {
        kept.push(*other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_spike_survives() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        points[77_777].1 = 9.0;
        points[33_333].1 = -9.0;
        let fewer = downsample(&points, 1000);
        assert!(fewer.len() <= 1002, "{}", fewer.len());
        assert!(fewer.contains(&(77_777.0, 9.0)) && fewer.contains(&(33_333.0, -9.0)));
        assert_eq!(
            (fewer.first(), fewer.last()),
            (points.first(), points.last())
        );
        assert!(fewer.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)];
        assert_eq!(downsample(&points, 100), [(0.0, 1.0), (2.0, 3.0)]);
        assert_eq!(downsample(&[], 100), []);
        let at_once = vec![(1.0, 2.0); 50];
        assert_eq!(downsample(&at_once, 0), [(1.0, 2.0)]);
    }

    proptest::proptest! {
        #[test]
        fn extremes_and_order_are_kept(
            values in proptest::collection::vec(-1e6..1e6f64, 1..400),
            limit in 0usize..100,
        ) {
            let points: Vec<_> = values.iter().enumerate().map(|(n, v)| (n as f64, *v)).collect();
            let fewer = downsample(&points, limit);
            let extreme = |points: &[(f64, f64)]| {
                let values = points.iter().map(|point| point.1);
                (values.clone().fold(f64::MAX, f64::min), values.fold(f64::MIN, f64::max))
            };
            proptest::prop_assert_eq!(extreme(&points), extreme(&fewer));
            proptest::prop_assert!(fewer.len() <= limit.max(4) + 2);
            proptest::prop_assert!(fewer.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }
    }
}
