//! Nets of stations on one channel, by rule of access: what of the air is left for data when all
//! have plenty, who gets it, and how long a short message takes when there is little.

use serde::Deserialize;
use strait_core::Instant;
use strait_core::hash::RunHash;
use strait_core::units::{BitRate, Octets, Time};
use strait_node::config_text::{self, ConfigError};
use strait_scenario::{Loaded, Scenario};
use toml::{Table, Value};

use super::hf::{Came, HEADER_OCTETS};
use super::hf_wait::{TURN_BLOCKS, answered_s, others_s, sent_s};
use super::scenario::{load_text, text};
use super::shown::Row;
use super::{Asked, StudyError, run_all};
use crate::build::{BuildError, build};
use crate::run::collect;

/// Seeds of each world, which decide what is drawn and when messages come.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// A rule of access, as files have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Rule {
    /// Turns by the end of each transmission.
    Turns,
    /// Fixed slots of 3 s, as stations in use have them.
    Slots,
    /// Turns by addresses.
    Address,
    /// Slots drawn.
    Chance,
    /// Times drawn.
    Jitter,
}

impl Rule {
    /// The word in files and tables.
    const fn word(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Slots => "slots",
            Self::Address => "address",
            Self::Chance => "chance",
            Self::Jitter => "jitter",
        }
    }
}

/// Nets to measure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nets {
    /// How many stations they have: the first of those in `scenarios/hf/net.toml`.
    stations: Vec<usize>,
    /// The rules.
    access: Vec<Rule>,
    /// Bulk runs so long before it is counted,
    warm_up: Time,
    /// and so long while it is, and so long come messages.
    window: Time,
    /// Octets of a datagram of bulk.
    bulk: Octets,
    /// What each station has of it, for the next one: more than the air takes.
    rate: BitRate,
    /// Octets of a short message.
    message: Octets,
    /// The mean time from one of a station's messages, for the next one, to another.
    period: Time,
    /// Of the air, what data has at least in the largest net with turns by addresses.
    share_min: f64,
    /// How even its stations' shares are at least, by Jain's index.
    fair_min: f64,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Bulk,
    Messages,
}

/// What one run came to.
struct Outcome {
    /// By flow, sending time and delay of each packet that arrived.
    arrived: Vec<Vec<(f64, f64)>>,
    sent: u64,
    /// Transmissions, and those that met another.
    turns: u64,
    met: f64,
    hash: u64,
    unexplained: u64,
}

impl Nets {
    fn world(&self, stations: usize, rule: Rule, of: Load) -> Result<Loaded, ConfigError> {
        let name = "hf/net.toml";
        let mut world: Table = config_text::parse(name, text(name)?)?;
        let nodes = tables(&mut world, "node").filter_map(|node| named(node, "name"));
        let nodes: Vec<String> = nodes.take(stations).collect();
        let is_in = |name: Option<String>| name.is_some_and(|name| nodes.contains(&name));
        retain(&mut world, "node", |node| is_in(named(node, "name")));
        retain(&mut world, "host", |host| is_in(named(host, "behind")));
        retain(&mut world, "link", |link| {
            let ends = link.get("between").and_then(Value::as_array);
            let ends = ends.into_iter().flatten().filter_map(Value::as_str);
            let mut nodes = ends.filter_map(|end| end.split('.').next());
            nodes.all(|node| is_in(Some(node.into())))
        });
        for (place, node) in tables(&mut world, "node").enumerate() {
            let Some(config) = node.get_mut("config").and_then(Value::as_table_mut) else {
                continue;
            };
            retain(config, "route", |route| is_in(named(route, "via")));
            for port in tables(config, "port") {
                retain(port, "neighbours", |other| is_in(named(other, "name")));
                if let Some(radio) = port.get_mut("hf").and_then(Value::as_table_mut) {
                    share_by(radio, rule, place);
                }
            }
        }
        let hosts = tables(&mut world, "host").filter_map(|host| named(host, "name"));
        let hosts: Vec<String> = hosts.collect();
        world.insert("traffic".into(), self.traffic(&hosts, of));
        // These are about the scenario's own traffic, and its own rule.
        for others in ["expect", "variant"] {
            world.remove(others);
        }
        let duration = self.end().as_secs_f64();
        world.insert("duration".into(), format!("{duration} s").into());
        load_text(name, &config_text::write(name, &world)?)
    }

