//! From a scenario to a world.

use std::collections::BTreeMap;
use std::net::IpAddr;

use strait_channel::{LinkConfig, LinkKind, Side};
use strait_core::units::BitRate;
use strait_core::{Duration, Instant, NeighbourId, PortId};
use strait_hosts::tls::Profile;
use strait_hosts::{Host, HostConfig, InstallError};
use strait_link::repair::When;
use strait_node::config::{HostKind, LinkProfile, Plug, PortConfig, PortKind};
use strait_node::config_text::ConfigError;
use strait_node::{GatewayFactory, NodeConfig, Policies, Prefix};
use strait_qos::Dscp;
use strait_scenario::topology::{CABLE_LENGTH, End, Lan, MemberId, Role, Topology, Via};
use strait_scenario::{FaultKind, Loaded};
use strait_traffic::{Family, Ports, Traffic, TrafficConfig};

use crate::check::is_clean;
use crate::kernel::{Around, Cable, FurtherSide, ports_at};
use crate::router::Router;
use crate::segment::{Seat, Segment};
use crate::world::{Attach, Device, Envelope, EnvelopeKind, Fault, LinkIndex, NodeIndex, World};

/// Why a scenario can't be simulated.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A gateway's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A link's.
    #[error("link `{name}`: `{}`: {}", error.key, error.why)]
    Link {
        /// Which link.
        name: String,
        /// What is wrong with it.
        error: strait_core::keys::KeyError,
    },
    /// A traffic's.
    #[error(transparent)]
    Traffic(#[from] InstallError),
    /// Two ends of a traffic that can't talk.
    #[error("traffic `{traffic}`: {message}")]
    Ends {
        /// Which traffic.
        traffic: String,
        /// What is wrong and what to do.
        message: String,
    },
}

/// A world with the places of the scenario's members in it, not begun yet.
pub struct Built {
    pub(crate) world: World,
    pub(crate) seed: u64,
    /// The node of each member of the topology.
    pub(crate) nodes: Vec<NodeIndex>,
    pub(crate) topology: Topology,
    /// The variant's traffic, in the scenario's order.
    pub(crate) traffic: Vec<TrafficConfig>,
    /// Hosts that are the places of link ends, with these.
    carried: BTreeMap<MemberId, Attach>,
    /// By such a host, the rate at which the port there sends, if it has one.
    paces: BTreeMap<MemberId, BitRate>,
    /// Machines of gateways that have links of their own.
    machines: BTreeMap<MemberId, NodeIndex>,
    /// Kernels of gateways that have sockets.
    kernels: BTreeMap<MemberId, NodeIndex>,
}

/// The LAN between a gateway and its hosts: fast Ethernet, as short as its frames allow.
pub(crate) fn lan() -> LinkConfig {
    LinkConfig::frames(100_000_000, Duration::from_micros(50))
}

/// The interface between a gateway and the kernel of its machine: no medium at all.
fn tun() -> LinkConfig {
    LinkConfig::frames(100_000_000_000, Duration::ZERO)
}

