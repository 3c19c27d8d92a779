//! What other switches of ours began to send, and what they have sent: so that nothing comes twice,
//! and what broke off goes on.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::vec::Vec;

use strait_core::node::StoreOp;

use super::arrivals::{Arrival, forget};
use super::asks::Asks;
use crate::session::{Began, Ends};

/// Messages that broke off, at a time: one a lane is usual. Each may have storage for its octets.
const PARTS_MAX: usize = 16;
/// Messages that were taken and are known again. A switch repeats what it had no answer for, which
/// is a few of each lane.
const TAKEN_MAX: usize = 4096;
/// What storage has of one that was taken: all is in the key.
const TAKEN: &[u8] = b"mail/taken/";

/// A message that broke off.
#[derive(Debug)]
struct Part {
    id: u64,
    arrival: Arrival,
    ends: Ends,
}

/// By the numbers that other switches give their messages.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    parts: VecDeque<Part>,
    /// By number: their order.
    storing: BTreeMap<u64, u64>,
    /// By order: the number, and for how many recipients it was taken.
    taken: BTreeMap<u64, (u64, usize)>,
    next: u64,
}

fn key(order: u64, id: u64, recipients: usize) -> Vec<u8> {
    let text = format!("{order:020}-{id:016x}-{recipients}");
    [TAKEN, text.as_bytes()].concat()
}

fn parse(key: &[u8]) -> Option<(u64, (u64, usize))> {
    let text = core::str::from_utf8(key.strip_prefix(TAKEN)?).ok()?;
    let mut words = text.split('-');
    let order = words.next()?.parse().ok()?;
    let id = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((order, (id, words.next()?.parse().ok()?)))
}

impl Repeats {
    /// What storage has of it.
    pub(super) fn restore(stored: &[(Vec<u8>, u64)]) -> Self {
        let taken: BTreeMap<_, _> = stored.iter().filter_map(|(key, _)| parse(key)).collect();
        let next = taken.last_key_value().map_or(0, |(order, _)| order + 1);
        Self {
            taken,
            next,
            ..Self::default()
        }
    }

    /// How much there is of a message.
    pub(super) fn began(&self, id: u64) -> Began {
        if self.storing.contains_key(&id) {
            return Began::Storing;
        }
        if self.taken_for(id).is_some() {
            return Began::Whole;
        }
        let part = self.parts.iter().find(|it| it.id == id);
        part.map_or(Began::Nothing, |it| Began::Part(it.arrival.octets, it.ends))
    }

    /// For how many recipients a message was taken.
    pub(super) fn taken_for(&self, id: u64) -> Option<usize> {
        let mut all = self.taken.values().rev();
        all.find(|it| it.0 == id).map(|it| it.1)
    }

    /// A message breaks off.
    pub(super) fn keep(&mut self, id: u64, arrival: Arrival, ends: Ends, asks: &mut Asks) {
        self.parts.push_back(Part { id, arrival, ends });
        if self.parts.len() > PARTS_MAX
            && let Some(oldest) = self.parts.pop_front()
        {
            forget(oldest.arrival.id, asks);
        }
    }

    /// What there is of a message that comes again from an octet on. Octets that come again are
    /// forgotten.
    pub(super) fn go_on(&mut self, id: u64, from: u64, asks: &mut Asks) -> Option<Arrival> {
        let at = self.parts.iter().position(|it| it.id == id)?;
        let arrival = self.parts.remove(at)?.arrival;
        if arrival.octets == from {
            return Some(arrival);
        }
        forget(arrival.id, asks);
        None
    }

    /// A message is being stored: what is to be stored with it.
    pub(super) fn store(&mut self, id: u64, recipients: usize) -> Vec<StoreOp> {
        let own = self.next;
        self.next += 1;
        self.storing.insert(id, own);
        let mut batch = Vec::new();
        if self.taken.len() >= TAKEN_MAX
            && let Some((order, (id, recipients))) = self.taken.pop_first()
        {
            batch.push(StoreOp::Delete(key(order, id, recipients)));
        }
        batch.push(StoreOp::Put(key(own, id, recipients), b"1".to_vec()));
        batch
    }

    /// It is stored, or isn't.
    pub(super) fn stored(&mut self, id: u64, recipients: usize, there: bool) {
        if let Some(order) = self.storing.remove(&id).filter(|_| there) {
            self.taken.insert(order, (id, recipients));
        }
    }

    /// A message that is for others than it was: it is to come anew.
    pub(super) fn doubt(&mut self, id: u64) {
        self.taken.retain(|_, it| it.0 != id);
    }
}
