//! One context of a decompressor: what is known of a flow, and how far that is believed.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::check::{crc8, transport_sum};
use super::decode::{Decoder, Standing};
use super::decompress::Fault;
use super::feedback::{Form, Kind};
use super::fields::Fields;
use super::lists::Reader;
use super::numbers::{Bits, Cursor};
use super::{Profile, Settings, beyond, tcp};

/// What a context knows, by the family of its profile.
#[derive(Debug)]
pub(super) enum Known {
    /// Nothing: packets are as they are.
    Uncompressed,
    /// RTP, UDP, ESP and IP.
    Rfc3095(Box<Decoder>),
    Tcp(Box<tcp::Decoder>),
}

impl Known {
    /// Whether it says of the flow what `before` doesn't, and no checksum of its packets would tell
    /// if that is wrong: of another flow, where they have none, theirs `tell` nothing, or both
    /// flows have the same; of another hop limit or class always.
    pub(super) fn replaces(&self, before: &Self, tell: bool) -> bool {
        let (Some((profile, own)), Some((_, other))) = (self.said(), before.said()) else {
            return false;
        };
        let of = |it: &Fields| (it.flow(profile), it.source);
        if of(own) == of(other) {
            return (own.hop_limit, own.traffic_class) != (other.hop_limit, other.traffic_class);
        }
        !(tell && self.carries_checksum() && own.covered() != other.covered())
    }

    /// What was said of the flow.
    pub(super) const fn said(&self) -> Option<(Profile, &Fields)> {
        match self {
            Self::Uncompressed => None,
            Self::Rfc3095(decoder) => Some((decoder.known().profile, &decoder.known().fields)),
            Self::Tcp(decoder) => Some((Profile::Tcp, decoder.ip())),
        }
    }

    pub(super) const fn carries_checksum(&self) -> bool {
        match self {
            Self::Uncompressed => false,
            Self::Rfc3095(decoder) => decoder.known().carries_checksum(),
            Self::Tcp(_) => true,
        }
    }

    /// The last packet's sequence number.
    pub(super) const fn sequence(&self) -> Option<u32> {
        match self {
            Self::Uncompressed => None,
            Self::Rfc3095(decoder) => Some(decoder.known().fields.sequence),
            Self::Tcp(decoder) => Some(decoder.msn() as u32),
        }
    }

    pub(super) const fn form(&self) -> Form {
        match self {
            Self::Tcp(_) => Form::Rfc6846,
            _ => Form::Rfc3095,
        }
    }

    /// The transport checksum is this end's own, and vouches for nothing.
    pub(super) const fn rebuilds(&self) -> bool {
        match self {
            Self::Rfc3095(decoder) => decoder.known().rebuilds,
            _ => false,
        }
    }

    /// Appends the packet that IR or IR-DYN told.
    pub(super) fn emit(&self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let done = match self {
            Self::Uncompressed => {
                out.extend_from_slice(payload);
                true
            }
            Self::Rfc3095(decoder) => decoder.known().emit(payload, out),
            Self::Tcp(decoder) => decoder.emit(payload, out),
        };
        done.then_some(()).ok_or(Fault::Malformed)
    }
}

/// Packets in a row with wrong transport checksums, or one that was told whole, from which on a
/// wrong one is taken for the flow's habit, and tells nothing.
pub(super) const WRONG_SUMS_HABIT: u8 = 2;
/// Packets between two acknowledgements of one context: an acknowledgement that got lost comes
/// again, and those that travel aren't doubled.
const ACK_PAUSE: u8 = 4;
/// Packets after which one that needs none is acknowledged too, if its transport checksum vouches
/// for it: a compressor that hears from time to time has nothing to say anew.
pub(super) const ACK_RARELY: u8 = u8::MAX;
/// Refused packets between two requests of one context.
pub(super) const NACK_PAUSE: u8 = 4;
/// Refused packets after which what never changes is doubted too.
const FAILURES_MAX: u8 = 3 * NACK_PAUSE;

