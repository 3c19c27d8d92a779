//! What stations of ours save each other beside longer numbers: an answer to a call before data,
//! and most of what confirmations of clients' data cost.

use serde::Deserialize;
use strait_core::units::BitRate;
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};

use super::hf::{HfStudy, load};
use crate::build::BuildError;
use crate::parallel::parallel;
use crate::run::run_plain;

/// At which rates it is measured.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// The channel's rates.
    pub rates: Vec<BitRate>,
    /// The least that data with a call may save of a ping over a link that isn't there yet, at the
    /// first of these rates.
    pub saves_min: f64,
}

/// One rate's figures, each as the standard has it and between stations of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallCells {
    /// The median of pings that need a call.
    pub ping_s: [Option<f64>; 2],
    /// The mean time from a client's request to its confirmation by the other client.
    pub confirm_s: [Option<f64>; 2],
    /// Time on the air of the confirming station for each of them, acknowledgements included.
    pub answer_s: [Option<f64>; 2],
    /// Hash of all runs.
    pub hash: u64,
    /// Packets that can't be explained.
    pub unexplained: u64,
}

impl CallCells {
    /// The share of a ping's time that data with the call saves.
    #[must_use]
    pub fn saved(&self) -> Option<f64> {
        let [after, with] = self.ping_s;
        Some(1.0 - with? / after?)
    }
}

/// The two worlds, and the variant of each that has it as the standard does.
const WORLDS: [(&str, &str, &str); 2] = [
    (
        "calls.toml",
        include_str!("../../../../scenarios/hf/calls.toml"),
        "after-the-answer",
    ),
    (
        "confirmed.toml",
        include_str!("../../../../scenarios/hf/confirmed.toml"),
        "standards-own",
    ),
];

impl HfStudy {
    /// How many runs it takes.
    pub(super) fn call_count(&self) -> usize {
        self.calls.as_ref().map_or(0, |it| it.rates.len())
    }

    fn call_worlds(&self) -> Result<Vec<[Loaded; 2]>, ConfigError> {
        let rates = self.calls.iter().flat_map(|calls| &calls.rates);
        let of = |rate: &BitRate| {
            let world = |(name, text, _)| {
                let mut world = load(name, text)?;
                for link in &mut world.links {
                    link.channel.rate = Some(*rate);
                }
                Ok(world)
            };
            Ok([world(WORLDS[0])?, world(WORLDS[1])?])
        };
        rates.map(of).collect()
    }

    /// Calls and confirmations, rate by rate.
    ///
    /// # Errors
    /// If a world can't be built.
    pub fn run_calls(&self, done: impl Fn() + Sync) -> Result<Vec<CallCells>, BuildError> {
        let worlds = self.call_worlds()?;
        let runs = parallel(&worlds, None, |worlds| {
            let cells = cells(worlds);
            done();
            cells
        });
        runs.into_iter().collect()
    }
}

fn cells([calls, confirmed]: &[Loaded; 2]) -> Result<CallCells, BuildError> {
    let mut cells = CallCells::default();
    for place in 0..2 {
        let variant = |standard| [standard, Scenario::BASE][place];
        let run = run_plain(calls, variant(WORLDS[0].2), 1)?;
        cells.ping_s[place] = run.metrics.get("ping.rtt_p50_s").copied();
        cells.unexplained += run.unexplained;
        cells.hash = cells.hash.rotate_left(1) ^ run.hash;
        let run = run_plain(confirmed, variant(WORLDS[1].2), 1)?;
        cells.unexplained += run.unexplained;
        cells.hash = cells.hash.rotate_left(1) ^ run.hash;
        let station = |name: &str| {
            let node = run.nodes.iter().find(|node| node.node == name)?;
            node.ports.get(1)?.hf.as_ref()
        };
        let clients = station("a").map(|hf| &hf.clients);
        let clients = clients.filter(|clients| clients.confirmed > 0);
        cells.confirm_s[place] = clients.and_then(|clients| clients.confirm_s);
        let air_s =
            station("b").map(|hf| hf.neighbours.iter().map(|link| link.sent_s).sum::<f64>());
        let both = air_s.zip(clients);
        cells.answer_s[place] = both.map(|(air_s, clients)| air_s / clients.confirmed as f64);
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_has_its_worlds() {
        let text = include_str!("../../../../scenarios/studies/hf.toml");
        let study = HfStudy::parse("hf.toml", text).expect("it is in order");
        let worlds = study.call_worlds().expect("they load");
        assert_eq!(worlds.len(), study.call_count());
        assert_eq!(worlds.len(), 4);
    }
}
