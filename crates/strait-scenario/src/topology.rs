//! Who is attached to whom: the plain description that simulation and lab both build from.

use std::collections::VecDeque;
use std::net::SocketAddr;

use strait_core::PortId;
use strait_core::prefix::Prefix;
use strait_node::NodeConfig;

use crate::{HostEntry, Link, LinkEnd, Loaded};

mod cables;

pub use cables::{CABLE_LENGTH, Cable, cable_addresses};

/// Index of a member in [`Topology::members`].
pub type MemberId = usize;

/// The members of a scenario and the networks between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Gateways, then hosts, then routers, each in the scenario's order.
    pub members: Vec<Member>,
    /// Links in the scenario's order.
    pub links: Vec<TopologyLink>,
    /// One LAN for each host side of a gateway, or router, that has hosts behind it, in order.
    pub lans: Vec<Lan>,
}

/// A gateway, host or router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: Role,
    /// Prefixes of its own, on any interface.
    pub addresses: Vec<Prefix>,
    /// By what it reaches each host, in order of the hosts. Of a gateway, which has the routes of
    /// its node file, these are its machine's other ways: those that begin with a link of that.
    pub routes: Vec<Route>,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Index in the scenario's gateways.
    Gateway(usize),
    /// Index in the scenario's hosts.
    Host(usize),
    /// Index in the scenario's routers.
    Router(usize),
}

/// A link between two members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyLink {
    /// The name that metrics use.
    pub name: String,
    /// Ends a and b.
    pub ends: [End; 2],
    /// The hosts at whose addresses the ends are, where other gateways are the medium.
    pub over: Option<[MemberId; 2]>,
    /// The stations whose clients the ends are, where these are the medium.
    pub stations: Option<[End; 2]>,
}

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Who.
    pub member: MemberId,
    /// A gateway's port: 1 is its first link port. Hosts, routers and the machines of gateways
    /// number their own.
    pub port: Option<PortId>,
    /// On a gateway's port with several neighbours, which of them is at the other end: its index
    /// in the port's list.
    pub neighbour: Option<usize>,
}

impl End {
    /// Stations of a shared medium that are none of the port's neighbours have numbers from here
    /// on.
    pub const STRANGERS: usize = 0xff00;
}

/// Hosts behind a host side of a gateway, or behind a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lan {
    /// The gateway or router.
    pub gateway: MemberId,
    /// The gateway's host side; 0 of a router.
    pub port: PortId,
    /// The hosts.
    pub hosts: Vec<MemberId>,
    /// Addresses of the gateway's interface on it, as far as the scenario gives them.
    pub gateway_addresses: Vec<Prefix>,
}

/// A network that a member is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Index in [`Topology::links`].
    Link(usize),
    /// Index in [`Topology::lans`].
    Lan(usize),
}

/// The way to one prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// A host's network.
    pub prefix: Prefix,
    /// The network to leave by.
    pub via: Via,
    /// The member next on the way; `None` where the destination itself is on that network.
    pub next: Option<MemberId>,
}

/// The metric of a machine's other ways: a gateway leads its host by less, whatever the family, if
/// nothing else is said.
pub const OTHER_METRIC: u32 = 2000;

impl TopologyLink {
    /// It has no medium of its own: others carry it.
    pub const fn is_carried(&self) -> bool {
        self.over.is_some() || self.stations.is_some()
    }

    /// Where the datagrams of its ends come from and go to, where other gateways are the medium.
    pub fn sockets(&self, members: &[Member]) -> Option<[SocketAddr; 2]> {
        let over = self.over?;
        let of = |member: MemberId, ipv4: bool| {
            let addresses = members[member].addresses.iter();
            let mut addresses = addresses.map(|prefix| prefix.address);
            addresses.find(|address| address.is_ipv4() == ipv4)
        };
        let pair = |ipv4: bool| Some([of(over[0], ipv4)?, of(over[1], ipv4)?]);
        let pair = pair(false).or_else(|| pair(true))?;
        Some(pair.map(|address| SocketAddr::new(address, CARRIED_PORT)))
    }
}

/// UDP port of link ends that other gateways carry.
const CARRIED_PORT: u16 = 7001;

impl Topology {
    /// The topology of a scenario.
    pub fn new(loaded: &Loaded) -> Self {
        let mut topology = Self {
            members: members(loaded),
            links: Vec::new(),
            lans: Vec::new(),
        };
        topology.lans = topology.lans_of(loaded);
        let links = loaded.links.iter();
        topology.links = links
            .filter_map(|link| topology.link(loaded, link))
            .collect();
        for id in 0..topology.members.len() {
            topology.members[id].routes = topology.routes_from(id);
        }
        topology
    }

