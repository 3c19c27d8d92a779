//! Who is heard, whom they hear, and which of them are relays (RFC 3626 sections 7, 8, 13, 14).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::stats::OlsrStats;
use strait_core::{Duration, Instant, NeighbourId, PortId};

use crate::message::{Hello, LinkCode, LinkType, NeighbourType, Quality};
use crate::router::{Settings, Via};

/// Links at a time.
const LINKS_MAX: usize = 256;
/// Pairs of a neighbour and whom it hears.
const PAIRS_MAX: usize = 4096;

/// How good a link is taken for (section 14), in parts of 2^16.
const SCALING: u32 = ONE / 2;
const HIGH: u32 = ONE / 10 * 8;
const LOW: u32 = ONE / 10 * 3;
const ONE: u32 = 1 << 16;

/// A link is taken for broken after so many frames in a row that the medium couldn't deliver, ...
const FAILURES: u8 = 6;
/// ... for at least so long, while nothing was heard of its neighbour: among stations that don't
/// hear each other some frames are lost in a row without anything being broken.
const FAILING: Duration = Duration::from_millis(500);

/// Packets of a neighbour that tell how many of them come, as many as RFC 7779 keeps in mind: of 16
/// that are lost by halves chance lets more than two thirds come now and then, and routes flap.
const WINDOW: u32 = 64;
/// The last of them, which tell sooner of a link that became worse, ...
const LATE: u32 = 16;
/// ... where their share is lower by more than what chance does, in 255ths.
const WORSE: u32 = 64;
/// Packets by which a new link is known: so many are counted, whether or not they were sent yet.
const PROOF: u32 = 8;
/// The least difference to what was told of a link that is worth another route, in 255ths.
const NOTED: u8 = 32;

/// Which of a neighbour's last packets came, by their numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// A bit each, the last one lowest.
    came: u64,
    counted: u32,
    /// The share that is told, in 255ths.
    told: u8,
}

impl Window {
    /// A packet came, and so many before it didn't. Whether that is told otherwise than before.
    fn count(&mut self, missed: u32) -> bool {
        // What was before its first packet nobody knows.
        let missed = if self.counted == 0 { 0 } else { missed };
        self.came = self.came.checked_shl(missed + 1).unwrap_or(0) | 1;
        self.counted = (self.counted + missed + 1).min(WINDOW);
        // A link that is new has to prove itself.
        let share = |of: u32| {
            let counted = self.counted.min(of);
            let came = (self.came & (u64::MAX >> (64 - counted))).count_ones();
            came * 255 / counted.max(PROOF)
        };
        let share = share(WINDOW).min(share(LATE) + WORSE) as u8;
        let other = share.abs_diff(self.told) >= NOTED || share == u8::MAX;
        other && core::mem::replace(&mut self.told, share) != share
    }
}

/// A link: how an address of a neighbour's is heard.
#[derive(Clone, Debug)]
struct Link {
    /// The neighbour's main address.
    main: IpAddr,
    /// Until when both are taken to hear each other.
    symmetric: Instant,
    /// Until when the neighbour is taken to be heard.
    heard: Instant,
    /// When it is forgotten.
    ends: Instant,
    /// When it may be told again as anything but lost.
    lost: Instant,
    quality: u32,
    /// Not good enough yet.
    pending: bool,
    /// The number of its last packet.
    number: u16,
    /// The interval of its hellos, and when one is missed.
    interval: Duration,
    missed: Instant,
    /// Frames that weren't delivered since anything was heard or delivered, and since when.
    failures: u8,
    failing: Instant,
    window: Window,
    /// The share of what is sent to it that comes there, as it says; none before it has.
    arrives: Option<u8>,
}

impl Link {
    /// How good it is. What a neighbour hasn't said is taken to be as it is heard.
    fn quality(&self) -> Quality {
        Quality {
            of: self.main,
            comes: self.window.told,
            arrives: self.arrives.unwrap_or(self.window.told),
        }
    }

    fn is_symmetric(&self, now: Instant) -> bool {
        now < self.symmetric && !self.pending && now >= self.lost
    }

    fn code(&self, now: Instant) -> Option<LinkType> {
        if now < self.lost {
            return Some(LinkType::Lost);
        }
        if self.pending {
            return None;
        }
        Some(match (now < self.symmetric, now < self.heard) {
            (true, _) => LinkType::Symmetric,
            (false, true) => LinkType::Asymmetric,
            (false, false) => LinkType::Lost,
        })
    }

