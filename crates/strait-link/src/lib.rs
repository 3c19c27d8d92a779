//! Across one link: packets cut into pre-emptible segments, framed on an octet stream or put into
//! frames, and made whole again at the other end.
//!
//! The sender side never looks ahead: a segment is cut when its first octet is about to leave, so
//! that a more urgent packet waits for one segment at most. Who goes first is not decided here.
#![no_std]
extern crate alloc;

pub mod hbh;
pub mod load;
mod octet;
pub mod payload;
mod receive;
pub mod repair;
pub mod rohc;
mod send;

pub use octet::OctetSender;
pub use receive::{Receiver, Refused, UrgentReceived};
pub use send::{FrameSender, Progress};
pub use strait_wire::segment::{STREAMS, SegmentCheck};

use strait_core::Duration;
use strait_core::rate::LineRate;
use strait_wire::segment::HEADER_OCTETS;

/// Octets that a whole packet needs on a line beside its own: header, check and closing flag.
/// Stuffing adds to it with the content.
pub const fn frame_overhead_octets(check: SegmentCheck) -> usize {
    HEADER_OCTETS + check.octets() + 1
}

/// What both ends of a link have to agree on, and how this end cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The most payload octets of a segment. The receiver takes any size up to `packet_octets_max`.
    pub segment_octets_max: usize,
    /// The largest packet, in octets; both ends need the same or the larger one.
    pub packet_octets_max: usize,
    /// Check of packets that fit one segment; both ends need the same.
    pub alone: SegmentCheck,
    /// The streams, the lowest bit for stream 0, on which such packets have a short check: a sender
    /// uses it there, and a receiver takes it beside the other.
    pub short: u8,
    /// A pause after which an octet stream gets a flag ahead of the next frame, so that noise
    /// picked up in the pause can't spoil it.
    pub flag_after_idle: Duration,
    /// The mark that begins urgent frames is escaped everywhere else, whether or not there are such
    /// yet.
    pub marks: bool,
    /// Check of urgent frames, if this octet stream has such: then what is leaving can be suspended
    /// after any octet, and nothing needs small segments. Both ends need the same, and `marks`.
    pub urgent: Option<SegmentCheck>,
}

impl LinkSettings {
    /// The shortest useful segment: below it, headers and checks cost more than a twentieth.
    pub const SEGMENT_OCTETS_MIN: usize = 64;

    /// Line time that a segment may hold the line for, where nothing else is configured: at
    /// 9600 baud 8N1, 96 octets of payload; from about 120 kbit/s on, packets go whole.
    pub const SEGMENT_TIME: Duration = Duration::from_millis(100);

    /// Settings for a line of the given rate: segments of about [`Self::SEGMENT_TIME`].
    pub fn for_rate(rate: LineRate, packet_octets_max: usize) -> Self {
        let octets = usize::try_from(rate.octets_in(Self::SEGMENT_TIME)).unwrap_or(usize::MAX);
        let lowest = Self::SEGMENT_OCTETS_MIN.min(packet_octets_max);
        Self {
            segment_octets_max: octets.clamp(lowest, packet_octets_max),
            packet_octets_max,
            alone: SegmentCheck::Long,
            short: 0,
            flag_after_idle: Duration::from_secs(1),
            marks: false,
            urgent: None,
        }
    }

    /// Whole packets with a short check: what a plain point-to-point link with compressed
    /// address, control and protocol fields puts on the line (RFC 1661 section 6.5 and 6.6).
    pub const fn plain(packet_octets_max: usize) -> Self {
        Self {
            segment_octets_max: packet_octets_max,
            packet_octets_max,
            alone: SegmentCheck::Short,
            short: 0,
            flag_after_idle: Duration::from_secs(1),
            marks: false,
            urgent: None,
        }
    }

    /// Whether packets that fit one segment of `stream` have a short check where others have a long
    /// one.
    const fn is_short(&self, stream: u8) -> bool {
        self.short >> (stream & 7) & 1 != 0
    }

    /// The check of packets that fit one segment of `stream`, as sent.
    const fn check(&self, stream: usize) -> SegmentCheck {
        if self.is_short(stream as u8) {
            SegmentCheck::Short
        } else {
            self.alone
        }
    }
}

#[cfg(test)]
mod tests;
