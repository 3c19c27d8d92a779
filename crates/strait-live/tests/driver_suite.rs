//! The live driver in the lines that the simulator passes too: two hosts, each a namespace with the
//! kernel's own sockets, and a wire between them.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod common;

#[path = "../../strait-core/tests/suite/mod.rs"]
mod suite;

use std::collections::BTreeMap;
use std::io::{self, BufRead, ErrorKind, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::Duration;
use strait_core::node::{Boot, DatagramMeta, NodeFactory};
use strait_core::prefix::Prefix;
use strait_core::rate::LineRate;
use strait_core::tls::{TlsFault, TlsVersion};
use strait_live::clock::Clock;
use strait_live::kernel::namespace::Namespace;
use strait_live::node_loop::{Options, Runner};
use strait_live::ports::PortIo;
use strait_live::ports::tun::{TunConfig, TunPort};
use strait_live::ports::udp::{UdpConfig, UdpPort};
use strait_live::signals::Stopper;
use strait_live::sockets::tls::TlsProfiles;

use suite::tls::HostTls;
use suite::{Accepted, State, Tcp, Udp, World};

type Factory = Box<dyn NodeFactory + Send>;

/// A running node. Its thread gives back what makes its next life.
struct Life {
    stopper: Stopper,
    thread: JoinHandle<Factory>,
}

/// A connection as the host's program sees it.
struct Line {
    socket: Option<Socket>,
    state: State,
    tls: Option<Tls>,
}

/// TLS of the host's own, which nothing of the driver's has a hand in.
struct Tls {
    session: rustls::Connection,
    fault: Option<TlsFault>,
    ended: bool,
}

impl Tls {
    fn new(how: HostTls) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificates = |name: &str| {
            let file = suite::tls::file(&format!("{name}.pem"));
            let all = CertificateDer::pem_file_iter(file).unwrap();
            all.map(Result::unwrap).collect::<Vec<_>>()
        };
        let own = |name: &str| {
            let key = if name == "expired" { "server" } else { name };
            let key = suite::tls::file(&format!("{key}.key"));
            (
                certificates(name),
                PrivateKeyDer::from_pem_file(key).unwrap(),
            )
        };
        let session = match how {
            HostTls::Client {
                certificate,
                newest,
            } => {
                let versions: &[_] = match newest {
                    TlsVersion::V1_2 => &[&rustls::version::TLS12],
                    TlsVersion::V1_3 => rustls::ALL_VERSIONS,
                };
                let mut roots = rustls::RootCertStore::empty();
                roots.add(certificates("authority").remove(0)).unwrap();
                let builder = rustls::ClientConfig::builder_with_provider(provider);
                let builder = builder.with_protocol_versions(versions).unwrap();
                let builder = builder.with_root_certificates(roots);
                let config = match certificate.map(own) {
                    None => builder.with_no_client_auth(),
                    Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
                };
                let name = suite::tls::NAME.try_into().unwrap();
                rustls::ClientConnection::new(Arc::new(config), name)
                    .unwrap()
                    .into()
            }
            HostTls::Server { certificate } => {
                let builder = rustls::ServerConfig::builder_with_provider(provider);
                let builder = builder
                    .with_protocol_versions(rustls::ALL_VERSIONS)
                    .unwrap();
                let (chain, key) = own(certificate);
                let config = builder.with_no_client_auth().with_single_cert(chain, key);
                rustls::ServerConnection::new(Arc::new(config.unwrap()))
                    .unwrap()
                    .into()
            }
        };
        Self {
            session,
            fault: None,
            ended: false,
        }
    }

    /// Moves records both ways, as far as that goes now.
    fn work(&mut self, mut socket: &Socket) {
        while self.fault.is_none() {
            if self.session.wants_write() && matches!(self.session.write_tls(&mut socket), Ok(1..))
            {
                continue;
            }
            if self.ended || !self.session.wants_read() {
                return;
            }
            match self.session.read_tls(&mut socket) {
                Ok(1..) => {}
                Ok(0) => self.fault = Some(TlsFault::Truncated),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.fault = Some(TlsFault::Protocol),
            }
            match self.session.process_new_packets() {
                Ok(state) => self.ended = state.peer_has_closed(),
                Err(rustls::Error::AlertReceived(_)) => self.fault = Some(TlsFault::Refused),
                Err(_) => {
                    let _ = self.session.write_tls(&mut socket);
                    self.fault = Some(TlsFault::Protocol);
                }
            }
        }
    }

    fn secured(&self) -> Option<Result<TlsVersion, TlsFault>> {
        if let Some(fault) = self.fault {
            return Some(Err(fault));
        }
        let version = match self.session.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => TlsVersion::V1_2,
            _ => TlsVersion::V1_3,
        };
        (!self.session.is_handshaking()).then_some(Ok(version))
    }
}