/// A context in use.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) known: Known,
    /// What changes is known; else only IR, IR-DYN and headers with the longer check are taken, and
    /// those that the transport checksum vouches for.
    pub(super) sure: bool,
    /// Only what never changes is known.
    pub(super) bare: bool,
    /// Packets refused since the last one that was taken.
    pub(super) failures: u8,
    /// Everything has been asked for since then.
    pub(super) all_asked: bool,
    /// Which of the last packets were refused; the lowest bit is the last one's.
    pub(super) refusals: u32,
    /// Packets in a row whose transport checksum was wrong, up to [`WRONG_SUMS_HABIT`].
    pub(super) wrong_sums: u8,
    /// Packets taken since the last acknowledgement; `None` before the first.
    pub(super) unacknowledged: Option<u8>,
    /// Packets taken, counted up to [`LASTING_PACKETS`](super::LASTING_PACKETS).
    pub(super) packets: u8,
    pub(super) owes: Option<Kind>,
    /// The last packet told all.
    pub(super) told_whole: bool,
    /// It took the place of another flow's and its packets can't tell whether that was right:
    /// everything is asked for, whatever is taken meanwhile, until it is said once more. Packets
    /// until the next such request.
    pub(super) usurps: Option<u8>,
}

impl Entry {
    pub(super) const fn new(known: Known) -> Self {
        Self {
            known,
            sure: true,
            bare: false,
            failures: 0,
            all_asked: false,
            refusals: 0,
            wrong_sums: 0,
            unacknowledged: None,
            packets: 0,
            owes: None,
            told_whole: false,
            usurps: None,
        }
    }

    pub(super) const fn owes(&self) -> bool {
        matches!(self.usurps, Some(0)) || self.owes.is_some()
    }

    /// What it owes, which is owed no more.
    pub(super) const fn take_owed(&mut self) -> Option<Kind> {
        let owed = self.owes.take();
        if let Some(0) = self.usurps {
            self.usurps = Some(NACK_PAUSE);
            return Some(Kind::StaticNack);
        }
        owed
    }

    /// Whether a wrong transport checksum tells of a wrong header.
    pub(super) const fn sums_tell(&self) -> bool {
        self.wrong_sums < WRONG_SUMS_HABIT
    }

    /// How far the context is believed.
    pub(super) const fn standing(&self) -> Standing {
        match self {
            Self { sure: false, .. } => Standing::Behind,
            Self { failures: 0, .. } => Standing::Sure,
            _ => Standing::Shaken,
        }
    }

