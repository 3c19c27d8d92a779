use alloc::collections::BTreeSet;
use alloc::vec;

use super::*;

const PORT_ID: PortId = PortId(1);

fn address(node: usize) -> IpAddr {
    Ipv4Addr::new(10, 9, (node / 200) as u8, (node % 200) as u8 + 1).into()
}

fn host(node: usize) -> Prefix {
    Prefix::new(address(node), 32).unwrap()
}

fn settings(node: usize) -> Settings {
    Settings {
        main: address(node),
        ports: vec![PORT_ID],
        octets_max: 1200,
        networks: Vec::new(),
        willingness: 3,
        hello: Duration::from_secs(2),
        tc: Duration::from_secs(5),
        hysteresis: false,
        copies: true,
        notice: true,
        etx: false,
    }
}

/// Routers that hear each other as far as `links` says, both ways.
struct Net {
    now: Instant,
    routers: Vec<Router>,
    routes: Vec<BTreeMap<Prefix, Via>>,
    links: BTreeSet<(usize, usize)>,
    /// How many of a packet's receivers don't get it.
    loss: f64,
    /// The same of those on a link.
    lossy: BTreeMap<(usize, usize), f64>,
    /// Whether the medium says what became of packets for one.
    tells: bool,
    chance: Stream,
}

impl Net {
    fn new(all: impl Iterator<Item = Settings>, seed: u64) -> Self {
        let routers: Vec<Router> = all
            .zip(0..)
            .map(|(settings, number)| Router::new(settings, seed ^ number << 8))
            .collect();
        Self {
            now: Instant::ZERO,
            routes: vec![BTreeMap::new(); routers.len()],
            routers,
            links: BTreeSet::new(),
            loss: 0.0,
            lossy: BTreeMap::new(),
            tells: false,
            chance: Stream::new(seed, "net"),
        }
    }

    fn row(count: usize) -> Self {
        let mut net = Self::new((0..count).map(settings), 1);
        net.links = (1..count).map(|to| (to - 1, to)).collect();
        net
    }

    fn hears(&self, a: usize, b: usize) -> bool {
        self.links.contains(&(a.min(b), a.max(b)))
    }

    fn run(&mut self, until: Instant) {
        loop {
            let wakes = self.routers.iter().map(Router::wake);
            let (at, who) = wakes.zip(0..).min().unwrap();
            if at > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(at);
            self.settle(who);
        }
    }

    fn settle(&mut self, who: usize) {
        self.routers[who].settle(self.now);
        while let Some((Via { port, to: meant }, packet)) = self.routers[who].poll_packet() {
            assert_eq!(port, PORT_ID);
            let all = meant == NeighbourId::ALL;
            let is_meant = |to: usize| to != who && (all || usize::from(meant.0) == to);
            for to in (0..self.routers.len()).filter(|to| is_meant(*to)) {
                let link = (who.min(to), who.max(to));
                let loss = self.lossy.get(&link).unwrap_or(&self.loss);
                let lost = self.chance.happens(*loss);
                let arrives = self.hears(who, to) && !lost;
                if self.tells && !all {
                    self.routers[who].tell(self.now, Via { port, to: meant }, arrives);
                }
                if arrives {
                    let via = Via {
                        port,
                        to: NeighbourId(who as u16),
                    };
                    self.routers[to].hear(self.now, via, address(who), &packet);
                }
            }
        }
        for change in self.routers[who].take_changes() {
            let routes = &mut self.routes[who];
            match change.via {
                Some(via) => routes.insert(change.prefix, via),
                None => routes.remove(&change.prefix),
            };
        }
    }

    fn run_for(&mut self, time_s: u64) {
        self.run(self.now + Duration::from_secs(time_s));
    }

    fn next(&self, from: usize, to: usize) -> Option<usize> {
        let via = self.routes[from].get(&host(to))?;
        Some(usize::from(via.to.0))
    }

