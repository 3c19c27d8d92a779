//! A host's sockets: what an operating system offers its applications.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use strait_core::chance::Stream;
use strait_core::fate::Origin;
use strait_core::node::DatagramMeta;
use strait_core::stats::Stats;
use strait_core::{DropCause, Instant, Ledger, Packet};
use strait_tcp::{
    TcpConfig, TcpCounters, TcpEndpoint, TcpError, TcpEvent, TcpState, endpoint, reset_for,
};
use strait_traffic::TcpOptions;
use strait_wire::ip::{self, Echo, EchoKind, PacketInfo, TcpFlags, tcp_header};

use super::schedule::{Owner, Schedule};
use super::{AppId, ConnectionId, HostConfig};

/// Hop limit of everything a host sends, as most systems have it.
const HOP_LIMIT: u8 = 64;

/// Counters of a host that aren't a packet's fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// UDP packets and echo replies that no application waits for.
    pub unknown_port: u64,
    /// TCP segments without a connection, answered by a reset.
    pub resets_out: u64,
    /// Packets whose transport is damaged or isn't spoken here.
    pub unusable: u64,
    /// Echo requests answered.
    pub echoes_answered: u64,
    /// ICMP errors received.
    pub icmp_errors: u64,
    /// Connections refused because there are too many.
    pub connections_refused: u64,
}

pub(super) struct Listener {
    app: AppId,
    options: TcpOptions,
}

pub(super) struct Connection {
    pub(super) app: AppId,
    endpoint: Box<dyn TcpEndpoint>,
    ends: (SocketAddr, SocketAddr),
    dscp: u8,
    /// The code point of the last packet that came.
    heard_dscp: u8,
    seen: TcpState,
}

/// A change that an application is to be told of.
pub(super) enum Notice {
    Accepted(ConnectionId),
    Ready(ConnectionId),
    Closed(ConnectionId, Option<TcpError>),
}

/// The sockets of a host and its output queue.
pub struct Stack {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) mtu: u32,
    pub(super) ledger: Ledger,
    pub(super) counters: HostCounters,
    pub(super) schedule: Schedule,
    pub(super) notices: VecDeque<(AppId, Notice)>,
    out: VecDeque<Packet>,
    queue_packets: usize,
    udp: BTreeMap<u16, AppId>,
    echo: BTreeMap<u16, AppId>,
    esp: BTreeMap<u32, AppId>,
    listeners: BTreeMap<u16, Listener>,
    connections: BTreeMap<ConnectionId, Connection>,
    by_ends: BTreeMap<(SocketAddr, SocketAddr), ConnectionId>,
    dirty: BTreeSet<ConnectionId>,
    next_connection: u64,
    next_ident: u16,
    next_fragmented: u32,
    sequence_seeds: Stream,
    /// The application at work, which new sockets belong to.
    pub(super) current: AppId,
    scratch: Vec<u8>,
}

impl Stack {
    /// Connections that a host keeps at once.
    pub const CONNECTIONS_MAX: usize = 4096;

    pub(super) fn new(config: &HostConfig, stats: Stats) -> Self {
        let stream = format!("host.{}.{}.isn", config.name, config.incarnation);
        Self {
            addresses: config.addresses.clone(),
            mtu: config.mtu,
            ledger: Ledger::new(stats),
            counters: HostCounters::default(),
            schedule: Schedule::default(),
            notices: VecDeque::new(),
            out: VecDeque::new(),
            queue_packets: config.queue_packets,
            udp: BTreeMap::new(),
            echo: BTreeMap::new(),
            esp: BTreeMap::new(),
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            by_ends: BTreeMap::new(),
            dirty: BTreeSet::new(),
            next_connection: 0,
            next_ident: 0,
            next_fragmented: 0,
            sequence_seeds: Stream::new(config.seed, &stream),
            current: AppId(0),
            scratch: Vec::new(),
        }
    }

    /// Takes a UDP port for the application at work; false if another has it.
    pub fn bind_udp(&mut self, port: u16) -> bool {
        *self.udp.entry(port).or_insert(self.current) == self.current
    }

    /// Takes an echo identifier for the application at work; false if another has it.
    pub fn bind_echo(&mut self, ident: u16) -> bool {
        *self.echo.entry(ident).or_insert(self.current) == self.current
    }

