//! What the flows that leave by a port mean for it: on frames, which can't be suspended, other
//! packets are cut into the gaps between those of calls.

use alloc::vec::Vec;

use strait_core::fate::Ledger;
use strait_core::flow::Flow;
use strait_core::rate::LineRate;
use strait_core::{ClassId, Duration, Instant, NeighbourId, Packet};
use strait_link::FrameSender;
use strait_qos::{Head, Scheduler};
use strait_wire::segment::{HEADER_OCTETS, STREAMS};

use super::{Link, Port};
use crate::config::Refuse;
use crate::flows::{Pass, Terms, keeps_pace, may_be_call};

/// Octets of a frame around a piece of a packet, at most.
const AROUND: usize = FrameSender::ROOM_MIN - 1;

/// What goes while a call's packet is due, and it isn't known when to the millisecond: 32 octets of
/// another with a header and the check of 2 octets that pieces have. The packet waits for no more
/// than that.
const LEAST: usize = HEADER_OCTETS + 2 + 32;

/// The shortest frame that is worth its price at the end of a gap: 8 octets of a packet. The line
/// rests in a gap that takes none.
const WORTH: usize = AROUND + 8;

/// What the policy says of a packet's call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// What it needs on the line in bit/s, if a rule says so.
    pub(crate) bit_s: Option<u64>,
    /// The class that it gets if its flow behaves like a call; `None` if a rule has decided.
    pub(crate) observed: Option<ClassId>,
}

/// What limits the length of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// No call.
    Free,
    /// The moment at which a call's packet is expected.
    Gap,
    /// That one is due.
    Least,
}

impl Port {
    /// Takes note of the flow of a packet that is about to be queued, and says whether it may be:
    /// not if its call can't be carried beside others.
    pub(crate) fn admits(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        told: Told,
        ledger: &mut Ledger,
    ) -> bool {
        let first = self.is_first(packet.class.index()) && keeps_pace(packet.info());
        let observed = told.observed.filter(|class| {
            let may = self.observes && may_be_call(packet.info());
            may && self.is_in_time(*class, packet.to)
        });
        let rates = (self.way_rate(packet.to), self.rate_to(packet.to));
        let flows = &mut self.paths.to_mut(packet.to).flows;
        let Some(flows) = flows else {
            return true;
        };
        let stats = &mut ledger.stats_mut().ports[self.id.index()].flows;
        let behind = self.behind.filter(|_| first && self.foresees);
        if behind.is_none() && observed.is_none() {
            if self.foresees {
                flows.see(now, packet, stats);
            }
            return true;
        }
        let admission = &self.admission;
        let terms = Terms::new(admission, rates.0, self.compresses).towards(rates.1);
        let Some(behind) = behind else {
            let Some(class) = observed else { return true };
            let plain = packet.class;
            if flows.observe(now, packet, class, &terms, stats)
                && self.foresees
                && self.classes[class.index()].whole
                && flows.admit(now, packet, None, &terms, stats) != Pass::First
                && admission.enabled
            {
                packet.class = plain;
            }
            return true;
        };
        match flows.admit(now, packet, told.bit_s, &terms, stats) {
            _ if !admission.enabled => true,
            Pass::First => true,
            Pass::Behind => {
                packet.class = behind;
                true
            }
            Pass::Refused => false,
        }
    }

    /// Whether a packet of the class that waits for one longest piece of others isn't too old then:
    /// who didn't ask for an early end wants it late rather than never.
    fn is_in_time(&mut self, class: ClassId, to: NeighbourId) -> bool {
        let rate = self.rate_to(to);
        let longest = self.longest(rate);
        let age = self.classes[class.index()].age;
        age.is_none_or(|age| rate.time_for(longest as u64) * 2 <= age)
    }

    /// Octets of the longest piece of a packet at this rate.
    fn longest(&mut self, rate: LineRate) -> usize {
        if let Link::Hops(_) = self.link {
            return self.mtu;
        }
        let asked = self.longest.filter(|(asked, _)| *asked == rate);
        let (_, octets) = asked.unwrap_or_else(|| {
            let settings = self.config().map(|it| it.link_settings(Some(rate)));
            (rate, settings.map_or(0, |it| it.segment_octets_max))
        });
        self.longest = Some((rate, octets));
        octets
    }

