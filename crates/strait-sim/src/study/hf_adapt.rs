//! A data rate that follows what arrives, beside the best fixed one, by channel and interleaver.

use serde::{Deserialize, Deserializer};
use strait_channel::hf::{Condition, HfChannel};
use strait_core::Instant;
use strait_core::units::{BitRate, Decibels, Time};
use strait_core::waveform::Interleaver;
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};

use super::hf::{Came, delivered};
use super::hf_rate::{Choice, adaptive};
use super::shown::Row;
use super::{Asked, StudyError, run_all};
use crate::build::{BuildError, build};

/// What is measured, with `--full` or without.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    /// How the two paths fade; `noise` for noise alone.
    #[serde(deserialize_with = "conditions")]
    conditions: Vec<Option<Condition>>,
    interleavers: Vec<Interleaver>,
    /// Mean ratios of signal to noise.
    snr: Vec<Decibels>,
    /// Seeds of each, whose mean is told.
    seeds: u64,
}

/// Conditions by their names, `noise` for none.
fn conditions<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Option<Condition>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Noise {
        Noise,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Channel {
        Noise(Noise),
        Fading(Condition),
    }
    let channels = Vec::<Channel>::deserialize(from)?;
    let condition = |channel| match channel {
        Channel::Noise(Noise::Noise) => None,
        Channel::Fading(condition) => Some(condition),
    };
    Ok(channels.into_iter().map(condition).collect())
}

/// Channels, and the rates to choose from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Adapting {
    /// The fixed rates.
    fixed: Vec<BitRate>,
    /// The rate that the changing one begins with.
    begins: BitRate,
    /// So long it settles,
    settle: Time,
    /// and so long it is counted.
    window: Time,
    /// A channel by whose best fixed rate less arrives doesn't count.
    least: BitRate,
    /// The share of the best fixed rate's figure that is to arrive.
    min: f64,
    thin: Sample,
    full: Sample,
}

/// What arrived, in bit/s, while it settled and while it was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    settling: f64,
    settled: f64,
}

/// That of a run, and its hash.
type Measured = (Arrived, u64);

/// A fixed rate that delivers less than such a share of the best one with the first seed isn't run
/// with others.
const PROMISING: f64 = 0.7;

/// A channel by one ratio, and what arrives by it.
#[derive(Clone, Copy, Debug)]
struct At {
    snr: Decibels,
    best: (BitRate, Arrived),
    follows: Arrived,
}

impl At {
    fn share(&self) -> f64 {
        self.follows.settled / self.best.1.settled
    }
}

impl Adapting {
    fn choices(&self) -> impl Iterator<Item = Choice> {
        let fixed = self.fixed.iter().map(|rate| Choice::Fixed(*rate));
        fixed.chain([Choice::Follows { advice: true }])
    }

    fn world(
        &self,
        condition: Option<Condition>,
        interleaver: Interleaver,
        snr: Decibels,
        choice: Choice,
    ) -> Result<Loaded, ConfigError> {
        let mut world = adaptive(choice, self.begins)?;
        for link in &mut world.links {
            link.channel.snr = Some(snr);
            if let Some(hf) = link.channel.hf_config_mut() {
                hf.trace = None;
                hf.interleaver = interleaver;
                hf.condition = condition;
                if condition.is_some() {
                    hf.channel = HfChannel::Fading;
                }
            }
        }
        Ok(world)
    }

    /// Runs a world, and gives what arrived and the run's hash.
    fn measure(&self, loaded: &Loaded, seed: u64) -> Result<Measured, BuildError> {
        let mut built = build(loaded, Scenario::BASE, seed)?;
        let world = built.world_mut();
        let payload = loaded.scenario.traffic.iter().find_map(|flow| flow.payload);
        let bits = payload.map_or(0.0, |payload| payload.0 as f64 * 8.0);
        let mut until = |end: Instant| {
            world.run_until(end);
            delivered(world) as f64 * bits
        };
        let begins = until(Instant::ZERO + self.settle.0);
        let all = until(Instant::ZERO + self.settle.0 + self.window.0);
        let arrived = Arrived {
            settling: begins / self.settle.0.as_secs_f64(),
            settled: (all - begins) / self.window.0.as_secs_f64(),
        };
        Ok((arrived, world.hash()))
    }

