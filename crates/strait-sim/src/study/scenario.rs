//! Parts of studies that are scenarios at points, and the files that the program brings along.

use std::path::Path;

use serde::Deserialize;
use strait_node::config_text::ConfigError;
use strait_scenario::sweep::{Axis, AxisConfig, points};
use strait_scenario::{Files, Loaded, Scenario};
use toml::Value;

use super::shown::Row;
use super::{Asked, run_all};
use crate::build::BuildError;
use crate::run::Run;

/// A scenario at every point of its axes, with each of some variants and seeds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    id: String,
    /// One that comes along, by its path in `scenarios/`.
    scenario: String,
    #[serde(default)]
    axis: Vec<AxisConfig>,
    /// All if none is named.
    #[serde(default)]
    variants: Vec<String>,
    /// From 1; the scenario's own seed if absent.
    seeds: Option<u64>,
}

/// One point and variant: what rows call them, the scenario, and its seeds.
pub(super) struct Place {
    pub(super) row: Row,
    pub(super) loaded: Loaded,
    pub(super) variant: String,
    pub(super) seeds: Vec<u64>,
}

impl Part {
    /// What the file calls it.
    pub(super) fn name(&self) -> &str {
        &self.id
    }

    /// The one of this name.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn find<'a>(parts: &'a [Self], id: &str) -> Result<&'a Self, ConfigError> {
        let mut all = parts.iter();
        all.find(|part| part.id == id).ok_or_else(|| {
            let message = format!("is needed: add [[part]] with id = \"{id}\"");
            ConfigError::of_file(&format!("part `{id}`"), message)
        })
    }

    /// Every point with every variant, in order; rows call a value by the last word of its key.
    ///
    /// # Errors
    /// A key, a value or a variant that can't be.
    pub(super) fn places(&self) -> Result<Vec<Place>, ConfigError> {
        let base = load(&self.scenario)?;
        let wrong = |message: String| ConfigError::of_file(&format!("part `{}`", self.id), message);
        let axes: Result<Vec<Axis>, _> = self.axis.iter().map(Axis::from_config).collect();
        let all = axes.and_then(|axes| points(&axes));
        let mut places = Vec::new();
        for point in all.map_err(|error| wrong(error.to_string()))? {
            let loaded = base.at(&point)?;
            let named = point.iter().fold(Row::default(), |row, (key, value)| {
                let name = key.rsplit('.').next().unwrap_or(key);
                match value {
                    Value::Float(number) => row.with(name, *number),
                    Value::Integer(number) => row.with(name, *number as f64),
                    Value::String(word) => row.with(name, word.as_str()),
                    other => row.with(name, other.to_string()),
                }
            });
            let known: Vec<&str> = loaded.scenario.variant_names().collect();
            let own = self.variants.iter().map(String::as_str);
            let chosen = if self.variants.is_empty() {
                known.clone()
            } else {
                own.collect()
            };
            for variant in chosen {
                if !known.contains(&variant) {
                    let known = known.join(", ");
                    return Err(wrong(format!("no variant `{variant}` (variants: {known})")));
                }
                places.push(Place {
                    row: named.clone().with("variant", variant),
                    loaded: loaded.clone(),
                    variant: variant.into(),
                    seeds: match self.seeds {
                        None => vec![loaded.scenario.seed],
                        Some(seeds) => (1..=seeds).collect(),
                    },
                });
            }
        }
        Ok(places)
    }
}

/// Runs each place with its seeds. A row has the metrics of its runs and what of them is
/// unexplained.
///
/// # Errors
/// A scenario that can't be built.
pub(super) fn run(
    asked: &Asked<'_>,
    part: &str,
    places: &[Place],
) -> Result<(Vec<Row>, Vec<u64>), BuildError> {
    let runs = run_places(asked, part, places)?;
    let hashes = runs.iter().flatten().map(|run| run.hash).collect();
    let rows = places.iter().zip(&runs);
    let rows = rows.map(|(place, runs)| with_metrics(place.row.clone(), runs));
    Ok((rows.collect(), hashes))
}

/// The runs of each place, one for each of its seeds.
///
/// # Errors
/// A scenario that can't be built.
pub(super) fn run_places(
    asked: &Asked<'_>,
    part: &str,
    places: &[Place],
) -> Result<Vec<Vec<Run>>, BuildError> {
    let each = |place| move |seed: &u64| (place, *seed);
    let jobs = places
        .iter()
        .flat_map(|place| place.seeds.iter().map(each(place)));
    let jobs: Vec<(&Place, u64)> = jobs.collect();
    let runs = run_all(asked, part, &jobs, |(place, seed)| {
        let is_first = place.seeds.first() == Some(seed);
        let case = format!("{part}-{}", place.row.name());
        let what = (&place.loaded, &*place.variant);
        asked.run((&case, is_first), what, asked.seed(*seed))
    })?;
    let mut left = runs.into_iter();
    let of = |place: &Place| left.by_ref().take(place.seeds.len()).collect();
    Ok(places.iter().map(of).collect())
}

