//! What leaves next.

use alloc::vec::Vec;
use core::fmt;

use strait_core::rate::LineRate;
use strait_core::{ClassId, DropCause, Fate, Instant, NeighbourId, Packet};

use crate::leaf::{Leaf, Site};
use strait_wire::hash::hash64;

use crate::policy::Class;
use crate::ring::Ring;

/// Queues that one class can have at a time, for its neighbours or the flows to them: more than a
/// narrow shared medium serves, and a bound on the search for an eligible one.
pub const FLOWS_MAX: usize = 256;

/// Octets of quantum that suit narrow links: a quarter of a second at 9600 bit/s.
pub const QUANTUM_OCTETS: u32 = 256;

/// Below it a charge would take thousands of turns.
const QUANTUM_OCTETS_MIN: u32 = 64;

/// What goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its class.
    pub class: ClassId,
    /// To whom.
    pub to: NeighbourId,
    /// Octets of the packet, or what is left of the one under way.
    pub octets: u32,
}

/// Who may be sent to: a full window or a closed turn hides a neighbour's packets of a class,
/// not the port.
pub trait Eligibility {
    /// Whether a packet of the class may go to the neighbour now.
    fn eligible(&self, to: NeighbourId, class: ClassId) -> bool;
}

/// All may be sent to, always.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open;

impl Eligibility for Open {
    fn eligible(&self, _: NeighbourId, _: ClassId) -> bool {
        true
    }
}

/// Packets that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// How many.
    pub packets: u32,
    /// Their octets.
    pub octets: u64,
}

/// A packet that isn't to go, and the fate it is to have: destroyed for a reason, or absorbed by
/// one that waits and says the same.
pub type Refusal = (Packet, Fate);

/// Holds the packets of one port and says which goes next.
///
/// On each entry its owner first takes what isn't to go any more by [`discard`](Self::discard)
/// until `None`; then `head`, `take` (unless the class's packet is under way) and `charge` follow
/// one another with nothing in between. A scheduler destroys no packet: each comes out again.
pub trait Scheduler: fmt::Debug {
    /// Takes a packet in, at the end of its class's queue for its neighbour, and lowers its
    /// `expires` to the class's age limit.
    ///
    /// Gives it back if it is too old already ([`DropCause::Aged`]), doesn't fit
    /// ([`DropCause::QueuePackets`], also for a class that doesn't exist or one flow too many;
    /// [`DropCause::QueueOctets`]), comes when the class drops early ([`DropCause::Wred`]), or
    /// repeats one that waits ([`Fate::Absorbed`]). It may take the place of others, which
    /// [`discard`](Self::discard) has then.
    #[expect(
        clippy::result_large_err,
        reason = "boxing would allocate for each refused packet"
    )]
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Refusal>;

    /// What goes next. Changes nothing.
    fn head(&self, eligible: &dyn Eligibility) -> Option<Head>;

    /// Takes out the packet that `head` named; doesn't charge. `None` if there is no such packet
    /// any more, if it isn't to go at `now` (then [`discard`](Self::discard) has it, and `head`
    /// names another), or if the class has a packet under way.
    fn take(&mut self, now: Instant, head: Head) -> Option<Packet>;

    /// `octets` of the class go out now: a whole packet on a frame port, one segment on an octet
    /// stream.
    fn charge(&mut self, class: ClassId, octets: u32);

    /// The class has a packet under way outside the queue with so many octets left to send; 0 if
    /// none any more. It counts as backlog but not as queued. `head` then names it, if the class is
    /// due and its neighbour eligible, before anything else of the class, even to other neighbours.
    fn set_under_way(&mut self, class: ClassId, to: NeighbourId, octets_left: u32);

    /// Takes out a packet that isn't to go any more, with its fate: one that is too old at `now`
    /// (whose `expires` is `now` or earlier), or one that its class gave up for others.
    fn discard(&mut self, now: Instant) -> Option<Refusal>;

    /// The line's present rate.
    fn set_line_rate(&mut self, rate: LineRate);

    /// When the next packet in a queue grows too old.
    fn wake(&self) -> Option<Instant>;

    /// Takes out any packet that waits: the port stops, or routes changed.
    fn drain(&mut self) -> Option<Packet>;

    /// What waits in a class, the packet under way not counted.
    fn queued(&self, class: ClassId) -> Queued;

    /// What waits in all classes.
    fn total(&self) -> Queued;

    /// Asserts the invariants.
    fn check(&self);
}

/// Strict priority between bands; in a band, shares by weight, accurate to the octet (deficit round
/// robin after Shreedhar and Varghese, in its surplus form); in a class, neighbours in turn, a
/// packet each, and if it shares fairly the flows to them; in a flow, first come, first served.
#[derive(Debug)]
pub struct PriorityDrr {
    classes: Vec<Leaf>,
    shares: Vec<Share>,
    bands: Vec<Ring>,
}

