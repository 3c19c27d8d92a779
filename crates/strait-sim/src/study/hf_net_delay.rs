//! How long short messages take in a net whose blocks are long and whose radios are slow, beside
//! what the rule of access implies.

use serde::Deserialize;
use strait_core::Duration;
use strait_core::units::BitRate;
use strait_core::waveform::{self, Bandwidth, Family, Interleaver};
use strait_node::config_text::ConfigError;
use strait_report::estimate;
use strait_scenario::{Loaded, Scenario};
use strait_traffic::Traffic;

use super::hf::Came;
use super::hf_net_rule::{Air, Message, Waits, times};
use super::scenario::load;
use super::shown::Row;
use super::{Asked, StudyError, run_all};
use crate::run::{Run, run_plain};

/// Seeds of each net, whose means are told.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=60;

/// The waveforms by which the net of `scenarios/hf/net-long.toml` is tried.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NetDelays {
    interleavers: Vec<Interleaver>,
    rates: Vec<BitRate>,
    /// How many times what the rule implies a median may be.
    times_max: f64,
}

/// A waveform, and what the rule of access implies for it.
struct Net {
    interleaver: Interleaver,
    rate: BitRate,
    block: Duration,
    world: Loaded,
}

impl Net {
    fn new(interleaver: Interleaver, rate: BitRate) -> Result<Option<Self>, ConfigError> {
        let bit_s = u32::try_from(rate.0).unwrap_or_default();
        let found = waveform::find(Family::M110D, Bandwidth::default(), interleaver, bit_s);
        let Some(found) = found else { return Ok(None) };
        let mut world = load("hf/net-long.toml")?;
        for link in &mut world.links {
            link.channel.rate = Some(rate);
            if let Some(hf) = link.channel.hf_config_mut() {
                hf.interleaver = interleaver;
            }
        }
        Ok(Some(Self {
            interleaver,
            rate,
            block: found.mode.block(),
            world,
        }))
    }

    /// The times that the rule of access implies for the messages of a run.
    fn rule(&self, seed: u64) -> Waits {
        let air = Air {
            rate: self.rate,
            block: self.block,
            stations: self.world.nodes.len(),
        };
        air.waits(&self.messages(seed))
    }

    /// Who has messages when, in a run with this seed.
    fn messages(&self, seed: u64) -> Vec<Message> {
        let station_of = |host: &str| {
            let mut hosts = self.world.scenario.hosts.iter();
            let behind = hosts.find(|it| it.name == host)?.behind.as_deref()?;
            self.world.nodes.iter().position(|node| node.name == behind)
        };
        let mut messages = Vec::new();
        for (flow, traffic) in self.world.scenario.traffic.iter().enumerate() {
            let ends = (station_of(&traffic.from), station_of(&traffic.to));
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            let times = times(traffic, seed);
            messages.extend(times.into_iter().map(|at_s| Message {
                at_s,
                flow,
                from,
                to,
                is_ping: matches!(traffic.what, Traffic::Ping { .. }),
            }));
        }
        messages
    }

    fn row(&self, runs: &[Run], seeds: &[u64], times_max: f64) -> Row {
        let mean = |name: &str| {
            let values = runs.iter().filter_map(|run| run.metrics.get(name));
            let values: Vec<f64> = values.copied().collect();
            (values.len() == runs.len()).then(|| estimate::mean(&values))?
        };
        let rules: Vec<_> = seeds.iter().map(|seed| self.rule(*seed)).collect();
        let by_rule = |flow: usize| {
            let medians = rules.iter().filter_map(|waits| {
                let of = waits.iter().filter(|(it, _)| *it == flow);
                estimate::percentile(&of.map(|(_, s)| *s).collect::<Vec<_>>(), 0.5)
            });
            estimate::mean(&medians.collect::<Vec<_>>()).unwrap_or_default()
        };
        // The median of the worst flow, and the one that the rule implies. A flow of which nothing
        // came has none.
        let worst = |prefix: &str, metric: &str| {
            let flows = self.world.scenario.traffic.iter().enumerate();
            let flows = flows.filter(|(_, flow)| flow.name.starts_with(prefix));
            flows.fold((0.0, 0.0), |(came_s, rule_s), (index, flow)| {
                let median = mean(&format!("{}.{metric}", flow.name)).unwrap_or(f64::INFINITY);
                (median.max(came_s), by_rule(index).max(rule_s))
            })
        };
        let report = worst("report", "delay_p50_s");
        let ping = worst("ping", "rtt_p50_s");
        let flows = self.world.scenario.traffic.iter();
        let lost = flows.map(|flow| mean(&format!("{}.loss", flow.name)).unwrap_or(1.0));
        let nodes = self.world.nodes.iter();
        let met = nodes.filter_map(|node| mean(&format!("{}.hf.collisions", node.name)));
        Row::default()
            .with("interleaver", format!("{:?}", self.interleaver))
            .with("rate", self.rate.0)
            .with("report_s", report.0)
            .with("report_by_rule_s", report.1)
            .with("ping_s", ping.0)
            .with("ping_by_rule_s", ping.1)
            .with("times", (report.0 / report.1).max(ping.0 / ping.1))
            .with("times_max", times_max)
            .with("lost", lost.fold(0.0, f64::max))
            .with("met", met.sum::<f64>())
    }
}

impl NetDelays {
    /// The net by each waveform that there is.
    pub(super) fn run(&self, asked: &Asked<'_>) -> Result<Came, StudyError> {
        let mut nets = Vec::new();
        for interleaver in &self.interleavers {
            for rate in &self.rates {
                nets.extend(Net::new(*interleaver, *rate)?);
            }
        }
        let seeds: Vec<_> = SEEDS.map(|seed| asked.seed(seed)).collect();
        let jobs = nets.iter();
        let jobs: Vec<_> = jobs
            .flat_map(|net| seeds.iter().map(move |seed| (net, *seed)))
            .collect();
        let runs = run_all(asked, "hf-net-delay", &jobs, |(net, seed)| {
            run_plain(&net.world, Scenario::BASE, *seed)
        })?;
        let mut came = Came::default();
        runs.iter()
            .for_each(|run| came.note(run.hash, run.unexplained));
        let nets = nets.iter().zip(runs.chunks(seeds.len()));
        came.rows = nets
            .map(|(net, runs)| net.row(runs, &seeds, self.times_max))
            .collect();
        Ok(came)
    }
}