/// A node here, a host there, in IPv6 or IPv4.
struct Live<const V6: bool> {
    here: Namespace,
    there: Namespace,
    factory: Option<Factory>,
    life: Option<Life>,
    lines: Vec<Line>,
    datagrams: Vec<Socket>,
    listener: Option<Socket>,
    /// All TCP that comes to the host, and what came last at each of its ports.
    heard: Option<Socket>,
    marked: BTreeMap<u16, u8>,
    ports: u16,
}

/// The node's host side.
const INTERFACE: &str = "strait0";

fn tun() -> TunPort {
    TunPort::new(TunConfig {
        interface: INTERFACE.into(),
        addresses: Vec::new(),
        mtu: 1500,
    })
}

/// Runs a program in a namespace.
fn run(namespace: &Namespace, program: &str, arguments: &str) {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let run = || Command::new(program).args(words).output();
    let output = namespace.enter(run).unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments}: {said}");
}

/// `None` for what is only not ready.
fn ready<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        other => other.map(Some),
    }
}

impl Line {
    fn look(&mut self) -> State {
        let Some(socket) = &self.socket else {
            return State::Reset;
        };
        if matches!(
            self.state,
            State::Refused | State::Unreachable | State::Reset
        ) {
            return self.state;
        }
        match socket.take_error().unwrap() {
            Some(error) if error.kind() == ErrorKind::ConnectionRefused => return State::Refused,
            // As Linux has it of IPv4 and IPv6.
            Some(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EHOSTUNREACH | libc::EACCES)
                ) =>
            {
                return State::Unreachable;
            }
            Some(_) => return State::Reset,
            None => {}
        }
        if let Some(tls) = &mut self.tls {
            tls.work(socket);
            let waits = tls
                .session
                .reader()
                .fill_buf()
                .is_ok_and(|it| !it.is_empty());
            return match tls.ended && !waits {
                true => State::Drained,
                false => State::Open,
            };
        }
        match ready(socket.peek(&mut [MaybeUninit::uninit()])) {
            Ok(Some(0)) => State::Drained,
            Ok(None) if socket.peer_addr().is_err() => State::Opening,
            Ok(_) => State::Open,
            Err(_) => State::Reset,
        }
    }

    /// What came of reading or writing; nothing, if that showed that it is gone.
    fn outcome(&mut self, outcome: io::Result<usize>) -> usize {
        let outcome = ready(outcome);
        if outcome.is_err() {
            self.state = State::Reset;
        }
        outcome.unwrap_or_default().unwrap_or(0)
    }
}

impl<const V6: bool> Live<V6> {
    const PREFIX: u8 = if V6 { 64 } else { 24 };
    /// Of the program `ip`.
    const FLAG: &str = if V6 { "-6" } else { "-4" };

    fn of(v4: [u8; 4], v6: &str) -> IpAddr {
        if V6 { v6.parse().unwrap() } else { v4.into() }
    }

