//! A queue of packets that takes its client longer the more there is in it.

use strait_core::{Duration, Instant};

/// A client that goes through all that waits for each packet that it hands to the station. Packets
/// are found one after the other, also while others are on the air.
#[derive(Debug)]
pub(super) struct Search {
    /// The time for each waiting packet: also for those that were found, which stay in the queue
    /// until the station has them.
    each: Duration,
    /// Packets that were found and wait for the station.
    found: usize,
    /// When the next one is found.
    next: Option<Instant>,
}

impl Search {
    pub(super) const fn new(each: Duration) -> Self {
        Self {
            each,
            found: 0,
            next: None,
        }
    }

    /// Looks on, of so many that wait, those that were found included.
    pub(super) fn advance(&mut self, now: Instant, waiting: usize) {
        let lasts = self.each * u32::try_from(waiting).unwrap_or(u32::MAX);
        self.found = self.found.min(waiting);
        while self.found < waiting {
            let next = *self.next.get_or_insert(now + lasts);
            if next > now {
                return;
            }
            self.found += 1;
            self.next = Some(next + lasts);
        }
        self.next = None;
    }

    /// The station has accepted one.
    pub(super) const fn take(&mut self) {
        self.found = self.found.saturating_sub(1);
    }

    /// Packets that the station may have.
    pub(super) const fn found(&self) -> usize {
        self.found
    }

    /// When there is one, if there is none.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.next.filter(|_| self.found == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_twice_as_long_takes_four_times_as_long() {
        // The first is taken when the second is being looked for among all, and so on.
        for (waiting, lasts_ms) in [(0, 0), (1, 1), (10, 55 + 9), (20, 210 + 19), (40, 820 + 39)] {
            let mut search = Search::new(Duration::from_millis(1));
            let (mut now, mut left) = (Instant::ZERO, waiting);
            search.advance(now, left);
            while left > 0 {
                let next = search.wake().unwrap();
                search.advance(next - Duration::from_nanos(1), left);
                assert_eq!(search.found(), 0);
                search.advance(next, left);
                assert_eq!(search.found(), 1);
                search.take();
                (now, left) = (next, left - 1);
                search.advance(now, left);
            }
            assert_eq!(now, Instant::from_millis(lasts_ms));
            assert_eq!(search.wake(), None);
        }
    }

    #[test]
    fn what_is_found_while_others_talk_waits_for_the_station() {
        let mut search = Search::new(Duration::from_millis(1));
        search.advance(Instant::ZERO, 5);
        search.advance(Instant::from_millis(12), 5);
        assert_eq!((search.found(), search.wake()), (2, None));
        // Others are dropped meanwhile.
        search.advance(Instant::from_millis(13), 1);
        assert_eq!((search.found(), search.wake()), (1, None));
        search.take();
        search.advance(Instant::from_millis(20), 0);
        assert_eq!((search.found(), search.wake()), (0, None));
    }
}
