//! The numbers that confirm data for nodes of `strait`.

use strait_core::Instant;

use crate::s_pdu::NUMBER;

/// So many numbers in a row come to be free together.
const BLOCK: u16 = 1 << 11;

/// Blocks of all numbers.
const BLOCKS: usize = (NUMBER / BLOCK) as usize + 1;

/// Gives each number again only when no word about the data that had it can be under way any more.
#[derive(Debug)]
pub(super) struct Numbers {
    next: u16,
    /// By block: until when words about its numbers may come.
    until: [Instant; BLOCKS],
}

impl Numbers {
    /// Numbers from `first` on.
    pub(super) const fn new(first: u16) -> Self {
        Self {
            next: first & NUMBER,
            until: [Instant::ZERO; BLOCKS],
        }
    }

    /// A number for data about which words may come `until` then; `None` while all are in use.
    pub(super) fn take(&mut self, now: Instant, until: Instant) -> Option<u16> {
        if self.next.is_multiple_of(BLOCK) {
            let mut blocks = (0..=NUMBER / BLOCK).map(|more| (self.next + more * BLOCK) & NUMBER);
            self.next = blocks.find(|first| self.until[usize::from(first / BLOCK)] <= now)?;
        }
        let number = self.next;
        self.next = (number + 1) & NUMBER;
        let block = &mut self.until[usize::from(number / BLOCK)];
        *block = until.max(*block);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_again_when_nothing_can_be_said_of_it_any_more() {
        let mut numbers = Numbers::new(NUMBER - BLOCK / 2);
        let (now, until) = (Instant::from_secs(5), Instant::from_secs(100));
        let mut all = alloc::collections::BTreeSet::new();
        // The rest of the first block isn't given twice, nor ahead of its time.
        let taken = core::iter::from_fn(|| numbers.take(now, until)).inspect(|number| {
            assert!(all.insert(*number), "{number} again");
        });
        assert_eq!(
            taken.count(),
            usize::from(NUMBER - BLOCK + 1 + BLOCK / 2 + 1)
        );
        assert_eq!(numbers.take(Instant::from_secs(99), until), None);
        assert!(numbers.take(until, Instant::from_secs(200)).is_some());
        // One that may be spoken of for long keeps its block, and no other.
        let long = Instant::from_secs(100_000);
        assert!(numbers.take(until, long).is_some());
        let (now, until) = (Instant::from_secs(300), Instant::from_secs(301));
        let rest = core::iter::from_fn(|| numbers.take(now, until)).count();
        assert_eq!(rest, usize::from(NUMBER) - 1);
    }
}
