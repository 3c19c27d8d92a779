//! Forwarding by the host's own routing table, whoever fills it.
//!
//! A route of the main table by a neighbour's address is that neighbour's: the node gets it, and
//! what the host forwards to its prefix goes into the node first, by a routing table of our own
//! that a rule leads to. What the node hands back, and what the host says itself, goes by the main
//! table as ever. Nobody has to be told of a change: the table is read again when it changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use strait_core::id::{NeighbourId, PortId};
use strait_core::node::RouteChange;
use strait_core::time::{Duration, Instant};
use strait_node::NodeConfig;

use super::netlink::{MAIN, Netlink, RouteEvents};
use crate::error::Error;
use crate::node_loop::service::{Service, View};

/// Our routing table, and the places of its rules before the main table's (32766).
const TABLE: u32 = 5700;
const HANDED_BACK: u32 = 5699;
const FORWARDED: u32 = 5700;

/// A routing daemon that changes many routes at once says each; the table is read once for all.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a neighbour's route that is gone counts as there. A routing protocol finds out that a
/// way is lost some seconds before it finds another, and until then packets had better wait.
const HOLD: Duration = Duration::from_secs(10);

/// Where a prefix lies.
type Way = (PortId, NeighbourId);

/// The host's own networks.
const HOST: Way = (PortId::HOST, NeighbourId::PEER);

/// Follows the host's main routing table for a node.
pub(crate) struct KernelRoutes {
    events: RouteEvents,
    netlink: Netlink,
    interface: String,
    neighbours: Vec<(IpAddr, Way)>,
    known: BTreeMap<(IpAddr, u8), Way>,
    /// Of those, the ones that aren't there any more, and since when.
    lost: BTreeMap<(IpAddr, u8), Instant>,
    changes: VecDeque<RouteChange>,
    /// When the table is to be read again.
    due: Option<Instant>,
}

impl KernelRoutes {
    /// Begins to follow it. The node's interface has to be there.
    ///
    /// # Errors
    /// The kernel's: it may have no rules.
    pub(crate) fn open(config: &NodeConfig) -> Result<Self, Error> {
        let mut netlink = Netlink::open()?;
        let interface = config.host.interface.clone();
        for ipv4 in [true, false] {
            clear_leftovers(&mut netlink, ipv4)?;
        }
        put_rules(&mut netlink, &interface)?;
        Ok(Self {
            // The table and the rules are looked at afterwards.
            events: RouteEvents::open()?,
            netlink,
            interface,
            neighbours: neighbours(config),
            known: BTreeMap::new(),
            lost: BTreeMap::new(),
            changes: VecDeque::new(),
            due: Some(Instant::ZERO),
        })
    }

    /// Reads the table, takes note of what is new, and puts again what of ours is gone.
    fn read(&mut self, now: Instant) -> Result<(), Error> {
        let own = self.netlink.link(&self.interface)?.index;
        let mut found = BTreeMap::new();
        let mut ours = BTreeSet::new();
        for (table, route) in self.netlink.all_routes()? {
            let on_link = matches!(route.prefix, IpAddr::V6(at) if at.is_unicast_link_local());
            if route.link == Some(own) || on_link {
                if table == TABLE {
                    ours.insert((route.prefix, route.length));
                }
                continue;
            }
            if table != MAIN {
                continue;
            }
            let by = |gateway| self.neighbours.iter().find(|(at, _)| Some(*at) == gateway);
            let way = by(route.gateway).map_or(HOST, |(_, way)| *way);
            // Of several to one prefix the kernel names the one first that it uses.
            found.entry((route.prefix, route.length)).or_insert(way);
        }
        self.hold(now, &mut found);
        self.tell(found);
        self.put(own, &ours)
    }

    /// Tells the node what lies elsewhere than before.
    fn tell(&mut self, found: BTreeMap<(IpAddr, u8), Way>) {
        let before = std::mem::replace(&mut self.known, found);
        let known = &self.known;
        let gone = before.iter().filter(|(at, way)| known.get(at) != Some(way));
        let new = known.iter().filter(|(at, way)| before.get(at) != Some(way));
        let gone = gone.map(|(&(prefix, length), _)| RouteChange::Remove { prefix, length });
        let new = new.map(|(&(prefix, length), &(port, via))| RouteChange::Add {
            prefix,
            length,
            port,
            via,
        });
        self.changes.extend(gone.chain(new));
    }

