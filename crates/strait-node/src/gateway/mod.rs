//! A gateway: packets in by one port, classified, queued, and out by another when the medium has
//! room for them.

mod agree;
mod circles;
mod dns;
mod factory;
mod far;
mod headers;
mod hops;
mod lan;
mod leads;
mod local;
mod mail;
mod olsr;
mod port;
mod port_set;
mod proxied;
mod remember;
mod services;
mod settling;
mod sources;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use strait_core::error_limit::ErrorLimit;
use strait_core::fate::{Ledger, Memory, Origin};
use strait_core::flow::Flow;
use strait_core::mail::MailView;
use strait_core::names::NameEntry;
use strait_core::node::{Boot, Command, FrameMeta, Owner, PortEvent, RouteChange, StoreOp, Ticket};
use strait_core::prefix::Prefix;
use strait_core::stats::{Agreement, Stats};
use strait_core::{
    DropCause, Effect, Fate, Input, Instant, NeighbourId, Node, Packet, PortId, Room, TxMeta, Wake,
    WakeReason, Want,
};
use strait_qos::Policy;
use strait_wire::ip::{self, Chatter, IcmpError, Unreachable, protocol};

#[cfg(test)]
mod tests;

use self::circles::Circles;
pub use self::factory::{GatewayFactory, Policies};
use self::factory::{seed, stats};
pub(crate) use self::headers::{GROWTH_OCTETS_MAX, NOTE_OCTETS_MAX};
use self::hops::Egress;
use self::lan::Lan;
use self::leads::Leads;
use self::port::{Frame, Onward, Port, Told};
use self::port_set::PortSet;
pub use self::services::MAIL;
use self::services::{Around, Services};
use self::settling::Settling;
use crate::answers::Answers;
use crate::config::{DnsConfig, HostConfig, HostKind, InvalidConfig, NodeConfig, Routing};
use crate::route::{Hop, Routes, is_of_the_link};

/// The first host side as a way: where goes what came by a link and has no route.
const HOST: Hop = host_side(PortId::HOST);

/// A host side as a way.
const fn host_side(port: PortId) -> Hop {
    let to = NeighbourId::PEER;
    Hop { port, to }
}

/// What stable storage holds: keys and how many octets are behind them.
type Stored<'a> = &'a [(Vec<u8>, u64)];

/// One gateway. What each packet meets comes first, in the order in which it lies in memory: among
/// many gateways it is in no cache of the processor's.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Gateway {
    /// Ports that may have something to do. The others are at rest: nothing looks at them.
    busy: PortSet,
    /// Host sides.
    hosts: PortSet,
    /// A host side, the links in the order of the configuration, and further host sides.
    ports: Vec<Port>,
    policy: Arc<Policy>,
    answers: Answers,
    routes: Routes,
    /// The host sides' addresses: the node's own.
    own: Vec<(Prefix, PortId)>,
    /// The host sides on Ethernets.
    lans: Vec<PortId>,
    /// Where packets from the host side go that no route matches.
    default: Option<Hop>,
    has_several_hosts: bool,
    stopping: bool,
    /// Routes are those of the configuration.
    fixed: bool,
    /// A port remembers flows.
    remembers: bool,
    /// Ports that are asked what came of an input; none, where links tell at once.
    settling: Option<Box<Settling>>,
    services: Services,
    /// What left networks of reliable hops here, where there are such.
    egress: Option<Box<Egress>>,
    /// What came lately, where an Ethernet may bring it back.
    circles: Option<Box<Circles>>,
    /// What is asked of stable storage, until the driver takes it.
    stores: VecDeque<Effect>,
    /// What the host reaches by it.
    leads: Leads,
    ledger: Ledger,
    /// Ports whose links are made reliable.
    reliable: PortSet,
    /// Networks at host sides.
    near: Vec<(Prefix, PortId)>,
    errors: ErrorLimit,
    /// Numbers for storage so far.
    tickets: u64,
}

impl Gateway {
    /// A gateway as configured; every port is down until the driver says otherwise. Its own chance,
    /// where it needs any, is that of a first start without entropy.
    pub fn new(config: &NodeConfig) -> Result<Self, InvalidConfig> {
        Self::seeded(config, seed(&Boot::default()), &[])
    }

    /// The same with its chance following from `seed`, and what storage holds.
    fn seeded(config: &NodeConfig, seed: u64, stored: Stored<'_>) -> Result<Self, InvalidConfig> {
        let policy = Policies::default().compile(config)?;
        Self::with_policy(config, policy, seed, stored)
    }

