//! Lanes over a slow line: nothing of a lower one enters it while a higher one has something.

use strait_core::chance::Stream as Chance;

use super::*;

/// Octets that the line has room for, of each connection.
const ROOM: usize = 8192;
/// How long a message may be sendable: nothing here takes time but the line.
const AT_ONCE: Duration = Duration::ZERO;

/// What the line holds: of each connection of site 0, what it was given and hasn't carried.
#[derive(Debug, Default)]
pub(super) struct Line {
    held: BTreeMap<u64, Vec<u8>>,
    /// All that lanes have given, by port.
    given: BTreeMap<u16, String>,
    /// Ports of lanes in the order in which they gave something.
    order: Vec<u16>,
    /// Connections that were given up.
    pub(super) broken: usize,
}

impl Line {
    /// A connection is given up, with what the line has of it.
    pub(super) fn forget(&mut self, stream: u64) {
        self.broken += usize::from(self.held.remove(&stream).is_some());
    }

    /// Takes octets of a lane.
    pub(super) fn take(&mut self, stream: u64, port: u16, octets: &[u8]) {
        let text = core::str::from_utf8(octets).unwrap();
        self.given.entry(port).or_default().push_str(text);
        self.held.entry(stream).or_default().extend(octets);
        self.order.push(port);
    }
}

/// The end of a message's text.
fn end(n: u64) -> String {
    format!("message {n} ends")
}

impl World {
    fn line(&mut self) -> &mut Line {
        self.line.as_mut().unwrap()
    }

    /// Whether a lane has a connection that takes messages.
    fn is_ready(&self, port: u16) -> bool {
        let mut lines = self.sites[0].switch.lanes.lines(0);
        lines.any(|(it, _, ready)| 5000 + it.index() as u16 == port && ready)
    }

    /// The line carries so much of a connection, or all of it.
    fn carry(&mut self, stream: u64, most: usize) {
        let held = self.line().held.get_mut(&stream).unwrap();
        let most = most.min(held.len());
        let octets: Vec<u8> = held.drain(..most).collect();
        let (other, side, n) = self.sites[0].ends[&(Side::Node, stream)];
        self.hear(other, side, n, StreamEvent::Data(&octets));
        let writable = StreamEvent::Writable(octets.len() as u32);
        self.hear(0, Side::Node, stream, writable);
    }

    /// The line carries all that there is, until nothing comes any more.
    fn carry_all(&mut self) {
        loop {
            self.run();
            let held = self.line().held.iter().filter(|it| !it.1.is_empty());
            let Some(stream) = held.map(|it| *it.0).next_back() else {
                return;
            };
            self.carry(stream, usize::MAX);
        }
    }
}

/// How often a lower lane gave something although a higher one could have, and how often a higher
/// one did while a lower one waited.
fn play(seed: u64, yields: Yields) -> (usize, usize) {
    let mut chance = Chance::new(seed, "mail.strict");
    let mut own = settings(0);
    own.lanes.iter_mut().for_each(|it| it.yields = yields);
    let mut world = World::of(vec![own, settings(1)]);
    // Texts go as they are, so that what crosses can be read.
    world.forgets = Some("250-XBDAT 1\r\n");
    world.up = false;
    world.pass(Duration::from_secs(10));
    (world.up, world.line) = (true, Some(Line::default()));
    world.pass(Duration::from_secs(10));
    world.carry_all();
    let (mut waits, mut since) = (Vec::new(), BTreeMap::<u16, Instant>::new());
    let (mut wrong, mut ahead) = (0, 0);
    for n in 0..60 {
        let before = world.line().order.len();
        world.now += Duration::from_millis(1 + chance.below(4000));
        if chance.happens(0.4) {
            let at = chance.below(6) as usize;
            let priority = Precedence::ALL[at].wire();
            let lines = chance.below(300) as usize;
            let text = format!("\r\n{}{}", noise(lines), end(n));
            // An address has so many connections.
            let heard = world.submit(
                n % 16,
                &format!(" MT-PRIORITY={priority}"),
                "ops@b.example",
                &text,
            );
            assert!(heard.ends_with("stored\r\n"), "{heard}");
            waits.push((5000 + at as u16, n));
        } else {
            let held = world.line().held.iter().filter(|it| !it.1.is_empty());
            let all: Vec<u64> = held.map(|it| *it.0).collect();
            if !all.is_empty() {
                // A line takes a packet of this one or that.
                let stream = all[chance.below(all.len() as u64) as usize];
                world.carry(stream, 1 + chance.below(4000) as usize);
            }
        }
        world.run();
        let now = world.now;
        let order = world.line().order[before..].to_vec();
        for port in order {
            let mut higher = since.range(port + 1..);
            wrong += usize::from(higher.any(|(_, at)| now.since(*at) > AT_ONCE));
            ahead += usize::from(waits.iter().any(|it| it.0 < port));
        }
        let given = world.line().given.clone();
        waits.retain(|(port, n)| !given.get(port).is_some_and(|it| it.contains(&end(*n))));
        for port in 5000..5006 {
            if world.is_ready(port) && waits.iter().any(|it| it.0 == port) {
                since.entry(port).or_insert(now);
            } else {
                since.remove(&port);
            }
        }
    }
    world.carry_all();
    world.pass(Duration::from_secs(60));
    world.carry_all();
    assert!(world.is_empty(), "seed {seed}: something is stored yet");
    (wrong, ahead)
}

