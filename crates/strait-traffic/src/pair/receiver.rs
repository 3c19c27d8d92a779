//! The end that hears the groups and tells when they came.

use std::collections::BTreeMap;

use strait_core::Instant;

use super::wire::{Datagram, Head, Report};

/// What has come of one group.
#[derive(Clone, Debug)]
struct Heard {
    head: Head,
    arrived: Vec<Option<Instant>>,
    /// When something came last.
    touched: Instant,
}

/// Hears probes of any number of measurements. `P` names a peer, such as its address.
#[derive(Clone, Debug)]
pub struct Receiver<P> {
    /// The last group of each measurement.
    sessions: BTreeMap<(P, u32), Heard>,
}

impl<P: Ord + Copy> Default for Receiver<P> {
    fn default() -> Self {
        Self {
            sessions: BTreeMap::new(),
        }
    }
}

impl<P: Ord + Copy> Receiver<P> {
    /// Measurements at once; one more replaces the one that has been silent for longest. Each
    /// takes at most about a kilobyte.
    pub const SESSIONS_MAX: usize = 256;

    /// Takes a datagram in that came at `at`; appends the answer to `out`, if there is one, and
    /// says so. With its headers an answer is never longer than what has come for it.
    pub fn handle(&mut self, at: Instant, peer: P, octets: &[u8], out: &mut Vec<u8>) -> bool {
        let (head, complete) = match Datagram::parse(octets) {
            Ok(Datagram::Probe(head, index)) => (head, self.heard(at, peer, head, index)),
            Ok(Datagram::Question(head)) => (head, true),
            Ok(Datagram::Report(_)) | Err(_) => return false,
        };
        if complete {
            Datagram::Report(self.report(peer, head)).emit(out);
        }
        complete
    }

    /// Notes a probe; true if it was the last one missing.
    fn heard(&mut self, at: Instant, peer: P, head: Head, index: u8) -> bool {
        let key = (peer, head.session);
        if !self.sessions.contains_key(&key) && self.sessions.len() >= Self::SESSIONS_MAX {
            let silent = self.sessions.iter().min_by_key(|(_, heard)| heard.touched);
            if let Some(key) = silent.map(|(key, _)| *key) {
                self.sessions.remove(&key);
            }
        }
        let fresh = || Heard {
            head,
            arrived: vec![None; usize::from(head.packets)],
            touched: at,
        };
        let heard = self.sessions.entry(key).or_insert_with(fresh);
        if heard.head != head {
            // A probe that was long under way doesn't bring its group back.
            let behind = heard.head.group.wrapping_sub(head.group);
            if (1..1 << 15).contains(&behind) {
                return false;
            }
            *heard = fresh();
        }
        heard.touched = at;
        let Some(place) = heard.arrived.get_mut(usize::from(index)) else {
            return false;
        };
        // One that comes twice came when it came first.
        let news = place.is_none();
        place.get_or_insert(at);
        news && heard.arrived.iter().all(Option::is_some)
    }

    fn report(&self, peer: P, head: Head) -> Report {
        let heard = self.sessions.get(&(peer, head.session));
        let heard = heard.filter(|heard| heard.head == head);
        let first = heard.and_then(|heard| heard.arrived.iter().flatten().min());
        let after = |at: Option<Instant>| Some(at?.since(*first?).as_nanos() as u64);
        let arrived_ns = match heard {
            Some(heard) => heard.arrived.iter().copied().map(after).collect(),
            None => vec![None; usize::from(head.packets)],
        };
        Report { head, arrived_ns }
    }
}
