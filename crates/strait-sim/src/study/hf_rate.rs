//! Bulk over paths that change, by each fixed data rate and by one that follows what arrives.

use serde::Deserialize;
use strait_channel::hf::{Condition, HfChannel, Variation};
use strait_core::hash::RunHash;
use strait_core::units::{BitRate, Decibels};
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};
use toml::{Table, Value};

use super::hf::Came;
use super::scenario::load;
use super::shown::Row;
use super::{Asked, StudyError, run_all};
use crate::run::{Run, run_once};

/// Seeds of each world, whose mean is told.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

/// A path that changes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PathRow {
    /// What it is like.
    name: String,
    /// Its mean ratio; that of `scenarios/hf/adaptive.toml`, which fades out and comes back, if
    /// absent.
    snr: Option<Decibels>,
    /// How its two paths fade; not at all if absent.
    condition: Option<Condition>,
    /// How the mean wanders.
    variation: Option<Variation>,
    /// The check of the changing rate's figure over the best fixed one.
    id: Option<String>,
    /// Its bar.
    min: Option<f64>,
}

/// Fixed rates and paths.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rates {
    /// The fixed rates.
    fixed: Vec<BitRate>,
    /// The rate that the changing one begins with.
    begins: BitRate,
    /// The paths.
    path: Vec<PathRow>,
}

/// How a station's rate is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
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
        let mut world = adaptive(choice, self.begins)?;
        for link in &mut world.links {
            let channel = &mut link.channel;
            if path.snr.is_some() {
                channel.snr = path.snr;
            }
            if let Some(hf) = channel.hf_config_mut() {
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
        Ok(world)
    }
}

/// `scenarios/hf/adaptive.toml` with a rate that is chosen so, and what a changing one begins with.
pub(super) fn adaptive(choice: Choice, begins: BitRate) -> Result<Loaded, ConfigError> {
    let mut world = load("hf/adaptive.toml")?;
    for link in &mut world.links {
        link.channel.rate = Some(match choice {
            Choice::Fixed(rate) => rate,
            Choice::Follows { .. } => begins,
        });
    }
    for node in &mut world.nodes {
        radios(&mut node.table).for_each(|radio| choose(radio, choice));
    }
    Ok(world)
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

impl Rates {
    /// What arrives over each path, in bit/s of the whole run: where a link ends early, nothing
    /// comes for the rest of it.
    pub(super) fn run(&self, asked: &Asked<'_>) -> Result<Came, StudyError> {
        let choices = self.choices();
        let mut worlds = Vec::new();
        for path in &self.path {
            for choice in &choices {
                let world = self.world(path, *choice)?;
                worlds.extend(SEEDS.map(|seed| (world.clone(), seed)));
            }
        }
        let runs = run_all(asked, "hf-rate", &worlds, |(world, seed)| {
            let run = run_once(world, Scenario::BASE, asked.seed(*seed), false)?;
            Ok((arrived_bit_s(world, &run), run.hash))
        })?;
        let seeds = SEEDS.count();
        let mut came = Came::default();
        for (path, runs) in self.path.iter().zip(runs.chunks(choices.len() * seeds)) {
            let mut hash = RunHash::default();
            runs.iter().for_each(|(_, run)| hash.fold(*run));
            came.hashes.push(hash.value());
            let means = runs.chunks(seeds).map(|runs| {
                let sum: f64 = runs.iter().map(|(arrived, _)| arrived).sum();
                sum / runs.len() as f64
            });
            let means: Vec<f64> = means.collect();
            let (fixed, others) = means.split_at(self.fixed.len());
            let row = Row::default()
                .with("check", path.id.as_deref().unwrap_or_default())
                .with("path", path.name.as_str())
                .with("min", path.min);
            let named = self.fixed.iter().zip(fixed);
            let row = named.fold(row, |row, (rate, arrived)| {
                row.with(format!("fixed {} bit/s", rate.0), *arrived)
            });
            let row = row.with("best", fixed.iter().copied().fold(0.0, f64::max));
            let names = ["follows", "unadvised"].into_iter();
            let row = names
                .zip(others)
                .fold(row, |row, (name, arrived)| row.with(name, *arrived));
            came.rows.push(row);
        }
        Ok(came)
    }
}
