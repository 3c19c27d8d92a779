//! Data with the link request, between nodes of `strait`: the epoch of each direction's frames.
//!
//! A sender's frames have a number, an epoch, from the time that it began anew. A caller states it
//! in the request, and its first frames follow in the same transmission; the called node states its
//! own in the acceptance. A repeated call has the same epoch: frames received before aren't
//! accepted again. A node that forgot an epoch, as its link was lost meanwhile or as it restarted,
//! accepts none of its frames, and answers like one without epochs; then both begin anew, and
//! completely sent data is given up, as with any lost link. No frame therefore arrives twice.

use crate::c_pdu::Ours;

/// The state of a peer that is a node of `strait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Early {
    /// Its life, if it is known to take data with calls.
    life: Option<u16>,
    /// The epoch of this node's frames; none while none may have left ahead of an answer.
    sending: Option<u16>,
    /// Calls that have left under it.
    calls: u32,
    /// The epoch of its frames that the receiving end holds.
    receiving: Option<u16>,
    /// The last of its epochs with accepted frames.
    heard: Option<u16>,
    /// This node's link was lost, and its frames may have been accepted for one whose call wasn't
    /// heard.
    doubt: bool,
    /// Frames that follow in this transmission aren't accepted: they belong to a forgotten state.
    deaf: bool,
}

/// A node's reaction to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The sending end begins anew.
    pub(crate) send_anew: bool,
    /// So does the receiving end.
    pub(crate) receive_anew: bool,
    /// The answer.
    pub(crate) says: Ours,
}

impl Verdict {
    const fn anew(life: u16) -> Self {
        Self {
            send_anew: true,
            receive_anew: true,
            says: Ours {
                life: Some(life),
                epoch: None,
            },
        }
    }
}

impl Early {
    /// Of a peer that nothing is known of.
    pub(crate) const fn new() -> Self {
        Self {
            life: None,
            sending: None,
            calls: 0,
            receiving: None,
            heard: None,
            doubt: false,
            deaf: false,
        }
    }

    /// Its life, if it is known to take data with calls.
    pub(crate) const fn life(&self) -> Option<u16> {
        self.life
    }

    /// It stated its incarnation, or that it accepts none.
    pub(crate) const fn learn_life(&mut self, life: Option<u16>) {
        self.life = life;
    }

    /// Whether it answers this node's call with data.
    pub(crate) fn is_answered_by(&self, ours: &Ours) -> bool {
        ours.epoch.is_some() && ours.life == self.life
    }

    /// Whether frames that follow in this transmission aren't accepted.
    pub(crate) const fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// The transmission is over.
    pub(crate) const fn end_hearing(&mut self) {
        self.deaf = false;
    }

    /// Whether frames may have left under an epoch that no answer has named.
    pub(crate) const fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// Whether frames can only have left with one call. An answer to that which takes none of them
    /// is the word of a node that has none: the call stood ahead of them.
    pub(crate) const fn called_once(&self) -> bool {
        self.sending.is_some() && self.calls == 1
    }

    /// Both ends begin anew, as both know.
    pub(crate) const fn begin_anew(&mut self) {
        (self.sending, self.receiving, self.doubt) = (None, None, false);
    }

    /// A link is gone, and the peer may not know of that.
    pub(crate) const fn lose_link(&mut self) {
        self.doubt = true;
    }

    /// Whether frames of the peer may have been accepted by a link that is gone.
    pub(crate) const fn doubts(&self) -> bool {
        self.doubt
    }

    /// The part that goes with a request, if data may: under `next`, unless there is an epoch
    /// already, in which case the sending end doesn't begin anew.
    pub(crate) fn call(&mut self, next: u16) -> Option<Ours> {
        let life = self.life?;
        if self.sending.is_none() {
            self.calls = 0;
        }
        let epoch = *self.sending.get_or_insert(next);
        Some(Ours {
            life: Some(life),
            epoch: Some(epoch),
        })
    }

    /// Nothing is under way, and the next call begins the data that may be.
    pub(crate) const fn forget_calls(&mut self) {
        self.calls = 0;
    }

    /// A call leaves.
    pub(crate) const fn count_call(&mut self) {
        self.calls = self.calls.saturating_add(1);
    }

    /// The peer calls. `linked` says whether there is a link with it, and `next` is an unused
    /// epoch; `life` is this node's incarnation.
    pub(crate) fn hear_call(
        &mut self,
        theirs: Ours,
        linked: bool,
        life: u16,
        next: u16,
    ) -> Verdict {
        let call = theirs.life.zip(theirs.epoch);
        let held = call.is_some_and(|(_, epoch)| self.receiving == Some(epoch));
        // While there is a link, frames whose call wasn't heard may have been accepted as its own.
        let doubt = core::mem::take(&mut self.doubt) || linked;
        let taken = doubt || self.heard.is_some() && self.heard == call.map(|call| call.1);
        let stale = |(to, _)| to != life || taken && !held;
        let Some((_, epoch)) = call.filter(|call| !stale(*call)) else {
            // Without data, it is a call like any other, and names no epoch.
            (self.deaf, self.doubt) = (call.is_some(), doubt && call.is_none());
            // Frames that may have been accepted aren't accepted again, whatever the continuation.
            self.heard = call.map_or(self.heard, |call| Some(call.1));
            (self.sending, self.receiving) = (None, None);
            return Verdict::anew(life);
        };
        // A caller that begins anew has forgotten the existing link; it hasn't heard this node's
        // calls.
        let send_anew = !held && (linked || self.sending.is_none());
        if send_anew {
            self.sending = None;
        }
        let own = *self.sending.get_or_insert(next);
        (self.receiving, self.heard) = (Some(epoch), Some(epoch));
        Verdict {
            send_anew,
            receive_anew: !held,
            says: Ours {
                life: Some(life),
                epoch: Some(own),
            },
        }
    }