    /// What each host has for the next one.
    fn traffic(&self, hosts: &[String], of: Load) -> Value {
        let nexts = hosts.iter().cycle().skip(1);
        let flows = hosts.iter().zip(nexts).map(|(from, to)| {
            let (octets, rate) = match of {
                Load::Bulk => (self.bulk, self.rate.0 as f64),
                Load::Messages => {
                    let bits = (self.message.0 * 8) as f64;
                    (self.message, bits / self.period.0.as_secs_f64())
                }
            };
            let mut flow = Table::new();
            flow.insert("name".into(), format!("from-{from}").into());
            flow.insert("kind".into(), "udp".into());
            flow.insert("family".into(), 4.into());
            flow.insert("from".into(), from.as_str().into());
            flow.insert("to".into(), to.as_str().into());
            flow.insert("payload".into(), format!("{} B", octets.0).into());
            flow.insert("rate".into(), format!("{rate} bit/s").into());
            flow.insert("poisson".into(), (of == Load::Messages).into());
            if of == Load::Messages {
                let period_s = self.period.0.as_secs_f64();
                flow.insert("start_spread".into(), format!("{period_s} s").into());
                let stop_s = self.window.0.as_secs_f64();
                flow.insert("stop".into(), format!("{stop_s} s").into());
            }
            Value::Table(flow)
        });
        Value::Array(flows.collect())
    }

    /// The end of a run.
    fn end(&self) -> Instant {
        Instant::ZERO + self.warm_up.0 + self.window.0
    }

    /// One net with one rule.
    fn row(&self, stations: usize, access: Rule, runs: &[Outcome]) -> Row {
        let (bulk, messages) = runs.split_at(runs.len() / 2);
        let seeds = bulk.len().max(1) as f64;
        let (mut share, mut even) = (0.0, 0.0);
        for run in bulk {
            let shares = self.shares(run);
            share += shares.iter().sum::<f64>() / seeds;
            even += fairness(&shares) / seeds;
        }
        let waits_s: Vec<f64> = bulk.iter().flat_map(|run| self.waits(run)).collect();
        let arrived = messages.iter().flat_map(|run| &run.arrived).flatten();
        let delays_s: Vec<f64> = arrived.map(|(_, delay_s)| *delay_s).collect();
        let sent: u64 = messages.iter().map(|run| run.sent).sum();
        // How long a station of bulk is silent by the rule, 95 times of a hundred, if it says: its
        // last turn is answered, others have turns as long as can be, and its first packet comes,
        // which takes two blocks.
        let others = others_s(access, stations, TURN_BLOCKS);
        let wait_by_rule_s = others.map(|others_s| answered_s() + others_s + sent_s(2));
        // Where each other station says a message before: each fits one block.
        let delay_by_rule_s = others_s(access, stations, 1).map(|it| it + sent_s(1));
        let largest = self.stations.iter().max() == Some(&stations);
        Row::default()
            .with("stations", stations)
            .with("largest", if largest { "yes" } else { "no" })
            .with("access", access.word())
            .with("share", share)
            .with("share_min", self.share_min)
            .with("fairness", even)
            .with("fair_min", self.fair_min)
            .with("bulk_met", met(bulk))
            .with("wait_s", waits_s)
            .with("wait_by_rule_s", wait_by_rule_s)
            .with("lost", sent - delays_s.len() as u64)
            .with("delay_s", delays_s)
            .with("delay_by_rule_s", delay_by_rule_s)
            .with("messages_met", met(messages))
    }

    /// What arrived from each station while it was counted, as a share of the channel's rate.
    fn shares(&self, run: &Outcome) -> Vec<f64> {
        let begin_s = self.warm_up.0.as_secs_f64();
        let bits = ((self.bulk.0 + HEADER_OCTETS) * 8) as f64;
        let all = self.window.0.as_secs_f64() * NET_BIT_S;
        let counted = |packets: &Vec<(f64, f64)>| {
            let times = packets.iter().map(|(sent_s, delay_s)| sent_s + delay_s);
            times.filter(|at_s| *at_s >= begin_s).count() as f64
        };
        let flows = run.arrived.iter();
        flows.map(|packets| counted(packets) * bits / all).collect()
    }

    /// From each second of the time that is counted to the next packet from each station. Where
    /// none comes any more, as long as it is known.
    fn waits(&self, run: &Outcome) -> Vec<f64> {
        let (begin, end) = (
            self.warm_up.0.as_secs(),
            self.end().as_nanos() / 1_000_000_000,
        );
        let of = |packets: &Vec<(f64, f64)>| {
            let mut times: Vec<f64> = packets.iter().map(|(sent, delay)| sent + delay).collect();
            times.sort_by(f64::total_cmp);
            let wait = move |second: u64| {
                let second = second as f64;
                let next = times.partition_point(|at_s| *at_s < second);
                times.get(next).copied().unwrap_or(end as f64) - second
            };
            (begin..end).map(wait).collect::<Vec<f64>>()
        };
        run.arrived.iter().flat_map(of).collect()
    }
}

/// The rate of the channel of `scenarios/hf/net.toml`.
const NET_BIT_S: f64 = 9600.0;

fn tables<'a>(of: &'a mut Table, name: &str) -> impl Iterator<Item = &'a mut Table> {
    let array = of.get_mut(name).and_then(Value::as_array_mut);
    array.into_iter().flatten().filter_map(Value::as_table_mut)
}

fn named(table: &Table, key: &str) -> Option<String> {
    table.get(key).and_then(Value::as_str).map(Into::into)
}

