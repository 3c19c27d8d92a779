//! What hosts on both sides send, and what of it arrives.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use strait_core::chance::Stream;
use strait_core::{Duration, Instant};
use strait_wire::hash::hash64;
use strait_wire::ip::{self, EchoKind};

use crate::world::World;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// RTP, with the code point of calls.
    Call,
    /// Segments of TCP one way, acknowledgements the other.
    Bulk,
    Ping,
    /// Datagrams over IPv6.
    Datagrams,
}

/// Packets of one kind from one end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) kind: Kind,
    pub(crate) from: usize,
    pub(crate) every: Duration,
    pub(crate) begins: Instant,
}

/// The address of the host at an end.
pub(crate) fn v4(end: usize) -> IpAddr {
    Ipv4Addr::new(10, end as u8 + 1, 0, 2).into()
}

/// The same.
pub(crate) fn v6(end: usize) -> IpAddr {
    Ipv6Addr::new(0xfd00, end as u16 + 1, 0, 0, 0, 0, 0, 2).into()
}

impl Flow {
    /// All flows of a run at a line of so many octets a second.
    pub(crate) fn all(octets_s: u64) -> Vec<Self> {
        let scale =
            |octets: u64, share: u64| Duration::from_millis(octets * 1000 * share / octets_s);
        let kinds = [
            (Kind::Call, scale(60, 5)),
            (Kind::Bulk, scale(560, 4)),
            (Kind::Ping, Duration::from_secs(1)),
            (Kind::Datagrams, Duration::from_millis(700)),
        ];
        let ends = |(kind, every)| {
            [0, 1].map(|from| Self {
                kind,
                from,
                every,
                begins: Instant::from_millis(500 + 37 * from as u64 + 11 * kind as u64),
            })
        };
        kinds.into_iter().flat_map(ends).collect()
    }

    /// Its packet with a number.
    fn packet(&self, number: u64) -> Vec<u8> {
        let (own, other) = (self.from, 1 - self.from);
        let mut out = Vec::new();
        let mut fill = Stream::new(number, "payload");
        let mut payload =
            |octets: usize| -> Vec<u8> { (0..octets).map(|_| fill.draw() as u8).collect() };
        let ident = (number as u16).wrapping_mul(3);
        match self.kind {
            Kind::Call => {
                let mut rtp = vec![0x80, 97];
                rtp.extend_from_slice(&(number as u16).to_be_bytes());
                rtp.extend_from_slice(&(number as u32 * 160).to_be_bytes());
                rtp.extend_from_slice(&[1, 2, 3, own as u8]);
                rtp.extend_from_slice(&payload(31));
                let [src, dst] = [own, other].map(|end| SocketAddr::new(v4(end), 5004));
                ip::build_udp(src, dst, 46, 64, ident, 0, &rtp, &mut out);
            }
            Kind::Bulk => {
                let data = if own == 0 { payload(500) } else { Vec::new() };
                let tcp = segment(own, number as u32, &data);
                ip::build_packet((v4(own), v4(other)), 6, 0, 64, &tcp, &mut out);
            }
            Kind::Ping => {
                let kind = if own == 0 {
                    EchoKind::Request
                } else {
                    EchoKind::Reply
                };
                let [src, dst] = [v4(own), v4(other)];
                ip::build_echo(
                    kind,
                    src,
                    dst,
                    0,
                    64,
                    ident,
                    7,
                    number as u16,
                    &payload(56),
                    &mut out,
                );
            }
            Kind::Datagrams => {
                let [src, dst] = [own, other].map(|end| SocketAddr::new(v6(end), 7001));
                ip::build_udp(src, dst, 0, 64, 0, 5, &payload(40), &mut out);
            }
        }
        out
    }
}

/// A segment of TCP with a timestamp and its checksum.
fn segment(own: usize, number: u32, data: &[u8]) -> Vec<u8> {
    let ports: [u16; 2] = if own == 0 { [40_000, 80] } else { [80, 40_000] };
    let (seq, ack) = if own == 0 {
        (number * 500, 77)
    } else {
        (77, number * 500)
    };
    let mut tcp: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    tcp.extend_from_slice(&seq.to_be_bytes());
    tcp.extend_from_slice(&ack.to_be_bytes());
    tcp.extend_from_slice(&[0x80, 0x10, 0x10, 0, 0, 0, 0, 0, 1, 1, 8, 10]);
    tcp.extend_from_slice(&(number * 90).to_be_bytes());
    tcp.extend_from_slice(&(number * 80).to_be_bytes());
    tcp.extend_from_slice(data);
    let mut pseudo: Vec<u8> = Vec::new();
    for end in [own, 1 - own] {
        pseudo.extend_from_slice(&[10, end as u8 + 1, 0, 2]);
    }
    pseudo.extend_from_slice(&[0, 6]);
    pseudo.extend_from_slice(&(tcp.len() as u16).to_be_bytes());
    pseudo.extend_from_slice(&tcp);
    if pseudo.len() % 2 == 1 {
        pseudo.push(0);
    }
    let words = pseudo
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    tcp
}

