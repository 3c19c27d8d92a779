//! Two gateways and a line that loses, repeats and spoils: what comes out went in.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use arbitrary::{Result, Unstructured};
use strait_core::node::{FrameMeta, Notice, PortEvent, PortState};
use strait_core::rate::LineRate;
use strait_core::{Duration, Input, Instant, NeighbourId, Neighbours, Node, PortId, Room};
use strait_node::{Gateway, NodeConfig, config_text};

const LINE: PortId = PortId(1);

/// Each end's port. All have the long check: a fuzzer finds octets that pass a short one.
const PORTS: [&str; 4] = [
    "kind = \"serial\"\nbaud = 9600",
    "kind = \"serial\"\nbaud = 2400\nprofile = \"plain\"\ncheck = 32",
    "kind = \"serial\"\nbaud = 75\nsegment = \"8 B\"",
    "kind = \"udp\"\nrate = \"64 kbit/s\"\nframe = \"64 B\"",
];

struct End {
    gateway: Gateway,
    /// Packets that went in on the host side and must come out at the other end.
    sent: BTreeSet<Vec<u8>>,
    /// Octets or frames under way to the other end.
    pipe: Vec<Vec<u8>>,
}

impl End {
    fn new(number: usize) -> Self {
        let text = format!(
            "name = \"a\"\n[host]\n[[port]]\nname = \"line\"\n{}\n",
            PORTS[number]
        );
        let config: NodeConfig = match config_text::parse("fuzz.toml", &text) {
            Ok(config) => config,
            Err(error) => panic!("{error}"),
        };
        let mut gateway = Gateway::new(&config).expect("the configuration can work");
        let rates = [LineRate::new(1_000_000_000, 8), LineRate::new(9600, 10)];
        for (port, rate) in rates.into_iter().enumerate() {
            let state = PortState {
                tx_rate: rate,
                rx_rate: rate,
                frame_octets_max: 1500,
                block: Duration::ZERO,
                latency: Duration::ZERO,
                notice: Notice::NONE,
            };
            let input = Input::Port {
                port: PortId(port as u8),
                event: PortEvent::Up(state),
            };
            gateway.handle(Instant::ZERO, input);
        }
        Self {
            gateway,
            sent: BTreeSet::new(),
            pipe: Vec::new(),
        }
    }

    fn feed(&mut self, now: Instant, port: PortId, bytes: &[u8]) {
        let input = Input::Frame {
            port,
            from: NeighbourId::PEER,
            bytes,
            meta: FrameMeta::default(),
        };
        self.gateway.handle(now, input);
    }

    fn pull(&mut self, now: Instant, port: PortId, octets: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let room = Room {
            octets,
            starts: now,
            until: None,
            to: Neighbours::ALL,
        };
        let meta = self.gateway.poll_transmit(now, port, room, &mut out);
        meta.map(|_| out)
    }

    fn settle(&mut self) {
        while self.gateway.poll_effect().is_some() {}
        self.gateway.check();
    }
}

/// What the line does to octets.
fn spoil(u: &mut Unstructured<'_>, bytes: &mut Vec<u8>) -> Result<()> {
    let at = usize::from(u.arbitrary::<u8>()?) % (bytes.len() + 1);
    match u.int_in_range(0..=3)? {
        0 => bytes.clear(),
        1 => bytes.truncate(at),
        2 => bytes.insert(at, u.arbitrary()?),
        _ => {
            if let Some(octet) = bytes.get_mut(at) {
                *octet ^= u.arbitrary::<u8>()?;
            }
        }
    }
    Ok(())
}

fn packet(u: &mut Unstructured<'_>, number: u32) -> Result<Vec<u8>> {
    let ends = if u.arbitrary()? {
        ["10.1.0.2:7", "10.2.0.2:7"]
    } else {
        ["[fd00:1::2]:7", "[fd00:2::2]:7"]
    };
    let [src, dst] = ends.map(|end| end.parse::<SocketAddr>().expect("an address"));
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(
        4 + usize::from(u.arbitrary::<u16>()?) % 1440,
        u.arbitrary()?,
    );
    let dscp = [0, 8, 26, 46, 48][usize::from(u.arbitrary::<u8>()?) % 5];
    let mut out = Vec::new();
    strait_wire::ip::build_udp(src, dst, dscp, 9, number as u16, 0, &payload, &mut out);
    Ok(out)
}