fn retain(of: &mut Table, name: &str, such: impl Fn(&Table) -> bool) {
    if let Some(array) = of.get_mut(name).and_then(Value::as_array_mut) {
        array.retain(|value| value.as_table().is_some_and(&such));
    }
}

/// Says how a station shares the air, and leaves it nothing of its own to say. Fixed slots are as
/// early as those measured elsewhere: the first begins 6 s after the end of a transmission.
fn share_by(radio: &mut Table, rule: Rule, place: usize) {
    radio.remove("probe");
    let by = Table::from_iter([("by".to_owned(), rule.word().into())]);
    radio.insert("access".into(), Value::Table(by));
    if rule == Rule::Slots {
        let number = Value::Integer(place as i64 + 1);
        let slots = Table::from_iter([("number".to_owned(), number)]);
        radio.insert("slots".into(), Value::Table(slots));
    }
}

/// Jain's index: 1 if all have the same, one over their number if one has all.
fn fairness(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// The share of transmissions that met another.
fn met(runs: &[Outcome]) -> f64 {
    let turns: u64 = runs.iter().map(|run| run.turns).sum();
    runs.iter().map(|run| run.met).sum::<f64>() / turns.max(1) as f64
}

fn run(loaded: &Loaded, seed: u64) -> Result<Outcome, BuildError> {
    let mut built = build(loaded, Scenario::BASE, seed)?;
    let world = built.world_mut();
    world.run_until(Instant::ZERO + loaded.scenario.duration.0);
    world.check();
    let (mut turns, mut collisions) = (0, 0);
    for (_, _, stats) in world.radios() {
        turns += stats.turns;
        collisions += stats.collisions;
    }
    // Every other station counts one that met another.
    let others = loaded.nodes.len().saturating_sub(1).max(1);
    let run = collect(loaded, Scenario::BASE, seed, &mut built, Vec::new());
    let delays = |flow: &strait_traffic::FlowReport| {
        let delays = flow.series.iter().find(|series| series.label == "delay");
        delays.map_or_else(Vec::new, |series| series.points.clone())
    };
    let sent = run
        .flows
        .iter()
        .filter_map(|flow| flow.counters.get("sent"));
    Ok(Outcome {
        sent: sent.sum(),
        arrived: run.flows.iter().map(delays).collect(),
        turns,
        met: collisions as f64 / others as f64,
        hash: run.hash,
        unexplained: run.unexplained,
    })
}

impl Nets {
    /// Nets, each by every rule.
    pub(super) fn run(&self, asked: &Asked<'_>) -> Result<Came, StudyError> {
        let rows = self.stations.iter();
        let rows = rows.flat_map(|count| self.access.iter().map(|rule| (*count, *rule)));
        let rows: Vec<(usize, Rule)> = rows.collect();
        let mut worlds = Vec::new();
        for (stations, rule) in &rows {
            for of in [Load::Bulk, Load::Messages] {
                let world = self.world(*stations, *rule, of)?;
                worlds.extend(SEEDS.map(|seed| (world.clone(), seed)));
            }
        }
        let runs = run_all(asked, "hf-nets", &worlds, |(world, seed)| {
            run(world, asked.seed(*seed))
        })?;
        let mut came = Came::default();
        for ((stations, rule), runs) in rows.iter().zip(runs.chunks(2 * SEEDS.count())) {
            let mut hash = RunHash::default();
            runs.iter().for_each(|run| hash.fold(run.hash));
            came.note(hash.value(), runs.iter().map(|run| run.unexplained).sum());
            came.rows.push(self.row(*stations, *rule, runs));
        }
        Ok(came)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hf::HfStudy;
    use super::*;

    #[test]
    fn a_net_has_as_many_stations_as_it_says_and_each_has_data_for_the_next() {
        let text = include_str!("../../../../scenarios/studies/hf.toml");
        let study: HfStudy = config_text::parse("hf.toml", text).expect("it is in order");
        let nets = study.nets.expect("it has nets");
        for (stations, links) in [(2, 1), (3, 3), (5, 10)] {
            let world = nets.world(stations, Rule::Slots, Load::Bulk);
            let world = world.expect("it loads");
            assert_eq!(world.nodes.len(), stations);
            assert_eq!(world.links.len(), links);
            let rates = world.links.iter().filter_map(|link| link.channel.rate);
            assert!(rates.into_iter().all(|rate| rate.0 as f64 == NET_BIT_S));
            let flows = &world.scenario.traffic;
            let ends: Vec<_> = flows.iter().map(|flow| (&*flow.from, &*flow.to)).collect();
            assert_eq!(ends.len(), stations);
            assert_eq!(ends[0], ("ha", "hb"));
            assert_eq!(ends[stations - 1].1, "ha");
        }
    }

    #[test]
    fn fairness_is_one_if_all_have_the_same() {
        assert_eq!(fairness(&[0.2, 0.2, 0.2]), 1.0);
        assert_eq!(fairness(&[0.5, 0.0]), 0.5);
    }
}