    /// Takes the index of a security association for the application at work; false if another has
    /// it.
    pub fn bind_esp(&mut self, index: u32) -> bool {
        *self.esp.entry(index).or_insert(self.current) == self.current
    }

    /// Listens on a TCP port for the application at work; false if another does.
    pub fn listen(&mut self, port: u16, options: TcpOptions) -> bool {
        let app = self.current;
        self.listeners
            .entry(port)
            .or_insert(Listener { app, options })
            .app
            == app
    }

    /// Sends a datagram; false if it can't be built from these addresses or is too long.
    pub fn send_udp(
        &mut self,
        now: Instant,
        src: SocketAddr,
        dst: SocketAddr,
        dscp: u8,
        payload: &[u8],
    ) -> bool {
        self.send_labelled_udp(now, (src, dst), (dscp, 0), payload)
    }

    /// The same with a flow label after the code point; IPv4 has none.
    pub fn send_labelled_udp(
        &mut self,
        now: Instant,
        (src, dst): (SocketAddr, SocketAddr),
        (dscp, label): (u8, u32),
        payload: &[u8],
    ) -> bool {
        let mut bytes = self.buffer();
        let ident = self.ident();
        let built = ip::build_udp(src, dst, dscp, HOP_LIMIT, ident, label, payload, &mut bytes);
        if built {
            self.enqueue(now, bytes);
        }
        built
    }

    /// Sends a datagram with all that is around it; false as for [`Stack::send_udp`].
    pub fn send_datagram(&mut self, now: Instant, meta: &DatagramMeta, payload: &[u8]) -> bool {
        let DatagramMeta {
            src,
            dst,
            dscp,
            hop_limit,
        } = *meta;
        let mut bytes = self.buffer();
        let ident = self.ident();
        let built = ip::build_udp(src, dst, dscp, hop_limit, ident, 0, payload, &mut bytes);
        if built {
            self.enqueue(now, bytes);
        }
        built
    }

    /// Sends a packet of ESP, of which `payload` is all behind the IP header; false as for
    /// [`Stack::send_udp`].
    pub fn send_esp(
        &mut self,
        now: Instant,
        ends: (IpAddr, IpAddr),
        dscp: u8,
        payload: &[u8],
    ) -> bool {
        let mut bytes = self.buffer();
        let esp = ip::protocol::ESP;
        let built = ip::build_packet(ends, esp, dscp, HOP_LIMIT, payload, &mut bytes);
        if built {
            self.enqueue(now, bytes);
        }
        built
    }

    /// Sends an echo request; false as for [`Stack::send_udp`].
    pub fn send_echo(
        &mut self,
        now: Instant,
        (src, dst): (IpAddr, IpAddr),
        dscp: u8,
        (ident, sequence): (u16, u16),
        payload: &[u8],
    ) -> bool {
        let kind = EchoKind::Request;
        let mut bytes = self.buffer();
        let ip_ident = self.ident();
        let built = ip::build_echo(
            kind, src, dst, dscp, HOP_LIMIT, ip_ident, ident, sequence, payload, &mut bytes,
        );
        if built {
            self.enqueue(now, bytes);
        }
        built
    }

    /// Sends an OSPF hello of a router that has heard no other. In IPv6 its address is link-local,
    /// with the interface identifier of `src`.
    pub fn send_ospf_hello(&mut self, now: Instant, src: IpAddr, interval_s: u16) -> bool {
        let mut bytes = self.buffer();
        let built = match src {
            IpAddr::V4(src) => ip::build_ospf_hello(src, interval_s, &[], &mut bytes),
            IpAddr::V6(src) => {
                let [.., a, b, c, d] = src.segments();
                let own = Ipv6Addr::new(0xfe80, 0, 0, 0, a, b, c, d);
                ip::build_ospf3_hello(own, interval_s, &mut bytes)
            }
        };
        if built {
            self.enqueue(now, bytes);
        }
        built
    }

