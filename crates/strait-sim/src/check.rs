//! Books kept beside the nodes' own: from every packet's fate in every node, from the links and
//! from nothing else, what must hold of a whole world.
//!
//! Nothing here shares code with what it checks. A node counts as it goes; this counts again from
//! the fates that it told. [`crate::PathBook`] follows packets as they move; this pairs what was
//! sent with what was taken in afterwards, over the whole history.

use std::collections::BTreeMap;

use strait_channel::{ChannelStats, LinkConfig, Side};
use strait_core::delay::DelayParts;
use strait_core::stats::{PortStats, Stats};
use strait_core::time::nanos;
use strait_core::units::Share;
use strait_core::{DropCause, Duration, Fate, FateRecord, Instant, NeighbourId, PortId};

use crate::world::{Attach, LinkIndex, NodeIndex, World};

/// The end of a packet's stay in a node.
#[derive(Clone, Copy, Debug)]
pub struct FateEntry {
    /// Which node.
    pub node: NodeIndex,
    /// Which of the node's lives: 0 before its first restart.
    pub incarnation: u32,
    /// What the node told.
    pub record: FateRecord,
}

/// Two ends that compute one moment from bursts with different beginnings differ by rounding.
const ROUNDING_NS: u64 = 1;

/// A direction of a link, and what it can do to frames.
#[derive(Clone, Copy, Debug)]
struct Way {
    to: NodeIndex,
    ns_min: u64,
    ns_max: u64,
    copies: u32,
    serial: bool,
    /// Nothing can happen to what it carries.
    clean: bool,
    /// Packets stay with their sender until they have come.
    repeats: bool,
}

/// How often something came by a port: on an octet stream, a medium's frame is a chunk of octets.
fn came(port: &PortStats) -> u64 {
    match port.presence.chunks_in {
        0 => port.frames_in,
        chunks => chunks,
    }
}

fn some(share: Option<Share>) -> bool {
    share.is_some_and(|it| it.0 > 0.0)
}

fn has_outages(config: &LinkConfig, side: Side) -> bool {
    let outages = config.direction(side).outage;
    outages.is_some_and(|outages| !outages.is_empty())
}

/// Whether nothing can happen to what a link carries one way.
pub(crate) fn is_clean(config: &LinkConfig, side: Side) -> bool {
    let keys = config.direction(side);
    let lossy = config.kind.is_lossy()
        || some(keys.loss)
        || keys.burst_loss.is_some()
        || some(keys.bit_errors);
    // A piece of a packet that another overtakes is lost with all of the packet.
    let disturbed = some(keys.duplicate) || some(keys.reorder);
    !lossy && !has_outages(config, side) && !disturbed
}

impl Way {
    fn new(to: NodeIndex, config: &LinkConfig, side: Side) -> Self {
        let keys = config.direction(side);
        let (least, most) = config.way_delay(side);
        let (ns_min, ns_max) = (nanos(least), nanos(most));
        let outages = has_outages(config, side);
        let serial = config.kind.carries_octets();
        Self {
            to,
            ns_min,
            // A frame whose flag alone fell into an outage ends with the next flag.
            ns_max: if serial && outages {
                u64::MAX >> 1
            } else {
                ns_max
            },
            serial,
            copies: 1 + u32::from(some(keys.duplicate)),
            clean: is_clean(config, side),
            repeats: false,
        }
    }

    /// The same, repeated until it has come: at any time after its sender had it. Whether all that
    /// was sent has come isn't known from outside.
    fn repeated(self) -> Self {
        Self {
            ns_max: u64::MAX >> 1,
            // Its other end knows what it has had.
            copies: 1,
            clean: false,
            repeats: true,
            ..self
        }
    }
}

/// A packet that left a node towards another.
#[derive(Clone, Copy, Debug)]
struct Sent {
    way: Way,
    left: Instant,
    uses: u32,
}

impl Sent {
    /// The latest moment at which it can arrive.
    fn until(&self) -> Instant {
        self.left + Duration::from_nanos(self.way.ns_max + ROUNDING_NS)
    }

    fn fits(&self, at: Instant) -> bool {
        let since_ns = at.as_nanos() + ROUNDING_NS;
        self.uses > 0 && since_ns >= self.left.as_nanos() + self.way.ns_min && at <= self.until()
    }
}