    /// The same of a configuration that is right, with its policy.
    fn with_policy(
        config: &NodeConfig,
        policy: Arc<Policy>,
        seed: u64,
        stored: Stored<'_>,
    ) -> Result<Self, InvalidConfig> {
        config.check_classes(&policy)?;
        let mut ports = Vec::new();
        for (id, side) in config.host_sides() {
            let lan = Lan::new(config, id, side);
            ports.push(Port::host(id, side, lan, &policy, seed));
        }
        if config.has_hops() {
            // Such links hand on at once all that has waited for a lost packet of its flow.
            let queues = ports.iter_mut().map(|port| &mut port.queue);
            queues.for_each(|queue| queue.set_trip_octets(u64::MAX));
        }
        let further = ports.split_off(1);
        for (index, port) in config.ports.iter().enumerate() {
            ports.push(Port::link(PortId(index as u8 + 1), port, &policy, seed));
        }
        ports.extend(further);
        let sides = config.host_sides();
        let own = |(id, side): (PortId, &HostConfig)| {
            let own = side.addresses.clone().into_iter();
            own.map(move |own| (own, id))
        };
        let is_stored = |key: &[u8]| stored.binary_search_by(|it| (*it.0).cmp(key)).is_ok();
        let loads = ports.iter_mut().flat_map(|port| {
            let segments = port.link.segments_mut();
            segments.map_or_else(Vec::new, |it| it.load(port.id, is_stored))
        });
        let stores: VecDeque<Effect> = loads.collect();
        let reliable = ports.iter().filter(|port| port.link.is_reliable());
        Ok(Self {
            ledger: Ledger::new(stats(config, &policy)),
            routes: routes(config)?,
            default: config.has_default_way().then_some(Hop {
                port: PortId(1),
                to: NeighbourId::PEER,
            }),
            policy,
            busy: PortSet::first(ports.len()),
            settling: Settling::of(&ports),
            reliable: reliable.map(|port| port.id).collect(),
            hosts: sides.clone().map(|(id, _)| id).collect(),
            has_several_hosts: !config.host.further.is_empty(),
            lans: ports
                .iter()
                .filter(|port| port.link.lan().is_some())
                .map(|port| port.id)
                .collect(),
            ports,
            own: sides.clone().flat_map(own).collect(),
            near: sides.clone().flat_map(sources::near).collect(),
            errors: ErrorLimit::default(),
            answers: Answers::new(&config.answers)?,
            stopping: false,
            egress: config.has_hops().then(Box::default),
            circles: sides
                .clone()
                .any(|(_, side)| side.kind == HostKind::Tap)
                .then(Box::default),
            fixed: config.routing == Routing::Static && config.olsr.is_none(),
            remembers: config.ports.iter().any(|port| port.remember_flows),
            // No store has the number of a load.
            tickets: stores.len() as u64,
            stores,
            services: Services::new(config, seed, stored),
            leads: Leads::new(sides, config.dns().and_then(DnsConfig::ahead_here)),
        })
    }

    /// Has stored what its links remember.
    fn store(&mut self, now: Instant) {
        if !self.remembers {
            return;
        }
        for port in &mut self.ports {
            let segments = port.link.segments_mut();
            if let Some((key, value)) = segments.and_then(|it| it.headers.take_store(now)) {
                self.tickets += 1;
                self.stores.push_back(Effect::Store {
                    ticket: Ticket {
                        owner: Owner::port(port.id),
                        n: self.tickets,
                    },
                    batch: alloc::vec![StoreOp::Put(key, value)],
                });
            }
        }
    }

    /// Takes a packet that is whole, from wherever it came.
    fn take_packet(&mut self, now: Instant, bytes: Vec<u8>, from: Hop) {
        if let Ok(packet) = self.ledger.admit(now, bytes, Origin::Port(from.port)) {
            self.take_admitted(now, packet, from);
        }
    }

