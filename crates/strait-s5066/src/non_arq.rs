//! Data transfer without ARQ: C_PDUs by number and offset, sent once or several times (Annex C).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use crate::address::Address;
use crate::d_pdu::NonArq;

/// C_PDUs that are put together at a time, from all senders.
const PARTIAL_MAX: usize = 16;

/// C_PDUs that a repeat is known of.
const RECENT_MAX: usize = 64;

/// A C_PDU being received.
#[derive(Debug)]
struct Partial {
    key: Key,
    octets: Vec<u8>,
    /// The pieces that came, from and up to, none touching another.
    have: Vec<(usize, usize)>,
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    from: Address,
    expedited: bool,
    c_pdu: u16,
}

/// Puts C_PDUs together, and knows which it has handed on.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    partial: VecDeque<Partial>,
    recent: VecDeque<(Key, Instant)>,
    /// C_PDUs that didn't become whole in their time.
    pub(crate) broken: u64,
}

impl Assembler {
    /// Takes a segment that is right; gives the C_PDU once it is whole, and only once.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        from: Address,
        piece: &NonArq<'_>,
    ) -> Option<Vec<u8>> {
        self.forget(now);
        let key = Key {
            from,
            expedited: piece.expedited,
            c_pdu: piece.c_pdu,
        };
        let (begin, size) = (usize::from(piece.offset), usize::from(piece.size));
        let end = begin + piece.segment.octets.len();
        if end > size || self.recent.iter().any(|(recent, _)| *recent == key) {
            return None;
        }
        let until = now + Duration::from_millis(500) * u32::from(piece.window.max(1));
        let same = |partial: &Partial| partial.key == key && partial.octets.len() == size;
        let place = match self.partial.iter().position(same) {
            Some(place) => place,
            None => {
                if self.partial.len() == PARTIAL_MAX {
                    self.partial.pop_front();
                    self.broken += 1;
                }
                self.partial.push_back(Partial {
                    key,
                    octets: alloc::vec![0; size],
                    have: Vec::new(),
                    until,
                });
                self.partial.len() - 1
            }
        };
        let partial = &mut self.partial[place];
        partial.octets[begin..end].copy_from_slice(piece.segment.octets);
        partial.note(begin, end);
        if partial.have != [(0, size)] {
            return None;
        }
        let whole = self.partial.remove(place)?;
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back((key, whole.until));
        Some(whole.octets)
    }

    fn forget(&mut self, now: Instant) {
        let before = self.partial.len();
        self.partial.retain(|partial| partial.until > now);
        self.broken += (before - self.partial.len()) as u64;
        self.recent.retain(|(_, until)| *until > now);
    }
}

impl Partial {
    fn note(&mut self, begin: usize, end: usize) {
        let (mut begin, mut end) = (begin, end);
        self.have.retain(|(from, to)| {
            let apart = *to < begin || end < *from;
            if !apart {
                (begin, end) = (begin.min(*from), end.max(*to));
            }
            apart
        });
        self.have.push((begin, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::d_pdu::Segment;

    fn piece(c_pdu: u16, offset: u16, octets: &[u8], size: u16) -> NonArq<'_> {
        NonArq {
            expedited: false,
            c_pdu,
            in_order: false,
            group: false,
            size,
            offset,
            window: 20,
            segment: Segment::whole(octets),
        }
    }

    #[test]
    fn pieces_in_any_order_and_twice_give_the_whole_once() {
        let mut assembler = Assembler::default();
        let (from, now) = (Address::new(1), Instant::ZERO);
        let mut take = |at, offset, octets| assembler.take(at, from, &piece(5, offset, octets, 6));
        assert_eq!(take(now, 4, b"ef"), None);
        assert_eq!(take(now, 0, b"ab"), None);
        assert_eq!(take(now, 0, b"ab"), None);
        assert_eq!(take(now, 2, b"cd"), Some(Vec::from(b"abcdef")));
        assert_eq!(take(now, 0, b"abcdef"), None);
        // The number is free again when its window is over.
        let later = now + Duration::from_secs(10);
        assert_eq!(take(later, 0, b"ghijkl"), Some(Vec::from(b"ghijkl")));
        assert_eq!(take(later, 5, b"too long"), None);
    }

    #[test]
    fn what_does_not_become_whole_is_forgotten_after_its_window() {
        let mut assembler = Assembler::default();
        let from = Address::new(1);
        let end = Instant::from_secs(10);
        let before = Instant::from_nanos(end.as_nanos() - 1);
        assert_eq!(
            assembler.take(Instant::ZERO, from, &piece(1, 0, b"a", 3)),
            None
        );
        assert_eq!(assembler.take(before, from, &piece(1, 1, b"b", 3)), None);
        assert_eq!(assembler.take(end, from, &piece(1, 2, b"c", 3)), None);
        assert_eq!(assembler.broken, 1);
        for number in 0..40 {
            assembler.take(end, from, &piece(number, 0, b"a", 3));
        }
        assert_eq!(assembler.partial.len(), PARTIAL_MAX);
    }
}
