//! What a router of a mobile network counts.

/// A router of a mobile network (RFC 3626), what it has counted and what is so now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OlsrStats {
    /// Neighbours that hear it.
    pub neighbours: u64,
    /// Those of them that pass on what it says.
    pub relays: u64,
    /// Those whose words it passes on.
    pub selectors: u64,
    /// Routes.
    pub routes: u64,
    /// Packets sent.
    pub packets_out: u64,
    /// Octets of their payloads.
    pub octets_out: u64,
    /// Packets that came, copies not counted.
    pub packets_in: u64,
    /// Packets, or messages in them, that can't be read.
    pub malformed: u64,
    /// Messages of others passed on.
    pub forwarded: u64,
    /// Messages of others not passed on, as too many waited.
    pub crowded: u64,
    /// Neighbours lost by the medium's word.
    pub noticed: u64,
    /// How often a route changed, came or went.
    pub changes: u64,
}
