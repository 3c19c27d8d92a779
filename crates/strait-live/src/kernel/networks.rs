//! Which networks lie at a host's other interfaces, so that nobody beyond a link speaks in their
//! name.

use std::net::IpAddr;

use strait_core::prefix::Prefix;
use strait_node::NodeConfig;
use strait_node::config::{HostConfig, HostKind};
use strait_node::route::is_of_the_link;

use super::netlink::{Netlink, Route};
use crate::error::Error;

/// The configuration with the networks at the kernel's other interfaces, as they are at the start:
/// at the first of the TUN interfaces, which all lead to one kernel. On an Ethernet, and so on the
/// bridge that it is a port of, the gateway's own addresses tell.
pub(crate) fn with_networks(config: &NodeConfig) -> NodeConfig {
    let mut started = config.clone();
    let mut sides = started.host.all_mut();
    let Some(side) = sides.find(|side| side.kind == HostKind::Tun) else {
        return config.clone();
    };
    let names = config
        .host
        .all()
        .map(|it| [Some(&it.interface), it.bridge.as_ref()]);
    let interfaces: Vec<&str> = names.flatten().flatten().map(String::as_str).collect();
    // Without the table the gateway knows what its node file says.
    let found = other_routes(&interfaces).unwrap_or_default();
    let networks = networks(config, &found);
    let place = HostConfig::NETWORKS_MAX.saturating_sub(side.networks.len());
    side.networks.extend(networks.into_iter().take(place));
    drop(sides);
    started
}

/// The routes of the main table that don't lead to these interfaces, which may be there already.
fn other_routes(interfaces: &[&str]) -> Result<Vec<Route>, Error> {
    let mut netlink = Netlink::open()?;
    let own = interfaces.iter().filter_map(|name| netlink.link(name).ok());
    let own: Vec<u32> = own.map(|link| link.index).collect();
    let mut routes = netlink.routes()?;
    routes.retain(|route| route.link.is_none_or(|link| !own.contains(&link)));
    Ok(routes)
}

/// Those of `routes` that lead to networks of the host, as far as the configuration leaves no
/// doubt. What lies behind another router may lie beyond the gateway's links at another time.
fn networks(config: &NodeConfig, routes: &[Route]) -> Vec<Prefix> {
    let told = config.routes.iter().map(|route| route.prefix);
    let led = config.host.all().flat_map(|side| &side.routes).copied();
    let beyond: Vec<Prefix> = told.chain(led).collect();
    let media = media(config);
    let near = || routes.iter().filter(|route| route.gateway.is_none());
    let prefix = |route: &Route| Prefix::new(route.prefix, route.length);
    // Whom the gateway reaches by an interface may speak there in any network's name.
    let carries = |route: &&Route| {
        let prefix = prefix(route).filter(|prefix| prefix.length > 0);
        prefix.is_some_and(|prefix| media.iter().any(|address| prefix.contains(*address)))
    };
    let carriers: Vec<_> = near().filter(carries).map(|route| route.link).collect();
    let others = near().filter(|route| !carriers.contains(&route.link));
    let known = config.host.all().flat_map(|side| &side.networks);
    let known: Vec<Prefix> = known.copied().collect();
    let mut networks = Vec::new();
    for prefix in others.filter_map(prefix) {
        // A part of it lies beyond a link, or it is what a link itself goes by.
        let shared =
            |other: &Prefix| prefix.length <= other.length && prefix.contains(other.address);
        let mut addresses = config.host.all().flat_map(|side| &side.addresses);
        let beyond = addresses.any(shared) || beyond.iter().any(shared);
        let is_known = known.contains(&prefix) || networks.contains(&prefix);
        if is_network(prefix) && !beyond && !is_known {
            networks.push(prefix);
        }
    }
    networks
}

/// A route to everywhere says nothing of where a source lies, and link-local addresses are
/// everywhere.
fn is_network(prefix: Prefix) -> bool {
    prefix.length > 0 && !is_of_the_link(prefix.address) && !prefix.address.is_multicast()
}

