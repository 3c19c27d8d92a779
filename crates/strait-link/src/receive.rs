//! The receiving side.

use alloc::vec::Vec;

use strait_wire::check::Crc32Sum;
use strait_wire::octets::{FrameFault, MARK};
use strait_wire::repair::parse_numbered;
use strait_wire::segment::{
    HEADER_OCTETS, STREAMS, Segment, SegmentCheck, SegmentError, SegmentHeader, parse_segment,
};
use strait_wire::urgent::{Interleaved, Shown};

use crate::LinkSettings;
use crate::repair::{Arrived, Row, RowCounts};

/// Why received octets gave no packet. Each is counted by its own counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A check was wrong: octets were damaged on the way.
    Damaged,
    /// No sender makes such a frame: too short, too long, a broken escape.
    Invalid,
    /// A piece of a packet was missing, so its other pieces are worth nothing.
    Incomplete,
    /// A whole packet with a short check on a stream that has a long one, or a segment with a
    /// number: the other end holds for agreed what this end doesn't know of.
    Unagreed,
}

impl Refused {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [
        Self::Damaged,
        Self::Invalid,
        Self::Incomplete,
        Self::Unagreed,
    ];
}

/// A packet whose pieces come in on one stream.
#[derive(Debug, Default)]
struct Reassembly {
    /// The pieces so far; the buffer is kept for the next packet.
    bytes: Vec<u8>,
    sum: Crc32Sum,
    /// The sequence number of the next piece, while a packet is being made whole.
    next: Option<u8>,
    /// Its being incomplete has been told; more of its pieces may come.
    told: bool,
}

impl Reassembly {
    /// Forgets the packet begun, if any, and says whether there was one.
    fn give_up(&mut self) -> bool {
        self.bytes.clear();
        self.next.take().is_some()
    }
}

/// Hears of each whole packet and each refusal.
type Tell<'a> = dyn FnMut(Result<&[u8], Refused>) + 'a;

/// Makes packets of one neighbour whole again.
///
/// It holds at most one unfinished packet per stream, one frame and one urgent frame, so its memory
/// is bounded by [`STREAMS`] + 2 packets; with numbered segments by twice as many, and the 64 kB
/// that may wait for their order. Pieces that lead to nothing are replaced by the next
/// packet's first piece; a splice of two packets fails the check over the whole packet.
///
/// A frame meets the settings and a stream, each in a line of the processor's cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Receiver {
    settings: LinkSettings,
    urgent: UrgentReceived,
    streams: [Reassembly; STREAMS],
    framing: Interleaved,
    numbered: Numbered,
    /// Frames of an octet stream, damaged ones included.
    frames: u64,
}

/// Segments with numbers. A packet of theirs may go on while others pass on its stream.
#[derive(Debug)]
struct Numbered {
    /// There may be such.
    taken: bool,
    row: Row,
    streams: [Reassembly; STREAMS],
    arrivals: Arrivals,
}

/// What came of segments with numbers since somebody asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    pub(crate) segments: u32,
    /// Their sender should know soon.
    pub(crate) urgent: bool,
}

/// Urgent frames that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrgentReceived {
    /// Whose check was right.
    pub frames: u64,
    /// Whose check was wrong.
    pub damaged: u64,
    /// Other frames that came whole although they had been suspended.
    pub resumed: u64,
}

impl Receiver {
    /// A receiver that has seen nothing.
    pub fn new(settings: LinkSettings) -> Self {
        let longest = HEADER_OCTETS + settings.packet_octets_max + 4;
        Self {
            settings,
            framing: Interleaved::new(longest, settings.urgent),
            streams: core::array::from_fn(|_| Reassembly::default()),
            urgent: UrgentReceived::default(),
            numbered: Numbered {
                taken: false,
                row: Row::new(),
                streams: core::array::from_fn(|_| Reassembly::default()),
                arrivals: Arrivals::default(),
            },
            frames: 0,
        }
    }

    /// Takes segments with numbers from now on, or none.
    pub const fn set_numbered(&mut self, taken: bool) {
        self.numbered.taken = taken;
    }

    /// What came of them since this was asked before.
    pub(crate) fn take_arrivals(&mut self) -> Arrivals {
        core::mem::take(&mut self.numbered.arrivals)
    }

    pub(crate) const fn row(&self) -> &Row {
        &self.numbered.row
    }

    /// What their row counts, and the octets that wait in it.
    pub const fn row_counts(&self) -> (RowCounts, usize) {
        (self.numbered.row.counts, self.numbered.row.held_octets())
    }

