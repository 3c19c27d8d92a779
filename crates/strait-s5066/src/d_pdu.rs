//! D_PDUs: the units on the air (Annex C).
//!
//! Types 9 and 10 are extensions of `strait`: data and acknowledgements with numbers of 16 bits.
//! They are sent only to nodes that agreed to them when the link was made.

use alloc::vec::Vec;

use crate::address::{Address, field_octets, put_field, read_field};
use crate::check::{crc16, crc32};

/// The two octets ahead of each D_PDU.
pub const SYNC: [u8; 2] = [0x90, 0xeb];

/// The longest segment of a D_PDU, in octets.
pub const SEGMENT_OCTETS_MAX: usize = 1023;

/// The longest D_PDU: sync, a header of 31 octets and 7 of addresses, segment and check.
pub const OCTETS_MAX: usize = 2 + 31 + 7 + SEGMENT_OCTETS_MAX + 4;

/// Octets ahead of the addresses: type and EOW, EOT, sizes.
const FRONT: usize = 4;

/// Octets of selective acknowledgement in the header, at most.
pub const SELECTIVE_OCTETS_MAX: usize = 16;

/// The bare data D_PDU around its segment and addresses: sync, front, three octets, both checks.
pub(crate) const DATA_OVERHEAD: usize = 2 + FRONT + 3 + 2 + 4;

/// Octets around a segment without ARQ, beside the addresses.
pub(crate) const NON_ARQ_OVERHEAD: usize = 2 + FRONT + 9 + 2 + 4;

/// A D_PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DPdu<'a> {
    /// The engineering order wire, 12 bits.
    pub eow: u16,
    /// Half seconds from the first bit of this D_PDU to the end of the transmission, rounded up.
    pub eot: u8,
    /// Destination.
    pub to: Address,
    /// Source.
    pub from: Address,
    /// The part of its type.
    pub body: Body<'a>,
}

/// A piece of a C_PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its octets.
    pub octets: &'a [u8],
    /// Its check is right; else some octets are wrong or missing.
    pub intact: bool,
}

impl<'a> Segment<'a> {
    /// A segment as sent.
    #[must_use]
    pub const fn whole(octets: &'a [u8]) -> Self {
        Self {
            octets,
            intact: true,
        }
    }
}

/// The fields of types 0, 2 and 9 about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// It begins a C_PDU.
    pub start: bool,
    /// It ends one.
    pub end: bool,
    /// The C_PDU is to be delivered in order.
    pub in_order: bool,
    /// The C_PDU is given up.
    pub dropped: bool,
    /// The number is the sender's upper window edge.
    pub upper: bool,
    /// The number is the sender's lower window edge.
    pub lower: bool,
    /// The frame sequence number.
    pub number: u16,
    /// The segment.
    pub segment: Segment<'a>,
}

/// The fields of types 1, 2 and 5 about received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The lowest number not received.
    pub lower: u8,
    /// One bit for each number above it, the lowest first.
    pub selective: &'a [u8],
}

/// The fields of type 10 about received frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongAck<'a> {
    /// The lowest number not received.
    pub lower: u16,
    /// The number that the first bit stands for.
    pub first: u16,
    /// One bit for each number from there, the lowest first.
    pub selective: Segment<'a>,
}

/// The fields of type 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reset {
    /// Both ends begin anew.
    pub full: bool,
    /// The sender asks for a command.
    pub request: bool,
    /// The receiver is to take the new lower edge.
    pub command: bool,
    /// An answer.
    pub ack: bool,
    /// The new lower edge.
    pub lower: u8,
    /// Distinguishes repeats from new ones.
    pub frame: u8,
}

