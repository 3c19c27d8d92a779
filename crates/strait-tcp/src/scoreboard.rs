//! Segments sent and not yet acknowledged, oldest first, and what is known of each.

use std::collections::VecDeque;

use strait_core::Instant;

use super::rate::RateMark;

/// One segment under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) seq: u64,
    /// The sequence number behind it; a FIN takes one.
    pub(super) end: u64,
    /// When it was last sent.
    pub(super) sent_at: Instant,
    /// Selectively acknowledged.
    pub(super) sacked: bool,
    /// Believed to be lost.
    pub(super) lost: bool,
    /// Sent again, and that copy isn't believed to be lost.
    pub(super) repeated: bool,
    /// Ever sent again.
    pub(super) ever_repeated: bool,
    pub(super) rate: RateMark,
}

/// The queue with its sums. Windows count segments, as Linux does.
///
/// Without selective acknowledgements, `sacked` counts duplicate acknowledgements, each of which
/// says that some segment has left the network.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    pub(super) queue: VecDeque<Sent>,
    pub(super) sacked: u32,
    pub(super) lost: u32,
    pub(super) repeated: u32,
    /// Segments ever believed to be lost.
    pub(super) lost_ever: u64,
    /// No segment before this number waits to be sent again.
    hint: u64,
}

impl Scoreboard {
    pub(super) fn packets(&self) -> u32 {
        self.queue.len() as u32
    }

    /// Segments believed to be in the network (pipe of RFC 6675).
    pub(super) fn in_flight(&self) -> u32 {
        (self.packets() + self.repeated).saturating_sub(self.sacked + self.lost)
    }

    pub(super) fn clear(&mut self) {
        *self = Self {
            lost_ever: self.lost_ever,
            ..Self::default()
        };
    }

    /// Index of the segment that begins at `seq` or the first after it.
    pub(super) fn position(&self, seq: u64) -> usize {
        self.queue.partition_point(|sent| sent.seq < seq)
    }

    /// Believes the segment to be lost; its repetition too if there was one under way. True if
    /// that is news.
    pub(super) fn mark_lost(&mut self, index: usize) -> bool {
        let Some(sent) = self.queue.get_mut(index) else {
            return false;
        };
        if sent.sacked || (sent.lost && !sent.repeated) {
            return false;
        }
        if sent.lost {
            sent.repeated = false;
            self.repeated -= 1;
        } else {
            sent.lost = true;
            self.lost += 1;
            if sent.repeated {
                // A probe at the tail: it is lost with the original.
                sent.repeated = false;
                self.repeated -= 1;
            }
        }
        self.lost_ever += 1;
        self.hint = self.hint.min(sent.seq);
        true
    }

    /// Takes back that segments are lost.
    pub(super) fn unmark_lost(&mut self) {
        for sent in &mut self.queue {
            sent.lost = false;
        }
        self.lost = 0;
    }

    /// Notes a selective acknowledgement of a segment that had none. Says what it was before.
    pub(super) fn mark_sacked(&mut self, index: usize) -> Option<Sent> {
        let sent = self.queue.get_mut(index).filter(|sent| !sent.sacked)?;
        let before = *sent;
        sent.sacked = true;
        if sent.lost {
            sent.lost = false;
            self.lost -= 1;
            if sent.repeated {
                sent.repeated = false;
                self.repeated -= 1;
            }
        }
        sent.rate.delivered_at = Instant::NEVER;
        self.sacked += 1;
        Some(before)
    }

    /// Forgets all selective acknowledgements: the other end took them back (RFC 2018 section 8).
    pub(super) fn renege(&mut self) {
        for sent in &mut self.queue {
            sent.sacked = false;
        }
        self.sacked = 0;
    }

    /// Takes the oldest segment off if it lies wholly before `ack`. `selective`: the `sacked`
    /// sum belongs to segments.
    pub(super) fn pop_acked(&mut self, ack: u64, selective: bool) -> Option<Sent> {
        let sent = *self.queue.front().filter(|sent| sent.end <= ack)?;
        self.queue.pop_front();
        self.lost -= u32::from(sent.lost);
        self.repeated -= u32::from(sent.repeated);
        if selective {
            self.sacked -= u32::from(sent.sacked);
        }
        Some(sent)
    }

    /// The next segment to send again, if any.
    pub(super) fn next_lost(&mut self) -> Option<usize> {
        if self.lost == 0 {
            return None;
        }
        let start = self.position(self.hint);
        let waits = |sent: &Sent| sent.lost && !sent.repeated && !sent.sacked;
        let index = (start..self.queue.len()).find(|index| waits(&self.queue[*index]))?;
        self.hint = self.queue[index].seq;
        Some(index)
    }

    /// Notes that a segment was sent again. True if it is the first time.
    pub(super) fn mark_repeated(&mut self, index: usize, now: Instant, rate: RateMark) -> bool {
        let Some(sent) = self.queue.get_mut(index) else {
            return false;
        };
        self.repeated += u32::from(!sent.repeated);
        sent.repeated = true;
        sent.sent_at = now;
        sent.rate = rate;
        !std::mem::replace(&mut sent.ever_repeated, true)
    }

    /// Cuts a segment in two behind `octets`. The rest inherits everything.
    pub(super) fn split(&mut self, index: usize, octets: u64) {
        let Some(sent) = self.queue.get_mut(index) else {
            return;
        };
        if sent.end - sent.seq <= octets {
            return;
        }
        let mut rest = *sent;
        sent.end = sent.seq + octets;
        rest.seq = sent.end;
        let (sacked, lost, repeated) = (rest.sacked, rest.lost, rest.repeated);
        self.queue.insert(index + 1, rest);
        self.sacked += u32::from(sacked);
        self.lost += u32::from(lost);
        self.repeated += u32::from(repeated);
    }

    /// The end of the last segment that was selectively acknowledged.
    pub(super) fn highest_sacked(&self) -> Option<u64> {
        if self.sacked == 0 {
            return None;
        }
        self.queue
            .iter()
            .rev()
            .find(|sent| sent.sacked)
            .map(|sent| sent.end)
    }

    /// RFC 6675 section 4, IsLost: marks every segment with enough octets or ranges selectively
    /// acknowledged above it.
    pub(super) fn mark_by_threshold(&mut self, threshold: u32, segment_octets: u64) -> bool {
        if self.sacked == 0 {
            return false;
        }
        let (mut octets, mut ranges, mut above_sacked, mut news) = (0u64, 0u32, false, false);
        for index in (0..self.queue.len()).rev() {
            let sent = self.queue[index];
            if sent.sacked {
                octets += sent.end - sent.seq;
                ranges += u32::from(!above_sacked);
            } else if !sent.lost
                && (ranges >= threshold || octets > u64::from(threshold - 1) * segment_octets)
            {
                // A repetition isn't judged: only a timeout shows that it was lost.
                news |= !sent.repeated && self.mark_lost(index);
            }
            above_sacked = sent.sacked;
        }
        news
    }

    /// Asserts that the sums are those of the segments.
    #[cfg(test)]
    pub(super) fn check(&self, selective: bool) {
        let count =
            |of: fn(&Sent) -> bool| self.queue.iter().filter(|sent| of(sent)).count() as u32;
        assert_eq!(self.lost, count(|sent| sent.lost));
        assert_eq!(self.repeated, count(|sent| sent.repeated));
        if selective {
            assert_eq!(self.sacked, count(|sent| sent.sacked));
        }
        let mut last = None;
        for sent in &self.queue {
            assert!(sent.seq < sent.end && last.is_none_or(|last| last == sent.seq));
            last = Some(sent.end);
        }
    }
}
