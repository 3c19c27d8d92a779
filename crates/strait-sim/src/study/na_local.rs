//! The study `na-local`: questions answered from stored replies, as the Network Adapter does.
//!
//! Two hosts behind two gateways on a serial line; pings in both families. Stored replies answer
//! for [`LocalStudy::valid`]. Three worlds: nothing fails; the far gateway is killed, which nobody
//! tells the near one; the line is unplugged, which its port sees. The same with questions for
//! neighbours and routers, of hosts on Ethernets.

use std::net::IpAddr;

use serde::Deserialize;
use strait_channel::LinkConfig;
use strait_core::local::Question;
use strait_core::stats::Stats;
use strait_core::units::Time;
use strait_core::{Duration, Instant, NeighbourId, PortId};
use strait_hosts::{Host, HostConfig};
use strait_node::config_text::ConfigError;
use strait_node::{GatewayFactory, NodeConfig};
use strait_traffic::Ports;

use super::shown::{Row, Shapes};
use super::{Asked, Measured, SetUp, StudyError, na_neighbours, run_all};
use crate::build::BuildError;
use crate::world::{Attach, Fault, LinkIndex, NodeIndex, World};

/// The file of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LocalStudy {
    /// Which study the file is of: `na-local`.
    study: String,
    /// Symbols a second on the line.
    pub(super) baud: u64,
    /// How long a stored reply answers.
    pub(super) valid: Time,
    /// Time between two pings of one family.
    pub(super) period: Time,
    /// Tables and checks.
    #[serde(default)]
    shown: Shapes,
}

/// What happens while stored replies are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    Nothing,
    /// The far gateway ends without a word.
    Killed,
    /// The line's ends see that there is no line, until the time of the stored replies is over.
    Unplugged,
}

impl Mishap {
    /// All, with their names in tables.
    const ALL: [(Self, &'static str); 3] = [
        (Self::Nothing, "as it should be"),
        (Self::Killed, "far gateway killed"),
        (Self::Unplugged, "unplugged"),
    ];
}

/// Who is asked about what, and what is counted of it.
pub(super) struct Asking {
    pub(super) part: &'static str,
    /// Makes the world; what can fail in it, and who asks.
    pub(super) set_up: fn(&LocalStudy, &mut World) -> Result<SetOut, BuildError>,
    /// Counts since the beginning, by name.
    pub(super) seen: fn(&World, NodeIndex) -> Vec<(&'static str, u64)>,
}

/// The far gateway, the line, and the host that asks.
pub(super) struct SetOut {
    pub(super) far: NodeIndex,
    pub(super) line: LinkIndex,
    pub(super) host: NodeIndex,
}

const PINGS: Asking = Asking {
    part: "replies",
    set_up,
    seen,
};

pub(super) const SEED: u64 = 1;
pub(super) const STARTS: Duration = Duration::from_secs(1);
/// After this all exchanges of the first round are over: a ping of either family and its reply take
/// less than a quarter of it at 9600 baud.
const ROUND: Duration = Duration::from_secs(1);
const NEAR: [&str; 2] = ["10.1.0.2", "fd00:1::2"];
const FAR: [&str; 2] = ["10.2.0.2", "fd00:2::2"];

impl SetUp for LocalStudy {
    const PARTS: &'static [&'static str] = &["replies", "neighbours"];

    fn shown(&mut self) -> &mut Shapes {
        &mut self.shown
    }

