//! Reading blocks.

use super::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER, SIMPLE_PACKET, option,
};
use crate::bytes::array_at;
use alloc::vec::Vec;
use thiserror::Error;

/// The most interfaces of a section that the reader keeps in mind; real captures have a few.
pub const INTERFACES_MAX: usize = 1024;

/// Time resolution where an interface tells none: 10⁻⁶ s.
const MICROSECONDS: u8 = 6;

/// Why octets are no capture, or none this reader takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PcapngError {
    /// A block, or a field of one, ends beyond the octets.
    #[error("capture ends within a block")]
    Truncated,
    /// The octets don't begin with a section header, or its byte-order magic is neither of the two.
    #[error("no pcapng section header")]
    NoSection,
    /// A length that isn't a multiple of four, is too small, or differs at the end of its block.
    #[error("block length wrong")]
    BadLength,
    /// A major version other than 1.
    #[error("pcapng version isn't 1")]
    BadVersion,
    /// A packet of an interface that wasn't described.
    #[error("packet of an unknown interface")]
    UnknownInterface,
    /// More than [`INTERFACES_MAX`] interfaces in a section.
    #[error("too many interfaces")]
    TooManyInterfaces,
}

/// An interface as described.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceBlock<'a> {
    /// What its packets are; see [`linktype`](super::linktype).
    pub linktype: u16,
    /// The most octets kept of a packet; 0 for no limit.
    pub snaplen: u32,
    /// Its name, if told in UTF-8.
    pub name: Option<&'a str>,
}

/// A packet as captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketBlock<'a> {
    /// Number of its interface in this section.
    pub interface: u32,
    /// When, in nanoseconds, rounded down; `None` in a simple packet block. Times that 64 bits
    /// can't hold are the nearest that they can.
    pub time_ns: Option<u64>,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// Octets that it had.
    pub original_len: u32,
    /// Its first comment, if there is one in UTF-8.
    pub comment: Option<&'a str>,
}

