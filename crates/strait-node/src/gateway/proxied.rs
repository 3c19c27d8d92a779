//! How sessions of the [proxy](crate::proxy) come to their partners: by packets of the gateway's
//! own, each of its stream's class.

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use strait_core::fate::Returned;
use strait_core::node::{Owner, SocketId, StreamEvent, StreamId, StreamOp};
use strait_core::{ClassId, Duration, Effect, Input, Instant, Packet, PortId};
use strait_dns::Meant;
use strait_mail::Bearer;
use strait_proxy::Open;
use strait_qos::Policy;
use strait_wire::ip::{PacketInfo, build_udp, protocol, udp_payload};

use super::own_address_at;
use super::services::Around;
use crate::config::{
    Connects, LinkProfile, NodeConfig, OWN_PACKET_OCTETS, PortConfig, PortKind, ProxyConfig,
    default_mtu,
};
use crate::proxy::{ClassView, HOP_LIMIT, LinkView, Proxy};
use crate::route::Hop;

/// The port of HTTPS, of TCP as of UDP.
const HTTPS: u16 = 443;
/// Octets of a packet that is full.
const FULL_OCTETS: u32 = 1280;

/// How long others that have sent by a link are expected to send again.
const OTHERS: Duration = Duration::from_secs(300);

/// What a link is to a session, whatever its rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carriage {
    /// It repeats by itself what it loses.
    repairs: bool,
    /// How long a turn is at most; zero where there are none.
    turn: Duration,
    /// What a turn has is chosen as it goes on, here.
    plans: bool,
    /// The largest packet of the gateway's own, if that may be longer than those of hosts.
    own_packet: Option<usize>,
}

impl Carriage {
    pub(super) fn of(port: &PortConfig) -> Self {
        let turn = port.turn();
        Self {
            repairs: turn.is_some() || port.profile == LinkProfile::Hbh,
            turn: turn.unwrap_or_default(),
            plans: matches!(port.kind, PortKind::Hf(_)),
            own_packet: matches!(port.kind, PortKind::Hf(_))
                .then_some(OWN_PACKET_OCTETS)
                .filter(|_| port.mtu.0 >= default_mtu().0),
        }
    }

    /// A link as it is now; `carriages` are those of all link ports.
    pub(super) fn view(carriages: &[Self], hop: Hop, around: &Around<'_>) -> Option<LinkView> {
        let queue = &around.ports.get(hop.port.index())?.queue;
        let carriage = carriages.get(hop.port.index().checked_sub(1)?)?;
        Some(LinkView {
            bit_s: queue.rate_to(hop.to).payload_bit_s(),
            mtu: carriage.own_packet.unwrap_or(queue.mtu),
            repairs: carriage.repairs,
            turn: carriage.turn,
            plans: carriage.plans,
            queued: queue.octets_to(hop.to),
            silent: queue.is_silent(hop.to),
            shared: false,
        })
    }
}

/// When clients are connected.
#[derive(Debug)]
struct Manners {
    config: ProxyConfig,
    /// By class of what they say: what asks for a connection often has another one.
    by_class: bool,
}

impl Manners {
    /// When a client is whose packets have these ends and code point.
    fn of(&self, policy: &Policy, (src, dst): (SocketAddr, SocketAddr), dscp: u8) -> Connects {
        if !self.by_class {
            return self.config.connects("");
        }
        let full = PacketInfo {
            src: src.ip(),
            dst: dst.ip(),
            protocol: protocol::TCP,
            dscp,
            ecn: 0,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            ports: Some((src.port(), dst.port())),
            spi: None,
            tcp_bare: None,
            octets: FULL_OCTETS,
            dont_fragment: true,
            later_fragment: false,
        };
        let class = policy.classify(&full).class;
        let class = policy.classes().get(class.index());
        self.config.connects(class.map_or("", |it| &it.name))
    }
}

/// The proxy, and what its packets need.
#[derive(Debug)]
pub(super) struct Proxied {
    proxy: Proxy,
    manners: Manners,
    /// By link port.
    carriages: Vec<Carriage>,
    /// Packets that came by links and weren't partners', and when the last of them did.
    others: (u64, Option<Instant>),
    /// Packets so far.
    ident: u16,
}

impl Proxied {
    pub(super) fn new(owner: Owner, proxy: &ProxyConfig, config: &NodeConfig, seed: u64) -> Self {
        let own = config.host.own().collect();
        let explicit = &proxy.explicit;
        let manners = Manners {
            config: proxy.clone(),
            by_class: !proxy.classes.is_empty(),
        };
        let mut proxy = Proxy::new(owner, proxy, own, seed);
        proxy.listen(&config.proxied(), explicit);
        Self {
            proxy,
            manners,
            carriages: config.ports.iter().map(Carriage::of).collect(),
            others: (0, None),
            ident: 0,
        }
    }

