//! The numbers of C_PDUs without ARQ (C.3.10 (3)–(6)).

use alloc::collections::BTreeMap;

use strait_core::{Duration, Instant};

/// Numbers have 12 bits.
const NUMBERS: u16 = 4096;

/// So many are used at most before no more data may use one: the rest is for link messages, and for
/// accepted data that hasn't left yet.
const TAKEN_MAX: usize = 3840;

/// How far a receiver's time may lag: windows count from its reception, in half seconds.
const MARGIN: Duration = Duration::from_secs(1);

/// Gives each C_PDU a number that no other has whose reception window lasts.
#[derive(Debug)]
pub(crate) struct PlainNumbers {
    /// The one to begin with.
    pub(crate) next: u16,
    /// When each used one is free again.
    taken: BTreeMap<u16, Instant>,
}

impl PlainNumbers {
    /// From a number on.
    pub(crate) const fn new(next: u16) -> Self {
        let taken = BTreeMap::new();
        Self { next, taken }
    }

    /// The next number, for a C_PDU whose window ends at a moment.
    pub(crate) fn take(&mut self, now: Instant, until: Instant) -> u16 {
        self.taken.retain(|_, until| *until > now);
        let free = |number: &u16| !self.taken.contains_key(number);
        let all = (0..NUMBERS).map(|ahead| (self.next + ahead) % NUMBERS);
        let number = all.into_iter().find(free).unwrap_or(self.next);
        self.taken.insert(number, until + MARGIN);
        self.next = (number + 1) % NUMBERS;
        number
    }

    /// When there is one for more data; `None` if there is at this moment.
    pub(crate) fn free_at(&self, now: Instant) -> Option<Instant> {
        let all = (self.taken.len() >= TAKEN_MAX).then(|| self.taken.values().min());
        all.flatten().copied().filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_whose_window_lasts_is_passed_over() {
        let mut numbers = PlainNumbers::new(4094);
        let at = Instant::from_secs;
        let long = at(10_000);
        assert_eq!(numbers.take(at(0), at(1)), 4094);
        assert_eq!(numbers.take(at(0), long), 4095);
        for second in 0..4094 {
            let number = numbers.take(at(second), at(second + 1));
            assert_eq!(u64::from(number), second);
        }
        assert_eq!(numbers.take(at(5000), at(5001)), 4094);
        assert_eq!(numbers.take(at(5000), at(5001)), 0);
    }

    /// One nanosecond before the first of them is free there is none, at it there is.
    #[test]
    fn while_nearly_all_are_taken_more_data_waits() {
        let mut numbers = PlainNumbers::new(0);
        for _ in 1..TAKEN_MAX {
            numbers.take(Instant::ZERO, Instant::from_secs(9));
        }
        assert_eq!(numbers.free_at(Instant::ZERO), None);
        numbers.take(Instant::ZERO, Instant::from_secs(8));
        let free = Instant::from_secs(8) + MARGIN;
        let before = Instant::from_nanos(free.as_nanos() - 1);
        assert_eq!(numbers.free_at(before), Some(free));
        assert_eq!(numbers.free_at(free), None);
    }
}
