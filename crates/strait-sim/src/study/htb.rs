//! The set-up of the study `htb`: our token buckets against a Linux kernel's.

use serde::Deserialize;
use strait_core::Duration;
use strait_core::chance::Stream;
use strait_core::units::{BitRate, Octets, Time};
use strait_qos::plan::{Discipline, Rate};
use strait_qos::{ClassConfig, Dscp, PolicyConfig, PortRange, RuleConfig};

use super::shares::{self, Share, ShareCase, ShareFlow, Shared};
use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError};

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HtbStudy {
    /// Which study the file is of: `htb`.
    study: String,
    /// How long flows run before they are counted.
    warm_up: Time,
    /// How long they are counted.
    window: Time,
    /// How long a full study counts.
    window_full: Time,
    /// What the line behind the classes carries: more than they may send.
    line: BitRate,
    /// Trees that share in ways that surprise.
    #[serde(rename = "case")]
    cases: Vec<HtbCase>,
    /// Trees and flows by chance.
    swarm: Swarm,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// A policy and its flows.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct HtbCase {
    /// Its name in the table.
    name: String,
    /// Which check it belongs to.
    check: String,
    /// The policy.
    policy: PolicyConfig,
    /// The line, if it isn't the study's.
    #[serde(default)]
    line: Option<BitRate>,
    /// Its flows.
    #[serde(rename = "flow")]
    flows: Vec<ShareFlow>,
}

/// How many trees by chance.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Swarm {
    /// In a short study.
    cases: u64,
    /// In a full one.
    cases_full: u64,
    /// Seed of the first; the next ones follow.
    seed: u64,
}

impl HtbStudy {
    /// The written cases, then those by chance.
    fn cases(&self, full: bool, first: u64) -> Vec<ShareCase> {
        let window = if full { self.window_full } else { self.window };
        let case =
            |name: String, policy: PolicyConfig, line: BitRate, flows: Vec<ShareFlow>| ShareCase {
                name,
                policy,
                line,
                flows,
                warm_up: self.warm_up.0,
                window: window.0,
            };
        let written = self.cases.iter().map(|it| {
            let line = it.line.unwrap_or(self.line);
            case(it.name.clone(), it.policy.clone(), line, it.flows.clone())
        });
        let count = if full {
            self.swarm.cases_full
        } else {
            self.swarm.cases
        };
        let seeds = first..first + count;
        let drawn = seeds.map(|seed| {
            let (policy, flows) = draw(seed);
            case(format!("swarm {seed}"), policy, self.line, flows)
        });
        written.chain(drawn).collect()
    }
}

/// Packets more or less at the ends of the time that is counted.
const EDGE_PACKETS: f64 = 1.0;

/// What each flow of a case got in both halves, and how far apart they are as a share of the
/// kernel's: all of it, and without what packets at the ends of the time explain.
fn rows(case: &ShareCase, own: &Shared, live: Option<&Vec<Share>>) -> Vec<Row> {
    let flows = case.flows.iter().enumerate().map(|(index, flow)| {
        let bits = flow.octets.0 as f64 * 8.0;
        let packet_bit_s = bits / case.window.as_secs_f64();
        let [simulated, kernel] =
            [Some(&own.shares), live].map(|shares| Some(shares?.get(index)?.rate_bit_s));
        let apart = |edge: f64| {
            let (simulated, kernel) = (simulated?, kernel?);
            let apart = ((simulated - kernel).abs() - edge * packet_bit_s).max(0.0);
            Some(apart / kernel.max(packet_bit_s))
        };
        Row::default()
            .with("case", case.name.as_str())
            .with("flow", f64::from(flow.port))
            .with("packet_octets", flow.octets.0)
            .with(
                "offered_bit_s",
                flow.gap.map(|gap| bits / gap.0.as_secs_f64()),
            )
            .with("reference_bit_s", flow.reference.map(|rate| rate.0 as f64))
            .with("simulated_bit_s", simulated)
            .with("kernel_bit_s", kernel)
            .with("error", apart(0.0))
            .with("judged_error", apart(EDGE_PACKETS))
    });
    flows.collect()
}