/// The fields of types 7 and 8 about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonArq<'a> {
    /// Type 8.
    pub expedited: bool,
    /// The C_PDU's number, 12 bits.
    pub c_pdu: u16,
    /// It is to be delivered in order.
    pub in_order: bool,
    /// The destination is a group.
    pub group: bool,
    /// Octets of the whole C_PDU.
    pub size: u16,
    /// The position of the segment in it.
    pub offset: u16,
    /// Half seconds in which the rest is to come.
    pub window: u16,
    /// The segment.
    pub segment: Segment<'a>,
}

/// The type of a D_PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Type 0: data.
    Data,
    /// Type 1: an acknowledgement.
    Ack,
    /// Type 2: both.
    DataAck,
    /// Type 3: a reset of the numbers of frames.
    Reset,
    /// Type 4: expedited data.
    ExpeditedData,
    /// Type 5: its acknowledgement.
    ExpeditedAck,
    /// Type 6: management.
    Management,
    /// Type 7: data without ARQ.
    NonArq,
    /// Type 8: the same, expedited.
    ExpeditedNonArq,
    /// Type 9: data with a long number. Of `strait`.
    LongData,
    /// Type 10: an acknowledgement of long numbers. Of `strait`.
    LongAck,
    /// Type 15: a warning.
    Warning,
    /// Another one.
    Other(u8),
}

impl Kind {
    /// Those that have a name, by their numbers from 0 on.
    const NAMED: [Self; 11] = [
        Self::Data,
        Self::Ack,
        Self::DataAck,
        Self::Reset,
        Self::ExpeditedData,
        Self::ExpeditedAck,
        Self::Management,
        Self::NonArq,
        Self::ExpeditedNonArq,
        Self::LongData,
        Self::LongAck,
    ];

    /// The type with a number, of which the lower four bits count.
    #[must_use]
    pub const fn of(number: u8) -> Self {
        match number & 15 {
            15 => Self::Warning,
            number if (number as usize) < Self::NAMED.len() => Self::NAMED[number as usize],
            number => Self::Other(number),
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Ack => 1,
            Self::DataAck => 2,
            Self::Reset => 3,
            Self::ExpeditedData => 4,
            Self::ExpeditedAck => 5,
            Self::Management => 6,
            Self::NonArq => 7,
            Self::ExpeditedNonArq => 8,
            Self::LongData => 9,
            Self::LongAck => 10,
            Self::Warning => 15,
            Self::Other(number) => number & 15,
        }
    }

    /// Whether it has long numbers.
    pub(crate) const fn is_long(self) -> bool {
        matches!(self, Self::LongData | Self::LongAck)
    }

    /// Whether Edition 3 has it among those of data.
    pub(crate) const fn is_of_edition_3(self) -> bool {
        self.number() <= Self::ExpeditedNonArq.number()
    }

    /// Whether it goes by a link.
    pub(crate) const fn needs_link(self) -> bool {
        self.is_long() || self.number() <= Self::ExpeditedAck.number()
    }

    /// Whether it goes by a link with `long` numbers, or without.
    pub(crate) const fn goes_by(self, long: bool) -> bool {
        let either = matches!(self, Self::Reset | Self::ExpeditedData | Self::ExpeditedAck);
        either || self.needs_link() && self.is_long() == long
    }

    /// Whether it brings data by a link of Edition 3.
    pub(crate) const fn has_data(self) -> bool {
        matches!(self, Self::Data | Self::DataAck | Self::ExpeditedData)
    }

    /// Whether it has the segment's check even if the segment is empty (C.3.2.11).
    const fn is_checked(self) -> bool {
        let plain = matches!(self, Self::NonArq | Self::ExpeditedNonArq | Self::LongData);
        self.has_data() || plain
    }
}

/// The fault of a received D_PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 0: its type isn't known.
    Unrecognised,
    /// 1: there is no link that it could go by.
    NotConnected,
    /// 2: it makes no sense.
    Invalid,
    /// 3: it makes none in the state of the link.
    WrongForState,
    /// One that the standard doesn't have.
    Other(u8),
}