/// Builds the world of one run: for who wants to look at it, or change it, on the way. Others
/// use [`crate::run_once`].
///
/// # Errors
/// Why the scenario can't be built.
pub fn build(loaded: &Loaded, variant: &str, seed: u64) -> Result<Built, BuildError> {
    let topology = Topology::new(loaded);
    let mut world = World::new(seed);
    world.trace_paths();
    let mut nodes = Vec::new();
    let mut packing = Vec::new();
    let mut policies = Policies::default();
    for (id, member) in topology.members.iter().enumerate() {
        let node = match member.role {
            Role::Gateway(index) => {
                let mut config = loaded.node_config(variant, &loaded.nodes[index])?;
                place_ports(loaded, &topology, id, &mut config);
                topology.plug_cables(id, &mut config);
                let ports = (config.ports.len() + 1 + config.host.further.len()) as u8;
                let sides: Vec<PortId> = config.host_sides().map(|(port, _)| port).collect();
                packing.push(Packing::of(&config));
                let devices: Vec<Device> = config.ports.iter().map(Device::of).collect();
                let octets_max = config.state.as_ref().map(|state| state.octets_max.0);
                let factory = GatewayFactory::beside(config, &mut policies)
                    .map_err(|error| ConfigError::of_file(&member.name, error.to_string()))?;
                let node = world.add_node(&member.name, Box::new(factory));
                world.set_host_sides(node, sides);
                world.set_storage(node, octets_max);
                if let Some(storage) = loaded.scenario.nodes[index].storage {
                    world.describe_storage(node, storage);
                }
                world.reserve_ports(node, ports);
                for (port, device) in (1..).map(PortId).zip(devices) {
                    world.set_device(node, port, device);
                }
                node
            }
            Role::Host(_) if carrier(&topology, id).is_some() => {
                // Gateways come first.
                nodes[carrier(&topology, id).unwrap_or_default()]
            }
            Role::Host(_) => {
                let addresses: Vec<IpAddr> = member
                    .addresses
                    .iter()
                    .map(|prefix| prefix.address)
                    .collect();
                world.add_host(Host::new(&HostConfig::new(&member.name, addresses, seed)))
            }
            Role::Router(index) => {
                let queue = loaded.scenario.routers[index].queue as usize;
                world.add_router(&member.name, router(&topology, nodes.len(), queue))
            }
        };
        nodes.push(node);
    }
    let mut built = Built {
        world,
        seed,
        nodes,
        topology,
        traffic: loaded.traffic(variant)?,
        carried: BTreeMap::new(),
        paces: BTreeMap::new(),
        machines: BTreeMap::new(),
        kernels: BTreeMap::new(),
    };
    built.place_carried(loaded, variant)?;
    built.place_machines(loaded);
    built.place_kernels(loaded, variant)?;
    built.set_apart(loaded, variant)?;
    built.join(loaded)?;
    built.wrap(loaded, &packing);
    built.set_repeats(loaded, variant)?;
    built.install(loaded, variant, seed)?;
    for fault in &loaded.scenario.faults {
        built.break_down(loaded, fault);
    }
    for (at, member, change) in crate::routing::changes(loaded, &built.topology) {
        let reroute = Fault::Reroute(built.nodes[member], change);
        built.world.plan(Instant::ZERO + at, reroute);
    }
    Ok(built)
}

/// Writes the addresses of links into the ports that send packets over them: their headers have
/// their family's length.
fn place_ports(loaded: &Loaded, topology: &Topology, gateway: MemberId, config: &mut NodeConfig) {
    for (link, entry) in topology.links.iter().zip(&loaded.scenario.links) {
        for (end, address) in link.ends.iter().zip(entry.addresses.iter().flatten()) {
            let port = end.port.and_then(|port| port.index().checked_sub(1));
            let port = port.filter(|_| end.member == gateway);
            let port = port.and_then(|port| config.ports.get_mut(port));
            if let Some(PortKind::Ip(ip)) = port.map(|port| &mut port.kind) {
                ip.local = Some(address.address.into());
            }
        }
    }
}

/// How a gateway's frames go in packets.
struct Packing {
    /// By class, the packets' code points.
    marks: Vec<Dscp>,
    /// By port, the packets' protocol number if the port is of kind `ip`.
    numbers: Vec<Option<u8>>,
}

impl Packing {
    fn of(config: &NodeConfig) -> Self {
        let number = |port: &PortConfig| port.ip_protocol();
        Self {
            marks: config.policy.tunnel_code_points().unwrap_or_default(),
            numbers: config.ports.iter().map(number).collect(),
        }
    }

    fn number(&self, end: &End) -> Option<u8> {
        let port = end.port?.index().checked_sub(1)?;
        self.numbers.get(port).copied().flatten()
    }
}

/// The gateway that has one of its links' ends at a host.
fn carrier(topology: &Topology, host: MemberId) -> Option<MemberId> {
    let links = topology.links.iter();
    let mut ends = links.flat_map(|link| link.over.into_iter().flatten().zip(link.ends));
    ends.find(|(over, _)| *over == host)
        .map(|(_, end)| end.member)
}

/// Packets that may wait at each port of a gateway's machine: the usual length of a device's queue.
const MACHINE_QUEUE: usize = 1000;

