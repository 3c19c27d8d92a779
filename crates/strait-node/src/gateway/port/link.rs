//! How packets cross the medium at a port: the operations of each kind of link, behind one
//! dispatch.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use strait_core::fate::Ledger;
use strait_core::node::{
    Effect, FrameMeta, PortEvent, PortState, StreamEvent, StreamId, TxMeta, WallTime, Want,
};
use strait_core::rate::LineRate;
use strait_core::{ClassId, Duration, Instant, NeighbourId, Packet, Room, Wake};

use super::queue::{Queue, Treatment};
use super::segments::Segments;
use crate::gateway::lan::Lan;
use crate::gateway::port_set::PortSet;
use crate::hop_config::Depths;
use crate::route::{Hop, Routes};

/// A received frame of a neighbour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) from: NeighbourId,
    pub(crate) bytes: &'a [u8],
    pub(crate) meta: FrameMeta,
    /// Marks, a bit each, of which no more is accepted: there is no room for them.
    pub(crate) refused: u8,
    pub(crate) onward: Onward<'a>,
}

/// Where packets stay in the network of reliable links, and don't wait for their order yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Onward<'a> {
    pub(crate) routes: &'a Routes,
    /// Ports behind which all nodes keep the order that packets had at their ingress.
    pub(crate) ports: PortSet,
}

impl Onward<'_> {
    /// Whether a packet to this address is forwarded by such a port.
    pub(super) fn has(&self, dst: IpAddr) -> bool {
        let way = self.routes.lookup(dst);
        way.is_some_and(|way| self.ports.contains(way.port))
    }
}

/// A packet that a link has completed, behind the received frame.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// Its account has been open since it arrived.
    Admitted(Packet),
    Octets(Vec<u8>),
}

/// When a link is asked for the results of an input, beside the frames that it brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settles {
    /// Never: receptions are reported at once.
    Never,
    /// First, as it holds packets that others' senders may have to stop for.
    First,
    /// Once.
    Once,
    /// Again, until no link has a packet: one may bring what another accepts.
    UntilQuiet,
}

/// Where packets with a mark from one neighbour went last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outlet {
    pub(crate) way: Hop,
    pub(crate) class: ClassId,
}

/// A kind of link at a port, with all its behaviour. A port is a [`Queue`] and one of these;
/// operations without a meaning for a kind stay at their default.
///
/// Methods whose beginnings are here call each other by their own type, so one call through a
/// `dyn Link` is all that a port pays for not knowing it.
pub(in crate::gateway) trait Link: fmt::Debug {
    /// How many others there are at the other end.
    fn neighbours(&self) -> usize;

    /// Packets that it holds beside the queue.
    fn held(&self) -> usize;

    /// Gives up every packet that it holds.
    fn abandon(&mut self, now: Instant) -> Vec<Packet>;

    /// The port's next packet. It is up.
    fn wants(&self, queue: &Queue) -> Option<Want>;

    /// Fills `room`; see [`strait_core::Node::poll_transmit`]. It is up, and the queue holds
    /// nothing that is too old.
    fn pull(
        &mut self,
        queue: &mut Queue,
        now: Instant,
        room: Room,
        out: &mut Vec<u8>,
        ledger: &mut Ledger,
    ) -> Option<TxMeta>;