    /// Takes a packet whose account is open.
    fn take_admitted(&mut self, now: Instant, mut packet: Packet, from: Hop) {
        let ingress = self.ports[from.port.index()].queue.ingress;
        if !self.policy.trusts(ingress) {
            packet.set_dscp(0);
        }
        let verdict = self.policy.classify_from(packet.info(), ingress);
        packet.class = verdict.class;
        if verdict.filter {
            return self.ledger.drop(now, packet, DropCause::Filtered);
        }
        let Some(packet) = olsr::hear_router(self, now, packet, from) else {
            return;
        };
        let chatter = Chatter::of(packet.bytes(), packet.info())
            .filter(|kind| *kind != Chatter::LinkRouting || self.has_ethernet());
        let Some(packet) = self.keep_off(now, packet, chatter, Some(from)) else {
            return;
        };
        if self.has_wrong_source(&packet, chatter, from) {
            return self.ledger.drop(now, packet, DropCause::WrongSource);
        }
        if !self.carries(&packet, from.port) {
            return self.ledger.drop(now, packet, DropCause::NotCarried);
        }
        let (services, mut around) = self.services();
        let Some(packet) = services.take(now, packet, from, &mut around) else {
            return;
        };
        if services.refuses(&packet, from, &around) {
            // Systems tell a program of this error at once (ECONNREFUSED), and not of others.
            let error = IcmpError::Unreachable(Unreachable::Port);
            return self.refuse(now, packet, DropCause::Filtered, error, from);
        }
        if self.is_for_station(&packet) {
            return self.take_own(now, packet, from);
        }
        let hop = self.way(&packet, from);
        // What is said on one network means nothing on another one.
        let outlet = hop.filter(|hop| !self.is_between_hosts(from, *hop));
        let Some(mut packet) = self.keep_off(now, packet, chatter, outlet) else {
            return;
        };
        if self.stays_on_link(&packet, from, hop) {
            return self.ledger.drop(now, packet, DropCause::NoRoute);
        }
        let Some(hop) = hop else {
            let error = IcmpError::Unreachable(Unreachable::NoRoute);
            return self.refuse(now, packet, DropCause::NoRoute, error, from);
        };
        if self.comes_back(now, &packet, from.port) {
            return self.ledger.drop(now, packet, DropCause::Duplicate);
        }
        if let Some(mark) = verdict.mark {
            packet.set_dscp(mark);
        }
        if self.counts_hop(&packet, from, hop) && !packet.decrement_hop_limit() {
            return self.refuse(
                now,
                packet,
                DropCause::HopLimit,
                IcmpError::TimeExceeded,
                from,
            );
        }
        self.learn(now, &packet, from);
        let Some(mut packet) = self.answer(now, packet, hop, from) else {
            return;
        };
        if self.is_second(&packet, hop) {
            return self.ledger.drop(now, packet, DropCause::Duplicate);
        }
        self.clamp_mss(&mut packet, from.port, hop.port);
        (packet.to, packet.onward) = (hop.to, self.routes.beyond(packet.info().dst));
        let told = Told {
            bit_s: verdict.rate_bit_s,
            observed: self.policy.observed().filter(|_| !verdict.ruled),
        };
        let port = &mut self.ports[hop.port.index()];
        if !port.admits(now, &mut packet, told, &mut self.ledger) {
            return self.turn_away(now, packet, hop, from);
        }
        self.note_outlet(&packet, hop, from);
        self.send(now, packet, hop, from);
    }

    /// Where a packet goes. What came by a link and has no route of its own is for the first host
    /// side; nothing goes back to where it came from, or to a host side that isn't there: it would
    /// wait for ever, and hold up all that neighbours send.
    fn way(&mut self, packet: &Packet, from: Hop) -> Option<Hop> {
        let dst = packet.info().dst;
        let from_host = self.is_host(from);
        let unrouted = if from_host { self.default } else { Some(HOST) };
        // What stands for a name leads to the gateway near that.
        let (services, around) = self.services();
        let ahead = services.gateway_of(dst);
        let ahead = ahead.map(|gateway| gateway.and_then(|it| around.link_to(it)));
        let is_own = |(own, side): &&(Prefix, PortId)| own.address == dst && *side != from.port;
        let own = (!from_host || self.has_several_hosts)
            .then(|| self.own.iter().find(is_own))
            .flatten();
        let hop = match own {
            Some((_, side)) => Some(host_side(*side)),
            None => match ahead {
                Some(hop) => hop,
                None => self.routes.lookup_often(dst).or(unrouted),
            },
        };
        let is_there =
            |hop: &Hop| !self.is_host(*hop) || self.ports[hop.port.index()].queue.is_up();
        hop.filter(|hop| *hop != from && is_there(hop))
    }