/// Everything that doesn't hold of a world that keeps its fates ([`World::keep_fates`]), each in a
/// sentence. Empty is right, at any moment between two events.
///
/// * For each life of each node: what it counts is what it told, and admitted and originated
///   packets are those with a fate and those held.
/// * The delay parts of each stay add up to it, and by class to the class's sums.
/// * Frames that left are lost, doubled, arrived or under way.
/// * A packet that a node took in was sent to it by a neighbour, the link's delay before, and no
///   more often than it was sent (and doubled on the way). A node that was killed may have had
///   what neighbours sent again to its next life: as much as they keep for it.
/// * A node that only clean links lead to, and that was never killed, has taken in all that was
///   sent to it.
pub fn violations(world: &World) -> Vec<String> {
    let mut book = Book {
        world,
        names: world.names().map(str::to_owned).collect(),
        wrong: Vec::new(),
    };
    book.lives();
    book.frames();
    book.packets();
    let count = world.unexplained();
    if count > book.resent().values().sum() {
        book.say(format!("{count} packets have no explained path"));
    }
    book.wrong
}

struct Book<'a> {
    world: &'a World,
    names: Vec<String>,
    wrong: Vec<String>,
}

/// What the fates of one life add up to.
#[derive(Default)]
struct Tally {
    admitted: u64,
    own: u64,
    delivered: u64,
    forwarded: u64,
    answered: u64,
    absorbed: u64,
    fragmented: u64,
    dropped: BTreeMap<DropCause, u64>,
    classes: BTreeMap<usize, (u64, u64, DelayParts)>,
}

impl Tally {
    fn take(&mut self, record: &FateRecord) {
        self.own += u64::from(record.own);
        self.admitted += u64::from(!record.own);
        match record.fate {
            Fate::Delivered(_) => self.delivered += 1,
            Fate::Forwarded { .. } => self.forwarded += 1,
            Fate::Answered => self.answered += 1,
            Fate::Absorbed => self.absorbed += 1,
            Fate::Fragmented => self.fragmented += 1,
            Fate::Dropped(cause) => *self.dropped.entry(cause).or_default() += 1,
        }
        if !matches!(record.fate, Fate::Dropped(_)) {
            let class = self.classes.entry(record.class.index()).or_default();
            class.0 += 1;
            class.1 += u64::from(record.octets);
            class.2.merge(&record.parts);
        }
    }

    fn ended(&self) -> u64 {
        self.admitted + self.own
    }

    /// What the node's counters say otherwise.
    fn differs(&self, stats: &Stats) -> Option<String> {
        let told = [
            ("delivered", self.delivered, stats.delivered),
            ("forwarded", self.forwarded, stats.forwarded),
            ("answered", self.answered, stats.answered),
            ("absorbed", self.absorbed, stats.absorbed),
            ("fragmented", self.fragmented, stats.fragmented),
        ];
        if let Some((name, told, counted)) = told.iter().find(|(_, told, count)| told != count) {
            return Some(format!("told {told} {name} and counts {counted}"));
        }
        let mut causes = DropCause::ALL.into_iter();
        let told = |cause| self.dropped.get(&cause).copied().unwrap_or_default();
        if let Some(cause) = causes.find(|cause| told(*cause) != stats.dropped.by(*cause)) {
            let (told, counted) = (told(cause), stats.dropped.by(cause));
            let name = cause.name();
            return Some(format!(
                "told {told} dropped as {name} and counts {counted}"
            ));
        }
        let all = stats.admitted + stats.originated;
        if all < self.ended() || self.own > stats.originated || self.admitted > stats.admitted {
            return Some(format!(
                "took in {} and made {}, and told of {} and {}",
                stats.admitted, stats.originated, self.admitted, self.own
            ));
        }
        for (index, class) in stats.classes.iter().enumerate() {
            let (packets, octets, parts) = self.classes.get(&index).copied().unwrap_or_default();
            if (packets, octets, parts) != (class.packets, class.octets, class.parts) {
                return Some(format!("counts class {} wrongly", class.name));
            }
        }
        None
    }
}

