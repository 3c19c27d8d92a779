//! Resets with one peer: stop and wait, with numbers of their own (C.3.6, C.6.5).

use alloc::vec::Vec;

use crate::d_pdu::Reset;

/// Where a reset stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResetExchange {
    /// This node's, not answered yet.
    open: Option<Reset>,
    /// The number of this node's next one.
    next: u8,
    /// Answers to theirs, at most two.
    says: Vec<Reset>,
    /// The number of the peer's last received one, until data continues behind it.
    heard: Option<u8>,
}

impl ResetExchange {
    /// Begins one of this node, unless one is open; whether it did.
    pub(crate) fn begin(&mut self, what: Reset) -> bool {
        if self.open.is_some() {
            return false;
        }
        let frame = self.next;
        self.next = frame.wrapping_add(1);
        self.open = Some(Reset { frame, ..what });
        true
    }

    /// This node's unanswered one.
    pub(crate) const fn open(&self) -> Option<Reset> {
        self.open
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether that gives the other end a lower edge.
    pub(crate) fn commands(&self) -> bool {
        self.open.is_some_and(|open| open.command)
    }

    /// This node's is answered, or isn't needed any more.
    pub(crate) const fn cancel(&mut self) {
        self.open = None;
    }

    /// This node's that the answer with a number is for.
    pub(crate) fn answered(&self, frame: u8, long: bool) -> Option<Reset> {
        let fits = |open: &Reset| open.frame == frame || open.full && frame == 0 && !long;
        self.open.filter(fits)
    }

    /// Hears the number of one of theirs; whether it is a new one, and no repeat.
    pub(crate) fn hear(&mut self, frame: u8) -> bool {
        self.heard.replace(frame) != Some(frame)
    }

    /// Data continues, or a link is made.
    pub(crate) const fn go_on(&mut self) {
        self.heard = None;
    }

    /// Confirms theirs. The answer to a full one has number 0 (C.6.5 (12)); one with its number
    /// follows, for those that look for it.
    pub(crate) fn answer(&mut self, reset: Reset, long: bool) {
        let answer = |frame| Reset {
            ack: true,
            frame,
            ..Reset::default()
        };
        self.says.clear();
        self.says.push(answer(reset.frame));
        if reset.full && reset.frame != 0 && !long {
            self.says.push(answer(0));
        }
    }

    /// Answers to be sent.
    pub(crate) const fn answers(&self) -> usize {
        self.says.len()
    }

    /// The next of them.
    pub(crate) fn next_answer(&mut self) -> Option<Reset> {
        self.says.pop()
    }

    /// There is no wait for them.
    pub(crate) fn forget_answers(&mut self) {
        self.says.clear();
    }
}
