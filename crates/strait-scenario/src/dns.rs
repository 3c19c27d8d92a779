//! The DNS proxy of a gateway, as a host's resolver asks it.

use std::borrow::Cow;

use strait_traffic::{DNS_PORT, Family, Traffic, TrafficConfig};

use crate::Loaded;

/// A traffic as its host makes it: names are asked of the gateway that the host is behind, if that
/// has a DNS proxy in this variant, at its first address in the traffic's family outside its own
/// machine; else of the other host.
pub fn with_resolver<'a>(
    loaded: &Loaded,
    variant: &str,
    config: &'a TrafficConfig,
) -> Cow<'a, TrafficConfig> {
    let mut config = Cow::Borrowed(config);
    let mut hosts = loaded.scenario.hosts.iter();
    let host = hosts.find(|host| host.name == config.from);
    let ipv4 = config.family == Family::V4;
    let begins = matches!(
        config.what,
        Traffic::Ping { .. } | Traffic::Udp { .. } | Traffic::Page { .. }
    );
    let named = begins && ipv4 && host.is_some_and(|host| host.resolves);
    if !matches!(config.what, Traffic::Dns { .. }) && !named {
        return config;
    }
    let place = host.and_then(|host| host.place());
    let mut nodes = loaded.nodes.iter();
    let node = place.and_then(|place| nodes.find(|node| node.name == place.node));
    let node = node.and_then(|node| loaded.node_config(variant, node).ok());
    let dns = node.as_ref().and_then(|node| node.dns());
    let addresses = dns.into_iter().flat_map(|dns| &dns.listen);
    let mut addresses = addresses.filter(|it| it.port() == DNS_PORT && it.is_ipv4() == ipv4);
    let address = addresses.find(|it| !it.ip().is_loopback());
    let address = address.map(|address| address.ip());
    let mut others = loaded.scenario.hosts.iter();
    let other = others.find(|host| host.name == config.to);
    let other = other.into_iter().flat_map(|host| &host.addresses);
    let other = other.map(|it| it.address).find(|it| it.is_ipv4() == ipv4);
    let changed = config.to_mut();
    if named {
        changed.resolver = address.or(other);
    }
    if let (Some(address), Traffic::Dns { manner, .. }) = (address, &mut changed.what) {
        manner.resolver = Some(address);
    }
    config
}
