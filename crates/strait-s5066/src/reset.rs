//! Resets with one peer: stop and wait, with numbers of their own (C.3.6, C.6.5).

use alloc::vec::Vec;

use crate::d_pdu::Reset;

/// Where a reset stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResetExchange {
    /// Ours, not answered yet.
    pub(crate) open: Option<Reset>,
    /// The number of our next one.
    next: u8,
    /// Answers to theirs, at most two.
    pub(crate) says: Vec<Reset>,
    /// The number of theirs that was heard last, until data goes on behind it.
    pub(crate) heard: Option<u8>,
}

impl ResetExchange {
    /// Begins one of ours, unless one is open; whether it did.
    pub(crate) fn begin(&mut self, what: Reset) -> bool {
        if self.open.is_some() {
            return false;
        }
        let frame = self.next;
        self.next = frame.wrapping_add(1);
        self.open = Some(Reset { frame, ..what });
        true
    }

    /// Hears the number of one of theirs; whether it is a new one, and no repeat.
    pub(crate) fn hear(&mut self, frame: u8) -> bool {
        self.heard.replace(frame) != Some(frame)
    }
}
