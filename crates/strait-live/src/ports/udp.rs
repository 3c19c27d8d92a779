//! A port over UDP, or over IP alone: the payloads of datagrams or packets are its frames, their
//! source addresses its neighbours.

use std::io;
use std::net::{SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::errno::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use strait_core::id::{ClassId, NeighbourId, Neighbours};
use strait_core::node::{Notice, PortState, Room, TxMeta};
use strait_core::rate::{Burst, LineRate};
use strait_core::time::{Duration, Instant};
use strait_wire::ip::{IPV4_HEADER_OCTETS, IPV6_HEADER_OCTETS};

use super::raw_ip::RawIp;
use super::{IoCounts, PortIo, Received, Sent, is_not_now};
use crate::error::{Doing, Error};
use crate::sockets::options::mark;

/// What a UDP port is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// Where it listens, and what its datagrams come from.
    pub local: SocketAddr,
    /// Its neighbours; their positions are their [`NeighbourId`]s.
    pub neighbours: Vec<SocketAddr>,
    /// Rate not to be exceeded, counting payload octets and over IP alone the headers, if the
    /// network needs one.
    pub rate: Option<LineRate>,
    /// By neighbour, the same for the way to each alone; empty where all share one.
    pub own_rates: Vec<LineRate>,
    /// The longest payload of a datagram in octets.
    pub frame_octets_max: u32,
}

/// A UDP or raw IP socket as a port.
///
/// With a rate, the next frame is asked for when the one before has left at that rate: at most
/// one frame is ever ahead of the scheduler's choice.
#[derive(Debug)]
pub struct UdpPort {
    config: UdpConfig,
    /// IP alone, without UDP.
    raw: Option<RawIp>,
    socket: Option<UdpSocket>,
    pace: Option<Burst>,
    /// The same by neighbour, where each has a way of its own.
    own_paces: Vec<Burst>,
    /// A frame that the socket had no space for.
    pending: Option<(NeighbourId, Vec<u8>)>,
    /// By class of what a frame carries, the code point of its datagram; best effort beyond.
    code_points: Vec<u8>,
    /// The code point that the socket has now.
    code_point: u8,
    counts: IoCounts,
}

/// A frame is asked for this much before the one before has left, so that the event loop's
/// lateness doesn't open gaps between frames.
const AHEAD: Duration = Duration::from_micros(500);

/// Rate that a port without shaper reports.
const UNSHAPED: LineRate = LineRate::new(1_000_000_000, 8);

impl UdpPort {
    /// A port that isn't open yet.
    pub fn new(config: UdpConfig) -> Self {
        Self {
            config,
            raw: None,
            socket: None,
            pace: None,
            own_paces: Vec::new(),
            pending: None,
            code_points: Vec::new(),
            code_point: 0,
            counts: IoCounts::default(),
        }
    }

    /// Sends packets of IP alone. Ports of addresses mean nothing then.
    pub fn over_ip(mut self, raw: RawIp) -> Self {
        self.raw = Some(raw);
        self
    }

    /// Marks datagrams by the class of what they carry, so that a network which tells classes apart
    /// treats them accordingly, such as another gateway.
    pub fn marked(mut self, code_points: Vec<u8>) -> Self {
        self.code_points = code_points;
        self
    }

    fn mark(&mut self, class: ClassId) {
        let wanted = self.code_points.get(class.index()).copied();
        let wanted = wanted.unwrap_or_default();
        let Some(socket) = self.socket.as_ref().filter(|_| wanted != self.code_point) else {
            return;
        };
        let socket = SockRef::from(socket);
        let marked = mark(&socket, self.config.local, wanted);
        // Without the mark a frame is worth sending too.
        if marked.is_ok() {
            self.code_point = wanted;
        }
    }

