//! What each of several flows gets of a line under a policy.

use serde::{Deserialize, Serialize};
use strait_channel::LinkConfig;
use strait_core::units::{BitRate, Octets, Time};
use strait_core::{Duration, Instant, NeighbourId, PortId};
use strait_hosts::{Host, HostConfig};
use strait_link::{SegmentCheck, frame_overhead_octets};
use strait_node::config_text::ConfigError;
use strait_node::{GatewayFactory, NodeConfig};
use strait_qos::{Dscp, PolicyConfig};
use strait_traffic::{FlowLog, Ports, Side};

use super::{Asked, run_all};
use crate::build::BuildError;
use crate::world::{Attach, NodeIndex, World};

/// Flows of UDP that pass one gateway with a policy, and then a line.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareCase {
    /// Its name in tables.
    pub name: String,
    /// Who goes first.
    pub policy: PolicyConfig,
    /// What the line carries.
    pub line: BitRate,
    /// Who sends.
    pub flows: Vec<ShareFlow>,
    /// How long the flows run before they are counted.
    pub warm_up: Duration,
    /// How long they are counted.
    pub window: Duration,
}

/// A flow of packets of one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareFlow {
    /// Destination port, by which rules can know it.
    pub port: u16,
    /// Its code point.
    #[serde(default)]
    pub dscp: Dscp,
    /// Octets of each packet, as the discipline counts them.
    pub octets: Octets,
    /// Mean gap between packets; always ready if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Time>,
    /// Gaps are exponentially distributed, not all alike.
    #[serde(default)]
    pub poisson: bool,
    /// What another measured, in bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<BitRate>,
}

/// What came of one flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// Packets that were sent while flows were counted.
    pub sent: u64,
    /// Bits a second, of octets as the discipline counts them.
    pub rate_bit_s: f64,
    /// From sender to receiver, in s, of each packet that came while flows were counted.
    pub delays_s: Vec<f64>,
}

impl Share {
    /// Share of the packets that didn't come; 0 if more came than were sent, as what waited before.
    #[must_use]
    pub fn loss(&self) -> f64 {
        1.0 - (self.delays_s.len() as f64 / self.sent.max(1) as f64).min(1.0)
    }
}

/// How a case went.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shared {
    /// Of each flow.
    pub shares: Vec<Share>,
    /// Packets without a fate: a bug unless 0.
    pub unexplained: u64,
    /// The run hash.
    pub hash: u64,
}

/// Octets of IPv4 and UDP.
const HEADERS: u64 = 28;
/// A flow that is always ready offers so many times the line.
const PRESSURE: u64 = 2;
const LEFT: [u8; 4] = [10, 0, 0, 1];
const RIGHT: [u8; 4] = [10, 0, 9, 1];
const SEED: u64 = 1;

/// The same, and before it what this kernel's queues make of them, one case after the other.
pub(super) fn both(
    study: &str,
    cases: &[ShareCase],
    asked: &Asked<'_>,
) -> Result<(Vec<Shared>, Vec<Vec<Share>>), BuildError> {
    // Senders that wait for a processor would be part of what is measured.
    let live = if asked.live {
        asked.outside.shares(study, cases)
    } else {
        Vec::new()
    };
    Ok((run_all(asked, study, cases, run_once)?, live))
}

pub(super) fn run_once(case: &ShareCase) -> Result<Shared, BuildError> {
    let mut world = World::new(SEED);
    world.trace_paths();
    let [left, right] = build(case, &mut world)?;
    world.start();
    let from = Instant::ZERO + case.warm_up;
    let until = from + case.window;
    world.run_until(until);
    world.check();
    let log = |node: NodeIndex, index: usize, side: Side| -> Option<&FlowLog> {
        let name = flow_name(index);
        let mut logs = world.host(node).into_iter().flat_map(Host::logs);
        logs.find(|log| log.side == side && log.traffic == name)
    };
    let shares = case.flows.iter().enumerate().map(|(index, flow)| {
        let logs = log(left, index, Side::From).zip(log(right, index, Side::To));
        logs.map_or_else(Share::default, |(sent, received)| {
            share(flow, sent, received, [from, until])
        })
    });
    Ok(Shared {
        shares: shares.collect(),
        unexplained: world.unexplained(),
        hash: world.hash(),
    })
}

fn share(flow: &ShareFlow, sent: &FlowLog, received: &FlowLog, window: [Instant; 2]) -> Share {
    let [from, until] = window.map(Instant::as_nanos);
    let at = |at_ns: u64| (from..until).contains(&at_ns);
    let counted = received.received.iter();
    let counted = counted.filter(|mark| at(mark.at_ns));
    let delays_s = counted.filter_map(|mark| {
        // Senders number from 0 without a gap.
        let sent = sent.sent.get(usize::try_from(mark.sequence).ok()?)?;
        Some((mark.at_ns - sent.at_ns) as f64 / 1e9)
    });
    let delays_s: Vec<f64> = delays_s.collect();
    let bits = delays_s.len() as f64 * flow.octets.0 as f64 * 8.0;
    Share {
        sent: sent.sent.iter().filter(|mark| at(mark.at_ns)).count() as u64,
        rate_bit_s: bits / ((until - from) as f64 / 1e9),
        delays_s,
    }
}

fn flow_name(index: usize) -> String {
    format!("flow{index}")
}