impl Fault {
    /// The fault with a number, of which the lower four bits count.
    #[must_use]
    pub const fn of(number: u8) -> Self {
        match number & 15 {
            0 => Self::Unrecognised,
            1 => Self::NotConnected,
            2 => Self::Invalid,
            3 => Self::WrongForState,
            number => Self::Other(number),
        }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Unrecognised => 0,
            Self::NotConnected => 1,
            Self::Invalid => 2,
            Self::WrongForState => 3,
            Self::Other(number) => number & 15,
        }
    }
}

/// The fields of type 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The type that was received.
    pub received: Kind,
    /// Its fault.
    pub fault: Fault,
}

impl Warning {
    /// Of a type and a fault with these numbers.
    #[must_use]
    pub const fn of(received: u8, fault: u8) -> Self {
        Self {
            received: Kind::of(received),
            fault: Fault::of(fault),
        }
    }
}

/// The part that differs by type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Type 0, or type 2 with an acknowledgement.
    Data(Data<'a>, Option<Ack<'a>>),
    /// Type 1.
    Ack(Ack<'a>),
    /// Type 3.
    Reset(Reset),
    /// Type 4: expedited, stop and wait by C_PDU.
    ExpeditedData {
        /// It begins a C_PDU.
        start: bool,
        /// It ends one.
        end: bool,
        /// The C_PDU's number, 4 bits.
        c_pdu: u8,
        /// The number of the frame in it.
        number: u8,
        /// The segment.
        segment: Segment<'a>,
    },
    /// Type 5.
    ExpeditedAck(Ack<'a>),
    /// Type 6.
    Management {
        /// A message is in the D_PDU, beside the order wire.
        extended: bool,
        /// The message counts.
        valid: bool,
        /// An answer.
        ack: bool,
        /// Distinguishes repeats from new ones.
        frame: u8,
        /// The message.
        message: &'a [u8],
    },
    /// Types 7 and 8.
    NonArq(NonArq<'a>),
    /// Type 9: data with a long number. Of `strait`.
    LongData(Data<'a>),
    /// Type 10: an acknowledgement of long numbers. Of `strait`.
    LongAck(LongAck<'a>),
    /// Type 15.
    Warning(Warning),
    /// A type that this node doesn't know, or one whose own part has no length that it can have.
    /// Where it ends isn't known, either.
    Unknown(Kind),
}

/// Why no D_PDU stands at the beginning of some octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDPdu {
    /// It may, but more octets are needed.
    #[error("octets are missing")]
    Incomplete,
    /// No sync.
    #[error("no sync")]
    Sync,
    /// The sizes in the header can't be, or aren't those of its type.
    #[error("impossible sizes")]
    Sizes,
    /// The header's check is wrong.
    #[error("wrong check of the header")]
    Check,
}

impl Body<'_> {
    /// Its type.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Data(_, None) => Kind::Data,
            Self::Ack(_) => Kind::Ack,
            Self::Data(_, Some(_)) => Kind::DataAck,
            Self::Reset(_) => Kind::Reset,
            Self::ExpeditedData { .. } => Kind::ExpeditedData,
            Self::ExpeditedAck(_) => Kind::ExpeditedAck,
            Self::Management { .. } => Kind::Management,
            Self::NonArq(non_arq) if non_arq.expedited => Kind::ExpeditedNonArq,
            Self::NonArq(_) => Kind::NonArq,
            Self::LongData(_) => Kind::LongData,
            Self::LongAck(_) => Kind::LongAck,
            Self::Warning(_) => Kind::Warning,
            Self::Unknown(kind) => *kind,
        }
    }

    /// The part behind the header.
    #[must_use]
    pub const fn segment(&self) -> Option<Segment<'_>> {
        match self {
            Self::Data(data, _) | Self::LongData(data) => Some(data.segment),
            Self::ExpeditedData { segment, .. } => Some(*segment),
            Self::NonArq(non_arq) => Some(non_arq.segment),
            Self::LongAck(ack) => Some(ack.selective),
            _ => None,
        }
    }
}

