//! Frames between two neighbours that make one link reliable: hop by hop.
//!
//! ```text
//!   hello    0x0B  version  flags  incarnation, 4  heard, 4  check
//!   content  1 P D A W W S B  [ack]  [stop]  [base]  [data]  check
//!   parity   0x0C  tag  first, 2  serial, 2  others, 4  sum  check
//! ```
//!
//! - `A`, an acknowledgement: the sequence number expected next (2), the newest serial received
//!   (2), and `W` words (4 each) of a map of what came behind the next one. `P`: it wasn't held
//!   back, so it measures the round trip.
//!   Longer maps, and those that are cut, go to ends only whose hello says that they read them:
//!   without `A`, `W` is 1, and before the map stands an octet: its words, and 0x80 if it is cut.
//! - `S`: a set of tags of which no new packets are wanted now (1).
//! - `B`: the oldest sequence number that is still sent (2); what is missing before never comes.
//! - `D`, a packet: sequence number (2), serial of this transmission (2), tag and order (1),
//!   lifetime (1), the node by which it came into the network (2), its number there (2), and the
//!   packet itself, or what it is [relative](Headers) to an earlier one.
//!
//! Numbers are in network byte order. The check is CRC-16 or CRC-32, as the link is set up, least
//! significant octet first. That of content and [parity](Parity) runs over the incarnations of
//! sender and receiver before the frame itself: a frame of another life of either end fails it.

mod headers;
mod lifetime;
mod map;
pub mod paper;
mod parity;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

pub use self::headers::Headers;
pub use self::lifetime::Lifetime;
pub use self::map::Map;
use self::parity::PARITY;
pub use self::parity::{Parity, ParitySum};
use crate::bytes::{array_at, u16_at, u32_at};
use crate::check::{Crc16Sum, Crc32Sum};
use crate::segment::SegmentCheck;

/// The first octet of a hello.
const HELLO: u8 = 0x0b;
/// Flag of a hello: an answer is wanted.
const ASKS: u8 = 0x01;
/// Flag of a hello: the sender reads maps of any length, and distances of any.
const WIDE: u8 = 0x02;

const CONTENT: u8 = 0x80;
const PROMPT: u8 = 0x40;
const DATA: u8 = 0x20;
const ACK: u8 = 0x10;
const WORDS: u8 = 0x0c;
/// In the place of words, without [`ACK`]: an acknowledgement with a map of any length.
const LONG_MAP: u8 = 0x04;
const STOP: u8 = 0x02;
const BASE: u8 = 0x01;

/// Octets of a hello without its check.
const HELLO_OCTETS: usize = 11;
/// Octets of what stands before a packet.
const DATA_OCTETS: usize = 4 + DataHeader::REST_OCTETS;

/// Octets that a frame with all parts has beside its packet and the words of a map.
const WORDLESS_OCTETS: usize = 1 + 4 + 1 + 2 + DATA_OCTETS + 4;

/// The most octets that a frame has beside its packet, with a map that any end reads.
pub const OVERHEAD_OCTETS_MAX: usize = WORDLESS_OCTETS + 4 * Map::NARROW_WORDS;

/// The most octets of a frame without packet.
pub const CONTROL_OCTETS_MAX: usize = WORDLESS_OCTETS - DATA_OCTETS + 1 + 4 * Map::WORDS_MAX;

/// The most words of a map that goes along with a packet of so many octets in a frame of so many.
#[must_use]
pub const fn map_words_max(frame_octets: usize, packet_octets: usize) -> usize {
    let words = frame_octets.saturating_sub(packet_octets + WORDLESS_OCTETS + 1) / 4;
    if words < Map::WORDS_MAX {
        words
    } else {
        Map::WORDS_MAX
    }
}

/// Tags that packets may have.
pub const TAGS: usize = 8;

/// The incarnations of both ends, as the sender of a frame sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The sender's.
    pub sender: u32,
    /// The receiver's.
    pub receiver: u32,
}

impl Session {
    const fn octets(self) -> [u8; 8] {
        ((self.sender as u64) << 32 | self.receiver as u64).to_be_bytes()
    }
}

