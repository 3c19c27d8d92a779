//! The study `hf`: what data transfer of STANAG 5066 over an HF channel makes of bit errors, and
//! what a ping costs.

use serde::Deserialize;
use strait_core::Instant;
use strait_core::units::{BitRate, Octets, Share, Time};
use strait_node::config_text::ConfigError;
use strait_scenario::{Loaded, Scenario};

use super::hf_adapt::Adapting;
use super::hf_calls::Calls;
use super::hf_ip::{Collapse, IpRow, Turnarounds};
use super::hf_net_delay::NetDelays;
use super::hf_nets::Nets;
use super::hf_rate::Rates;
use super::proxy::{self, PathRow};
use super::scenario::load;
use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError, run_all};
use crate::build::{BuildError, build};
use crate::world::World;

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HfStudy {
    /// Which study the file is of: `hf`.
    study: String,
    /// How long bulk runs before it is counted.
    warm_up: Time,
    /// How long it is counted.
    window: Time,
    /// Bit errors that bulk meets.
    errors: Vec<ErrorRow>,
    /// Rates at which a ping is measured.
    ping: Vec<PingRow>,
    /// IP as others measured it.
    pub(super) ip: Vec<IpRow>,
    /// Their transfer that went on and on.
    pub(super) collapse: Option<Collapse>,
    /// IP with radios that take their time.
    turnarounds: Option<Turnarounds>,
    /// Transfers through TCP proxies.
    #[serde(default)]
    proxied: Vec<PathRow>,
    /// Data rates over paths that change.
    rates: Option<Rates>,
    /// A rate that changes beside the best fixed one, by channel and interleaver.
    adapting: Option<Adapting>,
    /// Data with calls, and confirmations.
    pub(super) calls: Option<Calls>,
    /// Nets of many, by rule of access.
    pub(super) nets: Option<Nets>,
    /// A net with long blocks and slow radios.
    net_delays: Option<NetDelays>,
    /// How many of their figures are to be met within the factor of [`FACTOR`].
    pub(super) cells: Option<f64>,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// Bulk over one bit error rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorRow {
    /// The share of bits that are wrong.
    bits: f64,
    /// What others measured, as a share of the rate.
    measured: f64,
    /// The check of long numbers.
    id: Option<String>,
    /// Its bar.
    min: Option<f64>,
}

/// Ping at one rate.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PingRow {
    /// The channel's rate.
    rate: BitRate,
    /// What others measured.
    measured_s: Option<f64>,
    /// The check of the median.
    id: Option<String>,
    /// Its bar.
    max_s: Option<f64>,
}

/// The variant of bulk with numbers of Edition 3.
const EDITION_3: &str = "edition-3";

/// Octets of IPv4 and UDP headers.
pub(super) const HEADER_OCTETS: u64 = 28;

/// How far from a figure of others the likeness of their stations may be.
pub(super) const FACTOR: f64 = 1.5;

/// What runs of a part came to: rows, the hashes that count, and what is unexplained.
#[derive(Default)]
pub(super) struct Came {
    pub(super) rows: Vec<Row>,
    pub(super) hashes: Vec<u64>,
    pub(super) unexplained: Vec<f64>,
}

impl Came {
    /// Notes one run's hash, and what of it is unexplained.
    pub(super) fn note(&mut self, hash: u64, unexplained: u64) {
        self.hashes.push(hash);
        self.unexplained.push(unexplained as f64);
    }
}

impl SetUp for HfStudy {
    const PARTS: &'static [&'static str] = &[
        "bulk",
        "ping",
        "ip",
        "ip figures",
        "collapse",
        "turnarounds",
        "mixed",
        "proxied",
        "calls",
        "rates",
        "adapting",
        "nets",
        "net delays",
        "runs",
    ];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn check(&self, file: &str) -> Result<(), ConfigError> {
        proxy::check(&self.proxied, file)
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let mut measured = Measured::of("runs", Vec::new(), [1]);
        let mut came = vec![("bulk", self.bulk(asked)?), ("ping", self.pings(asked)?)];
        let (ip, [figures, long]) = self.run_ip(asked)?;
        came.push(("ip", ip));
        measured.parts.insert("ip figures", figures);
        if self.collapse.is_some() {
            measured.parts.insert("collapse", long);
        }
        came.push(("mixed", mixed(asked)?));
        came.push(("proxied", proxy::transfers(&self.proxied, asked, "hf")?));
        for (part, optional) in [
            (
                "turnarounds",
                self.turnarounds
                    .as_ref()
                    .map(|of| self.run_turnarounds(of, asked))
                    .transpose()?,
            ),
            (
                "calls",
                self.calls.as_ref().map(|of| of.run(asked)).transpose()?,
            ),
            (
                "rates",
                self.rates.as_ref().map(|of| of.run(asked)).transpose()?,
            ),
            (
                "adapting",
                self.adapting.as_ref().map(|of| of.run(asked)).transpose()?,
            ),
            (
                "nets",
                self.nets.as_ref().map(|of| of.run(asked)).transpose()?,
            ),
            (
                "net delays",
                self.net_delays
                    .as_ref()
                    .map(|of| of.run(asked))
                    .transpose()?,
            ),
        ] {
            came.extend(optional.map(|came| (part, came)));
        }
        let mut unexplained = Vec::new();
        for (part, came) in came {
            measured.fold(came.hashes);
            measured.parts.insert(part, came.rows);
            unexplained.extend(came.unexplained);
        }
        let runs = vec![Row::default().with("unexplained", unexplained)];
        measured.parts.insert("runs", runs);
        Ok(measured)
    }
}