    /// The address that the socket has, once open: with port 0 the system chose one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.socket.as_ref()?.local_addr().ok()
    }

    /// Octets that the network's rate counts beside a frame's.
    fn header_octets(&self) -> u64 {
        let raw = self.raw.as_ref();
        let octets = raw.map(|_| match self.config.local {
            SocketAddr::V4(_) => IPV4_HEADER_OCTETS,
            SocketAddr::V6(_) => IPV6_HEADER_OCTETS,
        });
        octets.unwrap_or(0) as u64
    }

    fn neighbour(&self, from: SocketAddr) -> Option<NeighbourId> {
        let from = canonical(from);
        let position = self
            .config
            .neighbours
            .iter()
            .position(|known| canonical(*known) == from)?;
        u16::try_from(position).ok().map(NeighbourId)
    }

    fn send(&mut self, to: NeighbourId, octets: &[u8]) -> io::Result<Sent> {
        let Some(socket) = &self.socket else {
            self.counts.refused += 1;
            return Ok(Sent::Refused);
        };
        let targets = match to {
            NeighbourId::ALL => self.config.neighbours.as_slice(),
            to => self
                .config
                .neighbours
                .get(to.index()..=to.index())
                .unwrap_or(&[]),
        };
        let mut sent = 0;
        for target in targets {
            match socket.send_to(octets, target) {
                Ok(_) => sent += 1,
                // Half a broadcast can't be repeated to one neighbour; a single frame waits.
                Err(error) if is_not_now(&error) && targets.len() == 1 => {
                    self.pending = Some((to, octets.to_vec()));
                    sent += 1;
                }
                Err(_) => {}
            }
        }
        // Refusals concern one frame or one neighbour: no route now, nobody listening there.
        if sent < targets.len() || targets.is_empty() {
            self.counts.refused += 1;
            return Ok(Sent::Refused);
        }
        Ok(Sent::Taken)
    }
}

/// An address as comparisons need it: flow information means nothing, an embedded IPv4 address
/// is one, and a scope counts only for link-local addresses.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => address,
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::from((v4, v6.port())),
            None => {
                let local = v6.ip().is_unicast_link_local();
                let scope = if local { v6.scope_id() } else { 0 };
                SocketAddr::V6(SocketAddrV6::new(*v6.ip(), v6.port(), 0, scope))
            }
        },
    }
}

/// Octets that the kernel may hold for a socket that isn't read at once, its own overhead included.
const RECEIVE_BUFFER_OCTETS: usize = 1 << 20;

fn bind(local: SocketAddr) -> Result<UdpSocket, Error> {
    let doing = || format!("bind UDP {local}");
    let domain = Domain::for_address(local);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP)).doing(doing)?;
    socket.set_nonblocking(true).doing(doing)?;
    // A burst of small frames must find room: the usual default takes 165 of them. The kernel may
    // give less, and that is no error.
    let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_OCTETS);
    if local.is_ipv6() {
        socket.set_only_v6(true).doing(doing)?;
    }
    socket.bind(&local.into()).map_err(|error| {
        let in_use = error.raw_os_error() == Some(Errno::EADDRINUSE as i32);
        let error = Error::new(doing(), error);
        if in_use {
            let port = local.port();
            error.with_remedy(format!(
                "another program uses it, `ss -ulnp sport = :{port}` shows which: \
                 stop it or choose another port"
            ))
        } else {
            error
        }
    })?;
    Ok(socket.into())
}

impl PortIo for UdpPort {
    fn open(&mut self, now: Instant) -> Result<PortState, Error> {
        if self.socket.is_none() {
            self.socket = Some(match &self.raw {
                None => bind(self.config.local)?,
                Some(raw) => {
                    for neighbour in &mut self.config.neighbours {
                        let doing = || format!("reach {}", neighbour.ip());
                        *neighbour = raw.scoped(*neighbour).doing(doing)?;
                    }
                    raw.bind(self.config.local, RECEIVE_BUFFER_OCTETS)?
                }
            });
            self.code_point = 0;
            let headers = self.header_octets();
            let pace = |rate| Burst::new(rate, now).with_headers(headers);
            self.pace = self.config.rate.map(pace);
            self.own_paces = self.config.own_rates.iter().copied().map(pace).collect();
            self.pending = None;
        }
        let first = self.config.own_rates.first().copied();
        let rate = self.config.rate.or(first).unwrap_or(UNSHAPED);
        Ok(PortState {
            tx_rate: rate,
            rx_rate: rate,
            frame_octets_max: self.config.frame_octets_max,
            block: Duration::ZERO,
            latency: Duration::ZERO,
            notice: Notice::NONE,
        })
    }

