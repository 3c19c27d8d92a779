//! The study `na-local`: questions answered from stored replies, as the Network Adapter does.
//!
//! Two hosts behind two gateways on a serial line; pings in both families. Stored replies answer
//! for [`LocalStudy::valid`]. Three worlds: nothing fails; the far gateway is killed, which nobody
//! tells the near one; the line is unplugged, which its port sees. The same with questions for
//! neighbours and routers, of hosts on Ethernets.

use std::net::IpAddr;

use serde::Deserialize;
use strait_channel::LinkConfig;
use strait_core::hash::RunHash;
use strait_core::local::Question;
use strait_core::stats::Stats;
use strait_core::units::Time;
use strait_core::{Duration, Instant, NeighbourId, PortId};
use strait_hosts::{Host, HostConfig};
use strait_node::{GatewayFactory, NodeConfig, config_text};
use strait_report::table::{Check, Column, ResultSet, Table};
use strait_traffic::{Ports, TrafficConfig};

use super::{limits, na_neighbours};
use crate::build::BuildError;
use crate::world::{Attach, Fault, LinkIndex, NodeIndex, World};

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalStudy {
    /// Which study the file is of: `na-local`.
    pub study: String,
    /// Symbols a second on the line.
    pub baud: u64,
    /// How long a stored reply answers.
    pub valid: Time,
    /// Time between two pings of one family.
    pub period: Time,
}

/// What happens while stored replies are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    Nothing,
    /// The far gateway ends without a word.
    Killed,
    /// The line's ends see that there is no line, until the time of the stored replies is over.
    Unplugged,
}

impl Mishap {
    /// All, with their names in tables.
    pub(super) const ALL: [(Self, &'static str); 3] = [
        (Self::Nothing, "as it should be"),
        (Self::Killed, "far gateway killed"),
        (Self::Unplugged, "unplugged"),
    ];
}

/// What was seen in a window of time.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Octets that both gateways sent on the line.
    line_octets: u64,
    /// Pings that the near gateway answered.
    answered: u64,
    /// Replies that the pinging host got.
    replies: u64,
}

pub(super) const SEED: u64 = 1;
pub(super) const STARTS: Duration = Duration::from_secs(1);
/// After this all exchanges of the first round are over: a ping of either family and its reply take
/// less than a quarter of it at 9600 baud.
pub(super) const ROUND: Duration = Duration::from_secs(1);
const NEAR: [&str; 2] = ["10.1.0.2", "fd00:1::2"];
const FAR: [&str; 2] = ["10.2.0.2", "fd00:2::2"];

impl LocalStudy {
    /// Reads the file of the study.
    ///
    /// # Errors
    /// What is wrong in it, and where.
    pub fn parse(file: &str, text: &str) -> Result<Self, config_text::ConfigError> {
        limits::parse(file, text)
    }

    /// Runs the three worlds.
    ///
    /// # Errors
    /// A value that makes no configuration.
    pub fn run(&self) -> Result<ResultSet, BuildError> {
        let heads = [
            ("the line", ""),
            ("stored replies", ""),
            ("octets on it", ""),
            ("answered here", ""),
            ("replies", ""),
        ];
        let heads = heads.map(|(name, unit)| Column::new(name, unit));
        let mut table = Table::new("na-local", heads.to_vec());
        let mut hash = RunHash::default();
        let mut checks = Vec::new();
        for (mishap, name) in Mishap::ALL {
            let run = Run::new(self, mishap)?;
            let (valid, after) = run.finish(&mut hash);
            for (when, seen) in [("valid", valid), ("expired", after)] {
                let counts = [seen.line_octets, seen.answered, seen.replies];
                let mut row = vec![name.into(), when.into()];
                row.extend(counts.map(|count| (count as f64).into()));
                table.push(row);
            }
            checks.extend(judge(mishap, valid, after));
        }
        let (neighbours, more) = na_neighbours::run(self, &mut hash)?;
        checks.extend(more);
        Ok(ResultSet {
            run_hash: Some(hash.value().into()),
            seeds: vec![SEED],
            tables: vec![table, neighbours],
            checks,
        })
    }
}

/// What a run must show.
fn judge(mishap: Mishap, valid: Seen, after: Seen) -> Vec<Check> {
    let none = |id: &str, count: u64| Check::range(id, Some(count as f64), "", None, Some(0.0));
    let some = |id: &str, count: u64| Check::range(id, Some(count as f64), "", Some(1.0), None);
    match mishap {
        Mishap::Nothing => vec![
            none("na-local-reply-octets", valid.line_octets),
            some("na-local-reply-answered", valid.answered),
            some("na-local-reply-asks-again", after.line_octets),
        ],
        Mishap::Killed => vec![
            some("na-local-reply-hides", valid.answered),
            none("na-local-reply-expired", after.answered + after.replies),
        ],
        Mishap::Unplugged => vec![
            none("na-local-reply-down", valid.answered),
            some("na-local-reply-returns", after.replies),
        ],
    }
}

/// A world, and its moments.
struct Run {
    world: World,
    host: NodeIndex,
    /// The first replies are stored, and the mishap, if any, happens.
    stored: Instant,
    /// Just before the first of them expires.
    ends: Instant,
    /// All of them have expired.
    expired: Instant,
    /// As long again.
    end: Instant,
}