    /// Whether callers are told that their call can't be carried.
    pub(crate) fn tells_callers(&self) -> bool {
        self.admission.refuse == Refuse::Icmp
    }

    /// The flows that leave here.
    pub(crate) fn flows(&self) -> Vec<Flow> {
        let flows = self.paths.iter().filter_map(|path| path.flows.as_ref());
        let rows = flows.flat_map(|flows| flows.rows(self.id));
        rows.collect()
    }

    /// Whether the class has the first rank.
    fn is_first(&self, class: usize) -> bool {
        self.classes.get(class).is_some_and(|class| class.whole)
    }

    /// Whether the head packet goes in one piece.
    pub(super) fn goes_whole(&self, head: Head) -> bool {
        self.is_first(head.class.index())
    }

    /// The stream whose contexts compress a packet that leaves on `stream`: those of its call, also
    /// while it goes behind others, so that a call has one context.
    pub(super) fn context_stream(&self, packet: &Packet, stream: usize) -> usize {
        let flows = self.paths.to(packet.to).flows.as_ref();
        let class = flows.and_then(|flows| flows.call_class(packet));
        let class = class.and_then(|class| self.classes.get(class.index()));
        class.map_or(stream, |class| class.stream)
    }

    /// The streams, a bit each, whose contexts belong to packets to `to` that are half sent.
    pub(super) fn half_sent(&self, to: NeighbourId) -> u32 {
        let halves = (0..STREAMS).filter_map(|stream| {
            let packet = self.link.under_way(to, stream)?;
            Some(1 << stream | 1 << self.context_stream(packet, stream))
        });
        halves.fold(0, |all, half| all | half)
    }

    /// How long a frame may be that begins at `starts` with a piece of a conventional packet, at
    /// most `octets_max`; `None` while the line rests.
    ///
    /// It ends before the next call's packet is expected, and leaves no gap that is too short to be
    /// used.
    pub(super) fn fit(
        &self,
        starts: Instant,
        to: NeighbourId,
        octets_max: usize,
    ) -> Option<(usize, Fit)> {
        let path = self.paths.to(to);
        if path.rests_until.is_some_and(|until| starts < until) {
            return None;
        }
        let (Some(flows), Link::Frames { neighbours, .. }) = (&path.flows, &self.link) else {
            return Some((octets_max, Fit::Free));
        };
        let (sender, _) = neighbours.get(to.index())?;
        let most = octets_max.min(sender.segment_octets_max());
        let Some((from, _)) = flows.expected(starts) else {
            return Some((most, Fit::Free));
        };
        let gap = self.rate_to(to).octets_in(from.since(starts));
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

    /// Counts a segment after which something of its packet is left.
    pub(super) fn count_fit(&self, fit: Fit, ledger: &mut Ledger) {
        let gaps = &mut ledger.stats_mut().ports[self.id.index()].flows.gaps;
        match fit {
            Fit::Free => {}
            Fit::Gap => gaps.fitted += 1,
            Fit::Least => gaps.least += 1,
        }
    }

    /// Plans what becomes of the line from `at` on: where a call's packet is due before anything
    /// useful could leave, and its moment is well known, the line rests for it.
    pub(super) fn plan_rest(&mut self, at: Instant, to: NeighbourId, ledger: &mut Ledger) {
        let waits = |head: Head| !self.goes_whole(head);
        let path = self.paths.to(to);
        if !path.flows.as_ref().is_some_and(|flows| flows.has_calls())
            || !matches!(self.link, Link::Frames { .. })
            || !path.queue.head(self).is_some_and(waits)
        {
            self.paths.to_mut(to).rests_until = None;
            return;
        }
        let expected = path.flows.as_ref().and_then(|flows| flows.expected(at));
        let worth = self.rate_to(to).time_for(WORTH as u64);
        let rest =
            expected.filter(|(from, until)| from.since(at) < worth && until.since(*from) < worth);
        let until = rest.map(|(_, until)| until + Duration::from_nanos(1));
        if until.is_some() && until != path.rests_until {
            let stats = &mut ledger.stats_mut().ports[self.id.index()];
            stats.flows.gaps.rests += 1;
        }
        self.paths.to_mut(to).rests_until = until;
    }
}