/// Addresses by which ports go.
fn media(config: &NodeConfig) -> Vec<IpAddr> {
    let ends = |port: &strait_node::config::PortConfig| {
        let neighbours = port.neighbours.iter().filter_map(|it| it.address);
        let ends: Vec<_> = neighbours.chain(port.local()).map(|it| it.ip()).collect();
        ends
    };
    config.ports.iter().flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use strait_node::config_text::parse;

    use super::*;
    use crate::kernel::namespace::Namespace;

    const NODE: &str = r#"
        name = "a"
        [host]
        addresses = ["10.9.0.1/30"]
        routes = ["10.1.0.128/25"]
        [[port]]
        name = "radio"
        kind = "udp"
        local = "192.168.7.1:7001"
        neighbours = [{ name = "b", address = "192.168.8.2:7001" }]
        [[route]]
        prefix = "10.2.0.0/16"
        port = "radio"
    "#;

    const LAN: u32 = 2;
    const WAN: u32 = 3;

    fn route(text: &str, link: u32) -> Route {
        let prefix: Prefix = text.parse().unwrap();
        Route {
            prefix: prefix.address,
            length: prefix.length,
            gateway: None,
            link: Some(link),
        }
    }

    #[test]
    fn a_hosts_networks_are_those_that_no_link_has_to_do_with() {
        let config: NodeConfig = parse("a.toml", NODE).unwrap();
        let wan = ["192.168.7.0/24", "192.168.8.0/24"].map(|it| route(it, WAN));
        let found = |route: Route| !networks(&config, &[wan[0], wan[1], route, route]).is_empty();
        for (prefix, is_one) in [
            ("10.3.0.0/24", true),
            ("fd00:3::/64", true),
            // Longer than the route by the link, so the host keeps it.
            ("10.2.7.0/24", true),
            // Shared with the other side, the line's own, everybody's.
            ("10.1.0.0/24", false),
            ("10.2.0.0/16", false),
            ("10.0.0.0/8", false),
            ("10.9.0.0/30", false),
            ("0.0.0.0/0", false),
            ("fe80::/64", false),
            ("ff00::/8", false),
        ] {
            assert_eq!(found(route(prefix, LAN)), is_one, "{prefix}");
        }
        // Where the media are, and what is behind a router.
        assert!(!found(route("fd00:3::/64", WAN)));
        let behind = Route {
            gateway: Some("10.3.0.1".parse().unwrap()),
            ..route("10.4.0.0/16", LAN)
        };
        assert!(!found(behind));
    }

    #[test]
    fn networks_lie_at_none_or_the_first_of_the_kernels_host_sides() {
        let ops = "[[host]]\nname = \"ops\"\ninterface = \"strait1\"\n\
                   addresses = [\"10.8.0.1/30\"]\nroutes = [\"10.6.0.0/16\"]\n[[port]]";
        let text = NODE.replace("[host]", "[[host]]");
        let text = text.replacen("[[port]]", ops, 1);
        let config: NodeConfig = parse("a.toml", &text).unwrap();
        let found = |prefix: &str| networks(&config, &[route(prefix, LAN)]);
        assert_eq!(found("10.3.0.0/24"), ["10.3.0.0/24".parse().unwrap()]);
        // Of the other host side: its line, and what the host reaches by it.
        assert_eq!(found("10.8.0.0/30"), []);
        assert_eq!(found("10.6.0.0/16"), []);
    }

    /// What a gateway that starts takes for the host's.
    #[test]
    fn a_start_takes_the_networks_of_other_interfaces() {
        if !nix::unistd::Uid::effective().is_root() {
            eprintln!("host networks: skipped, this needs root");
            return;
        }
        let namespace = Namespace::create("gateway").unwrap();
        let other = Namespace::create("other").unwrap();
        // The gateway's interface is there already, with a network of its own.
        for (name, network) in [("eth1", "10.5.0.1"), ("strait0", "10.6.0.1")] {
            namespace.connect(name, &other, name).unwrap();
            namespace
                .add_address(name, network.parse().unwrap(), 16)
                .unwrap();
        }
        let router = "10.5.0.9".parse().unwrap();
        namespace
            .add_route("10.7.0.0".parse().unwrap(), 16, router)
            .unwrap();
        for more in ["", "routing = \"kernel\"\n"] {
            let config: NodeConfig = parse("a.toml", &format!("{more}{NODE}")).unwrap();
            let started = namespace.enter(|| with_networks(&config)).unwrap();
            let expected: [Prefix; 1] = ["10.5.0.0/16".parse().unwrap()];
            assert_eq!(started.host.networks, expected);
            assert_eq!(started.routes, config.routes);
        }
    }
}
