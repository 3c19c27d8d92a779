//! The snapshots that a diagnosis is made of.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Why, why};
use crate::Snapshot;

/// The time that a diagnosis is about, at best: some packets pass a slow line in it.
pub const SPAN_S: f64 = 30.0;
/// Time between the snapshots that it is made of: fades show.
pub const STEP_S: f64 = 3.0;

/// The latest snapshots of a node: those of [`SPAN_S`], one each [`STEP_S`].
#[derive(Clone, Debug, Default)]
pub struct History(VecDeque<Snapshot>);

impl History {
    const LENGTH: usize = (SPAN_S / STEP_S) as usize;

    /// Takes a snapshot, which is younger than the others.
    pub fn note(&mut self, snapshot: Snapshot) {
        if self.0.len() == Self::LENGTH {
            self.0.pop_front();
        }
        self.0.push_back(snapshot);
    }

    /// The snapshots, the oldest first, with the present one last.
    pub fn until(&self, now: &Snapshot) -> Vec<Snapshot> {
        self.0.iter().chain([now]).cloned().collect()
    }
}

/// What is said of a node whose snapshots come one by one, often: it is judged each [`STEP_S`].
#[derive(Clone, Debug, Default)]
pub struct Watch {
    past: History,
    /// When it was judged last, by its own clock.
    at_s: Option<f64>,
    why: Why,
}

impl Watch {
    /// Takes a snapshot. One that is older than what was there is of another life.
    pub fn hear(&mut self, now: &Snapshot) -> &Why {
        if self.at_s.is_some_and(|at_s| now.uptime_s < at_s) {
            *self = Self::default();
        }
        if self.at_s.is_none_or(|at_s| now.uptime_s - at_s >= STEP_S) {
            self.why = why(&self.past.until(now));
            self.past.note(now.clone());
            self.at_s = Some(now.uptime_s);
        }
        &self.why
    }

    /// What was said last.
    pub const fn why(&self) -> &Why {
        &self.why
    }
}
