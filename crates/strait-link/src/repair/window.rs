//! Numbered segments that were sent and of which nobody has said yet that they came.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::{ClassId, Instant, Packet};
use strait_wire::repair::Came;
use strait_wire::segment::STREAMS;

/// A segment.
#[derive(Debug)]
struct Entry {
    /// As it leaves, before octet stuffing.
    bytes: Vec<u8>,
    stream: usize,
    class: ClassId,
    /// The packet that it is a piece of, by its number in [`Window::packets`].
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
    /// To be sent again.
    Lost,
    Came,
    /// It isn't sent any more.
    GivenUp,
}

impl State {
    const fn is_open(self) -> bool {
        matches!(self, Self::Sent | Self::Lost)
    }
}

/// A packet whose last piece has left.
#[derive(Debug)]
struct Kept {
    number: u64,
    packet: Packet,
    /// When what was sent of it last had left.
    ended: Instant,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All its pieces came.
    Came,
    /// A piece was sent as often as it was worth.
    Undelivered,
    /// It grew too old.
    Aged,
}

/// A packet that is kept no longer, and when what was sent of it last had left.
pub type Done = (Packet, Instant, Outcome);

/// What a window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts {
    /// Segments sent again.
    pub repeated: u64,
    /// Their octets, before octet stuffing.
    pub repeated_octets: u64,
    /// Notes that tell of what was never sent.
    pub forged: u64,
}

/// Segments on their way, and the packets that they are pieces of.
#[derive(Debug)]
pub(crate) struct Window {
    /// The number of the first entry.
    base: u8,
    entries: VecDeque<Entry>,
    /// By stream, the sequence of its next numbered segment.
    sequences: [u8; STREAMS],
    octets: usize,
    lost: usize,
    /// The next transmission.
    order: u64,
    /// The next packet.
    packets: u64,
    kept: Vec<Kept>,
    /// The receiver waits for what isn't sent any more.
    skips: bool,
    pub(super) losses: Losses,
    done: Vec<Done>,
    pub(crate) counts: WindowCounts,
}

impl Window {
    /// Segments that may be on their way: less than half of all numbers, so that old and new ones
    /// are told apart.
    pub(crate) const SEGMENTS_MAX: usize = 120;
    /// Their octets: the receiver has as much room.
    pub(crate) const OCTETS_MAX: usize = 32 * 1024;
    /// Transmissions of a segment. Where each is lost more often than not, one of so many comes.
    pub(crate) const TRANSMISSIONS_MAX: u16 = 64;

    pub(crate) fn new() -> Self {
        Self {
            base: 0,
            entries: VecDeque::new(),
            sequences: [0; STREAMS],
            octets: 0,
            lost: 0,
            order: 0,
            packets: 0,
            kept: Vec::new(),
            skips: false,
            losses: Losses::default(),
            done: Vec::new(),
            counts: WindowCounts::default(),
        }
    }

    /// Begins a new row of numbers, as the other end does. What isn't acknowledged is given up.
    pub(crate) fn restart(&mut self) {
        let packets = self.kept.drain(..);
        self.done
            .extend(packets.map(|kept| (kept.packet, kept.ended, Outcome::Undelivered)));
        self.base = 0;
        self.entries.clear();
        self.sequences = [0; STREAMS];
        (self.octets, self.lost, self.skips) = (0, 0, false);
    }

    /// The most payload octets of a piece at the losses measured.
    pub(crate) fn piece_octets(&self) -> usize {
        self.losses.piece_octets()
    }

