//! Packets of each flow that are sent to a neighbour and not acknowledged yet.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::{ClassId, Duration, Instant, Packet};
use strait_wire::hbh::Session;
use strait_wire::hbh::paper::{Ack, Data, SPAN_MAX};

use super::super::session::Doubts;
use super::super::timing::LossShare;
use super::super::{Done, Manner, Outcome, Reliability};
use super::Settings;
use super::estimate::{Pace, Timeout, Window};

/// A packet in the window.
#[derive(Debug)]
struct Entry {
    /// `None`: it is acknowledged or given up, and waits for those before it.
    packet: Option<Packet>,
    /// Retries that it is worth.
    retries: u16,
    transmissions: u16,
    /// When the last transmission has left.
    sent: Instant,
    /// That asked for an acknowledgement.
    asked: bool,
    /// When it is sent again.
    due: Instant,
    /// It is to be sent again.
    lost: bool,
}

impl Entry {
    /// The longest between two repetitions of a packet that is kept beyond its retries.
    const PAUSE_MAX: Duration = Duration::from_secs(5);

    /// How long after a transmission the next one goes. What is only repeated so that the receiver
    /// says where it is goes ever more rarely.
    fn pause(&self, timeout: Duration) -> Duration {
        let beyond = self.transmissions.saturating_sub(self.retries + 1);
        let longer = timeout.saturating_mul(1 << beyond.min(16));
        longer.min(Self::PAUSE_MAX).max(timeout)
    }

    /// When it has to be looked at: its timeout.
    fn timeout(&self) -> Option<Instant> {
        (self.packet.is_some() && !self.lost).then_some(self.due)
    }
}

/// The sending side of one flow.
#[derive(Debug)]
struct Flow {
    /// The number of the first entry.
    base: u8,
    /// Numbers before it that may all be news to the receiver: nothing was heard of it since.
    unheard: u8,
    entries: VecDeque<Entry>,
    /// Transmissions since an acknowledgement was asked for.
    unasked: u16,
    timeout: Timeout,
    window: Window,
    pace: Pace,
    doubts: Doubts,
    /// When it sent last.
    used: Instant,
}

impl Flow {
    /// Numbers that a flow leaves behind unheard. With as many in its window, the receiver still
    /// takes the newest for a new one: half of all numbers are before it.
    const UNHEARD_MAX: usize = SPAN_MAX as usize + 1;

    fn new(settings: &Settings, (base, unheard): (u8, u8), now: Instant) -> Self {
        Self {
            base,
            unheard,
            entries: VecDeque::new(),
            unasked: 0,
            timeout: Timeout::new(settings.timeout),
            window: Window::new(settings),
            pace: Pace::default(),
            doubts: Doubts::default(),
            used: now,
        }
    }

    /// Packets that aren't acknowledged.
    fn held(&self) -> usize {
        let held = self.entries.iter().filter(|it| it.packet.is_some());
        held.count()
    }

    /// Whether the window, and the numbers that can be told, take another packet.
    fn has_room(&self) -> bool {
        self.held() < usize::from(self.window.packets())
            && self.entries.len() <= usize::from(SPAN_MAX)
    }

    /// Forgets the entries at the front that are done with.
    fn shorten(&mut self) {
        while self.entries.front().is_some_and(|it| it.packet.is_none()) {
            self.entries.pop_front();
            self.base = self.base.wrapping_add(1);
            self.unheard = self.unheard.saturating_add(1);
        }
    }

    /// Whether the window may move on though nothing is heard of the receiver. If it may not, what
    /// is in it is repeated until the receiver says where it is.
    fn may_give_up(&self) -> bool {
        usize::from(self.unheard) + self.entries.len() <= Self::UNHEARD_MAX
    }

    fn place(&self, seq: u8) -> usize {
        usize::from(seq.wrapping_sub(self.base))
    }

    /// What an acknowledgement tells: its next number, if any packet waits for it.
    fn came(&self, ack: &Ack<'_>) -> Option<Vec<usize>> {
        let next = self.place(ack.next);
        if next > self.entries.len() {
            return None;
        }
        let mut came: Vec<usize> = (0..next).collect();
        for [first, last] in ack.ranges {
            let (first, last) = (self.place(*first), self.place(*last));
            if first > last || last >= self.entries.len() {
                return None;
            }
            came.extend(first..=last);
        }
        let sent = |place: &usize| {
            self.entries
                .get(*place)
                .is_some_and(|it| it.transmissions > 0)
        };
        came.iter().all(sent).then_some(came)
    }
}

