//! The sending side.

use alloc::vec::Vec;
use core::ops::Range;

use strait_core::delay::DelayPart;
use strait_core::{Instant, Packet};
use strait_wire::check::Crc32Sum;
use strait_wire::repair::emit_numbered;
use strait_wire::segment::{HEADER_OCTETS, STREAMS, SegmentHeader, emit_segment};

use crate::LinkSettings;

/// Octets of the check on a segment that isn't its packet's last.
pub(crate) const CHECK_OCTETS: usize = 2;

/// A packet that has begun to leave, in a line of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct UnderWay {
    pub(crate) packet: Packet,
    /// What is carried in the packet's place, if that isn't the packet itself.
    carried: Option<Vec<u8>>,
    /// Octets already cut into segments.
    cut: usize,
    sum: Crc32Sum,
    /// The sum before the segment cut last.
    sum_before: Crc32Sum,
    /// Where its segments have numbers: its own in the window that keeps them.
    pub(crate) kept_as: Option<u64>,
}

impl UnderWay {
    /// What is cut into segments.
    fn bytes(&self) -> &[u8] {
        match &self.carried {
            Some(carried) => carried,
            None => self.packet.bytes(),
        }
    }

    fn octets_left(&self) -> usize {
        self.bytes().len() - self.cut
    }

    /// The header of the next segment, with at most `payload_max` octets of payload, and where
    /// these stand.
    fn next(
        &mut self,
        stream: usize,
        sequence: u8,
        payload_max: usize,
    ) -> (SegmentHeader, Range<usize>) {
        let length = self.octets_left().min(payload_max.max(1));
        let header = SegmentHeader {
            first: self.cut == 0,
            last: length == self.octets_left(),
            stream: stream as u8,
            sequence,
        };
        let payload = self.cut..self.cut + length;
        self.sum_before = self.sum;
        self.cut += length;
        (header, payload)
    }
}

/// What a cut did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Octets that the segment takes on the medium, as far as no earlier cut told them.
    pub octets: usize,
    /// Payload octets of its packet that are left for later segments.
    pub octets_left: usize,
}

/// Packets under way to one neighbour, one on each stream.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Segmenter {
    pub(crate) settings: LinkSettings,
    sequences: [u8; STREAMS],
    pub(crate) streams: [Option<UnderWay>; STREAMS],
}

impl Segmenter {
    pub(crate) fn new(settings: LinkSettings) -> Self {
        Self {
            settings,
            streams: [const { None }; STREAMS],
            sequences: [0; STREAMS],
        }
    }

    pub(crate) fn begin(
        &mut self,
        stream: usize,
        packet: Packet,
        carried: Option<Vec<u8>>,
        kept_as: Option<u64>,
    ) {
        let stream = &mut self.streams[stream];
        assert!(stream.is_none(), "a stream carries one packet at a time");
        *stream = Some(UnderWay {
            packet,
            carried,
            cut: 0,
            sum: Crc32Sum::new(),
            sum_before: Crc32Sum::new(),
            kept_as,
        });
    }

    /// Appends the next segment of `stream`, with at most `payload_max` octets of payload, to
    /// `out`.
    pub(crate) fn cut(
        &mut self,
        stream: usize,
        payload_max: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<(SegmentHeader, usize)> {
        let alone = self.settings.check(stream);
        let way = self.streams[stream].as_mut()?;
        let sequence = &mut self.sequences[stream];
        let (header, payload) = way.next(stream, *sequence, payload_max);
        *sequence = (*sequence + 1) % 8;
        let mut sum = way.sum;
        emit_segment(header, &way.bytes()[payload], alone, &mut sum, out);
        way.sum = sum;
        way.packet.enter(now, DelayPart::Line);
        Some((header, way.octets_left()))
    }

    /// The same with a number, and with the sequence of those that have one.
    pub(crate) fn cut_numbered(
        &mut self,
        stream: usize,
        payload_max: usize,
        now: Instant,
        (sequence, number): (u8, u8),
        out: &mut Vec<u8>,
    ) -> Option<(SegmentHeader, usize)> {
        let alone = self.settings.check(stream);
        let way = self.streams[stream].as_mut()?;
        let (header, payload) = way.next(stream, sequence, payload_max);
        let mut sum = way.sum;
        emit_numbered(header, number, &way.bytes()[payload], alone, &mut sum, out);
        way.sum = sum;
        way.packet.enter(now, DelayPart::Line);
        Some((header, way.octets_left()))
    }

    /// Takes back what the segment cut last carries behind `kept`, the beginning of its payload.
    pub(crate) fn uncut(&mut self, stream: usize, kept: &[u8], octets: usize) {
        if let Some(way) = &mut self.streams[stream] {
            way.sum = way.sum_before;
            way.sum.update(kept);
            way.cut -= octets;
        }
    }

    /// Appends a segment that holds `note` whole, on a stream with nothing under way; `None` if
    /// there is none. Its check is what both ends know without having agreed on any.
    pub(crate) fn cut_note(&mut self, note: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let stream = self.streams.iter().position(Option::is_none)?;
        let header = SegmentHeader {
            first: true,
            last: true,
            stream: stream as u8,
            sequence: self.sequences[stream],
        };
        self.sequences[stream] = (self.sequences[stream] + 1) % 8;
        let mut sum = Crc32Sum::new();
        emit_segment(header, note, self.settings.alone, &mut sum, out);
        Some(stream)
    }

    pub(crate) fn octets_left(&self, stream: usize) -> usize {
        self.streams[stream]
            .as_ref()
            .map_or(0, UnderWay::octets_left)
    }

    pub(crate) const fn payload_max(&self, whole: bool) -> usize {
        if whole {
            usize::MAX
        } else {
            self.settings.segment_octets_max
        }
    }

    pub(crate) fn take(&mut self, stream: usize) -> Option<Packet> {
        self.streams[stream].take().map(|way| way.packet)
    }

    /// Where the segments of the packet under way have numbers: its own in their window.
    pub(crate) fn kept_as(&self, stream: usize) -> Option<u64> {
        self.streams[stream].as_ref()?.kept_as
    }

    pub(crate) fn held(&self) -> usize {
        self.streams.iter().flatten().count()
    }
}

/// Sends packets to one neighbour in frames of a medium that has its own, a segment a frame.
#[derive(Debug)]
pub struct FrameSender {
    segmenter: Segmenter,
}

impl FrameSender {
    /// A sender that has nothing under way.
    pub fn new(settings: LinkSettings) -> Self {
        Self {
            segmenter: Segmenter::new(settings),
        }
    }

