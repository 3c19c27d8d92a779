//! The flows that leave by a port: which calls its line takes, and which traffic is expected with
//! them.

use alloc::vec::Vec;

use strait_core::fate::{Ledger, Origin};
use strait_core::flow::Flow;
use strait_core::{ClassId, Instant, NeighbourId, Packet};
use strait_qos::{Class, Head, Policy};

use super::airtime::{Airtime, LINKS};
use super::link::Link;
use super::queue::Queue;
use crate::config::{AdmissionConfig, Compression, LinkProfile, PortConfig, Refuse};
use crate::flows::{Pass, Terms, keeps_pace, may_be_call};

/// The policy's verdict on a packet's call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// Its necessary rate on the line in bit/s, if a rule has one.
    pub(crate) bit_s: Option<u64>,
    /// The class that it gets if its flow behaves like a call; `None` if a rule has decided.
    pub(crate) observed: Option<ClassId>,
}

/// Which calls a port's line takes.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Calls {
    /// The best class behind the first rank, if there is one: the first rank is then real-time.
    behind: Option<ClassId>,
    /// The profile leaves gaps for the packets of calls.
    pub(super) foresees: bool,
    /// Calls are admitted by the air that they take of a channel that stations share.
    shares: bool,
    /// Unmarked calls are looked for.
    observes: bool,
    admission: AdmissionConfig,
    compresses: bool,
    /// Octets whose time is added to a class's age.
    uncut_octets: usize,
}

impl Calls {
    pub(super) fn new(config: &PortConfig, policy: &Policy) -> Self {
        Self {
            behind: behind(policy.classes()),
            foresees: config.profile == LinkProfile::Adapter,
            shares: config.admission.is_some() && config.shares_air(),
            observes: config.observes_calls(),
            admission: config.admission.clone().unwrap_or_default(),
            compresses: config.compression != Compression::None,
            uncut_octets: config.uncut_octets(),
        }
    }

    /// Whether flows are separated.
    pub(super) fn tells_flows(&self, policy: &Policy) -> bool {
        self.foresees || self.shares || policy.observed().is_some() && self.observes
    }

    /// Whether callers are informed that their call can't be carried.
    pub(in crate::gateway) fn tells_callers(&self) -> bool {
        self.admission.refuse == Refuse::Icmp
    }
}

/// The class whose packets go right behind those of the first rank.
fn behind(classes: &[Class]) -> Option<ClassId> {
    let classes = classes.iter().enumerate();
    let others = classes.filter(|(_, class)| class.rank > 0);
    let best = others.min_by_key(|(_, class)| class.rank);
    best.map(|(index, _)| ClassId(index as u8))
}

impl Queue {
    /// Notes the flow of a packet that is about to be queued, and says whether it may be: not if
    /// its call can't be carried beside others.
    pub(super) fn admits<L: Link + ?Sized>(
        &mut self,
        link: &mut L,
        now: Instant,
        packet: &mut Packet,
        (told, air): (Told, f64),
        ledger: &mut Ledger,
    ) -> bool {
        let first = self.is_first(packet.class.index()) && keeps_pace(packet.info());
        let observed = told.observed.filter(|class| {
            let may = self.calls.observes && may_be_call(packet.info());
            may && self.is_in_time(link, *class, packet.to)
        });
        let rates = (self.way_rate(packet.to), self.rate_to(packet.to));
        let flows = &mut self.paths.to_mut(packet.to).flows;
        let Some(flows) = flows else {
            return true;
        };
        let stats = &mut ledger.stats_mut().ports[self.id.index()].flows;
        let calls = &self.calls;
        let admits = calls.foresees || calls.shares;
        let behind = calls.behind.filter(|_| first && admits);
        if behind.is_none() && observed.is_none() {
            if calls.foresees {
                flows.see(now, packet, stats);
            }
            return true;
        }
        let admission = &calls.admission;
        let terms = Terms::new(admission, rates.0, calls.compresses);
        let terms = terms.towards(rates.1).in_air(air);
        let Some(behind) = behind else {
            let Some(class) = observed else { return true };
            let plain = packet.class;
            if flows.observe(now, packet, class, &terms, stats)
                && calls.foresees
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

    /// How many times the time that its octets take at the line's rate a packet takes of the air
    /// that this station shares: each link of its way by which this one can't send meanwhile, with
    /// all that the medium needs beside the octets.
    pub(super) fn air(&self, packet: &Packet, airtime: Option<&Airtime>) -> f64 {
        let Some(airtime) = airtime.filter(|_| self.calls.shares) else {
            return 1.0;
        };
        let octets = packet.octets() as u64;
        let plain = self.way_rate(packet.to).time_for(octets);
        let whole = airtime.least(packet.to, octets).unwrap_or(plain).max(plain);
        let came = u32::from(packet.origin() == Origin::Port(self.id));
        let links = 1 + came + u32::from(packet.onward).min(LINKS);
        whole.as_secs_f64() / plain.as_secs_f64().max(1e-9) * f64::from(links)
    }

    /// Whether a packet of the class that waits for one longest piece of others isn't too old then:
    /// without a requested early end, late is better than never.
    fn is_in_time<L: Link + ?Sized>(&self, link: &mut L, class: ClassId, to: NeighbourId) -> bool {
        let rate = self.rate_to(to);
        let longest = link.longest_piece(self, rate);
        let uncut = rate.time_for(self.calls.uncut_octets as u64);
        let age = self.classes[class.index()].age;
        age.is_none_or(|age| rate.time_for(longest as u64) * 2 <= age + uncut)
    }

    /// The flows that leave here.
    pub(in crate::gateway) fn flows(&self) -> Vec<Flow> {
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
}
