//! How long the other side has said nothing although it was to say something.

use strait_core::{Duration, Instant};

/// How much longer than an answer may take it is missed before the other side counts as lost.
const LOST: Duration = Duration::from_secs(30);
/// How long it is missed before its streams end: as long as a host's TCP tries.
const OVER: Duration = Duration::from_secs(900);

/// What a silence has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// There is none to speak of.
    #[default]
    Short,
    /// The other side counts as lost.
    Lost,
    /// Its streams end.
    Over,
}

/// A silence.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    since: Option<Instant>,
    stage: Stage,
}

impl Silence {
    /// From now on an answer is missed, unless one is already.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Something was heard, or nothing is missed any more.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    pub(crate) const fn is_long(&self) -> bool {
        !matches!(self.stage, Stage::Short)
    }

    /// When it comes to more.
    pub(crate) fn wake(&self, patience: Duration) -> Option<Instant> {
        let lost = LOST + patience;
        let after = match self.stage {
            Stage::Short => lost,
            Stage::Lost => OVER.max(lost),
            Stage::Over => return None,
        };
        self.since.map(|since| since + after)
    }

    /// What it has come to just now, if it has.
    pub(crate) fn tend(&mut self, now: Instant, patience: Duration) -> Option<Stage> {
        self.wake(patience).filter(|at| *at <= now)?;
        self.stage = match self.stage {
            Stage::Short => Stage::Lost,
            _ => Stage::Over,
        };
        Some(self.stage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_long_and_then_too_long() {
        let (patience, ns) = (Duration::from_secs(2), Duration::from_nanos(1));
        let mut silence = Silence::default();
        assert_eq!(silence.wake(patience), None);
        silence.begin(Instant::from_secs(5));
        // Only the first question counts.
        silence.begin(Instant::from_secs(6));
        for (at, stage) in [(37, Stage::Lost), (905, Stage::Over)] {
            let at = Instant::from_secs(at);
            assert_eq!(silence.wake(patience), Some(at));
            assert_eq!(silence.tend(at - ns, patience), None);
            assert_eq!(silence.tend(at, patience), Some(stage));
            assert!(silence.is_long());
        }
        assert_eq!(silence.wake(patience), None);
        silence.end();
        assert!(!silence.is_long());
    }
}