    fn start(&mut self) {
        let factory = self.factory.take().unwrap();
        let (tell, told) = mpsc::channel();
        let ways = self.ways();
        let live = move || {
            let node = factory.boot(Boot::default());
            let ports: Vec<Box<dyn PortIo>> = vec![Box::new(tun()), Box::new(UdpPort::new(ways))];
            let mut runner = Runner::new(Clock::start(), node, ports).unwrap();
            runner.set_tls(TlsProfiles::load(&suite::tls::profiles()).unwrap());
            runner.set_options(Options {
                drain: Duration::ZERO,
                ..Options::default()
            });
            tell.send(runner.stopper()).unwrap();
            runner.run().unwrap();
            drop(runner);
            factory
        };
        let thread = self.here.enter(|| thread::spawn(live)).unwrap();
        let stopper = told.recv().unwrap();
        self.life = Some(Life { stopper, thread });
    }

    /// A port with two neighbours, where nobody listens.
    fn ways(&self) -> UdpConfig {
        UdpConfig {
            local: SocketAddr::new(self.node(), 7000),
            neighbours: [7001, 7002]
                .map(|port| SocketAddr::new(self.host(), port))
                .into(),
            rate: None,
            own_rates: suite::rates::RATES
                .map(|rate| LineRate::new(rate, 8))
                .into(),
            frame_octets_max: 1400,
        }
    }

    /// A new wire carries nothing for a moment, and multicast isn't sent again.
    fn await_wire(&self) {
        let at = |namespace: &Namespace, address: IpAddr| {
            let socket = namespace.enter(|| UdpSocket::bind((address, 1)));
            let socket = socket.unwrap().unwrap();
            let patience = Some(Duration::from_millis(20));
            socket.set_read_timeout(patience).unwrap();
            socket
        };
        let [near, far] = [at(&self.here, self.node()), at(&self.there, self.host())];
        for (from, to) in [(&far, &near), (&near, &far)] {
            let place = to.local_addr().unwrap();
            let heard = || from.send_to(b"?", place).is_ok() && to.recv(&mut [0]).is_ok();
            assert!((0..1000).any(|_| heard()), "the wire stays silent");
        }
    }

    fn socket(&self, kind: Type) -> Socket {
        let family = Domain::for_address((self.host(), 0).into());
        let protocol = (kind == Type::RAW).then_some(Protocol::TCP);
        let open = || Socket::new(family, kind, protocol);
        let socket = self.there.enter(open).unwrap().unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    /// The port at the host of the next TCP packet that came, and its code point.
    fn hear(&self) -> Option<(u16, u8)> {
        let mut buffer = [0; 65_536];
        let mut space = nix::cmsg_space!([u8; 64]);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let heard = self.heard.as_ref().unwrap().as_raw_fd();
        let flags = MsgFlags::empty();
        let message = recvmsg::<SockaddrStorage>(heard, &mut slices, Some(&mut space), flags);
        let message = ready(message.map_err(io::Error::from)).unwrap()?;
        let told = message.cmsgs().unwrap().find_map(|note| match note {
            ControlMessageOwned::Ipv6TClass(class) => Some(class as u8 >> 2),
            _ => None,
        });
        // In IPv4 the packet begins with its header.
        let (dscp, header) = if V6 {
            (told.unwrap(), 0)
        } else {
            (buffer[1] >> 2, usize::from(buffer[0] & 15) * 4)
        };
        let port = [buffer[header + 2], buffer[header + 3]];
        Some((u16::from_be_bytes(port), dscp))
    }

    fn add(&mut self, socket: Socket) -> Tcp {
        self.lines.push(Line {
            socket: Some(socket),
            state: State::Opening,
            tls: None,
        });
        Tcp(self.lines.len() - 1)
    }
}

/// Marks all that a socket sends from now on.
fn mark(socket: &Socket, v6: bool, dscp: u8) {
    let class = u32::from(dscp) << 2;
    if v6 {
        socket.set_tclass_v6(class).unwrap();
    } else {
        socket.set_tos_v4(class).unwrap();
    }
}

fn limit_hops(socket: &Socket, v6: bool, hops: u32) {
    if v6 {
        socket.set_unicast_hops_v6(hops).unwrap();
        socket.set_multicast_hops_v6(hops).unwrap();
    } else {
        socket.set_ttl_v4(hops).unwrap();
        socket.set_multicast_ttl_v4(hops).unwrap();
    }
}

impl<const V6: bool> World for Live<V6> {
    fn new(factory: Factory) -> Self {
        let [here, there] = ["here", "there"].map(|name| Namespace::create(name).unwrap());
        here.connect("wire", &there, "wire").unwrap();
        // So an accepted socket tells the mark of its first packet.
        there.set("ipv4/tcp_reflect_tos", "1").unwrap();
        let mut world = Self {
            here,
            there,
            factory: Some(factory),
            life: None,
            lines: Vec::new(),
            datagrams: Vec::new(),
            listener: None,
            heard: None,
            marked: BTreeMap::new(),
            ports: 5000,
        };
        let (node, host) = (world.node(), world.host());
        world.here.add_address("wire", node, Self::PREFIX).unwrap();
        world.there.add_address("wire", host, Self::PREFIX).unwrap();
        let all = if V6 { 128 } else { 32 };
        world.there.add_route(world.foreign(), all, node).unwrap();
        world.await_wire();
        let heard = world.socket(Type::RAW);
        if V6 {
            heard.set_recv_tclass_v6(true).unwrap();
        }
        world.heard = Some(heard);
        world.start();
        world
    }

