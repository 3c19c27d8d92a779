//! Where stations are: what the file says of each, or legs that chance draws.

use alloc::format;
use alloc::vec::Vec;

use strait_core::chance::Stream;
use strait_core::time::Duration;

use super::config::{CellConfig, Wander};

/// Legs of a wandering station; where they are over it stays. Of 100 m at walking pace they last
/// for more than a day.
const LEGS_MAX: usize = 2000;

/// Times in s and places in metres, between which a station goes straight.
type Knots = Vec<[f64; 3]>;

/// The ways of all stations, and how fast each goes at most.
#[derive(Clone, Debug)]
pub(super) struct Ways(Vec<Knots>, Vec<f64>);

impl Ways {
    pub(super) fn of(config: &CellConfig) -> Self {
        let stations = 0..config.places.len();
        let ways: Vec<Knots> = stations.map(|station| config.way(station)).collect();
        let speeds = ways.iter().map(|knots| fastest(knots)).collect();
        Self(ways, speeds)
    }

    /// The most metres a second at which a station goes.
    pub(super) fn speed(&self, station: usize) -> f64 {
        self.1.get(station).copied().unwrap_or(0.0)
    }

    /// Where a station is so long after the link's beginning.
    pub(super) fn place(&self, station: usize, at: Duration) -> [f64; 2] {
        let Some(knots) = self.0.get(station) else {
            return [0.0; 2];
        };
        let now = at.as_secs_f64();
        let behind = knots.partition_point(|[time, ..]| *time <= now);
        let [from, x, y] = knots[behind.saturating_sub(1)];
        let Some([until, to_x, to_y]) = knots.get(behind) else {
            return [x, y];
        };
        let share = (now - from).max(0.0) / (until - from);
        [x + (to_x - x) * share, y + (to_y - y) * share]
    }
}

fn fastest(knots: &[[f64; 3]]) -> f64 {
    let legs = knots.iter().zip(knots.iter().skip(1));
    let speeds = legs.map(|([from, x, y], [until, to_x, to_y])| {
        let metres = libm::hypot(to_x - x, to_y - y);
        // A leg of no length in time is none.
        if metres > 0.0 && until > from {
            metres / (until - from)
        } else {
            0.0
        }
    });
    speeds.fold(0.0, f64::max)
}

impl Wander {
    /// Whether it is about this station.
    fn moves(&self, station: usize) -> bool {
        self.stations.is_empty() || self.stations.contains(&station)
    }

    /// The way of a station that begins at a place; `None` if it stays there.
    pub(super) fn way(&self, station: usize, place: [f64; 2]) -> Option<Knots> {
        if !self.moves(station) {
            return None;
        }
        // A group has one way, which each of its stations walks beside the others.
        let whose = if self.together { "group" } else { "station" };
        let number = if self.together { 0 } else { station };
        let mut chance = Stream::new(self.seed, &format!("cell.wander.{whose}.{number}"));
        let mut between = |range: [f64; 2]| range[0] + (range[1] - range[0]) * chance.unit();
        let [low, high] = self.area;
        let begins = if self.together {
            [0, 1].map(|axis| (low[axis] + high[axis]) / 2.0)
        } else {
            place
        };
        let (mut now, mut here) = (0.0, begins);
        let mut knots = Knots::new();
        for _ in 0..LEGS_MAX {
            knots.push([now, here[0], here[1]]);
            let to = [0, 1].map(|axis| between([low[axis], high[axis]]));
            let metres = libm::hypot(to[0] - here[0], to[1] - here[1]);
            now += metres.max(1e-3) / between(self.speed);
            here = to;
            knots.push([now, here[0], here[1]]);
            now += self.pause.map_or(0.0, |pause| pause.0.as_secs_f64());
        }
        if self.together {
            let offset = [0, 1].map(|axis| place[axis] - begins[axis]);
            let beside = |[time, x, y]: [f64; 3]| [time, x + offset[0], y + offset[1]];
            return Some(knots.into_iter().map(beside).collect());
        }
        Some(knots)
    }
}

#[cfg(test)]
mod tests {
    use strait_core::units::Time;

    use super::*;

    fn wander(together: bool) -> CellConfig {
        CellConfig {
            places: alloc::vec![[100.0, 100.0], [150.0, 120.0], [0.0, 0.0]],
            wander: Some(Wander {
                stations: alloc::vec![0, 1],
                area: [[0.0, 0.0], [800.0, 400.0]],
                speed: [1.0, 3.0],
                pause: Some(Time(Duration::from_secs(5))),
                together,
                seed: 1,
            }),
            ..CellConfig::default()
        }
    }

    #[test]
    fn a_wandering_station_stays_in_its_area_and_goes_no_faster_than_it_may() {
        let ways = Ways::of(&wander(false));
        let place = |station, second| ways.place(station, Duration::from_secs(second));
        assert_eq!(place(0, 0), [100.0, 100.0]);
        for second in 0..5000 {
            let ([x, y], next) = (place(0, second), place(0, second + 1));
            assert!((0.0..=800.0).contains(&x) && (0.0..=400.0).contains(&y));
            assert!(libm::hypot(next[0] - x, next[1] - y) <= 3.001);
            assert_eq!(place(2, second), [0.0, 0.0]);
        }
        assert_ne!(place(0, 1000), place(1, 1000));
        // Another run has the same way.
        let again = Ways::of(&wander(false));
        let at = Duration::from_secs(1000);
        assert_eq!(again.place(0, at), place(0, 1000));
    }

    #[test]
    fn a_group_stays_together() {
        let ways = Ways::of(&wander(true));
        for second in [0, 60, 1000, 4000] {
            let at = Duration::from_secs(second);
            let [a, b] = [0, 1].map(|station| ways.place(station, at));
            assert!((b[0] - a[0] - 50.0).abs() < 1e-6 && (b[1] - a[1] - 20.0).abs() < 1e-6);
        }
    }
}
