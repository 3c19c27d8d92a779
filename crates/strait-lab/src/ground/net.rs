//! The scenario's hosts and gateways as network namespaces of this host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use strait_core::id::PortId;
use strait_core::prefix::Prefix;
use strait_live::error::Error;
use strait_live::kernel::namespace::Namespace;
use strait_live::kernel::netlink::Netlink;
use strait_node::config::HostKind;
use strait_scenario::Loaded;
use strait_scenario::topology::{
    CABLE_LENGTH, Cable, End, Lan, MemberId, OTHER_METRIC, Role, Topology, TopologyLink, Via,
    cable_addresses,
};

use crate::LabError;

/// Every namespace of a lab.
#[derive(Debug)]
pub(crate) struct Net {
    /// In the scenario's order.
    pub(crate) gateways: Vec<Namespace>,
    /// In the scenario's order.
    pub(crate) hosts: Vec<Namespace>,
    /// Plain routers: this kernel forwards. In the scenario's order.
    routers: Vec<Namespace>,
    /// Where the link emulators run.
    pub(crate) links: Namespace,
    /// For hosts at whose addresses a link ends: the gateway that is there.
    ends: BTreeMap<usize, usize>,
}

/// The congestion control of the hosts' TCP. Which one a machine has as its default is a matter of
/// its set-up, and some (BBR) measure the line in ways of their own: results shall not depend on
/// it.
const CONGESTION_CONTROL: &str = "cubic";

/// The bridge of a gateway's host side that is on an Ethernet.
pub(crate) fn bridge(side: PortId) -> String {
    format!("br{}", side.0)
}

/// A cable of a gateway's to one of the hosts at a host side.
fn cable(side: PortId, host: usize) -> String {
    match side {
        PortId::HOST => format!("lan{host}"),
        PortId(side) => format!("lan{side}-{host}"),
    }
}

impl Net {
    /// Makes the namespaces and the LANs between gateways and hosts.
    pub(crate) fn create(loaded: &Loaded, topology: &Topology) -> Result<Self, LabError> {
        let gateways = loaded.nodes.iter().map(|node| gateway(&node.name));
        let hosts = loaded.scenario.hosts.iter();
        let hosts = hosts.map(|entry| Namespace::create(&entry.name));
        let routers = loaded.scenario.routers.iter();
        let routers = routers.map(|entry| gateway(&entry.name));
        let net = Self {
            gateways: gateways.collect::<Result<_, _>>()?,
            hosts: hosts.collect::<Result<_, _>>()?,
            routers: routers.collect::<Result<_, _>>()?,
            links: Namespace::create("links")?,
            ends: topology
                .links
                .iter()
                .flat_map(|link| ends(topology, link))
                .collect(),
        };
        for lan in &topology.lans {
            let role = topology.members[lan.gateway].role;
            if let Role::Gateway(gateway) = role {
                let host = loaded.nodes[gateway].config.host_side(lan.port);
                if let Some(host) = host.filter(|host| host.kind == HostKind::Tap) {
                    let routers: Vec<_> = host.addresses.iter().map(|own| own.address).collect();
                    net.join_bridge(gateway, lan, topology, &routers)?;
                    continue;
                }
            }
            for (number, member) in lan.hosts.iter().enumerate() {
                let Role::Host(index) = topology.members[*member].role else {
                    continue;
                };
                let addresses = &topology.members[*member].addresses;
                let near = gateway_addresses(loaded, index, &lan.gateway_addresses)?;
                net.join(
                    net.of(role),
                    index,
                    &cable(lan.port, number),
                    addresses,
                    &near,
                )?;
            }
        }
        Ok(net)
    }

    /// The namespace of a member.
    pub(crate) fn of(&self, role: Role) -> &Namespace {
        match role {
            Role::Gateway(index) => &self.gateways[index],
            Role::Host(index) => &self.hosts[index],
            Role::Router(index) => &self.routers[index],
        }
    }