/// What the frames between two ends look like. A hello tells, so that ends which differ know why
/// they don't understand each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// The one of this module.
    #[default]
    Strait,
    /// The published one: [`paper`].
    Paper,
}

impl Format {
    /// The octet that stands for its present version.
    const fn version(self) -> u8 {
        match self {
            Self::Strait => 2,
            Self::Paper => 0x80,
        }
    }

    fn of_version(version: u8) -> Option<Self> {
        let known = [Self::Strait, Self::Paper];
        known.into_iter().find(|it| it.version() == version)
    }
}

/// What an end says of itself until the other has heard it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's incarnation: another number after each start, not zero.
    pub incarnation: u32,
    /// The incarnation of the other end that the sender has heard; zero if none.
    pub heard: u32,
    /// The sender wants an answer.
    pub asks: bool,
    /// It reads maps of any length, and headers told relative to packets at any distance.
    pub wide: bool,
    /// How it speaks.
    pub format: Format,
}

/// What a receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The sequence number of the first packet that is missing.
    pub next: u16,
    /// The newest serial that came.
    pub newest: u16,
    /// Which packets behind the missing one came.
    pub map: Map,
    /// It leaves right after what it tells of.
    pub prompt: bool,
}

/// How a packet stands to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It may be handed on when it comes.
    Any,
    /// It follows the packet so many numbers before it, 1 to 30.
    After(u8),
    /// It follows all that are 31 numbers or more before it.
    AfterAll,
}

impl Order {
    /// The distance from which on nobody tells packets apart.
    pub const FAR: u16 = 31;

    /// A packet that follows the one `distance` numbers before it.
    #[must_use]
    pub const fn after(distance: u16) -> Self {
        match distance {
            0 => Self::Any,
            near @ 1..=30 => Self::After(near as u8),
            _ => Self::AfterAll,
        }
    }

    /// In the place of [`Self::After`] with this distance, to ends that read it, stands the order
    /// that packets had where they came into the network.
    const ORDERED: u8 = 30;

    /// The same without that distance.
    #[must_use]
    pub const fn beside_ordered(self) -> Self {
        match self {
            Self::After(Self::ORDERED) => Self::AfterAll,
            other => other,
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Any => 0,
            Self::After(near) if near <= 30 => near,
            Self::After(_) | Self::AfterAll => 31,
        }
    }
}

/// What stands before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// Its number on this link, the same in all its transmissions.
    pub seq: u16,
    /// The number of this transmission.
    pub serial: u16,
    /// Its kind of traffic, 0 to 7: what is stopped is stopped by tags.
    pub tag: u8,
    /// What it follows.
    pub order: Order,
    /// How much longer it is worth anything.
    pub lifetime: Lifetime,
    /// Where it came into the network.
    pub ingress: Ingress,
}

/// Where a packet came into a network of such links: with that it is known for the same packet
/// wherever it comes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ingress {
    /// The node.
    pub node: u16,
    /// The packet's number there.
    pub serial: u16,
    /// Its flow has numbers of its own, and it follows the packet with the one before.
    pub ordered: bool,
}

/// A frame with content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content<'a> {
    /// What the sender has received.
    pub ack: Option<Ack>,
    /// The tags of which it wants no new packets, a bit each; none if absent.
    pub stop: Option<u8>,
    /// The oldest sequence number that it still sends.
    pub base: Option<u16>,
    /// A packet and what stands before it.
    pub data: Option<(DataHeader, &'a [u8])>,
}

/// Any frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all have content, and each is read where it comes"
)]
pub enum Frame<'a> {
    /// A hello.
    Hello(Hello),
    /// Content.
    Content(Content<'a>),
    /// Several packets, added.
    Parity(Parity<'a>),
}

/// Why octets are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Too short, or nothing that this version sends.
    Invalid,
    /// The check is wrong: the frame was damaged, or belongs to another life of an end.
    BadCheck,
    /// A hello of an end whose frames have a check of another length, in this format.
    OtherCheck(Format),
}