impl HfStudy {
    /// Bulk, row by row, each with long numbers and with Edition 3's.
    fn bulk(&self, asked: &Asked<'_>) -> Result<Came, StudyError> {
        let bulk = load("hf/bulk.toml")?;
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
        let runs = run_all(asked, "hf", &worlds, |(world, variant)| {
            self.share(world, variant, asked)
        })?;
        let mut came = Came::default();
        runs.iter().for_each(|run| came.note(run.1, run.2));
        let rows = self.errors.iter().zip(runs.chunks(2)).map(|(row, pair)| {
            let [long, short] = [0, 1].map(|it| pair.get(it).map(|run| run.0));
            Row::default()
                .with("check", row.id.as_deref().unwrap_or_default())
                .with("bits", row.bits)
                .with("measured", row.measured)
                .with("short", short)
                .with("long", long)
                .with("min", row.min)
                .with("multiple", short.unwrap_or(0.0) / row.measured)
        });
        came.rows = rows.collect();
        Ok(came)
    }

    /// Octets of bulk's packets at the far gateway, as a share of the channel's rate; the run's
    /// hash, and what is unexplained.
    fn share(
        &self,
        loaded: &Loaded,
        variant: &str,
        asked: &Asked<'_>,
    ) -> Result<(f64, u64, u64), BuildError> {
        let mut built = build(loaded, variant, asked.seed(1))?;
        let world = built.world_mut();
        asked.watch(world);
        let begin = Instant::ZERO + self.warm_up.0;
        world.run_until(begin);
        let before = delivered(world);
        world.run_until(begin + self.window.0);
        let packets = delivered(world) - before;
        let errors = loaded.links.iter().find_map(|link| link.channel.bit_errors);
        let errors = errors.map_or(0.0, |it| it.0);
        asked.keep(&format!("hf-errors-{errors}-{variant}"), world);
        let payload = loaded.scenario.traffic.iter();
        let payload = payload.filter_map(|flow| flow.payload).next();
        let octets = payload.unwrap_or(Octets(0)).0 + HEADER_OCTETS;
        let rate = loaded.links.iter().filter_map(|link| link.channel.rate);
        let bits = rate.map(|rate| rate.0 as f64).sum::<f64>() * self.window.0.as_secs_f64();
        let share = (packets * octets * 8) as f64 / bits;
        Ok((share, world.hash(), world.unexplained()))
    }

    /// Pings, row by row.
    fn pings(&self, asked: &Asked<'_>) -> Result<Came, StudyError> {
        let ping = load("hf/ping.toml")?;
        let runs = run_all(asked, "hf-ping", &self.ping, |row| {
            let mut world = ping.clone();
            for link in &mut world.links {
                link.channel.rate = Some(row.rate);
            }
            let case = format!("hf-ping-{}", row.rate);
            asked.run((&case, true), (&world, Scenario::BASE), asked.seed(1))
        })?;
        let mut came = Came::default();
        for (row, run) in self.ping.iter().zip(runs) {
            came.note(run.hash, run.unexplained);
            let metric = |name: &str| run.metrics.get(name).copied();
            let told = Row::default()
                .with("check", row.id.as_deref().unwrap_or_default())
                .with("rate", row.rate.0)
                .with("measured_s", row.measured_s)
                .with("least_s", metric("ping.rtt_min_s"))
                .with("median_s", metric("ping.rtt_p50_s"))
                .with("lost", metric("ping.loss"))
                .with("max_s", row.max_s);
            came.rows.push(told);
        }
        Ok(came)
    }
}

/// What becomes of short urgent messages against the stream: the most that one took, and the bulk
/// as a share of the rate.
fn mixed(asked: &Asked<'_>) -> Result<Came, StudyError> {
    let mixed = load("hf/mixed.toml")?;
    let run = asked.run(("hf-mixed", true), (&mixed, Scenario::BASE), asked.seed(1))?;
    let metric = |name: &str| run.metrics.get(name).copied();
    let lost = metric("flash.loss").is_none_or(|loss| loss > 0.0);
    let longest_s = metric("flash.delay_max_s").filter(|_| !lost);
    let payload = mixed.scenario.traffic.first().and_then(|it| it.payload);
    let payload = payload.map_or(0.0, |octets| octets.0 as f64);
    let rate = mixed.links.iter().find_map(|link| link.channel.rate);
    let share = metric("bulk.rate_bit_s")
        .zip(rate)
        .map(|(bit_s, rate)| bit_s * (payload + HEADER_OCTETS as f64) / payload / rate.0 as f64);
    let row = Row::default().with("flash_s", longest_s);
    Ok(Came {
        rows: vec![row.with("bulk", share)],
        hashes: vec![run.hash],
        unexplained: Vec::new(),
    })
}

/// Packets that the far gateway gave to its hosts.
pub(super) fn delivered(world: &World) -> u64 {
    let far = world.stats().find(|(name, _)| *name == "b");
    far.map_or(0, |(_, stats)| stats.delivered)
}
