//! Packets of flows of all kinds that header compression knows.

use core::net::IpAddr;

use strait_link::rohc::Provision;

pub(crate) mod streams;

/// A small generator: the same numbers for the same seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    pub(crate) fn happens(&mut self, share: f64) -> bool {
        (self.below(1_000_000) as f64) < share * 1e6
    }
}

fn sum(start: u32, octets: &[u8]) -> u16 {
    let mut sum = start;
    for pair in octets.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// The checksum of a transport whose own is zero yet, or isn't there.
fn transport_checksum(src: &[u8], dst: &[u8], protocol: u8, body: &[u8]) -> u16 {
    let octets = (body.len() as u16).to_be_bytes();
    let pseudo = [src, dst, &[0, protocol], &octets].concat();
    sum(u32::from(!sum(0, &pseudo)), body)
}

/// What a flow's packets are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Voice6,
    Voice4,
    Udp6,
    Udp4 {
        random_id: bool,
    },
    Esp6,
    Ping4,
    /// One way: segments of 512 octets, with timestamps or without.
    Bulk6 {
        stamps: bool,
    },
    /// Its acknowledgements, some of them selective.
    Acks6 {
        stamps: bool,
    },
    /// The same over IPv4, whose identifications count.
    Bulk4,
    Acks4,
    /// A dialogue both ways: all that a TCP header may change.
    Talk4,
    Talk6,
}

pub(crate) struct Flow {
    kind: Kind,
    host: u8,
    pub(crate) sequence: u32,
    pub(crate) timestamp: u32,
    pub(crate) id: u16,
    pub(crate) hops: u8,
    /// Shares of packets that come after a pause, and with another hop limit.
    pub(crate) pauses: f64,
    pub(crate) reroutes: f64,
    /// The identification of every packet.
    pub(crate) fixed_id: Option<u16>,
    /// RTP packets say that they are padded.
    pub(crate) padding: bool,
    /// Octets of a segment of TCP's bulk.
    pub(crate) segment: u32,
    tcp: Tcp,
}

/// What a TCP flow has come to.
#[derive(Clone, Copy, Default)]
struct Tcp {
    packets: u32,
    ack: u32,
    window: u16,
    echo: u32,
    /// Packets that still carry a selective acknowledgement.
    sack_left: u8,
}

impl Flow {
    pub(crate) fn new(kind: Kind, host: u8, dice: &mut Dice) -> Self {
        Self {
            kind,
            host,
            sequence: dice.draw() as u32,
            timestamp: dice.draw() as u32,
            id: dice.draw() as u16,
            hops: 60,
            pauses: 0.02,
            reroutes: 0.002,
            fixed_id: None,
            padding: false,
            segment: 512,
            tcp: Tcp {
                ack: dice.draw() as u32,
                window: 501,
                echo: dice.draw() as u32,
                ..Tcp::default()
            },
        }
    }

    fn v6(&self) -> bool {
        use Kind::{Acks6, Bulk6, Esp6, Talk6, Udp6, Voice6};
        matches!(
            self.kind,
            Voice6 | Udp6 | Esp6 | Talk6 | Bulk6 { .. } | Acks6 { .. }
        )
    }

    /// What is known of a flow of `kind` over UDP and IPv6 before it begins.
    pub(crate) fn provision(kind: Kind, host: u8) -> Provision {
        let packet = Self::new(kind, host, &mut Dice(0)).next(&mut Dice(0));
        let address = |at: usize| {
            let octets: [u8; 16] = packet[at..at + 16].try_into().expect("an address");
            IpAddr::from(octets)
        };
        let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        Provision {
            src: address(8),
            dst: address(24),
            ports: [port(40), port(42)],
        }
    }

    pub(crate) fn next(&mut self, dice: &mut Dice) -> Vec<u8> {
        let pause = self.advance(dice);
        if dice.happens(0.02) {
            self.id = self.id.wrapping_add(dice.below(500) as u16);
        }
        if dice.happens(self.reroutes) {
            self.hops = 50 + dice.below(10) as u8;
        }
        if self.kind == (Kind::Udp4 { random_id: true }) {
            self.id = dice.draw() as u16;
        }
        self.id = self.fixed_id.unwrap_or(self.id);
        let (protocol, body) = self.body(pause, dice);
        self.packet(protocol, body)
    }

    /// Counts on to the next packet; says whether that comes after a pause.
    fn advance(&mut self, dice: &mut Dice) -> bool {
        // TCP counts octets, by itself.
        if self.tcp.packets == 0 {
            self.sequence = self.sequence.wrapping_add(1);
        }
        self.timestamp = self.timestamp.wrapping_add(160);
        self.id = self.id.wrapping_add(1);
        let pause = dice.happens(self.pauses);
        if pause {
            self.timestamp = self.timestamp.wrapping_add(160 * dice.below(300) as u32);
        }
        pause
    }