    /// Whether a way is a host side.
    const fn is_host(&self, hop: Hop) -> bool {
        self.hosts.contains(hop.port)
    }

    const fn is_between_hosts(&self, from: Hop, to: Hop) -> bool {
        self.is_host(from) && self.is_host(to)
    }

    /// Where the sender of a packet is told of what becomes of it later: at the host side by which
    /// it came.
    fn side_of(&self, packet: &Packet) -> Option<Hop> {
        match packet.origin() {
            Origin::Port(port) => Some(host_side(port)).filter(|side| self.is_host(*side)),
            Origin::Own => None,
        }
    }

    /// The narrower of the two sides limits the segments of a connection through them.
    fn clamp_mss(&self, packet: &mut Packet, from: PortId, to: PortId) {
        if packet.info().protocol != protocol::TCP {
            return;
        }
        let v6 = packet.info().src.is_ipv6();
        let sides = [from, to]
            .into_iter()
            .filter_map(|port| self.ports[port.index()].queue.mss_max(v6));
        if let Some(mss_max) = sides.min() {
            packet.clamp_mss(mss_max);
        }
    }

    /// Whether packets of this one's version of IP cross a port.
    fn carries(&self, packet: &Packet, port: PortId) -> bool {
        packet.info().dst.is_ipv4() || self.ports[port.index()].queue.carries_v6
    }

    /// Queues a packet at the port it leaves by, cut or refused if it is too big for it, and
    /// refused if it isn't for such packets at all.
    fn send(&mut self, now: Instant, packet: Packet, hop: Hop, from: Hop) {
        if !self.carries(&packet, hop.port) {
            let error = IcmpError::Unreachable(Unreachable::NoRoute);
            return self.refuse(now, packet, DropCause::NotCarried, error, from);
        }
        let mtu = self.ports[hop.port.index()].queue.mtu;
        if packet.octets() <= mtu {
            return self.enqueue(now, packet, hop.port);
        }
        if packet.info().dont_fragment {
            let error = IcmpError::PacketTooBig { mtu: mtu as u32 };
            return self.refuse(now, packet, DropCause::TooBig, error, from);
        }
        match ip::fragment_ipv4(packet.bytes(), mtu) {
            Ok(fragments) => {
                let (class, to) = (packet.class, packet.to);
                self.ledger.close(now, packet, Fate::Fragmented);
                for bytes in fragments {
                    let Ok(mut fragment) = self.ledger.admit(now, bytes, Origin::Own) else {
                        continue;
                    };
                    (fragment.class, fragment.to) = (class, to);
                    self.enqueue(now, fragment, hop.port);
                }
            }
            Err(_) => self.ledger.drop(now, packet, DropCause::TooBig),
        }
    }

    /// Destroys a packet of a call that the line can't carry.
    fn turn_away(&mut self, now: Instant, packet: Packet, hop: Hop, from: Hop) {
        let cause = DropCause::NotAdmitted;
        if !self.ports[hop.port.index()].queue.calls.tells_callers() {
            return self.ledger.drop(now, packet, cause);
        }
        let error = IcmpError::Unreachable(Unreachable::AdminProhibited);
        self.refuse(now, packet, cause, error, from);
    }

    /// Destroys a packet and tells its sender, who is behind the port `from`.
    fn refuse(
        &mut self,
        now: Instant,
        packet: Packet,
        cause: DropCause,
        error: IcmpError,
        from: Hop,
    ) {
        let own = own_address_at(&self.own, from.port, packet.info().src);
        let mut answer = Vec::new();
        let answered =
            own.is_some_and(|own| ip::build_icmp_error(error, own, packet.bytes(), &mut answer));
        self.ledger.drop(now, packet, cause);
        if !answered {
            return;
        }
        if !self.errors.allows(now) {
            self.ledger.stats_mut().icmp_limited += 1;
            return;
        }
        if let Ok(mut answer) = self.ledger.admit(now, answer, Origin::Own) {
            answer.class = self.policy.classify(answer.info()).class;
            answer.to = from.to;
            self.enqueue(now, answer, from.port);
        }
    }

    /// Puts a packet into a port's queue.
    fn enqueue(&mut self, now: Instant, packet: Packet, port: PortId) {
        self.busy.insert(port);
        self.ports[port.index()].enqueue(now, packet, &mut self.ledger);
    }

    /// Takes note of ports that have nothing to do any more.
    fn let_rest(&mut self, ports: PortSet) {
        for id in ports {
            if self.ports.get(id.index()).is_none_or(Port::is_at_rest) {
                self.busy.remove(id);
            }
        }
    }