    fn close(&mut self) {
        self.socket = None;
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    fn room(&mut self, now: Instant) -> Result<Room, Option<Instant>> {
        if self.pending.is_some() {
            return Err(None);
        }
        let free = self.pace.as_ref().map_or(now, Burst::end);
        if free > now + AHEAD {
            return Err(Some(free - AHEAD));
        }
        let busy = |pace: &Burst| pace.end() > now + AHEAD;
        let mut to = Neighbours::ALL;
        for (neighbour, pace) in (0..).map(NeighbourId).zip(&self.own_paces) {
            to = if busy(pace) {
                to.without(neighbour)
            } else {
                to
            };
        }
        if !self.own_paces.is_empty() && self.own_paces.iter().all(busy) {
            return Err(self.room_again(now));
        }
        Ok(Room {
            octets: self.config.frame_octets_max as usize,
            starts: free.max(now),
            until: None,
            to,
        })
    }

    fn room_again(&self, now: Instant) -> Option<Instant> {
        let ends = self.own_paces.iter().map(Burst::end);
        let busy = ends.filter(|end| *end > now + AHEAD);
        busy.min().map(|end| end - AHEAD)
    }

    fn neighbour_rates(&self) -> &[LineRate] {
        &self.config.own_rates
    }

    fn transmit(&mut self, now: Instant, meta: &TxMeta, octets: &[u8]) -> io::Result<Sent> {
        if let Some(pace) = &mut self.pace {
            pace.push(now, octets.len() as u64);
        }
        if let Some(pace) = self.own_paces.get_mut(meta.to.index()) {
            pace.push(now, octets.len() as u64);
        }
        self.mark(meta.class);
        self.send(meta.to, octets)
    }

    fn holds(&self) -> bool {
        self.pending.is_some()
    }

    fn flush(&mut self, _now: Instant) -> io::Result<()> {
        if let Some((to, octets)) = self.pending.take() {
            self.send(to, &octets)?;
        }
        Ok(())
    }

    fn drained(&mut self, _now: Instant) -> bool {
        self.pending.is_none()
    }

    fn receive(&mut self, _now: Instant, buffer: &mut [u8]) -> io::Result<Received> {
        let Some(socket) = &self.socket else {
            return Ok(Received::Nothing);
        };
        match socket.recv_from(buffer) {
            Ok((octets, from)) => {
                let raw = self.raw.as_ref();
                let octets = raw.map_or(Some(octets), |raw| {
                    raw.strip(from.is_ipv4(), buffer, octets)
                });
                if let (Some(octets), Some(from)) = (octets, self.neighbour(from)) {
                    return Ok(Received::Frame { from, octets });
                }
                self.counts.strangers += 1;
                tracing::debug!(%from, octets, "datagram from a stranger");
                Ok(Received::Skipped)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Received::Nothing),
            // A pending error of an earlier send, such as «port unreachable»: reading clears it.
            Err(_) => Ok(Received::Skipped),
        }
    }

    fn counts(&self) -> IoCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    use strait_core::id::TxId;

    #[test]
    fn datagrams_are_marked_by_the_class_that_they_carry() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let far = UdpSocket::bind(local).unwrap();
            let mut near = UdpPort::new(UdpConfig {
                local: local.parse().unwrap(),
                neighbours: vec![far.local_addr().unwrap()],
                rate: None,
                own_rates: Vec::new(),
                frame_octets_max: 1400,
            })
            .marked(vec![46, 8]);
            near.open(Instant::ZERO).unwrap();
            let marked = |class: u8, near: &mut UdpPort| {
                let meta = TxMeta::to_peer(ClassId(class));
                let sent = near.transmit(Instant::ZERO, &meta, b"x").unwrap();
                assert_eq!(sent, Sent::Taken);
                let socket = SockRef::from(near.socket.as_ref().unwrap());
                let octet = if local.starts_with('[') {
                    socket.tclass_v6()
                } else {
                    socket.tos_v4()
                };
                octet.unwrap() >> 2
            };
            assert_eq!(
                [0, 1, 0, 2].map(|class| marked(class, &mut near)),
                [46, 8, 46, 0]
            );
        }
    }

    fn port(neighbours: Vec<SocketAddr>, rate: Option<LineRate>) -> UdpPort {
        let mut port = UdpPort::new(UdpConfig {
            local: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            neighbours,
            rate,
            own_rates: Vec::new(),
            frame_octets_max: 1400,
        });
        port.open(Instant::ZERO).unwrap();
        port
    }

    fn received(port: &mut UdpPort, buffer: &mut [u8]) -> Received {
        for _ in 0..1000 {
            match port.receive(Instant::ZERO, buffer).unwrap() {
                Received::Nothing => std::thread::sleep(Duration::from_millis(1)),
                other => return other,
            }
        }
        Received::Nothing
    }

    #[test]
    fn neighbours_are_heard_and_strangers_only_counted() {
        let friend = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut port = port(
            vec!["127.0.0.1:9".parse().unwrap(), friend.local_addr().unwrap()],
            None,
        );
        let target = port.local_addr().unwrap();
        let mut buffer = [0; 2048];
        stranger.send_to(b"?", target).unwrap();
        assert_eq!(received(&mut port, &mut buffer), Received::Skipped);
        friend.send_to(b"hello", target).unwrap();
        let expected = Received::Frame {
            from: NeighbourId(1),
            octets: 5,
        };
        assert_eq!(received(&mut port, &mut buffer), expected);
        assert_eq!(&buffer[..5], b"hello");
        assert_eq!(port.counts().strangers, 1);

        let mut meta = TxMeta::to_peer(ClassId(0));
        meta.to = NeighbourId(1);
        assert_eq!(
            port.transmit(Instant::ZERO, &meta, b"hi").unwrap(),
            Sent::Taken
        );
        assert_eq!(friend.recv_from(&mut buffer).unwrap(), (2, target));
        meta.to = NeighbourId(2);
        meta.id = TxId(3);
        assert_eq!(
            port.transmit(Instant::ZERO, &meta, b"hi").unwrap(),
            Sent::Refused
        );
        assert_eq!(port.counts().refused, 1);
    }

    #[test]
    fn ways_of_their_own_are_paced_one_by_one() {
        let friends = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let mut port = UdpPort::new(UdpConfig {
            local: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            neighbours: friends.map(|it| it.local_addr().unwrap()).into(),
            rate: None,
            own_rates: vec![LineRate::new(800_000, 8), LineRate::new(8_000_000, 8)],
            frame_octets_max: 1400,
        });
        let now = Instant::ZERO;
        let state = port.open(now).unwrap();
        assert_eq!(state.tx_rate, port.neighbour_rates()[0]);
        assert_eq!(port.room(now).unwrap().to, Neighbours::ALL);
        let to = |number| TxMeta {
            to: NeighbourId(number),
            ..TxMeta::to_peer(ClassId(0))
        };
        let [slow, fast] = [9_500_000, 500_000].map(Instant::from_nanos);
        port.transmit(now, &to(0), &[0; 1000]).unwrap();
        let but_slow = Neighbours::ALL.without(NeighbourId(0));
        assert_eq!(port.room(now).unwrap().to, but_slow);
        assert_eq!(port.room_again(now), Some(slow));
        port.transmit(now, &to(1), &[0; 1000]).unwrap();
        let before = Instant::from_nanos(499_999);
        assert_eq!(port.room(before), Err(Some(fast)));
        let room = port.room(fast).unwrap();
        assert_eq!((room.to, room.starts), (but_slow, fast));
        assert_eq!(port.room(slow).unwrap().to, Neighbours::ALL);
        assert_eq!(port.room_again(slow), None);
    }

    #[test]
    fn the_shaper_keeps_one_frame_ahead_at_most() {
        let friend = UdpSocket::bind("127.0.0.1:0").unwrap();
        let rate = LineRate::new(8_000_000, 8);
        let mut port = port(vec![friend.local_addr().unwrap()], Some(rate));
        let meta = TxMeta::to_peer(ClassId(0));
        let now = Instant::ZERO;
        assert_eq!(port.room(now).unwrap().octets, 1400);
        port.transmit(now, &meta, &[0; 1000]).unwrap();
        let again = Instant::from_nanos(500_000);
        let before = Instant::from_nanos(499_999);
        assert_eq!(port.room(before), Err(Some(again)));
        let room = port.room(again).unwrap();
        assert_eq!(room.starts, Instant::from_millis(1));
    }

    #[test]
    fn a_port_in_use_names_itself_and_the_remedy() {
        let first = UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = first.local_addr().unwrap();
        let error = bind(local).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("cannot bind UDP {local}: ")),
            "{error}"
        );
        assert!(error.contains("choose another port"), "{error}");
        let elsewhere = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 7001));
        let error = bind(elsewhere).unwrap_err().to_string();
        assert!(error.contains("no such address"), "{error}");
    }

    #[test]
    fn addresses_compare_by_meaning() {
        let same =
            |a: &str, b: &str| canonical(a.parse().unwrap()) == canonical(b.parse().unwrap());
        assert!(same("[::ffff:127.0.0.1]:7", "127.0.0.1:7"));
        assert!(same("[fd00::1%3]:7", "[fd00::1]:7"));
        assert!(!same("[fe80::1%3]:7", "[fe80::1%4]:7"));
        assert!(!same("127.0.0.1:7", "127.0.0.1:8"));
    }
}