/// The address alone.
fn whole(prefix: Prefix) -> Prefix {
    let length = if prefix.address.is_ipv4() { 32 } else { 128 };
    Prefix { length, ..prefix }
}

/// Networks of a member in the order of its port numbers.
fn networks(topology: &Topology, id: MemberId) -> Vec<Via> {
    let links = topology.links.iter().enumerate();
    let links = links.filter(|(_, link)| link.ends.iter().any(|end| end.member == id));
    let lans = topology.lans.iter().enumerate();
    let lans = lans.filter(|(_, lan)| lan.gateway == id || lan.hosts.contains(&id));
    links
        .map(|(index, _)| Via::Link(index))
        .chain(lans.map(|(index, _)| Via::Lan(index)))
        .collect()
}

/// What the machine of a gateway has around it.
fn around(topology: &Topology, gateway: MemberId, config: &NodeConfig) -> Around {
    let sides = kernel_sides(config);
    let lan = |at: PortId| {
        let mut lans = topology.lans.iter();
        lans.find(|lan| (lan.gateway, lan.port) == (gateway, at))
    };
    let hosts = |at: PortId| -> Vec<IpAddr> {
        let hosts = lan(at).into_iter().flat_map(|lan| &lan.hosts);
        let hosts = hosts.flat_map(|host| &topology.members[*host].addresses);
        hosts.map(|prefix| prefix.address).collect()
    };
    let lans = sides.iter().filter_map(|(at, _)| lan(*at));
    let networks: Vec<Prefix> = lans.flat_map(|it| &it.gateway_addresses).copied().collect();
    let own = sides.iter().flat_map(|(_, side)| &side.addresses);
    let own = own.chain(&networks);
    let mut at = sides.iter().map(|(at, _)| *at);
    let first = at.next().unwrap_or(PortId::HOST);
    let further = at.map(|at| FurtherSide {
        at,
        hosts: hosts(at),
    });
    let cables = topology.cables().flat_map(|cable| {
        let sides = [[0, 1], [1, 0]].into_iter();
        let sides = sides.filter(move |[near, _]| cable.ends[*near].member == gateway);
        sides.map(move |[near, far]| Cable {
            own: Prefix {
                address: cable.addresses[near],
                length: CABLE_LENGTH,
            },
            peer: cable.addresses[far],
        })
    });
    Around {
        own: own.map(|own| own.address).collect(),
        hosts: hosts(first),
        cables: cables.collect(),
        further: further.collect(),
        networks,
        brought: config.proxy().map(|_| config.proxied()),
    }
}

/// The host sides at which the kernel of a gateway's machine is: TUN interfaces, or if there is
/// none the first, at which it has its addresses all the same.
fn kernel_sides(config: &NodeConfig) -> Vec<(PortId, &strait_node::config::HostConfig)> {
    let tuns = config.host_sides();
    let tuns: Vec<_> = tuns
        .filter(|(_, side)| side.kind == HostKind::Tun)
        .collect();
    if tuns.is_empty() {
        return config.host_sides().take(1).collect();
    }
    tuns
}

fn router(topology: &Topology, id: MemberId, queue: usize) -> Router {
    let networks = networks(topology, id);
    let names = networks.iter().map(|via| match via {
        Via::Link(index) => topology.links[*index].name.as_str(),
        Via::Lan(_) => "lan",
    });
    let mut router = Router::new(names, queue);
    for route in &topology.members[id].routes {
        if let Some(port) = networks.iter().position(|via| *via == route.via) {
            router.add_route(route.prefix, PortId(port as u8));
        }
    }
    router
}

impl Built {
    /// The world.
    pub const fn world(&self) -> &World {
        &self.world
    }

    /// The world, to run it.
    pub const fn world_mut(&mut self) -> &mut World {
        &mut self.world
    }

    /// The node of a gateway, host or router of the scenario.
    pub fn node(&self, name: &str) -> Option<NodeIndex> {
        self.topology.find(name).map(|member| self.nodes[member])
    }

