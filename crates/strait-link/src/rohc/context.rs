//! One context of a decompressor: what is known of a flow, and how far that is believed.

use alloc::boxed::Box;
use alloc::vec::Vec;

use strait_wire::ip::is_packet;

use super::chain;
use super::check::{crc8, transport_sum};
use super::decode::{Check, Decoder, Standing, Trust, WrongSums};
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
    /// Whether both agree in all that packets aren't asked to say again and that no transport
    /// checksum vouches for: whose flow it is, and what its headers have beside numbers.
    fn stays_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Uncompressed, Self::Uncompressed) => true,
            (Self::Rfc3095(own), Self::Rfc3095(other)) => own.known().stays_as(other.known()),
            (Self::Tcp(own), Self::Tcp(other)) => own.stays_as(&other.place()),
            _ => false,
        }
    }

    /// Whether the transport checksums of the two flows differ, so that one tells whose it is.
    fn has_sums_apart(&self, other: &Self) -> bool {
        let (Some(own), Some(other)) = (self.said(), other.said()) else {
            return true;
        };
        self.carries_checksum() && own.covered() != other.covered()
    }

    /// Where it is in the flow.
    const fn place(&self) -> Place {
        match self {
            Self::Uncompressed => Place::None,
            Self::Rfc3095(decoder) => Place::Rfc3095(*decoder.known()),
            Self::Tcp(decoder) => Place::Tcp(decoder.place()),
        }
    }

    /// What was known `before`, if something else stayed.
    fn unless_it_stays(&self, before: Place) -> Option<Self> {
        match (self, before) {
            (Self::Rfc3095(decoder), Place::Rfc3095(before))
                if !decoder.known().stays_as(&before) =>
            {
                Some(Self::Rfc3095(Box::new(decoder.at(before))))
            }
            (Self::Tcp(decoder), Place::Tcp(before)) if !decoder.stays_as(&before) => {
                Some(Self::Tcp(Box::new(decoder.at(&before))))
            }
            _ => None,
        }
    }

    /// What was said of the flow.
    const fn said(&self) -> Option<&Fields> {
        match self {
            Self::Uncompressed => None,
            Self::Rfc3095(decoder) => Some(&decoder.known().fields),
            Self::Tcp(decoder) => Some(decoder.ip()),
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

/// What a context knows after a packet, beside tables.
#[derive(Clone, Copy, Debug)]
enum Place {
    None,
    Rfc3095(chain::Known),
    Tcp(tcp::Place),
}

/// What a packet that was told did to its context.
#[derive(Debug)]
pub(super) struct Told {
    /// Its check is one that a wrong one hardly passes.
    strong: bool,
    /// It said something that no transport checksum vouches for. Without that the context would
    /// be this.
    before: Option<Known>,
}

/// Packets in a row with wrong transport checksums, or one that was told whole, from which on a
/// wrong one is taken for the flow's habit, and tells nothing.
pub(super) const WRONG_SUMS_HABIT: u8 = 2;
/// Packets between two acknowledgements of one context: an acknowledgement that got lost comes
/// again, and those that travel aren't doubled.
const ACK_PAUSE: u8 = 4;
/// Packets after which one that needs none is acknowledged too, if its transport checksum vouches
/// for it: a compressor that hears from time to time has nothing to say anew.
const ACK_RARELY: u8 = u8::MAX;
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
    /// What it would be without the packet that said something last which no transport checksum
    /// vouches for. One packet may be somebody else's, and the short check of those behind it
    /// may fit both.
    rival: Option<Box<Self>>,
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
            rival: None,
        }
    }

    /// The same context, but for what is `known`.
    fn beside(&self, known: Known) -> Box<Self> {
        Box::new(Self {
            known,
            rival: None,
            ..*self
        })
    }

    /// Takes the place of `old`, which becomes the rival unless both agree, or its own rival does:
    /// then two packets have said the same.
    pub(super) fn replace(&mut self, mut old: Box<Self>) {
        self.unacknowledged = old.unacknowledged;
        let other = old.rival.take();
        let agrees = |it: &Self| it.known.stays_as(&self.known);
        let settled = agrees(&old) || other.as_deref().is_some_and(agrees);
        self.rival = Some(old).filter(|old| !settled && !old.bare);
    }

    /// Nothing but what never changes is known any more.
    pub(super) fn doubt(&mut self) {
        self.bare = !matches!(self.known, Known::Uncompressed);
        self.rival = None;
    }

    /// What is to be told to the compressor. Nothing is acknowledged that a rival contradicts and
    /// no transport checksum decides: it is to be said again.
    fn owed(&self) -> Option<Kind> {
        let apart = |rival: &Self| self.sums_tell() && self.known.has_sums_apart(&rival.known);
        let settled = self.rival.as_deref().is_none_or(apart);
        self.owes
            .filter(|owed| settled || !matches!(owed, Kind::Ack(_)))
    }

    pub(super) fn owes(&self) -> bool {
        self.owed().is_some()
    }

    /// What it owes, which is owed no more.
    pub(super) fn take_owed(&mut self) -> Option<Kind> {
        let owed = self.owed()?;
        self.owes = None;
        Some(owed)
    }

    /// Has a packet read that doesn't tell the whole context, and appends what it stands for; by
    /// the context and by its rival, and refused if both find one, and not the same. `all`: what
    /// never changes is wrong if nobody finds any.
    pub(super) fn hear(
        &mut self,
        all: bool,
        settings: &Settings,
        out: &mut Vec<u8>,
        read: impl Fn(&mut Self, &mut Vec<u8>) -> Result<Told, Fault>,
    ) -> Result<(), Fault> {
        let start = out.len();
        let Some(mut rival) = self.rival.take() else {
            let told = read(self, out);
            return self.settle(told, all, settings);
        };
        let mut other = Vec::new();
        let mut own = read(self, out).and_then(|told| self.is_likely(&out[start..], told));
        let theirs = read(&mut rival, &mut other).and_then(|told| rival.is_likely(&other, told));
        match (&own, theirs) {
            (Err(_), Ok(told)) => {
                out.truncate(start);
                out.append(&mut other);
                *self = *rival;
                own = Ok(told);
            }
            (Ok(told), Ok(_)) if out[start..] == other => {
                if told.before.is_none() && !self.known.stays_as(&rival.known) {
                    self.rival = Some(rival);
                }
            }
            (Ok(_), Err(_)) => {}
            (_, theirs) => {
                out.truncate(start);
                let unclear = theirs.is_ok();
                let fault = own.err().unwrap_or(Fault::BadCheck);
                rival.refused(all || unclear, settings);
                self.rival = Some(rival);
                return self.settle(Err(fault), all || unclear, settings);
            }
        }
        self.settle(own, all, settings)
    }

    /// A context that tells anything tells packets, where another one may tell it.
    fn is_likely(&self, packet: &[u8], told: Told) -> Result<Told, Fault> {
        let any = matches!(self.known, Known::Uncompressed);
        (!any || is_packet(packet))
            .then_some(told)
            .ok_or(Fault::Malformed)
    }

    /// Takes note of what came of a packet.
    fn settle(
        &mut self,
        told: Result<Told, Fault>,
        all: bool,
        settings: &Settings,
    ) -> Result<(), Fault> {
        match told {
            Ok(Told { strong, before }) => {
                if let Some(before) = before {
                    self.rival = Some(self.beside(before));
                }
                self.taken(strong, settings.feedback);
                Ok(())
            }
            Err(fault) => {
                self.refused(all, settings);
                Err(fault)
            }
        }
    }

    /// Appends the packet that a compressed header and `rest` behind it stand for.
    pub(super) fn tell(
        &mut self,
        (first, rest): (u8, Cursor<'_>),
        (settings, sums_vouched): (&Settings, bool),
        out: &mut Vec<u8>,
    ) -> Result<Told, Fault> {
        if self.bare {
            return Err(Fault::NoContext);
        }
        let tells = self.sums_tell();
        let sum = |packet: &[u8]| if tells { transport_sum(packet) } else { None };
        let trust = Trust {
            standing: self.standing(),
            few: settings.repeats,
            wrong_sums: match self.wrong_sums {
                _ if sums_vouched => WrongSums::Refused,
                0 => WrongSums::Told,
                _ => WrongSums::Learned,
            },
        };
        let start = out.len();
        // Shorter headers say nothing that stays.
        let before = match first {
            0x80.. => self.known.place(),
            _ => Place::None,
        };
        let found = match &mut self.known {
            Known::Uncompressed => {
                out.push(first);
                out.extend_from_slice(rest.0);
                return Ok(Told {
                    strong: false,
                    before: None,
                });
            }
            Known::Rfc3095(decoder) => decoder.decode(first, rest, trust, out, sum),
            Known::Tcp(decoder) => decoder.decode(first, rest, trust, out, sum),
        }?;
        let wrong = if tells {
            found.wrong_sum
        } else {
            transport_sum(&out[start..]) == Some(false)
        };
        self.wrong_sums = match self.wrong_sums {
            _ if !wrong => 0,
            run => WRONG_SUMS_HABIT.min(run + 1),
        };
        let rarely = self.unacknowledged == Some(ACK_RARELY) && !self.known.rebuilds();
        Ok(Told {
            strong: matches!(found.check, Check::Crc7(_))
                || !self.sure && found.vouched
                || rarely && sum(&out[start..]) == Some(true),
            before: self.known.unless_it_stays(before),
        })
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
    ) -> Result<Told, Fault> {
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
        let stays = self.bare || known.stays_as(&self.known);
        let before = core::mem::replace(&mut self.known, known);
        self.wrong_sums = if wrong { WRONG_SUMS_HABIT } else { 0 };
        Ok(Told {
            strong: true,
            before: (!stays).then_some(before),
        })
    }

    /// A packet was taken; `strong` if by a check that a wrong one hardly passes.
    pub(super) fn taken(&mut self, strong: bool, feedback: bool) {
        if matches!(self.known, Known::Uncompressed) {
            return;
        }
        if strong && !self.sure {
            self.sure = true;
            self.refusals = 0;
        }
        self.bare = false;
        self.failures = 0;
        self.all_asked = false;
        self.refusals <<= 1;
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

    /// A packet was refused: it was damaged, or the context is behind. `all` if what never changes
    /// is wrong.
    pub(super) fn refused(&mut self, all: bool, settings: &Settings) {
        self.refusals = self.refusals << 1 | 1;
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

fn agrees(pieces: &[&[u8]], check: u8) -> Result<(), Fault> {
    let right = crc8(pieces) == check;
    right.then_some(()).ok_or(Fault::BadCheck)
}
