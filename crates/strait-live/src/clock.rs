//! The only place that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use strait_core::node::WallTime;
use strait_core::time::{Duration, Instant};

/// Monotonic time since the clock was made, at the start of the process.
///
/// It is the kernel's `CLOCK_MONOTONIC`, which stands still while the machine is suspended: to a
/// node, a suspended hour never happened. Its queues are as old as before, and what its
/// neighbours did meanwhile looks like a burst of lost frames.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// A clock that begins now.
    pub fn start() -> Self {
        Self {
            start: std::time::Instant::now(),
        }
    }

    /// Time since the start.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// How long it is until `at`; zero if that is past.
    pub fn until(&self, at: Instant) -> Duration {
        at.since(self.now())
    }

    /// Calendar time; `None` if the host's clock stands before 1970.
    pub fn wall(&self) -> Option<WallTime> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(since.as_nanos()).ok().map(WallTime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_does_not_go_back() {
        let clock = Clock::start();
        let first = clock.now();
        let second = clock.now();
        assert!(second >= first);
        assert_eq!(clock.until(first), Duration::ZERO);
        assert!(clock.wall() > Some(WallTime(1_700_000_000_000_000_000)));
    }
}
