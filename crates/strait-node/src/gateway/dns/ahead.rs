//! Packets for addresses that stand for names: the gateway near those who are meant puts the real
//! address there, and the other one back into what they answer.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use strait_core::{Duration, Instant};
use strait_wire::ip::{self, End, Ends};

use crate::route::Hop;

/// Flows that are remembered; the one that was used longest ago goes first.
const FLOWS_MAX: usize = 8192;
/// Packets that wait until it is known who is meant, and for how long.
const HELD_MAX: usize = 64;
const HELD: Duration = Duration::from_secs(30);

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) until: Instant,
    pub(super) partner: usize,
    pub(super) address: Ipv4Addr,
    pub(super) bytes: Vec<u8>,
    pub(super) from: Hop,
}

/// Who goes by which address, and what waits for that.
#[derive(Debug, Default)]
pub(super) struct Translation {
    /// By ends of packets as they come back, the address that was asked for.
    flows: BTreeMap<Ends, (Ipv4Addr, u64)>,
    order: BTreeMap<u64, Ends>,
    uses: u64,
    held: VecDeque<Held>,
    /// Packets that wait no more, with where they came from.
    ready: VecDeque<(Vec<u8>, Hop)>,
}

impl Translation {
    /// Gives a packet for an address the one that is meant by it.
    pub(super) fn outward(&mut self, bytes: &mut [u8], meant: IpAddr) {
        let (Some(ends), IpAddr::V4(real)) = (Ends::of(bytes), meant) else {
            return;
        };
        ip::set_address(bytes, End::Destination, real);
        let back = Ends { dst: real, ..ends }.turned();
        self.remember(back, ends.dst);
        // What comes back in fragments has ports in the first one alone.
        let ports = (0, 0);
        self.remember(Ends { ports, ..back }, ends.dst);
    }

    fn remember(&mut self, back: Ends, address: Ipv4Addr) {
        self.uses += 1;
        if let Some((_, used)) = self.flows.insert(back, (address, self.uses)) {
            self.order.remove(&used);
        }
        self.order.insert(self.uses, back);
        if self.flows.len() > FLOWS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.flows.remove(&oldest);
        }
    }

    /// Whether a packet comes back from somebody who goes by another address where it leads, or
    /// says something of a packet to there.
    pub(super) fn comes_back(&self, bytes: &[u8]) -> bool {
        !self.flows.is_empty() && self.address_of(bytes).is_some()
    }

    fn address_of(&self, bytes: &[u8]) -> Option<Ipv4Addr> {
        let back = match ip::quoted(bytes) {
            Some(went) => went.turned(),
            None => Ends::of(bytes)?,
        };
        self.flows.get(&back).map(|(address, _)| *address)
    }

    /// Gives what comes back the address that was asked for.
    pub(super) fn inward(&self, bytes: &mut [u8]) {
        let Some((address, ends)) = self.address_of(bytes).zip(Ends::of(bytes)) else {
            return;
        };
        // Of an error, routers on the way keep their own address.
        let by_itself = ip::quoted(bytes).is_none_or(|went| went.dst == ends.src);
        if ip::quoted(bytes).is_some() {
            ip::set_quoted_destination(bytes, address);
        }
        if by_itself {
            ip::set_address(bytes, End::Source, address);
        }
    }

    /// Has a packet wait; the one that waits longest is given back if there is no room.
    pub(super) fn hold(
        &mut self,
        now: Instant,
        (partner, address): (usize, Ipv4Addr),
        bytes: Vec<u8>,
        from: Hop,
    ) -> Option<Held> {
        self.held.push_back(Held {
            until: now + HELD,
            partner,
            address,
            bytes,
            from,
        });
        (self.held.len() > HELD_MAX).then(|| self.held.pop_front())?
    }

    /// All that waits, to be looked at.
    pub(super) fn take_held(&mut self) -> VecDeque<Held> {
        core::mem::take(&mut self.held)
    }

    /// Something waits on.
    pub(super) fn hold_on(&mut self, held: Held) {
        self.held.push_back(held);
    }

    /// Something waits no more: it is for `meant`.
    pub(super) fn let_go(&mut self, mut held: Held, meant: IpAddr) {
        self.outward(&mut held.bytes, meant);
        self.ready.push_back((held.bytes, held.from));
    }

    pub(super) fn poll_ready(&mut self) -> Option<(Vec<u8>, Hop)> {
        self.ready.pop_front()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.held.iter().map(|it| it.until).min()
    }

    pub(super) fn check(&self) {
        assert!(self.held.len() <= HELD_MAX, "too many packets wait");
        assert_eq!(self.flows.len(), self.order.len(), "order of flows");
        assert!(self.flows.len() <= FLOWS_MAX, "too many flows");
    }
}
