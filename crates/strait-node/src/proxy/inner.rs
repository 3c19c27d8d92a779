//! Streams of the gateway's own message switch: of both gateways no kernel knows of them. What the
//! switch does with its stream, and what happens to that, is what a host's connection does and has
//! happen to it.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::node::{Held, SocketId, StreamEvent, StreamId, StreamOp};
use strait_core::{Duration, Effect, Instant};
use strait_mail::{Bearer, OF_SESSION};
use strait_proxy::{Ends, Key, Open};

use super::locals::Phase;
use super::{
    CREDIT_OCTETS_MIN, Connects, PERMISSION_DENIED, Proxy, Side, TIMED_OUT, TRY_AGAIN, nobody_like,
};

/// How long a link is there before a partner that hasn't been heard counts as one without a
/// session, beside what an answer takes.
pub(super) const AWAITED: Duration = Duration::from_secs(20);
/// The first number of the switch's streams that partners open.
const FIRST: u64 = OF_SESSION;

/// The switch's part of a proxy.
#[derive(Debug, Default)]
pub(super) struct Inner {
    /// Where it listens for other switches.
    listeners: Vec<(SocketAddr, SocketId)>,
    opened: u64,
}

impl Proxy {
    /// A message switch of this gateway listens here.
    pub(crate) fn adopt(&mut self, listeners: Vec<(SocketAddr, SocketId)>) {
        self.inner.listeners = listeners;
    }

    /// What carries lanes to the switch of the gateway at this address.
    pub(crate) fn bearer(&self, now: Instant, address: IpAddr) -> Bearer {
        let partner = self.find(address);
        partner.map_or(Bearer::Tcp, |it| self.partners[it].bearer(now))
    }

    /// The switch does something with a stream of its own.
    pub(crate) fn operate_inner(&mut self, now: Instant, id: StreamId, op: &StreamOp) {
        let event = match op {
            StreamOp::Connect {
                dst, dscp, held, ..
            } => return self.begin_inner(now, id, (*dst, *dscp), *held),
            StreamOp::Send(octets) => StreamEvent::Data(octets),
            StreamOp::Credit(octets) => StreamEvent::Writable(*octets),
            StreamOp::Fin => StreamEvent::Fin,
            StreamOp::Reset(error) => StreamEvent::Reset(*error),
            _ => return,
        };
        self.hear_stream(now, id, event, (None, Connects::WhenAnswered));
    }

    fn begin_inner(&mut self, now: Instant, id: StreamId, to: (SocketAddr, u8), held: Held) {
        let (server, dscp) = to;
        // It comes from this gateway's own address.
        let client = nobody_like(server);
        let ends = Ends { client, server };
        let open = Open { ends, dscp };
        let key = self.find(server.ip()).and_then(|partner| {
            let key = self.partners[partner].session.open(now, open);
            Some((partner, key.ok()?))
        });
        let Some((partner, key)) = key else {
            return self.operate(id, StreamOp::Reset(i32::from(TRY_AGAIN)));
        };
        self.locals.add(now, id, partner, key, Phase::Asked);
        self.limit(id, held, dscp);
    }

    fn limit(&mut self, id: StreamId, held: Held, dscp: u8) {
        if let Some(local) = self.locals.one_mut(id) {
            local.lane = Some((u64::from(held.outbound), dscp));
            self.partners[local.partner].add_lane(dscp);
        }
    }

    /// Gives a partner's switch its stream to the one here; false if it wants somebody else.
    pub(super) fn accept_inner(&mut self, now: Instant, of: (usize, Key), open: Open) -> bool {
        let Open { ends, dscp } = open;
        let Some((_, listener)) = self.listener(ends.server) else {
            return false;
        };
        let id = StreamId {
            owner: listener.owner,
            side: Side::Client,
            n: FIRST + self.inner.opened,
        };
        self.inner.opened += 1;
        self.locals.add(now, id, of.0, of.1, Phase::Connecting);
        let held = Held::ORDINARY;
        self.limit(id, held, dscp);
        let src = SocketAddr::new(self.partners[of.0].address, 0);
        let op = StreamOp::Connect {
            src: Some(src),
            dst: ends.server,
            dscp,
            held,
        };
        self.operate(id, op);
        self.open_inner(now, id);
        true
    }

    /// A stream of the switch's is there.
    pub(super) fn open_inner(&mut self, now: Instant, id: StreamId) {
        let nobody = nobody_like(SocketAddr::from(([0; 4], 0)));
        let event = StreamEvent::Opened {
            listener: None,
            src: nobody,
            dst: nobody,
            dscp: 0,
        };
        self.hear_stream(now, id, event, (None, Connects::WhenAnswered));
    }

    fn listener(&self, at: SocketAddr) -> Option<(SocketAddr, SocketId)> {
        let mut listeners = self.inner.listeners.iter().copied();
        listeners.find(|(address, _)| *address == at)
    }

    /// What is to happen to a stream of the switch's, if an effect is about one.
    pub(crate) fn happens<'a>(&self, effect: &'a Effect) -> Option<(StreamId, StreamEvent<'a>)> {
        let Effect::Stream { id, op } = effect else {
            return None;
        };
        if id.owner == self.owner {
            return None;
        }
        let opened = |src: SocketAddr, dst: SocketAddr, dscp: u8| StreamEvent::Opened {
            listener: self.listener(dst).map(|(_, id)| id),
            src,
            dst,
            dscp,
        };
        let event = match op {
            StreamOp::Connect { src, dst, dscp, .. } => {
                opened(src.unwrap_or_else(|| nobody_like(*dst)), *dst, *dscp)
            }
            StreamOp::Accept => {
                let nobody = nobody_like(SocketAddr::from(([0; 4], 0)));
                opened(nobody, nobody, 0)
            }
            StreamOp::Send(octets) => StreamEvent::Data(octets),
            StreamOp::Credit(octets) => StreamEvent::Writable(*octets),
            StreamOp::Fin => StreamEvent::Fin,
            StreamOp::Reset(error) => StreamEvent::Reset(*error),
            _ => StreamEvent::Reset(i32::from(TIMED_OUT)),
        };
        Some((*id, event))
    }

    /// The partner has no switch for streams, or an earlier version.
    pub(super) fn note_refusal(&mut self, id: StreamId, partner: usize, error: u16) {
        if id.owner != self.owner && error == PERMISSION_DENIED {
            self.partners[partner].note_no_switch();
        }
    }
}

/// Octets that a switch may give its stream beside those that wait in the session. It hears exactly
/// when nothing waits any more: what is less urgent goes then.
pub(super) fn credit(window: u64, credited: u64, waiting: u64, room: u64) -> u64 {
    let more = window.saturating_sub(credited + waiting);
    match waiting == 0 || more >= CREDIT_OCTETS_MIN {
        true if room > 0 => more,
        _ => 0,
    }
}
