//! Robust header compression: RFC 3095 with the corrections of RFC 4815, RFC 3843 and RFC 6846, for
//! links where 40 to 60 octets of headers cost more time than the speech they carry.
//!
//! A [`Compressor`] and a [`Decompressor`] keep *contexts*: what both know of a flow. A compressed
//! header says only what the other end can't tell by itself, and carries a check over the whole
//! header it stands for. A [`Peer`] holds both ends of one neighbour and takes feedback along on
//! packets that go the other way.
//!
//! | profile | headers | smallest compressed header |
//! |---|---|---|
//! | [`Profile::Rtp`] | IP, UDP, RTP without contributing sources | 1 octet, and the UDP checksum |
//! | [`Profile::Udp`] | IP, UDP | 1 octet, and the UDP checksum |
//! | [`Profile::Esp`] | IP, ESP | 1 octet |
//! | [`Profile::Ip`] | IP | 1 octet |
//! | [`Profile::Tcp`] | IP, TCP and its options | 2 octets, checksum, timestamps |
//! | [`Profile::Uncompressed`] | all else: IPv4 options and fragments, wrong checksums | none |
//!
//! *IP* is one header or two, as in a tunnel, and IPv6 extension headers behind them.
//!
//! ```
//! use strait_link::rohc::{Cids, Compressor, Decompressor, Profile, Received, Settings};
//!
//! let settings = Settings::new(Cids::Small(15));
//! let mut compressor = Compressor::new(settings);
//! let mut decompressor = Decompressor::new(settings);
//! // An echo request.
//! let mut packet = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0x66, 0xcc, 10, 9, 0, 1, 10, 9, 0, 2];
//! packet.extend_from_slice(&[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
//! let mut line = Vec::new();
//! assert_eq!(compressor.compress(0, &packet, &mut line), Profile::Ip);
//! let mut out = Vec::new();
//! let received = decompressor.decompress(&line, &mut out, |_feedback| {});
//! assert_eq!(received, Ok(Received::Packet));
//! assert_eq!(out, packet);
//! ```
//!
//! # Beyond the standard
//!
//! Two ends of this kind may agree on more, each for itself with [`Peer::agree`]: see [`Beyond`].
//! Without that, what is sent is the standard's alone.
//!
//! # Never a wrong header
//!
//! Compression assumes that the frames below are checked: what arrives arrived whole. What remains
//! is a context that lost packets have left behind. Four things keep it from delivering wrong
//! headers: low bits are sent so that any of the last [`Settings::repeats`] packets is enough to
//! read them; the check in every compressed header; a decompressor that failed takes only formats
//! with the longer check; and the transport checksum, where the packet has one, which is verified
//! at both ends (a packet with a wrong one goes uncompressed).
//!
//! TCP's own header changes in more fields at once than the others, so a context that is behind
//! stays behind. Changes that its checksum doesn't cover are said oftener, so is everything while
//! nobody answers, and the transport checksum decides in every doubt. Of IPv4 identifications,
//! which it doesn't cover, few bits may be said between *anchors*, and are believed only near one.
//!
//! # Modes
//!
//! Unidirectional: changes are repeated, and everything is said anew from time to time, by packets
//! and, with [`Settings::refresh_after`], by the clock. As soon as feedback arrives, bidirectional
//! optimistic: an acknowledgement ends the repeating, and a decompressor that has lost its context
//! asks for it. Reliable mode isn't there.

mod beyond;
mod chain;
mod check;
mod compress;
mod context;
mod decode;
mod decompress;
mod encode;
mod encode_rtp;
mod envelope;
mod feedback;
mod fields;
mod lists;
mod numbers;
mod pace;
mod peer;
mod tcp;

pub use beyond::{Beyond, Provision};
pub use compress::Compressor;
pub use decompress::{Decompressor, Fault, Received};
pub use peer::Peer;

use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use numbers::Number;

/// Packets of a flow after which it counts as one that lasts: who knows it beforehand the next
/// time saves more than what it costs to remember it.
pub const LASTING_PACKETS: u8 = 16;

/// Which headers a context compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// None (RFC 5795 section 5.4).
    Uncompressed,
    /// IP, UDP and RTP (RFC 3095 section 5.7).
    Rtp,
    /// IP and UDP (RFC 3095 section 5.11).
    Udp,
    /// IP and ESP (RFC 3095 section 5.12).
    Esp,
    /// IP alone (RFC 3843).
    Ip,
    /// IP and TCP with its options (RFC 6846).
    Tcp,
}

impl Profile {
    /// The low octet of the profile's registered number; the high one is zero.
    pub const fn number(self) -> u8 {
        match self {
            Self::Uncompressed => 0,
            Self::Rtp => 1,
            Self::Udp => 2,
            Self::Esp => 3,
            Self::Ip => 4,
            Self::Tcp => 6,
        }
    }

    /// The profile with this number, if we have it.
    pub const fn numbered(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Uncompressed),
            1 => Some(Self::Rtp),
            2 => Some(Self::Udp),
            3 => Some(Self::Esp),
            4 => Some(Self::Ip),
            6 => Some(Self::Tcp),
            _ => None,
        }
    }

    const fn sequence_kind(self) -> Number {
        match self {
            Self::Rtp => Number::RtpSequence,
            Self::Esp => Number::EspSequence,
            _ => Number::OwnSequence,
        }
    }
}

/// How contexts are numbered; both ends need the same (RFC 5795 section 5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cids {
    /// 0 to this number, at most 15: the first costs no octet, the others one each.
    Small(u8),
    /// 0 to this number, at most [`Self::LARGE_MAX`]: one octet each below 128, then two.
    Large(u16),
}

