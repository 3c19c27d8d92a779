//! What a node wants its host to reach by it, in the kernel's main routing table.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use strait_core::host_routes::{BATCH, HostRoute, HostRoutes, Step};
use strait_core::id::PortId;
use strait_core::node::{Lead, RouteEvent, RouteOp};
use strait_core::prefix::Prefix;
use strait_core::time::{Duration, Instant};

use super::netlink::{LedEvents, LedRoute, Netlink};
use crate::error::{Doing, Error};

/// Looks at the table don't follow sooner upon each other: a host may have a large one.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Who changes the table changes much at once: it is looked at once for all.
const PAUSE: Duration = Duration::from_millis(20);

/// The kernel's metric of a route of IPv6 that was given none.
const METRIC_V6: u32 = 1024;

/// The host sides that are open, by the names of their interfaces.
pub(crate) type Interfaces<'a> = BTreeMap<PortId, &'a str>;

/// What came of a prefix.
type News = (Prefix, RouteEvent);

/// The routes of a node, from the first of them on.
#[derive(Default)]
pub(crate) struct LedRoutes {
    routes: HostRoutes,
    kernel: Option<Kernel>,
    news: Vec<News>,
    /// When the table is to be looked at.
    look_at: Option<Instant>,
    looked: Option<Instant>,
}

struct Kernel {
    netlink: Netlink,
    events: LedEvents,
}

impl Kernel {
    fn open() -> Result<Self, Error> {
        Ok(Self {
            events: LedEvents::open()?,
            netlink: Netlink::open()?,
        })
    }
}

/// The numbers of those interfaces that are there.
fn links(interfaces: &Interfaces<'_>) -> BTreeMap<PortId, u32> {
    let pairs = interfaces.iter();
    pairs
        .filter_map(|(port, name)| Some((*port, if_nametoindex(*name).ok()?)))
        .collect()
}

impl LedRoutes {
    /// Takes a wish of the node.
    pub(crate) fn ask(&mut self, now: Instant, prefix: Prefix, op: RouteOp) {
        let op = match op {
            RouteOp::Lead(lead) if prefix.address.is_ipv6() && lead.metric == 0 => {
                RouteOp::Lead(Lead {
                    metric: METRIC_V6,
                    ..lead
                })
            }
            op => op,
        };
        let told = self.routes.ask(now, prefix, op);
        let news = told.map(|event| (prefix.network(), event));
        self.news.extend(news);
    }

    /// A host side is there again: who was killed may have left routes by it, and its own are gone.
    pub(crate) fn look_again(&mut self, now: Instant) {
        self.look_at = Some(now);
    }