/// A block of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// A section begins; interfaces count from 0 again.
    Section {
        /// The program that wrote it, if told in UTF-8.
        application: Option<&'a str>,
    },
    /// An interface; they are numbered as they come.
    Interface(InterfaceBlock<'a>),
    /// A packet, from an enhanced or a simple packet block.
    Packet(PacketBlock<'a>),
    /// Another block, passed over.
    Other {
        /// Its type.
        kind: u32,
    },
}

/// What the times and lengths of an interface's packets mean.
#[derive(Clone, Copy, Debug)]
struct Interface {
    snaplen: u32,
    /// Base and exponent of the time unit, as the format packs them.
    resolution: u8,
    offset_s: i64,
}

impl Interface {
    fn time_ns(self, ticks: u64) -> u64 {
        // What nearly all files have, without a division.
        let factor = match self.resolution {
            6 => Some(1000),
            9 => Some(1),
            _ => None,
        };
        if let (Some(factor), 0) = (factor, self.offset_s) {
            return ticks.saturating_mul(factor);
        }
        let exponent = u32::from(self.resolution & 0x7f);
        let base = if self.resolution & 0x80 == 0 {
            10_u128
        } else {
            2
        };
        // A unit too small for 128 bits makes every time round down to zero.
        let since = match base.checked_pow(exponent) {
            Some(per_second) => u128::from(ticks) * 1_000_000_000 / per_second,
            None => 0,
        };
        let offset_ns = i128::from(self.offset_s) * 1_000_000_000;
        let time_ns = i128::try_from(since)
            .unwrap_or(i128::MAX)
            .saturating_add(offset_ns);
        u64::try_from(time_ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// Octets of a section header that its block's length and order of octets stand in.
const HEAD_OCTETS: usize = 12;

/// Reads blocks one by one, for a capture that isn't in memory as a whole.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    big_endian: bool,
    interfaces: Vec<Interface>,
    in_section: bool,
}

impl Decoder {
    /// Octets of the block that `bytes` begin with, as its head says. Of a head that isn't all
    /// there, the octets that the head needs.
    ///
    /// # Errors
    /// The octets are no block.
    pub fn block_octets(&self, bytes: &[u8]) -> Result<usize, PcapngError> {
        let Some(head) = bytes.first_chunk::<HEAD_OCTETS>() else {
            return Ok(HEAD_OCTETS);
        };
        let mut decoder = Self {
            big_endian: self.big_endian,
            in_section: self.in_section,
            interfaces: Vec::new(),
        };
        decoder.kind(head)?;
        decoder.length(head)
    }

    /// Reads the block that `bytes` begin with and takes it off them.
    ///
    /// # Errors
    /// [`PcapngError::Truncated`] if not all of it is there; otherwise it is no block, or no right
    /// one, and nothing after it can be read.
    pub fn block<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Block<'a>, PcapngError> {
        let kind = self.kind(bytes)?;
        let body = self.cut(bytes)?;
        let fields = self.fields(body);
        match kind {
            SECTION_HEADER => self.section(fields),
            INTERFACE_DESCRIPTION => self.interface(fields),
            ENHANCED_PACKET => self.enhanced_packet(fields),
            SIMPLE_PACKET => self.simple_packet(fields),
            _ => Ok(Block::Other { kind }),
        }
    }

    const fn fields<'a>(&self, bytes: &'a [u8]) -> Fields<'a> {
        Fields {
            bytes,
            big_endian: self.big_endian,
        }
    }

    /// The type of the next block. A section header sets the order of octets.
    fn kind(&mut self, bytes: &[u8]) -> Result<u32, PcapngError> {
        // The type of a section header reads the same in either order of octets.
        let kind = self.fields(bytes).u32()?;
        if kind == SECTION_HEADER {
            let magic = array_at::<4>(bytes, 8).ok_or(PcapngError::Truncated)?;
            self.big_endian = match magic {
                magic if magic == BYTE_ORDER_MAGIC.to_le_bytes() => false,
                magic if magic == BYTE_ORDER_MAGIC.to_be_bytes() => true,
                _ => return Err(PcapngError::NoSection),
            };
            self.in_section = true;
        } else if !self.in_section {
            return Err(PcapngError::NoSection);
        }
        Ok(kind)
    }

    /// What the head of a block says of its length.
    fn length(&self, bytes: &[u8]) -> Result<usize, PcapngError> {
        let mut head = self.fields(bytes);
        head.u32()?;
        let length = head.u32()? as usize;
        if length < HEAD_OCTETS || !length.is_multiple_of(4) {
            return Err(PcapngError::BadLength);
        }
        Ok(length)
    }

    /// Takes the next block off the rest and gives what is between its two lengths.
    fn cut<'a>(&self, rest: &mut &'a [u8]) -> Result<&'a [u8], PcapngError> {
        let length = self.length(rest)?;
        let (block, after) = rest
            .split_at_checked(length)
            .ok_or(PcapngError::Truncated)?;
        let (body, tail) = block.split_at(length - 4);
        if self.fields(tail).u32()? as usize != length {
            return Err(PcapngError::BadLength);
        }
        *rest = after;
        Ok(&body[8..])
    }

    fn section<'a>(&mut self, mut fields: Fields<'a>) -> Result<Block<'a>, PcapngError> {
        fields.u32()?; // byte-order magic
        let major = fields.u16()?;
        fields.u16()?; // minor version
        fields.u64()?; // section length
        if major != 1 {
            return Err(PcapngError::BadVersion);
        }
        self.interfaces.clear();
        let mut application = None;
        fields.each_option(|code, value| {
            if code == option::USER_APPLICATION {
                application = application.or_else(|| text(value.bytes));
            }
        });
        Ok(Block::Section { application })
    }

    fn interface<'a>(&mut self, mut fields: Fields<'a>) -> Result<Block<'a>, PcapngError> {
        if self.interfaces.len() >= INTERFACES_MAX {
            return Err(PcapngError::TooManyInterfaces);
        }
        let linktype = fields.u16()?;
        fields.u16()?; // reserved
        let snaplen = fields.u32()?;
        let mut kept = Interface {
            snaplen,
            resolution: MICROSECONDS,
            offset_s: 0,
        };
        let mut name = None;
        fields.each_option(|code, mut value| match code {
            option::IF_NAME => name = name.or_else(|| text(value.bytes)),
            option::IF_TSRESOL => {
                kept.resolution = value.bytes.first().copied().unwrap_or(kept.resolution);
            }
            option::IF_TSOFFSET => {
                kept.offset_s = value.u64().map_or(kept.offset_s, u64::cast_signed);
            }
            _ => {}
        });
        self.interfaces.push(kept);
        Ok(Block::Interface(InterfaceBlock {
            linktype,
            snaplen,
            name,
        }))
    }

    fn enhanced_packet<'a>(&self, mut fields: Fields<'a>) -> Result<Block<'a>, PcapngError> {
        let number = fields.u32()?;
        let upper = u64::from(fields.u32()?);
        let ticks = upper << 32 | u64::from(fields.u32()?);
        let captured = fields.u32()? as usize;
        let original_len = fields.u32()?;
        let interface = self.interface_number(number)?;
        let bytes = fields.padded(captured)?;
        let mut comment = None;
        fields.each_option(|code, value| {
            if code == option::COMMENT {
                comment = comment.or_else(|| text(value.bytes));
            }
        });
        let time_ns = Some(interface.time_ns(ticks));
        Ok(Block::Packet(PacketBlock {
            interface: number,
            time_ns,
            bytes,
            original_len,
            comment,
        }))
    }

    fn simple_packet<'a>(&self, mut fields: Fields<'a>) -> Result<Block<'a>, PcapngError> {
        let original_len = fields.u32()?;
        let interface = self.interface_number(0)?;
        let captured = match interface.snaplen {
            0 => original_len,
            limit => original_len.min(limit),
        };
        let bytes = fields.padded(captured as usize)?;
        Ok(Block::Packet(PacketBlock {
            interface: 0,
            time_ns: None,
            bytes,
            original_len,
            comment: None,
        }))
    }

    fn interface_number(&self, number: u32) -> Result<Interface, PcapngError> {
        self.interfaces
            .get(number as usize)
            .copied()
            .ok_or(PcapngError::UnknownInterface)
    }
}

