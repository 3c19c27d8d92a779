//! Part of the study `na-local`: questions for neighbours and routers on an Ethernet.
//!
//! A host behind one of two gateways on a serial line asks each [`LocalStudy::period`] who has the
//! addresses of a host on the other side, and which routers there are. Gateways answer for hosts
//! that they have heard for no longer than [`LocalStudy::valid`] ago.

use strait_channel::LinkConfig;
use strait_core::local::Question;
use strait_core::{Duration, Instant};
use strait_hosts::{Host, HostConfig};
use strait_node::config_text::ConfigError;
use strait_node::{GatewayFactory, Prefix};

use super::na_local::{
    Asking, LocalStudy, SEED, STARTS, SetOut, address, answered, factory, join, line_octets,
};
use crate::build::BuildError;
use crate::segment::{Seat, Segment, Survey};
use crate::world::{NodeIndex, World};

/// Questions of a host on an Ethernet.
pub(super) const QUESTIONS: Asking = Asking {
    part: "neighbours",
    set_up,
    seen,
};

fn set_up(study: &LocalStudy, world: &mut World) -> Result<SetOut, BuildError> {
    let near = world.add_node("a", gateway(study, 1, 2)?);
    let far = world.add_node("b", gateway(study, 2, 1)?);
    let serial = LinkConfig::serial(study.baud);
    let line = join(world, "line", &serial, [(near, 1), (far, 1)])?;
    let targets = seat(2).addresses.iter().map(|own| own.address).collect();
    let survey = Survey {
        targets,
        routers: true,
        next: Instant::ZERO + STARTS,
        period: study.period.0,
    };
    let host = ethernet(world, near, 1, Some(survey))?;
    ethernet(world, far, 2, None)?;
    Ok(SetOut { far, line, host })
}

fn seen(world: &World, _: NodeIndex) -> Vec<(&'static str, u64)> {
    let kinds = [Question::Arp, Question::Neighbour, Question::Router];
    let [arp, neighbours, routers] = kinds.map(|question| answered(world, question));
    vec![
        ("line_octets", line_octets(world)),
        ("arp", arp),
        ("neighbours", neighbours),
        ("routers", routers),
        ("hosts", arp + neighbours),
    ]
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
) -> Result<NodeIndex, BuildError> {
    let seat = seat(side);
    let addresses = seat.addresses.iter().map(|own| own.address).collect();
    let name = format!("h{side}");
    let host = world.add_host(Host::new(&HostConfig::new(&name, addresses, SEED)));
    let mut segment = Segment::new(vec![seat], 1000);
    if let Some(survey) = survey {
        segment.survey(survey);
    }
    let segment = world.add_segment(&format!("lan{side}"), segment);
    let lan = LinkConfig::frames(1_000_000_000, Duration::ZERO)
        .with(|it| it.frame_octets_max = Some(1514));
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
    Ok(host)
}

fn gateway(study: &LocalStudy, side: u8, other: u8) -> Result<Box<GatewayFactory>, ConfigError> {
    let text = format!(
        "name = \"{side}\"\n[host]\nkind = \"tap\"\n\
         addresses = [\"10.{side}.0.1/8\", \"fd00:{side}::1/64\"]\n\
         advertise = [\"fd00:{side}::/64\"]\n[answers]\nneighbours = \"{}\"\n\
         [[port]]\nname = \"line\"\nkind = \"serial\"\nbaud = {}\n\
         [[route]]\nprefix = \"10.{other}.0.0/16\"\nport = \"line\"\n\
         [[route]]\nprefix = \"fd00:{other}::/64\"\nport = \"line\"\n",
        study.valid, study.baud
    );
    factory(&text)
}