    /// What to wait on for [`LedRoutes::hear`].
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.kernel.as_ref()?.events.as_fd())
    }

    /// The host's table or an interface has changed.
    pub(crate) fn hear(&mut self, now: Instant) {
        let Some(kernel) = &mut self.kernel else {
            return;
        };
        let routes = &self.routes;
        if kernel.events.drain(|prefix| routes.names(prefix)) {
            self.plan_look(now);
        }
    }

    fn plan_look(&mut self, now: Instant) {
        let earliest = self.looked.map_or(now, |looked| looked + LOOK_PAUSE);
        let at = earliest.max(now + PAUSE);
        self.look_at.get_or_insert(at);
    }

    /// When there is something to do.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let told = self.news.first().map(|_| Instant::ZERO);
        let due = told.into_iter().chain(self.look_at);
        due.chain(self.routes.wake()).min()
    }

    /// Does what is due; what the node is to be told.
    pub(crate) fn tick(&mut self, now: Instant, interfaces: &Interfaces<'_>) -> Vec<News> {
        if let Err(error) = self.act(now, interfaces) {
            tracing::warn!(%error, "cannot add routes to the host's routing table");
        }
        std::mem::take(&mut self.news)
    }

    fn act(&mut self, now: Instant, interfaces: &Interfaces<'_>) -> Result<(), Error> {
        let looks = self.look_at.take_if(|at| *at <= now).is_some();
        let acted = self.act_on(now, interfaces, looks);
        if acted.is_err() {
            // What was due is told of, and tried again.
            let error = acted.as_ref().err().and_then(Error::errno);
            for step in self.routes.steps(now) {
                self.note(now, step, Err(error.unwrap_or(Errno::EIO as i32)));
            }
            // What was said meanwhile may still wait in these sockets.
            self.kernel = None;
            if looks {
                self.look_at = Some(now + Duration::from_secs(1));
            }
        }
        if self.routes.is_empty() && self.look_at.is_none() {
            self.kernel = None;
        }
        acted
    }

    fn act_on(
        &mut self,
        now: Instant,
        interfaces: &Interfaces<'_>,
        looks: bool,
    ) -> Result<(), Error> {
        if self.kernel.is_none() {
            self.kernel = Some(Kernel::open()?);
        }
        let Some(kernel) = &mut self.kernel else {
            return Ok(());
        };
        let links = links(interfaces);
        if looks {
            self.looked = Some(now);
            let mut table = BTreeSet::new();
            for (port, link) in &links {
                for led in kernel.netlink.led(*link)? {
                    let entry = entry(*port, &led);
                    // One by somebody else counts if it is just what is wanted.
                    if led.own || self.routes.wants(&entry) {
                        table.insert(entry);
                    }
                }
            }
            let found = self.routes.found(now, &table);
            self.news.extend(found.told);
            let left = found.left.into_iter();
            let left = left.filter_map(|it| Some((route(it, &links, true)?, false)));
            let left: Vec<_> = left.collect();
            if !left.is_empty() {
                tracing::info!(count = left.len(), "removed routes of a killed gateway");
            }
            for some in left.chunks(BATCH) {
                kernel
                    .netlink
                    .lead(some)
                    .doing(|| "remove routes of a killed gateway")?;
            }
        }
        let (mut changes, mut done) = (Vec::new(), Vec::new());
        for step in self.routes.steps(now) {
            let (Step::Put(it) | Step::Remove(it)) = step;
            match (route(it, &links, false), step) {
                (Some(route), _) => changes.push((step, route)),
                // With its interface.
                (None, Step::Remove(_)) => done.push((step, Ok(()))),
                (None, Step::Put(_)) => done.push((step, Err(Errno::ENODEV as i32))),
            }
        }
        let is_put = |step: &Step| matches!(step, Step::Put(_));
        let asked: Vec<_> = changes
            .iter()
            .map(|(step, route)| (*route, is_put(step)))
            .collect();
        let results = match kernel.netlink.lead(&asked) {
            Ok(results) => results.into_iter().map(number).collect(),
            Err(error) => {
                // Perhaps some of it was done, and the answers still come.
                self.kernel = None;
                self.look_again(now);
                vec![number(Err(error)); asked.len()]
            }
        };
        if results.contains(&Err(Errno::EEXIST as i32)) {
            // By whom? It may be just what is wanted.
            self.plan_look(now);
        }
        let steps = changes.into_iter().map(|(step, _)| step);
        for (step, result) in done.into_iter().chain(steps.zip(results)) {
            self.note(now, step, result);
        }
        Ok(())
    }

    fn note(&mut self, now: Instant, step: Step, result: Result<(), i32>) {
        if let (Step::Remove(HostRoute { prefix, .. }), Err(error)) = (step, result)
            && error != Errno::ESRCH as i32
        {
            let why = io::Error::from_raw_os_error(error);
            tracing::warn!(%prefix, %why, "a route to a prefix stays in the host's table");
        }
        let news = self.routes.done(now, step, result);
        if let Some((prefix, RouteEvent::Failed(error))) = news {
            let why = io::Error::from_raw_os_error(error);
            tracing::warn!(%prefix, %why, "the host has no route to a prefix, for now");
        }
        self.news.extend(news);
    }

    /// Takes back what is left, as by an interface that outlives its gateway.
    pub(crate) fn take_back(&mut self, interfaces: &Interfaces<'_>) {
        let Some(kernel) = &mut self.kernel else {
            return;
        };
        let links = links(interfaces);
        let left = self.routes.there();
        let left = left.filter_map(|it| Some((route(it, &links, true)?, false)));
        let left: Vec<_> = left.collect();
        for some in left.chunks(BATCH) {
            let _ = kernel.netlink.lead(some);
        }
    }
}

fn entry(port: PortId, route: &LedRoute) -> HostRoute {
    let metric = route.metric;
    HostRoute {
        prefix: route.prefix,
        lead: Lead { port, metric },
    }
}

/// A route as the kernel has it: our own, or whoever's.
fn route(entry: HostRoute, links: &BTreeMap<PortId, u32>, own: bool) -> Option<LedRoute> {
    Some(LedRoute {
        prefix: entry.prefix,
        link: *links.get(&entry.lead.port)?,
        metric: entry.lead.metric,
        own,
    })
}

