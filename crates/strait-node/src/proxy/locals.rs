//! The connections with hosts here, and what each waits for.

use alloc::collections::{BTreeMap, BTreeSet};

use strait_core::node::StreamId;
use strait_core::{Duration, Instant};
use strait_proxy::handshake::Speech;
use strait_proxy::{Ends, Key};

use super::packing::Directions;

/// How far a connection of a host here is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// A client waits for an answer.
    Asked,
    /// It may have its connection.
    Accepted,
    /// A server is asked.
    Connecting,
    Open,
}

/// A connection with a host here.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) partner: usize,
    pub(super) key: Key,
    pub(super) phase: Phase,
    /// Who wants whom, of a client of ours that no listener asked.
    pub(super) ends: Option<Ends>,
    /// How it hears of its connection, if it has asked by a listener of ours.
    pub(super) explicit: Option<Speech>,
    /// When a client that waits for an answer is connected without one.
    early_at: Option<Instant>,
    /// When octets last came from it or went to it, and when it is looked at for that.
    pub(super) moved: Instant,
    idle_at: Option<Instant>,
    /// Octets that it takes, and that it may give.
    pub(super) writable: u64,
    pub(super) credited: u64,
    /// Octets that may wait of one that is the message switch's, and its code point.
    pub(super) lane: Option<(u64, u8)>,
    /// Ends of both directions: what we said, and what it did.
    pub(super) said_end: bool,
    pub(super) heard_end: bool,
    pub(super) directions: Directions,
}

/// Streams that have a place, by partner.
#[derive(Debug, Default)]
pub(super) struct Places(BTreeMap<usize, BTreeSet<Key>>);

impl Places {
    pub(super) fn add(&mut self, partner: usize, key: Key) {
        self.0.entry(partner).or_default().insert(key);
    }

    pub(super) fn remove(&mut self, partner: usize, key: Key) {
        if let Some(all) = self.0.get_mut(&partner) {
            all.remove(&key);
        }
    }