    /// Opens a connection for the application at work.
    ///
    /// # Errors
    /// [`TcpError::Misused`] if the same two ends are connected already, there are too many
    /// connections, or profile or addresses don't serve.
    pub fn connect(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        options: &TcpOptions,
    ) -> Result<ConnectionId, TcpError> {
        let id = self.add_connection(self.current, (local, remote), options, None)?;
        let opened = match self.connections.get_mut(&id) {
            Some(connection) => connection.endpoint.connect(now),
            None => Err(TcpError::Misused),
        };
        if opened.is_err() {
            self.remove_connection(id);
        }
        opened.map(|()| id)
    }

    /// A connection, to read from or write to; `None` if it is gone. What changed is sent when
    /// the application returns.
    pub fn connection(&mut self, id: ConnectionId) -> Option<&mut dyn TcpEndpoint> {
        let connection = self.connections.get_mut(&id)?;
        self.dirty.insert(id);
        Some(connection.endpoint.as_mut())
    }

    /// Own and other end of a connection, and the code point of the last packet that came.
    pub fn arrival(&self, id: ConnectionId) -> Option<((SocketAddr, SocketAddr), u8)> {
        let connection = self.connections.get(&id)?;
        Some((connection.ends, connection.heard_dscp))
    }

    /// What a connection has counted; zeros if it is gone.
    pub fn tcp_counters(&self, id: ConnectionId) -> TcpCounters {
        let connection = self.connections.get(&id);
        connection.map_or_else(TcpCounters::default, |connection| {
            connection.endpoint.counters()
        })
    }

    /// The next event of a connection that nobody has taken yet.
    pub fn tcp_event(&mut self, id: ConnectionId) -> Option<TcpEvent> {
        self.connections.get_mut(&id)?.endpoint.poll_event()
    }

    /// What all connections that there are have counted.
    pub(super) fn tcp_totals(&self) -> TcpCounters {
        let mut totals = TcpCounters::default();
        for connection in self.connections.values() {
            totals.merge(&connection.endpoint.counters());
        }
        totals
    }

    /// `initial`: its initial sequence number, if it can't be any.
    fn add_connection(
        &mut self,
        app: AppId,
        ends: (SocketAddr, SocketAddr),
        options: &TcpOptions,
        initial: Option<u32>,
    ) -> Result<ConnectionId, TcpError> {
        if self.by_ends.contains_key(&ends) || self.connections.len() >= Self::CONNECTIONS_MAX {
            self.counters.connections_refused += 1;
            return Err(TcpError::Misused);
        }
        let seed = self.sequence_seeds.draw();
        let seed = initial.map_or(seed, |initial| {
            u64::from(initial) << 32 | seed & u64::from(u32::MAX)
        });
        let config = TcpConfig {
            mtu: options.mtu.map_or(self.mtu, |mtu| mtu.min(self.mtu)),
            send_octets: options.buffer_octets,
            receive_octets: options.buffer_octets,
            nagle: options.nagle,
            seed,
            ..TcpConfig::new(ends.0, ends.1)
        };
        let endpoint = endpoint(&options.profile, &config).map_err(|_| TcpError::Misused)?;
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let seen = endpoint.state();
        self.connections.insert(
            id,
            Connection {
                app,
                endpoint,
                ends,
                dscp: options.dscp,
                heard_dscp: 0,
                seen,
            },
        );
        self.by_ends.insert(ends, id);
        self.dirty.insert(id);
        Ok(id)
    }

