//! The identity of a station's incarnation, and of one of its C_PDUs.

use strait_core::Instant;
use strait_core::chance::Stream;

use crate::non_arq::numbers::PlainNumbers;

/// Numbers that a station gives out.
#[derive(Debug)]
pub(super) struct Identity {
    /// Another one after each start.
    life: u16,
    /// The epoch that was begun last.
    epoch: u16,
    /// The numbers of C_PDUs without ARQ, plain and expedited.
    c_pdus: [PlainNumbers; 2],
}

impl Identity {
    /// Of a station that begins anew: it must not be confused with the one before.
    pub(super) fn new(chance: &mut Stream, lives: &mut Stream) -> Self {
        let first = chance.below(4096) as u16;
        Self {
            life: lives.draw() as u16,
            epoch: lives.draw() as u16,
            c_pdus: [first; 2].map(PlainNumbers::new),
        }
    }

    pub(super) const fn life(&self) -> u16 {
        self.life
    }

    #[cfg(test)]
    pub(super) const fn live_anew(&mut self) {
        self.life ^= 1;
    }

    /// An epoch that no frames went under yet.
    pub(super) const fn next_epoch(&mut self) -> u16 {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }

    /// The number of a C_PDU without ARQ whose pieces go until a moment.
    pub(super) fn number_c_pdu(&mut self, expedited: bool, now: Instant, until: Instant) -> u16 {
        self.c_pdus[usize::from(expedited)].take(now, until)
    }

    /// When there are numbers for more data without ARQ, if not now.
    pub(super) fn free_at(&self, now: Instant) -> Option<Instant> {
        self.c_pdus.iter().filter_map(|it| it.free_at(now)).max()
    }

    #[cfg(test)]
    pub(super) fn next_numbers(&self) -> [u16; 2] {
        self.c_pdus.each_ref().map(|it| it.next)
    }
}
