//! Links, addresses and routes of the kernel, over a netlink socket (RFC 3549, `rtnetlink(7)`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage as Message};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use strait_core::Duration;
use strait_core::prefix::Prefix;

use crate::error::{Doing, Error};

mod led;

pub use self::led::{LedEvents, LedRoute, PROTOCOL};

/// The metric of the kernel's own routes of IPv6.
const METRIC_V6: u32 = 256;
/// The number of a route's attribute: the shortest time until TCP repeats.
const RTO_MIN: u32 = 13;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The kernel's number for it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it was set up.
    pub up: bool,
    /// Its maximum transmission unit in octets.
    pub mtu: u32,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The number of its interface.
    pub link: u32,
    /// The address.
    pub address: IpAddr,
    /// Length of its prefix in bits.
    pub length: u8,
}

/// A route of the main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// First address of the prefix.
    pub prefix: IpAddr,
    /// Length of the prefix in bits.
    pub length: u8,
    /// The next hop, if it isn't on the link itself.
    pub gateway: Option<IpAddr>,
    /// The number of the interface.
    pub link: Option<u32>,
}

/// The number of the main routing table.
pub const MAIN: u32 = RouteHeader::RT_TABLE_MAIN as u32;

/// A conversation with the kernel about one network namespace: that of the thread that opened
/// it, wherever it is used later.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a conversation about the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel gives no netlink socket.
    pub fn open() -> Result<Self, Error> {
        let connect = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // The kernel answers at once. An answer that got lost must not stop the caller.
            setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::seconds(1))?;
            Ok(socket)
        };
        Ok(Self {
            socket: connect().doing(|| "open a netlink socket")?,
            sequence: 0,
        })
    }

    /// All interfaces.
    ///
    /// # Errors
    /// The kernel's.
    pub fn links(&mut self) -> Result<Vec<Link>, Error> {
        let request = Message::GetLink(LinkMessage::default());
        let links = self.list(request, |reply| match reply {
            Message::NewLink(message) => Some(read_link(&message)),
            _ => None,
        });
        links.doing(|| "list the interfaces")
    }

    /// The interface with a name.
    ///
    /// # Errors
    /// There is none, or the kernel's.
    pub fn link(&mut self, name: &str) -> Result<Link, Error> {
        let links = self.links()?;
        links
            .into_iter()
            .find(|link| link.name == name)
            .ok_or_else(|| Error::new(format!("find interface `{name}`"), Errno::ENODEV))
    }

    /// Sets an interface up or down.
    ///
    /// # Errors
    /// The kernel's; `name` is for its text only, as in the calls below.
    pub fn set_up(&mut self, index: u32, name: &str, up: bool) -> Result<(), Error> {
        let word = if up { "up" } else { "down" };
        self.set_flag(index, LinkFlags::Up, up)
            .doing(|| format!("set interface `{name}` {word}"))
    }

    /// Whether the interface takes part in multicast. Without it the kernel sends no listener
    /// reports (RFC 3810) on it and routes no multicast to it by itself.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_multicast(&mut self, index: u32, name: &str, on: bool) -> Result<(), Error> {
        self.set_flag(index, LinkFlags::Multicast, on)
            .doing(|| format!("set multicast of interface `{name}`"))
    }

    /// Whether what is behind the interface is there, as its driver would say.
    ///
    /// # Errors
    /// The kernel's: few drivers let anybody say so, TUN among them.
    pub fn set_carrier(&mut self, index: u32, name: &str, on: bool) -> Result<(), Error> {
        let message = link_message(index, Some(LinkAttribute::Carrier(on.into())));
        self.change(Message::SetLink(message), 0)
            .doing(|| format!("set the carrier of interface `{name}`"))
    }

    fn set_flag(&mut self, index: u32, flag: LinkFlags, on: bool) -> io::Result<()> {
        let mut message = link_message(index, None);
        message.header.change_mask = flag;
        if on {
            message.header.flags = flag;
        }
        self.change(Message::SetLink(message), 0)
    }

    /// Sets an interface's maximum transmission unit.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_mtu(&mut self, index: u32, name: &str, mtu: u32) -> Result<(), Error> {
        let message = link_message(index, Some(LinkAttribute::Mtu(mtu)));
        self.change(Message::SetLink(message), 0)
            .doing(|| format!("set the MTU of interface `{name}` to {mtu}"))
    }

    /// Makes a pair of virtual Ethernet interfaces: `name` here, `peer` in the namespace that
    /// the descriptor stands for, or here too.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: Option<BorrowedFd<'_>>,
    ) -> Result<(), Error> {
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer.into()));
        if let Some(descriptor) = peer_namespace {
            let descriptor = LinkAttribute::NetNsFd(descriptor.as_raw_fd());
            other.attributes.push(descriptor);
        }
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        self.create(Message::NewLink(message))
            .doing(|| format!("create interfaces `{name}` and `{peer}`"))
    }

    /// Makes an Ethernet bridge.
    ///
    /// # Errors
    /// The kernel's: one without bridges says that the operation isn't supported.
    pub fn add_bridge(&mut self, name: &str) -> Result<(), Error> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.into()));
        let kind = LinkInfo::Kind(InfoKind::Bridge);
        message.attributes.push(LinkAttribute::LinkInfo(vec![kind]));
        self.create(Message::NewLink(message))
            .doing(|| format!("create bridge `{name}`"))
    }

    /// Makes an interface a port of a bridge.
    ///
    /// # Errors
    /// There is no such bridge, or the kernel's.
    pub fn join_bridge(&mut self, index: u32, name: &str, bridge: &str) -> Result<(), Error> {
        let found = self.link(bridge).map_err(|error| {
            error.with_remedy(format!("make it first: ip link add {bridge} type bridge"))
        })?;
        let message = link_message(index, Some(LinkAttribute::Controller(found.index)));
        self.change(Message::SetLink(message), 0)
            .doing(|| format!("make interface `{name}` a port of bridge `{bridge}`"))
    }

    /// Removes an interface.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_link(&mut self, index: u32, name: &str) -> Result<(), Error> {
        let message = link_message(index, None);
        self.change(Message::DelLink(message), 0)
            .doing(|| format!("remove interface `{name}`"))
    }

    /// Gives an interface an address, usable at once: no duplicate detection (RFC 4862, 5.4).
    /// An address that it has already is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_address(
        &mut self,
        index: u32,
        name: &str,
        address: IpAddr,
        length: u8,
    ) -> Result<(), Error> {
        let message = address_message(index, address, length);
        unless_exists(self.create(Message::NewAddress(message)))
            .doing(|| format!("add address {address}/{length} to interface `{name}`"))
    }

    /// All addresses.
    ///
    /// # Errors
    /// The kernel's.
    pub fn addresses(&mut self) -> Result<Vec<Address>, Error> {
        let request = Message::GetAddress(AddressMessage::default());
        let addresses = self.list(request, |reply| match reply {
            Message::NewAddress(message) => read_address(&message),
            _ => None,
        });
        addresses.doing(|| "list the addresses")
    }

    /// Adds a route to the main table, by a gateway, an interface, or both. One that is there
    /// already is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_route(
        &mut self,
        prefix: IpAddr,
        length: u8,
        gateway: Option<IpAddr>,
        link: Option<u32>,
    ) -> Result<(), Error> {
        let message = route_message(prefix, length, gateway, link);
        unless_exists(self.create(Message::NewRoute(message)))
            .doing(|| format!("add a route to {prefix}/{length}"))
    }

    /// Adds a route to everywhere else by a gateway, over which TCP controls congestion by
    /// `congestion`, whatever the default is, unless a program chooses for itself. A namespace may
    /// choose for a route what it may not have as its default.
    ///
    /// # Errors
    /// The kernel's; it has to have the congestion control.
    pub fn add_default_route(&mut self, gateway: IpAddr, congestion: &str) -> Result<(), Error> {
        let any = match gateway {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let mut message = route_message(any, 0, Some(gateway), None);
        message.attributes.push(control(congestion));
        self.create(Message::NewRoute(message))
            .doing(|| format!("add a route by {gateway}, with {congestion} for TCP"))
    }

    /// Adds a route to a prefix by an interface, over which TCP controls congestion as with
    /// [`Netlink::add_default_route`]; with a metric, if it isn't the kernel's choice.
    ///
    /// # Errors
    /// The kernel's; it has to have the congestion control.
    pub fn add_link_route(
        &mut self,
        prefix: IpAddr,
        length: u8,
        link: u32,
        congestion: &str,
        metric: Option<u32>,
    ) -> Result<(), Error> {
        let mut message = route_message(prefix, length, None, Some(link));
        let priority = metric.map(RouteAttribute::Priority);
        message.attributes.extend(priority);
        message.attributes.push(control(congestion));
        self.create(Message::NewRoute(message))
            .doing(|| format!("add a route to {prefix}/{length}, with {congestion} for TCP"))
    }

    /// Has TCP wait at least so long for an acknowledgement from the network of an interface's
    /// address, before it sends anything again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_patience(
        &mut self,
        link: u32,
        address: IpAddr,
        length: u8,
        patience: Duration,
    ) -> Result<(), Error> {
        let Some(network) = Prefix::new(address, length).map(Prefix::network) else {
            return Ok(());
        };
        if length == if address.is_ipv4() { 32 } else { 128 } {
            // The address alone: there is nobody else.
            return Ok(());
        }
        // In place of the kernel's own, which it is otherwise the same as.
        let mut message = route_message(network.address, length, None, Some(link));
        message.header.protocol = RouteProtocol::Kernel;
        message.attributes.push(match address {
            IpAddr::V4(_) => RouteAttribute::PrefSource(RouteAddress::from(address)),
            IpAddr::V6(_) => RouteAttribute::Priority(METRIC_V6),
        });
        let ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        // Only what is locked bounds the time.
        let metrics = vec![RouteMetric::Lock(1 << RTO_MIN), RouteMetric::RtoMin(ms)];
        message.attributes.push(RouteAttribute::Metrics(metrics));
        self.change(Message::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE)
            .doing(|| {
                format!(
                    "have TCP wait for answers from {}/{length}",
                    network.address
                )
            })
    }

    /// Removes a route from the main table.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_route(
        &mut self,
        prefix: IpAddr,
        length: u8,
        gateway: Option<IpAddr>,
        link: Option<u32>,
    ) -> Result<(), Error> {
        let message = route_message(prefix, length, gateway, link);
        self.change(Message::DelRoute(message), 0)
            .doing(|| format!("remove the route to {prefix}/{length}"))
    }

    /// The unicast routes of the main table, both families.
    ///
    /// # Errors
    /// The kernel's.
    pub fn routes(&mut self) -> Result<Vec<Route>, Error> {
        let mut routes = self.all_routes()?;
        routes.retain(|(table, _)| *table == MAIN);
        Ok(routes.into_iter().map(|(_, route)| route).collect())
    }

    /// The unicast routes of all tables, both families, each with its table's number.
    ///
    /// # Errors
    /// The kernel's.
    pub fn all_routes(&mut self) -> Result<Vec<(u32, Route)>, Error> {
        let all = self.list_routes(&[], read_route);
        all.doing(|| "list the routes")
    }

    /// What `read` makes of the routes of both families that the kernel gives for such attributes.
    fn list_routes<T>(
        &mut self,
        attributes: &[RouteAttribute],
        read: impl Fn(&RouteMessage) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut request = RouteMessage::default();
            request.header.address_family = family;
            request.attributes = attributes.to_vec();
            let listed = self.list(Message::GetRoute(request), |reply| match reply {
                Message::NewRoute(message) => read(&message),
                _ => None,
            });
            match listed {
                // A kernel without that family, or with no route of the kind yet.
                Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => {}
                listed => routes.extend(listed?),
            }
        }
        Ok(routes)
    }

    /// Adds or removes a route by an interface in a table of one's own.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_table_route(
        &mut self,
        table: u32,
        prefix: IpAddr,
        length: u8,
        link: u32,
        there: bool,
    ) -> Result<(), Error> {
        let mut message = route_message(prefix, length, None, Some(link));
        message.header.table = RouteHeader::RT_TABLE_UNSPEC;
        message.attributes.push(RouteAttribute::Table(table));
        let result = if there {
            unless_exists(self.create(Message::NewRoute(message)))
        } else {
            self.change(Message::DelRoute(message), 0)
        };
        let word = if there { "add" } else { "remove" };
        result.doing(|| format!("{word} the route to {prefix}/{length} in table {table}"))
    }

    /// Adds a rule at a place: what comes in by an interface, or by any but that one, goes by a
    /// table; by the main one without its number. One that is there already is no error.
    ///
    /// # Errors
    /// The kernel's.
    pub fn add_rule(
        &mut self,
        ipv4: bool,
        place: u32,
        interface: &str,
        any_but: bool,
        table: Option<u32>,
    ) -> Result<(), Error> {
        let message = rule_message(ipv4, place, interface, any_but, table);
        unless_exists(self.create(Message::NewRule(message)))
            .doing(|| format!("add routing rule {place}"))
    }

    /// Removes such a rule.
    ///
    /// # Errors
    /// The kernel's.
    pub fn delete_rule(
        &mut self,
        ipv4: bool,
        place: u32,
        interface: &str,
        any_but: bool,
        table: Option<u32>,
    ) -> Result<(), Error> {
        let message = rule_message(ipv4, place, interface, any_but, table);
        self.change(Message::DelRule(message), 0)
            .doing(|| format!("remove routing rule {place}"))
    }

    /// The interfaces that rules at a place name and that aren't there any more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn detached_rules(&mut self, ipv4: bool, place: u32) -> Result<Vec<String>, Error> {
        let mut request = RuleMessage::default();
        request.header.family = rule_family(ipv4);
        let interfaces = self.list(Message::GetRule(request), |reply| match reply {
            Message::NewRule(rule) => detached_at(&rule, place),
            _ => None,
        });
        interfaces.doing(|| "list the routing rules")
    }

    fn change(&mut self, message: Message, flags: u16) -> io::Result<()> {
        self.exchange(message, NLM_F_REQUEST | NLM_F_ACK | flags)
            .map(drop)
    }

    /// Changes what isn't there yet.
    fn create(&mut self, message: Message) -> io::Result<()> {
        self.change(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// All that the kernel has of what `request` names, as `read` takes it.
    fn list<T>(
        &mut self,
        request: Message,
        read: impl FnMut(Message) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        let replies = self.exchange(request, NLM_F_REQUEST | NLM_F_DUMP)?;
        Ok(replies.into_iter().filter_map(read).collect())
    }

    /// Sends a request and collects what comes before its end: an acknowledgement, an error or,
    /// after a dump, the end mark.
    fn exchange(&mut self, message: Message, flags: u16) -> io::Result<Vec<Message>> {
        let octets = self.request(message, flags);
        self.socket.send(&octets, 0)?;
        let mut replies = Vec::new();
        let own = self.sequence;
        self.receive(|sequence, payload| {
            if sequence != own {
                return Ok(false);
            }
            match payload {
                NetlinkPayload::InnerMessage(message) => replies.push(message),
                NetlinkPayload::Done(done) if done.code < 0 => {
                    return Err(io::Error::from_raw_os_error(-done.code));
                }
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) if error.code.is_none() => return Ok(true),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
            Ok(false)
        })?;
        Ok(replies)
    }

    /// A request as octets, with the next number.
    fn request(&mut self, message: Message, flags: u16) -> Vec<u8> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut octets = vec![0; request.buffer_len()];
        request.serialize(&mut octets);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets
    }

    /// Hands over what comes, each with the number of the request that it answers, until `take`
    /// says that this is all.
    fn receive(
        &mut self,
        mut take: impl FnMut(u32, NetlinkPayload<Message>) -> io::Result<bool>,
    ) -> io::Result<()> {
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = datagram.as_slice();
            while !rest.is_empty() {
                let reply = NetlinkMessage::<Message>::deserialize(rest)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                let length = (reply.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or(&[]);
                if take(reply.header.sequence_number, reply.payload)? {
                    return Ok(());
                }
            }
        }
    }
}

