//! What a frame medium loses, sent again: numbered segments in frames.
//!
//! As on an octet stream, but that many more may be on their way, and that each names the one that
//! it is to be handed on after: the last one of its flow, or of its compressed headers' context. So
//! flows don't wait for each other's losses. Losses are seen before anything has a number,
//! by the sequence that each segment has on its stream.

mod row;
#[cfg(test)]
mod tests;
mod window;

use alloc::vec::Vec;

use strait_core::{ClassId, Duration, Instant, Packet};
use strait_wire::repair::{Linked, Numbers, WIDE_MAP_OCTETS};
use strait_wire::segment::{STREAMS, SegmentHeader};

use self::row::Row;
use self::window::Window;
use super::errors::Errors;
use super::{
    Arrived, Done, Incoming, NoteCounts, Outgoing, Repairs, RowCounts, When, WindowCounts,
};
use crate::{FrameSender, Refused};

/// Repairs of one neighbour's frames, both ways.
#[derive(Debug)]
pub struct FrameRepairs {
    control: Repairs,
    window: Window,
    row: Row,
    /// By stream, the sequence of the next segment without a number.
    next: [Option<u8>; STREAMS],
    /// Frames are missing that were sent.
    lost: bool,
}

/// What of a packet is about to leave.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// The packet's number in the window.
    pub packet: u64,
    /// What its segments are in order with.
    pub key: u64,
    /// Its class.
    pub class: ClassId,
}

impl FrameRepairs {
    /// Octets of the line's time that may be on their way before a round trip is known.
    const UNKNOWN: Duration = Duration::from_secs(2);

    /// Octets of a note beside its map, and around it.
    const NOTE_OCTETS: usize = 10 + FrameSender::ROOM_MIN;

    /// Nothing is known. `octet` is the time that one takes; a neighbour's packets have
    /// `packet_octets_max` octets at the most.
    pub fn new(when: When, octet: Duration, packet_octets_max: usize) -> Self {
        Self {
            control: Repairs::of(Numbers::Wide, Errors::of_frames(when), octet),
            window: Window::new(),
            row: Row::new(packet_octets_max),
            next: [None; STREAMS],
            lost: false,
        }
    }

    /// The longest frame has so many octets: of more segments than a note has room for, none tells.
    /// What is longer isn't sent again.
    pub fn set_frame(&mut self, octets_max: usize) {
        let map = octets_max.saturating_sub(Self::NOTE_OCTETS);
        let map = map.clamp(1, WIDE_MAP_OCTETS);
        self.window.set_frame(octets_max, map);
        self.row.set_map(map);
    }

    /// It is this time.
    pub const fn advance(&mut self, now: Instant) {
        self.control.advance(now);
    }

    /// What is agreed: whether the other end's segments may have numbers, and this end's.
    pub fn agree(&mut self, taken: bool, sent: bool) {
        self.control.agree(taken, sent);
    }

    /// The time that an octet takes: as many may be on their way as leave in two round trips.
    pub fn set_octet(&mut self, octet: Duration) {
        self.control.set_octet(octet);
        self.set_room();
    }

    fn set_room(&mut self) {
        let trip = self.control.trip().map_or(Self::UNKNOWN, |trip| trip * 2);
        let octets = trip.as_nanos() / self.control.octet.as_nanos().max(1);
        self.window.set_room(octets);
    }

    /// Either end began anew: numbers begin anew, both ways.
    pub fn restart(&mut self) {
        self.control.restart(&mut self.window, &mut self.row);
        self.next = [None; STREAMS];
    }

    /// Whether new packets' segments have numbers.
    pub const fn numbers(&self) -> bool {
        self.control.numbers()
    }

    /// Whether this end wants the other's segments to have numbers.
    pub const fn wishes(&self) -> bool {
        self.control.wishes()
    }

    /// How long the other end takes to answer, once that is known.
    pub fn trip(&self) -> Option<Duration> {
        self.control.trip()
    }

    // What comes.

    /// A segment without a number came whole.
    pub fn came(&mut self, header: SegmentHeader) {
        let next = &mut self.next[usize::from(header.stream)];
        let ahead = next.map_or(0, |next| header.sequence.wrapping_sub(next) % 8);
        // One that others have overtaken says nothing new.
        if ahead < 4 {
            *next = Some((header.sequence + 1) % 8);
            self.lost |= ahead > 0;
        }
    }

    /// Takes a segment with a number, and says whether a frame is one.
    pub fn take(&mut self, frame: &[u8], tell: impl FnMut(Result<&[u8], Refused>)) -> bool {
        let Some(linked) = Linked::parse(frame) else {
            return false;
        };
        self.lost |= self.row.take(&linked, tell) == Arrived::Gap;
        true
    }

