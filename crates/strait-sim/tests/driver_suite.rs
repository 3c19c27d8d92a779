//! The simulator's driver in the lines that the live one passes too.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at what it does not expect"
)]

#[path = "driver_suite/pairs.rs"]
mod pairs;
#[path = "../../strait-core/tests/suite/mod.rs"]
mod suite;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use strait_channel::LinkConfig;
use strait_core::host_routes::HostRoute;
use strait_core::node::{DatagramMeta, Lead, NodeFactory};
use strait_core::prefix::Prefix;
use strait_core::tls::{TlsFault, TlsRole, TlsVersion};
use strait_core::units::Share;
use strait_core::{Duration, Instant, NeighbourId, PortId};
use strait_hosts::tls::{self, Certificate, Profile};
use strait_hosts::{AppId, Application, ConnectionId, Event, Host, HostConfig, Stack};
use strait_sim::{Around, Attach, Cable, Fault, NodeIndex, TableChange};
use strait_tcp::{TcpEndpoint, TcpError};
use strait_traffic::{FlowLog, Side, TcpOptions};

use suite::tls::HostTls;
use suite::{Accepted, State, Tcp, Udp, World};

/// What the host is to do.
enum Order {
    Connect(Tcp, SocketAddr, SocketAddr, u8),
    Listen(u16),
    Fin(Tcp),
    Cut(Tcp),
    Reset(Tcp),
    Bind(Udp, u16),
    Send(DatagramMeta, Vec<u8>),
}

/// A connection as the program sees it.
struct Line {
    connection: Option<ConnectionId>,
    state: State,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// The code point of what came last.
    marked: u8,
    /// Octets that the program wants to read.
    wants: usize,
    fin: bool,
    tls: Option<tls::Line>,
    secured: Option<Result<TlsVersion, TlsFault>>,
}

impl Line {
    const fn new(connection: Option<ConnectionId>, state: State) -> Self {
        Self {
            connection,
            state,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            marked: 0,
            wants: 0,
            fin: false,
            tls: None,
            secured: None,
        }
    }
}

impl Line {
    /// The same over TLS.
    fn move_secured(&mut self, connection: &mut dyn TcpEndpoint) {
        let failed = matches!(self.secured, Some(Err(_)));
        let Some(tls) = self.tls.as_mut().filter(|_| !failed) else {
            return;
        };
        if self.incoming.len() < self.wants.max(1)
            && let Err(fault) = tls.work(connection, &mut self.incoming)
        {
            self.secured = Some(Err(fault));
            return;
        }
        let told = tls.session().take_secured().map(|it| Ok(it.version));
        self.secured = self.secured.or(told);
        let sent = tls.send(connection, &self.outgoing);
        self.outgoing.drain(..sent);
        if self.fin && self.outgoing.is_empty() {
            tls.close(connection);
        }
        let ended = tls.session().has_ended() && self.incoming.is_empty();
        self.state = [State::Open, State::Drained][usize::from(ended)];
    }
}

type Came = (DatagramMeta, Vec<u8>);

#[derive(Default)]
struct Desk {
    orders: VecDeque<Order>,
    lines: BTreeMap<Tcp, Line>,
    accepted: VecDeque<Accepted>,
    udp: BTreeMap<u16, (Udp, VecDeque<Came>)>,
    next: usize,
}

/// A program that does what a test says.
struct Hand {
    desk: Arc<Mutex<Desk>>,
    own: IpAddr,
    looks_at: Instant,
    log: FlowLog,
}

fn options(dscp: u8) -> TcpOptions {
    TcpOptions {
        profile: "linux-cubic".into(),
        buffer_octets: 64 * 1024,
        nagle: false,
        dscp,
        mtu: None,
    }
}

impl Desk {
    fn line_of(&mut self, id: ConnectionId) -> Option<&mut Line> {
        self.lines
            .values_mut()
            .find(|line| line.connection == Some(id))
    }

    fn obey(&mut self, now: Instant, stack: &mut Stack) {
        while let Some(order) = self.orders.pop_front() {
            match order {
                Order::Connect(tcp, from, to, dscp) => {
                    let id = stack.connect(now, from, to, &options(dscp)).unwrap();
                    self.lines.insert(tcp, Line::new(Some(id), State::Opening));
                }
                Order::Listen(port) => assert!(stack.listen(port, options(0))),
                Order::Fin(tcp) => {
                    if let Some(line) = self.lines.get_mut(&tcp) {
                        line.fin = true;
                    }
                }
                Order::Cut(tcp) => {
                    let id = self.lines.get(&tcp).and_then(|line| line.connection);
                    if let Some(connection) = id.and_then(|id| stack.connection(id)) {
                        connection.close();
                    }
                }
                Order::Reset(tcp) => {
                    let id = self.lines.get(&tcp).and_then(|line| line.connection);
                    if let Some(connection) = id.and_then(|id| stack.connection(id)) {
                        connection.abort();
                    }
                }
                Order::Bind(udp, port) => {
                    assert!(stack.bind_udp(port));
                    self.udp.insert(port, (udp, VecDeque::new()));
                }
                Order::Send(meta, bytes) => assert!(stack.send_datagram(now, &meta, &bytes)),
            }
        }
        for line in self.lines.values_mut() {
            Self::move_on(line, stack);
        }
    }

