//! Clients that a node is asked about: their first packets, which a driver holds until the node
//! answers ([`StreamEvent::Asked`](crate::node::StreamEvent::Asked)).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use crate::error_limit::ErrorLimit;
use crate::node::{SocketId, StreamId};
use crate::time::{Duration, Instant};

/// Clients that a node is asked about at a time. In a flood that is more than a node can have in
/// mind, and few enough to be held; whoever is forgotten for it asks again.
pub const QUESTIONS_MAX: usize = 1024;

/// A client who waits to be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The listener that it came to.
    pub listener: SocketId,
    /// The client.
    pub src: SocketAddr,
    /// The address that it wants.
    pub dst: SocketAddr,
    /// Its packet, of several the newest.
    pub syn: Vec<u8>,
    /// What the host's own rules marked that with.
    pub mark: u32,
}

/// All clients that a node is asked about.
#[derive(Debug, Default)]
pub struct Questions {
    all: BTreeMap<StreamId, (Question, Instant)>,
    by_ends: BTreeMap<(SocketAddr, SocketAddr), StreamId>,
    ends: BTreeSet<(Instant, StreamId)>,
    errors: ErrorLimit,
}

impl Questions {
    /// Whether a client may be refused by an ICMP error now; counts it if so. Whom the limit
    /// leaves out hears nothing.
    pub fn allows_error(&mut self, now: Instant) -> bool {
        self.errors.allows(now)
    }

    /// Whether the node has been asked about a client, which then asked again.
    pub fn repeats(&mut self, src: SocketAddr, dst: SocketAddr, syn: &[u8]) -> bool {
        let id = self.by_ends.get(&(src, dst));
        let Some((known, _)) = id.and_then(|id| self.all.get_mut(id)) else {
            return false;
        };
        known.syn.clear();
        known.syn.extend_from_slice(syn);
        true
    }

    /// A question that is to be answered within `patience`; the one that is forgotten for it, if
    /// there are too many: of all the one that would be forgotten first.
    pub fn ask(
        &mut self,
        now: Instant,
        patience: Duration,
        id: StreamId,
        question: Question,
    ) -> Option<StreamId> {
        let crowded = self.all.len() >= QUESTIONS_MAX;
        let oldest = self.ends.first().filter(|_| crowded).map(|(_, id)| *id);
        oldest.and_then(|id| self.answer(id));
        let until = now + patience;
        self.by_ends.insert((question.src, question.dst), id);
        self.ends.insert((until, id));
        self.all.insert(id, (question, until));
        oldest
    }

    /// The node has answered; `None` if that was forgotten.
    pub fn answer(&mut self, id: StreamId) -> Option<Question> {
        let (question, until) = self.all.remove(&id)?;
        self.by_ends.remove(&(question.src, question.dst));
        self.ends.remove(&(until, id));
        Some(question)
    }

    /// When [`Self::expired`] has something to say.
    pub fn wake(&self) -> Option<Instant> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// Forgets those that the node hasn't answered in time.
    pub fn expired(&mut self, now: Instant) -> Vec<StreamId> {
        let due = self.ends.iter().take_while(|(until, _)| *until <= now);
        let due: Vec<StreamId> = due.map(|(_, id)| *id).collect();
        for id in &due {
            self.answer(*id);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::node::{Owner, Side};

    const OWNER: Owner = Owner(7);
    const PATIENCE: Duration = Duration::from_secs(3);

    fn stream(n: u64) -> StreamId {
        StreamId {
            owner: OWNER,
            side: Side::Client,
            n,
        }
    }

    fn ends(n: u64) -> (SocketAddr, SocketAddr) {
        let [a, b] = [(n >> 8) as u8, n as u8];
        let src = SocketAddr::from(([10, 1, a, b], 40_000));
        (src, SocketAddr::from(([10, 9, 0, 1], 7)))
    }

    fn ask(questions: &mut Questions, at_ms: u64, n: u64) -> Option<StreamId> {
        let (src, dst) = ends(n);
        let question = Question {
            listener: SocketId { owner: OWNER, n: 0 },
            src,
            dst,
            syn: vec![1],
            mark: 0,
        };
        questions.ask(Instant::from_millis(at_ms), PATIENCE, stream(n), question)
    }

    #[test]
    fn a_client_is_asked_about_once_and_its_newest_packet_is_held() {
        let mut questions = Questions::default();
        let (src, dst) = ends(1);
        assert!(!questions.repeats(src, dst, &[1]));
        assert_eq!(ask(&mut questions, 0, 1), None);
        assert!(questions.repeats(src, dst, &[2]));
        assert!(!questions.repeats(dst, src, &[3]));
        assert_eq!(questions.answer(stream(1)).unwrap().syn, [2]);
        // Answered, it is another question.
        assert_eq!(questions.answer(stream(1)), None);
        assert!(!questions.repeats(src, dst, &[4]));
        assert_eq!(questions.wake(), None);
    }

    #[test]
    fn who_is_not_answered_in_time_is_forgotten() {
        let mut questions = Questions::default();
        ask(&mut questions, 0, 1);
        ask(&mut questions, 1, 2);
        let at = Instant::from_secs(3);
        assert_eq!(questions.wake(), Some(at));
        assert_eq!(questions.expired(at - Duration::from_nanos(1)), []);
        assert_eq!(questions.expired(at), [stream(1)]);
        let (src, dst) = ends(1);
        assert!(!questions.repeats(src, dst, &[1]));
        assert_eq!(questions.wake(), Some(Instant::from_millis(3001)));
    }

    #[test]
    fn a_flood_takes_the_place_of_the_oldest() {
        let mut questions = Questions::default();
        for n in 0..QUESTIONS_MAX as u64 {
            assert_eq!(ask(&mut questions, n, n), None);
        }
        let next = QUESTIONS_MAX as u64;
        for n in next..next + 3 {
            assert_eq!(ask(&mut questions, n, n), Some(stream(n - next)));
        }
        assert_eq!(questions.all.len(), QUESTIONS_MAX);
        assert_eq!(questions.ends.len(), QUESTIONS_MAX);
        assert_eq!(questions.by_ends.len(), QUESTIONS_MAX);
    }
}