    /// Takes in received octets. Whole packets are put by in the ledger, or reported by
    /// [`Link::settle`].
    fn hear(&mut self, queue: &mut Queue, now: Instant, frame: Frame<'_>, ledger: &mut Ledger);

    // A question asked once, when a gateway is made.

    fn settles(&self) -> Settles {
        Settles::Never
    }

    /// Whether its links are made reliable: packets stay in one network from one to the next, and
    /// senders are stopped.
    fn is_reliable(&self) -> bool {
        false
    }

    /// Whether a medium reports that it is up, or the port does so itself.
    fn follows_medium(&self) -> bool {
        true
    }

    // Time, and its work.

    /// Whether it has nothing to do before an input arrives, whatever the time.
    fn is_at_rest(&self) -> bool {
        false
    }

    /// Its limits go by this time from now on.
    fn advance(&mut self, _now: Instant) {}

    /// When it needs a wake-up without an input, and why.
    fn wake(&self) -> Option<Wake> {
        None
    }

    /// When the waiting, or accepted, packets are too old to be of use as a whole.
    fn expires(&self) -> Option<Instant> {
        None
    }

    /// Asserts its invariants.
    fn check(&self) {}

    // The medium.

    /// The medium is there, or offers something else than before.
    fn set_up(&mut self, _queue: &mut Queue, _now: Instant, _state: PortState) {}

    /// The medium is gone. Packets that had begun to leave are lost; waiting ones stay.
    fn set_down(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) {
        queue.abandon(self, now, strait_core::DropCause::PortDown, ledger);
    }

    /// A neighbour is there again, or gone. Packets that had begun to leave for it are lost.
    fn set_neighbour(
        &mut self,
        _queue: &mut Queue,
        _now: Instant,
        _to: NeighbourId,
        _there: bool,
        _ledger: &mut Ledger,
    ) {
    }

    /// The medium reports the rate towards a neighbour.
    fn set_rate(&mut self, queue: &mut Queue, to: NeighbourId, rate: LineRate) {
        queue.set_rate(to, rate);
    }

    /// The medium's reports of turns.
    fn hear_medium(&mut self, _now: Instant, _event: PortEvent) {}

    // Packets to send.

    /// Whether a packet for [`NeighbourId::ALL`] is for all others at once.
    fn sends_to_all(&self) -> bool {
        false
    }

    /// Whether a possible receiver of packets is at the other end under this number.
    fn has_neighbour(&self, to: NeighbourId) -> bool {
        to.index() < self.neighbours()
    }

    /// Takes a packet that is to leave.
    fn enqueue(&mut self, queue: &mut Queue, now: Instant, packet: Packet, ledger: &mut Ledger) {
        queue.enqueue(self, now, packet, ledger);
    }

    /// Takes those that waited for a now known state.
    fn release(&mut self, _queue: &mut Queue, _now: Instant, _ledger: &mut Ledger) {}

    /// Whether a packet of a class, carried so, may go to a neighbour now.
    fn eligible(&self, _queue: &Queue, _to: NeighbourId, _class: ClassId, _: &Treatment) -> bool {
        true
    }

    /// Counts a packet that enters the queue (1) or leaves it (-1).
    fn count(&mut self, _packet: &Packet, _packets: isize) {}

    /// Whether a packet more makes the queue for its neighbour too long to be of use.
    fn overflows(&self, _packet: &Packet) -> bool {
        false
    }

    /// A packet for a neighbour was queued, or found no place.
    fn queued(&mut self, _queue: &mut Queue, _now: Instant, _to: NeighbourId, _: &mut Ledger) {}

    /// Gives the packets that aren't to be sent any more their fates, and says whether there were
    /// any.
    fn discard(&mut self, queue: &mut Queue, now: Instant, ledger: &mut Ledger) -> bool {
        queue.discard(self, now, ledger)
    }

    /// Whether any packet being sent to a neighbour on a stream is such.
    fn any_leaving(
        &self,
        _to: NeighbourId,
        _stream: usize,
        _such: &dyn Fn(&Packet) -> bool,
    ) -> bool {
        false
    }

    /// A packet that isn't sent repeats one that waits or is under way: its sender wants all its
    /// data for as long as it would want the repetition.
    fn renew(&mut self, _repetition: &Packet) {}

    /// Whether a packet to a neighbour would have to wait.
    fn is_congested(&self, queue: &Queue, _to: NeighbourId) -> bool {
        self.held() > 0 || queue.waiting() > 0
    }

    /// Octets of the longest piece of a packet at this rate.
    fn longest_piece(&mut self, queue: &Queue, _rate: LineRate) -> usize {
        queue.mtu
    }

    /// Octets that nothing goes before any more.
    fn committed_octets(&self) -> usize {
        0
    }

    // The results of received frames, and of time.

    /// Ends the stay of packets that neighbours have by now, or never get, and gives the received
    /// ones, with their sender. Whether the port came up or went down.
    fn settle(
        &mut self,
        _queue: &mut Queue,
        _now: Instant,
        _ledger: &mut Ledger,
        _came: &mut Vec<(Arrival, Hop)>,
    ) -> bool {
        false
    }

    /// Its agreements with its neighbours, and its memory of them, if it has any.
    fn segments(&self) -> Option<&Segments> {
        None
    }

    fn segments_mut(&mut self) -> Option<&mut Segments> {
        None
    }

    // Streams, and the calendar.

    /// Something happened on a stream of the port's.
    fn hear_stream(&mut self, _now: Instant, _id: StreamId, _event: &StreamEvent<'_>) {}

    /// The next thing to do to a stream or socket of the port's.
    fn poll_effect(&mut self, _queue: &Queue) -> Option<Effect> {
        None
    }

    /// Calendar time is known, or was set.
    fn set_calendar(&mut self, _now: Instant, _wall: WallTime) {}

    // Networks on which the gateway is a station of its own.

    fn lan(&self) -> Option<&Lan> {
        None
    }

    fn lan_mut(&mut self) -> Option<&mut Lan> {
        None
    }

    // Links that are made reliable: senders are stopped before any packet has to be dropped.

    /// Where a neighbour's packets with a mark went last.
    fn outlets(&self, _from: NeighbourId, _mark: u8) -> &[Option<Outlet>] {
        &[]
    }

    /// Notes the destination of a packet from a neighbour.
    fn note_outlet(&mut self, _queue: &Queue, _from: NeighbourId, _packet: &Packet, _way: Hop) {}

    /// How much of a class of a neighbour's packets may wait for a line of this rate.
    fn stop_depths(&self, _from: NeighbourId, _out: LineRate) -> Depths {
        Depths::UNLIMITED
    }

    /// The longest round trip to a neighbour.
    fn longest_trip(&self) -> Duration {
        Duration::ZERO
    }

    /// Forwarded packets have crossed links with this round trip at most.
    fn set_trip(&self, _queue: &mut Queue, _trip: Duration) {}

    /// Whether all neighbours keep the order that packets had at their ingress.
    fn is_wide(&self) -> bool {
        false
    }

    /// Whether as much as may be is held for a neighbour, sent or not.
    fn is_full(&self, _queue: &Queue, _to: NeighbourId) -> bool {
        false
    }

    /// Marks of which a neighbour is to send nothing new.
    fn stop(&self, _from: NeighbourId) -> u8 {
        0
    }

    /// Informs a neighbour.
    fn set_stop(&mut self, _from: NeighbourId, _stop: u8) {}

    /// Takes out all waiting packets, and those of the unacknowledged ones that are to take another
    /// path.
    fn take_back(
        &mut self,
        _queue: &mut Queue,
        _ledger: &mut Ledger,
        _leaves: &mut dyn FnMut(&Packet) -> bool,
    ) -> Vec<Packet> {
        Vec::new()
    }
}
