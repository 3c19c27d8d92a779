//! What a node knows of names, for its operator's eyes: it is in no log.

use alloc::string::String;

use crate::time::Duration;

/// How far something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NameState {
    /// A question is on its way, or waits to be.
    Asked,
    /// It lives still.
    Fresh,
    /// A partner keeps it fresh.
    Kept,
    /// It has outlived its life.
    Stale,
    /// It goes by an address of this node's own, which stands for it.
    Ahead,
}

impl NameState {
    /// As a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Fresh => "fresh",
            Self::Kept => "kept fresh",
            Self::Stale => "stale",
            Self::Ahead => "ahead",
        }
    }
}

/// A name and a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEntry {
    /// The name.
    pub name: String,
    /// The type, or several that are asked for together.
    pub kind: String,
    /// How far it is known.
    pub state: NameState,
    /// What is known: records, or that there are none; nothing of a question.
    pub said: String,
    /// How long it lives yet; how long a question is on its way.
    pub time: Duration,
    /// Clients that wait for its answer.
    pub waiting: usize,
    /// How often it crossed.
    pub tries: u32,
}