    fn node(&self) -> IpAddr {
        Self::of([10, 1, 0, 1], "fd01::1")
    }

    fn host(&self) -> IpAddr {
        Self::of([10, 1, 0, 2], "fd01::2")
    }

    fn divert(&mut self, port: u16) {
        let (ip, flag, any) = if V6 {
            ("ip6", "-6", "::/0")
        } else {
            ("ip", "-4", "0.0.0.0/0")
        };
        let here = &self.here;
        run(here, "ip", &format!("{flag} rule add fwmark 1 lookup 100"));
        let route = format!("{flag} route add local {any} dev lo table 100");
        run(here, "ip", &route);
        let (foreign, to) = (self.foreign(), SocketAddr::new(self.node(), port));
        for rule in [
            format!("table {ip} divert"),
            format!("chain {ip} divert in {{ type filter hook prerouting priority mangle ; }}"),
            format!(
                "rule {ip} divert in meta l4proto tcp socket transparent 1 meta mark set 1 accept"
            ),
            format!(
                "rule {ip} divert in {ip} daddr {foreign} meta l4proto {{ tcp, udp }} \
                 tproxy to {to} meta mark set 1 accept"
            ),
        ] {
            run(here, "nft", &format!("add {rule}"));
        }
    }

    fn led(&mut self) -> Vec<(Prefix, u32)> {
        let mut netlink = self.here.netlink().unwrap();
        let Ok(link) = netlink.link(INTERFACE) else {
            return Vec::new();
        };
        let led = netlink.led(link.index).unwrap().into_iter();
        let led = led.filter(|it| it.own);
        let mut led: Vec<_> = led.map(|it| (it.prefix, it.metric)).collect();
        led.sort_unstable();
        led
    }

    fn take_route(&mut self, prefix: Prefix, metric: u32) {
        let (flag, network) = (Self::FLAG, prefix.network());
        let route = format!("{flag} route del {network} dev {INTERFACE} metric {metric}");
        run(&self.here, "ip", &route);
    }

    fn occupy(&mut self, prefix: Prefix, metric: u32) {
        let (flag, network) = (Self::FLAG, prefix.network());
        let route = format!("{flag} route add {network} dev wire metric {metric}");
        run(&self.here, "ip", &route);
    }

    fn vacate(&mut self, prefix: Prefix, metric: u32) {
        let (flag, network) = (Self::FLAG, prefix.network());
        let route = format!("{flag} route del {network} dev wire metric {metric}");
        run(&self.here, "ip", &route);
    }

    fn port(&mut self) -> u16 {
        self.ports += 1;
        self.ports
    }

