//! What waits in one class.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::{ClassId, DropCause, Duration, Fate, Instant, NeighbourId, Packet};
use strait_wire::hash::hash64;
use strait_wire::ip::PacketInfo;

use crate::policy::Class;
use crate::repeat::is_repeated;
use crate::scheduler::{Eligibility, FLOWS_MAX, Head, Queued, Refusal};

/// A queue for each neighbour that has packets here, or for each flow to a neighbour if the class
/// shares fairly; the next to be served in front.
#[derive(Debug)]
pub(crate) struct Leaf {
    packets_max: u32,
    octets_max: u64,
    age: Option<Duration>,
    fair: bool,
    absorbs_repeats: bool,
    flows: VecDeque<Flow>,
    /// Emptied queues, kept so that coming and going flows don't allocate.
    spare: Vec<VecDeque<Packet>>,
    queued: Queued,
    under_way: Option<(NeighbourId, u32)>,
}

/// What has a queue of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowKey {
    to: NeighbourId,
    /// Which of the flows to that neighbour; 0 if they aren't told apart.
    bucket: u16,
}

impl FlowKey {
    /// Flows told apart; others share a queue with one of them by chance.
    const BUCKETS: u64 = 64;

    fn of(packet: &Packet, fair: bool) -> Self {
        let bucket = if fair {
            (flow_hash(packet.info()) % Self::BUCKETS) as u16
        } else {
            0
        };
        Self {
            to: packet.to,
            bucket,
        }
    }
}