    /// The peer accepted this node's call with data: whether its receiving end has them under this
    /// node's epoch, and whether this node's begins anew. `None`: it continues a forgotten state.
    pub(crate) fn hear_answer(&mut self, theirs: Ours) -> Option<bool> {
        let epoch = theirs.epoch?;
        let held = self.receiving == Some(epoch);
        let doubt = core::mem::take(&mut self.doubt);
        if !held && (doubt || self.heard == Some(epoch)) {
            self.heard = Some(epoch);
            return None;
        }
        (self.receiving, self.heard) = (Some(epoch), Some(epoch));
        Some(!held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u16 = 0x0a0a;
    const THEIRS: u16 = 0x0b0b;

    fn known() -> Early {
        Early {
            life: Some(THEIRS),
            ..Early::new()
        }
    }

    fn call(epoch: u16) -> Ours {
        Ours {
            life: Some(OWN),
            epoch: Some(epoch),
        }
    }

    #[test]
    fn a_caller_that_is_not_known_gets_no_data_and_learns_whom_to_send_it_to() {
        let mut caller = Early::new();
        assert_eq!(caller.call(1), None);
        let mut called = Early::new();
        let verdict = called.hear_call(Ours::default(), false, OWN, 9);
        assert_eq!(verdict, Verdict::anew(OWN));
        assert!(!called.deaf && !called.is_sending());
    }

    #[test]
    fn a_repeated_call_goes_on_and_a_new_one_begins_anew() {
        let mut caller = known();
        let first = caller.call(1).expect("it knows the other");
        assert_eq!(caller.call(2), Some(first));
        let mut called = known();
        let verdict = called.hear_call(call(1), false, OWN, 9);
        assert!(verdict.send_anew && verdict.receive_anew);
        assert_eq!(verdict.says.epoch, Some(9));
        let again = called.hear_call(call(1), true, OWN, 10);
        assert!(!again.send_anew && !again.receive_anew);
        assert_eq!(again.says.epoch, Some(9));
        // Frames of a new one that came first, while its call was lost, are in the old link.
        assert_eq!(called.hear_call(call(2), true, OWN, 11), Verdict::anew(OWN));
        assert!(called.deaf);
        // Without a link, there is nothing that could have taken them.
        called.receiving = None;
        let another = called.hear_call(call(3), false, OWN, 12);
        assert!(another.send_anew && another.receive_anew);
        assert_eq!(another.says.epoch, Some(12));
    }

    #[test]
    fn what_was_forgotten_is_not_taken_again() {
        let mut called = known();
        called.hear_call(call(1), false, OWN, 9);
        // Its link was lost since.
        called.receiving = None;
        called.sending = None;
        assert_eq!(
            called.hear_call(call(1), false, OWN, 10),
            Verdict::anew(OWN)
        );
        assert!(called.deaf);
        // Nor is what was meant for the life before.
        let mut called = known();
        let late = Ours {
            life: Some(OWN + 1),
            epoch: Some(1),
        };
        assert_eq!(called.hear_call(late, false, OWN, 9), Verdict::anew(OWN));
        assert!(called.deaf);
    }

    #[test]
    fn what_an_old_link_may_have_taken_is_not_taken_again() {
        // It is there when the call is heard, or was lost before that.
        for linked in [true, false] {
            let mut called = known();
            if !linked {
                called.lose_link();
            }
            for linked in [linked, false] {
                let verdict = called.hear_call(call(4), linked, OWN, 9);
                assert_eq!(verdict, Verdict::anew(OWN));
                assert!(called.deaf);
            }
            assert_eq!(called.hear_answer(call(4)), None);
            assert!(called.hear_call(call(5), false, OWN, 9).receive_anew);
        }
        // A call without data tells nothing of what may have been taken.
        for linked in [true, false] {
            for calls in [true, false] {
                let mut called = known();
                if !linked {
                    called.lose_link();
                }
                let verdict = called.hear_call(Ours::default(), linked, OWN, 9);
                assert_eq!(verdict, Verdict::anew(OWN));
                if calls {
                    called.call(10).expect("it knows the other");
                    assert_eq!(called.hear_answer(call(4)), None);
                } else {
                    let verdict = called.hear_call(call(4), false, OWN, 9);
                    assert_eq!(verdict, Verdict::anew(OWN));
                }
            }
        }
        let mut caller = known();
        caller.lose_link();
        assert_eq!(caller.hear_answer(call(4)), None);
        assert_eq!(caller.hear_answer(call(4)), None);
        assert_eq!(caller.hear_answer(call(5)), Some(true));
        // A link that both made since is none of what was lost.
        caller.lose_link();
        caller.begin_anew();
        assert_eq!(caller.hear_answer(call(6)), Some(true));
    }

    #[test]
    fn two_that_call_each_other_both_keep_what_has_left() {
        let mut called = known();
        called.call(5).expect("it knows the other");
        let verdict = called.hear_call(call(1), false, OWN, 9);
        assert!(!verdict.send_anew && verdict.receive_anew);
        assert_eq!(verdict.says.epoch, Some(5));
        let mut caller = known();
        caller.call(1).expect("it knows the other");
        assert_eq!(caller.hear_answer(verdict.says), Some(true));
        assert_eq!(caller.hear_answer(verdict.says), Some(false));
        // What came under it was forgotten: it can't go on.
        caller.receiving = None;
        assert_eq!(caller.hear_answer(verdict.says), None);
    }
}
