//! The decompressor: a table of contexts, and what each has to tell the compressor.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::beyond::{self, Beyond, Provision};
use super::chain;
use super::check::transport_sum;
use super::context::{
    ACK_RARELY, Entry, Known, NACK_PAUSE, WRONG_SUMS_HABIT, verify, verify_plain,
};
use super::decode::{Check, Decoder, Trust, WrongSums};
use super::feedback::{Feedback, Form, Kind};
use super::lists::{Reader, Tables};
use super::numbers::Cursor;
use super::{LASTING_PACKETS, Profile, Settings, tcp};

/// What a compressed packet held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet, which was appended.
    Packet,
    /// Feedback or padding alone.
    Nothing,
}

/// Why a compressed packet gave none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No compressor makes such a packet.
    Malformed,
    /// A format or a profile that isn't there.
    Unsupported,
    /// Its context isn't known, or not well enough.
    NoContext,
    /// The header that came out isn't the one that went in.
    BadCheck,
    /// Another packet of its context has overtaken it, or it came twice.
    Late,
}

/// Gives packets of one neighbour their headers back.
///
/// Its memory is bounded by the contexts of [`Settings::cids`]. Any octets may be given to it.
#[derive(Debug)]
pub struct Decompressor {
    settings: Settings,
    entries: Vec<Option<Box<Entry>>>,
    /// Contexts that aren't there and were used: the one to tell the compressor of.
    missing: Option<u16>,
    missed: u8,
    /// Flows known beforehand, by the contexts' numbers.
    provisions: Vec<Provision>,
    /// The flow over UDP that has turned out to last, until it is asked for.
    lasting: Option<Provision>,
    /// Packets end with their number, and the last one taken by the contexts' numbers; empty if
    /// they don't.
    counts: Vec<Count>,
    /// The other end compresses no packet whose transport checksum is wrong.
    sums_vouched: bool,
}

/// What is known of the numbers that a context's packets end with.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// That of the last packet taken.
    last: Option<u16>,
    /// Packets in a row that came late.
    late: u8,
}

/// Packets in a row after which those that seem late are believed to be new: more were lost than
/// their numbers tell.
const LATE_MAX: u8 = 8;

impl Count {
    /// How many numbers a packet with this one is ahead of the last one taken; `None` if it comes
    /// late.
    fn ahead(&mut self, number: u16) -> Option<u16> {
        let ahead = self.last.map_or(1, |last| number.wrapping_sub(last));
        let ahead = Some(ahead).filter(|&ahead| ahead as i16 > 0);
        self.late = if ahead.is_some() {
            0
        } else {
            self.late.saturating_add(1)
        };
        ahead
    }
}

