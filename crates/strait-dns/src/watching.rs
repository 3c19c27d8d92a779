//! What this side keeps fresh for its partners.
//!
//! Resolvers are asked anew whenever an answer's life is over, on their own good line; a partner
//! hears of what is no longer as it was told, and now and then a sum of all that is. Where the sums
//! differ, it says what it takes to be fresh, and is told what isn't.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hickory_proto::rr::Name;
use strait_core::{Duration, Instant};

use crate::body::Body;
use crate::frame::{DATAGRAM_OCTETS, Frame, Types, sum_of};
use crate::watched::{HELLO, LEASE, WATCHES_MAX};

/// Names of all partners.
const ALL_MAX: usize = 2048;
/// How often a resolver is asked for the same, at most.
const PERIOD_MIN: Duration = Duration::from_secs(60);
/// What changes so often within an hour costs more than it saves.
const CHANGES_MAX: u32 = 4;
const CHANGES_IN: Duration = Duration::from_secs(3600);
/// How soon sums are compared after they differed.
const COMPARED_AGAIN: Duration = Duration::from_secs(60);
/// A partner that says nothing for so long has forgotten.
const SILENT: Duration = Duration::from_secs(2 * LEASE.as_secs());

/// A name that is kept fresh.
#[derive(Debug)]
struct Watch {
    name: Name,
    types: Types,
    bodies: Vec<Body>,
    sum: u32,
    /// When a resolver is asked anew; nothing while one is.
    due: Option<Instant>,
    changes: u32,
    changes_since: Instant,
}

/// What is kept fresh for one partner, by number.
#[derive(Debug)]
struct Watches {
    all: BTreeMap<u16, Watch>,
    /// When it is told the sum next, and when it said something last.
    hello: Instant,
    heard: Instant,
}

/// What is kept fresh for all.
#[derive(Debug)]
pub(crate) struct Watching {
    partners: Vec<Watches>,
}

impl Watching {
    pub(crate) fn new(partners: usize) -> Self {
        let none = || Watches {
            all: BTreeMap::new(),
            hello: Instant::ZERO,
            heard: Instant::ZERO,
        };
        Self {
            partners: (0..partners).map(|_| none()).collect(),
        }
    }

    /// How many names there are.
    pub(crate) fn len(&self) -> usize {
        self.partners.iter().map(|it| it.all.len()).sum()
    }

