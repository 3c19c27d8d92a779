//! What a TCP proxy counts.

use crate::stream_ledger::StreamLedger;

/// A session with a partner, or all of a proxy's together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Its streams, both directions together: octets of a host here are delivered when the partner
    /// has them, a partner's when the host's connection has taken them.
    pub streams: StreamLedger,
    /// Streams that weren't opened, as there were as many as there may be.
    pub refused: u64,
    /// How often a stream was stopped, as others have too much waiting.
    pub starved: u64,
    /// Datagrams with items taken in.
    pub datagrams_in: u64,
    /// Datagrams given to links.
    pub datagrams_out: u64,
    /// Octets of these, without headers of IP and UDP.
    pub octets_out: u64,
    /// Datagrams whose contents were sent again.
    pub repaired: u64,
    /// Datagrams that came twice.
    pub duplicates: u64,
    /// Datagrams that weren't any.
    pub malformed: u64,
    /// Datagrams for another incarnation, or from a partner that hasn't said yet who it is.
    pub strangers: u64,
    /// How often a partner began anew.
    pub restarts: u64,
}

impl SessionStats {
    /// Adds another session's.
    pub fn add(&mut self, other: &Self) {
        self.streams.add(&other.streams);
        self.refused += other.refused;
        self.starved += other.starved;
        self.datagrams_in += other.datagrams_in;
        self.datagrams_out += other.datagrams_out;
        self.octets_out += other.octets_out;
        self.repaired += other.repaired;
        self.duplicates += other.duplicates;
        self.malformed += other.malformed;
        self.strangers += other.strangers;
        self.restarts += other.restarts;
    }
}

/// Why a client has no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ProxyRefusal {
    /// No partner is responsible for where it wants to go.
    NoPartner,
    /// The destination isn't allowed to partners.
    NotAllowed,
    /// It comes from an address that isn't behind the partner that speaks for it.
    WrongSource,
    /// There are as many streams as there may be.
    Full,
    /// The server, or the way to it, refused it.
    Server,
    /// It was gone before there was an answer.
    Gone,
    /// It speaks QUIC, and there is TCP: each datagram counts.
    Quic,
    /// A program that asks by SOCKS or HTTP said nothing that is done here, or took too long.
    Handshake,
    /// Its partner is silent, and it can't go on without the proxy.
    Silent,
}

impl ProxyRefusal {
    /// All, in the order of the arrays indexed by them.
    pub const ALL: [Self; 9] = [
        Self::NoPartner,
        Self::NotAllowed,
        Self::WrongSource,
        Self::Full,
        Self::Server,
        Self::Gone,
        Self::Quic,
        Self::Handshake,
        Self::Silent,
    ];

    /// The word in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoPartner => "no-partner",
            Self::NotAllowed => "not-allowed",
            Self::WrongSource => "wrong-source",
            Self::Full => "full",
            Self::Server => "server",
            Self::Gone => "gone",
            Self::Quic => "quic",
            Self::Handshake => "handshake",
            Self::Silent => "silent",
        }
    }
}

/// A TCP proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyStats {
    /// All its sessions.
    pub sessions: SessionStats,
    /// Octets of all streams that may wait, of each direction.
    pub octets_max: u64,
    /// Partners that have been heard and aren't lost.
    pub partners_known: u64,
    /// Prefixes that partners say are behind them.
    pub announced: u64,
    /// Clients who passed as without the proxy, as their partner was silent.
    pub passed: u64,
    /// Octets of hosts here for partners, and what went for them, compressed where that is less.
    pub octets: u64,
    /// The latter.
    pub octets_line: u64,
    /// Clients who asked by SOCKS or HTTP CONNECT, and said for whom.
    pub explicit: u64,
    /// Streams of the gateway's own message switch that are there.
    pub lanes: u64,
    /// Clients who were connected early, as their server's answer took too long.
    pub early: u64,
    refusals: [u64; ProxyRefusal::ALL.len()],
}

impl ProxyStats {
    /// Counts a client that has no connection.
    pub const fn refuse(&mut self, why: ProxyRefusal) {
        self.refusals[why as usize] += 1;
    }

    /// Counts programs that asked for nothing that is done here, so many so far.
    pub const fn count_failed_handshakes(&mut self, failed: u64) {
        self.refusals[ProxyRefusal::Handshake as usize] = failed;
    }

    /// Clients that have none for this reason.
    pub const fn refused_by(&self, why: ProxyRefusal) -> u64 {
        self.refusals[why as usize]
    }
}
