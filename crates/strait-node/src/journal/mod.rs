//! The journal: everything that went into a node and every pull that it answered, so that its run
//! can be repeated octet by octet ([`replay()`]).
//!
//! ```text
//! file    = magic (8 octets), version (1 octet), header, record …
//! header  = framed body: the program's version, flags, configuration as TOML, what the node found
//!           at its start (of what is stored, keys and lengths)
//! record  = framed body: kind, time since the record before in ns, what the kind says
//! framed  = length of the body, body, CRC-32 over both (4 octets, least significant first)
//! ```
//!
//! Numbers are variable-length (seven bits an octet, least significant first, the top bit says
//! that more follow); octets and text stand behind their length. A gateway that is killed leaves a
//! file whose last record is cut short: its check doesn't match, and reading ends before it.
//!
//! Kinds are never given another content: a record whose kind a reader doesn't know is skipped, so
//! a newer program shows an older journal. It is replayed by the program that wrote it.
//!
//! A journal with masked payloads has lengths where octets would stand. It shows what happened
//! without what was said, and can't be replayed; addresses in its configuration stay. Of streams
//! with TLS a journal has clear octets, as the node does; masked, it still says whom they are with.

mod codec;
mod input;
mod reader;
mod replay;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{Entry, Header, HeaderError, JournalEnd, JournalReader, Record};
pub use replay::{Difference, Pull, ReplayError, ReplayReport, replay, replay_told};
pub use writer::{JournalSettings, JournalWriter};

/// The first octets of each journal. The line feeds show damage by transfer as text.
pub const MAGIC: [u8; 8] = *b"straitj\n";

/// The version of the format that is written, and replayed.
pub const VERSION: u8 = 4;

/// The oldest version that can be shown.
const OLDEST: u8 = 2;

/// The program that writes: only the same one is sure to repeat a run to the octet.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// Why the writer ended a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndCause {
    Closed,
    Limit,
}

/// Flags in the header.
const FLAG_MASKED: u8 = 1;

/// What a record holds.
mod kind {
    pub(super) const TIMEOUT: u8 = 1;
    pub(super) const FRAME: u8 = 2;
    pub(super) const PORT: u8 = 3;
    // 4 was a transmission without its neighbour.
    pub(super) const ROUTE: u8 = 5;
    // 6 to 9 were streams, datagrams and storage of version 2, whose numbers had no owners.
    pub(super) const WALL: u8 = 10;
    pub(super) const COMMAND: u8 = 11;
    pub(super) const SOCKET: u8 = 12;
    pub(super) const STREAM: u8 = 13;
    // 14 was a datagram without its destination.
    pub(super) const STORED: u8 = 15;
    // 16 was a piece of what was loaded, of version 3.
    pub(super) const DATAGRAM: u8 = 17;
    pub(super) const LOADED: u8 = 18;
    pub(super) const TX_DONE: u8 = 19;
    pub(super) const NEIGHBOUR: u8 = 20;
    pub(super) const WORKED: u8 = 21;
    pub(super) const ASKED: u8 = 22;
    pub(super) const ROUTED: u8 = 23;
    pub(super) const SECURED: u8 = 24;
    pub(super) const NEIGHBOUR_RATE: u8 = 25;
    pub(super) const TX_LEFT: u8 = 26;
    pub(super) const PULLED: u8 = 32;
    pub(super) const ENDED: u8 = 33;
    pub(super) const PULLED_FOR: u8 = 34;
}