/// Hears what the kernel says to groups of `rtnetlink`, in the calling thread's namespace.
#[derive(Debug)]
struct Events(Socket);

impl Events {
    fn open(groups: &[u32]) -> Result<Self, Error> {
        let listen = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            for group in groups {
                socket.add_membership(*group)?;
            }
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let doing = || "listen to changes of the routing table";
        listen().doing(doing).map(Self)
    }

    /// Takes what was said, and tells whether any of it matters. After too many changes at once the
    /// kernel leaves some away, and says only that it did: that does.
    fn drain(&self, matters: impl Fn(&[u8]) -> bool) -> bool {
        let mut any = false;
        loop {
            match self.0.recv_from_full() {
                Ok((datagram, _)) => any |= matters(&datagram),
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => any = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return any,
            }
        }
    }
}

/// Hears of changes of routes, rules and interfaces in the calling thread's namespace.
pub struct RouteEvents(Events);

impl RouteEvents {
    /// Interfaces, routes and rules of IPv4, routes and rules of IPv6.
    const GROUPS: [u32; 5] = [1, 7, 8, 11, 19];

    /// Begins to listen.
    ///
    /// # Errors
    /// The kernel gives no netlink socket.
    pub fn open() -> Result<Self, Error> {
        Events::open(&Self::GROUPS).map(Self)
    }