    pub(super) fn all(&self, partner: usize) -> Option<&BTreeSet<Key>> {
        self.0.get(&partner)
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.values().map(BTreeSet::len).sum()
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Locals {
    all: BTreeMap<StreamId, Local>,
    /// By partner and stream of its session.
    ids: BTreeMap<(usize, Key), StreamId>,
    /// Clients that wait for an answer, and when they are connected without one.
    early: BTreeSet<(Instant, StreamId)>,
    /// Clients whose SYN is held until the far side answers.
    pub(super) held: Places,
    /// Clients that may have their connection, and haven't come for it.
    pub(super) coming: Places,
    /// How long nothing may move, and who is looked at for that when.
    idle_max: Option<Duration>,
    idle: BTreeSet<(Instant, StreamId)>,
}

impl Locals {
    pub(super) const fn new(idle_max: Option<Duration>) -> Self {
        Self {
            all: BTreeMap::new(),
            ids: BTreeMap::new(),
            early: BTreeSet::new(),
            held: Places(BTreeMap::new()),
            coming: Places(BTreeMap::new()),
            idle_max,
            idle: BTreeSet::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        now: Instant,
        id: StreamId,
        partner: usize,
        key: Key,
        phase: Phase,
    ) {
        let idle_at = self.idle_max.map(|time| now + time);
        let local = Local {
            partner,
            key,
            phase,
            ends: None,
            explicit: None,
            early_at: None,
            moved: now,
            idle_at,
            writable: 0,
            credited: 0,
            lane: None,
            said_end: false,
            heard_end: false,
            directions: Directions::default(),
        };
        self.idle.extend(idle_at.map(|at| (at, id)));
        self.ids.insert((partner, key), id);
        self.all.insert(id, local);
    }

    pub(super) fn remove(&mut self, id: StreamId) -> Option<Local> {
        self.end_wait(id);
        let local = self.all.remove(&id)?;
        self.ids.remove(&(local.partner, local.key));
        self.held.remove(local.partner, local.key);
        self.coming.remove(local.partner, local.key);
        if let Some(at) = local.idle_at {
            self.idle.remove(&(at, id));
        }
        Some(local)
    }

    pub(super) fn one(&self, id: StreamId) -> Option<&Local> {
        self.all.get(&id)
    }

    pub(super) fn one_mut(&mut self, id: StreamId) -> Option<&mut Local> {
        self.all.get_mut(&id)
    }

    /// Which is for a stream of a partner's session.
    pub(super) fn find(&self, partner: usize, key: Key) -> Option<StreamId> {
        self.ids.get(&(partner, key)).copied()
    }

    /// When a client asked, if its SYN is held.
    pub(super) fn held_since(&self, id: StreamId) -> Option<Instant> {
        let local = self.one(id)?;
        let held = self.held.all(local.partner)?;
        held.contains(&local.key).then_some(local.moved)
    }

    /// A client may have its connection.
    pub(super) fn let_in(&mut self, now: Instant, id: StreamId) {
        if let Some(local) = self.all.get_mut(&id) {
            local.phase = Phase::Accepted;
            local.moved = now;
            self.held.remove(local.partner, local.key);
            self.coming.add(local.partner, local.key);
        }
    }

    /// Of a partner's clients in these places: who has been there for longest, and since when.
    pub(super) fn oldest(&self, partner: usize, places: &Places) -> Option<(StreamId, Instant)> {
        let keys = places.all(partner)?.iter();
        let all = keys.filter_map(|key| {
            let id = self.find(partner, *key)?;
            Some((id, self.one(id)?.moved))
        });
        all.min_by_key(|(_, since)| *since)
    }

    /// A client is connected at this moment if it still waits for an answer then.
    pub(super) fn let_in_at(&mut self, at: Instant, id: StreamId) {
        if let Some(local) = self.all.get_mut(&id) {
            local.early_at = Some(at);
            self.early.insert((at, id));
        }
    }

    /// A client waits no longer for an answer.
    pub(super) fn end_wait(&mut self, id: StreamId) {
        let early_at = self.all.get_mut(&id).and_then(|it| it.early_at.take());
        if let Some(at) = early_at {
            self.early.remove(&(at, id));
        }
    }

    /// The next client that has waited long enough for an answer.
    pub(super) fn next_early(&mut self, now: Instant) -> Option<StreamId> {
        let (_, id) = self.early.first().copied().filter(|(at, _)| *at <= now)?;
        self.end_wait(id);
        Some(id)
    }

    /// The next connection on which nothing has moved for longer than may be. It is looked at again
    /// when as much time has passed once more.
    pub(super) fn next_idle(&mut self, now: Instant) -> Option<StreamId> {
        let most = self.idle_max?;
        loop {
            let due = self.idle.first().copied().filter(|(at, _)| *at <= now)?;
            self.idle.remove(&due);
            let (_, id) = due;
            let Some(local) = self.all.get_mut(&id) else {
                continue;
            };
            let over = local.moved + most;
            // Who has no connection yet has other limits, and a switch has its own.
            let is_idle = over <= now && local.phase == Phase::Open && local.lane.is_none();
            let again = if over > now { over } else { now + most };
            local.idle_at = Some(again);
            self.idle.insert((again, id));
            if is_idle {
                return Some(id);
            }
        }
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let firsts = [self.early.first(), self.idle.first()];
        firsts.into_iter().flatten().map(|(at, _)| *at).min()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let placed = self.held.count() + self.coming.count();
        self.all.is_empty() && self.ids.is_empty() && placed == 0
    }

    /// Asserts that each has its place.
    pub(super) fn check(&self) {
        let known = self.all.iter();
        let known = known.filter(|(id, it)| self.find(it.partner, it.key) == Some(**id));
        assert_eq!(
            known.count(),
            self.ids.len(),
            "a stream has no connection, or two"
        );
        let early = self.all.values().filter(|it| it.early_at.is_some());
        let idle = self.all.values().filter(|it| it.idle_at.is_some());
        let waiting = [early.count(), idle.count()];
        assert_eq!(
            waiting,
            [self.early.len(), self.idle.len()],
            "nobody waits for this moment"
        );
    }
}
