//! Management messages to one peer: stop and wait, with numbers of their own (Annex C, type 6).
//!
//! A message stands on the order wire of its D_PDU, some have octets beside it. It is repeated
//! until it is acknowledged, and goes before all other traffic: while one is under way, nothing
//! else is sent with it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::eow::{Eow, Response};

/// Waiting messages: one of this node, an answer to the peer's, and the one that ends this node's.
const WAITING_MAX: usize = 3;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) eow: Eow,
    /// The rest, 23 octets at most.
    pub(crate) more: Vec<u8>,
}

#[derive(Debug)]
struct Waiting {
    message: Message,
    frame: u8,
    tries: u32,
    /// To be sent, again or first.
    due: bool,
}

/// A D_PDU that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) frame: u8,
    /// `None`: it acknowledges.
    pub(crate) message: Option<Message>,
}

/// The outcome of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The other end has it.
    Acknowledged(Eow),
    /// It was sent often enough.
    GivenUp(Eow),
}

/// Both ends of the exchange with one peer.
#[derive(Debug, Default)]
pub(crate) struct Management {
    next: u8,
    waiting: VecDeque<Waiting>,
    /// The number of the message heard last.
    heard: Option<u8>,
    /// The number of one to be acknowledged.
    acks: Option<u8>,
}

impl Message {
    /// One on the order wire.
    pub(crate) const fn of(eow: Eow) -> Self {
        let more = Vec::new();
        Self { eow, more }
    }
}

impl Management {
    pub(crate) const fn new() -> Self {
        Self {
            next: 0,
            waiting: VecDeque::new(),
            heard: None,
            acks: None,
        }
    }

