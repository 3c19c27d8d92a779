//! What a packet-hop costs in a world of many nodes, beside what it costs in a small one.

use std::path::Path;

use strait_core::Duration;
use strait_scenario::{DiskFiles, Scenario};

use super::{Chain, Middle, Torus};
use crate::build::{BuildError, Built, build};

/// A [`Torus`] that is run piece by piece, with packets followed along their paths as in each run
/// of a scenario.
pub struct Scale {
    built: Built,
    hops: u64,
}

/// Seconds in which the first packets reach the last hosts.
const WARM: Duration = Duration::from_secs(2);

impl Scale {
    /// The world, warm.
    ///
    /// # Errors
    /// None, unless the texts of [`Torus`] are wrong.
    pub fn new(torus: &Torus) -> Result<Self, BuildError> {
        let text = torus.scenario();
        let loaded = Scenario::load_text(&DiskFiles, Path::new("torus.toml"), &text)?;
        let built = build(&loaded, Scenario::BASE, 1)?;
        let mut scale = Self { built, hops: 0 };
        scale.run(WARM);
        Ok(scale)
    }

    /// Runs it on for so long; packets over links since, counted once for each link, and events.
    pub fn run(&mut self, time: Duration) -> (u64, u64) {
        let world = self.built.world_mut();
        let (before, events) = (self.hops, world.events());
        world.run_until(world.now() + time);
        let sides = world.links().flat_map(|(_, sides)| sides);
        self.hops = sides.map(|side| side.frames).sum();
        (self.hops - before, world.events() - events)
    }

    /// The chain to compare it with, of the same gateways; its file has so many octets.
    ///
    /// # Errors
    /// As [`Chain::new`].
    pub fn chain(octets: u64) -> Result<Chain, BuildError> {
        Chain::new(Middle::Gateways, octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_world_needs_no_more_events_for_a_hop_than_a_small_one() {
        let torus = |rows, columns| Torus {
            rows,
            columns,
            flows: 2,
            seconds: 10,
        };
        let events = |torus| {
            let mut scale = Scale::new(&torus).unwrap();
            let (hops, events) = scale.run(Duration::from_secs(3));
            assert!(hops > 300, "{hops}");
            events as f64 / hops as f64
        };
        let (small, large) = (events(torus(4, 4)), events(torus(8, 8)));
        assert!(large < 1.05 * small, "{small} and {large} events a hop");
    }
}