    /// Makes the kernel give the node what lies behind neighbours, where of all that only `there`
    /// is left: routes go with an interface, and rules with whoever takes them for leftovers.
    fn put(&mut self, own: u32, there: &BTreeSet<(IpAddr, u8)>) -> Result<(), Error> {
        put_rules(&mut self.netlink, &self.interface)?;
        let wanted = self.known.iter().filter(|(_, way)| **way != HOST);
        let wanted: BTreeSet<(IpAddr, u8)> = wanted.map(|(at, _)| *at).collect();
        for (prefix, length) in there.symmetric_difference(&wanted) {
            let wanted = wanted.contains(&(*prefix, *length));
            self.netlink
                .set_table_route(TABLE, *prefix, *length, own, wanted)?;
        }
        Ok(())
    }

    /// Counts as found what was lost only lately.
    fn hold(&mut self, now: Instant, found: &mut BTreeMap<(IpAddr, u8), Way>) {
        let known = &self.known;
        self.lost
            .retain(|prefix, _| known.contains_key(prefix) && !found.contains_key(prefix));
        for (prefix, way) in known.iter().filter(|(_, way)| **way != HOST) {
            if found.contains_key(prefix) {
                continue;
            }
            let since = *self.lost.entry(*prefix).or_insert(now);
            if now < since + HOLD {
                found.insert(*prefix, *way);
            }
        }
        let ends = self.lost.values().map(|since| *since + HOLD);
        self.due = ends.filter(|end| now < *end).min();
    }
}

/// Puts the rules that lead to our table, where they aren't.
fn put_rules(netlink: &mut Netlink, interface: &str) -> Result<(), Error> {
    for ipv4 in [true, false] {
        netlink.add_rule(ipv4, HANDED_BACK, interface, false, None)?;
        netlink.add_rule(ipv4, FORWARDED, "lo", true, Some(TABLE))?;
    }
    Ok(())
}

/// Removes rules of gateways that were killed: their interfaces are gone. The other kind of rule is
/// the same for all gateways, and leads on where its table is empty.
fn clear_leftovers(netlink: &mut Netlink, ipv4: bool) -> Result<(), Error> {
    for gone in netlink.detached_rules(ipv4, HANDED_BACK)? {
        netlink.delete_rule(ipv4, HANDED_BACK, &gone, false, None)?;
        tracing::info!(
            interface = gone,
            "removed the routing rule of a killed gateway"
        );
    }
    Ok(())
}

/// The addresses of all neighbours that have one.
fn neighbours(config: &NodeConfig) -> Vec<(IpAddr, Way)> {
    let ports = (1..).map(PortId).zip(&config.ports);
    let all = ports.flat_map(|(port, entry)| {
        let numbers = (0..).map(NeighbourId).zip(&entry.neighbours);
        numbers.filter_map(move |(to, it)| Some((it.address?.ip(), (port, to))))
    });
    all.collect()
}

impl Service for KernelRoutes {
    fn interests(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        vec![(self.events.as_fd(), false)]
    }

    fn serve(&mut self, view: &View<'_>) {
        if self.events.drain() {
            let soon = view.now + PAUSE;
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        }
        if self.due.is_some_and(|at| at <= view.now) {
            self.due = None;
            if let Err(error) = self.read(view.now) {
                tracing::warn!(%error, "cannot follow the host's routing table");
                self.due = Some(view.now + Duration::from_secs(1));
            }
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.due
    }

    fn poll_route(&mut self) -> Option<RouteChange> {
        self.changes.pop_front()
    }
}

impl Drop for KernelRoutes {
    fn drop(&mut self) {
        // The routes go with the interface. Rules that stay lead to an empty table, and on.
        for ipv4 in [true, false] {
            let interface = &self.interface;
            let _ = (self.netlink).delete_rule(ipv4, HANDED_BACK, interface, false, None);
            let _ = (self.netlink).delete_rule(ipv4, FORWARDED, "lo", true, Some(TABLE));
        }
    }
}

#[cfg(test)]
mod tests {
    use strait_node::config_text;

