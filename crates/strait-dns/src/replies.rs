//! Messages for those who ask.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::body::{Body, Outcome};
use crate::message::{self, Manner, Question, cause};
use crate::near::Client;

/// The life of stale answers (RFC 8767 section 4).
pub(crate) const STALE_LIFE_S: u32 = 30;

/// Those that haven't been taken yet.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    all: VecDeque<(Client, Vec<u8>)>,
}

impl Replies {
    /// Adds one that is written already.
    pub(crate) fn raw(&mut self, client: Client, reply: Vec<u8>) {
        self.all.push_back((client, reply));
    }

    /// Adds what is known.
    pub(crate) fn add(&mut self, client: Client, question: &Question, body: &Body, manner: Manner) {
        let manner = Manner {
            stream: client.stream.is_some(),
            ..manner
        };
        self.raw(client, message::reply(question, body, manner));
    }

    /// Adds what has outlived its life.
    pub(crate) fn stale(&mut self, client: Client, question: &Question, body: &Body) {
        let cause = match body.outcome {
            Outcome::NoName => cause::STALE_NO_NAME,
            _ => cause::STALE,
        };
        let manner = Manner {
            life_s: STALE_LIFE_S,
            cause: Some(cause),
            stream: false,
        };
        self.add(client, question, body, manner);
    }

    /// Adds that nothing is known, for a cause.
    pub(crate) fn failure(&mut self, client: Client, question: &Question, cause: u16) {
        let body = Body::empty(Outcome::Failure(cause), 0);
        self.add(client, question, &body, Manner::default());
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Cuts short those from a place on that would give a client more than is allowed; how many.
    pub(crate) fn cut(&mut self, from: usize, mut allow: impl FnMut(&[u8]) -> bool) -> u64 {
        let mut count = 0;
        for (_, reply) in self.all.range_mut(from..) {
            if !allow(reply) {
                message::cut(reply);
                count += 1;
            }
        }
        count
    }

    /// Takes the first.
    pub(crate) fn next(&mut self) -> Option<(Client, Vec<u8>)> {
        self.all.pop_front()
    }
}