    fn run(&self, asked: &Asked<'_>) -> Result<Measured, StudyError> {
        let mut measured = Measured::of("replies", Vec::new(), [SEED]);
        for asking in [PINGS, na_neighbours::QUESTIONS] {
            let name = format!("na-local, {}", asking.part);
            let worlds = run_all(asked, &name, &Mishap::ALL, |it| self.world(&asking, *it))?;
            measured.fold(worlds.iter().map(|world| world.1));
            let rows = worlds.into_iter().flat_map(|world| world.0);
            measured.parts.insert(asking.part, rows.collect());
        }
        Ok(measured)
    }
}

impl LocalStudy {
    /// What one world shows while the first answers are valid, and as long after all have expired;
    /// and its hash.
    fn world(
        &self,
        asking: &Asking,
        (mishap, name): (Mishap, &str),
    ) -> Result<([Row; 2], u64), BuildError> {
        let mut world = World::new(SEED);
        world.trace_paths();
        let SetOut { far, line, host } = (asking.set_up)(self, &mut world)?;
        // The first replies are stored, and the mishap, if any, happens.
        let stored = Instant::ZERO + STARTS + ROUND;
        let expired = stored + self.valid.0;
        match mishap {
            Mishap::Nothing => {}
            Mishap::Killed => world.plan(stored, Fault::Kill(far)),
            Mishap::Unplugged => {
                world.plan(stored, Fault::Unplug(line));
                world.plan(expired, Fault::Plug(line));
            }
        }
        // The first of them expires.
        let ends = Instant::ZERO + STARTS + self.valid.0;
        let seen = [stored, ends, expired, expired + self.valid.0].map(|moment| {
            world.run_until(moment);
            (asking.seen)(&world, host)
        });
        world.check();
        let row = |when: &str, [before, after]: [&Vec<(&'static str, u64)>; 2]| {
            let row = Row::default().with("line", name).with("when", when);
            let counts = before.iter().zip(after);
            counts.fold(row, |row, ((name, before), (_, after))| {
                row.with(*name, after - before)
            })
        };
        let rows = [
            row("valid", [&seen[0], &seen[1]]),
            row("expired", [&seen[2], &seen[3]]),
        ];
        Ok((rows, world.hash()))
    }
}

/// Hosts that ping each other in both families.
fn set_up(study: &LocalStudy, world: &mut World) -> Result<SetOut, BuildError> {
    let near = world.add_node("a", gateway(study, "a", "fd00:9::1")?);
    let far = world.add_node("b", gateway(study, "b", "fd00:9::2")?);
    let host = |world: &mut World, name: &str, addresses: [&str; 2]| {
        let addresses = addresses.map(address).to_vec();
        world.add_host(Host::new(&HostConfig::new(name, addresses, SEED)))
    };
    let left = host(world, "ha", NEAR);
    let right = host(world, "hb", FAR);
    let serial = LinkConfig::serial(study.baud);
    let lan = LinkConfig::frames(1_000_000_000, Duration::ZERO);
    let line = join(world, "line", &serial, [(near, 1), (far, 1)])?;
    join(world, "a lan", &lan, [(near, 0), (left, 0)])?;
    join(world, "b lan", &lan, [(far, 0), (right, 0)])?;
    for (index, family) in [4, 6].into_iter().enumerate() {
        let text = format!(
            "name = \"ping{family}\"\nkind = \"ping\"\nfamily = {family}\nfrom = \"ha\"\n\
             to = \"hb\"\nstart = \"{}\"\nperiod = \"{}\"\n",
            Time(STARTS),
            study.period,
        );
        let config = strait_scenario::traffic_of(&text)?;
        if let Some((one, other)) = world.hosts_mut(left, right) {
            let (from, to) = (address(NEAR[index]), address(FAR[index]));
            let ports = Ports::nth(index as u16);
            strait_hosts::install(&config, one, other, from, to, ports, SEED)?;
        }
    }
    Ok(SetOut {
        far,
        line,
        host: left,
    })
}

fn seen(world: &World, host: NodeIndex) -> Vec<(&'static str, u64)> {
    let answered = answered(world, Question::Echo);
    let logs = world.host(host).into_iter().flat_map(Host::logs);
    let replies = logs.map(|log| log.received.len() as u64).sum();
    vec![
        ("line_octets", line_octets(world)),
        ("answered", answered),
        ("replies", replies),
        ("served", answered + replies),
    ]
}

/// Questions that the near gateway answered.
pub(super) fn answered(world: &World, question: Question) -> u64 {
    let near = |(name, stats): (&str, &Stats)| {
        (name == "a").then(|| stats.local.answered(question).packets)
    };
    world.stats().find_map(near).unwrap_or(0)
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
) -> Result<Box<GatewayFactory>, ConfigError> {
    let text = format!(
        "name = \"{name}\"\n[host]\naddresses = [\"{address}/64\"]\n[answers]\necho = \"{}\"\n\
         [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = {}\n",
        study.valid, study.baud
    );
    factory(&text)
}

/// What makes a gateway of a node file's text.
pub(super) fn factory(text: &str) -> Result<Box<GatewayFactory>, ConfigError> {
    let config = NodeConfig::from_text("gateway", text)?;
    let factory = GatewayFactory::new(config)
        .map_err(|error| ConfigError::of_file("gateway", error.to_string()))?;
    Ok(Box::new(factory))
}

#[cfg(test)]
mod tests {
    use super::super::tests::found;

    #[test]
    fn the_study_holds_and_repeats() {
        let result = found("na-local");
        assert!(
            result.checks.iter().all(|check| check.ok == Some(true)),
            "{:?}",
            result.checks
        );
        assert_eq!(found("na-local").run_hash, result.run_hash);
    }
}
