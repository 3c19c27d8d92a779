//! The gateway under any inputs at any times: it keeps its invariants, keeps its word to the
//! driver, and its journal repeats the run.

use std::net::{IpAddr, SocketAddr};

use arbitrary::{Result, Unstructured};
use strait_core::drive::ROUNDS_MAX;
use strait_core::id::TxId;
use strait_core::node::{
    Boot, Command, DatagramMeta, DownCause, Effect, FrameMeta, Node, Notice, Owner, PortEvent,
    PortState, RouteChange, Side, SocketId, StoreError, StreamEvent, StreamId, Ticket, WallTime,
};
use strait_core::rate::LineRate;
use strait_core::{Duration, Input, Instant, NeighbourId, Neighbours, PortId, Room};
use strait_node::journal::{self, JournalSettings, JournalWriter};
use strait_node::{Gateway, NodeConfig, config_text};
use strait_wire::check::Crc32Sum;
use strait_wire::ip;
use strait_wire::segment::{SegmentCheck, SegmentHeader, emit_segment};

/// The gateways: serial line, plain line, shared UDP port, relay with a policy of its own, and one
/// on an Ethernet that answers whatever it can.
pub const CONFIGS: &[&str] = &[
    r#"
name = "serial"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "line"
kind = "serial"
baud = 9600
"#,
    r#"
name = "plain"
[host]
addresses = ["10.9.0.1/30"]
mtu = 9000
[[port]]
name = "line"
kind = "serial"
baud = 2400
framing = "8E2"
profile = "plain"
mtu = 1280
[policy]
preset = "fifo"
"#,
    r#"
name = "shared"
[host]
addresses = ["10.9.0.1/30", "fd00:9::1/64"]
[[port]]
name = "net"
kind = "udp"
rate = "64 kbit/s"
frame = "100 B"
neighbours = [{ name = "b" }, { name = "c" }]
[[route]]
prefix = "10.2.0.0/16"
port = "net"
via = "b"
[[route]]
prefix = "fd00:2::/32"
port = "net"
via = "c"
"#,
    r#"
name = "relay"
[host]
addresses = ["10.9.0.1/30"]
[[port]]
name = "line"
kind = "serial"
baud = 75
segment = "8 B"
check = 16
flag_after_idle = "10 ms"
[[port]]
name = "net"
kind = "udp"
neighbours = [{ name = "b", rate = "2400 bit/s" }, { name = "c", rate = "1 Mbit/s" }]
[[route]]
prefix = "10.2.0.0/16"
port = "line"
[[route]]
prefix = "10.3.0.0/16"
port = "net"
via = "c"
[[route]]
prefix = "10.1.0.0/16"
port = "host"
[policy]
default = "rest"
[[policy.class]]
name = "urgent"
band = 0
packets = 2
age = "1 s"
[[policy.class]]
name = "a"
band = 1
weight = 3
octets = "3 kB"
[[policy.class]]
name = "rest"
band = 1
packets = 3
age = "5 s"
[[policy.match]]
dscp = "EF"
class = "urgent"
[[policy.match]]
protocol = "udp"
max_octets = "200 B"
class = "a"
"#,
    r#"
name = "ethernet"
[host]
kind = "tap"
mac = "02:00:00:00:00:01"
addresses = ["10.1.0.1/16", "fd00:1::1/64"]
advertise = ["fd00:1::/64"]
[answers]
preset = "network-adapter"
[answers.hellos]
protocols = ["ospf", "rip"]
refresh = "5 s"
[[port]]
name = "line"
kind = "serial"
baud = 9600
[[port]]
name = "net"
kind = "udp"
[[route]]
prefix = "10.2.0.0/16"
port = "line"
[[route]]
prefix = "fd00:2::/32"
port = "net"
[[route]]
prefix = "224.0.0.0/4"
port = "line"
[[route]]
prefix = "10.3.0.0/16"
port = "host"
via = "10.1.0.2"
"#,
];

