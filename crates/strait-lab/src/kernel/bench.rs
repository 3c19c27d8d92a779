//! Traffic through the queues of an interface, and what came out of them when.
//!
//! The interface is a TUN in a namespace of its own. What its queueing discipline lets go is read
//! at once, so nothing but the discipline holds packets back, and a packet has the length that its
//! IP header says: a TUN has no other.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use nix::errno::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use strait_core::chance::Stream;
use strait_core::time::{Duration, Instant};
use strait_live::clock::monotonic;
use strait_live::error::{Doing, Error};
use strait_live::kernel::namespace::Namespace;
use strait_live::poll;
use strait_live::ports::tun::{TunConfig, TunPort};
use strait_live::ports::{PortIo, Received};
use strait_wire::ip::PacketInfo;

/// Octets of an IPv4 and a UDP header.
const HEADERS_OCTETS: u32 = 28;
/// The sender's clock in each payload.
const STAMP_OCTETS: usize = 8;
/// Packets that a sender which is always ready keeps in its queue: enough that the queue never
/// runs dry while the sender sleeps, and fewer than a queue's usual limit of 50.
const AHEAD_PACKETS: u32 = 24;
/// What the kernel's memory accounting adds to a packet: its `sk_buff`, and rounding.
const BOOKKEEPING_OCTETS: u32 = 800;
/// How long a thread sleeps at most before it looks whether it is to end.
const PATIENCE: Duration = Duration::from_millis(100);

/// How fast a sender is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Always has another packet.
    Backlogged,
    /// A packet each period.
    Periodic(Duration),
    /// Poisson, with this mean gap.
    Poisson(Duration),
}

/// One flow of UDP packets over IPv4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offered {
    /// Its destination port, by which it is known again.
    pub port: u16,
    /// Its code point.
    pub dscp: u8,
    /// Octets of each packet with its IP header, 36 … 1500.
    pub octets: u32,
    /// Its speed.
    pub pace: Pace,
}

/// What came of one flow while it was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Packets that its sender offered to the kernel in that time.
    pub sent: u64,
    /// Packets that came out.
    pub packets: u64,
    /// Their octets, IP headers counted.
    pub octets: u64,
    /// Of each, how long after its sender had made it, in nanoseconds.
    pub delays_ns: Vec<u64>,
    /// Packets by the code point with which they came.
    pub by_dscp: Vec<(u8, u64)>,
}

impl Came {
    /// Bits a second over `window`.
    #[must_use]
    pub fn rate_bit_s(&self, window: Duration) -> f64 {
        self.octets as f64 * 8.0 / window.as_secs_f64()
    }

    /// Share of the packets that didn't come; 0 if more came than were sent, as what waited before.
    #[must_use]
    pub fn loss(&self) -> f64 {
        1.0 - (self.packets as f64 / self.sent.max(1) as f64).min(1.0)
    }

    fn note(&mut self, octets: u32, delay: Duration, dscp: u8) {
        self.packets += 1;
        self.octets += u64::from(octets);
        self.delays_ns.push(delay.as_nanos() as u64);
        match self.by_dscp.iter_mut().find(|(known, _)| *known == dscp) {
            Some((_, count)) => *count += 1,
            None => self.by_dscp.push((dscp, 1)),
        }
    }
}

/// An interface to send through.
#[derive(Debug)]
pub struct QueueBench {
    namespace: Namespace,
    tun: TunPort,
}

/// The interface's name.
pub const INTERFACE: &str = "line0";
/// Where packets go: nobody, behind the interface (192.0.2.0/24, RFC 5737).
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

impl QueueBench {
    /// A namespace with the interface, without a queueing discipline of ours yet.
    ///
    /// # Errors
    /// The privilege for it is missing.
    pub fn create(name: &str) -> Result<Self, Error> {
        let namespace = Namespace::create(name)?;
        let mut tun = TunPort::new(TunConfig {
            interface: INTERFACE.into(),
            addresses: vec![(Ipv4Addr::new(192, 0, 2, 1).into(), 24)],
            mtu: 1500,
        });
        namespace.enter(|| tun.open(monotonic()))??;
        Ok(Self { namespace, tun })
    }