    /// So many octets came in a frame, of which all has been told. Says whether repairs should be
    /// agreed on, and aren't.
    pub fn heard(&mut self, octets: usize) -> bool {
        self.control.came(octets, &mut self.row);
        core::mem::take(&mut self.lost) && self.control.lost()
    }

    /// The first missing segment isn't waited for any longer if it has been for too long.
    pub fn lose_patience(&mut self, tell: impl FnMut(Result<&[u8], Refused>)) {
        self.control.lose_patience(&mut self.row, tell);
    }

    /// Reads a note. What it lets go on is told. Says whether it is one.
    pub fn hear(&mut self, note: &[u8], tell: impl FnMut(Result<&[u8], Refused>)) -> bool {
        let control = &mut self.control;
        let is_read = control.hear(note, &mut self.window, &mut self.row, tell);
        self.set_room();
        is_read
    }

    // What is told.

    /// Whether a note is to go before anything else.
    pub fn is_due(&self) -> bool {
        self.control.is_due(&self.window, &self.row)
    }

    /// Whether a question may go while nothing else is to be sent.
    pub fn may_ask(&self) -> bool {
        self.control.may_ask(&self.window)
    }

    /// When a note becomes due by itself.
    pub fn wake(&self) -> Option<Instant> {
        self.control.wake(&self.window, &self.row)
    }

    /// What the other end is to be told, if anything is due or may be asked.
    pub fn note(&mut self) -> Option<Vec<u8>> {
        self.control.note(&self.window, &self.row)
    }

    /// The most octets of a note now, with the segment around it.
    pub fn note_octets_max(&self) -> usize {
        Self::NOTE_OCTETS + self.row.map_octets()
    }

    // What is sent.

    /// Whether another numbered segment may go before more is heard of those that have gone.
    pub fn has_window(&self) -> bool {
        self.window.has_room()
    }

    /// Whether anything with this key is on its way.
    pub fn has_open(&self, key: u64) -> bool {
        self.window.has_open(key)
    }

    /// A packet begins; its number here.
    pub const fn begin(&mut self) -> u64 {
        self.window.begin()
    }

    /// The number of the next segment, and how many numbers before it that one has that it is to
    /// be handed on after.
    pub(crate) fn next(&self, piece: Piece) -> (u16, u16) {
        self.window.next(piece)
    }

    /// A segment leaves for the first time.
    pub(crate) fn sent(&mut self, piece: Piece, frame: &[u8]) {
        self.window.sent(piece, frame);
    }

    /// Keeps a packet of which all has left.
    pub fn keep(&mut self, ended: Instant, number: u64, packet: Packet) {
        self.window.keep(ended, number, packet);
    }

    /// What of a class goes before anything new of it: octets of its next frame.
    pub fn again(&self, class: ClassId) -> Option<usize> {
        self.window.again(class)
    }

    /// Sends a frame of a class again: its packet, and its octets.
    pub fn repeat(&mut self, class: ClassId) -> Option<(u64, &[u8])> {
        self.window.repeat(class)
    }

    /// The class and the octets of a frame that may go once more while the line is idle: a copy
    /// costs nobody anything then, and a round trip less is waited if the first is lost.
    pub fn alone(&self) -> Option<(ClassId, usize)> {
        self.window.alone()
    }

    /// Sends it.
    pub fn accompany(&mut self) -> Option<&[u8]> {
        self.window.accompany()
    }

    /// A piece of a packet has left again.
    pub fn repeated(&mut self, ended: Instant, packet: u64) {
        self.window.repeated(ended, packet);
    }

    /// Keeps none that is too old.
    pub fn age(&mut self, now: Instant) {
        self.window.age(now);
    }

    /// When the next packet that is kept grows too old.
    pub fn expires(&self) -> Option<Instant> {
        self.window.expires()
    }

    /// Packets that are kept no longer.
    pub fn done(&mut self) -> impl Iterator<Item = Done> + '_ {
        self.window.done()
    }

    /// Whether there are such packets.
    pub const fn has_done(&self) -> bool {
        self.window.has_done()
    }

    /// Packets of which all has left, and that are kept.
    pub fn kept(&self) -> impl Iterator<Item = &Packet> {
        self.window.kept()
    }

    /// Packets held.
    pub fn held(&self) -> usize {
        self.window.held()
    }

    /// Gives back every packet.
    pub fn abandon(&mut self) -> Vec<Packet> {
        Outgoing::restart(&mut self.window);
        Incoming::restart(&mut self.row);
        self.window.done().map(|(packet, ..)| packet).collect()
    }

    /// What it counts, and the octets on their way and held for their order.
    pub fn counts(&self) -> (WindowCounts, RowCounts, NoteCounts, [usize; 2]) {
        let octets = [self.window.octets(), self.row.held_octets()];
        (
            self.window.counts,
            self.row.counts,
            self.control.counts(),
            octets,
        )
    }
}