fn bits(flags: &[bool]) -> u8 {
    flags.iter().fold(0, |all, flag| all << 1 | u8::from(*flag))
}

/// Two octets: flags or a number in the upper six bits, a size in the rest.
fn sized(upper: u8, octets: usize) -> [u8; 2] {
    (u16::from(upper) << 10 | (octets & 0x3ff) as u16).to_be_bytes()
}

impl Data<'_> {
    fn put_flags(&self, out: &mut Vec<u8>) {
        let flags = [
            self.start,
            self.end,
            self.in_order,
            self.dropped,
            self.upper,
            self.lower,
        ];
        out.extend_from_slice(&sized(bits(&flags), self.segment.octets.len()));
    }
}

impl Ack<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.lower);
        let octets = self.selective.len().min(SELECTIVE_OCTETS_MAX);
        out.extend_from_slice(&self.selective[..octets]);
    }
}

impl DPdu<'_> {
    /// Appends the D_PDU with its checks. Of a segment, the first [`SEGMENT_OCTETS_MAX`] octets
    /// go.
    pub fn put(&self, out: &mut Vec<u8>) {
        let whole = self
            .body
            .segment()
            .map_or(&[][..], |segment| segment.octets);
        let segment = &whole[..whole.len().min(SEGMENT_OCTETS_MAX)];
        out.extend_from_slice(&SYNC);
        let begins = out.len();
        out.push(self.body.kind().number() << 4 | (self.eow >> 8) as u8 & 15);
        out.push(self.eow as u8);
        out.push(self.eot);
        let field = field_octets(self.to, self.from);
        out.push(0);
        put_field(self.to, self.from, field, out);
        self.put_own(out);
        let header = out.len() - begins - field + 2;
        out[begins + 3] = (field as u8) << 5 | header as u8 & 31;
        let check = crc16(&out[begins..]);
        out.extend_from_slice(&check.to_le_bytes());
        if !segment.is_empty() || self.body.kind().is_checked() {
            out.extend_from_slice(segment);
            out.extend_from_slice(&crc32(segment).to_le_bytes());
        }
    }

    /// Appends the type's part of the header.
    fn put_own(&self, out: &mut Vec<u8>) {
        match &self.body {
            Body::Data(data, ack) => {
                data.put_flags(out);
                out.push(data.number as u8);
                if let Some(ack) = ack {
                    ack.put(out);
                }
            }
            Body::Ack(ack) | Body::ExpeditedAck(ack) => ack.put(out),
            Body::Reset(reset) => {
                let flags = [reset.full, reset.request, reset.command, reset.ack];
                out.extend_from_slice(&[bits(&flags), reset.lower, reset.frame]);
            }
            Body::ExpeditedData {
                start,
                end,
                c_pdu,
                number,
                segment,
            } => {
                let upper = bits(&[*start, *end]) << 4 | c_pdu & 15;
                out.extend_from_slice(&sized(upper, segment.octets.len()));
                out.push(*number);
            }
            Body::Management {
                extended,
                valid,
                ack,
                frame,
                message,
            } => {
                out.extend_from_slice(&[bits(&[*extended, *valid, *ack]), *frame]);
                out.extend_from_slice(&message[..message.len().min(23)]);
            }
            Body::NonArq(non_arq) => {
                let flags = bits(&[non_arq.in_order, non_arq.group]);
                let upper = ((non_arq.c_pdu >> 8) as u8 & 15) << 2 | flags;
                out.extend_from_slice(&sized(upper, non_arq.segment.octets.len()));
                out.push(non_arq.c_pdu as u8);
                for word in [non_arq.size, non_arq.offset, non_arq.window] {
                    out.extend_from_slice(&word.to_be_bytes());
                }
            }
            Body::LongData(data) => {
                data.put_flags(out);
                out.extend_from_slice(&data.number.to_be_bytes());
            }
            Body::LongAck(ack) => {
                for word in [ack.lower, ack.first] {
                    out.extend_from_slice(&word.to_be_bytes());
                }
                out.extend_from_slice(&sized(0, ack.selective.octets.len()));
            }
            Body::Warning(Warning { received, fault }) => {
                out.push(received.number() << 4 | fault.number());
            }
            Body::Unknown(_) => {}
        }
    }
}

