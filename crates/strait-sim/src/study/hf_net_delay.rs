//! How long short messages take in a net whose blocks are long and whose radios are slow, beside
//! what the rule of access implies.

use serde::Deserialize;
use strait_core::Duration;
use strait_core::units::BitRate;
use strait_core::waveform::{self, Bandwidth, Family, Interleaver};
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};
use strait_traffic::Traffic;

use super::hf::Came;
use super::scenario::load;
use super::shown::Row;
use super::{Asked, StudyError, run_all};
use crate::run::{Run, run_plain};

/// Seeds of each net, whose means are told.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=20;

/// The radios of `scenarios/hf/net-long.toml`: from keying to power, and the preamble.
const TURNAROUND_S: f64 = 3.0;
const PREAMBLE_S: f64 = 0.24;

/// How long power takes to be detected, and to come there.
const DETECT_S: f64 = 0.3;
const DELAY_S: f64 = 0.005;

/// From the end of a transmission to the decision to answer.
const GUARD_S: f64 = 0.05;

/// A slot: another has begun and is noticed, by one who noticed the end before a delay earlier, and
/// what a modem's times may differ by.
const SLOT_S: f64 = TURNAROUND_S + DETECT_S + 2.0 * DELAY_S + 0.01 + GUARD_S;

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

    /// From the decision to begin to when all others have a message, of as many blocks as it needs.
    fn sent_s(&self) -> f64 {
        let block_s = self.block.as_secs_f64();
        let octets = self.rate.0 as f64 * block_s / 8.0;
        let blocks = (MESSAGE_OCTETS / octets).ceil();
        TURNAROUND_S + PREAMBLE_S + (blocks + 1.0) * block_s + DELAY_S
    }

    /// A message and its answer.
    fn exchange_s(&self) -> f64 {
        2.0 * self.sent_s() + GUARD_S
    }

    /// The share of the time that exchanges take.
    fn load(&self) -> f64 {
        let messages = self.world.scenario.traffic.iter();
        let each_s = messages.map(|traffic| match traffic.what {
            Traffic::Udp {
                payload_octets,
                rate_bit_s,
                ..
            } => rate_bit_s as f64 / 8.0 / f64::from(payload_octets),
            Traffic::Ping { period, .. } => 1.0 / period.as_secs_f64(),
            _ => 0.0,
        });
        each_s.sum::<f64>() * self.exchange_s()
    }

    /// How long the middle message waits for the end of an exchange of others. It meets one with a
    /// chance that is the load, at any point: so below a load of a half it waits for none.
    fn others_s(&self) -> f64 {
        self.exchange_s() * (1.0 - 0.5 / self.load()).max(0.0)
    }

    /// Then come the slot of the answer, those of half of the other stations, and the message
    /// itself. Rounds of slots follow each other while nobody speaks, so it is no sooner there.
    fn report_s(&self) -> f64 {
        let others = self.world.nodes.len() as f64 - 1.0;
        self.others_s() + SLOT_S * (1.0 + others / 2.0) + self.sent_s()
    }

    /// The same, and the answer at once.
    fn ping_s(&self) -> f64 {
        self.report_s() + GUARD_S + self.sent_s()
    }

    fn row(&self, runs: &[Run], times_max: f64) -> Row {
        let mean = |name: &str| {
            let values = runs.iter().filter_map(|run| run.metrics.get(name));
            let (sum, count) = values.fold((0.0, 0), |(sum, count), it| (sum + it, count + 1));
            (count == runs.len()).then(|| sum / f64::from(count as u32))
        };
        let flows = self.world.scenario.traffic.iter().map(|flow| &*flow.name);
        let reports = flows.clone().filter(|name| name.starts_with("report"));
        let medians = reports.map(|name| mean(&format!("{name}.delay_p50_s")));
        // One of which nothing came has no median.
        let report_s = medians
            .map(|it| it.unwrap_or(f64::INFINITY))
            .fold(0.0, f64::max);
        let ping_s = mean("ping.rtt_p50_s").unwrap_or(f64::INFINITY);
        let lost = flows.map(|name| mean(&format!("{name}.loss")).unwrap_or(1.0));
        let names = self
            .world
            .nodes
            .iter()
            .map(|node| format!("{}.hf.collisions", node.name));
        let met: f64 = names.filter_map(|name| mean(&name)).sum();
        let times = (report_s / self.report_s()).max(ping_s / self.ping_s());
        Row::default()
            .with("interleaver", format!("{:?}", self.interleaver))
            .with("rate", self.rate.0)
            .with("report_s", report_s)
            .with("report_by_rule_s", self.report_s())
            .with("ping_s", ping_s)
            .with("ping_by_rule_s", self.ping_s())
            .with("times", times)
            .with("times_max", times_max)
            .with("lost", lost.fold(0.0, f64::max))
            .with("met", met)
    }
}

/// Octets of a report or a ping with what is around them.
const MESSAGE_OCTETS: f64 = 270.0;

impl NetDelays {
    /// The net by each waveform that there is.
    pub(super) fn run(&self, asked: &Asked<'_>) -> Result<Came, StudyError> {
        let mut nets = Vec::new();
        for interleaver in &self.interleavers {
            for rate in &self.rates {
                nets.extend(Net::new(*interleaver, *rate)?);
            }
        }
        let jobs: Vec<_> = nets
            .iter()
            .flat_map(|net| SEEDS.map(move |seed| (net, seed)))
            .collect();
        let runs = run_all(asked, "hf-net-delay", &jobs, |(net, seed)| {
            run_plain(&net.world, Scenario::BASE, asked.seed(*seed))
        })?;
        let mut came = Came::default();
        runs.iter()
            .for_each(|run| came.note(run.hash, run.unexplained));
        let nets = nets.iter().zip(runs.chunks(SEEDS.count()));
        came.rows = nets
            .map(|(net, runs)| net.row(runs, self.times_max))
            .collect();
        Ok(came)
    }
}
