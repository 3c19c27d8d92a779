//! What a switch has, for its operator's eyes.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use strait_core::Instant;
use strait_core::mail::{MailEntry, MailHop, MailLane, MailState, MailView};

use super::lanes::Lanes;
use super::polls::limit;
use super::queue::{Job, Queue, Way};
use crate::command::DeliverBy;
use crate::message::Message;

/// A look at messages and lanes.
pub(super) struct View<'a> {
    pub(super) now: Instant,
    pub(super) queue: &'a Queue,
    pub(super) lanes: &'a Lanes,
}

impl View<'_> {
    /// The most urgent first, held ones last; and next hops.
    pub(super) fn all(&self) -> MailView {
        let hops = (0..self.queue.hops.len()).filter_map(|hop| self.hop(hop));
        MailView {
            messages: self.entries(),
            unread: self.queue.unread(),
            hops: hops.collect(),
            lanes: self.connections(),
        }
    }

    fn connections(&self) -> Vec<MailLane> {
        let hops =
            (0..self.queue.hops.len()).filter_map(|hop| Some((hop, self.queue.hops.get(hop)?.to)));
        let lanes = hops.flat_map(|(hop, to)| {
            let lines = self.lanes.lines(hop);
            lines.map(move |(precedence, of_session, ready)| MailLane {
                hop: to,
                precedence: precedence.name(),
                of_session,
                ready,
            })
        });
        lanes.collect()
    }

    fn hop(&self, hop: usize) -> Option<MailHop> {
        let route = self.queue.hops.route_of(hop)?;
        let way = Way::Hop(hop);
        Some(MailHop {
            hop: self.queue.hops.get(hop)?.to,
            route: route as u64 + 1,
            domains: self.queue.settings.routes.get(route)?.domains.join(" "),
            used: self.queue.hops.used(route) == hop,
            out: self.queue.hops.is_out(hop),
            instead: self.queue.hops.instead_of(hop),
            waiting: self.queue.jobs.range((way, 0)..=(way, u64::MAX)).count() as u64,
        })
    }

    fn entries(&self) -> Vec<MailEntry> {
        let mut rows: Vec<(u64, &Message, Option<Way>)> = Vec::new();
        for (id, message) in &self.queue.messages {
            let ways = self.queue.ways(*id);
            if ways.is_empty() {
                rows.push((*id, message, None));
            }
            rows.extend(ways.into_iter().map(|way| (*id, message, Some(way))));
        }
        rows.sort_by_key(|(id, message, way)| {
            (
                way.is_none(),
                *way,
                core::cmp::Reverse(message.precedence()),
                *id,
            )
        });
        let mut ahead = BTreeMap::new();
        let entry = |(id, message, way): (u64, &Message, Option<Way>)| {
            let octets = ahead.entry(way).or_insert(0);
            *octets += message.octets;
            self.entry(id, message, way, *octets)
        };
        rows.into_iter().map(entry).collect()
    }

    fn entry(&self, id: u64, message: &Message, way: Option<Way>, ahead_octets: u64) -> MailEntry {
        let job = way.and_then(|way| self.queue.jobs.get(&(way, id)));
        let state = match (way, job) {
            (Some(way), Some(job)) => self.state((way, id), message, job),
            _ => MailState::Held,
        };
        let link = match way {
            Some(Way::Hop(hop)) => self.lanes.link(hop),
            _ => None,
        };
        let to = message.recipients.iter().filter(|it| {
            way.is_none_or(|way| self.queue.target_of(&it.address) == self.queue.target(way))
        });
        let to: Vec<&str> = to.map(|it| it.address.as_str()).collect();
        MailEntry {
            id,
            precedence: message.precedence().name(),
            octets: message.octets,
            age: self.queue.age(self.now, message),
            sender: message.sender.clone(),
            recipients: to.join(" "),
            hop: match way {
                Some(Way::Hop(hop)) => {
                    let there = self.queue.hops.get(hop);
                    there.map_or_else(String::new, |it| it.to.to_string())
                }
                Some(Way::Mailbox) => "mailbox".into(),
                None => "-".into(),
            },
            route: match way {
                Some(Way::Hop(hop)) => self.queue.hops.route_of(hop).map(|it| it as u64 + 1),
                _ => None,
            },
            state,
            tries: job.map_or(0, |it| it.tries),
            said: match (job, way) {
                // Its next hop said nothing of it: what hinders all that go there.
                (Some(job), Some(Way::Hop(hop))) if job.said.is_empty() => {
                    self.lanes.failed(hop, message.precedence()).into()
                }
                (job, _) => job.map_or_else(String::new, |it| it.said.clone()),
            },
            ahead_octets,
            estimate: link.map(|link| link.time(ahead_octets)),
            by: self.queue.left(self.now, message).map(DeliverBy::text),
            trace: message.trace.clone(),
        }
    }

    fn state(&self, (way, id): (Way, u64), message: &Message, job: &Job) -> MailState {
        let own = message.precedence();
        match way {
            _ if job.later.is_some() => MailState::Later,
            Way::Mailbox => MailState::Delivering,
            Way::Hop(_) if job.busy => MailState::Sending,
            Way::Hop(hop) if self.queue.hops.is_out(hop) && self.queue.may_be_at(message, hop) => {
                MailState::Doubtful
            }
            Way::Hop(hop) => {
                let polled = id >= limit(self.queue, way, own);
                let closed = self.queue.closed(own);
                let closed = closed.or_else(|| polled.then_some(MailState::Polled));
                closed.unwrap_or_else(|| self.lanes.state(hop, own, self.queue))
            }
        }
    }
}