/// The two octets at `at` of a header that is long enough.
fn word(own: &[u8], at: usize) -> u16 {
    let octet = |at: usize| u16::from(own.get(at).copied().unwrap_or(0));
    octet(at) << 8 | octet(at + 1)
}

fn data<'a>(own: &[u8], number: u16, segment: Segment<'a>) -> Data<'a> {
    let flag = |bit: u8| own[0] >> bit & 1 != 0;
    Data {
        start: flag(7),
        end: flag(6),
        in_order: flag(5),
        dropped: flag(4),
        upper: flag(3),
        lower: flag(2),
        number,
        segment,
    }
}

/// Octets of segment that follow a header, or `None` if the type's own part isn't as long as it
/// has to be.
fn segment_octets(kind: Kind, own: &[u8]) -> Option<usize> {
    let fits = match kind {
        Kind::Data | Kind::ExpeditedData | Kind::Reset => own.len() == 3,
        Kind::Ack | Kind::ExpeditedAck => (1..=1 + SELECTIVE_OCTETS_MAX).contains(&own.len()),
        Kind::DataAck => (4..=4 + SELECTIVE_OCTETS_MAX).contains(&own.len()),
        Kind::Management => (2..=25).contains(&own.len()),
        Kind::NonArq | Kind::ExpeditedNonArq => own.len() == 9,
        Kind::LongData => own.len() == 4,
        Kind::LongAck => own.len() == 6,
        Kind::Warning => own.len() == 1,
        Kind::Other(_) => true,
    };
    fits.then(|| match kind {
        Kind::LongAck => usize::from(word(own, 4) & 0x3ff),
        _ if kind.is_checked() => usize::from(word(own, 0) & 0x3ff),
        _ => 0,
    })
}

fn body<'a>(kind: Kind, own: &'a [u8], segment: Segment<'a>) -> Body<'a> {
    let flag = |at: usize, bit: u8| own[at] >> bit & 1 != 0;
    let ack = |at: usize| Ack {
        lower: own[at],
        selective: &own[at + 1..],
    };
    match kind {
        Kind::Data => Body::Data(data(own, u16::from(own[2]), segment), None),
        Kind::Ack => Body::Ack(ack(0)),
        Kind::DataAck => Body::Data(data(own, u16::from(own[2]), segment), Some(ack(3))),
        Kind::Reset => Body::Reset(Reset {
            full: flag(0, 3),
            request: flag(0, 2),
            command: flag(0, 1),
            ack: flag(0, 0),
            lower: own[1],
            frame: own[2],
        }),
        Kind::ExpeditedData => Body::ExpeditedData {
            start: flag(0, 7),
            end: flag(0, 6),
            c_pdu: own[0] >> 2 & 15,
            number: own[2],
            segment,
        },
        Kind::ExpeditedAck => Body::ExpeditedAck(ack(0)),
        Kind::Management => Body::Management {
            extended: flag(0, 2),
            valid: flag(0, 1),
            ack: flag(0, 0),
            frame: own[1],
            message: &own[2..],
        },
        Kind::NonArq | Kind::ExpeditedNonArq => Body::NonArq(NonArq {
            expedited: kind == Kind::ExpeditedNonArq,
            c_pdu: u16::from(own[0] >> 4) << 8 | u16::from(own[2]),
            in_order: flag(0, 3),
            group: flag(0, 2),
            size: word(own, 3),
            offset: word(own, 5),
            window: word(own, 7),
            segment,
        }),
        Kind::LongData => Body::LongData(data(own, word(own, 2), segment)),
        Kind::LongAck => Body::LongAck(LongAck {
            lower: word(own, 0),
            first: word(own, 2),
            selective: segment,
        }),
        Kind::Warning => Body::Warning(Warning::of(own[0] >> 4, own[0])),
        Kind::Other(_) => Body::Unknown(kind),
    }
}