/// CRC-16 over pieces.
fn crc16(pieces: &[&[u8]]) -> u16 {
    let mut sum = Crc16Sum::new();
    for piece in pieces {
        sum.update(piece);
    }
    sum.finish()
}

fn check_of(check: SegmentCheck, session: Option<Session>, bytes: &[u8]) -> u32 {
    let session = session.map(Session::octets);
    let before = session.as_ref().map_or(&[][..], |octets| octets);
    match check {
        SegmentCheck::Short => crc16(&[before, bytes]).into(),
        SegmentCheck::Long => Crc32Sum::new().update(before).update(bytes).finish(),
    }
}

impl Hello {
    /// Appends the frame.
    pub fn emit(&self, check: SegmentCheck, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[
            HELLO,
            self.format.version(),
            if self.asks { ASKS } else { 0 } | if self.wide { WIDE } else { 0 },
        ]);
        out.extend_from_slice(&self.incarnation.to_be_bytes());
        out.extend_from_slice(&self.heard.to_be_bytes());
        let value = check_of(check, None, out.get(start..).unwrap_or_default());
        check.append(value, out);
    }

    /// Reads a whole frame. Its length tells which check it has.
    fn parse_checked(frame: &[u8], check: SegmentCheck) -> Result<Self, FrameError> {
        let other = match check {
            SegmentCheck::Short => SegmentCheck::Long,
            SegmentCheck::Long => SegmentCheck::Short,
        };
        let is_other = frame.len() == HELLO_OCTETS + other.octets();
        let own = if is_other { other } else { check };
        let end = frame.len().checked_sub(own.octets());
        let (body, tail) = frame
            .split_at_checked(end.ok_or(FrameError::Invalid)?)
            .ok_or(FrameError::Invalid)?;
        if own.read(tail) != check_of(own, None, body) {
            return Err(FrameError::BadCheck);
        }
        let hello = Self::parse(body).ok_or(FrameError::Invalid)?;
        if is_other {
            return Err(FrameError::OtherCheck(hello.format));
        }
        Ok(hello)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let flags = *bytes.get(2)?;
        if bytes.len() != HELLO_OCTETS {
            return None;
        }
        Some(Self {
            format: Format::of_version(*bytes.get(1)?)?,
            incarnation: u32_at(bytes, 3).filter(|incarnation| *incarnation != 0)?,
            heard: u32_at(bytes, 7)?,
            asks: flags & ASKS != 0,
            wide: flags & WIDE != 0,
        })
    }
}

impl Content<'_> {
    /// Appends the frame.
    pub fn emit(&self, check: SegmentCheck, session: Session, out: &mut Vec<u8>) {
        let start = out.len();
        out.push(self.flags());
        if let Some(ack) = &self.ack {
            out.extend_from_slice(&ack.next.to_be_bytes());
            out.extend_from_slice(&ack.newest.to_be_bytes());
            out.extend((!ack.map.is_narrow()).then(|| ack.map.head()));
            ack.map.emit(out);
        }
        out.extend(self.stop);
        out.extend(self.base.into_iter().flat_map(u16::to_be_bytes));
        if let Some((header, packet)) = &self.data {
            header.emit(out);
            out.extend_from_slice(packet);
        }
        let value = check_of(check, Some(session), out.get(start..).unwrap_or_default());
        check.append(value, out);
    }

    fn flags(&self) -> u8 {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let ack = match &self.ack {
            None => 0,
            Some(ack) if ack.map.is_narrow() => ACK | (ack.map.words() as u8) << 2,
            Some(_) => LONG_MAP,
        };
        CONTENT
            | flag(self.ack.is_some_and(|ack| ack.prompt), PROMPT)
            | flag(self.data.is_some(), DATA)
            | ack
            | flag(self.stop.is_some(), STOP)
            | flag(self.base.is_some(), BASE)
    }
}

