//! Gateways whose work this kernel does: an Ethernet interface on the cell, the routes of the node
//! file, and its policy as nftables and `tc`.

use std::net::IpAddr;

use strait_core::prefix::Prefix;
use strait_core::units::BitRate;
use strait_live::error::Error;
use strait_live::kernel::namespace::Namespace;
use strait_node::NodeConfig;
use strait_node::config::RouteConfig;
use strait_qos::export::{Export, Queues, export};
use strait_scenario::Loaded;

use super::apply;
use crate::{LabError, Stage};

/// The interface of a gateway's one port.
pub(crate) const INTERFACE: &str = "air0";

/// Refuses a scenario in which this kernel can't be in place of the gateways.
///
/// # Errors
/// Why it can't.
pub fn stands_in(loaded: &Loaded) -> Result<(), LabError> {
    let wrong = |why: &str| {
        let message = format!("in place of gateways, this kernel can only {why}");
        Err(LabError::Scenario(message))
    };
    if !loaded.links.iter().all(|link| link.channel.kind.is_cell()) {
        return wrong("have interfaces on a [[medium]] of kind = \"cell\"");
    }
    for node in &loaded.nodes {
        if node.config.ports.len() != 1 {
            return wrong(&format!("be one with one [[port]], unlike `{}`", node.name));
        }
        if node.config.olsr.is_some() || node.config.babel.is_some() {
            return wrong(&format!(
                "have the routes of a file: `{}` finds its own",
                node.name
            ));
        }
    }
    if !loaded.scenario.faults.is_empty() {
        return wrong("run without [[fault]]");
    }
    Ok(())
}

/// A gateway's own addresses.
pub(crate) fn addresses(config: &NodeConfig) -> Vec<Prefix> {
    let sides = config.host.all();
    sides.flat_map(|side| side.addresses.clone()).collect()
}

/// Sets the routes and policies of all gateways, for interfaces that are there. What the kernel
/// does in its own way is told.
pub(crate) fn set(
    stage: &Stage<'_>,
    configs: &[NodeConfig],
    rate: BitRate,
) -> Result<Vec<String>, LabError> {
    let mut notes: Vec<String> = Vec::new();
    for (config, namespace) in configs.iter().zip(&stage.net.gateways) {
        lead(namespace, configs, config)?;
        for note in govern(namespace, config, rate)? {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    Ok(notes)
}

fn lead(
    namespace: &Namespace,
    configs: &[NodeConfig],
    config: &NodeConfig,
) -> Result<(), LabError> {
    let mut netlink = namespace.netlink()?;
    let index = netlink.link(INTERFACE)?.index;
    for route in &config.routes {
        let Some(gateway) = next(configs, config, route) else {
            let message = format!(
                "`{}`: the way to {} leads to no gateway with an address of its family",
                config.name, route.prefix
            );
            return Err(LabError::Scenario(message));
        };
        let Prefix { address, length } = route.prefix.network();
        netlink.add_route(address, length, Some(gateway), Some(index))?;
    }
    Ok(())
}

/// The address of the gateway that a route leads to.
fn next(configs: &[NodeConfig], config: &NodeConfig, route: &RouteConfig) -> Option<IpAddr> {
    let lone = || match &config.ports.first()?.neighbours[..] {
        [one] => Some(&one.name),
        _ => None,
    };
    let name = route.via.as_ref().or_else(lone)?;
    let via = configs.iter().find(|it| it.name == *name)?;
    let mut own = addresses(via).into_iter().map(|own| own.address);
    own.find(|own| own.is_ipv4() == route.prefix.address.is_ipv4())
}

fn govern(
    namespace: &Namespace,
    config: &NodeConfig,
    rate: BitRate,
) -> Result<Vec<String>, LabError> {
    let exported = |queues| -> Result<Export, LabError> {
        export(&config.policy, INTERFACE, Some(rate), queues)
            .map_err(|error| LabError::Scenario(format!("`{}`: {error}", config.name)))
    };
    let mut first: Option<Error> = None;
    let (mut before, mut lacks_queues) = (String::new(), false);
    for queues in [Queues::Near, Queues::PlainBands, Queues::Plain] {
        let mut made = exported(queues)?;
        if made.tc == before {
            continue;
        }
        match apply(&made, namespace) {
            Ok(_) => {
                let had_bands = before.contains(PRIO) && !made.tc.contains(PRIO);
                let lacks = [
                    (lacks_queues, "no SFQ or FQ-CoDel: each class is a FIFO"),
                    (had_bands, "no PRIO: bands are priorities of HTB"),
                ];
                let lacks = lacks.iter().filter(|(lacks, _)| *lacks);
                made.notes
                    .extend(lacks.map(|(_, what)| format!("this kernel has {what}")));
                return Ok(made.notes);
            }
            Err(error) => first = first.or(Some(error)),
        }
        lacks_queues |= made.tc.contains(" sfq ") || made.tc.contains(" fq_codel ");
        before = made.tc;
    }
    let nothing = || LabError::Scenario(format!("`{}`: no queues", config.name));
    Err(first.map_or_else(nothing, LabError::from))
}

/// By which a text for `tc` has strict bands.
const PRIO: &str = " prio bands ";