/// The gateway's configuration at a number.
pub fn config(number: usize) -> NodeConfig {
    let text = CONFIGS[number % CONFIGS.len()];
    match config_text::parse("fuzz.toml", text) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

/// A gateway, its time and its journal.
struct Bench {
    gateway: Gateway,
    ports: u8,
    now: Instant,
    writer: JournalWriter,
    file: Vec<u8>,
    pulls: u64,
}

impl Bench {
    fn new(config: &NodeConfig) -> Self {
        let text = config.to_text().expect("a configuration is TOML");
        let settings = JournalSettings {
            octets_max: u64::MAX,
            mask_payloads: false,
        };
        let mut file = Vec::new();
        let writer = JournalWriter::new(settings, &text, &Boot::default(), &mut file);
        Self {
            gateway: Gateway::new(config).expect("the configuration can work"),
            ports: config.ports.len() as u8 + 1,
            now: Instant::ZERO,
            writer,
            file,
            pulls: 0,
        }
    }

    fn give(&mut self, input: &Input<'_>) {
        self.writer.input(self.now, input, &mut self.file);
        self.gateway.handle(self.now, input.clone());
        if *input == Input::Timeout {
            let wake = self.gateway.wake();
            let again = wake.filter(|wake| wake.at <= self.now);
            assert_eq!(again, None, "a timeout at {:?} was not enough", self.now);
        }
    }

    fn pull(&mut self, port: PortId, room: Room) -> bool {
        let mut out = vec![0xee; 3];
        let meta = self.gateway.poll_transmit(self.now, port, room, &mut out);
        assert_eq!(out[..3], [0xee; 3], "what was there before changed");
        let octets = &out[3..];
        let Some(meta) = meta else {
            assert!(octets.is_empty(), "a pull without an answer gave octets");
            return false;
        };
        assert!(
            octets.len() <= room.octets,
            "port {port:?} overran its room"
        );
        assert!(!octets.is_empty(), "a pull was answered by nothing");
        let (writer, file) = (&mut self.writer, &mut self.file);
        writer.pulled(self.now, port, room, &meta, octets, file);
        self.pulls += 1;
        true
    }

    fn effects(&mut self) {
        while let Some(effect) = self.gateway.poll_effect() {
            let Effect::Fate(record) = effect else {
                panic!("a gateway has no use for {effect:?}");
            };
            let stay = record.ended.since(record.began).as_nanos();
            let parts = u128::from(record.parts.total_ns());
            assert_eq!(parts, stay, "the parts of {record:?} don't add up");
        }
    }

    fn check(&mut self) {
        self.effects();
        self.gateway.check();
    }

    /// All ports give what they have, until there is no more.
    fn drain(&mut self) {
        for port in (0..self.ports).map(PortId) {
            let mut rounds = 0;
            let room = Room {
                octets: 70_000,
                starts: self.now,
                until: None,
                to: Neighbours::ALL,
            };
            while self.pull(port, room) {
                rounds += 1;
                assert!(rounds < ROUNDS_MAX, "port {port:?} has no end");
            }
        }
    }

    fn stop(&mut self) {
        self.give(&Input::Command(Command::Stop));
        self.check();
        let stats = self.gateway.stats();
        assert_eq!(stats.held(), 0, "a stopped gateway holds packets");
        let waits = stats.classes.iter();
        let queued: u64 = waits
            .map(|class| class.queued_packets + class.queued_octets)
            .sum();
        assert_eq!(queued, 0, "a stopped gateway says that packets wait");
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let kind = u.int_in_range(0..=31)?;
        match kind {
            0..=2 => {
                let ns = match u.int_in_range(0..=3)? {
                    0 => u64::from(u.arbitrary::<u16>()?),
                    1 => u64::from(u.arbitrary::<u32>()?),
                    2 => 1_000_000_000 * u64::from(u.arbitrary::<u8>()?),
                    _ => u.arbitrary::<u64>()? >> 8,
                };
                self.now += Duration::from_nanos(ns);
            }
            3 | 4 => self.give(&Input::Timeout),
            5 => {
                if let Some(wake) = self.gateway.wake() {
                    self.now = self.now.max(wake.at);
                }
                self.give(&Input::Timeout);
            }
            6..=15 => {
                let bytes = frame(u)?;
                let input = Input::Frame {
                    port: self.port(u)?,
                    from: neighbour(u)?,
                    bytes: &bytes,
                    meta: FrameMeta {
                        damaged: u.arbitrary()?,
                        snr_centi_db: u.arbitrary()?,
                        rate_bit_s: u.arbitrary()?,
                    },
                };
                self.give(&input);
            }
            16..=18 => {
                let input = Input::Port {
                    port: self.port(u)?,
                    event: port_event(u)?,
                };
                self.give(&input);
            }
            19..=28 => {
                let port = self.port(u)?;
                let room = self.room(u)?;
                self.gateway.wants(port);
                self.gateway.reads(port);
                self.pull(port, room);
            }
            29 => self.drain(),
            30 => self.give(&Input::Route(route(u)?)),
            _ => self.give(&other(u)?),
        }
        Ok(())
    }

    /// Mostly a port that is there.
    fn port(&self, u: &mut Unstructured<'_>) -> Result<PortId> {
        Ok(PortId(match u.arbitrary::<u8>()? {
            any @ 250.. => any,
            some => some % self.ports,
        }))
    }

    fn room(&self, u: &mut Unstructured<'_>) -> Result<Room> {
        let octets = match u.int_in_range(0..=3)? {
            0 => u.int_in_range(0..=16)?,
            1 => usize::from(u.arbitrary::<u8>()?),
            2 => usize::from(u.arbitrary::<u16>()?),
            _ => u.arbitrary()?,
        };
        let later = match u.arbitrary::<u8>()? {
            255 => u64::MAX,
            ms => 1_000_000 * u64::from(ms),
        };
        let starts = self.now + Duration::from_nanos(later);
        let until = u
            .arbitrary::<Option<u32>>()?
            .map(|ns| starts + Duration::from_nanos(u64::from(ns)));
        Ok(Room {
            octets,
            starts,
            until,
            to: match u.arbitrary()? {
                true => Neighbours::ALL,
                false => Neighbours::from_bits(u.arbitrary()?),
            },
        })
    }
}

fn neighbour(u: &mut Unstructured<'_>) -> Result<NeighbourId> {
    Ok(match u.arbitrary::<u8>()? {
        255 => NeighbourId::ALL,
        any @ 250..255 => NeighbourId(u16::from(any)),
        some => NeighbourId(u16::from(some % 2)),
    })
}

const ADDRESSES: [&str; 10] = [
    "10.1.0.2",
    "10.2.0.2",
    "10.3.0.2",
    "10.9.0.1",
    "224.0.0.1",
    "fd00:1::2",
    "fd00:2::2",
    "fd00:9::1",
    "ff02::1",
    "2001:db8::1",
];

/// An address that the configurations know, or any.
pub fn address(u: &mut Unstructured<'_>) -> Result<IpAddr> {
    Ok(match u.int_in_range(0..=11)? {
        10 => IpAddr::from(u.arbitrary::<[u8; 4]>()?),
        11 => IpAddr::from(u.arbitrary::<[u8; 16]>()?),
        known => ADDRESSES[known].parse().expect("an address"),
    })
}

/// A packet from one of the known hosts to another.
pub fn packet(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let (mut src, mut dst) = (address(u)?, address(u)?);
    if src.is_ipv4() != dst.is_ipv4() {
        (src, dst) = (
            ADDRESSES[0].parse().expect("IPv4"),
            ADDRESSES[1].parse().expect("IPv4"),
        );
    }
    let octets = match u.int_in_range(0..=3)? {
        0 => usize::from(u.arbitrary::<u8>()?),
        1 => 1500 - 28 + usize::from(u.arbitrary::<u8>()?) % 4,
        2 => usize::from(u.arbitrary::<u16>()?) % 1500,
        _ => usize::from(u.arbitrary::<u16>()?),
    };
    let payload = vec![u.arbitrary::<u8>()?; octets];
    let (port, dscp, hops): (u16, u8, u8) = u.arbitrary()?;
    let mut out = Vec::new();
    let (src, dst) = (SocketAddr::new(src, 9999), SocketAddr::new(dst, port));
    ip::build_udp(
        src,
        dst,
        dscp,
        hops,
        port,
        u32::from(port),
        &payload,
        &mut out,
    );
    // Anything may stand anywhere in it: other protocols, options, lengths that lie.
    for _ in 0..u.int_in_range(0..=3)? {
        let at = usize::from(u.arbitrary::<u8>()?);
        let octet = u.arbitrary()?;
        if let Some(place) = out.get_mut(at) {
            *place = octet;
        }
    }
    Ok(out)
}

/// Anything, a packet, a segment, a segment on an octet stream, a frame of an Ethernet.
fn frame(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let kind = u.int_in_range(0..=11)?;
    if kind > 7 {
        return crate::ethernet::frame(u);
    }
    if kind == 0 {
        let octets = u.int_in_range(0..=200)?.min(u.len());
        return Ok(u.bytes(octets)?.to_vec());
    }
    let packet = packet(u)?;
    if kind < 5 {
        return Ok(packet);
    }
    let header = SegmentHeader::parse(u.arbitrary()?);
    let check = [SegmentCheck::Short, SegmentCheck::Long][usize::from(u.arbitrary::<bool>()?)];
    let mut segment = Vec::new();
    emit_segment(header, &packet, check, &mut Crc32Sum::new(), &mut segment);
    if kind < 7 {
        return Ok(segment);
    }
    let mut line = Vec::new();
    strait_wire::octets::stuff_into(&segment, &mut line);
    line.push(strait_wire::octets::FLAG);
    Ok(line)
}

fn port_event(u: &mut Unstructured<'_>) -> Result<PortEvent> {
    Ok(match u.int_in_range(0..=10)? {
        9 => PortEvent::Neighbour(neighbour(u)?, u.arbitrary()?),
        10 => PortEvent::NeighbourRate(neighbour(u)?, state(u)?.tx_rate),
        0..=3 => PortEvent::Up(state(u)?),
        4 | 5 => PortEvent::Changed(state(u)?),
        6 => PortEvent::Carrier(u.arbitrary()?),
        7 => PortEvent::Drained,
        _ if u.arbitrary()? => PortEvent::Down(DownCause::Device),
        _ => PortEvent::Down(DownCause::Carrier),
    })
}

fn state(u: &mut Unstructured<'_>) -> Result<PortState> {
    let mut rate = || -> Result<LineRate> {
        let bit_s = match u.int_in_range(0..=2)? {
            0 => u64::from(u.arbitrary::<u16>()?),
            1 => u64::from(u.arbitrary::<u32>()?),
            _ => u.arbitrary()?,
        };
        Ok(LineRate::new(bit_s, u.arbitrary()?))
    };
    Ok(PortState {
        tx_rate: rate()?,
        rx_rate: rate()?,
        frame_octets_max: u.arbitrary()?,
        block: Duration::from_nanos(u.arbitrary()?),
        latency: Duration::from_nanos(u.arbitrary()?),
        notice: Notice::NONE,
    })
}

fn route(u: &mut Unstructured<'_>) -> Result<RouteChange> {
    let prefix = address(u)?;
    let length = u.arbitrary::<u8>()? % 140;
    Ok(if u.ratio(1, 3)? {
        RouteChange::Remove { prefix, length }
    } else {
        RouteChange::Add {
            prefix,
            length,
            port: PortId(match u.arbitrary::<u8>()? {
                any @ 128.. => any,
                some => some % 4,
            }),
            via: neighbour(u)?,
        }
    })
}

/// A port's number, mostly.
fn owner(u: &mut Unstructured<'_>) -> Result<Owner> {
    Ok(Owner(u.int_in_range(0..=8)?))
}

/// What the gateway has no use for, and the end.
fn other<'a>(u: &mut Unstructured<'a>) -> Result<Input<'a>> {
    let octets = u.int_in_range(0..=20)?.min(u.len());
    let bytes = u.bytes(octets)?;
    Ok(match u.int_in_range(0..=11)? {
        0 => Input::Stream {
            id: StreamId {
                owner: owner(u)?,
                side: [Side::Node, Side::Client][usize::from(u.arbitrary::<bool>()?)],
                n: u.arbitrary()?,
            },
            event: StreamEvent::Data(bytes),
        },
        1 => Input::Datagram {
            socket: SocketId {
                owner: owner(u)?,
                n: u.arbitrary()?,
            },
            meta: DatagramMeta {
                src: SocketAddr::new(address(u)?, u.arbitrary()?),
                dst: SocketAddr::new(address(u)?, u.arbitrary()?),
                dscp: u.arbitrary()?,
                hop_limit: u.arbitrary()?,
            },
            bytes,
        },
        2 => Input::Stored {
            ticket: Ticket {
                owner: owner(u)?,
                n: u.arbitrary()?,
            },
            result: Err(StoreError::Failed),
        },
        3 => Input::Loaded {
            ticket: Ticket {
                owner: owner(u)?,
                n: u.arbitrary()?,
            },
            result: match u.int_in_range(0..=2)? {
                0 => Err(StoreError::Failed),
                1 => Ok(None),
                _ => Ok(Some(bytes)),
            },
        },
        4 => Input::Wall(WallTime(u.arbitrary()?)),
        5 => Input::Command(Command::Stop),
        6 => Input::Worked {
            ticket: Ticket {
                owner: owner(u)?,
                n: u.arbitrary()?,
            },
            result: Ok(bytes),
        },
        _ => Input::TxDone {
            port: PortId(u.arbitrary()?),
            id: TxId(u.arbitrary()?),
            to: NeighbourId(u.arbitrary()?),
            ok: u.arbitrary()?,
        },
    })
}

/// Steps of one session; more only cost time.
const STEPS_MAX: usize = 400;

/// A session as `data` says; the pulls that were answered, and the journal.
pub fn session(data: &[u8]) -> (u64, Vec<u8>) {
    let mut u = Unstructured::new(data);
    let number = usize::from(u.arbitrary::<u8>().unwrap_or(0));
    let mut bench = Bench::new(&config(number));
    for _ in 0..STEPS_MAX {
        if u.is_empty() || bench.step(&mut u).is_err() {
            break;
        }
        bench.check();
    }
    bench.stop();
    (bench.pulls, bench.file)
}

/// Any inputs, any pulls; then the journal is replayed.
pub fn gateway_handle(data: &[u8]) {
    let (pulls, file) = session(data);
    match journal::replay(&file) {
        Ok(report) => {
            if let Some(difference) = report.difference {
                panic!("the journal tells another story: {difference}");
            }
            assert_eq!(report.pulls, pulls);
        }
        Err(error) => panic!("the journal can't be replayed: {error}"),
    }
}