/// Reads the D_PDU at the beginning of `bytes`, and says how many octets it has. A transmission
/// that `ended` brings no more: a D_PDU with an incomplete segment is damaged, not incomplete.
///
/// # Errors
/// Why there is none. More octets help only with [`NoDPdu::Incomplete`].
pub fn parse(bytes: &[u8], ended: bool) -> Result<(DPdu<'_>, usize), NoDPdu> {
    if !SYNC.starts_with(&bytes[..bytes.len().min(2)]) {
        return Err(NoDPdu::Sync);
    }
    let rest = bytes.get(2..).ok_or(NoDPdu::Incomplete)?;
    let sizes = *rest.get(3).ok_or(NoDPdu::Incomplete)?;
    let field = usize::from(sizes >> 5);
    let header = usize::from(sizes & 31);
    if field == 0 || header < FRONT + 2 {
        return Err(NoDPdu::Sizes);
    }
    let kind = Kind::of(rest[0] >> 4);
    let header_end = field + header;
    let Some(header) = rest.get(..header_end) else {
        return Err(NoDPdu::Incomplete);
    };
    let (checked, check) = header.split_at(header_end - 2);
    if crc16(checked).to_le_bytes() != *check {
        return Err(NoDPdu::Check);
    }
    let own = &checked[FRONT + field..];
    let octets = segment_octets(kind, own);
    let after = &rest[header_end..];
    let (segment, total) = match octets {
        Some(0) if kind.is_checked() => (Segment::whole(&[]), empty_check(after, ended)?),
        octets => read_segment(after, octets.unwrap_or(0), ended)?,
    };
    let (to, from) = read_field(&checked[FRONT..FRONT + field]);
    let body = match octets {
        Some(_) => body(kind, own, segment),
        None => Body::Unknown(kind),
    };
    let group = matches!(body, Body::NonArq(non_arq) if non_arq.group);
    let d_pdu = DPdu {
        eow: u16::from(rest[0] & 15) << 8 | u16::from(rest[1]),
        eot: rest[2],
        to: Address::new(to.bits() | u32::from(group) << 28),
        from,
        body,
    };
    Ok((d_pdu, 2 + header_end + total))
}

/// Octets of an empty segment's check. Only the header announces the segment: octets that don't
/// match the check belong to the next D_PDU.
fn empty_check(after: &[u8], ended: bool) -> Result<usize, NoDPdu> {
    let check = crc32(&[]).to_le_bytes();
    match after.first_chunk::<4>() {
        Some(octets) if *octets == check => Ok(4),
        None if !ended && check.starts_with(after) => Err(NoDPdu::Incomplete),
        _ => Ok(0),
    }
}

/// The segment and its check behind a header, with the octets that both have.
fn read_segment(after: &[u8], octets: usize, ended: bool) -> Result<(Segment<'_>, usize), NoDPdu> {
    if octets == 0 {
        return Ok((Segment::whole(&[]), 0));
    }
    let Some((segment, check)) = after
        .get(..octets + 4)
        .and_then(|both| both.split_last_chunk::<4>())
    else {
        if !ended {
            return Err(NoDPdu::Incomplete);
        }
        let segment = Segment {
            octets: &after[..after.len().min(octets)],
            intact: false,
        };
        return Ok((segment, after.len().min(octets + 4)));
    };
    let intact = crc32(segment).to_le_bytes() == *check;
    Ok((
        Segment {
            octets: segment,
            intact,
        },
        octets + 4,
    ))
}

#[cfg(test)]
#[path = "d_pdu_tests.rs"]
mod tests;
