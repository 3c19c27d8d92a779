//! Neighbours that forward, by the same channel, the packets sent to them.
//!
//! A packet relayed within earshot takes the air once for each link. A station that sends to a
//! relay as often as the channel allows fills the relay's queue, unseen by all before it: there
//! packets are lost, and delay urgent ones. The next packet for a relay therefore waits until the
//! one before may have been forwarded, and excess packets wait at their source.

use alloc::vec::Vec;

use strait_core::{Instant, NeighbourId};

/// One neighbour that was sent something.
#[derive(Clone, Copy, Debug)]
struct Relay {
    to: NeighbourId,
    /// Links behind it on the way of the last packet for it.
    onward: u8,
    /// It sends that on until then.
    until: Option<Instant>,
}

/// The neighbours that were sent something to send on.
#[derive(Clone, Debug, Default)]
pub(in crate::gateway) struct Yields {
    enabled: bool,
    relays: Vec<Relay>,
}

impl Yields {
    pub(super) const fn new(enabled: bool) -> Self {
        let relays = Vec::new();
        Self { enabled, relays }
    }

    fn of(&self, to: NeighbourId) -> Option<&Relay> {
        self.relays.iter().find(|it| it.to == to)
    }

    /// A packet leaves for a neighbour that is so many links from where it goes.
    pub(super) fn leaves(&mut self, to: NeighbourId, onward: u8) {
        match self.relays.iter_mut().find(|it| it.to == to) {
            Some(relay) => relay.onward = onward,
            None if onward > 0 && self.enabled => self.relays.push(Relay {
                to,
                onward,
                until: None,
            }),
            None => {}
        }
    }

    /// Links behind a neighbour on the way of the last packet for it.
    pub(super) fn onward(&self, to: NeighbourId) -> u8 {
        self.of(to).map_or(0, |it| it.onward)
    }

    /// A neighbour forwards its packets until then.
    pub(super) fn yield_to(&mut self, to: NeighbourId, until: Instant) {
        for relay in self.relays.iter_mut().filter(|it| it.to == to) {
            relay.until = Some(until);
        }
    }

    /// Whether packets for a neighbour wait for its forwarding.
    pub(super) fn waits(&self, to: NeighbourId) -> bool {
        self.of(to).is_some_and(|it| it.until.is_some())
    }

    pub(super) fn advance(&mut self, now: Instant) {
        for relay in &mut self.relays {
            relay.until = relay.until.filter(|until| now < *until);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wake().is_none()
    }

    /// When the first of them has sent it on.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.relays.iter().filter_map(|it| it.until).min()
    }
}
