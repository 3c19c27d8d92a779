//! When the next packet of a flow will come: its period, learned from its arrivals.
//!
//! The beat is the straight line through the arrivals with the least squares; from some number of
//! packets on, older ones count less. So jitter on the way here doesn't shake the prediction as
//! much as the packets.

use strait_core::time::nanos;
use strait_core::{Duration, Instant};

/// Periods that packets of a call may have: shorter ones no speech coder has, longer ones are
/// reports and keep-alives.
const PERIOD_NS: core::ops::RangeInclusive<u64> = 5_000_000..=2_000_000_000;

/// Periods without a packet after which the sender is silent: nothing is predicted until the next.
const SILENT: u64 = 3;

/// A beat that has so much against it is learned anew: two for each packet off it or missing, and
/// one back for each on it, which may be there by chance.
const STRIKES: u8 = 6;

/// Packets in a row on the beat that make a flow a regular one.
const REGULAR: u32 = 8;

/// Packets that a beat is drawn through before older ones count less: about what a call sends in
/// three seconds.
const POINTS: u8 = 14;

/// A packet that a beat was known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreseen {
    /// Time from the packet before to the moment at which this one was expected.
    pub(super) predicted: Duration,
    /// Time from the packet before to this one.
    pub(super) actual: Duration,
}

impl Foreseen {
    /// How far off the prediction was.
    pub(super) const fn error(&self) -> Duration {
        self.predicted.abs_diff(self.actual)
    }
}

/// A known period.
#[derive(Clone, Copy, Debug)]
struct Beat {
    period_ns: u64,
    /// When the next packet is expected.
    due: Instant,
    /// How far off packets usually are.
    off_ns: u64,
    /// Packets that it is drawn through.
    points: u8,
    /// Packets in a row on the beat.
    hits: u32,
    /// What speaks against it.
    strikes: u8,
}

/// The pace of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    last: Instant,
    /// The interval before the last packet, while no two alike have been seen; 0 is like none.
    candidate_ns: u64,
    beat: Option<Beat>,
}

impl Pace {
    /// The first packet came.
    pub(super) const fn begin(now: Instant) -> Self {
        Self {
            last: now,
            candidate_ns: 0,
            beat: None,
        }
    }

    /// The next packet came. What was foreseen of it, if the sender wasn't silent.
    pub(super) fn arrive(&mut self, now: Instant) -> Option<Foreseen> {
        let before = self.last;
        let actual = now.since(before);
        self.last = now;
        let Some(beat) = &mut self.beat else {
            self.learn(now, nanos(actual));
            return None;
        };
        if now >= beat.silent_from() {
            beat.due = now + beat.period();
            return None;
        }
        let predicted = beat.due.since(before);
        if beat.follow(now) {
            self.beat = None;
            self.candidate_ns = nanos(actual);
        }
        Some(Foreseen { predicted, actual })
    }

    /// Two intervals alike make a period.
    fn learn(&mut self, now: Instant, interval_ns: u64) {
        if !PERIOD_NS.contains(&interval_ns) {
            self.candidate_ns = 0;
            return;
        }
        let before = core::mem::replace(&mut self.candidate_ns, interval_ns);
        let alike = Some(before).filter(|it| it.abs_diff(interval_ns) <= interval_ns / 4);
        self.beat = alike.map(|it| {
            let period_ns = u64::midpoint(it, interval_ns);
            let off = Duration::from_nanos(it.abs_diff(interval_ns) / 6);
            let on_line = if it > interval_ns {
                now + off
            } else {
                now - off
            };
            Beat {
                period_ns,
                due: on_line + Duration::from_nanos(period_ns),
                // Two intervals alike may be so by chance.
                off_ns: (it.abs_diff(interval_ns) / 2).max(period_ns / 32),
                points: 3,
                hits: 0,
                strikes: 0,
            }
        });
    }

    /// The time between packets, once it is known.
    pub(super) fn period(&self) -> Option<Duration> {
        self.beat.as_ref().map(Beat::period)
    }

    /// Whether packets have come by a clock for a while.
    pub(super) fn is_regular(&self) -> bool {
        self.beat.is_some_and(|beat| beat.hits >= REGULAR)
    }

    /// How long packets have come by a clock; pauses don't count.
    pub(super) fn kept_for(&self) -> Duration {
        let beat = self.beat.as_ref();
        beat.map_or(Duration::ZERO, |beat| beat.period() * beat.hits)
    }

    /// Whether nothing speaks against the period: two packets close together may halve it.
    pub(super) fn is_kept(&self) -> bool {
        self.beat.is_some_and(|beat| beat.strikes == 0)
    }