    use super::*;
    use crate::kernel::namespace::Namespace;
    use crate::ports::PortIo;
    use crate::ports::tun::{TunConfig, TunPort};

    const NODE: &str = r#"
        name = "a"
        routing = "kernel"
        host = { interface = "strait0" }
        [[port]]
        name = "radio"
        kind = "udp"
        profile = "hbh"
        neighbours = [
            { name = "b", address = "10.255.0.2:7001" },
            { name = "c", address = "10.255.0.3:7001" },
        ]
    "#;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn changes(routes: &mut KernelRoutes) -> Vec<RouteChange> {
        changes_at(routes, Instant::ZERO)
    }

    fn changes_at(routes: &mut KernelRoutes, now: Instant) -> Vec<RouteChange> {
        routes.read(now).unwrap();
        std::iter::from_fn(|| routes.poll_route()).collect()
    }

    #[test]
    fn rules_that_a_killed_gateway_left_go_at_the_next_start() {
        if !nix::unistd::Uid::effective().is_root() {
            eprintln!("kernel routes: skipped, this needs root");
            return;
        }
        let namespace = Namespace::create("gateway").unwrap();
        let gateway = |interface: &str| {
            let mut tun = TunPort::new(TunConfig {
                interface: interface.into(),
                addresses: Vec::new(),
                mtu: 1400,
            });
            let text = NODE.replace("strait0", interface);
            let config: NodeConfig = config_text::parse("a.toml", &text).unwrap();
            let routes = namespace.enter(|| {
                tun.open(Instant::ZERO)?;
                KernelRoutes::open(&config)
            });
            (tun, routes.unwrap().unwrap())
        };
        let mut netlink = namespace.netlink().unwrap();
        let mut left = || [true, false].map(|v4| netlink.detached_rules(v4, HANDED_BACK).unwrap());
        let (tun, routes) = gateway("strait7");
        let other = gateway("strait8");
        // Killed, it takes nothing back, and the kernel takes its interface.
        std::mem::forget(routes);
        drop(tun);
        assert_eq!(left(), [["strait7"], ["strait7"]]);
        let third = gateway("strait9");
        assert_eq!(left(), [[""; 0]; 2]);
        drop((other, third));
        assert_eq!(left(), [[""; 0]; 2]);
    }

    #[test]
    fn what_somebody_took_is_put_again() {
        if !nix::unistd::Uid::effective().is_root() {
            eprintln!("kernel routes: skipped, this needs root");
            return;
        }
        let namespace = Namespace::create("gateway").unwrap();
        let other = Namespace::create("other").unwrap();
        namespace.connect("wlan0", &other, "wlan0").unwrap();
        namespace
            .add_address("wlan0", ip("10.255.0.1"), 24)
            .unwrap();
        let config = TunConfig {
            interface: "strait0".into(),
            addresses: Vec::new(),
            mtu: 1400,
        };
        let open = || {
            let mut tun = TunPort::new(config.clone());
            tun.open(Instant::ZERO).unwrap();
            tun
        };
        let tun = namespace.enter(open).unwrap();
        let node: NodeConfig = config_text::parse("a.toml", NODE).unwrap();
        let routes = namespace.enter(|| KernelRoutes::open(&node)).unwrap();
        let mut routes = routes.unwrap();
        namespace
            .add_route(ip("10.2.0.0"), 16, ip("10.255.0.2"))
            .unwrap();
        assert_eq!(changes(&mut routes).len(), 2);
        let mut netlink = namespace.netlink().unwrap();
        let mut there = || {
            let own = netlink.link("strait0").unwrap().index;
            let all = netlink.all_routes().unwrap().into_iter();
            let ours = all.filter(|(table, route)| *table == TABLE && route.link == Some(own));
            ours.map(|(_, route)| route.prefix).collect::<Vec<_>>()
        };
        assert_eq!(there(), [ip("10.2.0.0")]);

        // The interface comes back as another one. The node's routes are as they were.
        drop(tun);
        assert!(routes.read(Instant::ZERO).is_err());
        let _tun = namespace.enter(open).unwrap();
        assert!(there().is_empty());
        assert_eq!(
            (changes(&mut routes), there()),
            (vec![], vec![ip("10.2.0.0")])
        );

        // Somebody takes a rule or a route, and it is heard of.
        routes.events.drain();
        let mut netlink = namespace.netlink().unwrap();
        let own = netlink.link("strait0").unwrap().index;
        netlink
            .set_table_route(TABLE, ip("10.2.0.0"), 16, own, false)
            .unwrap();
        assert!(routes.events.drain());
        assert_eq!(
            (changes(&mut routes), there()),
            (vec![], vec![ip("10.2.0.0")])
        );
        for (place, interface, any_but, table) in [
            (HANDED_BACK, "strait0", false, None),
            (FORWARDED, "lo", true, Some(TABLE)),
        ] {
            routes.events.drain();
            let mut take = || netlink.delete_rule(true, place, interface, any_but, table);
            take().unwrap();
            assert!(routes.events.drain());
            assert_eq!(changes(&mut routes), []);
            take().unwrap();
        }
    }