    fn body(&mut self, pause: bool, dice: &mut Dice) -> (u8, Vec<u8>) {
        let payload: Vec<u8> = (0..20).map(|_| dice.draw() as u8).collect();
        match self.kind {
            Kind::Voice6 | Kind::Voice4 => {
                let padding = u8::from(self.padding) << 5;
                let mut rtp = vec![0x80 | padding, u8::from(pause) << 7 | 96];
                rtp.extend_from_slice(&(self.sequence as u16).to_be_bytes());
                rtp.extend_from_slice(&self.timestamp.to_be_bytes());
                rtp.extend_from_slice(&[9, 9, 9, self.host]);
                rtp.extend_from_slice(&payload);
                (17, udp(5004, &rtp))
            }
            Kind::Udp6 | Kind::Udp4 { .. } => (17, udp(4001, &payload)),
            Kind::Esp6 => {
                let mut esp = vec![0, 0, 1, self.host];
                esp.extend_from_slice(&self.sequence.to_be_bytes());
                esp.extend_from_slice(&payload);
                (50, esp)
            }
            Kind::Ping4 => {
                let mut icmp = vec![8, 0, 0, 0];
                icmp.extend_from_slice(&payload);
                let check = sum(0, &icmp);
                icmp[2..4].copy_from_slice(&check.to_be_bytes());
                (1, icmp)
            }
            Kind::Bulk6 { stamps } => (6, self.bulk(stamps, dice)),
            Kind::Acks6 { stamps } => (6, self.acks(stamps, dice)),
            Kind::Bulk4 => (6, self.bulk(false, dice)),
            Kind::Acks4 => (6, self.acks(true, dice)),
            Kind::Talk4 | Kind::Talk6 => (6, self.talk(dice)),
        }
    }

