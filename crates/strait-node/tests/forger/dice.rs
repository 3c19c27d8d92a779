//! Draws that a forger makes.

use strait_core::chance::Stream;

/// A stream of chance with the draws that forging needs.
pub(crate) struct Dice(pub(crate) Stream);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    pub(crate) fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).cloned()
    }

    /// An octet as faults and attackers like it.
    pub(crate) fn octet(&mut self, before: u8) -> u8 {
        match self.below(6) {
            0 => 0,
            1 => 0xff,
            2 => before ^ 1 << self.below(8),
            3 => before.wrapping_add(1),
            4 => before.wrapping_sub(1),
            _ => self.0.draw() as u8,
        }
    }

    /// A number at or near `true_one`, at the limits around it, or any.
    pub(crate) fn number(&mut self, true_one: u32) -> u32 {
        let near = [
            1, 2, 16, 31, 32, 33, 63, 64, 65, 95, 96, 97, 98, 127, 128, 129, 200, 0x1000, 0x7ffe,
            0x7fff, 0x8000, 0x8001,
        ];
        let by = near[self.below(near.len())];
        match self.below(5) {
            0 => true_one,
            1 | 2 => true_one.wrapping_add(by),
            3 => true_one.wrapping_sub(by),
            _ => self.0.draw() as u32,
        }
    }

    pub(crate) fn short(&mut self, true_one: u16) -> u16 {
        self.number(true_one.into()) as u16
    }

    /// Changes a few octets, mostly among the first ones, and sometimes the length.
    pub(crate) fn mutate(&mut self, octets: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            let reach = if self.one_in(4) {
                octets.len()
            } else {
                octets.len().min(24)
            };
            let place = self.below(reach);
            if let Some(octet) = octets.get_mut(place) {
                *octet = self.octet(*octet);
            }
        }
        if self.one_in(8) {
            octets.truncate(self.below(octets.len() + 1));
        }
        if self.one_in(12) {
            let more = self.below(40);
            octets.extend((0..more).map(|at| at as u8));
        }
    }

    pub(crate) fn octets(&mut self, many: usize) -> Vec<u8> {
        (0..many).map(|_| self.0.draw() as u8).collect()
    }
}
