//! What a message switch counts.

/// A message switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailStats {
    /// Messages taken: stored, and answered for.
    pub accepted: u64,
    /// Octets of their texts.
    pub octets_in: u64,
    /// Octets of texts given to other switches.
    pub octets_out: u64,
    /// What went of them: between switches of ours they are packed.
    pub octets_out_packed: u64,
    /// What is done for slow links.
    pub slow: MailSlowStats,
    /// Messages that came again, and aren't there twice.
    pub repeats: u64,
    /// Messages that came whole and weren't taken.
    pub refused: u64,
    /// Clients that may not come.
    pub strangers: u64,
    /// Wrong names or passwords.
    pub wrong_passwords: u64,
    /// Copies that lie in a mailbox.
    pub delivered: u64,
    /// Recipients whose message another switch took.
    pub relayed: u64,
    /// Recipients that will never get theirs.
    pub failed: u64,
    /// Recipients that were refused for now.
    pub deferred: u64,
    /// Reports made.
    pub reports: u64,
    /// Failures that nobody is told of: of reports, or where nobody wants to hear them.
    pub untold: u64,
    /// Connections to other switches that were there.
    pub connections: u64,
    /// Connections to other switches that broke or were refused.
    pub broken: u64,
    /// Times that a lane stopped within a message for a higher one.
    pub paused: u64,
    /// Messages that went over to another next hop.
    pub moved: u64,
    /// Next hops that are down or silent for so long that others have their messages.
    pub hops_out: u64,
    /// Batches that couldn't be stored at once.
    pub unstored: u64,
    /// Stored envelopes that couldn't be read.
    pub unreadable: u64,
    /// Messages that have been here for longer than their precedence may be.
    pub overdue: u64,
    /// The least precedence that goes to other switches; 0 if all do.
    pub minimize: u64,
    /// Messages that are here, by precedence, the least first.
    pub waiting: [u64; 6],
}

/// What a message switch does for slow links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailSlowStats {
    /// Octets of texts that were there already when a message that broke off went on.
    pub resumed_octets: u64,
    /// Messages whose text went first.
    pub texts_first: u64,
    /// Times that a next hop asked for its messages.
    pub polls: u64,
}