impl Decompressor {
    /// A decompressor without contexts.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            entries: (0..=settings.cids.max()).map(|_| None).collect(),
            missing: None,
            missed: 0,
            provisions: Vec::new(),
            lasting: None,
            counts: Vec::new(),
            sums_vouched: false,
        }
    }

    /// Forgets every context.
    pub fn reset(&mut self) {
        let provisions = core::mem::take(&mut self.provisions);
        let mut counts = core::mem::take(&mut self.counts);
        counts.fill(Count::default());
        *self = Self {
            provisions,
            counts,
            sums_vouched: self.sums_vouched,
            ..Self::new(self.settings)
        };
    }

    /// Flows that the compressor takes for known beforehand, and what else it does `beyond` the
    /// standard.
    pub fn agree(&mut self, provisions: &[Provision], beyond: &Beyond) {
        self.sums_vouched = beyond.sums_vouched;
        self.provisions.clear();
        self.provisions.extend_from_slice(provisions);
        // The uncompressed profile's are told whole, whatever came before.
        let contexts = if beyond.counts {
            self.entries.len() - 1
        } else {
            0
        };
        self.counts.resize(contexts, Count::default());
    }

    /// Appends the packet that `line` stands for; `hear` gets each feedback element's data, which
    /// is for the compressor at this end. Nothing is appended on a fault.
    pub fn decompress(
        &mut self,
        line: &[u8],
        out: &mut Vec<u8>,
        mut hear: impl FnMut(&[u8]),
    ) -> Result<Received, Fault> {
        let mut rest = Cursor(line);
        loop {
            match rest.0.first() {
                None => return Ok(Received::Nothing),
                // Padding.
                Some(0xe0) => rest.0 = &rest.0[1..],
                Some(0xf0..=0xf7) => hear(Feedback::take(&mut rest).ok_or(Fault::Malformed)?),
                Some(_) => break,
            }
        }
        let mut whole = rest.0;
        let (number, first) = self.read_cid(&mut rest).ok_or(Fault::Malformed)?;
        if number > self.settings.cids.max() {
            return Err(Fault::NoContext);
        }
        let mut last = None;
        if let Some(count) = self.counts.get_mut(usize::from(number)) {
            let (packet, own) = whole.split_last_chunk().ok_or(Fault::Malformed)?;
            let (before, _) = rest.0.split_last_chunk::<2>().ok_or(Fault::Malformed)?;
            let own = u16::from_be_bytes(*own);
            whole = packet;
            rest.0 = before;
            let Some(ahead) = count.ahead(own) else {
                return Err(self.late(number));
            };
            last = Some(own);
            // A change is said in so many packets where no checksum covers all that follows from
            // it, in half as many elsewhere. Without a way back nobody could be asked.
            if self.settings.feedback && ahead > 2 * u16::from(self.settings.repeats) {
                self.doubt(number);
            }
        }
        match first {
            0xfc | 0xfd => self.take_ir(number, first & 1 != 0, whole, rest, out),
            0xf8 => self.take_ir_dyn(number, whole, rest, out),
            0xfa | 0xfb | ..0xf0 => self.take_compressed(number, first, rest, out),
            // Segments of compressed packets, and types that nobody has taken.
            _ => Err(Fault::Unsupported),
        }?;
        if let Some(count) = self.counts.get_mut(usize::from(number)) {
            count.last = last;
        }
        self.count(number);
        Ok(Received::Packet)
    }

    /// Takes note of a late packet. Not even its transport checksum could vouch for it: that says
    /// nothing of an IPv4 header's identification. If there is nothing but late ones any more, the
    /// context has to be said anew.
    fn late(&mut self, number: u16) -> Fault {
        let place = usize::from(number);
        if self.counts[place].late < LATE_MAX {
            return Fault::Late;
        }
        self.counts[place] = Count::default();
        self.entries[place] = None;
        self.missed = 0;
        self.miss(number)
    }

    /// So many packets of a context were lost that all that said a change may have been among
    /// them: what changes has to be said anew. A transport checksum wouldn't do. It says nothing of
    /// an IPv4 identification, and low bits of timestamps and sequence number may be wrong in a way
    /// that leaves TCP's sum as it is.
    fn doubt(&mut self, number: u16) {
        if let Some(Some(entry)) = self.entries.get_mut(usize::from(number)) {
            entry.bare = !matches!(entry.known, Known::Uncompressed);
        }
    }

    /// A packet of a context was taken.
    fn count(&mut self, number: u16) {
        let Some(Some(entry)) = self.entries.get_mut(usize::from(number)) else {
            return;
        };
        if entry.packets == LASTING_PACKETS {
            return;
        }
        entry.packets += 1;
        if let (LASTING_PACKETS, Known::Rfc3095(decoder)) = (entry.packets, &entry.known) {
            let known = decoder.known();
            self.lasting = Provision::of(known.profile, &known.fields).or(self.lasting);
        }
    }

    /// The flow over UDP that has become one that lasts since this was asked last.
    pub const fn take_lasting(&mut self) -> Option<Provision> {
        self.lasting.take()
    }

    /// The context's number and the first octet that isn't it.
    fn read_cid(&self, rest: &mut Cursor<'_>) -> Option<(u16, u8)> {
        let first = rest.u8()?;
        if self.settings.cids.is_large() {
            // Two octets at most.
            let number = match rest.0.first()? {
                0..0xc0 => rest.sdvl()?.value,
                _ => return None,
            };
            return Some((number as u16, first));
        }
        if first >> 4 == 0x0e {
            return Some((u16::from(first & 0x0f), rest.u8()?));
        }
        Some((0, first))
    }

    /// What the context knows, if it is there.
    fn known(&self, number: u16) -> Option<&Known> {
        let entry = self.entries.get(usize::from(number))?;
        entry.as_ref().map(|entry| &entry.known)
    }

    /// IR (RFC 3095 section 5.2.3).
    fn take_ir(
        &mut self,
        number: u16,
        dynamic: bool,
        whole: &[u8],
        mut rest: Cursor<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let (kind, check) = read_head(&mut rest)?;
        let chain = rest;
        let known = match kind.profile {
            _ if kind.provisioned => return Err(Fault::Unsupported),
            Profile::Uncompressed => Known::Uncompressed,
            Profile::Tcp if dynamic => {
                let before = match self.known(number) {
                    Some(Known::Tcp(decoder)) => Some(&**decoder),
                    _ => None,
                };
                let decoder = tcp::Decoder::read_whole(before, &mut rest);
                let decoder = decoder.ok_or(Fault::Unsupported)?;
                Known::Tcp(Box::new(decoder))
            }
            // A copy of another context.
            Profile::Tcp => return Err(Fault::Unsupported),
            profile => {
                let known = chain::Known::read_static(profile, &mut rest);
                let mut known = known.ok_or(Fault::Unsupported)?;
                known.rebuilds = kind.rebuilds;
                let nothing = Tables::default();
                let mut tables = &nothing;
                if let Some(Known::Rfc3095(decoder)) = self.known(number)
                    && decoder.known().is_of(&known)
                {
                    known.stays(decoder.known());
                    tables = decoder.tables();
                }
                let mut lists = Reader::new(tables);
                if dynamic {
                    let read = known.read_dynamic(&mut rest, &mut lists);
                    read.ok_or(Fault::Unsupported)?;
                }
                Known::Rfc3095(Box::new(Decoder::new(known, lists.into_tables())))
            }
        };
        if matches!(known, Known::Uncompressed) {
            verify_plain(whole, chain, check)?;
        } else {
            verify(whole, chain, rest, &[], check)?;
        }
        if !dynamic && !matches!(known, Known::Uncompressed) {
            let mut entry = Entry::new(known);
            entry.bare = true;
            let slot = &mut self.entries[usize::from(number)];
            if slot.as_ref().is_some_and(|old| old.is_of(&entry)) {
                // What changes stays as it was (RFC 4815 section 6.3).
                return Err(Fault::NoContext);
            }
            entry.unacknowledged = slot.as_ref().and_then(|old| old.unacknowledged);
            *slot = Some(Box::new(entry));
            // The packet's own headers can't be told without what changes.
            return Err(Fault::NoContext);
        }
        self.install(number, known, rest.0, out)
    }

    /// IR-DYN (section 5.2.4).
    fn take_ir_dyn(
        &mut self,
        number: u16,
        whole: &[u8],
        mut rest: Cursor<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let (kind, check) = read_head(&mut rest)?;
        if kind.provisioned {
            let provision = self.provisions.get(usize::from(number)).copied();
            let provision = provision.ok_or(Fault::NoContext)?;
            return self.take_provisioned(number, kind, &provision, (whole, rest, check), out);
        }
        let Some(entry) = &mut self.entries[usize::from(number)] else {
            return Err(self.miss(number));
        };
        let take = (&self.settings, self.sums_vouched);
        let told = entry.retell(kind, (whole, rest, check), take, out);
        if told.is_err() {
            // Perhaps what never changes is another flow's. Where nobody could be asked, damage is
            // likelier.
            let all = self.settings.feedback || kind.is_private();
            entry.refused(all, &self.settings);
        }
        told
    }

    /// IR-DYN of a flow that is known beforehand: a context from nothing but what changes, and the
    /// source of RTP.
    fn take_provisioned(
        &mut self,
        number: u16,
        kind: beyond::Kind,
        provision: &Provision,
        (whole, mut rest, check): (&[u8], Cursor<'_>, u8),
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let chain = rest;
        let mut known = chain::Known::new(kind.profile, provision.fields());
        known.rebuilds = kind.rebuilds;
        known
            .read_unprovisioned(&mut rest)
            .ok_or(Fault::Malformed)?;
        let nothing = Tables::default();
        let mut lists = Reader::new(&nothing);
        let read = known.read_dynamic(&mut rest, &mut lists);
        read.ok_or(Fault::Unsupported)?;
        let mut unsaid = Vec::new();
        known.put_static(&mut unsaid);
        verify(whole, chain, rest, &unsaid, check)?;
        self.install(
            number,
            Known::Rfc3095(Box::new(Decoder::new(known, lists.into_tables()))),
            rest.0,
            out,
        )
    }

    /// A context that a packet has told whole, and that packet.
    fn install(
        &mut self,
        number: u16,
        known: Known,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let uncompressed = matches!(known, Known::Uncompressed);
        let start = out.len();
        known.emit(payload, out)?;
        let wrong = !uncompressed && transport_sum(&out[start..]) == Some(false);
        if wrong && self.sums_vouched {
            out.truncate(start);
            return Err(self.disbelieve(number));
        }
        let mut entry = Entry::new(known);
        // All that it rests on was said, and checked: it may have been wrong from the beginning.
        if wrong {
            entry.wrong_sums = WRONG_SUMS_HABIT;
        }
        let slot = &mut self.entries[usize::from(number)];
        if let Some(old) = slot {
            // Who begins to tell all waits for an acknowledgement.
            entry.unacknowledged = old.unacknowledged.filter(|_| old.told_whole);
            // Its short checks may fit both flows: who means this one says it again.
            let replaces = entry.known.replaces(&old.known, entry.sums_tell());
            entry.usurps = (replaces && self.settings.feedback).then_some(0);
        }
        if !uncompressed {
            entry.taken(true, self.settings.feedback);
        }
        entry.told_whole = true;
        *slot = Some(Box::new(entry));
        Ok(())
    }

    /// Takes note of a packet that tells a context whole, and that its compressor never sent so: it
    /// was damaged or forged.
    fn disbelieve(&mut self, number: u16) -> Fault {
        if let Some(Some(entry)) = self.entries.get_mut(usize::from(number)) {
            entry.refused(false, &self.settings);
        } else {
            self.miss(number);
        }
        Fault::BadCheck
    }

    fn take_compressed(
        &mut self,
        number: u16,
        first: u8,
        rest: Cursor<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let feedback = self.settings.feedback;
        let Some(entry) = &mut self.entries[usize::from(number)] else {
            return Err(self.miss(number));
        };
        if entry.bare {
            entry.refused(false, &self.settings);
            return Err(Fault::NoContext);
        }
        let tells = entry.sums_tell();
        let sum = |packet: &[u8]| if tells { transport_sum(packet) } else { None };
        let trust = Trust {
            standing: entry.standing(),
            few: self.settings.repeats,
            wrong_sums: match entry.wrong_sums {
                _ if self.sums_vouched => WrongSums::Refused,
                0 => WrongSums::Told,
                _ => WrongSums::Learned,
            },
        };
        let start = out.len();
        let decoded = match &mut entry.known {
            Known::Uncompressed => {
                out.push(first);
                out.extend_from_slice(rest.0);
                return Ok(());
            }
            Known::Rfc3095(decoder) => decoder.decode(first, rest, trust, out, sum),
            Known::Tcp(decoder) => decoder.decode(first, rest, trust, out, sum),
        };
        match decoded {
            Ok(found) => {
                let wrong = if tells {
                    found.wrong_sum
                } else {
                    transport_sum(&out[start..]) == Some(false)
                };
                entry.wrong_sums = match entry.wrong_sums {
                    _ if !wrong => 0,
                    run => WRONG_SUMS_HABIT.min(run + 1),
                };
                let rarely = entry.unacknowledged == Some(ACK_RARELY) && !entry.known.rebuilds();
                let strong = matches!(found.check, Check::Crc7(_))
                    || !entry.sure && found.vouched
                    || rarely && sum(&out[start..]) == Some(true);
                entry.taken(strong, feedback);
                Ok(())
            }
            Err(fault) => {
                // Of another profile's context not even the form fits.
                entry.refused(false, &self.settings);
                Err(fault)
            }
        }
    }

    /// Takes note of a packet whose context isn't there.
    fn miss(&mut self, number: u16) -> Fault {
        if self.settings.feedback && self.missed == 0 {
            self.missing = Some(number);
        }
        self.missed = (self.missed + 1) % NACK_PAUSE;
        Fault::NoContext
    }

    /// Whether there is something to tell the compressor.
    pub fn owes_feedback(&self) -> bool {
        self.missing.is_some() || self.entries.iter().flatten().any(|entry| entry.owes())
    }

    /// Appends one feedback element if there is something to tell: the one to put ahead of a
    /// packet that goes the other way, or a packet of its own.
    pub fn put_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        let cids = self.settings.cids;
        if let Some(number) = self.missing.take() {
            let cid = cids.cid(number);
            let kind = Kind::StaticNack;
            Feedback { cid, kind }.put(None, Form::Rfc3095, out);
            return true;
        }
        let entries = self.entries.iter_mut().enumerate();
        let mut owing = entries.filter_map(|(number, entry)| {
            let entry = entry.as_mut()?;
            Some((number, entry.take_owed()?, &entry.known))
        });
        let Some((number, kind, known)) = owing.next() else {
            return false;
        };
        let cid = cids.cid(number as u16);
        Feedback { cid, kind }.put(known.sequence(), known.form(), out);
        true
    }

    /// Contexts in use.
    pub fn contexts(&self) -> usize {
        self.entries.iter().flatten().count()
    }
}

/// The profile and the check of IR and IR-DYN.
fn read_head(rest: &mut Cursor<'_>) -> Result<(beyond::Kind, u8), Fault> {
    let number = rest.u8().ok_or(Fault::Malformed)?;
    let check = rest.u8().ok_or(Fault::Malformed)?;
    let kind = beyond::Kind::numbered(number).ok_or(Fault::Unsupported)?;
    Ok((kind, check))
}