    /// Hops from one to another by what each has for its route; `None` if that leads nowhere.
    fn hops(&self, from: usize, to: usize) -> Option<usize> {
        let mut at = from;
        for hop in 0..=self.routers.len() {
            if at == to {
                return Some(hop);
            }
            let next = self.next(at, to)?;
            if !self.hears(at, next) {
                return None;
            }
            at = next;
        }
        panic!("a circle on the way from {from} to {to}");
    }

    /// The fewest hops by links.
    fn distance(&self, from: usize, to: usize) -> Option<usize> {
        let mut reached = BTreeSet::from([from]);
        for hops in 0..self.routers.len() {
            if reached.contains(&to) {
                return Some(hops);
            }
            let all = 0..self.routers.len();
            let more: Vec<usize> = all
                .filter(|it| reached.iter().any(|by| self.hears(*by, *it)))
                .collect();
            reached.extend(more);
        }
        None
    }
}

#[test]
fn two_are_neighbours_once_each_has_heard_the_other() {
    let mut net = Net::row(2);
    net.run(Instant::from_millis(600));
    assert_eq!(net.routers[0].stats().neighbours, 0, "one hello each");
    net.run(Instant::from_millis(4600));
    for node in 0..2 {
        let stats = net.routers[node].stats();
        assert_eq!((stats.neighbours, stats.relays), (1, 0));
        assert_eq!(net.next(node, 1 - node), Some(1 - node));
    }
}

#[test]
fn who_is_between_passes_on() {
    let mut net = Net::row(6);
    net.run_for(30);
    for from in 0..6 {
        for to in 0..6 {
            assert_eq!(
                net.hops(from, to),
                Some(from.abs_diff(to)),
                "{from} to {to}"
            );
        }
    }
    let stats: Vec<_> = net.routers.iter().map(|it| *it.stats()).collect();
    assert_eq!(
        stats.iter().map(|it| it.relays).collect::<Vec<_>>(),
        [1, 1, 2, 2, 1, 1]
    );
    assert_eq!(stats[0].selectors, 0);
    assert!(stats[0].forwarded == 0 && stats[2].forwarded > 0);
    assert!(stats.iter().all(|it| it.malformed == 0));
}

#[test]
fn of_networks_behind_several_the_nearest_is_taken() {
    let prefix: Prefix = "192.0.2.0/24".parse().unwrap();
    let behind = |node: usize| Settings {
        networks: if node.is_multiple_of(4) {
            vec![prefix]
        } else {
            Vec::new()
        },
        ..settings(node)
    };
    let mut net = Net::new((0..5).map(behind), 1);
    net.links = (1..5).map(|to| (to - 1, to)).collect();
    net.run_for(30);
    let leads = |net: &Net, from: usize| net.routes[from].get(&prefix).map(|via| via.to.0);
    assert_eq!((leads(&net, 1), leads(&net, 3)), (Some(0), Some(4)));
    // What lies behind a node itself, whoever else says so, or of a part of it.
    assert_eq!((leads(&net, 0), leads(&net, 4)), (None, None));
    let parts = ["192.0.2.128/25", "10.9.0.1/32", "192.0.0.0/16", "0.0.0.0/0"];
    let parts = parts.map(|part| part.parse().unwrap());
    let router = &mut net.routers[0];
    assert_eq!(
        parts.map(|part| router.settings.is_own(part)),
        [true, true, false, false]
    );
    net.links.remove(&(0, 1));
    net.run_for(22);
    assert_eq!(leads(&net, 1), Some(2));
    net.links.remove(&(3, 4));
    net.run_for(22);
    assert_eq!(leads(&net, 1), None);
}

#[test]
fn the_unwilling_pass_on_nothing() {
    let unwilling = |node: usize| Settings {
        willingness: if node == 1 { 0 } else { 3 },
        ..settings(node)
    };
    let mut net = Net::new((0..4).map(unwilling), 1);
    // By 1 or by 2.
    net.links = BTreeSet::from([(0, 1), (1, 3), (0, 2), (2, 3)]);
    net.run_for(20);
    assert_eq!(net.next(0, 3), Some(2));
    net.links.remove(&(0, 2));
    net.run_for(30);
    assert_eq!(net.next(0, 3), None);
}

