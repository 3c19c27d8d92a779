//! How many ICMP errors a node sends (RFC 4443 section 2.4(f), RFC 1812 section 4.3.2.8).

use crate::time::{Duration, Instant};

/// A token bucket: a few errors at once, then ten a second. A flood of bad packets must not become
/// a flood of answers on a narrow link.
#[derive(Debug)]
pub struct ErrorLimit {
    /// When the bucket is full again.
    full_at: Instant,
}

impl ErrorLimit {
    const EACH: Duration = Duration::from_millis(100);
    const BURST: u32 = 10;
}

impl Default for ErrorLimit {
    fn default() -> Self {
        Self {
            full_at: Instant::ZERO,
        }
    }
}

impl ErrorLimit {
    /// Whether one more error may go now; counts it if so.
    pub fn allows(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + Self::EACH;
        let allowed = full_at.since(now) <= Self::EACH * Self::BURST;
        if allowed {
            self.full_at = full_at;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_at_once_then_one_each_tenth_of_a_second() {
        let mut limit = ErrorLimit::default();
        let start = Instant::from_secs(1);
        assert_eq!((0..20).filter(|_| limit.allows(start)).count(), 10);
        let next = start + Duration::from_millis(100);
        assert!(!limit.allows(Instant::from_nanos(next.as_nanos() - 1)));
        assert!(limit.allows(next));
        assert!(!limit.allows(next));
    }
}