/// A row with the metrics of its runs. Without one of some run, it has none of all.
pub(super) fn with_metrics(row: Row, runs: &[Run]) -> Row {
    let names = runs.first().map(|run| run.metrics.keys());
    let row = names.into_iter().flatten().fold(row, |row, name| {
        let values = runs.iter().map(|run| run.metrics.get(name).copied());
        row.with(name, values.collect::<Option<Vec<f64>>>())
    });
    let odd = runs.iter().map(|run| run.unexplained as f64);
    row.with("unexplained", odd.collect::<Vec<f64>>())
}

macro_rules! files {
    ($($name:literal)*) => {
        /// Files in `scenarios/`, and their texts.
        const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../scenarios/", $name)))),*];
    };
}

files! {
    "dns/crossings.toml"
    "dns/day.toml"
    "dns/hf-300.toml"
    "dns/hf-75.toml"
    "dns/octets.toml"
    "dns/web-240k.toml"
    "hf/adaptive.csv"
    "hf/adaptive.toml"
    "hf/bulk.toml"
    "hf/calls.toml"
    "hf/confirmed.toml"
    "hf/ip.toml"
    "hf/mixed.toml"
    "hf/net-long.toml"
    "hf/net.toml"
    "hf/ping.toml"
    "lab/adapter-frames.toml"
    "lab/adapter.toml"
    "lab/adapters-in-a-row.toml"
    "lab/adapters-nested.toml"
    "lab/ahead.toml"
    "lab/dns-hf.toml"
    "lab/far.toml"
    "lab/hbh-parity.toml"
    "links/frames-7680.toml"
    "links/serial-9600.toml"
    "manet/far-station.toml"
    "manet/one-hop.toml"
    "manet/routed.toml"
    "manet/steps-one.toml"
    "manet/steps-two.toml"
    "manet/two-hop.toml"
    "manet/walk.toml"
    "manet/wander.toml"
    "mgen/steps.mgn"
    "nodes/serial-9600-a.toml"
    "nodes/serial-9600-b.toml"
    "nodes/adapter-frames-a.toml"
    "nodes/adapter-frames-b.toml"
    "nodes/hf-a.toml"
    "nodes/hf-b.toml"
    "seeing/age.toml"
    "seeing/bad-frames.toml"
    "seeing/bad-line.toml"
    "seeing/clock.toml"
    "seeing/fading.toml"
    "seeing/far-down.toml"
    "seeing/flaps.toml"
    "seeing/flow-table.toml"
    "seeing/full-disk.toml"
    "seeing/hf-silent.toml"
    "seeing/load.toml"
    "seeing/loop.toml"
    "seeing/mail-hop.toml"
    "seeing/mtu.toml"
    "seeing/names.toml"
    "seeing/no-host.toml"
    "seeing/no-route.toml"
    "seeing/one-way.toml"
    "seeing/overload.toml"
    "seeing/profiles.toml"
    "seeing/refused.toml"
    "seeing/restart.toml"
    "seeing/slow-modem.toml"
    "seeing/unplugged.toml"
    "seeing/well-frames.toml"
    "seeing/well-hf.toml"
    "seeing/well-long-way.toml"
    "seeing/well-serial.toml"
    "seeing/well-slow.toml"
    "seeing/wrong-source.toml"
    "studies/hbh-fair.toml"
    "studies/hbh-live-kernel.toml"
    "studies/hbh-live.toml"
    "studies/hbh-pressure.toml"
    "studies/na-errors.toml"
    "studies/na-esp.toml"
    "studies/na-extended.toml"
    "studies/na-headers.toml"
    "studies/na-pairs.toml"
}

/// The text of a file that comes along.
pub(super) fn text(name: &str) -> Result<&'static str, ConfigError> {
    let found = FILES.iter().find(|(own, _)| *own == name);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let names: Vec<&str> = FILES.iter().map(|it| it.0).collect();
        let message = format!("isn't part of the program, which has {}", names.join(", "));
        ConfigError::of_file(name, message)
    })
}

/// Files that scenarios name.
struct Shipped;

impl Files for Shipped {
    fn read(&self, path: &Path) -> Result<String, String> {
        let name = |it: &&(&str, &str)| Path::new(it.0).file_name() == path.file_name();
        let found = FILES.iter().find(name);
        found
            .map(|(_, text)| (*text).to_owned())
            .ok_or_else(|| "isn't part of the program".into())
    }
}

/// A scenario that comes along, by its path in `scenarios/`.
pub(super) fn load(name: &str) -> Result<Loaded, ConfigError> {
    load_text(name, text(name)?)
}

/// The same with another text.
pub(super) fn load_text(name: &str, text: &str) -> Result<Loaded, ConfigError> {
    Scenario::load_text(&Shipped, &Path::new("scenarios").join(name), text)
}