/// What tells a packet from others: all of it but an IPv4 identification and the checksum that
/// covers it. Nothing but a few bits of header compression's own checks vouches for that number on
/// a line, and of packets that aren't cut it says nothing.
fn hash_of(packet: &[u8]) -> u64 {
    let mut packet = packet.to_vec();
    if packet.first().is_some_and(|first| first >> 4 == 4) && packet.len() >= 20 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    hash64(0, &packet)
}

/// What tells a packet from others by what is behind its IP header. That header of a flow is
/// believed when it was said once; where no transport checksum covers it, three bits of check pass
/// one wrong header of eight.
fn hash_of_content(packet: &[u8]) -> u64 {
    let header = match packet.first().map(|first| first >> 4) {
        Some(4) => 20,
        Some(6) => 40,
        _ => 0,
    };
    hash64(1, packet.get(header..).unwrap_or_default())
}

/// A packet that was offered.
#[derive(Debug)]
struct Offered {
    flow: usize,
    at: Instant,
    to: usize,
    came: Vec<Instant>,
}

/// What became of a flow's packets in a run beside one without a forger.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Service {
    pub(crate) offered: usize,
    /// Those that came there.
    pub(crate) expected: usize,
    /// Those that came here, and not much later than there.
    pub(crate) came: usize,
}

/// All that was offered in a run.
#[derive(Debug)]
pub(crate) struct Record {
    flows: Vec<Flow>,
    offered: Vec<Offered>,
    by_hash: BTreeMap<u64, usize>,
    by_content: BTreeMap<u64, usize>,
    next: Vec<u64>,
    read: usize,
    /// Packets that nobody offered: when they came, and they.
    pub(crate) strange: Vec<(Instant, Vec<u8>)>,
    /// When packets came that were offered with another IP header.
    pub(crate) altered: Vec<Instant>,
}

impl Record {
    /// A packet that comes later than that is no service.
    const LATE: Duration = Duration::from_secs(3);

    pub(crate) fn new(flows: Vec<Flow>) -> Self {
        Self {
            next: vec![0; flows.len()],
            flows,
            offered: Vec::new(),
            by_hash: BTreeMap::new(),
            by_content: BTreeMap::new(),
            read: 0,
            strange: Vec::new(),
            altered: Vec::new(),
        }
    }

    /// Offers what is due until then, and runs on.
    pub(crate) fn run_until(&mut self, world: &mut World, until: Instant) {
        loop {
            let due = |(flow, number): (&Flow, &u64)| flow.begins + flow.every * *number as u32;
            let next = self.flows.iter().zip(&self.next).map(due).enumerate();
            let next = next.min_by_key(|(_, at)| *at);
            let Some((flow, at)) = next.filter(|(_, at)| *at <= until) else {
                break;
            };
            world.run_until(at);
            let packet = self.flows[flow].packet(self.next[flow]);
            self.next[flow] += 1;
            self.by_hash.insert(hash_of(&packet), self.offered.len());
            self.by_content
                .insert(hash_of_content(&packet), self.offered.len());
            let from = self.flows[flow].from;
            self.offered.push(Offered {
                flow,
                at,
                to: 1 - from,
                came: Vec::new(),
            });
            world.offer(from, &packet);
        }
        world.run_until(until);
        self.read(world);
    }

    fn read(&mut self, world: &World) {
        for delivered in &world.delivered[self.read..] {
            let packet = &delivered.packet;
            let to = |place: &&usize| self.offered[**place].to == delivered.to;
            if let Some(place) = self.by_hash.get(&hash_of(packet)).filter(to) {
                self.offered[*place].came.push(delivered.at);
            } else if self
                .by_content
                .get(&hash_of_content(packet))
                .is_some_and(|it| to(&it))
            {
                self.altered.push(delivered.at);
            } else {
                self.strange.push((delivered.at, packet.clone()));
            }
        }
        self.read = world.delivered.len();
    }

    /// Packets that came more than once.
    pub(crate) fn doubled(&self) -> usize {
        self.offered.iter().filter(|it| it.came.len() > 1).count()
    }

    /// By flow and second of offering, the packets that came in time.
    pub(crate) fn service(&self) -> BTreeMap<(usize, u64), u64> {
        let mut service = BTreeMap::new();
        for offered in &self.offered {
            let second = offered.at.as_nanos() / 1_000_000_000;
            let count = service.entry((offered.flow, second)).or_default();
            let in_time = |at: &Instant| at.since(offered.at) <= Self::LATE;
            *count += u64::from(offered.came.first().is_some_and(in_time));
        }
        service
    }

    /// Of the packets of a flow that were offered from one moment until another.
    pub(crate) fn beside(
        &self,
        other: &Self,
        flow: usize,
        from: Instant,
        until: Instant,
    ) -> Service {
        let mut service = Service::default();
        for (own, other) in self.offered.iter().zip(&other.offered) {
            if own.flow != flow || own.at < from || own.at >= until {
                continue;
            }
            let expected = other.came.first();
            let at_latest = *expected.unwrap_or(&own.at) + Self::LATE;
            service.offered += 1;
            service.expected += usize::from(expected.is_some());
            service.came += usize::from(own.came.first().is_some_and(|at| *at <= at_latest));
        }
        service
    }

    pub(crate) fn flows(&self) -> usize {
        self.flows.len()
    }

    pub(crate) fn flow(&self, flow: usize) -> (Kind, usize) {
        (self.flows[flow].kind, self.flows[flow].from)
    }
}
