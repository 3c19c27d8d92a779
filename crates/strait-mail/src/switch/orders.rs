//! What holds messages back by an operator's will: orders, and the hours of a precedence.

use strait_core::mail::{MailOrder, MailState};
use strait_core::{Duration, Instant};

use super::asks::{Asks, Change};
use super::queue::Queue;
use crate::precedence::Precedence;

impl Queue {
    /// An operator's order.
    pub(super) fn obey(&mut self, now: Instant, order: MailOrder, asks: &mut Asks) {
        let (id, hold) = match order {
            MailOrder::Minimize(least) => return self.minimize(least, asks),
            MailOrder::Hold(id) => (id, true),
            MailOrder::Release(id) => (id, false),
            MailOrder::Reroute(id, to) => return self.reroute(id, to, asks),
            MailOrder::Divert(from, to) => return self.divert(from, to, asks),
        };
        let Some(message) = self.messages.get_mut(&id).filter(|it| it.held != hold) else {
            return;
        };
        message.held = hold;
        if hold {
            // What is being sent goes on: it can't be called back.
            for way in self.ways(id) {
                self.set_ready(way, id, false);
                self.jobs.retain(|key, job| *key != (way, id) || job.busy);
            }
            self.later.retain(|(_, _, of)| *of != id);
        } else if !self.is_busy(id) {
            self.queue(now, id, asks);
        }
        let change = Change {
            ids: alloc::vec![id],
            ..Change::default()
        };
        self.store(change, asks);
    }

    pub(super) fn set_minimize(&mut self, least: u64) {
        let index = usize::try_from(least).unwrap_or(usize::MAX);
        self.minimize = Precedence::ALL[index.min(Precedence::ALL.len() - 1)];
        self.stats.minimize = self.minimize.index() as u64;
    }

    /// An operator's order, kept over restarts.
    fn minimize(&mut self, least: u64, asks: &mut Asks) {
        self.set_minimize(least);
        let change = Change {
            minimize: true,
            ..Change::default()
        };
        self.store(change, asks);
    }

    /// Why a precedence doesn't go to other switches now.
    pub(super) fn closed(&self, precedence: Precedence) -> Option<MailState> {
        if precedence < self.minimize {
            return Some(MailState::Minimized);
        }
        let hours = self.settings.lanes[precedence.index()].hours?;
        let (at, unix_s) = self.calendar?;
        let open = hours.contains(unix_s + self.looked.since(at).as_secs());
        (!open).then_some(MailState::Closed)
    }

    /// When some precedence's hours begin or end next.
    pub(super) fn next_hours(&self) -> Option<Instant> {
        let (at, unix_s) = self.calendar?;
        let now_s = unix_s + self.looked.since(at).as_secs();
        let all = self.settings.lanes.iter().filter_map(|it| it.hours);
        let next_s = all.map(|it| it.next(now_s)).min()?;
        Some(at + Duration::from_secs(next_s - unix_s))
    }
}
