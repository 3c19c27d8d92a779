//! Calls that nobody has marked.
//!
//! Most telephones, radios over IP and their gateways don't set a code point. What no rule of the
//! policy matches and keeps a call's pace with a call's packets is treated as a call, while all of
//! it together takes no more than a share of the line: a flow that only looks like one can't starve
//! others.

use strait_core::flow::FlowKey;
use strait_core::stats::FlowStats;
use strait_core::{ClassId, Duration, Instant, Packet};
use strait_wire::ip::{PacketInfo, protocol};

use super::{CALL_OCTETS_MAX, Entry, Flows, Terms};

/// Periods of speech coders, and of several of their frames in one packet.
const PERIOD: core::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_millis(250);

/// How long a flow has to keep its pace before it is believed.
const BELIEVED: Duration = Duration::from_secs(2);

/// One in so many of the line's octets is for all observed calls together, and for one that is
/// alone.
const SHARE: (u64, u64) = (3, 2);

/// A flow that found no room asks again after this.
const PAUSE: Duration = Duration::from_secs(2);

/// How much more than when it began a call may need before that is asked again.
const GROWTH: (u64, u64) = (5, 4);

/// Whether a flow that nobody marked is treated as a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Observed {
    /// It isn't.
    No,
    /// It isn't, as there was no room for it then.
    NoRoom(Instant),
    /// It is, and takes so many octets each second of the line.
    Call(u64),
}

impl Observed {
    pub(super) const fn is_call(self) -> bool {
        matches!(self, Self::Call(_))
    }
}

/// Whether a packet may be of a call, as far as it tells by itself.
pub(crate) const fn may_be_call(info: &PacketInfo) -> bool {
    matches!(info.protocol, protocol::UDP | protocol::ESP) && info.octets <= CALL_OCTETS_MAX
}

impl Entry {
    /// Octets each second that the flow takes of the line in packets of `octets`, if it behaves
    /// like a call.
    fn call_octets_s(&self, octets: impl FnOnce() -> u32) -> Option<u64> {
        let period = self.pace.period()?;
        let believed = self.observed.is_call() || self.pace.kept_for() >= BELIEVED;
        let is_call = believed && PERIOD.contains(&period);
        is_call.then(|| (u128::from(octets()) * 1_000_000_000 / period.as_nanos()) as u64)
    }
}

impl Flows {
    /// Takes note of a packet that no rule matches and [that may be of a call](may_be_call). If its
    /// flow behaves like one and there is room for it, the packet gets `class`.
    pub(crate) fn observe(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        class: ClassId,
        terms: &Terms,
        stats: &mut FlowStats,
    ) -> bool {
        if !self.see(now, packet, stats) {
            return false;
        }
        let Some(entry) = self.others.newest() else {
            return false;
        };
        let before = entry.observed;
        let needs = entry.call_octets_s(|| terms.octets(packet));
        let after = match (needs.map(|it| terms.on_line(it)), before) {
            (None, _) => Observed::No,
            (Some(needs), Observed::Call(has)) if needs * GROWTH.1 <= has * GROWTH.0 => before,
            (Some(_), Observed::NoRoom(since)) if now.since(since) < PAUSE => before,
            (Some(needs), _) if self.has_room(now, packet, needs, terms) => Observed::Call(needs),
            (Some(_), _) => Observed::NoRoom(now),
        };
        if let Some(entry) = self.others.newest() {
            entry.observed = after;
            if after.is_call() {
                entry.class = class;
                packet.class = class;
            }
        }
        after.is_call()
    }

    /// Whether one more observed call that needs so much goes into the line's share for them.
    fn has_room(&self, now: Instant, packet: &Packet, needs: u64, terms: &Terms) -> bool {
        let own = FlowKey::of(packet.info());
        let others = self
            .others
            .iter()
            .filter(|(other, entry)| **other != own && now.since(entry.seen) < terms.hold());
        let taken: u64 = others
            .filter_map(|(_, entry)| match entry.observed {
                Observed::Call(octets_s) => Some(octets_s),
                Observed::No | Observed::NoRoom(_) => None,
            })
            .fold(0, u64::saturating_add);
        let share = if taken == 0 { SHARE.1 } else { SHARE.0 };
        taken.saturating_add(needs).saturating_mul(share) <= terms.line_octets_s()
    }
}
