//! The receiving side: octets put in order, the window, and what the other end is to be told.

use strait_core::time::{Duration, Instant};

use super::ring::Ring;
use super::segment::SackBlocks;

/// What became of a segment's octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The stream went on.
    InOrder,
    /// They wait for others.
    Waiting,
    /// Nothing new.
    Duplicate,
    /// No room, or too many gaps.
    Refused,
}

/// Octets received, in order and not.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// The sequence number of the other end's first octet.
    first: u64,
    /// The next sequence number expected.
    pub(super) next: u64,
    pub(super) ring: Ring,
    /// Octets in order that the application hasn't taken.
    unread: usize,
    /// Ranges beyond a gap, in order and apart from each other.
    waiting: Vec<(u64, u64)>,
    /// The ranges to tell of first: RFC 2018 section 4.
    recent: Vec<(u64, u64)>,
    /// A duplicate to tell of: RFC 2883.
    duplicate: Option<(u64, u64)>,
    /// Where the other end's stream ends.
    pub(super) fin: Option<u64>,
    /// The FIN is behind `next`.
    pub(super) ended: bool,
    /// The right edge of the widest window that was told; it never moves to the left.
    pub(super) edge: u64,
    /// `next` when the last acknowledgement was sent, and the window that it told.
    pub(super) acked: u64,
    told: u64,
    /// The buffer's present size in octets, and how far it may grow.
    pub(super) capacity: usize,
    pub(super) capacity_max: usize,
    /// The window isn't opened beyond this until full segments show that it is of use.
    pub(super) open: usize,
    pub(super) scale: u8,
    /// Octets of a full segment, as received.
    pub(super) segment_octets: usize,
    tuning: Tuning,
}

/// Growth of the buffer with what the application takes in a round trip.
#[derive(Debug, Default)]
struct Tuning {
    taken: u64,
    since: Option<Instant>,
    space: u64,
    rtt: Option<Duration>,
    /// When the window told at `rtt_from` is used up, a round trip is over.
    rtt_from: Option<(Instant, u64)>,
}

impl Receiver {
    /// Ranges that may wait; more gaps than this in one window come from no sane path.
    const RANGES_MAX: usize = 256;

    /// Begins at the sequence number after the other end's SYN. What an application takes in a
    /// round trip is believed to be `first_flight` octets, until it takes more.
    pub(super) fn start(&mut self, next: u64, window_initial: usize, first_flight: usize) {
        (self.first, self.next, self.acked) = (next, next, next);
        self.edge = next;
        self.open = window_initial;
        self.tuning.space = first_flight.min(window_initial) as u64;
    }

    /// Octets to read.
    pub(super) const fn unread(&self) -> usize {
        self.unread
    }

