//! Every octet that an owner takes from a stream is delivered, or the stream reset.

/// Why a stream ended before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ResetCause {
    /// The other end, or the way to it, gave it up.
    Peer,
    /// What came couldn't be put on stable storage for want of space.
    StorageFull,
    /// Too much waited for stable storage already.
    StorageBusy,
    /// What came couldn't be put on stable storage, or not fetched from there.
    StorageFailed,
    /// It wasn't secured, or not any longer.
    Tls,
    /// The gateway at the other end of a session ended it.
    Far,
    /// That gateway began anew.
    Restart,
    /// Nothing moved on it for longer than may be, at either end of a session.
    Idle,
}

impl ResetCause {
    /// All causes, in the order of the arrays indexed by them.
    pub const ALL: [Self; 8] = [
        Self::Peer,
        Self::StorageFull,
        Self::StorageBusy,
        Self::StorageFailed,
        Self::Tls,
        Self::Far,
        Self::Restart,
        Self::Idle,
    ];

    /// The word in tables, status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::StorageFull => "storage-full",
            Self::StorageBusy => "storage-busy",
            Self::StorageFailed => "storage-failed",
            Self::Tls => "tls",
            Self::Far => "far",
            Self::Restart => "restart",
            Self::Idle => "idle",
        }
    }
}

/// The streams of one owner, and what became of their octets. A stream that is neither ended nor
/// reset is open; octets that are neither delivered nor lost are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLedger {
    /// Streams opened.
    pub opened: u64,
    /// Of these, those whose both directions ended, with all octets delivered.
    pub ended: u64,
    resets: [u64; ResetCause::ALL.len()],
    /// Octets taken.
    pub taken: u64,
    /// Of these, those handed on.
    pub delivered: u64,
    /// Of these, those that a reset destroyed.
    pub lost: u64,
}

impl StreamLedger {
    /// Counts a reset of a stream that held so many octets.
    pub const fn reset(&mut self, cause: ResetCause, held: u64) {
        self.resets[cause as usize] += 1;
        self.lost += held;
    }

    /// Adds another owner's.
    pub fn add(&mut self, other: &Self) {
        self.opened += other.opened;
        self.ended += other.ended;
        for (sum, more) in self.resets.iter_mut().zip(other.resets) {
            *sum += more;
        }
        self.taken += other.taken;
        self.delivered += other.delivered;
        self.lost += other.lost;
    }

    /// Streams reset for `cause`.
    pub const fn resets_by(&self, cause: ResetCause) -> u64 {
        self.resets[cause as usize]
    }

    /// Streams reset for any cause.
    pub fn resets(&self) -> u64 {
        self.resets.iter().sum()
    }

    /// Streams that are open by these books; more closed than opened is none.
    pub fn open(&self) -> u64 {
        self.opened.saturating_sub(self.ended + self.resets())
    }

    /// Octets that are held by these books.
    pub const fn held(&self) -> u64 {
        self.taken.saturating_sub(self.delivered + self.lost)
    }

    /// Whether the owner, which has so many streams that hold so many octets, has lost none and
    /// counted none twice.
    pub fn balanced(&self, open: u64, held: u64) -> bool {
        self.opened == self.ended + self.resets() + open
            && self.taken == self.delivered + self.lost + held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_delivered_lost_by_a_reset_or_held() {
        let mut books = StreamLedger {
            opened: 3,
            taken: 10,
            ..StreamLedger::default()
        };
        assert!(books.balanced(3, 10));
        books.delivered += 4;
        books.ended += 1;
        assert!(books.balanced(2, 6) && !books.balanced(2, 5) && !books.balanced(1, 6));
        books.reset(ResetCause::StorageFull, 5);
        assert_eq!((books.open(), books.held(), books.lost), (1, 1, 5));
        assert_eq!((books.resets(), books.resets_by(ResetCause::Peer)), (1, 0));
        assert!(books.balanced(1, 1));
        // Delivered twice.
        books.delivered += 2;
        assert!(!books.balanced(books.open(), books.held()));
    }
}
