//! Packets followed from host to host: where the time of the whole path went.

use std::collections::{BTreeMap, VecDeque};

use strait_channel::{LinkConfig, Side};
use strait_core::delay::{DelayPart, DelayParts};
use strait_core::time::nanos;
use strait_core::{Fate, FateRecord, Instant, NeighbourId, PortId};

use strait_wire::ip::digest;

use crate::world::Attach;

/// A packet between two nodes: it has left one and not ended its stay in the next.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// The node that it left for.
    to: usize,
    way: Way,
    /// When it came to that node.
    came: Instant,
    /// When its last octet left that node.
    left: Instant,
    /// When its first node had it.
    born: Instant,
    /// Where the time from `born` to `left` went.
    parts: DelayParts,
    /// The class in the first node that has classes.
    class: Option<u8>,
    /// When the packet that it was taken for came. Kept while equal packets are under way, as that
    /// may turn out to have been another one.
    walked: Option<Instant>,
}

impl Leg {
    /// A packet that begins its way in a node.
    fn begin(node: usize, born: Instant) -> Self {
        Self {
            to: node,
            way: Way::default(),
            came: born,
            left: born,
            born,
            parts: DelayParts::default(),
            class: None,
            walked: None,
        }
    }

    /// The latest moment at which it can end.
    const fn latest_ns(&self) -> u64 {
        if self.way.repeats {
            return u64::MAX;
        }
        let way_ns = self.way.ns_max + ROUNDING_NS;
        self.left.as_nanos().saturating_add(way_ns)
    }

    /// Whether it can end at `began`.
    const fn may_end(&self, began: Instant) -> bool {
        // Of several transmissions it isn't known which one came.
        let left = if self.way.repeats {
            self.came
        } else {
            self.left
        };
        let earliest_ns = left.as_nanos().saturating_add(self.way.ns_min);
        let came_ns = began.as_nanos();
        came_ns + ROUNDING_NS >= earliest_ns && came_ns <= self.latest_ns()
    }

    /// Whether it can end at `began` with the flag of a later frame.
    const fn may_end_late(&self, began: Instant) -> bool {
        self.way.flag_lost && began.as_nanos() > self.latest_ns()
    }

    /// Charges the way to the line.
    fn walk(&mut self, began: Instant) {
        let way_ns = began.since(self.left).as_nanos() as u64;
        self.parts.add(DelayPart::Line, way_ns);
        // Rounding may have made the packet leave later than it came, and a repetition that wasn't
        // needed always does: so much less was spent on repeating, or on the line.
        let mut early_ns = self.left.since(began).as_nanos() as u64;
        if early_ns == 0 {
            return;
        }
        let mut parts = DelayParts::default();
        let first = [DelayPart::Repeat, DelayPart::Line];
        let rest = DelayPart::ALL
            .into_iter()
            .filter(|part| !first.contains(part));
        for part in first.into_iter().chain(rest) {
            let spent_ns = self.parts.part_ns(part);
            let less_ns = early_ns.min(spent_ns);
            early_ns -= less_ns;
            parts.add(part, spent_ns - less_ns);
        }
        self.parts = parts;
    }
}

/// A node and its medium compute when the last octet has left, each from the burst that it knows:
/// the node's begins anew with a restart, or after it sent to another neighbour. Rounded up from
/// different beginnings, the two differ by one nanosecond.
const ROUNDING_NS: u64 = 1;

/// How long the way between two nodes may take, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    ns_min: u64,
    ns_max: u64,
    serial: bool,
    /// An outage may take the flag after a frame, and nothing else: then the frame ends with the
    /// next flag, whenever that comes.
    flag_lost: bool,
    /// Packets stay with their sender until they have come, and are repeated until then.
    repeats: bool,
}

/// Where a node's packets get to that leave it by a port for a neighbour.
#[derive(Clone, Copy, Debug)]
struct Lead {
    by: (PortId, NeighbourId),
    to: usize,
    way: Way,
}

/// What packets of one class met on their whole path.
#[derive(Clone, Debug, Default)]
pub struct PathTotals {
    /// Packets that reached a host.
    pub packets: u64,
    /// Where their time went.
    pub parts: DelayParts,
    /// Their whole time from host to host, measured apart from the parts.
    pub whole_ns: u64,
}