    fn take_frame(
        &mut self,
        now: Instant,
        (port, from): (PortId, NeighbourId),
        bytes: &[u8],
        meta: FrameMeta,
    ) {
        if self.hosts.contains(port) && self.hear_station(now, port, bytes) {
            return;
        }
        self.ledger.stats_mut().hear(now, port, from);
        let refused = self.refused(port, from);
        let wide = |id: &PortId| self.ports[id.index()].link.is_wide();
        let onward = Onward {
            routes: &self.routes,
            ports: self.reliable.into_iter().filter(wide).collect(),
        };
        if let Some(entry) = self.ports.get_mut(port.index()) {
            let frame = Frame {
                from,
                bytes,
                meta,
                refused,
                onward,
            };
            entry.hear(now, frame, &mut self.ledger);
        }
        let mut arrived = self.ledger.take_put_by();
        for packet in arrived.drain(..) {
            self.take_packet(now, packet, Hop { port, to: from });
        }
        self.ledger.keep_list(arrived);
        if self.ports.get(port.index()).is_some_and(Port::owes_word) {
            self.busy.insert(port);
        }
    }

    fn take_port_event(&mut self, now: Instant, id: PortId, event: PortEvent) {
        let Some(port) = self.ports.get_mut(id.index()) else {
            return;
        };
        if !port.link.follows_medium() {
            return;
        }
        let stats = &mut self.ledger.stats_mut().ports[id.index()];
        match event {
            PortEvent::Up(state) | PortEvent::Changed(state) => {
                if let PortEvent::Up(_) = event {
                    port.all_there();
                }
                stats.up = true;
                stats.tx_rate = Some(state.tx_rate);
                let segments = port.link.segments();
                stats.agreement = segments.map_or(Agreement::None, |it| it.headers.agreement());
                port.set_up(now, state);
                port.queue.show_rates(&mut stats.neighbours);
            }
            PortEvent::Down(_) => {
                stats.up = false;
                stats.presence.downs += 1;
                port.set_down(now, &mut self.ledger);
                self.forget_beyond(id, NeighbourId::ALL);
            }
            PortEvent::NeighbourRate(to, rate) => {
                port.set_rate(to, rate);
                port.queue.show_rates(&mut stats.neighbours);
            }
            PortEvent::Neighbour(to, there) => {
                port.set_neighbour(now, to, there, &mut self.ledger);
                if !there {
                    self.forget_beyond(id, to);
                }
            }
            PortEvent::Carrier(_) | PortEvent::Drained => port.link.hear_medium(now, event),
        }
        self.tell_stations(now, id);
        if !matches!(event, PortEvent::Carrier(_) | PortEvent::Drained) {
            self.look_for_ways(now);
        }
    }

    /// Something happened to something that belongs to a part of the node.
    fn take_owned(&mut self, now: Instant, input: &Input<'_>) {
        let owner = match input {
            Input::Stream { id, .. } => id.owner,
            Input::Socket { id, .. } => id.owner,
            Input::Datagram { socket, .. } => socket.owner,
            Input::Stored { ticket, .. }
            | Input::Loaded { ticket, .. }
            | Input::Worked { ticket, .. } => ticket.owner,
            _ => return,
        };
        if let Input::Stored { result, .. } = input {
            self.ledger.stats_mut().storage.count(*result);
        }
        if self.services.hear(now, owner, input, &self.policy) {
            return;
        }
        let Some(port) = self.ports.get_mut(usize::from(owner.0)) else {
            return;
        };
        match *input {
            Input::Stream { id, ref event } => port.link.hear_stream(now, id, event),
            // What can't be read is as if it had never been stored.
            Input::Loaded { ticket, result } => {
                let value = result.ok().flatten().unwrap_or_default();
                if let Some(segments) = port.link.segments_mut() {
                    segments.headers.loaded(ticket, value);
                }
            }
            // A port's listeners come when they can, and it waits for nothing to be stored.
            _ => {}
        }
    }

    /// The services, and what they see.
    fn services(&mut self) -> (&mut Services, Around<'_>) {
        let around = Around {
            ledger: &mut self.ledger,
            ports: &mut self.ports,
            busy: &mut self.busy,
            hosts: self.hosts,
            routes: &self.routes,
            default: self.default,
            policy: &self.policy,
            own: &self.own,
        };
        (&mut self.services, around)
    }

