//! Who reaches whom beyond the neighbours, what lies behind whom, and the routes that follow
//! (RFC 3626 sections 5.4, 9.5, 10 and 12.5).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::Instant;
use strait_core::prefix::Prefix;

use crate::message::Quality;
use crate::neighbours::Neighbours;
use crate::router::{Settings, Via};

/// Pairs of a relay and whom it reaches.
const PAIRS_MAX: usize = 8192;
/// Further addresses of nodes.
const ALIASES_MAX: usize = 1024;
/// Networks behind nodes.
const NETWORKS_MAX: usize = 2048;

/// A route that is new, or another than before, or is there no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// To what.
    pub prefix: Prefix,
    /// By what; `None` if nothing leads there any more.
    pub via: Option<Via>,
    /// Links on the way to the node that has it, the first among them: 1 if the neighbour sends on
    /// by another channel.
    pub links: u8,
}

/// The first step of a route, and how many links it has that share its channel.
type Way = (Via, u8);

/// What nodes further away have told of themselves.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// By relay and whom it reaches: the number of the set, and until when.
    pairs: BTreeMap<(IpAddr, IpAddr), (u16, Instant)>,
    /// The main addresses of others, and until when.
    aliases: BTreeMap<IpAddr, (IpAddr, Instant)>,
    /// By who tells of them: networks, and until when.
    networks: BTreeMap<(Prefix, IpAddr), Instant>,
    /// By node and neighbour: what the link costs, and until when.
    costs: BTreeMap<(IpAddr, IpAddr), (u32, Instant)>,
    /// The routes of today.
    routes: BTreeMap<Prefix, Way>,
    /// Others may follow from what is known now.
    stirred: bool,
}

/// Whether a number is before another, as numbers that begin anew after the last (section 19).
const fn is_before(a: u16, b: u16) -> bool {
    a != b && b.wrapping_sub(a) < 0x8000
}