    /// Takes a packet of a partner's session, or gives it back.
    pub(super) fn take(
        &mut self,
        now: Instant,
        packet: Packet,
        from: Hop,
        around: &mut Around<'_>,
    ) -> Option<Packet> {
        let manner = (packet.info().dscp, packet.info().hop_limit);
        let find = |src| self.proxy.find(src);
        let (partner, bytes) = match around.heard(now, (packet, from), self.proxy.port(), find) {
            Ok(heard) => heard?,
            Err(packet) => return Some(packet),
        };
        let datagram = udp_payload(&bytes).map_or(&[][..], |(_, payload)| payload);
        self.proxy.hear_partner(now, partner, manner, datagram);
        around.ledger.keep_spare(bytes);
        None
    }

    /// Whether a packet of a host's is QUIC that is to be refused (RFC 9114 section 3.1: its port
    /// is that of HTTPS). `gateway` is that of a name that its address stands for.
    pub(super) fn refuses(
        &mut self,
        packet: &Packet,
        from: Hop,
        gateway: Option<IpAddr>,
        around: &Around<'_>,
    ) -> bool {
        let info = packet.info();
        let quic = info.protocol == protocol::UDP && info.ports.is_some_and(|it| it.1 == HTTPS);
        quic && around.hosts.contains(from.port) && self.proxy.refuses_quic(info.dst, gateway)
    }

