//! What a switch asks of its driver, and whose the answers are.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use strait_core::node::{Owner, Side, SocketId, SocketOp, StoreOp, StreamId, StreamOp, Ticket};
use strait_core::storage::LOAD_OCTETS_MAX;
use strait_core::work::Work;
use strait_core::{Duration, Effect, Instant};

use super::arrivals::Taken;
use super::queue::Way;
use super::sending::Reading;

/// How long a batch that couldn't be stored waits for its next try.
const AGAIN: Duration = Duration::from_secs(1);

/// Who waits for an answer.
#[derive(Debug)]
pub(super) enum Pending {
    /// A client's message that isn't whole.
    Piece { client: u64 },
    /// A client's message, its end.
    Message { client: u64, taken: Box<Taken> },
    /// Nobody, but what these messages are has to be there.
    Change(Change),
    /// A message on a way whose next hop may have it from now on.
    Noted(Way, u64),
    /// An envelope, after a start.
    Envelope(u64),
    /// A lane's connection that sends a message.
    Text(Reading),
    /// The same, for a piece in fewer octets.
    Packed(Reading),
    /// A client that says who it is.
    Login { client: u64 },
    /// A connection that is to say who this switch is.
    Credential { stream: u64 },
    /// A client, for a piece as it was.
    Unpacked { client: u64 },
    /// A mailbox.
    Copy,
}

/// A batch that changes messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    /// Which.
    pub(super) ids: Vec<u64>,
    /// The texts of those that are new or gone.
    pub(super) texts: Vec<StoreOp>,
    /// The operator's order.
    pub(super) minimize: bool,
}

/// Effects that wait for the driver.
#[derive(Debug)]
pub(super) struct Asks {
    owner: Owner,
    effects: VecDeque<Effect>,
    tickets: u64,
    pending: BTreeMap<u64, Pending>,
    /// Changes that couldn't be stored, and when they are tried again.
    again: VecDeque<(Instant, Change)>,
}

impl Asks {
    pub(super) const fn new(owner: Owner) -> Self {
        Self {
            owner,
            effects: VecDeque::new(),
            tickets: 0,
            pending: BTreeMap::new(),
            again: VecDeque::new(),
        }
    }

    pub(super) fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.again.front().map(|(at, _)| *at)
    }

    fn ticket(&mut self, pending: Pending) -> Ticket {
        self.tickets += 1;
        self.pending.insert(self.tickets, pending);
        Ticket {
            owner: self.owner,
            n: self.tickets,
        }
    }

    /// Who waited for an answer.
    pub(super) fn answered(&mut self, ticket: Ticket) -> Option<Pending> {
        self.pending.remove(&ticket.n)
    }

    /// Whether an answer is for nobody else's eyes.
    pub(super) fn is_secret(&self, ticket: Ticket) -> bool {
        matches!(
            self.pending.get(&ticket.n),
            Some(Pending::Credential { .. })
        )
    }

    pub(super) fn store(&mut self, batch: Vec<StoreOp>, pending: Pending) {
        let ticket = self.ticket(pending);
        self.effects.push_back(Effect::Store { ticket, batch });
    }

    /// Deletes texts, however often that fails.
    pub(super) fn forget(&mut self, texts: Vec<StoreOp>) {
        let change = Change {
            texts: texts.clone(),
            ..Change::default()
        };
        self.store(texts, Pending::Change(change));
    }

    /// A change couldn't be stored.
    pub(super) fn repeat(&mut self, now: Instant, change: Change) {
        self.again.push_back((now + AGAIN, change));
    }

    /// A change that is to be tried again.
    pub(super) fn due(&mut self, now: Instant) -> Option<Change> {
        let due = self.again.pop_front_if(|(at, _)| *at <= now);
        due.map(|(_, change)| change)
    }

    pub(super) fn load(&mut self, key: Vec<u8>, offset: u64, octets: u64, pending: Pending) {
        let ticket = self.ticket(pending);
        self.effects.push_back(Effect::Load {
            ticket,
            key,
            offset,
            octets: octets.min(u64::from(LOAD_OCTETS_MAX)) as u32,
        });
    }

    pub(super) fn work(&mut self, work: Work, pending: Pending) {
        let ticket = self.ticket(pending);
        self.effects.push_back(Effect::Work { ticket, work });
    }

    pub(super) fn socket(&mut self, n: u32, op: SocketOp) {
        let owner = self.owner;
        let id = SocketId { owner, n };
        self.effects.push_back(Effect::Socket { id, op });
    }

    pub(super) fn stream(&mut self, side: Side, n: u64, op: StreamOp) {
        let owner = self.owner;
        let id = StreamId { owner, side, n };
        self.effects.push_back(Effect::Stream { id, op });
    }
}
