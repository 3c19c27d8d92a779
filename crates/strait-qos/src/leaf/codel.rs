//! Controlled delay (RFC 8289): a drop now and then reports a queue that stays long to its senders,
//! the more often the longer it stays.

use strait_core::rate::LineRate;
use strait_core::time::nanos;
use strait_core::{Duration, Instant};

use super::config::FqCodelConfig;

/// RFC 8289 section 4.4.
const TARGET: Duration = Duration::from_millis(5);
/// RFC 8289 section 4.3.
const INTERVAL: Duration = Duration::from_millis(100);
/// Within so many intervals after the last drop a new spell continues where that one ended.
const MEMORY_INTERVALS: u32 = 16;

impl FqCodelConfig {
    /// Target and interval on a line of this rate.
    #[must_use]
    pub(crate) fn times(&self, bit_s: u64, mtu_octets: u32) -> (Duration, Duration) {
        let law = Law::new(self, Some(LineRate::new(bit_s, 8)), mtu_octets);
        (law.target, law.interval)
    }
}

/// The limits of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Law {
    /// Waiting time that is fine.
    pub(super) target: Duration,
    /// How long it may be above.
    pub(super) interval: Duration,
    /// Octets of a queue that is never too long: one packet.
    pub(super) mtu_octets: u64,
}

impl Law {
    /// Target and interval for a line's present rate, but for those that are configured.
    ///
    /// While a packet leaves a narrow line the next waits for longer than 5 ms, and a sender learns
    /// of a drop only after the packets in front. CAKE stretches both times by that; so does this.
    pub(super) fn new(config: &FqCodelConfig, rate: Option<LineRate>, mtu_octets: u32) -> Self {
        let mtu_octets = u64::from(mtu_octets);
        let packet = rate.map_or(Duration::ZERO, |rate| rate.time_for(mtu_octets));
        let target = config
            .target
            .map_or_else(|| TARGET.max(packet * 3 / 2), |time| time.0);
        let stretched = (INTERVAL + target.saturating_sub(TARGET)).max(target * 2);
        Self {
            target,
            interval: config.interval.map_or(stretched, |time| time.0),
            mtu_octets,
        }
    }

    /// When the drop after `count` of a spell is due, one of them having been at `from`.
    fn next(&self, from: Instant, count: u32) -> Instant {
        let ns = nanos(self.interval) as f64 / libm::sqrt(f64::from(count.max(1)));
        from + Duration::from_nanos(ns as u64)
    }
}

/// The state of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Codel {
    /// When the waiting time will have been above the target for an interval.
    deadline: Option<Instant>,
    /// In a spell of drops.
    dropping: bool,
    /// When the next drop of the spell is due; out of a spell, when it would have been.
    next: Instant,
    /// Drops of this spell.
    count: u32,
    /// The count that this spell began with.
    count_begun: u32,
    /// The packet in front has been judged and may go.
    passed: bool,
}