    /// Something happened to a connection. `gateway_of` says behind which gateway the name is that
    /// an address stands for.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        input: &Input<'_>,
        policy: &Policy,
        gateway_of: impl Fn(IpAddr) -> Option<IpAddr>,
    ) {
        if let Input::Stream { id, event } = input {
            let how = match *event {
                StreamEvent::Asked { src, dst, dscp, .. } => {
                    let connects = self.manners.of(policy, (src, dst), dscp);
                    (gateway_of(dst.ip()), connects)
                }
                _ => (None, Connects::WhenAnswered),
            };
            self.proxy.hear_stream(now, *id, *event, how);
        }
    }

    /// Whether programs have asked for connections by a listener of the proxy's.
    pub(super) fn has_wishes(&self) -> bool {
        self.proxy.has_wishes()
    }

    /// Asks partners for these. `place_of` says where a name is.
    pub(super) fn grant_wishes(
        &mut self,
        now: Instant,
        around: &Around<'_>,
        place_of: impl FnMut(IpAddr, &str) -> Option<(IpAddr, Option<IpAddr>)>,
    ) {
        let is_near = |address| around.is_near(address);
        let manners = &self.manners;
        let connects = |open: &Open| {
            let ends = (open.ends.client, open.ends.server);
            manners.of(around.policy, ends, open.dscp)
        };
        self.proxy.grant_wishes(now, is_near, connects, place_of);
    }

    /// Whether partners' clients wait to be connected.
    pub(super) fn is_asked(&self) -> bool {
        self.proxy.is_asked()
    }

    /// Connects partners' clients. `meant` says whom a partner means by an address that stands for
    /// a name.
    pub(super) fn connect(
        &mut self,
        now: Instant,
        around: &Around<'_>,
        meant: impl FnMut(IpAddr, IpAddr) -> Option<Meant>,
    ) {
        let is_near = |address| around.is_near(address);
        self.proxy.connect_asked(now, is_near, meant);
    }

    /// Has sessions send what their links have room for.
    pub(super) fn settle(&mut self, now: Instant, around: &mut Around<'_>) {
        self.hear_returned(now, around);
        let ports = around.ports.iter_mut();
        ports.for_each(|port| port.queue.end_promises());
        let shared = self.is_shared(now, around);
        for (partner, address) in self.proxy.addresses().into_iter().enumerate() {
            let hop = around.link_to(address);
            let there = |hop: &Hop| around.ports[hop.port.index()].queue.reaches(hop.to);
            let hop = hop.filter(there);
            let link = hop.and_then(|hop| Carriage::view(&self.carriages, hop, around));
            let link = link.map(|link| LinkView { shared, ..link });
            if let Some((hop, link)) = hop.zip(link).filter(|(_, it)| !it.turn.is_zero()) {
                // An answer comes after a turn at the earliest: its queues are as for a round trip.
                let queue = &mut around.ports[hop.port.index()].queue;
                queue.set_trip_octets(link.queued_turn());
            }
            self.proxy.set_link(now, partner, link);
            self.proxy.tend(now, partner);
            let Some(hop) = hop.filter(|_| link.is_some()) else {
                continue;
            };
            for dscp in self.proxy.wants(now, partner) {
                self.send(now, (partner, address), hop, dscp, around);
            }
            let queue = &mut around.ports[hop.port.index()].queue;
            queue.promise(hop.to, self.proxy.promise(now, partner));
        }
        around.ledger.stats_mut().proxy = Some(self.proxy.stats());
    }

    /// Whether others than partners have sent by a link lately.
    fn is_shared(&mut self, now: Instant, around: &Around<'_>) -> bool {
        let links = around.ledger.stats().ports.iter().skip(1);
        let came: u64 = links.map(|it| it.presence.packets_in).sum();
        let others = came.saturating_sub(self.proxy.heard());
        if others > self.others.0 {
            self.others = (others, Some(now));
        }
        self.others.1.is_some_and(|at| now.since(at) < OTHERS)
    }

    /// Links gave up datagrams of sessions.
    fn hear_returned(&mut self, now: Instant, around: &mut Around<'_>) {
        around.ledger.watch(self.proxy.port());
        for Returned { bytes, left } in around.ledger.take_returned() {
            let to = PacketInfo::parse(&bytes).ok().map(|info| info.dst);
            let partner = to.and_then(|to| self.proxy.find(to));
            if let Some((partner, (_, datagram))) = partner.zip(udp_payload(&bytes)) {
                self.proxy.hear_returned(now, partner, datagram, left);
            }
            around.ledger.keep_spare(bytes);
        }
    }

    /// Sends a session's datagrams of a code point.
    fn send(
        &mut self,
        now: Instant,
        (partner, to): (usize, IpAddr),
        hop: Hop,
        dscp: u8,
        around: &mut Around<'_>,
    ) {
        let port = self.proxy.port();
        let Some(own) = own_address_at(around.own, PortId::HOST, to) else {
            return;
        };
        let ends = (SocketAddr::new(own, port), SocketAddr::new(to, port));
        let Some(class) = class_of(around.policy, ends, dscp) else {
            return;
        };
        loop {
            let queue = &around.ports[hop.port.index()].queue;
            let view = ClassView {
                queued: queue.octets_of(hop.to, class),
                queued_max: queue.octets_max(class),
            };
            let Some(datagram) = self.proxy.poll(now, partner, dscp, view) else {
                return;
            };
            self.ident = self.ident.wrapping_add(1);
            if let Some(packet) = packet(ends, dscp, self.ident, &datagram) {
                around.send(now, packet, hop);
            }
        }
    }

    /// The gateway's own message switch listens here.
    pub(super) fn adopt(&mut self, listeners: Vec<(SocketAddr, SocketId)>) {
        self.proxy.adopt(listeners);
    }

    /// What carries lanes to the switch of the gateway at this address.
    pub(super) fn bearer(&self, now: Instant, address: IpAddr) -> Bearer {
        self.proxy.bearer(now, address)
    }

    /// The switch does something with a stream of its own.
    pub(super) fn operate_inner(&mut self, now: Instant, id: StreamId, op: &StreamOp) {
        self.proxy.operate_inner(now, id, op);
    }

    /// What is to happen to a stream of the switch's, if an effect is about one.
    pub(super) fn happens<'a>(&self, effect: &'a Effect) -> Option<(StreamId, StreamEvent<'a>)> {
        self.proxy.happens(effect)
    }

    pub(super) fn poll_effect(&mut self) -> Option<Effect> {
        self.proxy.poll_effect()
    }

    pub(super) fn wake(&self) -> Option<Instant> {
        self.proxy.wake()
    }

    pub(super) fn check(&self) {
        self.proxy.check();
    }
}

pub(super) fn packet(
    (src, dst): (SocketAddr, SocketAddr),
    dscp: u8,
    ident: u16,
    datagram: &[u8],
) -> Option<Vec<u8>> {
    let mut packet = Vec::new();
    let built = build_udp(src, dst, dscp, HOP_LIMIT, ident, 0, datagram, &mut packet);
    built.then_some(packet)
}

/// The class of a session's packets with a code point.
fn class_of(policy: &Policy, ends: (SocketAddr, SocketAddr), dscp: u8) -> Option<ClassId> {
    let packet = packet(ends, dscp, 0, &[])?;
    let info = PacketInfo::parse(&packet).ok()?;
    Some(policy.classify(&info).class)
}