    /// Whether both are of one flow by their static chains.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        match (&self.known, &other.known) {
            (Known::Rfc3095(own), Known::Rfc3095(other)) => own.known().is_of(other.known()),
            _ => false,
        }
    }

    /// Whether `known`, which IR-DYN has told, goes on where the context is.
    pub(super) fn is_next(&self, known: &Known, settings: &Settings) -> bool {
        let [Some(last), Some(next)] = [self.known.sequence(), known.sequence()] else {
            return false;
        };
        let step = next.wrapping_sub(last) as u16;
        self.standing() == Standing::Sure && (1..=u16::from(settings.repeats)).contains(&step)
    }

    /// Takes in IR-DYN: `rest` of `whole`, with its check.
    pub(super) fn retell(
        &mut self,
        kind: beyond::Kind,
        (whole, mut rest, check): (&[u8], Cursor<'_>, u8),
        (settings, sums_vouched): (&Settings, bool),
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let chain = rest;
        let mut unsaid = Vec::new();
        let known = match &self.known {
            Known::Rfc3095(decoder) if decoder.known().kind() == kind => {
                let mut known = *decoder.known();
                let mut lists = Reader::new(decoder.tables());
                let read = known.read_dynamic(&mut rest, &mut lists);
                read.ok_or(Fault::Unsupported)?;
                if kind.is_private() {
                    known.put_static(&mut unsaid);
                }
                Known::Rfc3095(Box::new(Decoder::new(known, lists.into_tables())))
            }
            Known::Tcp(decoder) if kind.profile == Profile::Tcp => {
                let decoder = decoder.read_dynamic(&mut rest).ok_or(Fault::Unsupported)?;
                Known::Tcp(Box::new(decoder))
            }
            _ => return Err(Fault::NoContext),
        };
        verify(whole, chain, rest, &unsaid, check)?;
        let start = out.len();
        known.emit(rest.0, out)?;
        let wrong = transport_sum(&out[start..]) == Some(false);
        if wrong && (sums_vouched || self.sums_tell() && !self.is_next(&known, settings)) {
            // Of another flow: the context was given to one whose beginning got lost. Or damaged.
            out.truncate(start);
            return Err(Fault::BadCheck);
        }
        self.known = known;
        self.wrong_sums = if wrong { WRONG_SUMS_HABIT } else { 0 };
        self.taken(true, settings.feedback);
        Ok(())
    }

    /// A packet was taken; `strong` if by a check that a wrong one hardly passes.
    pub(super) fn taken(&mut self, strong: bool, feedback: bool) {
        if strong && !self.sure {
            self.sure = true;
            self.refusals = 0;
        }
        self.bare = false;
        self.told_whole = false;
        self.failures = 0;
        self.all_asked = false;
        self.refusals <<= 1;
        self.count_usurper();
        let due = self.unacknowledged.is_none_or(|since| since >= ACK_PAUSE);
        if strong && due && feedback {
            self.owes = Some(Kind::Ack(Bits::default()));
            self.unacknowledged = Some(0);
        } else if let Some(since) = &mut self.unacknowledged {
            *since = since.saturating_add(1);
        }
        if !matches!(self.owes, Some(Kind::Ack(_))) {
            self.owes = None;
        }
    }

    const fn count_usurper(&mut self) {
        if let Some(packets) = &mut self.usurps {
            *packets = packets.saturating_sub(1);
        }
    }

    /// A packet was refused: it was damaged, or the context is behind. `all` if what never changes
    /// is wrong.
    pub(super) fn refused(&mut self, all: bool, settings: &Settings) {
        self.refusals = self.refusals << 1 | 1;
        self.count_usurper();
        if all || settings.doubt.is_due(self.refusals) {
            self.sure = false;
        }
        let worse = all && !self.all_asked;
        if settings.feedback && (worse || self.failures.is_multiple_of(NACK_PAUSE)) {
            self.all_asked |= all || self.failures >= FAILURES_MAX;
            self.owes = Some(if self.all_asked {
                Kind::StaticNack
            } else {
                Kind::Nack
            });
        }
        self.failures = self.failures.saturating_add(1);
    }
}

/// Checks the octets of `whole` up to `rest`, which holds the chains that begin with `chain` and
/// what follows them, and what is `unsaid`; the check itself, which lies before the chains, counts
/// as zero.
pub(super) fn verify(
    whole: &[u8],
    chain: Cursor<'_>,
    rest: Cursor<'_>,
    unsaid: &[u8],
    check: u8,
) -> Result<(), Fault> {
    let head = whole.len() - chain.0.len() - 1;
    let chains = chain.0.len() - rest.0.len();
    agrees(&[&whole[..head], &[0], &chain.0[..chains], unsaid], check)
}

/// Checks an IR packet of the uncompressed profile, which is `packet` from its own header on: up to
/// the profile's number (RFC 5795 section 5.4.1.1).
pub(super) fn verify_plain(whole: &[u8], packet: Cursor<'_>, check: u8) -> Result<(), Fault> {
    agrees(&[&whole[..whole.len() - packet.0.len() - 1]], check)
}

pub(super) fn agrees(pieces: &[&[u8]], check: u8) -> Result<(), Fault> {
    let right = crc8(pieces) == check;
    right.then_some(()).ok_or(Fault::BadCheck)
}