#[test]
fn a_broken_link_is_left_when_its_hellos_or_the_medium_say_so() {
    for notice in [false, true] {
        let told = |node: usize| Settings {
            notice,
            ..settings(node)
        };
        let mut net = Net::new((0..4).map(told), 1);
        net.links = BTreeSet::from([(0, 1), (1, 3), (0, 2), (2, 3)]);
        net.run_for(30);
        let by = net.next(0, 3).unwrap();
        net.links.remove(&(0, by));
        let broken = net.now;
        while net.next(0, 3) == Some(by) {
            assert!(net.now.since(broken) < Duration::from_secs(9), "{notice}");
            let to = NeighbourId(by as u16);
            // A frame each 50 ms.
            net.run(net.now + Duration::from_millis(50));
            net.routers[0].tell(net.now, Via { port: PORT_ID, to }, false);
        }
        let took = net.now.since(broken);
        let least = if notice {
            FAILING
        } else {
            Duration::from_secs(4)
        };
        assert!(took >= least, "{took:?}");
        assert!(!notice || took < Duration::from_millis(700), "{took:?}");
        assert_eq!(net.next(0, 3), Some(3 - by));
    }
}

const FAILING: Duration = Duration::from_millis(500);

#[test]
fn losses_among_what_is_delivered_break_nothing() {
    let mut net = Net::row(2);
    net.run_for(10);
    let via = Via {
        port: PORT_ID,
        to: NeighbourId(1),
    };
    for step in 0..600_u32 {
        net.run(net.now + Duration::from_millis(10));
        net.routers[0].tell(net.now, via, step.is_multiple_of(29));
    }
    assert_eq!(net.routers[0].stats().noticed, 0);
}

#[test]
fn nobody_is_gone_whose_packets_come_although_none_gets_there() {
    for (comes, noticed) in [(true, false), (false, true)] {
        let mut net = Net::row(2);
        net.run_for(10);
        let via = Via {
            port: PORT_ID,
            to: NeighbourId(1),
        };
        for step in 0..600_u32 {
            net.run(net.now + Duration::from_millis(10));
            net.routers[0].tell(net.now, via, false);
            if comes && step.is_multiple_of(40) {
                net.routers[0].comes(via);
            }
        }
        assert_eq!(net.routers[0].stats().noticed > 0, noticed);
    }
}

#[test]
fn a_link_that_loses_half_isnt_used_with_hysteresis() {
    let careful = |node: usize| Settings {
        hysteresis: true,
        ..settings(node)
    };
    let mut net = Net::new((0..2).map(careful), 3);
    net.links.insert((0, 1));
    net.run(Instant::from_millis(2500));
    assert_eq!(
        net.routers[0].stats().neighbours,
        0,
        "two packets are not enough"
    );
    net.run_for(8);
    assert_eq!(net.routers[0].stats().neighbours, 1);
    net.loss = 1.0;
    net.run_for(5);
    assert_eq!(net.routers[0].stats().neighbours, 0, "two lost ones are");
}

/// A row in which each hears the next well and the one behind that badly.
fn lossy_row(count: usize, etx: bool, seed: u64) -> Net {
    let each = |node| Settings {
        etx,
        copies: !etx,
        ..settings(node)
    };
    let mut net = Net::new((0..count).map(each), seed);
    net.links = (1..count).map(|to| (to - 1, to)).collect();
    for to in 2..count {
        net.links.insert((to - 2, to));
        net.lossy.insert((to - 2, to), 0.5);
    }
    net
}

#[test]
fn by_transmissions_a_way_goes_round_links_that_lose_much() {
    let hops = |etx: bool, seed: u64| {
        let mut net = lossy_row(5, etx, seed);
        net.run_for(60);
        let mut at = [0, 0];
        for _ in 0..60 {
            net.run_for(1);
            let good = (0..4).all(|from| net.next(from, 4) == Some(from + 1));
            at[usize::from(good)] += 1;
        }
        assert!(net.routers.iter().all(|it| it.stats().malformed == 0));
        at
    };
    // A link that loses half may look better for a while.
    let good = |etx| (1..=5).map(|seed| hops(etx, seed)[1]).sum::<u32>();
    let (etx, by_hops) = (good(true), good(false));
    assert!(etx >= 240 && by_hops == 0, "{etx} s and {by_hops} s of 300");
}