impl SetUp for HtbStudy {
    const PARTS: &'static [&'static str] = &["written", "drawn", "runs"];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let first = asked.seed(self.swarm.seed);
        let cases = self.cases(asked.full, first);
        let (simulated, live) = shares::both("htb", &cases, asked)?;
        let drawn = (cases.len() - self.cases.len()) as u64;
        let runs = simulated.iter();
        let runs = runs.map(|run| Row::default().with("unexplained", run.unexplained));
        let seeds = first..first + drawn;
        let mut measured = Measured::of("runs", runs.collect(), seeds);
        measured.fold(simulated.iter().map(|run| run.hash));
        measured.parts.insert("drawn", Vec::new());
        for (index, (case, own)) in cases.iter().zip(&simulated).enumerate() {
            let rows = rows(case, own, live.get(index));
            let known = self.cases.get(index).map(|case| case.check.as_str());
            let part = if known.is_some() { "written" } else { "drawn" };
            let check = known.map(String::from);
            let rows = rows.into_iter().map(|row| row.with("check", check.clone()));
            measured.parts.entry(part).or_default().extend(rows);
        }
        Ok(measured)
    }
}

/// First of the ports by which drawn flows are told apart.
const PORT: u16 = 5001;

/// A tree with two to five leaves, some of them a level deeper, and a flow for each: most always
/// ready, some with a pace of their own.
fn draw(seed: u64) -> (PolicyConfig, Vec<ShareFlow>) {
    let mut chance = Stream::new(seed, "htb");
    let whole = 400_000 + chance.below(1_100_000);
    let mut config = PolicyConfig {
        discipline: Discipline::Htb,
        default: Some("leaf0".into()),
        ..PolicyConfig::default()
    };
    config.classes.push(ClassConfig {
        rate: Some(Rate::Fixed(whole)),
        ceil: Some(Rate::Fixed(whole)),
        ..ClassConfig::new("all")
    });
    let groups = chance.below(3);
    for group in 0..groups {
        let rate = share(&mut chance, whole / 2);
        config.classes.push(ClassConfig {
            parent: Some("all".into()),
            rate: Some(Rate::Fixed(rate)),
            ceil: Some(Rate::Fixed(above(&mut chance, rate, whole))),
            ..ClassConfig::new(&format!("group{group}"))
        });
    }
    let leaves = 2 + chance.below(4);
    let mut flows = Vec::new();
    for leaf in 0..leaves.max(groups) {
        let port = PORT + leaf as u16;
        // Each group has a leaf at least: without one it would be a leaf itself.
        let parent = match groups {
            0 => "all".into(),
            _ if leaf < groups => format!("group{leaf}"),
            _ => match chance.below(groups + 1) {
                group if group < groups => format!("group{group}"),
                _ => "all".into(),
            },
        };
        let rate = share(&mut chance, whole / 2);
        let octets = 120 + chance.below(1300);
        let name = format!("leaf{leaf}");
        config.classes.push(ClassConfig {
            parent: Some(parent),
            rate: Some(Rate::Fixed(rate)),
            ceil: Some(Rate::Fixed(above(&mut chance, rate, whole))),
            prio: Some(chance.below(4) as u8),
            quantum: chance
                .happens(0.5)
                .then(|| Octets(300 + chance.below(6000))),
            packets: Some(50),
            ..ClassConfig::new(&name)
        });
        config.rules.push(RuleConfig {
            class: Some(name),
            destination_port: [PortRange::single(port)].into(),
            ..RuleConfig::default()
        });
        // A pace well away from what the class may get: near it, chance decides.
        let pace = chance.happens(0.3).then(|| {
            let bits = octets as f64 * 8.0;
            Time(Duration::from_secs_f64(bits / (rate as f64 * 0.5)))
        });
        flows.push(ShareFlow {
            port,
            dscp: Dscp::DF,
            octets: Octets(octets),
            gap: pace,
            poisson: false,
            reference: None,
        });
    }
    (config, flows)
}

/// A rate from 20 kbit/s up, small ones as likely as large ones.
fn share(chance: &mut Stream, most: u64) -> u64 {
    let (least, most) = (20_000f64.ln(), (most as f64).ln());
    (least + (most - least) * chance.unit()).exp() as u64
}

fn above(chance: &mut Stream, rate: u64, most: u64) -> u64 {
    if chance.happens(0.5) {
        return most;
    }
    rate + chance.below(most.saturating_sub(rate).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_qos::Policy;

    #[test]
    fn every_drawn_tree_is_a_policy() {
        for seed in 0..500 {
            let (policy, flows) = draw(seed);
            let compiled = Policy::compile(&policy).unwrap();
            assert_eq!(compiled.classes().len(), flows.len(), "seed {seed}");
            assert_eq!(draw(seed), (policy, flows));
        }
    }
}