/// A class's place among the others.
#[derive(Clone, Copy, Debug)]
struct Share {
    band: usize,
    gain: i64,
}

impl PriorityDrr {
    /// A scheduler for these classes, numbered by their order.
    ///
    /// In its turn a class sends `quantum_octets` times its weight (at least 64 octets). A smaller
    /// quantum makes turns shorter and the wait for them smoother; shares don't depend on it.
    #[must_use]
    pub fn new(classes: &[Class], quantum_octets: u32, site: Site) -> Self {
        let mut bands: Vec<u8> = classes.iter().map(|class| class.band).collect();
        bands.sort_unstable();
        bands.dedup();
        let quantum = i64::from(quantum_octets.max(QUANTUM_OCTETS_MIN));
        let share = |class: &Class| Share {
            band: bands.partition_point(|band| *band < class.band),
            gain: quantum * i64::from(class.weight.max(1)),
        };
        let leaf = |(number, class)| {
            let seed = hash64(site.seed, &[number]);
            Leaf::new(class, Site { seed, ..site })
        };
        Self {
            classes: (0..).zip(classes).map(leaf).collect(),
            shares: classes.iter().map(share).collect(),
            bands: bands.iter().map(|_| Ring::default()).collect(),
        }
    }

    fn backlogged(classes: &[Leaf], class: ClassId) -> bool {
        classes.get(class.index()).is_some_and(Leaf::backlogged)
    }

    /// The class is about to have its first backlog: it takes part in its band's turns. A band that
    /// was idle forgets all debts.
    fn begin_backlog(&mut self, class: ClassId) {
        let Some(share) = self.shares.get(class.index()) else {
            return;
        };
        let mut band = self
            .classes
            .iter()
            .zip(&self.shares)
            .filter(|(_, s)| s.band == share.band);
        let idle = !band.any(|(queue, _)| queue.backlogged());
        if let Some(ring) = self.bands.get_mut(share.band) {
            if idle {
                ring.clear();
            }
            ring.join(class, share.gain);
        }
    }
}

impl Scheduler for PriorityDrr {
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Refusal> {
        let class = packet.class;
        let Some(queue) = self.classes.get(class.index()) else {
            return Err((packet, Fate::Dropped(DropCause::QueuePackets)));
        };
        if !queue.backlogged() {
            self.begin_backlog(class);
        }
        match self.classes.get_mut(class.index()) {
            Some(queue) => queue.enqueue(now, packet),
            None => Err((packet, Fate::Dropped(DropCause::QueuePackets))),
        }
    }

    fn head(&self, eligible: &dyn Eligibility) -> Option<Head> {
        let offer = |class: ClassId| self.classes.get(class.index())?.head(class, eligible);
        self.bands.iter().find_map(|ring| ring.first(offer))
    }

    fn take(&mut self, now: Instant, head: Head) -> Option<Packet> {
        self.classes.get_mut(head.class.index())?.take(now, head)
    }

    fn charge(&mut self, class: ClassId, octets: u32) {
        let Some(share) = self.shares.get(class.index()) else {
            return;
        };
        let Some(ring) = self.bands.get_mut(share.band) else {
            return;
        };
        ring.charge(class, octets, |other| {
            Self::backlogged(&self.classes, other)
        });
    }

    fn set_under_way(&mut self, class: ClassId, to: NeighbourId, octets_left: u32) {
        if octets_left > 0 && !Self::backlogged(&self.classes, class) {
            self.begin_backlog(class);
        }
        if let Some(queue) = self.classes.get_mut(class.index()) {
            queue.set_under_way(to, octets_left);
        }
    }

    fn discard(&mut self, now: Instant) -> Option<Refusal> {
        self.classes.iter_mut().find_map(|queue| queue.discard(now))
    }

    fn set_line_rate(&mut self, rate: LineRate) {
        for leaf in &mut self.classes {
            leaf.set_line_rate(rate);
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.classes.iter().filter_map(Leaf::wake).min()
    }

    fn drain(&mut self) -> Option<Packet> {
        self.classes.iter_mut().find_map(Leaf::drain)
    }

    fn queued(&self, class: ClassId) -> Queued {
        self.classes
            .get(class.index())
            .map_or_else(Queued::default, Leaf::queued)
    }

    fn total(&self) -> Queued {
        let classes = self.classes.iter().map(Leaf::queued);
        classes.fold(Queued::default(), |sum, queued| Queued {
            packets: sum.packets + queued.packets,
            octets: sum.octets + queued.octets,
        })
    }

    fn check(&self) {
        self.bands.iter().for_each(Ring::check);
        for (number, (queue, share)) in (0..).zip(self.classes.iter().zip(&self.shares)) {
            let class = ClassId(number);
            queue.check(class);
            let takes_turns = self
                .bands
                .get(share.band)
                .is_some_and(|ring| ring.holds(class));
            assert!(
                takes_turns || !queue.backlogged(),
                "backlog takes part in turns"
            );
        }
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
