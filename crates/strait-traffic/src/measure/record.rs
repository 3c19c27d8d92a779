//! What one transfer came to.

use serde::{Deserialize, Serialize};
use strait_tcp::TcpError;

use super::timeline::Timeline;
use super::wire::{Direction, Verdict};

/// What a system knows of one end of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Name of the congestion control; simulated, of the endpoint's profile.
    pub congestion: String,
    /// Segments sent, those without data included.
    pub segments_out: u64,
    /// Segments sent that repeat a sequence number already sent.
    pub retransmissions: u64,
    /// The smoothed round-trip time at the end, in nanoseconds.
    pub rtt_ns: Option<u64>,
}

/// Why a transfer came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// There is no way there.
    #[error("no route to the host")]
    Unreachable,
    /// The other end gave up or forgot the connection.
    #[error("connection reset by the other end")]
    Reset,
    /// TCP gave up, or the transfer took longer than it may.
    #[error("timed out")]
    TimedOut,
    /// The other end closed the connection before the end.
    #[error("closed by the other end before the end")]
    Closed,
    /// The other end isn't a server of measured transfers.
    #[error("the other end doesn't speak the protocol of the measurement")]
    Garbled,
    /// The server doesn't want to.
    #[error("{0}")]
    Declined(Verdict),
    /// This end's system refuses something.
    #[error("{0}")]
    Host(String),
    /// The user ended it, or the run was over.
    #[error("stopped before the end")]
    Stopped,
}

impl From<TcpError> for Failure {
    fn from(error: TcpError) -> Self {
        match error {
            TcpError::Refused => Self::Refused,
            TcpError::Reset => Self::Reset,
            TcpError::TimedOut => Self::TimedOut,
            TcpError::Unreachable => Self::Unreachable,
            TcpError::Misused => Self::Host(error.to_string()),
        }
    }
}

/// One transfer. Times are in nanoseconds from `started_ns` on, on the client's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferRecord {
    /// Which way the content went.
    pub direction: Direction,
    /// Octets of content.
    pub octets: u32,
    /// Which of several alike, from 1.
    pub run: u32,
    /// When the client called for the connection, on a clock that all records of a log share.
    pub started_ns: u64,
    /// When the client could send.
    pub connected_ns: Option<u64>,
    /// When the sender's TCP had taken the last octet of content.
    pub taken_ns: Option<u64>,
    /// When the receiving application had the last octet of content.
    pub last_ns: Option<u64>,
    /// When it was over for the client: after the server's report, or when it failed.
    pub ended_ns: Option<u64>,
    /// By how much times of the server may be wrong; 0 if both ends have the same clock.
    pub clock_error_ns: u64,
    /// Octets of content that weren't what was sent.
    pub wrong: u64,
    /// Why it came to nothing.
    pub failure: Option<Failure>,
    /// What the sender's system knows of the connection.
    pub sender: Facts,
    /// Content that the sender's TCP took.
    pub sent: Timeline,
    /// Content that arrived.
    pub arrived: Timeline,
}

impl TransferRecord {
    /// From the call for the connection until the client could send, in seconds.
    pub fn connect_s(&self) -> Option<f64> {
        self.connected_ns.map(seconds)
    }

    /// From the call for the connection until the last octet was there, in seconds.
    pub fn total_s(&self) -> Option<f64> {
        self.last_ns.map(seconds)
    }

    /// How long the last octet was under way from application to application, in seconds.
    pub fn last_octet_s(&self) -> Option<f64> {
        let last_ns = self.last_ns?;
        Some(seconds(last_ns.saturating_sub(self.taken_ns?)))
    }

    /// Octets of content times 8 over the total time.
    pub fn goodput_bit_s(&self) -> Option<f64> {
        let total_s = self.total_s().filter(|total_s| *total_s > 0.0)?;
        Some(f64::from(self.octets) * 8.0 / total_s)
    }

    /// The goodput as a share of the link's rate.
    pub fn utilisation(&self, rate_bit_s: Option<u64>) -> Option<f64> {
        Some(self.goodput_bit_s()? / rate_bit_s? as f64)
    }
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