    /// Whether another segment may go.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() < Self::SEGMENTS_MAX && self.octets < Self::OCTETS_MAX
    }

    /// Whether anything is on its way, or has to be told.
    pub(crate) fn is_open(&self) -> bool {
        !self.entries.is_empty() || self.skips
    }

    /// Whether anything of a stream is on its way.
    pub(crate) fn has_stream(&self, stream: usize) -> bool {
        let open = |entry: &Entry| entry.stream == stream && entry.state.is_open();
        self.entries.iter().any(open)
    }

    /// Octets that are kept.
    pub(crate) const fn octets(&self) -> usize {
        self.octets
    }

    /// Packets whose pieces have all been sent.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Packet> {
        self.kept.iter().map(|kept| &kept.packet)
    }

    /// The oldest number that may still come, and the next one.
    pub(crate) fn span(&self) -> (u8, u8) {
        (self.base, self.base.wrapping_add(self.entries.len() as u8))
    }

    /// What the next transmission is.
    pub(crate) const fn order(&self) -> u64 {
        self.order
    }

    /// A packet begins; its number here.
    pub(crate) const fn begin(&mut self) -> u64 {
        self.packets += 1;
        self.packets
    }

    /// The sequence and the number of the next segment of a stream.
    pub(crate) fn next(&self, stream: usize) -> (u8, u8) {
        (self.sequences[stream], self.span().1)
    }

    /// A segment leaves for the first time.
    pub(crate) fn sent(&mut self, stream: usize, class: ClassId, packet: u64, bytes: &[u8]) {
        self.sequences[stream] = (self.sequences[stream] + 1) % 8;
        self.octets += bytes.len();
        self.losses.sent(bytes.len());
        self.entries.push_back(Entry {
            bytes: bytes.to_vec(),
            stream,
            class,
            packet,
            order: self.order,
            transmissions: 1,
            state: State::Sent,
        });
        self.order += 1;
    }

    /// The segment that began to leave last was cut short.
    pub(crate) fn shortened(&mut self, bytes: &[u8]) {
        if let Some(entry) = self.entries.back_mut() {
            self.octets = self.octets - entry.bytes.len() + bytes.len();
            entry.bytes.clear();
            entry.bytes.extend_from_slice(bytes);
        }
    }

    /// Keeps a packet of which all has left.
    pub(crate) fn keep(&mut self, ended: Instant, number: u64, mut packet: Packet) {
        packet.enter(ended, DelayPart::Repeat);
        self.kept.push(Kept {
            number,
            packet,
            ended,
        });
        self.settle();
    }

    /// What of a class goes before anything new of it, and its octets.
    pub(crate) fn again(&self, class: ClassId) -> Option<(usize, usize)> {
        if self.lost == 0 {
            return None;
        }
        let due = |entry: &Entry| entry.state == State::Lost && entry.class == class;
        let place = self.entries.iter().position(due)?;
        Some((place, self.entries[place].bytes.len()))
    }

    /// Sends a segment again: its packet, and its octets.
    pub(crate) fn repeat(&mut self, place: usize) -> Option<(u64, &[u8])> {
        let entry = self.entries.get_mut(place)?;
        entry.state = State::Sent;
        entry.order = self.order;
        entry.transmissions += 1;
        self.order += 1;
        self.lost -= 1;
        self.losses.sent(entry.bytes.len());
        self.counts.repeated += 1;
        self.counts.repeated_octets += entry.bytes.len() as u64;
        Some((entry.packet, &entry.bytes))
    }

    /// A piece of a packet has left again.
    pub(crate) fn repeated(&mut self, ended: Instant, packet: u64) {
        if let Some(kept) = self.kept.iter_mut().find(|kept| kept.number == packet) {
            kept.ended = ended;
        }
    }

    /// Takes in what has come. `asked` is what the next transmission was when a question left that
    /// this answers.
    pub(crate) fn hear(&mut self, came: &Came, asked: Option<u64>) {
        let ahead = usize::from(came.base.wrapping_sub(self.base));
        // Nothing that was sent. The other end's row may have begun otherwise than this one: it has
        // to be told.
        if ahead > self.entries.len() {
            self.counts.forged += 1;
            self.skips = self.is_open();
            return;
        }
        let mut newest = asked;
        let last = usize::from(came.last.wrapping_sub(self.base));
        for (place, entry) in self.entries.iter_mut().enumerate() {
            let has = place < ahead || place > ahead && came.has(place - ahead);
            // What was sent once came by that; of what was sent again, what came last did.
            let once = entry.transmissions == 1 && entry.state.is_open();
            if has && (once || place == last) {
                newest = newest.max(Some(entry.order));
            }
            if has {
                self.lost -= usize::from(entry.state == State::Lost);
                entry.state = State::Came;
            }
        }
        // The line keeps the order: what left before something that came was lost.
        for entry in &mut self.entries {
            if entry.state == State::Sent && newest.is_some_and(|newest| entry.order < newest) {
                entry.state = State::Lost;
                self.lost += 1;
                self.losses.lost();
            }
        }
        self.give_up_worn();
        self.settle();
        // It waits for nothing that was given up before the first entry.
        let behind = self.base.wrapping_sub(came.base);
        self.skips &= (1..128).contains(&behind);
    }

    /// Packets of which a piece was sent too often are given up.
    fn give_up_worn(&mut self) {
        let worn = |entry: &Entry| {
            entry.state == State::Lost && entry.transmissions >= Self::TRANSMISSIONS_MAX
        };
        while let Some(packet) = self.entries.iter().find(|it| worn(it)).map(|it| it.packet) {
            self.give_up(packet, Outcome::Undelivered);
        }
    }

    /// When the next of the packets kept grows too old.
    pub(crate) fn expires(&self) -> Option<Instant> {
        let expires = self.kept.iter().map(|kept| kept.packet.expires);
        expires.filter(|at| *at != Instant::NEVER).min()
    }

    /// Gives up the packets that are too old.
    pub(crate) fn age(&mut self, now: Instant) {
        let old = |kept: &Kept| kept.packet.expires <= now;
        while let Some(number) = self.kept.iter().find(|it| old(it)).map(|it| it.number) {
            self.give_up(number, Outcome::Aged);
        }
    }

    /// Sends nothing more of a packet.
    fn give_up(&mut self, number: u64, why: Outcome) {
        let open = |it: &&mut Entry| it.packet == number && it.state.is_open();
        for entry in self.entries.iter_mut().filter(open) {
            self.lost -= usize::from(entry.state == State::Lost);
            entry.state = State::GivenUp;
        }
        if let Some(place) = self.kept.iter().position(|kept| kept.number == number) {
            let kept = self.kept.remove(place);
            self.done.push((kept.packet, kept.ended, why));
        }
        self.settle();
    }

    /// Whether the receiver has to be told that something isn't sent any more.
    pub(crate) const fn skips(&self) -> bool {
        self.skips
    }

    /// Forgets what is over at the beginning, and packets of which nothing is open.
    fn settle(&mut self) {
        while let Some(entry) = self.entries.front() {
            if entry.state.is_open() {
                break;
            }
            self.skips |= entry.state == State::GivenUp;
            self.octets -= entry.bytes.len();
            self.entries.pop_front();
            self.base = self.base.wrapping_add(1);
        }
        let entries = &self.entries;
        let done = self.kept.extract_if(.., |kept| {
            let open = |it: &Entry| it.packet == kept.number && it.state.is_open();
            !entries.iter().any(open)
        });
        let came = done.map(|kept| (kept.packet, kept.ended, Outcome::Came));
        self.done.extend(came);
    }

    pub(crate) const fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Packets that are kept no longer.
    pub(crate) fn done(&mut self) -> impl Iterator<Item = Done> + '_ {
        self.done.drain(..)
    }

    /// Gives back every packet.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.restart();
        self.done.drain(..).map(|(packet, ..)| packet)
    }

    /// Packets held.
    pub(crate) fn held(&self) -> usize {
        self.kept.len() + self.done.len()
    }
}

