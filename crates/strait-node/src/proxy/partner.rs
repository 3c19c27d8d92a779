//! A partner: its session, and when that may send.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::{Duration, Instant};
use strait_mail::Bearer;
use strait_proxy::{Session, Settings, Waits};

use super::inner::AWAITED;
use crate::config::{PartnerConfig, ProxyConfig};
use crate::route::Prefix;

/// Hops that a session's packets may take.
pub(crate) const HOP_LIMIT: u8 = 64;
/// What a stream may have waiting, as line time.
const HOLD: Duration = Duration::from_secs(2);
/// Of these, what links that repeat by themselves keep until the other side has it.
const REPEATED: Duration = Duration::from_secs(1);
const REPEATED_TURN: Duration = Duration::from_millis(2300);
/// Line time of datagrams that wait at the link, so that it is never idle.
const QUEUED: Duration = Duration::from_millis(50);
/// The same where there are turns, each of which has what waits as it begins. That is what queues
/// of the presets hold. Where a turn is planned here it waits in the session instead, so that it
/// is decided late what goes.
const QUEUED_TURN: Duration = Duration::from_secs(30);
/// The same on slow lines, as long as that is no more than so many octets: what a turn costs is
/// longer there, too.
const QUEUED_TURN_SLOW: Duration = Duration::from_secs(60);
const QUEUED_TURN_OCTETS: u64 = 8000;
/// The same of a stream that nobody is beside: only whoever comes next would wait for its end.
const QUEUED_TURN_ALONE: Duration = Duration::from_secs(60);
const QUEUED_TURN_ALONE_SLOW: Duration = Duration::from_secs(120);
/// The same while the other side asks, unless answers to what it has just asked take more: cut,
/// they would take another turn. And how long after a question it is likely to ask again.
const TURN_ASKED: Duration = Duration::from_secs(10);
const ASKED: Duration = Duration::from_secs(45);
const ASKED_JUST_NOW: Duration = Duration::from_secs(15);
/// Where others fill a class there, a datagram joins them after so long: it takes the place of one
/// of ours, if it is these that fill it.
const CROWDED_TURN: Duration = Duration::from_secs(60);
/// Line time of the longest datagram: whoever comes next waits for the rest of one.
const DATAGRAM: Duration = Duration::from_millis(750);
/// The same where whoever comes next waits for a turn above all.
const DATAGRAM_TURN: Duration = Duration::from_millis(3750);
/// Shorter ones would be headers above all: on slow lines they may take longer.
const DATAGRAM_OCTETS: u64 = 512;
const DATAGRAM_SLOW: Duration = Duration::from_millis(2200);
const DATAGRAM_OCTETS_MIN: u64 = 256;
/// The same on slow lines, of a stream that is alone: nobody waits yet, and headers of shorter ones
/// would make it slower than TCP's own segments are.
const DATAGRAM_OCTETS_ALONE: usize = 768;
/// Octets of a packet of the message switch's where turns are planned: one D_PDU's, with what a
/// station puts around it. A more urgent message waits for the rest of it.
const LANE_OCTETS: usize = 1019;
/// Line time that may come of a stream before any of it is taken: round trips of a far satellite.
const WINDOW: Duration = Duration::from_secs(4);
/// The same where the link repeats by itself: others come on while one is repeated for long.
const WINDOW_REPAIRED: Duration = Duration::from_secs(12);
const WINDOW_OCTETS_MIN: u64 = 64 * 1024;
const WINDOW_OCTETS_MAX: u64 = 8 << 20;
/// How long an answer may take at least, beside its time on the line.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same where the link repeats by itself what it loses.
const PATIENCE_REPAIRED: Duration = Duration::from_secs(4);
/// The same of a link with turns; an acknowledgement by itself would be a turn.
const PATIENCE_TURNS: Duration = Duration::from_secs(60);
const ACK_TURNS: Duration = Duration::from_secs(5);
const ACK: Duration = Duration::from_millis(200);
/// How long repairs take by then: others overtake meanwhile.
const REORDER_REPAIRED: Duration = Duration::from_secs(5);
/// Where links have turns, how long the other side takes to greet and to be answered, beside its
/// octets: a link is made before.
const GREETING: Duration = Duration::from_secs(20);
/// Pauses between questions whether the way is there, and octets of one. Nothing else crosses.
const PAUSE: Duration = Duration::from_millis(500);
const QUESTION_OCTETS: u64 = 144;
/// About what stands before the octets of a stream in a packet.
const HEADERS_OCTETS: u64 = 48;
/// How long a stream waits for others that had less. Where turns are planned, its share then comes
/// with the next one.
const WAIT: Duration = Duration::from_secs(30);
const WAIT_TURN: Duration = Duration::from_secs(45);
/// On faster lines octets aren't compressed: they cost more here than there.
const PACKED_BIT_S: u64 = 10_000_000;
/// The largest packet, whatever the link, and to a partner behind others: every link between
/// carries it.
const PACKET_OCTETS_MAX: usize = 4096;
const PACKET_OCTETS_FAR: usize = 1500;

