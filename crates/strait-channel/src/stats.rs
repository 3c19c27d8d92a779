//! What a channel counts, for each direction.

use crate::LossCause;

/// Counters of what one side sent. On a serial line a frame is what was sent by one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)] // What each frame counts comes first.
pub struct ChannelStats {
    /// Frames sent, lost ones included.
    pub frames: u64,
    /// Their octets.
    pub octets: u64,
    /// Time in which octets left, in nanoseconds; counted whole as a transmission begins.
    pub busy_ns: u64,
    /// Of a cell: time on the air of frames for one station that arrived, in nanoseconds, each
    /// counted once.
    pub arrived_ns: u64,
    /// Frames that arrived with inverted bits.
    pub corrupted_frames: u64,
    /// Inverted bits of the line in them, start and stop bits included.
    pub corrupted_bits: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames that were held back.
    pub reordered: u64,
    lost: [u64; LossCause::ALL.len()],
    lost_octets: u64,
}

impl ChannelStats {
    /// Frames lost for `cause`.
    pub const fn lost(&self, cause: LossCause) -> u64 {
        self.lost[cause as usize]
    }

    /// Frames lost for any cause.
    pub fn lost_frames(&self) -> u64 {
        self.lost.iter().sum()
    }

    /// Octets of the frames lost.
    pub const fn lost_octets(&self) -> u64 {
        self.lost_octets
    }

    pub(crate) const fn count_loss(&mut self, cause: LossCause, octets: u64) {
        self.lost[cause as usize] += 1;
        self.lost_octets += octets;
    }
}