    /// A packet came, and so many before it didn't.
    fn count(&mut self, missed: u16) {
        for _ in 0..missed.min(8) {
            self.quality /= 2;
        }
        self.quality = (self.quality - self.quality / 2) + SCALING;
    }

    /// Takes the quality for what it is now.
    fn judge(&mut self, now: Instant, hold: Duration) {
        if self.quality > HIGH {
            self.pending = false;
            self.lost = Instant::ZERO;
        } else if self.quality < LOW {
            if !self.pending {
                self.lost = self.ends.min(now + hold);
            }
            self.pending = true;
        }
    }

    fn is_failing(&self, now: Instant) -> bool {
        self.failures >= FAILURES && now.since(self.failing) >= FAILING
    }
}

/// Neighbours, and theirs.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// By the way, and the address at its end.
    links: BTreeMap<(Via, IpAddr), Link>,
    willingness: BTreeMap<IpAddr, u8>,
    /// Whom neighbours hear, both ways, by main addresses, and until when.
    pairs: BTreeMap<(IpAddr, IpAddr), Instant>,
    /// Those of them whose neighbour hears the other by the channel by which it is heard here, at
    /// this port: hellos say so by the kind of link.
    same: BTreeSet<(PortId, IpAddr, IpAddr)>,
    /// The neighbours that pass on what comes from here.
    relays: BTreeSet<IpAddr>,
    /// Those that have this node for such, and until when.
    selectors: BTreeMap<IpAddr, Instant>,
    /// The ways to neighbours that hear this node, as they were when routes were found.
    were: Vec<(Via, IpAddr)>,
    /// Routes or relays may follow otherwise from what is known now.
    stirred: bool,
}

/// What a hello or the time changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// A neighbour is none any more.
    pub(crate) lost: bool,
    /// Who has this node for a relay.
    pub(crate) selectors: bool,
}