/// Finds a leg for a packet that came at `began` where all that fit are walked: those that walked
/// them move on to others, as many of them as it takes. Each leg is looked at once, so the way to
/// a free one is the shortest.
fn move_on(
    legs: &mut [Leg],
    fits: impl Fn(&Leg, Instant) -> bool,
    began: Instant,
) -> Option<usize> {
    // By leg: whether it was looked at, and the leg whose packet would move to it.
    let mut seen: Vec<Option<Option<usize>>> = vec![None; legs.len()];
    let mut moving = VecDeque::from([(began, None)]);
    while let Some((came, from)) = moving.pop_front() {
        for at in 0..legs.len() {
            if seen[at].is_some() || !fits(&legs[at], came) {
                continue;
            }
            seen[at] = Some(from);
            if let Some(walked) = legs[at].walked {
                moving.push_back((walked, Some(at)));
                continue;
            }
            let mut free = at;
            while let Some(from) = seen[free].flatten() {
                legs[free].walked = legs[from].walked;
                free = from;
            }
            return Some(free);
        }
    }
    None
}

/// The leg among those of equal packets by which one came to `node` at `began`, and whether it came
/// in time.
fn choose(legs: &mut [Leg], node: usize, began: Instant) -> Option<(usize, bool)> {
    let fits = |leg: &Leg, at: Instant| leg.to == node && leg.may_end(at);
    let find = |legs: &[Leg], at: Instant| {
        let free = legs.iter().enumerate();
        let free = free.filter(|(_, leg)| leg.walked.is_none() && fits(leg, at));
        // Of several, the one that would be too old first.
        let first = free.min_by_key(|(_, leg)| leg.latest_ns());
        first.map(|(at, _)| at)
    };
    if let Some(at) = find(legs, began) {
        return Some((at, true));
    }
    // Packets are told of when they leave a node, not in the order in which they came. One that
    // came later may have been given this one's leg, and another fits it as well.
    if let Some(at) = move_on(legs, fits, began) {
        return Some((at, true));
    }
    let late = |leg: &Leg| leg.to == node && leg.walked.is_none() && leg.may_end_late(began);
    let at = legs.iter().rposition(late)?;
    Some((at, false))
}

/// Joins the records of different nodes by the packets' identity.
///
/// A packet that a node took in must have left a neighbour a plausible time before: the link's
/// delay, with jitter and reordering as configured. Anything else was made up or changed on the
/// way, and is counted as unexplained.
#[derive(Debug, Default)]
pub struct PathBook {
    legs: BTreeMap<u64, Vec<Leg>>,
    /// By node: what leaves it where, and who is there, how far away.
    ways: Vec<Vec<Lead>>,
    /// By node: whether it is a host.
    hosts: Vec<bool>,
    duplicates: bool,
    /// By node: packets that may come to it from neighbours that were killed having sent all of
    /// them but the last flag, which the next life's first one serves for.
    unfinished: BTreeMap<usize, u64>,
    totals: BTreeMap<Option<u8>, PathTotals>,
    unexplained: u64,
    /// For ports whose frames go as datagrams: the node that these come to first.
    wrapped: BTreeMap<(usize, PortId, NeighbourId), usize>,
    /// By packet, ends of stays in nodes that others send to until they know that it has come:
    /// what they tell of its stay with them may be told later.
    early: BTreeMap<u64, Vec<(usize, FateRecord)>>,
}

/// How long datagrams that carry frames may be on their way, over whatever lies between.
const CARRIED_NS_MAX: u64 = 600_000_000_000;

impl PathBook {
    pub(crate) fn set_host(&mut self, node: usize) {
        let known = self.hosts.len().max(node + 1);
        self.hosts.resize(known, false);
        self.hosts[node] = true;
    }

    pub(crate) fn join(&mut self, ends: [Attach; 2], config: &LinkConfig) {
        for side in Side::BOTH {
            let from = ends[side.index()];
            let to = ends[side.other().index()].node.0;
            let keys = config.direction(side);
            // Order is kept behind a jittered frame, so that the wait can add up to the jitter of
            // one frame; a frame held back for reordering adds that.
            let (least, most) = config.way_delay(side);
            let (ns_min, ns_max) = (nanos(least), nanos(most));
            let serial = config.kind.carries_octets();
            let outages = keys.outage.is_some_and(|outages| !outages.is_empty());
            let flag_lost = serial && outages;
            let by = (from.node.0, from.port, from.neighbour);
            let way = Way {
                ns_min,
                ns_max,
                serial,
                flag_lost,
                repeats: false,
            };
            self.lead(by, to, way);
            self.duplicates |= keys.duplicate.is_some_and(|share| share.0 > 0.0);
        }
    }

