//! The only place that reads a clock.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::libc;
use nix::time::{ClockId, clock_gettime};
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
        Some(wall_ns()).filter(|ns| *ns > 0).map(WallTime)
    }
}

/// The kernel's monotonic clock, the same for all processes of this host.
pub fn monotonic() -> Instant {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    Instant::ZERO + now
}

/// Nanoseconds of calendar time since 1970; zero if the host's clock stands before.
pub fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// How far local time is from UTC now, in seconds, by this host's time zone.
pub fn utc_offset_s() -> i64 {
    local_offset_s(wall_ns() / 1_000_000_000)
}

#[allow(unsafe_code, reason = "the time zone has no safe wrapper")]
fn local_offset_s(at_s: u64) -> i64 {
    let at = i64::try_from(at_s).unwrap_or(0);
    // SAFETY: all zeros are a valid `tm`, which is plain numbers and a pointer that may be null.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values of our own that live until the call returns; no other
    // thread of ours changes the environment.
    let known = unsafe { libc::localtime_r(&raw const at, &raw mut local) };
    if known.is_null() { 0 } else { local.tm_gmtoff }
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