/// What streams may have, whatever the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Line time of which one may have octets waiting, if somebody said so.
    hold: Option<Duration>,
    /// Streams that each side may open at a time.
    streams: usize,
    /// Octets of all of them, of each direction.
    octets: u64,
}

impl Limits {
    pub(super) fn of(config: &ProxyConfig) -> Self {
        Self {
            hold: config.hold.map(|hold| hold.0),
            streams: config.streams as usize,
            octets: config.octets_of_partner(),
        }
    }
}

/// The link that leads to a partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkView {
    /// Its rate.
    pub(crate) bit_s: u64,
    /// The largest packet.
    pub(crate) mtu: usize,
    /// It repeats by itself what it loses.
    pub(crate) repairs: bool,
    /// How long a turn of a half-duplex link is at most; zero where there are none.
    pub(crate) turn: Duration,
    /// What a turn has is chosen as it goes on, among what is ready as it begins.
    pub(crate) plans: bool,
    /// Octets that wait at it, of all classes.
    pub(crate) queued: u64,
    /// Nothing leaves it for now: the station that it leads to doesn't answer.
    pub(crate) silent: bool,
    /// Others than sessions' partners have sent by it lately, and would wait for turns as well.
    pub(crate) shared: bool,
}

/// What a session has ready beside what waits at its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) octets: u64,
    pub(crate) packets: u64,
    /// Until when there may be more.
    pub(crate) settles: Option<Instant>,
}

/// A class of a session's datagrams at its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassView {
    /// Octets that wait in it, with the rest of the packet that is leaving, and that may.
    pub(crate) queued: u64,
    pub(crate) queued_max: u64,
}

impl LinkView {
    /// Octets that it carries in so long.
    fn octets(&self, time: Duration) -> u64 {
        let octets = u128::from(self.bit_s) * time.as_nanos() / 8_000_000_000;
        u64::try_from(octets).unwrap_or(u64::MAX)
    }

