//! What batches do that a switch has stored, for tests that end it at such a step.

use strait_core::node::StoreOp;

use super::queue::{ENVELOPES, TEXTS};

/// What a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A piece of a text whose message isn't whole.
    Piece,
    /// A message is taken: the rest of its text, and its envelope.
    Taken,
    /// A report is made, and what it tells of is over.
    Report,
    /// A message is over: all have it.
    Over,
    /// A message has changed: some have it, or its next hop may have it from now on.
    Changed,
}

impl Step {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Piece,
        Self::Taken,
        Self::Report,
        Self::Over,
        Self::Changed,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Piece => "piece",
            Self::Taken => "taken",
            Self::Report => "report",
            Self::Over => "over",
            Self::Changed => "changed",
        }
    }

    /// What a batch does, if it is a switch's and does one of these.
    pub fn of(batch: &[StoreOp]) -> Option<Self> {
        let any = |is: fn(&StoreOp) -> bool| batch.iter().any(is);
        let envelope = any(|op| matches!(op, StoreOp::Put(key, _) if key.starts_with(ENVELOPES)));
        let piece = any(|op| matches!(op, StoreOp::Append(key, _) if key.starts_with(TEXTS)));
        let text = any(|op| matches!(op, StoreOp::Put(key, _) if key.starts_with(TEXTS)));
        let over = any(|op| matches!(op, StoreOp::Delete(key) if key.starts_with(ENVELOPES)));
        match (envelope, piece, text, over) {
            (true, true, ..) => Some(Self::Taken),
            (true, _, true, _) => Some(Self::Report),
            (false, true, ..) => Some(Self::Piece),
            (_, _, _, true) => Some(Self::Over),
            (true, ..) => Some(Self::Changed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn each_batch_is_told_by_what_is_in_it() {
        let key = |kind: &[u8]| [kind, b"1"].concat();
        let put = |kind| StoreOp::Put(key(kind), Vec::new());
        let append = || StoreOp::Append(key(TEXTS), Vec::new());
        let delete = |kind| StoreOp::Delete(key(kind));
        let batches = [
            (alloc::vec![append()], Some(Step::Piece)),
            (alloc::vec![append(), put(ENVELOPES)], Some(Step::Taken)),
            (
                alloc::vec![put(TEXTS), delete(ENVELOPES), delete(TEXTS), put(ENVELOPES)],
                Some(Step::Report),
            ),
            (
                alloc::vec![delete(ENVELOPES), delete(TEXTS)],
                Some(Step::Over),
            ),
            (alloc::vec![put(ENVELOPES)], Some(Step::Changed)),
            (alloc::vec![delete(TEXTS)], None),
            (alloc::vec![put(b"flows/")], None),
        ];
        for (batch, step) in batches {
            assert_eq!(Step::of(&batch), step, "{batch:?}");
        }
    }
}
