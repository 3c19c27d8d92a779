//! The set-up of the study `hf`, and its runs: what data transfer over an HF channel makes of bit
//! errors, and what a ping costs.

use std::path::Path;

use serde::Deserialize;
use strait_core::Instant;
use strait_core::units::{BitRate, Octets, Share, Time};
use strait_node::config_text::ConfigError;
use strait_scenario::{Files, Loaded, Scenario};

use super::hf_calls::Calls;
use super::hf_ip::{Collapse, IpRow};
use super::hf_nets::Nets;
use super::hf_rate::Rates;
use super::limits;
use crate::build::{BuildError, build};
use crate::parallel::parallel;
use crate::run::{Run, run_once};
use crate::world::World;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HfStudy {
    /// Which study the file is of: `hf`.
    pub study: String,
    /// How long bulk runs before it is counted.
    pub warm_up: Time,
    /// How long it is counted.
    pub window: Time,
    /// Bit errors that bulk meets.
    pub errors: Vec<ErrorRow>,
    /// Rates at which a ping is measured.
    pub ping: Vec<PingRow>,
    /// IP as others measured it.
    pub ip: Vec<IpRow>,
    /// Their transfer that went on and on.
    pub collapse: Option<Collapse>,
    /// Data rates over paths that change.
    pub rates: Option<Rates>,
    /// Data with calls, and confirmations.
    pub calls: Option<Calls>,
    /// Nets of many, by rule of access.
    pub nets: Option<Nets>,
    /// How many of their figures are to be met within the factor of [`FACTOR`].
    pub cells: Option<f64>,
}

/// Bulk over one bit error rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRow {
    /// The share of bits that are wrong.
    pub bits: f64,
    /// What others measured, as a share of the rate.
    pub measured: f64,
    /// The check of long numbers.
    pub id: Option<String>,
    /// Its bar.
    pub min: Option<f64>,
}

/// Ping at one rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PingRow {
    /// The channel's rate.
    pub rate: BitRate,
    /// What others measured.
    pub measured_s: Option<f64>,
    /// The check of the median.
    pub id: Option<String>,
    /// Its bar.
    pub max_s: Option<f64>,
}

/// The variant of bulk with numbers of Edition 3.
pub const EDITION_3: &str = "edition-3";

/// What became of bulk.
#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    /// Octets of its packets at the far gateway, as a share of the channel's rate.
    pub share: f64,
    /// Hash of the run.
    pub hash: u64,
    /// Packets that can't be explained.
    pub unexplained: u64,
}

/// Octets of IPv4 and UDP headers.
pub(super) const HEADER_OCTETS: u64 = 28;

/// How far from a figure of others the likeness of their stations may be.
pub const FACTOR: f64 = 1.5;

impl HfStudy {
    /// Reads the study's file.
    ///
    /// # Errors
    /// What is wrong with it, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Self, ConfigError> {
        limits::parse(file, text)
    }

    /// Bulk with long numbers and with Edition 3's, row by row.
    fn bulk_worlds(&self) -> Result<Vec<(Loaded, &'static str)>, ConfigError> {
        let bulk = load(
            "bulk.toml",
            include_str!("../../../../scenarios/hf/bulk.toml"),
        )?;
        let mut worlds = Vec::new();
        for row in &self.errors {
            for variant in [Scenario::BASE, EDITION_3] {
                let mut world = bulk.clone();
                for link in &mut world.links {
                    link.channel.bit_errors = (row.bits > 0.0).then_some(Share(row.bits));
                }
                worlds.push((world, variant));
            }
        }
        Ok(worlds)
    }

    /// Pings, row by row.
    fn ping_worlds(&self) -> Result<Vec<Loaded>, ConfigError> {
        let ping = load(
            "ping.toml",
            include_str!("../../../../scenarios/hf/ping.toml"),
        )?;
        let world = |row: &PingRow| {
            let mut world = ping.clone();
            for link in &mut world.links {
                link.channel.rate = Some(row.rate);
            }
            world
        };
        Ok(self.ping.iter().map(world).collect())
    }

    /// Bulk, row by row, each with long numbers and with Edition 3's.
    ///
    /// # Errors
    /// If a world can't be built.
    pub fn run_bulk(&self, done: impl Fn() + Sync) -> Result<Vec<Bulk>, BuildError> {
        let worlds = self.bulk_worlds()?;
        let runs = parallel(&worlds, None, |(world, variant)| {
            let run = self.bulk(world, variant);
            done();
            run
        });
        runs.into_iter().collect()
    }

    fn bulk(&self, loaded: &Loaded, variant: &str) -> Result<Bulk, BuildError> {
        let mut built = build(loaded, variant, 1)?;
        let world = built.world_mut();
        let begin = Instant::ZERO + self.warm_up.0;
        world.run_until(begin);
        let before = delivered(world);
        world.run_until(begin + self.window.0);
        let packets = delivered(world) - before;
        let payload = loaded.scenario.traffic.iter();
        let payload = payload.filter_map(|flow| flow.payload).next();
        let octets = payload.unwrap_or(Octets(0)).0 + HEADER_OCTETS;
        let rate = loaded.links.iter().filter_map(|link| link.channel.rate);
        let bits = rate.map(|rate| rate.0 as f64).sum::<f64>() * self.window.0.as_secs_f64();
        Ok(Bulk {
            share: (packets * octets * 8) as f64 / bits,
            hash: world.hash(),
            unexplained: world.unexplained(),
        })
    }

    /// Pings, row by row.
    ///
    /// # Errors
    /// If a world can't be built.
    pub fn run_ping(&self, capture: bool, done: impl Fn() + Sync) -> Result<Vec<Run>, BuildError> {
        let worlds = self.ping_worlds()?;
        let runs = parallel(&worlds, None, |world| {
            let run = run_once(world, Scenario::BASE, 1, capture);
            done();
            run
        });
        runs.into_iter().collect()
    }

    /// How many runs it has.
    #[must_use]
    pub fn count(&self) -> usize {
        let own = self.errors.len() * 2 + self.ping.len() + self.call_count();
        own + self.ip_count() + 1 + self.rate_count() + self.net_count()
    }
}

/// Packets that the far gateway gave to its hosts.
fn delivered(world: &World) -> u64 {
    let far = world.stats().find(|(name, _)| *name == "b");
    far.map_or(0, |(_, stats)| stats.delivered)
}

/// The files that the scenarios name.
struct Embedded;

impl Files for Embedded {
    fn read(&self, path: &Path) -> Result<String, String> {
        let name = path.file_name().and_then(|name| name.to_str());
        Ok(match name {
            Some("hf-a.toml") => include_str!("../../../../scenarios/nodes/hf-a.toml").into(),
            Some("hf-b.toml") => include_str!("../../../../scenarios/nodes/hf-b.toml").into(),
            Some("adaptive.csv") => include_str!("../../../../scenarios/hf/adaptive.csv").into(),
            _ => return Err(format!("{} isn't there", path.display())),
        })
    }
}

pub(super) fn load(name: &str, text: &str) -> Result<Loaded, ConfigError> {
    let path = Path::new("scenarios/hf").join(name);
    Scenario::load_text(&Embedded, &path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_worlds() {
        let text = include_str!("../../../../scenarios/studies/hf.toml");
        let study = HfStudy::parse("hf.toml", text).expect("it is in order");
        let bulk = study.bulk_worlds().expect("they load").len();
        let ping = study.ping_worlds().expect("they load").len();
        let others = study.ip_count() + 1 + study.rate_count() + study.call_count();
        assert_eq!(bulk + ping + others + study.net_count(), study.count());
    }
}
