//! What happened between two places: delay, jitter, loss, order, and remarked code points.

use std::collections::BTreeMap;

use strait_core::prefix::Prefix;

use super::pending::{Pending, Seen};
use super::rows::{Flow, Fold, Key, Rows};
use super::source::Packet;
use super::spread::Times;
use super::timeline::Timeline;
use super::{ROWS_MAX, Settings};

/// Pairs of addresses for which is known which way they go, and flows whose order is followed.
const FLOWS_MAX: usize = 65_536;
/// Rows for which it isn't known yet whether a packet that was seen once is lost.
const UNDECIDED_MAX: usize = 65_536;
/// Places for marks of packets that went across, by which a second copy is known. Copies come soon
/// after each other; older marks are overwritten by chance.
const RECENT: usize = 1 << 18;

/// One of the two captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    A,
    B,
}

impl Side {
    pub(super) const BOTH: [Self; 2] = [Self::A, Self::B];

    pub(super) const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// What belongs to one row of one direction.
#[derive(Debug, Default)]
pub(super) struct Crossing {
    /// Packets that arrived, each counted once.
    pub(super) arrived: u64,
    pub(super) lost: u64,
    /// Seen at the sender only, at a time when the other capture had not begun or had ended.
    pub(super) not_judged: u64,
    /// Seen at the receiver only.
    pub(super) unsent: u64,
    pub(super) duplicates: u64,
    pub(super) reordered: u64,
    pub(super) remarked: u64,
    pub(super) delays: Times,
    /// Differences of delay from one packet of a flow to the next that arrived (RFC 3550 section
    /// 6.4.1), without their sign.
    pub(super) distances: Times,
    pub(super) over_time: Timeline,
    /// Octets by the time of their arrival.
    pub(super) arrivals: Timeline,
}

impl Fold for Crossing {
    fn fold(&mut self, other: Self) {
        self.arrived += other.arrived;
        self.lost += other.lost;
        self.not_judged += other.not_judged;
        self.unsent += other.unsent;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.remarked += other.remarked;
        self.delays.merge(&other.delays);
        self.distances.merge(&other.distances);
        self.over_time.merge(other.over_time);
        self.arrivals.merge(other.arrivals);
    }
}

/// The order within a flow.
#[derive(Debug, Default)]
struct Order {
    /// The highest number of those that arrived.
    highest: Option<u64>,
    delay_ns: Option<i64>,
}

/// Where packets of a pair of addresses come from.
#[derive(Debug, Default)]
struct Way(Option<Side>);

/// A flow that finds no room begins anew.
impl Fold for Order {
    fn fold(&mut self, _: Self) {}
}

impl Fold for Way {
    fn fold(&mut self, _: Self) {}
}

/// Packets seen once of a pair whose direction isn't known: in time for the other capture, and not.
#[derive(Clone, Copy, Debug, Default)]
struct Undecided {
    inside: u64,
    outside: u64,
}

/// Packets that went one way.
#[derive(Debug)]
pub(super) struct Direction {
    pub(super) rows: Rows<Key, Crossing>,
    orders: Rows<u64, Order>,
    /// How many packets had which code point at the sender and at the receiver.
    pub(super) marks: BTreeMap<(u8, u8), u64>,
    pub(super) delays: Option<(i64, i64)>,
}

impl Default for Direction {
    fn default() -> Self {
        Self {
            rows: Rows::new(ROWS_MAX),
            orders: Rows::new(FLOWS_MAX),
            marks: BTreeMap::new(),
            delays: None,
        }
    }
}

/// Finds the same packets in two captures. Packets have to come in the order of the common clock.
#[derive(Debug)]
pub(super) struct Across {
    settings: Settings,
    began_ns: Option<i64>,
    pending: [Pending; 2],
    /// What each capture covers so far, and whether it has ended.
    covers: [Option<(i64, i64)>; 2],
    ended: [bool; 2],
    ways: Rows<Key, Way>,
    /// Packets by the capture that has them first: from A to B, from B to A.
    pub(super) directions: [Direction; 2],
    recent: Vec<(u64, Option<Side>)>,
    undecided: BTreeMap<(Side, Key, Key), Undecided>,
    pub(super) faults: Faults,
}

/// What limits the figures, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// Packets of which too little was kept to know them again, by capture.
    pub(super) too_short: [u64; 2],
    /// Packets that had to go before their time because too many waited.
    pub(super) without_room: u64,
    /// Packets of pairs of addresses that were never seen at the other place, by capture.
    pub(super) never_seen: [u64; 2],
}

