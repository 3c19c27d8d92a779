//! What the form of a scenario file can't express.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use strait_channel::LinkKind;
use strait_channel::hf::KeyedBy;
use strait_core::prefix::Prefix;
use strait_core::time::Duration;
use strait_node::NodeConfig;
use strait_node::config::{HostConfig, HostKind, Plug, PortConfig};
use strait_node::config_text::{self, ConfigError};
use strait_traffic::mgen::Script;
use strait_traffic::{Family, Traffic, metrics_of};
use toml::Table;

use crate::echo::echo_service;
use crate::load::Source;
use crate::mail::post;
use crate::sweep::Axis;
use crate::topology::Topology;
use crate::{
    DNS_METRICS, FAR_METRICS, FaultKind, Link, LinkEnd, Loaded, LoadedNode, OLSR_METRICS, Scenario,
    Variant,
};

type Checked = Result<(), ConfigError>;

/// Checks of the scenario's own text, before any file it names is read.
pub(super) fn names(source: &Source<'_>, scenario: &Scenario) -> Checked {
    word(source, "name", &scenario.name)?;
    if scenario.duration.0.is_zero() {
        return Err(source.error("duration", "must be above 0 s"));
    }
    if !(1..=Scenario::RUNS_MAX).contains(&scenario.runs) {
        let message = format!("must be 1 to {}", Scenario::RUNS_MAX);
        return Err(source.error("runs", &message));
    }
    let members = member_names(scenario);
    if members.len() > Scenario::MEMBERS_MAX {
        let message = format!(
            "more than {} nodes, hosts and routers",
            Scenario::MEMBERS_MAX
        );
        return Err(source.error("node", &message));
    }
    unique(source, &members)?;
    let traffic = indexed(
        "traffic",
        scenario.traffic.iter().map(|traffic| &traffic.name),
    );
    unique(source, &traffic)?;
    let variants = indexed(
        "variant",
        scenario.variants.iter().map(|variant| &variant.name),
    );
    unique(source, &variants)?;
    for (index, variant) in scenario.variants.iter().enumerate() {
        if variant.name == Scenario::BASE {
            let message = "is the name of the scenario itself: choose another";
            return Err(source.error(&format!("variant.{index}.name"), message));
        }
    }
    daemons(source, scenario)?;
    hosts(source, scenario)
}

fn daemons(source: &Source<'_>, scenario: &Scenario) -> Checked {
    for (index, daemon) in scenario.daemons.iter().enumerate() {
        let nodes: Vec<&str> = scenario.nodes.iter().map(|node| &*node.name).collect();
        if !nodes.contains(&daemon.node.as_str()) {
            let message = format!("is no gateway (there are `{}`)", nodes.join("`, `"));
            return Err(source.error(&format!("daemon.{index}.node"), &message));
        }
        if daemon.command.is_empty() {
            let place = format!("daemon.{index}.command");
            return Err(source.error(&place, "names no program"));
        }
    }
    Ok(())
}

fn member_names(scenario: &Scenario) -> Vec<(String, &str)> {
    let nodes = indexed("node", scenario.nodes.iter().map(|node| &node.name));
    let hosts = indexed("host", scenario.hosts.iter().map(|host| &host.name));
    let routers = indexed("router", scenario.routers.iter().map(|router| &router.name));
    [nodes, hosts, routers].concat()
}