#[test]
fn a_neighbour_that_hears_badly_gets_what_is_for_all_by_another() {
    for seed in 1..=20 {
        let mut net = lossy_row(3, true, seed);
        net.run_for(30);
        // What is told of networks runs out after three intervals.
        for _ in 0..60 {
            net.run_for(1);
            assert!(net.next(0, 2).is_some(), "seed {seed}");
        }
        assert_eq!(net.routers[2].stats().relays, 1, "seed {seed}");
    }
}

#[test]
fn who_knows_nothing_of_quality_passes_it_on() {
    let each = |node| Settings {
        etx: node != 1,
        ..settings(node)
    };
    let mut net = Net::new((0..4).map(each), 1);
    net.links = (1..4).map(|to| (to - 1, to)).collect();
    net.run_for(40);
    assert_eq!(net.hops(0, 3), Some(3));
    assert!(net.routers.iter().all(|it| it.stats().malformed == 0));
    let told = net.routers[0].topology.costs_of(address(2));
    assert_eq!(told, [(address(1), 1000), (address(3), 1000)]);
}

#[test]
fn numbers_begin_anew_after_the_last() {
    let mut net = Net::row(3);
    net.run_for(15);
    let until = net.now + Duration::from_secs(15);
    let topology = &mut net.routers[0].topology;
    topology.take_tc(address(2), (u16::MAX, vec![address(5)]), until);
    topology.take_tc(address(2), (3, vec![address(6)]), until);
    topology.take_tc(address(2), (u16::MAX - 5, vec![address(7)]), until);
    net.routers[0].due = net.now;
    net.settle(0);
    assert_eq!(net.next(0, 6), Some(1));
    assert_eq!((net.next(0, 5), net.next(0, 7)), (None, None));
}

/// Nodes that wander: once they have stood still for as long as what they know can hold, each has
/// the shortest way to each that can be reached, and none to others; and no circle lasts longer.
#[test]
fn thirty_that_move_find_each_other() {
    for seed in 0..2 {
        let mut net = Net::new((0..30).map(settings), seed);
        net.loss = 0.1;
        let mut places: Vec<(f64, f64)> = (0..30)
            .map(|_| (net.chance.unit() * 1000.0, net.chance.unit() * 1000.0))
            .collect();
        for _ in 0..4 {
            for place in &mut places {
                place.0 = (place.0 + net.chance.unit() * 300.0 - 150.0).clamp(0.0, 1000.0);
                place.1 = (place.1 + net.chance.unit() * 300.0 - 150.0).clamp(0.0, 1000.0);
            }
            let near = |a: usize, b: usize| {
                let (x, y) = (places[a].0 - places[b].0, places[a].1 - places[b].1);
                x * x + y * y < 300.0 * 300.0
            };
            let pairs = (0..30).flat_map(|b| (0..b).map(move |a| (a, b)));
            net.links = pairs.filter(|(a, b)| near(*a, *b)).collect();
            // Hold of links and of topology, and the time that a message takes to all.
            net.run_for(6 + 15 + 5);
            net.loss = 0.0;
            net.run_for(8);
            for from in 0..30 {
                for to in (0..30).filter(|to| *to != from) {
                    let (found, least) = (net.hops(from, to), net.distance(from, to));
                    assert_eq!(found, least, "seed {seed}: {from} to {to} at {:?}", net.now);
                }
            }
            net.loss = 0.1;
        }
    }
}