    /// Whether the machine of a gateway has links of its own.
    pub fn has_machine(&self, gateway: MemberId) -> bool {
        let mut links = self.links.iter();
        links.any(|link| link.ends.iter().any(|end| self.is_machine(gateway, end)))
    }

    fn is_machine(&self, gateway: MemberId, end: &End) -> bool {
        let role = self.members[gateway].role;
        end.member == gateway && end.port.is_none() && matches!(role, Role::Gateway(_))
    }

    /// Whether a way from a member may begin with a network: from gateways only with a link of
    /// their machines.
    fn begins(&self, from: MemberId, via: Via) -> bool {
        let Via::Link(index) = via else {
            return !matches!(self.members[from].role, Role::Gateway(_));
        };
        let mut ends = self.links[index].ends.iter();
        !matches!(self.members[from].role, Role::Gateway(_))
            || ends.any(|end| self.is_machine(from, end))
    }

    /// The member with a name.
    pub fn find(&self, name: &str) -> Option<MemberId> {
        self.members.iter().position(|member| member.name == name)
    }

    /// Whether any way, over any members, leads from one to the other.
    pub fn connected(&self, from: &str, to: &str) -> bool {
        match (self.find(from), self.find(to)) {
            (Some(from), Some(to)) => from == to || self.first_steps(from, |_| true)[to].is_some(),
            _ => false,
        }
    }

    fn lans_of(&self, loaded: &Loaded) -> Vec<Lan> {
        let lan = |(gateway, port): (MemberId, PortId)| {
            let behind = |host: &&HostEntry| self.place_of(loaded, host) == Some((gateway, port));
            let entries: Vec<_> = loaded.scenario.hosts.iter().filter(behind).collect();
            let mut gateway_addresses: Vec<Prefix> = Vec::new();
            for address in entries.iter().flat_map(|host| &host.gateway_addresses) {
                if !gateway_addresses.contains(address) {
                    gateway_addresses.push(*address);
                }
            }
            let hosts: Vec<_> = entries
                .iter()
                .filter_map(|host| self.find(&host.name))
                .collect();
            (!hosts.is_empty()).then_some(Lan {
                gateway,
                port,
                hosts,
                gateway_addresses,
            })
        };
        let sides = |(id, member): (MemberId, &Member)| -> Vec<(MemberId, PortId)> {
            match member.role {
                Role::Gateway(index) => {
                    let sides = loaded.nodes[index].config.host_sides();
                    sides.map(|(port, _)| (id, port)).collect()
                }
                Role::Host(_) | Role::Router(_) => vec![(id, PortId::HOST)],
            }
        };
        let members = self.members.iter().enumerate();
        members.flat_map(sides).filter_map(lan).collect()
    }

    /// The member behind which a host is, and its host side.
    fn place_of(&self, loaded: &Loaded, host: &HostEntry) -> Option<(MemberId, PortId)> {
        let place = host.place()?;
        let member = self.find(&place.node)?;
        let port = match (self.members[member].role, &place.port) {
            (Role::Gateway(index), Some(side)) => loaded.nodes[index].config.host_port(side)?,
            _ => PortId::HOST,
        };
        Some((member, port))
    }

    fn link(&self, loaded: &Loaded, link: &Link) -> Option<TopologyLink> {
        let end = |index: usize| {
            let end = &link.ends[index];
            let member = self.find(&end.node)?;
            let Role::Gateway(gateway) = self.members[member].role else {
                return Some(End {
                    member,
                    port: None,
                    neighbour: None,
                });
            };
            if end.is_host() {
                return Some(End {
                    member,
                    port: None,
                    neighbour: None,
                });
            }
            let ports = &loaded.nodes[gateway].config.ports;
            let index_of = |name: &String| ports.iter().position(|port| port.name == *name);
            let port = end.port.as_ref().and_then(index_of)?;
            let others = &ports[port].neighbours;
            let other = &link.ends[1 - index].node;
            let neighbour = others.iter().position(|it| it.name == *other);
            let neighbour = match neighbour {
                None if link.is_shared() => {
                    let medium = link.medium.as_ref()?;
                    Some(End::STRANGERS + medium.stations[1 - index])
                }
                _ => neighbour.filter(|_| others.len() > 1),
            };
            let port = u8::try_from(port + 1).ok().map(PortId);
            Some(End {
                member,
                port,
                neighbour,
            })
        };
        Some(TopologyLink {
            name: link.name.clone(),
            ends: [end(0)?, end(1)?],
            over: link.over.as_ref().and_then(|over| {
                let [a, b] = over.each_ref().map(|name| self.find(name));
                a.zip(b).map(Into::into)
            }),
            stations: link.stations.as_ref().and_then(|stations| {
                let [a, b] = stations.each_ref().map(|end| self.station(loaded, end));
                a.zip(b).map(Into::into)
            }),
        })
    }