    fn take_command(&mut self, now: Instant, command: Command) {
        match command {
            Command::Stop => {
                self.stopping = true;
                for port in &mut self.ports {
                    port.clear(now, DropCause::Stopped, &mut self.ledger);
                }
            }
            Command::Mail(order) => self.services.obey(now, order),
        }
    }

    fn take_route(&mut self, change: RouteChange) {
        match change {
            RouteChange::Add {
                prefix,
                length,
                port,
                via,
            } => {
                // A way that this node doesn't have leads nowhere.
                let known = |entry: &Port| entry.link.has_neighbour(via);
                let known = self.ports.get(port.index()).is_some_and(known);
                if let Some(prefix) = Prefix::new(prefix, length).filter(|_| known) {
                    self.routes.add(prefix, Hop { port, to: via });
                }
            }
            RouteChange::Remove { prefix, length } => {
                if let Some(prefix) = Prefix::new(prefix, length) {
                    self.routes.remove(prefix);
                }
            }
        }
    }
}

impl Node for Gateway {
    fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.stopping {
            return;
        }
        match input {
            // A frame wakes no port at rest, unless a packet or a word is to leave by that.
            Input::Timeout | Input::Frame { .. } => {}
            _ => self.busy = PortSet::first(self.ports.len()),
        }
        for id in self.busy {
            if let Some(port) = self.ports.get_mut(id.index()) {
                port.advance(now);
            }
        }
        match input {
            Input::Timeout => {
                for id in self.busy {
                    self.ports[id.index()].discard(now, &mut self.ledger);
                }
                self.tend_lans(now);
                self.repeat_hellos(now);
            }
            Input::Frame {
                port,
                from,
                bytes,
                meta,
            } => self.take_frame(now, (port, from), bytes, meta),
            Input::Port { port, event } => self.take_port_event(now, port, event),
            Input::TxDone { port, id, to, ok } => {
                if let Some(sender) = self.ports.get_mut(port.index()) {
                    sender.sent(now, id, &mut self.ledger);
                }
                if let Some(ok) = ok {
                    self.services.tell(now, port, to, ok);
                }
                if let (Some(false), Some(stats)) =
                    (ok, self.ledger.stats_mut().ports.get_mut(port.index()))
                {
                    stats.tx_failed += 1;
                    self.forget_beyond(port, to);
                }
            }
            Input::Route(change) => {
                self.change_routes(change);
                self.route_anew(now);
                self.look_for_ways(now);
            }
            Input::Routed { prefix, event } => self.hear_routed(prefix, event),
            Input::Command(command) => self.take_command(now, command),
            Input::Wall(wall) => {
                self.ledger.stats_mut().calendar.tell(now, wall);
                let ports = self.ports.iter_mut();
                ports.for_each(|port| port.link.set_calendar(now, wall));
                self.services.set_calendar(now, wall);
            }
            Input::Stream { .. }
            | Input::Socket { .. }
            | Input::Datagram { .. }
            | Input::Stored { .. }
            | Input::Loaded { .. }
            | Input::Worked { .. } => self.take_owned(now, &input),
        }
        self.settle_links(now);
        let (services, around) = self.services();
        services.settle(now, around);
        olsr::take_found(self, now);
        while let Some((bytes, from)) = self.services.poll_translated() {
            if let Ok(packet) = self.ledger.admit(now, bytes, Origin::Own) {
                self.take_admitted(now, packet, from);
            }
        }
        if self.leads.wake().is_some_and(|at| at <= now) {
            self.look_for_ways(now);
        }
        self.store(now);
        self.let_rest(self.busy);
    }

    fn conceal<'a>(&self, input: Input<'a>, room: &'a mut Vec<u8>) -> Input<'a> {
        self.services.conceal(input, room)
    }

    fn wants(&self, port: PortId) -> Option<Want> {
        if !self.busy.contains(port) {
            return None;
        }
        self.ports.get(port.index())?.wants()
    }

    fn committed_octets(&self, port: PortId) -> usize {
        self.ports
            .get(port.index())
            .map_or(0, |port| port.link.committed_octets())
    }

    fn reads(&self, _port: PortId) -> bool {
        !self.stopping
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        port: PortId,
        room: Room,
        out: &mut Vec<u8>,
    ) -> Option<TxMeta> {
        let sender = self.ports.get_mut(port.index())?;
        let meta = sender.poll_transmit(now, room, out, &mut self.ledger)?;
        self.set_stops();
        self.store(now);
        // What has left makes room for more.
        if self.services.has_proxy() {
            let (services, around) = self.services();
            services.settle(now, around);
        }
        self.let_rest(PortSet::from_iter([port]));
        Some(meta)
    }

    fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(record) = self.ledger.poll() {
            return Some(Effect::Fate(record));
        }
        if let Some(settling) = &self.settling {
            let mut ports = settling.said().into_iter();
            let said = ports.find_map(|id| self.ports[id.index()].poll_effect());
            if said.is_some() {
                return said;
            }
        }
        if let Some(store) = self.stores.pop_front() {
            return Some(store);
        }
        let lead = self.leads.poll_effect();
        if lead.is_some() {
            return lead;
        }
        self.services.poll_effect()
    }

    /// Nothing once it stops: what is due then isn't done any more.
    fn wake(&self) -> Option<Wake> {
        if self.stopping {
            return None;
        }
        let busy = self.busy.into_iter();
        let wakes = busy.filter_map(|id| self.ports.get(id.index())?.wake());
        let local = [self.answers.wake(), self.services.wake(), self.leads.wake()];
        let local = local.into_iter().flatten().map(|at| Wake {
            at,
            why: WakeReason::Local,
        });
        wakes.chain(local).min_by_key(|wake| wake.at)
    }

    fn exchange(&mut self, memory: &mut Memory) {
        self.ledger.exchange(memory);
    }

    fn stats(&self) -> &Stats {
        self.ledger.stats()
    }

    fn flows(&self) -> Vec<Flow> {
        self.ports
            .iter()
            .flat_map(|port| port.queue.flows())
            .collect()
    }

    fn names(&self, now: Instant) -> Vec<NameEntry> {
        self.services.names(now)
    }

    fn mail(&self, now: Instant) -> MailView {
        self.services.mail(now)
    }

    fn check(&self) {
        let held: u64 = self.ports.iter().map(Port::held).sum();
        assert_eq!(held, self.ledger.held(), "a packet has no fate, or two");
        self.ports.iter().for_each(Port::check);
        let mut quiet = self.ports.iter().filter(|it| !self.busy.contains(it.id));
        assert!(quiet.all(Port::is_at_rest), "a port at rest has work");
        self.services.check();
    }
}