    /// Takes a message; answers precede waiting messages.
    pub(crate) fn say(&mut self, message: Message, answers: bool) {
        if answers
            && !matches!(
                message.eow,
                Eow::Response {
                    response: Response::Cancel,
                    ..
                }
            )
        {
            // Only the answer to the last question counts.
            self.waiting
                .retain(|it| !matches!(it.message.eow, Eow::Response { .. }));
        }
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_back();
        }
        let waiting = Waiting {
            message,
            frame: self.next,
            tries: 0,
            due: true,
        };
        self.next = self.next.wrapping_add(1);
        if answers {
            self.waiting.push_front(waiting);
        } else {
            self.waiting.push_back(waiting);
        }
    }

    /// Whether something is to be sent.
    pub(crate) fn has_to_say(&self) -> bool {
        self.acks.is_some() || self.is_due()
    }

    fn is_due(&self) -> bool {
        self.waiting.front().is_some_and(|first| first.due)
    }

    /// Whether a message is under way or waits: other traffic doesn't go with it.
    pub(crate) fn is_open(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether it is an answer.
    pub(crate) fn answers(&self) -> bool {
        let first = self.waiting.front().map(|first| first.message.eow);
        matches!(first, Some(Eow::Response { .. } | Eow::Unrecognised { .. }))
    }

    /// There is no wait for an answer: the message is repeated.
    pub(crate) fn repeat(&mut self) {
        if let Some(first) = self.waiting.front_mut() {
            first.due = true;
        }
    }

    /// Octets of messages that are to be sent, `around` for each D_PDU.
    pub(crate) fn octets(&self, around: usize) -> usize {
        let first = self.waiting.front().filter(|first| first.due);
        let message = first.map_or(0, |first| around + first.message.more.len());
        message + if self.acks.is_some() { around } else { 0 }
    }

    /// The next D_PDU to send: acknowledgements first.
    pub(crate) fn next(&mut self) -> Option<Due> {
        if let Some(frame) = self.acks.take() {
            let message = None;
            return Some(Due { frame, message });
        }
        let first = self.waiting.front_mut().filter(|first| first.due)?;
        first.due = false;
        first.tries += 1;
        Some(Due {
            frame: first.frame,
            message: Some(first.message.clone()),
        })
    }

    /// Acknowledges the message heard last once more.
    pub(crate) const fn acknowledge_again(&mut self) {
        self.acks = self.heard;
    }

    /// Takes a message of the other end; whether it is a new one.
    pub(crate) fn hear(&mut self, frame: u8) -> bool {
        self.acks = Some(frame);
        self.heard.replace(frame) != Some(frame)
    }

    /// Takes an acknowledgement. One that arrived with a message has that one's number, and is for
    /// whatever was asked.
    pub(crate) fn acknowledge(&mut self, frame: u8, with_message: bool) -> Option<News> {
        let first = self.waiting.front().filter(|first| first.tries > 0)?;
        if first.frame != frame && !with_message {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.repeat();
        Some(News::Acknowledged(first.message.eow))
    }

    /// No answer arrived. The message is repeated, `repeats` times at most (C.6.4.2 (10) and (11)).
    pub(crate) fn miss(&mut self, repeats: u32) -> Option<News> {
        let first = self.waiting.front_mut().filter(|first| first.tries > 0)?;
        first.due = true;
        if first.tries <= repeats {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.repeat();
        Some(News::GivenUp(first.message.eow))
    }

    /// Takes back a waiting message of this node.
    pub(crate) fn withdraw(&mut self, is: impl Fn(&Eow) -> bool) {
        self.waiting.retain(|it| !is(&it.message.eow));
    }

    /// A link is made: both ends number from 0 again, also waiting messages (C.3.9 (16) and (17)).
    pub(crate) fn renumber(&mut self) {
        (self.next, self.heard) = (0, None);
        for waiting in &mut self.waiting {
            waiting.frame = self.next;
            self.next += 1;
        }
    }

    /// Begins anew: nothing waits.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.acks = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(content: u8) -> Message {
        Message {
            eow: Eow::Capability(content),
            more: Vec::new(),
        }
    }

    fn due(frame: u8, content: u8) -> Option<Due> {
        Some(Due {
            frame,
            message: Some(message(content)),
        })
    }

    #[test]
    fn a_message_goes_until_it_is_acknowledged_and_as_often_as_is_configured() {
        let mut ours = Management::default();
        ours.say(message(1), false);
        assert_eq!(ours.next(), due(0, 1));
        assert_eq!((ours.next(), ours.has_to_say()), (None, false));
        assert!(ours.is_open());
        // Another number isn't its.
        assert_eq!(ours.acknowledge(1, false), None);
        assert_eq!(ours.miss(3), None);
        assert_eq!(ours.next(), due(0, 1));
        let acknowledged = News::Acknowledged(Eow::Capability(1));
        assert_eq!(ours.acknowledge(0, false), Some(acknowledged));
        assert!(!ours.is_open());
        for (frame, repeats) in [(1, 3), (2, 0), (3, 15)] {
            ours.say(message(2), false);
            for _ in 0..repeats {
                assert_eq!(ours.next(), due(frame, 2));
                assert_eq!(ours.miss(repeats), None);
            }
            assert_eq!(ours.next(), due(frame, 2));
            let given_up = News::GivenUp(Eow::Capability(2));
            assert_eq!(ours.miss(repeats), Some(given_up));
        }
    }

    #[test]
    fn a_repeated_message_is_acknowledged_and_counts_once() {
        let mut theirs = Management::default();
        assert!(theirs.hear(9));
        let ack = Some(Due {
            frame: 9,
            message: None,
        });
        assert_eq!(theirs.next(), ack);
        assert!(!theirs.hear(9));
        assert_eq!(theirs.next(), ack);
        assert_eq!(theirs.next(), None);
        assert!(theirs.hear(10));
    }

    #[test]
    fn an_answer_goes_before_a_question_and_the_last_one_alone() {
        let answer = |kind| Message {
            eow: Eow::Unrecognised { kind },
            more: Vec::new(),
        };
        let mut ours = Management::default();
        ours.say(message(1), false);
        ours.hear(5);
        ours.say(answer(1), true);
        assert_eq!(ours.next().map(|due| due.frame), Some(5));
        assert_eq!(ours.next().and_then(|due| due.message), Some(answer(1)));
        ours.acknowledge(1, false);
        assert_eq!(ours.next(), due(0, 1));
        for content in 0..10 {
            ours.say(message(content), false);
        }
        assert_eq!(ours.waiting.len(), WAITING_MAX);
    }
}