/// Rounds in which both ends send all they have: nothing happens to it, but questions wait.
const ROUNDS_MAX: usize = 100;

struct Pair {
    ends: [End; 2],
    now: Instant,
    number: u32,
    /// The line does nothing bad.
    fair: bool,
}

impl Pair {
    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let which = usize::from(u.arbitrary::<bool>()?);
        match u.int_in_range(0..=7)? {
            0 | 1 => {
                let bytes = packet(u, self.number)?;
                self.number += 1;
                self.ends[which].feed(self.now, PortId::HOST, &bytes);
                self.ends[which].sent.insert(bytes);
            }
            2 => {
                self.now += Duration::from_millis(u64::from(u.arbitrary::<u16>()?));
                self.ends[which].gateway.handle(self.now, Input::Timeout);
            }
            3..=5 => {
                let octets = usize::from(u.arbitrary::<u16>()?) % 3000;
                let pulled = self.ends[which].pull(self.now, LINE, octets);
                self.ends[which].pipe.extend(pulled);
            }
            6 if !self.fair => {
                let pipe = &mut self.ends[which].pipe;
                let at = usize::from(u.arbitrary::<u8>()?);
                if !pipe.is_empty() {
                    let at = at % pipe.len();
                    if u.ratio(1, 4)? {
                        let again = pipe[at].clone();
                        pipe.push(again);
                    } else {
                        spoil(u, &mut pipe[at])?;
                    }
                }
            }
            _ => self.deliver(which),
        }
        Ok(())
    }

    fn deliver(&mut self, from: usize) {
        let pipe = core::mem::take(&mut self.ends[from].pipe);
        for bytes in pipe {
            self.ends[1 - from].feed(self.now, LINE, &bytes);
            self.take_out(1 - from);
        }
    }

    /// What comes out of the host side must have gone in at the other end.
    fn take_out(&mut self, at: usize) {
        while let Some(bytes) = self.ends[at].pull(self.now, PortId::HOST, 70_000) {
            let known = self.ends[1 - at].sent.contains(&bytes);
            assert!(known, "a packet came out that never went in: {bytes:02x?}");
        }
    }

    fn finish(&mut self) {
        // What a line with errors carries stays with its sender until it has come.
        for _ in 0..ROUNDS_MAX {
            for from in [0, 1] {
                while let Some(bytes) = self.ends[from].pull(self.now, LINE, 3000) {
                    self.ends[from].pipe.push(bytes);
                }
                self.deliver(from);
                self.take_out(1 - from);
            }
            let ends = self.ends.iter();
            if ends.map(|end| end.gateway.stats().held()).sum::<u64>() == 0 {
                break;
            }
            self.now += Duration::from_secs(1);
            for end in &mut self.ends {
                end.gateway.handle(self.now, Input::Timeout);
            }
        }
        for from in [0, 1] {
            let stats = [from, 1 - from].map(|end| self.ends[end].gateway.stats());
            assert_eq!(stats[0].held(), 0, "something did not get out");
            if self.fair {
                assert_eq!(
                    stats[0].forwarded,
                    stats[1].admitted - self.ends[1 - from].number()
                );
            }
        }
    }
}

impl End {
    /// Packets that went in on the host side.
    fn number(&self) -> u64 {
        self.sent.len() as u64
    }
}

/// Two linked gateways; every packet out equals one that went in, and on a fair line what left
/// one arrives at the other.
pub fn gateway_pair(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let choice = u.arbitrary::<u8>().unwrap_or(0);
    let port = usize::from(choice) % PORTS.len();
    let mut pair = Pair {
        ends: [End::new(port), End::new(port)],
        now: Instant::ZERO,
        number: 0,
        fair: choice & 0x80 != 0,
    };
    for _ in 0..400 {
        if u.is_empty() || pair.step(&mut u).is_err() {
            break;
        }
        pair.ends.iter_mut().for_each(End::settle);
    }
    pair.finish();
}
