//! The next packet to leave.

use core::fmt;

use crate::Costs;
#[cfg(doc)]
use crate::Limits;
#[cfg(doc)]
use strait_core::DropCause;
use strait_core::rate::LineRate;
use strait_core::{ClassId, Fate, Instant, NeighbourId, Packet, PortId};

/// Queues that one class can have at a time, for its neighbours or the flows to them: more than a
/// narrow shared medium serves, and a bound on the search for an eligible one.
pub const FLOWS_MAX: usize = 256;

/// The next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its class.
    pub class: ClassId,
    /// The receiver.
    pub to: NeighbourId,
    /// Octets of the packet, or the rest of the one under way.
    pub octets: u32,
}

/// The available neighbours: a full window or a closed turn hides a neighbour's packets of a class,
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

/// A packet that isn't to be sent, and its fate: destroyed for a reason, or absorbed by a waiting
/// one with the same content.
pub type Refusal = (Packet, Fate);

/// Holds the packets of one port and names the next one.
///
/// On each entry its owner first sets the time, and takes the packets that are too old by
/// [`discard`](Self::discard) until `None`; then `head`, `take` (unless the class's packet is under
/// way), `set_under_way` (unless packets leave whole) and `charge` follow one another with nothing
/// in between. A scheduler destroys no packet: each comes out again.
/// # Examples
///
/// A packet of a higher rank goes first, whatever the order of arrival:
///
/// ```
/// use strait_core::fate::{Fate, Ledger, Origin};
/// use strait_core::stats::Stats;
/// use strait_core::{ClassId, Instant, NeighbourId, PortId};
/// use strait_qos::{ClassConfig, Open, Policy, PolicyConfig, Scheduler, Site, Tree};
///
/// let class = |name, band| ClassConfig { band: Some(band), ..ClassConfig::new(name) };
/// let config = PolicyConfig {
///     classes: vec![class("voice", 0), class("data", 1)],
///     default: Some("data".into()),
///     ..PolicyConfig::default()
/// };
/// let mut tree = Tree::new(&Policy::compile(&config)?, Site::default());
///
/// let mut ledger = Ledger::new(Stats::default());
/// let [src, dst] = ["10.1.0.2:4000", "10.2.0.2:5000"].map(|it| it.parse().expect("an address"));
/// let now = Instant::ZERO;
/// for class in [1, 0] {
///     let mut octets = Vec::new();
///     strait_wire::ip::build_udp(src, dst, 0, 64, 0, 0, b"hello", &mut octets);
///     let mut packet = ledger.admit(now, octets, Origin::Port(PortId::HOST))?;
///     packet.class = ClassId(class);
///     if let Err((packet, fate)) = tree.enqueue(now, packet) {
///         ledger.close(now, packet, fate);
///     }
/// }
///
/// let mut classes = Vec::new();
/// tree.advance(now);
/// while let Some((packet, fate)) = tree.discard(now) {
///     ledger.close(now, packet, fate);
/// }
/// while let Some(head) = tree.head(&Open) {
///     let Some(packet) = tree.take(now, head) else {
///         continue;
///     };
///     tree.charge(packet.class, packet.octets() as u32);
///     classes.push(packet.class.0);
///     let (port, to) = (PortId(1), NeighbourId::PEER);
///     ledger.close(now, packet, Fate::Forwarded { port, to });
/// }
/// assert_eq!(classes, [0, 1]);
/// assert_eq!(ledger.held(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Scheduler: fmt::Debug {
    /// The time that [`head`](Self::head) goes by. Going back changes nothing.
    fn advance(&mut self, now: Instant);

    /// The line has this rate now: shares of it change with it.
    fn set_line_rate(&mut self, rate: LineRate);

    /// The costs of octets for each neighbour on the line that they share.
    fn set_costs(&mut self, costs: &Costs);

    /// The links behind it repeat their losses, and take so many octets in a round trip: see
    /// [`Limits::over`].
    fn set_trip_octets(&mut self, octets: u64);

    /// Takes a packet in, at the end of its class's queue for its neighbour, and lowers its
    /// `expires` to the class's age limit.
    ///
    /// Gives it back if it is too old already ([`DropCause::Aged`]), doesn't fit
    /// ([`DropCause::QueuePackets`], also for a class that doesn't exist or one flow too many;
    /// [`DropCause::QueueOctets`]), comes when the class drops early ([`DropCause::Wred`]), or
    /// repeats one that waits ([`Fate::Absorbed`]). It may take the place of others, which
    /// [`discard`](Self::discard) has then.
    fn enqueue(&mut self, now: Instant, packet: Packet) -> Result<(), Refusal>;

    /// A packet repeats one that has left and may be lost. It isn't queued, but its `expires` is
    /// lowered as if it were, and its sender wants the waiting packets of its flow for as long.
    fn renew(&mut self, repetition: &mut Packet);

    /// The next packet, at the time of the last [`advance`](Self::advance). Changes nothing.
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

    /// When to ask for a head again, if there is none only because of limits on rates: not after
    /// the moment at which there is one, but after the last [`advance`](Self::advance). `None` if
    /// there is a head, or nothing waits.
    fn starts(&self, eligible: &dyn Eligibility) -> Option<Instant>;

    /// When the next packet in a queue grows too old.
    fn wake(&self) -> Option<Instant>;

    /// Takes out any packet that waits: the port stops, or routes changed.
    fn drain(&mut self) -> Option<Packet>;

    /// Takes out any packet that waits for a neighbour, whose packets are given up. The others keep
    /// their places.
    fn drain_to(&mut self, now: Instant, to: NeighbourId) -> Option<Packet>;

    /// The waiting packets of a class, without the packet under way.
    fn queued(&self, class: ClassId) -> Queued;

    /// Whether the flows of a neighbour have, each, at least as many octets waiting in a class as
    /// flows there have on average. Always true if flows aren't separated.
    fn has_share(&self, class: ClassId, from: (PortId, NeighbourId)) -> bool;

    /// Octets that are left of a class's packet that is under way.
    fn under_way(&self, class: ClassId) -> u64;

    /// The waiting packets of all classes.
    fn total(&self) -> Queued;

    /// Asserts the invariants.
    fn check(&self);
}
