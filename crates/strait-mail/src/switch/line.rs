//! A connection to a next hop.

use strait_core::Instant;

use super::queue::Queue;
use super::sending::Sending;
use crate::client::Client;

/// Streams with this in their number are those of a session with the next hop's gateway: the
/// driver knows nothing of them.
pub const OF_SESSION: u64 = 1 << 63;

/// A connection.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stream: u64,
    pub(super) client: Client,
    pub(super) ready: bool,
    pub(super) open: bool,
    /// Octets that it can take, and those if the other side has all that it was given.
    pub(super) writable: u64,
    pub(super) room: u64,
    pub(super) sending: Option<Sending>,
    pub(super) since: Instant,
    /// When something happened last.
    pub(super) stirred: Instant,
}

impl Line {
    /// One that begins.
    pub(super) fn new(now: Instant, stream: u64, client: Client) -> Self {
        Self {
            stream,
            client,
            ready: false,
            open: false,
            writable: 0,
            room: 0,
            sending: None,
            since: now,
            stirred: now,
        }
    }

    /// Whether it is a stream of a session with the next hop, which outlives the link's failures.
    pub(super) const fn is_of_session(&self) -> bool {
        self.stream & OF_SESSION != 0
    }

    /// Whether what it was given waits here, or below; or what a kernel has isn't there yet.
    pub(super) fn is_behind(&self) -> bool {
        self.client.outgoing() > 0 || self.writable < self.room
    }

    /// Its link was away, and nobody could be heard.
    pub(super) const fn forgive(&mut self, now: Instant) {
        (self.since, self.stirred) = (now, now);
    }

    /// So many octets of a message are there already.
    pub(super) fn go_on(&mut self, of: u64, octets: u64, queue: &Queue) {
        let right = |it: &&mut Sending| it.id == of;
        let Some(sending) = self.sending.as_mut().filter(right) else {
            return;
        };
        let before = sending.prefix.len() as u64;
        let prefix = usize::try_from(octets).map_or(before as usize, |it| it.min(before as usize));
        sending.prefix.drain(..prefix);
        sending.offset = sending.cuts.behind(octets.saturating_sub(before));
        let whole = queue.message(of).map_or(0, |it| it.octets);
        if sending.prefix.is_empty() && sending.offset >= whole {
            self.client.piece(&[], true);
            self.sending = None;
        }
    }
}
