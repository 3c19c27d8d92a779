//! Both ends of one neighbour.

use alloc::vec::Vec;

use strait_core::Instant;

use super::{Beyond, Compressor, Decompressor, Fault, Profile, Provision, Received, Settings};

/// Compressor and decompressor of one neighbour, with the feedback between them: what this end has
/// to tell goes ahead of the next packet.
#[derive(Debug)]
pub struct Peer {
    compressor: Compressor,
    decompressor: Decompressor,
}

impl Peer {
    /// Both ends without contexts.
    pub fn new(settings: Settings) -> Self {
        Self {
            compressor: Compressor::new(settings),
            decompressor: Decompressor::new(settings),
        }
    }

    /// Begins anew with other settings.
    pub fn renew(&mut self, settings: Settings) {
        self.compressor.renew(settings);
        self.decompressor = Decompressor::new(settings);
    }

    /// Forgets every context.
    pub fn reset(&mut self) {
        self.forget_sent();
        self.forget_received();
    }

    /// Forgets what the other end was told: it has forgotten that itself.
    pub fn forget_sent(&mut self) {
        self.compressor.reset();
    }

    /// Forgets what the other end has told.
    pub fn forget_received(&mut self) {
        self.decompressor.reset();
    }

    /// What the other end does beyond the standard, and what it takes for known here.
    pub fn agree(&mut self, beyond: &Beyond, received: &[Provision]) {
        self.compressor.agree(beyond);
        self.decompressor.agree(received, beyond);
    }

    /// Says what time it is; see [`Compressor::tell_time`].
    pub const fn tell_time(&mut self, now: Instant) {
        self.compressor.tell_time(now);
    }

    /// Says of which classes a packet is half sent; see [`Compressor::tell_half_sent`].
    pub const fn tell_half_sent(&mut self, classes: u32) {
        self.compressor.tell_half_sent(classes);
    }

    /// Appends `packet` compressed, behind feedback that is due; see [`Compressor::compress`].
    pub fn compress(&mut self, class: u8, packet: &[u8], out: &mut Vec<u8>) -> Profile {
        self.decompressor.put_feedback(out);
        self.compressor.compress(class, packet, out)
    }

    /// The same without feedback, which another packet or one of its own takes along.
    pub fn compress_alone(&mut self, class: u8, packet: &[u8], out: &mut Vec<u8>) -> Profile {
        self.compressor.compress(class, packet, out)
    }

    /// Appends the packet that `line` stands for, and takes in the feedback it carries; see
    /// [`Decompressor::decompress`].
    pub fn decompress(&mut self, line: &[u8], out: &mut Vec<u8>) -> Result<Received, Fault> {
        let compressor = &mut self.compressor;
        let received = self
            .decompressor
            .decompress(line, out, |feedback| compressor.hear(feedback));
        if received.is_ok() {
            self.compressor.note_heard();
        }
        received
    }

    /// The flows over UDP, one sent and one received, that have become ones that last
    /// ([`LASTING_PACKETS`](super::LASTING_PACKETS)) since this was asked last.
    pub const fn take_lasting(&mut self) -> [Option<Provision>; 2] {
        [
            self.compressor.take_lasting(),
            self.decompressor.take_lasting(),
        ]
    }

    /// Appends one element of feedback that is due, as a packet of its own.
    pub fn put_feedback(&mut self, out: &mut Vec<u8>) -> bool {
        self.decompressor.put_feedback(out)
    }

    /// Whether feedback waits for a packet that takes it along.
    pub fn owes_feedback(&self) -> bool {
        self.decompressor.owes_feedback()
    }
}