    /// Each channel by each interleaver, with the ratio at which the changing rate does worst.
    pub(super) fn run(&self, asked: &Asked<'_>) -> Result<Came, StudyError> {
        let of = if asked.full { &self.full } else { &self.thin };
        let channels = of.conditions.iter();
        let channels = channels.flat_map(|it| of.interleavers.iter().map(move |by| (*it, *by)));
        let channels: Vec<_> = channels.collect();
        let mut worlds = Vec::new();
        for (condition, interleaver) in &channels {
            for snr in &of.snr {
                for choice in self.choices() {
                    worlds.push(self.world(*condition, *interleaver, *snr, choice)?);
                }
            }
        }
        let measured = |jobs: &[(usize, u64)]| {
            run_all(asked, "hf-adapt", jobs, |(world, seed)| {
                self.measure(&worlds[*world], asked.seed(*seed))
            })
        };
        let first: Vec<_> = (0..worlds.len()).map(|world| (world, 1)).collect();
        let mut runs: Vec<_> = measured(&first)?.into_iter().map(|run| vec![run]).collect();
        let others: Vec<_> = self
            .promising(&runs)
            .flat_map(|world| (2..=of.seeds).map(move |seed| (world, seed)))
            .collect();
        for ((world, _), run) in others.iter().zip(measured(&others)?) {
            runs[*world].push(run);
        }
        let each: Vec<Arrived> = runs.iter().map(|runs| mean(runs)).collect();
        let by_channel = each.chunks(of.snr.len() * self.choices().count());
        let rows = channels
            .iter()
            .zip(by_channel)
            .filter_map(|(channel, arrived)| Some(self.row(*channel, self.worst(of, arrived)?)))
            .collect();
        Ok(Came {
            rows,
            hashes: runs.iter().flatten().map(|(_, hash)| *hash).collect(),
            ..Came::default()
        })
    }

    /// The worlds to be run with all seeds: the changing rate, and fixed ones that may be the best.
    fn promising(&self, first: &[Vec<Measured>]) -> impl Iterator<Item = usize> {
        let choices = self.choices().count();
        let settled = |runs: &Vec<Measured>| mean(runs).settled;
        first
            .chunks(choices)
            .enumerate()
            .flat_map(move |(at, runs)| {
                let best = runs.iter().map(settled).fold(0.0, f64::max);
                let may_be_best = move |(choice, runs): &(usize, &Vec<Measured>)| {
                    choice + 1 == choices || settled(runs) >= best * PROMISING
                };
                let worth = runs.iter().enumerate().filter(may_be_best);
                worth.map(move |(choice, _)| at * choices + choice)
            })
    }

    /// The ratio at which the changing rate does worst, of those that count.
    fn worst(&self, of: &Sample, arrived: &[Arrived]) -> Option<At> {
        let by_snr = of.snr.iter().zip(arrived.chunks(self.choices().count()));
        let all = by_snr.filter_map(|(snr, arrived)| {
            let (follows, fixed) = arrived.split_last()?;
            let fixed = self.fixed.iter().copied().zip(fixed.iter().copied());
            let best = fixed.max_by(|one, other| one.1.settled.total_cmp(&other.1.settled))?;
            (best.1.settled >= self.least.0 as f64).then_some(At {
                snr: *snr,
                best,
                follows: *follows,
            })
        });
        all.min_by(|one, other| one.share().total_cmp(&other.share()))
    }

    fn row(&self, (condition, by): (Option<Condition>, Interleaver), at: At) -> Row {
        let name = condition.map_or_else(|| "noise alone".into(), |it| format!("{it:?}"));
        Row::default()
            .with("channel", name)
            .with("interleaver", format!("{by:?}"))
            .with("snr", at.snr.0)
            .with("fixed", at.best.0.0)
            .with("best", at.best.1.settled)
            .with("follows", at.follows.settled)
            .with("share", at.share())
            .with("best_settling", at.best.1.settling)
            .with("follows_settling", at.follows.settling)
            .with("min", self.min)
    }
}

fn mean(runs: &[Measured]) -> Arrived {
    let count = runs.len() as f64;
    let of = |value: fn(&Arrived) -> f64| runs.iter().map(|run| value(&run.0)).sum::<f64>() / count;
    Arrived {
        settling: of(|it| it.settling),
        settled: of(|it| it.settled),
    }
}
