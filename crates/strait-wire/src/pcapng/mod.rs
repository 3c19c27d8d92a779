//! Captures in the pcapng format (draft-ietf-opsawg-pcapng), with nanoseconds and packet comments.
//!
//! The writer appends blocks to a vector, little-endian: one [`section`], its [`interface`]s, then
//! [`packet`]s. The [`Reader`] walks the blocks of any such file, in either order of octets; a
//! [`Decoder`] does it piece by piece.

mod reader;
mod writer;

pub use reader::{
    Block, Decoder, INTERFACES_MAX, InterfaceBlock, PacketBlock, PcapngError, Reader,
};
pub use writer::{interface, packet, section};

pub use crate::frame::linktype;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Codes of the options written or read.
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const IF_NAME: u16 = 2;
    pub(super) const USER_APPLICATION: u16 = 4;
    pub(super) const IF_TSRESOL: u16 = 9;
    pub(super) const IF_TSOFFSET: u16 = 14;
}

#[cfg(test)]
mod tests;
