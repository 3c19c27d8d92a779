//! Octets of a stream in a circle that grows as needed, up to a limit that its owner keeps.

/// A window onto a stream of octets: what was put in at a place can be read until it is passed.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// A power of two, or nothing yet.
    octets: Vec<u8>,
    head: usize,
}

impl Ring {
    const CAPACITY_MIN: usize = 4096;

    /// Puts `data` at `offset` behind the beginning. `used` is how many octets from the beginning
    /// must be kept if the circle has to grow.
    pub(super) fn write(&mut self, offset: usize, data: &[u8], used: usize) {
        self.reserve(offset + data.len(), used.max(offset));
        if data.is_empty() {
            return;
        }
        let mask = self.octets.len() - 1;
        let start = (self.head + offset) & mask;
        let first = data.len().min(self.octets.len() - start);
        self.octets[start..start + first].copy_from_slice(&data[..first]);
        self.octets[..data.len() - first].copy_from_slice(&data[first..]);
    }

    /// Appends `count` octets from `offset` to `out`; they must have been written.
    pub(super) fn read(&self, offset: usize, count: usize, out: &mut Vec<u8>) {
        if count == 0 {
            return;
        }
        let start = (self.head + offset) & (self.octets.len() - 1);
        let first = count.min(self.octets.len() - start);
        out.extend_from_slice(&self.octets[start..start + first]);
        out.extend_from_slice(&self.octets[..count - first]);
    }

    /// Copies octets from the beginning, as many as `into` holds, which must have been written.
    pub(super) fn peek(&self, into: &mut [u8]) {
        if into.is_empty() {
            return;
        }
        let first = into.len().min(self.octets.len() - self.head);
        let (near, far) = into.split_at_mut(first);
        near.copy_from_slice(&self.octets[self.head..self.head + first]);
        far.copy_from_slice(&self.octets[..far.len()]);
    }

    /// Passes `count` octets.
    pub(super) fn consume(&mut self, count: usize) {
        if !self.octets.is_empty() {
            self.head = (self.head + count) & (self.octets.len() - 1);
        }
    }

    /// Octets of memory.
    #[cfg(test)]
    pub(super) const fn octets(&self) -> usize {
        self.octets.len()
    }

    /// The most memory that `octets` of a stream take.
    #[cfg(test)]
    pub(super) fn octets_max(octets: usize) -> usize {
        octets.next_power_of_two().max(Self::CAPACITY_MIN)
    }

    fn reserve(&mut self, octets: usize, used: usize) {
        if octets <= self.octets.len() {
            return;
        }
        let capacity = octets.next_power_of_two().max(Self::CAPACITY_MIN);
        let mut grown = Vec::with_capacity(capacity);
        self.read(0, used.min(self.octets.len()), &mut grown);
        grown.resize(capacity, 0);
        self.octets = grown;
        self.head = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_survive_turning_and_growing() {
        let mut ring = Ring::default();
        let pattern = |at: usize| (at % 251) as u8;
        let (mut head, mut end) = (0usize, 0usize);
        for round in 0..500 {
            let chunk: Vec<u8> = (end..end + 37 * (round % 50)).map(pattern).collect();
            ring.write(end - head, &chunk, end - head);
            end += chunk.len();
            let take = (end - head) / 3;
            let mut out = vec![9];
            ring.read(take / 2, take, &mut out);
            let from = head + take / 2;
            assert!(
                out[1..]
                    .iter()
                    .enumerate()
                    .all(|(i, octet)| *octet == pattern(from + i))
            );
            let mut front = vec![0; take];
            ring.peek(&mut front);
            assert!(
                front
                    .iter()
                    .enumerate()
                    .all(|(i, octet)| *octet == pattern(head + i))
            );
            ring.consume(take);
            head += take;
        }
    }
}
