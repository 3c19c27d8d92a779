//! Numbered segments that were sent in frames and of which nobody has said yet that they came.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::{ClassId, Instant, Packet};
use strait_wire::repair::{Came, WIDE_MAP_OCTETS};

use super::Piece;
use crate::repair::{Done, Outcome, Outgoing, WindowCounts};

/// A segment.
#[derive(Debug)]
struct Entry {
    /// The frame.
    bytes: Vec<u8>,
    class: ClassId,
    packet: u64,
    /// Its last transmission, in the order of all of them.
    order: u64,
    transmissions: u16,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// On its way, as far as anybody knows.
    Sent,
    /// To be sent again, so many times.
    Lost(u8),
    Came,
    /// It isn't sent any more.
    GivenUp,
}

impl State {
    const fn is_open(self) -> bool {
        matches!(self, Self::Sent | Self::Lost(_))
    }
}

/// A packet of which something is on its way.
#[derive(Debug)]
struct Kept {
    /// Once all of it has left.
    packet: Option<Packet>,
    /// When what was sent of it last had left.
    ended: Instant,
    /// Its segments that are on their way, and the last of all.
    open: u32,
    last: u64,
}

/// Segments on their way, and the packets that they are pieces of.
#[derive(Debug)]
pub(super) struct Window {
    /// The number of the first entry. Of these, the low sixteen bits are sent.
    base: u64,
    entries: VecDeque<Entry>,
    /// Octets of open ones, and how many there may be.
    octets: usize,
    octets_max: usize,
    segments_max: usize,
    /// By class, what is to be sent again; of those that came since, nothing is.
    again: BTreeMap<ClassId, VecDeque<u64>>,
    /// By key, the last number that has it.
    keys: BTreeMap<u64, u64>,
    /// The next transmission.
    order: u64,
    /// The packet that began last.
    packets: u64,
    kept: BTreeMap<u64, Kept>,
    ages: BTreeSet<(Instant, u64)>,
    /// Segments of which no copy has followed their last transmission: first those that were sent
    /// again, as others wait for them. What has come since needs none.
    alone: VecDeque<u64>,
    skips: bool,
    done: Vec<Done>,
    pub(super) counts: WindowCounts,
}

impl Window {
    /// Segments that may be on their way: of so many the longest note tells.
    pub(super) const SEGMENTS_MAX: usize = WIDE_MAP_OCTETS * 8;
    /// Their octets: 10 Mbit/s for two round trips of 1.2 s, and more.
    const OCTETS: core::ops::RangeInclusive<usize> = 64 * 1024..=4 * 1024 * 1024;
    /// Transmissions of a segment.
    const TRANSMISSIONS_MAX: u16 = 64;
    /// So many frames may overtake another before that counts for lost.
    const OVERTAKES: u64 = 3;
    /// Keys that are known before those of which nothing is on its way are forgotten.
    const KEYS: usize = 256;

    pub(super) fn new() -> Self {
        Self {
            segments_max: Self::SEGMENTS_MAX,
            base: 0,
            entries: VecDeque::new(),
            octets: 0,
            octets_max: *Self::OCTETS.start(),
            again: BTreeMap::new(),
            keys: BTreeMap::new(),
            order: 0,
            packets: 0,
            kept: BTreeMap::new(),
            ages: BTreeSet::new(),
            alone: VecDeque::new(),
            skips: false,
            done: Vec::new(),
            counts: WindowCounts::default(),
        }
    }

    /// So many octets may be on their way.
    pub(super) fn set_room(&mut self, octets: u128) {
        let (least, most) = (*Self::OCTETS.start(), *Self::OCTETS.end());
        self.octets_max = usize::try_from(octets).unwrap_or(most).clamp(least, most);
    }

    /// The longest frame has so many octets, and the map of a note.
    pub(super) fn set_frame(&mut self, octets_max: usize, map_octets_max: usize) {
        self.segments_max = map_octets_max * 8;
        let is_long = |entry: &&Entry| entry.bytes.len() > octets_max;
        while let Some(packet) = self.entries.iter().find(is_long).map(|it| it.packet) {
            self.give_up(packet, Outcome::Undelivered);
        }
    }

    pub(super) const fn octets(&self) -> usize {
        self.octets
    }

    pub(super) fn has_open(&self, key: u64) -> bool {
        self.keys.get(&key).is_some_and(|last| *last >= self.base)
    }

    pub(super) const fn begin(&mut self) -> u64 {
        self.packets += 1;
        self.packets
    }

