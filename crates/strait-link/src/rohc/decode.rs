//! One context of a decompressor: compressed headers back into whole ones.

use alloc::vec::Vec;

use strait_wire::ip::put_udp_checksum;

use super::Profile;
use super::chain::{Known, mode_bits};
use super::check::Sums;
use super::decompress::Fault;
use super::fields::Spans;
use super::numbers::{Bits, Cursor, Number};

/// The check of a compressed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    Crc3(u8),
    Crc7(u8),
}

/// What a compressed header said.
#[derive(Clone, Copy, Debug)]
struct Said {
    sequence: Bits,
    timestamp: Bits,
    id: Bits,
    marker: bool,
    /// The timestamp's bits are of its scaled value.
    scaled: bool,
    /// So many rounds of those bits further on than they say.
    rounds: u32,
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
            marker: false,
            scaled: true,
            rounds: 0,
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
fn read(known: &mut Known, first: u8, rest: &mut Cursor<'_>) -> Result<Said, Fault> {
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
        return read_uo1(known, low, second, rest);
    }
    if first & 0xe0 != 0xc0 {
        return Err(Fault::Malformed);
    }
    // UOR-2.
    if !rtp {
        let mut said = Said::new(Bits::new(low, 5), Check::Crc7(second & 0x7f));
        if second & 0x80 != 0 {
            read_extension(known, &mut said, Main::Id, Main::Id, rest)?;
        }
        return Ok(said);
    }
    let third = rest.u8().ok_or(truncated)?;
    let sequence = Bits::new(u32::from(second), 6);
    let mut said = Said::new(sequence, Check::Crc7(third & 0x7f));
    said.marker = second & 0x40 != 0;
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
        read_extension(known, &mut said, main, other, rest)?;
    }
    Ok(said)
}

/// UO-1 and its kinds.
fn read_uo1(known: &mut Known, low: u32, second: u8, rest: &mut Cursor<'_>) -> Result<Said, Fault> {
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
            // What it says of other fields is for this packet only (section 5.7.3), which no
            // compressor we know of makes use of; so it is taken as it is.
            read_extension(known, &mut said, Main::Id, Main::Timestamp, rest)?;
        }
    }
    Ok(said)
}

/// Extensions 0 to 3 (section 5.7.5 and 5.11.5). `main` is the field of `+T`, `other` that of `-T`.
fn read_extension(
    known: &mut Known,
    said: &mut Said,
    main: Main,
    other: Main,
    rest: &mut Cursor<'_>,
) -> Result<(), Fault> {
    let first = rest.u8().ok_or(Fault::Malformed)?;
    let kind = first >> 6;
    if kind == 3 {
        return read_extension_3(known, said, first, rest);
    }
    if kind == 2 && known.profile != Profile::Rtp {
        // Its bits are of a second IP header, and we have contexts of one.
        return Err(Fault::Unsupported);
    }
    said.sequence.push(u32::from(first >> 3), 3);
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
    known: &mut Known,
    said: &mut Said,
    flags: u8,
    rest: &mut Cursor<'_>,
) -> Result<(), Fault> {
    let rtp = known.profile == Profile::Rtp;
    let bit = |octet: u8, at: u8| octet & (1 << at) != 0;
    let truncated = Fault::Malformed;
    let ip = bit(flags, 1);
    let ip_flags = if ip { rest.u8().ok_or(truncated)? } else { 0 };
    // A second IP header, or lists of extension headers.
    let second = if rtp { bit(ip_flags, 0) } else { bit(flags, 0) };
    if second || bit(ip_flags, 3) || bit(ip_flags, 4) {
        return Err(Fault::Unsupported);
    }
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
            known.fields.dont_fragment = bit(ip_flags, 5);
            known.id_network_order = bit(ip_flags, 2);
            known.id_random = bit(ip_flags, 1);
        }
        if bit(ip_flags, 7) {
            known.fields.traffic_class = rest.u8().ok_or(truncated)?;
        }
        if bit(ip_flags, 6) {
            known.fields.hop_limit = rest.u8().ok_or(truncated)?;
        }
    }
    if bit(flags, 2) {
        let offset = rest.u16().ok_or(truncated)?;
        said.id.push(u32::from(offset), 16);
    }
    if rtp && bit(flags, 0) {
        read_rtp_flags(known, said, rest)?;
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
}