    fn move_on(line: &mut Line, stack: &mut Stack) {
        use strait_tcp::TcpState;
        let arrival = line.connection.and_then(|id| stack.arrival(id));
        line.marked = arrival.map_or(line.marked, |(_, dscp)| dscp);
        let Some(connection) = line.connection.and_then(|id| stack.connection(id)) else {
            return;
        };
        if line.tls.is_some() {
            return line.move_secured(connection);
        }
        let sent = connection.send(&line.outgoing);
        line.outgoing.drain(..sent);
        if line.fin && line.outgoing.is_empty() {
            line.fin = false;
            connection.close();
        }
        let known = line.incoming.len();
        line.incoming.resize(known.max(line.wants), 0);
        let read = connection.recv(&mut line.incoming[known..]);
        line.incoming.truncate(known + read);
        let open = matches!(
            connection.state(),
            TcpState::Established | TcpState::Closing
        );
        if open && matches!(line.state, State::Opening | State::Open) {
            let drained = connection.is_drained() && line.incoming.is_empty();
            line.state = if drained { State::Drained } else { State::Open };
        }
    }
}

impl Application for Hand {
    fn handle(&mut self, now: Instant, event: Event<'_>, stack: &mut Stack) {
        let mut desk = self.desk.lock().unwrap();
        match event {
            Event::Timeout => self.looks_at = now + Duration::from_millis(1),
            Event::Datagram {
                from,
                port,
                dscp,
                hop_limit,
                payload,
            } => {
                let meta = DatagramMeta {
                    src: from,
                    dst: SocketAddr::new(self.own, port),
                    dscp,
                    hop_limit,
                };
                if let Some((_, came)) = desk.udp.get_mut(&port) {
                    came.push_back((meta, payload.to_vec()));
                }
            }
            Event::Accepted(id) => {
                let tcp = Tcp(desk.next);
                desk.next += 1;
                let ((_, src), dscp) = stack.arrival(id).unwrap();
                desk.lines.insert(tcp, Line::new(Some(id), State::Opening));
                desk.accepted.push_back(Accepted { tcp, src, dscp });
            }
            Event::Closed { connection, error } => {
                if let Some(line) = desk.line_of(connection) {
                    line.connection = None;
                    line.state = match error {
                        Some(TcpError::Refused) => State::Refused,
                        Some(TcpError::Unreachable) => State::Unreachable,
                        Some(_) => State::Reset,
                        None => line.state,
                    };
                }
            }
            Event::Ready(_) | Event::EchoReply { .. } => {}
        }
        desk.obey(now, stack);
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.looks_at)
    }

    fn log(&self) -> &FlowLog {
        &self.log
    }
}

/// A node and a host, in IPv6 or IPv4: on the wire, or at the other end of a cable.
struct Simulated<const V6: bool, const CABLE: bool> {
    world: strait_sim::World,
    node: NodeIndex,
    desk: Arc<Mutex<Desk>>,
    ports: u16,
}

impl<const V6: bool, const CABLE: bool> Simulated<V6, CABLE> {
    const NODE: IpAddr = Self::address(1);
    const HOST: IpAddr = Self::address(2);

    const fn address(last: u8) -> IpAddr {
        if V6 {
            IpAddr::V6(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, last as u16))
        } else {
            IpAddr::V4(Ipv4Addr::new(10, 1, 0, last))
        }
    }

    fn order(&mut self, order: Order) {
        self.desk.lock().unwrap().orders.push_back(order);
    }

    fn change(&mut self, change: TableChange) {
        let now = self.world.now();
        self.world.plan(now, Fault::HostTable(self.node, change));
        self.world.run_until(now);
    }

    fn next(&mut self) -> usize {
        let mut desk = self.desk.lock().unwrap();
        desk.next += 1;
        desk.next - 1
    }
}