    fn remove_connection(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            self.release_ends(id, connection.ends);
        }
        self.dirty.remove(&id);
        self.schedule.set(Owner::Connection(id), None);
    }

    /// Others may be between these ends now, if nobody is already.
    fn release_ends(&mut self, id: ConnectionId, ends: (SocketAddr, SocketAddr)) {
        if self.by_ends.get(&ends) == Some(&id) {
            self.by_ends.remove(&ends);
        }
    }

    /// Who waits for datagrams at `port`.
    pub(super) fn udp_owner(&mut self, port: u16) -> Option<AppId> {
        let app = self.udp.get(&port).copied();
        self.counters.unknown_port += u64::from(app.is_none());
        app
    }

    /// Whose packets of ESP with this index are.
    pub(super) fn esp_owner(&mut self, index: u32) -> Option<AppId> {
        let app = self.esp.get(&index).copied();
        self.counters.unknown_port += u64::from(app.is_none());
        app
    }

    /// Who waits for echo replies with `ident`.
    pub(super) fn echo_owner(&mut self, ident: u16) -> Option<AppId> {
        let app = self.echo.get(&ident).copied();
        self.counters.unknown_port += u64::from(app.is_none());
        app
    }

    /// A packet for TCP: to its connection, to a listener, or answered with a reset.
    pub(super) fn handle_tcp(
        &mut self,
        now: Instant,
        bytes: &[u8],
        ends: (SocketAddr, SocketAddr),
        dscp: u8,
    ) {
        let successor = self.make_way(bytes, ends);
        if let Some(id) = self.by_ends.get(&ends).copied() {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.heard_dscp = dscp;
                connection.endpoint.handle_packet(now, bytes);
                self.notices.push_back((connection.app, Notice::Ready(id)));
                self.dirty.insert(id);
            }
        } else if self
            .open_passive(now, bytes, ends, (successor, dscp))
            .is_none()
        {
            let mut reset = self.buffer();
            if reset_for(bytes, &mut reset) {
                self.counters.resets_out += 1;
                self.enqueue(now, reset);
            }
        }
    }

    /// Ends a connection that only waits out of caution, if the packet opens another between the
    /// same ends and somebody listens: the other's initial sequence number.
    fn make_way(&mut self, bytes: &[u8], ends: (SocketAddr, SocketAddr)) -> Option<u32> {
        let id = *self.by_ends.get(&ends)?;
        let connection = self.connections.get(&id)?;
        let initial = connection.endpoint.makes_way(bytes)?;
        self.listeners.get(&ends.0.port())?;
        self.notices
            .push_back((connection.app, Notice::Closed(id, None)));
        self.release_ends(id, ends);
        Some(initial)
    }

    /// A SYN for a listener makes a connection, if the endpoint takes it: a damaged one doesn't.
    fn open_passive(
        &mut self,
        now: Instant,
        bytes: &[u8],
        ends: (SocketAddr, SocketAddr),
        (initial, dscp): (Option<u32>, u8),
    ) -> Option<()> {
        let flags = tcp_header(bytes)?.flags;
        let others = TcpFlags::ACK.0 | TcpFlags::RST.0 | TcpFlags::FIN.0;
        if !flags.contains(TcpFlags::SYN) || flags.0 & others != 0 {
            return None;
        }
        let listener = self.listeners.get(&ends.0.port())?;
        let (app, options) = (listener.app, listener.options.clone());
        let id = self.add_connection(app, ends, &options, initial).ok()?;
        let connection = self.connections.get_mut(&id)?;
        connection.heard_dscp = dscp;
        let endpoint = connection.endpoint.as_mut();
        if endpoint.accept(now).is_ok() {
            endpoint.handle_packet(now, bytes);
        }
        if endpoint.state() != TcpState::Connecting {
            self.remove_connection(id);
            return None;
        }
        self.notices.push_back((app, Notice::Accepted(id)));
        Some(())
    }

    /// Tells the connection between `ends` of a narrower path.
    pub(super) fn handle_path_mtu(
        &mut self,
        now: Instant,
        ends: (SocketAddr, SocketAddr),
        mtu: u32,
    ) {
        if let Some(id) = self.by_ends.get(&ends)
            && let Some(connection) = self.connections.get_mut(id)
        {
            connection.endpoint.handle_path_mtu(now, mtu);
            self.dirty.insert(*id);
        }
    }

    pub(super) fn handle_unreachable(&mut self, ends: (SocketAddr, SocketAddr)) {
        if let Some(id) = self.by_ends.get(&ends).copied()
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.endpoint.handle_unreachable();
            self.notices.push_back((connection.app, Notice::Ready(id)));
            self.dirty.insert(id);
        }
    }

    /// A connection whose time has come.
    pub(super) fn touch(&mut self, id: ConnectionId) {
        self.dirty.insert(id);
    }

    /// Sends what one touched connection has to send; false if there is none.
    pub(super) fn flush_next(&mut self, now: Instant) -> bool {
        let Some(id) = self.dirty.pop_first() else {
            return false;
        };
        let mut bytes = std::mem::take(&mut self.scratch);
        // The windows bound how much one flush can send.
        while let Some(connection) = self.connections.get_mut(&id)
            && connection.endpoint.poll_packet(now, &mut bytes)
        {
            if connection.dscp != 0 {
                ip::set_dscp(&mut bytes, connection.dscp);
            }
            let next = self.buffer();
            self.enqueue(now, std::mem::replace(&mut bytes, next));
        }
        self.scratch = bytes;
        self.conclude(id);
        true
    }

    fn conclude(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let state = connection.endpoint.state();
        let changed = std::mem::replace(&mut connection.seen, state) != state;
        let app = connection.app;
        if state == TcpState::Closed {
            let error = connection.endpoint.error();
            self.notices.push_back((app, Notice::Ready(id)));
            self.notices.push_back((app, Notice::Closed(id, error)));
            self.schedule.set(Owner::Connection(id), None);
            return;
        }
        self.schedule
            .set(Owner::Connection(id), connection.endpoint.wake());
        if changed {
            self.notices.push_back((app, Notice::Ready(id)));
        }
    }

    /// Forgets a connection whose end the application has been told.
    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.remove_connection(id);
    }

    /// Answers the echo request `echo` in `request`, which came with code point `dscp`.
    pub(super) fn answer_echo(
        &mut self,
        now: Instant,
        request: &[u8],
        info: &PacketInfo,
        echo: &Echo,
    ) {
        let mut bytes = self.buffer();
        let ip_ident = self.ident();
        let built = ip::build_echo(
            EchoKind::Reply,
            info.dst,
            info.src,
            info.dscp,
            HOP_LIMIT,
            ip_ident,
            echo.ident,
            echo.sequence,
            &request[echo.payload.clone()],
            &mut bytes,
        );
        if built {
            self.counters.echoes_answered += 1;
            self.enqueue(now, bytes);
        }
    }

    fn ident(&mut self) -> u16 {
        self.next_ident = self.next_ident.wrapping_add(1);
        self.next_ident
    }

    /// An empty buffer, used before if possible.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.ledger.spare()
    }

    /// Takes a buffer back.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.ledger.keep_spare(bytes);
    }

    /// Puts a packet of the host's own into the output queue, in fragments if it is longer than a
    /// frame, or destroys it if the queue is full.
    fn enqueue(&mut self, now: Instant, bytes: Vec<u8>) {
        let mtu = self.mtu as usize;
        if bytes.len() > mtu
            && let Ok(pieces) = ip::fragment_own(&bytes, self.next_fragmented, mtu)
        {
            self.next_fragmented = self.next_fragmented.wrapping_add(1);
            self.recycle(bytes);
            for piece in pieces {
                self.enqueue_packet(now, piece);
            }
        } else {
            self.enqueue_packet(now, bytes);
        }
    }

    fn enqueue_packet(&mut self, now: Instant, bytes: Vec<u8>) {
        let Ok(packet) = self.ledger.admit(now, bytes, Origin::Own) else {
            return;
        };
        if packet.octets() > self.mtu as usize {
            self.ledger.drop(now, packet, DropCause::TooBig);
        } else if self.out.len() >= self.queue_packets {
            self.ledger.drop(now, packet, DropCause::QueuePackets);
        } else {
            self.out.push_back(packet);
        }
    }

    pub(super) fn front(&self) -> Option<&Packet> {
        self.out.front()
    }

    pub(super) fn pop_front(&mut self) -> Option<Packet> {
        self.out.pop_front()
    }

    /// Packets that wait to leave the host.
    pub fn queued(&self) -> usize {
        self.out.len()
    }

    /// Learns of a smaller frame size: what doesn't fit any more is destroyed.
    pub(super) fn limit_mtu(&mut self, now: Instant, mtu: u32) {
        self.mtu = mtu;
        for packet in std::mem::take(&mut self.out) {
            if packet.octets() > mtu as usize {
                self.ledger.drop(now, packet, DropCause::TooBig);
            } else {
                self.out.push_back(packet);
            }
        }
    }

    /// Gives every queued packet this end.
    pub(super) fn drop_all(&mut self, now: Instant, cause: DropCause) {
        for packet in std::mem::take(&mut self.out) {
            self.ledger.drop(now, packet, cause);
        }
    }
}
