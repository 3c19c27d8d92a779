//! Decisions of the IP client of STANAG 5066 (Annex F.12), with the port's own node or another:
//! which packets are repeated, how often others are sent, and when a queue is given up as a whole.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use strait_core::stats::PRIORITIES;
use strait_core::{ClassId, Instant, NeighbourId, Packet};
use strait_qos::Policy;
use strait_s5066::{Waiting, s_pdu};

use crate::config::{GiveUpConfig, HfOrder, IpRules};

#[derive(Debug)]
pub(super) struct IpClient {
    /// By class: repeated until it has come.
    arq: Vec<bool>,
    /// By neighbour: it is a group. A group can't acknowledge.
    groups: Vec<bool>,
    /// When all that waits for a neighbour is given up at once: above so many octets, when a packet
    /// has waited too long, and when its link is lost.
    give_up: Option<GiveUpConfig>,
    /// Packets are to be delivered in order.
    pub(super) in_order: bool,
    /// Times that a packet goes that isn't repeated.
    copies: u32,
    /// By neighbour: octets, as C_PDUs have them, and packets in the queue.
    waiting: Vec<Waiting>,
    /// By neighbour: when the packets in the queue arrived, if their age counts.
    came: Vec<BTreeMap<Instant, usize>>,
    /// The same of those that the station has until they have come.
    handed: Vec<BTreeMap<Instant, usize>>,
    /// By priority: packets in the queue.
    pub(super) queued: [u64; PRIORITIES],
}

impl IpClient {
    pub(super) fn new(rules: IpRules<'_>, policy: &Policy, groups: Vec<bool>) -> Self {
        let classes = policy.classes().iter();
        let repeated = |name: &str| rules.without_arq.iter().all(|it| it != name);
        Self {
            arq: classes.map(|class| repeated(&class.name)).collect(),
            waiting: alloc::vec![Waiting::default(); groups.len()],
            came: alloc::vec![BTreeMap::new(); groups.len()],
            handed: alloc::vec![BTreeMap::new(); groups.len()],
            groups,
            give_up: rules.give_up.cloned(),
            in_order: rules.order == HfOrder::Sent,
            copies: rules.copies,
            queued: [0; PRIORITIES],
        }
    }

    pub(super) fn neighbours(&self) -> usize {
        self.groups.len()
    }

    /// Whether packets of a class are repeated until they have come.
    pub(super) fn repeats(&self, to: NeighbourId, class: ClassId) -> bool {
        let group = self.groups.get(to.index()).is_some_and(|group| *group);
        !group && self.arq.get(class.index()).is_none_or(|arq| *arq)
    }

    /// Times that a packet of a class is sent without a request.
    pub(super) fn copies(&self, to: NeighbourId, class: ClassId) -> u32 {
        match self.repeats(to, class) {
            true => 1,
            false => self.copies,
        }
    }

    /// Counts a packet that enters the queue (1) or leaves it (-1).
    pub(super) fn count(&mut self, packet: &Packet, packets: isize) {
        let copies = self.copies(packet.to, packet.class) as usize;
        if let Some(Waiting { octets, count }) = self.waiting.get_mut(packet.to.index()) {
            let around = s_pdu::around_octets(packet.bytes());
            let own = packets * (copies * (packet.octets() + around)) as isize;
            *octets = octets.saturating_add_signed(own);
            *count = count.saturating_add_signed(packets);
        }
        if self.age_limit().is_some() {
            count_age(&mut self.came, packet, packets);
        }
        let priority = s_pdu::priority(packet.info().dscp);
        let queued = &mut self.queued[usize::from(priority)];
        *queued = queued.saturating_add_signed(packets as i64);
    }

    /// Counts a packet that the station gets (1), and that it is done with (-1).
    pub(super) fn count_handed(&mut self, packet: &Packet, packets: isize) {
        if self.age_limit().is_some() && self.repeats(packet.to, packet.class) {
            count_age(&mut self.handed, packet, packets);
        }
    }

    /// The station has nothing any more.
    pub(super) fn forget_handed(&mut self) {
        self.handed.iter_mut().for_each(BTreeMap::clear);
    }

    fn age_limit(&self) -> Option<Duration> {
        Some(self.give_up.as_ref()?.age?.0)
    }

    /// Whether a packet makes the whole queue too old to be of use.
    pub(super) fn is_too_old(&self, now: Instant, packet: &Packet) -> bool {
        let limit = self.age_limit();
        limit.is_some_and(|limit| packet.began() + limit <= now)
    }

    /// When the queue for a neighbour becomes too old to be of use, and whose it is.
    pub(super) fn expires(&self) -> Option<(Instant, NeighbourId)> {
        self.first(&self.came, |_| true)
    }

    /// The neighbour whose whole queue is too old to be of use by now.
    pub(super) fn too_old(&self, now: Instant) -> Option<NeighbourId> {
        let (at, to) = self.expires()?;
        (at <= now).then_some(to)
    }

    /// When the station's data becomes so, for neighbours that are `such`.
    pub(super) fn handed_expires(
        &self,
        such: impl Fn(usize) -> bool,
    ) -> Option<(Instant, NeighbourId)> {
        self.first(&self.handed, such)
    }

    fn first(
        &self,
        queues: &[BTreeMap<Instant, usize>],
        such: impl Fn(usize) -> bool,
    ) -> Option<(Instant, NeighbourId)> {
        let limit = self.age_limit()?;
        let queues = queues.iter().enumerate().filter(|(to, _)| such(*to));
        let oldest = queues.filter_map(|(to, came)| Some((*came.first_key_value()?.0, to)));
        let (came, to) = oldest.min()?;
        Some((came + limit, NeighbourId(to as u16)))
    }

    /// The waiting data for a neighbour: octets and packets.
    pub(super) fn waiting(&self, to: usize) -> Waiting {
        self.waiting.get(to).copied().unwrap_or_default()
    }

    /// All waiting packets.
    pub(super) fn all_waiting(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.count).sum()
    }

    /// Whether a packet more makes the queue for its neighbour too long to be of use.
    pub(super) fn overflows(&self, packet: &Packet) -> bool {
        let limit = self.give_up.as_ref().and_then(|it| it.octets);
        let waiting = self.waiting(packet.to.index()).octets + packet.octets();
        limit.is_some_and(|limit| waiting as u64 > limit.0)
    }

    /// Whether a queue goes with its neighbour's link.
    pub(super) fn gives_up_lost_links(&self) -> bool {
        self.give_up.as_ref().is_some_and(|it| it.lost_link)
    }
}

/// Counts a packet among those that arrived at its time.
fn count_age(queues: &mut [BTreeMap<Instant, usize>], packet: &Packet, packets: isize) {
    let Some(queue) = queues.get_mut(packet.to.index()) else {
        return;
    };
    let same = queue.entry(packet.began()).or_default();
    *same = same.saturating_add_signed(packets);
    if *same == 0 {
        queue.remove(&packet.began());
    }
}
