//! Delivery in order of data without ARQ (C.3.10 (11), C.4.2 (15)).
//!
//! Data in order waits for data with an earlier number of the same source and type that is in
//! order, too, and may still become complete. Missing numbers may be another station's, or all
//! their pieces may have been lost: they are waited for while copies of them may arrive, within the
//! window of the first waiting one.

use alloc::collections::VecDeque;

use strait_core::{Duration, Instant};

use super::{Assembler, Came, HOLD_MAX, Key, Partial};

/// How long numbers of which nothing was heard are waited for at most: the longest transmission
/// that EOT can tell.
const UNHEARD_MAX: Duration = Duration::from_millis(127_500);

/// C_PDUs that wait, from all sources.
const HELD_MAX: usize = 64;

/// Their octets.
const HELD_OCTETS_MAX: usize = 1 << 18;

/// Sources and types whose numbers are known.
const EDGES_MAX: usize = 32;

/// A C_PDU that waits for others.
#[derive(Debug)]
struct Held {
    key: Key,
    came: Came,
    /// So long it waits for numbers of which nothing was heard.
    unheard: Instant,
    /// So long for anything.
    until: Instant,
}

/// How far C_PDUs of a source and type were delivered.
#[derive(Debug)]
struct Edge {
    /// The source and type, and the number behind the last that was delivered in order.
    next: Key,
    until: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Order {
    held: VecDeque<Held>,
    edges: VecDeque<Edge>,
}

impl Key {
    /// The same source and type: their numbers are in one order.
    fn is_with(&self, other: &Self) -> bool {
        (self.from, self.expedited) == (other.from, other.expedited)
    }

    /// Numbers from this to the other, going up.
    const fn upto(&self, other: &Self) -> u16 {
        other.c_pdu.wrapping_sub(self.c_pdu) % 4096
    }

    /// Whether its number comes before the other's in their order.
    fn is_before(&self, other: &Self) -> bool {
        self.is_with(other) && (1..2048).contains(&self.upto(other))
    }

    fn go_up(&mut self) {
        self.c_pdu = (self.c_pdu + 1) % 4096;
    }
}

impl Order {
    /// Whether numbers of the source and type matter.
    pub(super) fn counts(&self, key: Key) -> bool {
        self.edges.iter().any(|edge| edge.next.is_with(&key))
    }

    pub(super) fn holds(&self, key: Key) -> bool {
        self.held.iter().any(|held| held.key == key)
    }

    pub(super) fn forget(&mut self, now: Instant) {
        self.edges.retain(|edge| edge.until > now);
    }

    fn is_full(&self) -> bool {
        let octets: usize = self.held.iter().map(|held| held.came.octets.len()).sum();
        self.held.len() > HELD_MAX || octets > HELD_OCTETS_MAX
    }

    /// The place of the first that waits, of a source and type.
    fn first(&self, of: &Key) -> Option<usize> {
        let held = self.held.iter().enumerate();
        let first = held
            .filter(|(_, held)| held.key.is_with(of))
            .reduce(|first, it| match it.1.key.is_before(&first.1.key) {
                true => it,
                false => first,
            });
        first.map(|(place, _)| place)
    }

    fn edge(&mut self, of: &Key) -> Option<&mut Edge> {
        self.edges.iter_mut().find(|edge| edge.next.is_with(of))
    }
}

impl Assembler {
    /// Delivers received data, at once or in its turn. If too much waits, its source's first goes
    /// before its turn.
    pub(super) fn hand_on(&mut self, now: Instant, partial: Partial) {
        let (key, in_order, until) = (partial.key, partial.in_order, partial.until);
        let came = partial.came();
        if !in_order {
            self.ready.push_back(came);
            return self.settle(key);
        }
        self.order.held.push_back(Held {
            key,
            came,
            unheard: until.min(now + UNHEARD_MAX),
            until: now + HOLD_MAX,
        });
        while self.order.is_full() {
            self.deliver_first(now, &key);
        }
    }

    /// A C_PDU needn't be waited for any more.
    pub(super) fn settle(&mut self, key: Key) {
        let recent = &self.recent;
        let held = &self.order.held;
        let Some(edge) = (self.order.edges.iter_mut()).find(|edge| edge.next.is_with(&key)) else {
            return;
        };
        if edge.next == key {
            edge.next.go_up();
        }
        while recent.iter().any(|(recent, _)| *recent == edge.next)
            && held.iter().all(|held| held.key != edge.next)
        {
            edge.next.go_up();
        }
    }

    /// Delivers all whose turn has come.
    pub(super) fn release(&mut self, now: Instant) {
        let due = |it: &Self| it.turns().find(|(_, at)| *at <= now);
        while let Some((key, _)) = due(self) {
            self.deliver_first(now, &key);
        }
    }

    /// When the next turn comes.
    pub(super) fn turn_at(&self) -> Option<Instant> {
        self.turns().map(|(_, at)| at).min()
    }

    /// The first that waits of each source and type, and its turn.
    fn turns(&self) -> impl Iterator<Item = (Key, Instant)> {
        let held = self.order.held.iter().enumerate();
        let firsts = held.filter(|(place, held)| self.order.first(&held.key) == Some(*place));
        firsts.map(|(_, held)| (held.key, self.turn(held)))
    }

    /// When the first waiting one is delivered, without further arrivals.
    fn turn(&self, first: &Held) -> Instant {
        let earlier = self.partial.iter().filter(|it| it.in_order);
        let earlier = earlier.filter(|it| it.key.is_before(&first.key));
        let unheard = self.lacks(&first.key).then_some(first.unheard);
        let free = earlier.map(|it| it.holds).chain(unheard).max();
        // Nothing waits longer than it may, also behind others.
        let those = self.order.held.iter();
        let those = those.filter(|held| held.key.is_with(&first.key));
        let latest = those.map(|held| held.until).min();
        free.unwrap_or_default().min(latest.unwrap_or_default())
    }

    /// Whether nothing was heard of a number between the last that was delivered and this one.
    fn lacks(&self, key: &Key) -> bool {
        let mut edges = self.order.edges.iter();
        let Some(edge) = edges.find(|edge| edge.next.is_before(key)) else {
            return false;
        };
        let partial = self.partial.iter().map(|it| it.key);
        let known = self.recent.iter().map(|(key, _)| *key).chain(partial);
        let between =
            known.filter(|it| it.is_with(key) && edge.next.upto(it) < edge.next.upto(key));
        between.count() < usize::from(edge.next.upto(key))
    }

    fn deliver_first(&mut self, now: Instant, of: &Key) {
        let order = &mut self.order;
        let Some(held) = order.first(of).and_then(|place| order.held.remove(place)) else {
            return;
        };
        if order.edge(&held.key).is_none() {
            if order.edges.len() == EDGES_MAX {
                order.edges.pop_front();
            }
            order.edges.push_back(Edge {
                next: held.key,
                until: now,
            });
        }
        if let Some(edge) = order.edge(&held.key) {
            (edge.next, edge.until) = (held.key, now + HOLD_MAX);
        }
        self.settle(held.key);
        self.ready.push_back(held.came);
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