/// Whatever comes when, and whatever of it the line carries first; unless lanes are told to go
/// beside each other.
#[test]
fn no_octet_of_a_lower_lane_enters_the_line_before_one_of_a_higher() {
    for seed in 0..60 {
        let (wrong, ahead) = play(seed, Yields::Pause);
        assert!(wrong == 0 && ahead > 0, "seed {seed}: {wrong}, {ahead}");
    }
    let wrong: usize = (0..10).map(|seed| play(seed, Yields::Never).0).sum();
    assert!(wrong > 10, "{wrong}");
}

/// A Routine message of 46 kB is under way and a short one waits when a Flash as long comes: how
/// often the Routine lane gave something before the Flash was whole, whether the short one had
/// begun by then, how many connections were given up, and the octets of Routine in all.
fn yields(yields: Yields) -> (usize, bool, usize, usize) {
    let mut own = settings(0);
    own.lanes[Precedence::Routine.index()].yields = yields;
    let mut world = World::of(vec![own, settings(1)]);
    world.forgets = Some("250-XBDAT 1\r\n");
    world.up = false;
    world.pass(Duration::from_secs(10));
    (world.up, world.line) = (true, Some(Line::default()));
    world.pass(Duration::from_secs(10));
    world.carry_all();
    let text = |n, lines| format!("\r\n{}{}", noise(lines), end(n));
    world.submit(0, " MT-PRIORITY=-2", "ops@b.example", &text(0, 600));
    for _ in 0..8 {
        let stream = *world.line().held.last_key_value().unwrap().0;
        world.carry(stream, 1000);
        world.run();
    }
    world.submit(1, " MT-PRIORITY=-2", "ops@b.example", &text(1, 1));
    let before = world.line().order.len();
    world.submit(2, " MT-PRIORITY=4", "ops@b.example", &text(2, 600));
    while !world.line().given[&5004].contains(&end(2)) {
        let held = world.line().held.iter().filter(|it| !it.1.is_empty());
        let streams: Vec<u64> = held.map(|it| *it.0).collect();
        streams.into_iter().for_each(|it| world.carry(it, 1000));
        world.run();
    }
    let beside = world.line().order[before..].iter();
    let beside = beside.filter(|it| **it == 5001).count();
    let begun = world.line().given[&5001].contains(&end(1));
    world.carry_all();
    world.pass(Duration::from_secs(60));
    world.carry_all();
    assert_eq!(world.files(1), 3, "{yields:?}");
    assert!(world.is_empty(), "{yields:?}");
    let line = world.line();
    (beside, begun, line.broken, line.given[&5001].len())
}

#[test]
fn a_lane_gives_way_as_its_operator_says() {
    let (beside, begun, broken, _) = yields(Yields::Never);
    assert!(beside > 5 && begun && broken == 0, "{beside}");
    let (beside, begun, broken, _) = yields(Yields::Between);
    assert!(beside > 5 && !begun && broken == 0, "{beside}");
    let (beside, begun, broken, whole) = yields(Yields::Pause);
    assert_eq!((beside, begun, broken), (0, false, 0));
    // What a kernel had of it goes again, and no more.
    let (beside, begun, broken, octets) = yields(Yields::Abort);
    assert_eq!((beside, begun, broken), (0, false, 1));
    assert!(
        (whole + 1000..whole + ROOM + 1000).contains(&octets),
        "{whole} {octets}"
    );
}