    /// Keeps an answer fresh from now on, if there is room.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        (partner, id): (usize, u16),
        (name, types): (&Name, Types),
        bodies: &[Body],
    ) -> bool {
        let full = self.len() >= ALL_MAX;
        let Some(own) = self.partners.get_mut(partner) else {
            return false;
        };
        // The partner asks anew for what it doesn't take to be fresh.
        own.all.retain(|other, it| {
            *other != id && (it.name != *name || it.types.iter().all(|kind| !types.has(kind)))
        });
        let fits = bodies.iter().all(Body::is_known) && !is_long(bodies);
        if full || own.all.len() >= WATCHES_MAX || !fits {
            return false;
        }
        if own.all.is_empty() {
            own.hello = now + HELLO;
        }
        own.heard = now;
        let watch = Watch {
            name: name.clone(),
            types,
            sum: sum_of(id, types, bodies),
            due: Some(now + period(bodies)),
            bodies: bodies.to_vec(),
            changes: 0,
            changes_since: now,
        };
        own.all.insert(id, watch);
        true
    }

    /// One whose answer's life is over: partner, number, and what to ask for.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(usize, u16, Name, Types)> {
        let partners = self.partners.iter_mut().enumerate();
        let mut all = partners.flat_map(|(partner, own)| {
            let each = own.all.iter_mut();
            each.map(move |(id, watch)| (partner, *id, watch))
        });
        let (partner, id, watch) = all.find(|it| it.2.due.is_some_and(|due| due <= now))?;
        watch.due = None;
        Some((partner, id, watch.name.clone(), watch.types))
    }

    /// Resolvers have answered anew, or not: what the partner is to hear of it.
    pub(crate) fn renew(
        &mut self,
        now: Instant,
        (partner, id): (usize, u16),
        bodies: Vec<Body>,
    ) -> Option<Frame> {
        let own = self.partners.get_mut(partner)?;
        let watch = own.all.get_mut(&id)?;
        watch.due = Some(now + period(&bodies));
        let known = bodies.iter().all(Body::is_known);
        let sum = sum_of(id, watch.types, &bodies);
        if !known || sum == watch.sum {
            return None;
        }
        if now.since(watch.changes_since) >= CHANGES_IN {
            (watch.changes, watch.changes_since) = (0, now);
        }
        watch.changes += 1;
        if watch.changes >= CHANGES_MAX || is_long(&bodies) {
            own.all.remove(&id);
            return Some(Frame::Gone {
                near: false,
                ids: Vec::from([id]),
            });
        }
        (watch.sum, watch.bodies) = (sum, bodies);
        Some(watch.frame(id))
    }

    /// A partner doesn't need some any more.
    pub(crate) fn hear_gone(&mut self, now: Instant, partner: usize, ids: &[u16]) {
        if let Some(own) = self.partners.get_mut(partner) {
            own.heard = now;
            ids.iter().for_each(|id| {
                own.all.remove(id);
            });
        }
    }

    /// A partner says all that it takes to be fresh: what it is to hear.
    pub(crate) fn hear_roll(
        &mut self,
        now: Instant,
        partner: usize,
        entries: &[(u16, u16)],
    ) -> Vec<Frame> {
        let Some(own) = self.partners.get_mut(partner) else {
            return Vec::new();
        };
        own.heard = now;
        own.hello = own.hello.min(now + COMPARED_AGAIN);
        let entries: BTreeMap<u16, u16> = entries.iter().copied().collect();
        own.all.retain(|id, _| entries.contains_key(id));
        let gone = entries.keys().filter(|id| !own.all.contains_key(id));
        let ids: Vec<u16> = gone.copied().take(WATCHES_MAX).collect();
        let gone = (!ids.is_empty()).then_some(Frame::Gone { near: false, ids });
        let own = own.all.iter();
        let changed = own.filter(|(id, it)| entries.get(id) != Some(&(it.sum as u16)));
        let frames = changed.map(|(id, it)| it.frame(*id));
        frames.chain(gone).collect()
    }

    /// The sums that partners are to hear now.
    pub(crate) fn tend(&mut self, now: Instant) -> Vec<(usize, Frame)> {
        let mut frames = Vec::new();
        for (partner, own) in self.partners.iter_mut().enumerate() {
            if own.heard + SILENT <= now {
                own.all.clear();
            }
            if own.hello <= now && !own.all.is_empty() {
                own.hello = now + HELLO;
                let sum = own.all.values().fold(0, |all, it| all ^ it.sum);
                frames.push((partner, Frame::Hello(sum)));
            }
        }
        frames
    }

    /// When there is something to do.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let partners = self.partners.iter().filter(|it| !it.all.is_empty());
        let times = partners.flat_map(|own| {
            let due = own.all.values().filter_map(|it| it.due);
            due.chain([own.hello, own.heard + SILENT])
        });
        times.min()
    }
}

impl Watch {
    /// Its answer, as it is now.
    fn frame(&self, id: u16) -> Frame {
        Frame::Answer {
            id,
            types: self.types,
            watched: true,
            bodies: self.bodies.clone(),
        }
    }
}

/// Whether a change takes more than a datagram: those are asked for.
fn is_long(bodies: &[Body]) -> bool {
    bodies.iter().map(Body::octets).sum::<usize>() > DATAGRAM_OCTETS
}

/// When answers are old.
fn period(bodies: &[Body]) -> Duration {
    let life_s = bodies.iter().map(|it| it.life_s).min();
    PERIOD_MIN.max(Duration::from_secs(life_s.unwrap_or(0).into()))
}