/// What stands in a file of `vectors/tls`.
fn certificate(file: &str) -> Certificate {
    let (names, issuer): (&[&str], _) = match file {
        "server" => (&["a.example", "b.example"], "authority"),
        "client" => (&["client.example"], "authority"),
        "stranger" => (&["a.example"], "elsewhere"),
        _ => (&["a.example"], "authority"),
    };
    Certificate {
        names: names.iter().map(|it| (*it).into()).collect(),
        issuer: issuer.into(),
        expired: file == "expired",
        octets: 440,
    }
}

/// The node's, with what stands in their files.
fn profiles() -> BTreeMap<String, Profile> {
    let profiles = suite::tls::profiles().into_iter().map(|(name, config)| {
        let file = if name == "client" { "client" } else { "server" };
        let profile = Profile {
            certificate: Some(certificate(file)),
            trusts: Some(vec!["authority".into()]),
            ..Profile::of(&config)
        };
        (name, profile)
    });
    profiles.collect()
}

impl<const V6: bool, const CABLE: bool> World for Simulated<V6, CABLE> {
    fn new(factory: Box<dyn NodeFactory + Send>) -> Self {
        let (own, there) = (Self::NODE, Self::HOST);
        let mut world = strait_sim::World::new(1);
        world.trace_paths();
        world.keep_fates();
        let node = world.add_node("node", factory);
        let desk = Arc::new(Mutex::new(Desk::default()));
        let mut host = Host::new(&HostConfig::new("host", vec![there], 1));
        let hand = Hand {
            desk: desk.clone(),
            own: there,
            looks_at: Instant::ZERO,
            log: FlowLog::new("hand", Side::From),
        };
        let AppId(_) = host.install(|_| hand);
        let host = world.add_host(host);
        let network = Prefix::new(own, if V6 { 64 } else { 24 }).unwrap();
        let kernel = world.add_kernel(
            node,
            match CABLE {
                true => Around {
                    cables: vec![Cable {
                        own: network,
                        peer: there,
                    }],
                    ..Around::default()
                },
                false => Around {
                    own: vec![own],
                    networks: vec![network],
                    hosts: vec![there],
                    ..Around::default()
                },
            },
        );
        let at = |node, port| Attach {
            node,
            port: PortId(port),
            neighbour: NeighbourId::PEER,
        };
        let lan = LinkConfig::frames(100_000_000, Duration::from_micros(50));
        let wire = if CABLE { 2 } else { 0 };
        world
            .join_at("lan", &lan, [at(kernel, wire), at(host, 0)])
            .unwrap();
        world
            .join_at("tun", &lan, [at(kernel, 1), at(node, 0)])
            .unwrap();
        for (neighbour, rate) in (0..).zip(suite::rates::RATES) {
            let there = Host::new(&HostConfig::new("partner", Vec::new(), 1));
            let there = world.add_host(there);
            let near = Attach {
                node,
                port: suite::rates::PORT,
                neighbour: NeighbourId(neighbour),
            };
            // What is sent is nothing that a host could take, and it hears nothing of it.
            let link = LinkConfig::frames(rate, Duration::from_millis(1))
                .with(|it| it.loss = Some(Share(1.0)));
            let name = format!("way {neighbour}");
            world.join_at(&name, &link, [near, at(there, 0)]).unwrap();
        }
        world.set_apart(node, suite::rates::PORT);
        world.secure_by(node, profiles());
        world.start();
        Self {
            world,
            node,
            desk,
            ports: 5000,
        }
    }

    fn node(&self) -> IpAddr {
        Self::NODE
    }

    fn host(&self) -> IpAddr {
        Self::HOST
    }

    fn port(&mut self) -> u16 {
        self.ports += 1;
        self.ports
    }

    fn run(&mut self, time: Duration) {
        let until = self.world.now() + time;
        self.world.run_until(until);
    }

    fn kill(&mut self) {
        let now = self.world.now();
        self.world.plan(now, Fault::Kill(self.node));
        self.world.run_until(now);
    }

    fn restart(&mut self) {
        let now = self.world.now();
        self.world.plan(now, Fault::Restart(self.node));
        self.world.run_until(now);
    }

    fn connect(&mut self, dst: SocketAddr, dscp: u8) -> Tcp {
        let tcp = Tcp(self.next());
        let line = Line::new(None, State::Opening);
        self.desk.lock().unwrap().lines.insert(tcp, line);
        let src = SocketAddr::new(Self::HOST, self.port());
        self.order(Order::Connect(tcp, src, dst, dscp));
        tcp
    }

    fn listen(&mut self, port: u16) {
        self.order(Order::Listen(port));
        self.run(Duration::from_millis(2));
    }

    fn accepted(&mut self) -> Option<Accepted> {
        self.desk.lock().unwrap().accepted.pop_front()
    }

