//! How fast frames leave for the only neighbour of a port, as far as its medium reports.

use alloc::collections::VecDeque;

use strait_core::rate::LineRate;
use strait_core::time::{Duration, Instant, nanos};

/// Frames that count: of so long ago, but so many at least, and so many at most.
const FRESH: Duration = Duration::from_secs(3);
const FRAMES_MIN: usize = 4;
const FRAMES_MAX: usize = 16;

/// Frames after which something is known: cards look for a rate first, and modems send to all until
/// they know where a station is.
const KNOWN: u32 = 16;

/// The most that a medium takes for itself of a frame's time: as long as these octets, and no less
/// than this.
const OWN_OCTETS: u64 = 64;
const OWN: Duration = Duration::from_millis(5);

/// The rate of a link, by the times that its medium was busy with frames.
///
/// The time of a frame beyond its octets at the port's rate belongs to the medium, at the least
/// observed value. Twice that isn't counted: access to a channel takes longer now and then. Short
/// frames therefore show only a rate that is much lower, and long ones each rate.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    own: Option<Duration>,
    seen: u32,
    frames: VecDeque<(Instant, u64)>,
}

impl Pace {
    /// A frame kept the medium busy for so long, where `rate` is the port's. Gives the rate in
    /// bit/s; `None` before enough is known.
    ///
    /// A frame is late after any delay, and never early: the fastest of few frames show the rate,
    /// or an eighth of many, as some may be a card's samples of another rate.
    pub(super) fn ends(
        &mut self,
        now: Instant,
        busy: Duration,
        octets: u64,
        rate: LineRate,
    ) -> Option<u64> {
        let least = rate.time_for(octets).max(Duration::from_nanos(1));
        let most = rate.time_for(OWN_OCTETS).max(OWN);
        let own = busy.saturating_sub(least).min(most);
        let own = self.own.map_or(own, |before| before.min(own));
        self.own = Some(own);
        let counted = busy.saturating_sub(2 * own).max(least);
        let bit_s = u128::from(octets) * 8_000_000_000 / u128::from(nanos(counted).max(1));
        self.seen = self.seen.saturating_add(1);
        self.frames.push_back((now, bit_s as u64));
        let is_old = |(at, _): &(Instant, u64)| now.since(*at) > FRESH;
        while self.frames.len() > FRAMES_MAX
            || self.frames.len() > FRAMES_MIN && self.frames.front().is_some_and(is_old)
        {
            self.frames.pop_front();
        }
        let mut rates = [0; FRAMES_MAX];
        for (place, (_, rate)) in rates.iter_mut().zip(&self.frames) {
            *place = *rate;
        }
        let rates = &mut rates[..self.frames.len()];
        rates.sort_unstable_by(|a, b| b.cmp(a));
        let reached = rates[rates.len() / 8];
        (self.seen >= KNOWN).then_some(reached)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    const MEGABIT: LineRate = LineRate::new(1_000_000, 8);

    /// Frames, one each second, with their octets and microseconds: the last rate.
    fn rate(frames: &[(u64, u64)]) -> Option<u64> {
        let mut pace = Pace::default();
        let mut rate = None;
        for (second, (octets, micros)) in (0..).zip(frames) {
            let busy = Duration::from_micros(*micros);
            rate = pace.ends(Instant::from_millis(second * 1000), busy, *octets, MEGABIT);
        }
        rate
    }

    #[test]
    fn sixteen_frames_tell_a_rate_and_fifteen_do_not() {
        assert_eq!(rate(&[(100, 1500); 15]), None);
        assert_eq!(rate(&[(100, 1500); 16]), Some(1_000_000));
        // A channel that others use takes longer now and then, and the first frames went to all.
        let mut frames = vec![(100, 17_000); 4];
        frames.extend([(100, 1500), (100, 2000), (100, 2000)].repeat(4));
        assert_eq!(rate(&frames), Some(1_000_000));
    }

    #[test]
    fn an_idle_link_that_fades_shows_when_four_frames_in_a_row_are_slow() {
        let near = (100, 1500);
        let far = (100, 41_400);
        let mut frames = vec![near; 16];
        frames.extend([far; 3]);
        assert_eq!(rate(&frames), Some(1_000_000));
        frames.push(far);
        let faded = rate(&frames).unwrap();
        assert!((19_000..21_000).contains(&faded), "{faded}");
        frames.extend([far; 5]);
        frames.push(near);
        assert_eq!(rate(&frames), Some(1_000_000));
    }

    #[test]
    fn of_many_frames_the_fastest_eighth_may_be_samples() {
        let mut pace = Pace::default();
        let mut rates = |micros: [u64; 16]| {
            let frames = micros.map(Duration::from_micros);
            frames.map(|busy| pace.ends(Instant::ZERO, busy, 100, MEGABIT))[15].unwrap()
        };
        let (near, far) = (1500, 41_400);
        let mut frames = [far; 16];
        frames[0] = near;
        frames[11] = near;
        assert!(rates(frames) < 21_000);
        frames[7] = near;
        assert_eq!(rates(frames), 1_000_000);
    }

    #[test]
    fn a_host_that_is_late_with_three_frames_of_four_says_nothing_of_the_link() {
        let late = |n: u64| if n.is_multiple_of(4) { 1500 } else { 41_500 };
        let frames: Vec<_> = (0..32).map(|n| (100, late(n))).collect();
        assert_eq!(rate(&frames), Some(1_000_000));
    }

    #[test]
    fn long_frames_tell_of_any_other_rate() {
        let mut frames = vec![(100, 1500); 16];
        // 1000 octets at 500 kbit/s.
        frames.extend([(1000, 16_700); 4]);
        let half = rate(&frames).unwrap();
        assert!((500_000..530_000).contains(&half), "{half}");
    }

    #[test]
    fn a_link_that_is_slow_from_the_beginning_is_found_to_be() {
        let slow = rate(&[(100, 40_700); 16]).unwrap();
        assert!((20_000..27_000).contains(&slow), "{slow}");
    }
}
