//! The DNS proxy of a gateway, as a host's resolver asks it.

use std::borrow::Cow;

use strait_traffic::{DNS_PORT, Family, Traffic, TrafficConfig};

use crate::Loaded;

/// A traffic as its host makes it: names are asked of the gateway that the host is behind, if that has
/// a DNS proxy in this variant, at its first address in the traffic's family outside its own machine.
pub fn with_resolver<'a>(
    loaded: &Loaded,
    variant: &str,
    config: &'a TrafficConfig,
) -> Cow<'a, TrafficConfig> {
    let mut config = Cow::Borrowed(config);
    if !matches!(config.what, Traffic::Dns { .. }) && config.named != Some(true) {
        return config;
    }
    let mut hosts = loaded.scenario.hosts.iter();
    let host = hosts.find(|host| host.name == config.from);
    let place = host.and_then(|host| host.place());
    let mut nodes = loaded.nodes.iter();
    let node = place.and_then(|place| nodes.find(|node| node.name == place.node));
    let node = node.and_then(|node| loaded.node_config(variant, node).ok());
    let dns = node.as_ref().and_then(|node| node.dns());
    let ipv4 = config.family == Family::V4;
    let addresses = dns.into_iter().flat_map(|dns| &dns.listen);
    let mut addresses = addresses.filter(|it| it.port() == DNS_PORT && it.is_ipv4() == ipv4);
    let address = addresses.find(|it| !it.ip().is_loopback());
    if let Some(address) = address {
        let config = config.to_mut();
        config.resolver = Some(address.ip());
        if let Traffic::Dns { manner, .. } = &mut config.what {
            manner.resolver = Some(address.ip());
        }
    }
    config
}