    /// Learns where what leaves by a port leads; says what it was before.
    fn lead(
        &mut self,
        (node, port, neighbour): (usize, PortId, NeighbourId),
        to: usize,
        way: Way,
    ) -> Option<(usize, Way)> {
        let known = self.ways.len().max(node + 1);
        self.ways.resize_with(known, Vec::new);
        let leads = &mut self.ways[node];
        let by = (port, neighbour);
        let lead = Lead { by, to, way };
        match leads.binary_search_by_key(&by, |it| it.by) {
            Ok(place) => {
                let before = std::mem::replace(&mut leads[place], lead);
                Some((before.to, before.way))
            }
            Err(place) => {
                leads.insert(place, lead);
                None
            }
        }
    }

    /// Joins two ports whose packets go by stations of others.
    pub(crate) fn join_by_stations(&mut self, ends: [Attach; 2]) {
        for side in Side::BOTH {
            let (from, to) = (ends[side.index()], ends[side.other().index()]);
            let way = Way {
                ns_max: CARRIED_NS_MAX,
                ..Way::default()
            };
            let by = (from.node.0, from.port, from.neighbour);
            self.lead(by, to.node.0, way);
        }
    }

    /// Learns that frames of a port reach `far` as packets of others.
    pub(crate) fn carry(&mut self, from: (usize, PortId, NeighbourId), far: usize) {
        let way = Way {
            ns_max: CARRIED_NS_MAX,
            ..Way::default()
        };
        if let Some((next, _)) = self.lead(from, far, way) {
            self.wrapped.insert(from, next);
        }
    }

    /// A packet that carries a frame of such a port begins its way.
    pub(crate) fn wrapped(
        &mut self,
        from: (usize, PortId, NeighbourId),
        now: Instant,
        packet: &[u8],
    ) {
        if let Some(next) = self.wrapped.get(&from) {
            let mut leg = Leg::begin(*next, now);
            leg.way.ns_max = CARRIED_NS_MAX;
            self.legs.entry(digest(packet)).or_default().push(leg);
        }
    }

    /// And ends it.
    pub(crate) fn unwrapped(&mut self, packet: &[u8]) {
        let digest = digest(packet);
        if let Some(legs) = self.legs.get_mut(&digest) {
            legs.pop();
            if legs.is_empty() {
                self.legs.remove(&digest);
            }
        }
    }

    /// Learns that what leaves a node by this port stays with it until it has come.
    pub(crate) fn set_repeats(&mut self, node: usize, port: PortId) {
        for lead in self.ways.get_mut(node).into_iter().flatten() {
            if lead.by.0 == port {
                lead.way.repeats = true;
            }
        }
    }

    /// Whether anybody repeats what he sends to this node.
    fn is_repeated_to(&self, node: usize) -> bool {
        let mut leads = self.ways.iter().flatten();
        leads.any(|lead| lead.to == node && lead.way.repeats)
    }

    /// Learns that a node was killed.
    pub(crate) fn killed(&mut self, node: usize) {
        for lead in self.ways.get(node).into_iter().flatten() {
            if lead.way.serial {
                *self.unfinished.entry(lead.to).or_default() += 1;
            }
        }
    }

    /// Takes one packet's end in one node.
    pub(crate) fn take(&mut self, node: usize, record: &FateRecord) {
        if !self.walk(node, record) && self.legs.get(&record.digest).is_some_and(Vec::is_empty) {
            self.legs.remove(&record.digest);
        }
    }

    /// Takes a packet's stay in one node; whether it went on from there.
    fn walk(&mut self, node: usize, record: &FateRecord) -> bool {
        let host = self.hosts.get(node).is_some_and(|host| *host);
        let came = if record.own {
            Some(Leg::begin(node, record.began))
        } else {
            self.arrive(node, record.digest, record.began)
                .or_else(|| self.finish_for_the_dead(node, record.began))
        };
        let Some(mut leg) = came else {
            // What came by way of one that is early is early itself.
            if self.early.contains_key(&record.digest) || self.is_repeated_to(node) {
                let early = self.early.entry(record.digest).or_default();
                early.push((node, *record));
            } else {
                self.unexplained += 1;
            }
            return false;
        };
        leg.parts.merge(&record.parts);
        (leg.came, leg.left) = (record.began, record.ended);
        leg.walked = None;
        let by = match record.fate {
            Fate::Delivered(_) if host => {
                self.finish(&leg);
                return false;
            }
            Fate::Delivered(port) => (port, NeighbourId::PEER),
            Fate::Forwarded {
                port,
                to: NeighbourId::ALL,
            } => return self.spread(node, port, record, leg),
            Fate::Forwarded { port, to } => (port, to),
            Fate::Absorbed => return self.absorbed(node, record.digest, leg),
            Fate::Answered | Fate::Fragmented | Fate::Dropped(_) => return false,
        };
        // Where nobody is, nobody receives.
        let leads = self.ways.get(node);
        let Some(lead) = leads.and_then(|leads| leads.iter().find(|lead| lead.by == by)) else {
            return false;
        };
        (leg.to, leg.way) = (lead.to, lead.way);
        leg.class = leg.class.or_else(|| (!host).then_some(record.class.0));
        self.legs.entry(record.digest).or_default().push(leg);
        self.catch_up(record.digest);
        true
    }