    #[test]
    fn a_node_has_the_routes_by_its_neighbours_and_their_changes() {
        if !nix::unistd::Uid::effective().is_root() {
            eprintln!("kernel routes: skipped, this needs root");
            return;
        }
        let namespace = Namespace::create("gateway").unwrap();
        let other = Namespace::create("other").unwrap();
        namespace.connect("wlan0", &other, "wlan0").unwrap();
        namespace
            .add_address("wlan0", ip("10.255.0.1"), 24)
            .unwrap();
        let mut tun = TunPort::new(TunConfig {
            interface: "strait0".into(),
            addresses: Vec::new(),
            mtu: 1400,
        });
        namespace
            .enter(|| tun.open(Instant::ZERO))
            .unwrap()
            .unwrap();
        let config: NodeConfig = config_text::parse("a.toml", NODE).unwrap();
        let open = || KernelRoutes::open(&config);
        let mut routes = namespace.enter(open).unwrap().unwrap();
        let add = |prefix, length, (port, via)| RouteChange::Add {
            prefix: ip(prefix),
            length,
            port,
            via,
        };
        let remove = |prefix, length| RouteChange::Remove {
            prefix: ip(prefix),
            length,
        };
        let [b, c] = [0, 1].map(|number| (PortId(1), NeighbourId(number)));
        assert_eq!(changes(&mut routes), [add("10.255.0.0", 24, HOST)]);
        // The kernel may still tell of addresses of its own that it has tried.
        let told = || std::thread::sleep(Duration::from_millis(20));
        assert!((0..200).map(|_| told()).any(|()| !routes.events.drain()));
        let by = |gateway| namespace.add_route(ip("10.2.0.0"), 16, ip(gateway));
        by("10.255.0.2").unwrap();
        assert!(routes.events.drain());
        assert_eq!(changes(&mut routes), [add("10.2.0.0", 16, b)]);
        let mut netlink = namespace.netlink().unwrap();
        netlink
            .delete_route(ip("10.2.0.0"), 16, Some(ip("10.255.0.2")), None)
            .unwrap();
        by("10.255.0.3").unwrap();
        let moved = [remove("10.2.0.0", 16), add("10.2.0.0", 16, c)];
        assert_eq!(changes(&mut routes), moved);
        // It is lost, and counts as there until another has had time to be found.
        netlink
            .delete_route(ip("10.2.0.0"), 16, Some(ip("10.255.0.3")), None)
            .unwrap();
        let end = Instant::ZERO + HOLD;
        let before = Instant::from_nanos(end.as_nanos() - 1);
        assert_eq!(changes(&mut routes), []);
        assert_eq!(
            (changes_at(&mut routes, before), routes.due),
            (vec![], Some(end))
        );
        assert_eq!(changes_at(&mut routes, end), [remove("10.2.0.0", 16)]);
        assert_eq!((changes_at(&mut routes, end), routes.due), (vec![], None));
        // By somebody who is no neighbour: the host's own affair.
        by("10.255.0.9").unwrap();
        assert_eq!(changes(&mut routes), [add("10.2.0.0", 16, HOST)]);
        // The interface goes, and with it every route by it.
        let wlan = netlink.link("wlan0").unwrap().index;
        netlink.set_up(wlan, "wlan0", false).unwrap();
        assert!(routes.events.drain());
        let gone = [remove("10.2.0.0", 16), remove("10.255.0.0", 24)];
        assert_eq!(changes(&mut routes), gone);
    }
}