    fn join(&mut self, loaded: &Loaded) -> Result<(), BuildError> {
        for (link, config) in self.topology.links.clone().iter().zip(&loaded.links) {
            if link.over.is_some() {
                continue;
            }
            let ends = link.ends.map(|end| self.attach(&end));
            if link.stations.is_some() {
                self.world.join_by_stations(ends);
                continue;
            }
            let shared = config.medium.as_ref().map(|medium| medium.name.as_str());
            let joined = self
                .world
                .join_on(shared, &link.name, &config.channel, ends);
            joined.map_err(|error| BuildError::Link {
                name: link.name.clone(),
                error,
            })?;
        }
        for index in 0..self.topology.lans.len() {
            self.join_lan(loaded, index)?;
        }
        self.join_cables()
    }

    /// Lays the cables between clients and their stations.
    fn join_cables(&mut self) -> Result<(), BuildError> {
        for cable in self.topology.cables().collect::<Vec<_>>() {
            let [client, station] = cable.ends.map(|end| end.member);
            let names = [client, station].map(|end| self.topology.members[end].name.as_str());
            let name = names.join(" to ");
            let [near, far] = [client, station].map(|end| self.kernels[&end]);
            let joined = self.world.join(&name, &lan(), near, far);
            joined.map_err(|error| BuildError::Link { name, error })?;
        }
        Ok(())
    }

    /// Gives the machines of gateways that have sockets their kernels.
    fn place_kernels(&mut self, loaded: &Loaded, variant: &str) -> Result<(), BuildError> {
        for (id, member) in self.topology.members.iter().enumerate() {
            let Role::Gateway(gateway) = member.role else {
                continue;
            };
            let config = loaded.node_config(variant, &loaded.nodes[gateway])?;
            let around = around(&self.topology, id, &config);
            if !config.has_sockets() && around.cables.is_empty() {
                continue;
            }
            let node = self.nodes[id];
            self.kernels.insert(id, self.world.add_kernel(node, around));
            let profiles = config.tls.iter();
            let profiles = profiles.map(|(name, it)| (name.clone(), Profile::of(it)));
            self.world.secure_by(node, profiles.collect());
        }
        Ok(())
    }

    /// Puts the machines of gateways that have links of their own between these, their hosts and
    /// such links, in this order of ports: the gateway's, links, the hosts'.
    fn place_machines(&mut self, loaded: &Loaded) {
        for id in 0..self.topology.members.len() {
            let member = &self.topology.members[id];
            let Role::Gateway(gateway) = member.role else {
                continue;
            };
            if !self.topology.has_machine(id) {
                continue;
            }
            let mut links: Vec<Via> = Vec::new();
            for (index, link) in self.topology.links.iter().enumerate() {
                let here = |end: &End| end.member == id && end.port.is_none();
                links.extend(link.ends.iter().any(here).then_some(Via::Link(index)));
            }
            let name = format!("{} host", member.name);
            let names = links.iter().map(|via| match via {
                Via::Link(index) => self.topology.links[*index].name.as_str(),
                Via::Lan(_) => "lan",
            });
            let names = std::iter::once("tun").chain(names).chain(["lan"]);
            let mut router = Router::new(names, MACHINE_QUEUE);
            for route in &member.routes {
                let port = links.iter().position(|via| *via == route.via);
                if let Some(port) = port {
                    router.add_route(route.prefix, PortId(port as u8 + 1));
                }
            }
            let mut sides = loaded.nodes[gateway].config.host_sides();
            let Some((side, tun)) = sides.find(|(_, side)| side.kind == HostKind::Tun) else {
                continue;
            };
            let lans = self.topology.lans.iter();
            let lans = lans.filter(|lan| (lan.gateway, lan.port) == (id, side));
            let hosts = lans.flat_map(|lan| &lan.hosts);
            let hosts = hosts.flat_map(|host| &self.topology.members[*host].addresses);
            let own = &tun.addresses;
            let at = |port| move |prefix: &Prefix| (whole(*prefix), PortId(port));
            let near = hosts.map(at(links.len() as u8 + 1));
            for (prefix, port) in near.chain(own.iter().map(at(0))) {
                router.add_route(prefix, port);
            }
            let node = self.world.add_router(&name, router);
            self.world.reserve_ports(node, 1);
            self.world.set_machine(self.nodes[id], node);
            self.machines.insert(id, node);
        }
    }