    fn run(&mut self, time: Duration) {
        thread::sleep(time);
        for line in &mut self.lines {
            if let Some((tls, socket)) = line.tls.as_mut().zip(line.socket.as_ref()) {
                tls.work(socket);
            }
        }
    }

    /// The kernel does with its descriptors what it does with those of a killed process.
    fn kill(&mut self) {
        if let Some(Life { stopper, thread }) = self.life.take() {
            stopper.stop();
            self.factory = Some(thread.join().unwrap());
        }
    }

    fn restart(&mut self) {
        self.start();
    }

    fn connect(&mut self, dst: SocketAddr, dscp: u8) -> Tcp {
        let socket = self.socket(Type::STREAM);
        mark(&socket, V6, dscp);
        let begun = socket.connect(&dst.into());
        let state = match begun {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => State::Refused,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EINPROGRESS));
                State::Opening
            }
            Ok(()) => State::Open,
        };
        let tcp = self.add(socket);
        self.lines[tcp.0].state = state;
        tcp
    }

    fn listen(&mut self, port: u16) {
        let socket = self.socket(Type::STREAM);
        let address = SocketAddr::new(self.host(), port);
        socket.bind(&address.into()).unwrap();
        socket.listen(16).unwrap();
        self.listener = Some(socket);
    }

    fn accepted(&mut self) -> Option<Accepted> {
        let (socket, src) = ready(self.listener.as_ref()?.accept()).unwrap()?;
        socket.set_nonblocking(true).unwrap();
        let class = if V6 {
            socket.tclass_v6()
        } else {
            socket.tos_v4()
        };
        Some(Accepted {
            tcp: self.add(socket),
            src: src.as_socket().unwrap(),
            dscp: (class.unwrap() >> 2) as u8,
        })
    }

    fn state(&mut self, tcp: Tcp) -> State {
        let line = &mut self.lines[tcp.0];
        line.state = line.look();
        line.state
    }

    fn marked(&mut self, tcp: Tcp) -> u8 {
        while let Some((port, dscp)) = self.hear() {
            self.marked.insert(port, dscp);
        }
        let own = self.lines[tcp.0].socket.as_ref().unwrap().local_addr();
        let port = own.unwrap().as_socket().unwrap().port();
        self.marked.get(&port).copied().unwrap_or(0)
    }

    fn send(&mut self, tcp: Tcp, octets: &[u8]) -> usize {
        let line = &mut self.lines[tcp.0];
        if let Some(tls) = &mut line.tls {
            let socket = line.socket.as_ref().unwrap();
            tls.work(socket);
            let waits = tls.session.wants_write() || tls.session.is_handshaking();
            let taken = if waits { &[] } else { octets };
            let sent = tls.session.writer().write(taken).unwrap();
            tls.work(socket);
            return sent;
        }
        let sent = line.socket.as_ref().unwrap().write(octets);
        line.outcome(sent)
    }

    fn read(&mut self, tcp: Tcp, most: usize) -> Vec<u8> {
        let line = &mut self.lines[tcp.0];
        let mut octets = vec![0; most];
        if let Some(tls) = &mut line.tls {
            tls.work(line.socket.as_ref().unwrap());
            let read = tls.session.reader().read(&mut octets);
            octets.truncate(read.unwrap_or(0));
            return octets;
        }
        let read = line.socket.as_ref().unwrap().read(&mut octets);
        octets.truncate(line.outcome(read));
        octets
    }

    fn fin(&mut self, tcp: Tcp) {
        let line = &mut self.lines[tcp.0];
        if let Some(tls) = &mut line.tls {
            tls.session.send_close_notify();
            tls.work(line.socket.as_ref().unwrap());
            assert!(!tls.session.wants_write());
        }
        self.cut(tcp);
    }

    fn secure(&mut self, tcp: Tcp, how: HostTls) {
        let line = &mut self.lines[tcp.0];
        line.tls = Some(Tls::new(how));
    }

    fn secured(&mut self, tcp: Tcp) -> Option<Result<TlsVersion, TlsFault>> {
        let line = &mut self.lines[tcp.0];
        let tls = line.tls.as_mut().unwrap();
        tls.work(line.socket.as_ref().unwrap());
        tls.secured()
    }

    fn cut(&mut self, tcp: Tcp) {
        let socket = self.lines[tcp.0].socket.as_ref();
        socket.unwrap().shutdown(Shutdown::Write).unwrap();
    }

    fn reset(&mut self, tcp: Tcp) {
        let socket = self.lines[tcp.0].socket.take().unwrap();
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }

    fn bind(&mut self, port: u16) -> Udp {
        let socket = self.socket(Type::DGRAM);
        if let IpAddr::V4(own) = self.host() {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true).unwrap();
            setsockopt(&socket, sockopt::Ipv4RecvTtl, &true).unwrap();
            socket.set_recv_tos_v4(true).unwrap();
            socket.set_multicast_if_v4(&own).unwrap();
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true).unwrap();
            setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true).unwrap();
            socket.set_recv_tclass_v6(true).unwrap();
            let wire = self.there.netlink().unwrap().link("wire").unwrap();
            socket.set_multicast_if_v6(wire.index).unwrap();
        }
        socket
            .bind(&SocketAddr::new(self.host(), port).into())
            .unwrap();
        self.datagrams.push(socket);
        Udp(self.datagrams.len() - 1)
    }

    fn send_to(&mut self, udp: Udp, meta: DatagramMeta, bytes: &[u8]) {
        let socket = &self.datagrams[udp.0];
        mark(socket, V6, meta.dscp);
        limit_hops(socket, V6, meta.hop_limit.into());
        socket.send_to(bytes, &meta.dst.into()).unwrap();
    }

    fn received(&mut self, udp: Udp) -> Option<(DatagramMeta, Vec<u8>)> {
        let socket = &self.datagrams[udp.0];
        let mut buffer = [0; 65_536];
        let mut space = nix::cmsg_space!([u8; 256]);
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::empty();
        let message =
            recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags);
        let message = ready(message.map_err(io::Error::from)).unwrap()?;
        let local = socket.local_addr();
        let mut meta = DatagramMeta {
            src: address(message.address.as_ref().unwrap()),
            dst: local.unwrap().as_socket().unwrap(),
            dscp: 0,
            hop_limit: 0,
        };
        for note in message.cmsgs().unwrap() {
            match note {
                ControlMessageOwned::Ipv4Tos(class) => meta.dscp = class >> 2,
                ControlMessageOwned::Ipv6TClass(class) => meta.dscp = class as u8 >> 2,
                ControlMessageOwned::Ipv4Ttl(hops) | ControlMessageOwned::Ipv6HopLimit(hops) => {
                    meta.hop_limit = hops as u8;
                }
                _ => {}
            }
        }
        let octets = message.bytes;
        Some((meta, buffer[..octets].to_vec()))
    }
}

fn address(of: &SockaddrStorage) -> SocketAddr {
    let v4 = of.as_sockaddr_in().map(|it| SocketAddr::V4((*it).into()));
    let v6 = || of.as_sockaddr_in6().map(|it| SocketAddr::V6((*it).into()));
    v4.or_else(v6).unwrap()
}

impl<const V6: bool> Drop for Live<V6> {
    fn drop(&mut self) {
        self.kill();
    }
}

fn can() -> bool {
    common::is_root("driver_suite")
}

/// With the rules of an operator.
fn can_divert() -> bool {
    let has = |program: &&str| Command::new(program).arg("-V").output().is_ok();
    let missing = ["nft", "ip"].iter().find(|it| !has(it));
    if let Some(program) = missing {
        eprintln!("driver_suite: skipped, needs `{program}`");
    }
    missing.is_none() && can()
}

mod v4 {
    type Live = super::Live<false>;
    use super::{can, can_divert};
    crate::driver_suite!(Live, can, can_divert);
}

mod v6 {
    type Live = super::Live<true>;
    use super::{can, can_divert};
    crate::driver_suite!(Live, can, can_divert);
}