/// Walks over the blocks of a capture; after the first error it ends.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    decoder: Decoder,
}

impl<'a> Reader<'a> {
    /// A reader of a whole capture, or of its beginning.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            decoder: Decoder::default(),
        }
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Block<'a>, PcapngError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let block = self.decoder.block(&mut self.rest);
        if block.is_err() {
            self.rest = &[];
        }
        Some(block)
    }
}

fn text(value: &[u8]) -> Option<&str> {
    core::str::from_utf8(value).ok()
}

/// Fields read one after the other in the section's order of octets.
#[derive(Clone, Copy)]
struct Fields<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], PcapngError> {
        let (value, rest) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or(PcapngError::Truncated)?;
        self.bytes = rest;
        let mut value = *value;
        if self.big_endian {
            value.reverse();
        }
        Ok(value)
    }

    fn u16(&mut self) -> Result<u16, PcapngError> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, PcapngError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, PcapngError> {
        self.array().map(u64::from_le_bytes)
    }

    /// `length` octets and what fills them up to a multiple of four.
    fn padded(&mut self, length: usize) -> Result<&'a [u8], PcapngError> {
        let filled = length
            .checked_next_multiple_of(4)
            .ok_or(PcapngError::Truncated)?;
        let (value, rest) = self
            .bytes
            .split_at_checked(filled)
            .ok_or(PcapngError::Truncated)?;
        self.bytes = rest;
        Ok(&value[..length])
    }

    /// Tells each option; a list that breaks off is a list that ends, for options are a courtesy.
    fn each_option(mut self, mut tell: impl FnMut(u16, Self)) {
        while let Ok(code) = self.u16() {
            let Ok(length) = self.u16() else { return };
            if code == option::END {
                return;
            }
            let Ok(bytes) = self.padded(length.into()) else {
                return;
            };
            tell(code, Self { bytes, ..self });
        }
    }
}