impl Topology {
    /// Takes whom a relay reaches, unless a later set is known.
    pub(crate) fn take_tc(
        &mut self,
        relay: IpAddr,
        (number, reached): (u16, Vec<IpAddr>),
        until: Instant,
    ) {
        let mut all = self.pairs.range((relay, MIN_OF_ALL)..);
        let known = all.next().filter(|((by, _), _)| *by == relay);
        if known.is_some_and(|(_, (known, _))| is_before(number, *known)) {
            return;
        }
        let before = self.pairs.len();
        self.pairs
            .retain(|(by, _), (known, _)| *by != relay || !is_before(*known, number));
        self.stirred |= before != self.pairs.len();
        for other in reached {
            let pair = (relay, other);
            if self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&pair) {
                self.stirred |= self.pairs.insert(pair, (number, until)).is_none();
            }
        }
    }

    /// Takes further addresses of a node's.
    pub(crate) fn take_mid(&mut self, main: IpAddr, others: Vec<IpAddr>, until: Instant) {
        for other in others {
            if self.aliases.len() < ALIASES_MAX || self.aliases.contains_key(&other) {
                let before = self.aliases.insert(other, (main, until));
                self.stirred |= before.is_none_or(|(before, _)| before != main);
            }
        }
    }

    /// Takes networks behind a node.
    pub(crate) fn take_hna(&mut self, by: IpAddr, networks: Vec<Prefix>, until: Instant) {
        for network in networks {
            let key = (network, by);
            if self.networks.len() < NETWORKS_MAX || self.networks.contains_key(&key) {
                self.stirred |= self.networks.insert(key, until).is_none();
            }
        }
    }

    /// Takes how good a node's links are.
    pub(crate) fn take_qualities(&mut self, by: IpAddr, all: &[Quality], until: Instant) {
        for quality in all {
            let pair = (by, quality.of);
            if self.costs.len() < PAIRS_MAX || self.costs.contains_key(&pair) {
                let before = self.costs.insert(pair, (quality.cost(), until));
                self.stirred |= before.is_none_or(|(before, _)| before != quality.cost());
            }
        }
    }

    /// What a node's link to another costs, as it says.
    pub(crate) fn cost(&self, by: IpAddr, far: IpAddr) -> Option<u32> {
        self.costs.get(&(by, far)).map(|(cost, _)| *cost)
    }

    /// What a node's links cost, as it says.
    #[cfg(test)]
    pub(crate) fn costs_of(&self, by: IpAddr) -> Vec<(IpAddr, u32)> {
        let all = self.costs.range((by, MIN_OF_ALL)..);
        let own = all.take_while(|((it, _), _)| *it == by);
        own.map(|((_, of), (cost, _))| (*of, *cost)).collect()
    }

    /// The main address of whom an address is.
    pub(crate) fn main_of(&self, address: IpAddr) -> IpAddr {
        self.aliases
            .get(&address)
            .map_or(address, |(main, _)| *main)
    }

    /// Lets go of what has run out by now.
    pub(crate) fn advance(&mut self, now: Instant) {
        let count = |it: &Self| it.pairs.len() + it.aliases.len() + it.networks.len();
        let before = count(self);
        self.pairs.retain(|_, (_, until)| now < *until);
        self.aliases.retain(|_, (_, until)| now < *until);
        self.networks.retain(|_, until| now < *until);
        // They say nothing without a pair, which has its own time.
        self.costs.retain(|_, (_, until)| now < *until);
        self.stirred |= before != count(self);
    }

    /// Whether routes may be others than when this was asked before.
    pub(crate) fn stirred(&mut self) -> bool {
        core::mem::take(&mut self.stirred)
    }

    /// When something runs out next.
    pub(crate) fn due(&self) -> Instant {
        let pairs = self.pairs.values().map(|(_, until)| *until);
        let aliases = self.aliases.values().map(|(_, until)| *until);
        let all = pairs.chain(aliases).chain(self.networks.values().copied());
        all.min().unwrap_or(Instant::NEVER)
    }

    pub(crate) fn routes(&self) -> usize {
        self.routes.len()
    }

    /// Finds the routes anew, by the fewest hops or the least sum of costs, and tells what is
    /// otherwise. Among ways that are as short, that of before stays.
    pub(crate) fn find_routes(
        &mut self,
        now: Instant,
        on: &Settings,
        near: &Neighbours,
    ) -> Vec<Change> {
        let own = on.main;
        let mut beyond: BTreeMap<IpAddr, Vec<(IpAddr, u32)>> = BTreeMap::new();
        let cost = |by: IpAddr, far: IpAddr| {
            let known = self.cost(by, far).filter(|_| on.etx);
            known.unwrap_or(Quality::LEAST)
        };
        let mut reaches = |by: IpAddr, far: IpAddr| {
            let far = self.main_of(far);
            let all = beyond.entry(by).or_default();
            all.push((far, cost(by, far)));
        };
        for (by, far) in near.pairs() {
            reaches(by, far);
        }
        let same = near.same_channel();
        let same: BTreeSet<_> = same
            .map(|(port, by, far)| (port, by, self.main_of(far)))
            .collect();
        let beside: BTreeSet<IpAddr> = near.symmetric(now).map(|(_, main)| main).collect();
        for (by, far) in self.pairs.keys() {
            // Of neighbours' neighbours hellos tell, and tell better.
            if !beside.contains(by) {
                reaches(*by, *far);
            }
        }
        let mut search = Search {
            routes: &self.routes,
            ways: BTreeMap::new(),
            next: BTreeSet::new(),
            found: 0,
        };
        for (via, main, cost) in near.costs(now) {
            search.reach(main, if on.etx { cost } else { Quality::LEAST }, (via, 1));
        }
        while let Some((cost, _, by)) = search.next.pop_first() {
            let (known, (via, links)) = search.ways[&by];
            // It may have been found nearer meanwhile.
            let all = beyond.get(&by).filter(|_| known == cost);
            for (far, more) in all.into_iter().flatten().filter(|(far, _)| *far != own) {
                let shares = links > 1 || same.contains(&(via.port, by, *far));
                let way = (via, links.saturating_add(shares.into()));
                search.reach(*far, cost.saturating_add(*more), way);
            }
        }
        let ways = search.ways;
        let mut routes: BTreeMap<Prefix, Way> = BTreeMap::new();
        for (address, (_, way)) in &ways {
            routes.insert(host(*address), *way);
        }
        for (other, (main, _)) in &self.aliases {
            if let (Some((_, way)), true) = (ways.get(main), *other != own) {
                routes.entry(host(*other)).or_insert(*way);
            }
        }
        let mut nearest: BTreeMap<Prefix, (u32, Way)> = BTreeMap::new();
        for (network, by) in self.networks.keys() {
            let Some((cost, way)) = ways.get(by) else {
                continue;
            };
            let known = nearest.get(network);
            let stays = self.routes.get(network).is_some_and(|it| it.0 == way.0);
            if known.is_none_or(|(known, _)| cost < known || (cost == known && stays)) {
                nearest.insert(*network, (*cost, *way));
            }
        }
        for (network, (_, way)) in nearest {
            routes.entry(network).or_insert(way);
        }
        // Nobody else's word leads away what lies behind this node.
        routes.retain(|prefix, _| !on.is_own(*prefix));
        let changes = changes(&self.routes, &routes);
        self.routes = routes;
        changes
    }
}

/// A search for ways, the nearest nodes first.
struct Search<'a> {
    /// The routes of before, which stay among those that cost the same.
    routes: &'a BTreeMap<Prefix, Way>,
    ways: BTreeMap<IpAddr, (u32, Way)>,
    /// Nodes to go on from by their costs, of equals the one that was found first.
    next: BTreeSet<(u32, usize, IpAddr)>,
    found: usize,
}

impl Search<'_> {
    fn reach(&mut self, to: IpAddr, cost: u32, way: Way) {
        let known = self.ways.get(&to).map(|(known, _)| *known);
        let nearer = known.is_none_or(|known| cost < known);
        let stays = || self.routes.get(&host(to)).is_some_and(|it| it.0 == way.0);
        if nearer || (known == Some(cost) && stays()) {
            self.ways.insert(to, (cost, way));
        }
        if nearer {
            self.found += 1;
            self.next.insert((cost, self.found, to));
        }
    }
}

/// Before any address, in either family.
const MIN_OF_ALL: IpAddr = IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);

fn host(address: IpAddr) -> Prefix {
    let length = if address.is_ipv4() { 32 } else { 128 };
    Prefix { address, length }
}

/// What leads elsewhere than before, what is new, and what is gone.
fn changes(before: &BTreeMap<Prefix, Way>, now: &BTreeMap<Prefix, Way>) -> Vec<Change> {
    let gone = before.keys().filter(|it| !now.contains_key(it));
    let gone = gone.map(|prefix| Change {
        prefix: *prefix,
        via: None,
        links: 0,
    });
    let new = now
        .iter()
        .filter(|(prefix, way)| before.get(prefix) != Some(way));
    let new = new.map(|(prefix, (via, links))| Change {
        prefix: *prefix,
        via: Some(*via),
        links: *links,
    });
    gone.chain(new).collect()
}
