//! The study `manet`: a cell of IEEE 802.11b with more traffic than it carries, over one hop and
//! two, without precedence, under the paper's policy, and under ours.

mod steps;

use std::collections::BTreeMap;

use serde::Deserialize;
use strait_core::units::Time;
use strait_node::config_text::ConfigError;
use strait_traffic::Traffic;

use self::steps::Steps;
use super::scenario::{self, Part, Place, run_places};
use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError};
use crate::run::Run;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManetStudy {
    /// Which study the file is of: `manet`.
    study: String,
    /// Scenarios at rates of the physical layer.
    part: Vec<Part>,
    /// Tests that add flows by the minute.
    steps: Option<Steps>,
    /// At least so many seeds has everything in a full study.
    seeds_full: u64,
    /// What another simulator gives for the same without precedence.
    reference: Vec<Reference>,
    /// Of parts whose routes are found: how many hear what each router says.
    #[serde(default)]
    routers: Vec<Routers>,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// A result of another simulator.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reference {
    /// Which part.
    hops: String,
    /// Frames for one station.
    rate: String,
    /// All flows together, in 1024 bit/s of IP packets.
    sum: f64,
    /// Delay of the audio's packets.
    delay: Time,
}

/// How many hear what each router says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Routers {
    /// In which part.
    hops: String,
    /// By router: how many are in its reach.
    heard_by: BTreeMap<String, u32>,
}

impl Routers {
    /// The share of routers' packets that didn't come to somebody in reach.
    fn lost(&self, run: &Run) -> f64 {
        let count = |name: &String, what: &str| {
            let metric = run.metrics.get(&format!("{name}.{what}"));
            metric.copied().unwrap_or_default()
        };
        let sent = self.heard_by.iter();
        let sent = sent.map(|(name, by)| count(name, "olsr_sent") * f64::from(*by));
        let heard = self.heard_by.keys().map(|name| count(name, "olsr_heard"));
        1.0 - heard.sum::<f64>() / sent.sum::<f64>()
    }
}

/// The part in which a relay walks away.
const WALK: &str = "walk";
/// The part in which ten stations wander.
const WANDER: &str = "wander";
/// The part in which one of a sender's receivers is far: who sends, who is near, and who isn't.
const AIR: &str = "air";
const SENDER: &str = "h";
const NEAR: [&str; 3] = ["n1", "n2", "n3"];
const FAR: &str = "f";

/// Octets of the headers of UDP and IPv4.
const HEADERS: f64 = 28.0;
/// The paper's K.
const K: f64 = 1024.0;
/// The variant that other simulators have.
const PLAIN: &str = "fifo";

impl ManetStudy {
    fn row(&self, hops: &str, place: &Place, runs: &[Run]) -> Result<Row, ConfigError> {
        let sums = sums(place, runs)?;
        let rate = place.row.word("rate").unwrap_or_default().to_owned();
        let same = |it: &&Reference| it.hops == hops && it.rate == rate && place.variant == PLAIN;
        let reference = self.reference.iter().find(same);
        let error = reference.map(|it| {
            let errors = sums.iter().map(|sum| (sum / it.sum - 1.0).abs());
            errors.collect::<Vec<f64>>()
        });
        let routers = self.routers.iter().find(|it| it.hops == hops);
        let lost = routers.map(|it| runs.iter().map(|run| it.lost(run)).collect::<Vec<f64>>());
        Ok(scenario::with_metrics(place.row.clone(), runs)
            .with("routing_loss", lost)
            .with("silent_s", silent(place, runs)?)
            .with("arrived", arrived(runs))
            .with("near_share", (hops == AIR).then(|| near_shares(runs)))
            .with("hops", hops)
            .with("routes", if routers.is_some() { "found" } else { "fixed" })
            .with("sum_k", sums)
            .with("reference_k", reference.map(|it| it.sum))
            .with("reference_s", reference.map(|it| it.delay.0.as_secs_f64()))
            .with("error", error))
    }
}

/// Of each run, the rate of all flows together.
fn sums(place: &Place, runs: &[Run]) -> Result<Vec<f64>, ConfigError> {
    let traffic = place.loaded.traffic(&place.variant)?;
    let rate = |run: &Run| {
        let flows = traffic.iter().filter_map(|flow| {
            let Traffic::Udp { payload_octets, .. } = flow.what else {
                return None;
            };
            let payload = f64::from(payload_octets);
            let rate = run.metrics.get(&format!("{}.rate_bit_s", flow.name))?;
            Some(rate * (payload + HEADERS) / payload / K)
        });
        flows.sum()
    };
    Ok(runs.iter().map(rate).collect())
}