    /// Takes what was said, and tells whether anything was.
    pub fn drain(&mut self) -> bool {
        self.0.drain(|_| true)
    }
}

impl AsFd for RouteEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.0.as_fd()
    }
}

fn rule_message(
    ipv4: bool,
    place: u32,
    interface: &str,
    any_but: bool,
    table: Option<u32>,
) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = rule_family(ipv4);
    message.header.action = RuleAction::ToTable;
    if any_but {
        message.header.flags = RuleFlags::Invert;
    }
    let table = table.unwrap_or(MAIN);
    message.attributes.extend([
        RuleAttribute::Priority(place),
        RuleAttribute::Iifname(interface.into()),
        RuleAttribute::Table(table),
    ]);
    message
}

const fn rule_family(ipv4: bool) -> AddressFamily {
    if ipv4 {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    }
}

/// The interface that a rule names, if the rule is at a place and the interface isn't there.
fn detached_at(rule: &RuleMessage, place: u32) -> Option<String> {
    let mut attributes = rule.attributes.iter();
    let gone = rule.header.flags.contains(RuleFlags::IifDetached);
    if !gone || !attributes.any(|it| *it == RuleAttribute::Priority(place)) {
        return None;
    }
    rule.attributes
        .iter()
        .find_map(|attribute| match attribute {
            RuleAttribute::Iifname(name) => Some(name.clone()),
            _ => None,
        })
}