    /// Where the ends of links are whose medium is other gateways, and how fast these send.
    fn place_carried(&mut self, loaded: &Loaded, variant: &str) -> Result<(), BuildError> {
        for link in &self.topology.links {
            for (end, host) in link.ends.iter().zip(link.over.into_iter().flatten()) {
                self.carried.insert(host, self.attach(end));
                let Role::Gateway(index) = self.topology.members[end.member].role else {
                    continue;
                };
                let config = loaded.node_config(variant, &loaded.nodes[index])?;
                let port = end.port.and_then(|port| port.index().checked_sub(1));
                let port = port.and_then(|port| config.ports.get(port));
                let own = |port: &PortConfig| {
                    let neighbour = port.neighbours.get(end.neighbour.unwrap_or(0));
                    neighbour.and_then(|it| it.rate).or(port.rate)
                };
                if let Some(rate) = port.and_then(own) {
                    self.paces.insert(host, rate);
                }
            }
        }
        Ok(())
    }

    /// The LAN between a gateway or its switch and a host, which sends no faster than a port does
    /// that is there.
    fn lan_to(&self, host: MemberId) -> LinkConfig {
        let pace =
            |rate: &BitRate| lan().with(|it| it.reverse.get_or_insert_default().rate = Some(*rate));
        self.paces.get(&host).map_or_else(lan, pace)
    }

    /// Puts the frames of such links into datagrams, and those of ports of kind `ip` into packets.
    fn wrap(&mut self, loaded: &Loaded, packing: &[Packing]) {
        let links = self.topology.links.clone();
        for (link, entry) in links.iter().zip(&loaded.scenario.links) {
            let sockets = link.sockets(&self.topology.members);
            for side in 0..2 {
                let end = &link.ends[side];
                let Role::Gateway(index) = self.topology.members[end.member].role else {
                    continue;
                };
                let far = 1 - side;
                let (place, far, kind) = match (sockets, link.over, entry.addresses) {
                    (Some(sockets), Some(over), _) => {
                        let far_node = self.carried[&over[far]].node;
                        let kind = EnvelopeKind::Udp([sockets[side], sockets[far]]);
                        (self.carried[&over[side]], Some(far_node), kind)
                    }
                    (_, _, Some(addresses)) => {
                        let Some(number) = packing[index].number(end) else {
                            continue;
                        };
                        let ends = [addresses[side].address, addresses[far].address];
                        (self.attach(end), None, EnvelopeKind::Raw(ends, number))
                    }
                    _ => continue,
                };
                let envelope = Envelope {
                    kind,
                    code_points: packing[index].marks.iter().map(|it| it.number()).collect(),
                };
                let port = (place.node, place.port, place.neighbour);
                self.world.set_envelope(port, far, envelope);
            }
        }
    }

    /// Link ports of gateways for which something holds.
    fn link_ports(
        &self,
        loaded: &Loaded,
        variant: &str,
        holds: impl Fn(&PortConfig) -> bool,
    ) -> Result<Vec<(NodeIndex, PortId)>, BuildError> {
        let mut found = Vec::new();
        for (member, node) in self.topology.members.iter().zip(&self.nodes) {
            let Role::Gateway(index) = member.role else {
                continue;
            };
            let config = loaded.node_config(variant, &loaded.nodes[index])?;
            let ports = (1..).map(PortId).zip(&config.ports);
            let ports = ports.filter(|(_, entry)| holds(entry));
            found.extend(ports.map(|(port, _)| (*node, port)));
        }
        Ok(found)
    }