/// Widths of sequence numbers that are tried again one round further on, when the check says that
/// more packets were lost than they can tell.
const ROUND_BITS: u8 = 4;
/// The widest scaled timestamps of which further rounds are tried: those of UO-1.
const SHORT_TIMESTAMP_BITS: u8 = 6;
/// Rounds that are tried: with 16 sequence numbers each, this many packets in a row may be lost.
pub(super) const ROUNDS_MAX: u32 = 16;

impl Decoder {
    /// Whether it is another flow's than `before`, and no checksum of its packets would tell if
    /// that is wrong.
    pub(super) fn replaces(&self, before: &Self) -> bool {
        let chain = |known: &Known| {
            let mut chain = Vec::new();
            known.put_static(&mut chain);
            chain
        };
        !self.known.carries_checksum() && chain(&self.known) != chain(&before.known)
    }

    pub(super) const fn new(known: Known) -> Self {
        Self { known, sums: None }
    }

    pub(super) const fn known(&self) -> &Known {
        &self.known
    }

    /// Appends the packet of the compressed header at the front of `rest`, and says which check it
    /// passed. `sound` judges the whole packet, which is how a context after a long gap is found
    /// again; `thorough` asks for the longer check.
    pub(super) fn decode(
        &mut self,
        first: u8,
        mut rest: Cursor<'_>,
        thorough: bool,
        out: &mut Vec<u8>,
        sound: impl Fn(&[u8]) -> Option<bool>,
    ) -> Result<Check, Fault> {
        let mut known = self.known;
        let said = read(&mut known, first, &mut rest)?;
        if thorough && matches!(said.check, Check::Crc3(_)) {
            return Err(Fault::NoContext);
        }
        if !known.fields.v6 && known.id_random {
            known.fields.id = rest.u16().ok_or(Fault::Malformed)?;
        }
        if known.carries_checksum() {
            known.fields.checksum = rest.u16().ok_or(Fault::Malformed)?;
        }
        // A checksum that was rebuilt is always right.
        let rebuilds = known.rebuilds;
        let sound = |packet: &[u8]| if rebuilds { None } else { sound(packet) };
        let kind = known.profile.sequence_kind();
        let sequence = kind.decode(self.known.fields.sequence, said.sequence);
        if let Some(next) = self.attempt(known, &said, sequence, rest.0, out, |packet| {
            sound(packet) != Some(false)
        })? {
            self.take(next);
            return Ok(said.check);
        }
        if !thorough {
            // Only the transport checksum makes a guess good enough.
            let judged = |packet: &[u8]| sound(packet) == Some(true);
            for said in said.further_timestamps() {
                if let Some(next) = self.attempt(known, &said, sequence, rest.0, out, judged)? {
                    self.take(next);
                    return Ok(said.check);
                }
            }
            // The transport checksum judges RTP's own number, and nothing that follows from one of
            // the compressor's: neither that nor the IPv4 identification is in what it covers.
            let judges = known.profile == Profile::Rtp || !known.counts_ids();
            let further = said.further_sequences(sequence, kind);
            for sequence in further.take_while(|_| judges) {
                if let Some(next) = self.attempt(known, &said, sequence, rest.0, out, judged)? {
                    self.take(next);
                    return Ok(said.check);
                }
            }
        }
        Err(Fault::BadCheck)
    }

    fn take(&mut self, (known, sums): (Known, Sums)) {
        self.known = known;
        self.sums = Some(sums);
    }

    /// Appends the packet with this sequence number if the check and `sound` are content with it;
    /// gives what is known then.
    fn attempt(
        &self,
        mut known: Known,
        said: &Said,
        sequence: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
        sound: impl Fn(&[u8]) -> bool,
    ) -> Result<Option<(Known, Sums)>, Fault> {
        let before = self.known.fields;
        known.fields.sequence = sequence;
        if known.counts_ids() {
            let mut offset = u32::from(known.id_offset(&before));
            if said.id.width > 0 {
                offset = Number::IdOffset.decode(offset, said.id);
            }
            known.fields.id = known.id_at(offset as u16, sequence);
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
        let spans = Spans::new(known.profile, known.fields.v6);
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
            if sound(&out[start..]) {
                return Ok(Some((known, sums)));
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
