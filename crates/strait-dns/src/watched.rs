//! What the far side keeps fresh for this one.
//!
//! A question for what was known before, and is asked for again, says that its answer is to be kept
//! fresh. From then on the far side asks its resolvers, and tells only what has changed: nothing
//! crosses for a name that stays as it is, but a word now and then that both still know the same.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hickory_proto::rr::{Name, RecordType};
use strait_core::{Duration, Instant};

use crate::frame::{Frame, Types};

/// Names of a partner that are kept fresh.
pub const WATCHES_MAX: usize = 256;
/// How often the far side says that nothing has changed.
pub const HELLO: Duration = Duration::from_secs(900);
/// For how long its last word holds.
pub const HOLDS: Duration = Duration::from_secs(2250);
/// What nobody asks for isn't kept fresh for longer, and for how long it is all the same, so that
/// others go with it in one word.
const UNUSED: Duration = Duration::from_secs(3600);
const GATHERS: Duration = HELLO;
/// How often this side says what it knows: far sides forget those that are gone for twice as long.
pub const LEASE: Duration = Duration::from_secs(12 * 3600);

/// A name that is kept fresh.
#[derive(Debug)]
struct Watched {
    name: Name,
    types: Types,
    sum: u32,
    /// When its answer came, and when it was of use last.
    came: Instant,
    used: Instant,
}

/// What one partner keeps fresh, by number.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    all: BTreeMap<u16, Watched>,
    by_name: BTreeMap<(Name, u16), u16>,
    /// Until when all of it holds.
    holds: Instant,
    /// When this side has said something last.
    said: Instant,
    gone: Vec<u16>,
    /// All that is known is to be told.
    roll: bool,
}

impl Watches {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn has(&self, id: u16) -> bool {
        self.all.contains_key(&id)
    }

    /// Whether what is known is fresh, be its life over; it is in use.
    pub(crate) fn use_fresh(&mut self, now: Instant, name: &Name, kind: u16) -> bool {
        let id = self.by_name.get(&(name.clone(), kind));
        let Some(watched) = id.and_then(|id| self.all.get_mut(id)) else {
            return false;
        };
        watched.used = now;
        self.keeps(now, name, kind)
    }

    /// Whether one is kept fresh.
    pub(crate) fn keeps(&self, now: Instant, name: &Name, kind: u16) -> bool {
        let id = self.by_name.get(&(name.clone(), kind));
        let watched = id.and_then(|id| self.all.get(id));
        watched.is_some_and(|it| now < self.holds.max(it.came + HOLDS))
    }

    /// An answer came that is kept fresh from now on.
    pub(crate) fn keep(&mut self, now: Instant, id: u16, name: &Name, types: Types, sum: u32) {
        self.forget(id);
        for kind in types.iter() {
            // What was kept fresh under another number isn't any longer.
            let before = self.by_name.get(&(name.clone(), kind.into()));
            before.copied().into_iter().for_each(|id| self.leave(id));
        }
        for kind in types.iter() {
            self.by_name.insert((name.clone(), kind.into()), id);
        }
        let watched = Watched {
            name: name.clone(),
            types,
            sum,
            came: now,
            used: now,
        };
        self.all.insert(id, watched);
        self.said = now;
    }

    /// An answer has changed; its name and types, if it is one of these.
    pub(crate) fn change(&mut self, now: Instant, id: u16, types: Types, sum: u32) -> Option<Name> {
        let watched = self.all.get_mut(&id).filter(|it| it.types == types);
        let Some(watched) = watched else {
            self.roll = true;
            return None;
        };
        (watched.came, watched.sum) = (now, sum);
        Some(watched.name.clone())
    }

    /// The far side says what it keeps fresh, all in one.
    pub(crate) fn hear_hello(&mut self, now: Instant, sum: u32) {
        let own = self.all.values().fold(0, |all, it| all ^ it.sum);
        if own == sum {
            self.holds = now + HOLDS;
        } else {
            self.roll = true;
        }
    }

    /// The far side doesn't keep one fresh any more.
    pub(crate) fn forget(&mut self, id: u16) {
        if let Some(watched) = self.all.remove(&id) {
            for kind in watched.types.iter() {
                self.by_name.remove(&(watched.name.clone(), kind.into()));
            }
        }
    }

    /// One isn't to be kept fresh any more.
    fn leave(&mut self, id: u16) {
        self.forget(id);
        self.gone.push(id);
    }

    /// Leaves what is asked for anew.
    pub(crate) fn leave_name(&mut self, name: &Name, kind: RecordType) {
        let id = self.by_name.get(&(name.clone(), kind.into()));
        id.copied().into_iter().for_each(|id| self.leave(id));
    }

    /// When what isn't of use is left.
    fn unused(&self) -> Option<Instant> {
        let used = self.all.values().map(|it| it.used).min()?;
        Some(used + UNUSED + GATHERS)
    }

    /// Leaves what isn't of use.
    pub(crate) fn tend(&mut self, now: Instant) {
        if self.unused().is_some_and(|at| at <= now) {
            let unused = self.all.iter().filter(|(_, it)| it.used + UNUSED <= now);
            let unused: Vec<u16> = unused.map(|(id, _)| *id).collect();
            unused.into_iter().for_each(|id| self.leave(id));
        }
        self.roll |= !self.all.is_empty() && self.said + LEASE <= now;
    }

    /// What is to be said to the far side.
    pub(crate) fn poll_frame(&mut self, now: Instant) -> Option<Vec<u8>> {
        let frame = if core::mem::take(&mut self.roll) {
            self.gone.clear();
            let entries = self.all.iter();
            Frame::Roll(entries.map(|(id, it)| (*id, it.sum as u16)).collect())
        } else if self.gone.is_empty() {
            return None;
        } else {
            Frame::Gone {
                near: true,
                ids: core::mem::take(&mut self.gone),
            }
        };
        self.said = now;
        Some(frame.to_vec())
    }

    /// When it has something to do.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let lease = (!self.all.is_empty()).then_some(self.said + LEASE);
        let due = self.roll || !self.gone.is_empty();
        let due = due.then_some(Instant::ZERO);
        [self.unused(), lease, due].into_iter().flatten().min()
    }

    /// Asserts that the books are right.
    pub(crate) fn check(&self) {
        let names = self.all.values().map(|it| it.types.iter().count());
        assert_eq!(names.sum::<usize>(), self.by_name.len(), "names kept fresh");
        assert!(self.all.len() <= WATCHES_MAX, "too many are kept fresh");
    }
}