    /// Ports that repeat what is lost. Octet lines do so where anything may happen to them.
    fn set_repeats(&mut self, loaded: &Loaded, variant: &str) -> Result<(), BuildError> {
        let mends = |port: &PortConfig| port.repairs().is_some();
        for (node, port) in self.link_ports(loaded, variant, mends)? {
            if !loaded.scenario.faults.is_empty() || !self.is_clean(node, port) {
                self.world.set_repeats(node, port);
            }
        }
        let repeats = |port: &PortConfig| {
            let stations = matches!(port.kind.plug(), Plug::Radio | Plug::Sockets);
            let always = port.repairs() == Some(When::Always);
            port.profile == LinkProfile::Hbh || stations || always
        };
        let mut ports = self.link_ports(loaded, variant, repeats)?;
        // There the medium does.
        let links = (0..self.world.links().count()).map(|link| self.world.link(LinkIndex(link)));
        let cells = links.filter(|(_, config)| matches!(config.kind, LinkKind::Cell(_)));
        ports.extend(cells.flat_map(|(ends, _)| ends.map(|end| (end.node, end.port))));
        for (node, port) in ports {
            self.world.set_repeats(node, port);
        }
        Ok(())
    }

    /// Whether nothing can happen to what goes either way by a port's links.
    fn is_clean(&self, node: NodeIndex, port: PortId) -> bool {
        let links = (0..self.world.links().count()).map(LinkIndex);
        links
            .map(|link| self.world.link(link))
            .all(|(ends, config)| {
                let own = ends.iter().any(|end| (end.node, end.port) == (node, port));
                !own || Side::BOTH.into_iter().all(|side| is_clean(config, side))
            })
    }

    /// Ports with a way to each neighbour.
    fn set_apart(&mut self, loaded: &Loaded, variant: &str) -> Result<(), BuildError> {
        let apart = |port: &PortConfig| port.own_rates().nth(1).is_some();
        for (node, port) in self.link_ports(loaded, variant, apart)? {
            self.world.set_apart(node, port);
        }
        Ok(())
    }

    fn attach(&self, end: &End) -> Attach {
        if let Some(place) = self.carried.get(&end.member) {
            return *place;
        }
        let machine = self.machines.get(&end.member);
        let machine = machine.filter(|_| end.port.is_none());
        let node = *machine.unwrap_or(&self.nodes[end.member]);
        let neighbour = NeighbourId(end.neighbour.unwrap_or(0) as u16);
        Attach {
            node,
            port: end.port.unwrap_or_else(|| self.world.next_port(node)),
            neighbour,
        }
    }

    /// Attaches hosts to a gateway's host side, over a switch if there are several.
    fn join_lan(&mut self, loaded: &Loaded, index: usize) -> Result<(), BuildError> {
        let lan_entry = self.topology.lans[index].clone();
        let gateway = self.nodes[lan_entry.gateway];
        let name = self.name_of(loaded, &lan_entry, "lan");
        let error = |error| BuildError::Link {
            name: name.clone(),
            error,
        };
        let port = match self.topology.members[lan_entry.gateway].role {
            Role::Gateway(_) => lan_entry.port,
            _ => self.world.next_port(gateway),
        };
        let mut near = Attach {
            node: gateway,
            port,
            neighbour: NeighbourId::PEER,
        };
        if let Role::Gateway(index) = self.topology.members[lan_entry.gateway].role {
            let side = loaded.nodes[index].config.host_side(lan_entry.port);
            let config = side.unwrap_or(&loaded.nodes[index].config.host);
            if config.kind == HostKind::Tap {
                return self.join_ethernet(&name, &lan_entry, near, config);
            }
            if let Some(kernel) = self.kernels.get(&lan_entry.gateway).copied() {
                let name = self.name_of(loaded, &lan_entry, "tun");
                let sides = kernel_sides(&loaded.nodes[index].config);
                let side = sides.iter().position(|(port, _)| *port == lan_entry.port);
                let ports = ports_at(side.unwrap_or(0));
                near = self.pass(&name, near, kernel, ports).map_err(error)?;
            }
        }
        if let Some(node) = self.machines.get(&lan_entry.gateway).copied() {
            let name = format!("{} host", self.topology.members[lan_entry.gateway].name);
            let ports = [PortId(0), self.world.next_port(node)];
            near = self.pass(&name, near, node, ports).map_err(error)?;
        }
        if let [host] = lan_entry.hosts[..] {
            let far = self.attach(&End {
                member: host,
                port: None,
                neighbour: None,
            });
            self.world
                .join_at(&name, &self.lan_to(host), [near, far])
                .map_err(error)?;
            return Ok(());
        }
        let names: Vec<String> = (0..=lan_entry.hosts.len())
            .map(|port| format!("port{port}"))
            .collect();
        let mut switch = Router::switch(names.iter().map(String::as_str), 1000);
        for all in ["0.0.0.0/0", "::/0"] {
            switch.add_route(
                all.parse().unwrap_or_else(|_| unreachable!("a prefix")),
                PortId(0),
            );
        }
        for (port, host) in lan_entry.hosts.iter().enumerate() {
            for prefix in &self.topology.members[*host].addresses {
                switch.add_route(whole(*prefix), PortId(port as u8 + 1));
            }
        }
        let switch = self.world.add_router(&name, switch);
        let port = |number: usize| Attach {
            node: switch,
            port: PortId(number as u8),
            neighbour: NeighbourId::PEER,
        };
        self.world
            .join_at(&name, &lan(), [near, port(0)])
            .map_err(error)?;
        for (number, host) in lan_entry.hosts.iter().enumerate() {
            let far = self.attach(&End {
                member: *host,
                port: None,
                neighbour: None,
            });
            let link = format!("{name} {number}");
            self.world
                .join_at(&link, &self.lan_to(*host), [port(number + 1), far])
                .map_err(error)?;
        }
        Ok(())
    }

