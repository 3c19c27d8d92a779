//! What «now» means in rates: the snapshots of the last ten seconds.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::{Snapshot, Span};

/// How far back it goes.
const WINDOW_S: f64 = 10.0;

/// The latest snapshots of a node whose snapshots come one by one.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Of one life, without flows, the present one last.
    past: VecDeque<Snapshot>,
    /// The oldest of these, and the present one.
    window: Vec<Snapshot>,
    /// The one before, and the present one, without flows.
    step: Vec<Snapshot>,
}

impl Recent {
    /// Takes a snapshot. One that isn't younger than what was there is of another life.
    pub fn hear(&mut self, snapshot: Snapshot) {
        let bare = Snapshot {
            flows: Vec::new(),
            ..snapshot.clone()
        };
        if self.past.back().map(|it| it.uptime_s) >= Some(snapshot.uptime_s) {
            self.past.clear();
        }
        self.step = self.past.back().cloned().into_iter().collect();
        self.step.push(bare.clone());
        let age_s = |it: &Snapshot| snapshot.uptime_s - it.uptime_s;
        while self.past.get(1).is_some_and(|it| age_s(it) >= WINDOW_S) {
            self.past.pop_front();
        }
        self.window = self.past.front().cloned().into_iter().collect();
        self.past.push_back(bare);
        self.window.push(snapshot);
    }

    /// The present.
    pub fn now(&self) -> Option<&Snapshot> {
        self.window.last()
    }

    /// What passed in the last ten seconds, or since its start if nothing was heard before.
    pub fn span(&self) -> Option<Span<'_>> {
        Span::new(&self.window)
    }

    /// What passed since the snapshot before; nothing if there was none in this life.
    pub fn step(&self) -> Option<Span<'_>> {
        (self.step.len() > 1).then(|| Span::new(&self.step))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_ten_seconds_of_one_life() {
        let mut recent = Recent::default();
        let mut hear = |uptime_s: f64| {
            recent.hear(Snapshot {
                uptime_s,
                ..Snapshot::default()
            });
            let of = |span: Option<Span<'_>>| span.map(|it| it.s);
            (of(recent.span()), of(recent.step()))
        };
        assert_eq!(hear(100.0), (Some(100.0), None));
        assert_eq!(hear(101.0), (Some(1.0), Some(1.0)));
        for at in 102..120 {
            hear(f64::from(at));
        }
        assert_eq!(hear(120.0), (Some(10.0), Some(1.0)));
        // It was restarted.
        assert_eq!(hear(2.0), (Some(2.0), None));
        assert_eq!(hear(5.0), (Some(3.0), Some(3.0)));
    }
}
