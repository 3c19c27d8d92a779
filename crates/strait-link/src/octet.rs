//! The sending side of an octet stream.

use alloc::vec::Vec;

use strait_core::delay::DelayPart;
use strait_core::{ClassId, Instant, Packet};
use strait_wire::check::crc16;
use strait_wire::octets::{ESCAPE, FLAG, Stuffing};
use strait_wire::repair;
use strait_wire::segment::{HEADER_OCTETS, STREAMS, SegmentHeader};
use strait_wire::urgent::{URGENT_OCTETS_MAX, emit_urgent};

use crate::LinkSettings;
use crate::repair::{Done, Window, WindowCounts};
use crate::send::{CHECK_OCTETS, Progress, Segmenter};

/// An urgent frame that is leaving.
#[derive(Debug)]
struct Urgent {
    packet: Packet,
    line: Vec<u8>,
    at: usize,
}

/// What is leaving.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    /// A segment of a packet, and whether it ends it.
    Piece { stream: usize, last: bool },
    /// A note, which belongs to no packet.
    Note,
    /// A segment that is sent again.
    Repeat { class: ClassId, packet: u64 },
}

/// Sends packets on an octet stream: segments with octet stuffing, each ended by a flag.
///
/// Octets are pulled a few at a time. A cut segment leaves whole, and between two segments any
/// stream's may follow. Where [`LinkSettings::urgent`] is set, an urgent frame may go inside a
/// segment, after any octet; other packets cut the segment short ([`Self::shorten`]).
#[derive(Debug)]
pub struct OctetSender {
    segmenter: Segmenter,
    /// The segment that is leaving, before octet stuffing.
    segment: Vec<u8>,
    /// The same as it goes on the line.
    line: Vec<u8>,
    at: usize,
    /// What that segment is.
    leaving: Option<Leaving>,
    /// How much of `line` is a flag ahead of the segment.
    lead: usize,
    /// An urgent frame, which goes before the rest of the segment.
    urgent: Option<Urgent>,
    /// By stream, octets of a segment told as cut that were cut off it later.
    ahead: [usize; STREAMS],
    /// When the last octet of a segment pulled so far has left.
    idle_since: Option<Instant>,
    /// Segments with numbers.
    window: Window,
}

/// Payload octets that a shortened segment leaves to a later one at least: as many as that costs.
const WORTH_OCTETS: usize = 8;

impl OctetSender {
    /// A sender that has nothing under way.
    pub fn new(settings: LinkSettings) -> Self {
        Self {
            segmenter: Segmenter::new(settings),
            segment: Vec::new(),
            line: Vec::new(),
            at: 0,
            leaving: None,
            lead: 0,
            urgent: None,
            ahead: [0; STREAMS],
            idle_since: None,
            window: Window::new(),
        }
    }

    pub(crate) const fn window(&self) -> &Window {
        &self.window
    }

    pub(crate) const fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    fn stuffing(&self) -> Stuffing {
        Stuffing {
            mark: self.segmenter.settings.marks,
            ..Stuffing::default()
        }
    }

    /// Octets of the cut segment that have not been pulled.
    const fn pending_octets(&self) -> usize {
        self.line.len() - self.at
    }

    /// Octets of an urgent frame that are yet to be pulled.
    pub fn urgent_octets(&self) -> usize {
        let urgent = self.urgent.as_ref();
        urgent.map_or(0, |urgent| urgent.line.len() - urgent.at)
    }

    /// Class of the packet whose segment is leaving, and how many of its octets are yet to be
    /// pulled.
    pub fn leaving(&self) -> Option<(ClassId, usize)> {
        if let Some(urgent) = &self.urgent {
            return Some((urgent.packet.class, urgent.line.len() - urgent.at));
        }
        let class = match self.leaving? {
            Leaving::Piece { stream, .. } => self.under_way(stream)?.class,
            Leaving::Repeat { class, .. } => class,
            // It belongs to no class, and goes by the first.
            Leaving::Note => ClassId(0),
        };
        Some((class, self.pending_octets()))
    }

