//! What is to happen to messages at certain times: one time a message.

use alloc::collections::{BTreeMap, BTreeSet};

use strait_core::Instant;

/// Messages' times.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_time: BTreeSet<(Instant, u64)>,
    by_message: BTreeMap<u64, Instant>,
}

impl Deadlines {
    /// Gives a message its time, or has it have none.
    pub(super) fn set(&mut self, id: u64, at: Option<Instant>) {
        if let Some(was) = self.by_message.remove(&id) {
            self.by_time.remove(&(was, id));
        }
        if let Some(at) = at {
            self.by_message.insert(id, at);
            self.by_time.insert((at, id));
        }
    }

    /// A message whose time has come; it has none any more.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        let (at, id) = self.by_time.first().copied()?;
        (at <= now).then(|| self.set(id, None))?;
        Some(id)
    }

    /// The first time of all.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|it| it.0)
    }
}