    /// A packet left for all at a port.
    fn spread(&mut self, node: usize, port: PortId, record: &FateRecord, leg: Leg) -> bool {
        let leads = self.ways.get(node).into_iter().flatten();
        let leads = leads.filter(|lead| lead.by.0 == port);
        let legs = leads.map(|lead| Leg {
            to: lead.to,
            way: lead.way,
            class: leg.class.or(Some(record.class.0)),
            ..leg
        });
        let legs: Vec<Leg> = legs.collect();
        let went = !legs.is_empty();
        if went {
            self.legs.entry(record.digest).or_default().extend(legs);
            self.catch_up(record.digest);
        }
        went
    }

    /// A later packet took the place of one. Where packets stay until they have come, this one may
    /// have come too, and its sender will not know.
    fn absorbed(&mut self, node: usize, digest: u64, leg: Leg) -> bool {
        let leads = self.ways.get(node).into_iter().flatten();
        let repeated = leads.filter(|lead| lead.way.repeats);
        let legs = repeated.map(|lead| Leg {
            to: lead.to,
            way: lead.way,
            ..leg
        });
        let legs: Vec<Leg> = legs.collect();
        let went = !legs.is_empty();
        if went {
            self.legs.entry(digest).or_default().extend(legs);
            self.catch_up(digest);
        }
        went
    }

    /// Takes what was told of a packet before the stay that explains it.
    fn catch_up(&mut self, digest: u64) {
        for (node, record) in self.early.remove(&digest).unwrap_or_default() {
            self.take(node, &record);
        }
    }

    /// The leg by which a packet came to `node` at `began`, with the way between charged.
    fn arrive(&mut self, node: usize, digest: u64, began: Instant) -> Option<Leg> {
        let legs = self.legs.get_mut(&digest)?;
        let (at, in_time) = choose(legs, node, began)?;
        let mut leg = legs[at];
        // A copy may follow on a link that duplicates. Of equal packets, one that came in time may
        // stay longer than one that came late, and is told of after it. Else each is walked once.
        if !self.duplicates && in_time {
            if legs.len() > 1 {
                legs[at].walked = Some(began);
            } else {
                // Its place is taken by the next leg at once, or removed where there is none.
                legs.clear();
            }
        }
        leg.walk(began);
        Some(leg)
    }

    /// A packet whose sender was killed before it was done. Where it was before isn't known.
    fn finish_for_the_dead(&mut self, node: usize, began: Instant) -> Option<Leg> {
        let unfinished = self.unfinished.get_mut(&node)?;
        *unfinished = unfinished.checked_sub(1)?;
        Some(Leg::begin(node, began))
    }

    fn finish(&mut self, leg: &Leg) {
        let whole_ns = leg.left.since(leg.born).as_nanos() as u64;
        assert_eq!(
            leg.parts.total_ns(),
            whole_ns,
            "a packet's delay parts don't add up"
        );
        let totals = self.totals.entry(leg.class).or_default();
        totals.packets += 1;
        totals.parts.merge(&leg.parts);
        totals.whole_ns += whole_ns;
    }

    /// Packets with stays that nobody has explained yet who may: no more than there are packets
    /// whose senders don't know that they have come.
    pub fn early(&self) -> u64 {
        self.early.len() as u64
    }

    /// Packets that a node took in and nobody sent: must be none.
    pub const fn unexplained(&self) -> u64 {
        self.unexplained
    }

    /// Packets that left one node and never came to the next: lost on the way, or on it still.
    pub fn between(&self) -> u64 {
        let legs = self.legs.values().flatten();
        legs.filter(|leg| leg.walked.is_none()).count() as u64
    }

