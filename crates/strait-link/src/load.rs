//! A load for measuring how fast headers are compressed. It holds no clock: who runs it has one.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use strait_wire::ip::{build_udp, verify_transport_checksum};

use crate::rohc::{Cids, Compressor, Decompressor, Received, Settings};

/// Calls that the packets belong to.
const CALLS: u16 = 8;
/// Packets of each call in one batch.
const PACKETS_A_CALL: u16 = 512;
/// Packets of one batch.
pub const BATCH: usize = CALLS as usize * PACKETS_A_CALL as usize;
/// Three frames of a vocoder of 1200 bit/s.
const SPEECH_OCTETS: usize = 31;
/// Timestamps of packets 200 ms apart.
const TIMESTAMP_STEP: u32 = 1600;

/// Packets of eight calls in turn (RTP, UDP, IPv6), 91 octets each, between one compressor and one
/// decompressor, which acknowledges at first.
pub struct Calls {
    sequence: u16,
    timestamp: u32,
    packets: Vec<Vec<u8>>,
    lines: Vec<Vec<u8>>,
    restored: Vec<u8>,
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Default for Calls {
    fn default() -> Self {
        let settings = Settings::new(Cids::Small(15));
        let mut calls = Self {
            sequence: 0,
            timestamp: 0,
            packets: alloc::vec![Vec::new(); BATCH],
            lines: alloc::vec![Vec::new(); BATCH],
            restored: Vec::new(),
            compressor: Compressor::new(settings),
            decompressor: Decompressor::new(settings),
        };
        calls.prepare();
        calls
    }
}

impl Calls {
    /// Makes the next packets of every call.
    pub fn prepare(&mut self) {
        for batch in self.packets.chunks_mut(usize::from(CALLS)) {
            self.sequence = self.sequence.wrapping_add(1);
            self.timestamp = self.timestamp.wrapping_add(TIMESTAMP_STEP);
            for (call, packet) in (0..CALLS).zip(batch) {
                packet.clear();
                speech(call, self.sequence, self.timestamp, packet);
            }
        }
    }

    /// Compresses the batch; the octets that all of it takes.
    pub fn compress(&mut self) -> usize {
        for (packet, line) in self.packets.iter().zip(&mut self.lines) {
            line.clear();
            self.compressor.compress(0, packet, line);
        }
        self.lines.iter().map(Vec::len).sum()
    }

    /// Decompresses what was compressed; how many came out.
    pub fn decompress(&mut self) -> usize {
        let mut told = 0;
        for line in &self.lines {
            self.restored.clear();
            let received = self
                .decompressor
                .decompress(line, &mut self.restored, |_| {});
            told += usize::from(received == Ok(Received::Packet));
        }
        told
    }

    /// Hands what the decompressor has to say to the compressor.
    pub fn hear(&mut self) {
        let mut feedback = Vec::new();
        while self.decompressor.put_feedback(&mut feedback) {
            let compressor = &mut self.compressor;
            let mut other = Decompressor::new(Settings::new(Cids::Small(15)));
            let mut none = Vec::new();
            // Nothing but feedback is in it.
            let _ = other.decompress(&feedback, &mut none, |element| compressor.hear(element));
            feedback.clear();
        }
    }

    /// The least that anybody does with such packets: copies each and verifies its checksum; how
    /// many were right.
    pub fn copy(&mut self) -> usize {
        let mut right = 0;
        for packet in &self.packets {
            self.restored.clear();
            self.restored.extend_from_slice(packet);
            right += usize::from(verify_transport_checksum(&self.restored) == Some(true));
        }
        right
    }
}

fn speech(call: u16, sequence: u16, timestamp: u32, out: &mut Vec<u8>) {
    let end = |net, port| {
        let address = Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, call + 1);
        SocketAddr::new(IpAddr::V6(address), port)
    };
    let mut rtp = [0x5a; 12 + SPEECH_OCTETS];
    rtp[..2].copy_from_slice(&[0x80, 96]);
    rtp[2..4].copy_from_slice(&sequence.to_be_bytes());
    rtp[4..8].copy_from_slice(&timestamp.to_be_bytes());
    rtp[8..12].copy_from_slice(&u32::from(call).to_be_bytes());
    build_udp(end(0x10, 5004), end(0x20, 5004), 46, 64, 0, 0, &rtp, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_comes_back_and_takes_three_or_four_octets_of_header() {
        let mut calls = Calls::default();
        for round in 0..3 {
            calls.prepare();
            let octets = calls.compress();
            assert_eq!(calls.decompress(), BATCH);
            assert_eq!(calls.restored, calls.packets[BATCH - 1]);
            // The first call has the context whose number costs nothing.
            let steady = BATCH * (SPEECH_OCTETS + 4) - BATCH / usize::from(CALLS);
            assert!(round == 0 || octets <= steady + steady / 100, "{octets}");
            calls.hear();
        }
        assert_eq!(calls.copy(), BATCH);
    }
}