impl DataHeader {
    /// Octets of it behind the serial.
    pub const REST_OCTETS: usize = 6;

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.seq.to_be_bytes());
        out.extend_from_slice(&self.serial.to_be_bytes());
        out.extend_from_slice(&self.rest());
    }

    /// What stands behind the serial.
    pub const fn rest(&self) -> [u8; Self::REST_OCTETS] {
        let [node, node_low] = self.ingress.node.to_be_bytes();
        let [serial, serial_low] = self.ingress.serial.to_be_bytes();
        let order = if self.ingress.ordered {
            Order::ORDERED
        } else {
            self.order.code()
        };
        let tag_order = self.tag << 5 | order;
        let lifetime = self.lifetime.code();
        [tag_order, lifetime, node, node_low, serial, serial_low]
    }

    /// One with these numbers, and what else it says at the start of `bytes`.
    pub fn with_rest(seq: u16, serial: u16, bytes: &[u8]) -> Option<Self> {
        let &[tag_order, lifetime] = &array_at::<2>(bytes, 0)?;
        Some(Self {
            seq,
            serial,
            tag: tag_order >> 5,
            order: Order::after(u16::from(tag_order & 31)),
            lifetime: Lifetime::from_code(lifetime),
            ingress: Ingress {
                node: u16_at(bytes, 2)?,
                serial: u16_at(bytes, 4)?,
                ordered: false,
            },
        })
    }

    /// It came from an end that tells orders of where packets came into the network.
    pub fn read_ordered(&mut self) {
        if self.order == Order::After(Order::ORDERED) {
            (self.order, self.ingress.ordered) = (Order::Any, true);
        }
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        Self::with_rest(u16_at(bytes, 0)?, u16_at(bytes, 2)?, bytes.get(4..)?)
    }
}

/// Reads a frame that came from a neighbour. `session` is the two incarnations as that neighbour
/// names them; without it, no content can be read.
///
/// # Errors
/// Why it is none.
pub fn parse(
    bytes: &[u8],
    check: SegmentCheck,
    session: Option<Session>,
) -> Result<Frame<'_>, FrameError> {
    let first = *bytes.first().ok_or(FrameError::Invalid)?;
    if first == HELLO {
        return Hello::parse_checked(bytes, check).map(Frame::Hello);
    }
    let end = bytes.len().checked_sub(check.octets());
    let (body, tail) = bytes
        .split_at_checked(end.ok_or(FrameError::Invalid)?)
        .ok_or(FrameError::Invalid)?;
    if first != PARITY && first & CONTENT == 0 {
        return Err(FrameError::Invalid);
    }
    if session.is_none() || check.read(tail) != check_of(check, session, body) {
        return Err(FrameError::BadCheck);
    }
    if first == PARITY {
        return Parity::parse(body, check).map(Frame::Parity);
    }
    parse_content(body)
        .map(Frame::Content)
        .ok_or(FrameError::Invalid)
}

fn parse_content(body: &[u8]) -> Option<Content<'_>> {
    let (&flags, mut rest) = body.split_first()?;
    let mut content = Content::default();
    let words = usize::from((flags & WORDS) >> 2);
    let is_long = flags & (ACK | WORDS) == LONG_MAP;
    if flags & ACK != 0 || is_long {
        let (fixed, map) = rest.split_at_checked(4)?;
        let (map, behind) = if is_long {
            Map::parse_wide(map)?
        } else {
            Map::parse(map, words)?
        };
        content.ack = Some(Ack {
            next: u16_at(fixed, 0)?,
            newest: u16_at(fixed, 2)?,
            map,
            prompt: flags & PROMPT != 0,
        });
        rest = behind;
    } else if flags & (PROMPT | WORDS) != 0 {
        return None;
    }
    if flags & STOP != 0 {
        let (&stop, behind) = rest.split_first()?;
        content.stop = Some(stop);
        rest = behind;
    }
    if flags & BASE != 0 {
        let (base, behind) = rest.split_first_chunk()?;
        content.base = Some(u16::from_be_bytes(*base));
        rest = behind;
    }
    if flags & DATA != 0 {
        let header = DataHeader::parse(rest)?;
        content.data = Some((header, rest.get(DATA_OCTETS..)?));
    } else if !rest.is_empty() {
        return None;
    }
    Some(content)
}
