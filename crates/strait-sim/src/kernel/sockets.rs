//! The sockets that a gateway has declared.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use strait_core::node::{
    Bind, DatagramMeta, Listen, SocketEvent, SocketId, SocketOp, StreamId, StreamOp,
};
use strait_core::{Duration, Instant};
use strait_wire::ip::{PacketInfo, build_udp, udp_payload};

use super::streams::Ends;
use super::{
    ADDRESS_IN_USE, ADDRESS_NOT_AVAILABLE, Around, Happening, Kernel, MTU, NETWORK_UNREACHABLE,
    Report,
};

/// Pause before an address that can't be had is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Ports that are given to those who want any (Linux's default range).
pub(super) const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;

#[derive(Clone, Copy, Debug)]
pub(super) enum Wish {
    Listen(Listen),
    Bind(Bind),
}

impl Wish {
    const fn address(&self) -> SocketAddr {
        match self {
            Self::Listen(listen) => listen.address,
            Self::Bind(bind) => bind.address,
        }
    }

    const fn transparent(&self) -> bool {
        match self {
            Self::Listen(listen) => listen.transparent,
            Self::Bind(bind) => bind.transparent,
        }
    }
}

#[derive(Debug)]
struct Socket {
    wish: Wish,
    /// Where it is, or what keeps it away.
    bound: Result<SocketAddr, i32>,
    retry_at: Instant,
}

