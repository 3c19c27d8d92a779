//! Part of the study `na-local`: questions for neighbours and routers on an Ethernet.
//!
//! A host behind one of two gateways on a serial line asks each [`LocalStudy::period`] who has the
//! addresses of a host on the other side, and which routers there are. Gateways answer for hosts
//! that they have heard for no longer than [`LocalStudy::valid`] ago. The same three worlds.

use strait_channel::LinkConfig;
use strait_core::hash::RunHash;
use strait_core::local::Question;
use strait_core::{Duration, Instant};
use strait_hosts::{Host, HostConfig};
use strait_node::{GatewayFactory, NodeConfig, Prefix, config_text};
use strait_report::table::{Check, Column, Table};

use super::na_local::{LocalStudy, Mishap, ROUND, SEED, STARTS, address, join, line_octets};
use crate::build::BuildError;
use crate::segment::{Seat, Segment, Survey};
use crate::world::{Fault, NodeIndex, World};

/// The questions, in the order of the columns.
const QUESTIONS: [Question; 3] = [Question::Arp, Question::Neighbour, Question::Router];

/// What was seen in a window of time.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Octets that both gateways sent on the line.
    line_octets: u64,
    /// Questions that the near gateway answered, by kind.
    answered: [u64; 3],
}

impl Seen {
    fn since(self, before: Self) -> Self {
        let mut answered = self.answered;
        for (count, before) in answered.iter_mut().zip(before.answered) {
            *count -= before;
        }
        Self {
            line_octets: self.line_octets - before.line_octets,
            answered,
        }
    }

    /// Answered questions for a host.
    const fn hosts(self) -> u64 {
        self.answered[0] + self.answered[1]
    }
}

/// Runs the three worlds.
///
/// # Errors
/// A value that makes no configuration.
pub(super) fn run(
    study: &LocalStudy,
    hash: &mut RunHash,
) -> Result<(Table, Vec<Check>), BuildError> {
    let heads = ["the line", "a host's word", "octets on it"].into_iter();
    let heads = heads.map(str::to_owned);
    let kinds = QUESTIONS.map(|question| format!("{} answered", question.name()));
    let heads = heads.chain(kinds).map(|name| Column::new(&name, ""));
    let mut table = Table::new("na-local-neighbours", heads.collect());
    let mut checks = Vec::new();
    for (mishap, name) in Mishap::ALL {
        let (valid, after) = world(study, mishap, hash)?;
        for (when, seen) in [("valid", valid), ("expired", after)] {
            let counts = [seen.line_octets].into_iter().chain(seen.answered);
            let row = [name.into(), when.into()].into_iter();
            table.push(
                row.chain(counts.map(|count| (count as f64).into()))
                    .collect(),
            );
        }
        checks.extend(judge(mishap, valid, after));
    }
    Ok((table, checks))
}

/// What a run must show.
fn judge(mishap: Mishap, valid: Seen, after: Seen) -> Vec<Check> {
    let none = |id: &str, count: u64| Check::range(id, Some(count as f64), "", None, Some(0.0));
    let some = |id: &str, count: u64| Check::range(id, Some(count as f64), "", Some(1.0), None);
    match mishap {
        Mishap::Nothing => vec![
            none("na-local-neighbour-octets", valid.line_octets),
            some("na-local-neighbour-arp", valid.answered[0]),
            some("na-local-neighbour-nd", valid.answered[1]),
            some("na-local-neighbour-router", valid.answered[2]),
            some("na-local-neighbour-asks-again", after.line_octets),
        ],
        Mishap::Killed => vec![
            some("na-local-neighbour-hides", valid.hosts()),
            none("na-local-neighbour-expired", after.hosts()),
        ],
        Mishap::Unplugged => vec![
            none("na-local-neighbour-down", valid.hosts()),
            none("na-local-router-down", valid.answered[2]),
            some("na-local-neighbour-returns", after.hosts()),
            some("na-local-router-returns", after.answered[2]),
        ],
    }
}

