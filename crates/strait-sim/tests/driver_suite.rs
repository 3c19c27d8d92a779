//! The simulator's driver in the lines that the live one passes too.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at what it does not expect"
)]

#[path = "../../strait-core/tests/suite/mod.rs"]
mod suite;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use strait_channel::LinkConfig;
use strait_core::node::{DatagramMeta, NodeFactory};
use strait_core::{Duration, Instant, NeighbourId, PortId};
use strait_sim::{Around, Attach, Fault, NodeIndex};
use strait_world::host::{
    AppId, Application, ConnectionId, Event, Host, HostConfig, Stack, TcpOptions,
};
use strait_world::tcp::TcpError;
use strait_world::traffic::{FlowLog, Side};

use suite::{Accepted, State, Tcp, Udp, World};

const NODE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 0, 1));
const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 0, 2));

/// What the host is to do.
enum Order {
    Connect(Tcp, SocketAddr, SocketAddr, u8),
    Listen(u16),
    Fin(Tcp),
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
    /// Octets that the program wants to read.
    wants: usize,
    fin: bool,
}

impl Line {
    const fn new(connection: Option<ConnectionId>, state: State) -> Self {
        Self {
            connection,
            state,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            wants: 0,
            fin: false,
        }
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
        use strait_world::tcp::TcpState;
        let Some(connection) = line.connection.and_then(|id| stack.connection(id)) else {
            return;
        };
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
                    dst: SocketAddr::new(HOST, port),
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

struct Simulated {
    world: strait_sim::World,
    node: NodeIndex,
    desk: Arc<Mutex<Desk>>,
    ports: u16,
}

impl Simulated {
    fn order(&mut self, order: Order) {
        self.desk.lock().unwrap().orders.push_back(order);
    }

    fn next(&mut self) -> usize {
        let mut desk = self.desk.lock().unwrap();
        desk.next += 1;
        desk.next - 1
    }
}

impl World for Simulated {
    fn new(factory: Box<dyn NodeFactory>) -> Self {
        let mut world = strait_sim::World::new(1);
        world.trace_paths();
        world.keep_fates();
        let node = world.add_node("node", factory);
        let desk = Arc::new(Mutex::new(Desk::default()));
        let mut host = Host::new(&HostConfig::new("host", vec![HOST], 1));
        let hand = Hand {
            desk: desk.clone(),
            looks_at: Instant::ZERO,
            log: FlowLog::new("hand", Side::From),
        };
        let AppId(_) = host.install(|_| hand);
        let host = world.add_host(host);
        let kernel = world.add_kernel(
            node,
            Around {
                own: vec![NODE],
                networks: vec![format!("{NODE}/24").parse().unwrap()],
                hosts: vec![HOST],
            },
        );
        let at = |node, port| Attach {
            node,
            port: PortId(port),
            neighbour: NeighbourId::PEER,
        };
        let lan = LinkConfig::frames(100_000_000, Duration::from_micros(50));
        world
            .join_at("lan", &lan, [at(kernel, 0), at(host, 0)])
            .unwrap();
        world
            .join_at("tun", &lan, [at(kernel, 1), at(node, 0)])
            .unwrap();
        world.start();
        Self {
            world,
            node,
            desk,
            ports: 5000,
        }
    }

    fn node(&self) -> IpAddr {
        NODE
    }

    fn host(&self) -> IpAddr {
        HOST
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
        let src = SocketAddr::new(HOST, self.port());
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

    fn bind(&mut self, port: u16) -> Udp {
        let udp = Udp(self.next());
        self.order(Order::Bind(udp, port));
        self.run(Duration::from_millis(2));
        udp
    }

    fn send_to(&mut self, _: Udp, meta: DatagramMeta, bytes: &[u8]) {
        self.order(Order::Send(meta, bytes.to_vec()));
    }

    fn received(&mut self, udp: Udp) -> Option<(DatagramMeta, Vec<u8>)> {
        let mut desk = self.desk.lock().unwrap();
        let (_, came) = desk.udp.values_mut().find(|(it, _)| *it == udp)?;
        came.pop_front()
    }
}

impl Drop for Simulated {
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

driver_suite!(Simulated, always);

mod foreign {
    //! What needs rules of the host's own, live.

    use strait_core::node::{Bind, Listen, SocketEvent, SocketOp, StreamOp};

    use super::suite::{Heard, Puppet, read_all, send_all, socket, stream, until};
    use super::{DatagramMeta, HOST, IpAddr, NODE, Simulated, SocketAddr, State, World};

    /// Beyond the node, as the host sees it (RFC 5737).
    const FOREIGN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

    #[test]
    fn a_transparent_listener_takes_what_is_for_others_and_answers_as_they() {
        let (puppet, mut world) = Puppet::stage::<Simulated>();
        let own = SocketAddr::new(NODE, world.port());
        let listen = Listen {
            transparent: true,
            ..Listen::at(own)
        };
        puppet.socket(socket(1), SocketOp::Listen(listen));
        puppet.hears(
            &mut world,
            &Heard::Socket(socket(1), SocketEvent::Bound(own)),
        );
        let dst = SocketAddr::new(FOREIGN, 80);
        let tcp = world.connect(dst, 10);
        until(&mut world, "a client", |_| !puppet.clients().is_empty());
        let id = puppet.clients()[0];
        let opened = puppet.heard().into_iter().find_map(|heard| match heard {
            Heard::Opened { dst, dscp, src, .. } => Some((src.ip(), dst, dscp)),
            _ => None,
        });
        assert_eq!(opened, Some((HOST, dst, 10)));
        puppet.stream(id, StreamOp::Send(b"from afar".to_vec()));
        assert_eq!(read_all(&mut world, tcp, 9), b"from afar");
        // Who listens at an address goes first.
        let other = SocketAddr::new(NODE, own.port());
        world.connect(other, 0);
        until(&mut world, "another", |_| puppet.clients().len() == 2);
        // Without the listener it goes on to the node's port, and nobody answers there.
        puppet.socket(socket(1), SocketOp::Close);
        let late = world.connect(dst, 0);
        world.run(std::time::Duration::from_millis(500));
        assert_eq!(world.state(late), State::Opening);
    }

    #[test]
    fn a_node_connects_in_anothers_name() {
        let (puppet, mut world) = Puppet::stage::<Simulated>();
        let port = world.port();
        world.listen(port);
        let src = SocketAddr::new(FOREIGN, 4000);
        puppet.connect(1, Some(src), SocketAddr::new(HOST, port), 0);
        let mut accepted = None;
        until(&mut world, "a connection", |world| {
            accepted = accepted.or_else(|| world.accepted());
            accepted.is_some()
        });
        assert_eq!(accepted.unwrap().src, src);
        puppet.stream(stream(1), StreamOp::Credit(10));
        send_all(&mut world, accepted.unwrap().tcp, b"who");
        until(&mut world, "octets", |_| puppet.data(stream(1)) == b"who");
    }

    #[test]
    fn a_transparent_socket_takes_datagrams_for_others_and_sends_as_they() {
        let (puppet, mut world) = Puppet::stage::<Simulated>();
        let own = SocketAddr::new(NODE, world.port());
        let op = SocketOp::Bind(Bind {
            address: own,
            group: None,
            transparent: true,
        });
        puppet.socket(socket(1), op);
        puppet.hears(
            &mut world,
            &Heard::Socket(socket(1), SocketEvent::Bound(own)),
        );
        let port = world.port();
        let udp = world.bind(port);
        let there = DatagramMeta {
            src: SocketAddr::new(HOST, port),
            dst: SocketAddr::new(FOREIGN, 53),
            dscp: 0,
            hop_limit: 64,
        };
        world.send_to(udp, there, b"name?");
        puppet.hears(
            &mut world,
            &Heard::Datagram(socket(1), there, b"name?".to_vec()),
        );
        let back = DatagramMeta {
            src: there.dst,
            dst: there.src,
            ..there
        };
        puppet.datagram(socket(1), back, b"name!");
        let mut came = None;
        until(&mut world, "an answer", |world| {
            came = came.take().or_else(|| world.received(udp));
            came.is_some()
        });
        assert_eq!(came.unwrap().0.src, there.dst);
    }

    #[test]
    fn nobody_at_an_address_of_the_network_is_told_at_once() {
        let (puppet, mut world) = Puppet::stage::<Simulated>();
        let nobody = SocketAddr::new(IpAddr::from([10, 1, 0, 77]), 80);
        puppet.connect(1, None, nobody, 0);
        puppet.hears(&mut world, &Heard::Reset(stream(1), 113));
    }

    #[test]
    fn a_node_that_connects_to_itself_gets_itself() {
        let (puppet, mut world) = Puppet::stage::<Simulated>();
        let own = SocketAddr::new(IpAddr::from([127, 0, 0, 1]), world.port());
        puppet.listen(socket(1), own, 1000);
        puppet.hears(
            &mut world,
            &Heard::Socket(socket(1), SocketEvent::Bound(own)),
        );
        puppet.connect(1, None, own, 0);
        until(&mut world, "a client", |_| !puppet.clients().is_empty());
        let id = puppet.clients()[0];
        puppet.stream(id, StreamOp::Credit(5));
        puppet.stream(stream(1), StreamOp::Send(b"hello".to_vec()));
        until(&mut world, "octets", |_| puppet.data(id) == b"hello");
        // The loopback address isn't to be had from the network.
        let tcp = world.connect(own, 0);
        world.run(std::time::Duration::from_millis(100));
        assert_ne!(world.state(tcp), State::Open);
    }
}