    fn number(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    pub(super) fn next(&self, piece: Piece) -> (u16, u16) {
        let number = self.number();
        // A piece follows the one before it, the first of a packet the last one of its key: of what
        // came with all before it, nobody waits for anything.
        let before = match self.kept.get(&piece.packet) {
            Some(kept) => Some(kept.last),
            None => self
                .keys
                .get(&piece.key)
                .copied()
                .filter(|it| *it >= self.base),
        };
        let after = before.map_or(0, |before| (number - before) as u16);
        (number as u16, after)
    }

    pub(super) fn sent(&mut self, piece: Piece, frame: &[u8]) {
        let number = self.number();
        let kept = self.kept.entry(piece.packet).or_insert(Kept {
            packet: None,
            ended: Instant::ZERO,
            open: 0,
            last: number,
        });
        (kept.open, kept.last) = (kept.open + 1, number);
        if self.keys.len() >= Self::KEYS {
            let base = self.base;
            self.keys.retain(|_, last| *last >= base);
        }
        self.keys.insert(piece.key, number);
        self.octets += frame.len();
        self.entries.push_back(Entry {
            bytes: frame.to_vec(),
            class: piece.class,
            packet: piece.packet,
            order: self.order,
            transmissions: 1,
            state: State::Sent,
        });
        self.order += 1;
        while let Some(number) = self.alone.front()
            && *number < self.base
        {
            self.alone.pop_front();
        }
        self.alone.push_back(number);
    }

    pub(super) fn keep(&mut self, ended: Instant, number: u64, mut packet: Packet) {
        packet.enter(ended, DelayPart::Repeat);
        if let Some(kept) = self.kept.get_mut(&number) {
            if packet.expires != Instant::NEVER {
                self.ages.insert((packet.expires, number));
            }
            (kept.packet, kept.ended) = (Some(packet), ended);
            self.settle_packet(number);
        }
    }

    fn entry(&self, number: u64) -> Option<&Entry> {
        let place = number.checked_sub(self.base)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    /// Whether a segment is to be sent again.
    fn is_due(&self, number: u64) -> bool {
        let entry = self.entry(number);
        entry.is_some_and(|entry| matches!(entry.state, State::Lost(_)))
    }

    pub(super) fn again(&self, class: ClassId) -> Option<usize> {
        let mut numbers = self.again.get(&class)?.iter();
        let number = numbers.find(|number| self.is_due(**number))?;
        Some(self.entry(*number)?.bytes.len())
    }

    pub(super) fn repeat(&mut self, class: ClassId) -> Option<(u64, &[u8])> {
        let number = loop {
            let number = self.again.get_mut(&class)?.pop_front()?;
            if self.is_due(number) {
                break number;
            }
        };
        let entry = self.entries.get_mut((number - self.base) as usize)?;
        if let State::Lost(2..) = entry.state {
            entry.state = State::Lost(1);
            self.again.entry(class).or_default().push_back(number);
        } else {
            entry.state = State::Sent;
            self.alone.push_front(number);
        }
        entry.order = self.order;
        entry.transmissions += 1;
        self.order += 1;
        self.counts.repeated += 1;
        self.counts.repeated_octets += entry.bytes.len() as u64;
        Some((entry.packet, &entry.bytes))
    }

    /// The next segment that nothing else may have to be sent for.
    pub(super) fn alone(&self) -> Option<(ClassId, usize)> {
        let number = self.alone.iter().find(|number| self.is_alone(**number))?;
        let entry = self.entry(*number)?;
        Some((entry.class, entry.bytes.len()))
    }

    /// Sends it once more. Its transmission stays the one before, by which the order of others is
    /// known.
    pub(super) fn accompany(&mut self) -> Option<&[u8]> {
        let number = loop {
            let number = self.alone.pop_front()?;
            if self.is_alone(number) {
                break number;
            }
        };
        let entry = self.entries.get((number - self.base) as usize)?;
        self.counts.repeated += 1;
        self.counts.repeated_octets += entry.bytes.len() as u64;
        Some(&entry.bytes)
    }

    fn is_alone(&self, number: u64) -> bool {
        self.entry(number)
            .is_some_and(|entry| entry.state == State::Sent)
    }

    pub(super) fn repeated(&mut self, ended: Instant, packet: u64) {
        if let Some(kept) = self.kept.get_mut(&packet) {
            kept.ended = ended;
        }
    }

    /// A segment isn't on its way any more.
    fn close(&mut self, place: usize, state: State) {
        let entry = &mut self.entries[place];
        if !entry.state.is_open() {
            return;
        }
        entry.state = state;
        self.octets -= entry.bytes.len();
        entry.bytes = Vec::new();
        if let Some(kept) = self.kept.get_mut(&entry.packet) {
            kept.open -= 1;
        }
    }

    /// Ends a packet of which all has come.
    fn settle_packet(&mut self, number: u64) {
        let ends = |kept: &Kept| kept.open == 0 && kept.packet.is_some();
        if self.kept.get(&number).is_some_and(ends) {
            self.end(number, Outcome::Came);
        }
    }

    fn end(&mut self, number: u64, outcome: Outcome) {
        let Some(kept) = self.kept.remove(&number) else {
            return;
        };
        if let Some(packet) = kept.packet {
            self.ages.remove(&(packet.expires, number));
            self.done.push((packet, kept.ended, outcome));
        }
    }

    pub(super) fn expires(&self) -> Option<Instant> {
        self.ages.first().map(|(at, _)| *at)
    }

    pub(super) fn age(&mut self, now: Instant) {
        while let Some(&(at, number)) = self.ages.first()
            && at <= now
        {
            self.ages.pop_first();
            self.give_up(number, Outcome::Aged);
        }
    }

    /// Sends nothing more of a packet.
    fn give_up(&mut self, number: u64, why: Outcome) {
        for place in 0..self.entries.len() {
            if self.entries[place].packet == number {
                self.close(place, State::GivenUp);
            }
        }
        self.end(number, why);
        self.settle();
    }

    /// Forgets what is over at the beginning.
    fn settle(&mut self) {
        while let Some(entry) = self.entries.front()
            && !entry.state.is_open()
        {
            self.skips |= entry.state == State::GivenUp;
            self.entries.pop_front();
            self.base += 1;
        }
    }

    pub(super) const fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    pub(super) fn done(&mut self) -> impl Iterator<Item = Done> + '_ {
        self.done.drain(..)
    }

    pub(super) fn kept(&self) -> impl Iterator<Item = &Packet> {
        self.kept.values().filter_map(|kept| kept.packet.as_ref())
    }

    pub(super) fn held(&self) -> usize {
        self.kept().count() + self.done.len()
    }

    /// Takes note of what came, and gives the newest transmission of which that is known.
    fn mark(&mut self, came: &Came) -> Option<u64> {
        let base = self.base as u16;
        // How far ahead of the first entry the first one is that is missing; behind it where the
        // other end doesn't know yet what was given up.
        let first = isize::from(came.base.wrapping_sub(base) as i16);
        let mut newest = None;
        for place in 0..self.entries.len() {
            let entry = &self.entries[place];
            let has = match usize::try_from(place as isize - first) {
                Ok(behind) => came.has(behind),
                Err(_) => true,
            };
            if !has || !entry.state.is_open() {
                continue;
            }
            // What was sent once came by that. Of what was sent again, nobody knows by which.
            if entry.transmissions == 1 {
                newest = newest.max(Some(entry.order));
            }
            let packet = entry.packet;
            self.close(place, State::Came);
            self.settle_packet(packet);
        }
        newest
    }
}

impl Outgoing for Window {
    fn restart(&mut self) {
        let numbers: Vec<u64> = self.kept.keys().copied().collect();
        numbers
            .into_iter()
            .for_each(|number| self.end(number, Outcome::Undelivered));
        self.base = 0;
        self.alone.clear();
        self.entries.clear();
        self.again.clear();
        self.keys.clear();
        (self.octets, self.skips) = (0, false);
    }