impl Across {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            began_ns: None,
            pending: Default::default(),
            covers: [None; 2],
            ended: [false; 2],
            ways: Rows::new(FLOWS_MAX),
            directions: Default::default(),
            recent: vec![(0, None); RECENT],
            undecided: BTreeMap::new(),
            faults: Faults::default(),
        }
    }

    /// A capture has no more packets.
    pub(super) fn end(&mut self, side: Side) {
        self.ended[side as usize] = true;
    }

    /// Takes in a packet; its time is on the common clock.
    pub(super) fn record(&mut self, side: Side, packet: &Packet<'_>) {
        let time_ns = packet.time_ns;
        self.began_ns.get_or_insert(time_ns);
        let (first, last) = self.covers[side as usize].unwrap_or((time_ns, time_ns));
        self.covers[side as usize] = Some((first.min(time_ns), last.max(time_ns)));
        self.expire(time_ns);
        let settings = &self.settings;
        let octets = settings.mark_octets;
        let Some(mark) = packet.ip.mark(packet.bytes, octets, settings.translated) else {
            self.faults.too_short[side as usize] += 1;
            return;
        };
        let ip = &packet.ip;
        let seen = Seen {
            time_ns,
            mark,
            key: settings.by.key(ip),
            flow: Key::Flow(Flow::of(ip)).hash(),
            pair: Key::Pair(ip.src, ip.dst),
            dscp: ip.dscp,
            hop_limit: ip.hop_limit,
            octets: ip.octets,
        };
        self.find(side, seen);
    }

    fn find(&mut self, side: Side, seen: Seen) {
        if let Some((number, earlier)) = self.pending[side.other() as usize].take(seen.mark) {
            let own = self.pending[side as usize].number();
            self.pending[side as usize].skip();
            self.matched(side, (own, seen), (number, earlier));
            return;
        }
        let (mark, receiver) = self.recent[seen.mark as usize % RECENT];
        if mark == seen.mark && receiver == Some(side) {
            let row = self.directions[side.other() as usize].rows.at(seen.key);
            row.duplicates += 1;
            return;
        }
        self.pending[side as usize].push(seen);
        // Each side has room of its own, so that packets which find nothing don't push out those
        // that others will ask for.
        if self.pending[side as usize].len() > self.settings.pending_max
            && let Some(oldest) = self.pending[side as usize].pop()
        {
            self.faults.without_room += 1;
            self.seen_once(side, oldest);
        }
    }

    /// A packet that both have; `later` is the place that had it second.
    fn matched(&mut self, later: Side, own: (u64, Seen), earlier: (u64, Seen)) {
        let sender = self.sender(later, &own.1, &earlier.1);
        let ((number, sent), (_, received)) = if sender == later {
            (own, earlier)
        } else {
            (earlier, own)
        };
        self.ways.at(sent.pair).0 = Some(sender);
        self.recent[sent.mark as usize % RECENT] = (sent.mark, Some(sender.other()));
        let delay_ns = received.time_ns.saturating_sub(sent.time_ns);
        let began_ns = self.began_ns.unwrap_or_default();
        let direction = &mut self.directions[sender as usize];
        direction.matched(number, &sent, &received, delay_ns);
        let row = direction.rows.at(sent.key);
        let interval_ns = self.settings.interval_ns;
        let since_ns = sent.time_ns.saturating_sub(began_ns);
        row.over_time.record(since_ns, interval_ns, delay_ns);
        let since_ns = received.time_ns.saturating_sub(began_ns);
        let octets = received.octets.into();
        row.arrivals.record(since_ns, interval_ns, octets);
    }

    /// Who sent a packet that both saw: whose side its source is on, else who saw more hops left,
    /// else who saw it first.
    fn sender(&self, later: Side, own: &Seen, earlier: &Seen) -> Side {
        if let Some(sender) = self.told_sender(&own.pair) {
            return sender;
        }
        match own.hop_limit.cmp(&earlier.hop_limit) {
            std::cmp::Ordering::Greater => later,
            _ => later.other(),
        }
    }

    /// On which side the source is, as the user says.
    fn told_sender(&self, pair: &Key) -> Option<Side> {
        let a_side: &[Prefix] = &self.settings.a_side;
        match pair {
            Key::Pair(src, _) if !a_side.is_empty() => {
                let inside = a_side.iter().any(|prefix| prefix.contains(*src));
                Some(if inside { Side::A } else { Side::B })
            }
            _ => None,
        }
    }

    /// Gives up packets that have waited too long.
    fn expire(&mut self, now_ns: i64) {
        let before_ns = now_ns.saturating_sub(self.settings.window_ns);
        for side in Side::BOTH {
            while let Some(seen) = self.pending[side as usize].pop_before(before_ns) {
                self.seen_once(side, seen);
            }
        }
    }

    /// A packet that only one place saw.
    fn seen_once(&mut self, side: Side, seen: Seen) {
        let way = self.told_sender(&seen.pair);
        let way = way.or_else(|| self.ways.at(seen.pair).0);
        let inside = self.is_covered(side, way, &seen);
        let one = Undecided {
            inside: u64::from(inside),
            outside: u64::from(!inside),
        };
        match way {
            Some(sender) => self.decide(side, sender, seen.key, one),
            None => {
                let room = self.undecided.len() < UNDECIDED_MAX;
                let entry = (side, seen.pair, seen.key);
                match self.undecided.get_mut(&entry) {
                    Some(sum) => {
                        sum.inside += one.inside;
                        sum.outside += one.outside;
                    }
                    None if room => {
                        self.undecided.insert(entry, one);
                    }
                    None => self.faults.never_seen[side as usize] += 1,
                }
            }
        }
    }

    /// Whether the other capture ran when the packet passed, or should have.
    fn is_covered(&self, side: Side, sender: Option<Side>, seen: &Seen) -> bool {
        let Some((first, last)) = self.covers[side.other() as usize] else {
            return false;
        };
        let delays = self.directions[sender.unwrap_or(side) as usize].delays;
        let longest_ns = delays.map_or(0, |(_, longest)| longest.max(0));
        let ended = self.ended[side.other() as usize];
        if sender.unwrap_or(side) == side {
            let due_ns = seen.time_ns.saturating_add(longest_ns);
            first <= seen.time_ns && (!ended || due_ns <= last)
        } else {
            first <= seen.time_ns.saturating_sub(longest_ns) && (!ended || seen.time_ns <= last)
        }
    }

    fn decide(&mut self, side: Side, sender: Side, key: Key, counted: Undecided) {
        let row = self.directions[sender as usize].rows.at(key);
        if sender == side {
            row.lost += counted.inside;
            row.not_judged += counted.outside;
        } else {
            row.unsent += counted.inside + counted.outside;
        }
    }

    /// Gives up all that still waits, and decides what was undecided.
    pub(super) fn finish(&mut self) {
        self.ended = [true; 2];
        for side in Side::BOTH {
            while let Some(seen) = self.pending[side as usize].pop() {
                self.seen_once(side, seen);
            }
        }
        for ((side, pair, key), counted) in std::mem::take(&mut self.undecided) {
            match self.ways.at(pair).0 {
                Some(sender) => self.decide(side, sender, key, counted),
                None => self.faults.never_seen[side as usize] += counted.inside + counted.outside,
            }
        }
    }

    /// Flows and pairs of addresses that were forgotten for want of room. Of one that comes back,
    /// late packets before aren't known, and losses may count as never seen.
    pub(super) fn forgotten(&self) -> u64 {
        let orders = self.directions.iter().map(|one| one.orders.folded());
        self.ways.folded() + orders.sum::<u64>()
    }

    /// How much more B's clock shows than A's, if the fastest packet of each direction took equally
    /// long; `None` unless packets went both ways.
    pub(super) fn clock_offset_ns(&self) -> Option<f64> {
        let [forth, back] = self.directions.each_ref().map(|direction| direction.delays);
        let ((forth_ns, _), (back_ns, _)) = (forth?, back?);
        Some((forth_ns as f64 - back_ns as f64) / 2.0)
    }
}

impl Direction {
    fn matched(&mut self, number: u64, sent: &Seen, received: &Seen, delay_ns: i64) {
        let (least, greatest) = self.delays.unwrap_or((delay_ns, delay_ns));
        self.delays = Some((least.min(delay_ns), greatest.max(delay_ns)));
        *self.marks.entry((sent.dscp, received.dscp)).or_default() += 1;
        let order = self.orders.at(sent.flow);
        let late = order.highest.is_some_and(|highest| number < highest);
        order.highest = order.highest.max(Some(number));
        let distance_ns = order
            .delay_ns
            .replace(delay_ns)
            .map(|last_ns| delay_ns.saturating_sub(last_ns).saturating_abs());
        let row = self.rows.at(sent.key);
        row.arrived += 1;
        row.remarked += u64::from(sent.dscp != received.dscp);
        row.reordered += u64::from(late);
        row.delays.record(delay_ns);
        if let Some(distance_ns) = distance_ns {
            row.distances.record(distance_ns);
        }
    }
}
