//! Clients that were let pass, without the proxy.

use alloc::collections::VecDeque;

use strait_core::node::{Refusal, StreamId, StreamOp};
use strait_core::{Duration, Instant};
use strait_proxy::Ends;

use super::Proxy;

/// How long a SYN of the same two ends is taken for a repetition: Linux gives up 127 s after the
/// first (`tcp_syn_retries` = 6).
const REPEATS: Duration = Duration::from_secs(130);
/// Clients that are remembered. Of a flood the first ones are forgotten.
const CLIENTS_MAX: usize = 1024;

/// Who was let pass a short time ago, the first one first. Its SYN may be on its way or answered
/// when it comes again, and a stream beside that would be a second connection of the same two ends.
#[derive(Debug, Default)]
pub(super) struct Passed(VecDeque<(Instant, Ends)>);

impl Passed {
    pub(super) fn note(&mut self, now: Instant, ends: Ends) {
        if !self.holds(now, ends) {
            if self.0.len() >= CLIENTS_MAX {
                self.0.pop_front();
            }
            self.0.push_back((now + REPEATS, ends));
        }
    }

    pub(super) fn holds(&mut self, now: Instant, ends: Ends) -> bool {
        while self.0.front().is_some_and(|(until, _)| *until <= now) {
            self.0.pop_front();
        }
        self.0.iter().any(|(_, known)| *known == ends)
    }
}

impl Proxy {
    /// Lets a client go on to whom it wants, without the proxy.
    pub(super) fn pass(&mut self, now: Instant, id: StreamId, ends: Option<Ends>) {
        self.stats.passed += 1;
        if let Some(ends) = ends {
            self.passed.note(now, ends);
        }
        self.operate(id, StreamOp::Refuse(Refusal::Pass));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_passed_is_known_as_long_as_it_asks_again() {
        let mut passed = Passed::default();
        let ends = |port| Ends {
            client: ([10, 1, 0, 2], port).into(),
            server: ([10, 2, 0, 2], 80).into(),
        };
        let start = Instant::from_secs(1);
        passed.note(start, ends(1));
        passed.note(start + Duration::from_secs(60), ends(1));
        assert!(passed.holds(start + REPEATS - Duration::from_nanos(1), ends(1)));
        assert!(!passed.holds(start + REPEATS, ends(1)));
        for port in 0..=CLIENTS_MAX as u16 {
            passed.note(start, ends(port));
        }
        assert_eq!(passed.0.len(), CLIENTS_MAX);
        assert!(!passed.holds(start, ends(0)) && passed.holds(start, ends(1)));
    }
}