#[test]
fn what_strangers_claim_is_bounded() {
    let mut net = Net::row(2);
    net.run_for(10);
    let router = &mut net.routers[0];
    let via = Via {
        port: PORT_ID,
        to: NeighbourId(1),
    };
    let mut chance = Stream::new(5, "forged");
    let header = |kind: u8, by: u64, sequence: u64| Header {
        kind,
        valid: Duration::from_secs(1_000_000),
        originator: Ipv4Addr::from_bits(by as u32).into(),
        ttl: 255,
        hops: 0,
        sequence: sequence as u16,
    };
    for n in 0..20_000 {
        let mut message = Vec::new();
        let any = |it: u64| IpAddr::from(Ipv4Addr::from_bits(it as u32));
        let reached = (0..40).map(|_| any(chance.draw()));
        match n % 2 {
            0 => put_tc(&header(TC, n, n), n as u16, reached, &mut message),
            _ => {
                let networks: Vec<Prefix> =
                    reached.map(|it| Prefix::new(it, 32).unwrap()).collect();
                put_hna(&header(HNA, n, n), &networks, &mut message);
            }
        }
        let whole = packet(n as u16, core::iter::once(&message[..]));
        router.hear(net.now, via, address(1), &whole);
    }
    assert!(router.stats().crowded > 0);
    router.settle(net.now);
    assert!(router.take_changes().len() < 20_000);
    assert!(router.poll_packet().is_none_or(|(_, it)| it.len() < 1500));
    // And what is cut, or changed by chance, is taken or refused, and no more.
    let mut good = Vec::new();
    net.routers[1].say_hello(net.now);
    net.routers[1].tell_all(net.now);
    net.routers[1].flush(net.now, &[]);
    while let Some((_, packet)) = net.routers[1].poll_packet() {
        good.push(packet);
    }
    for n in 0..20_000 {
        let mut bytes = good[n % good.len()].clone();
        for _ in 0..=chance.below(3) {
            let at = chance.below(bytes.len() as u64) as usize;
            bytes[at] = chance.draw() as u8;
        }
        bytes.truncate(chance.below(bytes.len() as u64 * 4) as usize);
        net.routers[0].hear(net.now, via, address(1), &bytes);
    }
    net.routers[0].settle(net.now);
    assert!(net.routers[0].stats().malformed > 0);
}

/// Each packet is a frame that meets others' in the air: what all are told goes along with hellos.
#[test]
fn what_all_are_told_in_time_takes_no_packets_of_its_own() {
    let behind = |node: usize| Settings {
        networks: vec![Prefix::new(Ipv4Addr::new(10, 1, node as u8, 0).into(), 24).unwrap()],
        ..settings(node)
    };
    let mut net = Net::new((0..3).map(behind), 1);
    net.links = BTreeSet::from([(0, 1), (1, 2)]);
    net.run_for(20);
    let before = net.routers[0].stats().packets_out;
    net.run_for(60);
    let sent = net.routers[0].stats().packets_out - before;
    // A hello each 1.5 to 2 s; what all are told each 4.5 to 5 s would be 12 more.
    assert!((30..=37).contains(&sent), "{sent}");
    // And it is told: the one in the middle is known by its word alone.
    assert_eq!(net.hops(0, 2), Some(2));
    let behind_two = Prefix::new(Ipv4Addr::new(10, 1, 2, 0).into(), 24).unwrap();
    assert!(net.routes[0].contains_key(&behind_two));
}

/// Fewer frames meet others' in the air; and who comes or goes is noticed as soon as before.
#[test]
fn hellos_are_half_as_many_where_the_medium_says_that_they_arrive() {
    let mut net = Net::row(4);
    net.tells = true;
    net.links = BTreeSet::from([(0, 1), (1, 2)]);
    net.run_for(30);
    let before = net.routers[0].stats().packets_out;
    net.run_for(60);
    let sent = net.routers[0].stats().packets_out - before;
    assert!((15..=19).contains(&sent), "{sent}");
    // Somebody comes.
    net.links.insert((2, 3));
    net.run_for(7);
    assert_eq!((net.hops(0, 3), net.hops(3, 0)), (Some(3), Some(3)));
    // And goes: packets for it don't arrive, which is known after two of them.
    net.run_for(60);
    net.links.remove(&(2, 3));
    net.run_for(8);
    assert_eq!(net.next(0, 3), None);
}