    fn packet(&self, protocol: u8, mut body: Vec<u8>) -> Vec<u8> {
        let mut packet = Vec::new();
        let (src, dst) = if self.v6() {
            let mut address = [
                0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, self.host,
            ];
            let src = address.to_vec();
            address[5] = 1;
            (src, address.to_vec())
        } else {
            (vec![10, 1, 0, self.host], vec![10, 2, 0, self.host])
        };
        let checksum_at = match protocol {
            17 => Some(6),
            6 => Some(16),
            _ => None,
        };
        if let Some(at) = checksum_at {
            let check = transport_checksum(&src, &dst, protocol, &body);
            body[at..at + 2].copy_from_slice(&check.to_be_bytes());
        }
        if self.v6() {
            packet.extend_from_slice(&[0x6b, 0x80, 0, 0]);
            packet.extend_from_slice(&(body.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[protocol, self.hops]);
        } else {
            packet.extend_from_slice(&[0x45, 0]);
            packet.extend_from_slice(&(20 + body.len() as u16).to_be_bytes());
            packet.extend_from_slice(&self.id.to_be_bytes());
            packet.extend_from_slice(&[0, 0, self.hops, protocol, 0, 0]);
        }
        packet.extend_from_slice(&src);
        packet.extend_from_slice(&dst);
        if !self.v6() {
            let check = sum(0, &packet);
            packet[10..12].copy_from_slice(&check.to_be_bytes());
        }
        packet.extend_from_slice(&body);
        packet
    }
}

impl Flow {
    /// A segment: flags, options and payload.
    fn segment(&self, flags: u8, reserved: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0xc0, self.host, 0, 80];
        tcp.extend_from_slice(&self.sequence.to_be_bytes());
        let ack = if flags & 0x10 != 0 { self.tcp.ack } else { 0 };
        tcp.extend_from_slice(&ack.to_be_bytes());
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 0);
        tcp.push((5 + options.len() as u8 / 4) << 4 | reserved);
        tcp.push(flags);
        tcp.extend_from_slice(&self.tcp.window.to_be_bytes());
        tcp.extend_from_slice(&[0, 0]);
        let urgent = if flags & 0x20 != 0 { 77u16 } else { 0 };
        tcp.extend_from_slice(&urgent.to_be_bytes());
        tcp.extend_from_slice(&options);
        tcp.extend_from_slice(payload);
        tcp
    }

    fn stamps(&self) -> Vec<u8> {
        let mut options = vec![1, 1, 8, 10];
        options.extend_from_slice(&self.timestamp.to_be_bytes());
        options.extend_from_slice(&self.tcp.echo.to_be_bytes());
        options
    }

    /// The first segment of a connection.
    fn opens(&mut self, stamps: bool) -> Option<Vec<u8>> {
        self.tcp.packets += 1;
        if self.tcp.packets > 1 {
            return None;
        }
        let mut options = vec![2, 4, 5, 0xa0, 4, 2, 3, 3, 7];
        if stamps {
            options.extend_from_slice(&self.stamps());
        } else {
            options.insert(6, 1);
        }
        let syn = self.segment(2, 0, &options, &[]);
        self.sequence = self.sequence.wrapping_add(1);
        Some(syn)
    }

    fn bulk(&mut self, stamps: bool, dice: &mut Dice) -> Vec<u8> {
        if let Some(syn) = self.opens(stamps) {
            return syn;
        }
        // The echo follows a round trip behind.
        self.tcp.echo = self.timestamp.wrapping_sub(700);
        let options = if stamps { self.stamps() } else { Vec::new() };
        let payload: Vec<u8> = (0..self.segment).map(|_| dice.draw() as u8).collect();
        let push = u8::from(self.tcp.packets.is_multiple_of(8)) << 3;
        let segment = self.segment(0x10 | push, 0, &options, &payload);
        self.sequence = self.sequence.wrapping_add(self.segment);
        if dice.happens(self.reroutes) {
            self.sequence = self.sequence.wrapping_sub(3 * self.segment);
        }
        segment
    }

    fn acks(&mut self, stamps: bool, dice: &mut Dice) -> Vec<u8> {
        if let Some(syn) = self.opens(stamps) {
            return syn;
        }
        let mut options = if stamps { self.stamps() } else { Vec::new() };
        if self.tcp.sack_left > 0 {
            self.tcp.sack_left -= 1;
            let begins = self.tcp.ack.wrapping_add(512);
            let ends = begins.wrapping_add(512 * u32::from(5 - self.tcp.sack_left));
            options.extend_from_slice(&[1, 1, 5, 10]);
            options.extend_from_slice(&begins.to_be_bytes());
            options.extend_from_slice(&ends.to_be_bytes());
        } else {
            self.tcp.ack = self.tcp.ack.wrapping_add(1024);
            self.tcp.echo = self.tcp.echo.wrapping_add(300);
            if dice.happens(self.pauses) {
                self.tcp.sack_left = 5;
            }
        }
        self.segment(0x10, 0, &options, &[])
    }

    fn talk(&mut self, dice: &mut Dice) -> Vec<u8> {
        let stamps = self.host.is_multiple_of(2);
        if let Some(syn) = self.opens(stamps) {
            return syn;
        }
        let mut options = if stamps { self.stamps() } else { Vec::new() };
        if dice.happens(0.3) {
            self.tcp.ack = self.tcp.ack.wrapping_add(dice.below(3000) as u32);
            self.tcp.echo = self.tcp.echo.wrapping_add(dice.below(90) as u32);
        }
        if dice.happens(0.1) {
            self.tcp.window = self.tcp.window.wrapping_add(dice.below(900) as u16);
        }
        let rare = |dice: &mut Dice, bits: u8| if dice.happens(0.01) { bits } else { 0 };
        let mut flags = 0x10 | (dice.below(2) as u8) << 3;
        for bits in [0x20, 0x80, 0x40, 0x01, 0x04, 0x07, 0x02] {
            flags |= rare(dice, bits);
        }
        if dice.happens(0.02) {
            flags &= !0x10;
        }
        // A kind that isn't well known, now and then with other contents.
        if dice.happens(0.2) {
            options.extend_from_slice(&[30, 4, 9, u8::from(dice.happens(0.3))]);
        }
        if dice.happens(0.02) {
            options.extend_from_slice(&[0, 0, 0, 0]);
        }
        let reserved = rare(dice, 5);
        let octets = [0, 0, 1, 100, 512][dice.below(5) as usize];
        let payload = vec![dice.draw() as u8; octets];
        let segment = self.segment(flags, reserved, &options, &payload);
        self.sequence = self.sequence.wrapping_add(octets as u32);
        segment
    }
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut udp = vec![0x10, 0];
    udp.extend_from_slice(&port.to_be_bytes());
    udp.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    udp.extend_from_slice(&[0, 0]);
    udp.extend_from_slice(payload);
    udp
}

pub(crate) const KINDS: [Kind; 15] = [
    Kind::Voice6,
    Kind::Voice4,
    Kind::Udp6,
    Kind::Udp4 { random_id: false },
    Kind::Udp4 { random_id: true },
    Kind::Esp6,
    Kind::Ping4,
    Kind::Bulk6 { stamps: true },
    Kind::Bulk6 { stamps: false },
    Kind::Acks6 { stamps: true },
    Kind::Acks6 { stamps: false },
    Kind::Bulk4,
    Kind::Acks4,
    Kind::Talk4,
    Kind::Talk6,
];