    /// What a network at a host side is called: by the names of the node, and of a further side.
    fn name_of(&self, loaded: &Loaded, lan: &Lan, what: &str) -> String {
        let member = &self.topology.members[lan.gateway];
        let side = match member.role {
            Role::Gateway(index) => loaded.nodes[index].config.host_side(lan.port),
            Role::Host(_) | Role::Router(_) => None,
        };
        match side.filter(|_| lan.port != PortId::HOST) {
            Some(side) => format!("{}.{} {what}", member.name, side.name()),
            None => format!("{} {what}", member.name),
        }
    }

    /// Puts something of a gateway's machine between what is near the gateway and its hosts, by two
    /// of its ports: where these are attached.
    fn pass(
        &mut self,
        name: &str,
        near: Attach,
        node: NodeIndex,
        ports: [PortId; 2],
    ) -> Result<Attach, strait_core::keys::KeyError> {
        let [towards, away] = ports.map(|port| Attach {
            node,
            port,
            neighbour: NeighbourId::PEER,
        });
        self.world.join_at(name, &tun(), [near, towards])?;
        Ok(away)
    }

    /// Attaches hosts to a gateway that is a station on their Ethernet.
    fn join_ethernet(
        &mut self,
        name: &str,
        lan_entry: &Lan,
        near: Attach,
        config: &strait_node::config::HostConfig,
    ) -> Result<(), BuildError> {
        let wrong = |error| BuildError::Link {
            name: name.to_owned(),
            error,
        };
        let routers: Vec<IpAddr> = config.addresses.iter().map(|own| own.address).collect();
        let members = &self.topology.members;
        let seats = lan_entry.hosts.iter().map(|host| Seat {
            addresses: members[*host].addresses.clone(),
            routers: routers.clone(),
        });
        let segment = Segment::new(seats.collect(), 1000);
        let segment = self.world.add_segment(name, segment);
        let port = |number: usize| Attach {
            node: segment,
            port: PortId(number as u8),
            neighbour: NeighbourId::PEER,
        };
        let framed =
            lan().with(|it| it.frame_octets_max = u32::try_from(config.frame_octets_max()).ok());
        self.world
            .join_at(name, &framed, [near, port(0)])
            .map_err(wrong)?;
        for (number, host) in lan_entry.hosts.iter().enumerate() {
            let far = self.attach(&End {
                member: *host,
                port: None,
                neighbour: None,
            });
            let link = format!("{name} {number}");
            self.world
                .join_at(&link, &self.lan_to(*host), [port(number + 1), far])
                .map_err(wrong)?;
        }
        Ok(())
    }