    fn state(&mut self, tcp: Tcp) -> State {
        self.desk.lock().unwrap().lines[&tcp].state
    }

    fn marked(&mut self, tcp: Tcp) -> u8 {
        self.desk.lock().unwrap().lines[&tcp].marked
    }

    fn send(&mut self, tcp: Tcp, octets: &[u8]) -> usize {
        let mut desk = self.desk.lock().unwrap();
        let line = desk.lines.get_mut(&tcp).unwrap();
        let count = octets.len().min(4096 - line.outgoing.len().min(4096));
        line.outgoing.extend_from_slice(&octets[..count]);
        count
    }

    fn read(&mut self, tcp: Tcp, most: usize) -> Vec<u8> {
        let mut desk = self.desk.lock().unwrap();
        let line = desk.lines.get_mut(&tcp).unwrap();
        line.wants = most;
        let rest = line.incoming.split_off(most.min(line.incoming.len()));
        std::mem::replace(&mut line.incoming, rest)
    }

    fn fin(&mut self, tcp: Tcp) {
        self.order(Order::Fin(tcp));
    }

    fn reset(&mut self, tcp: Tcp) {
        self.order(Order::Reset(tcp));
    }

    fn secure(&mut self, tcp: Tcp, how: HostTls) {
        let authority = || vec!["authority".into()];
        let (profile, role) = match how {
            HostTls::Client {
                certificate: shown,
                newest,
            } => {
                let name = suite::tls::NAME.into();
                let profile = Profile {
                    certificate: shown.map(certificate),
                    newest,
                    ..Profile::trusting(authority())
                };
                (profile, TlsRole::Client { name })
            }
            HostTls::Server { certificate: shown } => {
                let profile = Profile {
                    certificate: Some(certificate(shown)),
                    ..Profile::trusting(authority())
                };
                (profile, TlsRole::Server)
            }
        };
        let mut desk = self.desk.lock().unwrap();
        let line = desk.lines.get_mut(&tcp).unwrap();
        line.tls = Some(tls::Line::new(&profile, &role).unwrap());
    }

    fn secured(&mut self, tcp: Tcp) -> Option<Result<TlsVersion, TlsFault>> {
        self.desk.lock().unwrap().lines[&tcp].secured
    }

    fn cut(&mut self, tcp: Tcp) {
        self.order(Order::Cut(tcp));
    }

    fn bind(&mut self, port: u16) -> Udp {
        let udp = Udp(self.next());
        self.order(Order::Bind(udp, port));
        self.run(Duration::from_millis(2));
        udp
    }

    fn send_to(&mut self, _: Udp, meta: DatagramMeta, bytes: &[u8]) {
        self.order(Order::Send(meta, bytes.to_vec()));
    }

    /// A simulated kernel has no rules: what nobody else takes is for transparent sockets.
    fn divert(&mut self, _: u16) {}

    fn led(&mut self) -> Vec<(Prefix, u32)> {
        let led = self.world.led(self.node);
        led.map(|it| (it.prefix, it.lead.metric)).collect()
    }

    fn take_route(&mut self, prefix: Prefix, metric: u32) {
        let (prefix, port) = (prefix.network(), PortId::HOST);
        let lead = Lead { port, metric };
        self.change(TableChange::Take(HostRoute { prefix, lead }));
    }

    fn occupy(&mut self, prefix: Prefix, metric: u32) {
        self.change(TableChange::Occupy(prefix, metric));
    }

    fn vacate(&mut self, prefix: Prefix, metric: u32) {
        self.change(TableChange::Vacate(prefix, metric));
    }

    fn received(&mut self, udp: Udp) -> Option<(DatagramMeta, Vec<u8>)> {
        let mut desk = self.desk.lock().unwrap();
        let (_, came) = desk.udp.values_mut().find(|(it, _)| *it == udp)?;
        came.pop_front()
    }
}

impl<const V6: bool, const CABLE: bool> Drop for Simulated<V6, CABLE> {
    /// Whatever the line was about, the world's books are in order.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.world.check();
            assert_eq!(strait_sim::check::violations(&self.world), [""; 0]);
        }
    }
}

fn always() -> bool {
    true
}

mod v4 {
    type Simulated = super::Simulated<false, false>;
    use super::always;
    crate::driver_suite!(Simulated, always, always);
}

mod v6 {
    type Simulated = super::Simulated<true, false>;
    use super::always;
    crate::driver_suite!(Simulated, always, always);
}

mod cable {
    type Simulated = super::Simulated<false, true>;
    use super::always;
    crate::driver_suite!(Simulated, always, of streams);
}
