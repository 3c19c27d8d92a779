//! How much of a processor's time the kernel needs to classify, queue and schedule packets.
//!
//! A TUN interface never says that it is busy, so a queue in front of it never fills by itself. The
//! policy is therefore exported with a token bucket above its tree, which is shut while packets
//! come in and open while they leave. The same packets through the same sockets and the same
//! interface without a policy show what sockets and interface take; the difference is the policy's.

use std::io::IoSlice;
use std::net::{SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn6, sendmmsg, setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::time::Duration;
use strait_live::clock::monotonic;
use strait_live::error::{Doing, Error};
use strait_live::kernel::namespace::Namespace;
use strait_live::ports::tun::{TunConfig, TunPort};
use strait_live::ports::{PortIo, Received};
use strait_qos::export::Export;
use strait_wire::ip::PacketInfo;

use super::apply::{self, apply};
use super::bench::INTERFACE;

/// Octets of an IPv6 and a UDP header.
const HEADERS_OCTETS: usize = 48;
/// All packets of a round wait in the interface before they are read, so it must hold them.
const ROUND_MAX: usize = 4000;
/// Room for them in a socket's account of what it sent: twice what the longest takes with its
/// bookkeeping.
const SOCKET_OCTETS: usize = ROUND_MAX * 5000;
/// A round takes milliseconds; after this it is stuck.
const PATIENCE: Duration = Duration::from_secs(5);
/// Packets that slip through what is shut.
const SLIPPED_MAX: usize = 16;
const DOING: &str = "measure a policy in the kernel";
/// What lets nothing through for the time of a round but a packet or two.
const SHUT: &str = "tbf rate 1mbit burst 1600b limit 10mb";

/// The packets of one code point.
struct Batch {
    socket: UdpSocket,
    packets: Packets,
    headers: MultiHeaders<SockaddrIn6>,
}

/// An interface, with a policy or without, and the packets of a round.
struct Path {
    namespace: Namespace,
    tun: TunPort,
    batches: Vec<Batch>,
    /// The command that opens the token bucket; none without a policy.
    open: Option<String>,
}

/// Both.
pub struct QueueSpeed {
    with: Path,
    without: Path,
    packets: usize,
}

/// How long the packets of a round took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Through the policy.
    pub with: Duration,
    /// Past it.
    pub without: Duration,
}

impl QueueSpeed {
    /// Two interfaces, one of them with the policy, which has to have a `shape` above its tree that
    /// lets a whole round through. `packets` are those of a round: IPv6 and UDP.
    ///
    /// # Errors
    /// The privilege for it is missing, or the kernel lacks something of it.
    pub fn open(export: &Export, packets: &[&[u8]]) -> Result<Self, Error> {
        let bucket = export
            .tc
            .lines()
            .find_map(|line| line.split_once(": tbf "))
            .map(|(_, keys)| format!("tbf {keys}"));
        let Some(bucket) = bucket else {
            let why = "nothing above its tree can be shut";
            return Err(Error::invalid(DOING, why));
        };
        let with = Path::open("with", Some((export, bucket)), packets)?;
        let without = Path::open("without", None, packets)?;
        Ok(Self {
            with,
            without,
            packets: packets.len(),
        })
    }

    /// Packets of a round.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.packets
    }

    /// Sends all packets through both.
    ///
    /// # Errors
    /// A packet was lost.
    pub fn round(&mut self) -> Result<Round, Error> {
        Ok(Round {
            with: self.with.round(self.packets)?,
            without: self.without.round(self.packets)?,
        })
    }
}

impl Path {
    fn open(
        name: &str,
        policy: Option<(&Export, String)>,
        packets: &[&[u8]],
    ) -> Result<Self, Error> {
        let namespace = Namespace::create(name)?;
        let mut infos = Vec::new();
        for packet in packets {
            let info = PacketInfo::parse(packet);
            infos.extend(info.ok().filter(|info| info.src.is_ipv6()));
        }
        let own = infos.first().map(|info| info.src);
        let mut tun = TunPort::new(TunConfig {
            interface: INTERFACE.into(),
            addresses: own.map(|own| (own, 64)).into_iter().collect(),
            mtu: 1500,
        });
        namespace.enter(|| tun.open(monotonic()))??;
        let room = format!("link set dev {INTERFACE} txqueuelen {ROUND_MAX}");
        apply::run(&namespace, "ip", &room.split(' ').collect::<Vec<_>>(), "")?;
        let open = match policy {
            Some((export, bucket)) => {
                apply(export, &namespace)?;
                Some(bucket)
            }
            None => {
                let none = format!("qdisc replace dev {INTERFACE} root noqueue");
                apply::run(&namespace, "tc", &none.split(' ').collect::<Vec<_>>(), "")?;
                None
            }
        };
        let sockets = namespace.enter(|| sockets(&infos))??;
        let batches = sockets.into_iter().map(|(socket, packets)| Batch {
            socket,
            headers: MultiHeaders::preallocate(packets.len(), None),
            packets,
        });
        let batches = batches.collect();
        Ok(Self {
            namespace,
            tun,
            batches,
            open,
        })
    }