/// Of each run of the part with a far receiver, the least of what the near ones have of their equal
/// share of the time on the air.
fn near_shares(runs: &[Run]) -> Vec<f64> {
    let share = |run: &Run| {
        let used = |other: &str| {
            let metric = run.metrics.get(&format!("air-{SENDER}-{other}.use"));
            metric.copied().unwrap_or_default()
        };
        let all = NEAR.iter().chain([&FAR]);
        let equal = all.map(|it| used(it)).sum::<f64>() / (NEAR.len() + 1) as f64;
        let near = NEAR.iter().map(|it| used(it) / equal);
        near.fold(f64::INFINITY, f64::min)
    };
    runs.iter().map(share).collect()
}

/// Of each run, how long the calls' packets that were lost would have taken.
fn silent(place: &Place, runs: &[Run]) -> Result<Vec<f64>, ConfigError> {
    let traffic = place.loaded.traffic(&place.variant)?;
    let calls = traffic
        .iter()
        .filter(|flow| matches!(flow.what, Traffic::Voice { .. }));
    let calls: Vec<_> = calls.collect();
    let silent = |run: &Run| {
        let lost = calls.iter().filter_map(|call| {
            let length = call.stop?.0.saturating_sub(call.start.0);
            let loss = run.metrics.get(&format!("{}.loss", call.name))?;
            Some(loss * length.as_secs_f64())
        });
        lost.sum()
    };
    Ok(runs.iter().map(silent).collect())
}

impl SetUp for ManetStudy {
    const PARTS: &'static [&'static str] = &["cells", "walks", "wanders", "air", "steps", "last"];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        self.steps.as_ref().map_or(Ok(()), |it| it.check(file))
    }

    fn inherit(&mut self, usual: Self) {
        if self.part.is_empty() {
            self.part = usual.part;
        }
        self.steps = self.steps.take().or(usual.steps);
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let (mut rows, mut hashes) = (Vec::new(), Vec::new());
        let seeds = if asked.full { self.seeds_full } else { 0 };
        for part in &self.part {
            let places = with_seeds(part.places()?, seeds);
            let runs = run_places(asked, part.name(), &places)?;
            hashes.extend(runs.iter().flatten().map(|run| run.hash));
            for (place, runs) in places.iter().zip(&runs) {
                rows.push(self.row(part.name(), place, runs)?);
            }
        }
        let of = |part: &str| -> Vec<Row> {
            let own = rows.iter().filter(|row| row.word("hops") == Some(part));
            own.cloned().collect()
        };
        let (walks, wanders, air) = (of(WALK), of(WANDER), of(AIR));
        let apart = [WALK, WANDER, AIR].map(Some);
        rows.retain(|row| !apart.contains(&row.word("hops")));
        let mut measured = Measured::of("cells", against_plain(&rows), [1]);
        measured.parts.insert("walks", walks);
        measured.parts.insert("wanders", wanders);
        measured.parts.insert("air", air);
        if let Some(steps) = &self.steps {
            let stepped = steps.run(asked, seeds)?;
            hashes.extend(stepped.hashes);
            measured.parts.insert("last", steps.last(&stepped.rows));
            measured.parts.insert("steps", stepped.rows);
            measured.figures = stepped.figures;
        }
        measured.fold(hashes);
        Ok(measured)
    }
}

/// The places, with so many seeds at least.
fn with_seeds(mut places: Vec<Place>, least: u64) -> Vec<Place> {
    for place in &mut places {
        let most = least.max(place.seeds.len() as u64);
        place.seeds = (1..=most).collect();
    }
    places
}

/// Of each run, the time on the air of all frames that arrived, as a share of its length.
fn arrived(runs: &[Run]) -> Vec<f64> {
    let share = |run: &Run| {
        let metrics = run.metrics.iter();
        let own = metrics.filter(|(name, _)| name.ends_with(".arrived"));
        own.map(|(_, value)| value).sum()
    };
    runs.iter().map(share).collect()
}

/// The rows with their sums, and their time of frames that arrived, as shares of those of the same
/// without precedence.
fn against_plain(rows: &[Row]) -> Vec<Row> {
    let same = |a: &Row, b: &Row| ["hops", "rate"].iter().all(|it| a.word(it) == b.word(it));
    let plain = |row: &Row| {
        let mut all = rows.iter().filter(|it| it.word("variant") == Some(PLAIN));
        all.find(|it| same(it, row))
    };
    let share = |row: &Row, of: &str| Some(row.median(of)? / plain(row)?.median(of)?);
    let shares = |row: &Row| {
        let (sum, air) = (share(row, "sum_k"), share(row, "arrived"));
        row.clone().with("of_plain", sum).with("air_of_plain", air)
    };
    rows.iter().map(shares).collect()
}