    fn install(&mut self, loaded: &Loaded, variant: &str, seed: u64) -> Result<(), BuildError> {
        for (index, config) in self.traffic.iter().enumerate() {
            let config = &*strait_scenario::with_resolver(loaded, variant, config);
            let wrong = |message: String| BuildError::Ends {
                traffic: config.name.clone(),
                message,
            };
            let ends = [&config.from, &config.to].map(|name| self.topology.find(name));
            let [Some(from), Some(to)] = ends else {
                return Err(wrong("its ends are no hosts".into()));
            };
            let ipv4 = config.family == Family::V4;
            // A script names its own addresses: there, any of the host's stands for it.
            let any = matches!(config.what, Traffic::Mgen(_));
            let address = |member: MemberId| {
                let prefixes = &self.topology.members[member].addresses;
                prefixes
                    .iter()
                    .map(|prefix| prefix.address)
                    .find(|address| any || address.is_ipv4() == ipv4)
            };
            let ports = Ports::nth(index as u16);
            if matches!(config.what, Traffic::Mail { .. }) {
                let post = strait_scenario::post(loaded, &self.traffic, config);
                let post = post.ok_or_else(|| wrong("there is no such switch".into()))?;
                let ends = address(from).map(|address| (address, post.switch));
                let ends = ends.ok_or_else(|| wrong("its host has no such address".into()))?;
                let host = self.world.host_mut(self.nodes[from]);
                let host = host.ok_or_else(|| wrong("comes from no host".into()))?;
                let addresses = [post.sender.as_str(), &post.recipient];
                strait_hosts::install_mail(config, host, ends, addresses, ports, seed);
                let far = self.world.host_mut(self.nodes[to]);
                if let (Some(server), Some(host)) = (post.server, far) {
                    let place = (server.address.port(), server.lmtp);
                    strait_hosts::install_mail_server(config, host, place, &server.boxes)?;
                }
                continue;
            }
            if config.is_echo() {
                let echo = match self.topology.members[to].role {
                    Role::Gateway(index) => loaded.nodes[index].config.echo.as_ref(),
                    _ => None,
                };
                let ends = address(from).zip(strait_scenario::echo_service(config, echo));
                let ends = ends.ok_or_else(|| wrong("there is no such service".into()))?;
                let host = self.world.host_mut(self.nodes[from]);
                let host = host.ok_or_else(|| wrong("comes from no host".into()))?;
                strait_hosts::install_echo(config, host, ends, ports, seed)?;
                continue;
            }
            let (Some(from_address), Some(to_address)) = (address(from), address(to)) else {
                let family = if ipv4 { "IPv4" } else { "IPv6" };
                return Err(wrong(format!("both hosts need an {family} address")));
            };
            let hosts = self.world.hosts_mut(self.nodes[from], self.nodes[to]);
            let (near, far) = hosts.ok_or_else(|| wrong("needs two different hosts".into()))?;
            strait_hosts::install(config, near, far, from_address, to_address, ports, seed)?;
        }
        Ok(())
    }

    fn break_down(&mut self, loaded: &Loaded, fault: &strait_scenario::Fault) {
        let pair = match fault.kind {
            FaultKind::Kill => {
                let member = self.topology.find(&fault.node);
                let node = member.map(|member| self.nodes[member]);
                node.map(|node| [Fault::Kill(node), Fault::Restart(node)])
            }
            FaultKind::Clock => {
                let member = self.topology.find(&fault.node);
                let by = fault.by.map_or(Duration::ZERO, |by| by.0);
                if let Some(member) = member {
                    let at = Instant::ZERO + fault.at.0;
                    self.world.plan(at, Fault::Clock(self.nodes[member], by));
                }
                return;
            }
            FaultKind::Unplug => {
                // Those that are carried are none of the world's.
                let mut own = loaded.links.iter().filter(|link| !link.is_carried());
                let link = own.position(|link| Some(&link.name) == fault.link.as_ref());
                let link = link.map(LinkIndex);
                link.map(|link| [Fault::Unplug(link), Fault::Plug(link)])
            }
        };
        let Some([breaks, mends]) = pair else {
            return;
        };
        let at = Instant::ZERO + fault.at.0;
        self.world.plan(at, breaks);
        if let Some(after) = fault.restart_after {
            self.world.plan(at + after.0, mends);
        }
    }
}