fn routes(config: &NodeConfig) -> Result<Routes, InvalidConfig> {
    let mut routes = connected(config);
    for route in &config.routes {
        let hop = match config.ports.iter().position(|port| port.name == route.port) {
            None => host_side(config.host_port(&route.port).unwrap_or(PortId::HOST)),
            Some(index) => {
                let neighbours = &config.ports[index].neighbours;
                let via = route.via.as_ref();
                let to = via.and_then(|via| neighbours.iter().position(|entry| entry.name == *via));
                Hop {
                    port: PortId(index as u8 + 1),
                    to: NeighbourId(to.unwrap_or(0) as u16),
                }
            }
        };
        if !routes.add(route.prefix, hop) {
            let place = format!("[[route]] {}", route.prefix);
            return Err(InvalidConfig {
                place,
                message: "the routing table is full".into(),
            });
        }
        routes.set_beyond(route.prefix, route.hops.unwrap_or(1).saturating_sub(1));
    }
    Ok(routes)
}

/// Ways to the Ethernets of a gateway with several host sides: one alone has all that isn't said to
/// lie elsewhere.
fn connected(config: &NodeConfig) -> Routes {
    let mut routes = Routes::default();
    if config.host.further.is_empty() {
        return routes;
    }
    for (id, side) in config.host_sides() {
        let networks = side
            .addresses
            .iter()
            .filter(|own| !is_of_the_link(own.address));
        for own in networks.filter(|_| side.kind == HostKind::Tap) {
            routes.add(own.network(), host_side(id));
        }
    }
    routes
}

/// Of the node's own addresses the first of the family at one of its ports, or the first of all.
fn own_address_at(own: &[(Prefix, PortId)], side: PortId, like: IpAddr) -> Option<IpAddr> {
    let is_like = |(own, _): &&(Prefix, PortId)| own.address.is_ipv4() == like.is_ipv4();
    let mut all = own.iter().filter(is_like);
    let here = all.clone().find(|(_, at)| *at == side);
    here.or_else(|| all.next()).map(|(own, _)| own.address)
}