    /// By class of the first gateway, or `None` for packets that met none.
    pub const fn totals(&self) -> &BTreeMap<Option<u8>, PathTotals> {
        &self.totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::NodeIndex;
    use strait_core::ClassId;
    use strait_core::units::Time;

    const ONWARDS: Fate = Fate::Forwarded {
        port: PortId(1),
        to: NeighbourId::PEER,
    };

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Host 0, gateway 1, host 2; the second link takes 10 to 50 ms.
    fn book() -> PathBook {
        let end = |node, port| Attach {
            node: NodeIndex(node),
            port: PortId(port),
            neighbour: NeighbourId::PEER,
        };
        let config = LinkConfig::frames(8000, strait_core::Duration::from_millis(10));
        let jittery = config
            .clone()
            .with(|it| it.jitter = Some(Time(strait_core::Duration::from_millis(40))));
        let mut book = PathBook::default();
        book.set_host(0);
        book.set_host(2);
        book.join([end(0, 1), end(1, 0)], &config);
        book.join([end(1, 1), end(2, 0)], &jittery);
        book
    }

    fn stay(began: Instant, ended: Instant, own: bool, fate: Fate) -> FateRecord {
        let mut parts = DelayParts::default();
        parts.add(DelayPart::Line, ended.since(began).as_nanos() as u64);
        FateRecord {
            digest: 7,
            began,
            ended,
            octets: 100,
            class: ClassId(0),
            fate,
            own,
            marked: false,
            parts,
        }
    }

    #[test]
    fn a_packet_told_of_late_has_its_own_way() {
        let mut book = book();
        // Two equal packets, both sent before either is told of by the second node.
        for at in [0, 30] {
            book.take(0, &stay(ms(at), ms(at), true, ONWARDS));
            book.take(1, &stay(ms(at + 10), ms(at + 20), false, ONWARDS));
        }
        // Either may have come by the first leg at 65; only that one leads to 35.
        book.take(
            2,
            &stay(ms(65), ms(65), false, Fate::Delivered(PortId::HOST)),
        );
        book.take(
            2,
            &stay(ms(35), ms(90), false, Fate::Delivered(PortId::HOST)),
        );
        assert_eq!((book.unexplained(), book.between()), (0, 0));
        let totals = &book.totals()[&Some(0)];
        assert_eq!(totals.packets, 2);
        assert_eq!(totals.parts.total_ns(), totals.whole_ns);
        // No third one came.
        book.take(
            2,
            &stay(ms(66), ms(66), false, Fate::Delivered(PortId::HOST)),
        );
        assert_eq!(book.unexplained(), 1);
    }

    #[test]
    fn a_packet_told_of_last_moves_several_others_on() {
        let mut book = book();
        for at in [0, 30, 60] {
            book.take(0, &stay(ms(at), ms(at), true, ONWARDS));
            book.take(1, &stay(ms(at + 10), ms(at + 20), false, ONWARDS));
        }
        // Each of these two may have come by the leg before its own, and only that one leads to 35.
        book.take(
            2,
            &stay(ms(65), ms(65), false, Fate::Delivered(PortId::HOST)),
        );
        book.take(
            2,
            &stay(ms(95), ms(95), false, Fate::Delivered(PortId::HOST)),
        );
        book.take(
            2,
            &stay(ms(35), ms(99), false, Fate::Delivered(PortId::HOST)),
        );
        assert_eq!((book.unexplained(), book.between()), (0, 0));
        book.take(
            2,
            &stay(ms(36), ms(99), false, Fate::Delivered(PortId::HOST)),
        );
        assert_eq!(book.unexplained(), 1);
    }

    #[test]
    fn a_nanosecond_of_rounding_is_no_time_travel_and_two_are() {
        // Unexplained at the gateway, it is at the host as well.
        for (early_ns, unexplained) in [(0, 0), (1, 0), (2, 2)] {
            let mut book = book();
            let left = Instant::from_nanos(5_000_000 + early_ns);
            book.take(0, &stay(ms(1), left, true, ONWARDS));
            book.take(1, &stay(ms(15), ms(15), false, ONWARDS));
            book.take(
                2,
                &stay(ms(25), ms(25), false, Fate::Delivered(PortId::HOST)),
            );
            assert_eq!(book.unexplained(), unexplained, "{early_ns} ns");
            if unexplained == 0 {
                let totals = &book.totals()[&Some(0)];
                assert_eq!(totals.parts.total_ns(), 24_000_000);
            }
        }
    }

    #[test]
    fn a_leg_leads_one_way() {
        let mut book = book();
        book.take(0, &stay(ms(0), ms(0), true, ONWARDS));
        book.take(1, &stay(ms(10), ms(20), false, ONWARDS));
        // On its way to 2, it doesn't come to 0.
        book.take(
            0,
            &stay(ms(30), ms(30), false, Fate::Delivered(PortId::HOST)),
        );
        assert_eq!((book.unexplained(), book.between()), (1, 1));
    }
}