    /// Gives routers, and hosts at which a link ends, their routes over links; so do machines of
    /// gateways, behind what these lead them to, but for those on which a daemon finds routes. The
    /// links' interfaces have to be there.
    pub(crate) fn add_routes(
        &self,
        topology: &Topology,
        finds: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        for member in topology.members.iter().filter(|it| !finds(&it.name)) {
            let behind = matches!(member.role, Role::Gateway(_)).then_some(OTHER_METRIC);
            let mut netlink = self.of(member.role).netlink()?;
            for route in &member.routes {
                let Via::Link(link) = route.via else {
                    continue;
                };
                let index = netlink.link(&link_interface(link))?.index;
                let Prefix { address, length } = route.prefix.network();
                let control = CONGESTION_CONTROL;
                netlink.add_link_route(address, length, index, control, behind)?;
            }
        }
        Ok(())
    }

    /// A cable between a gateway and one of its hosts. Every host has its own, and reaches all
    /// others by the gateway: addresses are known by their full length on both ends.
    fn join(
        &self,
        near: &Namespace,
        host: usize,
        lan: &str,
        addresses: &[Prefix],
        gateway_addresses: &[IpAddr],
    ) -> Result<(), Error> {
        let far = match self.ends.get(&host) {
            Some(end) => &self.gateways[*end],
            None => &self.hosts[host],
        };
        near.connect(lan, far, "eth0")?;
        let (mut at_gateway, mut at_host) = (near.netlink()?, far.netlink()?);
        let lan_index = at_gateway.link(lan)?.index;
        let eth_index = at_host.link("eth0")?.index;
        for address in gateway_addresses {
            let whole = whole(*address);
            at_gateway.add_address(lan_index, lan, *address, whole)?;
        }
        for address in addresses.iter().map(|prefix| prefix.address) {
            at_host.add_address(eth_index, "eth0", address, whole(address))?;
            at_gateway.add_route(address, whole(address), None, Some(lan_index))?;
        }
        for address in gateway_addresses {
            at_host.add_route(*address, whole(*address), None, Some(eth_index))?;
            at_host.add_default_route(*address, CONGESTION_CONTROL)?;
        }
        Ok(())
    }

    /// A bridge of a gateway whose port its TAP interface becomes, and a cable from it to each of
    /// the hosts, which have the addresses of one network and the gateway as their router.
    fn join_bridge(
        &self,
        gateway: usize,
        lan: &Lan,
        topology: &Topology,
        routers: &[IpAddr],
    ) -> Result<(), Error> {
        let near = &self.gateways[gateway];
        let mut at_gateway = near.netlink()?;
        let bridge = bridge(lan.port);
        at_gateway.add_bridge(&bridge)?;
        // The kernel that has the bridge is no station on it.
        near.set(&format!("ipv6/conf/{bridge}/disable_ipv6"), "1")?;
        let index = at_gateway.link(&bridge)?.index;
        at_gateway.set_up(index, &bridge, true)?;
        for (number, member) in lan.hosts.iter().enumerate() {
            let Role::Host(index) = topology.members[*member].role else {
                continue;
            };
            let far = &self.hosts[index];
            let cable = cable(lan.port, number);
            near.connect(&cable, far, "eth0")?;
            near.set(&format!("ipv6/conf/{cable}/disable_ipv6"), "1")?;
            let at_bridge = at_gateway.link(&cable)?.index;
            at_gateway.join_bridge(at_bridge, &cable, &bridge)?;
            let mut at_host = far.netlink()?;
            let eth = at_host.link("eth0")?.index;
            for own in &topology.members[*member].addresses {
                at_host.add_address(eth, "eth0", own.address, own.length)?;
                let router = |router: &&IpAddr| own.contains(**router);
                if let Some(router) = routers.iter().find(router) {
                    at_host.add_default_route(*router, CONGESTION_CONTROL)?;
                }
            }
        }
        Ok(())
    }

    /// A cable between a gateway and the emulator of a link, for a port that speaks UDP: the
    /// address of each end.
    pub(crate) fn join_link(
        &self,
        gateway: usize,
        link: usize,
        side: usize,
    ) -> Result<[IpAddr; 2], Error> {
        let addresses = cable_addresses(link, side);
        let letter = ['a', 'b'][side];
        let names = [format!("link{link}{letter}"), format!("l{link}{letter}")];
        let ends = [&self.gateways[gateway], &self.links];
        lay(ends, &names, addresses)?;
        Ok(addresses)
    }

