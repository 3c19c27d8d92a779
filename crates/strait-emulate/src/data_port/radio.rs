//! What a modem's data port knows of its radio: what it sends by, how far a transmission is, and
//! what reaches its receiver.

use strait_core::time::{Duration, Instant};
use strait_core::waveform::Mode;

/// Octets that wait in a modem at most.
pub(super) const QUEUE_OCTETS_MAX: usize = 1 << 16;

/// The radio.
#[derive(Debug)]
pub(super) struct Radio {
    /// What it sends by, until it is told otherwise.
    own: Mode,
    /// What it is to send by.
    pub(super) mode: Mode,
    /// From keying to the first block.
    lead: Duration,
    /// While it receives, it begins no transmission (A.5.1.2.7.2).
    pub(super) receiver_first: bool,
    /// Others' power is there, and the waveform that was heard last.
    pub(super) carrier: bool,
    pub(super) heard: Mode,
    pub(super) turn: Option<OnAir>,
}

/// A transmission under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct OnAir {
    mode: Mode,
    /// When its first block begins.
    data: Instant,
    /// Octets that it was given.
    given: u64,
    /// No others come.
    pub(super) closed: bool,
}

impl Radio {
    pub(super) const fn new(own: Mode, lead: Duration, receiver_first: bool) -> Self {
        Self {
            own,
            mode: own,
            lead,
            receiver_first,
            carrier: false,
            heard: own,
            turn: None,
        }
    }

    /// Nobody has control any more.
    pub(super) const fn reset(&mut self) {
        self.mode = self.own;
    }

    pub(super) fn key_up(&mut self, now: Instant) {
        self.turn = Some(OnAir {
            mode: self.mode,
            data: now + self.lead,
            given: 0,
            closed: false,
        });
    }

    pub(super) const fn give(&mut self, octets: usize, last: bool) {
        if let Some(turn) = &mut self.turn {
            turn.given += octets as u64;
            turn.closed |= last;
        }
    }

    /// What a receiver is told of the one that it hears.
    pub(super) fn heard(&self) -> Mode {
        let nobody = Mode {
            rate_bit_s: 0,
            block_bits: 0,
        };
        if self.hears() { self.heard } else { nobody }
    }

    /// Whether a transmission may begin (A.5.1.2.7).
    pub(super) const fn can_start(&self) -> bool {
        self.turn.is_none() && !(self.receiver_first && self.carrier)
    }

    /// It hears somebody, and doesn't send.
    pub(super) const fn hears(&self) -> bool {
        self.carrier && self.turn.is_none()
    }
}

impl OnAir {
    fn block_bits(&self) -> u64 {
        u64::from(self.mode.block_bits.max(1))
    }

    /// Octets that haven't begun to leave.
    pub(super) fn queued(&self, now: Instant) -> u64 {
        if now < self.data {
            return self.given;
        }
        let block = self.mode.block().as_nanos().max(1);
        let begun = (now.since(self.data).as_nanos() / block) as u64 + 1;
        let left = begun.saturating_mul(self.block_bits()) / 8;
        self.given.saturating_sub(left)
    }

    /// When the next block begins that isn't full, and how many octets it lacks.
    pub(super) fn critical(&self) -> Option<(Instant, u64)> {
        if self.closed {
            return None;
        }
        let block = self.given * 8 / self.block_bits();
        let at = self.data + self.mode.time_of_bits(block * self.block_bits());
        let full = (block + 1) * self.block_bits() / 8;
        Some((at, full - self.given))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A.5.1.1.7: how long what there is lasts, and what the next block lacks.
    #[test]
    fn a_transmission_needs_whole_blocks_by_their_beginnings() {
        let mode = Mode {
            rate_bit_s: 2400,
            block_bits: 288,
        };
        let ms = Instant::from_millis;
        let mut radio = Radio::new(mode, Duration::from_millis(440), false);
        radio.key_up(ms(1000));
        let turn = |radio: &Radio| radio.turn.unwrap();
        assert_eq!(turn(&radio).critical(), Some((ms(1440), 36)));
        radio.give(40, false);
        assert_eq!(turn(&radio).critical(), Some((ms(1560), 32)));
        assert_eq!(turn(&radio).queued(ms(1439)), 40);
        assert_eq!(turn(&radio).queued(ms(1440)), 4);
        assert_eq!(turn(&radio).queued(ms(1560)), 0);
        radio.give(0, true);
        assert_eq!(turn(&radio).critical(), None);
    }
}