    /// The port of a station that has clients.
    fn station(&self, loaded: &Loaded, end: &LinkEnd) -> Option<End> {
        let member = self.find(&end.node)?;
        let Role::Gateway(gateway) = self.members[member].role else {
            return None;
        };
        let ports = &loaded.nodes[gateway].config.ports;
        let named = |name: &String| ports.iter().position(|port| port.name == *name);
        let port = end.port.as_ref().and_then(named)?;
        Some(End {
            member,
            port: u8::try_from(port + 1).ok().map(PortId),
            neighbour: None,
        })
    }

    /// Networks that a member is attached to and who else is, links first, in order.
    fn attachments(&self, id: MemberId) -> Vec<(Via, MemberId)> {
        let across = |(index, link): (usize, &TopologyLink)| {
            let [a, b] = link.ends.map(|end| end.member);
            let other = if a == id {
                Some(b)
            } else {
                (b == id).then_some(a)
            };
            other.map(|other| (Via::Link(index), other))
        };
        let links = self.links.iter().enumerate().filter_map(across);
        let lans = self.lans.iter().enumerate().flat_map(|(index, lan)| {
            let all = std::iter::once(&lan.gateway).chain(&lan.hosts);
            let on_it = all.clone().any(|member| *member == id);
            let others = all.filter(move |member| on_it && **member != id);
            others.map(move |member| (Via::Lan(index), *member))
        });
        links.chain(lans).collect()
    }

    /// For every member the first step of a shortest way to it that begins with such a network;
    /// ties go to the network named first. Hosts don't forward.
    fn first_steps(
        &self,
        from: MemberId,
        begins: impl Fn(Via) -> bool,
    ) -> Vec<Option<(Via, MemberId)>> {
        let mut first: Vec<Option<(Via, MemberId)>> = vec![None; self.members.len()];
        let mut next = VecDeque::from([from]);
        while let Some(at) = next.pop_front() {
            if at != from && matches!(self.members[at].role, Role::Host(_)) {
                continue;
            }
            for (via, member) in self.attachments(at) {
                let may = at != from || begins(via);
                if may && member != from && first[member].is_none() {
                    first[member] = if at == from {
                        Some((via, member))
                    } else {
                        first[at]
                    };
                    next.push_back(member);
                }
            }
        }
        first
    }

    /// Shortest ways to the networks of all hosts. Host prefixes are used as they stand: two
    /// hosts on one LAN give one route.
    fn routes_from(&self, from: MemberId) -> Vec<Route> {
        let first = self.first_steps(from, |via| self.begins(from, via));
        let mut routes: Vec<Route> = Vec::new();
        let hosts = self
            .members
            .iter()
            .enumerate()
            .filter(|(id, member)| *id != from && matches!(member.role, Role::Host(_)));
        for (id, host) in hosts {
            let Some((via, next)) = first[id] else {
                continue;
            };
            let next = (!matches!(self.members[next].role, Role::Host(_))).then_some(next);
            for prefix in &host.addresses {
                let known = routes.iter().any(|route| {
                    route.prefix.length == prefix.length && route.prefix.contains(prefix.address)
                });
                if !known {
                    routes.push(Route {
                        prefix: *prefix,
                        via,
                        next,
                    });
                }
            }
        }
        routes
    }
}

/// The addresses of a gateway at all its host sides.
fn addresses(config: &NodeConfig) -> Vec<Prefix> {
    let sides = config.host.all();
    sides.flat_map(|side| &side.addresses).copied().collect()
}

fn members(loaded: &Loaded) -> Vec<Member> {
    let scenario = &loaded.scenario;
    let member = |name: &String, role, addresses: Vec<Prefix>| Member {
        name: name.clone(),
        role,
        addresses,
        routes: Vec::new(),
    };
    let gateways = loaded.nodes.iter().enumerate();
    let gateways = gateways
        .map(|(index, node)| member(&node.name, Role::Gateway(index), addresses(&node.config)));
    let hosts = scenario.hosts.iter().enumerate();
    let hosts =
        hosts.map(|(index, host)| member(&host.name, Role::Host(index), host.addresses.clone()));
    let routers = scenario.routers.iter().enumerate();
    let routers =
        routers.map(|(index, router)| member(&router.name, Role::Router(index), Vec::new()));
    gateways.chain(hosts).chain(routers).collect()
}