    /// How long so many octets take.
    fn time(&self, octets: u64) -> Duration {
        let ns = u128::from(octets) * 8_000_000_000 / u128::from(self.bit_s.max(1));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Octets that wait for a turn.
    pub(crate) fn queued_turn(&self) -> u64 {
        self.octets(self.turn_queued())
    }

    /// Line time of these.
    fn turn_queued(&self) -> Duration {
        let slow = QUEUED_TURN_SLOW.min(self.time(QUEUED_TURN_OCTETS));
        QUEUED_TURN.max(slow)
    }

    /// Whether turns have what waits at the link as they begin.
    const fn queues_turns(&self) -> bool {
        !self.turn.is_zero() && !self.plans
    }

    /// Line time that a planned turn has at most of streams, or of one that is alone.
    pub(crate) fn turn_planned(&self, alone: bool) -> Duration {
        if !alone || self.shared {
            return self.turn_queued();
        }
        let slow = QUEUED_TURN_ALONE_SLOW.min(self.time(QUEUED_TURN_OCTETS));
        QUEUED_TURN_ALONE.max(slow)
    }

    /// Octets of a stream that may wait here: those at the link count, and the datagram that is
    /// leaving.
    fn hold(&self, hold: Option<Duration>, alone: bool) -> u64 {
        let (usual, around) = match (self.plans, self.repairs) {
            (true, _) => (self.turn_planned(alone), REPEATED_TURN),
            (false, true) => (HOLD, REPEATED),
            (false, false) => (HOLD, QUEUED * 2),
        };
        let datagram = self.datagram() as u64;
        let least = match alone || !self.plans {
            true => self.datagram_alone() as u64,
            false => datagram,
        };
        let hold = self.octets(hold.unwrap_or(usual));
        hold.saturating_sub(datagram + self.octets(around))
            .clamp(least, WINDOW_OCTETS_MAX)
    }

    /// How long one datagram may be overtaken. One that a link repeats in the next turn, and
    /// perhaps in the one after, isn't lost while nobody is between that could lose it: the link
    /// says what it gives up.
    fn reorder(&self, near: bool) -> Duration {
        match near && self.plans {
            true => self.turn * 2,
            false => REORDER_REPAIRED.max(self.turn / 4),
        }
    }

    fn settings(&self, limits: Limits, near: bool) -> Settings {
        let window = if self.repairs {
            WINDOW_REPAIRED
        } else {
            WINDOW
        };
        let window = self.octets(window.max(self.turn * 2));
        // Two datagrams each way, and what waits before them.
        let line = self.time(4 * self.datagram_alone() as u64 + self.queued);
        let waits = if self.repairs {
            let (least, ack) = match self.turn.is_zero() {
                true => (PATIENCE_REPAIRED, ACK),
                // One for some datagrams: each is a packet with headers, and all leave in one turn.
                false => (
                    PATIENCE_TURNS + self.turn * 4,
                    match near && self.plans {
                        true => self.turn_planned(true),
                        false => ACK_TURNS.max(self.time(4 * self.datagram() as u64)),
                    },
                ),
            };
            let patience = least + line;
            Waits {
                patience,
                pause: patience,
                reorder: self.reorder(near),
                ack,
            }
        } else {
            Waits {
                patience: PATIENCE + line,
                pause: PAUSE.max(self.time(QUESTION_OCTETS)),
                reorder: Duration::ZERO,
                ack: ACK,
            }
        };
        Settings {
            waits,
            window: window.clamp(WINDOW_OCTETS_MIN, WINDOW_OCTETS_MAX),
            hold: self.hold(limits.hold, false),
            hold_alone: self.hold(limits.hold, true),
            wait: if self.plans { WAIT_TURN } else { WAIT },
            streams_max: limits.streams,
            octets_max: limits.octets,
        }
    }

    /// The longest packet of a session.
    fn datagram(&self) -> usize {
        let slow = self.octets(DATAGRAM_SLOW).min(DATAGRAM_OCTETS);
        let time = if self.plans { DATAGRAM_TURN } else { DATAGRAM };
        let usual = self.octets(time).max(slow).max(DATAGRAM_OCTETS_MIN);
        usize::try_from(usual).unwrap_or(usize::MAX).min(self.mtu)
    }

    /// The same of a stream that is alone, but for queues that hold no more than a turn. Where
    /// turns are planned, others wait for the end of one, however long its datagrams are.
    fn datagram_alone(&self) -> usize {
        let usual = self.datagram();
        if self.plans {
            let half = self.octets(self.turn_planned(true) / 2) as usize;
            return half.min(self.mtu).max(usual);
        }
        let most = match self.turn.is_zero() {
            true => DATAGRAM_OCTETS as usize,
            false => 0,
        };
        match usual <= most {
            true => DATAGRAM_OCTETS_ALONE.min(self.mtu),
            false => usual,
        }
    }

    /// Whether so many octets of a class wait at it that the next datagram has to.
    fn is_crowded(&self, class: ClassView) -> bool {
        if !self.queues_turns() {
            return class.queued >= self.octets(QUEUED).max(1);
        }
        // What is too much would push out what waits.
        let room = self.queued_turn().min(class.queued_max);
        class.queued >= room.saturating_sub(self.datagram() as u64)
    }

    /// How long a datagram of so many octets keeps others from a crowded class.
    fn pause(&self, octets: u64) -> Duration {
        // As if a handful of others shared the line.
        let shared = self.time(octets) * 4;
        match self.queues_turns() {
            true => shared.max(CROWDED_TURN),
            false => shared,
        }
    }
}

/// A partner.
#[derive(Debug)]
pub(crate) struct Partner {
    pub(super) address: IpAddr,
    prefixes: Vec<Prefix>,
    pub(super) session: Session,
    pub(super) link: Option<LinkView>,
    limits: Limits,
    greeted: bool,
    /// It has the lower address of both, and greets first where they can't speak at once.
    greets_first: bool,
    /// Its packets come by no gateway between: what the link carries, it gets.
    is_near: bool,
    /// Its datagrams that came, whatever they say.
    pub(super) heard: u64,
    /// How long the slowest answer to a client has taken lately.
    answer: Option<Duration>,
    /// By code point, the moment from which on a datagram may join others of its class.
    next: BTreeMap<u8, Instant>,
    seen: Instant,
    /// Since when its link is there and it isn't heard.
    missed: Option<Instant>,
    /// By code point, how many streams are the message switch's.
    lanes: BTreeMap<u8, usize>,
    /// Its token, if it has no message switch for streams.
    no_switch: Option<u32>,
}

impl Partner {
    /// The partner of a gateway that has the addresses `own`.
    pub(super) fn new(config: &PartnerConfig, limits: Limits, own: &[IpAddr], token: u32) -> Self {
        let unknown = LinkView {
            bit_s: 9600,
            mtu: 1280,
            repairs: false,
            turn: Duration::ZERO,
            plans: false,
            queued: 0,
            silent: false,
            shared: false,
        };
        let address = config.address;
        let likewise = own.iter().filter(|it| it.is_ipv4() == address.is_ipv4());
        Self {
            address,
            greets_first: likewise.min().is_some_and(|own| address < *own),
            prefixes: config.prefixes.clone(),
            session: Session::new(token, unknown.settings(limits, false)),
            link: None,
            limits,
            greeted: false,
            is_near: false,
            heard: 0,
            answer: None,
            next: BTreeMap::new(),
            seen: Instant::ZERO,
            missed: None,
            lanes: BTreeMap::new(),
            no_switch: None,
        }
    }