    /// Where the interface is.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Sends all flows at once, for `warm_up` and then while they are counted for `window`.
    ///
    /// # Errors
    /// A socket or the interface failed.
    pub fn run(
        &mut self,
        flows: &[Offered],
        warm_up: Duration,
        window: Duration,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<Came>, Error> {
        let begin = monotonic();
        let counted = (begin + warm_up, begin + warm_up + window);
        let sockets = self.namespace.enter(|| {
            let sockets = flows.iter().map(socket);
            sockets.collect::<io::Result<Vec<_>>>()
        })?;
        let sockets = sockets.doing(|| "open the senders' sockets")?;
        let over = AtomicBool::new(false);
        let sent: Vec<AtomicU64> = flows.iter().map(|_| AtomicU64::new(0)).collect();
        let over_now = || over.load(Ordering::Relaxed);
        let came = thread::scope(|scope| {
            for ((flow, socket), sent) in flows.iter().zip(&sockets).zip(&sent) {
                scope.spawn(move || send(flow, socket, begin, counted, sent, &over_now));
            }
            let came = self.count(flows, counted, stop);
            over.store(true, Ordering::Relaxed);
            came
        });
        let mut came = came.doing(|| format!("read from `{INTERFACE}`"))?;
        for (came, sent) in came.iter_mut().zip(&sent) {
            came.sent = sent.load(Ordering::Relaxed);
        }
        Ok(came)
    }

    fn count(
        &mut self,
        flows: &[Offered],
        counted: (Instant, Instant),
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Vec<Came>> {
        let mut came = vec![Came::default(); flows.len()];
        let mut buffer = [0; 2048];
        while !stop() {
            let now = monotonic();
            if now >= counted.1 {
                break;
            }
            match self.tun.receive(now, &mut buffer)? {
                Received::Frame { octets, .. } if now >= counted.0 => {
                    note(&mut came, flows, &buffer[..octets], now);
                }
                Received::Frame { .. }
                | Received::Skipped
                | Received::Event(_)
                | Received::Left { .. } => {}
                Received::Nothing => self.wait(counted.1.since(now).min(PATIENCE))?,
            }
        }
        Ok(came)
    }

    fn wait(&self, patience: Duration) -> io::Result<()> {
        let Some(fd) = self.tun.fd() else {
            return Err(Errno::ENODEV.into());
        };
        Ok(poll::wait_to_read(&[fd], patience)?)
    }
}

fn note(came: &mut [Came], flows: &[Offered], packet: &[u8], now: Instant) {
    let Ok(info) = PacketInfo::parse(packet) else {
        return;
    };
    let port = info.ports.map_or(0, |(_, destination)| destination);
    let Some(index) = flows.iter().position(|flow| flow.port == port) else {
        return;
    };
    let stamp = packet.get(HEADERS_OCTETS as usize..).unwrap_or_default();
    let Some(stamp) = stamp.first_chunk::<STAMP_OCTETS>() else {
        return;
    };
    let made = Instant::from_nanos(u64::from_be_bytes(*stamp));
    came[index].note(info.octets, now.since(made), info.dscp);
}

fn socket(flow: &Offered) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_tos_v4(u32::from(flow.dscp) << 2)?;
    if flow.pace == Pace::Backlogged {
        // The kernel doubles what it is asked for.
        let octets = AHEAD_PACKETS / 2 * (flow.octets + BOOKKEEPING_OCTETS);
        socket.set_send_buffer_size(octets as usize)?;
        // So that a thread whose queue stands still sees that it is to end.
        socket.set_write_timeout(Some(PATIENCE))?;
    }
    socket.connect(&SocketAddr::from((FAR, flow.port)).into())?;
    Ok(socket.into())
}

fn send(
    flow: &Offered,
    socket: &UdpSocket,
    begin: Instant,
    counted: (Instant, Instant),
    sent: &AtomicU64,
    over: &dyn Fn() -> bool,
) {
    let mut payload = vec![0; flow.octets.saturating_sub(HEADERS_OCTETS) as usize];
    payload.resize(payload.len().max(STAMP_OCTETS), 0);
    let mut chance = Stream::new(u64::from(flow.port), "gaps");
    let mut due = begin;
    while !over() {
        let now = monotonic();
        if due > now && flow.pace != Pace::Backlogged {
            thread::sleep(due.since(now).min(PATIENCE));
            continue;
        }
        // Late or not, the moment when it should have left is when it was made.
        let made = if flow.pace == Pace::Backlogged {
            now
        } else {
            due
        };
        payload[..STAMP_OCTETS].copy_from_slice(&made.as_nanos().to_be_bytes());
        due = match flow.pace {
            Pace::Backlogged => due,
            Pace::Periodic(gap) => due + gap,
            Pace::Poisson(mean) => due + chance.exponential(mean),
        };
        // A stopped queue lets the sender wait until its patience ends: nothing was sent. A full
        // one or a policer refuses: that is a packet lost.
        let sent_one = match socket.send(&payload) {
            Ok(_) => true,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        if sent_one && made >= counted.0 && made < counted.1 {
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}