    /// A cable between the gateways of a client and of its station.
    pub(crate) fn join_gateways(&self, topology: &Topology, cable: &Cable) -> Result<(), Error> {
        let ends = cable
            .ends
            .map(|end| self.of(topology.members[end.member].role));
        let (link, letter) = (cable.link, ['a', 'b'][cable.side]);
        let names = [format!("sis{link}{letter}"), format!("s{link}{letter}")];
        lay(ends, &names, cable.addresses)
    }

    /// Every namespace.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Namespace> {
        let links = std::iter::once(&self.links);
        let members = self.gateways.iter().chain(&self.hosts);
        members.chain(&self.routers).chain(links)
    }
}

/// Lays a cable between two namespaces, with a name and an address at each end.
fn lay(
    [near, far]: [&Namespace; 2],
    [here, there]: &[String; 2],
    addresses: [IpAddr; 2],
) -> Result<(), Error> {
    near.connect(here, far, there)?;
    near.add_address(here, addresses[0], CABLE_LENGTH)?;
    far.add_address(there, addresses[1], CABLE_LENGTH)
}

/// The hosts at whose addresses a link ends, with the gateways that are there.
fn ends(topology: &Topology, link: &TopologyLink) -> Vec<(usize, usize)> {
    let ends = link.over.into_iter().flatten().zip(link.ends);
    let pair = |(host, end): (MemberId, End)| match (
        topology.members[host].role,
        topology.members[end.member].role,
    ) {
        (Role::Host(host), Role::Gateway(gateway)) => Some((host, gateway)),
        _ => None,
    };
    ends.filter_map(pair).collect()
}

/// What a link's interface is called in the namespace of a router or host.
pub(crate) fn link_interface(link: usize) -> String {
    format!("link{link}")
}

pub(crate) const fn whole(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn gateway(name: &str) -> Result<Namespace, Error> {
    let namespace = Namespace::create(name)?;
    namespace.enable_forwarding()?;
    Ok(namespace)
}

/// Of each family that the host has, one address of its gateway's.
fn gateway_addresses(
    loaded: &Loaded,
    host: usize,
    known: &[Prefix],
) -> Result<Vec<IpAddr>, LabError> {
    let entry = &loaded.scenario.hosts[host];
    let mut addresses = Vec::new();
    for own in &entry.addresses {
        let fits = |prefix: &&Prefix| prefix.address.is_ipv4() == own.address.is_ipv4();
        let own_list = entry.gateway_addresses.iter().find(fits);
        let Some(prefix) = own_list.or_else(|| known.iter().find(fits)) else {
            return Err(LabError::Scenario(format!(
                "host `{}`: live it needs `gateway_addresses`, the address of its gateway on \
                 their LAN, for {}",
                entry.name, own
            )));
        };
        addresses.push(prefix.address);
    }
    Ok(addresses)
}

/// Whether anybody in `namespace` has a socket bound to a port: TCP sockets that listen, or UDP.
pub(crate) fn is_bound(namespace: &Namespace, is_tcp: bool, port: u16) -> Result<bool, Error> {
    let files = if is_tcp {
        ["tcp", "tcp6"]
    } else {
        ["udp", "udp6"]
    };
    let read = || {
        let text = |name: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{name}"));
        files.map(|name| text(name).unwrap_or_default()).concat()
    };
    let text = namespace.enter(read)?;
    let port = format!("{port:04X}");
    Ok(text.lines().any(|line| {
        let mut words = line.split_whitespace();
        let local = words.nth(1).unwrap_or_default();
        let state = words.nth(1).unwrap_or_default();
        let bound = local.rsplit_once(':').is_some_and(|(_, own)| own == port);
        bound && (!is_tcp || state == "0A")
    }))
}

/// Interfaces of the calling thread's own namespace, by name.
pub(crate) fn own_interfaces() -> Result<Vec<String>, Error> {
    let links = Netlink::open()?.links()?;
    Ok(links.into_iter().map(|link| link.name).collect())
}