/// A packet's place among all flows: its flow, and its number there.
const fn number(flow: u16, seq: u8) -> u32 {
    (flow as u32) << 8 | seq as u32
}

/// The sending side of one neighbour.
#[derive(Debug)]
pub(super) struct Sender {
    settings: Settings,
    flows: BTreeMap<u16, Flow>,
    /// The next numbers of flows that have rested, and how many before them are unheard: they go
    /// on where they ended, as their receiver may still know them. No more than there are flow
    /// numbers.
    rested: BTreeMap<u16, (u8, u8)>,
    loss: LossShare,
    /// The packet whose transmission is leaving.
    leaving: Option<(u16, u8)>,
    /// Acknowledgements of what was never sent.
    pub(super) forged: u64,
    /// Packets sent again.
    pub(super) repeated: u64,
    /// Numbers in all windows at the most.
    pub(super) packets_most: u64,
}

impl Sender {
    /// Unacknowledged packets of all flows: eight windows of 64. 768 kB of the longest.
    const PACKETS_MAX: usize = 512;
    /// Flows that are remembered with all that was measured; of more, the one that rested longest
    /// keeps its number only.
    const FLOWS_MAX: usize = 512;

    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            flows: BTreeMap::new(),
            rested: BTreeMap::new(),
            loss: LossShare::default(),
            leaving: None,
            forged: 0,
            repeated: 0,
            packets_most: 0,
        }
    }

    /// Packets that aren't acknowledged.
    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        let entries = self.flows.values().flat_map(|flow| &flow.entries);
        entries.filter_map(|entry| entry.packet.as_ref())
    }

    fn entry_mut(&mut self, flow: u16, seq: u8) -> Option<&mut Entry> {
        let flow = self.flows.get_mut(&flow)?;
        let place = flow.place(seq);
        flow.entries.get_mut(place)
    }

    /// Whether a flow may send a new packet.
    pub(super) fn takes(&self, now: Instant, flow: u16) -> bool {
        self.packets().count() < Self::PACKETS_MAX
            && self
                .flows
                .get(&flow)
                .is_none_or(|flow| flow.has_room() && flow.pace.allows(now))
    }

    /// Takes a packet in.
    pub(super) fn begin(&mut self, now: Instant, packet: Packet, manner: Manner) -> u32 {
        let id = manner.flow.unwrap_or_default() as u16;
        let retries = self.retries(&packet, manner.reliability);
        if !self.flows.contains_key(&id) {
            self.make_room();
        }
        let at = self.rested.remove(&id).unwrap_or_default();
        let fresh = || Flow::new(&self.settings, at, now);
        let flow = self.flows.entry(id).or_insert_with(fresh);
        flow.entries.push_back(Entry {
            packet: Some(packet),
            retries,
            transmissions: 0,
            sent: Instant::NEVER,
            asked: false,
            due: Instant::NEVER,
            lost: true,
        });
        let number = number(id, flow.base.wrapping_add(flow.entries.len() as u8 - 1));
        let entries = self.flows.values().map(|flow| flow.entries.len() as u64);
        self.packets_most = self.packets_most.max(entries.sum());
        number
    }

    fn make_room(&mut self) {
        if self.flows.len() < Self::FLOWS_MAX {
            return;
        }
        let idle = self.flows.iter().filter(|(_, it)| it.entries.is_empty());
        let resting = idle.min_by_key(|(_, flow)| flow.used).map(|(id, _)| *id);
        if let Some((id, flow)) = resting.and_then(|id| self.flows.remove_entry(&id)) {
            self.rested.insert(id, (flow.base, flow.unheard));
        }
    }

    /// How often a packet is sent again at most: what is left of the path's number, or R, or what
    /// its class wants.
    fn retries(&self, packet: &Packet, reliability: Reliability) -> u16 {
        if self.settings.along_path {
            return u16::from(packet.retries.unwrap_or(self.settings.retries));
        }
        match reliability {
            Reliability::Full => u16::from(self.settings.retries),
            Reliability::Retries(retries) => retries,
            Reliability::Left { ppm } => self.loss.retries(ppm),
        }
    }

    /// The packet of a class that is to be sent again: of several, the one that was sent first.
    pub(super) fn again(&self, now: Instant, class: ClassId) -> Option<(u32, u32)> {
        let flows = self.flows.iter().filter(|(_, it)| it.pace.allows(now));
        let lost = flows.flat_map(|(id, flow)| {
            let entries = flow.entries.iter().enumerate();
            let lost = entries.filter(|(_, entry)| entry.lost);
            lost.filter_map(move |(place, entry)| {
                let packet = entry.packet.as_ref().filter(|it| it.class == class)?;
                let seq = flow.base.wrapping_add(place as u8);
                Some((entry.sent, number(*id, seq), packet.info().octets))
            })
        });
        let first = lost.min_by_key(|(sent, ..)| *sent);
        first.map(|(_, number, octets)| (number, octets))
    }

    /// Appends the frame of a packet that leaves from `starts` on.
    pub(super) fn transmit(
        &mut self,
        starts: Instant,
        number: u32,
        last: bool,
        names: Session,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let (id, seq) = ((number >> 8) as u16, number as u8);
        let along_path = self.settings.along_path;
        let flow = self.flows.get_mut(&id)?;
        let place = flow.place(seq);
        let full = !flow.has_room();
        let entry = flow.entries.get_mut(place)?;
        let packet = entry.packet.as_mut()?;
        let repeats = entry.transmissions > 0;
        flow.unasked += 1;
        let early = self.settings.asks_early && (repeats || last);
        let request = early || full || flow.unasked >= flow.window.packets();
        let left = entry.retries.saturating_sub(entry.transmissions);
        let data = Data {
            seq,
            flow: id,
            request,
            behind: place as u8,
            left: along_path.then_some(left.min(254) as u8),
        };
        data.emit(packet.bytes(), names, out)?;
        if repeats {
            packet.enter(entry.sent, DelayPart::Repeat);
        }
        packet.enter(starts, DelayPart::Line);
        flow.pace.note(starts, packet.octets());
        entry.transmissions = entry.transmissions.saturating_add(1);
        entry.lost = false;
        entry.asked = request;
        // Until it has left.
        entry.due = Instant::NEVER;
        if request {
            flow.unasked = 0;
        }
        flow.used = starts;
        self.repeated += u64::from(repeats);
        self.leaving = Some((id, seq));
        Some(())
    }

    /// The transmission has left at this moment.
    pub(super) fn left(&mut self, ended: Instant) {
        let Some((id, seq)) = self.leaving.take() else {
            return;
        };
        let after = self.flows.get(&id).map(|flow| flow.timeout.after());
        if let (Some(entry), Some(after)) = (self.entry_mut(id, seq), after) {
            entry.sent = ended;
            entry.due = ended + entry.pause(after);
        }
    }

    /// Takes an acknowledgement in, and says whether the two ends count by different numbers.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        done: &mut Vec<Done>,
    ) -> bool {
        let Some(flow) = self.flows.get_mut(&ack.flow) else {
            self.forged += 1;
            return false;
        };
        // Numbers before those in use are told by one that is late.
        let late = (ack.next.wrapping_sub(flow.base) as i8) < 0;
        if late {
            flow.unheard = flow.unheard.min(flow.base.wrapping_sub(ack.next));
        }
        let Some(came) = flow.came(ack).filter(|_| !late) else {
            self.forged += u64::from(!late);
            return flow.doubts.note(!late);
        };
        flow.doubts.note(false);
        let mut took: Option<Duration> = None;
        for place in came {
            let Some(entry) = flow.entries.get_mut(place) else {
                continue;
            };
            let Some(packet) = entry.packet.take() else {
                continue;
            };
            // What asked has been answered at once: of several, the last. Of one that was repeated
            // it isn't known which transmission came.
            if entry.asked && entry.transmissions == 1 {
                let own = now.since(entry.sent);
                took = Some(took.map_or(own, |before| before.min(own)));
            }
            entry.lost = false;
            self.loss.count(false);
            done.push((packet, entry.sent, Outcome::Acknowledged));
        }
        if let Some(took) = took {
            flow.timeout.measure(took);
        }
        let trip = flow.timeout.mean();
        flow.window.note_ack(now, trip);
        flow.pace.grow(now, trip, self.settings.pacing);
        if ack.congested {
            flow.pace.slow(now, self.settings.pacing);
        }
        flow.shorten();
        flow.unheard = 0;
        false
    }

    /// Takes those for lost whose timeout has passed: they are sent again, or given up.
    pub(super) fn expire(&mut self, now: Instant, done: &mut Vec<Done>) {
        for flow in self.flows.values_mut() {
            let may_give_up = flow.may_give_up();
            for entry in &mut flow.entries {
                if entry.timeout().is_none_or(|due| due > now) {
                    continue;
                }
                entry.lost = true;
                flow.window.note_repeat();
                self.loss.count(true);
                if may_give_up
                    && entry.transmissions > entry.retries
                    && let Some(packet) = entry.packet.take()
                {
                    done.push((packet, now, Outcome::Undelivered));
                }
            }
            flow.shorten();
        }
    }

    /// Gives up what is to be sent again and too old for it.
    pub(super) fn discard(&mut self, now: Instant, done: &mut Vec<Done>) {
        for flow in self.flows.values_mut().filter(|flow| flow.may_give_up()) {
            for entry in flow.entries.iter_mut().filter(|entry| entry.lost) {
                let old = |packet: &mut Packet| packet.expires <= now;
                if let Some(packet) = entry.packet.take_if(old) {
                    done.push((packet, now, Outcome::Aged));
                }
            }
            flow.shorten();
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.flows.values().flat_map(|flow| &flow.entries)
    }

    /// When the next timeout passes.
    pub(super) fn timeout_at(&self) -> Option<Instant> {
        let timeouts = self.entries().filter_map(Entry::timeout);
        timeouts.min().filter(|at| *at < Instant::NEVER)
    }

    /// When the next packet is too old to be sent again.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        let flows = self.flows.values().filter(|flow| flow.may_give_up());
        let entries = flows.flat_map(|flow| &flow.entries);
        let lost = entries.filter(|entry| entry.lost);
        let ends = lost.filter_map(|entry| entry.packet.as_ref().map(|it| it.expires));
        ends.min().filter(|at| *at < Instant::NEVER)
    }

    /// When a flow that waits for its rate may go on.
    pub(super) fn paced_until(&self, now: Instant) -> Option<Instant> {
        let next = self.flows.values().map(|flow| flow.pace.next());
        next.filter(|at| *at > now).min()
    }

    /// Takes all that was on its way for lost: the medium was away.
    pub(super) fn lose_all(&mut self) {
        let entries = self.flows.values_mut().flat_map(|it| &mut it.entries);
        entries.for_each(|entry| entry.lost = entry.packet.is_some());
    }

    /// The other end has begun anew and knows of nothing: numbers begin again.
    pub(super) fn restart(&mut self) {
        for flow in self.flows.values_mut() {
            flow.entries.retain(|entry| entry.packet.is_some());
            (flow.base, flow.unheard, flow.unasked) = (0, 0, 0);
            flow.doubts = Doubts::default();
        }
        self.rested.clear();
        self.leaving = None;
        self.lose_all();
    }

    /// Gives back those packets that are to leave.
    pub(super) fn take(&mut self, mut leaves: impl FnMut(&Packet) -> bool) -> Vec<Packet> {
        let mut taken = Vec::new();
        for flow in self.flows.values_mut() {
            for entry in &mut flow.entries {
                taken.extend(entry.packet.take_if(|packet| leaves(packet)));
            }
            flow.shorten();
        }
        taken
    }

    /// Asserts what holds between calls.
    pub(super) fn check(&self) {
        for flow in self.flows.values() {
            assert!(
                flow.entries.len() <= usize::from(Settings::WINDOW_MAX),
                "numbers that can be told"
            );
            let first = flow.entries.front();
            assert!(
                first.is_none_or(|entry| entry.packet.is_some()),
                "the window begins with what is still sent"
            );
        }
        assert!(self.packets().count() <= Self::PACKETS_MAX, "a limit");
    }
}
