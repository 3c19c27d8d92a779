//! How much of their time calls talk, and what that means for a line that they share.

use alloc::vec;

use strait_core::Duration;

/// Of so many steps a line's rate is made where the chance of sums is reckoned.
const STEPS: usize = 256;

/// What a call is taken for that isn't known yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    /// The share of its time in which it talks.
    share: f64,
    /// For how much time this counts beside what was seen.
    time: Duration,
}

impl Guess {
    /// It talks all the time: calls may not take for long what they leave to others.
    pub(super) const MOST: Self = Self {
        share: 1.0,
        time: Duration::from_secs(5),
    };
    /// It talks half of its time, as two do who talk to each other.
    pub(super) const LIKELY: Self = Self {
        share: 0.5,
        time: Duration::from_secs(10),
    };
}

/// When a call talked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Talk {
    /// Between packets that no silence was between.
    time: Duration,
}

impl Talk {
    /// A packet came so long after the one before, with no silence between.
    pub(super) fn see(&mut self, gap: Duration) {
        self.time += gap;
    }

    /// The share of its time in which a call talks that began `all` that time ago.
    pub(super) fn share(&self, all: Duration, guess: Guess) -> f64 {
        let seconds = |time: Duration| time.as_nanos() as f64 / 1e9;
        let guessed = seconds(guess.time);
        (seconds(self.time) + guess.share * guessed) / (seconds(all) + guessed)
    }
}

/// The share of what calls say that finds no room on a line, if each talks when it likes:
/// E(S - C)+ / E(S) of their sum S and what the line carries, C. Of each call what it needs while
/// it talks, in the unit of `line`, and the share of its time in which it does.
pub(super) fn lost(calls: impl Iterator<Item = (u64, f64)>, line: u64) -> f64 {
    let step = line.max(1) as f64 / STEPS as f64;
    // The chance of each sum; the last is of those that find no room.
    let mut chances = vec![0.0; STEPS + 1];
    chances[0] = 1.0;
    let (mut whole, mut beyond) = (0.0, 0.0);
    for (needs, share) in calls {
        let steps = (needs as f64 / step + 0.5) as usize;
        whole += steps as f64 * share;
        for sum in (0..=STEPS).rev() {
            let talks = chances[sum] * share;
            chances[sum] -= talks;
            let after = sum.saturating_add(steps);
            chances[after.min(STEPS)] += talks;
            beyond += talks * after.saturating_sub(STEPS) as f64;
        }
    }
    if whole > 0.0 { beyond / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of calls that talk half of their time all ways to talk together are as likely.
    #[test]
    fn what_finds_no_room_is_the_mean_over_all_ways_to_talk_together() {
        for (calls, needs, room) in [(6, 190, 912), (3, 420, 912), (2, 420, 912), (10, 64, 256)] {
            let over = (0..1_u32 << calls).map(|talking| {
                let sum = u64::from(talking.count_ones()) * needs;
                sum.saturating_sub(room) as f64
            });
            let mean = over.sum::<f64>() / f64::from(1 << calls);
            let expected = mean / (f64::from(calls) * needs as f64 / 2.0);
            let found = lost((0..calls).map(|_| (needs, 0.5)), room);
            let close = (found - expected).abs() < 0.003;
            assert!(close, "{calls}: {found} {expected}");
        }
        let constant = |calls: &[u64]| lost(calls.iter().map(|needs| (*needs, 1.0)), 912);
        assert_eq!([constant(&[]), constant(&[912])], [0.0; 2]);
        assert_eq!(constant(&[912, 912]), 0.5);
    }

    #[test]
    fn a_call_is_what_was_guessed_until_more_is_seen() {
        let second = Duration::from_secs(1);
        let share = |talk: Talk, s, guess| talk.share(second.saturating_mul(s), guess);
        let mut talk = Talk::default();
        assert_eq!(share(talk, 0, Guess::MOST), 1.0);
        assert_eq!(share(talk, 0, Guess::LIKELY), 0.5);
        for _ in 0..300 {
            talk.see(Duration::from_millis(100));
        }
        assert_eq!(share(talk, 30, Guess::MOST), 1.0);
        assert_eq!(share(talk, 65, Guess::MOST), 0.5);
        assert_eq!(share(talk, 60, Guess::LIKELY), 0.5);
    }
}
