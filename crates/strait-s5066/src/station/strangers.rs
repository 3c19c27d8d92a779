//! Stations that aren't peers, and what they are told.

use strait_core::{Duration, Instant};

use super::{Peer, Station};
use crate::address::Address;
use crate::c_pdu::{BROADCAST_ONLY, CPdu, EXCLUSIVE_LINK, UNKNOWN_REASON};
use crate::d_pdu::{Body, DPdu};

/// Answers to strangers in a row; one more may be given after each [`ANSWER_EVERY`].
const ANSWERS_MAX: u32 = 4;
const ANSWER_EVERY: Duration = Duration::from_secs(15);

impl<T> Station<T> {
    /// The peers. One more place is for the stranger that is answered.
    pub(super) fn listed(&self) -> &[Peer<T>] {
        &self.peers[..self.peers.len() - 1]
    }

    /// A D_PDU came to us, or to a group of ours, from a station that isn't a peer.
    pub(super) fn take_stranger(&mut self, now: Instant, d_pdu: &DPdu<'_>) {
        self.stats.strangers += 1;
        if !self.settings.strangers || d_pdu.from == self.settings.own {
            return;
        }
        let Body::NonArq(piece) = &d_pdu.body else {
            return;
        };
        let own = d_pdu.to == self.settings.own;
        match piece.control().filter(|_| own) {
            Some(c_pdu) => {
                self.of_strangers.pass(now, d_pdu.from, piece);
                if let CPdu::Request { .. } = c_pdu {
                    self.refuse_stranger(now, d_pdu.from);
                }
            }
            None => self.of_strangers.take(now, d_pdu.from, d_pdu.to, piece),
        }
        self.receive_assembled(now);
    }

    /// Rejects the call of a stranger in the answer's slot (B.3.2.1). Whoever calls under ever more
    /// names doesn't keep us on the air.
    fn refuse_stranger(&mut self, now: Instant, from: Address) {
        let place = self.listed().len();
        let stranger = &self.peers[place];
        let again = stranger.address == from && stranger.link.says.is_some();
        let spent = self.answers_spent.max(now) + ANSWER_EVERY;
        if !again && spent > now + ANSWER_EVERY * ANSWERS_MAX {
            return;
        }
        let kept = self.exclusive.is_some() || self.peers.iter().any(|it| it.link.is_exclusive());
        let reason = match kept {
            _ if self.settings.broadcast_only => BROADCAST_ONLY,
            true => EXCLUSIVE_LINK,
            false => UNKNOWN_REASON,
        };
        if !again {
            self.answers_spent = spent;
        }
        let stranger = &mut self.peers[place];
        stranger.address = from;
        stranger.link.says = Some(CPdu::Rejected(reason));
        self.spoke = Some(place);
    }
}