    /// Whether octets wait for others.
    pub(super) fn has_gap(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.unread);
        self.ring.peek(&mut into[..count]);
        self.ring.consume(count);
        self.unread -= count;
        self.tuning.taken += count as u64;
        count
    }

    /// Puts the octets at `seq` where they belong; those before `next` or behind the window are
    /// left out.
    pub(super) fn put(&mut self, seq: u64, data: &[u8]) -> Taken {
        let end = seq + data.len() as u64;
        if seq < self.next {
            self.duplicate = Some((seq, end.min(self.next)));
        }
        if end <= self.next {
            return Taken::Duplicate;
        }
        let from = seq.max(self.next);
        let to = end.min(self.edge.max(self.next));
        if from >= to {
            return Taken::Refused;
        }
        if from == self.next && self.waiting.is_empty() {
            self.store(from, &data[(from - seq) as usize..(to - seq) as usize]);
            self.advance(to);
            return Taken::InOrder;
        }
        self.put_beside_others(seq, from, to, data)
    }

    fn put_beside_others(&mut self, seq: u64, from: u64, to: u64, data: &[u8]) -> Taken {
        let first = self.waiting.partition_point(|range| range.1 < from);
        let touched = self.waiting[first..].partition_point(|range| range.0 <= to);
        let covering = self.waiting[first..first + touched].iter();
        let overlap = covering
            .clone()
            .map(|range| (range.0.max(from), range.1.min(to)))
            .find(|(start, end)| start < end);
        self.duplicate = self.duplicate.or(overlap);
        if covering
            .clone()
            .any(|range| range.0 <= from && to <= range.1)
        {
            return Taken::Duplicate;
        }
        if touched == 0 && from != self.next && self.waiting.len() >= Self::RANGES_MAX {
            return Taken::Refused;
        }
        let merged = covering.fold((from, to), |all, range| {
            (all.0.min(range.0), all.1.max(range.1))
        });
        self.store(from, &data[(from - seq) as usize..(to - seq) as usize]);
        if merged.0 == self.next {
            self.waiting.drain(first..first + touched);
            self.advance(merged.1);
            return Taken::InOrder;
        }
        self.waiting.splice(first..first + touched, [merged]);
        self.recent
            .retain(|range| range.1 < merged.0 || merged.1 < range.0);
        self.recent.insert(0, merged);
        self.recent.truncate(4);
        Taken::Waiting
    }

    fn store(&mut self, at: u64, data: &[u8]) {
        let offset = self.unread + (at - self.next) as usize;
        let used = self.unread + (self.highest() - self.next) as usize;
        self.ring.write(offset, data, used);
    }

    fn advance(&mut self, to: u64) {
        self.unread += (to - self.next) as usize;
        self.next = to;
        self.recent.retain(|range| range.1 > to);
    }

    /// Asserts the limits of reassembly, and that ranges are in order and apart.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.waiting.len() <= Self::RANGES_MAX && self.recent.len() <= 4);
        let mut last = self.next;
        for (start, end) in &self.waiting {
            assert!(last < *start && start < end);
            last = *end;
        }
        assert!(last <= self.edge.max(self.next));
    }

    /// The ranges to tell of, a duplicate first, at most so many.
    pub(super) fn sack_blocks(&mut self, most: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let duplicate = self.duplicate.take();
        for (start, end) in duplicate
            .into_iter()
            .chain(self.recent.iter().copied())
            .take(most)
        {
            blocks.push(start as u32, end as u32);
        }
        blocks
    }

    /// Whether there is a duplicate to tell of.
    pub(super) const fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    /// The number behind everything that came.
    pub(super) fn highest(&self) -> u64 {
        self.waiting.last().map_or(self.next, |range| range.1)
    }

    /// Octets of the stream before `seq`.
    pub(super) const fn position(&self, seq: u64) -> u64 {
        seq.saturating_sub(self.first)
    }

    /// Whether an acknowledgement with this window would say what the last one said.
    pub(super) const fn repeats(&self, window: u64) -> bool {
        self.acked == self.next && self.told == window
    }

    /// An acknowledgement with this window goes out.
    pub(super) fn tell(&mut self, window: u64) {
        self.edge = self.edge.max(self.next + window);
        (self.acked, self.told) = (self.next, window);
    }

    /// How many ranges there are to tell of.
    pub(super) fn sack_count(&self) -> usize {
        self.recent.len() + usize::from(self.duplicate.is_some())
    }

    /// Octets came again that were taken long ago.
    pub(super) const fn note_duplicate(&mut self, start: u64, end: u64) {
        self.duplicate = Some((start, end));
    }

    /// Forgets the duplicate to tell of.
    pub(super) const fn forget_duplicate(&mut self) {
        self.duplicate = None;
    }

    /// The window to tell, in octets: what there is room for, but none rather than a silly one
    /// (RFC 9293 section 3.8.6.2.2), and never less than was told before.
    pub(super) fn window(&self) -> u64 {
        let told = self.edge.saturating_sub(self.next);
        let granule = 1usize << self.scale;
        let segment = self.segment_octets.min(self.capacity).max(1);
        let free = self.capacity.saturating_sub(self.unread);
        let silly = free < self.capacity / 2 && (free < self.capacity >> 4 || free < segment);
        let open = if silly { 0 } else { free.min(self.open) };
        let rounded = if self.scale == 0 {
            // Whole segments, unless what was told is still within one of it.
            let told = told as usize;
            if told <= open && open < told + segment {
                told
            } else {
                open - open % segment
            }
        } else {
            open.next_multiple_of(granule)
        };
        (rounded as u64)
            .max(self.left_of(told))
            .min(65_535 << self.scale)
    }

    /// What is left of the window that was told, in whole units: rounded up, because on the wire
    /// its edge would move to the left else (RFC 7323 section 2.4), unless many segments smaller
    /// than sixteen units have let it grow beyond [`Self::octets_max`].
    const fn left_of(&self, told: u64) -> u64 {
        let granule = 1 << self.scale;
        let up = told.next_multiple_of(granule);
        if self.unread as u64 + up <= Self::octets_max(self.capacity, self.scale) {
            up
        } else {
            told - told % granule
        }
    }

    /// The most octets that a buffer of `capacity` may come to hold.
    pub(super) const fn octets_max(capacity: usize, scale: u8) -> u64 {
        capacity as u64 + (capacity as u64 >> 4) + (1 << scale)
    }

    /// Whether the application has taken so much that the other end should hear of it at once.
    pub(super) fn window_opened(&self) -> bool {
        let told = self.edge.saturating_sub(self.next);
        2 * told <= self.capacity as u64 && {
            let window = self.window();
            window > 0 && window >= 2 * told
        }
    }

    /// A full segment came in order: the window may open further.
    pub(super) fn grow_window(&mut self) {
        self.open = (self.open + 2 * self.segment_octets).min(self.capacity_max);
    }

    /// A round trip as the receiver can tell it: `rtt` from a timestamp, or else from when the
    /// window that was told is used up.
    pub(super) fn clock(&mut self, now: Instant, rtt: Option<Duration>) {
        let tuning = &mut self.tuning;
        let mut sample = rtt;
        match tuning.rtt_from {
            Some((since, end)) if self.next >= end => {
                sample = sample.or_else(|| Some(now.since(since)));
                tuning.rtt_from = Some((now, self.edge.max(self.next + 1)));
            }
            None => tuning.rtt_from = Some((now, self.edge.max(self.next + 1))),
            Some(_) => {}
        }
        if let Some(sample) = sample {
            tuning.rtt = Some(match tuning.rtt {
                Some(old) if rtt.is_some() => old - old / 8 + sample / 8,
                Some(old) => old.min(sample),
                None => sample,
            });
        }
    }

    /// Grows the buffer if the application took more in a round trip than in any before, leaving
    /// out what it hasn't taken yet. Kernel: `tcp_rcv_space_adjust` of Linux 6.18.
    pub(super) fn tune(&mut self, now: Instant) {
        let tuning = &mut self.tuning;
        let Some(rtt) = tuning.rtt else { return };
        // The first octets that are taken only begin the measurement.
        let whole = tuning.since.map(|since| now.since(since) >= rtt);
        if whole == Some(false) {
            return;
        }
        let taken = std::mem::take(&mut tuning.taken).saturating_sub(self.unread as u64);
        tuning.since = Some(now);
        if whole.is_some() && taken > tuning.space {
            let before = std::mem::replace(&mut tuning.space, taken).max(1);
            self.grow_buffer(4 * taken * (taken - before) / before);
        }
    }

    /// Room for twice what the application takes in a round trip, as what comes doubles, for `more`
    /// octets, and for what lies behind a gap. Kernel: `tcp_rcvbuf_grow`.
    pub(super) fn grow_buffer(&mut self, more: u64) {
        let behind_gap = self.highest() - self.next;
        let wanted = 2 * self.tuning.space + more + behind_gap;
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        self.capacity = self.capacity.max(wanted.min(self.capacity_max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(capacity: usize) -> Receiver {
        let mut receiver = Receiver {
            capacity,
            capacity_max: capacity,
            segment_octets: 10,
            ..Receiver::default()
        };
        receiver.start(1000, capacity, capacity);
        receiver.edge = 1000 + capacity as u64;
        receiver
    }

    #[test]
    fn the_windows_edge_never_moves_to_the_left_nor_far_beyond_the_buffer() {
        for octets in [1, 7, 31, 536, 1448] {
            let mut receiver = receiver(64_000);
            receiver.scale = 5;
            for _ in 0..70_000 {
                receiver.put(receiver.next, &vec![0; octets]);
                let window = receiver.window();
                assert_eq!(window % 32, 0);
                let edge = receiver.next + window;
                // Many tiny segments let it grow to a limit, where it moves by less than a unit.
                let least = receiver.edge - if octets < 512 { 31 } else { 0 };
                assert!(edge >= least, "{octets}: {edge} {}", receiver.edge);
                assert!(receiver.unread() as u64 + window <= 64_000 + 4_000 + 32);
                receiver.tell(window);
            }
        }
    }

    #[test]
    fn octets_come_out_in_order_and_gaps_are_told_newest_first() {
        let mut receiver = receiver(100);
        let stream: Vec<u8> = (0..100).collect();
        let mut put = |from: usize, to: usize| {
            let taken = receiver.put(1000 + from as u64, &stream[from..to]);
            (taken, receiver.sack_blocks(4).as_slice().to_vec())
        };
        assert_eq!(put(10, 20), (Taken::Waiting, vec![(1010, 1020)]));
        assert_eq!(
            put(30, 40),
            (Taken::Waiting, vec![(1030, 1040), (1010, 1020)])
        );
        assert_eq!(put(12, 14).1[0], (1012, 1014), "a duplicate is told");
        assert_eq!(
            put(18, 25),
            (
                Taken::Waiting,
                vec![(1018, 1020), (1010, 1025), (1030, 1040)]
            )
        );
        assert_eq!(
            put(0, 12),
            (Taken::InOrder, vec![(1010, 1012), (1030, 1040)])
        );
        assert_eq!(
            put(5, 25),
            (Taken::Duplicate, vec![(1005, 1025), (1030, 1040)])
        );
        assert_eq!(put(20, 100), (Taken::InOrder, vec![(1020, 1025)]));
        assert_eq!(
            receiver.put(1100, b"x"),
            Taken::Refused,
            "behind the window"
        );
        let mut out = [0; 200];
        assert_eq!(receiver.take(&mut out), 100);
        assert_eq!(out[..100], stream);
    }

    #[test]
    fn the_window_is_silly_never_and_shrinks_never() {
        let mut receiver = receiver(100);
        receiver.put(1000, &[0; 95]);
        assert_eq!(receiver.window(), 5, "what was told stays");
        receiver.put(1095, &[0; 5]);
        assert_eq!(receiver.window(), 0);
        let mut out = [0; 9];
        receiver.take(&mut out);
        assert_eq!(receiver.window(), 0, "below a segment");
        receiver.take(&mut out[..1]);
        assert_eq!((receiver.window(), receiver.window_opened()), (10, true));
    }

    #[test]
    fn a_steady_sender_below_the_first_window_gets_a_larger_one() {
        let rtt = Duration::from_millis(560);
        let mut receiver = receiver(65_535);
        receiver.capacity_max = 1 << 20;
        receiver.start(1000, 65_535, 14_600);
        receiver.clock(Instant::ZERO, Some(rtt));
        for round in 1..4 {
            let octets = vec![0; 60_000];
            receiver.edge = receiver.next + 60_000;
            assert_eq!(receiver.put(receiver.next, &octets), Taken::InOrder);
            receiver.take(&mut vec![0; 60_000]);
            receiver.tune(Instant::ZERO + rtt * round);
            assert_eq!(receiver.capacity > 65_535, round > 1);
        }
        // Twice what it takes, and twice as much again for the growth that it saw.
        assert_eq!(
            receiver.capacity,
            120_000 + 4 * 60_000 * (60_000 - 14_600) / 14_600
        );
    }

    #[test]
    fn what_waits_behind_a_gap_has_room_beside_the_rest() {
        let mut receiver = receiver(65_535);
        receiver.capacity_max = 1 << 20;
        receiver.edge = receiver.next + 65_535;
        receiver.put(receiver.next + 60_000, &[0; 1000]);
        receiver.grow_buffer(0);
        assert_eq!(receiver.capacity, 2 * 65_535 + 61_000);
    }

    #[test]
    fn gaps_have_a_limit() {
        let mut receiver = receiver(10_000);
        for gap in 0..Receiver::RANGES_MAX as u64 {
            assert_eq!(receiver.put(1001 + 2 * gap, b"x"), Taken::Waiting);
        }
        assert_eq!(receiver.put(9001, b"x"), Taken::Refused);
        assert_eq!(receiver.put(1002, b"x"), Taken::Waiting);
        assert_eq!(receiver.put(1000, b"x"), Taken::InOrder);
        assert_eq!(receiver.next, 1004);
    }
}