    /// Their numbers begin anew.
    pub(crate) fn restart_row(&mut self) {
        self.numbered.restart();
    }

    /// The sender says which number may still come first, and which is next.
    pub(crate) fn told(&mut self, sent: (u8, u8), mut tell: impl FnMut(Result<&[u8], Refused>)) {
        let Self {
            settings, numbered, ..
        } = self;
        let Numbered { row, streams, .. } = numbered;
        row.told(sent, &mut |segment| {
            join(settings, streams, segment, &mut tell);
        });
    }

    /// The first missing one isn't waited for any longer.
    pub(crate) fn skip_first(&mut self, mut tell: impl FnMut(Result<&[u8], Refused>)) {
        let Self {
            settings, numbered, ..
        } = self;
        let Numbered { row, streams, .. } = numbered;
        row.skip_first(&mut |segment| join(settings, streams, segment, &mut tell));
    }

    /// Urgent frames that came in since the receiver was made.
    pub const fn urgent(&self) -> UrgentReceived {
        self.urgent
    }

    /// Frames that came in an octet stream since the receiver was made, damaged ones included.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Forgets everything begun, as after the line was down.
    pub fn reset(&mut self) {
        self.framing.reset();
        self.streams.iter_mut().for_each(|stream| {
            stream.give_up();
        });
        self.numbered.restart();
    }

    /// Takes short checks on these streams from now on, and urgent frames with this check.
    pub fn set_checks(&mut self, short: u8, urgent: Option<SegmentCheck>) {
        self.settings.short = short;
        if self.settings.urgent != urgent {
            self.settings.urgent = urgent;
            self.framing.set_check(urgent);
        }
    }

    /// Whether the other end seems to hold urgent frames for agreed that this end doesn't know of:
    /// where marks are escaped, a bare one begins such a frame. These alone end no other frame, so
    /// nothing would ever be refused.
    pub fn misses_urgent(&self, bytes: &[u8]) -> bool {
        self.settings.marks && self.settings.urgent.is_none() && bytes.contains(&MARK)
    }

    /// Takes octets of an octet stream, cut anywhere; tells each whole packet and each refusal.
    pub fn feed_octets(&mut self, bytes: &[u8], mut tell: impl FnMut(Result<&[u8], Refused>)) {
        let Self {
            settings,
            framing,
            streams,
            urgent,
            numbered,
            frames,
        } = self;
        framing.feed(bytes, |shown| match shown {
            Shown::Frame(frame) if is_pause(frame) => {}
            Shown::Frame(frame) => {
                *frames += 1;
                let ends = numbered.taken && ends_packet(settings, streams, frame);
                if !ends && numbered.take(settings, frame, &mut tell) {
                    return;
                }
                if numbered.taken && follows_nothing(streams, frame) {
                    return tell(Err(Refused::Damaged));
                }
                take_frame(settings, streams, frame, &mut tell);
            }
            Shown::Fault(FrameFault::Abort | FrameFault::BadEscape | FrameFault::TooLong) => {
                *frames += 1;
                tell(Err(Refused::Invalid));
            }
            Shown::Damaged => {
                *frames += 1;
                urgent.damaged += 1;
                tell(Err(Refused::Damaged));
            }
            Shown::Urgent(packet) if packet.len() > settings.packet_octets_max => {
                *frames += 1;
                tell(Err(Refused::Invalid));
            }
            Shown::Urgent(packet) => {
                *frames += 1;
                urgent.frames += 1;
                tell(Ok(packet));
            }
        });
        urgent.resumed = framing.resumed();
    }

    /// Takes one frame of a medium that has its own; tells the packet or the refusals.
    pub fn feed_frame(&mut self, frame: &[u8], mut tell: impl FnMut(Result<&[u8], Refused>)) {
        take_frame(&self.settings, &mut self.streams, frame, &mut tell);
    }
}

impl Numbered {
    fn restart(&mut self) {
        self.row.restart(0);
        self.arrivals = Arrivals::default();
        self.streams.iter_mut().for_each(|stream| {
            stream.give_up();
        });
    }

    /// Takes a segment with a number, and says whether it is one.
    fn take(&mut self, settings: &LinkSettings, frame: &[u8], tell: &mut Tell<'_>) -> bool {
        if !self.taken {
            return false;
        }
        let Some((number, segment)) = numbered_segment(settings, frame) else {
            return false;
        };
        let Self { row, streams, .. } = self;
        let arrived = row.take(number, &segment, &mut |segment| {
            join(settings, streams, segment, tell);
        });
        self.arrivals.segments += 1;
        self.arrivals.urgent |= matches!(arrived, Arrived::Gap | Arrived::Needless);
        true
    }
}