fn number(result: io::Result<()>) -> Result<(), i32> {
    result.map_err(|error| error.raw_os_error().unwrap_or(Errno::EIO as i32))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::kernel::namespace::Namespace;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    /// An interface that outlives its gateway keeps what a killed one left.
    #[test]
    fn routes_that_a_killed_gateway_left_go_at_the_next_start() {
        if !nix::unistd::Uid::effective().is_root() {
            eprintln!("host routes: skipped, this needs root");
            return;
        }
        let namespace = Namespace::create("host").unwrap();
        let other = Namespace::create("other").unwrap();
        namespace.connect("strait0", &other, "strait0").unwrap();
        let mut netlink = namespace.netlink().unwrap();
        let link = netlink.link("strait0").unwrap().index;
        let mut led = || -> Vec<(String, u32)> {
            let led = netlink.led(link).unwrap().into_iter();
            let led = led.filter(|it| it.own);
            led.map(|it| (it.prefix.to_string(), it.metric)).collect()
        };
        let interfaces = Interfaces::from([(PortId::HOST, "strait0")]);
        let lead = |metric| {
            let port = PortId::HOST;
            RouteOp::Lead(Lead { port, metric })
        };
        let start = |prefixes: &[&str]| {
            let mut routes = LedRoutes::default();
            routes.look_again(Instant::ZERO);
            for one in prefixes {
                routes.ask(Instant::ZERO, prefix(one), lead(0));
            }
            let tick = || routes.tick(Instant::ZERO, &interfaces);
            let told = namespace.enter(tick).unwrap();
            (routes, told)
        };
        let killed = start(&["10.2.0.0/24", "10.3.0.0/24", "fd00:2::/64"]);
        assert_eq!(killed.1.len(), 3);
        assert_eq!(led().len(), 3);
        let (mut routes, told) = start(&["10.3.0.7/24", "fd00:3::/64"]);
        let there = |text| (prefix(text), RouteEvent::There);
        assert_eq!(told, [there("10.3.0.0/24"), there("fd00:3::/64")]);
        let both = [("10.3.0.0/24".into(), 0), ("fd00:3::/64".into(), METRIC_V6)];
        assert_eq!(led(), both);
        // Whoever replaces one says of no end of it.
        let replace = "route replace 10.3.0.0/24 via 10.9.0.1 dev strait0 onlink";
        let mut ip = Command::new("ip");
        ip.args(replace.split(' '));
        if namespace.enter(|| ip.output()).unwrap().is_ok() {
            routes.hear(Instant::ZERO);
            let at = Instant::ZERO + Duration::from_secs(1);
            assert_eq!(routes.wake(), Some(Instant::ZERO + LOOK_PAUSE));
            let mut tick = |at| namespace.enter(|| routes.tick(at, &interfaces)).unwrap();
            let told = [tick(Instant::ZERO + LOOK_PAUSE), tick(at)].concat();
            assert_eq!(told, [(prefix("10.3.0.0/24"), RouteEvent::Failed(17))]);
        }
        let take_back = || routes.take_back(&interfaces);
        namespace.enter(take_back).unwrap();
        assert_eq!(led(), []);
        // More than one answer's worth, as they are wanted and as they aren't.
        let many: Vec<String> = (0..600)
            .map(|n| format!("172.16.{}.{}/31", n / 128, n % 128 * 2))
            .collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (mut routes, _) = start(&many);
        for _ in 0..10 {
            namespace
                .enter(|| routes.tick(Instant::ZERO, &interfaces))
                .unwrap();
        }
        assert_eq!(led().len(), 600);
        let (_, told) = start(&many[..300]);
        assert_eq!((told.len(), led().len()), (300, 300));
        assert_eq!(start(&[]).1, []);
        assert_eq!(led(), []);
        // With its last address an interface loses its routes, and nobody says so.
        let ip = |words: &str| {
            let mut ip = Command::new("ip");
            ip.args(words.split(' '));
            let ended = namespace.enter(|| ip.output()).unwrap();
            assert!(ended.is_ok_and(|it| it.status.success()), "ip {words}");
        };
        if Command::new("ip").arg("-V").output().is_err() {
            return;
        }
        ip("address add 10.9.0.1/30 dev strait0");
        let (mut routes, _) = start(&["10.4.0.0/24"]);
        ip("address del 10.9.0.1/30 dev strait0");
        assert_eq!(led(), []);
        routes.hear(Instant::ZERO);
        let at = routes.wake().unwrap();
        namespace.enter(|| routes.tick(at, &interfaces)).unwrap();
        let at = routes.wake().unwrap();
        namespace.enter(|| routes.tick(at, &interfaces)).unwrap();
        assert_eq!(led(), [("10.4.0.0/24".into(), 0)]);
        // One that an operator or an earlier version put there is as good, and stays.
        ip("route add 10.5.0.0/24 dev strait0");
        let (mut routes, told) = start(&["10.5.0.0/24"]);
        assert_eq!(told, [there("10.5.0.0/24")]);
        let take_back = || routes.take_back(&interfaces);
        namespace.enter(take_back).unwrap();
        let netlink_led = namespace.netlink().unwrap().led(link).unwrap();
        let stays = |it: &LedRoute| it.prefix == prefix("10.5.0.0/24") && !it.own;
        assert!(netlink_led.iter().any(stays));
    }
}