    /// Whether its line is so slow that compression pays.
    pub(super) fn is_slow(&self) -> bool {
        self.link.is_none_or(|it| it.bit_s <= PACKED_BIT_S)
    }

    /// Whether who is behind it is what it says itself.
    pub(super) const fn is_announced(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// The length of its longest prefix for an address, if that is near it.
    pub(super) fn nearness(&self, address: IpAddr) -> Option<u8> {
        let prefixes = match self.is_announced() {
            true => self.session.announced(),
            false => &self.prefixes,
        };
        let near = prefixes.iter().filter(|it| it.contains(address));
        near.map(|it| it.length).max()
    }

    /// Takes note of the time.
    pub(super) fn tend(&mut self, now: Instant) {
        match self.link {
            Some(_) => self.session.tend(now),
            None => self.session.tend_silent(now),
        }
        let missed = self.link.is_some() && !self.session.is_there();
        self.missed = missed.then(|| self.missed.unwrap_or(now));
    }

    /// What carries lanes to its switch.
    pub(super) fn bearer(&self, now: Instant) -> Bearer {
        let no_switch = self.no_switch.is_some() && self.no_switch == self.session.peer();
        if no_switch {
            Bearer::Tcp
        } else if self.link.is_some() && self.session.is_there() {
            Bearer::Session
        } else if self.given_up().is_none_or(|at| now < at) {
            Bearer::Awaited
        } else {
            Bearer::Tcp
        }
    }

    /// When it counts as a partner without a session, as it isn't heard.
    fn given_up(&self) -> Option<Instant> {
        self.missed
            .map(|since| since + AWAITED + self.session.patience())
    }

    /// A stream of the message switch's begins.
    pub(super) fn add_lane(&mut self, dscp: u8) {
        *self.lanes.entry(dscp).or_default() += 1;
    }

    /// How many there are.
    pub(super) fn lanes(&self) -> u64 {
        self.lanes.values().sum::<usize>() as u64
    }

    /// One is over.
    pub(super) fn remove_lane(&mut self, dscp: u8) {
        if let Some(count) = self.lanes.get_mut(&dscp) {
            *count -= 1;
            self.lanes.retain(|_, count| *count > 0);
        }
    }

    pub(super) const fn note_no_switch(&mut self) {
        self.no_switch = self.session.peer();
    }

    /// Takes a datagram of it, whose packet had so many hops left.
    pub(super) fn hear(&mut self, now: Instant, dscp: u8, hops_left: u8, datagram: &[u8]) {
        self.heard += 1;
        let near = hops_left == HOP_LIMIT;
        // Whoever else takes its address says nothing of its way.
        if self.is_near != near
            && self.session.is_of_both(datagram)
            && let Some(view) = self.link
        {
            self.is_near = near;
            self.session.set(view.settings(self.limits, near));
        }
        // What is wrong with it, the session counts.
        let _ = self.session.hear(now, dscp, datagram);
    }

    pub(super) fn set_link(&mut self, now: Instant, link: Option<LinkView>) {
        self.seen = now;
        let Some(mut view) = link else {
            (self.link, self.is_near) = (None, false);
            return;
        };
        view.mtu = view.mtu.min(match self.is_near {
            true => PACKET_OCTETS_MAX,
            false => PACKET_OCTETS_FAR,
        });
        let link = Some(view);
        if self.link != link {
            self.session.set(view.settings(self.limits, self.is_near));
        }
        if self.link.is_none() {
            // What was on its way when the link went had no chance since.
            self.session.wait(now);
        }
        if !self.greeted {
            self.greeted = true;
            // Two that begin together would call each other at once, and neither would hear it.
            let waits = self.greets_first && !view.turn.is_zero();
            let others = GREETING + view.time(2 * QUESTION_OCTETS);
            self.session.greet(if waits { now + others } else { now });
        }
        self.link = link;
    }

    /// The next datagram of a code point, which has this class. Where others' fill the class, it
    /// still has a share of the line. While nothing leaves it, no second one joins the first: what
    /// it says may be known by then.
    pub(super) fn poll(&mut self, now: Instant, dscp: u8, class: ClassView) -> Option<Vec<u8>> {
        let link = self.link?;
        let crowded = link.is_crowded(class);
        let pauses = self.next.get(&dscp).is_some_and(|at| now < *at);
        if crowded && (pauses || link.silent) {
            return None;
        }
        let headers = if self.address.is_ipv4() { 28 } else { 48 };
        let longest = self.longest(&link, dscp);
        let datagram = self
            .session
            .poll(now, dscp, longest.saturating_sub(headers))?;
        let octets = (datagram.len() + headers) as u64;
        self.next.insert(dscp, now + link.pause(octets));
        Some(datagram)
    }

    /// The longest packet of a code point.
    fn longest(&self, link: &LinkView, dscp: u8) -> usize {
        let longest = match self.session.is_alone(dscp) {
            true => link.datagram_alone(),
            false => link.datagram(),
        };
        match link.plans && self.lanes.contains_key(&dscp) {
            true => longest.min(LANE_OCTETS),
            false => longest,
        }
    }

    /// A client has its answer after so long.
    pub(super) fn note_answer(&mut self, time: Duration) {
        let faded = self.answer.map_or(Duration::ZERO, |it| it * 7 / 8);
        self.answer = Some(time.max(faded));
    }

    /// When a client's answer is overdue: long after those to others came.
    pub(super) fn patience(&self) -> Duration {
        self.answer
            .map_or_else(|| self.session.patience(), |it| it * 2)
    }

    /// What the session has ready for a turn that is planned by that, with headers.
    pub(super) fn promise(&self, now: Instant) -> Promise {
        let Some(link) = self.link.filter(|it| it.plans) else {
            return Promise::default();
        };
        let ready = self.session.ready();
        let wanting = self.session.wants(now).into_iter();
        let datagram = wanting.map(|dscp| self.longest(&link, dscp)).min();
        let datagram = datagram.unwrap_or_else(|| link.datagram_alone()) as u64;
        // What a turn has too little room for costs another one.
        let text = datagram.saturating_sub(HEADERS_OCTETS).max(1);
        let framed = |octets: u64| octets + HEADERS_OCTETS * octets.div_ceil(text);
        // Who has just asked asks again when he has the answer, which isn't before the turn ends.
        let asked = self.session.is_asked(now, ASKED);
        let short = link
            .octets(TURN_ASKED)
            .max(framed(self.session.answers(now, ASKED_JUST_NOW)));
        let turn = match (self.session.is_in_doubt(), asked) {
            // The answer to one tells what needn't go again.
            (true, _) => datagram,
            (false, true) => short,
            (false, false) => u64::MAX,
        };
        let planned = link.octets(link.turn_planned(self.session.is_only()));
        let room = turn.min(planned).saturating_sub(link.queued);
        let octets = framed(ready).min(room);
        Promise {
            octets,
            packets: octets.div_ceil(datagram.min(link.mtu as u64)),
            settles: self.session.settles(),
        }
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let silent = self.session.wake_silent().filter(|at| *at > self.seen);
        if self.link.is_none() {
            return silent;
        }
        let paced = self
            .next
            .values()
            .copied()
            .filter(|at| *at > self.seen)
            .min();
        let own = self.session.wake().filter(|at| *at > self.seen);
        let waits = !self.session.wants(self.seen).is_empty();
        let given_up = self.given_up().filter(|at| *at > self.seen);
        let all = own.into_iter().chain(paced.filter(|_| waits));
        all.chain(given_up).min()
    }
}