/// What one world shows while the first word of the far host counts, and after it.
fn world(
    study: &LocalStudy,
    mishap: Mishap,
    hash: &mut RunHash,
) -> Result<(Seen, Seen), BuildError> {
    let mut world = World::new(SEED);
    world.trace_paths();
    let near = world.add_node("a", gateway(study, 1, 2)?);
    let far = world.add_node("b", gateway(study, 2, 1)?);
    let serial = LinkConfig::serial(study.baud);
    let line = join(&mut world, "line", &serial, [(near, 1), (far, 1)])?;
    let targets = seat(2).addresses.iter().map(|own| own.address).collect();
    let survey = Survey {
        targets,
        routers: true,
        next: Instant::ZERO + STARTS,
        period: study.period.0,
    };
    ethernet(&mut world, near, 1, Some(survey))?;
    ethernet(&mut world, far, 2, None)?;
    let stored = Instant::ZERO + STARTS + ROUND;
    match mishap {
        Mishap::Nothing => {}
        Mishap::Killed => world.plan(stored, Fault::Kill(far)),
        Mishap::Unplugged => {
            world.plan(stored, Fault::Unplug(line));
            world.plan(stored + study.valid.0, Fault::Plug(line));
        }
    }
    let mut at = |moment: Instant| {
        world.run_until(moment);
        seen(&world)
    };
    let stored_seen = at(stored);
    let ends = at(Instant::ZERO + STARTS + study.valid.0);
    let expired = at(stored + study.valid.0);
    let end = at(stored + study.valid.0 * 2);
    world.check();
    hash.fold(world.hash());
    Ok((ends.since(stored_seen), end.since(expired)))
}

fn seen(world: &World) -> Seen {
    let mut stats = world.stats();
    let near = stats.find_map(|(name, stats)| (name == "a").then_some(stats));
    let count = |question| near.map_or(0, |stats| stats.local.answered(question).packets);
    Seen {
        line_octets: line_octets(world),
        answered: QUESTIONS.map(count),
    }
}

/// A host's place on the Ethernet of one side.
fn seat(side: u8) -> Seat {
    let prefix = |text: String| -> Prefix {
        text.parse()
            .unwrap_or_else(|_| unreachable!("a prefix: {text}"))
    };
    Seat {
        addresses: vec![
            prefix(format!("10.{side}.0.2/8")),
            prefix(format!("fd00:{side}::2/64")),
        ],
        routers: vec![address(&format!("fd00:{side}::1"))],
    }
}

/// A host behind a gateway, on an Ethernet.
fn ethernet(
    world: &mut World,
    gateway: NodeIndex,
    side: u8,
    survey: Option<Survey>,
) -> Result<(), BuildError> {
    let seat = seat(side);
    let addresses = seat.addresses.iter().map(|own| own.address).collect();
    let name = format!("h{side}");
    let host = world.add_host(Host::new(&HostConfig::new(&name, addresses, SEED)));
    let mut segment = Segment::new(vec![seat], 1000);
    if let Some(survey) = survey {
        segment.survey(survey);
    }
    let segment = world.add_segment(&format!("lan{side}"), segment);
    let lan = LinkConfig {
        frame_octets_max: Some(1514),
        ..LinkConfig::frames(1_000_000_000, Duration::ZERO)
    };
    join(
        world,
        &format!("lan{side}"),
        &lan,
        [(gateway, 0), (segment, 0)],
    )?;
    join(
        world,
        &format!("cable{side}"),
        &lan,
        [(segment, 1), (host, 0)],
    )?;
    Ok(())
}

fn gateway(study: &LocalStudy, side: u8, other: u8) -> Result<Box<GatewayFactory>, BuildError> {
    let text = format!(
        "name = \"{side}\"\n[host]\nkind = \"tap\"\n\
         addresses = [\"10.{side}.0.1/8\", \"fd00:{side}::1/64\"]\n\
         advertise = [\"fd00:{side}::/64\"]\n[answers]\nneighbours = \"{}\"\n\
         [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = {}\n\
         [[route]]\nprefix = \"10.{other}.0.0/16\"\nport = \"line\"\n\
         [[route]]\nprefix = \"fd00:{other}::/64\"\nport = \"line\"\n",
        study.valid, study.baud
    );
    let config: NodeConfig = config_text::parse("gateway", &text)?;
    let factory = GatewayFactory::new(config)
        .map_err(|error| config_text::ConfigError::of_file("gateway", error.to_string()))?;
    Ok(Box::new(factory))
}
