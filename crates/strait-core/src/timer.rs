//! A fixed set of timers, one deadline each.

use crate::time::Instant;

/// A closed set of timers: usually an enum without fields.
pub trait TimerKey: Copy + 'static {
    /// Every timer of the set, in the order of [`TimerKey::index`].
    const ALL: &'static [Self];
    /// The position in [`TimerKey::ALL`].
    fn index(self) -> usize;
}

/// The deadlines of a set of `N` timers.
#[derive(Clone, Debug)]
pub struct Timers<K, const N: usize> {
    at: [Option<Instant>; N],
    keys: core::marker::PhantomData<K>,
}

impl<K: TimerKey, const N: usize> Default for Timers<K, N> {
    fn default() -> Self {
        const { assert!(K::ALL.len() == N, "a deadline for each timer") };
        Self {
            at: [None; N],
            keys: core::marker::PhantomData,
        }
    }
}

impl<K: TimerKey, const N: usize> Timers<K, N> {
    /// Sets the deadline of `key`, whatever it was; `None` stops it.
    pub fn set(&mut self, key: K, at: Option<Instant>) {
        self.at[key.index()] = at;
    }

    /// Takes one timer whose deadline has come, in the order of the set.
    pub fn expire(&mut self, now: Instant) -> Option<K> {
        let key = K::ALL
            .iter()
            .copied()
            .find(|key| self.at[key.index()].is_some_and(|at| at <= now))?;
        self.at[key.index()] = None;
        Some(key)
    }

    /// The earliest deadline and its timer.
    pub fn next(&self) -> Option<(Instant, K)> {
        let pairs = K::ALL
            .iter()
            .filter_map(|key| self.at[key.index()].map(|at| (at, *key)));
        pairs.min_by_key(|(at, key)| (*at, key.index()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Key {
        A,
        B,
    }

    impl TimerKey for Key {
        const ALL: &'static [Self] = &[Self::A, Self::B];
        fn index(self) -> usize {
            self as usize
        }
    }

    #[test]
    fn a_timer_expires_at_its_deadline_and_once() {
        let mut timers = Timers::<Key, 2>::default();
        timers.set(Key::B, Some(Instant::from_nanos(10)));
        timers.set(Key::A, Some(Instant::from_nanos(20)));
        assert_eq!(timers.next(), Some((Instant::from_nanos(10), Key::B)));
        assert_eq!(timers.expire(Instant::from_nanos(9)), None);
        assert_eq!(timers.expire(Instant::from_nanos(10)), Some(Key::B));
        assert_eq!(timers.expire(Instant::from_nanos(10)), None);
        timers.set(Key::A, None);
        assert_eq!(timers.next(), None);
    }
}