fn unless_exists(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(Errno::EEXIST as i32) => Ok(()),
        result => result,
    }
}

const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn link_message(index: u32, attribute: Option<LinkAttribute>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.attributes.extend(attribute);
    message
}

fn address_message(index: u32, address: IpAddr, length: u8) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = length;
    message.header.index = index;
    if address.is_ipv6() {
        message.header.flags = AddressHeaderFlags::Nodad;
    }
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
    ];
    message
}

/// What TCP controls congestion by over a route.
fn control(congestion: &str) -> RouteAttribute {
    RouteAttribute::Metrics(vec![RouteMetric::CcAlgo(congestion.into())])
}

fn route_message(
    prefix: IpAddr,
    length: u8,
    gateway: Option<IpAddr>,
    link: Option<u32>,
) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(prefix);
    message.header.destination_prefix_length = length;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.kind = RouteType::Unicast;
    if gateway.is_none() && prefix.is_ipv4() {
        message.header.scope = RouteScope::Link;
    }
    let destination = RouteAttribute::Destination(RouteAddress::from(prefix));
    message.attributes.push(destination);
    if let Some(gateway) = gateway {
        let gateway = RouteAttribute::Gateway(RouteAddress::from(gateway));
        message.attributes.push(gateway);
    }
    message.attributes.extend(link.map(RouteAttribute::Oif));
    message
}

