//! What the driver asks of a medium, and the plan of what is to happen.

use std::collections::BTreeMap;

use strait_core::id::TxId;
use strait_core::node::PortState;
use strait_core::rate::LineRate;
use strait_core::{Instant, NeighbourId, Room, TxMeta, Want};

/// Something that is to happen.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// An application behind `node` sends a packet.
    Offer { node: usize, bytes: Vec<u8> },
    /// A frame arrives at `node`, which knows the sender as `from`.
    Arrive {
        node: usize,
        from: NeighbourId,
        bytes: Vec<u8>,
    },
    /// The medium is done with a transmission of `node`.
    TxDone { node: usize, id: TxId, ok: bool },
    /// The link port of `node` may have gained room.
    Room { node: usize },
    /// The medium's own event.
    Medium(u64),
    /// `node` ends without warning.
    Kill { node: usize },
    /// `node` starts again.
    Restart { node: usize },
    /// The medium's rate changes.
    Rate(LineRate),
}

/// What is to happen, in a total order: by time, then in the order of planning.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    events: BTreeMap<(Instant, u64), What>,
    planned: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, at: Instant, what: What) {
        self.planned += 1;
        self.events.insert((at, self.planned), what);
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    pub(crate) fn pop(&mut self) -> Option<What> {
        self.events.pop_first().map(|(_, what)| what)
    }

    /// Takes back what `matches`; returns how much that was.
    pub(crate) fn forget(&mut self, matches: impl Fn(Instant, &What) -> bool) -> usize {
        let before = self.events.len();
        self.events.retain(|(at, _), what| !matches(*at, what));
        before - self.events.len()
    }
}

/// A medium that joins the link ports of all nodes.
pub(crate) trait Medium {
    /// What the port of a node that comes up is told.
    fn state(&self) -> PortState;

    /// A node started.
    fn join(&mut self, _node: usize) {}

    /// Whether another node's transmission is heard by `node` now.
    fn carrier(&self, _node: usize) -> bool {
        false
    }

    /// What the medium takes from `node` now. If it takes nothing, it plans [`What::Room`].
    fn room(&mut self, now: Instant, node: usize, agenda: &mut Agenda) -> Option<Room>;

    /// Takes a frame that was pulled with `room`.
    fn transmit(
        &mut self,
        now: Instant,
        node: usize,
        room: Room,
        meta: TxMeta,
        frame: &[u8],
        agenda: &mut Agenda,
    );

    /// What `node` would send first, after each settle.
    fn wanted(&mut self, _now: Instant, _node: usize, _want: Option<Want>, _agenda: &mut Agenda) {}

    /// The medium's own event.
    fn happen(&mut self, _now: Instant, _mark: u64, _agenda: &mut Agenda) {}

    /// A node ended without warning: what it was sending is cut off.
    fn cut(&mut self, now: Instant, node: usize, agenda: &mut Agenda);

    /// The rate changes; what was taken before keeps its time.
    fn set_rate(&mut self, now: Instant, rate: LineRate);
}