impl Socket {
    const fn event(&self) -> SocketEvent {
        match self.bound {
            Ok(address) => SocketEvent::Bound(address),
            Err(error) => SocketEvent::Failed(error),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Sockets(BTreeMap<SocketId, Socket>);

impl Sockets {
    fn open(&mut self, now: Instant, id: SocketId, wish: Wish, around: &Around) -> SocketEvent {
        self.0.remove(&id);
        let socket = Socket {
            bound: self.place(&wish, around),
            wish,
            retry_at: now + PAUSE,
        };
        let event = socket.event();
        self.0.insert(id, socket);
        event
    }

    /// The address that a socket gets, or why it gets none.
    fn place(&self, wish: &Wish, around: &Around) -> Result<SocketAddr, i32> {
        let (ip, port) = (wish.address().ip(), wish.address().port());
        let own = around.is_own(ip);
        if !(own || ip.is_loopback() || ip.is_unspecified() || wish.transparent()) {
            return Err(ADDRESS_NOT_AVAILABLE);
        }
        let taken = |port: u16| {
            self.0.values().any(|other| {
                let same = matches!(
                    (&other.wish, wish),
                    (Wish::Listen(_), Wish::Listen(_)) | (Wish::Bind(_), Wish::Bind(_))
                );
                let meets = other.bound.is_ok_and(|it| {
                    let all = it.ip().is_unspecified() || ip.is_unspecified();
                    it.port() == port && (all || it.ip() == ip)
                });
                same && meets
            })
        };
        let free = match port {
            0 => EPHEMERAL.into_iter().find(|port| !taken(*port)),
            port => Some(port).filter(|port| !taken(*port)),
        };
        let port = free.ok_or(ADDRESS_IN_USE)?;
        Ok(SocketAddr::new(ip, port))
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        let waiting = self.0.values().filter(|it| it.bound.is_err());
        waiting.map(|it| it.retry_at).min()
    }

    /// Tries again to have those whose time has come; what has changed.
    pub(super) fn try_again(
        &mut self,
        now: Instant,
        around: &Around,
    ) -> Vec<(SocketId, SocketEvent)> {
        let due = self.0.iter();
        let due = due.filter(|(_, it)| it.bound.is_err() && it.retry_at <= now);
        let due: Vec<SocketId> = due.map(|(id, _)| *id).collect();
        let mut changed = Vec::new();
        for id in due {
            let Some(socket) = self.0.get(&id) else {
                continue;
            };
            let (wish, before) = (socket.wish, socket.event());
            let event = self.open(now, id, wish, around);
            if event != before {
                changed.push((id, event));
            }
        }
        changed
    }

    /// A transparent listener: what is for others may end here.
    pub(super) fn takes_foreign_streams(&self) -> bool {
        self.0.values().any(|it| {
            it.bound.is_ok() && matches!(it.wish, Wish::Listen(listen) if listen.transparent)
        })
    }

    /// Who takes streams to an address: who listens there, before who takes all.
    pub(super) fn listener(&self, to: SocketAddr) -> Option<(SocketId, Listen)> {
        let find = |fits: &dyn Fn(&Listen, SocketAddr) -> bool| {
            self.0.iter().find_map(|(id, socket)| match socket.wish {
                Wish::Listen(listen) if fits(&listen, socket.bound.ok()?) => Some((*id, listen)),
                _ => None,
            })
        };
        let at = |_: &Listen, bound: SocketAddr| {
            bound.port() == to.port() && (bound.ip() == to.ip() || covers(bound, to))
        };
        find(&at).or_else(|| find(&|listen, _| listen.transparent))
    }

    /// What is wanted of a listener that is there.
    pub(super) fn listens(&self, id: SocketId) -> Option<Listen> {
        let socket = self.0.get(&id).filter(|it| it.bound.is_ok())?;
        match socket.wish {
            Wish::Listen(listen) => Some(listen),
            Wish::Bind(_) => None,
        }
    }

    /// Who takes a datagram.
    pub(super) fn owner(&self, info: &PacketInfo) -> Option<SocketId> {
        let to = SocketAddr::new(info.dst, info.ports?.1);
        let find = |fits: &dyn Fn(&Bind, SocketAddr) -> bool| {
            self.0.iter().find_map(|(id, socket)| match socket.wish {
                Wish::Bind(bind) if fits(&bind, socket.bound.ok()?) => Some(*id),
                _ => None,
            })
        };
        let at = |bind: &Bind, bound: SocketAddr| {
            let member = bind.group == Some(to.ip());
            let there = bound.ip() == to.ip() || covers(bound, to);
            bound.port() == to.port() && (member || there && !to.ip().is_multicast())
        };
        let all = |bind: &Bind, _| bind.transparent && !to.ip().is_multicast();
        find(&at).or_else(|| find(&all))
    }

    /// A datagram, with who takes it.
    pub(super) fn datagram<'a>(
        &self,
        info: &PacketInfo,
        bytes: &'a [u8],
    ) -> Option<(SocketId, DatagramMeta, &'a [u8])> {
        let id = self.owner(info)?;
        let ((from, to), payload) = udp_payload(bytes)?;
        let meta = DatagramMeta {
            src: SocketAddr::new(info.src, from),
            dst: SocketAddr::new(info.dst, to),
            dscp: info.dscp,
            hop_limit: info.hop_limit,
        };
        Some((id, meta, payload))
    }

    /// The source of what a socket sends, if it is there.
    fn source(&self, id: SocketId, meta: &DatagramMeta, around: &Around) -> Option<SocketAddr> {
        let socket = self.0.get(&id)?;
        let (Wish::Bind(bind), Ok(bound)) = (socket.wish, socket.bound) else {
            return None;
        };
        if bind.transparent {
            return Some(meta.src);
        }
        if !bound.ip().is_unspecified() {
            return Some(bound);
        }
        let own = around.source(meta.dst.ip())?;
        Some(SocketAddr::new(own, bound.port()))
    }
}

/// Whether a socket at all addresses of its family takes what is for this one.
const fn covers(bound: SocketAddr, to: SocketAddr) -> bool {
    bound.ip().is_unspecified() && bound.is_ipv4() == to.is_ipv4()
}

impl Kernel {
    /// Does what the gateway wants of a socket.
    pub(crate) fn open(&mut self, now: Instant, id: SocketId, op: SocketOp) {
        let wish = match op {
            SocketOp::Listen(listen) => Wish::Listen(listen),
            SocketOp::Bind(bind) => Wish::Bind(bind),
            SocketOp::Close => {
                self.sockets.0.remove(&id);
                self.streams.close_backlog(id);
                return self.pump(now);
            }
        };
        let event = self.sockets.open(now, id, wish, &self.around);
        self.reports.push(Report::Socket(id, event));
    }

    /// Sends a datagram of the gateway's. One that no packet takes is refused: hosts here don't put
    /// fragments together.
    pub(crate) fn send_datagram(
        &mut self,
        now: Instant,
        id: SocketId,
        meta: DatagramMeta,
        bytes: &[u8],
    ) {
        let Some(src) = self.sockets.source(id, &meta, &self.around) else {
            return;
        };
        self.ident = self.ident.wrapping_add(1);
        let (dscp, hops) = (meta.dscp, meta.hop_limit);
        let mut packet = Vec::new();
        let built = build_udp(src, meta.dst, dscp, hops, self.ident, 0, bytes, &mut packet);
        if built && packet.len() <= MTU {
            self.send(now, packet);
            self.pump(now);
        }
    }

    /// Does what the gateway wants of a stream.
    pub(crate) fn operate(&mut self, now: Instant, id: StreamId, op: StreamOp) {
        if let StreamOp::Connect {
            src,
            dst,
            dscp,
            held,
        } = op
        {
            let asked = self.local(src, dst).and_then(|local| {
                let ends = Ends { local, remote: dst };
                self.streams.connect(now, id, ends, dscp, held)
            });
            if let Err(error) = asked {
                let report = Report::Stream(id, Happening::Reset(error));
                self.reports.push(report);
            }
        } else if !self.answer(now, id, &op) {
            self.streams.operate(id, op, &self.profiles);
        }
        self.pump(now);
    }

    /// The near end of a connection that the gateway asks for.
    fn local(&mut self, src: Option<SocketAddr>, dst: SocketAddr) -> Result<SocketAddr, i32> {
        let around = &self.around;
        let there = self.is_own(dst.ip()) || around.port_of(dst.ip()).is_some();
        // Who would be on a network, and isn't there, answers no question for his address.
        if !there && around.network(dst.ip()).is_some() {
            return Err(super::HOST_UNREACHABLE);
        }
        let port = src.map_or(0, |src| src.port());
        let ip = match src {
            Some(src) if !src.ip().is_unspecified() => src.ip(),
            _ if dst.ip().is_loopback() => dst.ip(),
            _ => around.source(dst.ip()).ok_or(NETWORK_UNREACHABLE)?,
        };
        // Where a stream goes from that port to the same place, it is another port.
        let local = SocketAddr::new(ip, port);
        if port != 0 && !self.streams.knows(Ends { local, remote: dst }) {
            return Ok(local);
        }
        // One behind the other: where the far end hasn't heard of a connection's end, the next one
        // from the same port would be taken for it.
        let ports = (self.next_port..=*EPHEMERAL.end()).chain(EPHEMERAL);
        let mut all = ports.map(|port| SocketAddr::new(ip, port));
        let free = all.find(|local| {
            let ends = Ends {
                local: *local,
                remote: dst,
            };
            !self.streams.knows(ends)
        });
        let free = free.ok_or(ADDRESS_NOT_AVAILABLE)?;
        self.next_port = free.port() + 1;
        Ok(free)
    }
}
