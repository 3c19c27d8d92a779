//! Captures in the older pcap format (draft-ietf-opsawg-pcap): one file header, then records, each
//! with a header of its own.

use crate::bytes::array_at;
use thiserror::Error;

/// Octets of the file header.
pub const FILE_HEADER_OCTETS: usize = 24;
/// Octets before each packet.
pub const RECORD_HEADER_OCTETS: usize = 16;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;

/// Why octets are no capture of this format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PcapError {
    /// A header ends beyond the octets.
    #[error("capture ends within a header")]
    Truncated,
    /// The first four octets are no magic number of this format.
    #[error("no pcap file header")]
    BadMagic,
    /// A major version other than 2.
    #[error("pcap version isn't 2")]
    BadVersion,
}

/// What the file header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// What all packets are; see [`linktype`](crate::frame::linktype).
    pub linktype: u16,
    /// The most octets kept of a packet; 0 for no limit.
    pub snaplen: u32,
    big_endian: bool,
    /// Nanoseconds in the smaller unit of times.
    unit_ns: u64,
}

/// What stands before a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// Octets that follow.
    pub captured: u32,
    /// Octets that the packet had.
    pub original_len: u32,
}

impl FileHeader {
    /// Reads the header that `bytes` begin with.
    ///
    /// # Errors
    /// Why they are no such capture.
    pub fn parse(bytes: &[u8]) -> Result<Self, PcapError> {
        let magic = array_at::<4>(bytes, 0).ok_or(PcapError::Truncated)?;
        let (big_endian, unit_ns) = match (u32::from_be_bytes(magic), u32::from_le_bytes(magic)) {
            (MICROSECONDS, _) => (true, 1000),
            (NANOSECONDS, _) => (true, 1),
            (_, MICROSECONDS) => (false, 1000),
            (_, NANOSECONDS) => (false, 1),
            _ => return Err(PcapError::BadMagic),
        };
        let mut header = Self {
            linktype: 0,
            snaplen: 0,
            big_endian,
            unit_ns,
        };
        // Two 16-bit versions in one word.
        let versions = header.u32(bytes, 4)?;
        let major = if big_endian {
            versions >> 16
        } else {
            versions & 0xffff
        };
        if major != 2 {
            return Err(PcapError::BadVersion);
        }
        header.snaplen = header.u32(bytes, 16)?;
        // The upper half tells of frame checks, which the packet's own length leaves out anyway.
        header.linktype = header.u32(bytes, 20)? as u16;
        Ok(header)
    }

    /// Reads the record header that `bytes` begin with.
    ///
    /// # Errors
    /// [`PcapError::Truncated`].
    pub fn record(&self, bytes: &[u8]) -> Result<RecordHeader, PcapError> {
        let seconds = u64::from(self.u32(bytes, 0)?);
        let units = u64::from(self.u32(bytes, 4)?);
        Ok(RecordHeader {
            time_ns: seconds * 1_000_000_000 + units * self.unit_ns,
            captured: self.u32(bytes, 8)?,
            original_len: self.u32(bytes, 12)?,
        })
    }

    fn u32(&self, bytes: &[u8], at: usize) -> Result<u32, PcapError> {
        let octets = array_at::<4>(bytes, at).ok_or(PcapError::Truncated)?;
        Ok(if self.big_endian {
            u32::from_be_bytes(octets)
        } else {
            u32::from_le_bytes(octets)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const LITTLE: [u8; 24] = [
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 113, 0, 0, 0,
    ];
    const BIG: [u8; 24] = [
        0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xf4, 0, 0, 1,
    ];

    #[test]
    fn literal_headers_in_both_orders_and_units() {
        let little = FileHeader::parse(&LITTLE).unwrap();
        assert_eq!((little.linktype, little.snaplen), (113, 65_535));
        let record = [1, 0, 0, 0, 2, 0, 0, 0, 60, 0, 0, 0, 0xdc, 5, 0, 0];
        assert_eq!(
            little.record(&record),
            Ok(RecordHeader {
                time_ns: 1_000_002_000,
                captured: 60,
                original_len: 1500
            })
        );
        let big = FileHeader::parse(&BIG).unwrap();
        assert_eq!((big.linktype, big.snaplen), (1, 65_535));
        let record = [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 60, 0, 0, 5, 0xdc];
        assert_eq!(big.record(&record).unwrap().time_ns, 1_000_000_002);
        assert_eq!(big.record(&record).unwrap().original_len, 1500);
    }

    #[test]
    fn what_is_wrong_is_told() {
        for length in 0..24 {
            assert_eq!(
                FileHeader::parse(&LITTLE[..length]),
                Err(PcapError::Truncated)
            );
        }
        let mut wrong = LITTLE;
        wrong[4] = 1;
        assert_eq!(FileHeader::parse(&wrong), Err(PcapError::BadVersion));
        wrong[0] = 0;
        assert_eq!(FileHeader::parse(&wrong), Err(PcapError::BadMagic));
        let header = FileHeader::parse(&LITTLE).unwrap();
        assert_eq!(header.record(&[0; 15]), Err(PcapError::Truncated));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(head: Vec<u8>, big: bool, rest: [u8; 20], record: [u8; 16]) {
            let _ = FileHeader::parse(&head);
            let start = if big { &BIG } else { &LITTLE };
            let octets = [&start[..4], &rest[..]].concat();
            if let Ok(header) = FileHeader::parse(&octets) {
                prop_assert!(header.record(&record).is_ok());
            }
        }
    }
}
