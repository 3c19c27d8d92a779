//! Bulk over paths that change, by each fixed data rate and by one that follows what arrives.

use serde::Deserialize;
use strait_channel::hf::{Condition, HfChannel, Variation};
use strait_core::units::{BitRate, Decibels};
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};
use toml::{Table, Value};

use super::hf::{HfStudy, load};
use crate::build::BuildError;
use crate::parallel::parallel;
use crate::run::{Run, run_once};

/// Seeds of each world, whose mean is told.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

/// A path that changes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRow {
    /// What it is like.
    pub name: String,
    /// Its mean ratio; that of `scenarios/hf/adaptive.toml`, which fades out and comes back, if
    /// absent.
    pub snr: Option<Decibels>,
    /// How its two paths fade; not at all if absent.
    pub condition: Option<Condition>,
    /// How the mean wanders.
    pub variation: Option<Variation>,
    /// The check of the changing rate's figure over the best fixed one.
    pub id: Option<String>,
    /// Its bar.
    pub min: Option<f64>,
}

/// Fixed rates and paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// The fixed rates.
    pub fixed: Vec<BitRate>,
    /// The rate that the changing one begins with.
    pub begins: BitRate,
    /// The paths.
    pub path: Vec<PathRow>,
}

/// What arrived over one path, in bit/s of the whole run: where a link ends early, nothing comes
/// for the rest of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RateCells {
    /// By each fixed rate.
    pub fixed: Vec<f64>,
    /// By one that follows what arrives.
    pub follows: f64,
    /// The same without advice by signal-to-noise ratios.
    pub unadvised: f64,
}

impl RateCells {
    /// The best by a fixed rate.
    #[must_use]
    pub fn best(&self) -> f64 {
        self.fixed.iter().copied().fold(0.0, f64::max)
    }
}

/// How a station's rate is chosen.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Fixed(BitRate),
    Follows { advice: bool },
}

impl Rates {
    fn choices(&self) -> Vec<Choice> {
        let fixed = self.fixed.iter().map(|rate| Choice::Fixed(*rate));
        let follows = [true, false].map(|advice| Choice::Follows { advice });
        fixed.chain(follows).collect()
    }

    fn world(&self, path: &PathRow, choice: Choice) -> Result<Loaded, ConfigError> {
        let text = include_str!("../../../../scenarios/hf/adaptive.toml");
        let mut world = load("adaptive.toml", text)?;
        for link in &mut world.links {
            let channel = &mut link.channel;
            channel.rate = Some(match choice {
                Choice::Fixed(rate) => rate,
                Choice::Follows { .. } => self.begins,
            });
            if path.snr.is_some() {
                channel.snr = path.snr;
            }
            if let Some(hf) = &mut channel.hf {
                if path.snr.is_some() {
                    hf.trace = None;
                }
                if path.condition.is_some() {
                    hf.channel = HfChannel::Fading;
                }
                hf.condition = path.condition;
                hf.variation = path.variation;
            }
        }
        for node in &mut world.nodes {
            radios(&mut node.table).for_each(|radio| choose(radio, choice));
        }
        Ok(world)
    }
}

/// The `hf` tables of a gateway's ports.
fn radios(node: &mut Table) -> impl Iterator<Item = &mut Table> {
    let ports = node.get_mut("port").and_then(Value::as_array_mut);
    let ports = ports.into_iter().flatten();
    ports.filter_map(|port| port.get_mut("hf")?.as_table_mut())
}

fn choose(radio: &mut Table, choice: Choice) {
    match choice {
        Choice::Fixed(_) => {
            radio.remove("adapt");
        }
        Choice::Follows { advice } => {
            let adapt = radio.get_mut("adapt").and_then(Value::as_table_mut);
            adapt.map(|adapt| adapt.insert("advice".into(), advice.into()));
        }
    }
}

/// Payload that arrived, over the run's time.
fn arrived_bit_s(world: &Loaded, run: &Run) -> f64 {
    let bits = world
        .scenario
        .traffic
        .iter()
        .zip(&run.flows)
        .map(|(traffic, flow)| {
            let packets = flow.counters.get("received").copied().unwrap_or(0);
            packets * traffic.payload.map_or(0, |payload| payload.0) * 8
        });
    bits.sum::<u64>() as f64 / world.scenario.duration.0.as_secs_f64()
}

impl HfStudy {
    /// What arrives over each path, and a hash of all runs.
    ///
    /// # Errors
    /// If a world can't be built.
    pub fn run_rates(&self, done: impl Fn() + Sync) -> Result<Vec<(RateCells, u64)>, BuildError> {
        let Some(rates) = &self.rates else {
            return Ok(Vec::new());
        };
        let choices = rates.choices();
        let mut worlds = Vec::new();
        for path in &rates.path {
            for choice in &choices {
                let world = rates.world(path, *choice)?;
                worlds.extend(SEEDS.map(|seed| (world.clone(), seed)));
            }
        }
        let runs = parallel(&worlds, None, |(world, seed)| {
            let run = run_once(world, Scenario::BASE, *seed, false)?;
            done();
            Ok::<_, BuildError>((arrived_bit_s(world, &run), run.hash))
        });
        let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
        let seeds = SEEDS.count();
        let rows = runs.chunks(choices.len() * seeds).map(|row| {
            let mean = |runs: &[(f64, u64)]| {
                let sum: f64 = runs.iter().map(|(arrived, _)| arrived).sum();
                sum / runs.len() as f64
            };
            let mut means = row.chunks(seeds).map(mean);
            let fixed = means.by_ref().take(rates.fixed.len()).collect();
            let cells = RateCells {
                fixed,
                follows: means.next().unwrap_or(0.0),
                unadvised: means.next().unwrap_or(0.0),
            };
            let mut hash = strait_core::hash::RunHash::default();
            row.iter().for_each(|(_, run)| hash.fold(*run));
            (cells, hash.value())
        });
        Ok(rows.collect())
    }

    /// How many runs that takes.
    #[must_use]
    pub fn rate_count(&self) -> usize {
        self.rates.as_ref().map_or(0, |rates| {
            rates.path.len() * rates.choices().len() * SEEDS.count()
        })
    }
}
