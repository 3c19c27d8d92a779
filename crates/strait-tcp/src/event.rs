//! What happens in a connection: counted by kind, and the latest in order.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use strait_core::Instant;

/// Something that an end did or met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpEvent {
    /// When.
    pub at: Instant,
    /// Where in the stream, for kinds that belong to a segment: octets before it, of this end's
    /// stream for what it sent, of the other's for what came. The SYN is at 0 like the first octet.
    pub position: u64,
    /// What.
    pub kind: TcpEventKind,
}

macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident = $name:literal,)+) => {
        /// Kinds of [`TcpEvent`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum TcpEventKind {
            $($(#[$doc])+ $kind,)+
        }

        impl TcpEventKind {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// Its name in results, in the plural.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }
        }
    };
}

kinds! {
    /// A SYN, or its answer, went again.
    RepeatedHandshake = "repeats_handshake",
    /// A segment went again because a retransmission timeout says that it is lost (RFC 6298).
    RepeatedTimeout = "repeats_timeout",
    /// A segment went again because others that left later have arrived (RFC 5681, 6675, 8985).
    RepeatedLoss = "repeats_loss",
    /// The last segment went again to call forth an answer (RFC 8985 section 7.3).
    RepeatedProbe = "repeats_probe",
    /// A segment went again because it was too long for the path (RFC 1191, RFC 8201).
    RepeatedPathMtu = "repeats_path_mtu",
    /// The retransmission timer ran out.
    TimedOut = "timeouts",
    /// A recovery turned out to be needless and was taken back (RFC 3522, 3708, 4015, 5682).
    Undone = "undone",
    /// New data went up to the very end of the other end's window.
    WindowFull = "windows_full",
    /// The other end's window has closed.
    WindowClosed = "windows_closed",
    /// The other end was asked whether its window has opened (RFC 9293 section 3.8.6.1).
    WindowProbe = "window_probes",
    /// The other end was asked whether it is alive (RFC 9293 section 3.8.4).
    KeepAlive = "keep_alives",
    /// A segment told that this end has no room.
    ZeroWindow = "zero_windows",
    /// A segment came that begins behind everything that had come: something is missing.
    Gap = "gaps",
    /// A segment brought something that later ones had overtaken.
    Late = "late",
    /// A segment brought nothing new.
    Duplicate = "duplicates",
    /// A segment's timestamp was older than that of one before (RFC 7323 section 5).
    Stale = "stale",
    /// A segment lay outside the window, or there was no room to keep it.
    Refused = "refused",
    /// An acknowledgement said again what the last one said (RFC 5681 section 2).
    DuplicateAck = "duplicate_acks",
    /// The other end was told of a duplicate (RFC 2883).
    DuplicateTold = "duplicates_told",
    /// The other end told of a duplicate.
    DuplicateHeard = "duplicates_heard",
    /// A reset was sent.
    ResetSent = "resets_sent",
    /// A reset ended the connection.
    ResetMet = "resets_met",
}

impl TcpEventKind {
    /// Whether a segment went again.
    pub const fn is_repeat(self) -> bool {
        matches!(
            self,
            Self::RepeatedHandshake
                | Self::RepeatedTimeout
                | Self::RepeatedLoss
                | Self::RepeatedProbe
                | Self::RepeatedPathMtu
        )
    }
}

/// How often each kind happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpEventCounts([u64; TcpEventKind::ALL.len()]);

impl TcpEventCounts {
    /// How often this kind happened.
    pub const fn of(&self, kind: TcpEventKind) -> u64 {
        self.0[kind as usize]
    }

    const fn add(&mut self, kind: TcpEventKind) {
        self.0[kind as usize] += 1;
    }

    /// Adds those of another connection.
    pub(super) const fn merge(&mut self, other: &Self) {
        let mut index = 0;
        while index < self.0.len() {
            self.0[index] += other.0[index];
            index += 1;
        }
    }
}

/// The latest events, until somebody takes them, and the counts of all.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    counts: TcpEventCounts,
    latest: VecDeque<TcpEvent>,
}

impl EventLog {
    /// Events that wait to be taken: what the largest window may bring between two looks. Older
    /// ones go first; they are counted all the same.
    const LATEST_MAX: usize = 1024;

    pub(super) fn note(&mut self, at: Instant, position: u64, kind: TcpEventKind) {
        self.counts.add(kind);
        if self.latest.len() >= Self::LATEST_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(TcpEvent { at, position, kind });
    }

    pub(super) fn poll(&mut self) -> Option<TcpEvent> {
        self.latest.pop_front()
    }

    /// Asserts the limit.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.latest.len() <= Self::LATEST_MAX);
    }

    pub(super) const fn counts(&self) -> TcpEventCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept_and_all_are_counted() {
        let mut log = EventLog::default();
        let many = EventLog::LATEST_MAX as u64 + 3;
        for position in 0..many {
            log.note(Instant::ZERO, position, TcpEventKind::Gap);
        }
        assert_eq!(log.poll().map(|event| event.position), Some(3));
        assert_eq!(log.latest.len(), EventLog::LATEST_MAX - 1);
        assert_eq!(log.counts().of(TcpEventKind::Gap), many);
        let mut sum = log.counts();
        sum.merge(&log.counts());
        assert_eq!(sum.of(TcpEventKind::Gap), 2 * many);
        assert_eq!(sum.of(TcpEventKind::Late), 0);
    }

    #[test]
    fn each_kind_has_its_own_place_and_name() {
        for (index, kind) in TcpEventKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
        let mut names = TcpEventKind::ALL.map(TcpEventKind::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