impl Book<'_> {
    fn say(&mut self, what: String) {
        // The first few tell the story; a broken world would tell millions.
        if self.wrong.len() < 20 {
            self.wrong.push(what);
        }
    }

    fn name(&self, node: NodeIndex) -> &str {
        self.names.get(node.0).map_or("?", String::as_str)
    }

    /// Every life of every node by itself.
    fn lives(&mut self) {
        let mut tallies: BTreeMap<(NodeIndex, u32), Tally> = BTreeMap::new();
        for entry in self.world.fates() {
            let record = &entry.record;
            let stay_ns = record.ended.since(record.began).as_nanos() as u64;
            if record.parts.total_ns() != stay_ns {
                let name = self.name(entry.node);
                let parts = &record.parts;
                self.say(format!("{name}: parts {parts:?} of a stay of {stay_ns} ns"));
            }
            let tally = tallies.entry((entry.node, entry.incarnation)).or_default();
            tally.take(record);
        }
        for node in (0..self.names.len()).map(NodeIndex) {
            let (lives, crashed) = self.world.lives(node);
            let alive = self.world.is_alive(node);
            let mut held_by_the_dead = 0;
            for (life, stats) in lives.iter().enumerate() {
                let tally = tallies.remove(&(node, life as u32)).unwrap_or_default();
                if let Some(difference) = tally.differs(stats) {
                    let name = self.name(node);
                    self.say(format!("{name}, life {life}, {difference}"));
                    continue;
                }
                let held = stats.admitted + stats.originated - tally.ended();
                if life + 1 < lives.len() || !alive {
                    held_by_the_dead += held;
                }
            }
            if held_by_the_dead != crashed {
                let name = self.name(node);
                self.say(format!(
                    "{name} held {held_by_the_dead} packets when it was killed, {crashed} are said"
                ));
            }
        }
        if let Some(((node, life), _)) = tallies.first_key_value() {
            let (node, life) = (*node, *life);
            self.say(format!("{} tells of a life {life}", self.name(node)));
        }
    }

    /// Frames: what left is lost, doubled, has arrived or is under way.
    fn frames(&mut self) {
        let sum = |part: fn(&ChannelStats) -> u64| -> u64 {
            let links = self.world.links().flat_map(|(_, sides)| sides);
            links.map(part).sum()
        };
        let sent = sum(|way| way.frames) + sum(|way| way.duplicated);
        let lost = sum(ChannelStats::lost_frames);
        let mut taken = self.world.missed();
        for node in (0..self.names.len()).map(NodeIndex) {
            let (lives, _) = self.world.lives(node);
            let ports = lives.iter().flat_map(|stats| &stats.ports);
            taken += ports.map(came).sum::<u64>();
        }
        let under_way = self.world.in_flight() as u64;
        if sent != lost + taken + under_way {
            self.say(format!(
                "{sent} frames sent are not {lost} lost, {taken} taken and {under_way} under way"
            ));
        }
    }

    /// Where a packet goes that leaves a node by a port to a neighbour.
    fn ways(&self) -> BTreeMap<(NodeIndex, PortId, NeighbourId), Way> {
        let mut ways = BTreeMap::new();
        for link in 0..self.world.links().count() {
            let (ends, config) = self.world.link(LinkIndex(link));
            for side in Side::BOTH {
                let Attach {
                    node,
                    port,
                    neighbour,
                } = ends[side.index()];
                let to = ends[side.other().index()].node;
                let way = Way::new(to, config, side);
                let repeats = self.world.repeats(node, port);
                let way = if repeats { way.repeated() } else { way };
                ways.insert((node, port, neighbour), way);
            }
        }
        let lan = crate::build::lan();
        for ends in self.world.joined_by_stations() {
            for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                let way = Way::new(to.node, &lan, Side::A).repeated();
                ways.insert((from.node, from.port, from.neighbour), way);
            }
        }
        ways
    }

    /// Pairs what nodes took in with what was sent to them.
    fn packets(&mut self) {
        let ways = self.ways();
        let mut sent: BTreeMap<(NodeIndex, u64), Vec<Sent>> = BTreeMap::new();
        let mut taken: BTreeMap<(NodeIndex, u64), Vec<Instant>> = BTreeMap::new();
        let mut arrived: BTreeMap<NodeIndex, (u64, u64)> = BTreeMap::new();
        for FateEntry { node, record, .. } in self.world.fates() {
            if !record.own {
                let stays = taken.entry((*node, record.digest)).or_default();
                stays.push(record.began);
            }
            let by = match record.fate {
                Fate::Forwarded { port, to } => (*node, port, to),
                Fate::Delivered(port) => (*node, port, NeighbourId::PEER),
                // It may have come before a later one took its place.
                Fate::Absorbed => {
                    let ways = ways
                        .iter()
                        .filter(|((from, ..), way)| from == node && way.repeats);
                    for (_, way) in ways {
                        let left = Sent {
                            way: *way,
                            left: record.began,
                            uses: way.copies,
                        };
                        sent.entry((way.to, record.digest)).or_default().push(left);
                    }
                    continue;
                }
                _ => continue,
            };
            // What a host delivers, it keeps.
            let kept =
                matches!(record.fate, Fate::Delivered(_)) && self.world.host(*node).is_some();
            let (_, port, to) = by;
            let all = ways.range((*node, port, NeighbourId(0))..=(*node, port, NeighbourId::ALL));
            let all = all.filter(|(key, _)| to == NeighbourId::ALL || **key == by);
            for (_, way) in all.filter(|_| !kept) {
                let left = Sent {
                    way: *way,
                    left: if way.repeats {
                        record.began
                    } else {
                        record.ended
                    },
                    uses: way.copies,
                };
                sent.entry((way.to, record.digest)).or_default().push(left);
                let (least, most) = arrived.entry(way.to).or_default();
                let latest = left.until();
                *least += u64::from(latest <= self.world.now());
                *most += 1;
            }
        }
        let mut unfinished = self.unfinished(&ways);
        // Who repeats a packet tells of its leaving when he knows that it has come.
        let mut untold = self.world.untold();
        let mut resent = self.resent();
        for ((node, digest), mut stays) in taken {
            stays.sort();
            let mut candidates = sent.remove(&(node, digest)).unwrap_or_default();
            candidates.sort_by_key(Sent::until);
            for at in stays {
                match candidates.iter_mut().find(|sent| sent.fits(at)) {
                    Some(sent) => sent.uses -= 1,
                    None if unfinished.get(&node).is_some_and(|count| *count > 0) => {
                        *unfinished.entry(node).or_default() -= 1;
                        arrived.entry(node).or_default().1 += 1;
                    }
                    None if resent.get(&node).is_some_and(|count| *count > 0) => {
                        *resent.entry(node).or_default() -= 1;
                    }
                    None if untold > 0 && ways.values().any(|it| it.to == node && it.repeats) => {
                        untold -= 1;
                    }
                    None => {
                        let name = self.name(node);
                        self.say(format!(
                            "{name} took in {digest:x} at {at:?}; nobody sent it"
                        ));
                    }
                }
            }
        }
        // Those that their nodes still hold have no fate yet.
        for (node, count) in unfinished {
            arrived.entry(node).or_default().1 += count;
        }
        self.clean(&ways, &arrived);
    }

    /// By node, how many packets may come to it that nobody says to have sent: a node that is
    /// killed with all of a packet on a serial line but the flag after it has sent it all the same,
    /// once it sends a flag again.
    fn unfinished(
        &self,
        ways: &BTreeMap<(NodeIndex, PortId, NeighbourId), Way>,
    ) -> BTreeMap<NodeIndex, u64> {
        let mut unfinished = BTreeMap::new();
        for ((from, ..), way) in ways.iter().filter(|(_, way)| way.serial) {
            let alive = self.world.is_alive(*from);
            let kills = self.world.lives(*from).0.len() - usize::from(alive);
            *unfinished.entry(way.to).or_default() += kills as u64;
        }
        unfinished
    }

    /// By node, how many packets may come to it that aren't told of as sent to it. One that is
    /// killed may have handed on what its neighbours don't know that it had, and they send it again
    /// to its next life; and when a neighbour's routes change, what it has had may go another way
    /// as well, and only that is told. Each time it is what the neighbour keeps for it, at most.
    fn resent(&self) -> BTreeMap<NodeIndex, u64> {
        let mut resent = BTreeMap::new();
        for ((from, port, _), way) in self.ways().iter().filter(|(_, way)| way.repeats) {
            let kills = self.world.lives(way.to).0.len() as u64 - 1;
            let times = kills + self.world.reroutes(*from);
            *resent.entry(way.to).or_default() += times * self.kept(*from, *port);
        }
        resent
    }

    /// A station keeps a window of D_PDUs for each other.
    const STATION_PACKETS_MAX: u64 = 128;

    /// Packets that a node has kept for its neighbours at a port, at the most.
    fn kept(&self, node: NodeIndex, port: PortId) -> u64 {
        if !self.world.repeats(node, port) {
            return Self::STATION_PACKETS_MAX;
        }
        let lives = self.world.lives(node).0.into_iter();
        let ports = lives.filter_map(|stats| stats.ports.get(port.index()));
        ports
            .map(|port| port.hop.window_packets_most)
            .max()
            .unwrap_or(0)
    }

    /// Whether no node was ever killed.
    fn unbroken(&self) -> bool {
        let mut nodes = (0..self.names.len()).map(NodeIndex);
        nodes.all(|node| self.world.is_alive(node) && self.world.lives(node).0.len() == 1)
    }

    /// Nodes to which nothing can get lost.
    fn clean(
        &mut self,
        ways: &BTreeMap<(NodeIndex, PortId, NeighbourId), Way>,
        arrived: &BTreeMap<NodeIndex, (u64, u64)>,
    ) {
        for node in (0..self.names.len()).map(NodeIndex) {
            let mut into = ways.values().filter(|way| way.to == node);
            let (lives, _) = self.world.lives(node);
            let [stats] = lives[..] else { continue };
            if !self.world.is_alive(node) || !into.all(|way| way.clean) {
                continue;
            }
            let (least, most) = arrived.get(&node).copied().unwrap_or_default();
            let taken = stats.admitted;
            if !(least..=most).contains(&taken) {
                let name = self.name(node);
                self.say(format!(
                    "{name} took in {taken} of {least} to {most} sent cleanly"
                ));
            }
            // What a killed neighbour had begun to send ends in the middle.
            if !self.unbroken() {
                continue;
            }
            let faults = |port: &PortStats| port.damaged + port.invalid + port.strangers;
            let faults: u64 = stats.ports.iter().map(faults).sum();
            if faults + stats.malformed > 0 {
                let name = self.name(node);
                self.say(format!("{name} met {faults} faults on clean links"));
            }
        }
    }
}
