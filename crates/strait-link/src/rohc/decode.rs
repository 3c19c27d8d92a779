//! One context of a decompressor: compressed headers back into whole ones.

use alloc::vec::Vec;

use strait_wire::ip::put_udp_checksum;

use super::Profile;
use super::chain::{Known, mode_bits};
use super::check::Sums;
use super::decompress::Fault;
use super::fields::{Fields, Spans};
use super::lists::{Of, Reader, Tables};
use super::numbers::{Bits, Cursor, Number};

/// The check of a compressed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Crc3(u8),
    Crc7(u8),
}

/// How far a context is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The last packet was taken.
    Sure,
    /// Packets were refused since, but not so many that the context is to blame.
    Shaken,
    /// The context is to blame, or nothing but what never changes is known.
    Behind,
}

/// What speaks for a header that came out with the right check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    pub(super) check: Check,
    /// How many packets after the last one taken it seems to be.
    pub(super) step: u32,
    /// Whether the packet's transport checksum is right, if it has one that tells.
    pub(super) sum: Option<bool>,
    /// The transport checksum covers whatever a context can lag behind in.
    pub(super) covered: bool,
}

impl Standing {}

/// What becomes of a header with the right check and a wrong transport checksum, if nothing better
/// is found and it seems to be the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrongSums {
    /// It is wrong: the other end compresses no packet that had a wrong one.
    Refused,
    /// It is told, as the packet may have been so from the beginning, and nothing is learned of it.
    Told,
    /// It is told and learned of: the packet before was like that, too.
    Learned,
}

/// What a decoder needs to know of its context's past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    pub(super) standing: Standing,
    /// So many packets may be missed without any change being so.
    pub(super) few: u8,
    pub(super) wrong_sums: WrongSums,
}

impl Trust {
    /// Whether a header is believed at first sight. A wrong transport checksum speaks against it,
    /// but isn't the last word.
    pub(super) fn believes(self, it: Evidence) -> bool {
        let near = (1..=u32::from(self.few)).contains(&it.step);
        match (self.standing, it.check) {
            (Standing::Sure, _) | (_, Check::Crc7(_)) => it.sum != Some(false),
            (Standing::Shaken, _) if near => it.sum != Some(false),
            _ => it.covered && it.sum == Some(true),
        }
    }

    /// Whether a header is believed although its transport checksum is wrong.
    pub(super) fn insists(self, it: Evidence) -> bool {
        let next = match self.wrong_sums {
            WrongSums::Refused => return false,
            WrongSums::Told => 1,
            // Nothing was learned of the one before.
            WrongSums::Learned => 2,
        };
        self.standing == Standing::Sure && it.step == next
    }
}

/// How a header was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) check: Check,
    /// Its transport checksum is wrong.
    pub(super) wrong_sum: bool,
    /// Its transport checksum is right, and covers whatever a context can lag behind in.
    pub(super) vouched: bool,
}

impl Found {
    pub(super) fn of(it: Evidence) -> Self {
        Self {
            check: it.check,
            wrong_sum: it.sum == Some(false),
            vouched: it.covered && it.sum == Some(true),
        }
    }
}

/// What a compressed header said.
#[derive(Clone, Copy, Debug)]
struct Said {
    sequence: Bits,
    timestamp: Bits,
    id: Bits,
    /// Of an outer header's identification, beside that of the inner one.
    outer_id: Bits,
    marker: bool,
    /// The timestamp's bits are of its scaled value.
    scaled: bool,
    /// So many rounds of those bits further on than they say.
    rounds: u32,
    /// What it said beside sequence number, timestamp and identification may be for this packet
    /// only.
    once: bool,
    check: Check,
}

/// Which field the bits of a base header and of its extension belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Main {
    Timestamp,
    Id,
}

impl Said {
    const fn new(sequence: Bits, check: Check) -> Self {
        Self {
            sequence,
            timestamp: Bits { value: 0, width: 0 },
            id: Bits { value: 0, width: 0 },
            outer_id: Bits { value: 0, width: 0 },
            marker: false,
            scaled: true,
            rounds: 0,
            once: false,
            check,
        }
    }

    /// The same with the scaled timestamps that have the same bits, after a silence longer than
    /// they can tell.
    fn further_timestamps(self) -> impl Iterator<Item = Self> {
        let short = (1..=SHORT_TIMESTAMP_BITS).contains(&self.timestamp.width);
        let tells = self.scaled && short;
        let rounds = if tells { ROUNDS_MAX } else { 0 };
        (1..=rounds).map(move |rounds| Self { rounds, ..self })
    }

