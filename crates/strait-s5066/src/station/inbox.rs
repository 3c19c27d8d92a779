//! Complete data, and data without ARQ that is still being reassembled.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use strait_core::{Duration, Instant};

use super::Received;
use super::transmission::Ends;
use crate::address::Address;
use crate::c_pdu::CPdu;
use crate::d_pdu::NonArq;
use crate::non_arq::Assembler;

/// The sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub(super) address: Address,
    /// It is a peer, and no stranger.
    pub(super) listed: bool,
}

/// Keeps C_PDUs until they are reported.
#[derive(Debug)]
pub(super) struct Inbox {
    /// How long received data takes to its recipient.
    delivery: Duration,
    of_peers: Assembler,
    /// Strangers' take no room of peers'.
    of_strangers: Assembler,
    /// Received data, and when it is to be reported.
    received: VecDeque<(Instant, Received)>,
}

impl Inbox {
    pub(super) fn new(delivery: Duration) -> Self {
        Self {
            delivery,
            of_peers: Assembler::default(),
            of_strangers: Assembler::of_strangers(),
            received: VecDeque::new(),
        }
    }

    fn assembler(&mut self, from: Source) -> &mut Assembler {
        match from.listed {
            true => &mut self.of_peers,
            false => &mut self.of_strangers,
        }
    }

    /// A piece arrived without ARQ.
    pub(super) fn take(&mut self, now: Instant, from: Source, to: Address, piece: &NonArq<'_>) {
        self.assembler(from).take(now, from.address, to, piece);
    }

    /// One arrived that isn't reassembled here.
    pub(super) fn pass(&mut self, now: Instant, from: Source, piece: &NonArq<'_>) {
        self.assembler(from).pass(now, from.address, piece);
    }

    /// A C_PDU arrived with ARQ.
    pub(super) fn take_whole(&mut self, now: Instant, ends: Ends, c_pdu: Vec<u8>, expedited: bool) {
        let received = Received {
            from: None,
            source: ends.to,
            to: ends.from,
            arq: true,
            expedited,
            c_pdu,
            damaged: Vec::new(),
            missing: Vec::new(),
        };
        self.receive(now, received);
    }

    /// Delivers data received without ARQ: complete data, and data that didn't become so in its
    /// time.
    pub(super) fn advance(&mut self, now: Instant) {
        let mut all = Vec::new();
        for assembler in [&mut self.of_peers, &mut self.of_strangers] {
            assembler.forget(now);
            all.extend(core::iter::from_fn(|| assembler.poll()));
        }
        for came in all {
            let received = Received {
                from: None,
                source: came.from,
                to: came.to,
                arq: false,
                expedited: came.expedited,
                c_pdu: came.octets,
                damaged: came.damaged,
                missing: came.missing,
            };
            self.receive(now, received);
        }
    }

    /// Keeps client data, and nothing else.
    fn receive(&mut self, now: Instant, received: Received) {
        if matches!(CPdu::parse(&received.c_pdu), Some(CPdu::Data([_, ..]))) {
            self.received.push_back((now + self.delivery, received));
        }
    }

    /// The next C_PDU to be reported.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Received> {
        let (at, _) = self.received.front()?;
        if *at > now {
            return None;
        }
        self.received.pop_front().map(|(_, received)| received)
    }

    #[cfg(test)]
    pub(super) const fn broken_of_strangers(&self) -> u64 {
        self.of_strangers.broken
    }

    /// When the next one is to be reported.
    pub(super) fn tells_at(&self) -> Option<Instant> {
        self.received.front().map(|(at, _)| *at)
    }

    /// When [`Inbox::advance`] has something to do.
    pub(super) fn wake(&self) -> Option<Instant> {
        let both = [self.of_peers.wake(), self.of_strangers.wake()];
        both.into_iter().flatten().min()
    }
}
