//! The fixed header of the real-time transport protocol, RFC 3550 section 5.1.

use crate::bytes::{u16_at, u32_at};
use alloc::vec::Vec;
use thiserror::Error;

/// Octets of the fixed header.
pub const HEADER_OCTETS: usize = 12;

/// Why octets are no RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RtpError {
    /// The octets end before the header, its contributing sources, its extension or its padding do.
    #[error("RTP packet too short")]
    Truncated,
    /// The version isn't 2.
    #[error("RTP version isn't 2")]
    BadVersion,
}

/// What the fixed header says, without contributing sources and extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtpHeader {
    /// Payload type, 0 … 127.
    pub payload_type: u8,
    /// Marker; for voice the first packet after silence.
    pub marker: bool,
    /// Sequence number, one more with each packet, modulo 2^16.
    pub sequence: u16,
    /// Sampling time in units of the payload's clock, modulo 2^32.
    pub timestamp: u32,
    /// Synchronisation source.
    pub ssrc: u32,
}

impl RtpHeader {
    /// Reads the header and gives the payload after it: contributing sources, the extension and
    /// padding are checked and left out.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), RtpError> {
        let fixed = bytes
            .first_chunk::<HEADER_OCTETS>()
            .ok_or(RtpError::Truncated)?;
        if fixed[0] >> 6 != 2 {
            return Err(RtpError::BadVersion);
        }
        let mut start = HEADER_OCTETS + 4 * usize::from(fixed[0] & 0x0f);
        if fixed[0] & 0x10 != 0 {
            let words = u16_at(bytes, start + 2).ok_or(RtpError::Truncated)?;
            start += 4 + 4 * usize::from(words);
        }
        let mut payload = bytes.get(start..).ok_or(RtpError::Truncated)?;
        if fixed[0] & 0x20 != 0 {
            payload = without_padding(payload).ok_or(RtpError::Truncated)?;
        }
        let header = Self {
            payload_type: fixed[1] & 0x7f,
            marker: fixed[1] & 0x80 != 0,
            sequence: u16_at(fixed, 2).unwrap_or_default(),
            timestamp: u32_at(fixed, 4).unwrap_or_default(),
            ssrc: u32_at(fixed, 8).unwrap_or_default(),
        };
        Ok((header, payload))
    }

    /// Appends the header to `out`: version 2, no padding, no extension, no contributing sources.
    /// Of the payload type only seven bits are sent.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[
            0x80,
            u8::from(self.marker) << 7 | (self.payload_type & 0x7f),
        ]);
        out.extend_from_slice(&self.sequence.to_be_bytes());
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        out.extend_from_slice(&self.ssrc.to_be_bytes());
    }
}

/// The last octet of padding counts all of it, itself included, so it is at least one.
fn without_padding(payload: &[u8]) -> Option<&[u8]> {
    let padding = usize::from(*payload.last()?);
    if padding == 0 {
        return None;
    }
    payload.get(..payload.len().checked_sub(padding)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literal_octets_read_and_written() {
        let octets = [
            0x80, 0xe0, 0x12, 0x34, 0x00, 0x00, 0x06, 0x40, 0xde, 0xad, 0xbe, 0xef, 0x01, 0x02,
        ];
        let header = RtpHeader {
            payload_type: 96,
            marker: true,
            sequence: 0x1234,
            timestamp: 1600,
            ssrc: 0xdead_beef,
        };
        assert_eq!(RtpHeader::parse(&octets), Ok((header, &[1_u8, 2][..])));
        let mut out = Vec::new();
        header.emit(&mut out);
        assert_eq!(out, octets[..12]);
    }

    #[test]
    fn sources_extension_and_padding_are_left_out() {
        let mut octets = alloc::vec![0xb1, 0x00, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        octets.extend_from_slice(&[9, 9, 9, 9]); // one contributing source
        octets.extend_from_slice(&[0xbe, 0xde, 0, 1, 7, 7, 7, 7]); // extension of one word
        octets.extend_from_slice(&[0x55, 0x66, 0, 0, 3]); // two octets, three of padding
        assert_eq!(
            RtpHeader::parse(&octets).map(|read| read.1),
            Ok(&[0x55_u8, 0x66][..])
        );
        for padding in [0, 6] {
            *octets.last_mut().unwrap() = padding;
            assert_eq!(RtpHeader::parse(&octets), Err(RtpError::Truncated));
        }
        for length in 0..24 {
            assert_eq!(
                RtpHeader::parse(&octets[..length]),
                Err(RtpError::Truncated),
                "{length}"
            );
        }
    }

    #[test]
    fn another_version_is_refused() {
        assert_eq!(RtpHeader::parse(&[0x40; 12]), Err(RtpError::BadVersion));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(bytes: Vec<u8>) {
            let _ = RtpHeader::parse(&bytes);
        }

        #[test]
        fn a_written_header_reads_back(
            payload_type in 0..128_u8, marker: bool, sequence: u16, timestamp: u32, ssrc: u32,
            payload: Vec<u8>,
        ) {
            let header = RtpHeader { payload_type, marker, sequence, timestamp, ssrc };
            let mut out = Vec::new();
            header.emit(&mut out);
            out.extend_from_slice(&payload);
            prop_assert_eq!(RtpHeader::parse(&out), Ok((header, &payload[..])));
        }
    }
}