    /// From when to when the next packet is to be expected; `None` if nothing is known, or the
    /// sender is silent.
    pub(super) fn expected(&self, now: Instant) -> Option<(Instant, Instant)> {
        let beat = self.beat.filter(|beat| now < beat.silent_from())?;
        let margin = beat.margin();
        let mut due = beat.due;
        while due + margin < now {
            due += beat.period();
        }
        Some((due - margin, due + margin))
    }
}

impl Beat {
    const fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// How much earlier or later than expected a packet may well come: four times what is usual.
    fn margin(&self) -> Duration {
        let least = self.period_ns / 64;
        Duration::from_nanos((4 * self.off_ns).clamp(least, self.period_ns / 4))
    }

    fn silent_from(&self) -> Instant {
        self.due + Duration::from_nanos(SILENT * self.period_ns)
    }

    /// Takes a packet in, and says whether the beat has lost the flow.
    fn follow(&mut self, now: Instant) -> bool {
        let period = self.period();
        while now > self.due + period / 2 {
            self.due += period;
            self.strikes += 2;
        }
        let early = now < self.due;
        let off_ns = nanos(now.since(self.due) + self.due.since(now));
        if off_ns > self.period_ns / 4 {
            (self.hits, self.strikes) = (0, self.strikes + 2);
            if !early {
                self.due += period;
            }
            return self.strikes >= STRIKES;
        }
        self.hits = self.hits.saturating_add(1);
        self.strikes = self.strikes.saturating_sub(1);
        if self.strikes >= STRIKES {
            return true;
        }
        // What one more point does to a line with the least squares, at its end and in its slope.
        self.points = (self.points + 1).min(POINTS);
        let points = u64::from(self.points);
        let parts = points * (points + 1);
        let phase = Duration::from_nanos(off_ns * 2 * (2 * points - 1) / parts);
        let drift_ns = off_ns * 6 / parts;
        if early {
            self.due = self.due - phase;
            self.period_ns -= drift_ns;
        } else {
            self.due += phase;
            self.period_ns += drift_ns;
        }
        self.period_ns = self.period_ns.clamp(*PERIOD_NS.start(), *PERIOD_NS.end());
        self.due += self.period();
        // Trouble is believed sooner than its end.
        let gain = if off_ns > self.off_ns { 2 } else { 8 };
        self.off_ns = self.off_ns - self.off_ns / gain + off_ns / gain;
        false
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(at: u64) -> Instant {
        Instant::from_millis(at)
    }

    /// The window around `at` for a call that has been on time for long: a 64th of 200 ms each way.
    fn window(at: u64) -> Option<(Instant, Instant)> {
        let margin = Duration::from_micros(3125);
        Some((ms(at) - margin, ms(at) + margin))
    }

    /// A call with a packet each 200 ms, of which `packets` have come.
    fn call(packets: u64) -> Pace {
        let mut pace = Pace::begin(ms(0));
        for packet in 1..packets {
            pace.arrive(ms(200 * packet));
        }
        pace
    }

    #[test]
    fn two_intervals_alike_make_a_period() {
        assert_eq!(call(2).period(), None);
        assert_eq!(call(3).period(), Some(Duration::from_millis(200)));
        let quarter_of_half = Duration::from_millis(25);
        let first = (ms(600) - quarter_of_half, ms(600) + quarter_of_half);
        assert_eq!(call(3).expected(ms(400)), Some(first));
        let mut pace = Pace::begin(ms(0));
        pace.arrive(ms(100));
        pace.arrive(ms(234));
        assert_eq!(pace.period(), None, "134 and 100 aren't alike");
        pace.arrive(ms(334));
        assert_eq!(pace.period(), None);
        pace.arrive(ms(446));
        assert_eq!(pace.period(), Some(Duration::from_millis(106)));
        // The line through 234, 334 and 446 goes by 444 at its end.
        let (from, until) = pace.expected(ms(446)).unwrap();
        assert_eq!(from + until.since(from) / 2, ms(550));
    }

    #[test]
    fn intervals_of_no_call_are_no_period() {
        for interval_ns in [0, 5 * MS - 1, 2_000 * MS + 1] {
            let mut pace = Pace::begin(ms(0));
            for packet in 1..9 {
                pace.arrive(Instant::from_nanos(packet * interval_ns));
            }
            assert_eq!(pace.period(), None, "{interval_ns}");
        }
        let mut pace = Pace::begin(ms(0));
        pace.arrive(ms(5));
        pace.arrive(ms(10));
        assert_eq!(pace.period(), Some(Duration::from_millis(5)));
    }

    #[test]
    fn a_packet_on_time_was_foreseen_and_one_after_a_silence_not() {
        let mut pace = call(100);
        let foreseen = pace.arrive(ms(20_010)).unwrap();
        assert_eq!(foreseen.predicted, Duration::from_millis(200));
        assert_eq!(foreseen.actual, Duration::from_millis(210));
        assert_eq!(foreseen.error(), Duration::from_millis(10));
        // Of 10 ms, 54 parts of 210 go to the phase and 6 to the period.
        let (from, until) = pace.expected(ms(20_010)).unwrap();
        let due = u64::midpoint(from.as_nanos(), until.as_nanos());
        assert_eq!(due, 20_202_857_142);
        // It was off by 10 ms, which counts half: four times that each way.
        assert_eq!(until.since(from).as_millis(), 40);

        let silent_from = Instant::from_nanos(20_600 * MS);
        let before = Instant::from_nanos(silent_from.as_nanos() - 1);
        let mut pace = call(100);
        assert!(pace.expected(before).is_some());
        assert_eq!(pace.expected(silent_from), None);
        assert!({ pace }.arrive(before).is_some());
        assert_eq!(pace.arrive(silent_from), None);
        assert_eq!(pace.expected(silent_from), window(20_800));
    }

    #[test]
    fn a_packet_that_does_not_come_is_expected_at_the_next_beat() {
        let pace = call(100);
        assert_eq!(pace.expected(ms(20_000)), window(20_000));
        let until = Instant::from_nanos(20_003_125_000);
        assert_eq!(pace.expected(until), window(20_000));
        let after = Instant::from_nanos(20_003_125_001);
        assert_eq!(pace.expected(after), window(20_200));
        let mut pace = pace;
        assert_eq!(
            pace.arrive(ms(20_200)).unwrap().error(),
            Duration::from_millis(200)
        );
        assert_eq!(pace.expected(ms(20_200)), window(20_400));
    }

    #[test]
    fn another_period_is_learned() {
        for period in [20, 60, 90, 100, 130, 260, 400] {
            let mut pace = call(20);
            assert!(pace.is_regular());
            let mut at = 19 * 200;
            let mut packets = 0;
            while pace.period() != Some(Duration::from_millis(period)) {
                at += period;
                pace.arrive(ms(at));
                packets += 1;
                assert!(packets < 20, "{period}: {pace:?}");
            }
            let (from, until) = pace.expected(ms(at)).unwrap();
            assert!(from < ms(at + period) && ms(at + period) < until);
            assert!(!pace.is_regular());
        }
    }

    #[test]
    fn a_stray_packet_between_two_beats_moves_nothing() {
        let mut pace = call(100);
        pace.arrive(ms(19_900));
        assert_eq!(pace.expected(ms(19_900)), window(20_000));
        pace.arrive(ms(20_000));
        assert_eq!(pace.expected(ms(20_000)), window(20_200));
    }

    proptest! {
        #[test]
        fn the_window_is_never_past_whatever_comes(
            gaps in prop::collection::vec(0..3_000_000_000u64, 1..60),
            ask in 0..5_000_000_000u64,
        ) {
            let mut pace = Pace::begin(Instant::ZERO);
            let mut at = Instant::ZERO;
            for gap in gaps {
                at += Duration::from_nanos(gap);
                pace.arrive(at);
                let now = at + Duration::from_nanos(ask);
                if let Some((from, until)) = pace.expected(now) {
                    prop_assert!(from <= until && until >= now);
                }
            }
        }

        #[test]
        fn jitter_shakes_the_prediction_by_no_more_than_itself(
            period_ms in 10..1000u64,
            share in 0..12u64,
            shakes in prop::collection::vec(0..1000u64, 40..80),
        ) {
            let jitter_ns = period_ms * MS * share / 100;
            let at = |packet: u64, shake: u64| {
                Instant::from_nanos((packet + 1) * period_ms * MS + jitter_ns * shake / 1000)
            };
            let mut pace = Pace::begin(at(0, shakes[0]));
            let errors: Vec<_> = (1..)
                .zip(&shakes[1..])
                .map(|(packet, shake)| pace.arrive(at(packet, *shake)))
                .collect();
            // Learned from three packets, settled after twenty more.
            for foreseen in &errors[23..] {
                let error = foreseen.map(|it| nanos(it.error()));
                prop_assert!(error.is_some_and(|ns| ns <= jitter_ns * 3 / 2), "{error:?}");
            }
        }
    }
}
