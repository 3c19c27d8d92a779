//! Captures that the pattern CLONE repeats: sizes and gaps of their frames.

use strait_wire::mgen::{OCTETS_MIN, UDP_OCTETS_MAX};
use strait_wire::pcap::{FILE_HEADER_OCTETS, FileHeader, RECORD_HEADER_OCTETS};
use strait_wire::pcapng;

/// A message that stands for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cloned {
    /// After the frame before.
    pub gap_ns: u64,
    /// Octets of the message: those of the frame without Ethernet, IPv4 and UDP headers.
    pub octets: u32,
}

/// Why a file is no capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// It begins like none.
    #[error("it is no capture: tcpdump's own format and pcapng are read")]
    Format,
    /// It has no frame.
    #[error("no frame is in it")]
    Empty,
}

/// Octets of Ethernet, IPv4 and UDP headers, as MGEN takes them off.
const HEADERS_OCTETS: u32 = 42;
/// Frames of a capture that are repeated: half an hour of 1000 a second.
const FRAMES_MAX: usize = 2_000_000;

/// The messages of a capture in the format of `tcpdump` (both octet orders, micro- or
/// nanoseconds) or pcapng. What is cut off at the end isn't there; what comes after two million
/// frames is left out.
///
/// # Errors
/// [`CaptureError`] if it is none.
pub fn read_capture(bytes: &[u8]) -> Result<Vec<Cloned>, CaptureError> {
    let mut last = None;
    let mut cloned = |at_ns: u64, octets: u32| {
        let before = last.replace(at_ns).unwrap_or(at_ns);
        let octets = octets.saturating_sub(HEADERS_OCTETS);
        Cloned {
            gap_ns: at_ns.saturating_sub(before),
            octets: octets.clamp(OCTETS_MIN as u32, UDP_OCTETS_MAX as u32),
        }
    };
    let messages: Vec<Cloned> = match FileHeader::parse(bytes) {
        Ok(header) => {
            let rest = bytes.get(FILE_HEADER_OCTETS..).unwrap_or_default();
            let frames = Frames { header, rest }.take(FRAMES_MAX);
            frames
                .map(|(at_ns, octets)| cloned(at_ns, octets))
                .collect()
        }
        Err(_) if bytes.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) => pcapng::Reader::new(bytes)
            .filter_map(|block| match block {
                Ok(pcapng::Block::Packet(packet)) => Some(packet),
                _ => None,
            })
            .take(FRAMES_MAX)
            .map(|packet| cloned(packet.time_ns.unwrap_or(0), packet.original_len))
            .collect(),
        Err(_) => return Err(CaptureError::Format),
    };
    if messages.is_empty() {
        return Err(CaptureError::Empty);
    }
    Ok(messages)
}

/// Time and length of each frame.
struct Frames<'a> {
    header: FileHeader,
    rest: &'a [u8],
}

impl Iterator for Frames<'_> {
    type Item = (u64, u32);

    fn next(&mut self) -> Option<(u64, u32)> {
        let record = self.header.record(self.rest).ok()?;
        let frame = self.rest.get(RECORD_HEADER_OCTETS..)?;
        self.rest = frame.get(record.captured as usize..)?;
        Some((record.time_ns, record.original_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Three frames of 142, 60 and 1042 octets, of which 4, 0 and 1 are stored.
    fn capture() -> Vec<u8> {
        let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        bytes.resize(24, 0);
        for (seconds, micros, stored, octets) in [
            (7u32, 999_000u32, 4u32, 142u32),
            (8, 1000, 0, 60),
            (8, 1500, 1, 1042),
        ] {
            for word in [seconds, micros, stored, octets] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            bytes.resize(bytes.len() + stored as usize, 0xee);
        }
        bytes
    }

    #[test]
    fn frames_become_messages() {
        let expected = [(0, 100), (2_000_000, 28), (500_000, 1000)];
        let expected = expected.map(|(gap_ns, octets)| Cloned { gap_ns, octets });
        assert_eq!(read_capture(&capture()), Ok(expected.to_vec()));
        let short = capture();
        assert_eq!(
            read_capture(&short[..short.len() - 1]),
            Ok(expected[..2].to_vec())
        );
        assert_eq!(read_capture(&short[..24]), Err(CaptureError::Empty));
        assert_eq!(read_capture(b"#!/bin/sh"), Err(CaptureError::Format));
    }

    #[test]
    fn pcapng_as_well() {
        let mut bytes = Vec::new();
        pcapng::section(&mut bytes, "test");
        pcapng::interface(&mut bytes, 1, 0, "eth0");
        pcapng::packet(&mut bytes, 0, 1_000_000_000, &[0; 142], 142, None);
        pcapng::packet(&mut bytes, 0, 1_003_000_000, &[0; 92], 92, None);
        let expected = [(0, 100), (3_000_000, 50)];
        let expected = expected.map(|(gap_ns, octets)| Cloned { gap_ns, octets });
        assert_eq!(read_capture(&bytes), Ok(expected.to_vec()));
    }

    proptest! {
        #[test]
        fn any_octets_are_judged(magic in 0..5_usize, bytes: Vec<u8>) {
            let mut all = capture()[..if magic == 4 { 0 } else { 24 }].to_vec();
            all.extend(bytes);
            let _ = read_capture(&all);
        }
    }
}