    /// Cuts later segments by `settings`.
    pub const fn set_settings(&mut self, settings: LinkSettings) {
        self.segmenter.settings = settings;
    }

    /// The packet under way on `stream`.
    pub fn under_way(&self, stream: usize) -> Option<&Packet> {
        self.segmenter.streams[stream]
            .as_ref()
            .map(|way| &way.packet)
    }

    /// Whether `stream` has a packet under way.
    pub const fn is_under_way(&self, stream: usize) -> bool {
        self.segmenter.streams[stream].is_some()
    }

    /// Whether a note finds a stream with nothing under way.
    pub fn takes_note(&self) -> bool {
        self.held() < STREAMS
    }

    /// Packets under way.
    pub fn held(&self) -> usize {
        self.segmenter.held()
    }

    /// Puts a packet on a stream, which must be free; `carried` goes in its place, if there is
    /// such.
    pub fn begin(&mut self, stream: usize, packet: Packet, carried: Option<Vec<u8>>) {
        self.segmenter.begin(stream, packet, carried, None);
    }

    /// The least room in octets in which a segment makes sense.
    pub const ROOM_MIN: usize = HEADER_OCTETS + 4 + 1;

    /// The longest segment, in octets, that isn't to go whole.
    pub const fn segment_octets_max(&self) -> usize {
        self.segmenter
            .settings
            .segment_octets_max
            .saturating_add(Self::ROOM_MIN - 1)
    }

    /// Appends the next segment of `stream` to `out`, at most `room` octets long; as much of its
    /// packet as fits, if it is to go `whole`.
    pub fn cut(
        &mut self,
        now: Instant,
        stream: usize,
        whole: bool,
        room: usize,
        out: &mut Vec<u8>,
    ) -> Option<Progress> {
        let most = room.checked_sub(Self::ROOM_MIN)? + 1;
        // The check of a packet's last segment is the longer one: others fill the room.
        let left = self.segmenter.octets_left(stream);
        let most = if left > most {
            (room - HEADER_OCTETS - CHECK_OCTETS).min(left - 1)
        } else {
            most
        };
        let payload_max = most.min(self.segmenter.payload_max(whole));
        let before = out.len();
        let (_, octets_left) = self.segmenter.cut(stream, payload_max, now, out)?;
        Some(Progress {
            octets: out.len() - before,
            octets_left,
        })
    }

    /// Appends a segment that holds `note`, which belongs to no packet, and says how many octets
    /// it takes; `None`, and nothing is appended, if every stream has a packet under way.
    pub fn cut_note(&mut self, note: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let before = out.len();
        self.segmenter.cut_note(note, out)?;
        Some(out.len() - before)
    }

    /// To be called after a cut with the moment at which the frame has left: gives the packet back
    /// if that was its end.
    pub fn finish(&mut self, ended: Instant, stream: usize) -> Option<Packet> {
        let way = self.segmenter.streams[stream].as_mut()?;
        if way.octets_left() == 0 {
            return self.segmenter.take(stream);
        }
        way.packet.enter(ended, DelayPart::Class);
        None
    }

    /// Gives every packet under way back, unsent.
    pub fn abandon(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.segmenter
            .streams
            .iter_mut()
            .filter_map(|way| way.take().map(|way| way.packet))
    }
}