impl Codel {
    /// Whether the packet in front is to be dropped (or marked) as it is about to leave at `now`,
    /// after it waited so long and with so many octets left behind it. Asked again after each drop.
    pub(super) fn condemns(
        &mut self,
        law: &Law,
        now: Instant,
        waited: Duration,
        octets_left: u64,
    ) -> bool {
        let due = self.stayed_too_long(law, now, waited, octets_left);
        if !due {
            self.dropping = false;
            return false;
        }
        if self.dropping {
            if now < self.next {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.next = law.next(self.next, self.count);
            return true;
        }
        let recent = now.since(self.next) < law.interval * MEMORY_INTERVALS;
        let grown = self.count.saturating_sub(self.count_begun);
        self.dropping = true;
        self.count = if grown > 1 && recent { grown } else { 1 };
        self.count_begun = self.count;
        self.next = law.next(now, self.count);
        true
    }

    fn stayed_too_long(
        &mut self,
        law: &Law,
        now: Instant,
        waited: Duration,
        octets_left: u64,
    ) -> bool {
        if waited < law.target || octets_left <= law.mtu_octets {
            self.deadline = None;
            return false;
        }
        let deadline = *self.deadline.get_or_insert(now + law.interval);
        now >= deadline
    }

    /// The packet in front may go: it isn't judged a second time.
    pub(super) const fn pass(&mut self) {
        self.passed = true;
    }

    /// Whether it may go; from now on another is in front.
    pub(super) const fn take_pass(&mut self) -> bool {
        let passed = self.passed;
        self.passed = false;
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn law() -> Law {
        Law {
            target: MS * 5,
            interval: MS * 100,
            mtu_octets: 1500,
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_secs(1) + MS * ms as u32
    }

    #[test]
    fn target_and_interval_follow_the_line() {
        // What CAKE would pick for packets of 1514 octets.
        let cases = [
            (512_000, 36, 131),
            (300_000, 61, 156),
            (64_000, 284, 568),
            (9600, 1893, 3785),
            (2400, 7570, 15_140),
            (100_000_000, 5, 100),
        ];
        for (bit_s, target_ms, interval_ms) in cases {
            let rate = LineRate::new(bit_s, 8);
            let law = Law::new(&FqCodelConfig::default(), Some(rate), 1514);
            let near = |time: Duration, ms: u32| time.abs_diff(MS * ms) <= MS;
            assert!(near(law.target, target_ms), "{bit_s}: {:?}", law.target);
            assert!(
                near(law.interval, interval_ms),
                "{bit_s}: {:?}",
                law.interval
            );
        }
        let unknown = Law::new(&FqCodelConfig::default(), None, 1500);
        assert_eq!((unknown.target, unknown.interval), (TARGET, INTERVAL));
        let written = FqCodelConfig {
            target: Some("20 ms".parse().unwrap()),
            interval: Some("70 ms".parse().unwrap()),
            ..FqCodelConfig::default()
        };
        let law = Law::new(&written, Some(LineRate::new(9600, 8)), 1500);
        assert_eq!((law.target, law.interval), (MS * 20, MS * 70));
    }

    #[test]
    fn a_drop_is_due_after_an_interval_above_the_target_and_not_a_nanosecond_before() {
        let (law, ns) = (law(), Duration::from_nanos(1));
        for (late, dropped) in [(Duration::ZERO, true), (ns, false)] {
            let mut codel = Codel::default();
            assert!(!codel.condemns(&law, at(0), MS * 5, 9000));
            assert_eq!(codel.condemns(&law, at(100) - late, MS * 5, 9000), dropped);
        }
        // Below the target by a nanosecond, or with one packet behind: the time starts again.
        for (waited, octets_left) in [(MS * 5 - ns, 9000), (MS * 5, 1500)] {
            let mut codel = Codel::default();
            assert!(!codel.condemns(&law, at(0), MS * 5, 9000));
            assert!(!codel.condemns(&law, at(50), waited, octets_left));
            assert!(!codel.condemns(&law, at(100), MS * 5, 1501));
            assert!(!codel.condemns(&law, at(199), MS * 5, 1501));
            assert!(codel.condemns(&law, at(200), MS * 5, 1501));
        }
    }

    #[test]
    fn drops_come_closer_by_the_square_root() {
        let law = law();
        let mut codel = Codel::default();
        assert!(!codel.condemns(&law, at(0), MS * 50, 9000));
        let drops: alloc::vec::Vec<u64> = (1..600)
            .filter(|ms| codel.condemns(&law, at(*ms), MS * 50, 9000))
            .collect();
        // 100, then +100, +70.7, +57.7, +50, +44.7, …: at the first millisecond at or after.
        assert_eq!(drops[..6], [100, 200, 271, 329, 379, 424]);
    }

    #[test]
    fn a_spell_soon_after_another_goes_on_where_that_one_ended() {
        let law = law();
        for (pause_ms, second) in [(200, 41), (2000, 100)] {
            let mut codel = Codel::default();
            assert!(!codel.condemns(&law, at(0), MS * 50, 9000));
            let drops = (1..500).filter(|ms| codel.condemns(&law, at(*ms), MS * 50, 9000));
            assert_eq!(drops.count(), 7);
            let start = 500 + pause_ms;
            assert!(!codel.condemns(&law, at(500), MS, 9000));
            assert!(!codel.condemns(&law, at(start), MS * 50, 9000));
            let drops: alloc::vec::Vec<u64> = (1..300)
                .filter(|ms| codel.condemns(&law, at(start + ms), MS * 50, 9000))
                .collect();
            // A spell of one begins anew; after six drops beyond the first the gap is 100/√6 ms.
            assert_eq!(drops[..2], [100, 100 + second], "{pause_ms}");
        }
    }

    #[test]
    fn a_spell_ends_when_the_queue_is_short() {
        let law = law();
        let mut codel = Codel::default();
        assert!(!codel.condemns(&law, at(0), MS * 50, 9000));
        assert!(codel.condemns(&law, at(100), MS * 50, 9000));
        assert!(!codel.condemns(&law, at(250), MS * 4, 9000));
        assert!(!codel.condemns(&law, at(260), MS * 50, 9000));
        assert!(!codel.condemns(&law, at(359), MS * 50, 9000));
        assert!(codel.condemns(&law, at(360), MS * 50, 9000));
    }
}