/// A number that is equal for the packets of one conversation in one direction.
fn flow_hash(info: &PacketInfo) -> u64 {
    let mut words = [0u8; 42];
    let put = |words: &mut [u8], address: IpAddr| match address {
        IpAddr::V4(address) => words[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => words.copy_from_slice(&address.octets()),
    };
    put(&mut words[..16], info.src);
    put(&mut words[16..32], info.dst);
    let (source, destination) = info.ports.unwrap_or_default();
    words[32..34].copy_from_slice(&source.to_le_bytes());
    words[34..36].copy_from_slice(&destination.to_le_bytes());
    words[36..40].copy_from_slice(&info.spi.unwrap_or_default().to_le_bytes());
    words[40] = info.protocol;
    hash64(0, &words)
}

/// The packets of one class and one key, never empty.
#[derive(Debug)]
struct Flow {
    key: FlowKey,
    packets: VecDeque<Packet>,
    /// No packet grows too old before one in front of it, as is usual.
    ordered: bool,
}

impl Flow {
    /// The place of the packet that grows too old first.
    fn soonest(&self) -> Option<(usize, Instant)> {
        let mut expiries = self.packets.iter().map(|packet| packet.expires).enumerate();
        if self.ordered {
            expiries.next()
        } else {
            expiries.min_by_key(|(_, expires)| *expires)
        }
    }
}

impl Leaf {
    pub(crate) fn new(class: &Class) -> Self {
        Self {
            packets_max: class.packets,
            octets_max: class.octets.unwrap_or(u64::MAX),
            age: class.age,
            fair: class.fair,
            absorbs_repeats: class.absorb_repeats,
            flows: VecDeque::new(),
            spare: Vec::new(),
            queued: Queued::default(),
            under_way: None,
        }
    }

    pub(crate) const fn queued(&self) -> Queued {
        self.queued
    }

    pub(crate) const fn backlogged(&self) -> bool {
        self.queued.packets > 0 || self.under_way.is_some()
    }

    pub(crate) const fn set_under_way(&mut self, to: NeighbourId, octets_left: u32) {
        self.under_way = if octets_left > 0 {
            Some((to, octets_left))
        } else {
            None
        };
    }

    #[expect(
        clippy::result_large_err,
        reason = "boxing would allocate for each refused packet"
    )]
    pub(crate) fn enqueue(&mut self, now: Instant, mut packet: Packet) -> Result<(), Refusal> {
        if let Some(age) = self.age {
            packet.expires = packet.expires.min(packet.began() + age);
        }
        let key = FlowKey::of(&packet, self.fair);
        let place = self.flows.iter().position(|flow| flow.key == key);
        if let Some(cause) = self.refusal(now, &packet, place) {
            return Err((packet, Fate::Dropped(cause)));
        }
        if self.absorbs_repeats
            && let Some(flow) = place.and_then(|place| self.flows.get(place))
            && is_repeated(&packet, &flow.packets)
        {
            return Err((packet, Fate::Absorbed));
        }
        self.queued.packets += 1;
        self.queued.octets += packet.octets() as u64;
        match place.and_then(|place| self.flows.get_mut(place)) {
            Some(flow) => {
                flow.ordered &= flow
                    .packets
                    .back()
                    .is_none_or(|last| last.expires <= packet.expires);
                flow.packets.push_back(packet);
            }
            None => self.begin_flow(key, packet),
        }
        Ok(())
    }

    fn refusal(&self, now: Instant, packet: &Packet, place: Option<usize>) -> Option<DropCause> {
        if packet.expires <= now {
            return Some(DropCause::Aged);
        }
        let crowded = place.is_none() && self.flows.len() >= FLOWS_MAX;
        if self.queued.packets >= self.packets_max || crowded {
            return Some(DropCause::QueuePackets);
        }
        let octets = self.queued.octets + packet.octets() as u64;
        (octets > self.octets_max).then_some(DropCause::QueueOctets)
    }

    fn begin_flow(&mut self, key: FlowKey, packet: Packet) {
        let mut packets = self.spare.pop().unwrap_or_default();
        packets.push_back(packet);
        self.flows.push_back(Flow {
            key,
            packets,
            ordered: true,
        });
    }

    pub(crate) fn head(&self, class: ClassId, eligible: &dyn Eligibility) -> Option<Head> {
        if let Some((to, octets)) = self.under_way {
            return eligible
                .eligible(to, class)
                .then_some(Head { class, to, octets });
        }
        let flow = self
            .flows
            .iter()
            .find(|flow| eligible.eligible(flow.key.to, class))?;
        let octets = flow.packets.front()?.info().octets;
        Some(Head {
            class,
            to: flow.key.to,
            octets,
        })
    }

    /// Takes the packet that `head` named, and lets the other flows go before this one's next.
    pub(crate) fn take(&mut self, now: Instant, head: Head) -> Option<Packet> {
        if self.under_way.is_some() {
            return None;
        }
        let place = self.flows.iter().position(|flow| flow.key.to == head.to)?;
        let key = self.flows.get(place)?.key;
        let first = self.flows.get(place)?.packets.front()?;
        if first.info().octets != head.octets || first.expires <= now {
            return None;
        }
        let packet = self.remove(place, 0)?;
        // Emptied, the flow is gone; else it is where it was.
        if self.flows.get(place).is_some_and(|flow| flow.key == key)
            && self.flows.len() > 1
            && let Some(flow) = self.flows.remove(place)
        {
            self.flows.push_back(flow);
        }
        Some(packet)
    }

    /// Takes out any packet that isn't to go any more.
    pub(crate) fn discard(&mut self, now: Instant) -> Option<Refusal> {
        let old = |(place, flow): (usize, &Flow)| {
            let (index, expires) = flow.soonest()?;
            (expires <= now).then_some((place, index))
        };
        let (place, index) = self.flows.iter().enumerate().find_map(old)?;
        let packet = self.remove(place, index)?;
        Some((packet, Fate::Dropped(DropCause::Aged)))
    }

    pub(crate) fn wake(&self) -> Option<Instant> {
        let expiries = self
            .flows
            .iter()
            .filter_map(Flow::soonest)
            .map(|(_, expires)| expires);
        expiries.min().filter(|expires| *expires < Instant::NEVER)
    }

    pub(crate) fn drain(&mut self) -> Option<Packet> {
        self.remove(0, 0)
    }

    /// Takes out one packet of one flow, and the flow if nothing is left of it.
    fn remove(&mut self, place: usize, index: usize) -> Option<Packet> {
        let flow = self.flows.get_mut(place)?;
        let packet = flow.packets.remove(index)?;
        if flow.packets.is_empty() {
            let emptied = self.flows.remove(place)?;
            self.spare.push(emptied.packets);
        }
        self.queued.packets -= 1;
        self.queued.octets -= packet.octets() as u64;
        Some(packet)
    }

    /// Asserts what holds between calls.
    pub(crate) fn check(&self, class: ClassId) {
        let mut sum = Queued::default();
        for (place, flow) in self.flows.iter().enumerate() {
            assert!(!flow.packets.is_empty(), "a flow without packets is none");
            let earlier = self.flows.iter().take(place);
            assert!(
                !earlier.into_iter().any(|other| other.key == flow.key),
                "one queue a flow"
            );
            let mut last = Instant::ZERO;
            for packet in &flow.packets {
                assert_eq!(packet.class, class, "in its place");
                assert_eq!(FlowKey::of(packet, self.fair), flow.key, "in its place");
                assert!(!flow.ordered || last <= packet.expires, "in order of age");
                last = packet.expires;
                sum.packets += 1;
                sum.octets += packet.octets() as u64;
            }
        }
        assert_eq!(sum, self.queued, "the counters are the sums");
        assert!(
            sum.packets <= self.packets_max && sum.octets <= self.octets_max,
            "within limits"
        );
        assert!(self.flows.len() <= FLOWS_MAX, "within limits");
    }
}