impl Cids {
    /// The highest large number that is used: contexts are searched one by one.
    pub const LARGE_MAX: u16 = 255;

    /// The highest number.
    pub const fn max(self) -> u16 {
        match self {
            Self::Small(max) if max < 15 => max as u16,
            Self::Small(_) => 15,
            Self::Large(max) if max < Self::LARGE_MAX => max,
            Self::Large(_) => Self::LARGE_MAX,
        }
    }

    const fn is_large(self) -> bool {
        matches!(self, Self::Large(_))
    }

    const fn cid(self, number: u16) -> Cid {
        Cid {
            number,
            large: self.is_large(),
        }
    }
}

/// A context's number as packets carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cid {
    number: u16,
    large: bool,
}

impl Cid {
    /// Appends the first octet of a packet with the number around it: a small one before it, a
    /// large one behind it (RFC 5795 section 5.2.4).
    fn put(self, first: u8, out: &mut Vec<u8>) {
        if self.large {
            out.push(first);
            self.put_large(out);
        } else {
            if self.number != 0 {
                out.push(0xe0 | self.number as u8);
            }
            out.push(first);
        }
    }

    /// Appends the number as feedback carries it.
    fn put_feedback(self, out: &mut Vec<u8>) {
        if self.large {
            self.put_large(out);
        } else if self.number != 0 {
            out.push(0xe0 | self.number as u8);
        }
    }

    /// Octets of the number as feedback carries it.
    const fn feedback_octets(self) -> usize {
        match self.number {
            0 if !self.large => 0,
            128.. if self.large => 2,
            _ => 1,
        }
    }

    fn put_large(self, out: &mut Vec<u8>) {
        let width = if self.number < 128 { 7 } else { 14 };
        numbers::put_sdvl(u32::from(self.number), width, out);
    }
}

/// What both ends of a link have to agree on, and how this end takes care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How contexts are numbered, and so how many there are; the highest number is the
    /// uncompressed profile's.
    pub cids: Cids,
    /// Packets that repeat a change while nobody acknowledges it (1 … [`Self::REPEATS_MAX`]): a
    /// context survives one loss less in a row at its start and at changes.
    pub repeats: u8,
    /// Packets of a flow after which everything is said anew, without feedback. With feedback
    /// [`Self::CONFIRMED_RARER`] times as many.
    pub refresh_whole: u32,
    /// The same for all that changes, but not what identifies the flow.
    pub refresh_dynamic: u32,
    /// Everything is said anew after so long, too, at the first packet then: for a link without a
    /// way back, where what a context took for said may be another's. Needs
    /// [`Compressor::tell_time`].
    pub refresh_after: Option<Duration>,
    /// Where the other end has answered before, and nothing has been heard of it for so long nor
    /// in so many packets of a context as its numbers can tell apart, each says all that changes:
    /// the next to arrive may have no other at hand. That asks for an answer, too. RTP is left out.
    /// Needs [`Compressor::tell_time`].
    pub unheard_after: Option<Duration>,
    /// This end sends feedback and hears it: there is a way back.
    pub feedback: bool,
    /// When refused packets make a decompressor doubt a context.
    pub doubt: Doubt,
    /// The other end reads static identifications of RFC 3843 section 3.3 in the profiles of
    /// RFC 3095, too, as other implementations do; of the profile for IP alone it does anyway.
    pub static_ids: bool,
}

/// When a context is taken for the cause of refused packets, so that the shorter check doesn't do
/// any more: as soon as `refused` of the last `among` were (RFC 3095 section 5.3.2.2.3, where they
/// are k and n).
///
/// One of one is right only where damaged frames hardly ever pass for whole ones: else one that
/// does makes whole ones be refused until what changes is said anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// At least 1, at most `among`.
    pub refused: u8,
    /// At most [`Self::AMONG_MAX`].
    pub among: u8,
}

impl Doubt {
    /// The most packets that a decompressor looks back.
    pub const AMONG_MAX: u8 = 32;
    /// For media whose frames arrive whole or not at all.
    pub const AT_ONCE: Self = Self {
        refused: 1,
        among: 1,
    };
    /// For media whose damaged frames may pass for whole ones.
    pub const PATIENT: Self = Self {
        refused: 3,
        among: 8,
    };

    /// Whether it is due, by a bit for each of the last packets, set if refused.
    const fn is_due(self, refusals: u32) -> bool {
        let among = numbers::low_mask(self.among);
        (refusals & among).count_ones() >= self.refused as u32
    }
}

impl Settings {
    /// Octets by which a packet may grow: an uncompressed profile's number or a context's whole
    /// content in place of headers, and one element of feedback.
    pub const GROWTH_OCTETS_MAX: usize = 32;
    /// The most repeats; each needs memory in each context.
    pub const REPEATS_MAX: u8 = 8;
    /// How much rarer everything is said anew once the other end has answered: then it asks.
    pub const CONFIRMED_RARER: u32 = 4;

    /// Settings for a link that loses up to a few packets in a row.
    pub const fn new(cids: Cids) -> Self {
        Self {
            cids,
            repeats: 4,
            refresh_whole: 1700,
            refresh_dynamic: 500,
            refresh_after: None,
            unheard_after: None,
            feedback: true,
            doubt: Doubt::PATIENT,
            static_ids: true,
        }
    }

    /// Whether what was said whole at `whole_at` is said anew by now.
    fn is_refresh_due(&self, whole_at: Instant, now: Instant) -> bool {
        let due = |after| now.since(whole_at) >= after;
        self.refresh_after.is_some_and(due)
    }
}
