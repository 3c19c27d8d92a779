//! Which networks lie at a host's other interfaces, so that nobody beyond a link speaks in their
//! name.

use std::net::IpAddr;

use strait_core::prefix::Prefix;
use strait_node::NodeConfig;
use strait_node::config::{HostKind, RouteConfig, Routing};

use crate::netlink::{Netlink, Route};

/// The configuration with a route to the host side for each network that the kernel reaches
/// otherwise than by the gateway, as the table is at the start. A gateway that follows the table
/// has them anyway, and on an Ethernet its own addresses tell.
pub(crate) fn with_networks(config: &NodeConfig) -> NodeConfig {
    let mut config = config.clone();
    if config.routing == Routing::Kernel || config.host.kind != HostKind::Tun {
        return config;
    }
    // Without the table the gateway knows what its node file says.
    let routes = Netlink::open().and_then(|mut netlink| netlink.routes());
    let networks = networks(&config, &routes.unwrap_or_default());
    let place = NodeConfig::ROUTES_MAX.saturating_sub(config.routes.len());
    config.routes.extend(networks.into_iter().take(place));
    config
}

/// Those of `routes` that lead to networks of the host, as far as the configuration leaves no
/// doubt.
fn networks(config: &NodeConfig, routes: &[Route]) -> Vec<RouteConfig> {
    let told = config.routes.iter().map(|route| route.prefix);
    let beyond: Vec<Prefix> = told.chain(config.host.routes.iter().copied()).collect();
    let media = media(config);
    let mut networks: Vec<RouteConfig> = Vec::new();
    for route in routes {
        let Some(prefix) = Prefix::new(route.prefix, route.length) else {
            continue;
        };
        // A part of it lies beyond a link, or it is what a link itself goes by.
        let shared =
            |other: &Prefix| prefix.length <= other.length && prefix.contains(other.address);
        let own = config.host.addresses.iter().any(shared);
        let medium = media.iter().any(|address| prefix.contains(*address));
        let known = networks.iter().any(|known| known.prefix == prefix);
        if is_network(prefix) && !beyond.iter().any(shared) && !own && !medium && !known {
            networks.push(RouteConfig {
                prefix,
                port: "host".into(),
                via: None,
            });
        }
    }
    networks
}

/// A route to everywhere says nothing of where a source lies, and link-local addresses are
/// everywhere.
fn is_network(prefix: Prefix) -> bool {
    let everywhere = match prefix.address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback(),
    };
    prefix.length > 0 && !everywhere && !prefix.address.is_multicast()
}

/// Addresses by which ports go.
fn media(config: &NodeConfig) -> Vec<IpAddr> {
    let ends = |port: &strait_node::config::PortConfig| {
        let neighbours = port.neighbours.iter().filter_map(|it| it.address);
        let ends: Vec<_> = neighbours.chain(port.local).map(|it| it.ip()).collect();
        ends
    };
    config.ports.iter().flat_map(ends).collect()
}

#[cfg(test)]
mod tests {
    use strait_node::config_text::parse;

    use super::*;

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

    #[test]
    fn a_hosts_networks_are_those_that_no_link_has_to_do_with() {
        let config: NodeConfig = parse("a.toml", NODE).unwrap();
        let found = |text: &str| {
            let prefix: Prefix = text.parse().unwrap();
            let route = Route {
                prefix: prefix.address,
                length: prefix.length,
                gateway: None,
                link: Some(2),
            };
            !networks(&config, &[route, route]).is_empty()
        };
        for (prefix, is_one) in [
            ("10.3.0.0/24", true),
            ("fd00:3::/64", true),
            // Longer than the route by the link, so the host keeps it.
            ("10.2.7.0/24", true),
            // Shared with the other side, the line's own, the media's, everybody's.
            ("10.1.0.0/24", false),
            ("10.2.0.0/16", false),
            ("10.0.0.0/8", false),
            ("10.9.0.0/30", false),
            ("192.168.7.0/24", false),
            ("192.168.8.0/24", false),
            ("0.0.0.0/0", false),
            ("fe80::/64", false),
            ("ff00::/8", false),
        ] {
            assert_eq!(found(prefix), is_one, "{prefix}");
        }
        let kernel = parse(
            "a.toml",
            &NODE.replace("[host]", "routing = \"kernel\"\n[host]"),
        );
        let kernel: NodeConfig = kernel.unwrap();
        assert_eq!(with_networks(&kernel), kernel);
    }
}
