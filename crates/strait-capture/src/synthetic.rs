//! A capture made up for measurements, of any length, without a file.

use std::io::{self, Read};

use strait_core::chance::Stream;
use strait_wire::hash::hash64;
use strait_wire::pcap::{FILE_HEADER_OCTETS, FileHeader, RECORD_HEADER_OCTETS};

/// Octets of the RTP packets of a call with 20 ms of G.711.
const VOICE_OCTETS: usize = 200;
/// Calls at the same time.
const CALLS: usize = 40;
/// Flows of bulk traffic at the same time.
const FLOWS: u64 = 1000;
/// Nanoseconds between two packets.
const GAP_NS: u64 = 20_000;
/// Octets of the Ethernet header.
const ETHERNET: usize = 14;

/// A capture in the nanosecond pcap format, as long as it is read: Ethernet, IPv4, a third voice
/// over RTP, the rest UDP of 1000 flows in five classes, with sizes from 60 octets up.
#[derive(Debug)]
pub struct Synthetic {
    chance: Stream,
    /// Octets of the longest packet, without Ethernet.
    octets_max: usize,
    /// Packets still to come.
    packets: u64,
    made: u64,
    delay_ns: u64,
    /// The next sequence number of each call.
    sequences: [u32; CALLS],
    buffer: Vec<u8>,
    used: usize,
}

impl Synthetic {
    /// A capture of so many packets of up to `octets_max` octets, each `delay_ns` late. With the
    /// same seed the packets are the same.
    pub fn new(seed: u64, packets: u64, octets_max: usize, delay_ns: u64) -> Self {
        let mut buffer = Vec::new();
        buffer.extend_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
        buffer.extend_from_slice(&[
            2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0,
        ]);
        Self {
            chance: Stream::new(seed, "analyse/synthetic"),
            octets_max: octets_max.clamp(VOICE_OCTETS, 1500),
            packets,
            made: 0,
            delay_ns,
            sequences: [0; CALLS],
            buffer,
            used: 0,
        }
    }

    /// Puts the next packet into the buffer.
    fn make(&mut self) {
        let draw = self.chance.draw();
        let number = self.made;
        self.made += 1;
        let voice = draw.is_multiple_of(3);
        let octets = if voice {
            VOICE_OCTETS
        } else {
            60 + (draw >> 8) as usize % (self.octets_max - 59)
        };
        self.buffer.clear();
        self.used = 0;
        let time_ns = 1_000_000_000_000 + number * GAP_NS + self.delay_ns;
        for field in [
            (time_ns / 1_000_000_000) as u32,
            (time_ns % 1_000_000_000) as u32,
            (octets + ETHERNET) as u32,
            (octets + ETHERNET) as u32,
        ] {
            self.buffer.extend_from_slice(&field.to_le_bytes());
        }
        self.buffer
            .extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        let flow = (draw >> 32) % FLOWS;
        let class = if voice {
            46
        } else {
            [0, 0, 10, 18, 34][flow as usize % 5]
        };
        self.buffer.extend_from_slice(&[0x45, class << 2]);
        self.buffer
            .extend_from_slice(&(octets as u16).to_be_bytes());
        self.buffer
            .extend_from_slice(&(number as u16).to_be_bytes());
        self.buffer
            .extend_from_slice(&[0x40, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
        if voice {
            self.voice(draw >> 40, octets);
        } else {
            let port = 10_000 + flow as u16;
            self.buffer.extend_from_slice(&port.to_be_bytes());
            self.buffer.extend_from_slice(&[0x13, 0x89]);
            self.buffer
                .extend_from_slice(&(octets as u16 - 20).to_be_bytes());
            self.buffer.extend_from_slice(&[0, 0]);
            self.buffer.extend_from_slice(&number.to_be_bytes());
        }
        self.buffer.resize(16 + ETHERNET + octets, number as u8);
    }

    /// UDP and RTP headers of one of the calls.
    fn voice(&mut self, draw: u64, octets: usize) {
        let call = draw as usize % CALLS;
        let sequence = self.sequences[call];
        self.sequences[call] += 1;
        self.buffer
            .extend_from_slice(&(20_000 + 2 * call as u16).to_be_bytes());
        self.buffer.extend_from_slice(&[0x13, 0x8c]);
        self.buffer
            .extend_from_slice(&(octets as u16 - 20).to_be_bytes());
        self.buffer.extend_from_slice(&[0, 0, 0x80, 0]);
        self.buffer
            .extend_from_slice(&(sequence as u16).to_be_bytes());
        self.buffer
            .extend_from_slice(&(sequence.wrapping_mul(160)).to_be_bytes());
        self.buffer.extend_from_slice(&(call as u32).to_be_bytes());
    }
}

impl Read for Synthetic {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < room.len() {
            if self.used == self.buffer.len() {
                if self.made == self.packets {
                    break;
                }
                self.make();
            }
            let octets = (self.buffer.len() - self.used).min(room.len() - written);
            room[written..written + octets]
                .copy_from_slice(&self.buffer[self.used..self.used + octets]);
            self.used += octets;
            written += octets;
        }
        Ok(written)
    }
}

/// The least that any reader of a capture does: it goes from packet to packet and looks at each
/// octet once. Gives the number of packets and a hash over all; of what is no capture, nothing.
pub fn bare_walk(capture: &[u8]) -> (u64, u64) {
    let (mut packets, mut hash) = (0, 0);
    let Ok(header) = FileHeader::parse(capture) else {
        return (packets, hash);
    };
    let mut rest = capture.get(FILE_HEADER_OCTETS..).unwrap_or_default();
    while let Ok(record) = header.record(rest) {
        let end = RECORD_HEADER_OCTETS + record.captured as usize;
        let Some(octets) = rest.get(RECORD_HEADER_OCTETS..end) else {
            break;
        };
        packets += 1;
        hash = hash64(hash, octets);
        rest = &rest[end..];
    }
    (packets, hash)
}
