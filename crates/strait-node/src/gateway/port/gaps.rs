//! On frames, which can't be suspended, other packets are cut into the gaps between those of calls.

use strait_core::fate::Ledger;
use strait_core::{Duration, Instant, NeighbourId};
use strait_link::FrameSender;
use strait_qos::{Head, Scheduler};
use strait_wire::segment::HEADER_OCTETS;

use super::frames::Frames;
use super::queue::{Open, Queue};

/// Octets of a frame around a piece of a packet, at most.
const AROUND: usize = FrameSender::ROOM_MIN - 1;

/// The piece that goes while a call's packet is due at a time not known to the millisecond: 32
/// octets of another with a header and the check of 2 octets that pieces have. The packet waits for
/// no more than that.
const LEAST: usize = HEADER_OCTETS + 2 + 32;

/// The shortest frame that is worth its price at the end of a gap: 8 octets of a packet. The line
/// rests in a gap that takes none.
const WORTH: usize = AROUND + 8;

/// The limit of a segment's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// No call.
    Free,
    /// The moment at which a call's packet is expected.
    Gap,
    /// That one is due.
    Least,
}

impl Fit {
    /// Counts a segment after which something of its packet is left.
    pub(super) fn count(self, queue: &Queue, ledger: &mut Ledger) {
        let gaps = &mut queue.stats(ledger).flows.gaps;
        match self {
            Self::Free => {}
            Self::Gap => gaps.fitted += 1,
            Self::Least => gaps.least += 1,
        }
    }
}

impl Frames {
    /// How long a frame may be that begins at `starts` with a piece of a conventional packet, at
    /// most `octets_max`; `None` while the line rests.
    ///
    /// It ends before the next call's packet is expected, and leaves no gap that is too short to be
    /// used.
    pub(super) fn fit(
        &self,
        queue: &Queue,
        starts: Instant,
        to: NeighbourId,
        octets_max: usize,
    ) -> Option<(usize, Fit)> {
        let path = queue.paths.to(to);
        if path.rests_until.is_some_and(|until| starts < until) {
            return None;
        }
        let Some(flows) = path.flows.as_ref().filter(|_| queue.calls.foresees) else {
            return Some((octets_max, Fit::Free));
        };
        let most = octets_max.min(self.sender(to)?.segment_octets_max());
        let Some((from, _)) = flows.expected(starts) else {
            return Some((most, Fit::Free));
        };
        let gap = queue.rate_to(to).octets_in(from.since(starts));
        let gap = usize::try_from(gap).unwrap_or(usize::MAX);
        Some(if gap < WORTH {
            (LEAST.min(most), Fit::Least)
        } else if gap <= most {
            (gap, Fit::Gap)
        } else if gap < most + LEAST {
            (gap.saturating_sub(LEAST).max(LEAST).min(most), Fit::Gap)
        } else {
            (most, Fit::Free)
        })
    }

    /// Plans the line from `at` on: if a call's packet is due before a useful piece could leave,
    /// and its moment is well known, the line rests for it.
    pub(super) fn plan_rest(
        &self,
        queue: &mut Queue,
        at: Instant,
        to: NeighbourId,
        ledger: &mut Ledger,
    ) {
        let waits = |head: Head| !queue.goes_whole(head);
        let path = queue.paths.to(to);
        let has_calls = path.flows.as_ref().is_some_and(|flows| flows.has_calls());
        let foresees = queue.calls.foresees && has_calls;
        if !(foresees && path.queue.head(&Open(queue, self)).is_some_and(waits)) {
            queue.paths.to_mut(to).rests_until = None;
            return;
        }
        let expected = path.flows.as_ref().and_then(|flows| flows.expected(at));
        let worth = queue.rate_to(to).time_for(WORTH as u64);
        let rest =
            expected.filter(|(from, until)| from.since(at) < worth && until.since(*from) < worth);
        let until = rest.map(|(_, until)| until + Duration::from_nanos(1));
        if until.is_some() && until != path.rests_until {
            queue.stats(ledger).flows.gaps.rests += 1;
        }
        queue.paths.to_mut(to).rests_until = until;
    }
}