/// Host, gateway, line, gateway, host.
fn build(case: &ShareCase, world: &mut World) -> Result<[NodeIndex; 2], BuildError> {
    let host = |name: &str, address: [u8; 4]| {
        Host::new(&HostConfig {
            mtu: 9000,
            ..HostConfig::new(name, vec![address.into()], SEED)
        })
    };
    let left = world.add_host(host("left", LEFT));
    let near = world.add_node("near", gateway(case.policy.clone(), ["line", "host"])?);
    let far = world.add_node("far", gateway(PolicyConfig::default(), ["host", "line"])?);
    let right = world.add_host(host("right", RIGHT));
    let end = |node: NodeIndex, port: u8| Attach {
        node,
        port: PortId(port),
        neighbour: NeighbourId::PEER,
    };
    let lan = LinkConfig::frames(1_000_000_000, Duration::ZERO);
    let line = LinkConfig::frames(case.line.0, Duration::ZERO);
    for (name, link, ends) in [
        ("lan", &lan, [end(left, 0), end(near, 0)]),
        ("line", &line, [end(near, 1), end(far, 1)]),
        ("far lan", &lan, [end(far, 0), end(right, 0)]),
    ] {
        let joined = world.join_at(name, link, ends);
        joined.map_err(|error| BuildError::Link {
            name: name.into(),
            error,
        })?;
    }
    for (index, flow) in case.flows.iter().enumerate() {
        install(case, index, flow, world, [left, right])?;
    }
    Ok([left, right])
}

/// `ports` lead to the right and to the left.
fn gateway(policy: PolicyConfig, ports: [&str; 2]) -> Result<Box<GatewayFactory>, BuildError> {
    let text = format!(
        "name = \"g\"\n[host]\nmtu = 1500\n[policy]\npreset = \"default\"\n\
         [[port]]\nname = \"line\"\nkind = \"udp\"\nframe = 1600\n\
         [[route]]\nprefix = \"10.0.9.0/24\"\nport = \"{}\"\n\
         [[route]]\nprefix = \"10.0.0.0/24\"\nport = \"{}\"\n",
        ports[0], ports[1]
    );
    let mut config = NodeConfig::from_text("gateway", &text)?;
    config.policy = policy;
    let factory = GatewayFactory::new(config)
        .map_err(|error| ConfigError::of_file("gateway", error.to_string()))?;
    Ok(Box::new(factory))
}

fn install(
    case: &ShareCase,
    index: usize,
    flow: &ShareFlow,
    world: &mut World,
    [left, right]: [NodeIndex; 2],
) -> Result<(), BuildError> {
    // The gateway's link adds its header and check, which the discipline counts too.
    let overhead = frame_overhead_octets(SegmentCheck::Long) as u64 - 1;
    let payload = flow.octets.0.saturating_sub(overhead + HEADERS).max(8);
    let payload_bits = payload as f64 * 8.0;
    let rate_bit_s = match flow.gap {
        Some(gap) => payload_bits / gap.0.as_secs_f64().max(1e-9),
        None => (case.line.0 * PRESSURE) as f64,
    };
    let text = format!(
        "name = \"{}\"\nkind = \"udp\"\nfrom = \"left\"\nto = \"right\"\nfamily = 4\n\
         payload = {payload}\nrate = \"{} bit/s\"\npoisson = {}\ndscp = {}\n",
        flow_name(index),
        rate_bit_s.max(1.0) as u64,
        flow.poisson,
        flow.dscp.number(),
    );
    let config = strait_scenario::traffic_of(&text)?;
    if let Some((near, far)) = world.hosts_mut(left, right) {
        let ports = Ports {
            to: flow.port,
            ..Ports::nth(index as u16)
        };
        let (from, to) = (LEFT.into(), RIGHT.into());
        strait_hosts::install(&config, near, far, from, to, ports, SEED)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16, octets: u64, gap_ms: Option<u64>) -> ShareFlow {
        ShareFlow {
            port,
            dscp: Dscp::DF,
            octets: Octets(octets),
            gap: gap_ms.map(|gap| Time(Duration::from_millis(gap))),
            poisson: false,
            reference: None,
        }
    }

    #[test]
    fn a_line_is_full_and_a_slow_flow_gets_what_it_asks_for() {
        let policy = "default = \"a\"\n[[class]]\nname = \"a\"\nweight = 1\npackets = 50\n\
                      [[class]]\nname = \"b\"\nband = 0\n\
                      [[match]]\nclass = \"b\"\ndestination_port = 5002\n";
        let case = ShareCase {
            name: "two".into(),
            policy: strait_node::config_text::parse("policy", policy).unwrap(),
            line: BitRate(1_000_000),
            flows: vec![flow(5001, 1000, None), flow(5002, 200, Some(16))],
            warm_up: Duration::from_secs(1),
            window: Duration::from_secs(4),
        };
        let runs = [run_once(&case).unwrap(), run_once(&case).unwrap()];
        assert_eq!(runs[0], runs[1]);
        let [a, b] = &runs[0].shares[..] else {
            panic!("two flows");
        };
        assert!(
            (b.rate_bit_s - 100_000.0).abs() < 1000.0,
            "{}",
            b.rate_bit_s
        );
        assert!((a.rate_bit_s + b.rate_bit_s - 1e6).abs() < 5000.0);
        assert_eq!(runs[0].unexplained, 0);
        // A packet of the other class at most is before it.
        let longest = b.delays_s.iter().copied().fold(0.0, f64::max);
        assert!(longest < 0.0105 && longest > 0.0016, "{longest}");
    }
}