/// The names of an array's elements, with their paths.
fn indexed<'a>(array: &str, names: impl Iterator<Item = &'a String>) -> Vec<(String, &'a str)> {
    let with_path =
        |(index, name): (usize, &'a String)| (format!("{array}.{index}.name"), name.as_str());
    names.enumerate().map(with_path).collect()
}

fn unique(source: &Source<'_>, names: &[(String, &str)]) -> Checked {
    let mut seen = BTreeSet::new();
    for (path, name) in names {
        word(source, path, name)?;
        if !seen.insert(name) {
            return Err(source.error(path, &format!("`{name}` is taken: choose another")));
        }
    }
    Ok(())
}

/// Names stand in metrics, file names and network namespaces.
fn word(source: &Source<'_>, path: &str, name: &str) -> Checked {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let sized = (1..=32).contains(&name.len());
    if sized && name.chars().all(allowed) && !name.starts_with('-') {
        return Ok(());
    }
    let message = format!("`{name}` is no name: use 1 to 32 letters, digits, `-` and `_`");
    Err(source.error(path, &message))
}

fn hosts(source: &Source<'_>, scenario: &Scenario) -> Checked {
    let mut owners = BTreeMap::new();
    for (index, host) in scenario.hosts.iter().enumerate() {
        let path = |key: &str| format!("host.{index}.{key}");
        if host.addresses.is_empty() {
            return Err(source.error(&path("addresses"), "a host needs an address"));
        }
        for address in &host.addresses {
            let same_family =
                |other: &&Prefix| other.address.is_ipv4() == address.address.is_ipv4();
            if host.addresses.iter().filter(same_family).count() > 1 {
                let message = "has two addresses of one family: one is enough";
                return Err(source.error(&path("addresses"), message));
            }
            if let Some(owner) = owners.insert(address.address, &host.name) {
                let message = format!("{} is the address of `{owner}`", address.address);
                return Err(source.error(&path("addresses"), &message));
            }
        }
        for gateway in &host.gateway_addresses {
            let near = |address: &Prefix| {
                address.length == gateway.length && address.contains(gateway.address)
            };
            if !host.addresses.iter().any(near) {
                let message = format!("no address of `{}` is in the network {gateway}", host.name);
                return Err(source.error(&path("gateway_addresses"), &message));
            }
        }
    }
    Ok(())
}

/// Checks of how the parts fit each other.
pub(super) fn references(source: &Source<'_>, loaded: &Loaded) -> Checked {
    behind(source, loaded)?;
    links(source, loaded)?;
    crate::over::check(source, loaded)?;
    crate::stations::check(source, loaded)?;
    attachments(source, loaded)?;
    traffic(source, &loaded.scenario)?;
    services(source, loaded)?;
    mail(source, loaded)?;
    vias(source, loaded)?;
    ways(source, loaded)?;
    faults(source, loaded)?;
    variants(source, loaded)?;
    expectations(source, loaded)
}

fn behind(source: &Source<'_>, loaded: &Loaded) -> Checked {
    let scenario = &loaded.scenario;
    let routers = scenario.routers.iter().map(|router| router.name.as_str());
    let nodes = loaded.nodes.iter().map(|node| node.name.as_str());
    let valid: Vec<&str> = nodes.chain(routers).collect();
    for (index, host) in scenario.hosts.iter().enumerate() {
        let Some(place) = host.place() else { continue };
        let path = format!("host.{index}.behind");
        if !valid.contains(&place.node.as_str()) {
            return Err(source.unknown(&path, "node", &place.node, &valid));
        }
        let Some(side) = &place.port else { continue };
        let node = loaded.nodes.iter().find(|node| node.name == place.node);
        let sides = node.into_iter().flat_map(|node| node.config.host.all());
        let sides: Vec<&str> = sides.map(HostConfig::name).collect();
        if !sides.contains(&side.as_str()) {
            return Err(source.unknown(&path, "host side", side, &sides));
        }
    }
    Ok(())
}

fn links(source: &Source<'_>, loaded: &Loaded) -> Checked {
    let mut names = BTreeSet::new();
    let mut used: BTreeMap<&LinkEnd, Uses> = BTreeMap::new();
    for (index, link) in loaded.links.iter().enumerate() {
        for end in 0..2 {
            let path = link.place_of_end(index, end);
            link_end(source, loaded, link, end, &path)?;
            let port = link.ends[end].port.as_ref();
            if let Some(port) = port.filter(|_| !link.ends[end].is_host()) {
                let used = used.entry(&link.ends[end]).or_default();
                used.insert(link.medium.as_ref().map_or(Err(index), |it| Ok(it.index)));
                shared_port(source, loaded, link, end, port, used, &path)?;
            }
        }
        if link.ends[0].node == link.ends[1].node {
            let message = "a link has to lead to another node";
            return Err(source.error(&link.place_of_end(index, 1), message));
        }
        let path = format!("{}.name", link.place(index));
        word(
            source,
            &path,
            link.medium.as_ref().map_or(&link.name, |it| &it.name),
        )?;
        let taken = loaded
            .scenario
            .traffic
            .iter()
            .any(|traffic| traffic.name == link.name);
        if taken || !names.insert(&link.name) {
            let message = format!(
                "`{}` is the name of another link or traffic: give it a `name`",
                link.name
            );
            return Err(source.error(&path, &message));
        }
    }
    Ok(())
}

fn link_end(source: &Source<'_>, loaded: &Loaded, link: &Link, end: usize, path: &str) -> Checked {
    let end = &link.ends[end];
    let node = loaded.nodes.iter().find(|node| node.name == end.node);
    match (node, &end.port) {
        (Some(node), Some(_)) if end.is_host() => host_end(source, link, node, path),
        (Some(node), Some(port)) => {
            let ports = &node.config.ports;
            let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
            let Some(facts) = ports.iter().find(|facts| facts.name == *port) else {
                let what = format!("port of `{}` has the name", node.name);
                return Err(no_port(source, path, &what, port, &names));
            };
            fits(source, link, &node.name, facts, path)
        }
        (Some(node), None) => {
            let example = node
                .config
                .ports
                .first()
                .map_or("line", |port| port.name.as_str());
            let message = format!(
                "`{0}` is a gateway: name its port, as in `{0}.{example}`",
                end.node
            );
            Err(source.error(path, &message))
        }
        (None, port) => {
            let members = member_names(&loaded.scenario);
            let valid: Vec<&str> = members.iter().map(|(_, name)| *name).collect();
            match port {
                _ if !valid.contains(&end.node.as_str()) => {
                    Err(source.unknown(path, "node", &end.node, &valid))
                }
                Some(_) => {
                    let message = format!("`{}` is no gateway: name it without a port", end.node);
                    Err(source.error(path, &message))
                }
                None => Ok(()),
            }
        }
    }
}

/// A link of a gateway's machine carries packets as they are.
fn host_end(source: &Source<'_>, link: &Link, node: &LoadedNode, path: &str) -> Checked {
    let config = &node.config;
    let tun = config.host.all().any(|side| side.kind == HostKind::Tun);
    let routed = tun && !config.has_several_tuns();
    if routed && link.channel.kind == LinkKind::Frames && !link.is_carried() {
        return Ok(());
    }
    let message = format!(
        "`{}.{}` is the machine of the gateway: it takes links of kind \"frames\", and has \
         routes if one host side of the gateway is of kind \"tun\"",
        node.name,
        LinkEnd::HOST
    );
    Err(source.error(path, &message))
}

fn no_port(source: &Source<'_>, path: &str, what: &str, port: &str, names: &[&str]) -> ConfigError {
    let near = config_text::nearest(port, names);
    let question = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let message = format!("no {what} `{port}`{question} (ports: {})", names.join(", "));
    let mut error = source.error(path, &message);
    error.nearest = near.map(String::from);
    error
}

/// A port and the medium it is plugged into have to be of one kind and speed.
fn fits(source: &Source<'_>, link: &Link, node: &str, port: &PortConfig, path: &str) -> Checked {
    if link.stations.is_some() {
        return Ok(());
    }
    let port_name = format!("port `{node}.{}`", port.name);
    let fits = match &link.channel.kind {
        LinkKind::Serial(_) => port.kind.plug() == Plug::Octets,
        LinkKind::Frames | LinkKind::Cell(_) => port.kind.plug() == Plug::Frames,
        LinkKind::Hf(_) => keyed_right(source, link, port, &port_name, path)?,
    };
    if !fits {
        let mine = port.kind_word();
        let theirs = link.channel.kind.name();
        let message = format!("{port_name} is of kind `{mine}`, the link of kind `{theirs}`");
        return Err(source.error(path, &message));
    }
    if let (Some(mine), Some(theirs)) = (port.line().and_then(|it| it.baud), link.channel.baud)
        && mine != theirs
    {
        let message = format!("{port_name} has {mine} baud, the link {theirs}");
        return Err(source.error(path, &message));
    }
    let mine = port.framing();
    match link.channel.kind.framing() {
        Some(theirs) if theirs != mine => {
            let message = format!("{port_name} has the framing {mine}, the link {theirs}");
            Err(source.error(path, &message))
        }
        _ => Ok(()),
    }
}

/// Whether a port has octets for a radio. A serial one can't say when to key it.
fn keyed_right(
    source: &Source<'_>,
    link: &Link,
    port: &PortConfig,
    name: &str,
    path: &str,
) -> Result<bool, ConfigError> {
    let keyed_by = link.channel.hf_config().map(|hf| hf.keyed_by);
    if port.kind.plug() == Plug::Octets && keyed_by == Some(KeyedBy::Node) {
        let message = format!(
            "{name} is of kind `serial` and keys no transmitter: write keyed_by = \"data\" in the \
             link's [hf]"
        );
        return Err(source.error(path, &message));
    }
    if port.kind.plug() == Plug::Radio && keyed_by == Some(KeyedBy::Data) {
        let message = format!(
            "{name} is of kind `hf` and plans its turns: remove keyed_by from the link's [hf]"
        );
        return Err(source.error(path, &message));
    }
    Ok(matches!(port.kind.plug(), Plug::Octets | Plug::Radio))
}

/// Of a port: the media that it is a station of, and the links that end at it.
type Uses = BTreeSet<Result<usize, usize>>;

/// Several links may end at one port only if it knows their other ends as neighbours.
fn shared_port(
    source: &Source<'_>,
    loaded: &Loaded,
    link: &Link,
    end: usize,
    port: &str,
    used: &Uses,
    path: &str,
) -> Checked {
    if used.len() > 1 && used.iter().any(Result::is_ok) {
        let message = "the port has a link already, and a medium allows no other";
        return Err(source.error(path, message));
    }
    if link.is_shared() {
        return Ok(());
    }
    let node = loaded
        .nodes
        .iter()
        .find(|node| node.name == link.ends[end].node);
    let port = node.and_then(|node| node.config.ports.iter().find(|it| it.name == port));
    let neighbours: Vec<&str> = port
        .map(|port| {
            port.neighbours
                .iter()
                .map(|neighbour| neighbour.name.as_str())
                .collect()
        })
        .unwrap_or_default();
    let other = &link.ends[1 - end].node;
    if neighbours.len() > 1 && !neighbours.contains(&other.as_str()) {
        return Err(source.unknown(path, "neighbour", other, &neighbours));
    }
    if used.len() > neighbours.len().max(1) {
        let message = "the port has a link already; only one with `neighbours` can have several";
        return Err(source.error(path, message));
    }
    Ok(())
}

fn attachments(source: &Source<'_>, loaded: &Loaded) -> Checked {
    for (index, host) in loaded.scenario.hosts.iter().enumerate() {
        let linked = loaded.links.iter().flat_map(|link| &link.ends);
        let links = linked.filter(|end| end.node == host.name).count();
        match (&host.behind, links) {
            (Some(_), 0) | (None, 1) => {}
            (None, 0) => {
                let message = format!(
                    "`{}` is attached to nothing: write its `behind`, or link it",
                    host.name
                );
                return Err(source.error(&format!("host.{index}"), &message));
            }
            _ => {
                let message = format!("`{}` is attached twice: a host has one network", host.name);
                return Err(source.error(&format!("host.{index}"), &message));
            }
        }
    }
    Ok(())
}

fn traffic(source: &Source<'_>, scenario: &Scenario) -> Checked {
    let hosts: Vec<&str> = scenario
        .hosts
        .iter()
        .map(|host| host.name.as_str())
        .collect();
    for (index, traffic) in scenario.traffic.iter().enumerate() {
        let path = |key: &str| format!("traffic.{index}.{key}");
        for (key, name) in [("from", &traffic.from), ("to", &traffic.to)] {
            // Its other end is a gateway.
            if traffic.is_to_gateway() && key == "to" {
                continue;
            }
            let Some(host) = scenario.hosts.iter().find(|host| host.name == *name) else {
                return Err(source.unknown(&path(key), "host", name, &hosts));
            };
            let has_family =
                |address: &Prefix| address.address.is_ipv4() == (traffic.family == Family::V4);
            // A script's own addresses say which family its flows have.
            if !matches!(traffic.what, Traffic::Mgen(_)) && !host.addresses.iter().any(has_family) {
                let message = format!("`{name}` has no IPv{} address", u8::from(traffic.family));
                return Err(source.error(&path("family"), &message));
            }
        }
        if traffic.from == traffic.to {
            return Err(source.error(&path("to"), "is its own source: name another host"));
        }
        ends_in_time(source, &path("start"), traffic.start.0, scenario)?;
        if traffic.stop.is_some_and(|stop| stop <= traffic.start) {
            return Err(source.error(&path("stop"), "is not after `start`"));
        }
        if let Traffic::Mgen(mgen) = &traffic.what {
            destinations(source, scenario, index, &mgen.script)?;
        }
    }
    Ok(())
}

/// The flows of a script go to the traffic's other host, and it comes from one that can reach it.
fn destinations(
    source: &Source<'_>,
    scenario: &Scenario,
    index: usize,
    script: &Script,
) -> Checked {
    let addresses = |name: &str| -> Vec<IpAddr> {
        let hosts = scenario.hosts.iter().filter(|host| host.name == name);
        hosts
            .flat_map(|host| &host.addresses)
            .map(|prefix| prefix.address)
            .collect()
    };
    let traffic = &scenario.traffic[index];
    let (near, far) = (addresses(&traffic.from), addresses(&traffic.to));
    let path = format!("traffic.{index}.script");
    for (_, dst) in script.destinations() {
        let dst = dst.ip();
        if !far.contains(&dst) {
            let known: Vec<String> = far.iter().map(ToString::to_string).collect();
            let message = format!(
                "the script sends to {dst}, which is no address of `{}` (it has {})",
                traffic.to,
                known.join(", ")
            );
            return Err(source.error(&path, &message));
        }
        if !near
            .iter()
            .any(|address| address.is_ipv4() == dst.is_ipv4())
        {
            let message = format!(
                "the script sends to {dst}, and `{}` has no address of that family",
                traffic.from
            );
            return Err(source.error(&path, &message));
        }
    }
    Ok(())
}

fn ends_in_time(source: &Source<'_>, path: &str, at: Duration, scenario: &Scenario) -> Checked {
    if at < scenario.duration.0 {
        return Ok(());
    }
    let message = format!("is not before the end of the run, {}", scenario.duration);
    Err(source.error(path, &message))
}

/// Mail is brought to the gateway that its host is behind, for a mailbox of another, or of a host.
fn mail(source: &Source<'_>, loaded: &Loaded) -> Checked {
    let scenario = &loaded.scenario;
    for (index, traffic) in scenario.traffic.iter().enumerate() {
        let Traffic::Mail { pause, .. } = traffic.what else {
            continue;
        };
        let to_host = scenario.hosts.iter().any(|it| it.name == traffic.to);
        let path = |key: &str| format!("traffic.{index}.{key}");
        if post(loaded, &scenario.traffic, traffic).is_none() {
            let there = if to_host {
                "a [[mail.route]] of a gateway to its address, with a domain and a `port`"
            } else {
                "[mail] with `mailboxes`"
            };
            let message = format!(
                "`{}` needs {there}, and the gateway of `{}` [mail] with `listen` at an IPv{} address \
                 that the host reaches",
                traffic.to,
                traffic.from,
                u8::from(traffic.family)
            );
            return Err(source.error(&path("to"), &message));
        }
        if to_host && traffic.is_binary_mail() {
            let message = "is for gateways: a host's server takes text alone";
            return Err(source.error(&path("text"), message));
        }
        if !to_host && !pause.is_zero() {
            let message = "is for a host's server: a gateway stores at once";
            return Err(source.error(&path("pause"), message));
        }
    }
    Ok(())
}

/// Echoes are those of gateways that have the service, where hosts reach it.
fn services(source: &Source<'_>, loaded: &Loaded) -> Checked {
    let echoes = loaded.scenario.traffic.iter().enumerate();
    for (index, traffic) in echoes.filter(|(_, it)| it.is_echo()) {
        let path = format!("traffic.{index}.to");
        let node = loaded.nodes.iter().find(|node| node.name == traffic.to);
        let Some(node) = node else {
            let names: Vec<&str> = loaded.nodes.iter().map(|node| node.name.as_str()).collect();
            return Err(source.unknown(&path, "gateway", &traffic.to, &names));
        };
        let echo = node.config.echo.as_ref();
        let offers = echo.map_or((false, false), |it| (it.tls.is_some(), it.starttls));
        let wants = traffic.tls.as_ref();
        let wants = wants.map_or((false, false), |it| (true, it.starttls));
        if traffic.octets.is_some() && wants != offers {
            let message =
                "both need TLS, and both `starttls`: [echo] of the gateway and the traffic";
            return Err(source.error(&format!("traffic.{index}"), message));
        }
        if echo_service(traffic, node.config.echo.as_ref()).is_none() {
            let key = traffic.octets.map_or("datagrams", |_| "listen");
            let message = format!(
                "`{}` needs [echo] with `{key}` at an IPv{} address of its host side",
                traffic.to,
                u8::from(traffic.family)
            );
            return Err(source.error(&path, &message));
        }
    }
    Ok(())
}

/// Who is asked for connections listens there, in some variant.
fn vias(source: &Source<'_>, loaded: &Loaded) -> Checked {
    for (index, traffic) in loaded.scenario.traffic.iter().enumerate() {
        let via = match traffic.what {
            Traffic::Page { site, .. } => site.via,
            _ => None,
        };
        let Some(via) = via else { continue };
        let proxies = loaded
            .nodes
            .iter()
            .filter_map(|it| it.config.proxy.as_ref());
        if !proxies.into_iter().any(|it| it.explicit.contains(&via.at)) {
            let message = format!("no node has {} among `explicit` of its [proxy]", via.at);
            return Err(source.error(&format!("traffic.{index}.site.via"), &message));
        }
    }
    Ok(())
}

/// Traffic between hosts that nothing connects is a slip in the links.
fn ways(source: &Source<'_>, loaded: &Loaded) -> Checked {
    let topology = Topology::new(loaded);
    for (index, traffic) in loaded.scenario.traffic.iter().enumerate() {
        if !topology.connected(&traffic.from, &traffic.to) {
            let message = format!("no path leads from `{}` to `{}`", traffic.from, traffic.to);
            return Err(source.error(&format!("traffic.{index}.to"), &message));
        }
    }
    Ok(())
}

fn faults(source: &Source<'_>, loaded: &Loaded) -> Checked {
    let scenario = &loaded.scenario;
    let nodes: Vec<&str> = scenario
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    // Ends of others don't see that their medium is gone.
    let lines = loaded.links.iter();
    let lines = lines.filter(|link| link.channel.kind.framing().is_some() && !link.is_carried());
    let lines: Vec<&str> = lines.map(|link| link.name.as_str()).collect();
    for (index, fault) in scenario.faults.iter().enumerate() {
        let path = |key: &str| format!("fault.{index}.{key}");
        let link = fault.link.as_deref().unwrap_or_default();
        match fault.kind {
            FaultKind::Kill | FaultKind::Clock if fault.link.is_some() => {
                return Err(source.error(
                    &path("link"),
                    "a link isn't killed, and has no clock: unplug it",
                ));
            }
            FaultKind::Kill | FaultKind::Clock if !nodes.contains(&fault.node.as_str()) => {
                return Err(source.unknown(&path("node"), "gateway", &fault.node, &nodes));
            }
            FaultKind::Unplug if !fault.node.is_empty() => {
                let message = "is for other kinds: name a `link`";
                return Err(source.error(&path("node"), message));
            }
            FaultKind::Unplug if !lines.contains(&link) => {
                return Err(source.unknown(&path("link"), "serial line", link, &lines));
            }
            FaultKind::Clock if fault.by.is_none() => {
                let message = "needed with kind = \"clock\": the time by which it is set forward";
                return Err(source.error(&path("by"), message));
            }
            FaultKind::Kill | FaultKind::Unplug if fault.by.is_some() => {
                return Err(source.error(&path("by"), "is for kind = \"clock\": remove it"));
            }
            FaultKind::Kill | FaultKind::Unplug | FaultKind::Clock => {}
        }
        ends_in_time(source, &path("at"), fault.at.0, scenario)?;
    }
    Ok(())
}

fn variants(source: &Source<'_>, loaded: &Loaded) -> Checked {
    for (index, variant) in loaded.scenario.variants.iter().enumerate() {
        let unmatched = |node: &LoadedNode| {
            let mut table: Table = node.table.clone();
            BTreeSet::from_iter(config_text::merge(&mut table, &variant.node))
        };
        let nowhere = loaded
            .nodes
            .iter()
            .map(unmatched)
            .reduce(|all, some| all.intersection(&some).cloned().collect())
            .unwrap_or_default();
        if let Some(place) = nowhere.first() {
            let message = format!("no gateway has `{place}`");
            return Err(source.error(&format!("variant.{index}.node.{place}"), &message));
        }
        other_traffic(source, loaded, index, variant)?;
    }
    for variant in loaded.scenario.variant_names() {
        let configs = loaded.nodes.iter();
        let configs = configs.map(|node| loaded.node_config(variant, node));
        let configs: Vec<NodeConfig> = configs.collect::<Result<_, _>>()?;
        crate::raw::check(source, loaded, &configs)?;
    }
    Ok(())
}

/// Keys of a traffic that all variants share: by these others name it, and files are found.
const TRAFFIC_SHARED: &[&str] = &["name", "kind", "from", "to", "script", "tls"];

/// What a variant changes of traffic.
fn other_traffic(source: &Source<'_>, loaded: &Loaded, index: usize, variant: &Variant) -> Checked {
    let own = &loaded.scenario.traffic;
    let names: Vec<&str> = own.iter().map(|it| &*it.name).collect();
    let path = format!("variant.{index}.traffic");
    for (name, keys) in &variant.traffic {
        let path = format!("{path}.{name}");
        if !names.contains(&name.as_str()) {
            return Err(source.unknown(&path, "traffic", name, &names));
        }
        let Some(keys) = keys.as_table() else {
            return Err(source.error(&path, "must be a table of keys"));
        };
        if let Some(key) = keys.keys().find(|it| TRAFFIC_SHARED.contains(&it.as_str())) {
            let message = "is the same in all variants: remove it";
            return Err(source.error(&format!("{path}.{key}"), message));
        }
    }
    let mut varied = loaded.scenario.clone();
    varied.traffic = loaded.traffic(&variant.name)?;
    let mut pairs = own.iter().zip(&varied.traffic);
    if let Some((odd, _)) = pairs.find(|(own, it)| metrics_of(own) != metrics_of(it)) {
        let message = "has other metrics with these keys: use another traffic";
        return Err(source.error(&format!("{path}.{}", odd.name), message));
    }
    traffic(source, &varied).map_err(|error| source.error(&path, &error.message))
}

fn expectations(source: &Source<'_>, loaded: &Loaded) -> Checked {
    let scenario = &loaded.scenario;
    let variants: Vec<&str> = scenario.variant_names().collect();
    let mut ids = BTreeSet::new();
    for (index, expectation) in scenario.expectations.iter().enumerate() {
        let path = |key: &str| format!("expect.{index}.{key}");
        word(source, &path("id"), &expectation.id)?;
        if !ids.insert(&expectation.id) {
            let message = format!("`{}` is taken: choose another", expectation.id);
            return Err(source.error(&path("id"), &message));
        }
        if !variants.contains(&expectation.variant.as_str()) {
            let found = &expectation.variant;
            return Err(source.unknown(&path("variant"), "variant", found, &variants));
        }
        let metrics = metrics(loaded);
        let metrics: Vec<&str> = metrics.iter().map(String::as_str).collect();
        let named = [
            ("metric", Some(&expectation.metric)),
            ("of", expectation.of.as_ref()),
        ];
        for (key, found) in named {
            let unknown = found.filter(|it| !metrics.contains(&it.as_str()));
            if let Some(found) = unknown {
                return Err(source.unknown(&path(key), "metric", found, &metrics));
            }
        }
        match (expectation.min, expectation.max) {
            (None, None) => {
                return Err(source.error(&path("max"), "an expectation needs `min` or `max`"));
            }
            (Some(min), Some(max)) if min > max => {
                return Err(source.error(&path("min"), "is above `max`"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Every metric that a run of this scenario has.
fn metrics(loaded: &Loaded) -> Vec<String> {
    let of_traffic = loaded.scenario.traffic.iter().flat_map(|traffic| {
        let names = metrics_of(traffic).into_iter();
        names.map(|metric| format!("{}.{metric}", traffic.name))
    });
    let of_links = loaded.links.iter().map(|link| format!("{}.use", link.name));
    let of_ports = loaded.nodes.iter().flat_map(|node| {
        let names = node.config.ports.iter().map(|port| &port.name);
        names.flat_map(move |port| {
            [
                "compressed_share",
                "payload_share",
                "undecompressed",
                "octets_out",
            ]
            .map(|metric| format!("{}.{port}.{metric}", node.name))
        })
    });
    let of_nodes = loaded.nodes.iter().flat_map(|node| {
        let name = &node.name;
        let kept = ["chatter", "answered", "repeated"].into_iter();
        let dns = DNS_METRICS.into_iter();
        let olsr = OLSR_METRICS.into_iter();
        let far = FAR_METRICS.into_iter();
        let words = kept
            .chain(dns.filter(|_| node.config.dns().is_some()))
            .chain(olsr.filter(|_| node.config.olsr.is_some()))
            .chain(far.filter(|_| node.config.far.is_some()));
        words.map(move |metric| format!("{name}.{metric}"))
    });
    let of_parts = of_links.chain(of_ports).chain(of_nodes);
    of_traffic.chain(of_parts).collect()
}

/// Axes lead somewhere, and their first values fit.
pub(super) fn axes(source: &Source<'_>, loaded: &Loaded) -> Checked {
    for (index, config) in loaded.scenario.axes.iter().enumerate() {
        let place = format!("axis.{index}.key");
        let axis =
            Axis::from_config(config).map_err(|error| source.error(&place, &error.to_string()))?;
        let first = axis.values.first().cloned();
        let point = first.map(|value| (axis.key, value)).into_iter().collect();
        loaded
            .at(&point)
            .map_err(|error| source.error(&place, &error.message))?;
    }
    Ok(())
}