impl Run {
    fn new(study: &LocalStudy, mishap: Mishap) -> Result<Self, BuildError> {
        let mut world = World::new(SEED);
        world.trace_paths();
        let near = world.add_node("a", gateway(study, "a", "fd00:9::1")?);
        let far = world.add_node("b", gateway(study, "b", "fd00:9::2")?);
        let host = |world: &mut World, name: &str, addresses: [&str; 2]| {
            let addresses = addresses.map(address).to_vec();
            world.add_host(Host::new(&HostConfig::new(name, addresses, SEED)))
        };
        let left = host(&mut world, "ha", NEAR);
        let right = host(&mut world, "hb", FAR);
        let serial = LinkConfig::serial(study.baud);
        let lan = LinkConfig::frames(1_000_000_000, Duration::ZERO);
        let line = join(&mut world, "line", &serial, [(near, 1), (far, 1)])?;
        join(&mut world, "a lan", &lan, [(near, 0), (left, 0)])?;
        join(&mut world, "b lan", &lan, [(far, 0), (right, 0)])?;
        for (index, family) in [4, 6].into_iter().enumerate() {
            let text = format!(
                "name = \"ping{family}\"\nkind = \"ping\"\nfamily = {family}\nfrom = \"ha\"\n\
                 to = \"hb\"\nstart = \"{}\"\nperiod = \"{}\"\n",
                Time(STARTS),
                study.period,
            );
            let config: TrafficConfig = config_text::parse("traffic", &text)?;
            if let Some((one, other)) = world.hosts_mut(left, right) {
                let (from, to) = (address(NEAR[index]), address(FAR[index]));
                let ports = Ports::nth(index as u16);
                strait_hosts::install(&config, one, other, from, to, ports, SEED)?;
            }
        }
        let stored = Instant::ZERO + STARTS + ROUND;
        match mishap {
            Mishap::Nothing => {}
            Mishap::Killed => world.plan(stored, Fault::Kill(far)),
            Mishap::Unplugged => {
                world.plan(stored, Fault::Unplug(line));
                world.plan(stored + study.valid.0, Fault::Plug(line));
            }
        }
        Ok(Self {
            world,
            host: left,
            stored,
            ends: Instant::ZERO + STARTS + study.valid.0,
            expired: stored + study.valid.0,
            end: stored + study.valid.0 * 2,
        })
    }

    fn finish(mut self, hash: &mut RunHash) -> (Seen, Seen) {
        let mut at = |moment: Instant| {
            self.world.run_until(moment);
            seen(&self.world, self.host)
        };
        let [stored, ends, expired, end] =
            [self.stored, self.ends, self.expired, self.end].map(&mut at);
        self.world.check();
        hash.fold(self.world.hash());
        (ends.since(stored), end.since(expired))
    }
}

impl Seen {
    const fn since(self, before: Self) -> Self {
        Self {
            line_octets: self.line_octets - before.line_octets,
            answered: self.answered - before.answered,
            replies: self.replies - before.replies,
        }
    }
}

/// Counts since the beginning.
fn seen(world: &World, host: NodeIndex) -> Seen {
    let near = |(name, stats): (&str, &Stats)| {
        (name == "a").then(|| stats.local.answered(Question::Echo).packets)
    };
    let logs = world.host(host).into_iter().flat_map(Host::logs);
    Seen {
        line_octets: line_octets(world),
        answered: world.stats().find_map(near).unwrap_or(0),
        replies: logs.map(|log| log.received.len() as u64).sum(),
    }
}

/// Octets that both ends of the first link sent.
pub(super) fn line_octets(world: &World) -> u64 {
    let line = |(_, sides): (&str, [&strait_channel::ChannelStats; 2])| -> u64 {
        sides.iter().map(|side| side.octets).sum()
    };
    world.links().next().map_or(0, line)
}

pub(super) fn address(text: &str) -> IpAddr {
    text.parse()
        .unwrap_or_else(|_| unreachable!("an address: {text}"))
}

pub(super) fn join(
    world: &mut World,
    name: &str,
    config: &LinkConfig,
    ends: [(NodeIndex, u8); 2],
) -> Result<LinkIndex, BuildError> {
    let ends = ends.map(|(node, port)| Attach {
        node,
        port: PortId(port),
        neighbour: NeighbourId::PEER,
    });
    let joined = world.join_at(name, config, ends);
    joined.map_err(|error| BuildError::Link {
        name: name.into(),
        error,
    })
}

fn gateway(
    study: &LocalStudy,
    name: &str,
    address: &str,
) -> Result<Box<GatewayFactory>, BuildError> {
    let text = format!(
        "name = \"{name}\"\n[host]\naddresses = [\"{address}/64\"]\n[answers]\necho = \"{}\"\n\
         [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = {}\n",
        study.valid, study.baud
    );
    let config: NodeConfig = config_text::parse("gateway", &text)?;
    let factory = GatewayFactory::new(config)
        .map_err(|error| config_text::ConfigError::of_file("gateway", error.to_string()))?;
    Ok(Box::new(factory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_study_holds_and_repeats() {
        let file = include_str!("../../../../scenarios/studies/na-local.toml");
        let study = LocalStudy::parse("na-local.toml", file).unwrap();
        let result = study.run().unwrap();
        assert!(
            result.checks.iter().all(|check| check.ok == Some(true)),
            "{:?}",
            result.checks
        );
        assert_eq!(study.run().unwrap().run_hash, result.run_hash);
    }
}