/// Whether what is between two flags is what a synchronous line carries in a pause: ones. No error
/// made it, and no segment looks like it.
fn is_pause(frame: &[u8]) -> bool {
    frame.iter().all(|octet| *octet == 0xff)
}

/// Whether a frame is the right end of the packet that comes in on its stream. Nothing but the
/// check over the packet covers such a segment; so it decides before any that is about a number.
fn ends_packet(settings: &LinkSettings, streams: &[Reassembly; STREAMS], frame: &[u8]) -> bool {
    let Ok(segment) = parse_segment(frame, settings.alone) else {
        return false;
    };
    let header = segment.header;
    let stream = &streams[usize::from(header.stream)];
    let is_end = header.last && !header.first;
    is_end && stream.next == Some(header.sequence) && segment.accept(&mut { stream.sum })
}

/// Whether a frame would be the end of a packet of which nothing is here: where segments have
/// numbers, a damaged one looks like it.
fn follows_nothing(streams: &[Reassembly; STREAMS], frame: &[u8]) -> bool {
    frame.first().is_some_and(|octet| {
        let header = SegmentHeader::parse(*octet);
        let next = streams[usize::from(header.stream)].next;
        header.last && !header.first && next.is_none()
    })
}

/// A segment with a number, if a frame is one.
fn numbered_segment<'a>(settings: &LinkSettings, frame: &'a [u8]) -> Option<(u8, Segment<'a>)> {
    let header = SegmentHeader::parse(*frame.first()?);
    let long = parse_numbered(frame, settings.alone);
    let short = || parse_numbered(frame, SegmentCheck::Short);
    let alone = header.first && header.last;
    match long {
        Err(_) if alone && settings.is_short(header.stream) => short().ok(),
        read => read.ok(),
    }
}

fn take_frame(
    settings: &LinkSettings,
    streams: &mut [Reassembly; STREAMS],
    frame: &[u8],
    tell: &mut Tell<'_>,
) {
    let segment = match parse_segment(frame, settings.alone) {
        Ok(segment) => segment,
        Err(error) => match short_segment(frame) {
            Some(segment) if settings.is_short(segment.header.stream) => segment,
            Some(_) => return tell(Err(Refused::Unagreed)),
            None if numbered_segment(settings, frame).is_some() => {
                return tell(Err(Refused::Unagreed));
            }
            None if error == SegmentError::Truncated => return tell(Err(Refused::Invalid)),
            None => return tell(Err(Refused::Damaged)),
        },
    };
    join(settings, streams, &segment, tell);
}

/// Joins a segment to those of its packet before it.
fn join(
    settings: &LinkSettings,
    streams: &mut [Reassembly; STREAMS],
    segment: &Segment<'_>,
    tell: &mut Tell<'_>,
) {
    let header = segment.header;
    let stream = &mut streams[usize::from(header.stream)];
    if header.first {
        if stream.give_up() {
            tell(Err(Refused::Incomplete));
        }
        stream.told = false;
        if header.last {
            // The common case needs no copy.
            let fits = segment.payload.len() <= settings.packet_octets_max;
            return tell(if fits {
                Ok(segment.payload)
            } else {
                Err(Refused::Invalid)
            });
        }
    } else if stream.next != Some(header.sequence) {
        // The first piece, or one in between, is missing.
        if !stream.told {
            tell(Err(Refused::Incomplete));
        }
        stream.give_up();
        stream.told = !header.last;
        return;
    }
    if stream.bytes.len() + segment.payload.len() > settings.packet_octets_max {
        stream.give_up();
        return tell(Err(Refused::Invalid));
    }
    let sound = segment.accept(&mut stream.sum);
    stream.bytes.extend_from_slice(segment.payload);
    stream.next = Some((header.sequence + 1) % 8);
    if header.last {
        stream.next = None;
        tell(if sound {
            Ok(&stream.bytes)
        } else {
            Err(Refused::Damaged)
        });
        stream.bytes.clear();
    }
}

/// A whole packet with a short check.
fn short_segment(frame: &[u8]) -> Option<Segment<'_>> {
    let header = SegmentHeader::parse(*frame.first()?);
    let segment = || parse_segment(frame, SegmentCheck::Short).ok();
    (header.first && header.last).then(segment)?
}