    fn is_open(&self) -> bool {
        !self.entries.is_empty() || self.skips
    }

    fn skips(&self) -> bool {
        self.skips
    }

    fn has_room(&self) -> bool {
        self.entries.len() < self.segments_max && self.octets < self.octets_max
    }

    fn order(&self) -> u64 {
        self.order
    }

    fn span(&self) -> (u16, u16) {
        (self.base as u16, self.number() as u16)
    }

    fn hear(&mut self, came: &Came, asked: Option<u64>) {
        let ahead = came.base.wrapping_sub(self.base as u16) as i16;
        // Nothing that was sent. The other end's row may have begun otherwise than this one: it has
        // to be told.
        if isize::from(ahead) > self.entries.len() as isize {
            self.counts.forged += 1;
            self.skips |= self.is_open();
            return;
        }
        let newest = self.mark(came);
        let overtaken = newest.map_or(0, |newest| newest.saturating_sub(Self::OVERTAKES));
        let before = overtaken.max(asked.unwrap_or(0));
        let mut worn = Vec::new();
        for (number, entry) in (self.base..).zip(&mut self.entries) {
            if entry.state != State::Sent || entry.order >= before {
                continue;
            }
            if entry.transmissions >= Self::TRANSMISSIONS_MAX {
                worn.push(entry.packet);
                continue;
            }
            // What was lost twice holds others up for long: two go at once.
            entry.state = State::Lost(1 + u8::from(entry.transmissions > 1));
            self.again.entry(entry.class).or_default().push_back(number);
        }
        for packet in worn {
            self.give_up(packet, Outcome::Undelivered);
        }
        self.settle();
        // It waits for nothing that was given up before the first entry.
        self.skips &= self.base as u16 != came.base;
    }
}