    /// The sequence numbers further on than `sequence` that have the same bits, after a loss of
    /// more packets than they can tell.
    fn further_sequences(self, sequence: u32, kind: Number) -> impl Iterator<Item = u32> {
        let tells = self.sequence.width == ROUND_BITS;
        let rounds = if tells { ROUNDS_MAX } else { 0 };
        (1..=rounds).map(move |round| sequence.wrapping_add(round << ROUND_BITS) & kind.mask())
    }

    const fn push(&mut self, main: Main, value: u32, width: u8) {
        match main {
            Main::Timestamp => self.timestamp.push(value, width),
            Main::Id => self.id.push(value, width),
        }
    }
}

/// Reads the compressed header at the front of `rest`; `first` is its first octet, which lies
/// before the context's number. `known` takes what extensions say of flags and strides.
fn read(
    (known, lists): (&mut Known, &mut Reader<'_>),
    first: u8,
    rest: &mut Cursor<'_>,
) -> Result<Said, Fault> {
    let truncated = Fault::Malformed;
    let rtp = known.profile == Profile::Rtp;
    let counts = known.counts_ids();
    if first & 0x80 == 0 {
        let sequence = Bits::new(u32::from(first >> 3), 4);
        return Ok(Said::new(sequence, Check::Crc3(first & 7)));
    }
    let low = u32::from(first);
    let second = rest.u8().ok_or(truncated)?;
    if first & 0xc0 == 0x80 {
        return read_uo1((known, lists), low, second, rest);
    }
    if first & 0xe0 != 0xc0 {
        return Err(Fault::Malformed);
    }
    // UOR-2.
    if !rtp {
        let mut said = Said::new(Bits::new(low, 5), Check::Crc7(second & 0x7f));
        if second & 0x80 != 0 {
            read_extension((known, lists), &mut said, Main::Id, Main::Id, rest)?;
        }
        return Ok(said);
    }
    let third = rest.u8().ok_or(truncated)?;
    let sequence = Bits::new(u32::from(second), 6);
    let mut said = Said::new(sequence, Check::Crc7(third & 0x7f));
    said.marker = second & 0x40 != 0;
    let counts = if third & 0x80 != 0 {
        counts_ids_by(known, rest)
    } else {
        counts
    };
    let (main, other) = match (counts, second & 0x80 != 0) {
        (true, true) => (Main::Timestamp, Main::Id),
        (true, false) => (Main::Id, Main::Timestamp),
        (false, _) => (Main::Timestamp, Main::Timestamp),
    };
    said.push(main, low, 5);
    if !counts {
        said.push(main, u32::from(second >> 7), 1);
    }
    if third & 0x80 != 0 {
        read_extension((known, lists), &mut said, main, other, rest)?;
    }
    Ok(said)
}

/// Whether identifications count behind the extension at the front of `rest`: extension 3 may say
/// it anew, and what is ahead of it is read by that (section 5.7.5.1).
fn counts_ids_by(known: &Known, rest: &Cursor<'_>) -> bool {
    let mut known = *known;
    if let [first, flags, ..] = *rest.0
        && first & 0xc2 == 0xc2
    {
        known.id_random = flags & 2 != 0;
        if let (1, Some(outer_flags)) = (flags & 1, rest.0.get(2)) {
            known.outer_ids.random = outer_flags & 2 != 0;
        }
    }
    known.counts_ids()
}

/// UO-1 and its kinds.
fn read_uo1(
    (known, lists): (&mut Known, &mut Reader<'_>),
    low: u32,
    second: u8,
    rest: &mut Cursor<'_>,
) -> Result<Said, Fault> {
    let check = Check::Crc3(second & 7);
    if known.profile != Profile::Rtp {
        if !known.counts_ids() {
            return Err(Fault::Malformed);
        }
        let mut said = Said::new(Bits::new(u32::from(second >> 3), 5), check);
        said.push(Main::Id, low, 6);
        return Ok(said);
    }
    let mut said = Said::new(Bits::new(u32::from(second >> 3), 4), check);
    let high = second & 0x80 != 0;
    if !known.counts_ids() {
        said.marker = high;
        said.push(Main::Timestamp, low, 6);
    } else if low & 0x20 != 0 {
        said.marker = high;
        said.push(Main::Timestamp, low, 5);
    } else {
        said.push(Main::Id, low, 5);
        if high {
            // What it says of other fields is for this packet only (section 5.7.3), but others
            // take it for said for good.
            said.once = true;
            read_extension((known, lists), &mut said, Main::Id, Main::Timestamp, rest)?;
        }
    }
    Ok(said)
}

/// Extensions 0 to 3 (section 5.7.5 and 5.11.5). `main` is the field of `+T`, `other` that of `-T`.
fn read_extension(
    (known, lists): (&mut Known, &mut Reader<'_>),
    said: &mut Said,
    main: Main,
    other: Main,
    rest: &mut Cursor<'_>,
) -> Result<(), Fault> {
    let first = rest.u8().ok_or(Fault::Malformed)?;
    let kind = first >> 6;
    if kind == 3 {
        return read_extension_3((known, lists), said, first, rest);
    }
    said.sequence.push(u32::from(first >> 3), 3);
    if kind == 2 && known.profile != Profile::Rtp {
        // The last octet alone is of the inner header.
        let octet = rest.u8().ok_or(Fault::Malformed)?;
        said.outer_id.push(u32::from(first), 3);
        said.outer_id.push(u32::from(octet), 8);
        let octet = rest.u8().ok_or(Fault::Malformed)?;
        said.id.push(u32::from(octet), 8);
        return Ok(());
    }
    said.push(main, u32::from(first), 3);
    for field in [(2, main), (1, other)] {
        if kind >= field.0 {
            let octet = rest.u8().ok_or(Fault::Malformed)?;
            let field = if known.profile == Profile::Rtp {
                field.1
            } else {
                main
            };
            said.push(field, u32::from(octet), 8);
        }
    }
    Ok(())
}

fn read_extension_3(
    (known, lists): (&mut Known, &mut Reader<'_>),
    said: &mut Said,
    flags: u8,
    rest: &mut Cursor<'_>,
) -> Result<(), Fault> {
    let rtp = known.profile == Profile::Rtp;
    let bit = |octet: u8, at: u8| octet & (1 << at) != 0;
    let truncated = Fault::Malformed;
    let ip = bit(flags, 1);
    let ip_flags = if ip { rest.u8().ok_or(truncated)? } else { 0 };
    let second = if rtp { bit(ip_flags, 0) } else { bit(flags, 0) };
    let outer_flags = if second {
        rest.u8().ok_or(truncated)?
    } else {
        0
    };
    if bit(flags, 5) {
        let octet = rest.u8().ok_or(truncated)?;
        said.sequence.push(u32::from(octet), 8);
    }
    if rtp {
        said.scaled = bit(flags, 3);
        if bit(flags, 4) {
            let more = rest.sdvl().ok_or(truncated)?;
            said.timestamp.push(more.value, more.width);
        }
    } else {
        known.optimistic = flags >> 3 & 3 != mode_bits(false);
    }
    if ip {
        if !known.fields.v6 {
            known.id_network_order = bit(ip_flags, 2);
            known.id_random = bit(ip_flags, 1);
            known.id_static &= !known.id_random;
        }
        read_ip_fields((&mut known.fields, Of::Inner), ip_flags, lists, rest)?;
    }
    if bit(flags, 2) {
        let offset = rest.u16().ok_or(truncated)?;
        said.id.push(u32::from(offset), 16);
    }
    if second {
        let mut outer = known.fields.outer().ok_or(truncated)?;
        if !outer.v6 {
            known.outer_ids.network_order = bit(outer_flags, 2);
            known.outer_ids.random = bit(outer_flags, 1);
            known.outer_ids.fixed &= !known.outer_ids.random;
        }
        read_ip_fields((&mut outer, Of::Outer), outer_flags, lists, rest)?;
        known.fields = known.fields.behind(&outer);
        if bit(outer_flags, 0) {
            let offset = rest.u16().ok_or(truncated)?;
            said.outer_id.push(u32::from(offset), 16);
        }
    }
    if rtp && bit(flags, 0) {
        read_rtp_flags(known, said, rest)?;
    }
    Ok(())
}

/// The fields of one IP header that its flags in extension 3 announce.
fn read_ip_fields(
    (fields, of): (&mut Fields, Of),
    flags: u8,
    lists: &mut Reader<'_>,
    rest: &mut Cursor<'_>,
) -> Result<(), Fault> {
    let bit = |at: u8| flags & (1 << at) != 0;
    if !fields.v6 {
        fields.dont_fragment = bit(5);
    }
    if bit(7) {
        fields.traffic_class = rest.u8().ok_or(Fault::Malformed)?;
    }
    if bit(6) {
        fields.hop_limit = rest.u8().ok_or(Fault::Malformed)?;
    }
    if bit(4) || bit(3) && !fields.v6 {
        // Another protocol, or a list behind an IPv4 header.
        return Err(Fault::Unsupported);
    }
    if bit(3) {
        fields.envelope.list = lists.read(of, rest).ok_or(Fault::Unsupported)?;
    }
    Ok(())
}

fn read_rtp_flags(known: &mut Known, said: &mut Said, rest: &mut Cursor<'_>) -> Result<(), Fault> {
    let truncated = Fault::Malformed;
    let flags = rest.u8().ok_or(truncated)?;
    let bit = |at: u8| flags & (1 << at) != 0;
    known.optimistic = flags >> 6 != mode_bits(false);
    said.marker = bit(4);
    known.fields.extension = bit(3);
    // Without its octet there is no padding (RFC 4815 section 6.4).
    known.fields.padding = false;
    if bit(5) {
        let octet = rest.u8().ok_or(truncated)?;
        known.fields.padding = octet & 0x80 != 0;
        known.fields.payload_type = octet & 0x7f;
    }
    if bit(2) {
        return Err(Fault::Unsupported);
    }
    if bit(1) {
        known.stride = rest.sdvl().ok_or(truncated)?.value;
    }
    if bit(0) {
        rest.sdvl().ok_or(truncated)?;
    }
    Ok(())
}

/// The decompressing end of one context.
#[derive(Clone, Debug)]
pub(super) struct Decoder {
    known: Known,
    /// The checks over what stays of the last header, once there was one.
    sums: Option<Sums>,
    /// What was known before an extension that may have been for its packet only.
    before: Option<Known>,
    /// What its lists of extension headers are said by.
    tables: Tables,
}

/// Widths of sequence numbers that are tried again one round further on, when the check says that
/// more packets were lost than they can tell.
const ROUND_BITS: u8 = 4;
/// The widest scaled timestamps of which further rounds are tried: those of UO-1.
const SHORT_TIMESTAMP_BITS: u8 = 6;
/// Rounds that are tried: with 16 sequence numbers each, this many packets in a row may be lost.
pub(super) const ROUNDS_MAX: u32 = 16;

impl Decoder {
    pub(super) const fn new(known: Known, tables: Tables) -> Self {
        Self {
            known,
            sums: None,
            before: None,
            tables,
        }
    }

    pub(super) const fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(super) const fn known(&self) -> &Known {
        &self.known
    }

    /// Appends the packet of the compressed header at the front of `rest`, and says how it was
    /// found. `sum` judges the transport checksum of a whole packet, which is how a context after
    /// a long gap is found again.
    pub(super) fn decode(
        &mut self,
        first: u8,
        rest: Cursor<'_>,
        trust: Trust,
        out: &mut Vec<u8>,
        sum: impl Fn(&[u8]) -> Option<bool>,
    ) -> Result<Found, Fault> {
        let found = self.decode_by(first, rest, trust, out, &sum);
        let (Err(fault), Some(mut known)) = (found, self.before) else {
            return found;
        };
        known.fields = known.fields.at(&self.known.fields);
        let mut other = Self::new(known, self.tables.clone());
        let found = other.decode_by(first, rest, trust, out, &sum);
        if found.is_ok() {
            *self = other;
        }
        found.map_err(|_| fault)
    }

    /// The same by what is taken to be known.
    fn decode_by(
        &mut self,
        first: u8,
        mut rest: Cursor<'_>,
        trust: Trust,
        out: &mut Vec<u8>,
        sum: &impl Fn(&[u8]) -> Option<bool>,
    ) -> Result<Found, Fault> {
        let mut known = self.known;
        let mut lists = Reader::new(&self.tables);
        let said = read((&mut known, &mut lists), first, &mut rest)?;
        let news = lists.into_news();
        if let Some(id) = known.random_outer_id() {
            *id = rest.u16().ok_or(Fault::Malformed)?;
        }
        if !known.fields.v6 && known.id_random {
            known.fields.id = rest.u16().ok_or(Fault::Malformed)?;
        }
        if known.carries_checksum() {
            known.fields.checksum = rest.u16().ok_or(Fault::Malformed)?;
        }
        let found = self.find((known, said), rest.0, trust, out, sum)?;
        if let Some(news) = news {
            self.tables = news;
        }
        Ok(found)
    }

    /// Finds the header that `said` stands for, and appends its packet.
    fn find(
        &mut self,
        (known, said): (Known, Said),
        payload: &[u8],
        trust: Trust,
        out: &mut Vec<u8>,
        sum: &impl Fn(&[u8]) -> Option<bool>,
    ) -> Result<Found, Fault> {
        // A checksum that was rebuilt is always right.
        let rebuilds = known.rebuilds;
        let kind = known.profile.sequence_kind();
        let before = (self.known, self.sums);
        let Fields {
            sequence: last,
            padding,
            ..
        } = self.known.fields;
        let sequence = kind.decode(last, said.sequence);
        let step = sequence.wrapping_sub(last) & kind.mask();
        // What IPv4 has beside addresses is in no transport checksum.
        let covered = known.fields.v6;
        let evidence = |packet: &[u8]| Evidence {
            check: said.check,
            step,
            sum: if rebuilds { None } else { sum(packet) },
            covered,
        };
        let mut attempt = |known, said: &Said, sequence, enough: &dyn Fn(Evidence) -> bool| {
            let judge = |packet: &[u8]| {
                let it = evidence(packet);
                enough(it).then(|| Found::of(it))
            };
            self.attempt((known, said, sequence), payload, out, judge)
        };
        let believes = |it| trust.believes(it);
        if let Some(found) = attempt(known, &said, sequence, &believes)? {
            return Ok(found);
        }
        // Others leave the padding as it was where extension 3 says nothing of it.
        let mut padded = known;
        padded.fields.padding = padding;
        if padded != known
            && let Some(found) = attempt(padded, &said, sequence, &believes)?
        {
            return Ok(found);
        }
        if trust.standing != Standing::Behind {
            // Only the transport checksum makes a guess good enough.
            let right = |it: Evidence| it.sum == Some(true);
            for said in said.further_timestamps() {
                if let Some(found) = attempt(known, &said, sequence, &right)? {
                    return Ok(found);
                }
            }
            // The transport checksum judges RTP's own number, and nothing that follows from one of
            // the compressor's: neither that nor the IPv4 identification is in what it covers.
            let judges = known.profile == Profile::Rtp || !known.follows_ids();
            let further = said.further_sequences(sequence, kind);
            for sequence in further.take_while(|_| judges) {
                if let Some(found) = attempt(known, &said, sequence, &right)? {
                    return Ok(found);
                }
            }
        }
        let insists = |it| trust.insists(it);
        let found = attempt(known, &said, sequence, &insists)?;
        if trust.wrong_sums == WrongSums::Told {
            (self.known, self.sums) = before;
        }
        found.ok_or(Fault::BadCheck)
    }

    /// Takes note of the packet that was told; see [`Said::once`].
    fn take(&mut self, known: Known, sums: Sums, once: bool) {
        let before = core::mem::replace(&mut self.known, known);
        self.sums = Some(sums);
        if once {
            self.before = Some(before);
        }
    }

    /// Appends the packet with this sequence number, and takes it, if the check is right and
    /// `judge` is content with it.
    fn attempt(
        &mut self,
        (mut known, said, sequence): (Known, &Said, u32),
        payload: &[u8],
        out: &mut Vec<u8>,
        judge: impl Fn(&[u8]) -> Option<Found>,
    ) -> Result<Option<Found>, Fault> {
        let before = self.known.fields;
        known.fields.sequence = sequence;
        if known.follows_ids() {
            let mut offset = u32::from(known.id_offset(&before));
            if said.id.width > 0 {
                offset = Number::IdOffset.decode(offset, said.id);
            }
            known.follow_id(offset as u16);
        }
        if let Some(offset) = known.outer_offset(&before) {
            let offset = match said.outer_id.width {
                0 => offset,
                _ => Number::IdOffset.decode(offset.into(), said.outer_id) as u16,
            };
            known.follow_outer_id(offset);
        }
        if known.profile == Profile::Rtp {
            known.fields.marker = said.marker;
            known.fields.timestamp = timestamp(&known, &self.known, said);
        }
        let start = out.len();
        if !known.fields.emit(known.profile, payload.len(), out) {
            return Err(Fault::Malformed);
        }
        let end = out.len();
        if known.rebuilds {
            // The header's own check covers it.
            out.extend_from_slice(payload);
            put_udp_checksum(&mut out[start..]);
        }
        let spans = Spans::new(known.profile, &known.fields);
        let header = &out[start..end];
        let kept = self.sums.filter(|_| known.fields.stays_as(&before));
        let sums = kept.unwrap_or_else(|| Sums::of(header, spans));
        let right = match said.check {
            Check::Crc3(check) => sums.crc3(header, spans) == check,
            Check::Crc7(check) => sums.crc7(header, spans) == check,
        };
        if right {
            out.truncate(end);
            out.extend_from_slice(payload);
            if let Some(found) = judge(&out[start..]) {
                self.take(known, sums, said.once);
                return Ok(Some(found));
            }
        }
        out.truncate(start);
        Ok(None)
    }
}

/// The timestamp of the packet with `known.fields.sequence` (section 4.5.3).
fn timestamp(known: &Known, before: &Known, said: &Said) -> u32 {
    let last = before.fields.timestamp;
    let stride = known.stride;
    if said.timestamp.width == 0 {
        let steps = known.fields.sequence.wrapping_sub(before.fields.sequence) as u16;
        let steps = i32::from(steps as i16) as u32;
        return last.wrapping_add(steps.wrapping_mul(stride));
    }
    if stride == 0 || !said.scaled {
        return Number::Timestamp.decode(last, said.timestamp);
    }
    let scaled = Number::Timestamp.decode(last / stride, said.timestamp);
    let scaled = scaled.wrapping_add(said.rounds.unbounded_shl(said.timestamp.width.into()));
    scaled.wrapping_mul(stride).wrapping_add(last % stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An RTP context over IPv4 without UDP checksums, and the fields of its next packet.
    fn context() -> (Decoder, Known) {
        let fields = Fields {
            hop_limit: 64,
            protocol: 17,
            id: 100,
            ports: [40_000, 5004],
            padding: true,
            payload_type: 96,
            sequence: 7,
            timestamp: 160_000,
            ..Fields::default()
        };
        let mut known = Known::new(Profile::Rtp, fields);
        known.stride = 160;
        let mut next = known;
        next.fields.sequence = 8;
        next.fields.timestamp += 160;
        next.fields.id = 101;
        (Decoder::new(known, Tables::default()), next)
    }

    fn header(known: &Known) -> Vec<u8> {
        let mut header = Vec::new();
        assert!(known.fields.emit(Profile::Rtp, 0, &mut header));
        header
    }

    fn sums(known: &Known) -> (u8, u8) {
        let header = header(known);
        let spans = Spans::new(Profile::Rtp, &known.fields);
        let sums = Sums::of(&header, spans);
        (sums.crc3(&header, spans), sums.crc7(&header, spans))
    }

    fn told(decoder: &mut Decoder, line: &[u8]) -> Vec<u8> {
        let trust = Trust {
            standing: Standing::Sure,
            few: 4,
            wrong_sums: WrongSums::Told,
        };
        let mut out = Vec::new();
        let found = decoder.decode(line[0], Cursor(&line[1..]), trust, &mut out, |_| None);
        assert!(found.is_ok(), "{found:?}");
        out
    }

    #[test]
    fn what_extensions_of_uo_1_id_say_of_other_fields_is_for_their_packet_only() {
        let (mut decoder, mut next) = context();
        next.fields.hop_limit = 9;
        // UO-1-ID with extension 3: a time to live.
        let line = [
            0x80 | 93 & 0x1f,
            0x80 | 8 << 3 | sums(&next).0,
            0xca,
            0x44,
            next.fields.hop_limit,
        ];
        assert_eq!(told(&mut decoder, &line), header(&next));
        next.fields.hop_limit = 64;
        next.fields.sequence = 9;
        next.fields.timestamp += 160;
        next.fields.id = 102;
        let line = [9 << 3 | sums(&next).0];
        assert_eq!(told(&mut decoder, &line), header(&next));
    }

    #[test]
    fn flags_without_a_payload_type_say_that_there_is_no_padding_or_nothing_of_it() {
        for padding in [false, true] {
            let (mut decoder, mut next) = context();
            next.fields.padding = padding;
            // UOR-2-TS with extension 3: nothing but the flags of RTP.
            let line = [
                0xc0 | (next.fields.timestamp / 160) as u8 & 0x1f,
                0x80 | 8,
                0x80 | sums(&next).1,
                0xc9,
                0x40,
            ];
            assert_eq!(told(&mut decoder, &line), header(&next));
        }
    }
}