    /// Time to take all packets in, and time until all have left.
    fn round(&mut self, packets: usize) -> Result<Duration, Error> {
        if self.open.is_some() {
            self.set(SHUT)?;
        }
        let Some((last, others)) = self.batches.split_last_mut() else {
            return Ok(Duration::ZERO);
        };
        let began = monotonic();
        let mut sent = 0;
        for batch in others.iter_mut() {
            sent += batch.send(batch.packets.len())?;
        }
        let but_one = last.packets.len().saturating_sub(1);
        sent += last.send(but_one)?;
        let mut took = monotonic().since(began);
        let mut came = 0;
        if let Some(open) = self.open.clone() {
            came = self.read(SLIPPED_MAX + 1, None)?;
            if came > SLIPPED_MAX {
                let why = "packets don't wait for the token bucket to open";
                return Err(Error::invalid(DOING, why));
            }
            self.set(&open)?;
        }
        let began = monotonic();
        // The last one sets all in motion.
        if let Some(last) = self.batches.last_mut() {
            sent += last.send(1)?;
        }
        came += self.read(sent - came, Some(PATIENCE))?;
        took += monotonic().since(began);
        if came == packets {
            return Ok(took);
        }
        let why = format!("{came} of {packets} packets came through");
        Err(Error::invalid(DOING, why))
    }

    fn set(&self, bucket: &str) -> Result<(), Error> {
        let root = format!("{:x}:", Export::HANDLE);
        let words = format!("qdisc change dev {INTERFACE} root handle {root} {bucket}");
        apply::run(
            &self.namespace,
            "tc",
            &words.split(' ').collect::<Vec<_>>(),
            "",
        )
    }

    /// Reads so many packets, or as many as come in time; without patience, as many as are there.
    fn read(&mut self, packets: usize, patience: Option<Duration>) -> Result<usize, Error> {
        let began = monotonic();
        let mut buffer = [0; 2048];
        let mut came = 0;
        while came < packets {
            let received = self.tun.receive(began, &mut buffer);
            match received.doing(|| format!("read from `{INTERFACE}`"))? {
                // The host's own reports to routers and neighbours aren't counted.
                Received::Frame { octets, .. } => {
                    let info = PacketInfo::parse(&buffer[..octets]);
                    came += usize::from(info.is_ok_and(|info| info.ports.is_some()));
                }
                Received::Skipped | Received::Event(_) | Received::Left { .. } => {}
                Received::Nothing if patience.is_none_or(|it| monotonic().since(began) > it) => {
                    break;
                }
                Received::Nothing => thread::yield_now(),
            }
        }
        Ok(came)
    }
}

impl Batch {
    /// Sends the first so many of its packets; how many the kernel took.
    fn send(&mut self, count: usize) -> Result<usize, Error> {
        static PAYLOAD: [u8; 1500] = [0; 1500];
        let packets = self.packets.iter().take(count);
        let slices = packets
            .clone()
            .map(|(octets, _)| [IoSlice::new(&PAYLOAD[..(*octets).min(PAYLOAD.len())])]);
        let slices: Vec<_> = slices.collect();
        let addresses: Vec<_> = packets.map(|(_, to)| *to).collect();
        if count == 0 {
            return Ok(0);
        }
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let sent = sendmmsg(fd, &mut self.headers, &slices, addresses, [], flags);
        Ok(sent.doing(|| "send many packets")?.count())
    }
}

/// By packet: octets of payload, and where it goes.
type Packets = Vec<(usize, Option<SockaddrIn6>)>;

/// A socket for each code point, with its packets.
fn sockets(infos: &[PacketInfo]) -> Result<Vec<(UdpSocket, Packets)>, Error> {
    let mut dscps: Vec<u8> = infos.iter().map(|info| info.dscp).collect();
    dscps.sort_unstable();
    dscps.dedup();
    let socket = |dscp: u8| {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_tclass_v6(u32::from(dscp) << 2)?;
        setsockopt(&socket, sockopt::SndBufForce, &SOCKET_OCTETS)?;
        let own = infos.iter().filter(|info| info.dscp == dscp);
        Ok((socket.into(), own.map(packet).collect()))
    };
    let made: Result<Vec<_>, std::io::Error> = dscps.into_iter().map(socket).collect();
    made.doing(|| "open the senders' sockets")
}

fn packet(info: &PacketInfo) -> (usize, Option<SockaddrIn6>) {
    let port = info.ports.map_or(0, |(_, destination)| destination);
    let to = match SocketAddr::new(info.dst, port) {
        SocketAddr::V6(to) => Some(SockaddrIn6::from(SocketAddrV6::new(*to.ip(), port, 0, 0))),
        SocketAddr::V4(_) => None,
    };
    ((info.octets as usize).saturating_sub(HEADERS_OCTETS), to)
}