impl Neighbours {
    /// Takes in that a packet with this number came by a way. Whether it is the first of that
    /// number.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        (via, from): (Via, IpAddr),
        number: u16,
        on: &Settings,
    ) -> bool {
        let Some(link) = self.links.get_mut(&(via, from)) else {
            return true;
        };
        (link.failures, link.failing) = (0, Instant::NEVER);
        let before = core::mem::replace(&mut link.number, number);
        if before == number {
            return false;
        }
        let missed = number.wrapping_sub(before).wrapping_sub(1);
        // A number from far behind is that of a new start.
        let missed = if missed < 16 { missed } else { 0 };
        self.stirred |= link.window.count(missed.into()) && on.etx;
        if !on.hysteresis {
            return true;
        }
        link.count(missed);
        let hold = on.hello * 3;
        link.judge(now, hold);
        true
    }

    /// Takes in a hello (sections 7.1.1, 8.1.1, 8.2.1 and 8.4.1).
    pub(crate) fn take(
        &mut self,
        now: Instant,
        (via, from): (Via, IpAddr),
        (main, valid): (IpAddr, Duration),
        hello: &Hello,
        on: &Settings,
    ) -> Changes {
        let was = self.is_neighbour(now, main);
        let known = self.links.len();
        let until = now + valid;
        let link = match self.links.get_mut(&(via, from)) {
            Some(link) => link,
            None if known < LINKS_MAX => self.links.entry((via, from)).or_insert_with(|| Link {
                main,
                symmetric: Instant::ZERO,
                heard: Instant::ZERO,
                ends: until,
                lost: Instant::ZERO,
                quality: SCALING,
                pending: on.hysteresis,
                number: 0,
                interval: hello.interval,
                missed: Instant::NEVER,
                failures: 0,
                failing: Instant::NEVER,
                window: Window::default(),
                arrives: None,
            }),
            None => return Changes::default(),
        };
        link.main = main;
        link.heard = until;
        link.interval = hello.interval;
        // A hello is missed when the one after it could have come.
        link.missed = now + hello.interval + hello.interval / 2;
        let of_own = hello.links.iter().filter(|(_, it)| *it == on.main);
        for (code, _) in of_own.clone() {
            match code.link {
                LinkType::Lost => link.symmetric = Instant::ZERO,
                LinkType::Symmetric | LinkType::Asymmetric => {
                    link.symmetric = until;
                    link.ends = link.ends.max(until + on.hello * 3);
                }
                LinkType::Unspecified => {}
            }
        }
        link.ends = link.ends.max(until);
        let before = self.willingness.insert(main, hello.willingness);
        self.stirred |= before != Some(hello.willingness);
        let mut changes = Changes::default();
        if !self.is_neighbour(now, main) {
            changes.lost = was;
            changes.selectors = self.selectors.remove(&main).is_some();
            return changes;
        }
        for (code, other) in &hello.links {
            if *other != on.main {
                self.pair((main, *other), code.neighbour, until);
                let same = (via.port, main, *other);
                let is_same = code.link == LinkType::Symmetric;
                if is_same && self.pairs.contains_key(&(main, *other)) {
                    self.stirred |= self.same.insert(same);
                } else {
                    self.stirred |= self.same.remove(&same);
                }
            }
        }
        if of_own
            .clone()
            .any(|(code, _)| code.neighbour == NeighbourType::Relay)
        {
            changes.selectors = self.selectors.insert(main, until).is_none();
        } else if of_own.count() > 0 {
            changes.selectors = self.selectors.remove(&main).is_some();
        }
        changes
    }

    /// A neighbour says what another is to it.
    fn pair(&mut self, pair: (IpAddr, IpAddr), is: NeighbourType, until: Instant) {
        if is == NeighbourType::Not {
            self.stirred |= self.pairs.remove(&pair).is_some();
        } else if self.pairs.len() < PAIRS_MAX || self.pairs.contains_key(&pair) {
            self.stirred |= self.pairs.insert(pair, until).is_none();
        }
    }

    /// The medium could, or couldn't, deliver a frame to whom a way leads: a neighbour that
    /// acknowledges is there, for as long as a hello would say so. Whether one is lost by that
    /// (section 13).
    pub(crate) fn tell(&mut self, now: Instant, via: Via, ok: bool, hold: Duration) -> bool {
        let mut broken = false;
        let of_way = self.links.iter_mut().filter(|((way, _), _)| *way == via);
        for (_, link) in of_way {
            if ok {
                (link.failures, link.failing) = (0, Instant::NEVER);
                if link.is_symmetric(now) {
                    link.symmetric = link.symmetric.max(now + hold);
                    link.heard = link.heard.max(now + hold);
                    link.ends = link.ends.max(now + hold * 2);
                }
                continue;
            }
            link.failures = link.failures.saturating_add(1);
            link.failing = link.failing.min(now);
            if link.is_failing(now) && link.is_symmetric(now) {
                link.symmetric = Instant::ZERO;
                // Nobody hears it until it says something again.
                link.heard = Instant::ZERO;
                broken = true;
            }
        }
        broken
    }

    /// Something else than a router's packet came by a way: whoever it leads to isn't gone.
    pub(crate) fn comes(&mut self, via: Via) {
        let of_way = self.links.iter_mut().filter(|((way, _), _)| *way == via);
        for (_, link) in of_way {
            (link.failures, link.failing) = (0, Instant::NEVER);
        }
    }

    /// Lets go of what has run out by now.
    pub(crate) fn advance(&mut self, now: Instant, on: &Settings) -> Changes {
        for link in self.links.values_mut() {
            if on.hysteresis && link.missed <= now {
                link.quality /= 2;
                link.missed = now + link.interval;
                link.judge(now, on.hello * 3);
            }
        }
        let links = self.links.len();
        self.links.retain(|_, link| now < link.ends);
        let gone = links != self.links.len();
        let symmetric: BTreeSet<IpAddr> = self.symmetric(now).map(|(_, main)| main).collect();
        if gone {
            let links = &self.links;
            let known = |main: &IpAddr| links.values().any(|link| link.main == *main);
            self.willingness.retain(|main, _| known(main));
        }
        let (pairs, selectors) = (self.pairs.len(), self.selectors.len());
        self.pairs
            .retain(|(by, _), until| now < *until && symmetric.contains(by));
        let pairs_now = &self.pairs;
        self.same
            .retain(|(_, by, far)| pairs_now.contains_key(&(*by, *far)));
        self.selectors
            .retain(|main, until| now < *until && symmetric.contains(main));
        self.stirred |= pairs != self.pairs.len();
        Changes {
            lost: false,
            selectors: selectors != self.selectors.len(),
        }
    }

    /// Whether relays or routes may be others than when this was asked before.
    pub(crate) fn stirred(&mut self, now: Instant) -> bool {
        let are: Vec<(Via, IpAddr)> = self.symmetric(now).collect();
        let moved = are != self.were;
        self.were = are;
        core::mem::take(&mut self.stirred) || moved
    }

    /// When something runs out next.
    pub(crate) fn due(&self, now: Instant, on: &Settings) -> Instant {
        let links = self.links.values().flat_map(|link| {
            let missed = if on.hysteresis {
                link.missed
            } else {
                Instant::NEVER
            };
            [link.symmetric, link.heard, link.lost, link.ends, missed]
        });
        let pairs = self.pairs.values().copied();
        let all = links.chain(pairs).chain(self.selectors.values().copied());
        all.filter(|at| *at > now).min().unwrap_or(Instant::NEVER)
    }

    /// The ways to neighbours that hear this node, with their main addresses.
    pub(crate) fn symmetric(&self, now: Instant) -> impl Iterator<Item = (Via, IpAddr)> + '_ {
        let links = self.links.iter();
        let links = links.filter(move |(_, link)| link.is_symmetric(now));
        links.map(|((via, _), link)| (*via, link.main))
    }

    /// Whether some are heard, no more than `most`, and each hears this node.
    pub(crate) fn are_mutual(&self, now: Instant, most: usize) -> bool {
        (1..=most).contains(&self.links.len())
            && self.links.values().all(|link| link.is_symmetric(now))
    }

    /// Neighbours at a port that get a copy of what is for all: all if there are no more than
    /// `most`, else the relays.
    pub(crate) fn keen(&self, now: Instant, port: PortId, most: usize) -> Vec<NeighbourId> {
        let here = self.symmetric(now).filter(|(via, _)| via.port == port);
        let here: Vec<(Via, IpAddr)> = here.collect();
        let few = here.len() <= most;
        let keen = here
            .iter()
            .filter(|(_, main)| few || self.relays.contains(main));
        keen.map(|(via, _)| via.to).collect()
    }

    /// A neighbour says what comes to it of what is sent from here.
    pub(crate) fn arrives(&mut self, main: IpAddr, share: u8) {
        for link in self.links.values_mut().filter(|link| link.main == main) {
            self.stirred |= link.arrives.replace(share) != Some(share);
        }
    }

    /// How good the links to neighbours are that hear this node; of several to one the best.
    pub(crate) fn qualities(&self, now: Instant) -> Vec<Quality> {
        let links = self.links.values().filter(|link| link.is_symmetric(now));
        let mut all: BTreeMap<IpAddr, Quality> = BTreeMap::new();
        for quality in links.map(Link::quality) {
            let best = all.entry(quality.of).or_insert(quality);
            if quality.cost() < best.cost() {
                *best = quality;
            }
        }
        all.into_values().collect()
    }

    /// The same as the cost of each way.
    pub(crate) fn costs(&self, now: Instant) -> impl Iterator<Item = (Via, IpAddr, u32)> + '_ {
        let links = self.links.iter();
        let links = links.filter(move |(_, link)| link.is_symmetric(now));
        links.map(|((via, _), link)| (*via, link.main, link.quality().cost()))
    }

    pub(crate) fn is_neighbour(&self, now: Instant, main: IpAddr) -> bool {
        self.symmetric(now).any(|(_, it)| it == main)
    }

    /// The main address of the neighbour that hears this node at the end of a way.
    pub(crate) fn at(&self, now: Instant, via: Via, from: IpAddr) -> Option<IpAddr> {
        let link = self.links.get(&(via, from))?;
        link.is_symmetric(now).then_some(link.main)
    }

    pub(crate) fn has_selector(&self, main: IpAddr) -> bool {
        self.selectors.contains_key(&main)
    }

    pub(crate) fn selectors(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.selectors.keys().copied()
    }

    /// Whom neighbours hear that may pass something on.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> + '_ {
        let pairs = self.pairs.keys().copied();
        pairs.filter(|(by, _)| self.willingness_of(*by) > 0)
    }

    /// Neighbours that hear others by the channel by which they are heard at a port.
    pub(crate) fn same_channel(&self) -> impl Iterator<Item = (PortId, IpAddr, IpAddr)> + '_ {
        self.same.iter().copied()
    }

    fn willingness_of(&self, main: IpAddr) -> u8 {
        self.willingness.get(&main).copied().unwrap_or(0)
    }

    /// What a hello at a port says of links (section 6.2). In order of the codes.
    pub(crate) fn links_at(&self, now: Instant, port: PortId) -> Hellos {
        let mut all: Hellos = self
            .links
            .iter()
            .filter(|((via, _), _)| via.port == port)
            .filter_map(|((_, from), link)| {
                let neighbour = self.type_of(now, link.main);
                let link = link.code(now)?;
                Some((LinkCode { link, neighbour }, *from))
            })
            .collect();
        // What is heard at another port alone is a neighbour all the same.
        let mut others: BTreeSet<IpAddr> = self.symmetric(now).map(|(_, main)| main).collect();
        let here =
            |((via, _), link): (&(Via, IpAddr), &Link)| (via.port == port).then_some(link.main);
        for main in self.links.iter().filter_map(here) {
            others.remove(&main);
        }
        all.extend(others.into_iter().map(|main| {
            let link = LinkType::Unspecified;
            let neighbour = self.type_of(now, main);
            (LinkCode { link, neighbour }, main)
        }));
        all.sort_unstable();
        all
    }

    fn type_of(&self, now: Instant, main: IpAddr) -> NeighbourType {
        if self.relays.contains(&main) {
            NeighbourType::Relay
        } else if self.is_neighbour(now, main) {
            NeighbourType::Symmetric
        } else {
            NeighbourType::Not
        }
    }

    /// Chooses relays anew (section 8.3.1): few neighbours by which everybody two hops away is
    /// reached, and each neighbour that is reached at less cost over another one than directly:
    /// what is sent to all seldom comes there (RFC 7181 section 18). `cost` is that of a link of a
    /// neighbour's, where costs count. All ports together, as each message goes by all of them.
    /// Whether others are it now.
    pub(crate) fn choose_relays(
        &mut self,
        now: Instant,
        own: IpAddr,
        cost: impl Fn(IpAddr, IpAddr) -> Option<u32>,
    ) -> bool {
        let mut near: BTreeMap<IpAddr, u32> = BTreeMap::new();
        for (_, main, cost) in self.costs(now) {
            let least = near.entry(main).or_insert(cost);
            *least = cost.min(*least);
        }
        let mut reached: BTreeMap<IpAddr, BTreeSet<IpAddr>> = BTreeMap::new();
        for (by, far) in self.pairs() {
            let Some(first) = near.get(&by).filter(|_| far != own) else {
                continue;
            };
            let over = cost(by, far).map(|cost| first.saturating_add(cost));
            let direct = near.get(&far);
            if direct.is_none_or(|direct| over.is_some_and(|over| over < *direct)) {
                reached.entry(far).or_default().insert(by);
            }
        }
        let degree = |by: IpAddr| reached.values().filter(|all| all.contains(&by)).count();
        let always = near.keys().filter(|by| self.willingness_of(**by) == 7);
        let mut relays: BTreeSet<IpAddr> = always.copied().collect();
        // Those by whom alone somebody is reached.
        for by in reached.values().filter(|by| by.len() == 1) {
            relays.extend(by);
        }
        loop {
            let open = reached.values().filter(|by| by.is_disjoint(&relays));
            let mut gains: BTreeMap<IpAddr, usize> = BTreeMap::new();
            for by in open.flatten() {
                *gains.entry(*by).or_default() += 1;
            }
            // Among equals the one that is it already: others know their way by it.
            let best = gains.into_iter().max_by_key(|(by, gain)| {
                let is = self.relays.contains(by);
                (self.willingness_of(*by), *gain, degree(*by), is)
            });
            let Some((by, _)) = best else { break };
            relays.insert(by);
        }
        // Whom others make needless, in ascending order of willingness.
        let mut needless: Vec<IpAddr> = relays.iter().copied().collect();
        needless.sort_by_key(|by| self.willingness_of(*by));
        for by in needless {
            let covers = |all: &BTreeSet<IpAddr>| {
                !all.contains(&by) || all.iter().any(|it| *it != by && relays.contains(it))
            };
            if self.willingness_of(by) < 7 && reached.values().all(covers) {
                relays.remove(&by);
            }
        }
        let changed = relays != self.relays;
        self.relays = relays;
        changed
    }

    pub(crate) fn count(&self, now: Instant, stats: &mut OlsrStats) {
        let near: BTreeSet<IpAddr> = self.symmetric(now).map(|(_, main)| main).collect();
        stats.neighbours = near.len() as u64;
        stats.relays = self.relays.len() as u64;
        stats.selectors = self.selectors.len() as u64;
    }
}

/// What a hello says of links.
type Hellos = Vec<(LinkCode, IpAddr)>;