fn read_link(message: &LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        up: message.header.flags.contains(LinkFlags::Up),
        mtu: 0,
    };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            _ => {}
        }
    }
    link
}

fn read_address(message: &AddressMessage) -> Option<Address> {
    // A point-to-point interface has its own address in `Local`, others in `Address`.
    let find =
        |pick: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(pick);
    let local = find(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    let address = local.or_else(|| {
        find(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })?;
    Some(Address {
        link: message.header.index,
        address,
        length: message.header.prefix_len,
    })
}

fn read_route(message: &RouteMessage) -> Option<(u32, Route)> {
    let header = &message.header;
    if header.kind != RouteType::Unicast {
        return None;
    }
    let mut table = header.table.into();
    let mut route = Route {
        prefix: match header.address_family {
            AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
            AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
            _ => return None,
        },
        length: header.destination_prefix_length,
        gateway: None,
        link: None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(address) => route.prefix = read_ip(address)?,
            RouteAttribute::Gateway(address) => route.gateway = read_ip(address),
            RouteAttribute::Oif(index) => route.link = Some(*index),
            RouteAttribute::Table(number) => table = *number,
            _ => {}
        }
    }
    Some((table, route))
}

fn read_ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anyone_may_list_and_errors_name_the_interface() {
        let mut netlink = Netlink::open().unwrap();
        let lo = netlink.link("lo").unwrap();
        assert!(lo.index > 0 && lo.mtu > 0);
        netlink.addresses().unwrap();
        netlink.routes().unwrap();
        let error = netlink.link("none0").unwrap_err().to_string();
        assert!(error.contains("find interface `none0`"), "{error}");
        let error = netlink.set_up(0x7fff_0000, "none0", true).unwrap_err();
        assert!(error.to_string().contains("`none0` up"), "{error}");
    }
}