    /// Cuts later segments by `settings`; one that is leaving leaves as it is.
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
        self.begun() < STREAMS
    }

    /// Packets that have begun to leave, and not ended.
    pub fn begun(&self) -> usize {
        self.segmenter.held() + usize::from(self.urgent.is_some())
    }

    /// Packets under way, and those that are kept until they have come.
    pub fn held(&self) -> usize {
        self.begun() + self.window.held()
    }

    /// Whether the stream has urgent frames.
    pub const fn has_urgent(&self) -> bool {
        self.segmenter.settings.urgent.is_some()
    }

    /// The class of the segment that is leaving, or suspended, where it could be cut short.
    pub fn shortens(&self) -> Option<ClassId> {
        match self.leaving? {
            Leaving::Piece {
                stream,
                last: false,
            } => self.under_way(stream).map(|packet| packet.class),
            _ => None,
        }
    }

    /// Whether a packet of so many octets may begin as an urgent frame now: the stream has such,
    /// and none is leaving.
    pub const fn takes_urgent(&self, octets: usize) -> bool {
        self.has_urgent() && self.urgent.is_none() && octets <= URGENT_OCTETS_MAX
    }

    /// Begins an urgent frame with a packet, or with what is `carried` in its place, to leave from
    /// `now` on, before the rest of a segment that is leaving. Says how many octets it takes; gives
    /// the packet back if it can't go so.
    pub fn begin_urgent(
        &mut self,
        now: Instant,
        mut packet: Packet,
        carried: Option<&[u8]>,
    ) -> Result<usize, Packet> {
        let mut line = Vec::new();
        let check = self.segmenter.settings.urgent;
        let check = check.filter(|_| self.urgent.is_none());
        let bytes = carried.unwrap_or_else(|| packet.bytes());
        if !check.is_some_and(|check| emit_urgent(bytes, check, &mut line)) {
            return Err(packet);
        }
        packet.enter(now, DelayPart::Line);
        self.suspended(now, DelayPart::Class);
        let octets = line.len();
        self.urgent = Some(Urgent {
            packet,
            line,
            at: 0,
        });
        Ok(octets)
    }

    /// Whether an urgent frame is leaving inside a segment.
    pub const fn suspends(&self) -> bool {
        self.urgent.is_some() && self.leaving.is_some()
    }

    /// The time of the packet whose segment is leaving goes to `part` from `now` on.
    fn suspended(&mut self, now: Instant, part: DelayPart) {
        if let Some(Leaving::Piece { stream, .. }) = self.leaving
            && let Some(way) = &mut self.segmenter.streams[stream]
        {
            way.packet.enter(now, part);
        }
    }

    /// Ends the segment that is leaving behind the octet pulled last, as far as that is worth its
    /// price, so that another packet may begin sooner. Gives the stream and the payload octets of
    /// its packet that are left. A packet's last segment goes on.
    pub fn shorten(&mut self) -> Option<(usize, usize)> {
        let Some(Leaving::Piece {
            stream,
            last: false,
        }) = self.leaving
        else {
            return None;
        };
        if self.urgent.is_some() {
            return None;
        }
        let numbered = self.segmenter.kept_as(stream).is_some();
        let head = if numbered {
            repair::HEAD_OCTETS
        } else {
            HEADER_OCTETS
        };
        let payload_end = self.segment.len() - CHECK_OCTETS;
        let (mut position, mut kept) = (self.lead, 0);
        // A header alone is no segment.
        while position < self.at || kept <= head {
            position += 1 + usize::from(self.line[position] == ESCAPE);
            kept += 1;
        }
        if kept + WORTH_OCTETS > payload_end {
            return None;
        }
        self.segmenter
            .uncut(stream, &self.segment[head..kept], payload_end - kept);
        let before = self.line.len();
        self.segment.truncate(kept);
        let check = crc16(&self.segment);
        let check = if numbered { !check } else { check }.to_le_bytes();
        self.line.truncate(position);
        self.stuffing().stuff_into(&check, &mut self.line);
        self.line.push(FLAG);
        self.segment.extend_from_slice(&check);
        if numbered {
            self.window.shortened(&self.segment);
        }
        self.ahead[stream] += before - self.line.len();
        Some((stream, self.segmenter.octets_left(stream)))
    }

    /// Puts a packet on a stream, which must be free; `carried` goes in its place, if there is
    /// such.
    pub fn begin(&mut self, stream: usize, packet: Packet, carried: Option<Vec<u8>>) {
        self.segmenter.begin(stream, packet, carried, None);
    }

    /// The same with numbered segments, each kept until it has come.
    pub fn begin_numbered(&mut self, stream: usize, packet: Packet, carried: Option<Vec<u8>>) {
        let number = self.window.begin();
        self.segmenter.begin(stream, packet, carried, Some(number));
    }

    /// Whether segments of a stream's packet go with numbers: of the one that is under way, else of
    /// the next one. What has none doesn't overtake what has.
    pub fn goes_numbered(&self, stream: usize, numbers: bool) -> bool {
        if self.is_under_way(stream) {
            return self.segmenter.kept_as(stream).is_some();
        }
        numbers || self.window.has_stream(stream)
    }

    /// Whether another numbered segment may go before more is heard of those that have gone.
    pub fn has_window(&self) -> bool {
        self.window.has_room()
    }

    /// What of a class is to be sent again before anything new of it: octets on the line, about.
    pub fn again(&self, class: ClassId) -> Option<usize> {
        self.window.again(class).map(|(_, octets)| octets)
    }

    /// Sends a segment of a class again, from `now` on; says how many octets it takes. Nothing may
    /// be pending.
    pub fn repeat(&mut self, now: Instant, class: ClassId) -> Option<usize> {
        debug_assert_eq!(self.pending_octets(), 0, "a segment leaves whole");
        let (place, _) = self.window.again(class)?;
        let (packet, bytes) = self.window.repeat(place)?;
        self.segment.clear();
        self.segment.extend_from_slice(bytes);
        self.put_on_line(now);
        self.leaving = Some(Leaving::Repeat { class, packet });
        Some(self.line.len())
    }

    /// Packets whose segments had numbers and that are kept no longer.
    pub fn done(&mut self) -> impl Iterator<Item = Done> + '_ {
        self.window.done()
    }

    /// Whether there are such packets.
    pub const fn has_done(&self) -> bool {
        self.window.has_done()
    }

    /// When the next packet that is kept grows too old.
    pub fn expires(&self) -> Option<Instant> {
        self.window.expires()
    }

    /// Keeps none that is too old.
    pub fn age(&mut self, now: Instant) {
        self.window.age(now);
    }

    /// Packets of which all has left, and that are kept.
    pub fn kept(&self) -> impl Iterator<Item = &Packet> {
        self.window.kept()
    }

    /// What the window counts, and the octets in it.
    pub fn window_counts(&self) -> (WindowCounts, usize) {
        (self.window.counts, self.window.octets())
    }

    /// Payload octets of the packet under way that are left.
    pub fn octets_left(&self, stream: usize) -> usize {
        self.segmenter.octets_left(stream)
    }

    /// Cuts the next segment of `stream`, to leave from `now` on; all that is left of its packet,
    /// if it is to go `whole`. Nothing may be pending.
    pub fn cut(&mut self, now: Instant, stream: usize, whole: bool) -> Option<Progress> {
        debug_assert_eq!(self.pending_octets(), 0, "a segment leaves whole");
        let payload_max = self.payload_max(stream, whole);
        self.segment.clear();
        let (header, octets_left) = match self.segmenter.kept_as(stream) {
            None => self
                .segmenter
                .cut(stream, payload_max, now, &mut self.segment)?,
            Some(packet) => self.cut_numbered(now, stream, payload_max, packet)?,
        };
        self.put_on_line(now);
        let last = header.last;
        self.leaving = Some(Leaving::Piece { stream, last });
        let ahead = &mut self.ahead[stream];
        let told = self.line.len().min(*ahead);
        *ahead -= told;
        Some(Progress {
            octets: self.line.len() - told,
            octets_left,
        })
    }

    fn cut_numbered(
        &mut self,
        now: Instant,
        stream: usize,
        payload_max: usize,
        packet: u64,
    ) -> Option<(SegmentHeader, usize)> {
        let class = self.under_way(stream)?.class;
        let numbers = self.window.next(stream);
        let segment = &mut self.segment;
        let cut = self
            .segmenter
            .cut_numbered(stream, payload_max, now, numbers, segment)?;
        self.window.sent(stream, class, packet, &self.segment);
        Some(cut)
    }

    /// Where urgent packets needn't wait for a segment's end, all but the last segment of a packet
    /// is one: that can be shortened, the last can't. With numbers, pieces have the size that the
    /// line's errors make best, all of a packet about the same.
    fn payload_max(&self, stream: usize, whole: bool) -> usize {
        let payload_max = self.segmenter.payload_max(whole);
        let left = self.segmenter.octets_left(stream);
        let best = match self.segmenter.kept_as(stream) {
            None => usize::MAX,
            Some(_) => left.div_ceil(left.div_ceil(self.window.piece_octets()).max(1)),
        };
        if !self.has_urgent() {
            return payload_max.min(best);
        }
        let but_last = left.checked_sub(payload_max);
        but_last.map_or(payload_max, |octets| octets.max(payload_max).min(best))
    }

    /// Cuts a segment that holds `note`, which belongs to no packet, to leave from `now` on; says
    /// how many octets it takes, or `None` if every stream has a packet under way. Nothing may be
    /// pending.
    pub fn cut_note(&mut self, now: Instant, note: &[u8]) -> Option<usize> {
        debug_assert_eq!(self.pending_octets(), 0, "a segment leaves whole");
        self.segment.clear();
        self.segmenter.cut_note(note, &mut self.segment)?;
        self.put_on_line(now);
        self.leaving = Some(Leaving::Note);
        Some(self.line.len())
    }

    /// Stuffs the cut segment and puts flags around it.
    fn put_on_line(&mut self, now: Instant) {
        self.line.clear();
        self.at = 0;
        let flag_after = self.segmenter.settings.flag_after_idle;
        if self
            .idle_since
            .is_none_or(|since| now.since(since) >= flag_after)
        {
            self.line.push(FLAG);
        }
        self.lead = self.line.len();
        self.stuffing().stuff_into(&self.segment, &mut self.line);
        self.line.push(FLAG);
    }

    /// Appends up to `octets` pending octets to `out`, of one frame, and says how many.
    pub fn pull(&mut self, octets: usize, out: &mut Vec<u8>) -> usize {
        if let Some(urgent) = &mut self.urgent {
            let rest = &urgent.line[urgent.at..];
            let length = octets.min(rest.len());
            out.extend_from_slice(&rest[..length]);
            urgent.at += length;
            return length;
        }
        let length = octets.min(self.pending_octets());
        out.extend_from_slice(&self.line[self.at..self.at + length]);
        self.at += length;
        length
    }

    /// To be called after each pull with the moment at which the last octet has left: gives the
    /// packet back if that was its end.
    pub fn finish(&mut self, ended: Instant) -> Option<Packet> {
        if let Some(urgent) = &self.urgent {
            if urgent.at < urgent.line.len() {
                return None;
            }
            self.suspended(ended, DelayPart::Line);
            return self.urgent.take().map(|urgent| urgent.packet);
        }
        if self.pending_octets() > 0 {
            return None;
        }
        self.idle_since = Some(ended);
        match self.leaving.take()? {
            Leaving::Note => {}
            Leaving::Repeat { packet, .. } => self.window.repeated(ended, packet),
            Leaving::Piece { stream, last: true } => {
                let number = self.segmenter.kept_as(stream);
                let packet = self.segmenter.take(stream)?;
                let Some(number) = number else {
                    return Some(packet);
                };
                self.window.keep(ended, number, packet);
            }
            Leaving::Piece { stream, .. } => {
                if let Some(way) = &mut self.segmenter.streams[stream] {
                    way.packet.enter(ended, DelayPart::Class);
                }
            }
        }
        None
    }

    /// Gives every packet under way back, unsent, and forgets the segment that was leaving.
    pub fn abandon(&mut self) -> impl Iterator<Item = Packet> + '_ {
        self.line.clear();
        self.at = 0;
        self.leaving = None;
        self.idle_since = None;
        self.ahead = [0; STREAMS];
        let urgent = self.urgent.take().map(|urgent| urgent.packet);
        let ways = self.segmenter.streams.iter_mut();
        let ways = ways.filter_map(|way| way.take().map(|way| way.packet));
        let kept = self.window.abandon();
        urgent.into_iter().chain(ways).chain(kept)
    }
}
