//! The event queue: a total order over everything that happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strait_core::{Instant, NeighbourId, PortId};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A scheduled fault; the number is its place in the scenario.
    Fault(u32),
    /// Something happens on a medium, which has this number.
    Medium(u32),
    /// A frame, or a chunk of octets, has arrived; the number is its place among those in flight.
    Arrival {
        port: PortId,
        from: NeighbourId,
        frame: u32,
    },
    /// Something on a byte stream has come; the number is its place among those under way.
    Stream { number: u32 },
    /// Storage has done a group of what was asked of it.
    Stored { group: u64 },
    /// A piece of work of this incarnation is done.
    Worked { incarnation: u32 },
    /// Something is due for the routing table of the node's host.
    Routes,
    /// A port has room again.
    Room { port: PortId },
    /// The moment that the node asked for.
    Wake,
}

impl What {
    /// The order of different things at one moment: the world's changes, what comes in, what may
    /// go out, and last the timers, so that an acknowledgement that arrives at the deadline counts.
    const fn class(self) -> u64 {
        match self {
            Self::Fault(_) => 0,
            Self::Medium(_) => 1,
            Self::Arrival { .. } | Self::Stream { .. } => 2,
            Self::Stored { .. } | Self::Worked { .. } | Self::Routes => 3,
            Self::Room { .. } => 4,
            Self::Wake => 5,
        }
    }
}

/// Something that happens to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Instant,
    /// Class, node and the node's own count, most significant first: no two events are equal.
    order: u64,
    pub(crate) what: What,
}

const NODE_BITS: u32 = 20;
const SEQ_BITS: u32 = 40;

impl Event {
    /// The node that it happens to.
    pub(crate) const fn node(&self) -> usize {
        (self.order >> SEQ_BITS) as usize & ((1 << NODE_BITS) - 1)
    }

    const fn key(&self) -> (Instant, u64) {
        (self.at, self.order)
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Events in their order: by time, then class, then node, then the order in which they were
/// planned for that node.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<Event>>,
    seqs: Vec<u64>,
    last: Option<(Instant, u64)>,
    popped: u64,
}

impl EventQueue {
    /// Nodes that fit the event key.
    pub(crate) const NODES_MAX: usize = 1 << NODE_BITS;

    /// Plans something for a node.
    pub(crate) fn push(&mut self, at: Instant, node: usize, what: What) {
        if self.seqs.len() <= node {
            self.seqs.resize(node + 1, 0);
        }
        let seq = self.seqs[node];
        self.seqs[node] += 1;
        let order = what.class() << (NODE_BITS + SEQ_BITS) | (node as u64) << SEQ_BITS | seq;
        self.heap.push(Reverse(Event { at, order, what }));
    }

    /// Takes the next event, if it is not after `until`.
    ///
    /// # Panics
    /// When two events have the same place in the order, or time would go back: a bug of ours.
    pub(crate) fn pop(&mut self, until: Instant) -> Option<Event> {
        if self.heap.peek()?.0.at > until {
            return None;
        }
        let Reverse(event) = self.heap.pop()?;
        if let Some((at, order)) = self.last {
            assert!(
                event.at >= at,
                "time went back from {at:?} to {:?}",
                event.at
            );
            assert!(
                event.key() != (at, order),
                "two events have one place: {event:?}"
            );
        }
        self.last = Some(event.key());
        self.popped += 1;
        Some(event)
    }

    /// Events taken so far.
    pub(crate) const fn popped(&self) -> u64 {
        self.popped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_time_then_class_then_node_then_plan() {
        let mut queue = EventQueue::default();
        let at = Instant::from_secs(1);
        queue.push(at, 0, What::Wake);
        queue.push(at, 1, What::Fault(0));
        queue.push(at, 1, What::Room { port: PortId(1) });
        queue.push(at, 0, What::Room { port: PortId(2) });
        queue.push(at, 0, What::Room { port: PortId(1) });
        queue.push(Instant::ZERO, 5, What::Wake);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop(at))
            .map(|e| (e.node(), e.what))
            .collect();
        assert_eq!(
            order,
            [
                (5, What::Wake),
                (1, What::Fault(0)),
                (0, What::Room { port: PortId(2) }),
                (0, What::Room { port: PortId(1) }),
                (1, What::Room { port: PortId(1) }),
                (0, What::Wake),
            ]
        );
    }

    #[test]
    fn nothing_comes_before_its_time() {
        let mut queue = EventQueue::default();
        queue.push(Instant::from_nanos(10), 0, What::Wake);
        assert!(queue.pop(Instant::from_nanos(9)).is_none());
        assert!(queue.pop(Instant::from_nanos(10)).is_some());
    }
}