/// How much of what was sent was lost of late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    octets: u64,
    /// In 256ths: they are halved again and again.
    segments: u64,
}

impl Default for Losses {
    /// Repairs begin where errors were seen: one in 2048 octets.
    fn default() -> Self {
        Self {
            octets: 4096,
            segments: 2 * Self::SEGMENT,
        }
    }
}

impl Losses {
    /// What a piece takes beside its payload: header, number, check and flag, and what of the
    /// packet's sum and of octet stuffing falls to it.
    const PIECE_COST: u64 = 6;
    const SEGMENT: u64 = 256;
    /// Octets over which the mean runs, about.
    const OCTETS: u64 = 32 * 1024;
    /// Shorter pieces cost more than they save, and longer ones save nothing.
    const PIECE_OCTETS: core::ops::RangeInclusive<u64> = 32..=512;

    pub(super) const fn sent(&mut self, octets: usize) {
        self.octets += octets as u64;
        if self.octets > Self::OCTETS {
            self.octets /= 2;
            self.segments /= 2;
        }
    }

    pub(super) const fn lost(&mut self) {
        self.segments += Self::SEGMENT;
    }

    /// The size at which what pieces cost and what is sent again because of their size are least
    /// together: the root of cost by losses an octet.
    fn piece_octets(self) -> usize {
        let square = Self::PIECE_COST * self.octets * Self::SEGMENT / self.segments.max(1);
        let (least, most) = (*Self::PIECE_OCTETS.start(), *Self::PIECE_OCTETS.end());
        square.isqrt().clamp(least, most) as usize
    }
}
