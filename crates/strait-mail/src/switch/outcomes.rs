//! What a next hop's offers and replies mean for a message.

use alloc::format;
use alloc::string::{String, ToString};

use super::queue::Outcome;
use crate::client::{Offers, Reply, Verdict};
use crate::command::{Body, DeliverBy};
use crate::message::Message;
use crate::report::Action;

/// Why a message can't go to a switch with these extensions, and the code for that.
pub(super) fn never(
    message: &Message,
    by: Option<DeliverBy>,
    offers: Offers,
) -> Option<(&'static str, &'static str)> {
    if message.body == Body::Binary && !(offers.binary && offers.chunking) {
        return Some(("5.6.1", "the next switch takes no BINARYMIME"));
    }
    let by = by.filter(|it| it.returns)?;
    match offers.by {
        None => Some(("5.3.3", "the next switch has no DELIVERBY")),
        Some(least) if by.seconds < (least as i64).max(1) => {
            Some(("5.4.7", "the next switch needs more time"))
        }
        Some(_) => None,
    }
}

pub(super) fn said(reply: &Reply) -> String {
    format!("{} {}", reply.code, reply.text)
}

/// What became of a recipient; of one that was taken, what is said of that unless the next hop says
/// it.
pub(super) fn outcome(verdict: Verdict, taken: Action) -> Outcome {
    match verdict {
        Verdict::Taken { reports: true, .. } if taken != Action::Traced => Outcome::Done(None),
        Verdict::Taken { said, .. } => Outcome::Done(Some((taken, said))),
        Verdict::Later(reply) => Outcome::Later(said(&reply)),
        Verdict::Never(reply) => Outcome::Never(reply.status().to_string(), said(&reply)),
    }
}
